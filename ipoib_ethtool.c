// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool: driver, link, statistics, rings, channels, moderation
 */
#include <linux/ethtool.h>
#include <linux/rhashtable.h>
#include <linux/seq_file.h>
#include <net/netdev_queues.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cm.h"
#include "ipoib_count.h"
#include "ipoib_enhanced.h"
#include "ipoib_ethtool.h"
#include "ipoib_multicast.h"
#include "ipoib_neigh.h"
#include "ipoib_path.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"
#include "ipoib_settings.h"
#include "ipoib_tx.h"
#include "ipoib_ud.h"
#include "ipoib_why.h"

static void ipoib_get_drvinfo(struct net_device *ndev,
			      struct ethtool_drvinfo *info)
{
	struct ib_device *ca = ipoib_priv(ndev)->port->ca;

	ib_get_device_fw_str(ca, info->fw_version);
	strscpy(info->bus_info, dev_name(ca->dev.parent),
		sizeof(info->bus_info));
	strscpy(info->driver, IPOIB_NAME, sizeof(info->driver));
}

static int ipoib_get_link_ksettings(struct net_device *ndev,
				    struct ethtool_link_ksettings *cmd)
{
	struct ipoib_port *port = ipoib_priv(ndev)->port;
	struct ib_port_attr attr;
	int ret;

	cmd->base.speed = SPEED_UNKNOWN;
	cmd->base.duplex = DUPLEX_UNKNOWN;
	cmd->base.port = PORT_OTHER;
	cmd->base.autoneg = AUTONEG_ENABLE;
	cmd->base.phy_address = 0xff;
	if (!netif_carrier_ok(ndev))
		return 0;
	ret = ib_query_port(port->ca, port->num, &attr);
	if (ret)
		return ret;
	cmd->base.speed = ipoib_link_speed(attr.active_speed,
				ib_width_enum_to_int(attr.active_width));
	if (cmd->base.speed != SPEED_UNKNOWN)
		cmd->base.duplex = DUPLEX_FULL;
	return 0;
}

/* A port that is configured but waits for its SM has no state in ethtool. */
static int
ipoib_get_link_ext_state(struct net_device *ndev,
			 struct ethtool_link_ext_state_info *info)
{
	switch (ipoib_why_no_link(ipoib_priv(ndev))) {
	case IB_PORT_PHYS_STATE_POLLING:
		info->link_ext_state = ETHTOOL_LINK_EXT_STATE_AUTONEG;
		info->autoneg =
			ETHTOOL_LINK_EXT_SUBSTATE_AN_NO_PARTNER_DETECTED;
		return 0;
	case IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING:
		info->link_ext_state = ETHTOOL_LINK_EXT_STATE_AUTONEG;
		return 0;
	case IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY:
		info->link_ext_state =
			ETHTOOL_LINK_EXT_STATE_BAD_SIGNAL_INTEGRITY;
		return 0;
	}
	return -ENODATA;
}

/* Scripts rely on names and order of the first eight. */
static const char ipoib_stat_names[][ETH_GSTRING_LEN] = {
	"rx_packets", "tx_packets", "rx_bytes", "tx_bytes",
	"tx_errors", "rx_dropped", "tx_dropped", "multicast",
	"rx_errors",
	"path_queries", "path_failures", "path_dropped",
	"path_unresolved", "path_evicted",
	"neighbours", "neigh_evicted", "neigh_refused",
	"mcast_joins", "mcast_join_failures", "mcast_dropped",
	"qp_restarts", "mcast_limited",
};

/* For each transmit queue */
static const char * const ipoib_txq_stat_names[] = {
	"packets", "bytes", "posts", "stops", "completions", "errors", "interrupts_armed",
	"too_long", "map_errors", "post_errors",
};

static const char ipoib_flag_names[][ETH_GSTRING_LEN] = {
	"connected-offload",
};

#define IPOIB_FLAG_OFFLOAD	BIT(0)

