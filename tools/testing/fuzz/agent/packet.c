// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets that arrive at a port: LRH to payload
 */
#include <arpa/inet.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"

#define QKEY		0x0b1b
#define BROADCAST_QPN	0xffffff
#define BROADCAST_MLID	0xc000
#define UD_SEND		0x64
#define UD_SEND_IMM	0x65
#define RC_SEND		0x04
#define RC_SEND_IMM	0x05
#define PKEY		0xffff
#define CHILD_PKEY	0x8001
/* Longer messages are for connections. */
#define DATAGRAM_MAX	4096
#define PACKET_MAX	66000
#define GSO_UDP_L4	5	/* Debian 12's headers do not have it. */

/* First byte of a packet's data */
enum {
	TO_PEER		= 1 << 0,	/* to the second port */
	WITH_GRH	= 1 << 1,
	BY_RC		= 1 << 2,
	WITH_IMM	= 1 << 3,	/* then four bytes of it follow */
	FROM_GHOST	= 1 << 4,
	TO_ALL		= 1 << 5,
	TO_CHILD	= 1 << 6,
	SOLICITED	= 1 << 7,
};

static const u8 broadcast_gid[16] = {
	0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff
};

static u8 *put16(u8 *to, u16 value)
{
	*to++ = value >> 8;
	*to++ = value;
	return to;
}

static u8 *put32(u8 *to, u32 value)
{
	return put16(put16(to, value >> 16), value);
}

static u8 *put(u8 *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return to + len;
}

/* ---- what they carry ---------------------------------------------------- */

static u32 sum(u32 so_far, const void *data, size_t len)
{
	const u8 *pos = data;
	size_t n;

	for (n = 0; n < len; n++)
		so_far += n & 1 ? pos[n] : pos[n] << 8;
	return so_far;
}

static u16 fold(u32 total)
{
	while (total >> 16)
		total = (total & 0xffff) + (total >> 16);
	return ~total;
}

static void finish_transport(u8 *pos, size_t len, u8 proto, u32 pseudo)
{
	size_t at = proto == IPPROTO_UDP ? 6 : proto == IPPROTO_TCP ? 16 :
		    proto == IPPROTO_ICMPV6 || proto == IPPROTO_ICMP ||
		    proto == IPPROTO_IGMP ? 2 : len;

	if (proto == IPPROTO_ICMP || proto == IPPROTO_IGMP)
		pseudo = 0;
	if (at + 2 > len)
		return;
	if (proto == IPPROTO_UDP)
		put16(pos + 4, len);
	put16(pos + at, 0);
	put16(pos + at, fold(sum(pseudo, pos, len)));
}

/* Lengths and checksums, as a decent sender has them */
static void finish_ip(u16 proto, u8 *ip, size_t len)
{
	if (proto == ETH_P_IP && len >= sizeof(struct iphdr)) {
		size_t header = (ip[0] & 15) * 4;

		if (header < sizeof(struct iphdr) || header > len)
			return;
		put16(ip + 2, len);
		put16(ip + 10, 0);
		put16(ip + 10, fold(sum(0, ip, header)));
		finish_transport(ip + header, len - header, ip[9],
				 sum(ip[9] + len - header, ip + 12, 8));
	} else if (proto == ETH_P_IPV6 && len >= sizeof(struct ip6_hdr)) {
		size_t header = sizeof(struct ip6_hdr);

		put16(ip + 4, len - header);
		if (ip[6] == IPPROTO_HOPOPTS && len > header + 8 &&
		    len > header + 8 + ip[header + 1] * 8)
			finish_transport(ip + header + 8 + ip[header + 1] * 8,
					 len - header - 8 - ip[header + 1] * 8,
					 ip[header],
					 sum(ip[header] + len - header - 8 -
					     ip[header + 1] * 8, ip + 8, 32));
		else
			finish_transport(ip + header, len - header, ip[6],
					 sum(ip[6] + len - header, ip + 8, 32));
	}
}

