// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtnetlink: create and delete children, show and change the settings listed by
 * "ip -d link"
 */
#include <net/rtnetlink.h>

#include "ipoib.h"
#include "ipoib_dev.h"
#include "ipoib_enhanced.h"
#include "ipoib_ethtool.h"
#include "ipoib_netdev.h"
#include "ipoib_netlink.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_settings.h"
#include "ipoib_sysfs.h"
#include "ipoib_vlan.h"

/* values of IFLA_IPOIB_MODE */
#define IPOIB_MODE_DATAGRAM	0
#define IPOIB_MODE_CONNECTED	1

static const struct nla_policy ipoib_nl_policy[IFLA_IPOIB_MAX + 1] = {
	[IFLA_IPOIB_PKEY]	= { .type = NLA_U16 },
	[IFLA_IPOIB_MODE]	= NLA_POLICY_MAX(NLA_U16, 1),
	[IFLA_IPOIB_UMCAST]	= NLA_POLICY_MAX(NLA_U16, 1),
};

static int ipoib_nl_validate(struct nlattr *tb[], struct nlattr *data[],
			     struct netlink_ext_ack *extack)
{
	struct nlattr *attr = data ? data[IFLA_IPOIB_PKEY] : NULL;

	if (!attr)
		return 0;
	if (nla_len(attr) != sizeof(u16)) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "A P_Key has 16 bits");
		return -EINVAL;
	}
	if (!ipoib_pkey_valid(nla_get_u16(attr))) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "P_Key 0x0000 and 0x8000 are invalid");
		return -EINVAL;
	}
	return 0;
}

static int ipoib_nl_changelink(struct net_device *ndev, struct nlattr *tb[],
			       struct nlattr *data[],
			       struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	int ret = 0;

	if (!data)
		return 0;
	if (data[IFLA_IPOIB_PKEY] &&
	    ipoib_pkey_full(nla_get_u16(data[IFLA_IPOIB_PKEY])) !=
	    dev->pkey) {
		NL_SET_ERR_MSG_ATTR(extack, data[IFLA_IPOIB_PKEY],
				    "The P_Key of an interface can't be changed");
		return -EINVAL;
	}
	if (data[IFLA_IPOIB_MODE])
		ret = ipoib_dev_set_mode(dev,
					 nla_get_u16(data[IFLA_IPOIB_MODE]) ==
					 IPOIB_MODE_CONNECTED, extack);
	if (ret)
		return ret;
	if (data[IFLA_IPOIB_UMCAST])
		ipoib_dev_set_umcast(dev, nla_get_u16(data[IFLA_IPOIB_UMCAST]));
	return 0;
}

/* The port's interface that a new link names as its parent. */
static struct ipoib_dev *ipoib_nl_parent(struct net *net, struct nlattr *link,
					 struct netlink_ext_ack *extack)
{
	struct net_device *ndev;
	struct ipoib_dev *dev;

	if (!link) {
		NL_SET_ERR_MSG(extack, "A parent is needed: link IFNAME");
		return ERR_PTR(-EINVAL);
	}
	ndev = __dev_get_by_index(net, nla_get_u32(link));
	if (!ndev) {
		NL_SET_ERR_MSG_ATTR(extack, link, "There is no such parent");
		return ERR_PTR(-ENODEV);
	}
	if (ndev->rtnl_link_ops != &ipoib_link_ops) {
		NL_SET_ERR_MSG_ATTR(extack, link,
				    "The parent is not an IPoIB interface");
		return ERR_PTR(-EINVAL);
	}
	dev = ipoib_priv(ndev);
	if (ipoib_is_child(dev)) {
		NL_SET_ERR_MSG_ATTR(extack, link,
				    "The parent is itself a child interface");
		return ERR_PTR(-EINVAL);
	}
	return dev;
}

/*
 * An address for a new link.  Its GUID is used if the port has it; QPN and
 * subnet prefix can't be chosen.  Programs such as systemd-networkd give every
 * new link a made-up address.  Such a link is not refused: it gets the port's
 * address, and the user a warning.
 */
static int ipoib_nl_guid(struct ipoib_dev *parent, struct net_device *ndev,
			 struct nlattr *address, __be64 *guid,
			 struct netlink_ext_ack *extack)
{
	*guid = 0;
	if (!address)
		return 0;
	if (nla_len(address) != INFINIBAND_ALEN) {
		NL_SET_ERR_MSG_ATTR(extack, address,
				    "An address must have 20 bytes");
		return -EINVAL;
	}
	*guid = ipoib_addr_guid(nla_data(address));
	if (ipoib_port_has_guid(parent->port, *guid))
		return 0;
	*guid = 0;
	ndev->addr_assign_type = NET_ADDR_PERM;
	NL_SET_ERR_MSG(extack,
		       "The port does not have that GUID: using the port's address");
	return 0;
}

/*
 * A link that is created in connected mode starts in datagram mode, whose MTU
 * has another limit: save the MTU that was asked for until the mode is set.
 */
static int ipoib_nl_take_connected(const struct ipoib_dev *parent,
				   struct net_device *ndev, u32 *mtu,
				   struct netlink_ext_ack *extack)
{
	int ret = ipoib_dev_may_connect(parent, extack);

	if (ret)
		return ret;
	*mtu = ndev->mtu;
	ndev->mtu = 0;
	if (*mtu && (*mtu < IPOIB_MTU_MIN || *mtu > IPOIB_CM_MTU)) {
		NL_SET_ERR_MSG(extack, "Connected mode does not allow that MTU");
		return -ERANGE;
	}
	return 0;
}

