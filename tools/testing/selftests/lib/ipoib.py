# SPDX-License-Identifier: GPL-2.0-only
"""The module under test, its interfaces, and the two ends of a test."""

import os
import socket
import struct

from .fabric import fabric, hca, sm
from .ksft import Failed, SetupFailed, Skip, defer, ksft_pr
from .netns import ROOT, Netns, known
from .traffic import neigh_flush, ping
from .utils import (CmdError, cmd, exists, hold, ip, need_modules, now, read,
                    read_int, slow, wait_until)

MODULE = "ib_ipoib"
_pairs = {}


# ---- module ------------------------------------------------------------


def loaded(name=MODULE):
    return exists(f"/sys/module/{name}")


def load_module(**params):
    """Load the module under test."""
    words = [f"{key}={value}" for key, value in params.items()]
    kind = os.environ.get("IPOIB_MODULE", "none")
    if kind == "none":
        raise Failed("this boot has no ib_ipoib")
    if kind in ("stock", "modprobe"):
        cmd(["modprobe", MODULE, *words], timeout=slow(20))
    else:
        cmd(["insmod", kind, *words], timeout=slow(20))


def unload_module(limit=20):
    """Remove the module under test; what is in namespaces comes back first."""
    for key in list(_pairs):
        _pairs.pop(key).drop()
    cmd(["rmmod", MODULE], timeout=slow(limit))


def ensure_module():
    """The module is there with its default parameters."""
    if not loaded():
        load_module()


# ---- interfaces --------------------------------------------------------


def ifaces(spaces=None):
    """All IPoIB interfaces: list of (namespace, name, 20-byte address)."""
    found = []
    for space in spaces or [ROOT, *known().values()]:
        base = space.sys("class/net")
        for name in sorted(os.listdir(base)):
            try:
                if read(f"{base}/{name}/type") == "32":
                    found.append((space, name,
                                  bytes.fromhex(read(f"{base}/{name}/address")
                                                .replace(":", ""))))
            except OSError:
                pass
    return found


def iface_of(which, kind=None):
    """
    (namespace, name) of the interface of a port, by its GUID; or None.  Where
    two drivers have one each, @kind says whose.
    """
    guid = which.guid()
    for space, name, address in ifaces():
        if "." in name or int.from_bytes(address[12:], "big") != guid or \
           read_int(space.sys(f"class/net/{name}/dev_port")) != which.num - 1:
            continue
        if kind and space.link(name)["linkinfo"]["info_kind"] != kind:
            continue
        return space, name
    return None


def bond_of(end, name="bond9"):
    """A bond of an end's interface alone, until the end of the case."""
    need_modules("bonding max_bonds=0")
    end.set("down")
    ip(f"addr flush dev {end.ifname}", ns=end.ns)
    ip(f"link add {name} type bond mode active-backup miimon 100 "
       "fail_over_mac active", ns=end.ns)
    defer(ip, f"link del {name}", ns=end.ns, fail=False, timeout=slow(30))
    end.set(f"master {name}")


def mgid_of(group, pkey=0xffff, scope=2):
    """The MGID a group address maps to (RFC 4391, section 4)."""
    if ":" in group:
        low = socket.inet_pton(socket.AF_INET6, group)[-10:]
        return bytes([0xff, 0x10 | scope, 0x60, 0x1b]) + \
            struct.pack(">H", pkey | 0x8000) + low
    low = int.from_bytes(socket.inet_aton(group), "big")
    if group != "255.255.255.255":
        low &= 0x0fffffff
    return bytes([0xff, 0x10 | scope, 0x40, 0x1b]) + \
        struct.pack(">H", pkey | 0x8000) + bytes(6) + struct.pack(">I", low)


def mgid_text(mgid):
    """As saquery and ip print it: eight groups, no zeros in front."""
    return socket.inet_ntop(socket.AF_INET6, mgid)


# ---- two ends ----------------------------------------------------------


