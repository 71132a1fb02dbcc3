/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths of a port: shared by ipoib_source.c, ipoib_path.c and ipoib_neigh.c
 */
#ifndef IPOIB_PATH_INTERNAL_H
#define IPOIB_PATH_INTERNAL_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <rdma/ib_sa.h>

#include "ipoib_ah.h"
#include "ipoib_path.h"
#include "ipoib_rules.h"

#define IPOIB_PATH_WINDOW	64
#define IPOIB_WALK		256	/* steps before the lock is dropped */
#define IPOIB_PATH_SOURCES	1024	/* buckets of sources by LID */
#define IPOIB_PATH_HEARD	8192

#define IPOIB_PATH_RANKS	20	/* of sources by the number of paths */

/**
 * struct ipoib_path_source - paths that take turns with those of other sources
 *
 * A LID is the source of the paths to addresses that were learned from its
 * packets and that the SA has not resolved yet.  A host cannot choose the LID
 * it sends from, so whoever forges addresses gets one share of the resources.
 * Likewise an interface is the source of the paths that only local senders
 * asked for, so that a container gets one share, too.
 *
 * @node: in the port's table
 * @lid: LID; 0 for an interface's source and the port's own two
 * @num: paths
 * @rank: in ipoib_paths.ranks, if its paths have no address handle
 * @inflight: queries in flight
 * @share: current limit on these; halved by each query that fails
 * @bytes: memory of waiting packets
 * @paths: struct ipoib_path.member; oldest first, but those that were queried
 *	after the others
 * @ready: paths in QUEUED, struct ipoib_path.wait
 * @turn: in ipoib_paths.turns while a query for one of @ready may be sent
 */
struct ipoib_path_source {
	struct hlist_node node;
	u16 lid;
	u32 num;
	struct list_head rank;
	u32 inflight;
	u32 share;
	u32 bytes;
	struct list_head paths;
	struct list_head ready;
	struct list_head turn;
};

struct ipoib_path_key {
	union ib_gid dgid;
	union ib_gid sgid;
	__be16 pkey;
	u8 tclass;
	u8 zero;
};

/**
 * struct ipoib_path_user - a neighbour whose packets take a path
 * @entry: in ipoib_path.neighs
 * @own: source of its interface
 * @dev: its interface
 */
struct ipoib_path_user {
	struct list_head entry;
	struct ipoib_path_source *own;
	const struct ipoib_dev *dev;
};

/**
 * struct ipoib_path - path to a GID
 * @node: in the port's table
 * @key: what the SA is queried for
 * @ah: address handle, RCU; stays in use while a new answer is awaited
 * @gen: last ipoib_paths.gen that was acted upon; if it differs, query again
 * @dlid: LID that packets are sent to
 * @paths: owner
 * @entry: in ipoib_paths.list
 * @neighs: neighbours that point here, struct ipoib_path_user.entry
 * @users: how many, plus whoever needs the path for the moment
 * @source: source whose turns it takes
 * @local: local senders asked for it; it was not only learned from a LID
 * @member: in @source
 * @state: see enum ipoib_path_state
 * @wait: in @source while QUEUED, in ipoib_paths.asked while QUERY
 * @node_retry: in ipoib_paths.retry while BACKOFF
 * @rec: the SA's last answer
 * @waiting: packets, each holding a reference on its device; only while there
 *	are neighbours
 * @waiting_bytes: their memory
 * @again: in QUERY: the answer may be stale, query once more
 * @query: the query in flight
 * @query_id: its id
 * @retry: jiffies before which the SA is not queried
 * @asked: jiffies of the last query
 * @probed: jiffies of the stack's last probe if it is still unanswered, else 0
 * @target: which of the peer's addresses it asked for
 * @heard: LID that the peer was heard from, which caused a query, 0: none
 * @denied: the last such LID that the SA denied
 * @denials: how often, since the SA's answer last changed
 * @failures: since the last answer
 * @refused: the SA's last answer was that there is no such path
 * @rcu: frees it
 */
struct ipoib_path {
	struct rhash_head node;
	struct ipoib_path_key key;
	struct ipoib_ah __rcu *ah;
	u32 gen;
	u32 dlid;
	struct ipoib_paths *paths;
	struct list_head entry;
	struct list_head neighs;
	u32 users;
	struct ipoib_path_source *source;
	bool local;
	struct list_head member;
	enum ipoib_path_state state;
	struct list_head wait;
	struct rb_node node_retry;
	struct sa_path_rec rec;
	struct sk_buff_head waiting;
	u32 waiting_bytes;
	bool again;
	struct ib_sa_query *query;
	int query_id;
	unsigned long retry;
	unsigned long asked;
	unsigned long probed;
	u32 target;
	u16 heard;
	u16 denied;
	u32 denials;
	u32 failures;
	bool refused;
	struct rcu_head rcu;
};

