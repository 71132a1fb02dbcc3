# SPDX-License-Identifier: GPL-2.0-only
"""
Everything at once: commands and events at random, from all CPUs, under traffic.

Several threads, each with a kind of thing to do, do it as fast as they are answered
and wait for nobody.  Much of it is refused: another one has just removed what it was
about.  What counts is that each answer comes in time, that none is one that no user
should get, that in the end all works again, and what the kernel says of itself.

"make stress MINUTES=30 SEED=1 DEBUG=1"; the seed says what each thread does, not how
they meet.
"""

import collections
import contextlib
import errno
import os
import random
import socket
import threading
import time

from lib import (Failed, Flood, cmd, ends, hca, hold, ifaces, ip, ksft_eq, ksft_pr,
                 load_module, ping, port, read, slow, sm, tcp_transfer, timeout,
                 unload_module, wait_until, write)
from lib.connected import set_mode
from lib.ethernet import Ethernet, load, unload
from lib.genl import ethernet, family
from lib.ipoib import drop_all
from lib.rtnl import Rtnl

BOOT = {"hcas": 3, "cpus": 2, "mem": 2048, "needs": "ethernet iproute2",
        "seconds": 420}
MINUTES = float(os.environ.get("IPOIB_MINUTES") or 5)
KEYS = [0x8001 + n for n in range(4)]
NAMES = [f"s.{n}" for n in range(8)]
MODES = ("datagram", "connected")
# An answer takes no longer, whatever else is going on: tearing a wedged HCA's objects
# down has a deadline of its own, and rtnl is shared by all.
LONGEST = 60
# What commands may be answered while others change what they are about.
MAY_BE = {errno.ENODEV, errno.ENOENT, errno.EEXIST, errno.ENOTUNIQ, errno.EBUSY,
          errno.EINVAL, errno.ENETDOWN, errno.EAGAIN, errno.EADDRINUSE, errno.ENXIO,
          errno.ENOMEM, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL,
          errno.EOPNOTSUPP, errno.ENOSPC, errno.ETIMEDOUT, errno.EIO,
          errno.ENOTCONN, errno.ECONNREFUSED, errno.EINTR, errno.ERANGE, errno.EMSGSIZE}


class Hand(threading.Thread):
    """Does things of one kind: the methods that begin with do_."""

    pause = 0.0         # between two of them, seconds

    def __init__(self, scene):
        super().__init__(name=type(self).__name__, daemon=True)
        self.scene, self.failed = scene, []
        self.rand = random.Random(f"{scene.seed} {self.name}")
        self.names = sorted(name for name in dir(self) if name.startswith("do_"))
        self.done, self.answers = collections.Counter(), collections.Counter()
        self.longest = (0, "")
        self.now = None

    def step(self):
        name = self.rand.choice(self.names)
        begin = time.monotonic()
        self.now = name, begin
        try:
            getattr(self, name)()
            self.done[name] += 1
        except OSError as error:
            self.answers[name, errno.errorcode.get(error.errno, str(error))] += 1
            if error.errno not in MAY_BE and not isinstance(error, TimeoutError):
                self.failed.append(f"{name}: {error!r}")
        except Failed as error:         # of programs, which say what they were told
            self.answers[name, "refused"] += 1
            if "checksums" in str(error):
                self.failed.append(f"{name}: {error}")
        self.now = None
        self.longest = max(self.longest, (time.monotonic() - begin, name))

    def run(self):
        try:
            while not self.scene.over.wait(self.pause and
                                           self.rand.random() * 2 * self.pause):
                self.step()
        except Exception as error:  # pylint: disable=broad-except
            self.failed.append(f"{self.now}: {error!r}")

    # -- what there is to choose from

    def end(self):
        return self.rand.choice(self.scene.ends)

    def iface(self):
        """(socket, path of its attributes, name) of an interface of an end."""
        end = self.end()
        name = self.rand.choice([end.ifname, *NAMES])
        return self.talk(end), end.ns.sys(f"class/net/{name}"), name

    def talk(self, end):
        """Each thread has sockets of its own."""
        return self.scene.talk(self, end.ns)


