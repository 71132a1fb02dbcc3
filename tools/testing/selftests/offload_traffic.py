# SPDX-License-Identifier: GPL-2.0-only
"""Packets that programs leave to be finished, in both modes and in between."""

import errno
import os
import select
import signal
import socket
import struct

from lib import (Capture, Flood, Netns, UdpSink, defer, define, ends, hold, in_groups,
                 ip, ksft_eq, ksft_true, not_ud, ping_ok, plain_ends, read, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until, write)
from lib.connected import (both_connected, conns, counter, set_mode,
                           to_datagram)
from lib.traffic import datagram, family_of

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 150, "group": "offload"}

SOL_UDP, UDP_SEGMENT = 17, 103
UDP_GRO = 104
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SO_ZEROCOPY, MSG_ZEROCOPY, MSG_ERRQUEUE = 60, 0x4000000, 0x2000
SOL_PACKET, PACKET_VNET_HDR = 263, 15
VNET_NEEDS_CSUM, VNET_TCPV4 = 1, 1
IPV6_DSTOPTS = 59
# Destination options: one of padding, which every host knows.
PADDING = bytes([0, 0, 1, 4, 0, 0, 0, 0])

MIB = 1 << 20


def segment_socket(space, family, size):
    """A UDP socket whose packets are cut into datagrams of that size."""
    sock = space.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(SOL_UDP, UDP_SEGMENT, size)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
    return sock


def send_segments(sock, where, count, size, each):
    """@count datagrams of @size bytes that can be checked, @each at a time."""
    for first in range(0, count, each):
        numbers = range(first, min(first + each, count))
        sock.sendto(b"".join(datagram(n, size) for n in numbers), where)
        yield numbers.stop


def check_segments(pair, address, size, count=120, each=20):
    """All that is sent with UDP_SEGMENT arrives as datagrams."""
    sink = UdpSink(pair.b.ns, address)
    defer(sink.close)
    sock = segment_socket(pair.a.ns, family_of(address), size)
    with sock:
        for sent in send_segments(sock, (address, sink.port), count, size,
                                  each):
            sink.collect(sent, slow(2))
    ksft_eq((len(sink.seen), sink.bad, sink.duplicates()), (count, 0, 0),
            f"{size} bytes to {address}")


def merged_numbers(sock):
    """The numbers of the datagrams that one call receives, merged or not."""
    data, words, _, _ = sock.recvmsg(1 << 16, 64)
    size = max(len(data), 1)
    for level, kind, value in words:
        if (level, kind) == (SOL_UDP, UDP_GRO):
            size = struct.unpack("i", value)[0]
    return [struct.unpack_from("Q", data, at)[0]
            for at in range(0, len(data), size)]


def check_order(pair, address, bursts=200):
    """Long datagrams and a short one at a time, to one that takes them merged."""
    family, size, each = family_of(address), 1000, 5
    # What waits in the stack for a link-layer address is overtaken when that
    # is learnt: neigh_update() sends it packet by packet, without a lock.
    ping_ok(pair.a.ns, address)
    sink = pair.b.ns.socket(family, socket.SOCK_DGRAM)
    sock = segment_socket(pair.a.ns, family, size)
    with sink, sock:
        sink.setsockopt(SOL_UDP, UDP_GRO, 1)
        sink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        sink.bind((address, 0))
        sink.settimeout(slow(2))
        where = sink.getsockname()
        seen = []
        for first in range(0, bursts * each, each):
            burst = b"".join(struct.pack("Q", n).ljust(size)
                             for n in range(first, first + each))
            sock.sendto(burst[:-size + 40], where)
            # A queue of them, so that a poll receives several.
            while len(seen) < first - 8 * each:
                seen += merged_numbers(sink)
        while len(seen) < bursts * each:
            seen += merged_numbers(sink)
    ksft_eq(seen, list(range(bursts * each)), f"numbers to {address}")


