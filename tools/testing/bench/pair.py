# SPDX-License-Identifier: GPL-2.0-only
"""In the guest: drivers loaded in turn, two hosts on them, and TCP between."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import time

import rows
from common import ROOT

# Traffic that iperf3 does not make: load.c
LOAD = os.path.join(ROOT, 'build', 'bench', 'load')
ENDS = (('h1', '10.9.0.1', 'fd09::1'), ('h2', '10.9.0.2', 'fd09::2'))
CONNECTED_MTU = 65520
# Kinds of pairs with two drivers, and the modules beside the distribution's
MIXED = {'mixed': 'interop', 'mixed-base': 'interop-base'}
# What the HCAs of all figures of a program are called, see rows.py
HCA = '-'
# LOAD, when a profile is taken
MARKER = None
# What was measured so far
FIGURES = rows.Figures()


def sh(*args, check=True):
    done = subprocess.run(args, check=False, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode:
        raise SystemExit(f'{" ".join(args)}: status {done.returncode}: '
                         f'{done.stdout.strip()}')
    return done.stdout


def result(load, net, hca, clock, who, value):
    """Hand a figure to tools/testing/bench/bench; rows.py has the names."""
    FIGURES.add(f'{load}/{net}/{hca}/{clock}', who, value)
    print('@ ' + json.dumps({'load': load, 'net': net, 'hca': hca, 'clock': clock,
                             'who': who, 'value': value}), flush=True)


def unable(load, net, hca, clock, who, why):
    """Say that @who has no such figure: what it lacks is no regression."""
    print('@ ' + json.dumps({'load': load, 'net': net, 'hca': hca, 'clock': clock,
                             'who': who, 'value': None, 'why': why}), flush=True)


def whom(words):
    """
    The words WHO and WHO=MODULE of a command line: whom, in turn, and modules
    by whose they are.  The distribution's (stock) needs no file.
    """
    return ([word.partition('=')[0] for word in words],
            dict(word.split('=', 1) for word in words if '=' in word))


def mark(word):
    """For tools/testing/bench/profile: here begins ("on") what counts, or ends."""
    if MARKER:
        sh(MARKER, 'mark', word)


def take_symbols():
    """For it, too: where functions were, before the driver goes."""
    if MARKER:
        number = len(glob.glob('/run/artifacts/kallsyms.*'))
        shutil.copyfile('/proc/kallsyms', f'/run/artifacts/kallsyms.{number}')


def wait(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f'{what} did not happen in {seconds} s')
        time.sleep(0.05)


def confirm():
    """
    All neighbours of all hosts are reachable.  Datagrams confirm nothing, and the
    stack takes a longer way to a neighbour that is to be confirmed.
    """
    for ns in json.loads(sh('ip', '-j', 'netns', 'list')):
        for entry in json.loads(sh('ip', '-j', '-n', ns['name'], 'neigh', 'show')):
            if 'lladdr' in entry and 'PERMANENT' not in entry['state']:
                sh('ip', '-n', ns['name'], 'neigh', 'change', entry['dst'], 'dev',
                   entry['dev'], 'nud', 'reachable')


def links():
    """Interfaces here: name to kind."""
    return {link['ifname']: link.get('linkinfo', {}).get('info_kind')
            for link in json.loads(sh('ip', '-j', '-d', 'link', 'show'))}


@contextlib.contextmanager
def namespaces(*pairs):
    """The hosts of ENDS, or of the pairs given, for the length of a block."""
    names = [end[0] for ends in pairs or (ENDS,) for end in ends]
    try:
        for ns in names:
            sh('ip', 'netns', 'add', ns)
            sh('ip', '-n', ns, 'link', 'set', 'lo', 'up')
            # No connection is to learn from those before it.
            sh('ip', 'netns', 'exec', ns, 'sh', '-c',
               'echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save')
        yield
    finally:
        for ns in names:
            sh('ip', 'netns', 'del', ns, check=False)


def load_module(module, *params):
    """Load the distribution's driver ("stock"), or ours by its file."""
    if module == 'stock':
        sh('modprobe', 'ib_ipoib', *params)
        return
    sh('modprobe', '-a', 'ib_core', 'ib_cm')    # insmod loads no others
    sh('insmod', module, *params)


