// SPDX-License-Identifier: GPL-2.0-only
/*
 * QPs that can't be destroyed
 *
 * A QP that is still attached to a group when its interface goes, or that the HCA
 * refuses to destroy, is lost: it outlives its owner, an interface or a connection.
 * What the HCA or the NAPI may use because of it stays: its queue, its CQs, its
 * receive buffers, the SRQ, and if need be all of the port's channels.  Attempts
 * to destroy it go on, for as long as the port exists.
 *
 * Lock: ipoib_port.lock for the list and for what the NAPI sees of a lost QP.  Only
 * the work item, and ipoib_lost_exit() once it has ended, try to destroy one.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_attach.h"
#include "ipoib_channel.h"
#include "ipoib_cq.h"
#include "ipoib_drain.h"
#include "ipoib_lost.h"
#include "ipoib_port.h"
#include "ipoib_qp.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_LOST_AGAIN	(2 * HZ)
#define IPOIB_LOST_MOST		(HZ / 10)	/* in one go */
#define IPOIB_LOST_PAUSE_MS	20
#define IPOIB_LOST_TIMEOUT	HZ		/* when the port goes */
#define IPOIB_LOST_WARN		(10 * HZ)
/* With so many no connection is opened or accepted: it might be lost, too. */
#define IPOIB_LOST_MANY		64

/* ---- becoming lost ------------------------------------------------------- */

/* Of whom it was is gone: what was received is dropped. */
void ipoib_lost_rx(struct ipoib_channel *ch, struct ipoib_qp *qp,
		   struct ipoib_rx_slot *slot, const struct ib_wc *wc,
		   struct ipoib_rx_batch *batch)
{
}

/* What was sent was taken back, or stays until the QP goes. */
void ipoib_lost_tx(struct ipoib_qp *qp, const struct ib_wc *wc,
		   struct ipoib_tx_batch *batch, int budget)
{
}

/* The channel's NAPI is paused. */
static void ipoib_lost_adopt(struct ipoib_qp *qp,
			     const struct ipoib_qp_ops *ops)
{
	struct ipoib_port *port = qp->ch->port;

	net_ratelimited_function(netdev_warn, qp->dev->ndev,
				 "QP %#x can't be destroyed yet\n",
				 qp->ib->qp_num);
	/* Fails when the module goes: then that waits for the QP. */
	qp->lost_held = try_module_get(THIS_MODULE);
	qp->ops = ops;
	/* The poll ignores receives of a QP without a queue. */
	if (qp->rxq && !qp->rxq->srq)
		qp->rxq = NULL;
	WRITE_ONCE(qp->lost, true);
	list_move_tail(&qp->lost_entry, &port->lost);
	WRITE_ONCE(port->num_lost, port->num_lost + 1);
}

/**
 * ipoib_lost_add - QPs can't be destroyed, and their owners don't keep them
 * @port: their port
 * @qps: struct ipoib_qp.lost_entry; emptied.  Their sends were or will be taken back,
 *	or stay until @ops->gone; nothing is posted to them any more.  What they are
 *	attached to is in ipoib_qp.lost_groups.  The memory they are in stays until
 *	@ops->gone, and so do a private receive queue, the CQs, the SRQ and the pools
 *	of their buffers
 * @ops: handlers from now on: ipoib_lost_rx(), ipoib_lost_tx(), and @gone
 *
 * A QP may call into this module, which stays as long.
 *
 * Completions don't use anything of the owner's when this returns, nor do events,
 * whose handlers have to look at ipoib_qp.lost under RCU.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_lost_add(struct ipoib_port *port, struct list_head *qps,
		    const struct ipoib_qp_ops *ops)
{
	struct ipoib_qp *qp, *next;
	struct ipoib_channel *ch;

	if (list_empty(qps))
		return;
	mutex_lock(&port->lock);
	while (!list_empty(qps)) {
		ch = list_first_entry(qps, struct ipoib_qp, lost_entry)->ch;
		ipoib_channel_pause(ch);
		list_for_each_entry_safe(qp, next, qps, lost_entry)
			if (qp->ch == ch)
				ipoib_lost_adopt(qp, ops);
		ipoib_channel_resume(ch);
	}
	queue_delayed_work(ipoib_wq, &port->lost_work, IPOIB_LOST_AGAIN);
	mutex_unlock(&port->lock);
	synchronize_rcu();
}

static void ipoib_lost_txq_gone(struct ipoib_qp *qp)
{
	struct ipoib_txq *txq = qp->txq;

	ipoib_cq_put(qp->ch, &txq->cqs);
	if (txq->lost_rxq) {
		ipoib_rxq_free(txq->lost_rxq);
		kfree(txq->lost_rxq);
	}
	ipoib_txq_release(txq);
}

static const struct ipoib_qp_ops ipoib_lost_txq_ops = {
	.rx = ipoib_lost_rx,
	.tx = ipoib_lost_tx,
	.gone = ipoib_lost_txq_gone,
};

/* The NAPI neither refills a private receive queue nor finds it by its QP. */
static void ipoib_lost_detach_rxq(struct ipoib_qp *qp, struct ipoib_rxq *rxq)
{
	struct ipoib_port *port = qp->ch->port;

	mutex_lock(&port->lock);
	ipoib_channel_pause(qp->ch);
	qp->rxq = NULL;
	list_del_init(&rxq->dirty);
	ipoib_channel_resume(qp->ch);
	mutex_unlock(&port->lock);
}

