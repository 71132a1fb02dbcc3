// SPDX-License-Identifier: GPL-2.0-only
/*
 * Transmit queues: ring, chain of requests, completions, BQL
 *
 * Sending takes the queue's TX lock and no other; work requests are chained
 * while the stack announces more and are posted together, the last one
 * signalled.  A completion retires everything before it.
 *
 * Lock: the netdev TX lock for sending, the channel's NAPI for completions; see
 * struct ipoib_txq.
 */
#include <net/netdev_queues.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_count.h"
#include "ipoib_cq.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"
#include "ipoib_tx.h"

/* ---- completions -------------------------------------------------------- */

/**
 * ipoib_tx_unmap - unmap a packet
 * @ring: ring it is in
 * @slot: its slot
 */
void ipoib_tx_unmap(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot)
{
	struct ipoib_tx_map *map;
	u32 i;

	if (!slot->nmap)
		return;
	map = &ring->map[(slot - ring->slots) * IPOIB_MAX_SGE];
	for (i = 0; i < slot->nmap; i++)
		ib_dma_unmap_page(ring->ca, map[i].addr, map[i].len,
				  DMA_TO_DEVICE);
}

/**
 * ipoib_tx_count - count packets that were sent
 * @txq: queue
 * @packets: number of packets
 * @bytes: their bytes
 *
 * Context: the channel's NAPI, the only writer of the queue's count.
 */
void ipoib_tx_count(struct ipoib_txq *txq, u32 packets, u32 bytes)
{
	struct pcpu_sw_netstats *stats =
		this_cpu_ptr(txq->qp.dev->ndev->tstats);
	struct ipoib_channel *ch = txq->qp.ch;

	WRITE_ONCE(ch->sent, ch->sent + packets);
	ipoib_count_add(&txq->done.sent, packets, bytes);
	u64_stats_update_begin(&stats->syncp);
	u64_stats_add(&stats->tx_packets, packets);
	u64_stats_add(&stats->tx_bytes, bytes);
	u64_stats_update_end(&stats->syncp);
}

/* Retire the packets before sequence number @end. */
void ipoib_txq_retire(struct ipoib_txq *txq, u32 end, int budget)
{
	struct completion *emptied = READ_ONCE(txq->emptied);
	u32 tail = txq->tail, packets = 0, bytes = 0;

	for (; tail != end; tail++) {
		struct ipoib_tx_slot *slot =
			&txq->ring.slots[tail & (txq->ring.size - 1)];

		ipoib_tx_unmap(&txq->ring, slot);
		packets++;
		bytes += slot->bytes;
		napi_consume_skb(slot->skb, budget);
	}
	if (!packets)
		return;

	ipoib_tx_count(txq, packets, bytes);

	/* Pairs with READ_ONCE() in ipoib_txq_free() */
	WRITE_ONCE(txq->tail, tail);
	if (unlikely(emptied) && tail == READ_ONCE(txq->head))
		complete(emptied);
	txq->done.reaps++;
	__netif_txq_completed_wake(txq->nq, packets, bytes,
				   ipoib_txq_free(txq), txq->ring.size / 2,
				   !READ_ONCE(txq->qp.dev->running));
}

/*
 * For BQL, a packet is completed when it is handed to a connection: a slow peer
 * must not hold up the queue that all peers share.
 */
void ipoib_txq_complete_handed(struct ipoib_txq *txq)
{
	u32 bytes;

	/* Fully ordered before the counter is read: later packets relist. */
	test_and_clear_bit(0, &txq->bql_listed);
	/* Pairs with smp_store_release() in ipoib_rc_chain() */
	bytes = smp_load_acquire(&txq->rc_bytes) - txq->bql_bytes;
	if (!bytes)
		return;
	txq->bql_bytes += bytes;
	/* BQL counts bytes; one packet or more only says that there were some. */
	__netif_txq_completed_wake(txq->nq, 1, bytes,
				   ipoib_txq_free(txq), txq->ring.size / 2,
				   !READ_ONCE(txq->qp.dev->running));
}

/* ---- sending ------------------------------------------------------------ */

/**
 * ipoib_txq_watch - have completions reaped in time
 * @txq: queue that has posted, its TX lock held
 * @cq: where they are reported
 * @arm: enough is in flight to be worth an interrupt
 *
 * Completions are mostly reaped by polls for receives, and raise no interrupt
 * of their own.  One is requested when the queue fills; otherwise a timer of
 * one tick bounds the delay.
 */
