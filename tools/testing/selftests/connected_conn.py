# SPDX-License-Identifier: GPL-2.0-only
"""The life of connections: opened, lost, refused, idle; what is sent meanwhile."""

import re
import threading

from lib import (Stream, Tracer, UdpSink, defer, ends_with, hold, in_groups,
                 ip, ksft_eq, ksft_false, ksft_gt, ksft_in, ksft_le, ksft_pr,
                 ksft_true, neigh_flush, now, ping, ping_ok, read, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until, write)
from lib.connected import (both_connected, conns, connected_ends, counter,
                           counters, established, set_mode, to_datagram,
                           wait_connected)
from lib.traffic import SO_SNDBUFFORCE, _addr, udp_send

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 180}
VERBS_ONLY = "connected mode"

MIB = 1 << 20
IDLE = "/sys/module/ib_ipoib/parameters/conn_idle_timeout"


def rc_qps(end, used):
    """RC QPs of an end's HCA that were made to send, or to receive."""
    qps = [qp for qp in end.port.hca.data_qps()
           if qp.type == "RC" and qp.state == "RTS"]
    return [qp for qp in qps if qp.srq != used]


def numbered(src, dst, count, size, action, limit=20):
    """
    Send @count datagrams of @size with @action in the middle; UdpSink after all
    of them have come, or not.
    """
    with UdpSink(dst.ns, dst.v4) as sink, src.ns.socket(2, 2) as sock:
        where = _addr(dst.v4, sink.port)
        sent = udp_send(sock, where, count // 2, size)
        action()
        sent += udp_send(sock, where, count - count // 2, size,
                         first=count // 2)
        wait_until(lambda: sink.drain() >= sent, limit,
                   f"{sent} datagrams") if sent else None
        ksft_eq(sink.bad, 0)
        return sent, len(sink.seen)


def test_first_packets():
    """Packets too long for a datagram wait for the connection, none is lost."""
    pair = connected_ends(connect=False)
    for size in (200, 30000, 65000):
        for end in pair:
            end.set("down")
            end.up()
        pair.ready()
        got = udp_exchange(pair.a, pair.b, 5, size)
        ksft_eq((len(got.seen), got.bad, got.duplicates()), (5, 0, 0),
                f"{size} bytes")


def allocations(lines):
    """Flags of pages allocated by work items of the driver: by function."""
    running, found = {}, {}
    for line in lines:
        pid = re.search(r"-(\d+)\s+\[", line).group(1)
        work = re.search(r"workqueue_execute_(start|end): .*function (\w+)"
                         r" \[ib_ipoib", line)
        if work:
            running[pid] = work[2] if work[1] == "start" else None
        flags = re.search(r"mm_page_alloc: .*gfp_flags=(\S+)", line)
        if flags and running.get(pid):
            found.setdefault(running[pid], set()).add(flags[1])
    return found


@timeout(90)
def test_no_io():
    """No memory that packets wait for may wait for writeback."""
    events = (("kmem:mm_page_alloc", 'comm ~ "kworker*"'),
              "workqueue:workqueue_execute_start",
              "workqueue:workqueue_execute_end")
    pair = connected_ends(connect=False)
    with Tracer(*events, size_kb=8192) as tracer:
        for end in pair:
            set_mode(end, "datagram")
            end.set("down")
            end.up()
        pair.ready()
        for end in pair:
            set_mode(end, "connected")
        pair.wait_ping()
        wait_connected(pair.a, pair.b)
        found = allocations(tracer.lines())
        ksft_eq(sum(tracer.overruns()), 0, "lost events")
    ksft_in("ipoib_cm_work", found)
    for func, flags in found.items():
        ksft_pr(f"{func}: {' '.join(sorted(flags))}")
    for func, flags in found.items():
        ksft_false([each for each in flags
                    if re.search("GFP_(KERNEL|IO|FS|NOFS|USER)", each)], func)


@timeout(90)
def test_simultaneous():
    """Both open at once, again and again."""
    pair = connected_ends()
    for _ in range(6):
        for end in pair:
            set_mode(end, "datagram")
        for end in pair:
            set_mode(end, "connected")
        # The stack keeps an address for a second, whatever it is told.
        for end in pair:
            neigh_flush(end)
        pair.wait_ping()
        threads = [threading.Thread(target=ping, args=(s.ns, d.v4),
                                    kwargs={"size": 20000, "count": 3,
                                            "limit": slow(3)})
                   for s, d in ((pair.a, pair.b), (pair.b, pair.a))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(slow(20))
        ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(3))
        ping_ok(pair.b.ns, pair.a.v4, size=30000, limit=slow(3))
    for end in pair:
        ksft_eq(len(established(end, "us")), 1)


def test_sender_dies():
    """A sending QP goes to ERR by itself: remade, and nothing is lost."""
    pair = connected_ends()
    broken = counter(pair.a, "conn_broken")

    def kill():
        for qp in rc_qps(pair.a, True):
            pair.a.port.hca.break_qp(qp.qpn)

    sent, got = numbered(pair.a, pair.b, 60, 20000, kill)
    ksft_eq(got, sent, "datagrams")
    wait_connected(pair.a, pair.b)
    ksft_gt(counter(pair.a, "conn_broken"), broken)
    tcp_transfer(pair.a, pair.b, 4 * MIB)


def test_receiver_dies():
    """The peer's receiving QP goes: noticed and remade."""
    pair = connected_ends()
    stream = Stream(pair.a, pair.b)
    stream.wait_progress()
    for _ in range(3):
        opened = counter(pair.a, "conn_opened")
        for qp in rc_qps(pair.b, False):
            pair.b.port.hca.break_qp(qp.qpn)
        wait_until(lambda o=opened: counter(pair.a, "conn_opened") > o, 15,
                   "another connection")
        stream.wait_progress(1 << 20)
    stream.finish()


def test_send_errors():
    """Requests that complete with an error: what they carried is sent again."""
    pair = connected_ends()
    for _ in range(5):
        broken = counter(pair.a, "conn_broken")
        requeued = counter(pair.a, "conn_requeued")
        sent, got = numbered(pair.a, pair.b, 20, 30000,
                             lambda: pair.a.port.set("rc_send_error", 1))
        ksft_eq(pair.a.port.get("rc_send_error"), "0", "errors left")
        ksft_eq(got, sent, "datagrams")
        wait_until(lambda b=broken: counter(pair.a, "conn_broken") > b, 5,
                   "the connection broke")
        ksft_gt(counter(pair.a, "conn_requeued"), requeued)
        wait_connected(pair.a, pair.b)


def test_post_errors():
    """The HCA refuses requests: the same."""
    pair = connected_ends()
    sent, got = numbered(pair.a, pair.b, 20, 30000,
                         lambda: pair.a.port.set("send_post_error", 1))
    pair.a.port.set("send_post_error", 0)
    ksft_eq(got, sent, "datagrams")
    wait_connected(pair.a, pair.b)
    tcp_transfer(pair.a, pair.b, 4 * MIB)


def test_loss():
    """The fabric loses packets: the HCA repeats them, or the connection breaks."""
    pair = connected_ends()
    for end in pair:
        end.port.fault("loss_ppm", 2000)
    tcp_transfer(pair.a, pair.b, 4 * MIB, limit=60)
    tcp_transfer(pair.b, pair.a, 4 * MIB, address=pair.a.v6, limit=60)


def test_slow_fabric():
    """Messages that take their time: the ring fills, packets wait, all come."""
    pair = connected_ends()
    for end in pair:
        end.port.fault("delay_us", 2000)
    got = udp_exchange(pair.a, pair.b, 100, 4000, limit=slow(3))
    ksft_eq((len(got.seen), got.bad), (100, 0))
    tcp_transfer(pair.a, pair.b, 4 * MIB, limit=60)


def test_stalled_peer_alone():
    """One connection that stands still stops neither datagrams nor others."""
    pair = connected_ends()
    with pair.a.ns.socket(2, 2) as sock:
        sock.setblocking(False)
        pair.b.port.set("delay_us", 300000)
        defer(pair.b.port.set, "delay_us", 0)
        udp_send(sock, _addr(pair.b.v4, 9), 200, 8000)
        # Another neighbour, by datagram: the broadcast address.
        before = pair.a.stat("tx_packets")
        udp_send(sock, _addr("10.0.0.77", 9), 1, 100)
        wait_until(lambda: pair.a.stat("tx_packets") > before, 5,
                   "an ARP request gets out")
        pair.b.port.set("delay_us", 0)
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=1), 20, "an echo")


