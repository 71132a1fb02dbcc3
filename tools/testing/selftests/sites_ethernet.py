# SPDX-License-Identifier: GPL-2.0-only
"""Each allocation of eth_ipoib fails, during all that is done to its interfaces.

Once, twice, and for as long as an operation lasts.  It is refused, or packets are
lost; afterwards all works, and nothing is left over.
"""

import contextlib
import ipaddress
import itertools

from lib import (Netns, Skip, defer, define, ends, exists, ip,
                 mcast_receiver, mcast_sender, neigh_flush, ping, read, tcp_transfer,
                 timeout, wait_until)
from lib.connected import set_mode, to_datagram
from lib.ethernet import Ethernet, load, reach
from lib.genl import ethernet
from lib.rtnl import Rtnl
from lib.sites import Module, Operation, all_reached, every, sees_memory, works
from lib.traffic import mcast_join, mcast_leave, udp_send

BOOT = {"ipoib": "ours", "hcas": 2, "needs": "ethernet iproute2", "seconds": 500,
        "group": "sites"}

EIPOIB = Module("eth_ipoib", "ETH_IPOIB")
STATION = bytes.fromhex("02aabbccdd01")
# Nobody has had one of these.
_fresh = itertools.count(1)


def talk_to(space):
    """A socket for requests to a namespace, until the case ends."""
    talk = Rtnl(space)
    defer(talk.close)
    return talk


def bridged():
    """A guest behind the second of two hosts, and what shows that all works."""
    pair = ends()
    host = Ethernet(pair.b)
    guest = host.guest(101)

    def usable():
        for src, dst in ((guest, pair.a), (pair.a, guest)):
            reach(src, dst, 30)
        tcp_transfer(guest, pair.a, 1 << 17)
    usable()
    return pair, host, guest, usable


# ---- links ---------------------------------------------------------------


def link_made():
    pair = ends()
    load()
    talk, where = talk_to(pair.b.ns), pair.b.ns.sys("class/net/eibs")

    def without():
        if exists(where):
            talk.delete("eibs")
    defer(without)

    def usable():
        talk.up("eibs")
        wait_until(lambda: read(f"{where}/carrier") == "1", 15, "a carrier")
        works(pair)
    return Operation("link", before=without,
                     act=lambda: talk.add(pair.b.ifindex(), "eibs", kind="eipoib"),
                     done=lambda: exists(where), works=usable)


def link_deleted():
    made = link_made()

    def there():
        if not made.done():
            made.act()
        made.works()
    return Operation("unlink", before=there, act=made.before,
                     done=lambda: not made.done(), works=lambda: works(ends()))


def opened():
    _, host, _, usable = bridged()
    talk = talk_to(host.ns)
    return Operation("open", before=lambda: talk.down("eib0"),
                     act=lambda: talk.up("eib0"), done=host.carrier, works=usable)


def closed():
    _, host, _, usable = bridged()
    talk = talk_to(host.ns)

    def up():
        talk.up("eib0")
        usable()
    return Operation("close", before=up, act=lambda: talk.down("eib0"), works=up)


def moved():
    pair = ends()
    host = Ethernet(pair.b, bridge=None)
    home, away = host.ns, Netns("away").add()
    defer(away.delete)
    here, there = talk_to(home), talk_to(away)
    address = pair.b.v4.rsplit(".", 1)[0] + ".77"

    def back():
        if exists(away.sys("class/net/eib0")):
            there.move("eib0", home)
        here.up("eib0")
    defer(back)

    def usable():
        there.up("eib0")
        there.add_address("eib0", address)
        wait_until(lambda: ping(away, pair.a.v4, limit=0.5), 30, "an answer")
    return Operation("namespace", before=back, act=lambda: here.move("eib0", away),
                     works=usable)


def mode():
    pair, host, _, usable = bridged()
    defer(to_datagram, pair.b)
    return Operation("mode of the lower one", before=lambda: to_datagram(pair.b),
                     act=lambda: set_mode(pair.b, "connected"), done=host.carrier,
                     works=usable)


