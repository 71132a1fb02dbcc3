// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: accelerated interfaces for IPoIB (struct rdma_netdev)
 *
 * IPoIB allocates a net_device with the queues and the private data that the HCA
 * asks for, has the HCA set it up, and puts its own operations before those found
 * there.  Two kinds exist (rdma_netdev=):
 *
 *   - own, as mlx5's: the interface has a QP of its own, which nothing but RSS
 *     receives for, and channels that send with its number.  Children only send;
 *     what is for them arrives at the channels of the port's own interface, so that
 *     they hear nothing while that is down.  They look for it in the namespace that
 *     they are registered in, and refuse to have fewer receive queues than it uses.
 *     The Q_Key of what is received is fixed.
 *     A P_Key index (set_id) takes effect when the interface is opened.
 *   - ud, as hfi1's: IPoIB's operations are called and create the UD QP, whose
 *     number is taken from the interface's address.  The channels send and receive
 *     in its place while the interface is up.  There are more of them for sending
 *     than for receiving, and no offloads.
 *
 * IPoIB may open and stop an interface without rtnl, and stop it twice; up and down
 * are serialized by nif->lock.  As of 6.16, own ones want the lock of the net_device's
 * operations for that, as mlx5's.
 */
#include <linux/if_infiniband.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/netdev_lock.h>

#include "call.h"
#include "channel.h"
#include "mcast.h"
#include "netdev.h"
#include "nethtool.h"
#include "object.h"
#include "phc.h"
#include "rcv.h"
#include "ring.h"

/* Transmit queues of an interface that has the UD QP of IPoIB. */
static u32 ibds_nif_ud_txqs(const struct ibds_caps *caps)
{
	return min_t(u32, 2 * caps->channels, IBDS_MAX_CHANNELS);
}

/* Protects struct ibds_port.nif. */
static DEFINE_MUTEX(ibds_nif_mutex);

static u32 ibds_nif_address_qpn(const struct net_device *netdev)
{
	const u8 *address = netdev->dev_addr;

	return address[1] << 16 | address[2] << 8 | address[3];
}

/* ---- the QP of an interface of its own ---------------------------------- */

static void ibds_under_close(struct ibds_nif *nif)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	ib_modify_qp(nif->under, &attr, IB_QP_STATE);
}

static int ibds_under_new(struct ibds_nif *nif)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 1 };
	struct ib_qp_init_attr init = { .qp_type = IB_QPT_UD };
	struct ib_cq *cq;
	struct ib_qp *qp;

	/* Never used: receives are those of channels. */
	cq = ib_create_cq(&nif->dev->ib, NULL, NULL, NULL, &cq_attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(nif->pd, &init);
	if (IS_ERR(qp)) {
		ib_destroy_cq(cq);
		return PTR_ERR(qp);
	}
	nif->cq = cq;
	nif->under = qp;
	nif->qpn = qp->qp_num;
	/* Groups are those of the right port from the start. */
	to_ibds_qp(qp)->port = nif->port;
	return 0;
}

static void ibds_under_free(struct ibds_nif *nif)
{
	union ib_gid mgid;
	u16 mlid;

	if (!nif->under)
		return;
	while (ibds_mcast_find(to_ibds_qp(nif->under), true, &mgid, &mlid)) {
		dev_warn_once(&nif->dev->ib.dev,
			      "%s: IPoIB left it attached to group %pI6\n",
			      nif->netdev->name, mgid.raw);
		if (ib_detach_mcast(nif->under, &mgid, mlid))
			break;
	}
	ib_destroy_qp(nif->under);
	ib_destroy_cq(nif->cq);
}

/* ---- registering -------------------------------------------------------- */

/* Stamp what a port receives if one of its interfaces wants that. */
static void ibds_nif_update_stamps(struct ibds_nif *main)
{
	struct ibds_nif *nif;
	unsigned long qpn;
	bool stamp = false;

	xa_for_each(&main->by_qpn, qpn, nif)
		stamp |= nif->tstamp.rx_filter != HWTSTAMP_FILTER_NONE;
	WRITE_ONCE(main->rss->stamp, stamp);
}

