# SPDX-License-Identifier: GPL-2.0-only
"""An HCA is pulled, whatever state the driver, or a command, is in just then.

It has a hundred children.  Others lose nothing, and it is gone soon; where somebody
waits for it, after the ten seconds that the fabric is patient.
"""

import collections
import contextlib
import threading

from lib import (End, Failed, cmd, defer, define, ends, fabric, ip, ksft_eq,
                 ksft_false, ksft_le, ksft_pr, now, ping, slow, stuck, tcp_transfer,
                 timeout, unheard, wait_until)
from lib import many
from lib.child import Child, names_in
from lib.connected import conns, set_mode, to_datagram, wait_connected
from lib.flows import Flow, Flows
from lib.ksft import expect_report
from lib.misbehave import COUNT
from lib.partitions import EIGHT
from lib.rtnl import IFLA_GROUP, Rtnl, attr
from lib.traffic import neigh_flush

BOOT = {"ipoib": "ours", "hcas": 3, "seconds": 300, "partitions": EIGHT}
VERBS_ONLY = "faults of queue pairs"
PKEYS = 8
NUMBER = 5
FOREVER = 1 << 20
# Seconds until it is gone, if nobody waits for it; if somebody does, ten more.
QUICK, PATIENT = 6, 20
# Seconds more, if the SA does not answer: ib_core has groups left four times, for three
# seconds each, before it lets an HCA go
LEAVES = 12
# Seconds that it takes to reset a QP that is being closed, beside one to drain it
SEEN = 4


def hosts():
    """Two that have nothing to do with it, nor with the SM."""
    return ends(1, 2)


class Victim:
    """The HCA, its interface and children."""

    def __init__(self, mode):
        self.mode, self.pair = mode, hosts()
        self.hca = fabric.add_hca(NUMBER)
        self.end = End("h5", self.hca.port(), 3, 0)
        self.end.setup()
        defer(self.end.drop)
        self.peer = self.pair.a
        self.talk = Rtnl(self.end.ns)
        defer(self.talk.close)
        group = attr(IFLA_GROUP, many.GROUP)
        for number in range(COUNT):
            self.talk.add(self.end.ifindex(), f"m.{number}", group,
                          pkey=0x8001 + number % PKEYS, mode=int(mode == "connected"))
            self.talk.up(f"m.{number}")
        self.end.wait_carrier(30)
        if mode == "connected":
            for each in (self.end, self.peer):
                set_mode(each, "connected")
            defer(to_datagram, self.peer)
            for each in (self.end, self.peer):
                neigh_flush(each)
        self.talks()
        if mode == "connected":
            wait_connected(self.end, self.peer, 30)
            wait_connected(self.peer, self.end, 30)
        wait_until(lambda: Child(self.end, f"m.{COUNT - 1}", 9).carrier(), 30,
                   "the last child's carrier")

    def talks(self):
        """It and its peer hear each other."""
        for src, dst in ((self.end, self.peer), (self.peer, self.end)):
            wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, limit=0.5), 20,
                       f"a reply to {src}", interval=0.1)

    def fault(self, knob, value):
        """Set until the HCA goes."""
        self.end.port.set(knob, value)

    def state(self, name):
        wait_until(lambda: self.end.state()["state"] == name, 20, name)

    @contextlib.contextmanager
    def meanwhile(self, func, *args):
        """A command that is being executed; how it ends is all the same."""
        def run():
            with contextlib.suppress(OSError, Failed):
                func(*args)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield thread
        thread.join(slow(30))
        ksft_false(thread.is_alive(), "the command has not ended")

    def waits(self, *words):
        """Until somebody sleeps in one of these functions."""
        def there():
            stacks = cmd("cat /proc/[0-9]*/task/*/stack 2>/dev/null; true").stdout
            return any(f"{word}+" in stacks for word in words)

        wait_until(there, 10, f"somebody in {words}")


@contextlib.contextmanager
def up(_victim):
    yield


@contextlib.contextmanager
def closed(victim):
    victim.end.set("down", timeout=slow(60))
    victim.state("closed")
    yield


@contextlib.contextmanager
def no_pkey(victim):
    victim.fault("set_pkey", "0 0")
    victim.end.wait_no_carrier()
    yield


@contextlib.contextmanager
def broken(victim):
    """It can't be brought up, again and again."""
    victim.fault("modify_error", FOREVER)
    victim.hca.break_qp(victim.end.qpn())
    victim.state("broken")
    yield


@contextlib.contextmanager
def joining(victim):
    """All groups are asked for, and there is no answer."""
    victim.end.set("down", timeout=slow(60))
    victim.fault("sa_drop", 1)
    asked = unheard(victim.end.port)
    victim.end.up()
    asked()
    yield


