#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The distribution's module on the fabric, in datagram and connected mode."""

from lib import (Flood, Stream, any_ends, defer, ends, fabric, hca, ksft_eq,
                 ksft_ge, ksft_gt, main, mcast_receiver, mcast_sender,
                 ping_ok, port, slow, sm, tcp_transfer, timeout, udp_exchange,
                 wait_until, write)
from lib.ipoib import forget
from lib.traffic import udp_send

BOOT = {"ipoib": "stock", "hcas": 2, "seconds": 45}


def set_mode(pair, mode):
    """Put both ends into a mode, both down meanwhile."""
    for end in pair:
        end.set("down")
    for end in pair:
        write(end.sys("mode"), mode + "\n")
        ksft_eq(end.read("mode"), mode)
    if mode == "connected":
        for end in pair:
            end.set_mtu(65520)
    for end in pair:
        end.up()
    pair.ready()


def multicast(pair, group):
    """Multicast in both directions."""
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        with mcast_receiver(dst, group) as sink, \
                mcast_sender(src, group) as sock:
            def flows(sink=sink, sock=sock):
                udp_send(sock, (group, sink.port), 1, 500)
                return sink.drain()

            wait_until(flows, 10, "multicast", interval=0.2)


def strict(pair):
    for end in pair:
        table = end.port.strict()
        ksft_eq(table, dict.fromkeys(table, 0), f"{end}")


@timeout(90)
def test_datagram():
    """Datagram mode: TCP, UDP, IPv6, multicast."""
    pair = ends()
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        tcp_transfer(src, dst, 4 << 20)
        tcp_transfer(src, dst, 2 << 20, address=dst.v6)
        got = udp_exchange(src, dst, 50, 1500)
        ksft_eq((len(got.seen), got.bad), (50, 0))
    multicast(pair, "239.9.0.1")
    multicast(pair, "ff05::9:1")
    strict(pair)


def connected(pair):
    """Connected mode: packets of 64 KiB, TCP, UDP, IPv6, multicast."""
    def back():
        for end in pair:
            end.set("down")
            write(end.sys("mode"), "datagram\n")
            end.up()
        pair.ready()

    defer(back)
    set_mode(pair, "connected")
    ksft_eq(pair.a.mtu(), 65520)
    ping_ok(pair.a.ns, pair.b.v4, size=60000, df=True, limit=slow(3))
    rc = [qp for qp in pair.a.port.hca.data_qps() if qp.type == "RC"]
    ksft_gt(len(rc), 0, "RC QPs")
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        tcp_transfer(src, dst, 8 << 20)
        tcp_transfer(src, dst, 4 << 20, address=dst.v6)
        got = udp_exchange(src, dst, 50, 30000)
        ksft_ge(len(got.seen), 50)
        ksft_eq(got.bad, 0)
    multicast(pair, "239.9.0.2")
    strict(pair)


@timeout(120)
def test_connected():
    """Connected mode over a shared receive queue."""
    connected(ends())


@timeout(120)
def test_connected_no_srq():
    """Connected mode on HCAs without SRQ."""
    for number in (2, 3):
        fabric.add_hca(number, srq=0)
    connected(any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False))


@timeout(120)
def test_connected_real_dma():
    """Connected mode with a DMA device."""
    for number in (2, 3):
        fabric.add_hca(number, dma=1)
    connected(any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False))


@timeout(120)
def test_connected_work():
    """Connected mode with completion handlers in a work item."""
    for number in (2, 3):
        fabric.add_hca(number, comp_ctx="work")
    connected(any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False))


@timeout(120)
def test_connected_loss():
    """Connected mode on a fabric that loses packets: RC repeats them."""
    pair = ends()

    def back():
        for end in pair:
            end.set("down")
            write(end.sys("mode"), "datagram\n")
            end.up()
        pair.ready()

    defer(back)
    set_mode(pair, "connected")
    tcp_transfer(pair.a, pair.b, 1 << 20)
    fault = pair.a.port.fault("loss_ppm", 2000)
    tcp_transfer(pair.a, pair.b, 2 << 20, limit=60)
    fault.exec()
    pair.wait_ping(20)


def test_link_flap():
    """A cable is pulled and put back."""
    pair = ends()
    pair.b.port.link(False)
    defer(pair.b.port.link, True)
    pair.b.wait_no_carrier()
    pair.b.port.link(True)
    pair.b.wait_carrier()
    pair.wait_ping()
    strict(pair)


def test_sm_restart():
    """OpenSM restarts under traffic."""
    pair = ends()
    stream = Stream(pair.a, pair.b, rate=4 << 20)
    defer(stream.abort)
    sm.restart()
    sm.answers()
    stream.wait_progress()
    stream.finish()
    multicast(pair, "239.9.0.3")
    strict(pair)


@timeout(90)
def test_hot_unplug():
    """HCAs are pulled under traffic and plugged in again."""
    for _ in range(3):
        for number in (2, 3):
            hca(number).plug()
            port(number).wait_active()
        pair = any_ends(port(2), port(3), ("h3", "h4"), 3)
        with Flood(pair.a, pair.b.v4, 700, gap=0.001, burst=8), \
                Flood(pair.b, pair.a.v4, 700, gap=0.001, burst=8):
            tcp_transfer(pair.a, pair.b, 1 << 20)
            for number in (2, 3):
                hca(number).unplug()
        forget(pair)
    ksft_eq(len(fabric.hcas()), 2)


if __name__ == "__main__":
    main(globals())
