// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connected mode: opening, accepting and closing reliable connections
 *
 * A neighbour whose address has the RC flag gets a connection when there is a
 * packet for it.  Each side sends on connections that it opened itself, never
 * on those its peer did: deployed peers take no data there.  A connection is
 * one QP and one handle of the CM and is never used again; what outlives it,
 * such as packets that wait and how often the peer refused, is in the link.
 *
 * One work item per interface does all that takes time: it makes QPs, moves
 * them, answers peers and takes connections down, several at once; a stop does
 * the same in its own context.  The CM's
 * and the HCA's callbacks only note what happened.  CM handles are destroyed
 * by another work item, because that waits for the management QP.
 *
 * Objects: struct ipoib_cm (one interface), struct ipoib_link (one neighbour),
 * struct ipoib_conn.  Locks: ipoib_cm.run, a mutex, for what the work item
 * does; it nests inside rtnl and ipoib_dev.lock, and neither is taken under it.
 * ipoib_link.lock, then ipoib_cm.lock: spinlocks taken with BHs disabled.
 *
 * RFC 4755 sections 3 (connections) and 6 (service ID, private data); IBA
 * volume 1 chapter 12 (communication management).
 */
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/jhash.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <net/icmp.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_drain.h"
#include "ipoib_trace.h"

/* IBA volume 1 section 12.7: 4.096 us times two to the power of this. */
#define IPOIB_CM_RESPONSE	17	/* half a second for the peer's CM */
#define IPOIB_CM_RETRIES	4
#define IPOIB_CM_LIFETIME	14	/* most that a packet is thought to take */
#define IPOIB_RC_TIMEOUT	16	/* most that an acknowledgment takes */
#define IPOIB_RC_RETRIES	5
#define IPOIB_RC_RNR_FOREVER	7
#define IPOIB_RC_RNR_TIMER	12	/* 0.64 ms, IBA volume 1 table 45 */

#define IPOIB_CONN_CHECK	(2 * HZ)
#define IPOIB_CONN_STALL	(10 * HZ)
#define IPOIB_CONN_SHORT	HZ	/* a life that counts as a failure */
#define IPOIB_LINK_BREAKS	8	/* so many in a row before a pause */
#define IPOIB_CONN_GRACE	(10 * HZ)
#define IPOIB_CONN_SILENT	(HZ / 4)	/* less than sends are retried */
#define IPOIB_CM_KEEP_OLD	4	/* for each GID, LID and QPN */
#define IPOIB_CM_GIVE_UP_LOOK	16	/* so many for one to give up */

unsigned int ipoib_max_nonsrq_conn_qp = 128;
module_param_named(max_nonsrq_conn_qp, ipoib_max_nonsrq_conn_qp, uint, 0444);
MODULE_PARM_DESC(max_nonsrq_conn_qp,
		 "Connections an interface accepts on an HCA without SRQ");

static unsigned int ipoib_conn_idle_secs = 300;
module_param_named(conn_idle_timeout, ipoib_conn_idle_secs, uint, 0644);
MODULE_PARM_DESC(conn_idle_timeout,
		 "Seconds after which an unused connection is closed, 0: never");

/* ---- notes for the work item -------------------------------------------- */

static void ipoib_cm_kick(struct ipoib_cm *cm)
{
	mod_delayed_work(ipoib_wq, &cm->work, 0);
}

/**
 * ipoib_conn_notify - note something that happened to a connection
 * @conn: connection
 * @ev: what
 *
 * Context: any.
 */
void ipoib_conn_notify(struct ipoib_conn *conn, enum ipoib_conn_event ev)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	set_bit(ev, &conn->events);
	/* The work clears the bit before it looks at the events. */
	if (!test_and_set_bit(0, &conn->listed))
		llist_add(&conn->todo, &cm->todo);
	ipoib_cm_kick(cm);
}

static void ipoib_link_put(struct ipoib_link *link)
{
	if (refcount_dec_and_test(&link->ref))
		kfree_rcu(link, rcu);
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

/* ---- states ------------------------------------------------------------- */

/**
 * ipoib_link_move - change the state of a link
 * @link: link, its lock held
 * @to: new state
 */
void ipoib_link_move(struct ipoib_link *link, enum ipoib_link_state to)
{
	lockdep_assert_held(&link->lock);
	WARN_ON_ONCE(!ipoib_link_may_move(link->state, to));
	trace_ipoib_link_state(link, link->state, to);
	WRITE_ONCE(link->state, to);
}

/* By the work item only. */
static void ipoib_conn_move(struct ipoib_conn *conn, enum ipoib_conn_state to)
{
	WARN_ON_ONCE(!ipoib_conn_may_move(conn->state, to));
	trace_ipoib_conn_state(conn, conn->state, to);
	WRITE_ONCE(conn->state, to);
	conn->since = jiffies;
}

/* Without a connection: the next packet asks for one, when it may. */
static void ipoib_link_failed(struct ipoib_link *link)
{
	unsigned long delay = ipoib_link_delay(link->failures);

	lockdep_assert_held(&link->lock);
	link->failures++;
	link->failed = jiffies;
	link->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_link_move(link, IPOIB_LINK_BACKOFF);
}

static void ipoib_link_take_waiting(struct ipoib_link *link,
				    struct sk_buff_head *list)
{
	lockdep_assert_held(&link->lock);
	skb_queue_splice_tail_init(&link->waiting, list);
	WRITE_ONCE(link->waiting_bytes, 0);
}

/* Packets that were to be sent go back to the front of those that wait. */
static void ipoib_link_return(struct ipoib_link *link,
			      struct sk_buff_head *list)
{
	struct sk_buff *skb;
	u32 bytes = 0;

	lockdep_assert_held(&link->lock);
	if (link->dead)
		return;
	skb_queue_walk(list, skb)
		bytes += skb->len;
	skb_queue_splice_init(list, &link->waiting);
	WRITE_ONCE(link->waiting_bytes, link->waiting_bytes + bytes);
}

/* ---- finding connections ------------------------------------------------ */

/*
 * The connection behind @conn in the interface's list, or the first.  None
 * leaves the list without cm->run, which is held; so the spinlock need not be
 * kept, and BHs run, however long the list is.
 */
static struct ipoib_conn *ipoib_cm_next(struct ipoib_cm *cm,
					struct ipoib_conn *conn)
{
	struct list_head *entry = conn ? &conn->entry : &cm->conns;

	lockdep_assert_held(&cm->run);
	cond_resched();
	spin_lock_bh(&cm->lock);
	entry = entry->next;
	spin_unlock_bh(&cm->lock);
	return entry == &cm->conns ? NULL :
	       list_entry(entry, struct ipoib_conn, entry);
}

#define ipoib_cm_for_each(conn, cm)					\
	for (conn = ipoib_cm_next(cm, NULL); conn;			\
	     conn = ipoib_cm_next(cm, conn))

/* Those that peers opened, with this GID and some others; the newest first. */
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

/* Its LID has another connection. */
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

static void ipoib_conn_leave(struct ipoib_conn *conn)
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

/* ---- QPs ---------------------------------------------------------------- */

static void ipoib_conn_qp_event(struct ib_event *event, void *ctx)
{
	struct ipoib_qp *qp = ctx;
	struct ipoib_conn *conn = container_of(qp, struct ipoib_conn, qp);

	switch (event->event) {
	case IB_EVENT_QP_LAST_WQE_REACHED:
		complete(&conn->last_wqe);
		break;
	case IB_EVENT_COMM_EST:
		/* The peer sends already: its RTU may have been lost. */
		ipoib_conn_notify(conn, IPOIB_CONN_EV_RTU);
		break;
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		ipoib_conn_notify(conn, IPOIB_CONN_EV_BROKEN);
		break;
	default:
		break;
	}
}

static int ipoib_conn_create_qp(struct ipoib_conn *conn)
{
	struct ipoib_dev *dev = conn->qp.dev;
	struct ipoib_port *port = dev->port;
	struct ib_qp_init_attr attr = {
		.event_handler = ipoib_conn_qp_event,
		.qp_context = &conn->qp,
		.cap.max_send_wr = 1,	/* the marker of a drain */
		.cap.max_send_sge = 1,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp;
	int ret;

	if (ipoib_conn_is_active(conn)) {
		attr.cap.max_send_wr = conn->ring.size;
		attr.cap.max_send_sge = dev->ud.max_sge;
	} else if (conn->rxq) {
		attr.cap.max_recv_wr = conn->rxq->size;
		attr.cap.max_recv_sge = conn->rxq->format->num;
	} else {
		attr.srq = conn->qp.rxq->srq;
	}
	ret = ipoib_cq_get(conn->qp.ch, &conn->cqs, &attr);
	if (ret)
		return ret;
	qp = ib_create_qp(port->pd, &attr);
	if (IS_ERR(qp)) {
		ipoib_cq_put(conn->qp.ch, &conn->cqs);
		return PTR_ERR(qp);
	}
	conn->qp.ib = qp;
	return 0;
}

static int ipoib_conn_to_init(struct ipoib_conn *conn)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = conn->qp.dev->ud.pkey_index,
		.port_num = conn->qp.dev->port->num,
	};

	return ib_modify_qp(conn->qp.ib, &attr, IB_QP_STATE |
			    IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_ACCESS_FLAGS);
}

