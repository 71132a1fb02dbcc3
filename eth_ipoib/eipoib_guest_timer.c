// SPDX-License-Identifier: GPL-2.0-only
/*
 * Questions about guests' addresses, and what becomes of those that nobody
 * answers: by the timer
 */
#include "eipoib_arp.h"
#include "eipoib_group.h"
#include "eipoib_guest_state.h"
#include "eipoib_nd.h"
#include "eipoib_peer.h"

#define EIPOIB_GUEST_RETRY	(HZ / 10)	/* between two questions */
#define EIPOIB_GUEST_ANNOUNCES	2		/* of one guest, a second apart */
#define EIPOIB_GUEST_ANNOUNCED	20		/* in one tick */

/* Was nothing heard of it for so long that it is to be asked, or forgotten? */
static bool eipoib_guest_aged(const struct eipoib_guest *guest)
{
	return time_after(jiffies, READ_ONCE(guest->heard) + EIPOIB_GUEST_AGE);
}

/* Nobody is in doubt about the address. */
static bool eipoib_guest_settled(const struct eipoib_guest *guest)
{
	return guest->state == EIPOIB_GUEST_HELD ||
	       guest->state == EIPOIB_GUEST_FIXED;
}

/*
 * Does a guest hear a question?  A bridge with STP does not forward for a while after
 * there is a carrier: it does when something was heard of a guest.
 */
static bool eipoib_guests_hear(const struct eipoib_dev *dev)
{
	return eipoib_is_heard(dev) && dev->bridged;
}

static void eipoib_guests_find_bridge(struct eipoib_dev *dev)
{
	const struct eipoib_guest *guest;

	if (dev->bridged || !eipoib_is_heard(dev))
		return;
	dev->bridged = time_after(jiffies, dev->since + EIPOIB_GUEST_BRIDGE);
	list_for_each_entry(guest, &dev->guest_list, list)
		if (guest->state != EIPOIB_GUEST_FIXED &&
		    time_after(READ_ONCE(guest->heard), dev->since))
			dev->bridged = true;
}

/* Can those hear that are asked about an address in this state? */
static bool eipoib_guest_can_ask(const struct eipoib_dev *dev,
				 const struct eipoib_guest *guest)
{
	if (guest->state != EIPOIB_GUEST_CLAIMED)
		return eipoib_guests_hear(dev);
	return eipoib_is_heard(dev) &&
	       time_after(jiffies, dev->since + EIPOIB_GUEST_SETTLE);
}

/*
 * A question that nobody can hear, or that there is no memory for, is none: its
 * answer would not be missed.
 */
static void eipoib_guest_question(struct eipoib_dev *dev,
				  struct eipoib_guest *guest,
				  struct eipoib_batch *batch)
{
	unsigned int count = eipoib_batch_count(batch);
	u8 mac[ETH_ALEN];

	/* The stack drops what is too much at once; the next tick goes on. */
	if (count >= EIPOIB_GUEST_QUESTIONS)
		return;
	guest->next = jiffies + EIPOIB_GUEST_RETRY;
	if (!eipoib_guest_can_ask(dev, guest))
		return;
	u64_to_ether_addr(guest->mac, mac);
	if (guest->state == EIPOIB_GUEST_CLAIMED)
		eipoib_peer_search(dev, &in6addr_any, &guest->ip, batch);
	else if (eipoib_is_v4(&guest->ip))
		eipoib_arp_ask_guest(dev, eipoib_to_v4(&guest->ip), mac, batch);
	else
		eipoib_nd_ask_guest(dev, &guest->ip, mac, batch);
	if (eipoib_batch_count(batch) != count)
		guest->tries--;
}

/*
 * Where is a guest that does not answer?  This host asks in its own name: in
 * nobody's name, the guest would take it for another one that wants its address.
 */
static void eipoib_guest_search(struct eipoib_dev *dev,
				const struct eipoib_guest *guest,
				struct eipoib_batch *batch)
{
	struct in6_addr from;

	if (!__ratelimit(&dev->searches))
		return;
	eipoib_host_from(dev, &guest->ip, &from);
	eipoib_peer_search(dev, &from, &guest->ip, batch);
}

/* A guest is now behind a peer: other guests are told. */
static void eipoib_guest_left(struct eipoib_dev *dev,
			      struct eipoib_guest *guest,
			      struct eipoib_batch *batch)
{
	u8 lladdr[INFINIBAND_ALEN];
	struct in6_addr ip = guest->ip;
	bool router = guest->router;

	memcpy(lladdr, guest->contender, INFINIBAND_ALEN);
	eipoib_guest_lose(dev, guest);
	eipoib_peer_moved(dev, &ip, lladdr);
	if (eipoib_is_v4(&ip))
		eipoib_arp_tell_guests(dev, eipoib_to_v4(&ip), batch);
	else
		eipoib_nd_tell_guests(dev, &ip, router, batch);
}

