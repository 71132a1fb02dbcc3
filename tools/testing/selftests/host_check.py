# SPDX-License-Identifier: GPL-2.0-only
"""The judgement of tools/testing/check, on made-up machines."""

import os
import tempfile
from unittest import mock

from lib import Skip, ksft_eq, ksft_false, ksft_in, ksft_le, ksft_raises, ksft_true
from lib import groups, harness, literals, sites
import slowness
from common import TESTS

BOOT = "host"


class Record:
    """A reader with a tally, both fed by hand."""

    def __init__(self, *names, must_run=()):
        self.lines = []
        self.tally = harness.Tally(self.lines.append)
        self.reader = harness.Reader(self.tally, names, must_run)

    def feed(self, text):
        for line in text.splitlines():
            self.reader.feed(line)
        return self

    def results(self):
        return [line for line in self.lines if not line.startswith("#")]


GOOD = """KTAP version 1
# run a.one
# time a.one 0.50
ok 1 a.one
# run a.two
a remark
# time a.two 1.50
ok 2 a.two # SKIP no such thing
1..2
"""


def test_good():
    """Passes and skips."""
    rec = Record("a.one", "a.two").feed(GOOD)
    ksft_eq(rec.reader.finish(0), [])
    ksft_eq(rec.results(), ["ok 1 a.one", "ok 2 a.two # SKIP no such thing"])
    ksft_eq(rec.tally.summary(), "1 passed, 0 failed, 1 skipped")
    ksft_eq(rec.tally.status(), 0)
    ksft_eq(rec.tally.took["a.two"], 1.5)
    ksft_in("# a remark", rec.lines)


def test_forbidden_skip():
    """A case that has to run has failed if it is skipped."""
    rec = Record("a.one", "a.two", must_run=["a.one", "a.two"]).feed(GOOD)
    ksft_eq(rec.reader.finish(0), [])
    ksft_eq(rec.results(), ["ok 1 a.one", "not ok 2 a.two"])
    ksft_in("no such thing", " ".join(rec.lines))
    ksft_eq(rec.tally.summary(), "1 passed, 1 failed, 0 skipped")
    ksft_true(groups.must_run("verbs_tools.test_rping", ("verbs", "fabric")))
    ksft_false(groups.must_run("wire_raw.test_x", ("wire", "core")))


def test_failure():
    """One failure fails all."""
    rec = Record("a.one", "a.two")
    rec.feed("# run a.one\n# because\nnot ok 1 a.one\nok 2 a.two")
    ksft_eq(rec.reader.finish(1), [])
    ksft_eq(rec.tally.summary(), "1 passed, 1 failed, 0 skipped")
    ksft_eq(rec.tally.status(), 1)
    ksft_in("# because", rec.lines)


def test_xfail_counts_as_passed():
    """What is expected to fail, and does, is no failure."""
    rec = Record("a.one").feed("ok 1 a.one # XFAIL in-tree module: slow")
    rec.reader.finish(0)
    ksft_eq(rec.tally.summary(), "1 passed, 0 failed, 0 skipped")


def test_nothing_ran():
    """No case at all is a failure."""
    rec = Record()
    ksft_eq(rec.tally.status(), 1)


def test_no_output():
    """A machine that says nothing fails every case."""
    rec = Record("a.one", "a.two")
    ksft_eq(rec.reader.finish(126, (), False), [])
    ksft_eq(rec.tally.summary(), "0 passed, 2 failed, 0 skipped")


def test_died_in_a_case():
    """The case that ran fails; the others get another machine."""
    rec = Record("a.one", "a.two", "a.three")
    rec.feed("# run a.one\nok 1 a.one\n# run a.two\n# half done")
    left = rec.reader.finish(125, [("a.two", "BUG: something\n at once")],
                             False)
    ksft_eq(left, ["a.three"])
    ksft_eq(rec.results(), ["ok 1 a.one", "not ok 2 a.two"])
    ksft_in("# BUG: something", rec.lines)
    ksft_in("# half done", rec.lines)


def test_died_last_time():
    """No other machine: what did not run fails."""
    rec = Record("a.one", "a.two", "a.three")
    rec.feed("# run a.one\nok 1 a.one\n# run a.two")
    ksft_eq(rec.reader.finish(124), [])
    ksft_eq(rec.tally.summary(), "1 passed, 2 failed, 0 skipped")


def test_report_after_the_case():
    """A complaint of the kernel in a case that passed fails the run."""
    rec = Record("a.one").feed("# run a.one\nok 1 a.one")
    rec.reader.finish(125, [("a.one", "WARNING: CPU: 0")])
    ksft_eq(rec.results(), ["ok 1 a.one", "not ok 2 a.one:kernel-log"])
    ksft_eq(rec.tally.status(), 1)


