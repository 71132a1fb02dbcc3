#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of kernel-build, without building anything."""

import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True

# pylint: disable-next=wrong-import-position
from common import load_program  # noqa: E402

build = load_program(os.path.join(HERE, "kernel-build"))


class Configuration(unittest.TestCase):
    """What is asked for and what it became."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.where = where.name

    def file(self, name, text):
        """A file with that text; its path."""
        path = os.path.join(self.where, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_every_symbol_is_looked_at(self):
        has = self.file(".config", "CONFIG_A=y\nCONFIG_B=m\nCONFIG_N=17\n"
                        '# CONFIG_OFF is not set\nCONFIG_S="x"\n')
        good = self.file("good", "# a remark\nCONFIG_A=y\nCONFIG_N=17\n"
                         '# CONFIG_OFF is not set\nCONFIG_S="x"\n'
                         "# CONFIG_UNKNOWN is not set\n")
        self.assertEqual(build.lost_symbols(has, [good]), [])
        bad = self.file("bad", "CONFIG_B=y\nCONFIG_N=18\nCONFIG_GONE=y\n"
                        "CONFIG_OFF=m\n# CONFIG_A is not set\n")
        self.assertEqual(build.lost_symbols(has, [good, bad]), [
            "bad wants CONFIG_A=n, it became y",
            "bad wants CONFIG_B=y, it became m",
            "bad wants CONFIG_GONE=y, it became n",
            "bad wants CONFIG_N=18, it became 17",
            "bad wants CONFIG_OFF=m, it became n"])

    def test_fragments_say_things_once(self):
        for variant in build.STEPS:
            seen = set()
            for path in build.fragments(variant):
                names = set(build.read_config(path))
                self.assertTrue(names)
                self.assertEqual(seen & names, set(), variant)
                seen |= names

    def test_stamp_follows_the_fragments(self):
        for name in ("base", "debug", "gcov"):
            self.file(f"{name}.config", f"CONFIG_{name.upper()}=y\n")
        with mock.patch.object(build, "CONFIG", self.where):
            debug, gcov = build.stamp("debug"), build.stamp("gcov")
            self.assertNotEqual(debug, gcov)
            self.file("debug.config", "CONFIG_DEBUG=m\n")
            self.assertNotEqual(build.stamp("debug"), debug)
            self.assertEqual(build.stamp("gcov"), gcov)
            self.file("base.config", "CONFIG_BASE=m\n")
            self.assertNotEqual(build.stamp("gcov"), gcov)


class Cache(unittest.TestCase):
    """Which of several kernels is taken, and which one goes."""

    def setUp(self):
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.where = os.path.realpath(where.name)
        patch = mock.patch.dict(os.environ, IPOIB_CACHE=self.where)
        patch.start()
        self.addCleanup(patch.stop)

    def kernel(self, name, complete=True, age=0):
        """A kernel in the cache; its directory."""
        tree = build.cache_dir("kernels", name)
        if complete:
            with open(os.path.join(tree, ".complete"), "wb"):
                pass
        time = 1700000000 - age
        os.utime(tree, (time, time))
        return tree

    def test_newest_complete_one_is_taken(self):
        tail = "-ipoib-debug-01234567"
        self.assertIsNone(build.cached(tail))
        self.kernel("6.12.9" + tail)
        tree = self.kernel("6.12.10" + tail)
        self.kernel("6.12.11" + tail, complete=False)
        self.kernel("6.12.12-ipoib-debug-76543210")
        self.kernel("6.12.95+deb12-amd64")
        self.assertEqual(build.cached(tail), tree)

    def test_old_ones_go(self):
        names = [f"6.12.9-ipoib-debug-0000000{n}" for n in range(4)]
        trees = [self.kernel(name, age=n) for n, name in enumerate(names)]
        self.kernel("6.12.9-ipoib-gcov-00000000", age=99)
        self.kernel("6.12.95+deb12-amd64", age=99)
        with mock.patch.object(build, "say"):
            build.drop_old("debug", trees[0])
        self.assertEqual(sorted(os.listdir(build.cache_dir("kernels"))), [
            "6.12.9-ipoib-debug-00000000", "6.12.9-ipoib-debug-00000001",
            "6.12.9-ipoib-gcov-00000000", "6.12.95+deb12-amd64"])

    def test_newest_source_is_taken(self):
        debs = build.cache_dir("deb")
        for version in ("6.12.95-1~bpo12+1", "6.12.117-1~deb12u1"):
            with open(os.path.join(debs, f"{build.PACKAGE}_{version}_all.deb"),
                      "wb"):
                pass
        self.assertEqual(build.find_version(False), "6.12.117-1~deb12u1")


if __name__ == "__main__":
    unittest.main()