/* A child finds the interface it belongs to, and counts there. */
static int ibds_nif_adopt(struct ibds_nif *nif)
{
	struct net_device *netdev = nif->netdev;
	struct ibds_nif *main = nif->main;
	struct net_device *parent;
	int link;

	if (main == nif)
		return 0;
	link = netdev->netdev_ops->ndo_get_iflink(netdev);
	parent = __dev_get_by_index(dev_net(netdev), link);
	if (!parent || parent != main->netdev) {
		dev_warn(&nif->dev->ib.dev,
			 "%s: no interface of the HCA is its parent\n",
			 netdev->name);
		return -EINVAL;
	}
	if (netdev->num_rx_queues < parent->real_num_rx_queues) {
		dev_warn(&nif->dev->ib.dev,
			 "%s: %u receive queues, its parent uses %u\n",
			 netdev->name, netdev->num_rx_queues,
			 parent->real_num_rx_queues);
		return -EINVAL;
	}
	main->children++;
	/* It receives by the channels of its parent. */
	netif_set_real_num_rx_queues(netdev, parent->real_num_rx_queues);
	return 0;
}

static int ibds_own_init(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u8 qpn[3] = { nif->qpn >> 16, nif->qpn >> 8, nif->qpn };
	int err;

	err = ibds_nif_adopt(nif);
	if (err)
		return err;
	err = xa_insert(&nif->main->by_qpn, nif->qpn, nif, GFP_KERNEL);
	if (err) {
		if (nif->main != nif)
			nif->main->children--;
		return err;
	}
	dev_addr_mod(netdev, 1, qpn, sizeof(qpn));
	return 0;
}

/* Children are unregistered first. */
static void ibds_own_uninit(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);

	cancel_delayed_work_sync(&nif->restart);
	ibds_under_close(nif);
	xa_erase(&nif->main->by_qpn, nif->qpn);
	/* It may have been the only one that wanted stamps. */
	ibds_nif_update_stamps(nif->main);
	if (nif->main != nif)
		nif->main->children--;
}

static int ibds_ud_init(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	int err;

	err = nif->below->ndo_init(netdev);
	if (err)
		return err;
	nif->qpn = ibds_nif_address_qpn(netdev);
	return 0;
}

static void ibds_ud_uninit(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);

	cancel_delayed_work_sync(&nif->restart);
	nif->below->ndo_uninit(netdev);
}

/* ---- up and down -------------------------------------------------------- */

static int ibds_own_up(struct ibds_nif *nif)
{
	int err;

	err = ibds_nif_start_qp(nif, nif->under) ?: ibds_channels_open(nif);
	if (err) {
		ibds_under_close(nif);
		return err;
	}
	ibds_rcv_set_rss(nif->dev, nif->qpn, nif->main->rss);
	return 0;
}

static int ibds_own_open(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	int err = 0;

	mutex_lock(&nif->lock);
	if (!nif->open) {
		WRITE_ONCE(nif->open, true);
		err = ibds_own_up(nif);
		if (err)
			WRITE_ONCE(nif->open, false);
	}
	mutex_unlock(&nif->lock);
	return err;
}

static int ibds_own_stop(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);

	mutex_lock(&nif->lock);
	if (nif->open) {
		netif_carrier_off(netdev);
		ibds_rcv_set_rss(nif->dev, nif->qpn, NULL);
		ibds_channels_close(nif);
		ibds_under_close(nif);
		WRITE_ONCE(nif->open, false);
	}
	mutex_unlock(&nif->lock);
	return 0;
}

static int ibds_ud_open(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	int err;

	err = nif->below->ndo_open(netdev);
	if (err)
		return err;
	mutex_lock(&nif->lock);
	nif->qpn = ibds_nif_address_qpn(netdev);
	WRITE_ONCE(nif->open, true);
	err = ibds_channels_open(nif);
	if (err)
		WRITE_ONCE(nif->open, false);
	else
		ibds_rcv_set_rss(nif->dev, nif->qpn, nif->rss);
	mutex_unlock(&nif->lock);
	if (err)
		nif->below->ndo_stop(netdev);
	return err;
}

static int ibds_ud_stop(struct net_device *netdev)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	bool open;
	int err;

	mutex_lock(&nif->lock);
	open = nif->open;
	ibds_channels_close(nif);
	WRITE_ONCE(nif->open, false);
	mutex_unlock(&nif->lock);
	if (!open)
		return 0;
	err = nif->below->ndo_stop(netdev);
	/* Last, so that the QP itself never receives. */
	ibds_rcv_set_rss(nif->dev, nif->qpn, NULL);
	return err;
}