/*
 * The guest does not answer.  One whose address nobody claims keeps it for now: a
 * virtual machine may have been stopped for a moment.  If it was moved and has
 * not said so, its answer to a question is what another host hears of it.  Of a
 * peer and another station that claim it the peer is believed, whom its own host
 * has asked.
 */
static void eipoib_guest_mute(struct eipoib_dev *dev,
			      struct eipoib_guest *guest,
			      struct eipoib_batch *batch)
{
	if (memchr_inv(guest->contender, 0, INFINIBAND_ALEN)) {
		eipoib_guest_left(dev, guest, batch);
	} else if (guest->rival) {
		eipoib_guest_succeed(dev, guest);
	} else if (eipoib_guest_aged(guest)) {
		eipoib_guest_remove(dev, guest);
	} else {
		guest->silent = jiffies;
		eipoib_guest_hold(dev, guest);
		if (guest->search)
			eipoib_guest_search(dev, guest, batch);
	}
}

/* Nobody has answered.  If nobody could, the questions are asked again. */
static void eipoib_guest_silence(struct eipoib_dev *dev,
				 struct eipoib_guest *guest,
				 struct eipoib_batch *batch)
{
	if (guest->state != EIPOIB_GUEST_REFUSED &&
	    !eipoib_guest_can_ask(dev, guest)) {
		guest->tries = EIPOIB_GUEST_TRIES;
		return;
	}
	switch (guest->state) {
	case EIPOIB_GUEST_CLAIMED:
		eipoib_guest_grant(dev, guest);
		break;
	case EIPOIB_GUEST_ASKED:
		eipoib_guest_mute(dev, guest, batch);
		break;
	case EIPOIB_GUEST_REFUSED:
		if (eipoib_guest_again(dev, guest))
			break;
		fallthrough;
	default:
		eipoib_guest_remove(dev, guest);
		break;
	}
}

/* The fabric has not been asked for it since it was away, or is another one. */
static bool eipoib_guest_outdated(const struct eipoib_dev *dev,
				  const struct eipoib_guest *guest)
{
	return guest->state == EIPOIB_GUEST_HELD && guest->epoch != dev->epoch;
}

/*
 * Ask whether an address that is held still is the guest's; true: it is asked.  After
 * an outage first the guest is, once, and then the fabric about one that is here.
 */
static bool eipoib_guest_review(struct eipoib_dev *dev,
				struct eipoib_guest *guest)
{
	bool outdated = eipoib_guest_outdated(dev, guest);

	if (!eipoib_is_heard(dev))
		return false;
	if (outdated && !READ_ONCE(dev->guard)) {
		guest->epoch = dev->epoch;
	} else if (outdated &&
		   time_after(READ_ONCE(guest->heard), dev->since)) {
		guest->epoch = dev->epoch;
		eipoib_guest_ask(dev, guest, EIPOIB_GUEST_CLAIMED);
		return true;
	}
	outdated &= time_before(guest->asked, dev->since);
	if (dev->bridged && (outdated || eipoib_guest_aged(guest)))
		eipoib_guest_doubt(dev, guest);
	return guest->state == EIPOIB_GUEST_ASKED;
}

/* What is due for an address in doubt */
static void eipoib_guest_tick(struct eipoib_dev *dev,
			      struct eipoib_guest *guest,
			      struct eipoib_batch *batch)
{
	/* Data is an answer, too. */
	if (guest->state == EIPOIB_GUEST_ASKED &&
	    time_after(READ_ONCE(guest->heard), guest->asked))
		eipoib_guest_keeps(dev, guest);
	else if (time_before(jiffies, guest->next))
		return;
	else if (guest->tries)
		eipoib_guest_question(dev, guest, batch);
	else
		eipoib_guest_silence(dev, guest, batch);
}

static void eipoib_guest_announce(struct eipoib_dev *dev,
				  struct eipoib_guest *guest,
				  struct eipoib_batch *batch)
{
	unsigned int count = eipoib_batch_count(batch);

	if (eipoib_is_v4(&guest->ip))
		eipoib_arp_announce(dev, eipoib_to_v4(&guest->ip), batch);
	else
		eipoib_nd_announce(dev, &guest->ip, guest->router, batch);
	if (eipoib_batch_count(batch) == count)
		return;
	guest->announce--;
	guest->announced = jiffies;
}

/* Not one that is to be asked for first */
static bool eipoib_guest_announces(const struct eipoib_dev *dev,
				   const struct eipoib_guest *guest)
{
	return guest->announce && time_after(jiffies, guest->announced + HZ) &&
	       !eipoib_guest_outdated(dev, guest) &&
	       (guest->state == EIPOIB_GUEST_FIXED || !eipoib_guest_aged(guest));
}

