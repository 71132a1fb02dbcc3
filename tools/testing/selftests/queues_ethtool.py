# SPDX-License-Identifier: GPL-2.0-only
"""Transmit queues, channels, rings, moderation: ethtool -l, -g, -c under traffic."""

import ctypes
import fcntl
import glob
import os
import re
import socket
import struct
import threading
import types

from lib import (Flood, Mirror, Skip, Stream, any_ends, cmd, defer, ends,
                 fabric, failslab, flowing, hold, kmsg_since, ksft_eq, ksft_ge,
                 ksft_gt, ksft_in, ksft_le, ksft_lt, ksft_ne, ksft_pr,
                 ksft_true, mcast_receiver, mcast_sender, need_modules,
                 neigh_flush, now, ping, ping_ok, port, read, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until, write)
from lib import qstats
from lib.child import Children, child_by_ip, children
from lib.connected import both_connected, conns, counters, set_mode, to_datagram
from lib.ipoib import iface_of
from lib.traffic import tcp_many
from lib.utils import module_range

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 115, "group": "queues"}
VERBS_ONLY = "the driver's own queues"

MIB = 1 << 20
# asm-generic/socket.h
SO_ATTACH_FILTER, SO_BUSY_POLL, SO_INCOMING_NAPI_ID = 26, 46, 56
# linux/filter.h
LOAD, JUMP_EQUAL, RETURN, QUEUE = 0x20, 0x15, 0x06, 0xfffff018
# bpf() of amd64, and linux/bpf.h: commands, a type of program, operations, and
# where queue_mapping is in struct __sk_buff
SYS_BPF, PROG_LOAD, OBJ_PIN, SCHED_CLS = 321, 5, 6, 3
MOVE, STORE, EXIT, QUEUE_MAPPING = 0xb7, 0x63, 0x95, 12


def shown(end, flag):
    """What ethtool shows, in small letters; what can be with -max."""
    found, tail = {}, ""
    for line in end.ethtool(flag).stdout.splitlines():
        name, _, value = line.partition(":")
        if name.endswith(("maximums", "settings")):
            tail = "-max" if name.endswith("maximums") else ""
        elif value.strip().isdigit():
            found[name.strip().lower() + tail] = int(value)
    return found


def tx_queues(end):
    return shown(end, "-l")["tx"]


def stats(end):
    lines = end.ethtool("-S").stdout.splitlines()[1:]
    return {name.strip(): int(value) for name, value in
            (line.split(":") for line in lines)}


def busy(pair):
    """Streams and datagrams both ways, checked when they are finished."""
    streams = [Stream(pair.a, pair.b), Stream(pair.b, pair.a),
               Stream(pair.a, pair.b, address=pair.b.v6)]
    return streams


def all_through(streams):
    """All have come through, and went on after what was done."""
    for stream in streams:
        before = stream.received
        wait_until(lambda s=stream, b=before: s.received > b + MIB, 30,
                   "more bytes")
        stream.finish(60)


def qpns(end, kind="UD"):
    return [qp.qpn for qp in end.port.hca.data_qps() if qp.type == kind]


# ---- queues ------------------------------------------------------------


def cpu_masks(end):
    """The CPUs that each queue is for."""
    return [int(end.read(f"queues/tx-{n}/xps_cpus"), 16)
            for n in range(tx_queues(end))]


def test_one_for_each_cpu():
    """A parent has a queue for each CPU, with a QP and XPS; a child has one."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    channels = shown(pair.a, "-l")
    ksft_eq((channels["tx"], channels["tx-max"]), (os.cpu_count(),) * 2)
    ksft_eq((channels["rx"], channels["rx-max"]), (os.cpu_count(),) * 2)
    ksft_eq(len(qpns(pair.a)), os.cpu_count())
    for end in pair:
        ksft_eq(sorted(cpu_masks(end)), [1 << n for n in
                                         range(os.cpu_count())])
    both = children(pair, 0x8001)
    ksft_eq(tx_queues(both.a), 1)
    tcp_transfer(both.a, both.b, MIB)


def send_on(end, where, cpu, count, gap=0.002):
    """Datagrams by a thread of a CPU."""
    end.ns.cmd(["taskset", "-c", str(cpu), "ping", "-q", "-i", str(gap), "-c",
                str(count), where], timeout=slow(30))


def test_spread():
    """What a CPU sends goes by its own queue, and is counted there."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    neigh_flush(pair.a)
    ping_ok(pair.a.ns, pair.b.v4)
    for cpu in range(os.cpu_count()):
        before = stats(pair.a)
        send_on(pair.a, pair.b.v4, cpu, 50)
        after = stats(pair.a)
        posts = [after[f"tx{n}_posts"] - before[f"tx{n}_posts"]
                 for n in range(os.cpu_count())]
        queue = cpu_masks(pair.a).index(1 << cpu)
        ksft_ge(posts[queue], 45, f"posts of {posts}")
        ksft_le(sum(posts) - posts[queue], 10, f"posts of {posts}")


