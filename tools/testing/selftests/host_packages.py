# SPDX-License-Identifier: GPL-2.0-only
"""The packages: built, found good by lintian or rpmlint, installed, and removed."""

import os
import re
import tempfile

from lib import cmd, defer, ksft_eq, ksft_in, ksft_pr, slow, timeout
from common import ROOT

BOOT = "host"
GROUPS = ("packages",)
SECONDS = 500

NAMES = ["eth-ipoib-dkms", "ib-ipoib-dkms", "ibdevsim-dkms", "ipoibctl"]


def script(*words):
    """What a script of tools/packaging prints, or why it failed."""
    done = cmd([os.path.join(ROOT, "tools", "packaging", words[0]), *words[1:]],
               fail=False, timeout=slow(1200))
    for line in (done.stdout + done.stderr).splitlines():
        ksft_pr(line)
    ksft_eq(done.ret, 0, " ".join(words))
    return done.stdout


def packages(kind, end, plugin):
    """Built, tried and removed; nothing is to be said of them."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    script(kind, "build", place.name)
    ksft_eq(sorted(re.sub(r"[-_][0-9].*", "", name)
                   for name in os.listdir(place.name) if name.endswith(end)), [*NAMES, plugin])
    said = script(kind, "try", place.name)
    for module in ("ib_ipoib", "eth_ipoib", "ibdevsim"):
        ksft_in(f"/updates/dkms/{module}.ko", said)
    ksft_in("nothing is left", said)


@timeout(1500)
def test_debs():
    """
    What lintian would say fails it; DKMS builds both modules for a kernel, modprobe
    finds them first; nothing is left of them when the packages are removed.
    """
    packages("debs", ".deb", "iproute2-eipoib")


@timeout(1500)
def test_source():
    """
    The guide's commands: make KDIR=/lib/modules/$(uname -r)/build, make install, make
    uninstall.  No file is left.
    """
    said = script("debs", "source")
    ksft_in("/updates/ib_ipoib.ko", said)
    ksft_in("nothing is left", said)


@timeout(1500)
def test_rpms():
    """The same as RPMs, with rpmlint."""
    packages("rpms", ".rpm", "iproute-eipoib")
