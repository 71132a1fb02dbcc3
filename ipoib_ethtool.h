/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ethtool
 */
#ifndef IPOIB_ETHTOOL_H
#define IPOIB_ETHTOOL_H

struct ethtool_ops;
struct ipoib_dev;
struct netdev_stat_ops;
struct seq_file;

extern const struct ethtool_ops ipoib_ethtool_ops;
extern const struct ethtool_ops ipoib_enhanced_ethtool_ops;
extern const struct netdev_stat_ops ipoib_stat_ops;

void ipoib_stats_show(struct seq_file *m, struct ipoib_dev *dev);

#endif /* IPOIB_ETHTOOL_H */