/* Hosts' addresses: 1 and 2 are the ports', 9 is nobody's, 5 the guest's. */
static u32 address4(unsigned int host)
{
	return 0x0a000000 | host;
}

static void address6(u8 *to, unsigned int host)
{
	memset(to, 0, 16);
	to[0] = 0xfd;
	to[15] = host;
}

static u8 *put_ip4(u8 *to, u8 proto, u32 src, u32 dst, u8 ttl)
{
	to = put32(to, 0x45000000);
	to = put32(to, 0x00010000);
	*to++ = ttl;
	*to++ = proto;
	to = put16(to, 0);
	return put32(put32(to, src), dst);
}

static u8 *put_ip6(u8 *to, u8 proto, const u8 *src, const u8 *dst)
{
	to = put32(to, 0x60000000);
	to = put16(to, 0);
	*to++ = proto;
	*to++ = 255;
	return put(put(to, src, 16), dst, 16);
}

static size_t lladdr_len(const struct stations *s)
{
	return s->ether ? ETHER_LEN : LLADDR_LEN;
}

static u8 hardware_type(const struct stations *s)
{
	return s->ether ? ARPHRD_ETHER : ARPHRD_INFINIBAND;
}

/* Source or target link-layer address, of 20 bytes with padding (RFC 4391) */
static u8 *put_nd_option(u8 *to, u8 type, const struct stations *s)
{
	*to++ = type;
	if (s->ether) {
		*to++ = 1;
	} else {
		*to++ = 3;
		to = put16(to, 0);
	}
	return put(to, s->src, lladdr_len(s));
}

static u8 *put_arp(u8 *to, u16 op, const struct stations *s, const u8 *dst,
		   unsigned int host, unsigned int target)
{
	size_t len = lladdr_len(s);

	to = put16(put16(to, hardware_type(s)), ETH_P_IP);
	*to++ = len;
	*to++ = 4;
	to = put16(to, op);
	to = put32(put(to, s->src, len), address4(host));
	return put32(put(to, dst, len), address4(target));
}

static u8 *put_nd(u8 *to, u8 type, const struct stations *s)
{
	static const u8 hosts[16] = { 0xff, 2, [15] = 1 };
	static const u8 routers[16] = { 0xff, 2, [15] = 2 };
	u8 from[16], dest[16], about[16];

	address6(from, s->host);
	address6(dest, s->target);
	address6(about, type == ND_NEIGHBOR_SOLICIT ? s->target : s->host);
	/* Routers advertise from their link-local address. */
	if (type == ND_ROUTER_ADVERT) {
		from[0] = 0xfe;
		from[1] = 0x80;
	}
	to = put_ip6(to, IPPROTO_ICMPV6, from, type == ND_ROUTER_ADVERT ? hosts :
		     type == ND_ROUTER_SOLICIT ? routers : dest);
	*to++ = type;
	*to++ = 0;
	to = put16(to, 0);
	switch (type) {
	case ND_ROUTER_SOLICIT:
		to = put32(to, 0);
		break;
	case ND_ROUTER_ADVERT:
		to = put32(put32(put32(to, 0x40000000), 0), 0);
		break;
	default:
		to = put(put32(to, type == ND_NEIGHBOR_ADVERT ? 0x60000000 : 0),
			 about, 16);
	}
	return put_nd_option(to, type == ND_NEIGHBOR_ADVERT ?
			     ND_OPT_TARGET_LINKADDR : ND_OPT_SOURCE_LINKADDR, s);
}

