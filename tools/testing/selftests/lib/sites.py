# SPDX-License-Identifier: GPL-2.0-only
"""
Calls of a module that can fail do fail, one after the other, while something is done:
once, twice, and for as long as it takes.

The fabric says which verbs and allocations are called from where in a module, and has
those fail that it is told to: see ibdevsim/README.rst.
"""

import collections
import os
import random
import re
import time

import slowness
from common import ROOT as TREE
from . import failslab
from .elf import Elf
from .fabric import ONLY_RECORDED, fabric
from .ksft import CaseTimeout, Failed, Skip, ksft_eq, ksft_gt, ksft_pr, undone
from .netns import ROOT, known
from .traffic import neigh_flush, ping, tcp_transfer
from .utils import CmdError, exists, hold, now, read, read_int, slow, wait_until

UNREACHED = os.path.join(os.path.dirname(__file__), "..", "sites.unreached")
# Sections that stay, other than those of the start
CODE = (".text", ".exit.text")
VERBS = re.compile(
    r"(__)?ib_(alloc_pd|create_\w+|destroy_qp\w*|modify_\w+|query_\w+|find_pkey"
    r"|\w+tach_mcast|cm_listen|send_cm_\w+|sa_(join_multicast|path_rec_get))"
    r"|rdma_(create_ah|(alloc|init)_netdev|set_cq_moderation)")
MEMORY = re.compile(
    r"k[mz]alloc\w*|__k\w*alloc\w*|kv\w*alloc\w*|kmem_cache_alloc\w*|kmemdup\w*"
    r"|(alloc|get_free)_pages\w*|pcpu_alloc\w*|alloc_cpumask_var\w*|__?\w*alloc_skb"
    r"|napi_build_skb|skb_clone|skb_copy\w*expand|page_pool_(create|alloc\w*)"
    r"|alloc_(workqueue|netdev_mqs)|rhashtable_init\w*|arp_create")
# What has to work in the end where the HCA or the module goes: a QP that is there for
# good then stays in the HCA.
LAST = ("destroy_qp", "detach_mcast")
# How often a site fails; 0: as long as the operation lasts
TIMES = {1: "once", 2: "twice", 0: "for good"}
# Seconds of injections per case, unless IPOIB_SITES says others (0: no end of them),
# and what may be wrong until a case is given up
SECONDS, MOST_PROBLEMS = 45, 3
# The same of a sample of all operations of a module, in the core: see sample()
SAMPLE_SECONDS = 180
# Multiples of it are spread evenly, modulo 1, however many there are.
GOLDEN = (5 ** 0.5 - 1) / 2

# offset: of the address that is returned to, from the start of .text; None: wherever
# it is called
Site = collections.namedtuple("Site", "name offset symbol")


class Module:
    """A module that is loaded, and its file."""

    def __init__(self, name, variable=None):
        self.name = name
        self.path = os.environ.get(variable) if variable else \
            os.path.join(TREE, "build", os.uname().release, name, f"{name}.ko")
        self._elf = None

    def elf(self):
        """The file, read once."""
        self._elf = self._elf or Elf(self.path)
        return self._elf

    def address(self, section=".text"):
        """Where a section is; another place each time the module is loaded."""
        return read_int(f"/sys/module/{self.name}/sections/{section}")

    def loaded(self):
        return exists(f"/sys/module/{self.name}/sections/.text")

    def range(self):
        """The addresses of its code: (first, behind the last)."""
        parts = [(self.address(each.name), each.size) for _, each in
                 self.elf().code(*CODE) if each.size]
        return min(at for at, _ in parts), max(at + size for at, size in parts)

    def exists(self):
        """The calls that can fail: {offset: (function, what it calls)}."""
        found = {}
        for number, section in self.elf().code(*CODE):
            if not section.size:
                continue
            begin = self.address(section.name) - self.address()
            for each in self.elf().references(number):
                what = callee(each.symbol)
                if what and not each.tail:
                    found[begin + each.end] = each.function, what
        return found

    @staticmethod
    def sites(calls, base):
        """What the fabric has seen of a module that was at @base: {Site: count}."""
        found = collections.Counter()
        for call in calls:
            found[Site(call.name, call.address - base, call.symbol)] += call.count
        return found


