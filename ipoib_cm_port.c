// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receiving, shared by the connections of a port
 *
 * A message is up to 64 KiB long.  Its first buffer becomes the linear part of
 * an skb, as with datagrams; the others become page fragments.  Connections
 * that peers opened are spread over the port's channels.  Those of a channel
 * take their receives from one SRQ, which is filled for the first of them and
 * grows when many receives are in use at once.  With an HCA without SRQ, each
 * connection has its own queue, which starts small and grows the same way.
 *
 * Objects: struct ipoib_cm_port, struct ipoib_cm_rx, struct ipoib_conn.rxq.
 * Lock: ipoib_port.lock for the users of the first two.
 */
#include <linux/sizes.h>
#include <net/page_pool/helpers.h>

#include "ipoib_channel.h"
#include "ipoib_cm_internal.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"

#define IPOIB_RC_PAD		IPOIB_PAD(IPOIB_ENCAP_LEN)
#define IPOIB_RC_HEAD		4096	/* size of the first buffer */
#define IPOIB_RC_SRQ_FIRST	16	/* initial receives of an SRQ */
#define IPOIB_RC_RXQ_FIRST	6	/* and of a connection's own queue */
#define IPOIB_RC_POOL		SZ_4M	/* kept for reuse */

/* Single pages to replace the large buffers; 0 if not needed or too many. */
static u32 ipoib_cm_rx_pages(const struct ipoib_rx_format *format, u32 max_sge)
{
	u32 pages = DIV_ROUND_UP(format->total - format->len[0], PAGE_SIZE);

	return get_order(format->size[1]) && pages < max_sge ? pages : 0;
}

static void ipoib_cm_rx_format(struct ipoib_cm_rx *rx, u32 max_sge, bool srq)
{
	struct ipoib_rx_format *format = &rx->format;
	u32 large, i;

	/* The pad leaves room for a link-layer address. */
	BUILD_BUG_ON(IPOIB_RC_PAD >= NET_SKB_PAD);
	BUILD_BUG_ON(IPOIB_RC_PAD < INFINIBAND_ALEN);
	BUILD_BUG_ON(IPOIB_RX_PAGES > MAX_SKB_FRAGS);
	format->num = ipoib_rc_bufs(max_sge, &large);
	format->pad = IPOIB_RC_PAD;
	format->pool[0] = rx->ch->pool;
	format->size[0] = format->num > 1 ? IPOIB_RC_HEAD : large;
	format->len[0] = format->size[0] - ipoib_rx_head_size(IPOIB_RC_PAD);
	format->total = format->len[0];
	for (i = 1; i < format->num; i++) {
		format->pool[i] = rx->pool;
		format->size[i] = large;
		format->len[i] = large;
		format->total += large;
	}
	format->total = min_t(u32, format->total, IPOIB_CM_MSG_MAX);
	format->cut = format->num == IPOIB_RX_BUFS;
	/* Not for a connection's own queue: it would get much larger. */
	if (srq && format->num > 1)
		format->pages = ipoib_cm_rx_pages(format, max_sge);
}

static int ipoib_cm_rx_srq(struct ipoib_cm_rx *rx)
{
	struct ipoib_port *port = rx->ch->port;
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr.max_wr = port->recvq_size,
		.attr.max_sge = max(rx->format.num, rx->format.pages + 1),
	};
	struct ib_srq *srq;
	int ret;

	srq = ipoib_port_create_srq(port, &attr);
	if (IS_ERR(srq))
		return PTR_ERR(srq);
	ret = ipoib_rxq_alloc(&rx->rxq, rx->ch, &rx->format, port->recvq_size,
			      min_t(u32, port->recvq_size,
				    IPOIB_RC_SRQ_FIRST));
	if (ret) {
		ib_destroy_srq(srq);
		return ret;
	}
	rx->rxq.srq = srq;
	rx->rxq.elastic = true;
	return 0;
}

/* Detach a receive queue for good from the channel's NAPI, which is paused. */
static void ipoib_rxq_detach(struct ipoib_rxq *rxq)
{
	list_del_init(&rxq->dirty);
	rxq->size = 0;	/* a late completion finds no slot */
}

