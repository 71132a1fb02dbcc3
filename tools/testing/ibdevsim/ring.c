// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: rings of the channels of accelerated interfaces: receiving, sending
 *
 * Each packet has a slot, whose number is the wr_id of its request.
 */
#include <linux/if_infiniband.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "phc.h"
#include "ring.h"
#include "ud.h"

#define IBDS_CHANNEL_WC		16
/* Sends that are completed in one poll */
#define IBDS_CHANNEL_TX_BUDGET	256

static struct ibds_nif_stats *ibds_channel_stats(const struct ibds_channel *ch)
{
	return &ch->nif->stats[ch->index];
}

static struct netdev_queue *ibds_channel_txq(const struct ibds_channel *ch)
{
	return netdev_get_tx_queue(ch->nif->netdev, ch->index);
}

static void ibds_channel_restart(struct ibds_channel *ch)
{
	schedule_delayed_work(&ch->nif->restart, 0);
}

/* ---- receiving ---------------------------------------------------------- */

/**
 * ibds_rx_post - post the buffer of a slot, a new one if it has none
 * @ch: channel
 * @index: the slot
 * @gfp: allocation flags
 *
 * Return: 0 or -errno.
 */
int ibds_rx_post(struct ibds_channel *ch, u32 index, gfp_t gfp)
{
	struct ib_device *ibdev = ch->qp->device;
	struct ibds_rx_slot *slot = &ch->rx[index];
	const struct ib_recv_wr *bad;
	struct ib_recv_wr wr = { .wr_id = index, .num_sge = 1 };
	struct ib_sge sge = { .length = ch->room };

	if (!slot->skb) {
		slot->skb = __netdev_alloc_skb(ch->nif->netdev, ch->room, gfp);
		if (!slot->skb)
			return -ENOMEM;
		slot->dma = ib_dma_map_single(ibdev, slot->skb->data, ch->room,
					      DMA_FROM_DEVICE);
		if (ib_dma_mapping_error(ibdev, slot->dma)) {
			dev_kfree_skb_any(slot->skb);
			slot->skb = NULL;
			return -ENOMEM;
		}
	}
	sge.addr = slot->dma;
	sge.lkey = ch->qp->pd->local_dma_lkey;
	wr.sg_list = &sge;
	return ib_post_recv(ch->qp, &wr, &bad);
}

/* Post buffers for idle slots. */
static void ibds_rx_refill(struct ibds_channel *ch)
{
	while (!ch->dead && ch->idles &&
	       !ibds_rx_post(ch, ch->idle[ch->idles - 1], GFP_ATOMIC))
		ch->idles--;
	/* Nothing would ever call this again. */
	if (ch->idles == ch->nif->rx_size)
		ibds_channel_restart(ch);
}

/* Take the packet out of a slot. */
static struct sk_buff *ibds_rx_take(struct ibds_channel *ch, u32 index)
{
	struct ibds_rx_slot *slot = &ch->rx[index];
	struct sk_buff *skb = slot->skb;

	ib_dma_unmap_single(ch->qp->device, slot->dma, ch->room,
			    DMA_FROM_DEVICE);
	slot->skb = NULL;
	return skb;
}

/* Whether the HCA sent a packet of the interface back to it. */
static bool ibds_rx_own(const struct ibds_nif *nif, const struct ib_wc *wc,
			const struct ib_grh *grh)
{
	return (wc->wc_flags & IB_WC_GRH) && wc->src_qp == nif->qpn &&
	       !memcmp(&grh->sgid, nif->netdev->dev_addr + 4, sizeof(grh->sgid));
}

/* PACKET_HOST, or what a group address makes it. */
static u8 ibds_rx_type(const struct net_device *netdev, const struct ib_wc *wc,
		       const struct ib_grh *grh)
{
	if (!(wc->wc_flags & IB_WC_GRH) || grh->dgid.raw[0] != 0xff)
		return PACKET_HOST;
	return memcmp(&grh->dgid, netdev->broadcast + 4, sizeof(grh->dgid)) ?
	       PACKET_MULTICAST : PACKET_BROADCAST;
}

