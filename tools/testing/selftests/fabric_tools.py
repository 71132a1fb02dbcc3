# SPDX-License-Identifier: GPL-2.0-only
"""The fabric as the InfiniBand tools and OpenSM see it."""

import os
import re
import stat
import struct
import threading

from lib import (Hca, bkg, cmd, defer, fabric, hca, ksft_eq, ksft_ge, ksft_gt,
                 ksft_in, ksft_ne, ksft_true, now, port, read, sa_query, slow,
                 timeout, wait_until)
from common import ROOT
from lib.capture import bth, deth, lrh
from lib.fabric import DEBUGFS
from lib.umad import Agent, ask_counters

BOOT = {"ipoib": "none", "hcas": 3, "seconds": 20}


def field(text, name):
    """The value of a line such as "Name:.....value"."""
    found = re.search(rf"^\s*#?\s*{name}:?\.*:?\s*(\S+)", text, re.M)
    return found.group(1) if found else None


def test_tree():
    """A machine's changes to the host's files, the tree among them, are its own."""
    path = os.path.join(ROOT, "written-by-a-machine")
    with open(path, "x", encoding="ascii") as file:
        file.write("here")
    defer(os.unlink, path)
    ksft_eq(read(path), "here")


def test_ibstat():
    """Ports are active and have what the SM gave them."""
    text = cmd("ibstat").stdout
    for each in fabric.hcas():
        part = text.split(f"CA '{each.name}'")[1].split("CA '")[0]
        ksft_eq(field(part, "State"), "Active", each.name)
        ksft_eq(field(part, "Physical state"), "LinkUp", each.name)
        ksft_eq(field(part, "Link layer"), "InfiniBand", each.name)
        ksft_eq(int(field(part, "Base lid")), each.port().lid(), each.name)
        ksft_eq(int(field(part, "SM lid")), port(0).lid(), each.name)
        ksft_gt(int(field(part, "Rate")), 1, each.name)
    lids = [p.lid() for p in fabric.ports()]
    ksft_eq(len(set(lids)), 3, "every port has a LID of its own")
    ksft_true(all(lids), "no LID is 0")


def test_ibnetdiscover():
    """One switch, every HCA on it."""
    text = cmd("ibnetdiscover").stdout
    ksft_eq(len(re.findall(r"^Switch\s", text, re.M)), 1, "switches")
    cas = re.findall(r'^Ca\s+\d+\s+"H-([0-9a-f]+)"\s+# "([^"]*)"', text, re.M)
    ksft_eq(sorted(int(guid, 16) for guid, _ in cas),
            sorted(h.node_guid() for h in fabric.hcas()), "HCAs")
    for each in fabric.ports():
        ksft_in(f"lid {each.lid()} ", text.replace("\n", " \n"))


def test_saquery_nodes():
    """The SA's node records are the nodes."""
    text = sa_query("NR").stdout
    guids = [int(g, 16) for g in
             re.findall(r"^\s*node_guid\.*(0x[0-9a-f]+)", text, re.M)]
    for each in fabric.hcas():
        ksft_in(each.node_guid(), guids, "node record")
    ksft_eq(len(guids), 4, "three HCAs and a switch")


def test_saquery_path():
    """A path record between two ports."""
    text = sa_query("--src-to-dst", f"{port(0).lid()}:{port(2).lid()}").stdout
    ksft_eq(int(field(text, "dlid")), port(2).lid())
    ksft_eq(int(field(text, "slid")), port(0).lid())
    ksft_true(int(field(text, "pkey"), 16) & 0x8000, "a key of full members")
    ksft_in(field(text, "mtu"), ("0x84", "0x85"))


def test_saquery_mcmember():
    """The broadcast group exists in the default partition."""
    text = sa_query("-g").stdout
    ksft_in("ff12:401b:ffff::ffff:ffff", text)
    part = text.split("ff12:401b:ffff::ffff:ffff")[1]
    ksft_ge(int(field(part, "Mlid"), 16), 0xc000)


def test_saquery_class_port_info():
    """The SA describes itself."""
    text = sa_query("-c").stdout
    ksft_eq(int(field(text, "Class version")), 2)
    ksft_true(field(text, "Capability mask"))


