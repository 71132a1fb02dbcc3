// SPDX-License-Identifier: GPL-2.0-only
/*
 * Neighbour discovery between addresses of 6 and of 20 bytes: RFC 4861, RFC 2464
 * section 6, RFC 4391 section 9.3
 *
 * The options with link-layer addresses have 8 bytes on Ethernet and 24 on
 * IPoIB.  The rest of a message is copied, into a packet of its own.
 */
#include <linux/icmpv6.h>
#include <net/addrconf.h>
#include <net/ip6_checksum.h>
#include <net/ndisc.h>

#include "eipoib_nd.h"

/* An option with a link-layer address: type, length, on IPoIB 2 bytes of zeros. */
static unsigned int eipoib_nd_opt_len(u8 alen)
{
	return alen == ETH_ALEN ? 8 : 24;
}

static void eipoib_nd_put_opt(u8 *opt, u8 type, const u8 *lladdr, u8 alen)
{
	unsigned int len = eipoib_nd_opt_len(alen);

	memset(opt, 0, len);
	opt[0] = type;
	opt[1] = len / 8;
	memcpy(opt + len - alen, lladdr, alen);
}

static bool eipoib_nd_opt_is_lladdr(const u8 *opt)
{
	return opt[0] == ND_OPT_SOURCE_LL_ADDR ||
	       opt[0] == ND_OPT_TARGET_LL_ADDR;
}

/* Longer ones are not sent: they are not fragmented (RFC 6980). */
#define EIPOIB_ND_MAX		4096

/* What has to be there to tell that it is one */
#define EIPOIB_ND_MIN	(sizeof(struct ipv6hdr) + sizeof(struct icmp6hdr))

/* Bytes before the options, 0: not a message of neighbour discovery */
static unsigned int eipoib_nd_fixed_len(u8 type)
{
	switch (type) {
	case NDISC_ROUTER_SOLICITATION:
		return sizeof(struct rs_msg);
	case NDISC_ROUTER_ADVERTISEMENT:
		return sizeof(struct ra_msg);
	case NDISC_NEIGHBOUR_SOLICITATION:
	case NDISC_NEIGHBOUR_ADVERTISEMENT:
		return sizeof(struct nd_msg);
	case NDISC_REDIRECT:
		return sizeof(struct rd_msg);
	default:
		return 0;
	}
}

/**
 * eipoib_nd_is - is this packet a message of neighbour discovery?
 * @skb: packet; its data begins with the header of IPv6
 * Return: true if the first header after that one says so
 */
bool eipoib_nd_is(struct sk_buff *skb)
{
	const struct ipv6hdr *ip6;

	if (!pskb_may_pull(skb, EIPOIB_ND_MIN))
		return false;
	ip6 = (const void *)skb->data;
	return ip6->nexthdr == IPPROTO_ICMPV6 &&
	       eipoib_nd_fixed_len(*(const u8 *)(ip6 + 1));
}

/**
 * eipoib_nd_hidden - is it one behind other headers, or may it be one?
 * @skb: packet with a complete header of IPv6, for which eipoib_nd_is() is false
 * Return: true if it is not to pass, since its addresses can't be checked: Linux
 *	takes messages behind options, and nobody sends them (RFC 6980); or there
 *	was no memory to look at it
 */
bool eipoib_nd_hidden(struct sk_buff *skb)
{
	u8 proto = ((const struct ipv6hdr *)skb->data)->nexthdr;
	__be16 fragment;
	int at;
	u8 type;

	if (likely(!ipv6_ext_hdr(proto)))
		return proto == IPPROTO_ICMPV6 && skb->len >= EIPOIB_ND_MIN &&
		       skb_headlen(skb) < EIPOIB_ND_MIN;
	at = ipv6_skip_exthdr(skb, sizeof(struct ipv6hdr), &proto, &fragment);
	if (at < 0)
		return true;
	if (proto != IPPROTO_ICMPV6 || fragment & htons(IP6_OFFSET))
		return false;
	return skb_copy_bits(skb, at, &type, 1) || eipoib_nd_fixed_len(type);
}

