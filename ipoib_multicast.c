// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast: the broadcast group and all others
 *
 * The broadcast group defines the link: MTU, Q_Key, SL and rate; the interface
 * has a carrier only once it has been joined.  The other groups follow the
 * stack's multicast list; a packet to a group that is not on it creates a
 * send-only membership.
 *
 * One work item per interface joins, attaches, detaches and leaves; ib_sa's
 * callback only records the answer and starts it.  Pending work is in lists, so
 * that an answer costs the same whether there are ten groups or thousands; all
 * groups are scanned only when the stack's list or the link has changed, and
 * when a delay is over.  Joins run in a window and back off on failure.  When
 * the SA forgets us (new SM, reregistration) the groups stay attached and in
 * use while they are joined again.
 *
 * Locks: ipoib_mcasts.lock (BH) covers list and states; it nests inside the
 * netdev TX lock and the address list lock.  The work item takes the engine's
 * to change the QP.  Closing does not wait for the SA: ib_sa_free_multicast()
 * only waits for a callback that is running.
 *
 * RFC 4391 sections 4, 5 and 10; IBA volume 1 section 15.2.5.17
 * (MCMemberRecord).
 */
#include <linux/rhashtable.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_debug.h"
#include "ipoib_engine.h"
#include "ipoib_msg.h"
#include "ipoib_multicast.h"
#include "ipoib_multicast_internal.h"
#include "ipoib_port.h"
#include "ipoib_probe.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_skb.h"
#include "ipoib_trace.h"

#define IPOIB_MCAST_WINDOW	32
#define IPOIB_MCAST_IDLE_TIME	(120 * HZ)
#define IPOIB_MCAST_COMPLAIN	3	/* log after this many failures */
/* Changes of the stack's list within this time are handled together. */
#define IPOIB_MCAST_LOOK_STEP	(HZ / 50)
/* What was left out is looked for again after this time. */
#define IPOIB_MCAST_LOOK_AGAIN	(2 * HZ)

/* Join states, IBA volume 1 section 15.2.5.17 */
#define IPOIB_JOIN_FULL		BIT(0)
#define IPOIB_JOIN_SENDONLY	BIT(3)	/* send-only full member */

static void ipoib_mcast_move(struct ipoib_mcast *group,
			     enum ipoib_mcast_state to, int status)
{
	enum ipoib_group_status was = ipoib_group_status(group->state);
	struct ipoib_mcasts *m = group->dev->mcast;

	lockdep_assert_held(&m->lock);
	WARN_ON_ONCE(!ipoib_mcast_may_move(group->state, to));
	if (group->state == IPOIB_MCAST_JOINING)
		m->joining--;
	if (to == IPOIB_MCAST_JOINING)
		m->joining++;
	trace_ipoib_mcast_state(group->dev, &group->mgid, group->sendonly,
				group->state, to, status);
	group->state = to;
	/* Never 0 while it is joined. */
	WRITE_ONCE(group->settled, to == IPOIB_MCAST_MEMBER ?
				   (jiffies + IPOIB_MCAST_SETTLE) | 1 : 0);
	if (ipoib_group_status(to) != was || group->gone)
		ipoib_msg_notify(group->dev, IPOIB_CMD_GROUP_NTF,
				 ipoib_mcast_fill, group);
}

static struct ipoib_mcast *ipoib_mcast_broadcast(const struct ipoib_mcasts *m)
{
	return rcu_dereference_protected(m->broadcast,
					 lockdep_is_held(&m->lock));
}

static bool ipoib_mcast_is_broadcast(const struct ipoib_mcast *group)
{
	return group == rcu_access_pointer(group->dev->mcast->broadcast);
}

static struct ipoib_mcast *ipoib_mcast_pop(struct ipoib_mcasts *m,
					   struct list_head *list)
{
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	group = list_first_entry_or_null(list, struct ipoib_mcast, todo);
	if (group)
		list_del_init(&group->todo);
	spin_unlock_bh(&m->lock);
	return group;
}

static void ipoib_mcast_drop_waiting(struct ipoib_dev *dev,
				     struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list))) {
		dev->mcast->stats.dropped++;
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_FAILED);
	}
}

/* ---- leaving ------------------------------------------------------------ */

