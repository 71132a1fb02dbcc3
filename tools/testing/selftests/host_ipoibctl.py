# SPDX-License-Identifier: GPL-2.0-only
"""
ipoibctl on a host without InfiniBand: its command line; without privileges; names of
interfaces that are no text; its doctor, which is told what ip(8) would say.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest.mock

from lib import cmd, defer, ksft_eq, ksft_in, ksft_true, timeout
from common import ROOT

BOOT = "host"
SECONDS = 10

TOOLS = os.path.join(ROOT, "tools", "ipoibctl")


def loaded():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader(
        "ipoibctl", os.path.join(TOOLS, "ipoibctl"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("ipoibctl", loader))
    loader.exec_module(module)
    return module


CTL = loaded()


def parsed(line):
    """A command line, or the words with which it is refused."""
    said = io.StringIO()
    with unittest.mock.patch.object(sys, "argv", ["ipoibctl", *line.split()]), \
            contextlib.redirect_stderr(said):
        try:
            return CTL.parse_args()
        except SystemExit as end:
            ksft_eq(end.code, 2, line)
            return said.getvalue()


COMMANDS = ("show", "neighbours", "groups", "connections", "guests", "peers",
            "monitor", "doctor")


@timeout(60)
def test_json():
    """-j stands before any command or behind it, and -j alone sets it."""
    for command in COMMANDS:
        for line, json, dev in (("{}", False, []), ("{} ib0", False, ["ib0"]),
                                ("-j {}", True, []), ("{} -j", True, []),
                                ("{} --json ib0", True, ["ib0"]),
                                ("{} ib0 ib1 -j", True, ["ib0", "ib1"]),
                                ("-j {} -j ib0", True, ["ib0"])):
            args = parsed(line.format(command))
            ksft_eq((args.command, args.json, args.dev), (command, json, dev), line)
    args = parsed("doctor -j ib0 --peer 10.0.0.2 --peer fd00::2")
    ksft_eq((args.json, args.peer), (True, ["10.0.0.2", "fd00::2"]))
    for line in ("guest add eib0 10.0.0.7 02:00:00:00:00:07 -j",
                 "-j guest add eib0 10.0.0.7 02:00:00:00:00:07",
                 "guest -j add eib0 10.0.0.7 02:00:00:00:00:07"):
        args = parsed(line)
        ksft_eq((args.json, args.change, args.dev, args.address, args.mac),
                (True, "add", "eib0", "10.0.0.7", "02:00:00:00:00:07"), line)
    ksft_eq(parsed("swap -j -n").json, True)


@timeout(60)
def test_mistakes():
    """What there is not."""
    for line, text in (("", "required: command"), ("cure", "invalid choice"),
                       ("guest", "required: change"),
                       ("show --peer 10.0.0.2", "unrecognized"),
                       ("guest add eib0 10.0.0.7", "required: mac")):
        ksft_in(text, parsed(line), line)


def as_user(*words):
    """A program as an ordinary user, beside a copy of ipoibctl's files."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    os.chmod(place.name, 0o755)
    for name in os.listdir(TOOLS):
        if os.path.isfile(os.path.join(TOOLS, name)):
            shutil.copy(os.path.join(TOOLS, name), place.name)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] \
        if not os.geteuid() else []
    # Users have no directories of an administrator in their PATH.
    return cmd([*drop, "env", "-C", place.name, "PATH=/usr/bin:/bin", *words],
               fail=False)


@timeout(60)
def test_dry_run():
    """swap -n needs no root, an exchange does; -n exchanges and restores nothing."""
    loaded_here = os.path.isdir("/sys/module/ib_ipoib")
    for words, text in ((["-n", "kernel"], "" if loaded_here else "is not loaded"),
                        ([], "only root can do that"),
                        (["--confirm"], "only root can do that"),
                        (["-n", "--restore"], "for an exchange only"),
                        (["-n", "--confirm"], "for an exchange only")):
        done = as_user("./ipoibctl", "swap", *words)
        ksft_in(text, done.stderr, words)
        if text:
            ksft_eq(done.ret, 2, words)


READS = """
import os, ipoib_swap as swap
assert os.geteuid()
here = [link["ifname"] for link in swap.links(next(iter(swap.spaces().values())))]
state = swap.save()
print(here == [name for _, name in sorted(__import__("socket").if_nameindex())],
      sorted(state))
"""