void ipoib_txq_watch(struct ipoib_txq *txq, struct ipoib_cq *cq, bool arm)
{
	if (arm) {
		WRITE_ONCE(cq->armed, true);
		txq->stat.arms++;
		if (ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP |
				     IB_CQ_REPORT_MISSED_EVENTS) > 0)
			napi_schedule(&txq->qp.ch->napi);
	}
	if (!timer_pending(&txq->timer)) {
		txq->idle = 1;
		mod_timer(&txq->timer, jiffies + 1);
	}
}

/**
 * ipoib_txq_handed - have packets completed that were handed to a connection
 * @txq: queue that has counted them, its TX lock held
 */
void ipoib_txq_handed(struct ipoib_txq *txq)
{
	if (!test_and_set_bit(0, &txq->bql_listed))
		llist_add(&txq->bql, &txq->qp.ch->bql);
	if (netif_xmit_stopped(txq->nq))
		napi_schedule(&txq->qp.ch->napi);
}

static void ipoib_txq_timer(struct timer_list *t)
{
	struct ipoib_txq *txq = container_of(t, struct ipoib_txq, timer);
	u32 tail = READ_ONCE(txq->tail) + READ_ONCE(txq->rc_done);

	if (READ_ONCE(txq->head) == READ_ONCE(txq->tail) &&
	    !atomic_read(&txq->rc_inflight) && !test_bit(0, &txq->bql_listed))
		return;
	txq->idle = ipoib_tx_idle(txq->idle, tail != txq->timer_tail);
	txq->timer_tail = tail;
	napi_schedule(&txq->qp.ch->napi);
	mod_timer(&txq->timer, jiffies + txq->idle);
}

/**
 * ipoib_txq_post - post the chain of a queue
 * @txq: queue with requests to be posted, its TX lock held
 */
void ipoib_txq_post(struct ipoib_txq *txq)
{
	struct ipoib_tx_wr *last = &txq->chain[txq->chained - 1];
	const struct ib_send_wr *bad;

	last->ud.wr.send_flags |= IB_SEND_SIGNALED;
	last->ud.wr.next = NULL;
	txq->stat.posts++;
	if (unlikely(ib_post_send(txq->qp.ib, &txq->chain[0].ud.wr, &bad))) {
		/*
		 * Requests from the failed one on were not posted, those before
		 * it are not signalled: rebuild the QP, which retires all of
		 * them.
		 */
		txq->stat.post_errors++;
		DEV_STATS_INC(txq->qp.dev->ndev, tx_errors);
		ipoib_dev_event(txq->qp.dev, IPOIB_EV_RESTART);
	}
	if (txq->chained < IPOIB_POST_BATCH)
		last->ud.wr.next = &last[1].ud.wr;
	txq->chained = 0;
	ipoib_txq_watch(txq, txq->cqs.tx, netif_xmit_stopped(txq->nq) ||
			ipoib_tx_should_arm(txq->cqs.tx, txq->head -
					    READ_ONCE(txq->tail), txq->urgent));
	txq->urgent = false;
}

/**
 * ipoib_tx_keep_map - record a DMA mapping, to be unmapped later
 * @ring: ring of the packet
 * @slot: its slot
 * @addr: DMA address
 * @len: bytes
 * Return: false if @addr is not valid
 */
bool ipoib_tx_keep_map(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		       u64 addr, u32 len)
{
	struct ipoib_tx_map *map;

	if (unlikely(ib_dma_mapping_error(ring->ca, addr)))
		return false;
	map = &ring->map[(slot - ring->slots) * IPOIB_MAX_SGE + slot->nmap++];
	map->addr = addr;
	map->len = len;
	return true;
}

/**
 * ipoib_tx_map - fill in the gather list of a packet
 * @ring: ring of the packet
 * @slot: its slot
 * @sge: result
 * @skb: packet
 * @hlen: bytes at its beginning to leave out
 * Return: number of entries, or -EIO
 */
