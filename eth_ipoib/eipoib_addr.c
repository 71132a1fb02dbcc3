// SPDX-License-Identifier: GPL-2.0-only
/*
 * Addresses: the MACs of peers, the link-layer addresses of groups
 *
 * A frame of a guest names the next hop by its MAC alone, and guests keep MACs
 * for minutes, also when they move to another host.  So the MAC of a peer leads
 * back to its IP address, and every host makes the same one: locally
 * administered, two bytes for the kind, four for the IPv4 address or for a hash
 * of the IPv6 address.
 */
#include <linux/jhash.h>
#include <net/if_inet6.h>
#include <net/ip.h>

#include "eipoib_addr.h"

/* The second byte of the MAC of a peer, by kind */
static const u8 eipoib_mac_second[] = {
	[EIPOIB_MAC_V4]		= 0x1b,
	[EIPOIB_MAC_V6]		= 0x6b,
	[EIPOIB_MAC_NOBODY]	= 0x0b,
	[EIPOIB_MAC_ASKER]	= 0xab,
};

/* See eipoib_mac_kind(), which has looked at the first byte. */
enum eipoib_mac eipoib_mac_second_kind(const u8 *mac)
{
	int kind;

	for (kind = EIPOIB_MAC_V4; kind < ARRAY_SIZE(eipoib_mac_second); kind++)
		if (mac[1] == eipoib_mac_second[kind])
			return kind;
	return EIPOIB_MAC_OTHER;
}

/**
 * eipoib_mac_fill - make a MAC of a kind
 * @mac: result
 * @kind: not EIPOIB_MAC_OTHER
 * @value: its last four bytes
 */
void eipoib_mac_fill(u8 *mac, enum eipoib_mac kind, __be32 value)
{
	mac[0] = EIPOIB_MAC_FIRST;
	mac[1] = eipoib_mac_second[kind];
	put_unaligned(value, (__be32 *)(mac + 2));
}

/**
 * eipoib_mac_hash - the hash in the MAC of a peer with this IPv6 address
 * @ip: address
 * Return: the same on every host
 */
u32 eipoib_mac_hash(const struct in6_addr *ip)
{
	u32 words[4];
	int i;

	for (i = 0; i < 4; i++)
		words[i] = be32_to_cpu(ip->s6_addr32[i]);
	return jhash2(words, ARRAY_SIZE(words), 0);
}

/**
 * eipoib_mac_of - the MAC of a peer
 * @mac: result
 * @ip: its address; unspecified: nobody's
 */
void eipoib_mac_of(u8 *mac, const struct in6_addr *ip)
{
	if (eipoib_is_v4(ip) && eipoib_to_v4(ip))
		eipoib_mac_fill(mac, EIPOIB_MAC_V4, eipoib_to_v4(ip));
	else if (eipoib_is_v4(ip) || ipv6_addr_any(ip))
		eipoib_mac_fill(mac, EIPOIB_MAC_NOBODY, 0);
	else
		eipoib_mac_fill(mac, EIPOIB_MAC_V6,
				cpu_to_be32(eipoib_mac_hash(ip)));
}

/**
 * eipoib_ip_is_host - can a host on the link have this address?
 * @ip: address
 * Return: false for unspecified, loopback, multicast and broadcast ones
 */
bool eipoib_ip_is_host(const struct in6_addr *ip)
{
	__be32 v4 = eipoib_to_v4(ip);

	if (eipoib_is_v4(ip))
		return !ipv4_is_zeronet(v4) && !ipv4_is_loopback(v4) &&
		       !ipv4_is_multicast(v4) && !ipv4_is_lbcast(v4);
	return !ipv6_addr_any(ip) && !ipv6_addr_loopback(ip) &&
	       !ipv6_addr_is_multicast(ip);
}

/* Is this the address of a multicast group? */
bool eipoib_ip_is_group(const struct in6_addr *ip)
{
	return eipoib_is_v4(ip) ? ipv4_is_multicast(eipoib_to_v4(ip)) :
				  ipv6_addr_is_multicast(ip);
}

/* The MAC of a multicast group: RFC 1112 section 6.4, RFC 2464 section 7. */
void eipoib_group_mac(u8 *mac, const struct in6_addr *ip)
{
	if (eipoib_is_v4(ip))
		ip_eth_mc_map(eipoib_to_v4(ip), mac);
	else
		ipv6_eth_mc_map(ip, mac);
}

/**
 * eipoib_group_lladdr - link-layer address of a group on IPoIB
 * @lladdr: result
 * @ip: group
 * @broadcast: the interface's broadcast address, which has P_Key and scope
 */
void eipoib_group_lladdr(u8 *lladdr, const struct in6_addr *ip,
			 const u8 *broadcast)
{
	if (eipoib_is_v4(ip))
		ip_ib_mc_map(eipoib_to_v4(ip), broadcast, lladdr);
	else
		ipv6_ib_mc_map(ip, broadcast, lladdr);
}

/* The link-local address of whoever has a MAC: RFC 4291 appendix A. */
void eipoib_link_local(struct in6_addr *ip, const u8 *mac)
{
	ipv6_addr_set(ip, htonl(0xfe800000), 0, 0, 0);
	memcpy(ip->s6_addr + 8, mac, 3);
	ip->s6_addr[8] ^= 2;
	ip->s6_addr[11] = 0xff;
	ip->s6_addr[12] = 0xfe;
	memcpy(ip->s6_addr + 13, mac + 3, 3);
}
