// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paths, address handles and neighbours
 *
 * A neighbour is a link-layer address an interface sends to; a path is the
 * way to a GID and is shared by all interfaces of a port.  Senders find both
 * under RCU without a lock or a reference.  Everything that can wait happens
 * here, behind them: packets for a path that is not known wait in a queue
 * bounded in octets while the SA is asked once for all of them, at most
 * IPOIB_PATH_WINDOW queries at a time, with back-off when it does not answer.
 *
 * A path that has become doubtful (new SM, LID change, a peer heard from
 * another LID) is stale but stays in use until the new answer is there.
 *
 * Locks: ipoib_port.path_lock (BH) covers all fields but those RCU readers
 * use; it nests inside the netdev TX lock and nothing nests inside it.
 * SA callbacks come from process context.
 *
 * RFC 4391 section 9.1.2 and RFC 4392 section 5; IBA volume 1 section 15.2.5
 * (PathRecord).
 */
#include <linux/jhash.h>
#include <linux/rhashtable.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_trace.h"

#define IPOIB_PATH_WINDOW	64
#define IPOIB_PATH_TIMEOUT_MS	1000
#define IPOIB_PATH_WAIT_BYTES	(256 * 1024)
#define IPOIB_PATH_TRIES	4
/*
 * Refusals until a handle is given up, some ten seconds: a new SM learns of
 * alias GUIDs only when their owners have told it again.
 */
#define IPOIB_PATH_REFUSALS	7
#define IPOIB_NEIGH_GC		(30 * HZ)
#define IPOIB_NEIGH_IDLE	(120 * HZ)
#define IPOIB_AH_REAP		(HZ / 10)

static void ipoib_path_move(struct ipoib_path *path,
			    enum ipoib_path_state to, int status)
{
	lockdep_assert_held(&path->port->path_lock);
	WARN_ON_ONCE(!ipoib_path_may_move(path->state, to));
	trace_ipoib_path_state(path, path->state, to, status);
	path->state = to;
}

/* ---- address handles ---------------------------------------------------- */

/**
 * ipoib_ah_create - make an address handle for senders
 * @port: port
 * @attr: where to
 *
 * Context: process.
 * Return: handle or ERR_PTR()
 */
struct ipoib_ah *ipoib_ah_create(struct ipoib_port *port,
				 struct rdma_ah_attr *attr)
{
	unsigned int noio = memalloc_noio_save();
	struct ipoib_ah *ah;
	struct ib_ah *ib;

	ib = ERR_PTR(-ENOMEM);
	ah = kzalloc_obj(*ah);
	if (ah)
		ib = rdma_create_ah(port->pd, attr, RDMA_CREATE_AH_SLEEPABLE);
	memalloc_noio_restore(noio);
	if (IS_ERR(ib)) {
		kfree(ah);
		return ERR_CAST(ib);
	}
	ah->ib = ib;
	return ah;
}

/**
 * ipoib_ah_retire - destroy a handle once nobody uses it
 * @port: port
 * @ah: handle no reader can find any more, or NULL
 *
 * Senders hold no references; the reaper waits for an RCU grace period, and
 * then until everything that was sent before has completed.
 */
void ipoib_ah_retire(struct ipoib_port *port, struct ipoib_ah *ah)
{
	if (!ah)
		return;
	spin_lock_bh(&port->path_lock);
	list_add_tail(&ah->entry, &port->ah_dead);
	spin_unlock_bh(&port->path_lock);
	queue_delayed_work(ipoib_wq, &port->ah_reap, 0);
}

static void ipoib_ah_free_list(struct list_head *list)
{
	struct ipoib_ah *ah, *next;

	list_for_each_entry_safe(ah, next, list, entry) {
		rdma_destroy_ah(ah->ib, RDMA_DESTROY_AH_SLEEPABLE);
		kfree(ah);
	}
}

