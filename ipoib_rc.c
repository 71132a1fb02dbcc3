// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets on connections: the hot part of connected mode
 *
 * A packet for a neighbour with a connection is sent as one message, gathered
 * from its fragments.  Requests for one connection form a chain while the stack
 * announces more.  Packets that find the connection's ring full wait in a queue
 * of their own, bounded in bytes, while the stack's queue keeps running for
 * others: for BQL a packet is done once it has been handed over.
 *
 * Between two hosts running this driver, a packet may be sent without its
 * checksum, or unsegmented; immediate data says so.
 *
 * Objects: the sending side of struct ipoib_conn, the waiting packets of
 * struct ipoib_link, struct ipoib_rc_chain.  Locks: ipoib_link.lock for a
 * connection and what waits for it; the netdev TX lock for the chain.
 *
 * RFC 4755 sections 5 (encapsulation) and 7 (MTU).
 */
#include <linux/skbuff_ref.h>
#include <linux/tcp.h>
#include <net/gro.h>
#include <net/gso.h>
#include <net/netdev_queues.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cm_internal.h"
#include "ipoib_count.h"
#include "ipoib_cq.h"
#include "ipoib_debug.h"
#include "ipoib_fit.h"
#include "ipoib_ib.h"
#include "ipoib_pmtu.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_qp.h"
#include "ipoib_rc.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_skb.h"
#include "ipoib_tx.h"

/* True if datagrams can carry it, segmented by HCA or driver if needed. */
static bool ipoib_fits_datagram(struct ipoib_dev *dev, struct sk_buff *skb)
{
	return !(ipoib_ud_fit(dev, skb) &
		 (IPOIB_FIT_SEGMENT | IPOIB_FIT_TOO_LONG));
}

/* ---- transmit completions ----------------------------------------------- */

/* True if there is room for a packet; the last slot is for a drain marker. */
static bool ipoib_rc_room(const struct ipoib_conn *conn)
{
	return ipoib_ring_free(conn->ring.size, conn->head,
			       READ_ONCE(conn->tail)) > 1;
}

/* Retire the packets before sequence number @end. */
static void ipoib_rc_retire(struct ipoib_conn *conn, u32 end, int budget)
{
	struct ipoib_txq *txq = conn->qp.txq;
	u32 tail = conn->tail, bytes = 0;
	u32 packets = end - tail;

	if (!packets)
		return;
	for (; tail != end; tail++) {
		struct ipoib_tx_slot *slot =
			&conn->ring.slots[tail & (conn->ring.size - 1)];

		ipoib_tx_unmap(&conn->ring, slot);
		bytes += slot->bytes;
		napi_consume_skb(slot->skb, budget);
	}
	ipoib_tx_count(txq, packets, bytes);
	/* Pairs with READ_ONCE() in ipoib_rc_room() */
	WRITE_ONCE(conn->tail, tail);
	WRITE_ONCE(txq->rc_done, txq->rc_done + packets);
	atomic_sub(packets, &txq->rc_inflight);
}

/* Link's lock held. */
static void ipoib_rc_break(struct ipoib_conn *conn, enum ib_wc_status status)
{
	lockdep_assert_held(&conn->link->lock);
	if (conn->broken)
		return;
	WRITE_ONCE(conn->broken, true);
	conn->status = status;
	ipoib_conn_notify(conn, IPOIB_CONN_EV_BROKEN);
}

static void ipoib_rc_push(struct ipoib_conn *conn);

/*
 * A send on a connection completed.  After the first failure nothing more is
 * sent: that packet and all later ones stay in the ring, for the next
 * connection.
 */
static void ipoib_rc_tx(struct ipoib_qp *qp, const struct ib_wc *wc,
			struct ipoib_tx_batch *batch, int budget)
{
	struct ipoib_conn *conn = container_of(qp, struct ipoib_conn, qp);
	struct ipoib_link *link = conn->link;
	u32 seq = wc->wr_id;

