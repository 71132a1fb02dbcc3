// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: send queues
 *
 * A send is executed at once, without copying the request, when the QP is in
 * RTS and nothing is queued before it.  Otherwise it is put in the ring, and
 * ibds_sq_run() executes or flushes it later.  Slots are in use until a polled
 * completion retires them: an unsignalled request is retired by the next one that
 * completes (IBA vol 1, 10.8.5 and 10.8.6).
 *
 * All of this runs under sq.lock.
 */
#include <linux/delay.h>
#include <linux/slab.h>

#include "call.h"
#include "cq.h"
#include "rc.h"
#include "rcv.h"
#include "sge.h"
#include "slow.h"
#include "sq.h"
#include "ud.h"

/* ---- completions -------------------------------------------------------- */

/* Opcode, and bytes that were fetched (IBA vol 1, 11.4.2.1), of RC requests. */
static noinline void ibds_wc_rc(struct ib_wc *wc, const struct ib_send_wr *wr)
{
	wc->byte_len = 0;
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		wc->opcode = IB_WC_RDMA_WRITE;
		break;
	case IB_WR_RDMA_READ:
		wc->opcode = IB_WC_RDMA_READ;
		wc->byte_len = ibds_wr_length(wr);
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		wc->opcode = IB_WC_COMP_SWAP;
		wc->byte_len = sizeof(u64);
		break;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		wc->opcode = IB_WC_FETCH_ADD;
		wc->byte_len = sizeof(u64);
		break;
	case IB_WR_LOCAL_INV:
		wc->opcode = IB_WC_LOCAL_INV;
		break;
	case IB_WR_REG_MR:
		wc->opcode = IB_WC_REG_MR;
		break;
	default:
		wc->opcode = IB_WC_SEND;
	}
}

static __always_inline void ibds_wc_sent(struct ib_wc *wc,
					 const struct ib_send_wr *wr)
{
	if (likely((wr->opcode | 1) == IB_WR_SEND_WITH_IMM))
		wc->opcode = IB_WC_SEND;
	else if (likely(wr->opcode == IB_WR_LSO))
		wc->opcode = IB_WC_LSO;
	else
		ibds_wc_rc(wc, wr);
}

/* Complete a send that was executed; sq.lock is held. */
static __always_inline void ibds_sq_done(struct ibds_qp *qp,
					 const struct ib_send_wr *wr)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_cqe *cqe;

	sq->unsignalled++;
	if (!(wr->send_flags & IB_SEND_SIGNALED) && !sq->sig_all)
		return;

	cqe = ibds_cq_begin(qp->send_cq);
	cqe->wc.wr_id = wr->wr_id;
	cqe->wc.status = IB_WC_SUCCESS;
	ibds_wc_sent(&cqe->wc, wr);
	cqe->wc.vendor_err = 0;
	cqe->wc.qp = &qp->ib;
	cqe->wc.wc_flags = 0;
	cqe->sq_slots = sq->unsignalled;
	sq->unsignalled = 0;
	ibds_cq_end(qp->send_cq, cqe, false);
}

/*
 * Complete a send that failed or is flushed, even unsignalled; sq.lock is held.
 */
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

/*
 * Complete a send in error and move the QP to SQE, or to ERR for RC; IBA vol 1,
 * 10.3.1.
 */
static void ibds_sq_fail(struct ibds_qp *qp, const struct ib_send_wr *wr,
			 enum ib_wc_status status)
{
	ibds_sq_error(qp, wr, status);
	ibds_qp_set_state(qp, qp->ib.qp_type == IB_QPT_RC ? IB_QPS_ERR :
							    IB_QPS_SQE);
}

/* ---- requests ----------------------------------------------------------- */

static struct ibds_swqe *ibds_sq_slot(const struct ibds_sq *sq, u32 pos)
{
	return sq->slot[pos & sq->mask];
}

/* Make sure there is memory for a request that waits.  sq.lock is held. */
static bool ibds_sq_prepare(struct ibds_sq *sq)
{
	struct ibds_swqe **slot = &sq->slot[sq->tail & sq->mask];

	if (unlikely(!*slot))
		*slot = kmalloc(sq->stride, GFP_ATOMIC | __GFP_NOWARN);
	return *slot;
}

