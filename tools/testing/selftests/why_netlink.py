# SPDX-License-Identifier: GPL-2.0-only
"""
The generic netlink family: why an interface has no carrier, its neighbours, groups
and connections; and what ethtool(8) and the log say about the cause.
"""

import errno
import json
import os
import re
import signal
import socket
import subprocess

from lib import (cmd, defer, ends, hold, in_groups, ip, kmsg_since, kmsg_tail,
                 ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_le, ksft_not_in,
                 ksft_true, mcast_receiver, mcast_sender, mgid_of, own_interfaces,
                 read, sm, tcp_transfer, timeout, wait_until)
from common import ROOT
from lib.child import child_by_ip
from lib.connected import set_mode
from lib.genl import Watch, cause, family, nl, wait_cause

BOOT = {"hcas": 2, "seconds": 150, "ipoib": "ours"}
# The core has no room for all of them.
GROUPS = ("users",)

# Groups that fill several of a dump's buffers, which are as large as what the
# reader has offered; the kernel fills one more than has been read.
MANY, SMALL = 300, 8192


def link_detected(end):
    """What ethtool(8) says of the link."""
    text = cmd(["ethtool", end.ifname], ns=end.ns).stdout
    return re.search(r"Link detected: (.*)", text)[1]


def log_lines(place, end):
    """What the driver has said of an interface since."""
    return [line for line in kmsg_since(place, rf"\b{end.ifname}\b")
            if "carrier" not in line and "link becomes ready" not in line]


# ---- interfaces ---------------------------------------------------------------


@in_groups("core", "users")
def test_well():
    """Nothing is wrong, and all that is said is right; by name and in a dump."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8001, 1)
    child.up()
    child.wait_carrier()
    all_of = {each["ifname"]: each for each in family(pair.a).get("dev-get")}
    ksft_eq(set(all_of), {pair.a.ifname, child.ifname})
    for end in (pair.a, child):
        one = all_of[end.ifname]
        ksft_eq(one["cause"], "none")
        ksft_not_in("error", one)
        ksft_eq((one["ifindex"], one["pkey"], one["qpn"]),
                (end.ifindex(), int(end.read("pkey"), 0), end.qpn()))
        ksft_eq((one["lid"], one["port-state"], one["phys-state"]),
                (pair.a.port.lid(), 4, 5))
        ksft_eq((one["port"], one["retries"], one["mode"]),
                (pair.a.port.num, 0, "datagram"))
        ksft_in(f"{one['hca-index']}: {pair.a.port.hca.name}:",
                cmd("rdma dev show").stdout)
        ksft_not_in("join-error", one)
        again = family(pair.a).get("dev-get", end.ifindex(), dump=False)[0]
        ksft_le(one["cause-age"], again["cause-age"])
        one["cause-age"] = again["cause-age"]
        ksft_eq(one, again)
    set_mode(pair.a, "connected")
    defer(set_mode, pair.a, "datagram")
    ksft_eq(cause(pair.a)["mode"], "connected")


@in_groups("core", "users")
@timeout(120)
def test_port():
    """No cable, then no SM, each with its event and, if it lasts, its line."""
    pair = ends()
    watch, place = Watch(pair.a), kmsg_tail()
    child = child_by_ip(pair.a, 0x8001, 1)
    child.up()
    child.wait_carrier()
    pair.a.port.link(False)
    again = defer(pair.a.port.link, True)
    watch.wait("dev-ntf", cause="port-down")
    ksft_eq(cause(child)["cause"], "port-down")
    if not own_interfaces():
        ksft_in("(Autoneg, No partner detected)", link_detected(pair.a))
    wait_until(lambda: log_lines(place, pair.a), 15, "a line")
    hold(6)
    ksft_eq([line.rpartition(f"{pair.a.ifname}: ")[2]
             for line in log_lines(place, pair.a)],
            [f"port {pair.a.port.num} of {pair.a.port.hca.name} has no link: "
             "no partner detected"])
    ksft_eq(log_lines(place, child), [], "once for the port")
    sm.stop()
    started = defer(sm.start)
    again.exec()
    watch.wait("dev-ntf", cause="port-init")
    ksft_not_in("No partner", link_detected(pair.a))
    wait_until(lambda: len(log_lines(place, pair.a)) == 2, 15, "another line")
    ksft_in("no subnet manager has configured port",
            log_lines(place, pair.a)[1])
    started.exec()
    pair.a.wait_carrier()
    wait_cause(pair.a, "none")
    watch.wait("dev-ntf", cause="none")


@timeout(100)
def test_flaps():
    """A link that flaps fills no log, but each change is an event."""
    pair = ends()
    watch, place = Watch(pair.a), kmsg_tail()
    for _ in range(3):
        pair.a.port.link(False)
        wait_cause(pair.a, "port-down")
        pair.a.port.link(True)
        wait_cause(pair.a, "none", 30)
    ksft_eq(log_lines(place, pair.a), [])
    ksft_eq(len(watch.of("dev-ntf", cause="port-down")), 3)
    ksft_eq(len(watch.of("dev-ntf", cause="none")), 3)


@timeout(120)
def test_closed_and_pkey():
    """Closed; a P_Key that is missing; then a limited one, which is refused."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8055, 1)
    watch, place = Watch(child), kmsg_tail()
    ksft_eq(cause(child)["cause"], "admin-down")
    child.up()
    watch.wait("dev-ntf", cause="no-pkey")
    wait_until(lambda: log_lines(place, child), 5, "a line")
    ksft_eq([line.rpartition(": ")[2] for line in log_lines(place, child)],
            ["P_Key 0x8055 is not in the port's table"])
    child.set("down")
    watch.wait("dev-ntf", cause="admin-down")
    child.up()
    guid = f"{pair.a.port.guid():#x}"
    sm.more_partitions(f"half=0x0055: {guid}=limited, {pair.b.port.guid():#x}=full;")
    told = watch.wait("dev-ntf", 30, cause="limited-pkey")
    ksft_eq(told["pkey"], 0x8055)
    wait_until(lambda: any("limited member of partition 0x8055" in line
                           for line in log_lines(place, child)), 10, "a line")
    sm.more_partitions("half=0x0055, ipoib: ALL=full;")
    child.wait_carrier(40)
    ksft_eq(wait_cause(child, "none")["retries"], 0)


