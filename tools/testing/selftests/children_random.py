#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""
A long random sequence of everything one can do to children, under traffic.

A model follows each operation, refusals included, and in the end says which
interfaces there are, and with what settings.  The seed is printed; with the
environment variables IPOIB_SEED and IPOIB_OPS (--env of tools/testing/vm/run)
a sequence is run again.  On a kernel that looks for defects it is shorter.
"""

import errno
import os
import random

from lib import (Flood, Netns, ROOT, defer, ends, exists, hca, ifaces, ip,
                 ksft_eq, ksft_pr, main, ping, read, timeout, wait_until,
                 write)
from lib.child import errno_of, full
from lib.ipoib import drop_all, iface_of
from lib.rtnl import Rtnl

BOOT = {"ipoib": "ours", "hcas": 3, "seconds": 200}

KEYS = [0x8001 + n for n in range(6)]
MOST = 12
NAMES = [f"r.{n}" for n in range(40)]


class Iface:
    """What the model knows of an interface."""

    def __init__(self, owner, name, space, pkey, by="rtnl"):
        self.owner, self.name, self.space = owner, name, space
        self.pkey, self.by = pkey, by
        self.up, self.umcast, self.mtu, self.guid = False, 0, None, 0

    def path(self, file):
        return self.space.sys(f"class/net/{self.name}/{file}")


class Owner:
    """A port, with its own interface and the children of that."""

    def __init__(self, number, space):
        self.hca, self.space = hca(number), space
        self.parent, self.children, self.qps = None, [], 0

    def port(self):
        return self.hca.port()

    def everything(self):
        return [self.parent, *self.children]


class Machine:
    """The operations, on the kernel and on the model."""

    def __init__(self, rand, owners, spaces):
        self.rand, self.owners, self.spaces = rand, owners, spaces
        self.talk = {space: Rtnl(space) for space in spaces}
        self.table = list(KEYS)
        for owner in owners:
            self.arrive(owner)

    # -- HCAs

    def arrive(self, owner):
        """The interface of a port that has come: to its namespace, and up."""
        port = owner.port()
        port.wait_active(30)
        space, name = wait_until(lambda: iface_of(port), 15,
                                 f"an interface of {port}")
        new = f"ib{owner.hca.number}h"
        ip(["link", "set", name, "netns", owner.space.name, "name", new],
           ns=space)
        owner.parent = Iface(owner, new, owner.space, 0xffff)
        owner.children = []
        owner.qps = len(owner.hca.data_qps())
        self.talk[owner.space].up(new)
        owner.parent.up = True
        number = owner.hca.number
        ip(["addr", "add", f"10.9.0.{number + 1}/24", "dev", new],
           ns=owner.space, fail=False)

    def unplug(self):
        owner = self.rand.choice(self.owners[1:])
        owner.hca.unplug()
        for iface in owner.everything():
            ksft_eq(exists(iface.path("ifindex")), False, iface.name)
        owner.hca.plug()
        self.arrive(owner)
        return f"{owner.hca}"

    # -- making and deleting

    def taken(self, space, name):
        return any(i.name == name and i.space is space
                   for owner in self.owners for i in owner.everything())

    def expect(self, wanted, func, *args, **kwargs):
        got = errno_of(func, *args, **kwargs)
        ksft_eq(errno.errorcode.get(got, got),
                errno.errorcode.get(wanted, wanted), f"{func.__name__} {args}")
        return got == 0

    def create(self):
        owner, pkey = self.rand.choice(self.owners), self.rand.choice(KEYS)
        if len(owner.children) >= MOST:
            return self.delete()
        name, umcast = self.rand.choice(NAMES), self.rand.randrange(2)
        index = owner.space.ifindex(owner.parent.name)
        wanted = errno.EEXIST if self.taken(owner.space, name) else 0
        if self.expect(wanted, self.talk[owner.space].add, index, name,
                       pkey=pkey, umcast=umcast):
            new = Iface(owner, name, owner.space, pkey)
            new.umcast = umcast
            owner.children.append(new)
        return f"{name} {pkey:#x} at {owner.hca}"

    def create_child(self):
        owner = self.rand.choice(self.owners)
        number = self.rand.choice(KEYS) & \
            (0xffff if self.rand.randrange(2) else 0x7fff)
        if len(owner.children) >= MOST:
            return self.delete()
        name = f"{owner.parent.name}.{number:04x}"
        wanted = 0
        if any(i.pkey == full(number) for i in owner.everything()):
            wanted = errno.ENOTUNIQ
        elif self.taken(owner.space, name):
            wanted = errno.EEXIST
        if self.expect(wanted, write, owner.parent.path("create_child"),
                       f"{number:#x}"):
            new = Iface(owner, name, owner.space, full(number), "sysfs")
            new.umcast = owner.parent.umcast
            owner.children.append(new)
        return name

    def delete_child(self):
        owner, pkey = self.rand.choice(self.owners), self.rand.choice(KEYS)
        found = [i for i in owner.children
                 if i.by == "sysfs" and i.pkey == pkey]
        if self.expect(0 if found else errno.ENODEV, write,
                       owner.parent.path("delete_child"), f"{pkey:#x}"):
            owner.children.remove(found[0])
        return f"{pkey:#x} of {owner.hca}"

    def any_child(self):
        return self.rand.choice([i for owner in self.owners
                                 for i in owner.children] or [None])

    def any_iface(self):
        return self.rand.choice([i for owner in self.owners
                                 for i in owner.everything()])

    def delete(self):
        child = self.any_child()
        if not child:
            return "none"
        self.talk[child.space].delete(child.name)
        child.owner.children.remove(child)
        return child.name

    def delete_many(self):
        owner = self.rand.choice(self.owners)
        some = [i for i in owner.children if i.space is owner.space][:4]
        for child in some:
            self.talk[child.space].group(child.name, 99)
        if some:
            self.talk[owner.space].delete_group(99)
        for child in some:
            owner.children.remove(child)
        return f"{len(some)} of {owner.hca}"

    def grandchild(self):
        child = self.any_child()
        if child:
            self.expect(errno.EINVAL, self.talk[child.space].add,
                        child.space.ifindex(child.name), "never.1",
                        pkey=KEYS[0])
        return child and child.name

    # -- changing

    def up(self):
        iface = self.any_iface()
        self.talk[iface.space].up(iface.name)
        for each in [iface] if iface is not iface.owner.parent or iface.up \
                else iface.owner.everything():
            each.up = True
        return iface.name

    def down(self):
        iface = self.any_iface()
        self.talk[iface.space].down(iface.name)
        for each in [iface] if iface is not iface.owner.parent or \
                not iface.up else iface.owner.everything():
            each.up = False
        return iface.name

    def mtu(self):
        iface, value = self.any_iface(), self.rand.randrange(1280, 4093)
        self.talk[iface.space].mtu(iface.name, value)
        iface.mtu = value
        return f"{iface.name} {value}"

    def mode(self):
        iface = self.any_iface()
        write(iface.path("mode"), "datagram\n")
        return iface.name

    def umcast(self):
        iface, on = self.any_iface(), self.rand.randrange(2)
        if self.rand.randrange(2):
            write(iface.path("umcast"), str(on))
        else:
            self.talk[iface.space].change(iface.name, umcast=on)
        iface.umcast = on
        return f"{iface.name} {on}"

    def rename(self):
        child, new = self.any_child(), self.rand.choice(NAMES)
        if not child or child.up:
            return "none"
        wanted = errno.EEXIST if self.taken(child.space, new) and \
            new != child.name else 0
        old = child.name
        if self.expect(wanted, self.talk[child.space].rename, old, new):
            child.name = new
        return f"{old} {new}"

    def move(self):
        child, space = self.any_child(), self.rand.choice(self.spaces)
        if not child or child.space is space or \
                self.taken(space, child.name):
            return "none"
        self.talk[child.space].move(child.name, space)
        child.space, child.up = space, False
        return f"{child.name} to {space}"

    def address(self):
        """The port's other GUID, or the first one again."""
        iface = self.any_iface()
        port, owner = iface.owner.port(), iface.owner
        second = self.rand.randrange(2)
        if not int(port.gid(1).replace(":", "")[16:], 16):
            port.set("guids", "1")
        old = bytes.fromhex(read(iface.path("address")).replace(":", ""))
        gid = bytes.fromhex(port.gid(second).replace(":", ""))
        if old[4:12] != gid[:8]:
            return "prefix"
        self.talk[iface.space].address(iface.name, old[:12] + gid[8:])
        followers = [iface] if iface is not owner.parent else \
            [i for i in owner.everything() if i.guid == iface.guid]
        for each in followers:
            each.guid = second
        return f"{iface.name} GUID {second}"

    # -- the fabric

    def pkey_away(self):
        port, at = self.rand.choice(self.owners).port(), \
            self.rand.randrange(len(self.table))
        port.set("set_pkey", f"{at + 1} 0")
        return f"{port} {at + 1}"

    def pkey_back(self):
        port, at = self.rand.choice(self.owners).port(), \
            self.rand.randrange(len(self.table))
        port.set("set_pkey", f"{at + 1} {self.table[at]:#x}")
        return f"{port} {at + 1}"

    def flap(self):
        port = self.rand.choice(self.owners).port()
        port.link(False)
        port.link(True)
        return f"{port}"

    def event(self):
        port = self.rand.choice(self.owners).port()
        name = self.rand.choice(["client_reregister", "sm_change",
                                 "lid_change", "pkey_change", "gid_change"])
        port.event(name)
        return f"{port} {name}"

    OPERATIONS = {"create": 12, "create_child": 8, "delete": 6,
                  "delete_child": 4, "delete_many": 1, "grandchild": 1,
                  "up": 12, "down": 8, "mtu": 4, "mode": 1, "umcast": 3,
                  "rename": 4, "move": 5, "address": 3, "pkey_away": 2,
                  "pkey_back": 4, "flap": 1, "event": 4, "unplug": 0.25}

    def step(self):
        name = self.rand.choices(list(self.OPERATIONS),
                                 list(self.OPERATIONS.values()))[0]
        return f"{name}: {getattr(self, name)()}"

    # -- the end

    def settle(self):
        """Give the fabric back what it had, and the ports their GUIDs."""
        for owner in self.owners:
            port = owner.port()
            port.link(True)
            port.wait_active(30)
            for at, key in enumerate(self.table):
                port.set("set_pkey", f"{at + 1} {key:#x}")
            for iface in owner.everything():
                old = bytes.fromhex(read(iface.path("address"))
                                    .replace(":", ""))
                gid = bytes.fromhex(port.gid(0).replace(":", ""))
                self.talk[iface.space].address(iface.name,
                                               old[:12] + gid[8:])

    def check(self):
        """Is everything as the model says?"""
        for space in self.spaces:
            wanted = sorted(i.name for owner in self.owners
                            for i in owner.everything() if i.space is space)
            have = sorted(name for where, name, _ in ifaces([space]))
            ksft_eq(have, wanted, f"interfaces in {space}")
        for owner in self.owners:
            ksft_eq(len(owner.hca.data_qps()),
                    owner.qps + len(owner.children), f"QPs of {owner.hca}")
            for iface in owner.everything():
                self.check_one(iface)

    @staticmethod
    def check_one(iface):
        where = f"{iface.name} in {iface.space}"
        ksft_eq(int(read(iface.path("pkey")), 0), iface.pkey, where)
        ksft_eq(int(read(iface.path("umcast"))), iface.umcast, where)
        ksft_eq(int(read(iface.path("flags")), 0) & 1, int(iface.up),
                f"{where} up")
        if iface is not iface.owner.parent:
            ksft_eq(read(iface.path("parent")), iface.owner.parent.name)
        if not iface.up:
            return
        wait_until(lambda: read(iface.path("carrier")) == "1", 40,
                   f"a carrier of {where}")
        mtu = min(iface.mtu or 4092, 2044)
        wait_until(lambda: int(read(iface.path("mtu"))) == mtu, 10,
                   f"MTU {mtu} of {where}")

    def talk_to_each_other(self):
        """All that are up in a partition, on two HCAs, exchange packets."""
        a, b = self.owners[:2]
        for number, pkey in enumerate([0xffff, *KEYS]):
            some = [next((i for i in owner.everything()
                          if i.up and i.pkey == pkey), None)
                    for owner in (a, b)]
            if None in some:
                continue
            for which, iface in enumerate(some):
                ip(["addr", "replace", f"10.8.{number}.{which + 1}/24",
                    "dev", iface.name], ns=iface.space)
            if some[0].space is some[1].space:
                continue
            wait_until(lambda: ping(some[0].space, f"10.8.{number}.2",
                                    limit=0.5), 20,
                       f"{pkey:#x}: {some[0].name} to {some[1].name}")


