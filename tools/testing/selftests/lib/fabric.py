# SPDX-License-Identifier: GPL-2.0-only
"""The simulated fabric: HCAs, ports, faults, counters, the subnet manager."""

import collections
import os
import re
import signal
import subprocess
from errno import ENOMEM

from .ksft import Failed, Skip, defer, ksft_eq, ksft_ge, ksft_pr
from .utils import (cmd, exists, hold, pids_of, read, read_int, slow,
                    wait_until, write)

DEBUGFS = "/sys/kernel/debug/ibdevsim"
CALLS = f"{DEBUGFS}/calls"
FAIL_CALL = f"{DEBUGFS}/fail_call"
BUS = "/sys/bus/ibdevsim"
CLASS = "/sys/class/infiniband"
SM_START = "/run/sm-start"

# Knobs that a case may have left on; back to 0 whenever ends are set up.
FAULTS = ("loss_ppm", "delay_us", "jitter_us", "dup_ppm", "reorder_ppm",
          "truncate", "send_error",
          "rc_send_error", "recv_post_error", "send_post_error", "create_error",
          "create_skip", "modify_error", "modify_skip", "map_error",
          "map_skip", "attach_error", "detach_error", "pkey_error",
          "ah_delay_us", "create_delay_ms", "destroy_delay_ms",
          "reset_delay_ms", "modify_delay_ms", "attach_delay_ms",
          "query_delay_ms", "wedged", "wedged_special", "wedged_rings",
          "defer_tx", "mad_delay_ms", "mad_drop", "sa_drop", "sa_delay_ms",
          "doorbell_ns", "irq_ns", "lose_events", "cqe_qp",
          "cqe_send_error", "cqe_recv_error", "cqe_status", "cqe_lose",
          "cqe_twice", "cqe_delay_ms")
# Verbs whose calls are recorded, but cannot be made to fail
ONLY_RECORDED = ("get_link_layer", "get_dev_fw_str", "process_mad", "poll_cq",
                 "dealloc_pd", "dereg_mr", "destroy_ah", "destroy_cq",
                 "destroy_srq")
# A driver that behaves does not move these.
STRICT = ("bad_lkey", "bad_modify", "cq_overflow", "sq_full", "rq_full")


class Port:
    """One port of an HCA."""

    def __init__(self, owner, num):
        self.hca, self.num = owner, num
        self.dir = f"{DEBUGFS}/{owner.name}/port{num}"
        self.sysfs = f"{CLASS}/{owner.name}/ports/{num}"

    def __repr__(self):
        return f"{self.hca.name}/{self.num}"

    # what the core says
    def state(self):
        return read(f"{self.sysfs}/state").split()[-1]

    def active(self):
        return self.state() == "ACTIVE"

    def lid(self):
        return read_int(f"{self.sysfs}/lid")

    def sm_lid(self):
        return read_int(f"{self.sysfs}/sm_lid")

    def gid(self, index=0):
        return read(f"{self.sysfs}/gids/{index}")

    def guid(self):
        """The port GUID as a number: the lower half of GID 0."""
        return int(self.gid().replace(":", "")[16:], 16)

    def switch_end(self):
        """The LID of the switch, and the number of its port behind the cable."""
        text = cmd(["smpquery", "-D", "portinfo", "0,1", "0"]).stdout
        lid = int(re.search(r"^Lid:\.*(\d+)", text, re.M).group(1))
        text = cmd(["ibroute", lid]).stdout
        found = re.search(rf"^{self.lid():#06x}\s+(\d+)", text, re.M)
        if not found:
            raise Failed(f"the switch has no route to {self}")
        return lid, int(found.group(1))

    def prefix(self):
        return self.gid().replace(":", "")[:16]

    def pkey(self, index=0):
        return read_int(f"{self.sysfs}/pkeys/{index}")

    def pkeys(self):
        """The P_Keys in the table, without the empty places."""
        return [int(line.split()[1], 0)
                for line in self.get("pkeys").splitlines()]

    def wait_active(self, limit=20):
        """
        Wait until the SM has made it active.

        OpenSM takes ten traps in a row for babble, and its sweep clears the
        switch's note of a change that came too late for that sweep: where it
        lets a port lie, it is told to sweep.
        """
        try:
            wait_until(self.active, 4, f"{self} active", interval=0.1,
                       patient=False)
        except Failed:
            sm.sweep()
            wait_until(self.active, limit, f"{self} active", interval=0.1)

    # what the simulator says
    def counters(self):
        table = {}
        for line in read(f"{self.dir}/counters").splitlines():
            name, _, value = line.replace(":", " ").partition(" ")
            table[name] = int(value)
        return table

    def counter(self, name):
        return self.counters()[name]

    def get(self, knob):
        return read(f"{self.dir}/{knob}")

    def set(self, knob, value):
        write(f"{self.dir}/{knob}", value)

    def fault(self, knob, value, off=0):
        """Turn a fault on until the end of the case; clear with exec()."""
        self.set(knob, value)
        return defer(self._off, knob, off)

    def _off(self, knob, off):
        if exists(f"{self.dir}/{knob}"):
            self.set(knob, off)

    def faults(self):
        """{knob: value} of those that are on."""
        found = {knob: self.get(knob) for knob in FAULTS
                 if exists(f"{self.dir}/{knob}")}
        return {knob: value for knob, value in found.items()
                if value not in ("0", "N")}

    def clear_faults(self):
        for knob in self.faults():
            self.set(knob, 0)
        if self.get("sa_patch"):
            self.set("sa_patch", "off")

    def link(self, up):
        self.set("link", "up" if up else "down")

    def event(self, name, times=1, num=None):
        """
        Raise an asynchronous event so many times; @num: as that of another port,
        which need not be there.
        """
        self.set("event", f"{name} {times} {self.num if num is None else num}")

    def strict(self):
        """The counters that only a driver's mistakes move."""
        table = self.counters()
        return {name: table[name] for name in STRICT}

    def no_mistakes(self):
        """None of them has moved."""
        found = self.strict()
        ksft_eq(found, dict.fromkeys(found, 0), f"mistakes on {self}")


