// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guests: stations of the Ethernet by IP address
 *
 * An address is a guest's when its station says so by ARP or neighbour
 * discovery.  With the guard on, the fabric is asked first, and whoever has the
 * address by now: only if nobody answers it changes hands.  All questions are
 * asked by the timer, eipoib_guests_tick(), which is also what grants, moves and
 * removes addresses.
 */
#include "eipoib_group.h"
#include "eipoib_guest_state.h"
#include "eipoib_msg.h"
#include "eipoib_peer.h"
#include "eipoib_prefix.h"
#include "eipoib_trace.h"

/* The general function would compare byte by byte. */
static int eipoib_guest_cmp(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct eipoib_guest *guest = obj;

	return !ipv6_addr_equal(arg->key, &guest->ip);
}

static const struct rhashtable_params eipoib_guest_params = {
	.head_offset = offsetof(struct eipoib_guest, node),
	.key_offset = offsetof(struct eipoib_guest, ip),
	.key_len = sizeof(struct in6_addr),
	.obj_cmpfn = eipoib_guest_cmp,
	.automatic_shrinking = true,
};

int eipoib_guests_init(struct eipoib_dev *dev)
{
	INIT_LIST_HEAD(&dev->guest_list);
	eipoib_share_init(&dev->claims, 1000, 250);
	return rhashtable_init(&dev->guests, &eipoib_guest_params);
}

/* With the lock held, or under RCU to read what does not change. */
static struct eipoib_guest *eipoib_guest_find(struct eipoib_dev *dev,
					      const struct in6_addr *ip)
{
	return rhashtable_lookup_fast(&dev->guests, ip, eipoib_guest_params);
}

/* Nothing is done for an address any more. */
void eipoib_guest_rest(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	lockdep_assert_held(&dev->lock);
	guest->announce = 0;
	eipoib_wait_drop(dev, &guest->waiting, EIPOIB_C_UNCONFIRMED);
	if (guest->grouped)
		eipoib_group_put(dev, &guest->ip);
	guest->grouped = false;
}

void eipoib_guest_remove(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	trace_eipoib_guest(dev, &guest->ip, guest->mac, guest->state,
			   EIPOIB_TRACE_NONE);
	eipoib_guest_rest(dev, guest);
	rhashtable_remove_fast(&dev->guests, &guest->node,
			       eipoib_guest_params);
	list_del_rcu(&guest->list);
	WRITE_ONCE(dev->num_guests, dev->num_guests - 1);
	kfree_rcu(guest, rcu);
}

static void eipoib_guests_clear(struct eipoib_dev *dev, bool given)
{
	struct eipoib_guest *guest, *next;

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(guest, next, &dev->guest_list, list) {
		if (guest->state == EIPOIB_GUEST_FIXED && !given)
			eipoib_guest_rest(dev, guest);
		else
			eipoib_guest_remove(dev, guest);
	}
	spin_unlock_bh(&dev->lock);
}

/* Forget guests, but for addresses that they were given. */
void eipoib_guests_flush(struct eipoib_dev *dev)
{
	eipoib_guests_clear(dev, false);
}

void eipoib_guests_exit(struct eipoib_dev *dev)
{
	eipoib_guests_clear(dev, true);
	rhashtable_destroy(&dev->guests);
}

/*
 * One station may have half of what there is room for, those of one port three
 * quarters.  What was given to guests does not count.
 */
static bool eipoib_guest_room(struct eipoib_dev *dev, u64 mac, u32 port)
{
	u32 max = READ_ONCE(dev->max_guests), all = 0, has = 0, here = 0;
	struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	if (!eipoib_share_take(&dev->claims, eipoib_source(port, mac)))
		return false;
	list_for_each_entry(guest, &dev->guest_list, list) {
		if (guest->state == EIPOIB_GUEST_FIXED)
			continue;
		all++;
		has += guest->mac == mac;
		here += port && guest->port == port;
	}
	return all < max && has <= max / 2 && here <= max - max / 4 &&
	       eipoib_share_all(&dev->claims);
}

/*
 * An address that a station claims by a frame, or is given (@skb is NULL); NULL
 * if there is no room.
 */
