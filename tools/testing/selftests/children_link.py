# SPDX-License-Identifier: GPL-2.0-only
"""Children as interfaces: MTU, up and down, address, events, floods."""

import os

from lib import (ROOT, Flood, Netns, Stream, bkg, cmd, defer, ends, exists,
                 fabric, ip, ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_le,
                 ksft_ne, ksft_not_in, ksft_true, ours_differs, ours_only,
                 ping, ping_ok, read, settled, slow, sm, tcp_transfer, timeout,
                 udp_exchange, verbs_only, wait_until)
from lib.child import (Child, Children, add_link, address_with, child_by_ip,
                       child_by_sysfs, children, names_in, set_address)

# 0x8001 has an MTU of 4096, 0x8002 one of 1024; the rest 2048.
BOOT = {"hcas": 2, "seconds": 120, "partitions":
        "Default=0x7fff, ipoib : ALL=full;\n"
        "big=0x0001, ipoib, mtu=5 : ALL=full;\n"
        "small=0x0002, ipoib, mtu=3 : ALL=full;\n"
        "c=0x0003, ipoib : ALL=full;\n"
        "d=0x0004, ipoib : ALL=full;\n"
        "e=0x0005, ipoib : ALL=full;\n"}


@verbs_only("a child's own receive buffers")
@timeout(120)
def test_mtu():
    """The MTU of a child is its own group's, not the parent's."""
    pair = ends()
    for pkey, mtu in ((0x8001, 4092), (0x8002, 1020), (0x8003, 2044)):
        both = Children(*(child_by_ip(end, pkey) for end in pair))
        for child in both:
            child.up()
            child.wait_carrier()
            wait_until(lambda c=child: c.mtu() == mtu, 10,
                       f"an MTU of {mtu}")
        # IPv6 wants 1280 at least, and is off where there is less.
        both.ready(families=(4, 6) if mtu >= 1280 else (4,))
        ping_ok(both.a.ns, both.b.v4, size=mtu - 28, df=True)
        tcp_transfer(both.a, both.b, 1 << 19)
        both.a.set_mtu(mtu - 100)
        ksft_eq(both.a.mtu(), mtu - 100)
        ping_ok(both.b.ns, both.a.v4, size=mtu - 128, df=True)
    for end in pair:
        ksft_eq(end.mtu(), 2044, "the parent's")


def is_up(end):
    return "UP" in end.link()["flags"]


@ours_only("its child of sysfs is in the first namespace")
@timeout(90)
def test_parent_down_and_up():
    """Children go down with their parent and come up with it."""
    pair = ends()
    both = children(pair, 0x8003)
    other = child_by_sysfs(pair.a, 4)
    pair.a.set("down")
    for child in (both.a, other):
        ksft_false(is_up(child), "a child of a parent that is down")
    pair.a.up()
    for child in (both.a, other):
        ksft_true(is_up(child), "a child whose parent came up")
    both.up()
    pair.ready()
    tcp_transfer(both.a, both.b, 1 << 18)


@verbs_only("mlx5 receives for children with their parent")
@timeout(90)
def test_child_alone():
    """A child works while its parent is down, and again when it is up."""
    pair = ends()
    pair.a.set("down")
    defer(pair.ready)
    defer(pair.a.up)
    both = children(pair, 0x8003)
    tcp_transfer(both.a, both.b, 1 << 18)
    ksft_false(is_up(pair.a))
    both.a.set("down")
    both.up()
    pair.a.up()
    pair.ready()
    ping_ok(both.a.ns, both.b.v4)


@timeout(90)
def test_down_leaves_others():
    """A child goes down and up, and is deleted, under others' traffic."""
    pair = ends()
    both = children(pair, 0x8003)
    other = children(pair, 0x8004)
    streams = [Stream(pair.a, pair.b, rate=1 << 20),
               Stream(other.a, other.b, rate=1 << 20)]
    for _ in range(5):
        both.a.set("down")
        both.up()
    both.a.delete(fail=True)
    for stream in streams:
        stream.wait_progress()
        stream.finish()


@timeout(90)
def test_link_events():
    """Cable, LID change and registration asked for: children follow."""
    pair = ends()
    both = children(pair, 0x8003)
    end = pair.b
    defer(end.port.link, True)
    end.port.link(False)
    both.b.wait_no_carrier()
    end.port.link(True)
    both.b.wait_carrier(20)
    both.ready()
    for event in ("client_reregister", "sm_change", "lid_change",
                  "gid_change", "pkey_change"):
        end.port.event(event)
    both.ready()
    tcp_transfer(both.a, both.b, 1 << 18)


