// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reliable connections: their QPs, setup and teardown
 *
 * A connection is one QP and one CM id and is never reused.
 *
 * Lock: ipoib_cm.run for state and QP.
 *
 * IBA volume 1 chapter 10 (QP states).
 */
#include <linux/moduleparam.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cm.h"
#include "ipoib_cm_internal.h"
#include "ipoib_cq.h"
#include "ipoib_drain.h"
#include "ipoib_lost.h"
#include "ipoib_msg.h"
#include "ipoib_port.h"
#include "ipoib_qp.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_skb.h"
#include "ipoib_trace.h"
#include "ipoib_tx.h"

#define IPOIB_RC_TIMEOUT	16	/* longest wait for an acknowledgment */
#define IPOIB_RC_RNR_TIMER	12	/* 0.64 ms, IBA volume 1 table 45 */
#define IPOIB_CONN_STALL	(10 * HZ)
#define IPOIB_CONN_SHORT	HZ	/* shorter ones count as failures */
#define IPOIB_LINK_BREAKS	8	/* in a row before a back-off */
#define IPOIB_CONN_GRACE	(10 * HZ)

static unsigned int ipoib_conn_idle_secs = 300;
module_param_named(conn_idle_timeout, ipoib_conn_idle_secs, uint, 0644);
MODULE_PARM_DESC(conn_idle_timeout,
		 "Seconds after which an unused connection is closed, 0: never");

/* ---- messages ---------------------------------------------------------- */

/* Context: ipoib_cm.run or ipoib_cm.lock held. */
static int ipoib_conn_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_conn *conn = object;

	if (nla_put(skb, IPOIB_A_CONN_GID, sizeof(conn->gid), &conn->gid) ||
	    nla_put_u32(skb, IPOIB_A_CONN_STATUS,
			ipoib_conn_status(READ_ONCE(conn->state))) ||
	    (!conn->active && nla_put_flag(skb, IPOIB_A_CONN_BY_PEER)) ||
	    nla_put_u32(skb, IPOIB_A_CONN_QPN, READ_ONCE(conn->qpn)) ||
	    (conn->lid && nla_put_u32(skb, IPOIB_A_CONN_LID, conn->lid)) ||
	    nla_put_u32(skb, IPOIB_A_CONN_MAX_MSG,
			READ_ONCE(conn->peer.max_msg)) ||
	    ipoib_msg_put_ms(skb, IPOIB_A_CONN_AGE, READ_ONCE(conn->since)) ||
	    ipoib_msg_put_ms(skb, IPOIB_A_CONN_IDLE, READ_ONCE(conn->used)) ||
	    nla_put_u32(skb, IPOIB_A_CONN_IN_FLIGHT,
			READ_ONCE(conn->head) - READ_ONCE(conn->tail)))
		return -EMSGSIZE;
	return 0;
}

/**
 * ipoib_conn_dump - write an interface's connections to a dump
 * @dev: interface
 * @dump: dump
 *
 * Those that are being taken down are left out.
 *
 * Return: 0 or -EMSGSIZE, as ipoib_dump_one()
 */
int ipoib_conn_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump)
{
	struct ipoib_cm *cm = dev->cm;
	const struct ipoib_conn *conn;
	int ret = 0;

	if (!cm)
		return 0;
	spin_lock_bh(&cm->lock);
	ipoib_dump_begin(dump, cm->changes);
	list_for_each_entry(conn, &cm->conns, entry) {
		ret = ipoib_dump_one(dump, dev, ipoib_conn_fill, conn);
		if (ret)
			break;
	}
	spin_unlock_bh(&cm->lock);
	return ret;
}

/* ---- objects ----------------------------------------------------------- */

