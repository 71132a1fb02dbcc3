// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel functions that eth_ipoib's translations call
 */
#include <linux/if_arp.h>
#include <sanitizer/asan_interface.h>

unsigned long jiffies;
unsigned int unit_fail_at;
unsigned int unit_live;

/* ---- memory -------------------------------------------------------------- */

static bool unit_fails(void)
{
	return unit_fail_at && !--unit_fail_at;
}

/* Zeros, or NULL if it is this one's turn. */
void *unit_alloc(size_t size)
{
	void *p;

	if (unit_fails())
		return NULL;
	p = calloc(1, size);
	UNIT_CHECK(p);
	unit_live++;
	return p;
}

void unit_free(void *p)
{
	if (!p)
		return;
	UNIT_CHECK(unit_live);
	unit_live--;
	free(p);
}

/* ---- packets ------------------------------------------------------------- */

/* Nothing but the data is to be accessed. */
static void skb_fence(const struct sk_buff *skb)
{
	ASAN_UNPOISON_MEMORY_REGION(skb->head, skb->end - skb->head);
	ASAN_POISON_MEMORY_REGION(skb->head, skb->data - skb->head);
	ASAN_POISON_MEMORY_REGION(skb->tail, skb->end - skb->tail);
}

static void skb_free_head(u8 *head, const u8 *end)
{
	ASAN_UNPOISON_MEMORY_REGION(head, end - head);
	unit_free(head);
}

struct sk_buff *alloc_skb(unsigned int size, int gfp)
{
	struct sk_buff *skb = unit_alloc(sizeof(*skb));

	(void)gfp;
	if (!skb)
		return NULL;
	skb->head = unit_alloc(size);
	if (!skb->head) {
		unit_free(skb);
		return NULL;
	}
	/* The kernel's memory is not zeroed. */
	memset(skb->head, 0xa5, size);
	skb->data = skb->head;
	skb->tail = skb->head;
	skb->end = skb->head + size;
	skb_fence(skb);
	return skb;
}

void kfree_skb(struct sk_buff *skb)
{
	if (!skb)
		return;
	skb_free_head(skb->head, skb->end);
	unit_free(skb->frag);
	unit_free(skb);
}

void skb_reserve(struct sk_buff *skb, int len)
{
	UNIT_CHECK(!skb->len && len <= skb->end - skb->tail);
	skb->data += len;
	skb->tail += len;
}

void *skb_put(struct sk_buff *skb, unsigned int len)
{
	u8 *at = skb->tail;

	UNIT_CHECK(!skb->data_len && len <= skb->end - skb->tail);
	skb->tail += len;
	skb->len += len;
	skb_fence(skb);
	return at;
}

void *skb_push(struct sk_buff *skb, unsigned int len)
{
	UNIT_CHECK(len <= skb->data - skb->head);
	skb->data -= len;
	skb->len += len;
	skb_fence(skb);
	return skb->data;
}

void *skb_pull(struct sk_buff *skb, unsigned int len)
{
	UNIT_CHECK(len <= skb_headlen(skb));
	skb->data += len;
	skb->len -= len;
	skb_fence(skb);
	return skb->data;
}

void skb_trim(struct sk_buff *skb, unsigned int len)
{
	UNIT_CHECK(!skb->data_len);
	if (len >= skb->len)
		return;
	skb->tail = skb->data + len;
	skb->len = len;
	skb_fence(skb);
}

int skb_copy_bits(const struct sk_buff *skb, int at, void *to, int len)
{
	int head = skb_headlen(skb), part;

	if (at < 0 || len < 0 || at > (int)skb->len - len)
		return -EFAULT;
	part = clamp(head - at, 0, len);
	memcpy(to, skb->data + min(at, head), part);
	if (part < len)
		memcpy(to + part, skb->frag + at + part - head, len - part);
	return 0;
}

/* Make @len bytes linear, in a linear area that is another one then. */
bool pskb_may_pull(struct sk_buff *skb, unsigned int len)
{
	unsigned int head = skb_headlen(skb), rest;
	u8 *linear, *frag = NULL;

	if (len <= head)
		return true;
	if (len > skb->len)
		return false;
	rest = skb->len - len;
	linear = unit_alloc(len);
	if (rest && linear)
		frag = unit_alloc(rest);
	if (!linear || (rest && !frag)) {
		unit_free(linear);
		return false;
	}
	skb_copy_bits(skb, 0, linear, len);
	if (rest)
		skb_copy_bits(skb, len, frag, rest);
	skb_free_head(skb->head, skb->end);
	unit_free(skb->frag);
	skb->head = linear;
	skb->data = linear;
	skb->tail = linear + len;
	skb->end = skb->tail;
	skb->frag = frag;
	skb->data_len = rest;
	skb->network_header = 0;
	return true;
}

struct sk_buff *skb_copy_expand(const struct sk_buff *old, int room, int more,
				int gfp)
{
	struct sk_buff *skb = alloc_skb(room + old->len + more, gfp);

	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	skb_copy_bits(old, 0, skb_put(skb, old->len), old->len);
	skb->network_header = room;
	skb->protocol = old->protocol;
	skb->ip_summed = old->ip_summed;
	skb->priority = old->priority;
	return skb;
}

