# SPDX-License-Identifier: GPL-2.0-only
"""Errors of links: what tools, the SM and "rdma statistic" show of them."""

import json
import re

from lib import (cmd, fabric, ksft_eq, ksft_ge, ksft_gt, ksft_in, ksft_le,
                 ksft_not_in, ksft_raises, ksft_true, now, port, slow, timeout,
                 wait_until, write)
from lib.fabric import DEBUGFS
from lib.umad import PERF_MGMT, PERF_VERSION, Agent, get_counters
from lib.utils import read

BOOT = {"ipoib": "none", "hcas": 3, "seconds": 60}

SWITCH_ERRORS = f"{DEBUGFS}/switch/errors"

# As debugfs and as perfquery calls them, and the most that they hold
COUNTERS = (
    ("symbol_error", "SymbolErrorCounter", 65535),
    ("link_error_recovery", "LinkErrorRecoveryCounter", 255),
    ("port_rcv_remote_physical_errors", "PortRcvRemotePhysicalErrors", 65535),
    ("port_rcv_switch_relay_errors", "PortRcvSwitchRelayErrors", 65535),
    ("port_xmit_constraint_errors", "PortXmitConstraintErrors", 255),
    ("port_rcv_constraint_errors", "PortRcvConstraintErrors", 255),
    ("local_link_integrity_errors", "LocalLinkIntegrityErrors", 15),
    ("excessive_buffer_overrun_errors", "ExcessiveBufferOverrunErrors", 15),
    ("port_xmit_wait", "PortXmitWait", 0xffffffff),
)
RCV_DETAILS = (
    ("port_local_physical_errors", "PortLocalPhysicalErrors"),
    ("port_malformed_packet_errors", "PortMalformedPktErrors"),
    ("port_buffer_overrun_errors", "PortBufferOverrunErrors"),
)
RELAY_DETAILS = (
    ("port_dlid_mapping_errors", "PortDLIDMappingErrors"),
    ("port_vl_mapping_errors", "PortVLMappingErrors"),
    ("port_looping_errors", "PortLoopingErrors"),
)
XMIT_DETAILS = (
    ("port_inactive_discards", "PortInactiveDiscards"),
    ("port_neighbor_mtu_discards", "PortNeighborMTUDiscards"),
    ("port_sw_lifetime_limit_discards", "PortSwLifetimeLimitDiscards"),
    ("port_sw_hoq_lifetime_limit_discards", "PortSwHOQLifetimeLimitDiscards"),
)


class AtHca:
    """A port of an HCA, whose errors are counted."""

    def __init__(self, where):
        self.where, self.lid, self.number = where, where.lid(), 1

    def add(self, counter, count):
        self.where.set("errors", f"{counter} {count}")

    def watchdog(self):
        self.where.set("errors", "watchdog")


class AtSwitch:
    """The port of the switch at the other end of that cable."""

    def __init__(self, where):
        self.lid, self.number = where.switch_end()

    def add(self, counter, count):
        write(SWITCH_ERRORS, f"{self.number} {counter} {count}")

    def watchdog(self):
        write(SWITCH_ERRORS, f"{self.number} watchdog")


def both_ends():
    return AtHca(port(1)), AtSwitch(port(1))


def perfquery(end, *words):
    """What perfquery shows of a port, as numbers."""
    text = cmd(["perfquery", *words, end.lid, end.number]).stdout
    return {name: int(value, 0) for name, value in
            re.findall(r"^(\w+):\.*(\w+)", text, re.M)}


def test_counters():
    """Each counter shows what was added to it, at most its largest value."""
    for end in both_ends():
        cmd(["perfquery", "-R", end.lid, end.number])
        for number, (name, _, _) in enumerate(COUNTERS):
            end.add(name, number + 3)
        shown = perfquery(end)
        ksft_eq([shown[name] for _, name, _ in COUNTERS],
                [number + 3 for number in range(len(COUNTERS))])
        for name, _, most in COUNTERS:
            end.add(name, most)
        shown = perfquery(end)
        ksft_eq([shown[name] for _, name, _ in COUNTERS],
                [most for _, _, most in COUNTERS])
        cmd(["perfquery", "-R", end.lid, end.number])
        shown = perfquery(end)
        ksft_eq([shown[name] for _, name, _ in COUNTERS],
                [0] * len(COUNTERS))


def details(end, table, word, total):
    """Details are shown, and counted in the counter that they belong to."""
    cmd(["perfquery", "-R", end.lid, end.number])
    before = perfquery(end, word), perfquery(end)[total]
    for number, (name, _) in enumerate(table):
        end.add(name, 10 + number)
    shown = perfquery(end, word)
    ksft_eq([shown[name] - before[0][name] for _, name in table],
            [10 + number for number in range(len(table))])
    ksft_eq(perfquery(end)[total] - before[1],
            sum(10 + number for number in range(len(table))), total)