	if (unlikely(!link || !ipoib_ring_holds(READ_ONCE(conn->head),
						conn->tail, seq)))
		return;
	if (likely(wc->status == IB_WC_SUCCESS)) {
		ipoib_rc_retire(conn, seq + 1, budget);
	} else if (!READ_ONCE(conn->broken)) {
		ipoib_rc_retire(conn, seq, budget);
		spin_lock(&link->lock);
		ipoib_rc_break(conn, wc->status);
		spin_unlock(&link->lock);
	}
	/* Pairs with smp_mb() in ipoib_rc_wait(); conn->tail comes first. */
	smp_mb();
	if (unlikely(READ_ONCE(link->waiting_bytes)))
		ipoib_rc_push(conn);
}

/**
 * ipoib_rc_purge - take back the packets that a connection did not send
 * @conn: connection whose QP is gone
 * @left: packets are added to it, with their link-layer addresses in front
 *
 * Context: process, nobody else uses the connection any more.
 */
void ipoib_rc_purge(struct ipoib_conn *conn, struct sk_buff_head *left)
{
	struct ipoib_txq *txq = conn->qp.txq;

	for (; conn->tail != conn->head; conn->tail++) {
		struct ipoib_tx_slot *slot =
			&conn->ring.slots[conn->tail & (conn->ring.size - 1)];

		ipoib_tx_unmap(&conn->ring, slot);
		__skb_push(slot->skb, INFINIBAND_ALEN);
		__skb_queue_tail(left, slot->skb);
		atomic_dec(&txq->rc_inflight);
	}
}

/**
 * ipoib_rc_disown - nobody is to wait for packets that the HCA may still send
 * @conn: connection whose QP can be neither reset nor destroyed
 *
 * Their memory stays, and stays mapped, until ipoib_rc_drop().
 *
 * Context: process, nobody else uses the connection any more.
 */
void ipoib_rc_disown(struct ipoib_conn *conn)
{
	u32 at;

	for (at = conn->tail; at != conn->head; at++) {
		struct sk_buff *skb =
			conn->ring.slots[at & (conn->ring.size - 1)].skb;

		DEV_STATS_INC(conn->qp.dev->ndev, tx_dropped);
		skb_orphan(skb);
		skb_dst_drop(skb);
		nf_reset_ct(skb);
		skb->dev = NULL;
		atomic_dec(&conn->qp.txq->rc_inflight);
	}
}

/**
 * ipoib_rc_drop - free the packets that ipoib_rc_disown() has left
 * @conn: connection whose QP is gone
 *
 * Context: process.
 */
void ipoib_rc_drop(struct ipoib_conn *conn)
{
	for (; conn->tail != conn->head; conn->tail++) {
		struct ipoib_tx_slot *slot =
			&conn->ring.slots[conn->tail & (conn->ring.size - 1)];

		ipoib_tx_unmap(&conn->ring, slot);
		kfree_skb(slot->skb);
	}
}

/**
 * ipoib_rc_resend - send packets that have waited
 * @list: packets with their link-layer addresses in front; emptied
 *
 * They are transmitted like new packets, not necessarily on a connection.
 *
 * Context: process.
 */
void ipoib_rc_resend(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list)))
		dev_queue_xmit(skb);
}

/* ---- transmit path ------------------------------------------------------ */

static noinline u32 ipoib_rc_fit_slow(const struct ipoib_link *link,
				      const struct sk_buff *skb, u32 *imm)
{
	u32 max_sge = link->dev->max_sge;
	const struct ipoib_fit_dest dest = {
		.rc = true,
		.max_len = READ_ONCE(link->max_msg),
		.max_sge = max_sge,
		.repack = max_sge >= IPOIB_REPACK_SGE,
		.caps = READ_ONCE(link->caps),
	};
	struct ipoib_fit_packet p;
	u32 fit;

	ipoib_skb_describe(skb, &p);
	fit = ipoib_fit(&p, &dest);
	*imm = fit & IPOIB_FIT_PEER ? ipoib_fit_imm(&p) : 0;
	return fit;
}

/*
 * Return: what must be done to a packet before the link's connection takes it,
 * bits of enum ipoib_fit; in @imm the immediate data.  Link's lock held.
 */
static u32 ipoib_rc_fit(const struct ipoib_link *link,
			const struct sk_buff *skb, u32 *imm)
{
	struct ipoib_transport t;

	lockdep_assert_held(&link->lock);
	if (!ipoib_fit_is_plain(skb->len - INFINIBAND_ALEN,
				skb_shinfo(skb)->nr_frags,
				skb_shinfo(skb)->gso_size, link->max_msg,
				link->dev->max_sge))
		return ipoib_rc_fit_slow(link, skb, imm);
	*imm = 0;
	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	if (!(link->caps & IPOIB_CM_CAP_NO_CSUM) ||
	    ipoib_skb_transport(skb, &t))
		return IPOIB_FIT_CSUM;
	*imm = IPOIB_IMM_CSUM;
	return IPOIB_FIT_PEER;
}

