# SPDX-License-Identifier: GPL-2.0-only
"""Requests for connections that no decent peer makes: refused and bounded."""

import os
import socket
import struct

from lib import (Mirror, any_ends, defer, fabric, ksft_eq, ksft_ge, ksft_gt,
                 ksft_in, ksft_le, ksft_pr, now, ping, ping_ok, port, slow,
                 tcp_transfer, timeout, wait_until)
from lib.capture import bth, deth, lrh
from lib.connected import (both_connected, conns, connected_ends, counter,
                           counters, established, set_mode, wait_connected)

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}
VERBS_ONLY = "connected mode"

HALF_OPEN = 1024    # in all
LID_HALF_OPEN = 128 # of a LID
QP1_BURST = 256
PEER_OPEN = 256     # of a GID at a LID
QKEY_GSI = 0x80010000
CM_CLASS, CM_REQ, CM_REP, CM_RTU = 0x07, 0x0010, 0x0013, 0x0014
# Bytes of the MAD, behind its header of 24.
COMM_ID, REMOTE_ID, SERVICE_ID, CA_GUID, QPN, FLAGS, CM_TIMEOUT, PKEY, LID, \
    GID, PRIVATE = (24, 28, 32, 40, 56, 67, 71, 72, 76, 80, 164)
NOBODY = 0x7000     # a LID that no port has


