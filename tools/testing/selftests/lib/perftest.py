# SPDX-License-Identifier: GPL-2.0-only
"""perftest, libibverbs' examples and other programs of two sides."""

import re

from .ksft import Failed
from .utils import bkg, cmd, slow, wait_until

# On which the servers listen
PORT = 18515
# On a busy host perftest may fail to tell the clock's rate, and prints "inf".
ROW = re.compile(r"(\s*(-?[\d.]+|-?nan|inf))+\s*")


def listening(number, before=()):
    """Somebody listens on a TCP port; @before is what enters its namespace."""
    return cmd([*before, "ss", "-Hlnt", f"sport = :{number}"]).stdout.strip()


def both(server, client, number=PORT, limit=30, before=()):
    """
    A server that listens on a TCP port, and the text of its client.  @before are
    the first words of the server's command, which enter its namespace.
    """
    with bkg([*before, *server], exit_wait=True, fail=True) as proc:
        wait_until(lambda: proc.proc.poll() is not None or
                   listening(number, before), 10, "a server")
        return cmd(client, timeout=slow(limit)).stdout


def perftest(program, devices, *words, limit=60):
    """
    One of perftest's programs from the second device to the first; the rows of
    its table as numbers.
    """
    common = [program, "-F", *words]
    text = both([*common, "-d", devices[0]],
                [*common, "-d", devices[1], "localhost"], limit=limit)
    rows = [[float(word) for word in line.split()]
            for line in text.splitlines() if ROW.fullmatch(line)]
    if not rows:
        raise Failed(f"{program}: no figures: {text[-500:]}")
    return rows
