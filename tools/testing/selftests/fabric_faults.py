# SPDX-License-Identifier: GPL-2.0-only
"""Faults of the fabric that others rely on: packets, events, answers of the SA."""

import errno
import socket

from lib import (UdpSink, defer, ends, fabric, ksft_eq, ksft_ge, ksft_gt,
                 ksft_in, ksft_le, ksft_raises, port, slow, timeout,
                 udp_exchange)
from lib.sa import path_record, says
from lib.traffic import SO_RCVBUFFORCE, datagram, udp_send
from lib.utils import hold, module_range, wait_until

BOOT = {"ipoib": "ours", "hcas": 3, "seconds": 45}


def hosts():
    """Not on the first HCA, which is the SM's."""
    return ends(1, 2)


def order(pair, count):
    """Numbers of datagrams in the order in which they arrive."""
    found = []
    with pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as rx, \
            pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as tx:
        rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        rx.bind((pair.b.v4, 0))
        rx.settimeout(slow(1.5))
        ksft_eq(udp_send(tx, rx.getsockname(), count, 100), count)
        while len(found) < count:
            try:
                data = rx.recv(2000)
            except OSError:
                break
            number = int.from_bytes(data[:4], "big")
            ksft_eq(data, datagram(number, 100))
            found.append(number)
    return found


def test_duplicates():
    """Datagrams arrive twice, as many as are to, and each as it was sent."""
    pair = hosts()
    before = pair.a.port.counter("duplicated")
    got = udp_exchange(pair.a, pair.b, 100)
    ksft_eq((len(got.seen), got.duplicates(), got.bad), (100, 0, 0))
    fault = pair.a.port.fault("dup_ppm", 1000000)
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        udp_send(sock, (pair.b.v4, sink.port), 50, 1000)
        wait_until(lambda: sink.drain() == 50 and sink.duplicates() == 50, 5,
                   "each of them twice")
        ksft_eq(sink.bad, 0)
    fault.exec()
    ksft_ge(pair.a.port.counter("duplicated") - before, 50)
    fault = pair.a.port.fault("dup_ppm", 300000)
    got = udp_exchange(pair.a, pair.b, 400)
    ksft_eq((len(got.seen), got.bad), (400, 0))
    ksft_gt(got.duplicates(), 40)
    ksft_le(got.duplicates(), 250)
    fault.exec()


def test_reordering():
    """Datagrams are overtaken, as many as are to be, and none is lost."""
    pair = hosts()
    ksft_eq(order(pair, 64), list(range(64)))
    before = pair.b.port.counter("reordered")
    fault = pair.b.port.fault("reorder_ppm", 300000)

    def overtaken():
        found = order(pair, 64)
        ksft_eq(sorted(found), list(range(64)))
        return found != sorted(found)

    # The next one has to be sent within a millisecond.
    wait_until(overtaken, 20, "a datagram that overtakes another one")
    ksft_gt(pair.b.port.counter("reordered"), before)
    fault.exec()
    ksft_eq(order(pair, 64), list(range(64)))


def looked(where, name, times=1, num=None, least=1):
    """
    How often the core looks at the port when an event is raised, at least so often.
    """
    fabric.record(module_range("ib_core"), memory=False)
    where.event(name, times, num)

    def count():
        return sum(call.count for call in fabric.calls()
                   if call.name == "query_port")

    # The core passes events on one after the other.
    where.event("lid_change")
    wait_until(lambda: count() >= least, 20, f"{least} looks at the port")

    def still():
        before = count()
        hold(slow(0.5))
        return before == count()

    wait_until(still, 20, "the core at rest")
    found = count()
    fabric.record(None)
    return found


@timeout(60)
def test_events():
    """Events come as often as they are raised, for any port."""
    where = hosts().a.port
    once = looked(where, "lid_change")
    looked(where, "lid_change", 50, least=once + 49)
    # Of ports that are not there the core does not even ask the HCA.
    for num in (0, 2, 255):
        ksft_le(looked(where, "lid_change", 50, num), once + 25, f"port {num}")
        with ksft_raises(OSError) as refused:
            where.event("sm_change", 1, num)
        ksft_eq(refused.error.errno, errno.EOPNOTSUPP)
    for wrong in ("nonsense", "lid_change x 1", "lid_change 1 1 1",
                  "lid_change 10001"):
        with ksft_raises(OSError, wrong):
            where.set("event", wrong)


def test_sa_answers():
    """Answers of the SA are changed where they should be, at one port only."""
    pair = hosts()
    one, other = pair.a.port, pair.b.port
    gid = bytes.fromhex(other.gid().replace(":", ""))
    before, elsewhere = path_record(one, gid), path_record(other, gid)
    ksft_eq(before[8:24], gid)
    again = says(one, path_sl=5, path_mtu=0x82, path_dlid=0x4321)
    ksft_eq(len(one.get("sa_patch").splitlines()), 3)
    found = path_record(one, gid)
    ksft_eq((found[40:42], found[52:54], found[54]), (b"\x43\x21", b"\0\5", 0x82))
    ksft_eq(found[:40] + found[42:52] + found[55:],
            before[:40] + before[42:52] + before[55:], "the rest")
    ksft_eq(path_record(other, gid), elsewhere, "at another port")
    again.exec()
    ksft_eq((one.get("sa_patch"), path_record(one, gid)), ("", before))
    says(one, status=0x0300)
    with ksft_raises(OSError) as refused:
        path_record(one, gid)
    ksft_in("status 0x300", str(refused.error))


def test_sa_patch_refused():
    """What is no change of an answer is refused, and there are eight at most."""
    where = port(1)
    defer(where.set, "sa_patch", "off")
    for wrong in ("0x35", "0x35 1", "0x35 1 0", "0x35 1 xx", "0 1 00",
                  "0x10000 1 00", "0x35 255 0000", "0x35 -1 00",
                  "0x35 1 " + 17 * "00", "0x35 1 00 x"):
        with ksft_raises(OSError, wrong):
            where.set("sa_patch", wrong)
    for number in range(8):
        where.set("sa_patch", f"0x35 {60 + number} ff")
    with ksft_raises(OSError) as refused:
        where.set("sa_patch", "0x35 255 ff")
    ksft_eq(refused.error.errno, errno.ENOSPC)
    where.set("sa_patch", "off")
    ksft_eq(where.get("sa_patch"), "")
