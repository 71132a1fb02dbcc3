/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Multicast groups of an interface
 */
#ifndef IPOIB_MULTICAST_H
#define IPOIB_MULTICAST_H

#include <linux/types.h>

struct ipoib_dest;
struct ipoib_dev;
struct ipoib_dump;
struct ipoib_facts;
struct seq_file;
struct sk_buff;

/**
 * struct ipoib_mcast_stats - counters of an interface's groups
 * @joins: joins sent to the SA that are over, answered or not
 * @join_failures: joins refused, not answered or not possible
 * @dropped: packets dropped because their group was not joined
 * @limited: packets sent to the broadcast group, because there were too many
 *	send-only groups
 */
struct ipoib_mcast_stats {
	u64 joins;
	u64 join_failures;
	u64 dropped;
	u64 limited;
};

int ipoib_mcast_init(struct ipoib_dev *dev);
void ipoib_mcast_exit(struct ipoib_dev *dev);
int ipoib_mcast_start(struct ipoib_dev *dev);
void ipoib_mcast_stop(struct ipoib_dev *dev);
void ipoib_mcast_resync(struct ipoib_dev *dev);
void ipoib_mcast_rejoin(struct ipoib_dev *dev, bool leave);
bool ipoib_mcast_is_up(struct ipoib_dev *dev);
bool ipoib_mcast_get_facts(const struct ipoib_dev *dev,
			   struct ipoib_facts *facts);
bool ipoib_mcast_lookup(struct ipoib_dev *dev, struct sk_buff *skb,
			const u8 *addr, struct ipoib_dest *dest);
void ipoib_mcast_get_stats(const struct ipoib_dev *dev,
			   struct ipoib_mcast_stats *stats);
int ipoib_mcast_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump);
void ipoib_mcast_show(struct seq_file *file, const struct ipoib_dev *dev);

#endif /* IPOIB_MULTICAST_H */