/**
 * struct ipoib_paths - paths of a port
 * @port: port; not to be used by answers once @dying is set
 * @ca: its HCA
 * @num: its number
 * @ref: the port, and each SA query in flight
 * @gen: counts the events that make all records doubtful
 * @lock: spinlock, taken with BHs disabled, inside the netdev TX lock:
 *	everything of struct ipoib_path that is not RCU, and the fields below
 * @list: struct ipoib_path.entry
 * @table: by struct ipoib_path_key, RCU
 * @known: paths with an address handle
 * @left: paths without one that nobody uses any more, in QUERY
 * @sources: LIDs that addresses were learned from, struct ipoib_path_source
 * @ranks: sources of paths without an address handle, those of 2^n paths and
 *	more at n, struct ipoib_path_source.rank
 * @turns: sources that may send a query, struct ipoib_path_source.turn
 * @open: paths without an address handle
 * @bytes: memory of packets waiting for paths that were not learned from a LID
 * @asked: paths in QUERY, struct ipoib_path.wait
 * @inflight: queries in flight
 * @retry: paths in BACKOFF by struct ipoib_path.retry
 * @retries: how many of them
 * @unsent: queries in a row that ib_sa had no address of the SM for
 * @pause: jiffies until which no more are sent after such a query
 * @heard: LIDs that addresses were heard from, see ipoib_path_hear()
 * @work: sends queries
 * @probe: asks whether the SA answers while @probing, see ipoib_probe.c
 * @probing: a request was not answered
 * @probe_sent: a probe is in flight
 * @probe_query: that
 * @probe_id: its id
 * @missed: probes in a row that were not answered
 * @hurried: jiffies when all requests were last repeated for a probe
 * @quiet: the port goes away: no probes, no events of the port
 * @stat: counters
 * @answer_lock: mutex; the SA's answers are handled one at a time
 * @dying: the port goes away: no new queries, no new address handles
 *	(@answer_lock and @lock)
 */
struct ipoib_paths {
	struct ipoib_port *port;
	struct ib_device *ca;
	u32 num;
	refcount_t ref;
	u32 gen;		/* read for each packet */
	spinlock_t lock;	/* paths and the fields below */
	struct list_head list;
	struct rhashtable table;
	struct ipoib_path_source known;
	struct ipoib_path_source left;
	struct hlist_head sources[IPOIB_PATH_SOURCES];
	struct list_head ranks[IPOIB_PATH_RANKS];
	struct list_head turns;
	u32 open;
	u32 bytes;
	struct list_head asked;
	u32 inflight;
	struct rb_root_cached retry;
	u32 retries;
	u32 unsent;
	unsigned long pause;
	u32 heard[IPOIB_PATH_HEARD];
	struct delayed_work work;
	struct ipoib_path_stats stat;
	struct delayed_work probe;
	bool probing;
	bool probe_sent;
	struct ib_sa_query *probe_query;
	int probe_id;
	u32 missed;
	unsigned long hurried;
	bool quiet;
	struct mutex answer_lock;	/* dying, creation of handles */
	bool dying;
};

/* Drop a reference; the last one frees the memory. */
static inline void ipoib_paths_put(struct ipoib_paths *paths)
{
	if (!refcount_dec_and_test(&paths->ref))
		return;
	rhashtable_destroy(&paths->table);
	kfree(paths);
}

/* ipoib_source.c */
void ipoib_source_init(struct ipoib_path_source *source, u16 lid);
struct ipoib_path_source *ipoib_source_find(struct ipoib_paths *paths,
					    u16 lid);
struct ipoib_path_source *ipoib_source_get(struct ipoib_paths *paths,
					   u16 lid);
void ipoib_path_add_retry(struct ipoib_path *path);
void ipoib_path_del_retry(struct ipoib_path *path);
struct ipoib_path *ipoib_path_first_retry(struct ipoib_paths *paths);
void ipoib_source_queue(struct ipoib_paths *paths,
			struct ipoib_path_source *source);
void ipoib_source_answered(struct ipoib_paths *paths,
			   struct ipoib_path_source *source, bool good);
bool ipoib_path_paused(const struct ipoib_paths *paths);
void ipoib_path_kick(struct ipoib_paths *paths);
void ipoib_path_queue(struct ipoib_path *path);
void ipoib_path_dequeue(struct ipoib_path *path);
void ipoib_path_count_waiting(struct ipoib_path *path, int bytes);
bool ipoib_path_overfull(const struct ipoib_path *path);
void ipoib_path_join(struct ipoib_path *path,
		     struct ipoib_path_source *source);
void ipoib_path_leave(struct ipoib_path *path);
void ipoib_path_set_source(struct ipoib_path *path,
			   struct ipoib_path_source *source);
struct ipoib_path_source *ipoib_path_owner(struct ipoib_path *path);
/* In place of a LID that is not known: the permissive LID, which no port has */
#define IPOIB_LID_UNHEARD	0xffff

void ipoib_path_hear(struct ipoib_paths *paths, const u8 *addr, u16 lid);
u16 ipoib_path_told(struct ipoib_paths *paths, const u8 *addr);
void ipoib_path_take(struct ipoib_path *path, const u8 *addr,
		     struct ipoib_path_source *own);
void ipoib_path_claim(struct ipoib_path *path, u16 lid);
struct ipoib_path *ipoib_path_victim(struct ipoib_paths *paths,
				     struct ipoib_path_source *asks);
struct ipoib_path *ipoib_told_victim(struct ipoib_paths *paths, u16 lid);

/* ipoib_path.c */
struct ipoib_ah *ipoib_path_ah(struct ipoib_path *path);
int ipoib_path_fill(struct sk_buff *skb, const void *object);
void ipoib_path_drop_waiting(struct ipoib_path *path,
			     struct sk_buff_head *drop);
void ipoib_path_free_skbs(struct sk_buff_head *list);
void ipoib_path_ask(struct ipoib_path *path);
void ipoib_path_release(struct ipoib_path *path);
struct ipoib_path *ipoib_path_find(struct ipoib_paths *paths,
				   const struct ipoib_path_key *key);
struct ipoib_path *ipoib_path_create(struct ipoib_paths *paths,
				     const struct ipoib_path_key *key, u16 lid,
				     struct ipoib_path_source *own);
void ipoib_path_wait(struct ipoib_path *path, struct sk_buff *skb,
		     struct sk_buff_head *drop);
void ipoib_path_refresh(struct ipoib_path *path);
void ipoib_path_probe(struct ipoib_path *path, u32 target);
void ipoib_path_heard_from(struct ipoib_path *path, u16 slid, u16 lid);

#endif /* IPOIB_PATH_INTERNAL_H */
