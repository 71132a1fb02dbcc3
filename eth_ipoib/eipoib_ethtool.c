// SPDX-License-Identifier: GPL-2.0-only
/*
 * ethtool: counters, and what is known of the lower interface
 */
#include <linux/ethtool.h>
#include <linux/module.h>

#include "eipoib.h"
#include "eipoib_ethtool.h"

/* In the order of enum eipoib_count */
static const char eipoib_count_names[][ETH_GSTRING_LEN] = {
	"rx_resolutions",
	"tx_resolutions",
	"rx_from_host",
	"tx_to_host",
	"tx_loops",
	"tx_bad_protocol",
	"tx_malformed",
	"tx_unknown_mac",
	"tx_unresolved",
	"tx_refused",
	"tx_unconfirmed",
	"tx_guests_full",
	"peers_full",
	"groups_full",
	"too_big",
	"no_memory",
};

/* The numbers of entries in tables follow. */
static const char eipoib_table_names[][ETH_GSTRING_LEN] = {
	"guests",
	"peers",
	"groups",
};

static_assert(ARRAY_SIZE(eipoib_count_names) == EIPOIB_C_NUM);

static int eipoib_get_sset_count(struct net_device *ndev, int set)
{
	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return ARRAY_SIZE(eipoib_count_names) + ARRAY_SIZE(eipoib_table_names);
}

static void eipoib_get_strings(struct net_device *ndev, u32 set, u8 *data)
{
	if (set != ETH_SS_STATS)
		return;
	memcpy(data, eipoib_count_names, sizeof(eipoib_count_names));
	memcpy(data + sizeof(eipoib_count_names), eipoib_table_names,
	       sizeof(eipoib_table_names));
}

static void eipoib_add_counts(const struct eipoib_counts *counts, u64 *data)
{
	unsigned int start;
	u64 value;
	int i;

	for (i = 0; i < EIPOIB_C_NUM; i++) {
		do {
			start = u64_stats_fetch_begin(&counts->syncp);
			value = u64_stats_read(&counts->count[i]);
		} while (u64_stats_fetch_retry(&counts->syncp, start));
		data[i] += value;
	}
}

static void eipoib_get_stats(struct net_device *ndev,
			     struct ethtool_stats *stats, u64 *data)
{
	struct eipoib_dev *dev = eipoib_priv(ndev);
	int cpu;

	memset(data, 0, EIPOIB_C_NUM * sizeof(*data));
	for_each_possible_cpu(cpu)
		eipoib_add_counts(per_cpu_ptr(dev->counts, cpu), data);
	data += EIPOIB_C_NUM;
	*data++ = READ_ONCE(dev->num_guests);
	*data++ = READ_ONCE(dev->num_peers);
	*data++ = READ_ONCE(dev->num_groups);
}

static void eipoib_get_drvinfo(struct net_device *ndev,
			       struct ethtool_drvinfo *info)
{
	strscpy(info->driver, KBUILD_MODNAME, sizeof(info->driver));
	strscpy(info->bus_info, eipoib_priv(ndev)->lower->name,
		sizeof(info->bus_info));
}

/* The lower interface's speed */
static int eipoib_get_link_ksettings(struct net_device *ndev,
				     struct ethtool_link_ksettings *cmd)
{
	int ret;

	ret = __ethtool_get_link_ksettings(eipoib_priv(ndev)->lower, cmd);
	if (ret)
		return ret;
	ethtool_link_ksettings_zero_link_mode(cmd, supported);
	ethtool_link_ksettings_zero_link_mode(cmd, advertising);
	cmd->base.port = PORT_OTHER;
	return 0;
}

const struct ethtool_ops eipoib_ethtool_ops = {
	.get_link		= ethtool_op_get_link,
	.get_drvinfo		= eipoib_get_drvinfo,
	.get_link_ksettings	= eipoib_get_link_ksettings,
	.get_sset_count		= eipoib_get_sset_count,
	.get_strings		= eipoib_get_strings,
	.get_ethtool_stats	= eipoib_get_stats,
	.get_ts_info		= ethtool_op_get_ts_info,
};
