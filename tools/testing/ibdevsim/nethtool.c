// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: ethtool operations of accelerated interfaces
 *
 * As those of mlx5, children have hardly any.
 */
#include <linux/ethtool.h>

#include "channel.h"
#include "nethtool.h"
#include "phc.h"

/* ---- statistics --------------------------------------------------------- */

#define IBDS_NIF_STAT(field) { \
	.name = #field, .offset = offsetof(struct ibds_nif_stats, field) }

static const struct {
	const char *name;
	size_t offset;
} ibds_nif_stat_names[] = {
	IBDS_NIF_STAT(rx_packets),
	IBDS_NIF_STAT(rx_bytes),
	IBDS_NIF_STAT(rx_csum),
	IBDS_NIF_STAT(rx_errors),
	IBDS_NIF_STAT(tx_packets),
	IBDS_NIF_STAT(tx_bytes),
	IBDS_NIF_STAT(tx_tso),
	IBDS_NIF_STAT(tx_errors),
};

/* Beside them: tx_dropped, which is not of the poll function */
#define IBDS_NIF_STATS		(ARRAY_SIZE(ibds_nif_stat_names) + 1)

static int ibds_nethtool_sset_count(struct net_device *netdev, int set)
{
	u32 channels = ibds_nif(netdev)->dev->caps.channels;

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return channels * IBDS_NIF_STATS;
}

static void ibds_nethtool_strings(struct net_device *netdev, u32 set, u8 *data)
{
	u32 channels = ibds_nif(netdev)->dev->caps.channels;
	u32 ch, i;

	for (ch = 0; set == ETH_SS_STATS && ch < channels; ch++) {
		for (i = 0; i < ARRAY_SIZE(ibds_nif_stat_names); i++)
			ethtool_sprintf(&data, "ch%u_%s", ch,
					ibds_nif_stat_names[i].name);
		ethtool_sprintf(&data, "ch%u_tx_dropped", ch);
	}
}

static void ibds_nethtool_stats(struct net_device *netdev,
				struct ethtool_stats *stats, u64 *data)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 ch, i;

	for (ch = 0; ch < nif->dev->caps.channels; ch++) {
		for (i = 0; i < ARRAY_SIZE(ibds_nif_stat_names); i++)
			*data++ = u64_stats_read((void *)&nif->stats[ch] +
						 ibds_nif_stat_names[i].offset);
		*data++ = atomic64_read(&nif->stats[ch].tx_dropped);
	}
}

/* ---- rings, channels, moderation ---------------------------------------- */

static void ibds_nethtool_get_rings(struct net_device *netdev,
				    struct ethtool_ringparam *ring,
				    struct kernel_ethtool_ringparam *kernel,
				    struct netlink_ext_ack *extack)
{
	const struct ibds_nif *nif = ibds_nif(netdev);
	u32 most = ibds_nif_ring_max(&nif->dev->caps);

	ring->rx_max_pending = most;
	ring->tx_max_pending = most;
	ring->rx_pending = nif->rx_size;
	ring->tx_pending = nif->tx_size;
}

/* Use sizes; the channels are closed, and open again if they have to be. */
static int ibds_nethtool_use_rings(struct ibds_nif *nif, u32 rx, u32 tx)
{
	nif->rx_size = rx;
	nif->tx_size = tx;
	return ibds_channels_reopen(nif);
}

static int ibds_nethtool_set_rings(struct net_device *netdev,
				   struct ethtool_ringparam *ring,
				   struct kernel_ethtool_ringparam *kernel,
				   struct netlink_ext_ack *extack)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 rx = nif->rx_size, tx = nif->tx_size;
	int err;

	if (ring->rx_pending < IBDS_NIF_RING_MIN ||
	    ring->tx_pending < IBDS_NIF_RING_MIN) {
		NL_SET_ERR_MSG(extack, "a ring has at least 64 entries");
		return -EINVAL;
	}
	mutex_lock(&nif->lock);
	/* With the sizes that they were opened with */
	ibds_channels_close(nif);
	err = ibds_nethtool_use_rings(nif,
				      roundup_pow_of_two(ring->rx_pending),
				      roundup_pow_of_two(ring->tx_pending));
	if (err && ibds_nethtool_use_rings(nif, rx, tx))
		schedule_delayed_work(&nif->restart, HZ);
	mutex_unlock(&nif->lock);
	return err;
}

