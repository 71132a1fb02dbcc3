// SPDX-License-Identifier: GPL-2.0-only
/*
 * Peers: hosts on the fabric by IP address
 *
 * The table is filled by what guests are answered and by what peers say of
 * themselves to guests.  It is the interface's own, so that a guest that scans
 * does not fill the host's neighbour table.  When it is full, the entry that was
 * used least recently makes room.
 */
#include <linux/hash.h>
#include <linux/random.h>

#include "eipoib_arp.h"
#include "eipoib_msg.h"
#include "eipoib_nd.h"
#include "eipoib_peer.h"
#include "eipoib_pmtu.h"
#include "eipoib_trace.h"

#define EIPOIB_PEER_AGE		(600 * HZ)	/* not used, not heard of */
#define EIPOIB_PEER_RETRY	HZ		/* between two requests */
#define EIPOIB_PEER_TRIES	3
#define EIPOIB_PEER_SAME	8	/* with one hash, found by that */
#define EIPOIB_PEER_LEARNED	1000	/* new ones that say so, per second */

/**
 * struct eipoib_peer - what an address on the fabric is reached by
 * @node: in eipoib_dev.peers
 * @list: in eipoib_dev.peer_list
 * @order: in eipoib_dev.peer_order
 * @serial: number of the entry
 * @by_mac: in eipoib_dev.peer_macs, if it is one of those that the hash in a MAC
 *	may stand for, also when it is not known any more
 * @ip: address
 * @hash: of it
 * @known: @lladdr is valid.  It does not change while it is: an entry is replaced.
 * @lladdr: link-layer address
 * @tries: requests sent while it is not known
 * @asked: when the last one was sent, jiffies
 * @used: when a packet was last sent to it or heard of it, jiffies
 * @from: who asks, a guest
 * @waiting: packets to be sent when it is known, eipoib_dev.lock
 * @rcu: frees it
 */
struct eipoib_peer {
	struct rhash_head node;
	struct list_head list;
	struct list_head order;
	u64 serial;
	struct hlist_node by_mac;
	struct in6_addr ip;
	u32 hash;
	bool known;
	u8 lladdr[INFINIBAND_ALEN];
	u8 tries;
	unsigned long asked;
	unsigned long used;
	struct in6_addr from;
	struct sk_buff_head waiting;
	struct rcu_head rcu;
};

/* The general function would compare byte by byte. */
static int eipoib_peer_cmp(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct eipoib_peer *peer = obj;

	return !ipv6_addr_equal(arg->key, &peer->ip);
}

static const struct rhashtable_params eipoib_peer_params = {
	.head_offset = offsetof(struct eipoib_peer, node),
	.key_offset = offsetof(struct eipoib_peer, ip),
	.key_len = sizeof(struct in6_addr),
	.obj_cmpfn = eipoib_peer_cmp,
	.automatic_shrinking = true,
};

static struct eipoib_peer *eipoib_peer_find(struct eipoib_dev *dev,
					    const struct in6_addr *ip)
{
	return rhashtable_lookup_fast(&dev->peers, ip, eipoib_peer_params);
}

/* Anybody knows the hash in a MAC, but not where it is looked for. */
static struct hlist_head *eipoib_peer_head(struct eipoib_dev *dev, u32 hash)
{
	return &dev->peer_macs[hash_64(hash ^ dev->peer_secret,
				       EIPOIB_PEER_BITS)];
}

int eipoib_peers_init(struct eipoib_dev *dev)
{
	int i;

	INIT_LIST_HEAD(&dev->peer_list);
	INIT_LIST_HEAD(&dev->peer_order);
	dev->peer_secret = get_random_u64();
	for (i = 0; i < ARRAY_SIZE(dev->peer_macs); i++)
		INIT_HLIST_HEAD(&dev->peer_macs[i]);
	eipoib_share_init(&dev->asks, 1000, 250);
	eipoib_limit(&dev->learned, EIPOIB_PEER_LEARNED);
	return rhashtable_init(&dev->peers, &eipoib_peer_params);
}

