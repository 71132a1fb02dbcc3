# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark makes of figures, on made-up ones."""

import json
import os
import re
import subprocess
import sys
import tempfile

from lib import Skip, ksft_eq, ksft_false, ksft_in, ksft_not_in, ksft_true

from common import BENCH, load_program

sys.path.append(BENCH)

# pylint: disable=wrong-import-position,wrong-import-order
import rows  # noqa: E402
import table  # noqa: E402

BOOT = "host"

TCP = "tcp4/2044/lso/icount"
WALL = "tcp4/2044/lso/wall"
UDP = "udp64/2044/lso/icount"
PYTHON = "/usr/bin/python3"     # Debian's, for its packages


def figures(reference="stock", **more):
    """Figures of one load; words are whom they are of."""
    found = rows.Figures({TCP: more})
    found.reference = reference
    return found


def target(row, key):
    """What a row says of a figure."""
    return [one for one in rows.TARGETS if (one.row, one.key) == (row, key)][0]


def verdict(row, key, found):
    one = target(row, key)
    return one.verdict(one.judge(found, key))


def change_of(key, base, ours):
    """What comparing two revisions says of a figure."""
    lines = rows.changes(rows.Figures({key: {"base": base, "ours": ours}}))
    ksft_eq(len(lines), 1)
    return lines[0]["verdict"]


def results(samples, base=None, boots=()):
    """As results.json has them."""
    return {"samples": samples, "base": base, "boots": list(boots),
            "revision": "made up", "when": "", "kernel": "6.12", "qemu": "",
            "cpu": "", "accelerator": "", "host": "", "seconds": 60}


def text_of(made_up):
    """The table, and the status."""
    out = []
    status = table.show(made_up, out.append)
    return "\n".join(out), status


def test_worse_is_marked():
    """A figure that got worse by more than its noise is called so."""
    ksft_eq(change_of(TCP, [1000, 1001], [1030, 1031]), "worse")
    ksft_eq(change_of(WALL, [1000, 1010, 990], [900, 905, 895]), "worse")
    ksft_eq(change_of("rr-p99/2044/lso/wall", [100, 101], [120, 121]), "worse")
    ksft_eq(change_of("child-runs/-/-/wall", [0, 0], [1, 1]), "worse")
    ksft_eq(change_of(TCP, [2296, 2527, 2311, 2294], [2528, 2633, 2632, 2639]),
            "worse")
    # One that overlaps is no excuse for three that do not.
    ksft_eq(change_of(TCP, [2296, 2311, 2294, 2400], [2390, 2600, 2600, 2600]),
            "worse")
    text, status = text_of(results({TCP: {"base": [1000], "ours": [1030]}}, "abc"))
    ksft_in("WORSE", text)
    ksft_in("1 of 1 figures got worse", text)
    ksft_eq(status, 1)


def test_noise_is_not():
    """What lies within the noise is not, and neither is what got better."""
    ksft_eq(change_of(TCP, [1000, 1001], [1008, 1009]), "same")
    ksft_eq(change_of(WALL, [1000, 1200, 800], [900, 1000, 800]), "same")
    ksft_eq(change_of(TCP, [1000], [900]), "better")
    ksft_eq(change_of(WALL, [1000, 1001], [1100, 1101]), "better")
    ksft_eq(change_of("child-runs/-/-/wall", [0, 0], [0, 0]), "same")
    # A stream that has two ways to go: each revision has samples of both.
    ksft_eq(change_of(TCP, [2296, 2527, 2311, 2294], [2548, 2333, 2532, 2539]),
            "same")
    text, status = text_of(results({TCP: {"base": [1000], "ours": [1005]}}, "abc"))
    ksft_not_in("WORSE", text)
    ksft_in("0 of 1 figures got worse", text)
    ksft_eq(status, 0)


def pooled_change(key, first, further):
    """The same with samples of a second machine; each is (base, ours)."""
    found = rows.Figures({key: dict(zip(("base", "ours"), first))},
                         further={key: dict(zip(("base", "ours"), further))})
    return rows.changes(found)[0]


