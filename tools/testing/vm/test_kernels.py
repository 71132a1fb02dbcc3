#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of what fetches kernels: apt's sources, symbols, what is refused."""

import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))

ONE_LINE = """\
# deb http://no.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://a.example/debian bookworm main contrib
deb http://b.example/debian bookworm-backports main # yes
deb-src http://c.example/debian bookworm main
"""
DEB822 = """\
Types: deb deb-src
URIs: http://d.example/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /k.gpg

Types: deb-src
URIs: http://e.example/debian
Suites: trixie

Types: deb
URIs: http://f.example/debian
Suites: sid
Enabled: no
"""
# Two symbols as the kernel exports them, the second in a namespace.  The
# linker lets one name be the end of another.
SYMBOLS = """\
	.section __ksymtab_strings,"aMS",@progbits,1
1:	.asciz "ib_register_client"
2:	.asciz "client"
3:	.asciz "SPACE"
	.section __ksymtab,"a"
	.long _start - ., 1b - ., 0
	.section __ksymtab_gpl,"a"
	.long _start - ., 2b - ., 3b - .
	.text
	.globl _start
_start:	ret
"""


def run(name, *argv, **env):
    """Run a script of this directory: (status, output)."""
    done = subprocess.run([os.path.join(HERE, name), *argv],
                          env=dict(os.environ, **env), text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class AptSources(unittest.TestCase):
    """apt-sources reads both formats."""

    def sources(self, *argv, one_line="", deb822=""):
        """What it makes of files."""
        with tempfile.TemporaryDirectory() as where:
            os.mkdir(os.path.join(where, "sources.list.d"))
            for name, text in (("sources.list", one_line),
                               ("sources.list.d/x.sources", deb822)):
                with open(os.path.join(where, name), "w",
                          encoding="ascii") as file:
                    file.write(text)
            status, out = run("apt-sources", *argv, IPOIB_APT_DIR=where)
        self.assertEqual(status, 0, out)
        return out.splitlines()

    def test_one_line(self):
        self.assertEqual(self.sources(one_line=ONE_LINE), [
            "[arch=amd64 signed-by=/k.gpg]|http://a.example/debian|bookworm",
            "|http://b.example/debian|bookworm-backports"])

    def test_deb822(self):
        self.assertEqual(self.sources(deb822=DEB822), [
            "[signed-by=/k.gpg]|http://d.example/debian|trixie",
            "[signed-by=/k.gpg]|http://d.example/debian|trixie-updates"])

    def test_one_suite(self):
        self.assertEqual(self.sources("trixie", one_line=ONE_LINE,
                                      deb822=DEB822),
                         ["[signed-by=/k.gpg]|http://d.example/debian|trixie"])
        self.assertEqual(self.sources("sid", deb822=DEB822), [])


class Symvers(unittest.TestCase):
    """symvers reads what a kernel exports."""

    def test_image(self):
        with tempfile.TemporaryDirectory() as where:
            source = os.path.join(where, "a.S")
            image = os.path.join(where, "vmlinux")
            modules = os.path.join(where, "modules.symbols")
            with open(source, "w", encoding="ascii") as file:
                file.write(SYMBOLS)
            with open(modules, "w", encoding="ascii") as file:
                file.write("# Aliases\nalias symbol:ib_poll_cq ib_core\n")
            subprocess.run(["gcc", "-nostdlib", "-static", "-Wl,-O2", "-o",
                            image, source], check=True)
            subprocess.run(["strip", image], check=True)
            status, out = run("symvers", image, modules)
        self.assertEqual((status, out.splitlines()), (0, [
            "0x00000000\tib_register_client\tvmlinux\tEXPORT_SYMBOL\t",
            "0x00000000\tclient\tvmlinux\tEXPORT_SYMBOL_GPL\tSPACE",
            "0x00000000\tib_poll_cq\tib_core\tEXPORT_SYMBOL_GPL\t"]))

    def test_no_image(self):
        status, out = run("symvers", "/etc/passwd", "/dev/null")
        self.assertNotEqual(status, 0)
        self.assertIn("ELF64", out)


class Refusals(unittest.TestCase):
    """What does not exist is not looked for."""

    def test_series(self):
        for words in (["get", "2.4"], ["kdir", "6"], ["version"], ["put"]):
            with self.subTest(words=words):
                status, out = run("kernels", *words)
                self.assertNotEqual(status, 0)
                self.assertIn("kernels", out)


if __name__ == "__main__":
    unittest.main()
