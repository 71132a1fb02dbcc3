# SPDX-License-Identifier: GPL-2.0-only
"""Make the kernel's allocator fail, on kernels that let one do so.

Only allocations with a function of a module on the stack are meant: those in
a range of addresses, ib_ipoib's or all modules'.
"""

import contextlib
import ctypes
import os

from .ksft import Skip
from .utils import exists, write

KNOBS = ("/sys/kernel/debug/failslab", "/sys/kernel/debug/fail_page_alloc")
# Where modules are on amd64, whichever
MODULES = (0xffffffffa0000000, 0xffffffffff000000)
MANY = 1 << 20
SYS_FINIT_MODULE = 313

_libc = ctypes.CDLL(None, use_errno=True)


def available():
    """Does this kernel have fault injection that looks at the stack?"""
    return all(exists(f"{where}/require-start") for where in KNOBS)


def need():
    """Skip the case on other kernels."""
    if not available():
        raise Skip("the kernel has no fault injection")


def _set(**values):
    for where in KNOBS:
        for name, value in values.items():
            write(f"{where}/{name.replace('_', '-')}", value)


def _prepare(where, but=(0, 0)):
    _set(probability=0, verbose=0, task_filter=0, times=-1, interval=1,
         space=0, stacktrace_depth=32, require_start=where[0],
         require_end=where[1], reject_start=but[0], reject_end=but[1],
         ignore_gfp_wait=0)
    write(f"{KNOBS[1]}/ignore-gfp-highmem", 0)
    write(f"{KNOBS[1]}/min-order", 0)


@contextlib.contextmanager
def nth(number, where):
    """
    Let the @number-th allocation of the block fail that this thread makes
    and that @where is on the stack of.  Gives a function that says how many
    more would have had to come; 0 if one failed.
    """
    _prepare(where)
    fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
    left = [None]
    try:
        os.pwrite(fd, str(number).encode(), 0)
        yield lambda: left[0]
    finally:
        left[0] = int(os.pread(fd, 20, 0).decode())
        os.pwrite(fd, b"0", 0)
        os.close(fd)


def count(act, where):
    """How many allocations @act makes."""
    with nth(MANY, where) as left:
        act()
    return MANY - left()


@contextlib.contextmanager
def often(percent, where, but=(0, 0)):
    """
    Let so many per cent of all allocations fail that @where makes, except those
    with @but on the stack, too: what is received may be looked at before something
    that is sent has returned.
    """
    _prepare(where, but)
    _set(probability=percent)
    try:
        yield
    finally:
        _set(probability=0)


@contextlib.contextmanager
def large(order, where):
    """Let all allocations of at least 2^@order pages fail that @where makes."""
    _prepare(where)
    write(f"{KNOBS[1]}/min-order", order)
    write(f"{KNOBS[1]}/probability", 100)
    try:
        yield
    finally:
        _set(probability=0)


def insert(path):
    """Load a module by a system call of this thread, whose allocations can fail."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if _libc.syscall(SYS_FINIT_MODULE, fd, b"", 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(fd)