/* As the CM negotiated, but for what we know better. */
static int ipoib_conn_to_rts(struct ipoib_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTR };
	int mask, ret;

	ret = ib_cm_init_qp_attr(conn->id, &attr, &mask);
	if (ret)
		return ret;
	attr.min_rnr_timer = IPOIB_RC_RNR_TIMER;
	conn->qp.live = true;
	ret = ib_modify_qp(conn->qp.ib, &attr, mask);
	if (ret)
		return ret;

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IB_QPS_RTS;
	ret = ib_cm_init_qp_attr(conn->id, &attr, &mask);
	if (ret)
		return ret;
	attr.timeout = min_t(u8, attr.timeout, IPOIB_RC_TIMEOUT);
	return ib_modify_qp(conn->qp.ib, &attr, mask);
}

/* ---- connections -------------------------------------------------------- */

static struct ipoib_conn *ipoib_conn_alloc(struct ipoib_dev *dev,
					   enum ipoib_qp_kind kind)
{
	struct ipoib_conn *conn;

	conn = kzalloc_obj(*conn);
	if (!conn)
		return NULL;
	refcount_inc(&dev->cm->users);
	conn->qp.kind = kind;
	conn->qp.dev = dev;
	init_completion(&conn->qp.drained);
	init_completion(&conn->last_wqe);
	INIT_LIST_HEAD(&conn->entry);
	INIT_LIST_HEAD(&conn->answered);
	INIT_LIST_HEAD(&conn->answered_lid);
	INIT_HLIST_NODE(&conn->by_gid);
	conn->since = jiffies;
	conn->used = jiffies;
	return conn;
}

static void ipoib_cm_put(struct ipoib_cm *cm)
{
	if (refcount_dec_and_test(&cm->users))
		complete(&cm->unused);
}

static void ipoib_conn_free(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	ipoib_tx_ring_free(&conn->ring);
	ipoib_conn_free_rxq(conn);
	if (conn->link)
		ipoib_link_put(conn->link);
	kfree_rcu(conn, rcu);
	ipoib_cm_put(cm);
}

/* How many connections peers may open. */
static u32 ipoib_cm_limit(struct ipoib_dev *dev)
{
	u32 qps = dev->port->ca->attrs.max_qp / IPOIB_CM_QP_SHARE;
	u32 limit = min_t(u32, IPOIB_CM_MAX_PASSIVE,
			  max_t(u32, qps, IPOIB_CM_LID_LEAST));

	return dev->port->cm->srq ? limit :
				    min(limit, ipoib_max_nonsrq_conn_qp);
}

/* It is proven or given up: no longer half-open. */
static void ipoib_conn_settle(struct ipoib_conn *conn)
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

static bool ipoib_conn_is_of(const struct ipoib_conn *conn,
			     const struct ipoib_conn *other)
{
	return other->from && other->from->lid == conn->lid &&
	       !memcmp(&other->gid, &conn->gid, sizeof(conn->gid));
}

/* What the sender of a request has already. */
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

static enum ipoib_half_open ipoib_conn_judge(const struct ipoib_conn *conn,
					     bool noted)
{
	return ipoib_half_open_judge(jiffies, conn->since,
				     READ_ONCE(conn->used), noted);
}

/*
 * Can a connection that was answered make room?  One of which anything was noted
 * stays: of that the work item decides.
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
		/* Not to be looked at again */
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

/* Make room for one more from a LID; from the GID of a request, if it is given. */
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

/* May the sender of a request have another connection? */
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
	/* Those of a GID are the LID's, too. */
	peer = use.peer_half_open >= limits->peer_half_open;
	return ipoib_cm_lid_give_up(from, peer ? conn : NULL) ? 0 : ret;
}

static int ipoib_conn_add_passive(struct ipoib_conn *conn)
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

/* Into the list, unless the interface goes down or there are too many. */
static int ipoib_conn_add(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	int ret = 0;

	spin_lock_bh(&cm->lock);
	if (!cm->running)
		ret = -ENETDOWN;
	else if (ipoib_conn_is_active(conn))
		cm->active++;
	else
		ret = ipoib_conn_add_passive(conn);
	if (!ret)
		list_add_tail(&conn->entry, &cm->conns);
	spin_unlock_bh(&cm->lock);
	return ret;
}

static u32 ipoib_cm_private(struct ipoib_dev *dev,
			    struct ipoib_cm_private *data)
{
	return ipoib_cm_private_fill(data, dev->cm->qpn,
				     dev->port->cm->max_msg,
				     READ_ONCE(dev->cm->offload) ?
				     IPOIB_CM_CAPS : 0);
}

