// SPDX-License-Identifier: GPL-2.0-only
/*
 * Child interfaces: one partition of a port each
 *
 * A child is an interface like its parent, with a P_Key of its own; it shares
 * the layers below (CQs, NAPI, receive buffers, paths) with the whole port.
 * Children are created by rtnetlink, with any name and P_Key, or by writing a
 * P_Key to the parent's file create_child, which chooses the name.  Both ways
 * end in ipoib_child_register().
 *
 * Deleting a QP means waiting for the HCA.  So code that closes or deletes many
 * children starts draining all QPs, and waits afterwards: the waits overlap,
 * and one barrier of the channel is enough for all of them.
 *
 * Locks: rtnl covers the children of a port: all are created and deleted under
 * it, so ipoib_port.devs may be walked under rtnl as well as the port's lock.
 */
#include <linux/rtnetlink.h>

#include "ipoib.h"
#include "ipoib_dev.h"
#include "ipoib_netdev.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_vlan.h"

/* ---- creation ----------------------------------------------------------- */

/**
 * ipoib_child_prepare - make a net_device an interface for a partition of a port
 * @parent: the port's own interface, registered
 * @ndev: with ipoib_link_ops.setup, not registered.  To be released by
 *	ipoib_netdev_release() also if this fails
 * @pkey: P_Key, full membership bit set
 * @guid: one of the port's GUIDs, for the address; 0: that of the parent
 * @extack: gets the reason of an error, may be NULL
 *
 * Context: rtnl.
 * Return: 0 or -errno
 */
int ipoib_child_prepare(struct ipoib_dev *parent, struct net_device *ndev,
			u16 pkey, __be64 guid, struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev;
	int ret;

	ASSERT_RTNL();
	if (parent->ndev->reg_state != NETREG_REGISTERED) {
		NL_SET_ERR_MSG(extack, "The parent is being removed");
		return -ENODEV;
	}
	/* The HCA's own interface may have others. */
	ndev->ethtool_ops = parent->ndev->ethtool_ops;
	ret = ipoib_netdev_prepare(ndev, parent->port, pkey);
	if (ret == -ERANGE)
		NL_SET_ERR_MSG(extack, "The port does not allow that MTU");
	else if (ret == -ENOMEM)
		NL_SET_ERR_MSG(extack, "Out of memory, or of the HCA's resources");
	else if (ret)
		NL_SET_ERR_MSG(extack, "The HCA refuses");
	if (ret)
		return ret;
	dev = ipoib_priv(ndev);
	dev->guid = guid ? ipoib_port_guid(parent->port, guid) : parent->guid;
	return 0;
}

/**
 * ipoib_child_trim_txqs - limit the transmit queues of a child to those it needs
 * @parent: the port's own interface
 * @ndev: child's net_device, not registered; it may have got as many queues as any
 *	HCA may want, those behind are freed with the rest
 * @want: as many were asked for, 0: one, or as many as @parent uses of those of an
 *	HCA's own interface
 *
 * The kernel gives each queue a qdisc, of some 24 KiB where it is not used.
 */
void ipoib_child_trim_txqs(const struct ipoib_dev *parent,
			   struct net_device *ndev, u32 want)
{
	if (!want)
		want = parent->port->enhanced ?
		       parent->ndev->real_num_tx_queues : 1;
	ndev->num_tx_queues = min(ndev->num_tx_queues, want);
	ndev->real_num_tx_queues = ndev->num_tx_queues;
}

/**
 * ipoib_child_register - register an interface for a partition of a port
 * @dev: after ipoib_child_prepare()
 * @extack: gets the reason of an error, may be NULL
 *
 * Context: rtnl.
 * Return: 0, or -errno: then @dev may be gone, and its net_device is to be released
 *	by ipoib_netdev_release()
 */
int ipoib_child_register(struct ipoib_dev *dev, struct netlink_ext_ack *extack)
{
	const struct net_device *parent = dev->port->parent;
	bool enhanced = dev->port->enhanced;
	struct net_device *ndev = dev->ndev;
	int ret;

	ASSERT_RTNL();
	ndev->needs_free_netdev = true;
	ret = register_netdevice(ndev);
	/* If this failed @dev may be gone. */
	if (ret == -ENOSPC)
		NL_SET_ERR_MSG(extack,
			       "The HCA has no CQ with room for another interface");
	else if (ret == -ENOMEM)
		NL_SET_ERR_MSG(extack,
			       "Out of memory, or of the HCA's QPs or CQs");
	else if (ret && enhanced && !net_eq(dev_net(ndev), dev_net(parent)))
		NL_SET_ERR_MSG(extack,
			       "The HCA's own interface may want children in its namespace: create it there, then move it");
	else if (ret && enhanced)
		NL_SET_ERR_MSG(extack,
			       "The HCA's own interface can't have such a child: the kernel log may say why");
	else if (ret)
		NL_SET_ERR_MSG(extack, "The interface can't be registered");
	return ret;
}

/* ---- by sysfs ----------------------------------------------------------- */

