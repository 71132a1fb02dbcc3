// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packets of peers, and of this host: to guests
 *
 * A packet for a group goes to guests as a copy, and on to where it was going.
 * One for a guest's address becomes a frame.
 */
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "eipoib_arp.h"
#include "eipoib_dhcp.h"
#include "eipoib_group.h"
#include "eipoib_guest.h"
#include "eipoib_nd.h"
#include "eipoib_peer.h"
#include "eipoib_pmtu.h"
#include "eipoib_prefix.h"
#include "eipoib_rx.h"
#include "eipoib_send.h"

/* A copy of a packet for all guests, or all of a group. */
static void eipoib_rx_group(struct eipoib_dev *dev, struct sk_buff *skb,
			    const struct in6_addr *from,
			    const struct in6_addr *to)
{
	struct sk_buff *copy = skb_clone(skb, GFP_ATOMIC);
	u8 dst[ETH_ALEN], src[ETH_ALEN];

	if (!copy) {
		eipoib_count(dev, EIPOIB_C_NOMEM);
		return;
	}
	if (eipoib_ip_is_group(to))
		eipoib_group_mac(dst, to);
	else
		eth_broadcast_addr(dst);
	eipoib_peer_mac(dev, from, src);
	if (eipoib_frame(dev, copy, copy->protocol, dst, src))
		eipoib_to_guests(dev, copy);
}

/* Too long for the Ethernet: the sender is told. */
static void eipoib_rx_too_big(struct eipoib_dev *dev, struct sk_buff *skb,
			      const struct in6_addr *from,
			      enum eipoib_side side)
{
	u8 lladdr[INFINIBAND_ALEN];
	struct sk_buff *error;

	error = eipoib_pmtu_error(dev, skb, ipv6_addr_hash(from),
				  READ_ONCE(dev->ndev->mtu));
	kfree_skb(skb);
	if (!error)
		return;
	if (side == EIPOIB_HOST)
		eipoib_to_host(dev, error, error->protocol, PACKET_HOST);
	else if (eipoib_peer_get(dev, from, lladdr))
		eipoib_to_fabric(dev, error, error->protocol, lladdr);
	else
		kfree_skb(error);
}

/* A packet for a guest becomes a frame. */
static enum eipoib_way eipoib_rx_unicast(struct eipoib_dev *dev,
					 struct sk_buff *skb,
					 const struct in6_addr *from,
					 const u8 *dst, enum eipoib_side side)
{
	u8 src[ETH_ALEN];

	if (unlikely(!eipoib_pmtu_fits(skb, READ_ONCE(dev->ndev->mtu)))) {
		eipoib_rx_too_big(dev, skb, from, side);
		return EIPOIB_GONE;
	}
	eipoib_peer_mac(dev, from, src);
	return eipoib_frame(dev, skb, skb->protocol, dst, src) ?
	       EIPOIB_FRAME : EIPOIB_GONE;
}

/*
 * With addresses of either family.  What a guest sends to a group comes back in
 * one case only: another bridge joins it to the fabric.
 */
static enum eipoib_way eipoib_rx_ip(struct eipoib_dev *dev, struct sk_buff *skb,
				    const struct in6_addr *from,
				    const struct in6_addr *to, bool group,
				    enum eipoib_side side)
{
	u8 dst[ETH_ALEN];

	if (group) {
		if (!eipoib_guest_is(dev, from))
			eipoib_rx_group(dev, skb, from, to);
		return EIPOIB_ON;
	}
	if (!eipoib_guest_mac(dev, to, dst) && !eipoib_prefix_mac(dev, to, dst))
		return EIPOIB_ON;
	return eipoib_rx_unicast(dev, skb, from, dst, side);
}

/*
 * A message of DHCP to a client; true: it was an answer to a guest, which has it.
 * The host gets what is for its own address, whatever transactions guests begin.
 */
static noinline bool eipoib_rx_dhcp(struct eipoib_dev *dev, struct sk_buff *skb,
				    const struct in6_addr *from,
				    const struct in6_addr *to, bool group)
{
	u8 dst[ETH_ALEN], src[ETH_ALEN];
	struct sk_buff *answer;

	eth_broadcast_addr(dst);
	if (!group && !eipoib_guest_mac(dev, to, dst))
		return false;
	answer = eipoib_dhcp_answer(dev, skb);
	if (!answer)
		return false;
	eipoib_peer_mac(dev, from, src);
	if (eipoib_frame(dev, answer, answer->protocol, dst, src))
		eipoib_to_guests(dev, answer);
	return true;
}

static enum eipoib_way eipoib_rx_ip4(struct eipoib_dev *dev,
				     struct sk_buff *skb, bool group,
				     enum eipoib_side side)
{
	struct in6_addr from, to;
	const struct iphdr *ip;

