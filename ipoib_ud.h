/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Datagram engine
 */
#ifndef IPOIB_UD_H
#define IPOIB_UD_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct ipoib_dev;
struct ipoib_txq;
struct ipoib_ud_group;

/**
 * struct ipoib_ud_stats - counters that no current queue has
 * @restarts: times the QPs were rebuilt
 * @packets: sent by queues that were removed
 * @bytes: bytes of these
 * @stops: how often those queues were full
 */
struct ipoib_ud_stats {
	u64 restarts;
	u64 packets;
	u64 bytes;
	u64 stops;
};

int ipoib_ud_init(struct ipoib_dev *dev);
void ipoib_ud_exit(struct ipoib_dev *dev);
int ipoib_ud_create(struct ipoib_dev *dev);
void ipoib_ud_destroy(struct ipoib_dev *dev);
int ipoib_ud_start(struct ipoib_dev *dev);
int ipoib_ud_alloc_txqs(struct ipoib_dev *dev, u32 size, struct ipoib_txq **spare);
int ipoib_ud_replace_txqs(struct ipoib_dev *dev, struct ipoib_txq **spare);
int ipoib_ud_add_txqs(struct ipoib_dev *dev, u32 num);
void ipoib_ud_drop_txqs(struct ipoib_dev *dev, u32 num);
void ipoib_ud_stop_begin(struct ipoib_dev *dev);
void ipoib_ud_stop(struct ipoib_dev *dev);
int ipoib_ud_restart(struct ipoib_dev *dev);
int ipoib_ud_repair(struct ipoib_dev *dev);
int ipoib_ud_set_link(struct ipoib_dev *dev, u32 max_len, u32 qkey);
int ipoib_ud_attach(struct ipoib_dev *dev, struct ipoib_ud_group *group,
		    const union ib_gid *mgid, __be16 mlid);
void ipoib_ud_detach(struct ipoib_dev *dev, struct ipoib_ud_group *group);
void ipoib_ud_get_stats(const struct ipoib_dev *dev,
			struct ipoib_ud_stats *stats);

#endif /* IPOIB_UD_H */