@ours_only("the in-tree module wants it down, and reads it otherwise")
@timeout(90)
def test_address():
    """Another GUID of the port: the parent, its children, one child alone."""
    pair = ends()
    end = pair.a
    both = children(pair, 0x8003)
    apart = child_by_ip(end, 0x8004)
    old, first = end.address(), end.port.guid()
    end.port.set("guids", "2")
    defer(end.port.set, "guids", "2 0")
    guid = wait_until(lambda: int(end.port.gid(2).replace(":", "")[16:], 16),
                      5, "a second GUID")
    third = guid + 0x100
    end.port.set("guids", f"3 {third:#x}")
    defer(end.port.set, "guids", "3 0")
    wait_until(lambda: int(end.port.gid(3).replace(":", "")[16:], 16), 5)

    set_address(apart, address_with(apart, third))
    ksft_eq(apart.address()[12:], third.to_bytes(8, "big"))
    defer(set_address, end, old, fail=False)
    set_address(end, address_with(end, guid))
    ksft_eq(end.address(), address_with(end, guid))
    ksft_eq(both.a.address()[12:], guid.to_bytes(8, "big"), "a child")
    ksft_eq(apart.address()[12:], third.to_bytes(8, "big"), "set apart")
    late = child_by_ip(end, 0x8005)
    ksft_eq(late.address()[12:], guid.to_bytes(8, "big"), "a later child")
    add_link(end, "own.4", "pkey 0x8004",
             f"address {address_with(end, first).hex(':')}")
    own = Child(end, "own.4", 44)
    defer(own.delete)
    ksft_eq(own.address()[12:], first.to_bytes(8, "big"))
    set_address(end, old)
    ksft_eq(both.a.address()[12:], old[12:])
    both.ready()
    pair.ready()


@ours_only("the in-tree module gives no reason")
def test_bad_address():
    """Another QPN, prefix or a GUID the port does not have: refused."""
    pair = ends()
    end, old = pair.a, pair.a.address()
    child = child_by_ip(end, 0x8003)
    for which in (end, child):
        mine = which.address()
        for place in (0, 1, 3, 4, 11, 12, 19):
            bad = bytearray(mine)
            bad[place] ^= 0x41
            done = set_address(which, bytes(bad), fail=False)
            ksft_ne(done.ret, 0, f"byte {place}")
            ksft_eq(which.address(), mine)
    ksft_eq(end.address(), old)
    ping_ok(pair.a.ns, pair.b.v4)


@ours_differs("its address never follows the prefix")
@timeout(120)
def test_prefix():
    """The subnet prefix changes and comes back: children's addresses too."""
    pair = ends()
    both = children(pair, 0x8003)
    end = pair.b
    old, new = end.port.prefix(), "fec0000000001234"
    defer(pair.ready, 30)
    # It would put the prefix right at once.
    again = sm.stopped()
    end.port.set("set_prefix", new)
    # Of GIDs the core tells nobody, but the SM asks for this with it.
    end.port.event("client_reregister")
    for each in (both.b, end):
        wait_until(lambda e=each: e.address()[4:12].hex() == new, 10,
                   f"the new address of {each}")
    again.exec()
    for each in (both.b, end):
        wait_until(lambda e=each: e.address()[4:12].hex() == old, 20,
                   f"the old address of {each}")
    both.ready(30)


@timeout(150)
def test_flood():
    """A flood in one partition does not starve another."""
    pair = ends()
    both = children(pair, 0x8003)
    quiet = children(pair, 0x8004)
    before = quiet.b.stat("rx_dropped")
    with Flood(both.a, both.b.v4, size=64, burst=64) as flood:
        wait_until(lambda: flood.sent > 2000, 20, "the flood")
        lost = 0
        for _ in range(40):
            lost += not ping(quiet.a.ns, quiet.b.v4, limit=slow(2))
        ksft_le(lost, 4, "of 40 pings in the other partition")
        tcp_transfer(quiet.a, quiet.b, 1 << 19, limit=slow(60))
        ksft_true(flood.sent > 2000)
    ksft_eq(quiet.b.stat("rx_dropped"), before)
    ping_ok(both.a.ns, both.b.v4)


@timeout(90)
def test_statistics():
    """Each interface counts its own packets."""
    pair = ends()
    both = children(pair, 0x8003)
    other = children(pair, 0x8004)
    before = [c.stat("rx_packets") for c in (pair.b, both.b, other.b)]
    got = udp_exchange(both.a, both.b, 200, 500)
    ksft_eq(len(got.seen), 200)
    # A packet is counted after it was handed to the stack.
    settled(pair.b, both.b, other.b)
    after = [c.stat("rx_packets") for c in (pair.b, both.b, other.b)]
    ksft_ge(after[1] - before[1], 200)
    ksft_le(after[0] - before[0], 40, "the parent's")
    ksft_le(after[2] - before[2], 40, "the other child's")


@timeout(60)
def test_debugfs():
    """Each child has its files in debugfs, under the name it has."""
    pair = ends()
    both = children(pair, 0x8003)
    base = "/sys/kernel/debug/ipoib"
    name = both.a.ifname
    text = wait_until(lambda: read(f"{base}/{name}_mcg"), 5)
    ksft_in("8003", text)
    ping_ok(both.a.ns, both.b.v4)
    ksft_in("GID", read(f"{base}/{name}_path"))
    both.a.set("down")
    both.a.set("name new.3")
    both.a.ifname = "new.3"
    ksft_true(exists(f"{base}/new.3_mcg"))
    ksft_false(exists(f"{base}/{name}_mcg"))
    both.a.delete(fail=True)
    ksft_false(exists(f"{base}/new.3_mcg"))


