/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The IPoIB interface below: its packets, and how it is followed
 */
#ifndef EIPOIB_LOWER_H
#define EIPOIB_LOWER_H

#include "eipoib.h"

int eipoib_lower_check(const struct net_device *lower,
		       struct netlink_ext_ack *extack);
bool eipoib_lower_may(const struct eipoib_dev *dev);
int eipoib_lower_attach(struct eipoib_dev *dev, struct netlink_ext_ack *extack);
void eipoib_lower_detach(struct eipoib_dev *dev);
struct eipoib_dev *eipoib_on_lower(const struct net_device *lower);
int eipoib_lower_hook(struct eipoib_dev *dev);
void eipoib_lower_unhook(struct eipoib_dev *dev);

#endif
