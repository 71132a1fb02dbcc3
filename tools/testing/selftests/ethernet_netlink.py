# SPDX-License-Identifier: GPL-2.0-only
"""The netlink family of eth_ipoib: guests, peers, groups, addresses given to guests."""

import contextlib
import errno
import ipaddress
import itertools
import json
import os
import subprocess
import threading

from lib import (Netns, Tracer, cmd, defer, ends, ip, ksft_eq, ksft_ge, ksft_in, ksft_not_in,
                 ksft_true, mcast_receiver, now, ping, ping_ok, slow, timeout,
                 wait_until)
from common import ROOT
from lib.ethernet import Ethernet, peer_mac, reach
from lib.genl import ethernet, nl

BOOT = {"hcas": 3, "needs": "ethernet iproute2", "seconds": 60}

CTL = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl")
SMALL = 4096                    # a buffer that many objects do not fit into
STATION = bytes.fromhex("02aabbccdd01")


def give(host, network, mac=STATION, family=None):
    (family or ethernet(host)).change("guest-new", host.ifindex(), network, mac)


def take(host, network, family=None):
    (family or ethernet(host)).change("guest-del", host.ifindex(), network)


def addresses(count, first="10.1.0.1"):
    """Addresses one after another."""
    begin = ipaddress.ip_address(first)
    return [begin + number for number in range(count)]


def listed(host, what, family=None, **options):
    """{address: object}, each of which comes once."""
    found = (family or ethernet(host, **options)).get(what, host.ifindex())
    by_address = {each["address"]: each for each in found}
    ksft_eq(len(by_address), len(found))
    return by_address


def fixed(host, what=None):
    """Addresses that guests were given; the host's bridge has one of its own."""
    found = ethernet(host).get("guest-get", what)
    return [each for each in found if each["status"] == "fixed"]


def test_objects():
    """What guests and peers do is in the tables."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(101)
    reach(guest, pair.b)
    guests, peers = listed(host, "guest-get"), listed(host, "peer-get")
    for address in (guest.v4, guest.v6):
        ksft_eq(guests[address]["mac"], guest.mac())
        ksft_eq(guests[address]["status"], "held")
        ksft_true(guests[address]["idle"] < slow(10000), guests[address])
    for address in (pair.b.v4, pair.b.v6):
        ksft_eq(peers[address]["lladdr"], nl.lladdr(pair.b.address()))
        ksft_eq(peers[address]["status"], "known")
    ksft_eq(peers[pair.b.v4]["mac"], peer_mac(pair.b.v4))
    with mcast_receiver(guest, "239.7.0.1"):
        group = wait_until(lambda: listed(host, "group-get").get("239.7.0.1"), 10,
                           "the guest's group")
        ksft_eq(group["mac"], guest.mac())
        ksft_true(0 < group["expires"] <= 260000, group)
    wait_until(lambda: "joined" in listed(host, "group-get")["239.7.0.1"], 10,
               "its membership")
    ksft_in("joined", listed(host, "group-get")["224.0.0.1"])
    counts = host.counts()
    for what, name in (("guest-get", "guests"), ("peer-get", "peers"),
                       ("group-get", "groups")):
        ksft_ge(counts[name], 1)
        ksft_eq(len(listed(host, what)), counts[name])


def test_all_of_many():
    """Dumps of several buffers have each object once, whatever comes and goes."""
    pair = ends()
    host = Ethernet(pair.a, max_guests=4000)
    family = ethernet(host)
    stay = addresses(1500)
    for address in stay:
        give(host, address, family=family)
    done = threading.Event()
    other = ethernet(host)

    def churn():
        while not done.is_set():
            for address in addresses(50, "10.2.0.1"):
                give(host, address, family=other)
            for address in addresses(50, "10.2.0.1"):
                take(host, address, family=other)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            found = listed(host, "guest-get", buffer=SMALL)
            ksft_true({str(address) for address in stay} <= set(found), len(found))
    finally:
        done.set()
        thread.join()
    ksft_eq(len(fixed(host)), len(stay))


def test_interfaces():
    """Without an interface, objects of all; one that goes in the middle of a dump."""
    pair = ends()
    one = Ethernet(pair.a)
    for address in addresses(300):
        give(one, address)
    family = ethernet(one, buffer=SMALL)
    ksft_eq(len(fixed(one)), 300)
    ksft_eq(len(fixed(one, one.ifindex())), 300)
    family.send(family.numbers["guest-get"], nl.NLM_F_DUMP, b"")
    kinds = [kind for kind, *_ in family.messages()]
    ksft_not_in(nl.NLMSG_DONE, kinds, "the first of several buffers")
    ip(f"link del {one.ifname}", ns=one.ns)
    begin = now()
    while nl.NLMSG_DONE not in [kind for kind, *_ in family.messages()]:
        ksft_true(now() < begin + slow(10), "the dump's end")
    ksft_eq(fixed(one), [])


def test_given():
    """An address that a guest was given is nobody else's, also after a restart."""
    pair = ends()
    host = Ethernet(pair.a)
    owner, thief = host.guest(102), host.guest(103)
    for address in (owner.v4, owner.v6):
        give(host, ipaddress.ip_address(address),
             owner.octets())
    reach(pair.b, owner)
    for _ in range(2):
        ksft_eq({address: each["status"] for address, each in
                 listed(host, "guest-get").items()
                 if each["mac"] == owner.mac() and address in (owner.v4, owner.v6)},
                {owner.v4: "fixed", owner.v6: "fixed"})
        ip(f"link set {owner.ifname} down", ns=owner.ns)
        ip(f"addr flush dev {thief.ifname} scope global", ns=thief.ns)
        ip(f"addr add {owner.v4}/24 dev {thief.ifname}", ns=thief.ns)
        ip(f"addr add {owner.v6}/64 dev {thief.ifname} nodad", ns=thief.ns)
        before = host.count("tx_refused")
        for address in (pair.b.v4, pair.b.v6):
            ksft_eq(ping(thief.ns, address, count=3, limit=slow(0.5)), 0)
        ksft_ge(host.count("tx_refused"), before + 1)
        ip(f"addr flush dev {thief.ifname} scope global", ns=thief.ns)
        ip(f"link set {owner.ifname} up", ns=owner.ns)
        ip(f"addr replace {owner.v6}/64 dev {owner.ifname} nodad", ns=owner.ns)
        reach(owner, pair.b)
        reach(pair.b, owner)
        ip(f"link set {host.ifname} down", ns=host.ns)
        ip(f"link set {host.ifname} up", ns=host.ns)
    # Once it is taken, whoever claims it may have it.
    for address in (owner.v4, owner.v6):
        take(host, ipaddress.ip_address(address))
    owner.drop()
    ip(f"addr add {owner.v4}/24 dev {thief.ifname}", ns=thief.ns)
    wait_until(lambda: ping(thief.ns, pair.b.v4, limit=0.5), 10, "an answer")
    ksft_eq(listed(host, "guest-get")[owner.v4]["status"], "held")


