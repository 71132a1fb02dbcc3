// SPDX-License-Identifier: GPL-2.0-only
/*
 * DHCP of guests, as it is on InfiniBand: RFC 4390
 *
 * A client on InfiniBand has no hardware address that fits the header: it says
 * so, identifies itself by an option, and asks for answers by broadcast.  A
 * guest's request is made one of those.  The answer gets the guest's MAC back,
 * by its transaction id.
 */
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/udp.h>

#include "eipoib_dhcp.h"
#include "eipoib_prefix.h"
#include "eipoib_send.h"

#define EIPOIB_DHCP_SERVER	67
#define EIPOIB_DHCP_CLIENT	68
#define EIPOIB_DHCP_COOKIE	0x63825363	/* RFC 2131 section 3 */
#define EIPOIB_DHCP_BROADCAST	0x8000
#define EIPOIB_DHCP_PAD		0
#define EIPOIB_DHCP_OVERLOAD	52	/* option: there are more in other fields */
#define EIPOIB_DHCP_TYPE	53	/* option: type of message */
#define EIPOIB_DHCP_ID		61	/* option: client identifier */
#define EIPOIB_DHCP_RELAY	82	/* option: what a relay says, RFC 3046 */
#define EIPOIB_DHCP_END		255
#define EIPOIB_DHCP_ID_LEN	(1 + ETH_ALEN)
#define EIPOIB_DHCP_AGE		(120 * HZ)
#define EIPOIB_DHCP_STATION	8	/* transactions of one */

/* The header of BOOTP, RFC 951, and the cookie of DHCP, RFC 2131 */
struct eipoib_bootp {
	u8 op;
	u8 htype;
	u8 hlen;
	u8 hops;
	__be32 xid;
	__be16 secs;
	__be16 flags;
	__be32 ciaddr;
	__be32 yiaddr;
	__be32 siaddr;
	__be32 giaddr;
	u8 chaddr[16];
	u8 sname[64];
	u8 file[128];
	__be32 cookie;
	u8 options[];
} __packed;

/* ---- messages ------------------------------------------------------------ */

/* As eipoib_dhcp_at(), of a datagram that is to @port, or not linear; rare. */
static noinline int eipoib_dhcp_read(struct sk_buff *skb, unsigned int at,
				     u16 port)
{
	const struct eipoib_bootp *bootp;
	const struct udphdr *udp;
	const struct iphdr *ip;
	unsigned int len;

	if (skb->len < at)
		return 0;
	if (!pskb_may_pull(skb, at))
		return -ENOMEM;
	ip = (const void *)skb->data;
	udp = (const void *)(skb->data + at - sizeof(*udp));
	if (udp->dest != htons(port))
		return 0;
	len = ntohs(ip->tot_len);
	if (ip_is_fragment(ip) || skb_is_gso(skb) || len > skb->len ||
	    len < at + sizeof(*bootp))
		return -EBADMSG;
	if (!pskb_may_pull(skb, at + sizeof(*bootp)))
		return -ENOMEM;
	bootp = (const void *)(skb->data + at);
	return bootp->cookie == htonl(EIPOIB_DHCP_COOKIE) ? at : -EBADMSG;
}

/*
 * Where a message of DHCP to @port begins; 0: the packet goes to another port,
 * -EBADMSG: to this one without a complete message, -ENOMEM: there is no memory
 * to read it.  Of fragments the first one has ports.
 */
static __always_inline int eipoib_dhcp_at(struct sk_buff *skb, u16 port)
{
	const struct iphdr *ip = (const void *)skb->data;
	const struct udphdr *udp;
	unsigned int at;

	if (ip->protocol != IPPROTO_UDP || ip->frag_off & htons(IP_OFFSET))
		return 0;
	at = ip->ihl * 4;
	udp = (const void *)(skb->data + at);
	at += sizeof(*udp);
	if (likely(skb_headlen(skb) >= at) && likely(udp->dest != htons(port)))
		return 0;
	return eipoib_dhcp_read(skb, at, port);
}

