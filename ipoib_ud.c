// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datagram QPs of an interface: create, start, drain, restart
 *
 * Each transmit queue has a QP.  That of the first also receives; its number is
 * in the interface's address.
 *
 * Lock: struct ipoib_ud.lock.
 *
 * RFC 4391 section 4 (Q_Key, MTU); IBA volume 1 chapter 10 (QP states).
 */
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_attach.h"
#include "ipoib_channel.h"
#include "ipoib_count.h"
#include "ipoib_cq.h"
#include "ipoib_drain.h"
#include "ipoib_ib.h"
#include "ipoib_lost.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_qp.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"
#include "ipoib_ud.h"

/* ---- queues ------------------------------------------------------------- */

static int ipoib_txq_destroy_qp(struct ipoib_txq *txq)
{
	int ret = ipoib_drain_destroy_qp(&txq->qp);

	if (!ret)
		ipoib_cq_put(txq->qp.ch, &txq->cqs);
	return ret;
}

/* A queue whose QP is attached to nothing */
static void ipoib_txq_destroy(struct ipoib_txq *txq)
{
	if (ipoib_txq_destroy_qp(txq))
		ipoib_lost_add_txq(txq, NULL, NULL);
	else
		ipoib_txq_release(txq);
}

static struct ipoib_txq *ipoib_txq_create(struct ipoib_dev *dev,
					  struct ipoib_channel *ch, u32 index,
					  u32 size)
{
	struct ipoib_txq *txq = ipoib_txq_alloc(dev, ch, index, size);

	if (txq)
		txq->qp.ops = &ipoib_ud_qp_ops;
	return txq;
}

/* Destroy a queue that was in use, but keep its counters. */
static void ipoib_txq_retire_queue(struct ipoib_txq *txq)
{
	struct ipoib_ud *ud = txq->qp.dev->ud;
	u64 packets, bytes;

	ipoib_count_get(&txq->done.sent, &packets, &bytes);
	/* On 32-bit machines a writer must not be preempted. */
	local_bh_disable();
	ipoib_count_add(&ud->gone, packets, bytes);
	local_bh_enable();
	ud->gone_stops += txq->stat.stops;
	ipoib_txq_destroy(txq);
}

static void ipoib_ud_qp_event(struct ib_event *event, void *ctx)
{
	struct ipoib_qp *qp = ctx;

	if (event->event != IB_EVENT_QP_FATAL)
		return;		/* expected, or of no interest */
	rcu_read_lock();
	if (!READ_ONCE(qp->lost)) {
		netdev_warn(qp->dev->ndev, "QP %#x: %s\n",
			    event->element.qp->qp_num,
			    ib_event_msg(event->event));
		ipoib_dev_event(qp->dev, IPOIB_EV_RESTART);
	}
	rcu_read_unlock();
}

/* Flow steering is only needed to receive, and mlx4 has few QPs for it. */
static u32 ipoib_ud_create_flags(struct ib_device *ca, bool receives)
{
	u64 caps = ca->attrs.kernel_cap_flags;
	u32 flags = 0;

	if (caps & IBK_UD_TSO)
		flags |= IB_QP_CREATE_IPOIB_UD_LSO;
	if (caps & IBK_BLOCK_MULTICAST_LOOPBACK)
		flags |= IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	if (receives &&
	    ca->attrs.device_cap_flags & IB_DEVICE_MANAGED_FLOW_STEERING)
		flags |= IB_QP_CREATE_NETIF_QP;
	if (caps & IBK_RDMA_NETDEV_OPA)
		flags |= IB_QP_CREATE_NETDEV_USE;
	return flags;
}

