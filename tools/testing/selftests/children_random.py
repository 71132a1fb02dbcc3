# SPDX-License-Identifier: GPL-2.0-only
"""
A long random sequence of all one can do to interfaces, under traffic.

A model follows each operation, refusals included, and in the end says which
interfaces there are, and with what settings.  The seed is printed; with the
environment variables IPOIB_SEED and IPOIB_OPS (--env of tools/testing/vm/run)
a sequence is run again.  On a kernel that looks for defects it is shorter.
"""

import collections
import errno
import os
import random

from lib import (Failed, Flood, Netns, ROOT, defer, ends, exists, hca, ifaces, ip,
                 ksft_eq, ksft_ge, ksft_pr, ping, read, sm, timeout, wait_until,
                 write)
from lib.child import errno_of, full
from lib.ipoib import drop_all, iface_of
from lib.rtnl import IFLA_MTU, Rtnl, attr
from lib.sa import alias_guid, guid_at

BOOT = {"ipoib": "ours", "hcas": 3, "seconds": 240}

KEYS = [0x8001 + n for n in range(6)]
MOST = 12
NAMES = [f"r.{n}" for n in range(40)]
MODES = ("datagram", "connected")
# By the mode: the largest MTU, and the one that the broadcast groups allow
MTU_MOST, MTU_USED = (4092, 65520), (2044, 65520)
# Where in a port's GUID table it has another one
ALIAS = 1


class Iface:
    """What the model knows of an interface."""

    def __init__(self, owner, name, space, pkey, by="rtnl"):
        self.owner, self.name, self.space = owner, name, space
        self.pkey, self.by = pkey, by
        self.up, self.umcast, self.mode = False, 0, 0
        self.mtu, self.guid = None, 0

    def path(self, file):
        return self.space.sys(f"class/net/{self.name}/{file}")


