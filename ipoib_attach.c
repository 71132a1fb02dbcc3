// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attachments of QPs to multicast groups, and QPs that can't be destroyed
 *
 * The HCA may fail to detach a QP.  Then it stays attached, and verbs do not let
 * it be destroyed.  So everything that is attached is remembered here, whether
 * a group wants it or not; what no group wants is stale, and is detached again
 * every two seconds.  Before a QP is destroyed this is repeated at once, until
 * the deadline of ipoib_drain.c.
 *
 * A QP that is attached even then outlives its interface: it is lost.  So is one
 * that the HCA refuses to destroy, also that of a connection.  What the HCA or the
 * NAPI may use because of it stays: its queue, its CQs, its receive buffers, and
 * if need be all of the port's channels.  Attempts to destroy it go on, for as
 * long as the port exists.
 *
 * Locks: that of the engine, struct ipoib_attached.lock; ipoib_port.lock for
 * lost QPs.
 */
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ipoib.h"
#include "ipoib_attach.h"
#include "ipoib_channel.h"
#include "ipoib_cq.h"
#include "ipoib_drain.h"
#include "ipoib_port.h"
#include "ipoib_qp.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_DETACH_AGAIN	(2 * HZ)
#define IPOIB_DETACH_MOST	(HZ / 10)	/* in one go */

/**
 * struct ipoib_attachment - a QP is attached to a group
 * @entry: in ipoib_attached.list or ipoib_qp.lost_groups
 * @mgid: GID
 * @mlid: LID
 * @group: who wants it, NULL: it is stale
 */
struct ipoib_attachment {
	struct list_head entry;
	union ib_gid mgid;
	__be16 mlid;
	struct ipoib_ud_group *group;
};

/* ---- attachments --------------------------------------------------------- */

static void ipoib_attachment_free(struct ipoib_attachment *at)
{
	list_del(&at->entry);
	kfree(at);
}

/* Detach what is stale; on error it stays. */
static int ipoib_attachment_end(struct ipoib_attached *a,
				struct ipoib_attachment *at)
{
	int ret;

	lockdep_assert_held(a->lock);
	ret = a->ops->detach(a->dev, &at->mgid, be16_to_cpu(at->mlid));
	if (!ret)
		ipoib_attachment_free(at);
	return ret;
}

/* No group wants it any more. */
static struct ipoib_attachment *
ipoib_attachment_forsake(struct ipoib_ud_group *group)
{
	struct ipoib_attachment *at = group->at;

	group->at = NULL;
	at->group = NULL;
	return at;
}

static struct ipoib_attachment *
ipoib_attached_stale(const struct ipoib_attached *a)
{
	struct ipoib_attachment *at;

	lockdep_assert_held(a->lock);
	list_for_each_entry(at, &a->list, entry)
		if (!at->group)
			return at;
	return NULL;
}

static u32 ipoib_attached_count_stale(const struct ipoib_attached *a)
{
	struct ipoib_attachment *at;
	u32 num = 0;

	lockdep_assert_held(a->lock);
	list_for_each_entry(at, &a->list, entry)
		num += !at->group;
	return num;
}

/* Detach the first that is stale.  If that fails, it is the last from then on. */
static void ipoib_attached_tidy_one(struct ipoib_attached *a)
{
	struct ipoib_attachment *at = ipoib_attached_stale(a);

	if (at && ipoib_attachment_end(a, at))
		list_move_tail(&at->entry, &a->list);
}

/*
 * Detach all that is stale, unless the HCA takes too long; true if nothing is any
 * more.
 */
static bool ipoib_attached_tidy(struct ipoib_attached *a)
{
	unsigned long end = jiffies + IPOIB_DETACH_MOST;
	u32 left = ipoib_attached_count_stale(a);

	while (left-- && !time_after(jiffies, end))
		ipoib_attached_tidy_one(a);
	return !ipoib_attached_stale(a);
}