/* The QP of the first queue also receives. */
static int ipoib_txq_create_qp(struct ipoib_txq *txq)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_port *port = dev->port;
	struct ipoib_rxq *rxq = txq->qp.rxq;
	struct ib_qp_init_attr attr = {
		.event_handler = ipoib_ud_qp_event,
		.qp_context = &txq->qp,
		.srq = rxq ? rxq->srq : NULL,
		.cap.max_send_wr = txq->ring.size,
		.cap.max_send_sge = dev->max_sge,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_UD,
		.create_flags = ipoib_ud_create_flags(port->ca, rxq),
	};
	struct ib_qp *qp;
	int ret;

	if (rxq && !attr.srq) {
		attr.cap.max_recv_wr = rxq->size;
		attr.cap.max_recv_sge = rxq->ch->split.num;
	}
	ret = ipoib_cq_get(txq->qp.ch, &txq->cqs, &attr);
	if (ret)
		return ret;
	qp = ib_create_qp(port->pd, &attr);
	if (IS_ERR(qp)) {
		ipoib_cq_put(txq->qp.ch, &txq->cqs);
		return PTR_ERR(qp);
	}
	txq->qp.ib = qp;
	WRITE_ONCE(txq->qpn, qp->qp_num);
	dev->ud->check_loop = !(attr.create_flags &
			       IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK);
	return 0;
}

/* Allocate what a queue needs in addition to its rings. */
static int ipoib_txq_finish(struct ipoib_txq *txq)
{
	if (txq->qp.dev->connected && !ipoib_txq_connect(txq))
		return -ENOMEM;
	return ipoib_txq_create_qp(txq);
}

/* Publish what readers without the lock need of the first queue. */
static void ipoib_ud_note_first(struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->ud->lock);
	WRITE_ONCE(dev->qpn, dev->txqs[0]->qp.ib->qp_num);
	WRITE_ONCE(dev->ud->segs, ipoib_tso_segs(dev->txqs[0]->ring.size));
}

/* Create a private receive queue, for an HCA without SRQ for UD. */
static int ipoib_ud_private_rxq(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	const struct ipoib_rx_format *format;
	u32 size = dev->port->recvq_size;
	struct ipoib_ud *ud = dev->ud;
	int ret;

	mutex_lock(&dev->port->lock);
	format = ipoib_channel_format(ch);
	mutex_unlock(&dev->port->lock);
	ud->rxq = kzalloc_obj(*ud->rxq);
	if (!ud->rxq)
		return -ENOMEM;
	ret = ipoib_rxq_alloc(ud->rxq, ch, format, size, size);
	if (ret) {
		kfree(ud->rxq);
		ud->rxq = NULL;
		return ret;
	}
	ipoib_dev_qp(dev)->rxq = ud->rxq;
	return 0;
}

static void ipoib_ud_free_rxq(struct ipoib_ud *ud)
{
	if (!ud->rxq)
		return;
	ipoib_rxq_free(ud->rxq);
	kfree(ud->rxq);
	ud->rxq = NULL;
}

/* Create the first queue, whose QP receives. */
static int ipoib_ud_create_first(struct ipoib_dev *dev,
				 struct ipoib_channel *ch)
{
	u32 size = dev->port->sendq_size;
	struct ipoib_ud *ud = dev->ud;
	struct ipoib_txq *txq;
	int ret = -ENOMEM;

	if (ipoib_is_child(dev))
		size = ipoib_child_sendq(size);
	txq = ipoib_txq_create(dev, ch, 0, size);
	if (!txq)
		return -ENOMEM;
	txq->qp.rxq = &ch->rxq;
	dev->txqs[0] = txq;
	dev->num_txqs = 1;
	if (ch->rxq.srq)
		ret = ipoib_txq_create_qp(txq);
	/* A shortage that passes must not cost the SRQ. */
	if (ret && ch->rxq.srq)
		ret = ipoib_txq_create_qp(txq);
	if (!ret)
		return 0;

