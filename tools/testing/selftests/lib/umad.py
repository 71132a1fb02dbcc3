# SPDX-License-Identifier: GPL-2.0-only
"""MADs of user space, over ib_umad: to QP1 of any port, by LID, and to QP0."""

import fcntl
import glob
import itertools
import os
import select
import signal
import struct

from .ksft import Failed, defer, ksft_eq
from .utils import read

REGISTER_AGENT, ENABLE_PKEY = 0xc01c1b01, 0x1b03
GSI_QKEY = 0x80010000
SUBN_LID_ROUTED = 0x01

# ib_user_mad_hdr
HEAD = struct.Struct("=IIIII4s4s2sBBBBBB16s4sH6x")
MAD_SIZE = 256
PERF_MGMT, PERF_VERSION, GET, SET, PORT_COUNTERS = 4, 1, 1, 2, 0x12
MCAST_FWD_TABLE = 0x1b


def umad_of(port):
    """The file by which MADs leave a port."""
    for path in glob.glob("/sys/class/infiniband_mad/umad*"):
        if read(f"{path}/ibdev") == port.hca.name and \
           int(read(f"{path}/port")) == port.num:
            return f"/dev/infiniband/{os.path.basename(path)}"
    raise Failed(f"no umad for {port}")


class Agent:
    """What sends MADs of a management class from a port, and gets answers."""

    def __init__(self, port, mgmt_class, version):
        self.fd = os.open(umad_of(port), os.O_RDWR)
        fcntl.ioctl(self.fd, ENABLE_PKEY)
        # (QP, Q_Key): SMPs are for the first, all others for the second.
        self.where = (0, 0) if mgmt_class == SUBN_LID_ROUTED else (1, GSI_QKEY)
        asked = bytearray(struct.pack("=I16xBBB4xx", 0, self.where[0],
                                      mgmt_class, version))
        fcntl.ioctl(self.fd, REGISTER_AGENT, asked)
        self.number = struct.unpack_from("=I", asked)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def send(self, lid, mad, wait_ms=0, retries=0):
        """To @lid; without @wait_ms no answer is waited for."""
        head = HEAD.pack(self.number, 0, wait_ms, retries, 0,
                         *(struct.pack(">I", word) for word in self.where),
                         struct.pack(">H", lid), 0, 0, 0, 0, 0, 0, bytes(16),
                         bytes(4), 0)
        os.write(self.fd, head + mad)

    def receive(self, limit):
        """The status and the MAD that came within @limit seconds, or None."""
        if not select.select([self.fd], [], [], limit)[0]:
            return None
        answer = os.read(self.fd, HEAD.size + MAD_SIZE)
        return HEAD.unpack_from(answer)[1], answer[HEAD.size:]


def set_mft(port, lid, mlid, ports):
    """Enter the ports of a group at the switch at @lid, as an SM would."""
    index, bit = divmod(mlid - 0xc000, 32)
    words = [0] * 32
    for number in ports:
        words[bit] |= 1 << number
    mad = struct.pack(">BBBB4xQHHIQ32x32H128x", 1, SUBN_LID_ROUTED, 1, SET, 1,
                      MCAST_FWD_TABLE, 0, index, 0, *words)
    with Agent(port, SUBN_LID_ROUTED, 1) as agent:
        agent.send(lid, mad, 1000, 3)
        status, answer = agent.receive(5) or (None, b"")
    ksft_eq((status, answer[4:6]), (0, bytes(2)), f"the answer of {lid}")


def get_counters(tid):
    """A MAD that asks for the counters of port 1 of an HCA."""
    # PortCounters begins at byte 64: the port selected is its second.
    return struct.pack(">BBBB4xQHHI232s", 1, PERF_MGMT, PERF_VERSION, GET, tid,
                       PORT_COUNTERS, 0, 0, bytes(41) + b"\1" + bytes(190))


def ask_counters(port, lid):
    """A process that asks for another port's counters until the case ends."""
    pid = os.fork()
    if not pid:
        try:
            with Agent(port, PERF_MGMT, PERF_VERSION) as agent:
                for tid in itertools.count(1):
                    agent.send(lid, get_counters(tid))
        finally:
            os._exit(1)     # pylint: disable=protected-access

    def stop():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    return defer(stop)
