# SPDX-License-Identifier: GPL-2.0-only
"""Our driver on HCAs with an interface of their own for IPoIB, as mlx5's."""

import errno
import socket

from lib import (Flood, Netns, Stream, UdpSink, any_ends, define, defer, ends,
                 expect_report, hca, hold, kmsg_since, kmsg_tail, ksft_eq, ksft_false,
                 ksft_ge, ksft_gt, ksft_in, ksft_lt, ksft_ne, ksft_pr, ksft_true,
                 load_module, ping, ping_ok, port, settled, slow, tcp_transfer, timeout,
                 unload_module, wait_until, write)
from lib.child import (add_link, child_by_ip, child_by_sysfs, children, errno_of,
                       names_in, refused)
from lib.ipoib import forget
from lib.traffic import SO_SNDBUFFORCE, exchange
from children_pkeys import place
import fabric_netdev
from users_doctor import ctl, finds

BOOT = {"ipoib": "ours", "hcas": 2, "hca": "rdma_netdev=own", "seconds": 400,
        "partitions": "Default=0x7fff, ipoib, mtu=5 : ALL=full;\n"
                      "two=0x0001, ipoib : ALL=full;\n"}

MIB = 1 << 20
NO_CONNECTED = "ipoib_enhanced=0"


def engine(end):
    """What carries its datagrams."""
    return end.state()["engine"]


def rings(end):
    """The QPs of an HCA's interface."""
    return [qp.qpn for qp in end.port.hca.data_qps()]


# ---- as the distribution's driver ------------------------------------------

CASES = {
    "test_traffic": fabric_netdev.test_traffic,
    "test_offloads": fabric_netdev.test_offloads,
    "test_extension_headers": fabric_netdev.test_extension_headers,
    "test_rss_table": fabric_netdev.test_rss_table,
    "test_channels": fabric_netdev.test_channels,
    "test_stamps": fabric_netdev.test_stamps,
    "test_children": fabric_netdev.test_children,
    "test_restarts": fabric_netdev.test_restarts,
    "test_errors": fabric_netdev.test_errors,
    "test_stuck_ring": fabric_netdev.test_stuck_ring,
    "test_hot_unplug": fabric_netdev.test_hot_unplug,
}


@timeout(120)
def shared(case):
    """What the distribution's driver passes as well."""
    case()


define(globals(), CASES, shared)


# ---- which engine -----------------------------------------------------------


def test_engine():
    """The HCA's interface is used, and that is said; the driver counts, too."""
    pair = ends()
    ksft_gt(int(pair.a.state()["path_queries"]), 0)
    ksft_gt(int(pair.a.state()["mcast_joins"]), 0)
    for end in pair:
        ksft_eq(engine(end), "enhanced")
        ksft_in("driver: ibdevsim[ib_ipoib]", end.ethtool("-i").stdout)
    ksft_ge(len(kmsg_since(pattern=": using the HCA's own interface")), 2)


def connected(end):
    """Try connected mode by the file."""
    return errno_of(write, end.sys("mode"), "connected")


def test_connected():
    """Connected mode is refused, with a reason that says how to get it."""
    pair = ends()
    place = kmsg_tail()
    ksft_eq(connected(pair.a), errno.EOPNOTSUPP)
    ksft_true(kmsg_since(place, NO_CONNECTED))
    ksft_in(NO_CONNECTED, refused(pair.a.set("type ipoib mode connected", fail=False)))
    done = add_link(pair.a, "no.1", "pkey 0x8001 mode connected", fail=False)
    ksft_in(NO_CONNECTED, refused(done))
    ksft_eq(pair.a.read("mode"), "datagram")
    exchange(pair)


@timeout(90)
def test_parameter():
    """ipoib_enhanced=0: by verbs, with connected mode."""
    ends()
    unload_module()

    def back():
        unload_module()
        load_module()

    defer(back)
    place = kmsg_tail()
    load_module(ipoib_enhanced=0)
    pair = ends()
    ksft_ge(len(kmsg_since(place, NO_CONNECTED)), 2)
    for end in pair:
        ksft_eq(engine(end), "verbs")
        ksft_in("driver: ib_ipoib", end.ethtool("-i").stdout)
        ksft_eq(connected(end), 0)
        end.wait_carrier()
    exchange(pair)


@timeout(180)
def test_refused():
    """An HCA that refuses its interface, or can't set it up, is used by verbs."""
    for keys, said in (({"netdev_refuse": errno.EOPNOTSUPP}, 0),
                       ({"netdev_refuse": errno.ENOMEM}, 1),
                       ({"netdev_init_error": 1}, 1)):
        place = kmsg_tail()
        hca(2).plug(rdma_netdev="own", **keys)
        unplug = defer(hca(2).unplug)
        pair = any_ends(port(0), port(2), ("h1", "h3"))
        ksft_eq(engine(pair.b), "verbs")
        ksft_eq(len(kmsg_since(place, "can't use the HCA's own interface")), said)
        exchange(pair)
        forget(pair)
        unplug.exec()