	if (!pskb_may_pull(skb, sizeof(*ip)))
		return EIPOIB_ON;
	ip = (const void *)skb->data;
	if (ip->ihl < 5 || !pskb_may_pull(skb, ip->ihl * 4))
		return EIPOIB_ON;
	ip = (const void *)skb->data;
	from = eipoib_v4(ip->saddr);
	to = eipoib_v4(ip->daddr);
	/* hfi1 says of all packets that they are for this host. */
	group |= ipv4_is_multicast(ip->daddr) || ipv4_is_lbcast(ip->daddr);
	if (group && ip->protocol == IPPROTO_IGMP &&
	    eipoib_group_snoop4(dev, skb, NULL))
		return EIPOIB_ON;
	if (unlikely(eipoib_dhcp_is_to_client(skb)) &&
	    eipoib_rx_dhcp(dev, skb, &from, &to, group)) {
		if (group)
			return EIPOIB_ON;
		consume_skb(skb);
		return EIPOIB_GONE;
	}
	return eipoib_rx_ip(dev, skb, &from, &to, group, side);
}

/* ---- ARP ----------------------------------------------------------------- */

/*
 * Remember the sender.  False: guests are not to hear of it.  The host may answer
 * on the lower interface for an address that it has on the bridge; what its own
 * addresses are is not a peer's to say.
 */
static bool eipoib_rx_sender(struct eipoib_dev *dev, const struct in6_addr *ip,
			     const u8 *lladdr, bool wanted,
			     enum eipoib_side side)
{
	if (eipoib_lladdr_is_group(lladdr))
		return false;
	if (side == EIPOIB_HOST ? eipoib_guest_is(dev, ip) :
				  eipoib_host_has(dev, ip))
		return false;
	if (eipoib_guest_contested(dev, ip, lladdr))
		return false;
	eipoib_peer_learn(dev, ip, lladdr, wanted);
	/* A guest may have been given it meanwhile: then it is no peer's. */
	if (unlikely(eipoib_guest_is(dev, ip))) {
		spin_lock_bh(&dev->lock);
		eipoib_peer_forget(dev, ip);
		spin_unlock_bh(&dev->lock);
		return false;
	}
	return true;
}

static bool eipoib_rx_own(const struct eipoib_dev *dev, const u8 *lladdr,
			  enum eipoib_side side)
{
	return side == EIPOIB_PEER && eipoib_lladdr_is_own(dev, lladdr);
}

/* Is the message for guests?  If so, for which station: one, or all. */
static bool eipoib_rx_arp_to(struct eipoib_dev *dev,
			     const struct eipoib_arp *arp, bool group,
			     enum eipoib_side side, u8 *dst)
{
	struct in6_addr to = eipoib_v4(arp->tip);
	bool known = eipoib_guest_mac(dev, &to, dst);

	if (known && !group)
		return true;
	eth_broadcast_addr(dst);
	/* Whoever looks for duplicates has no address to be answered at. */
	return known || !arp->tip || side == EIPOIB_HOST ||
	       !eipoib_host_has(dev, &to);
}

static void eipoib_rx_arp(struct eipoib_dev *dev, struct sk_buff *skb,
			  bool group, enum eipoib_side side)
{
	u8 dst[ETH_ALEN], src[ETH_ALEN];
	struct in6_addr from, to;
	struct eipoib_arp arp;
	struct sk_buff *frame;

	if (!eipoib_arp_parse(skb, ARPHRD_INFINIBAND, INFINIBAND_ALEN, &arp) ||
	    eipoib_rx_own(dev, arp.sha, side))
		return;
	from = eipoib_v4(arp.sip);
	to = eipoib_v4(arp.tip);
	if (!arp.sip)
		eipoib_guest_probed(dev, &to);
	else if (!eipoib_rx_sender(dev, &from, arp.sha,
				   eipoib_guest_is(dev, &to), side))
		return;
	if (!eipoib_rx_arp_to(dev, &arp, group, side, dst))
		return;
	/* Only peers that guests talk to take places in tables of bridges. */
	eipoib_peer_mac(dev, &from, src);
	eipoib_mac_of(arp.sha, &from);
	frame = eipoib_arp_for_guests(dev, &arp, dst, src);
	if (frame)
		eipoib_to_guests(dev, frame);
}

/* ---- IPv6 ---------------------------------------------------------------- */

/* Whom to send a message of neighbour discovery to.  False: no guest */
static bool eipoib_rx_nd_to(struct eipoib_dev *dev, const struct eipoib_nd *nd,
			    u8 *dst)
{
	if (!ipv6_addr_is_multicast(&nd->dst))
		return eipoib_guest_mac(dev, &nd->dst, dst);
	eipoib_group_mac(dst, &nd->dst);
	return true;
}

