# SPDX-License-Identifier: GPL-2.0-only
"""
Many neighbours at once, in the guest: found, and kept when the SM changes.

    peers RESOLVE FAILOVER WHO...       (FAILOVER 0: without that)

WHO is "stock", or a name with a module, as in "ours=ib_ipoib.ko".

HCA 0 has the SM, HCA 1 the host that sends, HCA 2 the standby SM; the others
have alias GUIDs, as many as there are to be peers.  The sender's neighbour
entries are static, so that all it has to ask for are paths.  RESOLVE of them get
a datagram each, one peer after the other; FAILOVER others get 64 each.  Then
FAILOVER of them get one each, and one every 200 ms while the SM is killed and
the standby takes over.

SA queries are the MADs that leave the sender's port meanwhile.
"""

import collections
import json
import os
import subprocess
import threading
import time

import pair
from lib.fabric import fabric, port, sm
from lib.ipoib import iface_of
from lib.sa import alias_guids
from lib.utils import cmd, wait_until, write
from pair import sh

SENDER, STANDBY, FIRST = 1, 2, 3
BURST, FLOW_S, FLOW_MS = 64, 14, 200
# load.c waits as long for datagrams (PEERS_LIMIT_NS)
LIMIT_NS = 30e9
# Either driver gives a query a second, in which ib_sa sends it ten times
RESEND = 0.1
GUID_BASE = 0x021bd5aa00000000
# What a standby SM and the master's end take: polls in vain, two a second
QUICK = {'sminfo_polling_timeout': 500, 'polling_retry_number': 3}


class Host:
    """A namespace with the interface of a port."""

    def __init__(self, where, name):
        self.port, self.name, self.dev, self.guids = where, name, None, []

    def set_up(self, v4):
        self.dev = iface_of(self.port)[1]
        sh('ip', 'netns', 'add', self.name)
        sh('ip', 'link', 'set', self.dev, 'netns', self.name)
        self.ip('link', 'set', 'lo', 'up')
        self.ip('link', 'set', self.dev, 'up')
        self.ip('addr', 'add', v4, 'dev', self.dev)

    def ip(self, *words):
        return sh('ip', '-n', self.name, *words)

    def carrier(self):
        return 'LOWER_UP' in self.ip('link', 'show', self.dev)

    def lladdr(self, guid):
        """The interface's link-layer address, with another GUID in it."""
        link = json.loads(self.ip('-j', 'link', 'show', self.dev))[0]
        own = bytes.fromhex(link['address'].replace(':', ''))
        return ':'.join(f'{octet:02x}' for octet in
                        own[:12] + guid.to_bytes(8, 'big'))


