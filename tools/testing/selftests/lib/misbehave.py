# SPDX-License-Identifier: GPL-2.0-only
"""
An HCA and a fabric that misbehave: what they do, and who may notice.

FAULTS says of each fault for how long it lasts, and which flows use what is faulty.
All others lose nothing; those go on within five seconds after its end.  Commands that
are given meanwhile take no longer than usual, but for a second that the HCA has to
drain, and for the time that verbs take which are slow themselves.

The scene: hosts a and b with COUNT children each, on ports at which the faults are;
two more, which only talk to each other; OpenSM on a port of its own.  All of it is in
one mode, datagram or connected.  It is kept from case to case.  Two more hosts are on
the second ports of the HCAs of a and b.
"""

import collections
import contextlib
import random
import socket
import threading

from . import many
from .child import Child
from .connected import counter, set_mode, wait_connected
from .fabric import fabric, hca, port, sm
from .flows import Flow, Flows
from .genl import nl
from .ipoib import any_ends
from .ksft import (defer, expect_report, ksft_eq, ksft_ge, ksft_gt, ksft_le, ksft_pr,
                   undone)
from .rtnl import IFLA_GROUP, Rtnl, attr
from .sa import says
from .traffic import (UdpSink, mcast_receiver, mcast_sender, neigh_flush, ping,
                      tcp_transfer, udp_send)
from .utils import cmd, hold, ip, now, slow, wait_until

BOOT_PARTITIONS = 8
COUNT = 100
# Flows go on so many seconds after the end of a fault.
RESUME = 5
# What an HCA that does not answer may cost a command, beyond what that takes here
# if nothing is wrong: the second in which QPs drain, and what the machine is slow.
WAIT = 2.5
# Names of flows: between a and b, their own and of two of their children; there are
# those of the other hosts, too, which nothing ever concerns.
OURS = ("parent", "child", "sibling")
NOBODY, CHILD = (), ("child",)
# The general error is the last one.
FLUSH, STATUSES = 5, range(1, 22)
LATE = 300


