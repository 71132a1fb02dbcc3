# SPDX-License-Identifier: GPL-2.0-only
"""How long it takes to let go of an HCA that does not answer, in the guest.

    wedged [--only FIGURE] [--children N] WHO...

With packets on their way the HCA stops: data QPs neither complete nor flush, for
some of the figures the SA or QP0 and QP1 are silent too.  Then the interface is
closed, taken out of connected mode, or the module unloaded; or, with N children
that are up, the parent is closed and then the module unloaded.

WHO is a name with a module, as in "ours=ib_ipoib.ko".
"""

import argparse
import socket
import time

import pair
from lib import many
from lib.netns import ROOT
from lib.rtnl import Rtnl
from lib.utils import read, write
from pair import ENDS, sh

PORT = '/sys/kernel/debug/ibdevsim/ibdevsim0/port1'
DEV = 'ib0'


def fault(name, value):
    with open(f'{PORT}/{name}', 'w', encoding='ascii') as file:
        file.write(str(value))


def close():
    sh('ip', '-n', 'h1', 'link', 'set', DEV, 'down')


def mode():
    path = f'/sys/class/net/{DEV}/mode'
    sh('ip', 'netns', 'exec', 'h1', 'sh', '-c', f'echo datagram > {path}')


def unload():
    pair.unload(None)


def send_to_all(names):
    """A broadcast from each interface, which nobody will complete."""
    for name in names:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
            sock.sendto(bytes(64), ('255.255.255.255', 9))


def carrier(name):
    return read(f'/sys/class/net/{name}/carrier') == '1'


def children(who, count, modules):
    """A parent with children: closed, and the module unloaded."""
    talk = Rtnl(ROOT)
    pair.load(who, modules)
    sh('ip', 'link', 'set', DEV, 'up')
    many.make(talk, count, socket.if_nametoindex(DEV))
    many.bring_up(talk, count)
    names = [DEV, *(f'm.{number}' for number in range(count))]
    for name in names:
        pair.wait(f'a carrier of {name}', lambda n=name: carrier(n))
    fault('wedged', 1)
    send_to_all(names)
    begin = time.monotonic()
    sh('ip', 'link', 'set', DEV, 'down')
    closed = time.monotonic()
    unload()
    end = time.monotonic()
    fault('wedged', 0)
    print(f'wedged: {who}, {count} children: closed in {closed - begin:.1f} s, '
          f'unloaded in {end - closed:.1f} s', flush=True)
    pair.result('wedged-children', '-', '-', 'wall', who, end - begin)


def measure(who, name, action, faults, connected, modules):
    """One figure, with the driver loaded for it."""
    with pair.namespaces():
        pair.set_up(pair.load(who, modules), connected)
        for one in faults:
            fault(one, 1)
        # Sends that nobody will complete
        pair.ping('h1', '-4', ENDS[1][1])
        begin = time.monotonic()
        action()
        pair.result(name, '-', '-', 'wall', who, time.monotonic() - begin)
        for one in faults:
            fault(one, 0)
        if action is not unload:
            unload()


SPECIAL = ('wedged', 'wedged_special')
# figure: (action, faults, in connected mode)
FIGURES = {
    'wedged-close': (close, ('wedged',), False),
    'wedged-mode': (mode, ('wedged',), True),
    'wedged-unload': (unload, ('wedged', 'sa_drop'), False),
    'wedged-special-close': (close, SPECIAL, False),
    'wedged-special-mode': (mode, SPECIAL, True),
}


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument('--only', metavar='FIGURE', default='')
    ap.add_argument('--children', type=int, default=200)
    ap.add_argument('who', nargs='+', metavar='WHO')
    args = ap.parse_args(argv)
    whom, modules = pair.whom(args.who)
    # A driver that takes long is measured, not reported.
    write('/proc/sys/kernel/hung_task_timeout_secs', '0')
    for who in whom:
        for name in FIGURES:
            if args.only in ('', name):
                measure(who, name, *FIGURES[name], modules)
        if args.only in ('', 'wedged-children'):
            children(who, args.children, modules)