/* Have all queues completed what they had posted at the mark? */
static bool ipoib_ah_marks_passed(struct ipoib_port *port)
{
	struct ipoib_txq *txq;
	struct ipoib_dev *dev;
	u32 i;

	list_for_each_entry(dev, &port->devs, port_entry) {
		for (i = 0; i < dev->ud.num_txqs; i++) {
			txq = dev->ud.txqs[i];
			if (!ipoib_ring_passed(READ_ONCE(txq->tail),
					       txq->reap_mark))
				return false;
		}
	}
	return true;
}

static void ipoib_ah_set_marks(struct ipoib_port *port)
{
	struct ipoib_txq *txq;
	struct ipoib_dev *dev;
	u32 i;

	list_for_each_entry(dev, &port->devs, port_entry) {
		for (i = 0; i < dev->ud.num_txqs; i++) {
			txq = dev->ud.txqs[i];
			txq->reap_mark = READ_ONCE(txq->head);
		}
	}
}

static void ipoib_ah_reap(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, ah_reap.work);
	LIST_HEAD(free);
	bool more;

	mutex_lock(&port->lock);
	if (ipoib_ah_marks_passed(port))
		list_splice_init(&port->ah_waiting, &free);
	if (list_empty(&port->ah_waiting)) {
		spin_lock_bh(&port->path_lock);
		list_splice_init(&port->ah_dead, &port->ah_waiting);
		spin_unlock_bh(&port->path_lock);
		if (!list_empty(&port->ah_waiting)) {
			synchronize_rcu();
			ipoib_ah_set_marks(port);
		}
	}
	more = !list_empty(&port->ah_waiting);
	mutex_unlock(&port->lock);

	ipoib_ah_free_list(&free);
	if (more)
		queue_delayed_work(ipoib_wq, &port->ah_reap, IPOIB_AH_REAP);
}

/* ---- paths -------------------------------------------------------------- */

static const struct rhashtable_params ipoib_path_params = {
	.key_len = sizeof(struct ipoib_path_key),
	.key_offset = offsetof(struct ipoib_path, key),
	.head_offset = offsetof(struct ipoib_path, node),
	.automatic_shrinking = true,
};

static struct ipoib_ah *ipoib_path_ah(struct ipoib_path *path)
{
	return rcu_dereference_protected(path->ah,
			lockdep_is_held(&path->port->path_lock));
}

static void ipoib_path_drop_waiting(struct ipoib_path *path,
				    struct sk_buff_head *drop)
{
	path->port->path_stat.dropped += skb_queue_len(&path->waiting);
	skb_queue_splice_tail_init(&path->waiting, drop);
	path->waiting_bytes = 0;
}

/* Packets that a path can't carry; each holds a reference on its device. */
static void ipoib_path_free_skbs(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list))) {
		struct net_device *ndev = skb->dev;

		ipoib_drop(ndev, skb, SKB_DROP_REASON_NEIGH_FAILED);
		dev_put(ndev);
	}
}

/*
 * Ask the SA, now or when a place is free.  Whoever found the path under RCU has
 * to look at its state again under the lock: it may be dead.
 */
static void ipoib_path_ask(struct ipoib_path *path)
{
	lockdep_assert_held(&path->port->path_lock);
	if (WARN_ON_ONCE(path->state == IPOIB_PATH_DEAD))
		return;
	ipoib_path_move(path, IPOIB_PATH_QUEUED, 0);
	WRITE_ONCE(path->stale, false);
	path->retry = jiffies;
	list_add_tail(&path->wait, &path->port->path_queue);
	mod_delayed_work(ipoib_wq, &path->port->path_work, 0);
}

/* Nobody points here any more: forget it, unless the SA still has to answer. */
static bool ipoib_path_release(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;
	struct ipoib_ah *ah;

	lockdep_assert_held(&port->path_lock);
	if (path->users || path->state == IPOIB_PATH_QUERY)
		return false;
	ipoib_path_move(path, IPOIB_PATH_DEAD, 0);
	list_del_init(&path->wait);
	list_del(&path->entry);
	rhashtable_remove_fast(&port->path_table, &path->node,
			       ipoib_path_params);
	ah = ipoib_path_ah(path);
	RCU_INIT_POINTER(path->ah, NULL);
	if (ah) {
		list_add_tail(&ah->entry, &port->ah_dead);
		queue_delayed_work(ipoib_wq, &port->ah_reap, 0);
	}
	WARN_ON_ONCE(!skb_queue_empty(&path->waiting));
	kfree_rcu(path, rcu);
	return true;
}

