// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine with an HCA's own interface (struct rdma_netdev)
 *
 * Some HCAs have an interface for IPoIB, with queues that this driver does not
 * see: it resolves addresses and joins groups, and hands packets to the HCA.  The
 * HCA says how large its net_device is, sets it up, and puts its operations there;
 * ours go on top, and call those below.  Two kinds exist:
 *
 *   - with a QP of the HCA's own (mlx5),
 *   - over our QP (hfi1): its operations call those that they found,
 *     ipoib_verbs_below.
 *
 * This file need not know which it is.
 *
 * An HCA's ndo_open and ndo_stop may need rtnl, see ipoib_engine.rtnl.
 *
 * Locks: struct ipoib_enhanced.lock; the TX lock for sending.
 */
#include <linux/ipoib.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>

#include "ipoib.h"
#include "ipoib_attach.h"
#include "ipoib_engine.h"
#include "ipoib_enhanced.h"
#include "ipoib_ib.h"
#include "ipoib_netdev.h"
#include "ipoib_pmtu.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_skb.h"
#include "ipoib_tx.h"
#include "ipoib_ud.h"
#include "ipoib_verbs.h"

/* ---- the net_devices that HCAs want -------------------------------------- */

/*
 * What the most demanding HCA wants.  rtnetlink allocates a child before the driver
 * hears whose it is to be: it gets this.
 */
static DEFINE_MUTEX(ipoib_most_lock);
static struct rdma_netdev_alloc_params ipoib_most = {
	.sizeof_priv = sizeof(struct rdma_netdev),
	.txqs = 1,
	.rxqs = 1,
};

static int ipoib_enhanced_params(struct ib_device *ca, u32 num,
				 struct rdma_netdev_alloc_params *params)
{
	if (!ca->ops.rdma_netdev_get_params)
		return -EOPNOTSUPP;
	return ca->ops.rdma_netdev_get_params(ca, num, RDMA_NETDEV_IPOIB,
					      params);
}

/**
 * ipoib_enhanced_ask - does the HCA have an interface of its own for a port?
 * @ca: HCA
 * @num: port number
 * @use: it is to be used
 *
 * Called before the port's first interface is registered, so that whoever finds
 * that as the parent of a child has got a child that is large enough.
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP if there is none, or the HCA's error
 */
int ipoib_enhanced_ask(struct ib_device *ca, u32 num, bool use)
{
	struct rdma_netdev_alloc_params params = { };
	int ret;

	ret = ipoib_enhanced_params(ca, num, &params);
	if (ret || !use)
		return ret;
	mutex_lock(&ipoib_most_lock);
	WRITE_ONCE(ipoib_most.sizeof_priv,
		   max(ipoib_most.sizeof_priv, params.sizeof_priv));
	WRITE_ONCE(ipoib_most.txqs, max(ipoib_most.txqs, params.txqs));
	WRITE_ONCE(ipoib_most.rxqs, max(ipoib_most.rxqs, params.rxqs));
	mutex_unlock(&ipoib_most_lock);
	return 0;
}

/* Size of the private data of a net_device that may become any HCA's. */
size_t ipoib_enhanced_most_priv(void)
{
	return READ_ONCE(ipoib_most.sizeof_priv);
}

/* Its transmit queues. */
u32 ipoib_enhanced_most_txqs(void)
{
	return READ_ONCE(ipoib_most.txqs);
}

/* Its receive queues. */
u32 ipoib_enhanced_most_rxqs(void)
{
	return READ_ONCE(ipoib_most.rxqs);
}

/* ---- setup and teardown --------------------------------------------------- */

static const struct ipoib_attach_ops ipoib_enhanced_attach_ops;

/* The HCA has set MTUs, too: the smaller ones hold. */
static int ipoib_enhanced_fit_mtu(struct ipoib_dev *dev, u32 mtu)
{
	struct net_device *ndev = dev->ndev;
	u32 most = min_t(u32, ndev->max_mtu, dev->ud_mtu);
	struct rdma_netdev *rn = netdev_priv(ndev);

	/* Without another wish it is the largest. */
	if (mtu == dev->ud_mtu)
		mtu = most;
	ndev->min_mtu = max_t(u32, ndev->min_mtu, IPOIB_MTU_MIN);
	ndev->max_mtu = most;
	ndev->mtu = mtu;
	dev->ud_mtu = most;
	dev->admin_mtu = mtu;
	rn->mtu = most;
	return mtu < ndev->min_mtu || mtu > most ? -ERANGE : 0;
}

