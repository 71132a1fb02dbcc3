// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: datagrams: UD QPs, QP0 and QP1
 *
 * A datagram passes from ib_post_send() to the receiver's CQ in one call chain
 * and is copied once: ibds_ud_send() describes it (struct ibds_dgram),
 * ibds_ud_emit() finds the destination ports, ibds_ud_arrive() the QPs,
 * ibds_ud_deliver() checks it as IBA vol 1, 9.6 and 9.8.3 say, and
 * ibds_ud_accept() fills a receive.  If a port has a fault or a mirror, it
 * becomes a struct ibds_pkt instead, until the sender's lock is dropped.
 *
 * LSO and checksums are done while copying, as HCAs with these offloads do:
 *
 *   - IB_SEND_IP_CSUM fills in the IPv4 header checksum, and that of TCP or UDP
 *     unless the packet is a fragment; whatever the fields held is ignored.
 *     Other packets are left alone (IPv6 too: IB_DEVICE_UD_IP_CSUM is IPv4 only).
 *   - IB_WR_LSO takes TCP over IPv4 and IPv6 and always computes checksums.
 *   - IB_WC_IP_CSUM_OK says that the IPv4 header and the TCP or UDP checksum were
 *     both present and right.  It is not set for fragments, for IP options and
 *     for UDP without a checksum.
 *
 * A datagram that is larger than the next receive completes that receive with
 * IB_WC_LOC_LEN_ERR; the QP stays in its state.
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/checksum.h>

#include "addr.h"
#include "cq.h"
#include "dgram.h"
#include "mcast.h"
#include "mr.h"
#include "phc.h"
#include "pkt.h"
#include "rcv.h"
#include "rss.h"
#include "sge.h"
#include "switch.h"
#include "ud.h"

/* Largest payload of an LSO request. */
#define IBDS_MAX_LSO		SZ_256K

/* Bytes of BTH, DETH and ICRC that a GRH's PayLen counts. */
#define IBDS_UD_OVERHEAD	(12 + 8 + 4)

/* ---- receiving ---------------------------------------------------------- */

/* Store a datagram in a buffer of several pieces, through rcv->bounce. */
static noinline bool ibds_ud_scatter(struct ibds_port *to,
				     const struct ibds_rcv *rcv,
				     const struct ib_sge *sge,
				     const struct ibds_dgram *d)
{
	struct ibds_pos pos = { .sge = sge, .phys = rcv->phys };
	bool ok;

	ok = ibds_ud_fill(rcv->bounce, d);
	if (!ok && rcv->csum)
		ok = ibds_ud_verify(rcv->bounce, d->len);
	/* Without a GRH the first 40 bytes are undefined, not zero. */
	if (d->grh) {
		ibds_count(to, rx_grh);
		ibds_scatter(&pos, d->grh, IBDS_GRH_BYTES);
	} else {
		ibds_skip(&pos, IBDS_GRH_BYTES);
	}
	ibds_scatter(&pos, rcv->bounce, d->len);
	return ok;
}

static __always_inline bool ibds_ud_store(struct ibds_port *to,
					  const struct ibds_rcv *rcv,
					  const struct ib_sge *sge,
					  const struct ibds_dgram *d)
{
	u8 *dst;
	bool ok;

	if (unlikely(sge->length < IBDS_GRH_BYTES + d->len))
		return ibds_ud_scatter(to, rcv, sge, d);

	dst = ibds_va(sge->addr, rcv->phys);
	if (d->grh) {
		ibds_count(to, rx_grh);
		memcpy(dst, d->grh, IBDS_GRH_BYTES);
	}
	dst += IBDS_GRH_BYTES;
	ok = ibds_ud_fill(dst, d);
	if (!ok && rcv->csum)
		ok = ibds_ud_verify(dst, d->len);
	return ok;
}

/*
 * Store a datagram in a buffer in regions.  User space can change the bytes there
 * at any time, so that nothing is parsed in place: it takes the way through
 * rcv->bounce, which all QPs of users have.  Others have buffers of one piece.
 *
 * Return: whether the keys allow it.
 */
static noinline bool ibds_ud_store_mapped(struct ibds_port *to,
					  struct ibds_rcv *rcv,
					  const struct ibds_rwqe *wqe,
					  const struct ibds_dgram *d, bool *ok)
{
	struct ibds_space space = ibds_rcv_space(rcv);
	struct ibds_map *map = ibds_map_remote();
	bool stored = true;

	if (!ibds_map_list(map, &space, wqe->sge, wqe->num_sge, 0,
			   IBDS_GRH_BYTES + d->len, IB_ACCESS_LOCAL_WRITE))
		return false;
	if (rcv->bounce)
		*ok = ibds_ud_scatter(to, rcv, map->sge, d);
	else if (map->pieces == 1 && !rcv->qp->user)
		*ok = ibds_ud_store(to, rcv, map->sge, d);
	else
		stored = false;
	ibds_map_put(map);
	return stored;
}