/* An error stopped a channel. */
static void ibds_nif_restart(struct work_struct *work)
{
	struct ibds_nif *nif = container_of(to_delayed_work(work),
					    struct ibds_nif, restart);

	/*
	 * The list of NAPIs is read under rtnl.  Whoever unregisters the interface
	 * has it, and waits for this.
	 */
	if (!rtnl_trylock()) {
		schedule_delayed_work(&nif->restart, msecs_to_jiffies(10));
		return;
	}
	netdev_lock_ops(nif->netdev);
	mutex_lock(&nif->lock);
	if (ibds_channels_reopen(nif))
		schedule_delayed_work(&nif->restart, HZ);
	mutex_unlock(&nif->lock);
	netdev_unlock_ops(nif->netdev);
	rtnl_unlock();
}

/* ---- other operations --------------------------------------------------- */

static int ibds_own_change_mtu(struct net_device *netdev, int mtu)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 room, was = netdev->mtu;
	int err = 0;

	mutex_lock(&nif->lock);
	room = ibds_nif_room(nif);
	WRITE_ONCE(netdev->mtu, mtu);
	/* Children have no buffers. */
	if (nif->main == nif && ibds_nif_room(nif) != room)
		err = ibds_channels_reopen(nif);
	if (err) {
		WRITE_ONCE(netdev->mtu, was);
		schedule_delayed_work(&nif->restart, 0);
	}
	mutex_unlock(&nif->lock);
	return err;
}

static void ibds_nif_add_stats(const struct ibds_nif_stats *from,
			       struct rtnl_link_stats64 *to)
{
	u64 packets, bytes, errors;
	unsigned int seq;

	do {
		seq = u64_stats_fetch_begin(&from->rx_sync);
		packets = u64_stats_read(&from->rx_packets);
		bytes = u64_stats_read(&from->rx_bytes);
		errors = u64_stats_read(&from->rx_errors);
	} while (u64_stats_fetch_retry(&from->rx_sync, seq));
	to->rx_packets += packets;
	to->rx_bytes += bytes;
	to->rx_errors += errors;
	do {
		seq = u64_stats_fetch_begin(&from->tx_sync);
		packets = u64_stats_read(&from->tx_packets);
		bytes = u64_stats_read(&from->tx_bytes);
		errors = u64_stats_read(&from->tx_errors);
	} while (u64_stats_fetch_retry(&from->tx_sync, seq));
	to->tx_packets += packets;
	to->tx_bytes += bytes;
	to->tx_errors += errors;
	to->tx_dropped += atomic64_read(&from->tx_dropped);
}

static void ibds_own_stats64(struct net_device *netdev,
			     struct rtnl_link_stats64 *stats)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 i;

	for (i = 0; i < nif->dev->caps.channels; i++)
		ibds_nif_add_stats(&nif->stats[i], stats);
}

static int ibds_own_get_stamps(struct net_device *netdev,
			       struct kernel_hwtstamp_config *config)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	config->tx_type = nif->tstamp.tx_type;
	config->rx_filter = nif->tstamp.rx_filter;
	return 0;
}

static int ibds_nif_set_stamps(struct ibds_nif *nif, int tx_type, int rx_filter)
{
	if (tx_type != HWTSTAMP_TX_OFF && tx_type != HWTSTAMP_TX_ON)
		return -ERANGE;
	if (rx_filter < HWTSTAMP_FILTER_NONE ||
	    rx_filter > HWTSTAMP_FILTER_NTP_ALL)
		return -ERANGE;
	nif->tstamp.tx_type = tx_type;
	/* It is all or nothing. */
	nif->tstamp.rx_filter = rx_filter ? HWTSTAMP_FILTER_ALL :
					    HWTSTAMP_FILTER_NONE;
	ibds_nif_update_stamps(nif->main);
	return 0;
}

static int ibds_own_set_stamps(struct net_device *netdev,
			       struct kernel_hwtstamp_config *config,
			       struct netlink_ext_ack *extack)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	int err;

	err = ibds_nif_set_stamps(nif, config->tx_type, config->rx_filter);
	if (!err)
		config->rx_filter = nif->tstamp.rx_filter;
	return err;
}

/* The same; IPoIB of kernels before 6.19 passes on nothing else. */
static int ibds_own_ioctl(struct net_device *netdev, struct ifreq *ifr, int cmd)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	struct hwtstamp_config config;
	int err;

	if (cmd != SIOCSHWTSTAMP && cmd != SIOCGHWTSTAMP)
		return -EOPNOTSUPP;
	if (cmd == SIOCSHWTSTAMP) {
		if (copy_from_user(&config, ifr->ifr_data, sizeof(config)))
			return -EFAULT;
		err = ibds_nif_set_stamps(nif, config.tx_type, config.rx_filter);
		if (err)
			return err;
	}
	return copy_to_user(ifr->ifr_data, &nif->tstamp, sizeof(nif->tstamp)) ?
	       -EFAULT : 0;
}

