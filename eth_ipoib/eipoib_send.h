/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send packets to the fabric, to the guests, to this host
 */
#ifndef EIPOIB_SEND_H
#define EIPOIB_SEND_H

#include "eipoib.h"

/**
 * struct eipoib_batch - packets to be sent when the lock is released
 * @fabric: packets with a header of IPoIB in front
 * @guests: frames
 * @host: packets for this host, without a header of IPoIB
 */
struct eipoib_batch {
	struct sk_buff_head fabric;
	struct sk_buff_head guests;
	struct sk_buff_head host;
};

/**
 * eipoib_batch_count - how much is there to be sent?
 * @batch: packets
 * Return: number of those for the fabric and for guests, which grows unless there
 *	is no memory for another one
 */
static inline unsigned int
eipoib_batch_count(const struct eipoib_batch *batch)
{
	return skb_queue_len(&batch->fabric) + skb_queue_len(&batch->guests);
}

void eipoib_wait_add(struct eipoib_dev *dev, struct sk_buff_head *queue,
		     struct sk_buff *skb, enum eipoib_count which);
void eipoib_wait_take(struct eipoib_dev *dev, struct sk_buff_head *queue,
		      struct sk_buff_head *list);
void eipoib_wait_drop(struct eipoib_dev *dev, struct sk_buff_head *queue,
		      enum eipoib_count which);
void eipoib_batch_init(struct eipoib_batch *batch);
void eipoib_batch_host_too(struct eipoib_batch *batch, unsigned int count);
void eipoib_batch_send(struct eipoib_dev *dev, struct eipoib_batch *batch);

bool eipoib_sends(const struct sk_buff *skb);
bool eipoib_host_has(struct eipoib_dev *dev, const struct in6_addr *ip);
void eipoib_host_from(struct eipoib_dev *dev, const struct in6_addr *ip,
		      struct in6_addr *from);
const struct net_device *eipoib_host_dev(struct eipoib_dev *dev,
					 const struct in6_addr *ip);
bool eipoib_host_is(struct eipoib_dev *dev, const struct in6_addr *ip,
		    const u8 *mac);
bool eipoib_host_allows(struct eipoib_dev *dev, const struct in6_addr *ip,
			const u8 *mac);
void eipoib_scrub(struct sk_buff *skb);
bool eipoib_header(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		   const u8 *lladdr);
void eipoib_xmit_lower(struct eipoib_dev *dev, struct sk_buff *skb);
void eipoib_to_fabric(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		      const u8 *lladdr);
bool eipoib_frame(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		  const u8 *dst, const u8 *src);
void eipoib_to_guests(struct eipoib_dev *dev, struct sk_buff *skb);
void eipoib_to_host(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		    u8 pkt_type);
bool eipoib_from_here(const struct sk_buff *skb);

#endif
