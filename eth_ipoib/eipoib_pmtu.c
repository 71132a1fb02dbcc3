// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets that are too long for where they are to go
 *
 * icmp_send() says nothing about a bridged packet, for that has no route, so the
 * messages are made here: Fragmentation Needed (RFC 1191) and Packet Too Big
 * (RFC 4443 section 3.2), in the name of the destination.
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>

#include "eipoib_pmtu.h"

/* What every peer takes that has no connected mode: RFC 4391 section 7 */
#define EIPOIB_DATAGRAM_MTU	2044
/* No interface in datagram mode has a larger one. */
#define EIPOIB_DATAGRAM_MTU_MAX	4092
/* In the flags of a link-layer address: connections are accepted (RFC 4755). */
#define EIPOIB_LLADDR_RC	0x80
/* Bytes of messages: RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 */
#define EIPOIB_ICMP_LEN		576
#define EIPOIB_ICMPV6_LEN	IPV6_MIN_MTU

/**
 * eipoib_pmtu - the longest packet that a peer can be sent
 * @dev: interface
 * @lladdr: link-layer address of the peer, or of a group
 * Return: bytes.  In connected mode, groups and peers without it get what
 *	every interface in datagram mode takes.
 */
unsigned int eipoib_pmtu(const struct eipoib_dev *dev, const u8 *lladdr)
{
	unsigned int mtu = READ_ONCE(dev->lower->mtu);

	if (mtu <= EIPOIB_DATAGRAM_MTU_MAX ||
	    (lladdr[0] & EIPOIB_LLADDR_RC && !eipoib_lladdr_is_group(lladdr)))
		return mtu;
	return EIPOIB_DATAGRAM_MTU;
}

/* Can a packet be sent to where packets of @mtu bytes can? */
bool eipoib_pmtu_fits(const struct sk_buff *skb, unsigned int mtu)
{
	return skb->len <= mtu ||
	       (skb_is_gso(skb) && skb_gso_validate_network_len(skb, mtu));
}

/* A packet of @len bytes with room for any header. */
static struct sk_buff *eipoib_pmtu_alloc(struct eipoib_dev *dev,
					 const struct sk_buff *old,
					 unsigned int len)
{
	struct sk_buff *skb;

	skb = alloc_skb(LL_RESERVED_SPACE(dev->lower) + len, GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev->lower));
	skb->protocol = old->protocol;
	skb_reset_network_header(skb);
	return skb;
}

/* No message is sent about an error, about a group, about a later fragment. */
static bool eipoib_pmtu_may4(struct sk_buff *skb)
{
	const struct iphdr *ip = (const void *)skb->data;
	unsigned int at = ip->ihl * 4;
	u8 type;

	if (ip->frag_off & htons(IP_OFFSET) || ipv4_is_multicast(ip->daddr) ||
	    ipv4_is_lbcast(ip->daddr) || ipv4_is_zeronet(ip->saddr) ||
	    ipv4_is_multicast(ip->saddr))
		return false;
	if (ip->protocol != IPPROTO_ICMP)
		return true;
	return !skb_copy_bits(skb, at, &type, 1) &&
	       (type == ICMP_ECHO || type == ICMP_ECHOREPLY);
}

