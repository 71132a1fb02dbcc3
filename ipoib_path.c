// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paths to GIDs, shared by all interfaces of a port
 *
 * Senders find a path under RCU without a lock or a reference.  Everything that
 * takes time is done here, off the fast path: packets for an unknown path wait
 * in a queue bounded in bytes while one SA query serves all of them, with at
 * most IPOIB_PATH_WINDOW queries in flight and back-off without an answer.
 *
 * A path that may be stale (new SM, LID change, a peer heard from another LID)
 * stays in use until the new answer arrives.
 *
 * Lock: struct ipoib_paths.lock covers all fields except those RCU readers use.
 * SA callbacks come from process context.
 *
 * RFC 4391 section 9.1.2 and RFC 4392 section 5; IBA volume 1 section 15.2.5
 * (PathRecord).
 */
#include <linux/sched/mm.h>
#include <linux/seq_file.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_msg.h"
#include "ipoib_path.h"
#include "ipoib_path_internal.h"
#include "ipoib_port.h"
#include "ipoib_probe.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"
#include "ipoib_trace.h"

#define IPOIB_PATH_TIMEOUT_MS	1000
#define IPOIB_PATH_TRIES	4
/*
 * Failures before a refused path loses its address handle, 16 s or more: a new
 * SM knows alias GUIDs only after their owners have registered them again.
 */
#define IPOIB_PATH_REFUSALS	7

/* ---- states and life cycle --------------------------------------------- */

static const struct rhashtable_params ipoib_path_params = {
	.key_len = sizeof(struct ipoib_path_key),
	.key_offset = offsetof(struct ipoib_path, key),
	.head_offset = offsetof(struct ipoib_path, node),
	.automatic_shrinking = true,
};

static int ipoib_path_fill_record(struct sk_buff *skb,
				  const struct ipoib_path *path)
{
	const struct sa_path_rec *rec = &path->rec;

	if (nla_put_u32(skb, IPOIB_A_NEIGH_DLID, path->dlid) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_SL, rec->sl) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_PATH_MTU,
			max(ib_mtu_enum_to_int(rec->mtu), 0)) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_RATE,
			max(ib_rate_to_mbps(rec->rate), 0)) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_HOP_LIMIT, rec->hop_limit))
		return -EMSGSIZE;
	return 0;
}

/**
 * ipoib_path_fill - write a path's attributes to a message
 * @skb: message
 * @object: path
 *
 * Context: ipoib_paths.lock held.
 * Return: 0 or -EMSGSIZE
 */
int ipoib_path_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_path *path = object;

	lockdep_assert_held(&path->paths->lock);
	if (nla_put(skb, IPOIB_A_NEIGH_GID, sizeof(path->key.dgid),
		    &path->key.dgid) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_PATH_STATUS,
			ipoib_path_status(path->state)) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_PATH_FAILURES, path->failures) ||
	    nla_put_u32(skb, IPOIB_A_NEIGH_PATH_WAITING_PACKETS,
			skb_queue_len(&path->waiting)))
		return -EMSGSIZE;
	return rcu_access_pointer(path->ah) ?
	       ipoib_path_fill_record(skb, path) : 0;
}

/* Tell each interface that has neighbours there; they are mostly in a row. */
static void ipoib_path_notify(const struct ipoib_path *path)
{
	const struct ipoib_path_user *user;
	const struct ipoib_dev *told = NULL;

	if (!ipoib_msg_wanted(IPOIB_CMD_PATH_NTF))
		return;
	list_for_each_entry(user, &path->neighs, entry) {
		if (user->dev == told)
			continue;
		told = user->dev;
		ipoib_msg_notify(told, IPOIB_CMD_PATH_NTF, ipoib_path_fill,
				 path);
	}
}

static void ipoib_path_move(struct ipoib_path *path,
			    enum ipoib_path_state to, int status)
{
	enum ipoib_path_status was = ipoib_path_status(path->state);

	lockdep_assert_held(&path->paths->lock);
	WARN_ON_ONCE(!ipoib_path_may_move(path->state, to));
	trace_ipoib_path_state(path->paths->ca, path->paths->num,
			       &path->key.dgid, path->state, to, status);
	path->state = to;
	if (ipoib_path_status(to) != was)
		ipoib_path_notify(path);
}

struct ipoib_ah *ipoib_path_ah(struct ipoib_path *path)
{
	return rcu_dereference_protected(path->ah,
			lockdep_is_held(&path->paths->lock));
}