@timeout(120)
def test_refused():
    """A full member whose group the SA does not make."""
    pair = ends()
    child = child_by_ip(pair.a, 0x8056, 1)
    place = kmsg_tail()
    child.up()
    sm.more_partitions("bare=0x0056: ALL=full;")
    wait_cause(child, "join-refused", 30)
    groups = family(child).get("group-get", child.ifindex())
    ksft_eq([(each["status"], each["broadcast"], each["error"])
             for each in groups if "broadcast" in each],
            [("waiting", True, -errno.EINVAL)])
    wait_until(lambda: any("refused by the SA" in line
                           for line in log_lines(place, child)), 10, "a line")
    ksft_eq(len(log_lines(place, child)), 2, "P_Key, then the group")


@in_groups("core", "users")
@timeout(150)
def test_sa():
    """An SA that does not answer; the broadcast group is not joined."""
    pair = ends()
    fault = pair.a.port.fault("sa_drop", 1)
    watch, place = Watch(pair.a), kmsg_tail()
    pair.a.set("down")
    pair.a.up()
    watch.wait("dev-ntf", cause="joining")
    watch.wait("dev-ntf", 40, cause="sa-silent")
    wait_until(lambda: any("the SA at LID" in line and "does not answer" in line
                           for line in log_lines(place, pair.a)), 20, "a line")
    fault.exec()
    pair.a.wait_carrier(40)
    wait_cause(pair.a, "none")


@timeout(150)
def test_join_again():
    """The SA is silent when it is asked again: that is told, beside a carrier."""
    pair = ends()
    fault = pair.a.port.fault("sa_drop", 1)
    place = kmsg_tail()
    pair.a.port.event("client_reregister")
    wait_until(lambda: "join-error" in cause(pair.a), 40, "an error")
    ksft_eq((cause(pair.a)["join-error"], cause(pair.a)["cause"]),
            (-errno.ETIMEDOUT, "none"))
    ksft_true(pair.a.carrier())
    wait_until(lambda: any("not joined: no answer" in line
                           for line in log_lines(place, pair.a)), 60, "a line")
    fault.exec()
    wait_until(lambda: "join-error" not in cause(pair.a), 40, "an answer")


