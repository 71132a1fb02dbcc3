// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files in /sys/class/net/<interface>: mode, pkey, umcast for all, create_child
 * and delete_child for a port's own interface, parent for its children
 *
 * Writers need CAP_NET_ADMIN, as with other files of a network device, and
 * rtnl.  The files are removed under rtnl, which waits for the writers.  So a
 * writer that does not get rtnl at once starts over, and none waits for the
 * last reference on a net_device, as rtnl_unlock() would after deleting one:
 * ipoib_child_delete() leaves that to a work item.
 *
 * The writer may be root of a container: log only numbers, never the text that
 * was written, and at a limited rate.
 */
#include <linux/rtnetlink.h>
#include <linux/sysfs.h>

#include "ipoib.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_settings.h"
#include "ipoib_sysfs.h"
#include "ipoib_vlan.h"

static struct ipoib_dev *ipoib_from_device(struct device *d)
{
	return ipoib_priv(to_net_dev(d));
}

static int ipoib_sysfs_permit(struct net_device *ndev)
{
	return ns_capable(dev_net(ndev)->user_ns, CAP_NET_ADMIN) ? 0 : -EPERM;
}

/* Check permission and take rtnl. */
static int ipoib_sysfs_lock(struct net_device *ndev)
{
	int ret = ipoib_sysfs_permit(ndev);

	return ret ?: rtnl_trylock() ? 0 : restart_syscall();
}

static ssize_t mode_show(struct device *d, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  READ_ONCE(ipoib_from_device(d)->connected) ?
			  "connected" : "datagram");
}

static ssize_t mode_store(struct device *d, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct ipoib_dev *dev = ipoib_from_device(d);
	struct netlink_ext_ack extack = { };
	bool connected;
	int ret;

	if (sysfs_streq(buf, "datagram"))
		connected = false;
	else if (sysfs_streq(buf, "connected"))
		connected = true;
	else
		return -EINVAL;
	ret = ipoib_sysfs_lock(dev->ndev);
	if (ret)
		return ret;
	ret = ipoib_dev_set_mode(dev, connected, &extack);
	rtnl_unlock();
	if (ret)
		net_ratelimited_function(netdev_warn, dev->ndev,
					 "mode not changed: %s\n",
					 extack._msg);
	return ret ?: count;
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
	struct ipoib_dev *dev = ipoib_from_device(d);
	bool on;
	int ret;

	ret = kstrtobool(buf, &on);
	if (ret)
		return ret;
	ret = ipoib_sysfs_lock(dev->ndev);
	if (ret)
		return ret;
	ipoib_dev_set_umcast(dev, on);
	rtnl_unlock();
	return count;
}

static int ipoib_sysfs_create(struct ipoib_dev *parent, u16 number)
{
	int ret;

	if (!rtnl_trylock())
		return restart_syscall();
	ret = ipoib_child_create(parent, number);
	rtnl_unlock();
	return ret;
}

static int ipoib_sysfs_delete(struct ipoib_dev *parent, u16 number)
{
	int ret = ipoib_child_delete(parent, number);

	return ret == -EAGAIN ? restart_syscall() : ret;
}

/* A P_Key was written: have @todo create or delete its child. */
static ssize_t ipoib_child_store(struct device *d, const char *buf,
				 size_t count, const char *done,
				 int (*todo)(struct ipoib_dev *parent,
					     u16 number))
{
	struct net_device *ndev = to_net_dev(d);
	u16 number;
	int ret;

	ret = ipoib_pkey_parse(buf, &number);
	if (ret)
		return ret;
	ret = ipoib_sysfs_permit(ndev);
	if (ret)
		return ret;
	ret = todo(ipoib_priv(ndev), number);
	if (ret && ret != -ERESTARTNOINTR)
		net_ratelimited_function(netdev_warn, ndev,
					 "child with P_Key %#06x not %s: %pe\n",
					 number, done, ERR_PTR(ret));
	return ret ?: count;
}

static ssize_t create_child_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	return ipoib_child_store(d, buf, count, "created", ipoib_sysfs_create);
}

static ssize_t delete_child_store(struct device *d,
				  struct device_attribute *attr,
				  const char *buf, size_t count)
{
	return ipoib_child_store(d, buf, count, "deleted", ipoib_sysfs_delete);
}

static ssize_t parent_show(struct device *d, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  ipoib_from_device(d)->port->parent->name);
}

static DEVICE_ATTR_RW(mode);
static DEVICE_ATTR_RO(pkey);
static DEVICE_ATTR_RW(umcast);
static DEVICE_ATTR_WO(create_child);
static DEVICE_ATTR_WO(delete_child);
static DEVICE_ATTR_RO(parent);

static struct attribute *ipoib_sysfs_attrs[] = {
	&dev_attr_mode.attr,
	&dev_attr_pkey.attr,
	&dev_attr_umcast.attr,
	&dev_attr_create_child.attr,
	&dev_attr_delete_child.attr,
	&dev_attr_parent.attr,
	NULL
};

static umode_t ipoib_sysfs_visible(struct kobject *kobj, struct attribute *attr,
				   int index)
{
	bool child = ipoib_is_child(ipoib_from_device(kobj_to_dev(kobj)));

	if (attr == &dev_attr_parent.attr)
		return child ? attr->mode : 0;
	if (attr == &dev_attr_create_child.attr ||
	    attr == &dev_attr_delete_child.attr)
		return child ? 0 : attr->mode;
	return attr->mode;
}

const struct attribute_group ipoib_sysfs_group = {
	.attrs = ipoib_sysfs_attrs,
	.is_visible = ipoib_sysfs_visible,
};
