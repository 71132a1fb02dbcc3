// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzzer: what eth_ipoib translates between a guest and the fabric
 *
 * The input is a few bytes that say what kind of packet there is, from which
 * side, and how much of it is linear, and bytes of the packet.  Messages that
 * are translated must be well-formed on the other side, say the same, and be the
 * same when they are translated back.  Nothing may be leaked, even if memory
 * runs out.
 */
#include <linux/if_arp.h>

#include "eipoib_arp.h"
#include "eipoib_dhcp.h"
#include "eipoib_group.h"
#include "eipoib_nd.h"
#include "fuzz_ethernet.h"

const char *__asan_default_options(void);

/* Leak detection needs ptrace. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

const u8 fuzz_station[ETH_ALEN] = { 2, 0, 0, 0, 0, 1 };
const u8 fuzz_other[ETH_ALEN] = { 2, 0, 0, 0, 0, 2 };

static struct eipoib_counts fuzz_counts;
static struct net_device fuzz_ndev = {
	.type = ARPHRD_ETHER, .addr_len = ETH_ALEN,
	.dev_addr = { 2, 0, 0, 0, 0, 3 },
};

static struct net_device fuzz_lower = {
	.type = ARPHRD_INFINIBAND, .addr_len = INFINIBAND_ALEN,
	.needed_tailroom = 4, .dev_addr = { 0, 0, 0, 72, 0xfe, 0x80 },
	.broadcast = { 0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b },
};

struct eipoib_dev fuzz_dev = {
	.ndev = &fuzz_ndev, .lower = &fuzz_lower, .counts = &fuzz_counts,
	.asker = { EIPOIB_MAC_FIRST, 0xab },
};

struct workqueue_struct *eipoib_wq;

/* Has an allocation failed? */
bool fuzz_failed(const struct fuzz_input *in)
{
	return in->fail && !unit_fail_at;
}

void fuzz_flatten(struct fuzz_flat *flat, const struct sk_buff *skb)
{
	flat->len = skb->len;
	UNIT_CHECK(flat->len <= sizeof(flat->data) &&
		   !skb_copy_bits(skb, 0, flat->data, flat->len));
}

bool fuzz_same(const struct fuzz_flat *flat, const struct sk_buff *skb)
{
	struct fuzz_flat now;

	fuzz_flatten(&now, skb);
	return now.len == flat->len && !memcmp(now.data, flat->data, now.len);
}

/* A packet that ends where its memory ends, of which @headlen bytes are linear. */
struct sk_buff *fuzz_skb(const struct fuzz_flat *flat, u32 headlen)
{
	unsigned int fail_at = unit_fail_at;
	struct sk_buff *skb;

	unit_fail_at = 0;
	skb = alloc_skb(headlen, GFP_ATOMIC);
	skb_put_data(skb, flat->data, headlen);
	skb->data_len = flat->len - headlen;
	skb->len = flat->len;
	if (skb->data_len) {
		skb->frag = unit_alloc(skb->data_len);
		memcpy(skb->frag, flat->data + headlen, skb->data_len);
	}
	unit_fail_at = fail_at;
	return skb;
}

/* ---- what eipoib_send.c does --------------------------------------------- */

void eipoib_scrub(struct sk_buff *skb)
{
	(void)skb;
}

bool eipoib_header(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		   const u8 *lladdr)
{
	skb->protocol = proto;
	memset(skb_push(skb, EIPOIB_ENCAP_LEN), 0, EIPOIB_ENCAP_LEN);
	memcpy(skb_push(skb, INFINIBAND_ALEN), lladdr, INFINIBAND_ALEN);
	UNIT_CHECK(dev == &fuzz_dev);
	return true;
}

bool eipoib_frame(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		  const u8 *dst, const u8 *src)
{
	struct ethhdr *eth = skb_push(skb, ETH_HLEN);

	ether_addr_copy(eth->h_dest, dst);
	ether_addr_copy(eth->h_source, src);
	eth->h_proto = proto;
	skb->protocol = eth_type_trans(skb, dev->ndev);
	return true;
}

void eipoib_batch_host_too(struct eipoib_batch *batch, unsigned int count)
{
	(void)batch, (void)count;
}

