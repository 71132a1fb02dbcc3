// SPDX-License-Identifier: GPL-2.0-only
/*
 * Neighbours: link-layer addresses that an interface sends to
 *
 * Senders find a neighbour, and with it the path to it, under RCU without a
 * lock or a reference.  A packet for a new address, or for one whose path is
 * not known yet, waits in the path's queue.
 *
 * Lock: struct ipoib_paths.lock covers all fields except those RCU readers use.
 */
#include <linux/moduleparam.h>
#include <linux/rhashtable.h>

#include "ipoib.h"
#include "ipoib_cm_internal.h"
#include "ipoib_count.h"
#include "ipoib_engine.h"
#include "ipoib_link.h"
#include "ipoib_msg.h"
#include "ipoib_neigh.h"
#include "ipoib_path_internal.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"
#include "ipoib_tx.h"

/* Neighbours per path: a GID has one for each of its interfaces. */
#define IPOIB_PATH_NEIGHS	256
#define IPOIB_NEIGH_LOOK	16	/* candidates for eviction */
#define IPOIB_NEIGH_GC		(30 * HZ)
#define IPOIB_NEIGH_IDLE	(120 * HZ)

static unsigned int ipoib_max_neighbours = 32768;
module_param_named(max_neighbours, ipoib_max_neighbours, uint, 0644);
MODULE_PARM_DESC(max_neighbours, "Link-layer addresses that an interface remembers (64 at least)");

/**
 * struct ipoib_neigh - a link-layer address and the path to it
 * @node: in the interface's table
 * @addr: the address, key of the table
 * @path: constant for the life of the neighbour
 * @link: its link, NULL if it accepts no connections; constant, too
 * @used: jiffies of the last packet
 * @dev: interface
 * @entry: in the interface's list
 * @user: as a user of @path
 * @rcu: frees it
 */
struct ipoib_neigh {
	struct rhash_head node;
	u8 addr[INFINIBAND_ALEN] __aligned(4);
	struct ipoib_path *path;
	struct ipoib_link *link;
	unsigned long used;
	struct ipoib_dev *dev;
	struct list_head entry;
	struct ipoib_path_user user;
	struct rcu_head rcu;
};

/**
 * struct ipoib_neighs - neighbours of an interface
 *
 * Everybody except readers of the table holds ipoib_paths.lock.
 *
 * @dev: interface
 * @table: by address, RCU
 * @list: all of them
 * @changes: of @list, and of its order
 * @num: how many
 * @gc: removes those not used for a while; runs only while there are any
 * @open: the interface is up; otherwise no neighbour is created
 * @removals: how many have been removed; read by senders
 * @source: paths without an address handle that local senders asked for
 * @evicted: removed to make room for others
 * @refused: not created, because all others were in use
 */
struct ipoib_neighs {
	struct ipoib_dev *dev;
	struct rhashtable table;
	struct list_head list;
	u32 changes;
	u32 num;
	struct delayed_work gc;
	bool open;
	u32 removals;
	struct ipoib_path_source source;
	u64 evicted;
	u64 refused;
};

/* ---- table ------------------------------------------------------------- */

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

	lockdep_assert_held(&dev->port->paths->lock);
	rhashtable_remove_fast(&dev->neigh->table, &neigh->node,
			       ipoib_neigh_params);
	/*
	 * Pairs with ipoib_neigh_lookup_other(): readers of the new value do not find
	 * it in the table, and the grace period waits for those of the old one.
	 */
	smp_store_release(&dev->neigh->removals, dev->neigh->removals + 1);
	list_del(&neigh->entry);
	list_del(&neigh->user.entry);
	dev->neigh->changes++;
	dev->neigh->num--;
	if (neigh->link)
		ipoib_link_destroy(neigh->link);
	neigh->path->users--;
	kfree_rcu(neigh, rcu);
}

/* ---- eviction ---------------------------------------------------------- */

/* Remove the packets of @dev from a path's queue. */
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

/* Evict a neighbour, and drop the packets that wait on its behalf. */
static void ipoib_neigh_evict(struct ipoib_neigh *neigh,
			      struct sk_buff_head *drop)
{
	struct ipoib_path *path = neigh->path;

	neigh->dev->neigh->evicted++;
	if (list_is_singular(&path->neighs))
		ipoib_path_drop_waiting(path, drop);
	else
		ipoib_path_purge(path, neigh->dev, drop);
	ipoib_neigh_remove(neigh);
	ipoib_path_release(path);
}

