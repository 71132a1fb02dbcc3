# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode of this driver and of the distribution's, in one boot.

Run it in the guest of

    tools/testing/vm/run --ipoib none --known stock --hcas 1 --mem 4096 \\
        --timeout 1500 -- tools/testing/bench/guest connected stock ours=ib_ipoib.ko

Three figures:

memory       of a connection, both sides, where receives are shared: ten hosts
             in connected mode that have connections with two others; then
             each gets one to every other.  What counts is what the driver,
             the HCA's driver and the RDMA core allocate meanwhile and still
             hold, by call site (--sites shows them); and that without the
             HCA's driver.
memory, own  the same on HCAs without shared receive queues; the kernel's whole
             memory counts
incast       eight hosts send to one by TCP, all of them on a CPU of their own,
             interrupts and the receiver on the other; queues of 64 receives.
             What arrives, how often the receiver was not ready, and how many
             connections broke.
incast, UDP  the same with datagrams of 60,000 bytes, as fast as they go

    connected [--rounds N] [--hosts N] [--seconds S] [--only PART;...]
              [--quick] [--json] [--sites] WHO...

WHO is "stock", or a name with a module; two of them take turns.

With --json each figure is also printed as a line "@ {...}" for programs.
"""
import argparse
import statistics
import subprocess
import time

import pair
from lib import many
from lib.allocs import Allocations
from lib.fabric import hca, sm
from lib.ipoib import End
from lib.traffic import ping
from lib.utils import cmd, wait_until, write

FIRST = 10      # number of the first HCA that is made here
SENDERS = 8
# What programs call the figures
FIGURES = {('memory', 'KiB'): 'conn-memory',
           ('memory', 'KiB without the HCA'): 'conn-memory-driver',
           ('memory, own', 'KiB'): 'conn-memory-nosrq',
           ('incast', 'Mbit/s'): 'incast',
           ('incast', 'lost connections'): 'incast-lost'}

SERVER = """
import os, select, socket, sys, time
udp = sys.argv[3] == 'udp'
s = socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)   # SO_RCVBUFFORCE
s.bind(('', 5203))
if not udp: s.listen(64)
print('ready', flush=True)
socks = [s] if udp else [s.accept()[0] for _ in range(int(sys.argv[1]))]
time.sleep(1); print('go', flush=True)
total, end = 0, time.monotonic() + float(sys.argv[2])
begin = time.monotonic()
while time.monotonic() < end:
    for c in select.select(socks, [], [], 0.2)[0]:
        total += len(c.recv(1 << 20))
print(total / (time.monotonic() - begin), flush=True)
os._exit(0)
"""
CLIENT = """
import socket, sys
where = sys.argv[1], 5203
udp = sys.argv[2] == 'udp'
c = socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
data = bytes(60000 if udp else 1 << 18)
c.connect(where)
while True:
    try:
        c.send(data) if udp else c.sendall(data)
    except OSError:
        if not udp: break
"""


def connected(end):
    """Into connected mode; the distribution's may have to be asked again."""
    def there():
        if end.read('mode') != 'connected':
            write(end.sys('mode'), 'connected\n')
        return end.read('mode') == 'connected'

    wait_until(there, 20, f'{end} in connected mode', interval=0.2)
    if end.mtu() < 60000:
        end.set_mtu(65520)


def connections(hosts):
    """A connection has a QP at either end."""
    return sum(qp.type == 'RC' and qp.state == 'RTS' for end in hosts
               for qp in end.port.hca.data_qps()) / 2


def talk(pairs):
    """An echo each; connections open when there is something to send."""
    for src, dst in pairs:
        wait_until(lambda s=src, d=dst: ping(s.ns, d.v4, limit=2), 30,
                   f'an echo from {src} to {dst}')


class Hosts:
    """So many HCAs of a kind, each with a host in connected mode."""

    def __init__(self, count, module, params=(), **caps):
        self.hcas = [hca(FIRST + number) for number in range(count)]
        for each in self.hcas:
            each.plug(**caps)
        sm.sweep()
        pair.load_module(module, *params)
        self.ends = [End(f'h{number}', each.port(), number + 1, 0)
                     for number, each in enumerate(self.hcas)]
        for end in self.ends:
            end.setup()
        for end in self.ends:
            end.wait_carrier(60)
            connected(end)

    def __enter__(self):
        return self.ends

    def __exit__(self, *_exc):
        for end in self.ends:
            end.drop()
        cmd('rmmod ib_ipoib', timeout=60)
        for each in self.hcas:
            each.unplug()


