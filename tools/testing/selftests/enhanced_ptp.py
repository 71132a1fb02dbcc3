# SPDX-License-Identifier: GPL-2.0-only
"""Time stamps, and linuxptp's programs, over IPoIB."""

import contextlib
import errno
import re
import statistics
import time

from lib import (any_ends, bkg, defer, ends, hca, hold, ksft_eq, ksft_gt, ksft_in,
                 ksft_lt, ksft_true, now, port, timeout, wait_until)
from lib import stamps
from lib.child import child_by_ip, children, errno_of
from lib.ipoib import forget
from lib.stamps import NS, Phc
from lib.traffic import exchange

BOOT = {"ipoib": "ours", "hcas": 2, "hca": "rdma_netdev=own", "needs": "ptp-tools",
        "seconds": 300,
        "partitions": "Default=0x7fff, ipoib : ALL=full;\n"
                      "two=0x0001, ipoib : ALL=full;\n"}

US, MS = 1000, 1000000
# How far clocks may be apart in the end, in ns, as this test reads them, with
# hardware stamps and with software's, which a busy host delays.  ptp4l itself sees
# less: OWN.
HARD, SOFT, OWN = 20 * US, 10 * MS, US
# ptp4l takes the time of clocks with hardware stamps for TAI, and the system's for UTC.
TAI = 37 * NS

PTP4L = ("ptp4l -m -q -4 --logAnnounceInterval -1 --logSyncInterval -3 "
         "--logMinDelayReqInterval -3 --summary_interval 0 --tx_timestamp_timeout 5000 "
         "--first_step_threshold 0.00002")


def speaker(end, *options):
    """ptp4l on an interface, until the block is left."""
    args = f"{PTP4L} -i {end.ifname} --uds_address /run/ptp4l.{end.ifname}"
    return bkg([*args.split(), *options], ns=end.ns)


@contextlib.contextmanager
def system_clock():
    """What is done to the system's clock is undone."""
    def apart():
        return time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()

    was = apart()
    try:
        yield
    finally:
        stamps.set_rate(time.CLOCK_REALTIME)
        time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + was)


