// SPDX-License-Identifier: GPL-2.0-only
/*
 * debugfs: ipoib/<interface>_mcg, ipoib/<interface>_path and
 * ipoib/<interface>_conn
 *
 * Files are named as the interface is; if another network namespace holds one
 * of the same name, the port's name is put in front.
 */
#include <linux/debugfs.h>
#include <linux/rhashtable.h>
#include <linux/seq_file.h>

#include "ipoib.h"

static struct dentry *ipoib_fs_root;

static int mcg_show(struct seq_file *m, void *unused)
{
	struct ipoib_dev *dev = m->private;
	struct ipoib_mcast *group;

	spin_lock_bh(&dev->mcast.lock);
	list_for_each_entry(group, &dev->mcast.list, entry) {
		seq_printf(m, "GID: %pI6\n", group->mgid.raw);
		seq_printf(m, "  created: %10ld\n", group->created);
		seq_printf(m, "  queuelen: %9d\n",
			   skb_queue_len(&group->waiting));
		seq_printf(m, "  complete: %9s\n",
			   rcu_access_pointer(group->ah) ? "yes" : "no");
		seq_printf(m, "  send_only: %8s\n",
			   group->sendonly ? "yes" : "no");
		seq_printf(m, "  state: %12s\n",
			   ipoib_mcast_state_name(group->state));
		seq_printf(m, "  mlid: %#13x\n\n", be16_to_cpu(group->mlid));
	}
	spin_unlock_bh(&dev->mcast.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mcg);

static void ipoib_fs_show_record(struct seq_file *m, struct ipoib_path *path)
{
	int rate = ib_rate_to_mbps(path->rec.rate);

	seq_printf(m, "  DLID: %#12x\n",
		   be32_to_cpu(sa_path_get_dlid(&path->rec)));
	seq_printf(m, "  SL: %14d\n", path->rec.sl);
	seq_printf(m, "  rate: %8d.%d Gb/sec\n", rate / 1000,
		   rate % 1000 / 100);
}

static int path_show(struct seq_file *m, void *unused)
{
	struct ipoib_dev *dev = m->private;
	struct ipoib_port *port = dev->port;
	struct ipoib_path *path;

	spin_lock_bh(&port->path_lock);
	list_for_each_entry(path, &port->paths, entry) {
		bool known = rcu_access_pointer(path->ah);

		if (be16_to_cpu(path->key.pkey) != dev->pkey)
			continue;
		seq_printf(m, "GID: %pI6\n", path->key.dgid.raw);
		seq_printf(m, "  complete: %8s\n", known ? "yes" : "no");
		seq_printf(m, "  state: %11s\n",
			   ipoib_path_state_name(path->state));
		if (known)
			ipoib_fs_show_record(m, path);
		seq_putc(m, '\n');
	}
	spin_unlock_bh(&port->path_lock);
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
 * ipoib_fs_add - make the files of a new interface
 * @dev: registered interface
 *
 * Namespaces may have interfaces of the same name; debugfs is one for all.
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