class End:
    """One host: a namespace that holds the interface of a port."""

    def __init__(self, name, which, number, net, kind=None):
        self.name, self.port, self.number = name, which, number
        self.kind = kind
        self.ns = Netns(name)
        self.ifname = None
        self.v4 = f"10.0.{net}.{number}"
        self.v6 = f"fd00:{net}::{number}" if net else f"fd00::{number}"

    def __repr__(self):
        return f"{self.name}({self.port})"

    def setup(self):
        self.port.wait_active(30)
        place = wait_until(lambda: iface_of(self.port, self.kind), 10,
                           f"an interface for {self.port}")
        # A name of its own, since new HCAs get the first that is free in
        # their namespace, and the in-tree module's debugfs knows no others.
        self.ifname = f"ib{self.port.hca.number}p{self.port.num}"
        if self.kind:
            self.ifname += self.kind[-1]
        self.ns.add()
        ip(["link", "set", place[1], "netns", self.name, "name",
            self.ifname], ns=place[0])
        self.up()

    def up(self):
        """Give it its addresses and bring it up."""
        batch = (f"addr add {self.v4}/24 dev {self.ifname}\n"
                 f"addr add {self.v6}/64 dev {self.ifname} nodad\n"
                 f"link set {self.ifname} up\n")
        where = ["-n", self.ns.name] if self.ns.name else []
        cmd(["ip", *where, "-force", "-batch", "-"], stdin=batch,
            fail=False, timeout=slow(20))

    def sys(self, file):
        return self.ns.sys(f"class/net/{self.ifname}/{file}")

    def read(self, file):
        return read(self.sys(file))

    def read_int(self, file):
        return read_int(self.sys(file))

    def stat(self, name):
        return self.read_int(f"statistics/{name}")

    def stats(self):
        return {name: self.stat(name) for name in
                ("rx_packets", "rx_bytes", "rx_errors", "rx_dropped",
                 "tx_packets", "tx_bytes", "tx_errors", "tx_dropped",
                 "multicast")}

    def mtu(self):
        return self.read_int("mtu")

    def set_mtu(self, value, fail=True):
        return self.set(f"mtu {value}", fail=fail)

    def set(self, what, fail=True, timeout=None):
        return ip(f"link set dev {self.ifname} {what}", ns=self.ns, fail=fail,
                  timeout=timeout or slow(30))

    def link(self):
        return self.ns.link(self.ifname)

    def address(self):
        """The 20-byte hardware address."""
        return bytes.fromhex(self.read("address").replace(":", ""))

    def qpn(self):
        return int.from_bytes(self.address()[1:4], "big")

    def carrier(self):
        try:
            return self.read("carrier") == "1"
        except OSError:
            return False

    def wait_carrier(self, limit=15):
        self.port.wait_active()
        wait_until(self.carrier, limit, f"carrier of {self}", interval=0.1)

    def wait_no_carrier(self, limit=10):
        wait_until(lambda: not self.carrier(), limit,
                   f"no carrier on {self}", interval=0.05)

    def ifindex(self):
        return self.ns.ifindex(self.ifname)

    def ethtool(self, args, fail=True):
        words = args.split()
        return self.ns.cmd(["ethtool", words[0], self.ifname, *words[1:]],
                           fail=fail)

    def state(self):
        """What the driver's debugfs says of it; {} if there is none."""
        path = f"/sys/kernel/debug/{self.kind or 'ipoib'}/{self.ifname}_state"
        return dict(line.split(": ") for line in read(path).splitlines()) \
            if exists(path) else {}

    def enhanced(self):
        """Which kind of HCA's own interface it is: "own", "ud"; None: by verbs."""
        kind = (None, "own", "ud")[self.port.hca.caps()["rdma_netdev"]]
        return None if self.state().get("engine") == "verbs" else kind

    def need_verbs(self, what):
        """Skip the case on an HCA's own interface, which "check HCA=" asks for."""
        if self.enhanced():
            raise Skip(f"{what}: not on an HCA's own interface")

    def queues(self):
        """How many queues it sends on."""
        return sum(name.startswith("tx-") for name in
                   os.listdir(self.sys("queues")))

    def feature(self, name):
        """An offload as ethtool -k says: True, False."""
        for line in self.ethtool("-k").stdout.splitlines():
            key, _, value = line.strip().partition(": ")
            if key == name:
                return value.split()[0] == "on"
        raise Failed(f"ethtool -k knows no {name}")

    def present(self):
        """Is the interface in the namespace?"""
        return bool(self.ifname and exists(f"/run/netns/{self.name}") and
                    exists(self.sys("ifindex")))

    def drop(self):
        self.ns.delete()


class Ends:
    """Two hosts on the fabric, ready to talk."""

    def __init__(self, first, second, names=("h1", "h2"), net=0,
                 kinds=(None, None)):
        self.a = End(names[0], first, 1, net, kinds[0])
        self.b = End(names[1], second, 2, net, kinds[1])

    def __iter__(self):
        return iter((self.a, self.b))

    def setup(self):
        for end in self:
            end.setup()
        self.ready()
        return self

    def ready(self, limit=20):
        """Carrier on both and packets in both families."""
        for end in self:
            end.wait_carrier(limit)
        self.wait_ping(limit)
        wait_until(lambda: ping(self.a.ns, self.b.v6, limit=0.5), limit,
                   f"a first IPv6 reply from {self.b}")

    def wait_ping(self, limit=15, reverse=False):
        """Wait until IPv4 passes; the seconds it took."""
        src, dst = (self.b, self.a) if reverse else (self.a, self.b)
        begin = now()
        wait_until(lambda: ping(src.ns, dst.v4, limit=0.5), limit,
                   f"a reply to {src} from {dst}", interval=0.05)
        return now() - begin

    def healthy(self):
        """Are both there, as setup() left them?"""
        try:
            for end in self:
                if end.port.state() != "ACTIVE" or not end.carrier():
                    return False
                if end.mtu() != end.default_mtu:
                    return False
            if self.quick_ping():
                return True
            # Neighbours may still be remembered from before.
            for end in self:
                neigh_flush(end)
            return self.quick_ping()
        except (OSError, CmdError, Failed, AttributeError):
            return False

    def quick_ping(self):
        """One echo each way, one per family, with a repeated question."""
        return bool(ping(self.a.ns, self.b.v4, limit=2.5) and
                    ping(self.b.ns, self.a.v6, limit=2.5))

    def drop(self):
        """Give the interfaces back to the first namespace."""
        names = [end.ifname for end in self if end.present()]
        # It would come home when its namespace goes, but a TCP connection that
        # waits for its last acknowledgement keeps that.
        for end in self:
            if end.present():
                ip(["link", "set", end.ifname, "netns", "1"], ns=end.ns,
                   fail=False)
        for end in self:
            end.drop()
        for name in names:
            wait_until(lambda n=name: exists(f"/sys/class/net/{n}"), 10,
                       f"{name} at home")


