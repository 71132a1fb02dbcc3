# SPDX-License-Identifier: GPL-2.0-only
"""
P_Keys come, go and move while children exist, by the real OpenSM, which reads
partitions.conf again.  Traffic in other partitions does not notice.
"""

import re

from lib import (Stream, defer, ends, fixed_in_ours, in_groups, ksft_eq, ksft_false,
                 ksft_in, ksft_not_in, ksft_true, mcast_receiver, mgid_of,
                 ours_only, ping, ping_ok, read, slow, sm, tcp_transfer, timeout,
                 wait_until)
from lib.child import (Children, answer_for_themselves, child_by_ip,
                       children)
from lib.traffic import mcast_start

BOOT = {"hcas": 2, "seconds": 150}

NEW = 0x8042
KEY = "late=0x0042, ipoib, defmember=full: ALL;"
# So there is no IPv6 in the new partition.
OLD_GROUPS = "known since 2021: mapped addresses keep the old P_Key"


def full_members(text):
    """The partitions so far and another one."""
    return f"{sm.partitions()}\n{text}\n"


def grant(pair, text=KEY, pkey=NEW):
    """Have OpenSM give both ports a P_Key; the deferred call that ends it."""
    old = sm.partitions()

    def back():
        sm.set_partitions(old)
        sm.sweep()
        wait_until(lambda: not any(has(end, pkey) for end in pair), 15,
                   "the key was taken away")

    again = defer(back)
    sm.set_partitions(full_members(text))
    sm.sweep()
    for end in pair:
        wait_until(lambda e=end: has(e, pkey), 15, f"{pkey:#x} on {end}")
    return again


def has(end, pkey):
    return pkey & 0x7fff in [key & 0x7fff for key in end.port.pkeys()]


def bystanders(pair):
    """A stream in a partition that nobody touches."""
    both = children(pair, 0x800f, 15)
    stream = Stream(both.a, both.b, rate=1 << 20)
    stream.wait_progress()
    return both, stream


@timeout(150)
def test_granted_late():
    """A child waits without a carrier, and works once its P_Key is there."""
    pair = ends()
    both = Children(child_by_ip(pair.a, NEW), child_by_ip(pair.b, NEW))
    for child in both:
        child.up()
        ksft_false(child.carrier(), "a carrier without the P_Key")
    others, stream = bystanders(pair)
    grant(pair)
    both.ready()
    tcp_transfer(both.a, both.b, 1 << 18)
    stream.wait_progress()
    stream.finish()
    ping_ok(others.a.ns, others.b.v4)


@in_groups("core", "children")
@timeout(200)
def test_taken_and_given():
    """A P_Key is taken and given back, twice; others do not notice."""
    pair = ends()
    gift = grant(pair)
    both = children(pair, NEW)
    others, stream = bystanders(pair)
    lost = {child: child.stat("tx_dropped") for child in others}
    for _ in range(2):
        gift.exec()
        for child in both:
            child.wait_no_carrier()
        ksft_false(ping(both.a.ns, both.b.v4, limit=0.5))
        stream.wait_progress()
        gift = grant(pair)
        both.ready()
        stream.wait_progress()
    for child in others:
        ksft_true(child.carrier())
        ksft_eq(child.stat("tx_dropped"), lost[child], "others' drops")
    stream.finish()


def place(end, pkey):
    """The index of a P_Key in the table."""
    for line in end.port.get("pkeys").splitlines():
        index, key = (int(word, 0) for word in line.split())
        if key == pkey:
            return index
    return None


@in_groups("core", "children")
@timeout(150)
def test_index_moves():
    """A P_Key moves in the table: the child follows it, others stay."""
    pair = ends()
    both = children(pair, 0x8003, 3)
    others, stream = bystanders(pair)
    end = pair.b
    old = place(end, 0x8003)
    free = max(place(end, key) for key in end.port.pkeys()) + 3

    def move(source, target):
        end.port.set("set_pkey", f"{target} 0x8003")
        end.port.set("set_pkey", f"{source} 0")

    back = defer(move, free, old)
    move(old, free)
    both.ready()
    tcp_transfer(both.a, both.b, 1 << 18)
    back.exec()
    both.ready()
    # At two places at once, then the first one goes.
    end.port.set("set_pkey", f"{free} 0x8003")
    ping_ok(both.a.ns, both.b.v4, limit=slow(2))
    back = defer(move, free, old)
    end.port.set("set_pkey", f"{old} 0")
    both.ready()
    stream.wait_progress()
    stream.finish()
    ksft_true(others.a.carrier())


def with_index_0(pair, first):
    """Let a P_Key be at index 0 of both ports, and the default one behind."""
    for end in pair:
        second = 0xffff if first != 0xffff else 0x8001
        at = 1 if first != 0xffff else place(end, 0xffff)
        end.port.set("set_pkey", f"0 {first:#x}")
        end.port.set("set_pkey", f"{at or 1} {second:#x}")
    for end in pair:
        wait_until(lambda e=end: int(e.read("pkey"), 16) == first, 10,
                   f"{end} in the partition")


