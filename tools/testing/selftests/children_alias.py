# SPDX-License-Identifier: GPL-2.0-only
"""
Interfaces at other GUIDs of their ports, which the SM gave them: the SA knows
these, so there are groups, paths and packets.
"""

from lib import (Stream, defer, ends, ksft_eq, ksft_in, ksft_not_in,
                 mcast_receiver, mgid_of, ours_only, ping_ok, tcp_transfer,
                 timeout, udp_exchange, wait_until)
from lib.child import (Child, Children, add_link, address_with, child_by_ip,
                       children, set_address)
from lib.ipoib import mgid_text
from lib.sa import alias_guid, sa_members
from lib.traffic import mcast_start

BOOT = {"hcas": 2, "seconds": 60}

PKEY = 0x8003
BROADCAST = "255.255.255.255"


def at_alias(end, guid):
    """Have an interface use a GUID until the end of the case."""
    defer(set_address, end, end.address(), fail=False)
    set_address(end, address_with(end, guid))
    ksft_eq(end.address(), address_with(end, guid))


def member(end):
    """An interface as the SA's list of members has it."""
    return mgid_text(end.address()[4:])


def wait_member(end, group, pkey):
    """The SA has the interface's GID in a group."""
    wait_until(lambda: member(end) in sa_members(mgid_of(group, pkey)), 15,
               f"{member(end)} in {group} of {pkey:#x}")


def exchange(each):
    """Packets of all kinds between two interfaces."""
    ping_ok(each.a.ns, each.b.v4, size=1900, df=True)
    tcp_transfer(each.a, each.b, 1 << 19)
    tcp_transfer(each.b, each.a, 1 << 19, address=each.a.v6)
    ksft_eq(len(udp_exchange(each.a, each.b, 100).seen), 100)


@ours_only("the in-tree module wants it down, and reads it otherwise")
@timeout(150)
def test_parent_and_children():
    """Both ends and their children at aliases: groups, paths, packets."""
    pair = ends()
    both = children(pair, PKEY)
    first = [mgid_text(end.address()[4:]) for end in pair]
    defer(pair.ready, 30)
    for end in pair:
        at_alias(end, alias_guid(end.port, 2))
    for child, end in zip(both, pair):
        ksft_eq(child.address()[4:], end.address()[4:], "a child follows")
    for each, pkey in ((pair, 0xffff), (both, PKEY)):
        for end, old in zip(each, first):
            wait_member(end, BROADCAST, pkey)
            wait_until(lambda g=old, k=pkey: g not in
                       sa_members(mgid_of(BROADCAST, k)), 15,
                       f"{old} has left {pkey:#x}")
        each.ready(30)
        exchange(each)


@ours_only("the in-tree module does not take addresses of new links")
@timeout(120)
def test_child_alone():
    """A child made at an alias, and one of its partition that is not there."""
    pair = ends()
    guid = alias_guid(pair.a.port, 3)
    add_link(pair.a, "at.3", f"pkey {PKEY:#x}",
             f"address {address_with(pair.a, guid).hex(':')}")
    child = Child(pair.a, "at.3", 33)
    defer(child.delete)
    ksft_eq(child.address()[12:], guid.to_bytes(8, "big"))
    both = Children(child, child_by_ip(pair.b, PKEY, 33)).up()
    twin = Children(*(child_by_ip(end, PKEY, 34, ifname=f"t{end.number}.3")
                      for end in pair)).up()
    # The port is a member once, and both live on that.
    wait_member(child, BROADCAST, PKEY)
    ksft_not_in(member(twin.a), sa_members(mgid_of(BROADCAST, PKEY)))
    for each in (both, twin, pair):
        exchange(each)


@ours_only("EBUSY unless the interface is down")
@timeout(150)
def test_under_traffic():
    """To an alias and back while a stream runs, and back: it goes on."""
    pair = ends()
    both = children(pair, PKEY)
    guid = alias_guid(pair.b.port, 2)
    stream = Stream(both.a, both.b, rate=1 << 20)
    old = both.b.address()
    defer(set_address, both.b, old, fail=False)
    for address in (address_with(both.b, guid), old):
        stream.wait_progress()
        set_address(both.b, address)
        stream.wait_progress()
    stream.finish()


@ours_only("the in-tree module wants it down")
@timeout(120)
def test_groups():
    """Groups joined before the change are joined with the new GID."""
    pair = ends()
    both = children(pair, PKEY)
    group = "239.5.7.9"
    sink = mcast_receiver(both.b, group)
    defer(sink.close)
    wait_member(both.b, group, PKEY)
    old = member(both.b)
    at_alias(both.b, alias_guid(pair.b.port, 2))
    wait_member(both.b, group, PKEY)
    ksft_not_in(old, sa_members(mgid_of(group, PKEY)))
    both.ready()
    mcast_start(both.a, group, sink)
    ksft_in(member(both.b), sa_members(mgid_of(group, PKEY)))