@timeout(60)
def test_resolution_by_first():
    """ARP, neighbour discovery and multicast come from the QP peers know."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    known = pair.a.qpn()
    lid = pair.a.port.lid()
    with Mirror(pair.a.port) as mirror:
        for cpu in range(os.cpu_count()):
            neigh_flush(pair.a)
            for where in (pair.b.v4, pair.b.v6):
                send_on(pair.a, where, cpu, 3)
            sock = mcast_sender(pair.a, "239.1.2.3")
            os.sched_setaffinity(0, {cpu})
            try:
                sock.sendto(b"x" * 100, ("239.1.2.3", 9))
            finally:
                os.sched_setaffinity(0, range(os.cpu_count()))
            sock.close()
        packets = mirror.stop()
    mine = [p for p in packets if p.slid == lid and p.ipoib()]
    unicast = {p.sqpn for p in mine if p.dqpn != 0xffffff and
               p.ipoib()[0] == 0x0800}
    ksft_eq(unicast, set(qpns(pair.a)), "QPs that unicast IPv4 used")
    arp = {p.sqpn for p in mine if p.ipoib()[0] == 0x0806}
    ksft_eq(arp, {known}, "ARP")
    discovery = {p.sqpn for p in mine if p.ipoib()[0] == 0x86dd and
                 p.ipoib()[2][6] == 58}
    ksft_eq(discovery, {known}, "neighbour discovery")
    group = {p.sqpn for p in mine if p.dqpn == 0xffffff}
    ksft_eq(group, {known}, "multicast")


@timeout(120)
def test_number_under_traffic():
    """Queues come and go while streams pass; features and counters follow."""
    pair = ends()
    defer(pair.a.ethtool, f"-L tx {os.cpu_count()}", fail=False)
    streams = busy(pair)
    for _ in range(3):
        for number in (1, os.cpu_count()):
            pair.a.ethtool(f"-L tx {number}")
            ksft_eq(tx_queues(pair.a), number)
            ksft_eq(len(qpns(pair.a)), number)
            ksft_eq(len([name for name in stats(pair.a)
                         if name.endswith("_posts")]), number)
            flowing(*pair)
    all_through(streams)
    for end in pair:
        ksft_eq(stats(end)["tx0_errors"], 0)
    pair.ready()


def test_number_while_down():
    """A number set while down is there when it comes up."""
    pair = ends()
    defer(pair.ready)
    defer(pair.a.ethtool, f"-L tx {os.cpu_count()}", fail=False)
    pair.a.set("down")
    pair.a.ethtool("-L tx 1")
    pair.a.up()
    pair.ready()
    ksft_eq(len(qpns(pair.a)), 1)
    tcp_transfer(pair.a, pair.b, 4 * MIB)
    pair.a.set("down")
    pair.a.ethtool(f"-L tx {os.cpu_count()}")
    pair.a.up()
    pair.ready()
    for cpu in range(os.cpu_count()):
        send_on(pair.a, pair.b.v4, cpu, 5)


def test_numbers_refused():
    """None, or more than there are, is refused and changes nothing."""
    end = ends().a
    before = shown(end, "-l")
    for words in ("tx 0", "rx 0", f"tx {os.cpu_count() + 1}",
                  f"rx {os.cpu_count() + 1}", "combined 1", "other 1"):
        ksft_ne(end.ethtool(f"-L {words}", fail=False).ret, 0, words)
    ksft_eq(shown(end, "-l"), before)


@timeout(60)
def test_child_with_queues():
    """A child has as many as ip link was told, and ethtool changes them."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8002, more="numtxqueues 4")
    other = child_by_ip(pair.b, 0x8002)
    for each in (child, other):
        each.up()
        each.wait_carrier()
    ksft_eq(tx_queues(child), 4)
    wait_until(lambda: not ping_fails(child, other), 10, "an answer")
    tcp_transfer(child, other, 2 * MIB)
    for number in (1, 3):
        child.ethtool(f"-L tx {number}")
        ksft_eq(tx_queues(child), number)
        tcp_transfer(child, other, 2 * MIB)


def ping_fails(src, dst):
    try:
        ping_ok(src.ns, dst.v4, limit=1)
    except Exception:  # pylint: disable=broad-except
        return True
    return False


