# SPDX-License-Identifier: GPL-2.0-only
"""Datagrams from each of many hosts to each other one."""

import collections
import errno
import select
import socket

from .ksft import Failed, ksft_eq, ksft_pr, ksft_true
from .utils import cmd, exists, now, read, slow

PORT = 7777
SO_RCVBUFFORCE = 33
LOST = (errno.EAGAIN, errno.ENOBUFS, errno.ECONNREFUSED, errno.EHOSTUNREACH)


def all_pairs(ends, size, limit=60):
    """
    A datagram of so many bytes, an even number, from each host to each other one;
    what is lost is sent again, until all have one from all.
    """
    socks = []
    for end in ends:
        sock = end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        sock.bind((end.v4, PORT))
        sock.setblocking(False)
        socks.append(sock)
    numbers = {sock: number for number, sock in enumerate(socks)}
    left = {(i, j) for i in numbers.values() for j in numbers.values() if i != j}
    until = now() + slow(limit)
    try:
        while left and now() < until:
            for i in sorted({i for i, _ in left}):
                for j in sorted(j for k, j in left if k == i):
                    send_number(socks[i], i, size, (ends[j].v4, PORT))
                left -= set(come(numbers, size, 0))
            left -= set(come(numbers, size, 0.5))
        if left:
            why(ends, left)
    finally:
        for sock in socks:
            sock.close()
    if left:
        raise Failed(f"{len(left)} pairs of {len(ends)} hosts, first: "
                     f"{sorted(left)[:10]}")


def why(ends, left):
    """What is known of the first pair that is left, and how many each side has."""
    for place, side in enumerate(("from", "to")):
        most = collections.Counter(pair[place] for pair in left).most_common(5)
        ksft_pr(f"pairs left {side} each: {most}")
    one, other = (ends[number] for number in min(left))
    gid = other.address()[4:].hex()
    for end, words in ((one, ["ip", "-s", "neigh", "show", other.v4]),
                       (other, ["ip", "-s", "neigh", "show", one.v4]),
                       (one, ["tc", "-s", "qdisc", "show", "dev", one.ifname]),
                       (one, ["ethtool", "-S", one.ifname]),
                       (one, ["ss", "-uamn"])):
        text = cmd(words, ns=end.ns, fail=False).stdout
        ksft_pr(f"{end}: {' '.join(words)}: " + "; ".join(
            line.strip() for line in text.splitlines()
            if not line.endswith(": 0")))
    path = f"/sys/kernel/debug/ipoib/{one.ifname}_path"
    if exists(path):
        found = [part for part in read(path).split("GID: ")
                 if gid in part.split("\n")[0].replace(":", "")]
        ksft_pr(f"{path}, the peer's: {found}")


def send_number(sock, number, size, to):
    """A datagram full of a number; what finds no room or no way is lost."""
    try:
        sock.sendto(number.to_bytes(2, "big") * (size // 2), to)
    except OSError as error:
        if error.errno not in LOST:
            raise


def come(numbers, size, wait):
    """The pairs whose datagrams have come, until none comes for @wait seconds."""
    while True:
        ready = select.select(list(numbers), [], [], wait)[0]
        if not ready:
            return
        for sock in ready:
            data = sock.recv(1 << 16)
            ksft_eq(len(data), size)
            ksft_true(data == data[:2] * (size // 2), "what was sent")
            yield int.from_bytes(data[:2], "big"), numbers[sock]
