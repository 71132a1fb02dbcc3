# SPDX-License-Identifier: GPL-2.0-only
"""
The page that ends the demonstration: the fabric as a drawing, the rate of a stream
over time with what happened to the fabric meanwhile, and the other streams' rates.
One file of HTML, with nothing that a browser would have to fetch.
"""

import html
import math

WIDTH = 760
CHART_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 64, 16, 44, 40
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 800px; margin: 2em auto;
       padding: 0 1em; color: #1d2430; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin-top: 2em }
svg { width: 100%; height: auto } svg text { font: 13px system-ui, sans-serif;
      fill: #1d2430 } svg .small { font-size: 11.5px; fill: #596274 }
table { border-collapse: collapse } th, td { text-align: left; padding: .2em 1em .2em 0;
       border-bottom: 1px solid #dde1e8 } td.n, th.n { text-align: right }
.box { fill: #f3f5f9; stroke: #8d97a8 } .wire { stroke: #2d6cdf; stroke-width: 3 }
.grid { stroke: #e4e7ed } .axis { stroke: #8d97a8 }
.line { fill: none; stroke: #2d6cdf; stroke-width: 2 }
.event { stroke: #b3541e; stroke-dasharray: 4 3 } svg .what { fill: #b3541e }
@media (prefers-color-scheme: dark) {
body { color: #e3e7ee; background: #14181f } svg text { fill: #e3e7ee }
svg .small { fill: #9aa4b5 } .box { fill: #1e242e; stroke: #647085 }
.grid { stroke: #2a313d } th, td { border-color: #2a313d }
.line, .wire { stroke: #6a9bf4 } .event { stroke: #e08a55 }
svg .what { fill: #e08a55 } }
"""


def text(x, y, words, kind="", anchor="middle"):
    """Words in a drawing."""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'class="{kind}">{html.escape(str(words))}</text>')


def box(x, y, wide, high, lines):
    """A box with lines of words, the first one larger."""
    out = [f'<rect class="box" x="{x}" y="{y}" width="{wide}" height="{high}" '
           'rx="6"/>']
    step = high / (len(lines) + 1)
    for n, words in enumerate(lines):
        out.append(text(x + wide / 2, y + step * (n + 1) + 4, words,
                        "small" if n else ""))
    return "".join(out)


def fabric(hosts, manager, rate):
    """Two hosts at a switch; @hosts: lines of words for each."""
    high, wide = 110, 210
    right = WIDTH - wide
    middle = WIDTH / 2
    return "".join((
        f'<svg viewBox="0 0 {WIDTH} 170" role="img" '
        'aria-label="two hosts at a switch">',
        f'<line class="wire" x1="{wide}" y1="55" x2="{right}" y2="55"/>',
        box(0, 0, wide, high, hosts[0]), box(right, 0, wide, high, hosts[1]),
        box(middle - 55, 20, 110, 70, ("switch", "ibdevsim")),
        text((wide + middle - 55) / 2, 46, rate, "small"),
        text((right + middle + 55) / 2, 46, rate, "small"),
        text(middle, 116, manager, "small"), "</svg>"))


def round_up(value):
    """The next of 1, 2, 5, 10, 20, ... for the end of an axis."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= value)


def chart(points, events):
    """
    A line through (second, rate) with a mark at each (second, words).
    """
    seconds = max(second for second, _ in points)
    most = round_up(max(rate for _, rate in points))
    wide, high = WIDTH - LEFT - RIGHT, CHART_HEIGHT - TOP - BOTTOM

    def x_of(second):
        return LEFT + wide * second / seconds

    def y_of(rate):
        return TOP + high * (1 - rate / most)

    out = [f'<svg viewBox="0 0 {WIDTH} {CHART_HEIGHT}" role="img" '
           'aria-label="rate of a stream over time">']
    for n in range(5):
        rate = most * n / 4
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
                   f'y1="{y_of(rate):.1f}" y2="{y_of(rate):.1f}"/>')
        out.append(text(LEFT - 8, y_of(rate) + 4, f"{rate:g}", "small", "end"))
    for second in range(0, math.floor(seconds) + 1, max(1, round(seconds / 8))):
        out.append(text(x_of(second), CHART_HEIGHT - BOTTOM + 18, f"{second} s",
                        "small"))
    out.append(text(LEFT - 8, 14, "Mbit/s", "small", "end"))
    for n, (second, words) in enumerate(events):
        at = x_of(second)
        out.append(f'<line class="event" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 6}" '
                   f'y2="{CHART_HEIGHT - BOTTOM}"/>')
        out.append(text(at + 4, 16 + 14 * (n % 2), words, "small what", "start"))
    path = " ".join(f"{x_of(second):.1f},{y_of(rate):.1f}"
                    for second, rate in points)
    out.append(f'<polyline class="line" points="{path}"/></svg>')
    return "".join(out)


def table(head, rows, numbers):
    """A table; @numbers: columns of numbers."""
    def cells(tag, row):
        return "".join(f'<{tag}{" class=n" if n in numbers else ""}>'
                       f"{html.escape(str(cell))}</{tag}>"
                       for n, cell in enumerate(row))
    return ("<table><tr>" + cells("th", head) + "</tr>" +
            "".join(f"<tr>{cells('td', row)}</tr>" for row in rows) + "</table>")


def page(data):
    """The whole page, from what the demonstration has collected."""
    return "\n".join((
        "<!DOCTYPE html>", '<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        "<title>IP over a simulated InfiniBand fabric</title>",
        f"<style>{STYLE}</style>",
        "<h1>IP over a simulated InfiniBand fabric</h1>",
        fabric(data["hosts"], data["manager"], data["rate"]),
        "<h2>A TCP stream while the fabric is in trouble</h2>",
        chart(data["points"], data["events"]),
        f"<p>{html.escape(data['verdict'])}</p>",
        "<h2>Streams</h2>",
        table(("from", "to", "over", "Mbit/s"), data["streams"], (3,)),
        f'<p class="small">{html.escape(data["about"])}</p></html>', ""))
