// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: receive sides of QPs: states, posting, flushing
 */
#include <linux/slab.h>

#include "call.h"
#include "cq.h"
#include "object.h"
#include "rcv.h"

/* ---- completions -------------------------------------------------------- */

/**
 * ibds_rcv_fail - complete a receive in error
 * @rcv: receive side, locked
 * @wqe: entry that was taken
 * @status: error status
 */
void ibds_rcv_fail(struct ibds_rcv *rcv, const struct ibds_rwqe *wqe,
		   enum ib_wc_status status)
{
	struct ibds_cqe *cqe;

	lockdep_assert_held(&rcv->lock);
	cqe = ibds_cq_begin(rcv->cq);
	cqe->wc.wr_id = wqe->wr_id;
	cqe->wc.status = status;
	cqe->wc.opcode = IBDS_WC_UNDEFINED;
	cqe->wc.vendor_err = status;
	cqe->wc.byte_len = 0;
	cqe->wc.qp = &rcv->qp->ib;
	cqe->wc.wc_flags = 0;
	cqe->sq_slots = 0;
	ibds_cq_end(rcv->cq, cqe, true);
}

/* ---- state -------------------------------------------------------------- */

/**
 * ibds_qp_ask - queue the work item of a QP
 * @qp: queue pair; the caller makes sure that it is alive
 * @what: the request
 */
void ibds_qp_ask(struct ibds_qp *qp, enum ibds_todo what)
{
	set_bit(what, &qp->todo);
	queue_work(ibds_wq_of(qp->user), &qp->work);
}

/*
 * Open or close the receive side as the state of the QP requires.  rcv->lock is
 * held.
 */
static void ibds_rcv_open(struct ibds_qp *qp)
{
	struct ibds_rcv *rcv = qp->rcv;
	bool on = qp->state >= IB_QPS_RTR && qp->state <= IB_QPS_SQE;
	bool rc = qp->ib.qp_type == IB_QPT_RC;
	/* Channels receive what was sent to other QPs. */
	bool rss = rcv->rss || qp->meta;

	rcv->ud_on = on && !rc && !rss ? qp->port : NULL;
	rcv->rss_on = on && rss ? qp->port : NULL;
	rcv->rc_on = on && rc ? qp->port : NULL;
	rcv->rtr = qp->state == IB_QPS_RTR;
}

/**
 * ibds_rcv_set_rss - have channels receive the datagrams for a UD QP, or not
 * @dev: HCA
 * @qpn: QP; nothing is done if it does not exist
 * @rss: RSS over the channels, which has to be freed by RCU; NULL: the QP itself
 *	receives them
 */
void ibds_rcv_set_rss(struct ibds_dev *dev, u32 qpn, struct ibds_rss *rss)
{
	struct ibds_rcv *rcv;
	unsigned long flags;

	rcu_read_lock();
	rcv = ibds_rcv_find(dev, qpn);
	if (rcv) {
		spin_lock_irqsave(&rcv->lock, flags);
		if (rcv->qp && rcv->qp->ib.qp_type == IB_QPT_UD) {
			rcv->rss = rss;
			ibds_rcv_open(rcv->qp);
		}
		spin_unlock_irqrestore(&rcv->lock, flags);
	}
	rcu_read_unlock();
}

/*
 * Flush posted receives of a QP in ERR.  With an SRQ, instead raise the event
 * that the QP takes no more receives from it (IBA vol 1, 10.2.9).
 */
static void ibds_rcv_flush(struct ibds_qp *qp)
{
	struct ibds_rcv *rcv = qp->rcv;
	struct ibds_rq *rq = &rcv->rq;

	lockdep_assert_held(&rcv->lock);
	if (ibds_qp_wedged(qp))
		return;
	if (rcv->partial) {
		ibds_rcv_fail(rcv, rcv->partial, IB_WC_WR_FLUSH_ERR);
		rcv->partial = NULL;
	}
	if (rcv->srq) {
		if (!qp->last_wqe && to_ibds_dev(qp->ib.device)->caps.last_wqe)
			ibds_qp_ask(qp, IBDS_TODO_LAST_WQE);
		qp->last_wqe = true;
		return;
	}
	/* Pairs with smp_store_release() in ibds_post_recv(). */
	while (rq->head != smp_load_acquire(&rq->tail))
		ibds_rcv_fail(rcv, ibds_rq_slot(rq, rq->head++),
			      IB_WC_WR_FLUSH_ERR);
}

/**
 * ibds_qp_set_state - change the state of both sides of a QP
 * @qp: queue pair, sq.lock is held
 * @state: new state; must be legal; ERR in ERR flushes once more
 *
 * rq->lock is taken too, so that ibds_post_recv() either has its receives
 * flushed here or sees the new state.
 */
