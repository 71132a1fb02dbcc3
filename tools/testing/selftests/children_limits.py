# SPDX-License-Identifier: GPL-2.0-only
"""
Children where there is no room, and where each step of making one fails: the
refusal says why, nothing stays behind, and afterwards all works.
"""

import errno

from lib import (ROOT, bkg, defer, ends, fabric, failslab, ip, ksft_eq,
                 ksft_ge, ksft_in, ksft_pr, ksft_true, ping_ok, slow,
                 tcp_transfer, timeout, wait_until)
from lib.child import (Child, Children, add_link, child_by_ip, children,
                       create_child, delete_child, errno_of, names_in, refused)
from lib.rtnl import Rtnl
from lib.utils import module_range

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 150}

SAMPLE = 24


def plug(number=5, **caps):
    """An HCA of the given kind, with its interface up: an end at home."""
    known = set(names_in(ROOT, "ib"))
    new = fabric.add_hca(number, **caps)
    name = wait_until(lambda: (set(names_in(ROOT, "ib")) - known).pop(), 10,
                      "an interface")
    end = Child(ends().a, name, 50, ROOT)
    end.port = new.port()
    end.number = number
    ROOT.sysctl("net.ipv4.ping_group_range", "0 2147483647")
    end.up()
    end.wait_carrier()
    return end


def fill(end, most=200):
    """Make children until one is refused; (how many, the reason)."""
    for number in range(most):
        done = add_link(end, f"l.{number}", "pkey 0x8001", fail=False)
        if done.ret:
            return number, refused(done)
    return most, ""


def empty(end):
    """Delete them all."""
    batch = "".join(f"link del {name}\n" for name in names_in(end.ns, "l."))
    end.ns.cmd(["ip", "-batch", "-"], stdin=batch, timeout=slow(60))


def limit(least, word, **caps):
    """The HCA has room for so many children at least, and no more."""
    end = plug(**caps)
    parent = len(end.port.hca.data_qps())
    count, reason = fill(end)
    ksft_pr(f"{caps}: {count} children, then: {reason}")
    ksft_ge(count, least)
    ksft_in(word, reason)
    ksft_eq(len(end.port.hca.data_qps()), count + parent, "QPs")
    ip("link del l.0", ns=end.ns)
    add_link(end, "l.0", "pkey 0x8001")
    ksft_eq(errno_of(create_child, end, 2) in (errno.ENOMEM, errno.ENOSPC),
            True, "create_child without room")
    for number in (0, count - 1):
        child = Child(end, f"l.{number}", number)
        child.set("up")
        child.wait_carrier()
    empty(end)
    ksft_eq(len(end.port.hca.data_qps()), parent, "QPs")
    # How CQs of different lengths share what there is depends on which of
    # the old ones were still there.
    ksft_ge(fill(end, count)[0], least, "children once more")
    end.wait_carrier()
    ksft_eq(fabric.strict(), dict.fromkeys(fabric.strict(), 0))


@timeout(120)
def test_no_more_qps():
    """The HCA has no more QPs."""
    limit(8, "QP", max_qp=14)


@timeout(120)
def test_no_more_cqs():
    """CQs are short and few."""
    limit(4, "CQ", max_cqe=1300, max_qp_wr=512, max_cq=4)


@timeout(120)
def test_no_more_cqs_no_srq():
    """The same where each QP has its own receives."""
    limit(2, "CQ", max_cqe=1300, max_qp_wr=512, max_cq=5, srq=0)


@timeout(180)
def test_many_cqs():
    """Children on many short CQs, with and without SRQ, all pass packets."""
    pair = ends()
    for srq in (1, 0):
        end = plug(max_cqe=1300, max_qp_wr=512, srq=srq)
        batch = "".join(f"link add link {end.ifname} name l.{n} type ipoib "
                        f"pkey {0x8001 + n % 15:#x}\n" for n in range(30))
        end.ns.cmd(["ip", "-batch", "-"], stdin=batch, timeout=slow(60))
        for number in (0, 7, 14, 22, 29):
            near = Child(end, f"l.{number}", 60 + number)
            far = child_by_ip(pair.b, 0x8001 + number % 15, 60 + number,
                              ifname=f"far{srq}.{number}")
            both = Children(near, far).up()
            tcp_transfer(both.a, both.b, 1 << 17)
            tcp_transfer(both.b, both.a, 1 << 17)
        empty(end)
        end.wait_carrier()
        ksft_eq(fabric.strict(), dict.fromkeys(fabric.strict(), 0))
        end.port.hca.unplug()


def state(end):
    """What must be the same when a child could not be made."""
    return (names_in(end.ns), len(end.port.hca.data_qps()))


