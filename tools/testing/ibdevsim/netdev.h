/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_NETDEV_H
#define IBDEVSIM_NETDEV_H

#include "ibdevsim.h"

int ibds_netdev_params(struct ib_device *ibdev, u32 port_num,
		       enum rdma_netdev_t type,
		       struct rdma_netdev_alloc_params *params);

#endif /* IBDEVSIM_NETDEV_H */