static void ibds_nethtool_get_channels(struct net_device *netdev,
				       struct ethtool_channels *channels)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	channels->max_combined = nif->dev->caps.channels;
	channels->combined_count = nif->wanted;
}

/* The channels are closed. */
static int ibds_nethtool_use_channels(struct ibds_nif *nif, u32 num)
{
	int err;

	err = netif_set_real_num_tx_queues(nif->netdev, num) ?:
	      netif_set_real_num_rx_queues(nif->netdev, num);
	if (err)
		return err;
	nif->wanted = num;
	nif->wanted_rx = num;
	return ibds_channels_reopen(nif);
}

static int ibds_nethtool_set_channels(struct net_device *netdev,
				      struct ethtool_channels *channels)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 was = nif->wanted;
	int err;

	if (nif->children) {
		netdev_warn(netdev, "%u children use the channels\n",
			    nif->children);
		return -EINVAL;
	}
	mutex_lock(&nif->lock);
	ibds_channels_close(nif);
	err = ibds_nethtool_use_channels(nif, channels->combined_count);
	if (err && ibds_nethtool_use_channels(nif, was))
		schedule_delayed_work(&nif->restart, HZ);
	mutex_unlock(&nif->lock);
	return err;
}

static int ibds_nethtool_get_coalesce(struct net_device *netdev,
				      struct ethtool_coalesce *coal,
				      struct kernel_ethtool_coalesce *kernel,
				      struct netlink_ext_ack *extack)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	if (!nif->dev->caps.moderation)
		return -EOPNOTSUPP;
	coal->rx_coalesce_usecs = nif->rx_usecs;
	coal->rx_max_coalesced_frames = nif->rx_frames;
	return 0;
}

static int ibds_nethtool_set_coalesce(struct net_device *netdev,
				      struct ethtool_coalesce *coal,
				      struct kernel_ethtool_coalesce *kernel,
				      struct netlink_ext_ack *extack)
{
	struct ibds_nif *nif = ibds_nif(netdev);

	if (!nif->dev->caps.moderation)
		return -EOPNOTSUPP;
	if (coal->rx_coalesce_usecs > U16_MAX ||
	    coal->rx_max_coalesced_frames > U16_MAX)
		return -ERANGE;
	mutex_lock(&nif->lock);
	nif->rx_usecs = coal->rx_coalesce_usecs;
	nif->rx_frames = coal->rx_max_coalesced_frames;
	ibds_channels_moderate(nif);
	mutex_unlock(&nif->lock);
	return 0;
}

/* ---- RSS ---------------------------------------------------------------- */

static u32 ibds_nethtool_rxfh_size(struct net_device *netdev)
{
	return IBDS_RSS_TABLE;
}

static u32 ibds_nethtool_rxfh_key_size(struct net_device *netdev)
{
	return IBDS_RSS_KEY;
}

static int ibds_nethtool_get_rxfh(struct net_device *netdev,
				  struct ethtool_rxfh_param *rxfh)
{
	const struct ibds_nif *nif = ibds_nif(netdev);
	u32 i;

	rxfh->hfunc = ETH_RSS_HASH_TOP;
	for (i = 0; rxfh->indir && i < IBDS_RSS_TABLE; i++)
		rxfh->indir[i] = nif->rss->table[i];
	if (rxfh->key)
		memcpy(rxfh->key, nif->rss->key, IBDS_RSS_KEY);
	return 0;
}

static int ibds_nethtool_set_rxfh(struct net_device *netdev,
				  struct ethtool_rxfh_param *rxfh,
				  struct netlink_ext_ack *extack)
{
	struct ibds_nif *nif = ibds_nif(netdev);
	u32 i;

	if (rxfh->hfunc != ETH_RSS_HASH_NO_CHANGE &&
	    rxfh->hfunc != ETH_RSS_HASH_TOP) {
		NL_SET_ERR_MSG(extack, "Toeplitz is the only hash function");
		return -EOPNOTSUPP;
	}
	for (i = 0; rxfh->indir && i < IBDS_RSS_TABLE; i++)
		WRITE_ONCE(nif->rss->table[i], rxfh->indir[i]);
	if (rxfh->key)
		ibds_rss_set_key(nif->rss, rxfh->key);
	return 0;
}

static u32 ibds_nethtool_ring_count(struct net_device *netdev)
{
	return ibds_nif(netdev)->wanted_rx;
}

/* ---- the rest ----------------------------------------------------------- */

