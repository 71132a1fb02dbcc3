# SPDX-License-Identifier: GPL-2.0-only
"""TCP packets that the driver cuts into datagrams, checksums included."""

import os
import re
import socket

from lib import (Capture, Stream, ends, ksft_eq, ksft_ge, ksft_le, ksft_true,
                 plain_ends, read, tcp_transfer, timeout, wait_until)
from lib.child import children

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60, "group": "tso"}
VERBS_ONLY = "segmentation by the driver"

MIB = 1 << 20
IP_OPTIONS, NOP = 4, b"\x01"


def sizes(end, kind, src, dst, **kwargs):
    """Lengths of TCP packets that the stack gave to the interface."""
    with Capture(end, outgoing=True) as packets:
        tcp_transfer(src, dst, 2 * MIB, **kwargs)
    place = 9 if kind == 0x0800 else 6
    return [len(p.data) for p in packets.of(kind)
            if p.kind == "outgoing" and p.data[place] == 6]


def counted(end):
    lines = end.ethtool("-S").stdout.splitlines()[1:]
    return {name.strip(): int(value) for name, value in
            (line.split(":") for line in lines)}


def check_cut(pair, families=(0x0800, 0x86dd)):
    """Large packets are handed over, and what arrives is right."""
    before = [counted(end) for end in pair]
    for kind in families:
        address = pair.b.v4 if kind == 0x0800 else pair.b.v6
        seen = sizes(pair.a, kind, pair.a, pair.b, address=address)
        ksft_ge(max(seen), 4 * pair.a.mtu(), f"largest packet {kind:#x}")
    for end, had in zip(pair, before):
        for name in ("tx_dropped", "tx_errors"):
            ksft_eq(counted(end)[name], had[name], name)


@timeout(60)
def test_no_offloads():
    """The HCA can nothing: both families are cut, and summed."""
    check_cut(plain_ends())


@timeout(60)
def test_checksums_only():
    """The HCA makes the checksums of IPv4, we those of IPv6."""
    check_cut(plain_ends(csum=1))


@timeout(60)
def test_ipv6_with_lso():
    """The HCA cuts IPv4, we IPv6."""
    pair = ends()
    check_cut(pair, (0x86dd,))


@timeout(60)
def test_real_dma():
    """Headers and pieces are mapped for the HCA, and unmapped."""
    check_cut(plain_ends(dma=1))


@timeout(60)
def test_few_pieces():
    """An HCA that gathers few pieces: the stack cuts what has more."""
    for sge in (3, 4):
        pair = plain_ends(max_sge=sge)
        for address in (pair.b.v4, pair.b.v6):
            tcp_transfer(pair.a, pair.b, 2 * MIB, address=address)
        for end in pair:
            end.port.hca.unplug()


@timeout(90)
def test_segment_sizes():
    """Segments of all sizes, odd ones, more than there are places."""
    pair = plain_ends()
    for mss in (88, 536, 1001, 1460):
        for address in (pair.b.v4, pair.b.v6):
            tcp_transfer(pair.a, pair.b, 600001, mss=mss, address=address)


@timeout(60)
def test_tiny_segments_with_lso():
    """An HCA that cuts packets is not given segments this short."""
    pair = ends()
    before = counted(pair.a)
    tcp_transfer(pair.a, pair.b, 600001, mss=88)
    after = counted(pair.a)
    sent = {name: after[name] - before[name]
            for name in ("tx_packets", "tx_bytes")}
    # What the HCA cuts counts as one packet.
    ksft_le(sent["tx_bytes"] / sent["tx_packets"], 200, "bytes of a packet")
    for name in ("tx_dropped", "tx_errors"):
        ksft_eq(after[name], before[name], name)


def write_pieces(sock, data, size):
    """Many small pieces of a file: a packet gets a page of each."""
    with open("/run/tso.data", "w+b") as file:
        file.write(data)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        at = 0
        while at < len(data):
            sent = os.sendfile(sock.fileno(), file.fileno(), at,
                               min(size, len(data) - at))
            at += sent


