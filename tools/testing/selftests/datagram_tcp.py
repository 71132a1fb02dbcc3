# SPDX-License-Identifier: GPL-2.0-only
"""Streams and load: TCP with verified content, offloads, queues, GRO."""

from lib import (Capture, Flood, Stream, UdpSink, counted, defer, ends, exists,
                 kmsg_since, ksft_eq, ksft_ge, ksft_gt, ksft_le, ksft_lt, ksft_pr,
                 not_ud, ping_ok, read_int, settled, slow, tcp_transfer, timeout,
                 udp_exchange, wait_until)
from lib.traffic import (_addr, tcp_both_ways, tcp_many, tcp_small_segments,
                         udp_send)

BOOT = {"hcas": 2, "seconds": 50}

MIB = 1 << 20


def test_tcp_ipv4():
    """TCP over IPv4, one way and the other."""
    pair = ends()
    tcp_transfer(pair.a, pair.b, 16 * MIB)
    tcp_transfer(pair.b, pair.a, 16 * MIB)


def test_tcp_ipv6():
    """TCP over IPv6, one way and the other."""
    pair = ends()
    tcp_transfer(pair.a, pair.b, 8 * MIB, address=pair.b.v6)
    tcp_transfer(pair.b, pair.a, 8 * MIB, address=pair.a.v6)


def test_tcp_both_ways():
    """Both ways at once, in both families."""
    tcp_both_ways(ends(), 4 * MIB)


