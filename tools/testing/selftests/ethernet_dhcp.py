# SPDX-License-Identifier: GPL-2.0-only
"""DHCP of guests: real clients and servers, on both sides."""

import ipaddress

from lib import (cmd, defer, ends, ip, ksft_eq, ksft_in, ksft_true, ping_ok, slow,
                 timeout, wait_until)
from lib.ethernet import Ethernet, Itself, reach
from lib.netns import ROOT
from lib.users import addresses, answers, dnsmasq, file, name_of
from ethernet_hostile import counted
from ethernet_netlink import behind, give
from users_networkd import network, networkd
from users_nm import profile, running, up

BOOT = {"hcas": 3, "image": True, "mem": 1536, "needs": "ethernet iproute2", "seconds": 150}
GROUPS = ("ethernet",)

SCRIPT = "/run/dhcp.script"
CONFIG = "/run/dhcpd.conf"
LEASES = "/run/dhcpd.leases"


def script():
    """What a client runs when it has an address."""
    file(SCRIPT, """#!/bin/sh
case "$reason$1" in
BOUND|REBOOT|bound) ip addr add "$new_ip_address$ip/24" dev "$interface" ;;
esac
exit 0
""", 0o755)


def dhclient(guest):
    """ISC's client"""
    cmd(["sh", "-c", f"dhclient -1 -v -sf {SCRIPT} -lf /run/{guest.name}.leases "
         f"-pf /run/{guest.name}.pid {guest.ifname} >/run/{guest.name}.log 2>&1"],
        ns=guest.ns, timeout=slow(30))
    defer(cmd, f"kill $(cat /run/{guest.name}.pid)", fail=False)


def udhcpc(guest):
    """busybox's"""
    cmd(["busybox", "udhcpc", "-i", guest.ifname, "-n", "-q", "-f", "-s", SCRIPT],
        ns=guest.ns, timeout=slow(30))


def address(guest):
    """The address that it got."""
    found = ip(f"-4 addr show dev {guest.ifname} scope global", ns=guest.ns,
               json_out=True)
    got = [entry["local"] for entry in found[0]["addr_info"]]
    ksft_eq(len(got), 1)
    return got[0]


@timeout(150)
def test_clients():
    """Guests get addresses of a server on a plain peer."""
    pair = ends()
    host = Ethernet(pair.a)
    dnsmasq(pair.b)
    script()
    for number, client in enumerate((dhclient, udhcpc), 1):
        guest = host.guest(number, addresses=False)
        client(guest)
        ksft_in(".0.0.", address(guest))
        ping_ok(guest.ns, pair.b.v4)


def dhcpd(server):
    """ISC's server, which refuses InfiniBand, in a guest; what it gives begins so."""
    file(CONFIG, "subnet 10.0.0.0 netmask 255.255.255.0 {\n"
         "range 10.0.0.150 10.0.0.180;\n}\n")
    file(LEASES, "")
    cmd(["dhcpd", "-4", "-cf", CONFIG, "-lf", LEASES, "-pf", "/run/dhcpd.pid",
         server.ifname], ns=server.ns, timeout=slow(20))
    defer(cmd, "kill $(cat /run/dhcpd.pid)", fail=False)
    return {f"10.0.0.{last}" for last in range(150, 181)}


@timeout(150)
def test_server():
    """And of ISC's server in a guest of another host."""
    pair = ends()
    one, two = Ethernet(pair.a), Ethernet(pair.b)
    script()
    server = one.guest(20)
    pool = dhcpd(server)
    for number, client in enumerate((dhclient, udhcpc), 21):
        guest = two.guest(number, addresses=False)
        client(guest)
        ksft_in(address(guest), pool)
        ping_ok(guest.ns, server.v4)


@timeout(150)
def test_relay():
    """A guest relays requests of a network that is reached by way of it."""
    pair = ends()
    host = Ethernet(pair.a)
    relay = host.guest(41)
    reach(relay, pair.b)
    space, _ = behind(relay, ["10.77.1.0/24"], 1)
    ip(f"route add 10.77.1.0/24 via {relay.v4}", ns=pair.b.ns)
    defer(ip, "route del 10.77.1.0/24", ns=pair.b.ns)
    ip("addr flush dev eth0", ns=space)
    dnsmasq(pair.b, "--no-ping", "--dhcp-range=10.77.1.50,10.77.1.60,255.255.255.0,1h")
    cmd(["dnsmasq", "--port=0", "--conf-file=/dev/null", "--leasefile-ro",
         "--pid-file=/run/dnsmasq.relay", f"--dhcp-relay=10.77.1.1,{pair.b.v4}"],
        ns=relay.ns)
    defer(cmd, "kill $(cat /run/dnsmasq.relay)", fail=False)
    script()
    client = ["busybox", "udhcpc", "-i", "eth0", "-n", "-q", "-f", "-s", SCRIPT,
              "-t", "3", "-T", "1"]
    # Not while anybody may have such a network
    counted(host, "tx_refused", lambda: cmd(client, ns=space, timeout=slow(30),
                                            fail=False))
    give(host, ipaddress.ip_network("10.77.1.0/24"),
         relay.octets())
    cmd(client, ns=space, timeout=slow(30))
    ip("route add default via 10.77.1.1", ns=space)
    ping_ok(space, pair.b.v4)


def leased(name, pool, server):
    """An interface has an address of the pool, and the server answers to it."""
    wait_until(lambda: addresses(name), 40, f"a lease for {name}")
    ksft_true(addresses(name) <= pool, addresses(name))
    answers(server.v4)
    ip(f"addr flush dev {name}")


def managers(name, kind, pool, server):
    """Clients of networkd and of NetworkManager get an address of a server."""
    stop = networkd(dhcp_network=network(name, "DHCP=ipv4"))
    leased(name, pool, server)
    stop.exec()
    running()
    wait_until(lambda: cmd(["nmcli", "device", "set", name, "managed", "yes"],
                           timeout=slow(30), fail=False).ret == 0, 30,
               f"NetworkManager, which sees {name}")
    up(profile("dhcp", name, "ipv4.method", "auto", "ipv6.method", "disabled",
               kind=kind))
    leased(name, pool, server)


@timeout(200)
def test_managed_guest():
    """networkd and NetworkManager in a guest, the server on a plain peer."""
    pair = ends()
    pool = dnsmasq(pair.b)
    # Or the machine's third HCA, which NetworkManager brings up, answers for it.
    ROOT.sysctl("net.ipv4.conf.all.arp_ignore", 1)
    defer(ROOT.sysctl, "net.ipv4.conf.all.arp_ignore", 0)
    guest = Ethernet(pair.a).guest(30, kind=Itself, addresses=False)
    managers(guest.ifname, "ethernet", pool, pair.b)


@timeout(200)
def test_managed_peer():
    """They are plain peers, and a guest has the server, which refuses InfiniBand."""
    server = Ethernet(ends().a).guest(31)
    managers(name_of(2), "infiniband", dhcpd(server), server)
