/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as the translations of eth_ipoib use, in user space
 *
 * Included before everything else but kernel.h.  Locks only check that they are
 * used as they have to be, lists and devices are the least that does.  What
 * fails here fails at once, as BUG() does.
 */
#ifndef UNIT_ETHERNET_H
#define UNIT_ETHERNET_H

#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/if_infiniband.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_sched.h>

#define UNIT_CHECK(x) \
	do { if (!(x)) unit_failed(__FILE__, __LINE__, #x); } while (0)

static inline __noreturn void unit_failed(const char *file, int line,
					  const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	__builtin_trap();
}

#define __percpu
#define BIT_ULL(n)		(1ULL << (n))
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, v)	((x) = (v))
#define data_race(expr)		(expr)
#define WARN_ON_ONCE(x)		({ UNIT_CHECK(!(x)); false; })
#define GFP_ATOMIC		0
#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))

#define ntohs(x)		be16toh(x)
#define ntohl(x)		be32toh(x)
#define htonl(x)		((__be32)htobe32(x))

static inline void unit_put_unaligned(const void *from, void *to, size_t len)
{
	memcpy(to, from, len);
}

#define put_unaligned(x, p) \
	unit_put_unaligned(&(typeof(*(p))) { x }, p, sizeof(*(p)))

/* ---- memory, time -------------------------------------------------------- */

extern unsigned long jiffies;
extern unsigned int unit_fail_at;	/* this allocation fails, 0: none */
extern unsigned int unit_live;		/* what was not freed yet */

void *unit_alloc(size_t size);
void unit_free(void *p);

#define kzalloc_obj(obj, gfp)	((typeof(obj) *)unit_alloc(sizeof(obj)))
#define kfree(p)		unit_free(p)

/* ---- locks --------------------------------------------------------------- */

struct unit_lock {
	bool held;
};

typedef struct unit_lock spinlock_t;

struct mutex {
	bool held;
};

static inline void unit_hold(bool *held, bool now)
{
	UNIT_CHECK(*held != now);
	*held = now;
}

#define spin_lock_bh(lock)	unit_hold(&(lock)->held, true)
#define spin_unlock_bh(lock)	unit_hold(&(lock)->held, false)
#define mutex_lock(lock)	unit_hold(&(lock)->held, true)
#define mutex_unlock(lock)	unit_hold(&(lock)->held, false)
#define lockdep_assert_held(lock)	UNIT_CHECK((lock)->held)
#define local_bh_disable()	do { } while (0)
#define local_bh_enable()	do { } while (0)

/* ---- lists --------------------------------------------------------------- */

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *list)
{
	entry->prev = list->prev;
	entry->next = list;
	list->prev->next = entry;
	list->prev = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
}

#define unit_entry(pos, p, member) container_of(p, typeof(*(pos)), member)
#define list_for_each_entry(pos, head, member)				\
	for (pos = unit_entry(pos, (head)->next, member);		\
	     &pos->member != (head);					\
	     pos = unit_entry(pos, pos->member.next, member))
#define list_for_each_entry_safe(pos, n, head, member)			\
	for (pos = unit_entry(pos, (head)->next, member),		\
	     n = unit_entry(pos, pos->member.next, member);		\
	     &pos->member != (head);					\
	     pos = n, n = unit_entry(pos, pos->member.next, member))

struct hlist_node {
	struct hlist_node *next, **at;
};

struct hlist_head {
	struct hlist_node *first;
};

static inline void hlist_add_head(struct hlist_node *node,
				  struct hlist_head *head)
{
	node->next = head->first;
	node->at = &head->first;
	if (node->next)
		node->next->at = &node->next;
	head->first = node;
}

static inline void hlist_del(struct hlist_node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
}

#define unit_hlist_entry(pos, p, member) ({				\
	struct hlist_node *__node = (p);				\
	__node ? unit_entry(pos, __node, member) : NULL;		\
})
#define hlist_for_each_entry(pos, head, member)				\
	for (pos = unit_hlist_entry(pos, (head)->first, member); pos;	\
	     pos = unit_hlist_entry(pos, pos->member.next, member))

/* ---- devices ------------------------------------------------------------- */

struct ratelimit_state { };
struct rhashtable { };
struct delayed_work { };
struct workqueue_struct { };
struct nf_hook_ops { };
struct u64_stats_sync { };
#define noinline	__attribute__((__noinline__))
#undef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))