def test_given_on_fabric():
    """A peer that claims it is told whose it is."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(104)
    give(host, ipaddress.ip_address(guest.v4),
         guest.octets())
    reach(pair.b, guest)
    ip(f"link set {guest.ifname} down", ns=guest.ns)
    ip(f"addr add {guest.v4}/24 dev {pair.b.ifname}", ns=pair.b.ns)
    defer(ip, f"addr del {guest.v4}/24 dev {pair.b.ifname}", ns=pair.b.ns)
    cmd(["arping", "-U", "-c", "2", "-w", "3", "-I", pair.b.ifname, guest.v4],
        ns=pair.b.ns, fail=False, timeout=slow(10))
    ksft_eq(listed(host, "guest-get")[guest.v4]["status"], "fixed")


def behind(guest, network, number):
    """A host behind a guest that routes, in a network of its own."""
    space = Netns(f"far{number}").add()
    defer(space.delete)
    nets = [ipaddress.ip_network(each) for each in network]
    ip(f"link add eth0 type veth peer name far netns {guest.ns.name}", ns=space)
    for each in nets:
        more = " nodad" if each.version == 6 else ""
        ip(f"addr add {each[2]}/{each.prefixlen} dev eth0{more}", ns=space)
        ip(f"addr add {each[1]}/{each.prefixlen} dev far{more}", ns=guest.ns)
    ip("link set eth0 up", ns=space)
    ip("link set far up", ns=guest.ns)
    for each in nets:
        ip(f"-{each.version} route add default via {each[1]}", ns=space)
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        guest.ns.sysctl(f"net/{name}", 1)
    return space, [str(each[2]) for each in nets]


def test_prefix():
    """Hosts behind a guest that routes, once their prefixes are known; not before."""
    pair = ends()
    host = Ethernet(pair.a)
    router = host.guest(105)
    other = host.guest(106)
    reach(router, pair.b)
    networks = ("10.77.1.0/24", "fd77:1::/64")
    space, (v4, v6) = behind(router, networks, 1)
    ip(f"route add {networks[0]} via {router.v4}", ns=pair.b.ns)
    defer(ip, f"route del {networks[0]}", ns=pair.b.ns)
    ip(f"-6 route add {networks[1]} via {router.v6}", ns=pair.b.ns)
    defer(ip, f"-6 route del {networks[1]}", ns=pair.b.ns)
    for address in (pair.b.v4, pair.b.v6):
        ksft_eq(ping(space, address, count=2, limit=slow(0.5)), 0)
    mac = router.octets()
    for network in networks:
        give(host, ipaddress.ip_network(network), mac)
    for address in (pair.b.v4, pair.b.v6):
        wait_until(lambda a=address: ping(space, a, limit=1), 15, "an answer")
    for address in (v4, v6):
        ping_ok(pair.b.ns, address, count=3)
    found = {each["address"]: each.get("prefix-len") for each in
             ethernet(host).get("guest-get") if "prefix-len" in each}
    ksft_eq(found, {"10.77.1.0": 24, "fd77:1::": 64})
    # Nobody else may be there.
    ip(f"addr add {v4}/32 dev {other.ifname}", ns=other.ns)
    before = host.count("tx_refused")
    ip(f"route replace {pair.b.v4} dev {other.ifname} src {v4}", ns=other.ns)
    ksft_eq(ping(other.ns, pair.b.v4, count=2, limit=slow(0.5)), 0)
    ksft_ge(host.count("tx_refused"), before + 1)
    ping_ok(pair.b.ns, v4)
    # They stay while the interface is down, and end when they are taken.
    ip(f"link set {host.ifname} down", ns=host.ns)
    ip(f"link set {host.ifname} up", ns=host.ns)
    wait_until(lambda: ping(space, pair.b.v4, limit=1), 15, "an answer")
    for network in networks:
        take(host, ipaddress.ip_network(network))
    ksft_eq(ping(space, pair.b.v4, count=2, limit=slow(0.5)), 0)


def test_prefix_claimed():
    """Who has claimed an address of a prefix before loses it when that is given."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(111)
    ip(f"addr add 10.77.9.9/24 dev {guest.ifname}", ns=guest.ns)
    ip("addr add 10.77.9.1/24 dev " + pair.b.ifname, ns=pair.b.ns)
    defer(ip, "addr del 10.77.9.1/24 dev " + pair.b.ifname, ns=pair.b.ns)
    wait_until(lambda: ping(guest.ns, "10.77.9.1", limit=1), 15, "an answer")
    ksft_eq(listed(host, "guest-get")["10.77.9.9"]["status"], "held")
    give(host, ipaddress.ip_network("10.77.9.0/24"))
    before = host.count("tx_refused")
    ksft_eq(ping(guest.ns, "10.77.9.1", count=2, limit=slow(0.5)), 0)
    ksft_ge(host.count("tx_refused"), before + 1)
    ksft_not_in("10.77.9.9", listed(host, "guest-get"))