/* The HCA sets up a net_device that it finds as its API has it. */
static int ipoib_enhanced_set_up(struct ipoib_dev *dev)
{
	struct rdma_netdev_alloc_params params = { };
	struct net_device *ndev = dev->ndev;
	struct ipoib_port *port = dev->port;
	int ret;

	ret = ipoib_enhanced_params(port->ca, port->num, &params);
	if (ret)
		return ret;
	/* A child may have got more than it uses, for which the HCA would make rings. */
	ndev->num_tx_queues = min(ndev->num_tx_queues, params.txqs);
	ret = netif_set_real_num_tx_queues(ndev, ndev->num_tx_queues);
	if (ret)
		return ret;
	ndev->netdev_ops = &ipoib_verbs_below;
	ndev->priv_destructor = NULL;
	ndev->pcpu_stat_type = NETDEV_PCPU_STAT_NONE;
	return rdma_init_netdev(port->ca, port->num, RDMA_NETDEV_IPOIB,
				ndev->name, ndev->name_assign_type, NULL, ndev);
}

/**
 * ipoib_enhanced_init - have the HCA set up its own interface
 * @dev: interface of a port that uses it, whose MTU is known
 *
 * On success the net_device has the HCA's operations, which are to be replaced by
 * ipoib_enhanced.ops.  Undone by the engine's @exit.
 *
 * Context: process.
 * Return: 0 or -errno; then the net_device is of no use any more
 */
int ipoib_enhanced_init(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	struct ipoib_enhanced *e;
	u32 mtu = ndev->mtu;
	int ret;

	e = kvzalloc_flex(*e, last, ndev->num_tx_queues);
	if (!e)
		return -ENOMEM;
	mutex_init(&e->lock);
	ipoib_attached_init(&e->attached, dev, &ipoib_enhanced_attach_ops,
			    &e->lock);
	e->max_len = dev->ud_mtu + IPOIB_ENCAP_LEN;
	dev->enhanced = e;
	dev->engine = &ipoib_enhanced_engine;
	/* For the QP below, if there is to be one: its queue sends nothing. */
	dev->max_txqs = 1;
	ndev->stat_ops = NULL;
	ret = ipoib_enhanced_set_up(dev);
	if (ret)
		return ret;
	e->destructor = ndev->priv_destructor;
	e->below = ndev->netdev_ops;
	e->ops = *e->below;
	/* Who frees it is ours to say. */
	ndev->needs_free_netdev = false;
	/* An HCA without offloads gathers nevertheless. */
	ndev->hw_features |= NETIF_F_SG;
	if (ipoib_is_child(dev))
		netdev_hold(dev->port->parent, &e->parent, GFP_KERNEL);
	return ipoib_enhanced_fit_mtu(dev, mtu);
}

static void ipoib_enhanced_exit(struct ipoib_dev *dev)
{
	struct ipoib_enhanced *e = dev->enhanced;

	if (e->destructor)
		e->destructor(dev->ndev);
	if (e->below && ipoib_is_child(dev))
		netdev_put(dev->port->parent, &e->parent);
	ipoib_ud_exit(dev);
	kvfree(e);
	dev->enhanced = NULL;
}

static int ipoib_enhanced_create(struct ipoib_dev *dev)
{
	const struct net_device_ops *below = dev->enhanced->below;
	int ret;

	ret = below->ndo_init ? below->ndo_init(dev->ndev) : 0;
	if (!ret)
		WRITE_ONCE(dev->qpn, ipoib_addr_qpn(dev->ndev->dev_addr));
	return ret;
}

static void ipoib_enhanced_destroy(struct ipoib_dev *dev)
{
	const struct net_device_ops *below = dev->enhanced->below;

	/* With our QP below, it is that one which is attached, and waits. */
	ipoib_attached_exit(&dev->enhanced->attached, !dev->num_txqs);
	ipoib_attached_hand(&dev->enhanced->attached,
			    dev->num_txqs ? &dev->ud->attached : NULL);
	if (below->ndo_uninit)
		below->ndo_uninit(dev->ndev);
}

/* ---- up and down ---------------------------------------------------------- */

/* An HCA's own interface gets memory when it is started. */
static int ipoib_enhanced_open(struct ipoib_dev *dev)
{
	return 0;
}