static struct ipoib_path *ipoib_path_get(struct ipoib_dev *dev,
					 const union ib_gid *dgid)
{
	struct ipoib_port *port = dev->port;
	struct ipoib_path_key key = {
		.dgid = *dgid,
		.sgid = dev->local_gid,
		.pkey = cpu_to_be16(dev->pkey),
	};
	struct ipoib_path *path;

	lockdep_assert_held(&port->path_lock);
	path = rhashtable_lookup_fast(&port->path_table, &key,
				      ipoib_path_params);
	if (path) {
		path->users++;
		return path;
	}
	path = kzalloc_obj(*path, GFP_ATOMIC);
	if (!path)
		return NULL;
	path->key = key;
	path->port = port;
	path->users = 1;
	INIT_LIST_HEAD(&path->wait);
	__skb_queue_head_init(&path->waiting);
	if (rhashtable_insert_fast(&port->path_table, &path->node,
				   ipoib_path_params)) {
		kfree(path);
		return NULL;
	}
	list_add_tail(&path->entry, &port->paths);
	return path;
}

/* The SA answered: a handle for the record. */
static struct ipoib_ah *ipoib_path_make_ah(struct ipoib_port *port,
					   struct sa_path_rec *rec)
{
	struct rdma_ah_attr attr;
	struct ipoib_ah *ah;
	int ret;

	ret = ib_init_ah_attr_from_path(port->ca, port->num, rec, &attr, NULL);
	if (ret)
		return ERR_PTR(ret);
	ah = ipoib_ah_create(port, &attr);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

/* Without an answer: when to ask again, and what becomes of the packets. */
static void ipoib_path_failed(struct ipoib_path *path, int status,
			      struct ipoib_ah **old, struct sk_buff_head *drop)
{
	struct ipoib_port *port = path->port;
	unsigned long delay;

	port->path_stat.failures++;
	delay = ipoib_path_delay(path->failures);
	path->failures++;
	path->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_path_move(path, IPOIB_PATH_BACKOFF, status);
	list_add_tail(&path->wait, &port->path_queue);

