// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: module, bus, creation and removal of HCAs
 *
 * HCAs are created and removed through two files of the bus, as with netdevsim:
 *
 *	/sys/bus/ibdevsim/new_device	<id> [key=value[,key=value...]]
 *	/sys/bus/ibdevsim/del_device	<id>
 *
 * The keys are those of caps.c.  An HCA is first registered with ib_core, then
 * cabled to the switch, so that QP0 exists before the SM can send requests.
 * del_device is a hot unplug: ib_core tells the clients of the HCA, which have
 * to release it.  Faults could keep them from that for ever; after
 * %IBDS_PATIENCE_MS those are lifted.
 *
 * ibds_bus_mutex serialises creation and removal and protects the list and
 * ibds_bus_open.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/device/bus.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "call.h"
#include "caps.h"
#include "client.h"
#include "cq.h"
#include "debugfs.h"
#include "dma.h"
#include "fault.h"
#include "line.h"
#include "link.h"
#include "mcast.h"
#include "mr.h"
#include "object.h"
#include "phc.h"
#include "qp.h"
#include "sma.h"
#include "switch.h"
#include "swmad.h"
#include "topo.h"
#include "verbs.h"

/*
 * Locally administered EUI-64s (IBA vol 1, 4.1): the bytes after the company
 * ID hold the HCA's number, the last byte the port's.
 */
#define IBDS_GUID_BASE		0x021bd50000000000ULL

/* How long the faults of an HCA that is removed stay in effect. */
#define IBDS_PATIENCE_MS	10000

static LIST_HEAD(ibds_devs);
static DEFINE_MUTEX(ibds_bus_mutex);
static bool ibds_bus_open;

static void ibds_bus_release(struct device *dev)
{
	kfree(dev);
}

static ssize_t new_device_store(const struct bus_type *bus, const char *buf,
				size_t count);
static ssize_t del_device_store(const struct bus_type *bus, const char *buf,
				size_t count);
static ssize_t new_switch_store(const struct bus_type *bus, const char *buf,
				size_t count);
static ssize_t del_switch_store(const struct bus_type *bus, const char *buf,
				size_t count);
static ssize_t link_store(const struct bus_type *bus, const char *buf,
			  size_t count);
static ssize_t unlink_store(const struct bus_type *bus, const char *buf,
			    size_t count);
static BUS_ATTR_WO(new_device);
static BUS_ATTR_WO(del_device);
static BUS_ATTR_WO(new_switch);
static BUS_ATTR_WO(del_switch);
static BUS_ATTR_WO(link);
static BUS_ATTR_WO(unlink);

static struct attribute *ibds_bus_attrs[] = {
	&bus_attr_new_device.attr,
	&bus_attr_del_device.attr,
	&bus_attr_new_switch.attr,
	&bus_attr_del_switch.attr,
	&bus_attr_link.attr,
	&bus_attr_unlink.attr,
	NULL
};
ATTRIBUTE_GROUPS(ibds_bus);

static int ibds_bus_num_vf(struct device *bus_dev)
{
	struct ibds_dev *dev = dev_get_drvdata(bus_dev);

	return dev->caps.vfs;
}

static struct bus_type ibds_bus = {
	.name = "ibdevsim",
	.dev_name = "ibdevsim",
	.num_vf = ibds_bus_num_vf,
	.bus_groups = ibds_bus_groups,
};

/* It has nothing to do, but rules of udev look for a device with a driver. */
static struct device_driver ibds_driver = {
	.name = "ibdevsim",
	.bus = &ibds_bus,
	.owner = THIS_MODULE,
	.suppress_bind_attrs = true,
};

static struct device *ibds_bus_dev_new(u32 id)
{
	struct device *dev;
	int err;

