# SPDX-License-Identifier: GPL-2.0-only
"""systemd-networkd and udev: addresses, modes, children, DHCP, names."""

import re

from lib import (cmd, defer, hca, ip, ksft_eq, ksft_true, port, read,
                 slow, timeout, wait_until)
from lib.child import child_by_ip
from lib.users import (CHILD_V4, V4, V6, addresses, answers, dnsmasq, file, kind,
                       link, name_of, peer, recipe, restarted)

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 150}
GROUPS = ("users",)

NETWORK = "/etc/systemd/network"


def networkd(**files):
    """
    networkd with files of those names until the end of the case; what it has made
    goes with it.
    """
    for name, text in files.items():
        file(f"{NETWORK}/{name.replace('_', '.')}", text)
    # Its socket would start it again as soon as a link changes.
    stop = defer(cmd, "systemctl stop systemd-networkd.socket systemd-networkd; "
                 f"ip addr flush dev {name_of(0)} scope global", fail=False,
                 timeout=slow(60))
    cmd(["systemctl", "restart", "systemd-networkd"], timeout=slow(60))
    return stop


def network(name, *lines):
    """The text of a .network file."""
    return f"[Match]\nName={name}\n\n[Network]\nLinkLocalAddressing=ipv6\n" + \
        "\n".join(lines) + "\n"


def wait_addresses(name, wanted):
    """Those and no other ones, on an interface that is configured."""
    wait_until(lambda: addresses(name) == wanted, 40, f"addresses of {name}")


@timeout(200)
def test_static():
    """Static addresses and an MTU."""
    there, here = peer(), name_of(0)
    networkd(ib_network=network(here, f"Address={V4}/24", f"Address={V6}/64",
                                "[Link]", "MTUBytes=1500"))
    wait_addresses(here, {V4, V6})
    answers(there.v4)
    answers(there.v6)
    wait_until(lambda: kind(here)[2] == 1500, 10, "the MTU")


@timeout(200)
def test_child():
    """A child by [NetDev] Kind=ipoib, in the mode and partition of [IPoIB]."""
    there, here = peer(), name_of(0)
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    for mode in ("datagram", "connected"):
        stop = networkd(
            child_netdev=recipe("10-ibchild.netdev", {"connected": mode}),
            ib_network=recipe("20-ib0.network", {"ib0": here}),
            child_network=recipe("30-ibchild.network"))
        wait_until(lambda: link("ibchild"), 30, "a child")
        removed = defer(ip, "link del ibchild", fail=False)
        wait_addresses("ibchild", {CHILD_V4})
        ksft_eq(kind("ibchild")[:2], (0x8001, mode))
        answers(other.v4)
        answers(there.v4)
        stop.exec()
        removed.exec()


@timeout(200)
def test_dhcp():
    """Its own DHCP client."""
    there, here = peer(), name_of(0)
    pool = dnsmasq(there)
    networkd(ib_network=network(here, "DHCP=ipv4"))
    wait_until(lambda: addresses(here), 40, "a lease")
    ksft_true(addresses(here) <= pool, addresses(here))
    answers(there.v4)


@timeout(200)
def test_restarted():
    """networkd is restarted: addresses and a stream stay."""
    there, here = peer(), name_of(0)
    networkd(ib_network=network(here, f"Address={V4}/24", f"Address={V6}/64"))
    wait_addresses(here, {V4, V6})
    restarted("systemd-networkd", there, here, lambda: "configured" in cmd(
        ["networkctl", "status", here]).stdout)


def replugged(number):
    """An HCA goes and comes back; its interface's name."""
    hca(number).unplug()
    hca(number).plug()
    port(number).wait_active()
    cmd(["udevadm", "settle"], timeout=slow(30))
    return name_of(number)


@timeout(200)
def test_names():
    """Names by rdma-core's rules, and by a .link file."""
    tail = port(2).guid().to_bytes(8, "big").hex(":")
    # rdma-core's example, with this port in the place of its own
    example = read("/usr/share/doc/rdma-core/70-persistent-ipoib.rules")
    line = re.search(r'^# (ACTION==.*ATTR\{type\}=="32".*)$', example, re.M)[1]
    line = re.sub(r'ATTR\{address\}=="[^"]*"',
                  f'ATTR{{address}}=="?*{tail}"', line)
    line = re.sub(r'NAME="[^"]*"', 'NAME="storage"', line)
    again = file("/etc/udev/rules.d/70-persistent-ipoib.rules", line + "\n")
    reload = ["udevadm", "control", "--reload"]
    cmd(reload)
    defer(cmd, reload)
    ksft_eq(replugged(2), "storage")
    again.exec()
    cmd(reload)
    ksft_true(replugged(2).startswith("ib"), "the kernel's own name")
    address = link(name_of(2))["address"]
    again = file(f"{NETWORK}/10-test.link", "[Match]\nType=infiniband\n"
                 f"MACAddress={address}\n\n[Link]\nName=compute\n")
    cmd(reload)
    cmd(["udevadm", "trigger", "--action=add",
         f"/sys/class/net/{name_of(2)}"])
    wait_until(lambda: name_of(2) == "compute", 20, "a new name")
    again.exec()
