# SPDX-License-Identifier: GPL-2.0-only
"""What an interface is: properties, carrier, MTU, sysfs, ethtool, debugfs."""

import re
import socket

from lib import (ROOT, Tracer, any_ends, cmd, counted, defer, ends, exists,
                 fabric, fixed_in_ours, hca, ifaces, ip, ksft_eq, ksft_false,
                 ksft_ge, ksft_gt, ksft_in, ksft_le, ksft_lt, ksft_ne, ksft_not_in,
                 ksft_raises, ksft_true, load_module, loaded, now,
                 ours_differs, ours_only, ping, ping_ok, port, read, read_int,
                 settled, slow, sm, tcp_transfer, timeout, udp_exchange,
                 unload_module, verbs_only, wait_until, write)
from lib.ipoib import iface_of
from lib.ksft import module_kind
from lib.tracing import events_of

BOOT = {"hcas": 2, "seconds": 60}

PARAMETERS = "/sys/module/ib_ipoib/parameters"
DEBUGFS = "/sys/kernel/debug/ipoib"
BROADCAST = bytes.fromhex("00ffffffff12401bffff000000000000ffffffff")


def test_properties():
    """Type, address length, broadcast address, MTU, flags, link kind."""
    for end in ends():
        link = end.link()
        ksft_eq(link["link_type"], "infiniband")
        ksft_eq(end.read("type"), "32")
        ksft_eq(end.read("addr_len"), "20")
        ksft_eq(bytes.fromhex(end.read("broadcast").replace(":", "")),
                BROADCAST)
        ksft_eq(end.mtu(), 2044)
        for flag in ("BROADCAST", "MULTICAST", "UP", "LOWER_UP"):
            ksft_in(flag, link["flags"])
        wait_until(lambda: end.link()["operstate"] == "UP", 5, "UP")
        ksft_eq(link["linkinfo"]["info_kind"], "ipoib")
        data = link["linkinfo"]["info_data"]
        ksft_eq(int(str(data["key"]), 16), 0xffff)
        ksft_eq(data["mode"], "datagram")


def test_address():
    """The address is the QPN of a UD QP and the port's GID."""
    for end in ends():
        address = end.address()
        ksft_eq(address[0] & 0x40, 0, "UC is not offered")
        gid = bytes.fromhex(end.port.gid().replace(":", ""))
        ksft_eq(address[4:], gid)
        ksft_ne(end.qpn(), 0)
        numbers = [qp.qpn for qp in end.port.hca.data_qps()]
        ksft_in(end.qpn(), numbers, "a UD QP of the HCA")


def test_ports():
    """One interface per port, told apart by dev_id and dev_port."""
    ends()
    new = fabric.add_hca(7, ports=2)
    for which in new.ports():
        space, name = wait_until(lambda p=which: iface_of(p), 5,
                                 f"an interface for {which}")
        ksft_eq(read_int(space.sys(f"class/net/{name}/dev_port")),
                which.num - 1)
        ksft_eq(read_int(space.sys(f"class/net/{name}/dev_id")),
                which.num - 1)
    ksft_eq(len(ifaces()), 4)
    new.unplug()
    wait_until(lambda: len(ifaces()) == 2, 5, "the interfaces are gone")


def test_no_roce():
    """A RoCE port (rxe) gets no interface."""
    ends()
    before = ifaces()
    cmd("modprobe rdma_rxe")
    ip("link add roce0 type veth peer name roce1")
    defer(ip, "link del roce0")
    ip("link set roce0 up")
    cmd("rdma link add rxe0 type rxe netdev roce0")
    defer(cmd, "rdma link delete rxe0")
    wait_until(lambda: exists("/sys/class/infiniband/rxe0/ports/1"), 3,
               "the rxe device")
    ksft_eq(read("/sys/class/infiniband/rxe0/ports/1/link_layer"), "Ethernet")
    ksft_eq(ifaces(), before, "the IPoIB interfaces")


def test_mode():
    """sysfs mode says datagram, takes datagram, refuses what is no mode."""
    end = ends().a
    ksft_eq(end.read("mode"), "datagram")
    write(end.sys("mode"), "datagram\n")
    with ksft_raises(OSError, "a mode that does not exist"):
        write(end.sys("mode"), "telepathic\n")
    ksft_eq(end.read("mode"), "datagram")
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)