@timeout(180)
def test_verbs():
    """Each object of the HCA that a child needs can't be made."""
    pair = ends()
    end = pair.a
    before = state(end)
    makers = {"rtnl": lambda: add_link(end, "l.0", "pkey 0x8001",
                                       fail=False).ret,
              "connected": lambda: add_link(end, "l.0", "pkey 0x8001 mode "
                                            "connected", fail=False).ret,
              "sysfs": lambda: errno_of(create_child, end, 1)}

    def drop():
        name = (set(names_in(end.ns)) - set(before[0])).pop()
        ip(["link", "del", name], ns=end.ns)

    for how, make in makers.items():
        failed = 0
        for skip in range(10):
            end.port.fault("create_skip", skip)
            fault = end.port.fault("create_error", 1)
            ret = make()
            left = int(end.port.get("create_error"))
            fault.exec()
            end.port.set("create_skip", 0)
            if not ret and left:
                break
            if not ret:
                # There was something else to be had.
                drop()
                continue
            failed += 1
            ksft_eq(state(end), before, f"{how}, {skip} objects made")
        ksft_eq(left, 1, "all objects were tried")
        ksft_ge(failed, 1, "objects")
        drop()
        ksft_eq(state(end), before)
    both = children(pair, 0x8001)
    tcp_transfer(both.a, both.b, 1 << 18)


@timeout(120)
def test_states():
    """The QP can't change its state, once: the child comes up all the same."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8001)
    for skip in range(3):   # INIT, RTR, RTS
        pair.a.port.fault("modify_skip", skip)
        pair.a.port.fault("modify_error", 1)
        child.set("up")
        child.wait_carrier()
        ksft_eq(int(pair.a.port.get("modify_error")), 0,
                f"a change failed after {skip}")
        child.set("down")
    both = Children(child, child_by_ip(pair.b, 0x8001)).up()
    tcp_transfer(both.a, both.b, 1 << 18)


def each_allocation(make, undo, where, same):
    """
    A sample of the allocations of @make fail, one at a time; how many there
    are, and how many of those that failed were lived with.
    """
    total = failslab.count(make, where)
    undo()
    spared = 0
    for number in sorted({1 + i * total // SAMPLE for i in range(SAMPLE)}):
        worked = True
        with failslab.nth(number, where):
            try:
                make()
            except OSError as error:
                ksft_in(error.errno, (errno.ENOMEM, errno.ENOSPC,
                                      errno.EAGAIN, errno.ENOBUFS))
                worked = False
        spared += worked
        if worked:
            undo()
        same(number)
    return total, spared


@timeout(500)
def test_allocations():
    """Each allocation behind a new child fails, by both ways."""
    failslab.need()
    pair = ends()
    end = pair.a
    before = state(end)
    rtnl = Rtnl(end.ns)
    index = end.ifindex()
    ways = {
        "rtnl": (lambda: rtnl.add(index, "l.0", pkey=0x8001),
                 lambda: rtnl.delete("l.0")),
        "connected": (lambda: rtnl.add(index, "l.0", pkey=0x8001, mode=1),
                      lambda: rtnl.delete("l.0")),
        "sysfs": (lambda: create_child(end, 1),
                  lambda: delete_child(end, 1)),
    }
    for how, (make, undo) in ways.items():
        total, spared = each_allocation(
            make, undo, module_range(), lambda number:
            ksft_eq(state(end), before, f"{how}, allocation {number}"))
        ksft_pr(f"{how}: {total} allocations, {spared} spared")
        ksft_ge(total, 8, "allocations")
    both = children(pair, 0x8001)
    tcp_transfer(both.a, both.b, 1 << 18)


@timeout(240)
def test_many():
    """Two hundred children: more CQs, a longer SRQ, packets to the last."""
    pair = ends()
    batch = "".join(f"link add link {pair.a.ifname} name l.{n} type ipoib "
                    f"pkey {0x8001 + n % 15:#x}\n" for n in range(200))
    defer(empty, pair.a)
    pair.a.ns.cmd(["ip", "-batch", "-"], stdin=batch, timeout=slow(120))
    ksft_eq(len(names_in(pair.a.ns, "l.")), 200)
    last = Child(pair.a, "l.199", 99)
    both = Children(last, child_by_ip(pair.b, 0x8001 + 199 % 15, 99)).up()
    tcp_transfer(both.a, both.b, 1 << 19)
    tcp_transfer(both.b, both.a, 1 << 19)
    pair.ready()
    ksft_eq(fabric.strict(), dict.fromkeys(fabric.strict(), 0))


@timeout(120)
def test_unplug_while_made():
    """An HCA goes while children of it are made and deleted."""
    for number in range(3):
        end = plug()
        before = names_in(ROOT)
        batch = "".join(
            f"link add link {end.ifname} name l.{n} type ipoib pkey 0x8001\n"
            f"link set l.{n} up\n" + (f"link del l.{n}\n" if n % 3 else "")
            for n in range(60))
        with open("/run/children.batch", "w", encoding="ascii") as file:
            file.write(batch)
        with bkg("ip -force -batch /run/children.batch >/dev/null 2>&1"):
            wait_until(lambda n=number: len(names_in(ROOT, "l.")) > n, 10,
                       "some children")
            end.port.hca.unplug()
        wait_until(lambda e=end: not names_in(ROOT, "l.") and
                   e.ifname not in names_in(ROOT), 10, "all gone")
        ksft_true(set(names_in(ROOT)) < set(before))
    ping_ok(ends().a.ns, ends().b.v4)
