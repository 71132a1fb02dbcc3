// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receives: slots and their buffers, refilling, building skbs
 *
 * Small packets are copied and their buffer stays in its slot; for others an
 * skb is built around the buffer, which returns to the page pool when the stack
 * is done.  Buffers are posted again in chains.
 *
 * Lock: none.  Only the channel's NAPI, or the owner while that is disabled,
 * touches a receive queue.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/busy_poll.h>
#include <net/gro.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_count.h"
#include "ipoib_debug.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_COPYBREAK		256
#define IPOIB_RX_CUT		256U	/* alignment of parts of a page */
#define IPOIB_RX_REST		4096U	/* least rest of a page to be kept */

/* ---- slots -------------------------------------------------------------- */

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
 * @len: bytes
 */
void ipoib_rx_sync(struct ipoib_channel *ch, void *va, u32 len)
{
	if (!ib_uses_virt_dma(ch->port->ca))
		ib_dma_sync_single_for_cpu(ch->port->ca, ipoib_rx_addr(ch, va),
					   len, DMA_FROM_DEVICE);
}

/* Memory of a pool; not cleared, it may have been used before. */
static void *ipoib_rx_alloc(struct page_pool *pool, u32 size)
{
	unsigned int offset;
	struct page *page;

	page = page_pool_dev_alloc_frag(pool, &offset, size);
	return likely(page) ? page_address(page) + offset : NULL;
}

/* Memory is fragmented: a single page may be enough. */
static noinline void *ipoib_rx_alloc_single(struct ipoib_channel *ch, u32 size)
{
	if (!ch->pages || size > PAGE_SIZE)
		return NULL;
	return ipoib_rx_alloc(ch->pages, size);
}

static void *ipoib_rx_buf_alloc(struct ipoib_channel *ch,
				const struct ipoib_rx_format *format, u32 i)
{
	void *va = ipoib_rx_alloc(format->pool[i], format->size[i]);

	if (unlikely(!va)) {
		va = ipoib_rx_alloc_single(ch, format->size[i]);
		if (!va)
			return NULL;
	}
	return i ? va : va + format->pad;
}

/* If there is a pool of single pages, the other pools have compound ones. */
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

