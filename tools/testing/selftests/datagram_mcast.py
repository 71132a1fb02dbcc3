#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Multicast: memberships, delivery to members only, send-only groups."""

import contextlib
import re
import socket

from lib import (Capture, Flood, any_ends, defer, ends, fabric, hca, ip,
                 kmsg_since, kmsg_tail, ksft_eq, ksft_ge, ksft_in, ksft_le,
                 ksft_not_in, ksft_true, main, mcast_receiver, mcast_sender,
                 mgid_of, ours_only, ping_ok, port, read, sa_query, slow,
                 tcp_transfer, timeout, wait_until, write)
from lib.connected import counter
from lib.ipoib import End, mgid_text
from lib.sa import sa_members, sa_records
from lib.traffic import SO_SNDBUFFORCE, mcast_join, mcast_leave, mcast_send, mcast_start

BOOT = {"hcas": 3, "seconds": 60}

DEBUGFS = "/sys/kernel/debug/ipoib"


def sa_groups():
    """MGIDs the SA knows, as text."""
    return re.findall(r"MGID\.*([0-9a-f:]+)", sa_query("-g").stdout)


def wait_members(mgid, *members):
    """
    Wait until exactly these ends are full members of a group.  If they are
    two, the switch sends it there, too; for one alone OpenSM does not tell
    the switch anything before somebody wants to send.
    """
    want = sorted(gid_text(end.port) for end in members)

    def ready():
        records = sa_records(mgid)
        if sorted(g for g, _, state in records if state & 1) != want:
            return False
        if not all(re.search(r"complete: *yes", local_groups(end).get(
                mgid_text(mgid), "")) for end in members):
            return False
        if len(members) < 2:
            return True
        lines = [line for line in read(
            "/sys/kernel/debug/ibdevsim/switch/mft").splitlines()
                 if line.startswith(f"{records[0][1]:#06x}")]
        return lines and len(lines[0].split()) - 1 >= len(members)

    wait_until(ready, 15, f"{mgid_text(mgid)} with members {want}")


def local_groups(end):
    """The interface's groups in debugfs: MGID text -> lines about it."""
    text = read(f"{DEBUGFS}/{end.ifname}_mcg")
    found = {}
    for part in re.split(r"(?=GID:)", text):
        match = re.search(r"GID:\s*([0-9a-f:]+)", part)
        if match:
            gid = bytes.fromhex("".join(
                word.rjust(4, "0") for word in match.group(1).split(":")))
            found[mgid_text(gid)] = part
    return found


def gid_text(which):
    return mgid_text(bytes.fromhex(which.gid().replace(":", "")))


def test_first_groups():
    """Broadcast, all-hosts, all-nodes and solicited-node are joined."""
    pair = ends()
    low = pair.a.port.guid() & 0xffffff
    want = [mgid_of("255.255.255.255"), mgid_of("224.0.0.1"),
            mgid_of("ff02::1"),
            mgid_of(f"ff02::1:ff{low >> 16:02x}:{low & 0xffff:04x}")]
    for mgid in want:
        wait_until(lambda m=mgid: gid_text(pair.a.port) in sa_members(m), 5,
                   f"membership of {mgid_text(mgid)}")
        ksft_in(mgid_text(mgid), local_groups(pair.a))


def test_join_leave():
    """A socket's membership becomes one of the port, and ends with it."""
    pair = ends()
    group, mgid = "239.1.2.3", mgid_of("239.1.2.3")
    with mcast_receiver(pair.b, group):
        wait_until(lambda: mgid_text(mgid) in sa_groups(), 5,
                   "the group at the SA")
        wait_members(mgid, pair.b)
        ksft_in(mgid_text(mgid), local_groups(pair.b))
    wait_until(lambda: mgid_text(mgid) not in sa_groups(), 5,
               "the group gone")
    ksft_not_in(mgid_text(mgid), local_groups(pair.b))


def test_join_leave_ipv6():
    """The same for IPv6."""
    pair = ends()
    group = "ff05::1:3"
    mgid = mgid_of(group)
    with mcast_receiver(pair.b, group):
        wait_members(mgid, pair.b)
    wait_until(lambda: not sa_members(mgid), 5, "the member gone")


def test_reports():
    """Joining sends IGMP and MLD reports."""
    pair = ends()
    with Capture(pair.b, outgoing=True) as packets:
        with mcast_receiver(pair.b, "239.1.2.4"), \
                mcast_receiver(pair.b, "ff05::1:4"):
            igmp = packets.wait(lambda p: p.proto == 0x0800 and
                                p.data[9] == 2, slow(3))
            mld = packets.wait(lambda p: p.proto == 0x86dd and
                               p.data[6] == 0 and p.data[48] == 143, slow(3))
    ksft_true(igmp, "an IGMP report")
    ksft_true(mld, "an MLD report")


