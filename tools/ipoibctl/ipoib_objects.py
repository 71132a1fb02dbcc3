# SPDX-License-Identifier: GPL-2.0-only
"""
What hangs on an interface, as the kernel's own messages: addresses, neighbours, next
hop objects, routes.  They are kept, and sent again with the number of another
interface, so nearly nothing in them has to be understood.
"""

import errno
import struct
import time

import ipoib_netlink as nl

NETLINK_ROUTE = 0
RTM_NEWADDR, RTM_GETADDR = 20, 22
RTM_NEWROUTE, RTM_GETROUTE = 24, 26
RTM_NEWNEIGH, RTM_GETNEIGH = 28, 30
RTM_NEWNEXTHOP, RTM_GETNEXTHOP = 104, 106
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
NLA_F_NESTED = 0x8000
AF_INET, AF_INET6 = 2, 10
USER_HZ = 100
# struct ifaddrmsg, rtmsg, ndmsg, nhmsg; rtnexthop, of a route with several
IFADDR, RTMSG, NDMSG, NHMSG, NEXTHOP = (struct.Struct(text) for text in (
    "=BBBBI", "=BBBBBBBBI", "=BBHiHBB", "=BBBBI", "=HBBi"))
INDEX = struct.Struct("=I")
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_TEMPORARY = 1             # of IPv6; "secondary" of IPv4
IFA_F_TENTATIVE = 0x40
# Those that a user can ask for: NODAD, OPTIMISTIC, HOMEADDRESS, MANAGETEMPADDR,
# NOPREFIXROUTE, MCAUTOJOIN
IFA_ASKED = 0x02 | 0x04 | 0x10 | 0x100 | 0x200 | 0x400
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC = 1, 4, 5, 6, 7
RTA_METRICS, RTA_MULTIPATH, RTA_FLOW, RTA_CACHEINFO, RTA_TABLE = 8, 9, 11, 12, 15
RTA_VIA, RTA_ENCAP_TYPE, RTA_ENCAP, RTA_EXPIRES, RTA_NH_ID = 18, 21, 22, 23, 30
RTA_NESTED = (RTA_METRICS, RTA_ENCAP)
RT_TABLE_LOCAL = 255
RTPROT_REDIRECT, RTPROT_RA = 1, 9
RTN_UNICAST = 1
RTM_F_CLONED, RTNH_F_ONLINK = 0x200, 4
NHA_ID, NHA_GROUP, NHA_GROUP_TYPE, NHA_BLACKHOLE, NHA_OIF = range(1, 6)
NHA_GATEWAY, NHA_ENCAP_TYPE, NHA_ENCAP, NHA_FDB, NHA_RES_GROUP = 6, 7, 8, 11, 12
NHA_SENT = (NHA_ID, NHA_GROUP, NHA_GROUP_TYPE, NHA_BLACKHOLE, NHA_OIF, NHA_GATEWAY,
            NHA_ENCAP_TYPE, NHA_ENCAP, NHA_FDB, NHA_RES_GROUP)
NHA_NESTED = (NHA_ENCAP, NHA_RES_GROUP)
# Buckets, idle timer, unbalanced timer
NHA_RES_SENT = (1, 2, 3)
NUD_PERMANENT, NTF_PROXY = 0x80, 8
NDA_DST, NDA_LLADDR, NDA_PROTOCOL = 1, 2, 12


def dump(kind, body):
    """The kernel's objects, as the messages that make them."""
    socket = nl.Netlink(NETLINK_ROUTE)
    try:
        for _ in range(10):
            found = socket.ask(kind, nl.NLM_F_DUMP, body)
            if not socket.interrupted:
                return found
            time.sleep(0.1)
        raise OSError(errno.EAGAIN, "the tables of the kernel do not stand still")
    finally:
        socket.close()


