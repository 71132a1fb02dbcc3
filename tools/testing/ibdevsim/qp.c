// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: queue pairs: life cycle, states, posting, flushing, multicast
 *
 * States and what they allow are those of IBA vol 1, 10.3.1.  A send runs at
 * once when the QP is in RTS and nothing is queued before it; the request is not
 * even copied then.  Otherwise it goes into the ring of the send queue, and
 * ibds_sq_run() executes or flushes it later.  Slots of the queue are in use
 * until a polled completion retires them.
 *
 * What cannot be done under the locks (events, going to ERR because of what a
 * peer sent, retries) is done by the QP's work item.
 */
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "datapath.h"

/* ---- completions -------------------------------------------------------- */

static enum ib_wc_opcode ibds_wc_opcode(const struct ib_send_wr *wr)
{
	return wr->opcode == IB_WR_LSO ? IB_WC_LSO : IB_WC_SEND;
}

/* A send was executed; sq.lock is held. */
static void ibds_sq_done(struct ibds_qp *qp, const struct ib_send_wr *wr)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_cqe *cqe;

	sq->unsignalled++;
	if (!(wr->send_flags & IB_SEND_SIGNALED) && !sq->sig_all)
		return;

	cqe = ibds_cq_begin(qp->send_cq);
	cqe->wc.wr_id = wr->wr_id;
	cqe->wc.status = IB_WC_SUCCESS;
	cqe->wc.opcode = ibds_wc_opcode(wr);
	cqe->wc.vendor_err = 0;
	cqe->wc.qp = &qp->ib;
	cqe->wc.wc_flags = 0;
	cqe->sq_slots = sq->unsignalled;
	sq->unsignalled = 0;
	ibds_cq_end(qp->send_cq, cqe, false);
}

/* A send failed or is flushed: always a completion.  sq.lock is held. */
static void ibds_sq_error(struct ibds_qp *qp, const struct ib_send_wr *wr,
			  enum ib_wc_status status)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_cqe *cqe;

	cqe = ibds_cq_begin(qp->send_cq);
	cqe->wc.wr_id = wr->wr_id;
	cqe->wc.status = status;
	cqe->wc.opcode = IBDS_WC_UNDEFINED;
	cqe->wc.vendor_err = status;
	cqe->wc.qp = &qp->ib;
	cqe->wc.wc_flags = 0;
	cqe->sq_slots = sq->unsignalled + 1;
	sq->unsignalled = 0;
	ibds_cq_end(qp->send_cq, cqe, true);
}

/**
 * ibds_rcv_fail - complete a receive in error
 * @rcv: receive side, locked
 * @wqe: entry that was taken
 * @status: why
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

/* ---- work item ---------------------------------------------------------- */

/**
 * ibds_qp_ask - have a QP's work item do something
 * @qp: queue pair; the caller makes sure that it is alive
 * @what: to do
 */
void ibds_qp_ask(struct ibds_qp *qp, enum ibds_todo what)
{
	set_bit(what, &qp->todo);
	queue_work(ibds_datapath_wq, &qp->work);
}

static bool ibds_qp_wedged(const struct ibds_qp *qp)
{
	return ibds_wedged(qp->port, ibds_qp_special(qp));
}

/* ---- state -------------------------------------------------------------- */

/* What the wire sees of a new state; rcv->lock is held. */
static void ibds_rcv_open(struct ibds_qp *qp)
{
	struct ibds_rcv *rcv = qp->rcv;
	bool on = qp->state >= IB_QPS_RTR && qp->state <= IB_QPS_SQE;
	bool rc = qp->ib.qp_type == IB_QPT_RC;

	rcv->ud_on = on && !rc ? qp->port : NULL;
	rcv->rc_on = on && rc ? qp->port : NULL;
	rcv->rtr = qp->state == IB_QPS_RTR;
}

/*
 * Receives in order, then the event that says an SRQ holds none of this QP's
 * any more (IBA vol 1, 10.2.9.6).  sq.lock and rcv->lock are held.
 */
static void ibds_rcv_flush(struct ibds_qp *qp)
{
	struct ibds_rcv *rcv = qp->rcv;
	struct ibds_rq *rq = &rcv->rq;

	lockdep_assert_held(&rcv->lock);
	if (ibds_qp_wedged(qp))
		return;
	if (rcv->srq) {
		if (!qp->last_wqe)
			ibds_qp_ask(qp, IBDS_TODO_LAST_WQE);
		qp->last_wqe = true;
		return;
	}
	/* Pairs with smp_store_release() in ibds_post_recv(). */
	while (rq->head != smp_load_acquire(&rq->tail))
		ibds_rcv_fail(rcv, ibds_rq_slot(rq, rq->head++),
			      IB_WC_WR_FLUSH_ERR);
}

/*
 * sq.lock is held.  rq->lock too while the state changes, so that
 * ibds_post_recv() either is flushed here or sees the new state.
 */
static void ibds_qp_set_state(struct ibds_qp *qp, enum ib_qp_state state)
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

/* State as far as the consumer is concerned; sq.lock is held. */
static enum ib_qp_state ibds_qp_state(struct ibds_qp *qp)
{
	return READ_ONCE(qp->rcv->broken) ? IB_QPS_ERR : qp->state;
}