def test_status_alone():
    """All passed, but the machine ended badly."""
    rec = Record("a.one").feed("# run a.one\nok 1 a.one")
    rec.reader.finish(125)
    ksft_eq(rec.tally.status(), 1)
    ksft_eq(rec.results()[-1], "not ok 2 boot")


def test_unexpected_result():
    """A result that nobody asked for is a failure."""
    rec = Record("a.one").feed("ok 1 a.one\nok 2 a.other")
    rec.reader.finish(0)
    ksft_eq(rec.tally.summary(), "1 passed, 1 failed, 0 skipped")


def test_result_twice():
    """A case has one result."""
    rec = Record("a.one").feed("ok 1 a.one\nok 2 a.one")
    rec.reader.finish(0)
    ksft_eq(rec.tally.summary(), "1 passed, 1 failed, 0 skipped")


def test_case_at():
    """A line of the kernel log belongs to the last marker before it."""
    log = ["boot", "x IPOIB-TEST: a.one", "WARNING", "x IPOIB-TEST: a.two",
           "fine", "x IPOIB-TEST: end", "BUG"]
    ksft_eq(harness.case_at(log, 0), None)
    ksft_eq(harness.case_at(log, 2), "a.one")
    ksft_eq(harness.case_at(log, 4), "a.two")
    ksft_eq(harness.case_at(log, 6), None)


def test_matches():
    """T=name: parts of names and globs, several of them."""
    ksft_true(harness.matches("", "datagram_ip", "test_arp"))
    ksft_true(harness.matches("arp", "datagram_ip", "test_arp"))
    ksft_true(harness.matches("datagram_ip.test_arp", "datagram_ip",
                              "test_arp"))
    ksft_true(harness.matches("datagram_*", "datagram_ip", "test_arp"))
    ksft_true(harness.matches("test_a?p", "datagram_ip", "test_arp"))
    ksft_true(harness.matches("zzz,arp", "datagram_ip", "test_arp"))
    ksft_true(harness.matches("datagram_ip.py", "datagram_ip", "test_arp"))
    ksft_false(harness.matches("tcp", "datagram_ip", "test_arp"))
    ksft_false(harness.matches("tcp,", "datagram_ip", "test_arp"))
    ksft_false(harness.matches("test_b*", "datagram_ip", "test_arp"))


def write_file(directory, name, boot, cases):
    path = os.path.join(directory, name + ".py")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"BOOT = {boot!r}\n")
        for case in cases:
            file.write(f"def {case}():\n    pass\n")
    return path


def test_grouping():
    """Files with equal boots share one; the module decides, too."""
    with tempfile.TemporaryDirectory() as where:
        write_file(where, "a_one", {"hcas": 2}, ["test_x", "test_y"])
        write_file(where, "a_two", {}, ["test_x"])
        write_file(where, "a_three", {"hcas": 3}, ["test_x"])
        write_file(where, "a_four", {"ipoib": "ours"}, ["test_x"])
        write_file(where, "a_five", {"ipoib": "stock"}, ["test_x"])
        write_file(where, "a_host", "host", ["test_x"])
        files = harness.find_files(where)
        ours = harness.make_jobs(files, "", "ours")
        stock = harness.make_jobs(files, "", "stock")
    ksft_eq(sorted(sorted(job.names()) for job in ours), [
        ["a_five.test_x"], ["a_four.test_x", "a_one.test_x", "a_one.test_y",
                            "a_two.test_x"],
        ["a_host.test_x"], ["a_three.test_x"]])
    ksft_eq(sorted(sorted(job.names()) for job in stock), [
        ["a_five.test_x", "a_one.test_x", "a_one.test_y", "a_two.test_x"],
        ["a_host.test_x"], ["a_three.test_x"]])


def test_dividing():
    """A long group is divided; no case is lost or doubled."""
    with tempfile.TemporaryDirectory() as where:
        for name in ("a_one", "a_two", "a_three", "a_four"):
            write_file(where, name, {"seconds": 100}, ["test_x", "test_y"])
        jobs = harness.make_jobs(harness.find_files(where), "", "ours", 250)
    ksft_eq(len(jobs), 2)
    names = [name for job in jobs for name in job.names()]
    ksft_eq((len(names), len(set(names))), (8, 8))


def test_teardown():
    """It follows the last file of each machine."""
    with tempfile.TemporaryDirectory() as where:
        for name in ("a_one", "a_two", "a_three"):
            write_file(where, name, {"hcas": 2 + (name == "a_two")},
                       ["test_x"])
        write_file(where, "a_host", "host", ["test_x"])
        files = harness.find_files(where)
        jobs = harness.make_jobs(files, teardown=True)
    ksft_eq(sorted(job.names() for job in jobs), [
        ["a_host.test_x"],
        ["a_one.test_x", "a_three.test_x", "a_three.teardown"],
        ["a_two.test_x", "a_two.teardown"]])


