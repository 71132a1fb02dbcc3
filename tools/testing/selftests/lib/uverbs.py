# SPDX-License-Identifier: GPL-2.0-only
"""Verbs of user space by the system calls alone, as <rdma/ib_user_verbs.h> says.

rdma-core checks much before it asks the kernel.  Here any field can have any
value, so this is what a hostile program sends.  Memory is mapped by mmap(), so
that what is written to it can be seen.
"""

import ctypes
import glob
import mmap
import os
import struct

from .fabric import Hca
from .ksft import Failed
from .utils import read, wait_until

(GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_AH) = range(6)
DESTROY_AH, REG_MR = 8, 9
DEREG_MR = 13
(CREATE_COMP_CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, POLL_CQ) = range(17, 22)
(REQ_NOTIFY_CQ, CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND,
 POST_RECV, ATTACH_MCAST, DETACH_MCAST, CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ,
 DESTROY_SRQ, POST_SRQ_RECV) = range(23, 37)
COMMANDS = 42

# enum ib_uverbs_wr_opcode
(WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CMP_SWAP, FETCH_ADD, LOCAL_INV,
 BIND_MW, SEND_INV, TSO) = range(11)
SIGNALED, SOLICITED, INLINE, IP_CSUM = 2, 4, 8, 16
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = 1, 2, 4, 8
ALL_ACCESS = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC
RC, UD = 2, 4
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)

# enum ib_wc_status
(OK, LOC_LEN, LOC_QP_OP, LOC_EEC, LOC_PROT, FLUSHED, MW_BIND, BAD_RESP,
 LOC_ACCESS, REM_INV, REM_ACCESS, REM_OP, RETRY, RNR) = range(14)
# enum ib_wc_opcode of receives
WC_RECV, WC_RECV_IMM = 128, 129

# enum ib_qp_attr_mask
(STATE, CUR_STATE, EN_SQD, ACCESS, PKEY_INDEX, PORT, QKEY, AV, PATH_MTU,
 TIMEOUT, RETRY_CNT, RNR_RETRY, RQ_PSN, MAX_RD, ALT_PATH, MIN_RNR, SQ_PSN,
 MAX_DEST_RD) = (1 << n for n in range(18))
DEST_QPN = 1 << 20

PAGE = mmap.PAGESIZE


class Wc:
    """A completion."""

    def __init__(self, data):
        (self.wr_id, self.status, self.opcode, self.vendor, self.byte_len,
         self.imm, self.qpn, self.src_qpn, self.flags, self.pkey_index,
         self.slid, self.sl, self.bits, self.port) = \
            struct.unpack("=QIIII4sIIIHHBBBx", data)

    def __repr__(self):
        return f"<wr {self.wr_id} status {self.status} op {self.opcode}>"


class Memory:
    """Mapped memory, and its address."""

    def __init__(self, size, fill=0):
        self.map = mmap.mmap(-1, max(size, 1))
        self.size = size
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.fill(fill)

    def fill(self, value):
        self.map[:] = bytes([value]) * len(self.map)

    def __getitem__(self, where):
        return self.map[where]

    def __setitem__(self, where, data):
        self.map[where] = data


