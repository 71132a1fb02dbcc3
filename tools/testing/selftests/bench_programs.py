# SPDX-License-Identifier: GPL-2.0-only
"""The programs of the benchmark run: as little of each as there is."""

import json
import os
import platform
import time

from lib import (cmd, defer, ensure_module, ksft_eq, ksft_ge, ksft_in,
                 loaded, slow, timeout)
from lib.ipoib import unload_module
from common import BENCH, ROOT

BOOT = {"ipoib": "ours", "hcas": 6, "needs": "floor load", "seconds": 200}


def ours():
    """The driver under test, as programs want it named."""
    return "ours=" + os.environ["IPOIB_MODULE"]


def floor():
    return os.path.join(ROOT, "build", platform.release(), "floor",
                        "ipoib_floor.ko")


def run(*words):
    """Run bench/guest without the driver; (load, net, who) -> values."""
    if loaded():
        unload_module()
    defer(ensure_module)
    out = cmd([os.path.join(BENCH, "guest"), *words], timeout=slow(90)).stdout
    found = {}
    for line in out.splitlines():
        if line.startswith("@ "):
            figure = json.loads(line[2:])
            found.setdefault((figure["load"], figure["net"], figure["who"]),
                             []).append(figure["value"])
    for values in found.values():
        ksft_ge(min(value or 0 for value in values), 0)
    return found


def guest(modules, **spec):
    """The same with what is to be done on pairs, as the benchmark says it."""
    spec = {"clock": "icount", "hca": "lso", "mb": 8, "packets": 320,
            "requests": 20, "seconds": 1,
            "modules": {"ours": os.environ["IPOIB_MODULE"], **modules}, **spec}
    return run(json.dumps(spec))


@timeout(90)
def test_datagram():
    """Streams, datagrams and transactions on both kinds of pairs, and floors."""
    loads = ["tcp4", "tcp6", "udp64", "udp1400", "rr"]
    found = guest({"floor": floor()}, job="pairs",
                  order=[("2044", "veth", ["udp64", "rr"]), ("2044", "ours", loads)])
    want = {(load, "2044", "ours") for load in loads}
    want |= {("udp64", "2044", "veth"), ("rr", "2044", "veth")}
    want |= {(load, "-", "verbs") for load in
             ("ud64", "ud64-single", "ud1400", "ud2048", "ud4096", "rc65536")}
    ksft_eq(set(found), want)
    ksft_eq([key for key, values in found.items() if values[0] <= 0], [])


@timeout(90)
def test_clock():
    """What is only measured by the clock."""
    found = guest({}, clock="wall", job="pairs",
                  order=[("2044", "ours", ["flood", "p99"])])
    ksft_eq(set(found), {("flood", "2044", "ours"), ("rr-p99", "2044", "ours")})
    ksft_eq([key for key, values in found.items() if values[0] <= 0], [])


@timeout(90)
def test_connected():
    """Connected mode."""
    found = guest({}, job="pairs", order=[("conn", "ours", ["mss1460", "rr"])])
    ksft_eq(set(found), {("mss1460", "conn", "ours"), ("rr", "conn", "ours")})


@timeout(90)
def test_scaling():
    """One flow and two: on one pair, on two, to two peers."""
    found = guest({}, clock="wall", job="scaling", cycles=1, order=[
        ("2044", "ours", ["flows"]), ("conn", "ours", ["flows"])])
    ksft_eq(set(found), {(load, net, "ours") for net in ("2044", "conn") for load in
                         ("flow1", "flow2-pairs", "flow2-pair", "flow2-peers")})


