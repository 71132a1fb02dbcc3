# SPDX-License-Identifier: GPL-2.0-only
"""What tools/testing/check is made of: finding, grouping and judging cases.

Nothing here starts a machine; that keeps the verdict testable on its own.
"""

import ast
import fnmatch
import functools
import os
import re
import threading

import slowness
from . import groups, kunit, literals

# What a test file may say in its BOOT dictionary, and what holds if not.
BOOT_DEFAULTS = {
    "ipoib": "any",     # any: the module under test; ours, stock, none, or
                        # interop: the distribution's, ours by the test
    "hcas": 2,
    "ports": 1,
    "hca": "",          # capabilities of every HCA, "key=value,..."
    "fabric": "",       # parameters of the fabric's module
    "partitions": "",   # text of OpenSM's partitions.conf
    "sm": "opensm",
    "append": "",       # kernel arguments
    "debug_append": "",  # those on the debug kernel, if they are others
    "mem": 0,           # MiB, 0: as the runner likes
    "cpus": 2,
    "image": False,     # in a Debian with systemd, see vm/image
    "needs": "",        # make targets to build before
    "group": "",        # files with different names here do not share a boot
    "seconds": 10,      # what the file takes, roughly: to share out the work
}


# What a case says of the distribution's module, and what that means: in
# lib/ksft.py.
KNOWN_MARKS = {
    "fixed_in_ours": "a defect of the distribution's module",
    "ours_differs": "ours behaves otherwise by design",
    "ours_only": "does not exist there; skipped",
}

# The last case of every machine: see lib/teardown.py.
TEARDOWN = "teardown"
TEARDOWN_SECONDS = 5
BOOT_SECONDS = 15
# A machine that has not run anything after so many seconds never will.
BOOT_LIMIT = 300
# One with which nothing is wrong says something so often, unless a case may take
# longer: then the machine itself ends the case, and has this to do so.
CASE_LIMIT = 360
CASE_EXCESS = 60


class TestFile:
    """A test file as its text says, without running it: see literals.py."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        text = literals.Text(path, os.path.dirname(path))
        self.doc = (ast.get_docstring(text.tree) or "").split("\n")[0]
        self.cases = []
        self.boot = dict(BOOT_DEFAULTS)
        self.host = False
        self.kunit = False
        self.groups = groups.of_file(self.name)
        self.own_groups = {}    # of cases that name theirs
        self.known = []         # (case, mark, reason): see KNOWN_MARKS
        self.limits = {}        # of cases that state theirs, in seconds
        for node in text.tree.body:
            if isinstance(node, ast.FunctionDef) and \
               node.name.startswith("test_"):
                self.cases.append(node.name)
            for name in literals.names_of(node):
                self._read_name(text, name)
        for node in text.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in self.cases:
                self._read_marks(text, node)

    def _read_name(self, text, name):
        """What a name at the file's top level says, if it is one of ours."""
        if name == "BOOT":
            self._set_boot(text.value_of(name))
        elif name == "CASES":
            self.cases += text.keys_of(name)
        elif name == "KUNIT":
            self.kunit = True
            self.cases += kunit.cases(os.path.join(
                os.path.dirname(self.path), text.value_of(name)))
        elif name == "GROUPS":
            self.groups = groups.check(text.value_of(name), self.path)
        elif name == "SECONDS":
            self.boot["seconds"] = text.value_of(name)

    def _read_marks(self, text, node):
        """What the decorators of a case say; their texts may have names."""
        for mark in node.decorator_list:
            if not isinstance(mark, ast.Call):
                continue
            name = getattr(mark.func, "id", "")
            if name == "timeout" and isinstance(mark.args[0], ast.Constant):
                self.limits[node.name] = mark.args[0].value
            if name not in ("in_groups", *KNOWN_MARKS):
                continue
            args = [text.value(arg) for arg in mark.args]
            if name == "in_groups":
                self.own_groups[node.name] = groups.check(
                    args, f"{self.path}: {node.name}")
            else:
                self.known.append((node.name, name, args[0]))

    def limit_of(self, case):
        """
        Seconds that a case may take.  One whose limit is an expression says
        something now and then.
        """
        return self.limits.get(case, slowness.CASE)

    def groups_of(self, case):
        """The groups that a case is in."""
        return self.own_groups.get(case, self.groups)

    def _set_boot(self, value):
        if value == "host":
            self.host = True
            return
        unknown = set(value) - set(BOOT_DEFAULTS)
        if unknown:
            raise ValueError(f"{self.path}: BOOT has {unknown}")
        self.boot.update(value)

    def module(self, kind):
        """Which module the file runs with; None: not with this @kind."""
        want = self.boot["ipoib"]
        if want == "any":
            return kind
        if want in ("ours", "interop"):
            return want if kind == "ours" else None
        return want


