# SPDX-License-Identifier: GPL-2.0-only
"""What can't be done at once is done later, at a pace that an HCA can stand."""

import os
import re
from errno import EIO, EOPNOTSUPP

from lib import (Skip, Tracer, defer, ends, ends_with, fabric, hold, in_groups, ip,
                 ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_le, ksft_ne, ksft_not_in,
                 now, ping, read_int, slow, timeout, unheard, wait_until)
from lib.child import child_by_ip
from lib.genl import cause
from lib.ipoib import iface_of
from lib.partitions import ONE
from lib.sites import Module, Recorded, failing, hits

BOOT = {"ipoib": "ours", "hcas": 2, "seconds": 110, "partitions": ONE}
# The core has no room for them; those of another group are not life cycle.
GROUPS = ("life",)
VERBS_ONLY = "the driver's own verbs fail"

IPOIB = Module("ib_ipoib", "IPOIB_MODULE")


# ---- children -----------------------------------------------------------------------


def state(end):
    return end.state()["state"]


def fresh_child():
    """
    A child of a parent that is down.  It will receive in another channel than that,
    which has got no buffers since its HCA came.
    """
    if os.cpu_count() < 2:
        raise Skip("needs a second channel")
    end = ends_with().b
    end.port.hca.need(srq=1, ud_srq=1)
    end.set("down")
    child = child_by_ip(end, 0x8001)
    ksft_eq(state(child), "closed")
    return end, child


def no_buffers(end):
    """Its HCA takes none."""
    return failing(IPOIB, "post_srq_recv", times=0, where=end.port.hca)


def waits(child):
    """It was set up with its parent, and is not open."""
    hits(1)
    ksft_eq(state(child), "closed")
    ksft_in("UP", child.link()["flags"])
    ksft_eq(cause(child)["cause"], "start-failed")
    ksft_false(child.carrier(), "carrier")


def stays_down(child, begin):
    """It is not tried any more.  Attempts began at @begin, and have doubling delays."""
    hold(2 * (now() - begin) + 1)
    ksft_eq(state(child), "closed")
    ksft_not_in("UP", child.link()["flags"])


@timeout(120)
def test_child_waits():
    """A child that can't be opened with its parent is opened when it can be."""
    end, child = fresh_child()
    with no_buffers(end):
        end.up()
        end.wait_carrier(30)
        waits(child)
    wait_until(child.carrier, 40, "carrier of the child")
    ksft_eq(state(child), "up")


@timeout(120)
def test_child_set_down():
    """Unless it is set down meanwhile; it comes up again with its parent."""
    end, child = fresh_child()
    begin = now()
    with no_buffers(end):
        end.up()
        waits(child)
        child.set("down")
        ksft_eq(cause(child)["cause"], "admin-down")
    stays_down(child, begin)
    end.set("down")
    end.up()
    wait_until(child.carrier, 40, "carrier of the child")


@in_groups("children")
@timeout(120)
def test_child_parent_down():
    """So it is with its parent."""
    end, child = fresh_child()
    begin = now()
    with no_buffers(end):
        end.up()
        waits(child)
        end.set("down")
    stays_down(child, begin)
    end.up()
    wait_until(child.carrier, 40, "carrier of the child")


@in_groups("children")
@timeout(120)
def test_child_by_hand():
    """One that an administrator sets up by itself is not: "up" is refused."""
    end, child = fresh_child()
    with no_buffers(end):
        end.up()
        waits(child)
        child.set("down")
        ksft_ne(child.set("up", fail=False).ret, 0, "status")
        ksft_not_in("UP", child.link()["flags"])
    child.up()
    wait_until(child.carrier, 40, "carrier of the child")


# ---- announcements ------------------------------------------------------------------


def without_qdisc(end):
    """All transmit queues drop what they get; a deferred call ends that."""
    def tc(words):
        end.ns.cmd(["tc", "qdisc", *words.split()])
    dev = f"dev {end.ifname}"
    tc(f"replace {dev} root handle 1: mq")
    back = defer(tc, f"del {dev} root")
    # Also those that are not in use; only one with a handle can be deleted.
    for number in range(1, end.link()["num_tx_queues"] + 1):
        tc(f"add {dev} parent 1:{number:x} handle {0x10 + number:x}: pfifo")
        tc(f"del {dev} parent 1:{number:x}")
    return back