@ours_only("the in-tree module's answers are its own")
def test_netlink_settings():
    """ip link changes umcast, and refuses what an interface can't become."""
    end = ends().a
    key = end.ns.link(end.ifname)["linkinfo"]["info_data"]["key"]
    for words in ("mode datagram", f"pkey {key}", "umcast 0"):
        end.set(f"type ipoib {words}")
    end.set("type ipoib umcast 1")
    defer(end.set, "type ipoib umcast 0")
    ksft_eq(end.read("umcast"), "1")
    done = end.set("type ipoib pkey 0x8123", fail=False)
    ksft_ne(done.ret, 0, "another P_Key")
    ksft_in("Error:", done.stderr)
    ksft_eq(end.read("mode"), "datagram")


def test_umcast():
    """sysfs umcast is a switch."""
    end = ends().a
    ksft_eq(end.read("umcast"), "0")
    write(end.sys("umcast"), "1\n")
    defer(write, end.sys("umcast"), "0\n")
    ksft_eq(end.read("umcast"), "1")
    data = end.link()["linkinfo"]["info_data"]
    ksft_eq(int(data["umcast"]), 1)
    write(end.sys("umcast"), "0\n")
    ksft_eq(end.read("umcast"), "0")
    try:
        write(end.sys("umcast"), "junk\n")
    except OSError:
        pass
    ksft_eq(end.read("umcast"), "0", "junk does not turn it on")


def test_pkey():
    """sysfs pkey is the P_Key of index 0, and cannot be written."""
    end = ends().a
    ksft_eq(end.read("pkey"), "0xffff")
    with ksft_raises(OSError, "writing pkey"):
        write(end.sys("pkey"), "0x8001\n")
    ksft_eq(end.read("pkey"), "0xffff")


def test_carrier_follows_link():
    """No cable, no carrier; traffic passes again when it is back."""
    pair = ends()
    end = pair.b
    end.port.link(False)
    defer(end.port.link, True)
    end.wait_no_carrier()
    # The kernel derives it from the carrier, up to a second later.
    wait_until(lambda: end.link()["operstate"] != "UP", 5, "not UP any more")
    ksft_eq(ping(pair.a.ns, end.v4, limit=0.3), 0, "a reply over no cable")
    end.port.link(True)
    end.wait_carrier()
    pair.wait_ping()


def test_carrier_needs_broadcast_group():
    """An interface that cannot join its broadcast group has no carrier."""
    pair = ends()
    restart = sm.stopped()
    pair.a.set("down")
    pair.a.up()
    end = now() + 1.5
    while now() < end:
        ksft_false(pair.a.carrier(), "carrier without a broadcast group")
    ksft_true(pair.b.carrier(), "the other one keeps its carrier")
    restart.exec()
    pair.a.wait_carrier(25)
    pair.wait_ping(20)


def test_mtu_range():
    """The MTU can be lowered, and not raised above what the link carries."""
    pair = ends()
    for end in pair:
        defer(end.set_mtu, 2044)
        end.set_mtu(1500)
    ksft_eq(pair.a.mtu(), 1500)
    ping_ok(pair.a.ns, pair.b.v4, size=1500 - 28, df=True)
    with ksft_raises(OSError, "a datagram above the MTU"):
        ping(pair.a.ns, pair.b.v4, size=1500 - 27, df=True)
    tcp_transfer(pair.a, pair.b, 1 << 20)
    for bad in (0, 10, 65521, 100000):
        ksft_ne(pair.a.set_mtu(bad, fail=False).ret, 0, f"MTU {bad}")
        ksft_eq(pair.a.mtu(), 1500)
    # More than the group's MTU is refused, or does not come into force.
    pair.a.set_mtu(4092, fail=False)
    ksft_le(pair.a.mtu(), 2044)
    pair.a.set_mtu(2044)
    ksft_eq(pair.a.mtu(), 2044)