/* What both sides are willing to do. */
static void ipoib_conn_set_peer(struct ipoib_conn *conn,
				const struct ipoib_cm_peer *peer)
{
	conn->peer = *peer;
	if (!READ_ONCE(conn->qp.dev->cm->offload))
		conn->peer.caps = 0;
}

/* ---- opening ------------------------------------------------------------ */

static int ipoib_conn_handler(struct ib_cm_id *id,
			      const struct ib_cm_event *event);

static int ipoib_conn_send_req(struct ipoib_conn *conn)
{
	struct ipoib_dev *dev = conn->qp.dev;
	struct ipoib_cm_private data;
	struct sa_path_rec rec;
	struct ib_cm_req_param req = {
		.primary_path = &rec,
		.service_id = cpu_to_be64(ipoib_cm_service_id(
				ipoib_addr_qpn(conn->link->addr))),
		.qp_num = conn->qp.ib->qp_num,
		.qp_type = IB_QPT_RC,
		.starting_psn = get_random_u32() & IPOIB_QPN_MASK,
		.private_data = &data,
		.private_data_len = ipoib_cm_private(dev, &data),
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_cm_response_timeout = IPOIB_CM_RESPONSE,
		.local_cm_response_timeout = IPOIB_CM_RESPONSE,
		.flow_control = 1,
		.retry_count = IPOIB_RC_RETRIES,
		.rnr_retry_count = IPOIB_RC_RNR_FOREVER,
		.max_cm_retries = IPOIB_CM_RETRIES,
	};
	int ret;

	ret = ipoib_neigh_record(conn->link, &rec, conn->link->failures);
	if (ret)
		return ret;
	rec.packet_life_time = min_t(u8, rec.packet_life_time,
				     IPOIB_CM_LIFETIME);
	return ib_send_cm_req(conn->id, &req);
}

static int ipoib_conn_open(struct ipoib_conn *conn)
{
	struct ipoib_dev *dev = conn->qp.dev;
	struct ib_cm_id *id;
	int ret;

	ret = ipoib_tx_ring_alloc(&conn->ring, dev->port->ca,
				  min_t(u32, IPOIB_RC_RING,
					dev->port->sendq_size));
	if (ret)
		return ret;
	ret = ipoib_conn_create_qp(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_to_init(conn);
	if (ret)
		return ret;
	id = ib_create_cm_id(dev->port->ca, ipoib_conn_handler, conn);
	if (IS_ERR(id))
		return PTR_ERR(id);
	conn->id = id;
	ret = ipoib_conn_send_req(conn);
	if (ret)
		return ret;
	ipoib_conn_move(conn, IPOIB_CONN_ASKED);
	return 0;
}

/* A link wants a connection. */
static struct ipoib_conn *ipoib_link_connect(struct ipoib_link *link)
{
	struct ipoib_dev *dev = link->dev;
	struct sk_buff_head waiting;
	struct ipoib_conn *conn;

	conn = ipoib_conn_alloc(dev, IPOIB_QP_TX);
	if (conn) {
		refcount_inc(&link->ref);
		conn->link = link;
		conn->qp.txq = ipoib_link_txq(link);
		conn->qp.ch = conn->qp.txq->qp.ch;
		memcpy(conn->gid.raw, link->addr + 4, sizeof(conn->gid));
		if (ipoib_conn_add(conn)) {
			ipoib_conn_free(conn);
			conn = NULL;
		}
	}
	__skb_queue_head_init(&waiting);
	spin_lock_bh(&link->lock);
	if (conn && link->dead) {
		ipoib_conn_notify(conn, IPOIB_CONN_EV_CLOSE);
		conn = NULL;
	} else if (conn) {
		link->conn = conn;
		ipoib_link_move(link, IPOIB_LINK_CONNECTING);
	} else {
		dev->cm->stats.open_failures++;
		ipoib_link_failed(link);
		ipoib_link_take_waiting(link, &waiting);
	}
	spin_unlock_bh(&link->lock);
	ipoib_rc_resend(&waiting);
	return conn;
}

/* The peer agreed: the connection can be used. */
static int ipoib_conn_establish(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;
	struct sk_buff_head waiting;
	int ret;

	ret = ipoib_conn_to_rts(conn);
	if (ret)
		return ret;
	ret = ib_send_cm_rtu(conn->id, NULL, 0);
	if (ret)
		return ret;
	ipoib_conn_move(conn, IPOIB_CONN_UP);
	conn->used = jiffies;
	conn->seen_at = jiffies;

	__skb_queue_head_init(&waiting);
	spin_lock_bh(&link->lock);
	if (link->conn == conn) {
		link->caps = conn->peer.caps;
		link->max_msg = conn->peer.max_msg;
		link->failures = 0;
		link->refused = 0;
		ipoib_link_move(link, IPOIB_LINK_UP);
		ipoib_link_take_waiting(link, &waiting);
	}
	spin_unlock_bh(&link->lock);
	conn->qp.dev->cm->stats.opened++;
	ipoib_rc_resend(&waiting);
	return 0;
}

/* ---- accepting ---------------------------------------------------------- */

/* Did the peer of @conn open this other one, too? */
static bool ipoib_conn_same_peer(const struct ipoib_conn *other,
				 const struct ipoib_conn *conn)
{
	return other != conn && other->state != IPOIB_CONN_CLOSING &&
	       other->peer.qpn == conn->peer.qpn &&
	       !memcmp(&other->gid, &conn->gid, sizeof(other->gid));
}

/*
 * The peer has shown that it got our reply.  Connections that it opened before
 * are closed when they are idle, and at once if there are many.  GID and QPN
 * are what the peer says, but the reply went to its LID: nobody closes what
 * came from another.
 */
static void ipoib_conn_proven(struct ipoib_conn *conn)
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
	ipoib_conn_move(conn, IPOIB_CONN_UP);
}

static int ipoib_conn_send_rep(struct ipoib_conn *conn)
{
	struct ipoib_dev *dev = conn->qp.dev;
	struct ipoib_cm_private data;
	struct ib_cm_rep_param rep = {
		.qp_num = conn->qp.ib->qp_num,
		.starting_psn = get_random_u32() & IPOIB_QPN_MASK,
		.private_data = &data,
		.private_data_len = ipoib_cm_private(dev, &data),
		.responder_resources = 1,
		.initiator_depth = 1,
		.flow_control = 1,
		.rnr_retry_count = IPOIB_RC_RNR_FOREVER,
		.srq = !conn->rxq,
	};

	return ib_send_cm_rep(conn->id, &rep);
}

