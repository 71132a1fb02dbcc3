// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datagram engine: UD QPs, transmit queues, receive queues, NAPI
 *
 * This is the hot room.  A packet that is sent takes its queue's TX lock and
 * nothing else; work requests gather in a chain while the stack announces
 * more and are posted together, the last one signalled.  A completion retires
 * everything before it.  Received packets come out of the channel's NAPI:
 * small ones are copied and their buffer stays where it is, others become an
 * skb around the buffer, which the page pool gets back when the stack is done.
 * Buffers are posted again in chains.
 *
 * Objects: struct ipoib_ud with its QP and struct ipoib_txq (one interface),
 * struct ipoib_rxq (a channel, or one interface where the HCA has no SRQ for
 * UD).  Locks: none of its own; see the structures.
 *
 * RFC 4391 sections 6 (encapsulation) and 4 (Q_Key, MTU of the link); IBA
 * volume 1 chapters 10 and 11 (verbs, QP states).
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/busy_poll.h>
#include <net/gro.h>
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_drain.h"
#include "ipoib_trace.h"

#define IPOIB_COPYBREAK		256
#define IPOIB_RX_CUT		256U	/* parts of a page end at multiples */
#define IPOIB_RX_REST		4096U	/* less of a page is not worth keeping */
#define IPOIB_ADAPT_PACKETS	64	/* received between two looks */
/* Batches of send completions that a poll takes from a CQ before it receives. */
#define IPOIB_REAP_BATCHES	8

/* ---- receive queues ----------------------------------------------------- */

/* The HCA's view of a buffer; with virtual DMA that is the address itself. */
static u64 ipoib_rx_addr(struct ipoib_channel *ch, void *va)
{
	struct page *page;

	if (ib_uses_virt_dma(ch->port->ca))
		return (uintptr_t)va;
	page = virt_to_head_page(va);
	return page_pool_get_dma_addr(page) + (va - page_address(page));
}

/**
 * ipoib_rx_sync - let the CPU see what the HCA wrote
 * @ch: channel
 * @va: where
 * @len: octets
 */
void ipoib_rx_sync(struct ipoib_channel *ch, void *va, u32 len)
{
	if (!ib_uses_virt_dma(ch->port->ca))
		ib_dma_sync_single_for_cpu(ch->port->ca, ipoib_rx_addr(ch, va),
					   len, DMA_FROM_DEVICE);
}

/* Memory of a pool, not cleared: it has been used before. */
static void *ipoib_rx_alloc(struct page_pool *pool, u32 size)
{
	unsigned int offset;
	struct page *page;

	page = page_pool_dev_alloc_frag(pool, &offset, size);
	return likely(page) ? page_address(page) + offset : NULL;
}

static void *ipoib_rx_buf_alloc(struct ipoib_channel *ch,
				const struct ipoib_rx_format *format, u32 i)
{
	void *va = ipoib_rx_alloc(format->pool[i], format->size[i]);

	/* Memory is in pieces: a page may do. */
	if (unlikely(!va) && ch->pages && format->size[i] <= PAGE_SIZE)
		va = ipoib_rx_alloc(ch->pages, format->size[i]);
	if (unlikely(!va))
		return NULL;
	return i ? va : va + format->pad;
}

/* Where single pages stand in, the other pools have compound ones. */
static void ipoib_rx_buf_free(struct ipoib_channel *ch, struct page_pool *pool,
			      void *va)
{
	struct page *page = virt_to_head_page(va);

	if (ch->pages && !PageCompound(page))
		pool = ch->pages;
	page_pool_put_full_page(pool, page, false);
}

static void ipoib_rx_slot_free_from(struct ipoib_channel *ch,
				    struct ipoib_rx_slot *slot, u32 i)
{
	const struct ipoib_rx_format *format = slot->format;

	for (; i < format->num; i++) {
		if (slot->buf[i])
			ipoib_rx_buf_free(ch, format->pool[i], slot->buf[i]);
		slot->buf[i] = NULL;
	}
}

static void ipoib_rx_slot_free_pages(struct ipoib_channel *ch,
				     struct ipoib_rx_slot *slot)
{
	u32 i;

	if (!slot->pages)
		return;
	for (i = 0; i < IPOIB_RX_PAGES; i++)
		if (slot->pages->va[i])
			ipoib_rx_buf_free(ch, ch->pages, slot->pages->va[i]);
	kfree(slot->pages);
	slot->pages = NULL;
}

static void ipoib_rx_slot_free(struct ipoib_channel *ch,
			       struct ipoib_rx_slot *slot)
{
	if (!slot->format)
		return;
	ipoib_rx_slot_free_from(ch, slot, 0);
	ipoib_rx_slot_free_pages(ch, slot);
	slot->format = NULL;
}

/* Bytes of a buffer that the HCA may write. */
static u32 ipoib_rx_room(const struct ipoib_rx_format *format, const void *va,
			 u32 i)
{
	/* A page of which a packet may have taken the first part. */
	if (i && format->cut)
		return format->size[i] -
		       ((uintptr_t)va & (format->size[i] - 1));
	return format->len[i];
}

static void ipoib_rx_set_sge(struct ipoib_channel *ch, struct ib_sge *sge,
			     void *va, u32 len)
{
	sge->addr = ipoib_rx_addr(ch, va);
	sge->length = len;
}

/* No large pages can be had: give a slot that has its head single ones. */
static noinline bool ipoib_rx_slot_scatter(struct ipoib_channel *ch,
					   struct ipoib_rx_slot *slot,
					   struct ib_recv_wr *wr)
{
	const struct ipoib_rx_format *format = slot->format;
	u32 i, n, left = format->total - format->len[0];
	struct ipoib_rx_pages *pages = slot->pages;

	ipoib_rx_slot_free_from(ch, slot, 1);
	if (!pages) {
		pages = kzalloc_obj(*pages, GFP_ATOMIC | __GFP_NOWARN);
		if (!pages)
			return false;
		slot->pages = pages;
	}
	ipoib_rx_set_sge(ch, &pages->sge[0], slot->buf[0], format->len[0]);
	for (i = 0; i < format->pages; i++, left -= n) {
		n = min_t(u32, left, PAGE_SIZE);
		if (!pages->va[i])
			pages->va[i] = ipoib_rx_alloc(ch->pages, PAGE_SIZE);
		if (!pages->va[i])
			return false;
		ipoib_rx_set_sge(ch, &pages->sge[i + 1], pages->va[i], n);
	}
	for (i = 0; i <= format->pages; i++)
		pages->sge[i].lkey = ch->port->pd->local_dma_lkey;
	wr->sg_list = pages->sge;
	wr->num_sge = format->pages + 1;
	return true;
}

/* Give a slot the buffers that it lacks, and describe them to the HCA. */
static bool ipoib_rx_slot_fill(struct ipoib_channel *ch,
			       struct ipoib_rx_slot *slot,
			       const struct ipoib_rx_format *format,
			       struct ib_recv_wr *wr, struct ib_sge *sge)
{
	u32 i, n, left = format->total;

	if (unlikely(slot->format != format)) {
		ipoib_rx_slot_free(ch, slot);
		slot->format = format;
	}
	for (i = 0; left; i++, left -= n) {
		if (!slot->buf[i])
			slot->buf[i] = ipoib_rx_buf_alloc(ch, format, i);
		if (unlikely(!slot->buf[i]))
			return i && format->pages &&
			       ipoib_rx_slot_scatter(ch, slot, wr);
		n = min(left, ipoib_rx_room(format, slot->buf[i], i));
		ipoib_rx_set_sge(ch, &sge[i], slot->buf[i], n);
	}
	if (unlikely(slot->pages))
		ipoib_rx_slot_free_pages(ch, slot);
	wr->sg_list = sge;
	wr->num_sge = i;
	return true;
}

/* How many slots are to be posted: all that are free, but for those too many. */
static u32 ipoib_rxq_missing(const struct ipoib_rxq *rxq)
{
	u32 want = READ_ONCE(rxq->want);
	u32 spare = rxq->used > want ? rxq->used - want : 0;

	return rxq->nfree > spare ? rxq->nfree - spare : 0;
}

/* Are so many missing that it is worth to post them? */
static bool ipoib_rxq_due(const struct ipoib_rxq *rxq)
{
	return ipoib_rxq_missing(rxq) >=
	       clamp(READ_ONCE(rxq->want) / 8, 1U, IPOIB_POST_BATCH);
}

/* Prepare the @n-th request of the chain for a slot. */
static bool ipoib_rxq_prepare(struct ipoib_rxq *rxq, u32 n,
			      struct ipoib_rx_slot *slot)
{
	const struct ipoib_rx_format *format = READ_ONCE(rxq->format);

	if (likely(ipoib_rx_slot_fill(rxq->ch, slot, format, &rxq->wr[n],
				      rxq->sge[n])))
		return true;
	return format->less &&
	       ipoib_rx_slot_fill(rxq->ch, slot, format->less, &rxq->wr[n],
				  rxq->sge[n]);
}

/* Take up to a chain of free slots, give them buffers; how many? */
static u32 ipoib_rxq_chain(struct ipoib_rxq *rxq)
{
	u32 n, most = min_t(u32, ipoib_rxq_missing(rxq), IPOIB_POST_BATCH);

	for (n = 0; n < most; n++) {
		u32 idx = rxq->free[rxq->nfree - 1 - n];
		struct ipoib_rx_slot *slot = &rxq->slots[idx];

		if (!ipoib_rxq_prepare(rxq, n, slot))
			break;
		/* Before it is: with an SRQ others' packets land at once. */
		slot->posted = true;
		rxq->wr[n].wr_id = idx;
	}
	return n;
}

/* Post the first @n requests of the chain; how many did the HCA take? */
static u32 ipoib_rxq_post(struct ipoib_rxq *rxq, u32 n)
{
	const struct ib_recv_wr *bad;
	int ret;

	rxq->wr[n - 1].next = NULL;
	if (rxq->srq)
		ret = ib_post_srq_recv(rxq->srq, rxq->wr, &bad);
	else
		ret = ib_post_recv(rxq->qp, rxq->wr, &bad);
	if (n < IPOIB_POST_BATCH)
		rxq->wr[n - 1].next = &rxq->wr[n];

	return likely(!ret) ? n : bad - rxq->wr;
}

