# SPDX-License-Identifier: GPL-2.0-only
"""
Programs for DHCP that do not work with InfiniBand, as the guide says: the cases fail
when that changes.  Clients that do are in users_nm and users_networkd.
"""

from lib import cmd, ip, ksft_in, ksft_ne, slow, timeout
from lib.users import dnsmasq, file, name_of, peer

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 90}
GROUPS = ("users",)


def host():
    """A host that is up without an address, and a peer with a DHCP server."""
    there, here = peer(), name_of(0)
    dnsmasq(there)
    ip(f"link set {here} up")
    return here


@timeout(120)
def test_udhcpc():
    """
    busybox's client gives the kernel too short an address to broadcast to, and
    gets no lease, whoever drives InfiniBand.
    """
    here = host()
    done = cmd(["busybox", "udhcpc", "-i", here, "-n", "-q", "-f", "-s",
                "/bin/true"], fail=False, timeout=slow(40))
    ksft_ne(done.ret, 0)
    ksft_in("sendto: Invalid argument", done.stdout + done.stderr)


@timeout(120)
def test_dhclient():
    """ISC's client refuses InfiniBand, whoever drives it."""
    here = host()
    done = cmd(["dhclient", "-1", "-d", here], fail=False, timeout=slow(40))
    ksft_ne(done.ret, 0)
    ksft_in("Unsupported device type 32", done.stdout + done.stderr)


@timeout(120)
def test_dhcpd():
    """And so does its server."""
    there = peer()
    file("/etc/dhcp/dhcpd.conf", "subnet 10.0.0.0 netmask 255.255.255.0 {\n"
         "range 10.0.0.100 10.0.0.120;\n}\n")
    file("/run/dhcpd.leases", "")
    done = cmd(["dhcpd", "-d", "-f", "-4", "-cf", "/etc/dhcp/dhcpd.conf", "-lf",
                "/run/dhcpd.leases", there.ifname], ns=there.ns, fail=False,
               timeout=slow(40))
    ksft_ne(done.ret, 0)
    ksft_in("Unsupported device type 32", done.stdout + done.stderr)