static void eipoib_peer_remove(struct eipoib_dev *dev, struct eipoib_peer *peer)
{
	lockdep_assert_held(&dev->lock);
	trace_eipoib_peer(dev, &peer->ip, peer->lladdr, EIPOIB_TRACE_NONE);
	rhashtable_remove_fast(&dev->peers, &peer->node, eipoib_peer_params);
	list_del(&peer->list);
	list_del_rcu(&peer->order);
	hlist_del_init_rcu(&peer->by_mac);
	WRITE_ONCE(dev->num_peers, dev->num_peers - 1);
	eipoib_wait_drop(dev, &peer->waiting, EIPOIB_C_UNRESOLVED);
	kfree_rcu(peer, rcu);
}

/* Forget all peers. */
void eipoib_peers_flush(struct eipoib_dev *dev)
{
	struct eipoib_peer *peer, *next;

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(peer, next, &dev->peer_list, list)
		eipoib_peer_remove(dev, peer);
	spin_unlock_bh(&dev->lock);
}

/* What is known of a peer does not hold: the next packet has it asked for. */
static void eipoib_peer_unknow(struct eipoib_peer *peer)
{
	WRITE_ONCE(peer->known, false);
	peer->tries = 0;
}

/*
 * The link-layer addresses of peers, and this host's, may be others now.  Those with
 * IPv6 addresses stay, since guests go on to send to their MACs, which would stand
 * for nobody without them.
 */
void eipoib_peers_readdress(struct eipoib_dev *dev)
{
	struct eipoib_peer *peer, *next;

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(peer, next, &dev->peer_list, list) {
		if (eipoib_is_v4(&peer->ip))
			eipoib_peer_remove(dev, peer);
		else
			eipoib_peer_unknow(peer);
	}
	spin_unlock_bh(&dev->lock);
}

void eipoib_peers_exit(struct eipoib_dev *dev)
{
	eipoib_peers_flush(dev);
	rhashtable_destroy(&dev->peers);
}

/* A new entry; the one used least recently makes room. */
static struct eipoib_peer *eipoib_peer_add(struct eipoib_dev *dev,
					   const struct in6_addr *ip)
{
	struct eipoib_peer *peer;

	lockdep_assert_held(&dev->lock);
	if (dev->num_peers >= EIPOIB_PEERS) {
		eipoib_count(dev, EIPOIB_C_PEERS_FULL);
		eipoib_peer_remove(dev, list_first_entry(&dev->peer_list,
							 struct eipoib_peer,
							 list));
	}
	peer = kzalloc_obj(*peer, GFP_ATOMIC);
	if (!peer)
		return NULL;
	peer->ip = *ip;
	peer->used = jiffies;
	__skb_queue_head_init(&peer->waiting);
	if (rhashtable_insert_fast(&dev->peers, &peer->node,
				   eipoib_peer_params)) {
		kfree(peer);
		return NULL;
	}
	peer->hash = eipoib_mac_hash(ip);
	peer->serial = ++dev->serial;
	list_add_tail(&peer->list, &dev->peer_list);
	list_add_tail_rcu(&peer->order, &dev->peer_order);
	WRITE_ONCE(dev->num_peers, dev->num_peers + 1);
	return peer;
}

/*
 * A peer is known: its MAC leads to it.  The one that is known longest is whom a
 * hash stands for; a few more wait until it is forgotten.
 */
static void eipoib_peer_index(struct eipoib_dev *dev, struct eipoib_peer *peer)
{
	struct hlist_head *head = eipoib_peer_head(dev, peer->hash);
	struct eipoib_peer *other;
	int same = 0;

	lockdep_assert_held(&dev->lock);
	INIT_HLIST_NODE(&peer->by_mac);
	if (eipoib_is_v4(&peer->ip))
		return;
	hlist_for_each_entry(other, head, by_mac)
		same += other->hash == peer->hash;
	if (same < EIPOIB_PEER_SAME)
		hlist_add_tail_rcu(&peer->by_mac, head);
}