static int ipoib_get_sset_count(struct net_device *ndev, int set)
{
	switch (set) {
	case ETH_SS_STATS:
		return ARRAY_SIZE(ipoib_stat_names) + IPOIB_CM_STATS +
		       2 * ipoib_priv(ndev)->port->num_channels +
		       ARRAY_SIZE(ipoib_txq_stat_names) *
		       ipoib_priv(ndev)->num_txqs;
	case ETH_SS_PRIV_FLAGS:
		return ipoib_priv(ndev)->cm ? ARRAY_SIZE(ipoib_flag_names) : 0;
	default:
		return -EOPNOTSUPP;
	}
}

static void ipoib_get_stat_names(struct net_device *ndev, u8 *data)
{
	u32 i, j;

	memcpy(data, ipoib_stat_names, sizeof(ipoib_stat_names));
	data += sizeof(ipoib_stat_names);
	ipoib_cm_get_stat_names(data);
	data += IPOIB_CM_STATS * ETH_GSTRING_LEN;
	for (i = 0; i < ipoib_priv(ndev)->port->num_channels; i++) {
		ethtool_sprintf(&data, "rx%u_packets", i);
		ethtool_sprintf(&data, "rx%u_bytes", i);
	}
	for (i = 0; i < ipoib_priv(ndev)->num_txqs; i++)
		for (j = 0; j < ARRAY_SIZE(ipoib_txq_stat_names); j++)
			ethtool_sprintf(&data, "tx%u_%s", i,
					ipoib_txq_stat_names[j]);
}

static void ipoib_get_strings(struct net_device *ndev, u32 set, u8 *data)
{
	switch (set) {
	case ETH_SS_STATS:
		ipoib_get_stat_names(ndev, data);
		break;
	case ETH_SS_PRIV_FLAGS:
		memcpy(data, ipoib_flag_names, sizeof(ipoib_flag_names));
		break;
	}
}

static u32 ipoib_get_priv_flags(struct net_device *ndev)
{
	return ipoib_cm_offload(ipoib_priv(ndev)) ? IPOIB_FLAG_OFFLOAD : 0;
}

static int ipoib_set_priv_flags(struct net_device *ndev, u32 flags)
{
	ipoib_dev_set_offload(ipoib_priv(ndev), flags & IPOIB_FLAG_OFFLOAD);
	return 0;
}

static u64 *ipoib_get_txq_stats(const struct ipoib_txq *txq, u64 *data)
{
	const u64 *first = data;

	ipoib_count_get(&txq->done.sent, &data[0], &data[1]);
	data += 2;
	*data++ = txq->stat.posts;
	*data++ = txq->stat.stops;
	*data++ = txq->done.reaps;
	*data++ = txq->done.errors;
	*data++ = txq->stat.arms;
	*data++ = txq->stat.too_long;
	*data++ = txq->stat.map_errors;
	*data++ = txq->stat.post_errors;
	WARN_ON_ONCE(data - first != ARRAY_SIZE(ipoib_txq_stat_names));
	return data;
}

/* Those of the first names */
static u64 *ipoib_get_base_values(struct net_device *ndev, u64 restarts,
				  u64 *data)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_neigh_stats neighs;
	struct ipoib_mcast_stats mcast;
	struct ipoib_path_stats paths;
	struct rtnl_link_stats64 s;
	const u64 *first = data;

	dev_get_stats(ndev, &s);
	*data++ = s.rx_packets;
	*data++ = s.tx_packets;
	*data++ = s.rx_bytes;
	*data++ = s.tx_bytes;
	*data++ = s.tx_errors;
	*data++ = s.rx_dropped;
	*data++ = s.tx_dropped;
	*data++ = s.multicast;
	*data++ = s.rx_errors;
	ipoib_paths_get_stats(dev->port, &paths);
	*data++ = paths.queries;
	*data++ = paths.failures;
	*data++ = paths.dropped;
	*data++ = paths.unresolved;
	*data++ = paths.evicted;
	ipoib_neigh_get_stats(dev, &neighs);
	*data++ = neighs.num;
	*data++ = neighs.evicted;
	*data++ = neighs.refused;
	ipoib_mcast_get_stats(dev, &mcast);
	*data++ = mcast.joins;
	*data++ = mcast.join_failures;
	*data++ = mcast.dropped;
	*data++ = restarts;
	*data++ = mcast.limited;
	WARN_ON_ONCE(data - first != ARRAY_SIZE(ipoib_stat_names));
	return data;
}