	/* No SRQ, or one that the HCA does not support for UD QPs. */
	if (!ipoib_channel_drop_srq(ch, ret))
		goto err_free_txq;
	ret = ipoib_ud_private_rxq(dev);
	if (ret)
		goto err_free_txq;
	ret = ipoib_txq_create_qp(txq);
	if (ret)
		goto err_free_rxq;
	return 0;

err_free_rxq:
	ipoib_ud_free_rxq(ud);
err_free_txq:
	dev->txqs[0] = NULL;
	dev->num_txqs = 0;
	ipoib_txq_destroy(txq);
	return ret;
}

/* ---- multicast groups --------------------------------------------------- */

static int ipoib_ud_verb_attach(struct ipoib_dev *dev, union ib_gid *mgid,
				u16 mlid)
{
	struct ib_qp *qp = ipoib_dev_qp(dev)->ib;

	return qp ? ib_attach_mcast(qp, mgid, mlid) : -ENODEV;
}

static int ipoib_ud_verb_detach(struct ipoib_dev *dev, union ib_gid *mgid,
				u16 mlid)
{
	return ib_detach_mcast(ipoib_dev_qp(dev)->ib, mgid, mlid);
}

static const struct ipoib_attach_ops ipoib_ud_attach_ops = {
	.attach = ipoib_ud_verb_attach,
	.detach = ipoib_ud_verb_detach,
};

/**
 * ipoib_ud_detach - stop receiving a multicast group
 * @dev: interface
 * @group: group, attached or not
 *
 * Context: process; takes @dev->ud->lock.
 */
void ipoib_ud_detach(struct ipoib_dev *dev, struct ipoib_ud_group *group)
{
	mutex_lock(&dev->ud->lock);
	ipoib_detach(&dev->ud->attached, group);
	mutex_unlock(&dev->ud->lock);
}

/**
 * ipoib_ud_attach - receive a multicast group
 * @dev: interface
 * @group: group; if it is attached, its LID may have changed
 * @mgid: GID
 * @mlid: LID
 *
 * Context: process; takes @dev->ud->lock.
 * Return: 0, -ENODEV if there is no QP, or -errno
 */
int ipoib_ud_attach(struct ipoib_dev *dev, struct ipoib_ud_group *group,
		    const union ib_gid *mgid, __be16 mlid)
{
	int ret;

	mutex_lock(&dev->ud->lock);
	ret = ipoib_attach(&dev->ud->attached, group, mgid, mlid, false);
	mutex_unlock(&dev->ud->lock);
	return ret;
}

/* ---- up, down, restart -------------------------------------------------- */

static int ipoib_txq_to_rts(struct ipoib_txq *txq)
{
	const struct ipoib_dev *dev = txq->qp.dev;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = dev->pkey_index,
		.port_num = dev->port->num,
		.qkey = dev->qkey,
	};
	struct ib_qp *qp = txq->qp.ib;
	int ret;

	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_QKEY);
	if (ret)
		return ret;
	txq->qp.live = true;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int ipoib_txq_set_state(struct ipoib_txq *txq, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(txq->qp.ib, &attr, IB_QP_STATE);
}

/*
 * The QP could not be reset: destroying it returns its buffers as well.  One
 * that stays is reset, or destroyed, when it is to be started.
 */
static void ipoib_txq_give_up(struct ipoib_txq *txq)
{
	struct ipoib_dev *dev = txq->qp.dev;

	netdev_warn(dev->ndev, "QP %#x can't be reset\n", txq->qp.ib->qp_num);
	if (dev->ud->fixed)
		return;
	if (!txq->index && !ipoib_detach_all(&dev->ud->attached))
		return;
	ipoib_txq_destroy_qp(txq);
}

static int ipoib_txq_start(struct ipoib_txq *txq)
{
	int ret;

	if (!txq->qp.ib) {
		ret = ipoib_txq_create_qp(txq);
		if (ret)
			return ret;
	}
	if (!txq->index && txq->qp.dev->ud->rxq)
		txq->qp.dev->ud->rxq->qp = txq->qp.ib;
	ret = txq->qp.stuck ? ipoib_txq_set_state(txq, IB_QPS_RESET) : 0;
	txq->qp.stuck = ret;
	ret = ret ?: ipoib_txq_to_rts(txq);
	if (ret)
		netdev_warn(txq->qp.dev->ndev, "QP can't be started: %pe\n",
			    ERR_PTR(ret));
	return ret;
}

