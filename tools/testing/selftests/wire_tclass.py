# SPDX-License-Identifier: GPL-2.0-only
"""A link with a traffic class: the SA is asked for paths of that class."""

import re
import struct

from lib import Mirror, ends, ksft_eq, ksft_ge, ping_ok, sa_query

TCLASS = 0x20
BOOT = {"hcas": 2, "seconds": 20, "ipoib": "ours", "partitions":
        "Default=0x7fff, ipoib, TClass=32 : ALL=full;"}

ADM_CLASS, GET, PATH_RECORD = 3, 1, 0x35
# In a PathRecord, after the MAD's headers and its SA header
RECORD = 56
DGID, CLASS = RECORD + 8, RECORD + 48


def queries(packets):
    """The PathRecord queries among packets: (DGID, traffic class)."""
    found = []
    for packet in packets:
        mad = packet.payload
        if packet.dqpn == 1 and len(mad) == 256 and mad[1] == ADM_CLASS and \
           mad[3] == GET and mad[16:18] == struct.pack(">H", PATH_RECORD):
            found.append((mad[DGID:DGID + 16], mad[CLASS]))
    return found


def test_group():
    """OpenSM gives the broadcast group the class: the test below counts."""
    ends()
    text = sa_query("MCMR").stdout
    found = re.findall(r"TClass\.*\s*(0x[0-9a-fA-F]+|\d+)", text)
    ksft_eq({int(word, 0) for word in found}, {TCLASS})


def test_path_query():
    """Queries have the broadcast group's class, and are answered."""
    pair = ends()
    with Mirror(pair.a.port) as mirror:
        for end in pair:
            end.set("down")
            end.up()
        pair.ready()
        packets = mirror.stop()
    gid = pair.b.address()[4:]
    mine = [tclass for dgid, tclass in queries(packets) if dgid == gid]
    ksft_ge(len(mine), 1, "queries for the peer")
    ksft_eq(set(mine), {TCLASS})
    ping_ok(pair.a.ns, pair.b.v4, count=3)
