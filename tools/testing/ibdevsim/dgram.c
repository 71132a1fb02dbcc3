// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the bytes of a datagram: checksums, LSO segments
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>

#include "dgram.h"

/* Bytes before a TCP or UDP header over IPv4 without options. */
#define IBDS_IPV4_LEAD		(IBDS_IPOIB_HLEN + sizeof(struct iphdr))
#define IBDS_IPV6_LEAD		(IBDS_IPOIB_HLEN + sizeof(struct ipv6hdr))

/* Copy, and return the checksum of the copied bytes. */
static __always_inline __wsum ibds_copy_csum(void *dst, const void *src,
					     u32 len)
{
	ibds_copy(dst, src, len);
	return csum_partial(dst, len, 0);
}

static noinline __wsum ibds_gather_csum_pieces(u8 *dst, struct ibds_pos *pos,
					       u32 len)
{
	__wsum sum = 0;
	u32 done = 0;
	u32 n;

	for (; done < len; done += n) {
		const void *src = ibds_pos_va(pos);

		n = min(ibds_pos_span(pos), len - done);
		if (n)
			sum = csum_block_add(sum,
					     ibds_copy_csum(dst + done, src, n),
					     done);
		ibds_pos_advance(pos, n);
	}
	return sum;
}

/* Like ibds_gather(), but return the checksum of the copied bytes. */
static inline __wsum ibds_gather_csum(u8 *dst, struct ibds_pos *pos, u32 len)
{
	__wsum sum;

	if (unlikely(!len || len > ibds_pos_span(pos)))
		return ibds_gather_csum_pieces(dst, pos, len);
	sum = ibds_copy_csum(dst, ibds_pos_va(pos), len);
	ibds_pos_advance(pos, len);
	return sum;
}

/*
 * Offset of the checksum in a TCP or UDP header of @len bytes; 0: none.
 */
static u32 ibds_check_offset(u8 proto, u32 len)
{
	if (proto == IPPROTO_TCP && len >= sizeof(struct tcphdr))
		return offsetof(struct tcphdr, check);
	if (proto == IPPROTO_UDP && len >= sizeof(struct udphdr))
		return offsetof(struct udphdr, check);
	return 0;
}

/* The IPv4 header of a packet, or NULL if it is not a complete IPv4 packet. */
static struct iphdr *ibds_ipv4(u8 *pkt, u32 len)
{
	struct iphdr *ip = (struct iphdr *)(pkt + IBDS_IPOIB_HLEN);
	u32 size;

	if (len < IBDS_IPV4_LEAD ||
	    *(__be16 *)pkt != htons(ETH_P_IP) || ip->version != 4 ||
	    ip->ihl < 5)
		return NULL;
	size = ntohs(ip->tot_len);
	return size >= ip->ihl * 4 && size <= len - IBDS_IPOIB_HLEN ? ip : NULL;
}

static __sum16 ibds_ipv4_l4_check(const struct iphdr *ip, u32 len, __wsum sum)
{
	return csum_tcpudp_magic(ip->saddr, ip->daddr, len, ip->protocol, sum);
}

/**
 * ibds_fill_pieces - write a datagram as it is, from a list of several entries
 * @dst: destination
 * @d: datagram
 *
 * Return: true if its checksums are known to be right.
 */
bool ibds_fill_pieces(u8 *dst, const struct ibds_dgram *d)
{
	struct ibds_pos pos = d->src;

	ibds_gather(dst, &pos, d->len);
	return d->csum_ok;
}

/* Write the @left bytes after an IPv4 header.  Return: see ibds_ud_fill(). */
static bool ibds_fill_l4(u8 *dst, struct ibds_pos *pos, const struct iphdr *ip,
			 u32 left)
{
	u32 len = ntohs(ip->tot_len) - ip->ihl * 4;
	u32 off = ip_is_fragment(ip) ? 0 : ibds_check_offset(ip->protocol, len);
	__sum16 *check = (__sum16 *)(dst + off);
	__wsum sum;

	if (unlikely(!off)) {
		ibds_gather(dst, pos, left);
		return false;
	}
	sum = ibds_gather_csum(dst, pos, len);
	/* Take the old value of the field out of the sum. */
	sum = csum_sub(sum, csum_unfold(*check));
	*check = ibds_ipv4_l4_check(ip, len, sum);
	if (ip->protocol == IPPROTO_UDP && !*check)
		*check = CSUM_MANGLED_0;
	if (unlikely(left != len))
		ibds_gather(dst + len, pos, left - len);
	return ip->ihl == 5;
}