def test_smpquery_hca():
    """An HCA's agent answers by LID and by directed route."""
    target = port(1)
    text = cmd(["smpquery", "nodeinfo", target.lid()]).stdout
    ksft_eq(field(text, "NodeType"), "Channel")
    ksft_eq(int(field(text, "Guid"), 16), target.hca.node_guid())
    ksft_eq(int(field(text, "PortGuid"), 16), target.guid())
    text = cmd(["smpquery", "portinfo", target.lid(), "1"]).stdout
    ksft_eq(field(text, "LinkState"), "Active")
    ksft_eq(field(text, "PhysLinkState"), "LinkUp")
    ksft_eq(int(field(text, "Lid")), target.lid())
    ksft_eq(int(field(text, "SMLid")), port(0).lid())
    text = cmd(["smpquery", "GuidInfo", target.lid()]).stdout
    ksft_in(f"{target.guid():#018x}", text)
    text = cmd(["smpquery", "-C", "ibdevsim0", "-D", "nodeinfo", "0"]).stdout
    ksft_eq(int(field(text, "Guid"), 16), Hca(0).node_guid())
    text = cmd(["smpquery", "nodedesc", target.lid()]).stdout
    ksft_in(target.hca.name, text)


def test_smpquery_switch():
    """The switch answers: one hop away, by LID, and about its tables."""
    text = cmd(["smpquery", "-D", "nodeinfo", "0,1"]).stdout
    ksft_eq(field(text, "NodeType"), "Switch")
    text = cmd(["smpquery", "-D", "portinfo", "0,1", "0"]).stdout
    lid = int(field(text, "Lid"))
    ksft_ne(lid, 0)
    text = cmd(["smpquery", "switchinfo", lid]).stdout
    ksft_ge(int(field(text, "LinearFdbCap")), 0xbfff)
    ksft_gt(int(field(text, "LinearFdbTop")), 0)
    text = cmd(["ibroute", lid]).stdout
    for each in fabric.ports():
        ksft_in(f"{each.lid():#06x}", text, "forwarding table")


def test_smpquery_pkeys():
    """The P_Key tables hold what the partitions say."""
    want = {0xffff} | {0x8000 | n for n in range(1, 16)}
    for each in fabric.ports():
        ksft_eq(set(each.pkeys()), want, f"{each}")
        ksft_eq(each.pkey(0), 0xffff, "index 0")
    text = cmd(["smpquery", "pkeys", port(2).lid()]).stdout
    for key in want:
        ksft_in(f"{key:#06x}", text)


def test_ibping():
    """ibping's server answers ibping."""
    with bkg(["ibping", "-S", "-C", hca(1).name]) as server:
        wait_until(lambda: cmd(
            ["ibping", "-c", "1", "-L", port(1).lid()], fail=False,
            timeout=slow(10)).stdout.count("Pong"), 10, "the server")
        text = cmd(["ibping", "-c", "3", "-f", "-L", port(1).lid()],
                   timeout=slow(15)).stdout
        ksft_in("3 packets transmitted, 3 received", text)
        ksft_eq(server.proc.poll(), None, "the server runs")


def test_perfquery():
    """The performance counters count management packets."""
    def xmit():
        text = cmd(["perfquery", "-x", port(1).lid(), "1"]).stdout
        return int(field(text, "PortXmitPkts"))

    before = xmit()
    cmd(["ibping", "-c", "1", "-L", port(1).lid()], fail=False)
    ksft_gt(xmit(), before, "packets sent by the port")


def test_ibportstate():
    """A switch port is disabled and enabled; its HCA follows."""
    # Not by the HCA behind that port, whichever the tool would take.
    state = ["ibportstate", "-C", hca(0).name]
    target = port(2)
    switch, number = target.switch_end()
    cmd([*state, switch, number, "disable"], timeout=slow(20))
    try:
        wait_until(lambda: target.state() == "DOWN", 5, f"{target} down")
        text = cmd([*state, switch, number, "query"]).stdout
        ksft_eq(field(text, "PhysLinkState"), "Disabled")
    finally:
        cmd([*state, switch, number, "enable"], timeout=slow(20))
    target.wait_active()
    ksft_ne(target.lid(), 0)


MAD = struct.Struct(">BBBBHHQHHI232s")
BM_MGMT, BM_VERSION, GET, GET_RESP = 5, 1, 1, 0x81
CLASS_PORT_INFO, BAD_VERSION = 1, 4