static bool eipoib_nd_checksum_ok(const struct sk_buff *skb,
				  const struct ipv6hdr *ip6, unsigned int len)
{
	if (skb->ip_summed == CHECKSUM_UNNECESSARY ||
	    skb->ip_summed == CHECKSUM_PARTIAL)
		return true;
	return !csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len, IPPROTO_ICMPV6,
				csum_partial(ip6 + 1, len, 0));
}

/* Messages with a target tell its address, others their sender's. */
static bool eipoib_nd_about_target(u8 type)
{
	return type == NDISC_NEIGHBOUR_ADVERTISEMENT || type == NDISC_REDIRECT;
}

static u8 eipoib_nd_option(u8 type)
{
	return eipoib_nd_about_target(type) ? ND_OPT_TARGET_LL_ADDR :
					      ND_OPT_SOURCE_LL_ADDR;
}

/* The first option with the address that such a message is to have counts. */
static bool eipoib_nd_parse_options(const u8 *opt, const u8 *end, u8 alen,
				    struct eipoib_nd *nd)
{
	unsigned int len;

	nd->about = eipoib_nd_about_target(nd->type) ? nd->target : nd->src;
	for (; opt < end; opt += len) {
		if (end - opt < 8 || !opt[1])
			return false;
		len = opt[1] * 8;
		if (len > end - opt)
			return false;
		if (nd->has_lladdr || opt[0] != eipoib_nd_option(nd->type) ||
		    len != eipoib_nd_opt_len(alen) ||
		    ipv6_addr_any(&nd->about))
			continue;
		nd->has_lladdr = true;
		memcpy(nd->lladdr, opt + len - alen, alen);
	}
	return true;
}

/**
 * eipoib_nd_parse - read and check a message of neighbour discovery
 * @skb: packet for which eipoib_nd_is() is true; made linear
 * @alen: length of link-layer addresses on the side it comes from
 * @nd: result
 * Return: false if it is malformed
 */
bool eipoib_nd_parse(struct sk_buff *skb, u8 alen, struct eipoib_nd *nd)
{
	const struct ipv6hdr *ip6;
	unsigned int len, fixed;
	const u8 *icmp;

	if (skb_linearize(skb))
		return false;
	ip6 = (const void *)skb->data;
	icmp = (const u8 *)(ip6 + 1);
	len = ntohs(ip6->payload_len);
	*nd = (struct eipoib_nd){
		.type = icmp[0], .src = ip6->saddr, .dst = ip6->daddr,
	};
	fixed = eipoib_nd_fixed_len(nd->type);
	if (len < fixed || len > EIPOIB_ND_MAX || sizeof(*ip6) + len > skb->len || icmp[1] ||
	    ip6->hop_limit != 255 || ipv6_addr_v4mapped(&ip6->saddr) ||
	    ipv6_addr_v4mapped(&ip6->daddr))
		return false;
	if (fixed >= sizeof(struct nd_msg))
		nd->target = ((const struct nd_msg *)icmp)->target;
	nd->router = nd->type == NDISC_ROUTER_ADVERTISEMENT ||
		     (nd->type == NDISC_NEIGHBOUR_ADVERTISEMENT &&
		      ((const struct icmp6hdr *)icmp)->icmp6_router);
	if (ipv6_addr_is_multicast(&nd->target) ||
	    ipv6_addr_v4mapped(&nd->target) ||
	    !eipoib_nd_checksum_ok(skb, ip6, len))
		return false;
	return eipoib_nd_parse_options(icmp + fixed, icmp + len, alen, nd);
}

static void eipoib_nd_finish(struct sk_buff *skb)
{
	struct ipv6hdr *ip6 = (void *)skb->data;
	struct icmp6hdr *icmp = (void *)(ip6 + 1);
	unsigned int len = skb->len - sizeof(*ip6);

	ip6->payload_len = htons(len);
	icmp->icmp6_cksum = 0;
	icmp->icmp6_cksum = csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len,
					    IPPROTO_ICMPV6,
					    csum_partial(icmp, len, 0));
	skb->protocol = htons(ETH_P_IPV6);
	skb->ip_summed = CHECKSUM_NONE;
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, sizeof(*ip6));
}