class Pair:
    """The two ends of a link of the scene, as connected_ends() has them."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __iter__(self):
        return iter((self.a, self.b))

    def wait_ping(self, limit=15):
        for src, dst in ((self.a, self.b), (self.b, self.a)):
            wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, limit=0.5), limit,
                       f"a reply to {src} from {dst}", interval=0.05)


def named(end, number):
    """A child; no two have the same name, which files in debugfs have, too."""
    return f"m{end.number}.{number}"


def patient(pair):
    """ARP is answered by the interface that was asked, as children share partitions."""
    for end in pair:
        end.ns.sysctl("net.ipv4.conf.all.arp_ignore", 1)


class Scene:
    """Who takes part."""

    # Children that have addresses, that commands are about, and that come later
    CHILD, SIBLING, SPARE, NEW = range(4)

    def __init__(self, mode):
        self.mode = mode
        self.size = 8000 if mode == "connected" else 1000
        self.pair = any_ends(port(1), port(2))
        self.other = any_ends(port(3), port(4), ("h3", "h4"), 3)
        self.second = any_ends(hca(1).port(2), hca(2).port(2), ("h5", "h6"), 4)
        for pair in (self.pair, self.other):
            patient(pair)
        self.talks = [Rtnl(end.ns) for end in self.pair]
        self.make_children()
        self.links = {"parent": self.pair, "other": self.other,
                      "child": self.children(self.CHILD),
                      "sibling": self.children(self.SIBLING)}
        for name in ("child", "sibling"):
            for child in self.links[name]:
                child.up()
        for pair in self.links.values():
            self.connect(pair)
        self.usual = self.usual_times()

    def make_children(self):
        """Those that the last scene left go first."""
        connected = self.mode == "connected"
        group = attr(IFLA_GROUP, many.GROUP)
        for talk, end in zip(self.talks, self.pair):
            with contextlib.suppress(OSError):
                many.delete(talk)
            # Of the first scene, which finds none that an earlier one left
            _qps.setdefault(end.port.hca.name, len(end.port.hca.data_qps("UD")))
            for number in range(COUNT):
                talk.add(end.ifindex(), named(end, number), group,
                         pkey=0x8001 + number % BOOT_PARTITIONS,
                         mode=int(connected))
            for number in range(COUNT):
                if number != self.NEW:
                    talk.up(named(end, number))
        ksft_ge(min(len(end.port.hca.data_qps("UD")) for end in self.pair), COUNT,
                "QPs of an HCA")

    def children(self, number):
        """Both children of that number."""
        return Pair(*(Child(end, named(end, number), 20 + number)
                      for end in self.pair))

    def connect(self, pair):
        """They talk, in the scene's mode."""
        connected = self.mode == "connected"
        for end in pair:
            if connected:
                set_mode(end, "connected")
            end.wait_carrier(30)
        for end in pair:
            neigh_flush(end)
        pair.wait_ping(30)
        if connected:
            wait_connected(pair.a, pair.b, 30)
            wait_connected(pair.b, pair.a, 30)

    def flows(self):
        """A flow each way on each link, until the end of the case."""
        found = []
        for name, pair in self.links.items():
            found += [Flow(name + ">", pair.a, pair.b, self.size),
                      Flow(name + "<", pair.b, pair.a, self.size)]
        return Flows(found)

    def ports(self):
        return [end.port for end in self.pair]

    # -- commands

    def commands(self):
        """{what: function}, none of which concerns a flow."""
        talk, end = self.talks[0], self.pair.a
        name = named(end, self.SPARE)

        def down_up():
            talk.down(name)
            talk.up(name)

        def add_delete():
            talk.add(end.ifindex(), "x.0", attr(IFLA_GROUP, many.GROUP), pkey=0x8001,
                     mode=int(self.mode == "connected"))
            try:
                talk.up("x.0")
            finally:
                talk.delete("x.0")

        def ask():
            for what in ("dev-get", "neigh-get", "group-get", "conn-get"):
                known(end, what)

        return {"down and up": down_up, "add and delete": add_delete,
                "statistics": lambda: end.ethtool("-S"),
                "link": lambda: cmd(["ip", "-s", "-d", "link", "show", "dev", name],
                                    ns=end.ns, timeout=slow(60)),
                "netlink": ask}

    def usual_times(self):
        """{what: seconds that it takes when nothing is wrong}"""
        found = {}
        for what, command in self.commands().items():
            begin = now()
            command()
            found[what] = now() - begin
        return found

    def command_all(self, more=0.0):
        """Give each command; none may take longer than it should, @more seconds."""
        for what, command in self.commands().items():
            begin = now()
            command()
            took = now() - begin
            ksft_pr(f"{what}: {took:.2f} s, usually {self.usual[what]:.2f} s")
            ksft_le(took, 3 * self.usual[what] + slow(WAIT) + more,
                    f"seconds: {what}")

    # -- afterwards

    def sound(self):
        """Everybody hears everybody."""
        return all(ping(src.ns, dst.v4, limit=slow(1))
                   for pair in self.links.values()
                   for src, dst in ((pair.a, pair.b), (pair.b, pair.a)))

    def close(self):
        for talk in self.talks:
            with contextlib.suppress(OSError):
                many.delete(talk)
            talk.close()


_scene = []
# {HCA: its datagram QPs before there were children}
_qps = {}


def known(end, what):
    """
    What netlink tells of an end: objects as dictionaries.  Threads may call it: it
    defers nothing.
    """
    with end.ns.inside():
        found = nl.Family()
    with contextlib.closing(found):
        return found.get(what, end.ifindex())


def scene_of(mode):
    """The scene, as it was left or made anew."""
    sm.revive()
    if _scene and _scene[0].mode == mode:
        try:
            wait_until(_scene[0].sound, 10, "all of the scene")
            return _scene[0]
        except Exception as error:  # pylint: disable=broad-except
            ksft_pr(f"the scene is not as it was: {error}")
    leave()
    fabric.clear_faults()
    begin = now()
    _scene.append(Scene(mode))
    ksft_pr(f"{COUNT} children on two hosts, {mode}: {now() - begin:.1f} s")
    return _scene[0]


