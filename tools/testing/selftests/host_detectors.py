#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Each detector of the kernel under test fires, and the runner hears it.

A module with defects (tools/testing/broken) is loaded in a machine of its own,
which brings them about one after the other.  The runner must report each, and
lay it at the door of the right test.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
import time

from lib import (Skip, cmd, define, kmemleak, ksft_eq, ksft_pr, ksft_true,
                 read, timeout, write)
from lib.ksft import marker
from common import ROOT, RUN, TESTING, VM, built, kernels

BOOT = "host"

KERNEL = os.environ.get("IPOIB_TEST_KERNEL", "6.12")
TRIGGER = "/sys/kernel/debug/broken/defect"
sys.path.append(VM)
import klog  # noqa: E402  pylint: disable=wrong-import-position

# Name of the defect, names of patterns of which its report matches one, and
# what the kernel must be configured with ("!": without).  The order matters:
# lockdep ends with its first report, and that of RCU with it; 6.1 does not live
# long after a double free.
CASES = {
    # kmemleak finds memory that nobody points to.
    "test_leak": ("leak", {"kmemleak"}, ["DEBUG_KMEMLEAK"]),
    # An RCU pointer is read outside of a read-side section.
    "test_rcu_usage": ("rcu-usage", {"rcu-usage"}, ["PROVE_RCU"]),
    # lockdep sees two locks taken in both orders.
    "test_lock_inversion": ("lock-order", {"lockdep-circular"},
                            ["PROVE_LOCKING"]),
    # A function that may sleep is called under a spinlock.
    "test_sleep_in_atomic": ("sleep-in-atomic", {"atomic"},
                             ["DEBUG_ATOMIC_SLEEP"]),
    # UBSAN sees an index behind an array.
    "test_array_bounds": ("bounds", {"ubsan"}, ["UBSAN_BOUNDS"]),
    # UBSAN sees a shift by more than there are bits.
    "test_shift": ("shift", {"ubsan"}, ["UBSAN_SHIFT"]),
    # An object is freed with a timer in it that runs.
    "test_active_timer": ("timer", {"debug-objects"},
                          ["DEBUG_OBJECTS_FREE", "DEBUG_OBJECTS_TIMERS"]),
    # The DMA API sees the unmapping of what was never mapped.
    "test_dma": ("dma", {"dma-api"}, ["DMA_API_DEBUG"]),
    # A network device goes while somebody holds it.
    "test_netdev_reference": ("netdev-ref", {"ref-tracker"},
                              ["NET_DEV_REFCNT_TRACKER"]),
    # A reference count goes below zero.
    "test_refcount": ("refcount", {"refcount"}, []),
    # A memcpy() goes across the end of a field.
    "test_fortify": ("fortify", {"fortify"}, ["FORTIFY_SOURCE"]),
    # Sleeping with preemption disabled is noticed.
    "test_schedule_in_atomic": ("schedule-in-atomic", {"atomic"},
                                ["PREEMPT_COUNT"]),
    # KASAN sees a use after free.
    "test_use_after_free": ("use-after-free", {"kasan"}, ["KASAN"]),
    # KASAN, or a red zone, sees a write behind an object.
    "test_out_of_bounds": ("out-of-bounds", {"kasan", "slab"}, ["SLUB_DEBUG"]),
    # KFENCE is on: it sees a use after free of an object it sampled.
    "test_kfence": ("kfence", {"kfence"}, ["KFENCE", "!KASAN"]),
    # A task that does not get on is noticed.
    "test_hung_task": ("hung-task", {"hung-task"}, ["DETECT_HUNG_TASK"]),
    # A CPU that does not get on is noticed.
    "test_soft_lockup": ("soft-lockup", {"soft-lockup"},
                         ["SOFTLOCKUP_DETECTOR"]),
    # A list is corrupt.
    "test_list": ("list", {"list"}, ["DEBUG_LIST"]),
    # An object that is freed twice is noticed.
    "test_double_free": ("double-free", {"kasan", "slab"}, ["SLUB_DEBUG"]),
}
DEFECTS = {name: more for name, *more in CASES.values()}
# Kernels whose allocator may oops (get_partial_node()) some time after the last
# defect, the double free
WRECKED = {"6.1"}
# What a debug kernel need not have
NOT_DEBUG = {"kfence"}
# Settings of the runner that end the machine, off for a while, and those that
# shorten the wait.
DEADLY = ("hung_task_panic", "softlockup_panic", "panic_on_oops")
SHORT = {"hung_task_timeout_secs": 2, "watchdog_thresh": 2}