struct genl_family;
struct netlink_ext_ack;
struct netlink_callback;

typedef struct { } netdevice_tracker;
typedef struct { u64 v; } u64_stats_t;

struct net_device {
	u16 type;
	u8 addr_len;
	u16 needed_tailroom;
	u8 dev_addr[INFINIBAND_ALEN];
	u8 broadcast[INFINIBAND_ALEN];
	unsigned int memberships;
	void *priv;
};

#define LL_RESERVED_SPACE(dev)		((dev)->addr_len == ETH_ALEN ? 16 : 48)
#define netdev_priv(dev)		((dev)->priv)
#define netif_carrier_ok(dev)		((void)(dev), true)
#define this_cpu_ptr(p)			(p)
#define u64_stats_update_begin(sync)	((void)(sync))
#define u64_stats_update_end(sync)	((void)(sync))
#define u64_stats_inc(count)		((count)->v++)
#define mod_delayed_work(wq, work, delay) ((void)(work))
#define __ratelimit(state)		((void)(state), true)
#define ratelimit_state_init(state, interval, burst) ((void)(state))
#define ratelimit_set_flags(state, flags) ((void)(state))

int dev_mc_add(struct net_device *dev, const u8 *addr);
int dev_mc_del(struct net_device *dev, const u8 *addr);

/* ---- link-layer addresses ------------------------------------------------ */

static inline bool ether_addr_equal(const u8 *a, const u8 *b)
{
	return !memcmp(a, b, ETH_ALEN);
}

#define ether_addr_equal_unaligned	ether_addr_equal

static inline void ether_addr_copy(u8 *to, const u8 *from)
{
	memcpy(to, from, ETH_ALEN);
}

static inline void eth_broadcast_addr(u8 *addr)
{
	memset(addr, 0xff, ETH_ALEN);
}

static inline bool is_zero_ether_addr(const u8 *addr)
{
	static const u8 zero[ETH_ALEN];

	return ether_addr_equal(addr, zero);
}

/* Only that it is a group, and which one, matters here, not the format. */
static inline void unit_group_addr(u8 *lladdr, const void *ip, size_t len)
{
	memset(lladdr, 0, INFINIBAND_ALEN);
	lladdr[4] = 0xff;
	memcpy(lladdr + 20 - min_t(size_t, len, 14),
	       ip + len - min_t(size_t, len, 14), min_t(size_t, len, 14));
}

static inline void ip_ib_mc_map(__be32 ip, const u8 *broadcast, u8 *lladdr)
{
	(void)broadcast;
	unit_group_addr(lladdr, &ip, sizeof(ip));
}

static inline void ipv6_ib_mc_map(const struct in6_addr *ip,
				  const u8 *broadcast, u8 *lladdr)
{
	(void)broadcast;
	unit_group_addr(lladdr, ip, sizeof(*ip));
}

static inline void ip_eth_mc_map(__be32 ip, u8 *mac)
{
	put_unaligned_be32(ntohl(ip) & 0x7fffff, mac + 2);
	mac[0] = 0x01;
	mac[1] = 0x00;
	mac[2] = 0x5e;
}

static inline void ipv6_eth_mc_map(const struct in6_addr *ip, u8 *mac)
{
	mac[0] = 0x33;
	mac[1] = 0x33;
	memcpy(mac + 2, ip->s6_addr + 12, 4);
}

/* ---- IP ------------------------------------------------------------------ */

#define NEXTHDR_HOP		0
#define NEXTHDR_ROUTING		43
#define NEXTHDR_FRAGMENT	44
#define NEXTHDR_AUTH		51
#define NEXTHDR_NONE		59
#define NEXTHDR_DEST		60
#define IP6_OFFSET		0xfff8
#define CSUM_MANGLED_0		((__sum16)0xffff)

#define ipv6_optlen(opt)	(((opt)->hdrlen + 1) << 3)

static inline void ipv6_addr_set(struct in6_addr *ip, __be32 a, __be32 b,
				 __be32 c, __be32 d)
{
	ip->s6_addr32[0] = a;
	ip->s6_addr32[1] = b;
	ip->s6_addr32[2] = c;
	ip->s6_addr32[3] = d;
}

