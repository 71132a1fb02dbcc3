// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: multicast: which QPs receive packets of a group
 *
 * An attachment is of a QP to an MGID together with the MLID that its packets
 * must have (IBA vol 1, 10.5).  Senders walk them under RCU; they change under
 * the lock that ibds_lookup_lock() returns.
 */
#include <linux/log2.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "call.h"
#include "mcast.h"
#include "object.h"

/*
 * Programs choose MGIDs and multicast LIDs, and must not know which ones share a
 * bucket, or they could make a list long that the kernel's packets walk.
 */
static u64 ibds_mcast_secret[3] __ro_after_init;

/**
 * ibds_mcast_init - choose how groups are hashed; there is no HCA yet
 */
void __init ibds_mcast_init(void)
{
	int i;

	get_random_bytes(ibds_mcast_secret, sizeof(ibds_mcast_secret));
	/* By an even number, the highest bits of a product lose some. */
	for (i = 0; i < ARRAY_SIZE(ibds_mcast_secret); i++)
		ibds_mcast_secret[i] |= 1;
}

/**
 * ibds_mcast_bucket - get the hash bucket of a port for a group
 * @port: HCA port
 * @mgid: group
 * @mlid: multicast LID
 *
 * Return: the list of attachments that contains those to the group.
 */
struct hlist_head *ibds_mcast_bucket(struct ibds_port *port,
				     const union ib_gid *mgid, u16 mlid)
{
	u64 hi = (__force u64)mgid->global.subnet_prefix;
	u64 lo = (__force u64)mgid->global.interface_id;
	u64 hash = hi * ibds_mcast_secret[0] + lo * ibds_mcast_secret[1] +
		   mlid * ibds_mcast_secret[2];

	return &port->mcast[hash >> (64 - ilog2(ARRAY_SIZE(port->mcast)))];
}

static struct ibds_attach *ibds_attach_find(struct ibds_qp *qp,
					    const union ib_gid *gid, u16 lid)
{
	struct ibds_attach *at;

	list_for_each_entry(at, &qp->mcast, in_qp)
		if (at->mlid == lid && !memcmp(&at->mgid, gid, sizeof(*gid)))
			return at;
	return NULL;
}

/*
 * Whether a group has all the QPs that the HCA can send copies to.  Half of these
 * places are for the kernel only.  Nor do users get so many that the packets of
 * others to the group take long: all copies are made with interrupts disabled.
 */
static bool ibds_group_full(const struct ibds_dev *dev,
			    const struct ibds_attach *new,
			    const struct hlist_head *bucket)
{
	u32 room = dev->caps.group_qps;
	const struct ibds_attach *at;
	u32 all = 0, users = 0;

	/* The list may be long, and need not be walked. */
	if (room >= dev->caps.max_qp && !new->user)
		return false;
	hlist_for_each_entry(at, bucket, node) {
		if (at->mlid != new->mlid ||
		    memcmp(&at->mgid, &new->mgid, sizeof(at->mgid)))
			continue;
		all++;
		users += at->user;
	}
	return all >= room ||
	       (new->user && users >= min_t(u32, room / 2, IBDS_USER_MEMBERS));
}

static void ibds_attach_del(struct ibds_qp *qp, struct ibds_attach *at)
{
	qp->groups--;
	ibds_object_put(to_ibds_dev(qp->ib.device), IBDS_GROUP, qp->user);
	hlist_del_rcu(&at->node);
	list_del(&at->in_qp);
	kfree_rcu(at, rcu);
}

int ibds_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct ibds_dev *dev = to_ibds_dev(ibqp->device);
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct hlist_head *bucket = ibds_mcast_bucket(qp->port, gid, lid);
	struct ibds_attach *at, *new;
	unsigned long flags;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_ATTACH_MCAST);
	if (err)
		return err;
	ibds_command_wait(dev, READ_ONCE(qp->port->faults.attach_delay_ms));
	if (atomic_dec_if_positive(&qp->port->faults.attach_error) >= 0)
		return -ENOMEM;
	err = ibds_object_reserve(dev, IBDS_GROUP, qp->user);
	if (err)
		return err;
	new = kzalloc_obj(*new, ibds_gfp(qp->user));
	if (!new) {
		ibds_object_put(dev, IBDS_GROUP, qp->user);
		return -ENOMEM;
	}
	new->mgid = *gid;
	new->mlid = lid;
	new->user = qp->user;
	new->count = 1;
	new->rcv = qp->rcv;

	spin_lock_irqsave(lock, flags);
	at = ibds_attach_find(qp, gid, lid);
	if (at) {
		/* Attaching again changes nothing; IBA vol 1, 11.3.1. */
		at->count++;
	} else if ((qp->user && qp->groups == IBDS_USER_GROUPS) ||
		   ibds_group_full(dev, new, bucket)) {
		err = -ENOMEM;
	} else {
		qp->groups++;
		list_add(&new->in_qp, &qp->mcast);
		hlist_add_head_rcu(&new->node, bucket);
	}
	spin_unlock_irqrestore(lock, flags);
	if (at || err) {
		ibds_object_put(dev, IBDS_GROUP, qp->user);
		kfree(new);
	}
	return err;
}

int ibds_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct ibds_qp *qp = to_ibds_qp(ibqp);
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at;
	unsigned long flags;
	int err;

	err = ibds_call(ibqp->device, IBDS_CALL_DETACH_MCAST);
	if (err)
		return err;
	ibds_command_wait(to_ibds_dev(ibqp->device),
			  READ_ONCE(qp->port->faults.attach_delay_ms));
	if (atomic_dec_if_positive(&qp->port->faults.detach_error) >= 0)
		return -ENOMEM;
	spin_lock_irqsave(lock, flags);
	at = ibds_attach_find(qp, gid, lid);
	if (at && !--at->count)
		ibds_attach_del(qp, at);
	spin_unlock_irqrestore(lock, flags);
	return at ? 0 : -EINVAL;
}

/**
 * ibds_detach_all - detach a QP being destroyed from all its groups
 * @qp: queue pair
 */
void ibds_detach_all(struct ibds_qp *qp)
{
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at, *next;
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	list_for_each_entry_safe(at, next, &qp->mcast, in_qp)
		ibds_attach_del(qp, at);
	spin_unlock_irqrestore(lock, flags);
}

/**
 * ibds_mcast_find - find out about a group that a QP is attached to
 * @qp: queue pair
 * @any: any group; else that of @mgid, with whatever multicast LID
 * @mgid: its MGID, is set
 * @mlid: its multicast LID, is set
 *
 * Return: whether there is one.
 */
bool ibds_mcast_find(struct ibds_qp *qp, bool any, union ib_gid *mgid, u16 *mlid)
{
	spinlock_t *lock = ibds_lookup_lock(qp);
	struct ibds_attach *at;
	unsigned long flags;
	bool found = false;

	spin_lock_irqsave(lock, flags);
	list_for_each_entry(at, &qp->mcast, in_qp) {
		found = any || !memcmp(&at->mgid, mgid, sizeof(*mgid));
		if (!found)
			continue;
		*mgid = at->mgid;
		*mlid = at->mlid;
		break;
	}
	spin_unlock_irqrestore(lock, flags);
	return found;
}
