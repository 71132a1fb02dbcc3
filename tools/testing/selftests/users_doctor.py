# SPDX-License-Identifier: GPL-2.0-only
"""ipoibctl: what it shows, and each cause that its doctor has to find."""

import json
import os

from lib import (cmd, defer, ends, ends_with, fabric, hca, ip, ksft_eq, ksft_false,
                 ksft_in, ksft_not_in, ksft_true, ping, read, slow, sm,
                 timeout, unload_module, wait_until, write)
from common import ROOT
from lib.child import child_by_ip
from lib.connected import set_mode
from lib.ethernet import Ethernet, reach
from lib.ipoib import bond_of, iface_of

BOOT = {"hcas": 2, "needs": "ethernet", "seconds": 140}
GROUPS = ("users",)

CTL = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl")


def ctl(*words, ns=None, status=0):
    """What ipoibctl prints as JSON; how it has to end."""
    done = cmd([CTL, "-j", *words], ns=ns, fail=False, timeout=slow(40))
    ksft_eq(done.ret, status, done.stderr + done.stdout)
    return json.loads(done.stdout)


def found(report, state=None):
    """{(interface, check): text} of what was found, or of that state."""
    return {(name, each["check"]): each["text"]
            for name, all_of in report.items() for each in all_of
            if state in (None, each["state"])}


def finds(end, check, text, *words, state="fail", status=1):
    """The doctor finds that, and says what to do."""
    report = ctl("doctor", *words, ns=end.ns if end else None, status=status)
    wanted = {check: each for (_, check), each in found(report, state).items()}
    ksft_in(check, wanted, json.dumps(report))
    ksft_in(text, wanted[check])
    for each in sum(report.values(), []):
        ksft_eq(bool(each["advice"]), each["state"] in ("fail", "warn"), each)
    return wanted


def healthy(end, *words):
    """All is well, and nothing was left unasked."""
    report = ctl("doctor", *words, ns=end.ns)
    ksft_eq({each["state"] for each in sum(report.values(), [])}, {"ok"},
            json.dumps(report))
    return report


def test_show():
    """Interfaces as they are, children too."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8001, 1)
    child.up()
    child.wait_carrier()
    shown = {each["name"]: each for each in ctl("show", ns=pair.a.ns)}
    ksft_eq(set(shown), {pair.a.ifname, child.ifname})
    mine = shown[pair.a.ifname]
    ksft_eq((mine["pkey"], mine["mode"], mine["mtu"], mine["carrier"]),
            ("0xffff", "datagram", pair.a.mtu(), True))
    ksft_eq(mine["port"]["lid"], pair.a.port.lid())
    ksft_eq(mine["port"]["state"], "ACTIVE")
    ksft_eq((shown[child.ifname]["parent"], shown[child.ifname]["pkey"]),
            (pair.a.ifname, "0x8001"))
    text = cmd([CTL, "show", pair.a.ifname], ns=pair.a.ns).stdout
    ksft_in(f"{pair.a.ifname}: up, carrier, datagram", text)
    ksft_not_in(child.ifname, text)
    done = cmd([CTL, "show", "-j", pair.a.ifname], ns=pair.a.ns)
    ksft_eq([each["name"] for each in json.loads(done.stdout)], [pair.a.ifname])


def test_mistakes():
    """A name that is none of ours; a command that there is not."""
    pair = ends()
    for words in (["show", "lo"], ["show", "nosuch"], ["doctor", "nosuch"],
                  ["cure"], []):
        done = cmd([CTL, *words], ns=pair.a.ns, fail=False)
        ksft_eq(done.ret, 2, words)
        ksft_true(done.stderr, words)


def test_healthy():
    """Nothing is found where nothing is wrong, in both modes."""
    pair = ends()
    healthy(pair.a, "--peer", pair.b.v4, "--peer", pair.b.v6)
    for mode in ("connected", "datagram"):
        for end in pair:
            set_mode(end, mode)
        pair.wait_ping()
        report = healthy(pair.a, pair.a.ifname, "--peer", pair.b.v4)
        ksft_in(mode, found(report)[pair.a.ifname, "interface"])


def test_unprivileged():
    """An ordinary user is told what could not be asked, and why; no "ok" for it."""
    pair = ends()
    done = cmd(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                CTL, "-j", "doctor"], ns=pair.a.ns, fail=False)
    ksft_eq(done.ret, 0, done.stderr)
    unasked = found(json.loads(done.stdout), "unknown")
    for check in ("SA", "group", "address"):
        ksft_in((pair.a.ifname, check), unasked)


@timeout(120)
def test_port():
    """The cable is out; then no SM configures the port."""
    pair = ends()
    pair.a.port.link(False)
    again = defer(pair.a.port.link, True)
    finds(pair.a, "port", "the link is down (Polling)")
    sm.stop()
    started = defer(sm.start)
    again.exec()
    wait_until(lambda: "INIT" in read(f"{pair.a.port.sysfs}/state"), 5, "Init")
    finds(pair.a, "port", "no subnet manager has configured the port")
    started.exec()
    pair.a.wait_carrier()
    healthy(pair.a)


@timeout(120)
def test_sa_silent():
    """The SM has died, and the port does not know; then the SA does not answer."""
    pair = ends()
    sm.stop()
    started = defer(sm.start)
    finds(pair.a, "SA", "does not answer")
    started.exec()
    pair.wait_ping()
    fault = pair.a.port.fault("sa_drop", 1)
    finds(pair.a, "SA", "does not answer")
    fault.exec()
    healthy(pair.a)


@timeout(120)
def test_pkey():
    """A child whose P_Key the port has not, and one with a limited one."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8055, 1)
    child.up()
    wanted = finds(child, "P_Key", "0x8055 is not in the port's table",
                   child.ifname)
    ksft_in("interface", wanted)
    guids = [f"{end.port.guid():#x}={kind}" for end, kind in
             zip(pair, ("limited", "full"))]
    sm.more_partitions(f"half=0x0055, ipoib: {', '.join(guids)};")
    child.wait_carrier()
    finds(child, "P_Key", "a limited member", child.ifname, state="warn",
          status=0)


