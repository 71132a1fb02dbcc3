/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Formats fixed by standards: addresses, P_Keys, headers, private data
 *
 * This and ipoib_proto.c depend on no device: the unit tests, ipoib_test.c, run
 * both in user space and in the kernel.  The fast path is inline, the rest is
 * in ipoib_proto.c.
 *
 * RFC 4391 sections 4 (multicast), 6 (encapsulation) and 9 (link-layer
 * address), RFC 4755 section 6 (private data); IBA volume 1 section 10.9
 * (P_Keys).
 */
#ifndef IPOIB_PROTO_H
#define IPOIB_PROTO_H

#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_infiniband.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/math.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <net/ndisc.h>
#include <rdma/ib_verbs.h>

#define IPOIB_ENCAP_LEN		4
#define IPOIB_HARD_LEN		(INFINIBAND_ALEN + IPOIB_ENCAP_LEN)

/* The unit tests may be a separate module. */
#if IS_MODULE(CONFIG_INFINIBAND_IPOIB_KUNIT_TEST) && !defined(IPOIB_INTEROP)
#define EXPORT_SYMBOL_FOR_IPOIB_TEST(symbol)	EXPORT_SYMBOL_GPL(symbol)
#else
#define EXPORT_SYMBOL_FOR_IPOIB_TEST(symbol)
#endif

/* ---- P_Keys (IBA volume 1 section 10.9.1) ------------------------------- */

#define IPOIB_PKEY_FULL		0x8000	/* full membership bit */

/* The P_Key with full membership, the only one for the broadcast group. */
static inline u16 ipoib_pkey_full(u16 pkey)
{
	return pkey | IPOIB_PKEY_FULL;
}

/* False for an empty table entry. */
static inline bool ipoib_pkey_valid(u16 pkey)
{
	return pkey & ~IPOIB_PKEY_FULL;
}

int ipoib_pkey_parse(const char *text, u16 *number);

/* ---- encapsulation (RFC 4391 section 6) --------------------------------- */

/**
 * struct ipoib_encap - encapsulation header
 * @proto: Ethertype
 * @reserved: sent as zero, ignored on receipt
 */
struct ipoib_encap {
	__be16 proto;
	__be16 reserved;
};

/* Ethertypes to send: those of the RFC, and TIPC as deployed peers do. */
static inline bool ipoib_proto_ok(__be16 proto)
{
	return proto == htons(ETH_P_IP) || proto == htons(ETH_P_IPV6) ||
	       proto == htons(ETH_P_ARP) || proto == htons(ETH_P_RARP) ||
	       proto == htons(ETH_P_TIPC);
}

/* Fill the header that the stack puts before a packet: IPOIB_HARD_LEN bytes. */
static inline void ipoib_header_fill(void *hdr, const void *daddr,
				     __be16 proto)
{
	struct ipoib_encap *encap = hdr + INFINIBAND_ALEN;

	memcpy(hdr, daddr, INFINIBAND_ALEN);
	encap->proto = proto;
	encap->reserved = 0;
}

/**
 * ipoib_ud_mtu - IP MTU of a datagram link
 * @mtu: its InfiniBand MTU, from a port or the broadcast group
 * Return: bytes, or -EINVAL if there is no such MTU
 */
static inline int ipoib_ud_mtu(u8 mtu)
{
	int bytes = ib_mtu_enum_to_int(mtu);

	return bytes < 0 ? -EINVAL : bytes - IPOIB_ENCAP_LEN;
}

/* ---- link-layer address (RFC 4391 section 9.1.1) ------------------------ */

/*
 * A flags byte, a 24-bit QPN, the port's GID.  It may be unaligned in packets,
 * hence the accessors.
 */
#define IPOIB_QPN_MASK		0xffffff
#define IPOIB_ADDR_RC		0x80	/* accepts connections (RFC 4755) */

extern const u8 ipoib_broadcast[INFINIBAND_ALEN];

static inline u32 ipoib_addr_qpn(const u8 *addr)
{
	return get_unaligned_be32(addr) & IPOIB_QPN_MASK;
}

static inline void ipoib_addr_gid(const u8 *addr, union ib_gid *gid)
{
	memcpy(gid->raw, addr + 4, sizeof(gid->raw));
}

static inline __be64 ipoib_addr_guid(const u8 *addr)
{
	return get_unaligned((const __be64 *)(addr + 12));
}

static inline bool ipoib_addr_is_multicast(const u8 *addr)
{
	return addr[4] == 0xff;
}

/* Does the owner of a unicast address accept reliable connections? */
static inline bool ipoib_addr_is_rc(const u8 *addr)
{
	return addr[0] & IPOIB_ADDR_RC;
}

/* An interface's own address. */
static inline void ipoib_addr_fill(u8 *addr, u32 qpn, const union ib_gid *gid,
				   bool rc)
{
	put_unaligned_be32(qpn & IPOIB_QPN_MASK, addr);
	if (rc)
		addr[0] |= IPOIB_ADDR_RC;
	memcpy(addr + 4, gid->raw, sizeof(gid->raw));
}

