// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: receive-side scaling: the Toeplitz hash of a packet's flow
 *
 * The hash is the one of Microsoft's RSS: over the source and destination
 * addresses and, for TCP and UDP that is not a fragment, the ports, as they are on
 * the wire.  IPv6 packets with extension headers are hashed by their addresses.
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip.h>

#include "rss.h"

/* Bytes of a packet that are looked at: the longest IPv4 header and the ports. */
#define IBDS_RSS_HEAD		(IBDS_IPOIB_HLEN + 60 + 4)

/* 32 bits of the key from bit @bit on. */
static u32 ibds_rss_window(const u8 *key, u32 bit)
{
	u64 bits = 0;
	u32 i;

	for (i = 0; i < 5; i++)
		bits = bits << 8 | key[(bit / 8 + i) % IBDS_RSS_KEY];
	return bits >> (8 - bit % 8);
}

/**
 * ibds_rss_set_key - set the key
 * @rss: RSS
 * @key: %IBDS_RSS_KEY bytes
 */
void ibds_rss_set_key(struct ibds_rss *rss, const u8 *key)
{
	u32 half, value, bit, sum;

	memcpy(rss->key, key, IBDS_RSS_KEY);
	for (half = 0; half < ARRAY_SIZE(rss->part); half++) {
		for (value = 0; value < 16; value++) {
			sum = 0;
			for (bit = 0; bit < 4; bit++)
				if (value & (8 >> bit))
					sum ^= ibds_rss_window(key,
							       half * 4 + bit);
			WRITE_ONCE(rss->part[half][value], sum);
		}
	}
}

/**
 * ibds_rss_set_table - spread packets evenly
 * @rss: RSS
 * @channels: number of channels
 */
void ibds_rss_set_table(struct ibds_rss *rss, u32 channels)
{
	u32 i;

	for (i = 0; i < IBDS_RSS_TABLE; i++)
		WRITE_ONCE(rss->table[i], i % channels);
}

static u32 ibds_rss_bytes(const struct ibds_rss *rss, u32 at, const u8 *from,
			  u32 len)
{
	u32 hash = 0;

	for (; len--; at++, from++)
		hash ^= READ_ONCE(rss->part[at * 2][*from >> 4]) ^
			READ_ONCE(rss->part[at * 2 + 1][*from & 15]);
	return hash;
}

static bool ibds_rss_has_ports(u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP;
}

/* The first bytes of a packet.  Return: how many. */
static u32 ibds_rss_head(const struct ibds_dgram *d, u8 *head)
{
	struct ibds_pos pos = d->src;
	u32 len = min_t(u32, d->len, IBDS_RSS_HEAD);

	if (d->fill == IBDS_FILL_SEGMENT) {
		len = min(len, d->seg->hlen);
		memcpy(head, d->seg->hdr, len);
	} else {
		ibds_gather(head, &pos, len);
	}
	return len;
}

/**
 * ibds_rss_hash - hash a packet
 * @rss: RSS
 * @d: packet
 * @hashed: enum ibds_hashed, is set
 *
 * Return: the hash; 0 for what is neither IPv4 nor IPv6.
 */
u32 ibds_rss_hash(const struct ibds_rss *rss, const struct ibds_dgram *d,
		  u8 *hashed)
{
	u8 head[IBDS_RSS_HEAD] __aligned(4);
	const struct iphdr *ip = (void *)(head + IBDS_IPOIB_HLEN);
	const struct ipv6hdr *ip6 = (void *)ip;
	u32 len = ibds_rss_head(d, head);
	u32 hash, input, l4;
	__be16 proto;
	bool ports;

	*hashed = IBDS_HASHED_NONE;
	if (len < IBDS_IPOIB_HLEN)
		return 0;
	proto = *(__be16 *)head;
	if (proto == htons(ETH_P_IP) && len >= IBDS_IPOIB_HLEN + sizeof(*ip)) {
		input = 8;
		l4 = IBDS_IPOIB_HLEN + ip->ihl * 4;
		ports = ibds_rss_has_ports(ip->protocol) && !ip_is_fragment(ip);
		hash = ibds_rss_bytes(rss, 0, (const u8 *)&ip->saddr, input);
	} else if (proto == htons(ETH_P_IPV6) &&
		   len >= IBDS_IPOIB_HLEN + sizeof(*ip6)) {
		input = 32;
		l4 = IBDS_IPOIB_HLEN + sizeof(*ip6);
		ports = ibds_rss_has_ports(ip6->nexthdr);
		hash = ibds_rss_bytes(rss, 0, (const u8 *)&ip6->saddr, input);
	} else {
		return 0;
	}
	*hashed = IBDS_HASHED_L3;
	if (!ports || l4 + 4 > len)
		return hash;
	*hashed = IBDS_HASHED_L4;
	return hash ^ ibds_rss_bytes(rss, input, head + l4, 4);
}
