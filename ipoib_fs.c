// SPDX-License-Identifier: GPL-2.0-only
/*
 * debugfs: ipoib/<interface>_mcg, ipoib/<interface>_path,
 * ipoib/<interface>_conn and ipoib/<interface>_state
 *
 * Files are named after the interface; if another network namespace has one
 * of the same name, the port's name is prepended.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_dev.h"
#include "ipoib_ethtool.h"
#include "ipoib_fs.h"
#include "ipoib_multicast.h"
#include "ipoib_path.h"
#include "ipoib_port.h"

static struct dentry *ipoib_fs_root;

static int mcg_show(struct seq_file *m, void *unused)
{
	ipoib_mcast_show(m, m->private);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mcg);

static int path_show(struct seq_file *m, void *unused)
{
	ipoib_path_show(m, m->private);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(path);

static int conn_show(struct seq_file *m, void *unused)
{
	return ipoib_cm_show(m, m->private);
}
DEFINE_SHOW_ATTRIBUTE(conn);

static int state_show(struct seq_file *m, void *unused)
{
	ipoib_dev_show(m, m->private);
	ipoib_stats_show(m, m->private);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(state);

#define IPOIB_FS_PREFIX	(IB_DEVICE_NAME_MAX + 24)
#define IPOIB_FS_NAME	(IPOIB_FS_PREFIX + IFNAMSIZ + 8)

static bool ipoib_fs_taken(const char *prefix, const char *base)
{
	char name[IPOIB_FS_NAME];
	struct dentry *file;

	snprintf(name, sizeof(name), "%s%s_mcg", prefix, base);
	file = debugfs_lookup(name, ipoib_fs_root);
	if (IS_ERR_OR_NULL(file))
		return false;
	dput(file);
	return true;
}

static struct dentry *ipoib_fs_file(struct ipoib_dev *dev, const char *prefix,
				    const char *what,
				    const struct file_operations *fops)
{
	char name[IPOIB_FS_NAME];

	snprintf(name, sizeof(name), "%s%s_%s", prefix, dev->ndev->name, what);
	return debugfs_create_file(name, 0444, ipoib_fs_root, dev, fops);
}

/**
 * ipoib_fs_add - create the files of a new interface
 * @dev: registered interface
 *
 * Namespaces may have interfaces of the same name, but share debugfs.
 *
 * Context: rtnl.
 */
void ipoib_fs_add(struct ipoib_dev *dev)
{
	const char *ca = dev_name(&dev->port->ca->dev);
	char prefix[IPOIB_FS_PREFIX] = "";
	u32 port = dev->port->num, n;

	for (n = 0; ipoib_fs_taken(prefix, dev->ndev->name); n++) {
		if (!n)
			snprintf(prefix, sizeof(prefix), "%s.%u.", ca, port);
		else
			snprintf(prefix, sizeof(prefix), "%s.%u.%u.", ca, port,
				 n);
	}
	dev->debugfs[0] = ipoib_fs_file(dev, prefix, "mcg", &mcg_fops);
	dev->debugfs[1] = ipoib_fs_file(dev, prefix, "path", &path_fops);
	dev->debugfs[3] = ipoib_fs_file(dev, prefix, "state", &state_fops);
	if (dev->cm)
		dev->debugfs[2] = ipoib_fs_file(dev, prefix, "conn",
						&conn_fops);
}

/**
 * ipoib_fs_del - remove them; waits for readers
 * @dev: interface
 */
void ipoib_fs_del(struct ipoib_dev *dev)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(dev->debugfs); i++) {
		debugfs_remove(dev->debugfs[i]);
		dev->debugfs[i] = NULL;
	}
}

void ipoib_fs_init(void)
{
	ipoib_fs_root = debugfs_create_dir(IPOIB_KIND, NULL);
}

void ipoib_fs_exit(void)
{
	debugfs_remove(ipoib_fs_root);
}