	/* A new SA may refuse at first what it grants a second later. */
	if (path->failures < IPOIB_PATH_TRIES)
		return;
	ipoib_path_drop_waiting(path, drop);
	/* It says that there is no such path any more. */
	if (status == -EINVAL && path->failures >= IPOIB_PATH_REFUSALS)
		*old = rcu_replace_pointer(path->ah, NULL,
					   lockdep_is_held(&port->path_lock));
}

static void ipoib_path_answer(int status, struct sa_path_rec *rec,
			      unsigned int num_prs, void *ctx)
{
	struct ipoib_ah *ah = NULL, *old = NULL;
	struct ipoib_path *path = ctx;
	struct ipoib_port *port = path->port;
	struct sk_buff_head send, drop;
	struct sk_buff *skb;

	__skb_queue_head_init(&send);
	__skb_queue_head_init(&drop);
	mutex_lock(&port->answer_lock);
	if (!status && !port->dying) {
		ah = ipoib_path_make_ah(port, rec);
		if (IS_ERR(ah)) {
			status = PTR_ERR(ah);
			ah = NULL;
		}
	}

	spin_lock_bh(&port->path_lock);
	path->query = NULL;
	port->path_inflight--;
	if (port->dying) {
		ipoib_path_move(path, IPOIB_PATH_IDLE, status);
		ipoib_path_drop_waiting(path, &drop);
	} else if (ah) {
		path->rec = *rec;
		path->failures = 0;
		old = rcu_replace_pointer(path->ah, ah,
					  lockdep_is_held(&port->path_lock));
		ipoib_path_move(path, IPOIB_PATH_VALID, 0);
		skb_queue_splice_tail_init(&path->waiting, &send);
		path->waiting_bytes = 0;
	} else {
		ipoib_path_failed(path, status, &old, &drop);
	}
	ipoib_path_release(path);
	if (!port->dying)
		mod_delayed_work(ipoib_wq, &port->path_work, 0);
	spin_unlock_bh(&port->path_lock);

	ipoib_ah_retire(port, old);
	mutex_unlock(&port->answer_lock);
	ipoib_path_free_skbs(&drop);
	while ((skb = __skb_dequeue(&send))) {
		struct net_device *ndev = skb->dev;

		dev_queue_xmit(skb);
		dev_put(ndev);
	}
	ipoib_port_put(port);
}

/* Send the query; the answer may have come before this returns. */
static void ipoib_path_query(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;
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

	if (rdma_cap_opa_ah(port->ca, port->num))
		rec.rec_type = SA_PATH_REC_TYPE_OPA;
	refcount_inc(&port->ref);
	id = ib_sa_path_rec_get(&ipoib_sa, port->ca, port->num, &rec,
				IB_SA_PATH_REC_DGID | IB_SA_PATH_REC_SGID |
				IB_SA_PATH_REC_NUMB_PATH |
				IB_SA_PATH_REC_TRAFFIC_CLASS |
				IB_SA_PATH_REC_PKEY,
				IPOIB_PATH_TIMEOUT_MS, GFP_KERNEL,
				ipoib_path_answer, path, &query);
	if (id < 0) {
		/* Not sent (no SM known yet, no memory): as if unanswered. */
		ipoib_path_answer(-ETIMEDOUT, NULL, 0, path);
		return;
	}
	/* Not answered yet?  Then it can be cancelled. */
	spin_lock_bh(&port->path_lock);
	if (path->state == IPOIB_PATH_QUERY) {
		path->query = query;
		path->query_id = id;
	}
	spin_unlock_bh(&port->path_lock);
}

/* The next path whose time has come, or NULL and when to look again. */
static struct ipoib_path *ipoib_path_next(struct ipoib_port *port,
					  unsigned long *delay)
{
	struct ipoib_path *path, *next;
	unsigned long now = jiffies;

	*delay = MAX_SCHEDULE_TIMEOUT;
	if (port->dying || port->path_inflight >= IPOIB_PATH_WINDOW)
		return NULL;
	list_for_each_entry_safe(path, next, &port->path_queue, wait) {
		if (time_after(path->retry, now)) {
			*delay = min(*delay, path->retry - now);
			continue;
		}
		list_del_init(&path->wait);
		if (path->state == IPOIB_PATH_BACKOFF) {
			/* Asked again for who waits or uses an old record. */
			if (skb_queue_empty(&path->waiting) &&
			    !ipoib_path_ah(path)) {
				ipoib_path_move(path, IPOIB_PATH_IDLE, 0);
				continue;
			}
			ipoib_path_move(path, IPOIB_PATH_QUEUED, 0);
		}
		return path;
	}
	return NULL;
}

static void ipoib_path_query_all(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, path_work.work);
	struct ipoib_path *path;
	unsigned long delay;

	spin_lock_bh(&port->path_lock);
	while ((path = ipoib_path_next(port, &delay))) {
		ipoib_path_move(path, IPOIB_PATH_QUERY, 0);
		path->asked = jiffies;
		path->users++;	/* the answer may come before we are back */
		port->path_inflight++;
		port->path_stat.queries++;
		spin_unlock_bh(&port->path_lock);
		ipoib_path_query(path);
		spin_lock_bh(&port->path_lock);
		path->users--;
		ipoib_path_release(path);
	}
	if (delay != MAX_SCHEDULE_TIMEOUT)
		queue_delayed_work(ipoib_wq, &port->path_work, delay);
	spin_unlock_bh(&port->path_lock);
}

static void ipoib_path_work(struct work_struct *work)
{
	unsigned int noio = memalloc_noio_save();

	ipoib_path_query_all(work);
	memalloc_noio_restore(noio);
}

/* A sender came upon a stale path. */
static void ipoib_path_refresh(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;

	spin_lock_bh(&port->path_lock);
	if (path->state == IPOIB_PATH_VALID)
		ipoib_path_ask(path);
	spin_unlock_bh(&port->path_lock);
}

