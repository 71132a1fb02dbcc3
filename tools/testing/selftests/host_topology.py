# SPDX-License-Identifier: GPL-2.0-only
"""What the fabric's program topology makes of netlists and of its command line."""

import os
import subprocess
import sys

from lib import ksft_eq, ksft_in, ksft_ne, ksft_raises, ksft_true

from common import TESTING, load_program

BOOT = "host"

PROGRAM = os.path.join(TESTING, "ibdevsim", "topology")
TOPOLOGY = load_program(PROGRAM)

# As ibnetdiscover prints it, with what else it says of each node and port
DISCOVERED = """
#
# Topology file: generated on Wed Nov 25 07:30:00 2026
#
# Initiated from node 0002c903000e0b72 port 0002c903000e0b73

vendid=0x2c9
devid=0xc738
sysimgguid=0x2c90300423430
switchguid=0x2c90300423430(2c90300423430)
Switch\t36 "S-0002c90300423430"\t\t# "a switch; [1] of many" enhanced port 0 lid 2 lmc 0
[1]\t"H-0002c903000e0b72"[1](2c903000e0b73) \t\t# "one HCA-1" lid 1 4xFDR
[36][ext 12]\t"S-0002c90300aaaaaa"[7][ext 3]\t\t# "far" lid 3 4xFDR

vendid=0x2c9
devid=0xc738
sysimgguid=0x2c90300aaaaaa
switchguid=0x2c90300aaaaaa(2c90300aaaaaa)
Switch\t8 "S-0002c90300aaaaaa"\t\t# "far" base port 0 lid 3 lmc 0
[7][ext 3]\t"S-0002c90300423430"[36][ext 12]\t\t# "a switch" lid 2 4xFDR
[8]\t"H-0002c903000e0b80"[2](2c903000e0b82) \t\t# "two HCA-1" lid 9 4xFDR

vendid=0x2c9
devid=0x1011
sysimgguid=0x2c903000e0b83
caguid=0x2c903000e0b80
Ca\t2 "H-0002c903000e0b80"\t\t# "two HCA-1"
[2](2c903000e0b82) \t"S-0002c90300aaaaaa"[8]\t\t# lid 9 lmc 0 "far" lid 3 4xFDR

caguid=0x2c903000e0b72
Ca\t1 "H-0002c903000e0b72"\t\t# "one HCA-1"
[1](2c903000e0b73) \t"S-0002c90300423430"[1]\t\t# lid 1 lmc 0 "a switch" lid 2 4xFDR
"""

NODES = 'Switch 4 "a"\n{}\nSwitch 4 "b"\n{}\nHca 1 "h"\n{}\nHca 2 "g"\n{}\n'

# Netlists that make no sense, by what is said of them
BAD = {
    'line 1: not a port of a node': '[1] "a"[1]\n',
    'line 2: not a port of a node': 'Switch 4 "a"\n[1] a[1]\n',
    'line 2: not a port of a node: [x]': 'Switch 4 "a"\n[x] "a"[1]\n',
    'line 2: "b" is connected, but not described': 'Switch 4 "a"\n[1] "b"[1]\n',
    'line 2: "a" is described twice': 'Switch 4 "a"\nSwitch 4 "a"\n',
    'line 3: "a" is described twice': 'Switch 4 "a"\n\nHca 1 "a"\n',
    'line 1: there are no routers': 'Rt 2 "R-1"\n',
    'line 2: "a" has no port 5': NODES.format('[5] "b"[1]', "", "", ""),
    'line 2: "a" has no port 0': NODES.format('[0] "b"[1]', "", "", ""),
    'line 2: "h" has no port 2': NODES.format('[1] "h"[2]', "", "", ""),
    'line 2: a port is its own': NODES.format('[1] "a"[1]', "", "", ""),
    'line 4: "b"[1] has two cables':
        NODES.format('[1] "b"[1]', '[1] "a"[2]', "", ""),
    'line 4: "a"[1] has two cables':
        NODES.format('[1] "b"[1]', '[2] "a"[1]', "", ""),
    'line 6: two HCAs without a switch': NODES.format("", "", '[1] "g"[1]', ""),
}