/* Evict a path with all its neighbours. */
static void ipoib_path_evict(struct ipoib_path *path, struct sk_buff_head *drop)
{
	struct ipoib_neigh *neigh, *next;

	lockdep_assert_held(&path->paths->lock);
	path->paths->stat.evicted++;
	path->users++;
	list_for_each_entry_safe(neigh, next, &path->neighs, user.entry)
		ipoib_neigh_evict(neigh, drop);
	path->users--;
	ipoib_path_release(path);
}

/* True if it has a connection, which ipoib_cm.c closes when unused. */
static bool ipoib_neigh_connected(const struct ipoib_neigh *neigh)
{
	return neigh->link && ipoib_link_is_up(neigh->link);
}

/* The least recently used one of the next candidates. */
static struct ipoib_neigh *ipoib_neigh_victim(struct ipoib_dev *dev)
{
	struct ipoib_neigh *neigh, *found = NULL;
	u32 n;

	dev->neigh->changes++;
	for (n = 0; n < IPOIB_NEIGH_LOOK; n++) {
		neigh = list_first_entry(&dev->neigh->list, struct ipoib_neigh,
					 entry);
		list_move_tail(&neigh->entry, &dev->neigh->list);
		if (ipoib_neigh_connected(neigh))
			continue;
		if (!found || time_before(READ_ONCE(neigh->used),
					  READ_ONCE(found->used)))
			found = neigh;
	}
	return found;
}

/* Make room for one more neighbour of the interface. */
static bool ipoib_neigh_make_room(struct ipoib_dev *dev,
				  struct sk_buff_head *drop)
{
	u32 most = max(READ_ONCE(ipoib_max_neighbours), 64U);
	struct ipoib_neigh *victim;

	if (dev->neigh->num < most)
		return true;
	victim = ipoib_neigh_victim(dev);
	if (!victim)
		return false;
	ipoib_neigh_evict(victim, drop);
	return true;
}

/* Likewise for a path with too many neighbours: evict the oldest. */
static bool ipoib_path_make_place(struct ipoib_path *path,
				  struct sk_buff_head *drop)
{
	/* All interfaces of the port that talk to the GID share the path. */
	u32 users = max(READ_ONCE(path->paths->port->open), 1U);
	u32 most = IPOIB_PATH_NEIGHS * users;
	struct ipoib_neigh *neigh;
	u32 n;

	for (n = 0; n < IPOIB_NEIGH_LOOK; n++) {
		if (path->users <= most)
			return true;
		neigh = list_first_entry(&path->neighs, struct ipoib_neigh,
					 user.entry);
		list_move_tail(&neigh->user.entry, &path->neighs);
		if (!ipoib_neigh_connected(neigh))
			ipoib_neigh_evict(neigh, drop);
	}
	return path->users <= most;
}

/* Make room for one more path without an address handle. */
static void ipoib_neigh_make_way(struct ipoib_dev *dev, u16 lid,
				 struct sk_buff_head *drop)
{
	struct ipoib_path_source *source = &dev->neigh->source;
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_path *path;

	if (lid) {
		path = ipoib_told_victim(paths, lid);
		if (path)
			ipoib_path_evict(path, drop);
		source = ipoib_source_find(paths, lid);
	}
	path = ipoib_path_victim(paths, source);
	if (path)
		ipoib_path_evict(path, drop);
}

/* ---- making neighbours ------------------------------------------------- */

/* Find or create the path to an address; the caller becomes a user of it. */
static struct ipoib_path *ipoib_neigh_get_path(struct ipoib_dev *dev,
					       const u8 *addr,
					       struct sk_buff_head *drop)
{
	struct ipoib_path_source *own = &dev->neigh->source;
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_path_key key = {
		.sgid = dev->local_gid,
		.pkey = cpu_to_be16(dev->pkey),
		.tclass = READ_ONCE(dev->tclass),
	};
	struct ipoib_path *path;
	u16 lid;