def test_channels_of_child():
    """Receive channels and rings are the port's: shown and refused, with why."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    child = child_by_ip(pair.a, 0x8003)
    ksft_eq(shown(child, "-l")["rx"], shown(pair.a, "-l")["rx"])
    ksft_eq(shown(child, "-g")["rx"], shown(pair.a, "-g")["rx"])
    ksft_ne(child.ethtool("-L rx 1", fail=False).ret, 0)
    ksft_true(kmsg_since(pattern="belong to the port"), "said in the log")
    for words in ("-G rx 128", "-C rx-usecs 7"):
        done = child.ethtool(words, fail=False)
        ksft_ne(done.ret, 0, words)
        ksft_in("parent", done.stderr, words)


@timeout(120)
def test_receive_channels():
    """Connections and children are spread over the channels that are used."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    defer(pair.b.ethtool, f"-L rx {os.cpu_count()}", fail=False)
    for number in (1, os.cpu_count()):
        pair.b.ethtool(f"-L rx {number}")
        ksft_eq(shown(pair.b, "-l")["rx"], number)
        both = children(pair, 0x8004 + number)
        tcp_transfer(both.a, both.b, 2 * MIB)


@timeout(120)
def test_connected_under_traffic():
    """In connected mode connections are made anew, and nothing else is lost."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    defer(pair.ready)
    for end in pair:
        defer(to_datagram, end)
    both_connected(pair)
    defer(pair.a.ethtool, f"-L tx {os.cpu_count()}", fail=False)
    defer(pair.b.ethtool, f"-L rx {os.cpu_count()}", fail=False)
    streams = busy(pair)
    for number in (1, os.cpu_count(), 1, os.cpu_count()):
        pair.a.ethtool(f"-L tx {number}")
        pair.b.ethtool(f"-L rx {number}")
        flowing(*pair)
    all_through(streams)
    for end in pair:
        ksft_eq(counters(end)["conn_broken"], 0)
    wait_until(lambda: len(conns(pair.a, "us")) == 1, 10, "one connection")


@timeout(90)
def test_stray_queue():
    """A filter puts packets of a connection, and multicast, on other queues."""
    fabric.add_hca(2, block_loopback=0)
    fabric.add_hca(3)
    pair = any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False)
    dev = f"dev {pair.a.ifname}"
    pair.a.ns.cmd(["tc", *f"qdisc add {dev} clsact".split()])
    if pair.a.ns.cmd(["tc", *f"filter add {dev} egress matchall action "
                      "skbedit queue_mapping 1".split()], fail=False).ret:
        raise Skip("the kernel has no action skbedit")
    receiver = mcast_receiver(pair.a, "239.1.2.4")
    sock = mcast_sender(pair.a, "239.1.2.4")
    own = stats(pair.a)["rx_packets"]
    for _ in range(20):
        sock.sendto(b"y" * 100, ("239.1.2.4", receiver.port))
    hold(0.5)
    ksft_le(stats(pair.a)["rx_packets"] - own, 5, "own multicast came back")
    receiver.close()
    sock.close()
    tcp_transfer(pair.a, pair.b, 4 * MIB)
    for end in pair:
        set_mode(end, "connected")
    pair.wait_ping()
    # Each packet may come just when the one before it completes.
    for _ in range(8):
        tcp_many(pair, MIB // 4)
    streams = busy(pair)
    all_through(streams)
    ksft_eq(counters(pair.a)["conn_broken"], 0)


@timeout(150)
def test_stray_ipv6():
    """
    IPv6 from another queue than that of the connection, which has packets of
    its own to post: none overtakes them.
    """
    pair = both_connected(ends())
    dev = f"dev {pair.a.ifname}"
    for end in pair:
        defer(to_datagram, end)
        defer(end.set_mtu, end.mtu())
        end.set_mtu(2000)
    # What the stack segments comes as a list of packets to be posted together.
    defer(pair.a.ethtool, "-K tso on")
    pair.a.ethtool("-K tso off")
    for queue in range(pair.a.queues()):
        # The one queue or the other is not the connection's.
        pair.a.ns.cmd(["tc", *f"qdisc add {dev} clsact".split()])
        drop = defer(pair.a.ns.cmd, ["tc", *f"qdisc del {dev} clsact".split()])
        if pair.a.ns.cmd(["tc", *f"filter add {dev} egress protocol ipv6 "
                          f"matchall action skbedit queue_mapping {queue}"
                          .split()], fail=False).ret:
            raise Skip("the kernel has no action skbedit")
        streams = [Stream(pair.a, pair.b) for _ in range(3)] + \
            [Stream(pair.a, pair.b, address=pair.b.v6)]
        with Flood(pair.a, pair.b.v6, 100), \
                Flood(pair.a, pair.b.v4, 4000, burst=8, gap=0.001):
            hold(3)
            all_through(streams)
        drop.exec()
    ksft_eq(counters(pair.a)["conn_broken"], 0)


def bpf(command, form, *values):
    """The system call of that name, with these attributes."""
    attrs = struct.pack(form, *values)
    held = ctypes.create_string_buffer(attrs, len(attrs))
    done = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(SYS_BPF), ctypes.c_long(command), held,
        ctypes.c_long(len(attrs)))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf({command}): {os.strerror(number)}")
    return done


def bpf_files():
    """A directory for programs, until the end of the case."""
    where = "/run/ipoib-test-bpf"
    os.makedirs(where, exist_ok=True)
    if cmd(["mount", "-t", "bpf", "bpf", where], fail=False).ret:
        raise Skip("the kernel has no BPF")
    defer(cmd, ["umount", where])
    return where


def queue_program(where, queue):
    """The path of a program for a filter that puts packets on that queue."""
    path = f"{where}/queue{queue}"
    # Destination, and source << 4, of registers; -1: the class of the filter
    code = b"".join(struct.pack("BBhi", *each) for each in (
        (MOVE, 2, 0, queue), (STORE, 1 | 2 << 4, QUEUE_MAPPING, 0),
        (MOVE, 0, 0, -1), (EXIT, 0, 0, 0)))
    held = [ctypes.create_string_buffer(each) for each in
            (code, b"GPL", path.encode())]
    places = [ctypes.addressof(each) for each in held]
    program = bpf(PROG_LOAD, "IIQQIIQII", SCHED_CLS, len(code) // 8,
                  places[0], places[1], 0, 0, 0, 0, 0)
    try:
        bpf(OBJ_PIN, "QII", places[2], program, 0)
    finally:
        os.close(program)
    return path


def sent_astray(src, dst, path):
    """
    The filter in @path looks at all that is sent, when the core has chosen a
    queue already.  Packets arrive, or are counted as dropped.
    """
    dev = f"dev {src.ifname}"
    src.ns.cmd(["tc", *f"qdisc add {dev} root handle 1: prio".split()])
    remove = defer(src.ns.cmd, ["tc", *f"qdisc del {dev} root".split()])
    src.ns.cmd(["tc", *f"filter add {dev} parent 1: protocol all prio 1 bpf "
                f"object-pinned {path} classid 1:1".split()])
    before = src.stat("tx_dropped")
    with Flood(src, dst.v4, 500, burst=8, gap=0.002):
        came = ping(src.ns, dst.v4, count=3, limit=0.3)
        wait_until(lambda: came or src.stat("tx_dropped") > before, 10,
                   "packets come or are counted as dropped")
    ksft_pr(f"{src}: {src.stat('tx_dropped') - before} packets dropped")
    remove.exec()


@timeout(90)
def test_queue_of_a_filter():
    """A filter of the qdisc chooses a queue that is not there: no crash."""
    need_modules("sch_prio", "cls_bpf")
    pair = ends()
    most = tx_queues(pair.a)
    if most < 2:
        raise Skip("there is one queue only")
    where = bpf_files()
    defer(pair.ready)
    defer(pair.a.ethtool, f"-L tx {most}", fail=False)
    pair.a.ethtool("-L tx 1")
    sent_astray(pair.a, pair.b, queue_program(where, most - 1))
    pair.wait_ping()
    pair.a.ethtool(f"-L tx {most}")
    pair.wait_ping()
    ping_ok(pair.a.ns, pair.b.v4, count=3)

    # It uses less than it has.
    both = Children(child_by_ip(pair.a, 0x800b, more="numtxqueues 32"),
                    child_by_ip(pair.b, 0x800b)).up()
    ksft_le(tx_queues(both.a), 20)
    sent_astray(both.a, both.b, queue_program(where, 20))
    both.ready()
    ping_ok(both.a.ns, both.b.v4, count=3)


# ---- statistics --------------------------------------------------------


def totals(end):
    """What ip -s link shows of packets and bytes."""
    return {name: end.stat(name) for name in
            ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")}


def settled(end):
    """The totals when nothing is under way any more."""
    def same():
        before = totals(end)
        hold(0.3)
        return totals(end) == before and before
    return wait_until(same, 20, "nothing under way")


def counters_at_once(end):
    """Those of the interface, of its queues, and ethtool's, of one moment."""
    def taken():
        wanted = settled(end)
        found = qstats.whole(end), qstats.per_queue(end), stats(end)
        # No report or solicitation came in between?
        return totals(end) == wanted and (wanted, *found)

    return wait_until(taken, 10, "nothing comes for a moment")