@timeout(90)
def test_many_pieces():
    """Packets of many small pieces at odd places come through whole."""
    pair = plain_ends()
    data = os.urandom(MIB)
    for size in (77, 1003, 4097):
        listener = pair.b.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((pair.b.v4, 0))
        listener.listen(1)
        sender = pair.a.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
        sender.connect(listener.getsockname())
        receiver = listener.accept()[0]
        part = data[:size * 600]
        child = os.fork()
        if not child:
            write_pieces(sender, part, size)
            os._exit(0)
        sender.close()
        got = b""
        receiver.settimeout(30)
        while True:
            more = receiver.recv(1 << 16)
            if not more:
                break
            got += more
        os.waitpid(child, 0)
        receiver.close()
        listener.close()
        ksft_true(got == part, f"pieces of {size}")


def raw_header(pair, family, level, name, value):
    """A stream whose IP headers are longer than usual."""
    listener = pair.b.ns.socket(family, socket.SOCK_STREAM)
    listener.bind((pair.b.v4 if family == socket.AF_INET else pair.b.v6, 0))
    listener.listen(1)
    sender = pair.a.ns.socket(family, socket.SOCK_STREAM)
    sender.setsockopt(level, name, value)
    sender.connect(listener.getsockname()[:2])
    receiver = listener.accept()[0]
    data = os.urandom(MIB)
    child = os.fork()
    if not child:
        sender.sendall(data)
        os._exit(0)
    sender.close()
    got = b""
    receiver.settimeout(30)
    while len(got) < len(data):
        more = receiver.recv(1 << 16)
        if not more:
            break
        got += more
    os.waitpid(child, 0)
    receiver.close()
    listener.close()
    ksft_true(got == data, "data")


IPV6_HOPOPTS = 54


@timeout(60)
def test_long_headers():
    """IP options are in each segment; extension headers are the stack's."""
    pair = plain_ends()
    raw_header(pair, socket.AF_INET, socket.IPPROTO_IP, IP_OPTIONS, NOP * 40)
    raw_header(pair, socket.AF_INET6, socket.IPPROTO_IPV6, IPV6_HOPOPTS,
               bytes([0, 0, 1, 4, 0, 0, 0, 0]))


def joined(end):
    """The interface is in its groups, and in that of IPv6's reports."""
    groups = read(f"/sys/kernel/debug/ipoib/{end.ifname}_mcg")
    return re.search(r"^GID: \S+:0*16$", groups, re.M) and \
        not re.search(r"complete: +no", groups)


@timeout(90)
def test_short_rings():
    """Queues that hold few segments, several streams: none is lost for it."""
    pair = plain_ends()
    for end in pair:
        end.ethtool("-G tx 64")
    pair.ready()
    both = children(pair, 0x8001)
    # Until the groups of IPv6 are joined, their reports find no room to wait.
    for end in (*pair, *both):
        wait_until(lambda e=end: joined(e), 10, f"groups of {end}")
    before = [counted(end)["tx_dropped"] for end in (*pair, *both)]
    for src, dst in (pair, both):
        streams = [Stream(src, dst, total=2 * MIB) for _ in range(3)]
        streams += [Stream(dst, src, total=2 * MIB, address=src.v6)]
        for stream in streams:
            stream.finish(60)
    ksft_eq([counted(end)["tx_dropped"] for end in (*pair, *both)], before)


@timeout(60)
def test_switched_off():
    """Without tso the stack cuts; without tx it makes the checksums, too."""
    pair = plain_ends()
    for words in ("tso off", "tx off", "sg off"):
        pair.a.ethtool(f"-K {words}")
        for kind, address in ((0x0800, pair.b.v4), (0x86dd, pair.b.v6)):
            seen = sizes(pair.a, kind, pair.a, pair.b, address=address)
            ksft_le(max(seen), 65536)
        pair.a.ethtool("-K tx on sg on tso on")
    check_cut(pair)
