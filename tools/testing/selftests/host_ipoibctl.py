# SPDX-License-Identifier: GPL-2.0-only
"""ipoibctl on a host without InfiniBand: its command line, and without privileges."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import unittest.mock

from lib import cmd, defer, ksft_eq, ksft_in, timeout
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


def as_user(*words):
    """A program as an ordinary user, beside a copy of ipoibctl's files."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    os.chmod(place.name, 0o755)
    for name in os.listdir(TOOLS):
        if os.path.isfile(os.path.join(TOOLS, name)):
            shutil.copy(os.path.join(TOOLS, name), place.name)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] \
        if not os.geteuid() else []
    # Users have no directories of an administrator in their PATH.
    return cmd([*drop, "env", "-C", place.name, "PATH=/usr/bin:/bin", *words],
               fail=False)


@timeout(60)
def test_dry_run():
    """swap -n needs no root, an exchange does; -n exchanges and restores nothing."""
    loaded_here = os.path.isdir("/sys/module/ib_ipoib")
    for words, text in ((["-n", "kernel"], "" if loaded_here else "is not loaded"),
                        ([], "only root can do that"),
                        (["--confirm"], "only root can do that"),
                        (["-n", "--restore"], "for an exchange only"),
                        (["-n", "--confirm"], "for an exchange only")):
        done = as_user("./ipoibctl", "swap", *words)
        ksft_in(text, done.stderr, words)
        if text:
            ksft_eq(done.ret, 2, words)


READS = """
import os, ipoib_swap as swap
assert os.geteuid()
here = [link["ifname"] for link in swap.links(next(iter(swap.spaces().values())))]
state = swap.save()
print(here == [name for _, name in sorted(__import__("socket").if_nameindex())],
      sorted(state))
"""


@timeout(60)
def test_reads():
    """What is saved of this network namespace can be read by everybody."""
    done = as_user("python3", "-B", "-c", READS)
    ksft_eq((done.ret, done.stdout, done.stderr),
            (0, "True ['bonds', 'interfaces', 'module', 'objects']\n", ""))