/* Under ipoib_cm.run only. */
void ipoib_conn_move(struct ipoib_conn *conn, enum ipoib_conn_state to)
{
	enum ipoib_conn_status was = ipoib_conn_status(conn->state);

	WARN_ON_ONCE(!ipoib_conn_may_move(conn->state, to));
	trace_ipoib_conn_state(conn->qp.dev, &conn->gid, conn->active,
			       conn->qpn, conn->reject, conn->status,
			       conn->state, to);
	WRITE_ONCE(conn->state, to);
	WRITE_ONCE(conn->since, jiffies);
	if (ipoib_conn_status(to) != was)
		ipoib_msg_notify(conn->qp.dev, IPOIB_CMD_CONN_NTF,
				 ipoib_conn_fill, conn);
}

struct ipoib_conn *ipoib_conn_alloc(struct ipoib_dev *dev,
				    bool active)
{
	struct ipoib_conn *conn;

	conn = kzalloc_obj(*conn);
	if (!conn)
		return NULL;
	refcount_inc(&dev->cm->users);
	refcount_set(&conn->ref, 1);
	conn->active = active;
	conn->qp.ops = &ipoib_rc_qp_ops;
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

void ipoib_cm_put(struct ipoib_cm *cm)
{
	if (refcount_dec_and_test(&cm->users))
		complete(&cm->unused);
}

static void ipoib_conn_put(struct ipoib_conn *conn)
{
	if (refcount_dec_and_test(&conn->ref))
		kfree_rcu(conn, rcu);
}

/* A lost QP goes on to receive, and maybe to send. */
void ipoib_conn_free(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	if (!conn->kept)
		ipoib_tx_ring_free(&conn->ring);
	if (!conn->qp.lost)
		ipoib_conn_free_rxq(conn);
	if (conn->link)
		ipoib_link_put(conn->link);
	ipoib_conn_put(conn);
	ipoib_cm_put(cm);
}

/* Add to the interface's list, unless it goes down or there are too many. */
int ipoib_conn_add(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	int ret = 0;

	spin_lock_bh(&cm->lock);
	if (!cm->running)
		ret = -ENETDOWN;
	else if (ipoib_lost_many(conn->qp.dev->port))
		ret = -ENOBUFS;
	else if (ipoib_conn_is_active(conn))
		cm->active++;
	else
		ret = ipoib_conn_add_passive(conn);
	if (!ret) {
		list_add_tail(&conn->entry, &cm->conns);
		cm->changes++;
		ipoib_msg_notify(conn->qp.dev, IPOIB_CMD_CONN_NTF,
				 ipoib_conn_fill, conn);
	}
	spin_unlock_bh(&cm->lock);
	return ret;
}

/* ---- QPs --------------------------------------------------------------- */

static void ipoib_conn_handle_qp_event(struct ipoib_conn *conn,
				       enum ib_event_type event)
{
	switch (event) {
	case IB_EVENT_QP_LAST_WQE_REACHED:
		complete(&conn->last_wqe);
		break;
	case IB_EVENT_COMM_EST:
		/* The peer is already sending: its RTU may have been lost. */
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

static void ipoib_conn_qp_event(struct ib_event *event, void *ctx)
{
	struct ipoib_qp *qp = ctx;

	rcu_read_lock();
	if (!READ_ONCE(qp->lost))
		ipoib_conn_handle_qp_event(container_of(qp, struct ipoib_conn,
							qp), event->event);
	rcu_read_unlock();
}

int ipoib_conn_create_qp(struct ipoib_conn *conn)
{
	struct ipoib_dev *dev = conn->qp.dev;
	struct ipoib_port *port = dev->port;
	struct ib_qp_init_attr attr = {
		.event_handler = ipoib_conn_qp_event,
		.qp_context = &conn->qp,
		.cap.max_send_wr = 1,	/* drain marker */
		.cap.max_send_sge = 1,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp;
	int ret;

	if (ipoib_conn_is_active(conn)) {
		attr.cap.max_send_wr = conn->ring.size;
		attr.cap.max_send_sge = dev->max_sge;
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
	WRITE_ONCE(conn->qpn, qp->qp_num);
	return 0;
}

int ipoib_conn_to_init(struct ipoib_conn *conn)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = conn->qp.dev->pkey_index,
		.port_num = conn->qp.dev->port->num,
	};

	return ib_modify_qp(conn->qp.ib, &attr, IB_QP_STATE |
			    IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_ACCESS_FLAGS);
}

/* As negotiated by the CM, except for the RNR timer and the timeout. */
int ipoib_conn_to_rts(struct ipoib_conn *conn)
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

/* ---- stalled and idle connections -------------------------------------- */

/* True if sends have been in flight for long without progress. */
bool ipoib_conn_stalled(struct ipoib_conn *conn)
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

bool ipoib_conn_idle(const struct ipoib_conn *conn)
{
	unsigned long limit = READ_ONCE(ipoib_conn_idle_secs) * HZ;

	if (conn->state != IPOIB_CONN_UP)
		return false;
	if (conn->superseded)
		limit = IPOIB_CONN_GRACE;
	return limit && time_after(jiffies, READ_ONCE(conn->used) + limit);
}

/* ---- teardown ---------------------------------------------------------- */

/* Detach a connection that ends from its link, and update the link's state. */
void ipoib_conn_lose_link(struct ipoib_conn *conn, bool failed, bool again)
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
		/* Retry at once, so that waiting packets are not dropped. */
		link->breaks++;
		ipoib_link_move(link, IPOIB_LINK_WANTED);
		ipoib_link_notify(link);
	} else {
		ipoib_link_failed(link);
	}
unlock:
	spin_unlock_bh(&link->lock);
}

/* Requeue unsent packets, or resend them and those that waited. */
void ipoib_conn_requeue(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct sk_buff_head left;

	__skb_queue_head_init(&left);
	if (conn->kept) {
		ipoib_rc_disown(conn);
		/* From here on ipoib_conn_gone() may free them. */
		smp_store_release(&conn->qp.lost_owned, false);
	} else {
		ipoib_rc_purge(conn, &left);
	}
	cm->stats.requeued += skb_queue_len(&left);
	spin_lock_bh(&link->lock);
	if (link->state == IPOIB_LINK_WANTED ||
	    link->state == IPOIB_LINK_CONNECTING)
		/* In front of later packets, and without a limit. */
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

/*
 * How strongly a REJ indicates that a peer accepts no connections.  A peer
 * without the service ID does not listen: it may be down for a moment, or in
 * datagram mode, which ARP and neighbour discovery announce.  A peer that timed
 * out a request has too many at the moment.  One that is out of QPs is asked a
 * few times; one with too many half-open connections more often.
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

/* Count a refusal by the peer of a link. */
void ipoib_conn_note_refusal(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;

	if (!link)
		return;
	spin_lock_bh(&link->lock);
	link->refused += ipoib_link_refusal(conn->reject);
	spin_unlock_bh(&link->lock);
}

void ipoib_conn_close(struct ipoib_conn *conn, struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	spin_lock_bh(&cm->lock);
	ipoib_conn_settle(conn);
	list_move_tail(&conn->entry, closing);
	cm->changes++;
	spin_unlock_bh(&cm->lock);
	ipoib_conn_move(conn, IPOIB_CONN_CLOSING);
}

/* Close a connection that failed; the link tries again, at once or later. */
void ipoib_conn_fail(struct ipoib_conn *conn, bool again,
		     struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	if (ipoib_conn_is_active(conn)) {
		if (conn->state != IPOIB_CONN_UP)
			cm->stats.open_failures++;
		ipoib_conn_lose_link(conn, true, again);
	}
	ipoib_conn_close(conn, closing);
}

/* Move the QP to ERR, unless it was never able to send or receive. */
static void ipoib_conn_begin_drain(struct ipoib_conn *conn)
{
	if (!conn->qp.live)
		return;
	conn->qp.last_wqe = conn->qp.ib->srq ? &conn->last_wqe : NULL;
	/* Nothing reports the end of the connection's own receive queue. */
	conn->qp.rx_silent = conn->rxq;
	ipoib_drain_begin(&conn->qp);
}

/* Stop posting, and start to drain the QP if there is one. */
void ipoib_conn_stop_begin(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;

	if (link) {
		spin_lock_bh(&link->lock);
		WRITE_ONCE(conn->broken, true);
		spin_unlock_bh(&link->lock);
	}
	ipoib_conn_begin_drain(conn);
}

/* The QP is destroyed: nothing of the interface's is used here. */
static void ipoib_conn_release(struct ipoib_conn *conn)
{
	ipoib_cq_put(conn->qp.ch, &conn->cqs);
	/* What follows can take long, and outlive the port's pools. */
	ipoib_conn_free_rxq(conn);
}

static void ipoib_conn_gone(struct ipoib_qp *qp)
{
	struct ipoib_conn *conn = container_of(qp, struct ipoib_conn, qp);

	if (conn->kept) {
		ipoib_rc_drop(conn);
		ipoib_tx_ring_free(&conn->ring);
	}
	ipoib_conn_release(conn);
	ipoib_cm_port_put(qp->ch->port);
	ipoib_conn_put(conn);
}

static const struct ipoib_qp_ops ipoib_conn_lost_ops = {
	.rx = ipoib_lost_rx,
	.tx = ipoib_lost_tx,
	.gone = ipoib_conn_gone,
};

/*
 * If it can't be destroyed, it is lost: then it keeps what it receives with, and if
 * it can't be reset either, what it sends.
 */
static void ipoib_conn_destroy_qp(struct ipoib_conn *conn,
				  struct list_head *lost)
{
	if (!ipoib_drain_destroy_qp(&conn->qp)) {
		ipoib_conn_release(conn);
		return;
	}
	/* Only one that this host opened has sent something. */
	conn->kept = conn->qp.stuck && conn->link;
	conn->qp.lost_owned = conn->kept;
	refcount_inc(&conn->ref);
	ipoib_cm_port_keep(conn->qp.ch->port);
	INIT_LIST_HEAD(&conn->qp.lost_groups);
	list_add_tail(&conn->qp.lost_entry, lost);
}

/* A poll may have taken completions of those that did not drain: let it end. */
static void ipoib_conns_settle(struct list_head *list)
{
	struct ipoib_conn *conn;

	list_for_each_entry(conn, list, entry)
		if (conn->qp.late)
			conn->qp.drained_at = READ_ONCE(conn->qp.ch->barriers);
	list_for_each_entry(conn, list, entry)
		if (conn->qp.late)
			ipoib_channel_barrier(conn->qp.ch,
					      conn->qp.drained_at);
}

/* Take down all connections of a list at once. */
void ipoib_conns_close(struct list_head *list)
{
	struct ipoib_drain drain;
	struct ipoib_conn *conn;
	struct ipoib_port *port;
	LIST_HEAD(lost);

	if (list_empty(list))
		return;
	port = list_first_entry(list, struct ipoib_conn, entry)->qp.dev->port;
	ipoib_drain_init(&drain);
	list_for_each_entry(conn, list, entry)
		ipoib_conn_begin_drain(conn);
	list_for_each_entry(conn, list, entry)
		ipoib_drain_add(&drain, &conn->qp);
	ipoib_drain_wait(&drain);
	list_for_each_entry(conn, list, entry)
		ipoib_conn_detach_rxq(conn);
	ipoib_drain_reset(&drain, false);
	list_for_each_entry(conn, list, entry)
		ipoib_conn_destroy_qp(conn, &lost);
	ipoib_lost_add(port, &lost, &ipoib_conn_lost_ops);
	ipoib_conns_settle(list);
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

void ipoib_cm_reap_work(struct work_struct *work)
{
	ipoib_cm_reap(container_of(work, struct ipoib_cm, reap_work));
}

/* Events that CM callbacks record from here on are ignored. */
void ipoib_conn_reap(struct ipoib_conn *conn)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;

	llist_add(&conn->todo, &cm->reap);
	queue_work(ipoib_wq, &cm->reap_work);
}

/* The QP is gone; the CM id follows when the management QP permits. */
void ipoib_conn_retire(struct ipoib_conn *conn)
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
	/* If it is queued for events, it is reaped when those are handled. */
	if (!test_and_set_bit(0, &conn->listed))
		ipoib_conn_reap(conn);
}