/**
 * ipoib_rxq_refill - post every slot that is missing
 * @rxq: receive queue
 *
 * What can't be posted now (no memory, a failing HCA) stays free and is tried
 * again by the channel's refill timer, so that no slot is ever lost.
 *
 * Context: the channel's NAPI, or any while that is disabled.
 */
void ipoib_rxq_refill(struct ipoib_rxq *rxq)
{
	u32 i, n, posted;

	while (ipoib_rxq_missing(rxq)) {
		n = ipoib_rxq_chain(rxq);
		if (unlikely(!n))
			goto later;
		posted = ipoib_rxq_post(rxq, n);
		/* The chain's first is the stack's top, so the rest remains. */
		rxq->nfree -= posted;
		if (unlikely(posted < n)) {
			for (i = posted; i < n; i++)
				rxq->slots[rxq->wr[i].wr_id].posted = false;
			goto later;
		}
	}
	return;
later:
	if (list_empty(&rxq->dirty))
		list_add_tail(&rxq->dirty, &rxq->ch->dirty);
	mod_timer(&rxq->ch->refill_timer, jiffies + 1);
}

/* Link the chain of requests. */
static void ipoib_rxq_link(struct ipoib_rxq *rxq)
{
	u32 i, j;

	for (i = 0; i < IPOIB_POST_BATCH; i++) {
		for (j = 0; j < IPOIB_RX_BUFS; j++)
			rxq->sge[i][j].lkey = rxq->ch->port->pd->local_dma_lkey;
		if (i)
			rxq->wr[i - 1].next = &rxq->wr[i];
	}
}

void ipoib_channel_refill_timer(struct timer_list *t)
{
	struct ipoib_channel *ch =
		container_of(t, struct ipoib_channel, refill_timer);

	napi_schedule(&ch->napi);
}

/**
 * ipoib_rxq_alloc - make the slots of a receive queue, without buffers
 * @rxq: zeroed
 * @ch: channel that serves it
 * @format: what its receives are made of
 * @size: slots, at most 65536
 * @used: slots in use at first, see ipoib_rxq_grow()
 * Return: 0 or -ENOMEM
 */
int ipoib_rxq_alloc(struct ipoib_rxq *rxq, struct ipoib_channel *ch,
		    const struct ipoib_rx_format *format, u32 size, u32 used)
{
	u32 i;

	rxq->slots = kvzalloc_objs(*rxq->slots, size);
	rxq->free = kvzalloc_objs(*rxq->free, size);
	if (!rxq->slots || !rxq->free) {
		ipoib_rxq_free(rxq);
		return -ENOMEM;
	}
	for (i = 0; i < used; i++)
		rxq->free[i] = i;
	rxq->nfree = used;
	rxq->used = used;
	rxq->want = used;
	rxq->size = size;
	rxq->ch = ch;
	rxq->format = format;
	ipoib_rxq_link(rxq);
	INIT_LIST_HEAD(&rxq->dirty);
	return 0;
}

/**
 * ipoib_rxq_grow - use as many slots as are wanted
 * @rxq: receive queue
 *
 * Context: the channel's NAPI, or any while that is disabled.
 */
void ipoib_rxq_grow(struct ipoib_rxq *rxq)
{
	u32 want = READ_ONCE(rxq->want);

	while (rxq->used < want)
		rxq->free[rxq->nfree++] = rxq->used++;
	ipoib_rxq_refill(rxq);
}

/**
 * ipoib_rxq_fill - give a new receive queue its buffers
 * @rxq: receive queue whose channel has users
 *
 * The NAPI alone may touch it, so it has to stand still.
 *
 * Context: process.
 */
void ipoib_rxq_fill(struct ipoib_rxq *rxq)
{
	struct ipoib_channel *ch = rxq->ch;

	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	ipoib_rxq_refill(rxq);
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/**
 * ipoib_rxq_free - give all buffers back, posted or not
 * @rxq: receive queue
 *
 * The SRQ or QP they were posted to must be gone.
 */
void ipoib_rxq_free(struct ipoib_rxq *rxq)
{
	u32 i;

	for (i = 0; rxq->slots && i < rxq->used; i++)
		ipoib_rx_slot_free(rxq->ch, &rxq->slots[i]);
	kvfree(rxq->slots);
	kvfree(rxq->free);
	rxq->slots = NULL;
	rxq->free = NULL;
}

/* ---- receive path ------------------------------------------------------- */

static void ipoib_rx_count(struct ipoib_channel *ch,
			   struct ipoib_rx_batch *batch)
{
	struct pcpu_sw_netstats *stats;

	ipoib_count_add(&ch->rx, batch->packets, batch->bytes);
	ipoib_count_add(&ipoib_priv(batch->ndev)->rx[ch->index],
			batch->packets, batch->bytes);
	stats = this_cpu_ptr(batch->ndev->tstats);
	u64_stats_update_begin(&stats->syncp);
	u64_stats_add(&stats->rx_packets, batch->packets);
	u64_stats_add(&stats->rx_bytes, batch->bytes);
	u64_stats_update_end(&stats->syncp);
	batch->packets = 0;
	batch->bytes = 0;
}

/**
 * ipoib_rx_error - count a receive that failed
 * @dev: interface
 * @wc: completion
 */
noinline void ipoib_rx_error(struct ipoib_dev *dev, const struct ib_wc *wc)
{
	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	DEV_STATS_INC(dev->ndev, rx_errors);
	if (wc->status == IB_WC_LOC_LEN_ERR)
		DEV_STATS_INC(dev->ndev, rx_length_errors);
	ipoib_dbg(dev, "receive failed: %s, vendor error %#x\n",
		  ib_wc_status_msg(wc->status), wc->vendor_err);
}

/*
 * A peer's LID shows in what it sends.  ARP and neighbour discovery carry its
 * link-layer address, so a path that leads elsewhere is found out here.
 */
static void ipoib_rx_learn(struct ipoib_dev *dev, __be16 proto,
			   const void *pkt, u32 len, u16 slid)
{
	const u8 *addr;

	if (likely(proto == htons(ETH_P_IP)) ||
	    !ipoib_may_tell_addr(proto, pkt, len))
		return;
	addr = ipoib_told_addr(proto, pkt, len);
	if (addr)
		ipoib_path_learn(dev, addr, slid);
}

/*
 * Did this interface send it?  Multicast is sent by its first queue, unless
 * the administrator has a filter choose another.
 */
static noinline bool ipoib_rx_is_own(struct ipoib_dev *dev, u32 qpn)
{
	struct ipoib_txq *txq;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(dev->ud.txqs); i++) {
		txq = READ_ONCE(dev->ud.txqs[i]);
		if (!txq)
			break;
		if (txq->qpn == qpn)
			return true;
	}
	return false;
}

/* How a packet with a multicast DGID is classed; false: it is our own. */
static bool ipoib_rx_multicast(struct ipoib_dev *dev, const struct ib_wc *wc,
			       const struct ib_grh *grh, u8 *type)
{
	if (dev->ud.check_loop && wc->slid == READ_ONCE(dev->ud.lid) &&
	    grh->sgid.global.interface_id ==
	    dev->local_gid.global.interface_id &&
	    ipoib_rx_is_own(dev, wc->src_qp))
		return false;
	*type = memcmp(&grh->dgid, dev->ndev->broadcast + 4,
		       sizeof(grh->dgid)) ?
		PACKET_MULTICAST : PACKET_BROADCAST;
	DEV_STATS_INC(dev->ndev, multicast);
	return true;
}

static void ipoib_rx_add_frag(struct ipoib_channel *ch, struct sk_buff *skb,
			      void *va, u32 len, u32 truesize)
{
	struct page *page = virt_to_head_page(va);

	ipoib_rx_sync(ch, va, len);
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page,
			va - page_address(page), len, truesize);
}

/* The same of a slot that has single pages. */
static noinline void ipoib_rx_add_pages(struct ipoib_channel *ch,
					struct sk_buff *skb,
					struct ipoib_rx_pages *pages, u32 len)
{
	u32 i, n;

	for (i = 0; len; i++, len -= n) {
		n = min_t(u32, len, PAGE_SIZE);
		ipoib_rx_add_frag(ch, skb, pages->va[i], n, PAGE_SIZE);
		pages->va[i] = NULL;
	}
}

/*
 * Give an skb the first @n bytes of a buffer.  If a good part of a page is left
 * it stays, with a reference of its own: a packet is charged little more than
 * its bytes, and the next one goes on where it ends.
 */
static void *ipoib_rx_cut(struct ipoib_channel *ch, struct sk_buff *skb,
			  void *va, u32 n, u32 room)
{
	u32 used = ALIGN(n, IPOIB_RX_CUT);

	if (room < used + IPOIB_RX_REST) {
		ipoib_rx_add_frag(ch, skb, va, n, room);
		return NULL;
	}
	page_pool_ref_page(virt_to_head_page(va));
	ipoib_rx_add_frag(ch, skb, va, n, used);
	return va + used;
}

/* Have the only page that may have been cut, the @i-th buffer, come first. */
static void ipoib_rx_slot_shift(struct ipoib_rx_slot *slot, u32 i)
{
	u32 to;

	if (i == 1 || !slot->buf[i])
		return;
	for (to = 1; to < IPOIB_RX_BUFS; to++, i++)
		slot->buf[to] = i < IPOIB_RX_BUFS ? slot->buf[i] : NULL;
}

/* What did not fit the first buffer. */
static void ipoib_rx_add_frags(struct ipoib_channel *ch, struct sk_buff *skb,
			       struct ipoib_rx_slot *slot, u32 len)
{
	const struct ipoib_rx_format *format = slot->format;
	u32 i, n, room;

	if (unlikely(slot->pages)) {
		ipoib_rx_add_pages(ch, skb, slot->pages, len);
		return;
	}
	for (i = 1; len; i++, len -= n) {
		room = ipoib_rx_room(format, slot->buf[i], i);
		n = min(len, room);
		if (format->cut) {
			slot->buf[i] = ipoib_rx_cut(ch, skb, slot->buf[i], n,
						    room);
		} else {
			ipoib_rx_add_frag(ch, skb, slot->buf[i], n,
					  format->size[i]);
			slot->buf[i] = NULL;
		}
	}
	if (format->cut)
		ipoib_rx_slot_shift(slot, i - 1);
}

