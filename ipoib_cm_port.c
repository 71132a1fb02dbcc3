// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the connections of a port share: receives
 *
 * A message has up to 64 KiB.  Its first piece becomes the linear part of an
 * skb, as with datagrams; the others are pages of it.  All connections that
 * peers opened take their receives from one SRQ, which is filled when there is
 * the first of them and grows when much of it is taken at once.  An HCA without
 * SRQ has a queue for each connection, which starts small and grows the same
 * way.
 *
 * Objects: struct ipoib_cm_port, struct ipoib_conn.rxq.  Lock: ipoib_port.lock
 * for the users of the former.
 */
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_cm.h"

#define IPOIB_RC_PAD		(NET_SKB_PAD - IPOIB_ENCAP_LEN)
#define IPOIB_RC_HEAD		4096	/* first buffer, all in all */
#define IPOIB_RC_SRQ_FIRST	16	/* receives that an SRQ starts with */
#define IPOIB_RC_RXQ_FIRST	6	/* and a queue of a connection's own */

static void ipoib_cm_port_format(struct ipoib_cm_port *cm,
				 struct ipoib_channel *ch, u32 max_sge)
{
	struct ipoib_rx_format *format = &cm->format;
	u32 large, i, left = IPOIB_CM_MSG_MAX;

	format->num = ipoib_rc_bufs(max_sge, &large);
	format->pad = IPOIB_RC_PAD;
	format->pool[0] = ch->pool;
	format->size[0] = format->num > 1 ? IPOIB_RC_HEAD : large;
	format->len[0] = format->size[0] - ipoib_rx_head_size(IPOIB_RC_PAD);
	left -= format->len[0];
	for (i = 1; i < format->num; i++) {
		format->pool[i] = cm->pool;
		format->size[i] = large;
		format->len[i] = min(left, large);
		left -= format->len[i];
	}
	cm->max_msg = IPOIB_CM_MSG_MAX - left;
}

static int ipoib_cm_port_pool(struct ipoib_cm_port *cm, struct ipoib_port *port,
			      u32 large)
{
	struct page_pool_params params = {
		.order = get_order(large),
		.pool_size = 128,
		.nid = NUMA_NO_NODE,
		.napi = &port->channel.napi,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE << get_order(large),
	};
	struct page_pool *pool;

	if (!ib_uses_virt_dma(port->ca)) {
		params.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV;
		params.dev = port->ca->dma_device;
	}
	pool = page_pool_create(&params);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	cm->pool = pool;
	return 0;
}

static struct ib_srq *ipoib_cm_port_srq(struct ipoib_port *port)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr.max_wr = port->recvq_size,
	};
	struct ib_srq *srq;
	u32 large;

	if (!attrs->max_srq || attrs->max_srq_sge < 1)
		return NULL;
	attr.attr.max_sge = ipoib_rc_bufs(attrs->max_srq_sge, &large);
	srq = ib_create_srq(port->pd, &attr);
	return IS_ERR(srq) ? NULL : srq;
}

static struct ipoib_cm_port *ipoib_cm_port_create(struct ipoib_port *port)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	struct ipoib_channel *ch = &port->channel;
	struct ipoib_cm_port *cm;
	u32 max_sge, large;
	struct ib_srq *srq;
	int ret;

	cm = kzalloc_obj(*cm);
	if (!cm)
		return ERR_PTR(-ENOMEM);
	srq = ipoib_cm_port_srq(port);
	max_sge = srq ? attrs->max_srq_sge : attrs->max_recv_sge;
	ipoib_rc_bufs(max_sge, &large);
	ret = ipoib_cm_port_pool(cm, port, large);
	if (ret)
		goto err_srq;
	ipoib_cm_port_format(cm, ch, max_sge);
	if (!srq)
		return cm;
	ret = ipoib_rxq_alloc(&cm->rxq, ch, &cm->format, port->recvq_size,
			      min_t(u32, port->recvq_size,
				    IPOIB_RC_SRQ_FIRST));
	if (ret)
		goto err_pool;
	cm->rxq.srq = srq;
	cm->rxq.elastic = true;
	return cm;

err_pool:
	page_pool_destroy(cm->pool);
err_srq:
	if (srq)
		ib_destroy_srq(srq);
	kfree(cm);
	return ERR_PTR(ret);
}

/* Take a receive queue away from the channel's NAPI, which pauses, for good. */
static void ipoib_rxq_detach(struct ipoib_rxq *rxq)
{
	list_del_init(&rxq->dirty);
	rxq->size = 0;	/* a late completion finds no slot */
}

static void ipoib_cm_port_destroy(struct ipoib_port *port,
				  struct ipoib_cm_port *cm)
{
	ipoib_channel_pause(&port->channel);
	if (cm->rxq.srq) {
		ipoib_rxq_detach(&cm->rxq);
		ib_destroy_srq(cm->rxq.srq);
		ipoib_rxq_free(&cm->rxq);
	}
	page_pool_destroy(cm->pool);
	ipoib_channel_resume(&port->channel);
	kfree(cm);
}

/**
 * ipoib_cm_port_get - an interface is to take connections
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
 * ipoib_cm_port_put - undo ipoib_cm_port_get(); no connection is left
 * @port: port
 */
void ipoib_cm_port_put(struct ipoib_port *port)
{
	mutex_lock(&port->lock);
	if (!--port->cm->users) {
		ipoib_cm_port_destroy(port, port->cm);
		port->cm = NULL;
	}
	mutex_unlock(&port->lock);
}

/**
 * ipoib_conn_create_rxq - find the receives of a connection that a peer opens
 * @conn: connection, without a QP yet
 *
 * A queue of its own still has to be filled when there is the QP.
 *
 * Return: 0 or -ENOMEM
 */
int ipoib_conn_create_rxq(struct ipoib_conn *conn)
{
	struct ipoib_port *port = conn->qp.dev->port;
	struct ipoib_cm_port *cm = port->cm;
	struct ipoib_rxq *rxq;
	int ret;

	if (cm->rxq.srq) {
		conn->qp.rxq = &cm->rxq;
		return 0;
	}
	rxq = kvzalloc_objs(*rxq, 1);
	if (!rxq)
		return -ENOMEM;
	ret = ipoib_rxq_alloc(rxq, &port->channel, &cm->format,
			      port->recvq_size,
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
 * @conn: connection whose QP is about to go
 */
void ipoib_conn_detach_rxq(struct ipoib_conn *conn)
{
	struct ipoib_port *port = conn->qp.dev->port;

	if (!conn->rxq)
		return;
	mutex_lock(&port->lock);
	ipoib_channel_pause(&port->channel);
	ipoib_rxq_detach(conn->rxq);
	ipoib_channel_resume(&port->channel);
	mutex_unlock(&port->lock);
}

/**
 * ipoib_conn_free_rxq - undo ipoib_conn_create_rxq()
 * @conn: connection whose QP is gone, or was never made
 */
void ipoib_conn_free_rxq(struct ipoib_conn *conn)
{
	if (!conn->rxq)
		return;
	ipoib_rxq_free(conn->rxq);
	kvfree(conn->rxq);
	conn->rxq = NULL;
}

/**
 * ipoib_conn_fill_rxq - have receives posted before the peer may send
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
	ipoib_rxq_fill(rxq);
	return READ_ONCE(rxq->nfree) < rxq->used ? 0 : -ENOMEM;
}