/* The stack asks the peer whether it is there, and had no answer before. */
static void ipoib_path_probe(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;
	unsigned long now = jiffies;

	spin_lock_bh(&port->path_lock);
	if (path->state == IPOIB_PATH_VALID &&
	    ipoib_path_doubtful(now, path->probed, path->asked))
		ipoib_path_ask(path);
	path->probed = now | 1;
	spin_unlock_bh(&port->path_lock);
}

/**
 * ipoib_path_revalidate - records may be out of date: ask again when used
 * @port: port
 */
void ipoib_path_revalidate(struct ipoib_port *port)
{
	struct ipoib_path *path;

	spin_lock_bh(&port->path_lock);
	list_for_each_entry(path, &port->paths, entry) {
		WRITE_ONCE(path->stale, true);
		if (path->state == IPOIB_PATH_BACKOFF) {
			path->failures = 0;
			path->retry = jiffies;
		}
	}
	mod_delayed_work(ipoib_wq, &port->path_work, 0);
	spin_unlock_bh(&port->path_lock);
}

/**
 * ipoib_path_port_init - prepare a port's paths
 * @port: port
 * Return: 0 or -errno
 */
int ipoib_path_port_init(struct ipoib_port *port)
{
	spin_lock_init(&port->path_lock);
	mutex_init(&port->answer_lock);
	INIT_LIST_HEAD(&port->paths);
	INIT_LIST_HEAD(&port->path_queue);
	INIT_LIST_HEAD(&port->ah_dead);
	INIT_LIST_HEAD(&port->ah_waiting);
	INIT_DELAYED_WORK(&port->path_work, ipoib_path_work);
	INIT_DELAYED_WORK(&port->ah_reap, ipoib_ah_reap);
	return rhashtable_init(&port->path_table, &ipoib_path_params);
}

/**
 * ipoib_path_port_exit - forget all paths; no interface is left
 * @port: port
 *
 * Does not wait for the SA: queries are cancelled, and the port's memory
 * lives until the last of them has been reported.
 */
void ipoib_path_port_exit(struct ipoib_port *port)
{
	struct ipoib_path *path, *next;

	/* With this lock no answer is half way; later ones make no handle. */
	mutex_lock(&port->answer_lock);
	spin_lock_bh(&port->path_lock);
	port->dying = true;
	spin_unlock_bh(&port->path_lock);
	mutex_unlock(&port->answer_lock);
	cancel_delayed_work_sync(&port->path_work);

	spin_lock_bh(&port->path_lock);
	list_for_each_entry_safe(path, next, &port->paths, entry) {
		struct ib_sa_query *query = path->query;
		struct ipoib_ah *ah = rcu_replace_pointer(path->ah, NULL,
					lockdep_is_held(&port->path_lock));
		int id = path->query_id;

		if (ah)
			list_add_tail(&ah->entry, &port->ah_dead);
		if (ipoib_path_release(path) || !query)
			continue;
		path->query = NULL;
		spin_unlock_bh(&port->path_lock);
		ib_sa_cancel_query(id, query);
		spin_lock_bh(&port->path_lock);
		/* The list may be another by now. */
		next = list_first_entry(&port->paths, struct ipoib_path, entry);
	}
	spin_unlock_bh(&port->path_lock);

	cancel_delayed_work_sync(&port->ah_reap);
	synchronize_rcu();
	ipoib_ah_free_list(&port->ah_dead);
	ipoib_ah_free_list(&port->ah_waiting);
	INIT_LIST_HEAD(&port->ah_dead);
	INIT_LIST_HEAD(&port->ah_waiting);
}

/* ---- neighbours --------------------------------------------------------- */

static u32 ipoib_neigh_hash(const void *addr, u32 len, u32 seed)
{
	return ipoib_addr_hash(addr, seed);
}

static int ipoib_neigh_cmp(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct ipoib_neigh *neigh = obj;

	return !ipoib_addr_equal(arg->key, neigh->addr);
}

static const struct rhashtable_params ipoib_neigh_params = {
	.key_len = INFINIBAND_ALEN,
	.key_offset = offsetof(struct ipoib_neigh, addr),
	.head_offset = offsetof(struct ipoib_neigh, node),
	.hashfn = ipoib_neigh_hash,
	.obj_cmpfn = ipoib_neigh_cmp,
	.automatic_shrinking = true,
};

