# SPDX-License-Identifier: GPL-2.0-only
"""The page that ends the demonstration."""

import re
import xml.etree.ElementTree as xml

from lib import ksft_eq, ksft_ge, ksft_in, ksft_le, ksft_not_in
import picture

BOOT = "host"

DATA = {
    "hosts": [("host1", "ib0", "LID 2", "MTU 2044"),
              ("host2", "ib1", "<LID 3>", "MTU 2044")],
    "manager": "OpenSM", "rate": "100 Gb/sec",
    "points": [(0.5, 0), (1.0, 417.5), (1.5, 0), (2.0, 12)],
    "events": [(0.6, "it dies"), (1.4, "it & all are back")],
    "verdict": "1 < 2", "streams": [["host1", "host2", "IPv4", "417"]],
    "about": "Linux",
}


def test_page():
    """All that was told is there, escaped, and nothing has to be fetched."""
    page = picture.page(DATA)
    for words in ("host1", "&lt;LID 3&gt;", "it &amp; all are back", "1 &lt; 2",
                  "IPv4", "417"):
        ksft_in(words, page)
    for words in ("http:", "https:", "src=", "@import", "<script"):
        ksft_not_in(words, page)
    drawings = re.findall(r"<svg .*?</svg>", page, re.S)
    ksft_eq(len(drawings), 2)
    for drawing in drawings:
        ksft_eq(xml.fromstring(drawing).tag, "svg")


def test_chart():
    """The line has a point for each sample, all inside, the higher the faster."""
    drawing = xml.fromstring(picture.chart(DATA["points"], DATA["events"]))
    line = drawing.find("polyline").get("points")
    points = [tuple(map(float, each.split(","))) for each in line.split()]
    ksft_eq(len(points), 4)
    for x, y in points:
        ksft_ge(x, picture.LEFT)
        ksft_le(x, picture.WIDTH - picture.RIGHT)
        ksft_ge(y, picture.TOP)
        ksft_le(y, picture.CHART_HEIGHT - picture.BOTTOM)
    ksft_eq([y for _, y in points].index(min(y for _, y in points)), 1)
    ksft_eq(points[0][1], points[2][1])


def test_round_up():
    """The end of an axis is a round number, and not below the value."""
    for value, wanted in ((0, 1), (1, 1), (3, 5), (5, 5), (417.5, 500), (501, 1000),
                          (99999, 100000)):
        ksft_eq(picture.round_up(value), wanted, value)
