# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode over HCAs of all kinds."""

import socket

from lib import (Flood, Stream, UdpSink, any_ends, defer, define, ends_with,
                 fabric, ip, kmsg_since, ksft_eq, ksft_ge, ksft_gt, ksft_le,
                 ksft_pr, ksft_true, load_module, loaded, ping, ping_ok, port,
                 slow, tcp_transfer, timeout, udp_exchange, unload_module,
                 wait_until)
from lib.connected import (MTU, both_connected, conns, counter, counters,
                           established, set_mode, wait_connected)
from lib.genl import family
from lib.sa import says
from lib.traffic import udp_send

BOOT = {"hcas": 1, "ipoib": "ours", "seconds": 130}
VERBS_ONLY = "connected mode"

MIB = 1 << 20


def workload(pair):
    """IPv4, IPv6, TCP, UDP and small segments over connections."""
    both_connected(pair)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, 100, 1472, 2017, 3690, 9000, 36480, 60000,
                     MTU - 28):
            ping_ok(src.ns, dst.v4, size=size, limit=slow(2))
        ping_ok(src.ns, dst.v6, size=MTU - 48, limit=slow(2))
        tcp_transfer(src, dst, 8 * MIB)
        tcp_transfer(src, dst, 2 * MIB, address=dst.v6)
        tcp_transfer(src, dst, MIB, mss=1460)
        got = udp_exchange(src, dst, 50, 20000)
        ksft_eq((len(got.seen), got.bad), (50, 0), "UDP")
    for end in pair:
        stats = counters(end)
        ksft_eq((stats["conn_broken"], stats["conn_rx_bad"]), (0, 0))
        end.port.no_mistakes()


def reload(**params):
    """The module with other parameters until the case ends."""
    def unload():
        if loaded():
            unload_module()

    unload()
    defer(unload)
    load_module(**params)


def test_no_srq():
    """No shared receive queues: each connection has its own, a short one."""
    pair = ends_with(srq=0)
    workload(pair)
    posted = [qp.posted for qp in pair.a.port.hca.data_qps()
              if qp.type == "RC" and qp.limit > 1]
    ksft_eq(len(posted), 1)
    ksft_le(posted[0], 256)


def test_no_srq_starts_small():
    """A connection nobody sends by holds little memory."""
    pair = ends_with(srq=0)
    both_connected(pair)
    for end in pair:
        posted = [qp.posted for qp in end.port.hca.data_qps()
                  if qp.type == "RC" and qp.limit > 1]
        ksft_eq(len(posted), 1)
        ksft_le(posted[0], 24, "receives posted")


def works_with(caps):
    """All goes between HCAs with these capabilities."""
    workload(ends_with(**caps))


CASES = {
    # A DMA device behind the HCA: every mapping is checked.
    "test_real_dma": {"dma": 1},
    # The same without SRQ and offloads.
    "test_real_dma_no_srq": {"dma": 1, "srq": 0, "csum": 0, "lso": 0},
    # No checksum and segmentation of datagrams.
    "test_no_offloads": {"csum": 0, "lso": 0},
    # Four and three gather entries: packets are repacked.
    "test_few_sge": {"max_sge": 4, "srq": 0},
    # Three entries, to gather and to scatter.
    "test_three_sge": {"max_sge": 3, "max_srq_sge": 3},
    # Two entries: packets are made linear, receives are of two pieces.
    "test_two_sge": {"max_sge": 2, "max_srq_sge": 2, "lso": 0},
    # An InfiniBand MTU of 2048: messages are of many packets.
    "test_small_mtu": {"mtu": 2048},
    # One completion vector.
    "test_one_vector": {"vectors": 1},
    # Short queues and CQs.
    "test_short_queues": {"max_qp_wr": 512, "max_cqe": 1280},
}
define(globals(), CASES, works_with)


def test_one_srq_sge():
    """One piece per receive: shorter messages, and the peer is told."""
    fabric.add_hca(2, max_srq_sge=1, ud_srq=0)
    fabric.add_hca(3)
    pair = both_connected(any_ends(port(2), port(3), ("h3", "h4"), 3,
                                   keep=False))
    announced = int(established(pair.b, "us")[0]["max_msg"])
    ksft_le(announced, 32768)
    ksft_ge(announced, 30000)
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        tcp_transfer(src, dst, 4 * MIB)
        wait_until(lambda s=src, d=dst: udp_exchange(
            s, d, 2, 60000, limit=slow(1)).seen, 15, "long datagrams")
    ksft_gt(counter(pair.b, "pmtu_signalled"), 0)
    for end in pair:
        ksft_eq(counters(end)["conn_broken"], 0)


