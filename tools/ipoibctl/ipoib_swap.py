# SPDX-License-Identifier: GPL-2.0-only
"""
Change the module ib_ipoib while it is in use: what belongs to its interfaces is
saved, the module is exchanged, and everything is put back.

Addresses, routes, next hops and neighbours: see ipoib_objects.py.  Everything else is
set with ip(8), and by files of /sys and /proc.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

from ipoib_objects import (IFA_F_TENTATIVE, OBJECTS, Address, Scope,
                           make_objects)

MODULE = "ib_ipoib"
SYS_MODULE = f"/sys/module/{MODULE}"
# Removed at the next boot, as is what it tells of
STATE_DIR = "/run/ipoibctl"
STATE = os.path.join(STATE_DIR, "swap.json")
LOG = os.path.join(STATE_DIR, "swap.log")
LOCK = os.path.join(STATE_DIR, "lock")
# As long as somebody has to confirm
WAITING = os.path.join(STATE_DIR, "waiting")
# s: a port's interface; its carrier; duplicate address detection; a child that somebody
# else is making
APPEAR, CARRIER, UNIQUE, MADE = 30, 30, 5, 2
SIOCGIFFLAGS, SIOCGIFMTU, SIOCGIFINDEX = 0x8913, 0x8921, 0x8933
IFF_UP, IFF_RUNNING = 1, 0x40
# Settings that have the kernel tell peers of a new link-layer address
ANNOUNCE = ("ipv4/conf/arp_notify", "ipv6/conf/ndisc_notify")
FULL_MEMBER = 0x8000
CLONE_NEWNET = 0x40000000
# Interfaces on top that are put back, and those that come and go with ours
MASTERS = ("bond", "vrf")


class SwapError(Exception):
    """What the user has to be told."""


# ---- the terminal, programs ----------------------------------------------------


class Teller:
    """Tells those who may listen what is done, and when: seconds from the start."""

    def __init__(self, *streams):
        self.streams = streams
        self.began = time.monotonic()

    def __call__(self, text):
        text = f"{time.monotonic() - self.began:6.1f} {text}"
        for stream in self.streams:
            with contextlib.suppress(OSError):
                print(text, file=stream, flush=True)


def program(*argv, limit=None):
    """Run a program that has to succeed; what it prints."""
    try:
        # Names of interfaces are bytes, and have to come back as they were.
        done = subprocess.run(argv, capture_output=True, text=True, check=False,
                              errors="surrogateescape", timeout=limit,
                              stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise SwapError(f"{argv[0]} is needed and not installed") from error
    except subprocess.TimeoutExpired as error:
        raise SwapError(f"{' '.join(argv)}: no end after {limit} s") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"status {done.returncode}"
        raise SwapError(f"{' '.join(argv)}: {said}")
    return done.stdout


def ip(*words):
    return program("ip", *words)


def ip_json(*words):
    """What ip(8) prints as JSON: it leaves control characters in names and aliases."""
    return json.loads(ip("-j", *words), strict=False)


def read(path):
    """What a file of sysfs or procfs says; None if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def wait(condition, limit):
    """Wait for a condition, at most so many seconds; did it come?"""
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


# ---- namespaces -----------------------------------------------------------------


class Space:
    """A network namespace, kept alive while it is in use here."""

    libc = ctypes.CDLL(None, use_errno=True)
    now = None      # the inode of the one that this process is in

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_RDONLY)
        self.inode = os.fstat(self.file).st_ino

    def __str__(self):
        return os.path.basename(self.path) if "/netns/" in self.path \
            else f"namespace {self.inode}"

    def __enter__(self):
        self.enter()

    def __exit__(self, *_):
        HERE[0].enter()

    def enter(self):
        # To stay where it is, a process needs no privilege.
        if Space.now == self.inode:
            return
        if self.libc.setns(self.file, CLONE_NEWNET):
            raise SwapError(f"{self}: {os.strerror(ctypes.get_errno())}")
        Space.now = self.inode

    def reference(self):
        """Its name for ip(8)."""
        return f"/proc/{os.getpid()}/fd/{self.file}"

    def sysfs(self, script, *words):
        """Run a script of sh(1) that finds the namespace's /sys in $SYS."""
        return program(
            "nsenter", f"--net={self.reference()}", "unshare", "--mount",
            "--propagation", "private", "sh", "-ec",
            f"SYS={STATE_DIR}/sys; mkdir -p $SYS; mount -t sysfs sysfs $SYS; " +
            script, "sh", *words)


HERE = []       # the namespace of this process
SPACES = {}     # all that were found, by their inodes


