# SPDX-License-Identifier: GPL-2.0-only
"""rdma-core's own tests of libibverbs and librdmacm, on the fabric."""

import glob
import gzip
import os
import re
import shutil
import signal
import time

from lib import (Failed, bkg, cmd, defer, hca, ksft_eq, ksft_ge, ksft_in, ksft_le,
                 ksft_pr, now, read, slow, timeout)
from lib.one_net import OneNet
from lib.uverbs import objects

BOOT = {"hcas": 2, "fabric": "provider=hfi1", "needs": "verbs-tools",
        "mem": 1536, "seconds": 90}
GROUPS = ("verbs",)

# Debian's package has them, each compressed on its own.
PACKAGE = "python3-pyverbs"
SOURCE = "/usr/share/doc/rdma-core/tests"
TESTS = "/run/pyverbs/tests"
VERSION = "44.0"

# So many pass, but for those of seven that draw a QP's extended attributes by lot
# and got one that hfi1verbs does not know: they are skipped.
PASSED, DRAW = 62, 7
DRAWN = re.compile(r"Create (RC|UD) QP with(out)? extended attrs is not supported")

# What these tests say when they are skipped: how many say so, and why.
SKIPPED = {
    # Other HCAs' own verbs
    "Can not run the test over non MLX5 device": (62, "mlx5"),
    "Could not open mlx5 context (This is not an MLX5 device)": (14, "mlx5"),
    "Can not run the test over non EFA device": (16, "EFA"),
    "PCI device must be passed by the user": (2, "VFIO of mlx5"),
    "cuda-python 12.0+ must be installed to run CUDA tests": (2, "a GPU"),
    "Allocating dmabuf is not supported by /dev/dri/renderD128":
        (10, "a GPU"),
    # Ethernet
    "Must be run by root on Ethernet link layer": (6, "Ethernet"),
    "To Create RAW QP must be done by root on Ethernet link layer":
        (5, "Ethernet"),
    "Link layer of port=1 is InfiniBand , skip RoCE test": (1, "Ethernet"),
    "No supported port is up, can't run traffic": (1, "Ethernet"),
    # What rdma-core's hfi1verbs does not call
    "Extended QP is not supported on this device": (19, "hfi1verbs"),
    "Create Extended CQ is not supported": (8, "hfi1verbs"),
    "Extended CQ is not supported": (4, "hfi1verbs"),
    "Device memory is not supported": (14, "hfi1verbs"),
    "Create XRCD is not supported": (7, "hfi1verbs"),
    "Create MW is not supported": (6, "hfi1verbs"),
    "Create memory window of type 3 is not supported": (1, "hfi1verbs"),
    "Parent Domain is not supported on this device": (5, "hfi1verbs"),
    "Rereg MR is not supported (Failed to rereg MR: IBV_REREG_MR_ERR_CMD. "
    "Errno: 95, Operation not supported)": (4, "hfi1verbs"),
    "Query device real time is not supported": (1, "hfi1verbs"),
    # What the simulator does not have
    "ODP is not supported - No ODP caps": (14, "on-demand paging"),
    "There are no huge pages of size 2M allocated": (3, "on-demand paging"),
    "Create UC QP without attrs is not supported": (2, "UC"),
    "Create UC QP without extended attrs is not supported": (1, "UC"),
    "Create UC QP with extended attrs is not supported": (1, "UC"),
    "Create UC QP with attrs is not supported": (1, "UC"),
    # It has as many GIDs as its table has places.
    "All gid indices populated, cannot check bad flow": (1, "GIDs"),
}
# The debug kernel has no huge pages at all.
SAME = {"Huge pages of size 2M is not supported in this platform":
        "There are no huge pages of size 2M allocated"}
EXPECTED = {"ok": PASSED, **{reason: number for reason, (number, _)
                             in SKIPPED.items()}}


def unpack():
    """The tests as they are in rdma-core."""
    os.makedirs(TESTS)
    defer(shutil.rmtree, TESTS)
    for path in glob.glob(f"{SOURCE}/*.py*"):
        name = os.path.basename(path)
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "rb") as packed, \
             open(f"{TESTS}/{name.removesuffix('.gz')}", "wb") as plain:
            shutil.copyfileobj(packed, plain)


def verdicts(text):
    """
    How often each verdict of a test, "ok" or why it was skipped, stands.  Those
    that drew something are "ok"; and how many they are.
    """
    found = {}
    for quoted, verdict in re.findall(
            r"(?:^|\.\.\. )(?:skipped (['\"])(.*)\1|ok$)", text, re.M):
        what = verdict if quoted and not DRAWN.match(verdict) else "ok"
        what = SAME.get(what, what)
        found[what] = found.get(what, 0) + 1
    return found, len(DRAWN.findall(text))


def run_suite(limit):
    """
    Its status and what it wrote.  @limit is for each test: how long all of them take
    depends on what else the machine does.
    """
    log = f"{TESTS}/log"
    with open(log, "w", encoding="ascii"):
        pass
    proc = bkg(f"exec /usr/bin/python3 -u {TESTS}/run_tests.py -v > /dev/null 2> {log}")
    defer(proc.stop)
    moved = said = now()
    count = 0
    while proc.proc.poll() is None:
        if read(log).count(" ... ") != count:
            moved, count = now(), read(log).count(" ... ")
        if now() - moved > limit:
            raise Failed(f"no end of a test for {limit:.0f} s: {read(log)[-500:]}")
        if now() - said > 60:
            said = now()
            ksft_pr(f"{count} tests so far")
        time.sleep(0.5)
    return proc.proc.returncode, read(log)


@timeout(1800)
def test_suite():
    """All that can run passes, beside IPoIB on the same ports."""
    version = cmd(["dpkg-query", "-W", "-f", "${Version}", PACKAGE]).stdout
    ksft_eq(version.split("-")[0], VERSION, "version of the tests")
    unpack()
    net = OneNet()
    with bkg(["ping", "-q", "-i", "0.01", "-s", "1400", "-I", *net.addresses],
             exit_wait=True) as ping:
        status, text = run_suite(slow(100))
        ping.proc.send_signal(signal.SIGINT)
    last = text[-4000:]
    ksft_eq(status, 0, last)
    found, drawn = verdicts(text)
    ksft_eq({what: (found.get(what, 0), EXPECTED.get(what, 0))
             for what in {*found, *EXPECTED}
             if found.get(what, 0) != EXPECTED.get(what, 0)}, {},
            "verdicts, and how many were expected")
    ksft_in(f"Ran {sum(found.values())} tests", last)
    ksft_le(drawn, DRAW, "drew attributes that hfi1verbs does not know")
    ksft_pr(f"{found['ok'] - drawn} passed of {sum(found.values())}")
    sent, got = map(int, re.search(r"(\d+) packets transmitted, (\d+) received",
                                   ping.stdout).groups())
    # Those on their way when it was stopped; it says how many that were at most.
    flying = re.search(r"pipe (\d+)", ping.stdout)
    ksft_le(sent - got, int(flying[1]) if flying else 1, "echoes without reply")
    ksft_ge(sent, 200, "echoes")
    for number in (0, 1):
        ksft_eq(set(objects(number).values()), {0}, f"left at {hca(number)}")
