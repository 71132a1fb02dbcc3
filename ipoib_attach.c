// SPDX-License-Identifier: GPL-2.0-only
/*
 * Attachments of QPs to multicast groups
 *
 * The HCA may fail to detach a QP.  Then it stays attached, and verbs do not let
 * it be destroyed.  So everything that is attached is remembered here, whether
 * a group wants it or not; what no group wants is stale, and is detached again
 * every two seconds.  Before a QP is destroyed this is repeated at once, until
 * the deadline of ipoib_drain.c.
 *
 * A QP that is attached even then outlives its interface, see ipoib_lost.c.
 *
 * Lock: that of the engine, struct ipoib_attached.lock.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ipoib.h"
#include "ipoib_attach.h"
#include "ipoib_drain.h"
#include "ipoib_port.h"

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
	unsigned long end = jiffies + IPOIB_DETACH_MOST, again;
	unsigned int noio = memalloc_noio_save();
	u32 before, left;

	mutex_lock(a->lock);
	before = ipoib_attached_count_stale(a);
	for (left = before; left && !time_after(jiffies, end); left--) {
		ipoib_attached_tidy_one(a);
		mutex_unlock(a->lock);
		cond_resched();
		mutex_lock(a->lock);
	}
	/* It is worth while to go on where some could be detached. */
	again = left && ipoib_attached_count_stale(a) < before ?
		IPOIB_DETACH_MOST : IPOIB_DETACH_AGAIN;
	if (ipoib_attached_stale(a))
		queue_delayed_work(ipoib_wq, &a->work, again);
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

/**
 * ipoib_attachments_end - detach a QP that has no owner any more
 * @qp: QP
 * @list: struct ipoib_attachment; what is detached is taken off it
 *
 * Context: process, nobody else uses the list.
 * Return: true if nothing is left
 */
bool ipoib_attachments_end(struct ib_qp *qp, struct list_head *list)
{
	struct ipoib_attachment *at, *next;

	list_for_each_entry_safe(at, next, list, entry)
		if (!ib_detach_mcast(qp, &at->mgid, be16_to_cpu(at->mlid)))
			ipoib_attachment_free(at);
	return list_empty(list);
}
