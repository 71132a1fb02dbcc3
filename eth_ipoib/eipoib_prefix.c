// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefixes that are reached by way of a guest
 *
 * A guest that routes has addresses behind it that it does not answer for.  The
 * administrator says which ones.  They are few, so a list does: the longest
 * prefix comes first.
 */
#include <linux/rtnetlink.h>

#include "eipoib_prefix.h"
#include "eipoib_send.h"

#define EIPOIB_PREFIXES		256	/* most of an interface */
#define EIPOIB_PREFIX_V4	96	/* IPv4 addresses are mapped ones */

/**
 * struct eipoib_prefix - a prefix
 * @list: in eipoib_dev.prefix_list, longer ones first
 * @ip: the network's address
 * @len: length, of an IPv6 address
 * @mac: station that it is reached by; an entry is replaced to change it
 * @rcu: frees it
 */
struct eipoib_prefix {
	struct list_head list;
	struct in6_addr ip;
	u32 len;
	u8 mac[ETH_ALEN];
	struct rcu_head rcu;
};

void eipoib_prefixes_init(struct eipoib_dev *dev)
{
	INIT_LIST_HEAD(&dev->prefix_list);
}

static void eipoib_prefix_remove(struct eipoib_dev *dev,
				 struct eipoib_prefix *prefix)
{
	list_del_rcu(&prefix->list);
	dev->num_prefixes--;
	kfree_rcu(prefix, rcu);
}

void eipoib_prefixes_exit(struct eipoib_dev *dev)
{
	struct eipoib_prefix *prefix, *next;

	ASSERT_RTNL();
	list_for_each_entry_safe(prefix, next, &dev->prefix_list, list)
		eipoib_prefix_remove(dev, prefix);
}

/* ---- look-ups ------------------------------------------------------------ */

static bool eipoib_prefix_has(const struct eipoib_prefix *prefix,
			      const struct in6_addr *ip)
{
	return eipoib_is_v4(&prefix->ip) == eipoib_is_v4(ip) &&
	       ipv6_prefix_equal(&prefix->ip, ip, prefix->len);
}

/* The longest prefix that has an address.  Under RCU. */
static const struct eipoib_prefix *
eipoib_prefix_find(const struct eipoib_dev *dev, const struct in6_addr *ip)
{
	const struct eipoib_prefix *prefix;

	list_for_each_entry_rcu(prefix, &dev->prefix_list, list)
		if (eipoib_prefix_has(prefix, ip))
			return prefix;
	return NULL;
}

/**
 * eipoib_prefix_mac - the station that an address is reached by
 * @dev: interface
 * @ip: address, not one of a guest itself
 * @mac: result
 * Return: false if it is none of a prefix, or this host's.  Under RCU.
 */
bool eipoib_prefix_mac(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u8 *mac)
{
	const struct eipoib_prefix *prefix = eipoib_prefix_find(dev, ip);

	if (!prefix || eipoib_host_dev(dev, ip))
		return false;
	ether_addr_copy(mac, prefix->mac);
	return true;
}

/* Is the address reached by this station? */
bool eipoib_prefix_is_of(struct eipoib_dev *dev, const struct in6_addr *ip,
			 const u8 *mac)
{
	const struct eipoib_prefix *prefix;
	bool is;

	rcu_read_lock();
	prefix = eipoib_prefix_find(dev, ip);
	is = prefix && ether_addr_equal(prefix->mac, mac);
	rcu_read_unlock();
	return is;
}

/* May a station have an address?  Not if it is reached by another one. */
bool eipoib_prefix_allows(struct eipoib_dev *dev, const struct in6_addr *ip,
			  const u8 *mac)
{
	const struct eipoib_prefix *prefix;
	bool allows;

	rcu_read_lock();
	prefix = eipoib_prefix_find(dev, ip);
	allows = !prefix || ether_addr_equal(prefix->mac, mac);
	rcu_read_unlock();
	return allows;
}

/* ---- changes ------------------------------------------------------------- */

static u32 eipoib_prefix_len(const struct in6_addr *ip, u32 len)
{
	return eipoib_is_v4(ip) ? len + EIPOIB_PREFIX_V4 : len;
}

