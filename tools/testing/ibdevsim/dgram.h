/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_DGRAM_H
#define IBDEVSIM_DGRAM_H

#include "datapath.h"
#include "sge.h"

/* IPoIB encapsulation header, RFC 4391, 6: EtherType and two zero bytes. */
#define IBDS_IPOIB_HLEN		4

/**
 * enum ibds_fill - how the bytes of a datagram are produced
 * @IBDS_FILL_PLAIN: copied unchanged
 * @IBDS_FILL_CSUM: with IPv4, TCP and UDP checksums
 * @IBDS_FILL_SEGMENT: separate header, payload, TCP checksum
 */
enum ibds_fill {
	IBDS_FILL_PLAIN,
	IBDS_FILL_CSUM,
	IBDS_FILL_SEGMENT,
};

/**
 * struct ibds_segment - the header of an LSO segment
 * @hdr: complete except for the TCP checksum
 * @hlen: bytes in @hdr
 * @l4: offset of the TCP header in @hdr
 */
struct ibds_segment {
	const u8 *hdr;
	u32 hlen;
	u32 l4;
};

/**
 * struct ibds_dgram - a datagram in flight
 * @from: port that sends it
 * @later: list for packets that leave the fast path
 * @except: receive side that does not get it (loopback blocked)
 * @grh: GRH or NULL
 * @seg: with %IBDS_FILL_SEGMENT: header before the payload
 * @src: payload
 * @len: bytes, LSO header included
 * @fill: enum ibds_fill
 * @csum_ok: checksums are known to be right
 * @csum_v6: with %IBDS_FILL_CSUM: of IPv6, too
 * @solicited: the receiver's event is solicited
 * @wc_flags: of the receive completion: IB_WC_GRH, IB_WC_WITH_IMM
 * @sl: service level
 * @imm: immediate data
 * @slid: source LID
 * @dlid: destination LID
 * @pkey: P_Key
 * @dqpn: destination QP
 * @sqpn: source QP
 * @qkey: Q_Key
 * @psn: for the mirror only
 * @stamp: count of ibds_phc_count() when it crossed the wire, 0: not read
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
	bool csum_v6;
	bool solicited;
	u16 pkey;
	u16 slid;
	u16 dlid;
	u16 wc_flags;
	u32 dqpn;
	u32 sqpn;
	u32 qkey;
	u32 psn;
	u64 stamp;
};

bool ibds_fill_pieces(u8 *dst, const struct ibds_dgram *d);
bool ibds_fill_csum(u8 *dst, const struct ibds_dgram *d);
bool ibds_fill_segment(u8 *dst, const struct ibds_dgram *d);
bool ibds_ud_verify(u8 *pkt, u32 len);

/* Write a datagram to @dst.  Return: true if its checksums are known right. */
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

#endif /* IBDEVSIM_DGRAM_H */
