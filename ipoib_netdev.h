/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * net_device of an interface
 */
#ifndef IPOIB_NETDEV_H
#define IPOIB_NETDEV_H

#include <linux/types.h>

#define IPOIB_MTU_MIN		(ETH_MIN_MTU + IPOIB_ENCAP_LEN)

struct ipoib_dev;
struct ipoib_port;
struct net_device;

struct net_device *ipoib_netdev_alloc(struct ipoib_port *port, const char *name,
				      u8 assign, u32 txqs, u32 rxqs,
				      void (*setup)(struct net_device *ndev));
int ipoib_netdev_prepare(struct net_device *ndev, struct ipoib_port *port,
			 u16 pkey);
void ipoib_netdev_release(struct net_device *ndev);
void ipoib_netdev_setup(struct net_device *ndev);
bool ipoib_netdev_is_ours(const struct net_device *ndev);

#endif /* IPOIB_NETDEV_H */
