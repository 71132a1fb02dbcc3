/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets of the stack
 */
#ifndef IPOIB_SKB_H
#define IPOIB_SKB_H

#include <linux/if_infiniband.h>
#include <linux/skbuff.h>
#include <net/sock.h>

#include "ipoib_fit.h"
#include "ipoib_proto.h"

void ipoib_drop(struct net_device *ndev, struct sk_buff *skb,
		enum skb_drop_reason reason);
int ipoib_skb_transport(const struct sk_buff *skb, struct ipoib_transport *t);
void ipoib_skb_describe(const struct sk_buff *skb, struct ipoib_fit_packet *p);

/* Ethertype of a packet with its link-layer address in front. */
static inline __be16 ipoib_skb_proto(const struct sk_buff *skb)
{
	const struct ipoib_encap *encap =
		(const void *)(skb->data + INFINIBAND_ALEN);

	return encap->proto;
}

/*
 * True if half of the sending socket's buffer is in use: its owner may soon
 * wait for a packet to complete, which must raise an interrupt.
 */
static inline bool ipoib_tx_owner_short(const struct sk_buff *skb)
{
	return skb->sk && sk_fullsock(skb->sk) && !sock_writeable(skb->sk);
}

#endif /* IPOIB_SKB_H */
