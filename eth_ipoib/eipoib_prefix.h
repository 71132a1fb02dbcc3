/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prefixes that are reached by way of a guest
 */
#ifndef EIPOIB_PREFIX_H
#define EIPOIB_PREFIX_H

#include "eipoib.h"
#include "eipoib_msg.h"

void eipoib_prefixes_init(struct eipoib_dev *dev);
void eipoib_prefixes_exit(struct eipoib_dev *dev);
bool eipoib_prefix_mac(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u8 *mac);
bool eipoib_prefix_is_of(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac);
bool eipoib_prefix_allows(struct eipoib_dev *dev, const struct in6_addr *ip,
			  const u8 *mac);
int eipoib_prefix_give(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u32 len, const u8 *mac, struct netlink_ext_ack *extack);
int eipoib_prefix_take(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u32 len);
int eipoib_prefixes_dump(struct eipoib_dev *dev, struct eipoib_dump *dump);

#endif