class Bed:
    """The sender, and hosts with alias GUIDs."""

    def __init__(self, count):
        numbers = sorted(each.number for each in fabric.hcas())[FIRST:]
        self.sender = Host(port(SENDER), 'sender')
        self.hosts = [Host(port(n), f'peer{n}') for n in numbers]
        self.peers = []         # (IPv4 address, host, GUID)
        for n in range(count):
            host = self.hosts[n % len(self.hosts)]
            guid = GUID_BASE + n
            host.guids.append(guid)
            self.peers.append((f'10.20.{n >> 8}.{n & 255}', host, guid))

    def give_guids(self):
        for host in self.hosts:
            if host.guids:
                alias_guids(host.port, host.guids)

    def set_up(self):
        for number, host in enumerate([self.sender, *self.hosts]):
            host.set_up(f'10.21.0.{number + 1}/16')
        for host in (self.sender, *self.hosts):
            wait_until(host.carrier, 30, f'a carrier of {host.name}')
        for host in self.hosts:
            host.ip('route', 'add', 'local', '10.20.0.0/16', 'dev', 'lo')
        self.sender.ip('route', 'add', '10.20.0.0/16', 'dev', self.sender.dev)
        lines = [f'neigh replace {v4} lladdr {host.lladdr(guid)} '
                 f'dev {self.sender.dev} nud permanent\n'
                 for v4, host, guid in self.peers]
        cmd(['ip', '-n', self.sender.name, '-batch', '-'], stdin=''.join(lines))

    def tear_down(self):
        for host in (self.sender, *self.hosts):
            sh('ip', 'netns', 'del', host.name)
        wait_until(lambda: all(os.path.exists(f'/sys/class/net/{host.dev}')
                               for host in (self.sender, *self.hosts)), 30,
                   'interfaces at home')

    def run(self, peers, count, seconds, meanwhile=lambda: None):
        """load peers to some of them, decoded."""
        argv = [pair.LOAD, 'peers', self.sender.name, str(count), str(seconds),
                str(FLOW_MS), *(host.name for host in self.hosts)]
        with subprocess.Popen(argv, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as proc:
            proc.stdin.write('\n'.join(v4 for v4, *_ in peers))
            proc.stdin.close()
            meanwhile()
            out = proc.stdout.read()
        return json.loads(out)


class Queries:
    """
    MADs of the sender: how many, and how many queries at most were under way.
    What is not answered is sent again: MADs sent and not answered are counted
    for so long only, and so is each query once.
    """

    def __init__(self, where):
        self.port, self.most, self.stopping = where, 0, False
        self.begin = self.counts()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def counts(self):
        found = self.port.counters()
        return found['mad_tx'], found['mad_rx']

    def asked(self):
        return self.counts()[0] - self.begin[0]

    def watch(self):
        recent = collections.deque()
        while not self.stopping:
            sent, received = self.counts()
            now = time.monotonic()
            recent.append((now, sent - received))
            while recent[0][0] < now - RESEND:
                recent.popleft()
            self.most = max(self.most, sent - received -
                            min(missing for _, missing in recent))
            time.sleep(0.002)

    def stop(self):
        self.stopping = True
        self.thread.join()


def resolve(bed, many, result):
    """Row 17: the first ones get a datagram each, the others a burst."""
    asked = Queries(bed.sender.port)
    done = bed.run(bed.peers[:many], 1, 0)
    asked.stop()
    print(f'  {done}, {asked.asked()} MADs, {asked.most} at a time', flush=True)
    # Those that never were cost as long as was waited for them.
    result('resolve-one', (done['ns'] or LIMIT_NS) / 1e6)
    result('resolve-queries', asked.asked() / many)
    if bed.peers[many:]:
        done = bed.run(bed.peers[many:], BURST, 0)
        print(f'  {done}', flush=True)
        result('resolve', (done['ns'] or LIMIT_NS) / 1e9)
        result('resolve-lost', done['sent'] - done['received'])


def fail_over(bed, result):
    """Row 18."""
    watched = []

    def kill():
        second = sm.spawn(port(STANDBY), conf=QUICK)
        wait_until(lambda: 'STANDBY' in cmd(
            ['sminfo', port(STANDBY).lid()], fail=False).stdout, 30, 'a standby SM')
        watched.append(Queries(bed.sender.port))
        sm.stop(hard=True, but=second)
        wait_until(lambda: bed.sender.port.sm_lid() == port(STANDBY).lid(), 30,
                   'the second SM is the master')
        # OpenSM knows of alias GUIDs only what it is told; drivers of virtual
        # functions tell it again.
        bed.give_guids()

    done = bed.run(bed.peers, 1, FLOW_S, kill)
    watched[0].stop()
    print(f'  {done}, {watched[0].asked()} MADs, {watched[0].most} at a time',
          flush=True)
    # Whole intervals without a datagram; less is how the sender is scheduled.
    result('failover-gap', max(0, round(done['gap_ns'] / 1e6 / FLOW_MS) - 1) * FLOW_MS)
    result('failover-lost', done['flow_sent'] - done['flow_received'])
    result('failover-queries', watched[0].most)
    sm.restart()
    sm.answers()


def measure(who, modules, count, action):
    def result(load, value):
        pair.result(load, '-', pair.HCA, 'wall', who, value)

    print(f'peers: {who}, {count} of them', flush=True)
    bed = Bed(count)
    bed.give_guids()
    pair.load(who, modules, len(fabric.hcas()))
    bed.set_up()
    action(bed, result)
    bed.tear_down()
    pair.unload(who)


def main(argv):
    many, some, *words = argv
    whom, modules = pair.whom(words)
    for number in (1, 2, 3):
        write(f'/proc/sys/net/ipv4/neigh/default/gc_thresh{number}', '8192')
    many, some = int(many), int(some)
    for who in whom:
        measure(who, modules, many + some,
                lambda bed, result: resolve(bed, many, result))
    for who in whom if some else []:
        measure(who, modules, some, fail_over)
