// SPDX-License-Identifier: GPL-2.0-only
/*
 * The net_device: operations, setup, timer
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/random.h>
#include <net/netdev_lock.h>

#include "eipoib_dhcp.h"
#include "eipoib_ethtool.h"
#include "eipoib_group.h"
#include "eipoib_guest.h"
#include "eipoib_netdev.h"
#include "eipoib_peer.h"
#include "eipoib_prefix.h"
#include "eipoib_query.h"
#include "eipoib_send.h"
#include "eipoib_tx.h"

#define EIPOIB_TICK	HZ		/* of the timer */
#define EIPOIB_TICK_ASK	(HZ / 10)	/* while guests are asked */

/* What the stack may leave to be done: the lower interface does it, or has it done. */
#define EIPOIB_FEATURES	(NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | \
			 NETIF_F_RXCSUM | NETIF_F_HIGHDMA | \
			 NETIF_F_GSO_SOFTWARE)

static netdev_tx_t eipoib_start_xmit(struct sk_buff *skb,
				     struct net_device *ndev)
{
	/* Some that bypass queues come late. */
	if (unlikely(!netif_running(ndev))) {
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	dev_sw_netstats_tx_add(ndev, 1, skb->len);
	eipoib_tx(eipoib_priv(ndev), skb);
	return NETDEV_TX_OK;
}

/* Send again what waited for its source address to be granted. */
static void eipoib_send_granted(struct eipoib_dev *dev,
				struct sk_buff_head *frames)
{
	struct sk_buff *skb;

	local_bh_disable();
	while ((skb = __skb_dequeue(frames))) {
		skb_push(skb, ETH_HLEN);
		eipoib_tx(dev, skb);
	}
	local_bh_enable();
}

/* Note whether anybody hears what is sent, and since when. */
static void eipoib_carrier(struct eipoib_dev *dev)
{
	bool deaf = !eipoib_is_heard(dev);

	lockdep_assert_held(&dev->lock);
	if (deaf == dev->deaf)
		return;
	dev->deaf = deaf;
	if (deaf) {
		eipoib_guests_deaf(dev);
	} else {
		eipoib_guests_heard(dev);
		eipoib_groups_heard(dev);
		eipoib_query_open(dev);
	}
	dev->since = jiffies;
}

/* The carrier may have changed.  With rtnl. */
void eipoib_note_carrier(struct eipoib_dev *dev)
{
	spin_lock_bh(&dev->lock);
	eipoib_carrier(dev);
	if (netif_running(dev->ndev))
		eipoib_kick(dev);
	spin_unlock_bh(&dev->lock);
}

static void eipoib_tick(struct work_struct *work)
{
	struct eipoib_dev *dev = container_of(work, struct eipoib_dev,
					      work.work);
	struct sk_buff_head frames;
	struct eipoib_batch batch;
	bool busy;

	eipoib_batch_init(&batch);
	__skb_queue_head_init(&frames);
	spin_lock_bh(&dev->lock);
	dev->kicked = false;
	eipoib_carrier(dev);
	eipoib_guests_tick(dev, &batch, &frames);
	eipoib_peers_tick(dev, &batch);
	eipoib_groups_tick(dev);
	eipoib_query_tick(dev, &batch);
	busy = eipoib_guests_busy(dev);
	spin_unlock_bh(&dev->lock);
	eipoib_batch_send(dev, &batch);
	eipoib_send_granted(dev, &frames);
	busy |= eipoib_groups_sync(dev);
	if (netif_running(dev->ndev))
		queue_delayed_work(eipoib_wq, &dev->work,
				   busy ? EIPOIB_TICK_ASK : EIPOIB_TICK);
}

static int eipoib_open(struct net_device *ndev)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);
	int ret = eipoib_groups_open(dev);

	if (ret) {
		eipoib_guests_flush(dev);
		eipoib_groups_close(dev);
		return ret;
	}
	eipoib_guests_open(dev);
	eipoib_query_open(dev);
	netif_stacked_transfer_operstate(dev->lower, ndev);
	queue_delayed_work(eipoib_wq, &dev->work, 0);
	return 0;
}

static int eipoib_stop(struct net_device *ndev)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	netif_carrier_off(ndev);
	/* Packets on their way find that it does not run. */
	synchronize_net();
	cancel_delayed_work_sync(&dev->work);
	eipoib_guests_flush(dev);
	eipoib_peers_flush(dev);
	eipoib_dhcp_flush(dev);
	/* What these have started is nothing more to do. */
	cancel_delayed_work_sync(&dev->work);
	eipoib_groups_close(dev);
	return 0;
}

static int eipoib_init(struct net_device *ndev)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);
	int ret = -ENOMEM;

	netdev_lockdep_set_classes(ndev);
	spin_lock_init(&dev->lock);
	mutex_init(&dev->joins);
	INIT_DELAYED_WORK(&dev->work, eipoib_tick);
	INIT_LIST_HEAD(&dev->group_list);
	eipoib_prefixes_init(dev);
	eipoib_share_init(&dev->errors, 100, 25);
	eipoib_limit(&dev->searches, 100);
	eipoib_share_init(&dev->moves, 10, 3);
	eipoib_share_init(&dev->reports, 100, 25);
	eipoib_share_init(&dev->sends, 50, 15);
	dev->sent_secret = get_random_u32();
	eipoib_mac_fill(dev->asker, EIPOIB_MAC_ASKER,
			get_unaligned((const __be32 *)(ndev->dev_addr + 2)));
	ndev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	dev->counts = netdev_alloc_pcpu_stats(struct eipoib_counts);
	if (!ndev->tstats || !dev->counts)
		goto err_percpu;
	ret = eipoib_guests_init(dev);
	if (ret)
		goto err_percpu;
	ret = eipoib_peers_init(dev);
	if (ret)
		goto err_guests;
	netdev_hold(dev->lower, &dev->tracker, GFP_KERNEL);
	return 0;

