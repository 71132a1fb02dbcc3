/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is known of guests' addresses, for the files that change it
 */
#ifndef EIPOIB_GUEST_STATE_H
#define EIPOIB_GUEST_STATE_H

#include "eipoib_guest.h"

#define EIPOIB_GUEST_AGE	(300 * HZ)	/* not heard of: ask */
#define EIPOIB_GUEST_MISSED	(2 * HZ)	/* the same, of one that is sent to */
#define EIPOIB_GUEST_TRIES	3
#define EIPOIB_GUEST_SUCCESSION	20		/* the same, if it was another's */
#define EIPOIB_GUEST_DOUBTS	50		/* begun in one tick */
#define EIPOIB_GUEST_QUESTIONS	200		/* in one tick */
#define EIPOIB_GUEST_SETTLE	HZ		/* groups are joined, with a carrier */
#define EIPOIB_GUEST_AWAY	(20 * HZ)	/* others may have what it had */
#define EIPOIB_GUEST_BRIDGE	(35 * HZ)	/* STP: until a port forwards */
#define EIPOIB_GUEST_PAUSE	HZ		/* between two doubts */
#define EIPOIB_GUEST_EARLY	(3 * HZ)	/* a late answer is believed */
#define EIPOIB_GUEST_REFUSAL	HZ		/* until it is looked at again */
#define EIPOIB_GUEST_SOON	(HZ / 10)	/* the same, if it says so again */
#define EIPOIB_GUEST_REVIEWS	3		/* so often, if it says nothing itself */
#define EIPOIB_GUEST_DISPUTE	(10 * HZ)	/* ends so long after a refusal */
#define EIPOIB_GUEST_ANSWER	(HZ / 2)	/* to a probe: takes so long */
#define EIPOIB_GUEST_DEFEND	(10 * HZ)	/* RFC 5227 section 2.4 */

/**
 * enum eipoib_guest_state - what is known of a guest's address
 * @EIPOIB_GUEST_SEEN: its station sends data, was refused the address or has lost it
 *	to a peer, and is asked whether it answers for the address
 * @EIPOIB_GUEST_CLAIMED: its station answers for it; the fabric is asked
 * @EIPOIB_GUEST_HELD: it is the guest's
 * @EIPOIB_GUEST_ASKED: it is the guest's, which is asked whether it still is,
 *	since it was not heard of for long or somebody else claims the address
 * @EIPOIB_GUEST_REFUSED: it is somebody else's, for now: the station is asked again
 * @EIPOIB_GUEST_FIXED: it was given to the guest, and stays so while the interface
 *	is down
 *
 * As enum eipoib_guest_status is for programs.
 */
enum eipoib_guest_state {
	EIPOIB_GUEST_SEEN,
	EIPOIB_GUEST_CLAIMED,
	EIPOIB_GUEST_HELD,
	EIPOIB_GUEST_ASKED,
	EIPOIB_GUEST_REFUSED,
	EIPOIB_GUEST_FIXED,
};

static_assert((u32)EIPOIB_GUEST_FIXED == (u32)EIPOIB_GUEST_STATUS_FIXED);

/**
 * struct eipoib_guest - an address of a guest
 * @node: in eipoib_dev.guests
 * @list: in eipoib_dev.guest_list, in the order of @serial
 * @serial: number of the entry
 * @ip: address
 * @state: written with eipoib_dev.lock
 * @mac: station that has the address, as a number; likewise
 * @port: interface of this host by which it was claimed, 0: not known
 * @rival: station of the Ethernet that claims it too, 0: none
 * @contender: link-layer address of a peer that claims it too, zero if there is
 *	none
 * @tries: questions left to be asked in this state
 * @refusals: how often a peer was believed, not the station, in this dispute; 1 when
 *	the station claims the address itself
 * @hurried: how often it was looked at soon in this dispute
 * @told: the log tells of this dispute
 * @announce: how often the fabric is to be told
 * @router: it says that it is one, by neighbour discovery
 * @grouped: its solicited-node group is used
 * @epoch: eipoib_dev.epoch when the fabric was last asked whether it has the address
 * @search: it is asked because something was sent to it; if it does not answer,
 *	the fabric is asked, too
 * @next: when the next question is due, jiffies
 * @asked: when the first one was asked, jiffies
 * @heard: when the guest was last heard of, jiffies
 * @granted: when the fabric did not answer to its claim, jiffies
 * @refused: when a peer was last believed, jiffies
 * @probed: when a peer last asked whether anybody has it, jiffies
 * @silent: when the guest did not answer though nobody claimed its address,
 *	jiffies
 * @announced: when the fabric was last told, jiffies
 * @waiting: frames to be sent when it is held, eipoib_dev.lock
 * @rcu: frees it
 */
struct eipoib_guest {
	struct rhash_head node;
	struct list_head list;
	u64 serial;
	struct in6_addr ip;
	enum eipoib_guest_state state;
	u64 mac;
	u32 port;
	u64 rival;
	u8 contender[INFINIBAND_ALEN];
	u8 tries;
	u8 refusals;
	u8 hurried;
	bool told;
	u8 announce;
	bool router;
	bool grouped;
	bool search;
	u32 epoch;
	unsigned long next;
	unsigned long asked;
	unsigned long heard;
	unsigned long granted;
	unsigned long refused;
	unsigned long probed;
	unsigned long silent;
	unsigned long announced;
	struct sk_buff_head waiting;
	struct rcu_head rcu;
};

/* With the lock held. */
void eipoib_guest_ask(struct eipoib_dev *dev, struct eipoib_guest *guest,
		      enum eipoib_guest_state state);
bool eipoib_guest_again(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_become(struct eipoib_dev *dev, struct eipoib_guest *guest,
			 enum eipoib_guest_state state);
bool eipoib_guest_by_itself(const struct eipoib_guest *guest,
			    enum eipoib_says says);
void eipoib_guest_desist(struct eipoib_guest *guest);
void eipoib_guest_doubt(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_grant(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_hold(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_keeps(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_lose(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_succeed(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_refuse(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_remove(struct eipoib_dev *dev, struct eipoib_guest *guest);
void eipoib_guest_rest(struct eipoib_dev *dev, struct eipoib_guest *guest);
bool eipoib_guest_heeds(const struct eipoib_guest *guest);
void eipoib_guest_insists(struct eipoib_guest *guest, enum eipoib_says says);

#endif
