/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of the generic netlink family
 */
#ifndef IPOIB_MSG_H
#define IPOIB_MSG_H

#include <linux/ipoib.h>
#include <net/genetlink.h>

struct ipoib_dev;

/* The family's multicast groups, in the order of its list */
#define IPOIB_MSG_EVENTS	0
#define IPOIB_MSG_OBJECTS	1

/**
 * struct ipoib_dump - a dump of objects of one interface at a time
 * @skb: message buffer
 * @cb: netlink's state of the dump
 * @cmd: command of each message
 * @skip: objects of the interface that were written to earlier buffers
 * @n: objects that the walk has come to
 * @changes: of the interface's list, when the walk began
 * @torn: the list has changed since the last buffer
 */
struct ipoib_dump {
	struct sk_buff *skb;
	struct netlink_callback *cb;
	u8 cmd;
	u32 skip;
	u32 n;
	u32 changes;
	bool torn;
};

/*
 * Write the attributes of an object but for the interface's; the lock that
 * covers it is held.  Returns 0 or -EMSGSIZE.
 */
typedef int (*ipoib_msg_fill_t)(struct sk_buff *skb, const void *object);

void ipoib_msg_init(const struct genl_family *family);
int ipoib_msg_write(struct sk_buff *skb, const struct ipoib_dev *dev,
		    ipoib_msg_fill_t fill, const void *object);
bool ipoib_msg_wanted(u8 cmd);
void ipoib_dump_begin(struct ipoib_dump *dump, u32 changes);
int ipoib_dump_one(struct ipoib_dump *dump, const struct ipoib_dev *dev,
		   ipoib_msg_fill_t fill, const void *object);
void ipoib_msg_notify(const struct ipoib_dev *dev, u8 cmd,
		      ipoib_msg_fill_t fill, const void *object);
int ipoib_msg_put_ms(struct sk_buff *skb, int attr, unsigned long since);

#endif /* IPOIB_MSG_H */
