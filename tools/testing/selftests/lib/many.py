# SPDX-License-Identifier: GPL-2.0-only
"""Many links of a kind: made, brought up, deleted in one go, and measured."""

import gc
import glob
import mmap
import re
import time

from .rtnl import IFLA_GROUP, attr
from .utils import hold, read, write

GROUP = 4711
# What a driver's timers and work items are called when they run
DRIVER = re.compile(r"function[= ](?:cm_|__)?(ipoib\w*)")


def make(talk, count, parent=0, prefix="m", keys=15):
    """Make so many; seconds.  Children of @parent, or dummies."""
    more = attr(IFLA_GROUP, GROUP)
    begin = time.monotonic()
    for number in range(count):
        if parent:
            talk.add(parent, f"{prefix}.{number}", more,
                     pkey=0x8001 + number % keys)
        else:
            talk.add(0, f"{prefix}.{number}", more, kind="dummy")
    return time.monotonic() - begin


def bring_up(talk, count, prefix="m"):
    begin = time.monotonic()
    for number in range(count):
        talk.up(f"{prefix}.{number}")
    return time.monotonic() - begin


def delete(talk):
    """Delete them all with one request; seconds."""
    begin = time.monotonic()
    talk.delete_group(GROUP)
    return time.monotonic() - begin


def shrink():
    """Have the kernel give up what it keeps for later."""
    for _ in range(2):
        write("/proc/sys/vm/drop_caches", "3")
        for path in glob.glob("/sys/kernel/slab/*/shrink"):
            try:
                write(path, "1")
            except OSError:
                pass        # the cache was destroyed meanwhile
        time.sleep(0.2)


def memory():
    """KiB of the kernel's memory in use, as exact as it gets."""
    gc.collect()
    shrink()
    return in_use()


def in_use():
    """The same with what the kernel keeps for later."""
    info = dict(re.findall(r"(\w+):\s+(\d+)", read("/proc/meminfo")))
    # Free pages that each CPU has on a list of its own are not in MemFree.
    kept = sum(map(int, re.findall(r"^ +count: +(\d+)$",
                                   read("/proc/zoneinfo"), re.M)))
    # What the page cache and programs have is not the kernel's.
    return int(info["MemTotal"]) - kept * mmap.PAGESIZE // 1024 - sum(
        int(info[name]) for name in
        ("MemFree", "Active", "Inactive", "Unevictable"))


class KernelMemory:
    """The same for a block: what it uses more at the end, as Allocations."""

    def __enter__(self):
        self.used = -memory()
        return self

    def __exit__(self, *_exc):
        self.used += memory()

    def octets(self):
        return self.used << 10

    @staticmethod
    def by_site():
        return {}


def activity(tracer, seconds):
    """How often the driver's timers and work items run in so many seconds."""
    tracer.clear()
    hold(seconds)
    found = {}
    for line in tracer.lines():
        name = DRIVER.search(line)
        if name:
            found[name.group(1)] = found.get(name.group(1), 0) + 1
    return found


EVENTS = ("timer:timer_expire_entry", "workqueue:workqueue_execute_start")