static struct sk_buff *eipoib_pmtu_error4(struct eipoib_dev *dev,
					  struct sk_buff *old,
					  unsigned int mtu)
{
	const struct iphdr *old_ip = (const void *)old->data;
	unsigned int room = EIPOIB_ICMP_LEN - sizeof(struct iphdr) -
			    sizeof(struct icmphdr);
	unsigned int cited = min(old->len, room);
	struct icmphdr *icmp;
	struct sk_buff *skb;
	struct iphdr *ip;

	if (!eipoib_pmtu_may4(old))
		return NULL;
	skb = eipoib_pmtu_alloc(dev, old, EIPOIB_ICMP_LEN);
	if (!skb)
		return NULL;
	ip = skb_put_zero(skb, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = IPTOS_PREC_INTERNETCONTROL;
	ip->ttl = 64;
	ip->protocol = IPPROTO_ICMP;
	ip->saddr = old_ip->daddr;
	ip->daddr = old_ip->saddr;
	ip->tot_len = htons(sizeof(*ip) + sizeof(*icmp) + cited);
	ip_send_check(ip);
	icmp = skb_put_zero(skb, sizeof(*icmp));
	icmp->type = ICMP_DEST_UNREACH;
	icmp->code = ICMP_FRAG_NEEDED;
	icmp->un.frag.mtu = htons(min(mtu, 0xffffU));
	if (skb_copy_bits(old, 0, skb_put(skb, cited), cited)) {
		kfree_skb(skb);
		return NULL;
	}
	icmp->checksum = csum_fold(csum_partial(icmp, sizeof(*icmp) + cited,
						0));
	return skb;
}

static bool eipoib_pmtu_may6(struct sk_buff *skb)
{
	const struct ipv6hdr *ip6 = (const void *)skb->data;
	u8 type;

	if (ipv6_addr_is_multicast(&ip6->daddr) || ipv6_addr_any(&ip6->saddr) ||
	    ipv6_addr_is_multicast(&ip6->saddr))
		return false;
	return ip6->nexthdr != IPPROTO_ICMPV6 ||
	       (!skb_copy_bits(skb, sizeof(*ip6), &type, 1) &&
		type & ICMPV6_INFOMSG_MASK);
}

static struct sk_buff *eipoib_pmtu_error6(struct eipoib_dev *dev,
					  struct sk_buff *old,
					  unsigned int mtu)
{
	const struct ipv6hdr *old_ip = (const void *)old->data;
	unsigned int room = EIPOIB_ICMPV6_LEN - sizeof(struct ipv6hdr) -
			    sizeof(struct icmp6hdr);
	unsigned int cited = min(old->len, room);
	unsigned int len = sizeof(struct icmp6hdr) + cited;
	struct icmp6hdr *icmp;
	struct ipv6hdr *ip6;
	struct sk_buff *skb;

	if (!eipoib_pmtu_may6(old))
		return NULL;
	skb = eipoib_pmtu_alloc(dev, old, EIPOIB_ICMPV6_LEN);
	if (!skb)
		return NULL;
	ip6 = skb_put_zero(skb, sizeof(*ip6));
	ip6->version = 6;
	ip6->payload_len = htons(len);
	ip6->nexthdr = IPPROTO_ICMPV6;
	ip6->hop_limit = 64;
	ip6->saddr = old_ip->daddr;
	ip6->daddr = old_ip->saddr;
	icmp = skb_put_zero(skb, sizeof(*icmp));
	icmp->icmp6_type = ICMPV6_PKT_TOOBIG;
	icmp->icmp6_mtu = htonl(mtu);
	if (skb_copy_bits(old, 0, skb_put(skb, cited), cited)) {
		kfree_skb(skb);
		return NULL;
	}
	icmp->icmp6_cksum = csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len,
					    IPPROTO_ICMPV6,
					    csum_partial(icmp, len, 0));
	return skb;
}

static bool eipoib_pmtu_may_tell(struct eipoib_dev *dev, u64 source)
{
	bool may;

	spin_lock_bh(&dev->lock);
	may = eipoib_share_use(&dev->errors, source);
	spin_unlock_bh(&dev->lock);
	return may;
}

/**
 * eipoib_pmtu_error - tell the sender of a packet that it is too long
 * @dev: interface
 * @skb: packet with a complete header of IPv4 or IPv6
 * @source: for whom it counts, see eipoib_source()
 * @mtu: bytes that would have passed
 * Return: message to the sender, without a link-layer header; NULL if there is
 *	none to be sent
 */
struct sk_buff *eipoib_pmtu_error(struct eipoib_dev *dev, struct sk_buff *skb,
				  u64 source, unsigned int mtu)
{
	eipoib_count(dev, EIPOIB_C_TOO_BIG);
	if (!eipoib_pmtu_may_tell(dev, source))
		return NULL;
	return skb->protocol == htons(ETH_P_IP) ?
	       eipoib_pmtu_error4(dev, skb, mtu) :
	       eipoib_pmtu_error6(dev, skb, mtu);
}
