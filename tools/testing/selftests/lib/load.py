# SPDX-License-Identifier: GPL-2.0-only
"""Many TCP streams at once, in processes of their own.

Threads of the test would take turns with it, and a test that measures how long
something takes under load would measure that.
"""

import mmap
import os
import select
import signal
import socket
import struct
import time

from .ksft import Failed, defer
from .traffic import _addr, family_of
from .utils import slow, wait_until

CHUNK = 1 << 17


def _connect(src, dst, address):
    """Both sides of a TCP connection."""
    family = family_of(address)
    with dst.ns.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(_addr(address, 0))
        listener.listen(1)
        listener.settimeout(slow(10))
        tx = src.ns.socket(family, socket.SOCK_STREAM)
        tx.settimeout(slow(10))
        try:
            tx.connect(_addr(address, listener.getsockname()[1]))
            rx = listener.accept()[0]
        except OSError as error:
            tx.close()
            raise Failed(f"TCP from {src} to {address}: {error}") from None
    for sock in (tx, rx):
        sock.setblocking(False)
        _linger(sock, True)
    return tx, rx


def _linger(sock, abort):
    """What is not sent is thrown away when it is closed, or is not."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                    struct.pack("ii", abort, 0))


def _send(socks, sent, stopping):
    """A process: send until told to stop, then say that it was all."""
    poll = select.poll()
    by_fd = {sock.fileno(): n for n, sock in enumerate(socks)}
    for fd in by_fd:
        poll.register(fd, select.POLLOUT)
    data = bytes(CHUNK)
    while not stopping():
        for fd, _ in poll.poll(200):
            try:
                sent[by_fd[fd]] += os.write(fd, data)
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(fd)
    for sock in socks:
        try:
            _linger(sock, False)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _receive(socks, received):
    """A process: receive until all have said that it was all."""
    poll = select.poll()
    by_fd = {sock.fileno(): n for n, sock in enumerate(socks)}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    buffer = bytearray(2 * CHUNK)
    left = len(by_fd)
    while left:
        for fd, _ in poll.poll(200):
            try:
                got = os.readv(fd, [buffer])
            except BlockingIOError:
                continue
            except OSError:
                got = 0
            received[by_fd[fd]] += got
            if not got:
                poll.unregister(fd)
                left -= 1


class Load:
    """A stream for each (source, destination); ended with the case."""

    def __init__(self, pairs):
        self.pairs = list(pairs)
        count = len(self.pairs)
        shared = memoryview(mmap.mmap(-1, 16 * count + 8)).cast("Q")
        self.sent, self.received = shared[:count], shared[count:2 * count]
        self._stop = shared[2 * count:]
        self._pids = []
        socks = []
        try:
            for src, dst in self.pairs:
                socks.append(_connect(src, dst, dst.v4))
            tx, rx = [pair[0] for pair in socks], [pair[1] for pair in socks]
            self._fork(_send, rx, tx, self.sent, lambda: self._stop[0])
            self._fork(_receive, tx, rx, self.received)
        finally:
            for both in socks:
                for sock in both:
                    sock.close()
        defer(self.abort)

    def _fork(self, work, others, *args):
        pid = os.fork()
        if pid:
            self._pids.append(pid)
            return
        # The side of the other process would keep connections open.
        try:
            for sock in others:
                sock.close()
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            work(*args)
        finally:
            os._exit(0)  # pylint: disable=protected-access

    def flows(self, but=None, octets=100000, limit=60):
        """Wait until each, except those of @but, has brought something more."""
        before = list(self.received)
        some = [n for n, pair in enumerate(self.pairs) if but not in pair]
        wait_until(lambda: all(self.received[n] >= before[n] + octets
                               for n in some), limit,
                   "each stream goes on", interval=0.1)

    def finish(self, limit=60):
        """Stop; all that was sent has to come."""
        self._stop[0] = 1
        end = time.monotonic() + slow(limit)
        while self._pids:
            for pid in list(self._pids):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._pids.remove(pid)
            if time.monotonic() > end:
                self.abort()
                raise Failed(f"streams did not end: {list(self.sent)} sent, "
                             f"{list(self.received)} received")
            time.sleep(0.05)
        if list(self.sent) != list(self.received):
            raise Failed(f"{list(self.sent)} bytes sent, "
                         f"{list(self.received)} received")

    def abort(self):
        """End it without a look at the data."""
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            os.waitpid(pid, 0)
        self._pids = []