/* Store a datagram that passed the checks in the next receive. */
static __always_inline void ibds_ud_accept(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_dgram *d,
					   u16 pkey_index)
{
	const struct ibds_rwqe *wqe;
	struct ibds_cqe *cqe;
	int wc_flags;
	bool ok;

	wqe = ibds_rcv_take(rcv);
	if (unlikely(!wqe)) {
		ibds_count(to, drop_no_recv);
		return;
	}
	if (unlikely(wqe->length < IBDS_GRH_BYTES + d->len)) {
		ibds_count(to, drop_recv_short);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_LEN_ERR);
		return;
	}
	if (likely(!wqe->mapped)) {
		ok = ibds_ud_store(to, rcv, wqe->sge, d);
	} else if (!ibds_ud_store_mapped(to, rcv, wqe, d, &ok)) {
		ibds_count(to, bad_lkey);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_PROT_ERR);
		return;
	}
	wc_flags = d->wc_flags;
	if (ok && rcv->csum)
		wc_flags |= IB_WC_IP_CSUM_OK;

	cqe = ibds_cq_begin(rcv->cq);
	cqe->wc.wr_id = wqe->wr_id;
	cqe->wc.status = IB_WC_SUCCESS;
	cqe->wc.opcode = IB_WC_RECV;
	cqe->wc.vendor_err = 0;
	cqe->wc.byte_len = IBDS_GRH_BYTES + d->len;
	cqe->wc.qp = &rcv->qp->ib;
	cqe->wc.ex.imm_data = d->imm;
	cqe->wc.src_qp = d->sqpn;
	cqe->wc.slid = d->slid;
	cqe->wc.wc_flags = wc_flags;
	cqe->wc.pkey_index = pkey_index;
	cqe->wc.sl = d->sl;
	cqe->wc.dlid_path_bits = ibds_path_bits(to, d->dlid);
	cqe->wc.port_num = to->num;
	cqe->sq_slots = 0;
	ibds_cq_end(rcv->cq, cqe, d->solicited);
	ibds_count(to, rx_packets);
	ibds_count_add(to, rx_bytes, d->len);
}

static struct ibds_pkt *ibds_ud_packet(const struct ibds_dgram *d, u32 len)
{
	struct ibds_pkt *pkt;

	pkt = ibds_pkt_alloc(len, GFP_ATOMIC);
	if (!pkt)
		return NULL;
	pkt->slid = d->slid;
	pkt->dlid = d->dlid;
	pkt->sl = d->sl;
	pkt->grh_valid = d->grh;
	if (d->grh)
		pkt->grh = *d->grh;
	pkt->imm_valid = d->wc_flags & IB_WC_WITH_IMM;
	pkt->opcode = pkt->imm_valid ? IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE :
				       IB_OPCODE_UD_SEND_ONLY;
	pkt->imm = d->imm;
	pkt->solicited = d->solicited;
	pkt->pkey = d->pkey;
	pkt->dqpn = d->dqpn;
	pkt->sqpn = d->sqpn;
	pkt->qkey = d->qkey;
	pkt->psn = d->psn & IBDS_PSN_MASK;
	pkt->csum_ok = false;
	pkt->cut = false;
	pkt->len = len;
	return pkt;
}

/* Queue a packet for ibds_later_run(). */
static noinline void ibds_ud_later(struct ibds_port *to,
				   const struct ibds_dgram *d,
				   enum ibds_later todo)
{
	bool whole = todo == IBDS_LATER_DATA || todo == IBDS_LATER_MIRROR ||
		     todo == IBDS_LATER_MAD;
	struct ibds_pkt *pkt;

	if (!d->later)
		return;
	if (todo == IBDS_LATER_DATA && d->dqpn <= 1) {
		/* As on the fast path: only MADs get to QP0 and QP1. */
		ibds_count(to, drop_no_qp);
		return;
	}
	pkt = ibds_ud_packet(d, whole ? d->len : 0);
	if (!pkt) {
		if (todo == IBDS_LATER_MAD)
			ibds_count(d->from, mad_dropped);
		else if (todo == IBDS_LATER_DATA)
			ibds_count(d->from, drop_fault);
		return;
	}
	if (whole)
		pkt->csum_ok = ibds_ud_fill(pkt->data, d);
	pkt->from = d->from;
	pkt->to = to;
	pkt->todo = todo;
	list_add_tail(&pkt->list, d->later);
}