/* A datagram that is not IPv4, of which the first bytes are written. */
static noinline void ibds_fill_v6(u8 *dst, struct ibds_pos *pos, u32 len)
{
	struct ipv6hdr *ip6 = (struct ipv6hdr *)(dst + IBDS_IPOIB_HLEN);
	__sum16 *check;
	u32 l4len, off;

	/* It need not be fast: all is written, then summed. */
	ibds_gather(dst + IBDS_IPV4_LEAD, pos, len - IBDS_IPV4_LEAD);
	if (len < IBDS_IPV6_LEAD || *(__be16 *)dst != htons(ETH_P_IPV6) ||
	    ip6->version != 6 || ntohs(ip6->payload_len) > len - IBDS_IPV6_LEAD)
		return;
	l4len = ntohs(ip6->payload_len);
	off = ibds_check_offset(ip6->nexthdr, l4len);
	if (!off)
		return;
	check = (__sum16 *)(dst + IBDS_IPV6_LEAD + off);
	*check = 0;
	*check = csum_ipv6_magic(&ip6->saddr, &ip6->daddr, l4len, ip6->nexthdr,
				 csum_partial(ip6 + 1, l4len, 0));
	if (ip6->nexthdr == IPPROTO_UDP && !*check)
		*check = CSUM_MANGLED_0;
}

/**
 * ibds_fill_csum - write a datagram with the checksums of the sending HCA
 * @dst: destination
 * @d: datagram
 *
 * The first bytes decide which checksums there are; the rest is summed while it
 * is copied.
 *
 * Return: true if its checksums are known to be right.
 */
bool ibds_fill_csum(u8 *dst, const struct ibds_dgram *d)
{
	struct ibds_pos pos = d->src;
	struct iphdr *ip;
	u32 l4;

	if (unlikely(d->len < IBDS_IPV4_LEAD))
		return ibds_fill_pieces(dst, d);
	ibds_gather(dst, &pos, IBDS_IPV4_LEAD);
	ip = ibds_ipv4(dst, d->len);
	if (unlikely(!ip)) {
		if (d->csum_v6)
			ibds_fill_v6(dst, &pos, d->len);
		else
			ibds_gather(dst + IBDS_IPV4_LEAD, &pos,
				    d->len - IBDS_IPV4_LEAD);
		return false;
	}
	l4 = IBDS_IPOIB_HLEN + ip->ihl * 4;
	if (unlikely(l4 > IBDS_IPV4_LEAD))
		ibds_gather(dst + IBDS_IPV4_LEAD, &pos, l4 - IBDS_IPV4_LEAD);
	ip->check = 0;
	ip->check = ip_fast_csum(ip, ip->ihl);
	return ibds_fill_l4(dst + l4, &pos, ip, d->len - l4);
}

static __sum16 ibds_segment_check(const u8 *hdr, u32 len, __wsum sum)
{
	const struct ipv6hdr *ip6 = (const void *)(hdr + IBDS_IPOIB_HLEN);

	if (ip6->version == 4)
		return ibds_ipv4_l4_check((const void *)ip6, len, sum);
	return csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len, IPPROTO_TCP, sum);
}

/**
 * ibds_fill_segment - write a segment of an LSO request
 * @dst: destination
 * @d: datagram with a header
 *
 * Return: true if its checksums are known to be right.
 */
bool ibds_fill_segment(u8 *dst, const struct ibds_dgram *d)
{
	const struct ibds_segment *seg = d->seg;
	const struct iphdr *ip = (const void *)(seg->hdr + IBDS_IPOIB_HLEN);
	struct tcphdr *tcp = (struct tcphdr *)(dst + seg->l4);
	struct ibds_pos pos = d->src;
	__wsum sum;

	memcpy(dst, seg->hdr, seg->hlen);
	/* A TCP header is a multiple of four bytes. */
	sum = csum_partial(tcp, seg->hlen - seg->l4, 0);
	sum = csum_add(sum, ibds_gather_csum(dst + seg->hlen, &pos,
					     d->len - seg->hlen));
	tcp->check = ibds_segment_check(seg->hdr, d->len - seg->l4, sum);
	return ip->version == 4 && ip->ihl == 5;
}

/**
 * ibds_ud_verify - verify the checksums of a datagram as the receiving HCA does
 * @pkt: datagram
 * @len: bytes
 *
 * Return: true if there are checksums and they are right.
 */
bool ibds_ud_verify(u8 *pkt, u32 len)
{
	struct iphdr *ip = ibds_ipv4(pkt, len);
	u32 l4len, off;
	u8 *l4;

	if (!ip || ip->ihl != 5 || ip_is_fragment(ip) ||
	    ip_fast_csum(ip, ip->ihl))
		return false;
	l4 = (u8 *)(ip + 1);
	l4len = ntohs(ip->tot_len) - sizeof(*ip);
	off = ibds_check_offset(ip->protocol, l4len);
	if (!off)
		return false;
	if (ip->protocol == IPPROTO_UDP && !*(__sum16 *)(l4 + off))
		return false;
	return !ibds_ipv4_l4_check(ip, l4len, csum_partial(l4, l4len, 0));
}