/*
 * The QP of a private queue is about to be reset, while the NAPI runs on for
 * other QPs: it must neither refill the queue nor find a slot for a completion.
 */
static void ipoib_ud_detach_private(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_rxq *rxq = dev->ud->rxq;

	if (!rxq)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	list_del_init(&rxq->dirty);
	rxq->size = 0;
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/* The reset has flushed what was posted: all slots are free. */
static void ipoib_ud_empty_private(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_rxq *rxq = dev->ud->rxq;
	u32 i;

	if (!rxq)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	rxq->size = rxq->used;
	rxq->nfree = 0;
	for (i = 0; i < rxq->size; i++) {
		rxq->slots[i].posted = false;
		rxq->free[rxq->nfree++] = i;
	}
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/* Take down draining queues from @first on, and retire all their packets. */
static void ipoib_ud_take_down(struct ipoib_dev *dev, u32 first, bool keep)
{
	struct ipoib_ud *ud = dev->ud;
	struct ipoib_drain drain;
	u32 i;

	lockdep_assert_held(&ud->lock);
	ipoib_drain_init(&drain);
	for (i = first; i < dev->num_txqs; i++)
		ipoib_drain_add(&drain, &dev->txqs[i]->qp);
	ipoib_drain_wait(&drain);
	for (i = first; i < dev->num_txqs; i++)
		drain.late |= ipoib_txq_hold(dev->txqs[i]);
	if (!first)
		ipoib_ud_detach_private(dev);
	ipoib_drain_reset(&drain, keep);
	for (i = first; i < dev->num_txqs; i++) {
		if (dev->txqs[i]->qp.stuck)
			ipoib_txq_give_up(dev->txqs[i]);
		ipoib_drain_purge(dev->txqs[i]);
	}
	if (!first)
		ipoib_ud_empty_private(dev);
}

static int ipoib_ud_start_locked(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = dev->ud;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	ret = ib_find_pkey(dev->port->ca, dev->port->num, dev->pkey,
			   &dev->pkey_index);
	if (ret)
		return ret;
	for (i = 0; i < dev->num_txqs;) {
		ret = ipoib_txq_start(dev->txqs[i++]);
		if (ret)
			goto err_stop;
	}
	ret = ud->rxq ? ipoib_channel_fill_rxq(ud->rxq) : 0;
	if (ret)
		goto err_stop;
	ipoib_ud_note_first(dev);
	ud->qps = IB_QPS_RTS;
	return 0;

err_stop:
	/* The first may have received something already. */
	while (i--)
		ipoib_drain_begin(&dev->txqs[i]->qp);
	ipoib_ud_take_down(dev, 0, true);
	return ret;
}

/**
 * ipoib_ud_start - bring the QPs up
 * @dev: interface whose channel runs and whose QPs are down
 *
 * The stack's queues are woken by the caller.
 *
 * Context: process; takes @dev->ud->lock.
 * Return: 0, -ENOENT while the port's table lacks the P_Key, or -errno
 */
int ipoib_ud_start(struct ipoib_dev *dev)
{
	int ret;

	mutex_lock(&dev->ud->lock);
	ret = ipoib_ud_start_locked(dev);
	mutex_unlock(&dev->ud->lock);
	return ret;
}

static void ipoib_ud_stop_begin_locked(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = dev->ud;
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	WARN_ON_ONCE(READ_ONCE(dev->running));
	if (ud->qps != IB_QPS_RTS)
		return;
	ud->qps = IB_QPS_ERR;
	netif_tx_disable(dev->ndev);
	for (i = 0; i < dev->num_txqs; i++)
		ipoib_drain_begin(&dev->txqs[i]->qp);
}

/**
 * ipoib_ud_stop_begin - start to drain the QPs, without waiting
 * @dev: interface whose channel runs, no longer up; nothing is done if its QPs
 *	are not up, either
 *
 * Context: process; takes @dev->ud->lock.
 */
void ipoib_ud_stop_begin(struct ipoib_dev *dev)
{
	mutex_lock(&dev->ud->lock);
	ipoib_ud_stop_begin_locked(dev);
	mutex_unlock(&dev->ud->lock);
}

static void ipoib_ud_stop_locked(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = dev->ud;

	ipoib_ud_stop_begin_locked(dev);
	if (ud->qps != IB_QPS_ERR)
		return;
	ipoib_ud_take_down(dev, 0, true);
	ud->qps = IB_QPS_RESET;
}

/**
 * ipoib_ud_stop - take the QPs down and retire everything they held
 * @dev: interface whose channel runs
 *
 * After it returns no skb of this interface is in the driver or in GRO.
 * Waits for the HCA a second at most after ipoib_ud_stop_begin().
 *
 * Context: process; takes @dev->ud->lock.
 */
void ipoib_ud_stop(struct ipoib_dev *dev)
{
	mutex_lock(&dev->ud->lock);
	ipoib_ud_stop_locked(dev);
	mutex_unlock(&dev->ud->lock);
}

/**
 * ipoib_ud_alloc_txqs - create queues to replace those of an interface
 * @dev: interface
 * @size: packets they hold, a power of two
 * @spare: result: as many as @dev has
 *
 * Context: process, ipoib_dev.lock held.
 * Return: 0, or -errno and none was created
 */
int ipoib_ud_alloc_txqs(struct ipoib_dev *dev, u32 size, struct ipoib_txq **spare)
{
	struct ipoib_txq *txq;
	u32 i;
	int ret;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < dev->num_txqs; i++) {
		ret = -ENOMEM;
		txq = ipoib_txq_create(dev, dev->txqs[i]->qp.ch, i, size);
		if (!txq)
			goto err_destroy;
		spare[i] = txq;
		txq->qp.rxq = dev->txqs[i]->qp.rxq;
		ret = ipoib_txq_finish(txq);
		if (ret) {
			ipoib_txq_destroy(txq);
			goto err_destroy;
		}
	}
	return 0;

err_destroy:
	while (i--)
		ipoib_txq_destroy(spare[i]);
	return ret;
}

/**
 * ipoib_ud_replace_txqs - switch to new queues, and destroy the old ones
 * @dev: interface whose QPs are down
 * @spare: from ipoib_ud_alloc_txqs()
 *
 * Context: process, ipoib_dev.lock held since then.
 * Return: 0, or -EBUSY if the first QP can't be detached from a group, or not be
 *	reset: then the new queues are destroyed instead
 */
int ipoib_ud_replace_txqs(struct ipoib_dev *dev, struct ipoib_txq **spare)
{
	struct ipoib_ud *ud = dev->ud;
	int ret = 0;
	u32 i;

	lockdep_assert_held(&dev->lock);
	mutex_lock(&ud->lock);
	WARN_ON_ONCE(ud->qps != IB_QPS_RESET);
	/* One that was not reset may go on to write into a private queue. */
	if ((ud->rxq && ipoib_dev_qp(dev)->stuck) ||
	    !ipoib_detach_stale(&ud->attached, true)) {
		ret = -EBUSY;
		goto unlock;
	}
	mutex_lock(&dev->port->lock);
	for (i = 0; i < dev->num_txqs; i++)
		swap(spare[i], dev->txqs[i]);
	mutex_unlock(&dev->port->lock);
	ipoib_ud_note_first(dev);
unlock:
	mutex_unlock(&ud->lock);
	/* While waiting for the P_Key, the stack's queues are not stopped. */
	synchronize_net();
	for (i = 0; i < dev->num_txqs; i++)
		ipoib_txq_retire_queue(spare[i]);
	return ret;
}

static int ipoib_ud_add_txqs_locked(struct ipoib_dev *dev, u32 num)
{
	struct ipoib_port *port = dev->port;
	u32 home = ipoib_dev_channel(dev)->index;
	struct ipoib_txq *txq;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	for (i = dev->num_txqs; i < num; i++) {
		txq = ipoib_txq_create(dev, port->channels[(home + i) %
							   port->num_channels],
				       i, dev->txqs[0]->ring.size);
		if (!txq)
			return -ENOMEM;
		ret = ipoib_txq_finish(txq);
		if (!ret && dev->ud->qps == IB_QPS_RTS) {
			ret = ipoib_txq_to_rts(txq);
			netif_tx_start_queue(txq->nq);
		}
		if (ret) {
			ipoib_txq_destroy(txq);
			return ret;
		}
		mutex_lock(&port->lock);
		WRITE_ONCE(dev->txqs[i], txq);
		WRITE_ONCE(dev->num_txqs, i + 1);
		mutex_unlock(&port->lock);
	}
	return 0;
}

/**
 * ipoib_ud_add_txqs - create more transmit queues
 * @dev: interface
 * @num: number of queues wanted
 *
 * Context: process; takes @dev->ud->lock.
 * Return: 0, or -errno if there are fewer, but not fewer than before
 */
int ipoib_ud_add_txqs(struct ipoib_dev *dev, u32 num)
{
	int ret;

	mutex_lock(&dev->ud->lock);
	ret = ipoib_ud_add_txqs_locked(dev, num);
	mutex_unlock(&dev->ud->lock);
	return ret;
}

/* Wait until what was posted has been sent; bounded, see ipoib_drain.c. */
static void ipoib_txq_finish_sends(struct ipoib_txq *txq, unsigned long begun)
{
	DECLARE_COMPLETION_ONSTACK(emptied);
	struct ipoib_channel *ch = txq->qp.ch;

	WRITE_ONCE(txq->emptied, &emptied);
	/* From now on the NAPI completes it; earlier progress: see the tail. */
	ipoib_channel_barrier(ch, READ_ONCE(ch->barriers));
	if (txq->head != READ_ONCE(txq->tail))
		ipoib_drain_wait_for(ch, &emptied, begun);
	WRITE_ONCE(txq->emptied, NULL);
	/* After this no poll uses the completion any more. */
	ipoib_channel_barrier(ch, READ_ONCE(ch->barriers));
}

static void ipoib_ud_drop_txqs_locked(struct ipoib_dev *dev, u32 num)
{
	struct ipoib_ud *ud = dev->ud;
	unsigned long begun = jiffies;
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	if (ud->qps == IB_QPS_RTS) {
		for (i = num; i < dev->num_txqs; i++)
			ipoib_txq_finish_sends(dev->txqs[i], begun);
		for (i = num; i < dev->num_txqs; i++)
			ipoib_drain_begin(&dev->txqs[i]->qp);
		ipoib_ud_take_down(dev, num, false);
	}
	while (dev->num_txqs > num) {
		struct ipoib_txq *txq = dev->txqs[dev->num_txqs - 1];

		mutex_lock(&dev->port->lock);
		/* Senders and the watchdog, which minds unused queues, too */
		netif_tx_lock_bh(dev->ndev);
		WRITE_ONCE(dev->num_txqs, dev->num_txqs - 1);
		WRITE_ONCE(dev->txqs[dev->num_txqs], NULL);
		netif_tx_start_queue(txq->nq);
		netif_tx_unlock_bh(dev->ndev);
		mutex_unlock(&dev->port->lock);
		ipoib_txq_retire_queue(txq);
	}
}

/**
 * ipoib_ud_drop_txqs - remove transmit queues that the stack no longer uses
 * @dev: interface
 * @num: number of queues to keep, at least one
 *
 * Waits until they have sent their packets and their QPs have drained.
 *
 * Context: process; takes @dev->ud->lock.
 */
void ipoib_ud_drop_txqs(struct ipoib_dev *dev, u32 num)
{
	mutex_lock(&dev->ud->lock);
	ipoib_ud_drop_txqs_locked(dev, num);
	mutex_unlock(&dev->ud->lock);
}

/**
 * ipoib_ud_restart - rebuild the QPs' state after an error or a moved P_Key
 * @dev: interface
 *
 * Context: process; takes @dev->ud->lock.
 * Return: as ipoib_ud_start(), or -ESTALE if the first QP could not be reset:
 *	it is attached to no group any more, and mostly has a successor, with
 *	another number
 */
int ipoib_ud_restart(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = dev->ud;
	const struct ipoib_qp *qp;
	int ret;

	mutex_lock(&ud->lock);
	ipoib_ud_stop_locked(dev);
	ud->restarts++;
	qp = ipoib_dev_qp(dev);
	ret = qp->ib && !qp->stuck ? ipoib_ud_start_locked(dev) : -ESTALE;
	mutex_unlock(&ud->lock);
	return ret;
}

/* From SQE back to RTS; false if it has to be rebuilt. */
static bool ipoib_txq_repair(struct ipoib_txq *txq)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	if (ib_query_qp(txq->qp.ib, &attr, IB_QP_STATE, &init) ||
	    attr.qp_state == IB_QPS_RTS)
		return true;
	return attr.qp_state == IB_QPS_SQE &&
	       !ipoib_txq_set_state(txq, IB_QPS_RTS);
}

