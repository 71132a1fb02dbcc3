#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""results.json as one page of plots: story.py RESULTS.json PAGE.svg"""

import math
import sys
from xml.etree import ElementTree

import rows
import table

# What is compared with the in-tree driver, and what instructions are shown of
RATIOS = (
    ("TCP over IPv4", "tcp4/2044/lso/wall"),
    ("TCP over IPv6", "tcp6/2044/lso/wall"),
    ("TCP, connected mode", "tcp4/conn/lso/wall"),
    ("TCP, connected mode, MSS 1460", "mss1460/conn/lso/wall"),
    ("64-byte datagrams", "udp64/2044/lso/wall"),
    ("large datagrams, connected mode", "large/conn/lso/wall"),
    ("request/response", "rr/2044/lso/wall"),
    ("request/response, connected mode", "rr/conn/lso/wall"),
    ("its p99 beside 4 streams", "rr-p99/2044/lso/wall"),
    ("8 senders into 1, connected mode", "incast/conn/-/wall"),
    ("first contact with 1000 neighbours", "resolve-one/-/-/wall"),
    ("first IPv6 echo to a new peer", "first6/2044/lso/wall"),
    ("memory of a connection", "conn-memory/conn/-/wall"),
    ("memory of a child interface", "child-memory-up/-/-/wall"),
    ("making a child interface", "child-make/-/-/wall"),
)
SHARES = (
    ("64-byte datagram", "udp64/2044/lso/icount"),
    ("1400-byte datagram", "udp1400/2044/lso/icount"),
    ("TCP, MTU 2044", "tcp4/2044/lso/icount"),
    ("TCP, MTU 4092", "tcp4/4092/lso/icount"),
    ("TCP, connected mode", "tcp4/conn/lso/icount"),
    ("request/response", "rr/2044/lso/icount"),
)
NAMES = (("stack", "the stack"), ("hca", "the HCA's driver"), ("ref", "in-tree"),
         ("ours", "this driver"))
STYLE = """
svg { font: 13px system-ui, sans-serif; background: #fff }
text { fill: #222 } .head { font-size: 19px; font-weight: 600 }
.sub { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #666 }
.paper { fill: #fff } .grid { stroke: #ddd } .one, .whisker { stroke: #222 }
.ours { fill: #2f7d5b } .bad { fill: #b8433a } .ref { fill: #7b8fb8 }
.stack { fill: #9aa5b1 } .hca { fill: #c9b458 } .loose { fill-opacity: .45 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e6e6 } .small { fill: #a0a0a0 } .paper { fill: #15181c }
  svg { background: #15181c } .grid { stroke: #333940 }
  .one, .whisker { stroke: #e6e6e6 } .ours { fill: #4fb286 } .bad { fill: #e0695f }
  .ref { fill: #8ea6d8 } .stack { fill: #6b7683 } .hca { fill: #b59f3f }
}
"""
WIDTH, EDGE, LEFT, STEP, BAR = 960, 24, 280, 24, 14
# Where bars end, with room for what they are worth beside them
RIGHT = 700


class Page:
    """An SVG that grows downwards."""

    def __init__(self):
        self.root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg")
        ElementTree.SubElement(self.root, "style").text = STYLE
        self.paper = self.rect(0, 0, WIDTH, 0, "paper")
        self.y = EDGE

    def add(self, tag, kind, text=None, **more):
        item = ElementTree.SubElement(self.root, tag, {
            "class": kind, **{name: f"{value:.1f}" if isinstance(value, float)
                              else str(value) for name, value in more.items()}})
        item.text = text
        return item

    def rect(self, x, y, width, height, kind):
        return self.add("rect", kind, x=x, y=y, width=width, height=height)

    def line(self, x, y, x2, y2, kind):
        return self.add("line", kind, x1=x, y1=y, x2=x2, y2=y2)

    def text(self, x, y, text, kind="", anchor="start"):
        return self.add("text", kind, text, x=x, y=y, **{"text-anchor": anchor})

    def title(self, text, kind, more=""):
        self.text(EDGE, self.y + 14, text, kind)
        self.y += 22
        if more:
            self.text(EDGE, self.y + 10, more, "small")
            self.y += 18

    def finish(self):
        height = self.y + EDGE
        self.root.set("viewBox", f"0 0 {WIDTH} {height}")
        self.root.set("width", str(WIDTH))
        self.root.set("height", str(height))
        self.paper.set("height", str(height))
        return ElementTree.tostring(self.root, encoding="unicode")


