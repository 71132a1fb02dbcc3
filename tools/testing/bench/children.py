# SPDX-License-Identifier: GPL-2.0-only
"""Children of this driver, of the distribution's, and dummy devices, in one boot.

Run it in the guest of

    tools/testing/vm/run --ipoib none --known stock --hcas 1 --mem 4096 \\
        --timeout 900 -- tools/testing/bench/guest children stock ours=ib_ipoib.ko

It prints what making and deleting takes per device, how much memory a device
takes beyond a dummy, made and up, and how often a second timers and work items
of the driver run for one while all are idle.  Everything is done once before it
counts.

With --icount of tools/testing/vm/run a microsecond is a thousand instructions,
and figures repeat.  Then it is also told how many instructions run while all are
idle, beyond what runs without them; idle seconds take no time there.

    children [--count N] [--stock-count N] [--up N] [--rounds N] [--idle S] WHO...

WHO is "stock", or a name with a module.
"""
import argparse
import os
import re
import statistics
import subprocess
import time

import pair
from lib import many
from lib.netns import ROOT
from lib.rtnl import Rtnl
from lib.tracing import Tracer
from lib.utils import read, write


# How often each round makes and deletes them
MAKES = 4
# What programs call the figures
FIGURES = {'make, ms': 'child-make', 'delete in one go, ms': 'child-delete',
           'memory made, KiB': 'child-memory-made',
           'memory up, KiB': 'child-memory-up', 'runs a second, idle': 'child-runs'}


def carrier(name):
    try:
        return read(f'/sys/class/net/{name}/carrier') == '1'
    except OSError:
        return False


def busy():
    """Nanoseconds since boot, and how many of them the only CPU was busy."""
    text = read('/proc/timer_list')
    idle = re.findall(r'(?:idle|iowait)_sleeptime\s*: (\d+)', text)
    now = int(re.search(r'now at (\d+)', text).group(1))
    return now, now - sum(map(int, idle))


def instructions_when_idle(seconds):
    """Instructions a second though nobody wants anything."""
    begin = busy()
    time.sleep(seconds)
    end = busy()
    return 1e9 * (end[1] - begin[1]) / (end[0] - begin[0])


def load(module):
    """The index of the interface."""
    pair.load_module(module)
    pair.wait('the interface', lambda: os.path.exists('/sys/class/net/ib0'))
    subprocess.run(['ip', 'link', 'set', 'ib0', 'up'], check=True)
    pair.wait('a carrier', lambda: carrier('ib0'))
    return ROOT.ifindex('ib0')


def up(talk, count, parent, prefix):
    """So many more, with a carrier; seconds that bringing them up took."""
    many.make(talk, count, parent, prefix)
    took = many.bring_up(talk, count, prefix)
    for number in range(count):
        pair.wait('a carrier', lambda n=number: carrier(f'{prefix}.{n}'), 300)
    return took


def measure(talk, who, parent, count, up_count, idle, results, counts):
    """One kind once; all per device but how often the driver runs."""
    def note(what, value):
        results.setdefault(what, []).append(value)
        print(f'    {what:26} {value:10.3f}', flush=True)
        if counts and what in FIGURES:
            pair.result(FIGURES[what], '-', pair.HCA, 'wall', who, value)

    if idle:
        without = instructions_when_idle(idle)
    for _ in range(MAKES):
        before = many.memory()
        note('make, ms', 1000 * many.make(talk, count, parent) / count)
        note('memory made, KiB', (many.memory() - before) / count)
        note('delete in one go, ms', 1000 * many.delete(talk) / count)

    # What a port needs once, receives in every channel, is no child's.
    first = os.cpu_count()
    up(talk, first, parent, 'w')
    time.sleep(3)
    before = many.memory()
    note('bring up, ms', 1000 * up(talk, up_count, parent, 'm') / up_count)
    # What the stack sends when an interface comes up; groups that were only
    # sent to are left some minutes later.
    time.sleep(max(12, idle))
    note('memory up, KiB', (many.memory() - before) / up_count)
    with Tracer(*many.EVENTS) as tracer:
        ran = sum(many.activity(tracer, 10).values())
    note('runs a second, idle', ran / 10 / (first + up_count))
    if idle:
        note('instructions a second', (instructions_when_idle(idle) -
                                       without) / up_count)
    note('delete when up, ms', 1000 * many.delete(talk) / (first + up_count))


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument('--count', type=int, default=1000)
    ap.add_argument('--stock-count', type=int, default=100,
                    help='of the distribution\'s, which take 20 MB each')
    ap.add_argument('--up', type=int, default=100, help='how many are brought up')
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--stock-rounds', type=int, default=1)
    ap.add_argument('--idle', type=int, default=300,
                    help='with --icount: seconds to count what idle devices do')
    ap.add_argument('who', nargs='+', metavar='WHO')
    a = ap.parse_args(argv)
    whom, modules = pair.whom(a.who)
    write('/proc/sys/net/core/default_qdisc', 'pfifo')
    subprocess.run(['modprobe', 'dummy', 'numdummies=0'], check=True)
    talk = Rtnl(ROOT)
    results = {kind: {} for kind in ('dummy', *whom)}
    for number in range(a.rounds + 1):
        for kind in results:
            count = a.stock_count if kind == 'stock' else a.count
            if kind == 'stock' and number > a.stock_rounds:
                continue
            if number == 0:
                count = min(count, 20)
            print(f'  round {number}, {kind}' + ' (warm-up)' * (number == 0),
                  flush=True)
            parent = 0
            if kind != 'dummy':
                parent = load(modules.get(kind, kind))
            measure(talk, kind, parent, count, min(a.up, count),
                    a.idle if number and os.cpu_count() == 1 else 0,
                    {} if number == 0 else results[kind], number > 0)
            if parent:
                subprocess.run(['rmmod', 'ib_ipoib'], check=True)

    print(f'\n{"medians per device":26}' + ''.join(f' {kind:>9}' for kind in results))
    for what in results['dummy']:
        values = {kind: statistics.median(found[what])
                  for kind, found in results.items()}
        if 'memory' in what:
            values.update({kind: values[kind] - values['dummy'] for kind in whom})
        print(f'{what:26}' + ''.join(f' {value:9.3f}' for value in values.values()))
    print('memory is beyond a dummy\'s')
