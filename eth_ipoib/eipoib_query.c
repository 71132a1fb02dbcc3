// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ask guests which groups they are members of
 *
 * Queries of IGMPv3 (RFC 3376) and MLDv2 (RFC 3810), to guests only: the fabric
 * knows its members.  They are sent even if somebody else asks: a bridge sends
 * reports to where queries come from.
 */
#include <linux/icmpv6.h>
#include <linux/igmp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/mld.h>

#include "eipoib_query.h"

/* RFC 3376 section 8, RFC 3810 section 9 */
#define EIPOIB_QUERY_INTERVAL	125	/* seconds */
#define EIPOIB_QUERY_RESPONSE	10	/* seconds */
#define EIPOIB_QUERY_ROBUSTNESS	2
#define EIPOIB_QUERY_STARTUP	3	/* the first ones are sent more often */

/* Options that ask routers to look: RFC 2113, RFC 2711 */
static const u8 eipoib_query_alert4[] = { 148, 4, 0, 0 };
static const u8 eipoib_query_alert6[] = { IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0 };

/* Room before and for a query of @len bytes. */
static struct sk_buff *eipoib_query_alloc(struct eipoib_dev *dev, __be16 proto,
					  unsigned int len)
{
	struct sk_buff *skb = alloc_skb(ETH_HLEN + NET_IP_ALIGN + len,
					GFP_ATOMIC);

	if (!skb) {
		eipoib_count(dev, EIPOIB_C_NOMEM);
		return NULL;
	}
	skb_reserve(skb, ETH_HLEN + NET_IP_ALIGN);
	skb->protocol = proto;
	return skb;
}

static struct sk_buff *eipoib_query4(struct eipoib_dev *dev)
{
	struct igmpv3_query *query;
	struct sk_buff *skb;
	struct iphdr *ip;

	skb = eipoib_query_alloc(dev, htons(ETH_P_IP), sizeof(*ip) +
				 sizeof(eipoib_query_alert4) + sizeof(*query));
	if (!skb)
		return NULL;
	ip = skb_put_zero(skb, sizeof(*ip));
	skb_put_data(skb, eipoib_query_alert4, sizeof(eipoib_query_alert4));
	query = skb_put_zero(skb, sizeof(*query));
	ip->version = 4;
	ip->ihl = (sizeof(*ip) + sizeof(eipoib_query_alert4)) / 4;
	ip->tos = IPTOS_PREC_INTERNETCONTROL;
	ip->ttl = 1;
	ip->protocol = IPPROTO_IGMP;
	ip->daddr = htonl(INADDR_ALLHOSTS_GROUP);
	ip->tot_len = htons(skb->len);
	ip_send_check(ip);
	query->type = IGMP_HOST_MEMBERSHIP_QUERY;
	query->code = EIPOIB_QUERY_RESPONSE * 10;
	query->qrv = EIPOIB_QUERY_ROBUSTNESS;
	query->qqic = EIPOIB_QUERY_INTERVAL;
	query->csum = ip_compute_csum(query, sizeof(*query));
	return skb;
}

static struct sk_buff *eipoib_query6(struct eipoib_dev *dev)
{
	struct mld2_query *query;
	struct ipv6hdr *ip6;
	struct sk_buff *skb;

	skb = eipoib_query_alloc(dev, htons(ETH_P_IPV6), sizeof(*ip6) +
				 sizeof(eipoib_query_alert6) + sizeof(*query));
	if (!skb)
		return NULL;
	ip6 = skb_put_zero(skb, sizeof(*ip6));
	skb_put_data(skb, eipoib_query_alert6, sizeof(eipoib_query_alert6));
	query = skb_put_zero(skb, sizeof(*query));
	ip6->version = 6;
	ip6->payload_len = htons(skb->len - sizeof(*ip6));
	ip6->nexthdr = NEXTHDR_HOP;
	ip6->hop_limit = 1;
	eipoib_link_local(&ip6->saddr, dev->asker);
	ipv6_addr_set(&ip6->daddr, htonl(0xff020000), 0, 0, htonl(1));
	query->mld2q_type = ICMPV6_MGM_QUERY;
	query->mld2q_mrc = htons(EIPOIB_QUERY_RESPONSE * 1000);
	query->mld2q_qrv = EIPOIB_QUERY_ROBUSTNESS;
	query->mld2q_qqic = EIPOIB_QUERY_INTERVAL;
	query->mld2q_cksum = csum_ipv6_magic(&ip6->saddr, &ip6->daddr,
					     sizeof(*query), IPPROTO_ICMPV6,
					     csum_partial(query, sizeof(*query),
							  0));
	return skb;
}

/* The interface is up: the first queries are due. */
void eipoib_query_open(struct eipoib_dev *dev)
{
	dev->query_next = jiffies;
	dev->queries = 0;
}

static void eipoib_query_send(struct eipoib_dev *dev, struct sk_buff *skb,
			      struct eipoib_batch *batch)
{
	struct in6_addr all;
	u8 dst[ETH_ALEN];

	if (!skb)
		return;
	if (skb->protocol == htons(ETH_P_IP))
		all = eipoib_v4(htonl(INADDR_ALLHOSTS_GROUP));
	else
		all = ((const struct ipv6hdr *)skb->data)->daddr;
	eipoib_group_mac(dst, &all);
	if (eipoib_frame(dev, skb, skb->protocol, dst, dev->asker))
		__skb_queue_tail(&batch->guests, skb);
}

/**
 * eipoib_query_tick - ask if it is due
 * @dev: interface
 * @batch: for queries
 */
void eipoib_query_tick(struct eipoib_dev *dev, struct eipoib_batch *batch)
{
	unsigned int wait = EIPOIB_QUERY_INTERVAL;
	unsigned int count = eipoib_batch_count(batch);

	if (time_before(jiffies, dev->query_next) || !eipoib_is_heard(dev))
		return;
	eipoib_query_send(dev, eipoib_query4(dev), batch);
	eipoib_query_send(dev, eipoib_query6(dev), batch);
	/* What there was no memory for is asked at the next tick. */
	if (eipoib_batch_count(batch) != count + 2)
		return;
	if (dev->queries < EIPOIB_QUERY_STARTUP) {
		dev->queries++;
		wait /= 4;
	}
	dev->query_next = jiffies + wait * HZ;
}