/* ---- checksums ----------------------------------------------------------- */

__wsum csum_partial(const void *data, int len, __wsum sum)
{
	const u8 *at = data;
	u64 all = (u32)sum;

	for (; len > 1; len -= 2, at += 2)
		all += get_unaligned((const u16 *)at);
	if (len)
		all += htobe16(*at << 8);
	while (all >> 32)
		all = (u32)all + (all >> 32);
	return (__wsum)all;
}

static __sum16 csum_end(__wsum sum, __u32 len, __u8 proto)
{
	__be32 more[] = { htonl(len), htonl(proto) };
	u32 all = (u32)csum_partial(more, sizeof(more), sum);

	while (all >> 16)
		all = (all & 0xffff) + (all >> 16);
	return (__sum16)~all;
}

__sum16 csum_ipv6_magic(const struct in6_addr *from, const struct in6_addr *to,
			__u32 len, __u8 proto, __wsum sum)
{
	sum = csum_partial(from, sizeof(*from), sum);
	return csum_end(csum_partial(to, sizeof(*to), sum), len, proto);
}

__sum16 csum_tcpudp_magic(__be32 from, __be32 to, __u32 len, __u8 proto,
			  __wsum sum)
{
	sum = csum_partial(&from, sizeof(from), sum);
	return csum_end(csum_partial(&to, sizeof(to), sum), len, proto);
}

void ip_send_check(struct iphdr *ip)
{
	ip->check = 0;
	ip->check = csum_end(csum_partial(ip, ip->ihl * 4, 0), 0, 0);
}

/* ---- protocols ----------------------------------------------------------- */

/* Where what follows the extension headers begins, -1: they go on elsewhere. */
int ipv6_skip_exthdr(const struct sk_buff *skb, int at, u8 *proto,
		     __be16 *fragment)
{
	u8 opt[4];

	*fragment = 0;
	while (ipv6_ext_hdr(*proto)) {
		if (*proto == NEXTHDR_NONE || skb_copy_bits(skb, at, opt, 2))
			return -1;
		if (*proto == NEXTHDR_FRAGMENT) {
			if (skb_copy_bits(skb, at, opt, 4))
				return -1;
			memcpy(fragment, opt + 2, 2);
			if (*fragment & htons(IP6_OFFSET))
				return at;
			at += 8;
		} else if (*proto == NEXTHDR_AUTH) {
			at += (opt[1] + 2) * 4;
		} else {
			at += (opt[1] + 1) * 8;
		}
		*proto = opt[0];
	}
	return at;
}

/* A message with the header of its link layer in front. */
struct sk_buff *arp_create(int op, int proto, __be32 tip,
			   struct net_device *dev, __be32 sip, const u8 *dst,
			   const u8 *sha, const u8 *tha)
{
	bool ether = dev->addr_len == ETH_ALEN;
	struct sk_buff *skb;
	struct arphdr *arp;
	__be16 *encap;

	skb = alloc_skb(LL_RESERVED_SPACE(dev) + sizeof(*arp) +
			2 * (dev->addr_len + sizeof(sip)), GFP_ATOMIC);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	arp = skb_put(skb, sizeof(*arp));
	*arp = (struct arphdr){
		.ar_hrd = htons(dev->type), .ar_pro = htons(ETH_P_IP),
		.ar_hln = dev->addr_len, .ar_pln = sizeof(sip),
		.ar_op = htons(op),
	};
	skb_put_data(skb, sha ?: dev->dev_addr, dev->addr_len);
	skb_put_data(skb, &sip, sizeof(sip));
	if (tha)
		skb_put_data(skb, tha, dev->addr_len);
	else
		skb_put_zero(skb, dev->addr_len);
	skb_put_data(skb, &tip, sizeof(tip));
	/* The type is behind both addresses, or behind the only one. */
	encap = skb_push(skb, ether ? 2 : 4);
	encap[0] = htons(proto);
	if (ether)
		memcpy(skb_push(skb, ETH_ALEN), sha ?: dev->dev_addr, ETH_ALEN);
	else
		encap[1] = 0;
	memcpy(skb_push(skb, dev->addr_len), dst ?: dev->broadcast,
	       dev->addr_len);
	return skb;
}

__be16 eth_type_trans(struct sk_buff *skb, struct net_device *dev)
{
	__be16 proto = ((const struct ethhdr *)skb->data)->h_proto;

	UNIT_CHECK(dev->addr_len == ETH_ALEN);
	skb_pull(skb, ETH_HLEN);
	return proto;
}

/* Multicast, as far as it is counted. */
int dev_mc_add(struct net_device *dev, const u8 *addr)
{
	UNIT_CHECK(addr[4] == 0xff);
	if (unit_fails())
		return -ENOMEM;
	dev->memberships++;
	return 0;
}

int dev_mc_del(struct net_device *dev, const u8 *addr)
{
	UNIT_CHECK(addr[4] == 0xff && dev->memberships);
	dev->memberships--;
	return 0;
}
