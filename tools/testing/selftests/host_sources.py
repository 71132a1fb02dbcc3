#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The tools themselves: syntax, licences, the detector's own tests."""

import ast
import os
import re
import subprocess
import sys

from lib import ksft_eq, ksft_pr, ksft_true, main

BOOT = "host"

HERE = os.path.dirname(os.path.realpath(__file__))
TESTING = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(TESTING))
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


def test_log_detector():
    """The kernel log detector finds what is bad in stored logs."""
    done = subprocess.run([sys.executable, os.path.join(TESTING, "vm",
                                                        "test_klog.py")],
                          capture_output=True, text=True, check=False)
    for line in (done.stdout + done.stderr).splitlines()[-12:]:
        ksft_pr(line)
    ksft_eq(done.returncode, 0)


if __name__ == "__main__":
    main(globals())
