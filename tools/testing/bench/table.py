# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's results as text."""

import json
import os
import sys

import rows

COLOURS = {"NOT MET": "31", "unsteady": "31", "worse": "31", "aim": "32", "better": "32",
           "not measured": "33", "new": "33"}
# A load of the host from which figures by the clock are in doubt
BUSY = 0.7
MARKS = {"worse": "WORSE", "same": ""}


def number(value):
    """Four digits, or so."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def paint(text, verdict, file=sys.stdout):
    """In colour, on a terminal that has some."""
    colour = COLOURS.get(verdict)
    if not colour or not file.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{colour}m{text}\033[0m"


def figures_of(results):
    """The samples of results.json, with what they are compared with."""
    figures = rows.Figures(results["samples"], results.get("expected", ()),
                           results.get("unable", ()), results.get("further"))
    figures.reference = "base" if results.get("base") else "stock"
    figures.profile = results.get("profile", "")
    return figures


def goal(line):
    """What a target wants: must, and aim."""
    sense = {">=": "≥", "<=": "≤"}[line["sense"]]
    text = f"{sense} {number(line['must'])}"
    return text if line["aim"] is None else f"{text} / {number(line['aim'])}"


def target_lines(figures):
    """Rows against their targets; text."""
    yield (f"{'row':4} {'what':58} {'in-tree':>9} {'ours':>9} {'S':>8} {'H':>6} "
           f"{'S+H/ours':>8} {'result':>7} {'±':>7} {'must/aim':>13}  verdict")
    for line in rows.lines(figures):
        what = f"{line['what']} [{line['unit']}]"
        yield (f"{line['row']:4} {what:58} {number(line['reference']):>9} "
               f"{number(line['ours']):>9} {number(line['stack']):>8} "
               f"{number(line['hca']):>6} {number(line['efficiency']):>8} "
               f"{number(line['value']):>7} {percent(line['interval']):>7} "
               f"{goal(line):>13}  {paint(line['verdict'], line['verdict'])}"
               f"{' (' + line['judged'] + ')' if line['judged'] else ''}")


def change_lines(found):
    """Two revisions of ours; text."""
    yield (f"{'figure':48} {'unit':>10} {'base':>10} {'ours':>10} {'change':>9} "
           f"{'noise':>8}  verdict")
    for line in found:
        what = f"{line['what']} [{line['clock']}]"
        yield (f"{what:48} {line['unit']:>10} {number(line['base']):>10} "
               f"{number(line['ours']):>10} {percent(line['change']):>9} "
               f"{percent(line['noise']):>8}  "
               f"{paint(MARKS.get(line['verdict'], line['verdict']), line['verdict'])}")


def failures(results):
    """Machines that failed; text."""
    return [f"the machine {boot['name']} FAILED with status {boot['status']}"
            for boot in results["boots"] if boot["status"]]


def gaps(figures):
    """Figures that the machines were to measure and did not; text."""
    return [f"not measured for {who}: {rows.title_of(key)} [{rows.parts(key)[3]}]"
            for key, who in figures.missing()]


def doubts(results, figures):
    """What makes figures worth less; text."""
    out = []
    busy = results.get("load", 0)
    if busy > BUSY:
        out.append(f"the host was busy when this began (load {busy:.1f}): what was "
                   "measured by the clock means little")
    for key in rows.unsteady(figures):
        count = min(len(figures.of(key, who)) for who in ("ours", figures.reference)
                    if figures.of(key, who))
        out.append(f"not steady after {count} samples: {rows.title_of(key)} "
                   f"[{rows.parts(key)[3]}]")
    return out


def show(results, write=print):
    """
    Print the results.  The status is 1 if a machine failed, a figure could not be
    measured or got worse; that targets are missed is told by the table alone.
    """
    figures = figures_of(results)
    failed = failures(results) + gaps(figures)
    bad = bool(failed)
    if results.get("base"):
        found = rows.changes(figures)
        for line in change_lines(found):
            write(line)
        worse = [line for line in found if line["verdict"] == "worse"]
        write("")
        for key in sorted(figures.further):
            write(f"seemed worse, measured further: {rows.title_of(key)} "
                  f"[{rows.parts(key)[3]}]")
        write(f"{len(worse)} of {len(found)} figures got worse than in "
              f"{results['base']} by more than their noise")
        new = sum(line["verdict"] == "new" for line in found)
        if new:
            write(f"{new} are new: {results['base']} has nothing to compare with")
        bad = bad or bool(worse)
    else:
        for line in target_lines(figures):
            write(line)
        write("")
        verdicts = rows.row_verdicts(rows.lines(figures))
        for verdict in ("aim", "must", "unsteady", "NOT MET", "not measured"):
            names = [row for row, one in verdicts.items() if one == verdict]
            if names:
                write(f"{verdict + ':':14} rows {', '.join(names)}")
    for line in failed + doubts(results, figures):
        write(line)
    return 1 if bad else 0


def convert(page, source, path):
    """Write what page(results) makes of a file of results, results.json."""
    with open(source, encoding="utf-8") as file:
        text = page(json.load(file))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
