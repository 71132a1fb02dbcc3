/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ethtool
 */
#ifndef IPOIB_ETHTOOL_H
#define IPOIB_ETHTOOL_H

struct ethtool_ops;
struct netdev_stat_ops;

extern const struct ethtool_ops ipoib_ethtool_ops;
extern const struct ethtool_ops ipoib_enhanced_ethtool_ops;
extern const struct netdev_stat_ops ipoib_stat_ops;

#endif /* IPOIB_ETHTOOL_H */
