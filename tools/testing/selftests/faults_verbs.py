# SPDX-License-Identifier: GPL-2.0-only
"""The HCA refuses, object by object and step by step; the SA is silent.

What was begun is taken back, and when HCA and SA work again all does.
"""

import os
import socket

from lib import (Flood, Skip, defer, ends, ends_with, expect_report, hca, hold,
                 ifaces, in_groups, ip, ksft_eq, ksft_false, ksft_ge, ksft_in,
                 ksft_le, ksft_ne, ksft_pr, kmsg_since, kmsg_tail, load_module,
                 loaded, mcast_flow, mcast_receiver, mcast_sender, neigh_flush, now,
                 ping, ping_ok, port, read, slow, tcp_transfer, timeout,
                 udp_exchange, unload_module, wait_until)
from lib.ipoib import drop_all, iface_of
from lib.ksft import marker
from lib.traffic import SO_SNDBUFFORCE, udp_send

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 180}
VERBS_ONLY = "the driver's own verbs fail"


def refuse(where, what, errors, skip=0):
    """Have the next verbs but @skip fail; the deferred call that ends it."""
    if skip:
        where.fault(f"{what}_skip", skip)
    return where.fault(f"{what}_error", errors)


def left(where, what):
    """How many failures have not happened."""
    return int(where.get(f"{what}_error"))


def ethtool_stat(end, name):
    """One of the driver's own counters."""
    for line in end.ethtool("-S").stdout.splitlines():
        key, _, value = line.strip().partition(": ")
        if key == name:
            return int(value)
    raise KeyError(name)


def works(pair):
    """Packets of all kinds pass."""
    pair.ready()
    tcp_transfer(pair.a, pair.b, 1 << 18)


def probe(errors, skip):
    """
    Load the module with failures on the second HCA; (number of interfaces,
    failures that did not happen).
    """
    unload_module()
    fault = refuse(port(1), "create", errors, skip)
    load_module()
    unused = left(port(1), "create")
    fault.exec()
    port(1).set("create_skip", 0)
    count = len(ifaces())
    if count == 1:
        ksft_eq(hca(1).data_qps(), [], f"QPs, {skip} objects made")
    return count, unused


def refuses_rings(end):
    """Without an SRQ the receive ring can't be resized, and that is said."""
    done = end.ethtool("-G rx 128", fail=False)
    ksft_ne(done.ret, 0, "status")
    ksft_in("shared receive queues", done.stderr)


@timeout(300)
def test_probe():
    """Each object of an HCA that arrives may not be made: no trace is left."""
    drop_all()
    defer(lambda: loaded() or load_module())
    spared = []
    for skip in range(30):
        count, unused = probe(1, skip)
        if unused:
            break
        if count == 2:
            spared.append(skip)
    ksft_pr(f"{skip} objects, not necessary: {spared}")
    ksft_eq(count, 2, "interfaces when nothing fails")
    ksft_ge(skip, 6, "objects")
    # The SRQ, and a QP that uses it with its two CQs: they are made again at
    # once.  If that fails, a QP with buffers of its own will do.  What other
    # queues have is a CQ and a QP.
    more = 2 * (os.cpu_count() - 1)
    ksft_ge(len(spared), 1 + more, "objects that are not necessary")
    ksft_le(len(spared), 4 + more, "objects that are not necessary")
    normal, objects = bool(hca(1).data_qps()[0].srq), skip
    shared = []
    for skip in spared:
        ksft_eq(probe(1, skip), (2, 0))
        ksft_eq(bool(hca(1).data_qps()[0].srq), normal, f"SRQ, {skip} objects made")
        works(ends())
        drop_all()
        if probe(2, skip) == (2, 0):
            shared.append(bool(hca(1).data_qps()[0].srq))
            if normal and not shared[-1]:
                refuses_rings(ends().b)
        drop_all()
        # Without those of other queues there is one less.
        there = 2 if skip >= objects - more else 1
        ksft_eq(probe(20, skip)[0], there, "interfaces when all fails")
    ksft_in(False, shared, "objects that the SRQ needs")
    unload_module()
    load_module()
    works(ends())


@timeout(120)
def test_open():
    """A QP that does not start fails no open; it starts soon."""
    pair = ends()
    for skip in (0, 1, 2):
        pair.a.set("down")
        fault = refuse(pair.a.port, "modify", 1, skip)
        pair.a.up()
        wait_until(lambda: left(pair.a.port, "modify") == 0, 10, "a failure")
        fault.exec()
        pair.ready()
    works(pair)