def rebuilt(header, attributes, nested=()):
    """A message of a header and attributes, of which some hold others."""
    return header + b"".join(
        nl.attribute(kind | (NLA_F_NESTED if kind in nested else 0), data)
        for kind, data in attributes)


class Object:
    """What all of them have."""

    header = None

    @classmethod
    def parts(cls, body):
        """Header and attributes."""
        return (cls.header.unpack_from(body),
                list(nl.attributes(body[cls.header.size:])))


class Address(Object):
    """An IP address of an interface."""

    header = IFADDR
    kind, flags = RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL

    @classmethod
    def all_of(cls, scope):
        """Those of some interfaces."""
        for body in dump(RTM_GETADDR, IFADDR.pack(0, 0, 0, 0, 0)):
            (family, _, flags, _, index), _ = cls.parts(body)
            if index in scope.ours and not (family == AF_INET6 and
                                            flags & IFA_F_TEMPORARY):
                yield body

    @classmethod
    def again(cls, body, indexes):
        """The message for the new interface."""
        (family, length, flags, scope, index), found = cls.parts(body)
        return rebuilt(
            IFADDR.pack(family, length, flags & IFA_ASKED & 0xff, scope,
                        indexes[index]),
            [(kind, INDEX.pack(nl.number(data) & IFA_ASKED)
              if kind == IFA_FLAGS else data) for kind, data in found])

    @classmethod
    def key(cls, body, indexes):
        """What makes it the same."""
        (family, length, _, _, index), found = cls.parts(body)
        found = dict(found)
        return (family, length, indexes.get(index, index), found.get(IFA_ADDRESS),
                found.get(IFA_LOCAL))