/* Set the P_Key of a multicast address. */
static inline void ipoib_addr_set_pkey(u8 *addr, u16 pkey)
{
	put_unaligned_be16(pkey, addr + 8);
}

/**
 * ipoib_addr_mgid - MGID of a multicast address on a link
 * @addr: address as the stack mapped it
 * @broadcast: the link's broadcast address, which has the link's scope
 * @pkey: the link's P_Key
 * @mgid: result
 *
 * The stack may have mapped the address before the P_Key changed, so P_Key
 * and scope are always taken from the link (RFC 4391 section 4).
 */
static inline void ipoib_addr_mgid(const u8 *addr, const u8 *broadcast,
				   u16 pkey, union ib_gid *mgid)
{
	memcpy(mgid->raw, addr + 4, sizeof(mgid->raw));
	mgid->raw[1] = (mgid->raw[1] & 0xf0) | (broadcast[5] & 0xf);
	put_unaligned_be16(pkey, &mgid->raw[4]);
}

/* The signature of IPv6's groups in an MGID, RFC 4391 section 4 */
#define IPOIB_MGID_IPV6	0x601b

/**
 * ipoib_mgid_is_solicited - is it the group of a solicited-node address?
 * @mgid: MGID of an IPv6 group
 *
 * RFC 4291 section 2.7.1: ff02::1:ff00:0/104, of which the MGID has the last
 * 80 bits (RFC 4391 section 4).
 */
static inline bool ipoib_mgid_is_solicited(const union ib_gid *mgid)
{
	return get_unaligned_be16(&mgid->raw[2]) == IPOIB_MGID_IPV6 &&
	       !get_unaligned_be32(&mgid->raw[6]) &&
	       get_unaligned_be32(&mgid->raw[9]) == 0x1ff;
}

/* XOR of both halves of a 128-bit product. */
static inline u64 ipoib_hash_mix(u64 a, u64 b)
{
	return a * b ^ mul_u64_u64_shr(a, b, 64);
}

/* Set to random values when the module is loaded. */
extern u64 ipoib_hash_key[3];

/*
 * Peers choose addresses, so every byte counts, and nobody can construct
 * collisions without knowing the keys.  Tables use the low bits.
 */
static inline u32 ipoib_addr_hash(const void *addr, u32 seed)
{
	u64 prefix = get_unaligned((const u64 *)(addr + 4));
	u64 guid = get_unaligned((const u64 *)(addr + 12));
	u64 x = ipoib_hash_mix(prefix ^ ipoib_hash_key[0],
			       guid ^ ipoib_hash_key[1]);

	x ^= get_unaligned((const u32 *)addr) ^ (u64)seed << 32;
	return ipoib_hash_mix(x, ipoib_hash_key[2]);
}

/* The queue of @num for packets to a neighbour, where it must be only one. */
static inline u32 ipoib_addr_queue(const u8 *addr, u32 num)
{
	return reciprocal_scale(ipoib_addr_hash(addr, 0), num);
}

static inline bool ipoib_addr_equal(const u8 *a, const u8 *b)
{
	return !((get_unaligned((const u64 *)(a + 12)) ^
		  get_unaligned((const u64 *)(b + 12))) |
		 (get_unaligned((const u64 *)(a + 4)) ^
		  get_unaligned((const u64 *)(b + 4))) |
		 (get_unaligned((const u32 *)a) ^
		  get_unaligned((const u32 *)b)));
}

/* ---- ARP and neighbour discovery (RFC 4391 section 9) ------------------- */

/* May a packet (without encapsulation) contain its sender's address? */
static inline bool ipoib_may_tell_addr(__be16 proto, const void *pkt, u32 len)
{
	const struct ipv6hdr *ip6 = pkt;

	if (proto == htons(ETH_P_ARP))
		return true;
	return proto == htons(ETH_P_IPV6) && len >= sizeof(*ip6) &&
	       unlikely(ip6->nexthdr == IPPROTO_ICMPV6);
}

const u8 *ipoib_pkt_lladdr(__be16 proto, const void *pkt, u32 len);

/* Is a packet ARP with this operation, or neighbour discovery of this type? */
static inline bool ipoib_is_neigh_pkt(__be16 proto, const void *pkt, u32 len,
				      u16 op, u8 type)
{
	const struct ipv6hdr *ip6 = pkt;

	if (proto == htons(ETH_P_ARP))
		return len >= sizeof(struct arphdr) &&
		       ((const struct arphdr *)pkt)->ar_op == htons(op);
	return proto == htons(ETH_P_IPV6) &&
	       len >= sizeof(*ip6) + sizeof(struct nd_msg) &&
	       ip6->nexthdr == IPPROTO_ICMPV6 &&
	       ((const struct nd_msg *)(ip6 + 1))->icmph.icmp6_type == type;
}

/* Is a packet an ARP request or a neighbour solicitation? */
static inline bool ipoib_is_probe(__be16 proto, const void *pkt, u32 len)
{
	return ipoib_is_neigh_pkt(proto, pkt, len, ARPOP_REQUEST,
				  NDISC_NEIGHBOUR_SOLICITATION);
}

