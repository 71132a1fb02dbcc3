// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings of the administrator: mode, offloads, queues, channels, GUID
 *
 * If an error is returned, nothing has changed.
 *
 * Locks: rtnl, and ipoib_dev.lock for changes that the interface's work must
 * not see half done.
 */
#include <linux/rtnetlink.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cm.h"
#include "ipoib_dev.h"
#include "ipoib_engine.h"
#include "ipoib_multicast.h"
#include "ipoib_neigh.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_settings.h"
#include "ipoib_tx.h"
#include "ipoib_ud.h"
#include "ipoib_verbs.h"

/* ---- offloads ---------------------------------------------------------- */

/* What a mode offers or not; all else is the core's. */
#define IPOIB_OFFLOADS	(NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_RXCSUM | \
			 NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN | \
			 NETIF_F_GSO_UDP_L4)

netdev_features_t ipoib_datagram_offloads(const struct ib_device *ca)
{
	netdev_features_t features = 0;

	/* What the HCA does not support is done in software on transmit. */
	if (ca->attrs.max_send_sge > 1)
		features |= NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_TSO |
			    NETIF_F_TSO6;
	if (ca->attrs.device_cap_flags & IB_DEVICE_UD_IP_CSUM)
		features |= NETIF_F_HW_CSUM | NETIF_F_RXCSUM;
	return features;
}

/* Offloads usable toward a peer that runs this driver. */
static netdev_features_t ipoib_connected_offloads(struct ipoib_dev *dev)
{
	const struct ib_device *ca = dev->port->ca;
	netdev_features_t features;

	features = ipoib_datagram_offloads(ca) & (NETIF_F_SG | NETIF_F_RXCSUM);
	if (!ipoib_cm_offload(dev))
		return features;
	features |= NETIF_F_HW_CSUM;
	if (features & NETIF_F_SG)
		features |= NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN |
			    NETIF_F_GSO_UDP_L4;
	return features;
}

/* Offer the offloads of a mode: new ones are on, others stay as they were. */
static void ipoib_dev_offer(struct ipoib_dev *dev, bool connected)
{
	struct net_device *ndev = dev->ndev;
	netdev_features_t old = ndev->hw_features & IPOIB_OFFLOADS, new;

	ASSERT_RTNL();
	new = connected ? ipoib_connected_offloads(dev) :
			  ipoib_datagram_offloads(dev->port->ca);
	/* What the core provides by itself, such as GSO and GRO, stays. */
	ndev->hw_features = (ndev->hw_features & ~IPOIB_OFFLOADS) | new;
	/* Clear what is no longer offered: it can't be switched off later. */
	ndev->features &= ~(old & ~new);
	ndev->wanted_features = (ndev->wanted_features & ~(old & ~new)) |
				(new & ~old);
	ipoib_verbs_limit_segs(dev, connected);
	/* A bond also looks at IFF_XMIT_DST_RELEASE, so tell it in any case. */
	netdev_change_features(ndev);
}

/**
 * ipoib_dev_set_offload - offer peers to skip checksums and segmentation
 * @dev: interface of a driver built with connected mode
 * @on: whether to offer it
 *
 * Context: rtnl.
 */
void ipoib_dev_set_offload(struct ipoib_dev *dev, bool on)
{
	if (ipoib_cm_offload(dev) == on)
		return;
	ipoib_cm_set_offload(dev, on);
	if (dev->connected)
		ipoib_dev_offer(dev, true);
}

/* ---- mode -------------------------------------------------------------- */

/**
 * ipoib_dev_set_umcast - choose whether user space may keep groups to itself
 * @dev: interface
 * @on: don't join groups that user space has joined
 *
 * Context: rtnl.
 */
void ipoib_dev_set_umcast(struct ipoib_dev *dev, bool on)
{
	WRITE_ONCE(dev->umcast, on);
	ipoib_mcast_resync(dev);
}

/* Start connected mode; all neighbours and connections are created anew. */
static int ipoib_dev_begin_connected(struct ipoib_dev *dev)
{
	int ret = 0;
	bool up;

	mutex_lock(&dev->lock);
	up = ipoib_dev_is_up(dev);
	if (up) {
		ret = ipoib_cm_start(dev);
		if (ret)
			goto err_stop;
		ipoib_neigh_stop(dev);
	}
	ipoib_neigh_set_mode(dev, true);
	if (up)
		ipoib_neigh_open(dev);
	mutex_unlock(&dev->lock);
	return 0;

err_stop:
	ipoib_cm_stop(dev);
	mutex_unlock(&dev->lock);
	return ret;
}

