# SPDX-License-Identifier: GPL-2.0-only
"""ipoibctl swap: the module is exchanged, and everything else stays as it is."""

import json
import os
import signal
import subprocess

from lib import (Netns, Stream, cmd, defer, ends, exists, expect_report, ip, ksft_eq,
                 ksft_false, ksft_in, ksft_pr, ksft_true, loaded, ping, ping_ok, port,
                 read, slow, timeout, unload_module, wait_until, write)
from common import ROOT
from lib.child import child_by_ip, child_by_sysfs
from lib.connected import set_mode
from lib.ipoib import bond_of, drop_all, iface_of, load_module
from lib.ksft import marker
from lib.users import file

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 400}
GROUPS = ("users",)

CTL = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl")
OURS = os.environ.get("IPOIB_MODULE", "")
STATE = "/run/ipoibctl/swap.json"
WAITING = "/run/ipoibctl/waiting"
OPTIONS = "/run/modprobe.d/swap.conf"


def is_ours():
    return "O" in read("/sys/module/ib_ipoib/taint")


def swap(*words, status=0, ns=None):
    """Run it; what it says."""
    if words != ("--restore",):
        words = (*words, "--confirm-within", "0")
    done = cmd([CTL, "swap", *words], ns=ns, fail=False, timeout=slow(240))
    said = done.stdout + done.stderr
    if done.ret != status or not status:
        for line in said.splitlines():
            ksft_pr(line)
    ksft_eq(done.ret, status)
    return said


def confirm(status=0):
    done = cmd([CTL, "swap", "--confirm"], fail=False, timeout=slow(20))
    ksft_eq(done.ret, status, done.stdout + done.stderr)
    return done.stderr


def to_stock(**how):
    # From here on its known complaints are none of ours.
    marker("driver stock")
    return swap("kernel", "--running", OURS, **how)


def to_ours(**how):
    said = swap(OURS, **how)
    marker("driver none")
    return said


def ours_again():
    """At the end of each case, however it ended."""
    if exists(OPTIONS):
        os.unlink(OPTIONS)
    if exists(STATE):
        os.unlink(STATE)
    if loaded() and not is_ours():
        to_ours()


def hosts():
    """Two hosts, on our module until the end of the case, too."""
    drop_all()
    pair = ends()
    defer(ours_again)
    return pair


VOLATILE = ("ifindex", "vfinfo_list", "permaddr", "link", "link_index", "perm_hwaddr", "mii_status", "state", "valid_life_time", "preferred_life_time",
            "qdisc", "operstate", "stats64", "num_tx_queues", "num_rx_queues",
            "gso_max_size", "gso_max_segs", "tso_max_size", "tso_max_segs",
            "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size", "max_mtu",
            "min_mtu", "parentbus", "parentdev", "link_netnsid", "fragmentation",
            "allmulti", "promiscuity", "stable-privacy", "protocol", "flags")


def stable(value):
    """Without what may change, and with addresses' QPNs gone."""
    if isinstance(value, dict):
        # Without a carrier, the MTU is what might be.
        idle = "mtu" in value and "LOWER_UP" not in value.get("flags", ())
        return {key: stable(each)[-47:] if key == "address" else stable(each)
                for key, each in value.items()
                if key not in VOLATILE and not (idle and key == "mtu")}
    if isinstance(value, list):
        return sorted((stable(each) for each in value),
                      key=lambda each: json.dumps(each, sort_keys=True))
    return value


def listing(ns):
    """All that ip(8) has to say of a host."""
    found = {}
    for name, words in {
            "links": "-d link show", "addresses": "addr show",
            "routes": "-d route show table all",
            "routes6": "-d -6 route show table all", "nexthops": "nexthop show",
            "neighbours": "neigh show nud permanent",
            "proxies": "neigh show proxy",
            "rules": "rule show"}.items():
        said = cmd(["ip", "-n", ns.name, "-j", *words.split()]).stdout
        found[name] = stable(json.loads(said or "[]"))
    # The kernel's own, of which some stay for a moment
    for name in ("routes", "routes6"):
        found[name] = [each for each in found[name]
                       if each.get("table") != "local" and
                       "multicast" not in each.get("type", "")]
    return found


def same(before, after):
    """Nothing is missing, and nothing is new."""
    for name, was in before.items():
        missing = [each for each in was if each not in after[name]]
        new = [each for each in after[name] if each not in was]
        ksft_eq((missing, new), ([], []), name)