/* Leave the group; ib_sa tells the SA later. */
static void ipoib_mcast_leave(struct ipoib_mcast *group)
{
	struct ipoib_mcasts *m = group->dev->mcast;
	struct ib_sa_multicast *sa;

	spin_lock_bh(&m->lock);
	sa = group->sa;
	group->sa = NULL;
	ipoib_mcast_move(group, IPOIB_MCAST_IDLE, 0);
	spin_unlock_bh(&m->lock);
	if (sa)
		ib_sa_free_multicast(sa);
}

/* Free a group that is off the list: only RCU readers may refer to it. */
static void ipoib_mcast_free(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_ah *ah;

	dev->engine->detach(dev, &group->attachment);
	ipoib_mcast_leave(group);
	ipoib_mcast_drop_waiting(dev, &group->waiting);
	spin_lock_bh(&m->lock);
	ah = rcu_replace_pointer(group->ah, NULL, lockdep_is_held(&m->lock));
	spin_unlock_bh(&m->lock);
	ipoib_ah_retire(dev->port, ah);
	kfree_rcu(group, rcu);
}

static void ipoib_mcast_unlink(struct ipoib_mcast *group)
{
	struct ipoib_mcasts *m = group->dev->mcast;

	lockdep_assert_held(&m->lock);
	group->gone = true;
	m->changes++;
	ipoib_mcast_set_sendonly(group, false);
	list_del(&group->entry);
	list_del_init(&group->todo);
	rhashtable_remove_fast(&m->table, &group->node, ipoib_mcast_params);
}

/* ---- joining ------------------------------------------------------------ */

/* Schedule the next attempt after an error; called with the lock held. */
static void ipoib_mcast_backoff(struct ipoib_mcast *group, int error,
				bool unusable)
{
	unsigned long delay;

	lockdep_assert_held(&group->dev->mcast->lock);
	group->error = error;
	group->unusable = unusable;
	if (ipoib_mcast_is_broadcast(group))
		ipoib_dev_event(group->dev, IPOIB_EV_CAUSE);
	if (error == -ETIMEDOUT)
		ipoib_probe_unanswered(group->dev->port);
	delay = ipoib_mcast_delay(group->failures,
				  ipoib_mcast_is_broadcast(group));
	group->failures++;
	group->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_mcast_scan_by(group->dev->mcast, group->retry);
	group->dev->mcast->stats.join_failures++;
	/* Senders have given up, too, and their sockets need the memory. */
	if (group->failures >= IPOIB_MCAST_GIVE_UP)
		ipoib_mcast_drop_waiting(group->dev, &group->waiting);
}

/*
 * The join was not sent: ib_sa has had no address of the SM since an event.
 * That passes soon, unless there is no SM.
 */
static bool ipoib_mcast_put_off(struct ipoib_mcast *group)
{
	unsigned long delay;

	if (group->unsent >= IPOIB_UNSENT_MAX)
		return false;
	delay = ipoib_unsent_delay(group->unsent++);
	group->retry = jiffies + delay;
	ipoib_mcast_scan_by(group->dev->mcast, group->retry);
	return true;
}

/* Logged once for each series of attempts, which ends when one succeeds. */
static void ipoib_mcast_complain(const struct ipoib_mcast *group, int status)
{
	const char *why = "no answer from the SA";

	/* Without a carrier, ipoib_why.c says it. */
	if (ipoib_mcast_is_broadcast(group) &&
	    !netif_carrier_ok(group->dev->ndev))
		return;
	if (status == -EINVAL)
		why = "refused by the SA";
	else if (status != -ETIMEDOUT)
		why = "can't send a request";
	net_ratelimited_function(netdev_warn, group->dev->ndev,
				 "group %pI6 not joined: %s\n",
				 group->mgid.raw, why);
}

/*
 * ib_sa's answer, or its report that a membership is lost (-ENETRESET).
 * Whoever finds group->sa set and clears it owns the handle: this function,
 * which has it freed by returning an error, or ipoib_mcast_leave().
 */