/* Move what waits.  A dump may read how much that is: not skb_queue_splice(). */
static void eipoib_peer_hand_on(struct sk_buff_head *from,
				struct sk_buff_head *to)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(from)))
		__skb_queue_tail(to, skb);
}

/*
 * Give an entry another link-layer address.  Readers copy it without a lock, so
 * the entry is replaced by another one.  If there is no memory for that, the next
 * packet has it asked for.
 */
static struct eipoib_peer *eipoib_peer_renew(struct eipoib_dev *dev,
					     struct eipoib_peer *old,
					     const u8 *lladdr)
{
	struct eipoib_peer *peer;

	lockdep_assert_held(&dev->lock);
	/* Packets go on to set @used, as the caller will. */
	peer = data_race(kmemdup(old, sizeof(*old), GFP_ATOMIC));
	if (!peer)
		goto unknown;
	memcpy(peer->lladdr, lladdr, INFINIBAND_ALEN);
	/* Nobody sees this entry before rhashtable_replace_fast(). */
	peer->known = true;
	__skb_queue_head_init(&peer->waiting);
	eipoib_peer_hand_on(&old->waiting, &peer->waiting);
	if (rhashtable_replace_fast(&dev->peers, &old->node, &peer->node,
				    eipoib_peer_params)) {
		eipoib_peer_hand_on(&peer->waiting, &old->waiting);
		kfree(peer);
		goto unknown;
	}
	list_replace(&old->list, &peer->list);
	list_replace_rcu(&old->order, &peer->order);
	if (hlist_unhashed(&old->by_mac))
		eipoib_peer_index(dev, peer);
	else
		hlist_replace_rcu(&old->by_mac, &peer->by_mac);
	kfree_rcu(old, rcu);
	trace_eipoib_peer(dev, &peer->ip, peer->lladdr,
			  EIPOIB_PEER_STATUS_KNOWN);
	return peer;

unknown:
	if (old->known)
		eipoib_peer_unknow(old);
	return old;
}

/* Note that a peer is in use; its place in the list is put right by the timer. */
static void eipoib_peer_touch(struct eipoib_peer *peer)
{
	if (time_before(READ_ONCE(peer->used), jiffies))
		WRITE_ONCE(peer->used, jiffies);
}

/* A peer with this hash in its MAC, the one with address @dst if there is one. */
static bool eipoib_peer_of_hash(struct eipoib_dev *dev, u32 hash,
				const struct in6_addr *dst, struct in6_addr *ip)
{
	struct eipoib_peer *peer;

	if (eipoib_mac_hash(dst) == hash) {
		*ip = *dst;
		return true;
	}
	hlist_for_each_entry_rcu(peer, eipoib_peer_head(dev, hash), by_mac) {
		if (peer->hash == hash) {
			*ip = peer->ip;
			return true;
		}
	}
	return false;
}

/**
 * eipoib_peer_of_mac - the next hop that a frame is for
 * @dev: interface
 * @mac: the frame's destination
 * @dst: destination of the packet in it
 * @ip: result
 * Return: false if the MAC is not one of a peer.  Under RCU.
 */
bool eipoib_peer_of_mac(struct eipoib_dev *dev, const u8 *mac,
			const struct in6_addr *dst, struct in6_addr *ip)
{
	switch (eipoib_mac_kind(mac)) {
	case EIPOIB_MAC_V4:
		*ip = eipoib_v4(eipoib_mac_value(mac));
		return true;
	case EIPOIB_MAC_V6:
		return eipoib_peer_of_hash(dev,
					   be32_to_cpu(eipoib_mac_value(mac)),
					   dst, ip);
	case EIPOIB_MAC_NOBODY:
		/* Whoever answers to the sender of a packet */
		*ip = *dst;
		return eipoib_ip_is_host(dst);
	default:
		return false;
	}
}

