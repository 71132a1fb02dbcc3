// SPDX-License-Identifier: GPL-2.0-only
/*
 * IP over InfiniBand: module, net_device life cycle, transmit entry
 *
 * Each InfiniBand port gets a parent interface.  Opening it starts the port's
 * channel, its QP and the joins; what the HCA reports later is handled by a
 * work item per interface.
 *
 * Lock order, outermost first:
 *
 *	rtnl
 *	ipoib_dev.lock		state, commands and events of an interface
 *	ipoib_ud.lock		state of the QP, multicast attachments
 *	ipoib_cm.run		life of connections (not with ipoib_ud.lock)
 *	ipoib_port.lock		interfaces of a port, users of its channel
 *	ipoib_port.answer_lock	answers of the SA (taken alone)
 *	netdev TX lock, address list lock
 *	ipoib_mcasts.lock
 *	ipoib_port.path_lock
 *	ipoib_link.lock		a neighbour's connection
 *	ipoib_cm.lock		connections of an interface
 *
 * The first six are mutexes, the rest spinlocks taken with BHs disabled.
 *
 * Packets wait for paths, groups, connections and links, and writeback (NFS,
 * swap) may wait for these packets.  So what brings them about, which is work
 * on ipoib_wq and callbacks, allocates with memalloc_noio_save(): its memory
 * must not wait for writeback.
 *
 * Work that takes rtnl (ipoib_dev.link_work) holds a reference on the device
 * and is never waited for; rtnl is never held while waiting for the fabric.
 */
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/pkt_sched.h>
#include <net/rtnetlink.h>
#include <rdma/ib_cache.h>

#define CREATE_TRACE_POINTS
#include "ipoib_trace.h"

#include "ipoib.h"

MODULE_DESCRIPTION("IP over InfiniBand");
MODULE_LICENSE("GPL");

#define IPOIB_WATCHDOG		(10 * HZ)

unsigned int ipoib_sendq_size __read_mostly = 128;
module_param_named(send_queue_size, ipoib_sendq_size, uint, 0444);
MODULE_PARM_DESC(send_queue_size, "Packets in the send queue (64-8192)");

unsigned int ipoib_recvq_size __read_mostly = 256;
module_param_named(recv_queue_size, ipoib_recvq_size, uint, 0444);
MODULE_PARM_DESC(recv_queue_size, "Buffers in the receive queue (2-8192)");

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG)
int ipoib_debug_level;
module_param_named(debug_level, ipoib_debug_level, int, 0644);
MODULE_PARM_DESC(debug_level, "Log what happens if > 0");

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
MODULE_PARM_DESC(ignore_devices, "HCAs to leave alone, separated by commas");
#else
#define ipoib_ignore_devices NULL
#endif

struct workqueue_struct *ipoib_wq;
struct workqueue_struct *ipoib_delete_wq;
struct ib_sa_client ipoib_sa;

/* ---- transmit ----------------------------------------------------------- */

/**
 * ipoib_drop - a packet that can't be sent
 * @ndev: interface
 * @skb: packet
 * @reason: why
 */
void ipoib_drop(struct net_device *ndev, struct sk_buff *skb,
		enum skb_drop_reason reason)
{
	DEV_STATS_INC(ndev, tx_dropped);
	kfree_skb_reason(skb, reason);
}

static netdev_tx_t ipoib_start_xmit(struct sk_buff *skb,
				    struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_txq *txq = dev->ud.txqs[skb_get_queue_mapping(skb)];
	const struct ipoib_encap *encap;
	netdev_tx_t ret;
	const u8 *addr;

	if (unlikely(!pskb_may_pull(skb, IPOIB_HARD_LEN)))
		goto drop;
	addr = skb->data;
	encap = (const void *)(addr + INFINIBAND_ALEN);
	if (unlikely(!ipoib_proto_ok(encap->proto)))
		goto drop;
	/* The TX lock's disabled BHs do not satisfy rhashtable_lookup(). */
	rcu_read_lock();
	if (unlikely(ipoib_addr_is_multicast(addr)))
		ret = ipoib_mcast_xmit(txq, skb, addr);
	else
		ret = ipoib_neigh_xmit(txq, skb, addr, encap->proto);
	rcu_read_unlock();
	return ret;

drop:
	ipoib_dbg_data(dev, "not a packet we carry\n");
	ipoib_drop(ndev, skb, SKB_DROP_REASON_UNHANDLED_PROTO);
	ipoib_txq_kick(txq);
	return NETDEV_TX_OK;
}

