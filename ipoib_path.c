// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paths, address handles and neighbours
 *
 * A neighbour is a link-layer address an interface sends to; a path is the
 * way to a GID and is shared by all interfaces of a port.  Senders find both
 * under RCU without a lock or a reference.  Everything that can wait happens
 * here, behind them: packets for a path that is not known wait in a queue
 * bounded in bytes while the SA is asked once for all of them, at most
 * IPOIB_PATH_WINDOW queries at a time, with back-off when it does not answer.
 *
 * A path that has become doubtful (new SM, LID change, a peer heard from
 * another LID) stays in use until the new answer is there.
 *
 * Any member of the partition can send ARP with addresses that do not exist,
 * and the stack answers each of them.  So everything here has a limit, and
 * paths that the SA does not know take turns by the LID that told the address.
 *
 * Locks: ipoib_port.path_lock (BH) covers all fields but those RCU readers
 * use; it nests inside the netdev TX lock and nothing nests inside it.
 * SA callbacks come from process context.
 *
 * RFC 4391 section 9.1.2 and RFC 4392 section 5; IBA volume 1 section 15.2.5
 * (PathRecord).
 */
#include <linux/moduleparam.h>
#include <linux/rhashtable.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_trace.h"

#define IPOIB_PATH_WINDOW	64
#define IPOIB_PATH_TIMEOUT_MS	1000
#define IPOIB_PATH_TRIES	4
/*
 * Memory of packets that wait: for a path, for all of a told source, for all
 * others of the port.  Where that is too much, an interface has its share of it.
 */
#define IPOIB_PATH_WAIT_BYTES	(512 * 1024)
#define IPOIB_TOLD_WAIT_BYTES	(1024 * 1024)
#define IPOIB_OWN_WAIT_BYTES	(256 * 1024 * 1024)
/*
 * Paths without a handle: of a port, and of a told source.  The HCAs of a LID
 * have a GID for each of their virtual functions.
 */
#define IPOIB_PATH_OPEN		16384
#define IPOIB_TOLD_PATHS	256
#define IPOIB_TOLD_QUERIES	16	/* of the window, for a told source */
/* Neighbours of a path: a GID has one for each of its interfaces. */
#define IPOIB_PATH_NEIGHS	256
#define IPOIB_NEIGH_LOOK	16	/* candidates to be evicted */
#define IPOIB_WALK		256	/* steps under the lock */
/*
 * Refusals until a handle is given up, some ten seconds: a new SM learns of
 * alias GUIDs only when their owners have told it again.
 */
#define IPOIB_PATH_REFUSALS	7
#define IPOIB_NEIGH_GC		(30 * HZ)
#define IPOIB_NEIGH_IDLE	(120 * HZ)
#define IPOIB_AH_REAP		(HZ / 10)

static unsigned int ipoib_max_neighbours = 32768;
module_param_named(max_neighbours, ipoib_max_neighbours, uint, 0644);
MODULE_PARM_DESC(max_neighbours, "Link-layer addresses that an interface remembers (64 at least)");

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

/* ---- sources: who takes turns ------------------------------------------- */

static void ipoib_source_init(struct ipoib_path_source *source, u16 lid)
{
	source->lid = lid;
	source->share = lid ? IPOIB_TOLD_QUERIES : IPOIB_PATH_WINDOW;
	INIT_LIST_HEAD(&source->rank);
	INIT_LIST_HEAD(&source->paths);
	INIT_LIST_HEAD(&source->ready);
	INIT_LIST_HEAD(&source->turn);
}

static struct hlist_head *ipoib_source_bucket(struct ipoib_port *port, u16 lid)
{
	return &port->path_sources[lid % IPOIB_PATH_SOURCES];
}

static struct ipoib_path_source *ipoib_source_find(struct ipoib_port *port,
						   u16 lid)
{
	struct ipoib_path_source *source;

	lockdep_assert_held(&port->path_lock);
	hlist_for_each_entry(source, ipoib_source_bucket(port, lid), node)
		if (source->lid == lid)
			return source;
	return NULL;
}

/* It goes when its last path leaves; NULL if there is no memory. */
static struct ipoib_path_source *ipoib_source_get(struct ipoib_port *port,
						  u16 lid)
{
	struct ipoib_path_source *source = ipoib_source_find(port, lid);

	if (source)
		return source;
	source = kzalloc_obj(*source, GFP_ATOMIC);
	if (!source)
		return NULL;
	ipoib_source_init(source, lid);
	hlist_add_head(&source->node, ipoib_source_bucket(port, lid));
	return source;
}

static void ipoib_source_free(struct ipoib_path_source *source)
{
	WARN_ON_ONCE(source->inflight);
	hlist_del(&source->node);
	list_del(&source->turn);
	kfree(source);
}

/* Whose paths have a handle? */
static bool ipoib_source_is_known(const struct ipoib_port *port,
				  const struct ipoib_path_source *source)
{
	return source == &port->path_known;
}

/* The number of its paths has changed. */
static void ipoib_source_rank(struct ipoib_port *port,
			      struct ipoib_path_source *source)
{
	u32 rank;

	list_del_init(&source->rank);
	if (!source->num || source == &port->path_left)
		return;
	rank = min_t(u32, ilog2(source->num), IPOIB_PATH_RANKS - 1);
	list_add_tail(&source->rank, &port->path_ranks[rank]);
}

static void ipoib_path_kick(struct ipoib_port *port);

/* It may ask: give it a turn behind the others. */
static void ipoib_source_queue(struct ipoib_port *port,
			       struct ipoib_path_source *source)
{
	lockdep_assert_held(&port->path_lock);
	if (!list_empty(&source->turn) || list_empty(&source->ready) ||
	    source->inflight >= source->share)
		return;
	list_add_tail(&source->turn, &port->path_turns);
}

