/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters with one writer at a time, and time stamps of last use
 */
#ifndef IPOIB_COUNT_H
#define IPOIB_COUNT_H

#include <linux/jiffies.h>
#include <linux/u64_stats_sync.h>

/**
 * struct ipoib_count - packets and their bytes, with one writer at a time
 * @packets: packets
 * @bytes: their bytes
 * @sync: keeps readers on 32-bit machines from torn values
 */
struct ipoib_count {
	u64_stats_t packets;
	u64_stats_t bytes;
	struct u64_stats_sync sync;
};

static inline void ipoib_count_add(struct ipoib_count *count, u64 packets,
				   u64 bytes)
{
	u64_stats_update_begin(&count->sync);
	u64_stats_add(&count->packets, packets);
	u64_stats_add(&count->bytes, bytes);
	u64_stats_update_end(&count->sync);
}

static inline void ipoib_count_get(const struct ipoib_count *count,
				   u64 *packets, u64 *bytes)
{
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&count->sync);
		*packets = u64_stats_read(&count->packets);
		*bytes = u64_stats_read(&count->bytes);
	} while (u64_stats_fetch_retry(&count->sync, start));
}

/* Note that something was used; the cache line is written once a tick. */
static inline void ipoib_stamp(unsigned long *stamp)
{
	unsigned long now = jiffies;

	if (READ_ONCE(*stamp) ^ now)
		WRITE_ONCE(*stamp, now);
}

#endif /* IPOIB_COUNT_H */