def leave():
    """The scene goes; hosts stay, in datagram mode."""
    while _scene:
        scene = _scene.pop()
        scene.close()
        for pair in (scene.pair, scene.other):
            for end in pair:
                if end.present():
                    set_mode(end, "datagram")


# ---- QPs of a flow -----------------------------------------------------------


def child_qp(scene, receives):
    """
    The number of the QP by which the child's flow leaves a, or by which it comes to
    b; None while there is no connection.
    """
    one = scene.links["child"].b if receives else scene.links["child"].a
    if scene.mode == "datagram":
        return one.qpn()
    found = [conn for conn in known(one, "conn-get")
             if bool(conn.get("by-peer")) == receives and
             conn["status"] in ("up", "half-open")]
    # An older one may be there still; the youngest is used.
    return min(found, key=lambda conn: conn["age"])["qpn"] if found else None


def at_child_qp(scene, receives, knob, count):
    """Set a fault of completions at the QP of the child's flow; where it is."""
    where = scene.ports()[receives]
    qpn = wait_until(lambda: child_qp(scene, receives), 10, "the child's QP")
    where.fault("cqe_qp", qpn)
    where.fault(knob, count)
    return where


# ---- completions -------------------------------------------------------------


class Failures(threading.Thread):
    """
    A request of the child's fails with each status there is, one after the other,
    while others use the scene.
    """

    def __init__(self, scene, receives):
        super().__init__(daemon=True)
        self.scene, self.receives = scene, receives
        self.where = scene.ports()[receives]
        self.knob = "cqe_recv_error" if receives else "cqe_send_error"
        self.before = self.where.counter("cqe_fault")
        self.error = None
        self.over = threading.Event()
        for knob in ("cqe_qp", "cqe_status", self.knob):
            self.where.fault(knob, 0)
        defer(self.join, slow(30))
        defer(self.over.set)

    def used(self):
        """The QP may be replaced just now: then the fault is the next one's."""
        qpn = child_qp(self.scene, self.receives)
        if qpn and self.where.get("cqe_qp") != str(qpn):
            self.where.set("cqe_qp", qpn)
        return self.over.is_set() or self.where.get(self.knob) == "0"

    def run(self):
        try:
            qpn = wait_until(lambda: child_qp(self.scene, self.receives), 10,
                             "the child's QP")
            self.where.set("cqe_qp", qpn)
            for status in STATUSES:
                if self.over.is_set():
                    return
                self.where.set("cqe_status", status)
                self.where.set(self.knob, 1)
                wait_until(self.used, 10, f"status {status}")
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def done(self):
        """How many have failed."""
        return self.where.counter("cqe_fault") - self.before

    def finish(self):
        """Wait until all have."""
        self.join(slow(10 * len(STATUSES)))
        if self.error:
            raise self.error
        ksft_eq(self.done(), len(STATUSES), "failures")


@contextlib.contextmanager
def failing(scene, receives):
    """Requests of the child's fail, while commands are given."""
    with undone():
        failures = Failures(scene, receives)
        failures.start()
        wait_until(failures.done, 10, "a first failure", interval=0.01)
        yield
        failures.finish()


def sends_fail(scene):
    return failing(scene, False)


def receives_fail(scene):
    return failing(scene, True)


@contextlib.contextmanager
def completions(scene, knob, count):
    """A fault of completions at both QPs of the child's flow a to b."""
    before = [where.counter("cqe_fault") for where in scene.ports()]
    with undone():
        for receives in (False, True):
            at_child_qp(scene, receives, knob, count)
        yield
        if "ms" not in knob:
            # All of them are to happen while the flow runs.
            for where in scene.ports():
                wait_until(lambda w=where: w.get(knob) == "0", 20,
                           f"{knob} at {where}")
    for where, old in zip(scene.ports(), before):
        ksft_gt(where.counter("cqe_fault"), old, f"faults at {where}")


def twice(scene):
    return completions(scene, "cqe_twice", 30)


def lost(scene):
    return completions(scene, "cqe_lose", 10)


def late(scene):
    return completions(scene, "cqe_delay_ms", LATE)


