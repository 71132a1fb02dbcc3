/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_CQ_H
#define IBDEVSIM_CQ_H

#include "cqirq.h"

int ibds_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int ibds_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		   struct ib_udata *udata);
int ibds_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int ibds_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int ibds_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int ibds_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void ibds_cq_purge(struct ibds_cq *cq, const struct ibds_qp *qp);
void ibds_cq_flush(struct ibds_cq *cq);
void ibds_cq_disown(struct ibds_cq *cq, const struct ibds_qp *qp);
void ibds_cq_odd(struct ibds_cq *cq, bool solicited);
void ibds_cq_forget(struct ibds_cq *cq, const struct ibds_qp *qp);
void ibds_cqs_update(struct ibds_dev *dev);
void ibds_cqs_release(struct ibds_dev *dev);

/**
 * ibds_cq_begin - take the next entry of a CQ
 * @cq: completion queue
 *
 * The caller fills all fields that the opcode defines, then calls
 * ibds_cq_end().  Interrupts are disabled.  When the CQ is full, or a fault may
 * concern the completion, the entry is one that is never polled.
 *
 * Return: the entry, with @cq->lock held.
 */
static inline struct ibds_cqe *ibds_cq_begin(struct ibds_cq *cq)
	__acquires(&cq->lock)
{
	spin_lock(&cq->lock);
	if (unlikely(cq->tail - cq->head >= cq->limit))
		return cq->spare;
	return &cq->ring[cq->tail & cq->mask];
}

/**
 * ibds_cq_end - publish an entry, and raise the event if the CQ is armed
 * @cq: completion queue
 * @cqe: entry from ibds_cq_begin()
 * @solicited: the sender requested an event, or it completes in error
 */
static inline void ibds_cq_end(struct ibds_cq *cq, const struct ibds_cqe *cqe,
			       bool solicited)
	__releases(&cq->lock)
{
	if (likely(cqe != cq->spare)) {
		/* Pairs with the check for an empty CQ in ibds_poll_cq(). */
		WRITE_ONCE(cq->tail, cq->tail + 1);
		ibds_count(cq->port, cqe);
		if (cq->notify)
			ibds_cq_event(cq, solicited);
	} else {
		ibds_cq_odd(cq, solicited);
	}
	spin_unlock(&cq->lock);
}

#endif /* IBDEVSIM_CQ_H */
