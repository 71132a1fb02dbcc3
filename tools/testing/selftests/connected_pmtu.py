# SPDX-License-Identifier: GPL-2.0-only
"""What is too long for a neighbour or a group: senders are told, and adapt."""

import re
import socket

from lib import (Netns, UdpSink, defer, ends, ip, ksft_eq, ksft_gt, ksft_in,
                 ksft_le, mcast_receiver, mcast_sender, neigh_flush, ping,
                 ping_ok, slow, tcp_transfer, timeout, wait_until)
from lib.connected import (MTU, counter, established, set_mode, to_datagram,
                           wait_connected)
from lib.traffic import IP_MTU_DISCOVER, IP_PMTUDISC_DO, _addr, datagram

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}
VERBS_ONLY = "connected mode"

MIB = 1 << 20


def mixed():
    """Host a in connected mode, b in datagram mode, nothing learned yet."""
    pair = ends()
    defer(to_datagram, pair.a)
    set_mode(pair.a, "connected")
    for end in pair:
        neigh_flush(end)
        forget(end)
    pair.wait_ping()
    return pair


def forget(end):
    """Drop learned MTUs, now and at the end."""
    for family in ("-4", "-6"):
        ip([family, "route", "flush", "cache"], ns=end.ns, fail=False)


def learned(end, address):
    """The MTU that the route has learned, or None."""
    text = ip(["route", "get", address], ns=end.ns).stdout
    found = re.search(r"\bmtu (\d+)", text)
    return int(found.group(1)) if found else None


def refused(src, address, size):
    """Does an echo that must not be fragmented end with EMSGSIZE?"""
    try:
        ping(src.ns, address, size=size, limit=0.3, df=True)
    except OSError as error:
        return error.errno == 90
    return False


def test_ipv4():
    """A long packet that must not be cut: refused, the route learns why."""
    pair = mixed()
    link = pair.b.mtu()
    ksft_eq(pair.a.mtu(), MTU)
    before = counter(pair.a, "pmtu_signalled")
    wait_until(lambda: refused(pair.a, pair.b.v4, 30000), 10, "EMSGSIZE")
    ksft_gt(counter(pair.a, "pmtu_signalled"), before)
    ksft_eq(learned(pair.a, pair.b.v4), link)
    ping_ok(pair.a.ns, pair.b.v4, size=link - 28, df=True, limit=slow(2))


def test_ipv6():
    """The same in IPv6."""
    pair = mixed()
    link = pair.b.mtu()
    wait_until(lambda: refused(pair.a, pair.b.v6, 30000), 10, "EMSGSIZE")
    ksft_eq(learned(pair.a, pair.b.v6), link)
    ping_ok(pair.a.ns, pair.b.v6, size=link - 48, df=True, limit=slow(2))


def test_fragments():
    """What may be cut is cut, after the first."""
    pair = mixed()
    for address in (pair.b.v4, pair.b.v6):
        wait_until(lambda a=address: ping(pair.a.ns, a, size=30000, limit=1),
                   15, f"{address}: a long echo in pieces")
        ping_ok(pair.a.ns, address, size=30000, count=3, limit=slow(2))


@timeout(90)
def test_tcp():
    """TCP finds out and goes on, both ways."""
    pair = mixed()
    for address in (pair.b.v4, pair.b.v6):
        tcp_transfer(pair.a, pair.b, 2 * MIB, address=address)
    tcp_transfer(pair.b, pair.a, 2 * MIB)
    tcp_transfer(pair.b, pair.a, 2 * MIB, address=pair.a.v6)


def test_udp():
    """A UDP socket learns its path's MTU."""
    pair = mixed()
    link = pair.b.mtu()
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        sock.connect(_addr(pair.b.v4, sink.port))

        def told():
            try:
                sock.send(datagram(0, 20000))
            except OSError as error:
                return error.errno == 90
            return False

        wait_until(told, 10, "EMSGSIZE")
        ksft_eq(sock.getsockopt(socket.IPPROTO_IP, 14), link, "IP_MTU")
        # Errors of what was sent before may still be reported.
        wait_until(lambda: sock.send(datagram(1, link - 28)), 5, "a datagram")
        ksft_eq(sink.collect(1, slow(2)), 1)


