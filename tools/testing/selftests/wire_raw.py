# SPDX-License-Identifier: GPL-2.0-only
"""Packets that no honest peer sends: dropped and counted, nothing breaks."""

import os
import random
import struct
import zlib

from lib import (Capture, Mirror, Stream, UdpSink, ends, ksft_eq, ksft_ge, ksft_gt,
                 ksft_le, ksft_true, neigh_flush, not_ud, ping_ok, slow, tcp_transfer,
                 timeout, udp_exchange, wait_until)
from lib.capture import bth, deth, grh, lrh

BOOT = {"hcas": 2, "seconds": 30}

QKEY = 0x0b1b


class Forge:
    """Makes packets from one end to the other, right but for what is asked."""

    def __init__(self, pair):
        self.src, self.dst = pair.a, pair.b
        self.slid, self.dlid = pair.a.port.lid(), pair.b.port.lid()
        with Mirror(pair.b.port) as mirror:
            ping_ok(pair.a.ns, pair.b.v4)
            packets = mirror.stop()
        seen = [p for p in packets if p.qkey is not None and
                p.dqpn == pair.b.qpn()]
        self.qkey = seen[0].qkey if seen else QKEY

    def packet(self, payload, *, pkey=0xffff, qkey=None, dqpn=None, sqpn=None,
               opcode=0x64, global_=None, dlid=None):
        """A whole packet, without CRCs."""
        pad = -len(payload) & 3
        body = bth(self.dst.qpn() if dqpn is None else dqpn, pkey, opcode,
                   pad)
        if opcode >> 5 == 3:
            body += deth(self.qkey if qkey is None else qkey,
                         self.src.qpn() if sqpn is None else sqpn)
        body += payload + bytes(pad)
        head = b""
        if global_:
            head = grh(*global_, len(body) + 4)
        return lrh(self.dlid if dlid is None else dlid, self.slid,
                   (8 + len(head) + len(body) + 4) // 4, bool(global_)) + \
            head + body

    def inject(self, *args, **kwargs):
        """Have a packet arrive at the other end."""
        data = self.packet(*args, **kwargs)
        fd = os.open(f"{self.dst.port.dir}/inject", os.O_WRONLY)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


def ipoib(proto, payload, reserved=0):
    """An IPoIB datagram."""
    return struct.pack(">HH", proto, reserved) + payload


def udp(src, dst, port, data):
    """An IPv4 UDP datagram with checksums as they should be."""
    def packed(text):
        return bytes(int(word) for word in text.split("."))

    total = 28 + len(data)
    head = struct.pack(">BBHHHBBH", 0x45, 0, total, 1, 0, 64, 17, 0) + \
        packed(src) + packed(dst)
    check = checksum(head)
    head = head[:10] + struct.pack(">H", check) + head[12:]
    return head + struct.pack(">HHHH", 5, port, 8 + len(data), 0) + data


def checksum(data):
    """The Internet checksum."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def numbered(number, size=64):
    """What a UdpSink takes."""
    body = bytes(size)
    return struct.pack(">II", number, zlib.crc32(body)) + body


def test_good():
    """The forged packets arrive if they are right: the tests below count."""
    pair = ends()
    forge = Forge(pair)
    gids = tuple(bytes.fromhex(end.port.gid().replace(":", ""))
                 for end in pair)
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        good = udp(pair.a.v4, pair.b.v4, sink.port, numbered(1))
        forge.inject(ipoib(0x0800, good))
        ksft_eq(sink.collect(1, slow(1)), 1, "without GRH")
        good = udp(pair.a.v4, pair.b.v4, sink.port, numbered(2))
        forge.inject(ipoib(0x0800, good), global_=gids)
        ksft_eq(sink.collect(2, slow(1)), 2, "with a GRH")


def test_reserved_ignored():
    """The reserved 16 bits are ignored (RFC 4391, section 6)."""
    pair = ends()
    forge = Forge(pair)
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        good = udp(pair.a.v4, pair.b.v4, sink.port, numbered(1))
        forge.inject(ipoib(0x0800, good, reserved=0xf00f))
        ksft_eq(sink.collect(1, slow(1)), 1)


def test_runts():
    """Datagrams too short for the header of IPoIB, or barely."""
    pair = ends()
    forge = Forge(pair)
    before = pair.b.port.counter("rx_packets")
    for length in range(0, 9):
        for _ in range(20):
            forge.inject(bytes(length))
    ksft_ge(pair.b.port.counter("rx_packets") - before, 100, "arrived")
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    tcp_transfer(pair.a, pair.b, 1 << 20)


def test_runt_ring():
    """More runts than the ring has places: receives are not lost."""
    pair = ends()
    forge = Forge(pair)
    for _ in range(1500):
        forge.inject(b"\x08")
    # The last of them may fill the ring for a moment.
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    got = udp_exchange(pair.a, pair.b, 50, 1000)
    ksft_eq(len(got.seen), 50)


def test_ethertypes():
    """Every ethertype: unknown ones go no further than the stack."""
    pair = ends()
    forge = Forge(pair)
    with Capture(pair.b) as seen:
        for proto in (0, 1, 0x600, 0x8035, 0x8100, 0x86dd, 0x88a8, 0x88ca,
                      0x8847, 0xffff):
            for _ in range(5):
                forge.inject(ipoib(proto, random.randbytes(200)))
        ping_ok(pair.a.ns, pair.b.v4, count=3)
    ksft_true(seen.of(0x0800), "the pings between them")


def test_garbage_inside():
    """IPoIB headers with rubbish behind them."""
    pair = ends()
    forge = Forge(pair)
    random.seed(4391)
    for _ in range(300):
        proto = random.choice((0x0800, 0x0806, 0x86dd))
        forge.inject(ipoib(proto, random.randbytes(random.randrange(300))))
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    ping_ok(pair.a.ns, pair.b.v6, count=3)


@not_ud("it does not look at Q_Keys")
def test_wrong_qkey():
    """A wrong Q_Key: the HCA drops it."""
    pair = ends()
    forge = Forge(pair)
    before = pair.b.port.counter("drop_qkey")
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        good = udp(pair.a.v4, pair.b.v4, sink.port, numbered(1))
        for _ in range(5):
            forge.inject(ipoib(0x0800, good), qkey=forge.qkey ^ 1)
        ksft_eq(sink.collect(1, slow(0.3)), 0)
    ksft_eq(pair.b.port.counter("drop_qkey") - before, 5)


def test_wrong_pkey():
    """A wrong P_Key, and a limited member's to a full member."""
    pair = ends()
    forge = Forge(pair)
    before = pair.b.port.counter("drop_pkey")
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        good = udp(pair.a.v4, pair.b.v4, sink.port, numbered(1))
        for _ in range(5):
            forge.inject(ipoib(0x0800, good), pkey=0x9999)
        forge.inject(ipoib(0x0800, good), pkey=0x8001)
        ksft_eq(sink.collect(1, slow(0.3)), 0)
        ksft_eq(pair.b.port.counter("drop_pkey") - before, 6)
        forge.inject(ipoib(0x0800, good), pkey=0x7fff)
        ksft_eq(sink.collect(1, slow(1)), 1, "from a limited member")


def test_wrong_qpn():
    """A QPN that nobody has, and opcodes that are no datagrams."""
    pair = ends()
    forge = Forge(pair)
    before = pair.b.port.counters()
    for _ in range(5):
        forge.inject(ipoib(0x0800, bytes(64)), dqpn=0xabcdef)
    for opcode in (0x04, 0x24, 0x44, 0x70):
        forge.inject(ipoib(0x0800, bytes(64)), opcode=opcode)
    after = pair.b.port.counters()
    ksft_ge(after["drop_no_qp"] - before["drop_no_qp"], 5)
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_bad_grh():
    """Global headers with GIDs that make no sense."""
    pair = ends()
    forge = Forge(pair)
    own = bytes.fromhex(pair.b.port.gid().replace(":", ""))
    other = bytes.fromhex(pair.a.port.gid().replace(":", ""))
    multicast = bytes.fromhex("ff12401bffff000000000000ffffffff")
    gids = [(other, bytes(16)), (bytes(16), own), (own, own),
            (multicast, own), (other, multicast), (other, b"\xff" * 16),
            (random.randbytes(16), random.randbytes(16))]
    before = pair.b.port.counter("drop_gid")
    for pair_of_gids in gids:
        for length in (0, 3, 4, 40, 200):
            forge.inject(ipoib(0x0800, bytes(length))[:max(length, 4)],
                         global_=pair_of_gids)
    # An HCA takes what is for it.
    ksft_eq(pair.b.port.counter("drop_gid") - before,
            5 * sum(dgid != own for _, dgid in gids))
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_oversize():
    """Datagrams longer than a receive takes."""
    pair = ends()
    forge = Forge(pair)
    before = pair.b.port.counters()
    stats = pair.b.stats()
    for size in (2049, 2100, 3000, 4000):
        for _ in range(10):
            forge.inject(ipoib(0x0800, bytes(size - 4)))

    def accounted():
        after = pair.b.port.counters()
        now = pair.b.stats()
        return (sum(after[k] - before[k] for k in
                    ("drop_mtu", "drop_recv_short", "drop_malformed")) +
                sum(now[k] - stats[k] for k in
                    ("rx_packets", "rx_errors", "rx_dropped")))

    wait_until(lambda: accounted() >= 40, 3, "each one is accounted for")
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    tcp_transfer(pair.a, pair.b, 1 << 20)


def test_oversize_ring():
    """More oversize datagrams than the ring has places."""
    pair = ends()
    forge = Forge(pair)
    for _ in range(1200):
        forge.inject(ipoib(0x0800, bytes(2500)))
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    got = udp_exchange(pair.a, pair.b, 50, 1000)
    ksft_eq(len(got.seen), 50)


def test_own_source():
    """A packet that says it comes from the receiver itself."""
    pair = ends()
    forge = Forge(pair)
    own = bytes.fromhex(pair.b.port.gid().replace(":", ""))
    multicast = bytes.fromhex("ff12401bffff000000000000ffffffff")
    for _ in range(10):
        forge.inject(ipoib(0x0806, bytes(56)), sqpn=pair.b.qpn(),
                     global_=(own, multicast))
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_forged_arp():
    """ARP with lengths and types that lie."""
    pair = ends()
    forge = Forge(pair)
    random.seed(4390)
    for hrd, hln in ((32, 20), (1, 6), (32, 6), (0, 0), (32, 255)):
        arp = struct.pack(">HHBBH", hrd, 0x0800, hln, 4, 1)
        for length in (0, 10, 48, 100):
            forge.inject(ipoib(0x0806, arp + random.randbytes(length)))
    ping_ok(pair.a.ns, pair.b.v4, count=3)


@timeout(90)
def test_under_traffic():
    """Rubbish of all kinds while TCP runs."""
    pair = ends()
    forge = Forge(pair)
    random.seed(4392)
    stream = Stream(pair.a, pair.b)
    for _ in range(400):
        what = random.randrange(5)
        if what == 0:
            forge.inject(random.randbytes(random.randrange(8)))
        elif what == 1:
            forge.inject(ipoib(random.randrange(65536),
                               random.randbytes(random.randrange(1500))))
        elif what == 2:
            forge.inject(ipoib(0x0800, bytes(random.randrange(2040, 2600))))
        elif what == 3:
            forge.inject(ipoib(0x86dd, random.randbytes(60)),
                         qkey=random.randrange(1 << 32))
        else:
            forge.inject(random.randbytes(200), pkey=random.randrange(65536))
    stream.wait_progress()
    stream.finish()


def test_wire_format():
    """What the driver sends: Q_Key, P_Key, zero reserved bits, no GRH in the
    subnet, a GRH on multicast."""
    pair = ends()
    # The peer goes first: one that probes would be known from that.
    neigh_flush(pair.b)
    with Mirror(pair.b.port) as mirror:
        neigh_flush(pair.a)
        ping_ok(pair.a.ns, pair.b.v4, count=3)
        ping_ok(pair.a.ns, pair.b.v6, count=3)
        packets = mirror.stop()
    slid = pair.a.port.lid()
    sent = [p for p in packets if p.slid == slid and p.qkey is not None and
            p.dqpn > 1]
    ksft_ge(len(sent), 7)
    ksft_eq({p.pkey for p in sent}, {0xffff})
    ksft_eq(len({p.qkey for p in sent}), 1, "Q_Keys")
    # Of any of its queues, but what peers may look at of the first.
    ksft_le({p.sqpn for p in sent},
            {qp.qpn for qp in pair.a.port.hca.data_qps()}, "source QPNs")
    ksft_eq({p.sqpn for p in sent if p.dqpn == 0xffffff or
             p.ipoib()[0] == 0x0806}, {pair.a.qpn()}, "source QPN")
    ksft_eq({p.ipoib()[1] for p in sent}, {0}, "reserved")
    ksft_le({p.ipoib()[0] for p in sent}, {0x0800, 0x0806, 0x86dd})
    unicast = [p for p in sent if p.dqpn != 0xffffff]
    multicast = [p for p in sent if p.dqpn == 0xffffff]
    ksft_gt(len(unicast), 0)
    ksft_gt(len(multicast), 0)
    ksft_eq({bool(p.grh) for p in unicast}, {False})
    ksft_eq({bool(p.grh) for p in multicast}, {True})
    ksft_true(all(p.dlid >= 0xc000 for p in multicast))
    ksft_true(any(p.dgid.hex() == "ff12401bffff000000000000ffffffff"
                  for p in multicast), "a broadcast")
    wait_until(lambda: pair.a.carrier(), 1)
