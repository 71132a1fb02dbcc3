# SPDX-License-Identifier: GPL-2.0-only
"""After everything: nothing of the module is left in memory.

With slab debugging the kernel keeps, for every live object, where it was
allocated; an address inside the module's text that is still there after the
module has gone is a leak.
"""

import glob
import re

from lib import (Failed, Flood, Stream, defer, ends, exists, fabric, hca,
                 ifaces, ip, kmsg_since, ksft_eq, ksft_false, ksft_gt, ksft_pr,
                 load_module, loaded, mcast_receiver, mcast_sender, ping_ok,
                 port, read, sm, tcp_transfer, timeout, udp_exchange,
                 unload_module, wait_until, write)
from lib.ipoib import drop_all, forget
from lib.teardown import unload_fabric
from lib.utils import module_range
from lib.traffic import udp_send

# What red zones and poison find, KASAN finds, too; reading who has each of the
# objects that the debug kernel itself makes would take minutes.
BOOT = {"hcas": 3, "append": "slab_debug=FZPU",
        "debug_append": "slab_debug=U,kmalloc-*", "mem": 2048, "seconds": 90}


def traces():
    """What is allocated, as (cache, text).

    KASAN keeps what was freed for a while, and to its cache that is still
    allocated, until the cache is shrunk.
    """
    for path in glob.glob("/sys/kernel/debug/slab/*/alloc_traces"):
        cache = path.split("/")[-2]
        try:
            write(f"/sys/kernel/slab/{cache}/shrink", 1)
            yield cache, read(path)
        except OSError:
            pass        # the cache is gone


def live_objects(where, module="ib_ipoib"):
    """What a module itself allocated and is still there, by cache.

    The first line of a record names who asked for the memory; deeper in the
    stack stands whatever the module called, the core's own caches included.
    """
    found = {}
    first, last = where
    for cache, text in traces():
        for part in re.split(r"\n\s*\n|\n(?=\s*\d+ )", text):
            caller = re.match(r"\s*\d+ (\S+)(?: (\[\w+\]))?", part)
            if not caller:
                continue
            address = re.fullmatch(r"0x(ffffffff[0-9a-f]{8})", caller[1])
            if caller[2] == f"[{module}]" or \
               address and first <= int(address[1], 16) < last:
                found.setdefault(cache, []).append(
                    " ".join(part.split())[:200])
    return found


def nothing_left(where, module="ib_ipoib"):
    """What was given to kfree_rcu() goes a few seconds later."""
    try:
        wait_until(lambda: not live_objects(where, module), 20,
                   "nothing left")
    except Failed:
        ksft_eq(live_objects(where, module), {}, "objects left")


def unnamed_objects():
    """Live objects that come from code that is not there any more."""
    found = {}
    for cache, text in traces():
        for part in re.split(r"\n\s*\n|\n(?=\s*\d+ )", text):
            match = re.match(r" *(\d+) 0xffffffff[0-9a-f]{8} ", part)
            if match:
                key = (cache, " ".join(part.split()[-12:]))
                found[key] = found.get(key, 0) + int(match.group(1))
    return found


def exercise():
    """Everything that allocates."""
    pair = ends(1, 2)
    ping_ok(pair.a.ns, pair.b.v4)
    tcp_transfer(pair.a, pair.b, 2 << 20)
    tcp_transfer(pair.b, pair.a, 1 << 20, address=pair.a.v6)
    udp_exchange(pair.a, pair.b, 50, 60000)
    for group in ("239.11.0.1", "239.11.0.2", "ff05::11:1"):
        with mcast_receiver(pair.b, group) as sink, \
                mcast_sender(pair.a, group) as sock:
            udp_send(sock, (group, sink.port), 20, 300)
            sink.collect(1, 1)
    with mcast_sender(pair.a, "239.11.0.9") as sock:
        udp_send(sock, ("239.11.0.9", 9), 50, 100)
    with Flood(pair.a, "10.0.0.99", 100, gap=0.001), \
            Flood(pair.a, "fd00::99", 100, gap=0.001):
        for _ in range(3):
            pair.b.set("down")
            pair.b.up()
            pair.b.wait_carrier()
    pair.b.port.link(False)
    pair.b.wait_no_carrier()
    pair.b.port.link(True)
    pair.b.wait_carrier()
    for end in pair:
        end.port.event("client_reregister")
        end.port.event("sm_change")
        end.port.fault("recv_post_error", 20)
        end.port.fault("send_error", 2)
    pair.wait_ping()
    stream = Stream(pair.a, pair.b)
    stream.wait_progress()
    stream.finish()
    fabric.clear_faults()


