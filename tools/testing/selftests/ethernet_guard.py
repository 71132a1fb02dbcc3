# SPDX-License-Identifier: GPL-2.0-only
"""Whose address is it: the guard, guests that move, loops."""

import socket
import threading
import time

from lib import (Capture, Flood, Stream, Tracer, cmd, defer, ends, hold, ip, ksft_eq,
                 ksft_false, ksft_ge, ksft_gt, ksft_le, ksft_lt, ksft_not_in, ksft_pr,
                 ksft_true, mcast_receiver, now, ping, ping_ok, slow, timeout, wait_until)
from lib.ethernet import Ethernet, lladdr, peer_mac, reach, resolved
from lib.netns import ROOT
from lib.rtnl import Rtnl
from lib.users import name_of
from ethernet_hostile import ARP, IPV4, IPV6, Raw, arp, ipv4, ipv6, packed
from ethernet_netlink import listed
from ethernet_stack import dad_fails, duplicate

BOOT = {"hcas": 3, "needs": "ethernet iproute2", "seconds": 300}


def silent(guest, address):
    """No answer comes."""
    ksft_eq(ping(guest.ns, address, count=3, limit=slow(0.5)), 0)


def take(guest, v4, v6):
    """A guest gives itself addresses of somebody else."""
    ip(f"addr flush dev {guest.ifname} scope global", ns=guest.ns)
    ip(f"addr add {v4}/24 dev {guest.ifname}", ns=guest.ns)
    ip(f"addr add {v6}/64 dev {guest.ifname} nodad", ns=guest.ns)


def test_peers_address():
    """A guest cannot take a peer's address: the peer and the host go on."""
    pair = ends()
    host = Ethernet(pair.a)
    thief = host.guest(102)
    reach(thief, pair.b)
    before = lladdr(pair.a, pair.b.v4)
    take(thief, pair.b.v4, pair.b.v6)
    for address in (pair.a.v4, pair.a.v6):
        silent(thief, address)
    ksft_eq(lladdr(pair.a, pair.b.v4), before)
    ksft_gt(host.count("tx_refused") + host.count("tx_unconfirmed"), 0)
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    ping_ok(pair.b.ns, pair.a.v6, count=3)


def test_hosts_address():
    """Nor the host's."""
    pair = ends()
    host = Ethernet(pair.a)
    thief = host.guest(103)
    reach(pair.b, pair.a)
    before = lladdr(pair.b, pair.a.v4)
    take(thief, pair.a.v4, pair.a.v6)
    for address in (pair.b.v4, pair.b.v6):
        silent(thief, address)
    ksft_eq(lladdr(pair.b, pair.a.v4), before)
    ping_ok(pair.b.ns, pair.a.v4, count=3)
    ksft_gt(host.count("tx_refused"), 0)


def test_guests_address():
    """Nor another guest's, while that one answers; afterwards it may."""
    pair = ends()
    host = Ethernet(pair.a)
    holder, other = host.guest(104), host.guest(105)
    reach(holder, pair.b)
    take(other, holder.v4, holder.v6)
    silent(other, pair.b.v4)
    ping_ok(holder.ns, pair.b.v4, count=3)
    ip(f"link set {holder.ifname} down", ns=holder.ns)
    begin = time.monotonic()
    wait_until(lambda: ping(other.ns, pair.b.v4, limit=0.5), 10, "an answer")
    ksft_lt(time.monotonic() - begin, slow(3))


def link_local(end):
    """The link-local address of an interface, as soon as it may be used."""
    def found():
        links = ip(f"-6 addr show dev {end.ifname} scope link -tentative", ns=end.ns,
                   json_out=True)
        return [each["local"] for link in links for each in link.get("addr_info", ())
                if "local" in each]
    return wait_until(found, 10, f"a link-local address of {end.ifname}")[0]


def test_hosts_new_mac():
    """The host's bridge gets another MAC: it goes on from its addresses at once."""
    pair = ends()
    host = Ethernet(pair.a)
    ip(f"addr add 10.0.9.1/24 dev {host.bridge}", ns=host.ns)
    ip(f"addr add 10.0.9.2/24 dev {pair.b.ifname}", ns=pair.b.ns)
    defer(ip, f"addr del 10.0.9.2/24 dev {pair.b.ifname}", ns=pair.b.ns)
    # The bridge's port has the link-local address, too, and is found first now.
    ip(f"link set {host.ifname} down", ns=host.ns)
    ip(f"link set {host.ifname} up", ns=host.ns)
    link_local(host)
    peers = {"10.0.9.2": None, link_local(pair.b): host.bridge}

    def answers(address, **more):
        return ping(host.ns, address, iface=peers[address], **more)
    for address in peers:
        wait_until(lambda a=address: answers(a, limit=0.5), 20,
                   f"an answer of {address}")
    for number in range(3):
        refused = host.count("tx_refused")
        ip(f"link set {host.bridge} address 02:00:00:00:09:{number:02x}", ns=host.ns)
        for address in peers:
            ksft_eq(answers(address, count=3, limit=slow(0.5)), 3, address)
        ksft_eq(host.count("tx_refused"), refused)
        ping_ok(pair.b.ns, "10.0.9.1")


