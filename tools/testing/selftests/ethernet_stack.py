# SPDX-License-Identifier: GPL-2.0-only
"""What is put on top of eth_ipoib, and below it: the stack's own means."""

import ipaddress
import os
import socket
import struct
import threading

from lib import (Netns, Stream, cmd, defer, ends, ip, ksft_eq, ksft_false,
                 ksft_gt, ksft_lt, ksft_true, need_modules, ping, ping_ok, port,
                 slow, tcp_transfer, timeout, udp_exchange, wait_until)
from lib.child import child_by_ip
from lib.ethernet import Ethernet, load, peer_mac, reach, resolved, sees_host
from lib.genl import ethernet
from lib.ipoib import End, iface_of
from lib.tap import Machine, Macvlan, Macvtap, queue
import offload_traffic
from ethernet_netlink import give
from offload_traffic import Two

BOOT = {"hcas": 4, "needs": "ethernet iproute2", "seconds": 200, "mem": 1536,
        "partitions": "Default=0x7fff, ipoib, defmember=full : ALL=full;\n"
                      "one=0x8001, ipoib : ALL=full;\ntwo=0x8002, ipoib : ALL=full;\n"}

MIB = 1 << 20
ETH_P_ALL = 3


def exchange(src, dst):
    """Streams and datagrams, in both families and directions."""
    for one, other in ((src, dst), (dst, src)):
        reach(one, other)
        for address in (other.v4, other.v6):
            tcp_transfer(one, other, MIB, address=address)
        got = udp_exchange(one, other, 20, 1400)
        ksft_eq((len(got.seen), got.bad), (20, 0))


@timeout(120)
def test_macvlan():
    """Containers with a macvlan each: with a peer, each other, a guest elsewhere."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    one, two = (host.guest(number, kind=Macvlan) for number in (11, 12))
    far = Ethernet(pair.b).guest(13)
    for src, dst in ((one, pair.b), (one, two), (two, far)):
        exchange(src, dst)
    if sees_host():
        exchange(one, pair.a)


@timeout(120)
def test_machine():
    """A machine behind a tap: its long and unfinished packets are finished."""
    pair = ends()
    one = Ethernet(pair.a).guest(14, kind=Machine)
    two = Ethernet(pair.b).guest(15, kind=Machine)
    exchange(one, pair.b)
    exchange(one, two)
    # Else it was no test of that.
    ksft_gt(one.relay.long[0], 10)
    ksft_eq(resolved(one, two.v4), peer_mac(two.v4))


@timeout(120)
def test_macvtap():
    """The same behind a macvtap on the interface itself."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    one = host.guest(16, kind=Macvtap)
    exchange(one, pair.b)
    ksft_gt(one.relay.long[0], 10)
    if sees_host():
        exchange(one, pair.a)


@timeout(150)
def test_offloads():
    """What programs of guests leave to be finished, without a bridge in between."""
    pair = ends()
    one = Ethernet(pair.a, bridge=None).guest(17, kind=Macvlan)
    two = Ethernet(pair.b, bridge=None).guest(18, kind=Macvlan)
    reach(one, two)
    for both in (Two(one, two), Two(one, pair.b), Two(pair.b, one)):
        for address in (both.b.v4, both.b.v6):
            offload_traffic.check_segments(both, address, 1000, count=60)
        offload_traffic.zerocopy(both)
        offload_traffic.sendfile(both)
        offload_traffic.extension_headers(both)


@timeout(150)
def test_tunnels():
    """Tunnels of guests."""
    pair = ends()
    one, two = Ethernet(pair.a).guest(19), Ethernet(pair.b).guest(20)
    both = Two(one, two)
    reach(one, two)
    for kind, words in (("gre", ""), ("vxlan", "id 7 dstport 4789")):
        offload_traffic.tunnel(both, kind, words)
        offload_traffic.tunnelled(both)
        for end in both.a, both.b:
            ip("link del tun7", ns=end.ns)


def test_forwarded():
    """A guest is the router of others, whose prefixes it was given: with offloads on."""
    pair = ends()
    host = Ethernet(pair.a)
    router = host.guest(21)
    reach(router, pair.b)
    mac = router.octets()
    for network in ("10.77.0.0/24", "fd77::/64"):
        give(host, ipaddress.ip_network(network), mac)
    far = offload_traffic.Behind(Two(pair.b, router))
    offload_traffic.forwarded(Two(pair.b, None), far)


def vlan_bridge(host, ports):
    """The guide's bridge: the interface of a partition is a port of its VLAN."""
    ip("link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0 "
       "stp_state 0 forward_delay 0", ns=host.ns)
    defer(ip, "link del br0", ns=host.ns, fail=False)
    for vlan, name in ports.items():
        ip(f"link set {name} master br0", ns=host.ns)
        cmd(f"bridge vlan add dev {name} vid {vlan} pvid untagged", ns=host.ns)
        ip(f"link set {name} up", ns=host.ns)
    ip("link set br0 up", ns=host.ns)