def test_peer_down():
    """The peer goes down, and comes back: told at once, opened anew."""
    pair = connected_ends()
    closed = counter(pair.a, "conn_closed_by_peer")
    pair.b.set("down")
    wait_until(lambda: not established(pair.a), 10, "connections gone")
    ksft_gt(counter(pair.a, "conn_closed_by_peer"), closed)
    pair.b.up()
    pair.ready()
    wait_connected(pair.a, pair.b)
    tcp_transfer(pair.a, pair.b, 2 * MIB)


def test_peer_to_datagram():
    """The peer leaves connected mode in a stream: datagrams from now on."""
    pair = connected_ends()
    stream = Stream(pair.a, pair.b)
    stream.wait_progress()
    set_mode(pair.b, "datagram")
    stream.wait_progress(1 << 19, limit=20)
    wait_until(lambda: not established(pair.a, "us"), 10, "no connection")
    set_mode(pair.b, "connected")
    stream.wait_progress(1 << 19, limit=20)
    stream.finish(60)
    wait_connected(pair.a, pair.b)


def test_refused():
    """A peer with the RC flag that takes none: asked ever less often."""
    pair = connected_ends()
    address = pair.b.read("address")
    ip(["neigh", "replace", pair.b.v4, "lladdr", address, "nud", "permanent",
        "dev", pair.a.ifname], ns=pair.a.ns)
    defer(ip, ["neigh", "del", pair.b.v4, "dev", pair.a.ifname],
          ns=pair.a.ns, fail=False)
    rejected = counter(pair.a, "conn_rejected")
    set_mode(pair.b, "datagram")
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(3), count=3)
    wait_until(lambda: counter(pair.a, "conn_rejected") > rejected, 10,
               "a refusal")
    for _ in range(30):
        ping_ok(pair.a.ns, pair.b.v4, limit=slow(3))
    ksft_le(counter(pair.a, "conn_rejected") - rejected, 8, "refusals")
    set_mode(pair.b, "connected")
    pair.wait_ping()
    wait_connected(pair.a, pair.b, 30)


