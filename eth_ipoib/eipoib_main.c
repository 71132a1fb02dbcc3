// SPDX-License-Identifier: GPL-2.0-only
/*
 * Module, and the events of lower interfaces
 */
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/rtnetlink.h>

#include "eipoib_genl.h"
#include "eipoib_group.h"
#include "eipoib_guest.h"
#include "eipoib_link.h"
#include "eipoib_lower.h"
#include "eipoib_netdev.h"
#include "eipoib_peer.h"

#define CREATE_TRACE_POINTS
#include "eipoib_trace.h"

MODULE_DESCRIPTION("Ethernet on top of IP over InfiniBand");
MODULE_LICENSE("GPL");

struct workqueue_struct *eipoib_wq;

/* The lower interface has another address: so have all guests, to peers. */
static void eipoib_lower_moved(struct eipoib_dev *dev)
{
	if (!netif_running(dev->ndev))
		return;
	eipoib_peers_readdress(dev);
	eipoib_guests_readdress(dev);
}

/*
 * It is removed, or moves to another namespace: in that one the hook is
 * registered again.
 */
static void eipoib_lower_leaves(struct eipoib_dev *dev)
{
	LIST_HEAD(list);

	if (dev->lower->reg_state != NETREG_UNREGISTERING) {
		eipoib_lower_unhook(dev);
		eipoib_groups_away(dev, true);
		return;
	}
	eipoib_dellink(dev->ndev, &list);
	unregister_netdevice_many(&list);
}

/* It is in another namespace, or was when there was no memory for a hook. */
static void eipoib_lower_rehook(struct eipoib_dev *dev)
{
	if (!dev->hooked && eipoib_lower_hook(dev))
		netdev_warn(dev->ndev,
			    "does not see what this host sends until %s is down and up again\n",
			    dev->lower->name);
}

static int eipoib_event(struct notifier_block *nb, unsigned long event,
			void *ptr)
{
	struct net_device *lower = netdev_notifier_info_to_dev(ptr);
	struct eipoib_dev *dev = eipoib_on_lower(lower);
	struct netdev_notifier_info_ext *info = ptr;

	if (!dev)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UP:
		eipoib_lower_rehook(dev);
		fallthrough;
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		netif_stacked_transfer_operstate(lower, dev->ndev);
		eipoib_note_carrier(dev);
		break;
	case NETDEV_CHANGEMTU:
		eipoib_follow_mtu(dev->ndev, info->ext.mtu);
		break;
	case NETDEV_CHANGEADDR:
		eipoib_lower_moved(dev);
		break;
	case NETDEV_NOTIFY_PEERS:
		if (netif_running(dev->ndev))
			eipoib_guests_readdress(dev);
		break;
	case NETDEV_FEAT_CHANGE:
		eipoib_follow_features(dev);
		break;
	case NETDEV_REGISTER:
		eipoib_lower_rehook(dev);
		eipoib_groups_away(dev, false);
		break;
	case NETDEV_UNREGISTER:
		eipoib_lower_leaves(dev);
		break;
	case NETDEV_PRE_TYPE_CHANGE:
		/* IPoIB says so when the broadcast address changes. */
		if (netif_is_bond_master(lower))
			return NOTIFY_BAD;
		break;
	case NETDEV_POST_TYPE_CHANGE:
		eipoib_guests_reclaim(dev);
		eipoib_lower_moved(dev);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block eipoib_notifier = {
	.notifier_call = eipoib_event,
};

static int __init eipoib_module_init(void)
{
	int ret;

	eipoib_wq = alloc_workqueue("eth_ipoib", WQ_UNBOUND, 0);
	if (!eipoib_wq)
		return -ENOMEM;
	ret = register_netdevice_notifier(&eipoib_notifier);
	if (ret)
		goto err_wq;
	ret = rtnl_link_register(&eipoib_link_ops);
	if (ret)
		goto err_notifier;
	ret = eipoib_genl_init();
	if (ret)
		goto err_link;
	return 0;

err_link:
	rtnl_link_unregister(&eipoib_link_ops);
err_notifier:
	unregister_netdevice_notifier(&eipoib_notifier);
err_wq:
	destroy_workqueue(eipoib_wq);
	return ret;
}

static void __exit eipoib_module_exit(void)
{
	eipoib_genl_exit();
	rtnl_link_unregister(&eipoib_link_ops);
	unregister_netdevice_notifier(&eipoib_notifier);
	destroy_workqueue(eipoib_wq);
	rcu_barrier();
}

module_init(eipoib_module_init);
module_exit(eipoib_module_exit);
