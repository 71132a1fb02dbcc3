#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Packets that programs leave to be finished, in both modes and in between."""

import os
import signal
import socket

from lib import (UdpSink, any_ends, defer, ends, fabric, ksft_eq, main, port,
                 slow, tcp_transfer, timeout, wait_until)
from lib.connected import set_mode, to_datagram
from lib.traffic import datagram, family_of

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 150, "group": "offload"}

SOL_UDP, UDP_SEGMENT = 17, 103
SO_SNDBUFFORCE = 32


def plain(**caps):
    """Two hosts on HCAs that neither cut packets nor know checksums."""
    caps = {"csum": 0, "lso": 0, **caps}
    for number in (2, 3):
        fabric.add_hca(number, **caps)
    return any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False)


def segment_socket(space, family, size):
    """A UDP socket whose packets are cut into datagrams of that size."""
    sock = space.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(SOL_UDP, UDP_SEGMENT, size)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
    return sock


def send_segments(sock, where, count, size, each):
    """@count datagrams of @size octets that can be checked, @each at a time."""
    for first in range(0, count, each):
        numbers = range(first, min(first + each, count))
        sock.sendto(b"".join(datagram(n, size) for n in numbers), where)
        yield numbers.stop


def check_segments(pair, address, size, count=120, each=20):
    """All that is sent with UDP_SEGMENT arrives as datagrams."""
    sink = UdpSink(pair.b.ns, address)
    defer(sink.close)
    sock = segment_socket(pair.a.ns, family_of(address), size)
    with sock:
        for sent in send_segments(sock, (address, sink.port), count, size,
                                  each):
            sink.collect(sent, slow(2))
    ksft_eq((len(sink.seen), sink.bad, sink.duplicates()), (count, 0, 0),
            f"{size} octets to {address}")


class Segments:
    """A process that sends zeroes with UDP_SEGMENT until it is stopped."""

    def __init__(self, pair, address, octets=20000, size=1000):
        self.child = os.fork()
        if not self.child:
            try:
                self._run(pair, address, octets, size)
            finally:
                os._exit(1)
        defer(self.stop)

    @staticmethod
    def _run(pair, address, octets, size):
        sock = segment_socket(pair.a.ns, family_of(address), size)
        data = bytes(octets)
        while True:
            try:
                sock.sendto(data, (address, 9))
            except OSError:
                os.sched_yield()

    def stop(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = None


def sent_more(end, packets=40):
    """Wait until the interface has sent that much more."""
    before = end.stat("tx_packets")
    wait_until(lambda: end.stat("tx_packets") >= before + packets, 10,
               f"{packets} packets of {end}", interval=0.01)


def switch_under_segments(pair, times):
    """The mode changes while packets are on their way to be cut."""
    for end in pair:
        defer(to_datagram, end)
    set_mode(pair.b, "connected")
    senders = [Segments(pair, address)
               for address in (pair.b.v4, pair.b.v6)]
    for _ in range(times):
        for name in ("connected", "datagram"):
            set_mode(pair.a, name)
            sent_more(pair.a)
    for sender in senders:
        sender.stop()
    for address in (pair.b.v4, pair.b.v6):
        check_segments(pair, address, 1000)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(120)
def test_segments_mode_switched():
    """UDP_SEGMENT while the mode is switched: cut right, or not sent."""
    switch_under_segments(ends(), 40)


@timeout(120)
def test_segments_mode_switched_plain():
    """The same on HCAs without offloads."""
    switch_under_segments(plain(), 40)


if __name__ == "__main__":
    main(globals())
