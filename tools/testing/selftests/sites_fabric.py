# SPDX-License-Identifier: GPL-2.0-only
"""Each allocation of the simulated fabric fails, whatever it is used for.

HCAs come, cables are pulled and programs use verbs: the fabric is no less careful than
what is tested on it.
"""

from lib import (Skip, cmd, defer, define, fabric, hca, port, sm, timeout, wait_until)
from lib.sites import Module, Operation, every, sees_memory
from lib.uverbs import RC, UD, Memory, Verbs

BOOT = {"ipoib": "none", "hcas": 2, "seconds": 150}

FABRIC = Module("ibdevsim")


def active():
    """All ports are, and the SA answers."""
    sm.revive()
    fabric.wait_active()
    sm.answers()


def plug():
    """An HCA of two ports comes."""
    new = hca(7)

    def without():
        if new.exists():
            new.unplug()
    defer(without)
    return Operation("HCA plugged", before=without, act=lambda: new.plug(ports=2),
                     done=lambda: all(each.active() for each in new.ports()),
                     works=active)


def cable():
    """A cable is pulled and put back: management packets of all kinds."""
    where = port(1)

    def back():
        where.link(True)
        active()
    defer(back)

    def pull():
        where.link(False)
        where.link(True)
    return Operation("cable", before=back, act=pull, done=where.active, works=active)


def queries():
    """Ports and the switch are asked for what management tells."""
    def ask():
        for words in (["smpquery", "-D", "nodeinfo", "0,1"], ["ibroute", 1],
                      ["perfquery", port(1).lid(), 1]):
            cmd(words, fail=False)
    return Operation("queries", act=ask, works=active)


def use_verbs():
    """Objects of all kinds are made and used; what the process leaves goes with it."""
    with Verbs(hca(1)) as verbs:
        pd = verbs.pd()
        memory = Memory(1 << 14)
        verbs.mr(pd, memory.addr, memory.size)
        cq = verbs.cq(64)
        srq = verbs.srq(pd)
        verbs.ah(pd, port(0).lid())
        verbs.qp(pd, cq, UD).start_ud()
        one, two = verbs.qp(pd, cq, RC), verbs.qp(pd, cq, RC, srq)
        for qp, other in ((one, two), (two, one)):
            qp.connect(other.qpn, port(1).lid())


def verbs_used():
    """A program's verbs.  ib_uverbs forgets the QPs that it can't destroy."""
    return Operation("verbs", act=use_verbs, works=lambda: (use_verbs(), active()),
                     spared=("destroy_qp",))


@timeout(900)
def fail_each(make):
    """Each allocation that is made then fails: nothing is lost for good."""
    if not sees_memory():
        raise Skip("allocations are not seen on this kernel")
    every(make, FABRIC)


CASES = {
    "test_plug": plug,
    "test_cable": cable,
    "test_queries": queries,
    "test_verbs": verbs_used,
}
define(globals(), CASES, fail_each)


def test_all_well():
    """And then the fabric is as it was."""
    active()
    for each in (port(0), port(1)):
        each.no_mistakes()
    wait_until(lambda: not hca(7).exists(), 5, "the HCA gone")
