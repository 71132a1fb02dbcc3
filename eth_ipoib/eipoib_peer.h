/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Peers: hosts on the fabric by IP address
 */
#ifndef EIPOIB_PEER_H
#define EIPOIB_PEER_H

#include "eipoib.h"
#include "eipoib_msg.h"
#include "eipoib_send.h"

int eipoib_peers_init(struct eipoib_dev *dev);
void eipoib_peers_exit(struct eipoib_dev *dev);
void eipoib_peers_flush(struct eipoib_dev *dev);
void eipoib_peers_readdress(struct eipoib_dev *dev);

bool eipoib_peer_of_mac(struct eipoib_dev *dev, const u8 *mac,
			const struct in6_addr *dst, struct in6_addr *ip);
bool eipoib_peer_get(struct eipoib_dev *dev, const struct in6_addr *ip,
		     u8 *lladdr);
void eipoib_peer_mac(struct eipoib_dev *dev, const struct in6_addr *ip,
		     u8 *mac);
void eipoib_peer_learn(struct eipoib_dev *dev, const struct in6_addr *ip,
		       const u8 *lladdr, bool wanted);
void eipoib_peer_moved(struct eipoib_dev *dev, const struct in6_addr *ip,
		       const u8 *lladdr);
void eipoib_peer_forget(struct eipoib_dev *dev, const struct in6_addr *ip);
void eipoib_peer_search(struct eipoib_dev *dev, const struct in6_addr *from,
			const struct in6_addr *ip, struct eipoib_batch *batch);
void eipoib_peer_wait(struct eipoib_dev *dev, const struct in6_addr *ip,
		      const struct in6_addr *from, struct sk_buff *skb);
void eipoib_peers_tick(struct eipoib_dev *dev, struct eipoib_batch *batch);
int eipoib_peers_dump(struct eipoib_dev *dev, struct eipoib_dump *dump);

#endif