int ipoib_tx_map(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		 struct ib_sge *sge, struct sk_buff *skb, u32 hlen)
{
	const struct skb_shared_info *info = skb_shinfo(skb);
	struct ib_device *ca = ring->ca;
	u32 len = skb_headlen(skb) - hlen;
	int i, n = 0;
	u64 addr;

	slot->nmap = 0;
	if (len) {
		addr = ib_dma_map_single(ca, skb->data + hlen, len,
					 DMA_TO_DEVICE);
		if (!ipoib_tx_sge(ring, slot, &sge[n++], addr, len))
			goto err_unmap;
	}
	for (i = 0; i < info->nr_frags; i++) {
		const skb_frag_t *frag = &info->frags[i];

		len = skb_frag_size(frag);
		addr = ib_dma_map_page(ca, skb_frag_page(frag),
				       skb_frag_off(frag), len, DMA_TO_DEVICE);
		if (!ipoib_tx_sge(ring, slot, &sge[n++], addr, len))
			goto err_unmap;
	}
	return n;

err_unmap:
	ipoib_tx_unmap(ring, slot);
	return -EIO;
}

/**
 * ipoib_txq_sent - a packet was added to the chain
 * @txq: queue, its TX lock held
 * @bytes: bytes not yet reported to BQL
 *
 * Stops the queue while it has no room for a packet that is to be cut.
 *
 * Return: true if the queue's chains are to be posted now
 */
bool ipoib_txq_sent(struct ipoib_txq *txq, u32 bytes)
{
	u32 size = txq->ring.size;
	bool kick;

	kick = __netdev_tx_sent_queue(txq->nq, bytes, netdev_xmit_more());
	/* One slot is reserved for the drain marker. */
	if (unlikely(!netif_txq_maybe_stop(txq->nq, ipoib_txq_free(txq),
					   ipoib_tso_segs(size) + 1,
					   size / 2))) {
		txq->stat.stops++;
		kick = true;
	}
	/* A packet that the stack's code has cut may fill the chain. */
	if (unlikely(txq->chained == IPOIB_POST_BATCH))
		ipoib_txq_post(txq);
	return kick;
}

/* ---- rings and queues ------------------------------------------------------ */

/**
 * ipoib_tx_ring_alloc - allocate a ring
 * @ring: zeroed
 * @ca: HCA
 * @size: packets, a power of two
 * Return: 0 or -ENOMEM
 */
int ipoib_tx_ring_alloc(struct ipoib_tx_ring *ring, struct ib_device *ca,
			u32 size)
{
	ring->ca = ca;
	ring->size = size;
	ring->slots = kvzalloc_objs(*ring->slots, size);
	ring->hdrs = kcalloc(DIV_ROUND_UP(size, IPOIB_TSO_PER_PAGE), sizeof(*ring->hdrs),
			     GFP_KERNEL);
	if (!ib_uses_virt_dma(ca))
		ring->map = kvcalloc(size, IPOIB_MAX_SGE * sizeof(*ring->map),
				     GFP_KERNEL);
	if (ring->slots && ring->hdrs && (ring->map || ib_uses_virt_dma(ca)))
		return 0;
	ipoib_tx_ring_free(ring);
	return -ENOMEM;
}

/**
 * ipoib_tx_ring_free - undo ipoib_tx_ring_alloc(); the ring is empty
 * @ring: ring, or zeroed
 */
void ipoib_tx_ring_free(struct ipoib_tx_ring *ring)
{
	u32 i;

	for (i = 0; ring->hdrs && i < DIV_ROUND_UP(ring->size, IPOIB_TSO_PER_PAGE); i++)
		free_page((unsigned long)ring->hdrs[i]);
	kfree(ring->hdrs);
	kvfree(ring->slots);
	kvfree(ring->map);
	ring->hdrs = NULL;
	ring->slots = NULL;
	ring->map = NULL;
}

static void ipoib_txq_link(struct ipoib_txq *txq)
{
	struct ipoib_port *port = txq->qp.dev->port;
	int i, j;

	for (i = 0; i < IPOIB_POST_BATCH; i++) {
		struct ipoib_tx_wr *w = &txq->chain[i];

		w->ud.wr.sg_list = w->sge;
		w->ud.wr.next = i + 1 < IPOIB_POST_BATCH ? &w[1].ud.wr : NULL;
		w->ud.port_num = port->num;
		for (j = 0; j < IPOIB_MAX_SGE; j++)
			w->sge[j].lkey = port->pd->local_dma_lkey;
	}
}

