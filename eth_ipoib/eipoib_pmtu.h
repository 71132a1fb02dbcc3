/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets that are too long for where they are to go
 */
#ifndef EIPOIB_PMTU_H
#define EIPOIB_PMTU_H

#include "eipoib.h"

unsigned int eipoib_pmtu(const struct eipoib_dev *dev, const u8 *lladdr);
bool eipoib_pmtu_fits(const struct sk_buff *skb, unsigned int mtu);
struct sk_buff *eipoib_pmtu_error(struct eipoib_dev *dev, struct sk_buff *skb,
				  u64 source, unsigned int mtu);

#endif