def sees_memory():
    """Does this kernel let allocations be recorded?"""
    _range[:] = [failslab.MODULES]
    fabric.record(*_range)
    fabric.record(None)
    return fabric.sees_memory()


def within(where):
    """Calls that fail are those from that range."""
    if _range[:] != [where]:
        fabric.record(where, memory=False)
        fabric.record(None)
        _range[:] = [where]


def failing(module, name="any", address=None, times=1, errno=None, where=None):
    """
    Calls that a module makes fail, or any module's, while it is not there; on one HCA
    only, if @where says which.
    """
    # pylint: disable=too-many-arguments
    within(module.range() if module.loaded() else failslab.MODULES)
    return fabric.fail(name, address, times, errno, where)


def hits(least, limit=15):
    """Wait until calls have failed so many times."""
    wait_until(lambda: fabric.failed()[1] >= least, limit, f"{least} failures")


def callee(symbol):
    """What a call is to, whatever kernels call it; None: it can't fail."""
    if MEMORY.fullmatch(symbol):
        return "memory"
    if VERBS.fullmatch(symbol):
        return re.sub(r"^__|_(user|kernel)$", "", symbol)
    return None


# ---- operations ----------------------------------------------------------


class Operation:
    """
    What is done.  @before brings the start about, whatever was before; @act may be
    refused; @done: nothing of it is left to be done; @undo goes back to the start (the
    same as @before, unless there is more to it); @works waits until all does, and fails
    if it does not.
    """

    def __init__(self, name, act, works, before=lambda: None, undo=None,
                 done=lambda: True, sites=None, last=False, spared=()):
        # pylint: disable=too-many-arguments
        self.name, self.act, self.works = name, act, works
        self.before, self.undo, self.done = before, undo or before, done
        # Those that can't be found out, since they move
        self.sites = sites
        # The HCA or the module goes with it.
        self.last = last
        # Calls that don't fail, since nobody is left who would repeat them
        self.spared = spared

    def lets_fail(self, name, times):
        """May calls of that name fail so often?"""
        return name not in self.spared and bool(times or not self.last or
                                                name not in LAST)


def there():
    """Interfaces, and objects at HCAs: what an operation must not leave behind."""
    links = sorted((space.name or "", name) for space in [ROOT, *known().values()]
                   for name in os.listdir(space.sys("class/net")))
    objects = {}
    for each in fabric.hcas():
        lines = [line.split() for line in read(f"{each.dir}/objects").splitlines()]
        # Address handles come and go with neighbours, and QPs with connections.
        objects[each.name] = {words[0]: int(words[1]) for words in lines
                              if words[0] in ("pd", "cq", "srq", "mr")}
        objects[each.name]["ud"] = len(each.data_qps("UD"))
    return links, objects


def met(check, limit):
    """Does it hold within so many seconds?  If not, that is all right."""
    end = now() + slow(limit)
    while True:
        try:
            if check():
                return True
        except (OSError, CmdError, KeyError, IndexError, ValueError):
            pass
        if now() >= end:
            return False
        hold(0.03)


def left_behind(before):
    """
    What there is now that was not there before, or the other way round.  CQs that
    nobody uses go a moment later: there may be fewer objects.
    """
    (links, objects), (old_links, old_objects) = there(), before
    found = set(links) ^ set(old_links) | set(objects) ^ set(old_objects)
    for hca, counts in objects.items():
        found |= {f"{hca}: {count - old_objects[hca][name]} {name} more"
                  for name, count in counts.items()
                  if count > old_objects.get(hca, counts)[name]}
    return found


def same_again(before, what):
    """Wait until nothing is left behind."""
    if not met(lambda: not left_behind(before), 10):
        ksft_eq(left_behind(before), set(), f"left behind by {what}")


def works(pair):
    """Packets of all kinds pass between two ends, which get to know each other anew."""
    for end in pair:
        end.wait_carrier(30)
    if not all(ping(src.ns, address, limit=0.5) for src, dst in
               ((pair.a, pair.b), (pair.b, pair.a)) for address in (dst.v4, dst.v6)):
        # A QP that could not be reset has got another number.
        for end in pair:
            neigh_flush(end)
        pair.ready(30)
    tcp_transfer(pair.a, pair.b, 1 << 17)


