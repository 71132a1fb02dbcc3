/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_MAD_H
#define IBDEVSIM_MAD_H

#include "fabric.h"
#include "pkt.h"

void ibds_mad_send(struct ibds_port *from, struct ibds_pkt *pkt);
void ibds_mad_out(struct ibds_switch *sw, u8 out, struct ibds_pkt *pkt);
void ibds_mad_unicast(struct ibds_switch *sw, struct ibds_pkt *pkt);
void ibds_switch_originate(struct ibds_switch *sw, struct ibds_pkt *pkt);

#endif /* IBDEVSIM_MAD_H */
