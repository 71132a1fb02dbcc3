// SPDX-License-Identifier: GPL-2.0-only
/*
 * Datagrams: receive on the interface's QP, send on its queues
 *
 * RFC 4391 section 6 (encapsulation); IBA volume 1 chapter 11 (verbs).
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_channel.h"
#include "ipoib_debug.h"
#include "ipoib_fit.h"
#include "ipoib_ib.h"
#include "ipoib_neigh.h"
#include "ipoib_pmtu.h"
#include "ipoib_proto.h"
#include "ipoib_qp.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_skb.h"
#include "ipoib_tso.h"
#include "ipoib_tx.h"

/* ---- receive ------------------------------------------------------------ */

/*
 * A received packet has its sender's LID.  ARP and neighbour discovery carry
 * the sender's link-layer address, so a path to another LID is detected here.
 */
static void ipoib_rx_learn(struct ipoib_dev *dev, __be16 proto,
			   const void *pkt, u32 len, u16 slid)
{
	const u8 *addr;

	if (likely(proto == htons(ETH_P_IP)) ||
	    !ipoib_may_tell_addr(proto, pkt, len))
		return;
	addr = ipoib_pkt_lladdr(proto, pkt, len);
	if (addr)
		ipoib_neigh_learn(dev, addr, slid);
}

/*
 * Did this interface send it?  Multicast is sent by the first queue, unless a
 * filter of the administrator chooses another one.
 */
static noinline bool ipoib_rx_is_own(struct ipoib_dev *dev, u32 qpn)
{
	struct ipoib_txq *txq;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(dev->txqs); i++) {
		txq = READ_ONCE(dev->txqs[i]);
		if (!txq)
			break;
		if (txq->qpn == qpn)
			return true;
	}
	return false;
}

