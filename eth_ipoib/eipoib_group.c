// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast groups that guests are members of
 *
 * The MAC of a group does not tell which group it is, so what guests join is
 * read from their reports: IGMP (RFC 1112, 2236, 3376) and MLD (RFC 2710, 3810).
 * The lower interface joins on behalf of all of them.  A group takes resources
 * of the whole fabric, so that a station may have only so many, and groups are
 * joined at a limited rate.
 */
#include <linux/icmpv6.h>
#include <linux/igmp.h>
#include <net/addrconf.h>
#include <net/mld.h>

#include "eipoib_group.h"
#include "eipoib_msg.h"

#define EIPOIB_GROUP_AGE	(260 * HZ)	/* RFC 3376 section 8.4 */
/* Two of the queries at the start, after which a bridge forwards; RFC 3376 8.8 */
#define EIPOIB_GROUP_LATE	(90 * HZ)
#define EIPOIB_GROUP_OUTAGE	(10 * HZ)	/* so that reports are missed */
#define EIPOIB_GROUP_STATION	64		/* most of a station */
#define EIPOIB_GROUP_PORT	512		/* most by way of one port */
#define EIPOIB_GROUP_RECORDS	128		/* read of one report */
#define EIPOIB_GROUP_SENT	(120 * HZ)	/* not sent to: forgotten */
#define EIPOIB_GROUP_SYNC	10		/* joined in one tick */

/**
 * struct eipoib_reporter - who reports a group
 * @mac: station
 * @port: interface of this host that the report came by, 0: not known
 */
struct eipoib_reporter {
	const u8 *mac;
	u32 port;
};

/**
 * struct eipoib_group - a group that the lower interface is to be a member of
 * @list: in eipoib_dev.group_list, in the order of @serial
 * @serial: number of the entry
 * @node: in eipoib_dev.group_heads
 * @ip: group
 * @lladdr: its link-layer address, as it was joined by
 * @mac: station that wanted it first
 * @port: interface of this host by which that was, 0: not known
 * @users: addresses of guests that need it, and the interface itself
 * @expires: when reports of its members are too old, jiffies; 0: there are none
 * @joined: the lower interface has been told
 * @run: the last eipoib_dev.sync_run in which it could not be told
 */
struct eipoib_group {
	struct list_head list;
	struct hlist_node node;
	u64 serial;
	struct in6_addr ip;
	u8 lladdr[INFINIBAND_ALEN];
	u8 mac[ETH_ALEN];
	u32 port;
	u32 users;
	unsigned long expires;
	bool joined;
	u32 run;
};

static struct hlist_head *eipoib_group_head(struct eipoib_dev *dev,
					    const struct in6_addr *ip)
{
	return &dev->group_heads[ipv6_addr_hash(ip) %
				 ARRAY_SIZE(dev->group_heads)];
}

static struct eipoib_group *eipoib_group_find(struct eipoib_dev *dev,
					      const struct in6_addr *ip)
{
	struct eipoib_group *group;

	lockdep_assert_held(&dev->lock);
	hlist_for_each_entry(group, eipoib_group_head(dev, ip), node)
		if (ipv6_addr_equal(&group->ip, ip))
			return group;
	return NULL;
}

static struct eipoib_group *eipoib_group_add(struct eipoib_dev *dev,
					     const struct in6_addr *ip,
					     const struct eipoib_reporter *who)
{
	struct eipoib_group *group;

	lockdep_assert_held(&dev->lock);
	group = kzalloc_obj(*group, GFP_ATOMIC);
	if (!group)
		return NULL;
	group->ip = *ip;
	if (who) {
		ether_addr_copy(group->mac, who->mac);
		group->port = who->port;
	}
	group->serial = ++dev->serial;
	list_add_tail(&group->list, &dev->group_list);
	hlist_add_head(&group->node, eipoib_group_head(dev, ip));
	WRITE_ONCE(dev->num_groups, dev->num_groups + 1);
	return group;
}

