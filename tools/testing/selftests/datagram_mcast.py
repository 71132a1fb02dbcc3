# SPDX-License-Identifier: GPL-2.0-only
"""Multicast: memberships, delivery to members only, send-only groups."""

import contextlib
import ipaddress
import random
import re
import socket
import struct
import threading

from lib import (Capture, Flood, UdpSink, any_ends, counted, defer, ends, fabric,
                 fixed_in_ours, hca, hold, ip, kmsg_since, kmsg_tail, ksft_eq, ksft_ge,
                 ksft_in, ksft_le, ksft_lt, ksft_not_in, ksft_pr, ksft_true,
                 mcast_receiver, mcast_sender, mgid_of, neigh_flush, not_ud, now,
                 ours_only, own_interfaces, ping, ping_ok, port, read, sa_query, slow,
                 tcp_transfer, timeout, wait_until, write)
from lib.connected import counter
from lib.ipoib import End, mgid_text
from lib.sa import sa_members, sa_records
from lib.traffic import (SO_SNDBUFFORCE, datagram, mcast_join, mcast_leave,
                         mcast_send, mcast_start)

BOOT = {"hcas": 3, "seconds": 100}

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


def is_joined(end, group):
    """Does debugfs show the group as joined?  Quick among hundreds of them."""
    gid = ":".join(f"0*{word:x}"
                   for word in struct.unpack(">8H", mgid_of(group)))
    return bool(re.search(rf"GID: *{gid}\s[^G]*complete: *yes",
                          read(f"{DEBUGFS}/{end.ifname}_mcg")))


def waiting(end):
    """MGID text -> (is it joined, packets that wait for it)."""
    return {gid: (bool(re.search(r"complete: *yes", text)),
                  int(re.search(r"queuelen: *(\d+)", text)[1]))
            for gid, text in local_groups(end).items()}


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


def solicited(address):
    """The group that solicitations for an IPv6 address go to."""
    return f"ff02::1:ff{address.packed[13]:02x}:{int(address) & 0xffff:04x}"


def solicitations(packets, address):
    """The solicitations for an address among these packets."""
    return [packet for packet in packets.of(0x86dd)
            if packet.data[6] == socket.IPPROTO_ICMPV6 and packet.data[40] == 135 and
            packet.data[48:64] == address.packed]


def first_address(pair):
    """An address of the second end, to whose group nobody has sent."""
    number = random.randrange(0x100, 0xffff)
    address = ipaddress.IPv6Address(int(ipaddress.IPv6Address(pair.b.v6)) +
                                    (number << 8))
    ksft_pr(f"IPv6 address {address}")
    ip(["addr", "add", f"{address}/64", "dev", pair.b.ifname, "nodad"], ns=pair.b.ns)
    defer(ip, ["addr", "del", f"{address}/64", "dev", pair.b.ifname], ns=pair.b.ns)
    return address


@fixed_in_ours("the first solicitation goes where the fabric carries nothing yet")
@not_ud("which group a packet came by is not told")
def test_first_solicitation():
    """All solicitations for a new address arrive, of which the first is answered."""
    pair = ends()
    for _ in range(8):
        address = first_address(pair)
        wait_members(mgid_of(solicited(address)), pair.b)
        with Capture(pair.a, outgoing=True) as sent, Capture(pair.b) as came:
            ksft_true(ping(pair.a.ns, str(address), limit=10), address)
        ksft_eq([p.kind for p in solicitations(came, address)],
                ["broadcast"] * len(solicitations(sent, address)))


@ours_only("it uses the group at once")
@not_ud("which group a packet came by is not told")
def test_settled_solicitation():
    """Once the fabric carries the group, solicitations go there alone."""
    pair = ends()
    address = first_address(pair)
    wait_members(mgid_of(solicited(address)), pair.b)
    ksft_true(ping(pair.a.ns, str(address), limit=10))
    wait_until(lambda: is_joined(pair.a, solicited(address)), 5, "send-only")
    hold(3.5)       # IPOIB_MCAST_SETTLE, which nothing shows
    neigh_flush(pair.a)
    with Capture(pair.b) as came:
        ksft_true(ping(pair.a.ns, str(address), limit=10))
    ksft_eq([p.kind for p in solicitations(came, address)], ["multicast"])


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


