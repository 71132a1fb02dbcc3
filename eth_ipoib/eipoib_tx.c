// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames of guests: to the fabric and to this host
 */
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "eipoib_arp.h"
#include "eipoib_dhcp.h"
#include "eipoib_group.h"
#include "eipoib_guest.h"
#include "eipoib_nd.h"
#include "eipoib_peer.h"
#include "eipoib_pmtu.h"
#include "eipoib_send.h"
#include "eipoib_tx.h"

/* VRRP, RFC 9568: protocol, groups */
#define EIPOIB_PROTO_VRRP	112
#define EIPOIB_GROUP_VRRP	0xe0000012
static const struct in6_addr eipoib_group_vrrp6 = {
	.s6_addr = { [0] = 0xff, [1] = 0x02, [15] = 0x12 },
};

/**
 * struct eipoib_from - a frame of a guest, without its header
 * @dev: interface
 * @skb: packet; its data begins with the network header
 * @dst: destination MAC
 * @src: source MAC
 */
struct eipoib_from {
	struct eipoib_dev *dev;
	struct sk_buff *skb;
	u8 dst[ETH_ALEN];
	u8 src[ETH_ALEN];
};

/* False if the frame is not to be sent (now); it is gone then. */
static bool eipoib_tx_verdict(struct eipoib_dev *dev, struct sk_buff *skb,
			      enum eipoib_verdict verdict)
{
	switch (verdict) {
	case EIPOIB_SEND:
		return true;
	case EIPOIB_KEPT:
		return false;
	case EIPOIB_REFUSE:
		eipoib_drop(dev, skb, EIPOIB_C_REFUSED);
		return false;
	case EIPOIB_FULL:
		break;
	}
	eipoib_drop(dev, skb, EIPOIB_C_GUESTS_FULL);
	return false;
}

/* For whom a frame counts, where there are limits */
static u64 eipoib_tx_source(const struct eipoib_from *f)
{
	return eipoib_source(f->skb->skb_iif, ether_addr_to_u64(f->src));
}

/* To everybody: peers, and the host, whose own packets IPoIB does not loop. */
static void eipoib_tx_flood(struct eipoib_dev *dev, struct sk_buff *skb,
			    const u8 *lladdr, u8 pkt_type)
{
	struct sk_buff *copy = skb_clone(skb, GFP_ATOMIC);
	__be16 proto = skb->protocol;

	if (copy)
		eipoib_to_host(dev, copy, proto, pkt_type);
	eipoib_to_fabric(dev, skb, proto, lladdr);
}

/* Back to the Ethernet: the peer has moved to it, and the sender not noticed. */
static bool eipoib_tx_turn(struct eipoib_dev *dev, struct sk_buff *skb,
			   const struct in6_addr *from,
			   const struct in6_addr *hop)
{
	u8 dst[ETH_ALEN], src[ETH_ALEN];

	if (!eipoib_guest_mac(dev, hop, dst))
		return false;
	eipoib_mac_of(src, from);
	eipoib_scrub(skb);
	if (eipoib_frame(dev, skb, skb->protocol, dst, src))
		eipoib_to_guests(dev, skb);
	return true;
}

/* Too long for the peer, or the group?  The sender is told; true: it is gone. */
static bool eipoib_tx_too_big(struct eipoib_from *f, const u8 *lladdr,
			      const struct in6_addr *to)
{
	struct eipoib_dev *dev = f->dev;
	unsigned int mtu = eipoib_pmtu(dev, lladdr);
	struct sk_buff *error;
	u8 src[ETH_ALEN];

	if (likely(eipoib_pmtu_fits(f->skb, mtu)))
		return false;
	/* Nobody is told about a frame that was not for one station: RFC 1122. */
	if (is_broadcast_ether_addr(f->dst)) {
		eipoib_drop(dev, f->skb, EIPOIB_C_TOO_BIG);
		return true;
	}
	error = eipoib_pmtu_error(dev, f->skb, eipoib_tx_source(f), mtu);
	kfree_skb(f->skb);
	eipoib_mac_of(src, to);
	if (error && eipoib_frame(dev, error, error->protocol, f->src, src))
		eipoib_to_guests(dev, error);
	return true;
}