def test_details():
    """PortRcvErrorDetails and PortXmitDiscardDetails."""
    for end in both_ends():
        details(end, RCV_DETAILS, "--rcverr", "PortRcvErrors")
        details(end, RELAY_DETAILS, "--rcverr", "PortRcvSwitchRelayErrors")
        details(end, XMIT_DETAILS, "--xmtdisc", "PortXmitDiscards")
        cmd(["perfquery", "-R", end.lid, end.number])


def test_ibqueryerrors():
    """ibqueryerrors finds the port that has errors, and clears them."""
    for end in both_ends():
        end.add("symbol_error", 77)
        text = cmd(["ibqueryerrors"], fail=False).stdout
        ksft_eq(set(re.findall(r"port (\d+): \[SymbolErrorCounter == 77\]",
                               text)), {str(end.number)}, text)
        cmd(["ibqueryerrors", "-k"], fail=False)
        ksft_not_in("SymbolErrorCounter == 77",
                    cmd(["ibqueryerrors"], fail=False).stdout)


class Notices:
    """Traps that OpenSM gets from now on."""

    LOG = "/var/log/opensm.log"

    def __init__(self):
        self.before = len(read(self.LOG))

    def came(self, number, lid):
        """Such a trap came from there."""
        return re.search(rf"num:{number} .*from LID:{lid}\b",
                         read(self.LOG)[self.before:])

    def wait(self, number, lid):
        wait_until(lambda: self.came(number, lid), 10,
                   f"trap {number} from LID {lid}")


@timeout(120)
def test_traps():
    """Errors that have a trap are reported to the SM."""
    for end in both_ends():
        notices = Notices()
        # At once: each has a trap of its own.
        end.add("local_link_integrity_errors", 1)
        end.add("excessive_buffer_overrun_errors", 1)
        end.watchdog()
        for number in (129, 130, 131):
            notices.wait(number, end.lid)
        ksft_true(not notices.came(145, end.lid))
        cmd(["perfquery", "-R", end.lid, end.number])


def test_system_image_guid():
    """Another SystemImageGUID: the SM is told, and NodeInfo has it."""
    where = port(1)
    text = read(f"/sys/class/infiniband/{where.hca.name}/sys_image_guid")
    old = text.strip().replace(":", "")
    notices = Notices()
    where.hca.set("set_sys_guid", "021bd500deadbeef")
    notices.wait(145, where.lid())
    text = cmd(["smpquery", "nodeinfo", where.lid()]).stdout
    ksft_in("SystemGuid:......................0x021bd500deadbeef", text)
    where.hca.set("set_sys_guid", old)


def test_statistic():
    """"rdma statistic" and sysfs show the simulator's own counters."""
    for each in fabric.ports():
        before = each.counters()
        shown = json.loads(cmd(["rdma", "-j", "statistic", "show", "link",
                                f"{each.hca.name}/{each.num}"]).stdout)[0]
        after = each.counters()
        for name, value in before.items():
            ksft_ge(shown[name], value, name)
            ksft_le(shown[name], after[name], name)
    name = fabric.hcas()[0].name
    value = int(read(f"/sys/class/infiniband/{name}/ports/1/hw_counters/"
                     "mad_rx"))
    ksft_gt(value, 0)


def test_bad_writes():
    """What is not a counter, a number or a port is refused."""
    wrong = ("nonsense 3", "symbol_error", "symbol_error x", "symbol_error -1",
             "symbol_error 0x100000000", "symbol_error 1 1", "watchdog 1")
    for text in wrong:
        with ksft_raises(OSError, text):
            port(1).set("errors", text)
        with ksft_raises(OSError, text):
            write(SWITCH_ERRORS, f"1 {text}")
    for text in ("1", "999 symbol_error 1", "-1 watchdog", "x watchdog"):
        with ksft_raises(OSError, text):
            write(SWITCH_ERRORS, text)
    with ksft_raises(OSError):
        port(1).hca.set("set_sys_guid", "guid")


def pull_late(new):
    """Pull an HCA on which somebody waits: that ends, but not at once."""
    start = now()
    new.unplug()
    ksft_ge(now() - start, 5, "seconds: somebody waited")
    ksft_le(now() - start, slow(20), "seconds to pull it")
    ksft_true(not new.exists(), "it is gone")


@timeout(120)
def test_pulled_wedged():
    """Who waits for an HCA that stands still may go soon after it was pulled."""
    new = fabric.add_hca(5)
    with Agent(new.port(), PERF_MGMT, PERF_VERSION) as agent:
        new.port().set("wedged_special", 1)
        for tid in range(1, 9):
            agent.send(port(0).lid(), get_counters(tid))
        wait_until(lambda: any(qp.type == "GSI" and qp.waiting
                               for qp in new.qps()), 5, "MADs that wait")
        pull_late(new)


@timeout(120)
def test_pulled_slow():
    """Nor does it matter how slow the HCA is."""
    new = fabric.add_hca(5)
    new.port().set("destroy_delay_ms", 3600 * 1000)
    pull_late(new)
    # What comes afterwards is as fast as ever.
    new = fabric.add_hca(5)
    start = now()
    new.unplug()
    ksft_le(now() - start, slow(3), "seconds to pull it")
