# SPDX-License-Identifier: GPL-2.0-only
"""What a module's file says of its code: sections, functions, calls to the kernel."""

import bisect
import collections
import struct

HEADER = struct.Struct("<40xQ10xHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
SYMTAB, RELA = 2, 4
FUNCTION = 2
EXECUTABLE = 4
# R_X86_64_PC32 and R_X86_64_PLT32, and the instruction before such an address
RELATIVE = (2, 4)
CALL, JUMP = 0xe8, 0xe9

Section = collections.namedtuple("Section", "name kind flags offset size link info")
# tail: a jump, so that nothing is returned to
Reference = collections.namedtuple("Reference", "section end function symbol tail")


class Elf:
    """A relocatable file of amd64."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        start, size, count, names = HEADER.unpack_from(self.data)
        rows = [SECTION.unpack_from(self.data, start + size * number)
                for number in range(count)]
        self.sections = [Section(self._text(rows[names][4] + row[0]), row[1], row[2],
                                 *row[4:8]) for row in rows]
        table = next(each for each in self.sections if each.kind == SYMTAB)
        text = self.sections[table.link].offset
        self.symbols = [(self._text(text + name), info & 15, where, value)
                        for name, info, _, where, value, _ in
                        SYMBOL.iter_unpack(self._bytes(table))]

    def _text(self, at):
        return self.data[at:self.data.index(0, at)].decode()

    def _bytes(self, section):
        return self.data[section.offset:section.offset + section.size]

    def functions(self, number):
        """Of a section: (value, name), in order."""
        return sorted((value, name) for name, kind, where, value in self.symbols
                      if kind == FUNCTION and where == number)

    def code(self, *names):
        """Sections of code whose names begin so: (number, section)."""
        return [(number, each) for number, each in enumerate(self.sections)
                if each.flags & EXECUTABLE and each.name.startswith(names)]

    def references(self, number):
        """Calls and jumps of a section to other symbols."""
        section, functions = self.sections[number], self.functions(number)
        for table in self.sections:
            if table.kind != RELA or table.info != number:
                continue
            for at, what, _ in RELOCATION.iter_unpack(self._bytes(table)):
                before = self.data[section.offset + at - 1]
                if what & 0xffffffff not in RELATIVE or before not in (CALL, JUMP):
                    continue
                place = bisect.bisect(functions, (at, "\x7f")) - 1
                name = functions[place][1] if place >= 0 else "?"
                yield Reference(section.name, at + 4, name.split(".")[0],
                                self.symbols[what >> 32][0], before == JUMP)
