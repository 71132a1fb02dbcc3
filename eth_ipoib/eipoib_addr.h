/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Addresses: IPv4 and IPv6 as one key, the MACs of peers, the link-layer
 * addresses of groups
 *
 * Nothing here depends on a device.
 */
#ifndef EIPOIB_ADDR_H
#define EIPOIB_ADDR_H

#include <linux/etherdevice.h>
#include <linux/if_infiniband.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/unaligned.h>
#include <net/ipv6.h>

/* The header that IPoIB puts before a packet: address, Ethertype, 2 bytes. */
#define EIPOIB_ENCAP_LEN	4
#define EIPOIB_HARD_LEN		(INFINIBAND_ALEN + EIPOIB_ENCAP_LEN)

/**
 * enum eipoib_mac - what a MAC stands for
 * @EIPOIB_MAC_OTHER: any station of the Ethernet
 * @EIPOIB_MAC_V4: the peer whose IPv4 address the MAC contains
 * @EIPOIB_MAC_V6: a peer whose IPv6 address has the hash that it contains
 * @EIPOIB_MAC_NOBODY: a peer whose IP address is not known
 * @EIPOIB_MAC_ASKER: an eipoib interface that asks its guests
 */
enum eipoib_mac {
	EIPOIB_MAC_OTHER,
	EIPOIB_MAC_V4,
	EIPOIB_MAC_V6,
	EIPOIB_MAC_NOBODY,
	EIPOIB_MAC_ASKER,
};

/* The first byte of all that are not EIPOIB_MAC_OTHER */
#define EIPOIB_MAC_FIRST	0xee

enum eipoib_mac eipoib_mac_second_kind(const u8 *mac);
void eipoib_mac_fill(u8 *mac, enum eipoib_mac kind, __be32 value);
void eipoib_mac_of(u8 *mac, const struct in6_addr *ip);
u32 eipoib_mac_hash(const struct in6_addr *ip);

/**
 * eipoib_mac_kind - what a MAC stands for
 * @mac: address
 * Return: EIPOIB_MAC_OTHER unless an eipoib interface made it
 */
static inline enum eipoib_mac eipoib_mac_kind(const u8 *mac)
{
	return mac[0] == EIPOIB_MAC_FIRST ? eipoib_mac_second_kind(mac) :
					    EIPOIB_MAC_OTHER;
}

/* The four bytes behind the prefix of the MAC of a peer. */
static inline __be32 eipoib_mac_value(const u8 *mac)
{
	return get_unaligned((const __be32 *)(mac + 2));
}

/* IPv4 addresses are kept as IPv4-mapped IPv6 addresses. */
static inline struct in6_addr eipoib_v4(__be32 addr)
{
	struct in6_addr ip;

	ipv6_addr_set_v4mapped(addr, &ip);
	return ip;
}

static inline bool eipoib_is_v4(const struct in6_addr *ip)
{
	return ipv6_addr_v4mapped(ip);
}

static inline __be32 eipoib_to_v4(const struct in6_addr *ip)
{
	return ip->s6_addr32[3];
}

bool eipoib_ip_is_host(const struct in6_addr *ip);
bool eipoib_ip_is_group(const struct in6_addr *ip);
void eipoib_group_mac(u8 *mac, const struct in6_addr *ip);
void eipoib_group_lladdr(u8 *lladdr, const struct in6_addr *ip,
			 const u8 *broadcast);
void eipoib_link_local(struct in6_addr *ip, const u8 *mac);

/* Is this link-layer address of IPoIB one of a group? */
static inline bool eipoib_lladdr_is_group(const u8 *lladdr)
{
	return lladdr[4] == 0xff;
}

#endif
