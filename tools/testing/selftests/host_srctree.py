# SPDX-License-Identifier: GPL-2.0-only
"""Drivers, fabric and tests in the newest kernel's own tree, as patches."""

import os
import re
import shutil
import tempfile

from lib import cmd, defer, ksft_eq, ksft_in, ksft_true, read, slow, timeout
from common import ROOT, VM, built, kernels
from host_install import machine

BOOT = "host"
GROUPS = ("packages",)
SECONDS = 600

DRIVER = "drivers/infiniband/ulp/ipoib"
ETHERNET = "drivers/infiniband/ulp/eipoib"
FABRIC = "drivers/infiniband/sw/ibdevsim"
TESTS = "drivers/infiniband"
SERIES = "newest"
PATCHES = 5
# Of the files that "make run_tests" runs
FILES = "datagram_ip children_netlink"
_place = {}


def chroot(*words, limit=900):
    """A command where the newest kernel's tools are."""
    return cmd([os.path.join(VM, "chroot"), "run", *words], timeout=slow(limit))


class Tree:
    """A git tree of the newest kernel's source, and what is made of it."""

    def __init__(self, place):
        release = kernels("version", SERIES)
        source = cmd([os.path.join(VM, "kernel-source"), "get",
                      release.split("+")[0]], timeout=slow(900)).stdout.strip()
        self.place = place
        self.top = os.path.join(self.place, "linux")
        self.objects = os.path.join(self.place, "objects")
        self.patches = os.path.join(self.place, "patches")
        shutil.copytree(source, self.top, symlinks=True)
        # What is unpacked of it has no driver there, only what Kconfig reads.
        self.git("init", "-q", "-b", "master")
        for name, value in (("gc.auto", "0"), ("user.name", "nobody"),
                            ("user.email", "nobody@example.org")):
            self.git("config", name, value)
        self.git("add", "-A", "-f", ".")
        self.git("commit", "-q", "-m", "the kernel")
        self.config = os.path.join(kernels("get", SERIES), "boot",
                                   f"config-{release}")

    def git(self, *words):
        return cmd(["git", "-C", self.top, *words], timeout=slow(300)).stdout

    def make(self, *words):
        """What kbuild says of it, which is to be nothing."""
        return chroot("make", "-s", "-j2", "-C", self.top, f"O={self.objects}", *words)

    def configure(self):
        """All of it as modules, those that are there."""
        os.makedirs(self.objects, exist_ok=True)
        shutil.copy(self.config, os.path.join(self.objects, ".config"))
        chroot(os.path.join(self.top, "scripts", "config"), "--file",
               os.path.join(self.objects, ".config"), "-d", "DEBUG_INFO_BTF",
               "--set-str", "SYSTEM_TRUSTED_KEYS", "", "-m", "INFINIBAND",
               "-m", "INFINIBAND_IPOIB", "-e", "INFINIBAND_IPOIB_CM",
               "-m", "ETH_IPOIB", "-m", "INFINIBAND_IBDEVSIM")
        self.make("olddefconfig")


def tree():
    """The tree, with the series on its branch; made by the first case."""
    if not _place:
        # "chroot" sees /tmp.
        _place["top"] = tempfile.mkdtemp(dir="/tmp", prefix="srctree.")
        found = _place["tree"] = Tree(_place["top"])
        found.series = cmd([os.path.join(ROOT, "tools", "packaging", "srctree"),
                            found.top, found.patches], timeout=slow(300)).stdout.split()
    return _place["tree"]


def finish():
    """The last case is over."""
    shutil.rmtree(_place.get("top", ""), ignore_errors=True)
    _place.clear()


@timeout(900)
def test_applies():
    """git am takes the series on a tree without the kernel's driver; no difference."""
    here = tree()
    ksft_eq(len(here.series), PATCHES, "patches")
    for path in here.series:
        with open(path, encoding="utf-8") as file:
            ksft_true(not any(line.startswith(f"--- a/{DRIVER}") for line in file),
                      f"{path} has lines of the kernel's driver")
    here.git("checkout", "-q", "-b", "received", f"ipoib~{PATCHES}")
    defer(here.git, "checkout", "-q", "ipoib")
    here.git("am", "-q", *here.series)
    ksft_eq(here.git("diff", "--stat", "ipoib", "received"), "")


@timeout(1800)
def test_each_builds():
    """After each patch what is there builds, without a warning (W=1)."""
    here = tree()
    defer(here.git, "checkout", "-q", "ipoib")
    count = 0
    for number in range(PATCHES, -1, -1):
        here.git("checkout", "-q", f"ipoib~{number}")
        here.configure()
        here.make("modules_prepare")
        for where, module in ((DRIVER, "ib_ipoib"), (ETHERNET, "eth_ipoib"),
                              (FABRIC, "ibdevsim")):
            if not os.path.exists(os.path.join(here.top, where, "Makefile")):
                continue
            said = here.make("W=1", where + "/")
            ksft_eq(said.stdout + said.stderr, "", f"{where}, patch {PATCHES - number}")
            ksft_true(os.path.exists(os.path.join(here.objects, where,
                                                  f"{module}.o")), module)
            count += 1
    # The driver after each patch, what comes second and fourth from there on
    ksft_eq(count, 5 + 4 + 2, "builds")


@timeout(1800)
def test_kselftest():
    """
    "make install" of kselftest, and run_kselftest.sh on the booted kernel, which has
    our modules.
    """
    here = tree()
    where = os.path.join(here.place, "kselftest")
    chroot("make", "-s", "-C", os.path.join(here.top, "tools", "testing", "selftests"),
           f"TARGETS={TESTS}", f"INSTALL_PATH={where}", "install")
    ksft_in(f"{TESTS}:ipoib.py", read(os.path.join(where, "kselftest-list.txt")))
    modules = os.path.join(here.place, "modules")
    os.makedirs(modules)
    for target, name in (("modules", "ib_ipoib"), ("fabric", "ibdevsim")):
        cmd(["make", "-s", "-j2", "-C", ROOT, target, f"KERNEL={SERIES}"],
            timeout=slow(600))
        shutil.copy(built(SERIES, name, f"{name}.ko"), modules)
    script = os.path.join(here.place, "boot.sh")
    with open(script, "w", encoding="ascii") as file:
        file.write(f"""set -e
top=/lib/modules/$(uname -r)
mkdir -p /run/modules/upper /run/modules/work
mount -t overlay -o lowerdir=$top,upperdir=/run/modules/upper,workdir=/run/modules/work \\
      overlay $top
mkdir -p $top/updates
cp {modules}/*.ko $top/updates/
depmod
export IPOIB_CASES="{FILES}"
exec {where}/run_kselftest.sh -c {TESTS}
""")
    said = machine("--kernel", SERIES, "--hcas", "0", "--sm", "none",
                   "--timeout", str(int(slow(600))), "--", "sh", script)
    ksft_true(re.search(rf"^ok 1 selftests: {TESTS}: ipoib.py$", said, re.M),
              "passed, and was not skipped")
    for name in FILES.split():
        ksft_true(re.search(rf"^# ok \d+ {name}\.", said, re.M), f"cases of {name}")
