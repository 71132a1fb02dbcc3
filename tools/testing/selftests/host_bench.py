# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark makes of figures, on made-up ones."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from xml.etree import ElementTree

from lib import Skip, ksft_eq, ksft_false, ksft_in, ksft_not_in, ksft_true

from common import BENCH, ROOT, load_program

sys.path.append(BENCH)

# pylint: disable=wrong-import-position,wrong-import-order
import rows  # noqa: E402
import steady  # noqa: E402
import story  # noqa: E402
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
    return target(row, key).verdict(found)


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
    ksft_eq(boots["wall-wedged-further"].spec["who"],
            program.in_turn(("base", "ours"), times))
    ksft_eq(boots["wall-scaling-further"].spec["order"],
            [("2044", who, ["flows"]) for who in ("base", "ours", "ours", "base")])
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
    for ours, word in ((1000, "must"), (700, "aim"), (1999, "NOT MET")):
        ksft_eq(verdict("2", UDP, rows.Figures(
            {UDP: {"ours": [ours] * 2, "stock": [1250] * 2}})), word)
    rate = rows.Figures({WALL: {"ours": [2000] * 4, "stock": [1000] * 4}})
    ksft_eq(verdict("5", WALL, rate), "must")
    p99 = "rr-p99/2044/lso/wall"
    for ours, word in ((26, "NOT MET"), (24, "must"), (14, "aim")):
        ksft_eq(verdict("11", p99, rows.Figures(
            {p99: {"ours": [ours] * 4, "stock": [100] * 4}})), word)


# Of issues: row and figure, judged how, must and aim
ASKED = (
    ("1", "udp64/2044/lso/icount", "beyond_floor", 0.45, 0.33),
    ("1", "udp1400/2044/lso/icount", "beyond_floor", 0.35, 0.30),
    *(("5", f"tcp4/{net}/lso/icount", "beyond_floor", 0.40, 0.33)
      for net in ("2044", "4092")),
    *(("6", f"tcp6/{net}/lso/icount", "beyond_floor", 0.40, 0.33)
      for net in ("2044", "4092")),
    ("1", "udp64/2044/nomod/icount", "beyond_floor", 0.50, 0.40),
    ("1", "udp64/2044/nosrq/icount", "beyond_floor", 0.45, 0.38),
    ("23", "tcp4/conn/lso/icount", "of_floor", 0.88, 0.95),
    ("26", "udp64/conn/lso/icount", "cost", 0.85, 0.75),
    ("26", "udp64/conn/nomod/icount", "cost", 0.85, 0.75),
    ("8", "to-other/conn/lso/wall", "times_better", 1.2, 1.5),
    ("8", "from-other/conn/lso/wall", "times_better", 1.2, 1.5),
    ("10", "rr/2044/lso/wall", "times_better", 1.2, 1.35),
    ("10", "rr/conn/lso/wall", "times_better", 1.2, 1.35),
    ("11", "rr-p99/2044/lso/wall", "cost", 0.25, 0.15),
    *((row, f"{load}/{net}/lso/wall", "scaling_of_stack", must, aim)
      for row, load, must, aim in (("12", "flow2-pairs", 0.95, 1.1),
                                   ("12b", "flow2-pair", 0.9, 1.0),
                                   ("12b", "flow2-peers", 0.9, 1.0))
      for net in ("2044", "conn")),
    ("36", "first6/2044/lso/wall", "absolute", 100, None),
    ("36", "first6/2044/lso/wall", "of_ipv4", None, 2),
    ("14", "child-memory-up/-/-/wall", "beyond_dummy", 64, 32),
    ("15", "conn-memory-driver/conn/-/wall", "absolute", 24, 16),
    ("17", "resolve-one/-/-/wall", "times_better", 1.3, 2),
    ("17", "resolve-queries/-/-/wall", "absolute", 1.02, 0.6),
    ("24", "large/conn/lso/wall", "times_better", 1.2, 1.5),
    ("24b", "large/conn/lso/wall", "of_room", 0.9, 1.0),
    ("25", "held/conn/lso/wall", "times_better", 1.0, 1.3),
    ("22", "wedged-children/-/-/wall", "absolute", 5, 2.5),
    ("29", "forged-answer/-/-/wall", "absolute", 1, 0.1),
)


def test_asked():
    """Rows ask what was agreed on, and each figure of a row is asked for once."""
    found = [(one.row, one.key, one.judge.__name__, one.must, one.aim)
             for one in rows.TARGETS]
    for one in ASKED:
        ksft_in(one, found)
    ksft_eq(len({one[:3] for one in found}), len(found))


