// SPDX-License-Identifier: GPL-2.0-only
/*
 * Links: neighbours that accept connections, and events for the work item
 *
 * State that outlives a connection is kept in its neighbour's link: waiting
 * packets, and the count of REJs received.  Senders, the NAPI and the callbacks
 * of the CM and the HCA record events; the interface's work item handles them.
 *
 * Lock: ipoib_link.lock, a spinlock taken with BHs disabled.
 */
#include "ipoib.h"
#include "ipoib_cm_internal.h"
#include "ipoib_link.h"
#include "ipoib_msg.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"
#include "ipoib_trace.h"

/* ---- events for the work item ------------------------------------------ */

void ipoib_cm_kick(struct ipoib_cm *cm)
{
	mod_delayed_work(ipoib_wq, &cm->work, 0);
}

/**
 * ipoib_conn_notify - record an event of a connection
 * @conn: connection
 * @ev: event
 *
 * Context: any.
 */
void ipoib_conn_notify(struct ipoib_conn *conn, enum ipoib_conn_event ev)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	set_bit(ev, &conn->events);
	/* The work item clears the bit before it reads the events. */
	if (!test_and_set_bit(0, &conn->listed))
		llist_add(&conn->todo, &cm->todo);
	ipoib_cm_kick(cm);
}

/**
 * ipoib_link_notify - have a link handled by the work item
 * @link: link
 *
 * Context: any.
 */
void ipoib_link_notify(struct ipoib_link *link)
{
	struct ipoib_cm *cm = link->dev->cm;

	if (!test_and_set_bit(0, &link->listed)) {
		refcount_inc(&link->ref);
		llist_add(&link->todo, &cm->links);
	}
	ipoib_cm_kick(cm);
}

/* ---- states ------------------------------------------------------------ */

static int ipoib_link_fill_state(struct sk_buff *skb,
				 const struct ipoib_link *link)
{
	lockdep_assert_held(&link->lock);
	if (nla_put_u32(skb, IPOIB_A_NEIGH_LINK_STATUS, link->dead ?
			IPOIB_LINK_STATUS_NONE :
			ipoib_link_status(link->state)) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_LINK_FAILURES, link->failures) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_LINK_WAITING_BYTES,
			link->waiting_bytes))
		return -EMSGSIZE;
	return link->state == IPOIB_LINK_UP && !link->dead ?
	       nla_put_u32(skb, IPOIB_A_NEIGH_MAX_MSG, link->max_msg) : 0;
}

static int ipoib_link_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_link *link = object;

	if (nla_put(skb, IPOIB_A_NEIGH_LLADDR, INFINIBAND_ALEN, link->addr) ||
	    nla_put(skb, IPOIB_A_NEIGH_GID, sizeof(union ib_gid),
		    link->addr + 4))
		return -EMSGSIZE;
	return ipoib_link_fill_state(skb, link);
}

/**
 * ipoib_link_report - write a link's state to a message about its neighbour
 * @skb: message
 * @link: link
 *
 * Context: ipoib_paths.lock held.
 * Return: 0 or -EMSGSIZE
 */
int ipoib_link_report(struct sk_buff *skb, struct ipoib_link *link)
{
	int ret;

	spin_lock(&link->lock);
	ret = ipoib_link_fill_state(skb, link);
	spin_unlock(&link->lock);
	return ret;
}

/**
 * ipoib_link_move - change the state of a link
 * @link: link, its lock held
 * @to: new state
 */
void ipoib_link_move(struct ipoib_link *link, enum ipoib_link_state to)
{
	enum ipoib_link_status was = ipoib_link_status(link->state);

	lockdep_assert_held(&link->lock);
	WARN_ON_ONCE(!ipoib_link_may_move(link->state, to));
	trace_ipoib_link_state(link->dev, link->addr, link->failures,
			       link->state, to);
	WRITE_ONCE(link->state, to);
	if (ipoib_link_status(to) != was && !link->dead)
		ipoib_msg_notify(link->dev, IPOIB_CMD_LINK_NTF,
				 ipoib_link_fill, link);
}

/* Enter back-off: the first packet after it asks for a connection. */
void ipoib_link_failed(struct ipoib_link *link)
{
	unsigned long delay = ipoib_link_delay(link->failures);

	lockdep_assert_held(&link->lock);
	link->failures++;
	link->failed = jiffies;
	link->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_link_move(link, IPOIB_LINK_BACKOFF);
}

/* ---- waiting packets --------------------------------------------------- */

void ipoib_link_drop(struct ipoib_link *link, struct sk_buff *skb,
		     enum skb_drop_reason reason)
{
	atomic64_inc(&link->dev->cm->stats.waiting_dropped);
	ipoib_drop(link->dev->ndev, skb, reason);
}

/**
 * ipoib_link_count_waiting - note that other packets wait than before
 * @link: link, its lock held
 * @bytes: change of their memory
 */