/**
 * ipoib_lost_add_txq - the QP of a transmit queue can't be destroyed
 * @txq: queue, empty, which is not to be freed
 * @a: what it is attached to, NULL for a QP that is not the first
 * @rxq: the interface's private receive queue, which is not to be freed; NULL if
 *	it has none, or goes on to use it
 *
 * Nothing refers to the interface any more when this returns.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_lost_add_txq(struct ipoib_txq *txq, struct ipoib_attached *a,
			struct ipoib_rxq *rxq)
{
	struct ipoib_qp *qp = &txq->qp;
	LIST_HEAD(qps);

	timer_delete_sync(&txq->timer);
	INIT_LIST_HEAD(&qp->lost_groups);
	if (a)
		list_splice_init(&a->list, &qp->lost_groups);
	txq->lost_rxq = rxq;
	if (rxq)
		ipoib_lost_detach_rxq(qp, rxq);
	list_add(&qp->lost_entry, &qps);
	ipoib_lost_add(qp->ch->port, &qps, &ipoib_lost_txq_ops);
}

/**
 * ipoib_lost_many - has the HCA refused to destroy so many QPs that no new one should
 *	be made for a peer?
 * @port: port
 */
bool ipoib_lost_many(const struct ipoib_port *port)
{
	return READ_ONCE(port->num_lost) >= IPOIB_LOST_MANY;
}

/* ---- destroying them ----------------------------------------------------- */

/* Reset a lost QP, once: what it still has to do is done with then. */
static void ipoib_lost_silence(struct ipoib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ipoib_port *port = qp->ch->port;

	if (qp->lost_reset || ib_modify_qp(qp->ib, &attr, IB_QP_STATE))
		return;
	qp->lost_reset = true;
	if (!qp->stuck)
		return;
	/* Once a poll has ended, it has no completions of the QP any more. */
	mutex_lock(&port->lock);
	ipoib_channel_pause(qp->ch);
	ipoib_channel_resume(qp->ch);
	mutex_unlock(&port->lock);
	qp->stuck = false;
}

/*
 * One that may be at work takes buffers from an SRQ.  As long as no NAPI runs, to
 * reset it would lose their completions, and the buffers with them.
 */
static bool ipoib_lost_may_end(const struct ipoib_port *port,
			       const struct ipoib_qp *qp, bool last)
{
	/* Pairs with the release in ipoib_conn_requeue() */
	return !smp_load_acquire(&qp->lost_owned) &&
	       (last || !qp->stuck || READ_ONCE(port->users));
}

/* Try to silence and to destroy a lost QP, and free what belongs to it. */
static void ipoib_lost_end(struct ipoib_port *port, struct ipoib_qp *qp,
			   bool last)
{
	bool held = qp->lost_held;

	if (!ipoib_lost_may_end(port, qp, last))
		return;
	ipoib_lost_silence(qp);
	if (!ipoib_attachments_end(qp->ib, &qp->lost_groups) ||
	    ipoib_drain_destroy_qp(qp))
		return;
	mutex_lock(&port->lock);
	list_del(&qp->lost_entry);
	WRITE_ONCE(port->num_lost, port->num_lost - 1);
	mutex_unlock(&port->lock);
	qp->ops->gone(qp);
	if (held)
		module_put(THIS_MODULE);
}

