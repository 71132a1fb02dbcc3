// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multicast: the broadcast group and all others
 *
 * The broadcast group is the link: it gives MTU, Q_Key, SL and rate, and the
 * interface has a carrier only once it has been joined.  The other groups
 * follow the stack's multicast list; a packet to a group that is not on it
 * makes a send-only membership.
 *
 * One work item per interface joins, attaches, detaches and leaves; ib_sa's
 * callback only notes the answer and starts it.  What it is to do is in lists,
 * so that an answer costs the same whether there are ten groups or thousands;
 * it looks at all of them only when the stack's list or the link has changed
 * and when a delay is over.  Joins run in a window and back off on failure.
 * When the SA forgets us (new SM, reregistration) the groups stay attached and
 * in use while they are joined again.
 *
 * Locks: ipoib_mcasts.lock (BH) covers list and states; it nests inside the
 * netdev TX lock and the address list lock.  The work item takes
 * ipoib_ud.lock around what changes the QP.  Closing waits for nobody:
 * ib_sa_free_multicast() only waits for a callback that is running.
 *
 * RFC 4391 sections 4, 5 and 10; IBA volume 1 section 15.2.5.17
 * (MCMemberRecord).
 */
#include <linux/jhash.h>
#include <linux/rhashtable.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_trace.h"

#define IPOIB_MCAST_WINDOW	32
#define IPOIB_MCAST_WAITING	64
#define IPOIB_MCAST_IDLE_TIME	(120 * HZ)
#define IPOIB_MCAST_COMPLAIN	3	/* failures in a row that are logged */
/*
 * Groups that only packets made; with many of them, the unused go soon.  Packets
 * to further ones go to the broadcast group, where all members are, too.
 */
#define IPOIB_MCAST_SENDONLY	2048
#define IPOIB_MCAST_CROWDED	(IPOIB_MCAST_SENDONLY * 3 / 4)
#define IPOIB_MCAST_IDLE_SHORT	(5 * HZ)
#define IPOIB_MCAST_GC		(30 * HZ)
/* Changes of the stack's list, and delays that end, are taken together. */
#define IPOIB_MCAST_LOOK_STEP	(HZ / 50)
#define IPOIB_MCAST_DELAY_STEP	(HZ / 10)

/* Join states, IBA volume 1 section 15.2.5.17 */
#define IPOIB_JOIN_FULL		BIT(0)
#define IPOIB_JOIN_SENDONLY	BIT(3)	/* send-only full member */

static void ipoib_mcast_move(struct ipoib_mcast *group,
			     enum ipoib_mcast_state to, int status)
{
	struct ipoib_mcasts *m = &group->dev->mcast;

	lockdep_assert_held(&m->lock);
	WARN_ON_ONCE(!ipoib_mcast_may_move(group->state, to));
	if (group->state == IPOIB_MCAST_JOINING)
		m->joining--;
	if (to == IPOIB_MCAST_JOINING)
		m->joining++;
	trace_ipoib_mcast_state(group, group->state, to, status);
	group->state = to;
}

static const struct rhashtable_params ipoib_mcast_params = {
	.key_len = sizeof(union ib_gid),
	.key_offset = offsetof(struct ipoib_mcast, mgid),
	.head_offset = offsetof(struct ipoib_mcast, node),
	.automatic_shrinking = true,
};

static bool ipoib_mcast_is_broadcast(const struct ipoib_mcast *group)
{
	return group == rcu_access_pointer(group->dev->mcast.broadcast);
}

static void ipoib_mcast_mgid(const struct ipoib_dev *dev, const u8 *addr,
			     union ib_gid *mgid)
{
	ipoib_addr_mgid(addr, dev->ndev->broadcast, dev->pkey, mgid);
}

/* ---- what is to be done --------------------------------------------------- */

static bool ipoib_mcast_crowded(const struct ipoib_mcasts *m)
{
	return m->num_sendonly > IPOIB_MCAST_CROWDED;
}

/* Have the work item look at all groups, later. */
static void ipoib_mcast_survey_by(struct ipoib_mcasts *m, unsigned long when)
{
	unsigned long soon = jiffies + IPOIB_MCAST_DELAY_STEP;

	lockdep_assert_held(&m->lock);
	if (m->survey_due && !time_before(when, m->survey_at))
		return;
	m->survey_due = true;
	m->survey_at = time_before(when, soon) ? soon : when;
}