class Verbs:
    """A device that is open; as a context manager it is closed again."""

    def __init__(self, hca):
        found = [path for path in
                 glob.glob("/sys/class/infiniband_verbs/uverbs*")
                 if read(f"{path}/ibdev") == hca.name]
        if not found:
            raise Failed(f"{hca}: no verbs for user space")
        self.path = f"/dev/infiniband/{os.path.basename(found[0])}"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        answer = self.call(GET_CONTEXT, b"", 8)
        self.async_fd, self.vectors = struct.unpack("=iI", answer)

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.close()

    def close(self):
        """As the end of the process would: everything is destroyed."""
        for fd in (self.fd, self.async_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.async_fd = -1

    def raw(self, command, body, out_words=0):
        """Write a command as it is."""
        head = struct.pack("=IHH", command & 0xffffffff,
                           (len(body) + 8) // 4 & 0xffff, out_words & 0xffff)
        return os.write(self.fd, head + body)

    def call(self, command, body, size):
        """A command with an answer of @size bytes at most."""
        answer = ctypes.create_string_buffer(max(size, 8))
        self.raw(command, struct.pack("=Q", ctypes.addressof(answer)) + body,
                 (size + 3) // 4)
        return answer.raw[:size]

    # ---- objects -------------------------------------------------------

    def pd(self):
        return struct.unpack("=I", self.call(ALLOC_PD, b"", 4))[0]

    def free_pd(self, pd):
        self.raw(DEALLOC_PD, struct.pack("=I", pd) + bytes(4))

    def mr(self, pd, addr, length, access=ALL_ACCESS, iova=None):
        """A region: (handle, lkey, rkey)."""
        body = struct.pack("=QQQII", addr, length,
                           addr if iova is None else iova, pd, access)
        return struct.unpack("=III", self.call(REG_MR, body, 12))

    def free_mr(self, handle):
        self.raw(DEREG_MR, struct.pack("=I", handle) + bytes(4))

    def cq(self, cqe=64, vector=0, channel=-1):
        body = struct.pack("=QIIiI", 0, cqe, vector, channel, 0)
        return struct.unpack("=II", self.call(CREATE_CQ, body, 8))[0]

    def resize_cq(self, cq, cqe):
        body = struct.pack("=II", cq, cqe)
        return struct.unpack("=II", self.call(RESIZE_CQ, body, 8))[0]

    def free_cq(self, cq):
        self.call(DESTROY_CQ, struct.pack("=II", cq, 0), 8)

    def srq(self, pd, max_wr=16, max_sge=1, limit=0):
        body = struct.pack("=QIIII", 0, pd, max_wr, max_sge, limit)
        return struct.unpack("=4I", self.call(CREATE_SRQ, body, 16))[0]

    def free_srq(self, srq):
        self.call(DESTROY_SRQ, struct.pack("=II", srq, 0), 4)

    def ah(self, pd, dlid, port=1, sl=0):
        attr = struct.pack("=16sIBBBBHBBBBBB", bytes(16), 0, 0, 0, 0, 0, dlid,
                           sl, 0, 0, 0, port, 0)
        body = struct.pack("=QII", 0, pd, 0) + attr
        return struct.unpack("=I", self.call(CREATE_AH, body, 4))[0]

    def free_ah(self, handle):
        self.raw(DESTROY_AH, struct.pack("=I", handle) + bytes(4))

    def qp(self, pd, cq, kind=RC, srq=None, **cap):
        return Qp(self, pd, cq, kind, srq, cap)

    # ---- completions ----------------------------------------------------

    def poll(self, cq, number=16):
        size = 8 + 48 * number
        data = self.call(POLL_CQ, struct.pack("=II", cq, number), size)
        count = struct.unpack_from("=I", data)[0]
        return [Wc(data[8 + 48 * n:56 + 48 * n]) for n in range(count)]

    def wait(self, cq, number=1, limit=5):
        """That many completions, when they are there."""
        found = []

        def enough():
            found.extend(self.poll(cq))
            return len(found) >= number

        wait_until(enough, limit, f"{number} completions, {len(found)} came")
        return found


def sges(pieces):
    """[(address, length, lkey)] as the kernel reads them."""
    return b"".join(struct.pack("=QII", *piece) for piece in pieces)


def send_wr(opcode=SEND, num_sge=1, flags=SIGNALED, wr_id=1, imm=0, addr=0,
            rkey=0, compare=0, swap=0, ah=0, qpn=0, qkey=0):
    """A struct ib_uverbs_send_wr."""
    head = struct.pack("=QIII", wr_id, num_sge & 0xffffffff,
                       opcode & 0xffffffff, flags & 0xffffffff)
    head += struct.pack(">I", imm) if opcode != SEND_INV else \
        struct.pack("=I", imm)
    if opcode in (CMP_SWAP, FETCH_ADD):
        tail = struct.pack("=QQQII", addr, compare, swap, rkey, 0)
    elif ah:
        tail = struct.pack("=IIII", ah, qpn, qkey, 0)
    else:
        tail = struct.pack("=QII", addr, rkey, 0)
    return head + tail.ljust(32, b"\0")


class Qp:
    """A queue pair."""

    def __init__(self, verbs, pd, cq, kind, srq, cap):
        self.verbs, self.cq, self.kind = verbs, cq, kind
        cap = {"send_wr": 16, "recv_wr": 16, "send_sge": 4, "recv_sge": 4,
               "inline": 0, **cap}
        body = struct.pack("=QIIIIIIIIIBBBB", 0, pd, cq, cq, srq or 0,
                           *cap.values(), 0, kind, srq is not None, 0)
        answer = struct.unpack("=8I", verbs.call(CREATE_QP, body, 32))
        self.handle, self.qpn = answer[:2]
        self.cap = dict(zip(cap, answer[2:7]))

    def destroy(self):
        self.verbs.call(DESTROY_QP, struct.pack("=II", self.handle, 0), 4)

    def modify(self, mask, state=0, cur=0, dlid=0, port=1, qpn=0, qkey=0,
               access=ALL_ACCESS, mtu=5, pkey_index=0, timeout=14, retry=7,
               rnr=7, max_rd=8, max_dest_rd=8, min_rnr=1, psn=0):
        """Any attribute, right or wrong."""
        dest = struct.pack("=16sIHHBBBBBBBB", bytes(16), 0, dlid, 0, 0, 0, 0,
                           0, 0, 0, 0, port)
        body = dest + bytes(len(dest))
        body += struct.pack("=7I", self.handle, mask, qkey, psn, psn, qpn,
                            access)
        body += struct.pack("=HH14B2x", pkey_index, 0, state, cur, mtu, 0, 0,
                            max_rd, max_dest_rd, min_rnr, port, timeout,
                            retry, rnr, 0, 0)
        self.verbs.raw(MODIFY_QP, body)

    def init(self, access=ALL_ACCESS, port=1, qkey=0x1234):
        if self.kind == UD:
            self.modify(STATE | PKEY_INDEX | PORT | QKEY, INIT, port=port,
                        qkey=qkey)
        else:
            self.modify(STATE | PKEY_INDEX | PORT | ACCESS, INIT, port=port,
                        access=access)

    def start_ud(self, qkey=0x1234):
        self.init(qkey=qkey)
        self.modify(STATE, RTR)
        self.modify(STATE | SQ_PSN, RTS)

    def connect(self, qpn, dlid, access=ALL_ACCESS, **attrs):
        """From RESET to RTS."""
        self.init(access)
        self.modify(STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD |
                    MIN_RNR, RTR, dlid=dlid, qpn=qpn, **attrs)
        self.modify(STATE | TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_RD,
                    RTS, **attrs)

    def post(self, wrs, pieces):
        """Post requests, made by send_wr(); their pieces one after the other."""
        wrs = [wrs] if isinstance(wrs, bytes) else wrs
        body = struct.pack("=IIII", self.handle, len(wrs), len(pieces),
                           len(wrs[0]))
        self.verbs.call(POST_SEND, body + b"".join(wrs) + sges(pieces), 4)

    def receive(self, pieces, wr_id=7, command=POST_RECV, handle=None):
        """Post a receive."""
        body = struct.pack("=IIII", self.handle if handle is None else handle,
                           1, len(pieces), 16)
        body += struct.pack("=QII", wr_id, len(pieces), 0) + sges(pieces)
        self.verbs.call(command, body, 4)

    def query(self):
        """(state, ...) as the kernel tells it."""
        data = self.verbs.call(QUERY_QP, struct.pack("=II", self.handle,
                                                     0x1fffff), 128)
        return data[2 * 32 + 40 + 4]


def objects(number):
    """Objects of user space at an HCA, by kind, and the bytes they take."""
    lines = read(f"{Hca(number).dir}/objects").splitlines()
    return {line.split()[0]: int(line.split()[-1]) for line in lines}