static struct eipoib_guest *eipoib_guest_add(struct eipoib_dev *dev,
					     const struct in6_addr *ip, u64 mac,
					     const struct sk_buff *skb)
{
	u32 port = skb ? skb->skb_iif : 0;
	struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	if (skb && !eipoib_guest_room(dev, mac, port))
		return NULL;
	guest = kzalloc_obj(*guest, GFP_ATOMIC);
	if (!guest)
		return NULL;
	guest->ip = *ip;
	guest->mac = mac;
	guest->port = port;
	guest->epoch = dev->epoch;
	guest->heard = jiffies;
	guest->asked = jiffies - EIPOIB_GUEST_PAUSE;
	guest->granted = jiffies - EIPOIB_GUEST_EARLY;
	guest->silent = jiffies - EIPOIB_GUEST_EARLY;
	guest->announced = jiffies - EIPOIB_GUEST_DEFEND;
	guest->probed = jiffies - EIPOIB_GUEST_ANSWER - 1;
	__skb_queue_head_init(&guest->waiting);
	if (rhashtable_insert_fast(&dev->guests, &guest->node,
				   eipoib_guest_params)) {
		kfree(guest);
		return NULL;
	}
	guest->serial = ++dev->serial;
	list_add_tail_rcu(&guest->list, &dev->guest_list);
	WRITE_ONCE(dev->num_guests, dev->num_guests + 1);
	trace_eipoib_guest(dev, ip, mac, EIPOIB_TRACE_NONE, guest->state);
	return guest;
}

/* ---- states ------------------------------------------------------------- */

void eipoib_guest_become(struct eipoib_dev *dev, struct eipoib_guest *guest,
			 enum eipoib_guest_state state)
{
	lockdep_assert_held(&dev->lock);
	if (guest->state != state)
		trace_eipoib_guest(dev, &guest->ip, guest->mac, guest->state,
				   state);
	WRITE_ONCE(guest->state, state);
}

/* Questions are asked in this state, the first one soon. */
void eipoib_guest_ask(struct eipoib_dev *dev, struct eipoib_guest *guest,
		      enum eipoib_guest_state state)
{
	eipoib_guest_become(dev, guest, state);
	guest->tries = EIPOIB_GUEST_TRIES;
	guest->search = false;
	guest->next = jiffies;
	WRITE_ONCE(guest->asked, jiffies);
	eipoib_kick(dev);
}

/* Ask whoever holds it, unless he has just answered. */
void eipoib_guest_doubt(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	if (guest->state == EIPOIB_GUEST_HELD &&
	    time_after(jiffies, guest->asked + EIPOIB_GUEST_PAUSE))
		eipoib_guest_ask(dev, guest, EIPOIB_GUEST_ASKED);
}

/* The address is the guest's; the timer sends what waits, and joins its group. */
static void eipoib_guest_settle(struct eipoib_dev *dev,
				struct eipoib_guest *guest,
				enum eipoib_guest_state state)
{
	eipoib_guest_become(dev, guest, state);
	guest->rival = 0;
	memset(guest->contender, 0, sizeof(guest->contender));
	eipoib_peer_forget(dev, &guest->ip);
	eipoib_kick(dev);
}

void eipoib_guest_hold(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	if (guest->state < EIPOIB_GUEST_HELD) {
		guest->announce = 1;
		guest->granted = jiffies;
	}
	eipoib_guest_settle(dev, guest, EIPOIB_GUEST_HELD);
}

/* Whoever else claims the address hears whose it is. */
static void eipoib_guest_defend(struct eipoib_dev *dev,
				struct eipoib_guest *guest)
{
	if (time_before_eq(jiffies, guest->announced + EIPOIB_GUEST_DEFEND))
		return;
	guest->announce = 1;
	eipoib_kick(dev);
}

/* The guest has answered. */
void eipoib_guest_keeps(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	if (memchr_inv(guest->contender, 0, sizeof(guest->contender)))
		eipoib_guest_defend(dev, guest);
	eipoib_guest_hold(dev, guest);
}

/* ---- what stations of the Ethernet say ----------------------------------- */

/* May a station say that an address is its own? */
static bool eipoib_guest_may(struct eipoib_dev *dev, const struct in6_addr *ip,
			     const u8 *mac)
{
	return eipoib_ip_is_host(ip) && eipoib_host_allows(dev, ip, mac) &&
	       eipoib_prefix_allows(dev, ip, mac);
}

