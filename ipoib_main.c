// SPDX-License-Identifier: GPL-2.0-only
/*
 * IP over InfiniBand: module, HCAs and their ports
 *
 * Each InfiniBand port gets a parent interface.  Opening it starts the port's
 * channel, its QP and the joins; later events of the HCA are handled by a work
 * item per interface.
 *
 * Lock order, outermost first:
 *
 *	rtnl
 *	ipoib_dev.lock		state, commands and events of an interface
 *	ipoib_enhanced.lock	state of the HCA's interface, attachments
 *	ipoib_ud.lock		state of the QP, multicast attachments
 *	ipoib_cm.run		setup and teardown of connections (not with
 *				ipoib_ud.lock)
 *	ipoib_port.lock		interfaces of a port, users of its channel
 *	ipoib_paths.answer_lock	responses of the SA (taken alone)
 *	netdev TX lock, address list lock
 *	ipoib_mcasts.lock
 *	ipoib_paths.lock	paths of a port, neighbours of its interfaces
 *	ipoib_link.lock		a neighbour's connection
 *	ipoib_cm.lock		connections of an interface
 *	ipoib_ahs.lock		address handles waiting to be destroyed
 *
 * The first seven are mutexes, the rest spinlocks taken with BHs disabled.
 *
 * Packets wait for paths, groups, connections and links, and writeback (NFS,
 * swap) may wait for these packets.  So the code that sets those up, work on
 * ipoib_wq and callbacks, uses memalloc_noio_save(): its allocations must not
 * wait for writeback.
 *
 * Work that takes rtnl (ipoib_dev.link_work) holds a reference on the device
 * and is never waited for; rtnl is never held while waiting for the fabric.
 */
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <net/addrconf.h>
#include <net/rtnetlink.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_sa.h>

#define CREATE_TRACE_POINTS
#include "ipoib_trace.h"

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_debug.h"
#include "ipoib_dev.h"
#include "ipoib_enhanced.h"
#include "ipoib_ethtool.h"
#include "ipoib_fs.h"
#include "ipoib_genl.h"
#include "ipoib_lost.h"
#include "ipoib_netdev.h"
#include "ipoib_netlink.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_settings.h"
#include "ipoib_vlan.h"

MODULE_DESCRIPTION("IP over InfiniBand");
MODULE_LICENSE("GPL");

unsigned int ipoib_sendq_size __read_mostly = 128;
module_param_named(send_queue_size, ipoib_sendq_size, uint, 0444);
MODULE_PARM_DESC(send_queue_size, "Send queue size in packets (64-8192)");

unsigned int ipoib_recvq_size __read_mostly = 256;
module_param_named(recv_queue_size, ipoib_recvq_size, uint, 0444);
MODULE_PARM_DESC(recv_queue_size, "Receive queue size in buffers (2-8192)");

static int ipoib_use_enhanced = 1;
module_param_named(ipoib_enhanced, ipoib_use_enhanced, int, 0444);
MODULE_PARM_DESC(ipoib_enhanced, "Use an HCA's own interface if it has one (default 1)");

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG)
int ipoib_debug_level;
module_param_named(debug_level, ipoib_debug_level, int, 0644);
MODULE_PARM_DESC(debug_level, "Log debug messages if > 0");

int ipoib_mcast_debug_level;
module_param_named(mcast_debug_level, ipoib_mcast_debug_level, int, 0644);
MODULE_PARM_DESC(mcast_debug_level, "Log multicast joins if > 0");
#endif

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG_DATA)
int ipoib_data_debug_level;
module_param_named(data_debug_level, ipoib_data_debug_level, int, 0644);
MODULE_PARM_DESC(data_debug_level, "Log each packet if > 0");
#endif

#ifdef IPOIB_INTEROP
static char *ipoib_ignore_devices;
module_param_named(ignore_devices, ipoib_ignore_devices, charp, 0444);
MODULE_PARM_DESC(ignore_devices, "Comma-separated list of HCAs to ignore");
#else
#define ipoib_ignore_devices NULL
#endif

struct workqueue_struct *ipoib_wq;
struct workqueue_struct *ipoib_delete_wq;
struct ib_sa_client ipoib_sa;

