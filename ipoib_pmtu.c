// SPDX-License-Identifier: GPL-2.0-only
/*
 * Path MTU: packets that are too long for their destination
 *
 * In datagram mode the link has one MTU, and longer packets are an error.  In
 * connected mode neighbours differ: the sender of a packet that is too long for
 * one learns it from its route, or by ICMP.
 *
 * RFC 4755 section 7 (MTU).
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <net/icmp.h>

#include "ipoib.h"
#include "ipoib_pmtu.h"
#include "ipoib_proto.h"
#include "ipoib_skb.h"

#define IPOIB_PMTU_WAITING	64

/**
 * struct ipoib_pmtu - packets whose senders must learn a smaller MTU
 * @queue: packets, each with that MTU in its control block
 * @work: sends ICMP for them
 * @signalled: total number of packets that were too long
 */
struct ipoib_pmtu {
	struct sk_buff_head queue;
	struct work_struct work;
	atomic64_t signalled;
};

/* The MTU to report to the sender of a packet in ipoib_pmtu.queue. */
static u32 *ipoib_pmtu_cb(struct sk_buff *skb)
{
	return (u32 *)skb->cb;
}

static void ipoib_pmtu_send(struct sk_buff *skb)
{
	u32 mtu = *ipoib_pmtu_cb(skb);

	if (skb->protocol == htons(ETH_P_IPV6))
		icmpv6_ndo_send(skb, ICMPV6_PKT_TOOBIG, 0, mtu);
	else if (skb->protocol == htons(ETH_P_IP) &&
		 ip_hdr(skb)->frag_off & htons(IP_DF))
		icmp_ndo_send(skb, ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED,
			      htonl(mtu));
	kfree_skb_reason(skb, SKB_DROP_REASON_PKT_TOO_BIG);
}

static void ipoib_pmtu_work(struct work_struct *work)
{
	struct ipoib_pmtu *pmtu = container_of(work, struct ipoib_pmtu, work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&pmtu->queue)))
		ipoib_pmtu_send(skb);
}

/*
 * A packet is too long for its neighbour.  The route is updated here; ICMP, for
 * IPv6 and for IPv4 with DF set, is sent by a work item, since that transmits a
 * packet itself.
 */
static void ipoib_pmtu_signal(struct ipoib_dev *dev, struct sk_buff *skb,
			      u32 mtu)
{
	struct ipoib_pmtu *pmtu = dev->pmtu;

	atomic64_inc(&pmtu->signalled);
	DEV_STATS_INC(dev->ndev, tx_errors);
	if (!skb_dst(skb) || skb_queue_len(&pmtu->queue) >= IPOIB_PMTU_WAITING) {
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_PKT_TOO_BIG);
		return;
	}
	skb_dst_update_pmtu_no_confirm(skb, mtu);
	skb_orphan(skb);
	*ipoib_pmtu_cb(skb) = mtu;
	skb_queue_tail(&pmtu->queue, skb);
	queue_work(ipoib_wq, &pmtu->work);
}

/**
 * ipoib_pmtu_too_long - a packet is longer than its destination takes
 * @dev: interface
 * @skb: packet with its link-layer address in front; consumed
 * @max_len: longest message it takes, with the encapsulation
 *
 * In connected mode, where a route's MTU need not be the link's, its sender is
 * notified.
 *
 * Context: BHs disabled.
 */
void ipoib_pmtu_too_long(struct ipoib_dev *dev, struct sk_buff *skb,
			 u32 max_len)
{
	if (dev->pmtu && dev->connected)
		ipoib_pmtu_signal(dev, skb, max_len - IPOIB_ENCAP_LEN);
	else
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_PKT_TOO_BIG);
}

/**
 * ipoib_pmtu_signalled - how many packets were too long in connected mode
 * @dev: interface of a driver built with connected mode
 */
u64 ipoib_pmtu_signalled(const struct ipoib_dev *dev)
{
	return atomic64_read(&dev->pmtu->signalled);
}

/**
 * ipoib_pmtu_init - prepare an interface for connected mode
 * @dev: interface
 * Return: 0 or -ENOMEM
 */
int ipoib_pmtu_init(struct ipoib_dev *dev)
{
	struct ipoib_pmtu *pmtu;

	pmtu = kzalloc_obj(*pmtu);
	if (!pmtu)
		return -ENOMEM;
	skb_queue_head_init(&pmtu->queue);
	INIT_WORK(&pmtu->work, ipoib_pmtu_work);
	dev->pmtu = pmtu;
	return 0;
}

/**
 * ipoib_pmtu_exit - undo ipoib_pmtu_init(); nothing is sent any more
 * @dev: interface
 */
void ipoib_pmtu_exit(struct ipoib_dev *dev)
{
	cancel_work_sync(&dev->pmtu->work);
	skb_queue_purge(&dev->pmtu->queue);
	kfree(dev->pmtu);
	dev->pmtu = NULL;
}
