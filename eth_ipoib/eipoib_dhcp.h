/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DHCP of guests, as it is on InfiniBand
 */
#ifndef EIPOIB_DHCP_H
#define EIPOIB_DHCP_H

#include "eipoib.h"

void eipoib_dhcp_flush(struct eipoib_dev *dev);
struct sk_buff *eipoib_dhcp_request(struct eipoib_dev *dev, struct sk_buff *skb,
				    const u8 *mac);
bool eipoib_dhcp_is_to_client(struct sk_buff *skb);
struct sk_buff *eipoib_dhcp_answer(struct eipoib_dev *dev, struct sk_buff *skb);

#endif
