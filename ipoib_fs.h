/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * debugfs
 */
#ifndef IPOIB_FS_H
#define IPOIB_FS_H

struct ipoib_dev;

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG)
void ipoib_fs_init(void);
void ipoib_fs_exit(void);
void ipoib_fs_add(struct ipoib_dev *dev);
void ipoib_fs_del(struct ipoib_dev *dev);
#else
static inline void ipoib_fs_init(void) { }
static inline void ipoib_fs_exit(void) { }
static inline void ipoib_fs_add(struct ipoib_dev *dev) { }
static inline void ipoib_fs_del(struct ipoib_dev *dev) { }
#endif

#endif /* IPOIB_FS_H */
