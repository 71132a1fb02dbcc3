// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: datagrams: UD QPs, QP0 and QP1
 *
 * A datagram goes from ib_post_send() to the receiver's CQ in one call chain and
 * is copied once: ibds_ud_send() describes it (struct ibds_dgram), ibds_ud_emit()
 * finds the ports it goes to, ibds_ud_arrive() the QPs, ibds_ud_deliver() checks
 * it as IBA vol 1, 9.6 and 9.8.3 say and ibds_ud_accept() fills a receive.
 * When one of the ports has a fault or a mirror it becomes a struct ibds_pkt
 * instead and waits until the sender's lock is dropped.
 *
 * LSO and checksums are done while copying.  They follow what such HCAs do:
 *
 *   - IB_SEND_IP_CSUM fills in the IPv4 header checksum, and that of TCP or UDP
 *     unless the packet is a fragment; what the fields held does not matter.
 *     Other packets are left alone (IPv6 too: IB_DEVICE_UD_IP_CSUM is IPv4 only).
 *   - IB_WR_LSO takes TCP over IPv4 and IPv6 and always computes checksums.
 *   - IB_WC_IP_CSUM_OK says that the IPv4 header and the TCP or UDP checksum were
 *     both there and right.  Not so for fragments, for IP options and for UDP
 *     without a checksum.
 *
 * A datagram that is larger than the receive it meets completes that receive with
 * IB_WC_LOC_LEN_ERR; the QP goes on (nothing was acknowledged).
 */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/sizes.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/checksum.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>

#include "datapath.h"

/* IPoIB encapsulation header, RFC 4391, 6: EtherType and two zero octets. */
#define IBDS_IPOIB_HLEN		4

/* What there is before a TCP or UDP header over IPv4 without options. */
#define IBDS_IPV4_LEAD		(IBDS_IPOIB_HLEN + sizeof(struct iphdr))

/* GRH NxtHdr: a BTH follows; IBA vol 1, 8.3. */
#define IBDS_GRH_NEXT_BTH	0x1b

/* Largest payload of an LSO request. */
#define IBDS_MAX_LSO		SZ_256K

/* Octets of BTH, DETH and ICRC that a GRH's PayLen counts. */
#define IBDS_UD_OVERHEAD	(12 + 8 + 4)

/**
 * enum ibds_fill - how the octets of a datagram come about
 * @IBDS_FILL_PLAIN: as they are
 * @IBDS_FILL_CSUM: with IPv4, TCP and UDP checksums
 * @IBDS_FILL_SEGMENT: header from the side, payload, TCP checksum
 */
enum ibds_fill {
	IBDS_FILL_PLAIN,
	IBDS_FILL_CSUM,
	IBDS_FILL_SEGMENT,
};

/**
 * struct ibds_segment - the header of an LSO segment
 * @hdr: complete but for the TCP checksum
 * @hlen: octets of it
 * @l4: where in it TCP begins
 */
struct ibds_segment {
	const u8 *hdr;
	u32 hlen;
	u32 l4;
};

/**
 * struct ibds_dgram - a datagram on its way
 * @from: port that sends it
 * @later: takes packets that leave the fast path
 * @except: receive side that does not get it (loopback blocked)
 * @grh: or NULL
 * @seg: with %IBDS_FILL_SEGMENT: what stands before the payload
 * @src: payload
 * @len: octets, LSO header included
 * @fill: see there
 * @csum_ok: checksums are known to be right
 * @solicited: the receiver's event is
 * @wc_flags: what the receiver gets: IB_WC_GRH, IB_WC_WITH_IMM
 * @sl: service level
 * @imm: immediate data
 * @slid: LID it comes from
 * @dlid: LID it goes to
 * @pkey: P_Key
 * @dqpn: destination QP
 * @sqpn: source QP
 * @qkey: Q_Key
 * @psn: only a mirror wants it
 */
struct ibds_dgram {
	struct ibds_port *from;
	struct list_head *later;
	const struct ibds_rcv *except;
	const struct ib_grh *grh;
	const struct ibds_segment *seg;
	struct ibds_pos src;
	u32 len;
	__be32 imm;
	u8 fill;
	u8 sl;
	bool csum_ok;
	bool solicited;
	u16 pkey;
	u16 slid;
	u16 dlid;
	u16 wc_flags;
	u32 dqpn;
	u32 sqpn;
	u32 qkey;
	u32 psn;
};

/* ---- filling ------------------------------------------------------------ */