/* Unused send-only groups are to be found. */
static void ipoib_mcast_survey_unused(struct ipoib_mcasts *m)
{
	ipoib_mcast_survey_by(m, jiffies + (ipoib_mcast_crowded(m) ?
					    IPOIB_MCAST_IDLE_SHORT :
					    IPOIB_MCAST_GC));
}

/*
 * Put a group on a list of the work item's.  If it is on one already, a look at
 * all groups finds out what it needs.
 */
static void ipoib_mcast_todo(struct ipoib_mcast *group, struct list_head *list)
{
	struct ipoib_mcasts *m = &group->dev->mcast;

	lockdep_assert_held(&m->lock);
	if (group->gone)
		return;
	if (list_empty(&group->todo))
		list_add_tail(&group->todo, list);
	else
		m->survey = true;
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

static void ipoib_mcast_kick(struct ipoib_mcasts *m)
{
	lockdep_assert_held(&m->lock);
	if (m->running)
		mod_delayed_work(ipoib_wq, &m->work, 0);
}

/* ---- objects ------------------------------------------------------------ */

static struct ipoib_mcast *ipoib_mcast_create(struct ipoib_dev *dev,
					      const union ib_gid *mgid)
{
	struct ipoib_mcasts *m = &dev->mcast;
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
	INIT_LIST_HEAD(&group->todo);
	__skb_queue_head_init(&group->waiting);
	if (rhashtable_insert_fast(&m->table, &group->node,
				   ipoib_mcast_params)) {
		kfree(group);
		return NULL;
	}
	list_add_tail(&group->entry, &m->list);
	return group;
}

/* Made by a packet, or by the stack's list. */
static void ipoib_mcast_set_sendonly(struct ipoib_mcast *group, bool sendonly)
{
	struct ipoib_mcasts *m = &group->dev->mcast;

	lockdep_assert_held(&m->lock);
	m->num_sendonly += sendonly - group->sendonly;
	group->sendonly = sendonly;
}

static void ipoib_mcast_drop_waiting(struct ipoib_dev *dev,
				     struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list))) {
		dev->mcast.dropped++;
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_FAILED);
	}
}

/* ---- leaving ------------------------------------------------------------ */

static void ipoib_mcast_detach(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	int ret;

	lockdep_assert_held(&dev->ud.lock);
	if (!group->attached)
		return;
	group->attached = false;
	if (!ipoib_dev_qp(dev)->ib)
		return;
	ret = ib_detach_mcast(ipoib_dev_qp(dev)->ib, &group->mgid,
			      be16_to_cpu(group->mlid));
	if (ret)
		netdev_warn(dev->ndev, "can't detach from %pI6: %pe\n",
			    group->mgid.raw, ERR_PTR(ret));
}

/* Give the membership back; the SA hears of it when it can. */
static void ipoib_mcast_leave(struct ipoib_mcast *group)
{
	struct ipoib_mcasts *m = &group->dev->mcast;
	struct ib_sa_multicast *sa;

	spin_lock_bh(&m->lock);
	sa = group->sa;
	group->sa = NULL;
	ipoib_mcast_move(group, IPOIB_MCAST_IDLE, 0);
	spin_unlock_bh(&m->lock);
	if (sa)
		ib_sa_free_multicast(sa);
}

/* The group is off the list: nothing refers to it but RCU readers. */
static void ipoib_mcast_free(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;

	mutex_lock(&dev->ud.lock);
	ipoib_mcast_detach(group);
	mutex_unlock(&dev->ud.lock);
	ipoib_mcast_leave(group);
	ipoib_mcast_drop_waiting(dev, &group->waiting);
	ipoib_ah_retire(dev->port,
			rcu_replace_pointer(group->ah, NULL, true));
	kfree_rcu(group, rcu);
}

static void ipoib_mcast_unlink(struct ipoib_mcast *group)
{
	struct ipoib_mcasts *m = &group->dev->mcast;

	lockdep_assert_held(&m->lock);
	group->gone = true;
	ipoib_mcast_set_sendonly(group, false);
	list_del(&group->entry);
	list_del_init(&group->todo);
	rhashtable_remove_fast(&m->table, &group->node, ipoib_mcast_params);
}

