# SPDX-License-Identifier: GPL-2.0-only
"""The HCA's own interface for IPoIB, under the distribution's driver: as hfi1's."""

from lib import ends, ksft_eq, ksft_false, ksft_gt, tcp_transfer, timeout
from lib.child import children
from lib.traffic import exchange, restarts
from fabric_netdev import MIB, recovers, unplugged

BOOT = {"ipoib": "stock", "hcas": 2, "hca": "rdma_netdev=ud", "seconds": 90,
        "partitions": "Default=0x7fff, ipoib : ALL=full;\n"
                      "two=0x0001, ipoib : ALL=full;\n"}


def channels(end):
    """The QPs of its rings: those that send, beside the one of IPoIB."""
    return [qp for qp in end.port.hca.data_qps() if qp.type == "UD"]


@timeout(90)
def test_traffic():
    """TCP, UDP, multicast, both families; several queues, no offloads."""
    pair = ends()
    exchange(pair)
    ksft_gt(len(channels(pair.a)), 4, "QPs")
    ksft_gt(pair.a.queues(), 1, "transmit queues")
    ksft_false(pair.a.feature("tx-tcp-segmentation"))
    # The distribution's driver does not show what such HCAs count.
    for end in pair:
        end.port.no_mistakes()


@timeout(90)
def test_children():
    """Children have rings of their own."""
    pair = ends()
    before = len(channels(pair.a))
    kids = children(pair, 0x8001)
    ksft_gt(len(channels(pair.a)), before + 1)
    for src, dst in ((kids.a, kids.b), (kids.b, kids.a)):
        tcp_transfer(src, dst, 2 * MIB)
    kids.delete()
    ksft_eq(len(channels(pair.a)), before)


@timeout(120)
def test_restarts():
    """The interfaces go down and up under traffic."""
    restarts(ends())


@timeout(60)
def test_errors():
    """Sends that fail, and that cannot be posted."""
    recovers(ends(), ("send_post_error", 3), ("send_error", 1))


@timeout(120)
def test_hot_unplug():
    """HCAs are pulled under traffic."""
    for _ in range(2):
        unplugged("ud")
