/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * 6.8: ethtool operations for RSS take their parameters in a structure
 */
#ifndef IBDEVSIM_RXFH_COMPAT_H
#define IBDEVSIM_RXFH_COMPAT_H

#include <linux/ethtool.h>

struct ethtool_rxfh_param {
	u8 hfunc;
	u32 *indir;
	u8 *key;
};

#define ibds_nethtool_get_rxfh(...)					\
	__ibds_get_rxfh(__VA_ARGS__);					\
									\
static int ibds_nethtool_get_rxfh(struct net_device *_dev, u32 *_indir,	\
				  u8 *_key, u8 *_hfunc)			\
{									\
	struct ethtool_rxfh_param _rxfh = {				\
		.indir = _indir, .key = _key,				\
	};								\
	int _err = __ibds_get_rxfh(_dev, &_rxfh);			\
									\
	if (_hfunc)							\
		*_hfunc = _rxfh.hfunc;					\
	return _err;							\
}									\
									\
static int __ibds_get_rxfh(__VA_ARGS__)

#define ibds_nethtool_set_rxfh(...)					\
	__ibds_set_rxfh(__VA_ARGS__);					\
									\
static int ibds_nethtool_set_rxfh(struct net_device *_dev,		\
				  const u32 *_indir, const u8 *_key,	\
				  const u8 _hfunc)			\
{									\
	struct ethtool_rxfh_param _rxfh = {				\
		.indir = (u32 *)_indir, .key = (u8 *)_key,		\
		.hfunc = _hfunc,					\
	};								\
									\
	return __ibds_set_rxfh(_dev, &_rxfh, NULL);			\
}									\
									\
static int __ibds_set_rxfh(__VA_ARGS__)

#endif /* IBDEVSIM_RXFH_COMPAT_H */