# ---- confidence --------------------------------------------------------------

def wall_of(ours, stock):
    """What row 5 says of streams by the clock; the must is 1.6, the aim 2.2."""
    return verdict("5", WALL, rows.Figures({WALL: {"ours": ours, "stock": stock}}))


def test_interval():
    """Student's, of the geometric mean; of few and of odd values there is none."""
    found = steady.interval([1, 2, 3, 4], linear=True)
    ksft_true(abs(found.middle - 2.5) < 1e-9 and abs(found.high - 4.554) < 1e-3,
              found)
    found = steady.interval([1, 4])
    ksft_true(abs(found.middle - 2) < 1e-9, found)
    ksft_true(abs(found.low * found.high - 4) < 1e-6, found)
    ksft_eq(tuple(steady.interval([3, 3, 3], True)), (3, 3, 3))
    ksft_eq(tuple(steady.interval([0, 0])), (0, 0, 0))
    for values in ([], [1], [1, float("inf")]):
        ksft_eq(steady.interval(values), None)
    # A tenth of all would be outside at 90 %, and more with two samples than many.
    many = steady.interval([0.99, 1.01] * 50)
    ksft_true(steady.half(many) < 0.003 < steady.half(steady.interval([0.99, 1.01])))


def test_steady():
    """Samples that agree decide; those of a host that drifts do, too."""
    ksft_eq(wall_of([2000, 2010, 1995, 2005], [1000, 1002, 999, 1003]), "must")
    ksft_eq(wall_of([2400, 2410, 2395, 2405], [1000, 1002, 999, 1003]), "aim")
    ksft_eq(wall_of([1500, 1510, 1495, 1505], [1000, 1002, 999, 1003]), "NOT MET")
    # Each pair was measured side by side: the host got slower for both.
    ksft_eq(wall_of([2000, 1600, 1200, 800], [1000, 802, 599, 401]), "must")


def test_unsteady():
    """Samples that do not agree make no verdict, however good they look."""
    noisy = [2000, 2600, 1700, 2900], [1000, 1000, 1010, 990]
    ksft_eq(wall_of(*noisy), "unsteady")
    ksft_eq(wall_of([9000, 14000, 11000, 16000], [1000] * 4), "unsteady")
    text, status = text_of(results({WALL: dict(zip(("ours", "stock"), noisy))}))
    ksft_in("unsteady:      rows 5", text)
    ksft_in("not steady after 4 samples: TCP over IPv4, 2044, offloads [wall]", text)
    ksft_not_in("must:          rows 5", text)
    ksft_eq(status, 0)
    # More of the same kind do.
    ksft_eq(wall_of(noisy[0] * 32, noisy[1] * 32), "must")


def test_spans():
    """A row whose interval has the limit in it is not met, though its mean is."""
    ours = [1650, 1590, 1660, 1600]
    ksft_true(sum(ours) / 4 > 1600)
    ksft_eq(wall_of(ours, [1000] * 4), "NOT MET")
    # The same for the aim
    ksft_eq(wall_of([2250, 2180, 2260, 2190], [1000] * 4), "must")


def test_bimodal():
    """One of two patterns at a time: few samples tell nothing, many do."""
    two = [2000, 2300]
    ksft_eq(wall_of(two * 2, [1000] * 4), "unsteady")
    ksft_eq(wall_of(two * 10, [1000] * 20), "must")
    # Both may be in the same pattern by chance: that is why it takes four.
    ksft_eq(wall_of([2000] * 3, [1000] * 3), "unsteady")
    streams = {TCP: {"ours": [2296, 2527], "stock": [4600, 4610], "veth": [900]},
               "ud2048/-/lso/icount": {"verbs": [100]}}
    ksft_eq(verdict("5", TCP, rows.Figures(streams)), "unsteady")


