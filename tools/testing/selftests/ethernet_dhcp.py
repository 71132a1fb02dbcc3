# SPDX-License-Identifier: GPL-2.0-only
"""DHCP of guests: real clients and servers, on both sides."""

from lib import cmd, defer, ends, ip, ksft_eq, ksft_in, ping_ok, slow, timeout
from lib.ethernet import Ethernet
from lib.users import dnsmasq, file

BOOT = {"hcas": 3, "image": True, "mem": 1536, "needs": "ethernet iproute2", "seconds": 120}
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


@timeout(150)
def test_server():
    """And of ISC's server in a guest of another host, which refuses InfiniBand."""
    pair = ends()
    one, two = Ethernet(pair.a), Ethernet(pair.b)
    script()
    server = one.guest(20)
    file(CONFIG, "subnet 10.0.0.0 netmask 255.255.255.0 {\n"
         "range 10.0.0.100 10.0.0.120;\n}\n")
    file(LEASES, "")
    cmd(["dhcpd", "-4", "-cf", CONFIG, "-lf", LEASES, "-pf", "/run/dhcpd.pid",
         server.ifname], ns=server.ns, timeout=slow(20))
    defer(cmd, "kill $(cat /run/dhcpd.pid)", fail=False)
    for number, client in enumerate((dhclient, udhcpc), 21):
        guest = two.guest(number, addresses=False)
        client(guest)
        ksft_in("10.0.0.1", address(guest))
        ping_ok(guest.ns, server.v4)