def ask_in_vain(pair):
    """
    Wait until a has just asked b for a connection and has no answer.  It is in
    the middle of that when this is called, and gives up after three seconds.
    """
    def passes():
        return ping(pair.a.ns, pair.b.v4, limit=0.2)

    failures = counter(pair.a, "conn_open_failures")
    wait_until(lambda: passes() and
               counter(pair.a, "conn_open_failures") > failures, 30,
               "an attempt that failed")
    wait_until(lambda: passes() and
               [c for c in conns(pair.a, "us") if c["state"] == "asked"],
               30, "a request")


def unheard_of():
    """Ends without a connection, whose requests get lost; what ends that."""
    pair = connected_ends()
    knob = pair.b.port.fault("mad_drop", 1)
    for name in ("datagram", "connected"):
        set_mode(pair.a, name)
    neigh_flush(pair.a)
    pair.wait_ping(30)
    return pair, knob


@timeout(90)
def test_unanswered():
    """Requests get lost: short packets pass, long ones wait and then pass."""
    pair, knob = unheard_of()
    with pair.a.ns.socket(2, 2) as sock, UdpSink(pair.b.ns, pair.b.v4) as sink:
        where = _addr(pair.b.v4, sink.port)
        ask_in_vain(pair)
        sent = udp_send(sock, where, 4, 30000)
        ping_ok(pair.a.ns, pair.b.v4, limit=slow(3))
        ksft_eq(sink.drain(), 0, "long ones without a connection")
        knob.exec()
        wait_until(lambda: sink.drain() == sent, 10, "what has waited")
    wait_connected(pair.a, pair.b, 30)
    wait_connected(pair.b, pair.a, 30)


