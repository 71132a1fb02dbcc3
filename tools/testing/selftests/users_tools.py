# SPDX-License-Identifier: GPL-2.0-only
"""The tools of administrators: what they do on any interface, they do on IPoIB."""

import json
import os
import socket

from lib import (ROOT, Netns, Stream, UdpSink, bkg, cmd, defer, hold, ip, ksft_eq,
                 ksft_ge, ksft_gt, ksft_in, ksft_le, need_modules, ping, read, slow,
                 timeout, wait_until)
from lib.users import V4, host

BOOT = {"hcas": 2, "image": True, "mem": 1536, "seconds": 150}
GROUPS = ("users",)


class Dump:
    """tcpdump of what a filter lets through, in the background."""

    FILE, SAID = "/run/users.pcap", "/run/users.tcpdump"

    def __init__(self, here, words):
        for path in (self.FILE, self.SAID):
            if os.path.exists(path):
                os.unlink(path)
        self.running = bkg(["sh", "-c", "exec tcpdump -n -U --immediate-mode -i "
                            f"{here} -w {self.FILE} '{words}' 2>{self.SAID}"])
        defer(self.running.stop)
        wait_until(lambda: "listening on" in (read(self.SAID) or ""), 20,
                   "tcpdump")

    def lines(self, *words):
        """What it has so far, a line for each packet."""
        return cmd(["tcpdump", "-n", "-r", self.FILE, *words],
                   fail=False).stdout.splitlines()

    def holds(self, count, text):
        """It gets to hold so many packets, all of them like that."""
        wait_until(lambda: len(self.lines()) >= count, 10, f"{count} of {text}")
        self.running.stop()
        found = self.lines()
        ksft_eq(len(found), count, found)
        for line in found:
            ksft_in(text, line)


def udp(there, count, size=100, port=9999):
    """Datagrams from the host to the peer."""
    with ROOT.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(count):
            sock.sendto(bytes(size), (there.v4, port))


@timeout(120)
def test_tcpdump():
    """tcpdump's filters match what is on the wire, in both directions."""
    there, here = host()
    dump = Dump(here, "icmp[icmptype] == icmp-echoreply")
    ping(ROOT, there.v4, count=3)
    dump.holds(3, "ICMP echo reply")
    dump = Dump(here, "ip6 and ip6[40] == 128")
    ping(ROOT, there.v6, count=3)
    dump.holds(3, "ICMP6, echo request")
    dump = Dump(here, f"udp and dst host {there.v4} and dst port 9999 and "
                "greater 250")
    udp(there, 5)
    udp(there, 3, 300)
    dump.holds(3, "UDP, length 300")
    dump = Dump(here, "arp and arp[6:2] == 2")
    ip(f"neigh flush dev {here}")
    ping(ROOT, there.v4, count=1)
    wait_until(lambda: any("is-at" in line for line in dump.lines()), 10,
               "an ARP reply")
    dump.running.stop()


@timeout(120)
def test_statistics():
    """ip -s, nstat and ss count what is sent, once."""
    there, here = host()

    def counted():
        stats = json.loads(cmd(["ip", "-j", "-s", "link", "show", here]).stdout)
        nstat = json.loads(cmd(["nstat", "-a", "-z", "-s", "-j"]).stdout)
        return (stats[0]["stats64"]["tx"]["packets"],
                nstat["kernel"]["UdpOutDatagrams"])

    with UdpSink(there.ns) as sink:
        before = counted()
        udp(there, 500, port=sink.port)
        wait_until(lambda: counted()[0] - before[0] >= 500, 10, "500 packets")
        after = counted()
        ksft_eq(after[1] - before[1], 500)
        ksft_le(after[0] - before[0], 550, "counted twice")
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    stream.wait_progress()
    said = cmd(["ss", "-tin", "dst", there.v4]).stdout
    ksft_in("mss:", said)
    ksft_in("bytes_acked:", said)
    stream.finish()


def flow_rate(there, seconds=4):
    """bit/s of a TCP stream to the peer."""
    stream = Stream(None, there, src_ns=ROOT)
    stream.wait_progress(1 << 17)
    begin = stream.received
    hold(seconds)
    rate = (stream.received - begin) * 8 / seconds
    stream.abort()
    return rate


def qdisc(here, *words):
    """Replace the root qdisc until the end of the case."""
    cmd(["tc", "qdisc", "replace", "dev", here, "root", *words])
    return defer(cmd, ["tc", "qdisc", "del", "dev", here, "root"], fail=False)


def sent_by(here, kind):
    """Bytes and drops that a qdisc of that kind has counted."""
    return next((each["bytes"], each["drops"]) for each in json.loads(
        cmd(["tc", "-s", "-j", "qdisc", "show", "dev", here]).stdout)
        if each["kind"] == kind)


@timeout(180)
def test_qdiscs():
    """fq, fq_codel and HTB: what they count, and what HTB limits."""
    there, here = host()
    for kind in ("fq", "fq_codel"):
        need_modules(f"sch_{kind}")
        undo = qdisc(here, kind)
        stream = Stream(None, there, total=4 << 20, src_ns=ROOT)
        stream.finish()
        ksft_ge(sent_by(here, kind)[0], 4 << 20)
        undo.exec()
    need_modules("sch_htb")
    free = flow_rate(there)
    undo = qdisc(here, "handle", "1:", "htb", "default", "10")
    cmd(["tc", "class", "add", "dev", here, "parent", "1:", "classid", "1:10",
         "htb", "rate", "8mbit", "burst", "16k"])
    limited = flow_rate(there)
    ksft_le(limited, 12e6)
    ksft_ge(limited, 4e6)
    ksft_gt(free, limited)
    undo.exec()