static bool eipoib_group_wanted(const struct eipoib_group *group)
{
	return group->users || group->expires;
}

/* One more user of a group; false: there is no room. */
static bool eipoib_group_use(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_group *group = eipoib_group_find(dev, ip);

	if (!group)
		group = eipoib_group_add(dev, ip, NULL);
	if (group)
		group->users++;
	return group;
}

/**
 * eipoib_group_get - a guest has an address
 * @dev: interface, locked
 * @ip: address; one of IPv6 needs its solicited-node group
 * Return: true if the group is to be left by eipoib_group_put()
 */
bool eipoib_group_get(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct in6_addr group;

	if (eipoib_is_v4(ip))
		return false;
	addrconf_addr_solict_mult(ip, &group);
	return eipoib_group_use(dev, &group);
}

/* The guest does not have it any longer. */
void eipoib_group_put(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_group *group;
	struct in6_addr addr;

	addrconf_addr_solict_mult(ip, &addr);
	group = eipoib_group_find(dev, &addr);
	if (!WARN_ON_ONCE(!group || !group->users))
		group->users--;
}

/* ---- groups that guests send to ------------------------------------------ */

/* An entry for a group: its own, or one that nothing was sent to for long. */
static struct eipoib_sent *eipoib_group_slot(struct eipoib_dev *dev,
					     const struct in6_addr *ip)
{
	u32 hash = jhash2((const u32 *)ip->s6_addr32, 4, dev->sent_secret);
	struct eipoib_sent *slot = &dev->sent[hash % EIPOIB_SENT & ~3];
	struct eipoib_sent *free = NULL;
	int i;

	lockdep_assert_held(&dev->lock);
	for (i = 0; i < 4; i++, slot++) {
		if (ipv6_addr_equal(&slot->ip, ip))
			return slot;
		if (ipv6_addr_any(&slot->ip) ||
		    time_after(jiffies, slot->used + EIPOIB_GROUP_SENT))
			free = slot;
	}
	return free;
}

static bool eipoib_group_may_send(struct eipoib_dev *dev,
				  const struct in6_addr *ip, u64 source)
{
	struct eipoib_sent *slot = eipoib_group_slot(dev, ip);

	if (slot && ipv6_addr_equal(&slot->ip, ip)) {
		slot->used = jiffies;
		return true;
	}
	if (eipoib_group_find(dev, ip))
		return true;
	if (!slot || !eipoib_share_use(&dev->sends, source))
		return false;
	slot->ip = *ip;
	slot->used = jiffies;
	return true;
}

/**
 * eipoib_group_dest - where a guest's packet to a group goes
 * @dev: interface
 * @ip: group
 * @source: guest, see eipoib_source()
 * @lladdr: result: the group's link-layer address, or that of all
 *
 * The lower interface joins a group to send to it, which takes part of what the
 * whole fabric has.  Guests have it join so many; what they send to others goes
 * to all.
 */
void eipoib_group_dest(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u64 source, u8 *lladdr)
{
	u8 broadcast[INFINIBAND_ALEN];
	bool may;

	spin_lock_bh(&dev->lock);
	may = eipoib_group_may_send(dev, ip, source);
	spin_unlock_bh(&dev->lock);
	eipoib_lladdr_broadcast(dev, broadcast);
	if (may) {
		eipoib_group_lladdr(lladdr, ip, broadcast);
		return;
	}
	eipoib_count(dev, EIPOIB_C_GROUPS_FULL);
	memcpy(lladdr, broadcast, INFINIBAND_ALEN);
}

/* ---- reports of guests --------------------------------------------------- */