@timeout(60)
def test_reads():
    """What is saved of this network namespace can be read by everybody."""
    done = as_user("python3", "-B", "-c", READS)
    ksft_eq((done.ret, done.stdout, done.stderr),
            (0, "True ['bonds', 'interfaces', 'module', 'objects']\n", ""))


# No kernel forbids such a name, nor such an alias; ip(8) prints the bytes as they are.
ODD = "ib\x01\udcff'é"
IP = r'''#!/bin/sh
case "$*" in
"-j -d link show")
	printf '[{"ifindex":9,"ifname":"ib\001\377\047\303\251","ifalias":"a\002\376",'
	printf '"flags":["UP"],"mtu":2044,"link_type":"infiniband","linkinfo":'
	printf '{"info_kind":"ipoib","info_data":{"key":"0xffff","mode":"datagram"}}}]' ;;
"-j addr show dev $(printf 'ib\001\377\047\303\251')")
	printf '[{"addr_info":[]}]' ;;
*)
	echo "no such thing" >&2
	exit 1 ;;
esac
'''


def path_of_ip():
    """A PATH on which ip(8) knows one interface, of an odd name."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    path = os.path.join(place.name, "ip")
    with open(path, "w", encoding="ascii") as file:
        file.write(IP)
    os.chmod(path, 0o755)
    return f"{place.name}:{os.environ['PATH']}"


@timeout(60)
def test_names():
    """Any bytes in names and aliases: found, asked for again, and printed."""
    path = path_of_ip()
    for words, encoding in ((["show"], "C.UTF-8"), (["show", ODD], "C.UTF-8"),
                            (["show"], "POSIX"), (["show", "-j"], "C.UTF-8")):
        done = cmd(["env", f"PATH={path}", f"LC_ALL={encoding}",
                    os.path.join(TOOLS, "ipoibctl"), *words])
        ksft_eq(done.stderr, "")
        if words[-1] == "-j":
            ksft_eq([each["name"] for each in CTL.json.loads(done.stdout)], [ODD])
        else:
            ksft_in("up, no carrier, datagram", done.stdout)
    swap = CTL.ipoib_swap
    with unittest.mock.patch.dict(os.environ, PATH=path):
        ksft_eq([each["ifname"] for each in swap.links(contextlib.nullcontext())], [ODD])
        ksft_eq(CTL.ip_json("addr", "show", "dev", ODD), [{"addr_info": []}])
    ksft_eq(swap.ask_interface(contextlib.nullcontext(), ODD, swap.SIOCGIFINDEX), None)
    ksft_eq(CTL.ipoib_netlink.text(os.fsencode(ODD) + b"\0"), ODD)


LLADDR = "80:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:0{}"
DATAGRAM = "00" + LLADDR[2:]


def link(name, kind, up=True, carrier=True, **more):
    """An interface, as "ip -j -d link" has it; @data is of its kind."""
    data = more.pop("data", {})
    return {"ifname": name, "ifindex": sum(name.encode()), "mtu": 2044,
            "flags": ["UP"] * up + ["LOWER_UP"] * carrier,
            "link_type": "infiniband" if kind == "ipoib" else "ether",
            "linkinfo": {"info_kind": kind, "info_data": data}, **more}


def port(name="ib0", mode="datagram", **more):
    """An IPoIB interface."""
    return link(name, "ipoib", data={"key": "0xffff", "mode": mode},
                address=LLADDR.format(1), broadcast=LLADDR.format(2), **more)


class Families:
    """Stands for the family of eth_ipoib."""

    interrupted = False

    def __init__(self, guests):
        self.guests = guests

    def get(self, command, index):
        """Those of an interface."""
        ksft_eq(command, "guest-get")
        return self.guests.get(index, ())


class World:
    """What programs say to the doctor: interfaces, addresses, neighbours, guests."""

    def __init__(self, *links, addresses=(), neighbours=(), guests=None, root=True):
        self.links = {each["ifname"]: each for each in links}
        self.entries, self.known = dict(addresses), dict(neighbours)
        self.guests, self.root = guests, root
        # What arping(8) and ping(8) end with, and what was run
        self.conflict, self.silent, self.ran = (), (), []
        self.vlans = {}

    def ip_json(self, *words):
        """ip(8)"""
        what, _, *rest = words
        name = rest[-1]
        if what == "neigh":
            return self.known.get(name, [])
        ksft_eq(what, "addr")
        return [{"addr_info": [
            {"local": each, "family": "inet6" if ":" in each else "inet",
             "scope": "link" if each.startswith("fe80") else "global"}
            for each in self.entries.get(name, ())]}]

    def run(self, *argv, **_):
        """arping(8), ping(8) and bridge(8)"""
        self.ran.append(argv)
        done = unittest.mock.Mock(returncode=0, stdout="", stderr="")
        if argv[0] == "bridge":
            vlan = self.vlans.get(argv[-1])
            done.stdout = CTL.json.dumps([{"ifname": argv[-1], "vlans": [
                {"vlan": 99}, {"vlan": vlan, "flags": ["PVID"]}]}])
        elif argv[-1] in (self.conflict if argv[0] == "arping" else self.silent):
            done.returncode = 1
        return done

    def family(self):
        """That of eth_ipoib, if there is one."""
        if self.guests is None:
            raise CTL.Failure("no family")
        return Families({self.links[name]["ifindex"]: entries
                         for name, entries in self.guests.items()})

    def findings(self, name="ib0", peers=()):
        """{(check, state): [text]} of what is on top of an interface."""
        CTL.asked_who.cache_clear()
        with contextlib.ExitStack() as stack:
            for what, value in (("ip_json", self.ip_json), ("run", self.run),
                                ("ethernet_family", self.family)):
                stack.enter_context(unittest.mock.patch.object(CTL, what, value))
            stack.enter_context(unittest.mock.patch.object(
                os, "geteuid", lambda: 0 if self.root else 1000))
            iface = CTL.Iface(self.links[name])
            tower = CTL.Tower(iface, self.links)
            listed = [*CTL.check_ethernet(tower), *CTL.check_addresses(tower),
                      *CTL.check_bond(iface, self.links),
                      *CTL.check_peers(iface, tower, peers)]
        found = {}
        for each in listed:
            ksft_eq(bool(each.advice), each.state in (CTL.BAD, CTL.ODD), each)
            found.setdefault((each.check, each.state), []).append(each.text)
        return found


def recipe(**how):
    """A bridge of the guide's recipes: ib0, eib0 in br0 with the host's addresses."""
    how = {"addresses": {"br0": ("10.0.0.1", "fd00::1", "fe80::1"),
                         "ib0": ("fe80::2",)}, **how}
    return World(port(), link("eib0", "eipoib", link="ib0", master="br0"),
                 link("br0", "bridge"), link("vnet0", "tun", master="br0"), **how)


@timeout(60)
def test_alone():
    """An interface with nothing on top: with addresses, without, and as a user."""
    one = World(port(), addresses={"ib0": ("10.0.0.1", "fd00::1")})
    ksft_eq(one.findings(), {("address", "ok"): ["10.0.0.1", "fd00::1"]})
    one.conflict = ("10.0.0.1",)
    ksft_eq(one.findings()["address", "fail"],
            ["10.0.0.1 is somebody else's, too: somebody answers"])
    one.root = False
    ksft_eq(one.findings()["address", "unknown"],
            ["10.0.0.1: only root can ask who has it"])
    ksft_eq(World(port(), addresses={"ib0": ("fe80::1",)}).findings(),
            {("address", "fail"): ["it has none"]})
    # A child is none on top, nor is what is on top of another one.
    others = World(port(), port("ib0.8001", link="ib0"), port("ib1"),
                   link("eib1", "eipoib", link="ib1"),
                   addresses={"ib0.8001": ("10.1.7.1",), "eib1": ("10.0.5.1",)})
    ksft_eq(others.findings(), {("address", "fail"): ["it has none"]})


@timeout(60)
def test_tools():
    """Programs that are not installed say nothing of addresses and peers."""
    host = World(port(), addresses={"ib0": ("10.0.0.1",)})
    with unittest.mock.patch.object(CTL.shutil, "which", lambda _: None):
        ksft_eq(host.findings(peers=["10.0.0.9"])["peer", "unknown"],
                ["10.0.0.9: ping(8) of iputils is not installed"])
    host.silent = ("10.0.0.9",)
    with unittest.mock.patch.object(CTL.shutil, "which", lambda name: name):
        ksft_eq(host.findings(peers=["10.0.0.9"])["peer", "fail"],
                ["10.0.0.9 does not answer"])


@timeout(60)
def test_host():
    """An interface called "host" does not hide what there is to say of the host."""
    iface = unittest.mock.Mock()
    iface.name = "host"
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        for what, value in (("check_host", lambda: [CTL.fine("HCA", "one")]),
                            ("check_neighbours", lambda: [CTL.odd("neighbours", "x", "y")]),
                            ("ip_json", lambda *_: []), ("ifaces", lambda _: [iface]),
                            ("diagnose", lambda *_: [CTL.bad("port", "x", "y")])):
            stack.enter_context(unittest.mock.patch.object(CTL, what, value))
        stack.enter_context(contextlib.redirect_stdout(said))
        ksft_eq(CTL.doctor(parsed("doctor -j")), 1)
    ksft_eq({name: [each["check"] for each in found] for name, found in
             CTL.json.loads(said.getvalue()).items()},
            {"host": ["HCA", "neighbours", "port"]})


@timeout(60)
def test_bridge():
    """The address is on the bridge: all is well, and it is asked for there."""
    host = recipe()
    ksft_eq(host.findings(peers=["10.0.0.9"]),
            {("Ethernet", "ok"): ["eib0 is up, a port of br0"],
             ("address", "ok"): ["10.0.0.1 on br0", "fd00::1 on br0"],
             ("peer", "ok"): ["10.0.0.9 answers"]})
    ksft_eq([(argv[0], argv[argv.index("-I") + 1], argv[-1]) for argv in host.ran],
            [("arping", "br0", "10.0.0.1"), ("ping", "br0", "10.0.0.9")])
    host.conflict = ("10.0.0.1",)
    ksft_eq(host.findings()["address", "fail"],
            ["10.0.0.1 on br0 is somebody else's, too: somebody answers"])
    # On a port of the bridge it is of no use, on Ethernet without a bridge it is.
    port_only = recipe(addresses={"eib0": ("10.0.0.1",)}, guests={})
    ksft_true(("address", "warn") in port_only.findings())
    direct = World(port(), link("eib0", "eipoib", link="ib0"),
                   addresses={"eib0": ("10.0.0.1",)})
    ksft_eq(direct.findings(), {("Ethernet", "ok"): ["eib0 is up"],
                                ("address", "ok"): ["10.0.0.1 on eib0"]})
    # The other way round: the host's address stays below.
    below = recipe(addresses={"ib0": ("10.0.0.1",)})
    ksft_eq(below.findings()["address", "ok"], ["10.0.0.1"])


@timeout(60)
def test_bridge_broken():
    """Ethernet that is down, or has no carrier; the bridge is down."""
    for name, how, text in (("eib0", {"up": False}, "eib0 is down"),
                            ("eib0", {"carrier": False}, "eib0 has no carrier"),
                            ("br0", {"up": False},
                             "eib0 is a port of br0, which is down")):
        host = recipe()
        was = host.links[name]
        host.links[name] = {**was, "flags": link(name, "", **how)["flags"]}
        ksft_eq(host.findings()["Ethernet", "fail"], [text])


@timeout(60)
def test_guests():
    """The host has no address: guests have, nobody has, or it can't be asked."""
    def entry(address, status="held", **more):
        return {"address": address, "status": status, **more}

    def of(*entries):
        return recipe(addresses={}, guests={"eib0": entries}).findings()
    ksft_eq(of(entry("10.0.0.12"), entry("fd00::12", "asked"), entry("fe80::12"),
               entry("10.0.0.13", "refused"),
               entry("10.77.0.0", "fixed", **{"prefix-len": 24}))["address", "ok"],
            ["the host has none, guests of eib0 have 10.0.0.12, fd00::12"])
    for nobody in ((), (entry("fe80::12"), entry("10.0.0.13", "refused"))):
        ksft_eq(of(*nobody)["address", "warn"],
                ["neither the host nor a guest of eib0 has one"])
    ksft_eq(recipe(addresses={}).findings()["address", "unknown"],
            ["the host has none; guests of eib0: no family"])