def places():
    """Files that are network namespaces, some of them several times."""
    yield from glob.glob("/run/netns/*") + glob.glob("/run/docker/netns/*")
    with contextlib.suppress(OSError), open("/proc/self/mountinfo",
                                            encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[3].startswith("net:["):
                yield words[4]
    yield from glob.glob("/proc/[0-9]*/ns/net")
    yield from glob.glob("/proc/[0-9]*/task/[0-9]*/ns/net")


def spaces():
    """All namespaces, {inode: Space}, this process's first."""
    if not HERE:
        # There may be thousands.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        HERE.append(Space("/proc/self/ns/net"))
        SPACES[HERE[0].inode] = HERE[0]
        Space.now = HERE[0].inode
    for path in places():
        try:
            inode = os.stat(path).st_ino
            if inode in SPACES:
                continue
            space = Space(path)
        except OSError as error:
            if error.errno == errno.EMFILE:
                raise SwapError("there are too many network namespaces") from error
            continue        # gone meanwhile
        try:
            with space:
                SPACES[inode] = space
        except SwapError:   # a file that was left behind, and is none any more
            os.close(space.file)
    return SPACES


def first_space():
    """The inode of the first namespace."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/1/ns/net").st_ino
    return HERE[0].inode


def links(space):
    """The interfaces of a namespace, as ip(8) has them."""
    with space:
        return [link for link in ip_json("-d", "link", "show") if link]


def ask_interface(space, name, request):
    """
    A number of an interface by an ioctl(2), which takes no process as ip(8) does: its
    index, flags or MTU; None if it is gone.
    """
    with space, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, \
            contextlib.suppress(OSError):
        found = fcntl.ioctl(sock, request, struct.pack("16s24x", os.fsencode(name)))
        return struct.unpack_from("=i" if request != SIOCGIFFLAGS else "=H", found,
                                  16)[0]
    return None


def is_ipoib(link):
    return link.get("linkinfo", {}).get("info_kind") == "ipoib"


def is_child(link):
    """Only the interface of a port has a device."""
    return "parentdev" not in link


def below(link, here):
    """The number of the interface below, as far as ip(8) tells."""
    if "link_index" in link:
        return link["link_index"]
    name = link.get("link", "")
    # Of another namespace: ip(8) names whoever has the number here, or nobody.
    found = next((each["ifindex"] for each in here if each["ifname"] == name), None)
    return found or (int(name[2:]) if re.fullmatch(r"if\d+", name) else None)


def data_of(link):
    """P_Key, mode and umcast; ip(8) prints numbers of some as hexadecimal text."""
    data = link["linkinfo"].get("info_data", {})

    def number(*keys):
        value = next((data[key] for key in keys if key in data), 0)
        return int(value, 16) if isinstance(value, str) else int(value)
    return {"pkey": number("pkey", "key"), "umcast": number("umcast"),
            "mode": data.get("mode", "datagram")}


def guid_of(link):
    """The port's GUID, the last eight bytes of the address."""
    return link["address"].replace(":", "")[-16:]


# ---- what is there ------------------------------------------------------------------


def settings_of(name):
    """{file: value} of an interface's settings in /proc/sys/net."""
    found = {}
    for version in ("ipv4", "ipv6"):
        for kind in ("conf", "neigh"):
            place = f"/proc/sys/net/{version}/{kind}/{name}"
            for file in sorted(os.listdir(place)) if os.path.isdir(place) else ():
                value = read(os.path.join(place, file))
                if value is not None:
                    found[f"{version}/{kind}/{file}"] = value
    return found


def describe(link, space, here):
    """What has to be known of an interface to make it again."""
    about = {
        **data_of(link),
        "space": space.inode, "name": link["ifname"], "index": link["ifindex"],
        "guid": guid_of(link), "child": is_child(link),
        "below": below(link, here), "mtu": link["mtu"],
        "txqlen": link.get("txqlen", 0),
        "alias": link.get("ifalias"), "altnames": link.get("altnames", []),
        "group": link.get("group", "default"),
        "up": "UP" in link["flags"], "carrier": "LOWER_UP" in link["flags"],
        "arp": "NOARP" not in link["flags"], "master": link.get("master"),
    }
    with space:
        about["settings"] = settings_of(about["name"])
    return about


def parent_of(child, found):
    """The parent, which may be in another namespace."""
    alike = [one for one in found if not one["child"] and
             one["guid"] == child["guid"]]
    exact = [one for one in alike if one["index"] == child["below"]]
    for one in exact or alike:
        return one
    if os.geteuid():
        raise SwapError(f"{child['name']}: its parent is not in this network namespace, "
                        "and only root can look into others")
    raise SwapError(f"{child['name']}: its parent cannot be found; if it has a GUID "
                    "of its own, that cannot be kept: delete it first")


def module_state():
    """What has to be known of the running module to load it again."""
    place = os.path.join(SYS_MODULE, "parameters")
    values = {name: read(os.path.join(place, name)) for name in
              (sorted(os.listdir(place)) if os.path.isdir(place) else ())}
    return {"parameters": {name: value for name, value in values.items()
                           if value not in (None, "", "(null)")}}


def scope_of(space, here, indexes):
    """What objects are saved of a namespace."""
    masters = {link["master"] for link in here
               if link["ifindex"] in indexes and "master" in link}
    return Scope(indexes, {link["ifindex"] for link in here
                           if link["ifname"] in masters and
                           link.get("linkinfo", {}).get("info_kind") == "bond"})


def save():
    """All that belongs to the interfaces of the module, as JSON can hold it."""
    state = {"module": module_state(), "interfaces": [], "objects": {}, "bonds": {}}
    for space in spaces().values():
        here = links(space)
        ours = [describe(link, space, here) for link in here if is_ipoib(link)]
        if not ours:
            continue
        state["interfaces"] += ours
        scope = scope_of(space, here, {one["index"] for one in ours})
        with space:
            found = scope.objects()
        state["bonds"][str(space.inode)] = sorted(scope.all - scope.ours)
        state["objects"][str(space.inode)] = {
            name: [base64.b64encode(body).decode() for body in bodies]
            for name, bodies in found.items()}
    # Each after its parent
    state["interfaces"].sort(key=lambda one: one["child"])
    known = port_guids("*")
    for one in state["interfaces"]:
        if one["child"]:
            if known and one["guid"] not in known:
                take_guid(one, state["interfaces"])
            parent_of(one, state["interfaces"])
    return state


def bodies_of(state, space, name):
    return [base64.b64decode(text)
            for text in state["objects"].get(str(space), {}).get(name, ())]


def take_guid(child, found):
    """
    A GUID that no port has, as networkd makes for children of the kernel's own driver,
    is of no use to anybody: the child gets that of its parent.
    """
    for one in found:
        if not one["child"] and one["space"] == child["space"] and \
                one["index"] == child["below"]:
            child["unknown_guid"], child["guid"] = child["guid"], one["guid"]


def port_guids(index="0"):
    """GUIDs of all ports, as they are in an interface's address."""
    found = (read(path) for path in
             glob.glob(f"/sys/class/infiniband/*/ports/*/gids/{index}"))
    return {gid.replace(":", "")[-16:] for gid in found if gid}


def refuse(state):
    """Refuse what would lose something that cannot be made again."""
    holders = os.listdir(os.path.join(SYS_MODULE, "holders"))
    if holders:
        raise SwapError(f"{MODULE} is used by {', '.join(holders)}: remove "
                        "that first")
    ports = port_guids()
    for one in state["interfaces"]:
        if ports and not one["child"] and one["guid"] not in ports:
            raise SwapError(f"{one['name']} has another GUID than its port, which "
                            "cannot be kept: give it that of the port first")
    for inode, space in spaces().items():
        mine = {one["name"] for one in state["interfaces"]
                if one["space"] == inode}
        here = links(space) if mine else ()
        kinds = {link["ifname"]: link.get("linkinfo", {}).get("info_kind", "")
                 for link in here}
        for link in here:
            name, under, master = (link.get(key) for key in
                                   ("ifname", "link", "master"))
            if under in mine and not is_ipoib(link):
                raise SwapError(f"{name} is on top of {under} and would be lost: "
                                "delete it first")
            if name not in mine or not master:
                continue
            if kinds.get(master) not in MASTERS:
                raise SwapError(f"{name} belongs to {master}, and could not be put "
                                "back: take it out first")
            if kinds[master] == "bond" and not bond_survives():
                raise SwapError(f"{master}: this kernel's bonding goes on using the "
                                "module when its interfaces are gone: delete the "
                                "bond first")


def bond_survives():
    """Bonds have header operations of their own; older ones use the module's."""
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
        return any(line.split()[2] == "bond_header_ops" for line in file)


def not_kept(state):
    """Yield what is not put back, for the user to know."""
    for one in state["interfaces"]:
        with spaces()[one["space"]]:
            said = program("tc", "qdisc", "show", "dev", one["name"]) \
                if shutil.which("tc") else ""
            xdp = ip_json("link", "show", "dev", one["name"])[0].get("xdp")
        # Those that the kernel has made have no handle.
        for kind in sorted(set(re.findall(r"^qdisc (\S+) (?!0:)", said, re.M))):
            yield f"{one['name']}: the qdisc {kind}, with classes and filters"
        if xdp:
            yield f"{one['name']}: its XDP program"
        if "unknown_guid" in one:
            yield f"{one['name']}: the GUID {one['unknown_guid']}, which no port has"


# ---- modules -----------------------------------------------------------------------


class Module:
    """A file of the module."""

    def __init__(self, path, parameters):
        self.path = path
        self.parameters = parameters

    def __str__(self):
        return self.path

    def known(self):
        """The parameters that it has."""
        return {line.partition(":")[0]
                for line in program("modinfo", "-F", "parm",
                                    self.path).splitlines()}

    def check(self):
        """Refuse what this kernel would not load."""
        if not os.path.isfile(self.path):
            raise SwapError(f"{self.path}: there is no such file")
        name = program("modinfo", "-F", "name", self.path).strip()
        if name != MODULE:
            raise SwapError(f"{self.path} is the module {name or '(without a name)'}"
                            f", not {MODULE}")
        made_for = program("modinfo", "-F", "vermagic", self.path).split()
        if made_for[:1] != [os.uname().release]:
            raise SwapError(f"{self.path} is for the kernel "
                            f"{' '.join(made_for[:1]) or '(unknown)'}, this one is "
                            f"{os.uname().release}")

    def load(self):
        """Load it and what it needs."""
        needs = program("modinfo", "-F", "depends", self.path).strip()
        for name in filter(None, needs.split(",")):
            program("modprobe", name)
        program("insmod", self.path, *(f"{name}={value}" for name, value in
                                       self.parameters.items()))


def files():
    """The module's files for this kernel, the one that modprobe takes first."""
    release = os.uname().release
    found = glob.glob(f"/lib/modules/{release}/**/{MODULE}.ko*", recursive=True)
    # Some DKMS moves the kernel's own there.
    found += glob.glob(f"/var/lib/dkms/*/original_module/{release}/*/{MODULE}.ko*")
    first = subprocess.run(["modinfo", "-n", MODULE], check=False, text=True,
                           capture_output=True).stdout.strip()
    return sorted(found, key=lambda path: path != first)


def is_of_kernel(path):
    return path.startswith((f"/lib/modules/{os.uname().release}/kernel/",
                            "/var/lib/dkms/"))


def running():
    """The file of the running module, None if it cannot be told."""
    out_of_tree = "O" in (read(os.path.join(SYS_MODULE, "taint")) or "")
    is_now = read(os.path.join(SYS_MODULE, "srcversion"))
    for path in files():
        if is_of_kernel(path) == out_of_tree:
            continue
        # It may have been updated since.
        if not is_now or is_now == program("modinfo", "-F", "srcversion",
                                           path).strip():
            return path
    return None


def configured():
    """Parameters that modprobe.d(5) has for the module."""
    found = {}
    for line in program("modprobe", "-c").splitlines():
        first, name, *words = line.split() + ["", ""]
        if first == "options" and name.replace("-", "_") == MODULE:
            found.update(word.partition("=")[::2] for word in words
                         if "=" in word)
    return found


def choose(wanted, current):
    """The file to be loaded: of the user, or what is not running now."""
    if wanted and wanted not in ("kernel", "installed"):
        return os.path.abspath(wanted)
    kernel = wanted == "kernel" or \
        not wanted and not (current and is_of_kernel(current))
    for path in files():
        if is_of_kernel(path) == kernel:
            return path
    raise SwapError(f"there is no {MODULE} " + (
        "among the kernel's own modules" if kernel else
        "but the kernel's; is ib-ipoib-dkms installed, and built for this kernel?"))


# ---- the exchange -------------------------------------------------------------------


def unload(tell):
    """Remove the module; a bond would go with its last interface."""
    for space in spaces().values():
        here = links(space)
        bonds = {link["ifname"] for link in here if
                 link.get("linkinfo", {}).get("info_kind") == "bond"}
        with space:
            for link in here:
                if is_ipoib(link) and link.get("master") in bonds:
                    ip("link", "set", "dev", link["ifname"], "nomaster")
    began = time.monotonic()
    with subprocess.Popen(["rmmod", MODULE], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as remover:
        while True:
            try:
                said = remover.communicate(timeout=10)[1]
                break
            except subprocess.TimeoutExpired:
                tell("  the module is still being removed, after "
                     f"{time.monotonic() - began:.0f} s; see the kernel's log")
    if remover.returncode:
        raise SwapError(f"rmmod: {' '.join(said.split())}")


class Restorer:
    """
    Puts everything back, whatever is there already.  @strict: the first thing that
    cannot be put back ends it; else all else is done, and then told.
    """

    def __init__(self, state, tell, strict=True):
        self.state, self.tell, self.strict = state, tell, strict
        # Those that had something, and where interfaces of ports appear
        found = spaces()
        wanted = {one["space"] for one in state["interfaces"]} | \
            {HERE[0].inode, first_space()}
        self.spaces = {inode: space for inode, space in found.items()
                       if inode in wanted}
        self.failed = []
        # {place in the list: (namespace, number now)}
        self.now = {}

    def run(self):
        """All of it; SwapError tells what could not be put back."""
        steps = [(self._wait_for_ports,), (self._take_names,)]
        for place, one in enumerate(self.state["interfaces"]):
            if one["child"]:
                steps.append((self._make_child, place, one))
            steps.append((self._settings, one))
        for up in (True, False):
            steps += [(self._up_or_down, one) for one in self.state["interfaces"]
                      if one["up"] == up]
        steps += [(self._objects, "addresses"), (self._objects, "neighbours"),
                  (self._wait_for_carrier,), (self._wait_for_addresses,)]
        steps += [(self._mtu, one) for one in self.state["interfaces"]]
        steps += [(self._objects, "nexthops"), (self._objects, "routes")]
        # Whoever manages the network may have changed something meanwhile.
        steps += [(settle,), (self._take_names,)]
        steps += [(self._objects, name) for name in OBJECTS]
        steps += [(self._quiet, one) for one in self.state["interfaces"]]
        steps.append((self._check,))
        for step, *words in steps:
            began = time.monotonic()
            try:
                step(*words)
                if time.monotonic() - began > 1:
                    self.tell(f"  {step.__name__.strip('_').replace('_', ' ')}")
            except (SwapError, OSError) as error:
                if self.strict:
                    raise
                self.failed.append(str(error))
                self.tell(f"  {error}")
        if self.failed:
            raise SwapError(f"{len(self.failed)} things could not be put back")

    def _space(self, one):
        try:
            return self.spaces[one["space"]]
        except KeyError as error:
            raise SwapError(f"{one['name']}: its network namespace is gone") \
                from error

    def _ip(self, one, *words):
        with self._space(one):
            ip("link", "set", "dev", one["name"], *map(str, words))

    def _link(self, one):
        with self._space(one), contextlib.suppress(SwapError):
            found = ip_json("-d", "link", "show", "dev", one["name"])
            if found and found[0].get("ifname") == one["name"] and \
                    is_ipoib(found[0]):
                return found[0]
        raise SwapError(f"{one['name']} is gone")

    def _ask(self, one, request):
        return ask_interface(self._space(one), one["name"], request)

    def _ports(self):
        """{GUID: (space, link)} of the ports' own interfaces"""
        return {guid_of(link): (space, link) for space in self.spaces.values()
                for link in links(space) if is_ipoib(link) and not is_child(link)}

    def _wait_for_ports(self):
        wanted = {one["guid"]: one["name"] for one in self.state["interfaces"]
                  if not one["child"]}
        if not wait(lambda: wanted.keys() <= self._ports().keys(), APPEAR):
            missing = sorted(wanted[guid] for guid in
                             wanted.keys() - self._ports().keys())
            raise SwapError(f"after {APPEAR} s there is no interface for the port "
                            f"of {', '.join(missing)}")
        settle()

    def _take_names(self):
        """Names and namespaces of ports' interfaces, which may have been swapped."""
        moved, there = [], self._ports()
        for place, one in enumerate(self.state["interfaces"]):
            if one["child"] or one["guid"] not in there:
                continue
            space, link = there[one["guid"]]
            if (space.inode, link["ifname"]) == (one["space"], one["name"]):
                continue
            temporary = f"swapped{place}"
            with space:
                ip("link", "set", "dev", link["ifname"], "down")
                ip("link", "set", "dev", link["ifname"], "name", temporary)
            moved.append((one, space, temporary))
        for one, space, temporary in moved:
            self._move(one, space, temporary)

    def _move(self, one, space, name):
        """Give an interface its name, in its namespace."""
        with space:
            ip("link", "set", "dev", name, *(
                ["netns", self._space(one).reference()]
                if space.inode != one["space"] else []), "name", one["name"])

    def _claim(self, place, one, parent):
        """The child that is meant, if it is there; is it?"""
        def fits(link):
            return is_ipoib(link) and is_child(link) and \
                guid_of(link) == one["guid"] and data_of(link)["pkey"] == one["pkey"]

        with contextlib.suppress(SwapError):
            link = self._link(one)
            if not fits(link):
                raise SwapError(f"{one['name']} is another interface now")
            self.now[place] = one["space"], link["ifindex"]
            return True
        # One that somebody has made meanwhile, with another name
        space = self._space(parent)
        names = {each["name"] for each in self.state["interfaces"]
                 if each["space"] == parent["space"]}
        for link in links(space):
            if fits(link) and link["ifname"] not in names and \
                    (space.inode, link["ifindex"]) not in self.now.values():
                with space:
                    ip("link", "set", "dev", link["ifname"], "down")
                self._move(one, space, link["ifname"])
                self.now[place] = one["space"], self._link(one)["ifindex"]
                return True
        return False

    def _make_child(self, place, one):
        """A child; whoever manages the network may have made it already."""
        parent = parent_of(one, self.state["interfaces"])
        if self._claim(place, one, parent):
            return
        stem, _, number = one["name"].rpartition(".")
        if one["space"] == parent["space"] == first_space() and stem and \
                parent["name"].startswith(stem) and \
                re.fullmatch("[0-9a-f]{4}", number) and \
                int(number, 16) | FULL_MEMBER == one["pkey"] | FULL_MEMBER:
            # delete_child of the kernel's own driver takes no others; its
            # create_child makes them in the first namespace.
            with contextlib.suppress(SwapError):
                self._space(parent).sysfs(
                    'echo "$2" > "$SYS/class/net/$1/create_child"', parent["name"],
                    f"0x{number}")
            if self._claim(place, one, parent):
                return
        name = one["name"] if one["space"] == parent["space"] else \
            f"swapped{place}"
        try:
            self._add_child(one, parent, name)
        except SwapError as error:
            # networkd makes its children as soon as it sees their parent.
            if name != one["name"] or "File exists" not in str(error):
                raise
            if wait(lambda: self._claim(place, one, parent), MADE):
                return
            self._unmake_child(one, parent, error)
            self._add_child(one, parent, name)
        if name != one["name"]:
            self._move(one, self._space(parent), name)
        self.now[place] = one["space"], self._ask(one, SIOCGIFINDEX)

    def _unmake_child(self, one, parent, error):
        """One with a GUID that the port has not, which the kernel's own driver takes."""
        try:
            link = self._link(one)
        except SwapError:
            raise error from None
        here = links(self._space(one))
        if not is_child(link) or data_of(link)["pkey"] != one["pkey"] or \
                below(link, here) != self._ask(parent, SIOCGIFINDEX):
            raise error
        with self._space(one):
            ip("link", "del", "dev", one["name"])

    def _add_child(self, one, parent, name):
        with self._space(parent):
            ip("link", "add", "link", parent["name"], "name", name, "type",
               "ipoib", "pkey", f"{one['pkey']:#06x}", "mode", one["mode"],
               "umcast", str(one["umcast"]))

    def _mode(self, one, key, value):
        """By the file, if there is one: the kernel's driver has no other safe way."""
        try:
            self._space(one).sysfs('echo "$3" > "$SYS/class/net/$1/$2"', one["name"],
                                   key, str(value))
        except SwapError:
            self._ip(one, "type", "ipoib", key, value)

    def _settings(self, one):
        """Everything that ip(8) and /proc/sys/net can set before it is up."""
        link = self._link(one)
        for key in ("mode", "umcast"):
            if data_of(link)[key] != one[key]:
                self._mode(one, key, one[key])
        self._proc(one, one["settings"])
        # Peers learn the new QPN as soon as it has a carrier.
        self._proc(one, {key: "1" for key in ANNOUNCE}, quiet=True)
        if one["alias"] != link.get("ifalias"):
            self._ip(one, "alias", one["alias"] or "")
        for name in one["altnames"]:
            if name not in link.get("altnames", ()):
                with self._space(one):
                    ip("link", "property", "add", "dev", one["name"], "altname",
                       name)
        if one["txqlen"] != link.get("txqlen", 0):
            self._ip(one, "txqueuelen", one["txqlen"])
        if one["group"] != link.get("group", "default"):
            self._ip(one, "group", one["group"])
        if not one["arp"]:
            self._ip(one, "arp", "off")
        if one["master"] and one["master"] != link.get("master"):
            self._ip(one, "down")
            self._ip(one, "master", one["master"])
        if one["mtu"] != link["mtu"]:
            # Before it has its group, it may not be able to.
            with contextlib.suppress(SwapError):
                self._ip(one, "mtu", one["mtu"])

    def _proc(self, one, settings, quiet=False):
        """Settings in /proc/sys/net that are not as they were."""
        with self._space(one):
            before = settings_of(one["name"])
            # The secret first: a mode needs it.
            for key in sorted(settings, key=lambda key: "stable_secret" not in key):
                version, kind, file = key.split("/")
                # IPv6's MTU follows the interface's.
                if before.get(key) == settings[key] or file == "mtu":
                    continue
                try:
                    with open(f"/proc/sys/net/{version}/{kind}/{one['name']}/{file}",
                              "w", encoding="ascii") as out:
                        out.write(settings[key])
                except OSError as error:
                    if not quiet:
                        self.tell(f"  {one['name']}: net/{key} stays "
                                  f"{before.get(key)}, was {settings[key]}: "
                                  f"{error.strerror}")

    def _quiet(self, one):
        """What was set so that peers learn."""
        self._proc(one, {key: one["settings"][key] for key in ANNOUNCE
                         if key in one["settings"]})

    def _up_or_down(self, one):
        """A parent that comes up takes its children with it."""
        if one["up"] != bool((self._ask(one, SIOCGIFFLAGS) or 0) & IFF_UP):
            self._ip(one, "up" if one["up"] else "down")

    def _mtu(self, one):
        """Of one without a carrier it is what might be, not what somebody has set."""
        if one["carrier"] and self._ask(one, SIOCGIFMTU) != one["mtu"]:
            self._ip(one, "mtu", one["mtu"])

    def _indexes(self, space):
        """{number before: number now} of a namespace"""
        found = {}
        for one in self.state["interfaces"]:
            if one["space"] != space:
                continue
            number = self._ask(one, SIOCGIFINDEX)
            if number is not None:
                found[one["index"]] = number
            elif self.strict:
                raise SwapError(f"{one['name']} is gone")
        return found

    def _scope(self, space, indexes):
        return Scope(indexes.values(), self.state["bonds"].get(str(space), ()))

    def _missing(self, space, indexes, *names):
        """Yield (kind, saved objects that are not there), in the namespace."""
        with self.spaces[space]:
            found = self._scope(space, indexes).objects(names)
        for name in names:
            cls = OBJECTS[name]
            there = {cls.key(body, {}) for body in found[name]}
            yield name, [body for body in bodies_of(self.state, space, name)
                         if cls.key(body, indexes) not in there]

    def _objects(self, name):
        """Make the objects of a kind that are missing."""
        for inode in map(int, self.state["objects"]):
            if inode not in self.spaces or not bodies_of(self.state, inode, name):
                continue
            indexes = self._indexes(inode)
            (_, missing), = self._missing(inode, indexes, name)
            with self.spaces[inode]:
                error = make_objects(OBJECTS[name], missing, indexes)
            if error:
                (_, left), = self._missing(inode, indexes, name)
                if left:
                    raise SwapError(f"{len(left)} of the {name} could not be put "
                                    f"back: {error}")

    def _wait_for_carrier(self):
        wanted = [one for one in self.state["interfaces"] if one["carrier"]]

        def without():
            return [one["name"] for one in wanted
                    if not (self._ask(one, SIOCGIFFLAGS) or 0) & IFF_RUNNING]
        if not wait(lambda: not without(), CARRIER):
            raise SwapError(f"after {CARRIER} s no carrier: {', '.join(without())}")

    def _wait_for_addresses(self):
        """Until IPv6 has found them unique: before, no route can have one."""
        def tentative():
            for inode in map(int, self.state["objects"]):
                if inode not in self.spaces:
                    continue
                ours = set(self._indexes(inode).values())
                with self.spaces[inode]:
                    for body in Address.all_of(Scope(ours)):
                        (_, _, flags, _, _), _ = Address.parts(body)
                        if flags & IFA_F_TENTATIVE:
                            return True
            return False
        wait(lambda: not tentative(), UNIQUE)

    def _check(self):
        """Look once more whether anything is missing."""
        for inode in map(int, self.state["objects"]):
            if inode not in self.spaces:
                raise SwapError(f"the network namespace {inode} is gone")
            indexes = self._indexes(inode)
            for name, missing in self._missing(inode, indexes, *OBJECTS):
                if missing and name != "addresses":
                    raise SwapError(f"{len(missing)} of the {name} are missing")
                if missing:
                    # One that had seconds to live is no reason to go back.
                    self.tell(f"  {len(missing)} of the addresses are missing")


def settle():
    """Let udev name what is new."""
    if shutil.which("udevadm"):
        with contextlib.suppress(SwapError):
            program("udevadm", "settle", "--timeout=10", limit=15)


def announce(state):
    """Have peers learn the new link-layer addresses, which contain the QPN."""
    started = []
    for one in state["interfaces"] if shutil.which("arping") else ():
        if not one["carrier"] or one["space"] not in spaces():
            continue
        with contextlib.suppress(SwapError), spaces()[one["space"]]:
            about = ip_json("-4", "addr", "show", "dev", one["name"])
            for each in about[0].get("addr_info", ()) if about else ():
                # pylint: disable-next=consider-using-with
                started.append(subprocess.Popen(
                    ["arping", "-q", "-c", "1", "-w", "1", "-U", "-I", one["name"],
                     each["local"]], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for process in started:
        process.wait()


def keep(state):
    """Write what was saved, in case this process does not live to the end."""
    with open(STATE + ".new", "w", encoding="ascii",
              opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        json.dump(state, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.rename(STATE + ".new", STATE)


def remove(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def confirm():
    """It works."""
    with open(LOCK, "a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(WAITING)     # of one that was killed
        except OSError:
            pass                # in progress
    try:
        os.unlink(WAITING)
    except FileNotFoundError as error:
        raise SwapError("nothing waits for that") from error
    return 0


def attempt(tell, work):
    """Do something; did it go well?  What is not foreseen is a failure, too."""
    try:
        work()
        return True
    except SwapError as error:
        tell(f"that failed: {error}")
    except Exception as error:      # pylint: disable=broad-except
        tell(f"that failed: {type(error).__name__}: {error}")
        tell(traceback.format_exc())
    return False


def exchange(state, old, new, limit, tell):
    """The exchange itself; the status of the command."""
    began = time.monotonic()
    tell(f"removing {old}")
    if not attempt(tell, lambda: unload(tell)):
        return back(state, None, tell)
    tell(f"loading {new}")
    if not attempt(tell, new.load):
        return back(state, old, tell)
    tell("putting everything back")
    if not attempt(tell, lambda: Restorer(state, tell).run()):
        return back(state, old, tell)
    tell(f"done in {time.monotonic() - began:.1f} s")
    announce(state)
    if limit:
        with open(WAITING, "w", encoding="ascii"):
            pass
        tell(f"\"ipoibctl swap --confirm\" within {limit} s keeps it so")
        if not wait(lambda: not os.path.exists(WAITING), limit):
            remove(WAITING)
            tell("nobody did that")
            return back(state, old, tell)
    remove(STATE)
    tell("kept")
    return 0


def back(state, old, tell):
    """Have the module @old again, unless it is still there, and its interfaces."""
    def again():
        if old and os.path.isdir(SYS_MODULE):
            tell("removing it again")
            unload(tell)
        if old:
            tell(f"loading {old}")
            old.load()
        Restorer(state, tell, strict=False).run()

    if not attempt(tell, again):
        tell(f"what was saved is in {STATE}; with a module loaded, \"ipoibctl swap "
             "--restore\" puts back what is missing")
        return 1
    tell("everything is as it was before")
    announce(state)
    remove(STATE)
    return 1


def detached(work):
    """
    Do work(tell) in a process that outlives this one and its terminal, and follow
    what it tells; the status.
    """
    ours, its = os.pipe()
    kinds = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, kinds)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            for kind in kinds:
                signal.signal(kind, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, kinds)
            os.setsid()
            os.close(ours)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            with open(LOG, "w", encoding="utf-8", errors="replace") as log:
                tell = Teller(log, os.fdopen(its, "w", errors="replace"))
                try:
                    status = work(tell)
                except Exception:       # pylint: disable=broad-except
                    tell(traceback.format_exc())
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, kinds)
    os.close(its)
    follow(ours)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def follow(pipe):
    """Print what comes; a line from the terminal confirms, since it works then."""
    asked = [pipe] + ([sys.stdin.fileno()] if sys.stdin.isatty() else [])
    while True:
        ready = select.select(asked, [], [])[0]
        if pipe in ready:
            said = os.read(pipe, 4096)
            if not said:
                return
            with contextlib.suppress(OSError):
                sys.stdout.write(said.decode(errors="replace"))
                sys.stdout.flush()
        elif ready:
            try:
                line = os.read(ready[0], 4096)
            except OSError:
                line = b""
            if not line:        # the terminal has gone
                asked.pop()
            elif os.path.exists(WAITING):
                remove(WAITING)


# ---- the command ------------------------------------------------------------------


def show_plan(state, old, new, left_out):
    """What would be done."""
    print(f"from {old}\nto   {new}")
    for name, value in new.parameters.items():
        print(f"     with {name}={value}, from modprobe.d")
    for name in left_out:
        print(f"     without {name}, which it does not have")
    for one in state["interfaces"]:
        space = spaces()[one["space"]]
        where = "" if space is HERE[0] else f" in {space}"
        print(f"{one['name']}{where}: P_Key {one['pkey']:#06x}, {one['mode']}, MTU "
              f"{one['mtu']}, {'up' if one['up'] else 'down'}")
    total = {name: sum(len(found[name]) for found in state["objects"].values())
             for name in OBJECTS}
    print(", ".join(f"{count} {name}" for name, count in total.items()))
    for text in not_kept(state):
        print(f"not put back: {text}")


def plan(args):
    """(what is saved, old module, new one, parameters left out)"""
    if not os.path.isdir(SYS_MODULE):
        raise SwapError(f"the module {MODULE} is not loaded; modprobe loads it")
    current = args.running or running()
    if not current:
        raise SwapError("the file of the running module cannot be told, which is "
                        "needed to go back if the other one fails: name it with "
                        "--running")
    state = save()
    old = Module(os.path.abspath(current), state["module"]["parameters"])
    old.check()
    new = Module(choose(args.module, current), {})
    new.check()
    asked, known = configured(), new.known()
    new.parameters = {name: value for name, value in asked.items() if name in known}
    refuse(state)
    return state, old, new, sorted(asked.keys() - known)


def restore():
    """Put back what an exchange has saved that did not come to its end."""
    try:
        with open(STATE, encoding="ascii") as file:
            state = json.load(file)
    except FileNotFoundError as error:
        raise SwapError("no exchange was interrupted") from error
    except ValueError as error:
        raise SwapError(f"{STATE}: {error}") from error
    if not os.path.isdir(SYS_MODULE):
        raise SwapError(f"load the module {MODULE} first")
    return detached(lambda tell: finish(state, tell))


def finish(state, tell):
    """Put back what is missing; the status."""
    if not attempt(tell, lambda: Restorer(state, tell, strict=False).run()):
        return 1
    announce(state)
    remove(STATE)
    return 0


def hold(lock):
    """Nobody else exchanges anything while the file is open."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise SwapError("another exchange is in progress") from error


def planned(args):
    """The plan, as it was shown to the user."""
    if os.path.exists(STATE):
        raise SwapError(f"an exchange was interrupted: \"ipoibctl swap --restore\" "
                        f"puts back what is in {STATE}; or delete that file")
    try:
        state, old, new, left_out = plan(args)
        show_plan(state, old, new, left_out)
    except OSError as error:
        raise SwapError(str(error)) from error
    return state, old, new


def rehearse(args):
    """Only say what would be done: this reads, and writes nothing."""
    with contextlib.suppress(OSError), open(LOCK, encoding="ascii") as lock:
        hold(lock)
    planned(args)
    if os.geteuid():
        print("other network namespaces were not looked at: only root can")
    return 0


def swap(args):
    """The command swap."""
    if args.dry_run:
        if args.confirm or args.restore:
            raise SwapError("--dry-run is for an exchange only")
        return rehearse(args)
    if os.geteuid():
        raise SwapError("only root can do that; --dry-run needs no root")
    os.makedirs(STATE_DIR, mode=0o755, exist_ok=True)
    if args.confirm:
        return confirm()
    # It is held by the process that does the work, too.
    with open(LOCK, "w", encoding="ascii") as lock:
        hold(lock)
        if args.restore:
            return restore()
        state, old, new = planned(args)
        remove(WAITING)
        keep(state)
        sys.stdout.flush()
        return detached(lambda tell: exchange(state, old, new,
                                              args.confirm_within, tell))
