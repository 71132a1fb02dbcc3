# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel with GCOV counted, for the host to read."""

import os

GCOV = "/sys/kernel/debug/gcov"
ARTIFACTS = "/run/artifacts"


def save():
    """Copy the counters, those of unloaded modules included."""
    if not os.path.isdir(GCOV) or not os.path.isdir(ARTIFACTS):
        return
    for where, _, names in os.walk(GCOV):
        for name in names:
            if not name.endswith(".gcda"):
                continue
            source = os.path.join(where, name)
            target = f"{ARTIFACTS}/gcov/{os.path.relpath(source, GCOV)}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            # Sizes of these files are not known before they are read.
            with open(source, "rb") as file, open(target, "wb") as copy:
                copy.write(file.read())
