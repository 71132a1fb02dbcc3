# SPDX-License-Identifier: GPL-2.0-only
"""Child interfaces made, changed, shown and deleted by rtnetlink."""

import errno
import os
import shutil

from lib import (Netns, ROOT, Stream, bkg, defer, ends, exists, fixed_in_ours,
                 ip, ksft_eq, ksft_in, ksft_ne, ksft_not_in, ksft_pr,
                 ksft_raises, ksft_true, ours_only, ping_ok, read, slow, tcp_transfer, timeout,
                 wait_until)
from lib.child import (Child, Children, add_link, answer_for_themselves,
                       child_by_ip, children, gone, names_in, refused)
from lib.ipoib import forget
from lib.rtnl import IFLA_ADDRESS, Rtnl, attr

BOOT = {"hcas": 2, "seconds": 75}


def test_create():
    """P_Key and umcast as said; by default as the parent has them."""
    end = ends().a
    child = child_by_ip(end, 0x8001, words="mode datagram umcast 1")
    ksft_eq(int(str(child.data()["key"]), 16), 0x8001)
    ksft_eq(child.data()["mode"], "datagram")
    ksft_eq(int(child.data()["umcast"]), 1)
    ksft_eq(child.link()["link"], end.ifname)
    add_link(end, "plain.c")
    plain = Child(end, "plain.c", 99)
    defer(plain.delete)
    ksft_eq(int(str(plain.data()["key"]), 16), 0xffff)
    ksft_eq(int(plain.data()["umcast"]), 0)


@ours_only("the in-tree module's children of rtnetlink have no files")
def test_files():
    """The files are the same as with sysfs."""
    child = child_by_ip(ends().a, 2)
    ksft_eq(child.read("pkey"), "0x8002")
    ksft_eq(child.read("mode"), "datagram")
    ksft_eq(child.read("umcast"), "0")
    ksft_eq(child.read("parent"), child.parent.ifname)


def test_number_forms():
    """The bit of membership may be missing; 0x7fff means 0xffff."""
    end = ends().a
    for number, name in ((3, "f.1"), (0x8003, "f.2"), (0x7fff, "f.3")):
        child = child_by_ip(end, number, ifname=name)
        ksft_eq(int(str(child.data()["key"]), 16), number | 0x8000)


@ours_only("the in-tree module gives no reasons")
def test_refusals():
    """What can't be is refused with a reason, and leaves nothing."""
    end = ends().a
    child = child_by_ip(end, 4)
    before = names_in(end.ns)
    qps = len(end.port.hca.data_qps())
    reasons = set()
    for parent, more, words in (
            (end.ifname, "", "pkey 0"),
            (end.ifname, "", "pkey 0x8000"),
            (child.ifname, "", "pkey 0x8005"),
            ("lo", "", "pkey 0x8005"),
            (end.ifname, "mtu 9000", "pkey 0x8005"),
            (end.ifname, "mtu 70000", "pkey 0x8005 mode connected"),
            (end.ifname, "mtu 10", "pkey 0x8005")):
        done = ip(f"link add link {parent} name no.1 {more} type ipoib "
                  f"{words}", ns=end.ns, fail=False)
        reason = refused(done)
        ksft_ne(reason, "", f"{parent} {more} {words}")
        reasons.add(reason)
    ksft_eq(len(reasons) >= 5, True, f"reasons: {reasons}")
    done = ip("link add name no.1 type ipoib pkey 0x8005", ns=end.ns,
              fail=False)
    ksft_in("parent", refused(done))
    for words in ("pkey -1", "pkey 0x12345", "umcast 7", "mode telepathic"):
        done = add_link(end, "no.1", words, fail=False)
        ksft_ne(done.ret, 0, words)
    ksft_eq(names_in(end.ns), before)
    ksft_eq(len(end.port.hca.data_qps()), qps, "QPs")


