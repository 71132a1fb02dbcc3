# SPDX-License-Identifier: GPL-2.0-only
"""Our driver on HCAs with an interface of their own for IPoIB, as hfi1's."""

from lib import define, ends, ksft_eq, ksft_gt, ksft_in, settled, tcp_transfer
import enhanced_own
import fabric_netdev_ud
from enhanced_own import MIB, engine, shared

BOOT = {"ipoib": "ours", "hcas": 2, "hca": "rdma_netdev=ud", "seconds": 250,
        "partitions": "Default=0x7fff, ipoib : ALL=full;\n"
                      "two=0x0001, ipoib : ALL=full;\n"}

# As the distribution's driver, and as over the other kind
CASES = {
    "test_traffic": fabric_netdev_ud.test_traffic,
    "test_children": fabric_netdev_ud.test_children,
    "test_restarts": fabric_netdev_ud.test_restarts,
    "test_errors": fabric_netdev_ud.test_errors,
    "test_hot_unplug": fabric_netdev_ud.test_hot_unplug,
    "test_connected": enhanced_own.test_connected,
    "test_mtu": enhanced_own.test_mtu,
    "test_pkey_moves": enhanced_own.test_pkey_moves,
    "test_stuck_queue": enhanced_own.test_stuck_queue,
}


define(globals(), CASES, shared)


def test_engine():
    """The HCA's interface is used; the driver tells what it has no counters for."""
    pair = ends()
    for end in pair:
        ksft_eq(engine(end), "enhanced")
        ksft_in("driver: ib_ipoib", end.ethtool("-i").stdout)
        ksft_in("mcast_joins", end.ethtool("-S").stdout)
        # Not known is not zero.
        for what in ("-l", "-g", "-c"):
            ksft_gt(end.ethtool(what, fail=False).ret, 0)


def test_counters():
    """What such HCAs count is shown."""
    pair = ends()
    settled(*pair)
    before = [end.stats() for end in pair]
    tcp_transfer(pair.a, pair.b, 4 * MIB)
    settled(*pair)
    after = [end.stats() for end in pair]
    ksft_gt(after[0]["tx_bytes"] - before[0]["tx_bytes"], 4 * MIB)
    ksft_gt(after[1]["rx_bytes"] - before[1]["rx_bytes"], 4 * MIB)