static int ipoib_conn_accept(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	int ret;

	ret = ipoib_conn_create_rxq(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_create_qp(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_to_init(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_fill_rxq(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_to_rts(conn);
	if (ret)
		return ret;
	ret = ipoib_conn_send_rep(conn);
	if (ret)
		return ret;
	cm->stats.accepted++;
	ipoib_conn_move(conn, IPOIB_CONN_ANSWERED);
	spin_lock_bh(&cm->lock);
	list_add_tail(&conn->answered, &cm->answered);
	list_add_tail(&conn->answered_lid, &conn->from->answered);
	spin_unlock_bh(&cm->lock);
	return 0;
}

static void ipoib_conn_refuse(struct ipoib_conn *conn)
{
	conn->qp.dev->cm->stats.refused++;
	ib_send_cm_rej(conn->id, IB_CM_REJ_NO_RESOURCES, NULL, 0, NULL, 0);
}

/* Is a request one that a decent peer of this link sends? */
static int ipoib_cm_check_req(struct ipoib_dev *dev,
			      const struct ib_cm_event *event,
			      struct ipoib_cm_peer *peer)
{
	const struct ib_cm_req_event_param *req = &event->param.req_rcvd;

	if (req->qp_type != IB_QPT_RC ||
	    ipoib_pkey_full(be16_to_cpu(req->primary_path->pkey)) != dev->pkey)
		return -EINVAL;
	return ipoib_cm_private_parse(peer, event->private_data,
				      IB_CM_REQ_PRIVATE_DATA_SIZE);
}

/* A request came in.  The CM rejects it if an error is returned. */
static int ipoib_cm_request(struct ib_cm_id *id,
			    const struct ib_cm_event *event)
{
	struct ipoib_dev *dev = id->context;
	struct ipoib_cm_peer peer;
	struct ipoib_conn *conn;
	int ret;

	ret = ipoib_cm_check_req(dev, event, &peer);
	if (ret) {
		dev->cm->stats.malformed++;
		goto err_refuse;
	}
	ret = -ENOBUFS;
	conn = ipoib_conn_alloc(dev, IPOIB_QP_RX);
	if (!conn)
		goto err_busy;
	ipoib_conn_set_peer(conn, &peer);
	conn->gid = event->param.req_rcvd.primary_path->dgid;
	conn->lid = be32_to_cpu(sa_path_get_dlid(
				event->param.req_rcvd.primary_path));
	conn->id = id;
	ret = ipoib_conn_add(conn);
	if (ret) {
		if (ret == -ENOSPC)
			net_ratelimited_function(netdev_warn, dev->ndev,
						 "refused a connection: there are %u already%s\n",
						 ipoib_cm_limit(dev),
						 dev->port->cm->srq ? "" :
						 ", see max_nonsrq_conn_qp");
		ipoib_conn_free(conn);
		goto err_busy;
	}
	id->context = conn;
	id->cm_handler = ipoib_conn_handler;
	ipoib_conn_notify(conn, IPOIB_CONN_EV_OPEN);
	return 0;

err_busy:
	/* Half-open ones are soon fewer: let the peer ask more often. */
	ib_send_cm_rej(id, ret == -EAGAIN ? IB_CM_REJ_CONSUMER_DEFINED :
					    IB_CM_REJ_NO_RESOURCES,
		       NULL, 0, NULL, 0);
err_refuse:
	dev->cm->stats.refused++;
	return ret;
}

/* ---- the CM's callbacks ------------------------------------------------- */

static int ipoib_cm_listen_handler(struct ib_cm_id *id,
				   const struct ib_cm_event *event)
{
	unsigned int noio = memalloc_noio_save();
	int ret = 0;

	if (event->event == IB_CM_REQ_RECEIVED)
		ret = ipoib_cm_request(id, event);
	memalloc_noio_restore(noio);
	return ret;
}

static void ipoib_conn_rep(struct ipoib_conn *conn,
			   const struct ib_cm_event *event)
{
	struct ipoib_cm_peer peer;

	if (ipoib_cm_private_parse(&peer, event->private_data,
				   IB_CM_REP_PRIVATE_DATA_SIZE)) {
		conn->qp.dev->cm->stats.malformed++;
		ipoib_conn_notify(conn, IPOIB_CONN_EV_REJ);
		return;
	}
	ipoib_conn_set_peer(conn, &peer);
	ipoib_conn_notify(conn, IPOIB_CONN_EV_REP);
}

static int ipoib_conn_handler(struct ib_cm_id *id,
			      const struct ib_cm_event *event)
{
	struct ipoib_conn *conn = id->context;

	switch (event->event) {
	case IB_CM_REP_RECEIVED:
		ipoib_conn_rep(conn, event);
		break;
	case IB_CM_RTU_RECEIVED:
	case IB_CM_USER_ESTABLISHED:
		ipoib_conn_notify(conn, IPOIB_CONN_EV_RTU);
		break;
	case IB_CM_REJ_RECEIVED:
		conn->reject = event->param.rej_rcvd.reason;
		ipoib_conn_notify(conn, IPOIB_CONN_EV_REJ);
		break;
	case IB_CM_REQ_ERROR:
	case IB_CM_REP_ERROR:
		ipoib_conn_notify(conn, IPOIB_CONN_EV_TIMEOUT);
		break;
	case IB_CM_DREQ_RECEIVED:
		ipoib_conn_notify(conn, IPOIB_CONN_EV_DREQ);
		break;
	default:
		break;
	}
	return 0;
}

/* ---- closing ------------------------------------------------------------ */

/*
 * How much a REJ says that a peer takes no connections.  One without a service
 * ID does not listen: it may be down for a moment, or in datagram mode, of
 * which ARP and neighbour discovery tell.  One that gave up a request before it
 * was done with it has too many at the moment.  One that is out of QPs is asked
 * a few times; one with too many half-open connections more often.
 */
static u32 ipoib_link_refusal(int reason)
{
	switch (reason) {
	case IB_CM_REJ_TIMEOUT:
	case IB_CM_REJ_STALE_CONN:
		return 0;
	case IB_CM_REJ_INVALID_SERVICE_ID:
	case IB_CM_REJ_CONSUMER_DEFINED:
		return 1;
	default:
		return 2;
	}
}

/* Note that the peer of a link refused. */
static void ipoib_link_rejected(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;

	if (!link)
		return;
	spin_lock_bh(&link->lock);
	link->refused += ipoib_link_refusal(conn->reject);
	spin_unlock_bh(&link->lock);
}

/* What becomes of the link of a connection that ends. */
static void ipoib_link_lose(struct ipoib_conn *conn, bool failed, bool again)
{
	struct ipoib_link *link = conn->link;
	bool young = time_before(jiffies, conn->since + IPOIB_CONN_SHORT);
	bool was_up = conn->state == IPOIB_CONN_UP;

	spin_lock_bh(&link->lock);
	WRITE_ONCE(conn->broken, true);
	if (link->conn != conn)
		goto unlock;
	link->conn = NULL;
	link->caps = 0;
	if (was_up && !young)
		link->breaks = 0;
	if (was_up && !failed) {
		ipoib_link_move(link, IPOIB_LINK_IDLE);
	} else if (again && link->breaks < IPOIB_LINK_BREAKS) {
		/* At once, so that what waits need not be given up. */
		link->breaks++;
		ipoib_link_move(link, IPOIB_LINK_WANTED);
		ipoib_link_notify(link);
	} else {
		ipoib_link_failed(link);
	}
unlock:
	spin_unlock_bh(&link->lock);
}

/* Packets that a connection did not send, and those that waited for it. */
static void ipoib_conn_requeue(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct sk_buff_head left;

	__skb_queue_head_init(&left);
	ipoib_rc_purge(conn, &left);
	cm->stats.requeued += skb_queue_len(&left);
	spin_lock_bh(&link->lock);
	if (link->state == IPOIB_LINK_WANTED ||
	    link->state == IPOIB_LINK_CONNECTING)
		/* Before what came later, and however much it is. */
		ipoib_link_return(link, &left);
	else
		ipoib_link_take_waiting(link, &left);
	spin_unlock_bh(&link->lock);
	if (READ_ONCE(cm->running))
		ipoib_rc_resend(&left);
	while (!skb_queue_empty(&left))
		ipoib_drop(conn->qp.dev->ndev, __skb_dequeue(&left),
			   SKB_DROP_REASON_NOT_SPECIFIED);
}

/* QP to ERR, unless it never was able to send or receive. */
static void ipoib_conn_begin_drain(struct ipoib_conn *conn)
{
	if (!conn->qp.live)
		return;
	conn->qp.last_wqe = conn->qp.ib->srq ? &conn->last_wqe : NULL;
	ipoib_drain_begin(&conn->qp);
}

static void ipoib_conn_destroy_qp(struct ipoib_conn *conn)
{
	ipoib_drain_destroy_qp(&conn->qp);
	ipoib_cq_put(conn->qp.ch, &conn->cqs);
}

/* From now on the CM's callbacks note what nobody looks at. */
static void ipoib_conn_reap(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	llist_add(&conn->todo, &cm->reap);
	queue_work(ipoib_wq, &cm->reap_work);
}

/* The QP is gone; the CM's handle goes when the management QP lets it. */
static void ipoib_conn_bury(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	ipoib_conn_move(conn, IPOIB_CONN_DEAD);
	spin_lock_bh(&cm->lock);
	if (ipoib_conn_is_active(conn)) {
		cm->active--;
	} else {
		cm->passive--;
		ipoib_conn_leave(conn);
	}
	spin_unlock_bh(&cm->lock);
	/* If it is in the list of those with events, they are waited for. */
	if (!test_and_set_bit(0, &conn->listed))
		ipoib_conn_reap(conn);
}

/* Take down all connections of a list at once. */
static void ipoib_conns_close(struct list_head *list)
{
	struct ipoib_drain drain;
	struct ipoib_conn *conn;

	if (list_empty(list))
		return;
	ipoib_drain_init(&drain);
	list_for_each_entry(conn, list, entry)
		ipoib_conn_begin_drain(conn);
	list_for_each_entry(conn, list, entry)
		ipoib_drain_add(&drain, &conn->qp);
	ipoib_drain_wait(&drain);
	list_for_each_entry(conn, list, entry)
		ipoib_conn_detach_rxq(conn);
	ipoib_drain_reset(&drain, false);
	list_for_each_entry(conn, list, entry) {
		ipoib_conn_destroy_qp(conn);
		/* What follows may take long, and outlive the port's pools. */
		ipoib_conn_free_rxq(conn);
	}
}

/* ---- the work item ------------------------------------------------------ */

static void ipoib_conn_close(struct ipoib_conn *conn, struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	spin_lock_bh(&cm->lock);
	ipoib_conn_settle(conn);
	list_move_tail(&conn->entry, closing);
	spin_unlock_bh(&cm->lock);
	ipoib_conn_move(conn, IPOIB_CONN_CLOSING);
}

/* Try a connection that could not be opened again, at once or later. */
static void ipoib_conn_fail(struct ipoib_conn *conn, bool again,
			    struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	if (ipoib_conn_is_active(conn)) {
		if (conn->state != IPOIB_CONN_UP)
			cm->stats.open_failures++;
		ipoib_link_lose(conn, true, again);
	}
	ipoib_conn_close(conn, closing);
}

static void ipoib_conn_begin(struct ipoib_conn *conn, struct list_head *closing)
{
	int ret;

	if (ipoib_conn_is_active(conn)) {
		ret = ipoib_conn_open(conn);
		if (ret) {
			ipoib_dbg(conn->qp.dev, "no connection: %pe\n",
				  ERR_PTR(ret));
			ipoib_conn_fail(conn, false, closing);
		}
		return;
	}
	if (!ipoib_conn_accept(conn))
		return;
	ipoib_conn_refuse(conn);
	ipoib_conn_close(conn, closing);
}

/*
 * The peer answers nothing any more.  What it opened is closed: at once unless
 * it has just been used, else soon unless it goes on to be.  If the peer lives
 * after all, it opens another.
 */
static void ipoib_conn_peer_died(struct ipoib_conn *conn)
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

static void ipoib_conn_broke(struct ipoib_conn *conn, struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct sa_path_rec rec;

	cm->stats.broken++;
	ipoib_dbg(conn->qp.dev, "connection %#x broke: %s\n",
		  conn->qp.ib->qp_num, ib_wc_status_msg(conn->status));
	if (conn->link && conn->status == IB_WC_RETRY_EXC_ERR) {
		/* Nobody answers there: the peer may have another LID. */
		ipoib_neigh_record(conn->link, &rec, true);
		ipoib_conn_peer_died(conn);
	}
	ipoib_conn_fail(conn, true, closing);
}

/* The peer confirmed a half-open connection, or it is to be given up. */
static void ipoib_conn_decide(struct ipoib_conn *conn, bool rtu,
			      struct list_head *closing)
{
	if (rtu || ipoib_conn_judge(conn, false) == IPOIB_HALF_OPEN_PROVEN) {
		ib_cm_notify(conn->id, IB_EVENT_COMM_EST);
		ipoib_conn_proven(conn);
		return;
	}
	conn->qp.dev->cm->stats.half_open_dropped++;
	ipoib_conn_close(conn, closing);
}

/* Act on what was noted; the first that ends the connection wins. */
static void ipoib_conn_handle(struct ipoib_conn *conn,
			      struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	unsigned long events;
	bool active = ipoib_conn_is_active(conn);

	if (conn->state == IPOIB_CONN_DEAD) {
		ipoib_conn_reap(conn);
		return;
	}
	/* Fully ordered: what is noted from here on is listed again. */
	test_and_clear_bit(0, &conn->listed);
	events = xchg(&conn->events, 0);

	if (events & BIT(IPOIB_CONN_EV_CLOSE)) {
		if (active)
			ipoib_link_lose(conn, false, false);
		ipoib_conn_close(conn, closing);
	} else if (events & BIT(IPOIB_CONN_EV_REJ)) {
		cm->stats.rejected++;
		ipoib_link_rejected(conn);
		/* With another QP a stale connection is none. */
		ipoib_conn_fail(conn, conn->reject == IB_CM_REJ_STALE_CONN,
				closing);
	} else if (events & BIT(IPOIB_CONN_EV_TIMEOUT)) {
		ipoib_conn_fail(conn, false, closing);
	} else if (events & BIT(IPOIB_CONN_EV_DREQ)) {
		cm->stats.closed_by_peer++;
		if (active)
			ipoib_link_lose(conn, false, false);
		ipoib_conn_close(conn, closing);
	} else if (events & BIT(IPOIB_CONN_EV_BROKEN)) {
		ipoib_conn_broke(conn, closing);
	} else if (events & BIT(IPOIB_CONN_EV_OPEN)) {
		ipoib_conn_begin(conn, closing);
	} else if (events & BIT(IPOIB_CONN_EV_REP) &&
		   conn->state == IPOIB_CONN_ASKED) {
		if (ipoib_conn_establish(conn))
			ipoib_conn_fail(conn, false, closing);
	} else if (events & (BIT(IPOIB_CONN_EV_RTU) |
			     BIT(IPOIB_CONN_EV_GIVE_UP)) &&
		   conn->state == IPOIB_CONN_ANSWERED) {
		ipoib_conn_decide(conn, events & BIT(IPOIB_CONN_EV_RTU),
				  closing);
	}
}

static void ipoib_cm_handle_conns(struct ipoib_cm *cm,
				  struct list_head *closing)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&cm->todo));
	struct ipoib_conn *conn, *next;

	llist_for_each_entry_safe(conn, next, list, todo)
		ipoib_conn_handle(conn, closing);
}

static void ipoib_cm_handle_links(struct ipoib_cm *cm,
				  struct list_head *closing)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&cm->links));
	struct ipoib_link *link, *next;
	struct ipoib_conn *conn;

	llist_for_each_entry_safe(link, next, list, todo) {
		test_and_clear_bit(0, &link->listed);
		if (READ_ONCE(link->state) == IPOIB_LINK_WANTED &&
		    !READ_ONCE(link->dead)) {
			conn = ipoib_link_connect(link);
			if (conn)
				ipoib_conn_begin(conn, closing);
		}
		ipoib_link_put(link);
	}
}

