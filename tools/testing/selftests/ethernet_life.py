# SPDX-License-Identifier: GPL-2.0-only
"""An Ethernet interface follows the one below it: MTU, carrier, mode, removal."""

from lib import (Flood, Netns, defer, ends, hca, hold, ip, ksft_eq, ksft_false, ksft_in,
                 ksft_true, ping, ping_ok, wait_until)
from lib.connected import set_mode
from lib.ethernet import Ethernet, lladdr, load, reach, refused, sees_host, unload
from lib.ksft import module_kind
from ethernet_netlink import listed

BOOT = {"hcas": 3, "needs": "ethernet iproute2", "seconds": 120}
GROUPS = ("ethernet",)


def gone(host):
    return host.ifname not in host.ns.links()


def traffic(one, other):
    """Datagrams both ways, until the case ends or they are stopped."""
    return [defer(Flood(src, dst.v4, 700, gap=0.001).stop)
            for src, dst in ((one, other), (other, one))]


def test_mtu():
    """The MTU follows the lower one's, unless another one was set."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    top = pair.a.mtu()
    defer(pair.a.set_mtu, top)
    for value in (1500, top):
        pair.a.set_mtu(value)
        ksft_eq(host.mtu(), value)
    ip("link set eib0 mtu 1400", ns=host.ns)
    pair.a.set_mtu(1500)
    ksft_eq(host.mtu(), 1400)
    pair.a.set_mtu(1300)
    ksft_eq(host.mtu(), 1300)
    ksft_in("mtu", refused("link set eib0 mtu 1301", ns=host.ns))


def test_carrier():
    """So does the carrier."""
    pair = ends()
    host = Ethernet(pair.a)
    wait_until(host.carrier, 5, "a carrier")
    pair.a.port.link(False)
    defer(pair.a.wait_carrier)
    again = defer(pair.a.port.link, True)
    wait_until(lambda: not host.carrier(), 10, "no carrier")
    again.exec()
    wait_until(host.carrier, 20, "a carrier")
    pair.a.set("down")
    defer(pair.a.up)
    ksft_false(host.carrier())


def test_too_long():
    """Packets that do not fit get an answer that says so, both ways."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(101)
    reach(guest, pair.b)
    ip("link set eib0 mtu 1400", ns=host.ns)
    for space, address in ((pair.b.ns, guest.v4), (pair.b.ns, guest.v6)):
        ping(space, address, size=1500, df=True, limit=1)
        route = ip(f"route get {address}", ns=space).stdout
        ksft_in("mtu 1400", route)
        ping_ok(space, address, size=1300)


def test_modes():
    """Connected mode below: long packets between those that can, and else a word."""
    pair = ends()
    for end in pair:
        end.need_verbs("connected mode")
    host = Ethernet(pair.a)
    set_mode(pair.a, "connected")
    defer(set_mode, pair.a, "datagram")
    pair.a.set_mtu(65520)
    ksft_eq(host.mtu(), 65520)
    guest = host.guest(102)
    reach(guest, pair.b)
    # The peer is in datagram mode; in-tree's accepts connections all the same.
    if not pair.b.address()[0] & 0x80:
        ping(guest.ns, pair.b.v4, size=9000, df=True, limit=1)
        ksft_in("mtu 2044", ip(f"route get {pair.b.v4}", ns=guest.ns).stdout)
    ping_ok(guest.ns, pair.b.v4, size=1900)
    set_mode(pair.b, "connected")
    defer(set_mode, pair.b, "datagram")
    pair.b.set_mtu(65520)
    ip("route flush cache", ns=guest.ns)
    wait_until(lambda: ping(guest.ns, pair.b.v6, size=30000, limit=2), 20,
               "a long packet")
    ping_ok(pair.b.ns, guest.v4, size=30000, df=True, limit=5)


def test_modes_announced():
    """A mode is another link-layer address: peers hear of it for every guest."""
    pair = ends()
    pair.a.need_verbs("connected mode")
    host = Ethernet(pair.a)
    guests = [host.guest(number) for number in range(103, 108)]
    for guest in guests:
        reach(guest, pair.b)

    def known(address):
        return lladdr(pair.b, address) == pair.a.address().hex(":")
    before = pair.a.address()
    defer(set_mode, pair.a, "datagram")
    for mode in "connected", "datagram":
        set_mode(pair.a, mode)
        # The in-tree driver says in both modes that it takes connections.
        ksft_eq(pair.a.address() != before, module_kind() != "stock")
        before = pair.a.address()
        for guest in guests:
            for address in (guest.v4, guest.v6):
                wait_until(lambda a=address: known(a), 15,
                           f"the new address behind {address}")