/**
 * eipoib_peer_get - the link-layer address of a peer
 * @dev: interface
 * @ip: the peer's address
 * @lladdr: result
 * Return: false if it is not known.  Under RCU.
 */
bool eipoib_peer_get(struct eipoib_dev *dev, const struct in6_addr *ip,
		     u8 *lladdr)
{
	struct eipoib_peer *peer = eipoib_peer_find(dev, ip);

	if (!peer || !READ_ONCE(peer->known))
		return false;
	memcpy(lladdr, peer->lladdr, INFINIBAND_ALEN);
	eipoib_peer_touch(peer);
	return true;
}

/**
 * eipoib_peer_mac - source MAC of a packet from the fabric
 * @dev: interface
 * @ip: the packet's source
 * @mac: result: nobody's if that is no known peer, but somebody behind a router
 *
 * Under RCU.
 */
void eipoib_peer_mac(struct eipoib_dev *dev, const struct in6_addr *ip, u8 *mac)
{
	struct eipoib_peer *peer = eipoib_peer_find(dev, ip);

	if (!peer || !READ_ONCE(peer->known)) {
		eipoib_mac_fill(mac, EIPOIB_MAC_NOBODY, 0);
		return;
	}
	eipoib_mac_of(mac, ip);
	eipoib_peer_touch(peer);
}

/* Send a packet that has waited; the sender of a longer one hears it next time. */
static void eipoib_peer_send(struct eipoib_dev *dev, struct sk_buff *skb,
			     const u8 *lladdr)
{
	if (eipoib_lladdr_is_own(dev, lladdr))
		eipoib_to_host(dev, skb, skb->protocol, PACKET_HOST);
	else if (eipoib_pmtu_fits(skb, eipoib_pmtu(dev, lladdr)))
		eipoib_to_fabric(dev, skb, skb->protocol, lladdr);
	else
		eipoib_drop(dev, skb, EIPOIB_C_TOO_BIG);
}

/* Take what waits for a peer into a list. */
static void eipoib_peer_release(struct eipoib_dev *dev,
				struct eipoib_peer *peer,
				struct sk_buff_head *list)
{
	eipoib_wait_take(dev, &peer->waiting, list);
	peer->tries = 0;
}

/* Enter what is known of a peer; NULL if there is no memory. */
static struct eipoib_peer *eipoib_peer_put(struct eipoib_dev *dev,
					   const struct in6_addr *ip,
					   const u8 *lladdr)
{
	struct eipoib_peer *peer = eipoib_peer_find(dev, ip);

	if (!peer)
		peer = eipoib_peer_add(dev, ip);
	if (!peer)
		return NULL;
	if (!peer->known || memcmp(peer->lladdr, lladdr, INFINIBAND_ALEN))
		peer = eipoib_peer_renew(dev, peer, lladdr);
	WRITE_ONCE(peer->used, jiffies);
	return peer;
}

/**
 * eipoib_peer_learn - a peer has said what its link-layer address is
 * @dev: interface
 * @ip: the peer's address, not that of a guest
 * @lladdr: its link-layer address
 * @wanted: it said so to a guest; if not, only a known peer is updated.  New
 *	ones are limited: who is not learned is asked for when it is sent to.
 */
void eipoib_peer_learn(struct eipoib_dev *dev, const struct in6_addr *ip,
		       const u8 *lladdr, bool wanted)
{
	struct eipoib_peer *peer = NULL;
	struct sk_buff_head list;
	struct sk_buff *skb;

	if (!eipoib_ip_is_host(ip) || eipoib_lladdr_is_group(lladdr))
		return;
	__skb_queue_head_init(&list);
	spin_lock_bh(&dev->lock);
	if (eipoib_peer_find(dev, ip) ||
	    (wanted && __ratelimit(&dev->learned)))
		peer = eipoib_peer_put(dev, ip, lladdr);
	if (peer && peer->known)
		eipoib_peer_release(dev, peer, &list);
	spin_unlock_bh(&dev->lock);
	while ((skb = __skb_dequeue(&list)))
		eipoib_peer_send(dev, skb, lladdr);
}