	dev = kzalloc_obj(*dev);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->id = id;
	dev->bus = &ibds_bus;
	dev->release = ibds_bus_release;
	err = device_register(dev);
	if (err) {
		put_device(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static void ibds_ports_exit(struct ibds_dev *dev, u32 ports)
{
	struct ibds_sw_port *was[IBDS_MAX_PORTS];
	u32 n;

	for (n = 0; n < ports; n++)
		was[n] = ibds_switch_detach(&dev->port[n]);
	/* Expedited: hot unplug should not add to the time its users take. */
	synchronize_rcu_expedited();
	for (n = 0; n < ports; n++) {
		if (was[n])
			ibds_line_purge(NULL, was[n]);
		ibds_port_exit(&dev->port[n]);
	}
}

static int ibds_ports_init(struct ibds_dev *dev)
{
	struct ibds_switch *sw = ibds_switch_find(dev->caps.sw);
	u32 n;
	int err;

	if (!sw && dev->caps.sw != IBDS_NO_SWITCH) {
		pr_err("no switch%u\n", dev->caps.sw);
		return -ENODEV;
	}
	for (n = 0; n < dev->caps.ports; n++) {
		err = ibds_port_init(&dev->port[n], dev, n + 1);
		if (err)
			goto err_ports;
		err = ibds_switch_attach(&dev->port[n], sw);
		if (err) {
			ibds_port_exit(&dev->port[n]);
			goto err_ports;
		}
	}
	return 0;

err_ports:
	ibds_ports_exit(dev, n);
	return err;
}

static void ibds_dev_identify(struct ibds_dev *dev, u32 id)
{
	dev->id = id;
	dev->node_guid = cpu_to_be64(IBDS_GUID_BASE + ((u64)(id + 1) << 8));
	dev->sys_guid = dev->node_guid;
	dev->ib.node_guid = dev->node_guid;
	snprintf(dev->ib.node_desc, sizeof(dev->ib.node_desc),
		 "ibdevsim%u HCA", id);
}

/* HCAs with rings of their own have a clock. */
static int ibds_dev_new_phc(struct ibds_dev *dev)
{
	struct ibds_phc *phc;

	if (dev->caps.rdma_netdev != IBDS_NETDEV_OWN)
		return 0;
	phc = ibds_phc_new(dev->dev, dev->id, dev->caps.phc_ms,
			   dev->caps.phc_ppb);
	if (IS_ERR(phc))
		return PTR_ERR(phc);
	dev->phc = phc;
	return 0;
}

/* Users of an HCA that is being removed have waited long enough. */
static void ibds_dev_lift(struct work_struct *work)
{
	struct ibds_dev *dev = container_of(work, struct ibds_dev, lift.work);
	u32 n;

	for (n = 0; n < dev->caps.ports; n++) {
		ibds_faults_lift(&dev->port[n]);
		ibds_qps_kick(&dev->port[n]);
	}
	ibds_qps_rouse(dev);
	ibds_cqs_update(dev);
	WRITE_ONCE(dev->lifted, true);
	ibds_cqs_release(dev);
	wake_up_all(&dev->hurry);
}

static struct ibds_dev *ibds_dev_alloc(u32 id, const struct ibds_caps *caps)
{
	struct ibds_dev *dev;
	int err;

	dev = ib_alloc_device(ibds_dev, ib);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->caps = *caps;
	spin_lock_init(&dev->live_lock);
	spin_lock_init(&dev->vf_lock);
	spin_lock_init(&dev->cq_lock);
	INIT_LIST_HEAD(&dev->cqs);
	init_waitqueue_head(&dev->hurry);
	INIT_DELAYED_WORK(&dev->lift, ibds_dev_lift);
	ibds_dev_identify(dev, id);
	dev->dev = ibds_bus_dev_new(id);
	if (IS_ERR(dev->dev)) {
		err = PTR_ERR(dev->dev);
		goto err_dealloc;
	}
	dev_set_drvdata(dev->dev, dev);
	dev->ib.dev.parent = dev->dev;
	err = dev->caps.dma ? ibds_dma_dev_new(dev) : 0;
	if (err)
		goto err_bus_dev;
	err = ibds_dev_new_phc(dev);
	if (err)
		goto err_dma_dev;
	err = ibds_verbs_setup(dev);
	if (err)
		goto err_phc;
	err = ibds_ports_init(dev);
	if (err)
		goto err_verbs;
	return dev;

err_verbs:
	ibds_verbs_release(dev);
err_phc:
	ibds_phc_free(dev->phc);
err_dma_dev:
	platform_device_unregister(dev->pdev);
err_bus_dev:
	device_unregister(dev->dev);
err_dealloc:
	ib_dealloc_device(&dev->ib);
	return ERR_PTR(err);
}

static void ibds_dev_free(struct ibds_dev *dev)
{
	struct device *bus_dev = dev->dev;
	struct platform_device *pdev = dev->pdev;

	ibds_ports_exit(dev, dev->caps.ports);
	ibds_verbs_release(dev);
	ibds_phc_free(dev->phc);
	ib_dealloc_device(&dev->ib);
	platform_device_unregister(pdev);
	device_unregister(bus_dev);
}

static void ibds_dev_cable(struct ibds_dev *dev, bool in)
{
	u32 n;

	for (n = 0; n < dev->caps.ports; n++)
		ibds_port_set_link(&dev->port[n], in);
}

/* Allow ibds_port_event() to raise events, or stop it. */
static void ibds_dev_set_live(struct ibds_dev *dev, bool live)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->live_lock, flags);
	dev->live = live;
	spin_unlock_irqrestore(&dev->live_lock, flags);
}

/* Faults that users of the HCA meet as soon as they hear of it. */
static void ibds_dev_set_faults(struct ibds_dev *dev)
{
	u32 n;

	for (n = 0; n < dev->caps.ports; n++) {
		dev->port[n].faults.netdev_refuse = dev->caps.netdev_refuse;
		atomic_set(&dev->port[n].faults.netdev_init_error,
			   dev->caps.netdev_init_error);
	}
}

static int ibds_dev_add(u32 id, const struct ibds_caps *caps)
{
	struct ibds_dev *dev;
	char name[IB_DEVICE_NAME_MAX];
	int err;

	dev = ibds_dev_alloc(id, caps);
	if (IS_ERR(dev)) {
		pr_err("ibdevsim%u: cannot create, error %pe\n", id, dev);
		return PTR_ERR(dev);
	}
	ibds_dev_set_faults(dev);
	snprintf(name, sizeof(name), "ibdevsim%u", id);
	err = ib_register_device(&dev->ib, name,
				 dev->pdev ? &dev->pdev->dev : NULL);
	if (err) {
		pr_err("%s: cannot register, error %d\n", name, err);
		ibds_dev_free(dev);
		return err;
	}
	list_add_tail(&dev->list, &ibds_devs);
	ibds_debugfs_add(dev);
	ibds_dev_set_live(dev, true);
	ibds_dev_cable(dev, true);
	return 0;
}

static void ibds_dev_del(struct ibds_dev *dev)
{
	list_del(&dev->list);
	ibds_debugfs_del(dev);
	ibds_dev_set_live(dev, false);
	schedule_delayed_work(&dev->lift, msecs_to_jiffies(IBDS_PATIENCE_MS));
	ib_unregister_device(&dev->ib);
	cancel_delayed_work_sync(&dev->lift);
	ibds_dev_cable(dev, false);
	ibds_dev_free(dev);
}

static struct ibds_dev *ibds_dev_find(u32 id)
{
	struct ibds_dev *dev;

