# SPDX-License-Identifier: GPL-2.0-only
"""The driver's netlink family, asked and listened to by ipoibctl's client."""

import os
import queue
import sys
import threading

from common import ROOT
from .ksft import defer
from .utils import wait_until

sys.path.insert(0, os.path.join(ROOT, "tools", "ipoibctl"))

import ipoib_netlink as nl  # noqa: E402  pylint: disable=wrong-import-position


def family(end, **options):
    """The family in an interface's namespace."""
    with end.ns.inside():
        found = nl.Family(**options)
    defer(found.close)
    return found


def ethernet(host, **options):
    """The family of eth_ipoib, in an Ethernet interface's namespace."""
    with host.ns.inside():
        found = nl.Ethernet(**options)
    defer(found.close)
    return found


def cause(end):
    """Why it has no carrier."""
    return family(end).get("dev-get", end.ifindex(), dump=False)[0]


def wait_cause(end, wanted, limit=15):
    """Until that is why."""
    wait_until(lambda: cause(end)["cause"] == wanted, limit, wanted)
    return cause(end)


class Watch:
    """Notifications in an interface's namespace, since this was made."""

    def __init__(self, end):
        self.end = end
        self.family = family(end)
        self.family.listen("events", "objects")
        self.come = queue.SimpleQueue()
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for event in self.family.events():
                self.come.put(event)
        except (OSError, ValueError):
            pass

    def events(self):
        """All that have come."""
        while not self.come.empty():
            self.seen.append(self.come.get())
        return self.seen

    def of(self, command, **wanted):
        """Those of a command, about our interface, with these attributes."""
        return [about for name, about in self.events() if name == command and
                about["ifindex"] == self.end.ifindex() and
                all(about.get(key.replace("_", "-")) == value
                    for key, value in wanted.items())]

    def wait(self, command, limit=15, **wanted):
        """The first such one."""
        wait_until(lambda: self.of(command, **wanted), limit,
                   f"{command} {wanted}")
        return self.of(command, **wanted)[0]
