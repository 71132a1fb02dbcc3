/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One decision for a packet: what its destination takes of it, and what is to
 * be done to it first
 *
 * ndo_features_check asks to tell the stack what to leave to the driver; the
 * engines ask again when they send, under the lock that makes the answer
 * stick, since mode, neighbour and connection may have changed in between.
 * ipoib_fit() knows neither a device nor an skb: the unit tests and the fuzzer
 * run it in user space.  ipoib_offload.c describes packets to it.
 */
#ifndef IPOIB_FIT_H
#define IPOIB_FIT_H

#include <linux/bits.h>
#include <linux/skbuff.h>
#include <linux/types.h>

#include "ipoib_proto.h"

#define IPOIB_TSO_HDR	128	/* encapsulation, IP and TCP at most */
/*
 * The HCA is not asked to make shorter segments, as no API tells its limit.  This
 * is TCP_MIN_MSS: only odd peers, options and untrusted packets come to less.
 */
#define IPOIB_LSO_SIZE_MIN	88

/**
 * enum ipoib_fit - what has to be done to a packet; bits, 0: nothing
 * @IPOIB_FIT_CSUM_HCA: the HCA makes the transport checksum
 * @IPOIB_FIT_PEER: the peer makes it, and cuts the packet if need be;
 *	immediate data says so
 * @IPOIB_FIT_LSO: the HCA cuts it, and makes the checksums
 * @IPOIB_FIT_TSO: ipoib_tso_send() cuts it, and makes them
 * @IPOIB_FIT_CSUM: not before the checksum was made in software
 * @IPOIB_FIT_REPACK: not before its pieces are fewer
 * @IPOIB_FIT_SEGMENT: not before the stack's code has cut it
 * @IPOIB_FIT_TOO_LONG: never: the sender has to make shorter ones
 */
enum ipoib_fit {
	IPOIB_FIT_CSUM_HCA	= BIT(0),
	IPOIB_FIT_PEER		= BIT(1),
	IPOIB_FIT_LSO		= BIT(2),
	IPOIB_FIT_TSO		= BIT(3),
	IPOIB_FIT_CSUM		= BIT(4),
	IPOIB_FIT_REPACK	= BIT(5),
	IPOIB_FIT_SEGMENT	= BIT(6),
	IPOIB_FIT_TOO_LONG	= BIT(7),
};

/* It can't be sent as it is. */
#define IPOIB_FIT_NOT_YET	(IPOIB_FIT_CSUM | IPOIB_FIT_REPACK | \
				 IPOIB_FIT_SEGMENT | IPOIB_FIT_TOO_LONG)

/**
 * struct ipoib_fit_packet - what matters of a packet
 * @len: bytes, with the encapsulation
 * @pieces: behind its linear part
 * @gso_type: SKB_GSO_* as the stack set it; means nothing without @gso_size.
 *	The number of segments that the stack noted is not used: untrusted
 *	packets come without
 * @gso_size: bytes of payload in each segment, 0 if it is not to be cut
 * @partial: the transport checksum is missing
 * @hca_csum: and is where an HCA that knows IPv4, TCP and UDP looks for it
 * @shared: others may write to its pieces (sendfile(), MSG_ZEROCOPY)
 * @ipv6: network protocol, if @t is known
 * @t: transport header, without the encapsulation.  Its proto is 0 unless it is
 *	TCP or UDP right behind the IP header, in the linear part, its checksum
 *	is what is missing, and all that the stack noted agrees: so not for
 *	extension headers, fragments and tunnels
 */
struct ipoib_fit_packet {
	u32 len;
	u32 pieces;
	u32 gso_type;
	u32 gso_size;
	bool partial;
	bool hca_csum;
	bool shared;
	bool ipv6;
	struct ipoib_transport t;
};

/**
 * struct ipoib_fit_dest - what a destination takes
 * @rc: by a connection, else as datagrams
 * @max_len: longest message, with the encapsulation
 * @max_sge: pieces that the HCA gathers, the linear part included
 * @repack: the engine copies a packet to pieces that are few enough
 * @csum: datagrams: the HCA makes checksums of TCP and UDP over IPv4
 * @lso: datagrams: the HCA cuts TCP over IPv4
 * @segs: datagrams: segments that a packet cut here may have
 * @caps: connections: IPOIB_CM_CAP_* of the peer
 */
struct ipoib_fit_dest {
	bool rc;
	u32 max_len;
	u32 max_sge;
	bool repack;
	bool csum;
	bool lso;
	u32 segs;
	u32 caps;
};

/**
 * ipoib_fit_is_plain - is a packet not to be cut, short, and of few pieces?
 * @len: bytes, with the encapsulation
 * @pieces: behind the linear part
 * @gso_size: bytes of payload in each segment, or 0
 * @max_len: longest message
 * @max_sge: pieces that the HCA gathers
 *
 * All that is left to ask is who makes its checksum.
 */
static inline bool ipoib_fit_is_plain(u32 len, u32 pieces, u32 gso_size,
				      u32 max_len, u32 max_sge)
{
	return likely(!gso_size && len <= max_len && pieces < max_sge);
}

/**
 * ipoib_fit_hca_csum - does an HCA find where the checksum is missing?
 * @proto: Ethertype
 * @ip: what follows the encapsulation
 * @start: bytes of it before the transport header
 *
 * It looks for TCP and UDP behind IPv4's header by itself.
 */
static inline bool ipoib_fit_hca_csum(__be16 proto, const void *ip, u32 start)
{
	const struct iphdr *ip4 = ip;

	return proto == htons(ETH_P_IP) && start == ip4->ihl * 4U &&
	       (ip4->protocol == IPPROTO_TCP || ip4->protocol == IPPROTO_UDP);
}

u32 ipoib_fit(const struct ipoib_fit_packet *p, const struct ipoib_fit_dest *d);
u32 ipoib_fit_imm(const struct ipoib_fit_packet *p);

#endif /* IPOIB_FIT_H */