@timeout(180)
def test_further():
    """What is not steady is measured again until the time is over, and not after."""
    with open("/sys/class/rtc/rtc0/since_epoch", encoding="ascii") as file:
        now = int(file.read())
    ksft_ge(5, abs(now - time.time()))
    visits = [("2044", who, ["rr"]) for who in ("base", "ours")]
    found = guest({"base": os.environ["IPOIB_MODULE"]}, job="pairs", clock="wall",
                  order=visits, round=visits, until=now + 60)
    counts = [len(found["rr", "2044", who]) for who in ("base", "ours")]
    ksft_ge(min(counts), 2)
    # A visit that had begun goes on; another begins for what has no sample alone.
    found = guest({"base": os.environ["IPOIB_MODULE"]}, job="pairs", clock="wall",
                  order=visits * 2, round=visits, until=now)
    ksft_eq([len(found["rr", "2044", who]) for who in ("base", "ours")], [1, 1])


@timeout(90)
def test_groups():
    """Groups joined and left, and how long interrupts were off."""
    found = run("groups", "40", floor(), ours())
    ksft_eq(set(found), {(load, "-", "ours") for load in
                         ("join", "leave", "join-late")})
    ksft_eq([key for key, values in found.items() if values[0] <= 0], [])


@timeout(120)
def test_peers():
    """Many neighbours found, and an SM that dies under their traffic."""
    # Three peers on each host: all that is sent at once fits a receive queue.
    found = run("peers", "9", "8", ours())
    ksft_eq(set(found), {(load, "-", "ours") for load in (
        "resolve", "resolve-one", "resolve-lost", "resolve-queries",
        "failover-gap",
        "failover-lost", "failover-queries")})
    # The gap is a time, and as long as this host may stand still, too.
    for load in ("resolve-lost", "failover-lost"):
        ksft_eq(found[load, "-", "ours"], [0], load)


@timeout(90)
def test_large():
    """Large datagrams, and those that a receive buffer holds."""
    found = guest({}, clock="wall", job="pairs", order=[
        ("2044", "ours", ["large"]), ("conn", "ours", ["large", "held", "udp64"])])
    ksft_eq(set(found), {(load, net, "ours") for load in ("large", "large-room")
                         for net in ("2044", "conn")} |
            {(load, "conn", "ours") for load in ("held", "udp64")})
    # With so much room each datagram loses a fragment on a busy machine.
    ksft_in([key for key, values in found.items() if values[0] <= 0],
            ([], [("large-room", "2044", "ours")]))


@timeout(90)
def test_forward():
    """Datagrams and streams from the fabric to a host behind veth, and back."""
    found = guest({}, job="pairs", order=[("2044", "ours", ["forward"])])
    ksft_eq(set(found), {(load, "2044", "ours") for load in (
        "fwd-udp", "fwd-udp-back", "fwd-tcp", "fwd-tcp-back")})
    ksft_eq([key for key, values in found.items() if values[0] <= 0], [])


@timeout(90)
def test_restart():
    """The rate after a peer was away comes back within what is waited for it."""
    found = guest({}, clock="wall", job="pairs",
                  order=[("conn", "ours", ["restart"])])
    ksft_eq(set(found), {("restart", "conn", "ours")})


@timeout(90)
def test_forged():
    """A flood of forged ARP requests leaves time for hosts that exist."""
    found = run("forged", "2000", "2", ours())
    ksft_eq(set(found), {(load, "-", "ours") for load in (
        "forged-rate", "forged-memory", "forged-answer")})
    ksft_ge(found["forged-rate", "-", "ours"][0], 200)


@timeout(90)
def test_wedged():
    """Closing interfaces whose HCA does not answer, a parent with children too."""
    for figure in ("wedged-close", "wedged-children"):
        found = run("wedged", "--only", figure,
                    "--children", "3", ours())
        ksft_eq(set(found), {(figure, "-", "ours")})


@timeout(90)
def test_base():
    """A load that the base cannot run is told as such, and ends nothing."""
    found = guest({"base": os.environ["IPOIB_MODULE"]}, job="pairs",
                  load="/bin/false", clock="wall",
                  order=[("2044", "base", ["rr"]), ("2044", "ours", [])])
    ksft_eq(found, {(load, "2044", "base"): [None] for load in ("rr", "rr-idle-p99")})
