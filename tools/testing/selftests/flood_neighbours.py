# SPDX-License-Identifier: GPL-2.0-only
"""Addresses that peers make up: memory is bounded, real peers get through."""

import glob
import json
import os
import re
import socket
import struct
import subprocess
import time

from lib import (any_ends, bkg, defer, ends, hca, hold, in_groups, ip, ksft_eq,
                 ksft_ge, ksft_gt, ksft_in, ksft_le, ksft_pr, ksft_true,
                 neigh_flush, now, ping, ping_ok, read, settled, slow, stagger,
                 timeout, verbs_only, wait_until, write)
from lib.capture import bth, deth, lrh
from lib.child import Child, add_link
from lib.connected import counter, counters, set_mode
from lib.netns import Netns
from lib.sa import alias_guids
from lib.traffic import SO_SNDBUFFORCE, UdpSink, udp_send
from common import ROOT

BOOT = {"hcas": 5, "ipoib": "ours", "needs": "load", "seconds": 190,
        "mem": 1536, "hca": "gids=128"}

LOAD = os.path.join(ROOT, "build", "bench", "load")
LIMIT = "/sys/module/ib_ipoib/parameters/max_neighbours"
QKEY = 0x0b1b
# Where in a forged packet the sender's address is: QPN, GUID
HEAD = 8 + 12 + 8 + 4
QPN, GUID = HEAD + 8 + 1, HEAD + 8 + 12
# What Documentation/reference/parameters.rst says that one host can make another hold
MEMORY = 4 << 20
# And as Documentation/dev/design.rst does, the paths of a port without a handle
PATHS = 16384
NEWCOMERS = ("10.0.0.33", "10.0.0.34")
# How a group's hardware address begins; four bytes more
GROUP = bytes.fromhex("00ffffff" "ff12401bffff" "000000000000")
GUIDS = 0x021bd5bb00000000


def fresh():
    """Two ends; b remembers nobody but a."""
    pair = ends()
    pair.b.set("down")
    pair.b.up()
    pair.ready()
    ping_ok(pair.b.ns, pair.a.v4)
    return pair


def arp_request(pair, lladdr, spa):
    """What asks for b's address, behind the 20 bytes of the receiver's."""
    return struct.pack(">HHHHBBH", 0x0806, 0, 32, 0x0800, 20, 4, 1) + \
        lladdr + socket.inet_aton(spa) + bytes(20) + \
        socket.inet_aton(pair.b.v4)