def test_host_first():
    """A prefix takes no packet from the host itself."""
    pair = ends()
    host = Ethernet(pair.a)
    give(host, ipaddress.ip_network("0.0.0.0/0"))
    give(host, ipaddress.ip_network("::/0"))
    for address in (pair.a.v4, pair.a.v6):
        ping_ok(pair.b.ns, address, count=3)


def test_tracepoints():
    """What becomes of guests and peers can be traced."""
    pair = ends()
    host = Ethernet(pair.a)
    with Tracer("eipoib:eipoib_guest", "eipoib:eipoib_peer") as tracer:
        guest = host.guest(110)
        reach(guest, pair.b)
        give(host, ipaddress.ip_address("10.0.0.9"))
        take(host, ipaddress.ip_address("10.0.0.9"))
        text = "\n".join(tracer.lines())
    for words in (f"::ffff:{guest.v4} of {guest.mac()}: none -> seen",
                  f"::ffff:{guest.v4} of {guest.mac()}: claimed -> held",
                  "::ffff:10.0.0.9 of 02:aa:bb:cc:dd:01: seen -> fixed",
                  "::ffff:10.0.0.9 of 02:aa:bb:cc:dd:01: fixed -> none",
                  f"::ffff:{pair.b.v4} at {nl.lladdr(pair.b.address())}: known"):
        ksft_in(words, text)


def error_of(function, *args):
    """(number, words) of a refusal."""
    try:
        function(*args)
    except OSError as error:
        return error.errno, error.strerror
    return 0, ""