GROUPED = """
GROUPS = ("core", "life")
WHY = "a reason"

def test_x():
    pass

@timeout(3)
@in_groups("scale")
@ours_only(WHY)
def test_y():
    pass
"""


def write_text(directory, name, text):
    with open(os.path.join(directory, name + ".py"), "w",
              encoding="ascii") as file:
        file.write(text)


def test_groups():
    """T=@group selects a group exactly; a file and a case may name theirs."""
    with tempfile.TemporaryDirectory() as where:
        write_text(where, "zz_one", GROUPED)
        write_file(where, "faults_two", {}, ["test_life"])
        write_file(where, "faults_two_three", {}, ["test_x"])
        write_file(where, "wire_raw", {}, ["test_x"])
        files = harness.find_files(where)

        def names(pattern):
            return sorted(name for job in harness.make_jobs(files, pattern)
                          for name in job.names())

        ksft_eq(names("@life"), ["faults_two.test_life",
                                 "faults_two_three.test_x", "zz_one.test_x"])
        ksft_eq(names("@scale"), ["zz_one.test_y"])
        ksft_eq(names("@wire,zz_one.test_y"),
                ["wire_raw.test_x", "zz_one.test_y"])
        ksft_eq(len(names("@all")), 5)
        ksft_eq(names("life"), ["faults_two.test_life"])
        with ksft_raises(groups.UnknownGroup):
            names("zz_one,@nobody")
    ksft_eq(files[-1].known, [("test_y", "ours_only", "a reason")])


def test_unknown_group():
    """A file in a group that nobody knows is an error."""
    with tempfile.TemporaryDirectory() as where:
        write_text(where, "zz_one", 'GROUPS = ("nobody",)\n')
        with ksft_raises(groups.UnknownGroup):
            harness.find_files(where)


LIBRARY = """
from .more import KEYS as NAMED
PARTITIONS = "a\\n" \\
             "b\\n"
FAULTS = {"test_one": object(), NAMED: print}
"""

FOLLOWING = """
from lib.table import FAULTS as CASES, PARTITIONS
from lib import WHY
from zz_library import CASES as OTHERS
BOOT = {"seconds": 7, "partitions": PARTITIONS}
print("this runs nothing")
raise SystemExit

@ours_only(WHY)
def test_x():
    pass
"""


def test_names_followed():
    """What a file imports from the library or another test file is read there."""
    with tempfile.TemporaryDirectory() as where:
        os.mkdir(os.path.join(where, "lib"))
        write_text(where, "lib/__init__", "from .more import WHY\n")
        write_text(where, "lib/more", 'KEYS = "test_two"\nWHY = "a reason"\n')
        write_text(where, "lib/table", LIBRARY)
        write_text(where, "zz_library", FOLLOWING)
        write_text(where, "zz_other", "from zz_library import CASES\n")
        library, other = harness.find_files(where)
    ksft_eq(library.cases, ["test_one", "test_two", "test_x"])
    ksft_eq((library.boot["partitions"], library.boot["seconds"]), ("a\nb\n", 7))
    ksft_eq(library.known, [("test_x", "ours_only", "a reason")])
    ksft_eq(other.cases, ["test_one", "test_two"])


def test_names_unknown():
    """What the text does not say is an error that names the file, not a default."""
    for text in ("BOOT = {'partitions': NOWHERE}", "from os import sep\nBOOT = sep",
                 "BOOT = dict(hcas=3)", "CASES = ('test_x',)",
                 "from lib.gone import CASES"):
        with tempfile.TemporaryDirectory() as where:
            write_text(where, "zz_one", text + "\n")
            with ksft_raises(literals.Unreadable, text) as found:
                harness.find_files(where)
            ksft_in("zz_one.py", str(found.error), text)


def test_longest_prefix():
    """The longest prefix of a file's name says its groups."""
    ksft_eq(groups.of_file("children_random"), ("scale", "children"))
    ksft_eq(groups.of_file("children_randomly"), ("core", "children"))
    ksft_eq(groups.of_file("life_anything"), ("life",))
    ksft_eq(groups.of_file("zz_anything"), ())


def test_budgets():
    """Each file has a group, and what a group states fits its budget."""
    files = harness.find_files(TESTS)
    for file in files:
        for case in file.cases:
            ksft_true(file.groups_of(case), f"{file.name}.{case}: no group")
    for name, group in groups.GROUPS.items():
        jobs = harness.make_jobs(files, "@" + name, teardown=True)
        ksft_true(jobs, f"somebody in @{name}")
        ksft_le(round(groups.estimate(jobs, name) / 60, 1), group.minutes,
                f"minutes of @{name}")