@ours_only("the in-tree module takes no address at all, and says nothing")
def test_foreign_address():
    """An address that somebody made up: a warning, and the port's address."""
    end = ends().a
    guid = end.address()[12:]
    made_up = os.urandom(12) + b"\x02" + os.urandom(7)
    done = add_link(end, "up.1", "pkey 0x8001",
                    f"address {made_up.hex(':')}")
    child = Child(end, "up.1", 1)
    defer(child.delete)
    ksft_in("Warning: The port does not have that GUID", done.stderr)
    ksft_eq(child.address()[4:], end.address()[4:], "GID")
    ksft_eq(child.read("addr_assign_type"), "0", "permanent")
    done = add_link(end, "up.2", "pkey 0x8002",
                    f"address {(os.urandom(12) + guid).hex(':')}")
    child = Child(end, "up.2", 2)
    defer(child.delete)
    ksft_eq(done.stderr, "", "a GUID of the port is no reason to warn")
    ksft_eq(child.address()[4:], end.address()[4:], "GID")


NETWORKD = "/lib/systemd/systemd-networkd"
NETDEV = """[NetDev]
Name=nd.1
Kind=ipoib
[IPoIB]
PartitionKey=0x8001
"""
NETWORK = """[Match]
Name={}
[Network]
IPoIB=nd.1
KeepConfiguration=yes
"""