/* Has ib_sa no address of the SM?  Then it is left alone for a moment. */
static bool ipoib_path_paused(const struct ipoib_port *port)
{
	unsigned long end = port->path_pause;

	return port->path_unsent && time_in_range_open(jiffies, end - HZ, end);
}

static void ipoib_path_queue(struct ipoib_path *path)
{
	list_add_tail(&path->wait, &path->source->ready);
	ipoib_source_queue(path->port, path->source);
	if (!list_empty(&path->source->turn) &&
	    path->port->path_inflight < IPOIB_PATH_WINDOW)
		ipoib_path_kick(path->port);
}

static void ipoib_path_dequeue(struct ipoib_path *path)
{
	list_del_init(&path->wait);
	if (list_empty(&path->source->ready))
		list_del_init(&path->source->turn);
}

/* Memory of packets that wait has come or gone. */
static void ipoib_source_count_waiting(struct ipoib_port *port,
				       struct ipoib_path_source *source,
				       int bytes)
{
	source->bytes += bytes;
	if (!source->lid)
		port->path_bytes += bytes;
}

static void ipoib_path_join(struct ipoib_path *path,
			    struct ipoib_path_source *source)
{
	struct ipoib_port *port = path->port;

	lockdep_assert_held(&port->path_lock);
	path->source = source;
	source->num++;
	ipoib_source_count_waiting(port, source, path->waiting_bytes);
	list_add_tail(&path->member, &source->paths);
	if (ipoib_source_is_known(port, source))
		return;
	if (is_power_of_2(source->num))
		ipoib_source_rank(port, source);
	port->path_open++;
}

/* It is not queued. */
static void ipoib_path_leave(struct ipoib_path *path)
{
	struct ipoib_path_source *source = path->source;
	struct ipoib_port *port = path->port;

	lockdep_assert_held(&port->path_lock);
	WARN_ON_ONCE(path->state != IPOIB_PATH_QUERY &&
		     !list_empty(&path->wait));
	path->source = NULL;
	ipoib_source_count_waiting(port, source, -path->waiting_bytes);
	list_del(&path->member);
	source->num--;
	if (!ipoib_source_is_known(port, source)) {
		if (is_power_of_2(source->num + 1))
			ipoib_source_rank(port, source);
		port->path_open--;
	}
	if (!source->num && source->lid)
		ipoib_source_free(source);
}

static void ipoib_path_set_source(struct ipoib_path *path,
				  struct ipoib_path_source *source)
{
	bool queued = path->state == IPOIB_PATH_QUEUED;
	bool asked = path->state == IPOIB_PATH_QUERY;

	if (path->source == source)
		return;
	if (queued)
		ipoib_path_dequeue(path);
	if (asked) {
		path->source->inflight--;
		source->inflight++;
		ipoib_source_queue(path->port, path->source);
	}
	ipoib_path_leave(path);
	ipoib_path_join(path, source);
	if (queued)
		ipoib_path_queue(path);
}

/* Whose is a path without a handle that no LID told? */
static struct ipoib_path_source *ipoib_path_owner(struct ipoib_path *path)
{
	struct ipoib_neigh *neigh;

	neigh = list_first_entry_or_null(&path->neighs, struct ipoib_neigh,
					 path_entry);
	return neigh ? &neigh->dev->neigh.source : &path->port->path_left;
}

/* ---- which LID told an address ------------------------------------------ */

/*
 * The stack answers a packet of ARP or neighbour discovery soon after it came.
 * Until then a place in a table remembers its LID.  A place holds the upper
 * half of the address's hash and the LID; one that was taken by another address
 * is as good as none.
 */
static u32 *ipoib_path_place(struct ipoib_port *port, u32 hash)
{
	return &port->path_heard[hash % IPOIB_PATH_HEARD];
}

static void ipoib_path_hear(struct ipoib_port *port, const u8 *addr, u16 lid)
{
	u32 hash = ipoib_addr_hash(addr, 0);

	WRITE_ONCE(*ipoib_path_place(port, hash), (hash & ~0xffffU) | lid);
}

static u16 ipoib_path_told(struct ipoib_port *port, const u8 *addr)
{
	u32 hash = ipoib_addr_hash(addr, 0);
	u32 told = READ_ONCE(*ipoib_path_place(port, hash));

	return (told ^ hash) >> 16 ? 0 : told & 0xffff;
}

/* ---- retries ------------------------------------------------------------ */

static bool ipoib_path_before(struct rb_node *a, const struct rb_node *b)
{
	return time_before(rb_entry(a, struct ipoib_path, node_retry)->retry,
			   rb_entry(b, struct ipoib_path, node_retry)->retry);
}

static void ipoib_path_add_retry(struct ipoib_path *path)
{
	rb_add_cached(&path->node_retry, &path->port->path_retry,
		      ipoib_path_before);
	path->port->path_retries++;
}

static void ipoib_path_del_retry(struct ipoib_path *path)
{
	rb_erase_cached(&path->node_retry, &path->port->path_retry);
	path->port->path_retries--;
}

static struct ipoib_path *ipoib_path_first_retry(struct ipoib_port *port)
{
	return rb_entry_safe(rb_first_cached(&port->path_retry),
			     struct ipoib_path, node_retry);
}

/* Have the work look when there is something to do. */
static void ipoib_path_kick(struct ipoib_port *port)
{
	struct ipoib_path *first = ipoib_path_first_retry(port);
	bool turn = !list_empty(&port->path_turns) &&
		    port->path_inflight < IPOIB_PATH_WINDOW;
	unsigned long now = jiffies, at = now;

	lockdep_assert_held(&port->path_lock);
	if (port->dying || (!turn && !first))
		return;
	if (turn && ipoib_path_paused(port))
		at = port->path_pause;
	if (first && (!turn || time_before(first->retry, at)))
		at = first->retry;
	mod_delayed_work(ipoib_wq, &port->path_work,
			 time_after(at, now) ? at - now : 0);
}

