# SPDX-License-Identifier: GPL-2.0-only
"""Trace events, in a tracing instance of the case's own."""

import glob
import os
import re

from .utils import exists, read, write

TRACING = "/sys/kernel/tracing"


class Tracer:
    """Records events while in a block."""

    def __init__(self, *events, name="ipoib-test", size_kb=4096):
        """
        @events: "system:event", "system:*", or with a filter a pair;
        @size_kb: room for what each CPU records.
        """
        self.dir = f"{TRACING}/instances/{name}"
        self.events = events
        self.size_kb = size_kb

    def __enter__(self):
        if exists(self.dir):
            os.rmdir(self.dir)
        os.mkdir(self.dir)
        write(f"{self.dir}/buffer_size_kb", self.size_kb)
        for event in self.events:
            event, rule = event if isinstance(event, tuple) else (event, None)
            where = f"{self.dir}/events/" + \
                event.replace(":*", "").replace(":", "/")
            if rule:
                write(f"{where}/filter", rule)
            write(f"{where}/enable", 1)
        return self

    def lines(self):
        return [line for line in read(f"{self.dir}/trace").splitlines()
                if line and not line.startswith("#")]

    def overruns(self):
        """Events that found no room, by CPU."""
        return [int(re.search(r"^overrun: (\d+)", read(path), re.M).group(1))
                for path in glob.glob(f"{self.dir}/per_cpu/cpu*/stats")]

    def clear(self):
        # Truncating it is what empties the buffer.
        with open(f"{self.dir}/trace", "w", encoding="ascii"):
            pass

    def __exit__(self, *_exc):
        write(f"{self.dir}/events/enable", 0)
        os.rmdir(self.dir)


def events_of(system):
    """The names of a system's events."""
    base = f"{TRACING}/events/{system}"
    if not exists(base):
        return []
    return sorted(name for name in os.listdir(base)
                  if os.path.isdir(f"{base}/{name}"))
