// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sources: fair shares of queries and memory for paths that are not known yet
 *
 * Any member of the partition can send ARP with addresses that do not exist,
 * and the stack answers each of them.  So everything here has a limit, and
 * unknown paths take turns by the LID that the address was learned from.
 *
 * Lock: struct ipoib_paths.lock.
 */
#include "ipoib.h"
#include "ipoib_path_internal.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"

/*
 * Limits on paths without an address handle: of a port, and learned from one
 * LID.  A LID has a GID for each virtual function of its HCA.
 */
#define IPOIB_PATH_OPEN		16384
#define IPOIB_TOLD_PATHS	256
#define IPOIB_TOLD_QUERIES	16	/* of the window, for a LID */
/*
 * Memory of waiting packets: of a path, of all paths learned from one LID, of
 * all others of the port.  Beyond the latter, an interface has its share of it.
 */
#define IPOIB_PATH_WAIT_BYTES	(512 * 1024)
#define IPOIB_TOLD_WAIT_BYTES	(1024 * 1024)
#define IPOIB_OWN_WAIT_BYTES	(256 * 1024 * 1024)

/* ---- sources ----------------------------------------------------------- */

void ipoib_source_init(struct ipoib_path_source *source, u16 lid)
{
	source->lid = lid;
	source->share = lid ? IPOIB_TOLD_QUERIES : IPOIB_PATH_WINDOW;
	INIT_LIST_HEAD(&source->rank);
	INIT_LIST_HEAD(&source->paths);
	INIT_LIST_HEAD(&source->ready);
	INIT_LIST_HEAD(&source->turn);
}

static struct hlist_head *ipoib_source_bucket(struct ipoib_paths *paths, u16 lid)
{
	return &paths->sources[lid % IPOIB_PATH_SOURCES];
}

struct ipoib_path_source *ipoib_source_find(struct ipoib_paths *paths,
					    u16 lid)
{
	struct ipoib_path_source *source;

	lockdep_assert_held(&paths->lock);
	hlist_for_each_entry(source, ipoib_source_bucket(paths, lid), node)
		if (source->lid == lid)
			return source;
	return NULL;
}

/* Find or create a source, freed with its last path; NULL if out of memory. */
struct ipoib_path_source *ipoib_source_get(struct ipoib_paths *paths,
					   u16 lid)
{
	struct ipoib_path_source *source = ipoib_source_find(paths, lid);

	if (source)
		return source;
	source = kzalloc_obj(*source, GFP_ATOMIC);
	if (!source)
		return NULL;
	ipoib_source_init(source, lid);
	hlist_add_head(&source->node, ipoib_source_bucket(paths, lid));
	return source;
}

static void ipoib_source_free(struct ipoib_path_source *source)
{
	WARN_ON_ONCE(source->inflight);
	hlist_del(&source->node);
	list_del(&source->turn);
	kfree(source);
}

/* True for the source whose paths have an address handle. */
static bool ipoib_source_is_known(const struct ipoib_paths *paths,
				  const struct ipoib_path_source *source)
{
	return source == &paths->known;
}

/* Update the rank: the number of paths has changed. */
static void ipoib_source_rank(struct ipoib_paths *paths,
			      struct ipoib_path_source *source)
{
	u32 rank;

	list_del_init(&source->rank);
	if (!source->num || source == &paths->left)
		return;
	rank = min_t(u32, ilog2(source->num), IPOIB_PATH_RANKS - 1);
	list_add_tail(&source->rank, &paths->ranks[rank]);
}

/* ---- retries ----------------------------------------------------------- */

static bool ipoib_path_before(struct rb_node *a, const struct rb_node *b)
{
	return time_before(rb_entry(a, struct ipoib_path, node_retry)->retry,
			   rb_entry(b, struct ipoib_path, node_retry)->retry);
}

void ipoib_path_add_retry(struct ipoib_path *path)
{
	rb_add_cached(&path->node_retry, &path->paths->retry,
		      ipoib_path_before);
	path->paths->retries++;
}

void ipoib_path_del_retry(struct ipoib_path *path)
{
	rb_erase_cached(&path->node_retry, &path->paths->retry);
	path->paths->retries--;
}

struct ipoib_path *ipoib_path_first_retry(struct ipoib_paths *paths)
{
	return rb_entry_safe(rb_first_cached(&paths->retry),
			     struct ipoib_path, node_retry);
}

/* ---- turns ------------------------------------------------------------- */

/* Queue a source behind the others if it may send a query. */
void ipoib_source_queue(struct ipoib_paths *paths,
			struct ipoib_path_source *source)
{
	lockdep_assert_held(&paths->lock);
	if (!list_empty(&source->turn) || list_empty(&source->ready) ||
	    source->inflight >= source->share)
		return;
	list_add_tail(&source->turn, &paths->turns);
}

/**
 * ipoib_source_answered - a query for one of a source's paths is over
 * @paths: paths of a port
 * @source: source
 * @good: the SA knows the path
 *
 * A LID that sends addresses unknown to the SA is soon down to one query at a
 * time, so that the SA has time for others.
 *
 * Context: the lock held.
 */
