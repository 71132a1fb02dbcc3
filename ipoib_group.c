// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast groups: look-up and creation by senders, and what debugfs shows
 *
 * A packet to a group that is not on the stack's list creates a send-only
 * membership, which ipoib_multicast.c joins.
 *
 * Lock: struct ipoib_mcasts.lock.
 */
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/rhashtable.h>
#include <linux/seq_file.h>
#include <net/ipv6.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_count.h"
#include "ipoib_msg.h"
#include "ipoib_multicast.h"
#include "ipoib_multicast_internal.h"
#include "ipoib_neigh.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"

#define IPOIB_MCAST_WAITING	64
#define IPOIB_MCAST_DELAY_STEP	(HZ / 10)

const struct rhashtable_params ipoib_mcast_params = {
	.key_len = sizeof(union ib_gid),
	.key_offset = offsetof(struct ipoib_mcast, mgid),
	.head_offset = offsetof(struct ipoib_mcast, node),
	.automatic_shrinking = true,
};

/* ---- pending work ------------------------------------------------------- */

void ipoib_mcast_mgid(const struct ipoib_dev *dev, const u8 *addr,
		      union ib_gid *mgid)
{
	ipoib_addr_mgid(addr, dev->ndev->broadcast, dev->pkey, mgid);
}

bool ipoib_mcast_crowded(const struct ipoib_mcasts *m)
{
	return m->num_sendonly > IPOIB_MCAST_CROWDED;
}

/* Have the work item scan all groups, later. */
void ipoib_mcast_scan_by(struct ipoib_mcasts *m, unsigned long when)
{
	unsigned long soon = jiffies + IPOIB_MCAST_DELAY_STEP;

	lockdep_assert_held(&m->lock);
	if (m->scan_due && !time_before(when, m->scan_at))
		return;
	m->scan_due = true;
	m->scan_at = time_before(when, soon) ? soon : when;
}

/* Schedule a scan for unused send-only groups. */
void ipoib_mcast_scan_unused(struct ipoib_mcasts *m)
{
	ipoib_mcast_scan_by(m, jiffies + (ipoib_mcast_crowded(m) ?
					    IPOIB_MCAST_IDLE_SHORT :
					    IPOIB_MCAST_GC));
}

/*
 * Put a group in one of the work item's lists.  If it is in one already, a scan
 * of all groups finds out what it needs.
 */
void ipoib_mcast_todo(struct ipoib_mcast *group, struct list_head *list)
{
	struct ipoib_mcasts *m = group->dev->mcast;

	lockdep_assert_held(&m->lock);
	if (group->gone)
		return;
	if (list_empty(&group->todo))
		list_add_tail(&group->todo, list);
	else
		m->scan = true;
}

void ipoib_mcast_kick(struct ipoib_mcasts *m)
{
	lockdep_assert_held(&m->lock);
	if (m->running)
		mod_delayed_work(ipoib_wq, &m->work, 0);
}

/* ---- objects ------------------------------------------------------------ */

struct ipoib_mcast *ipoib_mcast_create(struct ipoib_dev *dev,
				       const union ib_gid *mgid)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	lockdep_assert_held(&m->lock);
	group = kzalloc_obj(*group, GFP_ATOMIC);
	if (!group)
		return NULL;
	group->mgid = *mgid;
	group->dev = dev;
	group->created = jiffies;
	group->used = jiffies;
	group->retry = jiffies;
	group->solicited = ipoib_mgid_is_solicited(mgid);
	INIT_LIST_HEAD(&group->todo);
	__skb_queue_head_init(&group->waiting);
	if (rhashtable_insert_fast(&m->table, &group->node,
				   ipoib_mcast_params)) {
		kfree(group);
		return NULL;
	}
	list_add_tail(&group->entry, &m->list);
	m->changes++;
	return group;
}

/* Note whether a group was created by a packet, or by the stack's list. */
void ipoib_mcast_set_sendonly(struct ipoib_mcast *group, bool sendonly)
{
	struct ipoib_mcasts *m = group->dev->mcast;

	lockdep_assert_held(&m->lock);
	m->num_sendonly += sendonly - group->sendonly;
	group->sendonly = sendonly;
}

/* ---- look-ups ----------------------------------------------------------- */

/* NULL until the broadcast group has been joined. */
static struct ipoib_ah *ipoib_mcast_broadcast_ah(const struct ipoib_mcasts *m)
{
	struct ipoib_mcast *group = rcu_dereference(m->broadcast);

	return group ? rcu_dereference(group->ah) : NULL;
}