static int ipoib_header_create(struct sk_buff *skb, struct net_device *ndev,
			       unsigned short type, const void *daddr,
			       const void *saddr, unsigned int len)
{
	static const u8 none[INFINIBAND_ALEN];

	ipoib_header_fill(skb_push(skb, IPOIB_HARD_LEN), daddr ?: none,
			  htons(type));
	return daddr ? IPOIB_HARD_LEN : -IPOIB_HARD_LEN;
}

static void *ipoib_header_cached(const struct hh_cache *hh)
{
	return (u8 *)hh->hh_data + HH_DATA_OFF(IPOIB_HARD_LEN);
}

static int ipoib_header_cache(const struct neighbour *neigh,
			      struct hh_cache *hh, __be16 type)
{
	ipoib_header_fill(ipoib_header_cached(hh), neigh->ha, type);
	/* Pairs with READ_ONCE() of the length in neigh_hh_output() */
	smp_store_release(&hh->hh_len, IPOIB_HARD_LEN);
	return 0;
}

static void ipoib_header_cache_update(struct hh_cache *hh,
				      const struct net_device *ndev,
				      const unsigned char *haddr)
{
	memcpy(ipoib_header_cached(hh), haddr, INFINIBAND_ALEN);
}

static const struct header_ops ipoib_header_ops = {
	.create		= ipoib_header_create,
	.cache		= ipoib_header_cache,
	.cache_update	= ipoib_header_cache_update,
};

/*
 * What peers or their tools may look closely at comes from the QP they know:
 * ARP, neighbour discovery and multicast.  A connection has one queue, so that
 * its packets keep their order.
 */
static u16 ipoib_select_queue(struct net_device *ndev, struct sk_buff *skb,
			      struct net_device *sb_dev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	const struct ipoib_encap *encap;
	const u8 *addr = skb->data;

	if (unlikely(skb_headlen(skb) < IPOIB_HARD_LEN))
		return 0;
	encap = (const void *)(addr + INFINIBAND_ALEN);
	if (ipoib_addr_is_multicast(addr) ||
	    ipoib_may_tell_addr(encap->proto, encap + 1,
				skb_headlen(skb) - IPOIB_HARD_LEN))
		return 0;
	if (READ_ONCE(dev->connected))
		return ipoib_addr_queue(addr, ndev->real_num_tx_queues);
	return netdev_pick_tx(ndev, skb, sb_dev);
}

static netdev_features_t ipoib_features_check(struct sk_buff *skb,
					      struct net_device *ndev,
					      netdev_features_t features)
{
	return ipoib_offload_features(ipoib_priv(ndev), skb, features);
}

static void ipoib_tx_timeout(struct net_device *ndev, unsigned int queue)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_txq *txq = dev->ud.txqs[queue];

	netdev_warn(ndev, "transmit queue %u stuck: head %u tail %u\n", queue,
		    txq->head, READ_ONCE(txq->tail));
	ipoib_dev_event(dev, IPOIB_EV_RESTART);
}

static int ipoib_open(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	int ret;

	ret = ipoib_dev_open(dev);
	if (!ret && !ipoib_is_child(dev))
		ipoib_children_open(dev->port);
	return ret;
}

static int ipoib_stop(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (!ipoib_is_child(dev))
		ipoib_children_close(dev->port);
	ipoib_dev_close(dev);
	return 0;
}

/* ---- other operations --------------------------------------------------- */

