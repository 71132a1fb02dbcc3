# SPDX-License-Identifier: GPL-2.0-only
"""The HCA's own interface for IPoIB, under the distribution's driver: as mlx5's."""

import ctypes
import errno
import socket
import struct
import time

from lib import (Failed, Flood, Skip, Stream, UdpSink, any_ends, define, defer, ends,
                 ends_with, exists, hca, hold, ksft_eq, ksft_false, ksft_ge, ksft_gt,
                 ksft_in, ksft_lt, ksft_ne, ksft_true, now, ping, ping_ok, port, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until)
from lib import stamps
from lib.child import add_link, child_by_ip
from lib.ipoib import forget, iface_of
from lib.stamps import Phc
from lib.traffic import exchange, restarts, udp_send

BOOT = {"ipoib": "stock", "hcas": 2, "hca": "rdma_netdev=own", "seconds": 150,
        "partitions": "Default=0x7fff, ipoib : ALL=full;\n"
                      "two=0x0001, ipoib : ALL=full;\n"}

MIB = 1 << 20
# Key, addresses, ports and hashes of Microsoft's "Verifying the RSS hash
# calculation": source, destination, with ports, without
KEY = ("6d:5a:56:da:25:5b:0e:c2:41:67:25:3d:43:a3:8f:b0:d0:ca:2b:cb:"
       "ae:7b:30:b4:77:cb:2d:a3:80:30:f2:0c:6a:42:b7:3b:be:ac:01:fa")
VECTORS = (
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x51ccc178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xc626b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0x5c2b394a),
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x40207d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0xdde51bbf),
)
# linux/filter.h: load a word, compare, return; where the hash is
LOAD, EQUAL, RETURN, RXHASH = 0x20, 0x15, 0x06, 0xfffff020
SO_ATTACH_FILTER = 26


def stats(end):
    """What ethtool -S shows."""
    lines = end.ethtool("-S").stdout.splitlines()[1:]
    return {name.strip(): int(value) for name, value in
            (line.split(":") for line in lines)}


def total(end, name):
    """A counter of all channels."""
    return sum(value for key, value in stats(end).items()
               if key.split("_", 1)[1] == name)


def recovers(pair, *faults):
    """A stream outlives sends that fail, (fault, count), and a queue that is stuck."""
    for fault, value in faults:
        stream = Stream(pair.a, pair.b, rate=4 * MIB)
        pair.a.port.fault(fault, value)
        stream.wait_progress(limit=20)
        stream.finish(40)
    stream = Stream(pair.a, pair.b, rate=4 * MIB)
    lift = pair.a.port.fault("wedged", 1)
    hold(1)
    lift.exec()
    stream.wait_progress(limit=30)
    stream.finish(60)


def sent_by_ring(end):
    """Packets that each ring has sent."""
    found = stats(end)
    return [found[f"ch{ring}_tx_packets"] for ring in range(end.queues())
            if f"ch{ring}_tx_packets" in found]


def socket_by_ring(pair, ring, where, tries=64):
    """A socket whose datagrams to the port @where leave by that ring."""
    for _ in range(tries):
        sock = pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        before = sent_by_ring(pair.a)
        for _ in range(16):
            sock.sendto(b"", (pair.b.v4, where))
        wait_until(lambda old=before: sum(sent_by_ring(pair.a)) >= sum(old) + 16, 5,
                   "16 packets sent")
        if sent_by_ring(pair.a)[ring] >= before[ring] + 16:
            return sock
        sock.close()
    raise Failed(f"no flow leaves by ring {ring}")


def unplugged(kind, before=None):
    """HCAs of a kind are pulled under traffic; @before is told that they will be."""
    for number in (2, 3):
        hca(number).plug(rdma_netdev=kind)
        port(number).wait_active()
    pair = any_ends(port(2), port(3), ("h3", "h4"), 3)
    told = before() if before else None
    with Flood(pair.a, pair.b.v4, 700, gap=0.001, burst=8), \
            Flood(pair.b, pair.a.v4, 700, gap=0.001, burst=8):
        tcp_transfer(pair.a, pair.b, MIB)
        for number in (2, 3):
            hca(number).unplug()
    forget(pair)
    return told


@timeout(90)
def test_traffic():
    """TCP, UDP, multicast, both families; the rings carry all of it."""
    pair = ends()
    ksft_in("driver: ibdevsim[ib_ipoib]", pair.a.ethtool("-i").stdout)
    before = total(pair.a, "tx_packets"), total(pair.b, "rx_packets")
    exchange(pair)
    after = total(pair.a, "tx_packets"), total(pair.b, "rx_packets")
    for old, new in zip(before, after):
        ksft_gt(new, old + 200)
    for end in pair:
        end.port.no_mistakes()