@contextlib.contextmanager
def late_gone(scene):
    """
    Completions come when the QP that they are of has been given up: they are later
    than the second that it has to drain.
    """
    expect_report("tx-watchdog")
    before = {where: where.counter("cqe_reset") for where in scene.ports()}
    with undone():
        for where in scene.ports():
            where.fault("cqe_delay_ms", 1700)
        for receives, child in enumerate(scene.links["child"]):
            for qpn in {child.qpn(), child_qp(scene, bool(receives))} - {None}:
                child.port.hca.break_qp(qpn)
        yield
    # What was held back last is still to come, while all goes on.
    for where, old in before.items():
        wait_until(lambda w=where, o=old: w.counter("cqe_reset") > o, 10,
                   f"completions of QPs of {where} that had been given up")


@contextlib.contextmanager
def silent(scene):
    """Completions raise no interrupt."""
    with undone():
        for where in scene.ports():
            where.fault("lose_events", 1)
        yield


@contextlib.contextmanager
def wedged(scene):
    """The HCA stands still; the parent is closed with all children, and opened."""
    expect_report("tx-watchdog")
    end = scene.pair.a
    took = []
    for wedge in (0, 1):
        with undone():
            end.port.fault("wedged", wedge)
            if wedge:
                yield
            begin = now()
            end.set("down", timeout=slow(120))
            took.append(now() - begin)
        end.set("up", timeout=slow(120))
    ksft_pr(f"{COUNT} children closed in {took[1]:.2f} s, {took[0]:.2f} s when the "
            "HCA answers")
    ksft_le(took[1], took[0] + slow(WAIT), "seconds to close them")


# ---- events ------------------------------------------------------------------

EVENTS = ("port_active", "port_err", "lid_change", "pkey_change", "sm_change",
          "client_reregister", "gid_change")


@contextlib.contextmanager
def storm(scene):
    """Events of which none is true, many at once, again and again, in any order."""
    rand = random.Random(4711)
    for _ in range(5):
        names = list(EVENTS) * 2
        rand.shuffle(names)
        for name in names:
            for where in scene.ports():
                where.event(name, rand.choice((1, 2, 20)))
    yield


def queries(end):
    """How often the SA was asked for paths, by all interfaces of an end's port."""
    return counter(end, "path_queries")


@contextlib.contextmanager
def elsewhere(scene):
    """
    Events of the HCAs' other ports: only who is there asks the SA again.  (Those of
    ports that there are not the core keeps to itself, see fabric_faults.test_events.)
    """
    before = {end: queries(end) for end in (*scene.pair, *scene.second)}
    for name in EVENTS:
        for end in scene.second:
            end.port.event(name, 20)
    for src, dst in (tuple(scene.second), tuple(scene.second)[::-1]):
        wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, limit=0.3) and
                   queries(s) > before[s], 10, f"a query of {src}")
    # Else there would be one for each partition in which a flow goes to the peer.
    for end in scene.pair:
        ksft_le(queries(end) - before[end], len(OURS) - 1, f"queries of {end}")
    yield


@contextlib.contextmanager
def untimely(scene):
    """The event that the port is active comes while it is not, and the other after."""
    where = scene.pair.b.port
    again = defer(where.link, True)
    where.link(False)
    for name in ("port_active", "lid_change", "client_reregister"):
        where.event(name, 5)
    scene.pair.b.wait_no_carrier()
    ksft_eq(where.state(), "DOWN")
    again.exec()
    where.event("port_err", 5)
    yield
    where.wait_active()
    where.event("port_err", 5)


# ---- verbs -------------------------------------------------------------------

# Each verb takes so many milliseconds, and a command needs so many of them at most,
# one after the other: an interface is made with a QP and perhaps with CQs; it goes up
# with three changes of state and down with two; it is in four groups, to which it is
# attached and from which it is detached; the port is read before each step.
SLOW_MS, SLOW_VERBS = 300, 30
DELAYS = ("create_delay_ms", "destroy_delay_ms", "reset_delay_ms", "modify_delay_ms",
          "attach_delay_ms", "query_delay_ms")


@contextlib.contextmanager
def slow_verbs(scene):
    """Each verb takes its time."""
    with undone():
        for where in scene.ports():
            for knob in DELAYS:
                where.fault(knob, SLOW_MS)
            where.fault("ah_delay_us", 1000 * SLOW_MS)
        yield