err_guests:
	eipoib_guests_exit(dev);
err_percpu:
	free_percpu(ndev->tstats);
	free_percpu(dev->counts);
	return ret;
}

static void eipoib_uninit(struct net_device *ndev)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	cancel_delayed_work_sync(&dev->work);
	eipoib_peers_exit(dev);
	eipoib_guests_exit(dev);
	/* What was joined while the interface failed to come up */
	eipoib_groups_close(dev);
	eipoib_prefixes_exit(dev);
}

/* Last: whoever reads statistics is gone. */
static void eipoib_free(struct net_device *ndev)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	free_percpu(ndev->tstats);
	free_percpu(dev->counts);
	netdev_put(dev->lower, &dev->tracker);
}

/* All frames are taken: those for guests, whose MACs are not known beforehand. */
static void eipoib_set_rx_mode(struct net_device *ndev)
{
}

/* The MACs of peers are made by interfaces like this one. */
static int eipoib_set_mac_address(struct net_device *ndev, void *addr)
{
	struct sockaddr *sa = addr;

	if (eipoib_mac_kind((const u8 *)sa->sa_data) != EIPOIB_MAC_OTHER)
		return -EADDRNOTAVAIL;
	return eth_mac_addr(ndev, addr);
}

static int eipoib_get_iflink(const struct net_device *ndev)
{
	return READ_ONCE(eipoib_priv(ndev)->lower->ifindex);
}

static const struct net_device_ops eipoib_netdev_ops = {
	.ndo_init		= eipoib_init,
	.ndo_uninit		= eipoib_uninit,
	.ndo_open		= eipoib_open,
	.ndo_stop		= eipoib_stop,
	.ndo_start_xmit		= eipoib_start_xmit,
	.ndo_set_rx_mode	= eipoib_set_rx_mode,
	.ndo_set_mac_address	= eipoib_set_mac_address,
	.ndo_validate_addr	= eth_validate_addr,
	.ndo_get_stats64	= dev_get_tstats64,
	.ndo_get_iflink		= eipoib_get_iflink,
	.ndo_features_check	= passthru_features_check,
};

/* Set up a net_device that is to be an interface. */
void eipoib_setup(struct net_device *ndev)
{
	ether_setup(ndev);
	ndev->netdev_ops = &eipoib_netdev_ops;
	ndev->ethtool_ops = &eipoib_ethtool_ops;
	ndev->needs_free_netdev = true;
	ndev->lltx = true;
	ndev->priv_destructor = eipoib_free;
	ndev->priv_flags &= ~IFF_TX_SKB_SHARING;
	ndev->priv_flags |= IFF_UNICAST_FLT | IFF_NO_QUEUE |
			    IFF_LIVE_ADDR_CHANGE | IFF_DISABLE_NETPOLL;
	ndev->min_mtu = ETH_MIN_MTU;
	/* Whatever the lower one has, see eipoib_adopt() */
	ndev->max_mtu = 0;
	ndev->features |= EIPOIB_FEATURES;
	ndev->hw_features |= EIPOIB_FEATURES;
	ndev->vlan_features |= EIPOIB_FEATURES;
	ndev->hw_enc_features |= EIPOIB_FEATURES;
}

/**
 * eipoib_adopt - take what depends on the lower interface from it
 * @ndev: interface that is not registered yet
 * @lower: IPoIB interface, on which ndo_init takes a reference
 */
void eipoib_adopt(struct net_device *ndev, struct net_device *lower)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);

	dev->ndev = ndev;
	dev->lower = lower;
	ndev->max_mtu = lower->mtu;
	eipoib_follow_features(dev);
}

/* What frames need for the lower interface may have changed. */
void eipoib_follow_features(struct eipoib_dev *dev)
{
	WRITE_ONCE(dev->ndev->needed_headroom, LL_RESERVED_SPACE(dev->lower));
	WRITE_ONCE(dev->ndev->needed_tailroom, dev->lower->needed_tailroom);
	netif_inherit_tso_max(dev->ndev, dev->lower);
}

/**
 * eipoib_follow_mtu - the lower interface has another MTU
 * @ndev: interface; if it had the lower one's before, it has so afterwards
 * @before: what that was
 *
 * With rtnl.
 */
void eipoib_follow_mtu(struct net_device *ndev, unsigned int before)
{
	unsigned int mtu = eipoib_priv(ndev)->lower->mtu;
	bool follows = ndev->mtu == before || ndev->mtu > mtu;

	ndev->max_mtu = mtu;
	if (follows && ndev->mtu != mtu && dev_set_mtu(ndev, mtu))
		netdev_warn(ndev, "MTU stays %u, %s has %u now\n", ndev->mtu,
			    eipoib_priv(ndev)->lower->name, mtu);
}