def test_offloads():
    """The HCA cuts TCP and computes checksums, of both families."""
    pair = ends()
    for address in (pair.b.v4, pair.b.v6):
        before = [total(end, name) for end in pair
                  for name in ("tx_tso", "rx_csum")]
        tcp_transfer(pair.a, pair.b, 4 * MIB, address=address)
        after = [total(end, name) for end in pair
                 for name in ("tx_tso", "rx_csum")]
        ksft_gt(after[0], before[0] + 20, f"packets cut for {address}")
        ksft_gt(after[3], before[3] + 20, f"checksums verified for {address}")
    for feature in ("tx-checksum-ip-generic", "tx-tcp-segmentation"):
        pair.a.ethtool(f"-K {feature} off", fail=False)
    defer(pair.a.ethtool, "-K tx on tso on", fail=False)
    pair.a.ethtool("-K tx off")
    before = total(pair.a, "tx_tso")
    for address in (pair.b.v4, pair.b.v6):
        tcp_transfer(pair.a, pair.b, MIB, address=address)
    ksft_eq(total(pair.a, "tx_tso"), before)


def routing_header(address):
    """One of Mobile IPv6: anybody may ask for it, and no peer here takes it."""
    return struct.pack("BBBBI16s", 0, 2, 2, 1, 0,
                       socket.inet_pton(socket.AF_INET6, address))


# linux/in6.h
IPV6_RTHDR, IPV6_DSTOPTS = 57, 59


def pump(out, back, octets, chunk=32768):
    """Send and receive so much, a chunk at a time; how much came."""
    got = 0
    try:
        while got < octets:
            out.sendall(bytes(chunk))
            left = chunk
            while left:
                left -= len(back.recv(left))
            got += chunk
    except TimeoutError:
        pass
    return got


def with_option(pair, option, value):
    """What comes of a stream over IPv6 that gets an option when it has begun."""
    with pair.b.ns.socket(socket.AF_INET6, socket.SOCK_STREAM) as server, \
            pair.a.ns.socket(socket.AF_INET6, socket.SOCK_STREAM) as out:
        for sock in (server, out):
            sock.settimeout(slow(3))
        server.bind((pair.b.v6, 0))
        server.listen(1)
        out.connect(server.getsockname())
        with server.accept()[0] as back:
            back.settimeout(slow(3))
            ksft_eq(pump(out, back, MIB), MIB, "without the option")
            try:
                out.setsockopt(socket.IPPROTO_IPV6, option, value)
            except OSError as error:
                if (option, error.errno) == (IPV6_RTHDR, errno.EINVAL):
                    raise Skip("no Mobile IPv6 in this kernel") from error
                raise
            return pump(out, back, MIB)


@timeout(60)
def test_extension_headers():
    """TCP behind extension headers: sent, or lost, and others do not notice."""
    pair = ends()
    stream = Stream(pair.a, pair.b, rate=4 * MIB)
    rings = [qp.qpn for qp in pair.a.port.hca.data_qps()]
    ksft_eq(with_option(pair, IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0])), MIB)
    ksft_eq(with_option(pair, IPV6_RTHDR, routing_header(pair.b.v6)), 0)
    hold(0.5)
    ksft_eq([qp.qpn for qp in pair.a.port.hca.data_qps()], rings, "rings made anew")
    stream.wait_progress()
    stream.finish()


def hash_filter(sock, value):
    """Let a socket receive packets with this hash only."""
    program = b"".join(struct.pack("HBBI", *each) for each in
                       ((LOAD, 0, 0, RXHASH), (EQUAL, 0, 1, value),
                        (RETURN, 0, 0, 0xffff), (RETURN, 0, 0, 0)))
    buffer = bytearray(program)
    place = (ctypes.c_char * len(buffer)).from_buffer(buffer)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                    struct.pack("HxxxxxxP", 4, ctypes.addressof(place)))


def given(end, address):
    """An address until the end of the case."""
    end.ns.ip(f"addr replace {address} dev {end.ifname}" +
              (" nodad" if ":" in address else ""))
    defer(end.ns.ip, f"addr del {address} dev {end.ifname}", fail=False)


def hashed(pair, vector, value):
    """Is this the hash that the HCA gives a packet?"""
    source, sport, target, dport, _ = vector
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    bits = 128 if ":" in source else 32
    group = target.startswith("ff")
    given(pair.a, f"{source}/{bits}")
    if not group:
        given(pair.b, f"{target}/{bits}")
        pair.a.ns.ip(f"route replace {target} dev {pair.a.ifname} src {source}")
    with pair.a.ns.socket(family, socket.SOCK_DGRAM) as out, \
            pair.b.ns.socket(family, socket.SOCK_DGRAM) as back:
        out.bind((source, sport))
        scope = (0, pair.a.ifindex()) if group else ()
        back.bind(("::" if group else target, dport))
        hash_filter(back, value)
        back.settimeout(slow(1))
        for _ in range(3):
            out.sendto(b"hash", (target, dport, *scope))
            try:
                return back.recv(64) == b"hash"
            except TimeoutError:
                pass
    return False