	ipoib_addr_gid(addr, &key.dgid);
	path = ipoib_path_find(paths, &key);
	if (path) {
		ipoib_path_take(path, addr, own);
	} else {
		lid = ipoib_path_told(paths, addr);
		ipoib_neigh_make_way(dev, lid, drop);
		path = ipoib_path_create(paths, &key, lid, own);
	}
	if (path)
		path->users++;
	return path;
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
	neigh->user.own = &dev->neigh->source;
	neigh->user.dev = dev;
	if (dev->connected && ipoib_addr_is_rc(addr)) {
		neigh->link = ipoib_link_create(dev, neigh, addr);
		if (!neigh->link)
			goto err_free;
	}
	if (rhashtable_insert_fast(&dev->neigh->table, &neigh->node,
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

	lockdep_assert_held(&dev->port->paths->lock);
	if (!dev->neigh->open)
		return NULL;
	if (!ipoib_neigh_make_room(dev, drop)) {
		dev->neigh->refused++;
		return NULL;
	}
	path = ipoib_neigh_get_path(dev, addr, drop);
	if (!path)
		return NULL;
	if (ipoib_path_make_place(path, drop))
		neigh = ipoib_neigh_alloc(dev, path, addr);
	else
		dev->neigh->refused++;
	if (!neigh) {
		path->users--;
		ipoib_path_release(path);
		return NULL;
	}
	if (list_empty(&dev->neigh->list))
		queue_delayed_work(ipoib_wq, &dev->neigh->gc, IPOIB_NEIGH_GC);
	list_add_tail(&neigh->entry, &dev->neigh->list);
	dev->neigh->changes++;
	list_add_tail(&neigh->user.entry, &path->neighs);
	dev->neigh->num++;
	return neigh;
}

/* ---- look-ups ---------------------------------------------------------- */

/*
 * Where received packets don't pass the driver, whoever asked for an address can
 * only be recognised by the answer: as if all who ask had one LID.
 */
static void ipoib_neigh_note_answer(struct ipoib_dev *dev,
				    const struct sk_buff *skb, const u8 *addr,
				    __be16 proto)
{
	const void *pkt = skb->data + IPOIB_HARD_LEN;
	u32 len = skb_headlen(skb) - IPOIB_HARD_LEN;

	if (!dev->engine->hears && ipoib_is_answer(proto, pkt, len))
		ipoib_path_hear(dev->port->paths, addr, IPOIB_LID_UNHEARD);
}

/* Slow path: no neighbour yet, or its path is not known. */
static noinline bool ipoib_neigh_defer(struct ipoib_dev *dev,
				       struct sk_buff *skb, const u8 *addr,
				       __be16 proto, struct ipoib_dest *dest)
{
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_neigh *neigh;
	struct sk_buff_head drop;
	bool kept = false;

	dest->ah = NULL;
	__skb_queue_head_init(&drop);
	ipoib_neigh_note_answer(dev, skb, addr, proto);
	spin_lock_bh(&paths->lock);
	neigh = rhashtable_lookup_fast(&dev->neigh->table, addr,
				       ipoib_neigh_params);
	if (!neigh)
		neigh = ipoib_neigh_create(dev, addr, &drop);
	if (neigh) {
		dest->ah = ipoib_path_ah(neigh->path);
		dest->link = neigh->link;
		if (!dest->ah) {
			ipoib_path_wait(neigh->path, skb, &drop);
			kept = true;
		}
	}
	spin_unlock_bh(&paths->lock);

	ipoib_path_free_skbs(&drop);
	/* Neighbour and path may have become known meanwhile. */
	if (dest->ah)
		return true;
	if (!kept)
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_CREATEFAIL);
	return false;
}

/* Does a packet ask for its neighbour's address? */
static __always_inline bool ipoib_neigh_probes(const struct sk_buff *skb,
					       __be16 proto)
{
	return unlikely(proto != htons(ETH_P_IP)) &&
	       ipoib_is_probe(proto, skb->data + IPOIB_HARD_LEN,
			      skb_headlen(skb) - IPOIB_HARD_LEN);
}

static bool ipoib_path_outdated(const struct ipoib_path *path)
{
	return READ_ONCE(path->gen) != READ_ONCE(path->paths->gen);
}

/* The path may be stale.  Return: true, for the caller to end with. */
static noinline bool ipoib_neigh_doubt(struct ipoib_path *path,
				       const struct sk_buff *skb, __be16 proto)
{
	const void *pkt = skb->data + IPOIB_HARD_LEN;
	u32 len = skb_headlen(skb) - IPOIB_HARD_LEN;

	if (ipoib_path_outdated(path))
		ipoib_path_refresh(path);
	if (ipoib_neigh_probes(skb, proto))
		ipoib_path_probe(path, ipoib_probe_target(proto, pkt, len));
	return true;
}

/* How to reach a neighbour.  Return: as ipoib_neigh_lookup(). */
static __always_inline bool ipoib_neigh_reach(struct ipoib_dev *dev,
					      struct ipoib_neigh *neigh,
					      struct sk_buff *skb,
					      const u8 *addr, __be16 proto,
					      struct ipoib_dest *dest)
{
	struct ipoib_path *path = neigh->path;

