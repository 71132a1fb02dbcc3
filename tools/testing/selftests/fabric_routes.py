# SPDX-License-Identifier: GPL-2.0-only
"""
OpenSM's routing engines on fabrics of several switches: no loop, no black hole, no
credit loop where the engine promises that; all pairs carry IPoIB, over UD and RC.
"""

import errno
import glob
import ipaddress
import re
import time

from lib import (End, Hca, Stream, cmd, define, defer, ensure_module, fabric,
                 kmsg_since, kmsg_tail, ksft_eq, ksft_ge, ksft_in, ksft_le, ksft_pr,
                 ksft_raises, ksft_true, mcast_flow, mcast_passes, mgid_of, now,
                 port, read, sa_query, sm, tcp_transfer, timeout, wait_until,
                 write)
from lib.connected import set_mode
from lib.fabric import DEBUGFS
from lib.pairs import all_pairs
from lib.topology import (BUS, TOPOLOGY, Shape, Tables, credit_loop, engine_used,
                          wait_routes)
from lib.umad import set_mft

BOOT = {"hcas": 1, "mem": 4096, "seconds": 800, "ipoib": "ours"}

KEYS = "max_qp=512,max_cq=256"
LOG = f"{sm.LOG}.0"
# Neighbours, of all namespaces together
GC_THRESH = "/proc/sys/net/ipv4/neigh/default/gc_thresh"

# What keeps credits from being waited for in a circle: the ways of these, or the
# lanes that they have packets change to.  The others promise nothing.
LOOP_FREE = ("updn", "ftree", "lash", "dfsssp", "torus-2QoS")
WITH_LANES = ("lash", "dfsssp", "torus-2QoS")

_there = {}


# ---- shapes -------------------------------------------------------------------


def fat_tree():
    """12 switches, 64 HCAs."""
    return Shape(TOPOLOGY.fat_tree(8, 4, 8), ("leaf0", 13), KEYS)


def irregular():
    """Nobody's plan: 10 switches in a chain, with some cables more."""
    net = TOPOLOGY.Topology()
    for n in range(10):
        net.switch(f"s{n}", 8)
        for k in range(2):
            net.cable((f"s{n}", 1 + k), (net.hca(f"h{n}.{k}"), 1))
    # Both ports of an HCA, at the highest ports; and one that uses its second
    for number, where in ((1, ("s8", 8)), (2, ("s2", 7))):
        net.cable(where, (net.hca("two", 2), number))
    net.cable(("s6", 8), (net.hca("second", 2), 2))
    for n in range(9):
        net.cable((f"s{n}", 3), (f"s{n + 1}", 4))
    for one, other in ((0, 5), (2, 7), (1, 8), (3, 9)):
        net.cable((f"s{one}", 5), (f"s{other}", 6))
    return Shape(net, ("s4", 8), KEYS)


def torus():
    """A torus of 5 by 5."""
    return Shape(TOPOLOGY.torus(5, 5, 1), ("t0.0", 6), KEYS)


def ring():
    """Six switches."""
    return Shape(TOPOLOGY.ring(6, 1), ("r0", 4), KEYS)


def on(make):
    """A shape, which stays until another one is asked for."""
    if _there.get("make") is not make:
        clear()
        _there.update(make=make, shape=make())
    _there["shape"].mend()
    return _there["shape"]


def clear():
    """No shape but the one at boot."""
    for end in _there.get("hosts", ()):
        end.drop()
    if "shape" in _there:
        _there["shape"].remove()
    _there.clear()


def hosts(shape):
    """A host for each HCA, with an interface; set up once for a shape."""
    if "hosts" not in _there:
        for n, entries in enumerate((8192, 16384, 32768), 1):
            write(f"{GC_THRESH}{n}", str(entries))
        ensure_module()
        made = [End(f"h{place}", where, place, 0)
                for place, where in enumerate(shape.ports, 1)]
        try:
            for end in made:
                end.setup()
        except BaseException:
            for end in made:
                end.drop()
            raise
        _there["hosts"] = made
    for end in _there["hosts"]:
        end.wait_carrier(60)
    return _there["hosts"]