/*
 * An skb for a small packet.  As napi_alloc_skb() makes them, but in pages that
 * come back: those of the page allocator are cleared each time.
 */
static struct sk_buff *ipoib_rx_small(struct ipoib_channel *ch, u32 len)
{
	u32 size = ipoib_rx_head_size(NET_SKB_PAD + len);
	struct sk_buff *skb;
	void *va;

	va = ipoib_rx_alloc(ch->small, size);
	if (unlikely(!va))
		return NULL;
	skb = napi_build_skb(va, size);
	if (unlikely(!skb)) {
		page_pool_put_full_page(ch->small, virt_to_head_page(va), true);
		return NULL;
	}
	skb_mark_for_recycle(skb);
	skb_reserve(skb, NET_SKB_PAD);
	return skb;
}

/**
 * ipoib_rx_skb - make an skb of a received packet
 * @rxq: where it was received
 * @slot: its buffers; those that become part of the skb are taken out
 * @skip: octets before the encapsulation
 * @len: octets with the encapsulation
 *
 * In front of it goes an empty link-layer address, as the stack expects of
 * this kind of device (dev->hard_header_len).
 *
 * Context: the channel's NAPI; the first buffer has been synced.
 * Return: skb with the data at the network header, or NULL
 */
struct sk_buff *ipoib_rx_skb(struct ipoib_rxq *rxq, struct ipoib_rx_slot *slot,
			     u32 skip, u32 len)
{
	const struct ipoib_rx_format *format = slot->format;
	u32 headlen = min(len, format->len[0] - skip);
	struct sk_buff *skb;
	void *hdr;

	if (len <= IPOIB_COPYBREAK + IPOIB_ENCAP_LEN) {
		skb = ipoib_rx_small(rxq->ch, INFINIBAND_ALEN + len);
		if (unlikely(!skb))
			return NULL;
		hdr = __skb_put(skb, INFINIBAND_ALEN + len);
		memcpy(hdr + INFINIBAND_ALEN, slot->buf[0] + skip, len);
	} else {
		skb = napi_build_skb(slot->buf[0] - format->pad,
				     format->size[0]);
		if (unlikely(!skb))
			return NULL;
		slot->buf[0] = NULL;
		skb_mark_for_recycle(skb);
		skb_reserve(skb, format->pad + skip - INFINIBAND_ALEN);
		hdr = __skb_put(skb, INFINIBAND_ALEN + headlen);
		if (len > headlen)
			ipoib_rx_add_frags(rxq->ch, skb, slot, len - headlen);
	}
	memset(hdr, 0, INFINIBAND_ALEN);
	skb_reset_mac_header(skb);
	__skb_pull(skb, IPOIB_HARD_LEN);
	return skb;
}

/*
 * GRO looks for packets that a packet can be merged with, and passes on what it
 * can't merge by itself.  For a datagram of a few octets that is most of what
 * receiving it takes, and a socket that asks for merged datagrams (UDP_GRO)
 * takes single ones, too.  Only who has them forwarded wants all merged.
 */
static bool ipoib_rx_is_short(const struct sk_buff *skb, __be16 proto)
{
	u8 next;

	if (skb->len > IPOIB_COPYBREAK || skb_is_gso(skb))
		return false;
	if (proto == htons(ETH_P_IP) && skb->len >= sizeof(struct iphdr))
		next = ((const struct iphdr *)skb->data)->protocol;
	else if (proto == htons(ETH_P_IPV6) &&
		 skb->len >= sizeof(struct ipv6hdr))
		next = ((const struct ipv6hdr *)skb->data)->nexthdr;
	else
		return false;
	return next == IPPROTO_UDP && !(skb->dev->features &
		(NETIF_F_GRO_UDP_FWD | NETIF_F_GRO_FRAGLIST));
}

/* Packets that went around GRO, all together or the only one. */
static void ipoib_rx_pass(struct ipoib_rx_batch *batch)
{
	struct sk_buff *skb;

	if (list_empty(&batch->list))
		return;
	if (!list_is_singular(&batch->list)) {
		netif_receive_skb_list(&batch->list);
		INIT_LIST_HEAD(&batch->list);
		return;
	}
	skb = list_first_entry(&batch->list, struct sk_buff, list);
	skb_list_del_init(skb);
	netif_receive_skb(skb);
}

/*
 * GRO is spared short datagrams, and a packet that nothing came with: it could
 * hold that for later ones only if the administrator gave it time.  Packets keep
 * their order: once GRO may hold any, it gets all.
 */
static void ipoib_rx_hand_over(struct ipoib_channel *ch, struct sk_buff *skb,
			       __be16 proto, struct ipoib_rx_batch *batch)
{
	if (!ch->gro_used &&
	    ((batch->lone && !READ_ONCE(ch->napi.gro_flush_timeout)) ||
	     ipoib_rx_is_short(skb, proto))) {
		skb_mark_napi_id(skb, &ch->napi);
		list_add_tail(&skb->list, &batch->list);
		return;
	}
	ipoib_rx_pass(batch);
	ch->gro_used = true;
	napi_gro_receive(&ch->napi, skb);
}

/**
 * ipoib_rx_deliver - hand a received packet to the stack and count it
 * @ch: channel
 * @ndev: interface
 * @skb: packet
 * @proto: Ethertype
 * @batch: counts
 *
 * Context: the channel's NAPI.
 */
void ipoib_rx_deliver(struct ipoib_channel *ch, struct net_device *ndev,
		      struct sk_buff *skb, __be16 proto,
		      struct ipoib_rx_batch *batch)
{
	skb->protocol = proto;
	skb->dev = ndev;
	/* A child has one queue, whatever channel it receives in. */
	if (likely(ch->index < ndev->real_num_rx_queues))
		skb_record_rx_queue(skb, ch->index);
	if (batch->ndev != ndev) {
		if (batch->packets)
			ipoib_rx_count(ch, batch);
		batch->ndev = ndev;
	}
	batch->packets++;
	batch->bytes += skb->len;
	ipoib_rx_hand_over(ch, skb, proto, batch);
}

static void ipoib_rx_packet(struct ipoib_channel *ch, struct ipoib_qp *qp,
			    struct ipoib_rx_slot *slot, const struct ib_wc *wc,
			    struct ipoib_rx_batch *batch)
{
	struct ipoib_encap *encap = slot->buf[0] + IPOIB_GRH_LEN;
	u32 head_len = slot->format->len[0] - IPOIB_GRH_LEN;
	struct ipoib_dev *dev = qp->dev;
	struct net_device *ndev = dev->ndev;
	u8 type = PACKET_HOST;
	struct sk_buff *skb;
	__be16 proto;
	u32 len;

	ipoib_rx_sync(ch, slot->buf[0], min(wc->byte_len,
					    IPOIB_GRH_LEN + head_len));
	if (unlikely(wc->byte_len < IPOIB_GRH_LEN + IPOIB_ENCAP_LEN)) {
		DEV_STATS_INC(ndev, rx_errors);
		DEV_STATS_INC(ndev, rx_length_errors);
		return;
	}
	if (wc->wc_flags & IB_WC_GRH) {
		const struct ib_grh *grh = slot->buf[0];

		if (grh->dgid.raw[0] == 0xff &&
		    !ipoib_rx_multicast(dev, wc, grh, &type))
			return;
	}

	len = wc->byte_len - IPOIB_GRH_LEN;
	ipoib_dbg_data(dev, "%u octets from LID %#x QPN %#x\n", len, wc->slid,
		       wc->src_qp);
	proto = encap->proto;
	ipoib_rx_learn(dev, proto, encap + 1,
		       min(len, head_len) - IPOIB_ENCAP_LEN, wc->slid);

	skb = ipoib_rx_skb(qp->rxq, slot, IPOIB_GRH_LEN, len);
	if (unlikely(!skb)) {
		DEV_STATS_INC(ndev, rx_dropped);
		return;
	}
	skb->pkt_type = type;
	if (wc->wc_flags & IB_WC_IP_CSUM_OK &&
	    likely(ndev->features & NETIF_F_RXCSUM))
		skb->ip_summed = CHECKSUM_UNNECESSARY;
	ipoib_rx_deliver(ch, ndev, skb, proto, batch);
}

static void ipoib_rx_complete(struct ipoib_channel *ch, const struct ib_wc *wc,
			      struct ipoib_rx_batch *batch)
{
	struct ipoib_qp *qp = wc->qp->qp_context;
	struct ipoib_rxq *rxq = qp->rxq;
	struct ipoib_rx_slot *slot;

	/* Anything that is not outstanding is left over from a rebuilt QP. */
	if (unlikely(!rxq || wc->wr_id >= rxq->size))
		return;
	slot = &rxq->slots[wc->wr_id];
	if (unlikely(!slot->posted))
		return;
	slot->posted = false;
	rxq->taken++;

	if (qp->kind != IPOIB_QP_UD)
		ipoib_rc_rx_complete(ch, qp, slot, wc, batch);
	else if (likely(wc->status == IB_WC_SUCCESS))
		ipoib_rx_packet(ch, qp, slot, wc, batch);
	else
		ipoib_rx_error(qp->dev, wc);

	rxq->free[rxq->nfree++] = wc->wr_id;
	if (list_empty(&rxq->dirty))
		list_add_tail(&rxq->dirty, &ch->dirty);
	if (ipoib_rxq_due(rxq))
		ipoib_rxq_refill(rxq);
}

/* So many completions were taken from a CQ; were there no more? */
static void ipoib_cq_count(struct ipoib_cq *cq, int n, bool emptied)
{
	if (unlikely(cq->behind > 0))
		cq->behind = emptied ? 0 : cq->behind - n;
}

