# SPDX-License-Identifier: GPL-2.0-only
"""Pieces of what the project has to pass: commands under a limit of time, and
what became of them.  For .ci/run and release-check.
"""

import collections
import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time

from common import TESTING, TESTS, VM, end, load_program, output, start

sys.path.insert(0, TESTS)

# pylint: disable-next=wrong-import-position
from lib import groups, harness  # noqa: E402

CHECK = os.path.join(TESTING, "check")
# Minutes that things take on two CPUs, as measured, with some reserve: when
# all is in the cache, and when nothing is.
MINUTES = {
    "setup": (1, 8),
    "builds": (12, 22),
    "debug kernel": (0, 26),
}
# What a piece has to clean up after it was told to end
GRACE = 60

SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
CLEAN = re.compile(r"^all (\d+) are clean$")
BUILD = re.compile(r"^\S.* (clean|(?:FAILED|NOT CLEAN), .*)$")
UNCLEAN = re.compile(r"^(\d+) of (\d+) are not clean:$")
# "check" is what tools/testing/check calls its own interruption.
CASE = re.compile(r"^(ok|not ok) \d+ (?!check$)\S+( # SKIP)?")

# minutes: what it takes, as far as anybody knows
Piece = collections.namedtuple("Piece", "name argv minutes")


class Outcome:
    """What became of a piece: counts, and how it ended."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.status = None
        self.cut = False        # its time was up
        self.seconds = 0.0
        self.counted = False
        self.bad = []           # what failed, as it was printed
        self._cases = [0, 0, 0]
        self._why = ""

    def feed(self, line):
        """A line of its output: counts, or a case as long as there are none."""
        line = line.rstrip("\n")
        found = SUMMARY.match(line)
        if found:
            self._count(*map(int, found.groups()))
        found = CLEAN.match(line)
        if found:
            self._count(int(found.group(1)), 0, 0)
        found = UNCLEAN.match(line)
        if found:
            bad, total = map(int, found.groups())
            self._count(total - bad, bad, 0)
        found = BUILD.match(line)
        if found:
            self._cases[found.group(1) != "clean"] += 1
            if found.group(1) != "clean" and line not in self.bad:
                self.bad.append(line)
        found = CASE.match(line)
        if found:
            self._cases[1 if found.group(1) != "ok" else
                        2 if found.group(2) else 0] += 1
            if found.group(1) != "ok":
                self.bad.append(f"{line}: {self._why}")
        # The last line before a case that failed says what it found.
        self._why = line.lstrip("# ")

    def _count(self, passed, failed, skipped):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.counted = True

    def end(self, status, cut, seconds):
        """It ended.  What does not count is one case itself."""
        self.status, self.cut, self.seconds = status, cut, seconds
        if cut:
            self._count(*self._cases)
        elif not self.counted:
            self._count(int(status == 0), int(status != 0), 0)
        elif status and not self.failed:
            self.failed = 1

    def good(self):
        """It came to its end, and nothing failed."""
        return self.status == 0 and not self.cut and not self.failed

    def text(self):
        """In a few words."""
        counts = (f"{self.passed} passed, {self.failed} failed, "
                  f"{self.skipped} skipped")
        how = "cut off, its time was up" if self.cut else \
            f"status {self.status}" if self.status else "done"
        return f"{self.seconds / 60:.0f} min, {counts}, {how}"


def say(text):
    """A line of our own."""
    print(f"+ {text}", flush=True)


def run(argv, limit, log=None):
    """
    Run a command for @limit seconds at most; its output goes to ours and to
    the file @log.  The Outcome.
    """
    outcome = Outcome()
    begin = time.monotonic()
    cut = threading.Event()
    with start(argv) as proc:

        def late():
            cut.set()
            end(proc)

        timers = [threading.Timer(max(0, limit), late),
                  threading.Timer(max(0, limit) + GRACE, end,
                                  (proc, signal.SIGKILL))]
        for timer in timers:
            timer.daemon = True
            timer.start()
        out = open(log, "w", encoding="utf-8") if log else None
        try:
            for line in proc.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                if out:
                    out.write(line)
                    out.flush()
                outcome.feed(line)
        except BaseException:
            end(proc)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            if out:
                out.close()
    outcome.end(proc.returncode, cut.is_set(), time.monotonic() - begin)
    return outcome


# ---- what there is -------------------------------------------------------


@functools.lru_cache(None)
def test_files():
    """The test files."""
    return harness.find_files(TESTS)


@functools.lru_cache(None)
def minutes_of(pattern, group=groups.DEFAULT, kind="ours"):
    """Minutes that "check T=@pattern" takes, as the tree states."""
    jobs = harness.make_jobs(test_files(), pattern, kind, teardown=True)
    return groups.estimate(jobs, group) / 60 if jobs else 0


def check(name, pattern, *words, group=groups.DEFAULT, kind="ours"):
    """A piece that is a run of the tests."""
    return Piece(name, [CHECK, f"T={pattern}", *words],
                 minutes_of(pattern, group, kind))


def debug_cached():
    """Is the debug kernel of this tree there, or would it be built?"""
    module = load_program(os.path.join(VM, "kernel-build"))
    return bool(module.cached("-ipoib-debug-" + module.stamp("debug")))


def all_cached():
    """Are the kernels of all builds there?"""
    names = output(os.path.join(VM, "kernels"), "list", check=False)
    found = [name for name in names.split() if "-ipoib-" not in name]
    return all(any(name.startswith(series) for name in found)
               for series in ("6.1.", "6.12.", "6.18.")) and len(found) > 3


def life_files(first=0):
    """The files of @life, from the @first one on, all around."""
    names = [file.name for file in test_files()
             if any("life" in file.groups_of(c) for c in file.cases)]
    first %= max(1, len(names))
    return names[first:] + names[:first]


@functools.lru_cache(None)
def case_names():
    """All cases, as "FILE.CASE"."""
    return [f"{file.name}.{case}" for file in test_files() for case in file.cases]


def alone(name):
    """A word of T= that selects this case, and none whose name it is a part of."""
    if any(name in other and name != other for other in case_names()):
        return f"{name[:-1]}[{name[-1]}]"
    return name


def selecting(wanted):
    """T= for the cases that wanted(file, case) is true of; nothing if there is none."""
    found = []
    for file in test_files():
        cases = [case for case in file.cases if wanted(file, case)]
        found += [f"{file.name}.*"] if cases == list(file.cases) else \
            [alone(f"{file.name}.{case}") for case in cases]
    return ",".join(found)


def exactly(names):
    """T= for the cases of @life in these files, and no others."""
    return selecting(lambda file, case: file.name in names and
                     "life" in file.groups_of(case))


def beside_core(group):
    """
    T= for the cases that have this group as their first one, and are not in the core:
    each is in one of the groups only.
    """
    return selecting(lambda file, case: file.groups_of(case)[:1] == (group,) and
                     groups.DEFAULT not in file.groups_of(case))


def life_parts(minutes):
    """All files of @life, in parts of so many minutes on the debug kernel."""
    left, parts = life_files(), []
    while left:
        part = [left.pop(0)]
        for name in list(left):
            if minutes_of(exactly([*part, name]), "life") <= minutes:
                part.append(name)
                left.remove(name)
        parts.append(part)
    return parts


def life_that_fits(minutes, first=0):
    """
    Files of @life that take so many minutes together on the debug kernel, and
    those that are left out.
    """
    taken, left = [], []
    for name in life_files(first):
        fits = minutes_of(exactly([*taken, name]), "life") <= minutes
        (taken if fits else left).append(name)
    return taken, left


def git(*words):
    """What git prints; nothing if it fails."""
    return output("git", *words, check=False, stderr=subprocess.DEVNULL)


def commits():
    """How many commits led here: what is done in rotation begins there."""
    return int(git("rev-list", "--count", "HEAD") or 0)