class Hca:
    """An HCA of the fabric."""

    def __init__(self, number):
        self.number = number
        self.name = f"ibdevsim{number}"
        self.dir = f"{DEBUGFS}/{self.name}"

    def __repr__(self):
        return self.name

    def port(self, num=1):
        return Port(self, num)

    def exists(self):
        return exists(f"{CLASS}/{self.name}")

    def ports(self):
        return [Port(self, int(num)) for num in
                sorted(os.listdir(f"{CLASS}/{self.name}/ports"))]

    def node_guid(self):
        return int(read(f"{CLASS}/{self.name}/node_guid").replace(":", ""),
                   16)

    def unplug(self):
        write(f"{BUS}/del_device", str(self.number))

    def plug(self, **caps):
        keys = ",".join(f"{key}={value}" for key, value in caps.items())
        write(f"{BUS}/new_device", f"{self.number} {keys}".strip())

    def set(self, knob, value):
        write(f"{self.dir}/{knob}", value)

    def qps(self):
        """What debugfs knows of the QPs."""
        return [Qp(line) for line in
                read(f"{self.dir}/qps").splitlines()[1:] if line.strip()]

    def data_qps(self, *types):
        """Those that are not QP0 and QP1; of some types only."""
        return [qp for qp in self.qps() if qp.type in (types or ("UD", "RC"))]

    def break_qp(self, qpn):
        """Have a QP go to ERR; False if it is gone or in RESET by now."""
        try:
            self.set("qp_error", qpn)
        except FileNotFoundError:
            return False
        return True

    def caps(self):
        table = {}
        for line in read(f"{self.dir}/caps").splitlines():
            name, _, value = re.sub(r"[=:]", " ", line).partition(" ")
            table[name] = value if name == "profile" else int(value, 0)
        return table

    def need(self, **caps):
        """Skip the case on other HCAs, which "check --profile" asks for."""
        have = self.caps()
        for name, value in caps.items():
            if have[name] < value:
                raise Skip(f"needs an HCA with {name}={value}, has {have[name]}")


class Qp:
    """A line of the file qps."""

    def __init__(self, line):
        words = line.split()
        self.qpn = int(words[0], 16)
        self.port = int(words[1])
        self.type, self.state = words[2], words[3]
        self.peer = int(words[4], 16)
        self.waiting, self.used, self.size = map(int, words[5].split("/"))
        self.srq = words[6].startswith("srq:")
        self.posted, self.limit = map(
            int, words[6].removeprefix("srq:").split("/"))

    def __repr__(self):
        return f"{self.type} QP {self.qpn:#x} {self.state}"


# Calls of a verb, or of the allocator ("memory"), from one place in the code
Call = collections.namedtuple("Call", "name address count symbol")


class FailingCalls:
    """Calls that fail until the block is left, or else the case ends."""

    def __init__(self, line):
        write(FAIL_CALL, line)
        self._end = defer(self._off)

    @staticmethod
    def _off():
        if exists(FAIL_CALL):
            write(FAIL_CALL, "off")

    def failed(self):
        """(calls yet to fail, calls that failed)"""
        return fabric.failed()

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self._end.exec()