/**
 * ipoib_link_fit - what must be done to a packet for a neighbour's connection
 * @link: link of the neighbour
 * @skb: packet with its link-layer address in front
 *
 * Without a connection it will be sent as datagrams, or wait unchanged if it is
 * too long for those.  The link may change before the packet is sent.
 *
 * Context: BHs disabled.
 * Return: bits of enum ipoib_fit
 */
u32 ipoib_link_fit(const struct ipoib_link *link, const struct sk_buff *skb)
{
	u32 imm;

	return READ_ONCE(link->state) == IPOIB_LINK_UP ?
	       ipoib_rc_fit_slow(link, skb, &imm) :
	       ipoib_ud_fit(link->dev, skb);
}

/* More fragments than the HCA can gather: copy them to larger ones. */
static noinline int ipoib_rc_repack(struct sk_buff *skb)
{
	u32 pages = DIV_ROUND_UP(skb->data_len, IPOIB_REPACK_SIZE);
	struct page *page[IPOIB_REPACK_PAGES];
	u32 i, n, done = 0;

	if (pages > IPOIB_REPACK_PAGES || skb_unclone(skb, GFP_ATOMIC))
		return -ENOMEM;
	/* The skb holds no references to pages managed by io_uring. */
	skb_zcopy_downgrade_managed(skb);
	for (i = 0; i < pages; i++) {
		page[i] = alloc_pages(GFP_ATOMIC | __GFP_NOWARN | __GFP_COMP,
				      get_order(IPOIB_REPACK_SIZE));
		if (!page[i])
			goto err_free;
		n = min_t(u32, skb->data_len - done, IPOIB_REPACK_SIZE);
		if (skb_copy_bits(skb, skb_headlen(skb) + done,
				  page_address(page[i]), n)) {
			__free_pages(page[i], get_order(IPOIB_REPACK_SIZE));
			goto err_free;
		}
		done += n;
	}
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++)
		skb_frag_unref(skb, i);
	for (i = 0; i < pages; i++) {
		n = min_t(u32, done, IPOIB_REPACK_SIZE);
		skb_fill_page_desc(skb, i, page[i], 0, n);
		done -= n;
	}
	skb_shinfo(skb)->nr_frags = pages;
	return 0;

err_free:
	while (i--)
		__free_pages(page[i], get_order(IPOIB_REPACK_SIZE));
	return -ENOMEM;
}

/* Do what can be done to a packet without segmenting it. */
static int ipoib_rc_finish(const struct ipoib_link *link, struct sk_buff *skb,
			   u32 fit)
{
	int ret = 0;

	if (fit & IPOIB_FIT_CSUM)
		ret = skb_checksum_help(skb);
	if (!ret && fit & IPOIB_FIT_REPACK)
		ret = link->dev->max_sge >= IPOIB_REPACK_SGE ?
		      ipoib_rc_repack(skb) : skb_linearize(skb);
	return ret;
}

/* Build a work request for a packet and give it a slot in the ring. */
static bool ipoib_rc_build(struct ipoib_conn *conn, struct ipoib_rc_wr *w,
			   struct sk_buff *skb, u32 imm)
{
	struct ipoib_dev *dev = conn->qp.dev;
	u32 lkey = dev->port->pd->local_dma_lkey;
	struct ipoib_tx_slot *slot =
		&conn->ring.slots[conn->head & (conn->ring.size - 1)];
	int i, n;

	lockdep_assert_held(&conn->link->lock);
	__skb_pull(skb, INFINIBAND_ALEN);
	n = ipoib_tx_map(&conn->ring, slot, w->sge, skb, 0);
	if (unlikely(n < 0))
		return false;
	for (i = 0; i < n; i++)
		w->sge[i].lkey = lkey;
	w->wr.next = NULL;
	w->wr.sg_list = w->sge;
	w->wr.num_sge = n;
	w->wr.wr_id = conn->head;
	w->wr.send_flags = 0;
	w->wr.opcode = imm ? IB_WR_SEND_WITH_IMM : IB_WR_SEND;
	w->wr.ex.imm_data = cpu_to_be32(imm);