@contextlib.contextmanager
def asking(victim):
    """So are paths."""
    victim.fault("sa_drop", 1)
    asked = unheard(victim.end.port)
    gid = victim.peer.address()[:12]
    for number in range(60, 90):
        ip(["neigh", "replace", f"10.0.0.{number}", "lladdr",
            (gid + bytes(6) + bytes([1, number])).hex(":"), "nud", "permanent", "dev",
            victim.end.ifname], ns=victim.end.ns)
        ping(victim.end.ns, f"10.0.0.{number}", limit=0.01)
    asked()
    yield


@contextlib.contextmanager
def no_link(victim):
    victim.end.port.link(False)
    victim.end.wait_no_carrier()
    yield


@contextlib.contextmanager
def fatal(victim):
    victim.hca.set("fatal", 1)
    victim.end.wait_no_carrier()
    yield


@contextlib.contextmanager
def wedged(victim):
    victim.fault("wedged", 1)
    stuck(victim.end)
    yield


@contextlib.contextmanager
def late(victim):
    """Completions are still to come."""
    victim.fault("cqe_delay_ms", 5000)
    stuck(victim.end)
    yield


@contextlib.contextmanager
def closing(victim):
    """Somebody closes it, and waits for what it does not report."""
    victim.fault("wedged", 1)
    # At once: the stack's watchdog would have it restarted, and that comes first.
    victim.fault("reset_delay_ms", 1000 * SEEN)
    with victim.meanwhile(victim.talk.down, victim.end.ifname):
        # Children are closed first, each after the other.
        victim.waits("ibds_modify_qp")
        victim.fault("reset_delay_ms", 0)
        yield


@contextlib.contextmanager
def restarting(victim):
    """A restart waits for it, longer than the stack does for its queue."""
    expect_report("tx-watchdog")
    victim.fault("reset_delay_ms", 600000)
    victim.hca.break_qp(victim.end.qpn())
    victim.waits("ibds_modify_qp")
    yield


def delayed(knob, command, *functions):
    """
    Somebody gives a command to @victim, by netlink, for which a verb takes ten minutes:
    in one of these functions of the fabric.
    """
    @contextlib.contextmanager
    def state(victim):
        victim.fault(knob, 600000)
        with victim.meanwhile(command, victim):
            victim.waits(*functions)
            yield
    return state


# A child is made, and one is deleted; another is closed, and detached from a group.
making = delayed("create_delay_ms", lambda victim: victim.talk.add(
    victim.end.ifindex(), "x.0", pkey=0x8001), "ibds_create_qp", "ibds_create_cq")
deleting = delayed("destroy_delay_ms", lambda victim: victim.talk.delete("m.0"),
                   "ibds_destroy_qp", "ibds_destroy_cq")
detaching = delayed("attach_delay_ms", lambda victim: victim.talk.down("m.1"),
                    "ibds_detach_mcast")


@contextlib.contextmanager
def switching(victim):
    """Somebody switches the mode, and waits for connections to end."""
    victim.fault("wedged", 1)
    other = "datagram" if victim.mode == "connected" else "connected"
    with victim.meanwhile(set_mode, victim.end, other):
        yield


@contextlib.contextmanager
def connecting(victim):
    """Peers are asked for connections, and there is no answer."""
    victim.fault("mad_drop", 1)
    for conn in victim.hca.data_qps("RC"):
        victim.hca.break_qp(conn.qpn)
    wait_until(lambda: [conn for conn in conns(victim.end, "us")
                        if conn["state"] == "asked"], 10, "a request")
    yield


# act: the HCA is pulled while it is entered.  limit: seconds that takes at most
State = collections.namedtuple("State", "act limit")

STATES = {
    "up": State(up, QUICK),
    "closed": State(closed, QUICK),
    "no_pkey": State(no_pkey, QUICK + LEAVES),
    "broken": State(broken, QUICK),
    "joining": State(joining, QUICK),
    "asking": State(asking, QUICK + LEAVES),
    "no_link": State(no_link, QUICK),
    "fatal": State(fatal, QUICK),
    "wedged": State(wedged, QUICK),
    "late": State(late, QUICK),
    "closing": State(closing, QUICK + SEEN),
    "switching": State(switching, QUICK),
    "connecting": State(connecting, QUICK),
    "restarting": State(restarting, PATIENT),
    "making": State(making, PATIENT),
    "deleting": State(deleting, PATIENT),
    "detaching": State(detaching, PATIENT),
}