void ibds_qp_set_state(struct ibds_qp *qp, enum ib_qp_state state)
{
	struct ibds_rcv *rcv = qp->rcv;

	lockdep_assert_held(&qp->sq.lock);
	spin_lock(&rcv->lock);
	spin_lock(&rcv->rq.lock);
	WRITE_ONCE(qp->state, state);
	ibds_rcv_open(qp);
	spin_unlock(&rcv->rq.lock);
	if (state == IB_QPS_ERR)
		ibds_rcv_flush(qp);
	spin_unlock(&rcv->lock);
}

/* ---- posting ------------------------------------------------------------ */

/* Flush receives posted to a QP in ERR, after earlier ones. */
static void ibds_rcv_flush_late(struct ibds_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->rcv->lock, flags);
	if (READ_ONCE(qp->state) == IB_QPS_ERR)
		ibds_rcv_flush(qp);
	spin_unlock_irqrestore(&qp->rcv->lock, flags);
}

int ibds_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	struct ibds_port *port = qp->port;
	struct ibds_rq *rq = &qp->rcv->rq;
	unsigned long flags;
	bool flush = false;
	u32 tail, n = 0;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_POST_RECV);
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	if (ibds_post_fails(port, &port->faults.recv_post_error)) {
		*bad = wr;
		return -ENOMEM;
	}
	spin_lock_irqsave(&rq->lock, flags);
	tail = rq->tail;
	err = -EINVAL;
	if (unlikely(qp->state == IB_QPS_RESET || !rq->ring))
		goto out;
	for (err = 0; wr; wr = wr->next, n++) {
		if (unlikely((u32)wr->num_sge > rq->max_sge)) {
			err = -EINVAL;
			break;
		}
		if (unlikely(tail - READ_ONCE(qp->rq_retired) >= rq->limit)) {
			ibds_count(port, rq_full);
			err = -ENOMEM;
			break;
		}
		ibds_rq_fill(rq, tail++, wr, qp->lkey);
	}
	/* Pairs with smp_load_acquire() where entries are taken. */
	smp_store_release(&rq->tail, tail);
	flush = qp->state == IB_QPS_ERR;
out:
	spin_unlock_irqrestore(&rq->lock, flags);

	if (unlikely(flush))
		ibds_rcv_flush_late(qp);
	ibds_count(port, rx_doorbells);
	ibds_count_add(port, rx_wrs, n);
	if (unlikely(err))
		*bad = wr;
	return err;
}

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ibds_rcv_free - free a receive side that can no longer be looked up
 * @rcv: receive side
 */
void ibds_rcv_free(struct ibds_rcv *rcv)
{
	ibds_rq_free(&rcv->rq);
	kfree(rcv->wqe);
	kfree(rcv->bounce);
	/* Senders may still use the rest, under RCU. */
	kfree_rcu(rcv, rcu);
}

static int ibds_rcv_alloc_buffers(struct ibds_rcv *rcv,
				  const struct ib_qp_init_attr *init)
{
	gfp_t gfp = ibds_gfp(rcv->qp->user);
	u32 max_sge = init->cap.max_recv_sge;

	spin_lock_init(&rcv->rq.lock);
	if (rcv->srq) {
		max_sge = rcv->srq->rq.max_sge;
		rcv->wqe = kmalloc_flex(*rcv->wqe, sge, max_sge, gfp);
		if (!rcv->wqe)
			return -ENOMEM;
	} else if (ibds_rq_alloc(&rcv->rq, init->cap.max_recv_wr,
				 max(max_sge, 1u), gfp)) {
		return -ENOMEM;
	}
	/* A buffer in a region can have several pieces, too. */
	if (init->qp_type == IB_QPT_RC || (max_sge < 2 && !rcv->qp->user))
		return 0;
	rcv->bounce = kmalloc(IBDS_MAX_MTU, gfp);
	return rcv->bounce ? 0 : -ENOMEM;
}

/**
 * ibds_rcv_alloc - allocate the receive side of a QP
 * @qp: queue pair
 * @init: attributes given by the consumer
 *
 * Return: the receive side, closed, or NULL.
 */
struct ibds_rcv *ibds_rcv_alloc(struct ibds_qp *qp,
				const struct ib_qp_init_attr *init)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	struct ibds_rcv *rcv;

	rcv = kzalloc_obj(*rcv, ibds_gfp(qp->user));
	if (!rcv)
		return NULL;
	spin_lock_init(&rcv->lock);
	rcv->qp = qp;
	rcv->cq = to_ibds_cq(init->recv_cq);
	rcv->srq = init->srq ? to_ibds_srq(init->srq) : NULL;
	rcv->phys = dev->caps.dma;
	rcv->csum = dev->caps.csum;
	rcv->block_loopback = qp->block_loopback;
	if (ibds_rcv_alloc_buffers(rcv, init)) {
		ibds_rcv_free(rcv);
		return NULL;
	}
	return rcv;
}
