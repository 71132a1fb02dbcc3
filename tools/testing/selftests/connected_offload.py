# SPDX-License-Identifier: GPL-2.0-only
"""What two of ours leave out: checksums and segmentation, when both agree."""

import struct

from lib import (Capture, Mirror, defer, ksft_eq, ksft_false, ksft_ge, ksft_gt,
                 ksft_le, ksft_lt, ksft_pr, ksft_true, neigh_flush, ping,
                 ping_ok, slow, tcp_transfer, timeout, udp_exchange,
                 wait_until)
from lib.connected import (conns, connected_ends, counter, counters,
                           established, wait_connected)

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}
VERBS_ONLY = "connected mode"

MIB = 1 << 20
FLAG = "connected-offload"


def offload(pair, end, state):
    """Change the flag of an end: both open other connections after a while."""
    before = [counter(each, "conn_opened") for each in pair]
    end.ethtool(f"--set-priv-flags {FLAG} {state}")
    defer(end.ethtool, f"--set-priv-flags {FLAG} on", fail=False)

    def renewed():
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
            ping(src.ns, dst.v4, limit=0.3)
        return all(counter(each, "conn_opened") > old
                   for each, old in zip(pair, before))

    wait_until(renewed, 15, "other connections")
    wait_connected(pair.a, pair.b)
    wait_connected(pair.b, pair.a)


def wait_caps(pair, caps):
    """Until those before are closed at the other end, too."""
    for end in pair:
        wait_until(lambda e=end: established(e) and all(
            int(c["caps"], 0) == caps for c in established(e)), 15, "caps")


def csum_ok(packet):
    """Is the checksum of an IPv4 TCP or UDP packet right?"""
    hlen = (packet[0] & 15) * 4
    total = struct.unpack(">H", packet[2:4])[0]
    body = packet[hlen:total]
    pseudo = packet[12:20] + struct.pack(">BBH", 0, packet[9], len(body))
    data = pseudo + body + b"\0" * (len(body) & 1)
    value = sum(struct.unpack(f">{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xffff) + (value >> 16)
    return value == 0xffff


def wire_checksums(pair, kind):
    """How many of the UDP messages on the wire have a right checksum."""
    with Mirror(pair.a.port) as mirror:
        got = udp_exchange(pair.a, pair.b, 10, 700)
        ksft_eq((len(got.seen), got.bad), (10, 0), kind)
        packets = mirror.stop()
    good = bad = 0
    for packet in packets:
        # RC SEND only: without immediate data, and with it.
        if packet.opcode not in (4, 5):
            continue
        data = packet.payload[4:] if packet.opcode == 5 else packet.payload
        if data[:2] != b"\x08\0" or data[4 + 9] != 17:
            continue
        if csum_ok(data[4:]):
            good += 1
        else:
            bad += 1
    return good, bad


def test_flag():
    """The flag is on, and says what is offered."""
    pair = connected_ends()
    text = pair.a.ethtool("--show-priv-flags").stdout
    ksft_true(f"{FLAG}: on" in " ".join(text.split()), text)
    ksft_true(pair.a.feature("tx-checksum-ip-generic"))
    offload(pair, pair.a, "off")
    ksft_false(pair.a.feature("tx-checksum-ip-generic"))
    ksft_false(pair.a.feature("tx-tcp-segmentation"))
    wait_caps(pair, 0)
    offload(pair, pair.a, "on")
    ksft_true(pair.a.feature("tx-checksum-ip-generic"))
    wait_caps(pair, 3)


def test_checksums():
    """With the flag no checksum is made; without it all are right."""
    pair = connected_ends()
    ksft_eq(wire_checksums(pair, "on"), (0, 10))
    offload(pair, pair.b, "off")
    ksft_eq(wire_checksums(pair, "off at the other end"), (10, 0))
    offload(pair, pair.a, "off")
    ksft_eq(wire_checksums(pair, "off"), (10, 0))


def requests(pair, mss):
    """Send requests for 4 MiB of TCP with that segment size."""
    before = pair.a.port.counters()["tx_wrs"]
    tcp_transfer(pair.a, pair.b, 4 * MIB, mss=mss)
    return pair.a.port.counters()["tx_wrs"] - before


@timeout(90)
def test_segments():
    """Small segments go many at a time, and come as such to the peer."""
    pair = connected_ends()
    with_it = requests(pair, 1460)
    with Capture(pair.b, 0x0800) as packets:
        tcp_transfer(pair.a, pair.b, MIB, mss=1460)
    sizes = [len(p.data) for p in packets.of(0x0800) if p.data[9] == 6]
    ksft_ge(max(sizes), 8 * 1460, "largest packet the stack saw")
    offload(pair, pair.a, "off")
    without = requests(pair, 1460)
    ksft_pr(f"{with_it} requests with it, {without} without")
    ksft_lt(with_it, without / 4)


def test_ipv6():
    """The same in IPv6, and UDP of all sizes."""
    pair = connected_ends()
    tcp_transfer(pair.a, pair.b, 2 * MIB, address=pair.b.v6, mss=1000)
    for size in (1, 2000, 60000):
        got = udp_exchange(pair.a, pair.b, 20, size, address=pair.b.v6)
        ksft_eq((len(got.seen), got.bad), (20, 0), f"{size} bytes")
    for end in pair:
        ksft_eq(counters(end)["conn_rx_bad"], 0)


@timeout(60)
def test_forwarded():
    """What arrives unfinished and is sent on as a datagram is finished first."""
    from lib import ip  # pylint: disable=import-outside-toplevel
    pair = connected_ends()
    # Back to where it came from, by the same interface of host b.
    for end, via in ((pair.a, pair.b),):
        ip(["route", "add", "10.66.0.1/32", "via", via.v4], ns=end.ns)
        defer(ip, ["route", "del", "10.66.0.1/32"], ns=end.ns, fail=False)
    ip(["addr", "add", "10.66.0.1/32", "dev", "lo"], ns=pair.b.ns)
    defer(ip, ["addr", "del", "10.66.0.1/32", "dev", "lo"], ns=pair.b.ns,
          fail=False)
    tcp_transfer(pair.a, pair.b, 2 * MIB, address="10.66.0.1")


@timeout(60)
def test_toggled_under_traffic():
    """The flag and the stack's offloads are switched in a stream."""
    from lib import Stream  # pylint: disable=import-outside-toplevel
    pair = connected_ends()
    stream = Stream(pair.a, pair.b)
    for end in pair:
        defer(end.ethtool, "-K sg on tx on rx on tso on gso on gro on",
              fail=False)
    for state in ("off", "on", "off", "on"):
        for end in pair:
            end.ethtool(f"--set-priv-flags {FLAG} {state}")
            stream.wait_progress(500000, limit=20)
    for feature in ("tso", "gso", "gro", "tx", "sg", "rx"):
        for state in ("off", "on"):
            for end in pair:
                end.ethtool(f"-K {feature} {state}", fail=False)
            stream.wait_progress(500000, limit=20)
    stream.finish(60)
    ksft_gt(counters(pair.a)["conn_opened"], 2)
    ksft_le(len(conns(pair.a, "us")), 2)
    for end in pair:
        neigh_flush(end)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(3))
