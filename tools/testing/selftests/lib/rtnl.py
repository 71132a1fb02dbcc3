# SPDX-License-Identifier: GPL-2.0-only
"""
rtnetlink without iproute2: a system call of the test's own thread for each
request, which is fast, and counts where one lets its allocations fail.
"""

import errno
import os
import socket
import struct

NEWLINK, DELLINK, SETLINK = 16, 17, 19
REQUEST, ACK, EXCL, CREATE = 0x1, 0x4, 0x200, 0x400
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK = 1, 3, 4, 5
IFLA_LINKINFO, IFLA_GROUP, IFLA_NET_NS_FD = 18, 27, 28
INFO_KIND, INFO_DATA = 1, 2
IPOIB_PKEY, IPOIB_MODE, IPOIB_UMCAST = 1, 2, 3
IFF_UP = 1


def attr(kind, data):
    """One attribute: bytes, text or a number of 32 bits."""
    if isinstance(data, str):
        data = data.encode() + b"\0"
    elif isinstance(data, int):
        data = struct.pack("I", data)
    size = 4 + len(data)
    return struct.pack("HH", size, kind) + data + bytes(-size % 4)


def info(kind, **words):
    """IFLA_LINKINFO; the words are numbers of 16 bits."""
    ids = {"pkey": IPOIB_PKEY, "mode": IPOIB_MODE, "umcast": IPOIB_UMCAST}
    data = b"".join(attr(ids[key], struct.pack("H", value))
                    for key, value in words.items())
    return attr(IFLA_LINKINFO, attr(INFO_KIND, kind) +
                (attr(INFO_DATA, data) if data else b""))


class Rtnl:
    """A socket in a namespace; requests raise OSError as they are refused."""

    def __init__(self, space):
        self.space = space
        self.sock = space.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.sock.bind((0, 0))
        self.sock.settimeout(120)
        self.count = 0

    def close(self):
        self.sock.close()

    def _talk(self, kind, flags, attrs, index=0, state=0, change=0):
        self.count += 1
        body = struct.pack("BxHiII", 0, 0, index, state, change) + attrs
        self.sock.send(struct.pack("IHHII", 16 + len(body), kind,
                                   REQUEST | ACK | flags, self.count, 0) +
                       body)
        number = -struct.unpack_from("i", self.sock.recv(16384), 16)[0]
        if number:
            raise OSError(number, os.strerror(number))

    def index(self, name):
        return self.space.ifindex(name)

    def add(self, parent, name, more=b"", kind="ipoib", **words):
        """A new link; of the interface with index @parent unless that is 0."""
        link = attr(IFLA_LINK, parent) if parent else b""
        self._talk(NEWLINK, EXCL | CREATE, link + attr(IFLA_IFNAME, name) +
                   more + info(kind, **words))

    def delete(self, name):
        self._talk(DELLINK, 0, attr(IFLA_IFNAME, name))

    def delete_group(self, number):
        self._talk(DELLINK, 0, attr(IFLA_GROUP, number))

    def change(self, name, kind="ipoib", **words):
        self._talk(NEWLINK, 0, attr(IFLA_IFNAME, name) + info(kind, **words))

    def _set(self, name, attrs, state=0, change=0):
        try:
            index = self.index(name)
        except OSError:
            raise OSError(errno.ENODEV, name) from None
        self._talk(SETLINK, 0, attrs, index, state, change)

    def up(self, name):
        self._set(name, b"", IFF_UP, IFF_UP)

    def down(self, name):
        self._set(name, b"", 0, IFF_UP)

    def mtu(self, name, value):
        self._set(name, attr(IFLA_MTU, value))

    def address(self, name, value):
        self._set(name, attr(IFLA_ADDRESS, bytes(value)))

    def group(self, name, number):
        self._set(name, attr(IFLA_GROUP, number))

    def rename(self, name, new):
        self._set(name, attr(IFLA_IFNAME, new))

    def move(self, name, space):
        path = f"/run/netns/{space.name}" if space.name else \
            "/proc/1/ns/net"
        fd = os.open(path, os.O_RDONLY)
        try:
            self._set(name, attr(IFLA_NET_NS_FD, fd))
        finally:
            os.close(fd)
