# SPDX-License-Identifier: GPL-2.0-only
"""Our driver and the distribution's, in one kernel, talk to each other."""

import os

from lib import (any_ends, cmd, defer, exists, ifaces, ksft_eq, ksft_false,
                 ksft_in, ksft_true, loaded, mcast_passes, neigh_flush,
                 ping_ok, port, read, slow, tcp_transfer, timeout,
                 udp_exchange, verbs_only)
from lib.ipoib import forget
from lib.traffic import restarts

# The distribution's module makes an interface for both HCAs, ours is told to
# leave HCA 0 alone; what the other one has on HCA 1 stays down.
BOOT = {"ipoib": "interop", "hcas": 2, "needs": "interop", "seconds": 45}

MODULE = "ib_ipoib_interop"


def pair_up():
    """Host h1 on the distribution's driver, h2 on ours."""
    if not loaded(MODULE):
        cmd(["insmod", os.environ["IPOIB_INTEROP"],
             "ignore_devices=ibdevsim0"], timeout=slow(20))
    return any_ends(port(0), port(1), kinds=("ipoib", "ipoib_interop"))


def test_both_loaded():
    """Both modules are there, each on its HCA."""
    pair = pair_up()
    ksft_true(loaded(MODULE))
    ksft_true(loaded("ib_ipoib"))
    ksft_eq(len(ifaces()), 3, "two of the distribution's, one of ours")
    ksft_true(exists(f"/sys/kernel/debug/ipoib/{pair.a.ifname}_mcg"))
    ksft_true(exists(f"/sys/kernel/debug/ipoib_interop/{pair.b.ifname}_mcg"))
    ksft_eq(pair.a.link()["linkinfo"]["info_kind"], "ipoib")
    ksft_eq(pair.b.link()["linkinfo"]["info_kind"], "ipoib_interop")
    ksft_in(f"{MODULE} ", read("/proc/modules"))


def test_ping():
    """Ping both ways, all sizes, both families."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, 100, 1472, 2016, 2017, 9000, 60000):
            ping_ok(src.ns, dst.v4, size=size, limit=slow(2))
        for size in (0, 100, 1996, 1997, 20000):
            ping_ok(src.ns, dst.v6, size=size, limit=slow(2))


@timeout(90)
def test_tcp():
    """TCP both ways."""
    pair = pair_up()
    tcp_transfer(pair.a, pair.b, 8 << 20)
    tcp_transfer(pair.b, pair.a, 8 << 20)


@timeout(90)
def test_tcp_ipv6():
    """TCP over IPv6 both ways."""
    pair = pair_up()
    tcp_transfer(pair.a, pair.b, 4 << 20, address=pair.b.v6)
    tcp_transfer(pair.b, pair.a, 4 << 20, address=pair.a.v6)


def test_udp():
    """UDP, also in fragments, both ways."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (64, 2016, 20000):
            got = udp_exchange(src, dst, 30, size)
            ksft_eq((len(got.seen), got.bad), (30, 0), f"{size} bytes")


def test_multicast():
    """Multicast both ways, both families."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for group in ("239.12.0.1", "ff05::12:1"):
            mcast_passes(src, dst, group, 300)


def test_arp_flush():
    """Neighbours found again, both ways."""
    pair = pair_up()
    for _ in range(5):
        for end in pair:
            neigh_flush(end)
        ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))
        ping_ok(pair.b.ns, pair.a.v6, limit=slow(2))


@timeout(90)
def test_peer_restarts():
    """Either side goes down and comes back."""
    restarts(pair_up())


def test_reregister():
    """Either side registers again."""
    pair = pair_up()
    for end in pair:
        end.port.event("client_reregister")
        pair.wait_ping(20)
        tcp_transfer(pair.a, pair.b, 1 << 20)


@verbs_only("connected mode")
def test_connected_peer():
    """The distribution's side is put into connected mode: datagrams go on."""
    pair = pair_up()

    def back():
        pair.a.set("down")
        with open(pair.a.sys("mode"), "w", encoding="ascii") as file:
            file.write("datagram\n")
        pair.a.up()
        pair.ready()

    defer(back)
    pair.a.set("down")
    with open(pair.a.sys("mode"), "w", encoding="ascii") as file:
        file.write("connected\n")
    pair.a.up()
    pair.ready()
    ping_ok(pair.a.ns, pair.b.v4, count=3, limit=slow(2))
    ping_ok(pair.b.ns, pair.a.v4, count=3, limit=slow(2))
    tcp_transfer(pair.b, pair.a, 1 << 20)


@timeout(60)
def test_unload_one():
    """Ours goes, the distribution's stays; ours comes back."""
    pair = pair_up()
    forget(pair)
    cmd(["rmmod", MODULE], timeout=slow(20))
    ksft_false(loaded(MODULE))
    ksft_true(loaded("ib_ipoib"))
    ksft_eq(len(ifaces()), 2)
    pair = pair_up()
    ping_ok(pair.a.ns, pair.b.v4)