static void ipoib_neigh_remove(struct ipoib_dev *dev,
			       struct ipoib_neigh *neigh)
{
	lockdep_assert_held(&dev->port->path_lock);
	rhashtable_remove_fast(&dev->neigh.table, &neigh->node,
			       ipoib_neigh_params);
	list_del(&neigh->entry);
	if (neigh->link)
		ipoib_link_destroy(neigh->link);
	neigh->path->users--;
	kfree_rcu(neigh, rcu);
}

static struct ipoib_neigh *ipoib_neigh_create(struct ipoib_dev *dev,
					      const u8 *addr)
{
	struct ipoib_neigh *neigh;
	union ib_gid dgid;

	lockdep_assert_held(&dev->port->path_lock);
	if (!dev->neigh.open)
		return NULL;
	neigh = kzalloc_obj(*neigh, GFP_ATOMIC);
	if (!neigh)
		return NULL;
	memcpy(neigh->addr, addr, INFINIBAND_ALEN);
	neigh->used = jiffies;
	ipoib_addr_gid(addr, &dgid);
	neigh->path = ipoib_path_get(dev, &dgid);
	if (!neigh->path)
		goto err_free;
	if (dev->connected && ipoib_addr_is_rc(addr)) {
		neigh->link = ipoib_link_create(dev, neigh);
		if (!neigh->link)
			goto err_path;
	}
	if (rhashtable_insert_fast(&dev->neigh.table, &neigh->node,
				   ipoib_neigh_params))
		goto err_link;
	if (list_empty(&dev->neigh.list))
		queue_delayed_work(ipoib_wq, &dev->neigh.gc, IPOIB_NEIGH_GC);
	list_add_tail(&neigh->entry, &dev->neigh.list);
	return neigh;

err_link:
	if (neigh->link)
		ipoib_link_destroy(neigh->link);
err_path:
	neigh->path->users--;
	ipoib_path_release(neigh->path);
err_free:
	kfree(neigh);
	return NULL;
}

/* Queue a packet until the path is known; the oldest go when it is too much. */
static void ipoib_path_wait(struct ipoib_path *path, struct sk_buff *skb,
			    struct sk_buff_head *drop)
{
	dev_hold(skb->dev);
	__skb_queue_tail(&path->waiting, skb);
	path->waiting_bytes += skb->len;
	while (path->waiting_bytes > IPOIB_PATH_WAIT_BYTES) {
		skb = __skb_dequeue(&path->waiting);
		path->waiting_bytes -= skb->len;
		path->port->path_stat.dropped++;
		__skb_queue_tail(drop, skb);
	}
	if (path->state == IPOIB_PATH_IDLE)
		ipoib_path_ask(path);
}

/* The slow way of a packet: no neighbour yet, or no path. */
static noinline netdev_tx_t ipoib_neigh_defer(struct ipoib_txq *txq,
					      struct sk_buff *skb,
					      const u8 *addr)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_port *port = dev->port;
	struct ipoib_neigh *neigh;
	struct ipoib_ah *ah = NULL;
	struct sk_buff_head drop;
	bool kept = false;

	__skb_queue_head_init(&drop);
	spin_lock_bh(&port->path_lock);
	neigh = rhashtable_lookup_fast(&dev->neigh.table, addr,
				       ipoib_neigh_params);
	if (!neigh)
		neigh = ipoib_neigh_create(dev, addr);
	if (neigh) {
		ah = ipoib_path_ah(neigh->path);
		if (!ah) {
			ipoib_path_wait(neigh->path, skb, &drop);
			kept = true;
		}
	}
	spin_unlock_bh(&port->path_lock);

	ipoib_path_free_skbs(&drop);
	if (ah) {
		/* Now neighbour and path are there. */
		if (neigh->link && ipoib_rc_xmit(txq, skb, neigh->link))
			return NETDEV_TX_OK;
		return ipoib_ud_send(txq, skb, ah, ipoib_addr_qpn(addr));
	}
	if (!kept)
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_CREATEFAIL);
	ipoib_txq_kick(txq);
	return NETDEV_TX_OK;
}

