# SPDX-License-Identifier: GPL-2.0-only
"""ARP, neighbour discovery, IPv4 and IPv6 in datagrams."""

import socket
import struct

from lib import (Capture, Failed, Tracer, defer, ends, fixed_in_ours, hold, in_groups,
                 ip, ksft_eq, ksft_ge, ksft_gt, ksft_in, ksft_le, ksft_ne, ksft_raises,
                 ksft_true, neigh_flush, not_ud, ours_only, ping, ping_ok, port, slow,
                 tcp_transfer, timeout, udp_exchange, wait_until)
from lib.connected import counter

BOOT = {"hcas": 2, "seconds": 40}

ETH_P_ARP = 0x0806
ETH_P_IPV6 = 0x86dd
V4_HEAD, V6_HEAD = 28, 48       # IP and ICMP


def neigh(end, address):
    """The neighbour entry of an address, or an empty dictionary."""
    found = ip(["neigh", "show", "to", address, "dev", end.ifname],
               ns=end.ns, json_out=True)
    return found[0] if found else {}


def test_arp():
    """ARP finds the neighbour's 20-byte address."""
    pair = ends()
    neigh_flush(pair.a)
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))
    entry = neigh(pair.a, pair.b.v4)
    ksft_in(entry["state"][0], ("REACHABLE", "DELAY"))
    ksft_eq(bytes.fromhex(entry["lladdr"].replace(":", "")),
            pair.b.address())


@not_ud("all packets are told to be for the host")
def test_arp_format():
    """ARP on the wire: hardware type 32, length 20."""
    pair = ends()
    # The peer goes first: one that probes would be known from that.
    neigh_flush(pair.b)
    neigh_flush(pair.a)
    with Capture(pair.b, ETH_P_ARP) as packets:
        ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))
        request = packets.wait(lambda p: p.kind == "broadcast")
    ksft_true(request, "a broadcast ARP request")
    hrd, pro, hln, pln, oper = struct.unpack(">HHBBH", request.data[:8])
    ksft_eq((hrd, pro, hln, pln, oper), (32, 0x0800, 20, 4, 1))
    ksft_eq(request.data[8:28], pair.a.address())
    ksft_eq(request.data[28:32], socket.inet_aton(pair.a.v4))


def test_ipv4_sizes():
    """Echoes of every kind of size, up to the MTU, unfragmented."""
    pair = ends()
    sizes = [*range(0, 20), 36, 37, 100, 101, 102, 103, 227, 228, 229, 512,
             1000, 1023, 1024, 1472, 1473, *range(2044 - 28 - 8, 2044 - 27)]
    for size in sizes:
        ping_ok(pair.a.ns, pair.b.v4, size=size, df=True)
        ping_ok(pair.b.ns, pair.a.v4, size=size, df=True)
    with ksft_raises(OSError, "longer than the MTU with DF"):
        ping(pair.a.ns, pair.b.v4, size=2044 - 27, df=True)


def test_ipv4_fragments():
    """What does not fit goes in fragments."""
    pair = ends()
    for size in (2044 - 27, 2048, 4000, 8192, 20000, 65507 - 8):
        ping_ok(pair.a.ns, pair.b.v4, size=size, limit=slow(2))
    ping_ok(pair.b.ns, pair.a.v4, size=30000, limit=slow(2))


def test_ipv6_discovery():
    """Neighbour discovery; the link-layer option is three units long."""
    pair = ends()
    neigh_flush(pair.b)
    neigh_flush(pair.a)
    with Capture(pair.b, ETH_P_IPV6) as packets:
        ping_ok(pair.a.ns, pair.b.v6, limit=slow(2))
        solicit = packets.wait(lambda p: p.data[6] == 58 and
                               p.data[40] == 135 and len(p.data) > 64)
    ksft_true(solicit, "a neighbour solicitation")
    option = solicit.data[64:]
    ksft_eq(option[0], 1, "source link-layer address")
    ksft_eq(option[1], 3, "length in units of 8 bytes")
    ksft_eq(option[2:4], b"\0\0", "padding")
    ksft_eq(option[4:24], pair.a.address())
    entry = neigh(pair.a, pair.b.v6)
    ksft_eq(bytes.fromhex(entry["lladdr"].replace(":", "")),
            pair.b.address())