def test_discovered():
    """A netlist of ibnetdiscover, with comments, GUIDs and external ports."""
    found = TOPOLOGY.parse(DISCOVERED)
    one, far = "S-0002c90300423430", "S-0002c90300aaaaaa"
    ksft_eq(found.switches, {one: 36, far: 8})
    ksft_eq(found.hcas, {"H-0002c903000e0b80": 2, "H-0002c903000e0b72": 1})
    ksft_eq([set(cable) for cable in found.cables], [
        {(one, 1), ("H-0002c903000e0b72", 1)}, {(one, 36), (far, 7)},
        {(far, 8), ("H-0002c903000e0b80", 2)}])


def test_bad():
    """What makes no sense has its line and a reason."""
    for reason, text in BAD.items():
        with ksft_raises(ValueError, reason) as raised:
            TOPOLOGY.parse(text)
        ksft_in(reason, str(raised.error))


def test_shapes():
    """Each shape is what its name says, and survives being written and read."""
    for text, switches, hcas, cables in (
            ("fat-tree:8,4,8", 12, 64, 64 + 32), ("fat-tree:2,1,1", 3, 2, 4),
            ("torus:5,5,1", 25, 25, 25 + 50), ("torus:4,3,2", 12, 24, 24 + 24),
            ("ring:6,1", 6, 6, 6 + 6), ("ring:3,2", 3, 6, 6 + 3)):
        new = TOPOLOGY.shape(text)
        ksft_eq((len(new.switches), len(new.hcas), len(new.cables)),
                (switches, hcas, cables), text)
        ends = [end for cable in new.cables for end in cable]
        ksft_eq(len(set(ends)), len(ends), f"{text}: ports with one cable")
        again = TOPOLOGY.parse(new.text())
        ksft_eq((again.switches, again.hcas), (new.switches, new.hcas), text)
        ksft_eq({frozenset(cable) for cable in again.cables},
                {frozenset(cable) for cable in new.cables}, text)


def run(*args, stdin=""):
    """The program, as a user calls it."""
    return subprocess.run([sys.executable, PROGRAM, *args], input=stdin, text=True,
                          capture_output=True, timeout=20, check=False)


def test_command():
    """Errors are one line and a status; --print prints the netlist."""
    done = run("--print", "--shape", "ring:3,1")
    ksft_eq((done.returncode, done.stderr), (0, ""))
    ksft_eq(run("--print", "-", stdin=done.stdout).stdout, done.stdout)
    for args, reason in (
            (("--shape", "cube:2"), "no shape cube:2"),
            (("--shape", "ring:3"), "no shape ring:3"),
            (("--shape", "ring:3,x"), "no shape ring:3,x"),
            (("--shape", "ring:300,1"), "at most 255 switches"),
            (("--shape", "fat-tree:255,1,1"), "of 254 ports"),
            (("--shape", "torus:2,3,0"), "no shape torus:2,3,0: too small"),
            (("--shape", "ring:-3,1"), "no shape ring:-3,1: too small"),
            (("/nonexistent",), "No such file"),
            (("--print", "--shape", "ring:3,1", "--join", "x:1=y"),
             'no switch "x"'),
            (("-",), "line 1: ")):
        done = run(*args, stdin='[1] "a"[1]\n')
        ksft_ne(done.returncode, 0, reason)
        ksft_in(reason, done.stderr)
        ksft_eq(len(done.stderr.splitlines()), 1, done.stderr)
    for args in ((), ("a", "--shape", "ring:3,1"),
                 ("--shape", "ring:3,1", "--join", "nonsense")):
        done = run(*args)
        ksft_eq(done.returncode, 2)
        ksft_true("usage:" in done.stderr, done.stderr)
