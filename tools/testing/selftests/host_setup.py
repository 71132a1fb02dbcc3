# SPDX-License-Identifier: GPL-2.0-only
"""vm/setup: what it would install for whom, as apt and dpkg are told."""

import os
import re
import tempfile

from lib import cmd, defer, ksft_eq, ksft_in, ksft_not_in, timeout
from common import ROOT, VM

BOOT = "host"
SECONDS = 10

QEMU = "qemu-system-x86"
# Stand for those of the machine, which must not be asked: nothing is installed, or
# all; nobody is root.
NOTHING = "#!/bin/sh\nexit 1\n"
ALL = """#!/bin/sh
for word; do
	case $word in
	-*|'$'*) ;;
	*) echo "ii  $word 1:99" ;;
	esac
done
"""
USER = "#!/bin/sh\necho 65534\n"


def setup(dpkg, *words):
    """(status, output) of the script on a machine with these packages."""
    place = tempfile.TemporaryDirectory()
    defer(place.cleanup)
    for name, text in (("dpkg-query", dpkg), ("id", USER), ("apt-get", NOTHING)):
        path = os.path.join(place.name, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
    done = cmd(["env", f"PATH={place.name}:{os.environ['PATH']}",
                os.path.join(VM, "setup"), *words], fail=False)
    return done.ret, done.stdout + done.stderr


def missing(*words):
    """The packages that it would install, where nothing is installed."""
    status, said = setup(NOTHING, *words)
    ksft_eq(status, 1, said)
    # On Debian 12 root is missing, too; on others they are a hint.
    return re.search(r"(?:installed|by hand):(.*)", said)[1].split()


@timeout(60)
def test_only():
    """The documentation and packages need little, and no machines."""
    ksft_eq(missing("--only", "docs"), ["make", "python3-sphinx"])
    ksft_eq(missing("--only", "packages"),
            ["make", "mmdebstrap", "debian-archive-keyring"])
    for what in ("docs", "packages"):
        ksft_eq(setup(ALL, "--only", what), (0, ""))
    status, said = setup(ALL, "--only", "nosuch")
    ksft_eq(status, 1)
    ksft_in("--only wants docs or packages", said)


@timeout(60)
def test_all():
    """Tests need QEMU, which comes last; words add to that."""
    found = missing("--no-kernel")
    ksft_eq(found[-1], QEMU)
    ksft_in("clang-14", found)
    ksft_not_in("perftest", found)
    ksft_in("perftest", missing("--no-kernel", "--verbs"))
    ksft_eq(setup(ALL, "--no-kernel"), (0, ""))


@timeout(60)
def test_targets():
    """make runs it for each target with the words that belong to it."""
    for target, words in (("docs", " --only docs"), ("debs", " --only packages"),
                          ("rpms", " --only packages"), ("demo", ""),
                          ("check", "")):
        plan = cmd(["make", "-n", "-C", ROOT, target]).stdout
        ksft_eq(re.findall(r"vm/setup(.*)", plan), [words], target)
