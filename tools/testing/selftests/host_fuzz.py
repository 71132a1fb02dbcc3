# SPDX-License-Identifier: GPL-2.0-only
"""The logic that needs no device, under a fuzzer with sanitizers."""

import os
import re
import subprocess

from lib import ksft_eq, ksft_ge, ksft_in, ksft_ne, ksft_pr, timeout
from common import TESTING

BOOT = "host"

UNIT = os.path.join(TESTING, "unit")


def fuzz(name, *words):
    """Run a fuzzer; status, what it printed."""
    done = subprocess.run(["make", "-s", "-C", UNIT, "fuzz",
                           f"FUZZERS={name}", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def nothing_found(name):
    # "make fuzz" seeks elsewhere each time; a test has to repeat.
    status, text = fuzz(name, "SECONDS=10", "SEED=1")
    if status:
        for line in text.splitlines()[-40:]:
            ksft_pr(line)
    ksft_eq(status, 0)
    runs = re.search(r"number_of_executed_units: (\d+)", text)
    ksft_pr(f"{runs[1]} runs")
    ksft_ge(int(runs[1]), 10000, "runs")


@timeout(120)
def test_packet():
    """Senders and receivers agree about any packet, and stay within it."""
    nothing_found("packet")


@timeout(120)
def test_text():
    """P_Keys as people write them, private data as peers send it."""
    nothing_found("text")


@timeout(120)
def test_ethernet():
    """What eth_ipoib translates says the same on the other side, and back."""
    nothing_found("ethernet")


def defect_found(name):
    status, text = fuzz(name, "SECONDS=60", "SEED=1", "DEFECT=1")
    ksft_ne(status, 0)
    ksft_in("SUMMARY: libFuzzer: deadly signal", text)


@timeout(120)
def test_packet_defect():
    """A receiver that sees less of a packet than its sender is found."""
    defect_found("packet")


@timeout(120)
def test_text_defect():
    """A byte that private data must not have is found."""
    defect_found("text")


@timeout(120)
def test_ethernet_defect():
    """A translation that loses an option is found."""
    defect_found("ethernet")
