# SPDX-License-Identifier: GPL-2.0-only
"""The tools themselves: syntax, licences, the detector's own tests."""

import ast
import os
import re
import subprocess
import sys

from lib import ksft_eq, ksft_pr, ksft_true, timeout
from common import ROOT, TESTING, TESTS

BOOT = "host"

PRUNE = {".git", "build", "__pycache__", "results"}


def files():
    """Text files of the tree, as (path, first line, text)."""
    for where, names, found in os.walk(ROOT):
        names[:] = [n for n in names if n not in PRUNE]
        for name in found:
            path = os.path.join(where, name)
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (UnicodeDecodeError, OSError):
                continue
            yield path, text.split("\n", 1)[0], text


def kind(path, first):
    """"python", "sh" or None."""
    if path.endswith(".py") or re.match(r"#!.*python", first):
        return "python"
    if path.endswith(".sh") or re.match(r"#!.*\b(sh|bash|dash)\b", first):
        return "sh"
    return None


def test_python_syntax():
    """Every python file compiles and uses what it imports."""
    count = 0
    for path, first, text in files():
        if kind(path, first) != "python":
            continue
        count += 1
        tree = ast.parse(text, path)
        if path.endswith("__init__.py"):
            continue
        ksft_eq(unused(tree, text), [], os.path.relpath(path, ROOT))
    ksft_true(count > 10)
    ksft_pr(f"{count} files")


# Files that may not sleep are those whose names begin so.
SLEEPLESS = ("children", "connected", "datagram", "defects", "events",
             "faults", "flood", "life", "offload", "queues", "sites", "wire")


def test_no_fixed_sleeps():
    """Cases wait for what they want to see; where time itself matters they
    say so, by hold() and stagger()."""
    for name in sorted(os.listdir(TESTS)):
        if name.split("_")[0] not in SLEEPLESS or not name.endswith(".py"):
            continue
        with open(os.path.join(TESTS, name), encoding="utf-8") as file:
            text = file.read()
        ksft_eq(re.findall(r"\btime\.sleep\(.*", text), [], name)


def unused(tree, text):
    """Names that are imported and not used."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names.add((alias.asname or alias.name).split(".")[0])
    return sorted(n for n in names
                  if len(re.findall(rf"\b{re.escape(n)}\b", text)) < 2)


def test_shell_syntax():
    """Every shell script parses."""
    count = 0
    for path, first, _ in files():
        if kind(path, first) != "sh":
            continue
        count += 1
        shell = "bash" if "bash" in first else "sh"
        done = subprocess.run([shell, "-n", path], capture_output=True,
                              text=True, check=False)
        ksft_eq(done.returncode, 0, f"{path}: {done.stderr}")
    ksft_true(count > 0)


def test_licences():
    """Every source says what its licence is."""
    missing = []
    for path, first, text in files():
        if kind(path, first) or path.endswith((".c", ".h")):
            if "SPDX-License-Identifier:" not in text[:400]:
                missing.append(os.path.relpath(path, ROOT))
    ksft_eq(missing, [])


# What sources may ask the preprocessor for: guards, configuration, the build
CONDITION = re.compile(
    r"(#ifndef \w+_H"
    r"|#(if|elif) .*\b(IS_ENABLED|IS_MODULE|IS_BUILTIN)\(CONFIG_\w+\).*"
    r"|#(ifdef|ifndef) (CONFIG_\w+|IPOIB_INTEROP|__KERNEL__)"
    r"|#if !defined\(\w+_H\) \|\| defined\(TRACE_HEADER_MULTI_READ\))")
VERSION = re.compile(r"\b(LINUX_VERSION\w*|KERNEL_VERSION|UTS_RELEASE"
                     r"|RHEL_RELEASE\w*)\b|linux/version\.h|__has_include")


def version_questions(text):
    """Lines of a C source that make it depend on the kernel's version."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = " ".join(line.split())
        directive = re.sub(r"^# ", "#", words)
        if VERSION.search(words) or \
           re.match(r"#(if|elif)", directive) and \
           not CONDITION.fullmatch(directive):
            found.append(words)
    return found


def test_versions_in_compat_only():
    """Only compat/ asks what kernel it is built for."""
    for bad in ("#if LINUX_VERSION_CODE < 1", "# include <linux/version.h>",
                "#ifdef netif_txq_maybe_stop", "#if defined(FOO) || \\\n BAR",
                "#ifndef kzalloc_obj", "#elif __has_include(<net/gso.h>)"):
        ksft_eq(len(version_questions(bad)), 1, bad)
    for good in ("#ifndef IPOIB_H", "#if IS_ENABLED(CONFIG_NET)",
                 "#ifdef IPOIB_INTEROP", "#endif", "int version;"):
        ksft_eq(version_questions(good), [], good)
    count, asked = 0, []
    for where in (ROOT, os.path.join(TESTING, "ibdevsim"),
                  os.path.join(TESTING, "ibdevsim", "selftest"),
                  os.path.join(TESTING, "broken"),
                  os.path.join(TESTING, "bench", "floor")):
        for name in sorted(os.listdir(where)):
            if not name.endswith((".c", ".h")) or name.endswith(".mod.c"):
                continue
            with open(os.path.join(where, name), encoding="utf-8") as file:
                asked += [f"{name}: {line}" for line in
                          version_questions(file.read())]
            count += 1
    ksft_eq(asked, [])
    ksft_true(count > 20, f"{count} files")


def run_unit_tests(name, *which):
    """The tests of a tool pass."""
    done = subprocess.run([sys.executable, os.path.join(TESTING, name),
                           *which],
                          capture_output=True, text=True, check=False)
    for line in (done.stdout + done.stderr).splitlines()[-12:]:
        ksft_pr(line)
    ksft_eq(done.returncode, 0)


def test_log_detector():
    """The kernel log detector finds what is bad in stored logs."""
    run_unit_tests("vm/test_klog.py")


def test_kernel_build():
    """kernel-build sees what the configuration lost, and takes the newest."""
    run_unit_tests("vm/test_kernel_build.py")


def test_kernels():
    """What fetches kernels reads apt's sources and a kernel's symbols."""
    run_unit_tests("vm/test_kernels.py")


@timeout(120)
def test_runner():
    """The runner: streams, options, what it refuses, and a panic."""
    run_unit_tests("vm/test_run.py", "Streams", "FirstProgram", "Options", "Archive",
                   "Refusals", "Machines.test_panic")


@timeout(120)
def test_floors_breached():
    """The checker of floors finds a breach of each rule, in the real sources,
    too."""
    run_unit_tests("test_floors.py")


def test_floors():
    """Calls between the files of driver and fabric only go down."""
    done = subprocess.run([sys.executable, os.path.join(TESTING, "floors")],
                          capture_output=True, text=True, check=False)
    wrong = (done.stdout + done.stderr).splitlines()
    for line in wrong:
        ksft_pr(line)
    ksft_eq((len(wrong), done.returncode), (0, 0))