def third_host():
    third = End("h3", port(2), 3, 0)
    defer(third.drop)
    third.setup()
    third.wait_carrier()
    return third


def test_members_only():
    """A third host that is no member sees nothing of it."""
    pair, third = ends(), third_host()
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
    pair, third = ends(), third_host()
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
    pair, third = ends(), third_host()
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


@contextlib.contextmanager
def in_use(sock, which, gap=0.0):
    """Have something sent to the places of which() again and again."""
    stop = threading.Event()

    def send():
        while not stop.is_set():
            for place in which():
                with contextlib.suppress(OSError):
                    sock.sendto(b"x", socket.MSG_DONTWAIT, place)
            if gap:
                stop.wait(gap)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


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

    def beyond():
        """
        All arrive.  If the flood is so slow that groups grow old meanwhile, there is
        room: then they wait for the SA, in a group that is soon forgotten.
        """
        ksft_eq(mcast_send(pair.a, group, sink, 10), 10)
        return sink.collect(10, slow(1)) == 10

    first = limited()
    # Nobody is asked, so that it is not the SA that limits them.
    defer(pair.ready)
    defer(pair.a.up)
    pair.a.port.fault("sa_drop", 1)
    defer(pair.a.set, "down")
    with mcast_sender(pair.a, "239.3.0.0") as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 25)
        places = [(f"239.3.{number >> 8}.{number & 255}", 9)
                  for number in range(2300)]
        for place in places:
            sock.sendto(b"x", place)
        # Fewer if this took so long that the first ones were gone.
        over = limited() - first
        ksft_le(over, 2300 - 2048 + 50, "as many as that were made")
        # Unused for five seconds they go, and others would have room.
        with in_use(sock, lambda: places, gap=1):
            wait_until(lambda: limited() >= first + over + 200 and
                       len(local_groups(pair.a)) >= 2048, 20,
                       "as many groups as there may be")
            # By the broadcast group, also to find a neighbour
            wait_until(beyond, 60, "datagrams beyond the limit", interval=7)
            ping_ok(pair.a.ns, v6)
            found = local_groups(pair.a)
            for missing in (group, "ff02::1:ff98:1234"):
                ksft_not_in(mgid_text(mgid_of(missing)), found)
            ksft_le(len(found), 2048 + 20)
        wait_until(lambda: len(local_groups(pair.a)) <= 1600, 40,
                   "unused ones go")
        last = limited()
        sock.sendto(b"x", ("239.3.99.99", 9))
        ksft_eq(limited(), last, "others have room")


@ours_only("how packets wait for a group differs")
@timeout(90)
def test_nothing_stuck():
    """Nothing waits for a group that was joined in the midst of a flood."""
    pair = ends()
    # It leaves them all at once.
    defer(pair.ready)
    defer(pair.a.up)
    defer(pair.a.set, "down")
    places = [("239.4.255.255", 9)]
    with mcast_sender(pair.a, "239.4.0.0") as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 25)
        with in_use(sock, lambda: places[-1:]):
            end = now() + 7
            while len(places) < 500 and now() < end:
                group = f"239.4.{len(places) >> 8}.{len(places) & 255}"
                places.append((group, 9))
                wait_until(lambda g=group: is_joined(pair.a, g), 10,
                           f"{group} joined", interval=0.002)
        found = waiting(pair.a)
    ksft_pr(f"{len(places)} groups")
    ksft_ge(len(places), 20, "groups")
    ksft_eq({gid: count for gid, (joined, count) in found.items()
             if joined and count}, {}, "packets that wait for joined groups")


