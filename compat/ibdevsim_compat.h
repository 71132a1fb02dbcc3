/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces that older kernels lack, for the simulated fabric; see
 * ipoib_compat.h.  Macros only: headers included here would precede pr_fmt().
 */
#ifndef IBDEVSIM_COMPAT_H
#define IBDEVSIM_COMPAT_H

#include <linux/version.h>

/* 7.1: operations for CQs of user space have names of their own */
#ifdef IBDEVSIM_COMPAT_USER_CQ
#define create_user_cq create_cq
#define resize_user_cq resize_cq
#define ibds_resize_cq(_cq, _cqe, _udata) \
	ibds_resize_cq(_cq, int cqe, _udata)
#endif

/* 6.18: ethtool asks for the number of receive rings by an operation of its own */
#ifdef IBDEVSIM_COMPAT_RING_COUNT
#define get_rx_ring_count get_rxnfc
#define ibds_nethtool_ring_count(...)					\
	__ibds_ring_count(__VA_ARGS__);					\
									\
static int ibds_nethtool_ring_count(struct net_device *_dev,		\
				    struct ethtool_rxnfc *_info,	\
				    u32 *_rules)			\
{									\
	if (_info->cmd != ETHTOOL_GRXRINGS)				\
		return -EOPNOTSUPP;					\
	_info->data = __ibds_ring_count(_dev);				\
	return 0;							\
}									\
									\
static u32 __ibds_ring_count(__VA_ARGS__)
#endif

/* 6.19: DMA operations take physical addresses */
#ifdef IBDEVSIM_COMPAT_MAP_PAGE
#define map_phys map_page
#define unmap_phys unmap_page
#define ibds_dma_map(...)						\
	ibds_dma_map_phys(__VA_ARGS__);					\
									\
static dma_addr_t ibds_dma_map(struct device *_dma, struct page *_page,	\
			       unsigned long _off, size_t _size,	\
			       enum dma_data_direction _dir,		\
			       unsigned long _attrs)			\
{									\
	return ibds_dma_map_phys(_dma, page_to_phys(_page) + _off,	\
				 _size, _dir, _attrs);			\
}									\
									\
static dma_addr_t ibds_dma_map_phys(__VA_ARGS__)
#endif

/* 6.17: user memory is registered with hints for the device */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define dmah NULL	/* where it is no parameter */
#define ibds_reg_user_mr(pd, start, length, virt_addr, access, dmah, udata) \
	ibds_reg_user_mr(pd, start, length, virt_addr, access, udata)
#endif

/* 6.11: CQs are created with all uverbs attributes */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define ibds_create_cq(_cq, _attr, _attrs) \
	ibds_create_cq(_cq, _attr, struct ib_udata *attrs)
#endif

/* 6.6: time stamps are switched on by operations of their own; ndo_eth_ioctl does it */
#ifdef IBDEVSIM_COMPAT_HWTSTAMP
#define ndo_hwtstamp_get ndo_siocdevprivate
#define ndo_hwtstamp_set ndo_do_ioctl
#define ibds_own_get_stamps(...)					\
	ibds_own_get_stamps(struct net_device *_dev,			\
			    struct ifreq *_ifr, void __user *_data,	\
			    int _cmd)					\
{									\
	return -EOPNOTSUPP;						\
}									\
									\
static int __maybe_unused __ibds_own_get_stamps(__VA_ARGS__)

#define ibds_own_set_stamps(...)					\
	ibds_own_set_stamps(struct net_device *_dev,			\
			    struct ifreq *_ifr, int _cmd)		\
{									\
	return -EOPNOTSUPP;						\
}									\
									\
static int __maybe_unused __ibds_own_set_stamps(__VA_ARGS__)
#endif

/* 6.5 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define struct_size_t(type, member, count) \
	struct_size((type *)NULL, member, count)
#endif

/* 6.4: struct bus_type is const */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define new_device_store(bus, buf, count) \
	new_device_store(struct bus_type *_bus, buf, count)
#define del_device_store(bus, buf, count) \
	del_device_store(struct bus_type *_bus, buf, count)
#define new_switch_store(bus, buf, count) \
	new_switch_store(struct bus_type *_bus, buf, count)
#define del_switch_store(bus, buf, count) \
	del_switch_store(struct bus_type *_bus, buf, count)
#define link_store(bus, buf, count) \
	link_store(struct bus_type *_bus, buf, count)
#define unlink_store(bus, buf, count) \
	unlink_store(struct bus_type *_bus, buf, count)
#endif

#endif /* IBDEVSIM_COMPAT_H */
