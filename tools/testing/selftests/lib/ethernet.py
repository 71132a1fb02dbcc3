# SPDX-License-Identifier: GPL-2.0-only
"""Ethernet on a partition: interfaces of eth_ipoib, bridges, guests behind them."""

import contextlib
import os
import re
import textwrap

from common import ROOT as TREE
from .ksft import Failed, defer
from .netns import ROOT, Netns
from .rtnl import Rtnl
from .traffic import ping
from .utils import cmd, exists, ip, read, read_int, slow, wait_until

MODULE = "eth_ipoib"


def load():
    """The module, until the machine ends."""
    if not exists(f"/sys/module/{MODULE}"):
        cmd(["insmod", os.environ["ETH_IPOIB"]], timeout=slow(20))


def unload():
    cmd(["rmmod", MODULE], timeout=slow(20))


def sees_host():
    """
    Does the module see what the host sends?  That takes NETFILTER_EGRESS, which the
    debug kernel is without.
    """
    load()
    return " eipoib_egress\t" in read("/proc/kallsyms")


def guide_blocks(section, language=None):
    """The blocks of a section of the guide: files, or what is typed."""
    with open(os.path.join(TREE, "Documentation", "guide", "ethernet-recipes.rst"),
              encoding="utf-8") as text:
        part = text.read().split(f"\n{section}\n====", 1)[1].split("\n====", 1)[0]
    begin = rf"\.\. code-block:: {language}" if language else r"\n::"
    blocks = re.findall(begin + r"\n\n((?:    .*\n|\n)+)", part)
    return [textwrap.dedent(block) for block in blocks]


def words_of(guard, max_guests):
    """Settings in the words of ip(8); None: as they are."""
    words = "" if guard is None else f" guard {'on' if guard else 'off'}"
    return words + ("" if max_guests is None else f" max_guests {max_guests}")


class Ethernet:
    """
    An interface of eth_ipoib on that of a host on the fabric, with a bridge above,
    until the case ends.
    """

    def __init__(self, end, name="eib0", bridge="br0", guard=None, max_guests=None):
        load()
        self.end, self.ns, self.ifname = end, end.ns, name
        ip(f"link add link {end.ifname} name {name} type eipoib" +
           words_of(guard, max_guests), ns=self.ns)
        defer(self.drop)
        self.bridge = bridge
        if bridge:
            # The kernel's own delays before a port forwards are left out.
            ip(f"link add {bridge} type bridge stp_state 0 forward_delay 0",
               ns=self.ns)
            ip(f"link set {name} master {bridge}", ns=self.ns)
            ip(f"link set {bridge} up", ns=self.ns)
        ip(f"link set {name} up", ns=self.ns)
        self.guests = []

    def set(self, guard=None, max_guests=None):
        """Other settings, by the plug-in of ip(8)."""
        ip(f"link set {self.ifname} type eipoib" + words_of(guard, max_guests),
           ns=self.ns)

    def drop(self):
        for guest in self.guests:
            guest.drop()
        self.guests = []
        for name in (self.bridge, self.ifname):
            if name:
                ip(f"link del {name}", ns=self.ns, fail=False)

    def mtu(self):
        return read_int(self.ns.sys(f"class/net/{self.ifname}/mtu"))

    def ifindex(self):
        return self.ns.ifindex(self.ifname)

    def guest(self, number, name=None, kind=None, **words):
        """A station behind the bridge, or of another kind."""
        guest = (kind or Guest)(self, number, name, **words)
        self.guests.append(guest)
        return guest

    def counts(self):
        """What ethtool -S says."""
        text = cmd(["ethtool", "-S", self.ifname], ns=self.ns).stdout
        return {name: int(value) for name, _, value in
                (line.strip().partition(": ") for line in text.splitlines()[1:])}

    def count(self, name):
        return self.counts()[name]

    def carrier(self):
        return read(self.ns.sys(f"class/net/{self.ifname}/carrier")) == "1"