static const struct net_device_ops ibds_own_ops = {
	.ndo_init = ibds_own_init,
	.ndo_uninit = ibds_own_uninit,
	.ndo_open = ibds_own_open,
	.ndo_stop = ibds_own_stop,
	.ndo_change_mtu = ibds_own_change_mtu,
	.ndo_get_stats64 = ibds_own_stats64,
	.ndo_hwtstamp_get = ibds_own_get_stamps,
	.ndo_hwtstamp_set = ibds_own_set_stamps,
	.ndo_eth_ioctl = ibds_own_ioctl,
};

static const struct net_device_ops ibds_ud_ops = {
	.ndo_init = ibds_ud_init,
	.ndo_uninit = ibds_ud_uninit,
	.ndo_open = ibds_ud_open,
	.ndo_stop = ibds_ud_stop,
	/* hfi1 has had it until 6.10; without it the in-tree driver says 0. */
	.ndo_get_stats64 = dev_get_tstats64,
};

/* ---- what IPoIB calls --------------------------------------------------- */

/* The QP that groups are attached to. */
static struct ib_qp *ibds_nif_qp(struct ibds_nif *nif)
{
	struct ibds_rcv *rcv;
	struct ib_qp *qp = NULL;
	unsigned long flags;

	if (nif->under)
		return nif->under;
	rcu_read_lock();
	rcv = ibds_rcv_find(nif->dev, ibds_nif_address_qpn(nif->netdev));
	if (rcv) {
		spin_lock_irqsave(&rcv->lock, flags);
		/* IPoIB does not destroy it while it calls. */
		qp = rcv->qp ? &rcv->qp->ib : NULL;
		spin_unlock_irqrestore(&rcv->lock, flags);
	}
	rcu_read_unlock();
	return qp;
}

static int ibds_nif_attach(struct net_device *netdev, struct ib_device *hca,
			   union ib_gid *gid, u16 mlid, int set_qkey, u32 qkey)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	struct ib_qp *qp = ibds_nif_qp(nif);

	if (!qp)
		return -EINVAL;
	/* Only what is sent: what is received has a fixed one, or any. */
	if (set_qkey)
		WRITE_ONCE(nif->qkey, qkey);
	return ib_attach_mcast(qp, gid, mlid);
}

static int ibds_nif_detach(struct net_device *netdev, struct ib_device *hca,
			   union ib_gid *gid, u16 mlid)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	struct ib_qp *qp = ibds_nif_qp(nif);

	if (!qp)
		return -EINVAL;
	/* The HCA's own QP is detached from whatever LID the group had. */
	if (nif->under && !ibds_mcast_find(to_ibds_qp(qp), false, gid, &mlid))
		return -EINVAL;
	return ib_detach_mcast(qp, gid, mlid);
}

static void ibds_nif_set_id(struct net_device *netdev, int id)
{
	struct ibds_nif *nif = ibds_nif(netdev);

	mutex_lock(&nif->lock);
	if (ibds_nif_own(nif)) {
		nif->pkey_index = id;
	} else if (id >= 0 && id < nif->dev->caps.pkeys) {
		nif->pkey_index = id;
		ibds_channels_set_id(nif);
	}
	mutex_unlock(&nif->lock);
}

static void ibds_ud_tx_timeout(struct net_device *netdev, unsigned int txqueue)
{
	netdev_info(netdev, "transmit queue %u timed out\n", txqueue);
}

/* ---- setting up --------------------------------------------------------- */

/* Which interface receives for @nif; the first one of a port is the port's own. */
static void ibds_nif_claim(struct ibds_nif *nif)
{
	struct ibds_port *port = nif->port;

	nif->main = nif;
	if (!ibds_nif_own(nif))
		return;
	mutex_lock(&ibds_nif_mutex);
	if (port->nif)
		nif->main = port->nif;
	else
		port->nif = nif;
	mutex_unlock(&ibds_nif_mutex);
}

static void ibds_nif_disclaim(struct ibds_nif *nif)
{
	mutex_lock(&ibds_nif_mutex);
	if (nif->port->nif == nif)
		nif->port->nif = NULL;
	mutex_unlock(&ibds_nif_mutex);
}

