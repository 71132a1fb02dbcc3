# SPDX-License-Identifier: GPL-2.0-only
"""The fabric's module goes while packets are on their way."""

from lib import hca, port, sm, timeout, wait_until
from lib.teardown import FABRIC, unload
from lib.umad import ask_counters

BOOT = {"ipoib": "none", "hcas": 2, "group": "unload", "seconds": 15}


@timeout(60)
def test_packets_on_their_way():
    """It is unloaded while its delay line empties itself into the switch."""
    lid = port(1).lid()
    sm.stop()
    port(0).set("mad_delay_ms", 700)
    before = port(0).counter("mad_tx")
    sending = ask_counters(port(0), lid)
    wait_until(lambda: port(0).counter("mad_tx") > before + 300, 10,
               "packets on their way")
    sending.exec()
    for number in (1, 0):
        hca(number).unplug()
    unload(FABRIC)