static int ipoib_change_mtu(struct net_device *ndev, int mtu)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (!dev->setting_mtu)
		dev->admin_mtu = mtu;
	WRITE_ONCE(ndev->mtu, ipoib_dev_mtu(dev));
	if (!dev->connected && ndev->mtu < mtu)
		net_ratelimited_function(netdev_info, ndev,
					 "MTU is %u, more than that the broadcast group does not allow\n",
					 ndev->mtu);
	return 0;
}

static void ipoib_set_rx_mode(struct net_device *ndev)
{
	ipoib_mcast_resync(ipoib_priv(ndev));
}

/**
 * ipoib_dev_set_umcast - leave groups to user space, or not
 * @dev: interface
 * @on: groups that user space joined are not joined for the stack
 *
 * Context: rtnl.
 * Return: 0
 */
int ipoib_dev_set_umcast(struct ipoib_dev *dev, bool on)
{
	WRITE_ONCE(dev->umcast, on);
	ipoib_mcast_resync(dev);
	return 0;
}

/* ---- mode --------------------------------------------------------------- */

static netdev_features_t ipoib_datagram_offloads(const struct ib_device *ca)
{
	netdev_features_t features = 0;

	/* What the HCA does not do is done when a packet is sent. */
	if (ca->attrs.max_send_sge > 1)
		features |= NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_TSO |
			    NETIF_F_TSO6;
	if (ca->attrs.device_cap_flags & IB_DEVICE_UD_IP_CSUM)
		features |= NETIF_F_HW_CSUM | NETIF_F_RXCSUM;
	return features;
}

/* What a connection to one of our own can be left with. */
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

/*
 * A packet to be cut here needs so many places in the ring; TCP makes none
 * that is longer.
 */
static void __ipoib_dev_limit_segs(struct ipoib_dev *dev, bool connected)
{
	u32 size = dev->ud.txqs[0]->ring.size;
	bool here = !connected && !dev->ud.lso;
	u32 segs = here ? ipoib_tso_segs(size) : GSO_MAX_SEGS;
	struct net_device *ndev = dev->ndev;
	bool follow = ndev->gso_max_segs == ndev->tso_max_segs;

	netif_set_tso_max_segs(ndev, segs);
	/* That lowers what is in use; raised it is unless the user chose it. */
	if (follow)
		WRITE_ONCE(ndev->gso_max_segs, ndev->tso_max_segs);
}

static void ipoib_dev_limit_segs(struct ipoib_dev *dev)
{
	__ipoib_dev_limit_segs(dev, dev->connected);
}

/* What is new is on; what was there before is as it was. */
static void ipoib_dev_offer(struct ipoib_dev *dev, bool connected)
{
	struct net_device *ndev = dev->ndev;
	netdev_features_t old = ndev->hw_features, new;

	ASSERT_RTNL();
	new = connected ? ipoib_connected_offloads(dev) :
			  ipoib_datagram_offloads(dev->port->ca);
	/* What the core does by itself, such as GSO, is not ours to take. */
	new |= old & NETIF_F_SOFT_FEATURES;
	ndev->hw_features = new;
	/* What can't be switched any more would else stay as it is. */
	ndev->features &= ~(old & ~new);
	ndev->wanted_features = (ndev->wanted_features & ~(old & ~new)) |
				(new & ~old);
	__ipoib_dev_limit_segs(dev, connected);
	netdev_update_features(ndev);
}

/**
 * ipoib_dev_update_features - tell the stack what the mode offers
 * @dev: interface
 *
 * Context: rtnl.
 */
void ipoib_dev_update_features(struct ipoib_dev *dev)
{
	ipoib_dev_offer(dev, dev->connected);
}

/* Who looks a path up decides by the mode whether there is a connection. */
static void ipoib_dev_note_mode(struct ipoib_dev *dev, bool connected)
{
	spin_lock_bh(&dev->port->path_lock);
	WRITE_ONCE(dev->connected, connected);
	spin_unlock_bh(&dev->port->path_lock);
}

