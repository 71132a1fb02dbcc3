# SPDX-License-Identifier: GPL-2.0-only
"""Packets that programs leave to be finished, on HCAs' own interfaces."""

from lib import any_ends, define, defer, ends, hca, ksft_eq, port, timeout
from lib.ipoib import forget
from lib.ksft import module_kind
import offload_traffic
from offload_traffic import Behind

BOOT = {"ipoib": "ours", "hcas": 2, "hca": "rdma_netdev=own", "seconds": 170}


def ud_ends():
    """Two hosts on HCAs as hfi1's, which neither cut packets nor know checksums."""
    for number in (2, 3):
        hca(number).plug(rdma_netdev="ud")
        defer(hca(number).unplug)
    pair = any_ends(port(2), port(3), ("h3", "h4"), 3)
    defer(forget, pair)
    return pair


def raw_short(pair):
    """A raw socket's packets with a virtio header, in a short ring."""
    offload_traffic.short_ring(pair)
    offload_traffic.raw_segments(pair)


def order(pair):
    """Short datagrams, which GRO is spared, do not overtake long ones."""
    for address in (pair.b.v4, pair.b.v6):
        offload_traffic.check_order(pair, address)


def forwarded(pair):
    """From the fabric to a veth and back."""
    offload_traffic.forwarded(pair, Behind(pair))


def gre(pair):
    offload_traffic.tunnel(pair, "gre", "")
    offload_traffic.tunnelled(pair)


def vxlan(pair):
    offload_traffic.tunnel(pair, "vxlan", "id 7 dstport 4789")
    offload_traffic.tunnelled(pair)


@timeout(120)
def on_hosts(words):
    """A check on hosts of a kind, where nothing else goes wrong."""
    make, check = words
    pair = make()
    if module_kind() == "ours":
        ksft_eq([end.state()["engine"] for end in pair], ["enhanced"] * 2)
    check(pair)
    for end in pair:
        end.port.no_mistakes()


CASES = {
    "test_segments": (ends, offload_traffic.segments_of_all_sizes),
    "test_segments_ud": (ud_ends, offload_traffic.segments_of_all_sizes),
    "test_order": (ends, order),
    "test_zerocopy": (ends, offload_traffic.zerocopy),
    "test_zerocopy_ud": (ud_ends, offload_traffic.zerocopy),
    "test_sendfile": (ends, offload_traffic.sendfile),
    "test_sendfile_ud": (ud_ends, offload_traffic.sendfile),
    "test_extension_headers": (ends, offload_traffic.extension_headers),
    "test_extension_headers_ud": (ud_ends, offload_traffic.extension_headers),
    "test_raw_segments": (ends, raw_short),
    "test_raw_segments_ud": (ud_ends, offload_traffic.raw_segments),
    "test_forwarded": (ends, forwarded),
    "test_forwarded_ud": (ud_ends, forwarded),
    "test_tunnel_gre": (ends, gre),
    "test_tunnel_gre_ud": (ud_ends, gre),
    "test_tunnel_vxlan": (ends, vxlan),
    "test_tunnel_vxlan_ud": (ud_ends, vxlan),
}
define(globals(), CASES, on_hosts)