def test_measured_further():
    """What seems worse is judged by the samples of both machines."""
    first = [2833, 2421], [2118, 2164]
    ksft_eq(change_of(WALL, *first), "worse")
    # Two ways to go, of which the first machine saw one each.
    same = [2800, 2150, 2120, 2790, 2410], [2160, 2810, 2440, 2130, 2790]
    ksft_eq(pooled_change(WALL, first, same)["verdict"], "same")
    worse = [2800, 2750, 2420, 2790, 2410], [2160, 2110, 2140, 2130, 2090]
    ksft_eq(pooled_change(WALL, first, worse)["verdict"], "worse")
    # The host was half as fast: that is no noise, and no excuse.
    slow = [[value / 2 for value in found] for found in worse]
    line = pooled_change(WALL, first, slow)
    ksft_eq(line["verdict"], "worse")
    ksft_true(-0.25 < line["change"] < -0.2, line)
    # What the second machine did not measure for both decides nothing.
    ksft_eq(pooled_change(WALL, first, ([2800], []))["verdict"], "worse")
    ksft_eq(pooled_change("restart/conn/lso/wall", ([0], [1]),
                          ([0, 0], [1, 1]))["verdict"], "worse")
    text, status = text_of({**results({WALL: dict(zip(("base", "ours"), first))},
                                      "abc"),
                            "further": {WALL: dict(zip(("base", "ours"), same))}})
    ksft_in("measured further: TCP over IPv4, 2044, offloads [wall]", text)
    ksft_in("0 of 1 figures got worse", text)
    ksft_eq(status, 0)


def test_plan_further():
    """Only what seems worse is measured further, more often than at first."""
    program, args = planner("BASE=HEAD")
    keys = {"from-other/conn/lso/wall", "fwd-tcp/2044/lso/icount",
            "flow2-pair/2044/lso/wall", "wedged-mode/-/-/wall"}
    boots = {boot.name: boot for boot in program.plan_further(args, keys)}
    ksft_eq(set(boots), {"wall-conn-lso-further", "icount-2044-lso-further",
                         "wall-scaling-further", "wall-wedged-further"})
    times = program.FURTHER
    ksft_eq(boots["wall-conn-lso-further"].spec["order"],
            [("conn", who, ["other"]) for who in
             program.in_turn(("mixed-base", "mixed"), times)])
    ksft_eq(boots["icount-2044-lso-further"].spec["order"],
            [("2044", who, ["forward"]) for who in
             program.in_turn(("base", "ours"), times)])
    for name in ("wall-scaling-further", "wall-wedged-further"):
        ksft_eq(boots[name].spec["who"], program.in_turn(("base", "ours"), times))
    ksft_eq(program.plan_further(args, set()), [])


def test_missing_in_one():
    """A figure that one revision lacks is said to be missing."""
    ksft_eq(change_of(TCP, [1000], []), "not measured for ours")
    ksft_eq(change_of(TCP, [], [1000]), "not measured for base")


def test_new():
    """What the base is too old for is new, and no reason to complain."""
    samples = {TCP: {"ours": [1000]}, WALL: {"ours": [1000], "base": [1000]}}
    expected = [[key, who] for key in (TCP, WALL) for who in ("base", "ours")]
    old = {**results(samples, "abc"), "expected": expected, "unable": [[TCP, "base"]]}
    text, status = text_of(old)
    ksft_eq([line["verdict"] for line in rows.changes(table.figures_of(old))],
            ["new", "same"])
    ksft_in("0 of 2 figures got worse", text)
    ksft_in("1 are new", text)
    ksft_eq(status, 0)


def test_gaps():
    """A figure that was to be measured and was not is named; the status tells."""
    expected = [[TCP, "base"], [TCP, "ours"]]
    for have, missing in (("base", "ours"), ("ours", "base")):
        for base in ("abc", None):
            text, status = text_of({**results({TCP: {have: [1000]}}, base),
                                    "expected": expected})
            ksft_in(f"not measured for {missing}: TCP over IPv4", text)
            ksft_eq(status, 1)
    text, status = text_of({**results({}, "abc"), "expected": expected})
    ksft_eq(text.count("not measured for ours"), 2, text)
    ksft_eq(status, 1)
    # Ours cannot be excused.
    text, status = text_of({**results({TCP: {"base": [1000]}}, "abc"),
                            "expected": expected, "unable": [[TCP, "base"]]})
    ksft_eq(status, 1)


def test_resolution():
    """Less than a step of what measures is no change; more is."""
    for base, ours, word in (([0.2], [0.4], "same"), ([0.2], [0.5], "worse"),
                             ([0.5], [0.1], "better"), ([0], [0.2], "same")):
        ksft_eq(change_of("restart/conn/lso/wall", base, ours), word)
    ksft_eq(change_of("forged-rate/-/-/wall", [20000], [5000]), "same")