/* Make all neighbours and connections anew, in connected mode. */
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
	ipoib_dev_note_mode(dev, true);
	if (up)
		ipoib_neigh_open(dev);
	mutex_unlock(&dev->lock);
	return 0;

err_stop:
	ipoib_cm_stop(dev);
	mutex_unlock(&dev->lock);
	return ret;
}

/* And in datagram mode. */
static void ipoib_dev_end_connected(struct ipoib_dev *dev)
{
	mutex_lock(&dev->lock);
	ipoib_dev_note_mode(dev, false);
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
	/* Senders of what is too long are told by way of the route. */
	netif_keep_dst(ndev);
	ndev->max_mtu = IPOIB_CM_MTU;
	dev->admin_mtu = IPOIB_CM_MTU;
	ipoib_dev_update_features(dev);
	net_ratelimited_function(netdev_info, ndev,
				 "connected mode; multicast and neighbours without it still have the link's MTU\n");
	return 0;
}

static void ipoib_dev_to_datagram(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;

	/* First, so that few packets come that datagrams can't be. */
	ipoib_dev_offer(dev, false);
	ipoib_dev_end_connected(dev);
	ipoib_cm_disable(dev);
	dev->admin_mtu = dev->ud_mtu;
	ndev->priv_flags |= IFF_XMIT_DST_RELEASE | IFF_XMIT_DST_RELEASE_PERM;
}

/**
 * ipoib_dev_set_mode - change between datagram and connected mode
 * @dev: interface
 * @connected: to the latter
 * @extack: told why not, may be NULL
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
		ret = ipoib_cm_enable(dev);
		if (ret == -EOPNOTSUPP)
			NL_SET_ERR_MSG(extack, "Built without connected mode");
		else if (ret)
			NL_SET_ERR_MSG(extack,
				       "No memory or HCA resources for connected mode");
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

/* ---- queues ------------------------------------------------------------- */

/* Close all connections; those that are needed are opened again. */
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

/**
 * ipoib_dev_reconnect - have connections opened anew, as things are now
 * @dev: interface, in either mode
 *
 * Context: rtnl; waits for the HCA, two seconds at most.
 */
void ipoib_dev_reconnect(struct ipoib_dev *dev)
{
	mutex_lock(&dev->lock);
	ipoib_dev_disconnect(dev);
	ipoib_dev_connect_again(dev);
	mutex_unlock(&dev->lock);
}