@timeout(200)
def gone(what):
    """It goes in time, with its interfaces, and nobody else notices."""
    name, mode = what
    state, victim = STATES[name], Victim(mode)
    pair = victim.pair
    size = 8000 if mode == "connected" else 1000
    others = ("others>", "others<")
    flows = Flows([Flow("others>", pair.a, pair.b, 1000),
                   Flow("others<", pair.b, pair.a, 1000),
                   Flow("victim>", victim.end, pair.a, size),
                   Flow("victim<", pair.a, victim.end, size)])
    flows.run(20)
    before = flows.mark()
    with state.act(victim):
        begin = now()
        victim.hca.unplug()
        took = now() - begin
    ksft_pr(f"pulled in {took:.1f} s")
    ksft_le(took, slow(state.limit), "seconds to pull it")
    ksft_false(victim.hca.exists(), "it is there")
    ksft_eq(names_in(victim.end.ns, "m."), [], "children")
    ksft_eq(names_in(victim.end.ns, victim.end.ifname), [], "interface")
    flows.undisturbed(others, before)
    flows.stop()


CASES = {
    # Pulled with traffic, datagram mode.
    "test_datagram_up": ("up", "datagram"),
    # Pulled while it is closed, datagram mode.
    "test_datagram_closed": ("closed", "datagram"),
    # Pulled while it has no P_Key, datagram mode.
    "test_datagram_no_pkey": ("no_pkey", "datagram"),
    # Pulled while it can't be brought up, datagram mode.
    "test_datagram_broken": ("broken", "datagram"),
    # Pulled while groups are asked for, datagram mode.
    "test_datagram_joining": ("joining", "datagram"),
    # Pulled while paths are asked for, datagram mode.
    "test_datagram_asking": ("asking", "datagram"),
    # Pulled while its link is down, datagram mode.
    "test_datagram_no_link": ("no_link", "datagram"),
    # Pulled after a fatal error, datagram mode.
    "test_datagram_fatal": ("fatal", "datagram"),
    # Pulled while it stands still, datagram mode.
    "test_datagram_wedged": ("wedged", "datagram"),
    # Pulled while completions are late, datagram mode.
    "test_datagram_late": ("late", "datagram"),
    # Pulled while it is being closed, datagram mode.
    "test_datagram_closing": ("closing", "datagram"),
    # Pulled while its mode is switched, datagram mode.
    "test_datagram_switching": ("switching", "datagram"),
    # Pulled while it is restarted, datagram mode.
    "test_datagram_restarting": ("restarting", "datagram"),
    # Pulled while a child is made, datagram mode.
    "test_datagram_making": ("making", "datagram"),
    # Pulled while a child is deleted, datagram mode.
    "test_datagram_deleting": ("deleting", "datagram"),
    # Pulled while a group is left, datagram mode.
    "test_datagram_detaching": ("detaching", "datagram"),
    # Pulled with traffic, connected mode.
    "test_connected_up": ("up", "connected"),
    # Pulled while it is closed, connected mode.
    "test_connected_closed": ("closed", "connected"),
    # Pulled while it has no P_Key, connected mode.
    "test_connected_no_pkey": ("no_pkey", "connected"),
    # Pulled while it can't be brought up, connected mode.
    "test_connected_broken": ("broken", "connected"),
    # Pulled while groups are asked for, connected mode.
    "test_connected_joining": ("joining", "connected"),
    # Pulled while paths are asked for, connected mode.
    "test_connected_asking": ("asking", "connected"),
    # Pulled while its link is down, connected mode.
    "test_connected_no_link": ("no_link", "connected"),
    # Pulled after a fatal error, connected mode.
    "test_connected_fatal": ("fatal", "connected"),
    # Pulled while it stands still, connected mode.
    "test_connected_wedged": ("wedged", "connected"),
    # Pulled while completions are late, connected mode.
    "test_connected_late": ("late", "connected"),
    # Pulled while it is being closed, connected mode.
    "test_connected_closing": ("closing", "connected"),
    # Pulled while its mode is switched, connected mode.
    "test_connected_switching": ("switching", "connected"),
    # Pulled while connections are asked for, connected mode.
    "test_connected_connecting": ("connecting", "connected"),
    # Pulled while it is restarted, connected mode.
    "test_connected_restarting": ("restarting", "connected"),
    # Pulled while a child is made, connected mode.
    "test_connected_making": ("making", "connected"),
    # Pulled while a child is deleted, connected mode.
    "test_connected_deleting": ("deleting", "connected"),
    # Pulled while a group is left, connected mode.
    "test_connected_detaching": ("detaching", "connected"),
}
define(globals(), CASES, gone)


def test_all_states():
    """There is a case for each state, in each mode that has it."""
    ksft_eq(set(CASES.values()),
            {(name, mode) for name in STATES for mode in ("datagram", "connected")} -
            {("connecting", "datagram")})


@timeout(120)
def test_comes_back():
    """It comes back as if nothing had been."""
    victim = Victim("connected")
    victim.hca.unplug()
    victim.hca.plug()
    victim.end.drop()
    victim.end.setup()
    set_mode(victim.end, "connected")
    victim.talks()
    wait_connected(victim.end, victim.peer, 30)
    tcp_transfer(victim.peer, victim.end, 1 << 20)
    victim.end.port.no_mistakes()
