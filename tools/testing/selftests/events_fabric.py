# SPDX-License-Identifier: GPL-2.0-only
"""What happens on the fabric: LIDs, SM, cables, P_Keys, prefixes."""

import functools
import re
import threading

from lib import (Flood, Stream, UdpSink, cmd, defer, ends, fixed_in_ours, hold,
                 ip, ksft_eq, ksft_ge, ksft_in, ksft_le, ksft_pr, ksft_true,
                 mcast_flow, mcast_passes, mcast_receiver, neigh_flush, now,
                 ping, ping_ok, port, slow, sm, stagger, tcp_transfer, timeout,
                 verbs_only, wait_until)
from lib.connected import counters
from lib.traffic import mcast_start

# HCA 0 runs the SM, the hosts are on 1 and 2: what happens to them does not
# happen to the SM.
BOOT = {"hcas": 3, "seconds": 150}


def hosts():
    return ends(1, 2)


def longest_gap(pair, action, seconds=0.0, gap=0.01):
    """
    Datagrams every @gap seconds while @action runs and @seconds more; the
    longest time without an arrival, and how many were lost.
    """
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        with Flood(pair.a, pair.b.v4, 100, gap=gap, port=sink.port) as flood:
            wait_until(lambda: sink.drain() > 5, 5, "datagrams")
            begin = last = now()
            worst = 0.0
            seen = sink.drain()
            end = None
            state = {"done": False}

            def run():
                try:
                    action()
                finally:
                    state["done"] = True

            worker = threading.Thread(target=run, daemon=True)
            worker.start()
            while end is None or now() < end:
                count = sink.drain()
                if count > seen:
                    worst = max(worst, now() - last)
                    seen, last = count, now()
                if state["done"] and end is None:
                    end = now() + seconds
                if now() - begin > slow(45):
                    break
                hold(0.005)
            worker.join(1)
            worst = max(worst, now() - last)
            flood.stop()
            sink.collect(flood.sent, slow(1.5))
            return worst, flood.sent - len(sink.seen)


@verbs_only("LIDs that packets come from")
@timeout(90)
@fixed_in_ours("its paths outlive the LID of the peer: no traffic for good")
def test_peer_lid_change():
    """The peer gets another LID; no event tells the local port."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    old = pair.b.port.lid()
    defer(sm.restart)
    sm.give_lids({pair.b.port: old + 16})
    took = pair.wait_ping(10)
    ksft_pr(f"traffic again after {took:.1f} s")
    tcp_transfer(pair.a, pair.b, 1 << 20)
    ping_ok(pair.a.ns, pair.b.v6, limit=slow(2))


@timeout(90)
def test_own_lid_change():
    """The own port gets another LID: groups are joined and paths found."""
    pair = hosts()
    old = pair.a.port.lid()
    defer(sm.restart)
    sm.give_lids({pair.a.port: old + 16}, rereg=True)
    pair.wait_ping(15)
    pair.wait_ping(15, reverse=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)
    mcast_passes(pair.b, pair.a, "239.1.6.1")


@timeout(90)
def test_lids_swapped():
    """The two hosts exchange their LIDs: nobody talks to the wrong one."""
    pair = hosts()
    one, two = pair.a.port.lid(), pair.b.port.lid()
    defer(sm.restart)
    # Over free numbers: OpenSM does not take one that is in use.
    sm.give_lids({pair.a.port: two + 32, pair.b.port: one + 32}, rereg=True)
    sm.give_lids({pair.a.port: two, pair.b.port: one}, rereg=True)
    pair.wait_ping(20)
    pair.wait_ping(20, reverse=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(90)
def test_sm_restart():
    """OpenSM restarts under traffic."""
    pair = hosts()
    stream = Stream(pair.a, pair.b, rate=2 << 20)
    sm.stop()
    stream.wait_progress()
    sm.start()
    sm.answers()
    stream.wait_progress()
    stream.finish()
    mcast_passes(pair.a, pair.b, "239.1.6.2", limit=20)


@timeout(120)
def test_sm_change():
    """Another port becomes the master SM."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    quick = {"sminfo_polling_timeout": 500, "polling_retry_number": 2}
    defer(sm.restart)
    # Priorities are equal: the lower GUID, HCA 0, remains the master.
    two = sm.spawn(port(1), priority=0, conf=quick)
    wait_until(lambda: "STANDBY" in cmd(
        ["sminfo", port(1).lid()], fail=False).stdout, 15, "a standby SM")
    stream = Stream(pair.a, pair.b, rate=2 << 20)
    sm.stop(hard=True, but=two)
    wait_until(lambda: pair.b.port.sm_lid() == port(1).lid(), 20,
               "the second SM is the master")
    stream.wait_progress()
    stream.finish()
    mcast_passes(pair.b, pair.a, "239.1.6.3", limit=20)
    neigh_flush(pair.a)
    # The broadcast group may be joined again after the other one.
    pair.wait_ping(20)


