# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of the HCAs, as a small user of them in the kernel finds them."""

import contextlib
import errno
import os
import platform
import threading

from lib import (Skip, cmd, defer, exists, fabric, hca, kmsg_since, kmsg_tail,
                 ksft_eq, ksft_false, ksft_ge, ksft_le, ksft_raises, now, port,
                 read, slow, timeout, wait_until, write)
from common import ROOT

BOOT = {"ipoib": "none", "hcas": 1, "fabric": "switch_ports=4",
        "needs": "selftest", "seconds": 80}

RUN = "/sys/kernel/debug/ibds_selftest/run"


def check(where, name):
    """What a check of the module finds at an HCA."""
    if not exists(RUN):
        cmd(["insmod", os.path.join(ROOT, "build", platform.release(),
                                    "selftest", "ibds_selftest.ko")])
        defer(cmd, ["rmmod", "ibds_selftest"])
    write(RUN, f"{where.hca.name} {name}")
    return read(RUN)


@contextlib.contextmanager
def meanwhile(func, *args):
    """What a function returns that runs meanwhile, in a list, once that has ended."""
    found = []
    thread = threading.Thread(target=lambda: found.append(func(*args)), daemon=True)
    thread.start()
    yield found
    thread.join(slow(30))
    ksft_false(thread.is_alive(), "it has not ended")


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


@timeout(60)
def test_slow_state():
    """So do all other changes of state, groups, and what is read of a port."""
    where = port(0)
    for knob, name, least in (("modify_delay_ms", "slow", 4),
                              ("attach_delay_ms", "group", 2)):
        ksft_le(int(check(where, name)), slow(100), name)
        fault = where.fault(knob, 200)
        ksft_ge(int(check(where, name)), 200 * least, knob)
        fault.exec()
    fault = where.fault("query_delay_ms", 400)
    start = now()
    check(where, "slow")
    ksft_ge(now() - start, 0.4, "seconds: the port's attributes are read")
    fault.exec()


# Requests 1 to 3 are receives, 4 to 6 sends: "number:status", in order; behind the
# bar what came later, and receive 7 if the QP is in ERR then.
NORMAL = "1:0 4:0 2:0 5:0 3:0 6:0"
FLUSHED, GENERAL_ERR = 5, 21


def test_completions():
    """A QP's requests complete, once and in order, if no fault concerns them."""
    ksft_eq(check(port(0), "odd"), f"{NORMAL} |")
    ksft_eq(check(port(0), "odd-reset"), "|")
    ksft_eq(check(port(0), "odd-destroy"), "|")
    port(0).fault("cqe_qp", 0xfffff0)
    for knob in ("cqe_send_error", "cqe_recv_error", "cqe_lose", "cqe_twice",
                 "cqe_delay_ms"):
        fault = port(0).fault(knob, 500)
        ksft_eq(check(port(0), "odd"), f"{NORMAL} |", knob)
        fault.exec()


def test_completion_status():
    """They complete with any status, whatever has become of them."""
    where = port(0)
    before = where.counter("cqe_fault")
    for status in range(GENERAL_ERR + 1):
        where.fault("cqe_status", status)
        for knob, start in (("cqe_recv_error", "1:{} 4:0 "),
                            ("cqe_send_error", "1:0 4:{} ")):
            fault = where.fault(knob, 1)
            found = check(where, "odd")
            start = start.format(status or GENERAL_ERR)
            ksft_eq(found[:len(start)], start, f"{knob}, status {status}")
            ksft_eq(where.get(knob), "0", "failures left")
            fault.exec()
            if status == FLUSHED:
                ksft_eq(found, start + NORMAL[len("1:0 4:0 "):] + " |")
            else:
                ksft_eq(found.split()[-1], f"7:{FLUSHED}", "the QP is in ERR")
    ksft_eq(where.counter("cqe_fault") - before, 2 * (GENERAL_ERR + 1))


def test_completions_twice():
    """They come twice, and take up no more of the queues than once."""
    port(0).fault("cqe_twice", 3)
    ksft_eq(check(port(0), "odd"), "1:0 1:0 4:0 4:0 2:0 2:0 5:0 3:0 6:0 |")


def test_completions_exact():
    """A CQ that has room for what was posted, and no more, does not overrun of that."""
    where = port(0)
    before = where.counter("cqe_fault")
    where.fault("cqe_twice", 500)
    ksft_eq(check(where, "odd-exact"), f"{NORMAL} |")
    # The copies of the first four made way for others; then there was no room.
    ksft_eq(where.counter("cqe_fault") - before, 4)
    ksft_eq(where.get("cqe_twice"), "496", "copies left")
    where.clear_faults()
    where.fault("cqe_delay_ms", 500)
    ksft_eq(check(where, "odd-exact"), f"| {NORMAL}")
    ksft_eq(where.strict()["cq_overflow"], 0)


def test_completions_in_order():
    """Those of a QP stay in order when no fault concerns it any more."""
    where = port(0)
    before = where.counter("cqe_fault")
    ksft_eq(check(where, "odd-more"), f"{NORMAL} {NORMAL} |")
    where.fault("cqe_delay_ms", 2000)
    with meanwhile(check, where, "odd-more") as found:
        wait_until(lambda: where.counter("cqe_fault") - before >= 6, 1,
                   "three messages", interval=0.02)
        where.fault("cqe_qp", 0xfffff0)
    ksft_eq(found, [f"| {NORMAL} {NORMAL}"])


@timeout(90)
def test_completions_released():
    """Who waits for completions that are late, or lost, does so until the HCA goes."""
    for knob, value in (("cqe_delay_ms", 600000), ("cqe_lose", 1 << 20)):
        where = fabric.add_hca(5).port()
        check(where, "drain-rc")
        before = where.counter("cqe_fault")
        where.set(knob, value)
        with meanwhile(check, where, "drain-rc") as found:
            wait_until(lambda w=where, b=before: w.counter("cqe_fault") - b >= 8, 5,
                       "a marker behind seven requests", interval=0.02)
            begin = now()
            where.hca.unplug()
        took = now() - begin
        ksft_ge(took, 9, f"seconds: {knob}")
        ksft_le(took, 10 + slow(5), f"seconds: {knob}")
        ksft_eq(found, ["7 flushed"], knob)


def test_completions_lost():
    """They never come."""
    for number, rest in ((1, "4:0 2:0 5:0 3:0 6:0 |"), (2, "2:0 5:0 3:0 6:0 |"),
                         (6, "|")):
        fault = port(0).fault("cqe_lose", number)
        ksft_eq(check(port(0), "odd"), rest)
        ksft_eq(port(0).get("cqe_lose"), "0", "losses left")
        fault.exec()


def test_completions_late():
    """They come later, in order, for a QP that was reset, too, not for none."""
    before = port(0).counter("cqe_reset")
    port(0).fault("cqe_delay_ms", 500)
    for name, found, reset in (("odd", f"| {NORMAL}", 0),
                               ("odd-reset", f"| {NORMAL}", 6),
                               ("odd-destroy", "|", 6)):
        ksft_eq(check(port(0), name), found, name)
        ksft_eq(port(0).counter("cqe_reset") - before, reset, name)
    port(0).fault("cqe_twice", 1)
    ksft_eq(check(port(0), "odd"), f"| 1:0 {NORMAL}")
    ksft_eq(port(0).strict()["cq_overflow"], 0)


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