class Children(Hand):
    """Children come and go, by netlink and sysfs."""

    def do_add(self):
        end = self.end()
        self.talk(end).add(end.ns.ifindex(end.ifname), self.rand.choice(NAMES),
                           pkey=self.rand.choice(KEYS), umcast=self.rand.randrange(2),
                           mode=self.rand.randrange(2))

    def do_up(self):
        talk, _, name = self.iface()
        talk.up(name)
        talk.add_address(name, f"10.8.{self.rand.randrange(4)}."
                               f"{self.rand.randrange(1, 250)}")

    def do_create(self):
        end = self.end()
        write(end.ns.sys(f"class/net/{end.ifname}/create_child"),
              f"{self.rand.choice(KEYS):#x}")

    def do_delete_child(self):
        end = self.end()
        write(end.ns.sys(f"class/net/{end.ifname}/delete_child"),
              f"{self.rand.choice(KEYS):#x}")

    def do_delete(self):
        self.talk(self.end()).delete(self.rand.choice(NAMES))

    def do_move(self):
        one, other = self.scene.ends
        self.talk(one).move(self.rand.choice(NAMES), other.ns)

    def do_back(self):
        one, other = self.scene.ends
        self.talk(other).move(self.rand.choice(NAMES), one.ns)


class Settings(Hand):
    """Everything that can be set is."""

    pause = 0.05

    def do_down(self):
        talk, _, name = self.iface()
        talk.down(name)
        talk.up(name)

    def do_mtu(self):
        talk, _, name = self.iface()
        talk.mtu(name, self.rand.choice((1280, 2044, 4092, 9000, 65520)))

    def do_mode(self):
        write(self.iface()[1] + "/mode", self.rand.choice(MODES) + "\n")

    def do_mode_netlink(self):
        talk, _, name = self.iface()
        talk.change(name, mode=self.rand.randrange(2))

    def do_umcast(self):
        write(self.iface()[1] + "/umcast", self.rand.choice("01"))

    def ethtool(self, *words):
        end = self.end()
        cmd(["ethtool", words[0], end.ifname, *words[1:]], ns=end.ns,
            timeout=slow(LONGEST))

    def do_rings(self):
        self.ethtool("-G", "rx", 1 << self.rand.randrange(7, 11),
                     "tx", 1 << self.rand.randrange(7, 11))

    def do_channels(self):
        self.ethtool("-L", "combined", self.rand.randrange(1, 4))

    def do_moderation(self):
        self.ethtool("-C", "adaptive-rx", self.rand.choice(("on", "off")))

    def do_offloads(self):
        self.ethtool("-K", self.rand.choice(("tso", "gro", "tx", "rx", "sg")),
                     self.rand.choice(("on", "off")))


class Bridges(Hand):
    """Ethernet interfaces on top come and go; a guest behind the bridge sends."""

    pause = 0.1

    def do_add(self):
        end = self.end()
        below = self.rand.choice([end.ifname, *NAMES])
        self.talk(end).add(end.ns.ifindex(below), "eibs", kind="eipoib",
                           guard=bytes([self.rand.randrange(2)]))

    def do_plug(self):
        end = self.end()
        self.talk(end).enslave("eibs", "br0")

    def do_delete(self):
        self.talk(self.end()).delete("eibs")

    def do_down(self):
        talk = self.talk(self.end())
        talk.down("eib0")
        talk.up("eib0")

    def do_move_guest(self):
        guest = self.rand.choice(self.scene.guests)
        guest.move(self.rand.choice(self.scene.hosts))


