# SPDX-License-Identifier: GPL-2.0-only
"""A thousand children, beside dummy devices: time, memory, calm."""

import statistics

from lib import (ROOT, Tracer, cmd, defer, ends, exists, fabric, ksft_eq,
                 ksft_ge, ksft_le, ksft_pr, ping_ok, read, slow, timeout,
                 wait_until, write)
from lib import many
from lib.child import Child, names_in
from lib.rtnl import Rtnl

QDISC = "/proc/sys/net/core/default_qdisc"
BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 120}


def fewer():
    """There are fewer on a kernel that looks for defects."""
    return 10 if exists("/sys/kernel/debug/kmemleak") else 1


@timeout(400)
def test_thousand():
    """A thousand are made, and deleted in one go, as quickly as dummies."""
    pair = ends()
    count = 1000 // fewer()
    cmd("modprobe dummy numdummies=0")
    talk = Rtnl(pair.a.ns)
    defer(talk.close)
    index = pair.a.ifindex()
    qps = len(pair.a.port.hca.data_qps())
    many.make(talk, 20, index)
    many.delete(talk)
    dummy = many.make(talk, count), many.delete(talk)
    ours = many.make(talk, count, index)
    ksft_eq(len(pair.a.port.hca.data_qps()), count + qps)
    ours = ours, many.delete(talk)
    ksft_pr(f"{count} made: {ours[0]:.2f} s, dummies {dummy[0]:.2f} s; "
            f"deleted: {ours[1]:.2f} s, {dummy[1]:.2f} s")
    ksft_eq(names_in(pair.a.ns, "m."), [])
    ksft_eq(len(pair.a.port.hca.data_qps()), qps)
    # Far from what is usual, as machines are noisy.
    ksft_le(ours[0], 6 * dummy[0] + 1, "seconds to make them")
    ksft_le(ours[1], 6 * dummy[1] + 1, "seconds to delete them")
    ping_ok(pair.a.ns, pair.b.v4)


def footprint(talk, end, count, parent):
    """KiB that a device takes when it is made, and when it is up."""
    before = many.memory()
    many.make(talk, count, parent)
    made = many.memory()
    many.bring_up(talk, count)
    for number in range(0, count if parent else 0, 7):
        Child(end, f"m.{number}", 9).wait_carrier(40)
    up = many.memory()
    many.delete(talk)
    return (made - before) / count, (up - before) / count


@timeout(400)
def test_memory():
    """A child that is up takes little more than a dummy."""
    count = 100 if fewer() == 1 else 20
    pair = ends()
    # A dummy has no queueing discipline, and the usual one takes 70 KiB.
    old = read(QDISC)
    defer(write, QDISC, old)
    write(QDISC, "pfifo")
    cmd("modprobe dummy numdummies=0")
    talk = Rtnl(pair.a.ns)
    defer(talk.close)
    used = {"dummy": [], "child": []}
    # The first round fills what caches keep.
    for _ in range(4):
        for kind, parent in (("dummy", 0), ("child", pair.a.ifindex())):
            used[kind].append(footprint(talk, pair.a, count, parent))
    used = {kind: [statistics.median(values) for values in
                   zip(*rounds[1:])] for kind, rounds in used.items()}
    made, up = (used["child"][n] - used["dummy"][n] for n in (0, 1))
    ksft_pr(f"beyond a dummy: {made:.0f} KiB made, {up:.0f} KiB up "
            f"({used})")
    if fewer() == 1:
        ksft_le(up, 96, "KiB for a child that is up")
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(400)
def test_idle():
    """Idle children have no timer and no work to do."""
    pair = ends()
    count = 1000 // fewer()
    talk = Rtnl(pair.a.ns)
    defer(talk.close)
    index = pair.a.ifindex()
    many.make(talk, count, index)
    defer(many.delete, talk)
    some = count // 10
    many.bring_up(talk, some)
    for number in range(0, some, 9):
        Child(pair.a, f"m.{number}", 9).wait_carrier(40)
    with Tracer(*many.EVENTS) as tracer:
        # What the stack says when an interface comes up takes a while.
        wait_until(lambda: not many.activity(tracer, 3), 150,
                   "three seconds in which the driver does nothing", 1)
        found = many.activity(tracer, 5)
    # Parents have some housekeeping; a timer for each child would be seen.
    ksft_le(sum(found.values()), 10, f"times that the driver ran: {found}")
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(400)
def test_unplug_thousand():
    """An HCA with a thousand children, a hundred of them up, is pulled."""
    ends()
    count = 1000 // fewer()
    new = fabric.add_hca(5)
    name = wait_until(lambda: [n for n in names_in(ROOT, "ib")
                               if "." not in n][0], 10, "an interface")
    talk = Rtnl(ROOT)
    defer(talk.close)
    many.make(talk, count, ROOT.ifindex(name))
    many.bring_up(talk, count // 10)
    new.unplug()
    wait_until(lambda: not names_in(ROOT, "m."), 20, "all gone")
    ksft_eq(name in names_in(ROOT), False)


@timeout(400)
def test_parent_of_many():
    """The parent of many goes down and up, and they with it."""
    pair = ends()
    count = 100 // (3 if fewer() > 1 else 1)
    talk = Rtnl(pair.a.ns)
    defer(talk.close)
    many.make(talk, count, pair.a.ifindex())
    defer(many.delete, talk)
    for _ in range(2):
        pair.a.set("down", timeout=slow(60))
        pair.a.set("up", timeout=slow(60))
    for number in range(0, count, 9):
        Child(pair.a, f"m.{number}", 9).wait_carrier(40)
    pair.a.up()
    pair.ready()
    ksft_ge(count, 30)
