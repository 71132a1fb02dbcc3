/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The net_device: operations, setup
 */
#ifndef EIPOIB_NETDEV_H
#define EIPOIB_NETDEV_H

#include "eipoib.h"

void eipoib_setup(struct net_device *ndev);
void eipoib_adopt(struct net_device *ndev, struct net_device *lower);
void eipoib_follow_features(struct eipoib_dev *dev);
void eipoib_follow_mtu(struct net_device *ndev, unsigned int before);
void eipoib_note_carrier(struct eipoib_dev *dev);

#endif