void ipoib_path_drop_waiting(struct ipoib_path *path,
			     struct sk_buff_head *drop)
{
	path->paths->stat.dropped += skb_queue_len(&path->waiting);
	skb_queue_splice_tail_init(&path->waiting, drop);
	ipoib_path_count_waiting(path, -path->waiting_bytes);
}

/* Drop packets that have no path; each holds a reference on its device. */
void ipoib_path_free_skbs(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list))) {
		struct net_device *ndev = skb->dev;

		ipoib_drop(ndev, skb, SKB_DROP_REASON_NEIGH_FAILED);
		dev_put(ndev);
	}
}

/* True if a query may be sent, now or when it is the path's turn. */
static bool ipoib_path_can_ask(const struct ipoib_path *path)
{
	return path->users && (path->state == IPOIB_PATH_IDLE ||
			       path->state == IPOIB_PATH_VALID);
}

/*
 * Query the SA when it is the path's turn.  A caller that found the path under
 * RCU must check its state again under the lock: it may be dead.
 */
void ipoib_path_ask(struct ipoib_path *path)
{
	lockdep_assert_held(&path->paths->lock);
	if (WARN_ON_ONCE(!ipoib_path_can_ask(path)))
		return;
	ipoib_path_move(path, IPOIB_PATH_QUEUED, 0);
	WRITE_ONCE(path->gen, path->paths->gen);
	ipoib_path_queue(path);
}

/* Remove the path from the lists of its state. */
static void ipoib_path_unlink(struct ipoib_path *path)
{
	if (path->state == IPOIB_PATH_QUEUED)
		ipoib_path_dequeue(path);
	else if (path->state == IPOIB_PATH_BACKOFF)
		ipoib_path_del_retry(path);
}

/* Free an unused path, unless it is being queried. */
void ipoib_path_release(struct ipoib_path *path)
{
	struct ipoib_paths *paths = path->paths;
	struct ipoib_ah *ah;

	lockdep_assert_held(&paths->lock);
	if (path->users || path->state == IPOIB_PATH_QUERY)
		return;
	ipoib_path_unlink(path);
	ipoib_path_move(path, IPOIB_PATH_DEAD, 0);
	WARN_ON_ONCE(!skb_queue_empty(&path->waiting));
	WARN_ON_ONCE(!list_empty(&path->neighs));
	ipoib_path_leave(path);
	list_del(&path->entry);
	rhashtable_remove_fast(&paths->table, &path->node,
			       ipoib_path_params);
	ah = ipoib_path_ah(path);
	RCU_INIT_POINTER(path->ah, NULL);
	if (ah)
		ipoib_ah_retire(paths->port, ah);
	kfree_rcu(path, rcu);
}

/* The path with that key, or NULL. */
struct ipoib_path *ipoib_path_find(struct ipoib_paths *paths,
				   const struct ipoib_path_key *key)
{
	lockdep_assert_held(&paths->lock);
	return rhashtable_lookup_fast(&paths->table, key, ipoib_path_params);
}

/* Create a path without users; NULL if there is no memory. */
struct ipoib_path *ipoib_path_create(struct ipoib_paths *paths,
				     const struct ipoib_path_key *key, u16 lid,
				     struct ipoib_path_source *own)
{
	struct ipoib_path_source *source = NULL;
	struct ipoib_path *path;

	lockdep_assert_held(&paths->lock);
	path = kzalloc_obj(*path, GFP_ATOMIC);
	if (!path)
		return NULL;
	path->key = *key;
	path->paths = paths;
	path->gen = paths->gen;
	path->local = !lid;
	INIT_LIST_HEAD(&path->neighs);
	INIT_LIST_HEAD(&path->wait);
	__skb_queue_head_init(&path->waiting);
	if (rhashtable_insert_fast(&paths->table, &path->node,
				   ipoib_path_params)) {
		kfree(path);
		return NULL;
	}
	list_add_tail(&path->entry, &paths->list);
	if (lid)
		source = ipoib_source_get(paths, lid);
	ipoib_path_join(path, source ?: own);
	return path;
}