static int ipoib_mcast_answer(int status, struct ib_sa_multicast *sa)
{
	struct ipoib_mcast *group = sa->context;
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = dev->mcast;
	int ret = status;

	spin_lock_bh(&m->lock);
	if (group->sa != sa && group->state != IPOIB_MCAST_JOINING) {
		/* Being left: ipoib_mcast_leave() waits for us and frees it. */
		ret = 0;
		goto unlock;
	}
	/* A join that was not sent does not count. */
	if (group->state == IPOIB_MCAST_JOINING && status != -EAGAIN)
		m->stats.joins++;
	if (!status) {
		group->sa = sa;
		group->rec = sa->rec;
		/* Failures count until it can be used: ipoib_mcast_usable(). */
		group->unsent = 0;
		ipoib_mcast_move(group, IPOIB_MCAST_JOINED, 0);
		ipoib_mcast_todo(group, &m->answered);
	} else {
		group->sa = NULL;
		if (status == -ENETRESET) {
			group->retry = jiffies;
			ipoib_mcast_todo(group, &m->join);
		} else if (status != -EAGAIN || !ipoib_mcast_put_off(group)) {
			ipoib_mcast_backoff(group, status, false);
			if (group->failures == IPOIB_MCAST_COMPLAIN)
				ipoib_mcast_complain(group, status);
		}
		ipoib_mcast_move(group, IPOIB_MCAST_IDLE, status);
		/* Refused, not just unanswered: use the broadcast group. */
		if (status == -EINVAL && group->sendonly &&
		    group->failures > 1) {
			group->fallback = true;
			m->fall_back = true;
		}
	}
	ipoib_mcast_kick(m);
unlock:
	/* From here on the interface may be gone: nobody waits for us. */
	spin_unlock_bh(&m->lock);
	return ret;
}

/* What other groups must have in common with the broadcast group. */
static ib_sa_comp_mask ipoib_mcast_inherit(struct ib_sa_mcmember_rec *rec,
					   const struct ib_sa_mcmember_rec *bc)
{
	rec->qkey = bc->qkey;
	rec->mtu_selector = IB_SA_EQ;
	rec->mtu = bc->mtu;
	rec->traffic_class = bc->traffic_class;
	rec->rate_selector = IB_SA_EQ;
	rec->rate = bc->rate;
	rec->sl = bc->sl;
	rec->flow_label = bc->flow_label;
	rec->hop_limit = bc->hop_limit;
	return IB_SA_MCMEMBER_REC_QKEY |
	       IB_SA_MCMEMBER_REC_MTU_SELECTOR | IB_SA_MCMEMBER_REC_MTU |
	       IB_SA_MCMEMBER_REC_TRAFFIC_CLASS |
	       IB_SA_MCMEMBER_REC_RATE_SELECTOR | IB_SA_MCMEMBER_REC_RATE |
	       IB_SA_MCMEMBER_REC_SL | IB_SA_MCMEMBER_REC_FLOW_LABEL |
	       IB_SA_MCMEMBER_REC_HOP_LIMIT;
}

/*
 * ib_sa keeps one membership of a group per port, and refuses another one with
 * another GID.  Another interface of the port, with another GUID, may have
 * joined the group; then both share that membership.
 */
static void ipoib_mcast_share(struct ipoib_dev *dev,
			      struct ib_sa_mcmember_rec *rec)
{
	struct ib_sa_mcmember_rec have;
	union ib_gid *gid = &have.port_gid;

	if (ib_sa_get_mcmember_rec(dev->port->ca, dev->port->num, &rec->mgid,
				   &have) ||
	    rec->join_state & ~have.join_state ||
	    gid->global.subnet_prefix != rec->port_gid.global.subnet_prefix ||
	    !ipoib_port_has_guid(dev->port, gid->global.interface_id))
		return;
	rec->port_gid = *gid;
}

/* Other groups wait for the broadcast group; a scan finds them later. */
static bool ipoib_mcast_may_join(const struct ipoib_mcast *group)
{
	const struct ipoib_mcasts *m = group->dev->mcast;

	lockdep_assert_held(&m->lock);
	return group->state == IPOIB_MCAST_IDLE &&
	       (ipoib_mcast_is_broadcast(group) ||
		rcu_access_pointer(ipoib_mcast_broadcast(m)->ah));
}

