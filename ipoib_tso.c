// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cutting TCP packets into datagrams where the HCA can't
 *
 * HCAs cut TCP over IPv4 at most, and some cut nothing.  The stack would make
 * an skb of each segment; here a segment is a work request: a header of its
 * own, in memory that belongs to its slot in the ring, and a part of the one
 * skb, which is freed when the last request completes.  Requests that are
 * posted before all segments are built hold a reference of their own.
 *
 * Checksums that the HCA can't compute are computed here, unless the data may
 * change before the HCA reads it: such packets don't come here.
 */
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/tso.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_fit.h"
#include "ipoib_skb.h"
#include "ipoib_tso.h"
#include "ipoib_tx.h"

/* ---- headers ------------------------------------------------------------ */

/* The header of a slot in the ring; its page is allocated on first use. */
static void *ipoib_tso_hdr(struct ipoib_tx_ring *ring, u32 seq)
{
	u32 index = seq & (ring->size - 1);
	void **page = &ring->hdrs[index / IPOIB_TSO_PER_PAGE];

	if (unlikely(!*page)) {
		*page = (void *)__get_free_page(GFP_ATOMIC | __GFP_NOWARN);
		if (!*page)
			return NULL;
	}
	return *page + index % IPOIB_TSO_PER_PAGE * IPOIB_TSO_HDR;
}

static bool ipoib_tso_have_hdrs(struct ipoib_txq *txq, u32 segs)
{
	u32 i;

	for (i = 0; i < segs; i++)
		if (unlikely(!ipoib_tso_hdr(&txq->ring, txq->head + i)))
			return false;
	return true;
}

/* ---- segments ----------------------------------------------------------- */

/**
 * struct ipoib_tso - a packet that is being cut
 * @state: progress
 * @skb: packet, from its encapsulation on
 * @hlen: bytes of headers
 * @hca_csum: the HCA computes the checksums
 */
struct ipoib_tso {
	struct tso_t state;
	struct sk_buff *skb;
	u32 hlen;
	bool hca_csum;
};

/* Checksum the header of a segment; @csum is that of its @len bytes of data. */
static void ipoib_tso_csum(struct ipoib_tso *tso, void *hdr, u32 len,
			   __wsum csum)
{
	u32 start = skb_transport_offset(tso->skb);
	struct tcphdr *tcp = hdr + start;
	u32 tcp_len = len + tso->hlen - start;

	tcp->check = 0;
	csum = csum_partial(tcp, tso->hlen - start, csum);
	if (tso->state.ipv6) {
		struct ipv6hdr *ip6 = hdr + skb_network_offset(tso->skb);

		tcp->check = csum_ipv6_magic(&ip6->saddr, &ip6->daddr, tcp_len,
					     IPPROTO_TCP, csum);
	} else {
		struct iphdr *ip = hdr + skb_network_offset(tso->skb);

		ip_send_check(ip);
		tcp->check = csum_tcpudp_magic(ip->saddr, ip->daddr, tcp_len,
					       IPPROTO_TCP, csum);
	}
}

/* Gather @len bytes of data.  Returns the number of entries, or -EIO. */
static int ipoib_tso_data(struct ipoib_tso *tso, struct ipoib_tx_ring *ring,
			  struct ipoib_tx_slot *slot, struct ib_sge *sge,
			  u32 len, __wsum *csum)
{
	u32 n, done;
	u64 addr;
	int num = 0;

	for (done = 0; done < len; done += n) {
		n = min_t(u32, tso->state.size, len - done);
		addr = ib_dma_map_single(ring->ca, tso->state.data, n,
					 DMA_TO_DEVICE);
		if (!ipoib_tx_sge(ring, slot, &sge[num++], addr, n))
			return -EIO;
		if (!tso->hca_csum)
			*csum = csum_block_add(*csum,
					       csum_partial(tso->state.data, n,
							    0), done);
		tso_build_data(tso->skb, &tso->state, n);
	}
	return num;
}

/* Build the request for the next segment. */
static int ipoib_tso_build(struct ipoib_txq *txq, struct ipoib_tso *tso,
			   struct ipoib_tx_wr *w, u32 len, bool last)
{
	struct ipoib_tx_ring *ring = &txq->ring;
	struct ipoib_tx_slot *slot = ipoib_txq_slot(txq);
	void *hdr = ipoib_tso_hdr(ring, txq->head);
	__wsum csum = 0;
	u64 addr;
	int num;