/* The NAPI that a page pool belongs to must be paused to destroy it. */
static void ipoib_cm_rx_destroy(struct ipoib_cm_rx *rx)
{
	WARN_ON_ONCE(rx->conns);
	ipoib_channel_pause(rx->ch);
	if (rx->rxq.srq) {
		ipoib_rxq_detach(&rx->rxq);
		ib_destroy_srq(rx->rxq.srq);
		ipoib_rxq_free(&rx->rxq);
	}
	page_pool_destroy(rx->pool);
	ipoib_channel_resume(rx->ch);
	kvfree(rx);
}

static struct ipoib_cm_rx *ipoib_cm_rx_create(struct ipoib_channel *ch,
					      u32 max_sge, bool srq)
{
	struct ipoib_cm_rx *rx;
	u32 large;
	int ret;

	ret = ipoib_channel_receive(ch);
	if (ret)
		return ERR_PTR(ret);
	rx = kvzalloc_objs(*rx, 1);
	if (!rx)
		return ERR_PTR(-ENOMEM);
	rx->ch = ch;
	ipoib_rc_bufs(max_sge, &large);
	ret = ipoib_channel_pool(ch, &rx->pool, large, IPOIB_RC_POOL, true);
	if (ret) {
		kvfree(rx);
		return ERR_PTR(ret);
	}
	ipoib_cm_rx_format(rx, max_sge, srq);
	if (!srq)
		return rx;
	ret = ipoib_cm_rx_srq(rx);
	if (ret) {
		ipoib_cm_rx_destroy(rx);
		return ERR_PTR(ret);
	}
	return rx;
}

/* Creating the first channel's SRQ shows whether the HCA can do it. */
static struct ipoib_cm_port *ipoib_cm_port_create(struct ipoib_port *port)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	struct ipoib_channel *ch = port->channels[0];
	struct ipoib_cm_rx *rx = NULL;
	struct ipoib_cm_port *cm;

	cm = kzalloc_obj(*cm);
	if (!cm)
		return ERR_PTR(-ENOMEM);
	if (attrs->max_srq && attrs->max_srq_sge) {
		cm->max_sge = attrs->max_srq_sge;
		rx = ipoib_cm_rx_create(ch, cm->max_sge, true);
		cm->srq = !IS_ERR(rx);
	}
	if (!cm->srq) {
		cm->max_sge = attrs->max_recv_sge;
		rx = ipoib_cm_rx_create(ch, cm->max_sge, false);
	}
	if (IS_ERR(rx)) {
		kfree(cm);
		return ERR_CAST(rx);
	}
	cm->max_msg = rx->format.total;
	cm->rx[0] = rx;
	return cm;
}

static void ipoib_cm_port_destroy(struct ipoib_cm_port *cm)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cm->rx); i++)
		if (cm->rx[i])
			ipoib_cm_rx_destroy(cm->rx[i]);
	kfree(cm);
}

/**
 * ipoib_cm_port_get - prepare a port for an interface in connected mode
 * @port: port
 *
 * Context: process; takes the port's lock.
 * Return: 0 or -errno
 */
int ipoib_cm_port_get(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm;
	int ret = 0;

	mutex_lock(&port->lock);
	if (!port->cm) {
		cm = ipoib_cm_port_create(port);
		if (IS_ERR(cm)) {
			ret = PTR_ERR(cm);
			goto unlock;
		}
		port->cm = cm;
	}
	port->cm->users++;
unlock:
	mutex_unlock(&port->lock);
	return ret;
}

/**
 * ipoib_cm_port_keep - one more user, which can't fail
 * @port: port with users; to be undone by ipoib_cm_port_put()
 *
 * Context: process; takes the port's lock.
 */
void ipoib_cm_port_keep(struct ipoib_port *port)
{
	mutex_lock(&port->lock);
	port->cm->users++;
	mutex_unlock(&port->lock);
}

/**
 * ipoib_cm_port_put - undo ipoib_cm_port_get(); no connection of the user is left
 * @port: port
 *
 * Context: process; takes the port's lock.
 */