class Readers(Hand):
    """Everything that can be read is."""

    def do_sysfs(self):
        _, path, _ = self.iface()
        for name in os.listdir(path):
            with contextlib.suppress(OSError):
                read(f"{path}/{name}")

    def do_debugfs(self):
        for top, _, names in os.walk("/sys/kernel/debug/ipoib"):
            for name in names:
                with contextlib.suppress(OSError):
                    read(f"{top}/{name}")

    def do_links(self):
        ip("-s -d link", ns=self.end().ns)

    def do_ethtool(self):
        end = self.end()
        for option in "-S", "-i", "-g", "-l", "-k", "-c", "-T":
            cmd(["ethtool", option, end.ifname], ns=end.ns, fail=False)

    def do_tables(self):
        end = self.end()
        for what in "dev-get", "neigh-get", "group-get", "conn-get":
            self.scene.families[end].get(what, end.ns.ifindex(end.ifname))

    def do_ethernet_tables(self):
        host = self.rand.choice(self.scene.hosts)
        for what in "guest-get", "peer-get", "group-get":
            self.scene.families[host].get(what, host.ifindex())


class Traffic(Hand):
    """Connections, groups, neighbours; floods run beside."""

    def pair(self):
        ends_ = self.scene.places
        return self.rand.sample(ends_, 2)

    def do_ping(self):
        src, dst = self.pair()
        ping(src.ns, self.rand.choice((dst.v4, dst.v6)),
             size=self.rand.choice((56, 1900, 8000)), limit=0.2)

    def do_stream(self):
        src, dst = self.pair()
        tcp_transfer(src, dst, 1 << self.rand.randrange(10, 19), connect_limit=3,
                     limit=self.rand.choice((0.5, 3)))

    def do_group(self):
        src, _ = self.pair()
        with src.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            group = socket.inet_aton(f"239.88.0.{self.rand.randrange(1, 60)}")
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                            group + bytes(4) + src.ns.ifindex(src.ifname).to_bytes(
                                4, "little"))
            hold(self.rand.random() / 4)

    def do_flush(self):
        end = self.end()
        ip(f"neigh flush dev {end.ifname}", ns=end.ns, fail=False)


class Fabric(Hand):
    """Events, links, partitions, the SM, packets that are lost, verbs that fail."""

    pause = 0.4

    def port(self):
        return port(self.rand.randrange(2))

    def do_event(self):
        self.port().event(self.rand.choice((
            "port_error", "port_active", "sm_change", "client_reregister",
            "lid_change", "pkey_change", "gid_change")))

    def do_flap(self):
        where = self.port()
        where.link(False)
        hold(self.rand.random())
        where.link(True)

    def do_partition(self):
        where, at = self.port(), self.rand.randrange(len(KEYS))
        where.set("set_pkey", f"{at + 1} 0")
        hold(self.rand.random())
        where.set("set_pkey", f"{at + 1} {KEYS[at]:#x}")

    def do_loss(self):
        where = self.port()
        where.set("loss_ppm", self.rand.choice((10000, 300000)))
        hold(self.rand.random())
        where.set("loss_ppm", 0)

    def do_silence(self):
        where = self.port()
        where.set("sa_drop", 1)
        hold(self.rand.random() * 2)
        where.set("sa_drop", 0)

    def do_refuse(self):
        self.port().set(self.rand.choice(("create_error", "modify_error", "map_error",
                                          "attach_error", "recv_post_error",
                                          "send_error", "rc_send_error")),
                        self.rand.randrange(1, 4))

    def do_slow(self):
        where, knob = self.port(), self.rand.choice((
            "create_delay_ms", "destroy_delay_ms", "reset_delay_ms"))
        where.set(knob, 50)
        hold(self.rand.random())
        where.set(knob, 0)

    def do_break(self):
        where = hca(self.rand.randrange(2))
        qps = where.data_qps()
        if qps:
            where.break_qp(self.rand.choice(qps).qpn)


class Plug(Hand):
    """An HCA comes and goes."""

    pause = 3.0

    def do_plug(self):
        where = hca(2)
        if where.exists():
            where.unplug()
        else:
            where.plug(ports=self.rand.randrange(1, 3))


class Machine(Hand):
    """CPUs and memory."""

    pause = 1.0

    def do_cpu(self):
        write("/sys/devices/system/cpu/cpu1/online", "0")
        hold(self.rand.random())
        write("/sys/devices/system/cpu/cpu1/online", "1")

    def do_caches(self):
        write("/proc/sys/vm/drop_caches", "3")

    def do_compact(self):
        write("/proc/sys/vm/compact_memory", "1")