static u32 ibds_sq_stride(const struct ib_qp_cap *cap, u32 room)
{
	return struct_size_t(struct ibds_swqe, sge, max(cap->max_send_sge, 1u)) +
	       room;
}

/* Bytes after the list of an entry. */
static u32 ibds_sq_entry_room(const struct ibds_sq *sq)
{
	if (sq->keep_ah)
		return sizeof(struct ibds_ah);
	return sq->max_inline || sq->lso ? IBDS_MAX_INLINE : 0;
}

/**
 * ibds_sq_bytes - memory that a send queue of user space takes
 * @cap: its size
 *
 * Return: bytes.
 */
u64 ibds_sq_bytes(const struct ib_qp_cap *cap)
{
	return (u64)roundup_pow_of_two(max(cap->max_send_wr, 1u)) *
	       (ibds_sq_stride(cap, sizeof(struct ibds_ah)) +
		sizeof(struct ibds_swqe *));
}

/**
 * ibds_sq_alloc - allocate a send queue
 * @sq: send queue; @lso and @sig_all are set
 * @cap: its size
 * @lazy: allocate entries when they are needed
 * @gfp: allocation flags
 *
 * Return: 0 or -ENOMEM; ibds_sq_free() has to follow in either case.
 */
int ibds_sq_alloc(struct ibds_sq *sq, const struct ib_qp_cap *cap, bool lazy,
		  gfp_t gfp)
{
	u32 i, size = roundup_pow_of_two(max(cap->max_send_wr, 1u));

	spin_lock_init(&sq->lock);
	sq->limit = cap->max_send_wr;
	sq->max_sge = max(cap->max_send_sge, 1u);
	sq->max_inline = cap->max_inline_data;
	sq->mask = size - 1;
	sq->stride = ibds_sq_stride(cap, ibds_sq_entry_room(sq));
	sq->slot = kvzalloc_objs(*sq->slot, size, gfp);
	if (!sq->slot)
		return -ENOMEM;
	if (lazy)
		return 0;
	if (sq->keep_ah) {
		sq->bounce = kmalloc(IBDS_MAX_MTU, gfp);
		if (!sq->bounce)
			return -ENOMEM;
	}
	sq->ring = kvmalloc_array(size, sq->stride, gfp | __GFP_NOWARN);
	for (i = 0; sq->ring && i < size; i++)
		sq->slot[i] = sq->ring + i * sq->stride;
	return sq->ring ? 0 : -ENOMEM;
}

/**
 * ibds_sq_keep_ah - have requests that wait keep a copy of their address handle
 * @sq: send queue of a UD QP, allocated lazily, to which nothing was posted yet
 *
 * Headers of LSO requests are not copied then: they have to stay.
 */
void ibds_sq_keep_ah(struct ibds_sq *sq)
{
	const struct ib_qp_cap cap = { .max_send_sge = sq->max_sge };

	sq->keep_ah = true;
	sq->stride = ibds_sq_stride(&cap, ibds_sq_entry_room(sq));
}

/**
 * ibds_sq_free - undo ibds_sq_alloc()
 * @sq: send queue
 */
void ibds_sq_free(struct ibds_sq *sq)
{
	u32 i;

	for (i = 0; sq->slot && !sq->ring && i <= sq->mask; i++)
		kfree(sq->slot[i]);
	kvfree(sq->ring);
	kvfree(sq->slot);
	kfree(sq->bounce);
}

static int ibds_inline_check(const struct ibds_sq *sq,
			     const struct ib_send_wr *wr)
{
	return ibds_wr_length(wr) > sq->max_inline ? -EINVAL : 0;
}

/* Requests that only RC QPs take. */
static noinline int ibds_wr_check_rc(const struct ibds_qp *qp,
				     const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_INV:
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return 0;
	case IB_WR_RDMA_READ:
		return wr->send_flags & IB_SEND_INLINE ? -EINVAL : 0;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return wr->send_flags & IB_SEND_INLINE ||
		       ibds_wr_length(wr) < sizeof(u64) ? -EINVAL : 0;
	case IB_WR_LOCAL_INV:
	case IB_WR_REG_MR:
		return qp->user || wr->num_sge ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
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
	return rc ? ibds_wr_check_rc(qp, wr) : -EINVAL;
}