/**
 * ibds_gather_pieces - ibds_gather() across entries of the list
 * @dst: where to
 * @pos: where from, moves on
 * @len: octets
 */
void ibds_gather_pieces(void *dst, struct ibds_pos *pos, u32 len)
{
	u32 n;

	for (; len; len -= n, dst += n) {
		n = min(ibds_pos_span(pos), len);
		ibds_copy(dst, ibds_pos_va(pos), n);
		ibds_pos_advance(pos, n);
	}
}

/* Copy, and sum up what was copied. */
static __always_inline __wsum ibds_copy_csum(void *dst, const void *src,
					     u32 len)
{
	ibds_copy(dst, src, len);
	return csum_partial(dst, len, 0);
}

static noinline __wsum ibds_gather_csum_pieces(u8 *dst, struct ibds_pos *pos,
					       u32 len)
{
	__wsum sum = 0;
	u32 done = 0;
	u32 n;

	for (; done < len; done += n) {
		const void *src = ibds_pos_va(pos);

		n = min(ibds_pos_span(pos), len - done);
		if (n)
			sum = csum_block_add(sum,
					     ibds_copy_csum(dst + done, src, n),
					     done);
		ibds_pos_advance(pos, n);
	}
	return sum;
}

/* Like ibds_gather(), and the checksum of what was copied. */
static inline __wsum ibds_gather_csum(u8 *dst, struct ibds_pos *pos, u32 len)
{
	__wsum sum;

	if (unlikely(!len || len > ibds_pos_span(pos)))
		return ibds_gather_csum_pieces(dst, pos, len);
	sum = ibds_copy_csum(dst, ibds_pos_va(pos), len);
	ibds_pos_advance(pos, len);
	return sum;
}

/* Where the checksum is in a TCP or UDP header of @len octets; 0: nowhere. */
static u32 ibds_check_offset(u8 proto, u32 len)
{
	if (proto == IPPROTO_TCP && len >= sizeof(struct tcphdr))
		return offsetof(struct tcphdr, check);
	if (proto == IPPROTO_UDP && len >= sizeof(struct udphdr))
		return offsetof(struct udphdr, check);
	return 0;
}

/* The IPv4 header of a packet that is all there; NULL when it is not one. */
static struct iphdr *ibds_ipv4(u8 *pkt, u32 len)
{
	struct iphdr *ip = (struct iphdr *)(pkt + IBDS_IPOIB_HLEN);
	u32 size;

	if (len < IBDS_IPV4_LEAD ||
	    *(__be16 *)pkt != htons(ETH_P_IP) || ip->version != 4 ||
	    ip->ihl < 5)
		return NULL;
	size = ntohs(ip->tot_len);
	return size >= ip->ihl * 4 && size <= len - IBDS_IPOIB_HLEN ? ip : NULL;
}

static __sum16 ibds_ipv4_l4_check(const struct iphdr *ip, u32 len, __wsum sum)
{
	return csum_tcpudp_magic(ip->saddr, ip->daddr, len, ip->protocol, sum);
}

static noinline bool ibds_fill_pieces(u8 *dst, const struct ibds_dgram *d)
{
	struct ibds_pos pos = d->src;

	ibds_gather(dst, &pos, d->len);
	return d->csum_ok;
}

/* The rest of @len octets behind an IPv4 header.  Return: see ibds_ud_fill(). */
static bool ibds_fill_l4(u8 *dst, struct ibds_pos *pos, const struct iphdr *ip,
			 u32 left)
{
	u32 len = ntohs(ip->tot_len) - ip->ihl * 4;
	u32 off = ip_is_fragment(ip) ? 0 : ibds_check_offset(ip->protocol, len);
	__sum16 *check = (__sum16 *)(dst + off);
	__wsum sum;

	if (unlikely(!off)) {
		ibds_gather(dst, pos, left);
		return false;
	}
	sum = ibds_gather_csum(dst, pos, len);
	/* What the field held does not count. */
	sum = csum_sub(sum, csum_unfold(*check));
	*check = ibds_ipv4_l4_check(ip, len, sum);
	if (ip->protocol == IPPROTO_UDP && !*check)
		*check = CSUM_MANGLED_0;
	if (unlikely(left != len))
		ibds_gather(dst + len, pos, left - len);
	return ip->ihl == 5;
}

/*
 * Checksums as the sending HCA computes them.  The first octets decide what
 * there is to do; then the rest is summed up while it is copied.
 */
