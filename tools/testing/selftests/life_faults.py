# SPDX-License-Identifier: GPL-2.0-only
"""Whatever fails on an interface's way up is tried again until it is up."""

import os
import subprocess
import threading

from lib import (ROOT, Flood, Skip, cmd, defer, ends, ensure_module, exists, fabric,
                 ifaces, ip, ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_ne, ksft_pr,
                 ksft_true, neigh_flush, ping, read, sm, tcp_transfer, timeout,
                 unload_module, verbs_only, wait_until)
from lib import many
from lib.child import child_by_ip
from lib.connected import (both_connected, connected_ends, counters, mode,
                           set_mode, to_datagram, wait_connected)
from lib.ipoib import drop_all, iface_of
from lib.partitions import ONE
from lib.rtnl import Rtnl

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 180, "partitions": ONE}
FOREVER = 1 << 20
# No way up has more steps of a kind than these.
STEPS = 40


def state(end):
    """What the driver calls the interface's state."""
    text = read(f"/sys/kernel/debug/ipoib/{end.ifname}_state")
    return dict(line.split(": ") for line in text.splitlines())["state"]


def wait_state(end, name, limit=20):
    wait_until(lambda: state(end) == name, limit, f"{end} {name}",
               interval=0.05)


def arm(end, what, errors, skip=0):
    """Have the next verbs but @skip fail."""
    end.port.set(f"{what}_skip" if what != "attach" else "attach_error", skip)
    return end.port.fault(f"{what}_error", errors)


def disarm(end, what, fault):
    """Failures that did not happen."""
    unused = int(end.port.get(f"{what}_error"))
    fault.exec()
    if what != "attach":
        end.port.set(f"{what}_skip", 0)
    return unused


def recovers(pair, limit=30):
    """By itself: no command is given."""
    wait_state(pair.a, "up", limit)
    for end in pair:
        # Peers may remember the number of a QP that could not be reset.
        neigh_flush(end)
        end.wait_carrier(limit)
    pair.wait_ping(limit)


def each_step(pair, what, name, situation, most=STEPS):
    """
    Fail the first, the second, ... verb of a kind in a situation, until there
    are no more; it recovers each time.  How many there were.
    """
    for skip in range(most):
        fault = arm(pair.a, what, 1, skip)
        situation(pair.a)
        recovers(pair)
        if disarm(pair.a, what, fault):
            break
    pair.ready()
    ksft_pr(f"{name}: {skip} times {what}")
    return skip


# ---- situations --------------------------------------------------------


def reopen(end):
    """Closed before; the addresses come with it."""
    end.up()


def closed_first(situation):
    """What fails shall not be the way down."""
    def run(end):
        knobs = {knob: end.port.get(knob) for knob in
                 ("modify_error", "modify_skip", "create_error", "create_skip",
                  "attach_error")}
        for knob in knobs:
            end.port.set(knob, 0)
        end.set("down")
        for knob, value in knobs.items():
            end.port.set(knob, value)
        situation(end)
    return run


def restart(end):
    before = counters(end)["qp_restarts"]
    end.port.hca.set("qp_error", f"{end.qpn():#x}")
    wait_until(lambda: counters(end)["qp_restarts"] > before, 20, "a restart")


def pkey_back(end):
    """The P_Key goes and comes."""
    wanted = int(end.read("pkey"), 0) & 0x7fff
    index = next(index for index in range(32)
                 if end.port.pkey(index) & 0x7fff == wanted)
    key = end.port.pkey(index)
    back = defer(end.port.set, "set_pkey", f"{index} {key:#06x}")
    end.port.set("set_pkey", f"{index} 0")
    wait_until(lambda: state(end) != "up", 10, "not up without the P_Key")
    back.exec()


def fail_qp(end):
    """What sends and receives is made anew; an HCA's own interface for its P_Key."""
    if end.enhanced():
        pkey_back(end)
    else:
        end.port.hca.set("qp_error", f"{end.qpn():#x}")


def longer(end):
    size = 256 if "128" in end.ethtool("-g").stdout.split("Current")[1] else 128
    end.ethtool(f"-G tx {size}", fail=False)


def other_queues(end):
    end.ethtool("-L tx 1", fail=False)
    end.ethtool(f"-L tx {os.cpu_count()}", fail=False)


def other_mode(end):
    ip(["link", "set", "dev", end.ifname, "type", "ipoib", "mode",
        "datagram" if mode(end) == "connected" else "connected"], ns=end.ns,
       fail=False)


@timeout(400)
def test_open():
    """Each step of an open fails: it comes up, and the command succeeds."""
    pair = ends()
    steps = each_step(pair, "modify", "open", closed_first(reopen))
    ksft_ge(steps, 3 * pair.a.queues(), "steps of the QPs")
    ksft_ge(each_step(pair, "attach", "open", closed_first(reopen), 3), 1, "attach")
    # An HCA's own interface gets its objects when it is opened: see below.
    if not pair.a.enhanced():
        ksft_ge(each_step(pair, "create", "open", closed_first(reopen), 8), 1, "create")
    tcp_transfer(pair.a, pair.b, 1 << 19)


