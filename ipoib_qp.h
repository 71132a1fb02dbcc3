/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Context of a QP
 */
#ifndef IPOIB_QP_H
#define IPOIB_QP_H

#include <linux/completion.h>
#include <linux/list.h>
#include <rdma/ib_verbs.h>

struct ipoib_channel;
struct ipoib_dev;
struct ipoib_rx_slot;
struct ipoib_rxq;
struct ipoib_txq;
struct ipoib_qp;
struct ipoib_rx_batch;
struct ipoib_tx_batch;

/**
 * struct ipoib_qp_ops - handlers for completions of a QP, called by the NAPI
 * @rx: a receive completed, with success or not; its slot is free afterwards
 * @tx: a send completed.  May add packets to retire to the batch, whose queue
 *	is this QP's or none
 * @gone: a lost QP was destroyed, see ipoib_lost_add(): free what it used.
 *	Process context, called once, no lock held; NULL for others
 */
struct ipoib_qp_ops {
	void (*rx)(struct ipoib_channel *ch, struct ipoib_qp *qp,
		   struct ipoib_rx_slot *slot, const struct ib_wc *wc,
		   struct ipoib_rx_batch *batch);
	void (*tx)(struct ipoib_qp *qp, const struct ib_wc *wc,
		   struct ipoib_tx_batch *batch, int budget);
	void (*gone)(struct ipoib_qp *qp);
};

/**
 * struct ipoib_qp - context of every QP of this driver
 *
 * The wc->qp->qp_context of its completions.
 *
 * @ops: handlers for its completions
 * @ib: the verbs object
 * @dev: interface
 * @ch: channel that reports its completions
 * @txq: queue that posts its sends
 * @rxq: queue its receives come from
 * @marker: wr_id of the marker behind the QP's last request, another one for each
 *	teardown
 * @drained: completed by that marker
 * @drained_at: ipoib_channel.barriers at that time
 * @last_wqe: completed when the QP has taken its last buffer from the SRQ;
 *	NULL: not waited for
 * @rx_silent: no event reports the end of its receives
 * @drain_entry: entry in ipoib_drain.qps
 * @drain_begun: jiffies when the marker was posted
 * @live: it may owe completions: has left INIT, and was not reset since
 * @draining: between ipoib_drain_begin() and ipoib_drain_reset()
 * @late: it did not drain, or not in time
 * @stuck: it can't be reset
 * @lost: it could not be destroyed, and outlives its owner, see ipoib_lost.c:
 *	its events must not refer to the interface
 * @lost_reset: likewise, and it was reset
 * @lost_held: likewise, and it has a reference on the module
 * @lost_owned: likewise, and its owner still looks at what it has sent
 * @lost_entry: in ipoib_port.lost
 * @lost_groups: what it is attached to then
 */
struct ipoib_qp {
	const struct ipoib_qp_ops *ops;
	struct ib_qp *ib;
	struct ipoib_dev *dev;
	struct ipoib_channel *ch;
	struct ipoib_txq *txq;
	struct ipoib_rxq *rxq;
	u64 marker;
	struct completion drained;
	u32 drained_at;
	struct completion *last_wqe;
	bool rx_silent;
	struct list_head drain_entry;
	unsigned long drain_begun;
	bool live;
	bool draining;
	bool late;
	bool stuck;
	bool lost;
	bool lost_reset;
	bool lost_held;
	bool lost_owned;
	struct list_head lost_entry;
	struct list_head lost_groups;
};

#endif /* IPOIB_QP_H */
