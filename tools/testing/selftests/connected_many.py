# SPDX-License-Identifier: GPL-2.0-only
"""Connected mode with 64 peers at once: to one host, and from it."""

from lib import (End, Flood, Stream, UdpSink, defer, hca, ksft_eq, ksft_ge,
                 ksft_le, ksft_pr, now, ping, ping_ok, port, slow, timeout,
                 wait_until)
from lib.connected import (conns, counter, counters, established, set_mode,
                           to_datagram)
from lib.traffic import _addr, udp_send

BOOT = {"hcas": 33, "ports": 2, "ipoib": "ours", "mem": 1536,
        "fabric": "switch_ports=80", "seconds": 180}
VERBS_ONLY = "connected mode"

PEERS = 64
_hosts = []


def hosts():
    """The one, and its peers; set up once."""
    if not _hosts:
        where = [port(0)] + [port(number, num) for number in range(1, 33)
                             for num in (1, 2)]
        for number, which in enumerate(where[:PEERS + 1]):
            end = End(f"h{number}", which, number + 1, 0)
            end.setup()
            _hosts.append(end)
        for end in _hosts:
            end.wait_carrier(60)
            set_mode(end, "connected")
    return _hosts[0], _hosts[1:]


def connect(one, peers):
    """Connections to all of them and from all of them."""
    def there():
        for peer in peers:
            ping(peer.ns, one.v4, limit=0.2)
            ping(one.ns, peer.v4, limit=0.2)
        return len(established(one, "us")) >= len(peers) and \
            len(established(one, "peer")) >= len(peers)

    wait_until(there, 60, f"{2 * len(peers)} connections", interval=0.2)


@timeout(300)
def test_all_connected():
    """Each of 64 peers has a connection to the one, and it to each."""
    one, peers = hosts()
    begin = now()
    connect(one, peers)
    ksft_pr(f"{2 * len(peers)} connections after {now() - begin:.1f} s")
    stats = counters(one)
    ksft_ge(stats["conn_active"], PEERS)
    ksft_ge(stats["conn_passive"], PEERS)
    for peer in peers:
        ping_ok(one.ns, peer.v4, size=20000, limit=slow(3))


@timeout(200)
def test_incast():
    """All send to the one at once: all arrives, no connection is lost."""
    one, peers = hosts()
    connect(one, peers)
    broken = sum(counter(end, "conn_broken") for end in (one, *peers))
    with UdpSink(one.ns, one.v4) as sink:
        socks = [peer.ns.socket(2, 2) for peer in peers]
        sent = 0
        for _ in range(4):
            for sock in socks:
                sent += udp_send(sock, _addr(one.v4, sink.port), 2, 8000,
                                 first=sent)
            sink.collect(sent, slow(2))
        for sock in socks:
            sock.close()
        ksft_eq((len(sink.seen), sink.bad), (sent, 0), "datagrams")
    ksft_eq(sum(counter(end, "conn_broken") for end in (one, *peers)), broken)


@timeout(200)
def test_streams():
    """Streams from 16 of them, and to 16."""
    one, peers = hosts()
    connect(one, peers)
    streams = [Stream(peer, one, total=1 << 20) for peer in peers[:16]]
    streams += [Stream(one, peer, total=1 << 20) for peer in peers[16:32]]
    for stream in streams:
        stream.finish(90)


@timeout(200)
def test_switch_under_load():
    """The one leaves connected mode with all connections busy: in time."""
    one, peers = hosts()
    for _ in range(3):
        connect(one, peers)
        floods = [Flood(peer, one.v4, 8000, gap=0.01) for peer in peers[:16]]
        floods += [Flood(one, peer.v4, 8000, gap=0.01)
                   for peer in peers[:16]]
        for flood in floods:
            defer(flood.stop)
        wait_until(lambda f=floods: min(x.sent for x in f) > 5, 20, "load")
        begin = now()
        set_mode(one, "datagram")
        took = now() - begin
        ksft_pr(f"left in {took * 1000:.0f} ms")
        ksft_le(took, slow(5))
        ksft_eq(conns(one), [])
        set_mode(one, "connected")
        for flood in floods:
            flood.stop()


@timeout(200)
def test_peers_die():
    """Half of them go at once: the rest do not notice."""
    one, peers = hosts()
    connect(one, peers)
    begin = now()
    for number in range(17, 33):
        hca(number).unplug()
    ksft_pr(f"16 HCAs gone in {now() - begin:.1f} s")
    for peer in peers[:32]:
        ping_ok(one.ns, peer.v4, size=20000, limit=slow(3))
    wait_until(lambda: len(established(one)) <= 64, 40,
               "connections of the dead closed")
    for end in (one, *peers[:32]):
        to_datagram(end)
    ksft_eq(conns(one), [])
    one.port.no_mistakes()
    del _hosts[:]
