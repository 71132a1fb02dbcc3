// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family: interfaces, neighbours, groups, connections
 *
 * Read only.  Its interface to programs is Documentation/netlink/specs/ipoib.yaml
 * and the header that is made from it, include/uapi/linux/ipoib.h.
 *
 * A dump holds rtnl while a buffer is filled, so that interfaces stay, and an
 * interface's lock while its objects are walked.  The walk begins at the first
 * object again for each buffer, which is why these dumps need CAP_NET_ADMIN; for
 * neighbours, whose lock is all of the port's, not only in a namespace.
 */
#include <linux/rtnetlink.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_genl.h"
#include "ipoib_msg.h"
#include "ipoib_multicast.h"
#include "ipoib_neigh.h"
#include "ipoib_netdev.h"
#include "ipoib_why.h"

static const struct nla_policy ipoib_genl_policy[IPOIB_A_DEV_IFINDEX + 1] = {
	[IPOIB_A_DEV_IFINDEX]	= NLA_POLICY_MIN(NLA_U32, 1),
};

/* ---- dumps -------------------------------------------------------------- */

/**
 * struct ipoib_genl_dump - where a dump is, struct netlink_callback.ctx
 * @ifindex: interface that the next buffer begins with
 * @only: the interface that was asked for, 0: all
 * @skip: objects of it that have been written
 * @changes: of its list, when it was last walked
 * @torn: a list has changed between two buffers
 */
struct ipoib_genl_dump {
	unsigned long ifindex;
	u32 only;
	u32 skip;
	u32 changes;
	bool torn;
};

/* Writes objects of one kind, those of an interface, to a dump. */
typedef int (*ipoib_genl_walk_t)(const struct ipoib_dev *dev,
				 struct ipoib_dump *dump);

/* The interface that a request names. */
static struct net_device *ipoib_genl_find(struct net *net, struct nlattr *attr,
					  struct netlink_ext_ack *extack)
{
	struct net_device *ndev;

	ASSERT_RTNL();
	ndev = __dev_get_by_index(net, nla_get_u32(attr));
	if (!ndev) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "There is no such interface");
		return ERR_PTR(-ENODEV);
	}
	if (!ipoib_netdev_is_ours(ndev)) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "That is not an IPoIB interface");
		return ERR_PTR(-EOPNOTSUPP);
	}
	return ndev;
}

static int ipoib_genl_dump_start(struct netlink_callback *cb)
{
	struct nlattr *attr = genl_info_dump(cb)->attrs[IPOIB_A_DEV_IFINDEX];
	struct ipoib_genl_dump *at = (void *)cb->ctx;
	struct net_device *ndev;

	BUILD_BUG_ON(sizeof(*at) > sizeof(cb->ctx));
	memset(at, 0, sizeof(*at));
	if (!attr)
		return 0;
	rtnl_lock();
	ndev = ipoib_genl_find(sock_net(cb->skb->sk), attr, cb->extack);
	rtnl_unlock();
	if (IS_ERR(ndev))
		return PTR_ERR(ndev);
	at->ifindex = nla_get_u32(attr);
	at->only = at->ifindex;
	return 0;
}

/* Those of one interface, as many as there is room for. */
static int ipoib_genl_dump_dev(struct ipoib_genl_dump *at,
			       struct ipoib_dump *dump, ipoib_genl_walk_t walk,
			       const struct ipoib_dev *dev)
{
	int ret;

	dump->skip = at->skip;
	dump->changes = at->changes;
	ret = walk(dev, dump);
	at->skip = ret ? dump->skip : 0;
	at->changes = dump->changes;
	at->torn |= dump->torn;
	return ret;
}

static int ipoib_genl_dump(struct sk_buff *skb, struct netlink_callback *cb,
			   u8 cmd, ipoib_genl_walk_t walk)
{
	struct ipoib_genl_dump *at = (void *)cb->ctx;
	struct ipoib_dump dump = { .skb = skb, .cb = cb, .cmd = cmd };
	struct net *net = sock_net(cb->skb->sk);
	unsigned long begin = at->ifindex;
	struct net_device *ndev;
	int ret = 0;

	rtnl_lock();
	for_each_netdev_dump(net, ndev, at->ifindex) {
		if (at->only && ndev->ifindex != at->only)
			break;
		/* The interface that the last buffer ended in is gone. */
		if (at->skip && ndev->ifindex != begin) {
			at->torn = true;
			at->skip = 0;
		}
		if (!ipoib_netdev_is_ours(ndev))
			continue;
		ret = ipoib_genl_dump_dev(at, &dump, walk, ipoib_priv(ndev));
		if (ret)
			break;
	}
	rtnl_unlock();
	/* The message that ends the dump will say so. */
	if (at->torn || (!ret && at->skip)) {
		cb->prev_seq = 1;
		cb->seq = 2;
	}
	/* A buffer without a message ends the dump. */
	return ret && skb->len ? skb->len : ret;
}