def test_trace_works():
    """While it is loaded, the module's objects are seen."""
    pair = ends(1, 2)
    ping_ok(pair.a.ns, pair.b.v4)
    ksft_gt(len(live_objects(module_range())), 0, "caches with objects")


@timeout(180)
def test_unload():
    """After all kinds of use and unloading, no object is left."""
    exercise()
    where = module_range()
    unload_module(40)
    ksft_false(loaded())
    nothing_left(where)
    for path in ("/sys/kernel/debug/ipoib", "/sys/module/ib_ipoib"):
        ksft_false(exists(path), path)
    ksft_eq([c for c in glob.glob("/sys/kernel/slab/*ipoib*")], [])
    for each in fabric.hcas():
        ksft_eq(each.data_qps(), [], f"QPs on {each}")
    load_module()


@timeout(90)
def test_reload():
    """Loading and unloading again and again leaves nothing behind."""
    forget(ends(1, 2))
    unload_module(40)
    before = unnamed_objects()
    for _ in range(3):
        load_module()
        for _, name, _ in ifaces():
            ip(["link", "set", name, "up"])
        unload_module(40)

    def more():
        return {key: count for key, count in unnamed_objects().items()
                if count > before.get(key, 0)}

    try:
        wait_until(lambda: not more(), 15, interval=0.5)
    except Failed:
        for (cache, stack), count in more().items():
            ksft_pr(f"{count} in {cache}: {stack}")
        ksft_eq(more(), {}, "objects of code that is gone")
    load_module()


@timeout(120)
def test_close_frees():
    """A closed interface has given back its buffers, whatever it did."""
    pair = ends(1, 2)
    where = module_range()

    def objects():
        return sum(int(text.split()[0]) for texts in
                   live_objects(where).values() for text in texts)

    opened = objects()
    for end in pair:
        end.set("down")
    wait_until(lambda: objects() < opened, 15, "fewer objects when closed",
               interval=0.5)
    closed = objects()
    for end in pair:
        end.up()
    pair.ready()
    exercise()
    for end in pair:
        end.set("down")
    ksft_pr(f"{opened} objects open, {closed} closed, {objects()} closed "
            "again")
    wait_until(lambda: objects() <= closed + 8, 15,
               f"as few as before, {closed}", interval=0.5)
    forget(pair)


@timeout(120)
def test_unplug_frees():
    """A pulled HCA takes everything with it."""
    pair = ends(1, 2)
    victim = hca(2)
    with Flood(pair.a, pair.b.v4, 500, gap=0.001):
        victim.unplug()
    defer(lambda: victim.exists() or victim.plug())
    forget(pair)
    count = len(ifaces())
    ksft_eq(count, 2)
    where = module_range()
    unload_module(40)
    nothing_left(where)
    load_module()
    victim.plug()
    port(2).wait_active()


@timeout(120)
def test_no_sm_unload():
    """Unloading while joins wait for an SM that is not there."""
    forget(ends(1, 2))
    unload_module(40)
    restart = sm.stopped()
    load_module()
    where = module_range()
    for _, name, _ in ifaces():
        ip(["link", "set", name, "up"])
    unload_module(60)
    nothing_left(where)
    restart.exec()
    load_module()
    pair = ends(1, 2)
    ping_ok(pair.a.ns, pair.b.v4)


def test_no_complaints():
    """Nothing about slabs or references in the kernel's log."""
    wait_until(loaded, 1)
    ksft_eq(kmsg_since(pattern="Objects remaining|leaked|refcount_t|"
                       "Poison overwritten|Redzone"), [])


@timeout(120)
def test_fabric_unload():
    """When the fabric goes, no object of it is left.  The last case."""
    pair = ends(1, 2)
    ping_ok(pair.a.ns, pair.b.v4)
    drop_all()
    unload_module(40)
    where = module_range("ibdevsim")
    ksft_gt(len(live_objects(where, "ibdevsim")), 0, "caches with objects")
    unload_fabric()
    nothing_left(where, "ibdevsim")
