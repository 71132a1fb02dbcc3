// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of the generic netlink family: dumps
 *
 * What they mean is in Documentation/netlink/specs/eipoib.yaml.
 */
#include "eipoib_msg.h"

/* The interface's index is the attribute of the same number in all messages. */
static_assert((u32)EIPOIB_A_GUEST_IFINDEX == (u32)EIPOIB_A_PEER_IFINDEX);
static_assert((u32)EIPOIB_A_GUEST_IFINDEX == (u32)EIPOIB_A_GROUP_IFINDEX);

/**
 * eipoib_dump_one - write a message of a dump
 * @dev: interface
 * @dump: dump
 * @fill: writes the attributes but for the interface's; false: there is no room
 * @object: for @fill
 * @at: what the message is about, for eipoib_dump.at
 * Return: 0, or -EMSGSIZE if there is no room; the message is removed then
 */
int eipoib_dump_one(const struct eipoib_dev *dev, struct eipoib_dump *dump,
		    eipoib_msg_fill_t fill, const void *object, u64 at)
{
	struct netlink_callback *cb = dump->cb;
	void *hdr;

	hdr = genlmsg_put(dump->skb, NETLINK_CB(cb->skb).portid,
			  cb->nlh->nlmsg_seq, dump->family, NLM_F_MULTI,
			  dump->cmd);
	if (!hdr)
		return -EMSGSIZE;
	if (nla_put_u32(dump->skb, EIPOIB_A_GUEST_IFINDEX,
			dev->ndev->ifindex) || !fill(dump->skb, object)) {
		genlmsg_cancel(dump->skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(dump->skb, hdr);
	dump->at = at;
	return 0;
}

/* An address of either family, as 4 or 16 bytes */
int eipoib_msg_put_ip(struct sk_buff *skb, int attr, const struct in6_addr *ip)
{
	return eipoib_is_v4(ip) ?
	       nla_put_in_addr(skb, attr, eipoib_to_v4(ip)) :
	       nla_put_in6_addr(skb, attr, ip);
}

/* A time in jiffies, as milliseconds */
int eipoib_msg_put_ms(struct sk_buff *skb, int attr, unsigned long time)
{
	return nla_put_uint(skb, attr, jiffies64_to_msecs(time));
}