/* Queue a packet until the path is known; drop the oldest if too much waits. */
void ipoib_path_wait(struct ipoib_path *path, struct sk_buff *skb,
		     struct sk_buff_head *drop)
{
	dev_hold(skb->dev);
	__skb_queue_tail(&path->waiting, skb);
	ipoib_path_count_waiting(path, skb->truesize);
	while (ipoib_path_overfull(path)) {
		skb = __skb_dequeue(&path->waiting);
		if (!skb)
			break;
		ipoib_path_count_waiting(path, -skb->truesize);
		path->paths->stat.dropped++;
		__skb_queue_tail(drop, skb);
	}
	if (path->state == IPOIB_PATH_IDLE)
		ipoib_path_ask(path);
}

/* ---- answers from the SA ----------------------------------------------- */

/* Create an address handle from the SA's answer. */
static struct ipoib_ah *ipoib_path_make_ah(struct ipoib_paths *paths,
					   struct sa_path_rec *rec)
{
	struct rdma_ah_attr attr;
	struct ipoib_ah *ah;
	int ret;

	ret = ib_init_ah_attr_from_path(paths->ca, paths->num, rec, &attr, NULL);
	if (ret)
		return ERR_PTR(ret);
	ah = ipoib_ah_create(paths->port, &attr);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

/* The SA does not know of the LID that a peer was heard from. */
static void ipoib_path_deny(struct ipoib_path *path)
{
	path->denied = path->heard;
	path->denials++;
	path->heard = 0;
}

/* A query failed: schedule a retry; drop packets if too many have failed. */
static void ipoib_path_failed(struct ipoib_path *path, int status,
			      struct ipoib_ah **old, struct sk_buff_head *drop)
{
	struct ipoib_paths *paths = path->paths;
	unsigned long delay;

	paths->stat.failures++;
	path->refused = status == -EINVAL;
	if (path->refused && path->heard)
		ipoib_path_deny(path);
	if (status == -ETIMEDOUT)
		ipoib_probe_start(paths);
	delay = ipoib_path_delay(path->failures);
	path->failures++;
	path->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_path_move(path, IPOIB_PATH_BACKOFF, status);
	ipoib_path_add_retry(path);

