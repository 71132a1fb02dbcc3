/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_OBJECT_H
#define IBDEVSIM_OBJECT_H

#include "ibdevsim.h"

extern struct workqueue_struct *ibds_datapath_wq;

int ibds_datapath_init(void);
void ibds_datapath_exit(void);

bool ibds_object_fails(atomic_t *error, atomic_t *skip);
int ibds_object_get(struct ibds_dev *dev, atomic_t *num, u32 max);
void ibds_command_wait(u32 ms);

#endif /* IBDEVSIM_OBJECT_H */