/* What stations have reported is limited, what addresses of guests need not. */
static bool eipoib_group_room(struct eipoib_dev *dev,
			      const struct eipoib_reporter *who)
{
	u32 all = 0, has = 0, here = 0;
	struct eipoib_group *group;

	if (!eipoib_share_take(&dev->reports,
			       eipoib_source(who->port,
					     ether_addr_to_u64(who->mac))))
		return false;
	list_for_each_entry(group, &dev->group_list, list) {
		all += !is_zero_ether_addr(group->mac);
		has += ether_addr_equal(group->mac, who->mac);
		here += who->port && group->port == who->port;
	}
	if (all < EIPOIB_GROUPS && has < EIPOIB_GROUP_STATION &&
	    here < EIPOIB_GROUP_PORT)
		return eipoib_share_all(&dev->reports);
	eipoib_count(dev, EIPOIB_C_GROUPS_FULL);
	return false;
}

/* A member of a group has reported. */
static void eipoib_group_member(struct eipoib_dev *dev,
				const struct in6_addr *ip,
				const struct eipoib_reporter *who)
{
	struct eipoib_group *group;

	if (!eipoib_ip_is_group(ip))
		return;
	spin_lock_bh(&dev->lock);
	group = eipoib_group_find(dev, ip);
	if (!group && eipoib_group_room(dev, who))
		group = eipoib_group_add(dev, ip, who);
	if (group)
		group->expires = (jiffies + EIPOIB_GROUP_AGE) ?: 1;
	if (group && !group->joined)
		eipoib_kick(dev);
	spin_unlock_bh(&dev->lock);
}

static void eipoib_group_member4(struct eipoib_dev *dev, __be32 addr,
				 const struct eipoib_reporter *who)
{
	struct in6_addr ip = eipoib_v4(addr);

	eipoib_group_member(dev, &ip, who);
}

/* MLD speaks of groups of IPv6, not of IPv4's as mapped addresses. */
static void eipoib_group_member6(struct eipoib_dev *dev,
				 const struct in6_addr *ip,
				 const struct eipoib_reporter *who)
{
	if (!ipv6_addr_v4mapped(ip))
		eipoib_group_member(dev, ip, who);
}

/* A record without sources that does not exclude any: the member leaves. */
static bool eipoib_group_leaves(u8 type, u16 sources)
{
	return (type == IGMPV3_MODE_IS_INCLUDE ||
		type == IGMPV3_CHANGE_TO_INCLUDE ||
		type == IGMPV3_BLOCK_OLD_SOURCES) && !sources;
}

static void eipoib_group_igmp3(struct eipoib_dev *dev, struct sk_buff *skb,
			       unsigned int at,
			       const struct eipoib_reporter *who)
{
	const struct igmpv3_report *report;
	const struct igmpv3_grec *rec;
	u16 records;

	if (!pskb_may_pull(skb, at + sizeof(*report)))
		return;
	report = (const void *)(skb->data + at);
	records = min_t(u16, ntohs(report->ngrec), EIPOIB_GROUP_RECORDS);
	at += sizeof(*report);
	while (records-- && pskb_may_pull(skb, at + sizeof(*rec))) {
		rec = (const void *)(skb->data + at);
		at += sizeof(*rec) + 4 * ntohs(rec->grec_nsrcs) +
		      4 * rec->grec_auxwords;
		if (!eipoib_group_leaves(rec->grec_type,
					 ntohs(rec->grec_nsrcs)))
			eipoib_group_member4(dev, rec->grec_mca, who);
	}
}

/**
 * eipoib_group_snoop4 - read a report of IGMP
 * @dev: interface
 * @skb: packet with a complete header of IPv4
 * @mac: the guest's station; NULL if a peer sent it, whose groups do not count
 * Return: true if it is a report, which other members are not to hear, since
 *	they would be silent then: RFC 4541 section 2.1.1
 */