def veth(space, host, name):
    """A guest's cable to the bridge."""
    ip(f"link add eth0 type veth peer name {name} netns {host.ns.name}", ns=space)
    ip(f"link set {name} master br0 up", ns=host.ns)
    ip("link set eth0 up", ns=space)


@timeout(120)
def test_vlans():
    """VLANs of a bridge are partitions; guests with and without tags."""
    pair = ends()
    load()
    kids, ports = {}, {}
    for vlan, pkey in ((11, 0x8001), (12, 0x8002)):
        kids[vlan] = child_by_ip(pair.b, pkey)
        below = child_by_ip(pair.a, pkey)
        ip(f"link set {below.ifname} up", ns=pair.a.ns)
        ports[vlan] = f"eib{vlan}"
        ip(f"link add link {below.ifname} name eib{vlan} type eipoib", ns=pair.a.ns)
        defer(ip, f"link del eib{vlan}", ns=pair.a.ns, fail=False)
        ip(f"addr add 10.9.{vlan}.2/24 dev {kids[vlan].ifname}", ns=pair.b.ns)
        ip(f"link set {kids[vlan].ifname} up", ns=pair.b.ns)
    vlan_bridge(pair.a, ports)
    plain, tagged = (Netns(name).add() for name in ("plain", "tagged"))
    for space in (plain, tagged):
        defer(space.delete)
        space.sysctl("net.ipv4.ping_group_range", "0 2147483647")
    veth(plain, pair.a, "vp")
    cmd("bridge vlan add dev vp vid 11 pvid untagged", ns=pair.a.ns)
    ip("addr add 10.9.11.5/24 dev eth0", ns=plain)
    veth(tagged, pair.a, "vt")
    for vlan in (11, 12):
        cmd(f"bridge vlan add dev vt vid {vlan}", ns=pair.a.ns)
        ip(f"link add link eth0 name eth0.{vlan} type vlan id {vlan}", ns=tagged)
        ip(f"addr add 10.9.{vlan}.6/24 dev eth0.{vlan}", ns=tagged)
        ip(f"link set eth0.{vlan} up", ns=tagged)
    for space, vlan in ((plain, 11), (tagged, 11), (tagged, 12)):
        wait_until(lambda s=space, v=vlan: ping(s, f"10.9.{v}.2", limit=1), 15,
                   f"an answer in VLAN {vlan}")
    ping_ok(plain, "10.9.11.6")
    # Nobody gets from one partition to another.
    ip("addr add 10.9.12.5/24 dev eth0", ns=plain)
    ksft_eq(ping(plain, "10.9.12.2", count=2, limit=slow(0.5)), 0)
    # A tag that the bridge has not removed goes nowhere, and is counted.
    cmd("bridge vlan add dev eib11 vid 11 pvid", ns=pair.a.ns)
    before = int(ethtool_count(pair.a.ns, "eib11", "tx_bad_protocol"))
    ksft_eq(ping(plain, "10.9.11.2", count=2, limit=slow(0.5)), 0)
    ksft_gt(int(ethtool_count(pair.a.ns, "eib11", "tx_bad_protocol")), before)


def ethtool_count(space, name, count):
    for line in cmd(["ethtool", "-S", name], ns=space).stdout.splitlines():
        if line.strip().startswith(f"{count}: "):
            return line.split(": ")[1]
    return "0"


@timeout(150)
def test_bond():
    """On a bond of two ports: when one loses its cable, guests are found by the other."""
    need_modules("bonding max_bonds=0")
    pair = ends()
    space = Netns("bonded").add()
    defer(space.delete)
    ends_of = [End("bonded", port(number), number, 0) for number in (2, 3)]
    ip("link add bond0 type bond mode active-backup miimon 50 fail_over_mac active",
       ns=space)
    names = []
    for end in ends_of:
        where, name = wait_until(lambda e=end: iface_of(e.port), 20, "an interface")
        ip(f"link set {name} down", ns=where)
        if where.name != space.name:
            ip(f"link set {name} netns {space.name}", ns=where)
        ip(f"link set {name} master bond0", ns=space)
        names.append(name)
    ip("link set bond0 up", ns=space)
    below = BondEnd(space, "bond0")
    wait_until(below.carrier, 20, "a carrier of the bond")
    host = Ethernet(below)
    guest = host.guest(31)
    reach(guest, pair.a)
    stream = Stream(guest, pair.a, rate=MIB)
    stream.wait_progress()
    for number in (2, 3):
        port(number).link(False)
        again = defer(port(number).link, True)
        ksft_lt(stream.wait_progress(limit=20), slow(10))
        reach(pair.a, guest)
        again.exec()
        port(number).wait_active()
    stream.finish()
    ip(f"link del {host.ifname}", ns=space)


class BondEnd:
    """A bond as what is below."""

    v4, v6 = "10.0.0.30", "fd00::30"

    def __init__(self, space, name):
        self.ns, self.ifname = space, name

    def carrier(self):
        return "LOWER_UP" in self.ns.link(self.ifname)["flags"]

    def mtu(self):
        return self.ns.link(self.ifname)["mtu"]