/* The budget was used up before a CQ's turn: the next poll begins with it. */
static noinline void ipoib_rx_poll_from(struct ipoib_channel *ch,
					const struct ipoib_cq *next)
{
	struct ipoib_cq *cq;
	u32 turn = 0;

	list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry) {
		if (cq == next)
			break;
		turn++;
	}
	ch->rx_turn = turn;
}

/* Up to @budget packets, a share from each CQ in turn. */
static int ipoib_rx_poll(struct ipoib_channel *ch, int budget)
{
	int share = READ_ONCE(ch->rx_share);
	struct ipoib_rx_batch batch = { .list = LIST_HEAD_INIT(batch.list) };
	int i, n, want, done = 0;
	u32 skip = ch->rx_turn;
	struct ipoib_cq *cq;
	bool empty = false;

	ch->rx_turn = 0;
	for (; done < budget && !empty; skip = 0) {
		/* Those before the first have not been looked at. */
		empty = !skip;
		list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry) {
			if (unlikely(skip)) {
				skip--;
				continue;
			}
			want = min(budget - done, share);
			if (unlikely(!want)) {
				empty = false;
				ipoib_rx_poll_from(ch, cq);
				break;
			}
			n = ib_poll_cq(cq->ib, want, ch->wc);
			empty &= n < want;
			ipoib_cq_count(cq, n, n < want);
			batch.lone = n == 1 && want > 1;
			for (i = 0; i < n; i++)
				ipoib_rx_complete(ch, &ch->wc[i], &batch);
			done += max(n, 0);
		}
	}
	ipoib_rx_pass(&batch);
	if (batch.packets)
		ipoib_rx_count(ch, &batch);
	return done;
}

/*
 * A queue of which more than half was taken before the CQs were empty again is
 * too short.  A poll takes no more than its budget, so several may count.
 */
static void ipoib_rxq_stretch(struct ipoib_rxq *rxq)
{
	u32 emptied = rxq->ch->emptied;

	if (rxq->emptied != emptied) {
		rxq->emptied = emptied;
		rxq->backlog = 0;
	}
	rxq->backlog += rxq->taken;
	rxq->taken = 0;
	if (rxq->elastic && rxq->backlog > rxq->used / 2 &&
	    rxq->used < rxq->size) {
		rxq->backlog = 0;
		rxq->want = min(2 * rxq->used, rxq->size);
		ipoib_rxq_grow(rxq);
	}
}

static void ipoib_rx_refill_dirty(struct ipoib_channel *ch)
{
	struct ipoib_rxq *rxq, *next;
	LIST_HEAD(dirty);

	list_splice_init(&ch->dirty, &dirty);
	list_for_each_entry_safe(rxq, next, &dirty, dirty) {
		list_del_init(&rxq->dirty);
		ipoib_rxq_stretch(rxq);
		if (ipoib_rxq_due(rxq))
			ipoib_rxq_refill(rxq);
	}
}

/* ---- transmit completions ----------------------------------------------- */

/**
 * ipoib_txq_free - places in the ring of a queue
 * @txq: queue
 */
u32 ipoib_txq_free(const struct ipoib_txq *txq)
{
	return ipoib_ring_free(txq->ring.size, txq->head, READ_ONCE(txq->tail));
}

/**
 * ipoib_tx_unmap - take a packet back from the HCA
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
 * @packets: how many
 * @bytes: their octets
 *
 * Context: the channel's NAPI, the only one to write to the queue's count.
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
static void ipoib_txq_retire(struct ipoib_txq *txq, u32 end, int budget)
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
				   !READ_ONCE(txq->qp.dev->ud.running));
}

static noinline void ipoib_tx_error(struct ipoib_txq *txq,
				    const struct ib_wc *wc)
{
	struct ipoib_dev *dev = txq->qp.dev;

	txq->done.errors++;
	DEV_STATS_INC(dev->ndev, tx_errors);
	if (!READ_ONCE(dev->ud.running))
		return;
	if (wc->status != IB_WC_WR_FLUSH_ERR && net_ratelimit())
		netdev_warn(dev->ndev, "send failed: %s, vendor error %#x\n",
			    ib_wc_status_msg(wc->status), wc->vendor_err);
	/* Flushed without our doing: the QP left RTS behind our back. */
	ipoib_dev_event(dev, IPOIB_EV_SQ_ERROR);
}

/* Packets whose completions were seen, to be retired together. */
struct ipoib_tx_batch {
	struct ipoib_txq *txq;
	u32 end;
};

static void ipoib_tx_batch_end(struct ipoib_tx_batch *batch, int budget)
{
	if (batch->txq)
		ipoib_txq_retire(batch->txq, batch->end, budget);
	batch->txq = NULL;
}

static void ipoib_tx_complete(const struct ib_wc *wc,
			      struct ipoib_tx_batch *batch, int budget)
{
	struct ipoib_qp *qp = wc->qp->qp_context;
	struct ipoib_txq *txq = qp->txq;
	u32 seq = wc->wr_id, tail;

	if (batch->txq != txq || unlikely(wc->wr_id & IPOIB_WR_MARKER))
		ipoib_tx_batch_end(batch, budget);
	if (unlikely(wc->wr_id & IPOIB_WR_MARKER)) {
		WRITE_ONCE(qp->drained_at, READ_ONCE(qp->ch->barriers));
		complete(&qp->drained);
		return;
	}
	if (qp->kind != IPOIB_QP_UD) {
		ipoib_rc_tx_complete(wc, budget);
		return;
	}
	/* Not in flight: left over from a rebuilt QP. */
	tail = batch->txq ? batch->end : txq->tail;
	if (unlikely(!ipoib_ring_holds(READ_ONCE(txq->head), tail, seq)))
		return;
	if (unlikely(wc->status != IB_WC_SUCCESS))
		ipoib_tx_error(txq, wc);
	batch->txq = txq;
	batch->end = seq + 1;
}

/* Completions taken; *@more is set if there may be others. */
static void ipoib_tx_reap_cq(struct ipoib_channel *ch, struct ipoib_cq *cq,
			     int budget, bool *more)
{
	struct ipoib_tx_batch batch = { };
	int i, n, batches = 0;

	/*
	 * Cleared before the CQ is looked at: who posts after this and still
	 * reads it set has his interrupt to come, or the timer.
	 */
	WRITE_ONCE(cq->armed, false);
	do {
		n = ib_poll_cq(cq->ib, IPOIB_WC_BATCH, ch->wc);
		for (i = 0; i < n; i++)
			ipoib_tx_complete(&ch->wc[i], &batch, budget);
		/* Before the poll goes on: senders may be waiting for room. */
		ipoib_tx_batch_end(&batch, budget);
		ipoib_cq_count(cq, n, n < IPOIB_WC_BATCH);
		if (n < IPOIB_WC_BATCH)
			return;
	} while (++batches < IPOIB_REAP_BATCHES);
	*more = true;
}

/*
 * What was handed to a connection is done with as far as BQL is concerned:
 * how long the peer takes is no business of the queue that all peers share.
 */
static void ipoib_txq_complete_handed(struct ipoib_txq *txq)
{
	u32 packets, bytes;

	/* Before the counters are read, fully ordered: what comes is listed. */
	test_and_clear_bit(0, &txq->bql_listed);
	packets = READ_ONCE(txq->rc_packets) - txq->bql_packets;
	/* Pairs with smp_store_release() in ipoib_rc_chain() */
	bytes = smp_load_acquire(&txq->rc_bytes) - txq->bql_bytes;
	if (!packets)
		return;
	txq->bql_packets += packets;
	txq->bql_bytes += bytes;
	__netif_txq_completed_wake(txq->nq, packets, bytes,
				   ipoib_txq_free(txq), txq->ring.size / 2,
				   !READ_ONCE(txq->qp.dev->ud.running));
}

static void ipoib_tx_reap(struct ipoib_channel *ch, int budget, bool *more)
{
	struct ipoib_txq *txq, *next;
	struct llist_node *handed;
	struct ipoib_cq *cq;

	list_for_each_entry_rcu(cq, &ch->tx_cqs.list, entry)
		ipoib_tx_reap_cq(ch, cq, budget, more);
	if (!llist_empty(&ch->bql)) {
		handed = llist_del_all(&ch->bql);
		llist_for_each_entry_safe(txq, next, handed, bql)
			ipoib_txq_complete_handed(txq);
	}
}

/* ---- NAPI --------------------------------------------------------------- */

/*
 * Before the CQs are looked at: has a barrier come this far, or been asked for?
 * What a poll found before it knew of the barrier does not count for it.
 */
static noinline void ipoib_poll_news(struct ipoib_channel *ch)
{
	struct ipoib_cq *cq;

	/* Pairs with smp_store_release() in ipoib_channel_barrier() */
	switch (smp_load_acquire(&ch->flush)) {
	case IPOIB_FLUSH_DONE:
		/* The core passed on what GRO held when the last poll ended. */
		WRITE_ONCE(ch->flush, IPOIB_FLUSH_NONE);
		complete(&ch->flushed);
		break;
	case IPOIB_FLUSH_ASKED:
		list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry)
			cq->behind = cq->ib->cqe;
		list_for_each_entry_rcu(cq, &ch->tx_cqs.list, entry)
			cq->behind = cq->ib->cqe;
		WRITE_ONCE(ch->flush, IPOIB_FLUSH_BEGUN);
		break;
	}
}

static bool ipoib_cqs_behind(const struct ipoib_cq_list *cqs)
{
	struct ipoib_cq *cq;

	list_for_each_entry_rcu(cq, &cqs->list, entry)
		if (cq->behind > 0)
			return true;
	return false;
}

/* Once each CQ was emptied past what it held when the barrier was asked for. */
static void ipoib_poll_flush(struct ipoib_channel *ch)
{
	if (ipoib_cqs_behind(&ch->rx_cqs) || ipoib_cqs_behind(&ch->tx_cqs))
		return;
	napi_gro_flush(&ch->napi, false);
	WRITE_ONCE(ch->flush, IPOIB_FLUSH_DONE);
}

/* Ask for the next interrupt; did something come before? */
static bool ipoib_rx_arm(struct ipoib_channel *ch)
{
	struct ipoib_cq *cq;
	bool missed = false;

	list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry)
		missed |= ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP |
					   IB_CQ_REPORT_MISSED_EVENTS) > 0;
	return missed;
}

