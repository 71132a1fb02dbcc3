// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: queue pairs: life cycle, states, events
 *
 * States and what they allow are those of IBA vol 1, 10.3.1.  What cannot be done
 * under the locks is left to the QP's work item: events, the change to ERR
 * caused by a peer's message, retries.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "addr.h"
#include "call.h"
#include "cq.h"
#include "mcast.h"
#include "object.h"
#include "qp.h"
#include "rc.h"
#include "rcv.h"
#include "slow.h"
#include "sq.h"

/* ---- state -------------------------------------------------------------- */

/* State as the consumer sees it; sq.lock is held. */
static enum ib_qp_state ibds_qp_state(struct ibds_qp *qp)
{
	return READ_ONCE(qp->rcv->broken) ? IB_QPS_ERR : qp->state;
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
	{ IBDS_TODO_ACCESS, IB_EVENT_QP_ACCESS_ERR },
	{ IBDS_TODO_INVALID, IB_EVENT_QP_REQ_ERR },
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
	unsigned long todo, flags;
	LIST_HEAD(later);

	rcu_read_lock();
	spin_lock_irqsave(&qp->sq.lock, flags);
	/* Under the lock: a RESET voids earlier requests. */
	todo = xchg(&qp->todo, 0);
	ibds_qp_work_state(qp, todo);
	ibds_sq_run(qp, &later, true);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	ibds_later_run(&later);
	rcu_read_unlock();
	ibds_qp_raise(qp, todo);
}

/* ---- modify ------------------------------------------------------------- */

static bool ibds_attr_av_ok(const struct ibds_qp *qp,
			    const struct ib_qp_attr *attr)
{
	const struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	const struct rdma_ah_attr *av = &attr->ah_attr;

	return av->type == RDMA_AH_ATTR_TYPE_IB &&
	       rdma_ah_get_port_num(av) >= 1 &&
	       rdma_ah_get_port_num(av) <= dev->caps.ports &&
	       (!qp->user || rdma_ah_get_sl(av) < 16) &&
	       rdma_ah_get_dlid(av) && rdma_ah_get_dlid(av) < IBDS_MFT_BASE &&
	       (!(rdma_ah_get_ah_flags(av) & IB_AH_GRH) ||
		rdma_ah_read_grh(av)->sgid_index < dev->caps.gids);
}

/* Check the ranges of the attributes in @mask. */
static bool ibds_attr_ok(struct ibds_qp *qp, const struct ib_qp_attr *attr,
			 int mask)
{
	const struct ibds_dev *dev = to_ibds_dev(qp->ib.device);

	if ((mask & IB_QP_PORT) &&
	    (!attr->port_num || attr->port_num > dev->caps.ports))
		return false;
	if ((mask & IB_QP_PKEY_INDEX) && attr->pkey_index >= dev->caps.pkeys)
		return false;
	if ((mask & IB_QP_AV) && !ibds_attr_av_ok(qp, attr))
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
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC) &&
	    attr->max_rd_atomic > dev->caps.max_rd_atom)
		return false;
	if ((mask & IB_QP_MAX_DEST_RD_ATOMIC) &&
	    attr->max_dest_rd_atomic > dev->caps.max_rd_atom)
		return false;
	/* Alternate paths are not supported. */
	return !(mask & IB_QP_ALT_PATH);
}

/* Attributes that both sides of the QP use; sq.lock and rcv->lock are held. */
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
		ibds_path_init(&qp->av, qp->port, &attr->ah_attr);
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
		qp->sq.psn = attr->sq_psn & IBDS_PSN_MASK;
	if (mask & IB_QP_ACCESS_FLAGS) {
		qp->attr.qp_access_flags = attr->qp_access_flags;
		rcv->access = attr->qp_access_flags;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
		rcv->rd_atom = attr->max_dest_rd_atomic;
	}
}