/*
 * A completion error in the send queue: SQE when the service is a datagram,
 * ERR otherwise; IBA vol 1, 10.3.1.7 and 10.3.1.8.
 */
static void ibds_sq_fail(struct ibds_qp *qp, const struct ib_send_wr *wr,
			 enum ib_wc_status status)
{
	ibds_sq_error(qp, wr, status);
	ibds_qp_set_state(qp, qp->ib.qp_type == IB_QPT_RC ? IB_QPS_ERR :
							    IB_QPS_SQE);
}

/* ---- send queue --------------------------------------------------------- */

static struct ibds_swqe *ibds_sq_slot(const struct ibds_sq *sq, u32 pos)
{
	return sq->ring + (pos & sq->mask) * sq->stride;
}

static int ibds_sq_alloc(struct ibds_sq *sq, const struct ib_qp_cap *cap)
{
	u32 size = roundup_pow_of_two(max(cap->max_send_wr, 1u));

	spin_lock_init(&sq->lock);
	sq->limit = cap->max_send_wr;
	sq->max_sge = max(cap->max_send_sge, 1u);
	sq->max_inline = cap->max_inline_data;
	sq->mask = size - 1;
	sq->stride = struct_size_t(struct ibds_swqe, sge, sq->max_sge);
	if (sq->max_inline || sq->lso)
		sq->stride += IBDS_MAX_INLINE;
	sq->ring = kvmalloc_array(size, sq->stride, GFP_KERNEL);
	return sq->ring ? 0 : -ENOMEM;
}

static u64 ibds_sge_length(const struct ib_send_wr *wr)
{
	u64 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

static int ibds_inline_check(const struct ibds_sq *sq,
			     const struct ib_send_wr *wr)
{
	return ibds_sge_length(wr) > sq->max_inline ? -EINVAL : 0;
}

/* Errors that ib_post_send() returns at once; IBA vol 1, 11.4.1.1. */
static int ibds_wr_check(const struct ibds_qp *qp, const struct ib_send_wr *wr)
{
	const struct ibds_sq *sq = &qp->sq;
	bool rc = qp->ib.qp_type == IB_QPT_RC;

	if (unlikely((u32)wr->num_sge > sq->max_sge))
		return -EINVAL;
	if (!rc && unlikely(!ud_wr(wr)->ah))
		return -EINVAL;
	if (unlikely(wr->send_flags & (IB_SEND_INLINE | IB_SEND_IP_CSUM))) {
		if ((wr->send_flags & IB_SEND_IP_CSUM) &&
		    (rc || !qp->csum))
			return -EINVAL;
		if ((wr->send_flags & IB_SEND_INLINE) &&
		    ibds_inline_check(sq, wr))
			return -EINVAL;
	}
	if (likely(wr->opcode == IB_WR_SEND))
		return 0;
	if (wr->opcode == IB_WR_SEND_WITH_IMM)
		return 0;
	if (wr->opcode == IB_WR_LSO && sq->lso &&
	    ud_wr(wr)->hlen > 0 && ud_wr(wr)->hlen <= IBDS_MAX_INLINE &&
	    ud_wr(wr)->mss > 0)
		return 0;
	return -EINVAL;
}

/* Keep a request that cannot run now, with all that it points to. */
static void ibds_sq_enqueue(struct ibds_qp *qp, const struct ib_send_wr *wr)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_swqe *wqe = ibds_sq_slot(sq, sq->tail++);
	void *room = &wqe->sge[sq->max_sge];

	if (qp->ib.qp_type == IB_QPT_RC)
		wqe->ud.wr = *wr;
	else
		wqe->ud = *ud_wr(wr);
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(wqe->sge[0]));
	wqe->ud.wr.next = NULL;
	wqe->ud.wr.sg_list = wqe->sge;
	if (unlikely(wr->opcode == IB_WR_LSO)) {
		memcpy(room, wqe->ud.header, wqe->ud.hlen);
		wqe->ud.header = room;
	} else if (unlikely(wr->send_flags & IB_SEND_INLINE)) {
		struct ibds_pos pos = { .sge = wr->sg_list };
		u32 length = ibds_sge_length(wr);

		ibds_gather(room, &pos, length);
		wqe->ud.wr.num_sge = 1;
		wqe->sge[0].addr = (uintptr_t)room;
		wqe->sge[0].length = length;
		wqe->sge[0].lkey = qp->lkey;
	}
}

static enum ib_wc_status ibds_sq_execute(struct ibds_qp *qp,
					 const struct ib_send_wr *wr,
					 struct list_head *later)
{
	enum ib_qp_type type = qp->ib.qp_type;

	if (likely(type == IB_QPT_UD))
		return ibds_ud_send(qp, ud_wr(wr), later);
	if (type == IB_QPT_RC)
		return ibds_rc_send(qp, wr, later);
	return ibds_mad_post(qp, ud_wr(wr), later);
}

/* May requests be executed in ib_post_send()?  sq.lock is held. */
static bool ibds_sq_direct(const struct ibds_qp *qp)
{
	const struct ibds_port *port = qp->port;

	if (unlikely(qp->state != IB_QPS_RTS || qp->sq.head != qp->sq.tail))
		return false;
	if (likely(!READ_ONCE(port->faults.armed)))
		return true;
	return !ibds_qp_wedged(qp) &&
	       (ibds_qp_special(qp) || !READ_ONCE(port->faults.defer_tx));
}