def test_delivery():
    """Members get what is sent to their group, in both families."""
    pair = ends()
    for group in ("239.1.2.5", "ff05::1:5"):
        with mcast_receiver(pair.b, group) as sink:
            wait_members(mgid_of(group), pair.b)
            mcast_start(pair.a, group, sink)
            ksft_eq(mcast_send(pair.a, group, sink, 50, gap=0.002), 50)
            ksft_eq(sink.collect(50, slow(1.5)), 50, group)
            ksft_eq((sink.bad, sink.duplicates()), (0, 0))


def test_members_only():
    """A third host that is no member sees nothing of it."""
    pair = ends()
    third = End("h3", port(2), 3, 0)
    defer(third.drop)
    third.setup()
    third.wait_carrier()
    group = "239.1.2.6"
    with mcast_receiver(pair.b, group) as sink, Capture(third) as seen:
        wait_members(mgid_of(group), pair.b)
        mcast_start(pair.a, group, sink)
        mcast_send(pair.a, group, sink, 30, gap=0.002)
        ksft_eq(sink.collect(30, slow(1.5)), 30)
    data = [p for p in seen.of(0x0800) if p.data[9] == 17]
    ksft_eq(data, [], "datagrams at h3")


def test_two_members():
    """Two members both get everything, each once."""
    pair = ends()
    third = End("h3", port(2), 3, 0)
    defer(third.drop)
    third.setup()
    third.wait_carrier()
    group = "239.1.2.7"
    with mcast_receiver(pair.b, group) as one:
        with mcast_receiver(third, group, port=one.port) as two:
            wait_members(mgid_of(group), pair.b, third)
            mcast_send(pair.a, group, one, 40, gap=0.002)
            for sink in (one, two):
                ksft_eq(sink.collect(40, slow(1.5)), 40)
                ksft_eq((sink.bad, sink.duplicates()), (0, 0))


def test_no_loopback():
    """A member does not get back what it sends itself."""
    pair = ends()
    no_loop(pair)


def no_loop(pair):
    """The sender's own datagrams must not come up again."""
    group = "239.1.2.8"
    with mcast_receiver(pair.a, group) as own, \
            mcast_receiver(pair.b, group, port=own.port) as other, \
            Capture(pair.a) as seen:
        wait_members(mgid_of(group), pair.a, pair.b)
        mcast_send(pair.a, group, own, 30, gap=0.002)
        ksft_eq(other.collect(30, slow(1.5)), 30)
        ksft_eq(own.drain(), 0, "own datagrams")
    back = [p for p in seen.of(0x0800) if p.data[9] == 17]
    ksft_eq(back, [], "own datagrams on the interface")


def test_no_loopback_by_driver():
    """Nor where the HCA cannot block its own multicast."""
    for number in (5, 6):
        fabric.add_hca(number, block_loopback=0)
    pair = any_ends(port(5), port(6), ("h5", "h6"), 5, keep=False)
    no_loop(pair)


def test_send_only():
    """A sender that is no member: a send-only membership, all arrives."""
    pair = ends()
    third = End("h3", port(2), 3, 0)
    defer(third.drop)
    third.setup()
    third.wait_carrier()
    group = "239.1.2.9"
    mgid = mgid_of(group)
    # Two members, so that the switch knows the way before the first packet.
    with mcast_receiver(pair.b, group) as sink, \
            mcast_receiver(third, group, port=sink.port) as other:
        wait_members(mgid, pair.b, third)
        ksft_eq(mcast_send(pair.a, group, sink, 20), 20)
        ksft_eq(sink.collect(20, slow(2)), 20, "a first burst at h2")
        ksft_eq(other.collect(20, slow(2)), 20, "a first burst at h3")
        ksft_true(re.search(r"send-?_?only\S*\s*:?\s*(yes|1|true)",
                            local_groups(pair.a)[mgid_text(mgid)], re.I),
                  "send-only in debugfs")
        ksft_not_in(gid_text(pair.a.port), sa_members(mgid))
        # It does not listen: what others send stays away from h1.
        with Capture(pair.a) as seen:
            mcast_send(pair.b, group, sink, 5, first=100)
            ksft_eq(other.collect(25, slow(1)), 25)
        ksft_eq([p for p in seen.of(0x0800) if p.data[9] == 17], [])


def test_nobody_listens():
    """Sending to a group without members; later somebody joins."""
    pair = ends()
    group = "239.1.2.10"
    with mcast_receiver(pair.b, group, join=False) as sink:
        mcast_send(pair.a, group, sink, 30)
        ping_ok(pair.a.ns, pair.b.v4, count=3)
        mcast_join(sink.sock, group, pair.b.ifindex())
        wait_members(mgid_of(group), pair.b)

        def flows():
            mcast_send(pair.a, group, sink, 1, first=1000)
            return sink.drain() > 0

        wait_until(flows, 20, "datagrams reach the late member",
                   interval=0.2)