def any_ends(first, second, names=("h1", "h2"), net=0, keep=True,
             kinds=(None, None)):
    """
    The ends on two given ports.  With @keep they stay for the next case,
    which gets them as they are if they are still healthy.
    """
    key = (repr(first), repr(second), names)
    pair = _pairs.get(key)
    if pair and pair.healthy():
        return pair
    if pair:
        ksft_pr("the ends are not as they were: setting them up again")
        _pairs.pop(key).drop()
    # Names and ports belong to one pair at a time.
    for other, value in list(_pairs.items()):
        if {*other[:2], *other[2]} & {*key[:2], *names}:
            del _pairs[other]
            value.drop()
    sm.revive()
    fabric.clear_faults()
    ensure_module()
    pair = Ends(first, second, names, net, kinds)
    _pairs[key] = pair
    if not keep:
        defer(forget, pair)
    try:
        pair.setup()
    except Failed as error:
        forget(pair)
        raise SetupFailed(f"{key[0]} and {key[1]}: {error}") from error
    except BaseException:
        forget(pair)
        raise
    for end in pair:
        end.default_mtu = end.mtu()
    return pair


def flowing(*ends_, packets=50, limit=10):
    """Wait until so many more packets have come to each of the ends."""
    goal = {end: end.stat("rx_packets") + packets for end in ends_}
    wait_until(lambda: all(end.stat("rx_packets") >= least
                           for end, least in goal.items()), limit,
               f"traffic to {ends_}")


def settled(*ends_):
    """
    Wait until the ends have counted what there was: a packet is counted after
    it was handed to the stack, and when its send completes.
    """
    def counts():
        return [end.stat(name) for end in ends_
                for name in ("rx_packets", "tx_packets")]

    def still():
        before = counts()
        hold(0.2)
        return counts() == before

    wait_until(still, 10, f"counters of {ends_} at rest")


def counted(end, before, **least):
    """
    Wait until the end's counters are so much more than @before.  Name each
    that is looked at: other packets are counted, too, so that so many packets
    need not be those that were sent, nor have their bytes.
    """
    wait_until(lambda: all(end.stat(name) - before[name] >= value
                           for name, value in least.items()), 5,
               f"{least} counted by {end}")


def stuck(end, limit=10):
    """Wait until sends of the end's QPs are posted and do not complete."""
    def waiting():
        return [qp.used for qp in end.port.hca.data_qps() if qp.used]

    wait_until(lambda: (old := waiting()) and waiting() == old, limit,
               f"sends of {end} that do not complete")


def unheard(where, limit=10):
    """
    A function that waits until a MAD is lost at a port, from now on: somebody
    asked the SA and has no answer.
    """
    before = where.counter("drop_fault")
    return lambda: wait_until(lambda: where.counter("drop_fault") > before,
                              limit, f"a question to the SA at {where}")


def forget(pair):
    """Take a pair of ends down now."""
    for key, value in list(_pairs.items()):
        if value is pair:
            del _pairs[key]
    pair.drop()


def ends(first=0, second=1):
    """Hosts h1 and h2 on the first ports of two HCAs."""
    return any_ends(hca(first).port(), hca(second).port())


def ends_with(hcas=(2, 3), **caps):
    """Hosts h3 and h4 on new HCAs of that kind, until the end of the case."""
    for number in hcas:
        fabric.add_hca(number, **caps)
    return any_ends(hca(2).port(), hca(3).port(), ("h3", "h4"), 3, keep=False)


def plain_ends(**caps):
    """The same on HCAs that neither cut packets nor know checksums."""
    return ends_with(**{"csum": 0, "lso": 0, **caps})


def drop_all():
    """Take all ends down."""
    for key in list(_pairs):
        _pairs.pop(key).drop()
