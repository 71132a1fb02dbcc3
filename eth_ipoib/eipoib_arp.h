/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ARP between addresses of 6 and of 20 bytes
 */
#ifndef EIPOIB_ARP_H
#define EIPOIB_ARP_H

#include "eipoib.h"
#include "eipoib_send.h"

/**
 * struct eipoib_arp - an ARP message
 * @op: ARPOP_*
 * @sip: sender's address, 0 in a probe
 * @tip: target's address
 * @sha: sender's link-layer address, of as many bytes as the side has
 */
struct eipoib_arp {
	u16 op;
	__be32 sip;
	__be32 tip;
	u8 sha[INFINIBAND_ALEN];
};

bool eipoib_arp_parse(struct sk_buff *skb, u16 type, u8 alen,
		      struct eipoib_arp *arp);
struct sk_buff *eipoib_arp_for_fabric(struct eipoib_dev *dev,
				      const struct eipoib_arp *arp,
				      const u8 *lladdr);
struct sk_buff *eipoib_arp_for_guests(struct eipoib_dev *dev,
				      const struct eipoib_arp *arp,
				      const u8 *dst, const u8 *src);
void eipoib_arp_ask_fabric(struct eipoib_dev *dev, __be32 from, __be32 ip,
			   struct eipoib_batch *batch);
void eipoib_arp_ask_guest(struct eipoib_dev *dev, __be32 ip, const u8 *mac,
			  struct eipoib_batch *batch);
void eipoib_arp_tell_guests(struct eipoib_dev *dev, __be32 ip,
			    struct eipoib_batch *batch);
void eipoib_arp_announce(struct eipoib_dev *dev, __be32 ip,
			 struct eipoib_batch *batch);

#endif
