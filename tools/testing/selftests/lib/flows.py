# SPDX-License-Identifier: GPL-2.0-only
"""
Flows of numbered datagrams, at a steady pace, from which it can be told what was
lost, and when it went on.

One thread sends for all of them and another one receives.
"""

import select
import socket
import struct
import threading
import zlib

from .ksft import Failed, defer, ksft_pr
from .traffic import SO_RCVBUFFORCE, SO_SNDBUFFORCE, datagram
from .utils import now, slow, wait_until

HEAD = struct.Struct(">II")


class Flow:
    """Datagrams one way."""

    def __init__(self, name, src, dst, size):
        # pylint: disable=too-many-instance-attributes
        self.name, self.size = name, size
        self.sent = 0           # number of the next one
        self.kept = set()       # those that the stack did not take
        self.seen = {}          # how often each came
        self.bad = 0
        self.tx = src.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.rx = dst.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for sock in (self.tx, self.rx):
            sock.setblocking(False)
        self.tx.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.rx.bind((dst.v4, 0))
        self.where = self.rx.getsockname()

    def __repr__(self):
        return f"flow {self.name}"

    def send(self):
        """One more; what finds no room or no way is lost."""
        try:
            self.tx.sendto(datagram(self.sent, self.size), self.where)
        except OSError:
            self.kept.add(self.sent)
        self.sent += 1

    def take(self):
        """What is there now."""
        while True:
            try:
                data = self.rx.recv(65536)
            except OSError:
                return
            if len(data) != self.size:
                self.bad += 1
                continue
            number, check = HEAD.unpack_from(data)
            if zlib.crc32(data[HEAD.size:]) != check:
                self.bad += 1
                continue
            self.seen[number] = self.seen.get(number, 0) + 1

    def missing(self, first, last):
        """Those from @first on and before @last that have not come."""
        return [n for n in range(first, last) if n not in self.seen]

    def came(self, first):
        """How many from @first on have come."""
        return sum(number >= first for number in list(self.seen))

    def twice(self):
        """How many came more than once."""
        return sum(count > 1 for count in list(self.seen.values()))

    def close(self):
        self.tx.close()
        self.rx.close()


class Flows:
    """Flows that run until stop() or the end of the case; {name: Flow}."""

    PROOF = 5       # datagrams that show that a flow goes on

    def __init__(self, flows, gap=0.05):
        self.flows = {flow.name: flow for flow in flows}
        self.gap = gap
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True)
                         for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()
        self._deferred = defer(self.stop)

    def __getitem__(self, name):
        return self.flows[name]

    def _send(self):
        while not self._stop.wait(self.gap):
            for flow in self.flows.values():
                flow.send()

    def _receive(self):
        poll = select.poll()
        by_fd = {flow.rx.fileno(): flow for flow in self.flows.values()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        while not self._stop.is_set():
            for fd, _ in poll.poll(100):
                by_fd[fd].take()

    def stop(self):
        """End them."""
        self._deferred.cancel()
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        for flow in self.flows.values():
            flow.close()

    def mark(self):
        """{name: number of the next datagram}"""
        return {name: flow.sent for name, flow in self.flows.items()}

    def run(self, limit):
        """Wait until all of them run."""
        self.resumed(self.flows, self.mark(), limit)

    def resumed(self, names, since, limit):
        """
        Wait until datagrams that were sent after the mark @since have come in each
        of these flows, @limit seconds at most.
        """
        begin = now()
        left = dict.fromkeys(names)

        def go_on():
            for name in [n for n in left if
                         self.flows[n].came(since[n]) >= self.PROOF]:
                ksft_pr(f"{name} goes on after {now() - begin:.1f} s")
                del left[name]
            return not left

        try:
            wait_until(go_on, limit, patient=False)
        except Failed:
            raise Failed(f"after {limit} s ({slow(limit):.0f} s here) these do not "
                         f"go on: {sorted(left)}") from None

    def undisturbed(self, names, since):
        """All that was sent in these flows since that mark has come, and unharmed."""
        until = self.mark()

        def lost():
            found = {}
            for name in names:
                numbers = self.flows[name].missing(since[name], until[name])
                if numbers:
                    found[name] = (f"{len(numbers)} of {until[name] - since[name]}, "
                                   f"first {numbers[:5]}")
                if self.flows[name].bad:
                    found[name] = f"{self.flows[name].bad} came changed"
            return found

        try:
            wait_until(lambda: not lost(), 3, patient=False)
        except Failed:
            raise Failed(f"lost, though nothing was wrong there: {lost()}") from None
