# SPDX-License-Identifier: GPL-2.0-only
"""What hostile programs ask of the verbs: clear errors, nothing held or left."""

import errno
import os
import random
import signal
import struct
import threading

from lib import (defer, fabric, hca, hold, kmsg_since, kmsg_tail, ksft_eq,
                 ksft_gt, ksft_in, ksft_le, ksft_pr, ksft_raises, ksft_true,
                 now, port, slow, timeout, wait_until)
from lib import uverbs as uv
from lib.uverbs import Memory, Verbs, objects, send_wr

BOOT = {"ipoib": "none", "hcas": 2, "hca": "user_mem=16,max_qp=512,max_cq=512",
        "fabric": "provider=hfi1", "seconds": 130}
GROUPS = ("verbs", "fabric")

SEED = int(os.environ.get("IPOIB_SEED", "1"))
NUMBERS = (0, 1, 2, 3, 7, 8, 15, 16, 255, 256, 4095, 4096, 0x7fff, 0xffff,
           1 << 16, 1 << 20, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff)


def opened(number=0):
    verbs = Verbs(hca(number))
    defer(verbs.close)
    return verbs


def no_objects(number=0):
    """Nothing of user space is left at an HCA."""
    found = objects(number)
    ksft_eq(found, dict.fromkeys(found, 0), f"{hca(number)}")


def error_of(call, *args, **kwargs):
    """The errno that a call fails with, or 0."""
    try:
        call(*args, **kwargs)
    except OSError as error:
        return error.errno
    return 0


class Guinea:
    """A QP, connected to itself, and all that it needs."""

    def __init__(self, verbs):
        self.verbs = verbs
        self.pd, self.cq = verbs.pd(), verbs.cq(32)
        self.memory = Memory(1 << 16)
        self.mr = verbs.mr(self.pd, self.memory.addr, 1 << 16)
        self.srq = verbs.srq(self.pd)
        self.qp = verbs.qp(self.pd, self.cq)
        self.ud = verbs.qp(self.pd, self.cq, uv.UD)
        self.qp.connect(self.qp.qpn, port(0).lid())
        self.ud.start_ud()
        self.ah = verbs.ah(self.pd, port(0).lid())

    def works(self):
        """It still transfers data."""
        qp = self.verbs.qp(self.pd, self.cq)
        qp.connect(qp.qpn, port(0).lid())
        wait_until(lambda: not self.verbs.poll(self.cq), 5, "an empty CQ")
        qp.post(send_wr(uv.WRITE, addr=self.memory.addr, rkey=self.mr[2]),
                [(self.memory.addr, 64, self.mr[1])])
        wanted = [wc for wc in self.verbs.wait(self.cq) if wc.qpn == qp.qpn]
        ksft_eq(wanted[0].status, uv.OK)
        qp.destroy()


def words(rng, count):
    return b"".join(struct.pack("=I", rng.choice(NUMBERS) if rng.random() < 0.8
                                else rng.getrandbits(32))
                    for _ in range(count))


# Those that end the process' use of what the others need
DESTROYERS = (uv.DEALLOC_PD, uv.DEREG_MR, uv.DESTROY_CQ, uv.DESTROY_QP,
              uv.DESTROY_SRQ, uv.DESTROY_AH)


@timeout(180)
def test_any_field():
    """Any command with any fields is an error, or does what it should."""
    rng = random.Random(SEED)
    verbs = opened()
    guinea = Guinea(verbs)
    answer = Memory(1 << 16)
    place = kmsg_tail()
    counts = {}
    for _ in range(6000):
        command = rng.randrange(uv.COMMANDS)
        if command in DESTROYERS and rng.random() < 0.9:
            continue
        body = struct.pack("=Q", answer.addr) + words(rng, rng.randrange(2, 60))
        error = error_of(verbs.raw, command, body, rng.choice((0, 8, 64, 512)))
        counts[error] = counts.get(error, 0) + 1
    ksft_pr("errors:", {errno.errorcode.get(e, e): n
                        for e, n in sorted(counts.items())})
    ksft_gt(counts.get(errno.EINVAL, 0), 100)
    ksft_le(len(kmsg_since(place)), 20, "lines in the kernel log")
    verbs.close()
    del guinea
    no_objects()
    Guinea(opened()).works()


