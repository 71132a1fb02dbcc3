// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzzer of eth_ipoib: requests and answers of DHCP
 */
#include "eipoib_dhcp.h"
#include "fuzz_ethernet.h"

/* Does the first word of a datagram, or of its first piece, say @port? */
static bool fuzz_dhcp_to(const struct fuzz_flat *p, u8 port)
{
	u32 at = (p->data[0] & 15) * 4;

	return p->data[9] == IPPROTO_UDP && !(p->data[6] & 0x1f) &&
	       !p->data[7] && p->len >= at + FUZZ_UDP && !p->data[at + 2] &&
	       p->data[at + 3] == port;
}

/* Where the message begins, 0: this is none to @port that can be read. */
static u32 fuzz_dhcp_at(const struct fuzz_flat *p, u8 port)
{
	static const u8 cookie[] = { 0x63, 0x82, 0x53, 0x63 };
	u32 at = (p->data[0] & 15) * 4 + FUZZ_UDP;
	u32 len = p->data[2] * 256 + p->data[3];

	if (!fuzz_dhcp_to(p, port) || p->data[6] & 0x20 || len > p->len ||
	    len < at + FUZZ_BOOTP ||
	    memcmp(p->data + at + FUZZ_BOOTP - 4, cookie, sizeof(cookie)))
		return 0;
	return at;
}

/* The first option with an identifier or the end of options, 0: neither */
static u32 fuzz_dhcp_id(const struct fuzz_flat *p, u32 at)
{
	for (at += FUZZ_BOOTP; at < p->len; at += 2 + p->data[at + 1]) {
		while (at < p->len && !p->data[at])
			at++;
		if (at >= p->len)
			return 0;
		if (p->data[at] == 255)
			return at;
		if (at + 2 > p->len || at + 2 + p->data[at + 1] > p->len)
			return 0;
		if (p->data[at] == 61)
			return at;
	}
	return 0;
}

/* @made is as @want but for checksums, which are right. */
static void fuzz_dhcp_check(const struct fuzz_flat *want,
			    const struct sk_buff *made, u32 at)
{
	struct fuzz_flat is;
	struct iphdr *ip = (void *)is.data;
	u32 udp = at - FUZZ_UDP;
	__sum16 sum;

	fuzz_flatten(&is, made);
	UNIT_CHECK(is.len == want->len && made->ip_summed == CHECKSUM_NONE);
	UNIT_CHECK(!csum_tcpudp_magic(ip->saddr, ip->daddr, is.len - udp,
				      IPPROTO_UDP,
				      csum_partial(is.data + udp, is.len - udp,
						   0)));
	UNIT_CHECK(is.data[udp + 6] || is.data[udp + 7]);
	sum = ip->check;
	ip_send_check(ip);
	UNIT_CHECK(sum == ip->check);
	memcpy(is.data + 10, want->data + 10, 2);
	memcpy(is.data + udp + 6, want->data + udp + 6, 2);
	UNIT_CHECK(!memcmp(is.data, want->data, is.len));
}

static void fuzz_dhcp_lengths(struct fuzz_flat *p, u32 at)
{
	put_unaligned_be16(p->len, p->data + 2);
	put_unaligned_be16(p->len - at + FUZZ_UDP, p->data + at - 4);
}

/* A server's answer gets the guest's MAC. */
static void fuzz_dhcp_answer(const struct fuzz_input *in, struct sk_buff *skb,
			     const u8 *mac, bool known, bool hide)
{
	struct fuzz_flat was, want;
	struct sk_buff *made;
	u32 at, id;

	fuzz_flatten(&was, skb);
	at = fuzz_dhcp_at(&was, 68);
	made = eipoib_dhcp_answer(&fuzz_dev, skb);
	UNIT_CHECK(fuzz_same(&was, skb));
	known &= at && !skb->gso && was.data[at] == 2;
	UNIT_CHECK(known == !!made || (known && fuzz_failed(in)));
	if (!made)
		return;
	want = was;
	want.len = was.data[2] * 256 + was.data[3];
	want.data[at + 1] = 1;
	want.data[at + 2] = ETH_ALEN;
	memset(want.data + at + 28, 0, 16);
	memcpy(want.data + at + 28, mac, ETH_ALEN);
	id = fuzz_dhcp_id(&want, at);
	if (hide && id && want.data[id] == 61)
		memset(want.data + id, 0, 2 + want.data[id + 1]);
	fuzz_dhcp_lengths(&want, at);
	fuzz_dhcp_check(&want, made, at);
	kfree_skb(made);
}