/* Bytes of a request of an RC QP. */
static size_t ibds_wr_size(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		return sizeof(struct ib_rdma_wr);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return sizeof(struct ib_atomic_wr);
	case IB_WR_REG_MR:
		return sizeof(struct ib_reg_wr);
	default:
		return sizeof(*wr);
	}
}

/* Queue a request that cannot be executed now, with all it points to. */
static void ibds_sq_enqueue(struct ibds_qp *qp, const struct ib_send_wr *wr)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_swqe *wqe = ibds_sq_slot(sq, sq->tail++);
	void *room = &wqe->sge[sq->max_sge];

	if (qp->ib.qp_type == IB_QPT_RC)
		memcpy(wqe, wr, ibds_wr_size(wr));
	else
		wqe->ud = *ud_wr(wr);
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(wqe->sge[0]));
	wqe->wr.next = NULL;
	wqe->wr.sg_list = wqe->sge;
	if (unlikely(sq->keep_ah)) {
		memcpy(room, to_ibds_ah(wqe->ud.ah), sizeof(struct ibds_ah));
		wqe->ud.ah = &((struct ibds_ah *)room)->ib;
	} else if (unlikely(wr->opcode == IB_WR_LSO)) {
		memcpy(room, wqe->ud.header, wqe->ud.hlen);
		wqe->ud.header = room;
	} else if (unlikely(wr->send_flags & IB_SEND_INLINE)) {
		struct ibds_pos pos = { .sge = wr->sg_list };
		u32 length = ibds_wr_length(wr);

		ibds_gather(room, &pos, length);
		wqe->wr.num_sge = 1;
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

/* True if ib_post_send() may execute requests at once.  sq.lock is held. */
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

/* Part of a burst that a request of a user takes: a group has many members. */
static u32 ibds_sq_cost(const struct ibds_qp *qp, const struct ib_send_wr *wr)
{
	return qp->ib.qp_type == IB_QPT_UD &&
	       ud_wr(wr)->remote_qpn == IBDS_QPN_MULTICAST ? IBDS_BURST : 1;
}

/* In SQD, a message that has been begun is completed; IBA vol 1, 10.3.1.5. */
static bool ibds_sq_may_run(const struct ibds_qp *qp)
{
	const struct ibds_sq *sq = &qp->sq;

	if (READ_ONCE(sq->waiting))
		return false;
	return qp->state == IB_QPS_RTS ||
	       (qp->state == IB_QPS_SQD && sq->done);
}

/**
 * ibds_sq_run - execute or flush queued requests
 * @qp: queue pair, sq.lock is held; RCU read side
 * @later: list for packets that leave the fast path
 * @deferred: called from the work item
 */
void ibds_sq_run(struct ibds_qp *qp, struct list_head *later, bool deferred)
{
	struct ibds_sq *sq = &qp->sq;
	enum ib_wc_status status;
	struct ib_send_wr *wr;
	u32 n = 0;

	lockdep_assert_held(&sq->lock);
	while (sq->head != sq->tail) {
		wr = &ibds_sq_slot(sq, sq->head)->wr;
		if (ibds_qp_wedged(qp))
			return;
		if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_SQE) {
			sq->head++;
			sq->done = 0;
			ibds_sq_error(qp, wr, IB_WC_WR_FLUSH_ERR);
			continue;
		}
		if (!ibds_sq_may_run(qp))
			return;
		if (unlikely(qp->user)) {
			if (n >= IBDS_BURST) {
				ibds_qp_ask(qp, IBDS_TODO_RUN);
				return;
			}
			n += ibds_sq_cost(qp, wr);
		}
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
		if (qp->state == IB_QPS_SQD && qp->attr.en_sqd_async_notify)
			ibds_qp_ask(qp, IBDS_TODO_DRAINED);
	}
}

static u32 ibds_sq_room(const struct ibds_sq *sq)
{
	return sq->limit - (sq->posted - READ_ONCE(sq->retired));
}

