// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits: how often per second, for all and for one guest
 *
 * What guests make this host do is limited.  A guest that uses up the limit must
 * not take it from others, so a part is all that one has, and what it tries
 * beyond that does not count for all.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/random.h>

#include "eipoib_limit.h"

/**
 * eipoib_share_init - set a limit
 * @share: limit
 * @all: per second, all guests together
 * @most: one guest
 */
void eipoib_share_init(struct eipoib_share *share, u32 all, u32 most)
{
	eipoib_limit(&share->all, all);
	share->most = most;
	share->secret = get_random_u64();
	share->until = jiffies;
}

/**
 * eipoib_share_take - use one guest's part of a limit
 * @share: limit
 * @source: guest, see eipoib_source()
 *
 * Context: eipoib_dev.lock held.
 * Return: false if nothing of it is left in this second
 */
bool eipoib_share_take(struct eipoib_share *share, u64 source)
{
	u32 *used = &share->used[hash_64(source ^ share->secret,
					 EIPOIB_SHARE_BITS)];

	if (!time_in_range(jiffies, share->until - HZ, share->until - 1)) {
		memset(share->used, 0, sizeof(share->used));
		share->until = jiffies + HZ;
	}
	if (*used >= share->most)
		return false;
	(*used)++;
	return true;
}