static inline bool ipv6_addr_equal(const struct in6_addr *a,
				   const struct in6_addr *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static inline bool ipv6_addr_any(const struct in6_addr *ip)
{
	static const struct in6_addr any;

	return ipv6_addr_equal(ip, &any);
}

static inline bool ipv6_addr_loopback(const struct in6_addr *ip)
{
	static const struct in6_addr loopback = { .s6_addr = { [15] = 1 } };

	return ipv6_addr_equal(ip, &loopback);
}

static inline bool ipv6_addr_is_multicast(const struct in6_addr *ip)
{
	return ip->s6_addr[0] == 0xff;
}

static inline void ipv6_addr_set_v4mapped(__be32 v4, struct in6_addr *ip)
{
	ipv6_addr_set(ip, 0, 0, htonl(0xffff), v4);
}

static inline bool ipv6_addr_v4mapped(const struct in6_addr *ip)
{
	struct in6_addr mapped;

	ipv6_addr_set_v4mapped(ip->s6_addr32[3], &mapped);
	return ipv6_addr_equal(ip, &mapped);
}

static inline u64 ether_addr_to_u64(const u8 *addr)
{
	u64 value = 0;
	int i;

	for (i = 0; i < ETH_ALEN; i++)
		value = value << 8 | addr[i];
	return value;
}

static inline u32 jhash2(const u32 *words, u32 num, u32 start)
{
	while (num--)
		start = (start ^ *words++) * 0x9e3779b1U;
	return start;
}

static inline u32 ipv6_addr_hash(const struct in6_addr *ip)
{
	return jhash2(ip->s6_addr32, 4, 0);
}

static inline void addrconf_addr_solict_mult(const struct in6_addr *ip,
					     struct in6_addr *group)
{
	ipv6_addr_set(group, htonl(0xff020000), 0, htonl(1),
		      htonl(0xff000000) | ip->s6_addr32[3]);
}

static inline bool ipv4_is_multicast(__be32 ip)
{
	return ntohl(ip) >> 28 == 14;
}

static inline bool ipv4_is_lbcast(__be32 ip)
{
	return ip == htonl(INADDR_BROADCAST);
}

static inline bool ipv4_is_loopback(__be32 ip)
{
	return ntohl(ip) >> 24 == 127;
}

static inline bool ipv4_is_zeronet(__be32 ip)
{
	return !(ntohl(ip) >> 24);
}

#define IP_MF		0x2000
#define IP_OFFSET	0x1fff

static inline bool ip_is_fragment(const struct iphdr *ip)
{
	return ip->frag_off & htons(IP_MF | IP_OFFSET);
}

static inline bool ipv6_ext_hdr(u8 proto)
{
	return proto == NEXTHDR_HOP || proto == NEXTHDR_ROUTING ||
	       proto == NEXTHDR_FRAGMENT || proto == NEXTHDR_AUTH ||
	       proto == NEXTHDR_NONE || proto == NEXTHDR_DEST;
}

__wsum csum_partial(const void *data, int len, __wsum sum);
__sum16 csum_ipv6_magic(const struct in6_addr *from, const struct in6_addr *to,
			__u32 len, __u8 proto, __wsum sum);
__sum16 csum_tcpudp_magic(__be32 from, __be32 to, __u32 len, __u8 proto,
			  __wsum sum);
void ip_send_check(struct iphdr *ip);

/* ---- MLD, RFC 2710 and 3810 ---------------------------------------------- */

struct mld_msg {
	struct icmp6hdr mld_hdr;
	struct in6_addr mld_mca;
};

#define mld_type	mld_hdr.icmp6_type

struct mld2_grec {
	__u8 grec_type;
	__u8 grec_auxwords;
	__be16 grec_nsrcs;
	struct in6_addr grec_mca;
};

struct mld2_report {
	struct icmp6hdr mld2r_hdr;
};

#define mld2r_ngrec	mld2r_hdr.icmp6_dataun.un_data16[1]

/* ---- netlink: nothing is dumped ------------------------------------------ */

struct sk_buff;

static inline int nla_put(struct sk_buff *skb, int attr, int len,
			  const void *data)
{
	(void)skb, (void)attr, (void)len, (void)data;
	return -EMSGSIZE;
}

#define nla_put_u32(skb, attr, value)	nla_put(skb, attr, 4, &(u32){ value })
#define nla_put_flag(skb, attr)		nla_put(skb, attr, 0, NULL)

#include "skb.h"

#endif /* UNIT_ETHERNET_H */
