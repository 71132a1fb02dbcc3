# SPDX-License-Identifier: GPL-2.0-only
"""Child interfaces made and deleted by sysfs."""

import errno
import os
from threading import Thread

from lib import (ROOT, Netns, cmd, defer, ends, exists, fabric, fixed_in_ours,
                 ip, kmsg_since, kmsg_tail, ksft_eq, ksft_false, ksft_in,
                 ksft_le, ksft_ne, ksft_pr, ksft_true, now, ours_only, ping_ok,
                 read, slow, tcp_transfer, timeout, udp_exchange, verbs_only,
                 wait_until, write)
from lib.child import (Child, Children, child_by_ip, child_by_sysfs,
                       create_child, delete_child, errno_of, gone, names_in,
                       sysfs_name)
from lib.rtnl import Rtnl

BOOT = {"hcas": 2, "seconds": 80}

BAD = ("0", "0x8000", "-1", "0x12345", "65536", "junk", " ")


def home():
    """
    An end's interface in the first namespace, where both modules make the
    children of sysfs: (End-like object).
    """
    end = ends().a
    ip(["link", "set", end.ifname, "netns", "1"], ns=end.ns)

    def back():
        ip(["link", "set", end.ifname, "netns", end.name])
        end.up()

    defer(back)
    return Child(end, end.ifname, 0, ROOT)


def test_names():
    """Names have the number as it was written."""
    end = home()
    for text, number in (("2", 2), ("0x0002", 2), ("0x8002", 0x8002),
                         ("32770", 0x8002), ("0x2\n", 2)):
        create_child(end, number, text)
        name = sysfs_name(end, number)
        ksft_in(name, names_in(ROOT), f"create_child {text!r}")
        child = Child(end, name, 2, ROOT)
        ksft_eq(child.read("pkey"), "0x8002")
        ksft_eq(child.read("parent"), end.ifname)
        ksft_eq(child.read("type"), "32")
        delete_child(end, 2)
        wait_until(lambda c=child: gone(c), 5, f"{name} gone")


@fixed_in_ours("delete_child knows the P_Key with the bit of membership only")
def test_deleted_by_either():
    """Whatever number made a child, both numbers delete it."""
    end = home()
    for number in (2, 0x8002):
        for text in ("2", "0x8002", "32770", "0x0002\n"):
            create_child(end, number)
            again = defer(delete_child, end, 2)
            name = sysfs_name(end, number)
            ksft_eq(errno_of(delete_child, end, 2, text), 0, text)
            again.cancel()
            wait_until(lambda n=name: n not in names_in(ROOT), 5, name)


def test_long_name():
    """Of a long parent's name, the first ten characters are in the child's."""
    end = home()
    old = end.ifname
    ip(["link", "set", old, "down"])
    ip(["link", "set", old, "name", "averylongname1"])
    end.ifname = "averylongname1"
    defer(ip, ["link", "set", end.ifname, "name", old])
    create_child(end, 3)
    ksft_in("averylongn.0003", names_in(ROOT))
    ksft_eq(read("/sys/class/net/averylongn.0003/parent"), end.ifname)
    delete_child(end, 3)
    wait_until(lambda: "averylongn.0003" not in names_in(ROOT), 5)


def test_bad_numbers():
    """What is no P_Key is refused, and nothing is made."""
    end = home()
    before = names_in(ROOT)
    for text in BAD:
        ksft_eq(errno_of(create_child, end, 0, text), errno.EINVAL, text)
        ksft_in(errno_of(delete_child, end, 0, text),
                (errno.EINVAL, errno.ENODEV), text)
    ksft_eq(names_in(ROOT), before)


@ours_only("to the in-tree module some are numbers of no child: ENODEV")
def test_bad_numbers_to_delete():
    """What is no P_Key is no child's either, and refused as such."""
    end = ends().a
    for text in BAD:
        ksft_eq(errno_of(delete_child, end, 0, text), errno.EINVAL, text)


@ours_only("the in-tree module takes what begins with a number")
def test_junk_behind():
    """A number with something behind it is no number."""
    end = ends().a
    for text in ("2x", "0x8002 3", "8,2", "0x", "99999999999999999999"):
        ksft_eq(errno_of(create_child, end, 0, text), errno.EINVAL, text)
    ksft_eq(names_in(end.ns, f"{end.ifname}."), [])


