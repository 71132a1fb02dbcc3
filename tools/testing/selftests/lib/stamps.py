# SPDX-License-Identifier: GPL-2.0-only
"""Hardware time stamps of packets, and the clocks that they are made with."""

import array
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import time

from .ksft import Failed
from .utils import slow, wait_until

# linux/sockios.h, linux/net_tstamp.h, asm-generic/socket.h
SIOCSHWTSTAMP, SIOCGHWTSTAMP = 0x89b0, 0x89b1
TX_OFF, TX_ON = 0, 1
FILTER_NONE, FILTER_ALL = 0, 1
SO_TIMESTAMPING = 37
SOFTWARE = 1 << 1 | 1 << 3 | 1 << 4             # TX, RX, report
HARDWARE = 1 << 0 | 1 << 2 | 1 << 6             # the same, raw
MSG_ERRQUEUE = 0x2000
NS = 10 ** 9
ADJ_FREQUENCY = 2                               # linux/timex.h


def set_stamps(end, tx_type, rx_filter, command=SIOCSHWTSTAMP):
    """The interface's setting, as it is afterwards: (tx_type, rx_filter)."""
    config = array.array("i", [0, tx_type, rx_filter])
    request = struct.pack("16sP16x", end.ifname.encode(),
                          config.buffer_info()[0])
    with end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, command, request)
    return config[1], config[2]


def get_stamps(end):
    return set_stamps(end, 0, 0, SIOCGHWTSTAMP)


def stamps_of(control):
    """(software, hardware) in ns of control messages; None each if not there."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
            words = struct.unpack("6q", data[:48])
            soft, hard = (words[i] * NS + words[i + 1] for i in (0, 4))
            return soft or None, hard or None
    return None, None


def send_stamp(sock):
    """The stamps of a packet that was sent, once they are there."""
    def ask():
        try:
            _, control, *_ = sock.recvmsg(0, 512, MSG_ERRQUEUE |
                                          socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        return stamps_of(control)

    return wait_until(ask, 5, "a stamp of what was sent")


def exchange(src, dst, flags=SOFTWARE | HARDWARE):
    """One datagram: the stamps of its sender and of its receiver."""
    with src.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as out, \
            dst.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as back:
        for sock in (out, back):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
            sock.settimeout(slow(5))
        back.bind((dst.v4, 0))
        out.sendto(b"when?", back.getsockname())
        data, control, *_ = back.recvmsg(64, 512)
        if data != b"when?":
            raise Failed(f"got {data}")
        return send_stamp(out), stamps_of(control)


def set_rate(clock, ppm=0):
    """By how much a clock runs faster than by itself: clock_adjtime()."""
    timex = ctypes.create_string_buffer(struct.pack("=I4xqq", ADJ_FREQUENCY, 0,
                                                    ppm << 16), 208)
    if ctypes.CDLL(None, use_errno=True).clock_adjtime(clock, timex) < 0:
        raise OSError(ctypes.get_errno(), "clock_adjtime")


class Phc:
    """The clock of an HCA."""

    def __init__(self, hca):
        wanted = f"ibdevsim{hca.number}"
        self.number = None
        for name in os.listdir("/sys/class/ptp"):
            with open(f"/sys/class/ptp/{name}/clock_name",
                      encoding="ascii") as file:
                if file.read().strip() == wanted:
                    self.number = int(name[3:])
        if self.number is None:
            raise Failed(f"no clock of {wanted}")

    def now(self):
        """Its time in ns."""
        with self.clock() as number:
            return time.clock_gettime_ns(number)

    @contextlib.contextmanager
    def clock(self):
        """The number with which system calls know it."""
        fd = os.open(f"/dev/ptp{self.number}", os.O_RDWR)
        try:
            yield ~fd << 3 | 3
        finally:
            os.close(fd)

    def ahead(self):
        """How far it is ahead of the system's clock, in ns."""
        with self.clock() as number:
            best = None
            for _ in range(5):
                before = time.clock_gettime_ns(time.CLOCK_REALTIME)
                there = time.clock_gettime_ns(number)
                after = time.clock_gettime_ns(time.CLOCK_REALTIME)
                if best is None or after - before < best[0]:
                    best = after - before, there - (before + after) // 2
        return best[1]
