# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of the HCAs, as a small user of them in the kernel finds them."""

import errno
import os
import platform

from lib import (Skip, cmd, defer, exists, fabric, hca, kmsg_since, kmsg_tail,
                 ksft_eq, ksft_false, ksft_ge, ksft_le, ksft_raises, now, port,
                 read, slow, timeout, write)
from common import ROOT

BOOT = {"ipoib": "none", "hcas": 1, "fabric": "switch_ports=4",
        "needs": "selftest", "seconds": 20}

RUN = "/sys/kernel/debug/ibds_selftest/run"


def check(where, name):
    """What a check of the module finds at an HCA."""
    if not exists(RUN):
        cmd(["insmod", os.path.join(ROOT, "build", platform.release(),
                                    "selftest", "ibds_selftest.ko")])
        defer(cmd, ["rmmod", "ibds_selftest"])
    write(RUN, f"{where.hca.name} {name}")
    return read(RUN)


def real_dma():
    """A port of an HCA whose mappings the kernel's DMA API makes."""
    try:
        return fabric.add_hca(5, dma=1).port()
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        raise Skip("the kernel has no DMA operations of single devices") \
            from error


def test_handler_context():
    """Completion handlers run in interrupts, or in a work item if asked."""
    ksft_eq(check(port(0), "context"), "interrupt")
    work = fabric.add_hca(5, comp_ctx="work")
    ksft_eq(check(work.port(), "context"), "task, irqs on, bh off")


def test_reset():
    """RESET takes the QP's completions away, or not; the queues are empty."""
    ksft_eq(check(port(0), "reset"), "0 stale, full")
    keeps = fabric.add_hca(5, reset_purge=0)
    ksft_eq(check(keeps.port(), "reset"), "11 stale, full")


def test_mapping_fails():
    """A DMA mapping fails when it should; virtual ones do not know it."""
    port(0).fault("map_error", 1)
    ksft_eq(check(port(0), "map"), "++++++")
    real = real_dma()
    ksft_eq(check(real, "map"), "++++++")
    real.fault("map_skip", 2)
    real.fault("map_error", 3)
    ksft_eq(check(real, "map"), "++---+")
    ksft_eq((real.get("map_skip"), real.get("map_error")), ("0", "0"))


@timeout(60)
def test_slow_commands():
    """RESET, CQs and QPs take as long as they are told to."""
    ksft_le(int(check(port(0), "slow")), slow(100))
    fault = port(0).fault("reset_delay_ms", 300)
    ksft_ge(int(check(port(0), "slow")), 300)
    fault.exec()
    for knob in ("create_delay_ms", "destroy_delay_ms"):
        start = now()
        fault = port(0).fault(knob, 200)
        check(port(0), "slow")
        fault.exec()
        ksft_ge(now() - start, 0.4, knob)


def test_drain():
    """The core empties a QP's queues, whatever kind of QP it is."""
    place = kmsg_tail()
    ksft_eq(check(port(0), "drain-ud"), "7 flushed")
    ksft_eq(check(port(0), "drain-rc"), "7 flushed")
    ksft_eq(kmsg_since(place, "failed to drain"), [])


def test_moderation():
    """No completion handler is called when the last QP of the CQ is gone."""
    ksft_eq(check(port(0), "moderation"), "0 late")
    work = fabric.add_hca(5, comp_ctx="work")
    ksft_eq(check(work.port(), "moderation"), "0 late")


def test_long_message():
    """A message that is longer than the HCA supports is an error."""
    longest, _, status = check(port(0), "long").partition(": ")
    ksft_eq(int(longest), 1 << 30)
    ksft_eq(status, "local length error")


def test_regions():
    """Requests register a region, access it, and take that back."""
    regions(port(0))


def test_regions_dma():
    """The same where regions are made of DMA addresses."""
    regions(real_dma())


def regions(where):
    # 10: remote access error
    ksft_eq(check(where, "regions"), "0 0 stored 0 same 0 10")
    ksft_eq(check(where, "send-inv"), "its key, 10")


def test_switch_full():
    """Where the switch has no port left there is no HCA, and a reason."""
    for number in (5, 6, 7):
        fabric.add_hca(number)
    place = kmsg_tail()
    with ksft_raises(OSError) as refused:
        hca(8).plug()
    ksft_eq(refused.error.errno, errno.ENOSPC)
    ksft_eq(len(kmsg_since(place, "all 4 switch ports are taken")), 1)
    ksft_false(hca(8).exists())