def test_ipv6_sizes():
    """IPv6 echoes up to the MTU and beyond."""
    pair = ends()
    for size in (0, 1, 2, 3, 8, 100, 1000, 1232, 1452, 2044 - V6_HEAD - 1,
                 2044 - V6_HEAD):
        ping_ok(pair.a.ns, pair.b.v6, size=size, df=True)
        ping_ok(pair.b.ns, pair.a.v6, size=size, df=True)
    for size in (2044 - V6_HEAD + 1, 4000, 20000, 65000):
        ping_ok(pair.a.ns, pair.b.v6, size=size, limit=slow(2))


def test_ipv6_link_local():
    """The link-local address comes from the port GUID; it answers."""
    pair = ends()
    guid = bytearray(pair.b.port.guid().to_bytes(8, "big"))
    guid[0] |= 2
    want = socket.inet_ntop(socket.AF_INET6,
                            b"\xfe\x80" + bytes(6) + bytes(guid))
    info = ip(["addr", "show", "dev", pair.b.ifname, "scope", "link"],
              ns=pair.b.ns, json_out=True)
    found = [a.get("local") for link in info
             for a in link.get("addr_info", [])]
    ksft_in(want, found)
    ping_ok(pair.a.ns, want, iface=pair.a.ifname, limit=slow(2))


@in_groups("datagram")
@ours_only("it knows no such counter")
@timeout(120)
def test_probes_of_addresses():
    """
    Probes of several addresses of a healthy peer cause no SA queries: answers to
    unicast neighbour solicitations tell no link-layer address.
    """
    pair = ends()
    peers = [pair.b.v6]
    for number in range(1, 4):
        peers.append(f"fd00::a:{number:x}")
        ip(["addr", "add", f"{peers[-1]}/64", "dev", pair.b.ifname, "nodad"],
           ns=pair.b.ns)
        defer(ip, ["addr", "del", f"{peers[-1]}/64", "dev", pair.b.ifname],
              ns=pair.b.ns)
    where = f"net.ipv6.neigh.{pair.a.ifname}"
    # Each address is probed after 7 to 19 seconds, not twice in five.
    for name, value in (("base_reachable_time_ms", 12000),
                        ("delay_first_probe_time", 1)):
        defer(pair.a.ns.sysctl, f"{where}.{name}",
              pair.a.ns.sysctl(f"{where}.{name}"))
        pair.a.ns.sysctl(f"{where}.{name}", value)
    for peer in peers:
        ping_ok(pair.a.ns, peer)
    before = counter(pair.a, "path_queries")
    for _ in range(50):
        for peer in peers:
            ping_ok(pair.a.ns, peer, limit=slow(2))
        hold(0.5)
    ksft_le(counter(pair.a, "path_queries") - before, 1, "queries")


@fixed_in_ours("the only solicitation goes where the fabric carries nothing yet")
def test_duplicate_address():
    """Duplicate address detection finds a duplicate by its first solicitation."""
    pair = ends()
    pair.b.ns.sysctl(f"net.ipv6.conf.{pair.b.ifname}.accept_dad", 1)
    defer(pair.b.ns.sysctl, f"net.ipv6.conf.{pair.b.ifname}.accept_dad", 0)
    ip(["addr", "add", f"{pair.a.v6}/64", "dev", pair.b.ifname], ns=pair.b.ns)
    defer(ip, ["addr", "del", f"{pair.a.v6}/64", "dev", pair.b.ifname],
          ns=pair.b.ns)

    def failed():
        info = ip(["addr", "show", "dev", pair.b.ifname], ns=pair.b.ns,
                  json_out=True)
        return [a for link in info for a in link.get("addr_info", [])
                if a.get("local") == pair.a.v6 and a.get("dadfailed")]

    wait_until(failed, 10, "the duplicate to be found")


