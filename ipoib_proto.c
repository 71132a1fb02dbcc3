// SPDX-License-Identifier: GPL-2.0-only
/*
 * Formats fixed by standards: the part off the fast path, see ipoib_proto.h
 */
#include <linux/icmpv6.h>
#include <linux/ip.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "ipoib_proto.h"

/* RFC 4391 section 4; scope link-local, P_Key in bytes 8 and 9. */
const u8 ipoib_broadcast[INFINIBAND_ALEN] = {
	0x00, 0xff, 0xff, 0xff,
	0xff, 0x12, 0x40, 0x1b, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff,
};
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_broadcast);

/* These values are used in user space only. */
u64 ipoib_hash_key[3] __read_mostly = {
	0x9ae16a3b2f90404fULL, 0xc949d7c7509e6557ULL, 0xff51afd7ed558ccdULL,
};
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_hash_key);

/**
 * ipoib_pkey_parse - parse a P_Key given by a user
 * @text: a number as for kstrtou16(), may have leading space and a trailing
 *	newline
 * @number: the number as written, with or without the membership bit; used in
 *	names, and ipoib_pkey_full() of it is the P_Key
 * Return: 0, or -EINVAL if that is not a P_Key
 */
int ipoib_pkey_parse(const char *text, u16 *number)
{
	u16 value;

	if (kstrtou16(skip_spaces(text), 0, &value) || !ipoib_pkey_valid(value))
		return -EINVAL;
	*number = value;
	return 0;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_pkey_parse);

static const u8 *ipoib_arp_sender(const void *pkt, u32 len)
{
	const struct arphdr *arp = pkt;

	if (len < sizeof(*arp) + INFINIBAND_ALEN ||
	    arp->ar_hrd != htons(ARPHRD_INFINIBAND) ||
	    arp->ar_hln != INFINIBAND_ALEN)
		return NULL;
	return pkt + sizeof(*arp);
}

static const u8 *ipoib_nd_lladdr(const void *pkt, u32 len)
{
	const struct nd_msg *nd = pkt + sizeof(struct ipv6hdr);
	const u8 *opt = nd->opt;

	/* The option: type, length in units of 8 bytes, 2 bytes of padding. */
	if (len < sizeof(struct ipv6hdr) + sizeof(*nd) + 4 + INFINIBAND_ALEN)
		return NULL;
	if (nd->icmph.icmp6_type != NDISC_NEIGHBOUR_SOLICITATION &&
	    nd->icmph.icmp6_type != NDISC_NEIGHBOUR_ADVERTISEMENT)
		return NULL;
	if ((opt[0] != ND_OPT_SOURCE_LL_ADDR &&
	     opt[0] != ND_OPT_TARGET_LL_ADDR) || opt[1] != 3)
		return NULL;
	return opt + 4;
}

/**
 * ipoib_pkt_lladdr - link-layer address that a packet claims for its sender
 * @proto: Ethertype
 * @pkt: packet without its encapsulation
 * @len: bytes of it
 * Return: the address, within @pkt, or NULL if there is none
 */
const u8 *ipoib_pkt_lladdr(__be16 proto, const void *pkt, u32 len)
{
	if (!ipoib_may_tell_addr(proto, pkt, len))
		return NULL;
	return proto == htons(ETH_P_ARP) ? ipoib_arp_sender(pkt, len) :
					   ipoib_nd_lladdr(pkt, len);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_pkt_lladdr);

/**
 * ipoib_cm_private_fill - private data of a REQ or REP
 * @data: to be filled in
 * @qpn: own UD QP
 * @max_msg: longest message to be received, with its encapsulation
 * @caps: IPOIB_CM_CAP_* to offer; without any, only the fields of the RFC are
 *	sent
 * Return: bytes to send
 */
u32 ipoib_cm_private_fill(struct ipoib_cm_private *data, u32 qpn, u32 max_msg,
			  u32 caps)
{
	memset(data, 0, sizeof(*data));
	data->qpn = cpu_to_be32(qpn & IPOIB_QPN_MASK);
	data->max_msg = cpu_to_be32(max_msg);
	if (!caps)
		return IPOIB_CM_RFC_LEN;
	data->magic = cpu_to_be32(IPOIB_CM_MAGIC);
	data->version = IPOIB_CM_VERSION;
	data->caps = cpu_to_be32(caps);
	return sizeof(*data);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_cm_private_fill);

/**
 * ipoib_cm_private_parse - read the private data of a REQ or REP
 * @peer: result; unchanged on error
 * @data: as received, with any alignment
 * @len: its length; the CM passes all it has room for, padded with zeroes
 *
 * Return: 0, or -EINVAL if the private data is not valid
 */