	slot->skb = skb;
	slot->bytes = skb->len;
	WRITE_ONCE(conn->head, conn->head + 1);
	atomic_inc(&conn->qp.txq->rc_inflight);
	ipoib_stamp(&conn->used);
	skb_tx_timestamp(skb);
	return true;
}

static int ipoib_rc_post_send(struct ipoib_conn *conn, struct ipoib_rc_wr *w)
{
	const struct ib_send_wr *bad;
	int ret;

	/* A completion retires all packets before its own, too. */
	WARN_ON_ONCE(w->wr.wr_id != conn->posted);
	conn->posted = conn->head;
	ret = ib_post_send(conn->qp.ib, &w->wr, &bad);
	/* Posted requests will complete, the rest stays in the ring. */
	if (unlikely(ret))
		ipoib_rc_break(conn, IB_WC_GENERAL_ERR);
	return ret;
}

/*
 * Send a packet at once, without a chain.  BQL does not account for it: it may
 * come from another queue than the connection's.
 */
static void ipoib_rc_send_one(struct ipoib_conn *conn, struct sk_buff *skb,
			      u32 imm)
{
	struct ipoib_rc_wr w;

	if (unlikely(!ipoib_rc_build(conn, &w, skb, imm))) {
		ipoib_drop(conn->qp.dev->ndev, skb, SKB_DROP_REASON_NOMEM);
		return;
	}
	w.wr.send_flags |= IB_SEND_SIGNALED;
	ipoib_rc_post_send(conn, &w);
}

static bool ipoib_rc_usable(const struct ipoib_link *link,
			    const struct ipoib_conn *conn)
{
	lockdep_assert_held(&link->lock);
	return link->conn == conn && link->state == IPOIB_LINK_UP &&
	       !conn->broken;
}

/* Post the chain; the link's lock and the TX lock are held. */
static void ipoib_rc_post(struct ipoib_txq *txq)
{
	struct ipoib_rc_chain *chain = txq->rc;
	struct ipoib_conn *conn = chain->conn;
	struct ipoib_rc_wr *last = &chain->w[chain->num - 1];

	chain->conn = NULL;
	ipoib_txq_handed(txq);
	/* Otherwise the packets were, or will be, taken out of the ring. */
	if (unlikely(!ipoib_rc_usable(conn->link, conn)))
		return;
	last->wr.send_flags |= IB_SEND_SIGNALED;
	txq->stat.posts++;
	if (unlikely(ipoib_rc_post_send(conn, chain->w)))
		txq->stat.post_errors++;
	ipoib_txq_watch(txq, conn->cqs.tx, conn->link->waiting_bytes ||
			ipoib_tx_should_arm(conn->cqs.tx, conn->head -
					    READ_ONCE(conn->tail),
					    txq->urgent));
	txq->urgent = false;
}

/**
 * ipoib_rc_flush - post the pending chain
 * @txq: transmit queue in connected mode, its TX lock held
 */
void ipoib_rc_flush(struct ipoib_txq *txq)
{
	struct ipoib_conn *conn = txq->rc->conn;

	if (!conn)
		return;
	spin_lock(&conn->link->lock);
	ipoib_rc_post(txq);
	spin_unlock(&conn->link->lock);
}

/*
 * There is no connection: have one opened.  Meanwhile packets that fit are sent
 * as datagrams.  Longer packets wait while a connection is being opened, and
 * are dropped during back-off.  If the peer keeps refusing, they are passed to
 * the datagram path, too, which answers with a smaller path MTU.
 */
static bool ipoib_rc_defer(struct ipoib_link *link, struct sk_buff *skb)
{
	bool wait = link->state != IPOIB_LINK_BACKOFF ||
		    !time_before(jiffies, link->retry);

	lockdep_assert_held(&link->lock);
	if (link->dead)
		return false;
	if (wait && (link->state == IPOIB_LINK_IDLE ||
		     link->state == IPOIB_LINK_BACKOFF)) {
		ipoib_link_move(link, IPOIB_LINK_WANTED);
		ipoib_link_notify(link);
	}
	if (ipoib_fits_datagram(link->dev, skb) ||
	    link->refused >= IPOIB_LINK_REFUSED)
		return false;
	if (wait)
		ipoib_link_wait(link, skb);
	else
		ipoib_link_drop(link, skb, SKB_DROP_REASON_NEIGH_FAILED);
	return true;
}