/*
 * Does what is sent to the group go to the broadcast group for now?  (A group
 * to which nothing is sent for half the range of jiffies looks as if it were
 * new again; that does no harm.)
 */
static bool ipoib_mcast_by_broadcast(const struct ipoib_mcast *group,
				     const struct ipoib_ah *ah)
{
	unsigned long settled;

	if (likely(!group->solicited))
		return !ah && READ_ONCE(group->fallback);
	settled = READ_ONCE(group->settled);
	return !settled || time_before(jiffies, settled);
}

/*
 * Does IP send the packet to a group?  A reply to a peer that claims the address
 * of a group as its own is not to make us join that.
 */
static bool ipoib_mcast_is_ip(const struct sk_buff *skb)
{
	const struct ipoib_encap *encap =
		(const void *)(skb->data + INFINIBAND_ALEN);
	struct ipv6hdr buf6, *ip6;
	struct iphdr buf, *ip;

	switch (encap->proto) {
	case htons(ETH_P_IP):
		ip = skb_header_pointer(skb, IPOIB_HARD_LEN, sizeof(buf), &buf);
		return ip && ipv4_is_multicast(ip->daddr);
	case htons(ETH_P_IPV6):
		ip6 = skb_header_pointer(skb, IPOIB_HARD_LEN, sizeof(buf6),
					 &buf6);
		return ip6 && ipv6_addr_is_multicast(&ip6->daddr);
	}
	return false;
}

/* Create a send-only group for a packet. */
static struct ipoib_mcast *ipoib_mcast_create_sendonly(struct ipoib_dev *dev,
						       const union ib_gid *mgid)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	lockdep_assert_held(&m->lock);
	ipoib_mcast_scan_unused(m);
	group = ipoib_mcast_create(dev, mgid);
	if (!group)
		return NULL;
	ipoib_mcast_set_sendonly(group, true);
	group->seen = m->generation - 1;
	ipoib_mcast_todo(group, &m->join);
	return group;
}

/* No handle yet: wait for the group; create a send-only one if needed. */
static noinline struct ipoib_ah *ipoib_mcast_defer(struct ipoib_dev *dev,
						   struct sk_buff *skb,
						   const union ib_gid *mgid)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_ah *ah = NULL;
	struct ipoib_mcast *group;
	bool kept = false;

	spin_lock_bh(&m->lock);
	if (!m->running)
		goto unlock;
	group = rhashtable_lookup_fast(&m->table, mgid, ipoib_mcast_params);
	if (!group && !ipoib_mcast_is_ip(skb))
		goto unlock;
	if (!group && m->num_sendonly >= IPOIB_MCAST_SENDONLY) {
		/* A scan for unused groups has been scheduled before. */
		m->stats.limited++;
		ah = ipoib_mcast_broadcast_ah(m);
		goto unlock;
	}
	group = group ?: ipoib_mcast_create_sendonly(dev, mgid);
	if (!group)
		goto unlock;
	/* It may have been joined since we looked: then nothing is to wait. */
	ah = rcu_dereference_protected(group->ah, lockdep_is_held(&m->lock));
	if (!ah && group->solicited) {
		ah = ipoib_mcast_broadcast_ah(m);
		ipoib_mcast_kick(m);
	}
	if (ah)
		goto unlock;
	m->fall_back |= group->fallback;
	if (skb_queue_len(&group->waiting) < IPOIB_MCAST_WAITING &&
	    (group->failures < IPOIB_MCAST_GIVE_UP ||
	     group->state == IPOIB_MCAST_JOINING)) {
		__skb_queue_tail(&group->waiting, skb);
		kept = true;
	}
	ipoib_mcast_kick(m);
unlock:
	if (!kept && !ah)
		m->stats.dropped++;
	spin_unlock_bh(&m->lock);
	if (!kept && !ah)
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_QUEUEFULL);
	return ah;
}

/**
 * ipoib_mcast_lookup - look up how to reach a multicast link-layer address
 * @dev: interface
 * @skb: packet with the address in front
 * @addr: the address
 * @dest: result
 *
 * Context: RCU reader.
 * Return: false if the packet was consumed: it waits, or was dropped
 */