/* ---- life of a path ----------------------------------------------------- */

static void ipoib_path_count_waiting(struct ipoib_path *path, int bytes)
{
	path->waiting_bytes += bytes;
	ipoib_source_count_waiting(path->port, path->source, bytes);
}

static void ipoib_path_drop_waiting(struct ipoib_path *path,
				    struct sk_buff_head *drop)
{
	path->port->path_stat.dropped += skb_queue_len(&path->waiting);
	skb_queue_splice_tail_init(&path->waiting, drop);
	ipoib_path_count_waiting(path, -path->waiting_bytes);
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

/* May the SA be asked, now or when it is the path's turn? */
static bool ipoib_path_can_ask(const struct ipoib_path *path)
{
	return path->users && (path->state == IPOIB_PATH_IDLE ||
			       path->state == IPOIB_PATH_VALID);
}

/*
 * Ask the SA when it is the path's turn.  Whoever found the path under RCU has
 * to look at its state again under the lock: it may be dead.
 */
static void ipoib_path_ask(struct ipoib_path *path)
{
	lockdep_assert_held(&path->port->path_lock);
	if (WARN_ON_ONCE(!ipoib_path_can_ask(path)))
		return;
	ipoib_path_move(path, IPOIB_PATH_QUEUED, 0);
	WRITE_ONCE(path->gen, path->port->path_gen);
	ipoib_path_queue(path);
}

/* Off the lists that go with its state. */
static void ipoib_path_unlink(struct ipoib_path *path)
{
	if (path->state == IPOIB_PATH_QUEUED)
		ipoib_path_dequeue(path);
	else if (path->state == IPOIB_PATH_BACKOFF)
		ipoib_path_del_retry(path);
}

/* Nobody points here any more: forget it, unless the SA still has to answer. */
static void ipoib_path_release(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;
	struct ipoib_ah *ah;

	lockdep_assert_held(&port->path_lock);
	if (path->users || path->state == IPOIB_PATH_QUERY)
		return;
	ipoib_path_unlink(path);
	ipoib_path_move(path, IPOIB_PATH_DEAD, 0);
	WARN_ON_ONCE(!skb_queue_empty(&path->waiting));
	WARN_ON_ONCE(!list_empty(&path->neighs));
	ipoib_path_leave(path);
	list_del(&path->entry);
	rhashtable_remove_fast(&port->path_table, &path->node,
			       ipoib_path_params);
	ah = ipoib_path_ah(path);
	RCU_INIT_POINTER(path->ah, NULL);
	if (ah) {
		list_add_tail(&ah->entry, &port->ah_dead);
		queue_delayed_work(ipoib_wq, &port->ah_reap, 0);
	}
	kfree_rcu(path, rcu);
}

static void ipoib_neigh_evict(struct ipoib_neigh *neigh,
			      struct sk_buff_head *drop);

/* Forget a path, with all that points to it. */
static void ipoib_path_evict(struct ipoib_path *path, struct sk_buff_head *drop)
{
	struct ipoib_neigh *neigh, *next;

	lockdep_assert_held(&path->port->path_lock);
	path->port->path_stat.evicted++;
	path->users++;
	list_for_each_entry_safe(neigh, next, &path->neighs, path_entry)
		ipoib_neigh_evict(neigh, drop);
	path->users--;
	ipoib_path_release(path);
}

/* Has it neighbours to be evicted with?  So not one that is being asked for. */
static bool ipoib_path_can_evict(const struct ipoib_path *path)
{
	return path->state != IPOIB_PATH_QUERY && !list_empty(&path->neighs);
}

/* Those that are asked for are at the end, and few. */
static struct ipoib_path *ipoib_source_victim(struct ipoib_path_source *source)
{
	struct ipoib_path *path;

	list_for_each_entry(path, &source->paths, member)
		if (ipoib_path_can_evict(path))
			return path;
	return NULL;
}

/*
 * Who has most has to make room for all; of those that have about as much, the
 * one that asks.
 */
static void ipoib_port_evict(struct ipoib_port *port,
			     struct ipoib_path_source *asks,
			     struct sk_buff_head *drop)
{
	struct ipoib_path_source *most = NULL;
	u32 rank = IPOIB_PATH_RANKS;
	struct ipoib_path *path;

	while (!most && rank--)
		most = list_first_entry_or_null(&port->path_ranks[rank],
						struct ipoib_path_source,
						rank);
	if (!most)
		return;
	list_move_tail(&most->rank, &port->path_ranks[rank]);
	if (asks && asks->num >> rank)
		most = asks;
	path = ipoib_source_victim(most);
	if (path)
		ipoib_path_evict(path, drop);
}

/*
 * A LID that forges addresses has its own paths evicted all the time.  One that
 * local senders asked for before it told the address goes back to them.
 */
static void ipoib_told_evict(struct ipoib_path_source *source,
			     struct sk_buff_head *drop)
{
	struct ipoib_path *path = ipoib_source_victim(source);

	if (path && path->local)
		ipoib_path_set_source(path, ipoib_path_owner(path));
	else if (path)
		ipoib_path_evict(path, drop);
}

/* A place for one more path without a handle; its source may be gone then. */
static void ipoib_path_make_room(struct ipoib_dev *dev, u16 lid,
				 struct sk_buff_head *drop)
{
	struct ipoib_path_source *source = &dev->neigh.source;
	struct ipoib_port *port = dev->port;

