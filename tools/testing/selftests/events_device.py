# SPDX-License-Identifier: GPL-2.0-only
"""What happens to the HCA and the interface: unplug, errors, down, unload."""

import threading

from lib import (Failed, Flood, Stream, any_ends, cmd, defer, ends, exists,
                 fabric, fixed_in_ours, flowing, hca, hold, ifaces, ip,
                 ksft_eq, ksft_false, ksft_ge, ksft_in, ksft_le, ksft_lt,
                 ksft_pr, ksft_true, load_module, loaded, module, neigh_flush,
                 now, ours_differs, ping, ping_ok, port, read, slow, stagger,
                 stuck, tcp_transfer, timeout, unheard, unload_module,
                 verbs_only, wait_until)
from lib.ipoib import forget

# HCA 0 runs the SM, the hosts are on 1 and 2.
BOOT = {"hcas": 3, "seconds": 150}


def hosts():
    return ends(1, 2)


def flood_both(pair):
    """Traffic both ways that nobody waits for."""
    for src, dst in ((pair.a, pair.b), (pair.b, pair.a)):
        flood = Flood(src, dst.v4, 700, gap=0.001, burst=8)
        defer(flood.stop)
    return pair


def timed(func, *args, **kwargs):
    begin = now()
    func(*args, **kwargs)
    return now() - begin


def usual_close(end):
    """
    Seconds that closing takes here and now when nothing is wrong, which is
    what the emulated machine needs and no defect.
    """
    took = timed(end.set, "down", timeout=slow(30))
    end.up()
    end.wait_carrier(20)
    return took


def quick(took, limit, usual, what):
    """It took @limit seconds at most beyond what the machine is slow."""
    ksft_pr(f"{took:.2f} s {what}, a usual close takes {usual:.2f} s")
    ksft_lt(took, limit + 3 * usual, f"seconds {what}")


@timeout(90)
def test_unplug_under_traffic():
    """The HCA is pulled under traffic, and plugged in again."""
    pair = hosts()
    victim = pair.b.port.hca
    defer(lambda: victim.exists() or victim.plug())
    for _ in range(3):
        floods = [Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001),
                  Flood(pair.b, pair.a.v4, 700, burst=8, gap=0.001)]
        flowing(pair.a, pair.b)
        took = timed(victim.unplug)
        ksft_lt(took, slow(6), "seconds to unplug")
        for flood in floods:
            flood.stop()
        ksft_false(victim.exists())
        victim.plug()
        victim.port().wait_active()
        forget(pair)
        pair = hosts()
        ping_ok(pair.a.ns, pair.b.v4)
    tcp_transfer(pair.a, pair.b, 1 << 20)


def test_unplug_while_down():
    """An HCA whose interface is down goes quietly."""
    fabric.add_hca(5)
    wait_until(lambda: any(p.hca.number == 5 for p in fabric.ports()), 3)
    count = len(ifaces())
    hca(5).unplug()
    wait_until(lambda: len(ifaces()) == count - 1, 5, "its interface gone")


@timeout(90)
def test_down_up_under_traffic():
    """ip link set down and up, twenty times, under traffic."""
    pair = flood_both(hosts())
    slowest = 0
    for number in range(20):
        end = pair.a if number % 2 else pair.b
        slowest = max(slowest, timed(end.set, "down"))
        if number % 3:
            stagger(number % 5)
        end.up()
    ksft_pr(f"slowest down: {slowest:.2f} s")
    for end in pair:
        end.wait_carrier(20)
    pair.wait_ping(20)
    tcp_transfer(pair.a, pair.b, 1 << 20)
    for end in pair:
        end.port.no_mistakes()


@timeout(90)
def test_unload_under_traffic():
    """rmmod under traffic; loaded again, everything is there."""
    for _ in range(3):
        pair = hosts()
        floods = [Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001),
                  Flood(pair.b, pair.a.v4, 700, burst=8, gap=0.001)]
        flowing(pair.a, pair.b)
        took = timed(cmd, ["rmmod", "ib_ipoib"], timeout=slow(20))
        for flood in floods:
            flood.stop()
        ksft_pr(f"rmmod took {took:.2f} s")
        ksft_false(loaded())
        for each in (pair.a.port.hca, pair.b.port.hca):
            ksft_eq(each.data_qps(), [], f"QPs left on {each}")
        forget(pair)
        load_module()
    pair = hosts()
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(60)
def test_unload_at_once():
    """Loaded and unloaded at once, while joins are on their way."""
    forget(hosts())
    for number in range(6):
        if loaded():
            unload_module()
        load_module()
        for _, name, _ in ifaces():
            ip(["link", "set", name, "up"], fail=False)
        stagger(number, 0.02)
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)