def load(kind, modules, count=2):
    """
    Load the driver of that kind: the distribution's (stock), one by its file,
    or "mixed", the distribution's on the first HCA and ours on the second
    ("mixed-base": the base).  The interfaces.
    """
    load_module(modules.get(kind, 'stock'))
    names = [f'ib{n}' for n in range(count)]
    if kind not in MIXED:
        wait('the interfaces', lambda: set(names) <= set(links()))
        return names
    load_module(modules[MIXED[kind]], 'ignore_devices=ibdevsim0')
    wait('the interfaces', lambda: 'ipoib_interop' in links().values())
    return ['ib0', *(name for name, kind in links().items()
                     if kind == 'ipoib_interop')]


def unload(kind):
    if kind in MIXED:
        sh('rmmod', 'ib_ipoib_interop')
    sh('rmmod', 'ib_ipoib')


def connect(ns, dev):
    """Into connected mode; the distribution's has to be asked until it is."""
    path = f'/sys/class/net/{dev}/mode'

    def there():
        sh('ip', 'netns', 'exec', ns, 'sh', '-c', f'echo connected > {path}',
           check=False)
        return sh('ip', 'netns', 'exec', ns, 'cat', path).strip() == 'connected'

    wait('connected mode', there)


def ping(ns, flag, peer, size=56):
    return subprocess.run(
        ('ip', 'netns', 'exec', ns, 'ping', flag, '-c1', '-W1', '-s', str(size),
         peer), stdout=subprocess.DEVNULL, check=False).returncode == 0


def set_up(devs, connected=False, ends=ENDS, move=True):
    """Give the ends of a pair their interfaces; returns when packets pass."""
    for (ns, v4, v6), dev in zip(ends, devs):
        if move:
            sh('ip', 'link', 'set', dev, 'netns', ns)
        sh('ip', '-n', ns, 'addr', 'add', v4 + '/24', 'dev', dev)
        sh('ip', '-n', ns, 'addr', 'add', v6 + '/64', 'dev', dev, 'nodad')
        sh('ip', '-n', ns, 'link', 'set', dev, 'up')
        if connected:
            connect(ns, dev)
            sh('ip', '-n', ns, 'link', 'set', dev, 'mtu', str(CONNECTED_MTU))
    for (ns, *_), dev in zip(ends, devs):
        wait('a carrier', lambda: 'LOWER_UP' in sh('ip', '-n', ns, 'link', 'show', dev))
    size = 60000 if connected else 56
    for flag, field in (('-4', 1), ('-6', 2)):
        for here, there in (ends, reversed(ends)):
            wait('a ping reply', lambda: ping(here[0], flag, there[field], size))


class Stream:
    """TCP of iperf3 between two ends; the server is there at once."""

    def __init__(self, flag='-4', peer=ENDS[1][1], ends=ENDS, cpus=None, port=5201,
                 more=()):
        pin = ['-A', '{},{}'.format(*cpus)] if cpus and os.cpu_count() > 1 else []
        here, there = ends[0][0], ends[1][0]
        self.argv = ('ip', 'netns', 'exec', here, 'iperf3', '-J', flag, '-c', peer,
                     '-p', str(port), *pin, *more)
        self.server = subprocess.Popen(
            ('ip', 'netns', 'exec', there, 'iperf3', '-s', '-1', flag, '-p', str(port)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait('the server',
             lambda: f':{port}' in sh('ip', 'netns', 'exec', there, 'ss', '-ltn'))
        self.client = None

    def start(self):
        self.client = subprocess.Popen(self.argv, text=True, stdout=subprocess.PIPE,
                                       stdin=subprocess.DEVNULL)
        return self

    def finish(self):
        """Wait for the end; Mbit/s as the receiver counts them."""
        out = json.loads(self.client.communicate()[0])
        self.server.wait(30)
        if 'error' in out:
            raise SystemExit(f'iperf3: {out["error"]}')
        return out['end']['sum_received']['bits_per_second'] / 1e6


def stream(flag, peer, amount, more=(), ends=ENDS):
    """Send so much ("64M") or so long ("3s"); Mbit/s."""
    many = ['-t', amount[:-1]] if amount.endswith('s') else ['-n', amount]
    return Stream(flag, peer, ends, (0, 1), more=[*many, *more]).start().finish()
