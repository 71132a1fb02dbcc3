# SPDX-License-Identifier: GPL-2.0-only
"""
A client of the subnet administrator, over ib_umad: what saquery does not do.

An alias GUID is the SM's to give: a port asks for it with SubnAdmSet of a
GUIDInfoRecord.  Only then does the SA answer for paths and groups with a GID
made of it.
"""

import contextlib
import errno
import re
import struct
import time

from .fabric import sa_query, sm
from .ipoib import mgid_text
from .ksft import Failed, defer
from .umad import Agent
from .utils import now, slow, wait_until

SUBN_ADM, VERSION = 3, 2
GET, SET, DELETE = 0x01, 0x02, 0x15
ANSWERS = {GET: 0x81, SET: 0x81, DELETE: 0x95}
GUID_INFO_RECORD, PATH_RECORD, MCMEMBER_RECORD = 0x30, 0x35, 0x38
GUIDS_IN_BLOCK = 8

# MAD, RMPP and SA headers with 200 bytes of data
MAD = struct.Struct(">BBBBHHQHHI12xQHHQ200s")
# GUIDInfoRecord: LID, block, GUIDs
RECORD = struct.Struct(">HBB4x8Q")


def request(port, method, attribute, mask, data, limit=5):
    """One MAD from a port to the SA; the answer's data, or OSError."""
    mad = MAD.pack(1, SUBN_ADM, VERSION, method, 0, 0, 1, attribute, 0, 0,
                   0, 0, 0, mask, data)
    with Agent(port, SUBN_ADM, VERSION) as agent:
        agent.send(port.sm_lid(), mad, 1000 * limit // 5, 4)
        answer = agent.receive(2 * limit)
    if not answer:
        raise OSError(errno.ETIMEDOUT, f"{port}: the SA")
    status, fields = answer[0], MAD.unpack(answer[1])
    if status or fields[3] != ANSWERS[method] or fields[4]:
        raise OSError(status or errno.EPROTO, f"{port}: the SA's answer to "
                      f"method {method:#x} for attribute {attribute:#x}: "
                      f"method {fields[3]:#x}, status {fields[4]:#x}")
    return fields[-1]


def _guid_block(port, method, block, wanted):
    """Ask for places of a block of a port's GUID table; the GUIDs there."""
    guids = [wanted.get(place, 0) for place in range(GUIDS_IN_BLOCK)]
    mask = 1 | 2 | sum(1 << (4 + place) for place in wanted)
    record = RECORD.pack(port.lid(), block, 0, *guids)
    data = request(port, method, GUID_INFO_RECORD, mask,
                   record.ljust(200, b"\0"))
    return RECORD.unpack_from(data)[3:]


def _guid_record(port, method, index, guid):
    """Ask for the place @index of a port's GUID table; the GUID there."""
    block, place = divmod(index, GUIDS_IN_BLOCK)
    return _guid_block(port, method, block, {place: guid})[place]


def alias_guids(port, guids):
    """Have a port get these, from place 1 of its table on, for good."""
    places = list(enumerate(guids, 1))
    for block in range(1 + len(guids) // GUIDS_IN_BLOCK):
        wanted = {place % GUIDS_IN_BLOCK: guid for place, guid in places
                  if place // GUIDS_IN_BLOCK == block}
        if wanted:
            _guid_block(port, SET, block, wanted)
    wait_until(lambda: guid_at(port, len(guids)) == guids[-1], 10,
               f"{len(guids)} GUIDs of {port}")


def guid_at(port, index):
    """What the port's table has there."""
    return int(port.gid(index).replace(":", "")[16:], 16)


def alias_guid(port, index, guid=0, keep=False):
    """
    Have the SM give a port an alias GUID, one of the SM's choice if none is
    given, until the end of the case.
    """
    def given():
        # What an HCA lost when it was pulled OpenSM thinks it still has.  If
        # it never had it, it denies that.
        if not guid_at(port, index):
            with contextlib.suppress(OSError):
                _guid_record(port, DELETE, index, 0)
        got = _guid_record(port, SET, index, guid)
        end = now() + slow(1)
        while guid_at(port, index) != got and now() < end:
            time.sleep(0.05)
        return guid_at(port, index) == got and got

    if not keep:
        defer(drop_alias, port, index)
    what = f"GUID {index} of {port}"
    try:
        return wait_until(given, 4, what, patient=False)
    except Failed:
        # OpenSM may not have learnt all there is to a port that has come.
        sm.sweep()
        return wait_until(given, 20, what)


def drop_alias(port, index):
    """Give it back."""
    sm.ensure()
    _guid_record(port, DELETE, index, 0)


# ---- what the SA says -----------------------------------------------------

# Components of a request for a path: GIDs, one path
PATH_MASK = 1 << 2 | 1 << 3 | 1 << 12

# Where fields of the SA's answers are: (attribute, offset in the MAD, bytes)
FIELDS = {
    "status": (PATH_RECORD, 4, 2),
    "path_dlid": (PATH_RECORD, 96, 2),
    "path_hops": (PATH_RECORD, 103, 1),
    "path_pkey": (PATH_RECORD, 106, 2),
    "path_sl": (PATH_RECORD, 108, 2),
    "path_mtu": (PATH_RECORD, 110, 1),
    "path_rate": (PATH_RECORD, 111, 1),
    "path_life": (PATH_RECORD, 112, 1),
    "group_status": (MCMEMBER_RECORD, 4, 2),
    "group_qkey": (MCMEMBER_RECORD, 88, 4),
    "group_mlid": (MCMEMBER_RECORD, 92, 2),
    "group_mtu": (MCMEMBER_RECORD, 94, 1),
    "group_tclass": (MCMEMBER_RECORD, 95, 1),
    "group_rate": (MCMEMBER_RECORD, 98, 1),
    "group_life": (MCMEMBER_RECORD, 99, 1),
    "group_sl": (MCMEMBER_RECORD, 100, 1),
}


def path_record(port, dgid):
    """The SA's record of a path from a port to a GID, both 16 bytes: 64 bytes."""
    sgid = bytes.fromhex(port.gid().replace(":", ""))
    data = bytes(8) + dgid + sgid + bytes(9) + b"\x81"
    return request(port, GET, PATH_RECORD, PATH_MASK, data.ljust(200, b"\0"))[:64]


def says(port, **fields):
    """
    Until the end of the case, whatever the SA answers to a port has these in
    fields of FIELDS; what ends that.
    """
    def honest():
        if port.hca.exists():
            port.set("sa_patch", "off")

    again = defer(honest)
    for name, value in fields.items():
        attribute, offset, size = FIELDS[name]
        port.set("sa_patch", f"{attribute:#x} {offset} "
                             f"{value.to_bytes(size, 'big').hex()}")
    return again


# ---- groups ------------------------------------------------------------


def sa_records(mgid):
    """The SA's member records of a group: (port GID, MLID, join state)."""
    text = sa_query("--smkey", "1", "MCMR", "--mgid", mgid_text(mgid),
                    fail=False).stdout
    return [(gid, int(mlid, 16), int(state, 16)) for gid, mlid, state in
            re.findall(r"PortGid\.*(\S+).*?mlid\.*(\S+).*?"
                       r"JoinState\.*(\S+)", text, re.S)]


def sa_members(mgid):
    """Port GIDs of the full members of a group."""
    return [gid for gid, _, state in sa_records(mgid) if state & 1]
