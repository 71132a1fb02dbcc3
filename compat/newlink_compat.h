/* SPDX-License-Identifier: GPL-2.0-only */
/* 6.15: a new link's parameters in a structure, see Makefile.compat */
#ifndef NEWLINK_COMPAT_H
#define NEWLINK_COMPAT_H

#ifdef IPOIB_COMPAT_NEWLINK
#include <net/rtnetlink.h>

struct rtnl_newlink_params {
	struct net *link_net;
	struct nlattr **tb;
	struct nlattr **data;
};

#define rtnl_newlink_link_net(params)	((params)->link_net)

/* The definition of a driver's @name, which calls what is defined as @inner. */
#define IPOIB_NEWLINK(name, inner, ndev, params, extack)		      \
	inner(struct net_device *, struct rtnl_newlink_params *,	      \
	      struct netlink_ext_ack *);				      \
	static int name(struct net *_net, struct net_device *_dev,	      \
			struct nlattr *_tb[], struct nlattr *_data[],	      \
			struct netlink_ext_ack *_ack)			      \
	{								      \
		struct rtnl_newlink_params _params = { _net, _tb, _data };    \
									      \
		return inner(_dev, &_params, _ack);			      \
	}								      \
	static int inner(ndev, params, extack)
#endif

#endif
