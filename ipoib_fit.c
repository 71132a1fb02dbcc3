// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a packet can be sent, see ipoib_fit.h
 *
 * Who can segment a packet, by its GSO type:
 *
 *	TCPV4		the HCA, unless segments are very short, the driver or
 *			the peer
 *	TCPV6		the driver or the peer
 *	UDP_L4		the peer
 *	TCP_ECN		with TCP: the peer, which sets CWR in the first segment
 *			only; the HCA and the driver would repeat it
 *	DODGY		no difference: only the packet's headers are trusted
 *
 * The driver computes the checksums that the HCA does not, and the HCA reads
 * the data later.  If others may write to it in between, the stack segments:
 * then skb_checksum_help() copies each segment first.
 *
 * All other types (tunnels, fixed IP IDs, accurate ECN, fragment lists, future
 * ones) and packets other than plain IP with TCP or UDP are left to the stack.
 */
#include <linux/math.h>

#include "ipoib_fit.h"
#include "ipoib_proto.h"

/* Bytes after the transport header. */
static u32 ipoib_fit_payload(const struct ipoib_fit_packet *p)
{
	return p->len - IPOIB_ENCAP_LEN - p->t.end;
}

/* Length of a segment, with its headers. */
static u32 ipoib_fit_seg_len(const struct ipoib_fit_packet *p)
{
	return IPOIB_ENCAP_LEN + p->t.end + p->gso_size;
}

/* True if the headers match the type and there is something to segment. */
static bool ipoib_fit_knows_gso(const struct ipoib_fit_packet *p)
{
	bool tcp = p->t.proto == IPPROTO_TCP;

	if (!p->partial || !p->t.proto || ipoib_fit_payload(p) <= p->gso_size)
		return false;
	switch (p->gso_type & ~(SKB_GSO_DODGY | SKB_GSO_TCP_ECN)) {
	case SKB_GSO_TCPV4:
		return tcp && !p->ipv6;
	case SKB_GSO_TCPV6:
		return tcp && p->ipv6;
	case SKB_GSO_UDP_L4:
		return !tcp && !(p->gso_type & SKB_GSO_TCP_ECN);
	default:
		return false;
	}
}

/* True if the driver can segment it; not if shared data needs its checksum. */
static bool ipoib_fit_tso(const struct ipoib_fit_packet *p,
			  const struct ipoib_fit_dest *d)
{
	if (p->shared && (p->ipv6 || !d->csum))
		return false;
	/* SGEs: a header, the rest of the linear part, the fragments */
	return p->pieces + 2 <= d->max_sge &&
	       DIV_ROUND_UP(ipoib_fit_payload(p), p->gso_size) <= d->segs &&
	       IPOIB_ENCAP_LEN + p->t.end <= IPOIB_TSO_HDR;
}

static u32 ipoib_fit_ud_gso(const struct ipoib_fit_packet *p,
			    const struct ipoib_fit_dest *d)
{
	if (p->t.proto != IPPROTO_TCP || p->gso_type & SKB_GSO_TCP_ECN)
		return IPOIB_FIT_SEGMENT;
	if (d->lso && !p->ipv6 && p->pieces < d->max_sge &&
	    p->gso_size >= IPOIB_LSO_SIZE_MIN)
		return IPOIB_FIT_LSO;
	return ipoib_fit_tso(p, d) ? IPOIB_FIT_TSO : IPOIB_FIT_SEGMENT;
}

static u32 ipoib_fit_rc_gso(const struct ipoib_fit_packet *p,
			    const struct ipoib_fit_dest *d)
{
	bool many = p->pieces >= d->max_sge;

	/* Don't send what the peer would reject. */
	if (p->len > d->max_len || (many && !d->repack) ||
	    ipoib_imm_check(ipoib_fit_imm(p), d->caps, &p->t,
			    p->len - IPOIB_ENCAP_LEN))
		return IPOIB_FIT_SEGMENT;
	return IPOIB_FIT_PEER | (many ? IPOIB_FIT_REPACK : 0);
}

/* Who computes the checksum of a packet that needs no segmentation? */
static u32 ipoib_fit_csum(const struct ipoib_fit_packet *p,
			  const struct ipoib_fit_dest *d)
{
	if (!p->partial)
		return 0;
	if (d->rc && d->caps & IPOIB_CM_CAP_NO_CSUM && p->t.proto)
		return IPOIB_FIT_PEER;
	if (!d->rc && d->csum && p->hca_csum)
		return IPOIB_FIT_CSUM_HCA;
	return IPOIB_FIT_CSUM;
}

/**
 * ipoib_fit - what must be done to a packet before its destination takes it
 * @p: packet
 * @d: destination
 *
 * Context: any.  The result is valid only while @d cannot change: under the TX
 * lock for datagrams, under the link's lock for a connection.
 *
 * Return: bits of enum ipoib_fit.  If one of IPOIB_FIT_NOT_YET is set, do that
 *	first and call this again
 */
u32 ipoib_fit(const struct ipoib_fit_packet *p, const struct ipoib_fit_dest *d)
{
	if (!p->gso_size) {
		if (p->len > d->max_len)
			return IPOIB_FIT_TOO_LONG;
		return ipoib_fit_csum(p, d) |
		       (p->pieces < d->max_sge ? 0 : IPOIB_FIT_REPACK);
	}
	if (!ipoib_fit_knows_gso(p))
		return IPOIB_FIT_SEGMENT;
	if (ipoib_fit_seg_len(p) > d->max_len)
		return IPOIB_FIT_TOO_LONG;
	return d->rc ? ipoib_fit_rc_gso(p, d) : ipoib_fit_ud_gso(p, d);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_fit);

/**
 * ipoib_fit_imm - immediate data that tells the peer to finish a packet
 * @p: packet for which ipoib_fit() returned IPOIB_FIT_PEER
 * Return: immediate data, host order
 */
u32 ipoib_fit_imm(const struct ipoib_fit_packet *p)
{
	u32 imm = IPOIB_IMM_CSUM;

	if (!p->gso_size)
		return imm;
	if (p->gso_type & SKB_GSO_TCP_ECN)
		imm |= IPOIB_IMM_ECN;
	return imm | IPOIB_IMM_GSO | (p->gso_size & IPOIB_IMM_SIZE);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_fit_imm);