# ---- engines ------------------------------------------------------------------


def routed_by(shape, engine, **conf):
    """OpenSM routes with that engine, and no other; the longest way."""
    if engine in WITH_LANES:
        conf["qos"] = "TRUE"
    sm.stop()
    defer(sm.stop)
    put(LOG, "")
    sm.spawn(port(0), conf={"routing_engine": engine, "sweep_interval": 2,
                            **conf})
    wait_until(lambda: engine_used(LOG), 60, "routes")
    ksft_eq(engine_used(LOG), engine)
    return settled(shape, engine)


def settled(shape, engine):
    """All routes are good, and no circle of buffers can fill up."""
    longest = wait_routes(shape.pairs())
    if engine in LOOP_FREE:
        wait_until(lambda: not credit_loop(shape), 30, "no credit loop",
                   interval=1)
    # A fat tree that lacks a cable is none for ftree; minhop does as well there.
    ksft_in(engine_used(LOG), (engine, "minhop") if engine == "ftree" else (engine,))
    return longest


def put(path, text):
    """A file for OpenSM."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def conf_of(shape, engine):
    """What that engine has to be told of a shape."""
    if engine == "updn" and "s4" in shape.net.ids:
        # Up and down from where?  There is no telling by the shape alone.
        put("/run/roots", f"{shape.guid('s4'):#x}\n")
        return {"root_guid_file": "/run/roots"}
    if engine == "torus-2QoS":
        put("/run/torus.conf", "torus 5 5 1\n"
              f"xp_link {shape.guid('t0.0'):#x} {shape.guid('t0.1'):#x}\n"
              f"yp_link {shape.guid('t0.0'):#x} {shape.guid('t1.0'):#x}\n")
        return {"torus_config": "/run/torus.conf"}
    return {}


def rc_is_up(ends):
    """RC QPs of each port to all others, both ways."""
    return all(sum((qp.state, qp.port) == ("RTS", end.port.num)
                   for qp in end.port.hca.data_qps("RC")) >= 2 * (len(ends) - 1)
               for end in ends)


def all_talk(shape):
    """Each host to each, in datagram mode and in connected mode."""
    ends = hosts(shape)
    for end in ends:
        set_mode(end, "datagram")
    begin = now()
    all_pairs(ends, 1400)
    for end in ends:
        set_mode(end, "connected")
    middle = now()
    all_pairs(ends, 20000, 120)
    ksft_true(rc_is_up(ends), "an RC connection for each pair")
    ksft_pr(f"{shape.pairs()} pairs: UD {middle - begin:.0f} s, "
            f"RC {now() - middle:.0f} s")


def mended(shape, engine, cables):
    """Cables are there again; OpenSM activates them after it has set up routes."""
    wait_until(lambda: all(map(shape.active, cables)), 60, "active cables")
    settled(shape, engine)


def fail_and_mend(shape, engine, cables):
    """Cables fail one after the other, and come back."""
    for cable in cables:
        shape.cable(*cable, False)
    settled(shape, engine)
    all_pairs(hosts(shape), 1400)
    for cable in cables:
        shape.cable(*cable, True)
    mended(shape, engine, cables)


def replace_switch(shape, engine, name):
    """A switch fails, and a new one takes its place."""
    shape.switch(name, False)
    settled(shape, engine)
    shape.switch(name, True)
    mended(shape, engine, shape.cables_of(name))
    all_pairs(hosts(shape), 1400)


def on_fat_tree(engine):
    """Cables and a spine fail and come back."""
    shape = on(fat_tree)
    ksft_eq(routed_by(shape, engine), 3, "switches on the longest way")
    all_talk(shape)
    cables = shape.cables_of("spine1")
    fail_and_mend(shape, engine, cables[:1])
    fail_and_mend(shape, engine, cables)
    replace_switch(shape, engine, "spine2")


def on_irregular(engine):
    """Each cable beside the chain fails in turn, and comes back."""
    shape = on(irregular)
    ksft_le(routed_by(shape, engine, **conf_of(shape, engine)), 10)
    all_talk(shape)
    for one, other in ((0, 5), (2, 7), (1, 8), (3, 9)):
        fail_and_mend(shape, engine, [((f"s{one}", 5), (f"s{other}", 6))])


def on_torus(engine):
    """A torus with a failing cable."""
    shape = on(torus)
    ksft_ge(routed_by(shape, engine, **conf_of(shape, engine)), 5)
    all_talk(shape)
    fail_and_mend(shape, engine, [(("t1.1", 1), ("t1.2", 2))])


def on_ring(engine):
    """Where the shortest ways alone make a credit loop."""
    shape = on(ring)
    routed_by(shape, engine)
    all_talk(shape)


CASES = {
    "test_minhop": (on_fat_tree, "minhop"),
    "test_updn": (on_fat_tree, "updn"),
    "test_ftree": (on_fat_tree, "ftree"),
    "test_lash": (on_fat_tree, "lash"),
    "test_dfsssp": (on_fat_tree, "dfsssp"),
    "test_irregular_minhop": (on_irregular, "minhop"),
    "test_irregular_updn": (on_irregular, "updn"),
    "test_irregular_lash": (on_irregular, "lash"),
    "test_irregular_dfsssp": (on_irregular, "dfsssp"),
    "test_torus_minhop": (on_torus, "minhop"),
    "test_torus_lash": (on_torus, "lash"),
    "test_torus_dfsssp": (on_torus, "dfsssp"),
    "test_torus_2qos": (on_torus, "torus-2QoS"),
    "test_ring_lash": (on_ring, "lash"),
    "test_ring_dfsssp": (on_ring, "dfsssp"),
}


@timeout(300)
def routed(what):
    """One engine on one shape."""
    act, engine = what
    act(engine)


define(globals(), CASES, routed)


@timeout(200)
def test_credit_loop_is_found():
    """On a ring the shortest ways wait for each other: the oracle says so."""
    shape = on(ring)
    routed_by(shape, "minhop")
    loop = credit_loop(shape)
    ksft_true(loop, "a credit loop of minhop on a ring")
    ksft_ge(len({switch for switch, _, _ in loop}), 6)


@timeout(200)
def test_lmc():
    """Four LIDs for each port, and a route to each."""
    shape = on(irregular)
    sm.stop()
    defer(sm.stop)
    sm.spawn(port(0), conf={"routing_engine": "minhop", "lmc": 2})
    wait_routes(4 * shape.pairs())


@timeout(300)
def test_traffic():
    """IPoIB passes several switches, while each spine fails and comes back."""
    shape = on(fat_tree)
    routed_by(shape, "ftree")
    ends = hosts(shape)
    for end in ends:
        set_mode(end, "datagram")
    pairs = [(ends[1], ends[9]), (ends[17], ends[25])]
    for one, other in pairs:
        tcp_transfer(one, other, 1 << 20)
        mcast_passes(one, other, "239.5.5.7")
    streams = [Stream(one, other, rate=1 << 20) for one, other in pairs]
    for spine in range(4):
        cables = shape.cables_of(f"spine{spine}")
        for cable in cables:
            shape.cable(*cable, False)
        wait_routes(shape.pairs())
        for stream in streams:
            stream.wait_progress(30)
        for cable in cables:
            shape.cable(*cable, True)
        mended(shape, "ftree", cables)
    for stream in streams:
        stream.wait_progress(30)
        stream.finish()


def lid_of(switch):
    """The LID of a switch."""
    return int(re.search(r"^0 .* lid (\d+)$", read(
        f"{DEBUGFS}/switch{switch}/ports"), re.M)[1])


def loops():
    """Packets that a switch dropped because they had passed too many."""
    return sum(int(re.search(r"drop_loop (\d+)", read(path))[1])
               for path in glob.glob(f"{DEBUGFS}/switch*/counters"))


def mlid_of(group):
    """The LID that the SA has given to an IPv4 group."""
    known = {ipaddress.ip_address(gid): int(mlid, 16) for gid, mlid in re.findall(
        r"MGID\.*([0-9a-f:]+)\s+Mlid\.*(0x[0-9a-fA-F]+)", sa_query("-g").stdout)}
    return known[ipaddress.ip_address(mgid_of(group))]


@timeout(300)
def test_multicast_loop():
    """Tables of a group that lead in circles: its copies end, all else goes on."""
    group = "239.5.5.9"
    shape = on(torus)
    routed_by(shape, "minhop")
    ends = hosts(shape)
    for end in ends:
        set_mode(end, "datagram")
    with mcast_flow(ends[1], ends[20], group) as (sink, flows):
        mlid = mlid_of(group)
        stream = Stream(ends[2], ends[19], rate=1 << 20)
        sm.stop()
        for switch in shape.numbers():
            set_mft(port(0), lid_of(switch), mlid, range(1, 6))
        before = loops()
        sink.seen.clear()
        flows()
        wait_until(lambda: sink.drain() and sink.duplicates(), 10,
                   "a datagram, more than once")
        wait_until(lambda: loops() > before, 10, "copies that were dropped")
        stream.wait_progress(30)
        stream.finish()
        routed_by(shape, "minhop")
        wait_until(lambda: once(flows, sink), 30, "a datagram comes once")


def once(flows, sink):
    """A datagram more, and what has come of it."""
    sink.drain()
    sink.seen.clear()
    before = loops()
    flows()
    time.sleep(0.3)
    sink.drain()
    return (sink.seen, loops()) == ({0: 1}, before)


# ---- the files and the netlist ---------------------------------------------------


def discovered(shape):
    """What ibnetdiscover prints, as a topology; and the shape's name of each node."""
    found = TOPOLOGY.parse(cmd(["ibnetdiscover"]).stdout)
    names = {f"S-{shape.guid(name):016x}": name for name in shape.net.switches}
    names |= {f"H-{Hca(shape.net.ids[name]).node_guid():016x}": name
              for name in shape.net.hcas}
    names[f"H-{Hca(0).node_guid():016x}"] = "SM"
    return found, names


