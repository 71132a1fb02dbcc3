# SPDX-License-Identifier: GPL-2.0-only
"""Packets between namespaces: what is sent is counted, and checked on arrival.

Everything runs in threads of the test's own process; see netns.py.
"""

import contextlib
import os
import socket
import struct
import threading
import time
import zlib

from .ksft import Failed, defer, ksft_eq
from .utils import ip, slow, wait_until

IP_MTU_DISCOVER = 10
IP_PMTUDISC_DO = 2
IPV6_MTU_DISCOVER = 23
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32

# Numbers of datagrams that only show that there is a way
PROBES = 1 << 31

_block = os.urandom(1 << 20)
_sequence = 0
_probe = PROBES


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _addr(address, port, scope=0):
    if family_of(address) == socket.AF_INET6:
        return (address, port, 0, scope)
    return (address, port)


# ---- echo --------------------------------------------------------------


def ping(space, address, size=56, count=1, limit=1.0, df=False, iface=None,
         gap=0.0):
    """
    Send @count echo requests of @size bytes from a namespace, each after the
    answer to the one before or @limit seconds; the number of right answers.
    """
    global _sequence  # pylint: disable=global-statement
    family = family_of(address)
    six = family == socket.AF_INET6
    proto = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    good = 0
    with space.socket(family, socket.SOCK_DGRAM, proto) as sock:
        if df and not six:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER,
                            IP_PMTUDISC_DO)
        if df and six:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER,
                            IP_PMTUDISC_DO)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 20)
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 20)
        scope = space.ifindex(iface) if iface else 0
        if iface:
            with space.inside():
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE,
                                iface.encode())
        where = _addr(address, 0, scope)
        for _ in range(count):
            _sequence = (_sequence + 1) & 0xffff
            start = _sequence % (len(_block) - size) if size else 0
            body = _block[start:start + size]
            head = struct.pack(">BBHHH", 128 if six else 8, 0, 0, 0,
                               _sequence)
            try:
                sock.sendto(head + body, where)
            except OSError as error:
                if df and error.errno == 90:  # EMSGSIZE
                    raise
                time.sleep(min(0.05, limit))
                continue
            end = time.monotonic() + limit
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    break
                sock.settimeout(left)
                try:
                    answer = sock.recv(size + 64)
                except OSError:
                    break
                kind, _, _, _, seq = struct.unpack(">BBHHH", answer[:8])
                if kind == (129 if six else 0) and seq == _sequence:
                    if answer[8:] != body:
                        raise Failed(f"echo of {size} bytes from {address} "
                                     "came back changed")
                    good += 1
                    break
            if gap:
                time.sleep(gap)
    return good


def ping_ok(space, address, size=56, count=1, limit=None, df=False,
            iface=None):
    """All of @count echo requests must be answered."""
    limit = slow(1) if limit is None else limit
    got = ping(space, address, size, count, limit, df, iface)
    if got != count:
        raise Failed(f"{count - got} of {count} pings of {size} bytes from "
                     f"{space} to {address} were lost")


def neigh_flush(end, address=None):
    """Forget neighbours of an end."""
    what = f"neigh flush dev {end.ifname}"
    if address:
        what += f" to {address}"
    for _ in range(20):
        done = ip(what, ns=end.ns, fail=False)
        # Where traffic makes new ones meanwhile, those that were are gone.
        if not done.ret or "Flush not complete" in done.stdout + done.stderr:
            return
        # The kernel removed one between being listed and being deleted; ip
        # leaves the rest alone then.
        if "No such file or directory" not in done.stderr:
            break
    raise Failed(f"ip {what}: {done.stderr}")


# ---- TCP ---------------------------------------------------------------