# ---- the subnet manager ------------------------------------------------------


@contextlib.contextmanager
def newcomer(scene, knob, value, more=lambda _scene: {}):
    """
    A fault of the SA's, for all that is asked again, and for two more interfaces,
    which come up meanwhile, and reach each other within the time for flows after it.
    @more: called during the fault; returns what else has to become true in that time
    """
    pair = scene.children(scene.NEW)
    for talk, child in zip(scene.talks, pair):
        talk.down(child.ifname)
    faults = [where.fault(knob, value) for where in scene.ports()]
    for child in pair:
        child.up()
    for where in scene.ports():
        where.event("client_reregister")
    goals = more(scene)
    yield
    for fault in faults:
        fault.exec()
    begin = now()
    for child in pair:
        wait_until(child.carrier, RESUME, f"carrier of {child}", patient=False)
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.3), RESUME,
               f"a reply of {pair.b}", patient=False)
    ksft_pr(f"the new ones are up after {now() - begin:.1f} s")
    for what, check in goals.items():
        wait_until(check, RESUME, what, patient=False)
        ksft_pr(f"{what} after {now() - begin:.1f} s")
    ksft_le(now() - begin, slow(RESUME), "seconds until all goes on")


def mute(scene):
    """The SA is silent."""
    return newcomer(scene, "sa_drop", 1)


def stranger(scene):
    """
    Until the end of the case a keeps sending to a host of which it has not heard, and
    to a group to which nobody belonged: the SA has to be asked for both.
    """
    a, b = scene.pair
    where = a.v4.rsplit(".", 1)[0] + ".77"
    # Nobody sends to that port.
    gid = bytes.fromhex(hca(3).port(2).gid().replace(":", ""))
    lladdr = (bytes([0, 0, 0, 77]) + gid).hex(":")
    ip(["neigh", "replace", where, "lladdr", lladdr, "nud", "permanent", "dev",
        a.ifname], ns=a.ns)
    defer(ip, ["neigh", "del", where, "dev", a.ifname], ns=a.ns, fail=False)
    group, over = "239.77.0.1", threading.Event()
    sink, sock = mcast_receiver(b, group), mcast_sender(a, group)

    def send():
        while not over.wait(0.2):
            for target in ((where, 9), (group, sink.port)):
                udp_send(sock, target, 1, 100)

    def path():
        return any(each["path-status"] == "valid" for each in known(a, "neigh-get")
                   if each["lladdr"] == lladdr)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    # In the opposite order
    for func in (sink.close, sock.close, thread.join, over.set):
        defer(func)
    wait_until(lambda: any(each["lladdr"] == lladdr for each in known(a, "neigh-get")),
               5, "a neighbour without a path")
    ksft_eq((path(), sink.drain()), (False, 0), "while the SA is silent")
    return {"a path to a stranger": path, "a new group": sink.drain}


def silence(scene):
    """The SA is silent for so long that nobody asks often, and comes back quietly."""
    return newcomer(scene, "sa_drop", 1, stranger)


def tardy(scene):
    """The SA's answers come when nobody waits for them any more."""
    return newcomer(scene, "sa_delay_ms", 700)


def lossy_mads(scene):
    """Every third MAD is lost."""
    return newcomer(scene, "mad_drop", 3)


def master(where):
    """Wait until the SM at a port is everybody's."""
    wait_until(lambda: all(each.sm_lid() == where.lid() for each in
                           (port(n) for n in range(5))), 30,
               f"the SM at {where} is the master")


@contextlib.contextmanager
def failover(_scene):
    """The master SM dies, twice within a minute."""
    with undone():
        first, second = port(0), port(3)
        begin = now()
        standby = sm.with_standby(first, second)
        master(first)
        sm.stop(hard=True, but=standby)
        master(second)
        third = sm.spawn(first, priority=1, conf=sm.QUICK)
        wait_until(lambda: "STANDBY" in cmd(["sminfo", first.lid()],
                                            fail=False).stdout, 15, "a standby SM")
        sm.stop(hard=True, but=third)
        master(first)
        ksft_pr(f"two failovers in {now() - begin:.0f} s")
        yield
    wait_until(lambda: port(3).sm_lid() == port(0).lid(), 30, "one SM")


