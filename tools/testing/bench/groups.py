# SPDX-License-Identifier: GPL-2.0-only
"""Join and leave many multicast groups, in the guest of an --icount machine.

    groups COUNT FLOOR.ko WHO...

What it takes, for each WHO ("stock", or a name with a module, as in
"ours=ib_ipoib.ko"), one after the other: instructions of
all that runs but the subnet manager, until the SA has answered for all groups;
then, once more, how long interrupts are off at most (FLOOR.ko's timer says).
"""

import glob
import os
import socket
import struct
import time

import pair
from pair import sh, wait

DEV = 'ib0'
LIST = f'/sys/kernel/debug/ipoib/{DEV}_mcg'
LATE = '/sys/kernel/debug/ipoib_floor/late'
# The groups are 239.1.X.Y, and this is in their GIDs.
GID_WORD = 0x0f01
# A socket may be in 20 groups.
EACH = 20


def read(path):
    with open(path, encoding='ascii', errors='replace') as file:
        return file.read()


def joined():
    """How many of our groups the interface is a member of."""
    ours = count = 0
    for line in read(LIST).splitlines():
        words = line.split()
        if words[:1] == ['GID:']:
            ours = int(words[1].split(':')[-2], 16) == GID_WORD
        count += ours and words == ['complete:', 'yes']
    return count


def cpu_ns():
    """How long tasks ran so far, without those of the subnet manager."""
    time.sleep(0.001)       # what runs now is added when it stops
    total = 0
    for line in read('/proc/schedstat').splitlines():
        if line.startswith('cpu'):
            total += int(line.split()[7])
    pid = read('/run/opensm.pid').strip()
    return total - sum(int(read(path).split()[0]) for path in
                       glob.glob(f'/proc/{pid}/task/*/schedstat'))


def until(count):
    """Wait until so many groups are joined; what asking took."""
    begin = time.process_time_ns()
    end = time.monotonic() + 600
    while joined() != count:
        if time.monotonic() > end:
            raise SystemExit(f'groups: {joined()} joined, not {count}')
        time.sleep(0.2)
    return time.process_time_ns() - begin


def join(count):
    """Sockets that are members."""
    index = socket.if_nametoindex(DEV)
    found = []
    for number in range(count):
        if number % EACH == 0:
            found.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        group = struct.pack('!4B', 239, 1, number >> 8, number & 255)
        found[-1].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                             group + struct.pack('4si', bytes(4), index))
    return found


def measured(load, who, action, count):
    """Instructions of something that is done when @count groups are joined."""
    if load:
        pair.mark('on')
    begin = cpu_ns()
    result = action()
    asking = until(count)
    time.sleep(2)           # the SA hears of some later
    value = cpu_ns() - begin - asking
    if load:
        pair.mark('off')
        pair.take_symbols()
        pair.result(load, '-', '-', 'icount', who, value)
    return result


def leave(sockets):
    for one in sockets:
        one.close()


def measure(who, modules, count):
    pair.load(who, modules)
    sh('ip', 'addr', 'add', '10.9.0.1/24', 'dev', DEV)
    sh('ip', 'link', 'set', DEV, 'up')
    wait('a carrier', lambda: 'LOWER_UP' in sh('ip', 'link', 'show', DEV))
    time.sleep(3)           # what the stack joins by itself
    sockets = measured('join', who, lambda: join(count), count)
    measured('leave', who, lambda: leave(sockets), 0)
    with open(LATE, 'w', encoding='ascii') as file:
        file.write('1')
    sockets = measured(None, who, lambda: join(count), count)
    measured(None, who, lambda: leave(sockets), 0)
    pair.result('join-late', '-', '-', 'icount', who, int(read(LATE)))
    with open(LATE, 'w', encoding='ascii') as file:
        file.write('0')
    pair.unload(who)


def main(argv):
    count, floor, *words = argv
    whom, modules = pair.whom(words)
    pair.MARKER = os.environ.get('IPOIB_MARKER')
    sh('insmod', floor)
    for who in whom:
        print(f'groups: {who}', flush=True)
        measure(who, modules, int(count))
    sh('rmmod', os.path.splitext(os.path.basename(floor))[0])