	/* A new SA may refuse at first what it grants a second later. */
	if (path->failures < IPOIB_PATH_TRIES)
		return;
	ipoib_path_drop_waiting(path, drop);
	/* Only if the SA keeps saying that there is no such path: */
	if (!path->refused || path->failures < IPOIB_PATH_REFUSALS)
		return;
	*old = rcu_replace_pointer(path->ah, NULL,
				   lockdep_is_held(&paths->lock));
	if (!*old)
		return;
	/* The next answer is a change. */
	WRITE_ONCE(path->dlid, 0);
	ipoib_path_set_source(path, ipoib_path_owner(path));
}

/* Compare the answer with the LID that the peer was heard from. */
static void ipoib_path_judge(struct ipoib_path *path, u32 dlid)
{
	if (dlid != path->dlid) {
		path->denials = 0;
		path->denied = 0;
	}
	if (path->heard && path->heard != dlid)
		ipoib_path_deny(path);
	path->heard = 0;
	WRITE_ONCE(path->dlid, dlid);
}

static void ipoib_path_succeeded(struct ipoib_path *path,
				 struct sa_path_rec *rec, struct ipoib_ah *ah,
				 struct ipoib_ah **old,
				 struct sk_buff_head *send)
{
	path->rec = *rec;
	path->failures = 0;
	ipoib_path_judge(path, be32_to_cpu(sa_path_get_dlid(rec)));
	*old = rcu_replace_pointer(path->ah, ah,
				   lockdep_is_held(&path->paths->lock));
	ipoib_path_move(path, IPOIB_PATH_VALID, 0);
	skb_queue_splice_tail_init(&path->waiting, send);
	ipoib_path_count_waiting(path, -path->waiting_bytes);
	ipoib_path_set_source(path, &path->paths->known);
	if (path->again && ipoib_path_can_ask(path))
		ipoib_path_ask(path);
}

/* The query is over; its source may send another one. */
static void ipoib_path_answered(struct ipoib_path *path, bool good)
{
	struct ipoib_paths *paths = path->paths;

	lockdep_assert_held(&paths->lock);
	path->query = NULL;
	list_del_init(&path->wait);
	paths->inflight--;
	ipoib_source_answered(paths, path->source, good);
}

/*
 * After an event ib_sa has no address of the SM until a work item has made one.
 * A query that was not sent for that reason does not count, and its path keeps
 * its turn.  The number of attempts is limited: there may be no SM.
 */
static bool ipoib_path_put_off(struct ipoib_path *path)
{
	struct ipoib_path_source *source;
	struct ipoib_paths *paths = path->paths;
	bool again;

	spin_lock_bh(&paths->lock);
	source = path->source;
	again = !paths->dying && paths->unsent < IPOIB_UNSENT_MAX;
	if (again) {
		paths->pause = jiffies +
				   ipoib_unsent_delay(paths->unsent++);
		paths->inflight--;
		source->inflight--;
		ipoib_path_move(path, IPOIB_PATH_QUEUED, -EAGAIN);
		list_move(&path->wait, &source->ready);
		list_move(&source->turn, &paths->turns);
	}
	spin_unlock_bh(&paths->lock);
	return again;
}

static void ipoib_path_answer(int status, struct sa_path_rec *rec,
			      unsigned int num_prs, void *ctx)
{
	struct ipoib_ah *ah = NULL, *old = NULL;
	struct ipoib_path *path = ctx;
	struct ipoib_paths *paths = path->paths;
	struct sk_buff_head send, drop;
	struct sk_buff *skb;

	__skb_queue_head_init(&send);
	__skb_queue_head_init(&drop);
	mutex_lock(&paths->answer_lock);
	if (!status && !paths->dying) {
		ah = ipoib_path_make_ah(paths, rec);
		if (IS_ERR(ah)) {
			status = PTR_ERR(ah);
			ah = NULL;
		}
	}

	spin_lock_bh(&paths->lock);
	ipoib_path_answered(path, ah);
	if (paths->dying) {
		ipoib_path_move(path, IPOIB_PATH_IDLE, status);
		ipoib_path_drop_waiting(path, &drop);
	} else if (ah) {
		ipoib_path_succeeded(path, rec, ah, &old, &send);
	} else {
		ipoib_path_failed(path, status, &old, &drop);
	}
	ipoib_path_release(path);
	ipoib_path_kick(paths);
	spin_unlock_bh(&paths->lock);

	if (old)
		ipoib_ah_retire(paths->port, old);
	mutex_unlock(&paths->answer_lock);
	ipoib_path_free_skbs(&drop);
	while ((skb = __skb_dequeue(&send))) {
		struct net_device *ndev = skb->dev;

		dev_queue_xmit(skb);
		dev_put(ndev);
	}
	ipoib_paths_put(paths);
}

/* ---- queries ----------------------------------------------------------- */

/* Send the query; the answer may arrive before this returns. */
static void ipoib_path_query(struct ipoib_path *path)
{
	struct ipoib_paths *paths = path->paths;
	struct sa_path_rec rec = {
		.rec_type = SA_PATH_REC_TYPE_IB,
		.dgid = path->key.dgid,
		.sgid = path->key.sgid,
		.pkey = path->key.pkey,
		.traffic_class = path->key.tclass,
		.numb_path = 1,
	};
	struct ib_sa_query *query;
	int id;

	if (rdma_cap_opa_ah(paths->ca, paths->num))
		rec.rec_type = SA_PATH_REC_TYPE_OPA;
	refcount_inc(&paths->ref);
	id = ib_sa_path_rec_get(&ipoib_sa, paths->ca, paths->num, &rec,
				IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				IB_SA_PATH_REC_NUMB_PATH |
				IB_SA_PATH_REC_TRAFFIC_CLASS |
				IB_SA_PATH_REC_PKEY,
				IPOIB_PATH_TIMEOUT_MS, GFP_KERNEL,
				ipoib_path_answer, path, &query);
	if (id == -EAGAIN && ipoib_path_put_off(path)) {
		ipoib_paths_put(paths);
		return;
	}
	if (id < 0) {
		/* Not sent (no SM, no memory): treat as unanswered. */
		ipoib_path_answer(-ETIMEDOUT, NULL, 0, path);
		return;
	}
	spin_lock_bh(&paths->lock);
	paths->unsent = 0;
	paths->stat.queries++;
	/* If it is not answered yet, it can be cancelled. */
	if (path->state == IPOIB_PATH_QUERY) {
		path->query = query;
		path->query_id = id;
	}
	spin_unlock_bh(&paths->lock);
}

/* Back-off is over: query again if packets wait or the old record is used. */
static void ipoib_path_expire(struct ipoib_path *path)
{
	ipoib_path_del_retry(path);
	if (skb_queue_empty(&path->waiting) && !ipoib_path_ah(path)) {
		ipoib_path_move(path, IPOIB_PATH_IDLE, 0);
		return;
	}
	ipoib_path_move(path, IPOIB_PATH_QUEUED, 0);
	ipoib_path_queue(path);
}

/* A few at a time; the work item runs again at once if there are more. */
static void ipoib_path_expire_some(struct ipoib_paths *paths)
{
	unsigned long now = jiffies;
	struct ipoib_path *path;
	u32 n;

	for (n = 0; n < IPOIB_WALK; n++) {
		path = ipoib_path_first_retry(paths);
		if (!path || time_after(path->retry, now))
			return;
		ipoib_path_expire(path);
	}
}

/* The path whose turn it is, moved to QUERY, or NULL. */
static struct ipoib_path *ipoib_path_next(struct ipoib_paths *paths)
{
	struct ipoib_path_source *source;
	struct ipoib_path *path;