/* Attributes for ib_query_qp(), retries and the SQD event. */
static void ibds_attr_keep(struct ibds_qp *qp, const struct ib_qp_attr *attr,
			   int mask)
{
	struct ib_qp_attr *kept = &qp->attr;

	if (mask & IB_QP_RQ_PSN)
		kept->rq_psn = attr->rq_psn;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		kept->max_rd_atomic = attr->max_rd_atomic;
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
 * Empty the queues.  Completions of the QP are dropped, or can still be polled
 * (reset_purge=0); receives taken from an SRQ are lost, as on hardware.
 * sq.lock is held.
 */
static void ibds_qp_clear(struct ibds_qp *qp, bool purge)
{
	void (*clear)(struct ibds_cq *cq, const struct ibds_qp *qp) =
		purge ? ibds_cq_purge : ibds_cq_disown;
	struct ibds_rcv *rcv = qp->rcv;
	struct ibds_sq *sq = &qp->sq;

	/* If it is running, it does no harm to an empty queue. */
	hrtimer_try_to_cancel(&qp->timer);
	spin_lock(&rcv->lock);
	spin_lock(&rcv->rq.lock);
	clear(qp->send_cq, qp);
	if (rcv->cq != qp->send_cq)
		clear(rcv->cq, qp);
	/* Completions that can still be polled retire no slots. */
	sq->head = 0;
	sq->tail = 0;
	sq->posted = 0;
	sq->unsignalled = 0;
	sq->waiting = false;
	sq->late = false;
	sq->give_up = false;
	sq->rnr_pause = 0;
	sq->done = 0;
	WRITE_ONCE(sq->retired, 0);
	rcv->rq.head = 0;
	rcv->rq.tail = 0;
	WRITE_ONCE(qp->rq_retired, 0);
	rcv->broken = false;
	rcv->partial = NULL;
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
		ibds_qp_clear(qp, dev->caps.reset_purge);
	if (next == IB_QPS_SQD && cur == IB_QPS_RTS && !qp->sq.done &&
	    qp->attr.en_sqd_async_notify)
		ibds_qp_ask(qp, IBDS_TODO_DRAINED);
	ibds_sq_run(qp, later, false);
	return 0;
}

int ibds_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	bool reset = (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET;
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_faults *faults;
	unsigned long flags;
	LIST_HEAD(later);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = ibds_call(ibqp->device, IBDS_CALL_MODIFY_QP);
	if (err)
		return err;
	faults = &qp->port->faults;
	if (!ibds_qp_special(qp)) {
		if (ibds_object_fails(&faults->modify_error,
				      &faults->modify_skip))
			return -EIO;
		ibds_command_wait(dev, READ_ONCE(faults->modify_delay_ms));
		if (reset)
			ibds_command_wait(dev,
					  READ_ONCE(faults->reset_delay_ms));
	}
	rcu_read_lock();
	spin_lock_irqsave(&qp->sq.lock, flags);
	err = ibds_modify_locked(qp, attr, mask, &later);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	ibds_later_run(&later);
	rcu_read_unlock();
	return err;
}

int ibds_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	unsigned long flags;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_QUERY_QP);
	if (err)
		return err;
	spin_lock_irqsave(&qp->sq.lock, flags);
	*attr = qp->attr;
	attr->qp_state = ibds_qp_state(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->qkey = qp->qkey;
	attr->sq_psn = qp->sq.psn;
	attr->dest_qp_num = qp->remote_qpn;
	attr->pkey_index = qp->pkey_index;
	attr->port_num = qp->port->num;
	attr->sq_draining = qp->state == IB_QPS_SQD && qp->sq.done;
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

/* ---- what can be created ------------------------------------------------ */

static int ibds_init_check_flags(const struct ibds_dev *dev,
				 const struct ib_qp_init_attr *init)
{
	u32 allowed = 0;

	if (init->qp_type == IB_QPT_UD) {
		if (dev->caps.lso)
			allowed |= IB_QP_CREATE_IPOIB_UD_LSO;
		if (dev->caps.block_loopback)
			allowed |= IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
		if (dev->caps.netif_qps)
			allowed |= IB_QP_CREATE_NETIF_QP;
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

/* What user space cannot have: LSO, flow steering, QP0 and QP1. */
static int ibds_init_check_user(const struct ib_qp_init_attr *init)
{
	if (init->qp_type != IB_QPT_RC && init->qp_type != IB_QPT_UD)
		return -EOPNOTSUPP;
	if (init->create_flags & ~IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		return -EOPNOTSUPP;
	return 0;
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
	/* QPNs are reused late, so that stale packets find no QP. */
	err = xa_alloc_cyclic(&dev->qps, &qpn, qp->rcv,
			      XA_LIMIT(IBDS_QPN_FIRST, IBDS_QPN_LAST),
			      &dev->next_qpn, GFP_KERNEL);
	if (err < 0)
		return err;
	qp->ib.qp_num = qpn;
	qp->sqpn = qpn;
	qp->rcv->qpn = qpn;
	spin_lock_irqsave(lock, flags);
	hlist_add_head_rcu(&qp->rcv->node,
			   &dev->qp_hash[qpn & dev->qp_mask]);
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

/* ---- what is different for user space ---------------------------------- */

/* Get what completions of a user's QP point to. */
static int ibds_face_get(struct ibds_qp *qp, struct ibds_ucontext *ucontext)
{
	struct ibds_face *face;

	mutex_lock(&ucontext->lock);
	face = list_first_entry_or_null(&ucontext->faces, struct ibds_face,
					list);
	if (face)
		list_del(&face->list);
	mutex_unlock(&ucontext->lock);
	if (!face)
		face = kzalloc_obj(*face, ibds_gfp(true));
	qp->ucontext = ucontext;
	qp->face = face;
	return face ? 0 : -ENOMEM;
}

static void ibds_face_put(struct ibds_qp *qp)
{
	struct ibds_ucontext *ucontext = qp->ucontext;

	if (!qp->face)
		return;
	mutex_lock(&ucontext->lock);
	list_add_tail(&qp->face->list, &ucontext->faces);
	mutex_unlock(&ucontext->lock);
}

/* Memory that a QP of user space takes. */
static u64 ibds_qp_bytes(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;
	u64 bytes = ibds_sq_bytes(cap) + 2 * IBDS_MAX_MTU;

	if (!init->srq)
		bytes += ibds_rq_bytes(cap->max_recv_wr,
				       max(cap->max_recv_sge, 1u));
	return bytes;
}

static int ibds_qp_init_user(struct ibds_qp *qp, struct ib_qp_init_attr *init,
			     struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	u64 bytes;
	int err;

	err = ibds_init_check_user(init);
	if (err)
		return err;
	bytes = ibds_qp_bytes(init);
	err = ibds_user_charge(dev, bytes);
	if (err)
		return err;
	err = ibds_face_get(qp, rdma_udata_to_drv_context(udata,
							  struct ibds_ucontext,
							  ib));
	if (err) {
		ibds_user_uncharge(dev, bytes);
		return err;
	}
	qp->user = true;
	qp->charged = bytes;
	return 0;
}

/* ---- life cycle --------------------------------------------------------- */

static void ibds_qp_init(struct ibds_qp *qp, const struct ib_qp_init_attr *init)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);

	qp->port = &dev->port[0];
	qp->state = IB_QPS_RESET;
	qp->send_cq = to_ibds_cq(init->send_cq);
	qp->lkey = qp->user ? IBDS_NO_LKEY : dev->ib.local_dma_lkey;
	qp->phys = dev->caps.dma;
	qp->csum = dev->caps.csum;
	qp->block_loopback = init->create_flags &
			     IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	qp->create_flags = init->create_flags;
	qp->sq.lso = init->create_flags & IB_QP_CREATE_IPOIB_UD_LSO;
	qp->sq.keep_ah = qp->user && init->qp_type == IB_QPT_UD;
	qp->sq.sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->attr.cap = init->cap;
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	INIT_LIST_HEAD(&qp->mcast);
	INIT_WORK(&qp->work, ibds_qp_work);
	hrtimer_setup(&qp->timer, ibds_rc_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
}

/* The number of QPs for flow steering is limited. */
static int ibds_qp_get(struct ibds_dev *dev, u32 create_flags, bool user)
{
	int err;

	err = ibds_object_get(dev, IBDS_QP, user);
	if (err || !(create_flags & IB_QP_CREATE_NETIF_QP))
		return err;
	if (atomic_inc_return(&dev->num_netif_qp) <= dev->caps.netif_qps)
		return 0;
	atomic_dec(&dev->num_netif_qp);
	ibds_object_put(dev, IBDS_QP, user);
	return -ENOMEM;
}

static void ibds_qp_put(struct ibds_dev *dev, u32 create_flags, bool user)
{
	if (create_flags & IB_QP_CREATE_NETIF_QP)
		atomic_dec(&dev->num_netif_qp);
	ibds_object_put(dev, IBDS_QP, user);
}

/* Allocate the queues, and let senders find the QP. */
static int ibds_qp_build(struct ibds_qp *qp, const struct ib_qp_init_attr *init)
{
	bool lazy = init->qp_type == IB_QPT_UD && !qp->user;
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	int err;

	ibds_qp_init(qp, init);
	err = ibds_sq_alloc(&qp->sq, &init->cap, lazy, ibds_gfp(qp->user));
	if (err)
		goto err_sq;
	qp->rcv = ibds_rcv_alloc(qp, init);
	if (!qp->rcv) {
		err = -ENOMEM;
		goto err_sq;
	}
	err = ibds_qp_publish(dev, qp, init);
	if (err)
		goto err_rcv;
	if (qp->face)
		qp->face->qp.qp_num = qp->ib.qp_num;
	return 0;

err_rcv:
	ibds_rcv_free(qp->rcv);
err_sq:
	ibds_sq_free(&qp->sq);
	return err;
}

int ibds_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_CREATE_QP);
	if (err)
		return err;
	/* Users get no inline data, but may ask for it. */
	if (udata)
		init->cap.max_inline_data = 0;
	err = ibds_init_check(dev, init);
	if (err)
		return err;
	err = ibds_qp_get(dev, init->create_flags, udata);
	if (err)
		return err;

	ibds_command_wait(dev, READ_ONCE(dev->port[0].faults.create_delay_ms));
	if (udata) {
		err = ibds_qp_init_user(qp, init, udata);
		if (err)
			goto err_count;
	}
	err = ibds_qp_build(qp, init);
	if (err)
		goto err_user;
	return 0;

err_user:
	ibds_face_put(qp);
	ibds_user_uncharge(dev, qp->charged);
err_count:
	ibds_qp_put(dev, init->create_flags, udata);
	return err;
}

int ibds_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	struct ibds_rcv *rcv = qp->rcv;
	unsigned long flags;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_DESTROY_QP);
	if (err)
		return err;
	ibds_command_wait(dev, READ_ONCE(dev->port[0].faults.destroy_delay_ms));
	ibds_qp_unpublish(dev, qp);
	spin_lock_irqsave(&qp->sq.lock, flags);
	ibds_qp_set_state(qp, IB_QPS_RESET);
	spin_lock(&rcv->lock);
	/* Senders that already found @rcv see that the QP is gone. */
	rcv->qp = NULL;
	spin_unlock(&rcv->lock);
	ibds_qp_clear(qp, true);
	ibds_cq_forget(qp->send_cq, qp);
	ibds_cq_forget(rcv->cq, qp);
	spin_unlock_irqrestore(&qp->sq.lock, flags);

	hrtimer_cancel(&qp->timer);
	cancel_work_sync(&qp->work);
	ibds_cq_sync(qp->send_cq);
	ibds_cq_sync(rcv->cq);
	if (ibqp->qp_type == IB_QPT_SMI || ibqp->qp_type == IB_QPT_GSI) {
		ibds_cq_flush(qp->send_cq);
		ibds_cq_flush(rcv->cq);
	}
	if (WARN_ON(!list_empty(&qp->mcast)))
		ibds_detach_all(qp);
	ibds_rcv_free(rcv);
	ibds_sq_free(&qp->sq);
	ibds_face_put(qp);
	ibds_user_uncharge(dev, qp->charged);
	ibds_qp_put(dev, qp->create_flags, qp->user);
	return 0;
}