@timeout(90)
def test_rss_vectors():
    """Microsoft's vectors, over the wire: its key, addresses and ports."""
    pair = ends()
    pair.b.ns.sysctl("net.ipv4.conf.all.rp_filter", 0)
    pair.b.ns.sysctl(f"net.ipv4.conf.{pair.b.ifname}.rp_filter", 0)
    pair.b.ethtool(f"-X hkey {KEY}")
    ksft_in(KEY, pair.b.ethtool("-x").stdout)
    for vector in VECTORS:
        ksft_true(hashed(pair, vector, vector[-1]), f"{vector}")
    pair.b.ethtool(f"-X hkey {KEY.replace('6d', '6c', 1)}")
    ksft_false(hashed(pair, VECTORS[0], VECTORS[0][-1]), "the key makes no difference")


def test_rss_table():
    """A table with one ring only: all packets arrive there."""
    pair = ends()
    if pair.b.ethtool("-l").stdout.count("Combined:\t1\n") == 2:
        raise Skip("one channel")
    defer(pair.b.ethtool, "-X default")
    for ring in (1, 0):
        pair.b.ethtool("-X weight " + ("0 1" if ring else "1 0"))
        before = stats(pair.b)
        udp_exchange(pair.a, pair.b, 100, 500)
        tcp_transfer(pair.a, pair.b, MIB)
        after = stats(pair.b)
        for each in (0, 1):
            got = after[f"ch{each}_rx_packets"] - before[f"ch{each}_rx_packets"]
            if each == ring:
                ksft_ge(got, 100)
            else:
                # Address resolution is not hashed: it is the table's first entry.
                ksft_eq(got, 0, f"packets on ring {each}")


@timeout(90)
def test_channels():
    """One channel, two, and rings of other sizes, in the middle of streams."""
    pair = ends()
    streams = [Stream(pair.a, pair.b), Stream(pair.b, pair.a)]
    for what in ("-L combined 1", "-L combined 2", "-G rx 64 tx 64",
                 "-G rx 1024 tx 512", "-G rx 512"):
        pair.a.ethtool(what)
        for stream in streams:
            stream.wait_progress(limit=20)
    for stream in streams:
        stream.finish(60)
    ksft_ne(pair.a.ethtool("-G rx 1", fail=False).ret, 0)
    exchange(pair)


