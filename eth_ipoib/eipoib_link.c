// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtnetlink: links of the kind "eipoib"
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <net/rtnetlink.h>
#include <linux/eth_ipoib.h>

#include "eipoib_link.h"
#include "eipoib_lower.h"
#include "eipoib_netdev.h"

static const struct nla_policy eipoib_policy[IFLA_EIPOIB_MAX + 1] = {
	[IFLA_EIPOIB_GUARD]	 = NLA_POLICY_MAX(NLA_U8, 1),
	[IFLA_EIPOIB_MAX_GUESTS] = NLA_POLICY_RANGE(NLA_U32, 1,
						    EIPOIB_GUESTS_MAX),
};

static int eipoib_validate(struct nlattr *tb[], struct nlattr *data[],
			   struct netlink_ext_ack *extack)
{
	struct nlattr *addr = tb[IFLA_ADDRESS];

	if (!addr)
		return 0;
	if (nla_len(addr) != ETH_ALEN) {
		NL_SET_ERR_MSG_ATTR(extack, addr,
				    "An address must have 6 bytes");
		return -EINVAL;
	}
	if (!is_valid_ether_addr(nla_data(addr)) ||
	    eipoib_mac_kind(nla_data(addr)) != EIPOIB_MAC_OTHER) {
		NL_SET_ERR_MSG_ATTR(extack, addr,
				    "The address is not one of a station");
		return -EADDRNOTAVAIL;
	}
	return 0;
}

/* Not one that stands for a peer, which is one of 4096. */
static void eipoib_random_mac(struct net_device *ndev)
{
	do {
		eth_hw_addr_random(ndev);
	} while (eipoib_mac_kind(ndev->dev_addr) != EIPOIB_MAC_OTHER);
}

static void eipoib_set(struct eipoib_dev *dev, struct nlattr *data[])
{
	if (data && data[IFLA_EIPOIB_GUARD])
		WRITE_ONCE(dev->guard, nla_get_u8(data[IFLA_EIPOIB_GUARD]));
	if (data && data[IFLA_EIPOIB_MAX_GUESTS])
		WRITE_ONCE(dev->max_guests,
			   nla_get_u32(data[IFLA_EIPOIB_MAX_GUESTS]));
}

static int eipoib_changelink(struct net_device *ndev, struct nlattr *tb[],
			     struct nlattr *data[],
			     struct netlink_ext_ack *extack)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	if (data && !eipoib_lower_may(dev)) {
		NL_SET_ERR_MSG(extack,
			       "That needs CAP_NET_ADMIN where the lower interface is");
		return -EPERM;
	}
	eipoib_set(dev, data);
	return 0;
}

/* An MTU that was asked for, else the lower interface's */
static int eipoib_set_mtu(struct net_device *ndev, struct nlattr *mtu,
			  struct netlink_ext_ack *extack)
{
	if (!mtu) {
		ndev->mtu = ndev->max_mtu;
		return 0;
	}
	if (nla_get_u32(mtu) > ndev->max_mtu) {
		NL_SET_ERR_MSG_ATTR(extack, mtu,
				    "The lower interface's MTU is smaller");
		return -EINVAL;
	}
	return 0;
}

static struct net_device *eipoib_find_lower(struct net *net,
					    struct nlattr *link,
					    struct netlink_ext_ack *extack)
{
	struct net_device *lower;
	int ret;

	if (!link) {
		NL_SET_ERR_MSG(extack,
			       "An IPoIB interface is needed: link IFNAME");
		return ERR_PTR(-EINVAL);
	}
	lower = __dev_get_by_index(net, nla_get_u32(link));
	if (!lower) {
		NL_SET_ERR_MSG_ATTR(extack, link, "There is no such interface");
		return ERR_PTR(-ENODEV);
	}
	ret = eipoib_lower_check(lower, extack);
	return ret ? ERR_PTR(ret) : lower;
}

/* Stack a registered interface on its lower one. */
static int eipoib_stack(struct net_device *ndev, struct netlink_ext_ack *extack)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);
	int ret;

	ret = netdev_upper_dev_link(dev->lower, ndev, extack);
	if (ret)
		return ret;
	ret = eipoib_lower_attach(dev, extack);
	if (ret)
		netdev_upper_dev_unlink(dev->lower, ndev);
	else
		netif_stacked_transfer_operstate(dev->lower, ndev);
	return ret;
}

static int eipoib_newlink(struct net_device *ndev,
			  struct rtnl_newlink_params *params,
			  struct netlink_ext_ack *extack)
{
	struct nlattr **tb = params->tb;
	struct eipoib_dev *dev = eipoib_priv(ndev);
	struct net_device *lower;
	int ret;

	lower = eipoib_find_lower(rtnl_newlink_link_net(params), tb[IFLA_LINK],
				  extack);
	if (IS_ERR(lower))
		return PTR_ERR(lower);
	dev->guard = true;
	dev->max_guests = EIPOIB_GUESTS;
	eipoib_set(dev, params->data);
	if (!tb[IFLA_ADDRESS])
		eipoib_random_mac(ndev);
	eipoib_adopt(ndev, lower);
	ret = eipoib_set_mtu(ndev, tb[IFLA_MTU], extack) ?:
	      register_netdevice(ndev);
	if (ret)
		return ret;
	ret = eipoib_stack(ndev, extack);
	if (ret)
		unregister_netdevice(ndev);
	return ret;
}

/* The interface is to be removed: part from the lower one now. */
void eipoib_dellink(struct net_device *ndev, struct list_head *head)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	eipoib_lower_detach(dev);
	netdev_upper_dev_unlink(dev->lower, ndev);
	unregister_netdevice_queue(ndev, head);
}

static size_t eipoib_get_size(const struct net_device *ndev)
{
	return nla_total_size(sizeof(u8)) +	/* IFLA_EIPOIB_GUARD */
	       nla_total_size(sizeof(u32));	/* IFLA_EIPOIB_MAX_GUESTS */
}

static int eipoib_fill_info(struct sk_buff *skb, const struct net_device *ndev)
{
	const struct eipoib_dev *dev = eipoib_priv(ndev);

	if (nla_put_u8(skb, IFLA_EIPOIB_GUARD, READ_ONCE(dev->guard)) ||
	    nla_put_u32(skb, IFLA_EIPOIB_MAX_GUESTS,
			READ_ONCE(dev->max_guests)))
		return -EMSGSIZE;
	return 0;
}

/* The lower interface may be in another namespace. */
static struct net *eipoib_get_link_net(const struct net_device *ndev)
{
	return dev_net(eipoib_priv(ndev)->lower);
}

struct rtnl_link_ops eipoib_link_ops __read_mostly = {
	.kind		= EIPOIB_KIND,
	.priv_size	= sizeof(struct eipoib_dev),
	.maxtype	= IFLA_EIPOIB_MAX,
	.policy		= eipoib_policy,
	.setup		= eipoib_setup,
	.validate	= eipoib_validate,
	.newlink	= eipoib_newlink,
	.changelink	= eipoib_changelink,
	.dellink	= eipoib_dellink,
	.get_size	= eipoib_get_size,
	.fill_info	= eipoib_fill_info,
	.get_link_net	= eipoib_get_link_net,
};

MODULE_ALIAS_RTNL_LINK(EIPOIB_KIND);
