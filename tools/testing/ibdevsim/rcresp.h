/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RCRESP_H
#define IBDEVSIM_RCRESP_H

#include "rcmsg.h"

enum ibds_rc_answer ibds_resp_deliver(struct ibds_port *to,
				      struct ibds_rcv *rcv,
				      const struct ibds_msg *msg,
				      u8 *rnr_timer);
void ibds_rc_arrive(struct ibds_port *to, const struct ibds_pkt *pkt);

#endif /* IBDEVSIM_RCRESP_H */