static void ipoib_enhanced_close(struct ipoib_dev *dev)
{
}

static int ipoib_enhanced_start_locked(struct ipoib_dev *dev)
{
	struct ipoib_enhanced *e = dev->enhanced;
	struct net_device *ndev = dev->ndev;
	const struct rdma_netdev *rn = netdev_priv(ndev);
	int ret;

	lockdep_assert_held(&e->lock);
	ret = ib_find_pkey(dev->port->ca, dev->port->num, dev->pkey,
			   &dev->pkey_index);
	if (ret)
		return ret;
	/* It takes effect when the interface is opened. */
	if (rn->set_id)
		rn->set_id(ndev, dev->pkey_index);
	ret = e->below->ndo_open(ndev);
	if (ret) {
		netdev_warn(ndev, "the HCA's interface can't be opened: %pe\n",
			    ERR_PTR(ret));
		/* Not the P_Key, for which nobody would try again. */
		return ret == -ENOENT ? -EIO : ret;
	}
	e->up = true;
	e->qkey_due = true;
	/* It may have started its queues: only those that are stopped can be woken. */
	netif_tx_disable(ndev);
	return 0;
}

static int ipoib_enhanced_start(struct ipoib_dev *dev)
{
	struct ipoib_enhanced *e = dev->enhanced;
	int ret;

	mutex_lock(&e->lock);
	ret = ipoib_enhanced_start_locked(dev);
	mutex_unlock(&e->lock);
	return ret;
}

/* Senders have seen that it is no longer running when this returns. */
static void ipoib_enhanced_stop_begin(struct ipoib_dev *dev)
{
	WARN_ON_ONCE(READ_ONCE(dev->running));
	netif_tx_disable(dev->ndev);
}

static void ipoib_enhanced_stop_locked(struct ipoib_dev *dev)
{
	struct ipoib_enhanced *e = dev->enhanced;

	lockdep_assert_held(&e->lock);
	if (!e->up)
		return;
	e->up = false;
	e->below->ndo_stop(dev->ndev);
}

static void ipoib_enhanced_stop(struct ipoib_dev *dev)
{
	struct ipoib_enhanced *e = dev->enhanced;

	ipoib_enhanced_stop_begin(dev);
	mutex_lock(&e->lock);
	ipoib_enhanced_stop_locked(dev);
	mutex_unlock(&e->lock);
}

/* The HCA recovers by itself from a failed send. */
static int ipoib_enhanced_repair(struct ipoib_dev *dev)
{
	return 0;
}

/* ---- link ----------------------------------------------------------------- */

static int ipoib_enhanced_set_link(struct ipoib_dev *dev, u32 max_len, u32 qkey)
{
	struct rdma_netdev *rn = netdev_priv(dev->ndev);
	struct ipoib_enhanced *e = dev->enhanced;
	int ret = 0;

	mutex_lock(&e->lock);
	WRITE_ONCE(e->max_len, max_len);
	WRITE_ONCE(rn->mtu, max_len - IPOIB_ENCAP_LEN);
	if (dev->qkey != qkey)
		e->qkey_due = true;
	if (dev->num_txqs)
		ret = ipoib_ud_set_link(dev, max_len, qkey);
	else
		WRITE_ONCE(dev->qkey, qkey);
	mutex_unlock(&e->lock);
	return ret;
}

static int ipoib_enhanced_set_mtu(struct ipoib_dev *dev, u32 mtu)
{
	const struct net_device_ops *below = dev->enhanced->below;

	if (below->ndo_change_mtu)
		return below->ndo_change_mtu(dev->ndev, mtu);
	WRITE_ONCE(dev->ndev->mtu, mtu);
	return 0;
}

/* The HCA hears of the Q_Key with the next group: that is the broadcast group. */
static int ipoib_enhanced_verb_attach(struct ipoib_dev *dev,
				      union ib_gid *mgid, u16 mlid)
{
	const struct rdma_netdev *rn = netdev_priv(dev->ndev);
	struct ipoib_enhanced *e = dev->enhanced;
	int ret;

	ret = rn->attach_mcast(dev->ndev, dev->port->ca, mgid, mlid,
			       e->qkey_due, dev->qkey);
	if (!ret)
		e->qkey_due = false;
	return ret;
}

static int ipoib_enhanced_verb_detach(struct ipoib_dev *dev,
				      union ib_gid *mgid, u16 mlid)
{
	const struct rdma_netdev *rn = netdev_priv(dev->ndev);

