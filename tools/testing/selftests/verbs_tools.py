# SPDX-License-Identifier: GPL-2.0-only
"""The distribution's RDMA programs, unchanged, on the fabric."""

import json
import re

from lib import (Stream, bkg, cmd, defer, ends, fabric, hca, ksft_eq, ksft_ge,
                 ksft_gt, ksft_in, ksft_not_in, ksft_pr, ksft_true, ping_ok,
                 port, slow, sm, timeout, wait_until)
from lib.child import Children, child_by_ip
from lib.fabric import Crossed
from lib.perftest import PORT, both, listening, perftest
from lib.uverbs import objects

BOOT = {"hcas": 2, "fabric": "provider=hfi1", "needs": "verbs-tools",
        "mem": 1536, "seconds": 110}
GROUPS = ("verbs",)

DEVICES = FIRST, SECOND = "ibdevsim0", "ibdevsim1"


def pingpong(program, *words, size=4096, count=1000):
    """One of libibverbs' examples; they check data with -c."""
    start = Crossed()
    common = [program, "-n", str(count), "-s", str(size), *words]
    text = both([*common, "-d", FIRST], [*common, "-d", SECOND, "localhost"])
    ksft_in(f"{count} iters in", text)
    for got in start.bytes():
        ksft_ge(got, count * size, "bytes at a port")


def test_devinfo():
    """ibv_devinfo shows the HCAs and what they can do."""
    text = cmd(["ibv_devinfo", "-v"]).stdout
    for name in (FIRST, SECOND):
        ksft_in(name, text)
    for line in ("PORT_ACTIVE", "InfiniBand", "ATOMIC_HCA",
                 "MEM_MGT_EXTENSIONS"):
        ksft_in(line, text)
    found = re.search(r"max_qp_rd_atom:\s*(\d+)", text)
    ksft_gt(int(found.group(1)), 0)


def test_rc_pingpong():
    """ibv_rc_pingpong: messages of many sizes, data compared, with events."""
    for size in (1, 4096, 70000):
        pingpong("ibv_rc_pingpong", "-c", size=size, count=300)
    pingpong("ibv_rc_pingpong", "-c", "-e", count=300)


def test_ud_pingpong():
    """ibv_ud_pingpong."""
    pingpong("ibv_ud_pingpong", size=2000)
    pingpong("ibv_ud_pingpong", "-e", size=64)


def test_srq_pingpong():
    """ibv_srq_pingpong: sixteen QPs on a shared receive queue."""
    pingpong("ibv_srq_pingpong", count=500)
    pingpong("ibv_srq_pingpong", "-e", count=500)


PERFTEST = ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat",
            "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat")


@timeout(300)
def test_perftest():
    """perftest's programs for RC, each with its own operation."""
    for program in PERFTEST:
        size = [] if "atomic" in program else ["-s", "8192"]
        row = perftest(program, DEVICES, "-n", "500", *size)[0]
        ksft_pr(program, row)
        ksft_eq(row[1], 500, f"{program}: iterations")


@timeout(300)
def test_perftest_sizes():
    """Messages up to 4 MiB, whose data are moved segment by segment."""
    for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        for size in (2, 65536, 1 << 22):
            perftest(program, DEVICES, "-n", "20", "-s", str(size))


@timeout(120)
def test_perftest_ways():
    """Events, several QPs, both directions, UD, rdma_cm's addresses."""
    perftest("ib_write_bw", DEVICES, "-n", "200", "-q", "4", "-b")
    perftest("ib_send_lat", DEVICES, "-n", "200", "-e")
    perftest("ib_send_bw", DEVICES, "-n", "200", "-c", "UD", "-s", "2048")
    perftest("ib_send_bw", DEVICES, "-n", "200", "--use-srq", "-q", "4")


def test_qperf():
    """qperf over RC and UD."""
    with bkg(["qperf"]):
        wait_until(lambda: listening(19765), 10, "qperf")
        text = cmd(["qperf", "-t", "1", "-li", f"{SECOND}:1", "-ri",
                    f"{FIRST}:1", "localhost", "rc_bw", "rc_lat", "ud_bw",
                    "rc_rdma_write_bw", "rc_rdma_read_bw",
                    "rc_fetch_add_mr"], timeout=slow(40)).stdout
    for name in ("rc_bw", "rc_lat", "ud_bw", "rc_fetch_add_mr"):
        ksft_in(f"{name}:", text)


# ---- rdma_cm ---------------------------------------------------------------


