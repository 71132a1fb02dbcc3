# SPDX-License-Identifier: GPL-2.0-only
"""The way of a packet: what the kernel traces against the page in dev/design.rst."""

import collections
import functools
import os
import re

from lib import (Call, Failed, Graph, ends, ksft_eq, ksft_ge, ksft_in,
                 ksft_le, mcast_passes, ping_ok, plain_ends, read,
                 tcp_transfer, timeout, traceable, udp_exchange)
from lib.connected import connected_ends
from common import ROOT, TESTING, load_program

BOOT = {"hcas": 2, "ipoib": "ours", "seconds": 60}
VERBS_ONLY = "the way of a packet through the driver"
GROUPS = ("core", "datagram", "connected")

PAGE = "The way of a packet"
ROOTS = ("ipoib_start_xmit", "ipoib_poll")
# Files that look at a packet and know nothing else; not counted
PURE = {"skb", "fit", "proto", "rules"}
MOST_ROOMS = 6
# Where the driver calls the stack, and the stack somebody
STACK = ("napi_gro_receive", "gro_receive_skb", "napi_complete_done",
         "netif_receive_skb", "netif_receive_skb_list", "napi_consume_skb",
         "dev_queue_xmit", "__dev_queue_xmit", "neigh_resolve_output")
UP = {"napi_gro_receive", "gro_receive_skb", "netif_receive_skb",
      "netif_receive_skb_list"}
POST = "ibds_post_send"         # what ib_post_send() calls

Step = collections.namedtuple("Step", "name path ends")


def steps_of(text):
    """What the page names: {function: Step}."""
    text = text.split(f"\n{PAGE}\n=", 1)[1]
    text = re.split(r"\n\n[^\n]+\n={8,}\n", text, maxsplit=1)[0]
    *ways, last = re.findall(r"::\n\n((?: +.*\n|\n)+)", text)
    found = {}
    for block, ends_there in [(way, False) for way in ways] + [(last, True)]:
        for name, path in re.findall(r"^ +(\w+)\(\) +(\w+\.[ch])\b", block,
                                     re.M):
            found[name] = Step(name, path, ends_there)
    return found


class House:
    """The driver's sources and their floors."""

    def __init__(self):
        floors = load_program(os.path.join(TESTING, "floors"))
        where = os.path.join(ROOT, "Documentation", "floors")
        self.house = floors.House(floors.Table(where, read(where)), ROOT)
        # Pairs of rooms between which calls go up
        self.events = {rooms for name in self.house.pointers
                       if self.house.event(name)
                       for rooms in self.house.carried(name)}
        self.paths = {}
        # A header may have a stand-in for what a configuration leaves out.
        for path, source in sorted(self.house.sources.items()):
            for one in source.found:
                if one.kind == "function":
                    self.paths.setdefault(one.name, path)

    def room(self, name):
        return self.house.room(self.paths[name])

    def rarely_called(self, steps):
        """Functions of the driver that have a symbol, are not on the page, and
        are called by one that is and does not end the way."""
        return {str(use.target.name) for use in self.house.program.calls()
                if use.target.kind == "function" and not use.target.static
                and use.target.path.endswith(".c")
                and use.target.name not in steps
                and use.user.name in steps and not steps[use.user.name].ends
                and self.room(use.target.name) not in PURE}

    def may_call(self, one, other):
        """May function @one call @other: down, or up as an event?"""
        rooms = self.room(one), self.room(other)
        return self.house.height(*rooms) <= 0 or rooms in self.events


@functools.cache
def known():
    """The driver's sources, and what the page names."""
    return House(), steps_of(read(f"{ROOT}/Documentation/dev/design.rst"))


def each(trees):
    """All calls of roots: the stack may lead from one to another."""
    todo = list(trees)
    while todo:
        one = todo.pop()
        if one.name in ROOTS:
            yield one
        todo += one.calls


def walk(one, steps):
    """
    (caller, function) of what a root led to inside of the driver, and what it
    called outside; not below what ends the way of a packet.
    """
    inside, outside, todo = [], set(), [one]
    while todo:
        call = todo.pop()
        step = steps.get(call.name)
        if step and step.ends:
            continue
        for other in call.calls:
            if other.name.startswith("ipoib_"):
                inside.append((call.name, other.name))
                todo.append(other)
            else:
                outside.add(other.name)
    return inside, outside