def test_unguarded():
    """Without the guard an address goes to whom it is claimed by."""
    pair = ends()
    host = Ethernet(pair.a, guard=False)
    first, second = host.guest(106), host.guest(107)
    reach(first, pair.b)
    ip(f"link set {first.ifname} down", ns=first.ns)
    take(second, first.v4, first.v6)
    wait_until(lambda: ping(second.ns, pair.b.v4, limit=0.5), 5, "an answer")


def announce(guest):
    """
    What a guest does that has been moved, as its virtual machine asks it to: at once.
    A program takes seconds to start on slow machines, for which TCP waits longer and
    longer.
    """
    raw = Raw(guest)
    raw.out(ARP, arp(raw.mac, guest.v4, guest.v4))


def streaming(pair, number):
    """Two hosts, a guest of the first, one of the second, a stream to the first one."""
    hosts = Ethernet(pair.a), Ethernet(pair.b)
    guest, other = (host.guest(number + i) for i, host in enumerate(hosts))
    reach(guest, other)
    stream = Stream(other, guest, rate=1 << 20)
    stream.wait_progress()
    return hosts, guest, other, stream


def test_moves():
    """A guest moves to another host: its stream goes on within a second."""
    hosts, guest, other, stream = streaming(ends(), 108)
    ksft_eq(resolved(other, guest.v4), peer_mac(guest.v4))
    guest.move(hosts[1])
    announce(guest)
    ksft_lt(stream.wait_progress(limit=10), slow(1))
    guest.move(hosts[0])
    announce(guest)
    ksft_lt(stream.wait_progress(limit=10), slow(1))
    stream.finish()


def test_moves_at_once():
    """And back before anybody has got used to it, time and again."""
    pair = ends()
    hosts, guest, _, stream = streaming(pair, 112)
    for number in range(1, 7):
        guest.move(hosts[number % 2])
        announce(guest)
        hold(0.3)
    for _ in range(3):
        ksft_lt(stream.wait_progress(limit=10), slow(2))
        reach(pair.a, guest)
        reach(pair.b, guest)
    stream.finish()


def became(trace, guest):
    """The states of a guest's IPv4 address since the trace began."""
    return [line.rsplit(None, 1)[1] for line in trace.lines()
            if f"{guest.v4} of " in line]


def status(host, address):
    """What a host says of an address that a guest claims; None if nothing."""
    return listed(host, "guest-get").get(address, {}).get("status")


def test_moves_unheard():
    """
    However quickly a guest moves there and back, it has its address where it is: the
    other host's answers may be older than what it has said last, and it says nothing
    else.
    """
    hosts = [Ethernet(end) for end in ends()]
    guest = hosts[0].guest(122)
    wanted = ("held",), (None, "seen", "refused")

    def settled():
        return all(status(host, guest.v4) in states
                   for host, states in zip(hosts, wanted))
    for gap in 0, 0, 0.1, 0.2, 0.3, 0.45:
        for host in hosts[1], hosts[0]:
            guest.move(host)
            announce(guest)
            hold(gap)
        hold(1)
        wait_until(settled, 8, f"held by its host alone after gaps of {gap} s")


class Taken:
    """
    An address that a host on the fabric has, too, until it is given up.  It is added
    and deleted in no time, for which programs need seconds on slow machines.
    """

    def __init__(self, end, address):
        self.end, self.address = end, address
        self.rtnl = Rtnl(end.ns)
        defer(self.rtnl.close)
        self.rtnl.add_address(end.ifname, address)
        self.kept = defer(self.rtnl.delete_address, end.ifname, address)

    def give_up(self):
        self.kept.exec()


def disputed(pair, host, number):
    """A guest whose address a peer has; the guest, and that."""
    guest = host.guest(number, addresses=False)
    had = Taken(pair.b, guest.v4)
    ip(f"addr add {guest.v4}/24 dev {guest.ifname}", ns=guest.ns)

    def refusal():
        announce(guest)
        return status(host, guest.v4) == "refused"
    wait_until(refusal, 10, "a refusal")
    return guest, had


def test_refused_too_long():
    """An address is refused that a peer has, and no longer than it has it."""
    pair = ends()
    host = Ethernet(pair.a)
    guest, had = disputed(pair, host, 123)
    had.give_up()
    # The last look at it is 4 s after it was refused first.
    wait_until(lambda: status(host, guest.v4) == "held", 6, f"{guest.v4} is granted")
    ping_ok(pair.b.ns, guest.v4)