class Route(Object):
    """A route, of which a next hop is on our interfaces, or the source is ours."""

    header = RTMSG
    kind, flags = RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND

    @staticmethod
    def hops(data):
        """Yield (flags, weight, interface, attributes) of each next hop."""
        while len(data) >= NEXTHOP.size:
            size, flags, weight, index = NEXTHOP.unpack_from(data)
            if size < NEXTHOP.size:
                return
            yield flags, weight, index, data[NEXTHOP.size:size]
            data = data[(size + 3) & ~3:]

    @classmethod
    def all_of(cls, scope):
        """Those over some interfaces, next hop objects, or with their addresses."""
        for body in dump(RTM_GETROUTE, RTMSG.pack(*[0] * 9)):
            (family, _, _, _, table, protocol, _, kind, flags), found = \
                cls.parts(body)
            found = dict(found)
            if family not in (AF_INET, AF_INET6) or kind != RTN_UNICAST or \
                    table == RT_TABLE_LOCAL or flags & RTM_F_CLONED:
                continue
            # The kernel learns them again.
            if protocol in (RTPROT_REDIRECT, RTPROT_RA) and cls.expires(found):
                continue
            used = {index for _, _, index, _ in
                    cls.hops(found.get(RTA_MULTIPATH, b""))}
            if RTA_OIF in found:
                used.add(nl.number(found[RTA_OIF]))
            if used & scope.all or \
                    nl.number(found.get(RTA_NH_ID, b"")) in scope.nexthops or \
                    family == AF_INET and \
                    found.get(RTA_PREFSRC) in scope.addresses:
                yield from cls.single(body)

    @staticmethod
    def expires(found):
        """Seconds that it has, 0: it is for ever."""
        data = found.get(RTA_CACHEINFO, b"")
        return struct.unpack_from("=i", data, 8)[0] // USER_HZ \
            if len(data) >= 12 else 0

    @classmethod
    def single(cls, body):
        """IPv6 has each next hop as a route of its own, which can go alone."""
        header, found = cls.parts(body)
        several = dict(found).get(RTA_MULTIPATH)
        if header[0] != AF_INET6 or not several or \
                any(kind == RTA_NH_ID for kind, _ in found):
            yield body
            return
        for flags, weight, index, rest in cls.hops(several):
            hop = NEXTHOP.pack(NEXTHOP.size + len(rest), flags, weight, index) + rest
            yield rebuilt(body[:RTMSG.size], [
                (kind, hop if kind == RTA_MULTIPATH else data)
                for kind, data in found], RTA_NESTED)

    @classmethod
    def again(cls, body, indexes):
        """The message for the new interfaces."""
        (*header, flags), found = cls.parts(body)
        seconds = cls.expires(dict(found))
        without = {RTA_CACHEINFO, RTA_EXPIRES}
        if any(kind == RTA_NH_ID for kind, _ in found):
            # What the next hop says is not said again.
            without |= {RTA_OIF, RTA_GATEWAY, RTA_VIA, RTA_MULTIPATH, RTA_ENCAP,
                        RTA_ENCAP_TYPE, RTA_FLOW}
        found = [each for each in found if each[0] not in without]
        for place, (kind, data) in enumerate(found):
            if kind == RTA_OIF:
                index = nl.number(data)
                found[place] = kind, INDEX.pack(indexes.get(index, index))
            elif kind == RTA_MULTIPATH:
                found[place] = kind, b"".join(
                    NEXTHOP.pack(NEXTHOP.size + len(rest), hop & RTNH_F_ONLINK,
                                 weight, indexes.get(index, index)) + rest
                    for hop, weight, index, rest in cls.hops(data))
        if seconds > 0:
            found.append((RTA_EXPIRES, INDEX.pack(seconds)))
        return rebuilt(RTMSG.pack(*header, flags & RTNH_F_ONLINK), found, RTA_NESTED)

    @classmethod
    def key(cls, body, indexes):
        """What makes it the same: where to, and how."""
        (family, length, _, tos, table, *_), found = cls.parts(body)
        found = dict(found)
        way = found.get(RTA_NH_ID)
        if way is None:
            hops = [(index, weight, dict(nl.attributes(rest))) for _, weight, index, rest
                    in cls.hops(found.get(RTA_MULTIPATH, b""))] or \
                [(nl.number(found.get(RTA_OIF, b"")), 0, found)]
            # A single one has no weight that counts.
            way = frozenset((indexes.get(index, index),
                             weight if len(hops) > 1 else 0, each.get(RTA_GATEWAY),
                             each.get(RTA_VIA)) for index, weight, each in hops)
        return (family, length, tos, nl.number(found.get(RTA_TABLE, b"")) or table,
                found.get(RTA_DST), found.get(RTA_PRIORITY), found.get(RTA_PREFSRC),
                way)

    @classmethod
    def order(cls, body):
        """Networks before what is reached over them."""
        _, found = cls.parts(body)
        return any(kind in (RTA_GATEWAY, RTA_VIA, RTA_MULTIPATH, RTA_NH_ID)
                   for kind, _ in found)


class NextHop(Object):
    """An object of "ip nexthop", or a group with one on our interfaces."""

    header = NHMSG
    kind, flags = RTM_NEWNEXTHOP, NLM_F_CREATE | NLM_F_REPLACE

    @classmethod
    def all_of(cls, scope):
        """Those over some interfaces, and the groups that contain one."""
        groups, mine = [], set()
        for body in dump(RTM_GETNEXTHOP, NHMSG.pack(0, 0, 0, 0, 0)):
            found = dict(cls.parts(body)[1])
            if NHA_GROUP in found:
                groups.append((body, found[NHA_GROUP]))
            elif nl.number(found.get(NHA_OIF, b"")) in scope.all:
                mine.add(found[NHA_ID])
                yield body
        for body, members in groups:
            if any(members[at:at + 4] in mine for at in range(0, len(members), 8)):
                yield body

    @classmethod
    def again(cls, body, indexes):
        """The message for the new interfaces."""
        (family, _, protocol, _, flags), found = cls.parts(body)
        sent = []
        for kind, data in found:
            if kind == NHA_OIF:
                index = nl.number(data)
                data = INDEX.pack(indexes.get(index, index))
            elif kind == NHA_RES_GROUP:
                data = rebuilt(b"", [each for each in nl.attributes(data)
                                     if each[0] in NHA_RES_SENT])
            if kind in NHA_SENT:
                sent.append((kind, data))
        # The kernel finds the scope.
        return rebuilt(NHMSG.pack(family, 0, protocol, 0, flags & RTNH_F_ONLINK),
                       sent, NHA_NESTED)

    @classmethod
    def key(cls, body, indexes):
        """What makes it the same."""
        found = dict(cls.parts(body)[1])
        index = nl.number(found.get(NHA_OIF, b""))
        return (found[NHA_ID], indexes.get(index, index), found.get(NHA_GATEWAY),
                found.get(NHA_GROUP))