def test_few():
    """What is too few: for instructions, by the clock, for rows that say so."""
    ksft_eq(wall_of([2000], [1000]), "unsteady")
    ksft_eq(wall_of([2000] * 4, [1000] * 3), "unsteady")
    ksft_eq(verdict("2", UDP, rows.Figures({UDP: {"ours": [1], "stock": [2]}})),
            "unsteady")
    ksft_eq(verdict("2", UDP, rows.Figures({UDP: {"ours": [1] * 2,
                                                  "stock": [2] * 2}})), "aim")
    # Programs run once or twice, and have to be as much better for that.
    for ours, word in (([50], "aim"), ([25], "must"), ([12], "unsteady"),
                       ([12, 12.01, 12.02], "must"), ([3], "unsteady"),
                       ([3, 3.01, 3.02, 3], "NOT MET")):
        ksft_eq(verdict("19", "child-make/-/-/wall", rows.Figures(
            {"child-make/-/-/wall": {"ours": [1 / value for value in ours],
                                     "stock": [1] * len(ours)}})), word, ours)
    # Memory and counts are what they are.
    ksft_eq(verdict("15", "conn-memory-driver/conn/-/wall", rows.Figures(
        {"conn-memory-driver/conn/-/wall": {"ours": [20]}})), "must")
    ksft_eq(verdict("25", "held/conn/lso/wall", rows.Figures(
        {"held/conn/lso/wall": {"ours": [9], "stock": [5]}})), "aim")
    # A clock of a quarter of a second tells no more.
    ksft_eq(verdict("28", "restart/conn/lso/wall", rows.Figures(
        {"restart/conn/lso/wall": {"ours": [0.2, 0.3, 0.2, 0.3],
                                   "stock": [2.2, 2.3, 2.2, 2.3]}})), "must")


def test_further():
    """What is measured again is what is not steady, and nothing else."""
    found = rows.Figures({
        WALL: {"ours": [2000] * 4, "stock": [1000] * 4},
        "rr/2044/lso/wall": {"ours": [200, 250, 210, 260], "stock": [100] * 4},
        "rr-p99/2044/lso/wall": {"ours": [2], "stock": [9]},
        # Nobody judges this, and nothing holds that for a ratio.
        "rr-idle-p99/2044/lso/wall": {"ours": [2], "stock": [9]},
        "forged-answer/-/-/wall": {"ours": [0.1]}})
    ksft_eq(rows.unsteady(found), ["rr-p99/2044/lso/wall", "rr/2044/lso/wall"])
    visits = [("2044", "stock", ["tcp4", "rr", "p99"]), ("2044", "ours", ["tcp4"]),
              ("conn", "ours", ["rr"])]
    ksft_eq(steady.further(visits, lambda load, net: net == "2044" and load != "tcp4"),
            [("2044", "stock", ["rr", "p99"])])
    ksft_eq(steady.further(visits, lambda load, net: False), [])
    # Two revisions have to be told from each other in all figures.
    found.samples = {key: {"base": whose.get("stock", [1]), "ours": whose["ours"]}
                     for key, whose in found.samples.items()}
    found.reference = "base"
    ksft_eq(rows.unsteady(found), [
        "forged-answer/-/-/wall", "rr-idle-p99/2044/lso/wall",
        "rr-p99/2044/lso/wall", "rr/2044/lso/wall"])


def test_floors():
    """S and H come off both sides, and make the efficiency."""
    found = rows.Figures({
        UDP: {"ours": [11000, 11005], "stock": [14000, 14010], "veth": [8000]},
        "ud64/-/lso/icount": {"verbs": [1000]},
        TCP: {"ours": [2000], "stock": [4000], "veth": [700]},
        "ud2048/-/lso/icount": {"verbs": [1992]}})
    ksft_eq(rows.beyond_floor(found, UDP), 2002.5 / 5005)
    ksft_eq(verdict("1", UDP, found), "must")
    # By a hundredth of in-tree's share, a row is not steady.
    found.samples[UDP]["ours"] = [11000, 11060]
    ksft_eq(verdict("1", UDP, found), "unsteady")
    found.samples[UDP]["ours"] = [11000, 11005]
    ksft_eq(found.efficiency(UDP), 9000 / 11002.5)
    ksft_eq(found.hca(TCP), 1024)
    ksft_eq(rows.of_stack(found, TCP), 0.35)
    ksft_eq(found.floor(WALL), None)


def test_room():
    """The default send buffer is held against a large one, and in-tree."""
    key, room = "large/conn/lso/wall", "large-room/conn/lso/wall"
    found = rows.Figures({key: {"ours": [30] * 4, "stock": [440] * 4},
                          room: {"ours": [600] * 4}})
    ksft_eq(verdict("24", key, found), "NOT MET")
    ksft_eq(verdict("24b", key, found), "NOT MET")
    found = rows.Figures({key: {"ours": [600] * 4, "stock": [440] * 4},
                          room: {"ours": [610] * 4}})
    ksft_eq(verdict("24", key, found), "must")
    ksft_eq(verdict("24b", key, found), "must")
    ksft_eq(found.hca("udp64/conn/lso/icount"), None)