static void ipoib_get_ethtool_stats(struct net_device *ndev,
				    struct ethtool_stats *unused, u64 *data)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	const struct ipoib_port *port = dev->port;
	struct ipoib_ud_stats ud;
	u32 i;

	ipoib_ud_get_stats(dev, &ud);
	data = ipoib_get_base_values(ndev, ud.restarts, data);
	ipoib_cm_get_stats(dev, data);
	data += IPOIB_CM_STATS;
	for (i = 0; i < port->num_channels; i++) {
		ipoib_count_get(&dev->rx[i], &data[0], &data[1]);
		data += 2;
	}
	for (i = 0; i < dev->num_txqs; i++)
		data = ipoib_get_txq_stats(dev->txqs[i], data);
}

/* ---- statistics of queues ----------------------------------------------- */

/* A child has one queue, whichever channels its connections receive in. */
static void ipoib_get_queue_stats_rx(struct net_device *ndev, int index,
				     struct netdev_queue_stats_rx *rx)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	u32 first = index, end = index + 1;
	u64 packets, bytes;

	if (ipoib_is_child(dev))
		end = dev->port->num_channels;
	rx->packets = 0;
	rx->bytes = 0;
	for (; first < end; first++) {
		ipoib_count_get(&dev->rx[first], &packets, &bytes);
		rx->packets += packets;
		rx->bytes += bytes;
	}
}

static void ipoib_get_queue_stats_tx(struct net_device *ndev, int index,
				     struct netdev_queue_stats_tx *tx)
{
	const struct ipoib_txq *txq = ipoib_priv(ndev)->txqs[index];

	ipoib_count_get(&txq->done.sent, &tx->packets, &tx->bytes);
	tx->stop = READ_ONCE(txq->stat.stops);
}

static void ipoib_get_base_stats(struct net_device *ndev,
				 struct netdev_queue_stats_rx *rx,
				 struct netdev_queue_stats_tx *tx)
{
	struct ipoib_ud_stats ud;

	rx->packets = 0;
	rx->bytes = 0;
	ipoib_ud_get_stats(ipoib_priv(ndev), &ud);
	tx->packets = ud.packets;
	tx->bytes = ud.bytes;
	tx->stop = ud.stops;
}

const struct netdev_stat_ops ipoib_stat_ops = {
	.get_queue_stats_rx	= ipoib_get_queue_stats_rx,
	.get_queue_stats_tx	= ipoib_get_queue_stats_tx,
	.get_base_stats		= ipoib_get_base_stats,
};

/* ---- rings and channels ------------------------------------------------- */

/*
 * Receive settings belong to the port and are changed on its parent interface;
 * children only show them.
 */
static bool ipoib_reject_child(struct ipoib_dev *dev, const char *what)
{
	if (!ipoib_is_child(dev))
		return false;
	net_ratelimited_function(netdev_info, dev->ndev,
				 "%s belong to the port: set them on %s\n",
				 what, dev->port->parent->name);
	return true;
}

static void ipoib_get_channels(struct net_device *ndev,
			       struct ethtool_channels *channels)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);

	channels->max_rx = dev->port->num_channels;
	channels->rx_count = dev->port->used_channels;
	channels->max_tx = dev->max_txqs;
	channels->tx_count = dev->num_txqs;
}

