# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark's figures mean: rows, targets, floors and the verdict.

A figure is named LOAD/NET/HCA/CLOCK, for instance "tcp4/2044/lso/icount":

    LOAD   what was sent, a key of LOADS
    NET    the MTU of datagram mode, 2044 or 4092, "conn" for connected mode, or
           "-" where it makes no difference
    HCA    "lso" with large send and checksum offload, "plain" without, one of
           PROFILES, or "-"
    CLOCK  "icount": guest instructions on one CPU, "wall": time

and has samples of several: "ours", "stock" (the distribution's module), "base"
(another revision of ours), "veth" (the stack without a driver, the floor S),
"dummy", and "verbs" (the HCA without a stack, the floor H).
"""

import collections
import functools
import statistics

import steady

# load: (title, unit with icount, unit by the clock).  Instructions are the less
# the better, and so is what LESS names; of all else more is better.
LOADS = {
    "tcp4": ("TCP over IPv4", "instr/KiB", "Mbit/s"),
    "tcp6": ("TCP over IPv6", "instr/KiB", "Mbit/s"),
    "mss1460": ("TCP, MSS 1460", "instr/KiB", "Mbit/s"),
    "to-other": ("TCP, ours to in-tree", "instr/KiB", "Mbit/s"),
    "from-other": ("TCP, in-tree to ours", "instr/KiB", "Mbit/s"),
    "udp64": ("64-byte datagrams", "instr", "packets/s"),
    "udp1400": ("1400-byte datagrams", "instr", "packets/s"),
    "flood": ("64-byte datagrams, unbounded sender", "", "packets/s"),
    "rr": ("request/response", "instr", "per s"),
    "rr-p99": ("request/response beside 4 streams, p99", "", "us"),
    "rr-idle-p99": ("request/response alone, p99", "", "us"),
    "tcp4-code": ("driver's code, TCP over IPv4", "instr/packet", ""),
    "tcp6-code": ("driver's code, TCP over IPv6", "instr/packet", ""),
    "udp64-code": ("driver's code, 64-byte datagrams", "instr/packet", ""),
    "rr-code": ("driver's code, request/response", "instr/packet", ""),
    "flow1": ("one flow on a CPU", "", "Mbit/s"),
    "flow2-pairs": ("two flows on two pairs", "", "Mbit/s"),
    "flow2-pair": ("two flows on one pair", "", "Mbit/s"),
    "flow2-peers": ("two flows to two peers", "", "Mbit/s"),
    "iperf4": ("TCP over IPv4, iperf3 from its start", "instr/KiB", "Mbit/s"),
    "iperf6": ("TCP over IPv6, iperf3 from its start", "instr/KiB", "Mbit/s"),
    "child-make": ("make a child", "", "ms"),
    "child-delete": ("delete a child", "", "ms"),
    "child-memory-made": ("memory of a child, made", "", "KiB"),
    "child-memory-up": ("memory of a child, up", "", "KiB"),
    "child-runs": ("timers and work items of one that is idle", "", "per s"),
    "resolve": ("resolve 500 neighbours, 64 datagrams each", "", "s"),
    "resolve-one": ("resolve 1000 neighbours, one datagram each", "", "ms"),
    "resolve-lost": ("datagrams lost meanwhile, of 32,000", "", "datagrams"),
    "resolve-queries": ("SA queries for each path", "", "queries"),
    "failover-gap": ("SM failover, 500 peers, longest gap", "", "ms"),
    "failover-lost": ("SM failover, datagrams lost, of 35,000", "", "datagrams"),
    "failover-queries": ("SM failover, SA queries at a time", "", "queries"),
    "join": ("join 1000 groups", "instr", "CPU ms"),
    "leave": ("leave 1000 groups", "instr", "CPU ms"),
    "join-late": ("interrupts off, joining and leaving", "ns", ""),
    "wedged-close": ("close, data QPs wedged", "", "s"),
    "wedged-mode": ("mode switch, data QPs wedged", "", "s"),
    "wedged-unload": ("unload, data QPs wedged and SA silent", "", "s"),
    "wedged-special-close": ("close, QP0/1 wedged too", "", "s"),
    "wedged-special-mode": ("mode switch, QP0/1 wedged too", "", "s"),
    "wedged-children": ("close and unload, 200 children, wedged", "", "s"),
    "large": ("60,000-byte datagrams one way", "", "MB/s"),
    "large-room": ("60,000-byte datagrams, 8 MB send buffer", "", "MB/s"),
    "held": ("8,000-byte datagrams held, of 30", "", "held"),
    "fwd-udp": ("64-byte datagrams to veth", "instr", "packets/s"),
    "fwd-udp-back": ("64-byte datagrams from veth", "instr", "packets/s"),
    "fwd-tcp": ("TCP to veth", "instr/KiB", "Mbit/s"),
    "fwd-tcp-back": ("TCP from veth", "instr/KiB", "Mbit/s"),
    "eth-below-tcp": ("TCP, the interface below", "instr/KiB", "Mbit/s"),
    "eth-below-udp": ("64-byte datagrams, the interface below", "instr", ""),
    "eth-below-rr": ("request/response, the interface below", "", "per s"),
    "eth-alone-tcp": ("TCP, Ethernet without a bridge", "instr/KiB", ""),
    "eth-alone-udp": ("64-byte datagrams, Ethernet without a bridge", "instr", ""),
    "eth-peer-tcp": ("TCP, guest to peer", "instr/KiB", "Mbit/s"),
    "eth-peer-udp": ("64-byte datagrams, guest to peer", "instr", ""),
    "eth-peer-rr": ("request/response, guest to peer", "", "per s"),
    "eth-guests-tcp": ("TCP, guest to guest", "instr/KiB", "Mbit/s"),
    "eth-guests-udp": ("64-byte datagrams, guest to guest", "instr", ""),
    "eth-guests-rr": ("request/response, guest to guest", "", "per s"),
    "eth-routed-tcp": ("TCP, routed guest to peer", "instr/KiB", "Mbit/s"),
    "eth-routed-udp": ("64-byte datagrams, routed guest to peer", "instr", ""),
    "eth-routed-rr": ("request/response, routed guest to peer", "", "per s"),
    "eth-memory": ("memory of a guest's address", "", "KiB"),
    "restart": ("full rate after a peer's restart", "", "s"),
    "first4": ("first echo to a new peer, IPv4", "", "ms"),
    "first6": ("first echo to a new peer, IPv6", "", "ms"),
    "forged-rate": ("forged ARP requests", "", "per s"),
    "forged-memory": ("forged ARP requests, memory at most", "", "KiB"),
    "forged-answer": ("forged ARP requests, a new host answered", "", "s"),
    "incast-lost": ("8 senders into 1, lost connections", "", "connections"),
    "incast": ("8 senders into 1, goodput", "", "Mbit/s"),
    "conn-memory": ("memory of a connection, SRQ", "", "KiB"),
    "conn-memory-driver": ("memory of a connection, SRQ, without the HCA's", "", "KiB"),
    "conn-memory-nosrq": ("memory of a connection, no SRQ", "", "KiB"),
}
LESS = ("us", "ms", "KiB", "CPU ms", "s", "ns", "connections", "datagrams",
        "queries")
LESS_LOADS = ("child-runs",)
# What is counted needs no confidence interval, unlike times and rates.
COUNTED = ("KiB", "held", "connections", "datagrams", "queries")
# Programs that set up hundreds of things run once or twice.  Their rows need no
# narrow interval: all of it has to reach what they must.  What was measured once
# may be wrong by this factor.
PROGRAMS = ("child-make", "child-delete", "resolve", "resolve-one", "incast", "join",
            "leave")
ONCE = 2
# Kinds of HCAs that are measured for themselves (PROFILE=), as their title says
# them, and capabilities (tools/testing/ibdevsim/README.rst)
PROFILES = {
    "mlx4": ("as mlx4", "profile=mlx4"),
    "mlx5": ("as mlx5", "profile=mlx5"),
    "hfi1": ("as hfi1", "profile=hfi1"),
    "nomod": ("no moderation", "moderation=0"),
    "nosrq": ("no SRQ", "srq=0"),
    "own": ("mlx5's kind", "rdma_netdev=own"),
    "ud": ("hfi1's kind", "rdma_netdev=ud"),
}
# HCAs with an interface of their own for IPoIB have rows of their own.
ENHANCED = ("own", "ud")
# HCAs without offloads
PLAIN = ("plain", "hfi1")
# Loads with figures of other names than their own, on two CPUs or anyway
FIGURES_OF = {
    "rr": ("rr",), "p99": ("rr-p99",), "other": ("from-other", "to-other"),
    "large": ("large", "large-room"),
    "ethernet": tuple(f"eth-{what}-tcp" for what in
                      ("below", "peer", "guests", "routed")),
    "first": ("first4", "first6"),
    "flows": ("flow1", "flow2-pairs", "flow2-pair", "flow2-peers"),
    "forward": ("fwd-udp", "fwd-tcp", "fwd-udp-back", "fwd-tcp-back"),
}
FIGURES_BY_CLOCK = {
    "rr": ("rr-idle-p99",),
    "ethernet": (*(f"eth-{what}-rr" for what in
                   ("below", "peer", "guests", "routed")), "eth-memory"),
}
FIGURES_BY_COUNT = {
    "ethernet": ("eth-alone-tcp", *(f"eth-{what}-udp" for what in
                                    ("below", "alone", "peer", "guests", "routed"))),
}

TITLES = {
    "1": "instructions beyond S + H, datagrams",
    "2": "all instructions of a datagram",
    "3": "small datagrams per second, one flow",
    "4": "TCP, datagram mode, HCA without offloads",
    "5": "TCP, datagram mode, HCA with offloads",
    "6": "TCP over IPv6, datagram mode",
    "7": "TCP, connected mode",
    "8": "TCP, connected mode, with the in-tree driver",
    "9": "TCP, connected mode, MSS 1460",
    "10": "request/response",
    "11": "request/response beside 4 streams, p99",
    "12": "two flows on two pairs, two CPUs",
    "12b": "two flows on one interface, two CPUs",
    "13": "8 senders into 1, connected",
    "14": "memory of a child beyond a dummy",
    "15": "memory of a connection, SRQ",
    "16": "memory of a connection, no SRQ",
    "17": "resolve 1000 neighbours",
    "18": "SM failover, 500 peers",
    "19": "make and delete 1000 children",
    "20": "join and leave 1000 groups",
    "21": "idle children",
    "22": "close, switch, unload when the HCA is wedged",
    "23": "the floor / ours, TCP",
    "24": "large one-way UDP, default send buffer",
    "24b": "large one-way UDP, default send buffer and a large one",
    "25": "datagrams held by a default receive buffer",
    "26": "all instructions of a datagram, connected",
    "27": "forwarding between the fabric and veth",
    "28": "full rate after a peer's restart",
    "29": "a flood of forged ARP requests",
    "30": "the driver's code, on HCAs' own interfaces",
    "31": "resolve 1000 neighbours, SM failover, on HCAs' own interfaces",
    "32": "make and delete 1000 children, on HCAs' own interfaces",
    "33": "Ethernet for guests, of the interface below",
    "34": "Ethernet for guests, of routing",
    "35": "Ethernet, instructions and memory",
    "36": "first echo to a new peer",
}

# What differs by less than this is noise whatever the samples say.
NOISE = {"icount": 0.01, "wall": 0.03}
# By less than this in its unit: steps of the clock, of samples, of page blocks.
# The rate of forged requests is the forger's, and is only told.
RESOLUTION = {"restart": 0.25, "forged-answer": 0.1, "forged-memory": 2048,
              "forged-rate": float("inf"), "held": 0.5, "wedged-children": 0.25,
              "wedged-close": 0.1, "wedged-mode": 0.1, "wedged-unload": 0.1,
              "wedged-special-close": 0.1, "wedged-special-mode": 0.1}
# Bytes of TCP payload in a packet, with time stamps; of IPv6, 20 less
TCP_PAYLOAD = {"2044": 1992, "4092": 4040, "conn": 65468}
VERBS_LOAD = {"2044": "ud2048", "4092": "ud4096", "conn": "rc65536"}


def parts(key):
    """LOAD, NET, HCA and CLOCK of a figure."""
    return key.split("/")


def unit_of(key):
    load, _, _, clock = parts(key)
    return LOADS[load][1 if clock == "icount" else 2]


def less_is_better(key):
    load, _, _, clock = parts(key)
    return clock == "icount" or unit_of(key) in LESS or load in LESS_LOADS


def title_of(key):
    """A figure as a person calls it."""
    load, net, hca, _ = parts(key)
    where = {"conn": "connected", "-": ""}.get(net, net)
    offload = PROFILES[hca][0] if hca in PROFILES else \
        {"lso": "offloads", "plain": "no offloads", "-": ""}[hca]
    if net == "conn" and hca not in PROFILES:
        offload = ""
    return ", ".join(word for word in (LOADS[load][0], where, offload) if word)


def figures_of(load, clock):
    """The names of the figures that a load has."""
    more = (FIGURES_BY_CLOCK if clock == "wall" else FIGURES_BY_COUNT).get(load, ())
    return FIGURES_OF.get(load, (load,)) + more


class Figures:
    """
    Samples by figure and by whom they are of; @expected are pairs of the two that
    the machines were to measure, @unable those that the base is too old for.
    @further are samples of a second machine, of figures that seemed worse.
    """

    def __init__(self, samples=None, expected=(), unable=(), further=None):
        self.samples = samples or {}
        self.further = further or {}
        self.expected = [tuple(pair) for pair in expected]
        self.unable = {tuple(pair) for pair in unable}
        self.reference = "stock"
        self.profile = ""

    def add(self, key, who, value):
        self.samples.setdefault(key, {}).setdefault(who, []).append(value)

    def of(self, key, who):
        return self.samples.get(key, {}).get(who, [])

    def add_further(self, key, who, value):
        self.further.setdefault(key, {}).setdefault(who, []).append(value)

    def pooled(self, key, *whom):
        """
        These figures with the samples of both machines.  The host need not have
        been as fast for the second one: its samples are scaled to the level that
        all of @whom together had in the first.
        """
        more = self.further.get(key, {})
        if not all(more.get(who) and self.of(key, who) for who in whom):
            return self
        first, second = (statistics.median(value for who in whom
                                           for value in found.get(who))
                         for found in (self.samples[key], more))
        scale = first / second if first and second else 1
        return Figures({key: {who: self.of(key, who) +
                              [value * scale for value in more[who]]
                              for who in whom}})

    def nth(self, number, count):
        """
        As one of @count visits found them; medians of whom was visited less.
        """
        def one(values):
            return [values[number]] if len(values) >= count else \
                [statistics.median(values)]

        found = Figures({key: {who: one(values) for who, values in whose.items()}
                         for key, whose in self.samples.items()})
        found.reference = self.reference
        return found

    def missing(self):
        """What was to be measured and was not: pairs of a figure and whose it is."""
        return [(key, who) for key, who in self.expected
                if not self.of(key, who) and (key, who) not in self.unable]

    def median(self, key, who):
        """The median, or None if nobody measured it."""
        values = self.of(key, who)
        return statistics.median(values) if values else None

    def spread(self, key, who):
        """Half the range of the samples, relative to the median."""
        values = self.of(key, who)
        middle = statistics.median(values) if values else 0
        return (max(values) - min(values)) / 2 / abs(middle) if middle else 0.0

    def noise(self, key, *whom):
        """Differences up to this, relative, mean nothing."""
        floor = NOISE[parts(key)[3]]
        step = RESOLUTION.get(parts(key)[0], 0)
        first = self.median(key, whom[0])
        if step:
            floor = max(floor, step / abs(first) if first else 0)
        spreads = [self.spread(key, who) for who in whom]
        # Where samples overlap, one revision may differ as from itself.
        own = 2 * max(spreads) if self.overlap(key, *whom) else 0
        return max(floor, own, sum(spreads))

    def overlap(self, key, one, other):
        """Does one have a sample within the range of the other's?"""
        these, those = self.of(key, one), self.of(key, other)
        return min(these) <= max(those) and min(those) <= max(these)

    def stack(self, key):
        """The floor S: the same load over a veth pair."""
        return self.median(key, "veth")

    def hca(self, key):
        """The floor H in the unit of @key: what the HCAs' verbs take for it."""
        load, net, hca, clock = parts(key)
        if clock != "icount":
            return None

        def verbs(name):
            return self.median(f"{name}/-/{hca}/icount", "verbs")

        if load in ("udp64", "udp1400") and net != "conn":
            return verbs("ud" + load[3:])
        if load == "rr":
            one = verbs("ud64-single")
            return 2 * one if one is not None else None
        if load in ("tcp4", "tcp6", "mss1460", "to-other", "from-other"):
            one = verbs(VERBS_LOAD.get(net, ""))
            octets = TCP_PAYLOAD[net] - (20 if load == "tcp6" else 0)
            return one * 1024 / octets if one is not None else None
        return None

    def floor(self, key):
        """S + H, or None."""
        both = self.stack(key), self.hca(key)
        return None if None in both else sum(both)

    def efficiency(self, key, who="ours"):
        """(S + H) / what was measured."""
        floor, value = self.floor(key), self.median(key, who)
        return floor / value if floor is not None and value else None


# ---- judges: what a target is about -----------------------------------------

def times_better(figures, key):
    """How many times better than the reference ours is."""
    ours, ref = (figures.median(key, who) for who in ("ours", figures.reference))
    if ours is None or ref is None:
        return None
    if less_is_better(key):
        ours, ref = ref, ours
    return ours / ref if ref else float("inf")


def cost(figures, key):
    """Ours by the reference."""
    ours, ref = (figures.median(key, who) for who in ("ours", figures.reference))
    return None if ours is None or not ref else ours / ref


def beyond_floor(figures, key):
    """Ours by the reference, both without the floors."""
    ours, ref = (figures.median(key, who) for who in ("ours", figures.reference))
    floor = figures.floor(key)
    if None in (ours, ref, floor) or ref <= floor:
        return None
    return (ours - floor) / (ref - floor)


def of_stack(figures, key):
    """S by ours."""
    ours, stack = figures.median(key, "ours"), figures.stack(key)
    return None if ours is None or stack is None else stack / ours


def of_room(figures, key):
    """Ours with the default send buffer by ours with a large one."""
    ours = figures.median(key, "ours")
    room = figures.median(key.replace("large/", "large-room/"), "ours")
    return None if ours is None or not room else ours / room


def by(word):
    """Ours with another load: that of the interface below, or of routing."""
    def judge(figures, key):
        load, rest = key.split("/", 1)
        what = load.rsplit("-", 1)[1]
        ours = figures.median(key, "ours")
        other = figures.median(f"eth-{word}-{what}/{rest}", "ours")
        if ours is None or not other:
            return None
        return other / ours if less_is_better(key) else ours / other
    return judge


of_below, of_routed = by("below"), by("routed")


def beyond_below(figures, key):
    """Ours without what the interface below takes."""
    ours = figures.median(key, "ours")
    below = figures.median(key.replace("-alone-", "-below-"), "ours")
    return None if ours is None or below is None else ours - below


def of_ipv4(figures, key):
    """Ours with IPv6, of ours with IPv4."""
    ours = figures.median(key, "ours")
    other = figures.median(key.replace("6/", "4/", 1), "ours")
    return None if ours is None or not other else ours / other


def of_floor(figures, key):
    """S + H by ours."""
    return figures.efficiency(key)


def absolute(figures, key):
    """Ours as it is."""
    return figures.median(key, "ours")


def beyond_dummy(figures, key):
    """Ours without what a dummy device takes."""
    ours, dummy = figures.median(key, "ours"), figures.median(key, "dummy")
    return None if ours is None or dummy is None else ours - dummy


def by_dummy(figures, key):
    """Ours by a dummy device."""
    ours, dummy = figures.median(key, "ours"), figures.median(key, "dummy")
    return None if ours is None or not dummy else ours / dummy


def scaling(figures, key, who="ours"):
    """Two flows to one."""
    _, net, hca, clock = parts(key)
    two, one = figures.median(key, who), \
        figures.median(f"flow1/{net}/{hca}/{clock}", who)
    return None if two is None or not one else two / one


def of_veth(key):
    """The figure of veth that one of ours is compared with: a veth has one peer."""
    return key.replace("-peers/", "-pair/")


def scaling_of_stack(figures, key):
    """Two flows to one, by what veth pairs make of it."""
    ours, veth = scaling(figures, key), scaling(figures, of_veth(key), "veth")
    return None if ours is None or not veth else ours / veth


class Target:
    """
    One condition of a row; without @must there is only an aim.  @least: samples
    of each that it needs, at least.
    """

    def __init__(self, row, key, judge, sense, must, aim=None, least=0):
        self.row, self.key, self.judge = row, key, judge
        self.sense, self.must, self.aim = sense, must, aim
        self.least = max(least, steady.LEAST[parts(key)[3]])

    def good(self, value, limit):
        """Does it reach this?  Anything reaches what is not asked for."""
        return limit is None or (value >= limit if self.sense == ">=" else
                                 value <= limit)

    def asks(self):
        """Does this need a confidence interval?"""
        return JUDGED[self.judge].whom is not None and \
            unit_of(self.key) not in COUNTED and \
            parts(self.key)[0] not in LESS_LOADS

    def visits(self, figures):
        """How many samples there are of each that are judged."""
        return min(len(figures.of(of_veth(self.key) if who == "veth" else self.key,
                                  who or figures.reference))
                   for who in JUDGED[self.judge].whom)

    def interval(self, figures):
        """The confidence interval of what is judged, or None."""
        if not self.asks():
            return None
        count = self.visits(figures)
        values = [self.judge(figures.nth(number, count), self.key)
                  for number in range(count)]
        return None if None in values else \
            steady.interval(values, JUDGED[self.judge].points)

    def steady(self, figures, found):
        """Is this interval narrow enough?"""
        if not self.asks():
            return True
        if found is None or self.visits(figures) < self.least:
            return False
        load, _, _, clock = parts(self.key)
        ours = figures.median(self.key, "ours")
        limit = max(steady.LIMIT[clock],
                    RESOLUTION.get(load, 0) / abs(ours) if ours else 0)
        wide = (found.high - found.low) / 2 if JUDGED[self.judge].points else \
            steady.half(found)
        return wide <= limit

    def verdict(self, figures):
        """
        "aim", "must", "NOT MET", "unsteady" or "not measured".  The worse end of
        the interval decides.
        """
        value = self.judge(figures, self.key)
        if value is None:
            return "not measured"
        found = self.interval(figures)
        is_steady = self.steady(figures, found)
        ends = (value,)
        if found:
            ends = found[1:]
        elif self.asks() and parts(self.key)[0] in PROGRAMS:
            ends = value / ONCE, value * ONCE
        worst = min(ends) if self.sense == ">=" else max(ends)
        met = self.good(worst, self.must)
        if not is_steady and not (met and parts(self.key)[0] in PROGRAMS):
            return "unsteady"
        if not met:
            return "NOT MET"
        return "aim" if self.aim is not None and self.good(worst, self.aim) else "must"


def _both(row, load, nets, hca, must, aim):
    return [Target(row, f"{load}/{net}/{hca}/{clock}", times_better, ">=", must, aim)
            for clock in ("icount", "wall") for net in nets]


def _core(hca, small, medium, stream):
    """
    The rows that every kind of HCA has.  The driver's own share (must, aim) of
    datagrams of 64 and of 1400 bytes, and of streams.
    """
    return [
        Target("1", f"udp64/2044/{hca}/icount", beyond_floor, "<=", *small),
        Target("1", f"udp1400/2044/{hca}/icount", beyond_floor, "<=", *medium),
        Target("3", f"udp64/2044/{hca}/wall", times_better, ">=", 1.3, 1.8),
        *[Target(row, f"{load}/{net}/{hca}/icount", beyond_floor, "<=", *stream)
          for row, load in (("5", "tcp4"), ("6", "tcp6")) for net in ("2044", "4092")],
        Target("5", f"tcp4/2044/{hca}/wall", times_better, ">=", 1.6, 2.2),
        *_both("7", "tcp4", ("conn",), hca, 1.7, 2.2),
        *[Target("10", f"rr/{net}/{hca}/icount", times_better, ">=", 1.1, 1.3)
          for net in ("2044", "conn")],
        *[Target("10", f"rr/{net}/{hca}/wall", times_better, ">=", 1.2, 1.35)
          for net in ("2044", "conn")],
        Target("23", f"tcp4/conn/{hca}/icount", of_floor, ">=", 0.88, 0.95),
        Target("26", f"udp64/conn/{hca}/icount", cost, "<=", 0.85, 0.75),
    ]


_SHARE = (0.45, 0.33), (0.35, 0.30), (0.40, 0.33)
TARGETS = [
    *_core("lso", *_SHARE),
    *_core("mlx4", *_SHARE),
    *_core("mlx5", *_SHARE),
    *_core("hfi1", (0.50, 0.40), (0.50, 0.40), (0.45, 0.38)),
    *_core("nomod", (0.50, 0.40), (0.50, 0.40), (0.45, 0.38)),
    *_core("nosrq", *[(0.45, 0.38)] * 3),
    Target("2", "udp64/2044/lso/icount", cost, "<=", 0.83, 0.75),
    Target("2", "udp1400/2044/lso/icount", cost, "<=", 0.83, 0.75),
    Target("3", "flood/2044/lso/wall", times_better, ">=", 1.3, 1.8),
    # Without offloads, streams cost what the stack costs without a driver.
    *[Target(row, f"{load}/{net}/plain/icount", of_floor, ">=", 1.0)
      for row, load in (("4", "tcp4"), ("6", "tcp6")) for net in ("2044", "4092")],
    *[Target("4", f"tcp4/{net}/plain/wall", times_better, ">=", 2.0, 3)
      for net in ("2044", "4092")],
    Target("5", "tcp4/4092/lso/wall", times_better, ">=", 1.6, 2.2),
    *[Target("6", f"tcp6/{net}/{hca}/wall", times_better, ">=", 2.0, 3)
      for net in ("2044", "4092") for hca in ("lso", "plain")],
    *[Target("8", f"{load}/conn/lso/icount", times_better, ">=", 1.0, 1.4)
      for load in ("to-other", "from-other")],
    *[Target("8", f"{load}/conn/lso/wall", times_better, ">=", 1.2, 1.5)
      for load in ("to-other", "from-other")],
    *_both("9", "mss1460", ("conn",), "lso", 2, 6),
    Target("11", "rr-p99/2044/lso/wall", cost, "<=", 0.25, 0.15),
    *[Target(row, f"{load}/{net}/lso/wall", scaling_of_stack, ">=", *limits, least=10)
      for row, load, limits in (("12", "flow2-pairs", (0.95, 1.1)),
                                ("12b", "flow2-pair", (0.9, 1.0)),
                                ("12b", "flow2-peers", (0.9, 1.0)))
      for net in ("2044", "conn")],
    Target("13", "incast-lost/conn/-/wall", absolute, "<=", 0, 0),
    Target("13", "incast/conn/-/wall", times_better, ">=", 2, 5),
    Target("14", "child-memory-made/-/-/wall", beyond_dummy, "<=", 64, 32),
    Target("14", "child-memory-up/-/-/wall", beyond_dummy, "<=", 64, 32),
    Target("15", "conn-memory/conn/-/wall", cost, "<=", 1 / 2, 1 / 4),
    Target("15", "conn-memory-driver/conn/-/wall", absolute, "<=", 24, 16),
    Target("16", "conn-memory-nosrq/conn/-/wall", cost, "<=", 1 / 16, 1 / 32),
    Target("17", "resolve-one/-/-/wall", times_better, ">=", 1.3, 2),
    Target("17", "resolve-lost/-/-/wall", absolute, "<=", 0, 0),
    Target("17", "resolve-queries/-/-/wall", absolute, "<=", 1.02, 0.6),
    Target("18", "failover-gap/-/-/wall", absolute, "<=", 0, 0),
    Target("18", "failover-queries/-/-/wall", absolute, "<=", 128, 64),
    Target("19", "child-make/-/-/wall", times_better, ">=", 10, 20),
    Target("19", "child-delete/-/-/wall", times_better, ">=", 10, 20),
    Target("19", "child-make/-/-/wall", by_dummy, "<=", 1.3, 1.1),
    Target("19", "child-delete/-/-/wall", by_dummy, "<=", 1.3, 1.1),
    Target("20", "join/-/-/icount", times_better, ">=", 5, 20),
    Target("20", "leave/-/-/icount", times_better, ">=", 5, 20),
    Target("20", "join-late/-/-/icount", absolute, "<=", 100000),
    Target("21", "child-runs/-/-/wall", cost, "<=", 1 / 50, 0),
    *[Target("22", f"wedged-{what}/-/-/wall", absolute, "<=", 5, 2) for what in
      ("close", "mode", "unload", "special-close", "special-mode")],
    Target("22", "wedged-children/-/-/wall", absolute, "<=", 5, 2.5),
    Target("23", "tcp4/2044/lso/icount", of_stack, ">=", 0.35, 0.5),
    Target("24", "large/2044/lso/wall", times_better, ">=", 1.0, 1.2),
    Target("24", "large/conn/lso/wall", times_better, ">=", 1.2, 1.5),
    Target("24b", "large/2044/lso/wall", of_room, ">=", 0.9, 1.0),
    Target("24b", "large/conn/lso/wall", of_room, ">=", 0.9, 1.0),
    Target("25", "held/conn/lso/wall", times_better, ">=", 1.0, 1.3),
    *[Target("27", f"{load}/{net}/lso/{clock}", times_better, ">=", 1.0, 1.2)
      for clock in ("icount", "wall") for load in FIGURES_OF["forward"]
      for net in ("2044", "conn")],
    Target("28", "restart/conn/lso/wall", times_better, ">=", 1.0),
    Target("29", "forged-memory/-/-/wall", absolute, "<=", 32768, 16384),
    Target("29", "forged-answer/-/-/wall", absolute, "<=", 1, 0.1),
    *[Target("30", f"{load}-code/2044/{hca}/icount", cost, "<=", 1.0, 0.5)
      for hca in ("own", "ud") for load in ("tcp4", "tcp6", "udp64", "rr")],
    *[Target("31", f"{load}/-/own/wall", times_better, ">=", 1.0, 2)
      for load in ("resolve", "resolve-one")],
    Target("31", "resolve-lost/-/own/wall", absolute, "<=", 0, 0),
    Target("31", "resolve-queries/-/own/wall", absolute, "<=", 1.05, 0.55),
    Target("31", "failover-gap/-/own/wall", absolute, "<=", 0, 0),
    Target("31", "failover-queries/-/own/wall", absolute, "<=", 128, 64),
    *[Target("32", f"child-{load}/-/own/wall", times_better, ">=", 1.0, 5)
      for load in ("make", "delete")],
    *[Target("32", f"child-memory-{load}/-/own/wall", cost, "<=", 1.0, 0.5)
      for load in ("made", "up")],
    Target("32", "child-runs/-/own/wall", cost, "<=", 1 / 50, 0),
    *[Target("33", f"eth-{what}-{load}/2044/lso/wall", of_below, ">=", 0.75, 0.9)
      for what in ("peer", "guests") for load in ("tcp", "rr")],
    *[Target("34", f"eth-peer-{load}/2044/lso/wall", of_routed, ">=", 1.0, 1.1)
      for load in ("tcp", "rr")],
    Target("35", "eth-alone-udp/2044/lso/icount", beyond_below, "<=", 1500, 800),
    Target("35", "eth-memory/2044/lso/wall", absolute, "<=", 1, 0.5),
    Target("36", "first6/2044/lso/wall", absolute, "<=", 100),
    Target("36", "first6/2044/lso/wall", of_ipv4, "<=", None, 2),
]
# What a value is called; whose samples, pair by pair, make its confidence interval
# ("": the reference's, None: it has none); is it an amount rather than a ratio?
Judged = collections.namedtuple("Judged", "words whom points", defaults=(None, False))
JUDGED = {
    times_better: Judged("times better", ("ours", "")),
    cost: Judged("of in-tree", ("ours", "")),
    beyond_floor: Judged("of in-tree's", ("ours", ""), True),
    of_stack: Judged("S / ours", ("ours",)),
    of_floor: Judged("S+H / ours", ("ours",)),
    of_ipv4: Judged("of IPv4's"),
    absolute: Judged(""),
    beyond_dummy: Judged("beyond a dummy"),
    by_dummy: Judged("of a dummy's", ("ours", "dummy")),
    of_room: Judged("of 8 MB buffer", ("ours",)),
    scaling_of_stack: Judged("of veth's scaling", ("ours", "veth")),
    of_below: Judged("of the one below", ("ours",)),
    of_routed: Judged("of routing", ("ours",)),
    beyond_below: Judged("beyond the one below"),
}


def targets(profile=""):
    """The targets of a run with this profile, or without one."""
    return [target for target in TARGETS
            if (parts(target.key)[2] if parts(target.key)[2] in PROFILES else "")
            == profile]


def lines(figures):
    """Every target with what was measured, as dictionaries in the rows' order."""
    out = []
    for target in targets(figures.profile):
        key = target.key
        found = target.interval(figures)
        out.append({
            "row": target.row, "title": TITLES[target.row], "figure": key,
            "what": title_of(key), "clock": parts(key)[3], "unit": unit_of(key),
            "ours": figures.median(key, "ours"),
            "reference": figures.median(key, figures.reference),
            "stack": figures.stack(key), "hca": figures.hca(key),
            "efficiency": figures.efficiency(key),
            "interval": found and steady.half(found),
            "value": found.middle if found else target.judge(figures, key),
            "judged": JUDGED[target.judge].words, "sense": target.sense,
            "must": target.must, "aim": target.aim,
            "verdict": target.verdict(figures),
        })
    return sorted(out, key=lambda line: row_order(line["row"]))


def row_order(row):
    return int(row.rstrip("b")), row


def row_verdicts(all_lines):
    """The verdict of each row: the worst of its lines' that were measured."""
    order = ("NOT MET", "unsteady", "must", "aim", "not measured")
    found = {}
    for line in all_lines:
        found.setdefault(line["row"], []).append(line["verdict"])
    return {row: min(verdicts, key=order.index)
            for row, verdicts in sorted(found.items(), key=lambda r: row_order(r[0]))}


# ---- what is measured further --------------------------------------------------

@functools.cache
def targets_of(key):
    return [target for target in TARGETS if target.key == key and target.asks()]


def steady_figure(figures, key):
    """
    Is all that is said of a figure steady?  Two revisions are compared by their
    ratio alone.
    """
    asked = targets_of(key) if figures.reference != "base" else \
        [Target("", key, cost, "<=", None)]
    return all(target.judge(figures, key) is None or
               target.steady(figures, target.interval(figures)) for target in asked)


def unsteady(figures):
    """The figures of ours that are not steady."""
    return sorted(key for key, whose in figures.samples.items()
                  if whose.get("ours") and not steady_figure(figures, key))


# ---- two revisions -----------------------------------------------------------

def changes(figures, old="base", new="ours"):
    """
    What became of each figure that both have: dictionaries with the change,
    relative, its noise, and the verdict "worse", "better" or "same"; or "new" where
    the base is too old, and "not measured for ..." where something went wrong.
    """
    out = []
    for key in sorted({*figures.samples, *(key for key, who in figures.expected
                                           if who in (old, new))}):
        both = figures.pooled(key, old, new)
        before, after = both.median(key, old), both.median(key, new)
        if before is None and after is None and \
           not {(key, old), (key, new)} & {*figures.expected}:
            continue
        line = {"figure": key, "what": title_of(key), "clock": parts(key)[3],
                "unit": unit_of(key), "base": before, "ours": after}
        if before is None or after is None:
            whose = new if after is None else old
            fresh = after is not None and (key, old) in figures.unable
            out.append({**line, "change": None, "noise": None, "verdict":
                        "new" if fresh else f"not measured for {whose}"})
            continue
        noise = both.noise(key, old, new)
        if before:
            change = after / before - 1
        elif abs(after) <= RESOLUTION.get(parts(key)[0], 0):
            change = 0.0
        else:
            change = float("inf")
        gain = -change if less_is_better(key) else change
        verdict = "same" if abs(change) <= noise else "better" if gain > 0 else "worse"
        out.append({**line, "change": change, "noise": noise, "verdict": verdict})
    return out