def same_cables(shape, found, names):
    """A fabric that was discovered has the cables of the shape."""
    want = {frozenset(cable) for cable in shape.net.cables} | \
        {frozenset((shape.join, ("SM", 1)))}
    ksft_eq({frozenset((names[name], number) for name, number in cable)
             for cable in found.cables}, want)


@timeout(200)
def test_netlist():
    """What ibnetdiscover prints of a shape is that shape, and makes it again."""
    shape = on(irregular)
    routed_by(shape, "minhop")
    found, names = discovered(shape)
    same_cables(shape, found, names)
    clear()
    # The HCA of OpenSM is not made from the text, but joined to it.
    own = next(name for name in names if names[name] == "SM")
    cable = next(c for c in found.cables if own in (c[0][0], c[1][0]))
    join = next(end for end in cable if end[0] != own)
    found.cables.remove(cable)
    del found.hcas[own]
    again = Shape(found, join, KEYS)
    defer(again.remove)
    routed_by(again, "minhop")
    same_cables(again, *discovered(again))


REFUSED = (errno.EINVAL, errno.ENODEV, errno.EBUSY, errno.EEXIST, errno.ENOTCONN)
BAD = {
    "new_switch": ("\n", " ", "x", "-1", "256", "99999999999", "9 ports=0",
                   "9 ports=255", "9 ports=-1", "9 ports=", "9 prots=8",
                   "9 ports=8 more", "0", "9 " + "x" * 4000),
    "del_switch": ("\n", "x", "-1", "0", "9", "256", "0 0", "9" * 4000),
    "link": ("\n", "switch0/30", "switch0/30 ", "switch0/30 switch0/30",
             "switch0/30 switch0/31 switch0/32", "switch0/0 switch0/30",
             "switch0/37 switch0/30", "switch9/1 switch0/30",
             "switch0/1 switch0/30", "ibdevsim0/1 ibdevsim0/1",
             "ibdevsim0/2 switch0/30", "ibdevsim9/1 switch0/30",
             "switch/1 switch0/30", "switch0 switch0/30", "switch0/ switch0/30",
             "switch0/+29 switch0/30", "switch0/30 switch0/31x", "/ /",
             "switch0/" + "1" * 4000 + " switch0/30"),
    "unlink": ("\n", "x", "switch0/30", "switch0/0", "switch0/255", "ibdevsim9/1",
               "switch0/1 switch0/2", "ibdevsim0/1/1", "1" * 4000),
}