@contextlib.contextmanager
def other_lids(scene):
    """The SM gives both hosts other LIDs."""
    with undone():
        defer(sm.restart)
        sm.give_lids({where: where.lid() + 16 for where in scene.ports()},
                     rereg=True)
        yield


@contextlib.contextmanager
def no_pkey(scene):
    """The child's P_Key is taken away, and given back at another place."""
    where, pair = scene.pair.b.port, scene.links["child"]
    keys = {index: key for index in range(BOOT_PARTITIONS + 2)
            if (key := where.pkey(index))}
    index = next(i for i, key in keys.items() if key & 0x7fff == 1)
    key, free = keys[index], max(keys) + 4

    def back():
        where.set("set_pkey", f"{free} 0")
        where.set("set_pkey", f"{index} {key:#x}")

    with undone():
        defer(back)
        where.set("set_pkey", f"{index} 0")
        pair.b.wait_no_carrier()
        yield
        where.set("set_pkey", f"{free} {key:#x}")
        begin = now()
        wait_until(pair.b.carrier, RESUME, f"carrier of {pair.b}", patient=False)
        wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.3), RESUME,
                   f"a reply of {pair.b}", patient=False)
        ksft_le(now() - begin, slow(RESUME), "seconds until it is back")


def path_of(end, peer):
    """What the driver knows of the path from an end to another one."""
    return next((found for found in known(end, "neigh-get")
                 if bytes.fromhex(found["lladdr"].replace(":", ""))[1:] ==
                 peer.address()[1:]), {})


def group_of(end, _peer):
    """What it knows of the broadcast group."""
    return next((found for found in known(end, "group-get")
                 if found.get("broadcast")), {})


@contextlib.contextmanager
def answers(scene, seen, **fields):
    """
    The SA's answers have these in them, when all ask; then they are right again.
    @seen: what the driver makes of it, as a list of (path_of or group_of, function)
    """
    a, b = scene.pair
    with undone():
        for where in scene.ports():
            says(where, **fields)
            where.event("client_reregister")
        for end, peer in ((a, b), (b, a)):
            for what, right in seen:
                wait_until(lambda e=end, p=peer, w=what, r=right: r(w(e, p)), 10,
                           f"{what.__name__} {end} as the SA says")
        yield
    for where in scene.ports():
        ksft_eq(where.get("sa_patch"), "")
        where.event("client_reregister")


def has(**wanted):
    """It has these attributes; names are written with "_"."""
    wanted = {name.replace("_", "-"): value for name, value in wanted.items()}
    return lambda found: {name: found.get(name) for name in wanted} == wanted


def odd_paths(scene):
    """Paths by another SL, slow, short, old, to another subnet's hops: all legal."""
    seen = [(path_of, has(sl=9, path_mtu=256, rate=2500, hop_limit=64))]
    return answers(scene, seen, path_sl=9, path_mtu=0x81, path_rate=0x82,
                   path_life=0xbf, path_hops=64)


def wrong_paths(scene):
    """Paths that lead nowhere."""
    return answers(scene, [(path_of, has(dlid=0x2fff))], path_dlid=0x2fff)


def odd_groups(scene):
    """Groups of another MTU, rate, SL and class."""
    return answers(scene, [(group_of, has(mtu=1024, rate=2500, sl=9))],
                   group_mtu=0x83, group_rate=0x82, group_sl=0x90,
                   group_tclass=0x20, group_life=0x9f)


def wrong_groups(scene):
    """Groups with another Q_Key, and with a LID that is no group's."""
    return answers(scene, [(group_of, has(mlid=0xc7f0))], group_qkey=0x00001234,
                   group_mlid=0xc7f0)


def refusal(scene):
    """The SA refuses all that it is asked."""
    return answers(scene, [(path_of, lambda found: found.get("path-failures")),
                           (group_of, lambda found: found.get("failures"))],
                   status=0x0300, group_status=0x0200)


# ---- links and packets -------------------------------------------------------


