# SPDX-License-Identifier: GPL-2.0-only
"""The driver where the kernel's allocator fails.

An operation is repeated, each time with another one of its allocations
failing, until none is left (or a sample of them, where there are many).  It
may fail then, but must leave things as they were; afterwards all works.  What
it forgets to free is found by kmemleak after the file.
"""

import errno
import fcntl
import os
import socket
import struct

from lib import (Flood, defer, ends, exists, fabric, failslab, hca, ifaces,
                 kmsg_since, kmsg_tail, ksft_eq, ksft_ge, ksft_in, ksft_pr,
                 load_module, loaded, mcast_receiver, mcast_sender,
                 neigh_flush, ping, ping_ok, tcp_transfer, timeout,
                 udp_exchange, unload_module, wait_until, write)
from lib.connected import (connected_ends, mode, set_mode, to_datagram,
                           wait_connected)
from lib.ipoib import drop_all
from lib.traffic import udp_send
from lib.utils import module_range

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 40, "group": "memory"}

SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
# Failures of an operation that makes many allocations
SAMPLE = 16


def set_up(sock, name, on):
    """Bring an interface up or down: one system call of this thread."""
    request = struct.pack("16sH22x", name.encode(), 0)
    flags = struct.unpack("16sH22x", fcntl.ioctl(sock, SIOCGIFFLAGS,
                                                 request))[1]
    flags = flags | IFF_UP if on else flags & ~IFF_UP
    fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(),
                                                flags))


def insert():
    """Load the module under test."""
    failslab.insert(os.environ["IPOIB_MODULE"])


def attempt(act, number, where):
    """
    Do it with one allocation failing; (was there one, did it work).
    """
    worked = True
    with failslab.nth(number, where) as left:
        try:
            act()
        except OSError as error:
            ksft_in(error.errno, (errno.ENOMEM, errno.ENOSPC), str(error))
            worked = False
    return left() == 0, worked


