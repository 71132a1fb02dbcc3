/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Transmit queues
 */
#ifndef IPOIB_TX_H
#define IPOIB_TX_H

#include <linux/llist.h>
#include <linux/netdevice.h>
#include <linux/timer.h>

#include "ipoib.h"
#include "ipoib_count.h"
#include "ipoib_cq.h"
#include "ipoib_fit.h"
#include "ipoib_qp.h"
#include "ipoib_rules.h"

struct ipoib_conn;
struct ipoib_neigh;

#define IPOIB_POST_BATCH	16U	/* work requests posted in one chain */
/* Segment headers per page of a ring */
#define IPOIB_TSO_PER_PAGE	((u32)(PAGE_SIZE / IPOIB_TSO_HDR))

/**
 * enum ipoib_sent - what an engine did with a packet
 * @IPOIB_SENT_DONE: consumed: in a chain, waiting or dropped
 * @IPOIB_SENT_FLUSH: in a chain, and the queue's chains are to be posted now
 * @IPOIB_SENT_CUT: not consumed: the stack's code has to cut it first
 * @IPOIB_SENT_NOT: not consumed: send it as datagrams instead
 */
enum ipoib_sent {
	IPOIB_SENT_DONE,
	IPOIB_SENT_FLUSH,
	IPOIB_SENT_CUT,
	IPOIB_SENT_NOT,
};

/**
 * struct ipoib_tx_slot - a packet that was posted
 * @skb: freed when the request, or a later signalled one, completes
 * @bytes: bytes reported to BQL
 * @nmap: pieces to unmap, 0 with virtual DMA
 */
struct ipoib_tx_slot {
	struct sk_buff *skb;
	u32 bytes;
	u32 nmap;
};

#define IPOIB_MAX_SGE		(MAX_SKB_FRAGS + 1)

/* DMA mapping of a piece of a packet, kept to be unmapped. */
struct ipoib_tx_map {
	u64 addr;
	u32 len;
};

/**
 * struct ipoib_tx_ring - packets of a send queue
 * @ca: HCA
 * @slots: @size packets
 * @map: pieces of slot n at n * IPOIB_MAX_SGE; NULL with virtual DMA
 * @hdrs: pages with headers of segments, see ipoib_tso.c
 * @size: a power of two
 */
struct ipoib_tx_ring {
	struct ib_device *ca;
	struct ipoib_tx_slot *slots;
	struct ipoib_tx_map *map;
	void **hdrs;
	u32 size;
};

struct ipoib_tx_wr {
	struct ib_ud_wr ud;
	struct ib_sge sge[IPOIB_MAX_SGE];
};

/**
 * struct ipoib_rc_wr - a request under construction
 * @wr: request
 * @sge: its pieces
 */
struct ipoib_rc_wr {
	struct ib_send_wr wr;
	struct ib_sge sge[IPOIB_MAX_SGE];
};

/**
 * struct ipoib_rc_chain - requests of a transmit queue not yet posted
 * @conn: connection they are for, NULL if there are none.  RCU protects it
 *	between two packets of a burst
 * @num: number of requests
 * @w: requests
 */
struct ipoib_rc_chain {
	struct ipoib_conn *conn;
	u32 num;
	struct ipoib_rc_wr w[IPOIB_POST_BATCH];
};

/**
 * struct ipoib_last - neighbour of a queue's last packet, see ipoib_neigh_lookup()
 * @neigh: neighbour, or NULL
 * @removals: number of removals before it was looked up
 */
struct ipoib_last {
	struct ipoib_neigh *neigh;
	u32 removals;
};

/**
 * struct ipoib_txq - a transmit queue
 *
 * The first part and @chain are written under the netdev queue's TX lock, the
 * part between by the channel's NAPI; @tail and the BQL counters also by the
 * owner once the QP is down.
 *
 * @qp: QP it posts to.  That of the first queue is the interface's: it has the
 *	QPN that peers know and receives; the others only send
 * @cqs: room for its completions
 * @index: index in ipoib_dev.txqs
 * @qpn: number of its QP
 * @nq: the stack's queue
 * @ring: packets
 * @chained: number of requests in @chain
 * @urgent: since the last post a packet was queued whose socket runs out of
 *	buffer space, see ipoib_tx_owner_short()
 * @rc: requests not yet posted on a connection, NULL before connected mode
 * @rc_inflight: packets that connections have not sent yet
 * @rc_bytes: bytes handed to connections, for BQL
 * @bql: in the channel's list while not all of them were completed to BQL
 * @bql_listed: bit 0: @bql is in that list
 * @last: neighbour of the last packet
 * @head: sequence number of the next packet
 * @tail: sequence number of the oldest packet not completed
 * @reap_mark: @head when the address handle reaper last read it (port lock)
 * @stat: counters written under the TX lock
 * @timer: reaps completions that raised no interrupt, see ipoib_txq_watch()
 * @idle: jiffies the timer waits; grows while nothing completes
 * @timer_tail: @tail and @rc_done when the timer last ran
 * @rc_done: packets that connections have sent
 * @emptied: to be completed when nothing is in flight, or NULL
 * @bql_bytes: @rc_bytes completed to BQL
 * @done: counters written at completion
 * @lost_rxq: private receive queue of a lost QP, or NULL
 * @rcu: frees it
 * @chain: requests not yet posted, linked when the queue is created
 */
