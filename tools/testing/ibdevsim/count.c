// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: names and sums of a port's counters, in debugfs and for
 * "rdma statistic" (hw_counters in sysfs)
 */
#include <linux/seq_file.h>
#include <rdma/ib_verbs.h>

#include "count.h"

#define COUNTER(type) { .name = #type, \
	.priv = (const void *)offsetof(struct ibds_counters, type) }

static const struct rdma_stat_desc ibds_counter_descs[] = {
	COUNTER(tx_packets), COUNTER(tx_bytes), COUNTER(rx_packets),
	COUNTER(rx_bytes), COUNTER(tx_rc_packets), COUNTER(rx_rc_packets),
	COUNTER(tx_grh), COUNTER(rx_grh), COUNTER(tx_doorbells),
	COUNTER(tx_wrs), COUNTER(rx_doorbells), COUNTER(rx_wrs),
	COUNTER(cq_events), COUNTER(cqe), COUNTER(cq_overflow),
	COUNTER(drop_port_down), COUNTER(drop_no_route), COUNTER(drop_no_qp),
	COUNTER(drop_pkey), COUNTER(drop_qkey), COUNTER(drop_gid),
	COUNTER(drop_mtu), COUNTER(drop_no_recv), COUNTER(drop_recv_short),
	COUNTER(drop_mc_no_group), COUNTER(drop_mc_bad), COUNTER(drop_fault),
	COUNTER(drop_wedged), COUNTER(drop_malformed), COUNTER(rc_rnr_nak),
	COUNTER(rc_retry), COUNTER(rc_retry_exceeded), COUNTER(bad_lkey),
	COUNTER(bad_rkey), COUNTER(bad_modify), COUNTER(sq_full),
	COUNTER(rq_full), COUNTER(mad_rx), COUNTER(mad_tx),
	COUNTER(mad_dropped), COUNTER(trap_tx), COUNTER(injected),
	COUNTER(delayed), COUNTER(reordered), COUNTER(duplicated),
	COUNTER(cqe_fault), COUNTER(cqe_reset),
};

static_assert(sizeof(struct ibds_counters) ==
	      ARRAY_SIZE(ibds_counter_descs) * sizeof(u64));

static u64 ibds_counter_sum(const struct ibds_port *port, u32 i)
{
	size_t offset = (size_t)ibds_counter_descs[i].priv;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		const u64 *count = (void *)per_cpu_ptr(port->counters, cpu) +
				   offset;

		sum += READ_ONCE(*count);
	}
	return sum;
}

/**
 * ibds_counters_show - print a port's counters
 * @m: file to print to
 * @port: HCA port
 */
void ibds_counters_show(struct seq_file *m, const struct ibds_port *port)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(ibds_counter_descs); i++)
		seq_printf(m, "%s %llu\n", ibds_counter_descs[i].name,
			   ibds_counter_sum(port, i));
}

struct rdma_hw_stats *ibds_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port_num)
{
	return rdma_alloc_hw_stats_struct(ibds_counter_descs,
					  ARRAY_SIZE(ibds_counter_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

int ibds_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port_num, int index)
{
	u32 i;

	/* The core has no counters of a whole HCA. */
	if (!port_num)
		return -EOPNOTSUPP;
	for (i = 0; i < ARRAY_SIZE(ibds_counter_descs); i++)
		stats->value[i] =
			ibds_counter_sum(&to_ibds_dev(ibdev)->port[port_num - 1],
					 i);
	return i;
}