def try_sample(act, undo, where):
    """A sample of an operation's allocations fails, one at a time."""
    total = failslab.count(act, where)
    undo()
    ksft_ge(total, 3, "allocations")
    hits = failed = 0
    numbers = sorted({1 + i * total // SAMPLE for i in range(SAMPLE)})
    for number in numbers:
        hit, worked = attempt(act, number, where)
        hits += hit
        failed += not worked
        if worked:
            undo()
    ksft_pr(f"{hits} of {total} allocations failed, {failed} times the "
            "operation did")
    # Not as many are made each time: caches have some.
    ksft_ge(hits, len(numbers) // 2, "failures")


@timeout(240)
def test_open():
    """Each allocation of an interface that is brought up may fail."""
    failslab.need()
    pair = ends()
    where = module_range()
    refused = 0
    with pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # An HCA's own interface allocates its receives: some of these are tried.
        skip = 20 if pair.a.enhanced() else 200
        number = 0
        for _ in range(200):
            number += 1 + number // skip
            set_up(sock, pair.a.ifname, False)
            hit, worked = attempt(lambda: set_up(sock, pair.a.ifname, True),
                                  number, where)
            refused += not worked
            if not hit:
                break
        ksft_eq(hit, False, "the last allocation was reached")
        ksft_ge(number, 2, "allocations")
    ksft_pr(f"{number - 1} allocations, {refused} of them refuse it")
    pair.a.up()
    pair.ready()
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(400)
def test_load():
    """Allocations fail while the module is loaded with two HCAs there."""
    failslab.need()
    drop_all()
    unload_module(40)
    defer(lambda: loaded() or load_module())

    def remove():
        unload_module(40)
        ksft_eq(exists("/sys/kernel/debug/ipoib"), False, "debugfs")
        for each in fabric.hcas():
            ksft_eq(each.data_qps(), [], f"QPs on {each}")

    try_sample(insert, remove, failslab.MODULES)
    load_module()
    ksft_eq(len(ifaces()), 2, "interfaces")
    ping_ok(ends().a.ns, ends().b.v4)


@timeout(400)
def test_plug():
    """Allocations of the driver fail while an HCA of two ports comes."""
    failslab.need()
    drop_all()
    new = hca(7)
    defer(lambda: new.exists() and new.unplug())
    before = len(ifaces())

    def remove():
        new.unplug()
        wait_until(lambda: len(ifaces()) == before, 10, "interfaces gone")

    try_sample(lambda: new.plug(ports=2), remove, module_range())
    new.plug(ports=2)
    wait_until(lambda: len(ifaces()) == before + 2, 10, "two interfaces")
    new.unplug()
    ping_ok(ends().a.ns, ends().b.v4)


@timeout(240)
def test_traffic():
    """With one allocation in five failing, packets are lost, no more."""
    failslab.need()
    pair = ends()
    with failslab.often(20, module_range()):
        for _ in range(3):
            for end in pair:
                neigh_flush(end)
            ping(pair.a.ns, pair.b.v4, size=1500, count=20, limit=0.3)
            ping(pair.b.ns, pair.a.v6, size=20, count=20, limit=0.3)
        with Flood(pair.a, pair.b.v4, 1400, gap=0.0005):
            ping(pair.b.ns, pair.a.v4, count=20, limit=0.3)
        for number in range(60):
            ping(pair.a.ns, f"10.0.0.{100 + number}", limit=0.01)
    recovered(pair)


@timeout(240)
def test_multicast():
    """Groups are joined and left while every other allocation fails."""
    failslab.need()
    pair = ends()
    with failslab.often(50, module_range()):
        for number in range(12):
            group = f"239.14.0.{number + 1}"
            with mcast_receiver(pair.b, group) as sink, \
                    mcast_sender(pair.a, group) as sock:
                udp_send(sock, (group, sink.port), 5, 300)
    recovered(pair)
    group = "239.14.1.1"
    with mcast_receiver(pair.b, group) as sink, \
            mcast_sender(pair.a, group) as sock:
        def heard():
            udp_send(sock, (group, sink.port), 1, 300)
            return sink.collect(1, 0.3)
        wait_until(heard, 20, "a packet of the group")


@timeout(240)
def test_events():
    """Links, LIDs and keys change while every other allocation fails."""
    failslab.need()
    pair = ends()
    with failslab.often(50, module_range()):
        for _ in range(5):
            for name in ("client_reregister", "sm_change", "lid_change",
                         "pkey_change", "gid_change"):
                pair.a.port.event(name)
                ping(pair.a.ns, pair.b.v4, limit=0.1)
        pair.b.port.link(False)
        pair.b.wait_no_carrier()
        pair.b.port.link(True)
        pair.b.port.wait_active()
    recovered(pair)


@timeout(240)
def test_mode():
    """Each allocation of a change to connected mode may fail."""
    failslab.need()
    pair = ends()
    pair.a.need_verbs("connected mode")
    defer(to_datagram, pair.a)
    refused, begin = 0, kmsg_tail()
    for number in range(1, 400):
        set_mode(pair.a, "datagram")
        hit, worked = attempt(lambda: write(pair.a.sys("mode"), "connected"),
                              number, module_range())
        ksft_eq(mode(pair.a), "connected" if worked else "datagram")
        refused += not worked
        if not hit:
            break
    ksft_pr(f"{number - 1} allocations, {refused} of them refuse it")
    ksft_eq(hit, False, "the last allocation was reached")
    ksft_ge(refused, 1, "refusals")
    ksft_eq(kmsg_since(begin, "peers can't connect"), [])
    set_mode(pair.a, "datagram")
    recovered(pair)


@timeout(240)
def test_connections():
    """Connections are opened and used while one allocation in five fails."""
    failslab.need()
    pair = connected_ends()
    with failslab.often(20, module_range()):
        for number in range(6):
            # Closes them all.
            pair.a.ethtool("--set-priv-flags connected-offload "
                           f"{('off', 'on')[number % 2]}")
            for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
                ping(src.ns, dst.v4, size=30000, count=10, limit=0.3)
                ping(src.ns, dst.v6, size=1000, count=10, limit=0.3)
    recovered(pair)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        wait_connected(src, dst, 40)


@timeout(240)
def test_no_large_pages():
    """Where memory is in single pages, interfaces come up and receive."""
    failslab.need()
    drop_all()
    unload_module(40)
    defer(lambda: loaded() or load_module())
    load_module()
    with failslab.large(3, module_range()):
        pair = ends()
        tcp_transfer(pair.a, pair.b, 1 << 20)
        connected_ends()
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
            for size in (100, 3700, 8000, 40000, 65492):
                got = udp_exchange(src, dst, 40, size)
                ksft_eq((len(got.seen), got.bad), (40, 0), f"of {size} bytes")
            tcp_transfer(src, dst, 4 << 20)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        tcp_transfer(src, dst, 4 << 20)


def recovered(pair):
    """All is well again, on its own."""
    pair.ready()
    tcp_transfer(pair.a, pair.b, 1 << 20)
    tcp_transfer(pair.b, pair.a, 1 << 20, address=pair.a.v6)