@timeout(120)
def test_qkey():
    """The link's Q_Key can't be set: the group is joined again later."""
    drop_all()
    unload_module()
    load_module()       # one that does not know the Q_Key from before
    fault = refuse(port(1), "modify", 2, 3 * os.cpu_count())
    ip(["link", "set", iface_of(port(1))[1], "up"])
    wait_until(lambda: left(port(1), "modify") == 0, 20, "two refusals")
    fault.exec()
    works(ends())


@in_groups("core", "life")
@timeout(120)
def test_close():
    """A QP that can't be reset is replaced, whatever it held comes back."""
    pair = ends()
    before = pair.a.qpn()
    place = kmsg_tail()
    fault = refuse(pair.a.port, "modify", pair.a.queues() + 1)
    pair.a.set("down")
    ksft_eq(left(pair.a.port, "modify"), 0)
    fault.exec()
    ksft_eq(len(kmsg_since(place, "can't be reset")), 1, "warnings")
    pair.a.up()
    for end in pair:
        neigh_flush(end)
    works(pair)
    ksft_ne(pair.a.qpn(), before, "number of the QP")


@timeout(120)
def test_new_number_announced():
    """Peers hear of the number of a QP that took the place of another."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    before = pair.a.qpn()
    fault = refuse(pair.a.port, "modify", pair.a.queues() + 1)
    pair.a.set("down")
    fault.exec()
    # The stack ignores a second address that comes within a second.
    hold(slow(1.5))
    pair.a.up()
    pair.a.wait_carrier()
    wait_until(lambda: pair.a.qpn() != before, 10, "another address")

    def known():
        shown = ip(["neigh", "show", pair.a.v4, "dev", pair.b.ifname],
                   ns=pair.b.ns).stdout
        return pair.a.address().hex(":") in shown

    wait_until(known, 5, "the new address at the peer")
    works(pair)


@in_groups("core", "life")
@timeout(120)
def test_restart():
    """A QP that failed and can't be reset gets a successor and an address."""
    pair = ends()
    before = pair.a.qpn()
    fault = refuse(pair.a.port, "modify", pair.a.queues() + 1)
    pair.a.port.hca.set("qp_error", f"{before:#x}")
    wait_until(lambda: left(pair.a.port, "modify") == 0, 10, "a restart")
    fault.exec()
    wait_until(lambda: pair.a.qpn() != before, 10, "another address")
    works(pair)


@timeout(60)
def test_completions_twice():
    """A completion that comes again is of nothing: each datagram arrives once."""
    pair = ends()
    works(pair)
    before = {end: end.port.counter("cqe_fault") for end in pair}
    for end in pair:
        end.port.fault("cqe_twice", 1 << 20)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        # Longer ones leave in the buffers that they came in.
        for size in (100, 1500):
            got = udp_exchange(src, dst, 150, size)
            ksft_eq((len(got.seen), got.bad, got.duplicates()), (150, 0, 0),
                    f"{size} bytes to {dst}")
    for end in pair:
        ksft_ge(end.port.counter("cqe_fault") - before[end], 300)
        end.port.clear_faults()
    works(pair)


@timeout(60)
def test_late_marker():
    """The mark of one teardown, if it is late, does not end the next one."""
    pair = ends()
    end = pair.a
    late = end.port.fault("cqe_delay_ms", 3000)
    end.set("down")
    # The mark was set a second before, and comes in two.
    given_up = now()
    late.exec()
    end.up()
    # The driver waits for no HCA that was late less than a second ago.
    hold(max(0, given_up + 1.2 - now()))
    place, second = kmsg_tail(), now()
    fault = end.port.fault("wedged", 1)
    end.set("down")
    took = now() - second
    fault.exec()
    end.up()
    works(pair)
    if second > given_up + 1.8:
        raise Skip("this machine is too slow to have it come in between")
    ksft_ge(took, 1, "seconds that the HCA had")
    ksft_ge(len(kmsg_since(place, "did not drain")), 1, "QPs that did not drain")


@timeout(120)
def test_restarts_pause():
    """A QP that fails again at once is restarted once a second."""
    pair = ends()
    before, begin = ethtool_stat(pair.a, "qp_restarts"), now()
    while now() - begin < 4:
        pair.a.port.hca.break_qp(pair.a.qpn())
        hold(0.05)
    done = ethtool_stat(pair.a, "qp_restarts") - before
    ksft_le(done, now() - begin + 1, "restarts")
    ksft_ge(done, 2, "restarts")
    works(pair)


