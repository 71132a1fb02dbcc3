// SPDX-License-Identifier: GPL-2.0-only
/*
 * net_device: transmit entry point, operations, setup and teardown
 *
 * ipoib_start_xmit() looks up the destination of a packet, hands the packet to
 * the engine that serves it, and decides when chained requests are posted.
 * No call from there leads back into this file.
 */
#include <linux/if_arp.h>
#include <linux/module.h>
#include <net/gso.h>
#include <net/pkt_sched.h>
#include <net/rtnetlink.h>
#include <net/netdev_lock.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_cm_internal.h"
#include "ipoib_debug.h"
#include "ipoib_dev.h"
#include "ipoib_engine.h"
#include "ipoib_enhanced.h"
#include "ipoib_fit.h"
#include "ipoib_ib.h"
#include "ipoib_multicast.h"
#include "ipoib_neigh.h"
#include "ipoib_netdev.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rc.h"
#include "ipoib_rules.h"
#include "ipoib_settings.h"
#include "ipoib_skb.h"
#include "ipoib_tx.h"
#include "ipoib_why.h"

MODULE_IMPORT_NS("NETDEV_INTERNAL");	/* netif_close_many() */

#define IPOIB_WATCHDOG		(10 * HZ)

/* ---- transmit ---------------------------------------------------------- */

/* Look up a packet's destination; false: it is waiting, or was dropped. */
static __always_inline bool ipoib_lookup(struct ipoib_dev *dev,
					 struct ipoib_last *last,
					 struct sk_buff *skb,
					 struct ipoib_dest *dest)
{
	const struct ipoib_encap *encap;
	const u8 *addr;

	if (unlikely(!pskb_may_pull(skb, IPOIB_HARD_LEN)))
		goto drop;
	addr = skb->data;
	encap = (const void *)(addr + INFINIBAND_ALEN);
	if (unlikely(!ipoib_proto_ok(encap->proto)))
		goto drop;
	if (unlikely(ipoib_addr_is_multicast(addr)))
		return ipoib_mcast_lookup(dev, skb, addr, dest);
	return ipoib_neigh_lookup(dev, last, skb, addr, encap->proto, dest);

drop:
	ipoib_dbg_data(dev, "protocol is not carried by IPoIB\n");
	ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_UNHANDLED_PROTO);
	return false;
}

/* Hand a packet to its destination's engine; never returns IPOIB_SENT_NOT. */
static __always_inline enum ipoib_sent ipoib_xmit(struct ipoib_txq *txq,
						  struct sk_buff *skb)
{
	struct ipoib_dest dest;
	enum ipoib_sent sent;

	if (unlikely(!ipoib_lookup(txq->qp.dev, &txq->last, skb, &dest)))
		return IPOIB_SENT_DONE;
	if (dest.link) {
		sent = ipoib_rc_send(txq, skb, dest.link);
		if (sent != IPOIB_SENT_NOT)
			return sent;
	}
	return ipoib_ud_send(txq, skb, dest.ah, dest.qpn);
}

static u32 ipoib_count_list(const struct sk_buff *skb)
{
	u32 num = 0;

	for (; skb; skb = skb->next)
		num++;
	return num;
}

/* A segment is not a GSO packet, so no engine asks to have it cut again. */
static bool ipoib_xmit_segment(struct ipoib_txq *txq, struct sk_buff *seg)
{
	enum ipoib_sent sent = ipoib_xmit(txq, seg);

	if (unlikely(sent == IPOIB_SENT_CUT))
		ipoib_drop(seg->dev, seg, SKB_DROP_REASON_SKB_GSO_SEG);
	return sent == IPOIB_SENT_FLUSH;
}

/*
 * A packet was left whole by ndo_features_check() but can't be sent so now: cut
 * it with the stack's code.  True if the queue's chains are to be posted now.
 */
static noinline bool ipoib_xmit_segments(struct ipoib_txq *txq,
					 struct sk_buff *skb)
{
	struct net_device *ndev = txq->qp.dev->ndev;
	struct sk_buff *segs, *seg, *next;
	bool flush = false;

	segs = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM);
	if (IS_ERR_OR_NULL(segs)) {
		ipoib_drop(ndev, skb, SKB_DROP_REASON_SKB_GSO_SEG);
		return false;
	}
	/* One slot is reserved for the drain marker. */
	if (unlikely(ipoib_count_list(segs) >= ipoib_txq_free(txq))) {
		kfree_skb_list(segs);
		ipoib_drop(ndev, skb, SKB_DROP_REASON_FULL_RING);
		return false;
	}
	consume_skb(skb);
	skb_list_walk_safe(segs, seg, next) {
		skb_mark_not_on_list(seg);
		flush |= ipoib_xmit_segment(txq, seg);
	}
	return flush;
}