/* An option, the end of options if there is none, NULL if they are malformed. */
static u8 *eipoib_dhcp_option(u8 *opt, const u8 *end, u8 code)
{
	while (opt < end) {
		if (*opt == code || *opt == EIPOIB_DHCP_END)
			return *opt == EIPOIB_DHCP_END || (end - opt > 1 &&
			       end - opt >= 2 + opt[1]) ? opt : NULL;
		if (*opt == EIPOIB_DHCP_PAD) {
			opt++;
			continue;
		}
		if (end - opt < 2 || end - opt < 2 + opt[1])
			return NULL;
		opt += 2 + opt[1];
	}
	return NULL;
}

/* A copy that is linear, ends with the packet, and has room for @more bytes. */
static struct sk_buff *eipoib_dhcp_copy(struct eipoib_dev *dev,
					const struct sk_buff *old, int more)
{
	struct sk_buff *skb;

	skb = skb_copy_expand(old, LL_RESERVED_SPACE(dev->lower), more,
			      GFP_ATOMIC);
	if (!skb) {
		eipoib_count(dev, EIPOIB_C_NOMEM);
		return NULL;
	}
	eipoib_scrub(skb);
	skb_reset_network_header(skb);
	skb_trim(skb, ntohs(ip_hdr(skb)->tot_len));
	return skb;
}

/* Lengths and checksums after a change. */
static void eipoib_dhcp_finish(struct sk_buff *skb)
{
	struct iphdr *ip = ip_hdr(skb);
	unsigned int len = skb->len - ip->ihl * 4;
	struct udphdr *udp = (void *)ip + ip->ihl * 4;

	ip->tot_len = htons(skb->len);
	ip_send_check(ip);
	udp->len = htons(len);
	udp->check = 0;
	udp->check = csum_tcpudp_magic(ip->saddr, ip->daddr, len, IPPROTO_UDP,
				       csum_partial(udp, len, 0)) ?:
		     CSUM_MANGLED_0;
	skb->ip_summed = CHECKSUM_NONE;
}

/* ---- transactions -------------------------------------------------------- */

/* The entry of a transaction, NULL if there is none. */
static struct eipoib_lease *eipoib_lease_find(struct eipoib_dev *dev,
					      __be32 xid)
{
	struct eipoib_lease *lease;
	int i;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < EIPOIB_LEASES; i++) {
		lease = &dev->leases[i];
		if (lease->used && lease->xid == xid &&
		    time_before(jiffies, lease->begun + EIPOIB_DHCP_AGE))
			return lease;
	}
	return NULL;
}

/* The older one of two entries, of which one that is not used is the oldest */
static struct eipoib_lease *eipoib_lease_older(struct eipoib_lease *one,
					       struct eipoib_lease *two)
{
	if (!one || (one->used && (!two->used ||
				   time_before(two->begun, one->begun))))
		return two;
	return one;
}

/*
 * The entry to be used for another transaction: of a station that has many, its
 * own oldest one, so that it takes none from others.
 */
static struct eipoib_lease *eipoib_lease_room(struct eipoib_dev *dev,
					      const u8 *station)
{
	struct eipoib_lease *lease, *oldest = NULL, *own = NULL;
	int i, has = 0;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < EIPOIB_LEASES; i++) {
		lease = &dev->leases[i];
		oldest = eipoib_lease_older(oldest, lease);
		if (lease->used &&
		    ether_addr_equal(lease->station, station)) {
			own = eipoib_lease_older(own, lease);
			has++;
		}
	}
	return has < EIPOIB_DHCP_STATION ? oldest : own;
}