class Neighbour(Object):
    """A neighbour, or a proxy, that somebody has entered."""

    header = NDMSG
    kind, flags = RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE

    @classmethod
    def all_of(cls, scope):
        """Those of some interfaces."""
        for asked in (0, NTF_PROXY):
            for body in dump(RTM_GETNEIGH, NDMSG.pack(0, 0, 0, 0, 0, asked, 0)):
                (family, _, _, index, state, *_), _ = cls.parts(body)
                if family in (AF_INET, AF_INET6) and index in scope.ours and \
                        (asked or state & NUD_PERMANENT):
                    yield body

    @classmethod
    def again(cls, body, indexes):
        """The message for the new interface."""
        (family, _, _, index, state, flags, kind), found = cls.parts(body)
        return rebuilt(
            NDMSG.pack(family, 0, 0, indexes[index], state, flags, kind),
            [each for each in found if each[0] in (NDA_DST, NDA_LLADDR,
                                                   NDA_PROTOCOL)])

    @classmethod
    def key(cls, body, indexes):
        """What makes it the same."""
        (family, _, _, index, _, flags, _), found = cls.parts(body)
        found = dict(found)
        return (family, flags & NTF_PROXY, indexes.get(index, index),
                found.get(NDA_DST), found.get(NDA_LLADDR))


# In the order in which they are made
OBJECTS = {"addresses": Address, "neighbours": Neighbour, "nexthops": NextHop,
           "routes": Route}


class Scope:
    """What objects belong to our interfaces: of one namespace."""

    def __init__(self, ours, masters=()):
        self.ours = set(ours)
        # A bond loses its carrier with them, and with that objects over it.
        self.all = self.ours | set(masters)
        self.addresses, self.nexthops = set(), set()

    def objects(self, wanted=tuple(OBJECTS)):
        """{name: [message]}, in the namespace that this is run in."""
        found = {}
        for name, cls in OBJECTS.items():
            # Routes belong to us by addresses and next hops, too.
            if name not in wanted and not (
                    "routes" in wanted and cls in (Address, NextHop)):
                continue
            found[name] = list(cls.all_of(self))
            if cls is Address:
                for body in found[name]:
                    parts = dict(cls.parts(body)[1])
                    self.addresses |= {parts.get(IFA_LOCAL, parts.get(IFA_ADDRESS))}
            elif cls is NextHop:
                self.nexthops = {nl.number(cls.key(body, {})[0])
                                 for body in found[name]}
            elif cls is Route:
                found[name].sort(key=Route.order)
        return found


def make_objects(cls, bodies, indexes):
    """Make objects, those that need others after them; the last error."""
    socket = nl.Netlink(NETLINK_ROUTE)
    left, error = list(bodies), ""
    try:
        while left:
            failed = []
            for body in left:
                try:
                    socket.ask(cls.kind, cls.flags, cls.again(body, indexes))
                except OSError as refused:
                    failed.append(body)
                    error = refused.strerror
                except KeyError:
                    failed.append(body)
                    error = "its interface is missing"
            if len(failed) == len(left):
                break
            left = failed
        return error if left else ""
    finally:
        socket.close()
