// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine with QPs of the driver's own: queues, channels, connections
 *
 * An HCA's own interface may want one such QP below it, for its number and for
 * the groups that are attached to it: it calls the operations that it finds on
 * its net_device, ipoib_verbs_below.
 */
#include <linux/ipoib.h>
#include <linux/netdevice.h>
#include <linux/unaligned.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_engine.h"
#include "ipoib_ib.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"
#include "ipoib_tx.h"
#include "ipoib_ud.h"
#include "ipoib_verbs.h"

/* ---- engine -------------------------------------------------------------- */

/**
 * ipoib_verbs_limit_segs - limit the segments that TCP puts into a packet
 * @dev: interface
 * @connected: it is, or is about to be, in connected mode
 *
 * A packet that the driver cuts takes one slot in the ring per segment.
 *
 * Context: rtnl.
 */
void ipoib_verbs_limit_segs(struct ipoib_dev *dev, bool connected)
{
	bool here = !connected && !ipoib_ud_cuts(dev);
	u32 size = dev->txqs[0]->ring.size;
	u32 segs = here ? ipoib_tso_segs(size) : GSO_MAX_SEGS;
	struct net_device *ndev = dev->ndev;
	bool follow = ndev->gso_max_segs == ndev->tso_max_segs;

	netif_set_tso_max_segs(ndev, segs);
	/* That lowers gso_max_segs, too; raise it unless the user chose it. */
	if (follow)
		WRITE_ONCE(ndev->gso_max_segs, ndev->tso_max_segs);
}

/* Tell the stack which NAPI serves a queue; only the parent owns NAPIs. */
static void ipoib_verbs_link_napis(struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	u32 i;

	if (ipoib_is_child(dev))
		return;
	for (i = 0; i < port->num_channels; i++)
		netif_queue_set_napi(dev->ndev, i, NETDEV_QUEUE_TYPE_RX,
				     &port->channels[i]->napi);
	for (i = 0; i < dev->num_txqs; i++)
		netif_queue_set_napi(dev->ndev, i, NETDEV_QUEUE_TYPE_TX,
				     &dev->txqs[i]->qp.ch->napi);
}

static int ipoib_verbs_create(struct ipoib_dev *dev)
{
	int ret;

	ret = ipoib_ud_init(dev) ?: ipoib_ud_create(dev);
	if (ret)
		return ret;
	if (dev->num_txqs < dev->max_txqs)
		net_ratelimited_function(netdev_info, dev->ndev,
					 "only %u of %u transmit queues\n",
					 dev->num_txqs, dev->max_txqs);
	ret = netif_set_real_num_queues(dev->ndev, dev->num_txqs,
					ipoib_is_child(dev) ?
					1 : dev->port->num_channels);
	if (ret) {
		ipoib_ud_destroy(dev);
		return ret;
	}
	ipoib_verbs_link_napis(dev);
	ipoib_verbs_limit_segs(dev, false);
	return 0;
}

static int ipoib_verbs_open(struct ipoib_dev *dev)
{
	return ipoib_channel_get(ipoib_dev_channel(dev));
}

static void ipoib_verbs_close(struct ipoib_dev *dev)
{
	ipoib_channel_put(ipoib_dev_channel(dev));
}

static int ipoib_verbs_set_mtu(struct ipoib_dev *dev, u32 mtu)
{
	WRITE_ONCE(dev->ndev->mtu, mtu);
	return 0;
}

const struct ipoib_engine ipoib_verbs_engine = {
	.name		= "verbs",
	.id		= IPOIB_DEV_ENGINE_VERBS,
	.connected	= true,
	.hears		= true,
	.create		= ipoib_verbs_create,
	.destroy	= ipoib_ud_destroy,
	.exit		= ipoib_ud_exit,
	.open		= ipoib_verbs_open,
	.close		= ipoib_verbs_close,
	.start		= ipoib_ud_start,
	.stop_begin	= ipoib_ud_stop_begin,
	.stop		= ipoib_ud_stop,
	.repair		= ipoib_ud_repair,
	.restart	= ipoib_ud_restart,
	.set_link	= ipoib_ud_set_link,
	.set_mtu	= ipoib_verbs_set_mtu,
	.attach		= ipoib_ud_attach,
	.detach		= ipoib_ud_detach,
};

/* ---- below an HCA's own interface ----------------------------------------- */

static int ipoib_below_init(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u8 qpn[3];
	int ret = 0;

	/* One is enough: nothing is received in it. */
	if (!dev->port->num_channels)
		ret = ipoib_channels_create(dev->port, 1);
	ret = ret ?: ipoib_ud_init(dev) ?: ipoib_ud_create(dev);
	if (ret)
		return ret;
	dev->ud->fixed = true;
	/* The HCA takes the number from there. */
	put_unaligned_be24(ipoib_dev_qpn(dev), qpn);
	dev_addr_mod(ndev, 1, qpn, sizeof(qpn));
	return 0;
}

static void ipoib_below_uninit(struct net_device *ndev)
{
	ipoib_ud_destroy(ipoib_priv(ndev));
}

/* Context: ipoib_dev.lock held. */
static int ipoib_below_open(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	int ret;

	ret = ipoib_verbs_open(dev);
	if (ret)
		return ret;
	ret = ipoib_ud_start(dev);
	if (ret)
		ipoib_verbs_close(dev);
	return ret;
}

/* Context: ipoib_dev.lock held. */
static int ipoib_below_stop(struct net_device *ndev)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	ipoib_ud_stop(dev);
	ipoib_verbs_close(dev);
	return 0;
}

const struct net_device_ops ipoib_verbs_below = {
	.ndo_init	= ipoib_below_init,
	.ndo_uninit	= ipoib_below_uninit,
	.ndo_open	= ipoib_below_open,
	.ndo_stop	= ipoib_below_stop,
};