static int ipoib_ud_repair_locked(struct ipoib_dev *dev)
{
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	for (i = 0; i < dev->num_txqs; i++)
		if (!ipoib_txq_repair(dev->txqs[i]))
			return -EIO;
	return 0;
}

/**
 * ipoib_ud_repair - a send failed: take the QP out of SQE
 * @dev: interface
 *
 * IBA volume 1 section 10.3.1: a UD QP can return from SQE to RTS; only the
 * failed sends are lost.
 *
 * Context: process; takes @dev->ud->lock.
 * Return: 0, or -EIO if the QPs have to be restarted
 */
int ipoib_ud_repair(struct ipoib_dev *dev)
{
	int ret;

	mutex_lock(&dev->ud->lock);
	ret = ipoib_ud_repair_locked(dev);
	mutex_unlock(&dev->ud->lock);
	return ret;
}

static int ipoib_ud_set_link_locked(struct ipoib_dev *dev, u32 max_len, u32 qkey)
{
	struct ib_qp_attr attr = { .qkey = qkey };
	struct ipoib_ud *ud = dev->ud;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud->lock);
	WRITE_ONCE(ud->max_len, max_len);
	ipoib_port_use_len(dev->port, max_len);
	if (dev->qkey == qkey)
		return 0;
	for (i = 0; ud->qps == IB_QPS_RTS && i < dev->num_txqs; i++) {
		ret = ib_modify_qp(dev->txqs[i]->qp.ib, &attr, IB_QP_QKEY);
		if (ret)
			return ret;
	}
	WRITE_ONCE(dev->qkey, qkey);
	return 0;
}