@timeout(60)
def test_macvtap():
    """Its addresses are the guest's: the host is told to use Ethernet."""
    host = World(port(), link("eib0", "eipoib", link="ib0"),
                 link("macvtap0", "macvtap", link="eib0"), guests={})
    ksft_eq(CTL.Tower(CTL.Iface(host.links["ib0"]), host.links).hosts, ["ib0", "eib0"])
    ksft_eq(host.findings()["address", "warn"],
            ["neither the host nor a guest of eib0 has one"])


@timeout(60)
def test_vlans():
    """Each partition is a VLAN of one bridge, with the host's address in it."""
    host = World(port(), port("ib0.8001", link="ib0"), port("ib0.8002", link="ib0"),
                 link("eib11", "eipoib", link="ib0.8001", master="br0"),
                 link("eib12", "eipoib", link="ib0.8002", master="br0"),
                 link("br0", "bridge", data={"vlan_filtering": 1}),
                 link("br0.11", "vlan", link="br0", data={"id": 11}),
                 link("br0.12", "vlan", link="br0", data={"id": 12}),
                 addresses={"br0.11": ("10.1.7.1",), "br0.12": ("10.1.8.1",)})
    host.vlans = {"eib11": 11, "eib12": 12}
    for child, wanted in (("ib0.8001", "10.1.7.1 on br0.11"),
                          ("ib0.8002", "10.1.8.1 on br0.12")):
        ksft_eq(host.findings(child)["address", "ok"], [wanted])


