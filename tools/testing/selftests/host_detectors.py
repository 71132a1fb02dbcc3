#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Each detector of the kernel under test fires, and the runner hears it.

A module with defects (tools/testing/broken) is loaded in a machine of its own,
which brings them about one after the other.  The runner must report each, and
lay it at the door of the right test.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
import time

from lib import (Skip, cmd, kmemleak, ksft_eq, ksft_pr, ksft_true,
                 main, read, timeout, write)
from lib.ksft import marker

BOOT = "host"

HERE = os.path.dirname(os.path.realpath(__file__))
VM = os.path.join(os.path.dirname(HERE), "vm")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
KERNEL = os.environ.get("IPOIB_TEST_KERNEL", "6.12")
TRIGGER = "/sys/kernel/debug/broken/defect"
sys.path.append(VM)
import klog  # noqa: E402  pylint: disable=wrong-import-position

# Name of the defect, names of patterns of which its report matches one, and
# what the kernel must be configured with ("!": without).  The order matters:
# lockdep ends with its first report, and that of RCU with it; 6.1 does not live
# long after a double free.
DEFECTS = {
    "leak": ({"kmemleak"}, ["DEBUG_KMEMLEAK"]),
    "rcu-usage": ({"rcu-usage"}, ["PROVE_RCU"]),
    "lock-order": ({"lockdep-circular"}, ["PROVE_LOCKING"]),
    "sleep-in-atomic": ({"atomic"}, ["DEBUG_ATOMIC_SLEEP"]),
    "bounds": ({"ubsan"}, ["UBSAN_BOUNDS"]),
    "shift": ({"ubsan"}, ["UBSAN_SHIFT"]),
    "timer": ({"debug-objects"}, ["DEBUG_OBJECTS_FREE",
                                  "DEBUG_OBJECTS_TIMERS"]),
    "dma": ({"dma-api"}, ["DMA_API_DEBUG"]),
    "netdev-ref": ({"ref-tracker"}, ["NET_DEV_REFCNT_TRACKER"]),
    "refcount": ({"refcount"}, []),
    "fortify": ({"fortify"}, ["FORTIFY_SOURCE"]),
    "schedule-in-atomic": ({"atomic"}, ["PREEMPT_COUNT"]),
    "use-after-free": ({"kasan"}, ["KASAN"]),
    "out-of-bounds": ({"kasan", "slab"}, ["SLUB_DEBUG"]),
    "kfence": ({"kfence"}, ["KFENCE", "!KASAN"]),
    "hung-task": ({"hung-task"}, ["DETECT_HUNG_TASK"]),
    "soft-lockup": ({"soft-lockup"}, ["SOFTLOCKUP_DETECTOR"]),
    "list": ({"list"}, ["DEBUG_LIST"]),
    "double-free": ({"kasan", "slab"}, ["SLUB_DEBUG"]),
}
# Kernels whose allocator may oops (get_partial_node()) some time after the last
# defect, the double free
WRECKED = {"6.1"}
# What a debug kernel need not have
NOT_DEBUG = {"kfence"}
# Settings of the runner that end the machine, off for a while, and those that
# shorten the wait.
DEADLY = ("hung_task_panic", "softlockup_panic", "panic_on_oops")
SHORT = {"hung_task_timeout_secs": 2, "watchdog_thresh": 2}


# ---- in the machine ----------------------------------------------------


def trigger(names):
    """Bring the defects about, each under its name."""
    kernel = "/proc/sys/kernel"
    for name in DEADLY:
        ksft_eq(read(f"{kernel}/{name}"), "1", name)
        write(f"{kernel}/{name}", 0)
    for name, value in SHORT.items():
        write(f"{kernel}/{name}", value)
    cmd(["insmod", os.environ["BROKEN"]])
    for name in names:
        marker(f"broken.{name}")
        # A process of its own, which may not survive it
        done = cmd(f"echo {name} > {TRIGGER}", fail=False, timeout=120)
        if done.ret:
            ksft_pr(f"{name}: status {done.ret}: {done.stderr}")
        if name == "leak":
            find_leak()
    marker("end")


def find_leak():
    """As after each file of tests."""
    kmemleak.start()
    begin = time.monotonic()
    kmemleak.scan()
    time.sleep(max(0, begin + kmemleak.AGE - time.monotonic()))
    kmemleak.scan()
    for text in kmemleak.found():
        ksft_pr(text)
    kmemleak.clear()


# ---- on the host -------------------------------------------------------


def kernels(word):
    """Ask tools/testing/vm/kernels."""
    return cmd([os.path.join(VM, "kernels"), word, KERNEL],
               timeout=3600).stdout.strip()


@functools.cache
def config():
    """What the kernel is configured with."""
    return {line.split("=")[0].removeprefix("CONFIG_")
            for line in read(f"{kernels('kdir')}/.config").splitlines()
            if line.startswith("CONFIG_")}


