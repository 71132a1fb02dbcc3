// SPDX-License-Identifier: GPL-2.0-only
/*
 * Admission of connections: limits by peer, LID and interface, and eviction
 *
 * A REQ claims the GID and QPN of its sender.  Only the LID that the reply is
 * sent to can be trusted.  A connection is half-open until its peer has shown
 * that it got the reply.
 *
 * Lock: ipoib_cm.lock.
 */
#include <linux/jhash.h>
#include <linux/moduleparam.h>

#include "ipoib.h"
#include "ipoib_cm_internal.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"

#define IPOIB_CONN_SILENT	(HZ / 4)	/* shorter than send retries */
#define IPOIB_CM_KEEP_OLD	4	/* per GID, LID and QPN */
#define IPOIB_CM_GIVE_UP_LOOK	16	/* candidates for eviction */

static unsigned int ipoib_max_nonsrq_conn_qp = 128;
module_param_named(max_nonsrq_conn_qp, ipoib_max_nonsrq_conn_qp, uint, 0444);
MODULE_PARM_DESC(max_nonsrq_conn_qp,
		 "Connections an interface accepts on an HCA without SRQ");

/* ---- look-up ------------------------------------------------------------ */

/* Hash bucket of connections that peers opened with this GID, newest first. */
static struct hlist_head *ipoib_cm_by_gid(struct ipoib_cm *cm,
					  const union ib_gid *gid)
{
	struct ipoib_cm_peers *peers = cm->peers;
	u32 hash = jhash(gid, sizeof(*gid), peers->seed);

	lockdep_assert_held(&cm->lock);
	return &peers->by_gid[hash_min(hash, HASH_BITS(peers->by_gid))];
}

static struct ipoib_cm_lid *ipoib_cm_find_lid(struct ipoib_cm *cm, u32 lid)
{
	struct ipoib_cm_lid *from;

	lockdep_assert_held(&cm->lock);
	hash_for_each_possible(cm->peers->by_lid, from, by_lid, lid)
		if (from->lid == lid)
			return from;
	return NULL;
}

/* Add the connection to those of its GID and LID. */
static int ipoib_conn_enter(struct ipoib_conn *conn, struct ipoib_cm_lid *from)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	lockdep_assert_held(&cm->lock);
	if (!from) {
		from = kzalloc_obj(*from, GFP_ATOMIC);
		if (!from)
			return -ENOMEM;
		from->lid = conn->lid;
		INIT_LIST_HEAD(&from->answered);
		hash_add(cm->peers->by_lid, &from->by_lid, from->lid);
	}
	from->num++;
	conn->from = from;
	hlist_add_head(&conn->by_gid, ipoib_cm_by_gid(cm, &conn->gid));
	return 0;
}

void ipoib_conn_leave(struct ipoib_conn *conn)
{
	struct ipoib_cm_lid *from = conn->from;

	lockdep_assert_held(&conn->qp.dev->cm->lock);
	hlist_del_init(&conn->by_gid);
	conn->from = NULL;
	if (--from->num)
		return;
	hash_del(&from->by_lid);
	kfree(from);
}

/* ---- half-open connections --------------------------------------------- */

/* The connection is proven or given up: no longer half-open. */
void ipoib_conn_settle(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	lockdep_assert_held(&cm->lock);
	if (!conn->half_open)
		return;
	conn->half_open = false;
	list_del_init(&conn->answered);
	list_del_init(&conn->answered_lid);
	conn->from->half_open--;
	cm->num_half_open--;
}

enum ipoib_half_open ipoib_conn_judge(const struct ipoib_conn *conn,
				      bool noted)
{
	return ipoib_half_open_judge(jiffies, conn->since,
				     READ_ONCE(conn->used), noted);
}

/*
 * Try to evict an answered connection.  One with pending events is left to the
 * work item.
 */
static bool ipoib_conn_give_up(struct ipoib_conn *conn)
{
	switch (ipoib_conn_judge(conn, READ_ONCE(conn->events))) {
	case IPOIB_HALF_OPEN_SPARE:
	case IPOIB_HALF_OPEN_OVER:
		ipoib_conn_settle(conn);
		ipoib_conn_notify(conn, IPOIB_CONN_EV_GIVE_UP);
		return true;
	case IPOIB_HALF_OPEN_PROVEN:
		/* Don't look at it again. */
		list_del_init(&conn->answered);
		list_del_init(&conn->answered_lid);
		ipoib_conn_notify(conn, IPOIB_CONN_EV_RTU);
		break;
	case IPOIB_HALF_OPEN_WAIT:
		break;
	}
	return false;
}

/* Make room for a half-open connection. */
static bool ipoib_cm_give_one_up(struct ipoib_cm *cm)
{
	struct ipoib_conn *conn, *next;
	u32 n = 0;

	lockdep_assert_held(&cm->lock);
	list_for_each_entry_safe(conn, next, &cm->answered, answered)
		if (ipoib_conn_give_up(conn))
			return true;
		else if (++n >= IPOIB_CM_GIVE_UP_LOOK)
			break;
	return false;
}

/* ---- admission --------------------------------------------------------- */

/* Limit on connections that peers may open. */
u32 ipoib_cm_limit(struct ipoib_dev *dev)
{
	u32 qps = dev->port->ca->attrs.max_qp / IPOIB_CM_QP_SHARE;
	u32 limit = min_t(u32, IPOIB_CM_MAX_PASSIVE,
			  max_t(u32, qps, IPOIB_CM_LID_LEAST));

	return dev->port->cm->srq ? limit :
				    min(limit, ipoib_max_nonsrq_conn_qp);
}