@timeout(90)
def test_waiting_is_bounded():
    """What waits for a connection is so much memory, and no more."""
    pair, knob = unheard_of()
    dropped = counter(pair.a, "conn_waiting_dropped")

    def lost():
        return counter(pair.a, "conn_waiting_dropped") - dropped

    with pair.a.ns.socket(2, 2) as sock, UdpSink(pair.b.ns, pair.b.v4) as sink:
        sock.setsockopt(1, SO_SNDBUFFORCE, 8 << 20)
        where = _addr(pair.b.v4, sink.port)
        ask_in_vain(pair)
        sent = udp_send(sock, where, 60, 30000)
        waiting = [int(c["waiting"]) for c in conns(pair.a, "us")]
        # At once: if the attempt fails, all that waits for it is dropped.
        knob.exec()
        ksft_gt(max(waiting), 900000)
        ksft_le(max(waiting), 1 << 20)
        wait_until(lambda: sink.drain() == sent - lost(), 10,
                   "what has waited")
        ksft_gt(lost(), 0)
        ksft_gt(sent - lost(), 10, "datagrams that waited")
    wait_connected(pair.a, pair.b, 30)
    wait_connected(pair.b, pair.a, 30)


def test_short_ones_are_bounded():
    """Short packets that wait for room count with all of their memory."""
    pair = connected_ends()
    dropped = counter(pair.a, "conn_waiting_dropped")
    with pair.a.ns.socket(2, 2) as sock:
        sock.setsockopt(1, SO_SNDBUFFORCE, 64 << 20)
        sock.setblocking(False)
        knob = pair.a.port.fault("wedged", 1)
        wait_until(lambda: udp_send(sock, _addr(pair.b.v4, 9), 500, 8) and
                   counter(pair.a, "conn_waiting_dropped") > dropped, 8,
                   "as much waits as may", scale=False)
        waiting = max(int(c["waiting"]) for c in conns(pair.a, "us"))
        knob.exec()
    ksft_gt(waiting, 900000)
    ksft_le(waiting, 1 << 20)
    pair.wait_ping(30)
    wait_connected(pair.a, pair.b, 30)
    wait_connected(pair.b, pair.a, 30)


def test_reboot():
    """A host dies and boots again: what its peer still has does no harm."""
    pair = both_connected(ends_with())
    pair.a.port.hca.set("fatal", 1)
    pair.a.port.hca.unplug()
    pair.a.port.hca.plug()
    pair.a.drop()
    pair.a.setup()
    set_mode(pair.a, "connected")
    pair.ready()
    wait_connected(pair.a, pair.b)
    wait_connected(pair.b, pair.a)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        ping_ok(src.ns, dst.v4, size=30000, limit=slow(3))


@timeout(90)
def test_stalled():
    """Nothing is sent any more, and no error comes: noticed, and remade."""
    pair = connected_ends()
    stalled = counter(pair.a, "conn_stalled")
    # The peer has nothing to say, or it would notice.
    neigh_flush(pair.b)
    with pair.a.ns.socket(2, 2) as sock:
        sock.setblocking(False)
        knob = pair.a.port.fault("wedged", 1)
        udp_send(sock, _addr(pair.b.v4, 9), 10, 8000)
    wait_until(lambda: counter(pair.a, "conn_stalled") > stalled, 20,
               "a connection that stands still", scale=False)
    knob.exec()
    pair.wait_ping(30)
    wait_connected(pair.a, pair.b, 30)
    wait_connected(pair.b, pair.a, 30)


def test_traced():
    """Every change of state is a tracepoint."""
    pair = connected_ends()
    for end in pair:
        to_datagram(end)
    with Tracer("ipoib:ipoib_conn_state", "ipoib:ipoib_link_state") as tracer:
        both_connected(pair)
        to_datagram(pair.a)
        text = "\n".join(tracer.lines())
    for event in ("ipoib_conn_state", "ipoib_link_state"):
        ksft_in(event, text)
    for state in ("wanted", "connecting", "asked", "answered", "closing",
                  "dead"):
        ksft_in(state, text)


def test_no_resources():
    """QPs can't be made for a while: datagrams, then connections."""
    pair = connected_ends()
    failures = counter(pair.a, "conn_open_failures")
    pair.a.port.set("create_error", 1000)
    defer(pair.a.port.set, "create_error", 0)
    for qp in rc_qps(pair.a, True):
        pair.a.port.hca.break_qp(qp.qpn)
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.5) and
               counter(pair.a, "conn_open_failures") > failures, 10,
               "failures")
    ping_ok(pair.a.ns, pair.b.v4, count=5, limit=slow(3))
    ksft_eq(established(pair.a, "us"), [])
    pair.a.port.set("create_error", 0)
    wait_connected(pair.a, pair.b, 40)
    tcp_transfer(pair.a, pair.b, 2 * MIB)


