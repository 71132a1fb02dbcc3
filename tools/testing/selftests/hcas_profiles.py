# SPDX-License-Identifier: GPL-2.0-only
"""HCAs with the limits and habits of those that exist: all goes over each."""

from lib import (Stream, define, ends_with, hca, ksft_eq, ksft_gt, ping, slow,
                 timeout, wait_until, write)
from lib.child import children
from lib.ipoib import forget
from lib.traffic import exchange

BOOT = {"hcas": 1, "seconds": 150}

MIB = 1 << 20


def to_connected(pair):
    """Both ends in connected mode; their connections are made by traffic."""
    for end in pair:
        end.set("down")
    for end in pair:
        write(end.sys("mode"), "connected\n")
        end.set_mtu(65520)
    for end in pair:
        end.up()
    pair.ready()


def restarts(pair):
    """The interfaces go down and up, and the cables out and in, in a stream."""
    stream = Stream(pair.a, pair.b, rate=2 * MIB)
    for end in pair:
        end.set("down")
        end.up()
        end.wait_carrier()
        stream.wait_progress(20)
        end.port.link(False)
        end.wait_no_carrier()
        end.port.link(True)
        end.wait_carrier()
        stream.wait_progress(20)
    stream.finish()
    # A path that is asked for again, or a connection made anew, may cost what was
    # on its way.
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, s.mtu() - 28,
                                             limit=slow(1)), 20,
                   f"an echo of {src.mtu() - 28} bytes to {dst}")


def lives_on(caps):
    """An interface's life on two HCAs of a kind, down to the unplug."""
    pair = ends_with(**caps)
    exchange(pair)
    exchange(children(pair, 0x8001))
    restarts(pair)
    to_connected(pair)
    exchange(pair)
    rc = [qp for qp in pair.a.port.hca.data_qps() if qp.type == "RC"]
    ksft_gt(len(rc), 0, "RC QPs")
    restarts(pair)
    exchange(pair)
    for end in pair:
        end.port.no_mistakes()
    for number in (2, 3):
        hca(number).unplug()
    forget(pair)


CASES = {
    "test_mlx4": {"profile": "mlx4"},
    "test_mlx5": {"profile": "mlx5"},
    "test_mthca": {"profile": "mthca"},
    "test_qib": {"profile": "qib"},
    "test_hfi1": {"profile": "hfi1"},
    "test_worst": {"profile": "worst"},
    # Completions in a tasklet, as some HCAs' drivers have it.
    "test_softirq": {"comp_ctx": "softirq"},
}
define(globals(), CASES, timeout(180)(lives_on))


def test_keys():
    """A profile sets keys, and other keys change them wherever they stand."""
    for order in (("profile=qib", "pkeys=16"), ("pkeys=16", "profile=qib")):
        write("/sys/bus/ibdevsim/new_device", f"7 {','.join(order)}\n")
        caps = hca(7).caps()
        hca(7).unplug()
        ksft_eq((caps["profile"], caps["gids"], caps["comp_ctx"],
                 caps["reset_purge"], caps["pkeys"]), ("qib", 5, 1, 0, 16))