class Requests:
    """A real request of the other end, to be changed and sent again."""

    # Never the same twice: the CM remembers connections for a while that are closed.
    number = 0x70000000

    def __init__(self, pair):
        self.pair = pair
        set_mode(pair.a, "datagram")
        with Mirror(pair.b.port) as mirror:
            set_mode(pair.a, "connected")
            pair.wait_ping()
            wait_connected(pair.a, pair.b)
            packets = mirror.stop()
        # The end of the one before may be told after the new one is there.
        wait_until(lambda: counter(pair.b, "conn_passive") == 1, 20,
                   "one connection of the peer")
        found = [p.payload for p in packets if p.dqpn == 1 and
                 p.dlid == pair.b.port.lid() and len(p.payload) == 256 and
                 p.payload[1] == CM_CLASS and
                 p.payload[16:18] == struct.pack(">H", CM_REQ)]
        self.mad = bytearray(found[0])

    def send(self, change=None, private=None, dst=None, lid=None,
             patient=False):
        """
        One more request, of a QP and a CM nobody knows.  From a LID that is not
        that of a, it says so.  Such a request, and a @patient one, has the CM
        wait for a minute, five times; others are given up as soon as those of
        a real peer.
        """
        dst = dst or self.pair.b
        Requests.number += 1
        mad = bytearray(self.mad)
        mad[8:16] = struct.pack(">Q", self.number)
        mad[COMM_ID:COMM_ID + 4] = struct.pack(">I", self.number)
        mad[CA_GUID:CA_GUID + 8] = struct.pack(">Q", 0xdead0000 + self.number)
        mad[QPN:QPN + 3] = struct.pack(">I", self.number)[1:]
        if lid is not None:
            mad[LID:LID + 2] = struct.pack(">H", lid)
        if lid is not None or patient:
            mad[CM_TIMEOUT] = 24 << 3 | mad[CM_TIMEOUT] & 7
        if change:
            change(mad)
        if private is not None:
            mad[PRIVATE:] = private.ljust(92, b"\0")[:92]
        self.inject(mad, dst, lid)

    def inject(self, mad, dst, lid=None):
        """A MAD from a, or from another LID: there the CM sends its answer."""
        if lid is None:
            lid = self.pair.a.port.lid()
        body = bth(1, 0xffff, 0x64, 0) + deth(QKEY_GSI, 1) + bytes(mad)
        data = lrh(dst.port.lid(), lid,
                   (8 + len(body) + 4) // 4, False) + body
        fd = os.open(f"{dst.port.dir}/inject", os.O_WRONLY)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


def private(qpn=0x1234, max_msg=65524, rest=b""):
    return struct.pack(">II", qpn, max_msg) + rest


def none_half_open(end):
    """Wait until all connections of peers are proven or closed."""
    wait_until(lambda: counter(end, "conn_half_open") == 0, 10,
               "no connection is half-open")


def forger():
    """A pair that connects anew at the end, forged requests, b's counters."""
    pair = connected_ends()
    defer(again, pair)
    requests = Requests(pair)
    none_half_open(pair.b)
    return pair, requests, counters(pair.b)


def open_forged(requests, private_data, lid=NOBODY):
    """Connections opened by somebody at a LID, who gets the answers."""
    count = len(private_data)
    end = requests.pair.b
    none_half_open(end)
    accepted = counter(end, "conn_accepted")
    with Mirror(end.port) as mirror:
        for data in private_data:
            requests.send(private=data, lid=lid)
        wait_until(lambda: counter(end, "conn_accepted") == accepted + count,
                   10, f"{count} answers")
        packets = mirror.stop()
    replies = {p.payload[COMM_ID:SERVICE_ID] for p in packets
               if p.dqpn == 1 and p.dlid == lid and len(p.payload) == 256 and
               p.payload[16:18] == struct.pack(">H", CM_REP)}
    ksft_eq(len(replies), count)
    ksft_eq(counter(end, "conn_half_open"), count)
    for ids in replies:
        mad = bytearray(requests.mad)
        mad[16:18] = struct.pack(">H", CM_RTU)
        mad[COMM_ID:SERVICE_ID] = ids[4:] + ids[:4]
        requests.inject(mad, end, lid)
    none_half_open(end)


def counted(end, name, act, what=""):
    """Do something that a counter of an end counts, once."""
    before = counter(end, name)
    act()
    wait_until(lambda: counter(end, name) > before, 5, what or name)
    ksft_eq(counter(end, name), before + 1, what or name)


def handled(end, count, send):
    """Have requests sent, and wait until all were accepted or refused."""
    def done():
        stats = counters(end)
        return stats["conn_accepted"] + stats["conn_refused"]

    before = done()
    send()
    wait_until(lambda: done() >= before + count, 30, f"{count} answers")


def send_hosts(requests, first, count):
    """A request of each of many hosts, by their LIDs."""
    for lid in range(first, first + count):
        requests.send(private=private(), lid=lid)


def again(pair):
    """All connections are closed, and those of a real peer opened again."""
    for end in pair:
        set_mode(end, "datagram")
    for end in pair:
        set_mode(end, "connected")
    pair.wait_ping()
    wait_connected(pair.a, pair.b)


def test_good():
    """A forged request is answered if it is right: the tests below count."""
    pair = connected_ends()
    requests = Requests(pair)
    counted(pair.b, "conn_accepted", lambda: requests.send(private=private()))


def test_private_data():
    """Private data that is no use: refused, and counted as such."""
    pair = connected_ends()
    requests = Requests(pair)
    bad = [private(0), private(1), private(0xffffff), private(max_msg=0),
           private(max_msg=4), private(max_msg=71), b"", os.urandom(4)]
    accepted = counter(pair.b, "conn_accepted")
    for data in bad:
        counted(pair.b, "conn_malformed",
                lambda d=data: requests.send(private=d),
                f"{data.hex()} refused")
    ksft_eq(counter(pair.b, "conn_accepted"), accepted)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(2))


def test_absurd_values():
    """What is merely too much is taken as what is possible."""
    pair = connected_ends()
    requests = Requests(pair)
    magic = struct.pack(">IBxxxI", 0x49506f2b, 255, 0xffffffff)
    for data in (private(max_msg=0xffffffff), private(0xff123456, 65525),
                 private(0x4711, 65524, magic)):
        counted(pair.b, "conn_accepted",
                lambda d=data: requests.send(private=d))
    for conn in conns(pair.b, "peer"):
        ksft_le(int(conn["max_msg"]), 65524)
        ksft_le(int(conn["caps"], 0), 3)
    tcp_transfer(pair.a, pair.b, 4 << 20)