/**
 * ipoib_ud_set_link - apply the broadcast group's parameters of the link
 * @dev: interface
 * @max_len: most bytes in a datagram, with the encapsulation
 * @qkey: Q_Key, host order
 *
 * Context: process; takes @dev->ud->lock.
 * Return: 0 or -errno
 */
int ipoib_ud_set_link(struct ipoib_dev *dev, u32 max_len, u32 qkey)
{
	int ret;

	mutex_lock(&dev->ud->lock);
	ret = ipoib_ud_set_link_locked(dev, max_len, qkey);
	mutex_unlock(&dev->ud->lock);
	return ret;
}

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ipoib_ud_init - prepare an interface's datagram engine
 * @dev: interface
 * Return: 0 or -ENOMEM
 */
int ipoib_ud_init(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud;

	ud = kzalloc_obj(*ud);
	if (!ud)
		return -ENOMEM;
	mutex_init(&ud->lock);
	ipoib_attached_init(&ud->attached, dev, &ipoib_ud_attach_ops, &ud->lock);
	u64_stats_init(&ud->gone.sync);
	ud->max_len = dev->ud_mtu + IPOIB_ENCAP_LEN;
	dev->ud = ud;
	return 0;
}

/**
 * ipoib_ud_exit - undo ipoib_ud_init()
 * @dev: interface that has no QPs
 */