static netdev_tx_t ipoib_start_xmit(struct sk_buff *skb,
				    struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u32 index = skb_get_queue_mapping(skb);
	struct ipoib_txq *txq;
	enum ipoib_sent sent;
	bool flush;

	/* A filter may say any number, and a sender be late. */
	if (unlikely(index >= READ_ONCE(dev->num_txqs))) {
		ipoib_drop(ndev, skb, SKB_DROP_REASON_DEV_READY);
		return NETDEV_TX_OK;
	}
	txq = dev->txqs[index];
	/* BHs disabled by the TX lock don't satisfy rhashtable_lookup(). */
	rcu_read_lock();
	sent = ipoib_xmit(txq, skb);
	flush = sent == IPOIB_SENT_FLUSH;
	if (unlikely(sent == IPOIB_SENT_CUT))
		flush = ipoib_xmit_segments(txq, skb);
	if (flush || !netdev_xmit_more()) {
		if (txq->chained)
			ipoib_txq_post(txq);
		if (txq->rc)
			ipoib_rc_flush(txq);
	}
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

/* On an HCA's own interface, which has queues and counters of its own. */
static netdev_tx_t ipoib_enhanced_xmit(struct sk_buff *skb,
				       struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u32 index = skb_get_queue_mapping(skb);
	struct ipoib_dest dest;

	/* A filter may say any number. */
	if (unlikely(index >= ndev->real_num_tx_queues)) {
		ipoib_drop(ndev, skb, SKB_DROP_REASON_DEV_READY);
		return NETDEV_TX_OK;
	}
	/* BHs disabled by the TX lock don't satisfy rhashtable_lookup(). */
	rcu_read_lock();
	if (likely(ipoib_lookup(dev, ipoib_enhanced_last(dev, index), skb,
				&dest)))
		ipoib_enhanced_send(dev, skb, dest.ah, dest.qpn);
	rcu_read_unlock();
	return NETDEV_TX_OK;
}

/* ---- header ------------------------------------------------------------ */

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

/* ---- queues and features ----------------------------------------------- */

/*
 * ARP, neighbour discovery and multicast are sent from the QP that peers know,
 * since peers or their tools may check the source QPN.  A connection uses one
 * queue, so that its packets stay in order.
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

/* What has to be done to a packet before it is sent, bits of enum ipoib_fit. */
static noinline u32 ipoib_fit_now(struct ipoib_dev *dev,
				  const struct sk_buff *skb)
{
	struct ipoib_link *link;
	u32 fit = 0;

	if (!READ_ONCE(dev->connected))
		return ipoib_ud_fit(dev, skb);
	rcu_read_lock();
	if (ipoib_neigh_link(dev, skb->data, &link))
		fit = link ? ipoib_link_fit(link, skb) : ipoib_ud_fit(dev, skb);
	else if (!ipoib_addr_is_rc(skb->data))
		fit = ipoib_ud_fit(dev, skb);
	rcu_read_unlock();
	return fit;
}

static netdev_features_t ipoib_features_check(struct sk_buff *skb,
					      struct net_device *ndev,
					      netdev_features_t features)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	/* More pieces than the HCA can gather: have the core linearize it. */
	if (unlikely(skb_shinfo(skb)->nr_frags >= dev->max_sge) &&
	    !(dev->connected && dev->max_sge >= IPOIB_REPACK_SGE))
		features &= ~NETIF_F_SG;
	if (!skb_is_gso(skb))
		return features;
	if (unlikely(skb_headlen(skb) < IPOIB_HARD_LEN))
		return features & ~NETIF_F_GSO_MASK;
	/* Don't cut a packet that is too long: one PMTU signal is enough. */
	if (ipoib_fit_now(dev, skb) & IPOIB_FIT_SEGMENT)
		features &= ~NETIF_F_GSO_MASK;
	return features;
}

static void ipoib_tx_timeout(struct net_device *ndev, unsigned int queue)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_txq *txq;

	if (queue >= READ_ONCE(dev->num_txqs))
		return;		/* taken away meanwhile */
	txq = dev->txqs[queue];
	netdev_warn(ndev, "transmit queue %u stuck: head %u tail %u\n", queue,
		    txq->head, READ_ONCE(txq->tail));
	ipoib_dev_event(dev, IPOIB_EV_RESTART);
}