/* The same, but the engine can be used in between. */
static void ipoib_attached_work(struct work_struct *work)
{
	struct ipoib_attached *a =
		container_of(work, struct ipoib_attached, work.work);
	unsigned long end = jiffies + IPOIB_DETACH_MOST;
	unsigned int noio = memalloc_noio_save();
	u32 left;

	mutex_lock(a->lock);
	left = ipoib_attached_count_stale(a);
	while (left-- && !time_after(jiffies, end)) {
		ipoib_attached_tidy_one(a);
		mutex_unlock(a->lock);
		cond_resched();
		mutex_lock(a->lock);
	}
	if (ipoib_attached_stale(a))
		queue_delayed_work(ipoib_wq, &a->work, IPOIB_DETACH_AGAIN);
	mutex_unlock(a->lock);
	memalloc_noio_restore(noio);
}

/**
 * ipoib_attached_init - nothing is attached yet
 * @a: zeroed
 * @dev: interface
 * @ops: of the engine, called with @lock held
 * @lock: the engine's
 */
void ipoib_attached_init(struct ipoib_attached *a, struct ipoib_dev *dev,
			 const struct ipoib_attach_ops *ops, struct mutex *lock)
{
	a->dev = dev;
	a->ops = ops;
	a->lock = lock;
	INIT_LIST_HEAD(&a->list);
	INIT_DELAYED_WORK(&a->work, ipoib_attached_work);
}

/**
 * ipoib_detach - stop receiving a group
 * @a: attachments
 * @group: group, attached or not; nothing refers to it afterwards
 *
 * Context: process, @a->lock held.
 */
void ipoib_detach(struct ipoib_attached *a, struct ipoib_ud_group *group)
{
	struct ipoib_attachment *at;
	int ret;

	lockdep_assert_held(a->lock);
	if (!group->at)
		return;
	at = ipoib_attachment_forsake(group);
	ret = ipoib_attachment_end(a, at);
	if (!ret)
		return;
	net_ratelimited_function(netdev_warn, a->dev->ndev,
				 "can't detach from %pI6, trying again: %pe\n",
				 at->mgid.raw, ERR_PTR(ret));
	queue_delayed_work(ipoib_wq, &a->work, IPOIB_DETACH_AGAIN);
}

static struct ipoib_attachment *
ipoib_attached_find(const struct ipoib_attached *a, const union ib_gid *mgid)
{
	struct ipoib_attachment *at;

	list_for_each_entry(at, &a->list, entry)
		if (!at->group && !memcmp(&at->mgid, mgid, sizeof(*mgid)))
			return at;
	return NULL;
}

static struct ipoib_attachment *
ipoib_attachment_make(struct ipoib_attached *a, const union ib_gid *mgid,
		      __be16 mlid)
{
	struct ipoib_attachment *at;
	int ret;

	at = kzalloc_obj(*at);
	if (!at)
		return ERR_PTR(-ENOMEM);
	at->mgid = *mgid;
	at->mlid = mlid;
	ret = a->ops->attach(a->dev, &at->mgid, be16_to_cpu(mlid));
	if (ret) {
		kfree(at);
		return ERR_PTR(ret);
	}
	list_add(&at->entry, &a->list);
	return at;
}

/**
 * ipoib_attach - receive a group
 * @a: attachments
 * @group: group, zeroed or attached; its LID may have changed
 * @mgid: GID
 * @mlid: LID
 * @anew: detach and attach it again if nothing has changed
 *
 * What is stale of the same group is used if its LID is the same; otherwise it
 * has to go first.  Many HCAs know a group by its GID alone: they would do
 * nothing to attach the QP once more, and later detach it from both.
 *
 * Context: process, @a->lock held.
 * Return: 0, or -errno and it is not attached
 */
int ipoib_attach(struct ipoib_attached *a, struct ipoib_ud_group *group,
		 const union ib_gid *mgid, __be16 mlid, bool anew)
{
	struct ipoib_attachment *at = group->at;
	int ret;

	lockdep_assert_held(a->lock);
	if (at && at->mlid == mlid && !anew)
		return 0;
	ipoib_detach(a, group);
	at = ipoib_attached_find(a, mgid);
	if (at && (at->mlid != mlid || anew)) {
		ret = ipoib_attachment_end(a, at);
		if (ret)
			return ret;
		at = NULL;
	}
	at = at ?: ipoib_attachment_make(a, mgid, mlid);
	if (IS_ERR(at))
		return PTR_ERR(at);
	at->group = group;
	group->at = at;
	return 0;
}