@timeout(150)
def test_children_only():
    """A port whose parent is down: one child speaks for all, and looks at it."""
    pair = ends()
    names = [f"c{n}{pair.a.ifname}" for n in range(3)]
    for name in names:
        ip(f"link add {name} link {pair.a.ifname} type ipoib pkey 0x8001",
           ns=pair.a.ns)
        defer(ip, f"link del {name}", ns=pair.a.ns, fail=False)
        ip(f"link set {name} up", ns=pair.a.ns)
    mine = family(pair.a)

    def causes():
        return {each["ifname"]: each["cause"] for each in mine.get("dev-get")}

    wait_until(lambda: all(causes()[name] == "none" for name in names), 20,
               "carriers")
    pair.a.set("down")
    defer(pair.a.up)
    for name in names:
        ip(f"link set {name} up", ns=pair.a.ns)
    wait_until(lambda: all(causes()[name] == "none" for name in names), 20,
               "carriers without the parent's")
    place = kmsg_tail()
    sm.stop()
    started = defer(sm.start)
    pair.a.port.link(False)
    again = defer(pair.a.port.link, True)
    wait_until(lambda: all(causes()[name] == "port-down" for name in names), 10,
               "no link")
    wait_until(lambda: kmsg_since(place, "has no link"), 15, "a line")
    hold(6)
    ksft_eq(len(kmsg_since(place, "has no link")), 1)
    # Whoever spoke is closed: another one looks at the port.
    ip(f"link set {names[0]} down", ns=pair.a.ns)
    again.exec()
    wait_until(lambda: all(causes()[name] == "port-init"
                           for name in names[1:]), 20, "a link without an SM")
    started.exec()
    wait_until(lambda: all(causes()[name] == "none" for name in names[1:]), 40,
               "carriers")
    ksft_true(kmsg_since(place, "has a carrier again"))


@timeout(100)
def test_start_failed():
    """The HCA refuses: the error is told, and how often that was tried."""
    pair = ends()
    pair.a.set("down")
    fault = pair.a.port.fault("modify_error", 1 << 20)
    place = kmsg_tail()
    pair.a.up()
    told = wait_cause(pair.a, "start-failed")
    ksft_true(told["error"] < 0, told)
    wait_until(lambda: cause(pair.a)["start-failures"] >
               told["start-failures"] + 1, 20,
               "attempts")
    ksft_ge(cause(pair.a)["retries"], 2)
    lines = log_lines(place, pair.a)
    ksft_eq(sum("can't be brought up" in line for line in lines), 1, lines)
    fault.exec()
    pair.a.wait_carrier(30)
    wait_cause(pair.a, "none")


# ---- what they have -----------------------------------------------------------


@in_groups("core", "users")
def test_neighbours():
    """Neighbours with their paths, and their changes."""
    pair = ends()
    cmd(f"ip neigh flush dev {pair.a.ifname}", ns=pair.a.ns)
    pair.a.set("down")
    pair.a.up()
    pair.wait_ping()
    found = {each["lladdr"]: each for each in
             family(pair.a).get("neigh-get", pair.a.ifindex())}
    peer = found[pair.b.address().hex(":")]
    ksft_eq((peer["path-status"], peer["dlid"]),
            ("valid", pair.b.port.lid()))
    ksft_in(peer["path-mtu"], (2048, 4096))
    ksft_eq(peer["gid"], nl.gid(pair.b.address()[4:]))
    ksft_eq((peer["path-failures"], peer["path-waiting-packets"]), (0, 0))
    ksft_not_in("link-status", peer, "datagram mode")
    ksft_ge(peer["rate"], 2500)
    watch = Watch(pair.a)
    sm.restart()
    pair.a.port.event("client_reregister")
    cmd(f"ip neigh flush dev {pair.a.ifname}", ns=pair.a.ns)
    pair.wait_ping(30)
    watch.wait("path-ntf", 30, gid=peer["gid"], path_status="asking")
    watch.wait("path-ntf", 30, gid=peer["gid"], path_status="valid")


@timeout(100)
def test_connections():
    """A connection: its neighbour, both ends of it, and its changes."""
    pair = ends()
    for end in pair:
        set_mode(end, "connected")
        defer(set_mode, end, "datagram")
    watch = Watch(pair.a)
    pair.wait_ping()
    tcp_transfer(pair.a, pair.b, 1 << 20)
    gid = nl.gid(pair.b.address()[4:])
    told = watch.wait("link-ntf", gid=gid, link_status="up")
    ksft_eq(told["lladdr"], pair.b.address().hex(":"))
    watch.wait("conn-ntf", gid=gid, status="up")
    peer = [each for each in family(pair.a).get("neigh-get", pair.a.ifindex())
            if each.get("link-status")]
    ksft_eq([(each["link-status"], each["gid"]) for each in peer],
            [("up", gid)])
    ksft_ge(peer[0]["max-msg"], 65524)
    for end, other in ((pair.a, pair.b), (pair.b, pair.a)):
        conns = family(end).get("conn-get", end.ifindex())
        ours = {each["qpn"] for each in conns}
        ksft_eq(ours, {qp.qpn for qp in end.port.hca.data_qps("RC")})
        for each in conns:
            ksft_eq(each["gid"], nl.gid(other.address()[4:]))
            ksft_eq("lid" in each, "by-peer" in each)
    set_mode(pair.a, "datagram")
    watch.wait("conn-ntf", gid=gid, status="closing")