def test_other_transport():
    """Unreliable connections, another partition: refused."""
    pair = connected_ends()
    requests = Requests(pair)

    def uc(mad):
        mad[FLAGS] = mad[FLAGS] & ~0x06 | 0x02

    def partition(mad):
        mad[PKEY:PKEY + 2] = b"\x80\x01"

    accepted = counter(pair.b, "conn_accepted")
    counted(pair.b, "conn_refused", lambda: requests.send(uc), "UC")
    requests.send(partition)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, count=3, limit=slow(2))
    ksft_eq(counter(pair.b, "conn_accepted"), accepted)


def rc_qpns(end, used):
    """RC QPs of an end that have receives, or have none."""
    return [qp.qpn for qp in end.port.hca.data_qps() if qp.type == "RC" and
            qp.state == "RTS" and qp.srq == used]


def forge(pair, qpn, payload, imm=None):
    """A message to a QP of b that a never sent."""
    pad = -len(payload) % 4
    body = bth(qpn, 0xffff, 0x04 if imm is None else 0x05, pad)
    if imm is not None:
        body += struct.pack(">I", imm)
    body += payload + bytes(pad)
    data = lrh(pair.b.port.lid(), pair.a.port.lid(), (len(body) + 12) // 4)
    fd = os.open(f"{pair.b.port.dir}/inject", os.O_WRONLY)
    try:
        os.write(fd, data + body)
    finally:
        os.close(fd)


def forge_bad(pair, qpn, payload, imm=None):
    """A message that b counts as one that makes no sense."""
    counted(pair.b, "conn_rx_bad", lambda: forge(pair, qpn, payload, imm),
            f"{len(payload)} bytes, {imm}")


def test_wrong_side():
    """Data comes on a connection that b opened to send on: it is not taken."""
    pair = connected_ends()
    before, nak = counters(pair.b), pair.b.port.counter("rc_rnr_nak")
    packets = pair.b.stat("rx_packets")
    for size in (0, 100, 4096, 65524):
        forge(pair, rc_qpns(pair.b, False)[0], os.urandom(size))
    ksft_eq(pair.b.port.counter("rc_rnr_nak") - nak, 4)
    ksft_le(pair.b.stat("rx_packets") - packets, 2)
    after = counters(pair.b)
    for name in ("conn_broken", "conn_rx_bad", "conn_opened"):
        ksft_eq(after[name], before[name], name)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        ping_ok(src.ns, dst.v4, size=30000, limit=slow(2))


def test_nonsense():
    """Messages without a header, or told to be finished that can't be."""
    pair = connected_ends()
    qpn = rc_qpns(pair.b, True)[0]
    broken = counter(pair.b, "conn_broken")
    for size in range(4):
        forge_bad(pair, qpn, os.urandom(size))
    head = struct.pack(">HH", 0x0800, 0)
    for payload, imm in ((b"", 1 << 31), (bytes(20), 1 << 31),
                         (b"\x45" + bytes(39), 0xffffffff),
                         (os.urandom(3000), 0xc0000001),
                         (b"\x4f" + os.urandom(60000), 0xc00005b4)):
        forge_bad(pair, qpn, head + payload, imm)
    for number in range(200):
        forge(pair, qpn, head + b"\x45" + os.urandom(20 + 40 * number),
              int.from_bytes(os.urandom(4), "big") | 1 << 31)
    ksft_eq(counter(pair.b, "conn_broken"), broken)
    tcp_transfer(pair.a, pair.b, 4 << 20)


def unfinished(pair, proto, size):
    """A good packet of TCP or UDP from a to b but for its checksum."""
    src, dst = (socket.inet_aton(end.v4) for end in pair)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, proto, 0,
                       src, dst)
    value = sum(struct.unpack(">10H", head))
    value = (value & 0xffff) + (value >> 16)
    head = head[:10] + struct.pack(">H", 0xffff - value) + head[12:]
    if proto == socket.IPPROTO_TCP:
        head += struct.pack(">HHIIBBHHH", 9, 9, 1, 1, 0x50, 0x10, 1000, 0, 0)
    else:
        head += struct.pack(">HHHH", 9, 9, size - 20, 0)
    return struct.pack(">HH", 0x0800, 0) + head + bytes(size - len(head))


