/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RING_H
#define IBDEVSIM_RING_H

#include "nif.h"

/**
 * struct ibds_rx_slot - a receive buffer
 * @skb: it, or NULL
 * @dma: its address for the HCA
 */
struct ibds_rx_slot {
	struct sk_buff *skb;
	u64 dma;
};

/**
 * struct ibds_tx_slot - a packet on its way
 * @skb: it
 * @stamp: its sender is told when it left
 * @head: bytes of the linear part that are mapped
 * @dma: addresses for the HCA: of the linear part, if any, and the fragments
 */
struct ibds_tx_slot {
	struct sk_buff *skb;
	bool stamp;
	u32 head;
	u64 dma[MAX_SKB_FRAGS + 1];
};

/**
 * struct ibds_channel - a channel
 * @napi: polls both CQs
 * @nif: interface
 * @index: number
 * @rx_cq: completions of receives; NULL: it only sends
 * @tx_cq: completions of sends
 * @qp: QP
 * @rx: receive buffers
 * @meta: what is told of them, by slot
 * @idle: slots without a posted buffer
 * @idles: entries of @idle
 * @dead: the QP is in ERR: nothing is posted any more
 * @room: bytes of a receive buffer
 * @tx: packets on their way
 * @stamps: when they left, by slot
 * @head: next slot to use, with the transmit queue locked
 * @stopped: it has stopped the transmit queue, which IPoIB may stop, too
 * @tail: next slot to complete, in the poll function
 */
struct ibds_channel {
	struct napi_struct napi;
	struct ibds_nif *nif;
	u32 index;
	struct ib_cq *rx_cq;
	struct ib_cq *tx_cq;
	struct ib_qp *qp;
	struct ibds_rx_slot *rx;
	struct ibds_rx_meta *meta;
	u32 *idle;
	u32 idles;
	bool dead;
	u32 room;
	struct ibds_tx_slot *tx;
	u64 *stamps;
	u32 head;
	bool stopped;
	u32 tail ____cacheline_aligned_in_smp;
};

int ibds_rx_post(struct ibds_channel *ch, u32 index, gfp_t gfp);
void ibds_tx_unmap(const struct ibds_channel *ch,
		   const struct ibds_tx_slot *slot);
int ibds_channel_poll(struct napi_struct *napi, int budget);
int ibds_channel_send(struct net_device *netdev, struct sk_buff *skb,
		      struct ib_ah *ah, u32 dqpn);

#endif /* IBDEVSIM_RING_H */