bool ipoib_mcast_lookup(struct ipoib_dev *dev, struct sk_buff *skb,
			const u8 *addr, struct ipoib_dest *dest)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;
	struct ipoib_ah *ah = NULL;
	union ib_gid mgid;

	ipoib_mcast_mgid(dev, addr, &mgid);
	group = rhashtable_lookup(&m->table, &mgid, ipoib_mcast_params);
	if (likely(group)) {
		ah = rcu_dereference(group->ah);
		if (group->sendonly)
			ipoib_stamp(&group->used);
		if (ipoib_mcast_by_broadcast(group, ah))
			ah = ipoib_mcast_broadcast_ah(m) ?: ah;
	}
	if (unlikely(!ah))
		ah = ipoib_mcast_defer(dev, skb, &mgid);
	dest->ah = ah;
	dest->qpn = IB_MULTICAST_QPN;
	dest->link = NULL;
	return ah;
}

/* ---- messages ----------------------------------------------------------- */

static int ipoib_mcast_fill_record(struct sk_buff *skb,
				   const struct ipoib_mcast *group)
{
	const struct ib_sa_mcmember_rec *rec = &group->rec;

	if (nla_put_u32(skb, IPOIB_A_GROUP_MLID, be16_to_cpu(rec->mlid)) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_MTU,
			max(ib_mtu_enum_to_int(rec->mtu), 0)) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_RATE,
			max(ib_rate_to_mbps(rec->rate), 0)) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_SL, rec->sl))
		return -EMSGSIZE;
	return 0;
}

/**
 * ipoib_mcast_fill - write a group's attributes to a message
 * @skb: message
 * @object: group
 *
 * Context: ipoib_mcasts.lock held.
 * Return: 0 or -EMSGSIZE
 */
int ipoib_mcast_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_mcast *group = object;
	const void *broadcast = rcu_access_pointer(group->dev->mcast->broadcast);

	lockdep_assert_held(&group->dev->mcast->lock);
	if (nla_put(skb, IPOIB_A_GROUP_MGID, sizeof(group->mgid),
		    &group->mgid) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_STATUS,
			group->gone ? IPOIB_GROUP_STATUS_LEFT :
				      ipoib_group_status(group->state)) ||
	    (group->sendonly && nla_put_flag(skb, IPOIB_A_GROUP_SEND_ONLY)) ||
	    (group == broadcast &&
	     nla_put_flag(skb, IPOIB_A_GROUP_BROADCAST)) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_FAILURES, group->failures) ||
	    (group->error &&
	     nla_put_s32(skb, IPOIB_A_GROUP_ERROR, group->error)) ||
	    nla_put_u32(skb, IPOIB_A_GROUP_WAITING_PACKETS,
			skb_queue_len(&group->waiting)))
		return -EMSGSIZE;
	return rcu_access_pointer(group->ah) ?
	       ipoib_mcast_fill_record(skb, group) : 0;
}

/**
 * ipoib_mcast_dump - write an interface's groups to a dump
 * @dev: interface
 * @dump: dump
 * Return: 0 or -EMSGSIZE, as ipoib_dump_one()
 */
int ipoib_mcast_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump)
{
	struct ipoib_mcasts *m = dev->mcast;
	const struct ipoib_mcast *group;
	int ret = 0;

	spin_lock_bh(&m->lock);
	ipoib_dump_begin(dump, m->changes);
	list_for_each_entry(group, &m->list, entry) {
		ret = ipoib_dump_one(dump, dev, ipoib_mcast_fill, group);
		if (ret)
			break;
	}
	spin_unlock_bh(&m->lock);
	return ret;
}

/* ---- counters and debugfs ----------------------------------------------- */

/**
 * ipoib_mcast_get_stats - counters of an interface's groups
 * @dev: interface
 * @stats: result
 */
void ipoib_mcast_get_stats(const struct ipoib_dev *dev,
			   struct ipoib_mcast_stats *stats)
{
	*stats = dev->mcast->stats;
}

/**
 * ipoib_mcast_show - write an interface's groups
 * @file: file
 * @dev: interface
 */
void ipoib_mcast_show(struct seq_file *file, const struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	list_for_each_entry(group, &m->list, entry) {
		seq_printf(file, "GID: %pI6\n", group->mgid.raw);
		seq_printf(file, "  created: %10ld\n", group->created);
		seq_printf(file, "  queuelen: %9d\n",
			   skb_queue_len(&group->waiting));
		seq_printf(file, "  complete: %9s\n",
			   rcu_access_pointer(group->ah) ? "yes" : "no");
		seq_printf(file, "  send_only: %8s\n",
			   group->sendonly ? "yes" : "no");
		seq_printf(file, "  state: %12s\n",
			   ipoib_mcast_state_name(group->state));
		seq_printf(file, "  mlid: %#13x\n\n",
			   be16_to_cpu(group->mlid));
	}
	spin_unlock_bh(&m->lock);
}
