/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Datagrams
 */
#ifndef IPOIB_IB_H
#define IPOIB_IB_H

#include <linux/mutex.h>

#include "ipoib_attach.h"
#include "ipoib_count.h"
#include "ipoib_tx.h"

struct ipoib_ah;
struct ipoib_dev;
struct ipoib_rxq;

/**
 * struct ipoib_ud - datagram engine of an interface
 * @lock: mutex inside ipoib_dev.lock; the QPs' state and attachments
 * @rxq: private receive queue of an HCA that has no SRQ for UD, or NULL
 * @attached: groups that the first QP is attached to
 * @max_len: longest packet with its encapsulation, from the broadcast group
 * @qps: state of all QPs: RTS, ERR while they drain, else RESET or none
 * @check_loop: the HCA does not block loopback of own multicast
 * @csum: the HCA computes checksums of TCP and UDP over IPv4
 * @lso: the HCA cuts TCP over IPv4
 * @segs: most segments of a packet that the driver cuts
 * @fixed: the number of the first QP must stay, and it sends nothing
 * @restarts: times the QPs were rebuilt
 * @gone: counts of packets sent by removed queues (rtnl)
 * @gone_stops: how often removed queues were full (rtnl)
 */
struct ipoib_ud {
	struct mutex lock;	/* state of the QPs, attachments */
	struct ipoib_rxq *rxq;
	struct ipoib_attached attached;
	u32 max_len;
	enum ib_qp_state qps;
	bool check_loop;
	bool csum;
	bool lso;
	u32 segs;
	bool fixed;
	u64 restarts;
	struct ipoib_count gone;
	u64 gone_stops;
};

/* Does the HCA cut TCP packets? */
static inline bool ipoib_ud_cuts(const struct ipoib_dev *dev)
{
	return dev->ud->lso;
}

extern const struct ipoib_qp_ops ipoib_ud_qp_ops;

u32 ipoib_ud_fit(const struct ipoib_dev *dev, const struct sk_buff *skb);
enum ipoib_sent ipoib_ud_send(struct ipoib_txq *txq, struct sk_buff *skb,
			      struct ipoib_ah *ah, u32 qpn);

#endif /* IPOIB_IB_H */