class Stream:
    """
    A TCP connection that carries data one way until it is stopped, or the case
    ends.  Both sides keep a running checksum; finish() compares them.
    """

    def __init__(self, src, dst, address=None, total=None, rate=None,
                 src_ns=None, dst_ns=None, sndbuf=None, mss=None,
                 connect_limit=None, source=None):
        self.src_ns = src_ns or src.ns
        self.dst_ns = dst_ns or dst.ns
        self.address = address or dst.v4
        self.total, self.rate = total, rate
        self.sent = self.received = 0
        self.sent_sum = self.received_sum = 0
        self.error = None
        self._stop = threading.Event()
        self._abort = False
        family = family_of(self.address)
        listener = self.dst_ns.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if mss:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        listener.bind(_addr(self.address, 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        self.tx = self.src_ns.socket(family, socket.SOCK_STREAM)
        if mss:
            self.tx.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
        if sndbuf:
            self.tx.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, sndbuf)
        self.tx.settimeout(connect_limit or slow(10))
        if source:
            self.tx.bind(_addr(source, 0))
        try:
            self.tx.connect(_addr(self.address, port))
            listener.settimeout(slow(10))
            self.rx = listener.accept()[0]
        except OSError as error:
            self.tx.close()
            raise Failed(f"TCP to {self.address}: {error}") from None
        finally:
            listener.close()
        self.tx.settimeout(0.5)
        self.rx.settimeout(0.5)
        self.begin = time.monotonic()
        self.end = None
        self._threads = [threading.Thread(target=self._send, daemon=True),
                         threading.Thread(target=self._receive, daemon=True)]
        for thread in self._threads:
            thread.start()
        self._deferred = defer(self.abort)

    def _send(self):
        try:
            view = memoryview(_block)
            while not self._stop.is_set():
                if self.total is not None and self.sent >= self.total:
                    break
                place = self.sent % len(_block)
                length = min(65536, len(_block) - place)
                if self.total is not None:
                    length = min(length, self.total - self.sent)
                try:
                    done = self.tx.send(view[place:place + length])
                except TimeoutError:
                    continue
                self.sent_sum = zlib.crc32(view[place:place + done],
                                           self.sent_sum)
                self.sent += done
                if self.rate:
                    ahead = self.sent / self.rate - (time.monotonic() -
                                                     self.begin)
                    if ahead > 0:
                        self._stop.wait(min(ahead, 0.5))
            if not self._abort:
                self.tx.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.error = error

    def _receive(self):
        buffer = bytearray(1 << 18)
        view = memoryview(buffer)
        try:
            while not self._abort:
                try:
                    got = self.rx.recv_into(buffer)
                except TimeoutError:
                    continue
                if not got:
                    break
                self.received_sum = zlib.crc32(view[:got], self.received_sum)
                self.received += got
        except OSError as error:
            self.error = self.error or error
        self.end = time.monotonic()

    def wait_progress(self, octets=1 << 16, limit=15, scale=True):
        """Wait until that much more has arrived; seconds it took."""
        start, begin = self.received, time.monotonic()
        end = begin + (slow(limit) if scale else limit)
        while self.received - start < octets:
            if self.error:
                raise Failed(f"TCP to {self.address} broke: {self.error}")
            if time.monotonic() > end:
                raise Failed(f"TCP to {self.address} stands still: "
                             f"{self.received - start} bytes in {limit} s")
            time.sleep(0.02)
        return time.monotonic() - begin

    def finish(self, limit=30):
        """Stop sending, drain, and compare both sides."""
        if self.total is None:
            self._stop.set()
        end = time.monotonic() + slow(limit)
        for thread in self._threads:
            thread.join(max(0.1, end - time.monotonic()))
        alive = any(thread.is_alive() for thread in self._threads)
        sent, received = self.sent, self.received
        self.abort()
        if self.error:
            raise Failed(f"TCP to {self.address}: {self.error}")
        if alive:
            raise Failed(f"TCP to {self.address}: {received} of {sent} bytes "
                         f"arrived in {limit} s")
        if sent != received or self.sent_sum != self.received_sum:
            raise Failed(f"TCP to {self.address}: {sent} bytes sent, "
                         f"{received} received, checksums "
                         f"{self.sent_sum:#x} {self.received_sum:#x}")
        return received / max(1e-6, self.end - self.begin)

    def abort(self):
        """End it without a look at the data."""
        self._deferred.cancel()
        self._abort = True
        self._stop.set()
        for thread in self._threads:
            thread.join(3)
        for sock in (self.tx, self.rx):
            if sock.fileno() < 0:
                continue
            # No goodbye: where the interface goes next nobody answers it, and
            # while it is sent again the namespace lives on.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
            sock.close()


def tcp_transfer(src, dst, octets=4 << 20, address=None, limit=60, **kwargs):
    """Move @bytes over one TCP connection and verify them; bytes/s."""
    return Stream(src, dst, address, total=octets, **kwargs).finish(limit)


def tcp_many(pair, octets, count=16):
    """So many connections at once, half of them each way."""
    streams = []
    for number in range(count):
        src, dst = (pair.a, pair.b) if number % 2 else (pair.b, pair.a)
        streams.append(Stream(src, dst, total=octets))
    for stream in streams:
        stream.finish(60)


def tcp_both_ways(pair, octets):
    """Both ways at once, in both families."""
    streams = [Stream(src, dst, address, total=octets)
               for src, dst in ((pair.a, pair.b), (pair.b, pair.a))
               for address in (dst.v4, dst.v6)]
    for stream in streams:
        stream.finish(60)


def tcp_small_segments(pair, sizes=(88, 536, 1001, 1460)):
    """Segments of all sizes: small MSS, odd lengths."""
    for mss in sizes:
        tcp_transfer(pair.a, pair.b, 300001, mss=mss)


def restarts(pair, octets=1 << 20):
    """Either side goes down and comes back, and all passes again."""
    for end in pair:
        end.set("down")
        end.up()
        end.wait_carrier()
        pair.wait_ping(30)
        pair.wait_ping(30, reverse=True)
        tcp_transfer(pair.a, pair.b, octets)
        tcp_transfer(pair.b, pair.a, octets)


# ---- UDP ---------------------------------------------------------------


class UdpSink:
    """Takes numbered datagrams of udp_send() and checks them."""

    def __init__(self, space, address="0.0.0.0", sock=None):
        self.space = space
        self.sock = sock or space.socket(family_of(address),
                                         socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        if not sock:
            self.sock.bind(_addr(address, 0))
        self.port = self.sock.getsockname()[1]
        self.seen = {}
        self.probes = set()
        self.bad = 0
        self.octets = 0

    def collect(self, count, limit=5):
        """
        Take datagrams until @count different ones are here or nothing comes
        for @limit seconds; how many different ones there are.
        """
        self.sock.settimeout(limit)
        while len(self.seen) < count:
            try:
                data = self.sock.recv(65536)
            except OSError:
                break
            self._take(data)
        self.sock.settimeout(0)
        return len(self.seen)

    def drain(self):
        """Take what is there now."""
        self.sock.settimeout(0)
        while True:
            try:
                self._take(self.sock.recv(65536))
            except OSError:
                return len(self.seen)

    def _take(self, data):
        if len(data) < 8:
            self.bad += 1
            return
        number, check = struct.unpack(">II", data[:8])
        if zlib.crc32(data[8:]) != check:
            self.bad += 1
            return
        if number >= PROBES:
            self.probes.add(number)
            return
        self.octets += len(data)
        self.seen[number] = self.seen.get(number, 0) + 1

    def duplicates(self):
        return sum(n - 1 for n in self.seen.values())

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.close()


def datagram(number, size):
    """A datagram that UdpSink can check."""
    size = max(size, 8)
    start = (number * 61) % (len(_block) - 65536)
    body = _block[start:start + size - 8]
    return struct.pack(">II", number, zlib.crc32(body)) + body


def udp_send(sock, where, count, size, first=0, gap=0.0):
    """Send numbered datagrams; how many the socket took."""
    taken = 0
    for number in range(first, first + count):
        try:
            sock.sendto(datagram(number, size), where)
            taken += 1
        except OSError:
            pass
        if gap:
            time.sleep(gap)
    return taken


def udp_exchange(src, dst, count=200, size=1000, address=None, limit=None,
                 gap=0.0, no_csum=False):
    """
    Send @count datagrams from @src to @dst; the UdpSink after collecting them.

    They go in bursts that a receive ring of 256 holds four of: IPoIB has no
    flow control, and what a slow receiver loses to a fast sender is no defect.
    """
    address = address or dst.v4
    burst = max(1, 64 // (size // 1900 + 1))
    sink = UdpSink(dst.ns, address)
    try:
        with src.ns.socket(family_of(address), socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 32 << 20)
            if no_csum:
                sock.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
            sink.taken = 0
            for first in range(0, count, burst):
                some = min(burst, count - first)
                sink.taken += udp_send(sock, _addr(address, sink.port), some,
                                       size, first, gap)
                sink.collect(sink.taken, limit or slow(1.5))
    finally:
        sink.close()
    return sink


class Flood:
    """Datagrams without end in the background, until stop()."""

    def __init__(self, src, address, size=1000, gap=0.0, port=9, sock=None,
                 burst=1):
        self.sock = sock or src.ns.socket(family_of(address),
                                          socket.SOCK_DGRAM)
        self.where = _addr(address, port)
        self.size, self.gap, self.burst = size, gap, burst
        self.sent = self.errors = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._stop.is_set():
            for _ in range(self.burst):
                try:
                    self.sock.sendto(datagram(number, self.size), self.where)
                    self.sent += 1
                except OSError:
                    self.errors += 1
                    self._stop.wait(0.01)
                number += 1
            if self.gap:
                self._stop.wait(self.gap)

    def stop(self):
        self._stop.set()
        self._thread.join(5)
        self.sock.close()
        return self.sent

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.stop()


# ---- multicast ---------------------------------------------------------


def mcast_receiver(end, group, join=True, port=0):
    """A sink for a group on the interface of an end."""
    family = family_of(group)
    sock = end.ns.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    index = end.ifindex()
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        sock.bind(("", port))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
        sock.bind(("::", port))
    if join:
        mcast_join(sock, group, index)
    return UdpSink(end.ns, sock=sock)


def mcast_join(sock, group, index):
    """Join a group on the interface with that index."""
    if family_of(group) == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                        struct.pack("4s4si", socket.inet_aton(group),
                                    bytes(4), index))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                        socket.inet_pton(socket.AF_INET6, group) +
                        struct.pack("@I", index))


def mcast_leave(sock, group, index):
    """Leave it again."""
    if family_of(group) == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP,
                        struct.pack("4s4si", socket.inet_aton(group),
                                    bytes(4), index))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP,
                        socket.inet_pton(socket.AF_INET6, group) +
                        struct.pack("@I", index))


