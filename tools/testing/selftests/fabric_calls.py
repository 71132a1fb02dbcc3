# SPDX-License-Identifier: GPL-2.0-only
"""Who calls the verbs of the HCAs is recorded, and calls of one place fail."""

import errno

from lib import (Skip, ends, fabric, ksft_eq, ksft_false, ksft_ge, ksft_in,
                 ksft_pr, ksft_raises, timeout, wait_until, write)
from lib.child import add_link
from lib.fabric import CALLS, FAIL_CALL, ONLY_RECORDED
from lib.utils import CmdError, ip, module_range, read, slow

BOOT = {"hcas": 2, "seconds": 30}

CHILD = "calls0"


def add(end):
    """Make a child and bring it up; raises CmdError."""
    add_link(end, CHILD, "pkey 0x800e")
    ip(f"link set {CHILD} up", ns=end.ns, timeout=slow(30))


def delete(end):
    """It is gone, whether or not it was there."""
    ip(f"link del {CHILD}", ns=end.ns, fail=False, timeout=slow(30))
    ksft_false(ip("link show", ns=end.ns).stdout.count(CHILD), "children")


def cycle(end):
    """A child's whole life."""
    add(end)
    delete(end)


def recorded(end):
    """The calls of a child's life."""
    where = end.port.hca
    before = len(where.data_qps("UD"))
    fabric.record(module_range())
    cycle(end)
    wait_until(lambda: len(where.data_qps("UD")) == before, 5, "QPs gone")
    fabric.record(None)
    return fabric.calls()


@timeout(60)
def test_record():
    """The places that make a child's objects are found, each one once."""
    end = ends().a
    calls = recorded(end)
    for call in calls:
        ksft_pr(f"{call.name} {call.symbol} {call.count}")
    start, stop = module_range()
    ksft_eq([call for call in calls if not start <= call.address < stop], [])
    ksft_eq(len({call[:2] for call in calls}), len(calls), "lines")
    names = {call.name for call in calls}
    for name in ("create_qp", "modify_qp", "destroy_qp"):
        ksft_in(name, names)
    # It is over: nothing is added.
    cycle(end)
    ksft_eq(fabric.calls(), calls, "after the end")
    # Another range has no calls, and forgets those of the first one.
    fabric.record((1, 2))
    cycle(end)
    ksft_eq(fabric.calls(), [])


@timeout(90)
def test_fail():
    """Calls of one place fail, and then no more; other HCAs' do not."""
    pair = ends()
    end = pair.a
    place = [call for call in recorded(end) if call.name == "create_qp"][0]
    with fabric.fail("create_qp", place.address, times=0) as fault:
        with ksft_raises(CmdError):
            add(end)
        delete(end)
        ksft_ge(fault.failed()[1], 1, "calls that failed")
        ksft_eq(fault.failed()[0], 0, "left of all")
    ksft_eq(read(FAIL_CALL), "off")
    cycle(end)
    # From other places, or on another HCA
    with fabric.fail("create_qp", place.address + 1, times=1) as fault:
        cycle(end)
        ksft_eq(fault.failed(), (1, 0), "another place")
    with fabric.fail("create_qp", place.address, times=1,
                     hca=pair.b.port.hca) as fault:
        cycle(end)
        ksft_eq(fault.failed(), (1, 0), "another HCA")
    # As many as were asked for, from anywhere in the range: a driver may try
    # again with less
    with fabric.fail("create_qp", times=1, errno=errno.ENOSPC,
                     hca=end.port.hca) as fault:
        try:
            add(end)
        except CmdError as error:
            ksft_pr(error)
        delete(end)
        ksft_eq(fault.failed(), (0, 1))
        cycle(end)
        ksft_eq(read(FAIL_CALL), f"create_qp any left 0 failed 1 errno "
                f"{errno.ENOSPC}")
    pair.ready()


@timeout(90)
def test_memory():
    """Allocations are recorded, and one place gets no memory."""
    end = ends().a
    calls = recorded(end)
    if not fabric.sees_memory():
        ksft_eq(refused(FAIL_CALL, "memory any 1"), errno.EOPNOTSUPP)
        ksft_eq(read(FAIL_CALL), "off")
        raise Skip("the kernel does not tell of allocations")
    places = [call for call in calls if call.name == "memory"]
    ksft_ge(len(places), 3, "places that allocate")
    with fabric.fail("memory", places[0].address, times=0) as fault:
        try:
            add(end)
        except CmdError as error:
            ksft_pr(error)
        delete(end)
        ksft_ge(fault.failed()[1], 1, "allocations that failed")
    cycle(end)


def refused(path, line):
    """The error of a line that is written."""
    with ksft_raises(OSError, line) as what:
        write(path, line)
    return what.error.errno


def test_refused():
    """Lines that make no sense change nothing."""
    fabric.record((0x1000, 0x2000))
    for line in ("on", "1000", "1000 0x", "2000 1000", "1000 1000",
                 "1000 2000 3000", "1000 -1", "wx yz"):
        ksft_eq(refused(CALLS, line), errno.EINVAL, line)
    with fabric.fail("create_qp", 0x1800, times=3):
        for line in ("on", "create_qp", "create_qp 1800", "eat_qp 1800 1",
                     "create_qp 2000 1", "create_qp 0 1", "create_qp x 1",
                     "create_qp any -1", "create_qp any x",
                     "create_qp any 1 0", "create_qp any 1 4096",
                     "create_qp any 1 -12", "create_qp any 1 12 mlx5_0",
                     "create_qp any 1 12 ibdevsim1x",
                     "create_qp any 1 12 ibdevsim1 1",
                     "memory any 1 12 ibdevsim1"):
            ksft_eq(refused(FAIL_CALL, line), errno.EINVAL, line)
        for name in ONLY_RECORDED:
            ksft_eq(refused(FAIL_CALL, f"{name} any 1"), errno.EINVAL, name)
        ksft_eq(read(FAIL_CALL),
                "create_qp 0x1800 left 3 failed 0 errno 12")
    ksft_eq(read(FAIL_CALL), "off")
    ksft_eq(fabric.failed(), (0, 0))