class Scene:
    """Who takes part, and where."""

    def __init__(self, seed):
        self.seed, self.over = seed, threading.Event()
        self.ends = list(ends())
        self.hosts = [Ethernet(end) for end in self.ends]
        self.guests = [host.guest(101 + at) for at, host in enumerate(self.hosts)]
        self.places = [*self.ends, *self.guests]
        self.sockets = {}
        self.families = {end: family(end) for end in self.ends} | {
            host: ethernet(host) for host in self.hosts}
        for end in self.ends:
            for at, key in enumerate(KEYS):
                end.port.set("set_pkey", f"{at + 1} {key:#x}")

    def talk(self, hand, space):
        return self.sockets.setdefault((hand, space), Rtnl(space))

    def calm(self):
        """All that was done to fabric and interfaces is taken back."""
        write("/sys/devices/system/cpu/cpu1/online", "1")
        for number in range(2):
            where = port(number)
            where.clear_faults()
            where.link(True)
        if not hca(2).exists():
            hca(2).plug()
        sm.revive()
        for end in self.ends:
            talk = Rtnl(end.ns)
            for name in ["eibs", *NAMES]:
                with contextlib.suppress(OSError):
                    talk.delete(name)
            for key in KEYS:
                with contextlib.suppress(OSError):
                    write(end.ns.sys(f"class/net/{end.ifname}/delete_child"),
                          f"{key:#x}")
            talk.close()
            end.up()
            end.port.wait_active(30)
            set_mode(end, "datagram")
        for talk in self.sockets.values():
            talk.close()

    def works(self):
        """Everybody reaches everybody, with all that they have set."""
        for src in self.places:
            for dst in self.places:
                for address in (dst.v4, dst.v6):
                    if src is not dst:
                        wait_until(lambda s=src, a=address: ping(s.ns, a, limit=1), 60,
                                   f"an answer of {address} to {src}")


def watch(hands, floods):
    """Until the time is over: say how it goes, see that nobody hangs."""
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        hold(min(20, max(0.1, end - time.monotonic())))
        ksft_pr(*(f"{hand.name} {sum(hand.done.values())}+"
                  f"{sum(hand.answers.values())}" for hand in hands),
                *(flood.sent for flood in floods))
        for hand in hands:
            what = hand.now
            if what and time.monotonic() > what[1] + slow(LONGEST):
                write("/proc/sysrq-trigger", "w")
                raise Failed(f"{hand.name}: {what[0]} takes longer than "
                             f"{slow(LONGEST):.0f} s")
            if not hand.is_alive():
                raise Failed(f"{hand.name}: {hand.failed}")


@timeout(60 * MINUTES * 4 + 900)
def test_stress():
    """After all of it, everybody reaches everybody, and the modules can go."""
    drop_all()
    seed = os.environ.get("IPOIB_SEED") or str(random.randrange(1 << 32))
    ksft_pr(f"SEED={seed} MINUTES={MINUTES:g}")
    scene = Scene(seed)
    hands = [kind(scene) for kind in Hand.__subclasses__()]
    floods = [Flood(src, dst.v4, 1400, gap=0.002)
              for src, dst in zip(scene.places, scene.places[::-1])]
    try:
        for hand in hands:
            hand.start()
        watch(hands, floods)
    finally:
        scene.over.set()
        for hand in hands:
            hand.join(slow(LONGEST))
            ksft_pr(hand.name, "longest", f"{hand.longest[0]:.1f} s",
                    hand.longest[1], dict(hand.done), dict(hand.answers))
    for flood in floods:
        flood.stop()
    ksft_eq([f"{hand.name} hangs: {hand.now}" for hand in hands if hand.is_alive()], [])
    ksft_eq([f for hand in hands for f in hand.failed], [])
    scene.calm()
    scene.works()
    drop_all()
    unload()
    unload_module(60)
    for each in range(3):
        ksft_eq(hca(each).data_qps(), [], f"QPs of HCA {each}")
    load_module()
    load()
    wait_until(lambda: len(ifaces()) >= 3, 30, "interfaces")
