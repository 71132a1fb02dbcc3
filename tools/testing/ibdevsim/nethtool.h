/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_NETHTOOL_H
#define IBDEVSIM_NETHTOOL_H

struct net_device;

void ibds_nethtool_set(struct net_device *netdev, bool main);

#endif /* IBDEVSIM_NETHTOOL_H */