static struct sk_buff *eipoib_nd_alloc(struct eipoib_dev *dev, unsigned int len)
{
	unsigned int room = LL_RESERVED_SPACE(dev->lower);
	struct sk_buff *skb;

	skb = alloc_skb(room + len + dev->lower->needed_tailroom, GFP_ATOMIC);
	if (!skb) {
		eipoib_count(dev, EIPOIB_C_NOMEM);
		return NULL;
	}
	skb_reserve(skb, room);
	skb->priority = TC_PRIO_CONTROL;
	return skb;
}

/**
 * eipoib_nd_translate - a message for the other side
 * @dev: interface
 * @old: what eipoib_nd_parse() has accepted
 * @nd: what it has found
 * @to: length of link-layer addresses on the other side
 * @lladdr: address in place of that in its option; NULL: none
 * Return: packet without a link-layer header, NULL if there is no memory
 *
 * All other options with link-layer addresses are removed.
 */
struct sk_buff *eipoib_nd_translate(struct eipoib_dev *dev, struct sk_buff *old,
				    const struct eipoib_nd *nd, u8 to,
				    const u8 *lladdr)
{
	const struct ipv6hdr *ip6 = (const void *)old->data;
	unsigned int fixed = eipoib_nd_fixed_len(nd->type), len;
	unsigned int payload = ntohs(ip6->payload_len);
	const u8 *opt = (const u8 *)(ip6 + 1), *end = opt + payload;
	struct sk_buff *skb;

	skb = eipoib_nd_alloc(dev, sizeof(*ip6) + payload +
			      eipoib_nd_opt_len(INFINIBAND_ALEN));
	if (!skb)
		return NULL;
	skb_put_data(skb, ip6, sizeof(*ip6) + fixed);
	if (lladdr && nd->has_lladdr)
		eipoib_nd_put_opt(skb_put(skb, eipoib_nd_opt_len(to)),
				  eipoib_nd_option(nd->type), lladdr, to);
	for (opt += fixed; opt < end; opt += len) {
		len = opt[1] * 8;
		if (!eipoib_nd_opt_is_lladdr(opt))
			skb_put_data(skb, opt, len);
	}
	eipoib_nd_finish(skb);
	return skb;
}

/* A solicitation or an advertisement of our own. */
static struct sk_buff *eipoib_nd_make(struct eipoib_dev *dev,
				      const struct eipoib_nd *nd, u8 option,
				      u8 alen)
{
	unsigned int options = nd->has_lladdr ? eipoib_nd_opt_len(alen) : 0;
	struct ipv6hdr *ip6;
	struct sk_buff *skb;
	struct nd_msg *msg;

	skb = eipoib_nd_alloc(dev, sizeof(*ip6) + sizeof(*msg) + options);
	if (!skb)
		return NULL;
	ip6 = skb_put_zero(skb, sizeof(*ip6));
	ip6->version = 6;
	ip6->nexthdr = IPPROTO_ICMPV6;
	ip6->hop_limit = 255;
	ip6->saddr = nd->src;
	ip6->daddr = nd->dst;
	msg = skb_put_zero(skb, sizeof(*msg));
	msg->icmph.icmp6_type = nd->type;
	if (nd->type == NDISC_NEIGHBOUR_ADVERTISEMENT) {
		msg->icmph.icmp6_override = 1;
		msg->icmph.icmp6_router = nd->router;
	}
	msg->target = nd->target;
	if (nd->has_lladdr)
		eipoib_nd_put_opt(skb_put(skb, options), option, nd->lladdr,
				  alen);
	eipoib_nd_finish(skb);
	return skb;
}

