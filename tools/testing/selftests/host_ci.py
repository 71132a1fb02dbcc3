# SPDX-License-Identifier: GPL-2.0-only
"""What continuous integration and the release make of pieces, on made-up ones."""

import os
import re
import subprocess
import sys
import tempfile
import time
from unittest import mock

from lib import groups, ksft_eq, ksft_false, ksft_in, ksft_le, ksft_lt, ksft_ne
from lib import ksft_true, timeout
import pieces
from common import TESTING, load_program

BOOT = "host"

FAILING = """KTAP version 1
ok 1 a.one
not ok 2 a.two
ok 3 a.three # SKIP no such thing
1 passed, 1 failed, 1 skipped
"""


def sh(script, limit=30, log=None):
    """What becomes of a piece that is a shell script."""
    out = os.dup(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(quiet, 1)
        return pieces.run(["sh", "-c", script], limit, log)
    finally:
        sys.stdout.flush()
        os.dup2(out, 1)
        os.close(out)
        os.close(quiet)


def counts(outcome):
    return outcome.passed, outcome.failed, outcome.skipped


def test_counts():
    """The closing line counts; a piece without one is a case itself."""
    found = sh(f"cat <<'END'\n{FAILING}END\nexit 1")
    ksft_eq((counts(found), found.good()), ((1, 1, 1), False))
    found = sh("echo 5 passed, 0 failed, 2 skipped")
    ksft_eq((counts(found), found.good()), ((5, 0, 2), True))
    found = sh("echo all 31 are clean")
    ksft_eq((counts(found), found.good()), ((31, 0, 0), True))
    found = sh("echo '2 of 31 are not clean:'; exit 1")
    ksft_eq((counts(found), found.good()), ((29, 2, 0), False))
    ksft_eq(counts(sh("true")), (1, 0, 0))
    ksft_eq(counts(sh("exit 3")), (0, 1, 0))


def test_status_counts():
    """A status is a failure, whatever was counted."""
    found = sh("echo 5 passed, 0 failed, 0 skipped; exit 2")
    ksft_eq((counts(found), found.good()), ((5, 1, 0), False))


def test_limit():
    """What hangs is ended at its limit; what it did until then counts."""
    begin = time.monotonic()
    found = sh("echo ok 1 a.one; echo not ok 2 a.two; sleep 1000 & wait", 1)
    ksft_lt(time.monotonic() - begin, 20)
    ksft_true(found.cut)
    ksft_false(found.good())
    ksft_eq(counts(found), (1, 1, 0))


BUILDS = """6.12.95+deb12-amd64  driver, CM=n   W=1 C=2   16 s  clean
7.3.4+deb13-amd64    driver, CM=n   W=1       16 s  NOT CLEAN, 3 lines
    a warning that is not clean
7.3.4+deb13-amd64    fabric         W=1       16 s  FAILED, status 2
"""


def test_builds_cut_off():
    """Of builds that are cut off, what failed until then is a failure."""
    found = sh(f"cat <<'END'\n{BUILDS}END\nsleep 1000", 1)
    ksft_eq((found.cut, counts(found)), (True, (1, 2, 0)))


def test_interruption_is_no_case():
    """The interruption that check reports is none of its failures."""
    found = sh("trap 'echo not ok 2 check; echo 1 passed, 1 failed, 0 skipped;"
               "exit 1' TERM; echo ok 1 a.one; sleep 1000 & wait", 1)
    ksft_eq((found.cut, counts(found)), (True, (1, 0, 0)))


def test_log():
    """The output is kept."""
    with tempfile.TemporaryDirectory() as where:
        log = os.path.join(where, "log")
        sh("echo one; echo two >&2", log=log)
        with open(log, encoding="utf-8") as file:
            ksft_eq(file.read(), "one\ntwo\n")


def test_life_fits():
    """Of @life, what fits is chosen in rotation, and nothing is lost."""
    files = pieces.life_files()
    whole = pieces.minutes_of(pieces.exactly(files), "life")
    ksft_eq(pieces.life_that_fits(whole + 1), (files, []))
    ksft_eq(pieces.life_that_fits(0), ([], files))
    firsts = set()
    for first in range(len(files)):
        taken, left = pieces.life_that_fits(whole / 2, first)
        ksft_true(taken and left)
        ksft_eq(sorted(taken + left), sorted(files))
        ksft_le(pieces.minutes_of(pieces.exactly(taken), "life"), whole / 2)
        firsts.add(taken[0])
    ksft_ne(len(firsts), 1, "another commit begins with another file")


def test_life_exactly():
    """Cases that share a file with one of @life are not run with it."""
    pattern = pieces.exactly(pieces.life_files())
    for file in pieces.test_files():
        for case in file.cases:
            of = file.groups_of(case)
            ksft_eq(bool(pieces.harness.matches(pattern, file.name, case, of)),
                    "life" in of, f"{file.name}.{case}")


@timeout(180)
def test_rotation():
    """CI comes to each case: in the core, or in one short piece on the usual kernel."""
    program = load_program(os.path.join(TESTING, "ci"))
    found = [piece for piece in program.others() if len(piece.argv) == 2]
    for piece in found:
        ksft_le(piece.minutes, 20, piece.name)
    patterns = [piece.argv[1].removeprefix("T=") for piece in found]
    for file in pieces.test_files():
        for case in file.cases:
            of = file.groups_of(case)
            ksft_eq(sum(pieces.harness.matches(pattern, file.name, case, of)
                        for pattern in patterns),
                    int(groups.DEFAULT not in of and of[0] not in groups.EXPLORE),
                    f"{file.name}.{case}")


def test_alone():
    """A case whose name is a part of another one's is selected without that."""
    names = pieces.case_names()
    short = next(name for name in names for other in names
                 if name in other and name != other)
    found = [name for name in names
             if pieces.harness.matches(pieces.alone(short), *name.split("."))]
    ksft_eq(found, [short])
    longest = max(names, key=len)
    ksft_eq(pieces.alone(longest), longest)


def test_life_parts():
    """The parts of @life are short enough, and all of it."""
    parts = pieces.life_parts(12)
    ksft_true(len(parts) > 1)
    ksft_eq(sorted(name for part in parts for name in part),
            sorted(pieces.life_files()))
    for part in parts:
        if len(part) > 1:
            ksft_le(pieces.minutes_of(pieces.exactly(part), "life"), 12)


def plan(minutes):
    """What CI would do with so many minutes: (ran, left out)."""
    done = subprocess.run([os.path.join(TESTING, "ci"), "--plan", "--minutes",
                           str(minutes)], stdout=subprocess.PIPE, text=True,
                          check=True)
    return (re.findall(r"^\+ ran: (.*?): ([\d.]+) min$", done.stdout, re.M),
            re.findall(r"^\+ left out: (.*)$", done.stdout, re.M))


def test_ci_in_time():
    """CI does not plan more than it has time for, and says what it leaves."""
    # In the last there is time for all, wherever the rotation begins.
    for minutes in (75, 60, 600):
        ran, left_out = plan(minutes)
        ksft_eq([name for name, _ in ran][:2], ["builds", "@core"])
        ksft_le(sum(float(took) for _, took in ran), minutes + len(ran) / 2)
        ksft_eq(bool(left_out), minutes < 600, left_out)
    ksft_in("@core KERNEL=6.1", [name for name, _ in ran])


def planned(commits, cached):
    """What CI would run after so many commits, with a debug kernel or without one."""
    program = load_program(os.path.join(TESTING, "ci"))
    found = []
    with mock.patch.multiple(pieces, commits=lambda: commits,
                             debug_cached=lambda: cached), \
            mock.patch.object(sys, "argv", ["ci", "--plan"]), \
            mock.patch.object(program, "say", found.append):
        program.main()
    return [line.split(":")[1].strip() for line in found if line.startswith("ran: ")]


@timeout(180)
def test_turns():
    """The longest piece has its turn, too; before that @life, but if it is built."""
    rest = load_program(os.path.join(TESTING, "ci")).others()
    turn = max(range(len(rest)), key=lambda number: rest[number].minutes)
    ran = planned(turn, True)
    ksft_eq(ran[:4], ["builds", "@core", "@life DEBUG=1", rest[turn].name])
    ran = planned(turn, False)
    ksft_eq(ran[:4], ["builds", "@core", "debug kernel", "@life DEBUG=1"])


def test_core_and_builds_fit():
    """Builds and core, at their limits, leave time of the 75 minutes."""
    limits = subprocess.run(
        ["grep", "-E", "^(BUILD|CORE)_LIMIT", os.path.join(TESTING, "ci")],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    build, core = map(int, re.findall(r"\d+", limits))
    ksft_le(pieces.MINUTES["builds"][1], build)
    ksft_le(groups.GROUPS["core"].minutes, core)
    ksft_le(12 + build + core, 75, "minutes, with those of vm/setup")