# ---- many guests ------------------------------------------------------------------


class Stations:
    """Many stations behind one tap: each answers for its address, and echoes."""

    def __init__(self, host, count, net="10.0"):
        need_modules("tun")
        self.addresses = {}
        for number in range(count):
            self.addresses[socket.inet_aton(f"{net}.{1 + number // 200}."
                                            f"{1 + number % 200}")] = \
                struct.pack("!HI", 0x0205, number)
        with host.ns.inside():
            self.file = queue("/dev/net/tun", "vmany")
        ip(f"link set vmany master {host.bridge} up", ns=host.ns)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.header = bytes(10)
        defer(os.close, self.file)

    def run(self):
        while True:
            try:
                data = os.read(self.file, 70000)
                answer = self.answer(data[10:])
                if answer:
                    os.write(self.file, self.header + answer)
            except OSError:
                return

    def answer(self, frame):
        """The answer to a frame, or nothing."""
        kind = frame[12:14]
        if kind == b"\x08\x06" and frame[20:22] == b"\0\1":
            mac = self.addresses.get(frame[38:42])
            return mac and frame[6:12] + mac + frame[12:20] + b"\0\2" + mac + \
                frame[38:42] + frame[22:32]
        if kind == b"\x08\0" and frame[23] == 1 and frame[34] == 8:
            mac = self.addresses.get(frame[30:34])
            if mac != frame[:6]:
                return None
            icmp = b"\0\0\0\0" + frame[38:]
            total = sum(struct.unpack(f"!{len(icmp) // 2}H", icmp[:len(icmp) & ~1]))
            if len(icmp) & 1:
                total += icmp[-1] << 8
            total = (total & 0xffff) + (total >> 16)
            total = ~((total & 0xffff) + (total >> 16)) & 0xffff
            return frame[6:12] + mac + frame[12:26] + frame[30:34] + frame[26:30] + \
                icmp[:2] + struct.pack("!H", total) + icmp[4:]
        return None


@timeout(150)
def test_many_guests():
    """200 guests are found, and each one is told from the others."""
    pair = ends()
    host = Ethernet(pair.a)
    many = Stations(host, 200)
    ip("route add 10.0.0.0/16 dev " + pair.b.ifname, ns=pair.b.ns)
    defer(ip, "route del 10.0.0.0/16 dev " + pair.b.ifname, ns=pair.b.ns)
    for address in many.addresses:
        wait_until(lambda a=address: ping(pair.b.ns, socket.inet_ntoa(a), limit=1),
                   15, f"an answer of {socket.inet_ntoa(address)}")
    found = {each["address"]: each for each in
             ethernet(host).get("guest-get", host.ifindex())}
    for address, mac in many.addresses.items():
        ksft_eq(found[socket.inet_ntoa(address)]["mac"], mac.hex(":"))
    ksft_eq(host.count("tx_guests_full"), 0)


# ---- who has it? ----------------------------------------------------------------------


def duplicate(space, name, address):
    """Does arping(8) find somebody who has an address?"""
    return cmd(["arping", "-D", "-c", "3", "-w", "3", "-I", name, address], ns=space,
               fail=False, timeout=slow(15)).ret != 0


def dad_fails(space, name, address):
    """Does IPv6 find out that somebody has it?"""
    for word, value in (("accept_dad", 1), ("dad_transmits", 1)):
        space.sysctl(f"net.ipv6.conf.{name}.{word}", value)
    ip(f"addr add {address}/64 dev {name}", ns=space)

    def state():
        found = ip(f"addr show dev {name} to {address}", ns=space,
                   json_out=True)
        info = [entry for each in found for entry in each.get("addr_info", ())]
        return info and not (info[0].get("tentative") and
                             not info[0].get("dadfailed")) and info[0]
    found = wait_until(state, 10, "the end of duplicate address detection")
    ip(f"addr del {address}/64 dev {name}", ns=space)
    return bool(found.get("dadfailed"))


@timeout(150)
def test_duplicates():
    """Guests and peers find out that somebody on the other side has an address."""
    pair = ends()
    one = Ethernet(pair.a).guest(41)
    two = Ethernet(pair.b).guest(42)
    reach(one, two)
    reach(one, pair.b)
    for src, dst in ((one, pair.b), (one, two), (pair.b, one), (pair.a, two)):
        ksft_true(duplicate(src.ns, src.ifname, dst.v4), f"{src} asks for {dst.v4}")
        ksft_true(dad_fails(src.ns, src.ifname, dst.v6), f"{src} asks for {dst.v6}")
    for src in (one, pair.b):
        ksft_false(duplicate(src.ns, src.ifname, "10.0.0.222"))
        ksft_false(dad_fails(src.ns, src.ifname, "fd00::222"))
    for src, dst in ((one, pair.b), (two, one), (pair.b, one)):
        reach(src, dst)