def test_groups():
    """Groups joined, and what is joined and left."""
    pair = ends()
    watch = Watch(pair.a)
    with mcast_receiver(pair.a, "239.7.7.7"):
        mgid = nl.gid(mgid_of("239.7.7.7"))
        watch.wait("group-ntf", mgid=mgid, status="member")
        found = {each["mgid"]: each for each in
                 family(pair.a).get("group-get", pair.a.ifindex())}
        ksft_eq((found[mgid]["status"], found[mgid]["mtu"]), ("member", 2048))
        ksft_not_in("send-only", found[mgid])
        ksft_ge(found[mgid]["mlid"], 0xc000)
        ksft_eq(sum("broadcast" in each for each in found.values()), 1)
    wait_until(lambda: mgid not in
               {each["mgid"] for each in
                family(pair.a).get("group-get", pair.a.ifindex())}, 15, "left")
    with mcast_sender(pair.a, "239.7.7.8") as sock:
        sock.sendto(b"x", ("239.7.7.8", 9))
        sent = nl.gid(mgid_of("239.7.7.8"))
        wait_until(lambda: any(
            each["mgid"] == sent and "send-only" in each for each in
            family(pair.a).get("group-get", pair.a.ifindex())), 15, "send-only")


def many_groups(end, count):
    """So many groups are joined; their MGIDs, and the sockets that hold them."""
    socks, wanted = [], set()
    for n in range(count):
        group = f"239.8.{n >> 8}.{n & 255}"
        if n % 20 == 0:
            socks.append(end.ns.socket(socket.AF_INET, socket.SOCK_DGRAM))
            defer(socks[-1].close)
        socks[-1].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                             socket.inet_aton(group) +
                             socket.inet_aton(end.v4))
        wanted.add(nl.gid(mgid_of(group)))
    mine = family(end)

    def joined():
        found = mine.get("group-get", end.ifindex())
        return wanted <= {each["mgid"] for each in found
                          if each["status"] == "member"}

    wait_until(joined, 60, "all groups", interval=1)
    return wanted, socks


@timeout(150)
def test_many():
    """More than fits into a buffer: all of it comes, each once."""
    pair = ends()
    wanted, _ = many_groups(pair.a, MANY)
    mine = family(pair.a, buffer=SMALL)
    found = mine.get("group-get", pair.a.ifindex())
    ksft_false(mine.interrupted, "nothing changed meanwhile")
    ksft_eq(len(found), len({each["mgid"] for each in found}), "each once")
    ksft_true(wanted <= {each["mgid"] for each in found})


@timeout(150)
def test_torn():
    """A list that changes between two buffers of a dump: the reader is told."""
    pair = ends()
    _, socks = many_groups(pair.a, MANY)
    other = family(pair.a)
    mine = family(pair.a, buffer=SMALL)
    mine.send(mine.numbers["group-get"], nl.NLM_F_DUMP, b"")
    kinds = [kind for kind, *_ in mine.messages()]
    ksft_not_in(nl.NLMSG_DONE, kinds, "the first of several buffers")
    socks.pop(0).close()
    gone = nl.gid(mgid_of("239.8.0.7"))
    wait_until(lambda: gone not in {each["mgid"] for each in
                                    other.get("group-get")}, 30, "a group left")
    flags = []
    while nl.NLMSG_DONE not in kinds:
        for kind, each, *_ in mine.messages():
            kinds.append(kind)
            flags.append(each)
    ksft_true(any(each & nl.NLM_F_DUMP_INTR for each in flags), flags)


# ---- who may, and what is refused ----------------------------------------------


def refused(code, words, action, *args, **kwargs):
    """That fails with an error number, and says why."""
    try:
        action(*args, **kwargs)
    except nl.NetlinkError as error:
        ksft_eq(error.errno, code, error)
        ksft_in(words, error.strerror)
        return
    ksft_true(False, "it was allowed")


def test_mistakes():
    """Interfaces that are none, or of another kind or namespace."""
    pair = ends()
    mine = family(pair.a)
    with pair.a.ns.inside():
        loopback = socket.if_nametoindex("lo")
    for command in ("dev-get", "neigh-get", "group-get", "conn-get"):
        refused(errno.ENODEV, "no such interface", mine.get, command, 99999)
        refused(errno.EOPNOTSUPP, "not an IPoIB", mine.get, command, loopback)
        refused(errno.ERANGE, "", mine.get, command, 0)
    refused(errno.EINVAL, "index is needed", mine.get, "dev-get", dump=False)
    refused(errno.ENODEV, "no such interface", mine.get, "dev-get", 99999,
            dump=False)
    ksft_eq({each["ifname"] for each in family(pair.b).get("dev-get")},
            {pair.b.ifname}, "the other namespace's are not shown")


