// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generic netlink family: guests, peers and groups; addresses that guests are
 * given
 *
 * Its interface to programs is Documentation/netlink/specs/eipoib.yaml and the
 * header that is made from it, include/uapi/linux/eipoib.h.
 *
 * A dump walks under RCU while a buffer is filled.  For guests and groups it
 * remembers the number of an object, so that what comes and goes between two
 * buffers does not disturb it; for peers and prefixes the place in a short list, so
 * that one may be missing or be there twice when others of it go meanwhile.
 */
#include <linux/rtnetlink.h>

#include "eipoib_genl.h"
#include "eipoib_group.h"
#include "eipoib_guest.h"
#include "eipoib_lower.h"
#include "eipoib_link.h"
#include "eipoib_msg.h"
#include "eipoib_peer.h"
#include "eipoib_prefix.h"

/* What is asked of all commands, and of those that change something */
static const struct nla_policy eipoib_genl_policy[EIPOIB_A_GUEST_MAX + 1] = {
	[EIPOIB_A_GUEST_IFINDEX]	= NLA_POLICY_MIN(NLA_U32, 1),
	[EIPOIB_A_GUEST_ADDRESS]	= { .type = NLA_BINARY, .len = 16 },
	[EIPOIB_A_GUEST_PREFIX_LEN]	= NLA_POLICY_MAX(NLA_U32, 128),
	[EIPOIB_A_GUEST_MAC]		= NLA_POLICY_EXACT_LEN(ETH_ALEN),
};

static bool eipoib_genl_is(const struct net_device *ndev)
{
	return ndev->rtnl_link_ops == &eipoib_link_ops;
}

/* The interface that a request names.  With rtnl or under RCU. */
static struct net_device *eipoib_genl_find(struct net *net, struct nlattr *attr,
					   struct netlink_ext_ack *extack)
{
	struct net_device *ndev;

	ndev = dev_get_by_index_rcu(net, nla_get_u32(attr));
	if (!ndev) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "There is no such interface");
		return ERR_PTR(-ENODEV);
	}
	if (!eipoib_genl_is(ndev)) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "That is not an interface of the kind eipoib");
		return ERR_PTR(-EOPNOTSUPP);
	}
	return ndev;
}

static struct genl_family eipoib_genl_family;

/* ---- dumps --------------------------------------------------------------- */

/**
 * struct eipoib_genl_dump - where a dump is, struct netlink_callback.ctx
 * @ifindex: interface that the next buffer begins with
 * @only: the interface that was asked for, 0: all
 * @at: object of it that was written last
 * @part: which walk of several the object is of
 */
struct eipoib_genl_dump {
	unsigned long ifindex;
	unsigned long only;
	u64 at;
	unsigned int part;
};

/* Writes objects of one kind, those of an interface, to a dump. */
typedef int (*eipoib_genl_walk_t)(struct eipoib_dev *dev,
				  struct eipoib_dump *dump);

static int eipoib_genl_dump_start(struct netlink_callback *cb)
{
	struct nlattr *attr = genl_info_dump(cb)->attrs[EIPOIB_A_GUEST_IFINDEX];
	struct eipoib_genl_dump *at = (void *)cb->ctx;
	struct net_device *ndev;

	BUILD_BUG_ON(sizeof(*at) > sizeof(cb->ctx));
	memset(at, 0, sizeof(*at));
	if (!attr)
		return 0;
	rcu_read_lock();
	ndev = eipoib_genl_find(sock_net(cb->skb->sk), attr, cb->extack);
	rcu_read_unlock();
	if (IS_ERR(ndev))
		return PTR_ERR(ndev);
	at->ifindex = nla_get_u32(attr);
	at->only = at->ifindex;
	return 0;
}

/* Those of one interface, as many as there is room for. */
static int eipoib_genl_dump_dev(struct eipoib_genl_dump *at,
				struct eipoib_dump *dump,
				const eipoib_genl_walk_t *walks,
				struct eipoib_dev *dev)
{
	int ret;

	for (; walks[at->part]; at->part++) {
		dump->at = at->at;
		ret = walks[at->part](dev, dump);
		at->at = dump->at;
		if (ret)
			return ret;
		at->at = 0;
	}
	at->part = 0;
	return 0;
}