	dest->link = neigh->link;
	dest->ah = rcu_dereference(path->ah);
	if (unlikely(!dest->ah))
		return ipoib_neigh_defer(dev, skb, addr, proto, dest);
	ipoib_stamp(&neigh->used);
	if (unlikely(ipoib_path_outdated(path)) ||
	    ipoib_neigh_probes(skb, proto))
		return ipoib_neigh_doubt(path, skb, proto);
	return true;
}

/* The neighbour is not the queue's last one, or that may have been removed. */
static noinline bool ipoib_neigh_lookup_other(struct ipoib_dev *dev,
					      struct ipoib_last *last,
					      struct sk_buff *skb,
					      const u8 *addr, __be16 proto,
					      struct ipoib_dest *dest)
{
	/* Before the look-up; pairs with ipoib_neigh_remove() */
	u32 removals = smp_load_acquire(&dev->neigh->removals);
	struct ipoib_neigh *neigh;

	neigh = rhashtable_lookup(&dev->neigh->table, addr, ipoib_neigh_params);
	last->neigh = neigh;
	last->removals = removals;
	if (!neigh)
		return ipoib_neigh_defer(dev, skb, addr, proto, dest);
	return ipoib_neigh_reach(dev, neigh, skb, addr, proto, dest);
}

/**
 * ipoib_neigh_lookup - look up how to reach a unicast link-layer address
 * @dev: interface
 * @last: of the queue that is to send, its TX lock held
 * @skb: packet with the address in front
 * @addr: the address
 * @proto: Ethertype
 * @dest: result
 *
 * A second unicast ARP request or neighbour solicitation in a row means that
 * the peer does not answer: its LID may have changed, and nothing else reports
 * that (the SM's events are sent to the peer's port, not to ours).
 *
 * Context: RCU reader.
 * Return: false if the packet was consumed: it waits, or was dropped
 */
bool ipoib_neigh_lookup(struct ipoib_dev *dev, struct ipoib_last *last,
			struct sk_buff *skb, const u8 *addr, __be16 proto,
			struct ipoib_dest *dest)
{
	/* Pairs with ipoib_neigh_remove(): while it is the same, @last is there. */
	u32 removals = smp_load_acquire(&dev->neigh->removals);
	struct ipoib_neigh *neigh = last->neigh;

	/* What is rare ends with a call, so that this needs no stack. */
	dest->qpn = ipoib_addr_qpn(addr);
	if (unlikely(!neigh || last->removals != removals ||
		     !ipoib_addr_equal(addr, neigh->addr)))
		return ipoib_neigh_lookup_other(dev, last, skb, addr, proto,
						dest);
	return ipoib_neigh_reach(dev, neigh, skb, addr, proto, dest);
}

/**
 * ipoib_neigh_link - the link of a neighbour
 * @dev: interface
 * @addr: its link-layer address
 * @link: result, NULL if the neighbour accepts no connections
 *
 * Context: RCU reader.
 * Return: false if the address is not known yet
 */
bool ipoib_neigh_link(struct ipoib_dev *dev, const u8 *addr,
		      struct ipoib_link **link)
{
	struct ipoib_neigh *neigh;

	neigh = rhashtable_lookup(&dev->neigh->table, addr, ipoib_neigh_params);
	if (!neigh)
		return false;
	*link = neigh->link;
	return true;
}

/**
 * ipoib_neigh_record - path record of the peer of a link
 * @dev: interface
 * @link: link
 * @rec: result
 * @doubt: the record may be stale: query the SA again
 *
 * Context: process.
 * Return: 0, or -ENOENT if the link is dead or the path not known (any more)
 */
int ipoib_neigh_record(struct ipoib_dev *dev, struct ipoib_link *link,
		       struct sa_path_rec *rec, bool doubt)
{
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_neigh *neigh;
	int ret = -ENOENT;