static noinline bool ibds_fill_csum(u8 *dst, const struct ibds_dgram *d)
{
	struct ibds_pos pos = d->src;
	struct iphdr *ip;
	u32 l4;

	if (unlikely(d->len < IBDS_IPV4_LEAD))
		return ibds_fill_pieces(dst, d);
	ibds_gather(dst, &pos, IBDS_IPV4_LEAD);
	ip = ibds_ipv4(dst, d->len);
	if (unlikely(!ip)) {
		ibds_gather(dst + IBDS_IPV4_LEAD, &pos,
			    d->len - IBDS_IPV4_LEAD);
		return false;
	}
	l4 = IBDS_IPOIB_HLEN + ip->ihl * 4;
	if (unlikely(l4 > IBDS_IPV4_LEAD))
		ibds_gather(dst + IBDS_IPV4_LEAD, &pos, l4 - IBDS_IPV4_LEAD);
	ip->check = 0;
	ip->check = ip_fast_csum(ip, ip->ihl);
	return ibds_fill_l4(dst + l4, &pos, ip, d->len - l4);
}

static __sum16 ibds_segment_check(const u8 *hdr, u32 len, __wsum sum)
{
	const struct ipv6hdr *ip6 = (const void *)(hdr + IBDS_IPOIB_HLEN);

	if (ip6->version == 4)
		return ibds_ipv4_l4_check((const void *)ip6, len, sum);
	return csum_ipv6_magic(&ip6->saddr, &ip6->daddr, len, IPPROTO_TCP, sum);
}

static noinline bool ibds_fill_segment(u8 *dst, const struct ibds_dgram *d)
{
	const struct ibds_segment *seg = d->seg;
	const struct iphdr *ip = (const void *)(seg->hdr + IBDS_IPOIB_HLEN);
	struct tcphdr *tcp = (struct tcphdr *)(dst + seg->l4);
	struct ibds_pos pos = d->src;
	__wsum sum;

	memcpy(dst, seg->hdr, seg->hlen);
	/* A TCP header is a multiple of four octets. */
	sum = csum_partial(tcp, seg->hlen - seg->l4, 0);
	sum = csum_add(sum, ibds_gather_csum(dst + seg->hlen, &pos,
					     d->len - seg->hlen));
	tcp->check = ibds_segment_check(seg->hdr, d->len - seg->l4, sum);
	return ip->version == 4 && ip->ihl == 5;
}

/* Write a datagram to @dst.  Return: the sending HCA knows its checksums. */
static __always_inline bool ibds_ud_fill(u8 *dst, const struct ibds_dgram *d)
{
	const struct ib_sge *sge = d->src.sge;

	if (d->fill == IBDS_FILL_CSUM)
		return ibds_fill_csum(dst, d);
	if (unlikely(d->fill == IBDS_FILL_SEGMENT))
		return ibds_fill_segment(dst, d);
	/* There may be no list when there is no data. */
	if (unlikely(!d->len || d->src.off || sge->length < d->len))
		return ibds_fill_pieces(dst, d);
	ibds_copy(dst, ibds_va(sge->addr, d->src.phys), d->len);
	return d->csum_ok;
}

/* What a receiving HCA finds when it looks itself. */
static noinline bool ibds_ud_verify(u8 *pkt, u32 len)
{
	struct iphdr *ip = ibds_ipv4(pkt, len);
	u32 l4len, off;
	u8 *l4;

	if (!ip || ip->ihl != 5 || ip_is_fragment(ip) ||
	    ip_fast_csum(ip, ip->ihl))
		return false;
	l4 = (u8 *)(ip + 1);
	l4len = ntohs(ip->tot_len) - sizeof(*ip);
	off = ibds_check_offset(ip->protocol, l4len);
	if (!off)
		return false;
	if (ip->protocol == IPPROTO_UDP && !*(__sum16 *)(l4 + off))
		return false;
	return !ibds_ipv4_l4_check(ip, l4len, csum_partial(l4, l4len, 0));
}

/* ---- receiving ---------------------------------------------------------- */

static void ibds_ud_scatter_grh(const struct ibds_rcv *rcv,
				struct ibds_pos *pos,
				const struct ibds_dgram *d)
{
	ibds_count(rcv->ud_on, rx_grh);
	ibds_scatter(pos, d->grh, IBDS_GRH_BYTES);
}