def test_bad_input():
    """What makes no sense is refused with a reason, and changes nothing."""
    clear()
    before = read(f"{DEBUGFS}/switch/ports")
    for file, lines in BAD.items():
        for line in lines:
            start = kmsg_tail()
            with ksft_raises(OSError, f"{file}: {line[:40]!r}") as raised:
                write(f"{BUS}/{file}", line)
            ksft_in(raised.error.errno, REFUSED, f"{file}: {line[:40]!r}")
            ksft_true(kmsg_since(start, "ibdevsim"), f"a reason: {line[:40]!r}")
    ksft_eq(read(f"{DEBUGFS}/switch/ports"), before)


def test_refused():
    """A netlist that is refused in the middle leaves nothing behind."""
    clear()
    before = read(f"{DEBUGFS}/switch/ports")
    new = TOPOLOGY.ring(3, 1)
    for how in ({"first_hca": 0, "first_switch": 20},
                {"first_hca": 20, "first_switch": 254},
                {"first_hca": 20, "first_switch": 20, "keys": "mtu=77"},
                {"first_hca": 20, "first_switch": 20,
                 "joins": [(("r0", 4), "ibdevsim99/1")]}):
        with ksft_raises(OSError, str(how)):
            TOPOLOGY.apply(new, **how)
        ksft_eq(glob.glob(f"{DEBUGFS}/switch?*/ports"), [], f"{how}")
        ksft_eq([each.number for each in fabric.hcas()], [0], f"{how}")
    ksft_eq(read(f"{DEBUGFS}/switch/ports"), before)