/**
 * eipoib_guests_tick - ask questions that are due, act on silence
 * @dev: interface
 * @batch: for questions and announcements
 * @frames: for frames whose source address has been granted
 */
void eipoib_guests_tick(struct eipoib_dev *dev, struct eipoib_batch *batch,
			struct sk_buff_head *frames)
{
	unsigned int announces = eipoib_is_heard(dev) ?
				 EIPOIB_GUEST_ANNOUNCED : 0;
	unsigned int doubts = EIPOIB_GUEST_DOUBTS;
	struct eipoib_guest *guest, *next;

	lockdep_assert_held(&dev->lock);
	eipoib_guests_find_bridge(dev);
	list_for_each_entry_safe(guest, next, &dev->guest_list, list) {
		if (!eipoib_guest_settled(guest)) {
			eipoib_guest_tick(dev, guest, batch);
			continue;
		}
		if (!guest->grouped)
			guest->grouped = eipoib_group_get(dev, &guest->ip);
		if (doubts)
			doubts -= eipoib_guest_review(dev, guest);
	}
	list_for_each_entry(guest, &dev->guest_list, list) {
		if (!eipoib_guest_settled(guest))
			continue;
		if (announces && eipoib_guest_announces(dev, guest)) {
			eipoib_guest_announce(dev, guest, batch);
			announces--;
		}
		eipoib_wait_take(dev, &guest->waiting, frames);
	}
}

/* Is there a question to be asked, or an answer to be waited for? */
bool eipoib_guests_busy(const struct eipoib_dev *dev)
{
	const struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	if (!eipoib_is_heard(dev))
		return false;
	list_for_each_entry(guest, &dev->guest_list, list)
		if (!eipoib_guest_settled(guest) || guest->announce)
			return true;
	return false;
}

/* Tell the fabric of the addresses of station @mac, or of all if that is 0. */
static void eipoib_guests_tell(struct eipoib_dev *dev, u64 mac)
{
	struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(guest, &dev->guest_list, list)
		if (!mac || guest->mac == mac)
			guest->announce = EIPOIB_GUEST_ANNOUNCES;
	eipoib_kick(dev);
}

/* Who else claims addresses of guests, or has them, is not who may do so later. */
static void eipoib_guests_uncontest(struct eipoib_dev *dev)
{
	struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(guest, &dev->guest_list, list) {
		guest->rival = 0;
		memset(guest->contender, 0, sizeof(guest->contender));
		guest->refusals = 0;
		if (guest->state == EIPOIB_GUEST_REFUSED)
			guest->next = jiffies;
	}
}

/* The carrier is gone: frames that wait for an answer would wait for too long. */
void eipoib_guests_deaf(struct eipoib_dev *dev)
{
	struct eipoib_guest *guest;

	dev->bridged = false;
	eipoib_guests_uncontest(dev);
	list_for_each_entry(guest, &dev->guest_list, list)
		eipoib_wait_drop(dev, &guest->waiting, EIPOIB_C_UNCONFIRMED);
}

/*
 * There is a carrier: what was asked is asked again.  Who was away for long may have
 * lost its addresses.
 */
void eipoib_guests_heard(struct eipoib_dev *dev)
{
	struct eipoib_guest *guest;

	lockdep_assert_held(&dev->lock);
	if (time_after(jiffies, dev->since + EIPOIB_GUEST_AWAY))
		dev->epoch++;
	list_for_each_entry(guest, &dev->guest_list, list)
		if (!eipoib_guest_settled(guest) &&
		    guest->state != EIPOIB_GUEST_REFUSED)
			guest->tries = max_t(u8, guest->tries,
					     EIPOIB_GUEST_TRIES);
}

/* The lower interface is in another partition: nobody there was asked. */
void eipoib_guests_reclaim(struct eipoib_dev *dev)
{
	spin_lock_bh(&dev->lock);
	dev->epoch++;
	dev->since = jiffies;
	eipoib_guests_uncontest(dev);
	spin_unlock_bh(&dev->lock);
}

/* The lower interface has another address. */
void eipoib_guests_readdress(struct eipoib_dev *dev)
{
	spin_lock_bh(&dev->lock);
	eipoib_guests_tell(dev, 0);
	spin_unlock_bh(&dev->lock);
}

/**
 * eipoib_guests_moved - a station says that it has moved
 * @dev: interface
 * @addr: station
 * @skb: frame in which it says so
 */
void eipoib_guests_moved(struct eipoib_dev *dev, const u8 *addr,
			 const struct sk_buff *skb)
{
	u64 mac = ether_addr_to_u64(addr);

	spin_lock_bh(&dev->lock);
	if (eipoib_share_use(&dev->moves, eipoib_source(skb->skb_iif, mac)))
		eipoib_guests_tell(dev, mac);
	spin_unlock_bh(&dev->lock);
}