/* Deliver a datagram to the channel that RSS chooses.  RCU read side. */
static void ibds_ud_spread(struct ibds_port *to, u32 qpn,
			   const struct ibds_rss *rss,
			   const struct ibds_dgram *d, u16 pkey_index)
{
	struct ibds_rx_meta *meta;
	struct ibds_rcv *ring;
	u32 hash, tail;
	u8 hashed;

	hash = ibds_rss_hash(rss, d, &hashed);
	ring = rcu_dereference(rss->ring[READ_ONCE(rss->table[hash %
							      IBDS_RSS_TABLE])]);
	if (!ring) {
		ibds_count(to, drop_no_recv);
		return;
	}
	spin_lock(&ring->lock);
	/* Pairs with smp_store_release() in ibds_post_recv(). */
	tail = smp_load_acquire(&ring->rq.tail);
	if (ring->rss_on != to) {
		ibds_count(to, drop_no_recv);
	} else if (ibds_qp_wedged(ring->qp)) {
		ibds_count(to, drop_wedged);
	} else if (ring->rq.head == tail) {
		ibds_count(to, drop_no_recv);
	} else {
		meta = &ring->qp->meta[ibds_rq_slot(&ring->rq,
						    ring->rq.head)->wr_id];
		meta->hash = hash;
		meta->hashed = hashed;
		meta->qpn = qpn;
		meta->stamp = 0;
		/* It crosses the wire once: both ends look at the same moment. */
		if (READ_ONCE(rss->stamp))
			meta->stamp = d->stamp ?: ibds_phc_count();
		ibds_ud_accept(to, ring, d, pkey_index);
	}
	spin_unlock(&ring->lock);
}

/* The check of the P_Key, by a locked receive side. */
static __always_inline bool ibds_ud_pkey_ok(const struct ibds_port *to,
					    const struct ibds_rcv *rcv,
					    const struct ibds_dgram *d)
{
	return ibds_pkey_match(READ_ONCE(to->pkeys[rcv->pkey_index]), d->pkey);
}

/* The receive side, locked, is closed or leaves datagrams to channels. */
static noinline int ibds_ud_deliver_rss(struct ibds_port *to,
					struct ibds_rcv *rcv,
					const struct ibds_dgram *d)
	__releases(&rcv->lock)
{
	const struct ibds_rss *rss = rcv->rss;
	u16 pkey_index = rcv->pkey_index;
	int bad = 0;

	if (!rss || rcv->rss_on != to) {
		ibds_count(to, drop_no_qp);
		rss = NULL;
	} else if (!ibds_ud_pkey_ok(to, rcv, d)) {
		ibds_count(to, drop_pkey);
		bad = IBDS_LATER_BAD_PKEY;
	} else if (rcv->qkey != d->qkey && !rss->any_qkey) {
		ibds_count(to, drop_qkey);
		bad = IBDS_LATER_BAD_QKEY;
	}
	spin_unlock(&rcv->lock);
	if (rss && !bad)
		ibds_ud_spread(to, rcv->qpn, rss, d, pkey_index);
	return bad;
}

/*
 * Checks of the receiving QP.  Interrupts are disabled.
 *
 * Return: 0, or the violation to report to the port.
 */
static __always_inline int ibds_ud_deliver(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_dgram *d)
{
	int bad = 0;

	spin_lock(&rcv->lock);
	if (unlikely(rcv->ud_on != to)) {
		return ibds_ud_deliver_rss(to, rcv, d);
	} else if (unlikely(!ibds_ud_pkey_ok(to, rcv, d))) {
		ibds_count(to, drop_pkey);
		bad = IBDS_LATER_BAD_PKEY;
	} else if (unlikely(rcv->qkey != d->qkey)) {
		ibds_count(to, drop_qkey);
		bad = IBDS_LATER_BAD_QKEY;
	} else {
		ibds_ud_accept(to, rcv, d, rcv->pkey_index);
	}
	spin_unlock(&rcv->lock);
	return bad;
}

static noinline int ibds_ud_arrive_mc(struct ibds_port *to,
				      const struct ibds_dgram *d)
{
	const union ib_gid *mgid = &d->grh->dgid;
	struct ibds_attach *at;
	bool found = false;
	int bad = 0;

	hlist_for_each_entry_rcu(at, ibds_mcast_bucket(to, mgid, d->dlid), node) {
		if (at->mlid != d->dlid ||
		    memcmp(&at->mgid, mgid, sizeof(*mgid)))
			continue;
		found = true;
		if (at->rcv != d->except)
			bad = ibds_ud_deliver(to, at->rcv, d) ?: bad;
	}
	/* The switch does not send a port's own packets back to it. */
	if (!found && to != d->from)
		ibds_count(to, drop_mc_no_group);
	return bad;
}