void ipoib_link_count_waiting(struct ipoib_link *link, int bytes)
{
	lockdep_assert_held(&link->lock);
	WRITE_ONCE(link->waiting_bytes, link->waiting_bytes + bytes);
	atomic_long_add(bytes, &link->dev->cm->waiting_bytes);
}

/* Queue a packet, or drop it if too much is waiting. */
void ipoib_link_wait(struct ipoib_link *link, struct sk_buff *skb)
{
	long all = atomic_long_read(&link->dev->cm->waiting_bytes);

	lockdep_assert_held(&link->lock);
	if (link->dead || !ipoib_link_may_wait(link->waiting_bytes, all,
					       skb->truesize)) {
		ipoib_link_drop(link, skb, SKB_DROP_REASON_FULL_RING);
		return;
	}
	__skb_queue_tail(&link->waiting, skb);
	ipoib_link_count_waiting(link, skb->truesize);
}

void ipoib_link_take_waiting(struct ipoib_link *link,
			     struct sk_buff_head *list)
{
	lockdep_assert_held(&link->lock);
	skb_queue_splice_tail_init(&link->waiting, list);
	ipoib_link_count_waiting(link, -link->waiting_bytes);
}

/* Put packets back in front of those that wait. */
void ipoib_link_return(struct ipoib_link *link,
		       struct sk_buff_head *list)
{
	struct sk_buff *skb;
	int bytes = 0;

	lockdep_assert_held(&link->lock);
	if (link->dead)
		return;
	skb_queue_walk(list, skb)
		bytes += skb->truesize;
	skb_queue_splice_init(list, &link->waiting);
	ipoib_link_count_waiting(link, bytes);
}

/* ---- life cycle -------------------------------------------------------- */

/**
 * ipoib_link_create - create the link of a neighbour
 * @dev: interface in connected mode
 * @neigh: neighbour, not in the table yet
 * @addr: its link-layer address
 *
 * Context: ipoib_paths.lock held.
 * Return: link or NULL
 */
struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
				     struct ipoib_neigh *neigh, const u8 *addr)
{
	struct ipoib_link *link;

	link = kzalloc_obj(*link, GFP_ATOMIC);
	if (!link)
		return NULL;
	spin_lock_init(&link->lock);
	refcount_set(&link->ref, 1);
	link->dev = dev;
	link->neigh = neigh;
	memcpy(link->addr, addr, INFINIBAND_ALEN);
	__skb_queue_head_init(&link->waiting);
	return link;
}

void ipoib_link_put(struct ipoib_link *link)
{
	if (refcount_dec_and_test(&link->ref))
		kfree_rcu(link, rcu);
}

/**
 * ipoib_link_destroy - destroy the link of a neighbour that goes away
 * @link: link; senders may still look at it under RCU
 *
 * Context: ipoib_paths.lock held.
 */
void ipoib_link_destroy(struct ipoib_link *link)
{
	struct sk_buff_head drop;

	__skb_queue_head_init(&drop);
	link->neigh = NULL;
	spin_lock(&link->lock);
	link->dead = true;
	ipoib_link_take_waiting(link, &drop);
	if (link->conn)
		ipoib_conn_notify(link->conn, IPOIB_CONN_EV_CLOSE);
	if (ipoib_link_status(link->state) != IPOIB_LINK_STATUS_NONE)
		ipoib_msg_notify(link->dev, IPOIB_CMD_LINK_NTF,
				 ipoib_link_fill, link);
	spin_unlock(&link->lock);
	while (!skb_queue_empty(&drop))
		ipoib_drop(link->dev->ndev, __skb_dequeue(&drop),
			   SKB_DROP_REASON_NEIGH_FAILED);
	ipoib_link_put(link);
}

/**
 * ipoib_link_neigh - the neighbour of a link
 * @link: link
 *
 * Context: ipoib_paths.lock held.
 * Return: neighbour, or NULL if it is gone
 */
struct ipoib_neigh *ipoib_link_neigh(const struct ipoib_link *link)
{
	return link->neigh;
}

/**
 * ipoib_link_heard - the peer of a link was heard from
 * @link: link
 * @moved: from another LID than the path's
 *
 * A peer announces itself when it comes up.  This cuts a long back-off short,
 * but connections are not tried more often than after a first failure: the
 * announcement may be forged.
 *
 * Context: BHs disabled, RCU.
 */
void ipoib_link_heard(struct ipoib_link *link, bool moved)
{
	unsigned long soon;

	if (READ_ONCE(link->state) != IPOIB_LINK_BACKOFF)
		return;
	spin_lock(&link->lock);
	soon = ipoib_link_heard_delay(jiffies, link->failed,
				      READ_ONCE(link->dev->lid), moved);
	if (link->state == IPOIB_LINK_BACKOFF && time_after(link->retry, soon))
		link->retry = soon;
	spin_unlock(&link->lock);
}

/**
 * ipoib_link_is_up - does a neighbour have a connection?
 * @link: its link; kept by RCU or ipoib_paths.lock
 */
bool ipoib_link_is_up(const struct ipoib_link *link)
{
	return READ_ONCE(link->state) == IPOIB_LINK_UP;
}
