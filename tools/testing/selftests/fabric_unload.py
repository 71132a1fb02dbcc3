#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The fabric's module goes while packets are on their way."""

import itertools
import os
import signal
import struct

from lib import defer, hca, main, port, sm, timeout, wait_until
from lib.teardown import FABRIC, unload
from lib.umad import Agent

BOOT = {"ipoib": "none", "hcas": 2, "group": "unload", "seconds": 15}

PERF_MGMT, PERF_VERSION, GET, PORT_COUNTERS = 4, 1, 1, 0x12


def flood(src, lid):
    """A process that sends MADs to a port without a pause; what ends it."""
    head = bytes((1, PERF_MGMT, PERF_VERSION, GET)) + bytes(4)
    rest = struct.pack(">H", PORT_COUNTERS) + bytes(238)
    pid = os.fork()
    if not pid:
        try:
            with Agent(src, PERF_MGMT, PERF_VERSION) as agent:
                for tid in itertools.count(1):
                    agent.send(lid, head + struct.pack(">Q", tid) + rest)
        finally:
            os._exit(1)

    def stop():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    return defer(stop)


@timeout(60)
def test_packets_on_their_way():
    """It is unloaded while its delay line empties itself into the switch."""
    lid = port(1).lid()
    sm.stop()
    port(0).set("mad_delay_ms", 700)
    before = port(0).counter("mad_tx")
    sending = flood(port(0), lid)
    wait_until(lambda: port(0).counter("mad_tx") > before + 300, 10,
               "packets on their way")
    sending.exec()
    for number in (1, 0):
        hca(number).unplug()
    unload(FABRIC)


if __name__ == "__main__":
    main(globals())
