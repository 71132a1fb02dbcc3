# SPDX-License-Identifier: GPL-2.0-only
"""Defects of the in-tree module in datagram mode; ours must not have them.

The LID change of a peer is in events_fabric, the silent SA in events_device.
"""

import re
import threading

from lib import (Flood, Stream, Tracer, UdpSink, defer, ends, fixed_in_ours,
                 in_groups, ip, kmsg_since, kmsg_tail, ksft_eq, ksft_ge, ksft_le,
                 ksft_lt, ksft_pr, mcast_flow, neigh_flush, ours_only, ping_ok,
                 read_int, slow, sm, tcp_transfer, timeout, udp_exchange,
                 wait_until)
from lib.traffic import _addr, mcast_send, udp_send

BOOT = {"hcas": 2, "seconds": 60}


@in_groups("core", "interop")
@fixed_in_ours("3 packets wait for a path, the others are dropped")
def test_first_burst():
    """A burst to a neighbour whose path is unknown loses nothing."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    lladdr = pair.b.read("address")
    # An address nobody answers ARP for: the neighbour is set by hand, so
    # that only the path is unknown.
    for number in range(5):
        address = f"10.0.0.{100 + number}"
        ip(["addr", "add", f"{address}/24", "dev", pair.b.ifname],
           ns=pair.b.ns)
        defer(ip, ["addr", "del", f"{address}/24", "dev", pair.b.ifname],
              ns=pair.b.ns, fail=False)
    for number in range(5):
        # Down and up: the path is forgotten.
        pair.a.set("down")
        pair.a.up()
        pair.a.wait_carrier()
        address = f"10.0.0.{100 + number}"
        ip(["neigh", "replace", address, "lladdr", lladdr, "nud",
            "permanent", "dev", pair.a.ifname], ns=pair.a.ns)
        defer(ip, ["neigh", "del", address, "dev", pair.a.ifname],
              ns=pair.a.ns, fail=False)
        # A slow SA, so that the whole burst is there before the answer.
        fault = pair.a.port.fault("mad_delay_ms", 100)
        got = udp_exchange(pair.a, pair.b, 20, 1000, address)
        fault.exec()
        ksft_eq(len(got.seen), 20, "datagrams of the first burst")


@fixed_in_ours("64 packets wait for a join, 3 for a path behind ARP")
def test_first_burst_arp():
    """The same with ARP: the burst the stack keeps arrives whole."""
    pair = ends()
    for end in pair:
        with end.ns.inside():
            end.ns.sysctl(f"net.ipv4.neigh.{end.ifname}.unres_qlen_bytes",
                          1 << 20)
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier()
    # Neither path nor neighbour is known.
    neigh_flush(pair.a)
    fault = pair.a.port.fault("mad_delay_ms", 100)
    got = udp_exchange(pair.a, pair.b, 20, 1000)
    fault.exec()
    ksft_eq(len(got.seen), 20, "datagrams of the first burst")


@timeout(150)
@fixed_in_ours("\"Budget exhausted after napi rescheduled\"")
def test_budget_warning():
    """NAPI keeps its contract under load: no warning in the kernel log."""
    pair = ends()
    streams = [Stream(pair.a, pair.b), Stream(pair.b, pair.a),
               Stream(pair.a, pair.b, pair.b.v6)]
    floods = [Flood(pair.a, pair.b.v4, 64, burst=64),
              Flood(pair.b, pair.a.v4, 64, burst=64)]
    for flood in floods:
        defer(flood.stop)
    for stream in streams:
        stream.wait_progress(6 << 20, limit=20)
    # It is printed once per boot: look at all of the log.
    ksft_eq(kmsg_since(pattern="Budget exhausted"), [])


@timeout(90)
@fixed_in_ours("a receive that cannot be posted is lost until the next down")
def test_lost_receives():
    """More failures to post receives than the ring has places: no stall."""
    pair = ends()
    ring = read_int("/sys/module/ib_ipoib/parameters/recv_queue_size")
    # The next case may get nothing through a ring without receives.
    defer(pair.b.wait_carrier)
    defer(pair.b.up)
    defer(pair.b.set, "down")
    ksft_pr(f"receive ring of {ring}")
    total = 0
    while total < 3 * ring:
        pair.b.port.fault("recv_post_error", ring // 4)

        def used_up():
            with pair.a.ns.socket(2, 2) as sock:
                udp_send(sock, (pair.b.v4, 9), 20, 100)
            return pair.b.port.get("recv_post_error") == "0"

        wait_until(used_up, 10, f"failures after {total}", interval=0.01)
        total += ring // 4
        pair.wait_ping(5)
    got = udp_exchange(pair.a, pair.b, 100, 1000)
    ksft_eq(len(got.seen), 100)
    tcp_transfer(pair.a, pair.b, 2 << 20)


@fixed_in_ours("every completed send is freed as if it were dropped")
def test_sends_are_no_drops():
    """Packets that were sent do not count as drops in skb:kfree_skb."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    with Tracer(("skb:kfree_skb", "protocol == 0x800")) as trace:
        got = udp_exchange(pair.a, pair.b, 200, 500)
        ksft_eq(len(got.seen), 200)
        drops = [line for line in trace.lines() if "kfree_skb" in line]
    places = {}
    for line in drops:
        place = re.search(r"location=(\S+)", line)
        name = place.group(1) if place else "?"
        places[name] = places.get(name, 0) + 1
    ksft_pr(f"drops by place: {places}")
    ksft_lt(len(drops), 20, "drops while 200 datagrams passed")