def test_router_after_mode():
    """What guests send by way of a router goes on when the host's address changes."""
    pair = ends()
    pair.a.need_verbs("connected mode")
    host = Ethernet(pair.a)
    guest = host.guest(109)
    ip(f"addr add fd99::1/128 dev {pair.b.ifname} nodad", ns=pair.b.ns)
    defer(ip, f"addr del fd99::1/128 dev {pair.b.ifname}", ns=pair.b.ns)
    ip(f"route add fd99::/64 via {pair.b.v6}", ns=guest.ns)
    wait_until(lambda: ping(guest.ns, "fd99::1", limit=1), 15, "an answer")
    defer(set_mode, pair.a, "datagram")
    for mode in "connected", "datagram":
        set_mode(pair.a, mode)
        wait_until(lambda: ping(guest.ns, "fd99::1", limit=0.5), 6,
                   f"an answer in {mode} mode")


def test_outage():
    """What a peer has taken while the host was away is not the guest's afterwards."""
    pair = ends()
    # The SM is on the other one: it does not forget who is on the fabric.
    peer, away = pair
    host = Ethernet(away)
    kept, lost = host.guest(111), host.guest(112)
    for guest in kept, lost:
        reach(guest, peer)
    away.port.link(False)
    defer(away.wait_carrier)
    again = defer(away.port.link, True)
    wait_until(lambda: not host.carrier(), 10, "no carrier")
    ip(f"addr add {lost.v4}/32 dev {peer.ifname}", ns=peer.ns)
    defer(ip, f"addr del {lost.v4}/32 dev {peer.ifname}", ns=peer.ns)
    # Those that are away for 20 s have to ask again.
    hold(22)
    again.exec()
    wait_until(host.carrier, 20, "a carrier")

    def states():
        return {a: each["status"] for a, each in listed(host, "guest-get").items()}
    wait_until(lambda: states().get(lost.v4) in (None, "refused"), 10,
               f"{lost.v4} is not the guest's")
    wait_until(lambda: states().get(kept.v4) == "held", 10,
               f"{kept.v4} is the other guest's")
    ksft_in(lladdr(peer, lost.v4), (None, peer.address().hex(":")))
    reach(kept, peer)


def test_deleted():
    """Interfaces are deleted and made again under traffic."""
    pair = ends()
    for number in range(120, 125):
        host = Ethernet(pair.a)
        guest = host.guest(number)
        reach(guest, pair.b)
        floods = traffic(guest, pair.b)
        ip("link del eib0", ns=host.ns)
        host.drop()
        for flood in floods:
            flood.exec()
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_unload():
    """The module is unloaded under traffic, with interfaces on two hosts."""
    pair = ends()
    hosts = [Ethernet(end) for end in pair]
    guests = [host.guest(104 + at) for at, host in enumerate(hosts)]
    reach(*guests)
    traffic(*guests)
    unload()
    defer(load)
    for host in hosts:
        ksft_true(gone(host))
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_child_below():
    """It goes with a child interface on which it is."""
    pair = ends()
    ip(f"link add link {pair.a.ifname} name kid type ipoib", ns=pair.a.ns, fail=False)
    defer(ip, "link del kid", ns=pair.a.ns, fail=False)
    load()
    ip("link add link kid name eibk type eipoib", ns=pair.a.ns)
    ip("link set eibk up", ns=pair.a.ns)
    ip("link del kid", ns=pair.a.ns)
    ksft_false("eibk" in pair.a.ns.links())


def test_unplug():
    """And with an HCA that is pulled out, under traffic."""
    pair = ends(1, 2)
    host = Ethernet(pair.b)
    guest = host.guest(105)
    reach(guest, pair.a)
    traffic(guest, pair.a)
    victim = hca(2)
    victim.unplug()
    defer(victim.plug)
    wait_until(lambda: gone(host), 10, "no interface")


def test_namespaces():
    """Upper and lower interface move to other namespaces, which are removed."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    away = Netns("away").add()
    defer(away.delete)
    ip("link set eib0 netns away", ns=host.ns)
    ip(f"addr add {pair.a.v4[:-1]}77/24 dev eib0", ns=away)
    ip("link set eib0 up", ns=away)
    wait_until(lambda: ping(away, pair.b.v4, limit=1), 10, "an answer")
    if sees_host():
        wait_until(lambda: ping(away, pair.a.v4, limit=1), 10, "an answer of the host")
    away.delete()
    ksft_false("eib0" in pair.a.ns.links())
    ping_ok(pair.a.ns, pair.b.v4)


def test_lower_moves():
    """The lower interface moves to another namespace, and the host is seen there."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(106)
    others = (pair.a, pair.b) if sees_host() else (pair.b,)
    for other in others:
        reach(guest, other)
    away = Netns("away").add()
    defer(away.delete)
    name, home = pair.a.ifname, pair.a.ns
    ip(f"link set {name} netns away", ns=home)
    pair.a.ns = away
    try:
        pair.a.up()
        pair.a.wait_carrier()
        for other in others:
            reach(guest, other)
            reach(other, guest)
    finally:
        ip(f"link set {name} netns {home.name}", ns=away)
        pair.a.ns = home
        pair.a.up()
    pair.a.wait_carrier()
    for other in others:
        reach(other, guest)
