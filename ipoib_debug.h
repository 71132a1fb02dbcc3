/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Debug messages enabled by module parameters
 */
#ifndef IPOIB_DEBUG_H
#define IPOIB_DEBUG_H

#include <linux/netdevice.h>

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG)
extern int ipoib_debug_level;
extern int ipoib_mcast_debug_level;
#else
#define ipoib_debug_level 0
#define ipoib_mcast_debug_level 0
#endif

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG_DATA)
extern int ipoib_data_debug_level;
#else
#define ipoib_data_debug_level 0
#endif

/* Enabled by documented module parameters, not by dynamic debug. */
#define ipoib_dbg(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_debug_level > 0))				\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#define ipoib_dbg_mcast(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_mcast_debug_level > 0))			\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#define ipoib_dbg_data(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_data_debug_level > 0))			\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#endif /* IPOIB_DEBUG_H */