/**
 * ipoib_detach_stale - detach again what could not be detached
 * @a: attachments
 * @wait: repeat it until the deadline of teardown
 *
 * Context: process, @a->lock held; waits for a second at most.
 * Return: true if nothing is attached that no group wants
 */
bool ipoib_detach_stale(struct ipoib_attached *a, bool wait)
{
	unsigned long begun = jiffies;
	bool done;

	lockdep_assert_held(a->lock);
	do
		done = ipoib_attached_tidy(a);
	while (!done && wait && ipoib_drain_pause(a->dev->port, begun));
	return done;
}

/**
 * ipoib_detach_all - detach all groups, since the QP is to be destroyed
 * @a: attachments; no group is attached any more, also if this fails
 *
 * Context: process, @a->lock held.
 * Return: true if nothing is attached any more
 */
bool ipoib_detach_all(struct ipoib_attached *a)
{
	struct ipoib_attachment *at;

	lockdep_assert_held(a->lock);
	list_for_each_entry(at, &a->list, entry)
		if (at->group)
			ipoib_attachment_forsake(at->group);
	if (ipoib_detach_stale(a, false))
		return true;
	queue_delayed_work(ipoib_wq, &a->work, IPOIB_DETACH_AGAIN);
	return false;
}

/**
 * ipoib_attached_exit - the interface goes: try to detach the rest
 * @a: attachments, without groups
 * @wait: repeat it until the deadline of teardown
 *
 * What is still attached then is for ipoib_lost_add_txq(), or ipoib_attached_hand().
 *
 * Context: process, @a->lock not held; waits for a second at most.
 */
void ipoib_attached_exit(struct ipoib_attached *a, bool wait)
{
	mutex_lock(a->lock);
	ipoib_detach_stale(a, wait);
	mutex_unlock(a->lock);
	cancel_delayed_work_sync(&a->work);
}

/**
 * ipoib_attached_hand - hand on what is still attached
 * @a: attachments after ipoib_attached_exit(), of an HCA's own interface
 * @to: those of the QP below it, unused so far; NULL: the HCA has to know
 */
void ipoib_attached_hand(struct ipoib_attached *a, struct ipoib_attached *to)
{
	struct ipoib_attachment *at, *next;

	if (to)
		list_splice_init(&a->list, &to->list);
	list_for_each_entry_safe(at, next, &a->list, entry)
		ipoib_attachment_free(at);
}

/* ---- QPs that can't be destroyed ----------------------------------------- */

/* Of whom it was is gone: what was received is dropped. */
void ipoib_lost_rx(struct ipoib_channel *ch, struct ipoib_qp *qp,
		   struct ipoib_rx_slot *slot, const struct ib_wc *wc,
		   struct ipoib_rx_batch *batch)
{
}

/* What was sent was taken back. */
void ipoib_lost_tx(struct ipoib_qp *qp, const struct ib_wc *wc,
		   struct ipoib_tx_batch *batch, int budget)
{
}