def check_sums(end):
    """Netlink's and ethtool's counters add up to the interface's."""
    wanted, whole, queues, own = counters_at_once(end)
    ksft_eq(whole, wanted, "whole")
    ksft_eq(sorted(queues), sorted(
        [("rx", n) for n in range(len(os.listdir(end.sys("queues"))) -
                                  end.queues())] +
        [("tx", n) for n in range(end.queues())]))
    for name in ("rx_packets", "rx_bytes"):
        ksft_eq(sum(each[name] for (kind, _), each in queues.items()
                    if kind == "rx"), wanted[name], name)
        ksft_eq(sum(value for key, value in own.items()
                    if re.fullmatch(rf"rx\d+_{name[3:]}", key)),
                wanted[name], f"ethtool {name}")
    return wanted, queues


def test_sums():
    """Counters of queues add up, in both modes, and after queues have gone."""
    pair = ends()
    both = children(pair, 0x8009)
    defer(pair.a.ethtool, f"-L tx {os.cpu_count()}", fail=False)
    before = [check_sums(end) for end in (*pair, *both)]
    for src, dst in (pair, both):
        for cpu in range(os.cpu_count()):
            send_on(src, dst.v4, cpu, 10)
        tcp_transfer(src, dst, MIB)
    for end, (had, first) in zip((*pair, *both), before):
        wanted, queues = check_sums(end)
        for name in ("tx_packets", "tx_bytes"):
            ksft_eq(sum(each[name] - first[key][name]
                        for key, each in queues.items() if key[0] == "tx"),
                    wanted[name] - had[name], name)
    pair.a.ethtool("-L tx 1")
    tcp_transfer(pair.a, pair.b, MIB)
    check_sums(pair.a)
    for end in both:
        set_mode(end, "connected")
    both.ready()
    tcp_transfer(both.a, both.b, 4 * MIB)
    for end in both:
        check_sums(end)


