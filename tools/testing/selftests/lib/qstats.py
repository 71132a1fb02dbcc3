# SPDX-License-Identifier: GPL-2.0-only
"""Statistics and NAPIs of queues, from the generic netlink family netdev."""

import errno
import os
import socket
import struct

from .ksft import Skip
from .rtnl import attr

NETLINK_GENERIC, CONTROL, GETFAMILY = 16, 16, 3
REQUEST, DUMP, ERROR, DONE = 0x1, 0x300, 2, 3
CTRL_FAMILY_ID, CTRL_FAMILY_NAME = 1, 2
PAGE_POOL_GET, QUEUE_GET, QSTATS_GET = 5, 10, 12
PAGE_POOL_ID, PAGE_POOL_IFINDEX = 1, 2
QUEUE_ID, QUEUE_IFINDEX, QUEUE_TYPE, QUEUE_NAPI = 1, 2, 3, 4
QSTATS_IFINDEX, QSTATS_TYPE, QSTATS_ID, QSTATS_SCOPE = 1, 2, 3, 4
COUNTS = {8: "rx_packets", 9: "rx_bytes", 10: "tx_packets", 11: "tx_bytes"}
TYPES = ("rx", "tx")


def attrs(data):
    """{number: bytes}"""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("HH", data)
        if size < 4:
            break
        found[kind & 0x3fff] = data[4:size]
        data = data[(size + 3) & ~3:]
    return found


def number(data):
    """Of four bytes or of eight."""
    return int.from_bytes(data, "little")


def messages(sock, kind, command, version, payload, dump):
    """Ask; the attributes of each message of the answer."""
    body = struct.pack("BBxx", command, version) + payload
    flags = REQUEST | (DUMP if dump else 0)
    sock.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    found = []
    while True:
        data = sock.recv(1 << 17)
        while len(data) >= 16:
            size, what = struct.unpack_from("IH", data)
            if what in (ERROR, DONE):
                error = -struct.unpack_from("i", data, 16)[0]
                if error:
                    raise OSError(error, os.strerror(error))
                return found
            found.append(attrs(data[20:size]))
            data = data[(size + 3) & ~3:]
        if not dump:
            return found


def ask(end, command, payload):
    """What the family netdev says in an end's namespace."""
    sock = end.ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
    with sock:
        sock.bind((0, 0))
        sock.settimeout(30)
        try:
            family = messages(sock, CONTROL, GETFAMILY, 1,
                              attr(CTRL_FAMILY_NAME, "netdev"), False)
            kind = struct.unpack("H", family[0][CTRL_FAMILY_ID])[0]
            return messages(sock, kind, command, 1, payload, True)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EOPNOTSUPP):
                raise
            raise Skip("the kernel has no statistics of queues") from None


def per_queue(end):
    """{("rx" or "tx", number): {name: count}}"""
    found = {}
    for each in ask(end, QSTATS_GET, attr(QSTATS_IFINDEX, end.ifindex()) +
                    attr(QSTATS_SCOPE, struct.pack("Q", 1))):
        key = (TYPES[number(each[QSTATS_TYPE])], number(each[QSTATS_ID]))
        found[key] = {name: number(each[kind])
                      for kind, name in COUNTS.items() if kind in each}
    return found


def whole(end):
    """{name: count} of the interface."""
    each = ask(end, QSTATS_GET, attr(QSTATS_IFINDEX, end.ifindex()))[0]
    return {name: number(each[kind]) for kind, name in COUNTS.items()
            if kind in each}


def napis(end):
    """{("rx" or "tx", number): id of the NAPI or None}"""
    return {(TYPES[number(each[QUEUE_TYPE])], number(each[QUEUE_ID])):
            number(each[QUEUE_NAPI]) if QUEUE_NAPI in each else None
            for each in ask(end, QUEUE_GET,
                            attr(QUEUE_IFINDEX, end.ifindex()))}


def page_pools(end):
    """Ids of the page pools of an interface."""
    return [number(each[PAGE_POOL_ID]) for each in
            ask(end, PAGE_POOL_GET, b"")
            if PAGE_POOL_IFINDEX in each and
            number(each[PAGE_POOL_IFINDEX]) == end.ifindex()]