class Fabric:
    """All of it."""

    def hcas(self):
        numbers = [int(name[8:]) for name in os.listdir(CLASS)
                   if re.fullmatch(r"ibdevsim\d+", name)]
        return [Hca(n) for n in sorted(numbers)]

    def ports(self):
        return [p for h in self.hcas() for p in h.ports()]

    def clear_faults(self):
        for each in self.ports():
            each.clear_faults()

    def wait_active(self, limit=30):
        for each in self.ports():
            each.wait_active(limit)

    def strict(self):
        """Sum of the strictness counters of all ports."""
        total = dict.fromkeys(STRICT, 0)
        for each in self.ports():
            for name, value in each.strict().items():
                total[name] += value
        return total

    # who calls the HCAs
    def record(self, where, memory=True):
        """
        Forget the calls that were recorded, and record those from addresses in
        @where, (first, behind the last), until the end of the case: of verbs, and
        of the allocator, which makes the machine many times slower.  None: stop
        recording now; what was recorded can still be read.
        """
        if where is None:
            write(CALLS, "off")
            return
        write(CALLS, f"{where[0]:#x} {where[1]:#x}" + ("" if memory else " verbs"))
        defer(lambda: exists(CALLS) and self.record(None))

    @staticmethod
    def _read_calls():
        """(the lines of calls, {"lost": ..., "memory": ...})"""
        lines = [line.split() for line in read(CALLS).splitlines()]
        return lines[:-2], dict(lines[-2:])

    def calls(self):
        """What was recorded; none may be missing."""
        lines, rest = self._read_calls()
        ksft_eq(rest["lost"], "0", "calls that were lost")
        return [Call(name, int(address, 16), int(count), symbol)
                for name, address, count, symbol in lines]

    def sees_memory(self):
        """Could allocations be recorded the last time that record() was called?"""
        return self._read_calls()[1]["memory"] == "seen"

    def fail(self, name="any", address=None, times=1, errno=None, hca=None):
        """
        Let the next @times calls (0: all) of @name from @address (None: from
        anywhere in the range of record()) fail; on one @hca only, an Hca or its
        name.  The result is for "with"; the end of the case ends it, too.
        """
        # pylint: disable=too-many-arguments,redefined-outer-name
        words = [name, "any" if address is None else f"{address:#x}", times]
        if errno is not None or hca is not None:
            words.append(ENOMEM if errno is None else errno)
        if hca is not None:
            words.append(hca)
        return FailingCalls(" ".join(map(str, words)))

    def failed(self):
        """(calls yet to fail, calls that failed) since fail()"""
        found = re.search(r" left (\d+) failed (\d+) ", read(FAIL_CALL))
        return tuple(map(int, found.groups())) if found else (0, 0)

    def add_hca(self, number, **caps):
        """A new HCA until the end of the case, with its ports active."""
        sm.revive()
        new = Hca(number)
        new.plug(**caps)
        defer(lambda: new.exists() and new.unplug())
        wait_until(lambda: len(new.ports()) == caps.get("ports", 1), 5,
                   f"{new} registered")
        for each in new.ports():
            each.wait_active()
        return new


class Crossed:
    """What ports (by default those of two HCAs) received since this was made."""

    def __init__(self, *ports):
        self.ports = ports or (port(0), port(1))
        self.before = [p.counters() for p in self.ports]

    def _more(self, name):
        return [p.counter(name) - old[name]
                for p, old in zip(self.ports, self.before)]

    def bytes(self):
        return self._more("rx_bytes")

    def check(self, least):
        """At least so many bytes, on connections."""
        ksft_ge(min(self._more("rx_bytes")), least, "bytes at a port")
        ksft_ge(min(self._more("rx_rc_packets")), least // 4096,
                "packets of RC at a port")


