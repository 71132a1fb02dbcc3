/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Child interfaces
 */
#ifndef IPOIB_VLAN_H
#define IPOIB_VLAN_H

#include <linux/types.h>

struct ipoib_dev;
struct ipoib_port;
struct net_device;
struct netlink_ext_ack;

int ipoib_child_prepare(struct ipoib_dev *parent, struct net_device *ndev,
			u16 pkey, __be64 guid, struct netlink_ext_ack *extack);
void ipoib_child_trim_txqs(const struct ipoib_dev *parent,
			   struct net_device *ndev, u32 want);
int ipoib_child_register(struct ipoib_dev *dev, struct netlink_ext_ack *extack);
int ipoib_child_create(struct ipoib_dev *parent, u16 number);
int ipoib_child_delete(struct ipoib_dev *parent, u16 number);
void ipoib_port_unregister(struct ipoib_port *port);

#endif /* IPOIB_VLAN_H */