/* Does the stack doubt that the neighbour is there?  Then so should we. */
static bool ipoib_neigh_is_probe(const struct sk_buff *skb, __be16 proto)
{
	return ipoib_is_probe(proto, skb->data + IPOIB_HARD_LEN,
			      skb_headlen(skb) - IPOIB_HARD_LEN);
}

/**
 * ipoib_neigh_xmit - send a packet to a unicast link-layer address
 * @txq: queue, its TX lock held
 * @skb: packet with the address in front; consumed
 * @addr: the address
 * @proto: Ethertype
 *
 * A second unicast ARP request or neighbour solicitation in a row means that
 * the peer does not answer: its LID may have changed, and nothing else would
 * tell (the SM's events go to the peer's port, not to ours).
 *
 * Return: NETDEV_TX_OK
 */
netdev_tx_t ipoib_neigh_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
			     const u8 *addr, __be16 proto)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_neigh *neigh;
	struct ipoib_path *path;
	struct ipoib_ah *ah;

	neigh = rhashtable_lookup(&dev->neigh.table, addr, ipoib_neigh_params);
	if (unlikely(!neigh))
		return ipoib_neigh_defer(txq, skb, addr);
	path = neigh->path;
	ah = rcu_dereference(path->ah);
	if (unlikely(!ah))
		return ipoib_neigh_defer(txq, skb, addr);
	ipoib_stamp(&neigh->used);
	if (unlikely(READ_ONCE(path->stale)))
		ipoib_path_refresh(path);
	if (unlikely(proto != htons(ETH_P_IP)) &&
	    ipoib_neigh_is_probe(skb, proto))
		ipoib_path_probe(path);
	if (neigh->link && ipoib_rc_xmit(txq, skb, neigh->link))
		return NETDEV_TX_OK;
	return ipoib_ud_send(txq, skb, ah, ipoib_addr_qpn(addr));
}

/**
 * ipoib_neigh_features - what a packet may be left with on its way to a peer
 * @dev: interface in connected mode
 * @skb: packet with its link-layer address in front, to be cut into segments
 * @features: what the interface can do at best
 *
 * Context: BHs disabled.
 */
netdev_features_t ipoib_neigh_features(struct ipoib_dev *dev,
				       struct sk_buff *skb,
				       netdev_features_t features)
{
	struct ipoib_neigh *neigh;

	rcu_read_lock();
	neigh = rhashtable_lookup(&dev->neigh.table, skb->data,
				  ipoib_neigh_params);
	if (neigh && neigh->link)
		features = ipoib_link_features(neigh->link, skb, features);
	else if (neigh || !ipoib_addr_is_rc(skb->data))
		features = ipoib_datagram_features(dev, skb, features);
	rcu_read_unlock();
	return features;
}

/**
 * ipoib_neigh_record - the way to the peer of a link
 * @link: link
 * @rec: result
 * @doubt: the record has proved wrong: the SA is to be asked again
 *
 * Context: process.
 * Return: 0, or -ENOENT if the link is dead or the path not known (any more)
 */
int ipoib_neigh_record(struct ipoib_link *link, struct sa_path_rec *rec,
		       bool doubt)
{
	struct ipoib_port *port = link->dev->port;
	struct ipoib_neigh *neigh;
	int ret = -ENOENT;

	spin_lock_bh(&port->path_lock);
	neigh = link->neigh;
	if (!neigh || !ipoib_path_ah(neigh->path))
		goto unlock;
	if (doubt && neigh->path->state == IPOIB_PATH_VALID &&
	    ipoib_path_may_ask(jiffies, neigh->path->asked))
		ipoib_path_ask(neigh->path);
	*rec = neigh->path->rec;
	ret = 0;
unlock:
	spin_unlock_bh(&port->path_lock);
	return ret;
}

/**
 * ipoib_path_learn - a peer was heard from a LID
 * @dev: interface
 * @addr: its link-layer address
 * @slid: where the packet came from
 *
 * If that is not where we would send to, the SA is asked again.
 *
 * Context: NAPI.
 */
