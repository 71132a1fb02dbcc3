// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of the generic netlink family: one object in each
 *
 * Whoever owns an object writes its attributes, under the lock that covers it;
 * this file does the rest of dumps and notifications.  The family itself is in
 * ipoib_genl.c, and what the messages mean in
 * Documentation/netlink/specs/ipoib.yaml.
 */
#include <linux/netdevice.h>

#include "ipoib.h"
#include "ipoib_msg.h"

/*
 * The interface's index is the attribute of the same number in all messages, so
 * that a program can tell whose they are.
 */
static_assert((u32)IPOIB_A_DEV_IFINDEX == (u32)IPOIB_A_NEIGH_IFINDEX);
static_assert((u32)IPOIB_A_DEV_IFINDEX == (u32)IPOIB_A_GROUP_IFINDEX);
static_assert((u32)IPOIB_A_DEV_IFINDEX == (u32)IPOIB_A_CONN_IFINDEX);

static const struct genl_family *ipoib_msg_family;

/**
 * ipoib_msg_init - say what the messages belong to
 * @family: about to be registered
 */
void ipoib_msg_init(const struct genl_family *family)
{
	ipoib_msg_family = family;
}

/**
 * ipoib_msg_write - write the attributes of an object, the interface's first
 * @skb: message
 * @dev: interface
 * @fill: writes the rest
 * @object: for @fill
 *
 * Context: any that @fill runs in.
 * Return: 0 or -EMSGSIZE
 */
int ipoib_msg_write(struct sk_buff *skb, const struct ipoib_dev *dev,
		    ipoib_msg_fill_t fill, const void *object)
{
	if (nla_put_u32(skb, IPOIB_A_DEV_IFINDEX, dev->ndev->ifindex))
		return -EMSGSIZE;
	return fill(skb, object);
}

/**
 * ipoib_dump_begin - begin to walk a list of an interface
 * @dump: dump of the interface's objects
 * @changes: number that changes with the list
 *
 * Context: the list's lock held until the end of the walk.
 */
void ipoib_dump_begin(struct ipoib_dump *dump, u32 changes)
{
	if (dump->skip && dump->changes != changes)
		dump->torn = true;
	dump->changes = changes;
	dump->n = 0;
}

/**
 * ipoib_dump_one - write the next object of a dump, unless it has been written
 * @dump: dump of the interface's objects
 * @dev: interface
 * @fill: writes the attributes
 * @object: for @fill
 *
 * Context: any that @fill runs in.
 * Return: 0, or -EMSGSIZE if the buffer is full: the walk is to end, and the
 *	next one continues with this object
 */
int ipoib_dump_one(struct ipoib_dump *dump, const struct ipoib_dev *dev,
		   ipoib_msg_fill_t fill, const void *object)
{
	struct netlink_callback *cb = dump->cb;
	void *hdr;

	if (dump->n++ < dump->skip)
		return 0;
	hdr = genlmsg_put(dump->skb, NETLINK_CB(cb->skb).portid,
			  cb->nlh->nlmsg_seq, ipoib_msg_family, NLM_F_MULTI,
			  dump->cmd);
	if (!hdr)
		return -EMSGSIZE;
	if (ipoib_msg_write(dump->skb, dev, fill, object)) {
		genlmsg_cancel(dump->skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(dump->skb, hdr);
	dump->skip = dump->n;
	return 0;
}

static u32 ipoib_msg_group(u8 cmd)
{
	return cmd == IPOIB_CMD_DEV_NTF ? IPOIB_MSG_EVENTS : IPOIB_MSG_OBJECTS;
}

/**
 * ipoib_msg_wanted - does anybody listen?
 * @cmd: command of a notification
 *
 * In any network namespace, as netlink has one answer for all.
 *
 * Context: any.
 */
bool ipoib_msg_wanted(u8 cmd)
{
	return genl_has_listeners(ipoib_msg_family, &init_net,
				  ipoib_msg_group(cmd));
}

/**
 * ipoib_msg_notify - tell who listens that an object has changed
 * @dev: interface
 * @cmd: command
 * @fill: writes the attributes
 * @object: for @fill
 *
 * Costs next to nothing while nobody listens.  If there is no memory, listeners
 * learn from the socket that they have missed something.
 *
 * Context: any but hard interrupts.
 */
void ipoib_msg_notify(const struct ipoib_dev *dev, u8 cmd,
		      ipoib_msg_fill_t fill, const void *object)
{
	u32 group = ipoib_msg_group(cmd);
	struct sk_buff *skb;
	struct net *net;
	void *hdr;

	if (!ipoib_msg_wanted(cmd))
		return;
	/* The interface may be about to leave the namespace. */
	rcu_read_lock();
	net = dev_net(dev->ndev);
	skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC);
	hdr = skb ? genlmsg_put(skb, 0, 0, ipoib_msg_family, 0, cmd) : NULL;
	if (!hdr || WARN_ON_ONCE(ipoib_msg_write(skb, dev, fill, object))) {
		nlmsg_free(skb);
		genl_set_err(ipoib_msg_family, net, 0, group, -ENOBUFS);
		goto unlock;
	}
	genlmsg_end(skb, hdr);
	genlmsg_multicast_netns(ipoib_msg_family, net, skb, 0, group,
				GFP_ATOMIC);
unlock:
	rcu_read_unlock();
}

/**
 * ipoib_msg_put_ms - write how long ago something was, in milliseconds
 * @skb: message
 * @attr: attribute
 * @since: jiffies
 * Return: 0 or -EMSGSIZE
 */
int ipoib_msg_put_ms(struct sk_buff *skb, int attr, unsigned long since)
{
	u64 ago = max_t(long, jiffies - since, 0);

	return nla_put_uint(skb, attr, jiffies64_to_msecs(ago));
}