def test_clocks():
    """Clocks are 3 s and 50 ppm apart, and can be set."""
    first, second = (Phc(hca(number)) for number in (0, 1))
    begin = first.ahead(), second.ahead()
    ksft_lt(abs(begin[1] - begin[0] - 3 * stamps.NS), 60 * stamps.NS // 1000)
    since = now()
    hold(4)
    took = now() - since
    end = first.ahead(), second.ahead()
    drift = ((end[1] - end[0]) - (begin[1] - begin[0])) / took / 1000
    ksft_gt(drift, 40, "ppm")
    ksft_lt(drift, 60, "ppm")
    with second.clock() as number:
        time.clock_settime(number, 1000.0)
        there = time.clock_gettime(number)
        ksft_ge(there, 1000)
        ksft_lt(there, 1005)
        time.clock_settime_ns(number, time.time_ns() + 3 * stamps.NS)


@timeout(60)
def test_stamps():
    """Packets are stamped when they cross the wire, by each HCA's clock."""
    pair = ends()
    for end in pair:
        ksft_eq(stamps.set_stamps(end, stamps.TX_ON, 12), (stamps.TX_ON, 1))
        defer(stamps.set_stamps, end, stamps.TX_OFF, stamps.FILTER_NONE)
        ksft_eq(stamps.get_stamps(end), (stamps.TX_ON, stamps.FILTER_ALL))
    clocks = [Phc(end.port.hca) for end in pair]
    for src, dst, clock in ((pair.a, pair.b, clocks),
                            (pair.b, pair.a, clocks[::-1])):
        before = [each.now() for each in clock]
        sent, got = stamps.exchange(src, dst)
        after = [each.now() for each in clock]
        for number, stamp in enumerate((sent[1], got[1])):
            ksft_gt(stamp, before[number])
            ksft_lt(stamp, after[number])
        # Both look at the same moment, each with its clock.
        apart = clock[1].ahead() - clock[0].ahead()
        ksft_lt(abs(got[1] - sent[1] - apart), 5 * stamps.NS // 1000)
    for end in pair:
        stamps.set_stamps(end, stamps.TX_OFF, stamps.FILTER_NONE)

    def in_software():
        sent, got = stamps.exchange(pair.a, pair.b)
        ksft_eq((sent[1], got[1]), (None, None), "stamps that nobody wants")
        return sent[0] and got[0]

    # The stack begins some time after it was asked to.
    wait_until(in_software, 5, "software stamps")


@timeout(90)
def test_children():
    """Children of another partition, whose packets come by the port's rings."""
    pair = ends()
    # Fewer receive queues than the parent uses are refused, as by mlx5.
    ksft_ne(add_link(pair.a, "few", "pkey 0x8001", "numrxqueues 1", fail=False).ret, 0)
    kids = [child_by_ip(end, 0x8001, more="numtxqueues 2 numrxqueues 2")
            for end in pair]
    for kid in kids:
        kid.up()
        kid.wait_carrier()
    wait_until(lambda: ping(kids[0].ns, kids[1].v4, limit=0.5), 20, "an echo")
    for src, dst in (kids, kids[::-1]):
        ping_ok(src.ns, dst.v6, size=1000, limit=slow(2))
        tcp_transfer(src, dst, 2 * MIB)
        tcp_transfer(src, dst, MIB, address=dst.v6)
        got = udp_exchange(src, dst, 50, 1000)
        ksft_eq((len(got.seen), got.bad), (50, 0), "UDP")
    done = pair.a.ethtool("-L combined 1", fail=False)
    ksft_ne(done.ret, 0, "its channels are the children's, too")
    for kid in kids:
        kid.delete(fail=True)
    pair.a.ethtool("-L combined 1")
    pair.a.ethtool("-L combined 2")


@timeout(120)
def test_restarts():
    """The interfaces go down and up under traffic."""
    restarts(ends())


@timeout(60)
def test_errors():
    """Sends that fail, that cannot be posted, and queues that are stuck."""
    recovers(ends(), ("send_post_error", 3), ("send_error", 1), ("send_error", 3))


@timeout(60)
def test_stuck_ring():
    """A ring that is stuck holds up no other; what it has leaves later."""
    pair, count = ends(), 100
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        socks = [socket_by_ring(pair, ring, sink.port) for ring in (0, 1)]
        lift = pair.a.port.fault("wedged_rings", 2)
        for ring, sock in enumerate(socks):
            with sock:
                udp_send(sock, (pair.b.v4, sink.port), count, 200, ring * count)
        sink.collect(count)
        hold(1)
        sink.drain()
        ksft_eq(sorted(sink.seen), list(range(count)), "from the ring that works")
        lift.exec()
        ksft_eq(sink.collect(2 * count), 2 * count, "datagrams")


@timeout(60)
def test_refused():
    """An HCA that refuses its interface is used by verbs, or not at all."""
    for keys, driver in (({}, "ibdevsim[ib_ipoib]"),
                         ({"netdev_refuse": errno.EOPNOTSUPP}, "ib_ipoib")):
        hca(2).plug(rdma_netdev="own", **keys)
        unplug = defer(hca(2).unplug)
        port(2).wait_active()
        place = wait_until(lambda: iface_of(port(2)), 10, "an interface")
        ksft_in(f"driver: {driver}\n",
                place[0].cmd(["ethtool", "-i", place[1]]).stdout)
        unplug.exec()
    # A lack of memory is the end of it, for the kernel's driver.
    for keys in ({"netdev_refuse": errno.ENOMEM}, {"netdev_init_error": 1}):
        hca(2).plug(rdma_netdev="own", **keys)
        unplug = defer(hca(2).unplug)
        port(2).wait_active()
        ksft_eq(iface_of(port(2)), None)
        unplug.exec()


@timeout(120)
def test_hot_unplug():
    """HCAs are pulled under traffic, their clocks with them."""
    for _ in range(2):
        clock = unplugged("own", lambda: Phc(hca(2)))
        ksft_false(exists(f"/dev/ptp{clock.number}"))


@timeout(120)
def with_keys(keys):
    """Traffic over such interfaces of HCAs with other limits and habits."""
    pair = ends_with(rdma_netdev="own", **keys)
    ksft_in("driver: ibdevsim[ib_ipoib]", pair.a.ethtool("-i").stdout)
    exchange(pair)


CASES = {
    # Completion handlers in a work item; one vector for two channels.
    "test_habits_work": {"comp_ctx": "work", "vectors": 1},
    # Packets have to be linearized.
    "test_habits_sge": {"max_sge": 2},
    # A DMA device.
    "test_habits_real_dma": {"dma": 1},
    # No offloads.
    "test_habits_plain": {"csum": 0, "lso": 0, "moderation": 0},
}
define(globals(), CASES, with_keys)