def test_data_counters():
    """What performance counters call data has headers and ICRC in it."""
    text = cmd(["perfquery", "-x", port(2).lid(), "1"]).stdout
    for way in ("Xmit", "Rcv"):
        packets = int(field(text, f"Port{way}Pkts"))
        ksft_gt(packets, 10, way)
        # There were but MADs: LRH, BTH, DETH, 256 bytes, ICRC.
        ksft_eq(int(field(text, f"Port{way}Data")), packets * 288 // 4, way)


def test_unknown_class():
    """The switch tells who asks for a class that it does not have."""
    text = cmd(["smpquery", "-D", "portinfo", "0,1", "0"]).stdout
    with Agent(port(0), BM_MGMT, BM_VERSION) as agent:
        agent.send(int(field(text, "Lid")),
                   MAD.pack(1, BM_MGMT, BM_VERSION, GET, 0, 0, 7,
                            CLASS_PORT_INFO, 0, 0, bytes(232)), wait_ms=2000)
        status, answer = agent.receive(slow(5))
    ksft_eq(status, 0, "an answer came")
    words = MAD.unpack(answer)
    ksft_eq((words[1], words[3], words[4]), (BM_MGMT, GET_RESP, BAD_VERSION))


def test_debugfs_writes():
    """Whatever root writes to a file of the fabric, nothing breaks."""
    refused = 0
    for where, _, names in os.walk(DEBUGFS):
        for name in names:
            path = os.path.join(where, name)
            taken = 0
            for data in (b"", b"x", b"\0\0", b"%n", b"z" * 127, b"z" * 9000):
                try:
                    fd = os.open(path, os.O_WRONLY)
                except PermissionError:
                    continue
                try:
                    taken += os.write(fd, data)
                except OSError:
                    pass
                finally:
                    os.close(fd)
            if not os.stat(path).st_mode & stat.S_IWUSR:
                ksft_eq(taken, 0, path)
                refused += 1
    ksft_ge(refused, 20, "files that only show")
    for each in fabric.ports():
        ksft_true(each.active(), f"{each} is active")


def test_pcap_readers():
    """Several threads that read a mirror by one file get each packet once."""
    target, count, threads = port(1), 1500, 4
    target.set("mirror", 1)
    fd = os.open(f"{target.dir}/pcap", os.O_RDONLY)
    ksft_eq(len(os.read(fd, 1 << 16)), 24, "file header")
    pieces = [[] for _ in range(threads)]

    def read_all(mine):
        while data := os.read(fd, 1 << 16):
            mine.append(data)

    readers = [threading.Thread(target=read_all, args=(mine,))
               for mine in pieces]
    for each in readers:
        each.start()
    wire = os.open(f"{target.dir}/inject", os.O_WRONLY)
    for psn in range(count):
        # To a QP that nobody has.
        os.write(wire, lrh(target.lid(), port(0).lid(), 17) +
                 bth(0xabcdef, psn=psn) + deth(1, 2) + bytes(32))
    os.close(wire)
    target.set("mirror", 0)
    for each in readers:
        each.join()
    os.close(fd)
    # pcap and ERF headers, then LRH and BTH with the PSN at its end
    seen = [struct.unpack(">I", data[48:52])[0] & 0xffffff
            for mine in pieces for data in mine
            if data[45:48] == b"\xab\xcd\xef"]
    ksft_eq(len(seen), count, "packets read")
    ksft_eq(sorted(seen), list(range(count)), "each of them once")


@timeout(60)
def test_pulled_while_asked():
    """
    An HCA is pulled while it is asked.  ib_mad does not keep what answers from
    going away (agent_send_response()): the HCA has to be silent before.
    """
    for turn in range(5):
        new = fabric.add_hca(5)
        asking = ask_counters(port(0), new.port().lid())
        # So that there always is an answer on its way.
        new.port().set("ah_delay_us", 20000)
        before = new.port().counter("mad_rx")
        wait_until(lambda: new.port().counter("mad_rx") > before + 20, 5,
                   f"it is asked, turn {turn}")
        start = now()
        new.unplug()
        ksft_ge(slow(2), now() - start, "seconds to pull it")
        asking.exec()