def test_member_after_sender():
    """A send-only sender joins as a member, and leaves again."""
    pair = ends()
    group = "239.1.2.11"
    mgid = mgid_of(group)
    with mcast_receiver(pair.b, group) as sink, \
            mcast_receiver(pair.a, group, join=False) as other:
        wait_members(mgid, pair.b)
        mcast_start(pair.a, group, sink)
        mcast_join(other.sock, group, pair.a.ifindex())
        wait_members(mgid, pair.a, pair.b)
        mcast_send(pair.b, group, other, 10, gap=0.002)
        ksft_eq(other.collect(10, slow(2)), 10)
        mcast_leave(other.sock, group, pair.a.ifindex())
        wait_until(lambda: gid_text(pair.a.port) not in sa_members(mgid), 10,
                   "the sender is no member any more")
        mcast_start(pair.a, group, sink)
        mcast_send(pair.a, group, sink, 10, gap=0.002)
        ksft_eq(sink.collect(10, slow(3)), 10)


@ours_only("the in-tree module makes any number of them")
@timeout(150)
def test_send_only_limit():
    """
    Senders to thousands of groups: so many are made, and soon forgotten.  What
    is sent to others reaches its members all the same.
    """
    pair = ends()
    group, v6 = "239.3.99.98", "fd00::98:1234"
    ip(f"addr add {v6}/64 dev {pair.b.ifname} nodad", ns=pair.b.ns)
    defer(ip, f"addr del {v6}/64 dev {pair.b.ifname}", ns=pair.b.ns)
    wait_members(mgid_of("ff02::1:ff98:1234"), pair.b)
    sink = mcast_receiver(pair.b, group)
    defer(sink.close)
    wait_members(mgid_of(group), pair.b)
    ping_ok(pair.a.ns, pair.b.v6)

    def limited():
        return counter(pair.a, "mcast_limited")

    first = limited()
    # Nobody is asked, so that it is not the SA that limits them.
    defer(pair.ready)
    defer(pair.a.up)
    pair.a.port.fault("sa_drop", 1)
    defer(pair.a.set, "down")
    with mcast_sender(pair.a, "239.3.0.0") as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 25)
        for number in range(2300):
            sock.sendto(b"x", (f"239.3.{number >> 8}.{number & 255}", 9))
        # By the broadcast group, also to find a neighbour
        ksft_eq(mcast_send(pair.a, group, sink, 10), 10)
        ksft_eq(sink.collect(10, slow(1)), 10, "datagrams beyond the limit")
        ping_ok(pair.a.ns, v6)
        for missing in (group, "ff02::1:ff98:1234"):
            ksft_not_in(mgid_text(mgid_of(missing)), local_groups(pair.a))
        # Unused for five seconds they go, so there may be fewer by now.
        over = limited() - first
        ksft_ge(over, 200)
        ksft_le(over, 2300 - 2048 + 50, "as many as that were made")
        ksft_le(len(local_groups(pair.a)), 2048 + 20)
        wait_until(lambda: len(local_groups(pair.a)) <= 1600, 40,
                   "unused ones go")
        last = limited()
        sock.sendto(b"x", ("239.3.99.99", 9))
        ksft_eq(limited(), last, "others have room")


@ours_only("the in-tree module says it for each attempt, or not at all")
@timeout(90)
def test_join_failure_logged():
    """A group that can't be joined is in the log, once."""
    pair = ends()
    place = kmsg_tail()
    group = "239.1.2.13"

    # Its report goes to a group that may have to be joined, too.
    mgid = mgid_of(group).hex(":", 2)

    def lines():
        return kmsg_since(place, f"group {mgid} not joined: no answer")

    pair.b.port.fault("sa_drop", 1)
    with mcast_receiver(pair.b, group) as sink:
        wait_until(lines, 30, "a line in the log")
        failures = counter(pair.b, "mcast_join_failures")
        wait_until(lambda: counter(pair.b, "mcast_join_failures") > failures,
                   30, "another attempt")
        ksft_eq(len(lines()), 1)
        pair.b.port.set("sa_drop", 0)
        mcast_start(pair.a, group, sink)