def follows(apart, bound, ppm, limit=60):
    """
    A distance between clocks, by a function, becomes small and stays so, for longer
    than their drift would let it.
    """
    def distance():
        # A clock that is read on a busy host may be read late.
        return min(abs(apart()) for _ in range(3))

    ksft_gt(abs(apart()), 2 * NS, "apart at first")
    wait_until(lambda: all(distance() < bound and not hold(0.5) for _ in range(6)),
               limit, "the clock to follow")
    end = now() + 3 * bound / ppm / 1000 + 5
    found = []
    while now() < end:
        hold(0.5)
        found.append(distance())
        # So much a stamp of software may be wrong, once, that the clock believes.
        ksft_lt(found[-1], 2 * bound, f"ns apart, {end - now():.1f} s before the end")
    ksft_lt(statistics.median(found[-len(found) // 3:]), bound, f"ns apart: {found}")


def by_hardware(pair):
    """ptp4l with hardware stamps: the second host's clock follows the first's."""
    clocks = [Phc(end.port.hca) for end in pair]

    def put_back():
        with clocks[1].clock() as number:
            stamps.set_rate(number)
            time.clock_settime_ns(number, clocks[0].now() + 3 * NS)

    put_back()
    defer(put_back)
    with speaker(pair.a, "-H", "--priority1", "100"), \
            speaker(pair.b, "-H", "-s") as slave:
        follows(lambda: clocks[1].ahead() - clocks[0].ahead(), HARD, 50)
    told = re.findall(r"rms +(\d+)", slave.stdout)[-3:]
    ksft_eq(len(told), 3, slave.stdout + slave.stderr)
    for each in told:
        ksft_lt(int(each), OWN, f"ns by its own words: {slave.stdout[-2000:]}")


@timeout(120)
def test_ptp4l():
    """Offset and drift of two HCAs' clocks are removed."""
    by_hardware(ends())


@timeout(120)
def test_ptp4l_children():
    """The same over child interfaces."""
    kids = children(ends(), 0x8001)
    defer(kids.delete)
    by_hardware(kids)


@timeout(200)
def test_ptp4l_software():
    """
    By verbs there are software stamps: the system's clock follows an HCA's, whose
    packets have hardware stamps.
    """
    ppm = 400
    hca(2).plug(rdma_netdev="own", phc_ms=3000, phc_ppb=1000 * ppm)
    hca(3).plug(rdma_netdev="none")
    for number in (2, 3):
        defer(hca(number).unplug)
    pair = any_ends(port(2), port(3), ("h3", "h4"))
    defer(forget, pair)
    clock = Phc(hca(2))
    with system_clock(), speaker(pair.a, "-H", "--priority1", "100"), \
            speaker(pair.b, "-S", "-s", "--pi_proportional_const", "0.1",
                    "--pi_integral_const", "0.005"):
        follows(lambda: clock.ahead() - TAI, SOFT, ppm)


@timeout(60)
def test_phc2sys():
    """The system's clock follows an HCA's."""
    clock = Phc(hca(1))
    with system_clock(), \
            bkg(f"exec phc2sys -m -q -s /dev/ptp{clock.number} -c CLOCK_REALTIME -O -37 "
                "-R 8 --first_step_threshold 0.00002"):
        follows(lambda: clock.ahead() - TAI, 100 * US, 50)


# ---- what ethtool and sockets say --------------------------------------------

HARDWARE_WORDS = ("hardware-transmit", "hardware-receive", "hardware-raw-clock")
SOFTWARE_WORDS = ("software-transmit", "software-receive", "software-system-clock")


def can_stamp(end):
    """What ethtool says that an interface can: the words, and the clock."""
    text = end.ethtool("-T").stdout
    clock = re.search(r"(?:PTP Hardware Clock|Hardware timestamp provider index): (\w+)",
                      text).group(1)
    return [word for word in HARDWARE_WORDS + SOFTWARE_WORDS if word in text], clock


@timeout(60)
def test_ethtool():
    """ethtool -T tells the truth, of interfaces and children in each mode."""
    pair = ends()
    kid = child_by_ip(pair.a, 0x8001)
    defer(kid.delete)
    number = str(Phc(pair.a.port.hca).number)
    for end in (pair.a, kid):
        ksft_eq(can_stamp(end), ([*HARDWARE_WORDS, *SOFTWARE_WORDS], number))
        ksft_in(" all ", end.ethtool("-T").stdout.replace("\n", " ").replace("\t", " "))
    for number in (2, 3):
        hca(number).plug(rdma_netdev="none")
        defer(hca(number).unplug)
    verbs = any_ends(port(2), port(3), ("h3", "h4"))
    defer(forget, verbs)
    kid = child_by_ip(verbs.b, 0x8001)
    for end in (verbs.b, kid):
        ksft_eq(can_stamp(end), ([*SOFTWARE_WORDS], "none"))
        ksft_eq(errno_of(stamps.set_stamps, end, stamps.TX_ON, stamps.FILTER_ALL),
                errno.EOPNOTSUPP)
    # Stamps in software are there all the same.

    def in_software():
        sent, got = stamps.exchange(verbs.b, verbs.a, stamps.SOFTWARE)
        ksft_eq((sent[1], got[1]), (None, None))
        return sent[0] and got[0]

    # The stack begins some time after it was asked to.
    wait_until(in_software, 5, "stamps in software")


@timeout(60)
def test_children_stamps():
    """A child's packets are stamped by its own setting."""
    pair = ends()
    for end in pair:
        stamps.set_stamps(end, stamps.TX_OFF, stamps.FILTER_NONE)
    kids = children(pair, 0x8001)
    defer(kids.delete)
    clocks = [Phc(end.port.hca) for end in pair]
    for kid in kids:
        ksft_eq(stamps.set_stamps(kid, stamps.TX_ON, 1),
                (stamps.TX_ON, stamps.FILTER_ALL))
    for end in pair:
        ksft_eq(stamps.get_stamps(end), (stamps.TX_OFF, stamps.FILTER_NONE))

    def stamped(src, dst):
        sent, got = stamps.exchange(src, dst)
        return bool(sent[1]), bool(got[1])

    for src, dst, clock in ((kids.a, kids.b, clocks), (kids.b, kids.a, clocks[::-1])):
        sent, got = stamps.exchange(src, dst)
        apart = clock[1].ahead() - clock[0].ahead()
        # It crosses the wire at one moment.
        ksft_lt(abs(got[1] - sent[1] - apart), 200 * US)
    ksft_eq(stamped(pair.a, pair.b), (False, False))


@timeout(60)
def test_refused():
    """Settings that are not possible change nothing; the interface works."""
    pair = ends()
    stamps.set_stamps(pair.a, stamps.TX_ON, stamps.FILTER_ALL)
    defer(stamps.set_stamps, pair.a, stamps.TX_OFF, stamps.FILTER_NONE)
    for wish in ((77, stamps.FILTER_ALL), (stamps.TX_ON, 77), (-1, -1)):
        ksft_eq(errno_of(stamps.set_stamps, pair.a, *wish), errno.ERANGE)
    ksft_eq(stamps.get_stamps(pair.a), (stamps.TX_ON, stamps.FILTER_ALL))
    exchange(pair)


@timeout(90)
def test_across_restarts():
    """A setting outlives down and up, and other channels."""
    pair = ends()
    for end in pair:
        stamps.set_stamps(end, stamps.TX_ON, stamps.FILTER_ALL)
        defer(stamps.set_stamps, end, stamps.TX_OFF, stamps.FILTER_NONE)
    for change in (lambda: pair.a.ethtool("-L combined 1"),
                   lambda: pair.a.ethtool("-L combined 2"),
                   lambda: (pair.a.set("down"), pair.a.up())):
        change()
        pair.ready()
        sent, got = stamps.exchange(pair.a, pair.b)
        ksft_true(sent[1] and got[1], "stamps of hardware")