/* A buffer in several pieces: by way of rcv->bounce when checksums are asked. */
static noinline bool ibds_ud_scatter(const struct ibds_rcv *rcv,
				     const struct ibds_rwqe *wqe,
				     const struct ibds_dgram *d)
{
	struct ibds_pos pos = { .sge = wqe->sge, .phys = rcv->phys };
	bool ok;

	ok = ibds_ud_fill(rcv->bounce, d);
	if (!ok && rcv->csum)
		ok = ibds_ud_verify(rcv->bounce, d->len);
	/* Without a GRH the first 40 octets are undefined, not zero. */
	if (d->grh)
		ibds_ud_scatter_grh(rcv, &pos, d);
	else
		ibds_skip(&pos, IBDS_GRH_BYTES);
	ibds_scatter(&pos, rcv->bounce, d->len);
	return ok;
}

static __always_inline bool ibds_ud_store(const struct ibds_rcv *rcv,
					  const struct ibds_rwqe *wqe,
					  const struct ibds_dgram *d)
{
	u8 *dst;
	bool ok;

	if (unlikely(wqe->sge[0].length < IBDS_GRH_BYTES + d->len))
		return ibds_ud_scatter(rcv, wqe, d);

	dst = ibds_va(wqe->sge[0].addr, rcv->phys);
	if (d->grh) {
		ibds_count(rcv->ud_on, rx_grh);
		memcpy(dst, d->grh, IBDS_GRH_BYTES);
	}
	dst += IBDS_GRH_BYTES;
	ok = ibds_ud_fill(dst, d);
	if (!ok && rcv->csum)
		ok = ibds_ud_verify(dst, d->len);
	return ok;
}

/* Put a datagram that passed the checks into the next receive. */
static __always_inline void ibds_ud_accept(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_dgram *d,
					   u16 pkey_index)
{
	const struct ibds_rwqe *wqe;
	struct ibds_cqe *cqe;
	int wc_flags;

	wqe = ibds_rcv_take(rcv);
	if (unlikely(!wqe)) {
		ibds_count(to, drop_no_recv);
		return;
	}
	if (unlikely(wqe->bad)) {
		ibds_count(to, bad_lkey);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_PROT_ERR);
		return;
	}
	if (unlikely(wqe->length < IBDS_GRH_BYTES + d->len)) {
		ibds_count(to, drop_recv_short);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_LEN_ERR);
		return;
	}

	wc_flags = d->wc_flags;
	if (ibds_ud_store(rcv, wqe, d) && rcv->csum)
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

/* Keep a packet for ibds_later_run(). */
static noinline void ibds_ud_later(struct ibds_port *to,
				   const struct ibds_dgram *d,
				   enum ibds_later todo)
{
	bool whole = todo == IBDS_LATER_DATA || todo == IBDS_LATER_MIRROR ||
		     todo == IBDS_LATER_MAD;
	struct ibds_pkt *pkt;