static struct ipoib_mcast *ipoib_mcast_first_attached(struct ipoib_mcasts *m)
{
	struct ipoib_mcast *group, *found = NULL;

	spin_lock_bh(&m->lock);
	list_for_each_entry(group, &m->list, entry) {
		if (group->attached) {
			found = group;
			break;
		}
	}
	spin_unlock_bh(&m->lock);
	return found;
}

/**
 * ipoib_mcast_detach_all - the QP is about to be destroyed
 * @dev: interface, its ud.lock held
 */
void ipoib_mcast_detach_all(struct ipoib_dev *dev)
{
	struct ipoib_mcast *group;

	/* A group leaves the list before it is freed, which needs ud.lock. */
	while ((group = ipoib_mcast_first_attached(&dev->mcast)))
		ipoib_mcast_detach(group);
}

/* ---- joining ------------------------------------------------------------ */

/* Called with the lock: when the next attempt is due. */
static void ipoib_mcast_backoff(struct ipoib_mcast *group)
{
	unsigned long delay;

	delay = ipoib_mcast_delay(group->failures,
				  ipoib_mcast_is_broadcast(group));
	group->failures++;
	group->retry = jiffies + ipoib_delay_spread(delay, get_random_u32());
	ipoib_mcast_survey_by(&group->dev->mcast, group->retry);
	group->dev->mcast.join_failures++;
}

/*
 * ib_sa has had no address of the SM since an event: the join was not sent.
 * That passes soon, unless there is no SM.
 */
static bool ipoib_mcast_put_off(struct ipoib_mcast *group)
{
	unsigned long delay;

	if (group->unsent >= IPOIB_UNSENT_MAX)
		return false;
	delay = ipoib_unsent_delay(group->unsent++);
	group->retry = jiffies + delay;
	ipoib_mcast_survey_by(&group->dev->mcast, group->retry);
	return true;
}

/* Said once for each series of attempts, which ends when one succeeds. */
static void ipoib_mcast_complain(struct ipoib_dev *dev,
				 const union ib_gid *mgid, int status)
{
	const char *why = "no answer from the SA";

	if (status == -EINVAL)
		why = "refused by the SA";
	else if (status != -ETIMEDOUT)
		why = "no request possible";
	net_ratelimited_function(netdev_warn, dev->ndev,
				 "group %pI6 not joined: %s\n", mgid->raw,
				 why);
}

/*
 * ib_sa's answer, or its word that a membership is lost (-ENETRESET).
 * Whoever finds group->sa set and clears it owns the handle: here, by
 * returning an error, or ipoib_mcast_leave().
 */
static int ipoib_mcast_answer(int status, struct ib_sa_multicast *sa)
{
	struct ipoib_mcast *group = sa->context;
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = &dev->mcast;
	union ib_gid mgid = group->mgid;
	bool complain = false;
	int ret = status;

	spin_lock_bh(&m->lock);
	if (group->sa != sa && group->state != IPOIB_MCAST_JOINING) {
		/* Being left: the leaver waits for us and frees it. */
		ret = 0;
		goto unlock;
	}
	/* One that was not sent is none. */
	if (group->state == IPOIB_MCAST_JOINING && status != -EAGAIN)
		m->joins++;
	if (!status) {
		group->sa = sa;
		group->rec = sa->rec;
		group->failures = 0;
		group->unsent = 0;
		ipoib_mcast_move(group, IPOIB_MCAST_JOINED, 0);
		ipoib_mcast_todo(group, &m->answered);
	} else {
		group->sa = NULL;
		ipoib_mcast_move(group, IPOIB_MCAST_IDLE, status);
		if (status == -ENETRESET) {
			group->retry = jiffies;
			ipoib_mcast_todo(group, &m->join);
		} else if (status != -EAGAIN || !ipoib_mcast_put_off(group)) {
			ipoib_mcast_backoff(group);
			complain = group->failures == IPOIB_MCAST_COMPLAIN;
		}
		/* Refused, not unheard: the broadcast group has to do. */
		if (status == -EINVAL && group->sendonly &&
		    group->failures > 1) {
			group->fallback = true;
			m->fall_back = true;
		}
	}
	ipoib_mcast_kick(m);
unlock:
	spin_unlock_bh(&m->lock);
	if (complain)
		ipoib_mcast_complain(dev, &mgid, status);
	return ret;
}

