/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guests: stations of the Ethernet by IP address
 */
#ifndef EIPOIB_GUEST_H
#define EIPOIB_GUEST_H

#include "eipoib.h"
#include "eipoib_msg.h"
#include "eipoib_send.h"

/* What is to be done with a frame because of its source address */
enum eipoib_verdict {
	EIPOIB_SEND,
	EIPOIB_KEPT,	/* it waits until the address is confirmed */
	EIPOIB_REFUSE,	/* somebody else's address */
	EIPOIB_FULL,	/* no room for another address */
};

/* Why a station says that an address is its own */
enum eipoib_says {
	EIPOIB_SAYS_ITSELF,	/* by itself, or to whoever wants to send to it */
	EIPOIB_SAYS_ALL,	/* to all: by itself, or as with the next one */
	EIPOIB_SAYS_ASKED,	/* it was asked whether anybody has it */
};

int eipoib_guests_init(struct eipoib_dev *dev);
void eipoib_guests_exit(struct eipoib_dev *dev);
void eipoib_guests_flush(struct eipoib_dev *dev);
void eipoib_guests_open(struct eipoib_dev *dev);

bool eipoib_guest_mac(struct eipoib_dev *dev, const struct in6_addr *ip,
		      u8 *mac);
bool eipoib_guest_is(struct eipoib_dev *dev, const struct in6_addr *ip);
enum eipoib_verdict eipoib_guest_claim(struct eipoib_dev *dev,
				       const struct in6_addr *ip, const u8 *mac,
				       struct sk_buff *skb,
				       enum eipoib_says says);
enum eipoib_verdict eipoib_guest_data(struct eipoib_dev *dev,
				      const struct in6_addr *ip, const u8 *mac,
				      struct sk_buff *skb);
void eipoib_guest_router(struct eipoib_dev *dev, const struct in6_addr *ip,
			 bool router);
void eipoib_guest_answers(struct eipoib_dev *dev, const struct in6_addr *ip,
			  const u8 *mac);
void eipoib_guest_probes(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac);
void eipoib_guest_probed(struct eipoib_dev *dev, const struct in6_addr *ip);
bool eipoib_guest_contested(struct eipoib_dev *dev, const struct in6_addr *ip,
			    const u8 *lladdr);
void eipoib_guests_readdress(struct eipoib_dev *dev);
void eipoib_guests_reclaim(struct eipoib_dev *dev);
void eipoib_guests_deaf(struct eipoib_dev *dev);
void eipoib_guests_heard(struct eipoib_dev *dev);
void eipoib_guests_moved(struct eipoib_dev *dev, const u8 *addr,
			 const struct sk_buff *skb);
void eipoib_guests_tick(struct eipoib_dev *dev, struct eipoib_batch *batch,
			struct sk_buff_head *frames);
bool eipoib_guests_busy(const struct eipoib_dev *dev);
int eipoib_guest_give(struct eipoib_dev *dev, const struct in6_addr *ip,
		      const u8 *addr, struct netlink_ext_ack *extack);
void eipoib_guests_recheck(struct eipoib_dev *dev);
int eipoib_guest_take(struct eipoib_dev *dev, const struct in6_addr *ip);
int eipoib_guests_dump(struct eipoib_dev *dev, struct eipoib_dump *dump);

#endif