	spin_lock_bh(&paths->lock);
	neigh = ipoib_link_neigh(link);
	if (!neigh || !ipoib_path_ah(neigh->path))
		goto unlock;
	if (doubt && neigh->path->state == IPOIB_PATH_VALID &&
	    ipoib_path_may_ask(jiffies, neigh->path->asked))
		ipoib_path_ask(neigh->path);
	*rec = neigh->path->rec;
	ret = 0;
unlock:
	spin_unlock_bh(&paths->lock);
	return ret;
}

/**
 * ipoib_neigh_learn - a peer was heard from a LID
 * @dev: interface
 * @addr: its link-layer address
 * @slid: source LID of the packet
 *
 * If that is not the LID that we send to, the SA is queried again.
 *
 * Context: NAPI.
 */
void ipoib_neigh_learn(struct ipoib_dev *dev, const u8 *addr, u16 slid)
{
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_neigh *neigh;
	struct ipoib_path *path;

	rcu_read_lock();
	neigh = rhashtable_lookup(&dev->neigh->table, addr, ipoib_neigh_params);
	if (!neigh) {
		ipoib_path_hear(paths, addr, slid);
		goto unlock;
	}
	path = neigh->path;
	if (neigh->link)
		ipoib_link_heard(neigh->link, READ_ONCE(path->dlid) != slid);
	/* Usually this is the LID that we send to. */
	if (rcu_access_pointer(path->ah) && READ_ONCE(path->dlid) == slid &&
	    !READ_ONCE(path->probed))
		goto unlock;
	spin_lock(&paths->lock);
	ipoib_path_heard_from(path, slid, READ_ONCE(dev->lid));
	spin_unlock(&paths->lock);
unlock:
	rcu_read_unlock();
}

/* ---- life cycle -------------------------------------------------------- */

static bool ipoib_neigh_idle(const struct ipoib_neigh *neigh)
{
	const struct ipoib_path *path = neigh->path;

	if (time_before(jiffies, READ_ONCE(neigh->used) + IPOIB_NEIGH_IDLE) ||
	    ipoib_neigh_connected(neigh))
		return false;
	/* Waiting packets need a neighbour of their interface here. */
	return skb_queue_empty(&path->waiting);
}

static void ipoib_neigh_gc(struct work_struct *work)
{
	struct ipoib_neighs *neighs =
		container_of(work, struct ipoib_neighs, gc.work);
	struct ipoib_paths *paths = neighs->dev->port->paths;
	struct ipoib_neigh *neigh;
	struct ipoib_path *path;
	u32 left;

	spin_lock_bh(&paths->lock);
	for (left = neighs->num; left && neighs->num; left--) {
		neigh = list_first_entry(&neighs->list, struct ipoib_neigh,
					 entry);
		list_move_tail(&neigh->entry, &neighs->list);
		neighs->changes++;
		if (ipoib_neigh_idle(neigh)) {
			path = neigh->path;
			ipoib_neigh_remove(neigh);
			ipoib_path_release(path);
		}
		if (left % IPOIB_WALK)
			continue;
		spin_unlock_bh(&paths->lock);
		cond_resched();
		spin_lock_bh(&paths->lock);
	}
	if (!list_empty(&neighs->list))
		queue_delayed_work(ipoib_wq, &neighs->gc, IPOIB_NEIGH_GC);
	spin_unlock_bh(&paths->lock);
}

/**
 * ipoib_neigh_open - the interface comes up: neighbours may be created
 * @dev: interface
 */
void ipoib_neigh_open(struct ipoib_dev *dev)
{
	spin_lock_bh(&dev->port->paths->lock);
	dev->neigh->open = true;
	spin_unlock_bh(&dev->port->paths->lock);
}

/**
 * ipoib_neigh_stop - remove all neighbours and the packets waiting for them
 * @dev: interface that goes down, or whose address changed
 */
void ipoib_neigh_stop(struct ipoib_dev *dev)
{
	struct ipoib_paths *paths = dev->port->paths;
	struct ipoib_neigh *neigh;
	struct sk_buff_head drop;
	struct ipoib_path *path;
	u32 n;

	__skb_queue_head_init(&drop);
	spin_lock_bh(&paths->lock);
	dev->neigh->open = false;
	while (dev->neigh->num) {
		neigh = list_first_entry(&dev->neigh->list, struct ipoib_neigh,
					 entry);
		path = neigh->path;
		ipoib_path_purge(path, dev, &drop);
		ipoib_neigh_remove(neigh);
		ipoib_path_release(path);
		if (dev->neigh->num % IPOIB_WALK)
			continue;
		spin_unlock_bh(&paths->lock);
		cond_resched();
		spin_lock_bh(&paths->lock);
	}
	/* Remaining paths belong to other interfaces, or are being queried. */
	for (n = 1; dev->neigh->source.num; n++) {
		path = list_first_entry(&dev->neigh->source.paths,
					struct ipoib_path, member);
		ipoib_path_set_source(path, ipoib_path_owner(path));
		if (n % IPOIB_WALK)
			continue;
		spin_unlock_bh(&paths->lock);
		cond_resched();
		spin_lock_bh(&paths->lock);
	}
	spin_unlock_bh(&paths->lock);
	cancel_delayed_work_sync(&dev->neigh->gc);
	ipoib_path_free_skbs(&drop);
}

/**
 * ipoib_neigh_set_mode - let new neighbours have connections, or not
 * @dev: interface
 * @connected: new value of ipoib_dev.connected
 *
 * Context: process.
 */
void ipoib_neigh_set_mode(struct ipoib_dev *dev, bool connected)
{
	struct ipoib_paths *paths = dev->port->paths;

	spin_lock_bh(&paths->lock);
	WRITE_ONCE(dev->connected, connected);
	spin_unlock_bh(&paths->lock);
}

/**
 * ipoib_neigh_set_gid - set the source GID of new paths
 * @dev: interface
 * @gid: new value of ipoib_dev.local_gid
 *
 * Context: process.
 * Return: true if it has changed
 */
bool ipoib_neigh_set_gid(struct ipoib_dev *dev, const union ib_gid *gid)
{
	struct ipoib_paths *paths = dev->port->paths;
	bool changed;

	spin_lock_bh(&paths->lock);
	changed = memcmp(gid, &dev->local_gid, sizeof(*gid));
	dev->local_gid = *gid;
	spin_unlock_bh(&paths->lock);
	return changed;
}

/* Context: ipoib_paths.lock held. */
static int ipoib_neigh_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_neigh *neigh = object;