/**
 * eipoib_guest_grant - nobody on the fabric has what a station claims
 * @dev: interface
 * @guest: address and station
 *
 * It is the guest's, unless this host has got it meanwhile.
 *
 * Context: eipoib_dev.lock held.  The entry may be gone afterwards.
 */
void eipoib_guest_grant(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	u8 mac[ETH_ALEN];

	lockdep_assert_held(&dev->lock);
	u64_to_ether_addr(guest->mac, mac);
	if (eipoib_guest_may(dev, &guest->ip, mac))
		eipoib_guest_hold(dev, guest);
	else
		eipoib_guest_remove(dev, guest);
}

/* A frame waits for its source address to be confirmed. */
static enum eipoib_verdict eipoib_guest_keep(struct eipoib_dev *dev,
					     struct eipoib_guest *guest,
					     struct sk_buff *skb)
{
	eipoib_wait_add(dev, &guest->waiting, skb, EIPOIB_C_UNCONFIRMED);
	return EIPOIB_KEPT;
}

/* The fabric is asked for what a station claims. */
static void eipoib_guest_inquire(struct eipoib_dev *dev,
				 struct eipoib_guest *guest)
{
	guest->epoch = dev->epoch;
	eipoib_guest_ask(dev, guest, EIPOIB_GUEST_CLAIMED);
}

/* The station that has the address, or claims it first, says so. */
static void eipoib_guest_affirmed(struct eipoib_dev *dev,
				  struct eipoib_guest *guest)
{
	WRITE_ONCE(guest->heard, jiffies);
	if (guest->state == EIPOIB_GUEST_ASKED)
		eipoib_guest_keeps(dev, guest);
	else if ((guest->state == EIPOIB_GUEST_SEEN ||
		  guest->state == EIPOIB_GUEST_REFUSED) && !READ_ONCE(dev->guard))
		eipoib_guest_hold(dev, guest);
	else if (guest->state == EIPOIB_GUEST_SEEN)
		eipoib_guest_inquire(dev, guest);
}

/* Under RCU, or with the lock. */
static bool eipoib_guest_holds(const struct eipoib_guest *guest)
{
	enum eipoib_guest_state state = READ_ONCE(guest->state);

	return state == EIPOIB_GUEST_HELD || state == EIPOIB_GUEST_ASKED ||
	       state == EIPOIB_GUEST_FIXED;
}

/*
 * May another station, @addr, have the address at once?  It may if nobody is on
 * guard, or if it is this host, whose bridge has got another MAC.
 */
static bool eipoib_guest_yields(struct eipoib_dev *dev,
				const struct eipoib_guest *guest,
				const u8 *addr)
{
	return !READ_ONCE(dev->guard) ||
	       (eipoib_guest_holds(guest) &&
		eipoib_host_is(dev, &guest->ip, addr));
}

/* Another station has it: what the former one was refused is not its own. */
static void eipoib_guest_pass_to(struct eipoib_guest *guest, u64 mac)
{
	WRITE_ONCE(guest->mac, mac);
	guest->port = 0;
	guest->refusals = 0;
}

/*
 * A frame of another station, @addr, comes from the address, or @claims it.  Only a
 * claim counts: data of a station that does not answer for its address must not
 * keep the one that does from it.
 */
static enum eipoib_verdict eipoib_guest_other(struct eipoib_dev *dev,
					      struct eipoib_guest *guest,
					      const u8 *addr, bool claims)
{
	u64 mac = ether_addr_to_u64(addr);

	if (guest->state == EIPOIB_GUEST_FIXED)
		return EIPOIB_REFUSE;
	if (eipoib_guest_yields(dev, guest, addr)) {
		eipoib_guest_pass_to(guest, mac);
		eipoib_guest_hold(dev, guest);
		guest->announce = 1;
		return EIPOIB_SEND;
	}
	eipoib_guest_doubt(dev, guest);
	if (guest->state == EIPOIB_GUEST_ASKED && claims)
		guest->rival = mac;
	return EIPOIB_REFUSE;
}

