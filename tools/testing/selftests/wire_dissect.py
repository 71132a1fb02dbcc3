# SPDX-License-Identifier: GPL-2.0-only
"""What the driver sends, as Wireshark's dissectors read it."""

import collections

from lib import (Mirror, cmd, ends, ksft_eq, ksft_ge, ksft_gt, mcast_flow,
                 neigh_flush, ping_ok, slow, tcp_transfer, timeout,
                 udp_exchange)

BOOT = {"hcas": 2, "seconds": 25}


@timeout(240)
def test_dissectors():
    """Nothing is malformed, every checksum is right."""
    pair = ends()
    path = "/run/dissect.pcap"
    with mcast_flow(pair.a, pair.b, "239.30.0.1", 300) as (_, flows):
        with Mirror(pair.b.port) as mirror:
            for end in pair:
                neigh_flush(end)
            ping_ok(pair.a.ns, pair.b.v4, count=2, limit=slow(2))
            ping_ok(pair.a.ns, pair.b.v6, count=2, limit=slow(2))
            ping_ok(pair.a.ns, pair.b.v4, size=5000)
            tcp_transfer(pair.a, pair.b, 60000)
            tcp_transfer(pair.b, pair.a, 60000, address=pair.a.v6)
            udp_exchange(pair.a, pair.b, 5, 1000)
            flows()
            packets = mirror.stop()
    mirror.save(path)
    ksft_ge(len(packets), 60)
    text = cmd(["tshark", "-n", "-r", path, "-T", "fields",
                "-o", "ip.check_checksum:TRUE",
                "-o", "tcp.check_checksum:TRUE",
                "-o", "udp.check_checksum:TRUE",
                "-e", "frame.protocols", "-e", "_ws.malformed",
                "-e", "ip.checksum.status", "-e", "tcp.checksum.status",
                "-e", "udp.checksum.status", "-e", "icmpv6.checksum.status"],
               timeout=slow(90)).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    ksft_eq(len(rows), len(packets), "packets")
    ksft_eq([row for row in rows if row[1]], [], "malformed")
    kinds = collections.Counter(
        word for row in rows for word in row[0].split(":"))
    for word in ("arp", "icmp", "icmpv6", "tcp", "udp"):
        ksft_gt(kinds[word], 0, f"{word} among {dict(kinds)}")
    # 0 is bad, 1 is good, 2 and 3 are unverified and absent.
    for column, name in ((2, "IPv4"), (3, "TCP"), (4, "UDP"), (5, "ICMPv6")):
        found = collections.Counter(
            value for row in rows for value in row[column].split(",") if value)
        ksft_eq(found["0"], 0, f"{name} checksums that are bad")
        ksft_gt(found["1"], 0, f"{name} checksums that are good: {found}")