def find_files(directory):
    """The test files of a directory, by name."""
    return [TestFile(os.path.join(directory, name))
            for name in sorted(os.listdir(directory))
            if re.fullmatch(r"[a-z]+_\w+\.py", name)]


@functools.lru_cache(16)
def words_of(pattern):
    """The parts of T=@pattern, which is asked for each case again."""
    return tuple(re.split(r"[ ,]+", pattern.strip(" ,"))
                 if pattern.strip(" ,") else ())


def check_pattern(pattern):
    """Raises groups.UnknownGroup if T=@pattern names one."""
    groups.check([word[1:] for word in words_of(pattern)
                  if word.startswith("@") and word[1:] != groups.ALL], "T")


def matches(pattern, file_name, case, in_groups=()):
    """
    Is a case selected by T=@pattern: a group of it, part of its name, or a
    glob?
    """
    if not words_of(pattern):
        return True
    full = f"{file_name}.{case}"
    for one in words_of(pattern):
        if one.startswith("@"):
            if one[1:] in (groups.ALL, *in_groups):
                return True
            continue
        one = one.removesuffix(".py")
        if any(c in one for c in "*?["):
            if fnmatch.fnmatch(full, one) or fnmatch.fnmatch(file_name, one) \
               or fnmatch.fnmatch(case, one):
                return True
        elif one in full:
            return True
    return False


def silence(files, kernel):
    """
    Seconds after which a machine hangs that never said anything, and after which
    one that did.  @files are (TestFile, [case, ...]), @kernel is what it boots.
    """
    slow = slowness.emulation() * slowness.kernel(kernel)
    there = slowness.emulation(slowness.handed_on()) * slowness.kernel(kernel)
    longest = max(file.limit_of(case) for file, cases in files for case in cases)
    return (BOOT_LIMIT * slow, max(CASE_LIMIT * slow, (longest + CASE_EXCESS) *
                                   slowness.cases(there)))


class Job:
    """Cases that run in one machine (or on the host), in order."""

    def __init__(self, key, boot, host=False):
        self.key, self.boot, self.host = key, boot, host
        self.files = []         # (TestFile, [case, ...])

    def names(self):
        return [f"{file.name}.{case}" for file, cases in self.files
                for case in cases]

    def seconds(self):
        """About how long it takes."""
        total = 0 if self.host else BOOT_SECONDS
        for file, cases in self.files:
            share = len([c for c in cases if c != TEARDOWN]) / len(file.cases)
            total += file.boot["seconds"] * share
            total += TEARDOWN_SECONDS * (TEARDOWN in cases)
        return total

    def title(self):
        if self.host:
            return "host"
        said = [f"{key}={value}" for key, value in sorted(self.boot.items())
                if value != BOOT_DEFAULTS.get(key) and
                key not in ("partitions", "needs", "seconds", "ipoib",
                            "debug_append")]
        if self.boot["partitions"]:
            said.append("partitions")
        return " ".join([f"{self.boot['ipoib']} module", *said])


def make_jobs(files, pattern="", kind="ours", most=150, teardown=False):
    """
    Group files that want the same boot.  A group of more than @most seconds
    is divided, so that two machines can share it.  A @teardown ends each
    machine.
    """
    check_pattern(pattern)
    jobs = {}
    for file in sorted(files, key=lambda f: not f.kunit):
        cases = [c for c in file.cases
                 if matches(pattern, file.name, c, file.groups_of(c))]
        if not cases:
            continue
        if file.host:
            job = jobs.setdefault(("host",), Job(("host",), {}, host=True))
            job.files.append((file, cases))
            continue
        module = file.module(kind)
        if module is None:
            continue
        boot = dict(file.boot, ipoib=module)
        key = tuple(sorted((k, v) for k, v in boot.items()
                           if k not in ("seconds", "needs")))
        job = jobs.setdefault(key, Job(key, boot))
        job.files.append((file, cases))
    parts = [part for job in jobs.values() for part in _divide(job, most)]
    for part in parts:
        if teardown and not part.host:
            part.files[-1][1].append(TEARDOWN)
    return parts


