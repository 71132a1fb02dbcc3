// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: channels of accelerated interfaces
 *
 * A channel is a UD QP with a CQ for each direction on a vector of its own, polled
 * by one NAPI instance.  Its sends carry the number of the interface's QP, and its
 * receives are filled with what RSS spreads of the packets for that QP (ud.c), so
 * that faults, counters, interrupts and wedges are those of all QPs.  Channels of
 * child interfaces only send; the port's own interface receives for them.
 */
#include <linux/slab.h>
#include <net/netdev_lock.h>

#include "channel.h"
#include "ring.h"
#include "rcv.h"
#include "sq.h"

/* ---- opening and closing ------------------------------------------------ */

/* Free what a channel holds; its QP is gone. */
static void ibds_channel_free(struct ibds_channel *ch)
{
	struct ib_device *ibdev = &ch->nif->dev->ib;
	struct ibds_nif *nif = ch->nif;
	u32 i;

	for (i = 0; ch->rx && i < nif->rx_size; i++) {
		if (!ch->rx[i].skb)
			continue;
		ib_dma_unmap_single(ibdev, ch->rx[i].dma, ch->room,
				    DMA_FROM_DEVICE);
		dev_kfree_skb(ch->rx[i].skb);
	}
	kvfree(ch->rx);
	kvfree(ch->meta);
	kvfree(ch->idle);
	kvfree(ch->tx);
	kvfree(ch->stamps);
}

static int ibds_channel_alloc(struct ibds_channel *ch)
{
	struct ibds_nif *nif = ch->nif;
	u32 i;

	/* A channel that only sends has no receives, but is a channel. */
	ch->meta = kvzalloc_objs(*ch->meta, nif->rx_size);
	ch->tx = kvzalloc_objs(*ch->tx, nif->tx_size);
	ch->stamps = kvzalloc_objs(*ch->stamps, nif->tx_size);
	if (!ch->meta || !ch->tx || !ch->stamps)
		return -ENOMEM;
	if (ch->index >= nif->wanted_rx)
		return 0;
	ch->rx = kvzalloc_objs(*ch->rx, nif->rx_size);
	ch->idle = kvzalloc_objs(*ch->idle, nif->rx_size);
	if (!ch->rx || !ch->idle)
		return -ENOMEM;
	for (i = 0; i < nif->rx_size; i++)
		ch->idle[ch->idles++] = i;
	return 0;
}

static void ibds_channel_event(struct ib_cq *cq, void *context)
{
	struct ibds_channel *ch = context;

	napi_schedule(&ch->napi);
}

static struct ib_cq *ibds_channel_cq(struct ibds_channel *ch, u32 cqe)
{
	struct ib_device *ibdev = &ch->nif->dev->ib;
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = ch->index % ibdev->num_comp_vectors,
	};

	return ib_create_cq(ibdev, ibds_channel_event, NULL, ch, &attr);
}

static int ibds_channel_new_cqs(struct ibds_channel *ch)
{
	struct ibds_nif *nif = ch->nif;
	int err;

	ch->tx_cq = ibds_channel_cq(ch, nif->tx_size);
	if (IS_ERR(ch->tx_cq)) {
		err = PTR_ERR(ch->tx_cq);
		ch->tx_cq = NULL;
		return err;
	}
	if (ch->index >= nif->wanted_rx)
		return 0;
	ch->rx_cq = ibds_channel_cq(ch, nif->rx_size);
	if (IS_ERR(ch->rx_cq)) {
		err = PTR_ERR(ch->rx_cq);
		ch->rx_cq = NULL;
		return err;
	}
	return 0;
}