int ipoib_cm_private_parse(struct ipoib_cm_peer *peer, const void *data,
			   u32 len)
{
	struct ipoib_cm_private p = { };
	u32 qpn, max_msg;

	if (len < IPOIB_CM_RFC_LEN)
		return -EINVAL;
	memcpy(&p, data, min_t(u32, len, sizeof(p)));
	qpn = be32_to_cpu(p.qpn) & IPOIB_QPN_MASK;
	max_msg = be32_to_cpu(p.max_msg);
	/* A management QP, the multicast QPN; less than any MTU. */
	if (qpn <= 1 || qpn == IPOIB_QPN_MASK ||
	    max_msg < ETH_MIN_MTU + IPOIB_ENCAP_LEN)
		return -EINVAL;
	peer->qpn = qpn;
	peer->max_msg = min_t(u32, max_msg, IPOIB_CM_MSG_MAX);
	peer->caps = 0;
	/* Fields that were not sent are zero. */
	if (p.magic == cpu_to_be32(IPOIB_CM_MAGIC) && p.version)
		peer->caps = be32_to_cpu(p.caps) & IPOIB_CM_CAPS;
	return 0;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_cm_private_parse);

/* ---- unfinished packets ------------------------------------------------- */

#define IPOIB_IP_FRAGMENT	0x3fff	/* more fragments, offset */

static int ipoib_ip4_payload(const struct iphdr *ip, u32 len, u8 *proto)
{
	u32 hlen;

	if (len < sizeof(*ip) || ip->version != 4 || ip->ihl < 5)
		return -EINVAL;
	hlen = ip->ihl * 4;
	if (hlen > len || ip->frag_off & htons(IPOIB_IP_FRAGMENT))
		return -EINVAL;
	*proto = ip->protocol;
	return hlen;
}

static int ipoib_ip6_payload(const struct ipv6hdr *ip6, u32 len, u8 *proto)
{
	if (len < sizeof(*ip6) || ip6->version != 6)
		return -EINVAL;
	*proto = ip6->nexthdr;
	return sizeof(*ip6);
}

/**
 * ipoib_transport_parse - find the transport header of a packet
 * @t: result
 * @proto: Ethertype
 * @pkt: packet without its encapsulation
 * @len: bytes of it that are available
 * Return: 0, or -EINVAL if there is no complete TCP or UDP header: another
 *	protocol, a fragment, an IPv6 extension header
 */
int ipoib_transport_parse(struct ipoib_transport *t, __be16 proto,
			  const void *pkt, u32 len)
{
	const struct tcphdr *tcp;
	int start = -EINVAL;
	u32 hlen;

	if (proto == htons(ETH_P_IP))
		start = ipoib_ip4_payload(pkt, len, &t->proto);
	else if (proto == htons(ETH_P_IPV6))
		start = ipoib_ip6_payload(pkt, len, &t->proto);
	if (start < 0)
		return start;
	t->start = start;
	len -= start;
	if (t->proto == IPPROTO_TCP) {
		tcp = pkt + start;
		if (len < sizeof(*tcp) || tcp->doff < sizeof(*tcp) / 4)
			return -EINVAL;
		hlen = tcp->doff * 4;
		t->csum = start + offsetof(struct tcphdr, check);
	} else if (t->proto == IPPROTO_UDP) {
		hlen = sizeof(struct udphdr);
		t->csum = start + offsetof(struct udphdr, check);
	} else {
		return -EINVAL;
	}
	t->end = start + hlen;
	return hlen <= len ? 0 : -EINVAL;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_transport_parse);

/**
 * ipoib_imm_check - may a packet be sent with this immediate data?
 * @imm: immediate data, host order
 * @caps: IPOIB_CM_CAP_* of the connection
 * @t: its transport header, NULL if there is none
 * @len: bytes of the packet without its encapsulation
 *
 * For the receiver of a packet, and for the sender before it is sent.
 *
 * Return: 0 or -EINVAL
 */
int ipoib_imm_check(u32 imm, u32 caps, const struct ipoib_transport *t,
		    u32 len)
{
	u32 size = imm & IPOIB_IMM_SIZE, payload;

	if (!(imm & IPOIB_IMM_CSUM) || !(caps & IPOIB_CM_CAP_NO_CSUM) || !t ||
	    len < t->end)
		return -EINVAL;
	if (!(imm & IPOIB_IMM_GSO))
		return 0;
	payload = len - t->end;
	if (!(caps & IPOIB_CM_CAP_GSO) || size < IPOIB_IMM_SIZE_MIN ||
	    payload <= size)
		return -EINVAL;
	if (t->proto == IPPROTO_UDP &&
	    (imm & IPOIB_IMM_ECN || payload > size * IPOIB_IMM_UDP_SEGS))
		return -EINVAL;
	return 0;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_imm_check);