	list_for_each_entry(dev, &ibds_devs, list)
		if (dev->id == id)
			return dev;
	return NULL;
}

static ssize_t new_device_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	struct ibds_caps caps;
	char *line;
	u32 id;
	int err;

	line = kstrndup(buf, count, GFP_KERNEL);
	if (!line)
		return -ENOMEM;
	err = ibds_caps_parse(line, &id, &caps);
	kfree(line);
	if (err)
		return err;

	mutex_lock(&ibds_bus_mutex);
	if (!ibds_bus_open) {
		err = -ENODEV;
	} else if (ibds_dev_find(id)) {
		pr_err("ibdevsim%u exists\n", id);
		err = -EEXIST;
	} else {
		err = ibds_dev_add(id, &caps);
	}
	mutex_unlock(&ibds_bus_mutex);
	return err ?: count;
}

static ssize_t del_device_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	struct ibds_dev *dev;
	u32 id;
	int err;

	err = kstrtou32(buf, 0, &id);
	if (err) {
		pr_err("del_device wants the number of an HCA\n");
		return err;
	}
	mutex_lock(&ibds_bus_mutex);
	dev = ibds_dev_find(id);
	if (dev) {
		ibds_dev_del(dev);
	} else {
		pr_err("no ibdevsim%u\n", id);
		err = -ENODEV;
	}
	mutex_unlock(&ibds_bus_mutex);
	return err ?: count;
}

