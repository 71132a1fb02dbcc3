/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a QP is attached to
 */
#ifndef IPOIB_ATTACH_H
#define IPOIB_ATTACH_H

#include <linux/list.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

struct ipoib_attachment;
struct ipoib_dev;
struct mutex;

/**
 * struct ipoib_ud_group - a multicast group that is to be received
 * @at: what was attached for it, NULL if nothing is
 */
struct ipoib_ud_group {
	struct ipoib_attachment *at;
};

/**
 * struct ipoib_attach_ops - how an engine attaches
 * @attach: receive a group.  0 or -errno
 * @detach: stop receiving it.  0 or -errno: then it is still attached
 */
struct ipoib_attach_ops {
	int (*attach)(struct ipoib_dev *dev, union ib_gid *mgid, u16 mlid);
	int (*detach)(struct ipoib_dev *dev, union ib_gid *mgid, u16 mlid);
};

/**
 * struct ipoib_attached - all that the QP of an interface is attached to
 * @dev: interface
 * @ops: of its engine
 * @lock: mutex of the engine, covers @list
 * @list: struct ipoib_attachment: of groups, and what could not be detached
 * @work: detaches the latter
 */
struct ipoib_attached {
	struct ipoib_dev *dev;
	const struct ipoib_attach_ops *ops;
	struct mutex *lock;	/* the engine's: list */
	struct list_head list;
	struct delayed_work work;
};

void ipoib_attached_init(struct ipoib_attached *a, struct ipoib_dev *dev,
			 const struct ipoib_attach_ops *ops, struct mutex *lock);
int ipoib_attach(struct ipoib_attached *a, struct ipoib_ud_group *group,
		 const union ib_gid *mgid, __be16 mlid, bool anew);
void ipoib_detach(struct ipoib_attached *a, struct ipoib_ud_group *group);
bool ipoib_detach_stale(struct ipoib_attached *a, bool wait);
bool ipoib_detach_all(struct ipoib_attached *a);
void ipoib_attached_exit(struct ipoib_attached *a, bool wait);
void ipoib_attached_hand(struct ipoib_attached *a, struct ipoib_attached *to);
bool ipoib_attachments_end(struct ib_qp *qp, struct list_head *list);

#endif /* IPOIB_ATTACH_H */
