# SPDX-License-Identifier: GPL-2.0-only
"""
RDS of the kernel on the fabric: what rds-ping, rds-stress and its RDMA do.

The distribution has no rds-tools, so the sockets are used as those do.
"""

import ctypes
import errno
import mmap
import os
import random
import socket
import struct
import threading
import time
import zlib

from lib import (Skip, cmd, defer, exists, ksft_eq, ksft_lt, ksft_pr,
                 ksft_true, now, port, slow, timeout,
                 wait_until)
from lib.fabric import Crossed
from lib.one_net import OneNet

BOOT = {"hcas": 2, "needs": "verbs-tools", "mem": 1024, "seconds": 60}
GROUPS = ("verbs",)

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
# linux/rds.h
RDS_FREE_MR = 3
RDS_CMSG_RDMA_ARGS = 1
RDS_CMSG_RDMA_DEST = 2
RDS_CMSG_RDMA_MAP = 3
RDS_CMSG_RDMA_STATUS = 4
RDS_RDMA_READWRITE = 0x01       # write, else read
RDS_RDMA_INVALIDATE = 0x04
RDS_RDMA_NOTIFY_ME = 0x20

MIB = 1 << 20
HEAD = struct.Struct("<II")
SIZES = (HEAD.size, 100, 4095, 4096, 4097, 65535, 65536, 300000, MIB)


def rds():
    """The protocol, and two addresses in the network it knows."""
    if exists("/proc/lockdep"):
        raise Skip("lockdep: rds_trans_sem against the handler_mutex of rdma_cm, "
                   "in the kernel's own net/rds")
    cmd(["modprobe", "rds_rdma"])
    defer(cmd, ["rmmod", "rds_rdma", "rds"])
    return OneNet()


def rds_socket(address, number):
    sock = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    defer(sock.close)
    sock.bind((address, number))
    sock.settimeout(slow(20))
    # A datagram has to fit.
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 * MIB)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 * MIB)
    return sock


class Sender(threading.Thread):
    """Datagrams of random sizes: number, checksum, data."""

    def __init__(self, sock, target, count, seed):
        super().__init__(daemon=True)
        self.sock, self.target, self.count = sock, target, count
        self.random = random.Random(seed)
        self.error = None
        self.bytes = 0

    def run(self):
        try:
            for number in range(self.count):
                size = self.random.choice(SIZES)
                data = self.random.randbytes(size - HEAD.size)
                self._send(HEAD.pack(number, zlib.crc32(data)) + data)
                self.bytes += size
        except OSError as error:
            self.error = error

    def _send(self, data):
        """
        The peer's buffer may be full.  RDS does not wake who waits for room if
        both addresses are the same host's: its map of them has changed before
        the peer's message says so.
        """
        end = now() + slow(20)
        while True:
            try:
                self.sock.sendto(data, self.target)
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS or now() > end:
                    raise
            time.sleep(0.01)


class Receiver(threading.Thread):
    """All of them arrive, once, in order, as they were sent."""

    def __init__(self, sock, count):
        super().__init__(daemon=True)
        self.sock, self.count = sock, count
        self.numbers, self.broken = [], []
        self.error = None

    def run(self):
        try:
            while len(self.numbers) < self.count:
                data = self.sock.recv(2 * MIB)
                number, digest = HEAD.unpack_from(data)
                if zlib.crc32(data[HEAD.size:]) != digest:
                    self.broken.append(number)
                self.numbers.append(number)
        except OSError as error:
            self.error = error


def stress(net, first, count, meanwhile=None):
    """Both ways at once on two pairs of sockets; bytes sent."""
    socks = [[rds_socket(address, first + i) for address in net.addresses]
             for i in range(2)]
    senders, receivers = [], []
    for number, pair in enumerate(socks):
        for mine, other in (pair, pair[::-1]):
            senders.append(Sender(mine, other.getsockname(), count, number))
            receivers.append(Receiver(other, count))
    for thread in senders + receivers:
        thread.start()
        defer(thread.join, slow(25))
    if meanwhile:
        meanwhile(receivers)
    for thread in senders + receivers:
        thread.join(slow(60))
        ksft_eq((thread.is_alive(), thread.error), (False, None))
    for receiver in receivers:
        ksft_eq(receiver.broken, [], "damaged")
        ksft_eq(receiver.numbers, list(range(count)), "each once, in order")
    return sum(sender.bytes for sender in senders)