@timeout(900)
def test_random():
    """After thousands of operations all is as the model says, and works."""
    drop_all()
    ends()
    drop_all()
    debug = exists("/sys/kernel/debug/kmemleak")
    seed = int(os.environ.get("IPOIB_SEED") or random.randrange(1 << 32))
    count = int(os.environ.get("IPOIB_OPS") or (400 if debug else 2000))
    ksft_pr(f"IPOIB_SEED={seed} IPOIB_OPS={count}")
    spaces = [Netns(name).add() for name in ("r1", "r2", "r3")]
    for space in spaces:
        defer(space.delete)
    owners = [Owner(number, space) for number, space in enumerate(spaces)]
    machine = Machine(random.Random(seed), owners, spaces)
    defer(delete_all, machine)
    flood = Flood(Place(spaces[0]), "10.9.0.2", size=500, gap=0.004)
    defer(flood.stop)
    done = []
    try:
        for number in range(count):
            done.append(machine.step())
            if number % 100 == 99:
                ksft_pr(f"{number + 1} operations, {flood.sent} datagrams")
    finally:
        if len(done) < count:
            ksft_pr("the last ones:", *[f"\n{what}" for what in done[-12:]])
    machine.settle()
    machine.check()
    machine.talk_to_each_other()


class Place:
    """What Flood wants to know of a sender."""

    def __init__(self, space):
        self.ns = space


def delete_all(machine):
    """Delete the children, wherever they are."""
    for space, name, _ in ifaces([ROOT, *machine.spaces]):
        if exists(space.sys(f"class/net/{name}/parent")):
            ip(["link", "del", name], ns=space, fail=False)
    for talk in machine.talk.values():
        talk.close()


if __name__ == "__main__":
    main(globals())