/* An address of a guest belongs to a peer now.  With the lock held. */
void eipoib_peer_moved(struct eipoib_dev *dev, const struct in6_addr *ip,
		       const u8 *lladdr)
{
	eipoib_peer_put(dev, ip, lladdr);
}

/* An address belongs to a guest now. */
void eipoib_peer_forget(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_peer *peer;

	lockdep_assert_held(&dev->lock);
	peer = eipoib_peer_find(dev, ip);
	if (peer)
		eipoib_peer_remove(dev, peer);
}

/**
 * eipoib_peer_search - ask the fabric who has an address
 * @dev: interface
 * @from: address of the same family that the answer goes to, a guest's or this
 *	host's, or the unspecified address
 * @ip: address
 * @batch: where the request goes
 */
void eipoib_peer_search(struct eipoib_dev *dev, const struct in6_addr *from,
			const struct in6_addr *ip, struct eipoib_batch *batch)
{
	if (eipoib_is_v4(ip))
		eipoib_arp_ask_fabric(dev, eipoib_to_v4(from), eipoib_to_v4(ip),
				      batch);
	else
		eipoib_nd_ask_fabric(dev, from, ip, batch);
}

/*
 * Ask the fabric for a peer's address, for the guest that sends to it.  What there
 * is no memory for is not asked, and does not count.
 */
static void eipoib_peer_ask(struct eipoib_dev *dev, struct eipoib_peer *peer,
			    struct eipoib_batch *batch)
{
	unsigned int count = eipoib_batch_count(batch);

	trace_eipoib_peer(dev, &peer->ip, peer->lladdr,
			  EIPOIB_PEER_STATUS_ASKED);
	peer->asked = jiffies;
	eipoib_peer_search(dev, &peer->from, &peer->ip, batch);
	peer->tries += eipoib_batch_count(batch) != count;
}

/**
 * eipoib_peer_wait - keep a packet until its peer is known, and ask for that
 * @dev: interface
 * @ip: the peer's address
 * @from: source of the packet, which a guest holds, or the unspecified address;
 *	requests name it, so that it must not be one of the other family
 * @skb: packet, without a link-layer header
 */
void eipoib_peer_wait(struct eipoib_dev *dev, const struct in6_addr *ip,
		      const struct in6_addr *from, struct sk_buff *skb)
{
	u64 source = eipoib_source(skb->skb_iif, ipv6_addr_hash(from));
	u8 lladdr[INFINIBAND_ALEN];
	struct eipoib_batch batch;
	struct eipoib_peer *peer;
	bool known = false;

	eipoib_batch_init(&batch);
	spin_lock_bh(&dev->lock);
	peer = eipoib_peer_find(dev, ip);
	if ((!peer || (!peer->known && !peer->tries)) &&
	    !eipoib_share_use(&dev->asks, source))
		peer = NULL;
	else if (!peer)
		peer = eipoib_peer_add(dev, ip);
	if (!peer) {
		eipoib_drop(dev, skb, EIPOIB_C_UNRESOLVED);
	} else if (peer->known) {
		memcpy(lladdr, peer->lladdr, INFINIBAND_ALEN);
		known = true;
	} else {
		eipoib_wait_add(dev, &peer->waiting, skb, EIPOIB_C_UNRESOLVED);
		WRITE_ONCE(peer->used, jiffies);
		if (!peer->tries) {
			if (eipoib_is_v4(ip) == eipoib_is_v4(from))
				peer->from = *from;
			eipoib_peer_ask(dev, peer, &batch);
		}
	}
	spin_unlock_bh(&dev->lock);
	if (known)
		eipoib_peer_send(dev, skb, lladdr);
	eipoib_batch_send(dev, &batch);
}

