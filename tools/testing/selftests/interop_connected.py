# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode with the distribution's driver as the peer, in both roles."""

import os

from lib import (Stream, any_ends, cmd, defer, ksft_eq, ksft_ge, ksft_gt,
                 loaded, mcast_passes, neigh_flush, ping, ping_ok, port, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until, write)
from lib.connected import (MTU, conns, counter, established, mode, to_datagram,
                           wait_connected)
from lib.traffic import restarts

BOOT = {"ipoib": "interop", "hcas": 2, "needs": "interop", "seconds": 90}
VERBS_ONLY = "connected mode"

MODULE = "ib_ipoib_interop"
MIB = 1 << 20


def pair_up():
    """Host a on the distribution's driver, b on ours; both connected."""
    if not loaded(MODULE):
        cmd(["insmod", os.environ["IPOIB_INTEROP"],
             "ignore_devices=ibdevsim0"], timeout=slow(20))
    pair = any_ends(port(0), port(1), kinds=("ipoib", "ipoib_interop"))
    for end in pair:
        defer(to_datagram, end)
        stock_mode(end, "connected")
    for end in pair:
        neigh_flush(end)
    pair.wait_ping(slow(10))
    wait_connected(pair.b, pair.a)
    # The other one tells nobody: ours knows who has connected.
    wait_until(lambda: (ping(pair.a.ns, pair.b.v4, limit=2) and
                        established(pair.b, "peer")), 20,
               "a connection opened by the distribution's")
    return pair


def stock_mode(end, name):
    """The distribution's does not say so when it did not work."""
    def there():
        if mode(end) != name:
            write(end.sys("mode"), name + "\n")
        return mode(end) == name

    wait_until(there, 10, f"{end} in {name} mode", interval=0.2)


def test_connected():
    """One connection each way; ours knows that the other is another."""
    pair = pair_up()
    for by in ("us", "peer"):
        # One of before the neighbours were flushed may take a moment to go.
        wait_until(lambda b=by: len(established(pair.b, b)) == 1, 20,
                   f"one connection opened by {by}")
    for conn in conns(pair.b):
        ksft_eq(conn["max_msg"], "65524")
        ksft_eq(int(conn["caps"], 0), 0)
    for end in pair:
        ksft_eq(end.mtu(), MTU)


def test_ping():
    """Echoes of all sizes both ways, in both families."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, 100, 228, 2016, 2017, 3690, 9000, 36480, 60000,
                     MTU - 28):
            ping_ok(src.ns, dst.v4, size=size, limit=slow(2))
        for size in (0, 1996, 1997, 20000, MTU - 48):
            ping_ok(src.ns, dst.v6, size=size, limit=slow(2))


@timeout(90)
def test_tcp():
    """TCP both ways, in both families, with small segments too."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        tcp_transfer(src, dst, 16 * MIB)
        tcp_transfer(src, dst, 4 * MIB, address=dst.v6)
        tcp_transfer(src, dst, 2 * MIB, mss=1460)


def test_udp():
    """UDP both ways."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (64, 2016, 20000, 65000):
            got = udp_exchange(src, dst, 50, size)
            ksft_eq((len(got.seen), got.bad), (50, 0), f"{size} bytes")


def test_multicast():
    """Multicast is datagrams, both ways."""
    pair = pair_up()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        mcast_passes(src, dst, "239.12.0.2", 300)


@timeout(90)
def test_mixed_modes():
    """Either side alone in connected mode."""
    pair = pair_up()
    for end in pair:
        stock_mode(end, "datagram")
        for other in pair:
            neigh_flush(other)
        pair.wait_ping(20)
        pair.wait_ping(20, reverse=True)
        tcp_transfer(pair.a, pair.b, MIB)
        tcp_transfer(pair.b, pair.a, MIB)
        stock_mode(end, "connected")
        for other in pair:
            neigh_flush(other)
        pair.wait_ping(20)


@timeout(90)
def test_restarts():
    """Either side goes down and comes back in the middle of a stream."""
    restarts(pair_up())


@timeout(90)
def test_lost_connections():
    """Ours loses its QPs: streams go on, both ways."""
    pair = pair_up()
    for src, dst in ((pair.b, pair.a), (pair.a, pair.b)):
        stream = Stream(src, dst)
        stream.wait_progress()
        for qp in pair.b.port.hca.data_qps():
            if qp.type == "RC" and qp.state == "RTS":
                pair.b.port.hca.break_qp(qp.qpn)
        stream.wait_progress(1 << 20, limit=25)
        stream.finish(60)
    ksft_gt(counter(pair.b, "conn_broken"), 0)


def test_requeued():
    """What the other did not acknowledge is sent again, over a new one."""
    pair = pair_up()
    udp_exchange(pair.b, pair.a, 5, 30000)
    requeued = counter(pair.b, "conn_requeued")
    pair.b.port.set("rc_send_error", 1)
    got = udp_exchange(pair.b, pair.a, 10, 30000, limit=slow(3))
    ksft_eq(pair.b.port.get("rc_send_error"), "0", "errors left")
    ksft_eq((len(got.seen), got.bad), (10, 0))
    ksft_ge(counter(pair.b, "conn_requeued"), requeued + 1)
