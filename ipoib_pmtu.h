/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that are too long for their destination
 */
#ifndef IPOIB_PMTU_H
#define IPOIB_PMTU_H

#include <linux/types.h>

struct ipoib_dev;
struct sk_buff;

int ipoib_pmtu_init(struct ipoib_dev *dev);
void ipoib_pmtu_exit(struct ipoib_dev *dev);
void ipoib_pmtu_too_long(struct ipoib_dev *dev, struct sk_buff *skb,
			 u32 max_len);
u64 ipoib_pmtu_signalled(const struct ipoib_dev *dev);

#endif /* IPOIB_PMTU_H */
