# SPDX-License-Identifier: GPL-2.0-only
"""A host with nothing but the packages installed, over several starts."""

import os
import subprocess
import tempfile

from lib import cmd, defer, host_installed, ksft_eq, ksft_pr, slow, timeout
from common import ROOT, RUN, TESTING, VM

BOOT = "host"
GROUPS = ("packages",)
SECONDS = 600

RUN_TESTS = os.path.join(TESTING, "selftests", "run_tests")
DISK_BYTES = 2 << 30


def packages():
    """A Debian in which the packages of this tree and then a kernel are installed."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    cmd([os.path.join(ROOT, "tools", "packaging", "debs"), "build", place.name],
        timeout=slow(600))
    return cmd([os.path.join(VM, "image"), "install", "6.12", place.name],
               timeout=slow(1200)).stdout.strip()


def empty_disk():
    with tempfile.NamedTemporaryFile(delete=False) as file:
        defer(os.unlink, file.name)
        file.truncate(DISK_BYTES)
    cmd(["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1", file.name])
    return file.name


def machine(*words):
    """What a virtual machine says, which has to end well: words of vm/run."""
    done = subprocess.run([RUN, *words], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    ksft_pr(done.stdout)
    ksft_eq(done.returncode, 0, words[-1])
    return done.stdout


def start(image, disk, *cases):
    """The host starts, with what was written before; cases of host_installed run."""
    names = [f"test_{case}" for case in cases]
    missing = [name for name in names if not hasattr(host_installed, name)]
    ksft_eq(missing, [], "no case")
    machine("--image", image, "--disk", disk, "--ipoib", "none", "--known", "stock",
            "--hcas", "3", "--mem", "1536", "--timeout", str(int(slow(900))), "--",
            RUN_TESTS, "lib.host_installed:" + ",".join(names))


@timeout(2400)
def test_reboot():
    """
    apt-get has installed the packages, and a kernel after them.  Profiles of
    NetworkManager and networkd come up after a reboot; the modules are exchanged, and
    reloaded; without the package the kernel's own module takes over.
    """
    image, disk = packages(), empty_disk()
    start(image, disk, "configure")
    start(image, disk, "profiles", "swap", "reload", "remove")
    start(image, disk, "kernels")
