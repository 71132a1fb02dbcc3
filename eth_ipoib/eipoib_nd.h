/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Neighbour discovery between addresses of 6 and of 20 bytes
 */
#ifndef EIPOIB_ND_H
#define EIPOIB_ND_H

#include <net/addrconf.h>
#include <net/ndisc.h>

#include "eipoib.h"
#include "eipoib_send.h"

/**
 * struct eipoib_nd - a message of neighbour discovery
 * @type: NDISC_*
 * @src: source of the packet
 * @dst: destination of the packet
 * @target: of solicitation, advertisement, redirect
 * @has_lladdr: it has an option with the address of @about
 * @lladdr: that address, of as many bytes as the side has
 * @about: whose address that is: @src, or @target
 * @router: the sender of an advertisement says that it is one
 */
struct eipoib_nd {
	u8 type;
	struct in6_addr src;
	struct in6_addr dst;
	struct in6_addr target;
	bool has_lladdr;
	u8 lladdr[INFINIBAND_ALEN];
	struct in6_addr about;
	bool router;
};

bool eipoib_nd_is(struct sk_buff *skb);
bool eipoib_nd_hidden(struct sk_buff *skb);
bool eipoib_nd_parse(struct sk_buff *skb, u8 alen, struct eipoib_nd *nd);
struct sk_buff *eipoib_nd_translate(struct eipoib_dev *dev, struct sk_buff *old,
				    const struct eipoib_nd *nd, u8 to,
				    const u8 *lladdr);
void eipoib_nd_ask_fabric(struct eipoib_dev *dev, const struct in6_addr *from,
			  const struct in6_addr *ip,
			  struct eipoib_batch *batch);
void eipoib_nd_ask_guest(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac, struct eipoib_batch *batch);
void eipoib_nd_tell_guests(struct eipoib_dev *dev, const struct in6_addr *ip,
			   bool router, struct eipoib_batch *batch);
void eipoib_nd_announce(struct eipoib_dev *dev, const struct in6_addr *ip,
			bool router, struct eipoib_batch *batch);

#endif
