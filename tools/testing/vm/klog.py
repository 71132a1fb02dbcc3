#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""
Find what a kernel complains about in its log.

    klog.py [--known stock] FILE...

prints every report with some context and ends with status 1 if there is one.
A report is laid at the door of the test that ran, which tests say by writing
"IPOIB-TEST: name" to /dev/kmsg.  One that has to bring a complaint about, such
as that of a watchdog, adds " expects " and the name of its pattern.  One that loads
another driver than the machine has writes "IPOIB-TEST: driver " and whose known
complaints are let pass from there on, at most until the test ends: stock or none.
"""

import argparse
import re
import sys


class Pattern:
    """A kind of complaint: how it is called and what it looks like."""

    def __init__(self, name, regex):
        self.name = name
        self.regex = re.compile(regex)


# What is searched for is the message, without time stamp and caller.  The
# general ones come first; those after them give the complaint its name, or
# find what announces itself in another way.
PATTERNS = [Pattern(*row) for row in (
    ("panic", r"^Kernel panic - not syncing"),
    ("bug", r"\bBUG: |^kernel BUG at "),
    ("warning", r"(?<!Spectre V2 : )\bWARNING: "),
    ("cut-here", r"-+\[ cut here \]-+"),
    ("oops", r"^Oops\b.*\[#\d+\]"),
    ("exception", r"^(?:traps: )?(?:PANIC: double fault|divide error|int3|"
                  r"general protection fault|invalid opcode|"
                  r"stack segment|stack guard page was hit)\b"),
    ("rip", r"^RIP: [0-9a-f]{4}:\S+\+0x"),
    ("trace", r"^Call Trace:"),
    ("kasan", r"\bKASAN: (?!stack is|initialized)|"
              r"KernelAddressSanitizer (?!initialized)"),
    ("kfence", r"\bKFENCE: "),
    ("ubsan", r"^UBSAN: "),
    ("kmemleak", r"^unreferenced object 0x|"
                 r"^kmemleak: \d+ new suspected memory leaks"),
    ("lockdep-circular", r"possible circular locking dependency"),
    ("lockdep-recursive", r"possible recursive locking"),
    ("lockdep-irq", r"possible irq lock inversion|"
                    r"-safe -> \S+-unsafe lock order detected"),
    ("lockdep-state", r"^(?:WARNING: )?inconsistent (?:lock state|\{)"),
    ("lockdep-unlock", r"bad unlock balance"),
    ("lockdep-held", r"held lock freed|lock held when returning|"
                     r"(?:still has|exit with) locks? (?:still )?held|"
                     r"lock held at task exit"),
    ("lockdep-context", r"^\[ BUG: Invalid wait context \]"),
    ("lockdep-key", r"^INFO: trying to register non-static key"),
    ("lockdep-off", r"^DEBUG_LOCKS_WARN_ON|turning off the locking "
                    r"correctness validator"),
    ("rcu-usage", r"suspicious RCU usage|"
                  r"Illegal context switch in RCU"),
    ("rcu-stall", r"^rcu: INFO: .*detected (?:expedited )?stalls? on|"
                  r"^rcu: INFO: \S+ self-detected stall|"
                  r"^rcu: \S+ kthread starved for"),
    ("soft-lockup", r"soft lockup - CPU#\d"),
    ("hard-lockup", r"Watchdog detected hard LOCKUP"),
    ("workqueue", r"workqueue lockup|"
                  r"^workqueue: .* is flushing !WQ_MEM_RECLAIM"),
    ("hung-task", r"^INFO: task \S+ blocked for more than"),
    ("atomic", r"sleeping function called from invalid context|"
               r"scheduling while atomic|"
               r"using \w+\(\) in preemptible"),
    ("refcount", r"^refcount_t: "),
    ("netdevice", r"unregister_netdevice: waiting for "),
    ("ref-tracker", r"^ref_tracker: (?!memory allocation failure)"),
    ("tx-watchdog", r"NETDEV WATCHDOG: "),
    ("napi", r"Budget exhausted after napi rescheduled"),
    ("page-pool", r"page_pool_release_retry\(\) stalled"),
    ("slab", r"^BUG [\w-]+ (?:\(.*\))?: |Redzone overwritten|"
             r"Poison overwritten|Object already free|"
             r"Objects remaining (?:in|on) |"
             r"^kmem_cache_destroy \S+: Slab cache still has objects"),
    ("page", r"Bad page (?:state|map|cache)|Bad rss-counter state|"
             r"^page dumped because: "),
    ("list", r"\blist_(?:add|del) corruption"),
    ("debug-objects", r"^ODEBUG: (?!Out of memory|selftest)"),
    ("dma-api", r"\bDMA-API: (?!preallocated|debugging enabled)"),
    ("spinlock", r"BUG: (?:spinlock|rwlock) "),
    ("leak", r"\bleaked\b|\bref leak\b|detected leak of|"
             r"object allocated by .* is not freed"),
    ("duplicate", r"^sysfs: cannot create duplicate filename|"
                  r"^debugfs: \S+ .*already present|"
                  r"^proc_dir_entry .* already registered"),
    ("fortify", r"^memcpy: detected |detected buffer overflow|"
                r"^usercopy: Kernel memory "),
    ("stack", r"corrupted stack end detected|stack-protector: "),
    ("irq", r"^irq \d+: nobody cared|"
            r"^softirq: huh, entered softirq"),
    ("skb", r"^skbuff: skb_(?:over|under)_panic: "),
    ("checksum", r"hw csum failure"),
    ("memory", r"invoked oom-killer: |"
               r"page allocation failure: order:\d"),
)]


class Known:
    """A complaint that is let pass, and why."""

    def __init__(self, regex, reason, whole=False):
        self.regex = re.compile(regex)
        self.reason = reason
        self.whole = whole              # to be looked for in whole reports


# What parts of the kernel beside InfiniBand are known for, whatever is loaded
KERNEL = [
    Known(r"suspicious RCU usage\n(?:.*\n){,4}"
          r".*drivers/target/target_core_device\.c:\d+ RCU-list traversed",
          "the kernel's SCSI target walks a list under the mutex that protects "
          "it, and does not tell lockdep", whole=True),
]

# What a driver that is not ours is known for; nothing of ours is ever here.
KNOWN = {
    "none": [],
    "stock": [
        Known(r"^\S+: Budget exhausted after napi rescheduled",
              "the distribution's ib_ipoib polls on after napi_complete() "
              "and returns the whole budget"),
        Known(r"Destroy of kernel CQ shouldn't fail\n(?:.*\n)*"
              r".*\bipoib_transport_dev_cleanup\+",
              "the distribution's ib_ipoib destroys its CQ though it has not "
              "yet destroyed the QPs of connections", whole=True),
        Known(r"NETDEV WATCHDOG: .*\n(?:.*\n)*"
              r".*: queue stopped 1, tx_head (\d+), tx_tail \1,",
              "the distribution's ib_ipoib leaves a queue stopped of which "
              "everything has completed", whole=True),
    ],
}

STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
MARKER = re.compile(r"^IPOIB-TEST: (\S+)(?: expects (\S+))?")
DRIVER = re.compile(r"^IPOIB-TEST: driver (stock|none)$")
# Lines that people and scripts write; they may quote anything.
FREE_TEXT = re.compile(r"^(?:IPOIB-TEST|vm): ")
# What belongs to a report after its first line.
BODY = re.compile(
    r"^(?:\s|Call Trace:|</?[A-Z_]+>|RIP: |RSP: |R[A-Z0-9]{2}: |Code: |"
    r"CPU: |CPU#|Comm: |Hardware name: |Modules linked in|Workqueue: |"
    r"Tainted: |FS: |CS: |CR2: |DR[0-7]: |PKRU: |ORIG_RAX|EFLAGS|"
    r"---\[ |-+\[ cut here|=+$|-+$|\? |#\d|task:|Kernel Offset|"
    r"#PF: |PGD |CR2|note: |but task |which lock |the existing |"
    r"other info |stack backtrace|Possible |Chain exists|"
    r"[\w./-]+ is (?:trying|freeing)|\*\*\* |\d+ locks? held|"
    r"(?:Read|Write|Invalid|Use-after-free|Out-of-bounds) of |"
    r"Allocated (?:by|in)|Freed (?:by|in)|The buggy|Memory state|"
    r"\S+ bytes |Object |Redzone|Padding|Slab 0x|INFO: |FIX |"
    r"page: ?|page:|flags: |raw: |backtrace|hex dump|comm \"|"
    r"rcu: |NMI backtrace|Sending NMI|Rebooting in|Disabling lock|"
    r"irq event stamp|hardirqs last|softirqs last|\w+\+0x|"
    r"\S+: transmit timeout: latency |\S+: queue stopped \d)")
# Kinds that a warning has besides its own
WARNING = ("cut-here", "warning", "rip", "trace")
LONGEST = 150       # lines of a report
GAP = 3             # lines of others' in it
BEFORE = 4          # lines shown before it
SHOWN = 4           # reports shown in full
SYMBOL = re.compile(r"\b([A-Za-z_]\w*)(?:\.\w+)*\+0x[0-9a-f]+/0x")


class Report:
    """One complaint with what belongs to it."""

    def __init__(self, number, test, expected, kind):
        self.number = number            # line where it starts, from 1
        self.test = test                # the test that ran, or None
        self.expected = expected        # kind the test is there for, or None
        self.kinds = [kind]             # names of patterns, as they came
        self.lines = []                 # whole lines of the log
        self.before = []                # some lines in front of it
        self.excuses = []               # Known of the driver that was loaded

    def as_expected(self):
        """Is it what the test is there for, and nothing besides?"""
        return self.expected in self.kinds and \
            {self.expected, *WARNING} >= set(self.kinds)

    def title(self):
        """Its first line, without the time stamp."""
        first = [strip(line) for line in self.lines]
        for line in first:
            if not line.startswith("---") and line.strip("= \n"):
                return line
        return first[0]

    def fingerprint(self):
        """The first five functions it names, to tell whether two are one."""
        return tuple(SYMBOL.findall("\n".join(self.lines))[:5])

    def text(self):
        """For a person to read."""
        of = f" in test {self.test}" if self.test else ""
        head = f"kernel report ({', '.join(self.kinds)}) at line " \
               f"{self.number} of its log{of}:"
        body = [f"  {line}" for line in self.before]
        body += [f"> {line}" for line in self.lines]
        return "\n".join([head, *body])


class Result:
    """All complaints of a log; false if there are none."""

    def __init__(self):
        self.reports = []
        self.known = []                 # (line, Known) that were let pass
        self.expected = []              # reports that a test is there for

    def let_pass(self):
        """Take out the reports that are known as a whole."""
        for report in list(self.reports):
            lines = "\n".join(report.lines)
            for excuse in report.excuses:
                if excuse.whole and excuse.regex.search(lines):
                    self.reports.remove(report)
                    self.known.append((report.title(), excuse))
                    break

    def __bool__(self):
        return bool(self.reports)

    def text(self):
        """For a person to read: the first ones in full."""
        parts = [report.text() for report in self.reports[:SHOWN]]
        for report in self.reports[SHOWN:]:
            of = f" in test {report.test}" if report.test else ""
            parts.append(f"also at line {report.number}{of}: "
                         f"{report.title()}")
        return "\n".join(parts)


def strip(line):
    """The message of a line of the log."""
    return STAMP.sub("", line, count=1)


def kinds_of(message):
    """Names of the patterns that a message matches."""
    if FREE_TEXT.match(message):
        return []
    return [p.name for p in PATTERNS if p.regex.search(message)]


def check_lines(lines, known="none"):
    """Find the complaints in an iterable of lines."""
    result = Result()
    excuses = KERNEL + KNOWN[known]
    report, quiet, test, expected = None, 0, None, None
    before = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r\n")
        message = strip(line)
        driver = DRIVER.match(message)
        if driver:
            excuses = KERNEL + KNOWN[driver[1]]
        marker = not driver and MARKER.match(message)
        if marker:
            if marker[1] != test:
                excuses = KERNEL + KNOWN[known]
            test, expected = marker.groups()
        kinds = kinds_of(message)
        if kinds:
            excuse = next((k for k in excuses
                           if not k.whole and k.regex.search(message)), None)
            if excuse:
                result.known.append((line, excuse))
                kinds = []
        if kinds and report is None:
            report = Report(number, test, expected, kinds[0])
            report.before = before[-BEFORE:]
            report.excuses = excuses
            result.reports.append(report)
        if report is not None:
            for kind in kinds:
                if kind not in report.kinds:
                    report.kinds.append(kind)
            belongs = kinds or BODY.match(message)
            quiet = 0 if belongs else quiet + 1
            report.lines.append(line)
            if quiet > GAP or marker or len(report.lines) >= LONGEST or \
               message.startswith("---[ end "):
                if quiet:
                    del report.lines[-quiet:]
                report = None
        before = (before + [line])[-BEFORE:]
    if report is not None and quiet:
        del report.lines[-quiet:]
    result.let_pass()
    result.expected = [r for r in result.reports if r.as_expected()]
    result.reports = [r for r in result.reports if not r.as_expected()]
    return result


def check_file(path, known="none", size=None):
    """The same for a file; only its first @size bytes if that is given."""
    with open(path, "rb") as file:
        data = file.read() if size is None else file.read(size)
    return check_lines(data.decode("utf-8", "replace").split("\n"), known)


def main(argv):
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", choices=sorted(KNOWN), default="none",
                        help="whose known complaints to let pass")
    parser.add_argument("file", nargs="+")
    args = parser.parse_args(argv)
    bad = False
    for path in args.file:
        result = check_file(path, args.known)
        if result:
            bad = True
            print(f"{path}: {result.text()}")
        for line, excuse in result.known:
            print(f"{path}: let pass: {line}\n    ({excuse.reason})")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