void ipoib_source_answered(struct ipoib_paths *paths,
			   struct ipoib_path_source *source, bool good)
{
	lockdep_assert_held(&paths->lock);
	source->inflight--;
	if (source->lid)
		source->share = good ? min(source->share + 1,
					   (u32)IPOIB_TOLD_QUERIES) :
				       max(source->share / 2, 1U);
	ipoib_source_queue(paths, source);
}

/* True while no queries are sent, because ib_sa has no address of the SM. */
bool ipoib_path_paused(const struct ipoib_paths *paths)
{
	unsigned long end = paths->pause;

	return paths->unsent && time_in_range_open(jiffies, end - HZ, end);
}

/* Schedule the work item for the time when there is something to do. */
void ipoib_path_kick(struct ipoib_paths *paths)
{
	struct ipoib_path *first = ipoib_path_first_retry(paths);
	bool turn = !list_empty(&paths->turns) &&
		    paths->inflight < IPOIB_PATH_WINDOW;
	unsigned long now = jiffies, at = now;

	lockdep_assert_held(&paths->lock);
	if (paths->dying || (!turn && !first))
		return;
	if (turn && ipoib_path_paused(paths))
		at = paths->pause;
	if (first && (!turn || time_before(first->retry, at)))
		at = first->retry;
	mod_delayed_work(ipoib_wq, &paths->work,
			 time_after(at, now) ? at - now : 0);
}

void ipoib_path_queue(struct ipoib_path *path)
{
	list_add_tail(&path->wait, &path->source->ready);
	ipoib_source_queue(path->paths, path->source);
	if (!list_empty(&path->source->turn) &&
	    path->paths->inflight < IPOIB_PATH_WINDOW)
		ipoib_path_kick(path->paths);
}

void ipoib_path_dequeue(struct ipoib_path *path)
{
	list_del_init(&path->wait);
	if (list_empty(&path->source->ready))
		list_del_init(&path->source->turn);
}

/* ---- members ----------------------------------------------------------- */

/* Account for memory of waiting packets. */
static void ipoib_source_count_waiting(struct ipoib_paths *paths,
				       struct ipoib_path_source *source,
				       int bytes)
{
	source->bytes += bytes;
	if (!source->lid)
		paths->bytes += bytes;
}

void ipoib_path_count_waiting(struct ipoib_path *path, int bytes)
{
	path->waiting_bytes += bytes;
	ipoib_source_count_waiting(path->paths, path->source, bytes);
}

/* True if more memory is waiting than allowed. */
bool ipoib_path_overfull(const struct ipoib_path *path)
{
	const struct ipoib_path_source *source = path->source;
	const struct ipoib_paths *paths = path->paths;
	u32 most = IPOIB_TOLD_WAIT_BYTES;

	if (path->waiting_bytes > IPOIB_PATH_WAIT_BYTES)
		return true;
	if (!source->lid)
		most = paths->bytes > IPOIB_OWN_WAIT_BYTES ?
		       IPOIB_OWN_WAIT_BYTES / max(READ_ONCE(paths->port->open), 1U) :
		       IPOIB_OWN_WAIT_BYTES;
	return source->bytes > most;
}

void ipoib_path_join(struct ipoib_path *path,
		     struct ipoib_path_source *source)
{
	struct ipoib_paths *paths = path->paths;

	lockdep_assert_held(&paths->lock);
	path->source = source;
	source->num++;
	ipoib_source_count_waiting(paths, source, path->waiting_bytes);
	list_add_tail(&path->member, &source->paths);
	if (ipoib_source_is_known(paths, source))
		return;
	if (is_power_of_2(source->num))
		ipoib_source_rank(paths, source);
	paths->open++;
}

/* The path must not be queued. */
void ipoib_path_leave(struct ipoib_path *path)
{
	struct ipoib_path_source *source = path->source;
	struct ipoib_paths *paths = path->paths;

	lockdep_assert_held(&paths->lock);
	WARN_ON_ONCE(path->state != IPOIB_PATH_QUERY &&
		     !list_empty(&path->wait));
	path->source = NULL;
	ipoib_source_count_waiting(paths, source, -path->waiting_bytes);
	list_del(&path->member);
	source->num--;
	if (!ipoib_source_is_known(paths, source)) {
		if (is_power_of_2(source->num + 1))
			ipoib_source_rank(paths, source);
		paths->open--;
	}
	if (!source->num && source->lid)
		ipoib_source_free(source);
}

void ipoib_path_set_source(struct ipoib_path *path,
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
		ipoib_source_queue(path->paths, path->source);
	}
	ipoib_path_leave(path);
	ipoib_path_join(path, source);
	if (queued)
		ipoib_path_queue(path);
}

/* Source of a path without an address handle that no LID claims. */
struct ipoib_path_source *ipoib_path_owner(struct ipoib_path *path)
{
	struct ipoib_path_user *user;

	user = list_first_entry_or_null(&path->neighs, struct ipoib_path_user,
					entry);
	return user ? user->own : &path->paths->left;
}

