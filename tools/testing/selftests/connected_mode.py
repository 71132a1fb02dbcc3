# SPDX-License-Identifier: GPL-2.0-only
"""Switching the mode: by sysfs and netlink, up and down, under traffic."""

import errno
import re

from lib import (Failed, Flood, Stream, defer, ends, ends_with, exists, hca,
                 ip, ksft_eq, ksft_false, ksft_ge, ksft_gt, ksft_in, ksft_le,
                 ksft_lt, ksft_ne, ksft_pr, ksft_true, many, need_modules, now,
                 ping, ping_ok, slow, tcp_transfer, timeout, unload_module,
                 wait_until, write)
from lib.child import child_by_ip
from lib.connected import (MTU, conns, counters, established, mode,
                           netlink_mode, set_mode, to_datagram,
                           wait_connected)
from lib.ipoib import bond_of

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 105}
VERBS_ONLY = "connected mode"

MIB = 1 << 20
FEATURES = ("tx-checksum-ip-generic", "tx-checksum-ipv4",
            "tx-tcp-segmentation", "tx-tcp6-segmentation",
            "scatter-gather", "generic-receive-offload")
# What the core offers for all interfaces, whatever their drivers do
CORE = ("rx-gro-list", "rx-udp-gro-forwarding", "tx-nocache-copy",
        "tx-tcp-mangleid-segmentation")


def back(pair):
    for end in pair:
        to_datagram(end)


def state(end):
    return (mode(end), end.mtu(), end.address()[0],
            tuple(end.feature(name) for name in FEATURES),
            end.link()["max_mtu"])


def test_there_and_back():
    """MTU, address and offloads follow the mode, and come back with it."""
    pair = ends()
    defer(back, pair)
    before = state(pair.a)
    ksft_eq(before[0], "datagram")
    ksft_eq(before[2], 0)
    set_mode(pair.a, "connected")
    there = state(pair.a)
    ksft_eq(there[:3], ("connected", MTU, 0x80))
    ksft_eq(there[3], (True, False, True, True, True, True))
    ksft_eq(there[4], MTU)
    set_mode(pair.a, "datagram")
    ksft_eq(state(pair.a), before)
    pair.ready()


def test_netlink():
    """The same by netlink; ip shows it."""
    pair = ends()
    defer(back, pair)
    before = state(pair.a)
    netlink_mode(pair.a, "connected")
    ksft_eq(pair.a.link()["linkinfo"]["info_data"]["mode"], "connected")
    ksft_eq(state(pair.a)[:3], ("connected", MTU, 0x80))
    netlink_mode(pair.a, "datagram")
    ksft_eq(state(pair.a), before)
    pair.ready()


def test_same_mode():
    """The mode that is set already is no change."""
    pair = ends()
    defer(back, pair)
    set_mode(pair.a, "datagram")
    for end in pair:
        set_mode(end, "connected")
    pair.wait_ping()
    wait_connected(pair.a, pair.b)
    opened = counters(pair.a)["conn_opened"]
    pair.a.set_mtu(9000)
    set_mode(pair.a, "connected")
    netlink_mode(pair.a, "connected")
    ksft_eq(pair.a.mtu(), 9000)
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))
    ksft_eq(counters(pair.a)["conn_opened"], opened)


def test_bad_words():
    """What is no mode is refused and changes nothing."""
    pair = ends()
    before = state(pair.a)
    for word in ("", "Connected", "connectedx", "datagram connected", "1"):
        try:
            write(pair.a.sys("mode"), word + "\n")
        except OSError as error:
            ksft_eq(error.errno, errno.EINVAL, word)
        else:
            raise Failed(f"mode took {word!r}")
    ksft_eq(state(pair.a), before)


def test_mtu_range():
    """Up to 65520 in connected mode, the link's in datagram mode."""
    pair = ends()
    defer(back, pair)
    set_mode(pair.a, "connected")
    ksft_ne(pair.a.set_mtu(MTU + 1, fail=False).status, 0)
    for mtu in (1280, 2044, 4092, 30000, MTU):
        pair.a.set_mtu(mtu)
        ksft_eq(pair.a.mtu(), mtu)
    set_mode(pair.a, "datagram")
    ksft_ne(pair.a.set_mtu(9000, fail=False).status, 0)


def test_while_down():
    """Switched while down, it comes up in the mode."""
    pair = ends()
    defer(pair.ready)
    defer(back, pair)
    for end in pair:
        end.set("down")
        set_mode(end, "connected")
        ksft_eq(end.address()[0], 0x80)
        ksft_eq(end.mtu(), MTU)
        end.up()
    pair.ready()
    wait_connected(pair.a, pair.b)
    for end in pair:
        end.set("down")
        ksft_eq(conns(end), [], "connections of what is down")
        set_mode(end, "datagram")
        end.up()
    pair.ready()
    ksft_eq(conns(pair.a), [])