def request(pair, lladdr, slid=None, spa="10.0.0.77"):
    """An ARP request to b, sent to it alone from a's LID or another."""
    body = bth(pair.b.qpn()) + deth(QKEY, pair.a.qpn()) + \
        arp_request(pair, lladdr, spa)
    return lrh(pair.b.port.lid(), slid or pair.a.port.lid(),
               (8 + len(body) + 4) // 4) + body


def inject(pair, packet):
    fd = os.open(f"{pair.b.port.dir}/inject", os.O_WRONLY)
    try:
        os.write(fd, packet)
    finally:
        os.close(fd)


def flood(pair, packet, rate, seconds, *random):
    """
    Packets that arrive at b, with some bytes random, in the background.  They
    stand for another host's: what makes them leaves the CPU to the SM and to
    the hosts that are measured.
    """
    path = "/run/flood-packet"
    with open(path, "wb") as file:
        file.write(packet)
    words = " ".join(str(word) for word in random)
    return bkg(f"exec nice {LOAD} inject {pair.b.port.dir}/inject {rate} "
               f"{seconds} {words} < {path}", exit_wait=True, fail=True)


def rate_of(background):
    found = json.loads(background.stdout)
    return found["sent"] * 10**9 // found["ns"]


def forget_freed():
    """
    Have KASAN give back what was freed: it keeps that for a while, and then it
    counts as allocated.
    """
    if " kasan_quarantine_" not in read("/proc/kallsyms"):
        return
    for name in ("kmalloc-*", "skbuff*"):
        for path in glob.glob(f"/sys/kernel/slab/{name}/shrink"):
            write(path, "1")


def slab():
    """Bytes of all objects, live or not, and of large allocations."""
    forget_freed()
    lines = [line.split() for line in read("/proc/slabinfo").splitlines()[2:]]
    large = re.search(r"Slab:\s+(\d+)", read("/proc/meminfo"))
    return max(sum(int(words[2]) * int(words[3]) for words in lines),
               int(large[1]) << 10)


def newcomers():
    """Two hosts on b's subnet that have never sent to it."""
    pair = any_ends(hca(2).port(), hca(3).port(), ("h3", "h4"), net=5,
                    keep=False)
    for v4, end in zip(NEWCOMERS, pair):
        ip(f"addr add {v4}/24 dev {end.ifname}", ns=end.ns)
    return pair.a, pair.b


def first_contact(src, dst):
    """Seconds to the first answer."""
    begin = time.monotonic()
    # One that gets lost costs a quarter of what the answer may take.
    wait_until(lambda: ping(src.ns, dst, limit=slow(0.25)), 30,
               f"an answer of {dst}", interval=0.01)
    return time.monotonic() - begin


def ask_often(end):
    """
    An ARP request whose answer the flood has washed away is sent again after
    0.1 s, until the case ends: what the kernel waits is not the driver's delay.
    """
    name = f"net.ipv4.neigh.{end.ifname}.retrans_time_ms"
    defer(end.ns.sysctl, name, end.ns.sysctl(name))
    end.ns.sysctl(name, 100)


@timeout(240)
def test_forged_addresses():
    """20,000 forged senders a second: little memory, real ones not delayed."""
    pair = ends()
    asks, asked = newcomers()
    for end in (asks, pair.b):
        ask_often(end)
    forged = request(pair, bytes(4) + pair.a.address()[4:])
    before, queries = slab(), counter(pair.b, "path_queries")
    most = 0
    took = {}
    begin = look = time.monotonic()
    with flood(pair, forged, 20000, 30, QPN, 3, GUID, 8) as load:
        while time.monotonic() < begin + 28:
            if time.monotonic() > look:
                most = max(most, slab() - before)
                look += 2
            passed = time.monotonic() - begin
            if passed > 8 and "asks" not in took:
                took["asks"] = first_contact(asks, pair.b.v4)
            if passed > 16 and "asked" not in took:
                took["asked"] = first_contact(pair.b, NEWCOMERS[1])
            hold(0.2)
        load.stop(slow(20))
    stats = counters(pair.b)
    ksft_pr(f"{rate_of(load)} forged requests a second, "
            f"{stats['path_queries'] - queries} queries, {most >> 10} KiB; "
            f"first answer to a new peer after {took['asks']:.3f} s, "
            f"of a new peer after {took['asked']:.3f} s")
    ksft_true(asked.carrier())
    ksft_le(most, MEMORY, "bytes")
    for name, seconds in took.items():
        ksft_le(seconds, slow(1), f"seconds, {name}")
    ksft_gt(stats["path_evicted"], 0)
    # 256, and those whose LID got lost on the way
    ksft_le(stats["path_unresolved"], 1000)
    ksft_le(stats["neighbours"], 1000)
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_forged_qpns():
    """Senders that differ in their QPN only: as many as a GID may have."""
    pair = fresh()
    ping_ok(pair.a.ns, pair.b.v4)
    before = counters(pair.b)
    with flood(pair, request(pair, pair.a.address()), 5000, 2, QPN, 3) as load:
        load.stop(slow(10))
    stats = counters(pair.b)
    ksft_pr(f"{rate_of(load)} a second, {stats['neighbours']} neighbours")
    ksft_gt(stats["neigh_evicted"], before["neigh_evicted"])
    ksft_le(stats["neighbours"] - before["neighbours"], 257)
    ksft_le(stats["path_unresolved"] - before["path_unresolved"], 0)
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_limit():
    """max_neighbours holds, and who is in use stays."""
    write(LIMIT, "100")
    defer(write, LIMIT, "32768")
    pair = fresh()
    forged = request(pair, bytes(4) + pair.a.address()[4:])
    queries = counter(pair.b, "path_queries")
    with flood(pair, forged, 500, 3, QPN, 3, GUID, 8) as load:
        ping_ok(pair.a.ns, pair.b.v4, count=20)
        load.stop(slow(10))
    stats = counters(pair.b)
    ksft_le(stats["neighbours"], 100)
    ksft_gt(stats["neigh_evicted"], 0)
    ksft_eq(stats["neigh_refused"], 0)
    ksft_gt(stats["path_queries"], queries)


def queries_caused(pair, packet):
    """How often b asks the SA while a packet comes five times a second, for 16 s."""
    queries = counter(pair.b, "path_queries")
    begin = time.monotonic()
    while time.monotonic() < begin + 16:
        inject(pair, packet)
        hold(0.2)
    queries = counter(pair.b, "path_queries") - queries
    ksft_pr(f"{queries} queries in 16 s")
    return queries


@verbs_only("LIDs that packets come from")
@timeout(90)
def test_denied_lid():
    """ARP that claims a peer's address from a wrong LID: the SA is left alone."""
    pair = fresh()
    ping_ok(pair.a.ns, pair.b.v4)
    forged = request(pair, pair.a.address(), slid=hca(4).port().lid(),
                     spa=pair.a.v4)
    queries = queries_caused(pair, forged)
    ksft_ge(queries, 1, "the SA is asked at first")
    ksft_le(queries, 6, "but not each time")
    ping_ok(pair.a.ns, pair.b.v4)


@verbs_only("LIDs that packets come from")
@timeout(90)
def test_refused_lid():
    """ARP with an address that the SA has no path to: it is left alone, too."""
    pair = fresh()
    ping_ok(pair.a.ns, pair.b.v4)
    forged = request(pair, bytes(4) + pair.a.address()[4:12] + os.urandom(8),
                     slid=hca(4).port().lid())
    queries = queries_caused(pair, forged)
    ksft_ge(queries, 5, "the SA is asked again")
    ksft_le(queries, 11, "but not each time")
    ping_ok(pair.a.ns, pair.b.v4)


def solicitation(pair, lladdr):
    """An ICMPv6 message that asks for b's address; the kernel sums it up."""
    return struct.pack(">BBHI", 135, 0, 0, 0) + \
        socket.inet_pton(socket.AF_INET6, pair.b.v6) + \
        struct.pack(">BBH", 1, 3, 0) + lladdr


def group_address():
    """The hardware address of a group, of another one each time."""
    return GROUP + os.urandom(4)


def group_count(end):
    return read(f"/sys/kernel/debug/ipoib/{end.ifname}_mcg").count("GID:")


@timeout(90)
def test_forged_groups():
    """Peers that claim the addresses of groups: answers join none of these."""
    pair = ends()
    v6, count = "fd00::77", 300
    ip(f"addr add {v6}/64 dev {pair.a.ifname} nodad", ns=pair.a.ns)
    drop = defer(ip, f"addr del {v6}/64 dev {pair.a.ifname}", ns=pair.a.ns)
    defer(neigh_flush, pair.b)
    broadcast = bytes.fromhex(pair.a.read("broadcast").replace(":", ""))
    ping_ok(pair.a.ns, pair.b.v6)
    arp = pair.a.ns.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    icmp = pair.a.ns.socket(socket.AF_INET6, socket.SOCK_RAW,
                            socket.IPPROTO_ICMPV6)
    groups, before = group_count(pair.b), counters(pair.b)
    with arp, icmp:
        with pair.a.ns.inside():
            arp.bind((pair.a.ifname, 0x0806))
        icmp.bind((v6, 0))
        icmp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
        for number in range(count):
            spa = f"10.0.0.{100 + number // 2 % 100}"
            arp.send(broadcast + arp_request(pair, group_address(),
                                             spa if number % 2 else "0.0.0.0"))
            icmp.sendto(solicitation(pair, group_address()), (pair.b.v6, 0))
    settled(pair.b)
    # What it sends to such a neighbour itself
    ksft_eq(ping(pair.b.ns, "10.0.0.100", limit=0.2), 0)
    groups, stats = group_count(pair.b) - groups, counters(pair.b)
    joins, dropped = (stats[name] - before[name]
                      for name in ("mcast_joins", "mcast_dropped"))
    ksft_pr(f"{groups} groups more, {joins} joins, {dropped} answers dropped "
            f"of {2 * count}")
    ksft_le(groups, 5, "groups")
    ksft_le(joins, 5, "joins")
    # Of each kind some, even if many requests were lost on their way
    ksft_gt(dropped, count + count // 4, "answers dropped")
    # What a sends from this address is answered to a group.
    drop.exec()
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    ping_ok(pair.a.ns, pair.b.v6, count=3)


def path_file(end):
    return f"/sys/kernel/debug/ipoib/{end.ifname}_path"


def path_state(src, dst):
    """State of the path from an end to another one."""
    text = read(path_file(src))
    gid = dst.address()[4:].hex(":", 2)
    found = re.search(rf"GID: {gid}\n.*\n\s*state:\s+(\w+)", text)
    return found and found[1]


@timeout(120)
def test_asked_once():
    """A path that is asked for again when an event comes is not asked twice."""
    pair = fresh()
    ping_ok(pair.b.ns, pair.a.v4)
    fault = pair.b.port.fault("sa_drop", 1)
    failures = counter(pair.b, "path_failures")
    pair.b.port.event("client_reregister")
    wait_until(lambda: ping(pair.b.ns, pair.a.v4, limit=0.2) and
               path_state(pair.b, pair.a) != "valid", 10, "the SA is asked")
    # Then it waits for eight seconds at least.
    wait_until(lambda: counter(pair.b, "path_failures") >= failures + 6 and
               path_state(pair.b, pair.a) == "backoff", 40, "back-off")
    queries = counter(pair.b, "path_queries")
    # With nothing in between: the port notices by itself that the SA is back.
    fault.exec()
    pair.b.port.event("client_reregister")
    wait_until(lambda: path_state(pair.b, pair.a) == "valid", 6, "an answer")
    end = now() + 2
    while now() < end:
        ping_ok(pair.b.ns, pair.a.v4)
    ksft_eq(counter(pair.b, "path_queries") - queries, 1, "queries")


def raw_flood(child, prefix, count):
    """One packet each to addresses that nobody has, by a packet socket."""
    sock = child.ns.socket(socket.AF_PACKET, socket.SOCK_RAW,
                           socket.htons(0x0800))
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 28)
        with child.ns.inside():
            sock.bind((child.ifname, 0x0800))
        for _ in range(count):
            sock.send(b"\0" + os.urandom(3) + prefix + os.urandom(8) +
                      struct.pack(">HH", 0x0800, 0) + bytes(20))


@timeout(300)
def test_container_floods():
    """A container sends to random addresses: its own paths are forgotten."""
    pair = fresh()
    peers = newcomers()
    box = Netns("box").add()
    defer(box.delete)
    add_link(pair.b, "box.f", "pkey 0x800f", f"netns {box.name}")
    child = Child(pair.b, "box.f", 15, box)
    defer(child.delete)
    child.up()
    child.wait_carrier()
    for peer, v4 in zip(peers, NEWCOMERS):
        ip(f"neigh replace {v4} lladdr {peer.address().hex(':')} nud permanent "
           f"dev {pair.b.ifname}", ns=pair.b.ns)
        defer(ip, f"neigh del {v4} dev {pair.b.ifname}", ns=pair.b.ns)
    sinks = [UdpSink(peer.ns) for peer in peers]
    prefix = pair.a.address()[4:12]
    fault = pair.b.port.fault("sa_drop", 1)
    before = counters(pair.b)
    with pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        def send(number):
            udp_send(sock, (NEWCOMERS[number], sinks[number].port), 1, 64)

        send(0)
        wait_until(lambda: path_state(pair.b, peers[0]), 5, "a path")
        raw_flood(child, prefix, PATHS + 500)
        stats, flooded = counters(pair.b), counters(child)
        # Its packet has waited long enough if the flood took long.
        ksft_in(path_state(pair.b, peers[0]),
                ("queued", "query", "backoff", "idle"))
        # One more path of another interface, and its packet waits.  That is
        # dropped when the SA has not answered for four seconds, so nothing
        # that takes long comes in between.
        send(1)
        raw_flood(child, prefix, 50)
        fault.exec()
        ksft_eq(sinks[1].collect(1, slow(5)), 1, "the packet that waited")
        # Asked for before the flood, it may be in a long back-off by now.
        pair.b.port.event("client_reregister")
        wait_until(lambda: send(0) or sinks[0].collect(1, 0.5), 10,
                   "the first path")
    ksft_pr(f"{flooded['path_unresolved']} paths, "
            f"{flooded['neigh_evicted']} of the container evicted")
    ksft_ge(stats["path_unresolved"], PATHS)
    ksft_le(stats["path_unresolved"], PATHS + 64)
    ksft_ge(flooded["neigh_evicted"], 500)
    ksft_eq(stats["neigh_evicted"] - before["neigh_evicted"], 0,
            "neighbours of others evicted")


def sender(pair, addresses, stop):
    """A process that sends to all of them in turn."""
    sock = pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    pid = os.fork()
    if pid:
        sock.close()
        return pid
    try:
        while not os.path.exists(stop):
            for address in addresses:
                try:
                    sock.sendto(b"x" * 64, (address, 9))
                except OSError:
                    pass
    finally:
        os._exit(0)  # pylint: disable=protected-access


@in_groups("scale", "life")
@timeout(300)
def test_released_paths():
    """500 neighbours come and go while their paths are asked for again."""
    pair = fresh()
    guids = [GUIDS + number for number in range(1, 101)]
    alias_guids(pair.a.port, guids)
    prefix = pair.a.address()[:12]
    batch, addresses = [], []
    for number in range(500):
        lladdr = b"\x80" + struct.pack(">I", 0x100 + number // 100)[1:] + \
            prefix[4:] + struct.pack(">Q", guids[number % 100])
        addresses.append(f"10.0.{100 + number // 250}.{1 + number % 250}")
        batch.append(f"neigh replace {addresses[-1]} lladdr {lladdr.hex(':')} "
                     f"nud permanent dev {pair.b.ifname}")
    ip(f"addr add 10.0.100.254/22 dev {pair.b.ifname}", ns=pair.b.ns)
    defer(ip, f"addr del 10.0.100.254/22 dev {pair.b.ifname}", ns=pair.b.ns)
    subprocess.run(["ip", "-n", pair.b.ns.name, "-batch", "-"], check=True,
                   input="\n".join(batch) + "\n", text=True,
                   timeout=slow(30))
    defer(ip, ["neigh", "flush", "dev", pair.b.ifname, "nud", "all"],
          ns=pair.b.ns)
    defer(set_mode, pair.b, "datagram")
    stop = f"/run/stop-{os.getpid()}"
    pids = [sender(pair, addresses, stop) for _ in range(2)]
    try:
        wait_until(lambda: read(path_file(pair.b)).count("valid") >= 100, 60,
                   "100 paths")
        begin, rounds = time.monotonic(), 0
        while time.monotonic() < begin + 30:
            for mode in ("connected", "datagram"):
                for _ in range(5):
                    pair.b.port.event("client_reregister")
                    stagger(1, 0.02)
                set_mode(pair.b, mode)
            rounds += 1
    finally:
        with open(stop, "w", encoding="ascii"):
            pass
        for pid in pids:
            os.waitpid(pid, 0)
        os.unlink(stop)
    ksft_pr(f"{rounds} rounds")
    neigh_flush(pair.b)
    pair.wait_ping(20)