def test_parameters():
    """The module's parameters exist, with the documented permissions."""
    ends()
    for name, mode in (("send_queue_size", 0o444), ("recv_queue_size", 0o444),
                       ("debug_level", 0o644), ("mcast_debug_level", 0o644)):
        path = f"{PARAMETERS}/{name}"
        ksft_true(exists(path), name)
        found = cmd(["stat", "-c", "%a", path]).stdout.strip()
        ksft_eq(int(found, 8), mode, name)
    ksft_ge(read_int(f"{PARAMETERS}/send_queue_size"), 64)
    ksft_ge(read_int(f"{PARAMETERS}/recv_queue_size"), 64)
    for name in ("debug_level", "mcast_debug_level"):
        write(f"{PARAMETERS}/{name}", "1")
        defer(write, f"{PARAMETERS}/{name}", "0")
        ksft_eq(read_int(f"{PARAMETERS}/{name}"), 1)
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)


@timeout(120)
def test_ring_parameters():
    """Other ring sizes: small and large, not powers of two; data passes."""
    def restore():
        if loaded():
            unload_module()
        load_module()

    defer(restore)
    for send, recv in ((32, 32), (100, 300), (1024, 1024)):
        unload_module()
        load_module(send_queue_size=send, recv_queue_size=recv)
        pair = ends()
        tcp_transfer(pair.a, pair.b, 2 << 20)
        got = udp_exchange(pair.b, pair.a, 20, 500)
        ksft_eq(len(got.seen), 20)
    # What is out of range must not break the machine, loaded or refused.
    unload_module()
    try:
        load_module(send_queue_size=-5, recv_queue_size=0)
    except Exception:  # pylint: disable=broad-except
        return
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)


@verbs_only("the HCA's own operations")
def test_ethtool_info():
    """ethtool -i names the driver and the HCA."""
    for end in ends():
        text = end.ethtool("-i").stdout
        info = dict(line.split(": ", 1) for line in text.splitlines()
                    if ": " in line)
        ksft_eq(info["driver"], "ib_ipoib")
        ksft_in(end.port.hca.name, info["bus-info"])


def test_ethtool_link():
    """Speed and width as the port has them."""
    end = ends().a
    text = end.ns.cmd(["ethtool", end.ifname]).stdout
    rate = float(read(f"{end.port.sysfs}/rate").split()[0])
    speed = int(re.search(r"Speed: (\d+)Mb/s", text).group(1))
    # Per lane the encoding's share may or may not be in it.
    ksft_ge(speed, rate * 1000 * 0.75)
    ksft_le(speed, rate * 1000 * 1.05)
    ksft_in("Duplex: Full", text)
    ksft_in("Link detected: yes", text)
    end.port.link(False)
    defer(end.wait_carrier)
    defer(end.port.link, True)
    end.wait_no_carrier()
    text = end.ns.cmd(["ethtool", end.ifname]).stdout
    ksft_in("Link detected: no", text)


@verbs_only("the HCA's own offloads")
def test_ethtool_features():
    """Offloads are on: what the HCA has not, ours does itself when it sends."""
    end = ends().a
    caps = end.port.hca.caps()
    stock = module_kind() == "stock"
    ksft_eq(end.feature("tx-checksum-ipv4"), stock and bool(caps["csum"]))
    ksft_eq(end.feature("tx-checksum-ip-generic"), not stock)
    ksft_eq(end.feature("rx-checksumming"), bool(caps["csum"]))
    ksft_eq(end.feature("tx-tcp-segmentation"), not stock or bool(caps["lso"]))
    ksft_eq(end.feature("tx-tcp6-segmentation"), not stock)
    ksft_true(end.feature("scatter-gather"))
    ksft_true(end.feature("generic-receive-offload"))
    ksft_true(end.feature("highdma"))


@fixed_in_ours("it shows none of what the HCA's own interface counts", on="ud")
def test_ethtool_statistics():
    """ethtool -S shows counters, and they move."""
    pair = ends()

    def counters():
        text = pair.a.ethtool("-S").stdout
        return {m.group(1): int(m.group(2)) for m in
                re.finditer(r"^\s+(\S[^:]*): (\d+)$", text, re.M)}

    before = counters()
    ksft_ge(len(before), 8, "counters")
    ping_ok(pair.a.ns, pair.b.v4, count=20)
    for side in ("tx", "rx"):
        wait_until(lambda s=side: any(
            s in name and value >= before[name] + 20
            for name, value in counters().items()), 3, f"{side} counters")