/* ---- interfaces --------------------------------------------------------- */

static int ipoib_genl_walk_dev(const struct ipoib_dev *dev,
			       struct ipoib_dump *dump)
{
	ipoib_dump_begin(dump, 0);
	return ipoib_dump_one(dump, dev, ipoib_why_fill, dev);
}

static int ipoib_genl_dump_devs(struct sk_buff *skb,
				struct netlink_callback *cb)
{
	return ipoib_genl_dump(skb, cb, IPOIB_CMD_DEV_GET, ipoib_genl_walk_dev);
}

static struct genl_family ipoib_genl_family;

static int ipoib_genl_reply(struct sk_buff *skb, struct genl_info *info,
			    const struct ipoib_dev *dev)
{
	void *hdr = genlmsg_put_reply(skb, info, &ipoib_genl_family, 0,
				      IPOIB_CMD_DEV_GET);

	if (!hdr || ipoib_msg_write(skb, dev, ipoib_why_fill, dev))
		return -EMSGSIZE;
	genlmsg_end(skb, hdr);
	return 0;
}

static int ipoib_genl_get_dev(struct sk_buff *request, struct genl_info *info)
{
	struct net_device *ndev;
	struct sk_buff *skb;
	int ret;

	if (GENL_REQ_ATTR_CHECK(info, IPOIB_A_DEV_IFINDEX)) {
		NL_SET_ERR_MSG(info->extack, "An interface's index is needed");
		return -EINVAL;
	}
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	rtnl_lock();
	ndev = ipoib_genl_find(genl_info_net(info),
			       info->attrs[IPOIB_A_DEV_IFINDEX], info->extack);
	ret = IS_ERR(ndev) ? PTR_ERR(ndev) :
			     ipoib_genl_reply(skb, info, ipoib_priv(ndev));
	rtnl_unlock();
	if (!ret)
		return genlmsg_reply(skb, info);
	nlmsg_free(skb);
	return ret;
}

/* ---- what they have ----------------------------------------------------- */

static int ipoib_genl_dump_neighs(struct sk_buff *skb,
				  struct netlink_callback *cb)
{
	return ipoib_genl_dump(skb, cb, IPOIB_CMD_NEIGH_GET, ipoib_neigh_dump);
}

static int ipoib_genl_dump_groups(struct sk_buff *skb,
				  struct netlink_callback *cb)
{
	return ipoib_genl_dump(skb, cb, IPOIB_CMD_GROUP_GET, ipoib_mcast_dump);
}

static int ipoib_genl_dump_conns(struct sk_buff *skb,
				 struct netlink_callback *cb)
{
	return ipoib_genl_dump(skb, cb, IPOIB_CMD_CONN_GET, ipoib_conn_dump);
}

/* ---- the family --------------------------------------------------------- */

static const struct genl_ops ipoib_genl_ops[] = {
	{
		.cmd	= IPOIB_CMD_DEV_GET,
		.doit	= ipoib_genl_get_dev,
		.start	= ipoib_genl_dump_start,
		.dumpit	= ipoib_genl_dump_devs,
	},
	{
		.cmd	= IPOIB_CMD_NEIGH_GET,
		.start	= ipoib_genl_dump_start,
		.dumpit	= ipoib_genl_dump_neighs,
		.flags	= GENL_ADMIN_PERM,
	},
	{
		.cmd	= IPOIB_CMD_GROUP_GET,
		.start	= ipoib_genl_dump_start,
		.dumpit	= ipoib_genl_dump_groups,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd	= IPOIB_CMD_CONN_GET,
		.start	= ipoib_genl_dump_start,
		.dumpit	= ipoib_genl_dump_conns,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
};

static const struct genl_multicast_group ipoib_genl_groups[] = {
	[IPOIB_MSG_EVENTS]	= { .name = IPOIB_MCGRP_EVENTS },
	/* As for the dumps of the same objects */
	[IPOIB_MSG_OBJECTS]	= { .name = IPOIB_MCGRP_OBJECTS,
				    .flags = GENL_MCAST_CAP_NET_ADMIN },
};

static struct genl_family ipoib_genl_family __ro_after_init = {
	.name		= IPOIB_KIND,
	.version	= IPOIB_FAMILY_VERSION,
	.maxattr	= IPOIB_A_DEV_IFINDEX,
	.policy		= ipoib_genl_policy,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= ipoib_genl_ops,
	.n_ops		= ARRAY_SIZE(ipoib_genl_ops),
	.mcgrps		= ipoib_genl_groups,
	.n_mcgrps	= ARRAY_SIZE(ipoib_genl_groups),
};

int __init ipoib_genl_init(void)
{
	ipoib_msg_init(&ipoib_genl_family);
	return genl_register_family(&ipoib_genl_family);
}

void ipoib_genl_exit(void)
{
	genl_unregister_family(&ipoib_genl_family);
}