/* On InfiniBand the identifier has the address, the field for it none (RFC 4390). */
static u8 *put_dhcp(u8 *to, const struct stations *s, bool answer)
{
	size_t len = lladdr_len(s);

	to = put_ip4(to, IPPROTO_UDP, answer ? address4(s->host) : 0, 0xffffffff, 64);
	to = put16(put16(to, answer ? 67 : 68), answer ? 68 : 67);
	to = put32(to, 0);
	memset(to, 0, 240);
	to[0] = answer ? 2 : 1;
	to[1] = hardware_type(s);
	put32(to + 4, 0x12345678);
	put16(to + 10, 0x8000);
	if (answer)
		put32(to + 16, address4(9));
	if (s->ether) {
		to[2] = len;
		put(to + 28, s->src, len);
	}
	put32(to + 236, 0x63825363);
	to += 240;
	*to++ = 53;
	*to++ = 1;
	*to++ = answer ? 2 : 1;
	*to++ = 61;
	*to++ = 1 + len;
	*to++ = hardware_type(s);
	to = put(to, s->src, len);
	*to++ = 255;
	return to;
}

/**
 * payload_make - a packet from the network header on
 * @to: where to
 * @room: bytes there, 1024 at least
 * @variant: which one; unknown ones are the reader's bytes alone
 * @s: sender and receiver
 * @r: patches, and what follows the headers
 *
 * The first two bytes of the result are the Ethertype, two of nothing follow
 * it.
 *
 * Return: its length
 */
size_t payload_make(u8 *to, size_t room, u8 variant, const struct stations *s,
		    struct reader *r)
{
	unsigned int host = s->host, target = s->target;
	static const u8 mld[16] = { 0xff, 2, [15] = 0x16 };
	u8 *pos = to + 4, from[16], about[16];
	u16 proto = ETH_P_IP;
	bool decent;

