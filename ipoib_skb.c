// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets of the stack: described for ipoib_fit(), dropped
 */
#include "ipoib_fit.h"
#include "ipoib_proto.h"
#include "ipoib_skb.h"

/**
 * ipoib_drop - drop and count a packet that can't be sent
 * @ndev: interface
 * @skb: packet
 * @reason: why
 */
void ipoib_drop(struct net_device *ndev, struct sk_buff *skb,
		enum skb_drop_reason reason)
{
	DEV_STATS_INC(ndev, tx_dropped);
	kfree_skb_reason(skb, reason);
}

/**
 * ipoib_skb_transport - find the transport header whose checksum is missing
 * @skb: packet with its link-layer address in front, of which at least
 *	IPOIB_HARD_LEN bytes are linear, CHECKSUM_PARTIAL
 * @t: result
 * Return: 0, or -EINVAL unless it is TCP or UDP right behind the IP header
 */
int ipoib_skb_transport(const struct sk_buff *skb, struct ipoib_transport *t)
{
	if (ipoib_transport_parse(t, ipoib_skb_proto(skb),
				  skb->data + IPOIB_HARD_LEN,
				  skb_headlen(skb) - IPOIB_HARD_LEN) ||
	    t->start + IPOIB_HARD_LEN != skb_checksum_start_offset(skb) ||
	    t->csum != t->start + skb->csum_offset)
		return -EINVAL;
	return 0;
}

/* Do the skb's offsets match the packet?  Those of raw sockets may not. */
static bool ipoib_skb_agrees(const struct sk_buff *skb,
			     const struct ipoib_transport *t)
{
	return skb->protocol == ipoib_skb_proto(skb) &&
	       skb_network_offset(skb) == IPOIB_HARD_LEN &&
	       skb_transport_offset(skb) == IPOIB_HARD_LEN + t->start;
}

/**
 * ipoib_skb_describe - describe a packet for ipoib_fit()
 * @skb: packet with its link-layer address in front
 * @p: result
 */
void ipoib_skb_describe(const struct sk_buff *skb, struct ipoib_fit_packet *p)
{
	const struct skb_shared_info *info = skb_shinfo(skb);

	*p = (struct ipoib_fit_packet){
		.len = skb->len - INFINIBAND_ALEN,
		.pieces = skb_has_frag_list(skb) ? U8_MAX : info->nr_frags,
		.gso_type = info->gso_type,
		.gso_size = info->gso_size,
		.partial = skb->ip_summed == CHECKSUM_PARTIAL,
		.shared = skb_has_shared_frag(skb),
	};
	if (!p->partial ||
	    skb_headlen(skb) < IPOIB_HARD_LEN + sizeof(struct iphdr))
		return;
	p->ipv6 = ipoib_skb_proto(skb) == htons(ETH_P_IPV6);
	p->hca_csum = ipoib_fit_hca_csum(ipoib_skb_proto(skb),
					 skb->data + IPOIB_HARD_LEN,
					 skb_checksum_start_offset(skb) -
					 IPOIB_HARD_LEN);
	if (ipoib_skb_transport(skb, &p->t) || !ipoib_skb_agrees(skb, &p->t))
		p->t.proto = 0;
}