static void eipoib_nd_queue_fabric(struct eipoib_dev *dev, struct eipoib_nd *nd,
				   u8 option, struct eipoib_batch *batch)
{
	u8 broadcast[INFINIBAND_ALEN], lladdr[INFINIBAND_ALEN];
	struct sk_buff *skb;

	eipoib_lladdr_own(dev, nd->lladdr);
	skb = eipoib_nd_make(dev, nd, option, INFINIBAND_ALEN);
	if (!skb)
		return;
	eipoib_count(dev, EIPOIB_C_TX_ARP);
	eipoib_lladdr_broadcast(dev, broadcast);
	eipoib_group_lladdr(lladdr, &nd->dst, broadcast);
	if (eipoib_header(dev, skb, htons(ETH_P_IPV6), lladdr))
		__skb_queue_tail(&batch->fabric, skb);
}

/**
 * eipoib_nd_ask_fabric - ask the fabric who has an address
 * @dev: interface
 * @from: a guest's address, or unspecified: is there anybody?
 * @ip: address
 * @batch: where the request goes
 */
void eipoib_nd_ask_fabric(struct eipoib_dev *dev, const struct in6_addr *from,
			  const struct in6_addr *ip, struct eipoib_batch *batch)
{
	struct eipoib_nd nd = {
		.type = NDISC_NEIGHBOUR_SOLICITATION,
		.src = *from, .target = *ip,
		.has_lladdr = !ipv6_addr_any(from),
	};

	addrconf_addr_solict_mult(ip, &nd.dst);
	eipoib_nd_queue_fabric(dev, &nd, ND_OPT_SOURCE_LL_ADDR, batch);
}

/**
 * eipoib_nd_ask_guest - ask a guest whether it has an address
 * @dev: interface
 * @ip: address
 * @mac: of the guest, who answers to eipoib_dev.asker
 * @batch: where the request goes
 */
void eipoib_nd_ask_guest(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac, struct eipoib_batch *batch)
{
	struct eipoib_nd nd = {
		.type = NDISC_NEIGHBOUR_SOLICITATION,
		.dst = *ip, .target = *ip, .has_lladdr = true,
	};
	struct sk_buff *skb;

	eipoib_link_local(&nd.src, dev->asker);
	memcpy(nd.lladdr, dev->asker, ETH_ALEN);
	skb = eipoib_nd_make(dev, &nd, ND_OPT_SOURCE_LL_ADDR, ETH_ALEN);
	if (skb && eipoib_frame(dev, skb, htons(ETH_P_IPV6), mac, dev->asker))
		__skb_queue_tail(&batch->guests, skb);
}

/* Tell guests that an address is a peer's. */
void eipoib_nd_tell_guests(struct eipoib_dev *dev, const struct in6_addr *ip,
			   bool router, struct eipoib_batch *batch)
{
	struct eipoib_nd nd = {
		.type = NDISC_NEIGHBOUR_ADVERTISEMENT,
		.src = *ip, .target = *ip, .has_lladdr = true,
		.router = router,
	};
	struct sk_buff *skb;
	u8 dst[ETH_ALEN];

	ipv6_addr_set(&nd.dst, htonl(0xff020000), 0, 0, htonl(1));
	eipoib_group_mac(dst, &nd.dst);
	eipoib_mac_of(nd.lladdr, ip);
	skb = eipoib_nd_make(dev, &nd, ND_OPT_TARGET_LL_ADDR, ETH_ALEN);
	if (skb && eipoib_frame(dev, skb, htons(ETH_P_IPV6), dst, nd.lladdr))
		__skb_queue_tail(&batch->guests, skb);
}

/* Tell the fabric and the host that an address is here: RFC 4861, 7.2.6. */
void eipoib_nd_announce(struct eipoib_dev *dev, const struct in6_addr *ip,
			bool router, struct eipoib_batch *batch)
{
	struct eipoib_nd nd = {
		.type = NDISC_NEIGHBOUR_ADVERTISEMENT,
		.src = *ip, .target = *ip, .has_lladdr = true,
		.router = router,
	};
	unsigned int count = eipoib_batch_count(batch);

	ipv6_addr_set(&nd.dst, htonl(0xff020000), 0, 0, htonl(1));
	eipoib_nd_queue_fabric(dev, &nd, ND_OPT_TARGET_LL_ADDR, batch);
	eipoib_batch_host_too(batch, count);
}
