# SPDX-License-Identifier: GPL-2.0-only
"""Each call of ib_ipoib that can fail does, during all that is done to interfaces.

Once, twice, and for as long as an operation lasts.  It is refused or it works; when
nothing fails any more it works, and nothing is left over.
"""

import contextlib
import errno
import os
import re

from lib import (Netns, defer, define, ends, ensure_module, exists, fabric, hca,
                 ifaces, load_module, loaded, mcast_receiver, mgid_of, neigh_flush,
                 ping, read, sm, timeout, unload_module, wait_until)
from lib.child import children, create_child, delete_child, sysfs_name
from lib.connected import (both_connected, established, mode, set_mode, to_datagram,
                           wait_connected)
from lib.ipoib import drop_all
from lib.partitions import ONE
from lib.rtnl import Rtnl
from lib.sites import Module, Operation, Site, all_reached, every, met, works
from lib.traffic import mcast_join, mcast_leave, mcast_start

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 1250, "group": "sites",
        "partitions": ONE}
VERBS_ONLY = "the driver's own verbs fail"

IPOIB = Module("ib_ipoib", "IPOIB_MODULE")
PKEY = 0x8001
GROUP = "239.31.0.1"


def hosts():
    """
    Two hosts, and a socket for requests to the second one, whose interface things are
    done to: OpenSM runs on the first one's HCA.
    """
    pair = ends()
    end = pair.b
    defer(end.up)
    talk = Rtnl(end.ns)
    defer(talk.close)
    keep = f"net.ipv6.conf.{end.ifname}.keep_addr_on_down"
    defer(end.ns.sysctl, keep, end.ns.sysctl(keep))
    end.ns.sysctl(keep, 1)
    return pair, end, talk


def groups(end):
    """Of an interface: {MGID: is it joined?}"""
    text = read(f"/sys/kernel/debug/ipoib/{end.ifname}_mcg")
    return {part.split("\n")[0]: bool(re.search("complete: +yes", part))
            for part in text.split("GID: ")[1:]}


def idle(end):
    """It is up, and waits for nothing."""
    return end.carrier() and end.state()["state"] == "up" and all(groups(end).values())


def up(end, talk):
    """It is brought up, if it was not, and has its groups."""
    talk.up(end.ifname)
    wait_until(lambda: idle(end), 30, f"{end} up")


# ---- interfaces ------------------------------------------------------------


def opened():
    pair, end, talk = hosts()
    return Operation("open", before=lambda: talk.down(end.ifname),
                     act=lambda: talk.up(end.ifname), done=lambda: idle(end),
                     undo=lambda: talk.down(end.ifname), works=lambda: works(pair))


def closed():
    pair, end, talk = hosts()

    def works_again():
        up(end, talk)
        works(pair)
    return Operation("close", before=lambda: up(end, talk),
                     act=lambda: talk.down(end.ifname),
                     done=lambda: end.state()["state"] == "closed", works=works_again)


def mtu():
    pair, end, talk = hosts()
    return Operation("MTU", before=lambda: talk.mtu(end.ifname, end.default_mtu),
                     act=lambda: talk.mtu(end.ifname, 1500), works=lambda: works(pair))


def ethtool(name, end, pair, before, act):
    """Queues are replaced by others."""
    defer(end.ethtool, before, False)
    return Operation(name, before=lambda: end.ethtool(before, fail=False),
                     act=lambda: end.ethtool(act), done=lambda: idle(end),
                     works=lambda: works(pair))


def rings():
    pair, end, _ = hosts()
    return ethtool("rings", end, pair, "-G tx 128 rx 256", "-G tx 256 rx 512")


def more_channels():
    pair, end, _ = hosts()
    defer(end.ethtool, f"-L tx {os.cpu_count()}", False)
    return ethtool("more channels", end, pair, "-L tx 1", f"-L tx {os.cpu_count()}")


def fewer_channels():
    pair, end, _ = hosts()
    return ethtool("fewer channels", end, pair, f"-L tx {os.cpu_count()}", "-L tx 1")


def restarted():
    pair, end, talk = hosts()

    def running():
        return idle(end) and {qp.state for qp in end.port.hca.data_qps("UD")} == {"RTS"}
    return Operation("restart after a fatal error", before=lambda: up(end, talk),
                     act=lambda: end.port.hca.break_qp(f"{end.qpn():#x}"),
                     done=running, works=lambda: works(pair))


def moved():
    pair, end, talk = hosts()
    home, away = end.ns, Netns("away").add()
    defer(away.delete)
    there = Rtnl(away)
    defer(there.close)

    def back():
        if end.ns is away:
            there.move(end.ifname, home)
            end.ns = home
            end.up()
        up(end, talk)
    defer(back)

    def move():
        talk.move(end.ifname, away)
        end.ns = away
        end.up()
        try:
            there.up(end.ifname)
        except OSError:
            there.move(end.ifname, home)
            end.ns = home
            raise
    return Operation("namespace", before=back, act=move, done=lambda: idle(end),
                     works=lambda: works(pair))


