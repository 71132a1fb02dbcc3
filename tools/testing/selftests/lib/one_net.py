# SPDX-License-Identifier: GPL-2.0-only
"""For protocols of the kernel that know the first network only."""

from .ipoib import ends, iface_of
from .ksft import defer
from .netns import ROOT
from .traffic import Stream
from .utils import cmd, ip, read, wait_until, write


class OneNet:
    """
    Two hosts in the first network, whose protocols know no other one.  By
    rules that come before the table "local", packets between their addresses
    leave by one port and enter by the other; else they would stay in the host.
    The interfaces @names are used, or those of two ports of the fabric.
    """

    def __init__(self, names=None):
        if not names:
            pair = ends()
            pair.drop()
            names = [iface_of(end.port)[1] for end in pair]
        self.names = names
        self.addresses = ["10.7.0.1", "10.7.0.2"]
        first, second = self.names
        for name, address in zip(self.names, self.addresses):
            ip(f"addr add {address}/24 dev {name}")
            defer(ip, f"addr flush dev {name}")
            ip(f"link set {name} up")
            self._sysctl(name, "accept_local", 1)
            self._sysctl(name, "rp_filter", 0)
        self._sysctl("all", "rp_filter", 0)
        self._sysctl("all", "arp_ignore", 1)
        self._way(first, *self.addresses, 71)
        self._way(second, *reversed(self.addresses), 72)
        ip("rule add pref 100 lookup local")
        ip("rule del pref 0")
        defer(ip, "rule del pref 100")
        defer(ip, "rule add pref 0 lookup local")
        wait_until(lambda: cmd(["ping", "-c", "1", "-W", "1", "-I",
                                *self.addresses], fail=False).ret == 0, 20,
                   "a reply")

    def stream(self, **how):
        """A Stream from the first host to the second one."""
        return Stream(None, None, self.addresses[1], src_ns=ROOT, dst_ns=ROOT,
                      source=self.addresses[0], **how)

    @staticmethod
    def _sysctl(name, what, value):
        path = f"/proc/sys/net/ipv4/conf/{name}/{what}"
        defer(write, path, read(path))
        write(path, value)

    @staticmethod
    def _way(name, source, target, table):
        ip(f"route add {target} dev {name} src {source} table {table}")
        for pref, which in ((table, f"iif lo from {source}"),
                            (table + 10, f"oif {name}")):
            ip(f"rule add pref {pref} {which} to {target} lookup {table}")
            defer(ip, f"rule del pref {pref}")