@fixed_in_ours(OLD_GROUPS)
@timeout(150)
def test_index_0():
    """The parent follows index 0; its children keep their own P_Keys."""
    pair = ends()
    both = children(pair, 0x8005, 5)
    ksft_eq(pair.a.port.pkeys()[1], 0x8001)
    defer(pair.ready)
    defer(with_index_0, pair, 0xffff)
    with_index_0(pair, 0x8001)
    pair.ready()
    for child in both:
        ksft_eq(child.read("pkey"), "0x8005")
    both.ready()
    tcp_transfer(both.a, both.b, 1 << 18)


@timeout(150)
@ours_only(OLD_GROUPS)
def test_mapped_groups():
    """Groups that were joined before the P_Key changed are joined under it."""
    pair = ends()
    group = "239.5.6.7"
    sink = mcast_receiver(pair.b, group)
    defer(sink.close)
    mcast_start(pair.a, group, sink)
    defer(pair.ready)
    defer(with_index_0, pair, 0xffff)
    with_index_0(pair, 0x8001)
    pair.ready()
    mcast_start(pair.a, group, sink)
    text = read(f"/sys/kernel/debug/ipoib/{pair.b.ifname}_mcg")
    mgids = [line.split()[1] for line in text.splitlines()
             if line.startswith("GID:")]
    new = mgid_of(group, 0x8001).hex()
    ksft_in(new, [m.replace(":", "") for m in mgids])
    ksft_not_in(mgid_of(group, 0xffff).hex(),
                [m.replace(":", "") for m in mgids])


@timeout(200)
def test_limited():
    """A limited member talks to full ones; two limited ones do not."""
    pair = ends()
    guid = pair.b.port.guid()
    half = (f"half=0x0042, ipoib: {pair.a.port.guid():#x}=full, "
            f"{guid:#x}=limited;")
    gift = grant(pair, half)
    wait_until(lambda: 0x0042 in pair.b.port.pkeys(), 10,
               "the limited key")
    ksft_in(NEW, pair.a.port.pkeys())
    both = children(pair, NEW)
    for child in both:
        ksft_eq(int(str(child.data()["key"]), 16), NEW)
    tcp_transfer(both.a, both.b, 1 << 18)
    gift.exec()
    grant(pair, f"half=0x0042, ipoib: {pair.a.port.guid():#x}=limited, "
          f"{guid:#x}=limited;")
    wait_until(lambda: 0x0042 in pair.a.port.pkeys(), 10, "both are limited")
    ksft_false(ping(both.a.ns, both.b.v4, limit=slow(1)),
               "two limited members talk")


@timeout(120)
def test_never_granted():
    """Children whose P_Keys never come are opened, closed and deleted."""
    pair = ends()
    for number in range(5):
        child = child_by_ip(pair.a, 0x8100 + number, 100 + number)
        child.up()
        if number % 2:
            child.set("down")
        ksft_false(child.read("operstate") == "up")
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(150)
def test_many_changes():
    """The table changes all the time; in the end it is as before."""
    pair = ends()
    both = children(pair, 0x8004, 4)
    end = pair.b
    old = place(end, 0x8004)
    defer(end.port.set, "set_pkey", f"{old} 0x8004")
    for number in range(30):
        end.port.set("set_pkey",
                     f"{old} {'0x8004' if number % 2 else '0'}")
    end.port.set("set_pkey", f"{old} 0x8004")
    both.ready()
    ping_ok(pair.a.ns, pair.b.v4)


def wait_place(end, pkey, index):
    wait_until(lambda: place(end, pkey) == index, 20,
               f"{pkey:#x} at index {index} of {end}")


@fixed_in_ours(OLD_GROUPS)
@timeout(200)
def test_index_0_by_sm():
    """OpenSM moves a P_Key to index 0 and back: parent and children follow."""
    pair = ends()
    # For a while parents and children are in one partition.
    answer_for_themselves(pair)
    both = children(pair, 0x8001, 1)
    others, stream = bystanders(pair)
    old = sm.partitions()

    def back():
        # OpenSM leaves a key where it is unless it is told.
        sm.set_partitions(old.replace("0x7fff, ipoib", "0x7fff, ipoib, indx0"))
        sm.sweep()
        for end in pair:
            wait_place(end, 0xffff, 0)
        sm.set_partitions(old)
        sm.sweep()
        pair.ready()

    again = defer(back)
    sm.set_partitions(re.sub(r"0x8001, ipoib", "0x8001, ipoib, indx0", old))
    sm.sweep()
    for end in pair:
        wait_place(end, 0x8001, 0)
        wait_until(lambda e=end: e.read("pkey") == "0x8001", 10, "the parent")
    for each in (pair, both):
        each.ready()
        tcp_transfer(each.a, each.b, 1 << 17)
    stream.wait_progress()
    again.exec()
    both.ready()
    stream.wait_progress()
    stream.finish()
    ksft_true(others.b.carrier())