def test_up_and_down():
    """Down and up again in connected mode."""
    pair = ends()
    defer(back, pair)
    for end in pair:
        set_mode(end, "connected")
    pair.ready()
    for _ in range(3):
        wait_connected(pair.a, pair.b)
        pair.a.set("down")
        ksft_eq(conns(pair.a), [])
        pair.a.up()
        pair.ready()
    tcp_transfer(pair.a, pair.b, 2 * MIB)


@timeout(120)
def test_under_traffic():
    """Streams in both directions go on while the mode changes, often."""
    pair = ends()
    defer(back, pair)
    streams = [Stream(pair.a, pair.b), Stream(pair.b, pair.a),
               Stream(pair.a, pair.b, pair.b.v6)]
    worst = 0
    for number in range(10):
        for end in pair:
            begin = now()
            set_mode(end, "connected" if mode(end) == "datagram" else
                     "datagram")
            worst = max(worst, now() - begin)
        for stream in streams:
            stream.wait_progress(200000, limit=20)
    ksft_pr(f"longest switch {worst * 1000:.0f} ms")
    ksft_le(worst, slow(5))
    for stream in streams:
        stream.finish(60)


@timeout(90)
def test_floods():
    """UDP floods while the mode changes: no warning, no stuck queue."""
    pair = ends()
    defer(back, pair)
    with Flood(pair.a, pair.b.v4, 1000, burst=16), \
            Flood(pair.b, pair.a.v4, 60000, burst=4):
        for _ in range(6):
            for end in pair:
                set_mode(end, "connected")
            pair.wait_ping()
            for end in pair:
                set_mode(end, "datagram")
            pair.wait_ping()
    pair.ready()


def test_idle_cost():
    """The mode alone posts no receives, makes no QP and takes little memory."""
    pair = ends()
    defer(back, pair)
    qps = len(pair.a.port.hca.data_qps())
    used, posted = [], []
    for _ in range(4):
        idle = many.memory()
        before = pair.a.port.counter("rx_wrs")
        set_mode(pair.a, "connected")
        posted.append(pair.a.port.counter("rx_wrs") - before)
        pair.a.wait_carrier()
        used.append(many.memory() - idle)
        ksft_eq(len(pair.a.port.hca.data_qps()), qps)
        set_mode(pair.a, "datagram")
        pair.a.wait_carrier()
    ksft_pr(f"{used} KiB for the mode, {posted} receives posted")
    # Datagrams that come in meanwhile are replaced.
    ksft_lt(min(posted), 8, "receives posted")
    if not exists("/sys/kernel/debug/kmemleak"):
        ksft_lt(max(used), 1024, "KiB")


def test_user_offloads_kept():
    """An offload switched off by hand stays off where both modes have it."""
    pair = ends()
    defer(back, pair)
    defer(pair.a.ethtool, "-K sg on tso on gso on gro on", fail=False)
    pair.a.ethtool("-K tso off gro off")
    set_mode(pair.a, "connected")
    ksft_false(pair.a.feature("tx-tcp-segmentation"))
    ksft_false(pair.a.feature("generic-receive-offload"))
    set_mode(pair.a, "datagram")
    ksft_false(pair.a.feature("tx-tcp-segmentation"))
    ksft_false(pair.a.feature("generic-receive-offload"))


def features(end):
    """What ethtool says of each offload: {name: words}."""
    lines = end.ethtool("-k").stdout.splitlines()[1:]
    return {name: words for name, _, words in
            (line.strip().partition(": ") for line in lines)}


def changeable(found):
    """Those of the core that the administrator can change."""
    return sorted(name for name in CORE
                  if "[fixed]" not in found.get(name, "[fixed]"))


def test_features_kept():
    """The core's offloads are neither changed by the mode nor fixed by it."""
    pair = ends()
    defer(back, pair)
    at_first = features(pair.a)
    for name in ("rx-gro-list", "rx-udp-gro-forwarding"):
        if name in at_first:
            defer(pair.a.ethtool, f"-K {name} {at_first[name].split()[0]}",
                  fail=False)
            pair.a.ethtool(f"-K {name} on")
    before = features(pair.a)
    ksft_true(changeable(before), "some can be changed")
    set_mode(pair.a, "connected")
    there = features(pair.a)
    ksft_eq(changeable(there), changeable(before))
    ksft_eq([there.get(name) for name in CORE],
            [before.get(name) for name in CORE])
    set_mode(pair.a, "datagram")
    ksft_eq(features(pair.a), before)
    child = child_by_ip(pair.a, 0x8001, words="mode connected")
    ksft_eq(mode(child), "connected")
    ksft_eq(changeable(features(child)), changeable(before), "of a child")