class Segments:
    """A process that sends zeroes with UDP_SEGMENT until it is stopped."""

    def __init__(self, pair, address, octets=20000, size=1000):
        self.child = os.fork()
        if not self.child:
            try:
                self._run(pair, address, octets, size)
            finally:
                os._exit(1)
        defer(self.stop)

    @staticmethod
    def _run(pair, address, octets, size):
        sock = segment_socket(pair.a.ns, family_of(address), size)
        data = bytes(octets)
        while True:
            try:
                sock.sendto(data, (address, 9))
            except OSError:
                os.sched_yield()

    def stop(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = None


def sent_more(end, packets=40):
    """Wait until the interface has sent that much more."""
    before = end.stat("tx_packets")
    wait_until(lambda: end.stat("tx_packets") >= before + packets, 10,
               f"{packets} packets of {end}", interval=0.01)


def drained(end):
    """Wait until the interface has sent all that its queues hold."""
    def still():
        before = end.stat("tx_packets")
        hold(0.3)
        return end.stat("tx_packets") == before
    wait_until(still, 10, f"{end} has nothing to send")


def switch_under_segments(pair, times):
    """The mode changes while packets are on their way to be cut."""
    for end in pair:
        defer(to_datagram, end)
    set_mode(pair.b, "connected")
    senders = [Segments(pair, address)
               for address in (pair.b.v4, pair.b.v6)]
    for _ in range(times):
        for name in ("connected", "datagram"):
            set_mode(pair.a, name)
            sent_more(pair.a)
    for sender in senders:
        sender.stop()
    # Datagrams have no flow control: what is on its way still fills b's ring.
    drained(pair.a)
    for address in (pair.b.v4, pair.b.v6):
        check_segments(pair, address, 1000)
    tcp_transfer(pair.a, pair.b, 1 << 20)


def gro_waits(end, nanoseconds):
    """Have GRO hold packets for so long."""
    for name, value in (("gro_flush_timeout", nanoseconds),
                        ("napi_defer_hard_irqs", int(bool(nanoseconds)))):
        write(end.sys(name), str(value))


def order_kept(pair):
    """With and without time for GRO, in both modes, both families."""
    for connected in (False, True):
        if connected:
            both_connected(pair)
        for wait in (0, 2000000, 0):
            gro_waits(pair.b, wait)
            for address in (pair.b.v4, pair.b.v6):
                check_order(pair, address)


@in_groups("core", "offload")
@timeout(120)
def test_order():
    """Short datagrams, which GRO is spared, do not overtake long ones."""
    pair = ends()
    defer(gro_waits, pair.b, 0)
    order_kept(pair)


@timeout(120)
def test_order_plain():
    """The same where the driver cuts and the HCA holds no interrupts back."""
    order_kept(plain_ends(moderation=0))


@timeout(120)
def test_segments_mode_switched():
    """UDP_SEGMENT while the mode is switched: cut right, or not sent."""
    switch_under_segments(ends(), 40)


@timeout(120)
def test_segments_mode_switched_plain():
    """The same on HCAs without offloads."""
    switch_under_segments(plain_ends(), 40)


# ---- programs ----------------------------------------------------------


def both_modes(pair, check):
    """Run a check on two hosts, in datagram and in connected mode."""
    check(pair)
    both_connected(pair)
    check(pair)


def segments_of_all_sizes(pair):
    for address in (pair.b.v4, pair.b.v6):
        for size in (20, 87, 88, 1000, 1400):
            check_segments(pair, address, size)
        if pair.a.mtu() > 10000:
            check_segments(pair, address, 10000, each=6)


class Connection:
    """A TCP connection whose sender the test handles."""

    def __init__(self, pair, address, options=(), mss=None):
        family = family_of(address)
        listener = pair.b.ns.socket(family, socket.SOCK_STREAM)
        listener.bind((address, 0))
        listener.listen(1)
        self.tx = pair.a.ns.socket(family, socket.SOCK_STREAM)
        defer(self.tx.close)
        if mss:
            self.tx.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        for option in options:
            self.tx.setsockopt(*option)
        self.tx.settimeout(slow(10))
        self.tx.connect(listener.getsockname()[:2])
        listener.settimeout(slow(10))
        self.rx = listener.accept()[0]
        defer(self.rx.close)
        listener.close()

    def check(self, data, send):
        """A process runs @send with the sender; does @data arrive?"""
        child = os.fork()
        if not child:
            try:
                self.rx.close()
                # A time-out makes the socket one that does not block.
                self.tx.settimeout(None)
                send(self.tx)
                self.tx.shutdown(socket.SHUT_WR)
                os._exit(0)
            finally:
                os._exit(1)
        got = bytearray()
        self.rx.settimeout(slow(10))
        try:
            while True:
                more = self.rx.recv(1 << 18)
                if not more:
                    break
                got += more
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        ksft_eq(len(got), len(data), "bytes received")
        ksft_true(got == data, "what was sent was received")
        ksft_eq(status, 0, "the sender's status")


def send_zerocopy(sock, data):
    """Send from memory that the kernel does not copy."""
    view, sent = memoryview(data), 0
    poll = select.poll()
    poll.register(sock, 0)
    while sent < len(view):
        try:
            sent += sock.send(view[sent:sent + 60000], MSG_ZEROCOPY)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            poll.poll(1000)
        try:
            while True:
                sock.recvmsg(1, 512, MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass


def zerocopy(pair):
    data = os.urandom(2 * MIB)
    for address in (pair.b.v4, pair.b.v6):
        conn = Connection(pair, address,
                          [(socket.SOL_SOCKET, SO_ZEROCOPY, 1)])
        conn.check(data, lambda sock: send_zerocopy(sock, data))


def send_file(sock, data):
    with open("/run/offload.data", "w+b") as file:
        file.write(data)
        file.flush()
        at = 0
        while at < len(data):
            at += os.sendfile(sock.fileno(), file.fileno(), at,
                              len(data) - at)


def sendfile(pair):
    data = os.urandom(2 * MIB)
    for address in (pair.b.v4, pair.b.v6):
        Connection(pair, address).check(data,
                                        lambda sock: send_file(sock, data))


@in_groups("core", "offload")
@timeout(90)
def test_sendfile():
    """TCP from pages of a file."""
    both_modes(ends(), sendfile)
    both_modes(plain_ends(), sendfile)


# ---- extension headers --------------------------------------------------


def segments_behind(space, option, where):
    """What sending datagrams that are to be cut, behind an option, says."""
    with segment_socket(space, socket.AF_INET6, 1000) as sock:
        sock.setsockopt(*option)
        try:
            return sock.sendto(bytes(2000), where)
        except OSError as error:
            return errno.errorcode[error.errno]


def extension_headers(pair):
    data = os.urandom(MIB // 2)
    option = (socket.IPPROTO_IPV6, IPV6_DSTOPTS, PADDING)
    for mss in (None, 1000):
        Connection(pair, pair.b.v6, [option], mss).check(
            data, lambda sock: sock.sendall(data))
    # 6.1 refuses UDP_SEGMENT behind a header whatever the interface.
    local = segments_behind(pair.a.ns, option, ("::1", 9))
    sink = UdpSink(pair.b.ns, pair.b.v6)
    defer(sink.close)
    if local != 2000:
        ksft_eq((local, segments_behind(pair.a.ns, option,
                                        (pair.b.v6, sink.port))),
                ("EIO", "EIO"), "UDP_SEGMENT behind a header: lo, IPoIB")
        return
    with segment_socket(pair.a.ns, socket.AF_INET6, 1000) as sock:
        sock.setsockopt(*option)
        for sent in send_segments(sock, (pair.b.v6, sink.port), 60, 1000, 20):
            sink.collect(sent, slow(2))
    ksft_eq((len(sink.seen), sink.bad), (60, 0), "datagrams")


@timeout(90)
def on_hosts(words):
    """A check on hosts of a kind, in both modes."""
    make, check = words
    both_modes(make(), check)


CASES = {
    # UDP_SEGMENT with segments of all sizes.
    "test_segments": (ends, segments_of_all_sizes),
    "test_segments_plain": (plain_ends, segments_of_all_sizes),
    # TCP from memory of a program that is not copied.
    "test_zerocopy": (ends, zerocopy),
    "test_zerocopy_plain": (plain_ends, zerocopy),
    # TCP and UDP_SEGMENT behind IPv6 destination options.
    "test_extension_headers": (ends, extension_headers),
    "test_extension_headers_plain": (plain_ends, extension_headers),
}
define(globals(), CASES, on_hosts)


# ---- raw packets --------------------------------------------------------


def ip_sum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def raw_tcp(pair, payload, seq, size):
    """A frame of unfinished TCP behind struct virtio_net_hdr."""
    src, dst = (socket.inet_aton(end.v4) for end in pair)
    tcp_len = 20 + len(payload)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + tcp_len, 0, 0x4000, 64,
                       6, 0, src, dst)
    head = head[:10] + struct.pack(">H", 0xffff - ip_sum(head)) + head[12:]
    pseudo = ip_sum(src + dst + struct.pack(">HH", 6, tcp_len))
    tcp = struct.pack(">HHIIBBHHH", 7777, 9, seq, 0, 0x50, 0x10, 1000, pseudo,
                      0)
    vnet = struct.pack("=BBHHHH", VNET_NEEDS_CSUM, VNET_TCPV4, 24 + 40, size,
                       24 + 20, 16)
    link = pair.b.address() + struct.pack(">HH", 0x0800, 0)
    return vnet + link + head + tcp + payload


def send_raw(pair, payload, size):
    """What arrives of TCP that a raw socket leaves to be cut."""
    with Capture(pair.b, 0x0800) as packets:
        with pair.a.ns.socket(socket.AF_PACKET, socket.SOCK_RAW,
                              socket.htons(0x0800)) as sock:
            sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
            with pair.a.ns.inside():
                sock.bind((pair.a.ifname, 0x0800))
            sock.send(raw_tcp(pair, payload, 1000, size))
        packets.wait(lambda p: p.data[9] == 6 and p.data[20:22] == b"\x1e\x61"
                     and received(packets) >= len(payload), slow(3))
    got = bytearray(len(payload))
    for packet in raw_packets(packets):
        at = struct.unpack(">I", packet.data[24:28])[0] - 1000
        got[at:at + len(packet.data) - 40] = packet.data[40:]
    return bytes(got)


def raw_packets(packets):
    return [p for p in packets.packets
            if p.data[9] == 6 and p.data[20:22] == b"\x1e\x61"]


def received(packets):
    return sum(len(p.data) - 40 for p in raw_packets(packets))


def raw_segments(pair):
    for size, octets in ((1400, 20000), (500, 9000), (500, 60000),
                         (87, 5000)):
        payload = os.urandom(octets)
        ksft_true(send_raw(pair, payload, size) == payload,
                  f"{octets} bytes by {size}")


def short_ring(pair):
    """The first host has a send ring of 64, until the end of the case."""
    old = pair.a.ethtool("-g").stdout.rsplit("TX:", 1)[1].split()[0]
    defer(pair.a.ethtool, f"-G tx {old}", fail=False)
    pair.a.ethtool("-G tx 64")
    pair.ready()


@in_groups("core", "offload")
@timeout(90)
@not_ud("no ethtool -G")
def test_raw_segments():
    """A raw socket's packets with a virtio header, in short rings."""
    for pair in (ends(), plain_ends()):
        short_ring(pair)
        both_modes(pair, raw_segments)


# ---- forwarding, tunnels -------------------------------------------------


class Behind:
    """A host behind host b, by a veth pair."""

    v4, v6 = "10.77.0.2", "fd77::2"

    def __init__(self, pair):
        self.ns = Netns("behind").add()
        defer(self.ns.delete)
        b, a = pair.b.ns, pair.a
        ip("link add v0 type veth peer name v1", ns=b)
        defer(ip, "link del v0", ns=b, fail=False)
        ip(["link", "set", "v1", "netns", self.ns.name], ns=b)
        for space, name, number in ((b, "v0", 1), (self.ns, "v1", 2)):
            ip(f"addr add 10.77.0.{number}/24 dev {name}", ns=space)
            ip(f"addr add fd77::{number}/64 dev {name} nodad", ns=space)
            ip(f"link set {name} up", ns=space)
        for name in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            defer(b.sysctl, name, b.sysctl(name))
            b.sysctl(name, 1)
        ip("route add default via 10.77.0.1", ns=self.ns)
        ip("-6 route add default via fd77::1", ns=self.ns)
        for net, via in (("10.77.0.0/24", pair.b.v4), ("fd77::/64",
                                                       pair.b.v6)):
            six = ["-6"] if ":" in net else []
            ip([*six, "route", "add", net, "via", via, "dev", a.ifname],
               ns=a.ns)
            defer(ip, [*six, "route", "del", net], ns=a.ns, fail=False)


class Two:
    """Two hosts for what wants a pair."""

    def __init__(self, a, b):
        self.a, self.b = a, b


def forwarded(pair, far):
    for src, dst in ((pair.a, far), (far, pair.a)):
        for address in (dst.v4, dst.v6):
            tcp_transfer(src, dst, MIB, address=address)
            check_segments(Two(src, dst), address, 1000, count=60)
        got = udp_exchange(src, dst, 20, 1400)
        ksft_eq((len(got.seen), got.bad), (20, 0), "datagrams")


@in_groups("core", "offload")
@timeout(120)
def test_forwarded():
    """From the fabric to a veth and back, with offloads on."""
    pair = ends()
    far = Behind(pair)
    both_modes(pair, lambda pair: forwarded(pair, far))


@timeout(120)
def test_forwarded_plain():
    """The same on HCAs without offloads."""
    pair = plain_ends()
    far = Behind(pair)
    both_modes(pair, lambda pair: forwarded(pair, far))


def tunnel(pair, kind, words):
    """A tunnel between two hosts; its ends' addresses."""
    for number, end, peer in ((1, pair.a, pair.b), (2, pair.b, pair.a)):
        ip(f"link add tun7 type {kind} local {end.v4} remote {peer.v4} "
           f"{words}", ns=end.ns)
        defer(ip, "link del tun7", ns=end.ns, fail=False)
        ip(f"addr add 10.78.0.{number}/24 dev tun7", ns=end.ns)
        ip("link set tun7 up", ns=end.ns)


def tunnelled(pair):
    tcp_transfer(pair.a, pair.b, MIB, address="10.78.0.2")
    tcp_transfer(pair.b, pair.a, MIB, address="10.78.0.1")
    check_segments(pair, "10.78.0.2", 1000, count=60)


@timeout(120)
def test_tunnel_gre():
    """GRE over IPoIB."""
    pair = ends()
    tunnel(pair, "gre", "")
    both_modes(pair, tunnelled)


@timeout(120)
def test_tunnel_vxlan():
    """VXLAN over IPoIB, on HCAs without offloads."""
    pair = plain_ends()
    tunnel(pair, "vxlan", "id 7 dstport 4789")
    both_modes(pair, tunnelled)


# ---- connections that come and go -----------------------------------------


def bad_checksums(space):
    """UDP datagrams with a wrong checksum that a host has seen."""
    with space.inside():
        lines = [line.split() for line in read("/proc/thread-self/net/snmp")
                 .splitlines() if line.startswith("Udp:")]
    return int(dict(zip(*lines))["InCsumErrors"])


@in_groups("core", "offload")
@timeout(120)
def test_checksums_connecting():
    """Small datagrams while connections break and come up: all finished."""
    pair = both_connected(ends())
    before = bad_checksums(pair.b.ns)
    flows = [Flood(pair.a, pair.b.v4, 64) for _ in range(2)]
    for flow in flows:
        defer(flow.stop)
    for _ in range(25):
        opened = counter(pair.a, "conn_opened")
        for qp in pair.a.port.hca.data_qps():
            if qp.type == "RC" and qp.state == "RTS" and not qp.srq:
                pair.a.port.hca.break_qp(qp.qpn)
        wait_until(lambda old=opened: counter(pair.a, "conn_opened") > old,
                   10, "another connection", interval=0.01)
        sent_more(pair.a, 20)
    for flow in flows:
        ksft_true(flow.stop() > 500, "datagrams sent")
    ksft_eq(bad_checksums(pair.b.ns), before, "bad checksums")
    # Nothing waits for ever, and nothing is in front of what comes now.
    wait_until(lambda: all(conn.get("waiting", "0") == "0"
                           for conn in conns(pair.a, "us")), 5,
               "nothing to wait for room")
    tcp_transfer(pair.a, pair.b, MIB)


# ---- mappings that fail --------------------------------------------------


@in_groups("core", "offload")
@timeout(120)
def test_mapping_fails():
    """A mapping fails in the middle of a packet: the rest is sent again."""
    pair = plain_ends(dma=1)
    for end, peer in ((pair.a, pair.b), (pair.b, pair.a)):
        ip(["neigh", "replace", peer.v4, "lladdr",
            peer.address().hex(":"), "dev", end.ifname, "nud", "permanent"],
           ns=end.ns)
    conn = Connection(pair, pair.b.v4)
    conn.rx.settimeout(slow(10))
    data = os.urandom(60000)

    def send():
        conn.tx.sendall(data)
        got = b""
        while len(got) < len(data):
            got += conn.rx.recv(1 << 18)
        ksft_true(got == data, "what was sent was received")

    for _ in range(4):
        send()
    pair.a.port.fault("map_error", 0)
    pair.a.port.fault("map_skip", 0)
    # In the first segments, and where the first requests have been posted.
    for skip in (*range(1, 12, 3), *range(30, 56)):
        pair.a.port.set("map_skip", skip)
        pair.a.port.set("map_error", 1)
        send()
        pair.a.port.set("map_error", 0)