@timeout(120)
def test_group():
    """Partitions whose rate or MTU is more than that of a port."""
    pair = ends()
    new = fabric.add_hca(7, mtu=1024).port()
    name = wait_until(lambda: iface_of(new), 5, "an interface")[1]
    ip(f"link set {name} up")
    sm.more_partitions("large=0x0055, ipoib, mtu=4: ALL=full;\n"
                       "fast=0x0056, ipoib, rate=18: ALL=full;")
    wait_until(lambda: {0x8055, 0x8056} <= set(new.pkeys()), 10, "the P_Keys")
    for child, pkey in (("large", 0x8055), ("fast", 0x8056)):
        ip(f"link add {child} link {name} type ipoib pkey {pkey}")
        defer(ip, f"link del {child}", fail=False)
        ip(f"link set {child} up")
    ksft_false("LOWER_UP" in ip("link show large").stdout)
    finds(None, "group", "MTU is 2048, that of the port 1024", "large")
    finds(None, "group", "rate is 300 Gb/s, that of the port 100 Gb/s", "fast")
    ksft_true(pair.a.carrier(), "others are as they were")


@timeout(120)
def test_address():
    """An address that the peer has, too; and none."""
    pair = ends()
    for end in (pair.b, pair.a):
        ip(f"addr add 10.77.0.1/24 dev {end.ifname}", ns=end.ns)
        defer(ip, f"addr del 10.77.0.1/24 dev {end.ifname}", ns=end.ns)
    finds(pair.a, "address", "10.77.0.1 is somebody else's, too: " +
          pair.b.address().hex(":"))
    child = child_by_ip(pair.a, 0x8001, 1)
    child.up()
    child.wait_carrier()
    ip(f"addr flush dev {child.ifname} scope global", ns=child.ns)
    finds(child, "address", "it has none", child.ifname)


@timeout(120)
def test_address_v6():
    """The kernel has found that somebody else has an IPv6 address."""
    pair = ends()
    conf = f"net.ipv6.conf.{pair.a.ifname}.accept_dad"
    pair.a.ns.sysctl(conf, 1)
    defer(pair.a.ns.sysctl, conf, 0)
    ip(f"addr add {pair.b.v6}/64 dev {pair.a.ifname}", ns=pair.a.ns)
    defer(ip, f"addr del {pair.b.v6}/64 dev {pair.a.ifname}", ns=pair.a.ns)
    wait_until(lambda: "dadfailed" in ip(
        f"addr show dev {pair.a.ifname}", ns=pair.a.ns).stdout, 10, "DAD")
    finds(pair.a, "address", f"{pair.b.v6} is somebody else's, too")