/**
 * ibds_sq_run - execute or flush what waits in the send queue
 * @qp: queue pair, sq.lock is held; RCU read side
 * @later: takes packets that leave the fast path
 * @deferred: called from the work item
 */
static void ibds_sq_run(struct ibds_qp *qp, struct list_head *later,
			bool deferred)
{
	struct ibds_sq *sq = &qp->sq;
	enum ib_wc_status status;
	struct ib_send_wr *wr;

	lockdep_assert_held(&sq->lock);
	while (sq->head != sq->tail) {
		wr = &ibds_sq_slot(sq, sq->head)->ud.wr;
		if (ibds_qp_wedged(qp))
			return;
		if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE) {
			sq->head++;
			ibds_sq_error(qp, wr, IB_WC_WR_FLUSH_ERR);
			continue;
		}
		if (qp->state != IB_QPS_RTS || READ_ONCE(sq->waiting))
			return;
		if (!deferred && READ_ONCE(qp->port->faults.defer_tx) &&
		    !ibds_qp_special(qp)) {
			ibds_qp_ask(qp, IBDS_TODO_RUN);
			return;
		}
		status = ibds_sq_execute(qp, wr, later);
		if (status == IBDS_WAIT)
			return;
		sq->head++;
		if (likely(status == IB_WC_SUCCESS))
			ibds_sq_done(qp, wr);
		else
			ibds_sq_fail(qp, wr, status);
	}
}

static u32 ibds_sq_free(const struct ibds_sq *sq)
{
	return sq->limit - (sq->posted - READ_ONCE(sq->retired));
}

/*
 * Post one request that passed the checks.  sq.lock is held.
 *
 * Return: whether the next one may be executed at once, too.
 */
static bool ibds_sq_post(struct ibds_qp *qp, const struct ib_send_wr *wr,
			 bool direct, struct list_head *later)
{
	enum ib_wc_status status;

	if (unlikely(!direct)) {
		ibds_sq_enqueue(qp, wr);
		return false;
	}
	status = ibds_sq_execute(qp, wr, later);
	if (likely(status == IB_WC_SUCCESS)) {
		ibds_sq_done(qp, wr);
		return true;
	}
	if (status == IBDS_WAIT)
		ibds_sq_enqueue(qp, wr);
	else
		ibds_sq_fail(qp, wr, status);
	return false;
}

int ibds_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	struct ibds_sq *sq = &qp->sq;
	struct ibds_port *port;
	unsigned long flags;
	LIST_HEAD(later);
	u32 room, ns, n = 0;
	bool direct;
	int err;

	rcu_read_lock();
	spin_lock_irqsave(&sq->lock, flags);
	port = qp->port;
	err = -EINVAL;
	if (unlikely(qp->state < IB_QPS_RTS))
		goto out;
	err = -ENOMEM;
	if (ibds_post_fails(port, &port->faults.send_post_error))
		goto out;

	direct = ibds_sq_direct(qp);
	room = ibds_sq_free(sq);
	for (err = 0; wr; wr = wr->next) {
		err = ibds_wr_check(qp, wr);
		if (unlikely(err))
			break;
		if (unlikely(!room)) {
			room = ibds_sq_free(sq);
			if (!room) {
				ibds_count(port, sq_full);
				err = -ENOMEM;
				break;
			}
		}
		room--;
		n++;
		sq->posted++;
		direct = ibds_sq_post(qp, wr, direct, &later);
	}
	if (unlikely(sq->head != sq->tail))
		ibds_sq_run(qp, &later, false);
	ns = READ_ONCE(port->faults.doorbell_ns);
	if (unlikely(ns))
		ndelay(ns);
out:
	spin_unlock_irqrestore(&sq->lock, flags);
	if (unlikely(!list_empty(&later)))
		ibds_later_run(&later);
	rcu_read_unlock();

	ibds_count(port, tx_doorbells);
	ibds_count_add(port, tx_wrs, n);
	if (unlikely(err))
		*bad = wr;
	return err;
}

/* ---- receive queue ------------------------------------------------------ */

/* Posted to a QP in ERR: straight to the CQ, behind what is there. */
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
	/* Pairs with smp_load_acquire() of those who take entries. */
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

/* ---- events ------------------------------------------------------------- */

static const struct {
	enum ibds_todo todo;
	enum ib_event_type event;
} ibds_qp_events[] = {
	{ IBDS_TODO_COMM_EST, IB_EVENT_COMM_EST },
	{ IBDS_TODO_DRAINED, IB_EVENT_SQ_DRAINED },
	{ IBDS_TODO_FATAL, IB_EVENT_QP_FATAL },
	{ IBDS_TODO_LAST_WQE, IB_EVENT_QP_LAST_WQE_REACHED },
};

static void ibds_qp_raise(struct ibds_qp *qp, unsigned long todo)
{
	struct ib_event event = {
		.device = qp->ib.device,
		.element.qp = &qp->ib,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_qp_events); i++) {
		if (!(todo & BIT(ibds_qp_events[i].todo)))
			continue;
		event.event = ibds_qp_events[i].event;
		if (qp->ib.event_handler)
			qp->ib.event_handler(&event, qp->ib.qp_context);
	}
}

