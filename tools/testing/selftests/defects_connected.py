# SPDX-License-Identifier: GPL-2.0-only
"""Defects of the in-tree module in connected mode; ours must not have them."""

import os
import socket
import struct

from lib import (Stream, UdpSink, defer, ends, ends_with, fixed_in_ours, in_groups,
                 kmsg_since, ksft_eq, ksft_ge, ksft_gt, ksft_le, ksft_lt, ksft_pr,
                 ksft_true, load_module, loaded, module, neigh_flush, now, ping,
                 ping_ok, read, slow, tcp_transfer, timeout, udp_exchange,
                 unload_module, wait_until, write)
from lib.ksft import SetupFailed
from lib.traffic import _addr, udp_send

BOOT = {"hcas": 2, "seconds": 90}
VERBS_ONLY = "connected mode"

MIB = 1 << 20


def change(end, name):
    """Switch the mode; the in-tree module may need to be asked again."""
    def there():
        if end.read("mode") != name:
            write(end.sys("mode"), name + "\n")
        return end.read("mode") == name

    if end.present():
        wait_until(there, 10, f"{end} in {name} mode", interval=0.2)


def connected(pair=None):
    """Both hosts in connected mode, with connections."""
    pair = pair or ends()
    for end in pair:
        defer(change, end, "datagram")
        change(end, "connected")
        if end.mtu() < 60000:
            end.set_mtu(65520)
    for end in pair:
        neigh_flush(end)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, size=30000,
                                             limit=1), 20,
                   f"a long echo from {src}")
    return pair


def senders(end):
    """RC QPs that an end sends by: those that are not fed by an SRQ alone."""
    return [qp for qp in end.port.hca.data_qps()
            if qp.type == "RC" and qp.state == "RTS"]


BURST = 30
# How many datagrams the default receive buffer of 208 KiB holds if a packet is
# charged its first 4 KiB and the bytes beyond them; and where the stack takes no
# datagram whose last byte is beyond the limit.
KEPT = {8000: 24, 16000: 12, 40000: 6, 60000: 4}
KEPT_STRICT = {**KEPT, 40000: 5, 60000: 3}
SO_MEMINFO = 55


def burst(pair, size):
    """Send datagrams to a socket that does not read; how many it keeps."""
    with pair.b.ns.socket(2, 2) as sink, pair.a.ns.socket(2, 2) as sock:
        sink.bind((pair.b.v4, 0))
        where = _addr(pair.b.v4, sink.getsockname()[1])
        before = pair.b.stat("rx_packets")
        taken = udp_send(sock, where, BURST, size)
        ksft_eq(taken, BURST, "sent")
        wait_until(lambda: pair.b.stat("rx_packets") >= before + taken, 5,
                   "all datagrams")
        sink.setblocking(False)
        for kept in range(BURST + 1):
            try:
                sink.recv(65536)
            except BlockingIOError:
                return kept
    return BURST


def is_strict(space):
    """Does a full receive buffer hold no more than its limit, as lo shows?"""
    with space.socket(2, 2) as sink, space.socket(2, 2) as sock:
        sink.bind(("127.0.0.1", 0))
        udp_send(sock, sink.getsockname(), BURST, 40000)
        used, limit = struct.unpack_from(
            "II", sink.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 64))
    ksft_gt(used, limit // 2, "bytes in a full receive buffer")
    return used <= limit


@fixed_in_ours("received packets are charged whole pages")
def test_sleeping_socket():
    """A socket that sleeps keeps as many long datagrams as its buffer holds."""
    pair = connected()
    kept = {size: burst(pair, size) for size in KEPT}
    ksft_pr(f"datagrams kept, by size: {kept}")
    least_of = KEPT_STRICT if is_strict(pair.b.ns) else KEPT
    for size, least in least_of.items():
        ksft_ge(kept[size], least, f"datagrams of {size} bytes")


@fixed_in_ours("receives for connected mode are made for every interface")
def test_idle_memory():
    """Datagram mode holds no receives of 64 KiB."""
    pair = ends()

    def available():
        for line in read("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1])
        return 0

    from lib import fabric, hca  # pylint: disable=import-outside-toplevel
    fabric.add_hca(5)
    hca(5).unplug()
    before = available()
    fabric.add_hca(6)
    fabric.add_hca(7)
    used = (before - available()) / 2
    ksft_pr(f"{used:.0f} KiB for an HCA with its interface")
    ksft_lt(used, 12000)
    ksft_true(pair.a.carrier())


@in_groups("core", "interop")
@fixed_in_ours("a QP in ERR without an error completion is used for ever")
def test_flush_only():
    """A sending QP that only flushes is replaced."""
    pair = connected()
    for qp in senders(pair.a):
        pair.a.port.hca.break_qp(qp.qpn)
    took = now()
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, size=30000, limit=1), 15,
               "a long echo after the QP's end")
    ksft_pr(f"after {now() - took:.1f} s")