@timeout(90)
def test_interop():
    """An interface of the HCA's against one by verbs."""
    hca(2).plug(rdma_netdev="none")
    defer(hca(2).unplug)
    pair = any_ends(port(0), port(2), ("h1", "h3"))
    defer(forget, pair)
    ksft_eq([engine(end) for end in pair], ["enhanced", "verbs"])
    exchange(pair)


# ---- settings ---------------------------------------------------------------


def test_mtu():
    """The MTU reaches the HCA; what is not possible is refused, and changes nothing."""
    pair = ends()
    was = pair.a.mtu()
    defer(pair.a.set_mtu, was)
    told = "driver: ibdevsim" in pair.a.ethtool("-i").stdout
    for size in (1500, was, 1280):
        before = rings(pair.a)
        pair.a.set_mtu(size)
        if told:
            ksft_ne(rings(pair.a), before, "buffers of another size")
        ksft_eq(pair.a.mtu(), size)
        ping_ok(pair.a.ns, pair.b.v4, size=size - 28, limit=slow(2), df=True)
        ping_ok(pair.b.ns, pair.a.v4, size=size - 28, limit=slow(2))
    for size in (0, 10, 65520):
        ksft_ne(pair.a.set_mtu(size, fail=False).ret, 0)
    ksft_eq(pair.a.mtu(), 1280)
    tcp_transfer(pair.a, pair.b, MIB)


def setting(end, what, name):
    """A value that ethtool shows."""
    for line in end.ethtool(what).stdout.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.split()[0]
    return None


@timeout(60)
def test_settings():
    """ethtool reaches the HCA: what is set is there; what is not known is refused."""
    pair = ends()
    kid = child_by_ip(pair.a, 0x8001)
    was = [setting(pair.a, "-c", name) for name in ("rx-usecs", "rx-frames")]
    defer(pair.a.ethtool, f"-C rx-usecs {was[0]} rx-frames {was[1]}")
    pair.a.ethtool("-C rx-usecs 21 rx-frames 9")
    ksft_eq([setting(pair.a, "-c", name) for name in ("rx-usecs", "rx-frames")],
            ["21", "9"])
    ksft_ne(pair.a.ethtool("-C tx-usecs 5", fail=False).ret, 0)
    for feature, name in (("tcp-segmentation-offload", "tso"), ("rx-checksumming", "rx"),
                          ("receive-hashing", "rxhash")):
        for value in ("off", "on"):
            pair.a.ethtool(f"-K {name} {value}")
            ksft_eq(pair.a.feature(feature), value == "on", f"{feature} {value}")
        exchange(pair)
    for what, name in (("-l", "Combined"), ("-g", "RX"), ("-g", "TX")):
        ksft_gt(int(setting(pair.a, what, name)), 0, f"{what} {name}")
    # A child of mlx5's has none of it.
    for what in ("-l", "-g", "-c", "-x", "-S"):
        ksft_ne(kid.ethtool(what, fail=False).ret, 0, f"child {what}")