static void ibds_qp_work_state(struct ibds_qp *qp, unsigned long todo)
{
	enum ib_qp_state state = qp->state;

	if (state == IB_QPS_RESET)
		return;
	if (todo & BIT(IBDS_TODO_ERR))
		ibds_qp_set_state(qp, IB_QPS_ERR);
	else if ((todo & BIT(IBDS_TODO_SQE)) && state == IB_QPS_RTS)
		ibds_qp_set_state(qp, IB_QPS_SQE);
	else if (state == IB_QPS_ERR)
		/* Flush again: it may have been wedged. */
		ibds_qp_set_state(qp, IB_QPS_ERR);
}

static void ibds_qp_work(struct work_struct *work)
{
	struct ibds_qp *qp = container_of(work, struct ibds_qp, work);
	unsigned long todo = xchg(&qp->todo, 0);
	unsigned long flags;
	LIST_HEAD(later);

	rcu_read_lock();
	spin_lock_irqsave(&qp->sq.lock, flags);
	ibds_qp_work_state(qp, todo);
	ibds_sq_run(qp, &later, true);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	ibds_later_run(&later);
	rcu_read_unlock();
	ibds_qp_raise(qp, todo);
}

/* ---- modify ------------------------------------------------------------- */

/**
 * ibds_path_init - digest an address vector
 * @path: result
 * @attr: what the consumer gave
 */
void ibds_path_init(struct ibds_path *path, const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	path->hint = 0;
	path->dlid = rdma_ah_get_dlid(attr);
	path->path_bits = rdma_ah_get_path_bits(attr);
	path->sl = rdma_ah_get_sl(attr);
	path->grh = rdma_ah_get_ah_flags(attr) & IB_AH_GRH;
	if (!path->grh)
		return;
	path->hop_limit = grh->hop_limit;
	path->sgid_index = grh->sgid_index;
	path->vtf = cpu_to_be32(6 << 28 | grh->traffic_class << 20 |
				(grh->flow_label & 0xfffff));
	path->dgid = grh->dgid;
}

static bool ibds_attr_av_ok(const struct ibds_dev *dev,
			    const struct ib_qp_attr *attr)
{
	const struct rdma_ah_attr *av = &attr->ah_attr;

	return av->type == RDMA_AH_ATTR_TYPE_IB &&
	       rdma_ah_get_port_num(av) >= 1 &&
	       rdma_ah_get_port_num(av) <= dev->caps.ports &&
	       rdma_ah_get_dlid(av) && rdma_ah_get_dlid(av) < IBDS_MFT_BASE &&
	       (!(rdma_ah_get_ah_flags(av) & IB_AH_GRH) ||
		rdma_ah_read_grh(av)->sgid_index < dev->caps.gids);
}

/* Ranges of what the mask says is valid. */
static bool ibds_attr_ok(struct ibds_qp *qp, const struct ib_qp_attr *attr,
			 int mask)
{
	const struct ibds_dev *dev = to_ibds_dev(qp->ib.device);

	if ((mask & IB_QP_PORT) &&
	    (!attr->port_num || attr->port_num > dev->caps.ports))
		return false;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index >= dev->caps.pkeys)
		return false;
	if ((mask & IB_QP_AV) && !ibds_attr_av_ok(dev, attr))
		return false;
	if ((mask & IB_QP_PATH_MTU) &&
	    (attr->path_mtu < IB_MTU_256 ||
	     ib_mtu_enum_to_int(attr->path_mtu) > dev->caps.mtu))
		return false;
	if ((mask & IB_QP_DEST_QPN) && attr->dest_qp_num > IBDS_QPN_LAST)
		return false;
	if ((mask & IB_QP_RETRY_CNT) && attr->retry_cnt > 7)
		return false;
	if ((mask & IB_QP_RNR_RETRY) && attr->rnr_retry > 7)
		return false;
	if ((mask & IB_QP_TIMEOUT) && attr->timeout > 31)
		return false;
	if ((mask & IB_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31)
		return false;
	/* Alternate paths are not offered. */
	return !(mask & IB_QP_ALT_PATH);
}

/* What both sides of the QP need at hand; sq.lock and rcv->lock are held. */
static void ibds_attr_apply(struct ibds_qp *qp, const struct ib_qp_attr *attr,
			    int mask)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	struct ibds_rcv *rcv = qp->rcv;

	if (mask & IB_QP_PORT)
		qp->port = &dev->port[attr->port_num - 1];
	if (mask & IB_QP_PKEY_INDEX) {
		qp->pkey_index = attr->pkey_index;
		rcv->pkey_index = attr->pkey_index;
	}
	if (mask & IB_QP_QKEY) {
		qp->qkey = attr->qkey;
		rcv->qkey = attr->qkey;
	}
	if (mask & IB_QP_AV) {
		ibds_path_init(&qp->av, &attr->ah_attr);
		rcv->remote_lid = qp->av.dlid;
		qp->attr.ah_attr = attr->ah_attr;
		/* The core keeps its own reference. */
		qp->attr.ah_attr.grh.sgid_attr = NULL;
	}
	if (mask & IB_QP_PATH_MTU) {
		qp->attr.path_mtu = attr->path_mtu;
		qp->mtu_shift = 7 + attr->path_mtu;
	}
	if (mask & IB_QP_DEST_QPN) {
		qp->remote_qpn = attr->dest_qp_num;
		rcv->remote_qpn = attr->dest_qp_num;
	}
	if (mask & IB_QP_MIN_RNR_TIMER) {
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
		rcv->rnr_timer = attr->min_rnr_timer;
	}
	if (mask & IB_QP_SQ_PSN)
		qp->sq.psn = attr->sq_psn;
}