def test_scaling():
    """Two flows are held against what veth makes of them."""
    one, two, same, peers = (f"{load}/2044/lso/wall" for load in (
        "flow1", "flow2-pairs", "flow2-pair", "flow2-peers"))
    found = rows.Figures({one: {"ours": [1000] * 10, "veth": [5000] * 10},
                          two: {"ours": [1800] * 10, "veth": [9000] * 10},
                          same: {"ours": [1900] * 10, "veth": [9500] * 10},
                          peers: {"ours": [1700] * 10}})
    ksft_eq(rows.scaling_of_stack(found, two), 1.0)
    ksft_eq(verdict("12", two, found), "must")
    ksft_eq(verdict("12b", same, found), "aim")
    # A veth has one peer.
    ksft_eq(rows.scaling_of_stack(found, peers), 1.7 / 1.9)
    ksft_eq(verdict("12b", peers, found), "NOT MET")
    found.samples[two]["ours"].pop()
    ksft_eq(verdict("12", two, found), "unsteady")


def test_missing_rows():
    """Rows that nobody measured are said to be so, and are not met."""
    text, status = text_of(results({WALL: {"ours": [2000] * 4, "stock": [1000] * 4}}))
    missing = re.search(r"not measured: +rows (.*)", text).group(1).split(", ")
    for row in ("1", "13", "17", "22"):
        ksft_in(row, missing)
    ksft_not_in("5", missing)
    ksft_in("must:          rows 5", text)
    ksft_eq(status, 0)
    ksft_eq({one.row for one in rows.TARGETS}, set(rows.TITLES))
    # Those of HCAs with an interface of their own are no part of a run on others.
    ksft_eq(set(rows.TITLES) - set(rows.row_verdicts(rows.lines(rows.Figures()))),
            {"30", "31", "32"})


def test_worst_line_counts():
    """A row is met when all of it is that was measured."""
    wide = WALL.replace("2044", "4092")
    found = rows.Figures({WALL: {"ours": [5000] * 4, "stock": [1000] * 4},
                          wide: {"ours": [1000] * 4, "stock": [1000] * 4}})
    ksft_eq(rows.row_verdicts(rows.lines(found))["5"], "NOT MET")
    found.samples[wide] = {"ours": [3000, 1000] * 2, "stock": [1000] * 4}
    ksft_eq(rows.row_verdicts(rows.lines(found))["5"], "unsteady")


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


def seconds(*words):
    """What budgets allow: two machines count at a time, the others run alone."""
    workers = [0, 0]
    boots = bench(*words)
    for boot in boots:
        if boot.icount:
            workers[workers.index(min(workers))] += boot.seconds
    return max(workers) + sum(boot.seconds for boot in boots if not boot.icount)


def test_budgets():
    """Every machine has its time, and all together have what a run may take."""
    program, _ = planner()
    whole, quick = program.MOST
    ksft_true(0 < seconds() <= whole, seconds())
    ksft_true(0 < seconds("QUICK=1") <= quick, seconds("QUICK=1"))
    ksft_eq(set(program.BUDGETS), {boot.name for boot in bench()})
    # Asked for by name, a machine that a quick run leaves out takes its time.
    ksft_eq([(boot.name, boot.seconds) for boot in
             bench("QUICK=1", "ONLY=wall-scaling")], [("wall-scaling", None)])


def until(boot, *words):
    """What the machine of that name is told in these circumstances."""
    program, args = planner(*words)
    modules = {"floor": "f", "ours": "o", "base": "b"}
    argv = program.Runner(args, modules, None).argv(
        [one for one in program.plan(args) if one.name == boot][0])
    ksft_eq(argv[-2], program.GUEST)
    return json.loads(argv[-1])


def test_told():
    """The guest is told when its time is over, and what to do until then."""
    now = time.time()
    spec = until("wall-2044-lso")
    ksft_true(0 <= spec["until"] - now < 200, spec["until"] - now)
    ksft_eq([visit[1] for visit in spec["order"]],
            ["veth", "stock", "ours", "ours", "stock", "veth"])
    # Further rounds go on where those end: A B B A, A B B A
    ksft_eq([visit[1] for visit in spec["round"]], ["stock", "ours"])
    ksft_eq([visit[1] for visit in until("wall-2044-lso", "QUICK=1")["round"]],
            ["ours", "stock"])
    spec = until("wall-conn-lso", "BASE=HEAD")
    ksft_eq([visit[1:] for visit in spec["round"] if visit[2] == ["other"]],
            [["mixed-base", ["other"]], ["mixed", ["other"]]])
    # Between drivers ours stands beside in-tree's, too.
    ksft_eq([visit[1] for visit in until("wall-conn-lso")["order"]],
            ["veth", "stock", "ours", "mixed", "mixed", "ours", "stock", "veth"])
    for more in (until("wall-2044-lso", "--smoke"),
                 until("icount-own", "PROFILE=own")):
        ksft_not_in("until", more)
    spec = until("wall-peers")
    ksft_eq((spec["argv"][-2:], spec["again"][2]), (["stock", "ours=o"], "0"))