def test_refused_then_hosts():
    """One that was refused and is this host's now is never granted."""
    pair = ends()
    host = Ethernet(pair.a)
    with Tracer("eipoib:eipoib_guest") as trace:
        guest, had = disputed(pair, host, 125)
        Taken(pair.a, guest.v4)
        had.give_up()
        for _ in range(10):
            hold(0.5)
            announce(guest)
        ksft_not_in("held", became(trace, guest))


def granted_again(pair, host, number):
    """
    The states of an address that a peer has right after it was granted, and gives up at
    once; none if that took too long.
    """
    guest = host.guest(number, addresses=False)
    ip(f"addr add {guest.v4}/24 dev {guest.ifname}", ns=guest.ns)
    with Tracer("eipoib:eipoib_guest") as trace, \
            pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        announce(guest)
        begin = now()
        wait_until(lambda: "held" in became(trace, guest), 5, "a grant")
        had = Taken(pair.b, guest.v4)
        sock.bind((guest.v4, 0))
        # Whoever that is, it is asked for in the name of the guest.
        sock.sendto(b"", (pair.b.v4.rsplit(".", 1)[0] + ".250", 9))
        had.give_up()
        if now() - begin > 2.8:
            return []
        wait_until(lambda: became(trace, guest).count("held") > 1, 10,
                   f"{guest.v4} is granted again")
        return became(trace, guest)


def test_lost_to_an_old_answer():
    """
    A peer is believed that has the address right after it was granted, since its answer
    may have been late.  But the guest is not forgotten: it is asked whether it is here.
    """
    pair = ends()
    host = Ethernet(pair.a)
    for number in (124, 127, 128, 129):
        states = granted_again(pair, host, number)
        if states:
            break
    ksft_true(states, "the host was quick enough once")
    ksft_eq(states[states.index("held") + 1], "seen", states)
    ksft_not_in("none", states)


def test_clones():
    """
    Two guests of two hosts claim an address that a third one has: they are refused it,
    and when they say nothing more nor do their hosts, whose questions each other's guest
    answers.
    """
    pair = ends()
    third = name_of(2)
    ip(f"link set {third} up")
    hosts = [Ethernet(end) for end in pair]
    guests = [host.guest(126, addresses=False, name=f"clone{number}", mac=mac)
              for number, (host, mac) in enumerate(zip(hosts, ("02:00:00:00:01:26",
                                                               "02:00:00:00:02:26")))]
    address = guests[0].v4
    ip(f"addr add {address}/24 dev {third}")
    defer(ip, f"addr del {address}/24 dev {third}", fail=False)
    for guest in guests:
        ip(f"addr add {address}/24 dev {guest.ifname}", ns=guest.ns)
    for host, guest in zip(hosts, guests):
        announce(guest)
        wait_until(lambda h=host: status(h, address) == "refused", 10, "a refusal")
        hold(3)
    wait_until(lambda: not any(status(host, address) for host in hosts), 30,
               "no host knows of it any more")
    with Capture(pair.a, ARP) as capture:
        hold(3)
    ksft_eq([p for p in capture.packets if packed(address) in p.data], [],
            "questions about it")


@timeout(150)
def test_moves_contested():
    """A station that claims the address of one that moves away does not get it."""
    pair = ends()
    hosts = Ethernet(pair.a), Ethernet(pair.b)
    thief = hosts[0].guest(118)
    raw = Raw(thief)
    for number in (119, 120, 121):
        guest = hosts[0].guest(number)
        reach(guest, pair.b)
        own = Raw(guest)
        stop = threading.Event()

        def claim(address=guest.v4, stop=stop):
            while not stop.wait(0.03):
                raw.out(ARP, arp(raw.mac, address, pair.a.v4))
                raw.out(IPV4, ipv4(address, pair.b.v4, 17, bytes(8)),
                        bytes.fromhex("ee1b") + packed(pair.b.v4))

        thread = threading.Thread(target=claim)
        thread.start()
        try:
            hold(0.5)
            guest.move(hosts[1])
            own.out(ARP, arp(own.mac, guest.v4, guest.v4))
            hold(3)
            wait_until(lambda g=guest: ping(pair.a.ns, g.v4, limit=1), 10, "an answer")
            ksft_ge(ping(pair.a.ns, guest.v4, count=20, limit=slow(0.5), gap=0.1), 18)
        finally:
            stop.set()
            thread.join()
        reach(guest, pair.a)


