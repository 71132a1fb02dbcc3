/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames of guests
 */
#ifndef EIPOIB_TX_H
#define EIPOIB_TX_H

#include "eipoib.h"

void eipoib_tx(struct eipoib_dev *dev, struct sk_buff *skb);

#endif
