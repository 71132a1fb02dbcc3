# SPDX-License-Identifier: GPL-2.0-only
"""HCAs of all kinds: each case makes two, and moves everything over them."""

from lib import (End, any_ends, defer, define, ends_with, fabric, ifaces,
                 ksft_eq, ksft_false, ksft_ge, ksft_pr, load_module,
                 mcast_passes, now, ping_ok, port, slow, tcp_transfer, timeout,
                 udp_exchange, unload_module)
from lib.ksft import module_kind

BOOT = {"hcas": 1, "seconds": 120}

MIB = 1 << 20


def workload(pair):
    """IPv4, IPv6, TCP, UDP, fragments and multicast; nothing to complain."""
    mtu = pair.a.mtu()
    for end, other in ((pair.a, pair.b), (pair.b, pair.a)):
        for size in (0, 1, 100, mtu - 28, mtu - 27, 9000, 60000):
            ping_ok(end.ns, other.v4, size=size, limit=slow(2))
        ping_ok(end.ns, other.v6, size=mtu - 48, limit=slow(2))
        tcp_transfer(end, other, 2 * MIB)
        tcp_transfer(end, other, MIB, address=other.v6)
        got = udp_exchange(end, other, 50, mtu - 28)
        ksft_eq((len(got.seen), got.bad), (50, 0), "UDP")
    mcast_passes(pair.a, pair.b, "239.5.5.5")
    for end in pair:
        end.port.no_mistakes()


def test_no_offloads():
    """No checksum offload, no LSO."""
    pair = ends_with(csum=0, lso=0)
    ksft_false(pair.a.feature("tx-checksum-ipv4"))
    # Ours cuts packets itself.
    ksft_eq(pair.a.feature("tx-tcp-segmentation"), module_kind() != "stock")
    workload(pair)


def test_checksum_only():
    """Checksum offload without LSO."""
    pair = ends_with(csum=1, lso=0)
    ksft_eq(pair.a.feature("tx-tcp-segmentation"), module_kind() != "stock")
    workload(pair)


def test_mixed_offloads():
    """One side has the offloads, the other has not."""
    fabric.add_hca(2)
    fabric.add_hca(3, csum=0, lso=0)
    workload(any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False))


def works_with(caps):
    """All goes between HCAs with these capabilities."""
    workload(ends_with(**caps))


CASES = {
    # No shared receive queues.
    "test_no_srq": {"srq": 0},
    # Shared receive queues, but not for datagrams.
    "test_no_ud_srq": {"ud_srq": 0},
    # A DMA device behind the HCA instead of virtual DMA.
    "test_real_dma": {"dma": 1},
    # The same without offloads and SRQ.
    "test_real_dma_no_offloads": {"dma": 1, "csum": 0, "lso": 0, "srq": 0},
    # Two gather entries, as many as management needs; without LSO.
    "test_two_sge": {"max_sge": 2, "lso": 0},
    # Three gather entries: some packets must be made linear.
    "test_few_sge": {"max_sge": 3},
    # One completion vector.
    "test_one_vector": {"vectors": 1},
    # No CQ moderation.
    "test_no_moderation": {"moderation": 0},
    # An HCA with short queues: not much more than management needs.
    "test_short_queues": {"max_qp_wr": 512, "max_cqe": 1280},
}
define(globals(), CASES, works_with)


def test_small_mtu():
    """A port whose MTU is smaller than its group's stays without carrier."""
    # The broadcast group has 2048; a port of 1024 must not be let in.
    new = fabric.add_hca(2, mtu=1024)
    end = End("h3", new.port(), 1, 3)
    defer(end.drop)
    end.setup()
    until = now() + 2
    while now() < until:
        ksft_false(end.carrier(), "carrier with too small an MTU")
    ksft_ge(len(ifaces()), 1)


def test_large_port_mtu():
    """A port of 4096 in a group of 2048: the group decides."""
    pair = ends_with(mtu=4096)
    ksft_eq(pair.a.mtu(), 2044)
    workload(pair)


def test_two_ports_talk():
    """Both ports of one HCA, in two namespaces."""
    # A number of its own: OpenSM would take a node that comes back with
    # another number of ports for the one it knows.
    fabric.add_hca(6, ports=2)
    pair = any_ends(port(6, 1), port(6, 2), ("h3", "h4"), 3, keep=False)
    workload(pair)


def test_costly_doorbells():
    """Doorbells and interrupts that cost time change nothing but that."""
    pair = ends_with()
    for end in pair:
        end.port.fault("doorbell_ns", 2000)
        end.port.fault("irq_ns", 5000)
    workload(pair)


def test_open_fails():
    """Verbs objects cannot be made on open: an error, then a new start."""
    pair = ends_with()
    end = pair.a
    for failures in (1, 2, 3, 5):
        end.set("down")
        fault = end.port.fault("create_error", failures)
        end.set("up", fail=False)
        ksft_pr(f"{failures} failures, left {end.port.get('create_error')}")
        fault.exec()
        end.set("down")
        end.up()
        end.wait_carrier()
        pair.wait_ping()
    workload(pair)


def test_probe_fails():
    """Verbs objects cannot be made when the module arrives: no harm."""
    ends_with()
    for failures in (1, 2, 3, 4, 6):
        unload_module()
        faults = [port(n).fault("create_error", failures) for n in (2, 3)]
        load_module()
        for fault in faults:
            fault.exec()
    unload_module()
    load_module()
    workload(any_ends(port(2), port(3), ("h3", "h4"), 3, keep=False))


@timeout(90)
def test_all_workloads_strict():
    """After all that the first HCA has nothing to complain about either."""
    strict = fabric.strict()
    ksft_eq(strict, dict.fromkeys(strict, 0))