def test_tcp_many():
    """Sixteen streams at once."""
    tcp_many(ends(), MIB // 2)


def test_tcp_small_segments():
    """Segments of all sizes: small MSS, odd lengths."""
    tcp_small_segments(ends())


def test_offloads_toggled():
    """Checksum and segmentation offload switched under traffic."""
    pair = ends()
    caps = pair.a.port.hca.caps()
    features = ["gso", "gro", "sg"]
    if caps["csum"]:
        features += ["tx", "rx"]
    if caps["lso"]:
        features += ["tso"]
    stream = Stream(pair.a, pair.b)
    for end in pair:
        defer(end.ethtool, "-K sg on tx on rx on tso on gso on gro on",
              fail=False)
    for feature in features:
        for state in ("off", "on"):
            for end in pair:
                end.ethtool(f"-K {feature} {state}")
            stream.wait_progress(200000)
    stream.finish()
    for state in ("off", "on"):
        for end in pair:
            end.ethtool("-K " + " ".join(f"{f} {state}" for f in features),
                        fail=False)
        tcp_transfer(pair.a, pair.b, 2 * MIB)
        got = udp_exchange(pair.a, pair.b, 20, 5000)
        ksft_eq((len(got.seen), got.bad), (20, 0))


def test_offload_used():
    """With LSO, segments are cut by the HCA, not by the stack."""
    pair = ends()
    pair.a.port.hca.need(lso=1)
    before = pair.a.port.counters()
    stats = pair.a.stats()
    tcp_transfer(pair.a, pair.b, 8 * MIB)
    after = pair.a.port.counters()
    packets = after["tx_packets"] - before["tx_packets"]
    requests = after["tx_wrs"] - before["tx_wrs"]
    ksft_gt(packets, 8 * MIB // 2044)
    # A slow sender's TCP makes short bursts; without LSO the two are equal.
    ksft_lt(requests, packets * 3 / 4, "work requests for so many packets")
    # A send is counted when it completes, which may be after the last ACK.
    counted(pair.a, stats, tx_bytes=8 * MIB)


@not_ud("it merges nothing")
def test_gro():
    """Segments are merged on their way up."""
    pair = ends()
    mtu = pair.b.mtu()
    with Capture(pair.b, 0x0800) as packets:
        tcp_transfer(pair.a, pair.b, 4 * MIB)
    sizes = [len(p.data) for p in packets.of(0x0800) if p.data[9] == 6]
    ksft_ge(max(sizes), 3 * mtu, "largest packet the stack saw")
    ksft_ge(sum(sizes) / len(sizes), 1.5 * mtu, "mean")
    ksft_pr(f"GRO: mean {sum(sizes) / len(sizes):.0f}, "
            f"largest {max(sizes)} bytes")


def test_gro_off():
    """Without GRO every packet comes up by itself."""
    pair = ends()
    pair.b.ethtool("-K gro off")
    defer(pair.b.ethtool, "-K gro on")
    with Capture(pair.b, 0x0800) as packets:
        tcp_transfer(pair.a, pair.b, MIB)
    sizes = [len(p.data) for p in packets.of(0x0800) if p.data[9] == 6]
    ksft_le(max(sizes), pair.b.mtu())
    ksft_ge(len(sizes), MIB // pair.b.mtu())


def test_udp_counted():
    """Under a burst that overruns nothing, all counters agree."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    settled(*pair)
    sent, got = 0, 0
    before_a, before_b = pair.a.stats(), pair.b.stats()
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(2, 2) as sock:
        for _ in range(40):
            sent += udp_send(sock, _addr(pair.b.v4, sink.port), 50, 1000,
                             first=sent)
            got = sink.collect(sent, slow(2))
        ksft_eq(got, sent, "datagrams")
        ksft_eq(sink.bad, 0)
    for end, name, before in ((pair.b, "rx_packets", before_b),
                              (pair.a, "tx_packets", before_a)):
        # Sends may be counted when they complete.
        counted(end, before, **{name: sent})
        ksft_le(end.stat(name) - before[name], sent + 20)


def test_udp_flood():
    """A flood faster than its receiver: losses are counted somewhere."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    before = pair.b.stats()
    hca_before = pair.b.port.counters()
    with UdpSink(pair.b.ns, pair.b.v4) as sink:
        with Flood(pair.a, pair.b.v4, 200, port=sink.port, burst=64) as flood:
            wait_until(lambda: flood.sent > 5000, 20, "5000 datagrams")
        sent = flood.sent
        wait_until(lambda: pair.b.stat("rx_packets") > before["rx_packets"],
                   3, "something received")
        sink.collect(sent, slow(0.5))
        ksft_eq(sink.bad, 0)
        ksft_gt(len(sink.seen), sent // 20)
    moved = pair.b.stat("rx_packets") - before["rx_packets"]
    lost = pair.b.port.counters()["drop_no_recv"] - hca_before["drop_no_recv"]
    ksft_pr(f"{sent} sent, {moved} received, {lost} found no receive")
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))


def test_slow_fabric():
    """Packets that take their time: the queue stops and goes on."""
    pair = ends()
    for end in pair:
        end.port.fault("delay_us", 3000)
    tcp_transfer(pair.a, pair.b, 2 * MIB, limit=60)
    got = udp_exchange(pair.a, pair.b, 100, 1000)
    ksft_eq((len(got.seen), got.bad), (100, 0))


def test_deferred_transmit():
    """Sends complete late: the ring fills, the queue wakes up again."""
    pair = ends()
    for end in pair:
        end.port.fault("defer_tx", 1)
    for _ in range(3):
        tcp_transfer(pair.a, pair.b, 2 * MIB)
        tcp_transfer(pair.b, pair.a, 2 * MIB)
    streams = [Stream(pair.a, pair.b, total=MIB) for _ in range(8)]
    for stream in streams:
        stream.finish(60)
    for end in pair:
        end.port.no_mistakes()


def test_loss():
    """TCP gets through a fabric that loses and reorders packets."""
    pair = ends()
    for end in pair:
        end.port.fault("loss_ppm", 5000)
        end.port.fault("jitter_us", 300)
    tcp_transfer(pair.a, pair.b, MIB, limit=60)
    tcp_transfer(pair.b, pair.a, MIB, address=pair.a.v6, limit=60)


def test_truncated():
    """Packets cut short on the wire are not taken for whole ones."""
    pair = ends()
    knob = pair.a.port.fault("truncate", 7)
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(2, 2) as sock:
        udp_send(sock, _addr(pair.b.v4, sink.port), 30, 600)
        sink.collect(1, slow(0.3))
        ksft_eq((len(sink.seen), sink.bad), (0, 0), "datagrams")
    knob.exec()
    ping_ok(pair.a.ns, pair.b.v4, count=3, limit=slow(2))
    tcp_transfer(pair.a, pair.b, MIB)


def test_send_post_error():
    """The HCA refuses sends for a while: dropped, counted, healed."""
    pair = ends()
    before = pair.a.stats()
    pair.a.port.fault("send_post_error", 50)
    with UdpSink(pair.b.ns, pair.b.v4) as sink, \
            pair.a.ns.socket(2, 2) as sock:
        udp_send(sock, _addr(pair.b.v4, sink.port), 200, 300)
        wait_until(lambda: pair.a.port.get("send_post_error") == "0" or
                   not udp_send(sock, _addr(pair.b.v4, sink.port), 10, 300),
                   5, "the refusals are used up")
        sink.collect(200, slow(0.5))
        ksft_eq(sink.bad, 0)
    after = pair.a.stats()
    ksft_gt(after["tx_errors"] + after["tx_dropped"],
            before["tx_errors"] + before["tx_dropped"], "counted")
    tcp_transfer(pair.a, pair.b, 2 * MIB)
    pair.a.set("down")
    pair.a.up()
    pair.a.wait_carrier()
    pair.wait_ping()


@timeout(90)
def test_transmit_stress():
    """Many short storms: no wake-up of the queue is lost."""
    pair = ends()
    for _ in range(15):
        floods = [Flood(pair.a, pair.b.v4, 60 + 400 * n, burst=32)
                  for n in range(3)]
        wait_until(lambda f=floods: sum(x.sent for x in f) > 1500, 10,
                   "a storm", interval=0.005)
        for flood in floods:
            flood.stop()
        # What the queue still holds may be too much for the peer's ring, but
        # the queue goes on, and not with the watchdog's help.
        pair.wait_ping()
    ksft_eq(kmsg_since(
        pattern="NETDEV WATCHDOG|transmit queue .* timed out"), [])


def test_watchdog_silent():
    """Nothing above made the device watchdog bark."""
    pair = ends()
    queues = pair.a.sys("queues")
    for number in range(16):
        path = f"{queues}/tx-{number}/tx_timeout"
        if exists(path):
            ksft_eq(read_int(path), 0, f"tx-{number}")
    for end in pair:
        end.port.no_mistakes()