/* The rest. */
static void ibds_attr_keep(struct ibds_qp *qp, const struct ib_qp_attr *attr,
			   int mask)
{
	struct ib_qp_attr *kept = &qp->attr;

	if (mask & IB_QP_RQ_PSN)
		kept->rq_psn = attr->rq_psn;
	if (mask & IB_QP_ACCESS_FLAGS)
		kept->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		kept->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		kept->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_TIMEOUT)
		kept->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		kept->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		kept->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_PATH_MIG_STATE)
		kept->path_mig_state = attr->path_mig_state;
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		kept->en_sqd_async_notify = attr->en_sqd_async_notify;
	qp->sq.retries = kept->retry_cnt;
	qp->sq.rnr_retries = kept->rnr_retry;
}

/*
 * Back to empty queues.  Completions of the QP vanish, and what it took from an
 * SRQ is simply gone, as on hardware.  sq.lock is held.
 */
static void ibds_qp_clear(struct ibds_qp *qp)
{
	struct ibds_rcv *rcv = qp->rcv;
	struct ibds_sq *sq = &qp->sq;

	spin_lock(&rcv->lock);
	spin_lock(&rcv->rq.lock);
	ibds_cq_purge(qp->send_cq, qp);
	if (rcv->cq != qp->send_cq)
		ibds_cq_purge(rcv->cq, qp);
	/* Nothing of this QP is left to poll: nobody else retires. */
	sq->head = 0;
	sq->tail = 0;
	sq->posted = 0;
	sq->unsignalled = 0;
	sq->waiting = false;
	sq->late = false;
	sq->give_up = false;
	WRITE_ONCE(sq->retired, 0);
	rcv->rq.head = 0;
	rcv->rq.tail = 0;
	WRITE_ONCE(qp->rq_retired, 0);
	rcv->broken = false;
	qp->last_wqe = false;
	xchg(&qp->todo, 0);
	spin_unlock(&rcv->rq.lock);
	spin_unlock(&rcv->lock);
}

/* sq.lock is held. */
static int ibds_modify_locked(struct ibds_qp *qp, struct ib_qp_attr *attr,
			      int mask, struct list_head *later)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	enum ib_qp_state cur = ibds_qp_state(qp);
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;

	if (READ_ONCE(dev->fatal) &&
	    next != IB_QPS_ERR && next != IB_QPS_RESET)
		return -EIO;
	if (((mask & IB_QP_CUR_STATE) && attr->cur_qp_state != cur) ||
	    !ib_modify_qp_is_ok(cur, next, qp->ib.qp_type, mask) ||
	    !ibds_attr_ok(qp, attr, mask)) {
		ibds_count(qp->port, bad_modify);
		return -EINVAL;
	}

	spin_lock(&qp->rcv->lock);
	ibds_attr_apply(qp, attr, mask);
	spin_unlock(&qp->rcv->lock);
	ibds_attr_keep(qp, attr, mask);
	ibds_qp_set_state(qp, next);
	if (next == IB_QPS_RESET)
		ibds_qp_clear(qp);
	if (next == IB_QPS_SQD && cur == IB_QPS_RTS &&
	    qp->attr.en_sqd_async_notify)
		ibds_qp_ask(qp, IBDS_TODO_DRAINED);
	ibds_sq_run(qp, later, false);
	return 0;
}

int ibds_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	unsigned long flags;
	LIST_HEAD(later);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	rcu_read_lock();
	spin_lock_irqsave(&qp->sq.lock, flags);
	err = ibds_modify_locked(qp, attr, mask, &later);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	ibds_later_run(&later);
	rcu_read_unlock();
	if (!err && (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET)
		hrtimer_cancel(&qp->timer);
	return err;
}

int ibds_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	unsigned long flags;

	spin_lock_irqsave(&qp->sq.lock, flags);
	*attr = qp->attr;
	attr->qp_state = ibds_qp_state(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->qkey = qp->qkey;
	attr->sq_psn = qp->sq.psn;
	attr->dest_qp_num = qp->remote_qpn;
	attr->pkey_index = qp->pkey_index;
	attr->port_num = qp->port->num;
	attr->sq_draining = 0;
	spin_unlock_irqrestore(&qp->sq.lock, flags);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->attr.cap;
	init->sq_sig_type = qp->sq.sig_all ? IB_SIGNAL_ALL_WR :
					     IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	init->create_flags = qp->create_flags;
	init->port_num = qp->port->num;
	return 0;
}

/* ---- multicast ---------------------------------------------------------- */