/* Deliver a datagram at its port to QPs.  Interrupts off, RCU read side. */
static __always_inline int ibds_ud_arrive(struct ibds_port *to,
					  const struct ibds_dgram *d)
{
	struct ibds_rcv *rcv;

	if (unlikely(d->len > READ_ONCE(to->mtu_active))) {
		ibds_count(to, drop_mtu);
		return 0;
	}
	if (unlikely(d->dqpn == IBDS_QPN_MULTICAST))
		return ibds_ud_arrive_mc(to, d);
	if (unlikely(d->grh) && !ibds_port_has_gid(to, &d->grh->dgid)) {
		ibds_count(to, drop_gid);
		return 0;
	}
	rcv = ibds_rcv_find(to->dev, d->dqpn);
	if (unlikely(!rcv)) {
		ibds_count(to, drop_no_qp);
		return 0;
	}
	return ibds_ud_deliver(to, rcv, d);
}

/* ---- sending ------------------------------------------------------------ */

/* Pass a datagram to one of its destination ports. */
static void ibds_ud_forward(struct ibds_port *to, const struct ibds_dgram *d)
{
	int bad;

	if (unlikely(READ_ONCE(d->from->faults.armed) ||
		     READ_ONCE(to->faults.armed) || READ_ONCE(to->mirror))) {
		ibds_ud_later(to, d, IBDS_LATER_DATA);
		return;
	}
	bad = ibds_ud_arrive(to, d);
	if (unlikely(bad))
		ibds_ud_later(to, d, bad);
}

/* Send to the members on this port and to those at other ports. */
static noinline void ibds_ud_multicast(struct ibds_port *from,
				       const struct ibds_dgram *d)
{
	struct ibds_mc_walk walk;
	struct ibds_port *to;

	if (READ_ONCE(from->state) != IB_PORT_ACTIVE) {
		ibds_count(from, drop_port_down);
		return;
	}
	ibds_ud_forward(from, d);
	ibds_route_mc_begin(&walk, from, d->dlid);
	while ((to = ibds_route_mc_next(&walk)))
		ibds_ud_forward(to, d);
}

/* Put a datagram on the wire.  The send succeeds even if it is lost. */
static __always_inline void ibds_ud_emit(struct ibds_port *from,
					 struct ibds_path *path,
					 struct ibds_dgram *d)
{
	struct ibds_port *to;

	ibds_count(from, tx_packets);
	ibds_count_add(from, tx_bytes, d->len);
	/* The P_Key table entry is empty: nothing can leave. */
	if (unlikely(!(d->pkey & IBDS_PKEY_BASE))) {
		ibds_count(from, drop_pkey);
		return;
	}
	if (unlikely(READ_ONCE(from->mirror)))
		ibds_ud_later(NULL, d, IBDS_LATER_MIRROR);
	if (unlikely(d->dqpn == IBDS_QPN_MULTICAST)) {
		ibds_ud_multicast(from, d);
		return;
	}
	to = ibds_route_hint(from, d->dlid, &path->hint);
	if (likely(to))
		ibds_ud_forward(to, d);
	else if (READ_ONCE(from->state) != IB_PORT_ACTIVE)
		ibds_count(from, drop_port_down);
	else
		ibds_count(from, drop_no_route);
}

/*
 * IBA vol 1, 10.5: multicast has a GRH, QPN 0xffffff and a multicast
 * LID, and nothing else has the latter two.
 */
static bool ibds_ud_mc_ok(const struct ibds_path *path, u32 dqpn)
{
	bool mlid = path->dlid >= IBDS_MFT_BASE;

	if (likely(!mlid && dqpn != IBDS_QPN_MULTICAST))
		return true;
	return mlid && dqpn == IBDS_QPN_MULTICAST && path->grh &&
	       path->dgid.raw[0] == 0xff && path->dlid != IBDS_LID_PERMISSIVE;
}

/* Set the GRH's length and count it, once for each packet. */
static void ibds_grh_length(struct ib_grh *grh, const struct ibds_dgram *d)
{
	u32 imm = d->wc_flags & IB_WC_WITH_IMM ? sizeof(d->imm) : 0;

	ibds_count(d->from, tx_grh);
	grh->paylen = cpu_to_be16(IBDS_UD_OVERHEAD + imm + ALIGN(d->len, 4));
}