def test_duplicates():
    """A P_Key that is there, the parent's included: ENOTUNIQ."""
    end = home()
    create_child(end, 4)
    defer(delete_child, end, 4)
    before = names_in(ROOT)
    for number in (0x8004, 0xffff):
        ksft_eq(errno_of(create_child, end, number), errno.ENOTUNIQ,
                f"{number:#x}")
    ksft_in(errno_of(create_child, end, 4), (errno.ENOTUNIQ, errno.EEXIST))
    ksft_eq(names_in(ROOT), before)


@fixed_in_ours("makes a child with the P_Key of its parent, if the number "
               "lacks the bit of membership")
def test_duplicate_of_parent():
    """The parent's P_Key without the bit of membership is taken: ENOTUNIQ."""
    end = home()
    before = names_in(ROOT)
    defer(errno_of, delete_child, end, 0x7fff)
    ksft_eq(errno_of(create_child, end, 0x7fff), errno.ENOTUNIQ)
    ksft_eq(names_in(ROOT), before)


@ours_only("where the name is taken as well, the in-tree module says EEXIST")
def test_same_number():
    """The same number once more is a P_Key that is there, no taken name."""
    end = ends().a
    child = child_by_sysfs(end, 4)
    ksft_eq(errno_of(create_child, end, 4), errno.ENOTUNIQ)
    by_ip = child_by_ip(end, 5)
    ksft_eq(errno_of(create_child, end, 5), errno.ENOTUNIQ, "one of rtnetlink")
    ksft_false(gone(child) or gone(by_ip))


def test_delete_unknown():
    """Deleting what is not there: ENODEV."""
    end = home()
    for number in (5, 0x8005, 0xffff):
        ksft_eq(errno_of(delete_child, end, number), errno.ENODEV,
                f"{number:#x}")


@ours_only("the in-tree module's child is in the first namespace")
def test_name_taken():
    """A name that is taken is refused, with nothing half made."""
    end = ends().a
    name = sysfs_name(end, 6)
    end.ns.ip(["link", "add", name, "type", "dummy"])
    defer(end.ns.ip, ["link", "del", name])
    before = len(end.port.hca.data_qps())
    ksft_eq(errno_of(create_child, end, 6), errno.EEXIST)
    ksft_eq(len(end.port.hca.data_qps()), before, "QPs")


@ours_only("the in-tree module's child is in the first namespace")
def test_traffic():
    """A child of sysfs and one of rtnetlink talk; they are alike."""
    pair = ends()
    both = Children(child_by_sysfs(pair.a, 0x8001), child_by_ip(pair.b, 1))
    both.up()
    ping_ok(both.a.ns, both.b.v4, size=1900, df=True)
    tcp_transfer(both.a, both.b, 1 << 20)
    ksft_eq(len(udp_exchange(both.b, both.a, 100).seen), 100)
    for child in both:
        ksft_eq(child.read("pkey"), "0x8001")
        ksft_eq(child.read("mode"), "datagram")
        ksft_eq(child.read("umcast"), "0")
        ksft_eq(child.read("parent"), child.parent.ifname)
        ksft_eq(child.read_int("iflink"), child.parent.ifindex())
        ksft_eq(child.read("dev_port"), child.parent.read("dev_port"))
        ksft_false(exists(child.sys("create_child")), "a child's child")
        ksft_eq(int(str(child.data()["key"]), 16), 0x8001)
        ksft_eq(child.data()["mode"], "datagram")
        ksft_eq(int(child.data()["umcast"]), 0)
        ksft_eq(child.link()["link"], child.parent.ifname)
        ksft_eq(child.address()[4:], child.parent.address()[4:], "GID")
        ksft_ne(child.qpn(), child.parent.qpn())
        write(child.sys("mode"), "datagram\n")
        write(child.sys("umcast"), "1\n")
        ksft_eq(int(child.data()["umcast"]), 1)
    for end in pair:
        ksft_false(exists(end.sys("parent")), "a parent's parent")
    ping_ok(pair.a.ns, pair.b.v4)


