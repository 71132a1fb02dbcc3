# SPDX-License-Identifier: GPL-2.0-only
"""Analysers read all C; other architectures compile it and run what needs no kernel."""

import functools
import os

from lib import ksft_eq, ksft_ge, slow, timeout
from lib.utils import cmd
from common import TESTING, VM

BOOT = "host"
GROUPS = ("analysis",)
SECONDS = 900

UNIT = os.path.join(TESTING, "unit")


@functools.cache
def prepare():
    """Install what it takes."""
    cmd([os.path.join(VM, "setup"), "--no-kernel", "--analysis"], timeout=slow(600))


def run(*argv):
    """A program of the project, whatever its status."""
    prepare()
    return cmd(argv, timeout=slow(900), fail=False)


def analysed(tool):
    """Nothing is found but what is known, with a reason for each."""
    done = run(os.path.join(TESTING, "analyse"), tool)
    ksft_eq((done.ret, done.stderr), (0, ""), done.stdout)


@timeout(1800)
def test_clang():
    """clang's static analyser."""
    analysed("clang")


@timeout(1800)
def test_gcc():
    """gcc's -fanalyzer."""
    analysed("gcc")


@timeout(1800)
def test_coccinelle():
    """The kernel's semantic patches."""
    analysed("coccinelle")


@timeout(1800)
def test_machines():
    """Modules for big-endian, 32-bit and 64 KiB page kernels, without a warning."""
    done = run(os.path.join(TESTING, "build-all-kernels"), "--foreign")
    ksft_eq(done.ret, 0, done.stdout + done.stderr)
    ksft_eq(done.stdout.count("  clean"), 6, done.stdout)


@timeout(900)
def test_units():
    """The unit tests, compiled for such machines, pass there."""
    for machine in ("s390x-linux-gnu", "arm-linux-gnueabihf", "powerpc64le-linux-gnu"):
        done = run("make", "-s", "-C", UNIT, f"MACHINE={machine}")
        ksft_eq(done.ret, 0, machine + done.stdout[-2000:] + done.stderr)
        ksft_ge(done.stdout.count("    ok "), 200, machine)