/**
 * ibds_lso_l4 - find the TCP header in an LSO template
 * @hdr: template
 * @hlen: bytes
 *
 * Return: offset of the TCP header; 0 if it is not a valid template.
 */
u32 ibds_lso_l4(const u8 *hdr, u32 hlen)
{
	const struct iphdr *ip = (const void *)(hdr + IBDS_IPOIB_HLEN);
	const struct tcphdr *tcp;
	__be16 proto;
	u32 l4;

	if (hlen < IBDS_IPOIB_HLEN + sizeof(*ip) + sizeof(*tcp))
		return 0;
	proto = *(__be16 *)hdr;
	if (proto == htons(ETH_P_IP) && ip->protocol == IPPROTO_TCP)
		l4 = IBDS_IPOIB_HLEN + ip->ihl * 4;
	else if (proto == htons(ETH_P_IPV6) &&
		 ((const struct ipv6hdr *)ip)->nexthdr == IPPROTO_TCP)
		l4 = IBDS_IPOIB_HLEN + sizeof(struct ipv6hdr);
	else
		return 0;
	if (l4 + sizeof(*tcp) > hlen)
		return 0;
	tcp = (const void *)(hdr + l4);
	return l4 + tcp->doff * 4 == hlen ? l4 : 0;
}

/* Build the header of the segment at payload offset @off from template @was. */
static void ibds_lso_header(u8 *hdr, const u8 *was, const struct ibds_dgram *d,
			    u32 off, u32 index, bool last)
{
	struct iphdr *ip = (struct iphdr *)(hdr + IBDS_IPOIB_HLEN);
	struct tcphdr *tcp = (struct tcphdr *)(hdr + d->seg->l4);

	memcpy(hdr, was, d->seg->hlen);
	if (ip->version == 4) {
		ip->tot_len = htons(d->len - IBDS_IPOIB_HLEN);
		ip->id = htons(ntohs(ip->id) + index);
		ip->check = 0;
		ip->check = ip_fast_csum(ip, ip->ihl);
	} else {
		((struct ipv6hdr *)ip)->payload_len =
			htons(d->len - d->seg->l4);
	}
	tcp->seq = htonl(ntohl(tcp->seq) + off);
	tcp->check = 0;
	if (index)
		tcp->cwr = 0;
	if (!last) {
		tcp->fin = 0;
		tcp->psh = 0;
	}
}

/* @d describes the whole request at first, then each segment in turn. */
static noinline enum ib_wc_status
ibds_ud_send_lso(struct ibds_qp *qp, const struct ib_ud_wr *wr,
		 struct ibds_dgram *d, struct ib_grh *grh)
{
	struct ibds_path *path = &to_ibds_ah(wr->ah)->path;
	u8 hdr[IBDS_MAX_INLINE] __aligned(4);
	struct ibds_segment seg = {
		.hdr = hdr,
		.hlen = wr->hlen,
		.l4 = ibds_lso_l4(wr->header, wr->hlen),
	};
	u32 total = d->len;
	u32 off = 0, index = 0;
	u32 n;

	if (!seg.l4)
		return IB_WC_LOC_QP_OP_ERR;
	if (wr->hlen + min_t(u32, wr->mss, total) >
	    READ_ONCE(qp->port->mtu_active))
		return IB_WC_LOC_LEN_ERR;

	d->fill = IBDS_FILL_SEGMENT;
	d->seg = &seg;
	if (d->grh)
		ibds_grh_build(grh, path, qp->port);
	do {
		n = min_t(u32, wr->mss, total - off);
		d->len = wr->hlen + n;
		d->psn = qp->sq.psn++;
		ibds_lso_header(hdr, wr->header, d, off, index++,
				off + n == total);
		if (d->grh)
			ibds_grh_length(grh, d);
		ibds_ud_emit(qp->port, path, d);
		ibds_skip(&d->src, n);
		off += n;
	} while (off < total);
	return IB_WC_SUCCESS;
}

static bool ibds_ah_ok(const struct ibds_qp *qp, const struct ibds_ah *ah)
{
	return ah->magic == IBDS_AH_MAGIC && ah->ib.pd == qp->ib.pd &&
	       ah->port_num == qp->port->num;
}

/*
 * Whether this is a channel of an accelerated interface, which takes address
 * handles of any PD.  The PD of channels is their own, so all they send gets here:
 * this is also where what only they can do is done.
 */
static noinline bool ibds_ud_channel(const struct ibds_qp *qp,
				     const struct ib_ud_wr *wr,
				     struct ibds_dgram *d)
{
	const struct ibds_ah *ah = to_ibds_ah(wr->ah);