def test_rights():
    """What an ordinary user may see: interfaces; what needs CAP_NET_ADMIN: the rest."""
    pair = ends()
    program = ("import sys; sys.path.insert(0, %r); import ipoib_netlink as nl\n"
               "f = nl.Family()\n"
               "print(f.get('dev-get')[0]['cause'])\n"
               "for what in ('neigh-get', 'group-get', 'conn-get'):\n"
               "    try:\n"
               "        f.get(what); print('allowed')\n"
               "    except OSError as e: print(e.errno)\n"
               "f.listen('events')\n"
               "try:\n"
               "    f.listen('objects'); print('allowed')\n"
               "except OSError as e: print(e.errno)\n" %
               os.path.join(ROOT, "tools", "ipoibctl"))
    done = cmd(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                "python3", "-B", "-c", program], ns=pair.a.ns)
    ksft_eq(done.stdout.split(), ["none"] + 4 * [str(errno.EPERM)])
    # Root of a user namespace of its own, to which this network is not subject
    done = cmd(["unshare", "--user", "--map-root-user", "python3", "-B", "-c",
                program], ns=pair.a.ns)
    ksft_eq(done.stdout.split(), ["none"] + 4 * [str(errno.EPERM)])


def answer(mine, command, data, flags=nl.NLM_F_ACK):
    """The error number that a request ends with, 0: none."""
    sequence = mine.send(command, flags, data)
    for kind, _, number, body in mine.messages():
        if number == sequence and kind == nl.NLMSG_ERROR:
            return -nl.signed(body[:4])
    return 0


def test_malformed():
    """Attributes and commands that there are not, and sizes that are wrong."""
    mine = family(ends().a)
    get = mine.numbers["dev-get"]
    index = nl.attribute(1, bytes([1, 0, 0, 0]))
    for data in (nl.attribute(2, b"ib0\0"), index + nl.attribute(77, bytes(4)),
                 nl.attribute(1, bytes(2)), nl.ATTR.pack(64, 1) + bytes(4),
                 nl.attribute(1, bytes(4))):
        ksft_true(answer(mine, get, data) in (errno.EINVAL, errno.ERANGE), data)
    for command in (0, mine.numbers["dev-ntf"], mine.numbers["conn-ntf"], 200):
        ksft_eq(answer(mine, command, b""), errno.EOPNOTSUPP, command)
    for name in ("neigh-get", "group-get", "conn-get"):
        ksft_eq(answer(mine, mine.numbers[name], index), errno.EOPNOTSUPP, name)


@in_groups("core", "users")
def test_ipoibctl():
    """ipoibctl shows the cause, the objects, and prints each change."""
    pair = ends()
    ctl = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl")
    for words in (["neighbours"], ["groups", pair.a.ifname], ["connections"]):
        done = cmd([ctl, *words], ns=pair.a.ns)
        ksft_eq(done.stderr, "")
    ksft_in("path-status valid", cmd([ctl, "neighbours"], ns=pair.a.ns).stdout)
    ksft_in("status member", cmd([ctl, "groups"], ns=pair.a.ns).stdout)
    done = cmd(["bash", "-c", f"{ctl} groups | true; exit ${{PIPESTATUS[0]}}"],
               ns=pair.a.ns)
    ksft_eq(done.stderr, "")
    log = "/run/monitor"
    defer(os.unlink, log)
    for words in ((), ("-j",)):
        with open(log, "w", encoding="ascii") as out, pair.a.ns.inside(), \
                subprocess.Popen([ctl, *words, "monitor", pair.a.ifname],
                                 stdout=out) as watcher:
            if words:
                hold(5)
            else:
                wait_until(lambda: "watching" in read(log), 15, "its start")
            pair.a.set("down")
            pair.a.up()
            wait_until(lambda: "join" in read(log) and
                       ("dev: up" in read(log) or '"none"' in read(log)), 20,
                       "all of it")
            watcher.send_signal(signal.SIGINT)
            ksft_eq(watcher.wait(), 0)
        if words:
            events = [json.loads(line) for line in read(log).splitlines()]
            ksft_in("admin-down", [each.get("cause") for each in events])
        else:
            ksft_in(f"{pair.a.ifname} dev: it is down", read(log))