/* To the peer that the frame's destination stands for. */
static void eipoib_tx_unicast(struct eipoib_from *f,
			      const struct in6_addr *from,
			      const struct in6_addr *to)
{
	struct eipoib_dev *dev = f->dev;
	struct sk_buff *skb = f->skb;
	u8 lladdr[INFINIBAND_ALEN];
	struct in6_addr hop;
	bool known;

	if (eipoib_ip_is_group(to) ||
	    !eipoib_peer_of_mac(dev, f->dst, to, &hop)) {
		eipoib_drop(dev, skb, EIPOIB_C_UNKNOWN_MAC);
		return;
	}
	/* What is a peer's is no guest's. */
	known = eipoib_peer_get(dev, &hop, lladdr);
	if (!known && eipoib_tx_turn(dev, skb, from, &hop))
		return;
	if (known ? eipoib_lladdr_is_own(dev, lladdr) :
		    eipoib_host_has(dev, &hop))
		eipoib_to_host(dev, skb, skb->protocol, PACKET_HOST);
	else if (!known)
		eipoib_peer_wait(dev, &hop, eipoib_guest_is(dev, from) ? from :
				 &in6addr_any, skb);
	else if (!eipoib_tx_too_big(f, lladdr, to))
		eipoib_to_fabric(dev, skb, skb->protocol, lladdr);
}

static void eipoib_tx_ip(struct eipoib_from *f, const struct in6_addr *from,
			 const struct in6_addr *to)
{
	struct eipoib_dev *dev = f->dev;
	u8 lladdr[INFINIBAND_ALEN];

	if (!is_multicast_ether_addr(f->dst)) {
		eipoib_tx_unicast(f, from, to);
	} else if (eipoib_ip_is_group(to)) {
		eipoib_group_dest(dev, to, eipoib_tx_source(f), lladdr);
		if (!eipoib_tx_too_big(f, lladdr, to))
			eipoib_tx_flood(dev, f->skb, lladdr,
					PACKET_MULTICAST);
	} else if (is_broadcast_ether_addr(f->dst) && eipoib_is_v4(to)) {
		eipoib_lladdr_broadcast(dev, lladdr);
		if (!eipoib_tx_too_big(f, lladdr, to))
			eipoib_tx_flood(dev, f->skb, lladdr, PACKET_BROADCAST);
	} else {
		eipoib_drop(dev, f->skb, EIPOIB_C_UNKNOWN_MAC);
	}
}

/* ---- sources ------------------------------------------------------------- */

/*
 * Routers that stand in for each other (RFC 9568) say so from their own address
 * and the MAC of the one that they are together.  The address has to be a guest's.
 */
static noinline bool eipoib_tx_is_vrrp(const struct eipoib_from *f,
				       const struct in6_addr *from,
				       const struct in6_addr *to)
{
	static const u8 mac[4] = { 0x00, 0x00, 0x5e, 0x00 };
	bool v4 = eipoib_is_v4(to);

	return !memcmp(f->src, mac, sizeof(mac)) && f->src[4] == (v4 ? 1 : 2) &&
	       (v4 ? eipoib_to_v4(to) == htonl(EIPOIB_GROUP_VRRP) :
		     ipv6_addr_equal(to, &eipoib_group_vrrp6)) &&
	       eipoib_guest_is(f->dev, from);
}

/* May the station send from this address?  If not, the frame is kept or dropped. */
static __always_inline bool eipoib_tx_may(struct eipoib_from *f, u8 proto,
					  const struct in6_addr *from,
					  const struct in6_addr *to)
{
	return (unlikely(proto == EIPOIB_PROTO_VRRP) &&
		eipoib_tx_is_vrrp(f, from, to)) ||
	       eipoib_tx_verdict(f->dev, f->skb,
				 eipoib_guest_data(f->dev, from, f->src,
						   f->skb));
}

/* ---- IPv4 ---------------------------------------------------------------- */

static void eipoib_tx_ip4(struct eipoib_from *f)
{
	struct eipoib_dev *dev = f->dev;
	struct in6_addr from, to;
	const struct iphdr *ip;

	if (!pskb_may_pull(f->skb, sizeof(*ip)))
		goto malformed;
	ip = (const void *)f->skb->data;
	if (ip->version != 4 || ip->ihl < 5 ||
	    !pskb_may_pull(f->skb, ip->ihl * 4))
		goto malformed;
	ip = (const void *)f->skb->data;
	from = eipoib_v4(ip->saddr);
	to = eipoib_v4(ip->daddr);
	if (ip->saddr && !eipoib_tx_may(f, ip->protocol, &from, &to))
		return;
	if (ip->protocol == IPPROTO_IGMP)
		eipoib_group_snoop4(dev, f->skb, f->src);
	f->skb = eipoib_dhcp_request(dev, f->skb, f->src);
	if (f->skb)
		eipoib_tx_ip(f, &from, &to);
	return;

malformed:
	eipoib_drop(dev, f->skb, EIPOIB_C_MALFORMED);
}