def _divide(job, most):
    if job.host or job.seconds() <= most or len(job.files) < 2:
        return [job]
    parts = max(2, int(job.seconds() // most) + 1)
    goal = job.seconds() / parts
    out, current = [], None
    for entry in job.files:
        if current is None or (current.seconds() >= goal and
                               len(out) < parts):
            current = Job(job.key, job.boot)
            out.append(current)
        current.files.append(entry)
    return out


class Tally:
    """Numbers the cases, prints them, and knows the verdict."""

    def __init__(self, write=print):
        self.write = write
        self.number = 0
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.took = {}
        self.lock = threading.Lock()

    def case(self, good, name, directive="", remarks=()):
        """A case ended."""
        with self.lock:
            self.number += 1
            for line in remarks:
                self.write(f"# {line}" if line else "#")
            tail = f" # {directive}" if directive else ""
            self.write(f"{'ok' if good else 'not ok'} {self.number} "
                       f"{name}{tail}")
            if not good:
                self.failed += 1
                self.failures.append(name)
            elif directive.upper().startswith("SKIP"):
                self.skipped += 1
            else:
                self.passed += 1

    def remark(self, text):
        with self.lock:
            self.write(f"# {text}")

    def summary(self):
        return (f"{self.passed} passed, {self.failed} failed, "
                f"{self.skipped} skipped")

    def status(self):
        """What to exit with: nothing failed, and something was done."""
        return 0 if self.failed == 0 and self.number > 0 else 1


RESULT = re.compile(r"^(ok|not ok) \d+ (?:- )?(\S+)(?: # (.*))?$")
RUN = re.compile(r"^# run (\S+)$")
TIME = re.compile(r"^# time (\S+) ([\d.]+)$")


class Reader:
    """
    Reads the output of one machine.  Every case that is expected gets exactly
    one result, whatever the machine does.
    """

    def __init__(self, tally, expected, must_run=()):
        self.tally = tally
        self.left = list(expected)
        self.must_run = set(must_run)
        self.done = []
        self.running = None
        self.remarks = []
        self.strange = []

    def feed(self, line):
        """One line of the machine's standard output."""
        line = line.rstrip("\r\n")
        found = RUN.match(line)
        if found:
            self.running, self.remarks = found.group(1), []
            return
        found = TIME.match(line)
        if found:
            self.tally.took[found.group(1)] = float(found.group(2))
            return
        found = RESULT.match(line)
        if found:
            verdict, name, directive = found.groups()
            if name not in self.left:
                self.strange.append(name)
                self.tally.case(False, name, "",
                                ["a result nobody expected", *self.remarks])
            else:
                self.left.remove(name)
                self.done.append(name)
                self._result(name, verdict == "ok", directive or "")
            self.running, self.remarks = None, []
            return
        if line.startswith(("KTAP version", "1..")):
            return
        self.remarks.append(line[2:] if line.startswith("# ") else line)

    def _result(self, name, good, directive):
        if name in self.must_run and directive.upper().startswith("SKIP"):
            good = False
            self.remarks.append("skipped, which groups.py does not allow: "
                                + directive)
            directive = ""
        self.tally.case(good, name, directive, self.remarks)

    def finish(self, status, reports=(), last_try=True):
        """
        The machine ended with @status.  @reports: (case or None, text) of
        each complaint of the kernel.  Returns the cases that did not get
        their turn and may try another machine; with @last_try they fail.
        """
        reports = list(reports)
        if self.running in self.left:
            why = [text for case, text in reports
                   if case in (self.running, None)]
            reports = [r for r in reports
                       if r[0] not in (self.running, None)]
            name = self.running
            self.left.remove(name)
            self.tally.case(False, name, "", [
                *self.remarks, *_lines(why),
                f"the machine ended (status {status}) while this ran"])
            self.done.append(name)
            status_explained = True
        else:
            status_explained = False
        for case, text in reports:
            where = case or "boot"
            self.tally.case(False, f"{where}:kernel-log", "",
                            _lines([text]))
            status_explained = True
        left, self.left = self.left, []
        if left and (last_try or not self.done):
            for name in left:
                self.tally.case(False, name, "", [
                    *self.remarks[-20:],
                    f"did not run: the machine ended (status {status})"])
                self.remarks = []
            return []
        bad = {*self.tally.failures} & {*self.done} or self.strange
        if status and not left and not status_explained and not bad:
            self.tally.case(False, "boot", "", [
                *self.remarks[-20:], f"the machine ended with status {status} "
                "although every case passed"])
        return left


def _lines(texts):
    return [line for text in texts for line in str(text).splitlines()]


MARKER = re.compile(r"IPOIB-TEST: (\S+)")


def case_at(log_lines, index):
    """Which case was running at a line of the kernel log; None: none."""
    for line in reversed(log_lines[:index + 1]):
        found = MARKER.search(line)
        if found:
            return None if found.group(1) == "end" else found.group(1)
    return None
