# SPDX-License-Identifier: GPL-2.0-only
"""Fuzzers run for seconds: of logic that needs no device, and of the modules."""

import collections
import ctypes
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from lib import (Skip, ksft_eq, ksft_ge, ksft_in, ksft_ne, ksft_pr, ksft_raises,
                 ksft_true, timeout, wait_until)
import slowness
from common import ROOT, TESTING, load_program

BOOT = "host"
# The modules are built for it, a machine boots and makes the scene, and the minute
# itself takes a minute however quick the host is: see TAKEN in lib/groups.py.
SECONDS = 330

KERNEL = os.environ.get("IPOIB_TEST_KERNEL", "6.12")
# The kernel of our own for which the modules are not built with the recorder
UNRECORDED = ("gcov",)
UNIT = os.path.join(TESTING, "unit")
FUZZ = os.path.join(TESTING, "fuzz")


def fuzz(name, *words):
    """Run a fuzzer; status, what it printed."""
    done = subprocess.run(["make", "-s", "-C", UNIT, "fuzz",
                           f"FUZZERS={name}", *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def nothing_found(name):
    # "make fuzz" seeks elsewhere each time; a test has to repeat.
    status, text = fuzz(name, "SECONDS=10", "SEED=1")
    if status:
        for line in text.splitlines()[-40:]:
            ksft_pr(line)
    ksft_eq(status, 0)
    runs = re.search(r"number_of_executed_units: (\d+)", text)
    ksft_pr(f"{runs[1]} runs")
    ksft_ge(int(runs[1]), 10000, "runs")


@timeout(120)
def test_packet():
    """Senders and receivers agree about any packet, and stay within it."""
    nothing_found("packet")


@timeout(120)
def test_text():
    """P_Keys as people write them, private data as peers send it."""
    nothing_found("text")


@timeout(120)
def test_ethernet():
    """What eth_ipoib translates says the same on the other side, and back."""
    nothing_found("ethernet")


def defect_found(name):
    status, text = fuzz(name, "SECONDS=60", "SEED=1", "DEFECT=1")
    ksft_ne(status, 0)
    ksft_in("SUMMARY: libFuzzer: deadly signal", text)


@timeout(120)
def test_packet_defect():
    """A receiver that sees less of a packet than its sender is found."""
    defect_found("packet")


@timeout(120)
def test_text_defect():
    """A byte that private data must not have is found."""
    defect_found("text")


@timeout(120)
def test_ethernet_defect():
    """A translation that loses an option is found."""
    defect_found("ethernet")


def fuzz_modules(argv):
    """Run the fuzzer of the modules; status, and what it printed."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          errors="replace") as proc:
        try:
            text = proc.communicate()[0]
        except BaseException:
            # Its machine has a session of its own: it ends that.
            proc.terminate()
            raise
    return proc.returncode, text


def verdict(status, text):
    """What is wrong after a run of the fuzzer; nothing if it found nothing."""
    if not status:
        return ""
    again = re.search(r"make fuzz REPLAY=.*", text)
    if status == 1 and again:
        return f"the fuzzer found something: {again[0]}"
    return f"the fuzzer ended with status {status}"


@timeout(900 * slowness.kernel(KERNEL))
def test_modules():
    """A minute of the fuzzer finds nothing: always the same inputs and seed."""
    if os.environ.get("IPOIB_TEST_MODULE") == "stock":
        raise Skip("this tree's modules: they are built with the recorder")
    if KERNEL in UNRECORDED:
        raise Skip(f"no recorder on the kernel {KERNEL}")
    status, text = fuzz_modules([os.path.join(FUZZ, "fuzz"), "--core",
                                 "--kernel", KERNEL])
    for line in text.splitlines()[-40:]:
        ksft_pr(line)
    ksft_eq(verdict(status, text), "")


class Ran:
    """In place of a machine: one that has run inputs, and found something or not."""

    def __init__(self, status, count):
        self.status, self.count = status, count
        self.lines, self.dir, self.words = ["said"], "", ()

    def __call__(self, _kernel, where):
        self.dir = where
        os.makedirs(where)
        return self

    def run(self, words, _seconds, _progress=None):
        self.words = words
        return not self.status

    def found(self):
        return self.status not in (0, 2, 126)

    def state(self):
        return self.count, 1, 0, 60

    def last(self):
        return [bytes(4)] * 3


def core_minute(where, machine):
    """The program's minute in the core on a made-up machine: status, what it said."""
    program = load_program(os.path.join(FUZZ, "fuzz"))
    said = []
    shutil.rmtree(os.path.join(where, "core"), ignore_errors=True)
    vars(program).update(OUT=where, Machine=machine, blocks=lambda _kernel: 9,
                         say=said.append)
    argv, sys.argv = sys.argv, ["fuzz", "CORE=1", "MINUTES=", "SEED=", "ONLY="]
    try:
        args = program.parse_args()
    finally:
        sys.argv = argv
    return program.fuzz(args), "\n".join(said), program


def test_core_minute():
    """The core's minute begins as always; a find is told, and not tried again."""
    with tempfile.TemporaryDirectory() as where:
        machine = Ran(0, 1 << 20)
        os.mkdir(os.path.join(where, "corpus"))
        with open(os.path.join(where, "corpus", "earlier"), "wb") as file:
            file.write(bytes([9, 9, 0, 0]))
        status, said, program = core_minute(where, machine)
        given = sorted(os.listdir(os.path.join(where, "core", "corpus")))
        ksft_eq(status, 0, said)
        ksft_eq(machine.words[:2], ["-max_total_time=60", "-seed=1"])
        read = program.inputs.read_file
        tree = [body for name in os.listdir(program.CORPUS)
                for body in read(os.path.join(program.CORPUS, name))]
        ksft_eq(len(given), len(tree) + len(program.inputs.KINDS), "the tree's")
        ksft_eq(os.listdir(os.path.join(where, "corpus")), ["earlier"], "all is left")
        ksft_eq(verdict(status, said), "")
        # It does not come to the end of those that it was given.
        status, said, _ = core_minute(where, Ran(0, len(given) - program.TOLD_EVERY))
        ksft_eq((status, verdict(status, said)), (2, "the fuzzer ended with status 2"))
        status, said, _ = core_minute(where, Ran(2, 0))
        ksft_eq(status, 2, "no scene")
        status, said, _ = core_minute(where, Ran(125, 100))
        ksft_eq(status, 1)
        path = os.path.join(where, "find-1", "find.txt")
        ksft_in(f"REPLAY={os.path.relpath(path, ROOT)} KERNEL=6.12",
                verdict(status, said))
        ksft_eq(len(read(path)), 3)
        sys.argv, argv = ["fuzz", "CORE=1", "EMPTY=1"], sys.argv
        try:
            with ksft_raises(SystemExit):
                program.parse_args()
        finally:
            sys.argv = argv


# A machine that waits to be ended, in place of the runner
WAITING = """#!/bin/sh
trap 'echo > ended; exit 0' TERM
echo > begun
while :; do
	sleep 0.1
done
"""
RUNNING = """
import os, sys
from common import load_program
program = load_program(sys.argv[1])
program.RUN = os.path.abspath("waiting")
program.built = lambda *_: "none"
program.end_with_machines()
program.Machine("6.12", os.path.abspath("machine")).run([], 1)
"""
# The same in place of the program in a copy of the tree with an old defect
DEFECT = "cm-half-open"
RUNNING_DEFECT = """
import argparse, os, sys
from common import load_program
program = load_program(sys.argv[1])
program.OUT = os.getcwd()
program.copy_with = lambda *_: None
program.end_with_machines()
program.defect_found(argparse.Namespace(minutes=1, seed=1), %r)
""" % DEFECT


def ends(running, name):
    """A run that is told to end tells the program @name that it has started."""
    with tempfile.TemporaryDirectory() as where:
        script = os.path.join(where, name)
        os.makedirs(os.path.dirname(script), exist_ok=True)
        with open(script, "w", encoding="ascii") as file:
            file.write(WAITING.replace("> ", f"> {where}/"))
        os.chmod(script, 0o755)
        with subprocess.Popen([sys.executable, "-c", running,
                               os.path.join(FUZZ, "fuzz")], cwd=where,
                              env=dict(os.environ, PYTHONPATH=TESTING)) as proc:
            begun, ended = (os.path.join(where, name) for name in ("begun", "ended"))
            wait_until(lambda: os.path.exists(begun), 100, "it runs")
            proc.terminate()
        ksft_eq(proc.returncode, 143)
        wait_until(lambda: os.path.exists(ended), 30, "the machine ends")


@timeout(180)
def test_terminated():
    """A run that is told to end ends its machine."""
    ends(RUNNING, "waiting")


@timeout(180)
def test_terminated_defect():
    """So does one that looks for an old defect."""
    ends(RUNNING_DEFECT, f"defect-{DEFECT}/tools/testing/fuzz/fuzz")


@timeout(180)
def test_agent():
    """The agent of the fuzzer in the machine compiles without a warning."""
    done = subprocess.run(["make", "-s", "-C", FUZZ], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    ksft_eq((done.returncode, done.stdout), (0, ""))


def kinds_of_agent():
    """The kinds of calls as the agent numbers them."""
    with open(os.path.join(FUZZ, "agent", "agent.h"), encoding="utf-8") as file:
        body = re.search(r"enum call_kind {(.*?)CALL_KINDS", file.read(), re.S)[1]
    return [name.lower() for name in re.findall(r"CALL_(\w+),", body)]


def defect_input(header, text):
    """The input that the header of a patch says; there is none but has calls."""
    lines = header.partition("\nReached by:\n")[2].splitlines(keepends=True)
    calls = "".join(itertools.takewhile(lambda line: line.startswith("\t"), lines))
    return text.to_binary(calls)


def test_defects():
    """Old defects can still be put back, and say where they are seen and by what."""
    text = load_program(os.path.join(FUZZ, "text.py"))
    names = sorted(os.listdir(os.path.join(FUZZ, "defects")))
    areas = collections.Counter(name.partition("-")[0] for name in names)
    ksft_eq(areas, {"cm": 2, "netlink": 2, "packet": 2, "sa": 2, "uverbs": 2})
    for name in names:
        path = os.path.join(FUZZ, "defects", name)
        with open(path, encoding="utf-8") as file:
            header = file.read().partition("\n--- a/")[0]
        ksft_true(re.search(r"^Kernel: (6\.12|debug)$", header, re.M), name)
        ksft_true(defect_input(header, text), f"{name}: an input")
        # Without fuzz: what has moved away from it may not be what it was.
        done = subprocess.run(["patch", "-p1", "--dry-run", "-F0", "-f", "-i", path],
                              cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        ksft_eq((done.returncode, done.stdout if done.returncode else ""), (0, ""), name)


# In place of libFuzzer's: what it changes in data is its business.
MUTATE = """
#include <stddef.h>
#include <stdint.h>
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
	(void)data;
	return size < max ? size : max;
}
"""


def load_agent(where, *names):
    """Files of the agent as a library; what it lacks must not be called."""
    library = os.path.join(where, "agent.so")
    files = [os.path.join(FUZZ, "agent", name) for name in names]
    subprocess.run(["clang-14", "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE",
                    "-I", os.path.join(ROOT, "include", "uapi"), "-o", library,
                    *files, "-x", "c", "-"],
                   input=MUTATE, text=True, check=True)
    loaded = ctypes.CDLL(library, mode=os.RTLD_LAZY)
    for name in ("LLVMFuzzerCustomMutator", "LLVMFuzzerCustomCrossOver"):
        getattr(loaded, name).restype = ctypes.c_size_t
    return loaded


def calls_made(loaded, text, times):
    """How often new calls are of each kind and variant."""
    made = {kind: collections.Counter() for kind in text.KINDS}
    size_t = ctypes.c_size_t
    for seed in range(times):
        data = ctypes.create_string_buffer(4096)
        size = loaded.LLVMFuzzerCustomMutator(data, size_t(0), size_t(4096), seed)
        for kind, variant, _ in text.calls_of(data.raw[:size]):
            made[kind][variant] += 1
    return made


def test_variants():
    """Calls of all kinds are made, and those that others need often enough."""
    text = load_program(os.path.join(FUZZ, "text.py"))
    with tempfile.TemporaryDirectory() as where:
        loaded = load_agent(where, "input.c")
    made = calls_made(loaded, text, 20000)
    total = sum(calls.total() for calls in made.values())

    def share(kind, variants):
        return sum(made[kind][n] for n in variants) / made[kind].total()

    for kind, calls in made.items():
        ksft_ge(calls.total(), total / 100, kind)
    for variant in range(64, 69):
        ksft_ge(share("verbs", [variant]), 0.05, f"verbs {variant:#x}")
    for family in range(3):
        ksft_ge(share("genl", range(64 * family + 1, 64 * family + 6)),
                0.02, f"family {family}")
    for command in (0x0f, 0x11, 0x28, 0x3d):
        ksft_ge(share("ethtool", [command]), 0.04, f"ethtool {command:#x}")
    for variant in range(24):
        ksft_ge(share("packet", [variant]), 0.01, f"packet {variant:#x}")
    ksft_ge(share("link", range(16, 256)), 0.1, "links that are made with more")


def test_crossover():
    """Two inputs are made one less often than libFuzzer asks for it."""
    size_t = ctypes.c_size_t
    one, other = bytes([0, 1, 0, 0]) * 4, bytes([1, 2, 0, 0]) * 4
    with tempfile.TemporaryDirectory() as where:
        loaded = load_agent(where, "input.c")
    done = 0
    for seed in range(4000):
        data = ctypes.create_string_buffer(4096)
        size = loaded.LLVMFuzzerCustomCrossOver(
            one, size_t(len(one)), other, size_t(len(other)), data, size_t(4096),
            seed)
        done += size > 0
        calls = [data.raw[at:at + 4] for at in range(0, size, 4)]
        # The calls of one come before those of the other.
        ksft_eq(calls, sorted(calls))
    ksft_in(done, range(600, 1400), "of 4000")


class Stations(ctypes.Structure):
    """struct stations: agent.h."""
    _fields_ = [("ether", ctypes.c_bool), ("src", ctypes.c_char_p),
                ("dst", ctypes.c_char_p), ("host", ctypes.c_ubyte),
                ("target", ctypes.c_ubyte)]


class Reader(ctypes.Structure):
    """struct reader: agent.h."""
    _fields_ = [("pos", ctypes.c_char_p), ("left", ctypes.c_size_t)]


def payload(loaded, variant, ether, src, dst):
    """What a host (5) sends to another (2), from the Ethertype on."""
    room = ctypes.create_string_buffer(4096)
    stations = Stations(ether, src, dst, 5, 2)
    loaded.payload_make.restype = ctypes.c_size_t
    size = loaded.payload_make(room, ctypes.c_size_t(4096), variant,
                               ctypes.byref(stations), ctypes.byref(Reader(b"", 0)))
    return room.raw[:size]


def icmp6_checksum(packet):
    """Sum of a message and its pseudo header: 0xffff if the checksum is right."""
    body = packet[8:40] + struct.pack(">II", len(packet) - 40, packet[6]) + packet[40:]
    total = sum(struct.unpack(f">{len(body) // 2}H", body))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def test_payloads():
    """Messages with link-layer addresses are those of the sender's link."""
    with tempfile.TemporaryDirectory() as where:
        loaded = load_agent(where, "input.c", "packet.c", "scene.c")
    for ether, hardware, size, option in ((True, 1, 6, 8), (False, 32, 20, 24)):
        src, dst = bytes(range(1, size + 1)), bytes(range(0x81, 0x81 + size))
        for operation, variant in ((1, 0), (2, 1)):
            made = payload(loaded, variant, ether, src, dst)
            ksft_eq(made, bytes.fromhex("08060000") +
                    struct.pack(">HHBBH", hardware, 0x0800, size, 4, operation) +
                    src + bytes([10, 0, 0, 5]) + dst + bytes([10, 0, 0, 2]))
        for variant, kind, fixed in ((3, 1, 8), (4, 1, 16), (5, 1, 24), (6, 2, 24)):
            made = payload(loaded, variant, ether, src, dst)[4:]
            tail = made[40 + fixed:]
            ksft_eq((len(tail), tail[:2], tail[-size:]),
                    (option, bytes([kind, option // 8]), src), f"ND {variant}")
            ksft_eq(icmp6_checksum(made), 0xffff, f"ND {variant}")
        made = payload(loaded, 17, ether, src, dst)[4:]
        ksft_eq(made[29], hardware, "DHCP")
        ksft_in(bytes([61, 1 + size, hardware]) + src, made)


class Replayed:
    """A machine that ran inputs, and whether that ended as it should not."""

    def __init__(self, bad):
        self.found = lambda: bad


def tried_again(bad, bodies):
    """What becomes of a find of @bodies if @bad says which inputs do it again."""
    program = load_program(os.path.join(FUZZ, "fuzz"))
    runs = []

    def replay(_args, bodies, _name):
        runs.append(bodies)
        return Replayed(bad(bodies))
    program.replay = replay
    return program.again(None, bodies), runs


def test_again():
    """Finds are cut down; what takes several times and a pause is run so."""
    text = load_program(os.path.join(FUZZ, "text.py"))
    bodies = [text.of_calls([("read", n, b"")]) for n in range(64)]
    cut, _ = tried_again(lambda those: bodies[62] in those, bodies)
    ksft_eq(cut, [bodies[62]])
    pause = text.of_calls([("wait", 15, b"")] * 24)

    def twice(those):
        """The first of the inputs, a pause, and it once more."""
        where = [n for n, body in enumerate(those) if body == bodies[0]]
        return len(where) > 1 and pause in those[where[0]:where[1]]
    cut, runs = tried_again(twice, bodies)
    ksft_eq([len(those) for those in runs[:4]], [1, 4, 16, 64])
    ksft_true(twice(cut) and len(cut) < len(runs[4]), "cut down")
    cut, runs = tried_again(lambda those: False, bodies)
    ksft_eq((cut, len(runs)), (None, 5))
    cut, runs = tried_again(lambda those: False, bodies[:3])
    ksft_eq((cut, [len(those) for those in runs[:2]]), (None, [1, 3]))


def test_inputs():
    """Inputs as text are the same inputs; those in the tree can be read."""
    text = load_program(os.path.join(FUZZ, "text.py"))
    ksft_eq(list(text.KINDS), kinds_of_agent())
    with open(os.path.join(FUZZ, "agent", "agent.c"), encoding="utf-8") as file:
        told = re.search(r"#define CHECK_EVERY\s+(\d+)", file.read())[1]
    ksft_eq(load_program(os.path.join(FUZZ, "fuzz")).TOLD_EVERY, int(told))
    for data in (b"", bytes(4), bytes([0, 3, 0, 2, 1, 2, 9, 5, 0, 0]),
                 bytes([8, 255, 2, 0]) + bytes(range(256)) * 2):
        ksft_eq(text.to_binary(text.to_text(data, "a\nb")), data)
    # What is cut off is what the agent does not read.
    ksft_eq(text.to_binary(text.to_text(bytes([4, 1, 0, 9, 7]))), bytes([4, 1, 0, 1, 7]))
    for wrong in ("packets 1", "packet", "packet 256", "packet 1 0x", "wait -1",
                  "send 1 " + "00" * 513):
        try:
            text.to_binary(wrong)
        except text.Wrong:
            continue
        ksft_true(False, f"{wrong[:20]!r} was taken for an input")
    corpus = os.path.join(FUZZ, "corpus")
    for name in sorted(os.listdir(corpus)) if os.path.isdir(corpus) else ():
        text.read_file(os.path.join(corpus, name))