/* Go back to datagram mode; all neighbours are created anew. */
static void ipoib_dev_end_connected(struct ipoib_dev *dev)
{
	mutex_lock(&dev->lock);
	ipoib_neigh_set_mode(dev, false);
	if (ipoib_dev_is_up(dev)) {
		ipoib_neigh_stop(dev);
		ipoib_cm_stop(dev);
		ipoib_neigh_open(dev);
	}
	mutex_unlock(&dev->lock);
}

static int ipoib_dev_to_connected(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	int ret;

	ret = ipoib_dev_begin_connected(dev);
	if (ret)
		return ret;
	/* PMTU of packets that are too long is updated through the route. */
	netif_keep_dst(ndev);
	ndev->max_mtu = IPOIB_CM_MTU;
	dev->admin_mtu = IPOIB_CM_MTU;
	ipoib_dev_offer(dev, true);
	net_ratelimited_function(netdev_info, ndev,
				 "connected mode: multicast and neighbours in datagram mode still have the link's MTU\n");
	return 0;
}

static void ipoib_dev_to_datagram(struct ipoib_dev *dev)
{
	/* First, so that few packets are built that datagrams can't carry. */
	ipoib_dev_offer(dev, false);
	ipoib_dev_end_connected(dev);
	ipoib_cm_disable(dev);
	dev->admin_mtu = dev->ud_mtu;
	/* IFF_XMIT_DST_RELEASE stays off: a filter may need the dst, too. */
}

/**
 * ipoib_dev_may_connect - can an interface, and children of it, be connected?
 * @dev: interface
 * @extack: gets the reason why not, may be NULL
 *
 * Return: 0 or -EOPNOTSUPP
 */
int ipoib_dev_may_connect(const struct ipoib_dev *dev,
			  struct netlink_ext_ack *extack)
{
	if (dev->engine->connected)
		return 0;
	NL_SET_ERR_MSG(extack,
		       "The HCA's own interface has no connected mode: load ib_ipoib with ipoib_enhanced=0");
	return -EOPNOTSUPP;
}

/**
 * ipoib_dev_set_mode - change between datagram and connected mode
 * @dev: interface
 * @connected: true for connected mode
 * @extack: gets the reason of an error, may be NULL
 *
 * Address, MTU and offloads follow.  Nothing is changed on error.
 *
 * Context: rtnl, which is kept; waits for the HCA, two seconds at most.
 * Return: 0 or -errno
 */
int ipoib_dev_set_mode(struct ipoib_dev *dev, bool connected,
		       struct netlink_ext_ack *extack)
{
	int ret;

	ASSERT_RTNL();
	if (dev->connected == connected)
		return 0;
	if (connected) {
		ret = ipoib_dev_may_connect(dev, extack);
		if (ret)
			return ret;
		ret = ipoib_cm_enable(dev);
		if (ret == -EOPNOTSUPP)
			NL_SET_ERR_MSG(extack, "Built without connected mode");
		else if (ret)
			NL_SET_ERR_MSG(extack,
				       "Not enough memory or HCA resources for connected mode");
		if (ret)
			return ret;
		ret = ipoib_dev_to_connected(dev);
		if (ret) {
			ipoib_cm_disable(dev);
			NL_SET_ERR_MSG(extack, "Connections can't be accepted");
			return ret;
		}
	} else {
		ipoib_dev_to_datagram(dev);
	}
	WRITE_ONCE(dev->announce, true);
	ipoib_dev_sync_link(dev);
	if (!connected)
		dev->ndev->max_mtu = dev->ud_mtu;
	return 0;
}

/* ---- queues ------------------------------------------------------------ */

/* Close all connections, before ipoib_dev_connect_again(). */
static void ipoib_dev_disconnect(struct ipoib_dev *dev)
{
	if (!dev->connected || !ipoib_dev_is_up(dev))
		return;
	ipoib_neigh_stop(dev);
	ipoib_cm_stop(dev);
}

static void ipoib_dev_connect_again(struct ipoib_dev *dev)
{
	if (!dev->connected || !ipoib_dev_is_up(dev))
		return;
	ipoib_dev_listen(dev);
	ipoib_neigh_open(dev);
}

/* Close connections and let them be opened again; takes two seconds at most. */
static void ipoib_dev_reconnect(struct ipoib_dev *dev)
{
	mutex_lock(&dev->lock);
	ipoib_dev_disconnect(dev);
	ipoib_dev_connect_again(dev);
	mutex_unlock(&dev->lock);
}

/**
 * ipoib_dev_set_channels - set the number of channels that receive
 * @dev: the port's own interface
 * @num: number of channels
 *
 * Connections of all interfaces are closed and opened again.
 *
 * Context: rtnl.
 */
void ipoib_dev_set_channels(struct ipoib_dev *dev, u32 num)
{
	struct ipoib_port *port = dev->port;

	ASSERT_RTNL();
	ipoib_port_set_channels(port, num);
	list_for_each_entry(dev, &port->devs, port_entry)
		ipoib_dev_reconnect(dev);
}

