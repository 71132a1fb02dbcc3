/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets, for eth_ipoib's translations in user space
 *
 * A packet has a linear area and, perhaps, more bytes in an area of their own,
 * as a fragment.  Whatever makes more of it linear moves the linear area, so that
 * a pointer that is older points to freed memory.  Memory beside the data is
 * not to be accessed: AddressSanitizer watches it.
 */
#ifndef UNIT_SKB_H
#define UNIT_SKB_H

#define CHECKSUM_NONE		0
#define CHECKSUM_UNNECESSARY	1
#define CHECKSUM_COMPLETE	2
#define CHECKSUM_PARTIAL	3

struct sk_buff {
	struct sk_buff *next;
	u8 *head, *data, *tail, *end;
	u8 *frag;
	unsigned int len, data_len;
	unsigned int network_header;
	__be16 protocol;
	u8 ip_summed;
	bool gso;
	u32 priority;
	int skb_iif;
};

struct sk_buff_head {
	struct sk_buff *first, **last;
};

struct sk_buff *alloc_skb(unsigned int size, int gfp);
void kfree_skb(struct sk_buff *skb);
bool pskb_may_pull(struct sk_buff *skb, unsigned int len);
int skb_copy_bits(const struct sk_buff *skb, int at, void *to, int len);
struct sk_buff *skb_copy_expand(const struct sk_buff *old, int room, int more,
				int gfp);
void *skb_put(struct sk_buff *skb, unsigned int len);
void *skb_push(struct sk_buff *skb, unsigned int len);
void *skb_pull(struct sk_buff *skb, unsigned int len);
void skb_reserve(struct sk_buff *skb, int len);
void skb_trim(struct sk_buff *skb, unsigned int len);
int ipv6_skip_exthdr(const struct sk_buff *skb, int at, u8 *proto,
		     __be16 *fragment);
struct sk_buff *arp_create(int op, int proto, __be32 tip,
			   struct net_device *dev, __be32 sip, const u8 *dst,
			   const u8 *sha, const u8 *tha);
__be16 eth_type_trans(struct sk_buff *skb, struct net_device *dev);

#define consume_skb(skb)		kfree_skb(skb)
#define skb_is_gso(skb)			((skb)->gso)
#define skb_tail_pointer(skb)		((skb)->tail)
#define skb_set_transport_header(skb, at) \
	UNIT_CHECK((unsigned int)(at) <= (skb)->len)

static inline unsigned int skb_headlen(const struct sk_buff *skb)
{
	return skb->len - skb->data_len;
}

static inline struct iphdr *ip_hdr(const struct sk_buff *skb)
{
	return (void *)(skb->head + skb->network_header);
}

static inline void skb_reset_network_header(struct sk_buff *skb)
{
	skb->network_header = skb->data - skb->head;
}

/* 0, or there is no memory. */
static inline int skb_linearize(struct sk_buff *skb)
{
	return pskb_may_pull(skb, skb->len) ? 0 : -ENOMEM;
}

static inline void *skb_put_zero(struct sk_buff *skb, unsigned int len)
{
	return memset(skb_put(skb, len), 0, len);
}

static inline void *skb_put_data(struct sk_buff *skb, const void *data,
				 unsigned int len)
{
	return memcpy(skb_put(skb, len), data, len);
}

static inline void __skb_queue_head_init(struct sk_buff_head *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static inline void __skb_queue_tail(struct sk_buff_head *queue,
				    struct sk_buff *skb)
{
	skb->next = NULL;
	*queue->last = skb;
	queue->last = &skb->next;
}

static inline unsigned int skb_queue_len(const struct sk_buff_head *queue)
{
	const struct sk_buff *skb;
	unsigned int len = 0;

	for (skb = queue->first; skb; skb = skb->next)
		len++;
	return len;
}

static inline struct sk_buff *__skb_dequeue(struct sk_buff_head *queue)
{
	struct sk_buff *skb = queue->first;

	if (!skb)
		return NULL;
	queue->first = skb->next;
	if (!queue->first)
		queue->last = &queue->first;
	return skb;
}

#endif /* UNIT_SKB_H */