	if (lid)
		source = ipoib_source_find(port, lid);
	if (lid && source && source->num >= IPOIB_TOLD_PATHS)
		ipoib_told_evict(source, drop);
	if (port->path_open >= IPOIB_PATH_OPEN)
		ipoib_port_evict(port, source, drop);
}

static struct ipoib_path *ipoib_path_create(struct ipoib_dev *dev,
					    const struct ipoib_path_key *key,
					    u16 lid)
{
	struct ipoib_path_source *source = NULL;
	struct ipoib_port *port = dev->port;
	struct ipoib_path *path;

	path = kzalloc_obj(*path, GFP_ATOMIC);
	if (!path)
		return NULL;
	path->key = *key;
	path->port = port;
	path->gen = port->path_gen;
	path->local = !lid;
	INIT_LIST_HEAD(&path->neighs);
	INIT_LIST_HEAD(&path->wait);
	__skb_queue_head_init(&path->waiting);
	if (rhashtable_insert_fast(&port->path_table, &path->node,
				   ipoib_path_params)) {
		kfree(path);
		return NULL;
	}
	list_add_tail(&path->entry, &port->paths);
	if (lid)
		source = ipoib_source_get(port, lid);
	ipoib_path_join(path, source ?: &dev->neigh.source);
	return path;
}

/*
 * Without a handle: one that a LID told becomes that of the interface whose
 * senders ask for it, too, and of two interfaces it is the one's that has fewer.
 */
static void ipoib_path_take(struct ipoib_dev *dev, struct ipoib_path *path,
			    const u8 *addr)
{
	struct ipoib_path_source *source = path->source;

	if (ipoib_source_is_known(dev->port, source))
		return;
	if (source->lid && ipoib_path_told(dev->port, addr))
		return;
	path->local = true;
	if (source->lid || source == &dev->port->path_left ||
	    dev->neigh.source.num < source->num)
		ipoib_path_set_source(path, &dev->neigh.source);
}

/* The path to an address; the caller becomes a user of it. */
static struct ipoib_path *ipoib_path_get(struct ipoib_dev *dev, const u8 *addr,
					 struct sk_buff_head *drop)
{
	struct ipoib_port *port = dev->port;
	struct ipoib_path_key key = {
		.sgid = dev->local_gid,
		.pkey = cpu_to_be16(dev->pkey),
		.tclass = READ_ONCE(dev->tclass),
	};
	struct ipoib_path *path;
	u16 lid;

	lockdep_assert_held(&port->path_lock);
	ipoib_addr_gid(addr, &key.dgid);
	path = rhashtable_lookup_fast(&port->path_table, &key,
				      ipoib_path_params);
	if (path) {
		ipoib_path_take(dev, path, addr);
	} else {
		lid = ipoib_path_told(port, addr);
		ipoib_path_make_room(dev, lid, drop);
		path = ipoib_path_create(dev, &key, lid);
	}
	if (path)
		path->users++;
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
	ipoib_path_add_retry(path);

	/* A new SA may refuse at first what it grants a second later. */
	if (path->failures < IPOIB_PATH_TRIES)
		return;
	ipoib_path_drop_waiting(path, drop);
	/* It says that there is no such path any more. */
	if (status != -EINVAL || path->failures < IPOIB_PATH_REFUSALS)
		return;
	*old = rcu_replace_pointer(path->ah, NULL,
				   lockdep_is_held(&port->path_lock));
	if (*old)
		ipoib_path_set_source(path, ipoib_path_owner(path));
}

/* What the answer says of the LID that the peer was heard from. */
static void ipoib_path_judge(struct ipoib_path *path, u32 dlid)
{
	if (dlid != path->dlid) {
		path->denials = 0;
		path->denied = 0;
	}
	if (path->heard && path->heard != dlid) {
		path->denied = path->heard;
		path->denials++;
	}
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
				   lockdep_is_held(&path->port->path_lock));
	ipoib_path_move(path, IPOIB_PATH_VALID, 0);
	skb_queue_splice_tail_init(&path->waiting, send);
	ipoib_path_count_waiting(path, -path->waiting_bytes);
	ipoib_path_set_source(path, &path->port->path_known);
	if (path->again && ipoib_path_can_ask(path))
		ipoib_path_ask(path);
}

/*
 * The query is over; the source may have another.  Whoever told addresses that
 * the SA does not know is soon down to one at a time, so that the SA has time
 * for others.
 */
static void ipoib_path_answered(struct ipoib_path *path, bool good)
{
	struct ipoib_path_source *source = path->source;
	struct ipoib_port *port = path->port;

	lockdep_assert_held(&port->path_lock);
	path->query = NULL;
	list_del_init(&path->wait);
	port->path_inflight--;
	source->inflight--;
	if (source->lid)
		source->share = good ? min(source->share + 1,
					   (u32)IPOIB_TOLD_QUERIES) :
				       max(source->share / 2, 1U);
	ipoib_source_queue(port, source);
}

/*
 * After an event ib_sa has no address of the SM until a work item has made one.
 * A query that was not sent for that is none, and its path keeps its turn.
 * That does not last for ever: there may be no SM.
 */
static bool ipoib_path_put_off(struct ipoib_path *path)
{
	struct ipoib_path_source *source;
	struct ipoib_port *port = path->port;
	bool again;

	spin_lock_bh(&port->path_lock);
	source = path->source;
	again = !port->dying && port->path_unsent < IPOIB_UNSENT_MAX;
	if (again) {
		port->path_pause = jiffies +
				   ipoib_unsent_delay(port->path_unsent++);
		port->path_inflight--;
		source->inflight--;
		ipoib_path_move(path, IPOIB_PATH_QUEUED, -EAGAIN);
		list_move(&path->wait, &source->ready);
		list_move(&source->turn, &port->path_turns);
	}
	spin_unlock_bh(&port->path_lock);
	return again;
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
	ipoib_path_answered(path, ah);
	if (port->dying) {
		ipoib_path_move(path, IPOIB_PATH_IDLE, status);
		ipoib_path_drop_waiting(path, &drop);
	} else if (ah) {
		ipoib_path_succeeded(path, rec, ah, &old, &send);
	} else {
		ipoib_path_failed(path, status, &old, &drop);
	}
	ipoib_path_release(path);
	ipoib_path_kick(port);
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
	if (id == -EAGAIN && ipoib_path_put_off(path)) {
		ipoib_port_put(port);
		return;
	}
	if (id < 0) {
		/* Not sent (no SM, no memory): as if unanswered. */
		ipoib_path_answer(-ETIMEDOUT, NULL, 0, path);
		return;
	}
	spin_lock_bh(&port->path_lock);
	port->path_unsent = 0;
	port->path_stat.queries++;
	/* Not answered yet?  Then it can be cancelled. */
	if (path->state == IPOIB_PATH_QUERY) {
		path->query = query;
		path->query_id = id;
	}
	spin_unlock_bh(&port->path_lock);
}