def test_mistakes():
    """What can't be is refused with a reason, and changes nothing."""
    pair = ends()
    host = Ethernet(pair.a, max_guests=20)
    family = ethernet(host)
    index = host.ifindex()
    one = ipaddress.ip_address("10.0.0.9")
    for args, number, reason in (
            (("guest-new", 99999, one, STATION), errno.ENODEV, "no such interface"),
            (("guest-new", host.ns.ifindex("lo"), one, STATION), errno.EOPNOTSUPP,
             "not an interface of the kind"),
            (("guest-new", index, one), errno.EINVAL, "MAC of a station is needed"),
            (("guest-new", index, one, bytes(6)), errno.EADDRNOTAVAIL, "MAC"),
            (("guest-new", index, one, bytes.fromhex("ee1b0a000001")),
             errno.EADDRNOTAVAIL, "MAC"),
            (("guest-new", index, one, b"\xff" * 6), errno.EADDRNOTAVAIL, "MAC"),
            (("guest-new", index, ipaddress.ip_address("224.0.0.5"), STATION),
             errno.EINVAL, "address of a host"),
            (("guest-new", index, ipaddress.ip_address("::"), STATION),
             errno.EINVAL, "address of a host"),
            (("guest-new", index, ipaddress.ip_address("::ffff:1.2.3.4"), STATION),
             errno.EINVAL, "not an IP address"),
            (("guest-new", index, ipaddress.ip_address(pair.a.v4), STATION),
             errno.EADDRINUSE, "This host has"),
            (("guest-del", index, one), errno.ENOENT, "No guest"),
            (("guest-del", index, ipaddress.ip_network("10.9.0.0/16")),
             errno.ENOENT, "No guest")):
        got, words = error_of(family.change, *args)
        ksft_eq(got, number, args)
        ksft_in(reason, words)
    for parts, number in (
            (((1, 4), (2, 5), (4, 6)), errno.EINVAL),       # an address of 5 bytes
            (((1, 4), (2, 4), (4, 5)), errno.ERANGE),       # a MAC of 5
            (((1, 4), (2, 17), (4, 6)), errno.ERANGE),
            (((1, 4), (4, 6)), errno.EINVAL),
            (((2, 4), (4, 6)), errno.EINVAL)):
        data = b"".join(nl.attribute(kind, index.to_bytes(4, "little") if kind == 1
                                     else bytes([2] * size)) for kind, size in parts)
        sequence = family.send(family.numbers["guest-new"], nl.NLM_F_ACK, data)
        got = error_of(family.answers, sequence)[0]
        ksft_eq(got, number, parts)
    # A network's address with a host's bits, and a length that is none
    for address, length in (("10.0.0.1", 24), ("10.0.0.0", 33), ("fd00::", 129)):
        data = nl.attribute(1, index.to_bytes(4, "little")) + \
            nl.attribute(2, ipaddress.ip_address(address).packed) + \
            nl.attribute(3, length.to_bytes(4, "little")) + \
            nl.attribute(4, STATION)
        sequence = family.send(family.numbers["guest-new"], nl.NLM_F_ACK, data)
        ksft_in(error_of(family.answers, sequence)[0], (errno.EINVAL, errno.ERANGE))
    # The host's bridge may have taken a place.
    for given, address in enumerate(addresses(21)):
        got, words = error_of(family.change, "guest-new", index, address, STATION)
        if got:
            break
    ksft_eq((got, "max_guests" in words), (errno.ENOSPC, True))
    ksft_in(given, (19, 20))
    for number in itertools.count():
        network = ipaddress.ip_network((0x0b000000 + number, 32))
        got, words = error_of(family.change, "guest-new", index, network, STATION)
        if got:
            break
    ksft_eq((got, number), (errno.ENOSPC, 256), words)
    ksft_eq(len(fixed(host, index)), given + 256)


