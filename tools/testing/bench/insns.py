# SPDX-License-Identifier: GPL-2.0-only
"""What a guest executed, as the plugin of QEMU (insns.c) has counted it."""

import bisect
import collections
import os

from common import ROOT

TOOLS = os.path.join(ROOT, 'build', 'bench')
USER = '[programs]'


def options(out):
    """What "vm/run" needs so that the parts that are marked are counted, in @out."""
    return ['--artifacts', out, '--env', f'IPOIB_MARKER={TOOLS}/load',
            '--plugin', f'{TOOLS}/insns.so,out={out}/insns']


def taken(out, part, units):
    """The profile of a part, by numbers, for each of so many units."""
    return Profile(f'{out}/insns.{part}', Symbols(f'{out}/kallsyms.{part}'), units)


class Symbols:
    """Functions of the kernel, as /proc/kallsyms has them."""

    def __init__(self, path):
        with open(path, encoding='ascii') as file:
            lines = (line.split() for line in file)
            self.table = sorted(
                (int(words[0], 16), words[2], words[3][1:-1] if words[3:] else '')
                for words in lines if words[1] in 'tTwW')
        self.starts = [start for start, _, _ in self.table]

    def at(self, address):
        """(function, module, whether the address is its first one)."""
        if address < 1 << 47:
            return USER, '', False
        place = bisect.bisect_right(self.starts, address) - 1
        start, name, owner = self.table[place]
        return name, owner, start == address


class Profile:
    """Instructions and calls by function, and instructions by module."""

    def __init__(self, blocks, symbols, units):
        self.insns = collections.Counter()
        self.calls = collections.Counter()
        self.modules = collections.Counter()
        with open(blocks, encoding='ascii') as file:
            for line in file:
                address, count, times = line.split()
                name, owner, first = symbols.at(int(address, 16))
                spent = int(count) * int(times) / units
                where = f'{name} [{owner}]' if owner else name
                self.insns[where] += spent
                self.modules[owner or (USER if name == USER else 'kernel')] += spent
                if first:
                    self.calls[where] += int(times) / units

    def show(self, title, top):
        print(f'\n{title}: {sum(self.insns.values()):.1f}; ' + ', '.join(
            f'{name} {spent:.1f}' for name, spent in self.modules.most_common()))
        print(f'{"instr":>10} {"calls":>9}')
        for name, spent in self.insns.most_common(top):
            print(f'{spent:10.2f} {self.calls[name]:9.4f}  {name}')

    def show_less(self, other, title, top):
        """What this one has more of than @other, and less."""
        print(f'\n{title}')
        print(f'{"more":>10} {"instr":>10} {"calls":>9} {"instr":>10} {"calls":>9}')
        names = set(self.insns) | set(other.insns)
        names = sorted(names, key=lambda name: self.insns[name] - other.insns[name])
        for name in [*names[:-top - 1:-1], *names[top - 1::-1]]:
            print(f'{self.insns[name] - other.insns[name]:+10.2f} '
                  f'{self.insns[name]:10.2f} {self.calls[name]:9.4f} '
                  f'{other.insns[name]:10.2f} {other.calls[name]:9.4f}  {name}')