def test_napis():
    """Each queue of a parent says which NAPI serves it."""
    end = ends().a
    end.port.hca.need(vectors=2)
    found = qstats.napis(end)
    rx = [napi for (kind, _), napi in found.items() if kind == "rx"]
    ksft_eq(len(set(rx)), os.cpu_count())
    ksft_true(all(rx), "receive queues have a NAPI")
    ksft_eq(sorted(napi for (kind, _), napi in found.items() if kind == "tx"),
            sorted(rx))


def setting(end, name, value):
    """Write a file of the interface until the end of the case."""
    defer(write, end.sys(name), read(end.sys(name)) + "\n")
    write(end.sys(name), f"{value}\n")


def napi_threads(end):
    """{process id: nanoseconds it ran} of the threads that poll for it."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            if read(path).startswith(f"napi/{end.ifname}"[:15]):
                pid = path.split("/")[2]
                found[pid] = int(read(f"/proc/{pid}/schedstat").split()[0])
        except OSError:
            pass        # it ended meanwhile
    return found


@timeout(90)
def test_threaded():
    """Threads poll, if they are asked to, and no more when they are not."""
    pair = ends()
    pair.a.port.hca.need(vectors=2)
    defer(pair.ready)
    streams = busy(pair)
    for end in pair:
        setting(end, "threaded", 1)
        ksft_eq(len(napi_threads(end)), os.cpu_count())
    before = [napi_threads(end) for end in pair]
    all_through(streams)
    for end, had in zip(pair, before):
        ran = sum(napi_threads(end).values()) - sum(had.values())
        ksft_gt(ran, 1000000, f"nanoseconds of {end}'s threads")
    streams = busy(pair)
    for end in pair:
        write(end.sys("threaded"), "0\n")
    all_through(streams)


@timeout(90)
def test_deferred_interrupts():
    """Polls by a timer instead of interrupts, while streams pass."""
    pair = ends()
    defer(pair.ready)
    streams = busy(pair)
    for end in pair:
        setting(end, "napi_defer_hard_irqs", 4)
        setting(end, "gro_flush_timeout", 200000)
    all_through(streams)
    ping_ok(pair.a.ns, pair.b.v4)
    ping_ok(pair.b.ns, pair.a.v6)


def restart(end):
    end.set("down")
    end.up()


@timeout(120)
def test_deferred_interrupts_down():
    """Changes do not wait for the next poll, which is 20 seconds away."""
    pair = ends()
    end = pair.a
    most, ring = tx_queues(end), shown(end, "-g")["tx"]
    defer(pair.ready)
    defer(end.ethtool, f"-G tx {ring}", fail=False)
    defer(end.ethtool, f"-L tx {most}", fail=False)
    # Else the timer would have to run out, when the files are as before.
    defer(restart, end)
    setting(end, "napi_defer_hard_irqs", 100)
    setting(end, "gro_flush_timeout", 20 * 10**9)

    def quick(what, act, *args):
        # The first packet that comes starts the timer; others wait for it.
        ping(end.ns, pair.b.v4, limit=0.3)
        begin = now()
        act(*args)
        took = now() - begin
        ksft_pr(f"{what}: {took * 1000:.0f} ms")
        ksft_lt(took, slow(4), what)

    quick("down", end.set, "down")
    quick("up", end.up)
    for words in ("-L tx 1", f"-L tx {most}",
                  f"-G tx {1024 if ring < 1024 else 512}", f"-G tx {ring}"):
        end.wait_carrier()
        quick(words, end.ethtool, words)


def netstat(end, name):
    """A counter of the host's stack."""
    with end.ns.inside():
        lines = [line.split() for line in
                 read("/proc/thread-self/net/netstat").splitlines()]
    return next(int(value) for head, values in zip(lines[::2], lines[1::2])
                for key, value in zip(head, values) if key == name)