/* ---- registration of net_devices ---------------------------------------- */

/* Set up and remove what exists while an interface is registered. */
static int ipoib_netdev_event(struct notifier_block *nb, unsigned long event,
			      void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);

	if (!ipoib_netdev_is_ours(ndev))
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_REGISTER:
		/* Not earlier: only unregistering frees the XPS maps. */
		ipoib_dev_spread(ipoib_priv(ndev));
		ipoib_fs_add(ipoib_priv(ndev));
		ipoib_dev_registered(ipoib_priv(ndev));
		break;
	case NETDEV_CHANGE:
		ipoib_dev_changed(ipoib_priv(ndev));
		break;
	case NETDEV_CHANGENAME:
		ipoib_fs_del(ipoib_priv(ndev));
		ipoib_fs_add(ipoib_priv(ndev));
		break;
	case NETDEV_UNREGISTER:
		ipoib_fs_del(ipoib_priv(ndev));
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block ipoib_netdev_notifier = {
	.notifier_call = ipoib_netdev_event,
};

/* ---- ib_client ---------------------------------------------------------- */

/* The ports of an HCA, client data of our ib_client. */
struct ipoib_ca {
	u32 num;
	struct ipoib_port *port[] __counted_by(num);
};

static struct ib_client ipoib_client;

static int ipoib_make_parent(struct ipoib_port *port, u16 pkey)
{
	struct net_device *ndev;
	int ret;

	ndev = ipoib_netdev_alloc(port, "ib%d", NET_NAME_ENUM,
				  ipoib_port_spread(port, IPOIB_MAX_TXQS),
				  ipoib_channels_fit(port),
				  ipoib_link_ops.setup);
	if (IS_ERR(ndev))
		return PTR_ERR(ndev);
	port->parent = ndev;
	/* Only for the parent: to the stack, children are virtual. */
	SET_NETDEV_DEV(ndev, port->ca->dev.parent);
	ndev->rtnl_link_ops = &ipoib_link_ops;
	if (port->enhanced)
		ndev->ethtool_ops = &ipoib_enhanced_ethtool_ops;
	ret = ipoib_netdev_prepare(ndev, port, pkey);
	if (!ret && !port->enhanced)
		ret = ipoib_channels_create(port, ndev->num_rx_queues);
	return ret ?: register_netdev(ndev);
}

/*
 * Undo what ipoib_make_parent() did before it failed.  If QPs are left, so is what
 * they use: then the port has to be destroyed.
 */
static void ipoib_drop_parent(struct ipoib_port *port)
{
	if (!port->parent)
		return;
	ipoib_netdev_release(port->parent);
	if (!ipoib_lost_exit(port))
		return;
	ipoib_channels_destroy(port);
	free_netdev(port->parent);
	port->parent = NULL;
}

static int ipoib_register_parent(struct ipoib_port *port, u16 pkey)
{
	int ret = ipoib_make_parent(port, pkey);

	if (ret)
		ipoib_drop_parent(port);
	return ret;
}

static void ipoib_warn_enhanced(const struct ipoib_port *port, int err)
{
	dev_warn(&port->ca->dev,
		 "port %u: can't use the HCA's own interface: %pe\n", port->num,
		 ERR_PTR(err));
}

/* May the HCA's own interface be used?  Say so, and why. */
static bool ipoib_choose_enhanced(struct ipoib_port *port)
{
	int ret = ipoib_enhanced_ask(port->ca, port->num, ipoib_use_enhanced);

	if (ret == -EOPNOTSUPP)
		return false;
	if (!ipoib_use_enhanced)
		dev_info(&port->ca->dev,
			 "port %u: not using the HCA's own interface: ipoib_enhanced=0\n",
			 port->num);
	else if (ret)
		ipoib_warn_enhanced(port, ret);
	return !ret && ipoib_use_enhanced;
}

/*
 * Create the port's own interface; on error the port has to be destroyed.  If it
 * can't be the HCA's own, it is one by verbs: another net_device, as the HCA has
 * changed the first.
 */