def test_spread():
    """Any number of places that a sample begins with are spread over all."""
    for count in (0, 1, 2, 7, 100):
        for first in range(24):
            order = sites.spread(count, first)
            ksft_eq(sorted(order), list(range(count)))
            for chosen in range(1, count + 1):
                edges = [-1, *sorted(order[:chosen]), count]
                gap = max(after - before for before, after in zip(edges, edges[1:]))
                ksft_le(gap, 2 + 2 * count / chosen, f"{chosen} of {count}")
    firsts = {sites.spread(24, first)[0] for first in range(24)}
    ksft_le(15, len(firsts), "operations begin elsewhere")


def sampled(where, count, took, last=False):
    """
    What fails in the sample of an operation with @count sites, the first of which is a
    QP's, if each try takes so many seconds: [(site, times)].
    """
    def make():
        return sites.Operation("made up", None, None, last=last)

    def now():
        return clock[0]

    def inject(_operation, _module, site, times):
        clock[0] += took
        failed.append((site.offset, times))
        return 1, ""
    there = [sites.Site("memory" if place else "destroy_qp", place, "f")
             for place in range(count)]
    clock, failed = [0.0], []
    old = {name: getattr(sites, name) for name in ("now", "inject", "explore")}
    vars(sites).update(now=now, inject=inject, explore=lambda *_: there)
    try:
        sites.sample(make, sites.Module("none"), [*[None] * where, make])
    finally:
        vars(sites).update(old)
    return failed


def test_sample():
    """A sample is the same each time, has all ways to fail, and ends in time."""
    share = sites.seconds(sites.SAMPLE_SECONDS / 3)
    whole = sampled(2, 40, share / 19.5)
    ksft_eq(len(whole), 20)
    ksft_eq(whole, sampled(2, 40, share / 19.5))
    ksft_eq(whole[:5], sampled(2, 40, share / 4.5), "on a slower host")
    ksft_eq(sampled(2, 40, 3 * share), whole[:1], "one at least")
    ksft_eq({times for _, times in whole}, set(sites.TIMES))
    ksft_eq(len({place for place, _ in whole}), 20, "sites")
    ksft_eq(sorted(place for place, _ in sampled(2, 5, 0)), list(range(5)), "no more")
    for where in range(6):
        ksft_false((0, 0) in sampled(where, 1, 0, last=True), "a QP that is left")
    sites.all_sampled(sites.Module("none"))
    with ksft_raises(Skip):
        sites.all_sampled(sites.Module("never sampled"))


def test_estimate():
    """An estimate is when the last machine ends, slower where that is so."""
    with tempfile.TemporaryDirectory() as where:
        for number in range(3):
            write_file(where, f"events_{number}x", {"hcas": 2 + number,
                       "seconds": 100}, ["test_x"])
        jobs = harness.make_jobs(harness.find_files(where))
    one = 100 + harness.BOOT_SECONDS
    ksft_eq(groups.makespan(jobs), 2 * one)
    ksft_eq(groups.estimate(jobs, "core"),
            groups.BUILD_SECONDS + groups.TAKEN * 2 * one)
    ksft_eq(groups.estimate(jobs, "life"), groups.BUILD_SECONDS +
            groups.TAKEN * slowness.DEBUG_RUNS * 2 * one)


def test_silence():
    """A machine is ended after the longest that one of its cases may take there."""
    with tempfile.TemporaryDirectory() as where:
        write_text(where, "zz_one", GROUPED.replace("timeout(3)", "timeout(500)"))
        file, = harness.find_files(where)
    ksft_eq([file.limit_of(case) for case in ("test_x", "test_y")],
            [slowness.CASE, 500])
    # Of nobody's choice: as check sets it in machines
    with mock.patch.dict(os.environ):
        os.environ.pop("TCG_SLOW", None)
        for kernel in ("6.12", "debug"):
            there = slowness.cases(slowness.CHECK * slowness.kernel(kernel))
            for case in ("test_x", "test_y"):
                begin, other = harness.silence([(file, [case])], kernel)
                ksft_le(60 * slowness.kernel(kernel), begin)
                ksft_le(file.limit_of(case) * there + 60, other)
        ksft_le(harness.silence([(file, ["test_x"])], "6.12")[1], 400)
    ksft_eq(slowness.cases(slowness.CHECK), 1)


def test_bad_boot():
    """A BOOT with a word nobody knows is an error, not a default."""
    with tempfile.TemporaryDirectory() as where:
        write_file(where, "a_one", {"hcaz": 2}, ["test_x"])
        with ksft_raises(ValueError):
            harness.find_files(where)


def test_every_file_is_found():
    """The files of this directory have cases, and names that differ."""
    files = harness.find_files(TESTS)
    ksft_true(len(files) > 10)
    for file in files:
        ksft_true(file.cases, file.name)
        ksft_eq(len(file.cases), len(set(file.cases)), file.name)
        ksft_true(file.doc, f"{file.name} says what it is")
