# SPDX-License-Identifier: GPL-2.0-only
"""Cases, checks and KTAP, in the manner of the kernel's drivers/net tests.

A case is a function whose name starts with "test_".  It fails by raising
Failed, which the ksft_*() checks do.  What it changes it gives back with
defer(), at once after the change; deferred calls run last in, first out,
whatever happened.
"""

import contextlib
import functools
import os
import signal
import time
import traceback
import types

import slowness


class Failed(Exception):
    """A check did not hold."""


class Skip(Exception):
    """The case cannot run here; the text says what is missing."""


class SetupFailed(Exception):
    """What a case stands on could not be set up; never an expected failure."""


class CaseTimeout(Failed):
    """The case took longer than it may."""


_deferred = []
_running = [None]
_results = {"pass": 0, "fail": 0, "skip": 0}


# ---- checks ------------------------------------------------------------


def _fail(text, comment):
    raise Failed(f"{comment}: {text}" if comment else text)


def ksft_eq(a, b, comment=""):
    if a != b:
        _fail(f"{a!r} is not {b!r}", comment)


def ksft_ne(a, b, comment=""):
    if a == b:
        _fail(f"both are {a!r}", comment)


def ksft_true(a, comment=""):
    if not a:
        _fail(f"{a!r} is not true", comment)


def ksft_false(a, comment=""):
    if a:
        _fail(f"{a!r} is not false", comment)


def ksft_in(a, b, comment=""):
    if a not in b:
        _fail(f"{a!r} is not in {_short(b)}", comment)


def ksft_not_in(a, b, comment=""):
    if a in b:
        _fail(f"{a!r} is in {_short(b)}", comment)


def ksft_ge(a, b, comment=""):
    if not a >= b:
        _fail(f"{a!r} is less than {b!r}", comment)


def ksft_gt(a, b, comment=""):
    if not a > b:
        _fail(f"{a!r} is not more than {b!r}", comment)


def ksft_le(a, b, comment=""):
    if not a <= b:
        _fail(f"{a!r} is more than {b!r}", comment)


def ksft_lt(a, b, comment=""):
    if not a < b:
        _fail(f"{a!r} is not less than {b!r}", comment)


@contextlib.contextmanager
def ksft_raises(kind, comment=""):
    """
    The block must raise @kind (an exception class or a tuple of them); what
    was raised is in the result's field error.
    """
    raised = types.SimpleNamespace(error=None)
    try:
        yield raised
    except kind as error:
        raised.error = error
        return
    _fail("no error was raised", comment)


def ksft_pr(*args):
    """Print a remark of the running case."""
    for line in " ".join(str(a) for a in args).splitlines() or [""]:
        print("#", line, flush=True)


def _short(thing, limit=300):
    text = repr(thing)
    return text if len(text) <= limit else text[:limit] + "..."


# ---- clean-up ----------------------------------------------------------


_case = {"failed": False}


def case_failed():
    """For what is deferred: has the case failed?"""
    return _case["failed"]


