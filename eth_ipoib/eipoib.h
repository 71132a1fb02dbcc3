/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * eth_ipoib: an Ethernet interface on top of an IPoIB interface
 *
 * What all files share.  Documentation/dev/ethernet.rst says how it works.
 */
#ifndef EIPOIB_H
#define EIPOIB_H

#include <linux/if_infiniband.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/ratelimit.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/u64_stats_sync.h>
#include <linux/workqueue.h>

#include "eipoib_addr.h"
#include "eipoib_limit.h"

#define EIPOIB_KIND		"eipoib"
#define EIPOIB_GUESTS		1024	/* max_guests unless it is set */
#define EIPOIB_GUESTS_MAX	32767
#define EIPOIB_PEERS		16384	/* most peers */
#define EIPOIB_PEER_BITS	9	/* of a place in a table of them */
#define EIPOIB_GROUPS		1024	/* most groups that are joined */
#define EIPOIB_SENT		256	/* most groups that are sent to */
#define EIPOIB_LEASES		256	/* most transactions of DHCP */
#define EIPOIB_TICK_MIN		(HZ / 50)	/* between runs of the timer */
#define EIPOIB_WAITING		16	/* packets that wait for an address */
#define EIPOIB_WAITING_BYTES	(4 << 20)	/* memory of all of them */

/* What is counted; eipoib_count_names has the names for ethtool. */
enum eipoib_count {
	EIPOIB_C_RX_ARP,	/* ARP and ND messages that were translated */
	EIPOIB_C_TX_ARP,
	EIPOIB_C_RX_HOST,	/* packets between the guests and this host */
	EIPOIB_C_TX_HOST,
	EIPOIB_C_LOOP,		/* frames that another eipoib interface sent */
	EIPOIB_C_PROTOCOL,	/* neither IPv4, IPv6, ARP nor RARP */
	EIPOIB_C_MALFORMED,
	EIPOIB_C_UNKNOWN_MAC,	/* destination that is no peer */
	EIPOIB_C_UNRESOLVED,	/* peer that does not answer */
	EIPOIB_C_REFUSED,	/* guard: address of somebody else */
	EIPOIB_C_UNCONFIRMED,	/* guard: source address not confirmed yet */
	EIPOIB_C_GUESTS_FULL,
	EIPOIB_C_PEERS_FULL,
	EIPOIB_C_GROUPS_FULL,
	EIPOIB_C_TOO_BIG,
	EIPOIB_C_NOMEM,
	EIPOIB_C_NUM
};

struct eipoib_counts {
	u64_stats_t count[EIPOIB_C_NUM];
	struct u64_stats_sync syncp;
};

/**
 * struct eipoib_sent - a group that guests send to
 * @ip: group; unspecified: none
 * @used: when one did last, jiffies
 */
struct eipoib_sent {
	struct in6_addr ip;
	unsigned long used;
};

/**
 * struct eipoib_lease - a guest's transaction of DHCP
 * @xid: its number
 * @mac: the client, by the message
 * @station: who has sent it
 * @id_added: the client identifier is not one that the guest sent
 * @begun: when the last request was seen, jiffies
 * @used: it is one
 */
struct eipoib_lease {
	__be32 xid;
	u8 mac[ETH_ALEN];
	u8 station[ETH_ALEN];
	bool id_added;
	bool used;
	unsigned long begun;
};

/**
 * struct eipoib_dev - an interface, the private data of its net_device
 * @ndev: the Ethernet interface
 * @lower: the IPoIB interface below, on which a reference is held
 * @tracker: of that reference
 * @guard: guests may not use addresses that somebody else has
 * @max_guests: most addresses of guests
 * @asker: MAC of questions to guests
 * @lock: of guests, peers, groups and their lists; taken with BHs disabled.
 *	Nothing is sent while it is held.
 * @guests: struct eipoib_guest by address
 * @guest_list: all of them
 * @num_guests: how many
 * @serial: of the last entry, of guests, peers or groups, that was made
 * @prefix_list: prefixes behind guests; written with rtnl
 * @num_prefixes: how many
 * @waiting: bytes of memory that waiting packets take
 * @claims: limits how many new addresses are looked into
 * @peers: struct eipoib_peer by address
 * @peer_list: all of them, the one used last at the end
 * @peer_order: all of them, in the order of their numbers
 * @peer_macs: those with IPv6 addresses that are known, by the hash that their MACs
 *	contain
 * @peer_secret: so that nobody knows which of them are looked through together
 * @learned: limits peers that are entered since they say who they are
 * @num_peers: how many
 * @asks: limits requests for peers' addresses
 * @group_list: struct eipoib_group
 * @group_heads: the same by address
 * @reports: limits how many new groups guests may report
 * @num_groups: how many
 * @sync_run: number of the last time that memberships were changed, @joins
 * @sent: groups that are sent to, by a hash; @sent_secret is in it
 * @sends: limits new ones
 * @leases: transactions of DHCP
 * @errors: limits messages about packets that are too long
 * @query_next: when guests are to be asked for their groups, jiffies
 * @queries: asked since the interface is up, as long as that matters
 * @work: ages entries, repeats questions
 * @kicked: the timer runs soon, @lock
 * @joins: held while groups are joined and left
 * @away: the lower interface is on its way to another namespace, @joins
 * @searches: limits questions where a guest is that does not answer
 * @moves: limits announcements that guests ask for
 * @deaf: nobody hears what is sent; @lock, as all that follows
 * @since: when that began or ended, jiffies
 * @bridged: what is sent to guests reaches them, see eipoib_guests_hear()
 * @epoch: how often the fabric was away for so long, or another one, that others may
 *	have what guests had
 * @counts: what was dropped and translated
 * @egress: hook for what the host sends through @lower
 */
