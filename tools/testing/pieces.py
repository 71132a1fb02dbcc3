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
from importlib.machinery import SourceFileLoader

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TESTS = os.path.join(HERE, "selftests")
CHECK = os.path.join(HERE, "check")
VM = os.path.join(HERE, "vm")
sys.path.insert(0, TESTS)

# pylint: disable=wrong-import-position
from lib import groups, harness  # noqa: E402

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
        self._cases = [0, 0, 0]

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
        found = CASE.match(line)
        if found:
            self._cases[1 if found.group(1) != "ok" else
                        2 if found.group(2) else 0] += 1

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


def end_session(proc, number):
    """A signal to a command and what it started."""
    try:
        os.killpg(proc.pid, number)
    except ProcessLookupError:
        pass


def run(argv, limit, log=None, env=None):
    """
    Run a command for @limit seconds at most; its output goes to ours and to
    the file @log.  The Outcome.
    """
    outcome = Outcome()
    begin = time.monotonic()
    cut = threading.Event()
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          text=True, errors="replace", env=env,
                          start_new_session=True) as proc:

        def late():
            cut.set()
            end_session(proc, signal.SIGTERM)

        timers = [threading.Timer(max(0, limit), late),
                  threading.Timer(max(0, limit) + GRACE, end_session,
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
            end_session(proc, signal.SIGTERM)
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
    path = os.path.join(VM, "kernel-build")
    module = SourceFileLoader("kernel_build", path).load_module()
    return bool(module.cached("-ipoib-debug-" + module.stamp("debug")))


def all_cached():
    """Are the kernels of all builds there?"""
    done = subprocess.run([os.path.join(VM, "kernels"), "list"], text=True,
                          stdout=subprocess.PIPE, check=False)
    found = [name for name in done.stdout.split() if "-ipoib-" not in name]
    return all(any(name.startswith(series) for name in found)
               for series in ("6.1.", "6.12.", "6.18.")) and len(found) > 3


def life_files(first=0):
    """The files of @life, from the @first one on, all around."""
    names = [file.name for file in test_files()
             if any("life" in file.groups_of(c) for c in file.cases)]
    first %= max(1, len(names))
    return names[first:] + names[:first]


def exactly(names):
    """T= for these files and no others."""
    return ",".join(f"{name}.*" for name in names)


def beside_core():
    """T= for the cases that are not in the core."""
    return ",".join(f"{file.name}.{case}" for file in test_files()
                    for case in file.cases
                    if groups.DEFAULT not in file.groups_of(case))


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
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout.strip()


def commits():
    """How many commits led here: what is done in rotation begins there."""
    return int(git("rev-list", "--count", "HEAD") or 0)