/* ---- open and stop ----------------------------------------------------- */

/* Bring the children up with their parent. */
static void ipoib_children_open(struct ipoib_port *port)
{
	struct ipoib_dev *dev;

	int ret;

	ASSERT_RTNL();
	port->opening = true;
	list_for_each_entry(dev, &port->devs, port_entry) {
		if (!ipoib_is_child(dev) || netif_running(dev->ndev))
			continue;
		ret = dev_open(dev->ndev, NULL);
		/* The stack's doing: what fails in ipoib_open() is tried again. */
		if (ret)
			net_ratelimited_function(netdev_warn, dev->ndev,
						 "can't be opened with %s: %pe\n",
						 port->parent->name,
						 ERR_PTR(ret));
	}
	port->opening = false;
}

/*
 * Take the children down with their parent.  Their waits overlap, except of those
 * whose operations have a lock of their own, which must not all be held at once.
 */
static void ipoib_children_close(struct ipoib_port *port)
{
	struct ipoib_dev *dev;
	LIST_HEAD(list);

	ASSERT_RTNL();
	/* One that is no longer running is already being closed. */
	list_for_each_entry(dev, &port->devs, port_entry) {
		if (!ipoib_is_child(dev) || !netif_running(dev->ndev))
			continue;
		if (netdev_need_ops_lock(dev->ndev)) {
			dev_close(dev->ndev);
			continue;
		}
		ipoib_dev_stop_begin(dev);
		list_add_tail(&dev->ndev->close_list, &list);
	}
	netif_close_many(&list, true);
}

static int ipoib_open(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	int ret;

	ret = ipoib_dev_open(dev);
	if (ret && dev->port->opening && ipoib_is_child(dev)) {
		net_ratelimited_function(netdev_warn, ndev,
					 "can't be opened with %s, trying again: %pe\n",
					 dev->port->parent->name, ERR_PTR(ret));
		ipoib_dev_open_later(dev);
		return 0;
	}
	if (!ret)
		ipoib_dev_open_done(dev);
	if (!ret && !ipoib_is_child(dev))
		ipoib_children_open(dev->port);
	return ret;
}

static int ipoib_stop(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (!ipoib_is_child(dev))
		ipoib_children_close(dev->port);
	/* Such a child has not been opened yet. */
	if (dev->open_due)
		ipoib_dev_open_done(dev);
	else
		ipoib_dev_close(dev);
	return 0;
}

/* ---- settings ---------------------------------------------------------- */

static int ipoib_change_mtu(struct net_device *ndev, int mtu)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u32 old = dev->admin_mtu;
	int ret = 0;

	if (!dev->setting_mtu)
		dev->admin_mtu = mtu;
	/* What it has already may cost an HCA all its buffers nevertheless. */
	if (ipoib_dev_mtu(dev) != ndev->mtu)
		ret = dev->engine->set_mtu(dev, ipoib_dev_mtu(dev));
	if (ret) {
		dev->admin_mtu = old;
		return ret;
	}
	if (!dev->connected && ndev->mtu < mtu)
		net_ratelimited_function(netdev_info, ndev,
					 "MTU is limited to %u by the broadcast group\n",
					 ndev->mtu);
	return 0;
}

static void ipoib_set_rx_mode(struct net_device *ndev)
{
	ipoib_mcast_resync(ipoib_priv(ndev));
}

/* What the stack wants in its place where operations have a lock of their own */
static int ipoib_set_rx_mode_async(struct net_device *ndev,
				   struct netdev_hw_addr_list *uc,
				   struct netdev_hw_addr_list *mc)
{
	ipoib_mcast_resync(ipoib_priv(ndev));
	return 0;
}

static int ipoib_get_iflink(const struct net_device *ndev)
{
	return READ_ONCE(ipoib_priv(ndev)->port->parent->ifindex);
}

/* Only the GUID in the address can be changed, to another one of the port's. */
static int ipoib_set_mac_address(struct net_device *ndev, void *p)
{
	const u8 *addr = ((const struct sockaddr_storage *)p)->__data;
	struct ipoib_dev *dev = ipoib_priv(ndev);
	__be64 guid = ipoib_addr_guid(addr);

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
	ipoib_dev_choose_guid(dev, guid);
	return 0;
}