/* The core has checked against the maximum. */
static int ipoib_set_channels(struct net_device *ndev,
			      struct ethtool_channels *channels)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	int ret = 0;

	if (!channels->rx_count || !channels->tx_count)
		return -EINVAL;
	if (channels->rx_count != dev->port->used_channels &&
	    ipoib_reject_child(dev, "receive channels"))
		return -EOPNOTSUPP;
	if (channels->tx_count != dev->num_txqs)
		ret = ipoib_dev_set_txqs(dev, channels->tx_count);
	if (!ret && channels->rx_count != dev->port->used_channels)
		ipoib_dev_set_channels(dev, channels->rx_count);
	return ret;
}

static void ipoib_get_ringparam(struct net_device *ndev,
				struct ethtool_ringparam *ring,
				struct kernel_ethtool_ringparam *kernel_ring,
				struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	const struct ib_device_attr *attrs = &dev->port->ca->attrs;

	ring->rx_max_pending = dev->port->srq_size;
	ring->rx_pending = dev->port->rx_pending;
	ring->tx_max_pending = ipoib_sendq_fit(IPOIB_QUEUE_MAX,
					       attrs->max_qp_wr,
					       attrs->max_cqe);
	ring->tx_pending = dev->txqs[0]->ring.size;
}

/* The core has checked against the maximum. */
static int ipoib_set_ringparam(struct net_device *ndev,
			       struct ethtool_ringparam *ring,
			       struct kernel_ethtool_ringparam *kernel_ring,
			       struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_port *port = dev->port;
	u32 size;
	int ret;

	if (ring->rx_pending != port->rx_pending && ipoib_is_child(dev)) {
		NL_SET_ERR_MSG(extack,
			       "The receive ring belongs to the port: set it on the parent");
		return -EOPNOTSUPP;
	}
	if (ring->rx_pending != port->rx_pending && port->no_srq) {
		NL_SET_ERR_MSG(extack,
			       "Only shared receive queues can be resized, and the port has none");
		return -EOPNOTSUPP;
	}
	if (ring->rx_pending < IPOIB_QUEUE_MIN) {
		NL_SET_ERR_MSG(extack, "The receive ring is too short");
		return -EINVAL;
	}
	if (ring->tx_pending < IPOIB_SENDQ_MIN) {
		NL_SET_ERR_MSG(extack, "The transmit ring is too short");
		return -EINVAL;
	}
	size = min(roundup_pow_of_two(ring->tx_pending),
		   rounddown_pow_of_two(ring->tx_max_pending));
	if (size != dev->txqs[0]->ring.size) {
		ret = ipoib_dev_set_sendq(dev, size);
		if (ret == -EBUSY)
			NL_SET_ERR_MSG(extack,
				       "The HCA can't leave a multicast group yet");
		else if (ret)
			NL_SET_ERR_MSG(extack,
				       "Not enough memory or HCA resources for such rings");
		if (ret)
			return ret;
	}
	if (ring->rx_pending != port->rx_pending)
		ipoib_port_set_recvq(port, ring->rx_pending);
	return 0;
}

/* ---- moderation --------------------------------------------------------- */

static int ipoib_get_coalesce(struct net_device *ndev,
			      struct ethtool_coalesce *coal,
			      struct kernel_ethtool_coalesce *kernel_coal,
			      struct netlink_ext_ack *extack)
{
	struct ipoib_port *port = ipoib_priv(ndev)->port;

	coal->rx_coalesce_usecs = port->rx_usecs;
	coal->rx_max_coalesced_frames = port->rx_frames;
	coal->use_adaptive_rx_coalesce = port->rx_adaptive;
	return 0;
}

