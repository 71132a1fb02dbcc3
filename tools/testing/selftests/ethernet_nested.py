# SPDX-License-Identifier: GPL-2.0-only
"""Real machines behind eth_ipoib: QEMU's, with virtio's network card."""

import hashlib
import os
import socket
import threading
import time

from lib import (defer, ends, ksft_gt, ksft_in, ksft_lt, ksft_pr, ping_ok, read_int,
                 slow, timeout, wait_until)
from lib.ethernet import Ethernet, peer_mac
from lib.nested import Nested
from lib.traffic import family_of
from lib.users import peer

BOOT = {"hcas": 3, "needs": "ethernet iproute2 nested", "seconds": 110, "mem": 2048}
GROUPS = ("ethernet",)

MIB = 1 << 20
PORT = 5001


def to_machine(src, machine, address, octets):
    """A stream to a machine's program; the sum of what that got is right."""
    data = os.urandom(octets)
    number = machine.begin(f"nc -l -p {PORT} | md5sum")
    with src.ns.socket(family_of(address), socket.SOCK_STREAM) as sock:
        wait_until(lambda: sock.connect_ex((address, PORT)) == 0, 30,
                   f"a connection to {address}")
        sock.settimeout(slow(30))
        sock.sendall(data)
    ksft_in(hashlib.md5(data).hexdigest(), machine.end(number, 60))


def from_machine(machine, dst, address, octets):
    """The other way."""
    with dst.ns.socket(family_of(address), socket.SOCK_STREAM) as listener:
        listener.bind((address, PORT))
        listener.listen(1)
        listener.settimeout(slow(30))
        summed = machine.run(f"dd if=/dev/urandom of=/file bs=65536 "
                             f"count={octets >> 16} 2>/dev/null; md5sum /file", 60)
        number = machine.begin(f"nc {address} {PORT} </file")
        with listener.accept()[0] as sock:
            sock.settimeout(slow(30))
            found = hashlib.md5()
            while data := sock.recv(65536):
                found.update(data)
    machine.end(number, 60)
    ksft_in(found.hexdigest(), summed)


def sent(host, machine):
    """Packets and octets that came out of a machine; what it sends a tap receives."""
    where = host.ns.sys(f"class/net/{machine.port}/statistics")
    way = "tx" if machine.kind == "macvtap" else "rx"
    return [read_int(f"{where}/{way}_{what}") for what in ("packets", "bytes")]


def exercise(host, machine, there):
    """A machine and a peer of the fabric talk: echoes, streams, both families."""
    for address in (there.v4, there.v6):
        machine.run(f"ping -c 3 -W 5 {address}", 40)
    for address in (machine.v4, machine.v6):
        ping_ok(there.ns, address, limit=10)
        to_machine(there, machine, address, 2 * MIB)
    for address in (there.v4, there.v6):
        before = sent(host, machine)
        from_machine(machine, there, address, 4 * MIB)
        after = sent(host, machine)
        # Else it was no test of long packets that nobody vouches for.
        ksft_gt((after[1] - before[1]) / (after[0] - before[0]), 1.2 * host.mtu())
    ksft_in(peer_mac(there.v4), machine.run("cat /proc/net/arp"))


@timeout(400)
def test_tap():
    """Behind a tap in the bridge; with vhost, see ethernet_recipes.test_libvirt."""
    pair = ends()
    host = Ethernet(pair.a)
    exercise(host, Nested(host, 60), pair.b)


@timeout(400)
def test_macvtap():
    """Behind a macvtap, without a bridge."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    exercise(host, Nested(host, 62, "macvtap"), pair.b)


class Sink:
    """Takes what a program of a machine sends, and how long nothing came."""

    def __init__(self, there):
        self.listener = there.ns.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.bind((there.v4, PORT))
        self.listener.listen(1)
        self.listener.settimeout(slow(30))
        self.octets, self.longest, self.sock = 0, 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        defer(self.stop)

    def run(self):
        self.sock = self.listener.accept()[0]
        last = None
        while data := self.sock.recv(65536):
            now = time.monotonic()
            self.longest = max(self.longest, now - (last or now))
            self.octets, last = self.octets + len(data), now

    def progress(self, octets=MIB):
        """So much more arrives."""
        wanted = self.octets + octets
        wait_until(lambda: self.octets > wanted, 30, "a stream")

    def stop(self):
        if self.sock and self.thread.is_alive():
            self.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()


@timeout(500)
def test_migration():
    """A machine moves to another host, its stream goes on, and its own host hears it."""
    pair = ends()
    there = peer(2)
    one, two = Ethernet(pair.a), Ethernet(pair.b)
    machine = Nested(one, 63)
    again = Nested(two, 63, incoming=True)
    ping_ok(there.ns, machine.v4, limit=10)
    sink = Sink(there)
    number = machine.begin(f"nc {there.v4} {PORT} </dev/zero")
    sink.progress()
    sink.longest = 0
    stood = machine.migrate(again) / 1000
    machine.drop()
    sink.progress()
    longest = sink.longest
    ksft_pr(f"{stood:.2f} s from host to host; nothing came for {longest:.2f} s")
    ksft_lt(longest - stood, slow(1))
    sink.stop()
    again.end(number, fail=False)
    for space in there.ns, one.ns:
        ping_ok(space, machine.v4, limit=10)
        ping_ok(space, machine.v6, limit=10)