/* Have a line that was written change the fabric's shape. */
static ssize_t ibds_topo_store(const char *buf, size_t count,
			       int (*store)(char *text))
{
	char *line = kstrndup(buf, count, GFP_KERNEL);
	int err;

	if (!line)
		return -ENOMEM;
	mutex_lock(&ibds_bus_mutex);
	err = ibds_bus_open ? store(line) : -ENODEV;
	mutex_unlock(&ibds_bus_mutex);
	kfree(line);
	return err ?: count;
}

static ssize_t new_switch_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	return ibds_topo_store(buf, count, ibds_topo_new_switch);
}

static ssize_t del_switch_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	return ibds_topo_store(buf, count, ibds_topo_del_switch);
}

static ssize_t link_store(const struct bus_type *bus, const char *buf,
			  size_t count)
{
	return ibds_topo_store(buf, count, ibds_topo_link);
}

static ssize_t unlink_store(const struct bus_type *bus, const char *buf,
			    size_t count)
{
	return ibds_topo_store(buf, count, ibds_topo_unlink);
}

/* No HCA is left: stop senders, then packets, then free what packets use. */
static void ibds_fabric_exit(void)
{
	ibds_topo_exit();
	ibds_debugfs_exit();
	ibds_call_exit();
	ibds_line_exit();
	ibds_switch_exit();
}

static int __init ibds_init(void)
{
	int err;

	ibds_mcast_init();
	err = ibds_datapath_init();
	if (err)
		return err;
	err = ibds_mr_init();
	if (err)
		goto err_datapath;
	err = ibds_line_init(ibds_pkt_due);
	if (err)
		goto err_mr;
	err = ibds_switch_init();
	if (err) {
		ibds_line_exit();
		goto err_mr;
	}
	ibds_debugfs_init();
	err = ibds_topo_init() ?: bus_register(&ibds_bus);
	if (err)
		goto err_fabric;
	err = driver_register(&ibds_driver);
	if (err)
		goto err_bus;
	err = ibds_client_init();
	if (err)
		goto err_driver;
	mutex_lock(&ibds_bus_mutex);
	ibds_bus_open = true;
	mutex_unlock(&ibds_bus_mutex);
	return 0;

err_driver:
	driver_unregister(&ibds_driver);
err_bus:
	bus_unregister(&ibds_bus);
err_fabric:
	ibds_fabric_exit();
err_mr:
	ibds_mr_exit();
err_datapath:
	ibds_datapath_exit();
	return err;
}

static void __exit ibds_exit(void)
{
	struct ibds_dev *dev, *next;

	mutex_lock(&ibds_bus_mutex);
	ibds_bus_open = false;
	list_for_each_entry_safe(dev, next, &ibds_devs, list)
		ibds_dev_del(dev);
	mutex_unlock(&ibds_bus_mutex);
	ibds_client_exit();
	driver_unregister(&ibds_driver);
	bus_unregister(&ibds_bus);
	ibds_fabric_exit();
	ibds_datapath_exit();
	ibds_mr_exit();
	/* Pending RCU callbacks point into this module. */
	rcu_barrier();
}

module_init(ibds_init);
module_exit(ibds_exit);
MODULE_DESCRIPTION("Simulated InfiniBand fabric");
MODULE_LICENSE("GPL");
