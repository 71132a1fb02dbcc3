/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a packet can be sent: what its destination takes, and what must be done
 * to the packet first
 *
 * ndo_features_check uses it to tell the stack what to leave to the driver; the
 * send paths use it again under the lock that keeps the result valid, since
 * mode, neighbour and connection may have changed in between.  ipoib_fit()
 * depends on neither a device nor an skb, so that unit tests and the fuzzer run
 * it in user space.  ipoib_skb.c describes packets to it.
 */
#ifndef IPOIB_FIT_H
#define IPOIB_FIT_H

#include <linux/bits.h>
#include <linux/ip.h>
#include <linux/skbuff.h>
#include <linux/types.h>

#include "ipoib_proto.h"

#define IPOIB_TSO_HDR	128	/* encapsulation, IP and TCP at most */
/*
 * Shorter segments are not left to the HCA, as no API reports its limit.  This
 * is TCP_MIN_MSS: only odd peers, options and untrusted packets come to less.
 */
#define IPOIB_LSO_SIZE_MIN	88

/**
 * enum ipoib_fit - what must be done to a packet; bits, 0: nothing
 * @IPOIB_FIT_CSUM_HCA: the HCA computes the transport checksum
 * @IPOIB_FIT_PEER: the peer computes it, and segments the packet if needed;
 *	immediate data says so
 * @IPOIB_FIT_LSO: the HCA segments it and computes the checksums
 * @IPOIB_FIT_TSO: ipoib_tso_send() segments it, and computes them
 * @IPOIB_FIT_CSUM: the checksum must be computed in software first
 * @IPOIB_FIT_REPACK: its fragments must become fewer first
 * @IPOIB_FIT_SEGMENT: the stack's code must segment it first
 * @IPOIB_FIT_TOO_LONG: never: the sender must make shorter ones
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

/* Can't be sent as it is. */
#define IPOIB_FIT_NOT_YET	(IPOIB_FIT_CSUM | IPOIB_FIT_REPACK | \
				 IPOIB_FIT_SEGMENT | IPOIB_FIT_TOO_LONG)

/**
 * struct ipoib_fit_packet - what is relevant about a packet
 * @len: bytes, with the encapsulation
 * @pieces: fragments, besides the linear part
 * @gso_type: SKB_GSO_* as the stack set it; meaningless without @gso_size.
 *	The stack's number of segments is not used: untrusted packets come
 *	without it
 * @gso_size: bytes of payload in each segment, 0 if not to be segmented
 * @partial: the transport checksum is missing
 * @hca_csum: and is where an HCA that knows IPv4, TCP and UDP looks for it
 * @shared: others may write to its fragments (sendfile(), MSG_ZEROCOPY)
 * @ipv6: network protocol, if @t is known
 * @t: transport header, without the encapsulation.  Its proto is 0 unless TCP
 *	or UDP follows the IP header directly, in the linear part, its checksum
 *	is the one that is missing, and the skb's other fields agree: so not for
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
 * @rc: sent on a connection, else as datagrams
 * @max_len: longest message, with the encapsulation
 * @max_sge: SGEs that the HCA gathers, the linear part included
 * @repack: the send path can copy a packet to few enough fragments
 * @csum: datagrams: the HCA computes checksums of TCP and UDP over IPv4
 * @lso: datagrams: the HCA segments TCP over IPv4
 * @segs: datagrams: segments that a packet segmented by the driver may have
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
 * ipoib_fit_is_plain - is a packet unsegmented, short, and of few fragments?
 * @len: bytes, with the encapsulation
 * @pieces: fragments, besides the linear part
 * @gso_size: bytes of payload in each segment, or 0
 * @max_len: longest message
 * @max_sge: SGEs that the HCA gathers
 *
 * Then only its checksum is left to decide.
 */
static inline bool ipoib_fit_is_plain(u32 len, u32 pieces, u32 gso_size,
				      u32 max_len, u32 max_sge)
{
	return likely(!gso_size && len <= max_len && pieces < max_sge);
}

/**
 * ipoib_fit_hca_csum - does an HCA find the checksum that is missing?
 * @proto: Ethertype
 * @ip: IP header
 * @start: offset of the transport header from @ip
 *
 * The HCA parses the packet itself, for TCP and UDP after an IPv4 header.
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
