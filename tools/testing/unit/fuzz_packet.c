// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzzer: a packet from its sender's decision to its receiver's check
 *
 * The input is a few bytes that describe stack, HCA and peer, and a packet.
 * A sender describes the packet and decides about it as ipoib_skb.c does; a
 * peer must accept packets sent to it, and find the same in them.  Arbitrary
 * immediate data on any packet is refused, or limited in its effect.
 */
#include <stdint.h>

#include "ipoib_fit.h"

struct fuzz_input {
	u8 flags;
	u8 pieces;
	u8 max_sge;
	u8 caps;
	u8 headlen;
	u8 csum_offset;
	u16 csum_start;
	u16 gso_size;
	u16 max_len;
	u16 more;
	u32 gso_type;
	u32 imm;
} __packed;

enum {
	FUZZ_IPV6	= BIT(0),
	FUZZ_RC		= BIT(1),
	FUZZ_PARTIAL	= BIT(2),
	FUZZ_CSUM	= BIT(3),
	FUZZ_LSO	= BIT(4),
	FUZZ_AS_STACK	= BIT(5),	/* the stack's metadata is right */
	FUZZ_DECENT	= BIT(6),	/* plausible headers */
	FUZZ_UDP	= BIT(7),
	/* In the field caps, beside IPOIB_CM_CAPS */
	FUZZ_SHARED	= BIT(7),
};

const char *__asan_default_options(void);

/* Leak detection needs ptrace. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

#define FUZZ_CHECK(x)	do { if (!(x)) __builtin_trap(); } while (0)

static __be16 fuzz_proto(const struct fuzz_input *in)
{
	return in->flags & FUZZ_IPV6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
}

/* Most random packets fail the first check: make the headers plausible. */
static void fuzz_make_decent(struct fuzz_input *in, u8 *pkt, u32 headlen)
{
	bool ipv6 = in->flags & FUZZ_IPV6, udp = in->flags & FUZZ_UDP;
	u32 start;

	if (headlen < sizeof(struct ipv6hdr))
		return;
	pkt[0] = ipv6 ? 0x60 : 0x40 | max(pkt[0] & 15, 5);
	start = ipv6 ? sizeof(struct ipv6hdr) : (pkt[0] & 15) * 4;
	if (!ipv6) {
		pkt[6] &= 0x40;
		pkt[7] = 0;
	}
	pkt[ipv6 ? 6 : 9] = udp ? IPPROTO_UDP : IPPROTO_TCP;
	if (start + 12 < headlen)
		pkt[start + 12] |= 0x50;
	in->max_len = max_t(u16, in->max_len, 2048);
	in->gso_type &= SKB_GSO_DODGY | SKB_GSO_TCP_ECN;
	in->gso_type |= udp ? SKB_GSO_UDP_L4 :
			ipv6 ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4;
}

/* As ipoib_skb_describe() does; @pkt has @headlen bytes. */
static void fuzz_describe(const struct fuzz_input *in, const u8 *pkt,
			  u32 headlen, u32 len, struct ipoib_fit_packet *p)
{
	u32 start = in->csum_start, offset = in->csum_offset;

	*p = (struct ipoib_fit_packet){
		.len = len + IPOIB_ENCAP_LEN,
		.pieces = in->pieces,
		.gso_type = in->gso_type,
		.gso_size = in->gso_size,
		.partial = in->flags & FUZZ_PARTIAL,
		.shared = in->caps & FUZZ_SHARED,
	};
	if (!p->partial || headlen < sizeof(struct iphdr))
		return;
	p->ipv6 = in->flags & FUZZ_IPV6;
	p->hca_csum = ipoib_fit_hca_csum(fuzz_proto(in), pkt, start);
	if (ipoib_transport_parse(&p->t, fuzz_proto(in), pkt, headlen)) {
		p->t.proto = 0;
		return;
	}
	FUZZ_CHECK(p->t.end <= headlen && p->t.csum + 2 <= p->t.end);
	if (!(in->flags & FUZZ_AS_STACK) &&
	    (p->t.start != start || p->t.csum != start + offset))
		p->t.proto = 0;
}