/**
 * enum ipoib_lost_pass - what became of the lost QPs
 * @IPOIB_LOST_NONE: there are none any more
 * @IPOIB_LOST_SOME: some can't be destroyed
 * @IPOIB_LOST_UNTRIED: nor was there time for all
 */
enum ipoib_lost_pass {
	IPOIB_LOST_NONE,
	IPOIB_LOST_SOME,
	IPOIB_LOST_UNTRIED,
};

/* The first of those that have not been tried in this pass yet. */
static struct ipoib_qp *ipoib_lost_next(struct ipoib_port *port, u32 *left)
{
	struct ipoib_qp *qp = NULL;

	mutex_lock(&port->lock);
	*left = min(*left, port->num_lost);
	if (*left) {
		qp = list_first_entry(&port->lost, struct ipoib_qp, lost_entry);
		list_move_tail(&qp->lost_entry, &port->lost);
		--*left;
	}
	mutex_unlock(&port->lock);
	return qp;
}

/*
 * Try it with all of them, or as many as there is time for; they take turns.  @last:
 * the port goes.
 */
static enum ipoib_lost_pass ipoib_lost_try(struct ipoib_port *port,
					   unsigned long end, bool last)
{
	u32 left = READ_ONCE(port->num_lost);
	struct ipoib_qp *qp;

	while ((qp = ipoib_lost_next(port, &left))) {
		ipoib_lost_end(port, qp, last);
		if (left && (time_after(jiffies, end) ||
			     (!last && READ_ONCE(port->lost_stop))))
			return IPOIB_LOST_UNTRIED;
	}
	return READ_ONCE(port->num_lost) ? IPOIB_LOST_SOME : IPOIB_LOST_NONE;
}

static void ipoib_lost_work(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, lost_work.work);
	unsigned int noio = memalloc_noio_save();
	u32 before = READ_ONCE(port->num_lost);
	enum ipoib_lost_pass pass;

	pass = ipoib_lost_try(port, jiffies + IPOIB_LOST_MOST, false);
	/* It is worth while to go on where some could be destroyed. */
	if (pass == IPOIB_LOST_UNTRIED && READ_ONCE(port->num_lost) < before)
		queue_delayed_work(ipoib_wq, &port->lost_work, IPOIB_LOST_MOST);
	else if (pass != IPOIB_LOST_NONE)
		queue_delayed_work(ipoib_wq, &port->lost_work, IPOIB_LOST_AGAIN);
	memalloc_noio_restore(noio);
}

/**
 * ipoib_lost_init - no QP of a port is lost yet
 * @port: new port
 */
void ipoib_lost_init(struct ipoib_port *port)
{
	INIT_LIST_HEAD(&port->lost);
	INIT_DELAYED_WORK(&port->lost_work, ipoib_lost_work);
}

/* One that has no reference on the module, which is about to go. */
static bool ipoib_lost_unheld(struct ipoib_port *port)
{
	struct ipoib_qp *qp;
	bool unheld = false;

	mutex_lock(&port->lock);
	list_for_each_entry(qp, &port->lost, lost_entry)
		unheld |= !qp->lost_held;
	mutex_unlock(&port->lock);
	return unheld;
}

/**
 * ipoib_lost_exit - the port goes: destroy its lost QPs
 * @port: port without interfaces, its NAPI disabled
 *
 * Context: process; waits for a second at most, unless the module goes: then for as
 *	long as the HCA can call it.
 * Return: false if there are some: then what they use has to stay for good
 */
bool ipoib_lost_exit(struct ipoib_port *port)
{
	unsigned long end = jiffies + IPOIB_LOST_TIMEOUT;
	bool none;

	WRITE_ONCE(port->lost_stop, true);
	cancel_delayed_work_sync(&port->lost_work);
	for (;;) {
		none = ipoib_lost_try(port, end, true) == IPOIB_LOST_NONE;
		if (none)
			break;
		if (!time_before(jiffies, end)) {
			if (!ipoib_lost_unheld(port))
				break;
			dev_warn(&port->ca->dev,
				 "port %u: the module waits for QPs that can't be destroyed\n",
				 port->num);
			end = jiffies + IPOIB_LOST_WARN;
		}
		msleep(IPOIB_LOST_PAUSE_MS);
	}
	if (!none)
		dev_warn(&port->ca->dev,
			 "port %u: QPs can't be destroyed: memory is lost\n",
			 port->num);
	WRITE_ONCE(port->lost_stop, false);
	return none;
}