class Owner:
    """A port, with its own interface and the children of that."""

    def __init__(self, number, space):
        self.hca, self.space = hca(number), space
        self.parent, self.children, self.qps = None, [], 0
        self.aliases = 0

    def port(self):
        return self.hca.port()

    def everything(self):
        return [self.parent, *self.children]

    def know_alias(self):
        """
        Let the SM know the port's second GUID, which it forgets: another one
        each time, as it may think that a port that was pulled has the last.
        """
        port = self.port()
        if guid_at(port, ALIAS):
            return
        self.aliases += 1
        try:
            alias_guid(port, ALIAS, port.guid() | self.aliases << 32,
                       keep=True)
        except Failed as error:
            ksft_pr(f"{port} has no second GUID: {error}")

    def address(self, pkey):
        """That of the interfaces in a partition."""
        net = [0xffff, *KEYS].index(pkey)
        return f"10.8.{net}.{self.hca.number + 1}"


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
        sm.revive()
        port.wait_active(30)
        owner.know_alias()
        space, name = wait_until(lambda: iface_of(port), 15,
                                 f"an interface of {port}")
        new = f"ib{owner.hca.number}h"
        ip(["link", "set", name, "netns", owner.space.name, "name", new],
           ns=space)
        owner.parent = Iface(owner, new, owner.space, 0xffff)
        owner.children = []
        owner.qps = len(owner.hca.data_qps("UD"))
        self.bring_up(owner.parent)

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
            return None
        new = Iface(owner, self.rand.choice(NAMES), owner.space, pkey)
        new.umcast, new.mode = self.rand.randrange(2), self.rand.randrange(2)
        more = b""
        if self.rand.randrange(2):
            new.mtu = self.rand.randrange(1280, MTU_MOST[new.mode] + 1)
            more = attr(IFLA_MTU, new.mtu)
        index = owner.space.ifindex(owner.parent.name)
        wanted = errno.EEXIST if self.taken(owner.space, new.name) else 0
        if self.expect(wanted, self.talk[owner.space].add, index, new.name,
                       more, pkey=pkey, umcast=new.umcast, mode=new.mode):
            self.born(new)
        return f"{new.name} {pkey:#x} at {owner.hca}"

    @staticmethod
    def born(new):
        new.guid = new.owner.parent.guid
        new.owner.children.append(new)

    def create_child(self):
        owner = self.rand.choice(self.owners)
        number = self.rand.choice(KEYS) & \
            (0xffff if self.rand.randrange(2) else 0x7fff)
        if len(owner.children) >= MOST:
            return None
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
            self.born(new)
        return name

    def delete_child(self):
        owner, pkey = self.rand.choice(self.owners), self.rand.choice(KEYS)
        found = [i for i in owner.children
                 if i.by == "sysfs" and i.pkey == pkey]
        if self.expect(0 if found else errno.ENODEV, write,
                       owner.parent.path("delete_child"), f"{pkey:#x}"):
            owner.children.remove(found[0])
        return f"{pkey:#x} of {owner.hca}"

    def any_child(self, fit=lambda child: True):
        return self.rand.choice([i for owner in self.owners
                                 for i in owner.children if fit(i)] or [None])

    def any_iface(self):
        return self.rand.choice([i for owner in self.owners
                                 for i in owner.everything()])

    def delete(self):
        child = self.any_child()
        if not child:
            return None
        self.talk[child.space].delete(child.name)
        child.owner.children.remove(child)
        return child.name

    def delete_many(self):
        owner = self.rand.choice(self.owners)
        some = [i for i in owner.children if i.space is owner.space][:4]
        if not some:
            return None
        for child in some:
            self.talk[child.space].group(child.name, 99)
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

    def bring_up(self, iface):
        self.talk[iface.space].up(iface.name)
        for each in [iface] if iface is not iface.owner.parent or iface.up \
                else iface.owner.everything():
            each.up = True
        self.talk[iface.space].add_address(iface.name,
                                           iface.owner.address(iface.pkey))

    def up(self):
        iface = self.any_iface()
        self.bring_up(iface)
        return iface.name

    def down(self):
        # A parent takes everything down with it, so not often.
        iface = self.rand.randrange(6) and self.any_child() or \
            self.any_iface()
        self.talk[iface.space].down(iface.name)
        for each in [iface] if iface is not iface.owner.parent or \
                not iface.up else iface.owner.everything():
            each.up = False
        return iface.name

    def mtu(self):
        iface = self.any_iface()
        value = self.rand.randrange(1280, MTU_MOST[iface.mode] + 1)
        self.talk[iface.space].mtu(iface.name, value)
        iface.mtu = value
        return f"{iface.name} {value}"

    def mode(self):
        """To the other mode as a rule; the MTU is that mode's largest then."""
        iface, mode = self.any_iface(), self.rand.choice((0, 1, 1))
        if self.rand.randrange(2):
            write(iface.path("mode"), MODES[mode] + "\n")
        else:
            self.talk[iface.space].change(iface.name, mode=mode)
        if mode != iface.mode:
            iface.mode, iface.mtu = mode, None
        return f"{iface.name} {MODES[mode]}"

    def umcast(self):
        iface, on = self.any_iface(), self.rand.randrange(2)
        if self.rand.randrange(2):
            write(iface.path("umcast"), str(on))
        else:
            self.talk[iface.space].change(iface.name, umcast=on)
        iface.umcast = on
        return f"{iface.name} {on}"

    def rename(self):
        child = self.any_child(lambda child: not child.up)
        new = self.rand.choice(NAMES)
        if not child:
            return None
        wanted = errno.EEXIST if self.taken(child.space, new) and \
            new != child.name else 0
        old = child.name
        if self.expect(wanted, self.talk[child.space].rename, old, new):
            child.name = new
        return f"{old} {new}"

    def move(self):
        space = self.rand.choice(self.spaces)
        child = self.any_child(lambda child: child.space is not space and
                               not self.taken(space, child.name))
        if not child:
            return None
        self.talk[child.space].move(child.name, space)
        child.space, child.up = space, False
        return f"{child.name} to {space}"

    def address(self):
        """The port's other GUID, or the first one again."""
        iface, second = self.any_iface(), self.rand.randrange(2)
        owner = iface.owner
        if not guid_at(owner.port(), ALIAS):
            second = 0      # OpenSM did not grant the other
        self.talk[iface.space].address(
            iface.name, address_of(iface)[:12] + gid_of(owner, second)[8:])
        followers = [iface] if iface is not owner.parent else \
            [i for i in owner.everything() if i.guid == iface.guid]
        for each in followers:
            each.guid = second * ALIAS
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
                  "up": 12, "down": 8, "mtu": 4, "mode": 5, "umcast": 3,
                  "rename": 4, "move": 5, "address": 4, "pkey_away": 2,
                  "pkey_back": 4, "flap": 1, "event": 4, "unplug": 0.4}

    def step(self):
        """One operation, of those that can be done now: its name, and what."""
        what = None
        while what is None:
            name = self.rand.choices(list(self.OPERATIONS),
                                     list(self.OPERATIONS.values()))[0]
            what = getattr(self, name)()
        return name, what

    # -- the end

    def settle(self):
        """Give the fabric back what it had."""
        for owner in self.owners:
            port = owner.port()
            port.link(True)
            port.wait_active(30)
            for at, key in enumerate(self.table):
                port.set("set_pkey", f"{at + 1} {key:#x}")
            sm.revive()
            owner.know_alias()

    def check(self):
        """Is everything as the model says?"""
        for space in self.spaces:
            wanted = sorted(i.name for owner in self.owners
                            for i in owner.everything() if i.space is space)
            have = sorted(name for where, name, _ in ifaces([space]))
            ksft_eq(have, wanted, f"interfaces in {space}")
        for owner in self.owners:
            ksft_eq(len(owner.hca.data_qps("UD")),
                    owner.qps + len(owner.children), f"QPs of {owner.hca}")
            for iface in owner.everything():
                self.check_one(iface)

    @staticmethod
    def check_one(iface):
        where = f"{iface.name} in {iface.space}"
        ksft_eq(int(read(iface.path("pkey")), 0), iface.pkey, where)
        ksft_eq(int(read(iface.path("umcast"))), iface.umcast, where)
        ksft_eq(read(iface.path("mode")), MODES[iface.mode], where)
        address = wait_until(lambda: address_of(iface), 1)
        ksft_eq(address[4:], gid_of(iface.owner, iface.guid), where)
        ksft_eq(address[0], 0x80 if iface.mode else 0, where)
        ksft_eq(int(read(iface.path("flags")), 0) & 1, int(iface.up),
                f"{where} up")
        if iface is not iface.owner.parent:
            ksft_eq(read(iface.path("parent")), iface.owner.parent.name)
        if not iface.up:
            return
        wait_until(lambda: read(iface.path("carrier")) == "1", 40,
                   f"a carrier of {where}")
        mtu = min(iface.mtu or MTU_MOST[iface.mode], MTU_USED[iface.mode])
        wait_until(lambda: int(read(iface.path("mtu"))) == mtu, 10,
                   f"MTU {mtu} of {where}")

    def talk_to_each_other(self):
        """All that are up in a partition, on two HCAs, exchange packets."""
        a, b = self.owners[:2]
        for pkey in (0xffff, *KEYS):
            some = [next((i for i in owner.everything()
                          if i.up and i.pkey == pkey), None)
                    for owner in (a, b)]
            if None in some:
                continue
            for iface in some:
                self.talk[iface.space].add_address(iface.name,
                                                   iface.owner.address(pkey))
            if some[0].space is some[1].space:
                continue
            wait_until(lambda: ping(some[0].space, b.address(pkey),
                                    limit=0.5), 20,
                       f"{pkey:#x}: {some[0].name} to {some[1].name}")


@timeout(1200)
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
    floods = [Flood(Place(owners[number % 2].space),
                    owners[1 - number % 2].address(pkey),
                    size=300 + 700 * number, gap=0.02)
              for number, pkey in enumerate((0xffff, *KEYS))]
    for flood in floods:
        defer(flood.stop)
    done = []
    try:
        for number in range(count):
            done.append(machine.step())
            if number % 100 == 99:
                ksft_pr(f"{number + 1} operations, datagrams sent:",
                        *[flood.sent for flood in floods])
    finally:
        if len(done) < count:
            ksft_pr("the last ones:", *[f"\n{name}: {what}"
                                        for name, what in done[-12:]])
    times = collections.Counter(name for name, _ in done)
    ksft_pr("of each kind:", *[f"{name} {times[name]}"
                               for name in machine.OPERATIONS])
    if count >= 2000:
        ksft_ge(min(times[name] for name in machine.OPERATIONS), 1)
    machine.settle()
    machine.check()
    machine.talk_to_each_other()


def address_of(iface):
    return bytes.fromhex(read(iface.path("address")).replace(":", ""))


def gid_of(owner, index):
    return bytes.fromhex(owner.port().gid(index).replace(":", ""))


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
