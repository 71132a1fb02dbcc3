/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Receive queues
 */
#ifndef IPOIB_RX_H
#define IPOIB_RX_H

#include <linux/bits.h>
#include <linux/mm.h>
#include <linux/netdevice.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_verbs.h>

#include "ipoib_proto.h"
#include "ipoib_tx.h"

struct ipoib_channel;
struct ipoib_dev;
struct page_pool;

#define IPOIB_GRH_LEN		((u32)sizeof(struct ib_grh))

/* Bytes to allocate for @len bytes that become the linear part of an skb. */
static inline u32 ipoib_rx_head_size(u32 len)
{
	return SKB_DATA_ALIGN(len) +
	       SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
}

/* Padding before @len bytes, to align what follows them to a cache line. */
#define IPOIB_PAD(len)		(NET_SKB_PAD - (len) % NET_SKB_PAD)
/* Padding before a datagram, to align the IP header. */
#define IPOIB_RX_PAD		IPOIB_PAD(IPOIB_GRH_LEN + IPOIB_ENCAP_LEN)
#define IPOIB_RX_BUFS		4	/* most buffers of a receive */
#define IPOIB_RX_PAGES		DIV_ROUND_UP(65536, PAGE_SIZE)

/**
 * struct ipoib_rx_format - the buffers of a queue's receives
 *
 * The first buffer becomes the linear part of an skb, the others page
 * fragments; buffers that a packet does not reach stay in its slot.
 *
 * @num: most buffers
 * @pad: bytes left free before the first
 * @total: bytes the HCA may write, in as many buffers as that takes
 * @pool: page pool of each
 * @size: bytes to allocate for each
 * @len: bytes the HCA may write to each
 * @cut: buffers after the first are whole pages, and the part of one that a
 *	packet does not use is reused
 * @pages: number of single pages that can replace these buffers, 0 if the HCA
 *	does not take so many SGEs
 * @less: format to fall back to if memory is short, or NULL
 */
struct ipoib_rx_format {
	u32 num;
	u32 pad;
	u32 total;
	struct page_pool *pool[IPOIB_RX_BUFS];
	u32 size[IPOIB_RX_BUFS];
	u32 len[IPOIB_RX_BUFS];
	bool cut;
	u32 pages;
	const struct ipoib_rx_format *less;
};

/**
 * struct ipoib_rx_pages - single pages behind the head of a slot
 * @va: pages
 * @sge: scatter list of head and pages
 */
struct ipoib_rx_pages {
	void *va[IPOIB_RX_PAGES];
	struct ib_sge sge[IPOIB_RX_PAGES + 1];
};

/**
 * struct ipoib_rx_slot - the buffers of a receive
 * @buf: where the HCA writes; NULL while there is no buffer.  If pages are cut,
 *	only the second may be the rest of one
 * @pages: replace all but the first while large pages are not available
 * @format: their format; NULL while there are none
 * @turn: times that it was posted; the HCA reports it with the index
 * @posted: the HCA may write into them
 */
struct ipoib_rx_slot {
	void *buf[IPOIB_RX_BUFS];
	struct ipoib_rx_pages *pages;
	const struct ipoib_rx_format *format;
	u32 turn;
	bool posted;
};

/* A request's id: the index of its slot, and above that the slot's turn. */
#define IPOIB_RX_INDEX_BITS	16
#define IPOIB_RX_INDEX_MASK	GENMASK(IPOIB_RX_INDEX_BITS - 1, 0)

/**
 * struct ipoib_rxq - receive buffers of an SRQ, or of one QP without SRQ
 *
 * Only the channel's NAPI, or the owner while that NAPI is disabled, touches
 * it: no lock.
 *
 * @srq: shared receive queue the buffers are posted to, or NULL
 * @qp: the QP they are posted to when there is no SRQ
 * @ch: channel whose NAPI serves it
 * @format: format of its next receives, written by any context
 * @slots: @size receives
 * @free: stack of slots that are not posted
 * @nfree: entries on @free
 * @size: number of slots
 * @used: slots in use, the first ones; an SRQ grows with its users
 * @want: slots to keep posted, written by any context.  If that is less than
 *	@used, the others stay free
 * @taken: receives completed since the last poll ended
 * @backlog: receives completed before that, since the CQs were last empty
 * @emptied: ipoib_channel.emptied at that time
 * @elastic: grows when much of it is taken before the CQs are empty
 * @dirty: entry in the channel's list of queues to refill before the poll ends
 * @wr: chain of requests, linked once
 * @sge: their buffers
 */
struct ipoib_rxq {
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ipoib_channel *ch;
	const struct ipoib_rx_format *format;
	struct ipoib_rx_slot *slots;
	u16 *free;
	u32 nfree;
	u32 size;
	u32 used;
	u32 want;
	u32 taken;
	u32 backlog;
	u32 emptied;
	bool elastic;
	struct list_head dirty;
	struct ib_recv_wr wr[IPOIB_POST_BATCH];
	struct ib_sge sge[IPOIB_POST_BATCH][IPOIB_RX_BUFS];
};

/**
 * struct ipoib_rx_batch - packets that a poll received
 * @ndev: interface of the packets counted here; they are added to its counters
 *	before those of another one are counted
 * @packets: number of packets
 * @bytes: their bytes
 * @lone: the CQ had no other completion
 * @list: packets that bypass GRO
 */
struct ipoib_rx_batch {
	struct net_device *ndev;
	u32 packets;
	u32 bytes;
	bool lone;
	struct list_head list;
};

/* Number of slots to post: the free ones, except those beyond @want. */
static inline u32 ipoib_rxq_missing(const struct ipoib_rxq *rxq)
{
	u32 want = READ_ONCE(rxq->want);
	u32 spare = rxq->used > want ? rxq->used - want : 0;

	return rxq->nfree > spare ? rxq->nfree - spare : 0;
}

/* True if enough slots are missing to be worth a post. */
static inline bool ipoib_rxq_due(const struct ipoib_rxq *rxq)
{
	return ipoib_rxq_missing(rxq) >=
	       clamp(READ_ONCE(rxq->want) / 8, 1U, IPOIB_POST_BATCH);
}

void ipoib_rx_sync(struct ipoib_channel *ch, void *va, u32 len);
void ipoib_rxq_refill(struct ipoib_rxq *rxq);
void ipoib_rxq_refill_timer(struct timer_list *t);
int ipoib_rxq_alloc(struct ipoib_rxq *rxq, struct ipoib_channel *ch,
		    const struct ipoib_rx_format *format, u32 size, u32 used);
void ipoib_rxq_grow(struct ipoib_rxq *rxq);
void ipoib_rxq_free(struct ipoib_rxq *rxq);
void ipoib_rx_refill_dirty(struct ipoib_channel *ch);
void ipoib_rx_error(struct ipoib_dev *dev, const struct ib_wc *wc);
struct sk_buff *ipoib_rx_skb(struct ipoib_rxq *rxq, struct ipoib_rx_slot *slot,
			     u32 skip, u32 len);
void ipoib_rx_deliver(struct ipoib_channel *ch, struct net_device *ndev,
		      struct sk_buff *skb, __be16 proto,
		      struct ipoib_rx_batch *batch);
void ipoib_rx_batch_end(struct ipoib_channel *ch, struct ipoib_rx_batch *batch);

#endif /* IPOIB_RX_H */