@timeout(90)
def test_busy_polling():
    """A socket that waits polls its queue, and gets what comes."""
    pair = ends()
    sink = pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    defer(sink.close)
    sink.setsockopt(socket.SOL_SOCKET, SO_BUSY_POLL, 50000)
    sink.bind((pair.b.v4, 0))
    # Not settimeout(), with which Python does not wait in recv().
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO,
                    struct.pack("ll", int(slow(2)), 0))
    source = pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    defer(source.close)

    before = netstat(pair.b, "BusyPollRxPackets")
    for number in range(50):
        # The one sent now is looked for before it is here.
        sender = threading.Timer(0.005, source.sendto,
                                 (struct.pack("!I", number), sink.getsockname()))
        sender.start()
        ksft_eq(struct.unpack("!I", sink.recv(64))[0], number)
        sender.join()
    ksft_in(sink.getsockopt(socket.SOL_SOCKET, SO_INCOMING_NAPI_ID),
            qstats.napis(pair.b).values())
    ksft_gt(netstat(pair.b, "BusyPollRxPackets") - before, 10,
            "packets found by polling")


# ---- rings -------------------------------------------------------------


@timeout(150)
def test_send_ring_under_traffic():
    """Send rings of other lengths under traffic; peers learn the address."""
    pair = ends()
    defer(pair.ready)
    before = shown(pair.a, "-g")["tx"]
    defer(pair.a.ethtool, f"-G tx {before}", fail=False)
    ksft_ge(shown(pair.a, "-g")["tx-max"], 1024)
    streams = busy(pair)
    for asked, got in ((1024, 1024), (64, 64), (300, 512), (before, before)):
        old = pair.a.address()
        pair.a.ethtool(f"-G tx {asked}")
        ksft_eq(shown(pair.a, "-g")["tx"], got)
        ksft_ne(pair.a.address(), old, "another QP")
        ksft_eq(len(qpns(pair.a)), tx_queues(pair.a))
        for stream in streams:
            mark = stream.received
            wait_until(lambda s=stream, m=mark: s.received > m + MIB // 2, 30,
                       "bytes after it")
    all_through(streams)