SETTINGS = {"net.ipv4.conf.{}.rp_filter": "2", "net.ipv6.conf.{}.accept_ra": "0",
            "net.ipv4.neigh.{}.ucast_solicit": "5",
            "net.ipv6.conf.{}.accept_dad": "1"}


def check_settings(one):
    for name, value in SETTINGS.items():
        ksft_eq(one.ns.sysctl(name.format(one.ifname)), value, name)


def other_end(child):
    """The address of the peer's child, which need not be there."""
    return child.v4.rpartition(".")[0] + ".2"


def furnish(pair):
    """Everything that a host may have; the children."""
    one = pair.a
    child = child_by_sysfs(one, 0x8001, 1)
    child.up()
    child_by_ip(one, 0x8001, 3, ifname="twin")
    child_by_ip(one, 0x8003, 4, ifname="idle").set("down")
    away = Netns("h9").add()
    defer(away.delete)
    child_by_ip(one, 0x8002, 2, ifname="storage")
    ip("link set storage netns h9 name ib9", ns=one.ns)
    # Or it would come home when its namespace goes.
    defer(ip, "link del ib9", ns=away, fail=False)
    ip("link add dummy8 address 02:00:00:00:00:08 type dummy", ns=one.ns)
    defer(ip, "link del dummy8", ns=one.ns, fail=False)
    for name, value in SETTINGS.items():
        one.ns.sysctl(name.format(one.ifname), value)
    for each in (one, child):
        each.wait_carrier()
    ip("addr add 10.77.0.1/24 dev ib9", ns=away)
    ip("link set ib9 up", ns=away)
    batch = f"""
link set {one.ifname} alias "to the storage"
link property add dev {one.ifname} altname ipoib-of-h1
link set {one.ifname} txqueuelen 333
addr add 10.70.0.1/24 brd + dev {one.ifname} label {one.ifname}:x
addr add 10.70.0.2/24 dev {one.ifname} valid_lft 3000 preferred_lft 2000
addr add fd70::1/64 dev {one.ifname} nodad noprefixroute
route add 10.71.0.0/16 via 10.70.0.9 metric 77
route add 10.72.0.0/16 via 10.70.0.9 table 100
route add 10.73.0.0/16 nexthop via 10.70.0.9 weight 2 nexthop via {other_end(child)}
route add 10.74.0.0/16 dev {one.ifname} src 10.70.0.1 mtu 1400
route add fd71::/32 via fd00::2 metric 9
route add fd72::/32 nexthop via fd00::2 nexthop via fd01:1::2
route add fd73::/32 via fd00::2 src fd70::1
addr add fd88::1/64 dev dummy8 nodad
link set dummy8 up
route add fd74::/32 nexthop via fd00::2 nexthop via fd88::2
route add 10.76.0.0/16 via 10.70.0.9 metric 5
route append 10.76.0.0/16 via {other_end(child)} metric 5
nexthop add id 7 via 10.70.0.9 dev {one.ifname}
nexthop add id 8 via {other_end(child)} dev {child.ifname}
nexthop add id 9 group 7/8,3
route add 10.75.0.0/16 nhid 9
neigh add 10.70.0.9 lladdr {pair.b.address().hex(":")} dev {one.ifname} nud permanent
neigh add proxy 10.70.0.8 dev {one.ifname}
route add 10.78.0.0/16 dev {one.ifname} proto kernel scope link src 10.70.0.1 metric 150
rule add iif {one.ifname} lookup 100 priority 500
"""
    defer(cmd, ["ip", "-n", one.ns.name, "-force", "-batch", "-"], stdin=f"""
link property del dev {one.ifname} altname ipoib-of-h1
link set {one.ifname} alias "" txqueuelen 1000
rule del priority 500
nexthop flush
""", fail=False)
    cmd(["ip", "-n", one.ns.name, "-batch", "-"], stdin=batch)
    return child, away