class Sm:
    """The OpenSM that the runner started, and others that a case starts."""

    LOG = "/var/log/opensm.log"
    PARTITIONS = "/run/partitions.conf"
    CACHE = "/run/opensm"
    # Of a standby that notices soon that the master is gone
    QUICK = {"sminfo_polling_timeout": 500, "polling_retry_number": 2}

    def pids(self):
        return pids_of("opensm")

    def running(self):
        return bool(self.pids())

    def stop(self, hard=False, but=None):
        """End every OpenSM (but one) and wait until it is gone."""
        def left():
            return [pid for pid in self.pids() if pid != but]

        self._kill(left(), signal.SIGKILL if hard else signal.SIGTERM)
        try:
            wait_until(lambda: not left(), 5, "opensm ended")
        except Failed:
            self._kill(left(), signal.SIGKILL)
            wait_until(lambda: not left(), 5, "opensm killed")

    @staticmethod
    def _kill(pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def start(self, *args):
        """Start it again as the runner did, with more arguments."""
        cmd([SM_START, *args], timeout=slow(15))
        wait_until(self.running, 5, "opensm started")

    def restart(self, *args):
        self.stop()
        self.start(*args)

    def quiet(self):
        """Until the case ends, it answers, but does not ask HCAs anything."""
        defer(self.restart)
        self.stop()
        self.start(*self.config({"sweep_interval": 0, "sweep_on_trap": "FALSE"}))
        self.answers()
        # Until its only sweep is over
        hold(slow(0.5))

    def spawn(self, where, priority=0, conf=None, args=()):
        """Start one more, on a port of choice; its process id."""
        words = ["opensm", "-d1", "-g", f"{where.guid():#x}", "-p",
                 str(priority),
                 "-P", self.PARTITIONS, "-f", f"{self.LOG}.{where.hca.number}",
                 *self.config(conf), *args]
        env = dict(os.environ, OSM_TMP_DIR="/var/log",
                   OSM_CACHE_DIR=self.CACHE)
        with open("/var/log/opensm.out", "a", encoding="utf-8") as out:
            # pylint: disable-next=consider-using-with
            proc = subprocess.Popen(words, env=env, stdout=out, stderr=out,
                                    stdin=subprocess.DEVNULL,
                                    start_new_session=True)
        _children.append(proc)
        return proc.pid

    def with_standby(self, first, second):
        """
        One OpenSM on each port instead of the runner's, which comes back when the
        case ends: the first is the master; the process id of the other one.
        """
        defer(self.restart)
        self.stop()
        self.spawn(first, priority=5, conf=self.QUICK)
        self.answers()
        standby = self.spawn(second, priority=2, conf=self.QUICK)
        wait_until(lambda: "STANDBY" in cmd(["sminfo", second.lid()],
                                            fail=False).stdout, 10,
                   "a standby SM")
        return standby

    @staticmethod
    def config(conf):
        """Arguments for a configuration file with these settings."""
        if not conf:
            return []
        path = f"/run/opensm-{len(_children)}.conf"
        with open(path, "w", encoding="ascii") as file:
            for key, value in conf.items():
                file.write(f"{key} {value}\n")
        return ["-F", path]

    def stopped(self):
        """Stop it until the end of the case."""
        self.stop()
        return defer(self.ensure)

    def ensure(self):
        """One OpenSM runs, the runner's, and answers."""
        if not self.running():
            self.start()
        self.answers()

    def revive(self):
        """Start it if it died: OpenSM does not survive every hot plugging."""
        if not self.running() and exists("/run/opensm.pid"):
            ksft_pr("OpenSM is gone: starting it again")
            self.start()
            self.answers()

    def sweep(self):
        """Have it read its partitions again and sweep."""
        self._kill(self.pids(), signal.SIGHUP)

    def answers(self, limit=15):
        """Wait until the SA answers a query."""
        wait_until(lambda: sa_query("-c", fail=False).ret == 0, limit,
                   "an answer of the SA")

    def partitions(self):
        return read(self.PARTITIONS)

    def set_partitions(self, text):
        # Whole, or OpenSM may sweep just now and find no partition in it.
        with open(f"{self.PARTITIONS}.new", "w", encoding="ascii") as file:
            file.write(text.strip() + "\n")
        os.replace(f"{self.PARTITIONS}.new", self.PARTITIONS)

    def more_partitions(self, text):
        """Lines of partitions.conf in addition, until the end of the case."""
        old = self.partitions()

        def back():
            self.set_partitions(old)
            self.sweep()

        again = defer(back)
        self.set_partitions(f"{old}\n{text}\n")
        self.sweep()
        return again

    def give_lids(self, lids, rereg=False):
        """
        Restart OpenSM so that ports get the LIDs of @lids ({Port: lid}).
        Unless @rereg, ports are not asked to register again: those whose LID
        stays see no event at all.
        """
        self.stop()
        path = f"{self.CACHE}/guid2lid"
        table = {}
        for line in read(path).splitlines():
            words = line.split()
            if len(words) == 3:
                table[int(words[0], 16)] = words[1]
        for where, lid in lids.items():
            table[where.guid()] = f"{lid:#06x}"
        with open(path, "w", encoding="ascii") as file:
            for guid, lid in table.items():
                file.write(f"{guid:#018x} {lid} {lid}\n\n")
        conf = {} if rereg else {"no_clients_rereg": "TRUE"}
        self.start(*self.config(conf))
        for where, lid in lids.items():
            wait_until(lambda w=where, n=lid: w.lid() == n, 20,
                       f"LID {lid} for {where}")
        self.answers()


_children = []


def sa_query(*args, fail=True):
    """saquery with the local HCA of the SM."""
    return cmd(["saquery", "-t", "2000", *args], fail=fail, timeout=slow(15))


def hca(number):
    return Hca(number)


def port(number, num=1):
    return Hca(number).port(num)


fabric = Fabric()
sm = Sm()
