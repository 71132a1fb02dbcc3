# SPDX-License-Identifier: GPL-2.0-only
"""Network namespaces, entered by the test's own process.

A socket belongs to the namespace it was made in, so one python process can
hold both ends of a conversation: Netns.inside() moves the calling thread for
the length of a block.  That saves a process per packet sender, and with it
most of the time a test takes on an emulated CPU.
"""

import contextlib
import ctypes
import os
import socket
import threading

from .ksft import Failed
from .utils import cmd, exists, ip, read, write

CLONE_NEWNET = 0x40000000
MNT_DETACH = 2
SYS_MOUNTS = "/run/ipoib-test"

_libc = ctypes.CDLL(None, use_errno=True)
_known = {}
_thread = threading.local()


def _check(status, what):
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class Netns:
    """A network namespace; name None is the one the test runs in."""

    def __init__(self, name):
        self.name = name
        self._fd = None

    def __repr__(self):
        return f"Netns({self.name})"

    def add(self):
        ip(["netns", "add", self.name])
        _known[self.name] = self
        self._fd = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        with self.inside():
            # No duplicate address detection: it only costs time here.
            for conf in ("all", "default"):
                self.sysctl(f"net.ipv6.conf.{conf}.accept_dad", 0)
                self.sysctl(f"net.ipv6.conf.{conf}.router_solicitations", 0)
            self.sysctl("net.ipv4.ping_group_range", "0 2147483647")
        ip("link set lo up", ns=self)
        return self

    def delete(self):
        """Remove it; devices that have another home go there."""
        where = f"{SYS_MOUNTS}/{self.name}"
        if exists(f"{where}/class"):
            _libc.umount2(where.encode(), MNT_DETACH)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        _known.pop(self.name, None)
        ip(["netns", "del", self.name], fail=False)

    @contextlib.contextmanager
    def inside(self):
        """Run the block with the calling thread in this namespace."""
        if not self.name:
            yield self
            return
        if self._fd is None:
            self._fd = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _check(_libc.setns(self._fd, CLONE_NEWNET), "setns")
            try:
                yield self
            finally:
                _check(_libc.setns(back, CLONE_NEWNET), "setns back")
        finally:
            os.close(back)

    def socket(self, *args, **kwargs):
        with self.inside():
            return socket.socket(*args, **kwargs)

    def ip(self, args, **kwargs):
        return ip(args, ns=self, **kwargs)

    def cmd(self, args, **kwargs):
        return cmd(args, ns=self, **kwargs)

    def sysctl(self, name, value=None):
        """Read or write a setting under net."""
        path = "/proc/sys/" + name.replace(".", "/")
        with self.inside():
            if value is None:
                return read(path)
            write(path, value)
            return value

    def ifindex(self, name):
        with self.inside():
            return socket.if_nametoindex(name)

    def sys(self, path):
        """Where @path of sysfs is, as this namespace sees it."""
        if not self.name:
            return "/sys/" + path
        where = f"{SYS_MOUNTS}/{self.name}"
        if not exists(f"{where}/class"):
            os.makedirs(where, exist_ok=True)
            with self.inside():
                _check(_libc.mount(b"sysfs", where.encode(), b"sysfs", 0,
                                   None), "mount sysfs")
        return f"{where}/{path}"

    def links(self):
        """name -> what "ip -d -s -j link" says."""
        return {link["ifname"]: link
                for link in ip("link show", ns=self, json_out=True)}

    def link(self, name):
        found = ip(["link", "show", "dev", name], ns=self, json_out=True)
        if not found:
            raise Failed(f"no interface {name} in {self.name}")
        return found[0]


ROOT = Netns(None)


def cleanup_all():
    """Remove the namespaces that are left."""
    for space in list(_known.values()):
        space.delete()


def known():
    return dict(_known)
