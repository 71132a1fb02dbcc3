# SPDX-License-Identifier: GPL-2.0-only
"""Large packets one way: senders with small buffers, and peers that restart."""

import re
import socket

from lib import (UdpSink, defer, ends, ip, ksft_eq, ksft_ge, ping, ping_ok,
                 slow, timeout, wait_until)
from lib.connected import (MTU, connected_ends, counter, established,
                           wait_connected)
from lib.traffic import _addr, udp_send

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 45}
VERBS_ONLY = "connected mode"


def armed(end):
    """Completion interrupts that an interface has asked for."""
    text = end.ethtool("-S").stdout
    return sum(int(n) for n in re.findall(r"interrupts_armed: (\d+)", text))


def learned(end, address):
    """The MTU that the route has learned, or None."""
    text = ip(["route", "get", address], ns=end.ns).stdout
    found = re.search(r"\bmtu (\d+)", text)
    return int(found.group(1)) if found else None


def flood(pair, size, count):
    """One way, with the buffer that a socket has by default."""
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        before = armed(pair.a)
        taken = udp_send(sock, _addr(pair.b.v4, sink.port), count, size)
        ksft_eq(taken, count, "datagrams that the socket took")
        ksft_eq(sink.collect(count, slow(2)), count, f"{size} bytes")
        ksft_eq((sink.bad, sink.duplicates()), (0, 0))
        return armed(pair.a) - before


def test_default_buffer():
    """A sender whose buffer holds three packets is woken by interrupts."""
    pair = connected_ends()
    # The buffer is half full with the second packet, and full with the third.
    ksft_ge(flood(pair, 60000, 150), 30, "interrupts asked for")


def test_default_buffer_datagram():
    """The same in datagram mode."""
    pair = ends()
    with pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, \
            UdpSink(pair.b.ns, pair.b.v4) as sink:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 6000)
        before = armed(pair.a)
        taken = udp_send(sock, _addr(pair.b.v4, sink.port), 200, 1000)
        ksft_eq((taken, sink.collect(200, slow(2))), (200, 200))
        ksft_ge(armed(pair.a) - before, 20, "interrupts asked for")


@timeout(120)
def test_long_echoes():
    """No echo of the MTU's length is lost, one after the other."""
    pair = connected_ends()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        ping_ok(src.ns, dst.v4, size=MTU - 28, count=100, limit=slow(2),
                df=True)
        ping_ok(src.ns, dst.v6, size=MTU - 48, count=50, limit=slow(2),
                df=True)


def refused(pair, times):
    """The peer goes down, and refuses so many connections in a row."""
    # The stack goes on sending, whatever it thinks of the peer.
    where = [pair.b.v4, "dev", pair.a.ifname]
    ip(["neigh", "replace", *where, "lladdr", pair.b.address().hex(":"),
        "nud", "permanent"], ns=pair.a.ns)
    defer(ip, ["neigh", "del", *where], ns=pair.a.ns, fail=False)
    pair.b.set("down")
    wait_until(lambda: not established(pair.a, "us"), 20, "its end")
    before = counter(pair.a, "conn_rejected")

    def rejected():
        ping(pair.a.ns, pair.b.v4, size=30000, limit=0.05)
        return counter(pair.a, "conn_rejected") >= before + times

    wait_until(rejected, 40, f"{times} refusals", interval=0.05)
    pair.b.up()
    pair.b.wait_carrier()


@timeout(120)
def test_peer_restarts():
    """A peer that was down for a moment leaves no smaller path MTU behind."""
    pair = connected_ends()
    for address in (pair.b.v4, pair.b.v6):
        ping_ok(pair.a.ns, address, size=30000, df=True, limit=slow(2))
    signalled = counter(pair.a, "pmtu_signalled")
    # Three seconds: after 0, 0.5, 1.5 and 3.5.
    refused(pair, 3)
    wait_connected(pair.a, pair.b, 30)
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, size=30000, df=True), 10,
               "a long echo")
    wait_until(lambda: ping(pair.a.ns, pair.b.v6, size=30000, df=True), 10,
               "a long echo, IPv6")
    ksft_eq(learned(pair.a, pair.b.v4), None)
    ksft_eq(learned(pair.a, pair.b.v6), None)
    ksft_eq(counter(pair.a, "pmtu_signalled"), signalled)


@timeout(120)
def test_heard_again():
    """A peer that announces itself need not wait for the end of a back-off."""
    pair = connected_ends()
    # The next attempt is due after eight seconds or more.
    refused(pair, 5)
    ping_ok(pair.b.ns, pair.a.v4, limit=slow(2))
    wait_connected(pair.a, pair.b, 4)