/*
 * The HCA can't hold interrupts back: poll again after the time for which it
 * should, as long as something comes.  Polls that sends bring about meanwhile
 * and that find nothing do not end that.
 */
static bool ipoib_rx_hold(struct ipoib_channel *ch, int done)
{
	u32 usecs = READ_ONCE(ch->hold_usecs);

	if (likely(!usecs) || unlikely(READ_ONCE(ch->flush)))
		return false;
	if (!done)
		return READ_ONCE(ch->held);
	WRITE_ONCE(ch->held, true);
	hrtimer_start(&ch->hold_timer, ns_to_ktime(usecs * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_PINNED);
	return true;
}

/* The poll is over, unless there is more to do; all that GRO holds goes up. */
static bool ipoib_poll_complete(struct ipoib_channel *ch, int done)
{
	bool used = ch->gro_used;

	/* Before somebody else may poll */
	if (!READ_ONCE(ch->napi.gro_flush_timeout))
		ch->gro_used = false;
	if (likely(napi_complete_done(&ch->napi, done)))
		return true;
	/* Somebody else may poll already: never take back what he says. */
	if (used)
		ch->gro_used = true;
	return false;
}

static u32 ipoib_port_sent(const struct ipoib_port *port)
{
	u32 i, sent = 0;

	for (i = 0; i < port->num_channels; i++)
		sent += READ_ONCE(port->channels[i]->sent);
	return sent;
}

/*
 * Are interrupts to be held back?  Only if packets come in one by one and are
 * not answered: whoever waits for an answer would wait longer.
 */
static bool ipoib_channel_flooded(struct ipoib_channel *ch)
{
	struct ipoib_adapt *was = &ch->adapt;
	struct ipoib_adapt now = {
		.received = u64_stats_read(&ch->rx.packets),
		.sent = ipoib_port_sent(ch->port),
		.irqs = READ_ONCE(ch->irqs),
	};
	u32 received = now.received - was->received;
	bool lone = (u16)(now.irqs - was->irqs) > received / 4;
	bool answered = now.sent - was->sent > received / 8;

	*was = now;
	return !answered && (lone || ch->dim.profile_ix);
}

/* Hold interrupts back as DIM finds out to be best, or not at all. */
static noinline void ipoib_channel_adapt(struct ipoib_channel *ch)
{
	struct dim_sample sample = { };

	if (ipoib_channel_flooded(ch)) {
		dim_update_sample(READ_ONCE(ch->irqs),
				  u64_stats_read(&ch->rx.packets),
				  u64_stats_read(&ch->rx.bytes), &sample);
		net_dim(&ch->dim, &sample);
	} else if (ch->dim.profile_ix) {
		ch->dim.profile_ix = 0;
		ch->dim.tune_state = DIM_PARKING_ON_TOP;
		ch->dim.state = DIM_APPLY_NEW_PROFILE;
		schedule_work(&ch->dim.work);
	}
}

static bool ipoib_channel_may_adapt(const struct ipoib_channel *ch)
{
	u32 received = u64_stats_read(&ch->rx.packets);

	return READ_ONCE(ch->port->rx_adaptive) &&
	       received - ch->adapt.received >= IPOIB_ADAPT_PACKETS;
}

/**
 * ipoib_poll - NAPI of a channel
 * @napi: &ipoib_channel.napi
 * @budget: packets to receive at most.  Send completions come on top, a
 *	share from each CQ; what is left then has the poll start over
 * Return: packets received, @budget if there is more to be done
 */
int ipoib_poll(struct napi_struct *napi, int budget)
{
	struct ipoib_channel *ch =
		container_of(napi, struct ipoib_channel, napi);
	bool more = false;
	int done;

	if (unlikely(READ_ONCE(ch->flush)))
		ipoib_poll_news(ch);

	ipoib_tx_reap(ch, budget, &more);
	if (unlikely(!budget))
		return 0;
	done = ipoib_rx_poll(ch, budget);
	if (unlikely(ch->rxq.used < READ_ONCE(ch->rxq.want)))
		ipoib_rxq_grow(&ch->rxq);
	if (!list_empty(&ch->dirty))
		ipoib_rx_refill_dirty(ch);
	ch->emptied += done < budget;
	if (unlikely(READ_ONCE(ch->flush) == IPOIB_FLUSH_BEGUN))
		ipoib_poll_flush(ch);

	if (unlikely(more))
		return budget;
	if (done < budget && ipoib_poll_complete(ch, done)) {
		if (unlikely(ipoib_channel_may_adapt(ch)))
			ipoib_channel_adapt(ch);
		if (!ipoib_rx_hold(ch, done) &&
		    (ipoib_rx_arm(ch) || unlikely(READ_ONCE(ch->flush))))
			napi_schedule(napi);
	}
	return done;
}

/* ---- transmit path ------------------------------------------------------ */

/**
 * ipoib_txq_watch - have completions reaped in time
 * @txq: queue that has posted, its TX lock held
 * @cq: where they are reported
 * @arm: so much is in flight that an interrupt is worth it
 *
 * Completions are mostly reaped by the polls that receiving brings about, and
 * raise no interrupt of their own.  One is asked for when the queue fills;
 * for the rest a timer of one tick bounds the delay.
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
 * ipoib_txq_handed - packets were handed to a connection
 * @txq: queue whose counters say so, its TX lock held
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
	    !atomic_read(&txq->rc_flying) && !test_bit(0, &txq->bql_listed))
		return;
	txq->idle = ipoib_tx_idle(txq->idle, tail != txq->timer_tail);
	txq->timer_tail = tail;
	napi_schedule(&txq->qp.ch->napi);
	mod_timer(&txq->timer, jiffies + txq->idle);
}

/**
 * ipoib_txq_post - post the chain of a queue
 * @txq: queue with requests not yet posted, its TX lock held
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
		 * Requests after the failed one were not posted, those before
		 * it have nobody to report them: rebuild the QP, which retires
		 * all of them.
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
 * ipoib_txq_flush - post all that waits for more
 * @txq: transmit queue, its TX lock held
 */
void ipoib_txq_flush(struct ipoib_txq *txq)
{
	if (txq->chained)
		ipoib_txq_post(txq);
	if (txq->rc)
		ipoib_rc_flush(txq);
}

/**
 * ipoib_txq_kick - post what waits for more that did not come
 * @txq: transmit queue, its TX lock held
 *
 * To be called when a packet that the stack said would follow ends elsewhere.
 */
void ipoib_txq_kick(struct ipoib_txq *txq)
{
	if (!netdev_xmit_more())
		ipoib_txq_flush(txq);
}

/**
 * ipoib_tx_sge - note a piece of the request under construction
 * @ring: ring it goes to
 * @slot: its slot
 * @sge: result
 * @addr: DMA address
 * @len: octets
 * Return: false if @addr is not valid
 */
bool ipoib_tx_sge(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		  struct ib_sge *sge, u64 addr, u32 len)
{
	struct ipoib_tx_map *map;

	sge->addr = addr;
	sge->length = len;
	if (!ring->map)
		return true;
	if (unlikely(ib_dma_mapping_error(ring->ca, addr)))
		return false;
	map = &ring->map[(slot - ring->slots) * IPOIB_MAX_SGE + slot->nmap++];
	map->addr = addr;
	map->len = len;
	return true;
}

/**
 * ipoib_tx_map - fill in the gather list of a packet
 * @ring: ring it goes to
 * @slot: its slot
 * @sge: result
 * @skb: packet
 * @hlen: octets at its beginning to leave out
 * Return: entries, or -EIO
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

/* Complete the request for a packet to be cut by the HCA; header bytes. */
static int ipoib_tx_lso(struct ib_ud_wr *ud, struct sk_buff *skb)
{
	u32 hlen = skb_tcp_all_headers(skb);

	ud->wr.opcode = IB_WR_LSO;
	ud->header = skb->data;
	ud->hlen = hlen;
	ud->mss = skb_shinfo(skb)->gso_size;
	return hlen;
}

/* Have the HCA make the checksum of a packet, or make it here. */
static int ipoib_tx_csum(const struct ipoib_dev *dev, struct sk_buff *skb)
{
	const struct ipoib_encap *encap = (const void *)skb->data;

	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	/* Programs that send by packet sockets may say what they like. */
	if (unlikely(skb_checksum_start_offset(skb) < IPOIB_ENCAP_LEN))
		return -EINVAL;
	if (likely(dev->ud.csum &&
		   ipoib_fit_hca_csum(encap->proto, encap + 1,
				      skb_checksum_start_offset(skb) -
				      IPOIB_ENCAP_LEN)))
		return IB_SEND_IP_CSUM;
	return skb_checksum_help(skb);
}

/**
 * ipoib_ud_address - say where a datagram goes
 * @txq: queue, its TX lock held
 * @w: request, to be the next
 * @ah: where to, valid under RCU
 * @qpn: QP there
 */
void ipoib_ud_address(struct ipoib_txq *txq, struct ipoib_tx_wr *w,
		      struct ipoib_ah *ah, u32 qpn)
{
	const struct ipoib_ud *ud = &txq->qp.dev->ud;

	w->ud.wr.wr_id = txq->head;
	w->ud.ah = ah->ib;
	w->ud.remote_qpn = qpn;
	w->ud.remote_qkey = ud->qkey;
	w->ud.pkey_index = ud->pkey_index;
}

/**
 * ipoib_txq_sent - a packet is in the chain
 * @txq: queue, its TX lock held
 * @bytes: those that BQL has not been told of yet
 *
 * The queue stops while there is no room for a packet to be cut.
 */
void ipoib_txq_sent(struct ipoib_txq *txq, u32 bytes)
{
	u32 size = txq->ring.size;
	bool kick;

	kick = __netdev_tx_sent_queue(txq->nq, bytes, netdev_xmit_more());
	/* One place is for the marker of a drain. */
	if (unlikely(!netif_txq_maybe_stop(txq->nq, ipoib_txq_free(txq),
					   ipoib_tso_segs(size) + 1,
					   size / 2))) {
		txq->stat.stops++;
		kick = true;
	}
	if (kick)
		ipoib_txq_flush(txq);
	else if (txq->chained == IPOIB_POST_BATCH)
		ipoib_txq_post(txq);
}

/*
 * A packet that is not simply sent: to be cut, too long, or of many pieces.
 * Where the TX lock is held the answer of ipoib_ud_fit() holds.
 *
 * Return: bytes of headers that the HCA gets apart if it is to cut the packet,
 * 0 if the packet can simply be sent now; both without its link-layer address.
 * Else -errno, and it was consumed.
 */
static noinline int ipoib_ud_prepare(struct ipoib_txq *txq, struct sk_buff *skb,
				     struct ipoib_ah *ah, u32 qpn)
{
	struct ib_ud_wr *ud = &txq->chain[txq->chained].ud;
	struct ipoib_dev *dev = txq->qp.dev;
	u32 fit = ipoib_ud_fit(dev, skb);

	switch (fit & (IPOIB_FIT_NOT_YET | IPOIB_FIT_LSO | IPOIB_FIT_TSO) &
		~IPOIB_FIT_CSUM) {
	case IPOIB_FIT_LSO:
		__skb_pull(skb, INFINIBAND_ALEN);
		return ipoib_tx_lso(ud, skb);
	case IPOIB_FIT_TSO:
		__skb_pull(skb, INFINIBAND_ALEN);
		ipoib_tso_send(txq, skb, ah, qpn);
		return -EINPROGRESS;
	case IPOIB_FIT_SEGMENT:
		ipoib_xmit_segments(txq, skb);
		return -EINPROGRESS;
	case IPOIB_FIT_TOO_LONG:
		txq->stat.too_long++;
		ipoib_too_long(dev, skb, READ_ONCE(dev->ud.max_len));
		break;
	default:
		__skb_pull(skb, INFINIBAND_ALEN);
		if (!skb_linearize(skb))
			return 0;
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOMEM);
		break;
	}
	ipoib_txq_kick(txq);
	return -EMSGSIZE;
}