	address6(from, host);
	address6(about, target);
	switch (variant & 31) {
	case 0:
		pos = put_arp(pos, 1, s, s->dst, host, target);
		proto = ETH_P_ARP;
		break;
	case 1:
		pos = put_arp(pos, 2, s, s->dst, host, target);
		proto = ETH_P_ARP;
		break;
	case 2:
		pos = put_arp(pos, 1, s, s->dst, host, host);
		proto = ETH_P_ARP;
		break;
	case 3 ... 6:
		pos = put_nd(pos, ND_ROUTER_SOLICIT + (variant & 31) - 3, s);
		proto = ETH_P_IPV6;
		break;
	case 7:
		pos = put_ip4(pos, IPPROTO_UDP, address4(host), address4(target), 64);
		pos = put32(put32(pos, 0x12341235), 0);
		break;
	case 8:
		pos = put_ip6(pos, IPPROTO_UDP, from, about);
		pos = put32(put32(pos, 0x12341235), 0);
		proto = ETH_P_IPV6;
		break;
	case 9:
		pos = put_ip4(pos, IPPROTO_TCP, address4(host), address4(target), 64);
		pos = put32(put32(put32(pos, 0x12341235), 1), 2);
		pos = put32(put32(pos, 0x50101000), 0);
		break;
	case 10:
		pos = put_ip6(pos, IPPROTO_TCP, from, about);
		pos = put32(put32(put32(pos, 0x12341235), 1), 2);
		pos = put32(put32(pos, 0x50101000), 0);
		proto = ETH_P_IPV6;
		break;
	case 11:
		pos = put_ip4(pos, IPPROTO_ICMP, address4(host), address4(target), 64);
		pos = put32(put32(pos, 0x08000000), 0x00010001);
		break;
	case 12:	/* fragmentation needed, of a packet of the target's */
		pos = put_ip4(pos, IPPROTO_ICMP, address4(host), address4(target), 64);
		pos = put32(put32(pos, 0x03040000), 1400);
		pos = put_ip4(pos, IPPROTO_UDP, address4(target), address4(host), 64);
		pos = put32(put32(pos, 0x12351234), 0);
		break;
	case 13:	/* packet too big */
		pos = put_ip6(pos, IPPROTO_ICMPV6, from, about);
		pos = put32(put32(pos, 0x02000000), 1400);
		pos = put_ip6(pos, IPPROTO_UDP, about, from);
		pos = put32(put32(pos, 0x12351234), 0);
		proto = ETH_P_IPV6;
		break;
	case 14:
		pos = put_ip4(pos, IPPROTO_IGMP, address4(host), 0xe0000016, 1);
		pos = put32(put32(pos, 0x22000000), 1);
		pos = put32(put32(pos, 0x04000000), 0xe1020304);
		break;
	case 15:	/* general query */
		pos = put_ip4(pos, IPPROTO_IGMP, address4(host), 0xe0000001, 1);
		pos = put32(put32(put32(pos, 0x11640000), 0), 0x02140000);
		break;
	case 16:	/* MLD's have a router alert. */
		pos = put_ip6(pos, IPPROTO_HOPOPTS, from, mld);
		pos[-33] = 1;
		pos = put32(put32(pos, IPPROTO_ICMPV6 << 24 | 0x0502), 0x00000100);
		pos = put32(put32(pos, 0x8f000000), 1);
		pos = put32(pos, 0x04000000);
		pos = put(pos, mld, sizeof(mld));
		proto = ETH_P_IPV6;
		break;
	case 17:
		pos = put_dhcp(pos, s, false);
		break;
	case 18:
		pos = put_dhcp(pos, s, true);
		break;
	case 19:	/* fragment */
		pos = put_ip6(pos, IPPROTO_FRAGMENT, from, about);
		pos = put32(put32(pos, IPPROTO_UDP << 24 | 1), 7);
		proto = ETH_P_IPV6;
		break;
	case 20:	/* GRE with IPv4 in it */
		pos = put_ip4(pos, IPPROTO_GRE, address4(host), address4(target), 64);
		pos = put32(pos, ETH_P_IP);
		pos = put_ip4(pos, IPPROTO_TCP, address4(host), address4(target), 64);
		pos = put32(put32(put32(pos, 0x12341235), 1), 2);
		pos = put32(put32(pos, 0x50101000), 0);
		break;
	case 21:
		proto = ETH_P_RARP;
		pos = put_arp(pos, 3, s, s->src, 0, 0);
		break;
	case 22:
		proto = ETH_P_TIPC;
		break;
	case 23:	/* not one that RFC 4391 has */
		proto = take16(r);
		break;
	default:
		proto = variant & 4 ? ETH_P_IPV6 : ETH_P_IP;
	}
	put16(put16(to, proto), 0);
	decent = !(variant & 0x80);
	if (decent)
		take_patches(r, to, pos - to);
	/* Much of what follows headers may be anything: a length will do. */
	if (variant & 0x40) {
		size_t len = take16(r);

		len = MIN(len, room - (pos - to));
		memset(pos, 0x5a, len);
		pos += len;
	}
	pos += take(r, pos, room - (pos - to));
	if (decent)
		finish_ip(to[0] << 8 | to[1], to + 4, pos - to - 4);
	return pos - to;
}

/**
 * payload_offload - leave checksum and segmentation to whoever sends a packet
 * @payload: from the Ethertype on, as payload_make() makes it
 * @len: its length
 * @before: bytes of the link-layer header, Ethertype included
 * @vnet: what the sender is told
 */
void payload_offload(u8 *payload, size_t len, size_t before,
		     struct virtio_net_hdr *vnet)
{
	u16 type = payload[0] << 8 | payload[1];
	bool v6 = type == ETH_P_IPV6;
	size_t header = v6 ? sizeof(struct ip6_hdr) : sizeof(struct iphdr);
	u8 *ip = payload + 4, proto;
	size_t at, transport;
	u32 pseudo;