@timeout(120)
def test_restart_fails():
    """A restart that fails half way is followed by another."""
    pair = ends()
    fault = refuse(pair.a.port, "modify", 1, 2 * pair.a.queues())
    pair.a.port.hca.set("qp_error", f"{pair.a.qpn():#x}")
    wait_until(lambda: left(pair.a.port, "modify") == 0, 10, "a restart")
    fault.exec()
    works(pair)


@timeout(120)
def test_send_error():
    """A QP that does not leave SQE is restarted."""
    pair = ends()
    fault = refuse(pair.a.port, "modify", 1)
    pair.a.port.hca.set("qp_error", f"sqe {pair.a.qpn():#x}")
    ping(pair.a.ns, pair.b.v4, count=3, limit=0.3)
    pair.a.port.fault("send_error", 1)
    ping(pair.a.ns, pair.b.v4, count=3, limit=0.3)
    wait_until(lambda: left(pair.a.port, "modify") == 0, 10, "a repair")
    fault.exec()
    works(pair)


@timeout(120)
def test_watchdog():
    """The stack's watchdog restarts a QP that does not get on."""
    pair = ends()
    expect_report("tx-watchdog")
    before = ethtool_stat(pair.a, "qp_restarts")
    fault = pair.a.port.fault("wedged", 1)
    # More than one socket may have on its way, so that the queue is stopped
    with Flood(pair.a, pair.b.v4, 1000, gap=0.002), \
            Flood(pair.a, pair.b.v6, 1000, gap=0.002), \
            Flood(pair.a, pair.b.v4, 200, gap=0.002):
        wait_until(lambda: ethtool_stat(pair.a, "qp_restarts") > before, 40,
                   "a restart", interval=0.5, scale=False)
    fault.exec()
    marker("faults_verbs.test_watchdog")
    works(pair)


@timeout(120)
def test_no_private_buffers():
    """The same on an HCA whose datagrams have no shared receive queue."""
    pair = ends_with(ud_srq=0)
    end = pair.a
    end.set("down")
    fault = end.port.fault("recv_post_error", 1 << 30)
    ksft_ne(end.set("up", fail=False).ret, 0, "status")
    fault.exec()
    end.up()
    works(pair)
    # An open one tries again until it gets some.
    fault = end.port.fault("recv_post_error", 1 << 30)
    for qp in end.port.hca.data_qps("UD"):
        end.port.hca.break_qp(qp.qpn)
    wait_until(lambda: left(end.port, "recv_post") < (1 << 30) - 8, 10, "attempts")
    fault.exec()
    works(pair)


@timeout(120)
def test_no_buffers():
    """Without a single receive buffer an interface does not open."""
    drop_all()
    unload_module()
    load_module()       # an SRQ that has none yet
    name = iface_of(port(1))[1]
    fault = port(1).fault("recv_post_error", 1 << 30)
    ksft_ne(ip(["link", "set", name, "up"], fail=False).ret, 0, "status")
    fault.exec()
    works(ends())


@timeout(120)
def test_pkey_comes_later():
    """Without its P_Key in the table an interface waits for it, opened."""
    pair = ends()
    where = pair.a.port
    pair.a.set("down")
    key = where.pkey(0)
    defer(where.set, "set_pkey", f"0 {key:#06x}")
    where.set("set_pkey", "0 0")
    wait_until(lambda: where.pkey(0) == 0, 5, "no P_Key")
    pair.a.up()
    ksft_false(pair.a.carrier(), "carrier")
    where.set("set_pkey", f"0 {key:#06x}")
    works(pair)


@timeout(120)
def test_pkey_not_read():
    """A P_Key table that can't be read is not one without the P_Key."""
    pair = ends()
    for number in (1, 3):
        pair.a.set("down")
        fault = refuse(pair.a.port, "pkey", number)
        pair.a.up()
        wait_until(lambda: left(pair.a.port, "pkey") == 0, 20, "refusals")
        fault.exec()
        pair.ready()
    fault = refuse(pair.a.port, "pkey", 3)
    pair.a.port.hca.set("qp_error", f"{pair.a.qpn():#x}")
    wait_until(lambda: left(pair.a.port, "pkey") == 0, 20, "refusals")
    fault.exec()
    works(pair)