/* The station that had the address is silent: the one that claims it is looked at. */
void eipoib_guest_succeed(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	lockdep_assert_held(&dev->lock);
	eipoib_guest_pass_to(guest, guest->rival);
	guest->rival = 0;
	guest->router = false;
	WRITE_ONCE(guest->heard, jiffies);
	eipoib_guest_ask(dev, guest, EIPOIB_GUEST_CLAIMED);
	/* The former one may have moved, and not be ready to answer yet. */
	guest->tries = EIPOIB_GUEST_SUCCESSION;
}

/* What becomes of a frame from an address in this state */
static enum eipoib_verdict eipoib_guest_verdict(struct eipoib_dev *dev,
						struct eipoib_guest *guest,
						struct sk_buff *skb)
{
	switch (guest->state) {
	case EIPOIB_GUEST_SEEN:
	case EIPOIB_GUEST_CLAIMED:
		return eipoib_guest_keep(dev, guest, skb);
	case EIPOIB_GUEST_REFUSED:
		return EIPOIB_REFUSE;
	default:
		return EIPOIB_SEND;
	}
}

/*
 * Is it an entry that only keeps a station from what it has not, or may not have?
 * Another one that claims the address is looked at by itself, unless it has only been
 * asked for what was refused, or the former holder is being asked.
 */
static bool eipoib_guest_idle(const struct eipoib_guest *guest,
			      enum eipoib_says says)
{
	if (guest->state == EIPOIB_GUEST_SEEN)
		return !guest->refusals;
	return guest->state == EIPOIB_GUEST_REFUSED &&
	       eipoib_guest_by_itself(guest, says);
}

/**
 * eipoib_guest_claim - a station says that an address is its own
 * @dev: interface
 * @ip: address
 * @addr: station
 * @skb: frame in which it says so
 * @says: why it does
 * Return: what to do with the frame; it is gone if that is EIPOIB_KEPT
 */
enum eipoib_verdict eipoib_guest_claim(struct eipoib_dev *dev,
				       const struct in6_addr *ip,
				       const u8 *addr, struct sk_buff *skb,
				       enum eipoib_says says)
{
	enum eipoib_verdict verdict = EIPOIB_FULL;
	u64 mac = ether_addr_to_u64(addr);
	struct eipoib_guest *guest;

	if (!eipoib_guest_may(dev, ip, addr))
		return EIPOIB_REFUSE;
	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest && guest->mac != mac && eipoib_guest_idle(guest, says)) {
		eipoib_guest_remove(dev, guest);
		guest = NULL;
	}
	if (guest && guest->mac != mac) {
		verdict = eipoib_guest_other(dev, guest, addr, true);
	} else {
		guest = guest ?: eipoib_guest_add(dev, ip, mac, skb);
		if (guest) {
			guest->port = skb->skb_iif;
			eipoib_guest_insists(guest, says);
			eipoib_guest_affirmed(dev, guest);
			verdict = eipoib_guest_verdict(dev, guest, skb);
		}
	}
	spin_unlock_bh(&dev->lock);
	return verdict;
}

/**
 * eipoib_guest_answers - a station answers that an address is its own
 * @dev: interface
 * @ip: address that it was asked for
 * @mac: station
 */
void eipoib_guest_answers(struct eipoib_dev *dev, const struct in6_addr *ip,
			  const u8 *mac)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest && guest->mac == ether_addr_to_u64(mac) &&
	    (eipoib_guest_holds(guest) || eipoib_guest_may(dev, ip, mac)))
		eipoib_guest_affirmed(dev, guest);
	spin_unlock_bh(&dev->lock);
}

/**
 * eipoib_guest_probes - a station looks for duplicates of an address of its own
 * @dev: interface
 * @ip: address
 * @mac: station
 *
 * It is there.  If it was refused the address, it finds out by itself, and claims it
 * if it finds none; a question would be a duplicate to it (RFC 5227 section 2.1.1).
 */
void eipoib_guest_probes(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest && guest->mac == ether_addr_to_u64(mac)) {
		if (guest->state == EIPOIB_GUEST_REFUSED)
			eipoib_guest_desist(guest);
		else if (eipoib_guest_holds(guest) ||
			 eipoib_guest_may(dev, ip, mac))
			eipoib_guest_affirmed(dev, guest);
	}
	spin_unlock_bh(&dev->lock);
}