@ours_only("in the in-tree module the second file can't be made, and debugfs says so")
@timeout(60)
def test_debugfs_same_name():
    """Children of the same name, in namespaces of their own."""
    end = ends().a
    base = "/sys/kernel/debug/ipoib"
    before = os.listdir(base)
    for number in range(1, 5):
        space = Netns(f"same{number}").add()
        defer(space.delete)
        add_link(end, "same", f"pkey {0x8000 + number:#x}",
                 f"netns {space.name}")
    new = [name for name in os.listdir(base)
           if name not in before and name.endswith("_mcg")]
    ksft_eq(len(new), 4, f"files: {new}")


# ---- virtual functions -------------------------------------------------


def vf_of(link, number):
    return next(vf for vf in link["vfinfo_list"] if vf["vf"] == number)


@ours_differs("it shows its own address as that of each VF")
@timeout(90)
def test_vf():
    """GUIDs, link state and counts of an HCA's virtual functions."""
    ends()
    new = fabric.add_hca(6, vfs=3)
    name = wait_until(lambda: [n for n in names_in(ROOT, "ib")
                               if "." not in n][0], 10, "an interface")
    ip(f"link set {name} vf 1 node_guid 00:11:22:33:44:55:66:77")
    ip(f"link set {name} vf 1 port_guid 00:11:22:33:44:55:66:78")
    ip(f"link set {name} vf 2 state disable")
    link = ROOT.link(name)
    ksft_eq(len(link["vfinfo_list"]), 3)
    one, two = vf_of(link, 1), vf_of(link, 2)
    ksft_eq(two["link_state"], "disable")
    ksft_eq(one["link_state"], "auto")
    ksft_in("1001", str(one["stats"]), "received packets")
    ksft_in("4002", str(two["stats"]), "sent bytes")
    text = ip(f"-d link show {name}").stdout
    for guid in ("00:11:22:33:44:55:66:77", "00:11:22:33:44:55:66:78"):
        ksft_in(guid, text)
    prefix = ROOT.link(name)["address"].split(":")[4:12]
    ksft_in("00:00:00:00:" + ":".join(prefix) + ":00:11:22:33:44:55:66:78",
            text, "the address to be")
    for words in ("vf 3 state enable",
                  "vf 3 node_guid 00:11:22:33:44:55:66:77",
                  "vf 1 mac 00:11:22:33:44:55"):
        ksft_ne(ip(f"link set {name} {words}", fail=False).ret, 0, words)
    ip(f"link add link {name} name v.1 type ipoib pkey 0x8003")
    ksft_false(ROOT.link("v.1").get("vfinfo_list"), "VFs of a child")
    new.unplug()


@ours_only("any child of the in-tree module reaches the HCA's functions")
@timeout(90)
def test_container():
    """Root of a container with a child has no way to the HCA and the port."""
    ends()
    new = fabric.add_hca(6, vfs=2)
    name = wait_until(lambda: [n for n in names_in(ROOT, "ib")
                               if "." not in n][0], 10, "an interface")
    ip(f"link add link {name} name v.1 type ipoib pkey 0x8003")
    box = bkg(["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
               "echo; exec sleep 1000"])
    defer(box.stop)
    box.proc.stdout.readline()
    ip(f"link set v.1 netns {box.proc.pid}")

    def inside(words):
        return cmd(["nsenter", "--user", "--net", "--preserve-credentials",
                    "-t", str(box.proc.pid), *words.split()], fail=False)

    ksft_eq(inside("ip link set v.1 up").ret, 0, "the child is the box's")
    for words in ("vf 0 node_guid 00:11:22:33:44:55:66:77",
                  "vf 0 port_guid 00:11:22:33:44:55:66:78",
                  "vf 1 state disable"):
        done = inside(f"ip link set v.1 {words}")
        ksft_in("not supported", done.stderr, words)
    for words in ("-G v.1 rx 64", "-C v.1 rx-usecs 7", "-L v.1 rx 1 tx 2"):
        ksft_ne(inside(f"ethtool {words}").ret, 0, words)
    link = ROOT.link(name)
    ksft_eq(vf_of(link, 1)["link_state"], "auto")
    ksft_not_in("00:11:22:33:44:55", ip(f"-d link show {name}").stdout)
    ip(f"link set {name} vf 0 port_guid 00:11:22:33:44:55:66:78")
    new.unplug()


def test_no_vf():
    """An HCA without virtual functions says so."""
    end = ends().a
    ksft_false(end.link().get("vfinfo_list"))
    ksft_ne(end.set("vf 0 state enable", fail=False).ret, 0)