def test_multicast():
    """Long datagrams to a group are cut for the link."""
    pair = mixed()
    # Where there is no route, there is nothing to learn.
    ip(["route", "add", "239.0.0.0/8", "dev", pair.a.ifname], ns=pair.a.ns)
    defer(ip, ["route", "del", "239.0.0.0/8", "dev", pair.a.ifname],
          ns=pair.a.ns, fail=False)
    for group in ("239.8.0.1", "ff05::8:1"):
        with mcast_receiver(pair.b, group) as sink, \
                mcast_sender(pair.a, group) as sock:
            def flows(sink=sink, sock=sock, group=group):
                sock.sendto(datagram(1, 9000), (group, sink.port))
                return sink.drain()

            wait_until(flows, 15, f"9000 bytes to {group}", interval=0.3)


def test_connection_of_less():
    """A peer whose messages are shorter than ours is told apart."""
    pair = ends()
    for end in pair:
        defer(to_datagram, end)
        set_mode(end, "connected")
    pair.b.set_mtu(9000)
    defer(pair.b.set_mtu, pair.b.default_mtu, fail=False)
    pair.wait_ping()
    wait_connected(pair.b, pair.a)
    # The MTU of the interface limits what it sends, not what it takes.
    ping_ok(pair.a.ns, pair.b.v4, size=20000, limit=slow(2))
    ksft_le(pair.b.mtu(), 9000)


def test_after_switch():
    """The peer leaves connected mode: what was too long is signalled."""
    pair = ends()
    for end in pair:
        defer(to_datagram, end)
        set_mode(end, "connected")
        forget(end)
    pair.wait_ping()
    wait_connected(pair.a, pair.b)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, df=True, limit=slow(2))
    set_mode(pair.b, "datagram")
    wait_until(lambda: refused(pair.a, pair.b.v4, 30000), 20, "EMSGSIZE")
    ksft_eq(learned(pair.a, pair.b.v4), pair.b.mtu())
    ksft_eq(established(pair.a, "us"), [])


@timeout(60)
def test_forwarded():
    """Another host, whose packets are forwarded, is told by ICMP."""
    pair = mixed()
    link = pair.b.mtu()
    host = Netns("h9")
    host.add()
    defer(host.delete)
    ip(["link", "add", "veth9", "type", "veth", "peer", "name", "up9",
        "netns", pair.a.name], ns=host)
    ip(["link", "set", "veth9", "mtu", str(MTU), "up"], ns=host)
    ip(["link", "set", "up9", "mtu", str(MTU), "up"], ns=pair.a.ns)
    for space, dev, v4, v6 in ((host, "veth9", "10.9.9.2", "fd99::2"),
                               (pair.a.ns, "up9", "10.9.9.1", "fd99::1")):
        ip(["addr", "add", f"{v4}/24", "dev", dev], ns=space)
        ip(["addr", "add", f"{v6}/64", "dev", dev, "nodad"], ns=space)
    ip(["route", "add", "default", "via", "10.9.9.1"], ns=host)
    ip(["-6", "route", "add", "default", "via", "fd99::1"], ns=host)
    ip(["route", "add", "10.9.9.0/24", "via", pair.a.v4], ns=pair.b.ns)
    defer(ip, ["route", "del", "10.9.9.0/24"], ns=pair.b.ns, fail=False)
    ip(["-6", "route", "add", "fd99::/64", "via", pair.a.v6], ns=pair.b.ns)
    defer(ip, ["-6", "route", "del", "fd99::/64"], ns=pair.b.ns, fail=False)
    pair.a.ns.cmd(["sysctl", "-qw", "net.ipv4.ip_forward=1",
                   "net.ipv6.conf.all.forwarding=1"])

    class There:
        """Just enough of an End."""
        ns = host

    for address in (pair.b.v4, pair.b.v6):
        wait_until(lambda a=address: ping(host, a, limit=0.5), 10,
                   f"{address} from the host behind")
        wait_until(lambda a=address: refused(There, a, 30000), 10,
                   f"{address}: told by ICMP")
        text = ip(["route", "get", address], ns=host).stdout
        ksft_in(f"mtu {link}", text)