# ---- children --------------------------------------------------------------


def make_child(name, add, delete, ifname):
    """An interface of another partition, which is used and deleted again."""
    pair, end, talk = hosts()
    both = children(pair, PKEY)
    child = both.b
    child.delete(fail=True)
    child.ifname = ifname or sysfs_name(end, PKEY & 0x7fff)

    def there():
        return exists(child.sys("ifindex"))

    def without():
        if there():
            delete(end, talk, child)

    def usable():
        child.up()
        both.ready(30)
        works(pair)
    return Operation(name, before=without, act=lambda: add(end, talk, child),
                     done=there, works=usable), without, there, usable


def by_netlink(end, talk, child):
    talk.add(end.ifindex(), child.ifname, pkey=PKEY)


def by_sysfs(end, _talk, _child):
    create_child(end, PKEY & 0x7fff)


def del_netlink(_end, talk, child):
    talk.delete(child.ifname)


def del_sysfs(end, _talk, _child):
    delete_child(end, PKEY & 0x7fff)


def child_made():
    return make_child("child by netlink", by_netlink, del_netlink, "kid")[0]


def child_written():
    return make_child("child by sysfs", by_sysfs, del_sysfs, None)[0]


def child_gone(name, add, delete, ifname):
    """The other way round."""
    made, without, there, usable = make_child(name, add, delete, ifname)

    def with_child():
        if not there():
            made.act()
        usable()

    def without_child():
        works(ends())
    return Operation(name, before=with_child, act=without,
                     done=lambda: not there(), works=without_child)


def child_deleted():
    return child_gone("child deleted by netlink", by_netlink, del_netlink, "kid")


def child_erased():
    return child_gone("child deleted by sysfs", by_sysfs, del_sysfs, None)


def pkey_moved():
    """The P_Key of a child is at another place of the port's table."""
    pair, end, _ = hosts()
    both = children(pair, PKEY)
    child, where = both.b, end.port
    sm.quiet()
    first = next(n for n in range(16) if where.pkey(n) & 0x7fff == PKEY & 0x7fff)

    def place(index, other):
        where.set("set_pkey", f"{other} 0")
        met(lambda: child.state()["state"] != "up", 1)
        where.set("set_pkey", f"{index} {PKEY:#06x}")

    def back():
        if where.pkey(first) != PKEY:
            place(first, 9)
        wait_until(lambda: idle(child), 30, "the child up")
    defer(back)

    def usable():
        both.ready(30)
        works(pair)
    return Operation("P_Key moves", before=back, act=lambda: place(9, first),
                     done=lambda: idle(child), works=usable)


# ---- groups, paths, connections ---------------------------------------------


def group_joined():
    pair, end, _ = hosts()
    sink = mcast_receiver(end, GROUP, join=False)
    defer(sink.close)
    mgid = mgid_of(GROUP).hex(":", 2)

    def leave():
        with contextlib.suppress(OSError):
            mcast_leave(sink.sock, GROUP, end.ifindex())
        wait_until(lambda: mgid not in groups(end), 20, f"{GROUP} left")
    return Operation("join", before=leave,
                     act=lambda: mcast_join(sink.sock, GROUP, end.ifindex()),
                     done=lambda: groups(end)[mgid],
                     works=lambda: mcast_start(pair.a, GROUP, sink))


def group_left():
    pair, end, _ = hosts()
    sink = mcast_receiver(end, GROUP)
    defer(sink.close)
    mgid = mgid_of(GROUP).hex(":", 2)

    def join():
        with contextlib.suppress(OSError):
            mcast_join(sink.sock, GROUP, end.ifindex())
        mcast_start(pair.a, GROUP, sink)
    return Operation("leave", before=join,
                     act=lambda: mcast_leave(sink.sock, GROUP, end.ifindex()),
                     done=lambda: mgid not in groups(end), works=lambda: works(pair))


def path():
    """A peer is found by an interface that knows none."""
    pair, end, talk = hosts()

    def forget():
        talk.down(end.ifname)
        up(end, talk)
        neigh_flush(end)
    return Operation("path", before=forget,
                     act=lambda: ping(end.ns, pair.a.v4, limit=0.3),
                     done=lambda: ping(end.ns, pair.a.v4, limit=0.3),
                     works=lambda: works(pair))


def to_connected():
    pair, end, _ = hosts()
    defer(to_datagram, end)
    return Operation("to connected mode", before=lambda: to_datagram(end),
                     act=lambda: set_mode(end, "connected"), done=lambda: idle(end),
                     works=lambda: works(pair))