def test_segments():
    """A message is not made into more packets than a decent peer sends."""
    pair = connected_ends()
    qpn = rc_qpns(pair.b, True)[0]
    tcp, udp = socket.IPPROTO_TCP, socket.IPPROTO_UDP
    for proto, size, imm in ((tcp, 65520, 0xc0000001),
                             (tcp, 65520, 0xc0000057), (udp, 300, 0xc0000001),
                             (udp, 28 + 12801, 0xc0000064),
                             (udp, 20000, 0xe00003e8)):
        forge_bad(pair, qpn, unfinished(pair, proto, size), imm)
    bad, packets = counter(pair.b, "conn_rx_bad"), pair.b.stat("rx_packets")
    for proto, size, imm in ((tcp, 65520, 0xc0000058), (udp, 300, 0xc0000058),
                             (udp, 28 + 12800, 0xc0000064),
                             (tcp, 20000, 0xe00003e8)):
        forge(pair, qpn, unfinished(pair, proto, size), imm)
    wait_until(lambda: pair.b.stat("rx_packets") >= packets + 4, 5,
               "decent ones taken")
    ksft_eq(counter(pair.b, "conn_rx_bad"), bad)
    tcp_transfer(pair.a, pair.b, 4 << 20)


def test_too_long():
    """A message longer than was announced ends its connection, no more."""
    pair = connected_ends()
    counted(pair.b, "conn_broken",
            lambda: forge(pair, rc_qpns(pair.b, True)[0], os.urandom(65525)))
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(3))
    wait_connected(pair.a, pair.b)
    tcp_transfer(pair.a, pair.b, 4 << 20)


def test_stale():
    """The peer takes our QP for that of an old connection: with another."""
    pair = connected_ends()
    requests = Requests(pair)
    guid = requests.mad[CA_GUID:CA_GUID + 8]
    newest = max(qp.qpn for qp in pair.a.port.hca.data_qps())
    accepted = counter(pair.b, "conn_accepted")
    for qpn in (newest + 1, newest + 2):
        def old(mad, qpn=qpn):
            mad[CA_GUID:CA_GUID + 8] = guid
            mad[QPN:QPN + 3] = struct.pack(">I", qpn)[1:]

        requests.send(old, lid=NOBODY)
    wait_until(lambda: counter(pair.b, "conn_accepted") == accepted + 2, 5,
               "two requests taken")
    rejected = counter(pair.a, "conn_rejected")
    for qpn in rc_qpns(pair.a, False):
        pair.a.port.hca.break_qp(qpn)
    wait_connected(pair.a, pair.b)
    ksft_gt(counter(pair.a, "conn_rejected"), rejected)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_flood():
    """A flood of requests of one peer: few QPs, and others are served."""
    pair = connected_ends()
    requests = Requests(pair)
    for _ in range(600):
        requests.send(private=private())
    stats = counters(pair.b)
    ksft_pr(f"{stats['conn_accepted']} accepted, {stats['conn_refused']} "
            f"refused, {stats['conn_passive']} there")
    wait_until(lambda: counter(pair.b, "conn_passive") <= 8, 30,
               "a bounded number of connections")
    tcp_transfer(pair.a, pair.b, 4 << 20)
    tcp_transfer(pair.b, pair.a, 4 << 20)
    ksft_ge(len(established(pair.b, "peer")), 1)