/* Its time has come: ask again for who waits or uses an old record. */
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

/* Some at a time; the work is back at once if there are more. */
static void ipoib_path_expire_some(struct ipoib_port *port)
{
	unsigned long now = jiffies;
	struct ipoib_path *path;
	u32 n;

	for (n = 0; n < IPOIB_WALK; n++) {
		path = ipoib_path_first_retry(port);
		if (!path || time_after(path->retry, now))
			return;
		ipoib_path_expire(path);
	}
}

/* The path whose turn it is, now in QUERY, or NULL. */
static struct ipoib_path *ipoib_path_next(struct ipoib_port *port)
{
	struct ipoib_path_source *source;
	struct ipoib_path *path;

	lockdep_assert_held(&port->path_lock);
	if (port->dying || port->path_inflight >= IPOIB_PATH_WINDOW ||
	    list_empty(&port->path_turns) || ipoib_path_paused(port))
		return NULL;
	source = list_first_entry(&port->path_turns, struct ipoib_path_source,
				  turn);
	path = list_first_entry(&source->ready, struct ipoib_path, wait);
	list_del_init(&source->turn);
	list_move_tail(&path->wait, &port->path_asked);
	list_move_tail(&path->member, &source->paths);
	ipoib_path_move(path, IPOIB_PATH_QUERY, 0);
	WRITE_ONCE(path->gen, port->path_gen);
	path->again = false;
	path->asked = jiffies;
	source->inflight++;
	port->path_inflight++;
	ipoib_source_queue(port, source);
	return path;
}

static void ipoib_path_query_all(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, path_work.work);
	struct ipoib_path *path;

	spin_lock_bh(&port->path_lock);
	ipoib_path_expire_some(port);
	while ((path = ipoib_path_next(port))) {
		path->users++;	/* the answer may come before we are back */
		spin_unlock_bh(&port->path_lock);
		ipoib_path_query(path);
		spin_lock_bh(&port->path_lock);
		path->users--;
		ipoib_path_release(path);
	}
	ipoib_path_kick(port);
	spin_unlock_bh(&port->path_lock);
}

static void ipoib_path_work(struct work_struct *work)
{
	unsigned int noio = memalloc_noio_save();

	ipoib_path_query_all(work);
	memalloc_noio_restore(noio);
}

/* A sender came upon a record of before the last event: once for each event. */
static void ipoib_path_refresh(struct ipoib_path *path)
{
	struct ipoib_port *port = path->port;

	spin_lock_bh(&port->path_lock);
	if (path->state == IPOIB_PATH_VALID && path->gen != port->path_gen)
		ipoib_path_ask(path);
	else if (path->state == IPOIB_PATH_QUERY && path->gen != port->path_gen)
		path->again = true;
	/* In other states it is going to be asked for. */
	WRITE_ONCE(path->gen, port->path_gen);
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
	WRITE_ONCE(path->probed, now | 1);
	spin_unlock_bh(&port->path_lock);
}

/* Those that wait for their time are asked for at once; bounded steps. */
static void ipoib_path_hurry(struct ipoib_port *port)
{
	struct ipoib_path *path;
	u32 left = port->path_retries;

	lockdep_assert_held(&port->path_lock);
	for (; left; left--) {
		path = ipoib_path_first_retry(port);
		if (!path)
			return;
		path->failures = 0;
		ipoib_path_expire(path);
		if (left % IPOIB_WALK)
			continue;
		spin_unlock_bh(&port->path_lock);
		cond_resched();
		spin_lock_bh(&port->path_lock);
	}
}

/**
 * ipoib_path_revalidate - records may be out of date: ask again when used
 * @port: port
 *
 * Context: process.
 */
void ipoib_path_revalidate(struct ipoib_port *port)
{
	spin_lock_bh(&port->path_lock);
	WRITE_ONCE(port->path_gen, port->path_gen + 1);
	port->path_unsent = 0;
	ipoib_path_hurry(port);
	spin_unlock_bh(&port->path_lock);
}

/**
 * ipoib_path_port_init - prepare a port's paths
 * @port: port
 * Return: 0 or -errno
 */
int ipoib_path_port_init(struct ipoib_port *port)
{
	u32 i;

	spin_lock_init(&port->path_lock);
	mutex_init(&port->answer_lock);
	INIT_LIST_HEAD(&port->paths);
	ipoib_source_init(&port->path_known, 0);
	ipoib_source_init(&port->path_left, 0);
	for (i = 0; i < IPOIB_PATH_RANKS; i++)
		INIT_LIST_HEAD(&port->path_ranks[i]);
	INIT_LIST_HEAD(&port->path_turns);
	INIT_LIST_HEAD(&port->path_asked);
	port->path_retry = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&port->ah_dead);
	INIT_LIST_HEAD(&port->ah_waiting);
	INIT_DELAYED_WORK(&port->path_work, ipoib_path_work);
	INIT_DELAYED_WORK(&port->ah_reap, ipoib_ah_reap);
	return rhashtable_init(&port->path_table, &ipoib_path_params);
}

