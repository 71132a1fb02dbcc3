# SPDX-License-Identifier: GPL-2.0-only
"""A host at work: containers, monitoring, files, and as if it were hardware."""

import os
import re
import subprocess
import urllib.request

from lib import (ROOT, Stream, bkg, cmd, defer, ip, ksft_eq, ksft_ge, ksft_in,
                 ksft_pr, ksft_true, need_modules, read, slow, timeout,
                 wait_until)
from common import ROOT as ROOT_DIR
from lib.child import child_by_ip
from lib.users import V4, answers, file, host, kind, link, recipe, service, ssh_server

BOOT = {"hcas": 2, "image": True, "mem": 2048, "seconds": 260}
GROUPS = ("users",)


# ---- containers ---------------------------------------------------------------


# Until there is a carrier
ECHO = """for n in 1 2 3 4 5 6 7 8 9 10; do
            ping -c 1 -W 1 {} && exit 0
        done
        exit 1"""


def nspawn(interface, script):
    """Run a script in a container that has the interface."""
    return cmd(["systemd-nspawn", "--quiet", "--directory=/", "--volatile=yes",
                "--register=no", "--as-pid2", f"--network-interface={interface}",
                "/bin/sh", "-ec", script], timeout=slow(90)).stdout


@timeout(200)
def test_nspawn_child():
    """A container gets a child, talks to the peer, and gives it back."""
    there, here = host()
    other = child_by_ip(there, 0x8001, 7)
    other.up()
    defer(ip, "link del guest", fail=False)
    said = cmd(recipe("nspawn-child", {
        "ib0": here, f"ping -c 10 {other.v4}": ECHO.format(other.v4)}),
               timeout=slow(90)).stdout
    ksft_in("pkey", said)
    wait_until(lambda: link("guest"), 20, "the child, back")
    ksft_eq(kind("guest")[0], 0x8001)
    answers(there.v4)


@timeout(200)
def test_nspawn_port():
    """A container gets the interface of a port, and gives it back."""
    there, here = host()
    ip(f"addr flush dev {here} scope global")
    nspawn(here, f"""
        ip addr add {V4}/24 dev {here}
        ip link set {here} up
        {ECHO.format(there.v4)}
    """)
    wait_until(lambda: link(here), 20, f"{here}, back")
    ip(f"addr add {V4}/24 dev {here}")
    ip(f"link set {here} up")
    answers(there.v4)


# ---- monitoring ---------------------------------------------------------------


@timeout(120)
def test_node_exporter():
    """Prometheus's node_exporter: what the classes net and infiniband say."""
    there, here = host()
    service("prometheus-node-exporter")

    def metrics():
        try:
            with urllib.request.urlopen("http://localhost:9100/metrics",
                                        timeout=slow(10)) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def value(name):
        found = re.search(rf'^{name}{{[^}}]*device="{here}"[^}}]*}} (\S+)$', said,
                          re.M)
        ksft_true(found, name)
        return float(found[1])

    said = wait_until(metrics, 30, "an answer")
    ksft_eq(value("node_network_mtu_bytes"), link(here)["mtu"])
    ksft_eq((value("node_network_up"), value("node_network_carrier")), (1, 1))
    speed = int(read(f"/sys/class/net/{here}/speed"))
    ksft_eq(value("node_network_speed_bytes"), speed * 1e6 / 8)
    before = value("node_network_transmit_packets_total")
    stream = Stream(None, there, total=1 << 20, src_ns=ROOT)
    stream.finish()
    said = metrics()
    ksft_ge(value("node_network_transmit_packets_total"), before + 16)
    ksft_in("node_infiniband_rate_bytes_per_second", said)