def test_statistics():
    """Packets and bytes are counted as they were sent."""
    pair = ends()
    count, size = 100, 1000
    ping_ok(pair.a.ns, pair.b.v4)
    settled(*pair)
    before = {end.name: end.stats() for end in pair}
    got = udp_exchange(pair.a, pair.b, count, size)
    ksft_eq(len(got.seen), count)
    counted(pair.a, before["h1"], tx_packets=count, tx_bytes=count * (size + 28))
    counted(pair.b, before["h2"], rx_packets=count, rx_bytes=count * (size + 28))
    after = {end.name: end.stats() for end in pair}
    for name, side in (("h1", "tx"), ("h2", "rx")):
        moved = {key: after[name][key] - before[name][key]
                 for key in after[name]}
        ksft_ge(moved[f"{side}_packets"], count)
        ksft_le(moved[f"{side}_packets"], count + 8)
        ksft_ge(moved[f"{side}_bytes"], count * (size + 28))
        ksft_le(moved[f"{side}_bytes"], (count + 8) * (size + 28 + 24))
        for what in ("rx_errors", "rx_dropped", "tx_errors", "tx_dropped"):
            ksft_eq(moved[what], 0, f"{what} of {name}")


def test_statistics_hca():
    """The interface counts what the HCA's port delivered."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    hca_before = pair.b.port.counters()
    settled(pair.b)
    if_before = pair.b.stats()
    got = udp_exchange(pair.a, pair.b, 300, 700)
    ksft_eq(len(got.seen), 300)
    settled(pair.b)
    moved = pair.b.stat("rx_packets") - if_before["rx_packets"]
    hca_after = pair.b.port.counters()
    wire = hca_after["rx_packets"] - hca_before["rx_packets"]
    ksft_ge(moved, 300)
    # Management packets pass the port, too, but not the interface.
    ksft_le(moved, wire)
    for name in ("drop_no_qp", "drop_pkey", "drop_qkey", "drop_no_recv"):
        ksft_eq(hca_after[name], hca_before[name], name)


def test_debugfs():
    """debugfs lists groups and paths."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    groups = read(f"{DEBUGFS}/{pair.a.ifname}_mcg")
    ksft_in("ff12:401b:ffff:0:0:0:ffff:ffff", plain(groups))
    ksft_in("ff12:401b:ffff:0:0:0:0:1", plain(groups))
    paths = read(f"{DEBUGFS}/{pair.a.ifname}_path")
    ksft_in(plain(pair.b.port.gid()), plain(paths))
    ksft_true(re.search(rf"DLID:\s*0x0*{pair.b.port.lid():x}\b", paths),
              f"LID {pair.b.port.lid()} in {paths}")
    # Reading while traffic runs, piecemeal and whole
    for _ in range(5):
        cmd(f"dd bs=7 if={DEBUGFS}/{pair.a.ifname}_path of=/dev/null "
            "2>/dev/null")
        ping_ok(pair.a.ns, pair.b.v4)


def test_many_neighbours():
    """Peers that differ in two bytes of their GUID are all known."""
    pair = ends()
    own = pair.a.address()
    peers = {f"10.0.0.{n}": own[:1] + b"\0\0\x48" + own[4:12] +
             bytes.fromhex("0002c903000a") + n.to_bytes(2, "big")
             for n in range(50, 250)}
    defer(pair.a.ns.cmd, ["ip", "neigh", "flush", "dev", pair.a.ifname,
                          "nud", "permanent"])
    cmd(["ip", "-batch", "-"], ns=pair.a.ns, stdin="".join(
        f"neigh replace {v4} lladdr {addr.hex(':')} nud permanent dev "
        f"{pair.a.ifname}\n" for v4, addr in peers.items()))
    with pair.a.ns.inside(), \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for v4 in peers:
            sock.sendto(b"hello", (v4, 9))
    paths = plain(read(f"{DEBUGFS}/{pair.a.ifname}_path"))
    missing = [v4 for v4, addr in peers.items()
               if plain(addr[4:].hex(":", 2)) not in paths]
    ksft_eq(missing, [], "peers without a path")


