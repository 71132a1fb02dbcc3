# SPDX-License-Identifier: GPL-2.0-only
"""An HCA that stands still, or wakes up late, costs a bounded time in all."""

import os
import socket
import threading

from lib import (ROOT, Flood, Skip, defer, ends, ensure_module, exists, expect_report,
                 fabric, hold, ip, kmsg_since, kmsg_tail, ksft_eq, ksft_ge, ksft_le,
                 ksft_pr, load_module, now, ping_ok, slow, tcp_transfer, timeout,
                 unload_module, verbs_only, wait_until)
from lib import many
from lib.child import Children, child_by_ip, names_in
from lib.connected import (connected_ends, counters, established, set_mode,
                           to_datagram, wait_connected)
from lib.ipoib import drop_all, iface_of
from lib.partitions import EIGHT
from lib.rtnl import Rtnl

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 150, "partitions": EIGHT}

CHILDREN = 200
# What the HCA may cost beyond what closing takes anyway, in seconds
WAIT = slow(2.5)


def number():
    """There are fewer on a kernel that looks for defects."""
    return CHILDREN // (5 if exists("/sys/kernel/debug/kmemleak") else 1)


def took(func, *args, **kwargs):
    begin = now()
    func(*args, **kwargs)
    return now() - begin


def family(end, space):
    """The interface of a port with all its children, up."""
    talk = Rtnl(space)
    defer(talk.close)
    many.make(talk, number(), space.ifindex(end), keys=8)
    defer(many.delete, talk)
    many.bring_up(talk, number())
    return talk


def compare(what, healthy, wedged):
    ksft_pr(f"{number()} children, {what}: {wedged:.2f} s, {healthy:.2f} s "
            "when the HCA answers")
    ksft_le(wedged, healthy + WAIT, f"seconds, {what}")


@timeout(400)
def test_close():
    """The parent of many is closed: all wait together, once."""
    pair = ends()
    family(pair.a.ifname, pair.a.ns)
    healthy = took(pair.a.set, "down", timeout=slow(300))
    pair.a.set("up", timeout=slow(60))
    pair.a.up()
    pair.ready()
    fault = pair.a.port.fault("wedged", 1)
    wedged = took(pair.a.set, "down", timeout=slow(300))
    fault.exec()
    compare("closed", healthy, wedged)
    pair.a.set("up", timeout=slow(60))
    pair.a.up()
    pair.ready()


@timeout(400)
def test_unload():
    """So they do when the module is unloaded."""
    where = ends().a.port
    drop_all()
    unload_module()
    defer(ensure_module)
    seconds = []
    for wedge in (0, 1):
        load_module()
        name = iface_of(where)[1]
        ip(["link", "set", name, "up"])
        talk = Rtnl(ROOT)
        many.make(talk, number(), ROOT.ifindex(name), keys=8)
        many.bring_up(talk, number())
        talk.close()
        fault = where.fault("wedged", wedge)
        seconds.append(took(unload_module, 300))
        fault.exec()
    compare("unloaded", *seconds)
    ends()


def connected(pair):
    """Children in connected mode with connections, as many as P_Keys."""
    found = []
    for key in range(0x8001, 0x8009):
        both = Children(*(child_by_ip(end, key, words="mode connected")
                          for end in pair)).up()
        wait_connected(both.a, both.b)
        found.append(both)
    return found


@timeout(400)
def test_close_connected():
    """And connections with them."""
    pair = connected_ends()
    found = connected(pair)
    healthy = took(pair.a.set, "down", timeout=slow(60))
    pair.a.up()
    for both in found:
        both.a.up()
        both.ready()
        wait_connected(both.a, both.b)
    fault = pair.a.port.fault("wedged", 1)
    wedged = took(pair.a.set, "down", timeout=slow(60))
    fault.exec()
    ksft_pr(f"{len(found)} connected children: {wedged:.2f} s, {healthy:.2f} s"
            " when the HCA answers")
    ksft_le(wedged, healthy + WAIT, "seconds")
    pair.a.up()
    pair.ready()


