# SPDX-License-Identifier: GPL-2.0-only
"""The documentation: Sphinx makes pages of it, man finds nothing wrong."""

import glob
import os
import tempfile

from lib import cmd, defer, ksft_eq, ksft_ge, ksft_true, timeout
from common import ROOT

BOOT = "host"
SECONDS = 10

DOCS = os.path.join(ROOT, "Documentation")


def named(top, end):
    """Files below a directory whose names end so, relative and without that."""
    return {os.path.relpath(path, top).removesuffix(end) for path in
            glob.glob(os.path.join(top, "**", "*" + end), recursive=True)}


@timeout(120)
def test_sphinx():
    """What Sphinx warns of, and each reference to nowhere, fails it."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    done = cmd(["sphinx-build", "-q", "-W", "--keep-going", "-n", "-b", "html",
                DOCS, place.name], fail=False, timeout=100)
    ksft_eq((done.ret, done.stderr), (0, ""))
    pages = named(place.name, ".html")
    sources = named(DOCS, ".rst")
    ksft_eq(sources - pages, set())
    ksft_ge(len(sources), 6)


@timeout(60)
def test_manual():
    """groff has no warning about the manual page."""
    page = os.path.join(ROOT, "tools", "ipoibctl", "ipoibctl.8")
    done = cmd(["groff", "-man", "-ww", "-z", "-Tutf8", page], fail=False)
    ksft_eq((done.ret, done.stderr), (0, ""))
    ksft_true(os.path.getsize(page))