/* What a group other than the broadcast group has to agree on with it. */
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
 * ib_sa knows one membership of a group per port, and refuses another one with
 * another GID.  An interface of the port at another GUID may have the group;
 * then that membership has to do for both.
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

static void ipoib_mcast_join(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = &dev->mcast;
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
	again = group->failures;
	if (!ipoib_mcast_is_broadcast(group))
		mask |= ipoib_mcast_inherit(&rec,
			&rcu_dereference_protected(m->broadcast, true)->rec);
	ipoib_mcast_move(group, IPOIB_MCAST_JOINING, 0);
	spin_unlock_bh(&m->lock);

	/* Not at once: it may be a membership that is being given up. */
	if (again)
		ipoib_mcast_share(dev, &rec);
	ipoib_dbg_mcast(dev, "joining %pI6\n", group->mgid.raw);
	sa = ib_sa_join_multicast(&ipoib_sa, dev->port->ca, dev->port->num,
				  &rec, mask, GFP_KERNEL,
				  ipoib_mcast_answer, group);

	spin_lock_bh(&m->lock);
	if (IS_ERR(sa)) {
		ipoib_mcast_backoff(group);
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

	/* Whichever of the port's GIDs is the member, this is the sender. */
	rec.port_gid = group->dev->local_gid;
	ret = ib_init_ah_from_mcmember(port->ca, port->num, &rec, NULL,
				       IB_GID_TYPE_IB, &attr);
	if (ret)
		return ERR_PTR(ret);
	ah = ipoib_ah_create(port, &attr);
	rdma_destroy_ah_attr(&attr);
	return ah;
}

static int ipoib_mcast_attach(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	int ret;

	lockdep_assert_held(&dev->ud.lock);
	if (group->sendonly)
		return 0;
	if (group->attached && group->mlid == group->rec.mlid)
		return 0;
	if (!ipoib_dev_qp(dev)->ib)
		return -ENODEV;
	ipoib_mcast_detach(group);
	ret = ib_attach_mcast(ipoib_dev_qp(dev)->ib, &group->mgid,
			      be16_to_cpu(group->rec.mlid));
	if (!ret)
		group->attached = true;
	return ret;
}

/* The broadcast group tells what the link is like. */
static int ipoib_mcast_set_link(struct ipoib_dev *dev,
				const struct ib_sa_mcmember_rec *rec)
{
	int mtu = ipoib_ud_mtu(rec->mtu);

	if (mtu < 0)
		return mtu;
	WRITE_ONCE(dev->mcast_mtu, mtu);
	WRITE_ONCE(dev->tclass, rec->traffic_class);
	WRITE_ONCE(dev->ud.max_len, mtu + IPOIB_ENCAP_LEN);
	ipoib_port_use_len(dev->port, mtu + IPOIB_ENCAP_LEN);
	return ipoib_ud_set_qkey(dev, be32_to_cpu(rec->qkey));
}

/* The SA said yes: attach, make a handle, let waiting packets go. */
static void ipoib_mcast_finish(struct ipoib_mcast *group)
{
	struct ipoib_dev *dev = group->dev;
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_ah *ah, *old = NULL;
	struct sk_buff_head send;
	struct sk_buff *skb;
	int ret = 0;

	__skb_queue_head_init(&send);
	mutex_lock(&dev->ud.lock);
	if (ipoib_mcast_is_broadcast(group))
		ret = ipoib_mcast_set_link(dev, &group->rec);
	if (!ret)
		ret = ipoib_mcast_attach(group);
	group->mlid = group->rec.mlid;
	mutex_unlock(&dev->ud.lock);

	ah = ret ? ERR_PTR(ret) : ipoib_mcast_make_ah(group);
	spin_lock_bh(&m->lock);
	if (IS_ERR(ah)) {
		ipoib_mcast_backoff(group);
	} else {
		old = rcu_replace_pointer(group->ah, ah,
					  lockdep_is_held(&m->lock));
		group->fallback = false;
		skb_queue_splice_tail_init(&group->waiting, &send);
		/* The SA may have forgotten us meanwhile. */
		if (group->state == IPOIB_MCAST_JOINED)
			ipoib_mcast_move(group, IPOIB_MCAST_MEMBER, 0);
		/* There is a link: the others can be joined. */
		if (ipoib_mcast_is_broadcast(group)) {
			m->survey = true;
			m->fall_back = true;
		}
	}
	spin_unlock_bh(&m->lock);

	if (IS_ERR(ah)) {
		netdev_warn_once(dev->ndev, "can't use group %pI6: %pe\n",
				 group->mgid.raw, ah);
		ipoib_mcast_leave(group);
		return;
	}
	ipoib_ah_retire(dev->port, old);
	if (ipoib_mcast_is_broadcast(group))
		ipoib_dev_event(dev, IPOIB_EV_LINK);
	while ((skb = __skb_dequeue(&send)))
		dev_queue_xmit(skb);
}

/* ---- the stack's list --------------------------------------------------- */

/* An address that is on the stack's list: make or keep its group. */
static void ipoib_mcast_want(struct ipoib_dev *dev, const u8 *addr)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ib_sa_mcmember_rec rec;
	struct ipoib_mcast *group;
	union ib_gid mgid;

	if (!ipoib_addr_is_multicast(addr))
		return;
	ipoib_mcast_mgid(dev, addr, &mgid);
	group = rhashtable_lookup_fast(&m->table, &mgid, ipoib_mcast_params);
	if (!group) {
		/* umcast: user space joined it and has it delivered itself. */
		if (dev->umcast &&
		    !ib_sa_get_mcmember_rec(dev->port->ca, dev->port->num,
					    &mgid, &rec))
			return;
		group = ipoib_mcast_create(dev, &mgid);
		if (!group)
			return;
	}
	group->seen = m->generation;
}