def test_targets():
    """Must and aim, for costs and rates."""
    for ours, word in ((1000, "must"), (600, "aim"), (1999, "NOT MET")):
        ksft_eq(verdict("5", TCP, figures(ours=[ours], stock=[2000])), word)
    rate = rows.Figures({WALL: {"ours": [2000], "stock": [1000]}})
    ksft_eq(verdict("5", WALL, rate), "must")
    ksft_eq(verdict("11", "rr-p99/2044/lso/wall", rows.Figures(
        {"rr-p99/2044/lso/wall": {"ours": [40], "stock": [100]}})), "NOT MET")


def test_floors():
    """S and H come off both sides, and make the efficiency."""
    found = rows.Figures({
        UDP: {"ours": [11000], "stock": [14000], "veth": [8000]},
        "ud64/-/lso/icount": {"verbs": [1000]},
        TCP: {"ours": [2000], "stock": [4000], "veth": [700]},
        "ud2048/-/lso/icount": {"verbs": [1992]}})
    ksft_eq(rows.beyond_floor(found, UDP), 2000 / 5000)
    ksft_eq(verdict("1", UDP, found), "must")
    ksft_eq(found.efficiency(UDP), 9000 / 11000)
    ksft_eq(found.hca(TCP), 1024)
    ksft_eq(rows.of_stack(found, TCP), 0.35)
    ksft_eq(found.floor(WALL), None)


def test_room():
    """The default send buffer is held against a large one, and in-tree."""
    key, room = "large/conn/lso/wall", "large-room/conn/lso/wall"
    found = rows.Figures({key: {"ours": [30], "stock": [440]}, room: {"ours": [600]}})
    ksft_eq(verdict("24", key, found), "NOT MET")
    ksft_eq(verdict("24b", key, found), "NOT MET")
    found = rows.Figures({key: {"ours": [600], "stock": [440]}, room: {"ours": [610]}})
    ksft_eq(verdict("24", key, found), "must")
    ksft_eq(verdict("24b", key, found), "must")
    ksft_eq(found.hca("udp64/conn/lso/icount"), None)


def test_scaling():
    """Two flows are held against what veth makes of them."""
    one, two = "flow1/2044/lso/wall", "flow2-pairs/2044/lso/wall"
    found = rows.Figures({one: {"ours": [1000], "veth": [5000]},
                          two: {"ours": [1800], "veth": [9000]}})
    ksft_eq(rows.scaling_of_stack(found, two), 1.0)
    ksft_eq(verdict("12", two, found), "aim")


def test_missing_rows():
    """Rows that nobody measured are said to be so, and are not met."""
    text, status = text_of(results({TCP: {"ours": [1000], "stock": [2000]}}))
    missing = re.search(r"not measured: +rows (.*)", text).group(1).split(", ")
    for row in ("1", "13", "17", "22"):
        ksft_in(row, missing)
    ksft_not_in("5", missing)
    ksft_in("must:          rows 5", text)
    ksft_eq(status, 0)
    ksft_eq(set(rows.row_verdicts(rows.lines(rows.Figures()))), set(rows.TITLES))


def test_worst_line_counts():
    """A row is met when all of it is that was measured."""
    found = rows.Figures({TCP: {"ours": [500], "stock": [2000]},
                          WALL: {"ours": [1000], "stock": [1000]}})
    ksft_eq(rows.row_verdicts(rows.lines(found))["5"], "NOT MET")


def test_machine_failed():
    """A machine that failed is named, and the status says so."""
    text, status = text_of(results({}, boots=[{"name": "wall-x", "status": 125}]))
    ksft_in("wall-x FAILED with status 125", text)
    ksft_eq(status, 1)


def test_busy_host():
    """A host that was busy is mentioned, a quiet one is not."""
    for load, count in ((0.2, 0), (3.0, 1)):
        text, _ = text_of({**results({}), "load": load})
        ksft_eq(text.count("the host was busy"), count)


def test_names():
    """Every target is about a figure that has a name and a unit."""
    for one in rows.TARGETS:
        ksft_eq(len(rows.parts(one.key)), 4, one.key)
        ksft_true(rows.unit_of(one.key), one.key)
        ksft_true(rows.title_of(one.key), one.key)
        ksft_in(one.row, rows.TITLES)