/**
 * ibds_nif_start_qp - bring a QP of an interface to RTS
 * @nif: interface
 * @qp: that of a channel, or the one whose number is the interface's
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int ibds_nif_start_qp(const struct ibds_nif *nif, struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = nif->pkey_index,
		.port_num = nif->port->num,
		.qkey = IBDS_NIF_QKEY,
	};
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
				      IB_QP_PORT | IB_QP_QKEY);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int ibds_channel_new_qp(struct ibds_channel *ch)
{
	struct ibds_nif *nif = ch->nif;
	struct ib_qp_init_attr init = {
		.send_cq = ch->tx_cq,
		.recv_cq = ch->rx_cq ?: ch->tx_cq,
		.cap.max_send_wr = nif->tx_size,
		.cap.max_recv_wr = ch->rx_cq ? nif->rx_size : 0,
		.cap.max_send_sge = min_t(u32, MAX_SKB_FRAGS + 1,
					  nif->dev->caps.max_sge),
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_UD,
		.create_flags = nif->dev->caps.lso && ibds_nif_own(nif) ?
				IB_QP_CREATE_IPOIB_UD_LSO : 0,
	};
	struct ibds_qp *qp;
	int err;

	ch->qp = ib_create_qp(nif->pd, &init);
	if (IS_ERR(ch->qp)) {
		err = PTR_ERR(ch->qp);
		ch->qp = NULL;
		return err;
	}
	qp = to_ibds_qp(ch->qp);
	qp->sqpn = nif->qpn;
	qp->meta = ch->meta;
	qp->stamps = ch->stamps;
	qp->ring = ch->index < 32 ? BIT(ch->index) : 0;
	/* The sum of all bytes is taken instead. */
	qp->rcv->csum = false;
	/* IPoIB may destroy an address handle as soon as it has sent. */
	ibds_sq_keep_ah(&qp->sq);
	return ibds_nif_start_qp(nif, ch->qp);
}

static void ibds_channel_close(struct ibds_channel *ch)
{
	struct ibds_nif *nif = ch->nif;
	u32 i;

	if (ch->qp)
		ib_destroy_qp(ch->qp);
	if (ch->rx_cq)
		ib_destroy_cq(ch->rx_cq);
	if (ch->tx_cq)
		ib_destroy_cq(ch->tx_cq);
	for (i = 0; ch->tx && i < nif->tx_size; i++) {
		if (!ch->tx[i].skb)
			continue;
		ibds_tx_unmap(ch, &ch->tx[i]);
		dev_kfree_skb(ch->tx[i].skb);
	}
	ibds_channel_free(ch);
}

static int ibds_channel_open(struct ibds_channel *ch)
{
	struct ibds_nif *nif = ch->nif;
	int err;

	ch->room = ibds_nif_room(nif);
	err = ibds_channel_alloc(ch) ?: ibds_channel_new_cqs(ch) ?:
	      ibds_channel_new_qp(ch);
	if (err)
		return err;
	while (ch->idles) {
		err = ibds_rx_post(ch, ch->idle[ch->idles - 1], GFP_KERNEL);
		if (err)
			return err;
		ch->idles--;
	}
	return 0;
}

static void ibds_channels_free(struct ibds_nif *nif,
			       struct ibds_channel *channels, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++)
		ibds_channel_close(&channels[i]);
	kvfree(channels);
}

/* Let the channels receive, complete and send. */
static void ibds_channels_start(struct ibds_nif *nif,
				struct ibds_channel *channels, u32 num)
{
	u32 i;

	netdev_lock_ops_to_full(nif->netdev);
	for (i = 0; i < num; i++) {
		netif_napi_add_locked(nif->netdev, &channels[i].napi,
				      ibds_channel_poll);
		napi_enable_locked(&channels[i].napi);
		/* It arms the CQs. */
		local_bh_disable();
		napi_schedule(&channels[i].napi);
		local_bh_enable();
	}
	netdev_unlock_full_to_ops(nif->netdev);
	nif->num = num;
	nif->num_rx = min(nif->wanted_rx, num);
	/* Senders see all of it. */
	smp_store_release(&nif->channels, channels);
	ibds_channels_moderate(nif);
	for (i = 0; i < nif->num_rx; i++)
		rcu_assign_pointer(nif->rss->ring[i],
				   to_ibds_qp(channels[i].qp)->rcv);
	/* What waits in a qdisc has to be sent, too. */
	netif_tx_wake_all_queues(nif->netdev);
}

