# SPDX-License-Identifier: GPL-2.0-only
"""
eth_ipoib where the kernel's allocator fails: each allocation of each command, one at a
time, and one in five of those that traffic makes.  Needs the debug kernel; what is not
freed is found by kmemleak after the file.
"""

import errno
import ipaddress
import os

from lib import (Flood, Netns, defer, ends, failslab, hold, ip, ksft_eq, ksft_ge, ksft_gt,
                 ksft_in, ksft_pr, mcast_receiver, mcast_sender, neigh_flush, ping,
                 tcp_transfer, timeout)
from lib.ethernet import MODULE, Ethernet, load, reach, unload
from lib.genl import ethernet
from lib.rtnl import Rtnl
from lib.traffic import udp_send
from lib.utils import exists, module_range
from ethernet_hostile import ARP, Raw, arp
from ethernet_netlink import STATION, give, listed, take

BOOT = {"hcas": 3, "needs": "ethernet iproute2", "seconds": 30, "group": "memory"}
GROUPS = ("ethernet",)

MOST = 300
HOSTS_GROUPS = ("224.0.0.1", "ff02::1")


def insert():
    """Load the module."""
    failslab.insert(os.environ["ETH_IPOIB"])


def each(what, act, undo, where=None, more=()):
    """
    Do it with its first allocation failing, with its second, until none is left; if it
    works all the same it is undone.  Twice in a row without a failure is the end, since
    caches have some.
    """
    refused = number = missed = 0
    while missed < 2 and number < MOST:
        number += 1
        worked = True
        with failslab.nth(number, where or module_range(MODULE)) as left:
            try:
                act()
            except OSError as error:
                ksft_in(error.errno, (errno.ENOMEM, errno.ENOBUFS, *more),
                        f"{what}: {error}")
                worked = False
        missed = 0 if left() == 0 else missed + 1
        refused += not worked
        if worked:
            undo()
    ksft_gt(number, 2, f"{what}: allocations")
    ksft_eq(missed, 2, f"{what}: its last allocation")
    ksft_pr(f"{what}: {number - 2} allocations, {refused} of them refuse it")


@timeout(200)
def test_load():
    """The module is loaded."""
    failslab.need()
    load()
    unload()
    try:
        each("load", insert, unload, failslab.MODULES)
    finally:
        if not exists(f"/sys/module/{MODULE}"):
            load()


class Link:
    """An interface that the case makes itself."""

    def __init__(self, space, ifname):
        self.ns, self.ifname = space, ifname

    def ifindex(self):
        return self.ns.ifindex(self.ifname)


@timeout(300)
def test_links():
    """Links are made, changed, brought up and down, moved and deleted."""
    failslab.need()
    load()
    end = ends().a
    rtnl, away = Rtnl(end.ns), Netns("away").add()
    defer(away.delete)
    there = Rtnl(away)
    index = end.ns.ifindex(end.ifname)

    def add():
        rtnl.add(index, "eibf", kind="eipoib", guard=b"\1")
    # The kernel's netdev_register_kobject() does not look whether there is a name.
    each("add", add, lambda: rtnl.delete("eibf"), more=(errno.EINVAL,))
    add()
    defer(ip, "link del eibf", ns=end.ns, fail=False)
    host = Link(end.ns, "eibf")

    def up():
        rtnl.up("eibf")
        ksft_eq([g for g in HOSTS_GROUPS if g not in listed(host, "group-get")], [])
    each("up", up, lambda: rtnl.down("eibf"))
    for act, undo in ((lambda: rtnl.up("eibf"), lambda: rtnl.down("eibf")),
                      (lambda: rtnl.move("eibf", away),
                       lambda: there.move("eibf", end.ns))):
        act()
        undo()
    rtnl.up("eibf")
    rtnl.delete("eibf")


@timeout(300)
def test_tables():
    """Guests are given addresses and prefixes; the tables are read."""
    failslab.need()
    host = Ethernet(ends().a)
    family = ethernet(host)
    for name in ("10.44.0.1", "fd44::1", "10.44.1.0/24", "fd44:1::/64"):
        where = ipaddress.ip_network(name) if "/" in name else \
            ipaddress.ip_address(name)
        each(name, lambda w=where: give(host, w, STATION, family),
             lambda w=where: take(host, w, family))
        give(host, where, STATION, family)
    ksft_eq(len([guest for guest in family.get("guest-get", host.ifindex())
                 if guest["status"] == "fixed"]), 4)


@timeout(300)
def test_unasked():
    """
    Where there is no memory for questions their answers are not missed: what a peer
    has is granted to nobody.
    """
    failslab.need()
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(101)
    reach(guest, pair.b)
    claimed = [f"10.0.0.{number}" for number in range(150, 180)]
    for address in claimed:
        ip(f"addr add {address}/32 dev {pair.b.ifname}", ns=pair.b.ns)
        defer(ip, f"addr del {address}/32 dev {pair.b.ifname}", ns=pair.b.ns)
    raw = Raw(guest)
    seen = set()
    with failslab.often(70, module_range(MODULE), but=module_range()):
        for _ in range(6):
            for address in claimed:
                raw.out(ARP, arp(raw.mac, address, address))
                seen |= set(listed(host, "guest-get"))
    # An answer that was late is believed for three seconds.
    hold(3)
    states = listed(host, "guest-get")
    granted = [address for address in claimed
               if states.get(address, {}).get("status") in ("held", "asked")]
    ksft_gt(len(seen & set(claimed)), 10, "addresses claimed")
    ksft_ge(host.count("no_memory"), 10)
    ksft_eq(granted, [])
    reach(guest, pair.b, 30)


def new_guests(host, first, count):
    """Guests come, with addresses that nobody knows yet."""
    return [host.guest(number) for number in range(first, first + count)]


@timeout(400)
def test_traffic():
    """With one allocation in five failing, packets are lost, no more."""
    failslab.need()
    pair = ends()
    host, other = Ethernet(pair.a), Ethernet(pair.b)
    with failslab.often(20, module_range(MODULE)):
        guests = new_guests(host, 41, 4) + new_guests(other, 51, 2)
        for number, guest in enumerate(guests):
            for address in (pair.b.v4, pair.b.v6, pair.a.v4, guests[number - 1].v4,
                            guests[number - 1].v6):
                ping(guest.ns, address, count=5, limit=0.3)
            neigh_flush(guest)
            group = f"239.15.0.{number + 1}"
            with mcast_receiver(guest, group) as sink, \
                    mcast_sender(pair.b, group) as sock:
                udp_send(sock, (group, sink.port), 5, 300)
        with Flood(guests[0], pair.b.v4, 1400, gap=0.0005):
            ping(pair.b.ns, guests[1].v4, count=20, limit=0.3)
    ksft_ge(host.count("no_memory") + other.count("no_memory"), 10)
    for guest in guests[:4]:
        reach(guest, pair.b, 30)
        reach(guest, guests[5], 30)
    tcp_transfer(guests[0], guests[4], 1 << 20)
    tcp_transfer(pair.b, guests[1], 1 << 20, address=guests[1].v6)