static void ipoib_mcast_join(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = dev->mcast;
	struct ib_sa_mcmember_rec rec = {
		.mgid = group->mgid,
		.port_gid = dev->local_gid,
		.pkey = cpu_to_be16(dev->pkey),
		.join_state = group->sendonly ? IPOIB_JOIN_SENDONLY :
						IPOIB_JOIN_FULL,
	};
	ib_sa_comp_mask mask = IB_SA_MCMEMBER_REC_MGID |
			       IB_SA_MCMEMBER_REC_PORT_GID |
			       IB_SA_MCMEMBER_REC_PKEY |
			       IB_SA_MCMEMBER_REC_JOIN_STATE;
	struct ib_sa_multicast *sa;
	bool again;

	spin_lock_bh(&m->lock);
	if (!ipoib_mcast_may_join(group)) {
		spin_unlock_bh(&m->lock);
		return;
	}
	again = group->failures;
	if (!ipoib_mcast_is_broadcast(group))
		mask |= ipoib_mcast_inherit(&rec,
			&ipoib_mcast_broadcast(m)->rec);
	ipoib_mcast_move(group, IPOIB_MCAST_JOINING, 0);
	spin_unlock_bh(&m->lock);

	/* Not at first: the other membership may be about to end. */
	if (again)
		ipoib_mcast_share(dev, &rec);
	ipoib_dbg_mcast(dev, "joining %pI6\n", group->mgid.raw);
	sa = ib_sa_join_multicast(&ipoib_sa, dev->port->ca, dev->port->num,
				  &rec, mask, GFP_KERNEL,
				  ipoib_mcast_answer, group);

	spin_lock_bh(&m->lock);
	if (IS_ERR(sa)) {
		ipoib_mcast_backoff(group, PTR_ERR(sa), false);
		ipoib_mcast_move(group, IPOIB_MCAST_IDLE, PTR_ERR(sa));
	} else if (group->state == IPOIB_MCAST_JOINING) {
		group->sa = sa;	/* not answered yet */
	}
	spin_unlock_bh(&m->lock);
}

static struct ipoib_ah *ipoib_mcast_make_ah(struct ipoib_mcast *group)
{
	struct ipoib_port *port = group->dev->port;
	struct ib_sa_mcmember_rec rec = group->rec;
	struct rdma_ah_attr attr;
	struct ipoib_ah *ah;
	int ret;

	/* Whichever of the port's GIDs is the member, we send from this. */
	rec.port_gid = group->dev->local_gid;
	ret = ib_init_ah_from_mcmember(port->ca, port->num, &rec, NULL,
				       IB_GID_TYPE_IB, &attr);
	if (ret)
		return ERR_PTR(ret);
	ah = ipoib_ah_create(port, &attr);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

/*
 * The MTU that the broadcast group announces, but no more than the port has: an
 * HCA stops its send queue at a datagram that is longer.  If the port can't be
 * read, it has what it had; before that, the group has to be joined again.
 */
static int ipoib_mcast_link_mtu(struct ipoib_dev *dev,
				const struct ib_sa_mcmember_rec *rec)
{
	struct ipoib_port *port = dev->port;
	int mtu = ipoib_ud_mtu(rec->mtu);
	struct ib_port_attr attr;
	int most, active;

	if (mtu < 0)
		return mtu;
	active = ipoib_port_active(port, &attr);
	if (active > 0)
		WRITE_ONCE(port->active_mtu, attr.active_mtu);
	else if (!READ_ONCE(port->active_mtu))
		return active ?: -ENETDOWN;
	most = ipoib_ud_mtu(READ_ONCE(port->active_mtu));
	return min3(mtu, most < 0 ? mtu : most, (int)dev->ud_mtu);
}

/* The broadcast group defines the link's parameters. */
static int ipoib_mcast_set_link(struct ipoib_dev *dev,
				const struct ib_sa_mcmember_rec *rec)
{
	int mtu = ipoib_mcast_link_mtu(dev, rec);

	if (mtu < 0)
		return mtu;
	WRITE_ONCE(dev->mcast_mtu, mtu);
	WRITE_ONCE(dev->tclass, rec->traffic_class);
	return dev->engine->set_link(dev, mtu + IPOIB_ENCAP_LEN,
				     be32_to_cpu(rec->qkey));
}

/* It is attached, and has a handle; returns the old one. */
static struct ipoib_ah *ipoib_mcast_usable(struct ipoib_mcast *group,
					   struct ipoib_ah *ah)
{
	struct ipoib_mcasts *m = group->dev->mcast;
	struct ipoib_ah *old;

