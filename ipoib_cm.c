// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connected mode: opening, accepting and closing reliable connections
 *
 * A neighbour whose address has the RC flag gets a connection when there is a
 * packet for it.  Each side sends on connections that it opened itself, never
 * on those its peer did: deployed peers take no data there.  A connection is
 * one QP and one CM id and is never reused; state that outlives it, such as
 * waiting packets and the count of REJs received, is kept in the link.
 *
 * One work item per interface does everything that may take long: it creates
 * and modifies QPs, answers peers and takes connections down, several at once;
 * stopping the interface does the same in its own context.  Callbacks from the
 * CM and the HCA only record events.  CM ids are destroyed by another work
 * item, because that waits for the management QP.
 *
 * Objects: struct ipoib_cm (one interface), struct ipoib_link (one neighbour),
 * struct ipoib_conn.  Locks: ipoib_cm.run, a mutex, serializes what the work
 * item does; it nests inside rtnl and ipoib_dev.lock, and neither is taken
 * under it.  ipoib_link.lock, then ipoib_cm.lock: spinlocks taken with BHs
 * disabled.
 *
 * RFC 4755 sections 3 (connections) and 6 (service ID, private data); IBA
 * volume 1 chapter 12 (communication management).
 */
#include <linux/sched/mm.h>
#include <linux/seq_file.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_cm_internal.h"
#include "ipoib_debug.h"
#include "ipoib_lost.h"
#include "ipoib_neigh.h"
#include "ipoib_pmtu.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_tx.h"

/* IBA volume 1 section 12.7: 4.096 us times two to the power of this. */
#define IPOIB_CM_RESPONSE	17	/* half a second for the peer's CM */
#define IPOIB_CM_RETRIES	4
#define IPOIB_CM_LIFETIME	14	/* upper limit, about 67 ms */
#define IPOIB_RC_RETRIES	5
#define IPOIB_RC_RNR_FOREVER	7

#define IPOIB_CONN_CHECK	(2 * HZ)

/* ---- finding connections ------------------------------------------------ */

/*
 * The connection after @conn in the interface's list; the first one if @conn is
 * NULL.  Connections leave the list only under cm->run, which is held; so the
 * spinlock can be dropped between steps and BHs run, however long the list is.
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

/* ---- connections -------------------------------------------------------- */

static u32 ipoib_cm_private(struct ipoib_dev *dev,
			    struct ipoib_cm_private *data)
{
	return ipoib_cm_private_fill(data, dev->cm->qpn,
				     dev->port->cm->max_msg,
				     READ_ONCE(dev->cm->offload) ?
				     IPOIB_CM_CAPS : 0);
}

/* Record the peer's parameters; use offloads that both sides accept. */
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

/*
 * Paths of Omni-Path may have a larger MTU than hfi1 reports of the port: that is
 * the largest one of InfiniBand.
 */
static u8 ipoib_conn_mtu(const struct ipoib_port *port, u8 path)
{
	if (rdma_core_cap_opa_port(port->ca, port->num))
		return path;
	return ipoib_path_mtu(path, READ_ONCE(port->active_mtu));
}

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

	ret = ipoib_neigh_record(dev, conn->link, &rec,
				 conn->link->failures);
	if (ret)
		return ret;
	rec.packet_life_time = min_t(u8, rec.packet_life_time,
				     IPOIB_CM_LIFETIME);
	rec.mtu = ipoib_conn_mtu(dev->port, rec.mtu);
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

/* Make a connection object for a link that wants a connection. */
static struct ipoib_conn *ipoib_link_connect(struct ipoib_link *link)
{
	struct ipoib_dev *dev = link->dev;
	struct sk_buff_head waiting;
	struct ipoib_conn *conn;

	conn = ipoib_conn_alloc(dev, true);
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
		/* A QP might be lost, too: be content with datagrams. */
		if (ipoib_lost_many(dev->port))
			link->refused = IPOIB_LINK_REFUSED;
		ipoib_link_failed(link);
		ipoib_link_take_waiting(link, &waiting);
	}
	spin_unlock_bh(&link->lock);
	ipoib_rc_resend(&waiting);
	return conn;
}