def ratio_of(figures, key):
    """How many times better ours is, its interval, and if it is steady; or None."""
    target = rows.Target("", key, rows.times_better, ">=", None)
    value = target.judge(figures, key)
    if not value or not math.isfinite(value):
        return None
    found = target.interval(figures)
    if found:
        value = found.middle
    return value, found, target.steady(figures, found)


def ratios(page, figures):
    """How many times better; a bar begins at 1, where both are the same."""
    found = [(name, key, ratio_of(figures, key)) for name, key in RATIOS]
    values = [one[0] for _, _, one in found if one]
    low, high = min([0.5, *values]), max([4, *values])

    def x(value):
        part = math.log(max(value, low) / low) / math.log(high / low)
        return LEFT + min(part, 1) * (RIGHT - LEFT)

    bottom = page.y + STEP * len(found)
    for mark in (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if low <= mark <= high:
            page.line(x(mark), page.y, x(mark), bottom, "one" if mark == 1 else "grid")
            page.text(x(mark), bottom + 13, f"{mark:g}", "small", "middle")
    for name, key, one in found:
        middle = page.y + STEP / 2
        page.text(LEFT - 10, middle + 4, name, "", "end")
        page.y += STEP
        if not one:
            page.text(LEFT + 10, middle + 4, "not measured", "small")
            continue
        value, interval, is_steady = one
        kind = "ours" if value >= 1 else "bad"
        ends = sorted((x(1), x(value)))
        page.rect(ends[0], middle - BAR / 2, ends[1] - ends[0], BAR,
                  kind if is_steady else f"{kind} loose")
        if interval:
            page.line(x(interval.low), middle, x(interval.high), middle, "whisker")
        page.text(RIGHT + 14, middle + 4, f"{table.number(value)} ×")
        ours, other = (table.number(figures.median(key, who))
                       for who in ("ours", figures.reference))
        page.text(RIGHT + 70, middle + 4, f"{ours} : {other} {rows.unit_of(key)}",
                  "small")
    page.y += 30


def shares(page, figures):
    """What the instructions are: the stack's, the HCA's, the driver's."""
    x = LEFT
    for kind, name in NAMES:
        page.rect(x, page.y, 10, 10, kind)
        page.text(x + 15, page.y + 10, name, "small")
        x += 130
    page.y += 20
    for name, key in SHARES:
        top = page.y
        page.text(LEFT - 10, top + 17, name, "", "end")
        page.y += 2 * BAR + 12
        whole = {who: figures.median(key, who) for who in (figures.reference, "ours")}
        if None in whole.values() or figures.floor(key) is None:
            page.text(LEFT + 10, top + 17, "not measured", "small")
            continue
        scale = (RIGHT - LEFT) / max(whole.values())
        for number, (who, kind) in enumerate(((figures.reference, "ref"),
                                              ("ours", "ours"))):
            left, y = LEFT, top + number * (BAR + 1)
            rest = whole[who]
            for part, part_kind in ((figures.stack(key), "stack"),
                                    (figures.hca(key), "hca"), (rest, kind)):
                part = min(part, rest)
                page.rect(left, y, part * scale, BAR, part_kind)
                left += part * scale
                rest -= part
            page.text(RIGHT + 14, y + 11, f"{table.number(whole[who])} "
                      f"{rows.unit_of(key)}, {dict(NAMES)[kind]}", "small")


def story(results):
    """The page, as text."""
    figures = table.figures_of(results)
    page = Page()
    page.title("IP over InfiniBand: this driver beside the kernel's", "head",
               f"{results['revision']}, {results['kernel']}, {results['when']}: both in "
               "turn in the same virtual machines, on the same simulated HCAs")
    page.y += BAR
    page.title("Times better than the in-tree driver", "sub",
               "more to the right is better; line: 95 % confidence interval; pale: not "
               "steady; ours : in-tree")
    ratios(page, figures)
    page.y += STEP
    page.title("Instructions of a packet, a transaction or a KiB", "sub",
               "above: in-tree; below: this driver")
    shares(page, figures)
    return page.finish() + "\n"


if __name__ == "__main__":
    table.convert(story, *sys.argv[1:])
