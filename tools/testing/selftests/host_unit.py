# SPDX-License-Identifier: GPL-2.0-only
"""The driver's logic that needs no device, in user space under sanitizers."""

import os
import subprocess

from lib import Failed, kunit, ksft_pr
from common import TESTING, TESTS

BOOT = "host"
KUNIT = "../../../ipoib_test.c"

NAMES = kunit.cases(os.path.join(TESTS, KUNIT))


def run():
    """Build and run; an error of the sanitizers ends the program."""
    done = subprocess.run(["make", "-s", "-C", os.path.join(TESTING, "unit")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    found = kunit.Results(done.stdout)
    if done.returncode and all(found.found.get(n, [False])[0] for n in NAMES):
        for line in found.rest:
            ksft_pr(line)
        raise Failed(f"the tests passed, and ended with {done.returncode}")
    return found


kunit.define(globals(), NAMES, run)
