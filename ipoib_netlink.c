// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtnetlink: what "ip -d link" shows of an interface and may change
 */
#include <net/rtnetlink.h>

#include "ipoib.h"

#define IPOIB_MODE_DATAGRAM	0	/* values of IFLA_IPOIB_MODE */

static const struct nla_policy ipoib_nl_policy[IFLA_IPOIB_MAX + 1] = {
	[IFLA_IPOIB_PKEY]	= { .type = NLA_U16 },
	[IFLA_IPOIB_MODE]	= NLA_POLICY_MAX(NLA_U16, 1),
	[IFLA_IPOIB_UMCAST]	= NLA_POLICY_MAX(NLA_U16, 1),
};

static int ipoib_nl_changelink(struct net_device *ndev, struct nlattr *tb[],
			       struct nlattr *data[],
			       struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (!data)
		return 0;
	if (data[IFLA_IPOIB_PKEY] &&
	    ipoib_pkey_full(nla_get_u16(data[IFLA_IPOIB_PKEY])) !=
	    dev->pkey) {
		NL_SET_ERR_MSG_ATTR(extack, data[IFLA_IPOIB_PKEY],
				    "The P_Key of an interface can't be changed");
		return -EINVAL;
	}
	if (data[IFLA_IPOIB_MODE] &&
	    nla_get_u16(data[IFLA_IPOIB_MODE]) != IPOIB_MODE_DATAGRAM) {
		NL_SET_ERR_MSG_ATTR(extack, data[IFLA_IPOIB_MODE],
				    "Only datagram mode is supported");
		return -EOPNOTSUPP;
	}
	if (data[IFLA_IPOIB_UMCAST])
		return ipoib_dev_set_umcast(dev,
				nla_get_u16(data[IFLA_IPOIB_UMCAST]));
	return 0;
}

static size_t ipoib_nl_get_size(const struct net_device *ndev)
{
	return nla_total_size(sizeof(u16)) +	/* IFLA_IPOIB_PKEY */
	       nla_total_size(sizeof(u16)) +	/* IFLA_IPOIB_MODE */
	       nla_total_size(sizeof(u16));	/* IFLA_IPOIB_UMCAST */
}

static int ipoib_nl_fill_info(struct sk_buff *skb,
			      const struct net_device *ndev)
{
	const struct ipoib_dev *dev = ipoib_priv(ndev);

	if (nla_put_u16(skb, IFLA_IPOIB_PKEY, dev->pkey) ||
	    nla_put_u16(skb, IFLA_IPOIB_MODE, IPOIB_MODE_DATAGRAM) ||
	    nla_put_u16(skb, IFLA_IPOIB_UMCAST, READ_ONCE(dev->umcast)))
		return -EMSGSIZE;
	return 0;
}

struct rtnl_link_ops ipoib_link_ops __read_mostly = {
	.kind		= IPOIB_KIND,
	.netns_refund	= true,
	.maxtype	= IFLA_IPOIB_MAX,
	.policy		= ipoib_nl_policy,
	.priv_size	= sizeof(struct ipoib_dev),
	.changelink	= ipoib_nl_changelink,
	.get_size	= ipoib_nl_get_size,
	.fill_info	= ipoib_nl_fill_info,
};

MODULE_ALIAS_RTNL_LINK(IPOIB_KIND);