	return rn->detach_mcast(dev->ndev, dev->port->ca, mgid, mlid);
}

static const struct ipoib_attach_ops ipoib_enhanced_attach_ops = {
	.attach = ipoib_enhanced_verb_attach,
	.detach = ipoib_enhanced_verb_detach,
};

static void ipoib_enhanced_detach(struct ipoib_dev *dev,
				  struct ipoib_ud_group *group)
{
	mutex_lock(&dev->enhanced->lock);
	ipoib_detach(&dev->enhanced->attached, group);
	mutex_unlock(&dev->enhanced->lock);
}

static int ipoib_enhanced_attach(struct ipoib_dev *dev,
				 struct ipoib_ud_group *group,
				 const union ib_gid *mgid, __be16 mlid)
{
	struct ipoib_enhanced *e = dev->enhanced;
	int ret;

	mutex_lock(&e->lock);
	ret = ipoib_attach(&e->attached, group, mgid, mlid, e->qkey_due);
	mutex_unlock(&e->lock);
	return ret;
}

const struct ipoib_engine ipoib_enhanced_engine = {
	.name		= "enhanced",
	.id		= IPOIB_DEV_ENGINE_ENHANCED,
	.rtnl		= true,
	.create		= ipoib_enhanced_create,
	.destroy	= ipoib_enhanced_destroy,
	.exit		= ipoib_enhanced_exit,
	.open		= ipoib_enhanced_open,
	.close		= ipoib_enhanced_close,
	.start		= ipoib_enhanced_start,
	.stop_begin	= ipoib_enhanced_stop_begin,
	.stop		= ipoib_enhanced_stop,
	.repair		= ipoib_enhanced_repair,
	.set_link	= ipoib_enhanced_set_link,
	.set_mtu	= ipoib_enhanced_set_mtu,
	.attach		= ipoib_enhanced_attach,
	.detach		= ipoib_enhanced_detach,
};

/* ---- packets -------------------------------------------------------------- */

/**
 * ipoib_enhanced_refuse - drop a packet that can't be handed to the HCA
 * @dev: interface
 * @skb: packet with its link-layer address in front; it is too long for the link,
 *	if the interface is up
 * @max_len: most bytes, with the encapsulation
 *
 * Context: as ipoib_enhanced_send().
 */
void ipoib_enhanced_refuse(struct ipoib_dev *dev, struct sk_buff *skb,
			   u32 max_len)
{
	if (READ_ONCE(dev->running))
		ipoib_pmtu_too_long(dev, skb, max_len);
	else
		ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_DEV_READY);
}

/**
 * ipoib_enhanced_tx_timeout - ndo_tx_timeout
 * @ndev: interface
 * @queue: transmit queue that is stuck
 */
void ipoib_enhanced_tx_timeout(struct net_device *ndev, unsigned int queue)
{
	const struct rdma_netdev *rn = netdev_priv(ndev);

	netdev_warn(ndev, "transmit queue %u stuck\n", queue);
	if (rn->tx_timeout)
		rn->tx_timeout(ndev, queue);
	ipoib_priv(ndev)->enhanced->restarts++;
	ipoib_dev_event(ipoib_priv(ndev), IPOIB_EV_RESTART);
}

/**
 * ipoib_enhanced_get_stats64 - ndo_get_stats64: what the HCA counts, and drops
 * @ndev: interface
 * @stats: result
 */
void ipoib_enhanced_get_stats64(struct net_device *ndev,
				struct rtnl_link_stats64 *stats)
{
	const struct net_device_ops *below = ipoib_priv(ndev)->enhanced->below;
	struct rtnl_link_stats64 own;

	if (!below->ndo_get_stats64 ||
	    below->ndo_get_stats64 == dev_get_tstats64) {
		netdev_stats_to_stats64(stats, &ndev->stats);
		if (ndev->tstats)
			dev_fetch_sw_netstats(stats, ndev->tstats);
		return;
	}
	below->ndo_get_stats64(ndev, stats);
	netdev_stats_to_stats64(&own, &ndev->stats);
	stats->rx_errors += own.rx_errors;
	stats->rx_dropped += own.rx_dropped;
	stats->tx_errors += own.tx_errors;
	stats->tx_dropped += own.tx_dropped;
	stats->multicast += own.multicast;
}
