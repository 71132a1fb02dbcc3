# SPDX-License-Identifier: GPL-2.0-only
"""The distribution's module on the fabric, in datagram and connected mode."""

from lib import (Flood, Stream, any_ends, defer, define, ends, ends_with,
                 fabric, hca, ksft_eq, ksft_ge, ksft_gt, mcast_passes, ping_ok,
                 port, slow, sm, tcp_transfer, timeout, udp_exchange, write)
from lib.ipoib import forget

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
        mcast_passes(src, dst, group, 500)


def no_mistakes(pair):
    for end in pair:
        end.port.no_mistakes()


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
    no_mistakes(pair)


def to_connected(pair):
    """Both in connected mode until the end of the case."""
    def back():
        for end in pair:
            end.set("down")
            write(end.sys("mode"), "datagram\n")
            end.up()
        pair.ready()

    defer(back)
    set_mode(pair, "connected")


def connected(pair):
    """Connected mode: packets of 64 KiB, TCP, UDP, IPv6, multicast."""
    to_connected(pair)
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
    no_mistakes(pair)


@timeout(120)
def test_connected():
    """Connected mode over a shared receive queue."""
    connected(ends())


@timeout(120)
def connected_with(caps):
    """Connected mode on HCAs with these capabilities."""
    connected(ends_with(**caps))


CASES = {
    # Connected mode on HCAs without SRQ.
    "test_connected_no_srq": {"srq": 0},
    # Connected mode with a DMA device.
    "test_connected_real_dma": {"dma": 1},
    # Connected mode with completion handlers in a work item.
    "test_connected_work": {"comp_ctx": "work"},
}
define(globals(), CASES, connected_with)


@timeout(120)
def test_connected_loss():
    """Connected mode on a fabric that loses packets: RC repeats them."""
    pair = ends()
    to_connected(pair)
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
    no_mistakes(pair)


def test_sm_restart():
    """OpenSM restarts under traffic."""
    pair = ends()
    stream = Stream(pair.a, pair.b, rate=4 << 20)
    sm.restart()
    sm.answers()
    stream.wait_progress()
    stream.finish()
    multicast(pair, "239.9.0.3")
    no_mistakes(pair)


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