int eipoib_dump_one(const struct eipoib_dev *dev, struct eipoib_dump *dump,
		    eipoib_msg_fill_t fill, const void *object, u64 at)
{
	(void)dev, (void)dump, (void)fill, (void)object, (void)at;
	return -EMSGSIZE;
}

int eipoib_msg_put_ip(struct sk_buff *skb, int attr, const struct in6_addr *ip)
{
	(void)skb, (void)attr, (void)ip;
	return -EMSGSIZE;
}

int eipoib_msg_put_ms(struct sk_buff *skb, int attr, unsigned long time)
{
	(void)skb, (void)attr, (void)time;
	return -EMSGSIZE;
}

/* Nobody is limited here. */
bool eipoib_share_take(struct eipoib_share *share, u64 source)
{
	return true;
}

static void fuzz_batch_init(struct eipoib_batch *batch)
{
	__skb_queue_head_init(&batch->fabric);
	__skb_queue_head_init(&batch->guests);
	__skb_queue_head_init(&batch->host);
}

/* ---- neighbour discovery ------------------------------------------------- */

/* Bytes before the options: RFC 4861 section 4; 0: it is something else */
static u32 fuzz_nd_fixed(u8 type)
{
	static const u8 fixed[] = { 8, 16, 24, 24, 40 };

	return type >= 133 && type < 133 + ARRAY_SIZE(fixed) ?
	       fixed[type - 133] : 0;
}

static bool fuzz_nd_sum_ok(const struct fuzz_flat *p, u32 len)
{
	const struct ipv6hdr *ip = (const void *)p->data;

	return !csum_ipv6_magic(&ip->saddr, &ip->daddr, len, IPPROTO_ICMPV6,
				csum_partial(ip + 1, len, 0));
}

/* What receivers have to check: RFC 4861 section 6.1, 7.1, 8.1. */
static bool fuzz_nd_valid(const struct fuzz_flat *p, u8 summed)
{
	static const u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	u32 fixed = fuzz_nd_fixed(p->data[40]), at = 40 + fixed, end;

	end = 40 + p->data[4] * 256 + p->data[5];
	if (end > p->len || at > end || p->data[7] != 255 || p->data[41])
		return false;
	if (!memcmp(p->data + 8, mapped, sizeof(mapped)) ||
	    !memcmp(p->data + 24, mapped, sizeof(mapped)))
		return false;
	if (fixed >= 24 && (p->data[48] == 0xff ||
			    !memcmp(p->data + 48, mapped, sizeof(mapped))))
		return false;
	for (; at < end; at += p->data[at + 1] * 8)
		if (end - at < 8 || !p->data[at + 1])
			return false;
	return at == end && ((summed & 1) || fuzz_nd_sum_ok(p, end - 40));
}

/*
 * The options but for those with link-layer addresses, with the header without
 * length and checksum before them; returns how many of the former there are.
 */
static int fuzz_nd_rest(const struct sk_buff *skb, struct fuzz_flat *rest)
{
	struct fuzz_flat p;
	u32 at, end, len;
	int num = 0;

	fuzz_flatten(&p, skb);
	end = 40 + p.data[4] * 256 + p.data[5];
	at = 40 + fuzz_nd_fixed(p.data[40]);
	memcpy(rest->data, p.data, at);
	memset(rest->data + 4, 0, 2);
	memset(rest->data + 42, 0, 2);
	rest->len = at;
	for (; at < end; at += len) {
		len = p.data[at + 1] * 8;
		if (p.data[at] == 1 || p.data[at] == 2) {
			num++;
			continue;
		}
		memcpy(rest->data + rest->len, p.data + at, len);
		rest->len += len;
	}
	return num;
}

/* @made is @old for the other side, with @lladdr. */
static void fuzz_nd_check(struct sk_buff *old, const struct eipoib_nd *nd,
			  struct sk_buff *made, u8 to, const u8 *lladdr)
{
	bool has = nd->has_lladdr && lladdr;
	struct fuzz_flat was, is;
	struct eipoib_nd now;