static struct eipoib_prefix *eipoib_prefix_same(struct eipoib_dev *dev,
						const struct in6_addr *ip,
						u32 len)
{
	struct eipoib_prefix *prefix;

	ASSERT_RTNL();
	len = eipoib_prefix_len(ip, len);
	list_for_each_entry(prefix, &dev->prefix_list, list)
		if (prefix->len == len && ipv6_addr_equal(&prefix->ip, ip))
			return prefix;
	return NULL;
}

/* Is this a network's address?  Its bits behind the prefix are zero. */
static bool eipoib_prefix_valid(const struct in6_addr *ip, u32 len)
{
	struct in6_addr network;

	if (len > (eipoib_is_v4(ip) ? 32 : 128))
		return false;
	ipv6_addr_prefix(&network, ip, eipoib_prefix_len(ip, len));
	return ipv6_addr_equal(&network, ip);
}

/* Put an entry before shorter ones. */
static void eipoib_prefix_insert(struct eipoib_dev *dev,
				 struct eipoib_prefix *prefix)
{
	struct eipoib_prefix *next;

	list_for_each_entry(next, &dev->prefix_list, list)
		if (next->len < prefix->len)
			break;
	list_add_tail_rcu(&prefix->list, &next->list);
	dev->num_prefixes++;
}

/**
 * eipoib_prefix_give - let a prefix be reached by way of a station
 * @dev: interface
 * @ip: the network's address
 * @len: length of the prefix
 * @mac: station
 * @extack: why not
 *
 * With rtnl.
 * Return: 0 or -errno
 */
int eipoib_prefix_give(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u32 len, const u8 *mac, struct netlink_ext_ack *extack)
{
	struct eipoib_prefix *prefix, *old = eipoib_prefix_same(dev, ip, len);

	if (!eipoib_prefix_valid(ip, len)) {
		NL_SET_ERR_MSG(extack,
			       "The address is not that of a network with such a prefix");
		return -EINVAL;
	}
	if (!old && dev->num_prefixes >= EIPOIB_PREFIXES) {
		NL_SET_ERR_MSG(extack, "There is no room for another prefix");
		return -ENOSPC;
	}
	prefix = kzalloc_obj(*prefix, GFP_KERNEL);
	if (!prefix)
		return -ENOMEM;
	prefix->ip = *ip;
	prefix->len = eipoib_prefix_len(ip, len);
	ether_addr_copy(prefix->mac, mac);
	eipoib_prefix_insert(dev, prefix);
	if (old)
		eipoib_prefix_remove(dev, old);
	return 0;
}

/* Forget a prefix; -ENOENT if there is no such one.  With rtnl. */
int eipoib_prefix_take(struct eipoib_dev *dev, const struct in6_addr *ip,
		       u32 len)
{
	struct eipoib_prefix *prefix = eipoib_prefix_same(dev, ip, len);

	if (!prefix)
		return -ENOENT;
	eipoib_prefix_remove(dev, prefix);
	return 0;
}

/* ---- netlink ------------------------------------------------------------- */

static bool eipoib_prefix_fill(struct sk_buff *skb, const void *object)
{
	const struct eipoib_prefix *prefix = object;
	u32 len = prefix->len;

	if (eipoib_is_v4(&prefix->ip))
		len -= EIPOIB_PREFIX_V4;
	return !eipoib_msg_put_ip(skb, EIPOIB_A_GUEST_ADDRESS, &prefix->ip) &&
	       !nla_put_u32(skb, EIPOIB_A_GUEST_PREFIX_LEN, len) &&
	       !nla_put(skb, EIPOIB_A_GUEST_MAC, ETH_ALEN, prefix->mac) &&
	       !nla_put_u32(skb, EIPOIB_A_GUEST_STATUS,
			    EIPOIB_GUEST_STATUS_FIXED);
}

/**
 * eipoib_prefixes_dump - write prefixes to a dump
 * @dev: interface
 * @dump: dump; where it stands is the place in the list, from 1
 * Return: 0, or -EMSGSIZE if there is no more room.  Under RCU.
 */
int eipoib_prefixes_dump(struct eipoib_dev *dev, struct eipoib_dump *dump)
{
	const struct eipoib_prefix *prefix;
	u64 place = 0;
	int ret;

	list_for_each_entry_rcu(prefix, &dev->prefix_list, list) {
		if (++place <= dump->at)
			continue;
		ret = eipoib_dump_one(dev, dump, eipoib_prefix_fill, prefix,
				      place);
		if (ret)
			return ret;
	}
	return 0;
}
