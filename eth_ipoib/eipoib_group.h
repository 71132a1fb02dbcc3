/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Multicast groups that guests are members of
 */
#ifndef EIPOIB_GROUP_H
#define EIPOIB_GROUP_H

#include "eipoib.h"
#include "eipoib_msg.h"
#include "eipoib_send.h"

int eipoib_groups_open(struct eipoib_dev *dev);
void eipoib_groups_close(struct eipoib_dev *dev);
void eipoib_groups_away(struct eipoib_dev *dev, bool away);
bool eipoib_group_get(struct eipoib_dev *dev, const struct in6_addr *ip);
void eipoib_group_put(struct eipoib_dev *dev, const struct in6_addr *ip);
void eipoib_group_dest(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u64 source, u8 *lladdr);
bool eipoib_group_snoop4(struct eipoib_dev *dev, struct sk_buff *skb,
			 const u8 *mac);
bool eipoib_group_snoop6(struct eipoib_dev *dev, struct sk_buff *skb,
			 const u8 *mac);
void eipoib_groups_heard(struct eipoib_dev *dev);
void eipoib_groups_tick(struct eipoib_dev *dev);
bool eipoib_groups_sync(struct eipoib_dev *dev);
int eipoib_groups_dump(struct eipoib_dev *dev, struct eipoib_dump *dump);

#endif