	if (!d->later)
		return;
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

/*
 * Checks of the receiving QP.  Interrupts are disabled.
 *
 * Return: 0, or the violation that the port has to hear of.
 */
static __always_inline int ibds_ud_deliver(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_dgram *d)
{
	int bad = 0;

	spin_lock(&rcv->lock);
	if (unlikely(rcv->ud_on != to)) {
		ibds_count(to, drop_no_qp);
	} else if (unlikely(!ibds_pkey_match(READ_ONCE(to->pkeys[rcv->pkey_index]),
					     d->pkey))) {
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

	hlist_for_each_entry_rcu(at, ibds_mcast_bucket(to, mgid), node) {
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

/**
 * ibds_port_has_gid - is a GRH with this DGID for the port?
 * @port: HCA port
 * @gid: DGID
 *
 * The default subnet prefix is good for any of its GUIDs; IBA vol 1, 4.1.1.
 */
bool ibds_port_has_gid(const struct ibds_port *port, const union ib_gid *gid)
{
	__be64 prefix = gid->global.subnet_prefix;
	union ib_gid own;
	u32 i;

	if (prefix != READ_ONCE(port->gid_prefix) &&
	    prefix != cpu_to_be64(IBDS_LL_PREFIX))
		return false;
	for (i = 0; i < port->dev->caps.gids; i++) {
		ibds_port_gid(port, i, &own);
		if (own.global.interface_id &&
		    own.global.interface_id == gid->global.interface_id)
			return true;
	}
	return false;
}

/* A datagram is at its port: for which QPs?  Interrupts off, RCU read side. */
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

/**
 * ibds_grh_build - GRH of a packet, but for its length
 * @grh: result
 * @path: where to
 * @port: port that sends
 */
void ibds_grh_build(struct ib_grh *grh, const struct ibds_path *path,
		    const struct ibds_port *port)
{
	grh->version_tclass_flow = path->vtf;
	grh->next_hdr = IBDS_GRH_NEXT_BTH;
	grh->hop_limit = path->hop_limit;
	ibds_port_gid(port, path->sgid_index, &grh->sgid);
	grh->dgid = path->dgid;
}

/* One of the ports that get a datagram; also for ibds_route_mc(). */
static void ibds_ud_forward(struct ibds_port *to, void *arg)
{
	const struct ibds_dgram *d = arg;
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

/* To the members on this port, and to those at other ports. */
static noinline void ibds_ud_multicast(struct ibds_port *from, struct ibds_dgram *d)
{
	if (READ_ONCE(from->state) != IB_PORT_ACTIVE) {
		ibds_count(from, drop_port_down);
		return;
	}
	ibds_ud_forward(from, d);
	ibds_route_mc(from, d->dlid, ibds_ud_forward, d);
}

/* Hand a datagram to the wire.  Sends succeed whatever becomes of it. */
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

/* Once for each packet. */
static void ibds_grh_length(struct ib_grh *grh, const struct ibds_dgram *d)
{
	u32 imm = d->wc_flags & IB_WC_WITH_IMM ? sizeof(d->imm) : 0;

	ibds_count(d->from, tx_grh);
	grh->paylen = cpu_to_be16(IBDS_UD_OVERHEAD + imm + ALIGN(d->len, 4));
}

/* Where the TCP header of an LSO template begins; 0 when it is not one. */
static u32 ibds_lso_l4(const u8 *hdr, u32 hlen)
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

/* Make the template @was the header of the segment at @off of the payload. */
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

/* @d is the whole; each segment in turn takes its place. */
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

/* The high bit means: that of the sending QP; IBA vol 1, 10.2. */
static u32 ibds_ud_qkey(const struct ibds_qp *qp, const struct ib_ud_wr *wr)
{
	return (s32)wr->remote_qkey < 0 ? qp->qkey : wr->remote_qkey;
}

/**
 * ibds_ud_send - execute a send of a UD QP
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: takes packets that leave the fast path
 *
 * Return: how it completes.
 */
enum ib_wc_status ibds_ud_send(struct ibds_qp *qp, const struct ib_ud_wr *wr,
			       struct list_head *later)
{
	struct ibds_ah *ah = to_ibds_ah(wr->ah);
	struct ibds_path *path = &ah->path;
	struct ibds_port *port = qp->port;
	s64 len = ibds_send_length(qp, &wr->wr);
	int flags = wr->wr.send_flags;
	bool imm = wr->wr.opcode == IB_WR_SEND_WITH_IMM;
	struct ib_grh grh __uninitialized;
	/* Every field is named, so that nothing is cleared first. */
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
		.solicited = flags & IB_SEND_SOLICITED,
		.pkey = READ_ONCE(port->pkeys[qp->pkey_index]),
		.slid = READ_ONCE(port->lid) + path->path_bits,
		.dlid = path->dlid,
		.wc_flags = (path->grh ? IB_WC_GRH : 0) |
			    (imm ? IB_WC_WITH_IMM : 0),
		.dqpn = wr->remote_qpn,
		.sqpn = qp->ib.qp_num,
		.qkey = ibds_ud_qkey(qp, wr),
		.psn = qp->sq.psn,
	};

	if (unlikely(len < 0)) {
		ibds_count(port, bad_lkey);
		return IB_WC_LOC_PROT_ERR;
	}
	if (unlikely(!ibds_ah_ok(qp, ah)))
		return IB_WC_LOC_QP_OP_ERR;
	if (ibds_post_fails(port, &port->faults.send_error))
		return IB_WC_GENERAL_ERR;
	if (unlikely(!ibds_ud_mc_ok(path, d.dqpn))) {
		ibds_count(port, drop_mc_bad);
		return IB_WC_SUCCESS;
	}

	if (unlikely(wr->wr.opcode == IB_WR_LSO)) {
		if (len > IBDS_MAX_LSO)
			return IB_WC_LOC_LEN_ERR;
		return ibds_ud_send_lso(qp, wr, &d, &grh);
	}

	if (unlikely(len > READ_ONCE(port->mtu_active)))
		return IB_WC_LOC_LEN_ERR;
	qp->sq.psn++;
	if (path->grh) {
		ibds_grh_build(&grh, path, port);
		ibds_grh_length(&grh, &d);
	}
	ibds_ud_emit(port, path, &d);
	return IB_WC_SUCCESS;
}

/* ---- QP0 and QP1 -------------------------------------------------------- */

/**
 * ibds_mad_post - execute a send of QP0 or QP1
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: takes the MAD
 *
 * Return: how it completes.
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

/* Which entry of the port's table lets a P_Key in?  -1: none. */
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
 * takes any P_Key of the port and the well-known Q_Key.
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

static void ibds_later_one(struct ibds_pkt *pkt)
{
	switch (pkt->todo) {
	case IBDS_LATER_MAD:
		ibds_mad_send(pkt->from, pkt);
		return;
	case IBDS_LATER_DATA:
		if (READ_ONCE(pkt->from->faults.armed) ||
		    READ_ONCE(pkt->to->faults.armed)) {
			ibds_fault_send(pkt->from, pkt->to, pkt);
			return;
		}
		ibds_port_receive(pkt->to, pkt);
		break;
	case IBDS_LATER_MIRROR:
		ibds_mirror(pkt->from, pkt, true);
		break;
	case IBDS_LATER_MIRROR_RX:
		ibds_mirror(pkt->to, pkt, false);
		break;
	case IBDS_LATER_BAD_PKEY:
		ibds_port_bad_pkey(pkt->to, pkt);
		break;
	case IBDS_LATER_BAD_QKEY:
		ibds_port_bad_qkey(pkt->to, pkt);
		break;
	}
	ibds_pkt_free(pkt);
}

/**
 * ibds_later_run - do what had to wait until sq.lock is dropped
 * @later: packets, in order; RCU read side since they were put there
 */
void ibds_later_run(struct list_head *later)
{
	struct ibds_pkt *pkt, *next;

	list_for_each_entry_safe(pkt, next, later, list) {
		list_del(&pkt->list);
		ibds_later_one(pkt);
	}
}

/* Whoever sent this wants none of it back. */
static const struct ibds_rcv *ibds_pkt_except(struct ibds_port *port,
					      const struct ibds_pkt *pkt)
{
	struct ibds_rcv *rcv;

	if (pkt->from != port)
		return NULL;
	rcv = ibds_rcv_find(port->dev, pkt->sqpn);
	return rcv && rcv->block_loopback ? rcv : NULL;
}

static int ibds_pkt_arrive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	bool imm = pkt->opcode == IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE;
	bool rc = pkt->opcode == IB_OPCODE_RC_SEND_ONLY ||
		  pkt->opcode == IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE;
	struct ib_sge sge = {
		.addr = (uintptr_t)pkt->data,
		.length = pkt->len,
	};
	struct ibds_dgram d = {
		.from = pkt->from,
		.except = ibds_pkt_except(port, pkt),
		.grh = pkt->grh_valid ? &pkt->grh : NULL,
		.src.sge = &sge,
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

	if (!imm && !rc && pkt->opcode != IB_OPCODE_UD_SEND_ONLY) {
		ibds_count(port, drop_malformed);
		return 0;
	}
	if (ibds_wedged(port, pkt->dqpn <= 1)) {
		ibds_count(port, drop_wedged);
		return 0;
	}
	if (pkt->dqpn <= 1)
		return ibds_mad_arrive(port, &d);
	if (READ_ONCE(port->state) != IB_PORT_ACTIVE) {
		ibds_count(port, drop_port_down);
		return 0;
	}
	if (rc) {
		ibds_rc_arrive(port, pkt);
		return 0;
	}
	if (pkt->dqpn == IBDS_QPN_MULTICAST && !pkt->grh_valid) {
		ibds_count(port, drop_mc_bad);
		return 0;
	}
	return ibds_ud_arrive(port, &d);
}

/**
 * ibds_port_receive - a packet from outside the fast path is at its port
 * @port: HCA port
 * @pkt: packet, not kept
 *
 * Context: any, RCU read side or not.
 */
void ibds_port_receive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	unsigned long flags;
	int bad;

	if (READ_ONCE(port->mirror))
		ibds_mirror(port, pkt, false);

	rcu_read_lock();
	/* The locks further down are taken with plain spin_lock(). */
	spin_lock_irqsave(&port->arrivals, flags);
	bad = ibds_pkt_arrive(port, pkt);
	spin_unlock_irqrestore(&port->arrivals, flags);
	rcu_read_unlock();

	if (bad == IBDS_LATER_BAD_PKEY)
		ibds_port_bad_pkey(port, pkt);
	else if (bad == IBDS_LATER_BAD_QKEY)
		ibds_port_bad_qkey(port, pkt);
}