@timeout(150)
def test_moves_silently():
    """One that says nothing and only receives: it is looked for, its stream goes on."""
    pair = ends()
    third = name_of(2)
    ip(f"addr add 10.0.0.3/24 dev {third}")
    defer(ip, f"addr del 10.0.0.3/24 dev {third}", fail=False)
    ip(f"link set {third} up")
    hosts = Ethernet(pair.a), Ethernet(pair.b)
    guest = hosts[0].guest(114)
    reach(guest, pair.b)
    streams = (Stream(None, guest, rate=1 << 20, src_ns=ROOT),
               Stream(pair.b, guest, rate=1 << 20))
    for number in (1, 0):
        for stream in streams:
            stream.wait_progress()
        guest.move(hosts[number])
        begin = time.monotonic()
        for stream in streams:
            stream.wait_progress(limit=30)
        ksft_pr(f"stood still for {time.monotonic() - begin:.1f} s")
        ksft_lt(time.monotonic() - begin, slow(20))
    for stream in streams:
        stream.finish()


@timeout(150)
def test_moves_cold():
    """
    One is shut down and comes up on another host, under traffic to it: it looks for
    duplicates of its addresses there, and its former host is none.
    """
    pair = ends()
    hosts = Ethernet(pair.a), Ethernet(pair.b)
    for number in (115, 116, 117):
        guest = hosts[0].guest(number)
        reach(guest, pair.b)
        with Flood(pair.b, guest.v4, gap=0.05), Flood(pair.b, guest.v6, gap=0.05):
            ip(f"link set {guest.ifname} down", ns=guest.ns)
            ip(f"addr flush dev {guest.ifname}", ns=guest.ns)
            # The former host asks it for its address before, and meanwhile.
            hold((number - 115) * 1.3)
            guest.move(hosts[1])
            ip(f"link set {guest.ifname} up", ns=guest.ns)
            ksft_false(duplicate(guest.ns, guest.ifname, guest.v4), guest.v4)
            ksft_false(dad_fails(guest.ns, guest.ifname, guest.v6), guest.v6)
        ip(f"addr add {guest.v4}/24 dev {guest.ifname}", ns=guest.ns)
        ip(f"addr add {guest.v6}/64 dev {guest.ifname} nodad", ns=guest.ns)
        for address in (pair.b.v4, pair.b.v6):
            wait_until(lambda a=address, g=guest: ping(g.ns, a, limit=1), 15, "an answer")


def test_loop():
    """Two bridges that are joined by a cable besides: no packet goes round."""
    pair = ends()
    one, two = Ethernet(pair.a), Ethernet(pair.b)
    guest = one.guest(110)
    reach(guest, pair.b)
    ip(f"link add cable type veth peer name cable netns {two.ns.name}", ns=one.ns)
    defer(ip, "link del cable", ns=one.ns, fail=False)
    for host in (one, two):
        ip(f"link set cable master {host.bridge} up", ns=host.ns)
    before = pair.a.stat("tx_packets")
    cmd(["ping", "-b", "-c", "20", "-i", "0.05", "10.0.0.255"], ns=guest.ns, fail=False)
    ping(guest.ns, "10.0.0.250", count=3, limit=1)
    time.sleep(2)
    ksft_le(pair.a.stat("tx_packets") - before, 400)
    ksft_ge(one.count("tx_loops") + two.count("tx_loops"), 1)
    ksft_true(one.carrier())


def test_vrrp():
    """Routers in guests speak for each other from their own addresses alone."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(122)
    reach(guest, pair.b)
    raw = Raw(guest)
    for source, strange, group, kind, packet, dst, mac in (
            (guest.v4, pair.b.v4, "224.0.0.18", IPV4, ipv4, "01005e000012",
             "00005e000107"),
            (guest.v6, pair.b.v6, "ff02::12", IPV6, ipv6, "333300000012",
             "00005e000207")):
        def send(address, source_mac, dst=dst, group=group, kind=kind, packet=packet):
            raw.out(kind, packet(address, group, 112, b"\x31" + bytes(7)),
                    bytes.fromhex(dst), source_mac)

        def came(packets, address, group=group):
            wanted = packed(address) + packed(group)
            return [p for p in packets.packets if wanted in p.data]
        with mcast_receiver(pair.b, group), Capture(pair.b) as packets:
            wait_until(lambda s=send, a=source, m=mac, c=came, p=packets:
                       (s(a, bytes.fromhex(m)), c(p, a))[1], 10, "an advertisement")
            before = host.count("tx_refused") + host.count("tx_unconfirmed")
            send(strange, bytes.fromhex(mac))
            send(strange, raw.mac)
            wait_until(lambda n=before: host.count("tx_refused") +
                       host.count("tx_unconfirmed") > n, 10, "a refusal")
            hold(1)
            ksft_eq(came(packets, strange), [])