/* Check a packet of @len bytes, @headlen of them linear, as a receiver does. */
static void fuzz_receive(const struct fuzz_input *in, u32 imm, u32 caps,
			 const u8 *pkt, u32 headlen, u32 len, bool sent)
{
	struct ipoib_transport t;
	u32 size = imm & IPOIB_IMM_SIZE;

#ifdef FUZZ_DEFECT
	headlen = min(headlen, 60U);
#endif
	if (ipoib_transport_parse(&t, fuzz_proto(in), pkt, headlen) ||
	    ipoib_imm_check(imm, caps, &t, len)) {
		FUZZ_CHECK(!sent);
		return;
	}
	FUZZ_CHECK(caps & IPOIB_CM_CAP_NO_CSUM && imm & IPOIB_IMM_CSUM);
	FUZZ_CHECK(t.csum + 2 <= t.end && t.end <= headlen && t.end <= len);
	if (!(imm & IPOIB_IMM_GSO))
		return;
	FUZZ_CHECK(caps & IPOIB_CM_CAP_GSO && size && len > t.end + size);
	FUZZ_CHECK(DIV_ROUND_UP(len - t.end, size) <=
		   (t.proto == IPPROTO_UDP ? 128U : DIV_ROUND_UP(65520U, 88)));
}

static void fuzz_send(const struct fuzz_input *in, const u8 *pkt, u32 headlen,
		      u32 len)
{
	struct ipoib_fit_packet p;
	struct ipoib_fit_dest d = {
		.rc = in->flags & FUZZ_RC,
		.max_len = in->max_len,
		.max_sge = in->max_sge,
		.repack = in->max_sge >= 3,
		.csum = in->flags & FUZZ_CSUM,
		.lso = in->flags & FUZZ_LSO,
		.segs = 42,
		.caps = in->caps & IPOIB_CM_CAPS,
	};
	u32 fit;

	fuzz_describe(in, pkt, headlen, len, &p);
	fit = ipoib_fit(&p, &d);
	FUZZ_CHECK(d.rc || !(fit & IPOIB_FIT_PEER));
	if (fit & (IPOIB_FIT_LSO | IPOIB_FIT_TSO))
		FUZZ_CHECK(!d.rc && p.t.proto == IPPROTO_TCP &&
			   p.t.end <= headlen && len > p.t.end);
	if (fit & IPOIB_FIT_LSO)
		FUZZ_CHECK(p.gso_size >= 88);
	if (fit & IPOIB_FIT_TSO)
		FUZZ_CHECK(p.t.end + IPOIB_ENCAP_LEN <= IPOIB_TSO_HDR &&
			   !(p.shared && (p.ipv6 || !d.csum)));
	if (!(fit & IPOIB_FIT_NOT_YET) &&
	    !(fit & (IPOIB_FIT_LSO | IPOIB_FIT_TSO)))
		FUZZ_CHECK(p.len <= d.max_len);
	if (fit & IPOIB_FIT_PEER)
		fuzz_receive(in, ipoib_fit_imm(&p), d.caps, pkt, headlen, len,
			     true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	u32 headlen, len;
	struct fuzz_input in;
	u8 *pkt;

	if (size <= sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	data += sizeof(in);
	headlen = min_t(u32, size - sizeof(in), in.headlen + 1U);
	/* More follows in pieces, up to the longest message. */
	len = min(headlen + in.more, (u32)IPOIB_CM_MTU);
	/* It ends where its memory ends, to detect overruns. */
	pkt = malloc(headlen);
	FUZZ_CHECK(pkt);
	memcpy(pkt, data, headlen);
	if (in.flags & FUZZ_DECENT)
		fuzz_make_decent(&in, pkt, headlen);
	fuzz_send(&in, pkt, headlen, len);
	fuzz_receive(&in, in.imm, in.caps, pkt, headlen, len, false);
	ipoib_pkt_lladdr(in.flags & FUZZ_RC ? htons(ETH_P_ARP) : fuzz_proto(&in),
			pkt, headlen);
	ipoib_is_probe(fuzz_proto(&in), pkt, headlen);
	free(pkt);
	return 0;
}