void ipoib_cm_port_put(struct ipoib_port *port)
{
	mutex_lock(&port->lock);
	if (!--port->cm->users) {
		ipoib_cm_port_destroy(port->cm);
		port->cm = NULL;
	}
	mutex_unlock(&port->lock);
}

static u32 ipoib_cm_load(const struct ipoib_cm_port *cm, u32 index)
{
	return cm->rx[index] ? cm->rx[index]->conns : 0;
}

/* The channel with the fewest connections; the first one if that fails. */
static struct ipoib_cm_rx *ipoib_cm_rx_get(struct ipoib_port *port)
{
	struct ipoib_cm_port *cm = port->cm;
	struct ipoib_cm_rx *rx;
	u32 i, best = 0;

	mutex_lock(&port->lock);
	for (i = 1; i < port->used_channels; i++)
		if (ipoib_cm_load(cm, i) < ipoib_cm_load(cm, best))
			best = i;
	if (!cm->rx[best]) {
		rx = ipoib_cm_rx_create(port->channels[best], cm->max_sge,
					cm->srq);
		if (IS_ERR(rx))
			best = 0;
		else
			cm->rx[best] = rx;
	}
	rx = cm->rx[best];
	rx->conns++;
	mutex_unlock(&port->lock);
	return rx;
}

static void ipoib_cm_rx_put(struct ipoib_cm_rx *rx)
{
	struct ipoib_port *port = rx->ch->port;

	mutex_lock(&port->lock);
	rx->conns--;
	mutex_unlock(&port->lock);
}

/**
 * ipoib_conn_create_rxq - set up receiving for a connection that a peer opens
 * @conn: connection, without a QP yet
 *
 * A queue of its own must be filled once the QP exists.
 *
 * Return: 0 or -ENOMEM
 */
int ipoib_conn_create_rxq(struct ipoib_conn *conn)
{
	struct ipoib_port *port = conn->qp.dev->port;
	struct ipoib_cm_rx *rx;
	struct ipoib_rxq *rxq;
	int ret;

	rx = ipoib_cm_rx_get(port);
	conn->rx = rx;
	conn->qp.ch = rx->ch;
	if (rx->rxq.srq) {
		conn->qp.rxq = &rx->rxq;
		return 0;
	}
	rxq = kvzalloc_objs(*rxq, 1);
	if (!rxq)
		return -ENOMEM;
	ret = ipoib_rxq_alloc(rxq, rx->ch, &rx->format, port->recvq_size,
			      min_t(u32, port->recvq_size,
				    IPOIB_RC_RXQ_FIRST));
	if (ret) {
		kvfree(rxq);
		return ret;
	}
	rxq->elastic = true;
	conn->rxq = rxq;
	conn->qp.rxq = rxq;
	return 0;
}

/**
 * ipoib_conn_detach_rxq - stop refilling a connection's own receive queue
 * @conn: connection whose QP is about to be destroyed
 */
void ipoib_conn_detach_rxq(struct ipoib_conn *conn)
{
	struct ipoib_channel *ch = conn->qp.ch;

	if (!conn->rxq)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	ipoib_rxq_detach(conn->rxq);
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/**
 * ipoib_conn_free_rxq - undo ipoib_conn_create_rxq()
 * @conn: connection whose QP is gone, or was never created
 */
void ipoib_conn_free_rxq(struct ipoib_conn *conn)
{
	if (conn->rxq) {
		ipoib_rxq_free(conn->rxq);
		kvfree(conn->rxq);
		conn->rxq = NULL;
	}
	if (conn->rx) {
		ipoib_cm_rx_put(conn->rx);
		conn->rx = NULL;
	}
}

/**
 * ipoib_conn_fill_rxq - post receives before the peer may send
 * @conn: connection with a QP
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int ipoib_conn_fill_rxq(struct ipoib_conn *conn)
{
	struct ipoib_rxq *rxq = conn->qp.rxq;

	if (conn->rxq)
		conn->rxq->qp = conn->qp.ib;
	else if (READ_ONCE(rxq->nfree) < rxq->used)
		return 0;
	return ipoib_channel_fill_rxq(rxq);
}