def guest(now, **spec):
    """The guest's part, at that time, which a list holds."""
    program = load_program(os.path.join(BENCH, "guest"))
    program.now = lambda: now[0]
    program.pair.FIGURES = program.rows.Figures()
    return program, program.Bench({"clock": "wall", "hca": "lso", "modules": {},
                                   **spec})


def test_rounds():
    """The guest measures until all is steady, or the time is over."""
    visits = [("2044", "stock", ["tcp4", "rr"]), ("2044", "ours", ["tcp4", "rr"])]
    for until, most in ((None, 2), (1000, 25), (0, 1)):
        now, log = [1], []
        program, one = guest(now, order=visits * 2, round=visits, until=until)

        def visit(net, who, loads, one=one, now=now, log=log, figures=program.pair):
            for load in loads:
                if one.due(load, net, who):
                    # Streams repeat; transactions never do.
                    value = len(log) ** 2 + 1 if load == "rr" else 100
                    figures.FIGURES.add(f"{load}/{net}/lso/wall", who, value)
                    log.append((load, who))
            now[0] += 20

        one.visits(visit)
        ksft_eq(log.count(("tcp4", "ours")), min(most, 4))
        ksft_eq(log.count(("rr", "ours")), most)
        ksft_eq(log.count(("rr", "stock")), most)
        # Both stand beside each other, in either order.
        whom = [who for load, who in log if load == "rr"]
        ksft_eq({whom[at:at + 2].count("ours") for at in range(0, len(whom), 2)}, {1})


def test_programs():
    """Programs run again while there is time for it, and what is unsteady."""
    for until, values, runs in ((200, [10, 10, 10, 10], 4), (200, [10, 20] * 20, 9),
                                (20, [10, 20] * 20, 1), (None, [10, 20] * 20, 1)):
        now, log = [1], []
        program, one = guest(now, argv=["first"], again=["more"], until=until)

        def run(word, now=now, log=log, values=values, figures=program.pair):
            for who, value in (("ours", values[len(log)]), ("stock", 10)):
                figures.FIGURES.add("incast/conn/-/wall", who, value)
            now[0] += 20
            log.append(word)

        program.run_program = run
        one.job_program()
        ksft_eq(log, ["first"] + ["more"] * (runs - 1))


def test_profile_plan():
    """With a profile its core is measured, all that is asked of it, and no more."""
    default = {boot.name for boot in bench()}
    for name, (_, caps) in rows.PROFILES.items():
        for more, other in ([], "stock"), (["BASE=HEAD"], "base"):
            boots = bench(f"PROFILE={name}", *more)
            ksft_false(default & {boot.name for boot in boots})
            found = [pair for boot in boots for pair in boot.figures]
            asked = {one.key for one in rows.targets(name)}
            ksft_true(asked, name)
            for who in ("ours", other):
                ksft_eq(asked - {key for key, whose in found if whose == who}, set())
            program, args = planner(f"PROFILE={name}", *more)
            ksft_true(args.out.endswith(f"build/bench-{name}"), args.out)
            with tempfile.TemporaryDirectory() as args.out:
                for boot in boots:
                    line = program.Runner(args, {"floor": "f"}, None).argv(boot)
                    ksft_in(caps, line[line.index("--hca") + 1].split(","))
    # The lines that are shown are those of that profile alone.
    shown = rows.Figures()
    shown.profile = "nomod"
    ksft_eq({line["figure"].split("/")[2] for line in rows.lines(shown)}, {"nomod"})
    ksft_in("no moderation", rows.title_of("tcp4/conn/nomod/icount"))
    ksft_in("as mlx4", rows.title_of("rr/2044/mlx4/wall"))


def test_old_streams():
    """Streams as they were are measured beside those of now only if asked for."""
    for words, loads in ((["--old"], {"iperf4", "iperf6"}), ([], set())):
        boots = [boot for boot in bench(*words) if boot.name == "icount-2044-lso"]
        ksft_eq({key.split("/")[0] for key, _ in boots[0].figures} &
                {"iperf4", "iperf6"}, loads)