/* Add a packet to the chain; the link's lock and the TX lock are held. */
static bool ipoib_rc_chain(struct ipoib_txq *txq, struct ipoib_conn *conn,
			   struct sk_buff *skb, u32 imm)
{
	struct ipoib_rc_chain *chain = txq->rc;
	struct ipoib_rc_wr *w;
	bool kick;
	u32 len;

	/* Unposted packets of a connection that has ended are in its ring. */
	if (chain->conn != conn) {
		chain->conn = conn;
		chain->num = 0;
	}
	w = &chain->w[chain->num];
	if (unlikely(!ipoib_rc_build(conn, w, skb, imm))) {
		txq->stat.map_errors++;
		ipoib_drop(txq->qp.dev->ndev, skb, SKB_DROP_REASON_NOMEM);
		if (!chain->num)
			chain->conn = NULL;
		return false;
	}
	if (chain->num)
		w[-1].wr.next = &w->wr;
	chain->num++;
	txq->urgent |= ipoib_tx_owner_short(skb);

	len = skb->len;
	ipoib_dbg_data(txq->qp.dev, "%u bytes to connection %#x\n", len,
		       conn->qp.ib->qp_num);
	kick = __netdev_tx_sent_queue(txq->nq, len, netdev_xmit_more());
	/* Only after BQL knows: the NAPI may complete these bytes at once. */
	smp_store_release(&txq->rc_bytes, txq->rc_bytes + len);
	if (kick) {
		ipoib_rc_post(txq);
		return true;
	}
	/* Waiting packets need a completion: leave no request unposted. */
	if (chain->num == IPOIB_POST_BATCH || !ipoib_rc_room(conn))
		ipoib_rc_post(txq);
	return false;
}

/* Segment a packet that waited; its segments wait in its place. */
static void ipoib_rc_push_segments(struct ipoib_link *link, struct sk_buff *skb)
{
	struct sk_buff *segs, *seg, *next;
	struct sk_buff_head list;

	segs = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM);
	if (IS_ERR_OR_NULL(segs)) {
		ipoib_drop(link->dev->ndev, skb, SKB_DROP_REASON_SKB_GSO_SEG);
		return;
	}
	consume_skb(skb);
	__skb_queue_head_init(&list);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		__skb_queue_tail(&list, seg);
		ipoib_link_count_waiting(link, seg->truesize);
	}
	skb_queue_splice(&list, &link->waiting);
}

/* Send a packet that waited for room in the ring. */
static void ipoib_rc_push_one(struct ipoib_conn *conn, struct sk_buff *skb)
{
	struct ipoib_link *link = conn->link;
	struct ipoib_dev *dev = link->dev;
	u32 imm, fit;

	fit = ipoib_rc_fit(link, skb, &imm);
	if (unlikely(fit & IPOIB_FIT_TOO_LONG))
		ipoib_pmtu_too_long(dev, skb, link->max_msg);
	else if (unlikely(fit & IPOIB_FIT_SEGMENT))
		ipoib_rc_push_segments(link, skb);
	else if (unlikely(fit & IPOIB_FIT_NOT_YET) &&
		 ipoib_rc_finish(link, skb, fit))
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOMEM);
	else
		ipoib_rc_send_one(conn, skb, imm);
}

/*
 * Send waiting packets while there is room; the link's lock is held.  If a chain
 * is still to be posted, its completion brings us back.
 */
static void ipoib_rc_push_locked(struct ipoib_conn *conn)
{
	struct ipoib_link *link = conn->link;
	struct ipoib_txq *txq = conn->qp.txq;
	struct sk_buff *skb;

	while (ipoib_rc_usable(link, conn) && ipoib_rc_room(conn) &&
	       conn->posted == conn->head) {
		skb = __skb_dequeue(&link->waiting);
		if (!skb)
			break;
		ipoib_link_count_waiting(link, -skb->truesize);
		ipoib_rc_push_one(conn, skb);
	}
	if (ipoib_rc_usable(link, conn))
		ipoib_txq_watch(txq, conn->cqs.tx,
				ipoib_tx_should_arm(conn->cqs.tx, conn->head -
						    READ_ONCE(conn->tail),
						    false));
}