/* ---- which LID an address was learned from ----------------------------- */

/*
 * The stack answers a packet of ARP or neighbour discovery soon after it was
 * received.  Until then a table remembers its LID.  A slot holds the upper half
 * of the address's hash and the LID; if another address has taken the slot, the
 * LID is not known.
 */
static u32 *ipoib_path_place(struct ipoib_paths *paths, u32 hash)
{
	return &paths->heard[hash % IPOIB_PATH_HEARD];
}

void ipoib_path_hear(struct ipoib_paths *paths, const u8 *addr, u16 lid)
{
	u32 hash = ipoib_addr_hash(addr, 0);

	WRITE_ONCE(*ipoib_path_place(paths, hash), (hash & ~0xffffU) | lid);
}

u16 ipoib_path_told(struct ipoib_paths *paths, const u8 *addr)
{
	u32 hash = ipoib_addr_hash(addr, 0);
	u32 told = READ_ONCE(*ipoib_path_place(paths, hash));

	return (told ^ hash) >> 16 ? 0 : told & 0xffff;
}

/*
 * A local sender uses a path without an address handle.  One learned from a LID
 * moves to its interface; of two interfaces, the one with fewer paths has it.
 */
void ipoib_path_take(struct ipoib_path *path, const u8 *addr,
		     struct ipoib_path_source *own)
{
	struct ipoib_path_source *source = path->source;
	struct ipoib_paths *paths = path->paths;

	if (ipoib_source_is_known(paths, source))
		return;
	if (source->lid && ipoib_path_told(paths, addr))
		return;
	path->local = true;
	if (source->lid || source == &paths->left || own->num < source->num)
		ipoib_path_set_source(path, own);
}

/* Move a path without a handle to a LID it was heard from that has fewer. */
void ipoib_path_claim(struct ipoib_path *path, u16 lid)
{
	struct ipoib_path_source *source;

	if (path->state == IPOIB_PATH_QUERY || path->state == IPOIB_PATH_DEAD ||
	    path->source->lid == lid)
		return;
	source = ipoib_source_get(path->paths, lid);
	if (!source)
		return;
	/* Not beyond the limit of a LID: the path would be evicted next. */
	if (source->num < min_t(u32, path->source->num, IPOIB_TOLD_PATHS) &&
	    source->bytes + path->waiting_bytes <= IPOIB_TOLD_WAIT_BYTES)
		ipoib_path_set_source(path, source);
	else if (!source->num)
		ipoib_source_free(source);
}

/* ---- eviction ---------------------------------------------------------- */

/* Only a path with neighbours, and not one that is being queried. */
static bool ipoib_path_can_evict(const struct ipoib_path *path)
{
	return path->state != IPOIB_PATH_QUERY && !list_empty(&path->neighs);
}

/* Paths being queried are at the end, and few. */
static struct ipoib_path *ipoib_source_victim(struct ipoib_path_source *source)
{
	struct ipoib_path *path;

	list_for_each_entry(path, &source->paths, member)
		if (ipoib_path_can_evict(path))
			return path;
	return NULL;
}

/**
 * ipoib_path_victim - find a path to evict for one more without address handle
 * @paths: paths of a port
 * @asks: source of the new one, or NULL if that does not exist yet
 *
 * The source with the most paths makes room; of those that have about as many,
 * the one that asks.
 *
 * Context: the lock held.
 * Return: path to be evicted, or NULL if there is room or no such path
 */
struct ipoib_path *ipoib_path_victim(struct ipoib_paths *paths,
				     struct ipoib_path_source *asks)
{
	struct ipoib_path_source *most = NULL;
	u32 rank = IPOIB_PATH_RANKS;

	lockdep_assert_held(&paths->lock);
	if (paths->open < IPOIB_PATH_OPEN)
		return NULL;
	while (!most && rank--)
		most = list_first_entry_or_null(&paths->ranks[rank],
						struct ipoib_path_source,
						rank);
	if (!most)
		return NULL;
	list_move_tail(&most->rank, &paths->ranks[rank]);
	if (asks && asks->num >> rank)
		most = asks;
	return ipoib_source_victim(most);
}

/**
 * ipoib_told_victim - find a path to evict for one more of the same LID
 * @paths: paths of a port
 * @lid: LID that the new one is learned from
 *
 * A LID that forges addresses has its own paths evicted all the time.  A path
 * that local senders asked for, too, is given back to them instead.
 *
 * Context: the lock held.
 * Return: path to be evicted, or NULL if there is room or no such path
 */
struct ipoib_path *ipoib_told_victim(struct ipoib_paths *paths, u16 lid)
{
	struct ipoib_path_source *source = ipoib_source_find(paths, lid);
	struct ipoib_path *path;

	if (!source || source->num < IPOIB_TOLD_PATHS)
		return NULL;
	path = ipoib_source_victim(source);
	if (!path || !path->local)
		return path;
	ipoib_path_set_source(path, ipoib_path_owner(path));
	return NULL;
}
