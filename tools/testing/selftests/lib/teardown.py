# SPDX-License-Identifier: GPL-2.0-only
"""At the end of a machine: what tests left goes, and then nothing is left.

The driver is unloaded, then the fabric.  A kernel that looks for leaked memory
is asked for it, once: scans take long.
"""

import time

from . import kmemleak
from .fabric import fabric, sm
from .ipoib import MODULE, drop_all, loaded
from .ksft import ksft_eq, ksft_false, ksft_pr, timeout
from .netns import cleanup_all
from .utils import cmd, exists, slow, wait_until

FABRIC = "ibdevsim"
MODULES = ("ib_ipoib_interop", MODULE)


def unload(name):
    """Remove a module; it must not take for ever, and must be gone."""
    cmd(["rmmod", name], timeout=slow(30))
    ksft_false(loaded(name), f"{name} is loaded")


def unload_driver():
    """The driver, whichever it is, goes and takes its QPs along."""
    for name in MODULES:
        if loaded(name):
            unload(name)
    for name in ("ipoib", "ipoib_interop"):
        ksft_false(exists(f"/sys/kernel/debug/{name}"), f"debugfs {name}")
    for each in fabric.hcas():
        ksft_eq(each.data_qps(), [], f"QPs on {each}")


def unload_fabric():
    """The HCAs are pulled, then there is no fabric any more."""
    sm.stop()
    for each in fabric.hcas():
        each.unplug()
    wait_until(lambda: not fabric.hcas(), 10, "no HCA")
    unload(FABRIC)


@timeout(300)
def teardown():
    """Nothing is left of what the cases did."""
    drop_all()
    cleanup_all()
    fabric.clear_faults()
    symbols = []
    begin = time.monotonic()
    if kmemleak.available():
        kmemleak.start()
        symbols = kmemleak.module_symbols(*MODULES, FABRIC)
        # One scan sees what is there, so that the next one sees whether it
        # changed; those of the module still have its names.
        took = kmemleak.scan()
        ksft_pr(f"kmemleak: a scan takes {took:.1f} s")
    unload_driver()
    if loaded(FABRIC):
        unload_fabric()
    if kmemleak.available():
        time.sleep(max(0, begin + kmemleak.AGE - time.monotonic()))
        kmemleak.scan()
        leaks = kmemleak.found(symbols)
        for leak in leaks[:10]:
            ksft_pr(leak)
        if leaks:
            kmemleak.clear()
        ksft_eq(len(leaks), 0, "objects that nobody points to")


def teardown_case():
    """The same as a case of a file."""
    return "teardown", teardown