static void ibds_rx_count(struct ibds_nif_stats *stats,
			  const struct sk_buff *skb)
{
	u64_stats_update_begin(&stats->rx_sync);
	u64_stats_inc(&stats->rx_packets);
	u64_stats_add(&stats->rx_bytes, skb->len);
	if (skb->ip_summed == CHECKSUM_COMPLETE)
		u64_stats_inc(&stats->rx_csum);
	u64_stats_update_end(&stats->rx_sync);
}

/* What rings of their own tell of a packet: sum of its bytes, hash, stamp. */
static void ibds_rx_annotate(const struct ibds_channel *ch, struct ibds_nif *to,
			     struct sk_buff *skb,
			     const struct ibds_rx_meta *meta)
{
	netdev_features_t features = to->netdev->features;

	if (features & NETIF_F_RXCSUM) {
		skb->ip_summed = CHECKSUM_COMPLETE;
		skb->csum = csum_partial(skb->data, skb->len, 0);
	}
	if ((features & NETIF_F_RXHASH) && meta->hashed != IBDS_HASHED_NONE)
		skb_set_hash(skb, meta->hash,
			     meta->hashed == IBDS_HASHED_L4 ?
			     PKT_HASH_TYPE_L4 : PKT_HASH_TYPE_L3);
	if (meta->stamp && to->tstamp.rx_filter != HWTSTAMP_FILTER_NONE)
		skb_hwtstamps(skb)->hwtstamp =
			ibds_phc_time(to->dev->phc, meta->stamp);
	skb_record_rx_queue(skb, ch->index);
}

/* Give a packet of @wc->byte_len bytes to the interface that it is for. */
static void ibds_rx_deliver(struct ibds_channel *ch, struct sk_buff *skb,
			    const struct ib_wc *wc)
{
	const struct ibds_rx_meta *meta = &ch->meta[wc->wr_id];
	const struct ib_grh *grh = (void *)skb->data;
	struct ibds_nif *to = ch->nif;
	bool own;

	if (meta->qpn != to->qpn)
		to = xa_load(&to->by_qpn, meta->qpn);
	if (!to || wc->byte_len < IBDS_GRH_BYTES + IBDS_IPOIB_HLEN ||
	    ibds_rx_own(to, wc, grh)) {
		dev_kfree_skb_any(skb);
		return;
	}
	own = ibds_nif_own(to);
	skb->dev = to->netdev;
	if (own)
		skb->pkt_type = ibds_rx_type(to->netdev, wc, grh);
	skb_put(skb, wc->byte_len);
	skb_pull(skb, IBDS_GRH_BYTES);
	skb->protocol = *(__be16 *)skb->data;
	/* The room of the GRH becomes the hard header. */
	memset(skb_push(skb, IBDS_NIF_PSEUDO_HLEN), 0, IBDS_NIF_PSEUDO_HLEN);
	skb_reset_mac_header(skb);
	skb_pull(skb, IBDS_NIF_PSEUDO_HLEN + IBDS_IPOIB_HLEN);
	if (own) {
		ibds_rx_annotate(ch, to, skb, meta);
		ibds_rx_count(&to->stats[ch->index], skb);
		napi_gro_receive(&ch->napi, skb);
	} else {
		dev_sw_netstats_rx_add(to->netdev, skb->len);
		netif_receive_skb(skb);
	}
}

static void ibds_rx_one(struct ibds_channel *ch, const struct ib_wc *wc)
{
	struct ibds_nif_stats *stats = ibds_channel_stats(ch);

	ch->idle[ch->idles++] = wc->wr_id;
	if (likely(wc->status == IB_WC_SUCCESS)) {
		ibds_rx_deliver(ch, ibds_rx_take(ch, wc->wr_id), wc);
		return;
	}
	if (wc->status == IB_WC_WR_FLUSH_ERR) {
		ch->dead = true;
		ibds_channel_restart(ch);
		return;
	}
	u64_stats_update_begin(&stats->rx_sync);
	u64_stats_inc(&stats->rx_errors);
	u64_stats_update_end(&stats->rx_sync);
}