static bool ipoib_conn_is_of(const struct ipoib_conn *conn,
			     const struct ipoib_conn *other)
{
	return other->from && other->from->lid == conn->lid &&
	       !memcmp(&other->gid, &conn->gid, sizeof(conn->gid));
}

/* Count the connections that the sender of a request already has. */
static void ipoib_cm_use_of(struct ipoib_cm *cm, const struct ipoib_conn *conn,
			    const struct ipoib_cm_lid *from,
			    struct ipoib_cm_usage *use)
{
	struct ipoib_conn *other;

	lockdep_assert_held(&cm->lock);
	*use = (struct ipoib_cm_usage) { .all = cm->passive };
	if (!from)
		return;
	use->lid = from->num;
	use->lid_half_open = from->half_open;
	hlist_for_each_entry(other, ipoib_cm_by_gid(cm, &conn->gid), by_gid) {
		if (!ipoib_conn_is_of(conn, other))
			continue;
		use->peer++;
		use->peer_half_open += other->half_open;
	}
}

/* Make room for one more from a LID; if @request is given, from its GID. */
static bool ipoib_cm_lid_give_up(struct ipoib_cm_lid *from,
				 const struct ipoib_conn *request)
{
	struct ipoib_conn *conn, *next;

	list_for_each_entry_safe(conn, next, &from->answered, answered_lid)
		if ((!request || ipoib_conn_is_of(request, conn)) &&
		    ipoib_conn_give_up(conn))
			return true;
	return false;
}

/* 0 if the sender of a request may have another connection. */
static int ipoib_cm_peer_may(struct ipoib_cm *cm, const struct ipoib_conn *conn,
			     struct ipoib_cm_lid *from,
			     const struct ipoib_cm_limits *limits)
{
	struct ipoib_cm_usage use;
	bool peer;
	int ret;

	ipoib_cm_use_of(cm, conn, from, &use);
	ret = ipoib_cm_admit(&use, limits);
	if (ret != -EAGAIN)
		return ret;
	/* Connections of a GID also count for its LID. */
	peer = use.peer_half_open >= limits->peer_half_open;
	return ipoib_cm_lid_give_up(from, peer ? conn : NULL) ? 0 : ret;
}

int ipoib_conn_add_passive(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct ipoib_cm_limits limits;
	struct ipoib_cm_lid *from;
	int ret;

	lockdep_assert_held(&cm->lock);
	ipoib_cm_get_limits(ipoib_cm_limit(cm->dev), &limits);
	from = ipoib_cm_find_lid(cm, conn->lid);
	ret = ipoib_cm_peer_may(cm, conn, from, &limits);
	if (ret) {
		cm->stats.limited += ret != -ENOSPC;
		return ret;
	}
	if (cm->num_half_open >= limits.half_open &&
	    !ipoib_cm_give_one_up(cm)) {
		cm->stats.half_open_refused++;
		return -EAGAIN;
	}
	ret = ipoib_conn_enter(conn, from);
	if (ret)
		return ret;
	cm->passive++;
	cm->num_half_open++;
	conn->from->half_open++;
	conn->half_open = true;
	return 0;
}

/* ---- connections that peers have replaced ------------------------------ */

/* True if @other was opened by the peer of @conn and is not being closed. */
static bool ipoib_conn_same_peer(const struct ipoib_conn *other,
				 const struct ipoib_conn *conn)
{
	return other != conn && other->state != IPOIB_CONN_CLOSING &&
	       other->peer.qpn == conn->peer.qpn &&
	       !memcmp(&other->gid, &conn->gid, sizeof(other->gid));
}

/*
 * The peer has shown that it got our reply.  Connections that it opened before
 * are closed once they are idle, or at once if there are many.  GID and QPN are
 * only claimed by the peer, but the reply was sent to its LID: only connections
 * from the same LID are closed at once.
 */
void ipoib_conn_proven(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct ipoib_conn *old;
	u32 n = 0;

	spin_lock_bh(&cm->lock);
	ipoib_conn_settle(conn);
	hlist_for_each_entry(old, ipoib_cm_by_gid(cm, &conn->gid), by_gid) {
		if (!ipoib_conn_same_peer(old, conn) ||
		    old->state != IPOIB_CONN_UP)
			continue;
		old->superseded = true;
		if (old->lid == conn->lid && ++n >= IPOIB_CM_KEEP_OLD)
			ipoib_conn_notify(old, IPOIB_CONN_EV_CLOSE);
	}
	spin_unlock_bh(&cm->lock);
}

/*
 * The peer no longer responds.  Close the connections that it opened: at once
 * unless used very recently, else as soon as they are idle.  If the peer is
 * alive after all, it opens a new one.
 */
void ipoib_conn_peer_died(struct ipoib_conn *conn)
{
	unsigned long since = jiffies - IPOIB_CONN_SILENT;
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct ipoib_conn *other;

	spin_lock_bh(&cm->lock);
	hlist_for_each_entry(other, ipoib_cm_by_gid(cm, &conn->gid), by_gid) {
		if (!ipoib_conn_same_peer(other, conn))
			continue;
		other->superseded = true;
		if (time_before(READ_ONCE(other->used), since))
			ipoib_conn_notify(other, IPOIB_CONN_EV_CLOSE);
	}
	spin_unlock_bh(&cm->lock);
}

/* ---- life cycle -------------------------------------------------------- */

int ipoib_cm_make_peers(struct ipoib_cm *cm)
{
	struct ipoib_cm_peers *peers;

	peers = kvzalloc_objs(*peers, 1);
	if (!peers)
		return -ENOMEM;
	peers->seed = get_random_u32();
	cm->peers = peers;
	return 0;
}

void ipoib_cm_free_peers(struct ipoib_cm *cm)
{
	kvfree(cm->peers);
	cm->peers = NULL;
}
