# SPDX-License-Identifier: GPL-2.0-only
"""How many times slower machines are than what limits and budgets are for.

The environment's TCG_SLOW says it of the emulation on this host.  run multiplies
it with what it knows of the kernel, and hands it on to the command in the machine.
"""

import os

# Of machines with kernels of our own, beside those with Debian's: for limits
KERNELS = {"debug": 3}
# Of whole runs on the debug kernel, as measured: for budgets
DEBUG_RUNS = 6.2
# What check takes TCG_SLOW for if nobody says: limits of cases are not tight.
CHECK = 4
# What a case may take if it does not say, with @timeout
CASE = 60
# How slow the machine may be before waits and cases of a test get longer
WAITS, CASES = 2, 4
# How many times longer limits are that only a failure reaches, on kernels slower
# than Debian's: there, other work on the host can hold up a machine for minutes.
PATIENCE = 3


def emulation(text=None):
    """TCG_SLOW, or what @text says in its place; 1 or more."""
    return max(1.0, float(text or os.environ.get("TCG_SLOW") or 1))


def handed_on():
    """TCG_SLOW as check gives it to run, for a machine's programs."""
    return os.environ.get("TCG_SLOW", str(CHECK))


def kernel(series):
    """Of a kernel's machines."""
    return KERNELS.get(series, 1)


def waits():
    """Of what a test waits for."""
    return max(1.0, emulation() / WAITS)


def patience(slow=None):
    """Of what must not be reached, on top of that; @slow is another TCG_SLOW."""
    return PATIENCE if (slow or emulation()) > CHECK else 1


def cases(slow=None):
    """Of what a case may take."""
    return max(1.0, (slow or emulation()) / CASES) * patience(slow)
