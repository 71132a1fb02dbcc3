# SPDX-License-Identifier: GPL-2.0-only
"""Memory of user space: what a key allows is done, and nothing else."""

import errno
import os
import re
import struct
from unittest.mock import ANY

from lib import (Mirror, cmd, defer, hca, ksft_eq, ksft_ge, ksft_raises, ksft_true,
                 port, timeout)
from lib import uverbs as uv
from lib.capture import dissect
from lib.uverbs import Memory, PAGE, Verbs, objects, send_wr

BOOT = {"ipoib": "none", "hcas": 2, "fabric": "provider=hfi1", "seconds": 30}
GROUPS = ("verbs", "fabric")

KIB = 1 << 10
CANARY = 0xc5


class Side:
    """A process' device with a PD, a CQ, memory and a QP."""

    def __init__(self, number=0, size=16 * PAGE, kind=uv.RC, access=None,
                 margin=PAGE):
        self.port = port(number)
        self.verbs = Verbs(hca(number))
        defer(self.verbs.close)
        self.pd = self.verbs.pd()
        self.cq = self.verbs.cq(256)
        self.size = size
        # The region is in the middle of what must stay as it is.
        self.memory = Memory(size + 2 * margin, CANARY)
        self.addr = self.memory.addr + margin
        self.margin = margin
        self.mr, self.lkey, self.rkey = self.verbs.mr(
            self.pd, self.addr, size,
            uv.ALL_ACCESS if access is None else access)
        self.qp = self.verbs.qp(self.pd, self.cq, kind)

    def data(self, start=0, length=None):
        end = self.size if length is None else start + length
        return self.memory[self.margin + start:self.margin + end]

    def put(self, data, start=0):
        self.memory[self.margin + start:self.margin + start + len(data)] = data

    def piece(self, start=0, length=64):
        return (self.addr + start, length, self.lkey)

    def untouched(self):
        """Nothing beside the region was written."""
        bad = bytes([CANARY]) * self.margin
        ksft_true(self.memory[:self.margin] == bad, "before the region")
        ksft_true(self.memory[self.margin + self.size:] == bad,
                  "behind the region")

    def again(self, other, access=uv.ALL_ACCESS):
        """A new connection, after an error."""
        for side in (self, other):
            side.qp.destroy()
            side.verbs.poll(side.cq, 64)
            side.qp = side.verbs.qp(side.pd, side.cq)
        join(self, other, access)


def join(one, two, access=uv.ALL_ACCESS):
    """Connect the QPs of two sides; @access is what the second one allows."""
    one.qp.connect(two.qp.qpn, two.port.lid())
    two.qp.connect(one.qp.qpn, one.port.lid(), access)


def sides(**how):
    one, two = Side(0, **how), Side(1, **how)
    join(one, two)
    return one, two


def done(side, status=uv.OK, limit=5):
    """The next completion, which has this status."""
    found = side.verbs.wait(side.cq, 1, limit)
    ksft_eq(found[0].status, status, f"{found[0]}")
    return found[0]


def one_sided(one, two, opcode, start=0, length=64, addr=None, rkey=None,
              local=None, **wr):
    """Post an RDMA request; its remote address is @start in the region."""
    one.qp.post(send_wr(opcode, rkey=two.rkey if rkey is None else rkey,
                        addr=two.addr + start if addr is None else addr, **wr),
                [local or one.piece(0, length)])