/**
 * ibds_mcast_bucket - where a port keeps the attachments to a group
 * @port: HCA port
 * @mgid: group
 */
struct hlist_head *ibds_mcast_bucket(struct ibds_port *port,
				     const union ib_gid *mgid)
{
	u64 hi = (__force u64)mgid->global.subnet_prefix;
	u64 lo = (__force u64)mgid->global.interface_id;

	return &port->mcast[hash_64(hi ^ (lo * GOLDEN_RATIO_64),
				    ilog2(ARRAY_SIZE(port->mcast)))];
}

/* What senders look up in an HCA changes under its first port's lock. */
static spinlock_t *ibds_lookup_lock(const struct ibds_qp *qp)
{
	return &to_ibds_dev(qp->ib.device)->port[0].lock;
}

static struct ibds_attach *ibds_attach_find(struct ibds_qp *qp,
					    const union ib_gid *gid, u16 lid)
{
	struct ibds_attach *at;

	list_for_each_entry(at, &qp->mcast, in_qp)
		if (at->mlid == lid && !memcmp(&at->mgid, gid, sizeof(*gid)))
			return at;
	return NULL;
}

static void ibds_attach_del(struct ibds_attach *at)
{
	hlist_del_rcu(&at->node);
	list_del(&at->in_qp);
	kfree_rcu(at, rcu);
}

int ibds_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at, *new;
	unsigned long flags;

	new = kzalloc(sizeof(*new), GFP_KERNEL);
	if (!new)
		return -ENOMEM;
	new->mgid = *gid;
	new->mlid = lid;
	new->count = 1;
	new->rcv = qp->rcv;

	spin_lock_irqsave(lock, flags);
	at = ibds_attach_find(qp, gid, lid);
	if (at) {
		/* Once more changes nothing; IBA vol 1, 11.3.1. */
		at->count++;
	} else {
		list_add(&new->in_qp, &qp->mcast);
		hlist_add_head_rcu(&new->node,
				   ibds_mcast_bucket(qp->port, gid));
	}
	spin_unlock_irqrestore(lock, flags);
	if (at)
		kfree(new);
	return 0;
}

int ibds_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at;
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	at = ibds_attach_find(qp, gid, lid);
	if (at && !--at->count)
		ibds_attach_del(at);
	spin_unlock_irqrestore(lock, flags);
	return at ? 0 : -EINVAL;
}

static void ibds_detach_all(struct ibds_qp *qp)
{
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at, *next;
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	list_for_each_entry_safe(at, next, &qp->mcast, in_qp)
		ibds_attach_del(at);
	spin_unlock_irqrestore(lock, flags);
}

/* ---- create and destroy ------------------------------------------------- */

static int ibds_init_check_flags(const struct ibds_dev *dev,
				 const struct ib_qp_init_attr *init)
{
	u32 allowed = 0;

	if (init->qp_type == IB_QPT_UD) {
		if (dev->caps.lso)
			allowed |= IB_QP_CREATE_IPOIB_UD_LSO;
		if (dev->caps.block_loopback)
			allowed |= IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	}
	return init->create_flags & ~allowed ? -EOPNOTSUPP : 0;
}

