/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PMA_H
#define IBDEVSIM_PMA_H

#include <rdma/ib_pma.h>

#include "ibdevsim.h"

/* Counters a PMA shows, named as in PortCounters. */
enum ibds_pma_counter {
	IBDS_PMA_LINK_DOWNED,
	IBDS_PMA_RCV_ERRORS,
	IBDS_PMA_XMIT_DISCARDS,
	IBDS_PMA_RCV_CONSTRAINT,
	IBDS_PMA_VL15_DROPPED,
	IBDS_PMA_XMIT_DATA,
	IBDS_PMA_RCV_DATA,
	IBDS_PMA_XMIT_PKTS,
	IBDS_PMA_RCV_PKTS,
	IBDS_PMA_COUNTERS,
};

/**
 * struct ibds_pma - the PMA's view of one port's counters
 * @base: subtracted from the port's counters; Set(PortCounters) moves it
 * @link_downed: times the link went down
 */
struct ibds_pma {
	u64 base[IBDS_PMA_COUNTERS];
	u64 link_downed;
};

/**
 * struct ibds_pma_query - a Get or Set that is being answered
 * @mad: the request, becomes the response
 * @ext: of PortCountersExtended, not PortCounters
 * @set: it is a Set
 * @select: PortSelect
 * @lo: first port selected
 * @hi: last port selected; less than @lo when there is none
 * @counters: CounterSelect
 * @value: new values of the selected counters
 * @sum: values in the response
 */
struct ibds_pma_query {
	struct ib_pma_mad *mad;
	bool ext;
	bool set;
	u8 select;
	u8 lo;
	u8 hi;
	__be16 counters;
	u64 value[IBDS_PMA_COUNTERS];
	u64 sum[IBDS_PMA_COUNTERS];
};

void ibds_pma_raw(const struct ibds_port *port, u64 *raw);
void ibds_pma_begin(struct ibds_pma_query *query, struct ib_pma_mad *mad,
		    u8 first, u8 last);
void ibds_pma_port(struct ibds_pma_query *query, struct ibds_pma *pma,
		   const u64 *raw);
void ibds_pma_end(struct ibds_pma_query *query);

#endif /* IBDEVSIM_PMA_H */