static int ibds_channel_poll_rx(struct ibds_channel *ch, int budget)
{
	struct ib_wc wc[IBDS_CHANNEL_WC];
	int done = 0;
	int i, n;

	while (done < budget) {
		n = ib_poll_cq(ch->rx_cq, min(budget - done, IBDS_CHANNEL_WC),
			       wc);
		if (n <= 0)
			break;
		for (i = 0; i < n; i++)
			ibds_rx_one(ch, &wc[i]);
		done += n;
		ibds_rx_refill(ch);
	}
	if (unlikely(ch->idles))
		ibds_rx_refill(ch);
	return done;
}

/* ---- completing sends --------------------------------------------------- */

/**
 * ibds_tx_unmap - undo the mapping of a packet
 * @ch: channel
 * @slot: its slot
 */
void ibds_tx_unmap(const struct ibds_channel *ch,
		   const struct ibds_tx_slot *slot)
{
	const struct skb_shared_info *shared = skb_shinfo(slot->skb);
	struct ib_device *ibdev = &ch->nif->dev->ib;
	u32 i, n = 0;

	if (slot->head)
		ib_dma_unmap_single(ibdev, slot->dma[n++], slot->head,
				    DMA_TO_DEVICE);
	for (i = 0; i < shared->nr_frags; i++)
		ib_dma_unmap_page(ibdev, slot->dma[n++],
				  skb_frag_size(&shared->frags[i]),
				  DMA_TO_DEVICE);
}

static void ibds_tx_stamp(const struct ibds_channel *ch, struct sk_buff *skb,
			  u32 index)
{
	struct skb_shared_hwtstamps stamp = {
		.hwtstamp = ibds_phc_time(ch->nif->dev->phc,
					  READ_ONCE(ch->stamps[index])),
	};

	skb_tstamp_tx(skb, &stamp);
}

static void ibds_tx_count(struct ibds_channel *ch, const struct sk_buff *skb,
			  bool sent)
{
	struct ibds_nif_stats *stats = ibds_channel_stats(ch);
	const struct skb_shared_info *shared = skb_shinfo(skb);
	struct net_device *netdev = ch->nif->netdev;
	u32 packets = 1, bytes = skb->len;

	if (!ibds_nif_own(ch->nif)) {
		if (sent)
			dev_sw_netstats_tx_add(netdev, 1, bytes);
		else
			DEV_STATS_INC(netdev, tx_errors);
		return;
	}
	if (skb_is_gso(skb)) {
		packets = max_t(u32, shared->gso_segs, 1);
		bytes += (packets - 1) * (skb_transport_offset(skb) +
					  tcp_hdrlen(skb));
	}
	u64_stats_update_begin(&stats->tx_sync);
	if (sent) {
		u64_stats_add(&stats->tx_packets, packets);
		u64_stats_add(&stats->tx_bytes, bytes);
		u64_stats_add(&stats->tx_tso, skb_is_gso(skb));
	} else {
		u64_stats_inc(&stats->tx_errors);
	}
	u64_stats_update_end(&stats->tx_sync);
}

static void ibds_tx_one(struct ibds_channel *ch, const struct ib_wc *wc,
			int budget)
{
	struct ibds_tx_slot *slot = &ch->tx[wc->wr_id];
	bool sent = wc->status == IB_WC_SUCCESS;
	struct sk_buff *skb = slot->skb;

	ibds_tx_unmap(ch, slot);
	ibds_tx_count(ch, skb, sent);
	if (sent && slot->stamp)
		ibds_tx_stamp(ch, skb, wc->wr_id);
	slot->skb = NULL;
	napi_consume_skb(skb, budget);
	if (unlikely(!sent))
		ibds_channel_restart(ch);
}