/* False if the number is that of another client's transaction. */
static bool eipoib_lease_note(struct eipoib_dev *dev, __be32 xid, const u8 *mac,
			      const u8 *station, bool id_added)
{
	struct eipoib_lease *lease;
	bool taken;

	spin_lock_bh(&dev->lock);
	lease = eipoib_lease_find(dev, xid);
	taken = lease && !ether_addr_equal_unaligned(lease->mac, mac);
	if (!taken) {
		lease = lease ?: eipoib_lease_room(dev, station);
		*lease = (struct eipoib_lease){
			.xid = xid, .id_added = id_added, .used = true,
			.begun = jiffies,
		};
		memcpy(lease->mac, mac, ETH_ALEN);
		ether_addr_copy(lease->station, station);
	}
	spin_unlock_bh(&dev->lock);
	return !taken;
}

/* A copy of a guest's transaction; false: there is none */
static bool eipoib_lease_get(struct eipoib_dev *dev, __be32 xid,
			     struct eipoib_lease *found)
{
	struct eipoib_lease *lease;

	spin_lock_bh(&dev->lock);
	lease = eipoib_lease_find(dev, xid);
	if (lease)
		*found = *lease;
	spin_unlock_bh(&dev->lock);
	return lease;
}

/* Forget all transactions. */
void eipoib_dhcp_flush(struct eipoib_dev *dev)
{
	spin_lock_bh(&dev->lock);
	memset(dev->leases, 0, sizeof(dev->leases));
	spin_unlock_bh(&dev->lock);
}

/* ---- both ways ----------------------------------------------------------- */

/* Add the identifier of a client that sent none; false if it sent one. */
static bool eipoib_dhcp_add_id(struct sk_buff *skb, unsigned int at,
			       const u8 *mac)
{
	struct eipoib_bootp *bootp = (void *)(skb->data + at);
	u8 *opt;

	opt = eipoib_dhcp_option(bootp->options, skb_tail_pointer(skb),
				 EIPOIB_DHCP_ID);
	if (!opt || *opt != EIPOIB_DHCP_END)
		return false;
	skb_put(skb, 2 + EIPOIB_DHCP_ID_LEN);
	memmove(opt + 2 + EIPOIB_DHCP_ID_LEN, opt,
		skb_tail_pointer(skb) - opt - 2 - EIPOIB_DHCP_ID_LEN);
	*opt++ = EIPOIB_DHCP_ID;
	*opt++ = EIPOIB_DHCP_ID_LEN;
	*opt++ = ARPHRD_ETHER;
	ether_addr_copy(opt, mac);
	return true;
}

/* Options without one, and complete ones. */
static bool eipoib_dhcp_lacks(u8 *opt, const u8 *end, u8 code)
{
	opt = eipoib_dhcp_option(opt, end, code);
	return opt && *opt == EIPOIB_DHCP_END;
}

/*
 * Is an identifier made of a MAC of somebody else, or of an address of
 * InfiniBand?  Some servers skip a zero before the type.
 */
static bool eipoib_dhcp_id_is_others(const u8 *id, u8 len, const u8 *mac)
{
	if (len && *id == ARPHRD_INFINIBAND)
		return true;
	if (len == 1 + EIPOIB_DHCP_ID_LEN && !*id) {
		id++;
		len--;
	}
	return len == EIPOIB_DHCP_ID_LEN && *id == ARPHRD_ETHER &&
	       memcmp(id + 1, mac, ETH_ALEN);
}

/*
 * With the guard on a guest can't be identified by the MAC of another one: its
 * options are complete, its identifier is in one piece (RFC 3396) and not in
 * another field, and no relay says who it is.
 */
static bool eipoib_dhcp_id_ok(const struct sk_buff *skb, unsigned int at,
			      const u8 *mac)
{
	struct eipoib_bootp *bootp = (void *)(skb->data + at);
	const u8 *end = skb_tail_pointer(skb);
	u8 *opt;

	if (!eipoib_dhcp_lacks(bootp->options, end, EIPOIB_DHCP_OVERLOAD) ||
	    !eipoib_dhcp_lacks(bootp->options, end, EIPOIB_DHCP_RELAY))
		return false;
	opt = eipoib_dhcp_option(bootp->options, end, EIPOIB_DHCP_ID);
	if (*opt != EIPOIB_DHCP_ID)
		return true;
	return !eipoib_dhcp_id_is_others(opt + 2, opt[1], mac) &&
	       eipoib_dhcp_lacks(opt + 2 + opt[1], end, EIPOIB_DHCP_ID);
}

