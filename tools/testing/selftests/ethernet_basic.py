# SPDX-License-Identifier: GPL-2.0-only
"""Guests behind a bridge, peers with plain IPoIB, and the host itself."""

from lib import (ends, ip, ksft_eq, ksft_ge, ksft_in, ksft_true, mcast_flow, ping_ok,
                 tcp_transfer, udp_exchange, wait_until)
from lib.ethernet import (Ethernet, peer_mac, reach, refused, resolved,
                          sees_host)
from lib.ksft import Skip

BOOT = {"hcas": 3, "needs": "ethernet iproute2", "seconds": 60}


def test_link():
    """The interface is one of Ethernet, and takes what it has from the lower one."""
    end = ends().a
    host = Ethernet(end)
    link = host.ns.link("eib0")
    ksft_eq(link["link_type"], "ether")
    ksft_eq(link["linkinfo"]["info_kind"], "eipoib")
    ksft_eq(link["link"], end.ifname)
    ksft_eq(link["mtu"], end.mtu())
    ksft_true(wait_until(host.carrier, 5, "a carrier"))


def test_refused():
    """Links that can't be are refused with a reason."""
    end = ends().a
    Ethernet(end)
    for words, reason in (
            (f"link {end.ifname} name eib1", "has an eipoib interface already"),
            ("link lo name eib1", "not an IPoIB interface"),
            ("name eib1", "An IPoIB interface is needed")):
        ksft_in(reason, refused(f"link add {words} type eipoib", ns=end.ns))


def test_settings():
    """Settings of a link, by the plug-in of ip(8); mistakes are refused."""
    end = ends().a
    host = Ethernet(end, guard=False, max_guests=5)

    def settings():
        return host.ns.link("eib0")["linkinfo"]["info_data"]

    ksft_eq(settings(), {"guard": False, "max_guests": 5})
    host.set(guard=True)
    host.set(max_guests=32767)
    ksft_eq(settings(), {"guard": True, "max_guests": 32767})
    ksft_in("guard on max_guests 32767",
            ip("-d link show eib0", ns=host.ns).stdout)
    for words, reason in (("guard of", '"on" nor "off"'), ("guard", "required"),
                          ("guard on guard off", "duplicate"),
                          ("max_guests x", "is not a number"),
                          ("max_guests -1", "is not a number"),
                          ("max_guests 0", "range"), ("max_guests 32768", "range"),
                          ("colour red", "unknown option")):
        ksft_in(reason, refused(f"link set eib0 type eipoib {words}", ns=host.ns))
    ksft_eq(settings(), {"guard": True, "max_guests": 32767})


def test_peer():
    """Guest and peer reach each other, in both families and directions."""
    pair = ends()
    guest = Ethernet(pair.a).guest(101)
    reach(guest, pair.b)
    ksft_eq(resolved(guest, pair.b.v4), peer_mac(pair.b.v4))
    for size in (0, 1000, 2016, 9000):
        ping_ok(guest.ns, pair.b.v4, size=size)
        ping_ok(guest.ns, pair.b.v6, size=size)
        ping_ok(pair.b.ns, guest.v4, size=size)
        ping_ok(pair.b.ns, guest.v6, size=size)


def test_peer_first():
    """A peer finds a guest that has not said a word."""
    pair = ends()
    guest = Ethernet(pair.a).guest(102)
    reach(pair.b, guest)


def test_streams():
    """TCP and UDP between guest and peer."""
    pair = ends()
    guest = Ethernet(pair.a).guest(103)
    reach(guest, pair.b)
    for src, dst in ((guest, pair.b), (pair.b, guest)):
        for address in (dst.v4, dst.v6):
            tcp_transfer(src, dst, 4 << 20, address=address)
        got = udp_exchange(src, dst, 50, 1472)
        ksft_eq((len(got.seen), got.bad), (50, 0))


def test_guests():
    """Guests on two hosts, and behind the same bridge."""
    pair = ends()
    one, two = Ethernet(pair.a), Ethernet(pair.b)
    first, near, far = one.guest(104), one.guest(105), two.guest(106)
    for src, dst in ((first, far), (far, near), (first, near)):
        reach(src, dst)
        tcp_transfer(src, dst, 1 << 20)
        tcp_transfer(dst, src, 1 << 20, address=src.v6)


def test_host():
    """Guests and the host itself, whose addresses are on the lower interface."""
    if not sees_host():
        raise Skip("no NETFILTER_EGRESS")
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(107)
    reach(guest, pair.a)
    reach(pair.a, guest)
    for src, dst in ((guest, pair.a), (pair.a, guest)):
        for address in (dst.v4, dst.v6):
            tcp_transfer(src, dst, 1 << 20, address=address)
    ksft_ge(host.count("tx_to_host"), 1)
    ksft_ge(host.count("rx_from_host"), 1)
    # Others are not disturbed.
    ping_ok(pair.a.ns, pair.b.v4)


def test_groups():
    """Multicast between guest, peer and host."""
    pair = ends()
    guest = Ethernet(pair.a).guest(108)
    reach(guest, pair.b)
    ways = [(guest, pair.b), (pair.b, guest)]
    if sees_host():
        ways += [(guest, pair.a), (pair.a, guest)]
    for group, (src, dst) in enumerate(ways):
        with mcast_flow(src, dst, f"239.9.1.{group}", 500) as (sink, _):
            ksft_eq(sink.bad, 0)


def test_removed():
    """The interface goes with the lower one's, and by itself, under traffic."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(109)
    reach(guest, pair.b)
    ip("link del eib0", ns=host.ns)
    ping_ok(pair.a.ns, pair.b.v4)
