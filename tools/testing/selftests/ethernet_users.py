# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the distribution behind and above eth_ipoib: a switch, routers, names."""

import os
import subprocess

from lib import (cmd, defer, ends, ip, ksft_eq, ksft_in, ping, ping_ok, read, slow,
                 tcp_transfer, timeout, wait_until)
from lib.ethernet import Bridged, Ethernet, Guest, Lower, guide_blocks, load, reach
from lib.netns import ROOT
from lib.users import addresses, file, link, name_of, peer, service

BOOT = {"hcas": 3, "image": True, "mem": 1536, "needs": "ethernet iproute2",
        "seconds": 200}
GROUPS = ("ethernet",)


def program(space, name, *argv, run=None):
    """A program that stays in the foreground, in a namespace, until the case ends."""
    log = f"/run/{name}.{space.name}.log"
    # pylint: disable-next=consider-using-with
    with open(log, "w", encoding="ascii") as out, space.inside():
        proc = subprocess.Popen([*(run or ()), *argv], stdout=out,
                                stderr=subprocess.STDOUT)

    def stop():
        proc.terminate()
        proc.wait()
    defer(stop)
    return proc, log


# ---- Open vSwitch -----------------------------------------------------------------


class SwitchGuest(Guest):
    """A guest at a port of Open vSwitch."""

    def plug(self, ethernet):
        cmd(["ovs-vsctl", "add-port", "br0", self.port], timeout=slow(20))
        ip(f"link set {self.port} up")


@timeout(200)
def test_ovs():
    """Open vSwitch: the guide's commands, guests at its ports, and the host."""
    there, below = peer(), Lower(name_of(0))
    service("openvswitch-switch", 90)
    host = Ethernet(below, bridge=None)
    for words in ("add-br br0", "add-port br0 eib0",
                  f"set interface br0 mtu_request={below.mtu()}"):
        cmd(["ovs-vsctl", *words.split()], timeout=slow(20))
    defer(cmd, ["ovs-vsctl", "del-br", "br0"], fail=False, timeout=slow(20))
    ip("link set br0 up")
    ip("addr add 10.0.0.1/24 dev br0")
    ip("addr add fd00::1/64 dev br0 nodad")
    one, two = (host.guest(number, kind=SwitchGuest) for number in (11, 12))
    for src, dst in ((one, there), (there, two), (one, two)):
        reach(src, dst)
        tcp_transfer(src, dst, 1 << 20)
        tcp_transfer(dst, src, 1 << 20, address=src.v6)
    wait_until(lambda: ping(ROOT, there.v4, limit=1), 15, "an answer to the host")
    ping_ok(there.ns, "10.0.0.1", count=3)
    ping_ok(one.ns, "10.0.0.1", count=3)
    ksft_eq(int(read("/sys/class/net/br0/mtu")), below.mtu())


# ---- networkd ----------------------------------------------------------------------


@timeout(200)
def test_networkd():
    """
    The guide's files for systemd-networkd: systemctl daemon-reload; systemctl enable
    --now eipoib@ib0; networkctl reload.
    """
    there, below = peer(), Lower(name_of(0))
    load()
    below.rename("ib0")
    files = guide_blocks("A bridge with systemd-networkd", "ini")
    for path, text in zip(("system/eipoib@.service", "network/10-br0.netdev",
                           "network/20-ib0.network", "network/20-eib0.network",
                           "network/30-br0.network"), files, strict=True):
        file(f"/etc/systemd/{path}", text)
    service("systemd-networkd")
    cmd(["systemctl", "daemon-reload"], timeout=slow(30))
    defer(cmd, ["ip", "link", "del", "br0"], fail=False)
    defer(cmd, ["systemctl", "disable", "--now", "eipoib@ib0"], fail=False,
          timeout=slow(30))
    cmd(["systemctl", "enable", "--now", "eipoib@ib0"], timeout=slow(60))
    # networkd says that it is ready before it has its name on the bus.
    wait_until(lambda: cmd(["networkctl", "reload"], timeout=slow(30)), 20,
               "networkd to answer")
    wait_until(lambda: addresses("br0") >= {"10.0.0.1", "fd00::1"}, 30,
               "the bridge's addresses")
    wait_until(lambda: (link("eib0") or {}).get("master") == "br0", 20, "its port")
    guest = defer_drop(Guest(Bridged(below), 31))
    reach(guest, there)
    reach(there, guest)
    for address in ("10.0.0.1", "fd00::1"):
        wait_until(lambda a=address: ping(there.ns, a, limit=1), 15, "an answer")


def defer_drop(guest):
    defer(guest.drop)
    return guest


# ---- routers ----------------------------------------------------------------------


def radvd(space, name, prefix):
    """Announces a prefix on an interface."""
    conf, pid = f"/run/radvd.{space.name}.conf", f"/run/radvd.{space.name}.pid"
    file(conf, f"interface {name} {{\n AdvSendAdvert on;\n MinRtrAdvInterval 3;\n"
         f" MaxRtrAdvInterval 4;\n prefix {prefix} {{ }};\n}};\n")
    space.sysctl("net.ipv6.conf.all.forwarding", 1)
    program(space, "radvd", "radvd", "-n", "-C", conf, "-p", pid, "-m", "stderr")