	UNIT_CHECK(made->protocol == htons(ETH_P_IPV6) &&
		   made->ip_summed == CHECKSUM_NONE);
	UNIT_CHECK(eipoib_nd_is(made) && eipoib_nd_parse(made, to, &now));
	UNIT_CHECK(now.type == nd->type && now.router == nd->router &&
		   ipv6_addr_equal(&now.src, &nd->src) &&
		   ipv6_addr_equal(&now.dst, &nd->dst) &&
		   ipv6_addr_equal(&now.target, &nd->target) &&
		   ipv6_addr_equal(&now.about, &nd->about));
	UNIT_CHECK(now.has_lladdr == has);
	UNIT_CHECK(!has || !memcmp(now.lladdr, lladdr, to));
	fuzz_nd_rest(old, &was);
	UNIT_CHECK(fuzz_nd_rest(made, &is) == has);
#ifdef FUZZ_DEFECT
	/* As if an option with a DNS server at the end was lost. */
	if (is.data[is.len - 24] == 25 && is.data[is.len - 23] == 3)
		is.len -= 24;
#endif
	UNIT_CHECK(was.len == is.len && !memcmp(was.data, is.data, is.len));
	UNIT_CHECK(made->len == was.len + (has ? (to == ETH_ALEN ? 8 : 24) : 0));
}

/* The way back gives what translating for the same side gives. */
static void fuzz_nd_back(struct sk_buff *old, const struct eipoib_nd *nd,
			 struct sk_buff *made, u8 from, u8 to)
{
	struct sk_buff *back, *same;
	struct fuzz_flat flat;
	struct eipoib_nd now;

	UNIT_CHECK(eipoib_nd_parse(made, to, &now));
	back = eipoib_nd_translate(&fuzz_dev, made, &now, from, nd->lladdr);
	same = eipoib_nd_translate(&fuzz_dev, old, nd, from, nd->lladdr);
	if (back && same) {
		fuzz_nd_check(old, nd, back, from, nd->lladdr);
		fuzz_flatten(&flat, same);
		UNIT_CHECK(fuzz_same(&flat, back));
	}
	kfree_skb(back);
	kfree_skb(same);
}

static void fuzz_nd(const struct fuzz_input *in, struct sk_buff *skb)
{
	u8 from = in->flags & FUZZ_FABRIC ? INFINIBAND_ALEN : ETH_ALEN;
	u8 to = from ^ ETH_ALEN ^ INFINIBAND_ALEN;
	const u8 *lladdr = in->flags & FUZZ_NONE ? NULL : fuzz_lower.dev_addr;
	struct fuzz_flat flat;
	struct eipoib_nd nd;
	struct sk_buff *made;
	bool ok;

	fuzz_flatten(&flat, skb);
	ok = eipoib_nd_parse(skb, from, &nd);
	UNIT_CHECK(fuzz_same(&flat, skb));
	UNIT_CHECK(ok == fuzz_nd_valid(&flat, skb->ip_summed) ||
		   (!ok && fuzz_failed(in)));
	if (!ok)
		return;
	made = eipoib_nd_translate(&fuzz_dev, skb, &nd, to, lladdr);
	UNIT_CHECK(made || fuzz_failed(in));
	if (!made)
		return;
	UNIT_CHECK(fuzz_same(&flat, skb));
	fuzz_nd_check(skb, &nd, made, to, lladdr);
	if (lladdr)
		fuzz_nd_back(skb, &nd, made, from, to);
	kfree_skb(made);
}

/* Messages of our own are as good as others'. */
static void fuzz_nd_own(const struct in6_addr *from, const struct in6_addr *ip)
{
	struct eipoib_batch batch;
	struct sk_buff *skb;
	struct eipoib_nd nd;

	if (ipv6_addr_is_multicast(ip) || eipoib_is_v4(ip) || eipoib_is_v4(from))
		return;
	fuzz_batch_init(&batch);
	eipoib_nd_ask_fabric(&fuzz_dev, from, ip, &batch);
	eipoib_nd_announce(&fuzz_dev, ip, true, &batch);
	while ((skb = __skb_dequeue(&batch.fabric))) {
		skb_pull(skb, EIPOIB_HARD_LEN);
		UNIT_CHECK(eipoib_nd_is(skb) &&
			   eipoib_nd_parse(skb, INFINIBAND_ALEN, &nd));
		UNIT_CHECK(ipv6_addr_equal(&nd.target, ip) &&
			   nd.has_lladdr == !ipv6_addr_any(&nd.about) &&
			   (!nd.has_lladdr ||
			    eipoib_lladdr_is_own(&fuzz_dev, nd.lladdr)));
		kfree_skb(skb);
	}
	eipoib_nd_ask_guest(&fuzz_dev, ip, fuzz_station, &batch);
	eipoib_nd_tell_guests(&fuzz_dev, ip, false, &batch);
	while ((skb = __skb_dequeue(&batch.guests))) {
		UNIT_CHECK(eipoib_nd_is(skb) &&
			   eipoib_nd_parse(skb, ETH_ALEN, &nd));
		UNIT_CHECK(ipv6_addr_equal(&nd.target, ip) &&
			   nd.has_lladdr == !ipv6_addr_any(&nd.about));
		kfree_skb(skb);
	}
}

