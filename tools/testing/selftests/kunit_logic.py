# SPDX-License-Identifier: GPL-2.0-only
"""The cases of host_unit once more, in a kernel that has KUnit."""

import os

from lib import Failed, Skip, cmd, defer, exists, kunit, ksft_eq, read, slow
from common import ROOT, TESTS

BOOT = {"ipoib": "ours", "seconds": 3}
KUNIT = "../../../ipoib_test.c"

MODULE = os.path.join(ROOT, "build", os.uname().release, "ib_ipoib",
                      "ib_ipoib_test.ko")
SUITES = "/sys/kernel/debug/kunit"
NAMES = kunit.cases(os.path.join(TESTS, KUNIT))


def run():
    """Load the module, which runs them all, and take it away again."""
    if cmd(["modprobe", "-q", "kunit", "enable=1"], fail=False).status or \
       not exists("/sys/module/kunit"):
        raise Skip("this kernel has no KUnit")
    if not exists(MODULE):
        raise Failed(f"there is no {MODULE}")
    cmd(["insmod", MODULE], timeout=slow(60))
    defer(cmd, ["rmmod", "ib_ipoib_test"])
    found = kunit.Results("\n".join(
        read(f"{SUITES}/{name}/results")
        for name in sorted(os.listdir(SUITES)) if name.startswith("ipoib")))
    ksft_eq(sorted(found.found), sorted(NAMES), "cases that ran")
    return found


kunit.define(globals(), NAMES, run)