@timeout(90)
def test_bond_told():
    """A bond over the interface keeps routes, so that they learn the MTU."""
    # New ones: what was in connected mode once keeps routes ever after.
    pair = ends_with()
    end, space = pair.a, pair.a.ns
    link = pair.b.mtu()
    defer(back, pair)
    # With it more features change, and the bond is told of them.
    end.ethtool("--set-priv-flags connected-offload off")
    bond_of(end)
    ip(f"link set bond9 up mtu {link}", ns=space)
    ip(f"addr add {end.v4}/24 dev bond9", ns=space)

    def answered():
        return ping(space, pair.b.v4, limit=0.5)

    def refused():
        try:
            ping(space, pair.b.v4, size=30000, limit=0.3, df=True)
        except OSError as error:
            return error.errno == errno.EMSGSIZE
        return False

    wait_until(answered, 20, "a reply to the bond")
    set_mode(end, "connected")
    ip(f"link set bond9 mtu {MTU}", ns=space)
    wait_until(answered, 20, "a reply to the bond in connected mode")
    before = counters(end)["pmtu_signalled"]
    wait_until(refused, 10, "EMSGSIZE")
    ksft_gt(counters(end)["pmtu_signalled"], before)
    ksft_in(f"mtu {link}", ip(f"route get {pair.b.v4}", ns=space).stdout)
    ping_ok(space, pair.b.v4, size=link - 28, df=True, limit=slow(2))


def class_packets(end, which):
    """How many packets a class of the interface's qdisc has sent."""
    text = end.ns.cmd(["tc", "-s", "class", "show", "dev", end.ifname]).stdout
    found = re.search(rf"^class \S+ {which} .*?\b(\d+) pkt", text, re.M | re.S)
    return int(found.group(1))


def test_filter_by_route():
    """A filter that looks at routes finds them after connected mode, too."""
    need_modules("sch_prio", "cls_route")
    pair = ends()
    defer(pair.ready)
    defer(back, pair)
    dev = f"dev {pair.a.ifname}"
    ip(f"route replace {pair.b.v4}/32 {dev} realm 5", ns=pair.a.ns)
    defer(ip, f"route del {pair.b.v4}/32 {dev}", ns=pair.a.ns, fail=False)
    pair.a.ns.cmd(["tc", *f"qdisc add {dev} root handle 1: prio".split()])
    defer(pair.a.ns.cmd, ["tc", *f"qdisc del {dev} root".split()])
    # A class where no packet comes by its priority.
    pair.a.ns.cmd(["tc", *f"filter add {dev} parent 1: protocol ip prio 1 "
                   "route to 5 classid 1:3".split()])

    def found():
        before = class_packets(pair.a, "1:3")
        ping_ok(pair.a.ns, pair.b.v4, count=5)
        return class_packets(pair.a, "1:3") - before

    ksft_ge(found(), 5, "packets that the filter found")
    for name in ("connected", "datagram"):
        set_mode(pair.a, name)
        pair.wait_ping()
        ksft_ge(found(), 5, f"packets that it found in {name} mode")


@timeout(60)
def test_hot_unplug():
    """The HCA goes in the middle of streams over connections."""
    pair = ends_with()
    for end in pair:
        set_mode(end, "connected")
    pair.ready()
    wait_connected(pair.a, pair.b)
    streams = [Stream(pair.a, pair.b) for _ in range(4)]
    streams += [Stream(pair.b, pair.a) for _ in range(4)]
    for stream in streams:
        stream.wait_progress()
    begin = now()
    hca(3).unplug()
    took = now() - begin
    ksft_pr(f"unplugged in {took * 1000:.0f} ms")
    ksft_le(took, slow(5))
    wait_until(lambda: not established(pair.a, "us"), 20,
               "the other's connection gone")
    hca(2).unplug()


@timeout(60)
def test_unload():
    """The module goes with connections open."""
    pair = ends()
    for end in pair:
        set_mode(end, "connected")
    pair.ready()
    wait_connected(pair.a, pair.b)
    ksft_ge(len(established(pair.b)), 1)
    unload_module()
    pair = ends()
    ksft_eq([mode(end) for end in pair], ["datagram", "datagram"])
    ksft_in("datagram", pair.a.read("mode"))
    ksft_true(pair.a.carrier())