/* A source address that is not held by the station the frame comes from: rare. */
static noinline enum eipoib_verdict
eipoib_guest_unsure(struct eipoib_dev *dev, const struct in6_addr *ip,
		    const u8 *addr, struct sk_buff *skb)
{
	enum eipoib_verdict verdict = EIPOIB_FULL;
	u64 mac = ether_addr_to_u64(addr);
	bool guard = READ_ONCE(dev->guard);
	struct eipoib_guest *guest;

	if (!eipoib_guest_may(dev, ip, addr))
		return EIPOIB_REFUSE;
	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (!guest && eipoib_prefix_is_of(dev, ip, addr)) {
		verdict = EIPOIB_SEND;
		goto out;
	}
	if (!guest) {
		guest = eipoib_guest_add(dev, ip, mac, skb);
		if (guest)
			eipoib_guest_ask(dev, guest, EIPOIB_GUEST_SEEN);
	}
	if (guest && guest->mac != mac &&
	    (guard || guest->state == EIPOIB_GUEST_FIXED))
		verdict = eipoib_guest_other(dev, guest, addr, false);
	else if (!guard)
		verdict = EIPOIB_SEND;
	else if (guest)
		verdict = eipoib_guest_verdict(dev, guest, skb);
out:
	spin_unlock_bh(&dev->lock);
	return verdict;
}

/**
 * eipoib_guest_data - a station sends data from an address
 * @dev: interface
 * @ip: address
 * @mac: station
 * @skb: frame
 * Return: what to do with the frame; it is gone if that is EIPOIB_KEPT.  With the
 *	guard off it is sent in any case, unless the address is this host's.
 *
 * Under RCU.
 */
enum eipoib_verdict eipoib_guest_data(struct eipoib_dev *dev,
				      const struct in6_addr *ip, const u8 *mac,
				      struct sk_buff *skb)
{
	struct eipoib_guest *guest = eipoib_guest_find(dev, ip);

	if (!guest || !eipoib_guest_holds(guest) ||
	    READ_ONCE(guest->mac) != ether_addr_to_u64(mac))
		return eipoib_guest_unsure(dev, ip, mac, skb);
	if (time_before(READ_ONCE(guest->heard), jiffies))
		WRITE_ONCE(guest->heard, jiffies);
	return EIPOIB_SEND;
}

/* A guest says of an address that it holds whether it is a router's. */
void eipoib_guest_router(struct eipoib_dev *dev, const struct in6_addr *ip,
			 bool router)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest)
		guest->router = router;
	spin_unlock_bh(&dev->lock);
}

/* ---- look-ups, and what the fabric says ---------------------------------- */

/* Does a guest hold the address?  Under RCU. */
bool eipoib_guest_is(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_guest *guest = eipoib_guest_find(dev, ip);

	return guest && eipoib_guest_holds(guest);
}

/* Somebody on the fabric wants to know whether an address is in use. */
void eipoib_guest_probed(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest) {
		guest->probed = jiffies;
		eipoib_guest_doubt(dev, guest);
		/* It may be the guest, somewhere else. */
		guest->search = false;
	}
	spin_unlock_bh(&dev->lock);
}

/*
 * Was nothing heard of a guest for a while?  It may be somewhere else by now.
 * While it does not answer it is asked after pauses that double.
 */
static bool eipoib_guest_missed(const struct eipoib_guest *guest)
{
	unsigned long heard = READ_ONCE(guest->heard), asked;
	long pause;

	if (likely(time_before_eq(jiffies, heard + EIPOIB_GUEST_MISSED)))
		return false;
	asked = READ_ONCE(guest->asked);
	pause = max_t(long, 3 * EIPOIB_GUEST_MISSED, asked - heard);
	return READ_ONCE(guest->state) == EIPOIB_GUEST_HELD &&
	       time_after(jiffies, asked + pause);
}

/* Is a guest that something is sent to still there?  Rare. */
static noinline void eipoib_guest_miss(struct eipoib_dev *dev,
				       const struct in6_addr *ip)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest && eipoib_guest_missed(guest)) {
		eipoib_guest_ask(dev, guest, EIPOIB_GUEST_ASKED);
		guest->search = true;
	}
	spin_unlock_bh(&dev->lock);
}