@timeout(200)
def test_one_by_one():
    """Who closes interfaces one after the other waits once, too."""
    pair = ends()
    found = [child_by_ip(pair.a, 0x8001 + key) for key in range(8)]
    for child in found:
        child.up()
    for child in found:
        child.wait_carrier()
    talk = Rtnl(pair.a.ns)
    defer(talk.close)
    fault = pair.a.port.fault("wedged", 1)
    place = kmsg_tail()
    begin = now()
    for child in found:
        talk.down(child.ifname)
    seconds = now() - begin
    fault.exec()
    late = len(kmsg_since(place, "did not drain"))
    ksft_pr(f"{len(found)} children: {seconds:.2f} s, {late} not drained")
    ksft_le(seconds, WAIT, "seconds")
    # The log has those that somebody waited for, a second each; an HCA's own it waits
    # for itself.
    ksft_ge(late, 0 if pair.a.enhanced() else 1, "not drained")
    ksft_le(late, seconds, "not drained")


@verbs_only("an HCA's own QP is its affair")
@timeout(300)
def test_wakes_up_late():
    """The HCA goes on about when its time is over: nothing is retired twice."""
    pair = ends()
    qpn = f"{pair.a.qpn():#x}"
    with Flood(pair.a, pair.b.v4, 1000, gap=0.001, burst=8), \
            Flood(pair.b, pair.a.v4, 1000, gap=0.001, burst=8):
        for turn in range(8):
            before = counters(pair.a)["qp_restarts"]
            place = kmsg_tail()
            fault = pair.a.port.fault("wedged", 1)
            pair.a.port.hca.set("qp_error", qpn)
            # Not waiting for anything: the moment is what is tried out.
            hold(0.92 + turn * 0.02)
            fault.exec()
            wait_until(lambda n=before: counters(pair.a)["qp_restarts"] > n,
                       20, "a restart")
            pair.wait_ping(slow(10))
            late = kmsg_since(place, "did not drain")
            ksft_pr(f"turn {turn}: {'late' if late else 'in time'}")
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(300)
def test_restart_connected():
    """Connections go on while the datagram QPs are rebuilt, and BQL with them."""
    pair = connected_ends()
    with Flood(pair.a, pair.b.v4, 8000, burst=4), \
            Flood(pair.b, pair.a.v4, 8000, burst=4):
        for _ in range(10):
            before = counters(pair.a)["qp_restarts"]
            pair.a.port.hca.set("qp_error", f"{pair.a.qpn():#x}")
            wait_until(lambda n=before: counters(pair.a)["qp_restarts"] > n,
                       20, "a restart")
    tcp_transfer(pair.a, pair.b, 1 << 20)
    ksft_ge(len(established(pair.a)), 1)


def send_from(end, cpu, address, count):
    """Datagrams from a CPU, and so on its queue."""
    def run():
        os.sched_setaffinity(0, {cpu})
        with end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(count):
                sock.sendto(bytes(500), (address, 9))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


@verbs_only("the driver's own QPs drain")
@timeout(120)
def test_lost_interrupt():
    """
    One that the HCA owes for a marker never comes, as where another QP's
    completion has used up what a CQ was armed for: the QPs drain in time.
    """
    pair = ends()
    place = kmsg_tail()
    wedged = pair.a.port.fault("wedged", 1)
    closing = threading.Thread(target=pair.a.set, args=("down",),
                               kwargs={"timeout": slow(60)})
    begin = now()
    closing.start()
    wait_until(lambda: any(qp.state == "ERR" for qp in
                           pair.a.port.hca.data_qps("UD")), 10,
               "a QP that drains", interval=0.005)
    lost = pair.a.port.fault("lose_events", 1)
    wedged.exec()
    late = now() - begin
    closing.join()
    seconds = now() - begin
    lost.exec()
    pair.a.up()
    pair.ready()
    ksft_pr(f"{seconds:.2f} s, the HCA stood still for {late:.2f} s")
    if late > 0.8:
        raise Skip("this machine is too slow to have it go on in time")
    ksft_eq(kmsg_since(place, "did not drain"), [])