/* Return: whether there may be more to do. */
static bool ibds_channel_poll_tx(struct ibds_channel *ch, int budget)
{
	struct netdev_queue *txq = ibds_channel_txq(ch);
	struct ib_wc wc[IBDS_CHANNEL_WC];
	u32 done = 0;
	int i, n;

	do {
		n = ib_poll_cq(ch->tx_cq, IBDS_CHANNEL_WC, wc);
		for (i = 0; i < n; i++)
			ibds_tx_one(ch, &wc[i], budget);
		done += max(n, 0);
	} while (n == IBDS_CHANNEL_WC && done < IBDS_CHANNEL_TX_BUDGET);
	if (!done)
		return false;
	/* Senders may use the slots. */
	smp_store_release(&ch->tail, ch->tail + done);
	/* Pairs with the barrier in ibds_tx_stop(). */
	smp_mb();
	if (READ_ONCE(ch->stopped) && READ_ONCE(ch->nif->channels)) {
		WRITE_ONCE(ch->stopped, false);
		netif_tx_wake_queue(txq);
	}
	return done >= IBDS_CHANNEL_TX_BUDGET;
}

/* ---- interrupts --------------------------------------------------------- */

/**
 * ibds_channel_poll - poll function of a channel
 * @napi: its NAPI
 * @budget: packets that it may receive
 *
 * Return: packets that it received, or @budget to be called again.
 */
int ibds_channel_poll(struct napi_struct *napi, int budget)
{
	struct ibds_channel *ch = container_of(napi, struct ibds_channel, napi);
	enum ib_cq_notify_flags arm = IB_CQ_NEXT_COMP |
				      IB_CQ_REPORT_MISSED_EVENTS;
	bool more = ibds_channel_poll_tx(ch, budget);
	int done = 0;

	if (ch->rx_cq && budget)
		done = ibds_channel_poll_rx(ch, budget);
	if (more || done >= budget)
		return budget;
	if (!napi_complete_done(napi, done))
		return done;
	more = ib_req_notify_cq(ch->tx_cq, arm) > 0;
	if (ch->rx_cq)
		more |= ib_req_notify_cq(ch->rx_cq, arm) > 0;
	if (more)
		napi_schedule(napi);
	return done;
}

/* ---- sending ------------------------------------------------------------ */

/* Stop the queue if it is full. */
static void ibds_tx_stop(struct ibds_channel *ch, struct netdev_queue *txq)
{
	u32 size = ch->nif->tx_size;

	if (likely(ch->head - READ_ONCE(ch->tail) < size))
		return;
	netif_tx_stop_queue(txq);
	WRITE_ONCE(ch->stopped, true);
	/* Pairs with the barrier in ibds_channel_poll_tx(). */
	smp_mb();
	if (ch->head - READ_ONCE(ch->tail) < size) {
		WRITE_ONCE(ch->stopped, false);
		netif_tx_start_queue(txq);
	}
}

/* Whether the HCA computes the checksum that a packet needs. */
static bool ibds_tx_can_csum(const struct sk_buff *skb)
{
	u32 start = skb_checksum_start_offset(skb);
	u8 proto;

	if (skb->protocol == htons(ETH_P_IP)) {
		proto = ip_hdr(skb)->protocol;
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		if (start != skb_network_offset(skb) + sizeof(struct ipv6hdr))
			return false;
		proto = ipv6_hdr(skb)->nexthdr;
	} else {
		return false;
	}
	if (start != skb_transport_offset(skb))
		return false;
	return (proto == IPPROTO_TCP &&
		skb->csum_offset == offsetof(struct tcphdr, check)) ||
	       (proto == IPPROTO_UDP &&
		skb->csum_offset == offsetof(struct udphdr, check));
}

/*
 * Have the HCA cut a packet.  What it would refuse is lost here, else it would stop
 * the ring.
 */
