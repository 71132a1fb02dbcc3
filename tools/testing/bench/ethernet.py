# SPDX-License-Identifier: GPL-2.0-only
"""In the guest: what Ethernet on top of IPoIB costs (rows 33 and 34).

Guests behind a bridge on both hosts, beside the interfaces below alone, and beside a
guest that is routed to; and a host whose only interface is the Ethernet one, without
a bridge or a veth in between.
"""

import contextlib
import json

import pair
from pair import ENDS, sh

# A guest of each host, and one that the first host routes to
GUESTS = (('g1', '10.9.0.101', 'fd09::101'), ('g2', '10.9.0.102', 'fd09::102'))
ROUTED = ('g3', '10.9.0.103', 'fd09::103')
MANY = 500
# Samples by the clock of each set-up, which takes longer than they do
REPEAT = 2


def device(ns):
    """The IPoIB interface of a host."""
    return next(link['ifname'] for link in
                json.loads(sh('ip', '-j', '-n', ns, 'link', 'show', 'up'))
                if link.get('link_type') == 'infiniband')


def mtu(ns):
    return json.loads(sh('ip', '-j', '-n', ns, 'link', 'show', device(ns)))[0]['mtu']


@contextlib.contextmanager
def interface(ns):
    """The Ethernet interface of a host."""
    sh('ip', '-n', ns, 'link', 'add', 'link', device(ns), 'name', 'eib0', 'type',
       'eipoib')
    try:
        yield 'eib0'
    finally:
        sh('ip', '-n', ns, 'link', 'del', 'eib0', check=False)


def veth(host, guest, port):
    """A guest's cable; its other end is the host's affair."""
    ns, v4, v6 = guest
    size = str(mtu(host))
    sh('ip', 'link', 'add', port, 'netns', host, 'mtu', size, 'type', 'veth', 'peer',
       'name', 'eth0', 'netns', ns, 'mtu', size)
    sh('ip', '-n', ns, 'addr', 'add', v4 + '/24', 'dev', 'eth0')
    sh('ip', '-n', ns, 'addr', 'add', v6 + '/64', 'dev', 'eth0', 'nodad')
    for where, name in ((ns, 'eth0'), (host, port)):
        sh('ip', '-n', where, 'link', 'set', name, 'up')


@contextlib.contextmanager
def bridged(host, guest):
    """A guest behind a bridge."""
    with interface(host) as name:
        sh('ip', '-n', host, 'link', 'add', 'br0', 'type', 'bridge', 'stp_state', '0',
           'forward_delay', '0')
        veth(host, guest, 'v' + guest[0])
        for port in (name, 'v' + guest[0]):
            sh('ip', '-n', host, 'link', 'set', port, 'master', 'br0', 'up')
        sh('ip', '-n', host, 'link', 'set', 'br0', 'up')
        try:
            yield
        finally:
            sh('ip', '-n', host, 'link', 'del', 'br0', check=False)
            sh('ip', '-n', host, 'link', 'del', 'v' + guest[0], check=False)


@contextlib.contextmanager
def routed(host, guest):
    """A guest that the host routes to, and answers for (proxy ARP)."""
    port = 'v' + guest[0]
    veth(host, guest, port)
    for word in ('ip_forward', f'conf.{device(host)}.proxy_arp', f'conf.{port}.proxy_arp'):
        sh('ip', 'netns', 'exec', host, 'sysctl', '-qw', f'net.ipv4.{word}=1')
    sh('ip', '-n', host, 'route', 'add', guest[1] + '/32', 'dev', port)
    try:
        yield
    finally:
        sh('ip', '-n', host, 'link', 'del', port, check=False)
        sh('ip', 'netns', 'exec', host, 'sysctl', '-qw', 'net.ipv4.ip_forward=0')


@contextlib.contextmanager
def alone(host, guest):
    """The Ethernet interface itself in a namespace of its own."""
    with interface(host) as name:
        ns, v4, v6 = guest
        sh('ip', '-n', host, 'link', 'set', name, 'netns', ns)
        sh('ip', '-n', ns, 'addr', 'add', v4 + '/24', 'dev', name)
        sh('ip', '-n', ns, 'addr', 'add', v6 + '/64', 'dev', name, 'nodad')
        sh('ip', '-n', ns, 'link', 'set', name, 'up')
        try:
            yield
        finally:
            sh('ip', '-n', ns, 'link', 'del', name, check=False)


def loads(bench, what, net, who, ends):
    """A stream and requests; where instructions are counted, datagrams too."""
    for here, there in (ends, ends[::-1]):
        pair.wait(f'a ping reply of {there[0]}',
                  lambda h=here, t=there: pair.ping(h[0], '-4', t[1]))
    names = (ends[0][0], ends[1][0])
    if bench.icount:
        bench.tcp(f'{what}-tcp', net, who, peer=ends[1][1], ends=ends)
        bench.datagrams(f'{what}-udp', 64, net, who, ends)
        return
    for _ in range(REPEAT):
        bench.tcp(f'{what}-tcp', net, who, peer=ends[1][1], ends=ends)
        done = bench.run('rr', *names, ends[1][1], 0, bench.seconds)
        bench.result(f'{what}-rr', net, who, done['count'] * 1e9 / done['ns'])


# One process for all: each would take a second to start.
GIVE = f"""
import ipaddress, socket, sys
sys.path.insert(0, {pair.ROOT!r} + '/tools/ipoibctl')
import ipoib_netlink
family = ipoib_netlink.Ethernet()
index = socket.if_nametoindex('eib0')
first = ipaddress.ip_address('10.20.0.1')
for number in range({MANY}):
    family.change('guest-new', index, first + number, bytes.fromhex('020000000001'))
"""


def guest_memory(bench, net, who):
    """KiB of a guest's address, which is one of many that are given."""
    def slab():
        sh('sh', '-c', 'echo 3 > /proc/sys/vm/drop_caches')
        with open('/proc/meminfo', encoding='ascii') as text:
            return sum(int(line.split()[1]) for line in text
                       if line.startswith(('Slab:', 'VmallocUsed:', 'Percpu:')))
    with interface('h1'):
        sh('ip', '-n', 'h1', 'link', 'set', 'eib0', 'up')
        before = slab()
        sh('ip', 'netns', 'exec', 'h1', 'python3', '-c', GIVE)
        bench.result('eth-memory', net, who, (slab() - before) / MANY)


def measure(bench, net, who):
    """All of it, on a pair that is set up."""
    sh('insmod', bench.modules['ethernet'])
    with pair.namespaces(GUESTS, (ROUTED,)):
        loads(bench, 'eth-below', net, who, ENDS)
        if bench.icount:
            with alone('h1', GUESTS[0]):
                loads(bench, 'eth-alone', net, who, (GUESTS[0], ENDS[1]))
        with bridged('h1', GUESTS[0]):
            loads(bench, 'eth-peer', net, who, (GUESTS[0], ENDS[1]))
            with bridged('h2', GUESTS[1]):
                loads(bench, 'eth-guests', net, who, GUESTS)
        with routed('h1', ROUTED):
            loads(bench, 'eth-routed', net, who, (ROUTED, ENDS[1]))
        if not bench.icount:
            guest_memory(bench, net, who)
    sh('rmmod', 'eth_ipoib')
