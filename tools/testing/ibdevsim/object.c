// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: limits of verbs objects, faults of calls, the work queue of the
 * datapath
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/seq_file.h>

#include "object.h"

struct workqueue_struct *ibds_datapath_wq;
struct workqueue_struct *ibds_user_wq;

/* Memory that users of all HCAs have */
static atomic64_t ibds_user_bytes = ATOMIC64_INIT(0);

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
 * ibds_command_wait - delay a command, until faults are lifted at most
 * @dev: HCA
 * @ms: milliseconds
 *
 * Context: process.
 */
void ibds_command_wait(struct ibds_dev *dev, u32 ms)
{
	if (ms)
		wait_event_timeout(dev->hurry, READ_ONCE(dev->lifted),
				   msecs_to_jiffies(ms) + 1);
}

/**
 * ibds_command_wait_us - the same for a time that is usually short
 * @dev: HCA
 * @us: microseconds
 *
 * Context: process.
 */
void ibds_command_wait_us(struct ibds_dev *dev, u32 us)
{
	if (us < 10 * USEC_PER_MSEC)
		fsleep(us);
	else
		ibds_command_wait(dev, us / USEC_PER_MSEC);
}

/* The maximum number of objects of a kind, 0: no limit. */
static u32 ibds_object_max(const struct ibds_dev *dev, enum ibds_kind kind)
{
	switch (kind) {
	case IBDS_QP:
	case IBDS_SRQ:
		return dev->caps.max_qp;
	case IBDS_CQ:
		return dev->caps.max_cq;
	case IBDS_MR:
		return IBDS_MAX_MR;
	default:
		return 0;
	}
}

/* User space must not be able to take all that the kernel needs. */
static u32 ibds_object_user_max(const struct ibds_dev *dev, enum ibds_kind kind)
{
	switch (kind) {
	case IBDS_QP:
	case IBDS_SRQ:
	case IBDS_CQ:
		return ibds_object_max(dev, kind) / 2;
	case IBDS_GROUP:
		return IBDS_USER_ATTACHMENTS;
	default:
		return IBDS_USER_OBJECTS;
	}
}

static bool ibds_object_count(atomic_t *num, u32 max)
{
	if (atomic_inc_return(num) <= max || !max)
		return true;
	atomic_dec(num);
	return false;
}

/**
 * ibds_object_reserve - count an object, whatever the faults for creation say
 * @dev: HCA
 * @kind: kind of object
 * @user: it is user space's
 *
 * Return: 0, or -ENOMEM if there cannot be another one.
 */
int ibds_object_reserve(struct ibds_dev *dev, enum ibds_kind kind, bool user)
{
	if (user && !ibds_object_count(&dev->user_objects[kind],
				       ibds_object_user_max(dev, kind)))
		return -ENOMEM;
	if (ibds_object_count(&dev->objects[kind], ibds_object_max(dev, kind)))
		return 0;
	if (user)
		atomic_dec(&dev->user_objects[kind]);
	return -ENOMEM;
}

/**
 * ibds_object_get - count an object that is about to be created
 * @dev: HCA
 * @kind: kind of object
 * @user: it is user space's
 *
 * Return: 0, or -errno if there cannot be another one.
 */
int ibds_object_get(struct ibds_dev *dev, enum ibds_kind kind, bool user)
{
	struct ibds_faults *faults = &dev->port[0].faults;

	if (READ_ONCE(dev->fatal))
		return -EIO;
	if (ibds_object_fails(&faults->create_error, &faults->create_skip))
		return -ENOMEM;
	return ibds_object_reserve(dev, kind, user);
}

/**
 * ibds_object_put - an object is gone, or was not created after all
 * @dev: HCA
 * @kind: kind of object
 * @user: it was user space's
 */
void ibds_object_put(struct ibds_dev *dev, enum ibds_kind kind, bool user)
{
	if (user)
		atomic_dec(&dev->user_objects[kind]);
	atomic_dec(&dev->objects[kind]);
}

static bool ibds_charge(atomic64_t *from, u64 bytes, u64 limit)
{
	s64 used = atomic64_read(from);

	/* Never above the limit, not even for a moment: others would fail. */
	do {
		if (bytes > limit || used + bytes > limit)
			return false;
	} while (!atomic64_try_cmpxchg(from, &used, used + bytes));
	return true;
}

/**
 * ibds_user_charge - take memory for an object of user space
 * @dev: HCA
 * @bytes: how much, 0 for the kernel's
 *
 * All HCAs together give users half of the machine's memory at most.  What the
 * user's control group allows is another limit.
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_user_charge(struct ibds_dev *dev, u64 bytes)
{
	u64 half = (u64)totalram_pages() << (PAGE_SHIFT - 1);

	if (!bytes)
		return 0;
	if (!ibds_charge(&dev->user_bytes, bytes,
			 (u64)dev->caps.user_mem << 20))
		return -ENOMEM;
	if (ibds_charge(&ibds_user_bytes, bytes, half))
		return 0;
	atomic64_sub(bytes, &dev->user_bytes);
	return -ENOMEM;
}

/**
 * ibds_user_uncharge - undo ibds_user_charge()
 * @dev: HCA
 * @bytes: how much
 */
void ibds_user_uncharge(struct ibds_dev *dev, u64 bytes)
{
	atomic64_sub(bytes, &ibds_user_bytes);
	atomic64_sub(bytes, &dev->user_bytes);
}

static const char * const ibds_kind_names[IBDS_KINDS] = {
	[IBDS_UCONTEXT] = "ucontext",
	[IBDS_PD] = "pd",
	[IBDS_AH] = "ah",
	[IBDS_MR] = "mr",
	[IBDS_CQ] = "cq",
	[IBDS_SRQ] = "srq",
	[IBDS_QP] = "qp",
	[IBDS_GROUP] = "group",
};

/**
 * ibds_objects_show - print how many objects there are, and what users have
 * @m: file to print to
 * @dev: HCA
 */
void ibds_objects_show(struct seq_file *m, struct ibds_dev *dev)
{
	int i;

	for (i = 0; i < IBDS_KINDS; i++)
		seq_printf(m, "%s %d %d\n", ibds_kind_names[i],
			   atomic_read(&dev->objects[i]),
			   atomic_read(&dev->user_objects[i]));
	seq_printf(m, "user_bytes %lld\n",
		   (s64)atomic64_read(&dev->user_bytes));
}

/**
 * ibds_datapath_init - create the datapath's work queues
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_datapath_init(void)
{
	/* Flushed from WQ_MEM_RECLAIM work queues, so it has to be one. */
	ibds_datapath_wq = alloc_workqueue("ibdevsim",
					   WQ_MEM_RECLAIM | WQ_HIGHPRI |
					   WQ_PERCPU, 0);
	if (!ibds_datapath_wq)
		return -ENOMEM;
	/*
	 * What user space causes does not go before anything else, and leaves
	 * half of the CPUs alone.
	 */
	ibds_user_wq = alloc_workqueue("ibdevsim_user",
				       WQ_MEM_RECLAIM | WQ_UNBOUND,
				       max(num_online_cpus() / 2, 1U));
	if (ibds_user_wq)
		return 0;
	destroy_workqueue(ibds_datapath_wq);
	return -ENOMEM;
}

/**
 * ibds_datapath_exit - destroy the datapath's work queues; no HCA is left
 */
void ibds_datapath_exit(void)
{
	destroy_workqueue(ibds_user_wq);
	destroy_workqueue(ibds_datapath_wq);
}