@timeout(120)
def test_peers():
    """A peer that is not there, and one without connected mode."""
    pair = ends()
    finds(pair.a, "peer", "10.0.0.99 does not answer", "--peer", "10.0.0.99")
    set_mode(pair.a, "connected")
    defer(set_mode, pair.a, "datagram")
    pair.wait_ping()
    finds(pair.a, "peer", f"without connected mode: {pair.b.v4}", state="warn",
          status=0)


@timeout(120)
def test_bond():
    """A bond that is well, and one whose slaves differ."""
    pair = ends_with()
    end, space = pair.a, pair.a.ns
    child = child_by_ip(end, 0x8001, 1)
    ip(f"addr flush dev {child.ifname}", ns=space)
    bond_of(end)
    ip("link set bond9 up", ns=space)
    end.wait_carrier()
    finds(end, "address", "bond9 above it has none", end.ifname)
    ip(f"addr add {end.v4}/24 dev bond9", ns=space)
    finds(end, "address", f"{end.v4} on bond9", end.ifname, state="ok", status=0)
    ksft_in("bond", finds(end, "bond", "bond9, active-backup", end.ifname,
                          state="ok", status=0))
    ksft_eq({each["name"]: each["master"] for each in ctl("show", ns=space)},
            {end.ifname: "bond9", child.ifname: None}, "no bond among them")
    # A parent that comes up takes its children with it.
    child.set("down")
    child.set("master bond9")
    finds(end, "bond", "slaves of bond9 differ in P_Key: 0x8001, 0xffff",
          end.ifname)


@timeout(150)
def test_ethernet():
    """Ethernet on top: nobody has an address, a guest, the bridge; then it is down."""
    pair = ends_with()
    end = pair.a
    ip(f"addr flush dev {end.ifname} scope global", ns=end.ns)
    host = Ethernet(end)
    wait_until(host.carrier, 10, "a carrier of Ethernet")
    finds(end, "address", f"neither the host nor a guest of {host.ifname}", end.ifname,
          state="warn", status=0)
    guest = host.guest(11)
    reach(guest, pair.b)
    wanted = finds(end, "address", f"guests of {host.ifname} have", end.ifname,
                   state="ok", status=0)
    ksft_in(guest.v4, wanted["address"])
    ksft_in(f"{host.ifname} is up, a port of {host.bridge}", wanted["Ethernet"])
    ip(f"addr add {end.v4}/24 dev {host.bridge}", ns=end.ns)
    wait_until(lambda: ping(end.ns, pair.b.v4, limit=1), 15, "an answer to the bridge")
    report = healthy(end, end.ifname, "--peer", pair.b.v4)
    ksft_eq(found(report)[end.ifname, "address"], f"{end.v4} on {host.bridge}")
    ip(f"addr add {end.v4}/24 dev {guest.ifname}", ns=guest.ns)
    finds(end, "address", f"{end.v4} on {host.bridge} is somebody else's, too",
          end.ifname)
    ip(f"addr del {end.v4}/24 dev {guest.ifname}", ns=guest.ns)
    for name, text in ((host.bridge, f"a port of {host.bridge}, which is down"),
                       (host.ifname, f"{host.ifname} is down")):
        ip(f"link set {name} down", ns=end.ns)
        finds(end, "Ethernet", text, end.ifname)


@timeout(120)
def test_neighbours():
    """A neighbour table that was too small."""
    pair = ends()
    healthy(pair.a)
    paths = [f"/proc/sys/net/ipv4/neigh/default/gc_thresh{n}" for n in (1, 2, 3)]
    for path in paths:
        defer(write, path, read(path))
    for path in paths:
        write(path, "4")
    cmd("for i in $(seq 100 140); do ping -c1 -W0.01 10.0.0.$i & done; wait",
        ns=pair.a.ns, fail=False)
    finds(pair.a, "neighbours", "the table of ipv4 was full", state="warn",
          status=0)


def test_nothing_here():
    """A namespace without an interface; a machine without the module or HCA."""
    ends()
    ip("netns add empty")
    defer(ip, "netns del empty")
    done = cmd(["ip", "netns", "exec", "empty", CTL, "doctor"], fail=False)
    ksft_eq(done.ret, 1)
    ksft_in("there is no IPoIB interface in this network namespace",
            done.stdout)
    unload_module()
    finds(None, "module", "ib_ipoib is not loaded")
    for number in (0, 1):
        again = hca(number)
        again.unplug()
        defer(again.plug)
    finds(None, "HCA", "there is no InfiniBand HCA")
