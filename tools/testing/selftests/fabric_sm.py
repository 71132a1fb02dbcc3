# SPDX-License-Identifier: GPL-2.0-only
"""Subnet management: restarts, fail-over, cables, hot plugging, partitions."""

from lib import (cmd, defer, fabric, hca, ksft_eq, ksft_in, ksft_ne,
                 ksft_not_in, ksft_true, port, sa_query, sm, timeout,
                 wait_until)

BOOT = {"ipoib": "none", "hcas": 3, "seconds": 60}


def test_restart():
    """OpenSM ends and comes back: ports stay active, LIDs stay."""
    before = {repr(p): p.lid() for p in fabric.ports()}
    sm.stop()
    ksft_true(all(p.active() for p in fabric.ports()), "active without SM")
    ksft_ne(sa_query("-c", fail=False).ret, 0, "an SA without OpenSM")
    sm.start()
    sm.answers()
    fabric.wait_active()
    ksft_eq({repr(p): p.lid() for p in fabric.ports()}, before, "LIDs")


@timeout(90)
def test_takeover():
    """A second OpenSM on another HCA takes over when the first dies."""
    first, second = port(0), port(1)
    two = sm.with_standby(first, second)
    ksft_eq(port(2).sm_lid(), first.lid())
    sm.stop(hard=True, but=two)
    wait_until(lambda: port(2).sm_lid() == second.lid(), 20,
               "the second SM is the master")
    ksft_in("MASTER", cmd(["sminfo", second.lid()]).stdout)
    fabric.wait_active()
    # Back again: the first has the higher priority.
    sm.spawn(first, priority=5, conf=sm.QUICK)
    wait_until(lambda: port(2).sm_lid() == first.lid(), 20,
               "mastership handed over")


def test_link():
    """A cable is pulled and put back."""
    target = port(2)
    lid = target.lid()
    target.link(False)
    defer(target.link, True)
    wait_until(lambda: target.state() == "DOWN", 3, "port down")
    wait_until(lambda: target.hca.name not in cmd("ibnetdiscover").stdout, 5,
               "the HCA left the fabric")
    target.link(True)
    target.wait_active()
    ksft_eq(target.lid(), lid, "the same LID again")


def test_hot_plug():
    """An HCA goes and comes back."""
    victim = hca(2)
    lid = victim.port().lid()
    victim.unplug()
    defer(lambda: victim.exists() or victim.plug())
    wait_until(lambda: not victim.exists(), 5, "the HCA is gone")
    ksft_not_in(victim.name, cmd("ibstat -l").stdout)
    victim.plug()
    victim.port().wait_active()
    ksft_eq(victim.port().lid(), lid, "the same LID again")


def test_two_ports():
    """An HCA with two ports: two GUIDs, two LIDs."""
    new = fabric.add_hca(7, ports=2)
    one, two = new.ports()
    ksft_ne(one.lid(), two.lid())
    ksft_ne(one.guid(), two.guid())
    text = cmd(["smpquery", "nodeinfo", two.lid()]).stdout
    ksft_in("NumPorts:........................2", text)


@timeout(90)
def test_sixteen_hcas():
    """Sixteen HCAs come up."""
    for number in range(3, 16):
        new = hca(number)
        new.plug()
        defer(new.unplug)
    wait_until(lambda: len(fabric.ports()) == 16, 5, "16 HCAs")
    fabric.wait_active(40)
    ksft_eq(len({p.lid() for p in fabric.ports()}), 16, "LIDs")
    text = cmd("ibnetdiscover").stdout
    ksft_eq(text.count("\nCa\t"), 16, "HCAs found")


def test_partitions_reread():
    """OpenSM reads its partitions again on SIGHUP."""
    old = sm.partitions()
    defer(sm.sweep)
    defer(sm.set_partitions, old)
    sm.set_partitions(old + "\nnew=0x123, ipoib: ALL=full;\n")
    sm.sweep()
    for each in fabric.ports():
        wait_until(lambda p=each: 0x8123 in p.pkeys(), 10,
                   f"P_Key 0x8123 on {each}")
    sm.set_partitions(old)
    sm.sweep()
    for each in fabric.ports():
        wait_until(lambda p=each: 0x8123 not in p.pkeys(), 10,
                   f"no P_Key 0x8123 on {each}")


def test_limited_membership():
    """A port that is a limited member has the key without its top bit."""
    old = sm.partitions()
    defer(sm.sweep)
    defer(sm.set_partitions, old)
    sm.set_partitions(old + f"\nlim=0x222: {port(0).guid():#x}=full, "
                      f"{port(2).guid():#x}=limited;\n")
    sm.sweep()
    wait_until(lambda: 0x8222 in port(0).pkeys(), 10, "the full member")
    wait_until(lambda: 0x0222 in port(2).pkeys(), 10, "the limited member")
    ksft_not_in(0x8222, port(2).pkeys() + port(1).pkeys())