	lockdep_assert_held(&m->lock);
	old = rcu_replace_pointer(group->ah, ah, lockdep_is_held(&m->lock));
	group->failures = 0;
	group->error = 0;
	group->unusable = false;
	group->fallback = false;
	/* The membership may have been lost meanwhile. */
	if (group->state == IPOIB_MCAST_JOINED)
		ipoib_mcast_move(group, IPOIB_MCAST_MEMBER, 0);
	/* The link is known: the other groups can be joined. */
	if (ipoib_mcast_is_broadcast(group)) {
		m->scan = true;
		m->fall_back = true;
	}
	return old;
}

/*
 * It was joined and can't be used: leave it, try again later.  Logged once for
 * each series of attempts; ipoib_why.c says it of the broadcast group.
 */
static void ipoib_mcast_unusable(struct ipoib_mcast *group, int error,
				 bool again)
{
	if (!again && !ipoib_mcast_is_broadcast(group))
		net_ratelimited_function(netdev_warn, group->dev->ndev,
					 "can't use group %pI6: %pe\n",
					 group->mgid.raw, ERR_PTR(error));
	ipoib_mcast_leave(group);
}

/* Join succeeded: attach, create a handle, send the packets that waited. */
static void ipoib_mcast_finish(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_ah *ah, *old = NULL;
	struct sk_buff_head send;
	struct sk_buff *skb;
	bool again;
	int ret = 0;

	__skb_queue_head_init(&send);
	if (ipoib_mcast_is_broadcast(group))
		ret = ipoib_mcast_set_link(dev, &group->rec);
	if (!ret && !group->sendonly)
		ret = dev->engine->attach(dev, &group->attachment, &group->mgid,
					  group->rec.mlid);
	group->mlid = group->rec.mlid;

	ah = ret ? ERR_PTR(ret) : ipoib_mcast_make_ah(group);
	spin_lock_bh(&m->lock);
	again = group->unusable;
	if (IS_ERR(ah)) {
		ipoib_mcast_backoff(group, PTR_ERR(ah), true);
	} else {
		old = ipoib_mcast_usable(group, ah);
		skb_queue_splice_tail_init(&group->waiting, &send);
	}
	spin_unlock_bh(&m->lock);

	if (IS_ERR(ah)) {
		ipoib_mcast_unusable(group, PTR_ERR(ah), again);
		return;
	}
	ipoib_ah_retire(dev->port, old);
	if (ipoib_mcast_is_broadcast(group))
		ipoib_dev_event(dev, IPOIB_EV_LINK);
	while ((skb = __skb_dequeue(&send)))
		dev_queue_xmit(skb);
}

/* ---- the stack's list --------------------------------------------------- */

/* umcast: has user space joined it, which takes care of delivery then? */
static bool ipoib_mcast_is_users(const struct ipoib_dev *dev,
				 union ib_gid *mgid)
{
	struct ib_sa_mcmember_rec rec;

	/* ib_sa also knows groups that are being left. */
	return dev->umcast &&
	       !ib_sa_get_mcmember_rec(dev->port->ca, dev->port->num, mgid,
				       &rec) &&
	       rec.join_state & IPOIB_JOIN_FULL;
}

/* Create or keep the group of an address on the stack's list. */
static void ipoib_mcast_want(struct ipoib_dev *dev, const u8 *addr)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;
	union ib_gid mgid;

	if (!ipoib_addr_is_multicast(addr))
		return;
	ipoib_mcast_mgid(dev, addr, &mgid);
	group = rhashtable_lookup_fast(&m->table, &mgid, ipoib_mcast_params);
	if (!group && !ipoib_mcast_is_users(dev, &mgid))
		group = ipoib_mcast_create(dev, &mgid);
	if (group)
		group->seen = m->generation;
	else
		m->incomplete = true;	/* no memory, or user space may leave */
}

