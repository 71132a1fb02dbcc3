// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module with defects, one for each detector that the tests rely on
 *
 * Writing the name of a defect to /sys/kernel/debug/broken/defect triggers it
 * in the writer's context.  For disposable virtual machines only.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/jiffies.h>
#include <linux/kfence.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/uaccess.h>

MODULE_DESCRIPTION("Defects that a debug kernel has to detect");
MODULE_LICENSE("GPL");

#define BROKEN_SIZE	64	/* a whole object: 6.1 checks no slack */
#define BROKEN_SECONDS	7

struct broken_fields {
	u32 index[4];
	u32 after[16];
};

struct broken_object {
	struct timer_list timer;
	struct list_head list;
	struct broken_fields fields;
};

static struct dentry *broken_dir;
static struct platform_device *broken_pdev;
static void __rcu *broken_rcu;
static netdevice_tracker broken_tracker;
static DEFINE_MUTEX(broken_first);
static DEFINE_MUTEX(broken_second);
static DEFINE_SPINLOCK(broken_lock);

/* Hide allocation and freeing from the compiler */
static noinline void *broken_alloc(size_t size)
{
	void *p = kzalloc(size, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(p);
	return p;
}

static noinline void broken_free(void *p)
{
	OPTIMIZER_HIDE_VAR(p);
	kfree(p);
}

/* Several, since a stack or a register may still point to the last one. */
static int broken_leak(void)
{
	void *p;
	int i;

	for (i = 0; i < 4; i++) {
		p = broken_alloc(BROKEN_SIZE);
		if (!p)
			return -ENOMEM;
		memset(p, i + 1, BROKEN_SIZE);
	}
	return 0;
}

static int broken_use_after_free(void)
{
	u8 *p = broken_alloc(BROKEN_SIZE);

	if (!p)
		return -ENOMEM;
	broken_free(p);
	READ_ONCE(p[3]);
	return 0;
}

static int broken_out_of_bounds(void)
{
	u8 *p = broken_alloc(BROKEN_SIZE);

	if (!p)
		return -ENOMEM;
	WRITE_ONCE(p[BROKEN_SIZE], 1);
	broken_free(p);
	return 0;
}

static int broken_double_free(void)
{
	void *p = broken_alloc(BROKEN_SIZE);

	broken_free(p);
	broken_free(p);
	return 0;
}

/* KFENCE guards only a sample of the objects: wait for one. */
static int broken_kfence(void)
{
	unsigned long end = jiffies + BROKEN_SECONDS * HZ;
	bool sampled;
	u8 *p;

	do {
		p = broken_alloc(BROKEN_SIZE);
		if (!p)
			return -ENOMEM;
		sampled = is_kfence_address(p);
		broken_free(p);
		if (sampled) {
			READ_ONCE(p[3]);
			return 0;
		}
		cond_resched();
	} while (time_before(jiffies, end));
	return -ENODEV;
}

static int broken_lock_order(void)
{
	mutex_lock(&broken_first);
	mutex_lock(&broken_second);
	mutex_unlock(&broken_second);
	mutex_unlock(&broken_first);

	mutex_lock(&broken_second);
	mutex_lock(&broken_first);
	mutex_unlock(&broken_first);
	mutex_unlock(&broken_second);
	return 0;
}

static int broken_sleep_in_atomic(void)
{
	spin_lock(&broken_lock);
	mutex_lock(&broken_first);
	mutex_unlock(&broken_first);
	spin_unlock(&broken_lock);
	return 0;
}

static int broken_schedule_in_atomic(void)
{
	preempt_disable();
	msleep(20);
	/* The scheduler complained and corrected the preempt count. */
	return 0;
}

static int broken_rcu_usage(void)
{
	return rcu_dereference(broken_rcu) ? -EBUSY : 0;
}

static int broken_bounds(void)
{
	struct broken_object *obj = broken_alloc(sizeof(*obj));
	unsigned int i = ARRAY_SIZE(obj->fields.index) + 1;

	if (!obj)
		return -ENOMEM;
	OPTIMIZER_HIDE_VAR(i);
	WRITE_ONCE(obj->fields.index[i], 1);
	broken_free(obj);
	return 0;
}

static int broken_shift(void)
{
	unsigned int by = 40;
	u32 one = 1;

	OPTIMIZER_HIDE_VAR(by);
	one <<= by;
	OPTIMIZER_HIDE_VAR(one);
	return 0;
}

static int broken_refcount(void)
{
	refcount_t count = REFCOUNT_INIT(1);

	return refcount_dec_and_test(&count) &&
	       refcount_dec_and_test(&count) ? -EBUSY : 0;
}

static int broken_fortify(void)
{
	struct broken_object *obj = broken_alloc(sizeof(*obj));
	static const u32 src[5];
	size_t size = sizeof(src);

	if (!obj)
		return -ENOMEM;
	OPTIMIZER_HIDE_VAR(size);
	memcpy(obj->fields.index, src, size);
	broken_free(obj);
	return 0;
}

static void broken_timer_fn(struct timer_list *timer)
{
}

static int broken_timer(void)
{
	struct broken_object *obj = broken_alloc(sizeof(*obj));

	if (!obj)
		return -ENOMEM;
	timer_setup(&obj->timer, broken_timer_fn, 0);
	mod_timer(&obj->timer, jiffies + 3600 * HZ);
	broken_free(obj);
	return 0;
}

static int broken_dma(void)
{
	dma_unmap_single(&broken_pdev->dev, PAGE_SIZE, 64, DMA_TO_DEVICE);
	return 0;
}

static int broken_netdev_ref(void)
{
	struct net_device *ndev = alloc_etherdev(0);

	if (!ndev)
		return -ENOMEM;
	netdev_hold(ndev, &broken_tracker, GFP_KERNEL);
	free_netdev(ndev);
	return 0;
}

static int broken_list(void)
{
	struct broken_object *obj = broken_alloc(sizeof(*obj));

	if (!obj)
		return -ENOMEM;
	INIT_LIST_HEAD(&obj->list);
	obj->list.prev = (void *)obj->fields.after;
	list_del(&obj->list);
	broken_free(obj);
	return 0;
}

static int broken_hung_task(void)
{
	schedule_timeout_uninterruptible(BROKEN_SECONDS * HZ);
	return 0;
}

static int broken_soft_lockup(void)
{
	unsigned long end = jiffies + BROKEN_SECONDS * HZ;

	preempt_disable();
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
	return 0;
}

static const struct broken_defect {
	const char *name;
	int (*func)(void);
} broken_defects[] = {
	{ "leak", broken_leak },
	{ "use-after-free", broken_use_after_free },
	{ "out-of-bounds", broken_out_of_bounds },
	{ "double-free", broken_double_free },
	{ "kfence", broken_kfence },
	{ "lock-order", broken_lock_order },
	{ "sleep-in-atomic", broken_sleep_in_atomic },
	{ "schedule-in-atomic", broken_schedule_in_atomic },
	{ "rcu-usage", broken_rcu_usage },
	{ "bounds", broken_bounds },
	{ "shift", broken_shift },
	{ "refcount", broken_refcount },
	{ "fortify", broken_fortify },
	{ "timer", broken_timer },
	{ "dma", broken_dma },
	{ "netdev-ref", broken_netdev_ref },
	{ "list", broken_list },
	{ "hung-task", broken_hung_task },
	{ "soft-lockup", broken_soft_lockup },
};

static ssize_t broken_write(struct file *file, const char __user *buf,
			    size_t count, loff_t *pos)
{
	char name[32];
	int i, ret;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, buf, count))
		return -EFAULT;
	name[count] = '\0';
	for (i = 0; i < ARRAY_SIZE(broken_defects); i++) {
		if (!sysfs_streq(name, broken_defects[i].name))
			continue;
		ret = broken_defects[i].func();
		return ret ?: count;
	}
	return -ENOENT;
}

static const struct file_operations broken_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= broken_write,
};

static int __init broken_init(void)
{
	broken_pdev = platform_device_register_simple("broken", -1, NULL, 0);
	if (IS_ERR(broken_pdev))
		return PTR_ERR(broken_pdev);
	broken_dir = debugfs_create_dir("broken", NULL);
	debugfs_create_file("defect", 0200, broken_dir, NULL, &broken_fops);
	return 0;
}
module_init(broken_init);

static void __exit broken_exit(void)
{
	debugfs_remove(broken_dir);
	platform_device_unregister(broken_pdev);
}
module_exit(broken_exit);