@timeout(60)
def test_write_and_read():
    """RDMA moves any number of bytes from and to any place."""
    one, two = sides(size=1 << 20)
    packets = 0
    before = [side.port.counter("rx_rc_packets") for side in (one, two)]
    for start, length in ((0, 1), (1, 7), (4095, 2), (100, 4096),
                          (0, 64 * KIB), (3, 64 * KIB + 1), (17, 777777),
                          (0, 1 << 20)):
        packets += -(-length // 4096)
        data = os.urandom(length)
        one.put(data)
        one_sided(one, two, uv.WRITE, start, length)
        done(one)
        ksft_true(two.data(start, length) == data, f"{length} written")
        one.put(bytes(length))
        one_sided(one, two, uv.READ, start, length)
        ksft_eq(done(one).byte_len, length)
        ksft_true(one.data(0, length) == data, f"{length} read")
    one.untouched()
    two.untouched()
    # A READ is one request, and the data come back.
    ksft_eq([side.port.counter("rx_rc_packets") - was
             for side, was in zip((one, two), before)], [packets, packets + 8])


def test_lists():
    """Lists of several pieces are gathered and scattered in order."""
    one, two = sides()
    data = os.urandom(3000)
    one.put(data)
    pieces = [one.piece(0, 1), one.piece(1, 1499), one.piece(1500, 0),
              one.piece(1500, 1500)]
    two.qp.receive([two.piece(5000, 700), two.piece(100, 1),
                    two.piece(9000, 2400)])
    one.qp.post(send_wr(uv.SEND_IMM, num_sge=4, imm=0xabcd), pieces)
    done(one)
    wc = done(two)
    ksft_eq((wc.byte_len, wc.opcode, wc.imm, wc.qpn), (3000, uv.WC_RECV,
            struct.pack(">I", 0xabcd), two.qp.qpn))
    ksft_true(two.data(5000, 700) + two.data(100, 1) + two.data(9000, 2299) ==
              data, "data")
    ksft_eq(two.data(9000 + 2299, 101), bytes([CANARY]) * 101, "the rest")


def test_immediate():
    """RDMA WRITE with immediate data also takes a receive."""
    one, two = sides()
    two.qp.receive([])
    one.put(b"x" * 100)
    one_sided(one, two, uv.WRITE_IMM, 50, 100, imm=77)
    done(one)
    wc = done(two)
    ksft_eq((wc.opcode, wc.byte_len, wc.imm), (uv.WC_RECV_IMM, 100,
                                               struct.pack(">I", 77)))
    ksft_eq(two.data(50, 100), b"x" * 100)


def refused(one, two, opcode, what, status=uv.REM_ACCESS, **how):
    """A request fails, and no byte has moved."""
    before, local = two.data(), one.data()
    one_sided(one, two, opcode, **how)
    done(one, status)
    ksft_true(two.data() == before, f"{what}: remote memory")
    ksft_true(one.data() == local, f"{what}: local memory")
    one.untouched()
    two.untouched()
    one.again(two)


@timeout(90)
def test_bounds():
    """A byte outside a region cannot be read, written or operated on."""
    one, two = sides()
    size, top = two.size, 1 << 64
    for opcode in (uv.WRITE, uv.READ):
        for start, length in ((-1, 2), (-1, 1), (size, 1), (size - 1, 2),
                              (-size, 64), (1, size), (-two.addr, 64),
                              (top - two.addr - 8, 64)):
            refused(one, two, opcode, f"{start}+{length}", length=length,
                    addr=(two.addr + start) % top)
    for start in (-8, size, size + 8):
        refused(one, two, uv.FETCH_ADD, f"atomic at {start}", length=8,
                addr=(two.addr + start) % top, compare=1)
    ksft_ge(two.port.counter("bad_rkey"), 10)


def test_rights():
    """Each right is needed, of the region and of the QP."""
    one, two = sides()
    need = {uv.WRITE: uv.REMOTE_WRITE, uv.READ: uv.REMOTE_READ,
            uv.FETCH_ADD: uv.REMOTE_ATOMIC, uv.CMP_SWAP: uv.REMOTE_ATOMIC}
    for opcode, right in need.items():
        mr = two.verbs.mr(two.pd, two.addr, two.size, uv.ALL_ACCESS & ~right)
        refused(one, two, opcode, "region", rkey=mr[2], length=8)
        two.verbs.free_mr(mr[0])
        one.again(two, uv.ALL_ACCESS & ~right)
        refused(one, two, opcode, "QP", length=8)


def test_keys():
    """Keys that are wrong, old, of another PD or of the kernel open nothing."""
    one, two = sides()
    other = two.verbs.pd()
    foreign = two.verbs.mr(other, two.addr, two.size)
    old = two.verbs.mr(two.pd, two.addr, two.size)
    two.verbs.free_mr(old[0])
    kernels = 0x5a5a0000 | two.port.hca.number
    for key in (foreign[2], old[2], kernels, 0, 0xffffffff, two.rkey ^ 1,
                two.rkey + 256, two.rkey ^ 1 << 31):
        for opcode in (uv.WRITE, uv.READ, uv.FETCH_ADD):
            refused(one, two, opcode, f"R_Key {key:#x}", rkey=key, length=8)


def test_own_keys():
    """The same for L_Keys: the request fails before it is sent."""
    one, two = sides()
    foreign = one.verbs.mr(one.verbs.pd(), one.addr, one.size)
    kernels = 0x5a5a0000 | one.port.hca.number
    read_only = one.verbs.mr(one.pd, one.addr, one.size, uv.REMOTE_READ)
    for key in (foreign[1], kernels, 0, 0xffffffff, one.lkey ^ 1):
        for opcode in (uv.WRITE, uv.READ, uv.SEND):
            if opcode == uv.SEND:
                two.qp.receive([two.piece()])
            refused(one, two, opcode, f"L_Key {key:#x}", uv.LOC_PROT,
                    local=(one.addr, 64, key))
    refused(one, two, uv.READ, "no local write", uv.LOC_PROT,
            local=(one.addr, 64, read_only[1]))
    refused(one, two, uv.READ, "list outside", uv.LOC_PROT,
            local=(one.addr + one.size - 32, 64, one.lkey))


def test_receive_keys():
    """A receive with a wrong key fails at both ends, and stores nothing."""
    one, two = sides()
    read_only = two.verbs.mr(two.pd, two.addr, two.size, uv.REMOTE_READ)
    before = two.data()
    for key, addr in ((two.lkey ^ 1, two.addr), (read_only[1], two.addr),
                      (0x5a5a0000 | two.port.hca.number, two.addr),
                      (two.lkey, two.addr + two.size - 1)):
        two.qp.receive([(addr, 64, key)])
        one.qp.post(send_wr(), [one.piece()])
        done(one, uv.REM_OP)
        done(two, uv.LOC_PROT)
        ksft_true(two.data() == before, f"key {key:#x}")
        two.untouched()
        one.again(two)


def test_short_receive():
    """A message that is longer than the receive fails at both ends."""
    one, two = sides()
    two.qp.receive([two.piece(0, 63)])
    one.qp.post(send_wr(), [one.piece(0, 64)])
    done(one, uv.REM_INV)
    done(two, uv.LOC_LEN)


def word(side, start):
    return struct.unpack("=Q", side.data(start, 8))[0]


def test_atomics():
    """Compare-and-swap and fetch-and-add return what was there."""
    one, two = sides()
    two.put(struct.pack("=Q", 100), 8)
    one_sided(one, two, uv.FETCH_ADD, 8, 8, compare=5)
    ksft_eq((done(one).byte_len, word(one, 0), word(two, 8)), (8, 100, 105))
    one_sided(one, two, uv.CMP_SWAP, 8, 8, compare=104, swap=1)
    done(one)
    ksft_eq((word(one, 0), word(two, 8)), (105, 105), "no match")
    one_sided(one, two, uv.CMP_SWAP, 8, 8, compare=105, swap=1 << 63)
    done(one)
    ksft_eq((word(one, 0), word(two, 8)), (105, 1 << 63), "match")
    one_sided(one, two, uv.FETCH_ADD, 8, 8, compare=1 << 63)
    done(one)
    ksft_eq(word(two, 8), 0, "wraps")
    for start in (1, 4, 15):
        refused(one, two, uv.FETCH_ADD, f"at {start}", uv.REM_INV, start=start,
                length=8)
    with ksft_raises(OSError) as caught:
        one_sided(one, two, uv.FETCH_ADD, 8, 4)
    ksft_eq(caught.error.errno, errno.EINVAL, "less than 8 bytes")


@timeout(120)
def test_once():
    """Under loss each atomic is executed once, and a stream stays whole."""
    one, two = sides(size=64 * PAGE)
    two.put(bytes(8))
    two.port.fault("loss_ppm", 50000)
    for number in range(200):
        one_sided(one, two, uv.FETCH_ADD, 0, 8, compare=1)
        done(one, limit=30)
        ksft_eq(word(one, 0), number)
    data = os.urandom(one.size)
    one.put(data)
    one_sided(one, two, uv.WRITE, 0, one.size)
    done(one, limit=30)
    ksft_true(two.data() == data, "a long message")
    ksft_ge(one.port.counter("rc_retry"), 1)


def test_no_reads_allowed():
    """A QP without responder resources refuses READs and atomics."""
    for opcode in (uv.READ, uv.FETCH_ADD):
        one, two = Side(0), Side(1)
        one.qp.connect(two.qp.qpn, two.port.lid())
        two.qp.connect(one.qp.qpn, one.port.lid(), max_dest_rd=0)
        one_sided(one, two, opcode, 0, 8)
        done(one, uv.REM_INV)


@timeout(60)
def test_long_sends():
    """Messages of several segments arrive whole, and in order."""
    one, two = sides(size=1 << 20)
    data = os.urandom(1 << 20)
    one.put(data)
    total = 0
    lengths = (300000, 1, 65537, 65536, 200000)
    for number, length in enumerate(lengths):
        two.qp.receive([two.piece(total, length)], wr_id=number)
        one.qp.post(send_wr(wr_id=number), [one.piece(total, length)])
        total += length
    ksft_eq([(wc.wr_id, wc.status) for wc in
             one.verbs.wait(one.cq, len(lengths))],
            [(n, uv.OK) for n in range(len(lengths))])
    ksft_eq([(wc.wr_id, wc.byte_len) for wc in
             two.verbs.wait(two.cq, len(lengths))],
            list(enumerate(lengths)))
    ksft_true(two.data(0, total) == data[:total], "data")


def test_long_send_breaks():
    """A QP that fails in the middle of a message flushes its receive, once."""
    one, two = sides(size=1 << 26)
    two.qp.receive([two.piece(0, 1 << 26)], wr_id=3)
    two.qp.receive([two.piece(0, 64)], wr_id=4)
    one.qp.post(send_wr(), [one.piece(0, 1 << 26)])
    two.qp.modify(uv.STATE, uv.ERR)
    ksft_eq([(wc.wr_id, wc.status) for wc in two.verbs.wait(two.cq, 2)],
            [(3, uv.FLUSHED), (4, uv.FLUSHED)])
    one.qp.modify(uv.STATE, uv.ERR)
    done(one, uv.FLUSHED)


def test_datagrams():
    """UD QPs send from and receive to regions, pages apart."""
    one, two = Side(0, kind=uv.UD), Side(1, kind=uv.UD)
    for side in (one, two):
        side.qp.start_ud()
    ah = one.verbs.ah(one.pd, two.port.lid())
    data = os.urandom(2048)
    one.put(data, PAGE - 1000)
    two.qp.receive([two.piece(PAGE - 500, 2088)])
    one.qp.post(send_wr(ah=ah, qpn=two.qp.qpn, qkey=0x1234),
                [one.piece(PAGE - 1000, 2048)])
    done(one)
    wc = done(two)
    ksft_eq((wc.byte_len, wc.src_qpn, wc.slid), (2088, one.qp.qpn,
                                                 one.port.lid()))
    ksft_true(two.data(PAGE - 460, 2048) == data, "data")
    for key, addr in ((one.lkey ^ 1, one.addr),
                      (0x5a5a0000 | one.port.hca.number, one.addr)):
        one.qp.post(send_wr(ah=ah, qpn=two.qp.qpn, qkey=0x1234),
                    [(addr, 64, key)])
        done(one, uv.LOC_PROT)
        one.qp.modify(uv.STATE | uv.CUR_STATE, uv.RTS, cur=uv.SQE)
    two.qp.receive([(two.addr, 200, two.lkey ^ 1)])
    one.qp.post(send_wr(ah=ah, qpn=two.qp.qpn, qkey=0x1234), [one.piece()])
    done(one)
    done(two, uv.LOC_PROT)
    two.untouched()


def test_no_route():
    """What the switch cannot forward is an error of the port it came from."""
    def errors():
        text = cmd(["perfquery", "--rcverr", *switch]).stdout + \
            cmd(["perfquery", *switch]).stdout
        return [int(re.search(rf"{name}:\.*(\d+)", text).group(1))
                for name in ("PortDLIDMappingErrors",
                             "PortRcvSwitchRelayErrors", "PortRcvErrors")]

    one = Side(0, kind=uv.UD)
    one.qp.start_ud()
    switch = one.port.switch_end()
    before = errors()
    ah = one.verbs.ah(one.pd, 900)
    for _ in range(3):
        one.qp.post(send_wr(ah=ah, qpn=5, qkey=0x1234), [one.piece()])
        done(one)
    ksft_eq([now - then for now, then in zip(errors(), before)], [3, 3, 0])


def test_shared_queue():
    """A shared receive queue's entries are checked against its own PD."""
    two = Side(1)
    one = Side(0)
    srq = two.verbs.srq(two.pd)
    two.qp.destroy()
    two.qp = two.verbs.qp(two.pd, two.cq, srq=srq)
    join(one, two)
    one.put(b"shared queue")
    two.qp.receive([two.piece(10, 64)], 5, uv.POST_SRQ_RECV, srq)
    one.qp.post(send_wr(), [one.piece(0, 12)])
    done(one)
    ksft_eq(done(two).wr_id, 5)
    ksft_eq(two.data(10, 12), b"shared queue")
    two.qp.receive([two.piece(10, 64)[:2] + (two.lkey ^ 2,)], 6,
                   uv.POST_SRQ_RECV, srq)
    one.qp.post(send_wr(), [one.piece(0, 12)])
    done(one, uv.REM_OP)
    ksft_eq((done(two, uv.LOC_PROT).wr_id), 6)


@timeout(120)
def test_mirror():
    """The packets of RDMA and atomics are what Wireshark expects of them."""
    one, two = sides()
    path = "/run/rdma.pcap"
    two.qp.receive([])
    two.qp.receive([two.piece(0, 5000)])
    with Mirror(two.port) as mirror:
        for opcode, length, how in ((uv.WRITE, 10000, {}), (uv.READ, 5000, {}),
                                    (uv.FETCH_ADD, 8, {"compare": 1}),
                                    (uv.CMP_SWAP, 8, {"swap": 1}),
                                    (uv.WRITE_IMM, 100, {"imm": 1}),
                                    (uv.SEND, 5000, {})):
            one_sided(one, two, opcode, 0, length, **how)
            done(one)
        mirror.stop()
    mirror.save(path)
    rows = dissect(path, "infiniband.bth.opcode < 32", "infiniband.bth.opcode",
                   "infiniband.bth.psn", "infiniband.reth.dmalen",
                   "_ws.malformed")
    # WRITE first, middle, last; READ and its response; atomics and their
    # answers; WRITE only with immediate; SEND first, last
    ksft_eq([int(row[0]) for row in rows],
            [6, 7, 8, 12, 13, 15, 20, 18, 19, 18, 11, 0, 2])
    psns = [int(row[1]) for row in rows]
    ksft_eq([psn - psns[0] for psn in psns],
            [0, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 9])
    ksft_eq([int(row[2], 0) for row in rows if len(row) > 2 and row[2]],
            [10000, 5000, 100])
    ksft_eq([row for row in rows if len(row) > 3 and row[3]], [], "malformed")


def test_gone():
    """What a deregistered region pointed to can be unmapped and used anew."""
    one, two = sides()
    two.verbs.free_mr(two.mr)
    before = two.data()
    one_sided(one, two, uv.WRITE, 0, 64)
    done(one, uv.REM_ACCESS)
    ksft_true(two.data() == before)


def test_nothing_left():
    """When a process closes the device, its objects are gone."""
    one, two = sides()
    one.verbs.srq(one.pd)
    one.verbs.ah(one.pd, two.port.lid())
    ksft_eq(objects(0), {"ucontext": 1, "pd": 1, "ah": 1, "mr": 1, "cq": 1,
                         "srq": 1, "qp": 1, "group": 0, "user_bytes": ANY})
    for side in (one, two):
        side.verbs.close()
        found = objects(side.port.hca.number)
        ksft_eq(found, dict.fromkeys(found, 0), f"{side.port.hca}")