def begun(seconds):
    """An exchange that has just begun: the command."""
    marker("driver stock")
    # pylint: disable-next=consider-using-with
    proc = subprocess.Popen([CTL, "swap", "kernel", "--running", OURS,
                             "--confirm-within", str(seconds)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            start_new_session=True)
    defer(ended)
    defer(proc.wait)
    defer(proc.kill)
    wait_until(lambda: exists(STATE), 60, "the exchange to begin", interval=0.01)
    return proc


def workers():
    """The processes of exchanges."""
    found = cmd(["pgrep", "-f", f"{CTL} swap"], fail=False).stdout.split()
    return [int(pid) for pid in found]


def ended():
    """Nothing goes on any more."""
    wait_until(lambda: not workers(), 120, "the end of the exchange")


@timeout(600)
def test_there_and_back():
    """To the kernel's module and back, with all there is, under a TCP stream."""
    pair = hosts()
    set_mode(pair.a, "connected")
    set_mode(pair.b, "connected")
    for end in pair:
        defer(set_mode, end, "datagram")
        end.set_mtu(60000)
    child, away = furnish(pair)
    stream = Stream(pair.a, pair.b, rate=1 << 20)
    stream.wait_progress()
    before = listing(pair.a.ns), listing(pair.b.ns), listing(away)
    # The kernel's driver has the debugfs files of a child that moves already.
    expect_report("duplicate")
    said = to_stock(ns=pair.a.ns)
    ksft_false(is_ours())
    ksft_in("done in", said)
    for was, ns in zip(before, (pair.a.ns, pair.b.ns, away)):
        same(was, listing(ns))
    check_settings(pair.a)
    stream.wait_progress(limit=60)
    to_ours()
    ksft_true(is_ours())
    for was, ns in zip(before, (pair.a.ns, pair.b.ns, away)):
        same(was, listing(ns))
    check_settings(pair.a)
    stream.wait_progress(limit=60)
    stream.finish()
    ksft_false(exists(STATE))
    ping_ok(pair.a.ns, pair.b.v4, size=20000)
    ksft_true(exists(child.sys("parent")))


@timeout(300)
def test_sysfs_child():
    """The kernel's module deletes by delete_child what create_child made for ours."""
    hosts()
    drop_all()
    parent = iface_of(port(0))[1]
    write(f"/sys/class/net/{parent}/create_child", "0x8003")
    child = f"/sys/class/net/{parent}.8003"
    ksft_true(exists(child))
    to_stock()
    ksft_true(exists(child))
    write(f"/sys/class/net/{parent}/delete_child", "0x8003")
    wait_until(lambda: not exists(child), 10, "the child to go")


@timeout(400)
def test_bond():
    """A bond keeps its address, its routes and its only interface."""
    pair = hosts()
    bond_of(pair.a)
    cmd(["ip", "-n", pair.a.ns.name, "-batch", "-"], stdin=f"""
addr add {pair.a.v4}/24 dev bond9
link set bond9 up
""")
    wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.5), 20, "the bond")
    cmd(["ip", "-n", pair.a.ns.name, "-batch", "-"], stdin=f"""
route add 10.71.0.0/16 via {pair.b.v4}
nexthop add id 5 via {pair.b.v4} dev bond9
route add 10.72.0.0/16 nhid 5
""")
    before = listing(pair.a.ns)
    for turn in (to_stock, to_ours):
        turn()
        same(before, listing(pair.a.ns))
        wait_until(lambda: ping(pair.a.ns, pair.b.v4, limit=0.5), 20,
                   "the bond again")


@timeout(300)
def test_parameters():
    """Those of modprobe.d(5), as far as the other module has them."""
    hosts()
    file(OPTIONS, "options ib_ipoib send_queue_size=256 nosuch=1\n")
    said = to_stock()
    ksft_in("without nosuch", said)
    ksft_eq(read("/sys/module/ib_ipoib/parameters/send_queue_size"), "256")


@timeout(300)
def test_load_fails():
    """The other module cannot be loaded: everything is as it was."""
    pair = hosts()
    furnish(pair)
    before = listing(pair.a.ns)
    file(OPTIONS, "options ib_ipoib send_queue_size=none\n")
    said = to_stock(status=1)
    ksft_in("everything is as it was before", said)
    ksft_true(is_ours())
    ksft_false(exists(STATE))
    same(before, listing(pair.a.ns))
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(5))


@timeout(400)
def test_restore():
    """What cannot be put back is kept, and put back when it can be."""
    pair = hosts()
    dummy = "link add dummy7 index 777 address 02:00:00:00:00:07 type dummy"
    ip(dummy, ns=pair.a.ns)
    defer(ip, "link del dummy7", ns=pair.a.ns, fail=False)
    cmd(["ip", "-n", pair.a.ns.name, "-batch", "-"], stdin=f"""
link set dummy7 up
route add 10.73.0.0/16 nexthop via {pair.b.v4} nexthop dev dummy7
""")
    before = listing(pair.a.ns)
    proc = begun(0)
    # Somebody changes the network meanwhile.
    wait_until(lambda: not loaded(), 60, "the module to go", interval=0.01)
    ip("link del dummy7", ns=pair.a.ns)
    ksft_eq(proc.wait(slow(240)), 1)
    said = read("/run/ipoibctl/swap.log")
    ksft_in("1 of the routes could not be put back", said)
    ksft_in("puts back what is missing", said)
    ksft_true(is_ours())
    ksft_in("an exchange was interrupted", to_stock(status=2))
    ip(dummy, ns=pair.a.ns)
    ip("link set dummy7 up", ns=pair.a.ns)
    swap("--restore")
    same(before, listing(pair.a.ns))
    ksft_in("no exchange was interrupted", swap("--restore", status=2))


