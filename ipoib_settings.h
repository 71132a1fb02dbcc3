/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings of the administrator
 */
#ifndef IPOIB_SETTINGS_H
#define IPOIB_SETTINGS_H

#include <linux/netdev_features.h>
#include <linux/types.h>

struct ib_device;
struct ipoib_dev;
struct netlink_ext_ack;

netdev_features_t ipoib_datagram_offloads(const struct ib_device *ca);
void ipoib_dev_set_offload(struct ipoib_dev *dev, bool on);
void ipoib_dev_set_umcast(struct ipoib_dev *dev, bool on);
int ipoib_dev_may_connect(const struct ipoib_dev *dev,
			  struct netlink_ext_ack *extack);
int ipoib_dev_set_mode(struct ipoib_dev *dev, bool connected,
		       struct netlink_ext_ack *extack);
void ipoib_dev_set_channels(struct ipoib_dev *dev, u32 num);
void ipoib_dev_spread(struct ipoib_dev *dev);
int ipoib_dev_set_txqs(struct ipoib_dev *dev, u32 num);
int ipoib_dev_set_sendq(struct ipoib_dev *dev, u32 size);
void ipoib_dev_choose_guid(struct ipoib_dev *dev, __be64 guid);

#endif /* IPOIB_SETTINGS_H */