/* Has nothing been sent for long although there is something to send? */
static bool ipoib_conn_stalled(struct ipoib_conn *conn)
{
	u32 tail = READ_ONCE(conn->tail);

	if (!ipoib_conn_is_active(conn) || conn->state != IPOIB_CONN_UP)
		return false;
	if (tail != conn->seen_tail || tail == READ_ONCE(conn->head)) {
		conn->seen_tail = tail;
		conn->seen_at = jiffies;
	}
	return time_after(jiffies, conn->seen_at + IPOIB_CONN_STALL);
}

static bool ipoib_conn_idle(const struct ipoib_conn *conn)
{
	unsigned long limit = READ_ONCE(ipoib_conn_idle_secs) * HZ;

	if (conn->state != IPOIB_CONN_UP)
		return false;
	if (conn->superseded)
		limit = IPOIB_CONN_GRACE;
	return limit && time_after(jiffies, READ_ONCE(conn->used) + limit);
}

static void ipoib_conn_check_proof(struct ipoib_conn *conn)
{
	enum ipoib_half_open fate = ipoib_conn_judge(conn, false);

	if (conn->state != IPOIB_CONN_ANSWERED)
		return;
	if (fate == IPOIB_HALF_OPEN_PROVEN)
		ipoib_conn_notify(conn, IPOIB_CONN_EV_RTU);
	else if (fate == IPOIB_HALF_OPEN_OVER)
		ipoib_conn_notify(conn, IPOIB_CONN_EV_GIVE_UP);
}