static int ibds_init_check_type(const struct ibds_dev *dev,
				const struct ib_qp_init_attr *init)
{
	switch (init->qp_type) {
	case IB_QPT_RC:
		return 0;
	case IB_QPT_UD:
		return init->srq && !dev->caps.ud_srq ? -EOPNOTSUPP : 0;
	case IB_QPT_SMI:
	case IB_QPT_GSI:
		if (init->srq || !init->port_num ||
		    init->port_num > dev->caps.ports)
			return -EINVAL;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int ibds_init_check(const struct ibds_dev *dev,
			   const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;
	int err;

	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (cap->max_send_wr > dev->caps.max_qp_wr ||
	    cap->max_send_sge > dev->caps.max_sge ||
	    cap->max_inline_data > IBDS_MAX_INLINE)
		return -EINVAL;
	if (!init->srq && (cap->max_recv_wr > dev->caps.max_qp_wr ||
			   cap->max_recv_sge > dev->caps.max_sge))
		return -EINVAL;
	err = ibds_init_check_type(dev, init);
	return err ?: ibds_init_check_flags(dev, init);
}

static void ibds_rcv_free(struct ibds_rcv *rcv)
{
	ibds_rq_free(&rcv->rq);
	kfree(rcv->wqe);
	kfree(rcv->bounce);
	/* Senders may still be looking at the rest. */
	kfree_rcu(rcv, rcu);
}

static int ibds_rcv_alloc_buffers(struct ibds_rcv *rcv,
				  const struct ib_qp_init_attr *init)
{
	u32 max_sge = init->cap.max_recv_sge;

	spin_lock_init(&rcv->rq.lock);
	if (rcv->srq) {
		max_sge = rcv->srq->rq.max_sge;
		rcv->wqe = kmalloc(struct_size(rcv->wqe, sge, max_sge),
				   GFP_KERNEL);
		if (!rcv->wqe)
			return -ENOMEM;
	} else if (ibds_rq_alloc(&rcv->rq, init->cap.max_recv_wr,
				 max(max_sge, 1u))) {
		return -ENOMEM;
	}
	if (init->qp_type == IB_QPT_RC || max_sge < 2)
		return 0;
	rcv->bounce = kmalloc(IBDS_MAX_MTU, GFP_KERNEL);
	return rcv->bounce ? 0 : -ENOMEM;
}

static struct ibds_rcv *ibds_rcv_alloc(struct ibds_qp *qp,
				       const struct ib_qp_init_attr *init)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	struct ibds_rcv *rcv;

	rcv = kzalloc(sizeof(*rcv), GFP_KERNEL);
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

static int ibds_qp_publish(struct ibds_dev *dev, struct ibds_qp *qp,
			   const struct ib_qp_init_attr *init)
{
	spinlock_t *lock = ibds_lookup_lock(qp);
	unsigned long flags;
	u32 qpn;
	int err;

	if (init->qp_type == IB_QPT_SMI || init->qp_type == IB_QPT_GSI) {
		qpn = init->qp_type == IB_QPT_GSI;
		qp->port = &dev->port[init->port_num - 1];
		qp->ib.qp_num = qpn;
		if (rcu_access_pointer(qp->port->special[qpn]))
			return -EBUSY;
		rcu_assign_pointer(qp->port->special[qpn], qp->rcv);
		return 0;
	}
	/* Numbers come back late, so that stale packets hit nobody. */
	err = xa_alloc_cyclic(&dev->qps, &qpn, qp->rcv,
			      XA_LIMIT(IBDS_QPN_FIRST, IBDS_QPN_LAST),
			      &dev->next_qpn, GFP_KERNEL);
	if (err < 0)
		return err;
	qp->ib.qp_num = qpn;
	qp->rcv->qpn = qpn;
	spin_lock_irqsave(lock, flags);
	hlist_add_head_rcu(&qp->rcv->node,
			   &dev->qp_hash[qpn % IBDS_QP_BUCKETS]);
	spin_unlock_irqrestore(lock, flags);
	return 0;
}

static void ibds_qp_unpublish(struct ibds_dev *dev, struct ibds_qp *qp)
{
	spinlock_t *lock = ibds_lookup_lock(qp);
	unsigned long flags;

	if (ibds_qp_special(qp)) {
		RCU_INIT_POINTER(qp->port->special[qp->ib.qp_num], NULL);
		return;
	}
	spin_lock_irqsave(lock, flags);
	hlist_del_rcu(&qp->rcv->node);
	spin_unlock_irqrestore(lock, flags);
	xa_erase(&dev->qps, qp->ib.qp_num);
}

static void ibds_qp_init(struct ibds_qp *qp, const struct ib_qp_init_attr *init)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);

	qp->port = &dev->port[0];
	qp->state = IB_QPS_RESET;
	qp->send_cq = to_ibds_cq(init->send_cq);
	qp->lkey = dev->ib.local_dma_lkey;
	qp->phys = dev->caps.dma;
	qp->csum = dev->caps.csum;
	qp->block_loopback = init->create_flags &
			     IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	qp->create_flags = init->create_flags;
	qp->sq.lso = init->create_flags & IB_QP_CREATE_IPOIB_UD_LSO;
	qp->sq.sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->attr.cap = init->cap;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	INIT_LIST_HEAD(&qp->mcast);
	INIT_WORK(&qp->work, ibds_qp_work);
	hrtimer_init(&qp->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	qp->timer.function = ibds_rc_timer;
}

int ibds_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	int err;

	err = ibds_init_check(dev, init);
	if (err)
		return err;
	err = ibds_object_get(dev, &dev->num_qp, dev->caps.max_qp);
	if (err)
		return err;

	ibds_qp_init(qp, init);
	err = ibds_sq_alloc(&qp->sq, &init->cap);
	if (err)
		goto err_count;
	qp->rcv = ibds_rcv_alloc(qp, init);
	if (!qp->rcv) {
		err = -ENOMEM;
		goto err_sq;
	}
	err = ibds_qp_publish(dev, qp, init);
	if (err)
		goto err_rcv;
	return 0;

err_rcv:
	ibds_rcv_free(qp->rcv);
err_sq:
	kvfree(qp->sq.ring);
err_count:
	atomic_dec(&dev->num_qp);
	return err;
}

int ibds_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	struct ibds_rcv *rcv = qp->rcv;
	unsigned long flags;

	ibds_qp_unpublish(dev, qp);
	spin_lock_irqsave(&qp->sq.lock, flags);
	ibds_qp_set_state(qp, IB_QPS_RESET);
	spin_lock(&rcv->lock);
	/* Whoever found @rcv before, finds nobody there from now on. */
	rcv->qp = NULL;
	spin_unlock(&rcv->lock);
	ibds_qp_clear(qp);
	spin_unlock_irqrestore(&qp->sq.lock, flags);

	hrtimer_cancel(&qp->timer);
	cancel_work_sync(&qp->work);
	if (WARN_ON(!list_empty(&qp->mcast)))
		ibds_detach_all(qp);
	ibds_rcv_free(rcv);
	kvfree(qp->sq.ring);
	atomic_dec(&dev->num_qp);
	return 0;
}

/* ---- for the fabric ----------------------------------------------------- */