static void ipoib_mcast_look(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct netdev_hw_addr *ha;

	netif_addr_lock_bh(dev->ndev);
	spin_lock(&m->lock);
	m->resync = false;
	m->looked = jiffies;
	m->survey = true;
	m->generation++;
	netdev_for_each_mc_addr(ha, dev->ndev)
		ipoib_mcast_want(dev, ha->addr);
	spin_unlock(&m->lock);
	netif_addr_unlock_bh(dev->ndev);
}

static bool ipoib_mcast_unwanted(const struct ipoib_mcast *group)
{
	const struct ipoib_mcasts *m = &group->dev->mcast;

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
 * Look at all groups: those nobody wants any more go to @gone, the others to
 * the list of what they need.
 *
 * The SA is asked to take so many members off at a time, as with joins, but
 * does not tell when it has: thousands of requests at once would be lost, and
 * ib_mad seeks each answer's among all of them with interrupts disabled.
 */
static void ipoib_mcast_survey(struct ipoib_dev *dev, struct list_head *gone)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group, *next;
	unsigned long now = jiffies;
	u32 leaves = 0;

	lockdep_assert_held(&m->lock);
	m->survey = false;
	m->survey_due = false;
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
			ipoib_mcast_survey_unused(m);
		if (group->sendonly && group->seen == m->generation)
			list_move_tail(&group->todo, &m->upgrade);
		else if (group->state == IPOIB_MCAST_JOINED)
			list_move_tail(&group->todo, &m->answered);
		else if (group->state != IPOIB_MCAST_IDLE)
			list_del_init(&group->todo);
		else if (!time_after(group->retry, now))
			list_move_tail(&group->todo, &m->join);
		else
			ipoib_mcast_survey_by(m, group->retry);
	}
	if (leaves > IPOIB_MCAST_WINDOW) {
		m->survey_due = true;
		m->survey_at = now + 1;
	}
}

/* Leave all groups under the GID the port no longer has. */
static void ipoib_mcast_leave_all(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	m->leave = false;
	m->survey = true;
	list_for_each_entry(group, &m->list, entry)
		list_move_tail(&group->todo, &m->leaving);
	spin_unlock_bh(&m->lock);
	while ((group = ipoib_mcast_pop(m, &m->leaving))) {
		ipoib_mcast_leave(group);
		group->retry = jiffies;
	}
}

/* A refused send-only group: its packets go to everybody. */
static void ipoib_mcast_fall_back(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group;
	struct sk_buff_head send;
	struct sk_buff *skb;

	__skb_queue_head_init(&send);
	spin_lock_bh(&m->lock);
	m->fall_back = false;
	list_for_each_entry(group, &m->list, entry)
		if (group->fallback)
			skb_queue_splice_tail_init(&group->waiting, &send);
	spin_unlock_bh(&m->lock);
	while ((skb = __skb_dequeue(&send)))
		dev_queue_xmit(skb);
}

