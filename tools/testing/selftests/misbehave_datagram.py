# SPDX-License-Identifier: GPL-2.0-only
"""An HCA and a fabric that misbehave, in datagram mode: see lib/misbehave.py."""

from lib import define, ksft_eq, timeout
from lib.misbehave import FAULTS, all_right, suffer

BOOT = {"ipoib": "ours", "hcas": 5, "ports": 2, "seconds": 500, "partitions":
        "Default=0x7fff, ipoib : ALL=full;\n"
        "p1=0x0001, ipoib : ALL=full;\n"
        "p2=0x0002, ipoib : ALL=full;\n"
        "p3=0x0003, ipoib : ALL=full;\n"
        "p4=0x0004, ipoib : ALL=full;\n"
        "p5=0x0005, ipoib : ALL=full;\n"
        "p6=0x0006, ipoib : ALL=full;\n"
        "p7=0x0007, ipoib : ALL=full;\n"
        "p8=0x0008, ipoib : ALL=full;\n"}
VERBS_ONLY = "faults of queue pairs"
MODE = "datagram"


@timeout(200)
def misbehaves(name):
    """What may notice a fault goes on soon after it, and nothing else notices it."""
    suffer(MODE, name)


CASES = {
    # Sends of a child's complete with each status that there is.
    "test_sends_fail": "sends_fail",
    # So do its receives.
    "test_receives_fail": "receives_fail",
    # Completions of a child's QPs come twice.
    "test_twice": "twice",
    # They never come.
    "test_lost": "lost",
    # They come late.
    "test_late": "late",
    # They come when the QP that they are of was given up.
    "test_late_gone": "late_gone",
    # Completions raise no interrupts.
    "test_silent": "silent",
    # The HCA stands still, and all is closed meanwhile.
    "test_wedged": "wedged",
    # Events that are not true, many at once, in any order.
    "test_storm": "storm",
    # Events of other ports of the HCAs.
    "test_elsewhere": "elsewhere",
    # Events come when the opposite is true.
    "test_untimely": "untimely",
    # Verbs take their time.
    "test_slow_verbs": "slow_verbs",
    # The SA is silent.
    "test_mute": "mute",
    # It is silent for a minute, and nothing says that it is back.
    "test_silence": "silence",
    # The SA answers when nobody waits any more.
    "test_tardy": "tardy",
    # Every third MAD is lost.
    "test_lossy_mads": "lossy_mads",
    # The master SM dies, twice in a minute.
    "test_failover": "failover",
    # The SM gives hosts other LIDs.
    "test_other_lids": "other_lids",
    # The SM takes a child's P_Key away.
    "test_no_pkey": "no_pkey",
    # The SA knows paths of another SL, MTU and rate.
    "test_odd_paths": "odd_paths",
    # The SA knows paths that lead nowhere.
    "test_wrong_paths": "wrong_paths",
    # The SA knows groups of another SL, MTU and rate.
    "test_odd_groups": "odd_groups",
    # The SA knows groups with another Q_Key and LID.
    "test_wrong_groups": "wrong_groups",
    # The SA refuses everything.
    "test_refusal": "refusal",
    # A link goes down and up ten times a second.
    "test_flapping": "flapping",
    # One packet in a hundred is lost.
    "test_loss_1": "loss_1",
    # Three in ten are.
    "test_loss_30": "loss_30",
    # One in a hundred arrives twice.
    "test_twice_1": "twice_1",
    # Three in ten do.
    "test_twice_30": "twice_30",
    # One in a hundred is overtaken.
    "test_disorder_1": "disorder_1",
    # Three in ten are.
    "test_disorder_30": "disorder_30",
}
define(globals(), CASES, misbehaves)


def test_all_faults():
    """There is a case for each fault of the table."""
    ksft_eq(set(CASES.values()), set(FAULTS))
    ksft_eq({f"test_{name}" for name in FAULTS}, set(CASES))


@timeout(120)
def test_after_all():
    """And then it is as if nothing had been."""
    all_right(MODE)