def test_plan_figures():
    """All that targets are about is measured, for the base too; each has a name."""
    keys = {one.key for one in rows.targets()}
    for words, other in (([], "stock"), (["BASE=HEAD"], "base")):
        found = [pair for boot in bench(*words) for pair in boot.figures]
        for key, who in found:
            ksft_true(rows.unit_of(key), key)
            ksft_true(rows.title_of(key), key)
            ksft_in(who, ("ours", other))
        ksft_eq(keys - {key for key, who in found if who == "ours"}, set())
        alone = {key for key, who in found if who == "ours"} - \
            {key for key, who in found if who == other}
        # Ethernet is looked at beside what is below, flows beside veth.
        ksft_eq({re.match("[a-z]+", key)[0] for key in alone},
                {"eth"} if other == "base" else {"eth", "wedged", "forged", "flow"})


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


SVG = "{http://www.w3.org/2000/svg}"


def recorded(samples):
    """What story.py makes of a file of results: the root, and its texts."""
    with tempfile.TemporaryDirectory() as where:
        path, page = (os.path.join(where, name) for name in ("in.json", "out.svg"))
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**results(samples), "revision": "<1> & 2"}, file)
        table.convert(story.story, path, page)
        root = ElementTree.parse(page).getroot()
    return root, [item.text for item in root.iter(SVG + "text")]


def test_story():
    """The page of plots is an SVG with each row of its choice, measured or not."""
    samples = {}
    for number, (_, key) in enumerate(story.RATIOS):
        ours, other = [200.0 + number] * 4, [100.0] * 4
        if rows.less_is_better(key):
            ours, other = other, ours
        samples[key] = {"ours": ours, "stock": other}
    for _, key in story.SHARES:
        samples[key] = {"ours": [2000, 2000], "stock": [4000, 4000], "veth": [700]}
        verbs = {"udp64": "ud64", "udp1400": "ud1400", "rr": "ud64-single"}
        load, net, _, _ = rows.parts(key)
        samples[f"{verbs.get(load) or rows.VERBS_LOAD[net]}/-/lso/icount"] = \
            {"verbs": [100]}
    root, texts = recorded(samples)
    ksft_eq(root.tag, SVG + "svg")
    ksft_in("prefers-color-scheme: dark", root.find(SVG + "style").text)
    for name, _ in story.RATIOS + story.SHARES:
        ksft_in(name, texts)
    ksft_not_in("not measured", texts)
    ksft_eq([text for text in texts if text.endswith(" ×")],
            [f"{table.number(2 + number / 100)} ×"
             for number in range(len(story.RATIOS))])
    kinds = [item.get("class") for item in root.iter(SVG + "rect")]
    ksft_eq((kinds.count("ours"), kinds.count("bad")),
            (len(story.RATIOS) + len(story.SHARES) + 1, 0))
    # Nothing leaves the page, and bars are as long as what they stand for.
    width, height = (float(root.get(name)) for name in ("width", "height"))
    for item in root.iter(SVG + "rect"):
        x, y, wide, high = (float(item.get(name)) for name in
                            ("x", "y", "width", "height"))
        ksft_true(0 <= x <= x + wide <= width and 0 <= y <= y + high <= height,
                  item.attrib)
    # Worse, and not steady; and what nobody measured
    key = story.RATIOS[0][1]
    root, texts = recorded({key: {"ours": [50, 90, 40, 70], "stock": [100] * 4}})
    ksft_in("bad loose", [item.get("class") for item in root.iter(SVG + "rect")])
    ksft_eq(texts.count("not measured"), len(story.RATIOS + story.SHARES) - 1)
    # A program's figure that is 0 has no ratio.
    root, texts = recorded({key: {"ours": [0], "stock": [100]}})
    ksft_eq(texts.count("not measured"), len(story.RATIOS + story.SHARES))


def test_described():
    """The documentation says of each row what S and H are."""
    path = os.path.join(ROOT, "Documentation", "dev", "testing.rst")
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("What S and H are, ")[1].splitlines()
    edges = [at for at, line in enumerate(lines) if line.startswith("=====")][:3]
    found = set()
    for line in lines[edges[1] + 1:edges[2]]:
        found |= set(re.findall(r"\b\d+b?\b", line[:lines[edges[0]].index(" ")]))
    ksft_eq(found, set(rows.TITLES))


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