/* What a request has to become, from what it was; true: it got an identifier. */
static bool fuzz_dhcp_want(struct fuzz_flat *p, u32 at)
{
	static const u8 add[FUZZ_ID] = { 61, 7, 1, 2, 0, 0, 0, 0, 1 };
	bool added;
	u32 id;

	p->len = p->data[2] * 256 + p->data[3];
	p->data[at + 1] = 32;
	p->data[at + 2] = 0;
	p->data[at + 10] |= 0x80;
	memset(p->data + at + 28, 0, 16);
	id = fuzz_dhcp_id(p, at);
	added = id && p->data[id] == 255;
	if (added) {
		memmove(p->data + id + FUZZ_ID, p->data + id, p->len - id);
		memcpy(p->data + id, add, FUZZ_ID);
		p->len += FUZZ_ID;
	}
	fuzz_dhcp_lengths(p, at);
	return added;
}

/* An identifier with a MAC that is not the station's, or of InfiniBand */
static bool fuzz_dhcp_others(const u8 *id, u32 len)
{
	if (len && id[0] == 32)
		return true;
	if (len == 8 && !id[0])
		return id[1] == 1 && memcmp(id + 2, fuzz_station, ETH_ALEN);
	return len == 7 && id[0] == 1 && memcmp(id + 1, fuzz_station, ETH_ALEN);
}

/*
 * Options without an end, with more in other fields, of a relay, with two
 * identifiers, or another station's
 */
static bool fuzz_dhcp_doubtful(const struct fuzz_flat *p, u32 at)
{
	bool others = false;
	u32 ids = 0;

	for (at += FUZZ_BOOTP; at < p->len && p->data[at] != 255; at++) {
		if (!p->data[at])
			continue;
		if (p->data[at] == 52 || p->data[at] == 82 || at + 2 > p->len ||
		    at + 2 + p->data[at + 1] > p->len)
			return true;
		if (p->data[at] == 61) {
			ids++;
			others |= fuzz_dhcp_others(p->data + at + 2,
						   p->data[at + 1]);
		}
		at += 1 + p->data[at + 1];
	}
	return at >= p->len || ids > 1 || others;
}

/* Somebody else's, or the number is that of a transaction of another one. */
static bool fuzz_dhcp_refused(const struct fuzz_input *in,
			      const struct fuzz_flat *p, u32 at)
{
	struct fuzz_flat cut = *p;

	cut.len = p->data[2] * 256 + p->data[3];
	if (in->flags & FUZZ_NONE && in->later < 120 &&
	    memcmp(cut.data + at + 28, fuzz_other, ETH_ALEN))
		return true;
	return in->flags & FUZZ_GUARD &&
	       (fuzz_dhcp_doubtful(&cut, at) ||
		memcmp(cut.data + at + 28, fuzz_station, ETH_ALEN));
}

/* A transaction as if it had begun in.later seconds ago. */
static void fuzz_dhcp_lease(const struct fuzz_input *in,
			    const struct fuzz_flat *p, u32 at, const u8 *mac)
{
	struct eipoib_lease *lease = &fuzz_dev.leases[in->value];

	lease->used = true;
	lease->begun = jiffies - in->later * HZ;
	lease->id_added = in->flags & FUZZ_OTHER;
	memcpy(&lease->xid, p->data + at + 4, 4);
	memcpy(lease->mac, mac, ETH_ALEN);
	memcpy(lease->station, mac, ETH_ALEN);
}

/* Transactions of the station; it may have 8. */
static void fuzz_dhcp_fill(u32 num)
{
	struct eipoib_lease *lease;

	while (num--) {
		lease = &fuzz_dev.leases[num * 7];
		lease->used = true;
		lease->begun = jiffies - num;
		lease->xid = htonl(0xabcdef00 + num);
		memcpy(lease->station, fuzz_station, ETH_ALEN);
	}
}

static u32 fuzz_dhcp_has(void)
{
	u32 num = 0, i;

	for (i = 0; i < EIPOIB_LEASES; i++)
		num += fuzz_dev.leases[i].used &&
		       !memcmp(fuzz_dev.leases[i].station, fuzz_station,
			       ETH_ALEN);
	return num;
}

/* What is reached by way of the station: 10.0.0.0/8 in this test */
bool eipoib_prefix_is_of(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac)
{
	UNIT_CHECK(dev == &fuzz_dev && eipoib_is_v4(ip) && mac == fuzz_station);
	return ip->s6_addr[12] == 10;
}

