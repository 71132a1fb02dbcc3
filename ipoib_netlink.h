/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rtnetlink
 */
#ifndef IPOIB_NETLINK_H
#define IPOIB_NETLINK_H

struct rtnl_link_ops;

extern struct rtnl_link_ops ipoib_link_ops;

#endif /* IPOIB_NETLINK_H */
