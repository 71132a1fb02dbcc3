# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode between two of ours: everything passes, by connections."""

from lib import (counted, ip, ksft_eq, ksft_ge, ksft_gt, ksft_in, ksft_le,
                 ksft_true, mcast_passes, ping_ok, slow, tcp_transfer, timeout,
                 udp_exchange, wait_until)
from lib.connected import (MTU, conns, connected_ends, counters, established,
                           mode)
from lib.traffic import tcp_both_ways, tcp_many, tcp_small_segments

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}
VERBS_ONLY = "connected mode"

MIB = 1 << 20


def test_mode_shown():
    """MTU, address and mode say that it is connected mode."""
    pair = connected_ends()
    for end in pair:
        ksft_eq(mode(end), "connected")
        ksft_eq(end.mtu(), MTU)
        ksft_eq(end.address()[0], 0x80, "RC flag")
        ksft_eq(end.link()["linkinfo"]["info_data"]["mode"], "connected")


def test_connections():
    """Each side opens one for itself, and takes the other's."""
    pair = connected_ends()
    for end in pair:
        for by in ("us", "peer"):
            # One to the address of before the peer was in connected mode may
            # take a moment to go.
            wait_until(lambda e=end, b=by: len(established(e, b)) == 1, 20,
                       f"one connection of {end} opened by {by}")
        for conn in conns(end):
            ksft_eq(conn["max_msg"], "65524")
            ksft_eq(int(conn["caps"], 0), 3, "both are ours")


def test_ping():
    """Echoes of all sizes in both families, both ways."""
    pair = connected_ends()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, 100, 228, 229, 230, 1472, 2016, 2017, 3680, 3690,
                     4096, 9000, 36460, 36480, 60000, MTU - 28):
            ping_ok(src.ns, dst.v4, size=size, limit=slow(2), df=True)
        for size in (0, 100, 1996, 1997, 20000, MTU - 48):
            ping_ok(src.ns, dst.v6, size=size, limit=slow(2), df=True)


def test_messages():
    """A packet of the MTU is one message, not many datagrams."""
    pair = connected_ends()
    before = pair.a.port.counters()
    ping_ok(pair.a.ns, pair.b.v4, size=MTU - 28, count=10, limit=slow(2),
            df=True)
    after = pair.a.port.counters()
    # OpenSM may be sending from that port.
    mads = after["mad_tx"] - before["mad_tx"]
    ksft_le(after["tx_wrs"] - before["tx_wrs"] - mads, 30, "send requests")
    ksft_ge(after["tx_bytes"] - before["tx_bytes"], 10 * MTU)


def test_tcp():
    """Streams both ways in both families."""
    pair = connected_ends()
    tcp_transfer(pair.a, pair.b, 32 * MIB)
    tcp_transfer(pair.b, pair.a, 32 * MIB)
    tcp_transfer(pair.a, pair.b, 8 * MIB, address=pair.b.v6)
    tcp_transfer(pair.b, pair.a, 8 * MIB, address=pair.a.v6)


def test_tcp_many():
    """Sixteen streams at once."""
    tcp_many(connected_ends(), 2 * MIB)


def test_tcp_small_segments():
    """Segments of all sizes: small MSS, odd lengths."""
    tcp_small_segments(connected_ends())


def test_udp():
    """UDP of all sizes; nothing is lost, a connection has flow control."""
    pair = connected_ends()
    for size in (1, 64, 1400, 9000, 65000):
        got = udp_exchange(pair.a, pair.b, 100, size)
        ksft_eq((len(got.seen), got.bad, got.duplicates()), (100, 0, 0),
                f"{size} bytes")


def test_multicast():
    """Multicast goes by datagram."""
    pair = connected_ends()
    for group in ("239.7.0.1", "ff05::7:1"):
        mcast_passes(pair.a, pair.b, group, 300)


def test_counters():
    """What was sent is counted, byte by byte."""
    pair = connected_ends()
    before = [end.stats() for end in pair]
    got = udp_exchange(pair.a, pair.b, 200, 1000)
    ksft_eq(len(got.seen), 200)
    counted(pair.a, before[0], tx_packets=200, tx_bytes=200 * 1032)
    counted(pair.b, before[1], rx_packets=200, rx_bytes=200 * 1028)
    for end, old in zip(pair, before):
        for name in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped"):
            ksft_eq(end.stat(name), old[name], f"{name} of {end}")


@timeout(90)
def test_both_ways():
    """Both ways at once, in both families."""
    tcp_both_ways(connected_ends(), 8 * MIB)


def test_strict():
    """The HCA had nothing to complain about."""
    pair = connected_ends()
    for end in pair:
        end.port.no_mistakes()
        stats = counters(end)
        ksft_eq(stats["conn_rx_bad"], 0)
        ksft_gt(stats["conn_opened"], 0)
        ksft_gt(stats["conn_accepted"], 0)
    ksft_in("state UP", ip(["link", "show", pair.a.ifname],
                           ns=pair.a.ns).stdout)
    ksft_true(pair.a.carrier())
