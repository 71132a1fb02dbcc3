// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: limits of verbs objects, faults of calls, the work queue of the
 * datapath
 */
#include <linux/delay.h>

#include "object.h"

struct workqueue_struct *ibds_datapath_wq;

/**
 * ibds_object_fails - check whether a fault makes this call fail
 * @error: number of calls yet to fail
 * @skip: number of calls to succeed before that
 *
 * Return: true if it does.
 */
bool ibds_object_fails(atomic_t *error, atomic_t *skip)
{
	return atomic_read(error) && atomic_dec_if_positive(skip) < 0 &&
	       atomic_dec_if_positive(error) >= 0;
}

/**
 * ibds_command_wait - delay a command
 * @ms: milliseconds
 *
 * Context: process.
 */
void ibds_command_wait(u32 ms)
{
	if (ms)
		msleep(ms);
}

/**
 * ibds_object_get - count an object that is about to be created
 * @dev: HCA
 * @num: number of objects of its kind
 * @max: maximum of that, 0: no limit
 *
 * Return: 0, or -errno if there cannot be another one.
 */
int ibds_object_get(struct ibds_dev *dev, atomic_t *num, u32 max)
{
	struct ibds_faults *faults = &dev->port[0].faults;

	if (READ_ONCE(dev->fatal))
		return -EIO;
	if (ibds_object_fails(&faults->create_error, &faults->create_skip))
		return -ENOMEM;
	if (atomic_inc_return(num) > max && max) {
		atomic_dec(num);
		return -ENOMEM;
	}
	return 0;
}

/**
 * ibds_datapath_init - create the datapath's work queue
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_datapath_init(void)
{
	/* Flushed from WQ_MEM_RECLAIM work queues, so it has to be one. */
	ibds_datapath_wq = alloc_workqueue("ibdevsim",
					   WQ_MEM_RECLAIM | WQ_HIGHPRI |
					   WQ_PERCPU, 0);
	return ibds_datapath_wq ? 0 : -ENOMEM;
}

/**
 * ibds_datapath_exit - destroy the datapath's work queue; no HCA is left
 */
void ibds_datapath_exit(void)
{
	destroy_workqueue(ibds_datapath_wq);
}