/* Is a packet an ARP reply or a neighbour advertisement? */
static inline bool ipoib_is_answer(__be16 proto, const void *pkt, u32 len)
{
	return ipoib_is_neigh_pkt(proto, pkt, len, ARPOP_REPLY,
				  NDISC_NEIGHBOUR_ADVERTISEMENT);
}

/* Whom a probe asks for, in 32 bits; what ipoib_is_probe() is true for. */
static inline u32 ipoib_probe_target(__be16 proto, const void *pkt, u32 len)
{
	const u32 arp_target = sizeof(struct arphdr) + 2 * INFINIBAND_ALEN + 4;
	const struct nd_msg *nd = pkt + sizeof(struct ipv6hdr);

	if (proto == htons(ETH_P_ARP))
		return len < arp_target + 4 ? 0 :
		       get_unaligned((const u32 *)(pkt + arp_target));
	return get_unaligned((const u32 *)&nd->target) ^
	       get_unaligned((const u32 *)&nd->target + 1) ^
	       get_unaligned((const u32 *)&nd->target + 2) ^
	       get_unaligned((const u32 *)&nd->target + 3);
}

/* ---- connected mode's private data (RFC 4755 section 6) ----------------- */

/* Longest message of deployed peers: an MTU of 65520 with encapsulation. */
#define IPOIB_CM_MTU		65520
#define IPOIB_CM_MSG_MAX	(IPOIB_CM_MTU + IPOIB_ENCAP_LEN)

#define IPOIB_CM_MAGIC		0x49506f2b	/* "IPo+" */
#define IPOIB_CM_VERSION	1
/* Packets may be sent without checksums: RC has an ICRC end to end. */
#define IPOIB_CM_CAP_NO_CSUM	BIT(0)
/* A packet may be sent unsegmented. */
#define IPOIB_CM_CAP_GSO	BIT(1)
#define IPOIB_CM_CAPS		(IPOIB_CM_CAP_NO_CSUM | IPOIB_CM_CAP_GSO)

/**
 * struct ipoib_cm_private - private data of REQ and REP
 * @qpn: the sender's UD QP; the first byte is ignored on receipt
 * @max_msg: longest message the sender receives, with its encapsulation
 * @magic: IPOIB_CM_MAGIC.  The RFC does not define this field and the following
 *	ones; other implementations ignore them and send zeroes
 * @version: of the fields from @magic on, from 1; later ones only append
 * @reserved: sent as zero, ignored on receipt
 * @caps: IPOIB_CM_CAP_*; unknown bits are ignored
 */
struct ipoib_cm_private {
	__be32 qpn;
	__be32 max_msg;
	__be32 magic;
	u8 version;
	u8 reserved[3];
	__be32 caps;
};

#define IPOIB_CM_RFC_LEN	offsetof(struct ipoib_cm_private, magic)

/**
 * struct ipoib_cm_peer - contents of a peer's private data
 * @qpn: its UD QP
 * @max_msg: longest message to send to it, with its encapsulation
 * @caps: IPOIB_CM_CAP_* that both sides know
 */
struct ipoib_cm_peer {
	u32 qpn;
	u32 max_msg;
	u32 caps;
};

u32 ipoib_cm_private_fill(struct ipoib_cm_private *data, u32 qpn, u32 max_msg,
			  u32 caps);
int ipoib_cm_private_parse(struct ipoib_cm_peer *peer, const void *data,
			   u32 len);

/* Service ID that an interface listens on (RFC 4755 section 6). */
static inline u64 ipoib_cm_service_id(u32 qpn)
{
	return 0x10ULL << 56 | (qpn & IPOIB_QPN_MASK);
}

/* ---- unfinished packets ------------------------------------------------- */

/*
 * Immediate data says what the receiver has to do to finish a packet.  It is
 * used only on connections whose capabilities allow it.
 */
#define IPOIB_IMM_CSUM		BIT(31)	/* the transport checksum is missing */
#define IPOIB_IMM_GSO		BIT(30)	/* to be segmented; size in low bits */
#define IPOIB_IMM_ECN		BIT(29)	/* CWR is for the first segment only */
#define IPOIB_IMM_SIZE		0xffff	/* bytes of payload in a segment */
/*
 * The sender segments packets itself if segments are smaller, or for UDP more
 * than a socket makes: a receiver need not make a thousand packets of a
 * message.
 */
#define IPOIB_IMM_SIZE_MIN	88
#define IPOIB_IMM_UDP_SEGS	128

/**
 * struct ipoib_transport - transport header of a packet
 * @proto: IPPROTO_TCP or IPPROTO_UDP
 * @start: its offset in the packet
 * @end: offset of its end
 * @csum: offset of its checksum
 */
struct ipoib_transport {
	u8 proto;
	u32 start;
	u32 end;
	u32 csum;
};

int ipoib_transport_parse(struct ipoib_transport *t, __be16 proto,
			  const void *pkt, u32 len);
int ipoib_imm_check(u32 imm, u32 caps, const struct ipoib_transport *t,
		    u32 len);

#endif /* IPOIB_PROTO_H */