static int ibds_tx_cut(const struct ibds_nif *nif, struct sk_buff *skb,
		       struct ib_ud_wr *wr)
{
	u32 hlen = skb_transport_offset(skb) + tcp_hdrlen(skb);
	u32 mss = skb_shinfo(skb)->gso_size;

	if (hlen > IBDS_MAX_INLINE || !pskb_may_pull(skb, hlen) ||
	    !ibds_lso_l4(skb->data, hlen))
		return -EINVAL;
	if (hlen + mss > READ_ONCE(nif->port->mtu_active))
		return -EMSGSIZE;
	wr->wr.opcode = IB_WR_LSO;
	wr->header = skb->data;
	wr->hlen = hlen;
	wr->mss = mss;
	return 0;
}

/* Checksum and segmentation.  Return: 0 or -errno. */
static int ibds_tx_offload(const struct ibds_nif *nif, struct sk_buff *skb,
			   struct ib_ud_wr *wr)
{
	if (skb_is_gso(skb))
		return ibds_tx_cut(nif, skb, wr);
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	if (!ibds_tx_can_csum(skb))
		return skb_checksum_help(skb);
	wr->wr.send_flags |= IB_SEND_IP_CSUM | IBDS_SEND_CSUM_V6;
	return 0;
}

/* Map a packet.  Return: number of entries of @sge, or -errno. */
static int ibds_tx_map(const struct ibds_channel *ch, struct ibds_tx_slot *slot,
		       struct ib_sge *sge, u32 hlen)
{
	struct ib_device *ibdev = ch->qp->device;
	struct sk_buff *skb = slot->skb;
	struct skb_shared_info *shared = skb_shinfo(skb);
	u32 i, n = 0, frags = shared->nr_frags;

	slot->head = skb_headlen(skb) - hlen;
	if (slot->head) {
		slot->dma[0] = ib_dma_map_single(ibdev, skb->data + hlen,
						 slot->head, DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ibdev, slot->dma[0]))
			return -ENOMEM;
		sge[n++].length = slot->head;
	}
	for (i = 0; i < frags; i++, n++) {
		const skb_frag_t *frag = &shared->frags[i];

		slot->dma[n] = ib_dma_map_page(ibdev, skb_frag_page(frag),
					       skb_frag_off(frag),
					       skb_frag_size(frag),
					       DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ibdev, slot->dma[n]))
			goto err_unmap;
		sge[n].length = skb_frag_size(frag);
	}
	for (i = 0; i < n; i++) {
		sge[i].addr = slot->dma[i];
		sge[i].lkey = ch->qp->pd->local_dma_lkey;
	}
	return n;

err_unmap:
	n = 0;
	if (slot->head)
		ib_dma_unmap_single(ibdev, slot->dma[n++], slot->head,
				    DMA_TO_DEVICE);
	while (i--)
		ib_dma_unmap_page(ibdev, slot->dma[n + i],
				  skb_frag_size(&shared->frags[i]),
				  DMA_TO_DEVICE);
	return -ENOMEM;
}

/* Ask for a stamp if the sender of a packet wants one, and clocks are read. */
static void ibds_tx_want_stamp(const struct ibds_nif *nif,
			       struct ibds_tx_slot *slot, struct ib_ud_wr *wr)
{
	struct skb_shared_info *shared = skb_shinfo(slot->skb);

	slot->stamp = (shared->tx_flags & SKBTX_HW_TSTAMP) &&
		      nif->tstamp.tx_type == HWTSTAMP_TX_ON;
	if (likely(!slot->stamp))
		return;
	shared->tx_flags |= SKBTX_IN_PROGRESS;
	wr->wr.send_flags |= IBDS_SEND_STAMP;
}