/* ---- extension headers, groups ------------------------------------------- */

/* Can a receiver that goes on as far as it can find neighbour discovery here? */
static bool fuzz_reaches_nd(const struct fuzz_flat *p)
{
	u8 proto = p->data[6], next;
	u32 at = 40;

	while (at + 8 <= p->len) {
		next = p->data[at];
		switch (proto) {
		case NEXTHDR_HOP:
		case NEXTHDR_ROUTING:
		case NEXTHDR_DEST:
			at += 8 + p->data[at + 1] * 8;
			break;
		case NEXTHDR_AUTH:
			at += 8 + p->data[at + 1] * 4;
			break;
		case NEXTHDR_FRAGMENT:
			if (p->data[at + 2] || p->data[at + 3] & 0xf8)
				return false;
			at += 8;
			break;
		default:
			return proto == IPPROTO_ICMPV6 &&
			       fuzz_nd_fixed(p->data[at]);
		}
		proto = next;
	}
	return false;
}

struct fuzz_groups {
	u32 num;
	struct in6_addr ip[256];
};

/* Another address, of 4 or of 16 bytes, unless it is no group or known. */
static void fuzz_groups_add(struct fuzz_groups *groups, const u8 *addr, u32 alen)
{
	static const u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	u8 ip[16];
	u32 i;

	memcpy(ip, mapped, sizeof(mapped));
	memcpy(ip + 16 - alen, addr, alen);
	if (alen == 4 ? ip[12] >> 4 != 14 : ip[0] != 0xff)
		return;
	for (i = 0; i < groups->num; i++)
		if (!memcmp(&groups->ip[i], ip, sizeof(ip)))
			return;
	memcpy(&groups->ip[groups->num++], ip, sizeof(ip));
}

/* Reports of IGMPv3 and MLDv2 have one form but for the length of addresses. */
static void fuzz_groups_records(struct fuzz_groups *groups,
				const struct fuzz_flat *p, u32 at, u32 alen)
{
	u32 records = min(p->data[at + 6] * 256 + p->data[at + 7], 128);

	for (at += 8; records-- && at + 4 + alen <= p->len;) {
		const u8 *rec = p->data + at;
		u32 sources = rec[2] * 256 + rec[3];

		if (sources || (rec[0] != 1 && rec[0] != 3 && rec[0] != 6))
			fuzz_groups_add(groups, rec + 4, alen);
		at += 4 + alen + alen * sources + 4 * rec[1];
	}
}

/* What a packet reports; false: it is no report. */
static bool fuzz_groups_read(struct fuzz_groups *groups,
			     const struct fuzz_flat *p, u32 alen)
{
	u32 at = (p->data[0] & 15) * 4;
	u8 type;

	if (alen == 16) {
		if (p->data[6] != NEXTHDR_HOP || p->len < 48 ||
		    p->data[40] != IPPROTO_ICMPV6)
			return false;
		at = 48 + p->data[41] * 8;
	}
	if (at + 8 > p->len)
		return false;
	type = p->data[at];
	if (type == (alen == 4 ? 0x22 : 143)) {
		fuzz_groups_records(groups, p, at, alen);
		return true;
	}
	if (alen == 4 ? type != 0x12 && type != 0x16 : type != 131)
		return false;
	if (alen == 4 || at + 24 <= p->len)
		fuzz_groups_add(groups, p->data + at + (alen == 4 ? 4 : 8), alen);
	return true;
}

