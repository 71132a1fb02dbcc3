// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: receive queues and shared receive queues
 *
 * A queue of a QP has one consumer at a time (rcv->lock) and producers under
 * rq->lock, so the two do not contend.  Its entries are in use until their
 * completion is polled.  An SRQ has many consumers, which take its lock too; an
 * entry is copied out and is free as soon as a QP takes it.
 */
#include <linux/slab.h>

#include "call.h"
#include "object.h"
#include "srq.h"

/**
 * ibds_rq_bytes - memory that a receive queue takes
 * @limit: entries
 * @max_sge: scatter/gather entries per request
 *
 * Return: bytes.
 */
u64 ibds_rq_bytes(u32 limit, u32 max_sge)
{
	return (u64)roundup_pow_of_two(max(limit, 1u)) *
	       struct_size_t(struct ibds_rwqe, sge, max_sge);
}

/**
 * ibds_rq_alloc - allocate the ring of a receive queue
 * @rq: receive queue
 * @limit: entries
 * @max_sge: scatter/gather entries per request
 * @gfp: allocation flags
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_rq_alloc(struct ibds_rq *rq, u32 limit, u32 max_sge, gfp_t gfp)
{
	u32 size = roundup_pow_of_two(max(limit, 1u));

	spin_lock_init(&rq->lock);
	rq->stride = struct_size_t(struct ibds_rwqe, sge, max_sge);
	rq->mask = size - 1;
	rq->limit = limit;
	rq->max_sge = max_sge;
	rq->ring = kvmalloc_array(size, rq->stride, gfp);
	return rq->ring ? 0 : -ENOMEM;
}

/**
 * ibds_rq_free - undo ibds_rq_alloc()
 * @rq: receive queue
 */
void ibds_rq_free(struct ibds_rq *rq)
{
	kvfree(rq->ring);
}

/**
 * ibds_srq_take - consume an entry of an SRQ
 * @srq: shared receive queue
 * @copy: room for an entry
 *
 * Interrupts are disabled.
 *
 * Return: @copy, or NULL when the SRQ is empty.
 */
const struct ibds_rwqe *ibds_srq_take(struct ibds_srq *srq,
				      struct ibds_rwqe *copy)
{
	struct ibds_rq *rq = &srq->rq;
	const struct ibds_rwqe *wqe;
	u32 i;

	spin_lock(&rq->lock);
	if (rq->head == rq->tail) {
		spin_unlock(&rq->lock);
		return NULL;
	}
	wqe = ibds_rq_slot(rq, rq->head++);
	copy->wr_id = wqe->wr_id;
	copy->length = wqe->length;
	copy->num_sge = wqe->num_sge;
	copy->mapped = wqe->mapped;
	for (i = 0; i < wqe->num_sge; i++)
		copy->sge[i] = wqe->sge[i];
	if (unlikely(rq->tail - rq->head < srq->watermark)) {
		/* One event per arming; IBA vol 1, 11.2.3. */
		srq->watermark = 0;
		queue_work(ibds_wq_of(srq->user), &srq->todo);
	}
	spin_unlock(&rq->lock);
	return copy;
}

int ibds_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad)
{
	struct ibds_dev *dev = to_ibds_dev(ibsrq->device);
	struct ibds_srq *srq = to_ibds_srq(ibsrq);
	struct ibds_port *port = &dev->port[0];
	struct ibds_rq *rq = &srq->rq;
	unsigned long flags;
	int err = 0;
	u32 n = 0;

	err = ibds_call(ibsrq->device, IBDS_CALL_POST_SRQ_RECV);
	if (unlikely(err)) {
		*bad = wr;
		return err;
	}
	if (ibds_post_fails(port, &port->faults.recv_post_error)) {
		*bad = wr;
		return -ENOMEM;
	}
	spin_lock_irqsave(&rq->lock, flags);
	for (; wr; wr = wr->next, n++) {
		if (unlikely((u32)wr->num_sge > rq->max_sge)) {
			err = -EINVAL;
			break;
		}
		if (unlikely(rq->tail - rq->head >= rq->limit)) {
			ibds_count(port, rq_full);
			err = -ENOMEM;
			break;
		}
		ibds_rq_fill(rq, rq->tail++, wr, srq->lkey);
	}
	spin_unlock_irqrestore(&rq->lock, flags);
	ibds_count(port, rx_doorbells);
	ibds_count_add(port, rx_wrs, n);
	if (unlikely(err))
		*bad = wr;
	return err;
}

static void ibds_srq_limit_work(struct work_struct *work)
{
	struct ibds_srq *srq = container_of(work, struct ibds_srq, todo);
	struct ib_event event = {
		.device = srq->ib.device,
		.element.srq = &srq->ib,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (srq->ib.event_handler)
		srq->ib.event_handler(&event, srq->ib.srq_context);
}

int ibds_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibsrq->device);
	struct ibds_srq *srq = to_ibds_srq(ibsrq);
	const struct ib_srq_attr *attr = &init->attr;
	u32 max_sge = max(attr->max_sge, 1u);
	u64 bytes;
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > dev->caps.max_qp_wr ||
	    attr->max_sge > dev->caps.max_srq_sge ||
	    (!udata && attr->srq_limit > attr->max_wr))
		return -EINVAL;
	/* Not before: no power of two is as large as users may ask for. */
	bytes = udata ? ibds_rq_bytes(attr->max_wr, max_sge) : 0;
	err = ibds_call(ibsrq->device, IBDS_CALL_CREATE_SRQ) ?:
	      ibds_object_get(dev, IBDS_SRQ, udata);
	if (err)
		return err;
	err = ibds_user_charge(dev, bytes);
	if (err)
		goto err_object;
	err = ibds_rq_alloc(&srq->rq, attr->max_wr, max_sge, ibds_gfp(udata));
	if (err)
		goto err_charge;
	srq->user = udata;
	srq->charged = bytes;
	srq->lkey = udata ? IBDS_NO_LKEY : dev->ib.local_dma_lkey;
	/* Users need not initialize it. */
	srq->watermark = udata ? 0 : attr->srq_limit;
	INIT_WORK(&srq->todo, ibds_srq_limit_work);
	return 0;

err_charge:
	ibds_user_uncharge(dev, bytes);
err_object:
	ibds_object_put(dev, IBDS_SRQ, udata);
	return err;
}

int ibds_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct ibds_srq *srq = to_ibds_srq(ibsrq);
	unsigned long flags;
	int err;

	/* IB_DEVICE_SRQ_RESIZE is not supported. */
	if (mask != IB_SRQ_LIMIT || attr->srq_limit > srq->rq.limit)
		return -EINVAL;
	err = ibds_call(ibsrq->device, IBDS_CALL_MODIFY_SRQ);
	if (err)
		return err;
	spin_lock_irqsave(&srq->rq.lock, flags);
	srq->watermark = attr->srq_limit;
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	return 0;
}

int ibds_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct ibds_srq *srq = to_ibds_srq(ibsrq);
	int err;

	err = ibds_call(ibsrq->device, IBDS_CALL_QUERY_SRQ);
	if (err)
		return err;
	attr->max_wr = srq->rq.limit;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = READ_ONCE(srq->watermark);
	return 0;
}

int ibds_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibsrq->device);
	struct ibds_srq *srq = to_ibds_srq(ibsrq);

	ibds_call(ibsrq->device, IBDS_CALL_DESTROY_SRQ);
	cancel_work_sync(&srq->todo);
	ibds_rq_free(&srq->rq);
	ibds_user_uncharge(dev, srq->charged);
	ibds_object_put(dev, IBDS_SRQ, srq->user);
	return 0;
}