@verbs_only("connected mode")
def test_network_manager():
    """The order of NetworkManager: down, mode, up; 0x%04x to the parent."""
    end = home()
    create_child(end, 7, "0x8007")
    child = Child(end, f"{end.ifname}.8007", 7, ROOT)
    defer(lambda: gone(child) or child.delete())
    ksft_eq(child.read_int("iflink"), end.ifindex())
    for mode in ("connected", "datagram"):
        ip(["link", "set", child.ifname, "down"])
        write(child.sys("mode"), f"{mode}\n")
        ip(["link", "set", child.ifname, "up"])
        child.wait_carrier()
        ksft_eq(child.read("mode"), mode)
        ksft_eq(child.data()["mode"], mode)
    delete_child(end, 7, "0x8007")
    wait_until(lambda: gone(child), 5)


@ours_only("the in-tree module's child is in the first namespace")
def test_renamed():
    """A child that was renamed is deleted by its P_Key all the same."""
    end = ends().a
    child = child_by_sysfs(end, 8)
    ip(["link", "set", child.ifname, "name", "other.8"], ns=end.ns)
    child.ifname = "other.8"
    child.up()
    child.wait_carrier()
    delete_child(end, 0x8008)
    ksft_true(gone(child))


@verbs_only("an HCA frees its own later")
@ours_only("the in-tree module does this later")
def test_delete_is_done():
    """When a write to delete_child returns, the child and its QP are gone."""
    end = ends().a
    before = len(end.port.hca.data_qps())
    for number in range(1, 6):
        child = child_by_sysfs(end, number)
        ksft_eq(len(end.port.hca.data_qps()), before + 1)
        child.up()
        delete_child(end, number)
        ksft_true(gone(child))
        ksft_eq(len(end.port.hca.data_qps()), before)


@ours_only("in the in-tree module a link of rtnetlink is no legacy child")
def test_delete_others():
    """delete_child deletes what create_child made, nothing else."""
    end = ends().a
    child = child_by_ip(end, 9)
    ksft_eq(errno_of(delete_child, end, 9), errno.ENODEV)
    ksft_false(gone(child))
    made = child_by_sysfs(end, 10)
    made.delete(fail=True)
    ksft_eq(errno_of(delete_child, end, 10), errno.ENODEV)


@ours_only("the in-tree module says nothing")
def test_log():
    """What users write is not in the log, and refusals are there seldom."""
    end = ends().a
    address = bytearray(end.address())
    address[-1] ^= 0x55
    talk = Rtnl(end.ns)
    defer(talk.close)
    place = kmsg_tail()
    for _ in range(100):
        for func in (create_child, delete_child):
            errno_of(func, end, 0, "\x1b[31mloud\x07\n")
        errno_of(delete_child, end, 5)
        errno_of(create_child, end, 0xffff)
        errno_of(talk.address, end.ifname, address)
    lines = kmsg_since(place)
    ksft_eq(len([line for line in lines if "loud" in line]), 0, "his text")
    ksft_le(len(lines), 60, "lines")


@ours_only("the in-tree module says nothing")
def test_files_are_for_root():
    """Only their owner may write the files."""
    end = ends().a
    for name in ("create_child", "delete_child"):
        ksft_eq(os.stat(end.sys(name)).st_mode & 0o777, 0o200, name)
    child = child_by_sysfs(end, 11)
    for name in ("pkey", "parent"):
        ksft_eq(os.stat(child.sys(name)).st_mode & 0o777, 0o444, name)


@ours_only("the in-tree module leaves it at the file's permissions")
def test_capability():
    """Root without CAP_NET_ADMIN may not write them."""
    end = ends().a
    child = child_by_sysfs(end, 12)
    files = {end.sys("create_child"): "0x800d",
             end.sys("delete_child"): "0x800c",
             child.sys("mode"): "connected", child.sys("umcast"): "1"}
    for path, text in files.items():
        done = cmd(["setpriv", "--bounding-set=-net_admin",
                    "--inh-caps=-net_admin", "tee", path], stdin=text,
                   fail=False)
        ksft_in("not permitted", done.stderr, path)
    ksft_eq((gone(child), child.read("mode"), child.read("umcast")),
            (False, "datagram", "0"))
    ksft_eq(names_in(end.ns, f"{end.ifname}."), [child.ifname])