def rdma_listening(pid):
    """That process listens by rdma_cm, as "rdma resource" tells."""
    shown = json.loads(cmd(["rdma", "-j", "resource", "show",
                            "cm_id"]).stdout or "[]")
    return [row for row in shown
            if row.get("pid") == pid and row["state"] == "LISTEN"]


def connected(pair, server, client, limit=30):
    """A server at one host, a client at the other one; the client's text."""
    cmd(["modprobe", "rdma_ucm"])
    start = Crossed()
    with bkg(server, ns=pair.b.ns, exit_wait=True, fail=True) as proc:
        wait_until(lambda: proc.proc.poll() is not None or
                   rdma_listening(proc.proc.pid), 10, "a server")
        text = cmd(client, ns=pair.a.ns, timeout=slow(limit)).stdout
    ksft_gt(sum(start.bytes()), 0)
    return text


def test_rping():
    """rping over both families: RDMA READ and WRITE, data compared."""
    pair = ends()
    for address in (pair.b.v4, pair.b.v6):
        start = Crossed()
        text = connected(pair, ["rping", "-s", "-a", address, "-C", "200",
                                "-S", "4000", "-V"],
                         ["rping", "-c", "-a", address, "-C", "200", "-S",
                          "4000", "-V", "-v"])
        ksft_ge(text.count("ping data: rdma-ping"), 200)
        ksft_ge(min(start.bytes()), 200 * 4000)


def test_ucmatose():
    """ucmatose: connections over rdma_cm, with data both ways."""
    pair = ends()
    text = connected(pair, ["ucmatose", "-c", "8", "-C", "20", "-S", "5000"],
                     ["ucmatose", "-s", pair.b.v4, "-c", "8", "-C", "20",
                      "-S", "5000"])
    ksft_in("test complete", text)
    ksft_in("return status 0", text)


def test_udaddy():
    """udaddy: datagrams over rdma_cm."""
    pair = ends()
    text = connected(pair, ["udaddy", "-c", "2", "-C", "20"],
                     ["udaddy", "-s", pair.b.v4, "-c", "2", "-C", "20"])
    ksft_in("return status 0", text)


def test_mckey():
    """mckey: a multicast group over rdma_cm."""
    pair = ends()
    cmd(["modprobe", "rdma_ucm"])
    group = "239.77.0.1"
    listen = ["mckey", "-m", group, "-b", pair.b.v4, "-C", "10"]
    with bkg(listen, ns=pair.b.ns, exit_wait=True, fail=True) as receiver:
        wait_until(lambda: hca(1).data_qps("UD") and attached(pair.b.port),
                   10, "a member")
        cmd(["mckey", "-m", group, "-b", pair.a.v4, "-C", "10", "-s"],
            ns=pair.a.ns, timeout=slow(20))
    ksft_in("receiving data transfers", receiver.stdout)
    ksft_in("return status 0", receiver.stdout)


def attached(where):
    """A program's QP at that port is in a group: it is in RTS, on its own."""
    return [qp for qp in where.hca.data_qps("UD") if qp.size <= 64 and
            qp.state == "RTS"]


def test_rstream():
    """rstream: rsockets, as streams with data compared."""
    pair = ends()
    for size in ("64", "65536"):
        connected(pair, ["rstream", "-S", size, "-C", "50", "-T", "r"],
                  ["rstream", "-s", pair.b.v4, "-S", size, "-C", "50"])


# ---- ibacm ------------------------------------------------------------------

ACM = """
set -e
# The daemon of another host has the same paths.
mount -t tmpfs none /run
mkdir -p /run/rdma /etc/rdma
mount --bind /run/rdma /etc/rdma
ib_acme -A -O -D /etc/rdma > /dev/null
sed -i 's#^log_file.*#log_file /run/acm.log#; s#^lock_file.*#lock_file /run/pid#' \
	/etc/rdma/ibacm_opts.cfg
exec ibacm -P
"""


class Acm:
    """An ibacm of a host's own, until the end of the case."""

    def __init__(self, end):
        self.end = end
        self.proc = bkg(ACM, ns=end.ns)
        defer(self.proc.stop)
        wait_until(lambda: end.v4 in self.ask("-e"), 20, "an endpoint")

    def ask(self, *words, fail=True):
        """What ib_acme prints."""
        return cmd(["nsenter", "-t", self.proc.proc.pid, "-m", "-n",
                    "ib_acme", *words], fail=fail, timeout=slow(30)).stdout