/* All that the SA is not asked about. */
static void ipoib_path_release_all(struct ipoib_port *port)
{
	struct ipoib_path *path, *next;
	struct ipoib_ah *ah;

	lockdep_assert_held(&port->path_lock);
	list_for_each_entry_safe(path, next, &port->paths, entry) {
		WARN_ON_ONCE(path->users);
		ah = rcu_replace_pointer(path->ah, NULL,
					 lockdep_is_held(&port->path_lock));
		if (ah)
			list_add_tail(&ah->entry, &port->ah_dead);
		ipoib_path_release(path);
	}
}

/* Take a path off the list of those asked for; nothing adds any. */
static bool ipoib_path_cancel_one(struct ipoib_port *port)
{
	struct ib_sa_query *query;
	struct ipoib_path *path;
	int id;

	spin_lock_bh(&port->path_lock);
	path = list_first_entry_or_null(&port->path_asked, struct ipoib_path,
					wait);
	if (!path) {
		spin_unlock_bh(&port->path_lock);
		return false;
	}
	list_del_init(&path->wait);
	query = path->query;
	id = path->query_id;
	path->query = NULL;
	/* Its answer may free the path as soon as the lock is free. */
	spin_unlock_bh(&port->path_lock);
	if (query)
		ib_sa_cancel_query(id, query);
	return true;
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
	/* With this lock no answer is half way; later ones make no handle. */
	mutex_lock(&port->answer_lock);
	spin_lock_bh(&port->path_lock);
	port->dying = true;
	spin_unlock_bh(&port->path_lock);
	mutex_unlock(&port->answer_lock);
	cancel_delayed_work_sync(&port->path_work);

	spin_lock_bh(&port->path_lock);
	ipoib_path_release_all(port);
	spin_unlock_bh(&port->path_lock);
	while (ipoib_path_cancel_one(port))
		;

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

static void ipoib_neigh_remove(struct ipoib_neigh *neigh)
{
	struct ipoib_dev *dev = neigh->dev;

	lockdep_assert_held(&dev->port->path_lock);
	rhashtable_remove_fast(&dev->neigh.table, &neigh->node,
			       ipoib_neigh_params);
	/*
	 * Pairs with ipoib_neigh_find(): who reads this finds it no more in the
	 * table, and the grace period waits for those who read the old one.
	 */
	smp_store_release(&dev->neigh.removals, dev->neigh.removals + 1);
	list_del(&neigh->entry);
	list_del(&neigh->path_entry);
	dev->neigh.num--;
	if (neigh->link)
		ipoib_link_destroy(neigh->link);
	neigh->path->users--;
	kfree_rcu(neigh, rcu);
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
		ipoib_path_count_waiting(path, -skb->truesize);
		__skb_queue_tail(drop, skb);
	}
}

/* Forget it to make room, and the packets that nobody is left to wait for. */
static void ipoib_neigh_evict(struct ipoib_neigh *neigh,
			      struct sk_buff_head *drop)
{
	struct ipoib_path *path = neigh->path;

	neigh->dev->neigh.evicted++;
	if (list_is_singular(&path->neighs))
		ipoib_path_drop_waiting(path, drop);
	else
		ipoib_path_purge(path, neigh->dev, drop);
	ipoib_neigh_remove(neigh);
	ipoib_path_release(path);
}

/* Has it a connection?  Then ipoib_cm.c knows when it is not needed. */
static bool ipoib_neigh_connected(const struct ipoib_neigh *neigh)
{
	return neigh->link && ipoib_link_is_up(neigh->link);
}

/* Of those that come next, the one that was not used for longest. */
static struct ipoib_neigh *ipoib_neigh_victim(struct ipoib_dev *dev)
{
	struct ipoib_neigh *neigh, *found = NULL;
	u32 n;

	for (n = 0; n < IPOIB_NEIGH_LOOK; n++) {
		neigh = list_first_entry(&dev->neigh.list, struct ipoib_neigh,
					 entry);
		list_move_tail(&neigh->entry, &dev->neigh.list);
		if (ipoib_neigh_connected(neigh))
			continue;
		if (!found || time_before(READ_ONCE(neigh->used),
					  READ_ONCE(found->used)))
			found = neigh;
	}
	return found;
}

/* Room for a neighbour among those of the interface. */
static bool ipoib_neigh_make_room(struct ipoib_dev *dev,
				  struct sk_buff_head *drop)
{
	u32 most = max(READ_ONCE(ipoib_max_neighbours), 64U);
	struct ipoib_neigh *victim;

	if (dev->neigh.num < most)
		return true;
	victim = ipoib_neigh_victim(dev);
	if (!victim)
		return false;
	ipoib_neigh_evict(victim, drop);
	return true;
}

/* And among those of a path that has its full number: the oldest goes. */
static bool ipoib_path_make_place(struct ipoib_path *path,
				  struct sk_buff_head *drop)
{
	/* All interfaces of the port that talk to that GID have it. */
	u32 users = max(READ_ONCE(path->port->users), 1U);
	u32 most = IPOIB_PATH_NEIGHS * users;
	struct ipoib_neigh *neigh;
	u32 n;

	for (n = 0; n < IPOIB_NEIGH_LOOK; n++) {
		if (path->users <= most)
			return true;
		neigh = list_first_entry(&path->neighs, struct ipoib_neigh,
					 path_entry);
		list_move_tail(&neigh->path_entry, &path->neighs);
		if (!ipoib_neigh_connected(neigh))
			ipoib_neigh_evict(neigh, drop);
	}
	return path->users <= most;
}

