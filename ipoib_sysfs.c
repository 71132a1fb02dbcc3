// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files in /sys/class/net/<interface>: mode, pkey, umcast
 *
 * Writers need rtnl.  Blocking on it in a sysfs file could deadlock with the
 * file's removal, so a writer that does not get it at once starts over.
 */
#include <linux/rtnetlink.h>
#include <linux/sysfs.h>

#include "ipoib.h"

static struct ipoib_dev *ipoib_from_device(struct device *d)
{
	return ipoib_priv(to_net_dev(d));
}

static ssize_t mode_show(struct device *d, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "datagram\n");
}

static ssize_t mode_store(struct device *d, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct ipoib_dev *dev = ipoib_from_device(d);

	if (sysfs_streq(buf, "datagram"))
		return count;
	if (sysfs_streq(buf, "connected")) {
		netdev_warn_once(dev->ndev,
				 "connected mode is not supported\n");
		return -EOPNOTSUPP;
	}
	return -EINVAL;
}

static ssize_t pkey_show(struct device *d, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "0x%04x\n", ipoib_from_device(d)->pkey);
}

static ssize_t umcast_show(struct device *d, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  READ_ONCE(ipoib_from_device(d)->umcast));
}

static ssize_t umcast_store(struct device *d, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	bool on;
	int ret;

	ret = kstrtobool(buf, &on);
	if (ret)
		return ret;
	if (!rtnl_trylock())
		return restart_syscall();
	ret = ipoib_dev_set_umcast(ipoib_from_device(d), on);
	rtnl_unlock();
	return ret ?: count;
}

static DEVICE_ATTR_RW(mode);
static DEVICE_ATTR_RO(pkey);
static DEVICE_ATTR_RW(umcast);

static struct attribute *ipoib_sysfs_attrs[] = {
	&dev_attr_mode.attr,
	&dev_attr_pkey.attr,
	&dev_attr_umcast.attr,
	NULL
};

const struct attribute_group ipoib_sysfs_group = {
	.attrs = ipoib_sysfs_attrs,
};