static int ipoib_add_parent(struct ipoib_port *port)
{
	u16 pkey;
	int ret;

	ret = ib_query_pkey(port->ca, port->num, 0, &pkey);
	if (ret)
		return ret;
	pkey = ipoib_pkey_full(pkey);
	port->enhanced = ipoib_choose_enhanced(port);
	ret = ipoib_register_parent(port, pkey);
	if (!ret || !port->enhanced) {
		if (port->enhanced)
			netdev_info(port->parent, "using the HCA's own interface\n");
		return ret;
	}
	ipoib_warn_enhanced(port, ret);
	if (port->parent)
		return ret;
	port->enhanced = false;
	return ipoib_register_parent(port, pkey);
}

static struct ipoib_port *ipoib_add_port(struct ib_device *ca, u32 num)
{
	struct ipoib_port *port;
	int ret;

	port = ipoib_port_create(ca, num);
	if (IS_ERR(port))
		return port;
	ret = ipoib_add_parent(port);
	if (!ret)
		return port;
	ipoib_port_silence(port);
	ipoib_port_destroy(port);
	return ERR_PTR(ret);
}

static void ipoib_remove_port(struct ipoib_port *port)
{
	ipoib_port_silence(port);
	ipoib_port_unregister(port);
	ipoib_port_destroy(port);
}

static int ipoib_add_one(struct ib_device *ca)
{
	struct ipoib_ca *data;
	u32 n = 0;
	u32 num;

	if (ipoib_name_listed(ipoib_ignore_devices, dev_name(&ca->dev)))
		return -EOPNOTSUPP;
	data = kzalloc_flex(*data, port, ca->phys_port_cnt);
	if (!data)
		return -ENOMEM;
	data->num = ca->phys_port_cnt;
	rdma_for_each_port(ca, num) {
		struct ipoib_port *port;

		if (!rdma_protocol_ib(ca, num))
			continue;
		port = ipoib_add_port(ca, num);
		if (IS_ERR(port)) {
			dev_warn(&ca->dev, "port %u: no IPoIB: %pe\n", num,
				 port);
			continue;
		}
		data->port[n++] = port;
	}
	data->num = n;
	if (!n) {
		kfree(data);
		return -EOPNOTSUPP;
	}
	ib_set_client_data(ca, &ipoib_client, data);
	return 0;
}

static void ipoib_remove_one(struct ib_device *ca, void *client_data)
{
	struct ipoib_ca *data = client_data;
	u32 i;

	for (i = 0; i < data->num; i++)
		ipoib_remove_port(data->port[i]);
	kfree(data);
}

static bool ipoib_has_addr4(struct net_device *ndev, __be32 addr)
{
	const struct in_ifaddr *ifa;
	struct in_device *in_dev = __in_dev_get_rcu(ndev);

	if (in_dev)
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			if (ifa->ifa_local == addr)
				return true;
	return false;
}

static bool ipoib_has_addr6(struct net_device *ndev,
			    const struct in6_addr *addr)
{
	return IS_ENABLED(CONFIG_IPV6) &&
	       ipv6_chk_addr(dev_net(ndev), addr, ndev, 1);
}

static bool ipoib_has_addr(struct net_device *ndev,
			   const struct sockaddr *addr)
{
	const struct sockaddr_in6 *sin6 = (const void *)addr;
	const struct sockaddr_in *sin = (const void *)addr;

	if (addr->sa_family == AF_INET)
		return ipoib_has_addr4(ndev, sin->sin_addr.s_addr);
	return addr->sa_family == AF_INET6 &&
	       ipoib_has_addr6(ndev, &sin6->sin6_addr);
}

/* The interface an address belongs to: this one, or a bond on top of it. */
static struct net_device *ipoib_addr_owner(struct net_device *ndev,
					   const struct sockaddr *addr)
{
	struct net_device *upper;

	if (!addr || ipoib_has_addr(ndev, addr))
		return ndev;
	upper = netdev_master_upper_dev_get_rcu(ndev);
	return upper && ipoib_has_addr(upper, addr) ? upper : NULL;
}