/* ---- ARP and RARP -------------------------------------------------------- */

static bool eipoib_tx_arp_ok(struct eipoib_from *f, struct eipoib_arp *arp)
{
	struct eipoib_dev *dev = f->dev;
	struct in6_addr ip;

	if (!eipoib_arp_parse(f->skb, ARPHRD_ETHER, ETH_ALEN, arp)) {
		eipoib_drop(dev, f->skb, EIPOIB_C_MALFORMED);
		return false;
	}
	if (!is_valid_ether_addr(arp->sha) ||
	    eipoib_mac_kind(arp->sha) != EIPOIB_MAC_OTHER ||
	    (READ_ONCE(dev->guard) && !ether_addr_equal(arp->sha, f->src))) {
		eipoib_drop(dev, f->skb, EIPOIB_C_REFUSED);
		return false;
	}
	ip = eipoib_v4(arp->sip);
	if (eipoib_mac_kind(f->dst) == EIPOIB_MAC_ASKER) {
		eipoib_guest_answers(dev, &ip, arp->sha);
		consume_skb(f->skb);
		return false;
	}
	if (!arp->sip) {
		/* A guest that looks for duplicates of its own address is there. */
		ip = eipoib_v4(arp->tip);
		eipoib_guest_probes(dev, &ip, arp->sha);
		return true;
	}
	return eipoib_tx_verdict(dev, f->skb,
				 eipoib_guest_claim(dev, &ip, arp->sha, f->skb,
						    arp->tip ?
						    EIPOIB_SAYS_ITSELF :
						    EIPOIB_SAYS_ASKED));
}

/* Where a message goes: broadcast unless its peer is known. */
static void eipoib_tx_arp_to(struct eipoib_from *f,
			     const struct eipoib_arp *arp, u8 *lladdr)
{
	struct in6_addr to = eipoib_v4(arp->tip), hop;

	eipoib_lladdr_broadcast(f->dev, lladdr);
	if (!is_multicast_ether_addr(f->dst) &&
	    eipoib_mac_kind(f->dst) != EIPOIB_MAC_NOBODY &&
	    eipoib_peer_of_mac(f->dev, f->dst, &to, &hop))
		eipoib_peer_get(f->dev, &hop, lladdr);
}

/* Does the host have to hear a message that is not sent to it alone? */
static bool eipoib_tx_arp_host(struct eipoib_dev *dev,
			       const struct eipoib_arp *arp)
{
	struct in6_addr to = eipoib_v4(arp->tip);

	return arp->sip == arp->tip || eipoib_host_has(dev, &to);
}

static void eipoib_tx_arp(struct eipoib_from *f)
{
	struct eipoib_dev *dev = f->dev;
	u8 lladdr[INFINIBAND_ALEN];
	struct eipoib_batch batch;
	struct eipoib_arp arp;
	struct sk_buff *skb;

	if (!eipoib_tx_arp_ok(f, &arp))
		return;
	consume_skb(f->skb);
	eipoib_tx_arp_to(f, &arp, lladdr);
	skb = eipoib_arp_for_fabric(dev, &arp, lladdr);
	if (!skb)
		return;
	if (eipoib_lladdr_is_own(dev, lladdr)) {
		skb_pull(skb, EIPOIB_HARD_LEN);
		eipoib_to_host(dev, skb, htons(ETH_P_ARP), PACKET_HOST);
		return;
	}
	eipoib_batch_init(&batch);
	__skb_queue_tail(&batch.fabric, skb);
	if (eipoib_lladdr_is_group(lladdr) && eipoib_tx_arp_host(dev, &arp))
		eipoib_batch_host_too(&batch, 0);
	eipoib_batch_send(dev, &batch);
}

/* ---- IPv6 ---------------------------------------------------------------- */