/*
 * Post one request that passed the checks.  sq.lock is held.
 *
 * Return: true if the next one may be executed at once, too.
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

/* Post requests to a QP in RTS, SQD or SQE.  sq.lock is held. */
static __always_inline int ibds_sq_post_list(struct ibds_qp *qp,
					     const struct ib_send_wr **next,
					     u32 *n, struct list_head *later)
{
	const struct ib_send_wr *wr = *next;
	struct ibds_port *port = qp->port;
	struct ibds_sq *sq = &qp->sq;
	u32 room, burst = 0;
	bool direct;
	int err = 0;

	if (ibds_post_fails(port, &port->faults.send_post_error))
		return -ENOMEM;
	direct = ibds_sq_direct(qp);
	room = ibds_sq_room(sq);
	for (; wr; wr = wr->next) {
		err = ibds_wr_check(qp, wr);
		if (unlikely(err))
			break;
		if (unlikely(!room)) {
			room = ibds_sq_room(sq);
			if (!room) {
				ibds_count(port, sq_full);
				err = -ENOMEM;
				break;
			}
		}
		if (unlikely(!direct && !ibds_sq_prepare(sq))) {
			err = -ENOMEM;
			break;
		}
		room--;
		++*n;
		sq->posted++;
		direct = ibds_sq_post(qp, wr, direct, later);
		if (unlikely(qp->user)) {
			burst += ibds_sq_cost(qp, wr);
			direct &= burst < IBDS_BURST;
		}
	}
	*next = wr;
	return err;
}

/*
 * Queue requests posted in ERR: they are flushed, whatever they ask for (IBA
 * vol 1, 10.3.1.6).  Only struct ib_send_wr is read: ib_drain_sq() posts no
 * struct ib_ud_wr.  sq.lock is held.
 */
static int ibds_sq_post_dead(struct ibds_qp *qp, const struct ib_send_wr **wr,
			     u32 *n)
{
	struct ibds_sq *sq = &qp->sq;
	struct ibds_swqe *wqe;

	lockdep_assert_held(&sq->lock);
	if (ibds_post_fails(qp->port, &qp->port->faults.send_post_error))
		return -ENOMEM;
	for (; *wr; *wr = (*wr)->next, ++*n) {
		if (!ibds_sq_room(sq)) {
			ibds_count(qp->port, sq_full);
			return -ENOMEM;
		}
		if (!ibds_sq_prepare(sq))
			return -ENOMEM;
		sq->posted++;
		wqe = ibds_sq_slot(sq, sq->tail++);
		wqe->wr = **wr;
		wqe->wr.next = NULL;
		wqe->wr.sg_list = NULL;
		wqe->wr.num_sge = 0;
	}
	return 0;
}

/* Not in RTS.  Return: 1 to queue requests, which then wait or are flushed. */
static noinline int ibds_sq_post_closed(struct ibds_qp *qp,
					const struct ib_send_wr **wr, u32 *n)
{
	if (qp->state < IB_QPS_RTS)
		return -EINVAL;
	return qp->state == IB_QPS_ERR ? ibds_sq_post_dead(qp, wr, n) : 1;
}

static __always_inline int ibds_sq_post_any(struct ibds_qp *qp,
					    const struct ib_send_wr **wr,
					    u32 *n, struct list_head *later)
{
	/* Local copies, so that the fast path keeps them in registers. */
	const struct ib_send_wr *next = *wr;
	u32 posted = 0;
	int err;

	if (unlikely(qp->state != IB_QPS_RTS)) {
		err = ibds_sq_post_closed(qp, &next, &posted);
		if (err <= 0) {
			*wr = next;
			*n = posted;
			return err;
		}
	}
	return ibds_sq_post_list(qp, wr, n, later);
}

int ibds_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	struct ibds_sq *sq = &qp->sq;
	struct ibds_port *port;
	unsigned long flags;
	LIST_HEAD(later);
	u32 ns, n = 0;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_POST_SEND);
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	rcu_read_lock();
	spin_lock_irqsave(&sq->lock, flags);
	port = qp->port;
	err = ibds_sq_post_any(qp, &wr, &n, &later);
	if (unlikely(sq->head != sq->tail))
		ibds_sq_run(qp, &later, false);
	ns = READ_ONCE(port->faults.doorbell_ns);
	if (unlikely(ns))
		ndelay(ns);
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