def replaced(pair):
    """The second host's HCA is replaced, at the end of the case at the latest."""
    victim = pair.b.port.hca

    def replace():
        forget(pair)
        if victim.exists():
            victim.unplug()
        victim.plug()
        victim.port().wait_active()

    return defer(replace)


@fixed_in_ours("the HCA's own interface turns the carrier on again", on="own ud")
@timeout(90)
def test_device_fatal():
    """The HCA reports a fatal error: the interface goes down bounded, and
    the HCA can be replaced."""
    pair = hosts()
    victim = pair.b.port.hca
    again = replaced(pair)
    with Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001), \
            Flood(pair.b, pair.a.v4, 700, burst=8, gap=0.001):
        flowing(pair.a, pair.b)
        victim.set("fatal", 1)
        pair.b.wait_no_carrier()
        took = timed(pair.b.set, "down")
    ksft_lt(took, slow(6), "seconds to close")
    again.exec()
    new = hosts()
    ping_ok(new.a.ns, new.b.v4)


@fixed_in_ours("the HCA's own interface turns the carrier on again", on="own ud")
@timeout(60)
def test_device_fatal_unplugged():
    """A HCA with a fatal error is removed under traffic."""
    pair = hosts()
    victim = pair.b.port.hca
    again = replaced(pair)
    with Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001), \
            Flood(pair.b, pair.a.v4, 700, burst=8, gap=0.001):
        flowing(pair.a, pair.b)
        victim.set("fatal", 1)
        pair.b.wait_no_carrier()
        took = timed(victim.unplug)
    ksft_lt(took, slow(20), "seconds to remove")
    again.exec()
    new = hosts()
    ping_ok(new.a.ns, new.b.v4)


def break_qps(end):
    """Every datagram QP of the interface's HCA fails."""
    def failed():
        numbers = [qp.qpn for qp in end.port.hca.data_qps()]
        ksft_in(end.qpn(), numbers)
        return sum(end.port.hca.break_qp(number) for number in numbers)

    # Once one has failed all are rebuilt, and one in RESET can't fail: neither
    # the others, nor any if the last rebuilding is not over yet.
    wait_until(failed, 5, "QPs that fail")


@verbs_only("an HCA's own QP is its affair")
@timeout(60)
@ours_differs("the in-tree module does nothing on a QP's fatal error")
def test_qp_fatal():
    """A QP goes to the error state by itself: the interface heals."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    break_qps(pair.b)
    pair.wait_ping(10)
    pair.wait_ping(10, reverse=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@verbs_only("an HCA's own QP is its affair")
@timeout(60)
@ours_differs("the in-tree module does nothing on a QP's fatal error")
def test_qp_fatal_under_traffic():
    """The same under traffic, again and again."""
    pair = flood_both(hosts())
    for number in range(5):
        break_qps(pair.a if number % 2 else pair.b)
        pair.wait_ping(10)
    pair.wait_ping(10, reverse=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)


def fail_sends(pair, count):
    """The next @count sends of the first host fail."""
    pair.a.port.fault("send_error", count)

    def used_up():
        ping(pair.a.ns, pair.b.v4, limit=0.05)
        return pair.a.port.get("send_error") == "0"

    wait_until(used_up, 15, f"{count} send errors", interval=0.01)


@timeout(60)
def test_send_error():
    """A send fails and stops the send queue (SQE): it heals."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    for count in (1, 1, 5, 40):
        fail_sends(pair, count)
        pair.wait_ping(10)
    tcp_transfer(pair.a, pair.b, 2 << 20)
    tcp_transfer(pair.b, pair.a, 2 << 20)


@timeout(60)
@ours_differs("the in-tree module looks at its QP only when a send fails")
def test_send_queue_error():
    """The send queue stops by itself (SQE): the interface heals."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    for _ in range(3):
        pair.a.port.hca.set("qp_error", f"sqe {pair.a.qpn()}")
        pair.wait_ping(10)
        pair.wait_ping(10, reverse=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)


@ours_differs("the in-tree module does not count sends that failed")
def test_send_error_counted():
    """Sends that fail are counted as errors."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    errors = pair.a.stat("tx_errors")
    fail_sends(pair, 3)
    wait_until(lambda: pair.a.stat("tx_errors") >= errors + 3, 3,
               "three errors counted")
    pair.wait_ping(10)


