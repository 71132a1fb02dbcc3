// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recorder of executed code: of all contexts, for the fuzzer
 *
 * KCOV records what the calling task runs, and other contexts only where the
 * code names the task they work for.  What packets, events and answers set off
 * in this driver runs in interrupts, work items and timers of several modules,
 * all the time for nobody in particular.  So the modules under test, compiled
 * with -fsanitize-coverage=trace-pc,trace-cmp, have a function each,
 * cover_point.c, that records every block in one table, whoever runs it.  This
 * needs no option of the kernel's configuration.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "cover.h"

/* There as long as modules are that refer to it */
struct cover_area *cover_area;
EXPORT_SYMBOL_GPL(cover_area);

static int cover_mmap(struct file *file, struct vm_area_struct *vma)
{
	return remap_vmalloc_range(vma, cover_area, vma->vm_pgoff);
}

static const struct file_operations cover_fops = {
	.owner = THIS_MODULE,
	.mmap = cover_mmap,
};

static struct miscdevice cover_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ipoib_cover",
	.fops = &cover_fops,
	.mode = 0600,
};

static int __init cover_init(void)
{
	int err;

	cover_area = vmalloc_user(sizeof(*cover_area));
	if (!cover_area)
		return -ENOMEM;
	err = misc_register(&cover_misc);
	if (err)
		vfree(cover_area);
	return err;
}

static void __exit cover_exit(void)
{
	misc_deregister(&cover_misc);
	vfree(cover_area);
}

module_init(cover_init);
module_exit(cover_exit);
MODULE_DESCRIPTION("Recorder of executed code, for tests");
MODULE_LICENSE("GPL");
