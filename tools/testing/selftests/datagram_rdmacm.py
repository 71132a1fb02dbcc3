# SPDX-License-Identifier: GPL-2.0-only
"""rdma_cm over the interface: addresses, routes, requests, its groups."""

import re

from lib import (defer, ends, ksft_eq, ksft_in, ksft_ne, ksft_not_in,
                 mcast_receiver, neigh_flush, read, wait_until, write)
from lib.ipoib import mgid_of, mgid_text
from lib.rdmacm import (ADDR_ERROR, ADDR_RESOLVED, CONNECT_REQUEST,
                        MULTICAST_JOIN, PS_IPOIB, PS_UDP, QPT_UD, REJECTED,
                        ROUTE_RESOLVED, RdmaCm)

BOOT = {"hcas": 2, "seconds": 15}


def on_hca(ident, end):
    """The identifier is on the end's port."""
    guid, number, pkey = ident.query_addr()
    ksft_eq(guid, end.port.hca.node_guid(), "node GUID")
    ksft_eq(number, end.port.num, "port")
    ksft_eq(pkey, 0xffff, "P_Key")


def resolve(pair, address):
    neigh_flush(pair.a)
    with RdmaCm(pair.a.ns) as ident:
        ksft_eq(ident.resolve_addr(address, 7).event, ADDR_RESOLVED)
        on_hca(ident, pair.a)
        ksft_eq(ident.resolve_route().event, ROUTE_RESOLVED)


def test_resolve():
    """An IPv4 address is resolved to a port and a path."""
    pair = ends()
    resolve(pair, pair.b.v4)


def test_resolve_ipv6():
    """An IPv6 address is, too."""
    pair = ends()
    resolve(pair, pair.b.v6)


def test_resolve_nobody():
    """An address nobody has is an error, in time."""
    pair = ends()
    with RdmaCm(pair.a.ns) as ident:
        event = ident.resolve_addr("10.0.0.91", 7, limit=1)
        ksft_eq(event.event, ADDR_ERROR)
        ksft_ne(event.status, 0)


def request(pair, address):
    """
    A connection request finds the listener on the other side's interface:
    there rdma_cm asks the driver which net_device it came for.
    """
    with RdmaCm(pair.b.ns) as listener, RdmaCm(pair.a.ns) as ident:
        listener.bind(address, 7471)
        listener.listen()
        on_hca(listener, pair.b)
        ksft_eq(ident.resolve_addr(address, 7471).event, ADDR_RESOLVED)
        ksft_eq(ident.resolve_route().event, ROUTE_RESOLVED)
        ident.connect(data=b"hello")
        event = listener.event()
        ksft_eq(event.event, CONNECT_REQUEST)
        listener.reject(event.id)
        ksft_eq(ident.event().event, REJECTED)


def test_request():
    """A connection request over IPv4 arrives at the listener."""
    pair = ends()
    request(pair, pair.b.v4)


def test_request_ipv6():
    """A connection request over IPv6 arrives at the listener."""
    pair = ends()
    request(pair, pair.b.v6)


def test_request_after_restart():
    """The same after the interface was down and up."""
    pair = ends()
    pair.b.set("down")
    pair.b.up()
    pair.b.wait_carrier()
    pair.wait_ping()
    request(pair, pair.b.v4)


def test_udp_resolve():
    """An identifier for datagrams resolves, too."""
    pair = ends()
    with RdmaCm(pair.a.ns, PS_UDP, QPT_UD) as ident:
        ksft_eq(ident.resolve_addr(pair.b.v4, 7).event, ADDR_RESOLVED)
        on_hca(ident, pair.a)


def local_groups(end):
    """MGIDs of the interface's own groups, from debugfs."""
    text = read(f"/sys/kernel/debug/ipoib/{end.ifname}_mcg")
    return [mgid_text(bytes.fromhex("".join(
        word.rjust(4, "0") for word in gid.split(":"))))
            for gid in re.findall(r"GID: *([0-9a-f:]+)", text)]


def test_umcast():
    """With umcast, a group that rdma_cm has joined is left to it."""
    pair = ends()
    group = "239.21.0.1"
    mgid = mgid_text(mgid_of(group))
    write(pair.b.sys("umcast"), "1\n")
    defer(write, pair.b.sys("umcast"), "0\n")
    with RdmaCm(pair.b.ns, PS_IPOIB, QPT_UD) as ident:
        ident.bind(pair.b.v4)
        event = ident.join(group)
        ksft_eq((event.event, event.status), (MULTICAST_JOIN, 0))
        with mcast_receiver(pair.b, group), \
                mcast_receiver(pair.b, "239.21.0.2"):
            # The second group shows that joins have been looked at.
            other = mgid_text(mgid_of("239.21.0.2"))
            wait_until(lambda: other in local_groups(pair.b), 5, "a join")
            ksft_not_in(mgid, local_groups(pair.b))
        write(pair.b.sys("umcast"), "0\n")
        with mcast_receiver(pair.b, group):
            wait_until(lambda: mgid in local_groups(pair.b), 5,
                       "the driver's own join")
    ksft_in(mgid_text(mgid_of("224.0.0.1")), local_groups(pair.b))
