# SPDX-License-Identifier: GPL-2.0-only
"""
A host that is asked by senders who do not exist, in the guest.

    forged RATE SECONDS WHO...

One host sends RATE ARP requests a second for SECONDS, each from another hardware
address (see load.c).  The host that is asked answers each, for which its driver
needs a neighbour, and often a path that the SA knows nothing of.  Meanwhile hosts
that it does not know send it an echo request, one after the other.

What is told: the requests that were sent in a second, by how much the kernel's
memory grew at most, and the longest time until one of those hosts had its answer.

WHO is "stock", or a name with a module, as in "ours=ib_ipoib.ko".
"""

import json
import os
import re
import subprocess
import threading
import time

import pair
from lib import many
from lib.fabric import fabric, port
from lib.ipoib import End
from lib.traffic import ping
from lib.utils import read, wait_until

# The first HCA has the SM.
FIRST = 1
# Seconds that are waited for an answer
LIMIT = 10


class Growth:
    """The kernel's memory while a block runs: by how many KiB it grew at most."""

    def __enter__(self):
        self.before, self.most, self.slab = many.memory(), 0, [self.slabs(), 0]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_exc):
        self.stopping.set()
        self.thread.join()

    @staticmethod
    def slabs():
        return int(re.search(r'Slab:\s+(\d+)', read('/proc/meminfo')).group(1))

    def watch(self):
        while not self.stopping.wait(0.25):
            self.most = max(self.most, many.in_use() - self.before)
            self.slab[1] = max(self.slab[1], self.slabs() - self.slab[0])


def answered(host, victim):
    """Seconds until a host that was silent so far has an answer."""
    begin = time.monotonic()
    while time.monotonic() < begin + LIMIT:
        if ping(host.ns, victim.v4, limit=1):
            break
    return min(time.monotonic() - begin, LIMIT)


def measure(who, modules, rate, seconds):
    pair.load(who, modules, len(fabric.hcas()))
    numbers = sorted(each.number for each in fabric.hcas())[FIRST:]
    ends = [End(f'h{n}', port(n), n, 0) for n in numbers]
    for end in ends:
        end.setup()
    for end in ends:
        end.wait_carrier(60)
    victim, forger, *strangers = ends
    wait_until(lambda: ping(forger.ns, victim.v4), 30, 'an answer of the victim')
    argv = [pair.LOAD, 'forge', forger.name, forger.ifname, victim.address().hex(':'),
            victim.v4, forger.address().hex(':'), str(rate), str(seconds)]
    with Growth() as growth, subprocess.Popen(argv, text=True,
                                              stdout=subprocess.PIPE) as flood:
        begin, took = time.monotonic(), []
        for number, stranger in enumerate(strangers):
            due = begin + (number + 1) * seconds / (len(strangers) + 1)
            time.sleep(max(0, due - time.monotonic()))
            if flood.poll() is not None:
                break           # those before took the rest of the time
            took.append(answered(stranger, victim))
        done = json.loads(flood.communicate()[0])
    reached = done['sent'] * 1e9 / done['ns']
    print(f'forged: {who}, {reached:.0f} a second; slabs grew by {growth.slab[1]} KiB; '
          f'answers after {", ".join(f"{one:.3f}" for one in took)} s', flush=True)
    for load, value in (('forged-rate', reached), ('forged-memory', growth.most),
                        ('forged-answer', max(took))):
        pair.result(load, '-', '-', 'wall', who, value)
    for end in ends:
        end.drop()
    wait_until(lambda: all(os.path.exists(f'/sys/class/net/{end.ifname}')
                           for end in ends), 30, 'interfaces at home')
    pair.unload(who)


def main(argv):
    rate, seconds, *words = argv
    whom, modules = pair.whom(words)
    for who in whom:
        measure(who, modules, int(rate), int(seconds))