def test_plan():
    """The plan measures every row that has a program, in turn."""
    done = subprocess.run([sys.executable, os.path.join(BENCH, "bench"), "--list"],
                          capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    for name in ("icount-2044-lso", "icount-4092-plain", "wall-scaling",
                 "wall-children", "icount-groups", "wall-wedged", "wall-peers"):
        ksft_in(name, names)
    quick = subprocess.run([sys.executable, os.path.join(BENCH, "bench"), "--list",
                            "QUICK=1", "BASE=HEAD"], capture_output=True, text=True,
                           check=True).stdout
    ksft_true(0 < len(quick.splitlines()) < len(names))
    ksft_not_in("children", quick)
    base = subprocess.run([sys.executable, os.path.join(BENCH, "bench"), "--list",
                           "BASE=HEAD"], capture_output=True, text=True,
                          check=True).stdout
    ksft_eq([line.split()[0] for line in base.splitlines()], names)


def planner(*words):
    """The benchmark, and what it makes of these arguments."""
    program = load_program(os.path.join(BENCH, "bench"))
    return program, program.parse_args(list(words))


def bench(*words):
    """The machines of the benchmark with these arguments."""
    program, args = planner(*words)
    return program.plan(args)


def test_old_streams():
    """Streams as they were are measured beside those of now only if asked for."""
    for words, loads in ((["--old"], {"iperf4", "iperf6"}), ([], set())):
        boots = [boot for boot in bench(*words) if boot.name == "icount-2044-lso"]
        ksft_eq({key.split("/")[0] for key, _ in boots[0].figures} &
                {"iperf4", "iperf6"}, loads)


def test_plan_figures():
    """All that targets are about is measured, for the base too; each has a name."""
    keys = {one.key for one in rows.TARGETS}
    for words, other in (([], "stock"), (["BASE=HEAD"], "base")):
        found = [pair for boot in bench(*words) for pair in boot.figures]
        for key, who in found:
            ksft_true(rows.unit_of(key), key)
            ksft_true(rows.title_of(key), key)
            ksft_in(who, ("ours", other))
        ksft_eq(keys - {key for key, who in found if who == "ours"}, set())
        alone = {key for key, who in found if who == "ours"} - \
            {key for key, who in found if who == other}
        # Ethernet is looked at beside what is below.
        ksft_eq({key.split("-")[0] for key in alone},
                {"eth"} if other == "base" else {"eth", "wedged"})


def test_profile():
    """Blocks are laid at their functions' door, by module; the plugin builds."""
    profile = load_program(os.path.join(BENCH, "profile"))
    with tempfile.TemporaryDirectory() as where:
        symbols, blocks = (os.path.join(where, name) for name in "sb")
        with open(symbols, "w", encoding="ascii") as file:
            file.write("ffffffff81000000 T first\nffffffff81000100 t second\n"
                       "ffffffff81000180 d data\n"
                       "ffffffffc0000000 t mine\t[ib_ipoib]\n")
        with open(blocks, "w", encoding="ascii") as file:
            file.write("ffffffff81000000 5 20\nffffffff81000010 3 10\n"
                       "ffffffff81000190 2 10\nffffffffc0000000 4 30\n"
                       "7f0000001000 7 10\n")
        found = profile.insns.Profile(blocks, profile.insns.Symbols(symbols),
                                      10)
        ksft_eq(dict(found.insns), {"first": 13, "second": 2,
                                    "mine [ib_ipoib]": 12, "[programs]": 7})
        ksft_eq(dict(found.calls), {"first": 2, "mine [ib_ipoib]": 3})
        ksft_eq(dict(found.modules),
                {"kernel": 15, "ib_ipoib": 12, "[programs]": 7})
        done = subprocess.run(
            ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
             "-shared", "-fPIC", "-o", os.path.join(where, "insns.so"),
             os.path.join(BENCH, "insns.c")], capture_output=True, text=True,
            check=False)
        ksft_eq(done.returncode, 0, done.stderr)


def test_report():
    """The page stands alone, has the plots, and marks what is worse."""
    if subprocess.run([PYTHON, "-c", "import matplotlib"], capture_output=True,
                      check=False).returncode:
        raise Skip("python3-matplotlib is not installed")
    samples = {TCP: {"ours": [1000, 1001], "stock": [2000], "base": [900],
                     "veth": [500]},
               WALL: {"ours": [2000], "stock": [1000], "base": [2001]},
               "ud2048/-/lso/icount": {"verbs": [300]}}
    for base in (None, "abc"):
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, "results.json")
            page = os.path.join(where, "report.html")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(results(samples, base), file)
            done = subprocess.run([PYTHON, os.path.join(BENCH, "report.py"), path,
                                   page], capture_output=True, text=True,
                                  check=False)
            ksft_eq(done.returncode, 0, done.stderr)
            with open(page, encoding="utf-8") as file:
                text = file.read()
        ksft_eq(text.count("<svg"), 3)
        ksft_false(re.search(r"<(script|link|img)\b|@import", text))
        ksft_eq("WORSE" in text, bool(base))
        ksft_in("2,000" if not base else "900", text)