@timeout(200)
def test_open_refused():
    """Where there is no memory for an HCA's objects, the command says so."""
    pair = ends()
    # The other HCA has OpenSM, whose requests have objects of their own.
    end, refused = pair.b, []
    if not end.enhanced():
        raise Skip("needs HCAs' own interfaces, which get objects when they are opened")
    for skip in range(STEPS):
        end.set("down")
        fault = arm(end, "create", 1, skip)
        done = end.set("up", fail=False)
        unused = disarm(end, "create", fault)
        if done.ret:
            ksft_in("Cannot allocate memory", done.stderr)
            refused.append(skip)
        # And with it the addresses, which went when it was closed
        end.up()
        wait_state(end, "up")
        recovers(pair)
        if unused:
            break
    # CQs and a QP for each ring, all of them; what comes later is made up for.
    ksft_ge(len(refused), 2 * end.queues(), "objects")
    ksft_eq(refused, list(range(len(refused))), "one was not told")
    pair.ready()


@timeout(300)
def test_open_again_and_again():
    """It fails for a while: the delays grow, and it comes up after it."""
    pair = ends()
    pair.a.set("down")
    fault = arm(pair.a, "modify", FOREVER)
    pair.a.up()
    wait_state(pair.a, "broken")
    wait_until(lambda: FOREVER - int(pair.a.port.get("modify_error")) >= 4, 20,
               "four attempts")
    ksft_false(pair.a.carrier(), "carrier")
    ksft_false(ping(pair.a.ns, pair.b.v4, limit=0.3))
    disarm(pair.a, "modify", fault)
    recovers(pair)


@verbs_only("an HCA's own QP is its affair")
@timeout(350)
def test_restart():
    """Each step of a restart fails, under traffic."""
    pair = ends()
    with Flood(pair.b, pair.a.v4, 500, gap=0.005), \
            Flood(pair.a, pair.b.v4, 500, gap=0.005):
        steps = each_step(pair, "modify", "restart", restart)
    ksft_ge(steps, 4 * pair.a.queues())
    tcp_transfer(pair.a, pair.b, 1 << 19)


@timeout(350)
def test_restart_connected():
    """So it does with connections, which are made again."""
    pair = connected_ends()
    with Flood(pair.b, pair.a.v4, 8000, gap=0.01), \
            Flood(pair.a, pair.b.v4, 8000, gap=0.01):
        each_step(pair, "modify", "restart in connected mode", restart,
                  5 * pair.a.queues() + 2)
    wait_connected(pair.a, pair.b)
    tcp_transfer(pair.a, pair.b, 1 << 19)


@timeout(300)
def test_pkey():
    """Each step fails when the P_Key comes back."""
    pair = ends()
    defer(pair.a.port.set, "set_pkey", f"0 {pair.a.port.pkey(0):#06x}")
    with Flood(pair.b, pair.a.v4, 500, gap=0.005):
        steps = each_step(pair, "modify", "P_Key", pkey_back)
    ksft_ge(steps, 3 * pair.a.queues())


@timeout(300)
def test_ring():
    """Each step fails while the queues are replaced by others."""
    pair = ends()
    defer(pair.a.ethtool, "-G tx 128", False)
    with Flood(pair.b, pair.a.v4, 500, gap=0.005), \
            Flood(pair.a, pair.b.v4, 500, gap=0.005):
        steps = each_step(pair, "modify", "-G", longer)
    ksft_ge(steps, 3 * pair.a.queues())


@timeout(200)
def test_queues_and_mode():
    """Queues come and go, and the mode changes, while verbs fail."""
    pair = ends()
    defer(pair.a.ethtool, f"-L tx {os.cpu_count()}", False)
    defer(to_datagram, pair.a)
    with Flood(pair.a, pair.b.v4, 500, gap=0.005):
        each_step(pair, "modify", "-L", other_queues, 8)
        for what in ("modify", "create"):
            each_step(pair, what, "mode", other_mode, 4)


# ---- every command in the state between --------------------------------


def broken(pair):
    """
    The interface is open, and no QP can be moved, so that it stays as it is;
    what ends that.
    """
    fault = arm(pair.a, "modify", FOREVER)
    fail_qp(pair.a)
    wait_state(pair.a, "broken")
    return fault


COMMANDS = {
    "datagram": lambda end: set_mode(end, "datagram"),
    "connected": lambda end: set_mode(end, "connected"),
    "other mode twice": lambda end: (other_mode(end), other_mode(end)),
    "-G": longer,
    "-L": other_queues,
    "MTU": lambda end: (end.set_mtu(1500), end.set_mtu(end.default_mtu)),
    "down": lambda end: end.set("down"),
    "down and up": lambda end: (end.set("down"), end.up()),
    "client_reregister": lambda end: end.port.event("client_reregister"),
    "lid_change": lambda end: end.port.event("lid_change"),
    "pkey_change": lambda end: end.port.event("pkey_change"),
    "gid_change": lambda end: end.port.event("gid_change"),
    "port_err": lambda end: end.port.event("port_err"),
}