@timeout(90)
def test_reregister_no_gap():
    """A request to register again makes no gap in unicast traffic."""
    pair = hosts()

    def ask():
        for _ in range(5):
            for end in pair:
                end.port.event("client_reregister")
            hold(0.4)       # they are to be five requests, not one

    worst, lost = longest_gap(pair, ask, 1)
    ksft_pr(f"longest gap {worst * 1000:.0f} ms, {lost} lost")
    ksft_le(lost, 0, "datagrams lost")


def test_reregister():
    """After it, unicast and multicast work and memberships are fresh."""
    pair = hosts()
    with mcast_flow(pair.a, pair.b, "239.1.6.4") as (sink, flows):
        for end in pair:
            end.port.event("client_reregister")
        pair.wait_ping()
        sink.drain()
        seen = sink.octets
        wait_until(lambda: flows() and sink.octets > seen, 10,
                   "more multicast", interval=0.2)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_prefix_change():
    """The subnet prefix changes: the address follows, traffic resumes."""
    pair = hosts()

    def back():
        sm.restart()
        wait_until(lambda: pair.a.port.prefix() == "fe80000000000000", 15,
                   "the old prefix")
        sm.answers()

    defer(back)
    sm.stop()
    sm.start("--subnet_prefix", "0xfec0000000000001")
    for end in pair:
        wait_until(lambda e=end: e.port.prefix() == "fec0000000000001", 15,
                   f"the new prefix on {end}")
    for end in pair:
        wait_until(lambda e=end: e.address()[4:12].hex() ==
                   "fec0000000000001", 10, f"the new address of {end}")
    for end in pair:
        neigh_flush(end)
    pair.wait_ping(20)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@verbs_only("peers that are heard")
@timeout(120)
def test_peer_returns():
    """A host that was away is answered at once, whatever the SA said meanwhile."""
    pair = hosts()
    lladdr = pair.b.address().hex(":")
    defer(pair.b.wait_carrier, 20)
    again = defer(pair.b.port.link, True)
    pair.b.port.link(False)
    pair.b.wait_no_carrier()
    # Without a path of before, which would be used for now.
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier()
    ip(f"neigh replace {pair.b.v4} lladdr {lladdr} nud permanent dev {pair.a.ifname}",
       ns=pair.a.ns)
    defer(ip, f"neigh del {pair.b.v4} dev {pair.a.ifname}", ns=pair.a.ns)
    failures = counters(pair.a).get("path_failures", 0)
    # The next back-off is of four seconds to eight.
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.2) or
               counters(pair.a).get("path_failures", failures + 6) >= failures + 6,
               30, "back-off", interval=0)
    again.exec()
    pair.b.wait_carrier()
    neigh_flush(pair.b)
    took = pair.wait_ping(20, reverse=True)
    ksft_pr(f"{took:.2f} s")
    ksft_le(took, slow(1), "seconds")


@timeout(120)
def test_link_flap():
    """Cables are pulled and put back under traffic."""
    pair = hosts()
    stream = Stream(pair.a, pair.b, rate=4 << 20)
    for end in (pair.b, pair.a):
        defer(end.port.link, True)
        stream.wait_progress()
        end.port.link(False)
        end.wait_no_carrier()
        end.port.link(True)
        end.wait_carrier()
        pair.wait_ping(20)
        stream.wait_progress(limit=30)
    stream.finish()