/**
 * eipoib_guest_mac - the station that has an address, for what is sent to it
 * @dev: interface
 * @ip: address
 * @mac: result
 * Return: false if no guest holds it.  Under RCU.
 */
bool eipoib_guest_mac(struct eipoib_dev *dev, const struct in6_addr *ip,
		      u8 *mac)
{
	struct eipoib_guest *guest = eipoib_guest_find(dev, ip);

	if (!guest || !eipoib_guest_holds(guest))
		return false;
	if (unlikely(eipoib_guest_missed(guest)))
		eipoib_guest_miss(dev, ip);
	u64_to_ether_addr(READ_ONCE(guest->mac), mac);
	return true;
}

/*
 * A peer claims an address that a guest holds.  The guest is asked, and keeps it
 * if it answers.  If it has just been asked in vain, or its claim has just been
 * granted, the peer is believed: its answer was late, or the guest has moved there.
 */
static bool eipoib_guest_contend(struct eipoib_dev *dev,
				 struct eipoib_guest *guest, const u8 *lladdr)
{
	if (guest->state == EIPOIB_GUEST_FIXED) {
		eipoib_guest_defend(dev, guest);
		return true;
	}
	if (!READ_ONCE(dev->guard)) {
		eipoib_guest_remove(dev, guest);
		return false;
	}
	if ((time_before(jiffies, guest->silent + EIPOIB_GUEST_EARLY) &&
	     time_before(READ_ONCE(guest->heard), guest->silent)) ||
	    time_before(jiffies, guest->granted + EIPOIB_GUEST_EARLY)) {
		eipoib_guest_lose(dev, guest);
		return false;
	}
	eipoib_guest_doubt(dev, guest);
	if (lladdr && guest->state == EIPOIB_GUEST_ASKED)
		memcpy(guest->contender, lladdr, INFINIBAND_ALEN);
	return true;
}

/**
 * eipoib_guest_contested - a peer says that an address is its own
 * @dev: interface
 * @ip: address
 * @lladdr: the peer's link-layer address, NULL if it does not say
 * Return: true if a guest has it, and the peer is not to be believed (yet)
 */
bool eipoib_guest_contested(struct eipoib_dev *dev, const struct in6_addr *ip,
			    const u8 *lladdr)
{
	struct eipoib_guest *guest;
	bool contested = false;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest && eipoib_guest_holds(guest))
		contested = eipoib_guest_contend(dev, guest, lladdr);
	else if (guest && !eipoib_guest_heeds(guest))
		eipoib_guest_refuse(dev, guest);
	spin_unlock_bh(&dev->lock);
	return contested;
}

/* ---- addresses that guests are given ------------------------------------- */

/* The interface is up: what is done for addresses begins. */
void eipoib_guests_open(struct eipoib_dev *dev)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	dev->bridged = true;
	dev->since = jiffies - EIPOIB_GUEST_SETTLE;
	list_for_each_entry(guest, &dev->guest_list, list) {
		guest->announce = 1;
		eipoib_guest_settle(dev, guest, EIPOIB_GUEST_FIXED);
	}
	spin_unlock_bh(&dev->lock);
}

/* What guests claim takes no room from what they are given. */
static bool eipoib_guest_may_give(struct eipoib_dev *dev,
				  const struct eipoib_guest *guest)
{
	const struct eipoib_guest *other;
	u32 given = 0;

	if (guest && guest->state == EIPOIB_GUEST_FIXED)
		return true;
	list_for_each_entry(other, &dev->guest_list, list)
		given += other->state == EIPOIB_GUEST_FIXED;
	return given < READ_ONCE(dev->max_guests);
}

/**
 * eipoib_guest_give - give a guest an address
 * @dev: interface
 * @ip: address
 * @addr: the guest's station
 * @extack: why not
 *
 * With rtnl: the interface does not come up meanwhile.
 * Return: 0 or -errno
 */
