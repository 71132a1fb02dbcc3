# SPDX-License-Identifier: GPL-2.0-only
"""make uninstall removes what make install has put there, and nothing else."""

import os
import tempfile

from lib import cmd, defer, ksft_eq, ksft_false, ksft_in, ksft_true, timeout
from common import ROOT

BOOT = "host"
SECONDS = 10

RELEASE, OTHER = "6.1.0-test", "6.1.0-other"
# They stand for what is built, which has to be there: nothing is built here.
BUILT = (f"{RELEASE}/ib_ipoib/ib_ipoib.ko", f"{RELEASE}/eth_ipoib/eth_ipoib.ko",
         "iproute2/link_eipoib.so")
# What others have installed in the same directories
FOREIGN = (f"lib/modules/{RELEASE}/updates/foreign.ko",
           f"lib/modules/{RELEASE}/kernel/ib_ipoib.ko",
           f"lib/modules/{OTHER}/updates/ib_ipoib.ko", "usr/lib/ip/link_foreign.so",
           "usr/local/lib/foreign/foreign.py", "usr/local/sbin/foreign",
           "usr/local/share/man/man8/foreign.8")


def put(path, text=""):
    """A file, with its directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def place(*files):
    """A directory with these files, until the end of the case."""
    top = tempfile.TemporaryDirectory()
    defer(top.cleanup)
    for name in files:
        put(os.path.join(top.name, name))
    return top.name


def listing(top):
    """All files, relative to the directory."""
    return {os.path.relpath(os.path.join(where, name), top)
            for where, dirs, names in os.walk(top)
            for name in names + [each for each in dirs if
                                 os.path.islink(os.path.join(where, each))]}


class Host:
    """A directory that stands for a host's root, with headers of a kernel."""

    def __init__(self, *files):
        self.top, self.headers, self.built = place(*files), place(), place(*BUILT)
        put(f"{self.headers}/include/generated/utsrelease.h",
            f'#define UTS_RELEASE "{RELEASE}"\n')

    def make(self, target, *words, fail=True):
        """A target, without what it needs to be built."""
        return cmd(["make", "-C", ROOT, target, *(
            f"--old-file={name}" for name in ("modules", "ethernet", "iproute2")),
                    f"KDIR={self.headers}", f"OUT={self.built}",
                    f"DESTDIR={self.top}", "IP_LIB_DIR=/usr/lib/ip", *words],
                   fail=fail)

    def files(self):
        return listing(self.top)


@timeout(60)
def test_nothing_left():
    """All that was installed goes, and what Python has left there."""
    host = Host()
    host.make("install")
    there = host.files()
    for name in (f"lib/modules/{RELEASE}/updates/ib_ipoib.ko",
                 f"lib/modules/{RELEASE}/updates/eth_ipoib.ko",
                 "usr/lib/ip/link_eipoib.so", "usr/local/sbin/ipoibctl",
                 "usr/local/lib/ipoibctl/ipoib_swap.py",
                 "usr/local/share/man/man8/ipoibctl.8"):
        ksft_in(name, there)
    put(f"{host.top}/usr/local/lib/ipoibctl/__pycache__/ipoib_swap.pyc")
    host.make("uninstall")
    ksft_eq(host.files(), set())
    ksft_false(os.path.exists(f"{host.top}/lib/modules/{RELEASE}/updates"))
    host.make("uninstall")


@timeout(60)
def test_foreign():
    """Files of others stay, also those of another kernel."""
    host = Host(*FOREIGN)
    host.make("install")
    ksft_true(host.files() > set(FOREIGN))
    host.make("uninstall")
    ksft_eq(host.files(), set(FOREIGN))


@timeout(60)
def test_release():
    """The headers may have gone, and the kernel be another one."""
    host = Host()
    host.make("install")
    os.unlink(f"{host.headers}/include/generated/utsrelease.h")
    before = host.files()
    done = host.make("uninstall", fail=False)
    ksft_in("say RELEASE=", done.stderr)
    ksft_eq((done.ret, host.files()), (2, before))
    host.make("uninstall", f"RELEASE={RELEASE}")
    ksft_eq(host.files(), set())