static int ipoib_dev_change_txqs(struct ipoib_dev *dev, u32 num)
{
	u32 old = dev->ud.num_txqs;
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
 * A queue that completes where it was posted, or any.  HCAs spread their
 * vectors over the CPUs in turn; there is no way to ask.
 */
static u32 ipoib_dev_cpu_queue(struct ipoib_dev *dev, u32 cpu)
{
	u32 vector = cpu % dev->port->ca->num_comp_vectors;
	u32 num = dev->ud.num_txqs, i;

	for (i = 0; i < num; i++)
		if (dev->ud.txqs[i]->qp.ch->vector == vector)
			return i;
	return cpu % num;
}

/* Each CPU sends on a queue of its own, as far as there are so many. */
static void ipoib_dev_spread(struct ipoib_dev *dev)
{
	u32 num = dev->ud.num_txqs, i;
	cpumask_var_t mask;
	int cpu;

	if (num == 1 || !zalloc_cpumask_var(&mask, GFP_KERNEL))
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
 * In connected mode a connection belongs to a queue, so all are made anew.
 *
 * Context: rtnl.
 * Return: 0 or -errno: then nothing has changed
 */
int ipoib_dev_set_txqs(struct ipoib_dev *dev, u32 num)
{
	int ret;

	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	ipoib_dev_disconnect(dev);
	mutex_lock(&dev->ud.lock);
	ret = ipoib_dev_change_txqs(dev, num);
	mutex_unlock(&dev->ud.lock);
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
 * The HCA does not let a QP grow: there will be others, and another address,
 * of which the peers are told.
 *
 * Context: rtnl.
 * Return: 0 or -errno: then nothing has changed.  If there are other queues, and
 *	they can't be started, that is tried again
 */
int ipoib_dev_set_sendq(struct ipoib_dev *dev, u32 size)
{
	struct ipoib_txq *spare[IPOIB_MAX_TXQS];
	bool up;
	int ret;

	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	ret = ipoib_ud_spare(dev, size, spare);
	if (ret)
		goto unlock;
	up = ipoib_dev_take_down(dev);
	ipoib_ud_swap(dev, spare);
	if (up)
		ipoib_dev_start(dev);
	WRITE_ONCE(dev->announce, true);
unlock:
	mutex_unlock(&dev->lock);
	if (!ret) {
		ipoib_dev_limit_segs(dev);
		ipoib_dev_sync_link(dev);
	}
	return ret;
}

/* ---- address ------------------------------------------------------------ */

static int ipoib_get_iflink(const struct net_device *ndev)
{
	return READ_ONCE(ipoib_priv(ndev)->port->parent->ifindex);
}

/**
 * ipoib_port_has_guid - is a GUID one of the port's?
 * @port: port
 * @guid: GUID, with the port's subnet prefix to be looked for among its GIDs
 *
 * Context: process.
 */
bool ipoib_port_has_guid(struct ipoib_port *port, __be64 guid)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;

	if (rdma_query_gid(port->ca, port->num, 0, &gid))
		return false;
	gid.global.interface_id = guid;
	attr = rdma_find_gid_by_port(port->ca, &gid, IB_GID_TYPE_IB, port->num,
				     NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/**
 * ipoib_port_guid - a GUID as struct ipoib_dev has it
 * @port: port
 * @guid: one of the port's
 *
 * Context: process.
 * Return: 0 if it is the first, which stands for whatever that will be
 */
__be64 ipoib_port_guid(struct ipoib_port *port, __be64 guid)
{
	union ib_gid gid;

	if (rdma_query_gid(port->ca, port->num, 0, &gid))
		return guid;
	return guid == gid.global.interface_id ? 0 : guid;
}

static void ipoib_dev_set_guid(struct ipoib_dev *dev, __be64 guid)
{
	mutex_lock(&dev->lock);
	dev->guid = ipoib_port_guid(dev->port, guid);
	ipoib_dev_refresh(dev);
	mutex_unlock(&dev->lock);
	ipoib_dev_sync_link(dev);
}

/* The GUID is what can be chosen of an address: another one of the port's. */
static int ipoib_set_mac_address(struct net_device *ndev, void *p)
{
	const u8 *addr = ((const struct sockaddr_storage *)p)->__data;
	struct ipoib_dev *dev = ipoib_priv(ndev), *child;
	__be64 guid = ipoib_addr_guid(addr), old = dev->guid;

	if (memcmp(addr, ndev->dev_addr, INFINIBAND_ALEN - sizeof(guid))) {
		net_ratelimited_function(netdev_warn, ndev,
					 "address: only the GUID can be changed\n");
		return -EINVAL;
	}
	if (!ipoib_port_has_guid(dev->port, guid)) {
		net_ratelimited_function(netdev_warn, ndev,
					 "address: the port has no GUID %016llx\n",
					 be64_to_cpu(guid));
		return -EADDRNOTAVAIL;
	}
	ipoib_dev_set_guid(dev, guid);
	if (ipoib_is_child(dev))
		return 0;
	list_for_each_entry(child, &dev->port->devs, port_entry)
		if (ipoib_is_child(child) && child->guid == old)
			ipoib_dev_set_guid(child, guid);
	return 0;
}

/* ---- virtual functions of the HCA --------------------------------------- */

/*
 * They are set up at the port's own interface.  A child may belong to a
 * container, whose root must not get at the HCA: for it there are none.
 */
static struct ipoib_port *ipoib_vf_port(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	return ipoib_is_child(dev) ? NULL : dev->port;
}

static int ipoib_set_vf_link_state(struct net_device *ndev, int vf, int state)
{
	struct ipoib_port *port = ipoib_vf_port(ndev);

	if (!port)
		return -EOPNOTSUPP;
	return ib_set_vf_link_state(port->ca, vf, port->num, state);
}

/* The GID that a function's interface will have, as far as the HCA tells. */
static void ipoib_vf_gid(struct ipoib_port *port, int vf, union ib_gid *gid)
{
	struct ifla_vf_guid node = { }, guid = { };

	if (rdma_query_gid(port->ca, port->num, 0, gid))
		memset(gid, 0, sizeof(*gid));
	if (ib_get_vf_guid(port->ca, vf, port->num, &node, &guid))
		guid.guid = 0;
	gid->global.interface_id = cpu_to_be64(guid.guid);
}

/*
 * The address of a function is known but for its QPN, which its interface has
 * once there is one.
 */
static int ipoib_get_vf_config(struct net_device *ndev, int vf,
			       struct ifla_vf_info *info)
{
	struct ipoib_port *port = ipoib_vf_port(ndev);
	union ib_gid gid;
	int ret;

	if (!port)
		return -EOPNOTSUPP;
	ret = ib_get_vf_config(port->ca, vf, port->num, info);
	if (ret)
		return ret;
	info->vf = vf;
	ipoib_vf_gid(port, vf, &gid);
	ipoib_addr_fill(info->mac, 0, &gid, false);
	return 0;
}

static int ipoib_get_vf_stats(struct net_device *ndev, int vf,
			      struct ifla_vf_stats *stats)
{
	struct ipoib_port *port = ipoib_vf_port(ndev);

	if (!port)
		return -EOPNOTSUPP;
	return ib_get_vf_stats(port->ca, vf, port->num, stats);
}

static int ipoib_get_vf_guid(struct net_device *ndev, int vf,
			     struct ifla_vf_guid *node_guid,
			     struct ifla_vf_guid *port_guid)
{
	struct ipoib_port *port = ipoib_vf_port(ndev);

	if (!port)
		return -EOPNOTSUPP;
	return ib_get_vf_guid(port->ca, vf, port->num, node_guid, port_guid);
}

static int ipoib_set_vf_guid(struct net_device *ndev, int vf, u64 guid,
			     int type)
{
	struct ipoib_port *port = ipoib_vf_port(ndev);

	if (!port)
		return -EOPNOTSUPP;
	if (type != IFLA_VF_IB_NODE_GUID && type != IFLA_VF_IB_PORT_GUID)
		return -EINVAL;
	return ib_set_vf_guid(port->ca, vf, port->num, guid, type);
}

/* ---- net_device --------------------------------------------------------- */

static void ipoib_set_features(struct net_device *ndev, struct ib_device *ca)
{
	ndev->hw_features = ipoib_datagram_offloads(ca);
	ndev->features = ndev->hw_features | NETIF_F_VLAN_CHALLENGED;
	/* Packets are cut here by the addresses that their pages have. */
	if (!IS_ENABLED(CONFIG_HIGHMEM))
		ndev->features |= NETIF_F_HIGHDMA;
}

/* From the port, and from whoever made the net_device with an MTU. */
static int ipoib_set_mtu_range(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	struct ib_port_attr attr;
	int mtu, ret;

	ret = ib_query_port(dev->port->ca, dev->port->num, &attr);
	if (ret)
		return ret;
	mtu = ipoib_ud_mtu(attr.max_mtu);
	if (mtu < 0)
		return mtu;
	ndev->max_mtu = mtu;
	ndev->min_mtu = IPOIB_MTU_MIN;
	ndev->mtu = ndev->mtu ?: mtu;
	if (ndev->mtu < ndev->min_mtu || ndev->mtu > ndev->max_mtu)
		return -ERANGE;
	dev->admin_mtu = ndev->mtu;
	dev->ud_mtu = mtu;
	dev->ud.max_len = mtu + IPOIB_ENCAP_LEN;
	return 0;
}

/* The stack shows which NAPI serves a queue: of the parent, who owns them. */
static void ipoib_dev_link_napis(struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	u32 i;

	if (ipoib_is_child(dev))
		return;
	for (i = 0; i < port->num_channels; i++)
		netif_queue_set_napi(dev->ndev, i, NETDEV_QUEUE_TYPE_RX,
				     &port->channels[i]->napi);
	for (i = 0; i < dev->ud.num_txqs; i++)
		netif_queue_set_napi(dev->ndev, i, NETDEV_QUEUE_TYPE_TX,
				     &dev->ud.txqs[i]->qp.ch->napi);
}

/* The interface gets its QPs and with them its address. */
static int ipoib_init(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u8 addr[INFINIBAND_ALEN];
	int ret;

	ret = ipoib_neigh_init(dev);
	if (ret)
		return ret;
	ret = ipoib_mcast_init(dev);
	if (ret)
		goto err_neigh;
	ret = ipoib_cm_init(dev);
	if (ret)
		goto err_mcast;
	ret = ipoib_ud_create(dev);
	if (ret)
		goto err_cm;
	ret = netif_set_real_num_queues(ndev, dev->ud.num_txqs,
					ipoib_is_child(dev) ?
					1 : dev->port->num_channels);
	if (ret)
		goto err_ud;
	ipoib_dev_link_napis(dev);
	ipoib_dev_limit_segs(dev);
	netif_carrier_off(ndev);
	ipoib_dev_attach(dev);
	ipoib_dev_fill_addr(dev, addr);
	dev_addr_set(ndev, addr);
	return 0;

err_ud:
	ipoib_ud_destroy(dev);
err_cm:
	ipoib_cm_exit(dev);
err_mcast:
	ipoib_mcast_exit(dev);
err_neigh:
	ipoib_neigh_exit(dev);
	return ret;
}

/* Nothing of the HCA is in use any more when this returns. */
static void ipoib_uninit(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (dev->connected)
		ipoib_cm_disable(dev);
	ipoib_port_detach(dev->port, dev);
	ipoib_ud_destroy(dev);
	/* Takes no rtnl; does nothing to an interface that is down. */
	cancel_delayed_work_sync(&dev->work);
}

/* The last reference is gone, and perhaps the port as well. */
static void ipoib_destructor(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	/* Waits for the CM to let go of what is left of connections. */
	ipoib_cm_exit(dev);
	ipoib_mcast_exit(dev);
	ipoib_neigh_exit(dev);
}

/*
 * Of parents and children.  Settings of the HCA and of the port are refused at
 * children, here and in ipoib_ethtool.c.
 */
static const struct net_device_ops ipoib_netdev_ops = {
	.ndo_init		= ipoib_init,
	.ndo_uninit		= ipoib_uninit,
	.ndo_open		= ipoib_open,
	.ndo_stop		= ipoib_stop,
	.ndo_start_xmit		= ipoib_start_xmit,
	.ndo_select_queue	= ipoib_select_queue,
	.ndo_features_check	= ipoib_features_check,
	.ndo_change_mtu		= ipoib_change_mtu,
	.ndo_tx_timeout		= ipoib_tx_timeout,
	.ndo_set_rx_mode	= ipoib_set_rx_mode,
	.ndo_set_mac_address	= ipoib_set_mac_address,
	.ndo_get_iflink		= ipoib_get_iflink,
	.ndo_set_vf_link_state	= ipoib_set_vf_link_state,
	.ndo_get_vf_config	= ipoib_get_vf_config,
	.ndo_get_vf_stats	= ipoib_get_vf_stats,
	.ndo_get_vf_guid	= ipoib_get_vf_guid,
	.ndo_set_vf_guid	= ipoib_set_vf_guid,
	.ndo_get_stats64	= dev_get_tstats64,
};

/**
 * ipoib_dev_prepare - what an interface has of its port, before it is registered
 * @dev: interface, as ipoib_setup() left it
 * @port: port
 * @pkey: P_Key with the full membership bit
 *
 * Takes nothing that would have to be given back.
 *
 * Return: 0, -ERANGE if the port does not allow the MTU that @dev has, or -errno
 */
int ipoib_dev_prepare(struct ipoib_dev *dev, struct ipoib_port *port, u16 pkey)
{
	struct net_device *ndev = dev->ndev;

	dev->port = port;
	dev->pkey = pkey;
	ipoib_addr_set_pkey(ndev->broadcast, pkey);
	ndev->dev_id = port->num - 1;
	ndev->dev_port = port->num - 1;
	ipoib_set_features(ndev, port->ca);
	return ipoib_set_mtu_range(dev);
}

/**
 * ipoib_setup - make an interface of a new net_device
 * @ndev: net_device with room for struct ipoib_dev
 */
void ipoib_setup(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u32 i;

	ndev->netdev_ops = &ipoib_netdev_ops;
	ndev->header_ops = &ipoib_header_ops;
	ndev->ethtool_ops = &ipoib_ethtool_ops;
	ndev->stat_ops = &ipoib_stat_ops;
	ndev->sysfs_groups[0] = &ipoib_sysfs_group;
	ndev->priv_destructor = ipoib_destructor;
	ndev->type = ARPHRD_INFINIBAND;
	ndev->hard_header_len = IPOIB_HARD_LEN;
	ndev->addr_len = INFINIBAND_ALEN;
	ndev->flags |= IFF_BROADCAST | IFF_MULTICAST;
	ndev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	ndev->tx_queue_len = DEFAULT_TX_QUEUE_LEN;
	ndev->watchdog_timeo = IPOIB_WATCHDOG;
	ndev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	memcpy(ndev->broadcast, ipoib_broadcast, INFINIBAND_ALEN);

	dev->ndev = ndev;
	INIT_LIST_HEAD(&dev->port_entry);
	ipoib_dev_init(dev);
	u64_stats_init(&dev->ud.gone.sync);
	for (i = 0; i < ARRAY_SIZE(dev->rx); i++)
		u64_stats_init(&dev->rx[i].sync);
}

/* What an interface has while it is registered; debugfs by its name. */
static int ipoib_netdev_event(struct notifier_block *nb, unsigned long event,
			      void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);

	if (ndev->netdev_ops != &ipoib_netdev_ops)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_REGISTER:
		/* What XPS has is freed when it is unregistered, only then. */
		ipoib_dev_spread(ipoib_priv(ndev));
		ipoib_fs_add(ipoib_priv(ndev));
		ipoib_dev_registered(ipoib_priv(ndev));
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
		port = ipoib_port_create(ca, num);
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
		ipoib_port_destroy(data->port[i]);
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

/* Which interface is meant: by GID and P_Key, then by IP address. */
static struct net_device *ipoib_port_match(struct ipoib_port *port, u16 pkey,
					   const union ib_gid *gid,
					   const struct sockaddr *addr)
{
	struct net_device *any = NULL, *owner = NULL;
	struct ipoib_dev *dev;

	mutex_lock(&port->lock);
	rcu_read_lock();
	list_for_each_entry(dev, &port->devs, port_entry) {
		if (dev->pkey != ipoib_pkey_full(pkey) ||
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

/* rdma_cm asks which interface a connection request came in by. */
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
	ret = rtnl_link_register(&ipoib_link_ops);
	if (ret)
		goto err_notifier;
	ret = ib_register_client(&ipoib_client);
	if (ret)
		goto err_link;
	return 0;

err_link:
	rtnl_link_unregister(&ipoib_link_ops);
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
	unregister_netdevice_notifier(&ipoib_netdev_notifier);
	/* Waits for the last answer of the SA. */
	ib_sa_unregister_client(&ipoib_sa);
	ipoib_fs_exit();
	/* First: what it deletes has work on the other. */
	destroy_workqueue(ipoib_delete_wq);
	destroy_workqueue(ipoib_wq);
	rcu_barrier();
}

module_init(ipoib_init_module);
module_exit(ipoib_exit_module);