@ours_only("no link-netnsid in the in-tree module")
@timeout(90)
def test_moved():
    """To another namespace and back, with traffic; deleted from afar."""
    pair = ends()
    space = Netns("h3").add()
    defer(space.delete)
    both = Children(child_by_sysfs(pair.a, 13), child_by_ip(pair.b, 13))
    child = both.a
    for where in (space, pair.a.ns, space):
        ip(f"link set {child.ifname} netns {where.name}", ns=child.ns)
        child.ns, child.name = where, where.name
        ksft_eq("link_netnsid" in child.link(), where is space, where)
        ksft_eq(child.link()["link_index"] if where is space else
                child.ns.ifindex(child.link()["link"]), pair.a.ifindex())
        ksft_eq(child.read("parent"), pair.a.ifname)
        both.up()
        tcp_transfer(both.a, both.b, 1 << 17)
    delete_child(pair.a, 13)
    ksft_true(gone(child))
    ping_ok(pair.a.ns, pair.b.v4)


@ours_only("the in-tree module's child is in the first namespace")
@timeout(90)
def test_namespace_dies():
    """Its namespace dies: it comes home, by another name if need be."""
    pair = ends()
    space = Netns("h4").add()
    child = child_by_sysfs(pair.a, 14)
    name = child.ifname
    ip(f"link add {name} type dummy")
    defer(ip, f"link del {name}")
    ip(f"link set {name} netns {space.name}", ns=pair.a.ns)
    ip(f"link set {name} up", ns=space)
    before = names_in(ROOT)
    space.delete()
    child.ns, child.name = ROOT, None
    child.ifname = wait_until(lambda: set(names_in(ROOT)) - set(before), 10,
                              "the child at home").pop()
    # The link in sysfs has moved a moment before what it points to.
    ksft_eq(wait_until(lambda: child.read("pkey"), 5), "0x800e")
    ksft_eq(child.read("parent"), pair.a.ifname)
    delete_child(pair.a, 14)
    ksft_true(gone(child))
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(120)
def test_unplug():
    """An HCA goes with children of both kinds, up and down."""
    ends()
    new = fabric.add_hca(5)
    name = wait_until(lambda: [n for n in names_in(ROOT, "ib")
                               if "." not in n][0], 10, "an interface")
    end = Child(ends().a, name, 0, ROOT)
    end.port = new.port()
    create_child(end, 1)
    create_child(end, 2)
    ip(f"link add link {name} name x.3 type ipoib pkey 0x8003")
    ip(f"link add link {name} name x.4 type ipoib pkey 0x8004")
    for up in (name, sysfs_name(end, 1), "x.3"):
        ip(f"link set {up} up")
    new.unplug()
    wait_until(lambda: not names_in(ROOT, name) and not names_in(ROOT, "x."),
               10, "everything of the HCA gone")


@ours_only("in the in-tree module the writer waits for nobody")
@timeout(120)
def test_delete_and_unplug():
    """A child is deleted while the HCA goes, and its GID just changed."""
    ends()
    for number in range(5, 8):
        delete_and_unplug(fabric.add_hca(number))


def delete_and_unplug(new):
    """Something waits for the child, for the writer, and for rtnl."""
    name = wait_until(lambda: [n for n in names_in(ROOT, "ib")
                               if "." not in n][0], 10, "an interface")
    end = Child(ends().a, name, 0, ROOT)
    end.port = new.port()
    for number in (1, 2):
        create_child(end, number)
    ip(f"link set {name} up")
    child = Child(end, sysfs_name(end, 1), 1, ROOT)
    child.wait_carrier()
    doomed = [qp.qpn for qp in new.data_qps() if qp.qpn == child.qpn()]
    ksft_eq(len(doomed), 1)
    end.port.set("wedged", 1)
    # Deleting waits a second for the HCA, with rtnl: the others queue up.
    begin = now()
    delete = Thread(target=errno_of, args=(delete_child, end, 1))
    delete.start()
    # Who looks too late does not see it any more.
    wait_until(lambda: not delete.is_alive() or
               [qp for qp in new.data_qps() if qp.qpn == doomed[0] and
                qp.state == "ERR"], 5, "the QP drains")
    end.port.set("set_prefix", "fec0000000001234")
    unplug = Thread(target=new.unplug)
    unplug.start()
    wait_until(lambda: not delete.is_alive() or "ipoib_port_unregister" in
               read(f"/proc/self/task/{unplug.native_id}/stack"), 5,
               "the unplug has come to rtnl")
    ksft_pr(f"{new} after {now() - begin:.2f} s: deleting "
            f"{'goes on' if delete.is_alive() else 'has ended'}")
    for thread in (delete, unplug):
        thread.join(slow(15))
        ksft_false(thread.is_alive(), "one of them waits for another")
    ksft_eq(names_in(ROOT, name), [])
