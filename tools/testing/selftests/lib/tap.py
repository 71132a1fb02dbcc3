# SPDX-License-Identifier: GPL-2.0-only
"""
Guests whose interface a program provides, as QEMU does: a tap or a macvtap of the host,
with virtio's header before each packet.  The machine is a namespace whose stack sends
through a tap of its own; what comes out of that, long packets and unfinished checksums
included, goes into the host's as it is, and the other way round.
"""

import fcntl
import os
import struct
import threading

from .ethernet import Guest
from .ksft import defer
from .utils import ip, need_modules, read

TUNSETIFF, TUNSETOFFLOAD = 0x400454ca, 0x400454d0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 2, 0x1000, 0x4000
# Checksums; TCP of IPv4 and of IPv6
OFFLOADS = 1 | 2 | 4
LONGEST = 70000
# Longer than one segment with the MTU 2044, and the headers before it
LONG = 2100


def queue(path, name=""):
    """A tap's or macvtap's file, for whole packets with virtio's header."""
    file = os.open(path, os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(),
                                             IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(file, TUNSETOFFLOAD, OFFLOADS)
    return file


class Relay:
    """Passes packets on between two files, until it is stopped."""

    def __init__(self, one, two):
        self.files = one, two
        # Packets of several segments, each way
        self.long = [0, 0]
        self.refused = 0
        self.stopping = False
        for way in (0, 1):
            threading.Thread(target=self.run, args=(way,), daemon=True).start()

    def run(self, way):
        source, sink = self.files[way], self.files[1 - way]
        while not self.stopping:
            try:
                data = os.read(source, LONGEST)
            except OSError:
                return
            self.long[way] += len(data) > LONG
            try:
                os.write(sink, data)
            except OSError:
                # Down, or it knows better: as a cable that is not plugged in
                self.refused += 1

    def stop(self):
        self.stopping = True
        for file in self.files:
            os.close(file)


def tap(space, name):
    """The file of a tap of that name."""
    need_modules("tun")
    with space.inside():
        return queue("/dev/net/tun", name)


def macvtap(ethernet, name):
    """The file of a macvtap of that name on the Ethernet interface itself."""
    need_modules("tun", "macvtap")
    space, path = ethernet.ns, f"/run/{name}"
    ip(f"link add link {ethernet.ifname} name {name} type macvtap mode bridge",
       ns=space)
    defer(ip, f"link del {name}", ns=space, fail=False)
    node = space.sys(f"class/net/{name}/tap{space.ifindex(name)}/dev")
    major, minor = map(int, read(node).split(":"))
    os.mknod(path, 0o600 | 0o020000, os.makedev(major, minor))
    defer(os.unlink, path)
    # All groups, since nobody tells macvtap which ones the guest is in.
    ip(f"link set {name} allmulticast on up", ns=space)
    return queue(path)


class Machine(Guest):
    """A guest behind a tap in the bridge."""

    def connect(self, mtu, mac):
        space = self.ethernet.ns
        inner = tap(self.ns, self.ifname)
        self.relay = Relay(inner, tap(space, self.port))
        if mac:
            ip(f"link set {self.ifname} address {mac}", ns=self.ns)
        ip(f"link set {self.ifname} mtu {mtu}", ns=self.ns)
        ip(f"link set {self.port} mtu {mtu}", ns=space)

    def drop(self):
        if hasattr(self, "relay"):
            self.relay.stop()
            del self.relay
        super().drop()


class Macvtap(Machine):
    """A guest behind a macvtap on the Ethernet interface, without a bridge."""

    def connect(self, mtu, mac):
        inner = tap(self.ns, self.ifname)
        self.relay = Relay(inner, macvtap(self.ethernet, self.port))
        mac = read(self.ethernet.ns.sys(f"class/net/{self.port}/address"))
        ip(f"link set {self.ifname} address {mac}", ns=self.ns)
        ip(f"link set {self.ifname} mtu {mtu}", ns=self.ns)

    def plug(self, ethernet):
        pass


class Macvlan(Guest):
    """A container with a macvlan on the Ethernet interface, without a bridge."""

    def connect(self, mtu, mac):
        need_modules("macvlan")
        ip(f"link add link {self.ethernet.ifname} name {self.ifname} "
           f"netns {self.ns.name} type macvlan mode bridge", ns=self.ethernet.ns)

    def plug(self, ethernet):
        pass