static int eipoib_genl_dump(struct sk_buff *skb, struct netlink_callback *cb,
			    u8 cmd, const eipoib_genl_walk_t *walks)
{
	struct eipoib_genl_dump *at = (void *)cb->ctx;
	struct eipoib_dump dump = {
		.family = &eipoib_genl_family, .skb = skb, .cb = cb, .cmd = cmd,
	};
	struct net *net = sock_net(cb->skb->sk);
	unsigned long begin = at->ifindex;
	struct net_device *ndev;
	int ret = 0;

	rcu_read_lock();
	for_each_netdev_dump(net, ndev, at->ifindex) {
		if (at->only && ndev->ifindex != at->only)
			break;
		/* The interface that the last buffer ended in may be gone. */
		if (ndev->ifindex != begin) {
			at->at = 0;
			at->part = 0;
		}
		if (!eipoib_genl_is(ndev))
			continue;
		ret = eipoib_genl_dump_dev(at, &dump, walks, eipoib_priv(ndev));
		if (ret)
			break;
	}
	rcu_read_unlock();
	/* A buffer without a message ends the dump. */
	return ret && skb->len ? skb->len : ret;
}

static int eipoib_genl_dump_guests(struct sk_buff *skb,
				   struct netlink_callback *cb)
{
	static const eipoib_genl_walk_t walks[] = {
		eipoib_guests_dump, eipoib_prefixes_dump, NULL,
	};

	return eipoib_genl_dump(skb, cb, EIPOIB_CMD_GUEST_GET, walks);
}

static int eipoib_genl_dump_peers(struct sk_buff *skb,
				  struct netlink_callback *cb)
{
	static const eipoib_genl_walk_t walks[] = { eipoib_peers_dump, NULL };

	return eipoib_genl_dump(skb, cb, EIPOIB_CMD_PEER_GET, walks);
}

static int eipoib_genl_dump_groups(struct sk_buff *skb,
				   struct netlink_callback *cb)
{
	static const eipoib_genl_walk_t walks[] = { eipoib_groups_dump, NULL };

	return eipoib_genl_dump(skb, cb, EIPOIB_CMD_GROUP_GET, walks);
}

/* ---- addresses that guests are given ------------------------------------- */

/**
 * struct eipoib_genl_change - what is to be given to a guest, or taken
 * @dev: interface
 * @ip: address, of a station or of a network
 * @len: length of a prefix, if there is @prefix
 * @prefix: it is one
 * @mac: station, NULL if there is none in the request
 */
struct eipoib_genl_change {
	struct eipoib_dev *dev;
	struct in6_addr ip;
	u32 len;
	bool prefix;
	const u8 *mac;
};

static int eipoib_genl_read_ip(struct nlattr *attr, struct in6_addr *ip,
			       struct netlink_ext_ack *extack)
{
	if (nla_len(attr) == sizeof(__be32)) {
		*ip = eipoib_v4(nla_get_in_addr(attr));
		return 0;
	}
	if (nla_len(attr) == sizeof(*ip)) {
		*ip = nla_get_in6_addr(attr);
		if (!ipv6_addr_v4mapped(ip))
			return 0;
	}
	NL_SET_ERR_MSG_ATTR(extack, attr, "That is not an IP address");
	return -EINVAL;
}

static int eipoib_genl_read_mac(struct nlattr *attr,
				struct eipoib_genl_change *change,
				struct netlink_ext_ack *extack)
{
	if (!attr)
		return 0;
	change->mac = nla_data(attr);
	if (is_valid_ether_addr(change->mac) &&
	    eipoib_mac_kind(change->mac) == EIPOIB_MAC_OTHER)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr, "The MAC is not one of a station");
	return -EADDRNOTAVAIL;
}

static int eipoib_genl_read(struct genl_info *info,
			    struct eipoib_genl_change *change)
{
	struct nlattr *len = info->attrs[EIPOIB_A_GUEST_PREFIX_LEN];
	struct netlink_ext_ack *extack = info->extack;
	int ret;

	if (GENL_REQ_ATTR_CHECK(info, EIPOIB_A_GUEST_IFINDEX) ||
	    GENL_REQ_ATTR_CHECK(info, EIPOIB_A_GUEST_ADDRESS)) {
		NL_SET_ERR_MSG(extack,
			       "An interface's index and an address are needed");
		return -EINVAL;
	}
	ret = eipoib_genl_read_ip(info->attrs[EIPOIB_A_GUEST_ADDRESS],
				  &change->ip, extack) ?:
	      eipoib_genl_read_mac(info->attrs[EIPOIB_A_GUEST_MAC], change,
				   extack);
	if (ret)
		return ret;
	change->prefix = len;
	if (len)
		change->len = nla_get_u32(len);
	if (change->prefix || eipoib_ip_is_host(&change->ip))
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, info->attrs[EIPOIB_A_GUEST_ADDRESS],
			    "That is not the address of a host");
	return -EINVAL;
}

