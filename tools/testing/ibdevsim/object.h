/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_OBJECT_H
#define IBDEVSIM_OBJECT_H

#include "ibdevsim.h"

struct seq_file;

/* PDs, AHs and regions of user space per HCA; of other objects it gets half. */
#define IBDS_USER_OBJECTS	65536
/* Attachments of QPs of user space to groups, per HCA. */
#define IBDS_USER_ATTACHMENTS	16384

extern struct workqueue_struct *ibds_datapath_wq;
extern struct workqueue_struct *ibds_user_wq;

int ibds_datapath_init(void);
void ibds_datapath_exit(void);

bool ibds_object_fails(atomic_t *error, atomic_t *skip);
int ibds_object_reserve(struct ibds_dev *dev, enum ibds_kind kind, bool user);
int ibds_object_get(struct ibds_dev *dev, enum ibds_kind kind, bool user);
void ibds_object_put(struct ibds_dev *dev, enum ibds_kind kind, bool user);
int ibds_user_charge(struct ibds_dev *dev, u64 bytes);
void ibds_user_uncharge(struct ibds_dev *dev, u64 bytes);
void ibds_command_wait(struct ibds_dev *dev, u32 ms);
void ibds_command_wait_us(struct ibds_dev *dev, u32 us);
void ibds_objects_show(struct seq_file *m, struct ibds_dev *dev);

/**
 * ibds_wq_of - the work queue for an object's work
 * @user: it is user space's
 *
 * Return: the work queue.
 */
static inline struct workqueue_struct *ibds_wq_of(bool user)
{
	return user ? ibds_user_wq : ibds_datapath_wq;
}

/* Memory of users is accounted to their control group. */
static inline gfp_t ibds_gfp(bool user)
{
	return user ? GFP_KERNEL_ACCOUNT | __GFP_NOWARN : GFP_KERNEL;
}

#endif /* IBDEVSIM_OBJECT_H */
