#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Tests of the kernel log detector, on stored logs.

NAME or NAME-VARIANT in badlogs.txt must be reported as NAME, the name of a
pattern; goodlogs/*.log must pass.
"""

import io
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import klog  # noqa: E402  pylint: disable=wrong-import-position

NAMES = sorted((p.name for p in klog.PATTERNS), key=len, reverse=True)
GOOD = os.path.join(HERE, "goodlogs")
BAD = tempfile.TemporaryDirectory()     # the logs of badlogs.txt, a file each


def setUpModule():      # pylint: disable=invalid-name
    """Write the bad logs, with their parts filled in and time stamps."""
    unittest.addModuleCleanup(BAD.cleanup)
    with open(os.path.join(HERE, "badlogs.txt"), encoding="utf-8") as file:
        _, *sections = re.split(r"\n\n== (.+)\n", file.read().rstrip("\n"))
    sections = {name: text.split("\n")
                for name, text in zip(sections[::2], sections[1::2])}

    def filled(lines):
        for line in lines:
            if line.startswith("@"):
                yield from filled(sections[f"part {line[1:]}"])
            else:
                yield line

    for name, lines in sections.items():
        if name.startswith("part "):
            continue
        with open(os.path.join(BAD.name, f"{name}.log"), "w",
                  encoding="utf-8") as file:
            for number, line in enumerate(filled(["@begin", *lines])):
                file.write(f"[   {41.2 + number / 5000:.6f}] {line}\n")


def logs(where):
    """Paths of the stored logs of a directory."""
    return [os.path.join(where, name) for name in sorted(os.listdir(where))
            if name.endswith(".log")]


def expected(path):
    """The pattern that a bad log is named after."""
    stem = os.path.basename(path)[:-len(".log")]
    for name in NAMES:
        if stem == name or stem.startswith(name + "-"):
            return name
    return None


def messages(path):
    """The messages of a log."""
    with open(path, encoding="utf-8") as file:
        return [klog.strip(line.rstrip("\n")) for line in file]


class Stored(unittest.TestCase):
    """The stored logs against the table."""

    def test_bad_logs_are_reported(self):
        for path in logs(BAD.name):
            with self.subTest(log=os.path.basename(path)):
                result = klog.check_file(path)
                self.assertTrue(result)
                kinds = {k for r in result.reports for k in r.kinds}
                self.assertIn(expected(path), kinds)

    def test_one_defect_is_one_report(self):
        for path in logs(BAD.name):
            with self.subTest(log=os.path.basename(path)):
                self.assertEqual(len(klog.check_file(path).reports), 1)

    def test_good_logs_pass(self):
        for path in logs(GOOD):
            with self.subTest(log=os.path.basename(path)):
                self.assertEqual(klog.check_file(path).text(), "")

    def test_every_pattern_is_hit(self):
        stored = [(expected(p), messages(p)) for p in logs(BAD.name)]
        for pattern in klog.PATTERNS:
            with self.subTest(pattern=pattern.name):
                lines = [line for name, found in stored
                         if name == pattern.name for line in found]
                self.assertTrue(any(pattern.regex.search(line)
                                    for line in lines))

    def test_names_are_unique(self):
        self.assertEqual(len(set(NAMES)), len(NAMES))

    def test_every_report_names_its_test(self):
        for path in logs(BAD.name):
            with self.subTest(log=os.path.basename(path)):
                report = klog.check_file(path).reports[0]
                self.assertEqual(report.test, "datagram_link.test_flap")


class Reports(unittest.TestCase):
    """How reports are cut out and told."""

    def bad(self, name):
        """The only report of a stored log."""
        result = klog.check_file(os.path.join(BAD.name, name))
        self.assertEqual(len(result.reports), 1)
        return result.reports[0]

    def test_whole_report_is_shown(self):
        report = self.bad("kasan.log")
        text = report.text()
        self.assertIn("BUG: KASAN: slab-use-after-free", text)
        self.assertIn("ipoib_neigh_reclaim+0x2e/0x50", text)
        self.assertIn("fa fb fb fb", text)

    def test_report_ends_where_others_go_on(self):
        lines = ["[    1.0] list_del corruption. prev is bad"]
        lines += [f"[    1.{n}] eth0: all is well" for n in range(1, 9)]
        report = klog.check_lines(lines).reports[0]
        self.assertEqual(len(report.lines), 1)

    def test_lines_of_others_do_not_end_it(self):
        lines = ["BUG: scheduling while atomic: ip/1/0x3", "Call Trace:",
                 "eth0: all is well", " foo+0x1/0x2", " bar+0x3/0x4"]
        report = klog.check_lines(lines).reports[0]
        self.assertEqual(report.lines, lines)

    def test_some_lines_before_it_are_shown(self):
        lines = [f"line {n}" for n in range(9)] + ["refcount_t: saturated"]
        text = klog.check_lines(lines).text()
        self.assertIn("line 8", text)
        self.assertIn("line 5", text)
        self.assertNotIn("line 4", text)

    def test_two_defects_are_two_reports(self):
        lines = ["IPOIB-TEST: a.first", "refcount_t: underflow",
                 "IPOIB-TEST: a.second", "ib0: hw csum failure"]
        reports = klog.check_lines(lines).reports
        self.assertEqual([(r.test, r.kinds) for r in reports],
                         [("a.first", ["refcount"]),
                          ("a.second", ["checksum"])])

    def test_what_a_test_expects(self):
        bark = "ib0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out"
        lines = ["IPOIB-TEST: a.first expects tx-watchdog", bark]
        result = klog.check_lines(lines)
        self.assertFalse(result)
        self.assertEqual([r.test for r in result.expected], ["a.first"])
        for more in (["refcount_t: underflow"],
                     ["IPOIB-TEST: a.first", bark],
                     ["IPOIB-TEST: a.second", bark]):
            with self.subTest(more=more):
                reports = klog.check_lines(lines + more).reports
                self.assertEqual(len(reports), 1)

    def test_another_driver(self):
        line = "ib0: Budget exhausted after napi rescheduled"
        stock, none = ("IPOIB-TEST: driver stock", "IPOIB-TEST: driver none")
        for lines, bad in (
                ([line], 1),
                (["IPOIB-TEST: a.first", stock, line], 0),
                (["IPOIB-TEST: a.first", stock, "refcount_t: underflow"], 1),
                (["IPOIB-TEST: a.first", stock, none, line], 1),
                (["IPOIB-TEST: a.first", stock, "IPOIB-TEST: end", line], 1),
                (["IPOIB-TEST: a.first", stock,
                  "IPOIB-TEST: a.first expects checksum", line], 0)):
            with self.subTest(lines=lines):
                self.assertEqual(len(klog.check_lines(lines).reports), bad)

    def test_before_any_test(self):
        report = klog.check_lines(["refcount_t: underflow"]).reports[0]
        self.assertIsNone(report.test)

    def test_fingerprint_is_of_functions(self):
        self.assertEqual(self.bad("warning.log").fingerprint()[0],
                         "ipoib_flush_paths")
        self.assertEqual(self.bad("warning.log").fingerprint(),
                         self.bad("warning-new.log").fingerprint())

    def test_title_is_the_message(self):
        self.assertEqual(self.bad("napi.log").title(),
                         "ib0: Budget exhausted after napi rescheduled")
        self.assertTrue(self.bad("warning.log").title().startswith(
            "WARNING: CPU: 1 PID: 412"))

    def test_many_reports_are_listed_shortly(self):
        lines = []
        for number in range(9):
            lines += [f"IPOIB-TEST: a.case{number}",
                      f"ib{number}: hw csum failure"]
        text = klog.check_lines(lines).text()
        for number in range(9):
            self.assertIn(f"ib{number}: hw csum failure", text)

    def test_stamps_and_callers(self):
        for prefix in ("", "[    1.200000] ", "[12345.678901][  T412] ",
                       "[    3.4][    C1] ", "<4>[    1.2] "):
            with self.subTest(prefix=prefix):
                self.assertTrue(klog.check_lines(
                    [prefix + "refcount_t: underflow"]))

    def test_carriage_returns_and_rubbish(self):
        self.assertTrue(klog.check_lines(["refcount_t: underflow\r\n"]))
        path = os.path.join(BAD.name, "refcount.log")
        self.assertFalse(klog.check_file(path, size=10))


class KnownComplaints(unittest.TestCase):
    """What the distribution's module is known for."""

    NAPI = "[    9.1] ib0: Budget exhausted after napi rescheduled"

    def test_only_with_that_module(self):
        self.assertTrue(klog.check_lines([self.NAPI]))
        result = klog.check_lines([self.NAPI], "stock")
        self.assertFalse(result)
        self.assertEqual(result.known[0][0], self.NAPI)

    def test_known_as_a_whole(self):
        def log(function):
            return ["[ 1.0] ------------[ cut here ]------------",
                    "[ 1.0] Destroy of kernel CQ shouldn't fail",
                    f"[ 1.0] WARNING: CPU: 0 PID: 9 at x.h:1 {function}+0xc/0xe",
                    "[ 1.0] ---[ end trace 0 ]---"]

        stock = log("ipoib_transport_dev_cleanup")
        self.assertTrue(klog.check_lines(stock))
        self.assertFalse(klog.check_lines(stock, "stock"))
        self.assertTrue(klog.check_lines(log("ipoib_cq_destroy"), "stock"))

    def test_stopped_though_empty(self):
        def log(tail, name="ib0: "):
            return ["[ 1.0] ib0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 "
                    "timed out 10844 ms",
                    "[ 1.0] ib0: transmit timeout: latency 10844 msecs",
                    f"[ 1.0] {name}queue stopped 1, tx_head 9, tx_tail {tail}, "
                    "global_tx_head 5, global_tx_tail 5"]

        self.assertTrue(klog.check_lines(log(9)))
        self.assertFalse(klog.check_lines(log(9), "stock"))
        self.assertTrue(klog.check_lines(log(8), "stock"))
        self.assertTrue(klog.check_lines(
            ["[ 1.0] ib0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out",
             "[ 1.0] ib0: transmit queue 0 stuck: head 9 tail 9"], "stock"))

    def test_the_kernels_own(self):
        def log(where):
            return ["[ 1.0] WARNING: suspicious RCU usage",
                    "[ 1.0] 6.12.117 #1 Tainted: G           O",
                    "[ 1.0] -----------------------------",
                    f"[ 1.0] {where}:266 RCU-list traversed in non-reader "
                    "section!!", "[ 1.0] ", "[ 1.0] Call Trace:"]

        self.assertFalse(klog.check_lines(
            log("drivers/target/target_core_device.c")))
        self.assertTrue(klog.check_lines(log("ipoib_path.c")))

    def test_it_excuses_nothing_else(self):
        for path in logs(BAD.name):
            if expected(path) == "napi":
                continue
            with self.subTest(log=os.path.basename(path)):
                self.assertTrue(klog.check_file(path, "stock"))

    def test_every_one_has_a_reason(self):
        for known in [klog.KERNEL, *klog.KNOWN.values()]:
            for each in known:
                self.assertGreater(len(each.reason), 20)

    def test_ours_has_none(self):
        self.assertEqual(klog.KNOWN["none"], [])


class CommandLine(unittest.TestCase):
    """klog.py as a program."""

    def status(self, *argv):
        """Run it; status and output."""
        out = io.StringIO()
        with redirect_stdout(out):
            code = klog.main(list(argv))
        return code, out.getvalue()

    def test_status(self):
        bad = os.path.join(BAD.name, "napi.log")
        good = os.path.join(GOOD, "boot.log")
        self.assertEqual(self.status(good), (0, ""))
        code, out = self.status(good, bad)
        self.assertEqual(code, 1)
        self.assertIn("Budget exhausted", out)
        code, out = self.status("--known", "stock", bad)
        self.assertEqual(code, 0)
        self.assertIn("let pass", out)


if __name__ == "__main__":
    unittest.main()