def show_sites(sites, count):
    """A table of who holds what, for each of so many connections."""
    for site, (number, octets) in sorted(sites.items(), key=lambda s: -s[1][1]):
        if octets >= 64 * count:
            print(f'    {octets / 1024 / count:8.2f} KiB in '
                  f'{number / count:7.2f} objects  {site}')


def memory(module, args, note, used=Allocations, **caps):
    """KiB of a connection."""
    with Hosts(args.hosts, module, **caps) as hosts:
        # Two peers each, so that no channel gets its first receives later.
        talk((hosts[n - 1], hosts[n]) for n in range(len(hosts)))
        time.sleep(3)
        want = len(hosts) * (len(hosts) - 1)
        more = want - connections(hosts)
        with used() as made:
            talk((a, b) for a in hosts for b in hosts if a != b)
            wait_until(lambda: connections(hosts) == want, 30,
                       f'{want} connections')
            time.sleep(3)
        note('KiB', made.octets() / 1024 / more)
        if used is Allocations:
            note('KiB without the HCA', sum(
                octets for site, (_, octets) in made.by_site().items()
                if not site.endswith('[ibdevsim]')) / 1024 / more)
        if args.sites:
            show_sites(made.by_site(), more)


def memory_own(module, args, note):
    """The same without SRQ: too much to follow each allocation."""
    memory(module, args, note, many.KernelMemory, srq=0)


def incast(module, args, note, how='tcp'):
    """What arrives, and what became of the connections."""
    params = ['recv_queue_size=64', 'send_queue_size=128']
    with Hosts(SENDERS + 1, module, params, vectors=1) as hosts:
        one, peers = hosts[0], hosts[1:]
        talk((peer, one) for peer in peers)

        def lost():
            return sum(end.port.counter('rc_retry_exceeded') for end in peers)

        inside = ['ip', 'netns', 'exec']
        with subprocess.Popen(
                [*inside, one.name, 'taskset', '1', 'python3', '-c', SERVER,
                 str(len(peers)), str(args.seconds), how], text=True,
                stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            clients = [subprocess.Popen(  # pylint: disable=consider-using-with
                [*inside, peer.name, 'taskset', '2', 'python3', '-c', CLIENT,
                 one.v4, how], stderr=subprocess.DEVNULL) for peer in peers]
            server.stdout.readline()
            before = lost(), one.port.counter('rc_rnr_nak')
            rate = float(server.stdout.readline())
            after = lost(), one.port.counter('rc_rnr_nak')
            for client in clients:
                client.kill()
                client.wait()
        note('Mbit/s', rate * 8 / 1e6)
        note('not ready a second', (after[1] - before[1]) / args.seconds)
        note('lost connections', after[0] - before[0])


def parts(args):
    """(name, function)"""
    def udp(module, more, note):
        incast(module, more, note, 'udp')

    found = {'memory': memory, 'memory, own': memory_own, 'incast': incast,
             'incast, UDP': udp}
    return {name: part for name, part in found.items()
            if not args.only or name in args.only.split(';')}


def main(argv):
    ap = argparse.ArgumentParser()
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--hosts', type=int, default=10)
    ap.add_argument('--seconds', type=float, default=10, help='of incast')
    ap.add_argument('--only', metavar='PART;...')
    ap.add_argument('--quick', action='store_true', help='a single round')
    ap.add_argument('--json', action='store_true')
    ap.add_argument('--sites', action='store_true', help='who holds memory')
    ap.add_argument('who', nargs='+', metavar='WHO')
    args = ap.parse_args(argv)
    whom, modules = pair.whom(args.who)
    if args.quick:
        args.rounds = 1
    results = {}
    order = ([*whom, *reversed(whom)] * args.rounds)[:len(whom) * args.rounds]
    for name, part in parts(args).items():
        for kind in order:
            def note(what, value, kind=kind, name=name):
                figure = (name, what)
                results.setdefault(figure, {}).setdefault(kind, []).append(value)
                print(f'  {name:12} {kind:6} {what:22} {value:10.1f}',
                      flush=True)
                if args.json and figure in FIGURES:
                    pair.result(FIGURES[figure], 'conn', '-', 'wall', kind, value)

            part(modules.get(kind, kind), args, note)

    print(f'\n{"":36}' + ''.join(f' {kind:>10}' for kind in whom))
    for (name, what), found in results.items():
        print(f'{name + ", " + what:36}' + ''.join(
            f' {statistics.median(found[kind]):10.1f}' for kind in whom))
