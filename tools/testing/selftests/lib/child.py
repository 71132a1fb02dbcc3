# SPDX-License-Identifier: GPL-2.0-only
"""Child interfaces: partitions of a port, made by sysfs or rtnetlink."""

import os

from .ipoib import End
from .ksft import Skip, defer
from .traffic import ping
from .utils import CmdError, exists, ip, slow, wait_until, write


def full(pkey):
    """A P_Key with the bit of full membership."""
    return pkey | 0x8000


class Child(End):
    """A child of an end, in the end's namespace or another one."""

    # pylint: disable-next=super-init-not-called
    def __init__(self, end, ifname, net, space=None):
        self.parent, self.ifname = end, ifname
        self.ns = space or end.ns
        self.name = self.ns.name
        self.port, self.number, self.kind = end.port, end.number, None
        self.v4 = f"10.{1 + net // 200}.{net % 200}.{end.number}"
        self.v6 = f"fd01:{net:x}::{end.number}"

    def __repr__(self):
        return f"{self.ifname}({self.port})"

    def delete(self, fail=False):
        return ip(["link", "del", self.ifname], ns=self.ns, fail=fail,
                  timeout=slow(30))

    def data(self):
        """What "ip -d link" says of its kind."""
        return self.link()["linkinfo"]["info_data"]


def sysfs_name(end, number):
    """How create_child calls a child."""
    return f"{end.ifname[:10]}.{number:04x}"


def create_child(end, number, text=None):
    """Write to create_child; raises OSError as it does."""
    write(end.sys("create_child"), text or f"{number:#06x}\n")


def delete_child(end, number, text=None):
    """With the bit of membership, which the in-tree module insists on."""
    write(end.sys("delete_child"), text or f"{full(number):#06x}\n")


def child_by_sysfs(end, number, net=None, text=None):
    """A child from create_child until the end of the case."""
    create_child(end, number, text)
    new = Child(end, sysfs_name(end, number), net or number & 0xff)
    defer(new.delete)
    return new


def add_link(end, ifname, words="", more="", fail=True, space=None):
    """ip link add, below the end's interface."""
    if fail and "mode connected" in words:
        end.need_verbs("connected mode")
    if fail and more.startswith("netns") and end.enhanced() == "own":
        raise Skip("a child in another namespace: not on such an HCA's own interface")
    return ip(f"link add link {end.ifname} name {ifname} {more} type ipoib "
              f"{words}", ns=space or end.ns, fail=fail, timeout=slow(30))


def child_by_ip(end, pkey, net=None, ifname=None, words="", more=""):
    """A child from rtnetlink until the end of the case."""
    ifname = ifname or f"c{end.number}.{pkey:x}"
    add_link(end, ifname, f"pkey {pkey:#x} {words}", more)
    new = Child(end, ifname, net or pkey & 0xff)
    defer(new.delete)
    return new


def address_with(end, guid):
    """The address that an interface has with another GUID of its port."""
    return end.address()[:12] + guid.to_bytes(8, "big")


def set_address(end, address, fail=True):
    return end.set(f"address {address.hex(':')}", fail=fail)


class Children:
    """Two children that can talk, as the two ends of a pair."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __iter__(self):
        return iter((self.a, self.b))

    def up(self, limit=20):
        for child in self:
            child.up()
        return self.ready(limit)

    def ready(self, limit=20, families=(4, 6)):
        """Carrier on both, and packets in both families."""
        for child in self:
            child.wait_carrier(limit)
        for family in families:
            address = self.b.v4 if family == 4 else self.b.v6
            wait_until(lambda to=address: ping(self.a.ns, to, limit=0.5),
                       limit, f"a reply from {self.b} to {self.a}")
        return self

    def delete(self):
        for child in self:
            child.delete(fail=True)


def children(pair, pkey, net=None, how=child_by_ip):
    """Two children with the same P_Key, up and with addresses."""
    return Children(*(how(end, pkey, net) for end in pair)).up()


def answer_for_themselves(pair):
    """
    Interfaces answer ARP requests for their own addresses only, until the end
    of the case.  Else all that a host has in a partition do, and a neighbour
    may be remembered with the address of one that soon is not there any more.
    """
    for end in pair:
        defer(end.ns.sysctl, "net.ipv4.conf.all.arp_ignore",
              end.ns.sysctl("net.ipv4.conf.all.arp_ignore"))
        end.ns.sysctl("net.ipv4.conf.all.arp_ignore", 1)


def names_in(space, start=""):
    """Interfaces of a namespace whose names begin so."""
    return sorted(name for name in os.listdir(space.sys("class/net"))
                  if name.startswith(start))


def gone(child):
    return not exists(child.sys("ifindex"))


def errno_of(func, *args, **kwargs):
    """The errno of what a call raises; 0 if it works."""
    try:
        func(*args, **kwargs)
    except OSError as error:
        return error.errno
    return 0


def refused(done):
    """
    Was a command of iproute2 refused with a reason of the kernel's?  The
    reason.
    """
    if done.ret == 0:
        return ""
    for line in done.stderr.splitlines():
        if line.startswith("Error:"):
            return line[6:].strip()
    raise CmdError("no reason was given", done.ret, done.stdout, done.stderr)