/**
 * ipoib_lost_add - a QP can't be destroyed, and its owner does not keep it
 * @qp: QP whose sends were or will be taken back; nothing is posted to it any
 *	more.  The memory it is in stays until @ops->gone
 * @ops: handlers from now on: ipoib_lost_rx(), ipoib_lost_tx(), and @gone
 * @a: what it is attached to, NULL for a QP that receives no multicasts
 * @rxq: private receive queue that belongs to it alone and is not to be freed
 *	before @ops->gone; NULL if it has none, or others go on to use it
 *
 * Until @ops->gone the caller also keeps the QP's CQs, the SRQ, and the pools of
 * its buffers.  The QP may call into this module, which stays as long.
 *
 * Completions don't use anything of the owner's when this returns; events have
 * to look at ipoib_qp.lost under RCU, and don't after a grace period.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_lost_add(struct ipoib_qp *qp, const struct ipoib_qp_ops *ops,
		    struct ipoib_attached *a, struct ipoib_rxq *rxq)
{
	struct ipoib_channel *ch = qp->ch;
	struct ipoib_port *port = ch->port;

	__module_get(THIS_MODULE);
	net_ratelimited_function(netdev_warn, qp->dev->ndev,
				 "QP %#x can't be destroyed yet\n",
				 qp->ib->qp_num);
	INIT_LIST_HEAD(&qp->lost_groups);
	if (a)
		list_splice_init(&a->list, &qp->lost_groups);
	mutex_lock(&port->lock);
	ipoib_channel_pause(ch);
	qp->ops = ops;
	/* The poll ignores receives of a QP without a queue. */
	if (qp->rxq && !qp->rxq->srq)
		qp->rxq = NULL;
	if (rxq)
		list_del_init(&rxq->dirty);
	ipoib_channel_resume(ch);
	WRITE_ONCE(qp->lost, true);
	list_add_tail(&qp->lost_entry, &port->lost);
	queue_delayed_work(ipoib_wq, &port->lost_work, IPOIB_DETACH_AGAIN);
	mutex_unlock(&port->lock);
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
	timer_delete_sync(&txq->timer);
	txq->lost_rxq = rxq;
	ipoib_lost_add(&txq->qp, &ipoib_lost_txq_ops, a, rxq);
	/* ipoib_ud_qp_event() may be using the interface. */
	synchronize_rcu();
}

/* Reset a lost QP, once: what it still has to do is done with then. */
static void ipoib_lost_silence(struct ipoib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	if (!qp->lost_reset)
		qp->lost_reset = !ib_modify_qp(qp->ib, &attr, IB_QP_STATE);
}

/* Try to silence and to destroy a lost QP, and free what belongs to it. */
static void ipoib_lost_end(struct ipoib_qp *qp)
{
	struct ipoib_attachment *at, *next;

	ipoib_lost_silence(qp);
	list_for_each_entry_safe(at, next, &qp->lost_groups, entry)
		if (!ib_detach_mcast(qp->ib, &at->mgid, be16_to_cpu(at->mlid)))
			ipoib_attachment_free(at);
	if (!list_empty(&qp->lost_groups) || ipoib_drain_destroy_qp(qp))
		return;
	list_del(&qp->lost_entry);
	qp->ops->gone(qp);
	module_put(THIS_MODULE);
}

/* Try that with all of them; true if there are none any more. */
static bool ipoib_lost_end_all(struct ipoib_port *port)
{
	struct ipoib_qp *qp, *next;
	LIST_HEAD(list);
	bool none;

	mutex_lock(&port->lock);
	list_splice_init(&port->lost, &list);
	mutex_unlock(&port->lock);
	/* To destroy a QP takes the lock. */
	list_for_each_entry_safe(qp, next, &list, lost_entry)
		ipoib_lost_end(qp);
	mutex_lock(&port->lock);
	list_splice(&list, &port->lost);
	none = list_empty(&port->lost);
	mutex_unlock(&port->lock);
	return none;
}

static void ipoib_lost_work(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, lost_work.work);
	unsigned int noio = memalloc_noio_save();

	if (!ipoib_lost_end_all(port))
		queue_delayed_work(ipoib_wq, &port->lost_work,
				   IPOIB_DETACH_AGAIN);
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

/**
 * ipoib_lost_exit - the port goes: destroy its lost QPs
 * @port: port without interfaces, its NAPI disabled
 *
 * Context: process; waits for a second at most.
 * Return: false if there are some: then what they use has to stay for good
 */
bool ipoib_lost_exit(struct ipoib_port *port)
{
	unsigned long begun = jiffies;
	bool none;

	cancel_delayed_work_sync(&port->lost_work);
	do
		none = ipoib_lost_end_all(port);
	while (!none && ipoib_drain_pause(port, begun));
	if (!none)
		dev_warn(&port->ca->dev,
			 "port %u: QPs can't be destroyed: memory is lost\n",
			 port->num);
	return none;
}
