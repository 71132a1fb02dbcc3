#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""results.json as a page with plots, in one file: report.py RESULTS.json PAGE.html"""

import html
import io
import re
import sys

import matplotlib
matplotlib.use("svg")

# pylint: disable=wrong-import-position
from matplotlib import pyplot, ticker  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402

STACK, HCA, REFERENCE, OURS, BAD = \
    "#9aa5b1", "#c9b458", "#7b8fb8", "#2f7d5b", "#b8433a"
NAMES = {"stock": "in-tree", "base": "base"}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76em; margin: 2em auto;
       padding: 0 1em; color: #222; background: #fff }
h1 { margin-bottom: .2em } h2 { margin-top: 2em }
table { border-collapse: collapse; font-size: 13px; width: 100% }
th, td { padding: .25em .6em; text-align: right; border-bottom: 1px solid #ddd }
th { position: sticky; top: 0; background: #f3f4f6 }
td.t, th.t { text-align: left }
.aim { background: #d7eedd } .must { background: #eef6d9 }
.bad { background: #f6d5d1; font-weight: bold } .none { color: #888 }
.about { color: #555 } svg { max-width: 100%; height: auto }
.sum span { display: inline-block; margin: 0 .5em .5em 0; padding: .2em .7em;
            border-radius: .4em; border: 1px solid #ccc }
"""
CLASSES = {"aim": "aim", "must": "must", "NOT MET": "bad", "unsteady": "bad",
           "worse": "bad", "better": "aim", "not measured": "none", "new": "none"}


def svg(figure):
    """A plot as an element of a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight")
    pyplot.close(figure)
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.S)


def axes(bars, width=10.5):
    """A figure with room for so many horizontal bars."""
    figure, axis = pyplot.subplots(figsize=(width, 0.9 + 0.34 * bars))
    axis.invert_yaxis()
    axis.margins(y=0.4 / max(bars, 1))
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure, axis


def legend(axis):
    """What the colours are, above the plot."""
    axis.legend(fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1),
                frameon=False)


def plot_ratios(all_lines):
    """How much better than the reference, with what it has to be."""
    shown = [line for line in all_lines
             if line.get("value") and line["judged"] == "times better"]
    if not shown:
        return ""
    figure, axis = axes(len(shown))
    for at, line in enumerate(shown):
        met = line["verdict"] in ("must", "aim")
        axis.barh(at, line["value"], color=OURS if met else BAD, height=0.62)
        error = line["value"] * (line["interval"] or 0)
        axis.errorbar(line["value"], at, xerr=error, color="#222", capsize=2, lw=1)
        axis.plot([line["must"]] * 2, [at - 0.42, at + 0.42], color="#222", lw=2)
        if line["aim"]:
            axis.plot([line["aim"]] * 2, [at - 0.42, at + 0.42], color="#222", lw=1,
                      ls=":")
        axis.text(line["value"] + error + 0.05, at,
                  f" {line['value']:.2f}", va="center", fontsize=8, zorder=4,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axis.set_yticks(range(len(shown)), [
        f"{line['row']}: {line['what']} ({line['unit']})" for line in shown],
        fontsize=8)
    axis.axvline(1, color="#888", lw=0.8)
    largest = max(line["value"] for line in shown)
    if largest > 20:
        axis.set_xscale("log")
    axis.set_xlabel("times better than the reference; bar: must, dots: aim")
    return svg(figure)


def plot_instructions(figures):
    """Where the instructions go: stack, HCA, driver."""
    keys = [key for key in figures.samples if rows.parts(key)[3] == "icount" and
            figures.floor(key) is not None and
            figures.median(key, "ours") is not None]
    if not keys:
        return ""
    figure, axis = axes(2.2 * len(keys))
    labels, places, at = [], [], 0
    for key in keys:
        stack, hca = figures.stack(key), figures.hca(key)
        whole = {who: figures.median(key, who) for who in
                 (figures.reference, "ours")}
        scale = max(value for value in whole.values() if value)
        for who, colour in ((figures.reference, REFERENCE), ("ours", OURS)):
            if whole[who] is None:
                continue
            left = 0
            for part, part_colour in ((stack, STACK), (hca, HCA),
                                      (max(whole[who] - stack - hca, 0), colour)):
                axis.barh(at, part / scale, left=left / scale, color=part_colour,
                          height=0.8)
                left += part
            axis.text(left / scale + 0.01, at, f"{whole[who]:,.0f}", va="center",
                      fontsize=8)
            labels.append(f"{rows.title_of(key)}, {rows.unit_of(key)}: {who}"
                          if who == "ours" else NAMES[who])
            places.append(at)
            at += 1
        at += 0.5
    axis.set_yticks(places, labels, fontsize=8)
    axis.set_xlim(0, 1.15)
    axis.set_xticks([])
    for name, colour in (("stack (veth)", STACK), ("HCA (verbs)", HCA),
                         (NAMES[figures.reference], REFERENCE), ("ours", OURS)):
        axis.barh(0, 0, color=colour, label=name)
    legend(axis)
    return svg(figure)


def plot_samples(figures):
    """Every sample by the clock."""
    keys = [key for key, who in figures.samples.items()
            if rows.parts(key)[3] == "wall" and "ours" in who and len(who) > 1]
    if not keys:
        return ""
    figure, axis = axes(1.2 * len(keys))
    colours = {"ours": OURS, "stock": REFERENCE, "base": REFERENCE, "veth": STACK,
               "dummy": STACK}
    seen = set()
    for at, key in enumerate(keys):
        middle = figures.median(key, figures.reference) or \
            figures.median(key, "ours") or 1
        for who, colour in colours.items():
            values = figures.of(key, who)
            if not values:
                continue
            axis.plot([value / middle for value in values], [at] * len(values), "o",
                      ms=4, alpha=0.7, color=colour,
                      label=None if who in seen else NAMES.get(who, who))
            seen.add(who)
            axis.plot([figures.median(key, who) / middle] * 2, [at - 0.3, at + 0.3],
                      color=colour, lw=2)
    axis.set_yticks(range(len(keys)), [
        f"{rows.title_of(key)}, {rows.unit_of(key)}" +
        (" (less is better)" if rows.less_is_better(key) else "") for key in keys],
        fontsize=8)
    axis.axvline(1, color="#888", lw=0.8)
    axis.set_xscale("log")
    for which in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        which(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.tick_params(axis="x", which="both", labelsize=7)
    axis.set_xlabel("samples and medians, by the median of the reference")
    legend(axis)
    return svg(figure)


def plot_changes(found):
    """What became of each figure, with its noise."""
    shown = [line for line in found if line["change"] is not None]
    if not shown:
        return ""
    figure, axis = axes(len(shown))
    for at, line in enumerate(shown):
        colour = {"worse": BAD, "better": OURS}.get(line["verdict"], STACK)
        axis.barh(at, 100 * line["change"], color=colour, height=0.6)
        axis.plot([-100 * line["noise"], 100 * line["noise"]], [at, at],
                  color="#222", lw=1)
    axis.set_yticks(range(len(shown)), [
        f"{line['what']}, {line['unit']}" for line in shown], fontsize=8)
    axis.axvline(0, color="#888", lw=0.8)
    axis.set_xlabel("change in percent; line: noise; red: worse")
    return svg(figure)


def cells(words, verdict=None, head=False):
    """A row of a table: the first two columns are text."""
    tag = "th" if head else "td"
    out = [f'<{tag}{" class=t" if at < 2 else ""}>{html.escape(str(word))}</{tag}>'
           for at, word in enumerate(words)]
    if verdict is not None:
        text = verdict.upper() if verdict == "worse" else verdict
        out.append(f'<td class="{CLASSES.get(verdict, "")}">{text}</td>')
    return f"<tr>{''.join(out)}</tr>"


def target_table(all_lines):
    """Rows and targets."""
    out = [cells(("row", "what", "unit", "reference", "ours", "S", "H", "(S+H)/ours",
                  "result", "±", "", "must / aim", "verdict"), head=True)]
    for line in all_lines:
        out.append(cells((
            line["row"], line["what"], line["unit"],
            *(table.number(line[name]) for name in
              ("reference", "ours", "stack", "hca", "efficiency")),
            table.number(line["value"]), table.percent(line["interval"]),
            line["judged"], table.goal(line)), line["verdict"]))
    return f"<table>{''.join(out)}</table>"


def change_table(found):
    """Two revisions."""
    out = [cells(("figure", "unit", "base", "ours", "change", "noise", "verdict"),
                 head=True)]
    for line in found:
        out.append(cells((f"{line['what']} ({line['clock']})", line["unit"],
                          table.number(line["base"]), table.number(line["ours"]),
                          table.percent(line["change"]),
                          table.percent(line["noise"])), line["verdict"]))
    return f"<table>{''.join(out)}</table>"


def page(results):
    """The whole page."""
    figures = table.figures_of(results)
    all_lines = rows.lines(figures)
    base = results.get("base")
    against = f"revision {base}" if base else "the distribution's module"
    out = ["<!DOCTYPE html><html lang=en><head><meta charset=utf-8>"
           f"<title>ib_ipoib benchmark</title><style>{STYLE}</style></head><body>",
           f"<h1>ib_ipoib {html.escape(results['revision'])} and {against}</h1>"]
    about = [f"{name}: {results[name]}" for name in
             ("when", "kernel", "qemu", "cpu", "accelerator", "host")]
    about.append(f"run: {results['seconds'] // 60} min, "
                 f"{len(results['boots'])} machines")
    out.append(f"<p class=about>{'<br>'.join(map(html.escape, about))}</p>")
    if results.get("quick") or results.get("smoke"):
        out.append("<p>A quick run: few samples, not every configuration.</p>")
    out += [f'<p class=bad>{html.escape(text)}</p>'
            for text in table.failures(results) + table.gaps(figures) +
            table.doubts(results, figures)]
    out.append("<p>Both drivers ran in turn in the same virtual machines on the "
               "same simulated HCAs. S is the stack without a driver (a veth pair), "
               "H what the HCAs' verbs take for the same packets. Figures compare "
               "drivers; they say nothing about the speed of real hardware.</p>")
    if base:
        found = rows.changes(figures)
        worse = sum(line["verdict"] == "worse" for line in found)
        out += [f"<h2>{worse} of {len(found)} figures got worse</h2>",
                plot_changes(found), change_table(found)]
    else:
        out.append("<p class=sum>" + "".join(
            f'<span class="{CLASSES.get(verdict, "")}">{row}: {verdict}</span>'
            for row, verdict in rows.row_verdicts(all_lines).items()) + "</p>")
        out += ["<h2>Compared with the distribution's module</h2>",
                plot_ratios(all_lines)]
    out += ["<h2>Where the instructions go</h2>", plot_instructions(figures),
            "<h2>By the clock</h2>", plot_samples(figures)]
    if not base:
        out += ["<h2>All rows</h2>", target_table(all_lines)]
    out.append("</body></html>")
    return "\n".join(out)


if __name__ == "__main__":
    table.convert(page, *sys.argv[1:])