def test_many_groups():
    """Many groups are joined at once, left, and joined while they are left."""
    pair = ends()
    groups = [f"239.2.0.{n}" for n in range(1, 151)]
    want = {mgid_text(mgid_of(g)) for g in groups}
    for end in pair:
        end.ns.sysctl("net.ipv4.igmp_max_memberships", 200)

    @contextlib.contextmanager
    def members():
        with mcast_receiver(pair.b, groups[0]) as sink:
            for group in groups[1:]:
                mcast_join(sink.sock, group, pair.b.ifindex())
            yield sink

    def all_get_one(sink):
        def all_flow():
            for number, group in enumerate(groups):
                if number not in sink.seen:
                    mcast_send(pair.a, group, sink, 1, first=number)
            return sink.drain() == len(groups)

        wait_until(all_flow, 10, "one datagram for each group", interval=0.2)

    def in_sa(group):
        return gid_text(pair.b.port) in sa_members(mgid_of(group))

    with members() as sink:
        wait_until(lambda: want <= set(sa_groups()), 10, "all groups",
                   interval=0.2)
        for group in (groups[0], groups[-1]):
            wait_members(mgid_of(group), pair.b)
        all_get_one(sink)
    wait_until(lambda: len(want & set(local_groups(pair.b))) < len(want), 5,
               "the first is left", interval=0.002)
    with members() as sink:
        all_get_one(sink)
        for group in groups[::10]:
            ksft_true(in_sa(group), f"{group} has the member")
    wait_until(lambda: not want & set(local_groups(pair.b)), 10,
               "none is left over")
    wait_until(lambda: not any(in_sa(group) for group in groups[::10]), 10,
               "the SA knows")


def test_join_while_down():
    """Groups joined while the interface is down are joined when it is up."""
    pair = ends()
    group = "239.1.2.12"
    pair.b.set("down")
    defer(pair.b.wait_carrier)
    defer(pair.b.up)
    with mcast_receiver(pair.b, group) as sink:
        ksft_eq(sa_members(mgid_of(group)), [])
        pair.b.up()
        pair.b.wait_carrier()
        wait_members(mgid_of(group), pair.b)
        pair.wait_ping()
        mcast_start(pair.a, group, sink)
        mcast_send(pair.a, group, sink, 10, gap=0.002)
        ksft_eq(sink.collect(10, slow(2)), 10)


def test_down_leaves():
    """Going down leaves every group."""
    pair = ends()
    pair.b.set("down")
    defer(pair.wait_ping)
    defer(pair.b.wait_carrier)
    defer(pair.b.up)
    broadcast = bytes.fromhex("ff12401bffff000000000000ffffffff")
    wait_until(lambda: gid_text(pair.b.port) not in sa_members(broadcast), 5,
               "h2 is no member any more")
    ksft_in(gid_text(pair.a.port), sa_members(broadcast))


def test_umcast():
    """With umcast on, multicast still works."""
    pair = ends()
    for end in pair:
        write(end.sys("umcast"), "1\n")
        defer(write, end.sys("umcast"), "0\n")
    group = "239.1.2.13"
    with mcast_receiver(pair.b, group) as sink:
        wait_members(mgid_of(group), pair.b)
        mcast_start(pair.a, group, sink)
        mcast_send(pair.a, group, sink, 10, gap=0.002)
        ksft_eq(sink.collect(10, slow(2)), 10)


def test_counted():
    """Received multicast is counted as such."""
    pair = ends()
    before = pair.b.stats()
    group = "239.1.2.14"
    with mcast_receiver(pair.b, group) as sink:
        wait_members(mgid_of(group), pair.b)
        mcast_start(pair.a, group, sink)
        mcast_send(pair.a, group, sink, 25, gap=0.002)
        ksft_eq(sink.collect(25, slow(1.5)), 25)
    for name in ("rx_packets", "multicast"):
        wait_until(lambda n=name: pair.b.stat(n) - before[n] >= 25, 3, name)


@timeout(90)
def test_churn():
    """Groups come and go under unicast and multicast traffic."""
    pair = ends()
    with mcast_receiver(pair.b, "239.3.0.1") as sink:
        flood = Flood(pair.a, "239.3.0.1", 100, gap=0.005, port=sink.port,
                      sock=mcast_sender(pair.a, "239.3.0.1"))
        defer(flood.stop)
        index = pair.b.ifindex()
        for round_ in range(6):
            for number in range(2, 12):
                mcast_join(sink.sock, f"239.3.{round_}.{number}", index)
            tcp_transfer(pair.a, pair.b, 1 << 19)
            for number in range(2, 12):
                mcast_leave(sink.sock, f"239.3.{round_}.{number}", index)
        got = sink.drain()
        ksft_ge(got, 10, "datagrams of the lasting group")
        before = got
        wait_until(lambda: sink.drain() > before + 5, 5, "more of them")


def test_static_routes():
    """ip maddr shows what is joined; a link-layer group added by hand."""
    pair = ends()
    shown = ip(["maddr", "show", "dev", pair.a.ifname],
               ns=pair.a.ns).stdout
    ksft_in("224.0.0.1", shown)
    ksft_in("00:ff:ff:ff:ff:12:40:1b:ff:ff", shown)
    ksft_true(hca(0).exists())


if __name__ == "__main__":
    main(globals())
