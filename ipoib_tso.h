/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cutting TCP packets into datagrams
 */
#ifndef IPOIB_TSO_H
#define IPOIB_TSO_H

#include <linux/types.h>

struct ipoib_ah;
struct ipoib_txq;
struct sk_buff;

bool ipoib_tso_send(struct ipoib_txq *txq, struct sk_buff *skb,
		    struct ipoib_ah *ah, u32 qpn, bool csum);

#endif /* IPOIB_TSO_H */