@contextlib.contextmanager
def flapping(scene):
    """A link goes down and up some ten times a second."""
    where, over, times = scene.pair.b.port, threading.Event(), []

    def flap():
        while not over.is_set():
            for up in (False, True):
                where.link(up)
                over.wait(0.045)
            times.append(now())

    thread = threading.Thread(target=flap, daemon=True)
    with undone():
        defer(where.link, True)
        defer(thread.join)
        defer(over.set)
        thread.start()
        yield
    rate = (len(times) - 1) / (times[-1] - times[0])
    ksft_pr(f"{len(times)} times, {rate:.1f} per second")
    ksft_ge(rate, 8 / slow(1), "flaps per second")
    # How long the SM takes is not the driver's affair.
    where.wait_active()


# What shows that a fault of packets has happened
PACKETS = {"loss_ppm": "drop_fault", "dup_ppm": "duplicated", "reorder_ppm": "reordered"}
BROADCASTS = 600


def broadcast(src, dst, lossless):
    """Broadcasts, which are datagrams in connected mode, too; all come, or many."""
    where = src.v4.rsplit(".", 1)[0] + ".255"
    with UdpSink(dst.ns) as sink, \
            src.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        ksft_eq(udp_send(sock, (where, sink.port), BROADCASTS, 200, gap=0.001),
                BROADCASTS)
        least = BROADCASTS if lossless else BROADCASTS // 4
        wait_until(lambda: sink.drain() >= least, 5, f"{least} broadcasts of {src}")
        ksft_eq(sink.bad, 0)


def packets(knob, percent, stream=True):
    """
    A fault that concerns so many of the packets at both hosts; with @stream TCP gets
    all of it right meanwhile.  Connections know neither copies nor another order: in
    connected mode it is broadcasts, ARP and the like that have those.
    """
    @contextlib.contextmanager
    def act(scene):
        pair, name = scene.pair, PACKETS[knob]
        before = {where: where.counter(name) for where in scene.ports()}
        with undone():
            for where in scene.ports():
                where.fault(knob, 10000 * percent)
            for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
                broadcast(src, dst, knob != "loss_ppm")
            if stream:
                tcp_transfer(pair.a, pair.b, 1 << 19)
                tcp_transfer(scene.links["child"].b, scene.links["child"].a, 1 << 18)
            yield
            for where, old in before.items():
                wait_until(lambda w=where, o=old: w.counter(name) > o, 10,
                           f"{name} at {where}")
    return act


# ---- the table ---------------------------------------------------------------

# act: a context manager; what is wrong is so while it is entered, and what it does
# after that is the recovery.  seconds: that it lasts, beside what the commands take.
# used: flows that use what is faulty; all others lose nothing.  verbs: seconds that
# commands may take more, since verbs are slow.  copies: the fabric makes some, so that
# datagrams come twice
Fault = collections.namedtuple("Fault", "act seconds used verbs copies",
                               defaults=(0.0, False))

