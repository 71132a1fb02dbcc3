// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the stack leaves to the driver: packets as ipoib_fit() sees them, the
 * answer to ndo_features_check, cutting what turns out not to fit
 *
 * Between the stack's question and the moment a packet is sent the mode may
 * change, and so may a neighbour's connection.  So the engines ask again, and
 * what the stack should have cut is cut here by the stack's code.
 */
#include <net/gso.h>

#include "ipoib.h"

/**
 * ipoib_skb_transport - find the transport header whose checksum is missing
 * @skb: packet with its link-layer address in front, of which at least
 *	IPOIB_HARD_LEN bytes are linear, CHECKSUM_PARTIAL
 * @t: result
 * Return: 0, or -EINVAL if it is not TCP's or UDP's right behind the IP header
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

/* Is a packet what the stack says?  Raw sockets send anything as anything. */
static bool ipoib_skb_agrees(const struct sk_buff *skb,
			     const struct ipoib_transport *t)
{
	return skb->protocol == ipoib_skb_proto(skb) &&
	       skb_network_offset(skb) == IPOIB_HARD_LEN &&
	       skb_transport_offset(skb) == IPOIB_HARD_LEN + t->start;
}

/**
 * ipoib_skb_describe - a packet as ipoib_fit() wants it
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

/**
 * ipoib_ud_fit - what has to be done to a packet that is sent as datagrams
 * @dev: interface, in either mode
 * @skb: packet with its link-layer address in front
 *
 * Context: any; the answer is good for sending under the TX lock.
 * Return: bits of enum ipoib_fit
 */
u32 ipoib_ud_fit(const struct ipoib_dev *dev, const struct sk_buff *skb)
{
	const struct ipoib_fit_dest dest = {
		.max_len = READ_ONCE(dev->ud.max_len),
		.max_sge = dev->ud.max_sge,
		.csum = dev->ud.csum,
		.lso = dev->ud.lso,
		.segs = ipoib_tso_segs(dev->ud.txqs[0]->ring.size),
	};
	struct ipoib_fit_packet p;

	ipoib_skb_describe(skb, &p);
	return ipoib_fit(&p, &dest);
}

/**
 * ipoib_offload_features - what the stack may leave to be done to a packet
 * @dev: interface
 * @skb: packet with its link-layer address in front
 * @features: what the interface can do at best
 *
 * Context: BHs disabled.
 */
netdev_features_t ipoib_offload_features(struct ipoib_dev *dev,
					 struct sk_buff *skb,
					 netdev_features_t features)
{
	u32 fit;

	/* More pieces than the HCA can gather: the core makes them fewer. */
	if (unlikely(skb_shinfo(skb)->nr_frags >= dev->ud.max_sge) &&
	    !(dev->connected && dev->ud.max_sge >= IPOIB_REPACK_SGE))
		features &= ~NETIF_F_SG;
	if (!skb_is_gso(skb))
		return features;
	if (unlikely(skb_headlen(skb) < IPOIB_HARD_LEN))
		return features & ~NETIF_F_GSO_MASK;
	fit = READ_ONCE(dev->connected) ? ipoib_neigh_fit(dev, skb) :
					  ipoib_ud_fit(dev, skb);
	/* What is too long stays whole: one signal is enough. */
	if (fit & IPOIB_FIT_SEGMENT)
		features &= ~NETIF_F_GSO_MASK;
	return features;
}

static u32 ipoib_count_list(const struct sk_buff *skb)
{
	u32 num = 0;

	for (; skb; skb = skb->next)
		num++;
	return num;
}

/**
 * ipoib_xmit_segments - cut a packet with the stack's code and send the parts
 * @txq: queue, its TX lock held
 * @skb: packet to be cut, with its link-layer address in front; consumed
 *
 * For a packet that was to be sent whole when the stack asked, and now can't.
 * Each segment takes the way of all packets; none has to be cut again.
 *
 * Context: RCU reader.
 */
void ipoib_xmit_segments(struct ipoib_txq *txq, struct sk_buff *skb)
{
	struct net_device *ndev = txq->qp.dev->ndev;
	struct sk_buff *segs, *seg, *next;

	segs = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM);
	if (IS_ERR_OR_NULL(segs)) {
		ipoib_drop(ndev, skb, SKB_DROP_REASON_SKB_GSO_SEG);
		ipoib_txq_kick(txq);
		return;
	}
	/* One place is for the marker of a drain. */
	if (unlikely(ipoib_count_list(segs) >= ipoib_txq_free(txq))) {
		kfree_skb_list(segs);
		ipoib_drop(ndev, skb, SKB_DROP_REASON_FULL_RING);
		ipoib_txq_kick(txq);
		return;
	}
	consume_skb(skb);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		ndev->netdev_ops->ndo_start_xmit(seg, ndev);
	}
}

/**
 * ipoib_too_long - a packet is longer than its destination takes
 * @dev: interface
 * @skb: packet with its link-layer address in front; consumed
 * @max_len: what it would have taken, with the encapsulation
 *
 * In connected mode, where a route's MTU need not be the link's, its sender
 * is told.
 */
void ipoib_too_long(struct ipoib_dev *dev, struct sk_buff *skb, u32 max_len)
{
	if (dev->connected)
		ipoib_pmtu_signal(dev, skb, max_len - IPOIB_ENCAP_LEN);
	else
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_PKT_TOO_BIG);
}
