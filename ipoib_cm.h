/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connected mode (RFC 4755) of an interface
 */
#ifndef IPOIB_CM_H
#define IPOIB_CM_H

#include <linux/types.h>

struct ipoib_dev;
struct ipoib_dump;
struct seq_file;

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_CM)
int ipoib_cm_init(struct ipoib_dev *dev);
void ipoib_cm_exit(struct ipoib_dev *dev);
int ipoib_cm_enable(struct ipoib_dev *dev);
void ipoib_cm_disable(struct ipoib_dev *dev);
int ipoib_cm_start(struct ipoib_dev *dev);
void ipoib_cm_stop_begin(struct ipoib_dev *dev);
void ipoib_cm_stop(struct ipoib_dev *dev);
bool ipoib_cm_offload(struct ipoib_dev *dev);
void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on);
#define IPOIB_CM_STATS		20
void ipoib_cm_get_stat_names(u8 *data);
void ipoib_cm_get_stats(struct ipoib_dev *dev, u64 *data);
int ipoib_cm_show(struct seq_file *m, struct ipoib_dev *dev);
int ipoib_conn_dump(const struct ipoib_dev *dev, struct ipoib_dump *dump);
#else
static inline int ipoib_cm_init(struct ipoib_dev *dev) { return 0; }
static inline void ipoib_cm_exit(struct ipoib_dev *dev) { }
static inline int ipoib_cm_enable(struct ipoib_dev *dev)
{
	return -EOPNOTSUPP;
}

static inline void ipoib_cm_disable(struct ipoib_dev *dev) { }
static inline int ipoib_cm_start(struct ipoib_dev *dev) { return 0; }
static inline void ipoib_cm_stop_begin(struct ipoib_dev *dev) { }
static inline void ipoib_cm_stop(struct ipoib_dev *dev) { }
static inline bool ipoib_cm_offload(struct ipoib_dev *dev) { return false; }
static inline void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on) { }
#define IPOIB_CM_STATS		0
static inline void ipoib_cm_get_stat_names(u8 *data) { }
static inline void ipoib_cm_get_stats(struct ipoib_dev *dev, u64 *data) { }
static inline int ipoib_cm_show(struct seq_file *m, struct ipoib_dev *dev)
{
	return 0;
}

static inline int ipoib_conn_dump(const struct ipoib_dev *dev,
				  struct ipoib_dump *dump)
{
	return 0;
}

#endif

#endif /* IPOIB_CM_H */