static void ipoib_mcast_look(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct netdev_hw_addr *ha;

	netif_addr_lock_bh(dev->ndev);
	spin_lock(&m->lock);
	m->resync = false;
	m->incomplete = false;
	m->looked = jiffies;
	m->scan = true;
	m->generation++;
	netdev_for_each_mc_addr(ha, dev->ndev)
		ipoib_mcast_want(dev, ha->addr);
	spin_unlock(&m->lock);
	netif_addr_unlock_bh(dev->ndev);
}

static bool ipoib_mcast_unwanted(const struct ipoib_mcast *group)
{
	const struct ipoib_mcasts *m = group->dev->mcast;

	if (ipoib_mcast_is_broadcast(group) || group->seen == m->generation)
		return false;
	if (!group->sendonly)
		return true;
	return time_after(jiffies, READ_ONCE(group->used) +
				   (ipoib_mcast_crowded(m) ?
				    IPOIB_MCAST_IDLE_SHORT :
				    IPOIB_MCAST_IDLE_TIME));
}

/*
 * Scan all groups: those no longer wanted move to @gone, the others to the list
 * of what they need.
 *
 * Like joins, leaves are limited, but per scan, since nothing reports that they
 * are done: thousands of requests at once would be lost, and ib_mad searches
 * all of them for each answer with interrupts disabled.
 */
static void ipoib_mcast_scan(struct ipoib_dev *dev, struct list_head *gone)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group, *next;
	unsigned long now = jiffies;
	u32 leaves = 0;

	lockdep_assert_held(&m->lock);
	m->scan = false;
	m->scan_due = false;
	list_for_each_entry_safe(group, next, &m->list, entry) {
		if (ipoib_mcast_unwanted(group)) {
			list_del_init(&group->todo);
			if (leaves++ >= IPOIB_MCAST_WINDOW)
				continue;
			ipoib_mcast_unlink(group);
			list_add_tail(&group->entry, gone);
			continue;
		}
		if (group->sendonly)
			ipoib_mcast_scan_unused(m);
		if (group->sendonly && group->seen == m->generation)
			list_move_tail(&group->todo, &m->upgrade);
		else if (group->state == IPOIB_MCAST_JOINED)
			list_move_tail(&group->todo, &m->answered);
		else if (group->state != IPOIB_MCAST_IDLE)
			list_del_init(&group->todo);
		else if (!time_after(group->retry, now))
			list_move_tail(&group->todo, &m->join);
		else
			ipoib_mcast_scan_by(m, group->retry);
	}
	if (leaves > IPOIB_MCAST_WINDOW) {
		m->scan_due = true;
		m->scan_at = now + 1;
	}
}

/* Leave all groups that were joined with a GID that the port has lost. */
static void ipoib_mcast_leave_all(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	m->leave = false;
	m->scan = true;
	list_for_each_entry(group, &m->list, entry)
		list_move_tail(&group->todo, &m->leaving);
	spin_unlock_bh(&m->lock);
	while ((group = ipoib_mcast_pop(m, &m->leaving))) {
		ipoib_mcast_leave(group);
		group->retry = jiffies;
	}
}

/* Send what waits and may go to the broadcast group, which has been joined. */
static void ipoib_mcast_fall_back(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;
	struct sk_buff_head send;
	struct sk_buff *skb;

	__skb_queue_head_init(&send);
	spin_lock_bh(&m->lock);
	m->fall_back = false;
	list_for_each_entry(group, &m->list, entry)
		if (group->fallback || group->solicited)
			skb_queue_splice_tail_init(&group->waiting, &send);
	spin_unlock_bh(&m->lock);
	while ((skb = __skb_dequeue(&send)))
		dev_queue_xmit(skb);
}

/* Join groups as long as there is room in the window. */
static void ipoib_mcast_join_some(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	while (READ_ONCE(m->joining) < IPOIB_MCAST_WINDOW &&
	       (group = ipoib_mcast_pop(m, &m->join)))
		ipoib_mcast_join(group);
}

/* Is the stack's list to be looked at, and at what time?  Only @work looks. */
static bool ipoib_mcast_look_at(const struct ipoib_mcasts *m, unsigned long *at)
{
	bool resync = READ_ONCE(m->resync);

	*at = READ_ONCE(m->looked) + (resync ? IPOIB_MCAST_LOOK_STEP :
					       IPOIB_MCAST_LOOK_AGAIN);
	return resync || READ_ONCE(m->incomplete);
}