/* Join what is to be joined, as far as the window goes. */
static void ipoib_mcast_join_some(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group, *bc;

	while (READ_ONCE(m->joining) < IPOIB_MCAST_WINDOW &&
	       (group = ipoib_mcast_pop(m, &m->join))) {
		bc = rcu_dereference_protected(m->broadcast, true);
		/* Without a link the others wait; when it comes they are seen. */
		if (group->state == IPOIB_MCAST_IDLE &&
		    (group == bc || rcu_access_pointer(bc->ah)))
			ipoib_mcast_join(group);
	}
}

/* Have the work item started again when there is something to do. */
static void ipoib_mcast_schedule(struct ipoib_mcasts *m)
{
	unsigned long now = jiffies, at = m->survey_at;
	bool due = m->survey_due;

	lockdep_assert_held(&m->lock);
	if (m->resync) {
		at = m->looked + IPOIB_MCAST_LOOK_STEP;
		due = true;
	}
	if (m->survey || m->fall_back || !list_empty(&m->answered) ||
	    !list_empty(&m->upgrade) ||
	    (!list_empty(&m->join) && m->joining < IPOIB_MCAST_WINDOW)) {
		at = now;
		due = true;
	}
	if (m->running && due)
		queue_delayed_work(ipoib_wq, &m->work,
				   time_after(at, now) ? at - now : 0);
}

/* Is there an SA to talk to?  If that can't be found out, try again. */
static bool ipoib_mcast_may_talk(struct ipoib_dev *dev)
{
	int active = ipoib_port_active(dev->port, NULL);
	struct ipoib_mcasts *m = &dev->mcast;

	if (active >= 0) {
		m->unknown = 0;
		/* Of a port that comes back there will be an event. */
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
	struct ipoib_dev *dev =
		container_of(work, struct ipoib_dev, mcast.work.work);
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group, *next;
	LIST_HEAD(gone);

	if (!ipoib_mcast_may_talk(dev))
		return;
	if (READ_ONCE(m->leave))
		ipoib_mcast_leave_all(dev);
	if (READ_ONCE(m->resync) &&
	    time_after_eq(jiffies, m->looked + IPOIB_MCAST_LOOK_STEP))
		ipoib_mcast_look(dev);
	if (READ_ONCE(m->fall_back))
		ipoib_mcast_fall_back(dev);

	spin_lock_bh(&m->lock);
	if (m->survey || (m->survey_due && time_after_eq(jiffies, m->survey_at)))
		ipoib_mcast_survey(dev, &gone);
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
	struct ipoib_mcasts *m = &dev->mcast;

	spin_lock_bh(&m->lock);
	m->resync = true;
	ipoib_mcast_kick(m);
	spin_unlock_bh(&m->lock);
}

/**
 * ipoib_mcast_rejoin - the SM is another, or sees us with other eyes
 * @dev: interface
 * @leave: the port's GID changed; memberships under the old one are given up
 *
 * What ib_sa reported as lost is joined again at once; groups stay in use.
 */
void ipoib_mcast_rejoin(struct ipoib_dev *dev, bool leave)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group;

	spin_lock_bh(&m->lock);
	m->leave |= leave;
	m->survey = true;
	list_for_each_entry(group, &m->list, entry) {
		group->retry = jiffies;
		group->failures = 0;
		group->unsent = 0;
	}
	ipoib_mcast_kick(m);
	spin_unlock_bh(&m->lock);
}

/**
 * ipoib_mcast_is_up - is the broadcast group joined?
 * @dev: interface
 */
bool ipoib_mcast_is_up(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *bc;
	bool up;

	spin_lock_bh(&m->lock);
	bc = rcu_dereference_protected(m->broadcast,
				       lockdep_is_held(&m->lock));
	up = bc && bc->state == IPOIB_MCAST_MEMBER;
	spin_unlock_bh(&m->lock);
	return up;
}

/* ---- sending ------------------------------------------------------------ */

/* NULL before it was joined. */
static struct ipoib_ah *ipoib_mcast_broadcast_ah(const struct ipoib_mcasts *m)
{
	struct ipoib_mcast *group = rcu_dereference(m->broadcast);

	return group ? rcu_dereference(group->ah) : NULL;
}