/* Is this message of neighbour discovery to be sent? */
static bool eipoib_tx_nd_ok(struct eipoib_from *f, struct eipoib_nd *nd)
{
	struct eipoib_dev *dev = f->dev;
	const struct in6_addr *ip;
	bool advert;

	if (!eipoib_nd_parse(f->skb, ETH_ALEN, nd)) {
		eipoib_drop(dev, f->skb, EIPOIB_C_MALFORMED);
		return false;
	}
	advert = nd->type == NDISC_NEIGHBOUR_ADVERTISEMENT;
	ip = advert ? &nd->target : &nd->src;
	if (advert && eipoib_mac_kind(f->dst) == EIPOIB_MAC_ASKER) {
		eipoib_guest_answers(dev, ip, f->src);
		consume_skb(f->skb);
		return false;
	}
	if (READ_ONCE(dev->guard) && nd->has_lladdr &&
	    nd->type != NDISC_REDIRECT &&
	    !ether_addr_equal(nd->lladdr, f->src)) {
		eipoib_drop(dev, f->skb, EIPOIB_C_REFUSED);
		return false;
	}
	if (ipv6_addr_any(ip))
		return true;
	if (!eipoib_tx_verdict(dev, f->skb,
			       eipoib_guest_claim(dev, ip, f->src, f->skb,
						  advert && ipv6_addr_is_multicast(&nd->dst) ?
						  EIPOIB_SAYS_ALL :
						  EIPOIB_SAYS_ITSELF)))
		return false;
	if (nd->type >= NDISC_ROUTER_ADVERTISEMENT &&
	    nd->type != NDISC_NEIGHBOUR_SOLICITATION)
		eipoib_guest_router(dev, ip, nd->router);
	/* The sender of an advertisement may be another address of the guest. */
	return ipv6_addr_equal(ip, &nd->src) ||
	       eipoib_tx_verdict(dev, f->skb,
				 eipoib_guest_data(dev, &nd->src, f->src,
						   f->skb));
}

/* A solicitation to a peer that is not known goes to whom it may concern. */
static bool eipoib_tx_nd_any(struct eipoib_from *f, const struct eipoib_nd *nd)
{
	u8 lladdr[INFINIBAND_ALEN];
	struct in6_addr hop;

	return nd->type == NDISC_NEIGHBOUR_SOLICITATION &&
	       !is_multicast_ether_addr(f->dst) &&
	       (!eipoib_peer_of_mac(f->dev, f->dst, &nd->dst, &hop) ||
		!eipoib_peer_get(f->dev, &hop, lladdr));
}

static void eipoib_tx_nd(struct eipoib_from *f)
{
	struct eipoib_dev *dev = f->dev;
	u8 own[INFINIBAND_ALEN], lladdr[INFINIBAND_ALEN];
	struct in6_addr group;
	struct eipoib_nd nd;
	struct sk_buff *skb;

	if (!eipoib_tx_nd_ok(f, &nd))
		return;
	eipoib_lladdr_own(dev, own);
	/* Whom a router's redirect names has to be asked for its address. */
	skb = eipoib_nd_translate(dev, f->skb, &nd, INFINIBAND_ALEN,
				  nd.type == NDISC_REDIRECT ? NULL : own);
	/* It counts for the port that the guest's message came by. */
	if (skb)
		skb->skb_iif = f->skb->skb_iif;
	consume_skb(f->skb);
	if (!skb)
		return;
	eipoib_count(dev, EIPOIB_C_TX_ARP);
	f->skb = skb;
	if (eipoib_tx_nd_any(f, &nd)) {
		addrconf_addr_solict_mult(&nd.target, &group);
		eipoib_group_dest(dev, &group, eipoib_tx_source(f), lladdr);
		if (!eipoib_tx_too_big(f, lladdr, &nd.target))
			eipoib_tx_flood(dev, skb, lladdr, PACKET_MULTICAST);
		return;
	}
	eipoib_tx_ip(f, &nd.src, &nd.dst);
}

static void eipoib_tx_ip6(struct eipoib_from *f)
{
	struct eipoib_dev *dev = f->dev;
	const struct ipv6hdr *ip;
	struct in6_addr from, to;

	if (eipoib_nd_is(f->skb)) {
		eipoib_tx_nd(f);
		return;
	}
	if (!pskb_may_pull(f->skb, sizeof(*ip)))
		goto malformed;
	ip = (const void *)f->skb->data;
	from = ip->saddr;
	to = ip->daddr;
	if (ip->version != 6 || ipv6_addr_v4mapped(&from) ||
	    ipv6_addr_v4mapped(&to) || eipoib_nd_hidden(f->skb))
		goto malformed;
	if (!ipv6_addr_any(&from) &&
	    !eipoib_tx_may(f, ip->nexthdr, &from, &to))
		return;
	if (ipv6_addr_is_multicast(&to))
		eipoib_group_snoop6(dev, f->skb, f->src);
	eipoib_tx_ip(f, &from, &to);
	return;

malformed:
	eipoib_drop(dev, f->skb, EIPOIB_C_MALFORMED);
}