@timeout(90)
def test_receive_ring_under_traffic():
    """Fewer and more receives are posted, while streams pass."""
    pair = ends()
    pair.a.port.hca.need(ud_srq=1)
    before = shown(pair.b, "-g")["rx"]
    most = shown(pair.b, "-g")["rx-max"]
    defer(pair.b.ethtool, f"-G rx {before}", fail=False)
    ksft_gt(most, before)

    def posted():
        known = pair.b.qpn()
        return next(qp.posted for qp in pair.b.port.hca.data_qps()
                    if qp.qpn == known)

    streams = busy(pair)
    for size in (100, most, before):
        pair.b.ethtool(f"-G rx {size}")
        ksft_eq(shown(pair.b, "-g")["rx"], size)
        flowing(*pair)
    all_through(streams)
    for size in (64, most, before):
        pair.b.ethtool(f"-G rx {size}")
        udp_exchange(pair.a, pair.b, 2 * most, 300)
        # A few may wait for others, to be posted together.
        least = size - min(size // 8, 16) + 1
        wait_until(lambda s=size, m=least: m <= posted() <= s, 10, f"{size} receives")


def test_rings_refused():
    """What is too short or too long is refused and changes nothing."""
    end = ends().a
    before = shown(end, "-g")
    for words in ("tx 1", "rx 1", "rx 0", "tx 0",
                  f"rx {before['rx-max'] + 1}", f"tx {before['tx-max'] + 1}",
                  "rx-mini 1"):
        ksft_ne(end.ethtool(f"-G {words}", fail=False).ret, 0, words)
    ksft_eq(shown(end, "-g"), before)


def test_ring_without_srq():
    """Without SRQ, the receive ring is what it is, and a change says so."""
    fabric.add_hca(2, srq=0)
    pair = any_ends(port(2), port(0), ("h3", "h4"), 3, keep=False)
    before = shown(pair.a, "-g")
    done = pair.a.ethtool(f"-G rx {before['rx'] // 2}", fail=False)
    ksft_ne(done.ret, 0)
    ksft_in("shared receive queues", done.stderr)
    ksft_eq(shown(pair.a, "-g"), before)
    pair.a.ethtool("-G tx 256")
    ksft_eq(shown(pair.a, "-g")["tx"], 256)
    pair.ready()


def test_segments_follow_ring():
    """The segments of a packet are as many as the ring has room for."""
    fabric.add_hca(2, lso=0)
    pair = any_ends(port(2), port(0), ("h3", "h4"), 3, keep=False)

    def limit():
        return pair.a.link()["gso_max_segs"]

    first = limit()
    seen = {}
    for size in (64, 1024, 128):
        pair.a.ethtool(f"-G tx {size}")
        seen[size] = limit()
    ksft_eq(seen[128], first)
    ksft_gt(seen[1024], first)
    ksft_gt(first, seen[64])
    pair.a.set("gso_max_segs 7")
    pair.a.ethtool("-G tx 1024")
    ksft_eq(limit(), 7, "the administrator's")
    pair.ready()


def test_steering():
    """Of the few QPs for flow steering each interface takes one."""
    fabric.add_hca(2, netif_qps=3)
    pair = any_ends(port(2), port(0), ("h3", "h4"), 3, keep=False)
    ksft_ge(tx_queues(pair.a), 2)
    both = children(pair, 0x8001, 1), children(pair, 0x8002, 2)
    for each in both:
        tcp_transfer(each.a, each.b, 1 << 17)
    tcp_transfer(pair.b, pair.a, 1 << 17)


# ---- moderation --------------------------------------------------------


def only_queue(sock, queue):
    """Have a socket take only packets that say they came by that queue."""
    code = b"".join(struct.pack("HBBI", *each) for each in (
        (LOAD, 0, 0, QUEUE), (JUMP_EQUAL, 0, 1, queue + 1),
        (RETURN, 0, 0, 0xffffffff), (RETURN, 0, 0, 0)))
    held = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                    struct.pack("HP", len(code) // 8, ctypes.addressof(held)))


def test_queue_recorded():
    """A received packet says which queue it came by, for RPS to look at."""
    pair = ends()
    with pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind((pair.b.v4, 0))
        only_queue(sink, 0)
        sink.settimeout(slow(5))
        with pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"by the first queue", sink.getsockname())
        ksft_eq(sink.recv(2048), b"by the first queue")


def test_page_pools_shown():
    """The kernel shows the page pools that an interface receives into."""
    # It forgets whose they are when the interface changes its namespace.
    new = fabric.add_hca(4).port()
    space, name = wait_until(lambda: iface_of(new), 10, "its interface")
    end = types.SimpleNamespace(ns=space, ifindex=lambda: space.ifindex(name))
    ksft_ge(len(qstats.page_pools(end)), 2, f"page pools of {name}")


HOLD = 0.05


def interrupts(sender, end):
    """
    How many it takes to receive 100 datagrams and answer them, and how many
    that may be if they are held back for HOLD seconds.  With less time between
    datagrams a poll on a slow machine may last until the next one.
    """
    before, begin = end.port.counters()["cq_events"], now()
    send_on(sender, end.v4, 0, 100, 0.01)
    took = now() - begin
    # One for each queue and period, however slow the machine is.
    return (end.port.counters()["cq_events"] - before,
            10 + os.cpu_count() * took / HOLD)


def held_back(sender, end, plain):
    """Far less interrupts than without moderation, or one for each period."""
    held, most = interrupts(sender, end)
    ksft_pr(f"{plain} interrupts, {held} when held back, {most:.0f} for the "
            "time it took")
    ksft_le(held, max(plain // 2, most))


@timeout(60)
def test_moderation():
    """Interrupts are held back, for connections and children as well."""
    pair = ends()
    pair.a.port.hca.need(moderation=1)
    ksft_eq(shown(pair.b, "-c")["rx-usecs"], 0)
    ksft_in("Adaptive RX: on", pair.b.ethtool("-c").stdout)
    defer(pair.b.ethtool, "-C adaptive-rx on rx-usecs 0 rx-frames 0",
          fail=False)
    pair.b.ethtool("-C adaptive-rx off")

    plain = interrupts(*pair)[0]
    pair.b.ethtool("-C rx-usecs 50000 rx-frames 1000")
    ksft_eq((shown(pair.b, "-c")["rx-usecs"],
             shown(pair.b, "-c")["rx-frames"]), (50000, 1000))
    held_back(*pair, plain)
    child = children(pair, 0x8006)
    ksft_eq(shown(child.b, "-c")["rx-usecs"], 50000)
    pair.b.ethtool("-C rx-usecs 0 rx-frames 0")
    ksft_ge(interrupts(*pair)[0], plain // 2)
    # Left to itself it is somewhere between, and comes to an end.
    pair.b.ethtool("-C adaptive-rx on")
    ksft_in("Adaptive RX: on", pair.b.ethtool("-c").stdout)
    for _ in range(3):
        tcp_transfer(pair.a, pair.b, 4 * MIB)
    pair.b.ethtool("-C adaptive-rx off")
    ksft_ge(interrupts(*pair)[0], plain // 2)
    for words in ("rx-usecs 70000", "rx-frames 70000", "tx-usecs 5"):
        ksft_ne(pair.b.ethtool(f"-C {words}", fail=False).ret, 0, words)


@timeout(60)
def test_no_moderation():
    """For an HCA that can't hold interrupts back the driver does it by time."""
    fabric.add_hca(2, moderation=0)
    pair = any_ends(port(2), port(0), ("h3", "h4"), 3, keep=False)
    ksft_in("Adaptive RX: on", pair.a.ethtool("-c").stdout)
    pair.a.ethtool("-C adaptive-rx off")
    plain = interrupts(pair.b, pair.a)[0]
    done = pair.a.ethtool("-C rx-usecs 50000 rx-frames 10", fail=False)
    ksft_ne(done.ret, 0)
    ksft_in("can't count frames", done.stderr)
    ksft_eq(shown(pair.a, "-c")["rx-usecs"], 0)
    pair.a.ethtool("-C rx-usecs 50000")
    ksft_eq(shown(pair.a, "-c")["rx-usecs"], 50000)
    held_back(pair.b, pair.a, plain)
    tcp_transfer(pair.b, pair.a, MIB)
    pair.a.set("down")
    pair.a.up()
    pair.ready()
    pair.a.ethtool("-C rx-usecs 0")
    ksft_ge(interrupts(pair.b, pair.a)[0], plain // 2)


# ---- when something can't be had ---------------------------------------


CHANGES = {
    "more queues": ("-L tx 1", f"-L tx {os.cpu_count()}"),
    "longer rings": ("-G tx 128", "-G tx 256"),
}


@timeout(200)
def test_verbs_fail():
    """Each object of the HCA that a change needs can't be made, under traffic."""
    pair = ends()
    end = pair.a
    with Flood(pair.b, pair.a.v4, 500, gap=0.002):
        for name, (first, second) in CHANGES.items():
            end.ethtool(first, fail=False)
            before = shown(end, "-l"), shown(end, "-g"), end.address()
            tried = failed = 0
            for skip in range(8):
                end.port.fault("create_skip", skip)
                fault = end.port.fault("create_error", 1)
                done = end.ethtool(second, fail=False)
                left = int(end.port.get("create_error"))
                fault.exec()
                end.port.set("create_skip", 0)
                if left:
                    break
                tried += 1
                if not done.ret:
                    # A shorter CQ was to be had.  It is kept for a second,
                    # in which it would be found.
                    end.ethtool(first)
                    hold(slow(1.5))
                    before = (shown(end, "-l"), shown(end, "-g"),
                              end.address())
                    continue
                failed += 1
                ksft_eq((shown(end, "-l"), shown(end, "-g"), end.address()),
                        before, name)
                ping_ok(end.ns, pair.b.v4, count=2)
            ksft_pr(f"{name}: {tried} objects, {failed} failures")
            ksft_ge(failed, 1, name)
            ksft_eq(done.ret, 0, name)
            pair.ready()
    end.ethtool("-G tx 128")
    pair.ready()


SIOCETHTOOL = 0x8946
# The flag of ethtool: the commands that read and write, and where tx stands.
COMMANDS = {"-L": (0x3c, 0x3d, 6), "-G": (0x10, 0x11, 8)}


def change(end, words):
    """ethtool -L or -G tx NUMBER, by a system call of this thread."""
    flag, _, number = words.split()
    get, put, place = COMMANDS[flag]
    values = (ctypes.c_uint32 * 9)(get)
    request = struct.pack("16sQ16x", end.ifname.encode(),
                          ctypes.addressof(values))
    with end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCETHTOOL, request)
        values[0], values[place] = put, int(number)
        fcntl.ioctl(sock, SIOCETHTOOL, request)


@timeout(300)
def test_allocations_fail():
    """Each allocation of a change fails in turn."""
    failslab.need()
    pair = ends()
    end = pair.a
    for name, (first, second) in CHANGES.items():
        def act(words=second):
            change(end, words)

        end.ethtool(first, fail=False)
        total = failslab.count(act, module_range())
        end.ethtool(first, fail=False)
        ksft_ge(total, 3, name)
        failed = 0
        for number in range(1, min(total, 24) + 1):
            before = shown(end, "-l"), shown(end, "-g"), end.address()
            with failslab.nth(number, module_range()):
                try:
                    act()
                except OSError:
                    failed += 1
                    worked = False
                else:
                    worked = True
            if worked:
                end.ethtool(first, fail=False)
            else:
                ksft_eq((shown(end, "-l"), shown(end, "-g"), end.address()),
                        before, f"{name}, {number}")
            pair.wait_ping()
        ksft_pr(f"{name}: {total} allocations, {failed} failures")
        ksft_ge(failed, 1, name)
    end.ethtool("-G tx 128")
    end.ethtool(f"-L tx {os.cpu_count()}", fail=False)
    pair.ready()


def steered():
    """Packets that RPS handed to another CPU, of all CPUs."""
    return sum(int(line.split()[9], 16)
               for line in read("/proc/net/softnet_stat").splitlines())


def test_rps():
    """RPS spreads the flows that one channel receives over CPUs."""
    pair = ends()
    path = pair.b.sys("queues/rx-0/rps_cpus")
    defer(write, path, "0")
    write(path, "3")
    before = steered()
    for _ in range(8):
        udp_exchange(pair.a, pair.b, 20, 200)
    ksft_gt(steered(), before)
    write(path, "0")
    udp_exchange(pair.a, pair.b, 20, 200)
    before = steered()
    for _ in range(4):
        udp_exchange(pair.a, pair.b, 20, 200)
    ksft_eq(steered(), before)