@timeout(400)
def test_confirm():
    """Kept if it is confirmed; else everything is as it was before."""
    pair = hosts()
    furnish(pair)
    before = listing(pair.a.ns)
    ksft_in("nothing waits for that", confirm(status=2))
    proc = begun(5)
    wait_until(lambda: exists(WAITING), 60, "the question")
    ksft_false(is_ours())
    ksft_eq(proc.wait(slow(240)), 1)
    ksft_true(is_ours())
    same(before, listing(pair.a.ns))
    proc = begun(600)
    wait_until(lambda: exists(WAITING), 60, "the question")
    confirm()
    ksft_eq(proc.wait(slow(240)), 0)
    ksft_false(is_ours())
    ksft_false(exists(STATE))
    same(before, listing(pair.a.ns))


@timeout(300)
def test_hang_up():
    """It does not end with the terminal, nor is it interrupted."""
    pair = hosts()
    before = listing(pair.a.ns)
    proc = begun(0)
    wait_until(lambda: len(workers()) > 1, 10, "the process that does it")
    proc.stdout.close()
    for kind in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        for pid in workers():
            os.kill(pid, kind)
    ksft_in("another exchange is in progress", swap(status=2))
    proc.wait(slow(240))
    ended()
    ksft_false(is_ours())
    ksft_false(exists(STATE))
    same(before, listing(pair.a.ns))
    ksft_in("done in", read("/run/ipoibctl/swap.log"))


@timeout(300)
def test_killed():
    """Killed in the middle, what it has saved can be put back."""
    pair = hosts()
    furnish(pair)
    before = listing(pair.a.ns)
    begun(0)
    wait_until(lambda: not loaded(), 60, "the module to go", interval=0.01)
    for pid in workers():
        os.kill(pid, signal.SIGKILL)
    ended()
    wait_until(lambda: cmd(["pgrep", "-x", "insmod|rmmod"], fail=False).ret, 60,
               "what it has started")
    if not loaded():
        load_module()
    swap("--restore")
    same(before, listing(pair.a.ns))


@timeout(300)
def test_refused():
    """Nothing is touched if it cannot be done; a dry run does nothing either."""
    pair = hosts()
    number = read(pair.a.sys("ifindex"))
    broken = "/run/broken.ko"
    file(broken, "no module\n")
    for words, why in (
            ([broken, "--running", OURS], "modinfo"),
            (["/run/nosuch.ko", "--running", OURS], "there is no such file"),
            ([os.path.dirname(OURS), "--running", OURS], "there is no such file"),
            (["installed", "--running", OURS], "is ib-ipoib-dkms installed"),
            (["kernel"], "name it with --running")):
        ksft_in(why, swap(*words, status=2))
    said = swap("kernel", "--running", OURS, "-n")
    ksft_in(f"{pair.a.ifname} in h1: P_Key 0xffff, datagram, MTU", said)
    ksft_eq(read(pair.a.sys("ifindex")), number)
    ksft_false(exists(STATE))
    unload_module()
    ksft_in("is not loaded", swap(status=2))
    load_module()


@timeout(120)
def test_dry_run():
    """An ordinary user sees the plan for the own namespace, and nothing is done."""
    pair = hosts()
    number = read(pair.a.sys("ifindex"))
    copy = "/run/ours.ko"
    cmd(["install", "-m", "644", OURS, copy])
    defer(os.unlink, copy)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", CTL, "swap"]
    said = cmd([*nobody, "-n", copy, "--running", copy], ns=pair.a.ns,
               timeout=slow(60)).stdout
    ksft_in(f"{pair.a.ifname}: P_Key 0xffff, datagram, MTU", said)
    ksft_in("other network namespaces were not looked at", said)
    done = cmd([*nobody, copy, "--running", copy], ns=pair.a.ns, fail=False)
    ksft_eq(done.ret, 2)
    ksft_in("only root can do that", done.stderr)
    ksft_eq(read(pair.a.sys("ifindex")), number)
    ksft_false(exists(STATE))