@fixed_in_ours("a request of datagrams keeps its opcode in connected mode")
@timeout(60)
def test_switch_with_lso():
    """Switching to connected mode under a TCP stream with LSO."""
    pair = ends()
    stream = Stream(pair.a, pair.b)
    stream.wait_progress(1 << 20)
    for end in pair:
        defer(change, end, "datagram")
        change(end, "connected")
    worst = 0.0
    for _ in range(5):
        worst = max(worst, stream.wait_progress(1 << 20, limit=20))
    ksft_pr(f"worst wait {worst:.1f} s")
    ksft_eq(kmsg_since(pattern="post_send failed"), [])
    ksft_le(worst, slow(4))
    stream.finish(60)


@fixed_in_ours("what is too long for a peer that left the mode is not told")
@timeout(60)
def test_peer_leaves():
    """The peer leaves connected mode: long packets are refused."""
    pair = connected()
    change(pair.b, "datagram")

    def told():
        try:
            ping(pair.a.ns, pair.b.v4, size=30000, limit=0.3, df=True)
        except OSError as error:
            return error.errno == 90
        return False

    wait_until(told, 12, "EMSGSIZE")


@fixed_in_ours("a receiver that is not ready costs the connection")
@timeout(90)
def test_not_ready():
    """A receiver that is not ready for a moment costs no connection.

    Its interrupts take long, on one CPU, while the sender goes on on the other.
    """
    if loaded():
        unload_module()
    defer(lambda: loaded() and unload_module())
    load_module(recv_queue_size=8)
    pair = connected(ends_with(vectors=1))
    before = pair.b.port.counters()
    exceeded = pair.a.port.counter("rc_retry_exceeded")
    cpus = os.sched_getaffinity(0)
    defer(os.sched_setaffinity, 0, cpus)
    os.sched_setaffinity(0, cpus - {0})
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(2, 2) as sock:
        pair.b.port.fault("irq_ns", int(slow(10) * 10**6))
        sent = 0
        for _ in range(10):
            sent += udp_send(sock, _addr(pair.b.v4, sink.port), 40, 4000,
                             first=sent)
            sink.drain()
        pair.b.port.set("irq_ns", 0)
        sink.collect(sent, slow(3))
        after = pair.b.port.counters()
        ksft_pr(f"not ready {after['rc_rnr_nak'] - before['rc_rnr_nak']} "
                f"times, {len(sink.seen)} of {sent} came")
    if after["rc_rnr_nak"] == before["rc_rnr_nak"]:
        raise SetupFailed("the receiver was ready all the time")
    ksft_eq(pair.a.port.counter("rc_retry_exceeded") - exceeded, 0,
            "connections lost")
    ksft_eq(len(sink.seen), sent)


@in_groups("core", "interop")
@fixed_in_ours("what was not acknowledged is dropped with the connection")
def test_not_acknowledged():
    """A request fails: what it carried is sent once more."""
    pair = connected()
    pair.a.port.set("rc_send_error", 1)
    defer(pair.a.port.set, "rc_send_error", 0)
    got = udp_exchange(pair.a, pair.b, 10, 30000, limit=slow(4))
    ksft_eq(len(got.seen), 10)


@fixed_in_ours("no GRO for what comes by connections")
def test_gro():
    """Segments that came by a connection are merged."""
    from lib import Capture  # pylint: disable=import-outside-toplevel
    pair = connected()
    with Capture(pair.b, 0x0800) as packets:
        tcp_transfer(pair.a, pair.b, 2 * MIB, mss=1000)
    sizes = [len(p.data) for p in packets.of(0x0800) if p.data[9] == 6]
    ksft_ge(max(sizes), 8000, "largest packet the stack saw")


def test_after():
    """All is well afterwards, with either."""
    pair = connected()
    tcp_transfer(pair.a, pair.b, 4 * MIB)
    ping_ok(pair.a.ns, pair.b.v4, size=60000, limit=slow(2))
    ksft_true(module() in ("ours", "stock"))
