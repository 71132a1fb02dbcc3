# SPDX-License-Identifier: GPL-2.0-only
"""Interfaces of files: Debian's ifupdown and netplan, by both of its backends."""

from lib import cmd, defer, ksft_eq, slow, timeout, wait_until
from lib.child import child_by_ip
from lib.users import (CHILD_V4, V4, V6, addresses, answers, file, kind, link,
                       name_of, peer, recipe)

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 120}
GROUPS = ("users",)



@timeout(200)
def test_ifupdown():
    """Static addresses, a mode, a child: ifup and ifdown."""
    there, here = peer(), name_of(0)
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    file("/etc/network/interfaces", recipe("interfaces", {"ib0": here}))
    cmd(["ifup", here, "storage"], timeout=slow(60))
    down = defer(cmd, ["ifdown", "storage", here], fail=False,
                 timeout=slow(60))
    ksft_eq(kind(here)[1:], ("connected", 65520))
    ksft_eq(addresses(here), {V4, V6})
    ksft_eq(addresses("storage"), {CHILD_V4})
    for address in (there.v4, there.v6, other.v4):
        answers(address)
    down.exec()
    ksft_eq((addresses(here), link("storage")), (set(), None))
    cmd(f"ip link set {here} down; echo datagram > /sys/class/net/{here}/mode")


def netplan(name, here):
    """A recipe for netplan, applied to an interface; what it made goes with it."""
    def away():
        path.exec()
        cmd("netplan generate; systemctl stop systemd-networkd.socket "
            "systemd-networkd NetworkManager; "
            f"ip addr flush dev {here} scope global; ip link set {here} down; "
            f"echo datagram > /sys/class/net/{here}/mode", fail=False,
            timeout=slow(60))

    path = file("/etc/netplan/10-test.yaml", recipe(name, {"ib0": here}), 0o600)
    done = defer(away)
    cmd(["netplan", "apply"], timeout=slow(90))
    return done


@timeout(200)
def test_netplan_networkd():
    """Addresses by networkd; the mode is datagram, the MTU that of the group."""
    there, here = peer(), name_of(0)
    netplan("netplan-networkd.yaml", here)
    wait_until(lambda: addresses(here) == {V4, V6}, 40, "the addresses")
    answers(there.v4)
    ksft_eq(kind(here)[1:], ("datagram", there.mtu()))


@timeout(200)
def test_netplan_nm():
    """The same by NetworkManager, in connected mode with its MTU."""
    there, here = peer(), name_of(0)
    netplan("netplan-nm.yaml", here)
    wait_until(lambda: addresses(here) == {V4, V6}, 60, "the addresses")
    ksft_eq(kind(here)[1:], ("connected", 65520))
    answers(there.v4)