/* Once in a while: who stands still, who is not needed? */
static void ipoib_cm_check(struct ipoib_cm *cm)
{
	struct ipoib_conn *conn;

	ipoib_cm_for_each(conn, cm) {
		if (ipoib_conn_stalled(conn)) {
			cm->stats.stalled++;
			conn->status = IB_WC_RESP_TIMEOUT_ERR;
			ipoib_conn_notify(conn, IPOIB_CONN_EV_BROKEN);
		} else if (ipoib_conn_idle(conn)) {
			cm->stats.closed_idle++;
			ipoib_conn_notify(conn, IPOIB_CONN_EV_CLOSE);
		} else {
			ipoib_conn_check_proof(conn);
		}
	}
}

/*
 * Look at all connections if it is time to, not whenever something happens to
 * one of them: are there any left?
 */
static bool ipoib_cm_check_due(struct ipoib_cm *cm)
{
	unsigned long passed = jiffies - cm->checked;
	bool left;

	if (passed >= IPOIB_CONN_CHECK) {
		ipoib_cm_check(cm);
		cm->checked = jiffies;
		passed = 0;
	}
	spin_lock_bh(&cm->lock);
	left = !list_empty(&cm->conns);
	if (left)
		queue_delayed_work(ipoib_wq, &cm->work,
				   IPOIB_CONN_CHECK - passed);
	spin_unlock_bh(&cm->lock);
	return left;
}

static void ipoib_cm_close_all(struct ipoib_cm *cm)
{
	struct ipoib_conn *conn;

	ipoib_cm_for_each(conn, cm)
		ipoib_conn_notify(conn, IPOIB_CONN_EV_CLOSE);
}

/* Are there connections left? */
static bool ipoib_cm_run(struct ipoib_cm *cm)
{
	unsigned int noio = memalloc_noio_save();
	struct ipoib_conn *conn, *next;
	LIST_HEAD(closing);
	bool left;

	mutex_lock(&cm->run);
	if (test_and_clear_bit(0, &cm->renew))
		ipoib_cm_close_all(cm);
	ipoib_cm_handle_conns(cm, &closing);
	ipoib_cm_handle_links(cm, &closing);
	ipoib_conns_close(&closing);
	list_for_each_entry_safe(conn, next, &closing, entry) {
		list_del_init(&conn->entry);
		if (conn->link)
			ipoib_conn_requeue(conn);
		ipoib_conn_bury(conn);
	}
	left = ipoib_cm_check_due(cm);
	mutex_unlock(&cm->run);
	memalloc_noio_restore(noio);
	return left;
}

static void ipoib_cm_work(struct work_struct *work)
{
	ipoib_cm_run(container_of(work, struct ipoib_cm, work.work));
}

static void ipoib_cm_reap(struct ipoib_cm *cm)
{
	struct llist_node *list = llist_del_all(&cm->reap);
	struct ipoib_conn *conn, *next;

	llist_for_each_entry_safe(conn, next, list, todo) {
		if (conn->id)
			ib_destroy_cm_id(conn->id);
		ipoib_conn_free(conn);
	}
}

static void ipoib_cm_reap_work(struct work_struct *work)
{
	ipoib_cm_reap(container_of(work, struct ipoib_cm, reap_work));
}

static void ipoib_pmtu_send(struct sk_buff *skb)
{
	u32 mtu = *ipoib_pmtu_cb(skb);

	if (skb->protocol == htons(ETH_P_IPV6))
		icmpv6_ndo_send(skb, ICMPV6_PKT_TOOBIG, 0, mtu);
	else if (skb->protocol == htons(ETH_P_IP) &&
		 ip_hdr(skb)->frag_off & htons(IP_DF))
		icmp_ndo_send(skb, ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED,
			      htonl(mtu));
	kfree_skb_reason(skb, SKB_DROP_REASON_PKT_TOO_BIG);
}

