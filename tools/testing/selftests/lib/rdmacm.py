# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's rdma_cm by its character device, without verbs.

Resolving addresses and routes, listening and connection requests need no QP
of user space, so they can be driven by a few system calls: the ABI is that of
<rdma/rdma_user_cm.h>.
"""

import ctypes
import os
import select
import socket
import struct

from .ksft import Failed
from .utils import cmd, exists, slow

DEVICE = "/dev/infiniband/rdma_cm"
SYSFS = "/sys/class/misc/rdma_cm/dev"

CREATE_ID, DESTROY_ID, RESOLVE_ROUTE, CONNECT, LISTEN = 0, 1, 4, 6, 7
REJECT, GET_EVENT, LEAVE_MCAST, QUERY, BIND, RESOLVE_ADDR, JOIN_MCAST = \
    9, 12, 17, 19, 20, 21, 22

ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR, CONNECT_REQUEST = \
    range(5)
REJECTED, MULTICAST_JOIN = 8, 12
PS_IPOIB, PS_TCP, PS_UDP = 0x0002, 0x0106, 0x0111
QPT_RC, QPT_UD = 2, 4


def sockaddr(address, port=0):
    """A struct sockaddr_storage, and how much of it counts."""
    if ":" in address:
        text = struct.pack("=H", socket.AF_INET6) + \
            struct.pack(">HI", port, 0) + \
            socket.inet_pton(socket.AF_INET6, address) + bytes(4)
    else:
        text = struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + \
            socket.inet_aton(address) + bytes(8)
    return text.ljust(128, b"\0"), len(text)


class Event:
    """What GET_EVENT tells."""

    def __init__(self, data):
        self.uid, self.id, self.event, self.status = struct.unpack_from(
            "=QIIi", data)

    def __repr__(self):
        return f"<event {self.event} status {self.status}>"


class RdmaCm:
    """An event channel and one identifier on it, in a namespace."""

    def __init__(self, space, service=PS_TCP, qp_type=QPT_RC):
        if not exists(DEVICE):
            cmd(["modprobe", "rdma_ucm"])
            if not exists(DEVICE):
                with open(SYSFS, encoding="ascii") as file:
                    major, minor = map(int, file.read().split(":"))
                os.makedirs(os.path.dirname(DEVICE), exist_ok=True)
                os.mknod(DEVICE, 0o600 | 0o020000, os.makedev(major, minor))
        self.space = space
        self.fd = os.open(DEVICE, os.O_RDWR)
        answer = ctypes.create_string_buffer(8)
        self.command(CREATE_ID, struct.pack(
            "=QQHB5x", 1, ctypes.addressof(answer), service, qp_type), 8)
        self.id = struct.unpack_from("=I", answer.raw)[0]

    def command(self, number, body, out=0):
        """One request, from inside the namespace."""
        with self.space.inside():
            os.write(self.fd, struct.pack("=IHH", number, len(body), out) +
                     body)

    def bind(self, address, port=0):
        where, size = sockaddr(address, port)
        self.command(BIND, struct.pack("=IHH", self.id, size, 0) + where)

    def listen(self, backlog=4):
        self.command(LISTEN, struct.pack("=II", self.id, backlog))

    def resolve_addr(self, address, port=0, source=None, limit=3):
        src, src_size = sockaddr(source) if source else (bytes(128), 0)
        dst, dst_size = sockaddr(address, port)
        self.command(RESOLVE_ADDR, struct.pack(
            "=IIHHI", self.id, int(slow(limit) * 1000), src_size, dst_size,
            0) + src + dst)
        return self.event(limit + 2)

    def resolve_route(self, limit=3):
        self.command(RESOLVE_ROUTE, struct.pack("=II", self.id,
                                                int(slow(limit) * 1000)))
        return self.event(limit + 2)

    def connect(self, qpn=0x123456, data=b""):
        param = struct.pack("=II", qpn, 0) + data.ljust(256, b"\0") + \
            struct.pack("=8B", len(data), 0, 1, 1, 0, 3, 3, 1)
        self.command(CONNECT, param + struct.pack("=IIII", self.id, 0, 0, 0))

    def reject(self, which):
        self.command(REJECT, struct.pack("=IBB2x256x", which, 0, 0))

    def join(self, group):
        """Join a group as full member; the event that answers."""
        answer = ctypes.create_string_buffer(8)
        where, size = sockaddr(group)
        self.command(JOIN_MCAST, struct.pack(
            "=QQIHH", ctypes.addressof(answer), 7, self.id, size, 0) + where,
            8)
        return self.event(8)

    def query_addr(self):
        """(node GUID, port, P_Key) of the device the identifier is on."""
        answer = ctypes.create_string_buffer(512)
        self.command(QUERY, struct.pack("=QII", ctypes.addressof(answer),
                                        self.id, 0), 512)
        # The GUID is in network order, the P_Key as well.
        guid = struct.unpack_from(">Q", answer.raw)[0]
        port = answer.raw[8]
        pkey = struct.unpack_from(">H", answer.raw, 10)[0]
        return guid, port, pkey

    def event(self, limit=5):
        """The next event; fails if none comes."""
        ready, _, _ = select.select([self.fd], [], [], slow(limit))
        if not ready:
            raise Failed(f"no event of rdma_cm in {limit} s")
        answer = ctypes.create_string_buffer(512)
        self.command(GET_EVENT, struct.pack("=Q", ctypes.addressof(answer)),
                     512)
        return Event(answer.raw)

    def close(self):
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.close()