/* ---- all ----------------------------------------------------------------- */

/* Is the checksum that is left to be finished UDP's or TCP's, and in its place? */
static bool eipoib_tx_csum_fits(const struct sk_buff *skb)
{
	const struct ipv6hdr *ip6 = (const void *)skb->data;
	const struct iphdr *ip = (const void *)skb->data;
	unsigned int start = skb_checksum_start_offset(skb);
	u8 proto;

	if (start < sizeof(*ip) || start > skb_headlen(skb))
		return false;
	if (skb->protocol == htons(ETH_P_IP) && start == ip->ihl * 4)
		proto = ip->protocol;
	else if (skb->protocol == htons(ETH_P_IPV6) && start == sizeof(*ip6))
		proto = ip6->nexthdr;
	else
		return false;
	return (proto == IPPROTO_TCP &&
		skb->csum_offset == offsetof(struct tcphdr, check)) ||
	       (proto == IPPROTO_UDP &&
		skb->csum_offset == offsetof(struct udphdr, check));
}

/*
 * A guest says where a checksum is to be written: it could change what has been
 * checked by then, as an address or a port.  Whatever is unusual is written now.
 * Of packets to be cut only those that this host made are believed.
 */
static noinline bool eipoib_tx_csum_now(struct sk_buff *skb)
{
	int start = skb_checksum_start_offset(skb);

	if (skb_is_gso(skb))
		return !(skb_shinfo(skb)->gso_type & SKB_GSO_DODGY);
	return start >= 0 &&
	       start + skb->csum_offset + sizeof(__sum16) <= skb_headlen(skb) &&
	       !skb_csum_hwoffload_help(skb, 0);
}

/**
 * eipoib_tx - send a frame of a guest
 * @dev: interface
 * @skb: frame; its data begins with the header of Ethernet
 */
void eipoib_tx(struct eipoib_dev *dev, struct sk_buff *skb)
{
	struct eipoib_from f = { .dev = dev, .skb = skb };
	const struct ethhdr *eth;
	__be16 proto;

	if (!pskb_may_pull(skb, ETH_HLEN)) {
		eipoib_drop(dev, skb, EIPOIB_C_MALFORMED);
		return;
	}
	eth = (const void *)skb->data;
	proto = eth->h_proto;
	ether_addr_copy(f.dst, eth->h_dest);
	ether_addr_copy(f.src, eth->h_source);
	if (!is_valid_ether_addr(f.src)) {
		eipoib_drop(dev, skb, EIPOIB_C_MALFORMED);
		return;
	}
	if (eipoib_mac_kind(f.src) != EIPOIB_MAC_OTHER) {
		eipoib_drop(dev, skb, EIPOIB_C_LOOP);
		return;
	}
	skb_reset_mac_header(skb);
	__skb_pull(skb, ETH_HLEN);
	skb_reset_network_header(skb);
	skb->protocol = proto;
	if (skb->ip_summed != CHECKSUM_PARTIAL) {
		/* A sum of the whole frame is not the packet's. */
		skb_forward_csum(skb);
	} else if (!eipoib_tx_csum_fits(skb) && !eipoib_tx_csum_now(skb)) {
		eipoib_drop(dev, skb, EIPOIB_C_MALFORMED);
		return;
	}

	rcu_read_lock();
	switch (proto) {
	case htons(ETH_P_IP):
		eipoib_tx_ip4(&f);
		break;
	case htons(ETH_P_IPV6):
		eipoib_tx_ip6(&f);
		break;
	case htons(ETH_P_ARP):
		eipoib_tx_arp(&f);
		break;
	case htons(ETH_P_RARP):
		eipoib_guests_moved(dev, f.src, skb);
		consume_skb(skb);
		break;
	default:
		eipoib_drop(dev, skb, EIPOIB_C_PROTOCOL);
		break;
	}
	rcu_read_unlock();
}
