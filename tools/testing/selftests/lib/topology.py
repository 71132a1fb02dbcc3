# SPDX-License-Identifier: GPL-2.0-only
"""Fabrics of several switches, and whether their routes lead anywhere."""

import graphlib
import os
import re

from common import TESTING, load_program

from .fabric import DEBUGFS, Hca, sa_query
from .ksft import ksft_eq
from .utils import read, wait_until, write

BUS = "/sys/bus/ibdevsim"
TOPOLOGY = load_program(os.path.join(TESTING, "ibdevsim", "topology"))

# OpenSM says which engine has routed, which need not be the one it was told.
ROUTED = re.compile(r"(\S+) tables configured on all switches")

# A line of a switch's file "ports"
PORT = re.compile(r"^(\d+) state \d+ phys \d+ (?:ibdevsim(\d+/\d+)|"
                  r"switch(\d+)/(\d+))", re.M)
VL15 = 15
MAX_HOPS = 64


class Shape:
    """
    A shape of switches and HCAs, with OpenSM on the first HCA of the machine, which
    gets a cable to it: @join is the switch and its port.
    """

    def __init__(self, netlist, join, keys=""):
        self.net, self.join = netlist, join
        try:
            TOPOLOGY.apply(netlist, first_hca=1, keys=keys,
                           joins=[(join, "ibdevsim0/1")])
        except OSError:
            self.remove()
            raise
        self.ports = [Hca(0).port()] + [
            Hca(netlist.ids[name]).port(number) for cable in netlist.cables
            for name, number in cable if name in netlist.hcas]

    def remove(self):
        """Everything goes, even of a shape that was not finished."""
        for name in self.net.hcas:
            each = Hca(self.net.ids.get(name, -1))
            if each.exists():
                each.unplug()
        if "ibdevsim0/1" not in read(f"{DEBUGFS}/switch/ports"):
            write(f"{BUS}/link", "switch0/1 ibdevsim0/1")
        for name in self.net.switches:
            number = self.net.ids.get(name)
            if number in self.numbers():
                write(f"{BUS}/del_switch", str(number))

    def mend(self):
        """Put back what a case that failed has taken out."""
        for name in self.net.switches:
            if self.net.ids[name] not in self.numbers():
                self.switch(name, True)
        for one, other in self.between():
            if one[1] not in Tables(self.net.ids[one[0]]).far:
                self.cable(one, other, True)

    def active(self, cable):
        """Both ends of a cable between switches."""
        return all(re.search(rf"^{number} state 4 ", read(
            f"{DEBUGFS}/switch{self.net.ids[name]}/ports"), re.M)
                   for name, number in cable)

    def switch(self, name, there):
        """Take a switch out, with its cables to others, or put it back."""
        number, ports = self.net.ids[name], self.net.switches[name]
        if there:
            write(f"{BUS}/new_switch", f"{number} ports={ports}")
            for cable in self.cables_of(name):
                self.cable(*cable, True)
        else:
            write(f"{BUS}/del_switch", str(number))

    def between(self):
        """The cables between switches."""
        return [(a, b) for a, b in self.net.cables
                if a[0] in self.net.switches and b[0] in self.net.switches]

    def cable(self, one, other, there):
        """Plug a cable between switches in or pull it out."""
        if there:
            write(f"{BUS}/link", f"{self.net.at(one)} {self.net.at(other)}")
        else:
            write(f"{BUS}/unlink", self.net.at(one))

    def cables_of(self, switch):
        """The cables of a switch to others."""
        return [(a, b) for a, b in self.between() if switch in (a[0], b[0])]

    def guid(self, switch):
        """The GUID of a switch."""
        return 0x021bd5ff00000000 + (self.net.ids[switch] << 8)

    def numbers(self):
        """The switches that are there."""
        return {number for number in map(self.net.ids.get, self.net.switches)
                if os.path.exists(f"{DEBUGFS}/switch{number}")}

    def pairs(self):
        """Pairs of ports, each way."""
        return len(self.ports) * (len(self.ports) - 1)


def routes():
    """What the simulator found: pairs of active ports, and the bad ones."""
    *bad, last = read(f"{DEBUGFS}/routes").splitlines()
    found = re.match(r"pairs (\d+) bad (\d+) hops (\d+)", last)
    return int(found[1]), bad, int(found[3])


def wait_routes(pairs, limit=60):
    """All those pairs are there, and all routes lead where they should."""
    def good():
        return routes()[:2] == (pairs, [])

    try:
        wait_until(good, limit, f"routes of {pairs} pairs", interval=0.3)
    finally:
        found = routes()
    ksft_eq(found[:2], (pairs, []))
    return found[2]


def engine_used(log):
    """The routing engine that OpenSM used last, as its log has it."""
    found = ROUTED.findall(read(log))
    return found[-1] if found else None


def _numbers(path):
    """The numbers of each line of a file."""
    return [[int(word) for word in line.split()]
            for line in read(path).splitlines()]


class Tables:
    """What is in a switch: its cables, forwarding table and SL to VL tables."""

    def __init__(self, number):
        where = f"{DEBUGFS}/switch{number or ''}"
        self.far = {}           # port: (switch, port), or an HCA's port
        for port, hca, switch, num in PORT.findall(read(f"{where}/ports")):
            self.far[int(port)] = hca or (int(switch), int(num))
        self.lft = dict(_numbers(f"{where}/lft"))
        self.sl2vl = {tuple(line[:2]): line[2:]
                      for line in _numbers(f"{where}/sl2vl")}


def path_sls():
    """The SA's service levels: {(source LID, destination LID): SL}."""
    text = sa_query("PR").stdout
    found = re.findall(r"dlid\.*(\d+)\s+slid\.*(\d+).*?"
                       r"\bsl\.*(0x[0-9a-f]+|\d+)", text, re.S | re.I)
    return {(int(slid), int(dlid)): int(sl, 0) & 15 for dlid, slid, sl in found}


def channels(tables, where, dlid, level):
    """The buffers that a packet passes: (switch, output port, VL)."""
    (switch, come), out = where, []
    for _ in range(MAX_HOPS):
        here = tables[switch]
        leave = here.lft[dlid]
        lane = here.sl2vl[come, leave][level]
        if lane == VL15:
            raise ValueError(f"no lane for SL {level} in switch{switch} from "
                             f"{come} to {leave}")
        out.append((switch, leave, lane))
        far = here.far[leave]
        if isinstance(far, str):
            return out
        switch, come = far
    raise ValueError(f"a loop to LID {dlid}")


def credit_loop(shape):
    """
    The buffers of which each waits for the next one if all are full, with all
    unicast routes between HCAs; None if there are none (Dally and Seitz).  While
    the SM is at work, tables may be half done: LookupError or ValueError.
    """
    tables = {n: Tables(n) for n in shape.numbers()}
    where = {far: (n, port) for n, table in tables.items()
             for port, far in table.far.items() if isinstance(far, str)}
    lids = {f"{p.hca.number}/{p.num}": p.lid() for p in shape.ports}
    levels, waits = path_sls(), {}
    for source, slid in lids.items():
        for dest, dlid in lids.items():
            if source == dest:
                continue
            passed = channels(tables, where[source], dlid, levels[slid, dlid])
            for one, other in zip(passed, passed[1:]):
                waits.setdefault(one, set()).add(other)
    try:
        graphlib.TopologicalSorter(waits).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None