/* One type of message, a server's, and no options elsewhere, for a relay */
static bool fuzz_dhcp_is_answer(const struct fuzz_flat *p, u32 at)
{
	u32 end = p->data[2] * 256 + p->data[3], types = 0;

	if (p->data[at] != 2 || !memcmp(p->data + at + 24, "\0\0\0", 4))
		return false;
	for (at += FUZZ_BOOTP; at < end && p->data[at] != 255; at++) {
		const u8 *opt = p->data + at;

		if (!*opt)
			continue;
		if (at + 2 > end || at + 2 + opt[1] > end || *opt == 52 ||
		    (*opt == 53 && (opt[1] != 1 || !opt[2] || opt[2] > 13 ||
				    !memchr("\2\5\6\13\14\15", opt[2], 6))))
			return false;
		types += *opt == 53;
		at += 1 + opt[1];
	}
	return at < end && types == 1;
}

/* From what is reached by way of the station, by its relay or routed */
static bool fuzz_dhcp_is_relayed(const struct fuzz_flat *p, u32 at)
{
	if (p->data[at] != 1)
		return false;
	if (memcmp(p->data + at + 24, "\0\0\0", 4))
		return p->data[at + 24] == 10;
	return p->data[12] == 10 &&
	       memcmp(p->data + at + 28, fuzz_station, ETH_ALEN);
}

static struct sk_buff *fuzz_dhcp_request(const struct fuzz_input *in,
					 struct sk_buff *skb)
{
	struct fuzz_flat was, want;
	struct sk_buff *made;
	bool is, passes, added;
	u32 at;

	fuzz_flatten(&was, skb);
	at = fuzz_dhcp_at(&was, 67);
	fuzz_dhcp_fill(in->num % 9);
	if (at && in->flags & FUZZ_NONE)
		fuzz_dhcp_lease(in, &was, at, fuzz_other);
	if (skb->gso)
		at = 0;
	passes = at && (fuzz_dhcp_is_answer(&was, at) ||
			fuzz_dhcp_is_relayed(&was, at));
	is = at && !passes && was.data[at] == 1 && was.data[at + 1] == 1 &&
	     was.data[at + 2] == 6 && !memcmp(was.data + at + 24, "\0\0\0", 4);
	passes |= !is && !(in->flags & FUZZ_GUARD && fuzz_dhcp_to(&was, 67));
	made = eipoib_dhcp_request(&fuzz_dev, skb, fuzz_station);
	UNIT_CHECK((made == skb) == passes || (!made && fuzz_failed(in)));
	if (made == skb)
		UNIT_CHECK(fuzz_same(&was, skb));
	UNIT_CHECK(made == skb || !made || is);
	if (made == skb || !made) {
		UNIT_CHECK(made || !is || fuzz_failed(in) ||
			   fuzz_dhcp_refused(in, &was, at));
		return made;
	}
	UNIT_CHECK(!fuzz_dhcp_refused(in, &was, at) && fuzz_dhcp_has());
	/* Whoever repeats a client's request takes its transaction over. */
	UNIT_CHECK(fuzz_dhcp_has() <= 8 || in->flags & FUZZ_NONE);
	want = was;
	added = fuzz_dhcp_want(&want, at);
	fuzz_dhcp_check(&want, made, at);
	kfree_skb(made);

	/* Its answer */
	want.data[at] = 2;
	want.data[at - 5] = 68;
	made = fuzz_skb(&want, in->headlen % (want.len + 1));
	jiffies += in->later * HZ;
	if (pskb_may_pull(made, at - FUZZ_UDP))
		fuzz_dhcp_answer(in, made, was.data + at + 28, in->later < 120,
				 added);
	return made;
}

/*
 * A packet with a complete header of IPv4 from either side.  Returns what is to
 * be freed.
 */
struct sk_buff *fuzz_dhcp(const struct fuzz_input *in, struct sk_buff *skb)
{
	struct fuzz_flat flat;
	u32 at;

	if (!(in->flags & FUZZ_FABRIC))
		return fuzz_dhcp_request(in, skb);
	fuzz_flatten(&flat, skb);
	at = fuzz_dhcp_at(&flat, 68);
	if (at && !(in->flags & FUZZ_NONE))
		fuzz_dhcp_lease(in, &flat, at, fuzz_station);
	fuzz_dhcp_answer(in, skb, fuzz_station,
			 !(in->flags & FUZZ_NONE) && in->later < 120,
			 in->flags & FUZZ_OTHER);
	return skb;
}