	if (!qp->meta || ah->magic != IBDS_AH_MAGIC ||
	    ah->port_num != qp->port->num)
		return false;
	d->csum_v6 = wr->wr.send_flags & IBDS_SEND_CSUM_V6;
	if (wr->wr.send_flags & IBDS_SEND_STAMP) {
		d->stamp = ibds_phc_count();
		WRITE_ONCE(qp->stamps[wr->wr.wr_id], d->stamp);
	}
	return true;
}

/* The high bit selects the Q_Key of the sending QP; IBA vol 1, 10.2. */
static u32 ibds_ud_qkey(const struct ibds_qp *qp, const struct ib_ud_wr *wr)
{
	return (s32)wr->remote_qkey < 0 ? qp->qkey : wr->remote_qkey;
}

/* Send the datagram @d of @len bytes; @grh is for its GRH. */
static __always_inline enum ib_wc_status
ibds_ud_transmit(struct ibds_qp *qp, const struct ib_ud_wr *wr,
		 struct ibds_dgram *d, s64 len, struct ib_grh *grh)
{
	struct ibds_ah *ah = to_ibds_ah(wr->ah);
	struct ibds_path *path = &ah->path;
	struct ibds_port *port = qp->port;

	if (unlikely(!ibds_ah_ok(qp, ah)) && !ibds_ud_channel(qp, wr, d))
		return IB_WC_LOC_QP_OP_ERR;
	if (ibds_post_fails(port, &port->faults.send_error))
		return IB_WC_GENERAL_ERR;
	if (unlikely(!ibds_ud_mc_ok(path, d->dqpn))) {
		ibds_count(port, drop_mc_bad);
		return IB_WC_SUCCESS;
	}

	if (unlikely(wr->wr.opcode == IB_WR_LSO)) {
		if (len > IBDS_MAX_LSO)
			return IB_WC_LOC_LEN_ERR;
		return ibds_ud_send_lso(qp, wr, d, grh);
	}

	if (unlikely(len > READ_ONCE(port->mtu_active)))
		return IB_WC_LOC_LEN_ERR;
	qp->sq.psn++;
	if (path->grh) {
		ibds_grh_build(grh, path, port);
		ibds_grh_length(grh, d);
	}
	ibds_ud_emit(port, path, d);
	return IB_WC_SUCCESS;
}

static __always_inline enum ib_wc_status
ibds_ud_execute(struct ibds_qp *qp, const struct ib_ud_wr *wr, s64 len,
		struct list_head *later)
{
	const struct ibds_path *path = &to_ibds_ah(wr->ah)->path;
	struct ibds_port *port = qp->port;
	int flags = wr->wr.send_flags;
	bool imm = wr->wr.opcode == IB_WR_SEND_WITH_IMM;
	struct ib_grh grh __uninitialized;
	/* All fields are initialized here, so that nothing is cleared first. */
	struct ibds_dgram d = {
		.from = port,
		.later = later,
		.except = qp->block_loopback ? qp->rcv : NULL,
		.grh = path->grh ? &grh : NULL,
		.seg = NULL,
		.src.sge = wr->wr.sg_list,
		.src.off = 0,
		.src.phys = qp->phys && !(flags & IB_SEND_INLINE),
		.len = len,
		.imm = imm ? wr->wr.ex.imm_data : 0,
		.fill = flags & IB_SEND_IP_CSUM ? IBDS_FILL_CSUM :
						  IBDS_FILL_PLAIN,
		.sl = path->sl,
		.csum_ok = false,
		.csum_v6 = false,
		.solicited = flags & IB_SEND_SOLICITED,
		.pkey = READ_ONCE(port->pkeys[qp->pkey_index]),
		.slid = READ_ONCE(port->lid) + path->path_bits,
		.dlid = path->dlid,
		.wc_flags = (path->grh ? IB_WC_GRH : 0) |
			    (imm ? IB_WC_WITH_IMM : 0),
		.dqpn = wr->remote_qpn,
		.sqpn = qp->sqpn,
		.qkey = ibds_ud_qkey(qp, wr),
		.psn = qp->sq.psn,
	};

	return ibds_ud_transmit(qp, wr, &d, len, &grh);
}

/* Copy a datagram from regions to @to.  Return: whether the keys allow it. */
static bool ibds_ud_collect(struct ibds_qp *qp, const struct ib_send_wr *wr,
			    u8 *to, u32 len)
{
	struct ibds_map *map = ibds_map_local();
	struct ibds_pos pos = { .sge = map->sge, .phys = qp->phys };
	struct ibds_space space = {
		.dev = to_ibds_dev(qp->ib.device),
		.pd = qp->ib.pd,
		.lkey = qp->lkey,
		.phys = qp->phys,
	};

	if (!ibds_map_list(map, &space, wr->sg_list, wr->num_sge, 0, len, 0))
		return false;
	ibds_gather(to, &pos, len);
	ibds_map_put(map);
	return true;
}