/* There is room in the ring again. */
static noinline void ipoib_rc_push(struct ipoib_conn *conn)
{
	spin_lock(&conn->link->lock);
	ipoib_rc_push_locked(conn);
	spin_unlock(&conn->link->lock);
}

/* Queue a packet until one before it completes. */
static noinline void ipoib_rc_wait(struct ipoib_conn *conn, struct sk_buff *skb)
{
	ipoib_link_wait(conn->link, skb);
	/*
	 * Whoever completes the last one before it sees that something waits;
	 * or we see that it has completed, and nobody else will push.
	 */
	smp_mb();
	if (unlikely(conn->head == READ_ONCE(conn->tail)))
		ipoib_rc_push_locked(conn);
	else
		ipoib_txq_watch(conn->qp.txq, conn->cqs.tx, true);
}

/*
 * A filter chose another queue for the packet.  The connection's own queue may
 * have requests that are not posted yet: they are sent first, and the packet
 * when one of them completes.
 */
static noinline void ipoib_rc_foreign_queue(struct ipoib_conn *conn,
					    struct sk_buff *skb, u32 imm)
{
	if (conn->head != READ_ONCE(conn->tail)) {
		ipoib_rc_wait(conn, skb);
		return;
	}
	ipoib_rc_send_one(conn, skb, imm);
	ipoib_txq_watch(conn->qp.txq, conn->cqs.tx, true);
}

/*
 * Send a packet that fits, or queue it, or set @fit to what must be done to it
 * first.  The link's lock and the TX lock are held.
 *
 * Return: true if the queue is to be flushed
 */
static bool ipoib_rc_send_locked(struct ipoib_txq *txq, struct ipoib_conn *conn,
				 struct sk_buff *skb, u32 *fit)
{
	struct ipoib_link *link = conn->link;
	u32 imm;

	*fit = ipoib_rc_fit(link, skb, &imm);
	if (unlikely(*fit & IPOIB_FIT_NOT_YET))
		return false;
	if (unlikely(link->waiting_bytes || !ipoib_rc_room(conn))) {
		ipoib_rc_wait(conn, skb);
		return false;
	}
	if (unlikely(conn->qp.txq != txq)) {
		ipoib_rc_foreign_queue(conn, skb, imm);
		return false;
	}
	return ipoib_rc_chain(txq, conn, skb, imm);
}

/*
 * Make a packet fit; do what takes long without the link's lock.  Return: true
 * if it fits now; else it was consumed.
 */
static noinline bool ipoib_rc_prepare(struct ipoib_link *link,
				      struct sk_buff *skb, u32 fit)
{
	if (!(fit & IPOIB_FIT_TOO_LONG) && !ipoib_rc_finish(link, skb, fit))
		return true;
	if (fit & IPOIB_FIT_TOO_LONG)
		ipoib_pmtu_too_long(link->dev, skb, READ_ONCE(link->max_msg));
	else
		ipoib_drop(link->dev->ndev, skb, SKB_DROP_REASON_NOMEM);
	return false;
}

/**
 * ipoib_rc_send - send a packet to a neighbour that accepts connections
 * @txq: queue, its TX lock held
 * @skb: packet with its link-layer address in front
 * @link: link of the neighbour
 *
 * The headers may have been reallocated when this returns.
 *
 * Return: what was done with it
 */
enum ipoib_sent ipoib_rc_send(struct ipoib_txq *txq, struct sk_buff *skb,
			      struct ipoib_link *link)
{
	struct ipoib_conn *conn = txq->rc->conn;
	enum ipoib_sent sent;
	u32 fit;

	if (conn && unlikely(conn->link != link))
		ipoib_rc_flush(txq);
	do {
		sent = IPOIB_SENT_DONE;
		fit = 0;
		spin_lock(&link->lock);
		conn = link->conn;
		if (unlikely(!ipoib_rc_usable(link, conn))) {
			if (!ipoib_rc_defer(link, skb))
				sent = IPOIB_SENT_NOT;
		} else if (ipoib_rc_send_locked(txq, conn, skb, &fit)) {
			sent = IPOIB_SENT_FLUSH;
		}
		spin_unlock(&link->lock);
		if (likely(!(fit & IPOIB_FIT_NOT_YET)))
			return sent;
		if (fit & IPOIB_FIT_SEGMENT)
			return IPOIB_SENT_CUT;
	} while (ipoib_rc_prepare(link, skb, fit));
	return IPOIB_SENT_DONE;
}