/* Join and leave; what nobody needs any longer does not stay. */
static void fuzz_groups_end(const struct fuzz_input *in, u32 num)
{
	int i;

	for (i = 0; i < 8; i++)
		eipoib_groups_sync(&fuzz_dev);
	UNIT_CHECK(fuzz_lower.memberships == num || fuzz_failed(in));
	jiffies += 261 * HZ;
	spin_lock_bh(&fuzz_dev.lock);
	eipoib_groups_tick(&fuzz_dev);
	spin_unlock_bh(&fuzz_dev.lock);
	for (i = 0; i < 8; i++)
		eipoib_groups_sync(&fuzz_dev);
	UNIT_CHECK(!fuzz_lower.memberships && !fuzz_dev.num_groups);
}

/* Groups that addresses of guests need, while the interface comes and goes. */
static void fuzz_groups_own(const struct fuzz_input *in,
			    const struct in6_addr *ip)
{
	bool has;

	eipoib_groups_open(&fuzz_dev);
	spin_lock_bh(&fuzz_dev.lock);
	has = eipoib_group_get(&fuzz_dev, ip);
	spin_unlock_bh(&fuzz_dev.lock);
	UNIT_CHECK(has == !eipoib_is_v4(ip) || fuzz_failed(in));
	eipoib_groups_sync(&fuzz_dev);
	UNIT_CHECK(fuzz_lower.memberships == 2U + has || fuzz_failed(in));
	eipoib_groups_away(&fuzz_dev, true);
	UNIT_CHECK(!fuzz_lower.memberships);
	eipoib_groups_away(&fuzz_dev, false);
	spin_lock_bh(&fuzz_dev.lock);
	if (has)
		eipoib_group_put(&fuzz_dev, ip);
	spin_unlock_bh(&fuzz_dev.lock);
	eipoib_groups_sync(&fuzz_dev);
	UNIT_CHECK(fuzz_lower.memberships == 2 || fuzz_failed(in));
	eipoib_groups_close(&fuzz_dev);
	UNIT_CHECK(!fuzz_lower.memberships && !fuzz_dev.num_groups);
}

/* What the station has reported before, one group at a time */
static void fuzz_groups_before(const struct fuzz_input *in, const u8 *mac,
			       struct fuzz_groups *groups)
{
	struct fuzz_flat p = {
		.len = 28, .data = { 0x45, [20] = 0x16, [24] = 239, 1 },
	};
	struct sk_buff *skb;
	u32 i;

	if (in->later < 0xf0)
		return;
	for (i = 0; i < in->later - 0xf0U + 52; i++) {
		p.data[27] = i;
		skb = fuzz_skb(&p, p.len);
		UNIT_CHECK(eipoib_group_snoop4(&fuzz_dev, skb, mac));
		kfree_skb(skb);
		fuzz_groups_add(groups, p.data + 24, 4);
	}
}

static void fuzz_groups(const struct fuzz_input *in, struct sk_buff *skb,
			u32 alen)
{
	const u8 *mac = in->flags & FUZZ_NONE ? NULL : fuzz_station;
	struct fuzz_groups groups;
	struct fuzz_flat flat;
	bool is, report;
	u32 num;

	fuzz_flatten(&flat, skb);
	groups.num = 0;
	fuzz_groups_before(in, mac, &groups);
	report = fuzz_groups_read(&groups, &flat, alen);
	is = alen == 4 ? eipoib_group_snoop4(&fuzz_dev, skb, mac) :
			 eipoib_group_snoop6(&fuzz_dev, skb, mac);
	UNIT_CHECK(is == report || fuzz_failed(in));
	UNIT_CHECK(fuzz_same(&flat, skb));
	/* A station may have 64. */
	num = mac ? min(groups.num, 64U) : 0;
	UNIT_CHECK(fuzz_dev.num_groups == num || fuzz_failed(in));
	fuzz_groups_end(in, num);
}

static void fuzz_ip6(const struct fuzz_input *in, struct sk_buff *skb)
{
	struct in6_addr from, to;
	struct fuzz_flat flat;
	bool hidden;

	fuzz_flatten(&flat, skb);
	if (!pskb_may_pull(skb, sizeof(struct ipv6hdr)))
		return;
	if (eipoib_nd_is(skb)) {
		fuzz_nd(in, skb);
		return;
	}
	if (fuzz_failed(in))
		return;
	from = ((const struct ipv6hdr *)skb->data)->saddr;
	to = ((const struct ipv6hdr *)skb->data)->daddr;
	hidden = eipoib_nd_hidden(skb);
	UNIT_CHECK(fuzz_same(&flat, skb));
	UNIT_CHECK(hidden || !fuzz_reaches_nd(&flat));
	if (!hidden)
		fuzz_groups(in, skb, sizeof(struct in6_addr));
	fuzz_groups_own(in, &to);
	fuzz_nd_own(&from, &to);
}

