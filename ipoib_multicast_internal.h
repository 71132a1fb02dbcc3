/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Multicast groups: shared by ipoib_group.c and ipoib_multicast.c
 */
#ifndef IPOIB_MULTICAST_INTERNAL_H
#define IPOIB_MULTICAST_INTERNAL_H

#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <rdma/ib_sa.h>

#include "ipoib_attach.h"
#include "ipoib_multicast.h"
#include "ipoib_rules.h"

/*
 * Limit on send-only groups; with many of them, unused ones are left soon.
 * Packets to further ones are sent to the broadcast group, where all members
 * are.
 */
#define IPOIB_MCAST_SENDONLY	2048
#define IPOIB_MCAST_CROWDED	(IPOIB_MCAST_SENDONLY * 3 / 4)
#define IPOIB_MCAST_IDLE_SHORT	(5 * HZ)
#define IPOIB_MCAST_GC		(30 * HZ)

/* After so many failures in a row packets wait only while a join is in flight. */
#define IPOIB_MCAST_GIVE_UP	4

/*
 * The SA answers a join before the SM has set up the switches.  A neighbour
 * solicitation that is lost there is repeated by IPv6 after a second.  So until
 * this long after a join, what is sent to a solicited-node group goes to the
 * broadcast group, as ARP requests always do: long enough for the three
 * solicitations of a resolution.
 */
#define IPOIB_MCAST_SETTLE	(3 * HZ)

/**
 * struct ipoib_mcast - a multicast group
 * @node: in the table by MGID
 * @mgid: key
 * @ah: address handle, RCU; stays while the membership is renewed
 * @fallback: the SA refused a send-only join: use the broadcast group
 * @dev: owner
 * @entry: in the interface's list
 * @todo: in one of the interface's lists of pending work
 * @state: see enum ipoib_mcast_state
 * @gone: off the interface's list: about to be freed, and in no list of work
 * @sendonly: created by a packet, not by the stack's list
 * @solicited: that of a solicited-node address
 * @settled: jiffies from which the fabric is taken to carry it, 0 while it is
 *	not joined; written under the lock
 * @attachment: to the QP that receives it
 * @seen: generation of the stack's list that it was last found in
 * @sa: ib_sa's handle; whoever sets it to NULL under the lock frees it
 * @rec: the SA's answer
 * @mlid: of @ah and the attachment
 * @waiting: packets that wait until it is joined
 * @used: jiffies of the last packet of a send-only group
 * @created: jiffies
 * @retry: jiffies before which no join is tried
 * @failures: joins in a row that failed, or gave a group that can't be used
 * @error: how the last one failed, 0 once the group can be used
 * @unusable: @error is not the join's but that of using the group
 * @unsent: joins in a row that ib_sa had no address of the SM for
 * @rcu: frees it
 */
struct ipoib_mcast {
	struct rhash_head node;
	union ib_gid mgid;
	struct ipoib_ah __rcu *ah;
	bool fallback;
	struct ipoib_dev *dev;
	struct list_head entry;
	struct list_head todo;
	enum ipoib_mcast_state state;
	bool gone;
	bool sendonly;
	bool solicited;
	unsigned long settled;
	struct ipoib_ud_group attachment;
	u32 seen;
	struct ib_sa_multicast *sa;
	struct ib_sa_mcmember_rec rec;
	__be16 mlid;
	struct sk_buff_head waiting;
	unsigned long used;
	unsigned long created;
	unsigned long retry;
	u32 failures;
	int error;
	bool unusable;
	u32 unsent;
	struct rcu_head rcu;
};

/**
 * struct ipoib_mcasts - groups of an interface
 * @dev: interface
 * @lock: spinlock, taken with BHs disabled, inside the netdev TX lock: list,
 *	states, waiting packets
 * @table: by MGID, RCU
 * @list: all groups; entries leave only by @work or after it was cancelled
 * @broadcast: the broadcast group, NULL while the interface is down
 * @work: the only place that joins, attaches, detaches and leaves
 * @join: groups for @work to join when there is room in the window
 * @answered: groups whose join succeeded
 * @upgrade: send-only groups that are now in the stack's list
 * @leaving: groups whose membership @work gives up and renews
 * @running: the interface is up
 * @resync: the stack's list changed
 * @incomplete: addresses of it were left out: look again later
 * @looked: when @work last looked at it, in jiffies
 * @leave: the port's GID changed: leave under the old one before joining
 * @fall_back: packets may wait that can go to the broadcast group instead
 * @scan: @work is to scan all groups
 * @scan_due: it is to do so at @scan_at
 * @scan_at: in jiffies
 * @unknown: times in a row that the port's state could not be read (@work)
 * @generation: of the last look at the stack's list
 * @joining: joins in flight
 * @num_sendonly: send-only groups
 * @changes: of @list
 * @stats: counters
 */
struct ipoib_mcasts {
	struct ipoib_dev *dev;
	spinlock_t lock;	/* list, states, waiting packets */
	struct rhashtable table;
	struct list_head list;
	struct ipoib_mcast __rcu *broadcast;
	struct delayed_work work;
	struct list_head join;
	struct list_head answered;
	struct list_head upgrade;
	struct list_head leaving;
	bool running;
	bool resync;
	bool incomplete;
	unsigned long looked;
	bool leave;
	bool fall_back;
	bool scan;
	bool scan_due;
	unsigned long scan_at;
	u32 unknown;
	u32 generation;
	u32 joining;
	u32 num_sendonly;
	u32 changes;
	struct ipoib_mcast_stats stats;
};

extern const struct rhashtable_params ipoib_mcast_params;

void ipoib_mcast_mgid(const struct ipoib_dev *dev, const u8 *addr,
		      union ib_gid *mgid);
bool ipoib_mcast_crowded(const struct ipoib_mcasts *m);
void ipoib_mcast_scan_by(struct ipoib_mcasts *m, unsigned long when);
void ipoib_mcast_scan_unused(struct ipoib_mcasts *m);
void ipoib_mcast_todo(struct ipoib_mcast *group, struct list_head *list);
void ipoib_mcast_kick(struct ipoib_mcasts *m);
struct ipoib_mcast *ipoib_mcast_create(struct ipoib_dev *dev,
				       const union ib_gid *mgid);
void ipoib_mcast_set_sendonly(struct ipoib_mcast *group, bool sendonly);
int ipoib_mcast_fill(struct sk_buff *skb, const void *object);

#endif /* IPOIB_MULTICAST_INTERNAL_H */
