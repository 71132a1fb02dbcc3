/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What older kernels lack of the newest one's interfaces, under the newest one's
 * names; force-included in builds outside a kernel tree.  No other file may ask
 * for a version.
 *
 * A header that an older kernel does not have is in include/.  A callback whose
 * signature has changed is defined with the new one; where an older kernel does
 * not pass an argument, a macro takes it out of the definition:
 *
 *	#define callback(a, b, added)	callback(a, b)
 */
#ifndef IPOIB_COMPAT_H
#define IPOIB_COMPAT_H

#include <linux/compiler.h>
#include <linux/version.h>

/* 6.15: a new link's parameters in a structure, see Makefile.compat */
#ifdef IPOIB_COMPAT_NEWLINK
#include <net/rtnetlink.h>

struct rtnl_newlink_params {
	struct net *link_net;
	struct nlattr **tb;
	struct nlattr **data;
};

#define rtnl_newlink_link_net(params)	((params)->link_net)

#define ipoib_nl_newlink(ndev, params, extack)				      \
	__ipoib_nl_newlink(struct net_device *, struct rtnl_newlink_params *, \
			   struct netlink_ext_ack *);			      \
	static int ipoib_nl_newlink(struct net *_net, struct net_device *_dev, \
				    struct nlattr *_tb[],		      \
				    struct nlattr *_data[],		      \
				    struct netlink_ext_ack *_ack)	      \
	{								      \
		struct rtnl_newlink_params _params = { _net, _tb, _data };    \
									      \
		return __ipoib_nl_newlink(_dev, &_params, _ack);	      \
	}								      \
	static int __ipoib_nl_newlink(ndev, params, extack)
#endif

/* 6.13: a timer's function is set along with the rest. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/hrtimer.h>

#define hrtimer_setup(timer, fn, clock, mode)				\
	do {								\
		struct hrtimer *_timer = (timer);			\
									\
		hrtimer_init(_timer, clock, mode);			\
		_timer->function = (fn);				\
	} while (0)
#endif

/* 6.13: how long GRO may hold packets is a setting of each NAPI. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/netdevice.h>

#define gro_flush_timeout	dev->gro_flush_timeout
#endif

/* 6.13: a namespace of symbols is a string; ours is older than its symbols. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/module.h>

#undef MODULE_IMPORT_NS
#define MODULE_IMPORT_NS(ns)	static_assert(sizeof(ns))
#endif

/* 6.13: a sample is handed over by its address. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/dim.h>

#define net_dim(dim, sample)	net_dim(dim, *(sample))
#endif

/* 6.10: statistics of queues, which nobody asks for on older ones */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#include <linux/types.h>

struct netdev_queue_stats_rx {
	u64 packets;
	u64 bytes;
};

struct netdev_queue_stats_tx {
	u64 packets;
	u64 bytes;
	u64 stop;
};

struct netdev_stat_ops {
	void (*get_queue_stats_rx)(struct net_device *ndev, int index,
				   struct netdev_queue_stats_rx *rx);
	void (*get_queue_stats_tx)(struct net_device *ndev, int index,
				   struct netdev_queue_stats_tx *tx);
	void (*get_base_stats)(struct net_device *ndev,
			       struct netdev_queue_stats_rx *rx,
			       struct netdev_queue_stats_tx *tx);
};

static const struct netdev_stat_ops *ipoib_compat_stat_ops __maybe_unused;

/* What is assigned to it goes elsewhere. */
#define stat_ops	watchdog_timeo += 0, ipoib_compat_stat_ops
#endif

/* 6.8: which NAPI serves a queue */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
#define netif_queue_set_napi(ndev, index, type, napi)	((void)(napi))
#endif

/* 6.6: the bounds of a flexible array */
#ifndef __counted_by
#define __counted_by(member)
#endif

/* 6.7 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
#define IB_SPEED_XDR	256
#endif

/* 6.4: completed packets, BQL and waking the queue in one */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#include <net/netdev_queues.h>

#ifndef __netif_txq_completed_wake
/* The barrier that BQL may not have is that of __netif_txq_maybe_wake(). */
#define __netif_txq_completed_wake(txq, pkts, bytes, get_desc, start_thrs, \
				   down_cond)				   \
	({								   \
		struct netdev_queue *_txq = (txq);			   \
									   \
		netdev_tx_completed_queue(_txq, pkts, bytes);		   \
		__netif_txq_maybe_wake(_txq, get_desc, start_thrs,	   \
				       down_cond);			   \
	})
#endif

/* 6.3: the number of paths in an answer is unsigned */
#include <rdma/ib_sa.h>

#define ib_sa_path_rec_get(client, device, port, rec, mask, timeout, gfp,     \
			   callback, context, query)			      \
	ib_sa_path_rec_get(client, device, port, rec, mask, timeout, gfp,     \
			   (void (*)(int status, struct sa_path_rec *resp,    \
				     int num_prs, void *ctx))(callback),      \
			   context, query)
#endif

#endif /* IPOIB_COMPAT_H */