static struct ipoib_neigh *ipoib_neigh_alloc(struct ipoib_dev *dev,
					     struct ipoib_path *path,
					     const u8 *addr)
{
	struct ipoib_neigh *neigh;

	neigh = kzalloc_obj(*neigh, GFP_ATOMIC);
	if (!neigh)
		return NULL;
	memcpy(neigh->addr, addr, INFINIBAND_ALEN);
	neigh->used = jiffies;
	neigh->dev = dev;
	neigh->path = path;
	if (dev->connected && ipoib_addr_is_rc(addr)) {
		neigh->link = ipoib_link_create(dev, neigh);
		if (!neigh->link)
			goto err_free;
	}
	if (rhashtable_insert_fast(&dev->neigh.table, &neigh->node,
				   ipoib_neigh_params))
		goto err_link;
	return neigh;

err_link:
	if (neigh->link)
		ipoib_link_destroy(neigh->link);
err_free:
	kfree(neigh);
	return NULL;
}

static struct ipoib_neigh *ipoib_neigh_create(struct ipoib_dev *dev,
					      const u8 *addr,
					      struct sk_buff_head *drop)
{
	struct ipoib_neigh *neigh = NULL;
	struct ipoib_path *path;

	lockdep_assert_held(&dev->port->path_lock);
	if (!dev->neigh.open)
		return NULL;
	if (!ipoib_neigh_make_room(dev, drop)) {
		dev->neigh.refused++;
		return NULL;
	}
	path = ipoib_path_get(dev, addr, drop);
	if (!path)
		return NULL;
	if (ipoib_path_make_place(path, drop))
		neigh = ipoib_neigh_alloc(dev, path, addr);
	else
		dev->neigh.refused++;
	if (!neigh) {
		path->users--;
		ipoib_path_release(path);
		return NULL;
	}
	if (list_empty(&dev->neigh.list))
		queue_delayed_work(ipoib_wq, &dev->neigh.gc, IPOIB_NEIGH_GC);
	list_add_tail(&neigh->entry, &dev->neigh.list);
	list_add_tail(&neigh->path_entry, &path->neighs);
	dev->neigh.num++;
	return neigh;
}

/* Does more wait than may? */
static bool ipoib_path_overfull(const struct ipoib_path *path)
{
	const struct ipoib_path_source *source = path->source;
	const struct ipoib_port *port = path->port;
	u32 most = IPOIB_TOLD_WAIT_BYTES;

	if (path->waiting_bytes > IPOIB_PATH_WAIT_BYTES)
		return true;
	if (!source->lid)
		most = port->path_bytes > IPOIB_OWN_WAIT_BYTES ?
		       IPOIB_OWN_WAIT_BYTES / max(READ_ONCE(port->users), 1U) :
		       IPOIB_OWN_WAIT_BYTES;
	return source->bytes > most;
}