/* An identifier that the guest did not send becomes padding. */
static void eipoib_dhcp_hide_id(struct sk_buff *skb, unsigned int at)
{
	struct eipoib_bootp *bootp = (void *)(skb->data + at);
	u8 *opt;

	opt = eipoib_dhcp_option(bootp->options, skb_tail_pointer(skb),
				 EIPOIB_DHCP_ID);
	if (opt && *opt == EIPOIB_DHCP_ID)
		memset(opt, EIPOIB_DHCP_PAD, 2 + opt[1]);
}

/* A request of a client on Ethernet, on its first hop */
static bool eipoib_dhcp_is_clients(const struct eipoib_bootp *bootp)
{
	return bootp->op == 1 && bootp->htype == ARPHRD_ETHER &&
	       bootp->hlen == ETH_ALEN && !bootp->giaddr;
}

/* The types of servers' messages: RFC 2132 section 9.6, RFC 4388 section 6.1 */
static bool eipoib_dhcp_type_is_servers(u8 type)
{
	return type == 2 || type == 5 || type == 6 || (type >= 11 && type <= 13);
}

/*
 * An answer, to a relay?  Some servers look at the type only, of whatever is sent
 * to them: it is a server's, there is one, and no other field has options.
 */
static bool eipoib_dhcp_is_answer(struct sk_buff *skb, unsigned int at)
{
	struct eipoib_bootp *bootp;
	const u8 *end;
	u8 *opt;

	if (skb_linearize(skb))
		return false;
	bootp = (void *)(skb->data + at);
	end = skb->data + ntohs(((const struct iphdr *)skb->data)->tot_len);
	if (!bootp->giaddr ||
	    !eipoib_dhcp_lacks(bootp->options, end, EIPOIB_DHCP_OVERLOAD))
		return false;
	opt = eipoib_dhcp_option(bootp->options, end, EIPOIB_DHCP_TYPE);
	return *opt == EIPOIB_DHCP_TYPE && opt[1] == 1 &&
	       eipoib_dhcp_type_is_servers(opt[2]) &&
	       eipoib_dhcp_lacks(opt + 3, end, EIPOIB_DHCP_TYPE);
}

/*
 * May a station send to servers what is no request of its own, which would say
 * who it is?  An answer to a relay, or what it relays or routes from a network
 * that is reached by way of it.
 */
static bool eipoib_dhcp_relays(struct eipoib_dev *dev, struct sk_buff *skb,
			       unsigned int at, const u8 *mac)
{
	const struct eipoib_bootp *bootp = (const void *)(skb->data + at);
	const struct iphdr *ip = (const void *)skb->data;
	struct in6_addr from = eipoib_v4(bootp->giaddr ?: ip->saddr);

	if (bootp->op == 2)
		return eipoib_dhcp_is_answer(skb, at);
	if (bootp->op != 1 || !eipoib_to_v4(&from) ||
	    (!bootp->giaddr && ether_addr_equal_unaligned(bootp->chaddr, mac)))
		return false;
	return eipoib_prefix_is_of(dev, &from, mac);
}

/* A client's request becomes one of InfiniBand; false: it is refused. */
static bool eipoib_dhcp_convert(struct eipoib_dev *dev, struct sk_buff *skb,
				unsigned int at, const u8 *mac)
{
	struct eipoib_bootp *bootp = (void *)(skb->data + at);
	bool id_added;

	if (READ_ONCE(dev->guard) &&
	    (!ether_addr_equal_unaligned(bootp->chaddr, mac) ||
	     !eipoib_dhcp_id_ok(skb, at, mac)))
		return false;
	id_added = eipoib_dhcp_add_id(skb, at, mac);
	if (!eipoib_lease_note(dev, bootp->xid, bootp->chaddr, mac, id_added))
		return false;
	bootp->htype = ARPHRD_INFINIBAND;
	bootp->hlen = 0;
	memset(bootp->chaddr, 0, sizeof(bootp->chaddr));
	bootp->flags |= htons(EIPOIB_DHCP_BROADCAST);
	eipoib_dhcp_finish(skb);
	return true;
}