/* What it says of its sender, or of whom it is about, and what it asks for. */
static bool eipoib_rx_nd_news(struct eipoib_dev *dev,
			      const struct eipoib_nd *nd, bool unicast,
			      enum eipoib_side side)
{
	/* Guests send to routers what is for hosts that have not been heard of. */
	bool wanted = unicast || nd->type == NDISC_ROUTER_ADVERTISEMENT ||
		      (nd->type == NDISC_NEIGHBOUR_SOLICITATION &&
		       eipoib_guest_is(dev, &nd->target));

	if (nd->type == NDISC_NEIGHBOUR_SOLICITATION &&
	    ipv6_addr_any(&nd->src))
		eipoib_guest_probed(dev, &nd->target);
	if (nd->has_lladdr)
		return eipoib_rx_sender(dev, &nd->about, nd->lladdr, wanted,
					side);
	return nd->type != NDISC_NEIGHBOUR_ADVERTISEMENT ||
	       side == EIPOIB_HOST ||
	       !eipoib_guest_contested(dev, &nd->target, NULL);
}

/* The message for guests. */
static void eipoib_rx_nd_frame(struct eipoib_dev *dev, struct sk_buff *skb,
			       const struct eipoib_nd *nd, const u8 *dst)
{
	u8 src[ETH_ALEN], lladdr[ETH_ALEN];
	struct sk_buff *frame;

	eipoib_peer_mac(dev, &nd->src, src);
	eipoib_mac_of(lladdr, &nd->about);
	frame = eipoib_nd_translate(dev, skb, nd, ETH_ALEN, lladdr);
	if (!frame)
		return;
	eipoib_count(dev, EIPOIB_C_RX_ARP);
	if (eipoib_frame(dev, frame, frame->protocol, dst, src))
		eipoib_to_guests(dev, frame);
}

static enum eipoib_way eipoib_rx_nd(struct eipoib_dev *dev, struct sk_buff *skb,
				    enum eipoib_side side)
{
	struct eipoib_nd nd;
	u8 dst[ETH_ALEN];
	bool found;

	if (!eipoib_nd_parse(skb, INFINIBAND_ALEN, &nd) ||
	    (nd.has_lladdr && eipoib_rx_own(dev, nd.lladdr, side)))
		return EIPOIB_ON;
	found = eipoib_rx_nd_to(dev, &nd, dst);
	if (eipoib_rx_nd_news(dev, &nd, found &&
			      !ipv6_addr_is_multicast(&nd.dst), side) && found)
		eipoib_rx_nd_frame(dev, skb, &nd, dst);
	if (!found || ipv6_addr_is_multicast(&nd.dst))
		return EIPOIB_ON;
	/* The host would route it. */
	consume_skb(skb);
	return EIPOIB_GONE;
}

static enum eipoib_way eipoib_rx_ip6(struct eipoib_dev *dev,
				     struct sk_buff *skb, bool group,
				     enum eipoib_side side)
{
	const struct ipv6hdr *ip;
	struct in6_addr from, to;

	if (!pskb_may_pull(skb, sizeof(*ip)))
		return EIPOIB_ON;
	if (eipoib_nd_is(skb))
		return eipoib_rx_nd(dev, skb, side);
	ip = (const void *)skb->data;
	from = ip->saddr;
	to = ip->daddr;
	group |= ipv6_addr_is_multicast(&to);
	/* What can't be checked is not for guests, what members say not either. */
	if (eipoib_nd_hidden(skb) ||
	    (group && eipoib_group_snoop6(dev, skb, NULL)))
		return EIPOIB_ON;
	return eipoib_rx_ip(dev, skb, &from, &to, group, side);
}

/* ---- all ----------------------------------------------------------------- */

/**
 * eipoib_rx - look at a packet on the lower interface
 * @dev: interface
 * @skb: packet, not shared; its data begins with the network header
 * @group: it was sent to a group or to all
 * @side: where it comes from
 * Return: where it goes
 *
 * Under RCU.
 */
enum eipoib_way eipoib_rx(struct eipoib_dev *dev, struct sk_buff *skb,
			  bool group, enum eipoib_side side)
{
	if (!netif_running(dev->ndev))
		return EIPOIB_ON;
	switch (skb->protocol) {
	case htons(ETH_P_IP):
		return eipoib_rx_ip4(dev, skb, group, side);
	case htons(ETH_P_IPV6):
		return eipoib_rx_ip6(dev, skb, group, side);
	case htons(ETH_P_ARP):
		eipoib_rx_arp(dev, skb, group, side);
		return EIPOIB_ON;
	default:
		return EIPOIB_ON;
	}
}