void ipoib_ud_exit(struct ipoib_dev *dev)
{
	kfree(dev->ud);
	dev->ud = NULL;
}

/**
 * ipoib_ud_create - create an interface's queues and their QPs
 * @dev: interface
 *
 * Only the first queue is required; of others there are as many as wanted
 * (ipoib_dev.max_txqs) and the HCA has resources for.
 *
 * Return: 0 or -errno
 */
int ipoib_ud_create(struct ipoib_dev *dev)
{
	const struct ib_device_attr *attrs = &dev->port->ca->attrs;
	struct ipoib_channel *ch;
	int ret;

	ch = ipoib_channel_attach(dev->port, !ipoib_is_child(dev));
	if (IS_ERR(ch))
		return PTR_ERR(ch);
	dev->max_sge = min_t(u32, attrs->max_send_sge, IPOIB_MAX_SGE);
	dev->ud->csum = attrs->device_cap_flags & IB_DEVICE_UD_IP_CSUM;
	dev->ud->lso = dev->ud->csum && attrs->kernel_cap_flags & IBK_UD_TSO;
	ret = ipoib_ud_create_first(dev, ch);
	if (ret) {
		ipoib_channel_detach(ch);
		return ret;
	}
	mutex_lock(&dev->ud->lock);
	ipoib_ud_note_first(dev);
	ipoib_ud_add_txqs_locked(dev, dev->max_txqs);
	mutex_unlock(&dev->ud->lock);
	return 0;
}