/* What goes to servers: see eipoib_dhcp_request().  Rare. */
static noinline struct sk_buff *eipoib_dhcp_to_server(struct eipoib_dev *dev,
						      struct sk_buff *skb,
						      int at, const u8 *mac)
{
	enum eipoib_count why = EIPOIB_C_REFUSED;
	struct sk_buff *made;

	if (at == -ENOMEM) {
		why = EIPOIB_C_NOMEM;
		goto drop;
	}
	if (at > 0 && eipoib_dhcp_relays(dev, skb, at, mac))
		return skb;
	if (at < 0 || !eipoib_dhcp_is_clients((void *)(skb->data + at))) {
		if (!READ_ONCE(dev->guard))
			return skb;
		goto drop;
	}
	made = eipoib_dhcp_copy(dev, skb, 2 + EIPOIB_DHCP_ID_LEN);
	if (!made) {
		kfree_skb(skb);
		return NULL;
	}
	consume_skb(skb);
	skb = made;
	if (eipoib_dhcp_convert(dev, skb, at, mac))
		return skb;

drop:
	eipoib_drop(dev, skb, why);
	return NULL;
}

/**
 * eipoib_dhcp_request - make a guest's request one of InfiniBand
 * @dev: interface
 * @skb: packet of the guest, with a complete header of IPv4
 * @mac: its station
 *
 * With the guard on, what can't be read, or is in nobody's name that the station
 * may use, does not go to servers.
 * Return: the packet to be sent: @skb if it is no request, else one in its place;
 *	NULL if @skb was dropped
 */
struct sk_buff *eipoib_dhcp_request(struct eipoib_dev *dev, struct sk_buff *skb,
				    const u8 *mac)
{
	int at = eipoib_dhcp_at(skb, EIPOIB_DHCP_SERVER);

	return likely(!at) ? skb : eipoib_dhcp_to_server(dev, skb, at, mac);
}

/* Is it a message to a client?  @skb: as for eipoib_dhcp_answer() */
bool eipoib_dhcp_is_to_client(struct sk_buff *skb)
{
	return eipoib_dhcp_at(skb, EIPOIB_DHCP_CLIENT) > 0;
}

/**
 * eipoib_dhcp_answer - make a server's answer one for a guest
 * @dev: interface
 * @skb: packet of a peer, with a complete header of IPv4
 * Return: packet for the guest, in addition to @skb; NULL if it is no answer to
 *	a guest, or there is no memory
 */
struct sk_buff *eipoib_dhcp_answer(struct eipoib_dev *dev, struct sk_buff *skb)
{
	int at = eipoib_dhcp_at(skb, EIPOIB_DHCP_CLIENT);
	struct eipoib_bootp *bootp;
	struct eipoib_lease lease;
	struct sk_buff *made;

	if (at <= 0)
		return NULL;
	bootp = (void *)(skb->data + at);
	if (bootp->op != 2 || !eipoib_lease_get(dev, bootp->xid, &lease))
		return NULL;
	made = eipoib_dhcp_copy(dev, skb, 0);
	if (!made)
		return NULL;
	bootp = (void *)(made->data + at);
	bootp->htype = ARPHRD_ETHER;
	bootp->hlen = ETH_ALEN;
	memset(bootp->chaddr, 0, sizeof(bootp->chaddr));
	memcpy(bootp->chaddr, lease.mac, ETH_ALEN);
	if (lease.id_added)
		eipoib_dhcp_hide_id(made, at);
	eipoib_dhcp_finish(made);
	return made;
}