/* ---- receive path ------------------------------------------------------- */

static unsigned int ipoib_rx_gso_type(u32 imm, u8 l4, __be16 proto)
{
	unsigned int type = SKB_GSO_DODGY;

	if (l4 == IPPROTO_UDP)
		return type | SKB_GSO_UDP_L4;
	if (imm & IPOIB_IMM_ECN)
		type |= SKB_GSO_TCP_ECN;
	return type | (proto == htons(ETH_P_IP) ? SKB_GSO_TCPV4 :
						  SKB_GSO_TCPV6);
}

/* Note in the skb which checksum and segmentation its sender left out. */
static bool ipoib_rc_rx_unfinished(struct ipoib_conn *conn,
				   struct sk_buff *skb, __be16 proto, u32 imm)
{
	struct skb_shared_info *info = skb_shinfo(skb);
	struct ipoib_transport t;

	if (ipoib_transport_parse(&t, proto, skb->data, skb_headlen(skb)) ||
	    ipoib_imm_check(imm, conn->peer.caps, &t, skb->len) ||
	    !skb_partial_csum_set(skb, t.start, t.csum - t.start))
		return false;
	if (imm & IPOIB_IMM_GSO) {
		info->gso_size = imm & IPOIB_IMM_SIZE;
		info->gso_type = ipoib_rx_gso_type(imm, t.proto, proto);
		info->gso_segs = DIV_ROUND_UP(skb->len - t.end,
					      info->gso_size);
	}
	return true;
}

static void ipoib_rc_rx_packet(struct ipoib_channel *ch,
			       struct ipoib_conn *conn,
			       struct ipoib_rx_slot *slot,
			       const struct ib_wc *wc,
			       struct ipoib_rx_batch *batch)
{
	struct ipoib_rxq *rxq = conn->qp.rxq;
	struct net_device *ndev = conn->qp.dev->ndev;
	struct ipoib_encap *encap = slot->buf[0];
	u32 len = wc->byte_len;
	struct sk_buff *skb;
	__be16 proto;

	ipoib_rx_sync(ch, slot->buf[0], min(len, slot->format->len[0]));
	if (unlikely(len < IPOIB_ENCAP_LEN))
		goto bad;
	proto = encap->proto;
	skb = ipoib_rx_skb(rxq, slot, 0, len);
	if (unlikely(!skb)) {
		DEV_STATS_INC(ndev, rx_dropped);
		return;
	}
	if (wc->wc_flags & IB_WC_WITH_IMM &&
	    unlikely(!ipoib_rc_rx_unfinished(conn, skb, proto,
					     be32_to_cpu(wc->ex.imm_data)))) {
		kfree_skb(skb);
		goto bad;
	}
	ipoib_rx_deliver(ch, ndev, skb, proto, batch);
	return;
bad:
	conn->qp.dev->cm->stats.bad++;
	DEV_STATS_INC(ndev, rx_errors);
}

/* A receive on a connection completed. */
static void ipoib_rc_rx(struct ipoib_channel *ch, struct ipoib_qp *qp,
			struct ipoib_rx_slot *slot, const struct ib_wc *wc,
			struct ipoib_rx_batch *batch)
{
	struct ipoib_conn *conn = container_of(qp, struct ipoib_conn, qp);

	if (likely(wc->status == IB_WC_SUCCESS)) {
		ipoib_stamp(&conn->used);
		ipoib_rc_rx_packet(ch, conn, slot, wc, batch);
		return;
	}
	ipoib_rx_error(qp->dev, wc);
	if (wc->status != IB_WC_WR_FLUSH_ERR) {
		conn->status = wc->status;
		ipoib_conn_notify(conn, IPOIB_CONN_EV_BROKEN);
	}
}

const struct ipoib_qp_ops ipoib_rc_qp_ops = {
	.rx	= ipoib_rc_rx,
	.tx	= ipoib_rc_tx,
};