/* Find the interface by GID and P_Key, then by IP address. */
static struct net_device *ipoib_port_match(struct ipoib_port *port, u16 pkey,
					   const union ib_gid *gid,
					   const struct sockaddr *addr)
{
	struct net_device *any = NULL, *owner = NULL;
	struct ipoib_dev *dev;

	mutex_lock(&port->lock);
	rcu_read_lock();
	list_for_each_entry(dev, &port->devs, port_entry) {
		/* Only registered ones are waited for when they are freed. */
		if (dev->ndev->reg_state != NETREG_REGISTERED ||
		    dev->pkey != ipoib_pkey_full(pkey) ||
		    (gid && memcmp(gid, &dev->local_gid, sizeof(*gid))))
			continue;
		any = any ?: dev->ndev;
		owner = ipoib_addr_owner(dev->ndev, addr);
		if (owner)
			break;
	}
	owner = owner ?: any;
	dev_hold(owner);
	rcu_read_unlock();
	mutex_unlock(&port->lock);
	return owner;
}

/* For rdma_cm: find the interface on which a connection request came in. */
static struct net_device *ipoib_find_net_dev(struct ib_device *ca, u32 num,
					     u16 pkey, const union ib_gid *gid,
					     const struct sockaddr *addr,
					     void *client_data)
{
	struct ipoib_ca *data = client_data;
	u32 i;

	for (i = 0; i < data->num; i++)
		if (data->port[i]->num == num)
			return ipoib_port_match(data->port[i], pkey, gid,
						addr);
	return NULL;
}

static struct ib_client ipoib_client = {
	.name			= IPOIB_KIND,
	.add			= ipoib_add_one,
	.remove			= ipoib_remove_one,
	.get_net_dev_by_params	= ipoib_find_net_dev,
};

/* ---- module ------------------------------------------------------------- */

static int __init ipoib_init_module(void)
{
	int ret;

	ipoib_sendq_size = ipoib_queue_size(ipoib_sendq_size, IPOIB_SENDQ_MIN,
					    IPOIB_QUEUE_MAX);
	ipoib_recvq_size = ipoib_queue_size(ipoib_recvq_size, IPOIB_QUEUE_MIN,
					    IPOIB_QUEUE_MAX);
	get_random_bytes(ipoib_hash_key, sizeof(ipoib_hash_key));
	ipoib_hash_key[2] |= 1;
	ipoib_wq = alloc_workqueue(IPOIB_NAME, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!ipoib_wq)
		return -ENOMEM;
	ipoib_delete_wq = alloc_workqueue(IPOIB_NAME "_delete", WQ_UNBOUND, 0);
	if (!ipoib_delete_wq) {
		ret = -ENOMEM;
		goto err_wq;
	}
	ipoib_fs_init();
	ib_sa_register_client(&ipoib_sa);
	ret = register_netdevice_notifier(&ipoib_netdev_notifier);
	if (ret)
		goto err_sa;
	ret = ipoib_genl_init();
	if (ret)
		goto err_notifier;
	ret = rtnl_link_register(&ipoib_link_ops);
	if (ret)
		goto err_genl;
	ret = ib_register_client(&ipoib_client);
	if (ret)
		goto err_link;
	return 0;

err_link:
	rtnl_link_unregister(&ipoib_link_ops);
err_genl:
	ipoib_genl_exit();
err_notifier:
	unregister_netdevice_notifier(&ipoib_netdev_notifier);
err_sa:
	ib_sa_unregister_client(&ipoib_sa);
	ipoib_fs_exit();
	destroy_workqueue(ipoib_delete_wq);
err_wq:
	destroy_workqueue(ipoib_wq);
	return ret;
}

static void __exit ipoib_exit_module(void)
{
	ib_unregister_client(&ipoib_client);
	rtnl_link_unregister(&ipoib_link_ops);
	ipoib_genl_exit();
	unregister_netdevice_notifier(&ipoib_netdev_notifier);
	/* Waits for the last callback of the SA client. */
	ib_sa_unregister_client(&ipoib_sa);
	ipoib_fs_exit();
	/* First: the children that it deletes have work on ipoib_wq. */
	destroy_workqueue(ipoib_delete_wq);
	destroy_workqueue(ipoib_wq);
	rcu_barrier();
}

module_init(ipoib_init_module);
module_exit(ipoib_exit_module);