@timeout(120)
def test_ibacm():
    """ib_acme: two hosts' ibacm find paths, which the SA confirms."""
    pair = ends()
    cmd(["modprobe", "-a", "rdma_ucm", "ib_umad"])
    both = [Acm(end) for end in pair]
    for acm, other in (both, reversed(both)):
        here, there = acm.end, other.end
        for words in (["-s", here.v4, "-d", there.v4], ["-d", there.v4],
                      ["-s", here.v6, "-d", there.v6]):
            text = acm.ask("-f", "i", *words, "-v")
            ksft_in("SA verification: success", text)
            ksft_eq(re.findall(r"([ds]lid): (\d+)", text),
                    [("dlid", str(there.port.lid())),
                     ("slid", str(here.port.lid()))])
        # From its cache, without asking anybody
        text = acm.ask("-f", "i", "-s", here.v4, "-d", there.v4, "-c")
        ksft_in("return status 0x0", text)
    text = both[0].ask("-f", "i", "-s", pair.a.v4, "-d", "10.99.99.99",
                       fail=False)
    ksft_not_in("return status 0x0", text)


@timeout(120)
def test_children():
    """rping and ib_acme by the addresses of children, in their partition."""
    pair = ends()
    cmd(["modprobe", "-a", "rdma_ucm", "ib_umad"])
    children = Children(*(child_by_ip(end, 0x8001) for end in pair))
    children.up()
    here, there = children
    for address in (there.v4, there.v6):
        start = Crossed()
        text = connected(children, ["rping", "-s", "-a", address, "-C", "50", "-V"],
                         ["rping", "-c", "-a", address, "-C", "50", "-V", "-v"])
        ksft_ge(text.count("ping data: rdma-ping"), 50)
        ksft_gt(min(start.bytes()), 0)
    acm = Acm(pair.a)
    Acm(pair.b)
    for source, target in ((here.v4, there.v4), (here.v6, there.v6)):
        text = acm.ask("-f", "i", "-s", source, "-d", target, "-v")
        ksft_in("SA verification: success", text)
        ksft_in("pkey: 0x8001", text)


# ---- beside other things ---------------------------------------------------


@timeout(120)
def test_beside_traffic():
    """Programs and IPoIB share the ports; the cable is pulled meanwhile."""
    pair = ends()
    server = ["ib_write_bw", "-F", "-D", "5", "-u", "18", "-d", FIRST]
    client = ["ib_write_bw", "-F", "-D", "5", "-u", "18", "-d", SECOND,
              "localhost"]
    with bkg(server, exit_wait=True, fail=True):
        wait_until(lambda: listening(PORT), 10, "a server")
        with bkg(client, exit_wait=True, fail=True) as proc:
            wait_until(lambda: hca(0).data_qps("RC"), 10, "a QP")
            ping_ok(pair.a.ns, pair.b.v4, count=20)
            pair.a.port.link(False)
            pair.a.port.link(True)
            pair.a.port.wait_active()
            pair.wait_ping()
    ksft_in("65536", proc.stdout)


@timeout(120)
def test_sm_failover():
    """The SM dies and another one takes over: no program and no flow notices."""
    pair = ends()
    cmd(["modprobe", "rdma_ucm"])
    first, second = port(0), port(1)
    standby = sm.with_standby(first, second)
    pair.wait_ping()
    stream = Stream(pair.a, pair.b, rate=4 << 20)
    words = ["ib_write_bw", "-F", "-D", "20", "-u", "18"]
    with bkg([*words, "-d", FIRST], exit_wait=True, fail=True):
        wait_until(lambda: listening(PORT), 10, "a server")
        with bkg([*words, "-d", SECOND, "localhost"], exit_wait=True,
                 fail=True) as proc:
            wait_until(lambda: hca(0).data_qps("RC"), 10, "a QP")
            sm.stop(hard=True, but=standby)
            wait_until(lambda: second.sm_lid() == second.lid(), 20,
                       "the second SM is the master")
            stream.wait_progress()
            ksft_true(proc.proc.poll() is None, "it still ran")
    ksft_in("65536", proc.stdout)
    stream.finish()
    # Connections need paths, which the new one knows.
    text = connected(pair, ["rping", "-s", "-a", pair.b.v4, "-C", "20", "-V"],
                     ["rping", "-c", "-a", pair.b.v4, "-C", "20", "-V", "-v"])
    ksft_ge(text.count("ping data: rdma-ping"), 20)


def test_objects():
    """None of these programs has left anything."""
    for each in fabric.hcas():
        found = objects(each.number)
        ksft_eq(found, dict.fromkeys(found, 0), f"{each}")
