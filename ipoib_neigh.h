/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Neighbours of an interface
 */
#ifndef IPOIB_NEIGH_H
#define IPOIB_NEIGH_H

#include <linux/types.h>
#include <rdma/ib_sa.h>

struct ipoib_ah;
struct ipoib_dev;
struct ipoib_dump;
struct ipoib_last;
struct ipoib_link;
struct sk_buff;

/**
 * struct ipoib_dest - destination of a packet; valid under RCU
 * @ah: address handle for datagrams
 * @qpn: destination QPN
 * @link: its link, NULL if it accepts no connections
 */
struct ipoib_dest {
	struct ipoib_ah *ah;
	u32 qpn;
	struct ipoib_link *link;
};

/**
 * struct ipoib_neigh_stats - counters of an interface's neighbours
 * @num: neighbours, now
 * @evicted: removed to make room for others
 * @refused: not created, because all others were in use
 */
struct ipoib_neigh_stats {
	u32 num;
	u64 evicted;
	u64 refused;
};

int ipoib_neigh_init(struct ipoib_dev *dev);
void ipoib_neigh_exit(struct ipoib_dev *dev);
void ipoib_neigh_open(struct ipoib_dev *dev);
void ipoib_neigh_stop(struct ipoib_dev *dev);
void ipoib_neigh_set_mode(struct ipoib_dev *dev, bool connected);
bool ipoib_neigh_set_gid(struct ipoib_dev *dev, const union ib_gid *gid);
bool ipoib_neigh_lookup(struct ipoib_dev *dev, struct ipoib_last *last,
			struct sk_buff *skb, const u8 *addr, __be16 proto,
			struct ipoib_dest *dest);
bool ipoib_neigh_link(struct ipoib_dev *dev, const u8 *addr,
		      struct ipoib_link **link);
int ipoib_neigh_record(struct ipoib_dev *dev, struct ipoib_link *link,
		       struct sa_path_rec *rec, bool doubt);
void ipoib_neigh_learn(struct ipoib_dev *dev, const u8 *addr, u16 slid);
int ipoib_neigh_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump);
void ipoib_neigh_get_stats(const struct ipoib_dev *dev,
			   struct ipoib_neigh_stats *stats);

#endif /* IPOIB_NEIGH_H */