/* Returns what is to be freed. */
static struct sk_buff *fuzz_ip4(const struct fuzz_input *in,
				struct sk_buff *skb)
{
	if (!pskb_may_pull(skb, sizeof(struct iphdr)) ||
	    skb->data[0] >> 4 != 4 || (skb->data[0] & 15) < 5 ||
	    !pskb_may_pull(skb, (skb->data[0] & 15) * 4))
		return skb;
	if (skb->data[9] == IPPROTO_IGMP)
		fuzz_groups(in, skb, sizeof(__be32));
	return fuzz_dhcp(in, skb);
}

/* ---- ARP ----------------------------------------------------------------- */

/* Questions and announcements of our own */
static void fuzz_arp_own(__be32 ip)
{
	struct eipoib_batch batch;
	struct eipoib_arp arp;
	struct sk_buff *skb;

	fuzz_batch_init(&batch);
	eipoib_arp_announce(&fuzz_dev, ip, &batch);
	while ((skb = __skb_dequeue(&batch.fabric))) {
		skb_pull(skb, EIPOIB_HARD_LEN);
		UNIT_CHECK(eipoib_arp_parse(skb, ARPHRD_INFINIBAND,
					    INFINIBAND_ALEN, &arp));
		UNIT_CHECK(arp.tip == ip && arp.sip == ip &&
			   eipoib_lladdr_is_own(&fuzz_dev, arp.sha));
		kfree_skb(skb);
	}
	eipoib_arp_ask_guest(&fuzz_dev, ip, fuzz_station, &batch);
	eipoib_arp_tell_guests(&fuzz_dev, ip, &batch);
	while ((skb = __skb_dequeue(&batch.guests))) {
		UNIT_CHECK(skb->protocol == htons(ETH_P_ARP) &&
			   eipoib_arp_parse(skb, ARPHRD_ETHER, ETH_ALEN, &arp));
		UNIT_CHECK(arp.tip == ip && (arp.sip ?
			   eipoib_mac_kind(arp.sha) == EIPOIB_MAC_V4 &&
			   eipoib_mac_value(arp.sha) == ip :
			   !ip || eipoib_mac_kind(arp.sha) == EIPOIB_MAC_ASKER));
		kfree_skb(skb);
	}
}

static void fuzz_arp(const struct fuzz_input *in, struct sk_buff *skb)
{
	bool fabric = in->flags & FUZZ_FABRIC;
	u8 alen = fabric ? INFINIBAND_ALEN : ETH_ALEN;
	static const u8 wide[] = { 0, 32, 8, 0, 20, 4, 0 };
	static const u8 narrow[] = { 0, 1, 8, 0, 6, 4, 0 };
	struct eipoib_arp arp, now;
	struct fuzz_flat flat;
	struct sk_buff *made;
	bool ok;

	fuzz_flatten(&flat, skb);
	ok = eipoib_arp_parse(skb, fabric ? ARPHRD_INFINIBAND : ARPHRD_ETHER,
			      alen, &arp);
	UNIT_CHECK(ok == (flat.len >= 8U + 2 * (alen + 4) &&
			  !memcmp(flat.data, fabric ? wide : narrow, 7) &&
			  (flat.data[7] == 1 || flat.data[7] == 2)) ||
		   (!ok && fuzz_failed(in)));
	if (!ok)
		return;
	UNIT_CHECK(!memcmp(skb->data + 8, arp.sha, alen) &&
		   !memcmp(skb->data + 8 + alen, &arp.sip, 4) &&
		   !memcmp(skb->data + 12 + 2 * alen, &arp.tip, 4));
	if (fabric) {
		memcpy(arp.sha, fuzz_other, ETH_ALEN);
		made = eipoib_arp_for_guests(&fuzz_dev, &arp, fuzz_station,
					     fuzz_other);
	} else {
		made = eipoib_arp_for_fabric(&fuzz_dev, &arp,
					     fuzz_lower.broadcast);
		memcpy(arp.sha, fuzz_lower.dev_addr, INFINIBAND_ALEN);
	}
	UNIT_CHECK(made || fuzz_failed(in));
	if (!made)
		return;
	if (!fabric)
		skb_pull(made, EIPOIB_HARD_LEN);
	alen ^= ETH_ALEN ^ INFINIBAND_ALEN;
	UNIT_CHECK(eipoib_arp_parse(made, fabric ? ARPHRD_ETHER :
				    ARPHRD_INFINIBAND, alen, &now));
	UNIT_CHECK(made->len == 8U + 2 * (alen + 4) && now.op == arp.op &&
		   now.sip == arp.sip && now.tip == arp.tip &&
		   !memcmp(now.sha, arp.sha, alen));
	kfree_skb(made);
	fuzz_arp_own(now.tip);
}