/**
 * ibds_channels_open - open the channels of an interface
 * @nif: interface, locked, as its operations are; nothing is done if they are open
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int ibds_channels_open(struct ibds_nif *nif)
{
	struct ibds_channel *channels;
	u32 i, num = min(nif->wanted, nif->netdev->num_tx_queues);
	int err = 0;

	lockdep_assert_held(&nif->lock);
	if (nif->channels)
		return 0;
	channels = kvzalloc_objs(*channels, num);
	if (!channels)
		return -ENOMEM;
	for (i = 0; i < num; i++) {
		channels[i].nif = nif;
		channels[i].index = i;
	}
	if (nif->main == nif && !netif_is_rxfh_configured(nif->netdev))
		ibds_rss_set_table(nif->rss, nif->wanted_rx);
	for (i = 0; !err && i < num; i++)
		err = ibds_channel_open(&channels[i]);
	if (err)
		ibds_channels_free(nif, channels, num);
	else
		ibds_channels_start(nif, channels, num);
	return err;
}

/**
 * ibds_channels_close - close the channels of an interface
 * @nif: interface, locked; nothing is done if they are closed
 *
 * Context: process.
 */
void ibds_channels_close(struct ibds_nif *nif)
{
	struct ibds_channel *channels = nif->channels;
	u32 i;

	lockdep_assert_held(&nif->lock);
	if (!channels)
		return;
	/* First, so that a poll does not wake the queues that are stopped. */
	WRITE_ONCE(nif->channels, NULL);
	netif_tx_disable(nif->netdev);
	for (i = 0; i < nif->num_rx; i++)
		RCU_INIT_POINTER(nif->rss->ring[i], NULL);
	netdev_lock_ops_to_full(nif->netdev);
	for (i = 0; i < nif->num; i++) {
		napi_disable_locked(&channels[i].napi);
		netif_napi_del_locked(&channels[i].napi);
	}
	netdev_unlock_full_to_ops(nif->netdev);
	ibds_channels_free(nif, channels, nif->num);
}

/**
 * ibds_channels_reopen - close the channels of an interface and open them again
 * @nif: interface, locked; nothing is done if it is not open
 *
 * Context: process.
 * Return: 0, or -errno and they are closed.
 */
int ibds_channels_reopen(struct ibds_nif *nif)
{
	bool carrier = netif_carrier_ok(nif->netdev);
	int err;

	if (!nif->open)
		return 0;
	/* No time-out of queues that are stopped meanwhile */
	netif_carrier_off(nif->netdev);
	ibds_channels_close(nif);
	err = ibds_channels_open(nif);
	if (carrier)
		netif_carrier_on(nif->netdev);
	return err;
}

/**
 * ibds_channels_moderate - apply the moderation of receives
 * @nif: interface, locked
 *
 * Context: process.
 */
void ibds_channels_moderate(struct ibds_nif *nif)
{
	u32 i;

	for (i = 0; nif->channels && i < nif->num; i++)
		if (nif->channels[i].rx_cq)
			rdma_set_cq_moderation(nif->channels[i].rx_cq,
					       nif->rx_frames, nif->rx_usecs);
}

/**
 * ibds_channels_set_id - have open channels send with another P_Key
 * @nif: interface, locked; nif->pkey_index is set
 */
void ibds_channels_set_id(struct ibds_nif *nif)
{
	u32 i;

	for (i = 0; nif->channels && i < nif->num; i++)
		WRITE_ONCE(to_ibds_qp(nif->channels[i].qp)->pkey_index,
			   nif->pkey_index);
}