void ipoib_path_learn(struct ipoib_dev *dev, const u8 *addr, u16 slid)
{
	struct ipoib_port *port = dev->port;
	struct ipoib_neigh *neigh;
	struct ipoib_path *path;

	rcu_read_lock();
	neigh = rhashtable_lookup(&dev->neigh.table, addr, ipoib_neigh_params);
	if (!neigh)
		goto unlock;
	if (neigh->link)
		ipoib_link_heard(neigh->link);
	path = neigh->path;
	spin_lock(&port->path_lock);
	path->probed = 0;
	if (path->state == IPOIB_PATH_VALID &&
	    be32_to_cpu(sa_path_get_dlid(&path->rec)) != slid &&
	    ipoib_path_may_ask(jiffies, path->asked))
		ipoib_path_ask(path);
	spin_unlock(&port->path_lock);
unlock:
	rcu_read_unlock();
}

static void ipoib_neigh_gc(struct work_struct *work)
{
	struct ipoib_dev *dev =
		container_of(work, struct ipoib_dev, neigh.gc.work);
	struct ipoib_port *port = dev->port;
	struct ipoib_neigh *neigh, *next;
	struct ipoib_path *path;

	spin_lock_bh(&port->path_lock);
	list_for_each_entry_safe(neigh, next, &dev->neigh.list, entry) {
		if (time_before(jiffies,
				READ_ONCE(neigh->used) + IPOIB_NEIGH_IDLE))
			continue;
		path = neigh->path;
		if (path->users == 1 && !skb_queue_empty(&path->waiting))
			continue;
		ipoib_neigh_remove(dev, neigh);
		ipoib_path_release(path);
	}
	if (!list_empty(&dev->neigh.list))
		queue_delayed_work(ipoib_wq, &dev->neigh.gc, IPOIB_NEIGH_GC);
	spin_unlock_bh(&port->path_lock);
}

/* Take the packets of @dev out of a path's queue. */
static void ipoib_path_purge(struct ipoib_path *path, struct ipoib_dev *dev,
			     struct sk_buff_head *drop)
{
	struct sk_buff *skb, *next;

	skb_queue_walk_safe(&path->waiting, skb, next) {
		if (skb->dev != dev->ndev)
			continue;
		__skb_unlink(skb, &path->waiting);
		path->waiting_bytes -= skb->len;
		__skb_queue_tail(drop, skb);
	}
}

/**
 * ipoib_neigh_open - the interface comes up: neighbours may be made
 * @dev: interface
 */
void ipoib_neigh_open(struct ipoib_dev *dev)
{
	spin_lock_bh(&dev->port->path_lock);
	dev->neigh.open = true;
	spin_unlock_bh(&dev->port->path_lock);
}

/**
 * ipoib_neigh_stop - forget all neighbours and the packets that wait for them
 * @dev: interface that goes down, or whose address changed
 */
void ipoib_neigh_stop(struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	struct ipoib_neigh *neigh, *next;
	struct sk_buff_head drop;
	struct ipoib_path *path;

	__skb_queue_head_init(&drop);
	spin_lock_bh(&port->path_lock);
	dev->neigh.open = false;
	list_for_each_entry_safe(neigh, next, &dev->neigh.list, entry) {
		path = neigh->path;
		ipoib_path_purge(path, dev, &drop);
		ipoib_neigh_remove(dev, neigh);
		ipoib_path_release(path);
	}
	spin_unlock_bh(&port->path_lock);
	cancel_delayed_work_sync(&dev->neigh.gc);
	ipoib_path_free_skbs(&drop);
}

int ipoib_neigh_init(struct ipoib_dev *dev)
{
	INIT_LIST_HEAD(&dev->neigh.list);
	INIT_DELAYED_WORK(&dev->neigh.gc, ipoib_neigh_gc);
	return rhashtable_init(&dev->neigh.table, &ipoib_neigh_params);
}

void ipoib_neigh_exit(struct ipoib_dev *dev)
{
	rhashtable_destroy(&dev->neigh.table);
}
