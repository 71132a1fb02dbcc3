# SPDX-License-Identifier: GPL-2.0-only
"""
The netlink family while interfaces, neighbours, groups, connections and the module
come and go; readers that are slow, and requests that are garbage.
"""

import errno
import random
import socket
import threading

from lib import (cmd, ends, ends_with, ip, ksft_eq, ksft_ge, ksft_in,
                 ksft_raises, now, ping_ok, timeout, unload_module)
from lib.connected import set_mode
from lib.genl import Watch, cause, family, nl

BOOT = {"hcas": 2, "seconds": 50, "ipoib": "ours"}
GROUPS = ("core", "life")


@timeout(120)
def test_garbage():
    """Requests of random bytes, lengths and flags: nothing breaks."""
    pair = ends()
    mine = family(pair.a)
    rand = random.Random(4391)
    for _ in range(2000):
        body = nl.GENL_HEADER.pack(rand.choice((1, 3, 6, 8, rand.randrange(256))),
                                   rand.randrange(3), rand.choice((0, 0, 7)))
        for _ in range(rand.randrange(4)):
            body += nl.ATTR.pack(rand.choice((4, 8, 8, 2, 3, 12, 65535)),
                                 rand.choice((1, 1, 2, 0x8001, 0x4001, 77)))
            body += rand.randbytes(rand.choice((0, 4, 4, 8)))
        flags = rand.choice((1, 5, 0x301, 0x305, rand.randrange(1 << 16)))
        mine.sock.send(nl.HEADER.pack(nl.HEADER.size + len(body), mine.number,
                                      flags, 1, 0) + body)
        mine.sock.setblocking(False)
        try:
            while mine.sock.recv(1 << 20):
                pass
        except BlockingIOError:
            pass
        except OSError as error:
            ksft_eq(error.errno, errno.ENOBUFS)
        mine.sock.setblocking(True)
    ksft_eq(cause(pair.a)["cause"], "none")


@timeout(150)
def test_life():
    """Dumps and a listener while interfaces come, go, move and change their mode."""
    pair = ends_with()
    watch = Watch(pair.a)
    stop = threading.Event()
    counts = {}

    def ask():
        with pair.a.ns.inside():
            mine = nl.Family()
        while not stop.is_set():
            for what in ("dev-get", "neigh-get", "group-get", "conn-get"):
                counts[what] = counts.get(what, 0) + len(mine.get(what))
        mine.close()

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    try:
        until = now() + 20
        while now() < until:
            for end in pair:
                set_mode(end, "connected")
            pair.wait_ping()
            child = f"c{pair.a.ifname}"
            ip(f"link add {child} link {pair.a.ifname} type ipoib pkey 0x8001",
               ns=pair.a.ns)
            ip(f"link set {child} up", ns=pair.a.ns)
            ip(f"link set {child} netns {pair.b.ns.name}", ns=pair.a.ns)
            ip(f"link del {child}", ns=pair.b.ns)
            for end in pair:
                set_mode(end, "datagram")
            pair.wait_ping()
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    for what in ("dev-get", "neigh-get", "group-get", "conn-get"):
        ksft_ge(counts.get(what, 0), 1, what)
    ksft_ge(len(watch.of("conn-ntf", status="up")), 1)


def test_reader_sleeps():
    """A listener that does not read loses messages, and learns that it did."""
    pair = ends()
    lazy = family(pair.a)
    lazy.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    lazy.listen("events", "objects")
    for _ in range(8):
        cmd(f"ip link set {pair.a.ifname} down", ns=pair.a.ns)
        cmd(f"ip link set {pair.a.ifname} up", ns=pair.a.ns)
    pair.wait_ping()
    events = lazy.events()
    ksft_in("lost", [next(events)[0] for _ in range(2)])


def test_unload():
    """The family goes with the module, whoever listens; and comes again."""
    pair = ends()
    watch = Watch(pair.a)
    ping_ok(pair.a.ns, pair.b.v4)
    unload_module()
    with ksft_raises(OSError):
        nl.Family()
    watch.family.close()
    pair = ends()
    ksft_eq(cause(pair.a)["cause"], "none")