/* The QP that receives may still be attached to a group. */
static void ipoib_ud_destroy_first(struct ipoib_dev *dev)
{
	struct ipoib_txq *txq = dev->txqs[0];
	struct ipoib_ud *ud = dev->ud;

	if (!ipoib_txq_destroy_qp(txq)) {
		ipoib_txq_release(txq);
		ipoib_ud_free_rxq(ud);
	} else {
		ipoib_lost_add_txq(txq, &ud->attached, ud->rxq);
		ud->rxq = NULL;
	}
	dev->txqs[0] = NULL;
	dev->num_txqs = 0;
}

/**
 * ipoib_ud_destroy - undo ipoib_ud_create(); the interface is down
 * @dev: interface
 */
void ipoib_ud_destroy(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_ud *ud = dev->ud;

	ipoib_attached_exit(&ud->attached, true);
	while (dev->num_txqs > 1) {
		ipoib_txq_destroy(dev->txqs[--dev->num_txqs]);
		dev->txqs[dev->num_txqs] = NULL;
	}
	ipoib_ud_destroy_first(dev);
	ipoib_channel_detach(ch);
}

/**
 * ipoib_ud_get_stats - counters that no current queue has
 * @dev: interface
 * @stats: result
 *
 * Context: rtnl.
 */
void ipoib_ud_get_stats(const struct ipoib_dev *dev,
			struct ipoib_ud_stats *stats)
{
	const struct ipoib_ud *ud = dev->ud;

	stats->restarts = ud->restarts;
	ipoib_count_get(&ud->gone, &stats->packets, &stats->bytes);
	stats->stops = ud->gone_stops;
}
