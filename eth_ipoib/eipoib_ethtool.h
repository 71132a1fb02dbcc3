/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ethtool: counters, and what is known of the lower interface
 */
#ifndef EIPOIB_ETHTOOL_H
#define EIPOIB_ETHTOOL_H

#include <linux/ethtool.h>

extern const struct ethtool_ops eipoib_ethtool_ops;

#endif