@timeout(120)
def test_link_bounce():
    """A cable with a loose contact, thirty times: calm afterwards."""
    pair = hosts()
    defer(pair.b.port.link, True)
    for number in range(30):
        pair.b.port.link(bool(number % 2))
        stagger(number % 4)
    pair.b.port.link(True)
    pair.b.wait_carrier(20)
    pair.wait_ping(20)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_pkey_moves():
    """The P_Key of index 0 changes place in the table and comes back."""
    pair = hosts()
    old = sm.partitions()

    def back():
        sm.set_partitions(old)
        sm.sweep()
        for end in pair:
            wait_until(lambda e=end: e.port.pkey(0) == 0xffff and
                       0x8042 not in e.port.pkeys(), 15, "the keys")
        pair.wait_ping(20)

    defer(back)
    for end in pair:
        keys = end.port.pkeys()
        ksft_eq(keys[0], 0xffff)
    # Another key in between, then the default key moves or stays; the
    # interface's key must be usable whatever its index.
    sm.set_partitions(old + "\nmore=0x0042, ipoib: ALL=full;\n")
    sm.sweep()
    for end in pair:
        wait_until(lambda e=end: 0x8042 in e.port.pkeys(), 10, "a new key")
    pair.wait_ping(20)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(60)
def test_pkey_index_swapped():
    """Table entries change places under the driver."""
    pair = hosts()
    end = pair.b
    keys = end.port.pkeys()
    ksft_ge(len(keys), 3)

    def restore():
        for index, key in enumerate(keys[:3]):
            end.port.set("set_pkey", f"{index} {key:#x}")
        end.wait_carrier()
        pair.wait_ping(20)

    defer(restore)
    # What is not the interface's own key may move without any effect.
    end.port.set("set_pkey", f"1 {keys[2]:#x}")
    end.port.set("set_pkey", f"2 {keys[1]:#x}")
    ping_ok(pair.a.ns, end.v4, count=3, limit=slow(3))
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(90)
def test_pkey_removed():
    """The interface's P_Key is taken away and given back."""
    pair = hosts()
    end = pair.b

    def restore():
        end.port.set("set_pkey", "0 0xffff")
        end.wait_carrier(20)
        pair.wait_ping(20)

    again = defer(restore)
    end.port.set("set_pkey", "0 0x0")
    wait_until(lambda: not ping(pair.a.ns, end.v4, limit=0.2), 10,
               "no traffic without the key")
    again.exec()
    ksft_eq(end.read("pkey"), "0xffff")
    tcp_transfer(pair.a, pair.b, 1 << 20)


@fixed_in_ours("known since 2021: mapped addresses keep the old P_Key")
@timeout(90)
def test_pkey_index_0():
    """Another P_Key comes to index 0 on both sides: the interfaces follow."""
    pair = hosts()
    keys = pair.a.port.pkeys()
    ksft_eq(keys[:2], pair.b.port.pkeys()[:2])

    def place(first, second):
        for end in pair:
            end.port.set("set_pkey", f"0 {first:#x}")
            end.port.set("set_pkey", f"1 {second:#x}")
        for end in pair:
            wait_until(lambda e=end: int(e.read("pkey"), 16) == first, 10,
                       f"P_Key of {end}")
            wait_until(lambda e=end: e.read("broadcast").replace(":", "")
                       [16:20] == f"{first:04x}", 10,
                       "P_Key in the broadcast address")
            end.wait_carrier(20)
        pair.wait_ping(20)

    def groups():
        text = ip("maddr show dev " + pair.b.ifname, ns=pair.b.ns).stdout
        return re.findall(r"link +([0-9a-f:]{59})", text)

    defer(place, keys[0], keys[1])
    group = "239.9.8.7"
    with mcast_receiver(pair.b, group) as sink:
        place(keys[1], keys[0])
        tcp_transfer(pair.a, pair.b, 1 << 20)
        ping_ok(pair.a.ns, pair.b.v4, count=3)
        mcast_start(pair.a, group, sink)
        ksft_eq({each.replace(":", "")[16:20] for each in groups()},
                {f"{keys[1]:04x}"}, "P_Keys of the stack's addresses")
        there = groups()
    # 28 bits of the address are at the end.
    wait_until(lambda: not [g for g in groups() if g.endswith("0f:09:08:07")
                            or g.endswith("ff:09:08:07")], 10,
               f"{group} of {there} is left")


