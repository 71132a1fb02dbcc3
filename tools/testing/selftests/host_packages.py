# SPDX-License-Identifier: GPL-2.0-only
"""The Debian packages: built, found good by lintian, installed, and removed."""

import os
import tempfile

from lib import cmd, defer, ksft_eq, ksft_in, ksft_pr, slow, timeout
from common import ROOT

BOOT = "host"
GROUPS = ("users",)
SECONDS = 400

DEBS = os.path.join(ROOT, "tools", "packaging", "debs")
NAMES = ["ib-ipoib-dkms", "ibdevsim-dkms", "ipoibctl"]


def debs(*words):
    """What the script prints, or why it failed."""
    done = cmd([DEBS, *words], fail=False, timeout=slow(1200))
    for line in (done.stdout + done.stderr).splitlines():
        ksft_pr(line)
    ksft_eq(done.ret, 0, " ".join(words))
    return done.stdout


@timeout(1500)
def test_packages():
    """
    What lintian would say fails it; DKMS builds both modules for a kernel, modprobe
    finds them first; nothing is left of them when the packages are removed.
    """
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    debs("build", place.name)
    ksft_eq(sorted(name.partition("_")[0] for name in os.listdir(place.name)
                   if name.endswith(".deb")), NAMES)
    said = debs("try", place.name)
    for module in ("ib_ipoib", "ibdevsim"):
        ksft_in(f"/updates/dkms/{module}.ko", said)
    ksft_in("nothing is left", said)