@timeout(120)
def test_filters():
    """Filters of clsact drop what they are to drop, in both directions."""
    there, here = host()
    need_modules("sch_ingress", "cls_flower", "act_gact")
    cmd(["tc", "qdisc", "add", "dev", here, "clsact"])
    defer(cmd, ["tc", "qdisc", "del", "dev", here, "clsact"], fail=False)
    for way, words in (("egress", "dst_ip"), ("ingress", "src_ip")):
        cmd(["tc", "filter", "add", "dev", here, way, "protocol", "ip", "flower",
             "ip_proto", "icmp", words, there.v4, "action", "drop"])
        ksft_eq(ping(ROOT, there.v4, count=2, limit=1), 0, way)
        ksft_eq(ping(ROOT, there.v6, count=2), 2)
        said = cmd(["tc", "-s", "filter", "show", "dev", here, way]).stdout
        ksft_in("dropped 2", said)
        cmd(["tc", "filter", "del", "dev", here, way])
        ksft_eq(ping(ROOT, there.v4, count=2), 2)


def guest():
    """A container whose network is behind the host's."""
    inside = Netns("guest").add()
    defer(inside.delete)
    ip("link add vg0 type veth peer name eth0 netns guest")
    ip("addr add 10.9.0.1/24 dev vg0")
    ip("link set vg0 up")
    for words in ("addr add 10.9.0.2/24 dev eth0", "link set eth0 up",
                  "route add default via 10.9.0.1"):
        ip(words, ns=inside)
    before = ROOT.sysctl("net.ipv4.ip_forward")
    defer(ROOT.sysctl, "net.ipv4.ip_forward", before)
    ROOT.sysctl("net.ipv4.ip_forward", "1")
    return inside


def nft(text):
    """A table until the end of the case."""
    need_modules("nf_tables", "nft_ct", "nft_nat", "nft_masq")
    cmd(["nft", "-f", "-"], stdin=text)
    return defer(cmd, ["nft", "delete", "table", "inet", "users"], fail=False)


@timeout(120)
def test_nftables():
    """Rules by interface count and drop; a stream stays in state established."""
    there, here = host()
    nft(f"""
table inet users {{
    counter pings {{ }}
    chain in {{
        type filter hook input priority 0;
        iifname "{here}" icmp type echo-reply counter name pings
        iifname "{here}" ct state established accept
        iifname "{here}" ip protocol icmp drop
    }}
}}
""")
    ksft_eq(ping(ROOT, there.v4, count=4), 4)
    said = json.loads(cmd(["nft", "-j", "list", "counter", "inet", "users",
                           "pings"]).stdout)
    ksft_eq(said["nftables"][1]["counter"]["packets"], 4)
    ksft_eq(ping(there.ns, V4, count=2, limit=1), 0)
    stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
    stream.wait_progress()
    ksft_in("ESTABLISHED", cmd(["conntrack", "-L", "-p", "tcp", "-d",
                                there.v4]).stdout)
    stream.finish()


@timeout(120)
def test_masquerade():
    """A container reaches the peer by the host's address, in both modes."""
    there, here = host()
    inside = guest()
    nft(f"""
table inet users {{
    chain post {{
        type nat hook postrouting priority 100;
        ip saddr 10.9.0.0/24 oifname "{here}" masquerade
    }}
}}
""")
    for mode in ("datagram", "connected"):
        for end_ns, name in ((ROOT, here), (there.ns, there.ifname)):
            ip(f"link set {name} type ipoib mode {mode}", ns=end_ns)
        defer(ip, f"link set {here} type ipoib mode datagram")
        wait_until(lambda: ping(inside, there.v4, limit=1), 20, "the peer")
        stream = Stream(None, there, total=8 << 20, src_ns=inside)
        ksft_in(V4, cmd(["ss", "-tn"], ns=there.ns).stdout)
        stream.finish()


@timeout(120)
def test_ipvs():
    """A virtual service sends connections of a container to the peer."""
    there, _ = host()
    inside = guest()
    need_modules("ip_vs", "ip_vs_rr")
    ip(f"route add 10.9.0.0/24 via {V4}", ns=there.ns)
    cmd(["ipvsadm", "-A", "-t", "10.9.0.1:8000", "-s", "rr"])
    defer(cmd, ["ipvsadm", "-C"])
    cmd(["ipvsadm", "-a", "-t", "10.9.0.1:8000", "-r", f"{there.v4}:8000", "-m"])
    with there.ns.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((there.v4, 8000))
        listener.listen()
        listener.settimeout(slow(10))
        with inside.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.settimeout(slow(10))
            client.connect(("10.9.0.1", 8000))
            server = listener.accept()[0]
            with server:
                server.sendall(b"from the peer")
                ksft_eq(client.recv(100), b"from the peer")
    said = cmd(["ipvsadm", "-L", "-n", "--stats"]).stdout
    ksft_in(f"{there.v4}:8000", said)
