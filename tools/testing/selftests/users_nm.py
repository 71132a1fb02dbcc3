# SPDX-License-Identifier: GPL-2.0-only
"""NetworkManager: profiles of type infiniband, and what happens to them."""

from lib import (Stream, cmd, defer, hca, ip, ksft_eq, ksft_true, port, slow,
                 timeout, wait_until)
from lib.child import child_by_ip
from lib.netns import ROOT
from lib.users import (V4, V6, addresses, answers, dnsmasq, kind, link, name_of,
                       peer, recipe, restarted, service)

BOOT = {"hcas": 3, "image": True, "mem": 1536, "seconds": 200}
GROUPS = ("users",)



def nmcli(*words, fail=True, limit=60):
    """NetworkManager's own command."""
    return cmd(["nmcli", *words], fail=fail, timeout=slow(limit)).stdout


def running():
    """NetworkManager, which may have been started by another case."""
    service("NetworkManager")
    wait_until(lambda: "running" in nmcli("-t", "-f", "running", "general",
                                          fail=False), 30, "NetworkManager")


def profile(name, ifname, *settings, kind="infiniband"):
    """A profile until the end of the case."""
    nmcli("connection", "add", "type", kind, "con-name", name,
          "ifname", ifname, "autoconnect", "no", *settings)
    defer(nmcli, "connection", "delete", name, fail=False)
    return name


def profile_of(text, name, here):
    """A profile by a recipe, which gives it that name."""
    defer(nmcli, "connection", "delete", name, fail=False)
    cmd(recipe(text, {"ib0": here, "autoconnect yes": "autoconnect no"}),
        timeout=slow(60))
    return name


def static(number=1, net=0):
    """Settings of static addresses."""
    return ("ipv4.method", "manual", "ipv4.addresses", f"10.0.{net}.{number}/24",
            "ipv6.method", "manual", "ipv6.addresses",
            f"fd00:{net}::{number}/64" if net else f"fd00::{number}/64")


def up(name):
    """Activate a profile, which takes until it has its addresses."""
    nmcli("connection", "up", name)


def hardware(name):
    """The hardware address of an interface, as nmcli takes it."""
    return link(name)["address"]


@timeout(200)
def test_static():
    """Static addresses of both families, in datagram mode."""
    there, here = peer(), name_of(0)
    running()
    up(profile("plain", here, "infiniband.transport-mode", "datagram",
               *static()))
    ksft_eq(kind(here)[1], "datagram")
    ksft_eq(addresses(here), {V4, V6})
    answers(there.v4)
    answers(there.v6)


@timeout(200)
def test_modes():
    """A profile says the mode and the MTU; it is changed, both ways."""
    there, here = peer(), name_of(0)
    running()
    name = profile_of("nmcli-port", "storage", here)
    up(name)
    ksft_eq(kind(here), (0xffff, "connected", 65520))
    answers(there.v4)
    nmcli("connection", "modify", name, "infiniband.transport-mode", "datagram",
          "infiniband.mtu", "1500")
    up(name)
    ksft_eq(kind(here), (0xffff, "datagram", 1500))
    answers(there.v4)


@timeout(200)
def test_children():
    """Profiles of P_Keys make children, and take them away."""
    there, here = peer(), name_of(0)
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    running()
    up(profile("parent", here, *static()))
    name = profile_of("nmcli-child", "partition", here)
    up(name)
    ksft_eq(kind(f"{here}.8001")[:2], (0x8001, "datagram"))
    answers(other.v4)
    nmcli("connection", "down", name)
    wait_until(lambda: not link(f"{here}.8001"), 20, "no child")
    answers(there.v4)


@timeout(200)
def test_unplugged():
    """The HCA goes and comes back: its profile is activated again."""
    # OpenSM is at the first one.
    there, here = peer(), name_of(2)
    running()
    # What comes back may have another name, and has another QPN.
    name = profile("again", "*", "infiniband.mac-address", hardware(here),
                   *static())
    nmcli("connection", "modify", name, "connection.autoconnect", "yes")
    up(name)
    answers(there.v4)
    hca(2).unplug()
    hca(2).plug()
    port(2).wait_active()
    wait_until(lambda: addresses(name_of(2)) == {V4, V6}, 60, "the addresses")
    answers(there.v4)


@timeout(200)
def test_by_address():
    """A profile is for a port, by its hardware address, whatever its name."""
    there, here = peer(), name_of(0)
    running()
    ip(f"link set {here} down")
    ip(f"link set {here} name other0")
    defer(ip, f"link set other0 name {here}", fail=False)
    defer(ip, "link set other0 down", fail=False)
    name = profile("hardware", "*", "infiniband.mac-address",
                   hardware("other0"), *static())
    up(name)
    ksft_eq(addresses("other0"), {V4, V6})
    answers(there.v4)


@timeout(200)
def test_restarted():
    """NetworkManager is restarted: addresses and a stream stay."""
    there, here = peer(), name_of(0)
    running()
    up(profile("kept", here, *static()))
    restarted("NetworkManager", there, here, lambda: f"{here}:connected" in nmcli(
        "-t", "-f", "device,state", "device", fail=False), limit=60)


@timeout(200)
def test_dhcp():
    """A lease, the same one again, and one reserved by client identifier."""
    there, here = peer(), name_of(0)
    pool = dnsmasq(there)
    running()
    name = profile("dhcp", here, "ipv4.method", "auto", "ipv6.method",
                   "disabled")
    up(name)
    first = addresses(here)
    ksft_eq(len(first), 1)
    ksft_true(first <= pool, first)
    answers(there.v4)
    nmcli("connection", "down", name)
    up(name)
    ksft_eq(addresses(here), first)
    nmcli("connection", "modify", name, "ipv4.dhcp-client-id", "storage1")
    up(name)
    ksft_eq(addresses(here), {"10.0.0.77"})


@timeout(300)
def test_bond():
    """Two ports are one: a stream outlives the cable of each."""
    # OpenSM is at the peer's: without it a port that takes over finds no paths.
    there = peer(0)
    ports = (1, 2)
    names = [name_of(number) for number in ports]
    running()
    nmcli("connection", "add", "type", "bond", "con-name", "both", "ifname",
          "bond0", "autoconnect", "no", "bond.options",
          "mode=active-backup,miimon=100,fail_over_mac=active", *static())
    defer(nmcli, "connection", "delete", "both", fail=False)
    for number, name in enumerate(names):
        profile(f"slave{number}", name, "master", "bond0", "slave-type", "bond")
    for number in range(2):
        up(f"slave{number}")
    wait_until(lambda: addresses("bond0") == {V4, V6}, 60, "the bond's addresses")
    answers(there.v4)
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    for number, name in zip(ports, names):
        port(number).link(False)
        again = defer(port(number).link, True)
        ksft_true(stream.wait_progress(limit=20) < slow(20))
        again.exec()
        port(number).wait_active()
        wait_until(lambda n=name: "LOWER_UP" in link(n)["flags"], 20, "a carrier")
    stream.finish()