struct ipoib_txq {
	struct ipoib_qp qp;
	struct ipoib_cqs cqs;
	u32 index;
	u32 qpn;
	struct netdev_queue *nq;
	struct ipoib_tx_ring ring;
	u32 chained;
	bool urgent;
	struct ipoib_rc_chain *rc;
	atomic_t rc_inflight;
	u32 rc_bytes;
	struct llist_node bql;
	unsigned long bql_listed;
	struct ipoib_last last;
	u32 head;
	u32 reap_mark;
	struct timer_list timer;
	unsigned long idle;
	u32 timer_tail;
	struct {
		u64 posts;
		u64 stops;
		u64 too_long;
		u64 map_errors;
		u64 post_errors;
		u64 arms;
	} stat;

	u32 tail ____cacheline_aligned_in_smp;
	u32 rc_done;
	struct completion *emptied;
	u32 bql_bytes;
	struct {
		struct ipoib_count sent;
		u64 reaps;
		u64 errors;
	} done;
	struct ipoib_rxq *lost_rxq;
	struct rcu_head rcu;

	struct ipoib_tx_wr chain[IPOIB_POST_BATCH] ____cacheline_aligned_in_smp;
};

/**
 * struct ipoib_tx_batch - completed packets, to be retired together
 * @txq: queue that sent them, or NULL
 * @end: sequence number after the last of them
 */
struct ipoib_tx_batch {
	struct ipoib_txq *txq;
	u32 end;
};

/* The QP whose QPN is in the interface's address. */
static inline struct ipoib_qp *ipoib_dev_qp(const struct ipoib_dev *dev)
{
	return &dev->txqs[0]->qp;
}

/* The QPN in the interface's address. */
static inline u32 ipoib_dev_qpn(const struct ipoib_dev *dev)
{
	return READ_ONCE(dev->qpn);
}

/* The channel in which the interface receives datagrams. */
static inline struct ipoib_channel *ipoib_dev_channel(const struct ipoib_dev *dev)
{
	return ipoib_dev_qp(dev)->ch;
}

/* Free slots in the ring of a queue. */
static inline u32 ipoib_txq_free(const struct ipoib_txq *txq)
{
	return ipoib_ring_free(txq->ring.size, txq->head, READ_ONCE(txq->tail));
}

/* The next slot in the ring. */
static inline struct ipoib_tx_slot *ipoib_txq_slot(struct ipoib_txq *txq)
{
	return &txq->ring.slots[txq->head & (txq->ring.size - 1)];
}

void ipoib_tx_unmap(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot);
void ipoib_tx_count(struct ipoib_txq *txq, u32 packets, u32 bytes);
void ipoib_txq_retire(struct ipoib_txq *txq, u32 end, int budget);
void ipoib_txq_complete_handed(struct ipoib_txq *txq);
void ipoib_txq_watch(struct ipoib_txq *txq, struct ipoib_cq *cq, bool arm);
void ipoib_txq_handed(struct ipoib_txq *txq);
void ipoib_txq_post(struct ipoib_txq *txq);
bool ipoib_tx_keep_map(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		       u64 addr, u32 len);
int ipoib_tx_map(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		 struct ib_sge *sge, struct sk_buff *skb, u32 hlen);
bool ipoib_txq_sent(struct ipoib_txq *txq, u32 bytes);
int ipoib_tx_ring_alloc(struct ipoib_tx_ring *ring, struct ib_device *ca,
			u32 size);
void ipoib_tx_ring_free(struct ipoib_tx_ring *ring);
void ipoib_txq_purge(struct ipoib_txq *txq);
bool ipoib_txq_hold(struct ipoib_txq *txq);
struct ipoib_txq *ipoib_txq_alloc(struct ipoib_dev *dev,
				  struct ipoib_channel *ch, u32 index, u32 size);
void ipoib_txq_release(struct ipoib_txq *txq);
bool ipoib_txq_connect(struct ipoib_txq *txq);

/**
 * ipoib_tx_sge - add a piece to the request under construction
 * @ring: ring of the packet
 * @slot: its slot
 * @sge: result
 * @addr: DMA address
 * @len: bytes
 * Return: false if @addr is not valid
 */
static inline bool ipoib_tx_sge(struct ipoib_tx_ring *ring,
				struct ipoib_tx_slot *slot, struct ib_sge *sge,
				u64 addr, u32 len)
{
	sge->addr = addr;
	sge->length = len;
	return !ring->map || ipoib_tx_keep_map(ring, slot, addr, len);
}

/**
 * ipoib_tx_address - set the destination of a datagram
 * @txq: queue, its TX lock held
 * @w: request, the next to be chained
 * @ah: destination, valid under RCU
 * @qpn: destination QPN
 */
static inline void ipoib_tx_address(struct ipoib_txq *txq,
				    struct ipoib_tx_wr *w, struct ib_ah *ah,
				    u32 qpn)
{
	const struct ipoib_dev *dev = txq->qp.dev;

	w->ud.wr.wr_id = txq->head;
	w->ud.ah = ah;
	w->ud.remote_qpn = qpn;
	w->ud.remote_qkey = dev->qkey;
	w->ud.pkey_index = dev->pkey_index;
}

#endif /* IPOIB_TX_H */