/* ---- packets ------------------------------------------------------------- */

/* Options that fill their room, in as many bytes as there are. */
static void fuzz_make_options(struct fuzz_flat *p, u32 at)
{
	u32 left;

	p->len -= (p->len - at) % 8;
	for (; at + 1 < p->len; at += p->data[at + 1] * 8) {
		left = (p->len - at) / 8;
		if (!p->data[at + 1] || p->data[at + 1] > left)
			p->data[at + 1] = min(left, 1U + p->data[at + 1] % 4);
	}
}

static u32 fuzz_make_ip6(const struct fuzz_input *in, u8 *pkt)
{
	static const u8 next[] = { 0, 43, 44, 51, 60, 58, 59, 17 };
	static const u8 message[] = { 131, 143, 133, 137 };
	static const u8 to[] = { 0xff, 2, [15] = 1 };
	static const u8 from[] = { 0xfe, 0x80, [15] = 1 };

	pkt[0] = 0x60;
	pkt[6] = next[in->type % ARRAY_SIZE(next)];
	pkt[7] = 255;
	if (!(in->type & 0x80))
		memcpy(pkt + 8, from, sizeof(from));
	memcpy(pkt + 24, to, sizeof(to));
	if (in->kind % FUZZ_KINDS == FUZZ_ND) {
		pkt[6] = IPPROTO_ICMPV6;
		pkt[40] = 133 + in->type % 5;
		pkt[44] = in->type;
		if (fuzz_nd_fixed(pkt[40]) >= 24)
			memcpy(pkt + 48, from, sizeof(from));
		return 40 + fuzz_nd_fixed(pkt[40]);
	}
	if (!(in->type & 0x40))
		return 40;
	/* A router alert, as MLD has it; a report, or what is not to be there */
	memcpy(pkt + 40, (u8 []){ IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0 }, 8);
	pkt[6] = NEXTHDR_HOP;
	pkt[48] = message[in->type % 4];
	pkt[55] = in->num;
	return 56;
}

/*
 * What is not a client's request, but for a few bits.  Returns how many bytes of
 * options there are.
 */
static u32 fuzz_make_relayed(const struct fuzz_input *in, u8 *pkt, u8 *bootp)
{
	static const u8 relay[] = { 10, 42, 0, 0 };
	u8 type = in->type, *opt = bootp + FUZZ_BOOTP;

	if (type >= 0xb0 && type < 0xc0)
		pkt[12] = 10;
	if (type < 0xc0)
		return 0;
	bootp[24] = relay[type >> 4 & 3];
	if (type >= 0xf0)
		pkt[6] = 0x20;
	if (!(type & 8))
		return 0;
	bootp[0] = 2 + (type & 1);
	*opt++ = 53;
	*opt++ = 1;
	*opt++ = in->num % 16;
	return 3;
}

static u32 fuzz_make_ip4(const struct fuzz_input *in, u8 *pkt)
{
	bool fabric = in->flags & FUZZ_FABRIC;
	u8 *bootp = pkt + 28;
	u32 more = 0;

	pkt[0] = 0x45;
	pkt[9] = IPPROTO_IGMP;
	pkt[20] = in->type & 1 ? 0x22 : 0x16;
	pkt[27] = in->num;
	if (in->kind % FUZZ_KINDS == FUZZ_IGMP)
		return in->type & 1 ? 28 : 24;
	memset(pkt + 20, 0, 8);
	pkt[9] = IPPROTO_UDP;
	pkt[21] = fabric ? 67 : 68;
	pkt[23] = fabric ? 68 : 67;
	bootp[0] = 1 + fabric;
	bootp[1] = fabric ? 32 : 1;
	bootp[2] = fabric ? 0 : ETH_ALEN;
	bootp[4] = in->type;
	if (!fabric) {
		memcpy(bootp + 28, in->flags & FUZZ_OTHER ? fuzz_other :
		       fuzz_station, ETH_ALEN);
		more = fuzz_make_relayed(in, pkt, bootp);
	}
	put_unaligned_be32(0x63825363, bootp + FUZZ_BOOTP - 4);
	return 28 + FUZZ_BOOTP + more;
}