@fixed_in_ours("a child takes any GUID, which is no port's, for its own")
@timeout(90)
def test_networkd():
    """systemd-networkd makes a child, with the address it makes up for it."""
    pair = ends()
    defer(forget, pair)
    end = pair.a
    conf = "/run/systemd/network"
    os.makedirs(conf, exist_ok=True)
    defer(shutil.rmtree, conf)
    for name, text in (("nd.netdev", NETDEV),
                       ("nd.network", NETWORK.format(end.ifname))):
        with open(f"{conf}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    child = Child(end, "nd.1", 1)
    defer(lambda: gone(child) or child.delete())
    # Where /sys can't be written it does not wait for udev.
    with bkg(["unshare", "--mount", "sh", "-c",
              f"mount -o remount,bind,ro /sys && "
              f"SYSTEMD_LOG_LEVEL=debug exec {NETWORKD}"],
             ns=end.ns) as daemon:
        defer(lambda: [ksft_pr(line) for line in daemon.stderr.splitlines()
                       if "nd.1" in line or end.ifname in line])
        wait_until(lambda: not gone(child), 30, "the child")
    ksft_not_in("Could not create", daemon.stderr)
    ksft_eq(int(str(child.data()["key"]), 16), 0x8001)
    ksft_eq(child.address()[4:], end.address()[4:], "GID")
    child.up()
    child.wait_carrier()


@ours_only("the in-tree module gives no reasons")
def test_raw_refusals():
    """What ip would not even ask for is refused with a reason as well."""
    end = ends().a
    child = child_by_ip(end, 4)
    before = names_in(end.ns)
    talk = Rtnl(end.ns)
    defer(talk.close)
    index = end.ifindex()
    new = [(errno.ENODEV, "no such parent", 0x7fff0000, b"", {}),
           (errno.EINVAL, "child interface", child.ifindex(), b"", {}),
           (errno.EINVAL, "20 bytes", index, attr(IFLA_ADDRESS, bytes(32)),
            {}),
           (errno.EINVAL, "16 bits", index, b"", {"pkey": bytes(4)}),
           (errno.ERANGE, "range", index, b"", {"mode": 2}),
           (errno.ERANGE, "range", index, b"", {"umcast": 2})]
    for number, word, parent, more, words in new:
        with ksft_raises(OSError, word) as refusal:
            talk.add(parent, "no.1", more, **{"pkey": 0x8005, **words})
        ksft_eq(refusal.error.errno, number, word)
        ksft_in(word, refusal.error.strerror)
    for word, words in (("can't be changed", {"pkey": 0x8005}),
                        ("are invalid", {"pkey": 0x8000}),
                        ("range", {"mode": 2}), ("range", {"umcast": 2})):
        with ksft_raises(OSError, word) as refusal:
            talk.change(child.ifname, **words)
        ksft_in(word, refusal.error.strerror)
    ksft_eq(names_in(end.ns), before)


def test_refused():
    """P_Key 0 and a child's child are refused by both modules."""
    end = ends().a
    child = child_by_ip(end, 4)
    for words in ("pkey 0", "pkey 0x8000"):
        ksft_ne(add_link(end, "no.1", words, fail=False).ret, 0, words)
    ksft_ne(add_link(child, "no.1", "pkey 0x8005", fail=False).ret, 0)


@timeout(90)
def test_same_pkey():
    """Two children with one P_Key, and one with the parent's: all work."""
    pair = ends()
    answer_for_themselves(pair)
    first = children(pair, 0x8005, 5)
    second = Children(*(child_by_ip(end, 0x8005, 6,
                                    ifname=f"twin{end.number}.5")
                        for end in pair)).up()
    third = Children(*(child_by_ip(end, 0x7fff, 7, ifname=f"own{end.number}.f")
                       for end in pair)).up()
    for both in (first, second, third):
        ping_ok(both.a.ns, both.b.v4)
        tcp_transfer(both.a, both.b, 1 << 18)
    numbers = {c.qpn() for both in (first, second, third) for c in both}
    ksft_eq(len(numbers), 6, "QPNs")
    second.delete()
    ping_ok(first.a.ns, first.b.v4)
    ping_ok(pair.a.ns, pair.b.v4)


@ours_only("the in-tree module ignores what it does not change")
def test_change():
    """umcast changes; the P_Key does not."""
    child = child_by_ip(ends().a, 6)
    child.set("type ipoib umcast 1")
    ksft_eq(int(child.data()["umcast"]), 1)
    child.set("type ipoib umcast 0 pkey 0x8006 mode datagram")
    ksft_eq(int(child.data()["umcast"]), 0)
    for words in ("pkey 0x8007", "pkey 0"):
        ksft_ne(refused(child.set(f"type ipoib {words}", fail=False)), "",
                words)
    ksft_eq(int(str(child.data()["key"]), 16), 0x8006)


def other_space(name="h3"):
    space = Netns(name).add()
    defer(space.delete)
    return space


@ours_only("no link-netnsid in the in-tree module")
@timeout(90)
def test_other_namespace():
    """Made straight in another namespace; moved there and back; traffic."""
    pair = ends()
    space = other_space()
    add_link(pair.a, "far.7", "pkey 0x8007", f"netns {space.name}")
    far = Child(pair.a, "far.7", 7, space)
    defer(far.delete)
    ksft_in("link_netnsid", far.link(), "ip -d link")
    ksft_eq(far.link()["link_index"], pair.a.ifindex())
    both = Children(far, child_by_ip(pair.b, 7)).up()
    tcp_transfer(both.a, both.b, 1 << 18)
    ip(f"link set far.7 netns {pair.a.name}", ns=space)
    far.ns, far.name = pair.a.ns, pair.a.name
    ksft_not_in("link_netnsid", far.link())
    ksft_eq(far.link()["link"], pair.a.ifname)
    both.up()
    ip(f"link set far.7 netns {space.name}", ns=pair.a.ns)
    far.ns, far.name = space, space.name
    both.up()
    ping_ok(both.b.ns, far.v4)
    ping_ok(pair.a.ns, pair.b.v4)


@ours_only("iproute2's link-netnsid needs get_link_net to be of use")
def test_parent_elsewhere():
    """A child whose parent is in another namespace."""
    end = ends().a
    space = other_space()
    space.ip(["netns", "set", end.name, "7"])
    space.ip(f"link add name near.8 link-netnsid 7 link {end.ifindex()} "
             f"type ipoib pkey 0x8008", fail=False)
    if not exists(space.sys("class/net/near.8")):
        # iproute2 wants a name: one that has this index here as well
        space.ip(f"link add link if{end.ifindex()} name near.8 "
                 f"link-netnsid 7 type ipoib pkey 0x8008")
    near = Child(end, "near.8", 8, space)
    defer(near.delete)
    ksft_eq(near.link()["link_netnsid"], 7)
    ksft_eq(near.read("parent"), end.ifname)
    near.up()
    near.wait_carrier()


@timeout(90)
def test_namespace_dies():
    """A namespace dies with a child in it: the child comes home, and works."""
    pair = ends()
    space = Netns("h4").add()
    add_link(pair.a, "lost.9", "pkey 0x8009")
    ip(f"link set lost.9 netns {space.name}", ns=pair.a.ns)
    lost = Child(pair.a, "lost.9", 9, space)
    lost.up()
    lost.wait_carrier()
    space.delete()
    lost.ns, lost.name = ROOT, None
    wait_until(lambda: not gone(lost), 10, "the child at home")
    defer(lambda: gone(lost) or lost.delete())
    ksft_eq(int(str(lost.data()["key"]), 16), 0x8009)
    lost.delete(fail=True)
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(120)
def test_parents_namespace_dies():
    """The parent's namespace dies: parent and children come home, alive."""
    pair = ends()
    end = pair.a
    space = other_space("h5")
    add_link(end, "with.1", "pkey 0x8001")
    add_link(end, "far.2", "pkey 0x8002")
    ip(f"link set far.2 netns {space.name}", ns=end.ns)
    far = Child(end, "far.2", 2, space)
    far.up()
    far.wait_carrier()
    end.drop()
    wait_until(lambda: {end.ifname, "with.1"} <= set(names_in(ROOT)), 10,
               "parent and child at home")
    defer(ip, "link del with.1")
    ip(f"link set {end.ifname} up")
    ip("link set with.1 up")
    for name in (end.ifname, "with.1"):
        wait_until(lambda n=name: read(f"/sys/class/net/{n}/carrier") == "1",
                   20, f"the carrier of {name}")
    far.wait_carrier()
    far.delete(fail=True)


@timeout(120)
def test_group():
    """A group of children goes in one go, under traffic of others."""
    pair = ends()
    stream = Stream(pair.a, pair.b, rate=1 << 20)
    batch = "".join(
        f"link add link {pair.a.ifname} name g.{n} type ipoib pkey "
        f"{0x8001 + n % 15:#x}\nlink set g.{n} group 77\n"
        + (f"link set g.{n} up\n" if n % 2 else "") for n in range(20))
    pair.a.ns.cmd(["ip", "-batch", "-"], stdin=batch, timeout=slow(60))
    ksft_eq(len(names_in(pair.a.ns, "g.")), 20)
    stream.wait_progress()
    ip("link del group 77", ns=pair.a.ns, timeout=slow(60))
    ksft_eq(names_in(pair.a.ns, "g."), [])
    stream.wait_progress()
    stream.finish()


def test_delete_parent():
    """A port's own interface can't be deleted; neither can its children so."""
    pair = ends()
    child = child_by_ip(pair.a, 10)
    ip(f"link del {pair.a.ifname}", ns=pair.a.ns, fail=False)
    ksft_true(exists(pair.a.sys("ifindex")))
    ksft_true(not gone(child))
    ping_ok(pair.a.ns, pair.b.v4)


@ours_only("the in-tree module does not take them")
def test_settings():
    """MTU, queue length, name and state given at creation hold."""
    pair = ends()
    child = child_by_ip(pair.a, 11,
                        more="mtu 1500 txqueuelen 77 numtxqueues 4")
    ksft_eq(child.mtu(), 1500)
    ksft_eq(child.read_int("tx_queue_len"), 77)
    both = Children(child, child_by_ip(pair.b, 11)).up()
    ksft_eq(child.mtu(), 1500)
    tcp_transfer(both.a, both.b, 1 << 19)
    tcp_transfer(both.a, both.b, 1 << 19, address=both.b.v6)