/* ---- virtual functions of the HCA -------------------------------------- */

/*
 * They are configured through the port's own interface.  A child may belong to
 * a container, whose root must not configure the HCA: a child has no VFs.
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

/* The GID that a VF's interface will have, zero where the HCA can't tell. */
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
 * The address of a VF is known except for the QPN, which is not assigned before
 * the VF has an interface.
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

/* ---- setup and teardown ------------------------------------------------ */

/* The range is the port's; an MTU that the net_device has already must fit. */
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
	return 0;
}

/* Create the interface's QPs, which determine its address. */
static int ipoib_init(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u8 addr[INFINIBAND_ALEN];
	int ret;

	ret = dev->engine->create(dev);
	if (ret) {
		/* A QP may have failed already; nothing else cancels the work. */
		cancel_delayed_work_sync(&dev->work);
		ipoib_why_stop(dev);
		return ret;
	}
	netif_carrier_off(ndev);
	ipoib_dev_attach(dev);
	ipoib_dev_fill_addr(dev, addr);
	dev_addr_set(ndev, addr);
	return 0;
}

/* No HCA resource is in use any more when this returns. */
static void ipoib_uninit(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	if (dev->connected)
		ipoib_cm_disable(dev);
	ipoib_port_detach(dev->port, dev);
	dev->engine->destroy(dev);
	/* It takes no rtnl, and does nothing while the interface is down. */
	cancel_delayed_work_sync(&dev->work);
	ipoib_why_stop(dev);
}

static const struct net_device_ops ipoib_netdev_ops;

/* Undo ipoib_netdev_prepare().  The port may be gone. */
static void ipoib_destructor(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct rdma_netdev *rn = netdev_priv(ndev);

	/* Waits for the CM to release the remaining connections. */
	if (dev->cm)
		ipoib_cm_exit(dev);
	/* Those of an HCA's own interface go with the engine. */
	ndev->netdev_ops = &ipoib_netdev_ops;
	if (dev->engine)
		dev->engine->exit(dev);
	if (dev->mcast)
		ipoib_mcast_exit(dev);
	if (dev->neigh)
		ipoib_neigh_exit(dev);
	ipoib_why_exit(dev);
	rn->clnt_priv = NULL;
	kfree(dev);
}

/*
 * For parents and children.  Settings of the HCA and of the port are refused on
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

/*
 * What the HCA's own interface can do and the driver does not know of, such as
 * time stamps, stays as it is.
 */
static void ipoib_overlay(struct net_device_ops *ops)
{
	const struct net_device_ops *own = &ipoib_netdev_ops;

	ops->ndo_init = own->ndo_init;
	ops->ndo_uninit = own->ndo_uninit;
	ops->ndo_open = own->ndo_open;
	ops->ndo_stop = own->ndo_stop;
	ops->ndo_start_xmit = ipoib_enhanced_xmit;
	ops->ndo_change_mtu = own->ndo_change_mtu;
	ops->ndo_tx_timeout = ipoib_enhanced_tx_timeout;
	ops->ndo_set_rx_mode = NULL;
	ops->ndo_set_rx_mode_async = ipoib_set_rx_mode_async;
	ops->ndo_set_mac_address = own->ndo_set_mac_address;
	ops->ndo_get_iflink = own->ndo_get_iflink;
	ops->ndo_set_vf_link_state = own->ndo_set_vf_link_state;
	ops->ndo_get_vf_config = own->ndo_get_vf_config;
	ops->ndo_get_vf_stats = own->ndo_get_vf_stats;
	ops->ndo_get_vf_guid = own->ndo_get_vf_guid;
	ops->ndo_set_vf_guid = own->ndo_set_vf_guid;
	ops->ndo_get_stats64 = ipoib_enhanced_get_stats64;
}

static void ipoib_set_features(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;

	if (!dev->enhanced)
		ndev->hw_features = ipoib_datagram_offloads(dev->port->ca);
	ndev->features |= ndev->hw_features | NETIF_F_VLAN_CHALLENGED;
	/* Cutting packets in software needs kernel addresses of their pages. */
	if (!IS_ENABLED(CONFIG_HIGHMEM))
		ndev->features |= NETIF_F_HIGHDMA;
}

