# SPDX-License-Identifier: GPL-2.0-only
"""An HCA and a fabric that misbehave, in connected mode: see lib/misbehave.py."""

from lib import define, timeout
from lib.misbehave import FAULTS as CASES, all_right, suffer
from lib.partitions import EIGHT

BOOT = {"ipoib": "ours", "hcas": 5, "ports": 2, "seconds": 560, "partitions": EIGHT}
VERBS_ONLY = "faults of queue pairs"
MODE = "connected"


@timeout(200)
def misbehaves(fault):
    """What may notice a fault goes on soon after it, and nothing else notices it."""
    suffer(MODE, fault)


define(globals(), CASES, misbehaves)


@timeout(120)
def test_after_all():
    """And then it is as if nothing had been."""
    all_right(MODE)