static void ipoib_pmtu_work(struct work_struct *work)
{
	struct ipoib_cm *cm = container_of(work, struct ipoib_cm, pmtu_work);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&cm->pmtu)))
		ipoib_pmtu_send(skb);
}

/* ---- links -------------------------------------------------------------- */

/**
 * ipoib_link_create - a neighbour that takes connections
 * @dev: interface in connected mode
 * @neigh: neighbour, not in the table yet
 *
 * Context: path_lock held.
 * Return: link or NULL
 */
struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
				     struct ipoib_neigh *neigh)
{
	struct ipoib_link *link;

	lockdep_assert_held(&dev->port->path_lock);
	link = kzalloc_obj(*link, GFP_ATOMIC);
	if (!link)
		return NULL;
	spin_lock_init(&link->lock);
	refcount_set(&link->ref, 1);
	link->dev = dev;
	link->neigh = neigh;
	memcpy(link->addr, neigh->addr, INFINIBAND_ALEN);
	__skb_queue_head_init(&link->waiting);
	return link;
}

/**
 * ipoib_link_destroy - the neighbour goes
 * @link: its link; senders may still look at it under RCU
 *
 * Context: path_lock held.
 */
void ipoib_link_destroy(struct ipoib_link *link)
{
	struct sk_buff_head drop;

	lockdep_assert_held(&link->dev->port->path_lock);
	__skb_queue_head_init(&drop);
	link->neigh = NULL;
	spin_lock(&link->lock);
	link->dead = true;
	ipoib_link_take_waiting(link, &drop);
	if (link->conn)
		ipoib_conn_notify(link->conn, IPOIB_CONN_EV_CLOSE);
	spin_unlock(&link->lock);
	while (!skb_queue_empty(&drop))
		ipoib_drop(link->dev->ndev, __skb_dequeue(&drop),
			   SKB_DROP_REASON_NEIGH_FAILED);
	ipoib_link_put(link);
}

/**
 * ipoib_link_heard - the peer of a link is there
 * @link: link
 * @moved: it was not heard from where we would ask it
 *
 * A peer announces itself when it comes up.  Then the rest of a long back-off
 * is cut short, and it is asked again, but not more often than after a first
 * failure: whoever says that it is there need not be the peer.
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
				      READ_ONCE(link->dev->ud.lid), moved);
	if (link->state == IPOIB_LINK_BACKOFF && time_after(link->retry, soon))
		link->retry = soon;
	spin_unlock(&link->lock);
}

/**
 * ipoib_link_is_up - does a neighbour have a connection?
 * @link: its link; kept by RCU or path_lock
 */
bool ipoib_link_is_up(const struct ipoib_link *link)
{
	return READ_ONCE(link->state) == IPOIB_LINK_UP;
}

/* ---- interface ---------------------------------------------------------- */

/**
 * ipoib_cm_init - prepare an interface for connected mode
 * @dev: interface
 *
 * Costs next to nothing; what connections need is made when they are.
 *
 * Return: 0 or -ENOMEM
 */
int ipoib_cm_init(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm;

	cm = kzalloc_obj(*cm);
	if (!cm)
		return -ENOMEM;
	cm->dev = dev;
	refcount_set(&cm->users, 1);
	init_completion(&cm->unused);
	cm->offload = true;
	mutex_init(&cm->run);
	spin_lock_init(&cm->lock);
	INIT_LIST_HEAD(&cm->conns);
	INIT_LIST_HEAD(&cm->answered);
	cm->checked = jiffies;
	init_llist_head(&cm->todo);
	init_llist_head(&cm->links);
	init_llist_head(&cm->reap);
	skb_queue_head_init(&cm->pmtu);
	INIT_DELAYED_WORK(&cm->work, ipoib_cm_work);
	INIT_WORK(&cm->reap_work, ipoib_cm_reap_work);
	INIT_WORK(&cm->pmtu_work, ipoib_pmtu_work);
	dev->cm = cm;
	return 0;
}

/**
 * ipoib_cm_exit - undo ipoib_cm_init()
 * @dev: interface that is down and has left connected mode
 */
void ipoib_cm_exit(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;

	cancel_work_sync(&cm->pmtu_work);
	skb_queue_purge(&cm->pmtu);
	/*
	 * A callback of the CM may be about to list its connection: then it
	 * starts the work item afterwards, which has the connection freed.
	 * After the last one was freed there are no callbacks.
	 */
	ipoib_cm_kick(cm);
	ipoib_cm_put(cm);
	wait_for_completion(&cm->unused);
	cancel_work_sync(&cm->reap_work);
	cancel_delayed_work_sync(&cm->work);
	/* Links that were left */
	ipoib_cm_run(cm);
	WARN_ON_ONCE(!list_empty(&cm->conns));
	kfree(cm);
	dev->cm = NULL;
}

/**
 * ipoib_txq_connect - give a transmit queue what it takes to use connections
 * @txq: queue, of an interface that is not in connected mode yet or not in use
 *
 * It stays until the queue goes.
 *
 * Return: false if there is no memory
 */
bool ipoib_txq_connect(struct ipoib_txq *txq)
{
	if (!txq->rc)
		txq->rc = kzalloc_obj(*txq->rc);
	return txq->rc;
}

static int ipoib_cm_make_peers(struct ipoib_cm *cm)
{
	struct ipoib_cm_peers *peers;

	peers = kvzalloc_objs(*peers, 1);
	if (!peers)
		return -ENOMEM;
	peers->seed = get_random_u32();
	cm->peers = peers;
	return 0;
}

static void ipoib_cm_free_peers(struct ipoib_cm *cm)
{
	kvfree(cm->peers);
	cm->peers = NULL;
}

/**
 * ipoib_cm_enable - get what connected mode needs
 * @dev: interface
 *
 * Context: rtnl.
 * Return: 0 or -errno
 */
int ipoib_cm_enable(struct ipoib_dev *dev)
{
	int ret;
	u32 i;

	for (i = 0; i < dev->ud.num_txqs; i++)
		if (!ipoib_txq_connect(dev->ud.txqs[i]))
			return -ENOMEM;
	ret = ipoib_cm_make_peers(dev->cm);
	if (ret)
		return ret;
	ret = ipoib_cm_port_get(dev->port);
	if (ret)
		ipoib_cm_free_peers(dev->cm);
	return ret;
}

/**
 * ipoib_cm_disable - undo ipoib_cm_enable(); the connections have been stopped
 * @dev: interface
 *
 * Context: rtnl, or the interface is unregistered.
 */
void ipoib_cm_disable(struct ipoib_dev *dev)
{
	ipoib_cm_port_put(dev->port);
	ipoib_cm_free_peers(dev->cm);
}

/**
 * ipoib_cm_start - take connections
 * @dev: interface in connected mode whose channel and datagram QP run; may do so
 *	already
 *
 * Context: process, ipoib_dev.lock held.
 * Return: 0 or -errno: then peers are refused by the CM
 */