def test_removal_in_use():
    """A switch with HCAs stays; one without goes, with its cables."""
    clear()
    for number in (8, 9):
        write(f"{BUS}/new_switch", f"{number} ports=4")
        defer(write, f"{BUS}/del_switch", number)
    write(f"{BUS}/link", "switch8/1 switch9/1")
    write(f"{BUS}/link", "switch8/2 switch9/2")
    new = Hca(5)
    with ksft_raises(OSError, "no such switch") as raised:
        new.plug(switch=77)
    ksft_eq(raised.error.errno, errno.ENODEV)
    new.plug(switch=8)
    defer(new.unplug)
    with ksft_raises(OSError, "a switch with an HCA") as raised:
        write(f"{BUS}/del_switch", "8")
    ksft_eq(raised.error.errno, errno.EBUSY)
    with ksft_raises(OSError, "a switch that is there") as raised:
        write(f"{BUS}/new_switch", "8")
    ksft_eq(raised.error.errno, errno.EEXIST)
    ksft_eq(len(Tables(8).far), 3)
    write(f"{BUS}/link", "ibdevsim5/1 switch9/3")
    ksft_eq(len(Tables(8).far), 2)
    write(f"{BUS}/unlink", "switch9/1")
    ksft_eq((len(Tables(8).far), len(Tables(9).far)), (1, 2))