@timeout(90)
def test_send_error_under_load():
    """Sends fail while the queue is full."""
    pair = hosts()
    stream = Stream(pair.a, pair.b)
    for _ in range(5):
        stream.wait_progress()
        pair.a.port.fault("send_error", 3)
        wait_until(lambda: pair.a.port.get("send_error") == "0", 15,
                   "send errors")
    stream.wait_progress(limit=30)
    stream.finish()


@timeout(60)
def test_wedged_close():
    """The HCA completes nothing any more: close does not wait for it."""
    pair = hosts()
    with Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001):
        usual = usual_close(pair.a)
        pair.wait_ping(20)
        fault = pair.a.port.fault("wedged", 1)
        stuck(pair.a)
        took = timed(pair.a.set, "down")
    quick(took, 5, usual, "to close")
    fault.exec()
    pair.a.up()
    pair.a.wait_carrier()
    pair.wait_ping()
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(60)
def test_wedged_all_close():
    """Management is wedged as well: close does not wait for that either."""
    pair = hosts()
    with Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001), \
            Flood(pair.a, "239.1.9.1", 200, gap=0.01):
        usual = usual_close(pair.a)
        pair.wait_ping(20)
        faults = [pair.a.port.fault(name, 1)
                  for name in ("wedged", "wedged_special")]
        stuck(pair.a)
        took = timed(pair.a.set, "down", timeout=slow(40))
    for fault in faults:
        fault.exec()
    pair.a.up()
    pair.a.wait_carrier(30)
    pair.wait_ping(20)
    quick(took, 5, usual, "to close")


@timeout(60)
def test_wedged_heals():
    """The HCA stands still for three seconds and goes on."""
    pair = hosts()
    stream = Stream(pair.a, pair.b)
    stream.wait_progress()
    fault = pair.a.port.fault("wedged", 1)
    stuck(pair.a)
    hold(3)
    fault.exec()
    stream.wait_progress(limit=30)
    stream.finish()


@timeout(90)
def test_wedged_unload():
    """Unloading with a wedged HCA ends in bounded time, without harm."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    usual = usual_close(pair.a)
    for end in pair:
        end.port.fault("wedged", 1)
    with Flood(pair.a, pair.b.v4, 700, burst=8, gap=0.001):
        stuck(pair.a)
        took = timed(cmd, ["rmmod", "ib_ipoib"], timeout=slow(40))
    quick(took, 25, 3 * usual, "to unload")
    forget(pair)
    fabric.clear_faults()
    load_module()
    pair = hosts()
    tcp_transfer(pair.a, pair.b, 1 << 20)


@timeout(90)
@fixed_in_ours("closing waits for the SA's retries, under rtnl")
def test_silent_sa_close():
    """The SA does not answer while a join is on its way: close is quick."""
    pair = hosts()
    end = pair.a
    usual = usual_close(end)
    end.set("down")
    fault = end.port.fault("sa_drop", 1)
    # Left open until the end of the case: the next one has new ends.
    defer(forget, pair)
    asked = unheard(end.port)
    end.up()
    asked()
    took = timed(end.set, "down", timeout=slow(30))
    fault.exec()
    quick(took, 1.5, usual, "to close")
    end.up()
    end.wait_carrier(20)
    pair.wait_ping(20)


@timeout(90)
def test_silent_sa_traffic():
    """With a silent SA known paths carry on, unknown ones do not hurt."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    faults = [end.port.fault("sa_drop", 1) for end in pair]
    with Flood(pair.a, "10.0.0.88", 200, gap=0.02), \
            Flood(pair.a, "239.7.7.7", 200, gap=0.02):
        ping_ok(pair.a.ns, pair.b.v4, count=10)
        tcp_transfer(pair.a, pair.b, 1 << 20)
    for fault in faults:
        fault.exec()
    ping_ok(pair.a.ns, pair.b.v4, count=3)


@fixed_in_ours("solicitations wait until the SA has let the group be joined")
def test_silent_sa_solicitation():
    """A new IPv6 address of a host with a known path is reached without the SA."""
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)
    ping_ok(pair.b.ns, pair.a.v4)
    faults = [end.port.fault("sa_drop", 1) for end in pair]
    ip(f"addr add fd00::99:2/64 dev {pair.b.ifname} nodad", ns=pair.b.ns)
    defer(ip, f"addr del fd00::99:2/64 dev {pair.b.ifname}", ns=pair.b.ns)
    ksft_true(ping(pair.a.ns, "fd00::99:2", limit=10))
    for fault in faults:
        fault.exec()


