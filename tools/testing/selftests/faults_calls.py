# SPDX-License-Identifier: GPL-2.0-only
"""Single calls of the driver's fail that much depends on; @sites has all of them."""

from lib import (defer, ends, fabric, hca, ifaces, ksft_eq, ksft_false, ksft_ge,
                 ksft_gt, ksft_true, neigh_flush, ping, timeout, wait_until)
from lib.child import child_by_ip, gone
from lib.connected import both_connected, established, set_mode, wait_connected
from lib.partitions import ONE
from lib.sites import Module, Recorded, failing, hits, met, works

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 55, "partitions": ONE}
GROUPS = ("core", "sites")
VERBS_ONLY = "the driver's own verbs fail"

IPOIB = Module("ib_ipoib", "IPOIB_MODULE")


def state(end):
    return end.state()["state"]


def is_up(end):
    return end.carrier() and state(end) == "up"


def places(act, *names):
    """
    Where the driver makes such calls while something is done: [(name, address)].
    Others make them, too: the core reads ports, OpenSM has address handles.
    """
    with Recorded(IPOIB, memory=False) as found:
        act()
    where = [(site.name, IPOIB.address() + site.offset) for site in found
             if site.name in names]
    ksft_ge(len(where), 1, f"calls of {names}")
    return where


def reopen(end):
    """Closed, and up again by itself."""
    end.set("down")
    end.up()
    wait_until(lambda: is_up(end), 30, f"{end} up")


@timeout(120)
def test_detach():
    """A QP that stays attached to groups: an interface is closed, used, deleted."""
    pair = ends()
    with failing(IPOIB, "detach_mcast", times=2):
        pair.b.set("down")
        hits(2)
    pair.b.up()
    works(pair)
    before = len(pair.b.port.hca.data_qps("UD"))
    child = child_by_ip(pair.b, 0x8001)
    child.up()
    child.wait_carrier()
    with failing(IPOIB, "detach_mcast", times=2):
        child.delete(fail=True)
        hits(1)
    ksft_true(gone(child), "the child is deleted")
    wait_until(lambda: len(pair.b.port.hca.data_qps("UD")) == before, 10,
               "its QP destroyed")
    works(pair)


@timeout(120)
def test_lost():
    """A child goes though its QP stays attached: the QP goes when it can be detached."""
    pair = ends()
    where = pair.b.port.hca
    before = len(where.data_qps("UD"))
    child = child_by_ip(pair.b, 0x8001)
    child.up()
    child.wait_carrier()
    with failing(IPOIB, "detach_mcast", times=0):
        child.delete(fail=True)
        hits(2)
        ksft_true(gone(child), "the child is deleted")
        ksft_eq(len(where.data_qps("UD")), before + 1, "QPs")
        works(pair)
    wait_until(lambda: len(where.data_qps("UD")) == before, 15, "its QP destroyed")
    works(pair)


@timeout(120)
def test_create_ah():
    """No address handle for the broadcast group: it heals without an administrator."""
    pair = ends()
    for name, address in places(lambda: reopen(pair.b), "create_ah"):
        pair.b.set("down")
        with failing(IPOIB, name, address, times=2):
            pair.b.up()
            hits(1)
        wait_until(lambda: is_up(pair.b), 30, "up by itself")
    works(pair)


@timeout(120)
def test_query_port_probe():
    """An HCA that does not tell of its port at first: it comes whole, or not at all."""
    pair, new, count = ends(), hca(7), len(ifaces())

    def there():
        return len(ifaces()) == count + 1

    def pull():
        if new.exists():
            new.unplug()
        wait_until(lambda: len(ifaces()) == count, 10, "no interface")
    defer(pull)

    def plug():
        new.plug()
        wait_until(there, 10, "an interface")
    found = places(plug, "query_port")
    for name, address in found:
        pull()
        with failing(IPOIB, name, address, times=1):
            new.plug()
            met(there, 1)
            ksft_gt(fabric.failed()[1], 0, "failures")
        if not there():
            ksft_eq(new.data_qps(), [], "QPs without an interface")
    pull()
    plug()
    works(pair)


def after_event(event, call, times, limit):
    """
    What the driver reads after an event can't be read so many times: the interface is
    up within a limit, by itself, and works.
    """
    pair = ends()

    def happen():
        pair.b.port.event(event)
        wait_until(lambda: is_up(pair.b), 15, "up")
        works(pair)
    for name, address in places(happen, call):
        with failing(IPOIB, name, address, times=times):
            pair.b.port.event(event)
            hits(1)
        wait_until(lambda: is_up(pair.b), limit, "up by itself")
        works(pair)


@timeout(120)
def test_query_port_event():
    """It does not tell after an event: the carrier is there in the end."""
    after_event("lid_change", "query_port", 2, 30)


@timeout(120)
def test_query_pkey():
    """Nor of its P_Keys: the interface stays up, or is up after a moment."""
    after_event("pkey_change", "query_pkey", 1, 10)


@timeout(120)
def test_modify_open():
    """No QP can be moved: there is no carrier, and it comes up at the next attempt."""
    pair = ends()
    pair.b.set("down")

    def opens():
        pair.b.up()
        wait_until(lambda: is_up(pair.b), 30, "up")
    for name, address in places(opens, "modify_qp"):
        pair.b.set("down")
        with failing(IPOIB, name, address, times=0):
            pair.b.set("up", fail=False)
            hits(1)
            ksft_false(pair.b.carrier(), "carrier")
        opens()
    works(pair)


@timeout(120)
def test_notify():
    """A CQ can't be armed: completions are not left lying there."""
    pair = ends()
    total = 0
    for name, address in places(lambda: works(pair), "req_notify_cq"):
        with failing(IPOIB, name, address, times=3):
            # A queue of sends is armed only if it fills.
            met(lambda: ping(pair.a.ns, pair.b.v4, limit=0.3) and
                fabric.failed()[1] >= 3, 2)
            total += fabric.failed()[1]
        works(pair)
    ksft_ge(total, 3, "failures")


@timeout(120)
def test_receives():
    """Receives can't be posted for a while: they are posted later."""
    pair = ends()
    for name, address in places(lambda: works(pair), "post_recv", "post_srq_recv"):
        with failing(IPOIB, name, address, times=50):
            for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
                ping(src.ns, dst.v4, count=30, limit=0.1)
            ksft_gt(fabric.failed()[1], 0, "failures")
        works(pair)


@timeout(120)
def test_connection():
    """No QP for a connection: datagrams do meanwhile, and it comes later."""
    pair = both_connected(ends(), connect=False)

    def apart():
        for end in pair:
            set_mode(end, "datagram")
            set_mode(end, "connected")
        for end in pair:
            wait_until(lambda e=end: is_up(e), 20, f"{end} up")
            neigh_flush(end)
    apart()
    for name, address in places(lambda: wait_connected(pair.b, pair.a), "create_qp"):
        apart()
        with failing(IPOIB, name, address, times=0):
            wait_until(lambda: ping(pair.b.ns, pair.a.v4, limit=0.5), 20, "a datagram")
            hits(1)
            ksft_eq(established(pair.b, "us"), [])
        wait_connected(pair.b, pair.a, 40)
    works(pair)
