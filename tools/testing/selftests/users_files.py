# SPDX-License-Identifier: GPL-2.0-only
"""Interfaces of files: Debian's ifupdown and netplan, by both of its backends."""

import re

from lib import cmd, defer, ksft_eq, slow, timeout, wait_until
from lib.child import child_by_ip
from lib.users import (V4, V6, addresses, answers, file, kind, link, name_of,
                       peer)

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 120}
GROUPS = ("users",)



@timeout(200)
def test_ifupdown():
    """Static addresses, a mode, a child: ifup and ifdown."""
    there, here = peer(), name_of(0)
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    mine = re.sub(r"\.9$", ".1", other.v4)
    file("/etc/network/interfaces", f"""
iface {here} inet static
    address {V4}/24
    pre-up echo connected > /sys/class/net/$IFACE/mode
    mtu 65520

iface {here} inet6 static
    address {V6}/64

iface storage inet static
    address {mine}/24
    pre-up ip link add link {here} name $IFACE type ipoib pkey 0x8001
    post-down ip link del $IFACE
""")
    cmd(["ifup", here, "storage"], timeout=slow(60))
    down = defer(cmd, ["ifdown", "storage", here], fail=False,
                 timeout=slow(60))
    ksft_eq(kind(here)[1:], ("connected", 65520))
    ksft_eq(addresses(here), {V4, V6})
    ksft_eq(addresses("storage"), {mine})
    for address in (there.v4, there.v6, other.v4):
        answers(address)
    down.exec()
    ksft_eq((addresses(here), link("storage")), (set(), None))
    cmd(f"ip link set {here} down; echo datagram > /sys/class/net/{here}/mode")


def netplan(backend, here, *lines):
    """netplan's file for an interface, applied; what it made goes with it."""
    def away():
        path.exec()
        cmd("netplan generate; systemctl stop systemd-networkd.socket "
            "systemd-networkd NetworkManager; "
            f"ip addr flush dev {here} scope global; ip link set {here} down; "
            f"echo datagram > /sys/class/net/{here}/mode", fail=False,
            timeout=slow(60))

    path = file("/etc/netplan/10-test.yaml", "network:\n  version: 2\n"
                f"  renderer: {backend}\n  ethernets:\n    {here}:\n" +
                "".join(f"      {line}\n" for line in lines), 0o600)
    done = defer(away)
    cmd(["netplan", "apply"], timeout=slow(90))
    return done


@timeout(200)
def test_netplan_networkd():
    """An address and an MTU by networkd."""
    there, here = peer(), name_of(0)
    netplan("networkd", here, f"addresses: [{V4}/24, '{V6}/64']", "mtu: 1500")
    wait_until(lambda: addresses(here) == {V4, V6}, 40, "the addresses")
    wait_until(lambda: kind(here)[2] == 1500, 10, "the MTU")
    answers(there.v4)


@timeout(200)
def test_netplan_nm():
    """The same by NetworkManager, and a mode."""
    there, here = peer(), name_of(0)
    netplan("NetworkManager", here, f"addresses: [{V4}/24, '{V6}/64']",
            "infiniband-mode: connected", "mtu: 65520")
    wait_until(lambda: addresses(here) == {V4, V6}, 60, "the addresses")
    ksft_eq(kind(here)[1:], ("connected", 65520))
    answers(there.v4)