static void ibds_nethtool_drvinfo(struct net_device *netdev,
				  struct ethtool_drvinfo *info)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	strscpy(info->driver, "ibdevsim[ib_ipoib]", sizeof(info->driver));
	strscpy(info->fw_version, "1.0.0", sizeof(info->fw_version));
	strscpy(info->bus_info, dev_name(nif->dev->dev),
		sizeof(info->bus_info));
}

static int ibds_nethtool_ts_info(struct net_device *netdev,
				 struct kernel_ethtool_ts_info *info)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	info->phc_index = ibds_phc_index(nif->dev->phc);
	info->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE |
				SOF_TIMESTAMPING_RX_SOFTWARE |
				SOF_TIMESTAMPING_SOFTWARE |
				SOF_TIMESTAMPING_TX_HARDWARE |
				SOF_TIMESTAMPING_RX_HARDWARE |
				SOF_TIMESTAMPING_RAW_HARDWARE;
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_ALL);
	return 0;
}

/* The rate of a port's link, in Mbit/s. */
static u32 ibds_nethtool_mbps(const struct ibds_caps *caps)
{
	u32 lane;

	switch (caps->speed) {
	case IB_SPEED_SDR:
		lane = 2500;
		break;
	case IB_SPEED_DDR:
		lane = 5000;
		break;
	case IB_SPEED_QDR:
		lane = 10000;
		break;
	case IB_SPEED_FDR:
		lane = 14000;
		break;
	case IB_SPEED_EDR:
		lane = 25000;
		break;
	case IB_SPEED_HDR:
		lane = 50000;
		break;
	default:
		lane = 100000;
	}
	return lane * ib_width_enum_to_int(caps->width);
}

static int ibds_nethtool_link_ksettings(struct net_device *netdev,
					struct ethtool_link_ksettings *link)
{
	const struct ibds_nif *nif = ibds_nif(netdev);

	ethtool_link_ksettings_zero_link_mode(link, supported);
	ethtool_link_ksettings_zero_link_mode(link, advertising);
	link->base.port = PORT_OTHER;
	link->base.autoneg = AUTONEG_DISABLE;
	link->base.speed = SPEED_UNKNOWN;
	link->base.duplex = DUPLEX_UNKNOWN;
	if (READ_ONCE(nif->port->state) == IB_PORT_ACTIVE) {
		link->base.speed = ibds_nethtool_mbps(&nif->dev->caps);
		link->base.duplex = DUPLEX_FULL;
	}
	return 0;
}

static const struct ethtool_ops ibds_main_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS |
				     ETHTOOL_COALESCE_RX_MAX_FRAMES,
	.op_needs_rtnl = ETHTOOL_OP_NEEDS_RTNL_SCHANNELS,
	.get_drvinfo = ibds_nethtool_drvinfo,
	.get_strings = ibds_nethtool_strings,
	.get_sset_count = ibds_nethtool_sset_count,
	.get_ethtool_stats = ibds_nethtool_stats,
	.get_ringparam = ibds_nethtool_get_rings,
	.set_ringparam = ibds_nethtool_set_rings,
	.get_channels = ibds_nethtool_get_channels,
	.set_channels = ibds_nethtool_set_channels,
	.get_coalesce = ibds_nethtool_get_coalesce,
	.set_coalesce = ibds_nethtool_set_coalesce,
	.get_rxfh_indir_size = ibds_nethtool_rxfh_size,
	.get_rxfh_key_size = ibds_nethtool_rxfh_key_size,
	.get_rxfh = ibds_nethtool_get_rxfh,
	.set_rxfh = ibds_nethtool_set_rxfh,
	.get_rx_ring_count = ibds_nethtool_ring_count,
	.get_ts_info = ibds_nethtool_ts_info,
	.get_link_ksettings = ibds_nethtool_link_ksettings,
	.get_link = ethtool_op_get_link,
};

static const struct ethtool_ops ibds_child_ethtool_ops = {
	.get_drvinfo = ibds_nethtool_drvinfo,
	.get_ts_info = ibds_nethtool_ts_info,
	.get_link = ethtool_op_get_link,
};

/**
 * ibds_nethtool_set - give an interface its ethtool operations
 * @netdev: interface with a QP of its own
 * @main: it is a port's own interface, not a child
 */
void ibds_nethtool_set(struct net_device *netdev, bool main)
{
	netdev->ethtool_ops = main ? &ibds_main_ethtool_ops :
				     &ibds_child_ethtool_ops;
}