@timeout(60)
def test_counters():
    """Packets and bytes are counted once, children's by the children."""
    pair = ends()
    kids = children(pair, 0x8001)
    everyone = (*pair, *kids)
    settled(*pair)
    before = [end.stats() for end in everyone]
    tcp_transfer(*pair, 4 * MIB)
    tcp_transfer(*kids, 2 * MIB)
    settled(*pair)
    after = [end.stats() for end in everyone]
    moved = [{name: new[name] - old[name] for name in new}
             for old, new in zip(before, after)]
    for number, name, least in ((0, "tx_bytes", 4 * MIB), (1, "rx_bytes", 4 * MIB),
                                (2, "tx_bytes", 2 * MIB), (3, "rx_bytes", 2 * MIB)):
        ksft_gt(moved[number][name], least)
        ksft_lt(moved[number][name], least * 5 // 4, f"{name} of {everyone[number]}")
    for name in ("tx_errors", "tx_dropped", "rx_errors"):
        ksft_eq([each[name] for each in moved], [0] * 4, name)


# ---- children ---------------------------------------------------------------


def test_child_queues():
    """
    A child has as many queues as its parent uses, or those that it is asked to
    have: what more there is costs a qdisc of 24 KiB each.
    """
    end = ends().a
    used = end.queues()
    sysfs, link = child_by_sysfs(end, 0x8005), child_by_ip(end, 0x8006)
    asked = child_by_ip(end, 0x8007, more="numtxqueues 1")
    for child, queues in ((sysfs, used), (link, used), (asked, 1)):
        ksft_eq(child.link()["num_tx_queues"], queues)
        ksft_eq(child.queues(), queues)


@timeout(90)
def test_children_by_sysfs():
    """create_child makes them large enough, wherever their parent is."""
    pair = ends()
    kids = children(pair, 0x8001, how=child_by_sysfs)
    for kid in kids:
        ksft_eq(engine(kid), "enhanced")
    tcp_transfer(kids.a, kids.b, MIB)
    tcp_transfer(kids.b, kids.a, MIB)


@timeout(60)
def test_child_elsewhere():
    """A child in another namespace: refused with the way to do it, which works."""
    pair = ends()
    space = Netns("h9").add()
    defer(space.delete)
    done = add_link(pair.a, "far", "pkey 0x8001", f"netns {space.name}", fail=False)
    ksft_in("create it there, then move it", refused(done))
    kid = child_by_ip(pair.a, 0x8001, ifname="far.1")
    peer = child_by_ip(pair.b, 0x8001)
    pair.a.ns.ip(f"link set {kid.ifname} netns {space.name}")
    ksft_in(kid.ifname, names_in(space))
    for place, end, host in ((space, kid, 1), (peer.ns, peer, 2)):
        place.ip(f"addr add 10.77.0.{host}/24 dev {end.ifname}")
        place.ip(f"link set {end.ifname} up")
    for place, host in ((space, 2), (peer.ns, 1)):
        wait_until(lambda: ping(place, f"10.77.0.{host}", limit=0.5), 20, "an echo")
    space.ip(f"link del {kid.ifname}")
    wait_until(lambda: kid.ifname not in names_in(space), 10, "the child to go")


@timeout(60)
def test_parent_down():
    """Such an HCA receives for children with the port's own interface: doctor says so."""
    pair = ends()
    kid = child_by_ip(pair.a, 0x8001)
    kid.up()
    kid.wait_carrier()
    shown = {each["name"]: each for each in ctl("show", ns=pair.a.ns)}
    ksft_eq([shown[end.ifname]["engine"] for end in (pair.a, kid)], ["enhanced"] * 2)
    pair.a.set("down")
    defer(pair.a.up)
    kid.set("up")           # it went down with its parent
    kid.wait_carrier()
    finds(kid, "parent", "may receive nothing", kid.ifname, state="warn", status=0)


# ---- events -----------------------------------------------------------------


@timeout(60)
def test_pkey_moves():
    """The P_Key comes to another index: opened anew by itself."""
    pair = ends()
    kids = children(pair, 0x8001)
    stream = Stream(kids.a, kids.b, rate=MIB)
    index = place(pair.a, 0x8001)
    free = 1 + max(place(pair.a, key) for key in pair.a.port.pkeys())

    def move(old, new):
        pair.a.port.set("set_pkey", f"{new} 0x8001")
        pair.a.port.set("set_pkey", f"{old} 0x0")

    move(index, free)
    defer(move, free, index)
    hold(1)
    stream.wait_progress(limit=20)
    stream.finish()


@timeout(90)
def test_stuck_ring_opened():
    """The watchdog finds one queue that is stuck; the others lose a moment."""
    expect_report("tx-watchdog")
    pair, gap = ends(), 0.02
    with UdpSink(pair.b.ns, pair.b.v4) as good, UdpSink(pair.b.ns, pair.b.v4) as bad:
        works = fabric_netdev.socket_by_ring(pair, 0, good.port)
        stuck = fabric_netdev.socket_by_ring(pair, 1, bad.port)
        stuck.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 32 << 20)
        begin = kmsg_tail()
        restarts = int(pair.a.state()["qp_restarts"])
        lift = pair.a.port.fault("wedged_rings", 2)
        with Flood(pair.a, pair.b.v4, 200, gap, good.port, works) as steady:
            with Flood(pair.a, pair.b.v4, 200, 0.001, bad.port, stuck, 8):
                wait_until(lambda: kmsg_since(begin, "transmit queue 1 stuck"), 40,
                           "the watchdog")
                lift.exec()
                wait_until(lambda: int(pair.a.state()["qp_restarts"]) > restarts, 10,
                           "new rings")
                before = bad.drain()
                wait_until(lambda: bad.drain() > before + 100, 20,
                           "datagrams of the ring that was stuck")
            hold(1)
            sent = steady.stop()
            good.collect(sent, 2)
            ksft_pr(f"of {sent} beside it {sent - len(good.seen)} were lost")
            ksft_lt((sent - len(good.seen)) * gap, slow(1), "seconds lost beside it")
    ksft_false(kmsg_since(begin, "transmit queue 0 stuck"))
    ksft_false(kmsg_since(begin, "can't be opened"))


@timeout(90)
def test_stuck_queue():
    """The watchdog finds a queue that is stuck; it is opened anew."""
    expect_report("tx-watchdog")
    pair = ends()
    stream = Stream(pair.a, pair.b, rate=4 * MIB)
    begin, before = kmsg_tail(), rings(pair.a)
    restarts = int(pair.a.state()["qp_restarts"])
    sock = pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 32 << 20)
    lift = pair.a.port.fault("wedged", 1)
    with Flood(pair.a, pair.b.v4, 200, gap=0.001, burst=8, sock=sock):
        wait_until(lambda: kmsg_since(begin, "stuck"), 40, "the watchdog")
    lift.exec()
    stream.wait_progress(limit=30)
    stream.finish(60)
    ksft_ge(int(pair.a.state()["qp_restarts"]), restarts + 1)
    ksft_ne(rings(pair.a), before, "rings as before")
    ksft_false(kmsg_since(begin, "can't be opened"))