/* Schedule the work item if there is something to do. */
static void ipoib_mcast_schedule(struct ipoib_mcasts *m)
{
	unsigned long now = jiffies, at = m->scan_at, look;
	bool due = m->scan_due;

	lockdep_assert_held(&m->lock);
	if (ipoib_mcast_look_at(m, &look) && (!due || time_before(look, at))) {
		at = look;
		due = true;
	}
	if (m->scan || m->fall_back || !list_empty(&m->answered) ||
	    !list_empty(&m->upgrade) ||
	    (!list_empty(&m->join) && m->joining < IPOIB_MCAST_WINDOW)) {
		at = now;
		due = true;
	}
	if (m->running && due)
		queue_delayed_work(ipoib_wq, &m->work,
				   time_after(at, now) ? at - now : 0);
}

/* True if the port is active; if its state is unknown, try again later. */
static bool ipoib_mcast_may_talk(struct ipoib_dev *dev)
{
	int active = ipoib_port_active(dev->port, NULL);
	struct ipoib_mcasts *m = dev->mcast;

	if (active >= 0) {
		m->unknown = 0;
		/* An event is reported when the port is active again. */
		return active;
	}
	spin_lock_bh(&m->lock);
	if (m->running)
		queue_delayed_work(ipoib_wq, &m->work,
				   ipoib_dev_delay(m->unknown++));
	spin_unlock_bh(&m->lock);
	return false;
}

static void ipoib_mcast_run(struct work_struct *work)
{
	struct ipoib_mcasts *m =
		container_of(work, struct ipoib_mcasts, work.work);
	struct ipoib_dev *dev = m->dev;
	struct ipoib_mcast *group, *next;
	unsigned long look;
	LIST_HEAD(gone);

	if (!ipoib_mcast_may_talk(dev))
		return;
	if (READ_ONCE(m->leave))
		ipoib_mcast_leave_all(dev);
	if (ipoib_mcast_look_at(m, &look) && time_after_eq(jiffies, look))
		ipoib_mcast_look(dev);
	if (READ_ONCE(m->fall_back))
		ipoib_mcast_fall_back(dev);

	spin_lock_bh(&m->lock);
	if (m->scan || (m->scan_due && time_after_eq(jiffies, m->scan_at)))
		ipoib_mcast_scan(dev, &gone);
	spin_unlock_bh(&m->lock);

	list_for_each_entry_safe(group, next, &gone, entry)
		ipoib_mcast_free(group);
	while ((group = ipoib_mcast_pop(m, &m->upgrade))) {
		ipoib_mcast_leave(group);
		spin_lock_bh(&m->lock);
		ipoib_mcast_set_sendonly(group, false);
		ipoib_mcast_todo(group, &m->join);
		spin_unlock_bh(&m->lock);
	}
	while ((group = ipoib_mcast_pop(m, &m->answered)))
		if (READ_ONCE(group->state) == IPOIB_MCAST_JOINED)
			ipoib_mcast_finish(group);
	ipoib_mcast_join_some(dev);

	spin_lock_bh(&m->lock);
	ipoib_mcast_schedule(m);
	spin_unlock_bh(&m->lock);
}

static void ipoib_mcast_work(struct work_struct *work)
{
	unsigned int noio = memalloc_noio_save();

	ipoib_mcast_run(work);
	memalloc_noio_restore(noio);
}

/**
 * ipoib_mcast_resync - the stack's multicast list changed
 * @dev: interface
 *
 * Context: any.
 */
void ipoib_mcast_resync(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;

	spin_lock_bh(&m->lock);
	m->resync = true;
	ipoib_mcast_kick(m);
	spin_unlock_bh(&m->lock);
}

/**
 * ipoib_mcast_rejoin - SM changed or asked for reregistration
 * @dev: interface
 * @leave: the port's GID changed; memberships under the old one are given up
 *
 * Memberships that ib_sa reported lost are renewed at once; groups stay in use.
 */
void ipoib_mcast_rejoin(struct ipoib_dev *dev, bool leave)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	m->leave |= leave;
	m->scan = true;
	list_for_each_entry(group, &m->list, entry) {
		group->retry = jiffies;
		group->failures = 0;
		group->error = 0;
		group->unusable = false;
		group->unsent = 0;
	}
	ipoib_mcast_kick(m);
	spin_unlock_bh(&m->lock);
}

