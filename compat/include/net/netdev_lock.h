/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 6.15 rtnl was the only lock of a net_device's operations. */
#ifndef IPOIB_COMPAT_NETDEV_LOCK_H
#define IPOIB_COMPAT_NETDEV_LOCK_H

#include <linux/netdevice.h>

static inline bool netdev_need_ops_lock(const struct net_device *dev)
{
	return false;
}

static inline void netdev_lock_ops(struct net_device *dev)
{
}

static inline void netdev_unlock_ops(struct net_device *dev)
{
}

static inline void netdev_lock_ops_to_full(struct net_device *dev)
{
}

static inline void netdev_unlock_full_to_ops(struct net_device *dev)
{
}

#endif /* IPOIB_COMPAT_NETDEV_LOCK_H */