@verbs_only("what an HCA's own interface counts")
@timeout(120)
def test_never_completed():
    """Packets that the HCA never completed count as dropped, not as sent."""
    pair = ends()
    fault = pair.a.port.fault("wedged", 1)
    before = pair.a.stats()
    send_from(pair.a, 0, pair.b.v4, 30)
    pair.a.set("down", timeout=slow(60))
    after = pair.a.stats()
    fault.exec()
    ksft_ge(after["tx_dropped"] - before["tx_dropped"], 30, "dropped")
    # What had completed before may have been counted late.
    ksft_le(after["tx_packets"] - before["tx_packets"], 10, "sent")
    pair.a.up()
    pair.ready()


@verbs_only("ethtool -L tx")
@timeout(200)
def test_fewer_queues():
    """What is in flight when queues are taken away is sent."""
    pair = ends()
    most = pair.a.queues()
    if most == 1:
        raise Skip("one queue only")
    defer(pair.a.ethtool, f"-L tx {most}", False)
    # The driver waits for no HCA that was late less than a second ago.
    hold(1.1)
    for _ in range(5):
        before = pair.a.stats()
        fault = pair.a.port.fault("wedged", 1)
        for cpu in range(os.cpu_count()):
            send_from(pair.a, cpu, pair.b.v4, 10)
        # The first queue's QP receives, by an SRQ; the others only send.
        ksft_ge(sum(qp.used for qp in pair.a.port.hca.data_qps("UD")
                    if not qp.srq), 1, "in flight on other queues")
        fewer = threading.Thread(target=pair.a.ethtool, args=("-L tx 1",))
        fewer.start()
        # Always after 5 ms: the driver waits for the HCA a second only.
        limit = now() + slow(10)
        while pair.a.queues() != 1:
            ksft_le(now(), limit, "time until there is one queue")
            hold(0.005)
        fault.exec()
        fewer.join()
        after = pair.a.stats()
        ksft_eq(after["tx_errors"] - before["tx_errors"], 0, "sends flushed")
        ksft_ge(after["tx_packets"] - before["tx_packets"], 1, "sent")
        pair.a.ethtool(f"-L tx {most}")
    ping_ok(pair.a.ns, pair.b.v4, count=3)


@verbs_only("ethtool -L tx")
@timeout(120)
def test_fewer_queues_watched():
    """The stack's watchdog does not mind queues that were taken away."""
    pair = ends()
    most = pair.a.queues()
    if most == 1:
        raise Skip("one queue only")
    defer(pair.a.ethtool, f"-L tx {most}", False)
    restarts = counters(pair.a)["qp_restarts"]
    pair.a.ethtool("-L tx 1")
    # It looks every ten seconds for one that stood still for so long.
    hold(21)
    ksft_eq(counters(pair.a)["qp_restarts"], restarts, "restarts")
    pair.a.ethtool(f"-L tx {most}")
    for cpu in range(os.cpu_count()):
        send_from(pair.a, cpu, pair.b.v4, 10)
    ping_ok(pair.a.ns, pair.b.v4, count=3)


@verbs_only("ethtool -L tx")
@timeout(200)
def test_fewer_queues_wedged():
    """An HCA that does not send them holds it up a bounded time."""
    # Where all is slow it stands still for longer than the stack suffers.
    expect_report("tx-watchdog")
    pair = ends()
    most = pair.a.queues()
    defer(pair.a.ethtool, f"-L tx {most}", False)
    fault = pair.a.port.fault("wedged", 1)
    with Flood(pair.a, pair.b.v4, 500, gap=0.01), \
            Flood(pair.a, pair.b.v6, 500, gap=0.01):
        seconds = took(pair.a.ethtool, "-L tx 1")
    fault.exec()
    ksft_pr(f"{seconds:.2f} s")
    ksft_le(seconds, WAIT, "seconds")
    pair.a.ethtool(f"-L tx {most}")
    pair.ready()
    ping_ok(pair.a.ns, pair.b.v4, count=3)


def test_mode_wedged():
    """Out of connected mode while the HCA stands still, and back."""
    pair = connected_ends()
    fault = pair.a.port.fault("wedged", 1)
    seconds = took(set_mode, pair.a, "datagram")
    fault.exec()
    ksft_pr(f"{seconds:.2f} s")
    ksft_le(seconds, WAIT, "seconds")
    pair.ready()
    to_datagram(pair.b)
    ksft_eq(names_in(pair.a.ns, "m."), [])
    for each in fabric.ports():
        each.no_mistakes()
