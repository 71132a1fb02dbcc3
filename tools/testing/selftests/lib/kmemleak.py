# SPDX-License-Identifier: GPL-2.0-only
"""Leaked memory, on kernels that look for it.

An object nobody points to is reported when it has been there for a while and
did not change between two scans.  The kernel writes what it finds to its log,
too, where it counts against the test that runs.
"""

import re
import time

from .utils import exists, read, write

FILE = "/sys/kernel/debug/kmemleak"
VERBOSE = "/sys/module/kmemleak/parameters/verbose"
AGE = 5.2       # seconds: MSECS_MIN_AGE, and some jiffies


def available():
    """Does this kernel look for leaks?"""
    return exists(FILE)


def start():
    """Have the log show whole reports."""
    write(VERBOSE, 1)


def scan():
    """One scan; how long it took.  Fails where kmemleak gave up."""
    begin = time.monotonic()
    write(FILE, "scan")
    return time.monotonic() - begin


def found(symbols=()):
    """What scans have found so far, a text for each object."""
    text = resolve(read(FILE), symbols)
    return [part.strip() for part in re.split(r"(?m)^(?=unreferenced )", text)
            if part.strip()]


def clear():
    """Forget what was found."""
    write(FILE, "clear")


def module_symbols(*modules):
    """(address, name) of the modules' symbols, for when they are gone."""
    marks = {f"[{name}]" for name in modules}
    table = []
    with open("/proc/kallsyms", encoding="ascii") as file:
        for line in file:
            if line.rstrip().endswith("]"):
                address, _, name, mark = line.split()
                if mark in marks:
                    table.append((int(address, 16), f"{name} {mark}"))
    return sorted(table)


def resolve(text, symbols):
    """Give the addresses in a report their names."""
    def name_of(match):
        address = int(match[0], 16)
        below = [entry for entry in symbols if entry[0] <= address]
        if not below or address >= symbols[-1][0] + 4096:
            return match[0]
        start_of, name = below[-1]
        name, mark = name.split()
        return f"{name}+{address - start_of:#x} {mark}"

    if not symbols:
        return text
    return re.sub(r"(?<=\s)0x[0-9a-f]{16}$", name_of, text, flags=re.M)