def plain(text):
    """GIDs in @text without the zeros in front of their groups."""
    return re.sub(r"\b0+([0-9a-f])", r"\1", text.lower())


def test_down_up():
    """Down and up again: carrier, addresses, traffic."""
    pair = ends()
    for _ in range(3):
        pair.a.set("down")
        ksft_false(pair.a.carrier())
        ksft_eq(ping(pair.b.ns, pair.a.v4, limit=0.1), 0)
        pair.a.up()
        pair.a.wait_carrier()
        pair.wait_ping()
        pair.wait_ping(reverse=True)


def test_namespace_goes():
    """The interface comes home when its namespace is deleted."""
    pair = ends()
    name = pair.a.ifname
    pair.a.drop()
    wait_until(lambda: exists(f"/sys/class/net/{name}"), 5, "home again")
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)


def test_rename():
    """Interfaces can be renamed; debugfs follows."""
    pair = ends()
    end = pair.a
    old = end.ifname
    end.set("down")
    end.set("name blue0")
    end.ifname = "blue0"

    def back():
        end.set("down")
        end.set(f"name {old}")
        end.ifname = old
        end.up()
        end.wait_carrier()

    defer(back)
    end.up()
    end.wait_carrier()
    pair.wait_ping()
    wait_until(lambda: exists(f"{DEBUGFS}/blue0_mcg"), 2, "blue0_mcg")
    ksft_false(exists(f"{DEBUGFS}/{old}_mcg"), "the old name's file")


@verbs_only("the HCA's own queues")
@ours_differs("the in-tree module has no BQL")
def test_bql():
    """The queue is limited by what it has in flight (BQL)."""
    pair = ends()
    tcp_transfer(pair.a, pair.b, 8 << 20)
    limits = [read_int(f"{pair.a.sys('queues')}/tx-{n}/"
                       "byte_queue_limits/limit")
              for n in range(16)
              if exists(f"{pair.a.sys('queues')}/tx-{n}/byte_queue_limits")]
    ksft_gt(max(limits), 0, "a limit was learned")


@ours_only("the in-tree module has no tracepoints")
def test_tracepoints():
    """Joins, paths and events leave traces."""
    names = events_of("ipoib")
    ksft_ge(len(names), 3, f"events of system ipoib: {names}")
    pair = ends()
    with Tracer("ipoib:*") as trace:
        pair.a.set("down")
        pair.a.up()
        pair.a.wait_carrier()
        pair.wait_ping()
        pair.a.port.event("client_reregister")
        lines = wait_until(lambda: [
            line for line in trace.lines() if "ipoib" in line], 3, "traces")
    fired = {m.group(1) for line in lines
             for m in [re.search(r": (ipoib_\w+):", line)] if m}
    ksft_true(any("join" in n or "mcast" in n for n in fired),
              f"a join among {fired}")
    ksft_true(any("path" in n for n in fired), f"a path among {fired}")


def test_dhcp_packet_socket():
    """A packet socket sees the interface's packets and can send."""
    # pylint: disable=import-outside-toplevel
    import socket
    pair = ends()
    sock = pair.a.ns.socket(socket.AF_PACKET, socket.SOCK_RAW,
                            socket.htons(0x0800))
    with sock, pair.a.ns.inside():
        sock.bind((pair.a.ifname, 0x0800))
        ksft_eq(sock.getsockname()[3], 32, "hardware type")
        sock.settimeout(slow(1))
        ping_ok(pair.a.ns, pair.b.v4)
        data = sock.recv(4096)
    ksft_gt(len(data), 28)


def test_unloaded_and_loaded():
    """rmmod and insmod: interfaces, debugfs and QPs go and come."""
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    unload_module()
    ksft_false(loaded())
    ksft_eq(ifaces([ROOT]), [])
    ksft_false(exists(DEBUGFS), "its debugfs directory")
    qps = [qp for number in (0, 1) for qp in hca(number).data_qps()]
    ksft_eq(qps, [], "QPs left")
    load_module()
    pair = ends()
    ping_ok(pair.a.ns, pair.b.v4)
    ksft_lt(len(ifaces()), 3)
    ksft_not_in("ib2", [name for _, name, _ in ifaces()])
    any_ends(port(0), port(1))