def mcast_sender(end, group, loop=False):
    """A socket that sends to groups through the interface of an end."""
    family = family_of(group)
    sock = end.ns.socket(family, socket.SOCK_DGRAM)
    index = end.ifindex()
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                        struct.pack("4s4si", bytes(4), bytes(4), index))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 4)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP,
                        int(loop))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 4)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP,
                        int(loop))
    return sock


def mcast_send(end, group, sink, count, size=200, gap=0.0, first=0):
    """Numbered datagrams to a group, for the sink of a member."""
    with mcast_sender(end, group) as sock:
        return udp_send(sock, (group, sink.port), count, size, gap=gap,
                        first=first)


@contextlib.contextmanager
def mcast_flow(src, dst, group, size=100, limit=10):
    """
    A group that @dst is a member of, when a datagram of @src has come: its sink,
    and a function that sends one more and takes what is there.
    """
    with mcast_receiver(dst, group) as sink, mcast_sender(src, group) as sock:
        def flows():
            udp_send(sock, (group, sink.port), 1, size)
            return sink.drain()

        wait_until(flows, limit, f"{group} from {src}", interval=0.2)
        yield sink, flows


def mcast_passes(*args, **kwargs):
    """A datagram comes, as mcast_flow() has it."""
    with mcast_flow(*args, **kwargs):
        pass


def mcast_start(end, group, sink):
    """
    Send until something arrives: joins and forwarding tables are there.  What
    is still on its way then is not taken for what is sent later.
    """
    global _probe  # pylint: disable=global-statement
    _probe += 1

    def flows():
        mcast_send(end, group, sink, 1, first=_probe)
        sink.drain()
        return _probe in sink.probes

    wait_until(flows, 10, f"{group} from {end}", interval=0.1)
    sink.seen.clear()


def exchange(pair):
    """Packets of all kinds in both directions: all arrive."""
    mtu = pair.a.mtu()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, mtu - 28, mtu - 27, 20000):
            ping_ok(src.ns, dst.v4, size=size, limit=slow(2))
        ping_ok(src.ns, dst.v6, size=mtu - 48, limit=slow(2))
        tcp_transfer(src, dst, 2 << 20)
        tcp_transfer(src, dst, 1 << 20, address=dst.v6)
        for address, head in ((dst.v4, 28), (dst.v6, 48)):
            got = udp_exchange(src, dst, 50, min(mtu - head, 20000), address=address)
            ksft_eq((len(got.seen), got.bad), (50, 0), f"UDP to {address}")
        mcast_passes(src, dst, "239.5.5.6")