/**
 * ipoib_mcast_get_facts - what the broadcast group says about an interface
 * @dev: interface
 * @facts: its @join_error and @unusable are set
 * Return: true if the group has been joined
 */
bool ipoib_mcast_get_facts(const struct ipoib_dev *dev,
			   struct ipoib_facts *facts)
{
	struct ipoib_mcasts *m = dev->mcast;
	const struct ipoib_mcast *bc;
	bool joined;

	spin_lock_bh(&m->lock);
	bc = ipoib_mcast_broadcast(m);
	joined = bc && bc->state == IPOIB_MCAST_MEMBER;
	facts->join_error = bc ? bc->error : 0;
	facts->unusable = bc && bc->unusable;
	spin_unlock_bh(&m->lock);
	return joined;
}

/**
 * ipoib_mcast_is_up - is the broadcast group joined?
 * @dev: interface
 */
bool ipoib_mcast_is_up(struct ipoib_dev *dev)
{
	struct ipoib_facts facts;

	return ipoib_mcast_get_facts(dev, &facts);
}

/* ---- life cycle --------------------------------------------------------- */

/**
 * ipoib_mcast_start - the interface comes up: join the broadcast group
 * @dev: interface
 *
 * Context: process, @dev->lock held.
 * Return: 0 or -ENOMEM; ipoib_mcast_stop() may be called in either case
 */
int ipoib_mcast_start(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *bc;
	union ib_gid mgid;

	/* The address may still have an old P_Key: changing it needs rtnl. */
	ipoib_mcast_mgid(dev, dev->ndev->broadcast, &mgid);
	spin_lock_bh(&m->lock);
	bc = ipoib_mcast_create(dev, &mgid);
	if (bc) {
		rcu_assign_pointer(m->broadcast, bc);
		m->running = true;
		m->resync = true;
		m->looked = jiffies - IPOIB_MCAST_LOOK_STEP;
		m->leave = false;
		ipoib_mcast_todo(bc, &m->join);
		ipoib_mcast_kick(m);
	}
	spin_unlock_bh(&m->lock);
	return bc ? 0 : -ENOMEM;
}

/**
 * ipoib_mcast_stop - leave all groups
 * @dev: interface that goes down
 *
 * Does not wait for the SA.
 *
 * Context: process, @dev->lock held.
 */
void ipoib_mcast_stop(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = dev->mcast;
	struct ipoib_mcast *group, *next;
	LIST_HEAD(gone);

	spin_lock_bh(&m->lock);
	m->running = false;
	spin_unlock_bh(&m->lock);
	cancel_delayed_work_sync(&m->work);

	spin_lock_bh(&m->lock);
	list_for_each_entry_safe(group, next, &m->list, entry) {
		ipoib_mcast_unlink(group);
		list_add_tail(&group->entry, &gone);
	}
	rcu_assign_pointer(m->broadcast, NULL);
	spin_unlock_bh(&m->lock);

	list_for_each_entry_safe(group, next, &gone, entry)
		ipoib_mcast_free(group);
}

/**
 * ipoib_mcast_init - prepare an interface's groups
 * @dev: interface
 * Return: 0 or -errno
 */
int ipoib_mcast_init(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m;
	int ret;

	m = kzalloc_obj(*m);
	if (!m)
		return -ENOMEM;
	m->dev = dev;
	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->list);
	INIT_LIST_HEAD(&m->join);
	INIT_LIST_HEAD(&m->answered);
	INIT_LIST_HEAD(&m->upgrade);
	INIT_LIST_HEAD(&m->leaving);
	INIT_DELAYED_WORK(&m->work, ipoib_mcast_work);
	ret = rhashtable_init(&m->table, &ipoib_mcast_params);
	if (ret) {
		kfree(m);
		return ret;
	}
	dev->mcast = m;
	return 0;
}

/**
 * ipoib_mcast_exit - undo ipoib_mcast_init(); the interface is down
 * @dev: interface
 */
void ipoib_mcast_exit(struct ipoib_dev *dev)
{
	rhashtable_destroy(&dev->mcast->table);
	kfree(dev->mcast);
	dev->mcast = NULL;
}
