# SPDX-License-Identifier: GPL-2.0-only
"""A fabric whose broadcast group has an MTU of 4096: interfaces of 4092."""

from lib import (Capture, ends, ksft_eq, ksft_ge, ksft_le, ksft_raises,
                 mcast_flow, own_interfaces, ping, ping_ok, plain_ends, slow,
                 tcp_transfer, udp_exchange)

BOOT = {
    "hcas": 2,
    "hca": "mtu=4096",
    "partitions": "Default=0xffff, ipoib, mtu=5 : ALL=full;",
    "seconds": 20,
}


def test_mtu():
    """The interface has the group's MTU."""
    for end in ends():
        ksft_eq(end.mtu(), 4092)


def test_sizes():
    """Packets up to 4092 bytes pass whole, longer ones in fragments."""
    pair = ends()
    for size in (0, 100, 2016, 2017, 3000, 4092 - 29, 4092 - 28):
        ping_ok(pair.a.ns, pair.b.v4, size=size, df=True)
        ping_ok(pair.b.ns, pair.a.v4, size=size, df=True)
    with ksft_raises(OSError):
        ping(pair.a.ns, pair.b.v4, size=4092 - 27, df=True)
    for size in (4092 - 27, 9000, 65000):
        ping_ok(pair.a.ns, pair.b.v4, size=size, limit=slow(2))
    ping_ok(pair.a.ns, pair.b.v6, size=4092 - 48, df=True)


def test_streams():
    """TCP in both families and directions, UDP, with GRO."""
    pair = ends()
    with Capture(pair.b, 0x0800) as packets:
        tcp_transfer(pair.a, pair.b, 8 << 20)
    if own_interfaces() != "ud":    # which merges nothing
        ksft_ge(max(len(p.data) for p in packets.of(0x0800)), 2 * 4092)
    tcp_transfer(pair.b, pair.a, 8 << 20)
    tcp_transfer(pair.a, pair.b, 4 << 20, address=pair.b.v6)
    got = udp_exchange(pair.a, pair.b, 50, 4092 - 28)
    ksft_eq((len(got.seen), got.bad), (50, 0))


def test_multicast():
    """Multicast of full size."""
    pair = ends()
    with mcast_flow(pair.a, pair.b, "239.1.4.1", 4092 - 28) as (sink, _):
        ksft_eq(sink.bad, 0)


def test_no_offloads():
    """Without the HCA's offloads."""
    pair = plain_ends(mtu=4096)
    ksft_eq(pair.a.mtu(), 4092)
    tcp_transfer(pair.a, pair.b, 4 << 20)
    tcp_transfer(pair.b, pair.a, 4 << 20, address=pair.a.v6)
    ksft_le(pair.b.stat("rx_errors"), 0)