/* Set the type of a packet with a multicast DGID; false: it is our own. */
static bool ipoib_rx_multicast(struct ipoib_dev *dev, const struct ib_wc *wc,
			       const struct ib_grh *grh, u8 *type)
{
	if (dev->ud->check_loop && wc->slid == READ_ONCE(dev->lid) &&
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

static void ipoib_ud_rx_packet(struct ipoib_channel *ch, struct ipoib_qp *qp,
			       struct ipoib_rx_slot *slot,
			       const struct ib_wc *wc,
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
	ipoib_dbg_data(dev, "%u bytes from LID %#x QPN %#x\n", len, wc->slid,
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

static void ipoib_ud_rx(struct ipoib_channel *ch, struct ipoib_qp *qp,
			struct ipoib_rx_slot *slot, const struct ib_wc *wc,
			struct ipoib_rx_batch *batch)
{
	if (likely(wc->status == IB_WC_SUCCESS))
		ipoib_ud_rx_packet(ch, qp, slot, wc, batch);
	else
		ipoib_rx_error(qp->dev, wc);
}

/* ---- send completions --------------------------------------------------- */

static noinline void ipoib_tx_error(struct ipoib_txq *txq,
				    const struct ib_wc *wc)
{
	struct ipoib_dev *dev = txq->qp.dev;

	txq->done.errors++;
	DEV_STATS_INC(dev->ndev, tx_errors);
	if (!READ_ONCE(dev->running))
		return;
	if (wc->status != IB_WC_WR_FLUSH_ERR && net_ratelimit())
		netdev_warn(dev->ndev, "send failed: %s, vendor error %#x\n",
			    ib_wc_status_msg(wc->status), wc->vendor_err);
	/* Failed or flushed while up: the QP has left RTS by itself. */
	ipoib_dev_event(dev, IPOIB_EV_SQ_ERROR);
}

static void ipoib_ud_tx(struct ipoib_qp *qp, const struct ib_wc *wc,
			struct ipoib_tx_batch *batch, int budget)
{
	struct ipoib_txq *txq = qp->txq;
	u32 seq = wc->wr_id, tail;

	/* Not in flight: left over from a rebuilt QP. */
	tail = batch->txq ? batch->end : txq->tail;
	if (unlikely(!ipoib_ring_holds(READ_ONCE(txq->head), tail, seq)))
		return;
	batch->txq = txq;
	batch->end = seq + 1;
	if (unlikely(wc->status != IB_WC_SUCCESS))
		ipoib_tx_error(txq, wc);
}

const struct ipoib_qp_ops ipoib_ud_qp_ops = {
	.rx	= ipoib_ud_rx,
	.tx	= ipoib_ud_tx,
};

/* ---- send --------------------------------------------------------------- */

/* Fill in a request for the HCA to cut a packet.  Returns the header length. */
static int ipoib_tx_lso(struct ib_ud_wr *ud, struct sk_buff *skb)
{
	u32 hlen = skb_tcp_all_headers(skb);

	ud->wr.opcode = IB_WR_LSO;
	ud->header = skb->data;
	ud->hlen = hlen;
	ud->mss = skb_shinfo(skb)->gso_size;
	return hlen;
}

/* Have the HCA compute the checksum of a packet, or compute it here. */
static int ipoib_tx_csum(const struct ipoib_dev *dev, struct sk_buff *skb)
{
	const struct ipoib_encap *encap = (const void *)skb->data;

	if (skb->ip_summed != CHECKSUM_PARTIAL)
		return 0;
	/* Packet sockets may pass any checksum offset. */
	if (unlikely(skb_checksum_start_offset(skb) < IPOIB_ENCAP_LEN))
		return -EINVAL;
	if (likely(dev->ud->csum &&
		   ipoib_fit_hca_csum(encap->proto, encap + 1,
				      skb_checksum_start_offset(skb) -
				      IPOIB_ENCAP_LEN)))
		return IB_SEND_IP_CSUM;
	return skb_checksum_help(skb);
}

/**
 * ipoib_ud_fit - what has to be done to a packet that is sent as datagrams
 * @dev: interface, in either mode
 * @skb: packet with its link-layer address in front
 *
 * Context: any; the result stays valid only under the TX lock.
 * Return: bits of enum ipoib_fit
 */
u32 ipoib_ud_fit(const struct ipoib_dev *dev, const struct sk_buff *skb)
{
	const struct ipoib_fit_dest dest = {
		.max_len = READ_ONCE(dev->ud->max_len),
		.max_sge = dev->max_sge,
		.csum = dev->ud->csum,
		.lso = dev->ud->lso,
		.segs = READ_ONCE(dev->ud->segs),
	};
	struct ipoib_fit_packet p;

	ipoib_skb_describe(skb, &p);
	return ipoib_fit(&p, &dest);
}

/*
 * Handle a packet that can't be sent as it is: to be cut, too long, or of too
 * many pieces.  The TX lock is held, so the result of ipoib_ud_fit() is valid.
 *
 * Return: bytes of headers passed to the HCA separately if it is to cut the
 * packet, 0 if the packet can be sent now; both without its link-layer address.
 * Else -1, and @sent says what was done with it.
 */
static noinline int ipoib_ud_prepare(struct ipoib_txq *txq, struct sk_buff *skb,
				     struct ipoib_ah *ah, u32 qpn,
				     enum ipoib_sent *sent)
{
	struct ib_ud_wr *ud = &txq->chain[txq->chained].ud;
	struct ipoib_dev *dev = txq->qp.dev;
	u32 fit = ipoib_ud_fit(dev, skb);

	*sent = IPOIB_SENT_DONE;
	switch (fit & (IPOIB_FIT_NOT_YET | IPOIB_FIT_LSO | IPOIB_FIT_TSO) &
		~IPOIB_FIT_CSUM) {
	case IPOIB_FIT_LSO:
		__skb_pull(skb, INFINIBAND_ALEN);
		return ipoib_tx_lso(ud, skb);
	case IPOIB_FIT_TSO:
		__skb_pull(skb, INFINIBAND_ALEN);
		if (ipoib_tso_send(txq, skb, ah, qpn, dev->ud->csum))
			*sent = IPOIB_SENT_FLUSH;
		break;
	case IPOIB_FIT_SEGMENT:
		*sent = IPOIB_SENT_CUT;
		break;
	case IPOIB_FIT_TOO_LONG:
		txq->stat.too_long++;
		ipoib_pmtu_too_long(dev, skb, READ_ONCE(dev->ud->max_len));
		break;
	default:
		__skb_pull(skb, INFINIBAND_ALEN);
		if (!skb_linearize(skb))
			return 0;
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOMEM);
		break;
	}
	return -1;
}

/**
 * ipoib_ud_send - send a packet as a datagram
 * @txq: queue, its TX lock held
 * @skb: link-layer address, encapsulation, payload
 * @ah: destination, valid under RCU
 * @qpn: destination QPN
 * Return: what was done with it; never IPOIB_SENT_NOT
 */
enum ipoib_sent ipoib_ud_send(struct ipoib_txq *txq, struct sk_buff *skb,
			      struct ipoib_ah *ah, u32 qpn)
{
	struct ipoib_tx_wr *w = &txq->chain[txq->chained];
	struct ipoib_tx_slot *slot = ipoib_txq_slot(txq);
	struct ipoib_dev *dev = txq->qp.dev;
	int hlen = 0, flags = IB_SEND_IP_CSUM, n;
	enum ipoib_sent sent;

	if (unlikely(!READ_ONCE(dev->running)))
		goto drop;
	if (ipoib_fit_is_plain(skb->len - INFINIBAND_ALEN,
			       skb_shinfo(skb)->nr_frags,
			       skb_shinfo(skb)->gso_size,
			       READ_ONCE(dev->ud->max_len), dev->max_sge)) {
		__skb_pull(skb, INFINIBAND_ALEN);
	} else {
		hlen = ipoib_ud_prepare(txq, skb, ah, qpn, &sent);
		if (hlen < 0)
			return sent;
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
	ipoib_tx_address(txq, w, ah->ib, qpn);

	slot->skb = skb;
	slot->bytes = skb->len;
	txq->chained++;
	txq->urgent |= ipoib_tx_owner_short(skb);
	WRITE_ONCE(txq->head, txq->head + 1);

	ipoib_dbg_data(dev, "%u bytes to QPN %#x\n", skb->len, qpn);
	skb_tx_timestamp(skb);
	return ipoib_txq_sent(txq, skb->len) ? IPOIB_SENT_FLUSH :
					       IPOIB_SENT_DONE;

drop:
	ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NOT_SPECIFIED);
	return IPOIB_SENT_DONE;
}