/**
 * ipoib_ud_send - send a packet as datagram
 * @txq: queue, its TX lock held
 * @skb: link-layer address, encapsulation, payload; always consumed
 * @ah: where to, valid under RCU
 * @qpn: QP there
 * Return: NETDEV_TX_OK
 */
netdev_tx_t ipoib_ud_send(struct ipoib_txq *txq, struct sk_buff *skb,
			  struct ipoib_ah *ah, u32 qpn)
{
	struct ipoib_tx_wr *w = &txq->chain[txq->chained];
	struct ipoib_tx_slot *slot = ipoib_txq_slot(txq);
	struct ipoib_dev *dev = txq->qp.dev;
	int hlen = 0, flags = IB_SEND_IP_CSUM, n;

	if (unlikely(!READ_ONCE(dev->ud.running)))
		goto drop;
	if (ipoib_fit_is_plain(skb->len - INFINIBAND_ALEN,
			       skb_shinfo(skb)->nr_frags,
			       skb_shinfo(skb)->gso_size,
			       READ_ONCE(dev->ud.max_len), dev->ud.max_sge)) {
		__skb_pull(skb, INFINIBAND_ALEN);
	} else {
		hlen = ipoib_ud_prepare(txq, skb, ah, qpn);
		if (hlen < 0)
			return NETDEV_TX_OK;
	}
	if (!hlen) {
		flags = ipoib_tx_csum(dev, skb);
		if (unlikely(flags < 0))
			goto drop;
		w->ud.wr.opcode = IB_WR_SEND;
	}

	n = ipoib_tx_map(&txq->ring, slot, w->sge, skb, hlen);
	if (unlikely(n < 0)) {
		txq->stat.map_errors++;
		goto drop;
	}
	w->ud.wr.num_sge = n;
	w->ud.wr.send_flags = flags;
	ipoib_ud_address(txq, w, ah, qpn);

	slot->skb = skb;
	slot->bytes = skb->len;
	txq->chained++;
	txq->urgent |= ipoib_tx_owner_short(skb);
	WRITE_ONCE(txq->head, txq->head + 1);

	ipoib_dbg_data(dev, "%u octets to QPN %#x\n", skb->len, qpn);
	skb_tx_timestamp(skb);
	ipoib_txq_sent(txq, skb->len);
	return NETDEV_TX_OK;

drop:
	ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOT_SPECIFIED);
	ipoib_txq_kick(txq);
	return NETDEV_TX_OK;
}

/* ---- queues and QP ------------------------------------------------------ */

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
 * ipoib_tx_ring_alloc - make a ring
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
	ring->hdrs = kcalloc(ipoib_tso_pages(size), sizeof(*ring->hdrs),
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

	for (i = 0; ring->hdrs && i < ipoib_tso_pages(ring->size); i++)
		free_page((unsigned long)ring->hdrs[i]);
	kfree(ring->hdrs);
	kvfree(ring->slots);
	kvfree(ring->map);
	ring->hdrs = NULL;
	ring->slots = NULL;
	ring->map = NULL;
}

static void ipoib_txq_destroy_qp(struct ipoib_txq *txq)
{
	ipoib_drain_destroy_qp(&txq->qp);
	ipoib_cq_put(txq->qp.ch, &txq->cqs);
}

static void ipoib_txq_destroy(struct ipoib_txq *txq)
{
	ipoib_txq_destroy_qp(txq);
	ipoib_tx_ring_free(&txq->ring);
	kfree(txq->chain);
	kfree(txq->rc);
	/* Who looks for an own QPN may have found it. */
	kfree_rcu(txq, rcu);
}

/* Destroy a queue that was in use; what it did is remembered. */
static void ipoib_txq_bury(struct ipoib_txq *txq)
{
	struct ipoib_ud *ud = &txq->qp.dev->ud;
	u64 packets, bytes;

	ipoib_count_get(&txq->done.sent, &packets, &bytes);
	/* Where a word has 32 bits a writer must not be preempted. */
	local_bh_disable();
	ipoib_count_add(&ud->gone, packets, bytes);
	local_bh_enable();
	ud->gone_stops += txq->stat.stops;
	ipoib_txq_destroy(txq);
}

static struct ipoib_txq *ipoib_txq_create(struct ipoib_dev *dev,
					  struct ipoib_channel *ch, u32 index,
					  u32 size)
{
	struct ipoib_txq *txq;

	txq = kzalloc_obj(*txq);
	if (!txq)
		return NULL;
	txq->qp.kind = IPOIB_QP_UD;
	txq->qp.dev = dev;
	txq->qp.ch = ch;
	txq->qp.txq = txq;
	init_completion(&txq->qp.drained);
	u64_stats_init(&txq->done.sent.sync);
	txq->index = index;
	txq->nq = netdev_get_tx_queue(dev->ndev, index);
	/* BQL would learn that one or two at a time are enough. */
	netdev_queue_set_dql_min_limit(txq->nq, IPOIB_TX_ARM * IPOIB_RX_HEAD);
	timer_setup(&txq->timer, ipoib_txq_timer, 0);
	txq->chain = kzalloc_objs(*txq->chain, IPOIB_POST_BATCH);
	if (!txq->chain ||
	    ipoib_tx_ring_alloc(&txq->ring, dev->port->ca, size)) {
		ipoib_txq_destroy(txq);
		return NULL;
	}
	ipoib_txq_link(txq);
	return txq;
}

/* Drop what never completed: it may have been sent, or not. */
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
 * The QP no longer owns anything, and the NAPI has no packet of its ring in
 * hand.  But connections may go on, and the NAPI counts what they sent: so what
 * is left is counted elsewhere, as dropped.  The TX lock keeps senders from BQL.
 */
static void ipoib_txq_purge(struct ipoib_txq *txq)
{
	timer_delete_sync(&txq->timer);
	__netif_tx_lock_bh(txq->nq);
	WARN_ON_ONCE(test_bit(0, &txq->bql_listed));
	ipoib_txq_drop_rest(txq);
	txq->bql_packets = txq->rc_packets;
	txq->bql_bytes = txq->rc_bytes;
	netdev_tx_reset_queue(txq->nq);
	__netif_tx_unlock_bh(txq->nq);
}

static void ipoib_ud_qp_event(struct ib_event *event, void *ctx)
{
	struct ipoib_qp *qp = ctx;

	if (event->event != IB_EVENT_QP_FATAL)
		return;		/* of interest to nobody, if not expected */
	netdev_warn(qp->dev->ndev, "QP %#x: %s\n",
		    event->element.qp->qp_num, ib_event_msg(event->event));
	ipoib_dev_event(qp->dev, IPOIB_EV_RESTART);
}

/* Flow steering is about receiving, and mlx4 has few QPs for it. */
static u32 ipoib_ud_create_flags(struct ib_device *ca, bool receives)
{
	u64 caps = ca->attrs.kernel_cap_flags;
	u32 flags = 0;

	if (caps & IBK_UD_TSO)
		flags |= IB_QP_CREATE_IPOIB_UD_LSO;
	if (caps & IBK_BLOCK_MULTICAST_LOOPBACK)
		flags |= IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	if (receives &&
	    ca->attrs.device_cap_flags & IB_DEVICE_MANAGED_FLOW_STEERING)
		flags |= IB_QP_CREATE_NETIF_QP;
	if (caps & IBK_RDMA_NETDEV_OPA)
		flags |= IB_QP_CREATE_NETDEV_USE;
	return flags;
}

/* The first queue's also receives. */
static int ipoib_txq_create_qp(struct ipoib_txq *txq)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_port *port = dev->port;
	struct ipoib_rxq *rxq = txq->qp.rxq;
	struct ib_qp_init_attr attr = {
		.event_handler = ipoib_ud_qp_event,
		.qp_context = &txq->qp,
		.srq = rxq ? rxq->srq : NULL,
		.cap.max_send_wr = txq->ring.size,
		.cap.max_send_sge = dev->ud.max_sge,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_UD,
		.create_flags = ipoib_ud_create_flags(port->ca, rxq),
	};
	struct ib_qp *qp;
	int ret;

	if (rxq && !attr.srq) {
		attr.cap.max_recv_wr = rxq->size;
		attr.cap.max_recv_sge = rxq->ch->split.num;
	}
	ret = ipoib_cq_get(txq->qp.ch, &txq->cqs, &attr);
	if (ret)
		return ret;
	qp = ib_create_qp(port->pd, &attr);
	if (IS_ERR(qp)) {
		ipoib_cq_put(txq->qp.ch, &txq->cqs);
		return PTR_ERR(qp);
	}
	txq->qp.ib = qp;
	WRITE_ONCE(txq->qpn, qp->qp_num);
	dev->ud.check_loop = !(attr.create_flags &
			       IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK);
	return 0;
}