# ---- guests and peers ------------------------------------------------------


def new_address(name, owner, asks, usable):
    """Somebody has an address that is new, and another one finds it."""
    talk, mine = talk_to(owner.ns), []

    def take_back():
        while mine:
            ip(f"addr del {mine.pop()} dev {owner.ifname}", ns=owner.ns, fail=False)

    def find(limit=0.3):
        return all(ping(asks.ns, each.split("/")[0], limit=limit) for each in mine)

    def give_one():
        number = next(_fresh) % 40 + 150
        v4 = owner.v4.rsplit(".", 1)[0] + f".{number}"
        v6 = owner.v6.rsplit(":", 1)[0] + f":{next(_fresh) + 0x1000:x}"
        mine[:] = [f"{v4}/24", f"{v6}/64"]
        neigh_flush(asks)
        talk.add_address(owner.ifname, v4)
        ip(f"addr add {v6}/64 dev {owner.ifname} nodad", ns=owner.ns)
        find()
    defer(take_back)
    return Operation(name, before=take_back, act=give_one, done=find, works=usable)


def claimed():
    pair, _, guest, usable = bridged()
    return new_address("claim", guest, pair.a, usable)


def resolved():
    pair, _, guest, usable = bridged()
    return new_address("peer", pair.a, guest, usable)


def group():
    """A guest is a member of a group, and is sent to."""
    pair, host, guest, usable = bridged()
    name = "239.32.0.1"
    sink = mcast_receiver(guest, name, join=False)
    defer(sink.close)
    sock = mcast_sender(pair.a, name)
    defer(sock.close)
    family = ethernet(host)

    def leave():
        with contextlib.suppress(OSError):
            mcast_leave(sink.sock, name, guest.ifindex())

    def known():
        return any(each["address"] == name
                   for each in family.get("group-get", host.ifindex()))

    def heard():
        udp_send(sock, (name, sink.port), 1, 100)
        return sink.drain()

    def member():
        usable()
        # What was lost is said again at the next question only.
        leave()
        mcast_join(sink.sock, name, guest.ifindex())
        wait_until(heard, 30, f"a packet of {name}")
    return Operation("group", before=leave,
                     act=lambda: mcast_join(sink.sock, name, guest.ifindex()),
                     done=lambda: known() and heard(), works=member)


def netlink():
    """Addresses and a network are given to a guest, and the tables are read."""
    _, host, _, usable = bridged()
    family, index = ethernet(host), host.ifindex()
    given = [ipaddress.ip_network(name) if "/" in name else ipaddress.ip_address(name)
             for name in ("10.44.0.1", "fd44::1", "10.44.1.0/24")]

    def take():
        for each in given:
            with contextlib.suppress(OSError):
                family.change("guest-del", index, each)

    def act():
        for each in given:
            family.change("guest-new", index, each, STATION)
        for what in "guest-get", "peer-get", "group-get":
            family.get(what, index)
    defer(take)

    def again():
        take()
        act()
        usable()

    def refused_whole():
        # One that was refused leaves those before it.
        try:
            act()
        except OSError:
            take()
            raise
    return Operation("netlink", before=take, act=refused_whole, works=again)


@timeout(1500)
def fail_each(make):
    """Each allocation that is made then fails: nothing is lost for good."""
    if not sees_memory():
        raise Skip("allocations are not seen on this kernel")
    load()
    every(make, EIPOIB)


CASES = {
    "test_link": link_made,
    "test_unlink": link_deleted,
    "test_open": opened,
    "test_close": closed,
    "test_namespace": moved,
    "test_mode": mode,
    "test_claim": claimed,
    "test_peer": resolved,
    "test_group": group,
    "test_netlink": netlink,
}
define(globals(), CASES, fail_each)


@timeout(600)
def test_reached():
    """These operations reach every allocation, or sites.unreached says why not."""
    load()
    all_reached(EIPOIB, CASES.values())