@timeout(60)
def test_switch():
    """Open vSwitch: its datapath is down, the address is on a port of its own."""
    host = World(port(), link("eib0", "eipoib", link="ib0", master="ovs-system"),
                 link("ovs-system", "openvswitch", up=False, carrier=False),
                 link("br0", "openvswitch"), addresses={"br0": ("10.0.0.1",)})
    ksft_eq(host.findings(), {
        ("Ethernet", "ok"): ["eib0 is up, a port of ovs-system"],
        ("address", "ok"): ["10.0.0.1 on br0"]})


def bond(*more, **how):
    """Two ports of a bond, and what is on top."""
    data = {"mode": "active-backup", "fail_over_mac": "active"}
    return World(port("ib0", "connected", master="bond0"),
                 port("ib1", "connected", master="bond0"),
                 link("bond0", "bond", data=data), *more, **how)


@timeout(60)
def test_bond():
    """The address is on the bond, or on Ethernet on top of that; a VRF takes none."""
    host = bond(addresses={"bond0": ("10.0.0.1",), "ib0": ("10.0.0.2",)},
                neighbours={"bond0": [
                    {"dst": "10.0.0.7", "lladdr": LLADDR.format(7)},
                    {"dst": "10.0.0.8", "lladdr": DATAGRAM.format(8)},
                    {"dst": "10.0.0.9", "lladdr": "02:00:00:00:00:09"}]})
    for name in ("ib0", "ib1"):
        ksft_eq(host.findings(name, ["10.0.0.7"]), {
            ("address", "ok"): ["10.0.0.1 on bond0"],
            ("bond", "ok"): ["bond0, active-backup"],
            ("peer", "ok"): ["10.0.0.7 answers"],
            ("peer", "warn"): ["without connected mode: 10.0.0.8"]})
    ksft_eq({argv[argv.index("-I") + 1] for argv in host.ran}, {"bond0"})
    ksft_eq(bond(addresses={"ib0": ("10.0.0.2",)}).findings()["address", "fail"],
            ["bond0 above it has none"])
    top = bond(link("eib0", "eipoib", link="bond0", master="br0"),
               link("br0", "bridge"), addresses={"br0": ("10.0.0.1",)})
    ksft_eq(top.findings(), {("Ethernet", "ok"): ["eib0 is up, a port of br0"],
                             ("address", "ok"): ["10.0.0.1 on br0"],
                             ("bond", "ok"): ["bond0, active-backup"]})
    vrf = World(port(master="blue"), link("blue", "vrf"),
                addresses={"ib0": ("10.0.0.1",)})
    ksft_eq(vrf.findings(), {("address", "ok"): ["10.0.0.1"]})
