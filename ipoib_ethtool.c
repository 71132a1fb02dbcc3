// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool: driver, link, statistics
 */
#include <linux/ethtool.h>
#include <linux/rhashtable.h>

#include "ipoib.h"

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

/* The first eight are named and ordered as scripts have known them. */
static const char ipoib_stat_names[][ETH_GSTRING_LEN] = {
	"rx_packets", "tx_packets", "rx_bytes", "tx_bytes",
	"tx_errors", "rx_dropped", "tx_dropped", "multicast",
	"rx_errors",
	"tx0_posts", "tx0_stops", "tx0_completions", "tx0_errors",
	"tx0_interrupts_armed", "tx0_too_long", "tx0_map_errors",
	"tx0_post_errors",
	"path_queries", "path_failures", "path_dropped",
	"mcast_joins", "mcast_join_failures", "mcast_dropped",
	"qp_restarts",
};

static const char ipoib_flag_names[][ETH_GSTRING_LEN] = {
	"connected-offload",
};

#define IPOIB_FLAG_OFFLOAD	BIT(0)

static int ipoib_get_sset_count(struct net_device *ndev, int set)
{
	switch (set) {
	case ETH_SS_STATS:
		return ARRAY_SIZE(ipoib_stat_names) + IPOIB_CM_STATS;
	case ETH_SS_PRIV_FLAGS:
		return ipoib_priv(ndev)->cm ? ARRAY_SIZE(ipoib_flag_names) : 0;
	default:
		return -EOPNOTSUPP;
	}
}

static void ipoib_get_strings(struct net_device *ndev, u32 set, u8 *data)
{
	switch (set) {
	case ETH_SS_STATS:
		memcpy(data, ipoib_stat_names, sizeof(ipoib_stat_names));
		ipoib_cm_get_stat_names(data + sizeof(ipoib_stat_names));
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
	ipoib_cm_set_offload(ipoib_priv(ndev), flags & IPOIB_FLAG_OFFLOAD);
	return 0;
}

static void ipoib_get_ethtool_stats(struct net_device *ndev,
				    struct ethtool_stats *unused, u64 *data)
{
	struct ipoib_dev *dev = ipoib_priv(ndev);
	const struct ipoib_port *port = dev->port;
	const struct ipoib_txq *txq = dev->ud.txq;
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
	*data++ = txq->stat.posts;
	*data++ = txq->stat.stops;
	*data++ = txq->done.reaps;
	*data++ = txq->done.errors;
	*data++ = txq->stat.arms;
	*data++ = txq->stat.too_long;
	*data++ = txq->stat.map_errors;
	*data++ = txq->stat.post_errors;
	*data++ = port->path_stat.queries;
	*data++ = port->path_stat.failures;
	*data++ = port->path_stat.dropped;
	*data++ = dev->mcast.joins;
	*data++ = dev->mcast.join_failures;
	*data++ = dev->mcast.dropped;
	*data++ = dev->ud.restarts;
	WARN_ON_ONCE(data - first != ARRAY_SIZE(ipoib_stat_names));
	ipoib_cm_get_stats(dev, data);
}

const struct ethtool_ops ipoib_ethtool_ops = {
	.get_drvinfo		= ipoib_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= ipoib_get_link_ksettings,
	.get_sset_count		= ipoib_get_sset_count,
	.get_strings		= ipoib_get_strings,
	.get_ethtool_stats	= ipoib_get_ethtool_stats,
	.get_priv_flags		= ipoib_get_priv_flags,
	.set_priv_flags		= ipoib_set_priv_flags,
};
