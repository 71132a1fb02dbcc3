/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sysfs
 */
#ifndef IPOIB_SYSFS_H
#define IPOIB_SYSFS_H

struct attribute_group;

extern const struct attribute_group ipoib_sysfs_group;

#endif /* IPOIB_SYSFS_H */
