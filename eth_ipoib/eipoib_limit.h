/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits: how often per second, for all and for one guest
 */
#ifndef EIPOIB_LIMIT_H
#define EIPOIB_LIMIT_H

#include <linux/etherdevice.h>
#include <linux/ratelimit.h>
#include <linux/skbuff.h>

#define EIPOIB_SHARE_BITS	6

/**
 * struct eipoib_share - so many per second, of which one guest has a part only
 * @all: all guests together
 * @most: one guest
 * @secret: so that nobody knows whose part is also somebody else's
 * @until: end of the second that @used is about, jiffies
 * @used: by a hash of the guest
 *
 * eipoib_dev.lock covers all but @all.
 */
struct eipoib_share {
	struct ratelimit_state all;
	u32 most;
	u64 secret;
	unsigned long until;
	u32 used[1 << EIPOIB_SHARE_BITS];
};

/* So many per second, without a word if there are more. */
static inline void eipoib_limit(struct ratelimit_state *limit, int num)
{
	ratelimit_state_init(limit, HZ, num);
	ratelimit_set_flags(limit, RATELIMIT_MSG_ON_RELEASE);
}

/**
 * eipoib_source - for whom a frame counts
 * @port: interface of this host that it came by, as skb_iif; 0: none is known
 * @mac: station that sent it
 * Return: a number for the port, since a guest chooses MACs as it likes; for the
 *	station if there is no port
 */
static inline u64 eipoib_source(u32 port, u64 mac)
{
	return port ? BIT_ULL(63) | port : mac;
}

void eipoib_share_init(struct eipoib_share *share, u32 all, u32 most);
bool eipoib_share_take(struct eipoib_share *share, u64 source);

/* What is left of that for all; after eipoib_share_take() and whatever is free. */
static inline bool eipoib_share_all(struct eipoib_share *share)
{
	return __ratelimit(&share->all);
}

/* Both, where nothing is to be looked at in between; locked likewise. */
static inline bool eipoib_share_use(struct eipoib_share *share, u64 source)
{
	return eipoib_share_take(share, source) && eipoib_share_all(share);
}

#endif