/* Bytes that the HCA may write to a buffer. */
static u32 ipoib_rx_room(const struct ipoib_rx_format *format, const void *va,
			 u32 i)
{
	/* A previous packet may have taken the first part of the page. */
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

/* No large pages are available: give a slot that has a head single ones. */
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

/* Give a slot the buffers that it lacks, and fill in the request. */
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

/* ---- queues ------------------------------------------------------------- */

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

/* Prepare a chain of free slots; returns their number. */
static u32 ipoib_rxq_chain(struct ipoib_rxq *rxq)
{
	u32 n, most = min_t(u32, ipoib_rxq_missing(rxq), IPOIB_POST_BATCH);

	for (n = 0; n < most; n++) {
		u32 idx = rxq->free[rxq->nfree - 1 - n];
		struct ipoib_rx_slot *slot = &rxq->slots[idx];

		if (!ipoib_rxq_prepare(rxq, n, slot))
			break;
		/* Set before posting: packets to an SRQ may arrive at once. */
		slot->posted = true;
		slot->turn++;
		rxq->wr[n].wr_id = (u64)slot->turn << IPOIB_RX_INDEX_BITS | idx;
	}
	return n;
}

/* Post the first @n requests of the chain; returns how many the HCA took. */
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
 * Slots that can't be posted now (no memory, a failing HCA) stay free and are
 * retried from the channel's refill timer, so that none is ever lost.
 *
 * Context: the channel's NAPI, or any while that is disabled.
 */
void ipoib_rxq_refill(struct ipoib_rxq *rxq)
{
	u32 i, idx, n, posted;

	while (ipoib_rxq_missing(rxq)) {
		n = ipoib_rxq_chain(rxq);
		if (unlikely(!n))
			goto later;
		posted = ipoib_rxq_post(rxq, n);
		/* The chain began at the top of the stack: the rest remains. */
		rxq->nfree -= posted;
		if (unlikely(posted < n)) {
			for (i = posted; i < n; i++) {
				idx = rxq->wr[i].wr_id & IPOIB_RX_INDEX_MASK;
				rxq->slots[idx].posted = false;
			}
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

/**
 * ipoib_rxq_refill_timer - have a poll retry to post slots
 * @t: &ipoib_channel.refill_timer
 */
void ipoib_rxq_refill_timer(struct timer_list *t)
{
	struct ipoib_channel *ch =
		container_of(t, struct ipoib_channel, refill_timer);

	napi_schedule(&ch->napi);
}

/**
 * ipoib_rxq_alloc - allocate the slots of a receive queue, without buffers
 * @rxq: zeroed
 * @ch: channel that serves it
 * @format: format of its receives
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
 * ipoib_rxq_free - free all buffers, posted or not
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

/*
 * If more than half of a queue is taken before the CQs are empty again, it is
 * too short.  A poll takes no more than its budget, so count over several.
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

/**
 * ipoib_rx_refill_dirty - at the end of a poll, refill what its packets took
 * @ch: channel
 *
 * Context: the channel's NAPI.
 */
void ipoib_rx_refill_dirty(struct ipoib_channel *ch)
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

/* ---- packets ------------------------------------------------------------ */

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

static void ipoib_rx_add_frag(struct ipoib_channel *ch, struct sk_buff *skb,
			      void *va, u32 len, u32 truesize)
{
	struct page *page = virt_to_head_page(va);

	ipoib_rx_sync(ch, va, len);
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page,
			va - page_address(page), len, truesize);
}

/* Add what did not fit the first buffer, for a slot that has single pages. */
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
 * Add the first @n bytes of a buffer to an skb.  If a good part of a page is
 * left it stays in the slot, with a reference of its own: the packet's truesize
 * is little more than its bytes, and the next one continues where it ends.
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

/* Move the only page that may have been cut, the @i-th buffer, to the front. */
static void ipoib_rx_slot_shift(struct ipoib_rx_slot *slot, u32 i)
{
	u32 to;

	if (i == 1 || !slot->buf[i])
		return;
	for (to = 1; to < IPOIB_RX_BUFS; to++, i++)
		slot->buf[to] = i < IPOIB_RX_BUFS ? slot->buf[i] : NULL;
}

/* Add what did not fit the first buffer. */
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
 * An skb for a small packet, like that of napi_alloc_skb() but in recycled
 * pages: those of the page allocator are cleared each time.
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
 * @skip: bytes before the encapsulation
 * @len: bytes with the encapsulation
 *
 * An empty link-layer address is put in front, since the stack expects
 * dev->hard_header_len bytes of header.
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
 * GRO looks for packets that a packet can be merged with, and passes packets
 * that it can't merge up one by one.  For a short datagram that is most of the
 * cost of receiving it, and a socket that asks for merged datagrams (UDP_GRO)
 * also takes single ones.  Merging all is only worth it when forwarding.
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

/* Pass up packets that bypass GRO, as a list or the only one. */
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
 * Short datagrams bypass GRO, and so does a packet that came alone, which GRO
 * would only hold for later ones with a gro_flush_timeout.  To keep packets in
 * order, GRO gets all packets once it may hold any.
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
	/* A child has one queue, whichever channel it receives in. */
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

/**
 * ipoib_rx_batch_end - at the end of a poll, pass up and count its packets
 * @ch: channel
 * @batch: its packets
 *
 * Context: the channel's NAPI.
 */
void ipoib_rx_batch_end(struct ipoib_channel *ch, struct ipoib_rx_batch *batch)
{
	ipoib_rx_pass(batch);
	if (batch->packets)
		ipoib_rx_count(ch, batch);
}