/* What a queue needs besides its memory. */
static int ipoib_txq_finish(struct ipoib_txq *txq)
{
	if (txq->qp.dev->connected && !ipoib_txq_connect(txq))
		return -ENOMEM;
	return ipoib_txq_create_qp(txq);
}

/* The number that peers are told, for whoever has not the lock. */
static void ipoib_ud_note_qpn(struct ipoib_ud *ud)
{
	lockdep_assert_held(&ud->lock);
	WRITE_ONCE(ud->qpn, ud->txqs[0]->qp.ib->qp_num);
}

/* A receive queue of its own, for an HCA without SRQ for UD. */
static int ipoib_ud_private_rxq(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	const struct ipoib_rx_format *format;
	u32 size = dev->port->recvq_size;
	struct ipoib_ud *ud = &dev->ud;
	int ret;

	mutex_lock(&dev->port->lock);
	format = ipoib_channel_format(ch);
	mutex_unlock(&dev->port->lock);
	ud->rxq = kzalloc_obj(*ud->rxq);
	if (!ud->rxq)
		return -ENOMEM;
	ret = ipoib_rxq_alloc(ud->rxq, ch, format, size, size);
	if (ret) {
		kfree(ud->rxq);
		ud->rxq = NULL;
		return ret;
	}
	ipoib_dev_qp(dev)->rxq = ud->rxq;
	return 0;
}

static void ipoib_ud_free_rxq(struct ipoib_ud *ud)
{
	if (!ud->rxq)
		return;
	ipoib_rxq_free(ud->rxq);
	kfree(ud->rxq);
	ud->rxq = NULL;
}

/* The first queue, whose QP receives. */
static int ipoib_ud_create_first(struct ipoib_dev *dev,
				 struct ipoib_channel *ch)
{
	u32 size = dev->port->sendq_size;
	struct ipoib_ud *ud = &dev->ud;
	struct ipoib_txq *txq;
	int ret = -ENOMEM;

	if (ipoib_is_child(dev))
		size = ipoib_child_sendq(size);
	txq = ipoib_txq_create(dev, ch, 0, size);
	if (!txq)
		return -ENOMEM;
	txq->qp.rxq = &ch->rxq;
	ud->txqs[0] = txq;
	ud->num_txqs = 1;
	if (ch->rxq.srq)
		ret = ipoib_txq_create_qp(txq);
	if (!ret)
		return 0;

	/* No SRQ, or one that this HCA does not let a UD QP use. */
	if (!ipoib_channel_drop_srq(ch))
		goto err_free_txq;
	ret = ipoib_ud_private_rxq(dev);
	if (ret)
		goto err_free_txq;
	ret = ipoib_txq_create_qp(txq);
	if (ret)
		goto err_free_rxq;
	return 0;

err_free_rxq:
	ipoib_ud_free_rxq(ud);
err_free_txq:
	ud->txqs[0] = NULL;
	ud->num_txqs = 0;
	ipoib_txq_destroy(txq);
	return ret;
}

/**
 * ipoib_ud_create - make an interface's queues and their QPs
 * @dev: interface
 *
 * Queues beyond the first are as many as its net_device may have and the HCA
 * goes along with.
 *
 * Return: 0 or -errno
 */
int ipoib_ud_create(struct ipoib_dev *dev)
{
	const struct ib_device_attr *attrs = &dev->port->ca->attrs;
	struct ipoib_channel *ch;
	int ret;

	ch = ipoib_channel_attach(dev->port, !ipoib_is_child(dev));
	if (IS_ERR(ch))
		return PTR_ERR(ch);
	mutex_init(&dev->ud.lock);
	dev->ud.max_sge = min_t(u32, attrs->max_send_sge, IPOIB_MAX_SGE);
	dev->ud.csum = attrs->device_cap_flags & IB_DEVICE_UD_IP_CSUM;
	dev->ud.lso = dev->ud.csum && attrs->kernel_cap_flags & IBK_UD_TSO;
	ret = ipoib_ud_create_first(dev, ch);
	if (ret) {
		ipoib_channel_detach(ch);
		return ret;
	}
	mutex_lock(&dev->ud.lock);
	ipoib_ud_note_qpn(&dev->ud);
	ipoib_ud_add_txqs(dev, min_t(u32, dev->ndev->num_tx_queues,
				     IPOIB_MAX_TXQS));
	mutex_unlock(&dev->ud.lock);
	return 0;
}

/**
 * ipoib_ud_destroy - undo ipoib_ud_create(); the interface is down
 * @dev: interface
 */
void ipoib_ud_destroy(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_ud *ud = &dev->ud;

	while (ud->num_txqs) {
		ipoib_txq_destroy(ud->txqs[--ud->num_txqs]);
		ud->txqs[ud->num_txqs] = NULL;
	}
	ipoib_ud_free_rxq(ud);
	ipoib_channel_detach(ch);
}

static int ipoib_txq_to_rts(struct ipoib_txq *txq)
{
	struct ipoib_ud *ud = &txq->qp.dev->ud;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.pkey_index = ud->pkey_index,
		.port_num = txq->qp.dev->port->num,
		.qkey = ud->qkey,
	};
	struct ib_qp *qp = txq->qp.ib;
	int ret;

	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_QKEY);
	if (ret)
		return ret;
	txq->qp.live = true;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int ipoib_txq_set_state(struct ipoib_txq *txq, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(txq->qp.ib, &attr, IB_QP_STATE);
}

/* It could not be reset: destroying it returns its buffers as well. */
static void ipoib_txq_give_up(struct ipoib_txq *txq)
{
	struct ipoib_dev *dev = txq->qp.dev;

	netdev_warn(dev->ndev, "QP %#x can't be reset\n", txq->qp.ib->qp_num);
	if (!txq->index)
		ipoib_mcast_detach_all(dev);
	ipoib_txq_destroy_qp(txq);
}

static int ipoib_txq_start(struct ipoib_txq *txq)
{
	int ret;

	if (!txq->qp.ib) {
		ret = ipoib_txq_create_qp(txq);
		if (ret)
			return ret;
	}
	if (!txq->index && txq->qp.dev->ud.rxq)
		txq->qp.dev->ud.rxq->qp = txq->qp.ib;
	ret = ipoib_txq_to_rts(txq);
	if (ret)
		netdev_warn(txq->qp.dev->ndev, "QP can't be started: %pe\n",
			    ERR_PTR(ret));
	return ret;
}

/*
 * The QP of a private queue is about to be reset: others go on polling, and must
 * neither find the queue there to be refilled nor a place for a completion.
 */
