/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Engines: what carries the datagrams of an interface
 *
 * Either QPs of the driver's own (ipoib_verbs.c), or an interface that the HCA
 * has for this (ipoib_enhanced.c).  What is set up differs, and so do the
 * operations of the net_device; then no other file asks which it is.
 */
#ifndef IPOIB_ENGINE_H
#define IPOIB_ENGINE_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct ipoib_dev;
struct ipoib_ud_group;

/**
 * struct ipoib_engine - operations of an engine
 *
 * All are called in process context, those after @exit with ipoib_dev.lock held
 * unless another context is given.
 *
 * @name: for users
 * @id: likewise, enum ipoib_dev_engine
 * @connected: it can carry connections beside datagrams
 * @rtnl: its @start and @stop need rtnl
 * @hears: received packets pass the driver, which sees their LIDs
 * @create: ndo_init: create QPs; ipoib_dev.qpn is known afterwards.  0 or -errno.
 *	Context: rtnl, ipoib_dev.lock not held
 * @destroy: ndo_uninit: undo it.  Context: as @create
 * @exit: free the rest; possibly never created.  Context: any process
 * @open: ndo_open: get memory that the interface needs until @close.  0 or -errno
 * @close: ndo_stop: undo it
 * @start: bring the QPs up.  0, -ENOENT while the port's table lacks the P_Key,
 *	or -errno; then they are down
 * @stop_begin: send nothing any more and start to drain, without waiting
 * @stop: take the QPs down; no skb of the interface is in the engine afterwards
 * @repair: a send failed: make it work again.  0, or -errno: restart
 * @restart: take the QPs down and bring them up, groups stay attached.  As @start,
 *	or -ESTALE: they don't.  NULL: all is taken down and brought up
 * @set_link: the link has another MTU or Q_Key: most bytes of a datagram with its
 *	encapsulation, and the Q_Key in host order.  0 or -errno.  Context: process
 * @set_mtu: set the MTU that the stack uses.  0 or -errno.  Context: rtnl,
 *	ipoib_dev.lock not held
 * @attach: receive a multicast group, whose entry is initialised; if it is
 *	attached, its LID may have changed.  0 or -errno.  Context: process
 * @detach: stop receiving it, if it is attached.  Context: process
 */
struct ipoib_engine {
	const char *name;
	u32 id;
	bool connected;
	bool rtnl;
	bool hears;
	int (*create)(struct ipoib_dev *dev);
	void (*destroy)(struct ipoib_dev *dev);
	void (*exit)(struct ipoib_dev *dev);
	int (*open)(struct ipoib_dev *dev);
	void (*close)(struct ipoib_dev *dev);
	int (*start)(struct ipoib_dev *dev);
	void (*stop_begin)(struct ipoib_dev *dev);
	void (*stop)(struct ipoib_dev *dev);
	int (*repair)(struct ipoib_dev *dev);
	int (*restart)(struct ipoib_dev *dev);
	int (*set_link)(struct ipoib_dev *dev, u32 max_len, u32 qkey);
	int (*set_mtu)(struct ipoib_dev *dev, u32 mtu);
	int (*attach)(struct ipoib_dev *dev, struct ipoib_ud_group *group,
		      const union ib_gid *mgid, __be16 mlid);
	void (*detach)(struct ipoib_dev *dev, struct ipoib_ud_group *group);
};

extern const struct ipoib_engine ipoib_verbs_engine;
extern const struct ipoib_engine ipoib_enhanced_engine;

#endif /* IPOIB_ENGINE_H */
