/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces of the newest kernel that older ones lack, under the newest one's
 * names; force-included in builds outside a kernel tree.  No other file may
 * check the kernel version.
 *
 * A header that an older kernel does not have is in include/.  A callback whose
 * signature has changed is defined with the new one; where an older kernel does
 * not pass an argument, a macro removes it from the definition:
 *
 *	#define callback(a, b, added)	callback(a, b)
 */
#ifndef IPOIB_COMPAT_H
#define IPOIB_COMPAT_H

#include <linux/compiler.h>
#include <linux/version.h>

/* After 6.18: multicast lists are read in process context, see Makefile.compat */
#ifdef IPOIB_COMPAT_RX_MODE
#define ipoib_set_rx_mode_async(...)					      \
	__ipoib_set_rx_mode_async(__VA_ARGS__);				      \
									      \
static void ipoib_set_rx_mode_async(struct net_device *_ndev)		      \
{									      \
	__ipoib_set_rx_mode_async(_ndev, NULL, NULL);			      \
}									      \
									      \
static int __ipoib_set_rx_mode_async(__VA_ARGS__)
#endif

#include "newlink_compat.h"

#ifdef IPOIB_COMPAT_NEWLINK
#define ipoib_nl_newlink(ndev, params, extack)				      \
	IPOIB_NEWLINK(ipoib_nl_newlink, __ipoib_nl_newlink, ndev, params, extack)
#endif

/* 6.13: gro_flush_timeout is a setting of each NAPI. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/netdevice.h>

#define gro_flush_timeout	dev->gro_flush_timeout
#endif

/* Whose kind a dump of generic netlink finds */
#define ipoib_compat_dumped(ndev)	((ndev)->type == ARPHRD_INFINIBAND)
#include "genl_compat.h"

/* 6.13: symbol namespaces are strings; before, there was nothing to import. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/module.h>

#undef MODULE_IMPORT_NS
#define MODULE_IMPORT_NS(ns)	static_assert(sizeof(ns))
#endif

/* 6.13: net_dim() takes a pointer to the sample. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#include <linux/dim.h>

#define net_dim(dim, sample)	net_dim(dim, *(sample))
#endif

/* 6.10: per-queue statistics, which older kernels don't use */
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

/* Assign it to an unused variable instead. */
#define stat_ops	watchdog_timeo += 0, ipoib_compat_stat_ops
#endif

/* 6.8: the NAPI that serves a queue */
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

/* 6.4: BQL completion and waking of the queue in one call */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#include <net/netdev_queues.h>

#ifndef __netif_txq_completed_wake
/* Without BQL the only barrier is that of __netif_txq_maybe_wake(). */
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

/* 6.3: the callback's number of paths is unsigned */
#include <rdma/ib_sa.h>

#define ib_sa_path_rec_get(client, device, port, rec, mask, timeout, gfp,     \
			   callback, context, query)			      \
	ib_sa_path_rec_get(client, device, port, rec, mask, timeout, gfp,     \
			   (void (*)(int status, struct sa_path_rec *resp,    \
				     int num_prs, void *ctx))(callback),      \
			   context, query)
#endif

#endif /* IPOIB_COMPAT_H */