@timeout(120)
def test_snmp():
    """SNMP: the type, the speed and the counters of the interface."""
    there, here = host()
    conf = file("/run/snmpd.conf", "agentAddress udp:127.0.0.1:1161\n"
                "rocommunity public 127.0.0.1\n")
    with bkg(["snmpd", "-f", "-C", "-c", "/run/snmpd.conf", "-Lo"]):

        def walk(oid):
            done = cmd(["snmpwalk", "-v2c", "-c", "public", "-m", "", "-On", "-Oq",
                        "127.0.0.1:1161", oid], fail=False, timeout=slow(20))
            return dict((words[0].rpartition(".")[2], words[1].strip('"')) for words
                        in (line.split(None, 1) for line in
                            done.stdout.splitlines()) if len(words) == 2)

        names = wait_until(lambda: walk(".1.3.6.1.2.1.31.1.1.1.1"), 30, "an answer")
        index = next(key for key, name in names.items() if name == here)
        ksft_eq(index, read(f"/sys/class/net/{here}/ifindex"))
        # ifType: infiniband; ifHighSpeed, which snmpd reads of Ethernet only;
        # ifHCOutOctets
        ksft_eq(walk(".1.3.6.1.2.1.2.2.1.3")[index], "199")
        ksft_eq(walk(".1.3.6.1.2.1.31.1.1.1.15")[index], "0")
        out = ".1.3.6.1.2.1.31.1.1.1.10"
        before = int(walk(out)[index])
        stream = Stream(None, there, total=4 << 20, src_ns=ROOT)
        stream.finish()
        wait_until(lambda: int(walk(out)[index]) - before >= 4 << 20, 60,
                   "the octets")
    conf.exec()


@timeout(120)
def test_collectd():
    """collectd's plugin for interfaces writes their octets down."""
    there, here = host()
    file("/run/collectd.conf", f"""
Interval 1
FQDNLookup false
LoadPlugin interface
LoadPlugin csv
<Plugin interface>
    Interface "{here}"
</Plugin>
<Plugin csv>
    DataDir "/run/collectd.csv"
</Plugin>
""")
    with bkg(["collectd", "-f", "-C", "/run/collectd.conf"]):
        stream = Stream(None, there, rate=1 << 20, src_ns=ROOT)
        stream.wait_progress()

        def rates():
            said = cmd("cat /run/collectd.csv/*/interface-" + here +
                       "/if_octets-*", fail=False).stdout
            return [float(line.split(",")[2]) for line in said.splitlines()
                    if re.match(r"[\d.]+,[\d.]+,[\d.]+$", line)]
        wait_until(lambda: any(rate > 100000 for rate in rates()), 30, "a rate")
        stream.finish()


# ---- a working day --------------------------------------------------------------


DAY = "/run/day"


def digests(place):
    return cmd(f"cd {place} && find . -type f | sort | xargs sha256sum",
               timeout=slow(60)).stdout


def nfs_server(there, export):
    """An NFS server at the peer, until the end of the case."""
    need_modules("nfsd", "nfs")
    cmd(f"""
        set -e
        mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
        mkdir -p /var/lib/nfs/v4recovery
        echo 10 > /proc/fs/nfsd/nfsv4leasetime
        echo 10 > /proc/fs/nfsd/nfsv4gracetime
        exportfs -o rw,no_root_squash,fsid=0,insecure,no_subtree_check,async \\
            '*:{export}'
        rpc.mountd --no-udp -N 3
        rpc.nfsd --no-udp -N 3 4
    """, ns=there.ns, timeout=slow(60))
    defer(cmd, "rpc.nfsd 0; exportfs -ua; pkill rpc.mountd; "
          "umount /proc/fs/nfsd", ns=there.ns, fail=False, timeout=slow(60))