def traffic(pair):
    """Some of everything that users send."""
    tcp_transfer(pair.a, pair.b, 1 << 20)
    tcp_transfer(pair.a, pair.b, 1 << 20, address=pair.b.v6)
    udp_exchange(pair.a, pair.b, 50)
    ping_ok(pair.a.ns, pair.b.v4)


def record(pair, send):
    """What was sent and received meanwhile, as trees."""
    with Graph(ROOTS, [":mod:ib_ipoib", *traceable(POST, *STACK)]) as graph:
        send(pair)
        return list(each(graph.stop()))


def check_way(house, steps, trees, least):
    """One way, sent or received."""
    unnamed, called_up, passed, done = set(), set(), set(), 0
    for one in trees:
        inside, outside = walk(one, steps)
        rooms = {house.room(one.name),
                 *(house.room(name) for _, name in inside)} - PURE
        ksft_le(len(rooms), MOST_ROOMS, " ".join(sorted(rooms)))
        unnamed |= {name for _, name in inside} - steps.keys()
        called_up |= {call for call in inside if not house.may_call(*call)}
        passed |= rooms
        done += bool(outside & {POST} if one.name == ROOTS[0]
                     else outside & UP)
    ksft_eq(sorted(unnamed), [], "not on the page")
    ksft_eq(sorted(called_up), [], "called from below")
    ksft_ge(done, least, f"ways to their end, of {len(trees)}")
    return passed


def check_mode(pair, rooms, send=traffic, least=30):
    """Both ways in a mode; @rooms are among those that packets pass."""
    house, steps = known()
    send(pair)          # paths, neighbours and connections are there
    trees = record(pair, send)
    passed = [check_way(house, steps, [t for t in trees if t.name == root],
                        least) for root in ROOTS]
    for room in rooms:
        ksft_in(room, passed[0], "rooms passed when sending")
    for room in {"poll", "rx", *rooms} & {"poll", "rx", "ib", "rc"}:
        ksft_in(room, passed[1], "rooms passed when receiving")


def test_page():
    """What the page names is where it says."""
    house, steps = known()
    ksft_ge(len(steps), 60, "functions on the page")
    ksft_eq([step for step in steps.values()
             if house.paths.get(step.name) != step.path], [], "are elsewhere")
    # A trace shows them only if it happened meanwhile.
    ksft_eq(sorted(house.rarely_called(steps)), [], "not on the page")


@timeout(90)
def test_datagram():
    """Datagrams, and packets that the HCA cuts."""
    check_mode(ends(), {"netdev", "neigh", "ib", "tx"})


@timeout(90)
def test_datagram_plain():
    """Packets that the driver cuts, and maps for the HCA."""
    check_mode(plain_ends(dma=1), {"netdev", "neigh", "ib", "tso", "tx"})


@timeout(90)
def test_multicast():
    """Packets to a group."""
    check_mode(ends(), {"netdev", "multicast", "ib", "tx"}, least=1,
               send=lambda pair: mcast_passes(pair.a, pair.b, "239.1.2.3"))


@timeout(90)
def test_connected():
    """Packets on connections."""
    check_mode(connected_ends(), {"netdev", "neigh", "rc", "tx"})


@timeout(30)
def test_breaches():
    """What the page does not name, and calls from below, are found."""
    house, steps = known()
    post = Call("ipoib_txq_post", [Call(POST, [])])

    def way(*calls):
        check_way(house, steps, [Call("ipoib_start_xmit", list(calls))], 1)

    way(post)
    for wrong, word in (
            ((Call("ipoib_open", []), post), "ipoib_open"),
            ((Call("ipoib_ud_send", [Call("ipoib_lookup", [])]), post),
             "called from below"),
            ((Call("ipoib_txq_post", []),), "to their end"),
            ((Call("ipoib_ud_send", [Call("ipoib_rc_send", [
                Call("ipoib_neigh_lookup_other", []), Call("ipoib_tso_send", []),
                Call("ipoib_rx_skb", [])])]), post), "ib neigh netdev")):
        try:
            way(*wrong)
        except Failed as err:
            ksft_in(word, str(err), "why")
        else:
            raise Failed(f"{wrong} is taken for good")