bool eipoib_group_snoop4(struct eipoib_dev *dev, struct sk_buff *skb,
			 const u8 *mac)
{
	const struct eipoib_reporter who = { mac, skb->skb_iif };
	unsigned int at = ((const struct iphdr *)skb->data)->ihl * 4;
	const struct igmphdr *igmp;

	if (!pskb_may_pull(skb, at + sizeof(*igmp)))
		return false;
	igmp = (const void *)(skb->data + at);
	switch (igmp->type) {
	case IGMP_HOST_MEMBERSHIP_REPORT:
	case IGMPV2_HOST_MEMBERSHIP_REPORT:
		if (mac)
			eipoib_group_member4(dev, igmp->group, &who);
		return true;
	case IGMPV3_HOST_MEMBERSHIP_REPORT:
		if (mac)
			eipoib_group_igmp3(dev, skb, at, &who);
		return true;
	default:
		return false;
	}
}

static void eipoib_group_mld2(struct eipoib_dev *dev, struct sk_buff *skb,
			      unsigned int at,
			      const struct eipoib_reporter *who)
{
	const struct mld2_report *report;
	const struct mld2_grec *rec;
	struct in6_addr ip;
	u16 records;

	if (!pskb_may_pull(skb, at + sizeof(*report)))
		return;
	report = (const void *)(skb->data + at);
	records = min_t(u16, ntohs(report->mld2r_ngrec), EIPOIB_GROUP_RECORDS);
	at += sizeof(*report);
	while (records-- && pskb_may_pull(skb, at + sizeof(*rec))) {
		rec = (const void *)(skb->data + at);
		at += sizeof(*rec) +
		      sizeof(struct in6_addr) * ntohs(rec->grec_nsrcs) +
		      4 * rec->grec_auxwords;
		ip = rec->grec_mca;
		if (!eipoib_group_leaves(rec->grec_type,
					 ntohs(rec->grec_nsrcs)))
			eipoib_group_member6(dev, &ip, who);
	}
}

/* Where a message of MLD begins: behind hop-by-hop options; 0: it is none */
static unsigned int eipoib_group_mld_at(struct sk_buff *skb)
{
	unsigned int at = sizeof(struct ipv6hdr);
	const struct ipv6_opt_hdr *opt;

	if (((const struct ipv6hdr *)skb->data)->nexthdr != NEXTHDR_HOP ||
	    !pskb_may_pull(skb, at + 8))
		return 0;
	opt = (const void *)(skb->data + at);
	if (opt->nexthdr != IPPROTO_ICMPV6)
		return 0;
	at += ipv6_optlen(opt);
	return pskb_may_pull(skb, at + sizeof(struct icmp6hdr)) ? at : 0;
}

/**
 * eipoib_group_snoop6 - read a report of MLD
 * @dev: interface
 * @skb: packet with a complete header of IPv6
 * @mac: the guest's station; NULL if a peer sent it, whose groups do not count
 * Return: true if it is a report, see eipoib_group_snoop4()
 */
bool eipoib_group_snoop6(struct eipoib_dev *dev, struct sk_buff *skb,
			 const u8 *mac)
{
	const struct eipoib_reporter who = { mac, skb->skb_iif };
	unsigned int at = eipoib_group_mld_at(skb);
	const struct mld_msg *mld;
	struct in6_addr ip;

	if (!at)
		return false;
	mld = (const void *)(skb->data + at);
	switch (mld->mld_type) {
	case ICMPV6_MGM_REPORT:
		if (!pskb_may_pull(skb, at + sizeof(*mld)))
			return true;
		ip = ((const struct mld_msg *)(skb->data + at))->mld_mca;
		if (mac)
			eipoib_group_member6(dev, &ip, &who);
		return true;
	case ICMPV6_MLD2_REPORT:
		if (mac)
			eipoib_group_mld2(dev, skb, at, &who);
		return true;
	default:
		return false;
	}
}

/* ---- joining ------------------------------------------------------------- */

/*
 * The groups that every host is a member of; the timer, which begins, joins.  0 or
 * -ENOMEM: eipoib_groups_close() takes back what was done.
 */