static void ibds_nif_free(struct ibds_nif *nif)
{
	if (!nif)
		return;
	cancel_delayed_work_sync(&nif->restart);
	ibds_nif_disclaim(nif);
	ibds_under_free(nif);
	if (nif->rss)
		kvfree_rcu(nif->rss, rcu);
	if (nif->pd)
		ib_dealloc_pd(nif->pd);
	xa_destroy(&nif->by_qpn);
	mutex_destroy(&nif->lock);
	kvfree(nif);
}

static int ibds_nif_new_rss(struct ibds_nif *nif)
{
	u8 key[IBDS_RSS_KEY];

	nif->rss = kvzalloc_obj(*nif->rss);
	if (!nif->rss)
		return -ENOMEM;
	netdev_rss_key_fill(key, sizeof(key));
	ibds_rss_set_key(nif->rss, key);
	ibds_rss_set_table(nif->rss, nif->wanted_rx);
	nif->rss->any_qkey = !ibds_nif_own(nif);
	return 0;
}

/* How many channels of which size an interface has at first. */
static void ibds_nif_set_sizes(struct ibds_nif *nif)
{
	const struct ibds_caps *caps = &nif->dev->caps;
	u32 most = ibds_nif_ring_max(caps);

	nif->wanted = caps->channels;
	nif->wanted_rx = nif->main == nif ? caps->channels : 0;
	nif->rx_size = min_t(u32, IBDS_NIF_RING_DEFAULT, most);
	nif->tx_size = nif->rx_size;
	if (ibds_nif_own(nif))
		return;
	nif->wanted = ibds_nif_ud_txqs(caps);
	nif->rx_size = min_t(u32, IBDS_NIF_RING_DEFAULT / 2, most);
	nif->tx_size = clamp_t(u32, roundup_pow_of_two(nif->netdev->tx_queue_len + 1),
			       IBDS_NIF_RING_MIN, most);
}

static void ibds_nif_init(struct ibds_nif *nif, struct ibds_dev *dev,
			  u32 port_num, struct net_device *netdev)
{
	int i;

	nif->dev = dev;
	nif->port = &dev->port[port_num - 1];
	nif->netdev = netdev;
	xa_init(&nif->by_qpn);
	mutex_init(&nif->lock);
	INIT_DELAYED_WORK(&nif->restart, ibds_nif_restart);
	for (i = 0; i < ARRAY_SIZE(nif->stats); i++) {
		u64_stats_init(&nif->stats[i].rx_sync);
		u64_stats_init(&nif->stats[i].tx_sync);
	}
	ibds_nif_claim(nif);
	ibds_nif_set_sizes(nif);
}

static struct ibds_nif *ibds_nif_new(struct ibds_dev *dev, u32 port_num,
				     struct net_device *netdev)
{
	struct ibds_nif *nif;
	int err;

	nif = kvzalloc_obj(*nif);
	if (!nif)
		return ERR_PTR(-ENOMEM);
	ibds_nif_init(nif, dev, port_num, netdev);
	nif->pd = ib_alloc_pd(&dev->ib, 0);
	if (IS_ERR(nif->pd)) {
		err = PTR_ERR(nif->pd);
		nif->pd = NULL;
		goto err_free;
	}
	err = nif->main == nif ? ibds_nif_new_rss(nif) : 0;
	if (err)
		goto err_free;
	err = ibds_nif_own(nif) ? ibds_under_new(nif) : 0;
	if (err)
		goto err_free;
	return nif;

err_free:
	ibds_nif_free(nif);
	return ERR_PTR(err);
}

static void ibds_nif_destroy(struct net_device *netdev)
{
	struct ibds_nif_priv *priv = netdev_priv(netdev);
	struct ibds_nif *nif = priv->nif;
	struct ib_device *ibdev;

	if (WARN_ON(!nif))
		return;
	ibdev = &nif->dev->ib;
	priv->nif = NULL;
	ibds_nif_free(nif);
	/* Until now the HCA could not go. */
	ib_device_put(ibdev);
}

