# SPDX-License-Identifier: GPL-2.0-only
"""The mirror of a port, as Wireshark's dissectors read it."""

import collections

from lib import (Mirror, cmd, ends, ksft_eq, ksft_ge, ksft_gt, ksft_in,
                 neigh_flush, ping_ok, port, tcp_transfer, timeout)
from lib.capture import (LINKTYPE_ERF, LINKTYPE_INFINIBAND, dissect,
                         pcap_records)

BOOT = {"ipoib": "stock", "hcas": 2, "seconds": 20}


@timeout(240)
def test_tshark():
    """ARP, ICMP, ICMPv6, TCP, MADs: nothing is malformed."""
    pair = ends()
    path = "/run/mirror.pcap"
    with Mirror(pair.b.port) as mirror:
        neigh_flush(pair.a)
        ping_ok(pair.a.ns, pair.b.v4, count=3)
        ping_ok(pair.a.ns, pair.b.v6, count=3)
        tcp_transfer(pair.a, pair.b, 100000)
        cmd(["smpquery", "nodeinfo", port(1).lid()])
        cmd(["perfquery", port(1).lid(), "1"])
        packets = mirror.stop()
    mirror.save(path)
    ksft_in(pcap_records(mirror.data)[0],
            (LINKTYPE_INFINIBAND, LINKTYPE_ERF), "link type")
    ksft_ge(len(packets), 50)
    rows = dissect(path, "frame", "frame.protocols", "_ws.malformed")
    ksft_eq(len(rows), len(packets))
    ksft_eq([row for row in rows if len(row) > 1 and row[1]], [],
            "malformed packets")
    kinds = collections.Counter(
        word for row in rows for word in row[0].split(":"))
    for word in ("infiniband", "arp", "icmp", "icmpv6", "tcp"):
        ksft_gt(kinds[word], 0, f"{word} among {dict(kinds)}")


def test_mirror_content():
    """The mirror has both directions; a second start forgets the first."""
    pair = ends()
    for _ in range(2):
        with Mirror(pair.b.port) as mirror:
            ping_ok(pair.a.ns, pair.b.v4, size=333, count=4)
            packets = mirror.stop()
        lids = (pair.a.port.lid(), pair.b.port.lid())
        ours = [p for p in packets if p.dqpn > 1 and
                len(p.payload) == 333 + 28 + 4]
        ksft_eq(sum(p.slid == lids[0] for p in ours), 4, "requests")
        ksft_eq(sum(p.slid == lids[1] for p in ours), 4, "replies")