static int eipoib_genl_may(const struct eipoib_dev *dev,
			   struct netlink_ext_ack *extack)
{
	if (eipoib_lower_may(dev))
		return 0;
	NL_SET_ERR_MSG(extack,
		       "That needs CAP_NET_ADMIN where the lower interface is");
	return -EPERM;
}

/* Make a change, with rtnl. */
static int eipoib_genl_do(struct genl_info *info,
			  int (*apply)(const struct eipoib_genl_change *change,
				       struct netlink_ext_ack *extack))
{
	struct eipoib_genl_change change = {};
	struct net_device *ndev;
	int ret;

	ret = eipoib_genl_read(info, &change);
	if (ret)
		return ret;
	rtnl_lock();
	rcu_read_lock();
	ndev = eipoib_genl_find(genl_info_net(info),
				info->attrs[EIPOIB_A_GUEST_IFINDEX],
				info->extack);
	rcu_read_unlock();
	if (IS_ERR(ndev)) {
		ret = PTR_ERR(ndev);
	} else {
		change.dev = eipoib_priv(ndev);
		ret = eipoib_genl_may(change.dev, info->extack) ?:
		      apply(&change, info->extack);
	}
	rtnl_unlock();
	return ret;
}

static int eipoib_genl_give(const struct eipoib_genl_change *change,
			    struct netlink_ext_ack *extack)
{
	int ret;

	if (!change->mac) {
		NL_SET_ERR_MSG(extack, "The MAC of a station is needed");
		return -EINVAL;
	}
	if (change->prefix) {
		ret = eipoib_prefix_give(change->dev, &change->ip, change->len,
					 change->mac, extack);
		if (ret)
			return ret;
		/* Claims that have not seen it are over then. */
		synchronize_net();
		eipoib_guests_recheck(change->dev);
		return 0;
	}
	return eipoib_guest_give(change->dev, &change->ip, change->mac, extack);
}

static int eipoib_genl_take(const struct eipoib_genl_change *change,
			    struct netlink_ext_ack *extack)
{
	int ret = change->prefix ?
		  eipoib_prefix_take(change->dev, &change->ip, change->len) :
		  eipoib_guest_take(change->dev, &change->ip);

	if (ret)
		NL_SET_ERR_MSG(extack, "No guest has that");
	return ret;
}

static int eipoib_genl_new_guest(struct sk_buff *skb, struct genl_info *info)
{
	return eipoib_genl_do(info, eipoib_genl_give);
}

static int eipoib_genl_del_guest(struct sk_buff *skb, struct genl_info *info)
{
	return eipoib_genl_do(info, eipoib_genl_take);
}

/* ---- the family ---------------------------------------------------------- */

static const struct genl_ops eipoib_genl_ops[] = {
	{
		.cmd	= EIPOIB_CMD_GUEST_GET,
		.start	= eipoib_genl_dump_start,
		.dumpit	= eipoib_genl_dump_guests,
		.maxattr = EIPOIB_A_GUEST_IFINDEX,
		.policy	= eipoib_genl_policy,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd	= EIPOIB_CMD_GUEST_NEW,
		.doit	= eipoib_genl_new_guest,
		.maxattr = EIPOIB_A_GUEST_MAC,
		.policy	= eipoib_genl_policy,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd	= EIPOIB_CMD_GUEST_DEL,
		.doit	= eipoib_genl_del_guest,
		.maxattr = EIPOIB_A_GUEST_MAC,
		.policy	= eipoib_genl_policy,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd	= EIPOIB_CMD_PEER_GET,
		.start	= eipoib_genl_dump_start,
		.dumpit	= eipoib_genl_dump_peers,
		.maxattr = EIPOIB_A_GUEST_IFINDEX,
		.policy	= eipoib_genl_policy,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
	{
		.cmd	= EIPOIB_CMD_GROUP_GET,
		.start	= eipoib_genl_dump_start,
		.dumpit	= eipoib_genl_dump_groups,
		.maxattr = EIPOIB_A_GUEST_IFINDEX,
		.policy	= eipoib_genl_policy,
		.flags	= GENL_UNS_ADMIN_PERM,
	},
};

static struct genl_family eipoib_genl_family __ro_after_init = {
	.name		= EIPOIB_FAMILY_NAME,
	.version	= EIPOIB_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.ops		= eipoib_genl_ops,
	.n_ops		= ARRAY_SIZE(eipoib_genl_ops),
};

int __init eipoib_genl_init(void)
{
	return genl_register_family(&eipoib_genl_family);
}

void eipoib_genl_exit(void)
{
	genl_unregister_family(&eipoib_genl_family);
}