@timeout(150)
def test_no_lost_wakeup():
    """Bursts that just fill the ring, thousands of them: the queue runs."""
    pair = ends()
    ring = read_int("/sys/module/ib_ipoib/parameters/send_queue_size")
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(2, 2) as sock:
        sent = 0
        for number in range(60):
            sent += udp_send(sock, _addr(pair.b.v4, sink.port),
                             ring - 8 + number % 16, 32, first=sent)
            before = len(sink.seen)
            wait_until(lambda b=before: sink.drain() > b, 5,
                       f"arrivals after burst {number}", interval=0.002)
    ping_ok(pair.a.ns, pair.b.v4, count=3)
    ksft_eq(kmsg_since(pattern="transmit queue .* timed out"), [])


@in_groups("core", "interop")
@timeout(60)
def test_path_storm():
    """Threads that send to one unknown neighbour: few path queries."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    lladdr = pair.b.read("address")
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier()
    for number in range(120, 160):
        ip(["neigh", "replace", f"10.0.0.{number}", "lladdr", lladdr, "nud",
            "permanent", "dev", pair.a.ifname], ns=pair.a.ns)
    defer(ip, ["neigh", "flush", "dev", pair.a.ifname, "nud", "all"],
          ns=pair.a.ns)
    before = pair.a.port.counter("mad_tx")

    def send():
        with pair.a.ns.socket(2, 2) as sock:
            for number in range(120, 160):
                udp_send(sock, (f"10.0.0.{number}", 9), 2, 100)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pair.wait_ping()
    asked = pair.a.port.counter("mad_tx") - before
    ksft_pr(f"{asked} MADs sent for one path")
    ksft_le(asked, 25, "MADs")


@timeout(90)
@fixed_in_ours("groups are left and joined again, multicast is dropped")
def test_reregister_multicast_gap():
    """Multicast goes on while the port registers again."""
    pair = ends()
    group = "239.1.8.1"
    with mcast_flow(pair.a, pair.b, group) as (sink, _):
        # The answers of the SA take their time, so that a gap shows.
        for end in pair:
            end.port.fault("mad_delay_ms", 150)
        sink.drain()
        sink.seen.clear()
        number = 0
        for _ in range(4):
            for end in pair:
                end.port.event("client_reregister")
            mcast_send(pair.a, group, sink, 40, 100, 0.01, number)
            number += 40
        got = sink.collect(number, slow(1))
        ksft_eq(got, number, "datagrams of the group")


@ours_only("the in-tree module complains in the log, which fails the run")
def test_equal_names():
    """Interfaces with equal names in different namespaces: no confusion."""
    pair = ends()
    place = kmsg_tail()
    names = [end.ifname for end in pair]

    def rename(end, name):
        end.set("down")
        end.set(f"name {name}")
        end.ifname = name
        end.up()

    for end, name in zip(pair, names):
        defer(rename, end, name)
    for end in pair:
        rename(end, "same0")
    for end in pair:
        end.wait_carrier()
    pair.wait_ping()
    tcp_transfer(pair.a, pair.b, 1 << 20)
    ksft_eq(kmsg_since(place, "already present|duplicate"), [])


@timeout(60)
def test_memory_returns():
    """Down gives back what up took."""
    pair = ends()

    def slab():
        text = open("/proc/meminfo", encoding="ascii").read()
        return int(re.search(r"MemAvailable:\s+(\d+)", text).group(1))

    for _ in range(2):
        pair.a.set("down")
        pair.a.up()
        pair.a.wait_carrier()
    before = slab()
    for _ in range(15):
        pair.a.set("down")
        pair.a.up()
        pair.a.wait_carrier()
    pair.wait_ping()
    sm.answers()
    lost = before - slab()
    ksft_pr(f"{lost} KiB less than before")
    ksft_le(lost, 12 << 10, "KiB lost in 15 rounds")
    ksft_ge(before, 0)