@timeout(120)
def test_ping():
    """Port 0 of a host answers, both ways."""
    net = rds()
    start = Crossed(port(0), port(1))
    for mine, other in (net.addresses, net.addresses[::-1]):
        sock = rds_socket(mine, 0)
        for _ in range(20):
            sock.sendto(b"", (other, 0))
            data, source = sock.recvfrom(64)
            ksft_eq((data, source), (b"", (other, 0)))
    start.check(40)


@timeout(240)
def test_stress():
    """Datagrams of up to 1 MiB on four sockets."""
    net = rds()
    start = Crossed(port(0), port(1))
    begin = now()
    done = stress(net, 4000, 60)
    ksft_pr(f"{done / MIB / (now() - begin):.0f} MiB/s")
    start.check(done // 2 - MIB)


@timeout(240)
def test_link_flap():
    """Nothing is lost or comes twice when a link is down for two seconds."""
    net = rds()

    def flap(receivers):
        wait_until(lambda: any(r.numbers for r in receivers), 20, "the first")
        port(1).link(False)
        defer(port(1).link, True)
        time.sleep(2)
        before = [len(r.numbers) for r in receivers]
        ksft_lt(min(before), 200, "received before")
        port(1).link(True)
        port(1).wait_active()

    stress(net, 4100, 200, flap)


def address_of(buffer):
    """Where a buffer that may be written stands in memory."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def control(sock, kind):
    """The datagram that comes next, or none, and its control data of a kind."""
    data, control_data, _, _ = sock.recvmsg(64, 256)
    return data, [what for level, found, what in control_data
                  if (level, found) == (socket.SOL_RDS, kind)]


def transfer(sock, target, cookie, buffer, flags):
    """Write or read what the peer has mapped; the status of that."""
    vector = bytearray(struct.pack("=QQ", address_of(buffer), len(buffer)))
    args = struct.pack("=QQQQQQQ", cookie, 0, len(buffer), address_of(vector),
                       1, flags | RDS_RDMA_NOTIFY_ME, cookie)
    sock.sendmsg([b"done"], [(socket.SOL_RDS, RDS_CMSG_RDMA_ARGS, args)], 0,
                 target)
    data, found = control(sock, RDS_CMSG_RDMA_STATUS)
    ksft_eq((data, len(found)), (b"", 1), "a notice")
    token, status = struct.unpack("=Qi", found[0][:12])
    ksft_eq(token, cookie)
    return status


@timeout(120)
def test_rdma():
    """A peer writes and reads memory that was mapped for it, and no other."""
    net = rds()
    start = Crossed(port(0), port(1))
    server, client = [rds_socket(address, 4200) for address in net.addresses]
    size = 64 * mmap.PAGESIZE
    mapped, local = mmap.mmap(-1, size), mmap.mmap(-1, size)
    for turn in range(8):
        cookie = bytearray(8)
        args = struct.pack("=QQQQ", address_of(mapped), size,
                           address_of(cookie), 0)
        server.sendmsg([b"map"], [(socket.SOL_RDS, RDS_CMSG_RDMA_MAP, args)],
                       0, client.getsockname())
        data, found = control(client, RDS_CMSG_RDMA_DEST)
        ksft_eq((data, found), (b"map", [bytes(cookie)]))
        cookie = struct.unpack("=Q", cookie)[0]
        local[:] = os.urandom(size)
        ksft_eq(transfer(client, server.getsockname(), cookie, local,
                         RDS_RDMA_READWRITE), 0, f"write {turn}")
        ksft_eq(server.recv(64), b"done")
        ksft_true(mapped[:] == local[:], "written")
        mapped[:] = os.urandom(size)
        ksft_eq(transfer(client, server.getsockname(), cookie, local, 0), 0,
                f"read {turn}")
        ksft_eq(server.recv(64), b"done")
        ksft_true(mapped[:] == local[:], "read")
        server.setsockopt(socket.SOL_RDS, RDS_FREE_MR,
                          struct.pack("=QQ", cookie, RDS_RDMA_INVALIDATE))
    start.check(8 * size)