# ---- the driver of all that ----------------------------------------------

# What was reached by any of the operations of a module: {name: {offset}}; and what
# made those that were explored
_reached = collections.defaultdict(set)
_explored = set()
# How often calls of a module have failed in samples: {name: [of each operation]}
_sampled = collections.defaultdict(list)
# What fabric.record() was last called with
_range = []


class Recorded:
    """The calls of a module within the block, when it has ended: {Site: count}."""

    def __init__(self, module, memory=True):
        self.module, self.memory = module, memory
        self.found = collections.Counter()

    def __enter__(self):
        self.base = self.module.address()
        _range[:] = [self.module.range()]
        fabric.record(*_range, self.memory)
        return self.found

    def __exit__(self, *_exc):
        # The module may be gone by now.
        try:
            self.found.update(Module.sites(fabric.calls(), self.base))
        finally:
            fabric.record(None)
        _reached[self.module.name].update(site.offset for site in self.found)


def explore(operation, module):
    """What an operation calls: sites that can fail, in order, and back to the start."""
    operation.before()
    if operation.sites:
        return operation.sites
    with Recorded(module) as looking:
        pass
    with Recorded(module) as found:
        operation.act()
        wait_until(operation.done, 30, f"{operation.name}: done")
    operation.works()
    operation.undo()
    # Where the fabric itself is looked at, so is what tells of it.
    return sorted({site for site in found if site not in looking and
                   site.name not in (*ONLY_RECORDED, *operation.spared)},
                  key=lambda site: (site.offset, site.name))


def reason(error):
    """Why it was refused, in words or by a number; there has to be one."""
    if isinstance(error, CmdError):
        text = (error.stderr or error.stdout).strip()
    else:
        text = error.strerror or os.strerror(error.errno or 0)
    if not text:
        raise Failed(f"refused without a reason: {error!r}")
    return text


def attempt(operation):
    """Do it; the reason for which it was refused, or nothing."""
    try:
        operation.act()
    except (OSError, CmdError) as error:
        return reason(error)
    return ""


def inject(operation, module, site, times):
    """
    Do it while a site fails so many @times, and then again, if it was refused.
    How often the site was called in vain, and the reason of the refusal.
    """
    operation.before()
    start = there()
    address = None if site.offset is None else module.address() + site.offset

    def hit():
        return fabric.failed()[1]

    with failing(module, site.name, address, times):
        why = attempt(operation)
        if not why:
            # Work that was left to others may be about to begin.
            met(lambda: hit() >= (times or 3) or hit() and operation.done(), 1)
        hits = hit()
    if why:
        same_again(start, f"{operation.name}, refused: {why}")
        operation.act()
    wait_until(operation.done, 40, f"{operation.name}: done at last")
    operation.works()
    operation.undo()
    same_again(start, operation.name)
    return hits, why


