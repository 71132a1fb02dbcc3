// SPDX-License-Identifier: GPL-2.0-only
/*
 * ARP between addresses of 6 and of 20 bytes: RFC 826, RFC 4391 section 9.1
 *
 * A message is not changed but made anew, since it has another length on the
 * other side.
 */
#include <linux/if_arp.h>
#include <net/arp.h>

#include "eipoib_arp.h"

/**
 * eipoib_arp_parse - read an ARP message
 * @skb: packet; its data begins with the message
 * @type: hardware type it has to have, ARPHRD_*
 * @alen: length of hardware addresses
 * @arp: result
 * Return: false if it is malformed or not about IPv4
 */
bool eipoib_arp_parse(struct sk_buff *skb, u16 type, u8 alen,
		      struct eipoib_arp *arp)
{
	const struct arphdr *hdr;
	const u8 *at;

	if (!pskb_may_pull(skb, sizeof(*hdr) + 2 * (alen + sizeof(__be32))))
		return false;
	hdr = (const void *)skb->data;
	if (hdr->ar_hrd != htons(type) || hdr->ar_pro != htons(ETH_P_IP) ||
	    hdr->ar_hln != alen || hdr->ar_pln != sizeof(__be32))
		return false;
	arp->op = ntohs(hdr->ar_op);
	if (arp->op != ARPOP_REQUEST && arp->op != ARPOP_REPLY)
		return false;
	at = (const u8 *)(hdr + 1);
	memcpy(arp->sha, at, alen);
	arp->sip = get_unaligned((const __be32 *)(at + alen));
	arp->tip = get_unaligned((const __be32 *)(at + 2 * alen +
						  sizeof(__be32)));
	return true;
}

/**
 * eipoib_arp_for_fabric - a guest's message for the fabric
 * @dev: interface
 * @arp: message; the sender's hardware address becomes the interface's
 * @lladdr: link-layer address it is sent to
 * Return: packet with a header of IPoIB, NULL if there is no memory
 */
struct sk_buff *eipoib_arp_for_fabric(struct eipoib_dev *dev,
				      const struct eipoib_arp *arp,
				      const u8 *lladdr)
{
	struct sk_buff *skb;

	skb = arp_create(arp->op, ETH_P_ARP, arp->tip, dev->lower, arp->sip,
			 lladdr, NULL,
			 arp->op == ARPOP_REPLY ? lladdr : NULL);
	eipoib_count(dev, skb ? EIPOIB_C_TX_ARP : EIPOIB_C_NOMEM);
	return skb;
}

/**
 * eipoib_arp_for_guests - a message of the fabric for guests
 * @dev: interface
 * @arp: message, with the MAC of its sender
 * @dst: MAC it is sent to
 * @src: MAC it is sent from
 * Return: received frame, NULL if there is no memory
 */
struct sk_buff *eipoib_arp_for_guests(struct eipoib_dev *dev,
				      const struct eipoib_arp *arp,
				      const u8 *dst, const u8 *src)
{
	struct sk_buff *skb;

	skb = arp_create(arp->op, ETH_P_ARP, arp->tip, dev->ndev, arp->sip, dst,
			 arp->sha, arp->op == ARPOP_REPLY ? dst : NULL);
	eipoib_count(dev, skb ? EIPOIB_C_RX_ARP : EIPOIB_C_NOMEM);
	if (!skb)
		return NULL;
	ether_addr_copy(((struct ethhdr *)skb->data)->h_source, src);
	skb->protocol = eth_type_trans(skb, dev->ndev);
	return skb;
}

/**
 * eipoib_arp_ask_fabric - ask the fabric who has an address
 * @dev: interface
 * @from: a guest's address, or 0
 * @ip: address
 * @batch: where the request goes
 */
void eipoib_arp_ask_fabric(struct eipoib_dev *dev, __be32 from, __be32 ip,
			   struct eipoib_batch *batch)
{
	struct eipoib_arp arp = {
		.op = ARPOP_REQUEST, .sip = from, .tip = ip
	};
	u8 lladdr[INFINIBAND_ALEN];
	struct sk_buff *skb;

	eipoib_lladdr_broadcast(dev, lladdr);
	skb = eipoib_arp_for_fabric(dev, &arp, lladdr);
	if (skb)
		__skb_queue_tail(&batch->fabric, skb);
}

/**
 * eipoib_arp_ask_guest - ask a guest whether it has an address
 * @dev: interface
 * @ip: address
 * @mac: of the guest, who answers to eipoib_dev.asker
 * @batch: where the request goes
 */
void eipoib_arp_ask_guest(struct eipoib_dev *dev, __be32 ip, const u8 *mac,
			  struct eipoib_batch *batch)
{
	struct eipoib_arp arp = { .op = ARPOP_REQUEST, .tip = ip };
	struct sk_buff *skb;

	ether_addr_copy(arp.sha, dev->asker);
	skb = eipoib_arp_for_guests(dev, &arp, mac, dev->asker);
	if (skb)
		__skb_queue_tail(&batch->guests, skb);
}

/* Tell guests that an address is a peer's. */
void eipoib_arp_tell_guests(struct eipoib_dev *dev, __be32 ip,
			    struct eipoib_batch *batch)
{
	struct eipoib_arp arp = { .op = ARPOP_REQUEST, .sip = ip, .tip = ip };
	u8 dst[ETH_ALEN];
	struct sk_buff *skb;

	eth_broadcast_addr(dst);
	eipoib_mac_fill(arp.sha, EIPOIB_MAC_V4, ip);
	skb = eipoib_arp_for_guests(dev, &arp, dst, arp.sha);
	if (skb)
		__skb_queue_tail(&batch->guests, skb);
}

/* Tell the fabric and the host that an address is here: RFC 5227. */
void eipoib_arp_announce(struct eipoib_dev *dev, __be32 ip,
			 struct eipoib_batch *batch)
{
	unsigned int count = eipoib_batch_count(batch);

	eipoib_arp_ask_fabric(dev, ip, ip, batch);
	eipoib_batch_host_too(batch, count);
}
