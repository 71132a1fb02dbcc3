# SPDX-License-Identifier: GPL-2.0-only
"""
The generic netlink families of the driver and of eth_ipoib, Documentation/netlink/specs,
with no more than Python's own library.
"""

import errno
import ipaddress
import os
import socket
import struct
import sys

NETLINK_GENERIC, SOL_NETLINK = 16, 270
NETLINK_ADD_MEMBERSHIP, NETLINK_CAP_ACK = 1, 10
NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK = 11, 12
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLM_F_DUMP_INTR = 0x10
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLMSGERR_ATTR_MSG = 1
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS = 1, 2, 7
CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 1, 2
HEADER, GENL_HEADER, ATTR = (struct.Struct(text) for text in
                             ("=IHHII", "=BBH", "=HH"))
BUFFER = 1 << 20

CAUSES = ("none", "admin-down", "port-unknown", "port-down", "port-init",
          "port-armed", "no-pkey", "start-failed", "joining", "sa-unreachable",
          "sa-silent", "join-refused", "limited-pkey", "group-unusable",
          "starting")
DEV_MODE = ("datagram", "connected")
DEV_ENGINE = ("verbs", "enhanced")
PATH_STATUS = ("unknown", "asking", "valid", "failed")
LINK_STATUS = ("none", "opening", "up", "failed")
GROUP_STATUS = ("waiting", "joining", "member", "left")
CONN_STATUS = ("opening", "half-open", "up", "closing")


def number(data):
    """An unsigned number of any size."""
    return int.from_bytes(data, sys.byteorder)


def signed(data):
    return struct.unpack("=i", data)[0]


def text(data):
    return data.rstrip(b"\0").decode("utf-8", "surrogateescape")


def flag(_data):
    return True


def gid(data):
    return str(ipaddress.IPv6Address(data))


def address(data):
    """An IP address of either family."""
    return str(ipaddress.ip_address(data))


def lladdr(data):
    return ":".join(f"{byte:02x}" for byte in data)


def mac(data):
    return lladdr(data)


def one_of(names):
    """A value of an enumeration; newer ones are numbers."""
    def name(data):
        value = number(data)
        return names[value] if value < len(names) else str(value)
    return name


# Attributes in the order of their numbers, from 1
DEV = (("ifindex", number), ("ifname", text), ("cause", one_of(CAUSES)),
       ("error", signed), ("cause-age", number), ("mode", one_of(DEV_MODE)),
       ("pkey", number), ("gid", gid), ("qpn", number), ("hca-index", number),
       ("port", number), ("port-state", number), ("phys-state", number),
       ("lid", number), ("sm-lid", number), ("join-error", signed),
       ("start-failures", number),
       ("retries", number), ("engine", one_of(DEV_ENGINE)))
NEIGH = (("ifindex", number), ("lladdr", lladdr), ("gid", gid), ("idle", number),
         ("path-status", one_of(PATH_STATUS)), ("dlid", number), ("sl", number),
         ("path-mtu", number), ("rate", number), ("hop-limit", number),
         ("path-failures", number), ("path-waiting-packets", number),
         ("link-status", one_of(LINK_STATUS)), ("link-failures", number),
         ("link-waiting-bytes", number), ("max-msg", number))
GROUP = (("ifindex", number), ("mgid", gid), ("status", one_of(GROUP_STATUS)),
         ("send-only", flag), ("broadcast", flag), ("mlid", number),
         ("mtu", number), ("rate", number), ("sl", number),
         ("failures", number), ("error", signed),
         ("waiting-packets", number))
CONN = (("ifindex", number), ("gid", gid), ("status", one_of(CONN_STATUS)),
        ("by-peer", flag), ("qpn", number), ("lid", number),
        ("max-msg", number), ("age", number), ("idle", number),
        ("in-flight", number))
# Commands in the order of their numbers, from 1
COMMANDS = (("dev-get", DEV), ("dev-ntf", DEV), ("neigh-get", NEIGH),
            ("path-ntf", NEIGH), ("link-ntf", NEIGH), ("group-get", GROUP),
            ("group-ntf", GROUP), ("conn-get", CONN), ("conn-ntf", CONN))

# The same of eth_ipoib, family "eipoib"
GUEST_STATUS = ("seen", "claimed", "held", "asked", "refused", "fixed")
PEER_STATUS = ("asked", "known")
GUEST = (("ifindex", number), ("address", address), ("prefix-len", number),
         ("mac", mac), ("status", one_of(GUEST_STATUS)), ("idle", number),
         ("router", flag), ("rival", mac), ("contender", lladdr),
         ("waiting-packets", number))
PEER = (("ifindex", number), ("address", address), ("lladdr", lladdr),
        ("mac", mac), ("status", one_of(PEER_STATUS)), ("idle", number),
        ("waiting-packets", number))
GUEST_GROUP = (("ifindex", number), ("address", address), ("mac", mac),
               ("users", number), ("expires", number), ("joined", flag))
ETHERNET_COMMANDS = (("guest-get", GUEST), ("guest-new", GUEST),
                     ("guest-del", GUEST), ("peer-get", PEER),
                     ("group-get", GUEST_GROUP))


class NetlinkError(OSError):
    """What the kernel answered, with its own words if there are any."""


def attributes(data):
    """Yield (number, value) of each attribute."""
    while len(data) >= ATTR.size:
        size, kind = ATTR.unpack_from(data)
        if size < ATTR.size:
            return
        yield kind & 0x3fff, data[ATTR.size:size]
        data = data[(size + 3) & ~3:]


