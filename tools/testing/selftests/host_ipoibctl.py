# SPDX-License-Identifier: GPL-2.0-only
"""ipoibctl on a host without InfiniBand: its command line."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import unittest.mock

from lib import ksft_eq, ksft_in, timeout
from common import ROOT

BOOT = "host"
SECONDS = 10

TOOLS = os.path.join(ROOT, "tools", "ipoibctl")


def loaded():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader(
        "ipoibctl", os.path.join(TOOLS, "ipoibctl"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("ipoibctl", loader))
    loader.exec_module(module)
    return module


CTL = loaded()


def parsed(line):
    """A command line, or the words with which it is refused."""
    said = io.StringIO()
    with unittest.mock.patch.object(sys, "argv", ["ipoibctl", *line.split()]), \
            contextlib.redirect_stderr(said):
        try:
            return CTL.parse_args()
        except SystemExit as end:
            ksft_eq(end.code, 2, line)
            return said.getvalue()


COMMANDS = ("show", "neighbours", "groups", "connections", "guests", "peers",
            "monitor", "doctor")


@timeout(60)
def test_json():
    """-j stands before any command or behind it, and -j alone sets it."""
    for command in COMMANDS:
        for line, json, dev in (("{}", False, []), ("{} ib0", False, ["ib0"]),
                                ("-j {}", True, []), ("{} -j", True, []),
                                ("{} --json ib0", True, ["ib0"]),
                                ("{} ib0 ib1 -j", True, ["ib0", "ib1"]),
                                ("-j {} -j ib0", True, ["ib0"])):
            args = parsed(line.format(command))
            ksft_eq((args.command, args.json, args.dev), (command, json, dev), line)
    args = parsed("doctor -j ib0 --peer 10.0.0.2 --peer fd00::2")
    ksft_eq((args.json, args.peer), (True, ["10.0.0.2", "fd00::2"]))
    for line in ("guest add eib0 10.0.0.7 02:00:00:00:00:07 -j",
                 "-j guest add eib0 10.0.0.7 02:00:00:00:00:07",
                 "guest -j add eib0 10.0.0.7 02:00:00:00:00:07"):
        args = parsed(line)
        ksft_eq((args.json, args.change, args.dev, args.address, args.mac),
                (True, "add", "eib0", "10.0.0.7", "02:00:00:00:00:07"), line)
    ksft_eq(parsed("swap -j -n").json, True)


@timeout(60)
def test_mistakes():
    """What there is not."""
    for line, text in (("", "required: command"), ("cure", "invalid choice"),
                       ("guest", "required: change"),
                       ("show --peer 10.0.0.2", "unrecognized"),
                       ("guest add eib0 10.0.0.7", "required: mac")):
        ksft_in(text, parsed(line), line)