# By the names of the cases of misbehave_datagram and misbehave_connected
FAULTS = {
    # Sends of a child's complete with each status that there is.
    "test_sends_fail": Fault(sends_fail, 0, CHILD),
    # So do its receives.
    "test_receives_fail": Fault(receives_fail, 0, CHILD),
    # Completions of a child's QPs come twice.
    "test_twice": Fault(twice, 2, NOBODY),
    # They never come.
    "test_lost": Fault(lost, 2, CHILD),
    # They come late.
    "test_late": Fault(late, 2, NOBODY),
    # They come when the QP that they are of was given up.
    "test_late_gone": Fault(late_gone, 3, OURS),
    # Completions raise no interrupts.
    "test_silent": Fault(silent, 3, OURS),
    # The HCA stands still, and all is closed meanwhile.
    "test_wedged": Fault(wedged, 1, OURS),
    # Events that are not true, many at once, in any order.
    "test_storm": Fault(storm, 1, NOBODY),
    # Events of other ports of the HCAs.
    "test_elsewhere": Fault(elsewhere, 1, NOBODY),
    # Events come when the opposite is true.
    "test_untimely": Fault(untimely, 1, OURS),
    # Verbs take their time.
    "test_slow_verbs": Fault(slow_verbs, 0, NOBODY, SLOW_VERBS * SLOW_MS / 1000),
    # The SA is silent.
    "test_mute": Fault(mute, 8, NOBODY),
    # It is silent for a minute, and nothing says that it is back.
    "test_silence": Fault(silence, 60, NOBODY),
    # The SA answers when nobody waits any more.
    "test_tardy": Fault(tardy, 5, NOBODY),
    # Every third MAD is lost.
    "test_lossy_mads": Fault(lossy_mads, 5, NOBODY),
    # The master SM dies, twice in a minute.
    "test_failover": Fault(failover, 1, NOBODY),
    # The SM gives hosts other LIDs.
    "test_other_lids": Fault(other_lids, 1, OURS),
    # The SM takes a child's P_Key away.
    "test_no_pkey": Fault(no_pkey, 2, CHILD),
    # The SA knows paths of another SL, MTU and rate.
    "test_odd_paths": Fault(odd_paths, 3, NOBODY),
    # The SA knows paths that lead nowhere.
    "test_wrong_paths": Fault(wrong_paths, 3, OURS),
    # The SA knows groups of another SL, MTU and rate.
    "test_odd_groups": Fault(odd_groups, 3, OURS),
    # The SA knows groups with another Q_Key and LID.
    "test_wrong_groups": Fault(wrong_groups, 3, OURS),
    # The SA refuses everything.
    "test_refusal": Fault(refusal, 5, NOBODY),
    # A link goes down and up ten times a second.
    "test_flapping": Fault(flapping, 4, OURS),
    # One packet in a hundred is lost.
    "test_loss_1": Fault(packets("loss_ppm", 1), 3, OURS),
    # Three in ten are.
    "test_loss_30": Fault(packets("loss_ppm", 30, stream=False), 4, OURS),
    # One in a hundred arrives twice.
    "test_twice_1": Fault(packets("dup_ppm", 1), 3, NOBODY, copies=True),
    # Three in ten do.
    "test_twice_30": Fault(packets("dup_ppm", 30), 3, NOBODY, copies=True),
    # One in a hundred is overtaken.
    "test_disorder_1": Fault(packets("reorder_ppm", 1), 3, NOBODY),
    # Three in ten are.
    "test_disorder_30": Fault(packets("reorder_ppm", 30), 3, NOBODY),
}


def suffer(mode, fault):
    """What FAULTS says of a fault holds, in that mode."""
    scene = scene_of(mode)
    flows = scene.flows()
    flows.run(20)
    used = [flow for flow in flows.flows if flow[:-1] in fault.used]
    rest = [flow for flow in flows.flows if flow not in used]
    before = flows.mark()
    with fault.act(scene):
        hold(fault.seconds)
        scene.command_all(fault.verbs)
    flows.resumed(used, flows.mark(), RESUME)
    flows.undisturbed(rest, before)
    if not fault.copies:
        ksft_eq({flow: flows[flow].twice() for flow in rest}, dict.fromkeys(rest, 0),
                "datagrams that came twice")
    flows.stop()
    sound(scene)


def sound(scene):
    """Afterwards all is as it was, and the driver made no mistake."""
    wait_until(scene.sound, 10, "all of the scene after the fault")
    tcp_transfer(scene.pair.a, scene.pair.b, 1 << 18)
    tcp_transfer(scene.links["child"].b, scene.links["child"].a, 1 << 18)
    for end in (*scene.pair, *scene.second):
        end.port.no_mistakes()
        ksft_eq((end.port.faults(), end.port.get("sa_patch"), end.port.get("armed")),
                ({}, "", "0"), f"faults left at {end.port}")


def all_right(mode):
    """
    The last case of a file: nothing is left of all that.  Whoever made the scene for
    himself has seen no fault.
    """
    scene = scene_of(mode)
    hcas = [end.port.hca for end in scene.pair]
    leave()
    for each in hcas:
        wait_until(lambda h=each: len(h.data_qps("UD")) <= _qps[h.name], 20,
                   f"QPs of children of {each} gone")
        ksft_eq(len(each.data_qps("UD")), _qps[each.name], f"datagram QPs of {each}")
        wait_until(lambda h=each: not h.data_qps("RC"), 20, f"no connections of {each}")
