# SPDX-License-Identifier: GPL-2.0-only
"""What can't be done at once is done later, at a pace that an HCA can stand."""

import os

from lib import (Skip, ends_with, hold, ksft_eq, ksft_false, ksft_in, ksft_ne,
                 ksft_not_in, now, timeout, wait_until)
from lib.child import child_by_ip
from lib.genl import cause
from lib.sites import Module, failing, hits

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 60, "partitions":
        "Default=0x7fff, ipoib : ALL=full;\n"
        "p1=0x0001, ipoib : ALL=full;\n"}
# The core has no room for them.
GROUPS = ("life",)
VERBS_ONLY = "the driver's own verbs fail"

IPOIB = Module("ib_ipoib", "IPOIB_MODULE")


# ---- children -----------------------------------------------------------------------


def state(end):
    return end.state()["state"]


def fresh_child():
    """
    A child of a parent that is down.  It will receive in another channel than that,
    which has got no buffers since its HCA came.
    """
    if os.cpu_count() < 2:
        raise Skip("needs a second channel")
    end = ends_with().b
    end.port.hca.need(srq=1, ud_srq=1)
    end.set("down")
    child = child_by_ip(end, 0x8001)
    ksft_eq(state(child), "closed")
    return end, child


def no_buffers(end):
    """Its HCA takes none."""
    return failing(IPOIB, "post_srq_recv", times=0, where=end.port.hca)


def waits(child):
    """It was set up with its parent, and is not open."""
    hits(1)
    ksft_eq(state(child), "closed")
    ksft_in("UP", child.link()["flags"])
    ksft_eq(cause(child)["cause"], "start-failed")
    ksft_false(child.carrier(), "carrier")


def stays_down(child, begin):
    """It is not tried any more.  Attempts began at @begin, and have doubling delays."""
    hold(2 * (now() - begin) + 1)
    ksft_eq(state(child), "closed")
    ksft_not_in("UP", child.link()["flags"])


@timeout(120)
def test_child():
    """A child that can't be opened with its parent is opened when it can be."""
    end, child = fresh_child()
    with no_buffers(end):
        end.up()
        end.wait_carrier(30)
        waits(child)
    wait_until(child.carrier, 40, "carrier of the child")
    ksft_eq(state(child), "up")


@timeout(120)
def test_child_set_down():
    """Unless it is set down meanwhile; it comes up again with its parent."""
    end, child = fresh_child()
    begin = now()
    with no_buffers(end):
        end.up()
        waits(child)
        child.set("down")
        ksft_eq(cause(child)["cause"], "admin-down")
    stays_down(child, begin)
    end.set("down")
    end.up()
    wait_until(child.carrier, 40, "carrier of the child")


@timeout(120)
def test_child_parent_down():
    """So it is with its parent."""
    end, child = fresh_child()
    begin = now()
    with no_buffers(end):
        end.up()
        waits(child)
        end.set("down")
    stays_down(child, begin)
    end.up()
    wait_until(child.carrier, 40, "carrier of the child")


@timeout(120)
def test_child_by_hand():
    """One that an administrator sets up by itself is not: "up" is refused."""
    end, child = fresh_child()
    with no_buffers(end):
        end.up()
        waits(child)
        child.set("down")
        ksft_ne(child.set("up", fail=False).ret, 0, "status")
        ksft_not_in("UP", child.link()["flags"])
    child.up()
    wait_until(child.carrier, 40, "carrier of the child")