@timeout(120)
def test_one_host():
    """A host that takes many QPNs gets few connections; others get theirs."""
    pair, requests, before = forger()

    def send():
        for qpn in range(2, 202):
            requests.send(private=private(qpn), lid=NOBODY)

    begin = now()
    handled(pair.b, 200, send)
    took = now() - begin
    after = counters(pair.b)
    ksft_eq(after["conn_half_open"], 16)
    refused = after["conn_limited"] - before["conn_limited"]
    ksft_pr(f"{refused} refused in {took:.1f} s")
    # Each second 16 more take the place of others.
    ksft_ge(refused, 200 - 16 * (2 + int(took)))
    wait_until(lambda: counter(pair.b, "conn_passive") <=
               before["conn_passive"] + 16, 10, "the others are closed")
    # The CM would try for minutes; the real peer does not wait for that.
    tcp_transfer(pair.a, pair.b, 1 << 20)
    again(pair)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_half_open():
    """Who does not answer is forgotten, however long the CM is to wait."""
    pair, requests, before = forger()
    for qpn in range(2, 18):
        requests.send(private=private(qpn), lid=NOBODY)
    wait_until(lambda: counter(pair.b, "conn_half_open") == 16, 5, "answers")
    wait_until(lambda: counter(pair.b, "conn_passive") ==
               before["conn_passive"], 45, "they are given up")
    after = counters(pair.b)
    ksft_eq(after["conn_half_open"], 0)
    ksft_eq(after["conn_half_open_dropped"],
            before["conn_half_open_dropped"] + 16)
    open_forged(requests, [private(i) for i in range(2, 18)])
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(240)
def test_one_host_established():
    """So does one that answers, however many QPNs it says it has."""
    pair = connected_ends()
    defer(again, pair)
    requests = Requests(pair)
    there = counter(pair.b, "conn_passive")
    # Not the QPN of the real peer, or its connection would count as replaced.
    for first in range(0x700000, 0x700000 + PEER_OPEN, 16):
        open_forged(requests, [private(first + i) for i in range(16)])
    ksft_eq(counter(pair.b, "conn_passive"), there + PEER_OPEN)
    counted(pair.b, "conn_limited", lambda: requests.send(
        private=private(0x7fffff), lid=NOBODY), "one more is refused")
    ksft_eq(counter(pair.b, "conn_passive"), there + PEER_OPEN)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_victim():
    """Requests in a peer's name don't close the connection that it uses."""
    pair = connected_ends()
    defer(again, pair)
    requests = Requests(pair)
    live = rc_qpns(pair.b, True)
    ksft_eq(len(live), 1)
    opened = counter(pair.a, "conn_opened")
    accepted = counter(pair.b, "conn_accepted")
    for _ in range(8):
        requests.send(private=private(pair.a.qpn()))
    wait_until(lambda: counter(pair.b, "conn_accepted") >= accepted + 8, 10,
               "answers")
    wait_until(lambda: rc_qpns(pair.b, True) == live, 10,
               "the CM gives them up, as nobody confirms them")
    # Nor does one that gets the answers, since that is elsewhere.
    open_forged(requests, [private(pair.a.qpn())] * 8)
    wait_until(lambda: len(rc_qpns(pair.b, True)) <= 5, 10,
               "four of them are left")
    ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(2))
    ksft_in(live[0], rc_qpns(pair.b, True), "after connections")
    ksft_eq(counter(pair.a, "conn_opened"), opened)


@timeout(200)
def test_many_hosts():
    """Requests from more LIDs than there are hosts: real ones get through."""
    pair, requests, before = forger()
    handled(pair.b, HALF_OPEN, lambda: send_hosts(requests, 0x1000, HALF_OPEN))
    full = counters(pair.b)
    ksft_eq(full["conn_refused"], before["conn_refused"])
    ksft_eq(full["conn_accepted"], before["conn_accepted"] + HALF_OPEN)
    # No place is free until one of them was answered a second ago.
    set_mode(pair.a, "datagram")
    begin = now()
    set_mode(pair.a, "connected")
    pair.wait_ping()
    wait_connected(pair.a, pair.b, 8)
    ksft_pr(f"a real peer is connected after {now() - begin:.1f} s")
    tcp_transfer(pair.a, pair.b, 1 << 20)
    handled(pair.b, 76, lambda: send_hosts(requests, 0x2000, 76))
    after = counters(pair.b)
    ksft_eq(after["conn_limited"], before["conn_limited"])
    ksft_eq(after["conn_refused"] - before["conn_refused"],
            after["conn_half_open_refused"] -
            before["conn_half_open_refused"])
    ksft_le(after["conn_half_open"], HALF_OPEN)
    ksft_gt(after["conn_half_open_dropped"], full["conn_half_open_dropped"])


@timeout(240)
def come(end, before):
    """Requests that are half-open now, or were refused since."""
    stats = counters(end)
    return stats["conn_half_open"] + stats["conn_half_open_refused"] - \
        before["conn_half_open_refused"]


