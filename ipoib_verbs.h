/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * QPs of the driver's own
 */
#ifndef IPOIB_VERBS_H
#define IPOIB_VERBS_H

#include <linux/types.h>

struct ipoib_dev;
struct net_device_ops;

extern const struct net_device_ops ipoib_verbs_below;

void ipoib_verbs_limit_segs(struct ipoib_dev *dev, bool connected);

#endif /* IPOIB_VERBS_H */
