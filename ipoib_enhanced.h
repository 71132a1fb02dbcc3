/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An HCA's own interface
 */
#ifndef IPOIB_ENHANCED_H
#define IPOIB_ENHANCED_H

#include <linux/netdevice.h>
#include <net/gso.h>
#include <rdma/ib_verbs.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_attach.h"
#include "ipoib_proto.h"
#include "ipoib_tx.h"

/**
 * struct ipoib_enhanced - an HCA's own interface below ours
 * @ops: its operations, with ours on top; those of the net_device
 * @below: its operations
 * @destructor: frees it
 * @parent: the reference that a child has on its parent until it is freed: HCAs
 *	free the parent's last, and must be there
 * @max_len: longest packet with its encapsulation, from the broadcast group
 * @lock: mutex inside ipoib_dev.lock; what follows
 * @up: between its ndo_open and ndo_stop
 * @attached: groups that are attached
 * @qkey_due: it has not been told ipoib_dev.qkey yet
 * @restarts: times it was stopped and opened because a queue was stuck
 * @last: neighbour of the last packet, for each transmit queue
 */
struct ipoib_enhanced {
	struct net_device_ops ops;
	const struct net_device_ops *below;
	void (*destructor)(struct net_device *ndev);
	netdevice_tracker parent;
	u32 max_len;
	struct mutex lock;	/* up and down, attachments */
	bool up;
	struct ipoib_attached attached;
	bool qkey_due;
	u64 restarts;
	struct ipoib_last last[];
};

/* Where a queue keeps the neighbour of its last packet. */
static inline struct ipoib_last *ipoib_enhanced_last(struct ipoib_dev *dev,
						     u32 queue)
{
	return &dev->enhanced->last[queue];
}

int ipoib_enhanced_ask(struct ib_device *ca, u32 num, bool use);
size_t ipoib_enhanced_most_priv(void);
u32 ipoib_enhanced_most_txqs(void);
u32 ipoib_enhanced_most_rxqs(void);
int ipoib_enhanced_init(struct ipoib_dev *dev);
void ipoib_enhanced_refuse(struct ipoib_dev *dev, struct sk_buff *skb,
			   u32 max_len);
void ipoib_enhanced_tx_timeout(struct net_device *ndev, unsigned int queue);
void ipoib_enhanced_get_stats64(struct net_device *ndev,
				struct rtnl_link_stats64 *stats);

/* Is a packet, or are its segments, longer than the link allows? */
static inline bool ipoib_enhanced_too_long(const struct sk_buff *skb,
					   u32 max_len)
{
	if (!skb_is_gso(skb))
		return skb->len - INFINIBAND_ALEN > max_len;
	return !skb_gso_validate_network_len(skb, max_len - IPOIB_ENCAP_LEN);
}

/**
 * ipoib_enhanced_send - hand a packet to the HCA
 * @dev: interface
 * @skb: packet with its link-layer address in front; consumed
 * @ah: destination, valid under RCU
 * @qpn: destination QPN
 *
 * Nothing is handed to an interface that is closed.
 *
 * Context: the packet's transmit queue is locked.
 */
static inline void ipoib_enhanced_send(struct ipoib_dev *dev,
				       struct sk_buff *skb,
				       struct ipoib_ah *ah, u32 qpn)
{
	const struct rdma_netdev *rn = netdev_priv(dev->ndev);
	u32 max_len = READ_ONCE(dev->enhanced->max_len);

	if (unlikely(!READ_ONCE(dev->running) ||
		     ipoib_enhanced_too_long(skb, max_len))) {
		ipoib_enhanced_refuse(dev, skb, max_len);
		return;
	}
	__skb_pull(skb, INFINIBAND_ALEN);
	rn->send(dev->ndev, skb, ah->ib, qpn);
}

#endif /* IPOIB_ENHANCED_H */
