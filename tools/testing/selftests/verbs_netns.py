# SPDX-License-Identifier: GPL-2.0-only
"""HCAs in network namespaces: shared by all, and of one alone."""

import json
import os
import re

from lib import (bkg, cmd, defer, ends, hca, ip, ksft_eq, ksft_gt, ksft_in,
                 ksft_le, ksft_ne, ksft_true, now, port, slow, sm, timeout,
                 wait_until)
from lib.ipoib import drop_all
from lib.perftest import PORT, both, listening
from lib.umad import ask_counters
from lib.uverbs import objects

BOOT = {"hcas": 3, "fabric": "provider=hfi1", "needs": "verbs-tools",
        "mem": 1536, "group": "netns", "seconds": 95}
GROUPS = ("verbs",)


def in_ns(name):
    """Words before a command that is to run in a namespace."""
    return ["ip", "netns", "exec", name] if name else []


def visible(name=None):
    """The HCAs that a namespace has, as "rdma dev" shows them."""
    shown = json.loads(cmd([*in_ns(name), "rdma", "-j", "dev",
                            "show"]).stdout or "[]")
    return {row["ifname"] for row in shown}


def pingpong(first, second, address, count=500):
    """ibv_rc_pingpong from the second host, (namespace, HCA), to the first."""
    words = ["ibv_rc_pingpong", "-n", str(count), "-c"]
    text = both([*words, "-d", first[1]],
                [*in_ns(second[0]), *words, "-d", second[1], address],
                before=in_ns(first[0]))
    ksft_in(f"{count} iters in", text)


def mode():
    """shared or exclusive"""
    return re.search(r"netns (\w+)", cmd(["rdma", "system", "show"]).stdout
                     ).group(1)


@timeout(90)
def test_shared():
    """By default each namespace has all HCAs, and none can be moved."""
    ksft_eq(mode(), "shared")
    pair = ends()
    every = {f"ibdevsim{n}" for n in range(3)}
    for space in (None, pair.a.ns.name, pair.b.ns.name):
        ksft_eq(visible(space), every)
    names = [end.port.hca.name for end in pair]
    # The same HCA in both, too
    for first, second in ((names[0], names[1]), (names[1], names[0]),
                          ("ibdevsim2", "ibdevsim2")):
        pingpong((pair.a.ns.name, first), (pair.b.ns.name, second),
                 pair.a.v4)
    moved = cmd(["rdma", "dev", "set", "ibdevsim2", "netns",
                 pair.a.ns.name], fail=False)
    ksft_ne(moved.ret, 0)
    ksft_in("not supported", moved.stderr)
    ksft_eq(visible(), every)


def test_mode_is_kept():
    """The mode cannot be changed while there are other namespaces."""
    ends()
    changed = cmd(["rdma", "system", "set", "netns", "exclusive"], fail=False)
    ksft_ne(changed.ret, 0)
    ksft_eq(mode(), "shared")


class Host:
    """A namespace with an HCA of its own, and the interface of that."""

    def __init__(self, name, number):
        self.name, self.hca = name, hca(number)
        self.address = f"10.7.0.{number}"
        tail = ":".join(re.findall("..", f"{self.hca.node_guid() + 1:016x}"))
        cmd(["ip", "netns", "add", name])
        defer(self.leave)
        self.move(name)
        # IPoIB makes its interface in the first namespace.
        link = wait_until(lambda: next(
            (row["ifname"] for row in ip("link show", json_out=True)
             if row["address"].endswith(tail)), None), 10, "an interface")
        # The in-tree module's debugfs knows no namespaces.
        unique = f"ib{number}p1"
        ip(["link", "set", link, "name", unique])
        ip(["link", "set", unique, "netns", name])
        for words in ("link set lo up", f"addr add {self.address}/24 dev {unique}",
                      f"link set {unique} up"):
            cmd(["ip", "-n", name, *words.split()])

    def move(self, target):
        """Move the HCA from wherever it is."""
        spaces = (None, *os.listdir("/run/netns"))
        here = next(n for n in spaces if self.hca.name in visible(n))
        cmd([*in_ns(here), "rdma", "dev", "set", self.hca.name, "netns",
             target], timeout=slow(20))

    def leave(self):
        """The namespace ends, and its HCA is the first one's again."""
        cmd(["ip", "netns", "del", self.name], fail=False)
        wait_until(lambda: self.hca.name in visible(), 10,
                   f"{self.hca.name} is back")

    def reaches(self, other):
        """Packets pass."""
        return not cmd([*in_ns(self.name), "ping", "-c", "1", "-W", "1",
                        other.address], fail=False).ret