@in_groups("datagram")
@timeout(120)
def test_announce():
    """While queues drop everything, an announcement waits, and is rarely looked at."""
    pair = ends()
    end = pair.b
    if end.link()["num_tx_queues"] < 2:
        raise Skip("needs several queues")
    back = without_qdisc(end)
    ksft_false(ping(end.ns, pair.a.v4, limit=0.5), "a packet")
    # Peers remember another address.
    fake = end.address()[:-2] + b"\x77\x77"
    ip(["neigh", "replace", end.v4, "lladdr", fake.hex(":"), "nud", "stale", "dev",
        pair.a.ifname], ns=pair.a.ns)

    def known():
        return end.address().hex(":") in ip(
            ["neigh", "show", end.v4, "dev", pair.a.ifname], ns=pair.a.ns).stdout

    with Tracer("workqueue:workqueue_execute_start") as trace:
        begin = now()
        end.port.event("lid_change")
        hold(slow(12))
        looks = sum("ipoib_dev_link_work" in line for line in trace.lines())
        # One is of the event, and others would be if nothing else were done.
        ksft_ge(looks, 2, "looks")
        ksft_le(looks, 5 + (now() - begin) / 5, "looks")
    ksft_false(known(), "the address is known")
    back.exec()
    wait_until(known, 15, "the address at the peer")
    pair.ready()


# ---- moderation ---------------------------------------------------------------------


def calls(found, name):
    """How often a verb was called."""
    return sum(count for site, count in found.items() if site.name == name)


def not_moderated(where, times, error):
    """Calls to moderate a CQ of an HCA fail."""
    return failing(IPOIB, "modify_cq", times=times, errno=error, where=where)


def rx_usecs(end):
    found = re.search(r"^rx-usecs:\s*(\d+)", end.ethtool("-c").stdout, re.M)
    return int(found.group(1))


def end_to_moderate():
    """On a new HCA, which remembers no refusal."""
    end = ends_with().b
    end.port.hca.need(moderation=1)
    end.ethtool("-C adaptive-rx off")
    return end


@in_groups("hcas")
@timeout(120)
def test_moderation_unsupported():
    """An HCA that says it can't moderate is not asked again: the driver holds back."""
    end = end_to_moderate()
    with not_moderated(end.port.hca, 1, EOPNOTSUPP):
        done = end.ethtool("-C rx-usecs 50000 rx-frames 1000", fail=False)
        ksft_ne(done.ret, 0, "status, it can't count frames")
        ksft_eq(fabric.failed(), (0, 1), "failures left, failures")
    ksft_eq(rx_usecs(end), 0)
    with Recorded(IPOIB, memory=False) as found:
        end.ethtool("-C rx-usecs 50000")
        # Longer than between two attempts
        hold(3)
    ksft_eq(calls(found, "modify_cq"), 0, "calls")
    ksft_eq(rx_usecs(end), 50000)
    done = end.ethtool("-C rx-frames 10", fail=False)
    ksft_in("can't count frames", done.stderr)


@in_groups("hcas")
@timeout(120)
def test_moderation_refused():
    """One that refuses for another reason is asked again, once a second at most."""
    end = end_to_moderate()
    with not_moderated(end.port.hca, 0, EIO):
        done = end.ethtool("-C rx-usecs 50000 rx-frames 1000", fail=False)
        ksft_ne(done.ret, 0, "status")
        ksft_eq(rx_usecs(end), 0)
        # Of the new setting and of the old one, of each CQ
        cqs = fabric.failed()[1] // 2
        ksft_ge(cqs, 1, "CQs")
        hits(5 * cqs)
        begin, before = now(), fabric.failed()[1]
        hits(before + 3 * cqs)
        ksft_ge(now() - begin, 1.5, "seconds")
    hold(2)
    with Recorded(IPOIB, memory=False) as found:
        hold(3)
    ksft_eq(calls(found, "modify_cq"), 0, "calls when all is as it should be")
    end.ethtool("-C rx-usecs 50000 rx-frames 1000")
    ksft_eq(rx_usecs(end), 50000)


# ---- MTU ----------------------------------------------------------------------------


@in_groups("enhanced")
@timeout(180)
def test_mtu():
    """An HCA's own interface without memory for another MTU is asked less and less."""
    new = fabric.add_hca(2, rdma_netdev="own", mtu=4096)
    name = wait_until(lambda: iface_of(new.port()), 10, "its interface")[1]

    def mtu():
        return read_int(f"/sys/class/net/{name}/mtu")

    before = mtu()
    ksft_ne(before, 2044)
    # It is opened, but does not know the link's MTU.
    asked, silent = unheard(new.port()), new.port().fault("sa_drop", 1)
    ip(["link", "set", name, "up"])
    asked()
    with failing(IPOIB, "create_cq", times=0, where=new):
        silent.exec()
        # Events of a new port may ask more often at first.
        hits(4, 60)
        begin, failed = now(), fabric.failed()[1]
        hits(failed + 3, 60)
        ksft_ge(now() - begin, 5, "seconds for three attempts")
        ksft_eq(mtu(), before)
    wait_until(lambda: mtu() == 2044, 40, "the MTU of the link")