static int ipoib_dev_change_txqs(struct ipoib_dev *dev, u32 num)
{
	u32 old = dev->num_txqs;
	int ret;

	if (num < old) {
		ret = netif_set_real_num_tx_queues(dev->ndev, num);
		if (!ret)
			ipoib_ud_drop_txqs(dev, num);
		return ret;
	}
	ret = ipoib_ud_add_txqs(dev, num);
	ret = ret ?: netif_set_real_num_tx_queues(dev->ndev, num);
	if (ret)
		ipoib_ud_drop_txqs(dev, old);
	return ret;
}

/*
 * A queue whose completions are reported to the CPU, else any.  Assumes that
 * vectors are spread over the CPUs in turn; the HCA can't be asked.
 */
static u32 ipoib_dev_cpu_queue(struct ipoib_dev *dev, u32 cpu)
{
	u32 vector = cpu % dev->port->ca->num_comp_vectors;
	u32 num = dev->num_txqs, i;

	for (i = 0; i < num; i++)
		if (dev->txqs[i]->qp.ch->vector == vector)
			return i;
	return cpu % num;
}

/* Set up XPS: each CPU has its own queue while there are enough of them. */
void ipoib_dev_spread(struct ipoib_dev *dev)
{
	u32 num = dev->num_txqs, i;
	cpumask_var_t mask;
	int cpu;

	if (num <= 1 || !zalloc_cpumask_var(&mask, GFP_KERNEL))
		return;
	for (i = 0; i < num; i++) {
		cpumask_clear(mask);
		for_each_possible_cpu(cpu)
			if (ipoib_dev_cpu_queue(dev, cpu) == i)
				cpumask_set_cpu(cpu, mask);
		netif_set_xps_queue(dev->ndev, mask, i);
	}
	free_cpumask_var(mask);
}

/**
 * ipoib_dev_set_txqs - set the number of transmit queues
 * @dev: interface, up or down
 * @num: at least one, at most IPOIB_MAX_TXQS and what the net_device has
 *
 * A connection belongs to a queue, so in connected mode all are opened again.
 *
 * Context: rtnl.
 * Return: 0, or -errno and nothing has changed
 */
int ipoib_dev_set_txqs(struct ipoib_dev *dev, u32 num)
{
	int ret;

	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	ipoib_dev_disconnect(dev);
	ret = ipoib_dev_change_txqs(dev, num);
	ipoib_dev_connect_again(dev);
	mutex_unlock(&dev->lock);
	if (!ret)
		ipoib_dev_spread(dev);
	return ret;
}

/**
 * ipoib_dev_set_sendq - set the length of the transmit queues
 * @dev: interface, up or down
 * @size: packets, a power of two
 *
 * QPs can't be resized, so they are replaced.  That changes the address, which
 * is announced to peers.
 *
 * Context: rtnl.
 * Return: 0, or -errno and nothing has changed.  0 also if new queues can't be
 *	started yet: that is retried
 */
int ipoib_dev_set_sendq(struct ipoib_dev *dev, u32 size)
{
	struct ipoib_txq *spare[IPOIB_MAX_TXQS];
	bool up;
	int ret;

	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	ret = ipoib_ud_alloc_txqs(dev, size, spare);
	if (ret)
		goto unlock;
	up = ipoib_dev_take_down(dev);
	ret = ipoib_ud_replace_txqs(dev, spare);
	if (up)
		ipoib_dev_start(dev);
	WRITE_ONCE(dev->announce, true);
unlock:
	mutex_unlock(&dev->lock);
	if (!ret) {
		ipoib_verbs_limit_segs(dev, dev->connected);
		ipoib_dev_sync_link(dev);
	}
	return ret;
}

/* ---- address ----------------------------------------------------------- */

static void ipoib_dev_set_guid(struct ipoib_dev *dev, __be64 guid)
{
	mutex_lock(&dev->lock);
	dev->guid = ipoib_port_guid(dev->port, guid);
	ipoib_dev_refresh(dev);
	mutex_unlock(&dev->lock);
	ipoib_dev_sync_addr(dev);
}

/**
 * ipoib_dev_choose_guid - use another one of the port's GUIDs
 * @dev: interface; children with the same GUID as their parent follow it
 * @guid: GUID
 *
 * Context: rtnl.
 */
void ipoib_dev_choose_guid(struct ipoib_dev *dev, __be64 guid)
{
	__be64 old = dev->guid;
	struct ipoib_dev *child;

	ASSERT_RTNL();
	ipoib_dev_set_guid(dev, guid);
	if (ipoib_is_child(dev))
		return;
	list_for_each_entry(child, &dev->port->devs, port_entry)
		if (ipoib_is_child(child) && child->guid == old)
			ipoib_dev_set_guid(child, guid);
}