/* Queue a packet until the path is known; the oldest go when it is too much. */
static void ipoib_path_wait(struct ipoib_path *path, struct sk_buff *skb,
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
		neigh = ipoib_neigh_create(dev, addr, &drop);
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
		return ipoib_ud_send(txq, skb, ah, ipoib_addr_qpn(skb->data));
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

/*
 * The neighbour of an address, or NULL.  A queue remembers the last one, and
 * how many had been removed before it was looked up: as long as there are no
 * more, it is still there.
 */
static struct ipoib_neigh *ipoib_neigh_find(struct ipoib_txq *txq,
					    const u8 *addr)
{
	struct ipoib_dev *dev = txq->qp.dev;
	/* Before the look-up; pairs with ipoib_neigh_remove() */
	u32 removals = smp_load_acquire(&dev->neigh.removals);
	struct ipoib_neigh *neigh = txq->last.neigh;

	if (neigh && txq->last.removals == removals &&
	    ipoib_addr_equal(addr, neigh->addr))
		return neigh;
	neigh = rhashtable_lookup(&dev->neigh.table, addr, ipoib_neigh_params);
	txq->last.neigh = neigh;
	txq->last.removals = removals;
	return neigh;
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

	neigh = ipoib_neigh_find(txq, addr);
	if (unlikely(!neigh))
		return ipoib_neigh_defer(txq, skb, addr);
	path = neigh->path;
	ah = rcu_dereference(path->ah);
	if (unlikely(!ah))
		return ipoib_neigh_defer(txq, skb, addr);
	ipoib_stamp(&neigh->used);
	if (unlikely(READ_ONCE(path->gen) != READ_ONCE(dev->port->path_gen)))
		ipoib_path_refresh(path);
	if (unlikely(proto != htons(ETH_P_IP)) &&
	    ipoib_neigh_is_probe(skb, proto))
		ipoib_path_probe(path);
	/* It may have moved the packet, and @addr with it. */
	if (neigh->link && ipoib_rc_xmit(txq, skb, neigh->link))
		return NETDEV_TX_OK;
	return ipoib_ud_send(txq, skb, ah, ipoib_addr_qpn(skb->data));
}

/**
 * ipoib_neigh_fit - what has to be done to a packet on its way to a peer
 * @dev: interface in connected mode
 * @skb: packet with its link-layer address in front
 *
 * Context: BHs disabled.
 * Return: bits of enum ipoib_fit, as things are now
 */
u32 ipoib_neigh_fit(struct ipoib_dev *dev, const struct sk_buff *skb)
{
	struct ipoib_neigh *neigh;
	u32 fit = 0;

	rcu_read_lock();
	neigh = rhashtable_lookup(&dev->neigh.table, skb->data,
				  ipoib_neigh_params);
	if (neigh && neigh->link)
		fit = ipoib_link_fit(neigh->link, skb);
	else if (neigh || !ipoib_addr_is_rc(skb->data))
		fit = ipoib_ud_fit(dev, skb);
	rcu_read_unlock();
	return fit;
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

/*
 * Who is to be believed?  Not a LID that the SA has just denied.
 *
 * A port whose LMC is not zero may send from any of its LIDs.  A path record
 * does not tell the LMC, and how close two LIDs are does not tell either: the
 * neighbour of a LID may be another port.  So such a peer is denied like a
 * forger: there is a query after one second, two, four and so on, and in the end
 * one in five minutes for a LID, or in 16 s if it changes between several.
 */
static bool ipoib_path_believes(const struct ipoib_path *path, u16 slid)
{
	unsigned long delay = ipoib_path_deny_delay(path->denials,
						    slid == path->denied);

	return time_after(jiffies, path->asked + delay);
}

/* Without a handle: it takes turns with the paths of the source that has fewer. */
static void ipoib_path_claim(struct ipoib_path *path, u16 lid)
{
	struct ipoib_path_source *source;

	if (path->state == IPOIB_PATH_QUERY || path->state == IPOIB_PATH_DEAD ||
	    path->source->lid == lid)
		return;
	source = ipoib_source_get(path->port, lid);
	if (!source)
		return;
	/* Not beyond what a LID may have: the path would be the next to go. */
	if (source->num < min(path->source->num, (u32)IPOIB_TOLD_PATHS) &&
	    source->bytes + path->waiting_bytes <= IPOIB_TOLD_WAIT_BYTES)
		ipoib_path_set_source(path, source);
	else if (!source->num)
		ipoib_source_free(source);
}

/* Under the lock, so the state says whether the path is still there. */
static void ipoib_path_heard_from(struct ipoib_path *path, u16 slid)
{
	lockdep_assert_held(&path->port->path_lock);
	WRITE_ONCE(path->probed, 0);
	if (!ipoib_path_ah(path)) {
		ipoib_path_claim(path, slid);
	} else if (path->state == IPOIB_PATH_VALID && path->dlid != slid &&
		   ipoib_path_believes(path, slid)) {
		path->heard = slid;
		ipoib_path_ask(path);
	}
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
	if (!neigh) {
		ipoib_path_hear(port, addr, slid);
		goto unlock;
	}
	path = neigh->path;
	if (neigh->link)
		ipoib_link_heard(neigh->link, READ_ONCE(path->dlid) != slid);
	/* Mostly it is where we send to. */
	if (rcu_access_pointer(path->ah) && READ_ONCE(path->dlid) == slid &&
	    !READ_ONCE(path->probed))
		goto unlock;
	spin_lock(&port->path_lock);
	ipoib_path_heard_from(path, slid);
	spin_unlock(&port->path_lock);
unlock:
	rcu_read_unlock();
}

static bool ipoib_neigh_idle(const struct ipoib_neigh *neigh)
{
	const struct ipoib_path *path = neigh->path;

	if (time_before(jiffies, READ_ONCE(neigh->used) + IPOIB_NEIGH_IDLE) ||
	    ipoib_neigh_connected(neigh))
		return false;
	/* Somebody of its interface has to be there for packets that wait. */
	return skb_queue_empty(&path->waiting);
}

static void ipoib_neigh_gc(struct work_struct *work)
{
	struct ipoib_dev *dev =
		container_of(work, struct ipoib_dev, neigh.gc.work);
	struct ipoib_port *port = dev->port;
	struct ipoib_neigh *neigh;
	struct ipoib_path *path;
	u32 left;

	spin_lock_bh(&port->path_lock);
	for (left = dev->neigh.num; left && dev->neigh.num; left--) {
		neigh = list_first_entry(&dev->neigh.list, struct ipoib_neigh,
					 entry);
		list_move_tail(&neigh->entry, &dev->neigh.list);
		if (ipoib_neigh_idle(neigh)) {
			path = neigh->path;
			ipoib_neigh_remove(neigh);
			ipoib_path_release(path);
		}
		if (left % IPOIB_WALK)
			continue;
		spin_unlock_bh(&port->path_lock);
		cond_resched();
		spin_lock_bh(&port->path_lock);
	}
	if (!list_empty(&dev->neigh.list))
		queue_delayed_work(ipoib_wq, &dev->neigh.gc, IPOIB_NEIGH_GC);
	spin_unlock_bh(&port->path_lock);
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
	struct ipoib_neigh *neigh;
	struct sk_buff_head drop;
	struct ipoib_path *path;
	u32 n;

	__skb_queue_head_init(&drop);
	spin_lock_bh(&port->path_lock);
	dev->neigh.open = false;
	while (dev->neigh.num) {
		neigh = list_first_entry(&dev->neigh.list, struct ipoib_neigh,
					 entry);
		path = neigh->path;
		ipoib_path_purge(path, dev, &drop);
		ipoib_neigh_remove(neigh);
		ipoib_path_release(path);
		if (dev->neigh.num % IPOIB_WALK)
			continue;
		spin_unlock_bh(&port->path_lock);
		cond_resched();
		spin_lock_bh(&port->path_lock);
	}
	/* What is left is another interface's, or the SA has to answer. */
	for (n = 1; dev->neigh.source.num; n++) {
		path = list_first_entry(&dev->neigh.source.paths,
					struct ipoib_path, member);
		ipoib_path_set_source(path, ipoib_path_owner(path));
		if (n % IPOIB_WALK)
			continue;
		spin_unlock_bh(&port->path_lock);
		cond_resched();
		spin_lock_bh(&port->path_lock);
	}
	spin_unlock_bh(&port->path_lock);
	cancel_delayed_work_sync(&dev->neigh.gc);
	ipoib_path_free_skbs(&drop);
}

int ipoib_neigh_init(struct ipoib_dev *dev)
{
	INIT_LIST_HEAD(&dev->neigh.list);
	ipoib_source_init(&dev->neigh.source, 0);
	INIT_DELAYED_WORK(&dev->neigh.gc, ipoib_neigh_gc);
	return rhashtable_init(&dev->neigh.table, &ipoib_neigh_params);
}

void ipoib_neigh_exit(struct ipoib_dev *dev)
{
	WARN_ON_ONCE(dev->neigh.source.num);
	rhashtable_destroy(&dev->neigh.table);
}
