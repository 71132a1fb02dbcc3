/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rtnetlink: links of the kind "eipoib"
 */
#ifndef EIPOIB_LINK_H
#define EIPOIB_LINK_H

#include "eipoib.h"

extern struct rtnl_link_ops eipoib_link_ops;

void eipoib_dellink(struct net_device *ndev, struct list_head *head);

#endif