int ipoib_cm_start(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;
	struct ib_cm_id *id;
	int ret;

	lockdep_assert_held(&dev->lock);
	if (cm->listen)
		return 0;
	cm->qpn = ipoib_dev_qpn(dev);
	id = ib_create_cm_id(dev->port->ca, ipoib_cm_listen_handler, dev);
	if (IS_ERR(id))
		return PTR_ERR(id);
	spin_lock_bh(&cm->lock);
	WRITE_ONCE(cm->running, true);
	spin_unlock_bh(&cm->lock);
	ret = ib_cm_listen(id, cpu_to_be64(ipoib_cm_service_id(cm->qpn)));
	if (ret) {
		ib_destroy_cm_id(id);
		return ret;
	}
	cm->listen = id;
	return 0;
}

/* Nothing is posted any more; the QP, if there is one, comes to its end. */
static void ipoib_conn_stop_begin(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;

	if (link) {
		spin_lock_bh(&link->lock);
		WRITE_ONCE(conn->broken, true);
		spin_unlock_bh(&link->lock);
	}
	ipoib_conn_begin_drain(conn);
}

/**
 * ipoib_cm_stop_begin - take no connections, have all come to their end
 * @dev: interface, its channel running; does nothing if it takes none
 *
 * To be followed by ipoib_cm_stop(), which then has less to wait for.
 *
 * Context: process, ipoib_dev.lock held.
 */
void ipoib_cm_stop_begin(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;
	struct ipoib_conn *conn;

	lockdep_assert_held(&dev->lock);
	if (!cm->running)
		return;
	if (cm->listen)
		ib_destroy_cm_id(cm->listen);
	cm->listen = NULL;
	mutex_lock(&cm->run);
	spin_lock_bh(&cm->lock);
	WRITE_ONCE(cm->running, false);
	spin_unlock_bh(&cm->lock);
	/* None is added any more. */
	ipoib_cm_for_each(conn, cm) {
		ipoib_conn_notify(conn, IPOIB_CONN_EV_CLOSE);
		ipoib_conn_stop_begin(conn);
	}
	mutex_unlock(&cm->run);
}

/**
 * ipoib_cm_stop - close all connections and take no more
 * @dev: interface whose neighbours have been forgotten, its channel running
 *
 * Waits for the HCA, a second at most, not for any peer.
 *
 * Context: process, ipoib_dev.lock held.
 */
void ipoib_cm_stop(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;

	ipoib_cm_stop_begin(dev);
	/*
	 * Not flushed: the workqueue has work that wants rtnl, too.  A callback
	 * may be about to list its connection, for which the close waits then.
	 */
	while (ipoib_cm_run(cm))
		usleep_range(100, 1000);
}

/**
 * ipoib_cm_offload - does the interface offer peers to leave things out?
 * @dev: interface
 */
bool ipoib_cm_offload(struct ipoib_dev *dev)
{
	return READ_ONCE(dev->cm->offload);
}

/**
 * ipoib_cm_set_offload - offer peers to leave checksums and segmentation out
 * @dev: interface
 * @on: or not
 *
 * Connections are closed, and opened again with the next packets.
 *
 * Context: rtnl.
 */
void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on)
{
	struct ipoib_cm *cm = dev->cm;

	if (cm->offload == on)
		return;
	WRITE_ONCE(cm->offload, on);
	/* By the work item: it may be waiting for the HCA, which we are not to. */
	set_bit(0, &cm->renew);
	ipoib_cm_kick(cm);
	if (dev->connected)
		ipoib_dev_update_features(dev);
}

/* ---- what is shown ------------------------------------------------------ */

static const char ipoib_cm_stat_names[IPOIB_CM_STATS][ETH_GSTRING_LEN] = {
	"conn_active", "conn_passive", "conn_opened", "conn_accepted",
	"conn_open_failures", "conn_rejected", "conn_refused",
	"conn_malformed", "conn_closed_by_peer", "conn_closed_idle",
	"conn_broken", "conn_stalled", "conn_requeued",
	"conn_waiting_dropped", "conn_rx_bad", "pmtu_signalled",
	"conn_half_open", "conn_half_open_dropped", "conn_limited",
	"conn_half_open_refused",
};

/**
 * ipoib_cm_get_stat_names - names of the counters
 * @data: room for IPOIB_CM_STATS of them
 */
void ipoib_cm_get_stat_names(u8 *data)
{
	memcpy(data, ipoib_cm_stat_names, sizeof(ipoib_cm_stat_names));
}

/**
 * ipoib_cm_get_stats - counters, in the order of ipoib_cm_stat_names
 * @dev: interface
 * @data: IPOIB_CM_STATS values
 */
void ipoib_cm_get_stats(struct ipoib_dev *dev, u64 *data)
{
	struct ipoib_cm *cm = dev->cm;
	struct ipoib_cm_stats *s = &cm->stats;

	*data++ = READ_ONCE(cm->active);
	*data++ = READ_ONCE(cm->passive);
	*data++ = s->opened;
	*data++ = s->accepted;
	*data++ = s->open_failures;
	*data++ = s->rejected;
	*data++ = s->refused;
	*data++ = s->malformed;
	*data++ = s->closed_by_peer;
	*data++ = s->closed_idle;
	*data++ = s->broken;
	*data++ = s->stalled;
	*data++ = s->requeued;
	*data++ = atomic64_read(&s->waiting_dropped);
	*data++ = s->bad;
	*data++ = atomic64_read(&s->pmtu);
	*data++ = READ_ONCE(cm->num_half_open);
	*data++ = s->half_open_dropped;
	*data++ = s->limited;
	*data++ = s->half_open_refused;
}

/**
 * ipoib_cm_show - write an interface's connections
 * @m: file
 * @dev: interface
 */
int ipoib_cm_show(struct seq_file *m, struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;
	struct ipoib_conn *conn;

	/* The work item may be waiting for the HCA, and the reader has had enough. */
	if (mutex_lock_interruptible(&cm->run))
		return -ERESTARTSYS;
	ipoib_cm_for_each(conn, cm) {
		seq_printf(m, "GID: %pI6\n", conn->gid.raw);
		seq_printf(m, "  opened_by: %6s\n",
			   ipoib_conn_is_active(conn) ? "us" : "peer");
		seq_printf(m, "  state: %10s\n",
			   ipoib_conn_state_name(READ_ONCE(conn->state)));
		seq_printf(m, "  max_msg: %8u\n", conn->peer.max_msg);
		seq_printf(m, "  caps: %#11x\n", conn->peer.caps);
		if (conn->link)
			seq_printf(m, "  link: %11s\n  flying: %9u\n  waiting: %8u\n",
				   ipoib_link_state_name(
						READ_ONCE(conn->link->state)),
				   READ_ONCE(conn->head) -
				   READ_ONCE(conn->tail),
				   READ_ONCE(conn->link->waiting_bytes));
		seq_putc(m, '\n');
	}
	mutex_unlock(&cm->run);
	return 0;
}
