/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Why an interface has no carrier
 */
#ifndef IPOIB_WHY_H
#define IPOIB_WHY_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct ipoib_dev;
struct sk_buff;

int ipoib_why_init(struct ipoib_dev *dev);
void ipoib_why_stop(struct ipoib_dev *dev);
void ipoib_why_exit(struct ipoib_dev *dev);
void ipoib_why_port(struct ipoib_dev *dev, int error,
		    const struct ib_port_attr *attr);
void ipoib_why_failed(struct ipoib_dev *dev, int error);
void ipoib_why_update(struct ipoib_dev *dev);
u8 ipoib_why_no_link(const struct ipoib_dev *dev);
int ipoib_why_fill(struct sk_buff *skb, const void *object);

#endif /* IPOIB_WHY_H */