def test_rights():
    """An ordinary user, or root of another user namespace, may neither read nor change."""
    pair = ends()
    host = Ethernet(pair.a)
    give(host, ipaddress.ip_address("10.0.0.9"))
    program = (
        "import sys, ipaddress; sys.path.insert(0, %r); import ipoib_netlink as nl\n"
        "f = nl.Ethernet()\n"
        "one = ipaddress.ip_address('10.0.0.9')\n"
        "for what in (lambda: f.get('guest-get'), lambda: f.get('peer-get'),\n"
        "             lambda: f.get('group-get'),\n"
        "             lambda: f.change('guest-new', %d, one, bytes([2] * 6)),\n"
        "             lambda: f.change('guest-del', %d, one)):\n"
        "    try:\n"
        "        what(); print('allowed')\n"
        "    except OSError as e: print(e.errno)\n" %
        (os.path.join(ROOT, "tools", "ipoibctl"), host.ifindex(), host.ifindex()))
    for become in (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
                   ["unshare", "--user", "--map-root-user"]):
        done = cmd([*become, "python3", "-B", "-c", program], ns=host.ns)
        ksft_eq(done.stdout.split(), 5 * [str(errno.EPERM)])
    ksft_eq(len(fixed(host)), 1)


@contextlib.contextmanager
def container():
    """The leading process of a network and a user namespace of its own."""
    with subprocess.Popen(["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
                           "echo; exec sleep 1000"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def test_rights_elsewhere():
    """Root of a container that the interface is in may use it, and not decide for it."""
    pair = ends()
    host = Ethernet(pair.a, bridge=None)
    give(host, ipaddress.ip_address("10.0.0.9"))
    with container() as pid:
        ip(f"link set {host.ifname} netns {pid}", ns=host.ns)
        inside = ["nsenter", "-t", str(pid), "-U", "-n", "--preserve-credentials"]

        def refused(*argv):
            done = cmd([*inside, *argv], fail=False, timeout=slow(20))
            ksft_true(done.ret, argv)
            ksft_in("CAP_NET_ADMIN", done.stdout + done.stderr)
        for words in ("guard off", "max_guests 32767"):
            refused("ip", "link", "set", host.ifname, "type", "eipoib", *words.split())
        refused(CTL, "guest", "add", host.ifname, "10.0.0.10", STATION.hex(":"))
        refused(CTL, "guest", "del", host.ifname, "10.0.0.9")
        ksft_in("guard on max_guests 1024",
                cmd([*inside, "ip", "-d", "link", "show", host.ifname]).stdout)
        cmd([*inside, "ip", "link", "set", host.ifname, "up"])
        ksft_in("10.0.0.9", cmd([*inside, CTL, "guests"], timeout=slow(20)).stdout)


def ctl(host, *words, fail=True):
    return cmd([CTL, *words], ns=host.ns, fail=fail, timeout=slow(20))


@timeout(90)
def test_ipoibctl():
    """ipoibctl shows guests, peers and groups, and gives and takes addresses."""
    pair = ends()
    host = Ethernet(pair.a)
    guest = host.guest(107)
    reach(guest, pair.b)
    ksft_in(f"{host.ifname}: address {guest.v4} mac {guest.mac()} status held",
            ctl(host, "guests").stdout)
    ksft_in(f"lladdr {nl.lladdr(pair.b.address())} mac {peer_mac(pair.b.v4)} status known",
            ctl(host, "peers", host.ifname).stdout)
    ksft_in("address 224.0.0.1", ctl(host, "groups", host.ifname).stdout)
    ctl(host, "guest", "add", host.ifname, "10.5.0.1", "02:00:00:00:00:09")
    ctl(host, "guest", "add", host.ifname, "fd05::/32", "02:00:00:00:00:09")
    found = json.loads(ctl(host, "-j", "guests", host.ifname).stdout)[host.ifname]
    given = [each for each in found if each["status"] == "fixed"]
    ksft_eq([(each["address"], each.get("prefix-len"), each["mac"])
             for each in given],
            [("10.5.0.1", None, "02:00:00:00:00:09"),
             ("fd05::", 32, "02:00:00:00:00:09")])
    ctl(host, "guest", "del", host.ifname, "10.5.0.1")
    ctl(host, "guest", "del", host.ifname, "fd05::/32")
    for words, reason in (
            (("guest", "del", host.ifname, "10.5.0.1"), "No guest has that"),
            (("guest", "add", host.ifname, "10.5.0.1/8", "02:00:00:00:00:09"),
             "host bits"),
            (("guest", "add", host.ifname, "10.5.0.1", "ff:ff:ff:ff:ff:ff"), "MAC"),
            (("guest", "add", host.ifname, "10.5.0.1", "2"), "is no MAC"),
            (("guest", "add", "lo", "10.5.0.1", "02:00:00:00:00:09"),
             "no interface of the kind"),
            (("guests", "nowhere"), "there is no interface")):
        done = ctl(host, *words, fail=False)
        ksft_eq(done.ret, 2)
        ksft_in(reason, done.stderr)