# They are refused on an HCA's own interface.
TO_CONNECTED = ("connected", "other mode twice")


def commands_between(pair, kind):
    for name, command in COMMANDS.items():
        if pair.a.enhanced() and name in TO_CONNECTED:
            continue
        if mode(pair.a) != kind:
            set_mode(pair.a, kind)
            recovers(pair)
        if kind == "connected":
            wait_connected(pair.a, pair.b)
            wait_connected(pair.b, pair.a)
        fault = broken(pair)
        command(pair.a)
        ksft_ne(state(pair.a), "up", name)
        disarm(pair.a, "modify", fault)
        if state(pair.a) == "closed":
            pair.a.up()
        recovers(pair)
        ksft_pr(f"{kind}: {name}")
    tcp_transfer(pair.a, pair.b, 1 << 19)


@timeout(350)
def test_commands_datagram():
    """Each command works on an interface that can't be brought up."""
    pair = ends()
    defer(to_datagram, pair.a)
    defer(pair.a.ethtool, "-G tx 128", False)
    with Flood(pair.b, pair.a.v4, 500, gap=0.01), \
            Flood(pair.a, pair.b.v4, 500, gap=0.01):
        commands_between(pair, "datagram")


@timeout(350)
def test_commands_connected():
    """And on one that had connections, from which peers go on to send."""
    pair = both_connected(ends())
    defer(pair.a.ethtool, "-G tx 128", False)
    with Flood(pair.b, pair.a.v4, 8000, gap=0.01), \
            Flood(pair.a, pair.b.v4, 8000, gap=0.01):
        commands_between(pair, "connected")


@timeout(200)
def test_child():
    """A child that can't be brought up is deleted, another one recovers."""
    pair = ends()
    gone, stays = (child_by_ip(pair.a, 0x8001, net=20 + n, ifname=f"c.{n}")
                   for n in range(2))
    for child in (gone, stays):
        child.up()
        child.wait_carrier()
    fault = arm(pair.a, "modify", FOREVER)
    for child in (gone, stays):
        fail_qp(child)
    for child in (gone, stays):
        wait_state(child, "broken")
    gone.delete(fail=True)
    disarm(pair.a, "modify", fault)
    wait_state(stays, "up")
    stays.wait_carrier()
    pair.ready()


@timeout(200)
def test_unplug():
    """An HCA whose interface can't be brought up is pulled."""
    ends()
    new = fabric.add_hca(5)
    where = new.port()
    name = wait_until(lambda: [n for _, n, addr in ifaces([ROOT])
                               if int.from_bytes(addr[12:], "big") ==
                               where.guid()], 10, "an interface")[0]
    where.fault("modify_error", FOREVER)
    ip(["link", "set", name, "up"])
    path = f"/sys/kernel/debug/ipoib/{name}_state"
    wait_until(lambda: "broken" in read(path), 20, "broken")
    new.unplug()
    wait_until(lambda: not exists(f"/sys/class/net/{name}"), 20, "gone")


# ---- before there is an interface --------------------------------------


def waits(pid):
    """Is a process about to register the interface of a port?"""
    try:
        stack = read(f"/proc/{pid}/stack")
    except OSError:
        return False
    return "[ib_ipoib]" in stack and "register_netdev+" in stack


def change_while_loading(where, key, talk):
    """
    Load the module while somebody else takes rtnl again and again, and change
    the P_Key when the interface waits for that.  Was the moment met?
    """
    done = threading.Event()

    def hold():
        while not done.is_set():
            many.make(talk, 100)
            many.delete(talk)

    holding = threading.Thread(target=hold)
    holding.start()
    met = False
    with subprocess.Popen(["insmod", os.environ["IPOIB_MODULE"]]) as loading:
        while loading.poll() is None and not met:
            met = waits(loading.pid)
        if met:
            where.set("set_pkey", f"0 {key:#x}")
    done.set()
    holding.join()
    return met


@timeout(300)
def test_pkey_before_registered():
    """The P_Key changes between being read and the interface being there."""
    where = ends().a.port
    sm.stopped()        # it would set the table again
    cmd("modprobe dummy numdummies=0")
    drop_all()
    unload_module()
    defer(ensure_module)
    talk = Rtnl(ROOT)
    defer(talk.close)
    old = where.pkey(0)
    defer(where.set, "set_pkey", f"0 {old:#x}")
    for _ in range(6):
        met = change_while_loading(where, 0x8001, talk)
        name = iface_of(where)[1]
        if met:
            wait_until(lambda n=name: read(f"/sys/class/net/{n}/pkey") ==
                       "0x8001", 5, "the new P_Key")
            break
        unload_module()
    ksft_true(met, "the moment was met")