@ours_only("how packets wait for a group differs")
@timeout(150)
def test_unjoined_blocks_no_socket():
    """
    What is sent to groups that can't be joined waits for a while only: then
    its socket can send to others again, and it never arrives.
    """
    pair = ends()
    groups = ("239.1.2.15", "239.1.2.16")
    sinks = [mcast_receiver(pair.a, group) for group in groups]
    for sink in sinks:
        defer(sink.close)
    for group in groups:
        wait_members(mgid_of(group), pair.a)
    places = [(group, sink.port) for group, sink in zip(groups, sinks)]
    peer = UdpSink(pair.a.ns, pair.a.v4)
    defer(peer.close)
    sock = mcast_sender(pair.b, groups[0])
    defer(sock.close)
    ping_ok(pair.b.ns, pair.a.v4)

    def send(number, where, size=200):
        return sock.sendto(datagram(number, size), socket.MSG_DONTWAIT, where)

    def queued():
        found = waiting(pair.b)
        return sum(found[mgid_text(mgid_of(group))][1] for group in groups)

    fault = pair.b.port.fault("sa_drop", 1)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while sent < 200:
            send(sent, places[sent % 2], 1400)
            sent += 1
    ksft_lt(sent, 200, "datagrams that fill the socket's buffer")
    ksft_ge(queued(), 20, "datagrams that wait")
    # Joins fail after 3.3 s, and are tried again after 1, 2 and 4 s and up to
    # a quarter more, whatever the machine: the fourth fails after 22 s.
    begin = now()
    wait_until(lambda: send(1000, (pair.a.v4, peer.port)), 60,
               "room in the socket's buffer", scale=False)
    ksft_pr(f"{sent} datagrams blocked a socket for {now() - begin:.1f} s")
    ksft_eq(peer.collect(1, slow(2)), 1, "a datagram to the peer")
    wait_until(lambda: queued() == 0, 20, "nothing that waits", scale=False)

    fault.exec()
    # It would be eight seconds until the next attempt.
    pair.b.port.event("client_reregister")

    def arrives(number):
        send(2000, places[number])
        sinks[number].drain()
        return 2000 in sinks[number].seen

    for number, group in enumerate(groups):
        wait_until(lambda n=number: arrives(n), 20, f"a datagram to {group}",
                   interval=0.2)
        ksft_true(is_joined(pair.b, group), f"{group} is joined")
        ksft_eq(set(sinks[number].seen), {2000}, "numbers of datagrams")


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


@ours_only("the in-tree module's rings can't be resized")
@timeout(120)
@not_ud("no ethtool -G")
def test_umcast_restart():
    """With umcast on, an interface that restarts joins all groups again."""
    pair = ends()
    write(pair.a.sys("umcast"), "1\n")
    defer(write, pair.a.sys("umcast"), "0\n")
    limit = "net.ipv4.igmp_max_memberships"
    defer(pair.a.ns.sysctl, limit, pair.a.ns.sysctl(limit))
    pair.a.ns.sysctl(limit, 50)
    groups = [f"239.5.0.{number}" for number in range(1, 101)]
    want = {mgid_text(mgid_of(group)) for group in groups}
    index = pair.a.ifindex()
    sinks = []
    for first in range(0, len(groups), 25):
        sinks.append(mcast_receiver(pair.a, groups[first]))
        defer(sinks[-1].close)
        for group in groups[first + 1:first + 25]:
            mcast_join(sinks[-1].sock, group, index)

    def all_joined():
        """The driver knows first; what the SA had before may linger there."""
        found = waiting(pair.a)
        return all(found[gid][0] for gid in want) and \
            want <= set(sa_groups()) and \
            all(gid_text(pair.a.port) in sa_members(mgid_of(group))
                for group in groups[::20])

    wait_until(all_joined, 15, "membership of all groups", interval=0.2)
    old = int(re.search(r"Current.*?\nTX:\s*(\d+)",
                        pair.a.ethtool("-g").stdout, re.S)[1])
    defer(pair.ready)
    defer(pair.a.ethtool, f"-G tx {old}", fail=False)
    for size in (64 if old != 64 else 128, old):
        # New queues: it leaves all groups, and joins while that goes on.
        pair.a.ethtool(f"-G tx {size}")
        wait_until(all_joined, 15, f"membership with a ring of {size}",
                   interval=0.2)
    for group, sink in ((groups[0], sinks[0]), (groups[-1], sinks[-1])):
        mcast_start(pair.b, group, sink)
        mcast_send(pair.b, group, sink, 1)
        ksft_eq(sink.collect(1, slow(2)), 1, f"a datagram to {group}")


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
    # An HCA that receives by itself may not tell them from others.
    more = {} if own_interfaces() else {"multicast": 25}
    counted(pair.b, before, rx_packets=25, **more)


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