def test_many_at_once():
    """More requests than may be half-open, before one is served: none is lost."""
    pair, requests, before = forger()
    slow_hca = pair.b.port.fault("create_delay_ms", int(slow(15) * 1000))
    # QP1 has receive buffers for 512: a CPU that is slow must not lose any.
    for first in range(0, HALF_OPEN + 76, QP1_BURST):
        count = min(QP1_BURST, HALF_OPEN + 76 - first)
        send_hosts(requests, 0x1000 + first, count)
        wait_until(lambda n=first + count: come(pair.b, before) == n, 10,
                   f"{first + count} requests")
    stats = counters(pair.b)
    ksft_eq(stats["conn_half_open_refused"],
            before["conn_half_open_refused"] + 76)
    slow_hca.exec()
    ksft_eq(stats["conn_accepted"], before["conn_accepted"], "served")
    ksft_eq(stats["conn_half_open"], HALF_OPEN)
    wait_until(lambda: counter(pair.b, "conn_accepted") ==
               before["conn_accepted"] + HALF_OPEN, 40, "all others served")
    after = counters(pair.b)
    ksft_eq(after["conn_refused"], before["conn_refused"] + 76)
    ksft_eq(after["conn_half_open_dropped"], before["conn_half_open_dropped"])


def gets_in(pair, fill):
    """
    All places for a peer's half-open connections are taken: it has to wait for
    one, but not for the end of theirs, and loses no long packet for good.
    """
    defer(again, pair)
    none_half_open(pair.b)
    fill()
    before = counters(pair.b)
    signalled = counter(pair.a, "pmtu_signalled")
    set_mode(pair.a, "datagram")
    set_mode(pair.a, "connected")
    begin = now()
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, size=30000, limit=0.2), 8,
               "a long echo")
    after = counters(pair.b)
    ksft_pr(f"after {now() - begin:.1f} s, "
            f"{after['conn_limited'] - before['conn_limited']} refusals")
    wait_connected(pair.a, pair.b)
    ksft_gt(after["conn_half_open_dropped"], before["conn_half_open_dropped"])
    ksft_eq(counter(pair.a, "pmtu_signalled"), signalled)


def places_of(requests, count):
    """That many requests in the names of eight hosts at the peer's LID."""
    def other(number):
        def change(mad):
            mad[GID + 15] ^= 0x80 | number % 8
        return change

    def send():
        for number in range(count):
            requests.send(other(number), private(0x500000 + number),
                          patient=True)

    end = requests.pair.b
    handled(end, count, send)
    ksft_eq(counter(end, "conn_half_open"), count)


def peer_full(pair, places):
    requests = Requests(pair)
    gets_in(pair, lambda: handled(pair.b, places, lambda: [
        requests.send(private=private(2 + n), patient=True)
        for n in range(places)]))


@timeout(120)
def test_peer_full():
    """Forged requests have all places of a peer."""
    peer_full(connected_ends(), 16)


@timeout(120)
def test_peer_full_no_srq():
    """The same where fewer connections may be open."""
    fabric.add_hca(2, srq=0)
    pair = any_ends(port(0), port(2), ("h3", "h4"), 3, keep=False)
    peer_full(both_connected(pair), 4)


@timeout(120)
def test_lid_full():
    """Forged requests have all places of a peer's LID."""
    pair = connected_ends()
    requests = Requests(pair)
    gets_in(pair, lambda: places_of(requests, LID_HALF_OPEN))


@timeout(90)
def test_random():
    """Requests with random bytes: nothing but refusals."""
    pair = connected_ends()
    requests = Requests(pair)

    def noise(mad):
        at = 24 + int.from_bytes(os.urandom(2), "big") % 230
        mad[at:at + 2] = os.urandom(2)

    for _ in range(300):
        requests.send(noise)
    tcp_transfer(pair.a, pair.b, 4 << 20)
    set_mode(pair.b, "datagram")
    set_mode(pair.b, "connected")
    pair.wait_ping()
    wait_connected(pair.b, pair.a)
    ksft_gt(counter(pair.b, "conn_opened"), 0)