/* Have the HCA set up its own interface, and put ours on top of it. */
static int ipoib_netdev_enhance(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	int ret;

	ret = ipoib_enhanced_init(dev);
	/* It replaced this if it has something to free, which the engine does. */
	ndev->priv_destructor = ipoib_destructor;
	if (ret)
		return ret;
	ipoib_overlay(&dev->enhanced->ops);
	ndev->netdev_ops = &dev->enhanced->ops;
	return 0;
}

static int ipoib_netdev_init(struct ipoib_dev *dev)
{
	int ret;

	ret = ipoib_why_init(dev);
	ret = ret ?: ipoib_neigh_init(dev);
	ret = ret ?: ipoib_mcast_init(dev);
	ret = ret ?: ipoib_set_mtu_range(dev);
	if (ret)
		return ret;
	if (dev->port->enhanced)
		return ipoib_netdev_enhance(dev);
	dev->engine = &ipoib_verbs_engine;
	return ipoib_cm_init(dev);
}

/**
 * ipoib_netdev_alloc - allocate a net_device for an interface of a port
 * @port: port
 * @name: name, or a format for it
 * @assign: where the name is from, NET_NAME_*
 * @txqs: transmit queues, unless the HCA's own interface says how many
 * @rxqs: receive queues, likewise
 * @setup: of the net_device
 *
 * Context: process.
 * Return: net_device, or ERR_PTR()
 */
struct net_device *ipoib_netdev_alloc(struct ipoib_port *port, const char *name,
				      u8 assign, u32 txqs, u32 rxqs,
				      void (*setup)(struct net_device *ndev))
{
	struct net_device *ndev;

	if (port->enhanced)
		return rdma_alloc_netdev(port->ca, port->num, RDMA_NETDEV_IPOIB,
					 name, assign, setup);
	ndev = alloc_netdev_mqs(sizeof(struct rdma_netdev), name, assign, setup,
				txqs, rxqs);
	return ndev ?: ERR_PTR(-ENOMEM);
}

/**
 * ipoib_netdev_prepare - make a net_device an interface of a port
 * @ndev: net_device, as ipoib_netdev_setup() left it
 * @port: port
 * @pkey: P_Key with the full membership bit
 *
 * To be registered, or released by ipoib_netdev_release(), also if this fails.
 *
 * Context: process.
 * Return: 0, -ERANGE if the port does not allow the MTU that @ndev has, or -errno
 */
int ipoib_netdev_prepare(struct net_device *ndev, struct ipoib_port *port,
			 u16 pkey)
{
	struct rdma_netdev *rn = netdev_priv(ndev);
	struct ipoib_dev *dev;
	int ret;
	u32 i;

	dev = kzalloc_obj(*dev);
	if (!dev)
		return -ENOMEM;
	rn->clnt_priv = dev;
	dev->ndev = ndev;
	dev->port = port;
	dev->pkey = pkey;
	dev->max_txqs = min_t(u32, ndev->num_tx_queues, IPOIB_MAX_TXQS);
	INIT_LIST_HEAD(&dev->port_entry);
	ipoib_dev_init(dev);
	for (i = 0; i < ARRAY_SIZE(dev->rx); i++)
		u64_stats_init(&dev->rx[i].sync);

	ipoib_addr_set_pkey(ndev->broadcast, pkey);
	ndev->dev_id = port->num - 1;
	ndev->dev_port = port->num - 1;
	ret = ipoib_netdev_init(dev);
	if (!ret)
		ipoib_set_features(dev);
	return ret;
}

/**
 * ipoib_netdev_release - undo ipoib_netdev_prepare()
 * @ndev: net_device that is not registered, or could not be; nothing is done if
 *	that undid it, or if it will be with the last reference
 *
 * Context: process.
 */
void ipoib_netdev_release(struct net_device *ndev)
{
	if (ipoib_priv(ndev) && ndev->reg_state != NETREG_UNREGISTERING)
		ipoib_destructor(ndev);
}

/**
 * ipoib_netdev_setup - initialise a new net_device as an interface
 * @ndev: net_device with room for struct rdma_netdev
 *
 * Called by ipoib_link_ops.setup.
 */
void ipoib_netdev_setup(struct net_device *ndev)
{
	ndev->netdev_ops = &ipoib_netdev_ops;
	ndev->header_ops = &ipoib_header_ops;
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
}

/**
 * ipoib_netdev_is_ours - is a net_device an interface of this driver?
 * @ndev: any net_device
 */
bool ipoib_netdev_is_ours(const struct net_device *ndev)
{
	return ndev->netdev_ops->ndo_init == ipoib_init;
}