def attribute(kind, data):
    """An attribute to be sent."""
    return ATTR.pack(ATTR.size + len(data), kind) + data + bytes(-len(data) % 4)


def decode(data, commands=COMMANDS):
    """(command, attributes by name) of a message of a family."""
    command = data[0]
    if not 0 < command <= len(commands):
        return str(command), {}
    name, known = commands[command - 1]
    found = {}
    for kind, value in attributes(data[GENL_HEADER.size:]):
        if 0 < kind <= len(known):
            key, read = known[kind - 1]
            found[key] = read(value)
    return name, found


def error_of(kind_of, data):
    """The error in a message that may carry one, or None."""
    code = signed(data[:4]) if len(data) >= 4 else 0
    if not code:
        return None
    words = os.strerror(-code)
    # Between both, an error has the header of the request.
    begin = 4 + (HEADER.size if kind_of == NLMSG_ERROR else 0)
    for kind, value in attributes(data[begin:]):
        if kind == NLMSGERR_ATTR_MSG:
            words = text(value)
    return NetlinkError(-code, words)


class Netlink:
    """A netlink socket in this network namespace."""

    def __init__(self, protocol, buffer=BUFFER):
        self.buffer = buffer
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK,
                       NETLINK_GET_STRICT_CHK):
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.sock.bind((0, 0))
        self.sequence = 0
        self.interrupted = False

    def close(self):
        self.sock.close()

    def request(self, kind, flags, body):
        """Send a request; its sequence number."""
        self.sequence += 1
        self.sock.send(HEADER.pack(HEADER.size + len(body), kind,
                                   NLM_F_REQUEST | flags, self.sequence, 0) +
                       body)
        return self.sequence

    def messages(self):
        """Yield (type, flags, sequence, data) of what has come."""
        data = self.sock.recv(self.buffer)
        while len(data) >= HEADER.size:
            size, kind, flags, sequence, _ = HEADER.unpack_from(data)
            if size < HEADER.size:
                return
            yield kind, flags, sequence, data[HEADER.size:size]
            data = data[(size + 3) & ~3:]

    def ask(self, kind, flags, body):
        """Bodies of the answers."""
        return self.answers(self.request(kind, flags | NLM_F_ACK, body))

    def answers(self, sequence):
        """Bodies of the answers to a request; its error is raised."""
        found = []
        self.interrupted = False
        while True:
            for kind, got, number_of, body in self.messages():
                if number_of != sequence:
                    continue
                self.interrupted |= bool(got & NLM_F_DUMP_INTR)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    error = error_of(kind, body)
                    if error:
                        raise error
                    return found
                found.append(body)


class Family(Netlink):
    """A family in this network namespace; OSError if there is none."""

    commands = COMMANDS

    def __init__(self, name="ipoib", buffer=BUFFER):
        super().__init__(NETLINK_GENERIC, buffer)
        self.numbers = {each: place for place, (each, _) in
                        enumerate(self.commands, 1)}
        self.number = GENL_ID_CTRL
        try:
            answer = self._ask(CTRL_CMD_GETFAMILY, 0,
                               attribute(CTRL_ATTR_FAMILY_NAME,
                                         name.encode() + b"\0"))
        except OSError:
            self.sock.close()
            raise
        found = dict(attributes(answer[0][GENL_HEADER.size:]))
        self.number = number(found[CTRL_ATTR_FAMILY_ID])
        self.groups = {}
        for _, group in attributes(found.get(CTRL_ATTR_MCAST_GROUPS, b"")):
            parts = dict(attributes(group))
            self.groups[text(parts[CTRL_ATTR_MCAST_GRP_NAME])] = \
                number(parts[CTRL_ATTR_MCAST_GRP_ID])

    def send(self, command, flags, data):
        """Send a request of the family; its sequence number."""
        return self.request(self.number, flags,
                            GENL_HEADER.pack(command, 1, 0) + data)

    def _ask(self, command, flags, data):
        """Bodies of the answers."""
        return self.answers(self.send(command, flags | NLM_F_ACK, data))

    def get(self, command, ifindex=None, dump=True):
        """The objects of all interfaces, or of one, as dictionaries."""
        data = attribute(1, struct.pack("=I", ifindex)) \
            if ifindex is not None else b""
        return [decode(body, self.commands)[1] for body in
                self._ask(self.numbers[command], NLM_F_DUMP if dump else 0, data)]

    def listen(self, *groups):
        """From now on notifications of these groups come, see events()."""
        for group in groups:
            self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP,
                                 self.groups[group])

    def events(self):
        """
        Yield (command, attributes) of each notification; ("lost", {}) where some
        were lost, as the reader was too slow.
        """
        while True:
            try:
                for kind, _, _, body in self.messages():
                    if kind == self.number:
                        yield decode(body, self.commands)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                yield "lost", {}


class Ethernet(Family):
    """The family of eth_ipoib; OSError if the module is not there."""

    commands = ETHERNET_COMMANDS

    def __init__(self, buffer=BUFFER):
        super().__init__("eipoib", buffer)

    def change(self, command, ifindex, network, station=None):
        """
        Give a station, by its MAC in bytes, an address, or take that: network is an
        address or a network of ipaddress.
        """
        prefix = isinstance(network, (ipaddress.IPv4Network, ipaddress.IPv6Network))
        parts = [(1, struct.pack("=I", ifindex)),
                 (2, (network.network_address if prefix else network).packed)]
        if prefix:
            parts.append((3, struct.pack("=I", network.prefixlen)))
        if station is not None:
            parts.append((4, station))
        self._ask(self.numbers[command], 0,
                  b"".join(attribute(*part) for part in parts))