def autoconfigured(space, name, start):
    """The address that a host has made of a prefix."""
    def found():
        for each in ip(f"-6 addr show dev {name} scope global", ns=space,
                       json_out=True):
            for entry in each.get("addr_info", ()):
                if entry.get("local", "").startswith(start) and \
                        not entry.get("tentative"):
                    return entry["local"]
        return None
    return wait_until(found, 20, f"an address of {start} on {name}")


@timeout(150)
def test_radvd():
    """Routers on either side: hosts on the other one have addresses of their prefix."""
    pair = ends()
    host = Ethernet(pair.a)
    router, guest = host.guest(21), host.guest(22)
    reach(router, pair.b)
    defer(pair.b.ns.sysctl, "net.ipv6.conf.all.forwarding", 0)
    radvd(router.ns, router.ifname, "fd0a::/64")
    ip("addr add fd0a::1/64 dev eth0 nodad", ns=router.ns)
    address = autoconfigured(pair.b.ns, pair.b.ifname, "fd0a:")
    defer(ip, f"-6 addr flush dev {pair.b.ifname} to fd0a::/64", ns=pair.b.ns)
    wait_until(lambda: ping(pair.b.ns, "fd0a::1", limit=1), 10, "an answer")
    wait_until(lambda: ping(router.ns, address, limit=1), 10, "an answer")
    radvd(pair.b.ns, pair.b.ifname, "fd0b::/64")
    ip(f"addr add fd0b::1/64 dev {pair.b.ifname} nodad", ns=pair.b.ns)
    defer(ip, f"-6 addr flush dev {pair.b.ifname} to fd0b::/64", ns=pair.b.ns)
    address = autoconfigured(guest.ns, guest.ifname, "fd0b:")
    wait_until(lambda: ping(guest.ns, "fd0b::1", limit=1), 10, "an answer")
    wait_until(lambda: ping(pair.b.ns, address, limit=1), 10, "an answer")
    route = ip("-6 route show default", ns=guest.ns, json_out=True)
    ksft_in("fe80", str(route))


def keepalived(guest, priority, address):
    """One of the routers that have an address in turns."""
    where = f"/run/keepalived.{guest.name}"
    file(f"{where}.conf", f"""global_defs {{
 router_id {guest.name}
}}
vrrp_instance one {{
 state BACKUP
 interface {guest.ifname}
 virtual_router_id 7
 priority {priority}
 advert_int 1
 virtual_ipaddress {{
  {address}/24
 }}
}}
""")
    return program(guest.ns, "keepalived", "keepalived", "-n", "-l", "-P", "-f",
                   f"{where}.conf", "-p", f"{where}.pid", "-r", f"{where}.vrrp")[0]


@timeout(150)
def test_keepalived():
    """An address that is with one router, then with another one on another host."""
    pair = ends()
    one, two = Ethernet(pair.a).guest(23), Ethernet(pair.b).guest(24)
    reach(one, two)
    address = "10.0.0.250"
    first = keepalived(one, 200, address)
    wait_until(lambda: ping(pair.b.ns, address, limit=1), 20, "the first router")
    keepalived(two, 100, address)
    ksft_eq(ping(pair.a.ns, address, count=3), 3)

    def has(guest):
        return address in ip("-4 addr", ns=guest.ns).stdout
    ksft_eq((has(one), has(two)), (True, False))
    first.terminate()
    wait_until(lambda: has(two), 20, "the second router")
    for end in pair:
        wait_until(lambda e=end: ping(e.ns, address, limit=1), 10, "an answer of it")


# ---- names ------------------------------------------------------------------------


def avahi(space, name, host):
    """mDNS in a namespace, with a place of its own for its socket."""
    conf = f"/run/avahi.{space.name}.conf"
    file(conf, f"[server]\nhost-name={host}\nallow-interfaces={name}\n"
         "enable-dbus=no\nuse-ipv6=no\n[publish]\npublish-addresses=yes\n")
    os.makedirs("/run/avahi-daemon", exist_ok=True)
    proc, log = program(space, "avahi", "avahi-daemon", "-f", conf, "--no-drop-root",
                        "--no-chroot", "--no-rlimits", run=(
                            "unshare", "-m", "sh", "-c",
                            "mount -t tmpfs none /run/avahi-daemon; exec \"$@\"", "sh"))
    wait_until(lambda: "startup complete" in read(log), 30, "the start of avahi")
    return proc


def resolved(daemon, host):
    """The address of a name, as nss-mdns asks for it."""
    program_text = ("import socket; s = socket.socket(socket.AF_UNIX); "
                    "s.settimeout(10); s.connect('/run/avahi-daemon/socket'); "
                    f"s.send(b'RESOLVE-HOSTNAME-IPV4 {host}.local\\n'); "
                    "print(s.recv(200).decode())")
    done = cmd(["nsenter", "-m", "-t", str(daemon.pid), "python3", "-c", program_text],
               fail=False, timeout=slow(20))
    return done.stdout


@timeout(150)
def test_avahi():
    """Names by multicast DNS, both ways."""
    pair = ends()
    guest = Ethernet(pair.a).guest(25)
    reach(guest, pair.b)
    inside = avahi(guest.ns, guest.ifname, "inside")
    outside = avahi(pair.b.ns, pair.b.ifname, "outside")
    wait_until(lambda: guest.v4 in resolved(outside, "inside"), 30, "a guest's name")
    wait_until(lambda: pair.b.v4 in resolved(inside, "outside"), 30, "a peer's name")