# ---- in the machine, as a program ---------------------------------------


def trigger(names):
    """Bring the defects about, each under its name."""
    kernel = "/proc/sys/kernel"
    for name in DEADLY:
        ksft_eq(read(f"{kernel}/{name}"), "1", name)
        write(f"{kernel}/{name}", 0)
    for name, value in SHORT.items():
        write(f"{kernel}/{name}", value)
    cmd(["insmod", os.environ["BROKEN"]])
    for name in names:
        marker(f"broken.{name}")
        # A process of its own, which may not survive it
        done = cmd(f"echo {name} > {TRIGGER}", fail=False, timeout=120)
        if done.ret:
            ksft_pr(f"{name}: status {done.ret}: {done.stderr}")
        if name == "leak":
            find_leak()
    marker("end")


def find_leak():
    """As after each file of tests."""
    kmemleak.start()
    begin = time.monotonic()
    kmemleak.scan()
    time.sleep(max(0, begin + kmemleak.AGE - time.monotonic()))
    kmemleak.scan()
    for text in kmemleak.found():
        ksft_pr(text)
    kmemleak.clear()


# ---- on the host -------------------------------------------------------


@functools.cache
def config():
    """What the kernel is configured with."""
    return {line.split("=")[0].removeprefix("CONFIG_")
            for line in read(f"{kernels('kdir', KERNEL)}/.config").splitlines()
            if line.startswith("CONFIG_")}


def has(name):
    """Should this kernel find the defect?"""
    if KERNEL == "debug" and name not in NOT_DEBUG:
        return True
    return all((symbol.lstrip("!") in config()) != symbol.startswith("!")
               for symbol in DEFECTS[name][1])


@functools.cache
def machine():
    """One machine with all defects: (status, what it said, reports)."""
    names = [name for name in DEFECTS if has(name)]
    cmd(["make", "-s", "-C", ROOT, "broken", f"KERNEL={KERNEL}"],
        timeout=600)
    module = built(KERNEL, "broken", "broken.ko")
    append = "kasan_multi_shot" if "KASAN" in config() else \
        "slab_debug=FZPU slub_debug=FZPU"
    with tempfile.TemporaryDirectory() as where:
        log = os.path.join(where, "console.log")
        done = subprocess.run(
            [RUN, "--kernel", KERNEL, "--hcas", "0",
             "--timeout", "300", "--klog", log, "--append", append,
             "--env", f"BROKEN={module}", "--", sys.executable,
             "-B", os.path.realpath(__file__), *names],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, stdin=subprocess.DEVNULL)
        reports = []
        if os.path.exists(log):
            reports = klog.check_file(log).reports
    return done.returncode, done.stdout, reports


@timeout(900)
def detected(defect):
    """The defect is reported, under its name."""
    name, expected, symbols = defect
    if not has(name):
        raise Skip(f"not a defect that kernel {KERNEL} can find: it is not "
                   f"configured with {' and '.join(symbols)}")
    status, text, reports = machine()
    kinds = {kind for report in reports if report.test == f"broken.{name}"
             for kind in report.kinds}
    if not kinds & expected:
        for report in reports:
            ksft_pr(report.test, report.kinds, report.title())
        ksft_pr(text[-1000:])
    ksft_true(kinds & expected, f"reported as {sorted(kinds)}")
    ksft_eq(status, 125, "status of the runner")


define(globals(), CASES, detected)


@timeout(900)
def test_nothing_else():
    """What was reported is what was done, in the order it was done."""
    names = [name for name in DEFECTS if has(name)]
    _, _, reports = machine()
    order = list(dict.fromkeys(report.test for report in reports))
    if KERNEL in WRECKED and order[-1:] == ["end"]:
        order.pop()
    ksft_eq(order, [f"broken.{name}" for name in names])


def test_every_defect():
    """The module's defects are those that are tested here."""
    text = read(os.path.join(TESTING, "broken", "broken.c"))
    ksft_eq(set(re.findall(r'\{ "([\w-]+)", broken_\w+ \}', text)),
            set(DEFECTS))


if __name__ == "__main__":
    trigger(sys.argv[1:])