@timeout(400)
def test_working_day():
    """NFS over TCP, rsync over ssh, iperf3 and qperf side by side: no byte differs."""
    there, here = host()
    for name in ("export", "source", "back", "mnt"):
        os.makedirs(f"{DAY}/{name}", exist_ok=True)
    defer(cmd, f"rm -rf {DAY}")
    cmd(["mount", "-t", "tmpfs", "-o", "size=200m", "export", f"{DAY}/export"])
    defer(cmd, ["umount", f"{DAY}/export"], fail=False)
    cmd(f"cd {DAY}/source && for n in $(seq 40); do mkdir d$n; "
        "head -c $((n * 20000)) /dev/urandom > d$n/file; done", timeout=slow(30))
    wanted = digests(f"{DAY}/source")
    nfs_server(there, f"{DAY}/export")
    ssh_server(there)
    cmd(["mount", "-t", "nfs4", "-o", "vers=4.2,proto=tcp", f"{there.v4}:/",
         f"{DAY}/mnt"], timeout=slow(60))
    mounted = defer(cmd, ["umount", "-l", f"{DAY}/mnt"], fail=False)
    with bkg(["iperf3", "-s", "-1"], ns=there.ns), bkg(["qperf"], ns=there.ns):
        wait_until(lambda: "5201" in cmd(["ss", "-tln"], ns=there.ns).stdout, 20,
                   "iperf3's server")
        with bkg(["iperf3", "-c", there.v4, "-t", "20", "-b", "20M", "--json"],
                 exit_wait=True, fail=True):
            for mode in ("datagram", "connected", "datagram"):
                for space, name in ((ROOT, here), (there.ns, there.ifname)):
                    ip(f"link set {name} type ipoib mode {mode}", ns=space)
                cmd(f"rm -rf {DAY}/mnt/* && cp -r {DAY}/source/. {DAY}/mnt/ && sync",
                    timeout=slow(90))
                cmd(f"rm -rf {DAY}/back/* && rsync -a --checksum "
                    f"peer:{DAY}/export/ {DAY}/back/", timeout=slow(90))
                ksft_eq(digests(f"{DAY}/back"), wanted, f"rsync, {mode}")
                said = cmd(["qperf", "-t", "1", there.v4, "tcp_bw", "tcp_lat",
                            "udp_lat"], timeout=slow(60)).stdout
                ksft_in("latency", said)
    mounted.exec()
    ksft_eq(digests(f"{DAY}/export"), wanted, "at the server")


# ---- as if it were hardware ----------------------------------------------------------


def hardware(*words, status=0):
    """What the program for two real hosts prints and reports."""
    report = "/run/hardware.txt"
    said = ""
    # pylint: disable-next=consider-using-with
    proc = subprocess.Popen([os.path.join(ROOT_DIR, "tools", "testing", "hardware"),
                             *words, "--seconds", "1", "--report", report],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, text=True)
    # Where the case is out of time
    defer(proc.kill)
    # It takes minutes in an emulated machine: show how far it is.
    for line in proc.stdout:
        ksft_pr(line.rstrip())
        said += line
    ksft_eq(proc.wait(), status, said)
    return said, read(report)


@timeout(900)
def test_hardware():
    """make check IB_LOCAL= IB_REMOTE=: everything passes, and is as before."""
    there, here = host()
    ssh_server(there)
    before = kind(here), kind_of(there)
    said, report = hardware("ibdevsim0:1", f"peer,{there.ifname}", "--disturb")
    ksft_in("0 failed, 0 not run", said)
    for what in ("carrier", "doctor", "echo", "latency", "multicast", "tcp", "udp",
                 "modes", "down and up", "child"):
        ksft_true(re.search(rf"^pass +{what}: ", said, re.M), what)
    for title in ("this host: ethtool -S", "peer: ethtool -S", "peer: dmesg",
                  "counters of errors"):
        ksft_in(title, report)
    ksft_eq((kind(here), kind_of(there)), before)
    answers(there.v4)


def kind_of(there):
    return there.mtu(), there.read("mode")


@timeout(600)
def test_hardware_fails():
    """It says what does not work, and what it was told wrong."""
    there, here = host()
    ssh_server(there)
    said, _ = hardware("ibdevsim7:1", "peer", status=1)
    ksft_in("there are no two interfaces", said)
    said, _ = hardware(here, "nosuch", status=1)
    ksft_in("FAIL     ssh", said)
    there.ns.sysctl("net.ipv4.icmp_echo_ignore_all", "1")
    said, report = hardware(here, "peer", status=1)
    ksft_true(re.search("^FAIL +echo: ", said, re.M), said)
    ksft_true(re.search("^pass +tcp: ", report, re.M), report)