def test_modify_errors():
    """QPs can't be moved: no connection, nothing leaks, then there is one."""
    pair = connected_ends()
    for skip in range(4):
        for end in pair:
            set_mode(end, "datagram")
        for end in pair:
            set_mode(end, "connected")
            end.port.set("modify_skip", skip)
            end.port.set("modify_error", 2)
        pair.wait_ping()
        ping_ok(pair.a.ns, pair.b.v4, limit=slow(3))
        wait_connected(pair.a, pair.b, 40)
        wait_connected(pair.b, pair.a, 40)
        for end in pair:
            end.port.set("modify_error", 0)
            end.port.set("modify_skip", 0)


@timeout(90)
def test_idle():
    """What nobody uses is closed, and opened again by the next packet."""
    pair = connected_ends()
    old = read(IDLE)
    defer(write, IDLE, old)
    before = counters(pair.a)["conn_closed_idle"]
    write(IDLE, 3)
    wait_until(lambda: not established(pair.a) and not established(pair.b),
               40, "idle connections closed", scale=False)
    ksft_gt(counters(pair.a)["conn_closed_idle"] +
            counters(pair.b)["conn_closed_idle"], before)
    write(IDLE, old)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(3))
    wait_connected(pair.a, pair.b)


@in_groups("connected", "scale")
@timeout(400)
def test_idle_kept():
    """Without a time-out a connection stays, however long nobody uses it."""
    pair = connected_ends()
    write(IDLE, "0")
    defer(write, IDLE, "300")
    before = [counters(end) for end in pair]
    # Neighbours that nobody used for 120 s are looked for each 30 s.
    end = now() + 160
    while now() < end:
        hold(1)
        ksft_true(established(pair.a, "us"), "the connection is there")
    after = [counters(end) for end in pair]
    for name in ("conn_opened", "conn_closed_by_peer", "conn_closed_idle",
                 "conn_active"):
        ksft_eq([table[name] for table in after],
                [table[name] for table in before], name)
    ping_ok(pair.a.ns, pair.b.v4, size=30000)


@timeout(90)
def test_wedged():
    """The HCA stands still: down in bounded time, and up again after it."""
    pair = connected_ends()
    with pair.a.ns.socket(2, 2) as sock:
        sock.setblocking(False)
        pair.a.port.set("wedged", 1)
        defer(pair.a.port.set, "wedged", 0)
        udp_send(sock, _addr(pair.b.v4, 9), 100, 30000)
    begin = now()
    pair.a.set("down")
    took = now() - begin
    pair.a.port.set("wedged", 0)
    ksft_le(took, slow(5), "seconds")
    pair.a.up()
    pair.ready()
    wait_connected(pair.a, pair.b)


@timeout(90)
def test_wedged_special():
    """So does its management QP: closing waits for no MAD."""
    pair = connected_ends()
    pair.a.port.set("wedged_special", 1)
    defer(pair.a.port.set, "wedged_special", 0)
    begin = now()
    set_mode(pair.a, "datagram")
    took = now() - begin
    pair.a.port.set("wedged_special", 0)
    ksft_le(took, slow(5), "seconds")
    pair.ready()


def test_reregister():
    """A new SM, or a LID: connections go on."""
    pair = connected_ends()
    stream = Stream(pair.a, pair.b)
    broken = counter(pair.a, "conn_broken")
    for end in pair:
        end.port.event("client_reregister")
        stream.wait_progress(1 << 20)
    ksft_eq(counter(pair.a, "conn_broken"), broken)
    stream.finish()


def test_nothing_left():
    """No QP of a connection outlives it."""
    pair = connected_ends()
    for end in pair:
        to_datagram(end)
    for end in pair:
        ksft_eq(conns(end), [])
        ksft_false([qp for qp in end.port.hca.data_qps()
                    if qp.type == "RC"])
        end.port.no_mistakes()