int eipoib_groups_open(struct eipoib_dev *dev)
{
	struct in6_addr all4 = eipoib_v4(htonl(INADDR_ALLHOSTS_GROUP));
	struct in6_addr all6;
	bool used;

	ipv6_addr_set(&all6, htonl(0xff020000), 0, 0, htonl(1));
	spin_lock_bh(&dev->lock);
	used = eipoib_group_use(dev, &all4) && eipoib_group_use(dev, &all6);
	spin_unlock_bh(&dev->lock);
	return used ? 0 : -ENOMEM;
}

/* Guests could not report for a while: they get the time that it takes. */
void eipoib_groups_heard(struct eipoib_dev *dev)
{
	unsigned long expires = (jiffies + EIPOIB_GROUP_LATE) ?: 1;
	struct eipoib_group *group;

	lockdep_assert_held(&dev->lock);
	if (time_before(jiffies, dev->since + EIPOIB_GROUP_OUTAGE))
		return;
	list_for_each_entry(group, &dev->group_list, list)
		if (group->expires && time_before(group->expires, expires))
			group->expires = expires;
}

/* Remove what has not been reported for long, though it could have been. */
void eipoib_groups_tick(struct eipoib_dev *dev)
{
	struct eipoib_group *group;

	lockdep_assert_held(&dev->lock);
	if (!eipoib_is_heard(dev))
		return;
	list_for_each_entry(group, &dev->group_list, list)
		if (group->expires && time_after(jiffies, group->expires))
			group->expires = 0;
}

/**
 * struct eipoib_change - a membership to be changed
 * @ip: group
 * @lladdr: its link-layer address
 * @join: or leave
 */
struct eipoib_change {
	struct in6_addr ip;
	u8 lladdr[INFINIBAND_ALEN];
	bool join;
};

/*
 * A membership that is not as it should be: one of a group that is not wanted, or
 * by an address that is no longer the group's, since the P_Key has changed, is
 * left.
 */
static bool eipoib_group_differs(const struct eipoib_dev *dev,
				 const struct eipoib_group *group,
				 struct eipoib_change *change)
{
	bool wanted = eipoib_group_wanted(group) && !dev->away;
	u8 broadcast[INFINIBAND_ALEN];

	eipoib_lladdr_broadcast(dev, broadcast);
	eipoib_group_lladdr(change->lladdr, &group->ip, broadcast);
	change->ip = group->ip;
	change->join = !group->joined;
	if (!group->joined)
		return wanted;
	if (wanted && !memcmp(change->lladdr, group->lladdr, INFINIBAND_ALEN))
		return false;
	memcpy(change->lladdr, group->lladdr, INFINIBAND_ALEN);
	return true;
}

static void eipoib_group_free(struct eipoib_dev *dev,
			      struct eipoib_group *group)
{
	list_del(&group->list);
	hlist_del(&group->node);
	WRITE_ONCE(dev->num_groups, dev->num_groups - 1);
	kfree(group);
}

/*
 * The next change, but for those that have failed in this run; groups that nobody
 * needs and that are left are freed.
 */
static bool eipoib_group_next(struct eipoib_dev *dev,
			      struct eipoib_change *change)
{
	struct eipoib_group *group, *next;
	bool found = false;

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(group, next, &dev->group_list, list) {
		found = group->run != dev->sync_run &&
			eipoib_group_differs(dev, group, change);
		if (found)
			break;
		if (!group->joined && !eipoib_group_wanted(group))
			eipoib_group_free(dev, group);
	}
	spin_unlock_bh(&dev->lock);
	return found;
}

/* Note that a change was made, or could not be made. */
static void eipoib_group_changed(struct eipoib_dev *dev,
				 const struct eipoib_change *change, bool done)
{
	struct eipoib_group *group;

	spin_lock_bh(&dev->lock);
	group = eipoib_group_find(dev, &change->ip);
	if (WARN_ON_ONCE(!group)) {
		/* Nobody but the caller frees it. */
	} else if (!done) {
		group->run = dev->sync_run;
	} else {
		group->joined = change->join;
		memcpy(group->lladdr, change->lladdr, INFINIBAND_ALEN);
	}
	spin_unlock_bh(&dev->lock);
}

