/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PMA_H
#define IBDEVSIM_PMA_H

#include <linux/atomic.h>
#include <rdma/ib_pma.h>

#include "ibdevsim.h"

struct seq_file;
struct ibds_pma_attr;

/* Counters a PMA shows, named as in its attributes. */
enum ibds_pma_counter {
	IBDS_PMA_SYMBOL_ERROR,
	IBDS_PMA_LINK_RECOVERY,
	IBDS_PMA_LINK_DOWNED,
	IBDS_PMA_RCV_ERRORS,
	IBDS_PMA_RCV_REMPHYS,
	IBDS_PMA_RCV_RELAY,
	IBDS_PMA_XMIT_DISCARDS,
	IBDS_PMA_XMIT_CONSTRAINT,
	IBDS_PMA_RCV_CONSTRAINT,
	IBDS_PMA_INTEGRITY,
	IBDS_PMA_OVERRUN,
	IBDS_PMA_VL15_DROPPED,
	IBDS_PMA_XMIT_DATA,
	IBDS_PMA_RCV_DATA,
	IBDS_PMA_XMIT_PKTS,
	IBDS_PMA_RCV_PKTS,
	IBDS_PMA_XMIT_WAIT,
	/* PortRcvErrorDetails: the sum of these is in IBDS_PMA_RCV_ERRORS, */
	IBDS_PMA_LOCAL_PHYSICAL,
	IBDS_PMA_MALFORMED,
	IBDS_PMA_BUFFER_OVERRUN,
	/* and that of these in IBDS_PMA_RCV_RELAY. */
	IBDS_PMA_DLID_MAPPING,
	IBDS_PMA_VL_MAPPING,
	IBDS_PMA_LOOPING,
	/* PortXmitDiscardDetails; their sum is in IBDS_PMA_XMIT_DISCARDS. */
	IBDS_PMA_INACTIVE,
	IBDS_PMA_NEIGHBOR_MTU,
	IBDS_PMA_SW_LIFETIME,
	IBDS_PMA_SW_HOQ,
	IBDS_PMA_COUNTERS,
};

/**
 * struct ibds_pma - the PMA's view of one port's counters
 * @base: subtracted from the port's counters; Set(PortCounters) moves it
 * @added: by ibds_pma_add()
 * @link_downed: times the link went down
 */
struct ibds_pma {
	u64 base[IBDS_PMA_COUNTERS];
	atomic64_t added[IBDS_PMA_COUNTERS];
	u64 link_downed;
};

/**
 * struct ibds_pma_query - a Get or Set that is being answered
 * @mad: the request, becomes the response
 * @attr: its attribute, NULL if that has no counters
 * @set: it is a Set
 * @select: PortSelect
 * @lo: first port selected
 * @hi: last port selected; less than @lo when there is none
 * @counters: CounterSelect, and CounterSelect2 from bit 16 on
 * @value: new values of the selected counters
 * @sum: values in the response
 */
struct ibds_pma_query {
	struct ib_pma_mad *mad;
	const struct ibds_pma_attr *attr;
	bool set;
	u8 select;
	u8 lo;
	u8 hi;
	u32 counters;
	u64 value[IBDS_PMA_COUNTERS];
	u64 sum[IBDS_PMA_COUNTERS];
};

void ibds_pma_raw(const struct ibds_port *port, u64 *raw);
void ibds_pma_switch_raw(const struct ibds_port *peer, u64 *raw);
void ibds_pma_rebase(struct ibds_pma *pma, const u64 *raw);
void ibds_pma_restart(struct ibds_pma *pma, const u64 *raw);
int ibds_pma_add(struct ibds_pma *pma, char *text);
void ibds_pma_show(struct seq_file *m, const struct ibds_pma *pma,
		   const u64 *raw);
void ibds_pma_begin(struct ibds_pma_query *query, struct ib_pma_mad *mad,
		    u8 first, u8 last);
void ibds_pma_port(struct ibds_pma_query *query, struct ibds_pma *pma,
		   const u64 *raw);
void ibds_pma_end(struct ibds_pma_query *query);

#endif /* IBDEVSIM_PMA_H */