/* A packet for a group that is on no list makes one. */
static struct ipoib_mcast *ipoib_mcast_create_sendonly(struct ipoib_dev *dev,
						       const union ib_gid *mgid)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group;

	lockdep_assert_held(&m->lock);
	ipoib_mcast_survey_unused(m);
	group = ipoib_mcast_create(dev, mgid);
	if (!group)
		return NULL;
	ipoib_mcast_set_sendonly(group, true);
	group->seen = m->generation - 1;
	ipoib_mcast_todo(group, &m->join);
	return group;
}

/* No handle yet: wait for the group; make a send-only one if there is none. */
static noinline netdev_tx_t ipoib_mcast_defer(struct ipoib_txq *txq,
					      struct sk_buff *skb,
					      const union ib_gid *mgid)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_ah *ah = NULL;
	struct ipoib_mcast *group;
	bool kept = false;

	spin_lock_bh(&m->lock);
	if (!m->running)
		goto unlock;
	group = rhashtable_lookup_fast(&m->table, mgid, ipoib_mcast_params);
	if (!group && m->num_sendonly >= IPOIB_MCAST_SENDONLY) {
		/* When the unused ones are looked for is settled by now. */
		m->limited++;
		ah = ipoib_mcast_broadcast_ah(m);
		goto unlock;
	}
	group = group ?: ipoib_mcast_create_sendonly(dev, mgid);
	if (!group)
		goto unlock;
	m->fall_back |= group->fallback;
	if (skb_queue_len(&group->waiting) < IPOIB_MCAST_WAITING) {
		__skb_queue_tail(&group->waiting, skb);
		kept = true;
	}
	ipoib_mcast_kick(m);
unlock:
	if (!kept && !ah)
		m->dropped++;
	spin_unlock_bh(&m->lock);
	if (ah)
		return ipoib_ud_send(txq, skb, ah, IB_MULTICAST_QPN);
	if (!kept)
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_NEIGH_QUEUEFULL);
	ipoib_txq_kick(txq);
	return NETDEV_TX_OK;
}

/**
 * ipoib_mcast_xmit - send a packet to a multicast link-layer address
 * @txq: queue, its TX lock held
 * @skb: packet with the address in front; consumed
 * @addr: the address
 * Return: NETDEV_TX_OK
 */
netdev_tx_t ipoib_mcast_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
			     const u8 *addr)
{
	struct ipoib_dev *dev = txq->qp.dev;
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *group;
	struct ipoib_ah *ah = NULL;
	union ib_gid mgid;

	ipoib_mcast_mgid(dev, addr, &mgid);
	group = rhashtable_lookup(&m->table, &mgid, ipoib_mcast_params);
	if (likely(group)) {
		ah = rcu_dereference(group->ah);
		if (group->sendonly)
			ipoib_stamp(&group->used);
		if (!ah && READ_ONCE(group->fallback))
			ah = ipoib_mcast_broadcast_ah(m);
	}
	if (unlikely(!ah))
		return ipoib_mcast_defer(txq, skb, &mgid);
	return ipoib_ud_send(txq, skb, ah, IB_MULTICAST_QPN);
}

/* ---- life cycle --------------------------------------------------------- */

/**
 * ipoib_mcast_start - the interface comes up: join the link
 * @dev: interface
 *
 * Context: process, @dev->lock held.
 * Return: 0 or -ENOMEM; ipoib_mcast_stop() does no harm then
 */
int ipoib_mcast_start(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;
	struct ipoib_mcast *bc;
	union ib_gid mgid;

	/* The address may still have another P_Key: rtnl is needed for that. */
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
	struct ipoib_mcasts *m = &dev->mcast;
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

int ipoib_mcast_init(struct ipoib_dev *dev)
{
	struct ipoib_mcasts *m = &dev->mcast;

	spin_lock_init(&m->lock);
	INIT_LIST_HEAD(&m->list);
	INIT_LIST_HEAD(&m->join);
	INIT_LIST_HEAD(&m->answered);
	INIT_LIST_HEAD(&m->upgrade);
	INIT_LIST_HEAD(&m->leaving);
	INIT_DELAYED_WORK(&m->work, ipoib_mcast_work);
	return rhashtable_init(&m->table, &ipoib_mcast_params);
}

void ipoib_mcast_exit(struct ipoib_dev *dev)
{
	rhashtable_destroy(&dev->mcast.table);
}