def test_static_neighbour():
    """A neighbour entry set by hand works without ARP."""
    pair = ends()
    lladdr = pair.b.read("address")
    ip(["neigh", "replace", pair.b.v4, "lladdr", lladdr, "nud", "permanent",
        "dev", pair.a.ifname], ns=pair.a.ns)
    defer(ip, ["neigh", "del", pair.b.v4, "dev", pair.a.ifname],
          ns=pair.a.ns)
    with Capture(pair.b, ETH_P_ARP) as packets:
        ping_ok(pair.a.ns, pair.b.v4, count=3, limit=slow(2))
        asked = [p for p in packets.packets
                 if p.data[28:32] == socket.inet_aton(pair.a.v4) and
                 p.data[6:8] == b"\0\1"]
    ksft_eq(asked, [], "ARP requests of h1")


def test_wrong_qpn():
    """A neighbour entry with a wrong QPN: lost and counted, then healed."""
    pair = ends()
    right = pair.b.address()
    wrong = right[:1] + b"\xab\xcd\xef" + right[4:]
    ip(["neigh", "replace", pair.b.v4, "lladdr", wrong.hex(":"), "nud",
        "permanent", "dev", pair.a.ifname], ns=pair.a.ns)
    entry = defer(neigh_flush_all, pair.a)
    before = pair.b.port.counter("drop_no_qp")
    ksft_eq(ping(pair.a.ns, pair.b.v4, count=5, limit=0.2), 0, "replies")
    ksft_ge(pair.b.port.counter("drop_no_qp") - before, 5)
    entry.exec()
    ping_ok(pair.a.ns, pair.b.v4, limit=slow(2))


def neigh_flush_all(end):
    """Forget every neighbour, the permanent ones, too."""
    ip(["neigh", "flush", "dev", end.ifname, "nud", "all"], ns=end.ns,
       fail=False)


def test_unknown_gid():
    """A neighbour entry with a GID nobody has: nothing waits for ever."""
    pair = ends()
    right = pair.b.address()
    wrong = right[:12] + bytes(7) + b"\x77"
    ip(["neigh", "replace", "10.0.0.77", "lladdr", wrong.hex(":"), "nud",
        "permanent", "dev", pair.a.ifname], ns=pair.a.ns)
    defer(neigh_flush_all, pair.a)
    ksft_eq(ping(pair.a.ns, "10.0.0.77", count=4, limit=0.2), 0)
    ping_ok(pair.a.ns, pair.b.v4)
    # The device goes down although that path was never found.
    pair.a.set("down", timeout=slow(4))
    pair.a.up()
    pair.a.wait_carrier()
    pair.wait_ping()


def test_flush_under_traffic():
    """Neighbours are flushed again and again while TCP runs."""
    # pylint: disable=import-outside-toplevel
    from lib import Stream
    pair = ends()
    stream = Stream(pair.a, pair.b)
    for _ in range(10):
        neigh_flush(pair.a)
        neigh_flush(pair.b)
        stream.wait_progress(100000)
    stream.finish()