int eipoib_guest_give(struct eipoib_dev *dev, const struct in6_addr *ip,
		      const u8 *addr, struct netlink_ext_ack *extack)
{
	u64 mac = ether_addr_to_u64(addr);
	struct eipoib_guest *guest;
	int ret = 0;

	ASSERT_RTNL();
	if (!eipoib_host_allows(dev, ip, addr)) {
		NL_SET_ERR_MSG(extack, "This host has that address");
		return -EADDRINUSE;
	}
	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (!eipoib_guest_may_give(dev, guest)) {
		NL_SET_ERR_MSG(extack, "There is no room: see max_guests");
		ret = -ENOSPC;
		goto out;
	}
	guest = guest ?: eipoib_guest_add(dev, ip, mac, NULL);
	if (!guest) {
		ret = -ENOMEM;
		goto out;
	}
	if (guest->mac != mac)
		guest->router = false;
	WRITE_ONCE(guest->heard, jiffies);
	WRITE_ONCE(guest->mac, mac);
	guest->announce = 1;
	if (netif_running(dev->ndev))
		eipoib_guest_settle(dev, guest, EIPOIB_GUEST_FIXED);
	else
		eipoib_guest_become(dev, guest, EIPOIB_GUEST_FIXED);
out:
	spin_unlock_bh(&dev->lock);
	return ret;
}

/* A prefix was given: others lose what they have claimed of it. */
void eipoib_guests_recheck(struct eipoib_dev *dev)
{
	struct eipoib_guest *guest, *next;
	u8 mac[ETH_ALEN];

	spin_lock_bh(&dev->lock);
	list_for_each_entry_safe(guest, next, &dev->guest_list, list) {
		u64_to_ether_addr(guest->mac, mac);
		if (guest->state != EIPOIB_GUEST_FIXED &&
		    !eipoib_prefix_allows(dev, &guest->ip, mac))
			eipoib_guest_remove(dev, guest);
	}
	spin_unlock_bh(&dev->lock);
}

/* Forget an address, given or claimed; -ENOENT if there is no such one. */
int eipoib_guest_take(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct eipoib_guest *guest;

	spin_lock_bh(&dev->lock);
	guest = eipoib_guest_find(dev, ip);
	if (guest)
		eipoib_guest_remove(dev, guest);
	spin_unlock_bh(&dev->lock);
	return guest ? 0 : -ENOENT;
}

/* ---- netlink ------------------------------------------------------------- */

static bool eipoib_guest_fill(struct sk_buff *skb, const void *object)
{
	const struct eipoib_guest *guest = object;
	unsigned long heard = READ_ONCE(guest->heard);
	u8 mac[ETH_ALEN], rival[ETH_ALEN];

	u64_to_ether_addr(guest->mac, mac);
	u64_to_ether_addr(guest->rival, rival);
	return !eipoib_msg_put_ip(skb, EIPOIB_A_GUEST_ADDRESS, &guest->ip) &&
	       !nla_put(skb, EIPOIB_A_GUEST_MAC, ETH_ALEN, mac) &&
	       !nla_put_u32(skb, EIPOIB_A_GUEST_STATUS, guest->state) &&
	       !eipoib_msg_put_ms(skb, EIPOIB_A_GUEST_IDLE, jiffies - heard) &&
	       !(guest->router &&
		 nla_put_flag(skb, EIPOIB_A_GUEST_ROUTER)) &&
	       !(guest->rival &&
		 nla_put(skb, EIPOIB_A_GUEST_RIVAL, ETH_ALEN, rival)) &&
	       !(memchr_inv(guest->contender, 0, INFINIBAND_ALEN) &&
		 nla_put(skb, EIPOIB_A_GUEST_CONTENDER, INFINIBAND_ALEN,
			 guest->contender)) &&
	       !nla_put_u32(skb, EIPOIB_A_GUEST_WAITING_PACKETS,
			    skb_queue_len(&guest->waiting));
}

/**
 * eipoib_guests_dump - write addresses of guests to a dump
 * @dev: interface
 * @dump: dump; where it stands is the number of an entry
 * Return: 0, or -EMSGSIZE if there is no more room.  Under RCU.
 */
int eipoib_guests_dump(struct eipoib_dev *dev, struct eipoib_dump *dump)
{
	struct eipoib_guest *guest;
	int ret;

	list_for_each_entry_rcu(guest, &dev->guest_list, list) {
		if (guest->serial <= dump->at)
			continue;
		spin_lock_bh(&dev->lock);
		ret = eipoib_dump_one(dev, dump, eipoib_guest_fill, guest,
				      guest->serial);
		spin_unlock_bh(&dev->lock);
		if (ret)
			return ret;
	}
	return 0;
}
