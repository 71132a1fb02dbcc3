/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_COUNT_H
#define IBDEVSIM_COUNT_H

#include "ibdevsim.h"

struct seq_file;

void ibds_counters_show(struct seq_file *m, const struct ibds_port *port);
struct rdma_hw_stats *ibds_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port_num);
int ibds_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port_num, int index);

#endif /* IBDEVSIM_COUNT_H */