/**
 * ibds_qp_break - take a QP to ERR or SQE as if its hardware had failed
 * @dev: HCA
 * @qpn: a data QP
 * @sqe: to SQE, without an event; otherwise to ERR with IB_EVENT_QP_FATAL
 *
 * Return: 0 or -ENOENT.
 */
int ibds_qp_break(struct ibds_dev *dev, u32 qpn, bool sqe)
{
	struct ibds_rcv *rcv;
	unsigned long flags;
	int err = -ENOENT;

	rcu_read_lock();
	rcv = xa_load(&dev->qps, qpn);
	if (rcv) {
		spin_lock_irqsave(&rcv->lock, flags);
		if (rcv->qp) {
			if (!sqe)
				set_bit(IBDS_TODO_FATAL, &rcv->qp->todo);
			ibds_qp_ask(rcv->qp, sqe ? IBDS_TODO_SQE :
						   IBDS_TODO_ERR);
			err = 0;
		}
		spin_unlock_irqrestore(&rcv->lock, flags);
	}
	rcu_read_unlock();
	return err;
}

static void ibds_rcv_ask(struct ibds_rcv *rcv, const struct ibds_port *port,
			 enum ibds_todo what)
{
	unsigned long flags;

	spin_lock_irqsave(&rcv->lock, flags);
	if (rcv->qp && (!port || rcv->qp->port == port))
		ibds_qp_ask(rcv->qp, what);
	spin_unlock_irqrestore(&rcv->lock, flags);
}

/**
 * ibds_qps_kick - run what waits after a fault was lifted
 * @port: HCA port whose QPs may have something to do
 */
void ibds_qps_kick(struct ibds_port *port)
{
	struct ibds_rcv *rcv;
	unsigned long qpn;
	int i;

	rcu_read_lock();
	xa_for_each(&port->dev->qps, qpn, rcv)
		ibds_rcv_ask(rcv, port, IBDS_TODO_RUN);
	for (i = 0; i < ARRAY_SIZE(port->special); i++) {
		rcv = rcu_dereference(port->special[i]);
		if (rcv)
			ibds_rcv_ask(rcv, port, IBDS_TODO_RUN);
	}
	rcu_read_unlock();
}

/**
 * ibds_qps_error - take all data QPs of an HCA to ERR
 * @dev: HCA
 */
void ibds_qps_error(struct ibds_dev *dev)
{
	struct ibds_rcv *rcv;
	unsigned long qpn;

	rcu_read_lock();
	xa_for_each(&dev->qps, qpn, rcv)
		ibds_rcv_ask(rcv, NULL, IBDS_TODO_ERR);
	rcu_read_unlock();
}

static const char * const ibds_state_names[] = {
	[IB_QPS_RESET] = "RESET", [IB_QPS_INIT] = "INIT", [IB_QPS_RTR] = "RTR",
	[IB_QPS_RTS] = "RTS", [IB_QPS_SQD] = "SQD", [IB_QPS_SQE] = "SQE",
	[IB_QPS_ERR] = "ERR",
};

static const char *ibds_type_name(enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_SMI:
		return "SMI";
	case IB_QPT_GSI:
		return "GSI";
	case IB_QPT_RC:
		return "RC";
	default:
		return "UD";
	}
}

/* Figures are read without the locks of the queues: good enough to look at. */
static void ibds_rcv_show(struct seq_file *m, struct ibds_rcv *rcv)
{
	const struct ibds_rq *rq = rcv->srq ? &rcv->srq->rq : &rcv->rq;
	const struct ibds_sq *sq;
	const struct ibds_qp *qp;
	unsigned long flags;

	spin_lock_irqsave(&rcv->lock, flags);
	qp = rcv->qp;
	if (qp) {
		sq = &qp->sq;
		seq_printf(m, "%06x %u %-3s %-5s %06x %u/%u/%u %s%u/%u %u %u\n",
			   qp->ib.qp_num, qp->port->num,
			   ibds_type_name(qp->ib.qp_type),
			   ibds_state_names[qp->state], qp->remote_qpn,
			   sq->tail - sq->head, sq->posted - sq->retired,
			   sq->limit, rcv->srq ? "srq:" : "",
			   rq->tail - rq->head, rq->limit,
			   qp->send_cq->tail - qp->send_cq->head,
			   rcv->cq->tail - rcv->cq->head);
	}
	spin_unlock_irqrestore(&rcv->lock, flags);
}

/**
 * ibds_qps_show - list the QPs of an HCA
 * @m: where to
 * @dev: HCA
 */
void ibds_qps_show(struct seq_file *m, struct ibds_dev *dev)
{
	struct ibds_rcv *rcv;
	unsigned long qpn;
	u32 p, i;

	seq_puts(m, "qpn port type state peer send(waiting/used/size) recv(posted/size) cqes(send) cqes(recv)\n");
	rcu_read_lock();
	for (p = 0; p < dev->caps.ports; p++) {
		for (i = 0; i < ARRAY_SIZE(dev->port[p].special); i++) {
			rcv = rcu_dereference(dev->port[p].special[i]);
			if (rcv)
				ibds_rcv_show(m, rcv);
		}
	}
	xa_for_each(&dev->qps, qpn, rcv)
		ibds_rcv_show(m, rcv);
	rcu_read_unlock();
}
