/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RCV_H
#define IBDEVSIM_RCV_H

#include "mr.h"
#include "srq.h"

struct ibds_rcv *ibds_rcv_alloc(struct ibds_qp *qp,
				const struct ib_qp_init_attr *init);
void ibds_rcv_free(struct ibds_rcv *rcv);
void ibds_rcv_fail(struct ibds_rcv *rcv, const struct ibds_rwqe *wqe,
		   enum ib_wc_status status);
int ibds_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad);
void ibds_qp_ask(struct ibds_qp *qp, enum ibds_todo what);
void ibds_qp_set_state(struct ibds_qp *qp, enum ib_qp_state state);
void ibds_rcv_set_rss(struct ibds_dev *dev, u32 qpn, struct ibds_rss *rss);

/**
 * ibds_rcv_take - consume a receive
 * @rcv: receive side, locked
 *
 * Return: the entry, valid until @rcv->lock is dropped, or NULL when there is
 * none.
 */
static inline const struct ibds_rwqe *ibds_rcv_take(struct ibds_rcv *rcv)
{
	struct ibds_rq *rq = &rcv->rq;

	if (rcv->srq)
		return ibds_srq_take(rcv->srq, rcv->wqe);
	/* Pairs with smp_store_release() in ibds_post_recv(). */
	if (rq->head == smp_load_acquire(&rq->tail))
		return NULL;
	return ibds_rq_slot(rq, rq->head++);
}

/* Whose memory the posted receives are; @rcv is locked and has a QP. */
static inline struct ibds_space ibds_rcv_space(const struct ibds_rcv *rcv)
{
	const struct ibds_qp *qp = rcv->qp;

	return (struct ibds_space){
		.dev = to_ibds_dev(qp->ib.device),
		.pd = rcv->srq ? rcv->srq->ib.pd : qp->ib.pd,
		.lkey = rcv->srq ? rcv->srq->lkey : qp->lkey,
		.phys = rcv->phys,
	};
}

#endif /* IBDEVSIM_RCV_H */