/*
 * A datagram from regions.  It is copied, since its receivers' locks must not be
 * taken while the regions are referred to.
 */
static noinline enum ib_wc_status ibds_ud_send_mapped(struct ibds_qp *qp,
						      const struct ib_ud_wr *wr,
						      struct list_head *later)
{
	u64 len = ibds_wr_length(&wr->wr);
	struct ibds_sq *sq = &qp->sq;
	struct ib_ud_wr copy = *wr;
	struct ib_sge sge;

	if (qp->user && wr->ah->pd != qp->ib.pd)
		return IB_WC_LOC_QP_OP_ERR;
	if (len > IBDS_MAX_MTU || wr->wr.opcode == IB_WR_LSO)
		return IB_WC_LOC_LEN_ERR;
	if (!sq->bounce)
		sq->bounce = kmalloc(IBDS_MAX_MTU, GFP_ATOMIC | __GFP_NOWARN);
	if (!sq->bounce)
		return IB_WC_LOC_QP_OP_ERR;
	if (!ibds_ud_collect(qp, &wr->wr, sq->bounce, len)) {
		ibds_count(qp->port, bad_lkey);
		return IB_WC_LOC_PROT_ERR;
	}
	sge = (struct ib_sge){ .addr = (uintptr_t)sq->bounce, .length = len };
	copy.wr.sg_list = &sge;
	copy.wr.num_sge = 1;
	/* Like inline data, it is at a kernel address and needs no key. */
	copy.wr.send_flags |= IB_SEND_INLINE;
	return ibds_ud_execute(qp, &copy, len, later);
}

/**
 * ibds_ud_send - execute a send of a UD QP
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: list for packets that leave the fast path
 *
 * Return: completion status.
 */
enum ib_wc_status ibds_ud_send(struct ibds_qp *qp, const struct ib_ud_wr *wr,
			       struct list_head *later)
{
	s64 len = ibds_send_length(qp, &wr->wr);

	if (unlikely(len < 0))
		return ibds_ud_send_mapped(qp, wr, later);
	return ibds_ud_execute(qp, wr, len, later);
}

/* ---- QP0 and QP1 -------------------------------------------------------- */

/**
 * ibds_mad_post - execute a send of QP0 or QP1
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: list for the MAD
 *
 * Return: completion status.
 */
enum ib_wc_status ibds_mad_post(struct ibds_qp *qp, const struct ib_ud_wr *wr,
				struct list_head *later)
{
	const struct ibds_ah *ah = to_ibds_ah(wr->ah);
	struct ibds_port *port = qp->port;
	bool gsi = qp->ib.qp_type == IB_QPT_GSI;
	s64 len = ibds_send_length(qp, &wr->wr);
	struct ibds_dgram d = {
		.from = port,
		.later = later,
		.src.sge = wr->wr.sg_list,
		.src.phys = qp->phys && !(wr->wr.send_flags & IB_SEND_INLINE),
		.len = len,
		.solicited = wr->wr.send_flags & IB_SEND_SOLICITED,
		.sl = ah->path.sl,
		.slid = READ_ONCE(port->lid) + ah->path.path_bits,
		.dlid = ah->path.dlid,
		.pkey = IB_DEFAULT_PKEY_FULL,
		.dqpn = wr->remote_qpn,
		.sqpn = qp->ib.qp_num,
		.qkey = ibds_ud_qkey(qp, wr),
	};
	struct ib_grh grh;

	if (len < 0) {
		ibds_count(port, bad_lkey);
		return IB_WC_LOC_PROT_ERR;
	}
	if (!ibds_ah_ok(qp, ah))
		return IB_WC_LOC_QP_OP_ERR;
	if (len > IBDS_MAD_SIZE)
		return IB_WC_LOC_LEN_ERR;
	if (gsi) {
		if (wr->pkey_index >= port->dev->caps.pkeys)
			return IB_WC_LOC_QP_OP_ERR;
		d.pkey = READ_ONCE(port->pkeys[wr->pkey_index]);
	} else if (d.dlid == IBDS_LID_PERMISSIVE) {
		/* A directed route may start before there is a LID. */
		d.slid = READ_ONCE(port->lid) ?: IBDS_LID_PERMISSIVE;
	}
	d.psn = qp->sq.psn++;
	if (ah->path.grh) {
		ibds_grh_build(&grh, &ah->path, port);
		d.grh = &grh;
		ibds_grh_length(&grh, &d);
	}
	ibds_ud_later(NULL, &d, IBDS_LATER_MAD);
	return IB_WC_SUCCESS;
}

