# SPDX-License-Identifier: GPL-2.0-only
"""Bonds of two ports, by ifupdown: in both modes, by carrier, by ARP, of children."""

from lib import (ROOT, Stream, cmd, defer, ip, ksft_eq, ksft_lt, port, slow, sm,
                 timeout, wait_until)
from lib.child import child_by_ip
from lib.users import (CHILD_V4, V4, addresses, answers, file, kind, link, name_of,
                       peer, recipe)

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 150}
GROUPS = ("users",)

PORTS = (1, 2)
CARRIER = "bond-miimon 100"
MTU = "    post-up ip link set bond0 mtu 65520\n"


def bond(names, how, mode="datagram", mtu="", address=V4):
    """A bond of interfaces, as Debian's users write it down."""
    file("/etc/network/interfaces", recipe("interfaces-bond", {
        "ib0": names[0], "ib1": names[1], "connected": mode, V4: address,
        CARRIER: how, MTU: mtu}))
    cmd(["ifup", *names, "bond0"], timeout=slow(60))

    def away():
        cmd(["ifdown", "bond0", *names], fail=False, timeout=slow(60))
        for name in names:
            cmd(f"echo datagram > /sys/class/net/{name}/mode", fail=False)
    defer(away)
    wait_until(lambda: addresses("bond0") == {address}, 30, "the bond's address")
    ksft_eq(link("bond0")["link_type"], "infiniband")


def active():
    """The interface that the bond uses."""
    return link("bond0")["linkinfo"]["info_data"].get("active_slave")


def outlives(there, names, limit=20):
    """A stream outlives the cable of each port."""
    answers(there.v4)
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    stream.wait_progress()
    for number, name in zip(PORTS, names):
        port(number).link(False)
        again = defer(port(number).link, True)
        wait_until(lambda n=name: active() not in (n, None), limit, "the other port")
        ksft_lt(stream.wait_progress(limit=limit), slow(limit))
        again.exec()
        port(number).wait_active()
        wait_until(lambda n=name: "LOWER_UP" in link(n)["flags"], 20, "a carrier")
    stream.finish()


def ends_of():
    """The peer, beside OpenSM, and the interfaces of both ports."""
    return peer(0), [name_of(number) for number in PORTS]


@timeout(200)
def test_carrier():
    """In datagram mode, a stream outlives the cable of each port."""
    there, names = ends_of()
    bond(names, CARRIER)
    outlives(there, names)


@timeout(200)
def test_connected():
    """The same in connected mode, with packets of 65520 bytes."""
    there, names = ends_of()
    ip(f"link set {there.ifname} type ipoib mode connected", ns=there.ns)
    ip(f"link set {there.ifname} mtu 65520", ns=there.ns)
    bond(names, CARRIER, mode="connected", mtu=MTU)
    ksft_eq(link("bond0")["mtu"], 65520)
    for name in names:
        ksft_eq(kind(name)[1:], ("connected", 65520))
    answers(there.v4)
    ksft_eq(cmd(["ping", "-c", "3", "-i", "0.2", "-s", "60000", "-M", "do",
                 there.v4], fail=False).ret, 0)
    outlives(there, names)


@timeout(200)
def test_arp_monitor():
    """Supervised by ARP: a port that the peer is not reached by is given up."""
    there, names = ends_of()
    bond(names, f"bond-arp-interval 200\n    bond-arp-ip-target {there.v4}")
    outlives(there, names, limit=30)


@timeout(200)
def test_children():
    """A bond of two children of one partition."""
    there, parents = ends_of()
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    other.wait_carrier()
    names = []
    for number, parent in enumerate(parents):
        ip(f"link set {parent} up")
        name = f"part{number}"
        ip(f"link add link {parent} name {name} type ipoib pkey 0x8001")
        defer(ip, f"link del {name}", fail=False)
        defer(ip, f"link set {parent} down")
        names.append(name)
    bond(names, CARRIER, address=CHILD_V4)
    outlives(other, names)


@timeout(200)
def test_sm_away():
    """The SM is away while the bond changes ports: what its return heals."""
    there, names = ends_of()
    bond(names, CARRIER)
    answers(there.v4)
    first = PORTS[names.index(active())]
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    stream.wait_progress()
    defer(sm.restart)
    sm.stop()
    port(first).link(False)
    again = defer(port(first).link, True)
    wait_until(lambda: active() not in (names[PORTS.index(first)], None), 20,
               "the other port")
    sm.start()
    stream.wait_progress(limit=60)
    again.exec()
    stream.finish()