/**
 * ipoib_txq_release - undo ipoib_txq_alloc(); the queue has no QP, and is empty
 * @txq: queue
 */
void ipoib_txq_release(struct ipoib_txq *txq)
{
	timer_delete_sync(&txq->timer);
	ipoib_tx_ring_free(&txq->ring);
	kfree(txq->rc);
	/* ipoib_rx_is_own() may still look at it. */
	kfree_rcu(txq, rcu);
}

/**
 * ipoib_txq_alloc - allocate a transmit queue, without a QP
 * @dev: interface
 * @ch: channel that reports its completions
 * @index: index in ipoib_dev.txqs
 * @size: packets, a power of two
 * Return: queue or NULL
 */
struct ipoib_txq *ipoib_txq_alloc(struct ipoib_dev *dev,
				  struct ipoib_channel *ch, u32 index, u32 size)
{
	struct ipoib_txq *txq;

	txq = kzalloc_obj(*txq);
	if (!txq)
		return NULL;
	txq->qp.dev = dev;
	txq->qp.ch = ch;
	txq->qp.txq = txq;
	init_completion(&txq->qp.drained);
	u64_stats_init(&txq->done.sent.sync);
	txq->index = index;
	txq->nq = netdev_get_tx_queue(dev->ndev, index);
	/* BQL alone would learn that one or two packets are enough. */
	netdev_queue_set_dql_min_limit(txq->nq, IPOIB_TX_ARM * IPOIB_RX_HEAD);
	timer_setup(&txq->timer, ipoib_txq_timer, 0);
	if (ipoib_tx_ring_alloc(&txq->ring, dev->port->ca, size)) {
		ipoib_txq_release(txq);
		return NULL;
	}
	ipoib_txq_link(txq);
	return txq;
}

/**
 * ipoib_txq_connect - allocate what a transmit queue needs to use connections
 * @txq: queue, of an interface that is not in connected mode yet or not in use
 *
 * Freed only with the queue.
 *
 * Return: false if there is no memory
 */
bool ipoib_txq_connect(struct ipoib_txq *txq)
{
	struct ipoib_rc_chain *chain;

	if (txq->rc)
		return true;
	chain = kzalloc_obj(*chain);
	/* Senders may see it at once: its contents come first. */
	smp_store_release(&txq->rc, chain);
	return chain;
}

/* ---- the end of a QP ---------------------------------------------------- */

/* Drop what never completed, whether or not it was sent. */
static void ipoib_txq_drop_rest(struct ipoib_txq *txq)
{
	u32 tail = txq->tail;

	for (; tail != txq->head; tail++) {
		struct ipoib_tx_slot *slot =
			&txq->ring.slots[tail & (txq->ring.size - 1)];

		ipoib_tx_unmap(&txq->ring, slot);
		ipoib_drop(txq->qp.dev->ndev, slot->skb,
			   SKB_DROP_REASON_DEV_READY);
	}
	WRITE_ONCE(txq->tail, tail);
}

/*
 * The QP no longer owns anything, and the NAPI does not use its ring any more.
 * But connections may go on, and the NAPI counts what they sent: so the rest is
 * counted elsewhere, as dropped.  The TX lock excludes senders from BQL.
 */
void ipoib_txq_purge(struct ipoib_txq *txq)
{
	timer_delete_sync(&txq->timer);
	__netif_tx_lock_bh(txq->nq);
	WARN_ON_ONCE(test_bit(0, &txq->bql_listed));
	ipoib_txq_drop_rest(txq);
	txq->bql_bytes = txq->rc_bytes;
	netdev_tx_reset_queue(txq->nq);
	/* The timer is theirs, too. */
	if (atomic_read(&txq->rc_inflight))
		mod_timer(&txq->timer, jiffies + 1);
	__netif_tx_unlock_bh(txq->nq);
}

/*
 * Stop the queue for good.  A poll that was running when the QPs were stopped
 * may have woken it once more; that poll has ended.  True if it was woken: then
 * packets may have been handed to connections since.
 */
bool ipoib_txq_hold(struct ipoib_txq *txq)
{
	bool woken;

	__netif_tx_lock_bh(txq->nq);
	woken = !netif_tx_queue_stopped(txq->nq) ||
		test_bit(0, &txq->bql_listed);
	netif_tx_stop_queue(txq->nq);
	__netif_tx_unlock_bh(txq->nq);
	return woken;
}
