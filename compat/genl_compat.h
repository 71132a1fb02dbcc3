/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generic netlink of the newest kernel for older ones; see ipoib_compat.h
 */
#ifndef GENL_COMPAT_H
#define GENL_COMPAT_H

#include <linux/version.h>

/*
 * 6.6: a namespace finds its devices in an xarray by their index.  Before, that
 * takes a walk of all for each, so only the module's own kind is found: there may
 * be thousands of others, made by whoever has a namespace.  Whoever includes this
 * defines ipoib_compat_dumped().
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
#include <linux/if_arp.h>
#include <linux/netdevice.h>
#include <net/rtnetlink.h>

static inline struct net_device *ipoib_netdev_from(struct net *net,
						   unsigned long ifindex)
{
	struct net_device *ndev, *found = NULL;

	for_each_netdev(net, ndev)
		if (ipoib_compat_dumped(ndev) &&
		    ndev->ifindex >= ifindex &&
		    (!found || ndev->ifindex < found->ifindex))
			found = ndev;
	return found;
}

#define for_each_netdev_dump(net, ndev, index)				      \
	for (; ((ndev) = ipoib_netdev_from(net, index)) &&		      \
	       ((index) = (ndev)->ifindex); (index)++)
#endif

/* 6.6: what a generic netlink dump was asked for */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
#include <net/genetlink.h>

#define genl_info_dump(cb)	genl_dumpit_info(cb)
#endif

/* 6.7: attributes of 4 or 8 bytes, as the value needs */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#include <net/netlink.h>

static inline int nla_put_uint(struct sk_buff *skb, int type, u64 value)
{
	u64 tmp64 = value;
	u32 tmp32 = value;

	if (tmp64 == tmp32)
		return nla_put_u32(skb, type, tmp32);
	return nla_put(skb, type, sizeof(u64), &tmp64);
}
#endif

#endif