/* Post a packet.  Return: 0, or -errno and it was not taken. */
static int ibds_tx_post(struct ibds_channel *ch, struct sk_buff *skb,
			struct ib_ah *ah, u32 dqpn)
{
	u32 index = ch->head & (ch->nif->tx_size - 1);
	struct ibds_tx_slot *slot = &ch->tx[index];
	struct ib_sge sge[MAX_SKB_FRAGS + 1];
	const struct ib_send_wr *bad;
	struct ib_ud_wr wr = {
		.wr.wr_id = index,
		.wr.sg_list = sge,
		.wr.opcode = IB_WR_SEND,
		.wr.send_flags = IB_SEND_SIGNALED,
		.ah = ah,
		.remote_qpn = dqpn,
		.remote_qkey = ch->nif->qkey,
	};
	int n, err;

	if (skb_shinfo(skb)->nr_frags >= ch->nif->dev->caps.max_sge &&
	    skb_linearize(skb))
		return -ENOMEM;
	err = ibds_tx_offload(ch->nif, skb, &wr);
	if (err)
		return err;
	slot->skb = skb;
	n = ibds_tx_map(ch, slot, sge, wr.hlen);
	if (n < 0) {
		slot->skb = NULL;
		return n;
	}
	wr.wr.num_sge = n;
	if (ibds_nif_own(ch->nif)) {
		ibds_tx_want_stamp(ch->nif, slot, &wr);
		skb_tx_timestamp(skb);
	}
	err = ib_post_send(ch->qp, &wr.wr, &bad);
	if (err) {
		ibds_tx_unmap(ch, slot);
		slot->skb = NULL;
	}
	return err;
}

static int ibds_tx_drop(struct ibds_nif *nif, u32 index, struct sk_buff *skb)
{
	if (ibds_nif_own(nif))
		atomic64_inc(&nif->stats[index % IBDS_MAX_CHANNELS].tx_dropped);
	else
		DEV_STATS_INC(nif->netdev, tx_dropped);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

/* With the UD QP of IPoIB, packets must not exceed the MTU that it has set. */
static bool ibds_tx_too_long(const struct ibds_nif *nif,
			     const struct sk_buff *skb)
{
	const struct rdma_netdev *rn = netdev_priv(nif->netdev);

	if (ibds_nif_own(nif))
		return !skb_is_gso(skb) &&
		       skb->len > READ_ONCE(nif->port->mtu_active);
	if (skb->len <= rn->mtu + IBDS_IPOIB_HLEN)
		return false;
	DEV_STATS_INC(nif->netdev, tx_errors);
	return true;
}

/**
 * ibds_channel_send - send a packet (struct rdma_netdev.send)
 * @netdev: interface
 * @skb: packet, from its encapsulation header on; consumed
 * @ah: address handle of the destination
 * @dqpn: QP of the destination
 *
 * Context: the transmit queue is locked.
 * Return: NETDEV_TX_OK.
 */
int ibds_channel_send(struct net_device *netdev, struct sk_buff *skb,
		      struct ib_ah *ah, u32 dqpn)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	struct ibds_channel *channels = READ_ONCE(nif->channels);
	u32 index = skb_get_queue_mapping(skb);
	struct netdev_queue *txq;
	struct ibds_channel *ch;

	/* HCAs do not look: this would crash. */
	if (WARN_ON_ONCE(index >= netdev->real_num_tx_queues ||
			 !READ_ONCE(nif->open)))
		return ibds_tx_drop(nif, index, skb);
	txq = netdev_get_tx_queue(netdev, index);
	lockdep_assert_held(&txq->_xmit_lock);
	/* Closed for a moment, to be opened again */
	if (unlikely(!channels || index >= nif->num))
		return ibds_tx_drop(nif, index, skb);
	ch = &channels[index];
	/* Pairs with smp_store_release() in ibds_channel_poll_tx(). */
	if (unlikely(ch->head - smp_load_acquire(&ch->tail) >= nif->tx_size) ||
	    unlikely(ibds_tx_too_long(nif, skb)) ||
	    unlikely(ibds_tx_post(ch, skb, ah, dqpn)))
		return ibds_tx_drop(nif, index, skb);
	ch->head++;
	ibds_tx_stop(ch, txq);
	return NETDEV_TX_OK;
}
