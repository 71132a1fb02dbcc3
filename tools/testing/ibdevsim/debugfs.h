/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_DEBUGFS_H
#define IBDEVSIM_DEBUGFS_H

#include "fabric.h"
#include "ibdevsim.h"

void ibds_debugfs_init(void);
void ibds_debugfs_exit(void);
void ibds_debugfs_add(struct ibds_dev *dev);
void ibds_debugfs_del(struct ibds_dev *dev);
void ibds_debugfs_add_switch(struct ibds_switch *sw);
void ibds_debugfs_del_switch(struct ibds_switch *sw);

#endif /* IBDEVSIM_DEBUGFS_H */
