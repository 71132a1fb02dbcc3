# SPDX-License-Identifier: GPL-2.0-only
"""QPs that the HCA refuses to destroy: what they use stays until they can be."""

import subprocess
from collections import Counter

from lib import (defer, ends, ends_with, ensure_module, fabric, hold, in_groups, ksft_eq,
                 ksft_ge, ksft_true, neigh_flush, read, slow, timeout, unload_module,
                 wait_until)
from lib.child import Children, child_by_ip, gone
from lib.connected import (both_connected, counter, set_mode, to_datagram,
                           wait_connected)
from lib.ipoib import MODULE, drop_all
from lib.ksft import undone
from lib.partitions import ONE
from lib.sites import Module, Recorded, failing, hits, works

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 120, "partitions": ONE}
# The core has no room for them.
GROUPS = ("life", "sites")
VERBS_ONLY = "the driver's own verbs fail"
# With so many that are lost, a port has no new connections: see ipoib_lost.c.
MANY = 64

IPOIB = Module("ib_ipoib", "IPOIB_MODULE")


def numbers(where, *types):
    """Those of the QPs of an HCA."""
    return {qp.qpn for qp in where.data_qps(*types)}


def srqs(where):
    """How many SRQs an HCA has."""
    return next(int(line.split()[1]) for line in
                read(f"{where.dir}/objects").splitlines() if line.startswith("srq "))


def connect(pair):
    """Connections between two ends in connected mode, both ways."""
    wait_connected(pair.a, pair.b)
    wait_connected(pair.b, pair.a)


def connections_stay(pair):
    """
    Connections are closed, others come and go, and no QP can be destroyed: they stay,
    with what they receive into, until they can be.
    """
    where = both_connected(pair).b.port.hca
    with failing(IPOIB, "destroy_qp", times=0):
        lost = numbers(where, "RC")
        ksft_ge(len(lost), 2, "QPs of connections")
        to_datagram(pair.b)
        hits(len(lost))
        ksft_true(lost <= numbers(where, "RC"), "they stay")
        works(pair)
        set_mode(pair.b, "connected")
        wait_connected(pair.b, pair.a, 40)
        ksft_true(lost < numbers(where, "RC"), "they and others")
        for end in pair:
            to_datagram(end)
        works(pair)
    for end in pair:
        wait_until(lambda at=end: not numbers(at.port.hca, "RC"), 20, "QPs destroyed")
    connect(both_connected(pair))
    works(pair)
    for end in pair:
        to_datagram(end)


@timeout(120)
def test_connection_srq():
    """QPs of connections that share their receives: the SRQ goes after the last."""
    pair = ends()
    where = pair.b.port.hca
    where.need(srq=1)
    # The other channel gets an SRQ for datagrams with its first connection, and keeps it.
    connections_stay(pair)
    before = srqs(where)
    connect(both_connected(pair))
    ksft_true(any(qp.srq for qp in where.data_qps("RC")), "an SRQ")
    connections_stay(pair)
    wait_until(lambda: srqs(where) <= before, 10, "SRQs destroyed")


@in_groups("hcas")
@timeout(120)
def test_connection_no_srq():
    """Those with receives of their own."""
    pair = ends_with(srq=0)
    connections_stay(pair)
    ksft_eq(srqs(pair.b.port.hca), 0, "SRQs")


@timeout(120)
def test_child():
    """A child that is deleted goes, its QPs and those of its connections later."""
    pair = ends()
    where = pair.b.port.hca
    before = numbers(where)
    with undone():
        both = Children(*(child_by_ip(end, 0x8001, words="mode connected")
                          for end in pair)).up()
        connect(both)
        lost = numbers(where) - before
        ksft_ge(len(lost), 3, "QPs")
        with failing(IPOIB, "destroy_qp", times=0):
            both.b.delete()
            ksft_true(gone(both.b), "the child is deleted")
            hits(len(lost))
            ksft_true(lost <= numbers(where), "its QPs stay")
            works(pair)
    wait_until(lambda: numbers(where) == before, 20, "its QPs destroyed")
    works(pair)


@in_groups("sites")
@timeout(120)
def test_reset_once():
    """One that is reset is only destroyed again, every two seconds."""
    pair = both_connected(ends())
    with failing(IPOIB, "destroy_qp", times=0):
        for end in pair:
            to_datagram(end)
        works(pair)
        # Until each was tried a second time, after a reset
        lost = sum(len(numbers(each, "RC")) for each in fabric.hcas())
        ksft_ge(lost, 2, "QPs of connections")
        hits(4 * lost, 30)
        before = fabric.failed()[1]
        with Recorded(IPOIB, memory=False) as found:
            hits(before + 2 * lost)
        names = Counter()
        for site, count in found.items():
            names[site.name] += count
        ksft_ge(names["destroy_qp"], lost, "attempts to destroy")
        ksft_eq(names["modify_qp"], 0, "resets")
    for each in fabric.hcas():
        wait_until(lambda at=each: not numbers(at, "RC"), 20, "QPs destroyed")


@in_groups("sites")
@timeout(240)
def test_many():
    """
    With many of them there are no new connections, which might be lost, too: traffic
    goes by datagrams.  Once they are destroyed, connections come back.
    """
    pair = ends()
    hcas = [end.port.hca for end in pair]

    def lost():
        return min(len(numbers(each, "RC")) for each in hcas)

    with failing(IPOIB, "destroy_qp", times=0):
        while lost() < MANY:
            connect(both_connected(pair))
            for end in pair:
                to_datagram(end)
        before = lost()
        both_connected(pair, connect=False)
        works(pair)
        hold(2)
        ksft_eq(lost(), before, "QPs of connections")
        ksft_ge(sum(counter(end, "conn_open_failures") for end in pair), 1, "not opened")
    for each in hcas:
        wait_until(lambda at=each: len(numbers(at, "RC")) < MANY, 20, "QPs destroyed")
    for end in pair:
        neigh_flush(end)
    connect(pair)
    works(pair)


@in_groups("sites")
@timeout(120)
def test_unload():
    """A module that is removed waits for QPs by which the HCA may call it."""
    ends()
    drop_all()
    defer(ensure_module)
    with failing(IPOIB, "destroy_qp", times=0):
        rmmod = subprocess.Popen(    # pylint: disable=consider-using-with
            ["rmmod", MODULE], stderr=subprocess.PIPE, text=True)
        defer(rmmod.wait)
        hits(2)
        hold(slow(3))
        ksft_eq(rmmod.poll(), None, "rmmod's end")
    ksft_eq((rmmod.communicate(timeout=slow(20))[1], rmmod.returncode), ("", 0))
    for each in fabric.hcas():
        ksft_eq(each.data_qps("UD", "RC"), [], "QPs")
    ensure_module()
    works(ends())


@timeout(120)
def test_pulled():
    """An HCA that is pulled destroys no QP for a moment: none is left there."""
    for times in (1, 9):
        with undone():
            pair = both_connected(ends_with())
            where = pair.b.port.hca
            with failing(IPOIB, "destroy_qp", times=times, where=where):
                where.unplug()
                ksft_eq(fabric.failed(), (0, times), "failures left, failures")
    # Nothing keeps the module.
    defer(ensure_module)
    unload_module()
    ensure_module()
    works(ends())