@timeout(90)
def test_limit():
    """Without SRQ, more connections than allowed are refused, and said so."""
    reload(max_nonsrq_conn_qp=1)
    pair = both_connected(ends_with((2, 3, 4), srq=0))
    third = any_ends(port(4), port(0), ("h5", "h6"), 4, keep=False)
    ip(["addr", "add", "10.0.3.9/24", "dev", third.a.ifname], ns=third.a.ns)
    set_mode(third.a, "connected")

    def refused():
        ping_ok(third.a.ns, pair.a.v4, limit=slow(3))
        return counter(third.a, "conn_rejected")

    wait_until(refused, 20, "a refusal")
    ksft_gt(counter(pair.a, "conn_refused"), 0)
    ksft_eq(counter(pair.a, "conn_passive"), 1)
    ksft_true(kmsg_since(pattern="max_nonsrq_conn_qp"), "said in the log")
    ping_ok(pair.b.ns, pair.a.v4, size=30000, limit=slow(2))
    ping_ok(third.a.ns, pair.a.v4, count=3, limit=slow(2))


def group_mtu(end):
    """The MTU of the broadcast group, as the SA gave it."""
    return [group["mtu"] for group in family(end).get("group-get", end.ifindex())
            if group.get("broadcast") and "mtu" in group]


@timeout(90)
def test_group_too_long():
    """
    The SA says that the link's MTU is more than the port's: nothing is sent that is
    longer than that, since an HCA stops at it, and all others that send with it.
    """
    pair = both_connected(ends_with(mtu=2048))
    end = pair.a
    says(end.port, group_mtu=0x85)
    end.port.event("client_reregister")
    wait_until(lambda: group_mtu(end) == [4096], 10, "the SA's answer")
    ping_ok(end.ns, pair.b.v4, limit=slow(2))
    before = end.stat("tx_errors"), counter(end, "qp_restarts")
    with end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        # Longer than the port's MTU, not than what the SA said.
        udp_send(sock, (end.v4.rsplit(".", 1)[0] + ".255", 9), 20, 3000, gap=0.02)
        ping_ok(end.ns, pair.b.v4, limit=slow(2))
    ksft_eq((end.stat("tx_errors"), counter(end, "qp_restarts")), before)
    for each in pair:
        each.port.no_mistakes()


def path_mtus(end):
    """The MTUs of its neighbours' paths, as the SA gave them; 0: none that there is."""
    return {each["path-mtu"] for each in family(end).get("neigh-get", end.ifindex())
            if "path-mtu" in each}


@timeout(90)
def test_path_too_long():
    """So it says of paths: connections have the port's MTU."""
    pair = ends_with(mtu=2048)
    for mtu, bytes_ in ((0x85, 4096), (0xbf, 0), (0x80, 0)):
        again = [says(end.port, path_mtu=mtu) for end in pair]
        for end in pair:
            end.port.event("client_reregister")
        wait_until(lambda want=bytes_: ping(pair.a.ns, pair.b.v4, limit=0.3) and
                   all(path_mtus(end) == {want} for end in pair), 10,
                   f"paths of {bytes_} bytes")
        both_connected(pair)
        for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
            ping_ok(src.ns, dst.v4, size=30000, limit=slow(3), count=3)
        for end in pair:
            set_mode(end, "datagram")
        for each in again:
            each.exec()
    for end in pair:
        end.port.no_mistakes()


def shared(end):
    """Receives posted, and the most there may be, of a connection's SRQ."""
    return [(qp.posted, qp.limit) for qp in end.port.hca.data_qps()
            if qp.type == "RC" and qp.srq]


@timeout(120)
def test_receives_grow():
    """The receives of connections become as many as recv_queue_size allows."""
    reload(recv_queue_size=1024)
    pair = both_connected(ends_with(vectors=1))
    # An interrupt in 50 ms: as much comes at once as there are receives.
    pair.b.ethtool("-C adaptive-rx off rx-usecs 50000 rx-frames 60000")
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            Flood(pair.a, pair.b.v4, 64, port=sink.port):
        def grown():
            sink.drain()
            return shared(pair.b)[0][0] > 512

        wait_until(grown, 40, "more than 512 receives")
    ksft_eq(shared(pair.b)[0][1], 1024)
    tcp_transfer(pair.a, pair.b, 4 * MIB)


@timeout(120)
def test_receiver_not_ready():
    """Few receives and many senders: nobody loses a connection."""
    reload(recv_queue_size=4)
    pair = both_connected(ends_with())
    before = pair.b.port.counters()["rc_rnr_nak"]
    streams = [Stream(pair.a, pair.b, total=2 * MIB) for _ in range(8)]
    for stream in streams:
        stream.finish(90)
    ksft_pr(f"{pair.b.port.counters()['rc_rnr_nak'] - before} times not ready")
    for end in pair:
        ksft_eq(counters(end)["conn_broken"], 0)
    ksft_eq(len(conns(pair.a)), 2)
    wait_connected(pair.a, pair.b)
