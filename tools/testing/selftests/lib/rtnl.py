# SPDX-License-Identifier: GPL-2.0-only
"""
rtnetlink without iproute2: a system call of the test's own thread for each
request, which is fast, and counts where one lets its allocations fail.
"""

import errno
import os
import socket
import struct

NEWLINK, DELLINK, SETLINK, NEWADDR, DELADDR = 16, 17, 19, 20, 21
REQUEST, ACK, REPLACE, EXCL, CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK = 1, 3, 4, 5
IFLA_MASTER, IFLA_LINKINFO, IFLA_GROUP, IFLA_NET_NS_FD = 10, 18, 27, 28
INFO_KIND, INFO_DATA = 1, 2
IFA_ADDRESS, IFA_LOCAL = 1, 2
IPOIB_PKEY, IPOIB_MODE, IPOIB_UMCAST = 1, 2, 3
EIPOIB_GUARD, EIPOIB_MAX_GUESTS = 1, 2
IFF_UP = 1
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11
NLMSGERR_ATTR_MSG = 1
# Headers of the answer, the error number, the request's header
ERROR_LENGTH = 16 + 4 + 16


def attr(kind, data):
    """One attribute: bytes, text or a number of 32 bits."""
    if isinstance(data, str):
        data = data.encode() + b"\0"
    elif isinstance(data, int):
        data = struct.pack("I", data)
    size = 4 + len(data)
    return struct.pack("HH", size, kind) + data + bytes(-size % 4)


def info(kind, **words):
    """IFLA_LINKINFO; the words are numbers of 16 bits, or bytes."""
    ids = {"pkey": IPOIB_PKEY, "mode": IPOIB_MODE, "umcast": IPOIB_UMCAST,
           "guard": EIPOIB_GUARD, "max_guests": EIPOIB_MAX_GUESTS}
    data = b"".join(attr(ids[key], value if isinstance(value, bytes) else
                         struct.pack("H", value))
                    for key, value in words.items())
    return attr(IFLA_LINKINFO, attr(INFO_KIND, kind) +
                (attr(INFO_DATA, data) if data else b""))


def reason(answer):
    """The kernel's own words for a refusal, if it has any."""
    at = ERROR_LENGTH
    while at + 4 <= len(answer):
        size, kind = struct.unpack_from("HH", answer, at)
        if kind & 0x3fff == NLMSGERR_ATTR_MSG:
            return answer[at + 4:at + size].rstrip(b"\0").decode()
        at += (max(size, 4) + 3) & ~3
    return ""


class Rtnl:
    """
    A socket in a namespace; requests raise OSError as they are refused, with
    the kernel's reason as text, or none.
    """

    def __init__(self, space):
        self.space = space
        self.sock = space.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.sock.bind((0, 0))
        self.sock.settimeout(120)
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.count = 0

    def close(self):
        self.sock.close()

    def _talk(self, kind, flags, attrs, index=0, state=0, change=0):
        self._send(kind, flags, struct.pack("BxHiII", 0, 0, index, state,
                                            change) + attrs)

    def _send(self, kind, flags, body):
        self.count += 1
        self.sock.send(struct.pack("IHHII", 16 + len(body), kind,
                                   REQUEST | ACK | flags, self.count, 0) +
                       body)
        answer = self.sock.recv(16384)
        number = -struct.unpack_from("i", answer, 16)[0]
        if number:
            raise OSError(number, reason(answer))

    def index(self, name):
        return self.space.ifindex(name)

    def add(self, parent, name, more=b"", kind="ipoib", **words):
        """A new link; of the interface with index @parent unless that is 0."""
        link = attr(IFLA_LINK, parent) if parent else b""
        self._talk(NEWLINK, EXCL | CREATE, link + attr(IFLA_IFNAME, name) +
                   more + info(kind, **words))

    def _address(self, name, address, prefix):
        packed = socket.inet_aton(address)
        return struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, self.index(name)) + \
            attr(IFA_LOCAL, packed) + attr(IFA_ADDRESS, packed)

    def add_address(self, name, address, prefix=24):
        """An IPv4 address, which may be there already."""
        self._send(NEWADDR, CREATE | REPLACE, self._address(name, address, prefix))

    def delete_address(self, name, address, prefix=24):
        self._send(DELADDR, 0, self._address(name, address, prefix))

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

    def enslave(self, name, master):
        """To a bridge or bond, and up."""
        self._set(name, attr(IFLA_MASTER, self.index(master)), IFF_UP, IFF_UP)

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