static int ipoib_nl_make_connected(struct ipoib_dev *dev, u32 mtu,
				   struct netlink_ext_ack *extack)
{
	int ret;

	ret = ipoib_dev_set_mode(dev, true, extack);
	return ret || !mtu ? ret : dev_set_mtu(dev->ndev, mtu);
}

static int ipoib_nl_register(struct ipoib_dev *dev, bool connected, u32 mtu,
			     struct netlink_ext_ack *extack)
{
	int ret;

	ret = ipoib_child_register(dev, extack);
	if (ret || !connected)
		return ret;
	ret = ipoib_nl_make_connected(dev, mtu, extack);
	if (ret)
		unregister_netdevice(dev->ndev);
	return ret;
}

static int ipoib_nl_newlink(struct net_device *ndev,
			    struct rtnl_newlink_params *params,
			    struct netlink_ext_ack *extack)
{
	struct nlattr **data = params->data, **tb = params->tb;
	struct ipoib_dev *dev, *parent;
	bool connected = false;
	u32 mtu = 0;
	__be64 guid;
	u16 pkey;
	int ret;

	parent = ipoib_nl_parent(rtnl_newlink_link_net(params), tb[IFLA_LINK],
				 extack);
	if (IS_ERR(parent))
		return PTR_ERR(parent);
	ret = ipoib_nl_guid(parent, ndev, tb[IFLA_ADDRESS], &guid, extack);
	if (ret)
		return ret;
	if (data && data[IFLA_IPOIB_MODE])
		connected = nla_get_u16(data[IFLA_IPOIB_MODE]) ==
			    IPOIB_MODE_CONNECTED;
	if (connected)
		ret = ipoib_nl_take_connected(parent, ndev, &mtu, extack);
	if (ret)
		return ret;

	pkey = data && data[IFLA_IPOIB_PKEY] ?
	       ipoib_pkey_full(nla_get_u16(data[IFLA_IPOIB_PKEY])) :
	       parent->pkey;
	ipoib_child_trim_txqs(parent, ndev, tb[IFLA_NUM_TX_QUEUES] ?
			      nla_get_u32(tb[IFLA_NUM_TX_QUEUES]) : 0);
	ret = ipoib_child_prepare(parent, ndev, pkey, guid, extack);
	if (ret)
		goto err_release;
	dev = ipoib_priv(ndev);
	dev->umcast = data && data[IFLA_IPOIB_UMCAST] ?
		      nla_get_u16(data[IFLA_IPOIB_UMCAST]) : parent->umcast;
	ret = ipoib_nl_register(dev, connected, mtu, extack);
	if (!ret)
		return 0;

err_release:
	ipoib_netdev_release(ndev);
	return ret;
}

static void ipoib_nl_dellink(struct net_device *ndev, struct list_head *head)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (!ipoib_is_child(dev)) {
		net_ratelimited_function(netdev_warn, ndev,
					 "not deleted: it is removed with its HCA\n");
		return;
	}
	ipoib_dev_stop_begin(dev);
	unregister_netdevice_queue(ndev, head);
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
	    nla_put_u16(skb, IFLA_IPOIB_MODE, dev->connected ?
			IPOIB_MODE_CONNECTED : IPOIB_MODE_DATAGRAM) ||
	    nla_put_u16(skb, IFLA_IPOIB_UMCAST, READ_ONCE(dev->umcast)))
		return -EMSGSIZE;
	return 0;
}

/* A child's parent may be in another namespace. */
static struct net *ipoib_nl_get_link_net(const struct net_device *ndev)
{
	return dev_net(ipoib_priv(ndev)->port->parent);
}

static struct net_device *ipoib_nl_alloc(struct nlattr *tb[],
					 const char *ifname,
					 unsigned char assign,
					 unsigned int txqs, unsigned int rxqs)
{
	struct net_device *ndev;

	ndev = alloc_netdev_mqs(ipoib_enhanced_most_priv(), ifname, assign,
				ipoib_link_ops.setup, txqs, rxqs);
	return ndev ?: ERR_PTR(-ENOMEM);
}

/* Set up any net_device that becomes an interface. */
static void ipoib_nl_setup(struct net_device *ndev)
{
	ipoib_netdev_setup(ndev);
	ndev->ethtool_ops = &ipoib_ethtool_ops;
	ndev->stat_ops = &ipoib_stat_ops;
	ndev->sysfs_groups[0] = &ipoib_sysfs_group;
}

struct rtnl_link_ops ipoib_link_ops __read_mostly = {
	.kind		= IPOIB_KIND,
	.netns_refund	= true,
	.maxtype	= IFLA_IPOIB_MAX,
	.policy		= ipoib_nl_policy,
	.alloc		= ipoib_nl_alloc,
	.get_num_tx_queues = ipoib_enhanced_most_txqs,
	.get_num_rx_queues = ipoib_enhanced_most_rxqs,
	.setup		= ipoib_nl_setup,
	.validate	= ipoib_nl_validate,
	.newlink	= ipoib_nl_newlink,
	.dellink	= ipoib_nl_dellink,
	.get_link_net	= ipoib_nl_get_link_net,
	.changelink	= ipoib_nl_changelink,
	.get_size	= ipoib_nl_get_size,
	.fill_info	= ipoib_nl_fill_info,
};

MODULE_ALIAS_RTNL_LINK(IPOIB_KIND);