	if ((type != ETH_P_IP && !v6) || len < 4 + header + sizeof(struct tcphdr))
		return;
	proto = v6 ? ip[6] : ip[9];
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
		return;
	at = proto == IPPROTO_TCP ? 16 : 6;
	transport = proto == IPPROTO_TCP ? sizeof(struct tcphdr) :
		    sizeof(struct udphdr);
	pseudo = sum(proto + len - 4 - header, v6 ? ip + 8 : ip + 12, v6 ? 32 : 8);
	put16(ip + header + at, ~fold(pseudo));
	vnet->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	vnet->gso_type = proto == IPPROTO_UDP ? GSO_UDP_L4 :
			 v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
	vnet->gso_size = 1000;
	vnet->hdr_len = before + header + transport;
	vnet->csum_start = before + header;
	vnet->csum_offset = at;
}

/* ---- the packet --------------------------------------------------------- */

/**
 * packet_call - let a packet arrive
 * @call: data: flags; immediate data, if any; patches of what the packet
 *	carries; its further contents.  Odd patches, with the variant's 0x20,
 *	concern the headers
 */
void packet_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u8 flags = take8(&r);
	unsigned int to = flags & TO_PEER ? 1 : 0;
	struct scene_port *port = &scene_ports[to], *peer = &scene_ports[!to];
	const u8 *gid = flags & FROM_GHOST ? ghost_gid : peer->gid;
	const u8 *lladdr = flags & FROM_GHOST ? ghost_lladdr : peer->lladdr;
	static u8 packet[PACKET_MAX];
	u8 header_patches[17], *pos = packet;
	struct reader patches = { .pos = header_patches };
	u16 pkey = flags & TO_CHILD ? CHILD_PKEY : PKEY;
	bool grh = flags & (WITH_GRH | TO_ALL), imm = flags & WITH_IMM;
	struct stations s = {
		.src = lladdr,
		.dst = port->lladdr,
		.host = flags & FROM_GHOST ? 9 : 2 - to,
		.target = 1 + to,
	};
	struct conn_seen conn = { };
	size_t headers, len;
	u32 qpn;

	if (call->variant & 0x20) {
		header_patches[0] = take8(&r) % 8;
		patches.left = 1 + take(&r, header_patches + 1,
					2 * header_patches[0]);
	}
	qpn = flags & TO_ALL ? BROADCAST_QPN :
	      lladdr_qpn(flags & TO_CHILD ? port->child : port->lladdr);
	if (flags & BY_RC) {
		if (!mirror_conn(to, &conn))
			return;
		qpn = conn.qpn;
		grh = false;
	}
	*pos++ = 0;
	*pos++ = grh ? 3 : 2;
	pos = put16(pos, flags & TO_ALL && !(flags & BY_RC) ?
		    BROADCAST_MLID : port->lid);
	pos = put16(pos, 0);
	pos = put16(pos, flags & FROM_GHOST ? GHOST_LID : peer->lid);
	if (grh) {
		pos = put32(put32(pos, 0x60000000), 0x00001b40);
		pos = put(pos, gid, 16);
		pos = put(pos, flags & TO_ALL ? broadcast_gid : port->gid, 16);
	}
	*pos++ = flags & BY_RC ? imm ? RC_SEND_IMM : RC_SEND :
				 imm ? UD_SEND_IMM : UD_SEND;
	*pos++ = flags & SOLICITED ? 0xc0 : 0x40;
	pos = put32(put16(pos, pkey), qpn);
	pos = put32(pos, flags & BY_RC ? 0x80000000 | conn.psn : 0);
	if (!(flags & BY_RC))
		pos = put32(put32(pos, QKEY), lladdr_qpn(lladdr));
	if (imm)
		pos = put32(pos, take32(&r));
	headers = pos - packet;
	len = payload_make(pos, (flags & BY_RC ? PACKET_MAX : DATAGRAM_MAX) - headers,
			   call->variant & 0xdf, &s, &r);
	take_patches(&patches, packet, headers);
	if (write(port->inject, packet, headers + len) > 0 && flags & BY_RC)
		mirror_sent(to);
}