class _Deferred:
    def __init__(self, func, args, kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs

    def cancel(self):
        """Forget about it."""
        if self in _deferred:
            _deferred.remove(self)

    def exec(self):
        """Do it now instead of at the end of the case."""
        self.cancel()
        return self.func(*self.args, **self.kwargs)


def defer(func, *args, **kwargs):
    """Call @func at the end of the case, last deferred first."""
    entry = _Deferred(func, args, kwargs)
    _deferred.append(entry)
    return entry


@contextlib.contextmanager
def undone():
    """What the block defers is called at its end, not at that of the case."""
    before = len(_deferred)
    try:
        yield
    finally:
        while len(_deferred) > before:
            entry = _deferred.pop()
            entry.func(*entry.args, **entry.kwargs)


def _flush_deferred():
    """Run what was deferred; the list of what went wrong meanwhile."""
    errors = []
    while _deferred:
        entry = _deferred.pop()
        try:
            entry.func(*entry.args, **entry.kwargs)
        except Exception:  # pylint: disable=broad-except
            errors.append(traceback.format_exc(limit=-4))
    return errors


# ---- what a case says about itself -------------------------------------


def timeout(seconds):
    """How long the case may take, before scaling for a slow machine."""
    def mark(func):
        func.ksft_timeout = seconds
        return func
    return mark


def in_groups(*_names):
    """
    The groups of the case, where they are not those of its file: see groups.py.
    Read from the text by tools/testing/check, so these must be literals.
    """
    return lambda func: func


def fixed_in_ours(defect, on=None):
    """
    The in-tree module has a @defect that this case finds: with it a failure
    is expected, with @on on HCAs with such an interface of their own only ("own",
    "ud" or "own ud").  Ours must pass.
    """
    def mark(func):
        if on is None or own_interfaces() in on.split():
            func.ksft_xfail = f"in-tree module: {defect}"
        return func
    return mark


def ours_differs(reason, on=None):
    """Ours behaves otherwise by design: the in-tree module may fail here."""
    def mark(func):
        if on is None or own_interfaces() in on.split():
            func.ksft_xfail = f"differs by design: {reason}"
        return func
    return mark


def ours_only(reason):
    """What the case looks at does not exist in the in-tree module."""
    def mark(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            if module_kind() == "stock":
                raise Skip(f"ours only: {reason}")
            return func(*args, **kwargs)
        return wrapper
    return mark


def own_interfaces():
    """What kind of interface of their own HCAs have here: "own", "ud", or ""."""
    path = "/sys/module/ibdevsim/parameters/hca"
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii") as file:
        keys = dict(word.split("=", 1) for word in file.read().strip().split(",")
                    if "=" in word)
    return keys.get("rdma_netdev", "none").replace("none", "")


def _not_on(kinds, words):
    def mark(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            if own_interfaces() in kinds:
                raise Skip(words)
            return func(*args, **kwargs)
        return wrapper
    return mark


def verbs_only(reason):
    """What the case looks at does not exist where HCAs have an interface of their own."""
    return _not_on(("own", "ud"), f"queue pairs only: {reason}")


def not_ud(reason):
    """It does not exist with interfaces as hfi1's, which can do less."""
    return _not_on(("ud",), f"not on hfi1's kind: {reason}")


def module_kind():
    """Which ib_ipoib is tested: "ours", "stock" or "none"."""
    kind = os.environ.get("IPOIB_MODULE", "none")
    return kind if kind in ("stock", "none") else "ours"


# ---- running -----------------------------------------------------------


def marker(text):
    """Leave a line in the kernel log, so that a report finds its case."""
    if os.environ.get("IPOIB_TEST_HOST"):
        return
    try:
        with open("/dev/kmsg", "w", encoding="ascii") as kmsg:
            kmsg.write(f"IPOIB-TEST: {text}\n")
    except OSError:
        pass


def expect_report(kind):
    """
    The kernel will complain of what the rest of the case does: a report of
    this kind (tools/testing/vm/klog.py) is no failure.
    """
    marker(f"{_running[0]} expects {kind}")


def _on_alarm(_signum, _frame):
    # Again in a while: something may have swallowed the first one.
    signal.alarm(30)
    raise CaseTimeout("the case took too long")


def _explain(error):
    where = traceback.extract_tb(error.__traceback__)
    lines = []
    for frame in where:
        if "/lib/ksft.py" in frame.filename or frame.name == "wrapper":
            continue
        base = os.path.basename(frame.filename)
        lines.append(f"{base}:{frame.lineno} {frame.name}(): {frame.line}")
    return lines


def _run_one(func):
    """Run a case and its clean-up; (verdict, directive, list of remarks)."""
    verdict, directive, remarks = "ok", "", []
    xfail = getattr(func, "ksft_xfail", None)
    if module_kind() != "stock":
        xfail = None
    limit = getattr(func, "ksft_timeout", slowness.CASE) * slowness.cases()
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.alarm(int(limit))
    _case["failed"] = False
    try:
        func()
        if xfail:
            remarks.append(f"expected to fail, but passed ({xfail})")
    except Skip as skip:
        directive = f"SKIP {skip}"
    except Failed as error:
        remarks += _explain(error) + [str(error)]
        if xfail:
            directive = f"XFAIL {xfail}"
        else:
            verdict = "not ok"
    except Exception as error:  # pylint: disable=broad-except
        remarks += _explain(error) + [f"{type(error).__name__}: {error}"]
        verdict = "not ok"
    signal.alarm(int(limit))
    errors = []
    _case["failed"] = verdict != "ok"
    try:
        errors = _flush_deferred()
    except CaseTimeout:
        errors = ["the clean-up took too long"] + _flush_deferred()
    finally:
        signal.alarm(0)
    if errors:
        for text in errors:
            remarks += ["in clean-up:"] + text.splitlines()
        verdict = "not ok"
        directive = ""
    return verdict, directive, remarks


def run_cases(cases, start=1, prefix=""):
    """
    Run (name, function) pairs and print their results.  A line "# run NAME"
    goes before each, so that whoever reads along knows which case was running
    when the output ended.
    """
    number = start
    for name, func in cases:
        full = prefix + name
        print(f"# run {full}", flush=True)
        _running[0] = full
        marker(full)
        begin = time.monotonic()
        verdict, directive, remarks = _run_one(func)
        took = time.monotonic() - begin
        for line in remarks:
            ksft_pr(line)
        tail = f" # {directive}" if directive else ""
        print(f"# time {full} {took:.2f}", flush=True)
        print(f"{verdict} {number} {full}{tail}", flush=True)
        if verdict != "ok":
            _results["fail"] += 1
        elif directive.startswith("SKIP"):
            _results["skip"] += 1
        else:
            _results["pass"] += 1
        number += 1
    marker("end")
    return number


def cases_of(namespace):
    """The cases of a module, in the order of its text."""
    found = [(name, obj) for name, obj in namespace.items()
             if name.startswith("test_") and callable(obj)]

    def line(item):
        func = item[1]
        while hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        return func.__code__.co_firstlineno
    return sorted(found, key=line)


def define(namespace, cases, act):
    """
    Make cases of a table, CASES: @act is called with what stands behind the name
    of the case.  Marks of @act are those of all of them.
    """
    for name, value in cases.items():
        @functools.wraps(act)
        def case(value=value):
            act(value)
        namespace[name] = case


def failures():
    """How many cases failed so far."""
    return _results["fail"]