/* What an interface of its own can do; IPoIB enables it. */
static void ibds_own_setup(struct ibds_nif *nif, struct net_device *netdev)
{
	const struct ibds_caps *caps = &nif->dev->caps;

	netif_carrier_off(netdev);
	netdev->hw_features |= NETIF_F_SG | NETIF_F_GRO | NETIF_F_RXHASH;
	if (caps->csum)
		netdev->hw_features |= NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM |
				       NETIF_F_RXCSUM;
	if (caps->csum && caps->lso)
		netdev->hw_features |= NETIF_F_TSO | NETIF_F_TSO6;
	netdev->min_mtu = ETH_MIN_MTU;
	netdev->max_mtu = caps->mtu - IBDS_IPOIB_HLEN;
	netdev->mtu = netdev->max_mtu;
	netdev->netdev_ops = &ibds_own_ops;
	netdev->request_ops_lock = true;
	netdev_lockdep_set_classes(netdev);
	ibds_nethtool_set(netdev, nif->main == nif);
	netif_set_real_num_tx_queues(netdev, nif->wanted);
	netif_set_real_num_rx_queues(netdev, min(nif->wanted,
						 netdev->num_rx_queues));
}

static void ibds_ud_setup(struct ibds_nif *nif, struct net_device *netdev)
{
	struct rdma_netdev *rn = netdev_priv(netdev);

	rn->port_num = nif->port->num;
	rn->mtu = netdev->mtu;
	rn->tx_timeout = ibds_ud_tx_timeout;
	nif->below = netdev->netdev_ops;
	netdev->netdev_ops = &ibds_ud_ops;
	netdev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	nif->wanted = min(nif->wanted, netdev->num_tx_queues);
	nif->wanted_rx = min(nif->wanted_rx, nif->wanted);
}

static int ibds_netdev_setup(struct ib_device *ibdev, u32 port_num,
			     struct net_device *netdev, void *param)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	struct ibds_nif_priv *priv = netdev_priv(netdev);
	struct ibds_faults *faults = &dev->port[port_num - 1].faults;
	struct rdma_netdev *rn = &priv->rn;
	struct ibds_nif *nif;
	int err;

	err = ibds_call(ibdev, IBDS_CALL_NETDEV_INIT);
	if (err)
		return err;
	if (!ib_device_try_get(ibdev))
		return -ENODEV;
	nif = ibds_nif_new(dev, port_num, netdev);
	if (IS_ERR(nif)) {
		ib_device_put(ibdev);
		return PTR_ERR(nif);
	}
	if (ibds_nif_own(nif))
		ibds_own_setup(nif, netdev);
	if (atomic_dec_if_positive(&faults->netdev_init_error) >= 0) {
		/* The net_device has been changed by now, as by HCAs. */
		ibds_nif_free(nif);
		ib_device_put(ibdev);
		return -ENOMEM;
	}
	if (!ibds_nif_own(nif))
		ibds_ud_setup(nif, netdev);
	priv->nif = nif;
	rn->hca = ibdev;
	rn->send = ibds_channel_send;
	rn->attach_mcast = ibds_nif_attach;
	rn->detach_mcast = ibds_nif_detach;
	rn->set_id = ibds_nif_set_id;
	netdev->priv_destructor = ibds_nif_destroy;
	netdev->needs_free_netdev = true;
	return 0;
}

/**
 * ibds_netdev_params - say what the accelerated interface of a port needs
 * @ibdev: HCA
 * @port_num: port
 * @type: %RDMA_NETDEV_IPOIB
 * @params: is filled in
 *
 * Return: 0 or -errno; -EOPNOTSUPP: there is none.
 */
int ibds_netdev_params(struct ib_device *ibdev, u32 port_num,
		       enum rdma_netdev_t type,
		       struct rdma_netdev_alloc_params *params)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	u32 refuse;
	int err;

	if (type != RDMA_NETDEV_IPOIB || dev->caps.rdma_netdev == IBDS_NETDEV_NONE)
		return -EOPNOTSUPP;
	if (!port_num || port_num > dev->caps.ports)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_NETDEV_PARAMS);
	if (err)
		return err;
	refuse = READ_ONCE(dev->port[port_num - 1].faults.netdev_refuse);
	if (refuse)
		return -(int)min_t(u32, refuse, MAX_ERRNO);
	params->sizeof_priv = sizeof(struct ibds_nif_priv);
	/* More than are used: for traffic classes, as mlx5's */
	params->txqs = dev->caps.rdma_netdev == IBDS_NETDEV_OWN ?
		       dev->caps.channels * 8 : ibds_nif_ud_txqs(&dev->caps);
	params->rxqs = dev->caps.channels;
	params->param = NULL;
	params->initialize_rdma_netdev = ibds_netdev_setup;
	return 0;
}