struct eipoib_dev {
	struct net_device *ndev;
	struct net_device *lower;
	netdevice_tracker tracker;
	bool guard;
	u32 max_guests;
	u8 asker[ETH_ALEN];

	/* Guests, peers, groups, leases; ethtool reads their numbers without. */
	spinlock_t lock;
	struct rhashtable guests;
	struct list_head guest_list;
	u32 num_guests;
	u64 serial;
	struct list_head prefix_list;
	u32 num_prefixes;
	u32 waiting;
	struct eipoib_share claims;

	struct rhashtable peers;
	struct list_head peer_list;
	struct list_head peer_order;
	struct hlist_head peer_macs[1 << EIPOIB_PEER_BITS];
	u64 peer_secret;
	struct ratelimit_state learned;
	u32 num_peers;
	struct eipoib_share asks;

	struct list_head group_list;
	struct hlist_head group_heads[64];
	struct eipoib_share reports;
	u32 num_groups;
	u32 sync_run;
	struct eipoib_sent sent[EIPOIB_SENT];
	u32 sent_secret;
	struct eipoib_share sends;

	struct eipoib_lease leases[EIPOIB_LEASES];

	struct eipoib_share errors;
	unsigned long query_next;
	u8 queries;
	struct delayed_work work;
	bool kicked;
	struct mutex joins;	/* memberships of the lower interface */
	bool away;
	struct ratelimit_state searches;
	struct eipoib_share moves;
	bool deaf;
	bool bridged;
	unsigned long since;
	u32 epoch;
	struct eipoib_counts __percpu *counts;
	struct nf_hook_ops egress;
	bool hooked;
};

/* Runs the timers of all interfaces. */
extern struct workqueue_struct *eipoib_wq;

static inline struct eipoib_dev *eipoib_priv(const struct net_device *ndev)
{
	return netdev_priv(ndev);
}

/*
 * The lower interface's addresses change under rtnl, and are read without it.  What
 * was made of one that was just changing is made anew after the notifier, which
 * comes then: announcements, memberships, what is known of peers.
 */

/* Is this the lower interface's own link-layer address, that of all guests? */
static inline bool eipoib_lladdr_is_own(const struct eipoib_dev *dev,
					const u8 *lladdr)
{
	/* See above */
	return !data_race(memcmp(lladdr, dev->lower->dev_addr,
				 INFINIBAND_ALEN));
}

/* That address, in INFINIBAND_ALEN bytes */
static inline void eipoib_lladdr_own(const struct eipoib_dev *dev, u8 *lladdr)
{
	/* See above */
	data_race(memcpy(lladdr, dev->lower->dev_addr, INFINIBAND_ALEN));
}

/* That of all on the link; P_Key and scope of groups are in it. */
static inline void eipoib_lladdr_broadcast(const struct eipoib_dev *dev,
					   u8 *lladdr)
{
	/* See above */
	data_race(memcpy(lladdr, dev->lower->broadcast, INFINIBAND_ALEN));
}

/*
 * Does anybody hear what is sent, and is heard?  A bridge has no use for a port
 * without carrier, which is that of the lower interface.
 */
static inline bool eipoib_is_heard(const struct eipoib_dev *dev)
{
	return netif_carrier_ok(dev->lower) && netif_carrier_ok(dev->ndev);
}

/* The timer has something to do: it runs soon, but not all the time. */
static inline void eipoib_kick(struct eipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	if (dev->kicked)
		return;
	dev->kicked = true;
	mod_delayed_work(eipoib_wq, &dev->work, EIPOIB_TICK_MIN);
}

static inline void eipoib_count(struct eipoib_dev *dev, enum eipoib_count which)
{
	struct eipoib_counts *counts;

	local_bh_disable();
	counts = this_cpu_ptr(dev->counts);
	u64_stats_update_begin(&counts->syncp);
	u64_stats_inc(&counts->count[which]);
	u64_stats_update_end(&counts->syncp);
	local_bh_enable();
}

/* Drop and count a packet that came from the side @which is about. */
static inline void eipoib_drop(struct eipoib_dev *dev, struct sk_buff *skb,
			       enum eipoib_count which)
{
	eipoib_count(dev, which);
	kfree_skb(skb);
}

#endif