@timeout(120)
def test_marker():
    """The QP does not take the marker of its end: closing goes on."""
    pair = ends()
    fault = pair.a.port.fault("send_post_error", 1)
    pair.a.set("down")
    ksft_eq(pair.a.port.get("send_post_error"), "0")
    fault.exec()
    pair.a.up()
    works(pair)


@in_groups("core", "life")
@timeout(120)
def test_attach():
    """A group the QP can't be attached to is tried again."""
    pair = ends()
    pair.a.set("down")
    fault = refuse(pair.a.port, "attach", 3)
    pair.a.up()
    wait_until(lambda: left(pair.a.port, "attach") == 0, 20, "attachments")
    fault.exec()
    works(pair)


@timeout(120)
def test_attach_back_off():
    """Joining a group that can't be used is tried less and less often."""
    pair = ends()
    group = "239.15.0.3"
    works(pair)
    place = kmsg_tail()
    fault = refuse(pair.b.port, "attach", 1 << 20)
    begin = now()
    with mcast_receiver(pair.b, group) as sink:
        # After one, two, four and eight seconds, each a little more
        wait_until(lambda: left(pair.b.port, "attach") <= (1 << 20) - 5, 60,
                   "five attempts")
        ksft_ge(now() - begin, 14, "seconds")
        ksft_eq(len(kmsg_since(place, "can't use group")), 1, "warnings")
        fault.exec()
        with mcast_sender(pair.a, group) as sock:
            wait_until(lambda: udp_send(sock, (group, sink.port), 1, 100) and
                       sink.drain(), 40, "a datagram", interval=0.2)
    works(pair)


def attached(where):
    """How many attachments of QPs to groups an HCA has."""
    lines = dict(line.split(" ", 1) for line in
                 read(f"{where.hca.dir}/objects").splitlines())
    return int(lines["group"].split()[0])


def joined(end, group):
    """A member of a group, when the HCA knows it."""
    before = attached(end.port)
    sink = mcast_receiver(end, group)
    wait_until(lambda: attached(end.port) > before, 20, f"{end} in {group}")
    return sink


@timeout(120)
def test_detach():
    """A group that can't be left is left later, or is still there if joined again."""
    pair = ends()
    works(pair)
    end = pair.b
    before = attached(end.port)
    place = kmsg_tail()
    with joined(end, "239.15.0.2"):
        there = attached(end.port)
        fault = refuse(end.port, "detach", 2)
    wait_until(lambda: left(end.port, "detach") == 0, 20, "two refusals")
    fault.exec()
    wait_until(lambda: attached(end.port) == before, 20, "detached")
    ksft_eq(len(kmsg_since(place, "can't detach from")), 1, "warnings")

    # Joined again meanwhile: one that counts would be attached twice.
    with joined(end, "239.15.0.2"):
        fault = refuse(end.port, "detach", 1 << 20)
    wait_until(lambda: left(end.port, "detach") < 1 << 20, 20, "a refusal")
    with mcast_flow(pair.a, end, "239.15.0.2"):
        ksft_eq(attached(end.port), there, "attachments")
    fault.exec()
    wait_until(lambda: attached(end.port) == before, 20, "detached")
    works(pair)


@timeout(120)
def test_detach_last():
    """The HCA detaches no QP when the module goes, for a moment."""
    pair = ends()
    for refusals in (1, 4, 9):
        fault = refuse(pair.b.port, "detach", refusals)
        drop_all()
        unload_module()
        ksft_eq(left(pair.b.port, "detach"), 0, "refusals left")
        ksft_eq(pair.b.port.hca.data_qps(), [], "QPs")
        fault.exec()
        load_module()
        pair = ends()
    works(pair)


@timeout(120)
def test_detach_restart():
    """
    A QP that can neither be reset nor detached is kept: it is there as long as it is
    attached, and neither QPs nor attachments are left over in the end.
    """
    pair = ends()
    works(pair)
    where = pair.a.port
    before, groups = pair.a.qpn(), attached(where)
    qps = len(where.hca.data_qps("UD"))
    place = kmsg_tail()
    stuck = refuse(where, "modify", 1 << 20)
    kept = refuse(where, "detach", 1 << 20)
    where.hca.set("qp_error", f"{before:#x}")
    wait_until(lambda: left(where, "detach") < (1 << 20) - groups, 20, "refusals")
    ksft_ge(len(kmsg_since(place, "can't be reset")), 1, "warnings")
    ksft_in(before, [qp.qpn for qp in where.hca.data_qps("UD")])
    # It has no successor meanwhile.
    ksft_le(len(where.hca.data_qps("UD")), qps, "QPs")
    kept.exec()
    stuck.exec()
    pair.ready()
    for end in pair:
        neigh_flush(end)
    works(pair)
    wait_until(lambda: len(where.hca.data_qps("UD")) == qps, 10, "as many QPs")
    wait_until(lambda: attached(where) == groups, 20, "as many attachments")


