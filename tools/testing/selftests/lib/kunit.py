# SPDX-License-Identifier: GPL-2.0-only
"""Cases written with KUnit's interface, as cases of a test file.

A test file that says KUNIT = "path of the C source" has the cases of that
source; define() makes functions of them.
"""

import re

from . import ksft
from .ksft import Failed, Skip, ksft_pr


def cases(path):
    """Names of the cases in a C source, in the order of its suites."""
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^\s*KUNIT_CASE(?:_PARAM)?\((test_\w+)[,)]",
                          file.read(), re.MULTILINE)


class Results:
    """What became of each case, from the KTAP that KUnit printed."""

    RESULT = re.compile(r"\s*(ok|not ok) \d+ (test_\w+)(?: # (\w+) ?(.*))?$")

    def __init__(self, text):
        self.found = {}
        self.rest = []
        for line in text.splitlines():
            match = self.RESULT.match(line)
            if not match:
                self.rest.append(line.strip())
                continue
            verdict, name, directive, reason = match.groups()
            self.found[name] = (verdict == "ok", directive, reason, self.rest)
            self.rest = []

    def check(self, name):
        """Raise what the case @name ended with."""
        if name not in self.found:
            for line in self.rest[-40:]:
                ksft_pr(line)
            self.rest = []
            raise Failed("the tests ended without this one's result")
        good, directive, reason, lines = self.found[name]
        if not good:
            for line in lines[-40:]:
                ksft_pr(line.removeprefix("# "))
            raise Failed("the case failed")
        if directive == "SKIP":
            raise Skip(reason)


def define(namespace, names, run):
    """
    Make functions of cases; @run() runs them all and gives their Results, or
    raises what all of them are to end with.
    """
    done = []

    def results():
        if not done:
            try:
                done.append(run())
            except Exception as error:  # pylint: disable=broad-except
                done.append(error)
        if isinstance(done[0], Exception):
            raise done[0].with_traceback(None)
        return done[0]

    ksft.define(namespace, {name: name for name in names},
                lambda name: results().check(name))