static u32 fuzz_make_arp(const struct fuzz_input *in, u8 *pkt)
{
	bool fabric = in->flags & FUZZ_FABRIC;

	pkt[1] = fabric ? ARPHRD_INFINIBAND : ARPHRD_ETHER;
	pkt[2] = 8;
	pkt[4] = fabric ? INFINIBAND_ALEN : ETH_ALEN;
	pkt[5] = 4;
	pkt[7] = 1 + in->type % 2;
	return 8;
}

/* Headers, and what was given behind them; most random ones are refused. */
static void fuzz_make(const struct fuzz_input *in, const u8 *data, u32 size,
		      struct fuzz_flat *p)
{
	u8 kind = in->kind % FUZZ_KINDS;
	struct ipv6hdr *ip6 = (void *)p->data;
	u32 at = 0;

	memset(p->data, 0, 512);
	if (in->flags & FUZZ_DECENT)
		at = kind == FUZZ_ARP ? fuzz_make_arp(in, p->data) :
		     kind == FUZZ_ND || kind == FUZZ_IP6 ?
		     fuzz_make_ip6(in, p->data) : fuzz_make_ip4(in, p->data);
	p->len = at + size;
	memcpy(p->data + at, data, size);
	if (!at)
		return;
	if (kind == FUZZ_ND) {
		fuzz_make_options(p, at);
		p->len += in->num % 8 == 7;
		put_unaligned_be16(p->len - 40, p->data + 4);
	} else if (kind == FUZZ_DHCP || kind == FUZZ_IGMP) {
		/* Short frames are padded. */
		put_unaligned_be16(p->len - in->summed % 64 / 4, p->data + 2);
	}
	if (in->flags & FUZZ_BAD && in->at < p->len)
		p->data[in->at] ^= in->value;
	if (kind != FUZZ_ND)
		return;
	p->data[42] = 0;
	p->data[43] = in->flags & FUZZ_BAD_SUM ? 1 : 0;
	((struct icmp6hdr *)(ip6 + 1))->icmp6_cksum =
		csum_ipv6_magic(&ip6->saddr, &ip6->daddr, p->len - 40,
				IPPROTO_ICMPV6,
				csum_partial(ip6 + 1, p->len - 40, 0));
}

static void fuzz_begin(const struct fuzz_input *in)
{
	/* The clock wraps soon. */
	jiffies = -60UL * HZ;
	unit_fail_at = 0;
	INIT_LIST_HEAD(&fuzz_dev.group_list);
	memset(fuzz_dev.group_heads, 0, sizeof(fuzz_dev.group_heads));
	fuzz_dev.num_groups = 0;
	fuzz_dev.guard = in->flags & FUZZ_GUARD;
	fuzz_dev.kicked = false;
	eipoib_dhcp_flush(&fuzz_dev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in;
	struct fuzz_flat flat;
	struct sk_buff *skb;
	u8 kind;

	if (size <= sizeof(in) || size > 512)
		return 0;
	memcpy(&in, data, sizeof(in));
	kind = in.kind % FUZZ_KINDS;
	fuzz_begin(&in);
	fuzz_make(&in, data + sizeof(in), size - sizeof(in), &flat);
	skb = fuzz_skb(&flat, in.headlen % (flat.len + 1));
	skb->ip_summed = in.summed % 4;
	skb->gso = in.flags & FUZZ_GSO;
	unit_fail_at = in.fail;
	if (kind == FUZZ_ARP)
		fuzz_arp(&in, skb);
	else if (kind == FUZZ_DHCP || kind == FUZZ_IGMP)
		skb = fuzz_ip4(&in, skb);
	else
		fuzz_ip6(&in, skb);
	kfree_skb(skb);
	UNIT_CHECK(!unit_live && !fuzz_dev.lock.held && !fuzz_dev.joins.held);
	return 0;
}