def seed():
    """Where to begin: another place each day, or as IPOIB_SEED says."""
    return int(os.environ.get("IPOIB_SEED") or time.time() // 86400)


def seconds(usual=SECONDS):
    """How long a case may go on: as it is measured on Debian's kernel."""
    asked = float(os.environ.get("IPOIB_SITES") or usual)
    return max(1, slowness.emulation() / slowness.CHECK) * asked or float("inf")


class Tally:
    """What became of the sites of an operation."""

    def __init__(self):
        self.failed, self.refused, self.missed = 0, 0, []
        self.problems = []

    def one(self, operation, module, site, ways=tuple(TIMES)):
        """A site fails once, twice, for good: in these ways."""
        for times in ways:
            if not operation.lets_fail(site.name, times):
                continue
            how = TIMES[times]
            what = f"{operation.name}: {site.name} at {site.symbol} fails {how}"
            try:
                hits, why = inject(operation, module, site, times)
            except CaseTimeout:
                ksft_pr(what)
                raise
            except (Failed, OSError) as error:
                ksft_pr(f"{what}: {error}")
                self.problems.append(what)
                continue
            if not hits:
                self.missed.append(f"{site.name} at {site.symbol}")
                return
            self.failed += 1
            self.refused += bool(why)

    def tell(self, operation, tried, sites):
        """Print it; nothing may be wrong."""
        ksft_pr(f"{operation.name}: {tried} of {len(sites)} sites tried; they failed "
                f"{self.failed} times, {self.refused} times it was refused")
        for each in self.missed:
            ksft_pr(f"not reached again: {each}")
        ksft_eq(self.problems, [], "after failures")


def every(make, module):
    """Each site of the operation that @make() is fails, as far as there is time."""
    end = now() + seconds()
    operation = make()
    sites = explore(operation, module)
    _explored.add(make)
    first = random.Random(seed()).randrange(max(1, len(sites)))
    ksft_pr(f"{operation.name}: {len(sites)} sites, from number {first} on: "
            f"IPOIB_SEED={seed()}")
    tally, tried = Tally(), 0
    for site in sites[first:] + sites[:first]:
        if now() >= end or len(tally.problems) >= MOST_PROBLEMS:
            break
        tally.one(operation, module, site)
        tried += 1
        if tried % 10 == 0:
            ksft_pr(f"{operation.name}: {tried} of {len(sites)} sites")
    tally.tell(operation, tried, sites)


def spread(count, first):
    """
    The numbers below @count in an order of which each beginning is spread evenly;
    what it begins with is spread evenly over @first, too.
    """
    order = {}
    while len(order) < count:
        order.setdefault(int(first * GOLDEN % 1 * count))
        first += 1
    return list(order)


def sample(make, module, operations):
    """
    Some of the sites of the operation that @make() is fail, each in one way, for this
    operation's share of SAMPLE_SECONDS, and one at least.  Which ones, in what order,
    and how is the same as long as the sites are, so that what is found is due to what
    has changed; only how many there is time for depends on the host.
    """
    end = now() + seconds(SAMPLE_SECONDS / len(operations))
    number, operation = operations.index(make), make()
    sites = explore(operation, module)
    _explored.add(make)
    ksft_pr(f"{operation.name}: {len(sites)} sites, a sample of them")
    tally, tried = Tally(), 0
    for place in spread(len(sites), number):
        if tried and now() >= end or len(tally.problems) >= MOST_PROBLEMS:
            break
        site = sites[place]
        ways = [times for times in TIMES if operation.lets_fail(site.name, times)]
        if ways:
            tally.one(operation, module, site, [ways[(number + tried) % len(ways)]])
            tried += 1
    _sampled[module.name].append(tally.failed)
    tally.tell(operation, tried, sites)


def all_sampled(module):
    """In most operations of which there was a sample, a call has failed."""
    counts = _sampled[module.name]
    if not counts:
        raise Skip("no operation was sampled")
    ksft_pr(f"{sum(counts)} failures in {len(counts)} operations")
    ksft_gt(2 * sum(map(bool, counts)), len(counts), "operations with failures, twice")


# ---- is that all? --------------------------------------------------------


def unreached(name):
    """The committed list for a module: {(function, what it calls): reason}."""
    found = {}
    for line in read(UNREACHED).splitlines():
        words = line.split(None, 3)
        if words and not line.startswith("#") and words[0] == name:
            found[words[1], words[2]] = words[3]
    return found


def all_reached(module, operations):
    """The operations reach every call that can fail, or the list says why not."""
    if not sees_memory():
        raise Skip("allocations are not seen on this kernel")
    for make in operations:
        if make not in _explored:
            with undone():
                explore(make(), module)
    calls, listed = module.exists(), unreached(module.name)
    missing = {calls[offset] for offset in calls
               if offset not in _reached[module.name]}
    ksft_pr(f"{module.name}: {len(calls)} calls can fail; "
            f"{len(missing)} kinds of them were not reached")
    for function, what in sorted(set(listed) - missing):
        ksft_pr(f"listed in {os.path.basename(UNREACHED)}, but reached, or gone: "
                f"{function} {what}")
    for function, what in sorted(missing - set(listed)):
        ksft_pr(f"{module.name} {function} {what}")
    ksft_eq(sorted(missing - set(listed)), [], "neither reached nor listed")
