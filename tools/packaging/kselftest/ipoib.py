#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""IP over InfiniBand, on two HCAs of ibdevsim, with OpenSM as their subnet manager.

    ipoib.py [FILE[:CASE,...]]...

Without arguments, nor words in the environment's IPOIB_CASES (run_kselftest.sh passes
none on), all files are run for which two ordinary HCAs suffice.  It loads ibdevsim and
ib_ipoib, and removes them when it ends; a machine that has HCAs already is left alone.
It needs root, opensm, iproute2, ethtool, ping and tcpdump.
"""

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CASES = os.path.join(HERE, "cases")
KSFT_SKIP = 4
HCAS = "/sys/class/infiniband"
NEEDS = ("opensm", "ip", "ethtool", "ping", "tcpdump", "modprobe", "setsid")
MODULES = ("ib_umad", "ib_uverbs", "ibdevsim", "ib_ipoib")

sys.path.insert(0, CASES)


class Missing(Exception):
    """The reason for which nothing can be run."""


def run(*argv):
    """Run a program; what it says if it fails."""
    done = subprocess.run(argv, check=False, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode \
        else ""


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def check():
    """Whether it can be run here."""
    if os.geteuid():
        raise Missing("only root can do that")
    missing = [name for name in NEEDS if not shutil.which(name)]
    if missing:
        raise Missing(f"not installed: {', '.join(missing)}")
    if os.path.isdir(HCAS) and os.listdir(HCAS):
        raise Missing(f"this machine has HCAs: {', '.join(os.listdir(HCAS))}")


def load():
    """The modules, two HCAs, a subnet manager that has configured them."""
    for name in MODULES:
        error = run("modprobe", name)
        if error:
            raise Missing(f"modprobe {name}: {error}")
    for place, kind in (("/sys/kernel/debug", "debugfs"),
                        ("/sys/kernel/tracing", "tracefs")):
        if not os.path.ismount(place):
            run("mount", "-t", kind, kind, place)
    for number in range(2):
        write("/sys/bus/ibdevsim/new_device", f"{number} ports=1")
    # Those that cases take for granted
    write("/run/partitions.conf", "Default=0x7fff, ipoib : ALL=full;\n" + "".join(
        f"part{key:x}={key:#06x}, ipoib : ALL=full;\n"
        for key in range(0x8001, 0x8010)))
    for name in ("sm-start", "sm-stop"):
        shutil.copy(os.path.join(CASES, "lib", name), "/run")
    os.makedirs("/run/opensm", exist_ok=True)
    os.makedirs("/run/netns", exist_ok=True)
    error = run("/run/sm-start")
    if error:
        raise Missing(f"opensm: {error}")
    states = glob.glob(f"{HCAS}/ibdevsim*/ports/*/state")
    for _ in range(600):
        if all("ACTIVE" in read(path) for path in states):
            return
        time.sleep(0.1)
    raise Missing("the ports did not become active within a minute")


def unload():
    """As it was before."""
    if os.path.exists("/run/sm-stop"):
        run("/run/sm-stop")
    run("rmmod", "ib_ipoib")
    run("rmmod", "ibdevsim")
    for name in ("sm-start", "sm-stop", "partitions.conf"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/run/{name}")


def suitable():
    """Files of the core that need no more than this."""
    # pylint: disable-next=import-outside-toplevel,import-error
    from lib import harness
    found = []
    for path in sorted(glob.glob(os.path.join(CASES, "*.py"))):
        file = harness.TestFile(path)
        boot = {key: value for key, value in file.boot.items()
                if key not in ("seconds", "group", "mem")}
        usual = {key: harness.BOOT_DEFAULTS[key] for key in boot}
        if not file.host and not file.kunit and "core" in file.groups and \
                boot == {**usual, "ipoib": boot["ipoib"]} and \
                boot["ipoib"] in ("any", "ours"):
            found.append(file.name)
    return found


def skipped(reason):
    """Say why nothing was run."""
    print(f"TAP version 13\n1..0 # SKIP {reason}")
    return KSFT_SKIP


def main():
    """Entry point."""
    os.environ.update(IPOIB_MODULE="modprobe", IPOIB_KIND="ours", HCAS="2", PORTS="1")
    try:
        check()
    except Missing as reason:
        return skipped(reason)
    chosen = os.environ.get("IPOIB_CASES", "").split()
    try:
        load()
        return subprocess.run([sys.executable, os.path.join(CASES, "run_tests"),
                               *(sys.argv[1:] or chosen or suitable())],
                              check=False).returncode
    except (Missing, OSError) as reason:
        return skipped(reason)
    finally:
        unload()


if __name__ == "__main__":
    sys.exit(main())