	slot->nmap = 0;
	slot->skb = NULL;
	slot->bytes = tso->hlen + len;
	tso_build_hdr(tso->skb, hdr, &tso->state, len, last);
	num = ipoib_tso_data(tso, ring, slot, &w->sge[1], len, &csum);
	if (unlikely(num < 0))
		goto err_unmap;
	if (!tso->hca_csum)
		ipoib_tso_csum(tso, hdr, len, csum);
	/* Mapped last, since the header has to be complete. */
	addr = ib_dma_map_single(ring->ca, hdr, tso->hlen, DMA_TO_DEVICE);
	if (unlikely(!ipoib_tx_sge(ring, slot, &w->sge[0], addr, tso->hlen)))
		goto err_unmap;
	w->ud.wr.opcode = IB_WR_SEND;
	w->ud.wr.num_sge = num + 1;
	w->ud.wr.send_flags = tso->hca_csum ? IB_SEND_IP_CSUM : 0;
	return 0;

err_unmap:
	ipoib_tx_unmap(ring, slot);
	return -EIO;
}

/* The slot of the last request that was built. */
static struct ipoib_tx_slot *ipoib_tso_last(struct ipoib_txq *txq)
{
	return &txq->ring.slots[(txq->head - 1) & (txq->ring.size - 1)];
}

/*
 * Post the segments built so far.  They take a reference on the packet: if the
 * rest can't be sent, no later completion will release it.
 */
static void ipoib_tso_post(struct ipoib_txq *txq, struct sk_buff *skb,
			   u32 bytes)
{
	ipoib_tso_last(txq)->skb = skb_get(skb);
	/* Account to BQL before it can complete. */
	__netdev_tx_sent_queue(txq->nq, bytes, true);
	ipoib_txq_post(txq);
}

/* The rest of a packet can't be sent; @posted: all previous segments were. */
static void ipoib_tso_break(struct ipoib_txq *txq, struct sk_buff *skb,
			    bool posted)
{
	struct net_device *ndev = txq->qp.dev->ndev;

	txq->stat.map_errors++;
	if (posted) {
		ipoib_drop(ndev, skb, SKB_DROP_REASON_NOMEM);
		return;
	}
	/* It is freed with the last segment that was built. */
	DEV_STATS_INC(ndev, tx_dropped);
	ipoib_tso_last(txq)->skb = skb;
}

/**
 * ipoib_tso_send - cut a packet and send its segments as datagrams
 * @txq: queue, its TX lock held
 * @skb: encapsulation, headers, payload, for which ipoib_ud_fit() returned
 *	IPOIB_FIT_TSO under this lock; always consumed
 * @ah: destination, valid under RCU
 * @qpn: destination QPN
 * @csum: the HCA computes checksums of TCP over IPv4
 * Return: true if the queue's chains are to be posted now
 */
bool ipoib_tso_send(struct ipoib_txq *txq, struct sk_buff *skb,
		    struct ipoib_ah *ah, u32 qpn, bool csum)
{
	u32 mss = skb_shinfo(skb)->gso_size, left, len, bytes = 0, segs;
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_tso tso = {
		.skb = skb,
		.hlen = skb_tcp_all_headers(skb),
	};
	u32 head;

	left = skb->len - tso.hlen;
	segs = DIV_ROUND_UP(left, mss);
	/* One slot is reserved for the drain marker. */
	if (unlikely(ipoib_txq_free(txq) < segs + 1 ||
		     !ipoib_tso_have_hdrs(txq, segs)))
		goto drop;
	tso_start(skb, &tso.state);
	tso.hca_csum = csum && !tso.state.ipv6;
	txq->urgent |= ipoib_tx_owner_short(skb);
	skb_tx_timestamp(skb);

	/* Sequence number of the first segment that is not posted yet */
	head = txq->head;
	for (; left; left -= len) {
		struct ipoib_tx_wr *w = &txq->chain[txq->chained];

		len = min(mss, left);
		if (unlikely(ipoib_tso_build(txq, &tso, w, len, len == left))) {
			ipoib_tso_break(txq, skb, txq->head == head);
			break;
		}
		ipoib_tx_address(txq, w, ah->ib, qpn);
		bytes += tso.hlen + len;
		if (len == left)
			ipoib_txq_slot(txq)->skb = skb;
		WRITE_ONCE(txq->head, txq->head + 1);
		if (++txq->chained == IPOIB_POST_BATCH && len != left) {
			ipoib_tso_post(txq, skb, bytes);
			bytes = 0;
			head = txq->head;
		}
	}
	return ipoib_txq_sent(txq, bytes);

drop:
	ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOT_SPECIFIED);
	return false;
}