/* ---- faults, debugfs, removal ------------------------------------------- */

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
		if (rcv->qp && rcv->qp->state != IB_QPS_RESET) {
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
 * ibds_qps_kick - make QPs run their queued work after a fault was lifted
 * @port: HCA port of the QPs
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
 * ibds_qps_rouse - raise the events of completions that a fault suppressed
 * @dev: HCA, whose faults are lifted
 */
void ibds_qps_rouse(struct ibds_dev *dev)
{
	struct ibds_rcv *rcv;
	unsigned long qpn, flags;

	rcu_read_lock();
	xa_for_each(&dev->qps, qpn, rcv) {
		spin_lock_irqsave(&rcv->lock, flags);
		if (rcv->qp) {
			ibds_cq_rouse(rcv->qp->send_cq);
			ibds_cq_rouse(rcv->cq);
		}
		spin_unlock_irqrestore(&rcv->lock, flags);
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

/**
 * ibds_mads_flush - wait for MADs that an HCA received and that are being handled
 * @dev: HCA, whose QP0 and QP1 are not destroyed meanwhile
 *
 * Those that are handled afterwards see what was written before.
 *
 * Context: process.
 */
void ibds_mads_flush(struct ibds_dev *dev)
{
	struct ibds_rcv *rcv;
	u32 p, i;

	for (p = 0; p < dev->caps.ports; p++) {
		for (i = 0; i < ARRAY_SIZE(dev->port[p].special); i++) {
			rcv = rcu_dereference_protected(dev->port[p].special[i],
							true);
			if (rcv)
				ibds_cq_flush(rcv->cq);
		}
	}
}

/* Indexed by enum ib_qp_state. */
static const char * const ibds_state_names[IB_QPS_ERR + 1] = {
	"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"
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

/* Read without the locks of the queues: the values may be slightly off. */
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
 * @m: file to print to
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