/**
 * ipoib_child_create - create a child as create_child does
 * @parent: the port's own interface
 * @number: P_Key as written, with or without the membership bit
 *
 * The name is made of the first ten characters of the parent's name and the
 * number as it was written; guides and scripts rely on it.
 *
 * Context: rtnl.
 * Return: 0, -ENOTUNIQ if the port has an interface with that P_Key, or -errno
 */
int ipoib_child_create(struct ipoib_dev *parent, u16 number)
{
	u16 pkey = ipoib_pkey_full(number);
	const struct rtnl_link_ops *ops = parent->ndev->rtnl_link_ops;
	struct net_device *ndev;
	struct ipoib_dev *dev;
	char name[IFNAMSIZ];
	int ret;

	ASSERT_RTNL();
	list_for_each_entry(dev, &parent->port->devs, port_entry)
		if (dev->pkey == pkey)
			return -ENOTUNIQ;

	snprintf(name, sizeof(name), "%.10s.%04x", parent->ndev->name, number);
	ndev = ipoib_netdev_alloc(parent->port, name, NET_NAME_PREDICTABLE, 1,
				  1, ops->setup);
	if (IS_ERR(ndev))
		return PTR_ERR(ndev);
	ipoib_child_trim_txqs(parent, ndev, 0);
	dev_net_set(ndev, dev_net(parent->ndev));
	ndev->rtnl_link_ops = ops;
	ret = ipoib_child_prepare(parent, ndev, pkey, 0, NULL);
	if (ret)
		goto err_free;
	dev = ipoib_priv(ndev);
	dev->by_sysfs = true;
	dev->umcast = parent->umcast;
	ret = ipoib_child_register(dev, NULL);
	if (ret)
		goto err_free;
	return 0;

err_free:
	ipoib_netdev_release(ndev);
	free_netdev(ndev);
	return ret;
}

/* -ENODEV: no child with that P_Key was created by create_child. */
static int ipoib_child_unregister(struct ipoib_dev *parent, u16 number)
{
	u16 pkey = ipoib_pkey_full(number);
	struct ipoib_dev *dev;

	ASSERT_RTNL();
	list_for_each_entry(dev, &parent->port->devs, port_entry) {
		if (dev->by_sysfs && dev->pkey == pkey) {
			unregister_netdevice(dev->ndev);
			return 0;
		}
	}
	return -ENODEV;
}

/*
 * struct ipoib_child_delete - a writer waits for a child to be deleted
 * @work: deletes it
 * @done: @ret is final, and @work no longer uses this structure
 * @parent: the port's own interface
 * @number: P_Key
 * @ret: result
 */
struct ipoib_child_delete {
	struct work_struct work;
	struct completion done;
	struct ipoib_dev *parent;
	u16 number;
	int ret;
};

/*
 * rtnl_unlock() waits for the last reference on the child.  Its holder may want
 * rtnl, and a holder of rtnl may wait for a writer to delete_child: so this is
 * not done by the writer.  It is woken once the child is unregistered.
 */
static void ipoib_child_delete_work(struct work_struct *work)
{
	struct ipoib_child_delete *del =
		container_of(work, struct ipoib_child_delete, work);

	/* The writer must not wait for rtnl, either. */
	if (!rtnl_trylock()) {
		complete(&del->done);
		return;
	}
	del->ret = ipoib_child_unregister(del->parent, del->number);
	complete(&del->done);
	rtnl_unlock();
}

/**
 * ipoib_child_delete - delete a child as delete_child does
 * @parent: the port's own interface, which can't go away before this returns
 * @number: P_Key, with or without the membership bit
 *
 * When it returns 0 the child is unregistered; its memory is freed later.
 *
 * Context: process, without rtnl; does not wait for it.
 * Return: 0, -ENODEV if create_child created none with that P_Key, or -EAGAIN
 *	if rtnl is taken
 */
int ipoib_child_delete(struct ipoib_dev *parent, u16 number)
{
	struct ipoib_child_delete del = {
		.parent = parent,
		.number = number,
		.ret = -EAGAIN,
	};

	init_completion(&del.done);
	INIT_WORK_ONSTACK(&del.work, ipoib_child_delete_work);
	/*
	 * Not on ipoib_wq, since memory reclaim may wait for its work, and this
	 * waits for all that unregistering a net_device waits for.
	 */
	queue_work(ipoib_delete_wq, &del.work);
	/* All workers may be waiting for the last reference on a child. */
	while (!wait_for_completion_timeout(&del.done, HZ))
		if (cancel_work(&del.work))
			break;
	destroy_work_on_stack(&del.work);
	return del.ret;
}

/* ---- removal ------------------------------------------------------------ */

/**
 * ipoib_port_unregister - remove all interfaces of a port
 * @port: port
 *
 * Except for the parent, they are freed with their last reference.
 */
void ipoib_port_unregister(struct ipoib_port *port)
{
	struct ipoib_dev *dev;
	LIST_HEAD(list);

	rtnl_lock();
	list_for_each_entry(dev, &port->devs, port_entry) {
		ipoib_dev_stop_begin(dev);
		if (ipoib_is_child(dev))
			unregister_netdevice_queue(dev->ndev, &list);
	}
	unregister_netdevice_queue(port->parent, &list);
	unregister_netdevice_many(&list);
	rtnl_unlock();
}
