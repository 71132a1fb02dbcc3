/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: the delay line: a time-ordered tree of packets that a work item on
 * an ordered work queue empties.  The switch's agents run, and such packets are
 * delivered, only on that work queue, always in process context under
 * rcu_read_lock().
 */
#ifndef IBDEVSIM_LINE_H
#define IBDEVSIM_LINE_H

#include "pkt.h"

struct ibds_switch;

/**
 * enum ibds_stage - next step of a packet in the delay line
 * @IBDS_STAGE_DELIVER: reach the HCA at pkt->out
 * @IBDS_STAGE_SWITCH: enter a switch at pkt->in, for a MAD
 */
enum ibds_stage {
	IBDS_STAGE_DELIVER,
	IBDS_STAGE_SWITCH,
};

extern struct workqueue_struct *ibds_wq;

int ibds_line_init(void (*due)(struct ibds_pkt *pkt));
void ibds_line_exit(void);
int ibds_line_add(struct ibds_pkt *pkt, enum ibds_stage stage, u64 delay_ns);
void ibds_line_purge(const struct ibds_switch *sw,
		     const struct ibds_sw_port *at);

#endif /* IBDEVSIM_LINE_H */