static void ipoib_ud_detach_private(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_rxq *rxq = dev->ud.rxq;

	if (!rxq)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	list_del_init(&rxq->dirty);
	rxq->size = 0;
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/* What it had posted is gone with the reset. */
static void ipoib_ud_empty_private(struct ipoib_dev *dev)
{
	struct ipoib_channel *ch = ipoib_dev_channel(dev);
	struct ipoib_rxq *rxq = dev->ud.rxq;
	u32 i;

	if (!rxq)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	rxq->size = rxq->used;
	rxq->nfree = 0;
	for (i = 0; i < rxq->size; i++) {
		rxq->slots[i].posted = false;
		rxq->free[rxq->nfree++] = i;
	}
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/*
 * Keep senders away for good.  A poll that was under way when the QPs were
 * stopped may have woken the queue once more; that one has ended.  Was it so?
 * Then packets may have been handed to connections since.
 */
static bool ipoib_txq_hold(struct ipoib_txq *txq)
{
	bool woken;

	__netif_tx_lock_bh(txq->nq);
	woken = !netif_tx_queue_stopped(txq->nq) ||
		test_bit(0, &txq->bql_listed);
	netif_tx_stop_queue(txq->nq);
	__netif_tx_unlock_bh(txq->nq);
	return woken;
}

/* Queues from @first on, which drain: their QPs down, all packets back. */
static void ipoib_ud_take_down(struct ipoib_dev *dev, u32 first, bool keep)
{
	struct ipoib_ud *ud = &dev->ud;
	struct ipoib_drain drain;
	u32 i;

	lockdep_assert_held(&ud->lock);
	ipoib_drain_init(&drain);
	for (i = first; i < ud->num_txqs; i++)
		ipoib_drain_add(&drain, &ud->txqs[i]->qp);
	ipoib_drain_wait(&drain);
	for (i = first; i < ud->num_txqs; i++)
		drain.late |= ipoib_txq_hold(ud->txqs[i]);
	if (!first)
		ipoib_ud_detach_private(dev);
	ipoib_drain_reset(&drain, keep);
	for (i = first; i < ud->num_txqs; i++) {
		if (ud->txqs[i]->qp.stuck)
			ipoib_txq_give_up(ud->txqs[i]);
		ipoib_txq_purge(ud->txqs[i]);
	}
	if (!first)
		ipoib_ud_empty_private(dev);
}

/**
 * ipoib_ud_start - bring the QPs up
 * @dev: interface whose channel runs and whose QPs are down
 *
 * The stack's queues are woken by the caller.
 *
 * Context: process, @dev->ud.lock held.
 * Return: 0, -ENOENT while the port's table lacks the P_Key, or -errno
 */
int ipoib_ud_start(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = &dev->ud;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	ret = ib_find_pkey(dev->port->ca, dev->port->num, dev->pkey,
			   &ud->pkey_index);
	if (ret)
		return -ENOENT;
	for (i = 0; i < ud->num_txqs; i++) {
		ret = ipoib_txq_start(ud->txqs[i]);
		if (ret)
			goto err_stop;
	}
	if (ud->rxq)
		ipoib_rxq_fill(ud->rxq);
	ipoib_ud_note_qpn(ud);
	ud->qps = IB_QPS_RTS;
	return 0;

err_stop:
	/* The first may have received something already. */
	do {
		ipoib_drain_begin(&ud->txqs[i]->qp);
	} while (i--);
	ipoib_ud_take_down(dev, 0, true);
	return ret;
}

/**
 * ipoib_ud_stop_begin - have the QPs come to an end, and don't wait for it
 * @dev: interface whose channel runs, not up any more; does nothing if its QPs
 *	are not either
 *
 * Context: process, @dev->ud.lock held.
 */
void ipoib_ud_stop_begin(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = &dev->ud;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	WARN_ON_ONCE(READ_ONCE(ud->running));
	if (ud->qps != IB_QPS_RTS)
		return;
	ud->qps = IB_QPS_ERR;
	netif_tx_disable(dev->ndev);
	for (i = 0; i < ud->num_txqs; i++)
		ipoib_drain_begin(&ud->txqs[i]->qp);
}

/**
 * ipoib_ud_stop - take the QPs down and get everything back they held
 * @dev: interface whose channel runs
 *
 * After it returns no skb of this interface is in the driver or in GRO.
 * Waits for the HCA a second at most after ipoib_ud_stop_begin().
 *
 * Context: process, @dev->ud.lock held.
 */
void ipoib_ud_stop(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = &dev->ud;

	ipoib_ud_stop_begin(dev);
	if (ud->qps != IB_QPS_ERR)
		return;
	ipoib_ud_take_down(dev, 0, true);
	ud->qps = IB_QPS_RESET;
}

/**
 * ipoib_ud_spare - make queues that can take the place of an interface's own
 * @dev: interface
 * @size: packets they hold, a power of two
 * @spare: result: as many as @dev has
 *
 * Context: process, ipoib_dev.lock held.
 * Return: 0 or -errno: then there are none
 */
int ipoib_ud_spare(struct ipoib_dev *dev, u32 size, struct ipoib_txq **spare)
{
	struct ipoib_ud *ud = &dev->ud;
	struct ipoib_txq *txq;
	u32 i;
	int ret;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < ud->num_txqs; i++) {
		ret = -ENOMEM;
		txq = ipoib_txq_create(dev, ud->txqs[i]->qp.ch, i, size);
		if (!txq)
			goto err_destroy;
		spare[i] = txq;
		txq->qp.rxq = ud->txqs[i]->qp.rxq;
		ret = ipoib_txq_finish(txq);
		if (ret) {
			ipoib_txq_destroy(txq);
			goto err_destroy;
		}
	}
	return 0;

err_destroy:
	while (i--)
		ipoib_txq_destroy(spare[i]);
	return ret;
}

/**
 * ipoib_ud_swap - use other queues, and destroy those that were used
 * @dev: interface whose QPs are down
 * @spare: from ipoib_ud_spare()
 *
 * Context: process, ipoib_dev.lock held since.
 */
void ipoib_ud_swap(struct ipoib_dev *dev, struct ipoib_txq **spare)
{
	struct ipoib_ud *ud = &dev->ud;
	u32 i;

	lockdep_assert_held(&dev->lock);
	mutex_lock(&ud->lock);
	WARN_ON_ONCE(ud->qps != IB_QPS_RESET);
	mutex_lock(&dev->port->lock);
	for (i = 0; i < ud->num_txqs; i++)
		swap(spare[i], ud->txqs[i]);
	mutex_unlock(&dev->port->lock);
	ipoib_ud_note_qpn(ud);
	mutex_unlock(&ud->lock);
	/* While it waits for its P_Key the stack's queues are not stopped. */
	synchronize_net();
	for (i = 0; i < ud->num_txqs; i++)
		ipoib_txq_bury(spare[i]);
}

/**
 * ipoib_ud_add_txqs - make more transmit queues
 * @dev: interface
 * @num: how many there shall be
 *
 * Context: process, @dev->ud.lock held.
 * Return: 0 or -errno: then there are less, but not less than before
 */
int ipoib_ud_add_txqs(struct ipoib_dev *dev, u32 num)
{
	struct ipoib_port *port = dev->port;
	u32 home = ipoib_dev_channel(dev)->index;
	struct ipoib_ud *ud = &dev->ud;
	struct ipoib_txq *txq;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	for (i = ud->num_txqs; i < num; i++) {
		txq = ipoib_txq_create(dev, port->channels[(home + i) %
							   port->num_channels],
				       i, ud->txqs[0]->ring.size);
		if (!txq)
			return -ENOMEM;
		ret = ipoib_txq_finish(txq);
		if (!ret && ud->qps == IB_QPS_RTS) {
			ret = ipoib_txq_to_rts(txq);
			netif_tx_start_queue(txq->nq);
		}
		if (ret) {
			ipoib_txq_destroy(txq);
			return ret;
		}
		mutex_lock(&port->lock);
		WRITE_ONCE(ud->txqs[i], txq);
		ud->num_txqs = i + 1;
		mutex_unlock(&port->lock);
	}
	return 0;
}

/* Wait until what was posted has been sent; bounded, see ipoib_drain.c. */
static void ipoib_txq_finish_sends(struct ipoib_txq *txq, unsigned long begun)
{
	DECLARE_COMPLETION_ONSTACK(emptied);
	struct ipoib_channel *ch = txq->qp.ch;

	WRITE_ONCE(txq->emptied, &emptied);
	/* From now on the NAPI tells; what came before shows in the tail. */
	ipoib_channel_barrier(ch, READ_ONCE(ch->barriers));
	if (txq->head != READ_ONCE(txq->tail))
		ipoib_drain_wait_for(ch, &emptied, begun);
	WRITE_ONCE(txq->emptied, NULL);
	/* Behind this no poll knows of the completion any more. */
	ipoib_channel_barrier(ch, READ_ONCE(ch->barriers));
}

/**
 * ipoib_ud_drop_txqs - take transmit queues away that the stack does not use
 * @dev: interface
 * @num: how many shall be left, one at least
 *
 * Waits until they have sent their packets, and for the QPs' end.
 *
 * Context: process, @dev->ud.lock held.
 */
void ipoib_ud_drop_txqs(struct ipoib_dev *dev, u32 num)
{
	struct ipoib_port *port = dev->port;
	struct ipoib_ud *ud = &dev->ud;
	unsigned long begun = jiffies;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	if (ud->qps == IB_QPS_RTS) {
		for (i = num; i < ud->num_txqs; i++)
			ipoib_txq_finish_sends(ud->txqs[i], begun);
		for (i = num; i < ud->num_txqs; i++)
			ipoib_drain_begin(&ud->txqs[i]->qp);
		ipoib_ud_take_down(dev, num, false);
	}
	while (ud->num_txqs > num) {
		struct ipoib_txq *txq = ud->txqs[ud->num_txqs - 1];

		mutex_lock(&port->lock);
		WRITE_ONCE(ud->txqs[--ud->num_txqs], NULL);
		mutex_unlock(&port->lock);
		ipoib_txq_bury(txq);
	}
}

/**
 * ipoib_ud_restart - rebuild the QPs' state after an error or a moved P_Key
 * @dev: interface
 *
 * Context: process, @dev->ud.lock held.
 * Return: as ipoib_ud_start(), or -ESTALE if the first QP could not be reset:
 *	the next one is attached to no group and has another number
 */
int ipoib_ud_restart(struct ipoib_dev *dev)
{
	ipoib_ud_stop(dev);
	dev->ud.restarts++;
	return ipoib_dev_qp(dev)->ib ? ipoib_ud_start(dev) : -ESTALE;
}

/* From SQE back to RTS; false if it has to be rebuilt. */
static bool ipoib_txq_repair(struct ipoib_txq *txq)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	if (ib_query_qp(txq->qp.ib, &attr, IB_QP_STATE, &init) ||
	    attr.qp_state == IB_QPS_RTS)
		return true;
	return attr.qp_state == IB_QPS_SQE &&
	       !ipoib_txq_set_state(txq, IB_QPS_RTS);
}

/**
 * ipoib_ud_repair - a send failed: take the QP out of SQE
 * @dev: interface
 *
 * IBA volume 1 section 10.3.1: from SQE a UD QP goes back to RTS, nothing but
 * the failed sends is lost.
 *
 * Context: process, @dev->ud.lock held.
 * Return: 0, or -EIO if the QPs have to be restarted
 */
int ipoib_ud_repair(struct ipoib_dev *dev)
{
	struct ipoib_ud *ud = &dev->ud;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	for (i = 0; i < ud->num_txqs; i++)
		if (!ipoib_txq_repair(ud->txqs[i]))
			return -EIO;
	return 0;
}

/**
 * ipoib_ud_set_qkey - the broadcast group told the link's Q_Key
 * @dev: interface
 * @qkey: Q_Key, host order
 *
 * Context: process, @dev->ud.lock held.
 * Return: 0 or -errno
 */
int ipoib_ud_set_qkey(struct ipoib_dev *dev, u32 qkey)
{
	struct ib_qp_attr attr = { .qkey = qkey };
	struct ipoib_ud *ud = &dev->ud;
	int ret;
	u32 i;

	lockdep_assert_held(&dev->ud.lock);
	if (ud->qkey == qkey)
		return 0;
	for (i = 0; ud->qps == IB_QPS_RTS && i < ud->num_txqs; i++) {
		ret = ib_modify_qp(ud->txqs[i]->qp.ib, &attr, IB_QP_QKEY);
		if (ret)
			return ret;
	}
	WRITE_ONCE(ud->qkey, qkey);
	return 0;
}

/**
 * ipoib_ud_pkey_moved - has the P_Key's place in the port's table changed?
 * @dev: interface
 *
 * Context: process, ipoib_dev.lock held.
 * Return: true if QPs that are up have to be rebuilt (or the P_Key is gone)
 */
bool ipoib_ud_pkey_moved(struct ipoib_dev *dev)
{
	u16 index;

	lockdep_assert_held(&dev->lock);
	if (ib_find_pkey(dev->port->ca, dev->port->num, dev->pkey, &index))
		return true;
	return index != dev->ud.pkey_index;
}
