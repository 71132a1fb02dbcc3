# SPDX-License-Identifier: GPL-2.0-only
"""A sample of what sites_ipoib does, three minutes long and the same each time.

It begins nowhere else tomorrow, so that what it finds is due to the change that is
tried: the core has it.
"""

from lib import define, timeout
from lib.partitions import ONE
from lib.sites import all_sampled, sample
from sites_ipoib import CASES, IPOIB

# Three minutes, however quick the host is, and what each operation takes longer; other
# files take less than they state: see TAKEN in lib/groups.py.
BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 330, "group": "sites",
        "partitions": ONE}
VERBS_ONLY = "the driver's own verbs fail"


@timeout(300)
def fail_some(make):
    """Some calls of the driver that are made then fail: nothing is lost for good."""
    sample(make, IPOIB, list(CASES.values()))


define(globals(), CASES, fail_some)


def test_failed():
    """Calls have failed in all of that."""
    all_sampled(IPOIB)