/*
 * An entry that is not known: ask again or give up.  Without carrier nobody is asked:
 * one whose MAC guests send to stays until there is one.
 */
static void eipoib_peer_retry(struct eipoib_dev *dev, struct eipoib_peer *peer,
			      struct eipoib_batch *batch)
{
	if (time_before(jiffies, peer->asked + EIPOIB_PEER_RETRY))
		return;
	if (peer->tries < EIPOIB_PEER_TRIES) {
		eipoib_peer_ask(dev, peer, batch);
	} else if (eipoib_is_heard(dev) || hlist_unhashed(&peer->by_mac)) {
		eipoib_peer_remove(dev, peer);
	} else {
		eipoib_wait_drop(dev, &peer->waiting, EIPOIB_C_UNRESOLVED);
		peer->tries = 0;
	}
}

/* Somebody waits for it to be known. */
static bool eipoib_peer_wanted(const struct eipoib_peer *peer)
{
	return peer->tries || !skb_queue_empty(&peer->waiting);
}

/**
 * eipoib_peers_tick - repeat requests, remove what is old
 * @dev: interface
 * @batch: for requests
 */
void eipoib_peers_tick(struct eipoib_dev *dev, struct eipoib_batch *batch)
{
	struct eipoib_peer *peer, *next;
	LIST_HEAD(used);

	lockdep_assert_held(&dev->lock);
	list_for_each_entry_safe(peer, next, &dev->peer_list, list) {
		if (!peer->known && eipoib_peer_wanted(peer))
			eipoib_peer_retry(dev, peer, batch);
		else if (time_after(jiffies, READ_ONCE(peer->used) +
				    EIPOIB_PEER_AGE))
			eipoib_peer_remove(dev, peer);
		else if (time_before(jiffies, READ_ONCE(peer->used) + 2 * HZ))
			list_move_tail(&peer->list, &used);
	}
	list_splice_tail(&used, &dev->peer_list);
}

/* ---- netlink ------------------------------------------------------------- */

static bool eipoib_peer_fill(struct sk_buff *skb, const void *object)
{
	const struct eipoib_peer *peer = object;
	unsigned long used = READ_ONCE(peer->used);
	bool known = READ_ONCE(peer->known);
	u8 mac[ETH_ALEN];

	eipoib_mac_of(mac, &peer->ip);
	return !eipoib_msg_put_ip(skb, EIPOIB_A_PEER_ADDRESS, &peer->ip) &&
	       !(known && nla_put(skb, EIPOIB_A_PEER_LLADDR, INFINIBAND_ALEN,
				  peer->lladdr)) &&
	       !nla_put(skb, EIPOIB_A_PEER_MAC, ETH_ALEN, mac) &&
	       !nla_put_u32(skb, EIPOIB_A_PEER_STATUS,
			    known ? EIPOIB_PEER_STATUS_KNOWN :
				    EIPOIB_PEER_STATUS_ASKED) &&
	       !eipoib_msg_put_ms(skb, EIPOIB_A_PEER_IDLE, jiffies - used) &&
	       !nla_put_u32(skb, EIPOIB_A_PEER_WAITING_PACKETS,
			    skb_queue_len_lockless(&peer->waiting));
}

/**
 * eipoib_peers_dump - write peers to a dump
 * @dev: interface
 * @dump: dump; where it stands is the number of an entry
 * Return: 0, or -EMSGSIZE if there is no more room.  Under RCU.
 */
int eipoib_peers_dump(struct eipoib_dev *dev, struct eipoib_dump *dump)
{
	struct eipoib_peer *peer;
	int ret = 0;

	list_for_each_entry_rcu(peer, &dev->peer_order, order) {
		if (peer->serial > dump->at)
			ret = eipoib_dump_one(dev, dump, eipoib_peer_fill,
					      peer, peer->serial);
		if (ret)
			break;
	}
	return ret;
}