def exclusive():
    """
    Two hosts with an HCA each; the SM's stays where it is.

    The SM asks nothing: while it moves, an HCA does not answer, and OpenSM would
    take it for gone.
    """
    drop_all()
    sm.quiet()
    wait_until(lambda: not cmd(["rdma", "system", "set", "netns",
                                "exclusive"], fail=False).ret, 10,
               "no other namespaces")
    defer(back_to_shared)
    ksft_eq(mode(), "exclusive")
    cmd(["modprobe", "rdma_ucm"])
    first, second = Host("x1", 1), Host("x2", 2)
    wait_until(lambda: first.reaches(second), 20, "packets from x1 to x2")
    return first, second


def back_to_shared():
    wait_until(lambda: not cmd(["rdma", "system", "set", "netns", "shared"],
                               fail=False).ret, 10, "no other namespaces")


def nothing_left(each):
    """No program's objects are left on an HCA."""
    return not any(objects(each.number).values())


@timeout(120)
def test_exclusive():
    """Two hosts see their own HCA only; programs and IPoIB pass between them."""
    first, second = exclusive()
    ksft_eq(visible(), {"ibdevsim0"})
    for host in (first, second):
        ksft_eq(visible(host.name), {host.hca.name})
        text = cmd([*in_ns(host.name), "ibv_devinfo"]).stdout
        ksft_eq(re.findall(r"hca_id:\s*(\w+)", text), [host.hca.name])
        for other in {"ibdevsim0", "ibdevsim1", "ibdevsim2"} - {host.hca.name}:
            ksft_ne(cmd([*in_ns(host.name), "ibv_devinfo", "-d", other],
                        fail=False).ret, 0)
    pingpong((first.name, first.hca.name), (second.name, second.hca.name),
             first.address)
    server = ["rping", "-s", "-a", second.address, "-C", "50", "-V"]
    with bkg([*in_ns(second.name), *server], exit_wait=True, fail=True):
        wait_until(lambda: "LISTEN" in cmd(
            [*in_ns(second.name), "rdma", "resource", "show",
             "cm_id"]).stdout, 10, "a server")
        cmd([*in_ns(first.name), "rping", "-c", "-a", second.address, "-C",
             "50", "-V"], timeout=slow(20))
    ksft_true(second.reaches(first))


@timeout(120)
def test_moved_in_use():
    """An HCA is moved while programs use it: they get errors, and end."""
    first, second = exclusive()
    words = ["ibv_rc_pingpong", "-n", "100000000"]
    with bkg([*in_ns(first.name), *words, "-d", first.hca.name]) as server:
        wait_until(lambda: listening(PORT, in_ns(first.name)), 10, "a server")
        with bkg([*in_ns(second.name), *words, "-d", second.hca.name,
                  first.address]) as client:
            before = second.hca.port().counter("rx_rc_packets")
            wait_until(lambda: second.hca.port().counter("rx_rc_packets") >
                       before + 100, 20, "messages")
            start = now()
            first.move(second.name)
            ksft_le(now() - start, slow(5))
            # The one whose HCA it was
            wait_until(lambda: server.proc.poll() is not None, 10, "its end")
            ksft_gt(abs(server.proc.returncode), 0)
            ksft_true(client.proc.poll() is None or client.proc.returncode)
    wait_until(lambda: nothing_left(first.hca), 5, "no object")
    wait_until(lambda: nothing_left(second.hca), 5, "no object")
    ksft_eq(visible(second.name), {first.hca.name, second.hca.name})
    pingpong((second.name, first.hca.name), (second.name, second.hca.name),
             "localhost")


@timeout(180)
def test_moved_while_asked():
    """An HCA moves while it answers, and does not answer with what is freed."""
    where = port(1)
    # In another namespace, sysfs does not show it.
    lid = where.lid()
    first, second = exclusive()
    asking = ask_counters(port(0), lid)
    # So that there always is an answer on its way.
    where.fault("ah_delay_us", 20000)
    for turn in range(6):
        before = where.counter("mad_tx")
        wait_until(lambda n=before: where.counter("mad_tx") > n + 10, 10,
                   f"it answers, turn {turn}")
        target = (second, first)[turn % 2]
        start = now()
        first.move(target.name)
        ksft_le(now() - start, slow(5), "seconds to move it")
        ksft_in(first.hca.name, visible(target.name))
    asking.exec()


@timeout(120)
def test_namespace_ends():
    """A namespace ends: its HCA is the first one's again, and works there."""
    first, second = exclusive()
    ksft_true(second.reaches(first))
    first.leave()
    second.leave()
    ksft_eq(visible(), {f"ibdevsim{n}" for n in range(3)})
    for number in range(3):
        port(number).wait_active()
    pingpong((None, first.hca.name), (None, second.hca.name), "localhost")


def test_as_before():
    """All namespaces have all HCAs again."""
    ksft_eq(mode(), "shared")
    pair = ends()
    ksft_eq(visible(pair.a.ns.name), {f"ibdevsim{n}" for n in range(3)})
    pair.wait_ping()
    ksft_true(os.path.isdir("/sys/class/infiniband/ibdevsim1"))
