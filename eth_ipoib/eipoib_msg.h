/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of the generic netlink family: dumps
 */
#ifndef EIPOIB_MSG_H
#define EIPOIB_MSG_H

#include <linux/eipoib.h>
#include <net/genetlink.h>

#include "eipoib.h"

/**
 * struct eipoib_dump - a dump of one kind of objects, an interface at a time
 * @family: family
 * @skb: message buffer
 * @cb: netlink's state of the dump
 * @cmd: command of each message
 * @at: object that was written last, 0: none; what it is, is for whoever walks
 */
struct eipoib_dump {
	const struct genl_family *family;
	struct sk_buff *skb;
	struct netlink_callback *cb;
	u8 cmd;
	u64 at;
};

/* Writes the attributes of an object; false: there is no room. */
typedef bool (*eipoib_msg_fill_t)(struct sk_buff *skb, const void *object);

int eipoib_dump_one(const struct eipoib_dev *dev, struct eipoib_dump *dump,
		    eipoib_msg_fill_t fill, const void *object, u64 at);
int eipoib_msg_put_ip(struct sk_buff *skb, int attr, const struct in6_addr *ip);
int eipoib_msg_put_ms(struct sk_buff *skb, int attr, unsigned long time);

#endif