	if (nla_put(skb, IPOIB_A_NEIGH_LLADDR, INFINIBAND_ALEN, neigh->addr) ||
	    ipoib_msg_put_ms(skb, IPOIB_A_NEIGH_IDLE, READ_ONCE(neigh->used)) ||
	    ipoib_path_fill(skb, neigh->path))
		return -EMSGSIZE;
	return neigh->link ? ipoib_link_report(skb, neigh->link) : 0;
}

/**
 * ipoib_neigh_dump - write an interface's neighbours to a dump
 * @dev: interface
 * @dump: dump
 * Return: 0 or -EMSGSIZE, as ipoib_dump_one()
 */
int ipoib_neigh_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump)
{
	struct ipoib_paths *paths = dev->port->paths;
	const struct ipoib_neigh *neigh;
	int ret = 0;

	spin_lock_bh(&paths->lock);
	ipoib_dump_begin(dump, dev->neigh->changes);
	list_for_each_entry(neigh, &dev->neigh->list, entry) {
		ret = ipoib_dump_one(dump, dev, ipoib_neigh_fill, neigh);
		if (ret)
			break;
	}
	spin_unlock_bh(&paths->lock);
	return ret;
}

/**
 * ipoib_neigh_get_stats - counters of an interface's neighbours
 * @dev: interface
 * @stats: result
 */
void ipoib_neigh_get_stats(const struct ipoib_dev *dev,
			   struct ipoib_neigh_stats *stats)
{
	const struct ipoib_neighs *neighs = dev->neigh;

	stats->num = READ_ONCE(neighs->num);
	stats->evicted = neighs->evicted;
	stats->refused = neighs->refused;
}

/**
 * ipoib_neigh_init - prepare an interface's neighbours
 * @dev: interface
 * Return: 0 or -errno
 */
int ipoib_neigh_init(struct ipoib_dev *dev)
{
	struct ipoib_neighs *neighs;
	int ret;

	neighs = kzalloc_obj(*neighs);
	if (!neighs)
		return -ENOMEM;
	neighs->dev = dev;
	INIT_LIST_HEAD(&neighs->list);
	ipoib_source_init(&neighs->source, 0);
	INIT_DELAYED_WORK(&neighs->gc, ipoib_neigh_gc);
	ret = rhashtable_init(&neighs->table, &ipoib_neigh_params);
	if (ret) {
		kfree(neighs);
		return ret;
	}
	dev->neigh = neighs;
	return 0;
}

/**
 * ipoib_neigh_exit - undo ipoib_neigh_init(); the interface is down
 * @dev: interface
 */
void ipoib_neigh_exit(struct ipoib_dev *dev)
{
	struct ipoib_neighs *neighs = dev->neigh;

	WARN_ON_ONCE(neighs->source.num);
	rhashtable_destroy(&neighs->table);
	kfree(neighs);
	dev->neigh = NULL;
}
