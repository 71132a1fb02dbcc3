#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Switching the mode: by sysfs and netlink, up and down, under traffic."""

import errno

from lib import (Failed, Flood, Stream, any_ends, defer, ends, exists, fabric,
                 hca, ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_le, ksft_lt,
                 ksft_ne, ksft_pr, ksft_true, main, now, ping_ok, port, slow,
                 tcp_transfer, timeout, unload_module, wait_until, write)
from lib import many
from lib.connected import (MTU, conns, counters, established, mode,
                           netlink_mode, set_mode, to_datagram,
                           wait_connected)

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 90}

MIB = 1 << 20
FEATURES = ("tx-checksum-ip-generic", "tx-checksum-ipv4",
            "tx-tcp-segmentation", "tx-tcp6-segmentation",
            "scatter-gather", "generic-receive-offload")


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
    for stream in streams:
        defer(stream.abort)
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


@timeout(60)
def test_hot_unplug():
    """The HCA goes in the middle of streams over connections."""
    for number in (2, 3):
        fabric.add_hca(number)
    pair = any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False)
    for end in pair:
        set_mode(end, "connected")
    pair.ready()
    wait_connected(pair.a, pair.b)
    streams = [Stream(pair.a, pair.b) for _ in range(4)]
    streams += [Stream(pair.b, pair.a) for _ in range(4)]
    for stream in streams:
        defer(stream.abort)
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


if __name__ == "__main__":
    main(globals())
