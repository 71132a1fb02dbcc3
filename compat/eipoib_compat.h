/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces of the newest kernel that older ones lack, for eth_ipoib; see
 * ipoib_compat.h
 */
#ifndef EIPOIB_COMPAT_H
#define EIPOIB_COMPAT_H

#include <linux/compiler.h>
#include <linux/netdevice.h>
#include <linux/version.h>

#include "newlink_compat.h"

/* Whose kind a dump of generic netlink finds */
#define ipoib_compat_dumped(ndev)					      \
	((ndev)->rtnl_link_ops &&					      \
	 !strcmp((ndev)->rtnl_link_ops->kind, "eipoib"))
#include "genl_compat.h"

#ifdef IPOIB_COMPAT_NEWLINK
#define eipoib_newlink(ndev, params, extack)				      \
	IPOIB_NEWLINK(eipoib_newlink, __eipoib_newlink, ndev, params, extack)
#endif

/* 6.12: that an interface needs no lock to send is a field, not a feature. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <linux/etherdevice.h>

static inline void eipoib_ether_setup(struct net_device *ndev)
{
	ether_setup(ndev);
	ndev->features |= NETIF_F_LLTX;
}

#define ether_setup	eipoib_ether_setup
#define lltx		needs_free_netdev
#endif

#endif