/* REP received: bring the connection up. */
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

/* Well-formed REQ for this P_Key? */
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

/* REQ received.  If this returns an error, the CM rejects it. */
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
	conn = ipoib_conn_alloc(dev, false);
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
						 "refused a connection: limit of %u reached%s\n",
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
	/* Half-open connections soon drop: the peer may retry more often. */
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

/* ---- the work item ------------------------------------------------------ */

static void ipoib_conn_begin(struct ipoib_conn *conn, struct list_head *closing)
{
	int ret;

	if (ipoib_conn_is_active(conn)) {
		ret = ipoib_conn_open(conn);
		if (ret) {
			ipoib_dbg(conn->qp.dev, "can't open a connection: %pe\n",
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

static void ipoib_conn_broke(struct ipoib_conn *conn, struct list_head *closing)
{
	struct ipoib_cm *cm = conn->qp.dev->cm;
	struct sa_path_rec rec;

	cm->stats.broken++;
	ipoib_dbg(conn->qp.dev, "connection %#x broke: %s\n",
		  conn->qp.ib->qp_num, ib_wc_status_msg(conn->status));
	if (conn->link && conn->status == IB_WC_RETRY_EXC_ERR) {
		/* No response: the LID of the peer may have changed. */
		ipoib_neigh_record(conn->qp.dev, conn->link, &rec, true);
		ipoib_conn_peer_died(conn);
	}
	ipoib_conn_fail(conn, true, closing);
}

/* A half-open connection was confirmed by its peer, or is to be dropped. */
static void ipoib_conn_decide(struct ipoib_conn *conn, bool rtu,
			      struct list_head *closing)
{
	if (rtu || ipoib_conn_judge(conn, false) == IPOIB_HALF_OPEN_PROVEN) {
		ib_cm_notify(conn->id, IB_EVENT_COMM_EST);
		ipoib_conn_proven(conn);
		ipoib_conn_move(conn, IPOIB_CONN_UP);
		return;
	}
	conn->qp.dev->cm->stats.half_open_dropped++;
	ipoib_conn_close(conn, closing);
}

/* Handle recorded events; the first one that ends the connection wins. */
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
	/* Fully ordered: events set from here on list the connection again. */
	test_and_clear_bit(0, &conn->listed);
	events = xchg(&conn->events, 0);

	if (events & BIT(IPOIB_CONN_EV_CLOSE)) {
		if (active)
			ipoib_conn_lose_link(conn, false, false);
		ipoib_conn_close(conn, closing);
	} else if (events & BIT(IPOIB_CONN_EV_REJ)) {
		cm->stats.rejected++;
		ipoib_conn_note_refusal(conn);
		/* Retrying with a new QP clears a stale-connection reject. */
		ipoib_conn_fail(conn, conn->reject == IB_CM_REJ_STALE_CONN,
				closing);
	} else if (events & BIT(IPOIB_CONN_EV_TIMEOUT)) {
		ipoib_conn_fail(conn, false, closing);
	} else if (events & BIT(IPOIB_CONN_EV_DREQ)) {
		cm->stats.closed_by_peer++;
		if (active)
			ipoib_conn_lose_link(conn, false, false);
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

/* Periodically: close stalled and idle connections. */
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
 * Check all connections, but only every IPOIB_CONN_CHECK, not on each event.
 * Return: true if any are left.
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

/* Run the work item once.  Return: true if any connections are left. */
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
		ipoib_conn_retire(conn);
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

/* ---- interface ---------------------------------------------------------- */

/**
 * ipoib_cm_init - prepare an interface for connected mode
 * @dev: interface
 *
 * Cheap: what connections need is allocated by ipoib_cm_enable() and with each.
 *
 * Return: 0 or -ENOMEM
 */
int ipoib_cm_init(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm;

	cm = kzalloc_obj(*cm);
	if (!cm)
		return -ENOMEM;
	if (ipoib_pmtu_init(dev)) {
		kfree(cm);
		return -ENOMEM;
	}
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
	INIT_DELAYED_WORK(&cm->work, ipoib_cm_work);
	INIT_WORK(&cm->reap_work, ipoib_cm_reap_work);
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

	/*
	 * A CM callback may be about to queue its connection.  It then starts
	 * the work item, which has the connection freed.  Once the last
	 * connection is freed, there are no more callbacks.
	 */
	ipoib_cm_kick(cm);
	ipoib_cm_put(cm);
	wait_for_completion(&cm->unused);
	cancel_work_sync(&cm->reap_work);
	cancel_delayed_work_sync(&cm->work);
	/* Handle links that are still queued. */
	ipoib_cm_run(cm);
	WARN_ON_ONCE(!list_empty(&cm->conns));
	kfree(cm);
	dev->cm = NULL;
	ipoib_pmtu_exit(dev);
}

/**
 * ipoib_cm_enable - allocate what connected mode needs
 * @dev: interface
 *
 * Context: rtnl.
 * Return: 0 or -errno
 */
int ipoib_cm_enable(struct ipoib_dev *dev)
{
	int ret;
	u32 i;

	for (i = 0; i < dev->num_txqs; i++)
		if (!ipoib_txq_connect(dev->txqs[i]))
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
 * ipoib_cm_start - start to open and accept connections
 * @dev: interface in connected mode whose channel and datagram QP are running;
 *	may have been started already
 *
 * Context: process, ipoib_dev.lock held.
 * Return: 0 or -errno, in which case the CM rejects requests from peers
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

/**
 * ipoib_cm_stop_begin - take no more connections and start to close all
 * @dev: interface whose channel is running; no effect unless it was started
 *
 * To be followed by ipoib_cm_stop(), which then waits for less.
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
	/* No connection is added from here on. */
	ipoib_cm_for_each(conn, cm) {
		ipoib_conn_notify(conn, IPOIB_CONN_EV_CLOSE);
		ipoib_conn_stop_begin(conn);
	}
	mutex_unlock(&cm->run);
}

/**
 * ipoib_cm_stop - close all connections and take no more
 * @dev: interface whose neighbours have been removed, its channel running
 *
 * Waits for the HCA, a second at most, but not for any peer.
 *
 * Context: process, ipoib_dev.lock held.
 */
void ipoib_cm_stop(struct ipoib_dev *dev)
{
	struct ipoib_cm *cm = dev->cm;

	ipoib_cm_stop_begin(dev);
	/*
	 * Don't flush: the workqueue has work that takes rtnl, too.  A callback
	 * may be about to queue its connection; this waits for it.
	 */
	while (ipoib_cm_run(cm))
		usleep_range(100, 1000);
}

/**
 * ipoib_cm_offload - does the interface offer offloads to its peers?
 * @dev: interface
 */
bool ipoib_cm_offload(struct ipoib_dev *dev)
{
	return READ_ONCE(dev->cm->offload);
}

/**
 * ipoib_cm_set_offload - offer peers to omit checksums and segmentation
 * @dev: interface
 * @on: new setting, different from the current one
 *
 * Connections are closed, and opened again with the next packets.
 *
 * Context: rtnl.
 */
void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on)
{
	struct ipoib_cm *cm = dev->cm;

	WRITE_ONCE(cm->offload, on);
	/* Left to the work item, which may wait for the HCA; this must not. */
	set_bit(0, &cm->renew);
	ipoib_cm_kick(cm);
}

/* ---- counters and debugfs ----------------------------------------------- */

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
 * @data: buffer for IPOIB_CM_STATS names
 */
void ipoib_cm_get_stat_names(u8 *data)
{
	memcpy(data, ipoib_cm_stat_names, sizeof(ipoib_cm_stat_names));
}

/**
 * ipoib_cm_get_stats - counters, in the order of ipoib_cm_stat_names
 * @dev: interface
 * @data: buffer for IPOIB_CM_STATS values
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
	*data++ = ipoib_pmtu_signalled(dev);
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

	/* The work item may be waiting for the HCA: let the reader give up. */
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