/* Index of the entry in the port's table that matches a P_Key; -1: none. */
static int ibds_pkey_find(const struct ibds_port *port, u16 pkey)
{
	int i;

	for (i = 0; i < port->dev->caps.pkeys; i++)
		if (ibds_pkey_match(READ_ONCE(port->pkeys[i]), pkey))
			return i;
	return -1;
}

/*
 * IBA vol 1, 9.6 and 10.9: QP0 checks neither P_Key nor Q_Key, QP1
 * accepts any P_Key of the port and the well-known Q_Key.
 */
static int ibds_mad_arrive(struct ibds_port *to, const struct ibds_dgram *d)
{
	struct ibds_rcv *rcv = rcu_dereference(to->special[d->dqpn]);
	int pkey_index = 0;

	if (!rcv) {
		ibds_count(to, drop_no_qp);
		return 0;
	}
	if (d->len > IBDS_MAD_SIZE) {
		ibds_count(to, drop_malformed);
		return 0;
	}
	if (d->dqpn) {
		pkey_index = ibds_pkey_find(to, d->pkey);
		if (pkey_index < 0) {
			ibds_count(to, drop_pkey);
			return IBDS_LATER_BAD_PKEY;
		}
		if (d->grh && !ibds_port_has_gid(to, &d->grh->dgid)) {
			ibds_count(to, drop_gid);
			return 0;
		}
		if (d->qkey != IB_QP1_QKEY) {
			ibds_count(to, drop_qkey);
			return IBDS_LATER_BAD_QKEY;
		}
	}
	spin_lock(&rcv->lock);
	if (rcv->ud_on == to)
		ibds_ud_accept(to, rcv, d, pkey_index);
	else
		ibds_count(to, drop_no_qp);
	spin_unlock(&rcv->lock);
	return 0;
}

/* ---- packets outside the fast path -------------------------------------- */

/* The receive side of the sender, if it blocks loopback. */
static const struct ibds_rcv *ibds_pkt_except(struct ibds_port *port,
					      const struct ibds_pkt *pkt)
{
	struct ibds_rcv *rcv;

	if (pkt->from != port)
		return NULL;
	rcv = ibds_rcv_find(port->dev, pkt->sqpn);
	return rcv && rcv->block_loopback ? rcv : NULL;
}

/* Describe a packet; @sge has its payload. */
static void ibds_pkt_describe(struct ibds_dgram *d, const struct ib_sge *sge,
			      struct ibds_port *port,
			      const struct ibds_pkt *pkt)
{
	bool imm = pkt->opcode == IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE;

	*d = (struct ibds_dgram){
		.from = pkt->from,
		.except = ibds_pkt_except(port, pkt),
		.grh = pkt->grh_valid ? &pkt->grh : NULL,
		.src.sge = sge,
		.len = pkt->len,
		.csum_ok = pkt->csum_ok && !pkt->cut,
		.solicited = pkt->solicited,
		.wc_flags = (pkt->grh_valid ? IB_WC_GRH : 0) |
			    (imm ? IB_WC_WITH_IMM : 0),
		.sl = pkt->sl,
		.imm = pkt->imm,
		.slid = pkt->slid,
		.dlid = pkt->dlid,
		.pkey = pkt->pkey,
		.dqpn = pkt->dqpn,
		.sqpn = pkt->sqpn,
		.qkey = pkt->qkey,
	};
}

/**
 * ibds_ud_receive - handle a datagram from outside the fast path at its port
 * @port: HCA port
 * @pkt: packet for a data QP, not kept
 *
 * Context: interrupts are disabled; RCU read side.
 * Return: 0, %IBDS_LATER_BAD_PKEY or %IBDS_LATER_BAD_QKEY.
 */
int ibds_ud_receive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)pkt->data,
		.length = pkt->len,
	};
	struct ibds_dgram d;

	ibds_pkt_describe(&d, &sge, port, pkt);
	return ibds_ud_arrive(port, &d);
}

/**
 * ibds_mad_receive - handle a MAD from outside the fast path at its port
 * @port: HCA port
 * @pkt: MAD, not kept
 *
 * Context: interrupts are disabled; RCU read side.
 * Return: 0, %IBDS_LATER_BAD_PKEY or %IBDS_LATER_BAD_QKEY.
 */
int ibds_mad_receive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)pkt->data,
		.length = pkt->len,
	};
	struct ibds_dgram d;

	ibds_pkt_describe(&d, &sge, port, pkt);
	return ibds_mad_arrive(port, &d);
}