static int ipoib_set_coalesce(struct net_device *ndev,
			      struct ethtool_coalesce *coal,
			      struct kernel_ethtool_coalesce *kernel_coal,
			      struct netlink_ext_ack *extack)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	struct ipoib_port *port = dev->port;
	int ret;

	if (coal->rx_coalesce_usecs == port->rx_usecs &&
	    coal->rx_max_coalesced_frames == port->rx_frames &&
	    coal->use_adaptive_rx_coalesce == port->rx_adaptive)
		return 0;
	if (ipoib_is_child(dev)) {
		NL_SET_ERR_MSG(extack, "Moderation belongs to the port: set it on the parent");
		return -EOPNOTSUPP;
	}
	if (coal->rx_coalesce_usecs > U16_MAX ||
	    coal->rx_max_coalesced_frames > U16_MAX) {
		NL_SET_ERR_MSG(extack, "The value exceeds 65535");
		return -ERANGE;
	}
	ret = ipoib_port_set_moderation(port, coal->rx_max_coalesced_frames,
					coal->rx_coalesce_usecs,
					coal->use_adaptive_rx_coalesce);
	if (ret == -EOPNOTSUPP)
		NL_SET_ERR_MSG(extack, "The HCA can't count frames: use rx-usecs");
	else if (ret)
		NL_SET_ERR_MSG(extack, "The HCA rejects the setting");
	else if (coal->use_adaptive_rx_coalesce &&
		 (coal->rx_coalesce_usecs || coal->rx_max_coalesced_frames))
		NL_SET_ERR_MSG(extack, "Takes effect once adaptive-rx is off");
	return ret;
}

const struct ethtool_ops ipoib_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_RX_USECS |
				     ETHTOOL_COALESCE_RX_MAX_FRAMES |
				     ETHTOOL_COALESCE_USE_ADAPTIVE_RX,
	.get_drvinfo		= ipoib_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= ipoib_get_link_ksettings,
	.get_link_ext_state	= ipoib_get_link_ext_state,
	.get_sset_count		= ipoib_get_sset_count,
	.get_strings		= ipoib_get_strings,
	.get_ethtool_stats	= ipoib_get_ethtool_stats,
	.get_channels		= ipoib_get_channels,
	.set_channels		= ipoib_set_channels,
	.get_ringparam		= ipoib_get_ringparam,
	.set_ringparam		= ipoib_set_ringparam,
	.get_coalesce		= ipoib_get_coalesce,
	.set_coalesce		= ipoib_set_coalesce,
	.get_ts_info		= ethtool_op_get_ts_info,
	.get_priv_flags		= ipoib_get_priv_flags,
	.set_priv_flags		= ipoib_set_priv_flags,
};

/* ---- above an HCA's own interface ------------------------------------------ */

/**
 * ipoib_stats_show - write the counters of an HCA's own interface that are ours
 * @m: file
 * @dev: interface; those of other engines are in "ethtool -S"
 */
void ipoib_stats_show(struct seq_file *m, struct ipoib_dev *dev)
{
	u64 values[ARRAY_SIZE(ipoib_stat_names)];
	u32 i;

	if (!dev->enhanced)
		return;
	ipoib_get_base_values(dev->ndev, dev->enhanced->restarts, values);
	for (i = 0; i < ARRAY_SIZE(values); i++)
		seq_printf(m, "%s: %llu\n", ipoib_stat_names[i], values[i]);
}

/* For those that have no operations for this */

static int ipoib_enhanced_get_sset_count(struct net_device *ndev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(ipoib_stat_names) : -EOPNOTSUPP;
}

static void ipoib_enhanced_get_strings(struct net_device *ndev, u32 set,
				       u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, ipoib_stat_names, sizeof(ipoib_stat_names));
}

static void ipoib_enhanced_get_ethtool_stats(struct net_device *ndev,
					     struct ethtool_stats *unused,
					     u64 *data)
{
	ipoib_get_base_values(ndev, ipoib_priv(ndev)->enhanced->restarts, data);
}

const struct ethtool_ops ipoib_enhanced_ethtool_ops = {
	.get_drvinfo		= ipoib_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= ipoib_get_link_ksettings,
	.get_link_ext_state	= ipoib_get_link_ext_state,
	.get_sset_count		= ipoib_enhanced_get_sset_count,
	.get_strings		= ipoib_enhanced_get_strings,
	.get_ethtool_stats	= ipoib_enhanced_get_ethtool_stats,
};