def from_connected():
    pair, end, _ = hosts()
    both_connected(pair)

    def connected():
        """
        Anew at both ends, without QPs of before that could not be destroyed at once:
        beside them a connection uses the queues of another channel.
        """
        if mode(end) != "connected":
            to_datagram(pair.a)
            wait_until(lambda: not any(e.port.hca.data_qps("RC") for e in pair), 15,
                       "no connections")
            for each in pair:
                set_mode(each, "connected")
        wait_connected(end, pair.a, 40)
    return Operation("to datagram mode", before=connected,
                     act=lambda: set_mode(end, "datagram"), done=lambda: idle(end),
                     works=lambda: works(pair))


def connection(name, pair, src, dst):
    """
    A connection is opened by one host and accepted by the other: both are this driver.
    Until there is one, datagrams will do.
    """
    both_connected(pair, connect=False)

    def apart():
        for end in pair:
            set_mode(end, "datagram")
        for end in pair:
            set_mode(end, "connected")
            neigh_flush(end)
        for end in pair:
            wait_until(lambda e=end: idle(e), 30, f"{end} up")

    def usable():
        works(pair)
        wait_connected(src, dst, 40)
    return Operation(name, before=apart, act=lambda: ping(src.ns, dst.v4, limit=0.3),
                     done=lambda: ping(src.ns, dst.v4, limit=0.3) and
                     established(src, "us"), works=usable)


def connected():
    pair = hosts()[0]
    return connection("connect", pair, pair.b, pair.a)


def accepted():
    pair = hosts()[0]
    return connection("accept", pair, pair.a, pair.b)


# ---- HCAs and the module ------------------------------------------------------


def another():
    """An HCA that comes and goes: (HCA, its interface is there, it goes)."""
    pair, new = ends(), hca(7)
    count = len(ifaces())

    def gone():
        if new.exists():
            new.unplug()
        wait_until(lambda: len(ifaces()) == count, 10, "no interface of it")
    defer(gone)
    return pair, new, lambda: len(ifaces()) == count + 1, gone


def probe():
    pair, new, there, gone = another()

    def plug():
        new.plug()
        if not met(there, 1):
            # Nobody is told; the log has it.
            gone()
            raise OSError(errno.ENODEV, "no interface")
    return Operation("HCA plugged", before=gone, act=plug, done=there,
                     works=lambda: works(pair))


def remove():
    pair, new, there, gone = another()

    def plugged():
        if not new.exists():
            new.plug()
        wait_until(there, 10, "its interface")
    return Operation("HCA pulled", before=plugged, act=gone, works=lambda: works(pair),
                     last=True)


def without_module():
    drop_all()
    if loaded():
        unload_module(40)


def load():
    """
    Where a module will be is not known: the verbs that nobody else calls meanwhile fail
    wherever it calls them.
    """
    ends()
    defer(ensure_module)
    count = len(fabric.hcas())

    def insert():
        load_module()
        if not met(lambda: len(ifaces()) == count, 1):
            unload_module(40)
            raise OSError(errno.ENODEV, "an interface is missing")
    return Operation("load", before=without_module, act=insert,
                     works=lambda: works(ends()),
                     sites=[Site(name, None, "any place") for name in
                            ("alloc_pd", "create_cq", "create_srq", "create_qp",
                             "modify_qp")])


def unload():
    defer(ensure_module)

    def usable():
        ensure_module()
        works(ends())
    return Operation("unload", before=usable, act=without_module,
                     done=lambda: not loaded(), works=usable, last=True)


@timeout(1500)
def fail_each(make):
    """Each call of the driver that is made then fails: nothing is lost for good."""
    every(make, IPOIB)


CASES = {
    "test_open": opened,
    "test_close": closed,
    "test_mtu": mtu,
    "test_rings": rings,
    "test_more_channels": more_channels,
    "test_fewer_channels": fewer_channels,
    "test_restart": restarted,
    "test_namespace": moved,
    "test_child_netlink": child_made,
    "test_child_sysfs": child_written,
    "test_child_deleted": child_deleted,
    "test_child_deleted_sysfs": child_erased,
    "test_pkey": pkey_moved,
    "test_join": group_joined,
    "test_leave": group_left,
    "test_path": path,
    "test_to_connected": to_connected,
    "test_from_connected": from_connected,
    "test_connect": connected,
    "test_accept": accepted,
    "test_probe": probe,
    "test_remove": remove,
    "test_load": load,
    "test_unload": unload,
}
define(globals(), CASES, fail_each)


@timeout(900)
def test_reached():
    """They reach every call that can fail, or sites.unreached says why not."""
    all_reached(IPOIB, [make for make in CASES.values() if make is not load])