@timeout(120)
def test_silent_sa_unload():
    """Unloading with a silent SA ends in bounded time."""
    pair = hosts()
    usual = usual_close(pair.a)
    for end in pair:
        end.set("down")
        end.port.fault("sa_drop", 1)
    questions = [unheard(end.port) for end in pair]
    for end in pair:
        end.up()
    for asked in questions:
        asked()
    took = timed(cmd, ["rmmod", "ib_ipoib"], timeout=slow(60))
    ksft_pr(f"rmmod took {took:.2f} s")
    forget(pair)
    fabric.clear_faults()
    load_module()
    # In-tree module: waits for retries; bounded is enough there.
    if module() != "stock":
        quick(took, 8, 3 * usual, "to unload")
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(60)
@fixed_in_ours("others wait for the rtnl lock meanwhile")
def test_silent_sa_rtnl():
    """Nobody else waits long for the rtnl lock while the SA is silent."""
    pair = hosts()
    end = pair.a
    usual = usual_close(end)
    end.set("down")
    end.port.fault("sa_drop", 1)
    defer(forget, pair)
    asked = unheard(end.port)
    end.up()
    asked()
    closer = threading.Thread(target=lambda: end.set("down", fail=False,
                                                     timeout=slow(30)))
    closer.start()
    took = timed(ip, "link set lo up", timeout=slow(30))
    while closer.is_alive():
        took = max(took, timed(ip, "link set lo up", timeout=slow(30)))
    quick(took, 1.5, usual, "that another rtnl user waited")


@timeout(90)
def test_slow_sa():
    """An SA that takes 300 ms: everything works, later."""
    pair = hosts()
    for end in pair:
        end.port.fault("mad_delay_ms", 300)
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier(30)
    neigh_flush(pair.a)
    pair.wait_ping(30)


@timeout(90)
def test_lossy_sa():
    """Every third MAD is lost: retries get through."""
    pair = hosts()
    for end in pair:
        end.port.fault("mad_drop", 3)
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier(40)
    pair.wait_ping(30)


@timeout(90)
def test_other_hca_undisturbed():
    """A port that waits for a silent SA does not hold up another's events."""
    pair = hosts()
    fabric.add_hca(5)
    other = any_ends(port(0), port(5), ("h0", "h5"), 5, keep=False)
    pair.a.set("down")
    fault = pair.a.port.fault("sa_drop", 1)
    asked = unheard(pair.a.port)
    pair.a.up()
    asked()
    asked = unheard(pair.a.port)
    pair.a.port.event("lid_change")
    asked()
    begin = now()
    other.b.port.link(False)
    other.b.wait_no_carrier(5)
    other.b.port.link(True)
    other.b.wait_carrier(15)
    other.wait_ping()
    ksft_pr(f"the other port recovered in {now() - begin:.1f} s")
    fault.exec()
    pair.a.wait_carrier(40)


@timeout(60)
def test_namespace_deleted_under_traffic():
    """The namespace of an interface goes away under traffic."""
    pair = hosts()
    name = pair.b.ifname
    with Flood(pair.a, pair.b.v4, 700, burst=4, gap=0.001):
        flowing(pair.b)
        pair.b.drop()
        wait_until(lambda: exists(f"/sys/class/net/{name}"), 10, "home again")
    forget(pair)
    pair = hosts()
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(120)
def test_concurrent_administration():
    """Down, up, MTU, names of files and events, from several threads."""
    pair = hosts()
    stop = threading.Event()
    errors = []
    rounds = {}

    def loop(action):
        while not stop.is_set():
            rounds[action] = rounds.get(action, 0) + 1
            try:
                action()
            except (OSError, Failed):
                pass
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)

    actions = [lambda: (pair.a.set("down", fail=False), pair.a.up()),
               lambda: (pair.a.set_mtu(1500, fail=False),
                        pair.a.set_mtu(2044, fail=False)),
               lambda: read(pair.a.sys("mode")),
               lambda: pair.a.port.event("client_reregister"),
               lambda: ping(pair.b.ns, pair.a.v4, limit=0.05),
               lambda: read(f"/sys/kernel/debug/ipoib/{pair.a.ifname}_mcg")]
    threads = [threading.Thread(target=loop, args=(a,)) for a in actions]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(rounds) == len(actions) and
               min(rounds.values()) > 3, 20, "three rounds of each")
    stop.set()
    for thread in threads:
        thread.join(slow(10))
    ksft_eq([str(e) for e in errors], [])
    pair.a.set("down")
    pair.a.set_mtu(2044)
    pair.a.up()
    pair.a.wait_carrier(20)
    pair.wait_ping(20)
    ksft_ge(pair.a.mtu(), 2044)
    ksft_true(loaded())
    ksft_le(len(ifaces()), 3)
