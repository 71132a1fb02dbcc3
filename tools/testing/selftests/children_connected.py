# SPDX-License-Identifier: GPL-2.0-only
"""Child interfaces in connected mode."""

from lib import (Flood, Stream, defer, ends, ksft_eq, ksft_ge, ksft_in, ksft_ne,
                 load_module, ping_ok, tcp_transfer, timeout, udp_exchange,
                 unload_module, wait_until)
from lib.child import (Children, add_link, child_by_ip, child_by_sysfs,
                       children, names_in, refused)
from lib.connected import (MTU, conns, counter, set_mode, to_datagram,
                           wait_connected)
from lib.ipoib import drop_all
from lib.partitions import EIGHT

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 60, "partitions": EIGHT}
VERBS_ONLY = "connected mode"


def connect(both):
    """Connections between two children, in both directions."""
    wait_connected(both.a, both.b)
    wait_connected(both.b, both.a)
    return both


def connected_children(pair, pkey):
    """Two children made in connected mode, up, with connections."""
    return connect(Children(*(
        child_by_ip(end, pkey, words="mode connected")
        for end in pair)).up())


def test_made_connected():
    """ip link add ... mode connected; the parent's mode stays."""
    pair = ends()
    both = connected_children(pair, 0x8001)
    for child, end in zip(both, pair):
        ksft_eq(child.data()["mode"], "connected")
        ksft_eq(child.read("mode"), "connected")
        ksft_eq(child.mtu(), MTU)
        ksft_eq(child.address()[0] & 0x80, 0x80, "the RC flag")
        ksft_eq(end.read("mode"), "datagram")
    ping_ok(both.a.ns, both.b.v4, size=60000, df=True)
    tcp_transfer(both.a, both.b, 1 << 20)
    tcp_transfer(both.b, both.a, 1 << 20, address=both.a.v6)
    got = udp_exchange(both.a, both.b, 20, 50000)
    ksft_eq((len(got.seen), got.bad), (20, 0))


def test_mtu():
    """Made with an MTU that datagram mode does not have; what no mode has."""
    pair = ends()
    for mtu in (9000, 1280, MTU):
        both = Children(*(child_by_ip(end, 0x8001, words="mode connected",
                                      more=f"mtu {mtu}") for end in pair))
        for child in both:
            ksft_eq(child.mtu(), mtu, "before it is up")
        connect(both.up())
        for child in both:
            ksft_eq(child.mtu(), mtu, "when it is up")
        ping_ok(both.a.ns, both.b.v4, size=mtu - 28, df=True)
        tcp_transfer(both.a, both.b, 1 << 19)
        both.delete()
    end = pair.a
    for mtu in (MTU + 1, 71, 10):
        done = add_link(end, "no.1", "pkey 0x8001 mode connected",
                        f"mtu {mtu}", fail=False)
        ksft_in("MTU", refused(done), f"MTU {mtu}")
    ksft_eq(names_in(end.ns, "no."), [])
    child = child_by_ip(end, 0x8001)
    child.set("mtu 9000 type ipoib mode connected")
    ksft_eq((child.mtu(), child.read("mode")), (9000, "connected"))
    set_mode(child, "datagram")
    ksft_eq(child.mtu() <= 4092, True, "back in datagram mode")


def test_switched():
    """A child's mode is its own, and is switched like a parent's."""
    pair = ends()
    both = Children(*(child_by_sysfs(end, 2) for end in pair)).up()
    stream = Stream(both.a, both.b)
    for mode in ("connected", "datagram", "connected"):
        for child in both:
            set_mode(child, mode)
        stream.wait_progress(200000)
    stream.finish()
    connect(both)
    for end in pair:
        ksft_eq(end.read("mode"), "datagram")
    ping_ok(pair.a.ns, pair.b.v4)


def test_with_parent():
    """Parent and children have connections of their own."""
    pair = ends()
    for end in pair:
        defer(to_datagram, end)
        set_mode(end, "connected")
    connect(pair)
    first = connected_children(pair, 0x8003)
    second = children(pair, 0x8004)
    for both in (pair, first, second):
        tcp_transfer(both.a, both.b, 1 << 19)
    ksft_eq(len(conns(second.a)), 0, "connections in datagram mode")
    first.delete()
    tcp_transfer(pair.a, pair.b, 1 << 19)
    ksft_ge(len(conns(pair.a)), 2, "the parent's connections")


def test_wrong_partition():
    """A request comes to the interface of its P_Key only."""
    pair = ends()
    both = connected_children(pair, 0x8005)
    other = connected_children(pair, 0x8006)
    ksft_eq(counter(both.b, "conn_accepted"), 1)
    ksft_eq(counter(other.b, "conn_accepted"), 1)
    ksft_eq(counter(both.b, "conn_malformed"), 0)


@timeout(120)
def test_deleted_under_traffic():
    """Children with connections go while others send to them."""
    pair = ends()
    qps = len(pair.a.port.hca.data_qps())
    for turn in range(3):
        both = connected_children(pair, 0x8007)
        with Flood(both.a, both.b.v4, 3000, gap=0.001), \
                Flood(both.b, both.a.v4, 3000, gap=0.001):
            both.a.delete(fail=True)
            if turn == 1:
                for end in pair:
                    end.set("down")
                    end.up()
                pair.ready()
        both.b.delete(fail=True)
    ping_ok(pair.a.ns, pair.b.v4)
    for end in pair:
        wait_until(lambda e=end: len(e.port.hca.data_qps()) == qps, 15,
                   "only the parent's QPs")


def test_refused():
    """What connected mode can't be is refused, and leaves nothing."""
    end = ends().a
    qps = len(end.port.hca.data_qps())
    done = add_link(end, "no.1", "pkey 0x8008 mode telepathic", fail=False)
    ksft_ne(done.ret, 0)
    child = child_by_ip(end, 8)
    done = child.set("type ipoib mode connected pkey 0x8009", fail=False)
    ksft_in("P_Key", refused(done))
    ksft_eq(child.read("mode"), "datagram")
    ksft_eq(len(end.port.hca.data_qps()), qps + 1)


@timeout(120)
def test_unload():
    """The module goes with connected parents and children under traffic."""
    pair = ends()
    for end in pair:
        set_mode(end, "connected")
    both = [connected_children(pair, key) for key in (0x8001, 0x8002)]
    for each in both:
        tcp_transfer(each.a, each.b, 1 << 18)
    drop_all()
    unload_module(40)
    load_module()