def neighbours(end, *more):
    """Whom the stack knows the link-layer address of: their IP addresses."""
    shown = ip(["neigh", "show", "dev", end.ifname, *more], ns=end.ns,
               json_out=True)
    return {each["dst"] for each in shown if each.get("lladdr")}


@fixed_in_ours("keeps the neighbours known by the old P_Key")
def test_neighbours_of_old_pkey():
    """Who was on the link of the old P_Key is not taken for a neighbour now."""
    pair = hosts()
    keys = pair.a.port.pkeys()
    place = functools.partial(pair.b.port.set, "set_pkey")

    def back():
        for index in (0, 1):
            place(f"{index} {keys[index]:#x}")
        pair.ready()

    defer(back)
    ip(f"neigh replace 10.0.0.77 lladdr {pair.a.address().hex(':')} "
       f"dev {pair.b.ifname} nud permanent", ns=pair.b.ns)
    defer(ip, f"neigh del 10.0.0.77 dev {pair.b.ifname}", ns=pair.b.ns)
    ping_ok(pair.b.ns, pair.a.v4)
    ping_ok(pair.b.ns, pair.a.v6)
    known = {pair.a.v4, pair.a.v6}
    ksft_eq(known & neighbours(pair.b), known)
    for index in (0, 1):
        place(f"{index} {keys[1 - index]:#x}")
    wait_until(lambda: int(pair.b.read("pkey"), 16) == keys[1], 10, "the P_Key")
    wait_until(lambda: not known & neighbours(pair.b), 5,
               "the neighbours are forgotten")
    ksft_in("10.0.0.77", neighbours(pair.b, "nud", "permanent"))


def test_violations_counted():
    """Packets with a P_Key that the receiver lacks are counted there."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    table = pair.b.port.counters()
    for name in ("drop_pkey", "drop_qkey"):
        ksft_in(name, table)
    ping_ok(pair.a.ns, pair.b.v4, count=10)
    for name in ("drop_pkey", "drop_qkey"):
        ksft_eq(pair.b.port.counter(name), table[name], name)


@timeout(90)
def test_event_storm():
    """Events of all kinds, many at once, under traffic."""
    pair = hosts()
    stream = Stream(pair.a, pair.b, rate=2 << 20)
    for _ in range(10):
        for name in ("sm_change", "client_reregister", "lid_change",
                     "pkey_change", "gid_change"):
            for end in pair:
                end.port.event(name)
    pair.wait_ping(20)
    stream.wait_progress(limit=30)
    stream.finish()
    for end in pair:
        ksft_true(end.carrier())
    tcp_transfer(pair.b, pair.a, 1 << 20)


@timeout(90)
def test_third_host_undisturbed():
    """A storm of joins and a dead peer do not disturb other traffic."""
    pair = hosts()
    stream = Stream(pair.a, pair.b, rate=4 << 20)
    for number in range(60, 90):
        gid = pair.b.address()[:12] + bytes(6) + bytes([1, number])
        ip(["neigh", "replace", f"10.0.0.{number}", "lladdr", gid.hex(":"),
            "nud", "permanent", "dev", pair.a.ifname], ns=pair.a.ns)
    defer(ip, ["neigh", "flush", "dev", pair.a.ifname, "nud", "all"],
          ns=pair.a.ns)
    with pair.a.ns.socket(2, 2) as sock:
        for _ in range(3):
            for number in range(60, 90):
                sock.sendto(b"x" * 100, (f"10.0.0.{number}", 9))
            stream.wait_progress()
    stream.finish()
