#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Requests for connections that no decent peer makes: refused and bounded."""

import os
import struct

from lib import (Mirror, ksft_eq, ksft_ge, ksft_gt, ksft_le, ksft_pr, main,
                 ping_ok, slow, tcp_transfer, timeout, wait_until)
from lib.capture import bth, deth, lrh
from lib.connected import (conns, connected_ends, counter, counters,
                           established, set_mode, wait_connected)

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}

QKEY_GSI = 0x80010000
CM_CLASS, CM_REQ = 0x07, 0x0010
# Octets of the MAD, behind its header of 24.
COMM_ID, SERVICE_ID, CA_GUID, QPN, FLAGS, PKEY, PRIVATE = (
    24, 32, 40, 56, 67, 72, 164)


class Requests:
    """A real request of the other end, to be changed and sent again."""

    def __init__(self, pair):
        self.pair = pair
        self.number = 0x70000000
        set_mode(pair.a, "datagram")
        with Mirror(pair.b.port) as mirror:
            set_mode(pair.a, "connected")
            pair.wait_ping()
            wait_connected(pair.a, pair.b)
            packets = mirror.stop()
        found = [p.payload for p in packets if p.dqpn == 1 and
                 p.dlid == pair.b.port.lid() and len(p.payload) == 256 and p.payload[1] == CM_CLASS and
                 p.payload[16:18] == struct.pack(">H", CM_REQ)]
        self.mad = bytearray(found[0])

    def send(self, change=None, private=None, dst=None):
        """One more request, of a QP and a CM nobody knows."""
        dst = dst or self.pair.b
        self.number += 1
        mad = bytearray(self.mad)
        mad[8:16] = struct.pack(">Q", self.number)
        mad[COMM_ID:COMM_ID + 4] = struct.pack(">I", self.number)
        mad[CA_GUID:CA_GUID + 8] = struct.pack(">Q", 0xdead0000 + self.number)
        mad[QPN:QPN + 3] = struct.pack(">I", self.number)[1:]
        if change:
            change(mad)
        if private is not None:
            mad[PRIVATE:] = private.ljust(92, b"\0")[:92]
        body = bth(1, 0xffff, 0x64, 0) + deth(QKEY_GSI, 1) + bytes(mad)
        data = lrh(dst.port.lid(), self.pair.a.port.lid(),
                   (8 + len(body) + 4) // 4, False) + body
        fd = os.open(f"{dst.port.dir}/inject", os.O_WRONLY)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)


def private(qpn=0x1234, max_msg=65524, rest=b""):
    return struct.pack(">II", qpn, max_msg) + rest


def test_good():
    """A forged request is answered if it is right: the tests below count."""
    pair = connected_ends()
    requests = Requests(pair)
    accepted = counter(pair.b, "conn_accepted")
    requests.send(private=private())
    wait_until(lambda: counter(pair.b, "conn_accepted") > accepted, 5,
               "an answer")


def test_private_data():
    """Private data that is no use: refused, and counted as such."""
    pair = connected_ends()
    requests = Requests(pair)
    bad = [private(0), private(1), private(0xffffff), private(max_msg=0),
           private(max_msg=4), private(max_msg=71), b"", os.urandom(4)]
    accepted = counter(pair.b, "conn_accepted")
    for data in bad:
        before = counter(pair.b, "conn_malformed")
        requests.send(private=data)
        wait_until(lambda b=before: counter(pair.b, "conn_malformed") > b, 5,
                   f"{data.hex()} refused")
    ksft_eq(counter(pair.b, "conn_accepted"), accepted)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, limit=slow(2))


def test_absurd_values():
    """What is merely too much is taken as what is possible."""
    pair = connected_ends()
    requests = Requests(pair)
    magic = struct.pack(">IBxxxI", 0x49506f2b, 255, 0xffffffff)
    for data in (private(max_msg=0xffffffff), private(0xff123456, 65525),
                 private(0x4711, 65524, magic)):
        accepted = counter(pair.b, "conn_accepted")
        requests.send(private=data)
        wait_until(lambda a=accepted: counter(pair.b, "conn_accepted") > a, 5,
                   "taken")
    for conn in conns(pair.b, "peer"):
        ksft_le(int(conn["max_msg"]), 65524)
        ksft_le(int(conn["caps"], 0), 3)
    tcp_transfer(pair.a, pair.b, 4 << 20)


def test_other_transport():
    """Unreliable connections, another partition: refused."""
    pair = connected_ends()
    requests = Requests(pair)

    def uc(mad):
        mad[FLAGS] = mad[FLAGS] & ~0x06 | 0x02

    def partition(mad):
        mad[PKEY:PKEY + 2] = b"\x80\x01"

    accepted = counter(pair.b, "conn_accepted")
    refused = counter(pair.b, "conn_refused")
    requests.send(uc)
    wait_until(lambda: counter(pair.b, "conn_refused") > refused, 5, "UC")
    requests.send(partition)
    ping_ok(pair.a.ns, pair.b.v4, size=30000, count=3, limit=slow(2))
    ksft_eq(counter(pair.b, "conn_accepted"), accepted)


@timeout(120)
def test_flood():
    """A flood of requests of one peer: few QPs, and others are served."""
    pair = connected_ends()
    requests = Requests(pair)
    for _ in range(600):
        requests.send(private=private())
    stats = counters(pair.b)
    ksft_pr(f"{stats['conn_accepted']} accepted, {stats['conn_refused']} "
            f"refused, {stats['conn_passive']} there")
    wait_until(lambda: counter(pair.b, "conn_passive") <= 8, 30,
               "a bounded number of connections")
    tcp_transfer(pair.a, pair.b, 4 << 20)
    tcp_transfer(pair.b, pair.a, 4 << 20)
    ksft_ge(len(established(pair.b, "peer")), 1)


@timeout(90)
def test_random():
    """Requests with random octets: nothing but refusals."""
    pair = connected_ends()
    requests = Requests(pair)

    def noise(mad):
        at = 24 + int.from_bytes(os.urandom(2), "big") % 230
        mad[at:at + 2] = os.urandom(2)

    for _ in range(300):
        requests.send(noise)
    tcp_transfer(pair.a, pair.b, 4 << 20)
    set_mode(pair.b, "datagram")
    set_mode(pair.b, "connected")
    pair.wait_ping()
    wait_connected(pair.b, pair.a)
    ksft_gt(counter(pair.b, "conn_opened"), 0)


if __name__ == "__main__":
    main(globals())