/*
 * Make one change, which counts against @num unless it fails; false: there is none,
 * but for those that have failed.
 */
static bool eipoib_group_sync(struct eipoib_dev *dev, int *num)
{
	struct eipoib_change change;
	bool done = true;

	lockdep_assert_held(&dev->joins);
	if (!eipoib_group_next(dev, &change))
		return false;
	if (change.join)
		done = !dev_mc_add(dev->lower, change.lladdr);
	else
		dev_mc_del(dev->lower, change.lladdr);
	eipoib_group_changed(dev, &change, done);
	*num -= done;
	return true;
}

/**
 * eipoib_groups_sync - have the lower interface join and leave
 * @dev: interface
 *
 * Not all at once: the next tick goes on, and tries again what has failed.  Only
 * this file frees groups, with eipoib_dev.joins held.
 *
 * Return: true if there may be more to do
 */
bool eipoib_groups_sync(struct eipoib_dev *dev)
{
	int num = EIPOIB_GROUP_SYNC;

	mutex_lock(&dev->joins);
	dev->sync_run++;
	while (num > 0 && eipoib_group_sync(dev, &num))
		;
	mutex_unlock(&dev->joins);
	return !num;
}

/**
 * eipoib_groups_away - the lower interface leaves its namespace, or has come to
 *	another one
 * @dev: interface
 * @away: it leaves; memberships end, as the stack forgets them
 */
void eipoib_groups_away(struct eipoib_dev *dev, bool away)
{
	int num = 0;

	mutex_lock(&dev->joins);
	dev->away = away;
	while (away && eipoib_group_sync(dev, &num))
		;
	mutex_unlock(&dev->joins);
}

/* Leave all groups; the timer does not run any more. */
void eipoib_groups_close(struct eipoib_dev *dev)
{
	struct eipoib_group *group;
	int num = 0;

	mutex_lock(&dev->joins);
	spin_lock_bh(&dev->lock);
	list_for_each_entry(group, &dev->group_list, list) {
		group->users = 0;
		group->expires = 0;
	}
	spin_unlock_bh(&dev->lock);
	while (eipoib_group_sync(dev, &num))
		;
	mutex_unlock(&dev->joins);
}

/* ---- netlink ------------------------------------------------------------- */

static bool eipoib_group_fill(struct sk_buff *skb, const void *object)
{
	const struct eipoib_group *group = object;
	unsigned long left = 0;

	if (time_before(jiffies, group->expires))
		left = group->expires - jiffies;
	return !eipoib_msg_put_ip(skb, EIPOIB_A_GROUP_ADDRESS, &group->ip) &&
	       !(!is_zero_ether_addr(group->mac) &&
		 nla_put(skb, EIPOIB_A_GROUP_MAC, ETH_ALEN, group->mac)) &&
	       !nla_put_u32(skb, EIPOIB_A_GROUP_USERS, group->users) &&
	       !(group->expires &&
		 eipoib_msg_put_ms(skb, EIPOIB_A_GROUP_EXPIRES, left)) &&
	       !(group->joined && nla_put_flag(skb, EIPOIB_A_GROUP_JOINED));
}

/**
 * eipoib_groups_dump - write groups to a dump
 * @dev: interface
 * @dump: dump; where it stands is the number of an entry
 * Return: 0, or -EMSGSIZE if there is no more room
 */
int eipoib_groups_dump(struct eipoib_dev *dev, struct eipoib_dump *dump)
{
	struct eipoib_group *group;
	int ret = 0;

	spin_lock_bh(&dev->lock);
	list_for_each_entry(group, &dev->group_list, list) {
		if (group->serial > dump->at)
			ret = eipoib_dump_one(dev, dump, eipoib_group_fill,
					      group, group->serial);
		if (ret)
			break;
	}
	spin_unlock_bh(&dev->lock);
	return ret;
}