def modified(verbs, command, good, rng):
    """A right command with some words changed; its error."""
    body = bytearray(good)
    for _ in range(rng.randrange(1, 3)):
        where = 8 + 4 * rng.randrange((len(body) - 8) // 4)
        body[where:where + 4] = words(rng, 1)
    return error_of(verbs.raw, command, bytes(body), 64)


@timeout(240)
def test_nearly_right():
    """Right requests with a field or two changed corrupt nothing."""
    rng = random.Random(SEED + 1)
    verbs = opened()
    guinea = Guinea(verbs)
    guard = Memory(1 << 16, 0x3c)
    answer = Memory(4096)
    me = port(0).lid()
    place = kmsg_tail()
    errors = set()
    for turn in range(4000):
        piece = (guinea.memory.addr, 64, guinea.mr[1])
        opcode = rng.choice((uv.SEND, uv.WRITE, uv.READ, uv.FETCH_ADD,
                             uv.SEND_IMM, uv.WRITE_IMM, uv.SEND_INV))
        qp, ah = (guinea.ud, guinea.ah) if turn % 3 == 2 else (guinea.qp, 0)
        request = send_wr(opcode if not ah else uv.SEND, ah=ah,
                          qpn=guinea.ud.qpn, qkey=0x1234,
                          addr=guinea.memory.addr, rkey=guinea.mr[2])
        body = struct.pack("=QIIII", answer.addr, qp.handle, 1, 1, 56) + \
            request + uv.sges([piece])
        errors.add(modified(verbs, uv.POST_SEND, body, rng))
        if turn % 5 == 0:
            body = struct.pack("=QIIIIQII", answer.addr, qp.handle, 1, 1, 16,
                               turn, 1, 0) + uv.sges([piece])
            errors.add(modified(verbs, uv.POST_RECV, body, rng))
        verbs.poll(guinea.cq)
        if turn % 50 == 0:
            for each in (guinea.qp, guinea.ud):
                each.modify(uv.STATE, uv.RESET)
            guinea.qp.connect(guinea.qp.qpn, me, timeout=8, retry=1, rnr=1)
            guinea.ud.start_ud()
    ksft_true(guard[:] == bytes([0x3c]) * len(guard[:]), "other memory")
    ksft_in(0, errors)
    ksft_in(errno.EINVAL, errors)
    ksft_le(len(kmsg_since(place)), 20, "lines in the kernel log")
    Guinea(verbs).works()


def test_states():
    """A QP only changes its state as it may, with attributes in range."""
    verbs = opened()
    pd, cq = verbs.pd(), verbs.cq()
    rng = random.Random(SEED + 2)
    qp = verbs.qp(pd, cq)
    for _ in range(1500):
        mask = rng.getrandbits(21) if rng.random() < 0.5 else uv.STATE
        error = error_of(qp.modify, mask, rng.randrange(9), rng.randrange(9),
                         dlid=rng.choice((0, 1, port(0).lid(), 0xbfff, 0xc000,
                                          0xffff)),
                         port=rng.choice((0, 1, 2, 255)),
                         qpn=rng.choice((0, 1, qp.qpn, 0xffffff, 1 << 24)),
                         access=rng.getrandbits(6), mtu=rng.randrange(8),
                         pkey_index=rng.choice((0, 1, 127, 128, 0xffff)),
                         timeout=rng.randrange(64), retry=rng.randrange(10),
                         rnr=rng.randrange(10), max_rd=rng.randrange(40),
                         max_dest_rd=rng.randrange(40),
                         min_rnr=rng.randrange(64),
                         psn=rng.choice((0, 0xffffff, 0xffffffff)))
        ksft_in(error, (0, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT,
                        errno.EPERM), "modify_qp")
    qp.modify(uv.STATE, uv.RESET)
    qp.connect(qp.qpn, port(0).lid())


def test_handles_of_others():
    """A handle of another process is none."""
    one, two = opened(), opened()
    pd = one.pd()
    cq = one.cq()
    spare = [two.pd() for _ in range(3)]
    for handle in (spare[-1], 0xffff, 0xffffffff):
        for call in (one.free_pd, lambda pd: one.qp(pd, cq)):
            ksft_in(error_of(call, handle), (errno.ENOENT, errno.EINVAL))
    memory = Memory(4096)
    mine, theirs = one.mr(pd, memory.addr, 64), two.mr(spare[0], memory.addr,
                                                       64)
    qp = one.qp(pd, cq)
    qp.connect(qp.qpn, port(0).lid())
    qp.post(send_wr(uv.WRITE, addr=memory.addr, rkey=theirs[2]),
            [(memory.addr, 8, mine[1])])
    ksft_eq(one.wait(cq)[0].status, uv.REM_ACCESS)


def test_regions_refused():
    """A region must be memory that the process has, with rights that exist."""
    verbs = opened()
    pd = verbs.pd()
    memory = Memory(8192)
    for addr, length, access in ((memory.addr, 0, 1), (0, 4096, 1),
                                 (1 << 63, 4096, 1), (memory.addr, 1 << 47, 1),
                                 ((1 << 64) - 4096, 8192, 1),
                                 (memory.addr, (1 << 64) - 1, 1),
                                 (memory.addr, 4096, 1 << 19),
                                 (memory.addr, 4096, uv.REMOTE_WRITE)):
        with ksft_raises(OSError, f"{addr:#x}+{length:#x}, {access:#x}"):
            verbs.mr(pd, addr, length, access)
    with ksft_raises(OSError, "the kernel's memory"):
        verbs.mr(pd, 0xffff888000000000, 4096)
    with ksft_raises(OSError, "another offset in the page"):
        verbs.mr(pd, memory.addr, 4096, iova=memory.addr + 1)
    with ksft_raises(OSError, "wraps"):
        verbs.mr(pd, memory.addr, 8192, iova=(1 << 64) - 4096)
    verbs.mr(pd, memory.addr, 8192, iova=(1 << 64) - 8192 - 4096)


def test_inline():
    """Inline data are refused, and asking for room for them is not."""
    verbs = opened()
    guinea = Guinea(verbs)
    qp = verbs.qp(guinea.pd, guinea.cq, inline=220)
    ksft_eq(qp.cap["inline"], 0)
    qp.connect(qp.qpn, port(0).lid())
    with ksft_raises(OSError):
        qp.post(send_wr(flags=uv.INLINE | uv.SIGNALED),
                [(0xffff888000000000, 64, 0)])


def test_handle_destroyed_while_queued():
    """A queued datagram outlives its address handle."""
    verbs = opened()
    guinea = Guinea(verbs)
    guinea.ud.modify(uv.STATE, uv.SQD)
    for _ in range(8):
        ah = verbs.ah(guinea.pd, port(0).lid())
        guinea.ud.receive([(guinea.memory.addr, 256, guinea.mr[1])])
        guinea.ud.post(send_wr(ah=ah, qpn=guinea.ud.qpn, qkey=0x1234),
                       [(guinea.memory.addr, 64, guinea.mr[1])])
        verbs.free_ah(ah)
    guinea.ud.modify(uv.STATE, uv.RTS)
    ksft_eq({wc.status for wc in verbs.wait(guinea.cq, 16)}, {uv.OK})


def fill(make, limit=100000):
    """Make objects until that fails; how many, and the error."""
    for number in range(limit):
        error = error_of(make)
        if error:
            return number, error
    return limit, 0


@timeout(180)
def test_limits():
    """A process gets a share of the HCA, and all of it back afterwards."""
    verbs = opened()
    pd, cq = verbs.pd(), verbs.cq(1)
    qps = fill(lambda: verbs.qp(pd, cq, send_wr=1, recv_wr=1))
    ksft_eq(qps, (256, errno.ENOMEM), "half of the QPs")
    ksft_eq(fill(lambda: verbs.cq(1)), (255, errno.ENOMEM), "half of the CQs")
    ksft_eq(fill(lambda: verbs.srq(pd, 1)), (256, errno.ENOMEM), "SRQs")
    # The kernel still gets its own: a new HCA registers all its clients.
    ksft_true(hca(1).port().active())
    verbs.close()
    no_objects()
    verbs = opened()
    pd = verbs.pd()
    count, error = fill(lambda: verbs.cq(65536))
    ksft_eq(error, errno.ENOMEM, "memory")
    ksft_in(count, range(1, 4), "CQs of 65536 entries in 16 MiB")
    ksft_le(objects(0)["user_bytes"], 16 << 20)
    verbs.close()
    no_objects()


def attach(qp, number, command=uv.ATTACH_MCAST):
    """Attach a QP to a group, or detach it."""
    gid = bytes([0xff, 0x12]) + bytes(12) + struct.pack(">H", number)
    qp.verbs.raw(command, gid + struct.pack("=IHH", qp.handle, 0xc000 + number,
                                            0) + bytes(8))


def test_groups():
    """A QP can be attached to so many groups, and no more."""
    ud = Guinea(opened()).ud
    numbers = iter(range(10000))
    ksft_eq(fill(lambda: attach(ud, next(numbers))), (256, errno.ENOMEM))
    attach(ud, 5, uv.DETACH_MCAST)
    attach(ud, 300)


@timeout(60)
def test_places_in_group():
    """Programs get half of the places that a group has."""
    for places in (8, 1):
        new = fabric.add_hca(5, group_qps=places, user_mem=16)
        verbs = Verbs(new)
        defer(verbs.close)
        pd, cq = verbs.pd(), verbs.cq()
        qps = [verbs.qp(pd, cq, uv.UD) for _ in range(places + 1)]
        for group in (1, 2):
            left = iter(qps)
            ksft_eq(fill(lambda n=group, rest=left: attach(next(rest), n)),
                    (places // 2, errno.ENOMEM), f"of {places}, group {group}")
        if places > 1:
            attach(qps[0], 1, uv.DETACH_MCAST)
            attach(qps[-1], 1)
            ksft_eq(error_of(attach, qps[0], 1), errno.ENOMEM)
        verbs.close()
        no_objects(5)
        new.unplug()


@timeout(60)
def test_members():
    """However many QPs a program has, a group gets only some of them."""
    new = fabric.add_hca(5, max_qp=1024, user_mem=64)
    verbs = Verbs(new)
    defer(verbs.close)
    pd, cq = verbs.pd(), verbs.cq()
    qps = iter([verbs.qp(pd, cq, uv.UD, send_wr=1, recv_wr=1)
                for _ in range(300)])
    ksft_eq(fill(lambda: attach(next(qps), 1)), (256, errno.ENOMEM))
    verbs.close()
    no_objects(5)


def test_groups_spread():
    """Groups of one pattern do not make others slow: many QPs in many."""
    verbs = opened()
    pd, cq = verbs.pd(), verbs.cq()
    qps = [verbs.qp(pd, cq, uv.UD, send_wr=1, recv_wr=1) for _ in range(32)]
    for number, qp in enumerate(qps):
        for group in range(number * 256, number * 256 + 256):
            attach(qp, group)
    ksft_eq(error_of(attach, qps[0], 9999), errno.ENOMEM)
    for number, qp in enumerate(qps):
        attach(qp, number * 256, uv.DETACH_MCAST)
        ksft_eq(error_of(attach, qp, number * 256, uv.DETACH_MCAST),
                errno.EINVAL, "detached twice")
    verbs.close()
    no_objects()


def test_sizes():
    """Queues of sizes that there are not are refused, whatever is asked for."""
    verbs = opened()
    pd, cq = verbs.pd(), verbs.cq()
    for size in (1 << 16, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff):
        ksft_eq(error_of(verbs.srq, pd, size), errno.EINVAL, f"{size:#x}")
        for queue in ("send_wr", "recv_wr"):
            ksft_eq(error_of(verbs.qp, pd, cq, **{queue: size}), errno.EINVAL,
                    f"{queue} {size:#x}")
        ksft_eq(error_of(verbs.cq, (size + 1) & 0xffffffff),
                errno.EINVAL, f"CQ {size + 1:#x}")
    ksft_eq(error_of(verbs.srq, pd, 16, 0xffffffff), errno.EINVAL)


def test_resize():
    """A CQ can be resized, but not below what it holds."""
    verbs = opened()
    guinea = Guinea(verbs)
    for number in range(12):
        guinea.qp.post(send_wr(uv.WRITE, wr_id=number, rkey=guinea.mr[2],
                               addr=guinea.memory.addr),
                       [(guinea.memory.addr, 8, guinea.mr[1])])
    ksft_eq(error_of(verbs.resize_cq, guinea.cq, 11), errno.EINVAL)
    for bad in (0, 1 << 30, 0xffffffff):
        ksft_eq(error_of(verbs.resize_cq, guinea.cq, bad), errno.EINVAL)
    ksft_eq(verbs.resize_cq(guinea.cq, 100), 100)
    ksft_eq(verbs.resize_cq(guinea.cq, 12), 12)
    ksft_eq([wc.wr_id for wc in verbs.wait(guinea.cq, 12)], list(range(12)))


def sends_for_ever(number):
    """The body of a child process: transfer data until it is killed."""
    verbs = Verbs(hca(0))
    guinea = Guinea(verbs)
    while True:
        piece = (guinea.memory.addr, 1 << 16, guinea.mr[1])
        # Queues that are full are no reason to end.
        if number % 2:
            error_of(guinea.qp.receive, [piece])
        error_of(guinea.qp.post, send_wr(uv.SEND if number % 2 else uv.WRITE,
                                         addr=guinea.memory.addr,
                                         rkey=guinea.mr[2]), [piece])
        verbs.poll(guinea.cq, 16)


def child(run, *args):
    """A process that runs this; its number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        run(*args)
    finally:
        os._exit(0)     # pylint: disable=protected-access
    return 0


@timeout(180)
def test_killed():
    """Processes that are killed in the middle of a transfer leave nothing."""
    for turn in range(10):
        pids = [child(sends_for_ever, n) for n in range(3)]
        try:
            wait_until(lambda: objects(0)["qp"] == 6, 20, "six QPs")
            hold(0.05 + 0.02 * turn)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            for pid in pids:
                os.waitpid(pid, 0)
        wait_until(lambda: not any(objects(0).values()), 20, "no objects")


@timeout(300)
def test_open_and_close():
    """A thousand times open, use and close: nothing is left."""
    for _ in range(1000):
        verbs = Verbs(hca(0))
        pd = verbs.pd()
        cq = verbs.cq(8)
        memory = Memory(4096)
        mr = verbs.mr(pd, memory.addr, 4096)
        qp = verbs.qp(pd, cq)
        qp.connect(qp.qpn, port(0).lid())
        qp.post(send_wr(uv.WRITE, addr=memory.addr, rkey=mr[2]),
                [(memory.addr, 64, mr[1])])
        verbs.close()
    no_objects()


@timeout(120)
def test_poll_and_destroy():
    """A CQ is polled by one thread while another destroys its QPs."""
    verbs = opened()
    guinea = Guinea(verbs)
    end = now() + slow(3)
    seen = []

    def poll():
        while now() < end:
            seen.extend(wc.qpn for wc in verbs.poll(guinea.cq, 4))

    threads = [threading.Thread(target=poll) for _ in range(2)]
    for thread in threads:
        thread.start()
    qpns = set()
    while now() < end:
        qp = verbs.qp(guinea.pd, guinea.cq)
        qpns.add(qp.qpn)
        qp.connect(qp.qpn, port(0).lid())
        for _ in range(4):
            qp.post(send_wr(uv.WRITE, addr=guinea.memory.addr,
                            rkey=guinea.mr[2]),
                    [(guinea.memory.addr, 8, guinea.mr[1])])
        qp.destroy()
    for thread in threads:
        thread.join()
    ksft_true(set(seen) <= qpns, "numbers of QPs that there were")


@timeout(120)
def test_unplugged():
    """An HCA goes while programs use it: they get errors, and it comes back."""
    other = hca(1)
    verbs = [Verbs(other) for _ in range(3)]
    for each in verbs:
        defer(each.close)
        pd, cq = each.pd(), each.cq()
        memory = Memory(4096)
        mr = each.mr(pd, memory.addr, 4096)
        qp = each.qp(pd, cq)
        qp.connect(qp.qpn, other.port().lid())
        qp.post(send_wr(uv.WRITE, addr=memory.addr, rkey=mr[2]),
                [(memory.addr, 8, mr[1])])
    other.unplug()
    for each in verbs:
        ksft_in(error_of(each.pd), (errno.EIO, errno.ENODEV))
    for each in verbs:
        each.close()
    other.plug(user_mem=16)
    other.port().wait_active()
    no_objects(1)


@timeout(120)
def test_unplugged_slow():
    """So it goes when it takes an hour for each object of theirs."""
    other = hca(1)
    verbs = Verbs(other)
    defer(verbs.close)
    pd, cq = verbs.pd(), verbs.cq()
    for _ in range(8):
        verbs.qp(pd, cq)
    other.port().set("destroy_delay_ms", 3600 * 1000)
    start = now()
    other.unplug()
    ksft_le(now() - start, slow(20), "seconds to unplug it")
    ksft_in(error_of(verbs.pd), (errno.EIO, errno.ENODEV))
    verbs.close()
    other.plug(user_mem=16)
    other.port().wait_active()
    no_objects(1)


@timeout(120)
def test_never_ready():
    """Peers that never post a receive: retries for ever cost next to nothing."""
    verbs = opened()
    pd, cq = verbs.pd(), verbs.cq(256)
    memory = Memory(4096)
    mr = verbs.mr(pd, memory.addr, 4096)
    piece = (memory.addr, 8, mr[1])
    qps = [verbs.qp(pd, cq, send_wr=1, recv_wr=1) for _ in range(100)]
    for qp in qps:
        qp.connect(qp.qpn, port(0).lid())
        qp.post(send_wr(wr_id=qp.qpn), [piece])
    # Until the pauses are as long as they get
    hold(6)
    before, start = port(0).counter("rc_rnr_nak"), now()
    hold(3)
    tries = port(0).counter("rc_rnr_nak") - before
    seconds = now() - start
    ksft_pr(f"{tries} retries in {seconds:.1f} s")
    ksft_gt(tries, 100, "they go on")
    ksft_le(tries, 3 * len(qps) * seconds, "retries of 100 QPs")
    # Late, but not for ever
    for qp in qps:
        qp.receive([piece])
    done = verbs.wait(cq, 2 * len(qps))
    ksft_eq({wc.status for wc in done}, {uv.OK})
    # And from then on as soon as before
    start = now()
    qps[0].post(send_wr(), [piece])
    hold(0.01)
    qps[0].receive([piece])
    verbs.wait(cq, 2)
    ksft_le(now() - start, slow(0.5), "seconds until a short wait is over")