class Guest:
    """A namespace with one end of a veth, whose other one is in the bridge."""

    def __init__(self, ethernet, number, name=None, mtu=None, mac=None,
                 addresses=True):
        end = ethernet.end
        self.ethernet, self.number = ethernet, number
        self.name = name or f"g{number}"
        self.port = f"v{number}"
        self.ifname = "eth0"
        self.v4 = end.v4.rsplit(".", 1)[0] + f".{number}"
        self.v6 = end.v6.rsplit(":", 1)[0] + f":{number}"
        self.ns = self.space()
        self.connect(mtu or ethernet.mtu(), mac)
        self.plug(ethernet)
        if addresses:
            ip(f"addr add {self.v4}/24 dev {self.ifname}", ns=self.ns)
            ip(f"addr add {self.v6}/64 dev {self.ifname} nodad", ns=self.ns)
        ip(f"link set {self.ifname} up", ns=self.ns)

    def __repr__(self):
        return f"guest {self.name}"

    def space(self):
        """Its namespace."""
        return Netns(self.name).add()

    def connect(self, mtu, mac):
        """Make both ends of its cable."""
        more = f"address {mac}" if mac else ""
        ip(f"link add {self.ifname} {more} mtu {mtu} type veth "
           f"peer name {self.port} mtu {mtu} netns {self.ethernet.ns.name or 1}",
           ns=self.ns)

    def plug(self, ethernet):
        """Into the bridge of a host, whose namespace its port is in."""
        self.ethernet = ethernet
        with contextlib.closing(Rtnl(ethernet.ns)) as rtnl:
            rtnl.enslave(self.port, ethernet.bridge)

    def move(self, ethernet):
        """
        To another host, without a word.  It is away no longer than two system calls
        take: programs need seconds for that on slow machines.
        """
        with contextlib.closing(Rtnl(self.ethernet.ns)) as rtnl:
            rtnl.move(self.port, ethernet.ns)
        self.plug(ethernet)

    def drop(self):
        ip(f"link del {self.ifname}", ns=self.ns, fail=False)
        if self.ns.name:
            self.ns.delete()

    def ifindex(self):
        return self.ns.ifindex(self.ifname)

    def mac(self):
        return read(self.ns.sys(f"class/net/{self.ifname}/address"))

    def octets(self):
        """Its MAC in bytes."""
        return bytes.fromhex(self.mac().replace(":", ""))

    def neighbour(self, address):
        """The MAC it knows for an address; None if it knows none."""
        return lladdr(self, address)


class Lower:
    """The host's interface, in the first namespace, where services are."""

    def __init__(self, ifname):
        self.ns, self.ifname = ROOT, ifname
        self.v4, self.v6 = "10.0.0.1", "fd00::1"
        ROOT.sysctl("net.ipv4.ping_group_range", "0 2147483647")
        ip(f"link set {self.ifname} up")

    def mtu(self):
        return read_int(f"/sys/class/net/{self.ifname}/mtu")

    def rename(self, name):
        """As the guide calls it, until the case ends."""
        ip(f"link set {self.ifname} down")
        ip(f"link set {self.ifname} name {name}")
        defer(ip, f"link set {name} name {self.ifname}", fail=False)
        defer(ip, f"link set {name} down", fail=False)
        self.ifname = name


class Bridged:
    """A host that somebody else has set up: what guests need to know of it."""

    ns, ifname = ROOT, "eib0"

    def __init__(self, below, bridge="br0"):
        self.end, self.bridge = below, bridge
        self.mtu = below.mtu


class Itself(Guest):
    """The machine itself, where services are, as a guest."""

    def space(self):
        return ROOT


def peer_mac(address):
    """The MAC that guests see for a peer's IPv4 address."""
    return "ee:1b:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def lladdr(end, address):
    """The link-layer address that an end of the fabric has for a neighbour."""
    found = ip(f"neigh show {address} dev {end.ifname}", ns=end.ns, json_out=True)
    return found[0].get("lladdr") if found else None


def resolved(guest, address, limit=10):
    """The MAC that a guest has for an address, as soon as it has one."""
    return wait_until(lambda: guest.neighbour(address), limit,
                      f"{address} in the neighbour table of {guest}")


def reach(src, dst, limit=15):
    """Both families pass, from the first packets on."""
    for address in (dst.v4, dst.v6):
        wait_until(lambda a=address: ping(src.ns, a, limit=1), limit,
                   f"an answer of {address} to {src}")


def refused(*args, **kwargs):
    """The words with which ip(8) is told that something can't be done."""
    done = ip(*args, fail=False, **kwargs)
    if not done.ret:
        raise Failed(f"not refused: {args}")
    return done.stdout + done.stderr