def has(name):
    """Should this kernel find the defect?"""
    if KERNEL == "debug" and name not in NOT_DEBUG:
        return True
    return all((symbol.lstrip("!") in config()) != symbol.startswith("!")
               for symbol in DEFECTS[name][1])


@functools.cache
def machine():
    """One machine with all defects: (status, what it said, reports)."""
    names = [name for name in DEFECTS if has(name)]
    cmd(["make", "-s", "-C", ROOT, "broken", f"KERNEL={KERNEL}"],
        timeout=600)
    module = os.path.join(ROOT, "build", kernels("version"), "broken",
                          "broken.ko")
    append = "kasan_multi_shot" if "KASAN" in config() else \
        "slab_debug=FZPU slub_debug=FZPU"
    with tempfile.TemporaryDirectory() as where:
        log = os.path.join(where, "console.log")
        done = subprocess.run(
            [os.path.join(VM, "run"), "--kernel", KERNEL, "--hcas", "0",
             "--timeout", "300", "--klog", log, "--append", append,
             "--env", f"BROKEN={module}", "--", sys.executable,
             "-B", os.path.realpath(__file__), "--trigger", *names],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", check=False, stdin=subprocess.DEVNULL)
        reports = []
        if os.path.exists(log):
            reports = klog.check_file(log).reports
    return done.returncode, done.stdout, reports


def detected(name):
    """The defect is reported, under its name."""
    if not has(name):
        raise Skip(f"not a defect that kernel {KERNEL} can find: it is not "
                   f"configured with {' and '.join(DEFECTS[name][1])}")
    status, text, reports = machine()
    kinds = {kind for report in reports if report.test == f"broken.{name}"
             for kind in report.kinds}
    if not kinds & DEFECTS[name][0]:
        for report in reports:
            ksft_pr(report.test, report.kinds, report.title())
        ksft_pr(text[-1000:])
    ksft_true(kinds & DEFECTS[name][0], f"reported as {sorted(kinds)}")
    ksft_eq(status, 125, "status of the runner")


@timeout(900)
def test_leak():
    """kmemleak finds memory that nobody points to."""
    detected("leak")


@timeout(900)
def test_use_after_free():
    """KASAN sees a use after free."""
    detected("use-after-free")


@timeout(900)
def test_out_of_bounds():
    """KASAN, or a red zone, sees a write behind an object."""
    detected("out-of-bounds")


@timeout(900)
def test_double_free():
    """An object that is freed twice is noticed."""
    detected("double-free")


@timeout(900)
def test_kfence():
    """KFENCE is on: it sees a use after free of an object it sampled."""
    detected("kfence")


@timeout(900)
def test_lock_inversion():
    """lockdep sees two locks taken in both orders."""
    detected("lock-order")


@timeout(900)
def test_sleep_in_atomic():
    """A function that may sleep is called under a spinlock."""
    detected("sleep-in-atomic")


@timeout(900)
def test_schedule_in_atomic():
    """Sleeping with preemption disabled is noticed."""
    detected("schedule-in-atomic")


@timeout(900)
def test_rcu_usage():
    """An RCU pointer is read outside of a read-side section."""
    detected("rcu-usage")


@timeout(900)
def test_array_bounds():
    """UBSAN sees an index behind an array."""
    detected("bounds")


@timeout(900)
def test_shift():
    """UBSAN sees a shift by more than there are bits."""
    detected("shift")


@timeout(900)
def test_active_timer():
    """An object is freed with a timer in it that runs."""
    detected("timer")


@timeout(900)
def test_dma():
    """The DMA API sees the unmapping of what was never mapped."""
    detected("dma")


@timeout(900)
def test_netdev_reference():
    """A network device goes while somebody holds it."""
    detected("netdev-ref")


@timeout(900)
def test_refcount():
    """A reference count goes below zero."""
    detected("refcount")


@timeout(900)
def test_fortify():
    """A memcpy() goes across the end of a field."""
    detected("fortify")


@timeout(900)
def test_list():
    """A list is corrupt."""
    detected("list")


@timeout(900)
def test_hung_task():
    """A task that does not get on is noticed."""
    detected("hung-task")


@timeout(900)
def test_soft_lockup():
    """A CPU that does not get on is noticed."""
    detected("soft-lockup")


@timeout(900)
def test_nothing_else():
    """What was reported is what was done, in the order it was done."""
    names = [name for name in DEFECTS if has(name)]
    _, _, reports = machine()
    order = list(dict.fromkeys(report.test for report in reports))
    if KERNEL in WRECKED and order[-1:] == ["end"]:
        order.pop()
    ksft_eq(order, [f"broken.{name}" for name in names])


def test_every_defect():
    """The module's defects are those that are tested here."""
    text = read(os.path.join(os.path.dirname(HERE), "broken", "broken.c"))
    ksft_eq(set(re.findall(r'\{ "([\w-]+)", broken_\w+ \}', text)),
            set(DEFECTS))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trigger"]:
        trigger(sys.argv[2:])
    else:
        main(globals())