@timeout(120)
def test_detach_ring():
    """Longer queues need another QP: without a detach they are refused."""
    pair = ends()
    fault = refuse(pair.a.port, "detach", 1 << 20)
    done = pair.a.ethtool("-G tx 256", fail=False)
    ksft_ne(done.ret, 0, "status")
    pair.ready()
    fault.exec()
    defer(pair.a.ethtool, "-G tx 128", False)
    pair.a.ethtool("-G tx 256")
    works(pair)


@in_groups("core", "life")
@timeout(120)
def test_address_handle():
    """A handle can't be made, for a peer or a group: packets wait."""
    pair = ends()
    for end in pair:
        neigh_flush(end)
        end.set("down")
    for end in pair:
        end.up()
        end.wait_carrier()
    fault = refuse(pair.a.port, "create", 2)
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=3), 20, "an answer")
    ksft_eq(left(pair.a.port, "create"), 0, "failures left")
    fault.exec()
    pair.a.set("down")
    fault = refuse(pair.a.port, "create", 2)
    pair.a.up()
    wait_until(lambda: left(pair.a.port, "create") == 0, 20, "failures")
    fault.exec()
    works(pair)


@timeout(120)
def test_sa_silent_queue():
    """What waits for a path or a group is bounded, and goes on close."""
    pair = ends()
    fake = pair.b.address().hex(":")[:-5] + "77:77"
    ip(["neigh", "replace", "10.0.0.77", "lladdr", fake, "dev",
        pair.a.ifname], ns=pair.a.ns)
    before = ethtool_stat(pair.a, "path_dropped")
    fault = pair.a.port.fault("sa_drop", 1)
    begin = now()
    with pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        for _ in range(300):
            sock.sendto(bytes(1400), ("10.0.0.77", 9))
    dropped = ethtool_stat(pair.a, "path_dropped") - before
    took = now() - begin
    ksft_ge(dropped, 20, "packets dropped")
    # All that waits is dropped when four queries, six seconds, were in vain.
    if took < 5:
        ksft_le(dropped, 200, "of 300, a quarter of a MiB waits")
    with mcast_sender(pair.a, "239.15.0.1") as sock:
        for _ in range(300):
            sock.sendto(bytes(1000), ("239.15.0.1", 9))
    ksft_ge(ethtool_stat(pair.a, "mcast_dropped"), 100, "multicasts dropped")
    pair.a.set("down")
    fault.exec()
    pair.a.up()
    works(pair)


@timeout(120)
def test_sa_silent_unload():
    """Unloading does not wait for answers of the SA."""
    pair = ends()
    fake = pair.b.address().hex(":")[:-5]
    faults = [end.port.fault("sa_drop", 1) for end in pair]
    for number in range(20):
        ip(["neigh", "replace", f"10.0.0.{100 + number}", "lladdr",
            f"{fake}66:{number:02x}", "dev", pair.a.ifname], ns=pair.a.ns)
        ping(pair.a.ns, f"10.0.0.{100 + number}", limit=0.01)
    wait_until(lambda: ethtool_stat(pair.a, "path_queries") >= 20, 5, "queries")
    begin = now()
    drop_all()
    unload_module()
    ksft_le(now() - begin, slow(10), "seconds")
    for fault in faults:
        fault.exec()
    load_module()
    works(ends())


@timeout(120)
def test_receive_buffers():
    """
    The HCA takes no buffers at first: they come when it does.  Where a queue is
    one's own and gets none at all, "up" is refused, and has to be said again.
    """
    pair = ends()
    pair.a.set("down")
    fault = pair.a.port.fault("recv_post_error", 30)

    def posted():
        pair.a.up()
        return pair.a.port.get("recv_post_error") == "0" or pair.a.carrier()

    wait_until(posted, 20, "posts, or a carrier without")
    fault.exec()
    pair.a.up()
    works(pair)


def test_after_all():
    """And then it is as if nothing had been."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4, count=5)
    for each in (port(0), port(1)):
        each.no_mistakes()