def test_peer_changes_address():
    """A peer moves to another QPN (down and up): ARP finds it again."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    old = pair.b.address()
    pair.b.set("down")
    pair.b.up()
    pair.b.wait_carrier()
    took = pair.wait_ping(20)
    ksft_le(took, slow(20))
    ksft_eq(pair.b.address()[4:], old[4:], "the GID stays")
    ping_ok(pair.a.ns, pair.b.v4, count=3)


# An ethertype that is for experiments
OTHER = 0x88b5


def send_other(pair, count):
    """Packets that IPoIB does not carry."""
    peer = pair.b.address()
    with pair.a.ns.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock, \
            pair.a.ns.inside():
        # The device's hard header: destination, then the 4 bytes of IPoIB.
        sock.bind((pair.a.ifname, OTHER))
        for _ in range(count):
            sock.send(peer + struct.pack(">HH", OTHER, 0) + bytes(60))


@ours_only("the in-tree module gives no reasons")
def test_drop_reason():
    """The tracepoint skb:kfree_skb has the reason why a packet was dropped."""
    pair = ends()
    with Tracer(("skb:kfree_skb", f"protocol == {OTHER:#x}")) as trace:
        send_other(pair, 3)
        drops = wait_until(lambda: [line for line in trace.lines()
                                    if "kfree_skb" in line], 3, "drops")
    ksft_eq(len(drops), 3)
    for line in drops:
        ksft_in("reason: UNHANDLED_PROTO", line)
    ping_ok(pair.a.ns, pair.b.v4)


@fixed_in_ours("on an HCA's own interface it does not count them", on="own")
def test_other_protocols():
    """Ethertypes that IPoIB does not carry are dropped, and counted."""
    pair = ends()
    dropped = pair.a.stat("tx_dropped") + pair.a.stat("tx_errors")
    send_other(pair, 5)
    wait_until(lambda: pair.a.stat("tx_dropped") + pair.a.stat("tx_errors") >=
               dropped + 5, 2, "five drops counted")
    ping_ok(pair.a.ns, pair.b.v4)


def test_broadcast():
    """An IPv4 broadcast reaches the others, once, and not its sender."""
    pair = ends()
    sink = pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own = pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sink, own:
        sink.bind(("", 5555))
        own.bind(("", 5555))
        sink.settimeout(slow(1))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        with Capture(pair.a) as echoes:
            for number in range(10):
                own.sendto(b"to all %d" % number, ("10.0.0.255", 5555))
            got = [sink.recv(100) for _ in range(10)]
            sink.settimeout(0.2)
            with ksft_raises(OSError, "a datagram too many"):
                sink.recv(100)
        back = [p for p in echoes.of(0x0800) if b"to all" in p.data and
                p.kind != "outgoing"]
    ksft_eq(got, [b"to all %d" % n for n in range(10)])
    # The stack gives the sender its copy through loopback; the driver, none.
    ksft_eq(back, [], "own broadcasts from the wire")


def test_udp_sizes():
    """UDP datagrams of all sizes, in both families."""
    pair = ends()
    for family, head in (("v4", 28), ("v6", 48)):
        address = getattr(pair.b, family)
        for size in (8, 9, 63, 64, 65, 127, 128, 255, 256, 257, 1400,
                     2044 - head - 1, 2044 - head, 2044 - head + 1, 9000,
                     60000):
            got = udp_exchange(pair.a, pair.b, 4, size, address)
            ksft_eq(len(got.seen), 4, f"{family}, {size} bytes")
            ksft_eq(got.bad, 0)
            ksft_eq(got.duplicates(), 0)


def test_udp_no_checksum():
    """UDP without a checksum is delivered, too."""
    pair = ends()
    got = udp_exchange(pair.a, pair.b, 20, 900, no_csum=True)
    ksft_eq(len(got.seen), 20)
    ksft_eq(got.bad, 0)


def test_udp_burst():
    """A burst to a known neighbour arrives whole."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    got = udp_exchange(pair.a, pair.b, 100, 1500)
    ksft_eq((len(got.seen), got.bad, got.duplicates()), (100, 0, 0))


def test_address_taken_over():
    """Another host takes over an IP address: a gratuitous ARP is heard."""
    pair = ends()
    extra = "10.0.0.50"
    ip(["addr", "add", f"{extra}/24", "dev", pair.b.ifname], ns=pair.b.ns)
    defer(ip, ["addr", "del", f"{extra}/24", "dev", pair.b.ifname],
          ns=pair.b.ns, fail=False)
    ping_ok(pair.a.ns, extra, limit=slow(2))
    ksft_eq(neigh(pair.a, extra)["lladdr"].replace(":", ""),
            pair.b.address().hex())


def test_dhcp_broadcast():
    """A host without an address broadcasts from 0.0.0.0, as DHCP does."""
    pair = ends()
    with pair.b.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, \
            pair.a.ns.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        server.bind(("", 67))
        server.settimeout(slow(1))
        with pair.a.ns.inside():
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE,
                              pair.a.ifname.encode())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        client.bind(("0.0.0.0", 68))
        client.sendto(b"discover", ("255.255.255.255", 67))
        ksft_eq(server.recv(100), b"discover")


def test_strict():
    """None of this made the HCA complain."""
    pair = ends()
    tcp_transfer(pair.a, pair.b, 1 << 20)
    for end in pair:
        end.port.no_mistakes()
    ksft_ne(port(0).counter("tx_packets"), 0)
    ksft_gt(port(1).counter("rx_packets"), 0)
    if ping(pair.a.ns, "10.0.0.99", limit=0.1):
        raise Failed("somebody answers for 10.0.0.99")
