// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disputes: a peer is believed that has the address of a guest
 *
 * What a peer says may be older than what the guest has said last, or be over soon.
 * So the guest is looked at again, a few times in a dispute, and whenever it says
 * itself that the address is its own.
 */
#include "eipoib_guest_state.h"

/* Was a peer believed, not the station, not long ago? */
static bool eipoib_guest_disputed(const struct eipoib_guest *guest)
{
	return time_before(jiffies, guest->refused + EIPOIB_GUEST_DISPUTE);
}

/* A peer is believed rather than the station; a dispute ends when it is not for long. */
static void eipoib_guest_disbelieve(struct eipoib_guest *guest)
{
	if (!guest->refusals || !eipoib_guest_disputed(guest)) {
		guest->refusals = 0;
		guest->hurried = 0;
		guest->told = false;
	}
	if (guest->refusals <= EIPOIB_GUEST_REVIEWS)
		guest->refusals++;
	guest->refused = jiffies;
}

/* May the address be looked at again?  Not too often, nor too much for its guest. */
static bool eipoib_guest_may_review(struct eipoib_dev *dev,
				    const struct eipoib_guest *guest)
{
	return guest->refusals <= EIPOIB_GUEST_REVIEWS &&
	       eipoib_share_use(&dev->claims,
				eipoib_source(guest->port, guest->mac));
}

static void eipoib_guest_decline(struct eipoib_dev *dev,
				 struct eipoib_guest *guest)
{
	u8 mac[ETH_ALEN];

	u64_to_ether_addr(guest->mac, mac);
	if (!guest->told)
		net_info_ratelimited("%s: %pM may not have %pI6c: somebody else answers\n",
				     dev->ndev->name, mac, &guest->ip);
	guest->told = true;
	eipoib_wait_drop(dev, &guest->waiting, EIPOIB_C_REFUSED);
	eipoib_guest_rest(dev, guest);
	eipoib_guest_become(dev, guest, EIPOIB_GUEST_REFUSED);
	guest->tries = 0;
	guest->next = jiffies + EIPOIB_GUEST_REFUSAL;
}

/**
 * eipoib_guest_lose - a peer is believed that has the address of a guest
 * @dev: interface
 * @guest: guest that had it
 *
 * What the peer says may be older than what the guest has said last, which may have
 * moved there and back.  A guest says so once.  Hence it is asked whether it is here.
 *
 * Context: eipoib_dev.lock held.
 */
void eipoib_guest_lose(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	lockdep_assert_held(&dev->lock);
	eipoib_guest_disbelieve(guest);
	eipoib_guest_rest(dev, guest);
	guest->rival = 0;
	memset(guest->contender, 0, sizeof(guest->contender));
	guest->announced = jiffies - EIPOIB_GUEST_DEFEND;
	if (eipoib_guest_may_review(dev, guest))
		eipoib_guest_ask(dev, guest, EIPOIB_GUEST_SEEN);
	else
		eipoib_guest_decline(dev, guest);
}

/**
 * eipoib_guest_refuse - a peer has what a station claims
 * @dev: interface
 * @guest: address and station
 *
 * Context: eipoib_dev.lock held.
 */
void eipoib_guest_refuse(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	lockdep_assert_held(&dev->lock);
	eipoib_guest_disbelieve(guest);
	eipoib_guest_decline(dev, guest);
}

/**
 * eipoib_guest_again - look again at an address that was refused to a station
 * @dev: interface
 * @guest: address and station
 *
 * The peer may have lost it meanwhile, or have answered for a guest that had just
 * left it.  The station is asked, and then the fabric.  What was looked at too often
 * stays refused for the rest of the dispute: if it was forgotten, questions of other
 * hosts that have the same dispute would have it claimed anew.
 *
 * Context: eipoib_dev.lock held.
 * Return: false if the address is to be forgotten
 */
bool eipoib_guest_again(struct eipoib_dev *dev, struct eipoib_guest *guest)
{
	lockdep_assert_held(&dev->lock);
	if (eipoib_guest_may_review(dev, guest))
		eipoib_guest_ask(dev, guest, EIPOIB_GUEST_SEEN);
	else if (guest->refusals <= EIPOIB_GUEST_REVIEWS)
		guest->next = jiffies + EIPOIB_GUEST_REFUSAL;
	else
		eipoib_guest_desist(guest);
	return guest->state != EIPOIB_GUEST_REFUSED ||
	       time_before(jiffies, guest->next);
}

/**
 * eipoib_guest_desist - what was refused is not looked at again in this dispute
 * @guest: address and station
 *
 * Unless the station claims it itself.
 *
 * Context: eipoib_dev.lock held.
 */
void eipoib_guest_desist(struct eipoib_guest *guest)
{
	guest->refusals = EIPOIB_GUEST_REVIEWS + 1;
	guest->next = guest->refused + EIPOIB_GUEST_DISPUTE;
}

/**
 * eipoib_guest_heeds - has a peer been believed already?
 * @guest: address and station
 *
 * Then it changes nothing that it says so again: it is refused, or whether the station
 * is here is being found out.
 *
 * Context: eipoib_dev.lock held.
 */
bool eipoib_guest_heeds(const struct eipoib_guest *guest)
{
	return guest->state == EIPOIB_GUEST_REFUSED ||
	       (guest->state == EIPOIB_GUEST_SEEN && guest->refusals);
}

/**
 * eipoib_guest_by_itself - does a station claim an address by itself?
 * @guest: address
 * @says: why it says that the address is its own
 *
 * It does not if it answers to the question whether anybody has the address, which
 * another host asks in the same dispute.
 *
 * Context: eipoib_dev.lock held.
 */
bool eipoib_guest_by_itself(const struct eipoib_guest *guest,
			    enum eipoib_says says)
{
	return says == EIPOIB_SAYS_ITSELF ||
	       (says == EIPOIB_SAYS_ALL &&
		time_after(jiffies, guest->probed + EIPOIB_GUEST_ANSWER));
}

/**
 * eipoib_guest_insists - a station says that an address is its own
 * @guest: address and station
 * @says: why it says so
 *
 * If it was refused and says so by itself it is looked at soon, a few times in a
 * dispute, else after a second, and as often as it says so.
 *
 * Context: eipoib_dev.lock held.
 */
void eipoib_guest_insists(struct eipoib_guest *guest, enum eipoib_says says)
{
	unsigned long next = jiffies + EIPOIB_GUEST_REFUSAL;

	if (!eipoib_guest_by_itself(guest, says))
		return;
	guest->refusals = min_t(u8, guest->refusals, 1);
	if (guest->state != EIPOIB_GUEST_REFUSED)
		return;
	if (guest->hurried < EIPOIB_GUEST_REVIEWS) {
		guest->hurried++;
		next = jiffies + EIPOIB_GUEST_SOON;
	}
	if (time_before(next, guest->next))
		guest->next = next;
}