	lockdep_assert_held(&paths->lock);
	if (paths->dying || paths->inflight >= IPOIB_PATH_WINDOW ||
	    list_empty(&paths->turns) || ipoib_path_paused(paths))
		return NULL;
	source = list_first_entry(&paths->turns, struct ipoib_path_source,
				  turn);
	path = list_first_entry(&source->ready, struct ipoib_path, wait);
	list_del_init(&source->turn);
	list_move_tail(&path->wait, &paths->asked);
	list_move_tail(&path->member, &source->paths);
	ipoib_path_move(path, IPOIB_PATH_QUERY, 0);
	WRITE_ONCE(path->gen, paths->gen);
	path->again = false;
	path->asked = jiffies;
	source->inflight++;
	paths->inflight++;
	ipoib_source_queue(paths, source);
	return path;
}

static void ipoib_path_query_all(struct work_struct *work)
{
	struct ipoib_paths *paths =
		container_of(work, struct ipoib_paths, work.work);
	struct ipoib_path *path;

	spin_lock_bh(&paths->lock);
	ipoib_path_expire_some(paths);
	while ((path = ipoib_path_next(paths))) {
		path->users++;	/* the answer may come before this returns */
		spin_unlock_bh(&paths->lock);
		ipoib_path_query(path);
		spin_lock_bh(&paths->lock);
		path->users--;
		ipoib_path_release(path);
	}
	ipoib_path_kick(paths);
	spin_unlock_bh(&paths->lock);
}

static void ipoib_path_work(struct work_struct *work)
{
	unsigned int noio = memalloc_noio_save();

	ipoib_path_query_all(work);
	memalloc_noio_restore(noio);
}

/* ---- revalidation ------------------------------------------------------ */

/* A sender found a record from before the last event: once per event. */
void ipoib_path_refresh(struct ipoib_path *path)
{
	struct ipoib_paths *paths = path->paths;

	spin_lock_bh(&paths->lock);
	if (path->state == IPOIB_PATH_VALID && path->gen != paths->gen)
		ipoib_path_ask(path);
	else if (path->state == IPOIB_PATH_QUERY && path->gen != paths->gen)
		path->again = true;
	/* In other states it will be queried anyway. */
	WRITE_ONCE(path->gen, paths->gen);
	spin_unlock_bh(&paths->lock);
}

/*
 * The stack probes an address of the peer; query if its last probe of the same
 * one was not answered.  Answers to unicast neighbour solicitations don't tell
 * a link-layer address, so they are not seen, and a peer may have many addresses.
 */
void ipoib_path_probe(struct ipoib_path *path, u32 target)
{
	struct ipoib_paths *paths = path->paths;
	unsigned long now = jiffies;

	spin_lock_bh(&paths->lock);
	if (target != path->target && ipoib_path_probing(now, path->probed))
		goto unlock;
	if (path->state == IPOIB_PATH_VALID && target == path->target &&
	    ipoib_path_doubtful(now, path->probed, path->asked))
		ipoib_path_ask(path);
	WRITE_ONCE(path->probed, now | 1);
	path->target = target;
unlock:
	spin_unlock_bh(&paths->lock);
}

/*
 * After when is a packet from a LID reason to query?  Not soon after the SA denied it.
 *
 * A port whose LMC is not zero may send from any of its LIDs.  A path record
 * does not contain the LMC, and that two LIDs are close means nothing: the next
 * LID may be another port's.  So such a peer is treated like a forger: queries
 * are sent after one second, two, four and so on, and eventually every five
 * minutes for a single LID, or every 16 s if it switches between several.
 */
static unsigned long ipoib_path_believed(const struct ipoib_path *path,
					 u16 slid)
{
	return path->asked + ipoib_path_deny_delay(path->denials,
						   slid == path->denied);
}

/* The end of a back-off, at @retry at the latest. */
static void ipoib_path_hasten(struct ipoib_path *path, unsigned long retry)
{
	if (!time_after(path->retry, retry))
		return;
	ipoib_path_del_retry(path);
	path->retry = retry;
	ipoib_path_add_retry(path);
	ipoib_path_kick(path->paths);
}

/*
 * A peer was heard from LID @slid that has no path, or one to another LID; @lid is
 * that of this port.  What the SA refused while the peer was away is asked for again,
 * or the peer would have to wait for the end of the back-off.  An SA that does not
 * answer is left alone: see ipoib_probe.c.
 *
 * With the lock held, so the state says whether the path is still in use.
 */
void ipoib_path_heard_from(struct ipoib_path *path, u16 slid, u16 lid)
{
	unsigned long believed, soon;

	lockdep_assert_held(&path->paths->lock);
	WRITE_ONCE(path->probed, 0);
	if (!ipoib_path_ah(path))
		ipoib_path_claim(path, slid);
	else if (path->dlid == slid)
		return;
	believed = ipoib_path_believed(path, slid);
	soon = jiffies + ipoib_heard_slot(lid);
	if (path->state == IPOIB_PATH_VALID && time_after(jiffies, believed)) {
		path->heard = slid;
		ipoib_path_ask(path);
	} else if (path->state == IPOIB_PATH_BACKOFF && path->refused) {
		path->heard = slid;
		ipoib_path_hasten(path, time_after(believed, soon) ? believed :
								     soon);
	}
}

/* End all back-offs at once, in bounded steps. */
static void ipoib_path_hurry_all(struct ipoib_paths *paths)
{
	struct ipoib_path *path;
	u32 left = paths->retries;

	lockdep_assert_held(&paths->lock);
	for (; left; left--) {
		path = ipoib_path_first_retry(paths);
		if (!path)
			return;
		path->failures = 0;
		ipoib_path_expire(path);
		if (left % IPOIB_WALK)
			continue;
		spin_unlock_bh(&paths->lock);
		cond_resched();
		spin_lock_bh(&paths->lock);
	}
}

/**
 * ipoib_paths_revalidate - records may be stale: query again when they are used
 * @port: port
 *
 * Context: process.
 */
void ipoib_paths_revalidate(struct ipoib_port *port)
{
	struct ipoib_paths *paths = port->paths;

	spin_lock_bh(&paths->lock);
	WRITE_ONCE(paths->gen, paths->gen + 1);
	paths->unsent = 0;
	ipoib_path_hurry_all(paths);
	spin_unlock_bh(&paths->lock);
}

/**
 * ipoib_paths_hurry - the SA answers again: repeat queries that failed
 * @port: port
 *
 * Context: process.
 */
void ipoib_paths_hurry(struct ipoib_port *port)
{
	struct ipoib_paths *paths = port->paths;

	spin_lock_bh(&paths->lock);
	paths->unsent = 0;
	ipoib_path_hurry_all(paths);
	spin_unlock_bh(&paths->lock);
}

/* ---- a port's paths ---------------------------------------------------- */

/**
 * ipoib_paths_create - prepare a port's paths
 * @port: port
 * Return: 0 or -errno
 */
int ipoib_paths_create(struct ipoib_port *port)
{
	struct ipoib_paths *paths;
	int ret;
	u32 i;

	paths = kzalloc_obj(*paths);
	if (!paths)
		return -ENOMEM;
	refcount_set(&paths->ref, 1);
	paths->port = port;
	paths->ca = port->ca;
	paths->num = port->num;
	spin_lock_init(&paths->lock);
	mutex_init(&paths->answer_lock);
	INIT_LIST_HEAD(&paths->list);
	ipoib_source_init(&paths->known, 0);
	ipoib_source_init(&paths->left, 0);
	for (i = 0; i < IPOIB_PATH_RANKS; i++)
		INIT_LIST_HEAD(&paths->ranks[i]);
	INIT_LIST_HEAD(&paths->turns);
	INIT_LIST_HEAD(&paths->asked);
	paths->retry = RB_ROOT_CACHED;
	INIT_DELAYED_WORK(&paths->work, ipoib_path_work);
	ipoib_probe_init(paths);
	ret = rhashtable_init(&paths->table, &ipoib_path_params);
	if (ret) {
		kfree(paths);
		return ret;
	}
	port->paths = paths;
	return 0;
}

/* Free all paths that are not being queried. */
static void ipoib_path_release_all(struct ipoib_paths *paths)
{
	struct ipoib_path *path, *next;
	struct ipoib_ah *ah;

	lockdep_assert_held(&paths->lock);
	list_for_each_entry_safe(path, next, &paths->list, entry) {
		WARN_ON_ONCE(path->users);
		ah = rcu_replace_pointer(path->ah, NULL,
					 lockdep_is_held(&paths->lock));
		if (ah)
			ipoib_ah_retire(paths->port, ah);
		ipoib_path_release(path);
	}
}

/* Cancel one query; no new ones are sent.  Return: false if there is none. */
static bool ipoib_path_cancel_one(struct ipoib_paths *paths)
{
	struct ib_sa_query *query;
	struct ipoib_path *path;
	int id;

	spin_lock_bh(&paths->lock);
	path = list_first_entry_or_null(&paths->asked, struct ipoib_path,
					wait);
	if (!path) {
		spin_unlock_bh(&paths->lock);
		return false;
	}
	list_del_init(&path->wait);
	query = path->query;
	id = path->query_id;
	path->query = NULL;
	/* Its answer may free the path as soon as the lock is free. */
	spin_unlock_bh(&paths->lock);
	if (query)
		ib_sa_cancel_query(id, query);
	return true;
}

/**
 * ipoib_paths_destroy - free all paths; no interface is left
 * @port: port
 *
 * Does not wait for the SA: queries are cancelled, and the memory of the paths
 * is kept until the last of them has been reported.  An answer that comes later
 * does not touch the port.
 */
void ipoib_paths_destroy(struct ipoib_port *port)
{
	struct ipoib_paths *paths = port->paths;

	/* Wait for an answer being handled; later ones create no handle. */
	mutex_lock(&paths->answer_lock);
	spin_lock_bh(&paths->lock);
	paths->dying = true;
	spin_unlock_bh(&paths->lock);
	mutex_unlock(&paths->answer_lock);
	cancel_delayed_work_sync(&paths->work);

	spin_lock_bh(&paths->lock);
	ipoib_path_release_all(paths);
	spin_unlock_bh(&paths->lock);
	while (ipoib_path_cancel_one(paths))
		;
	/* Late answers find no handle to retire. */
	paths->port = NULL;
	port->paths = NULL;
	ipoib_paths_put(paths);
}

/* ---- counters and debugfs ---------------------------------------------- */

/**
 * ipoib_paths_get_stats - counters of a port's paths
 * @port: port
 * @stats: result
 */
void ipoib_paths_get_stats(const struct ipoib_port *port,
			   struct ipoib_path_stats *stats)
{
	*stats = port->paths->stat;
	stats->unresolved = READ_ONCE(port->paths->open);
}

static void ipoib_path_show_record(struct seq_file *m,
				   struct sa_path_rec *rec)
{
	int rate = ib_rate_to_mbps(rec->rate);

	seq_printf(m, "  DLID: %#12x\n", be32_to_cpu(sa_path_get_dlid(rec)));
	seq_printf(m, "  SL: %14d\n", rec->sl);
	seq_printf(m, "  rate: %8d.%d Gb/sec\n", rate / 1000,
		   rate % 1000 / 100);
}

/**
 * ipoib_path_show - write the paths of an interface's partition
 * @m: file
 * @dev: interface
 */
void ipoib_path_show(struct seq_file *m, const struct ipoib_dev *dev)
{
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_path *path;

	spin_lock_bh(&paths->lock);
	list_for_each_entry(path, &paths->list, entry) {
		bool known = rcu_access_pointer(path->ah);

		if (be16_to_cpu(path->key.pkey) != dev->pkey)
			continue;
		seq_printf(m, "GID: %pI6\n", path->key.dgid.raw);
		seq_printf(m, "  complete: %8s\n", known ? "yes" : "no");
		seq_printf(m, "  state: %11s\n",
			   ipoib_path_state_name(path->state));
		if (known)
			ipoib_path_show_record(m, &path->rec);
		seq_putc(m, '\n');
	}
	spin_unlock_bh(&paths->lock);
}
