# SPDX-License-Identifier: GPL-2.0-only
"""Commands, files, waiting and the kernel log."""

import glob
import json
import os
import re
import signal
import subprocess
import time

import slowness

from .ksft import Failed, Skip, module_kind


def slow(seconds):
    """@seconds on real hardware, in seconds of this machine."""
    return seconds * slowness.waits()


def now():
    return time.monotonic()


def module():
    """Which ib_ipoib is under test: "ours", "stock" or "none"."""
    return module_kind()


# ---- files -------------------------------------------------------------


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def read_int(path):
    return int(read(path), 0)


def write(path, value):
    """Write to a sysfs, debugfs or proc file; raises OSError as it does."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def exists(path):
    return os.path.exists(path)


def module_range(name="ib_ipoib"):
    """Where a module's code is: (first, behind the last) address."""
    table = {words[0]: (int(words[5], 16), int(words[1]))
             for words in map(str.split, read("/proc/modules").splitlines())}
    if name not in table:
        raise Failed(f"{name} is not loaded")
    start, size = table[name]
    # The size includes data that is elsewhere: other code may come earlier.
    return start, min([start + size, *(other for other, _ in table.values()
                                       if other > start)])


# ---- commands ----------------------------------------------------------


class CmdError(Failed):
    """A command ended with a status other than 0."""

    def __init__(self, what, status, out, err):
        self.status, self.stdout, self.stderr = status, out, err
        text = (err or out).strip()
        super().__init__(f"{what}: status {status}: {text[:400]}")


class Result:
    """What a command printed and how it ended."""

    def __init__(self, args, status, out, err):
        self.args, self.status, self.stdout, self.stderr = (args, status,
                                                             out, err)
        self.ret = status


def cmd(args, fail=True, timeout=None, ns=None, stdin=None):
    """
    Run a command: a list, or a string for the shell.  With @fail a status
    other than 0 raises CmdError.
    """
    shell = isinstance(args, str)
    argv = ["sh", "-c", args] if shell else [str(a) for a in args]
    if ns is not None and ns.name:
        argv = ["ip", "netns", "exec", ns.name] + argv
    what = args if shell else " ".join(argv)
    try:
        done = subprocess.run(argv, capture_output=True, text=True,
                              errors="replace", check=False, input=stdin,
                              stdin=None if stdin else subprocess.DEVNULL,
                              timeout=(timeout or slow(10)) *
                              slowness.patience())
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{what}: no end after {late.timeout:.0f} s") from None
    if fail and done.returncode:
        raise CmdError(what, done.returncode, done.stdout, done.stderr)
    return Result(argv, done.returncode, done.stdout, done.stderr)


class bkg:  # pylint: disable=invalid-name
    """A command in the background, ended when the block is left."""

    def __init__(self, args, ns=None, exit_wait=False, fail=False):
        argv = ["sh", "-c", args] if isinstance(args, str) else list(args)
        if ns is not None and ns.name:
            argv = ["ip", "netns", "exec", ns.name] + argv
        self.argv, self.exit_wait, self.fail = argv, exit_wait, fail
        self.proc = subprocess.Popen(  # pylint: disable=consider-using-with
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True)
        self.stdout = self.stderr = None

    def stop(self, limit=None):
        """Wait for the end, or bring it about."""
        if not self.exit_wait and self.proc.poll() is None:
            self._signal(signal.SIGTERM)
        try:
            self.stdout, self.stderr = self.proc.communicate(
                timeout=(limit or slow(10)) * slowness.patience())
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.stdout, self.stderr = self.proc.communicate()
            if self.exit_wait:
                raise Failed(f"{' '.join(self.argv)}: did not end") from None
        if self.fail and self.proc.returncode:
            raise CmdError(" ".join(self.argv), self.proc.returncode,
                           self.stdout, self.stderr)
        return self

    def _signal(self, number):
        try:
            os.killpg(self.proc.pid, number)
        except ProcessLookupError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, kind, *_exc):
        if kind is None:
            self.stop()
            return
        # The block has failed: that is what is to be told, and whoever waits
        # for a peer that has given up need not be waited for.
        self.exit_wait, self.fail = False, False
        self.stop()


def need_modules(*modules):
    """Skip the case unless these modules, each with its words, can be loaded."""
    for words in modules:
        if cmd(["modprobe", "-q", *words.split()], fail=False).ret:
            raise Skip(f"the kernel has no {words.split()[0]}")


def ip(args, ns=None, json_out=False, fail=True, timeout=None):
    """iproute2's ip; with @json_out the decoded answer."""
    argv = ["ip"]
    if ns is not None and ns.name:
        argv += ["-n", ns.name]
    if json_out:
        argv += ["-j", "-d", "-s"]
    argv += args.split() if isinstance(args, str) else [str(a) for a in args]
    done = cmd(argv, fail=fail, timeout=timeout)
    if json_out:
        return json.loads(done.stdout or "[]")
    return done


def pids_of(comm):
    """The processes of that name."""
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            if read(path) == comm:
                pid = int(path.split("/")[2])
                state = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0]
                if state not in "ZX":
                    found.append(pid)
        except OSError:
            pass
    return found


# ---- waiting -----------------------------------------------------------


def wait_until(check, limit=5, what="", interval=0.03, scale=True, patient=True):
    """
    Call @check until it returns something true, and return that.  Fails after
    @limit seconds (of real hardware, unless @scale is false), or later, unless
    @patient is false: where the caller then does something about it.  Errors
    of files and commands count as "not yet".
    """
    if scale:
        limit = slow(limit) * (slowness.patience() if patient else 1)
    end = time.monotonic() + limit
    last = None
    while True:
        try:
            last = check()
            if last:
                return last
        except (OSError, CmdError, KeyError, IndexError, ValueError) as error:
            last = error
        if time.monotonic() >= end:
            name = what or getattr(check, "__name__", "condition")
            raise Failed(f"waited {limit:g} s in vain: {name} (last: {last!r})")
        time.sleep(interval)
        interval = min(interval * 1.3, 0.25)


def hold(seconds):
    """
    Let a state last that long, or see for so long that nothing happens.  It
    is what the case is about; for all else there is wait_until().
    """
    time.sleep(seconds)


def stagger(number, step=0.01):
    """
    Let a moment pass, another one for each @number, so that what comes next
    meets different states of what is on its way.
    """
    time.sleep(number * step)


# ---- kernel log --------------------------------------------------------


def _kmsg_lines():
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    lines = []
    try:
        while True:
            try:
                record = os.read(fd, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            head, _, text = record.partition(";")
            fields = head.split(",")
            lines.append((int(fields[1]), text.split("\n")[0]))
    finally:
        os.close(fd)
    return lines


def kmsg_tail():
    """A place in the kernel log, for kmsg_since()."""
    lines = _kmsg_lines()
    return lines[-1][0] if lines else -1


def kmsg_since(place=-1, pattern=None):
    """Lines of the kernel log after @place that match @pattern."""
    lines = [text for seq, text in _kmsg_lines() if seq > place]
    if pattern:
        lines = [text for text in lines if re.search(pattern, text)]
    return lines
