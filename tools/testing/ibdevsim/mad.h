/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_MAD_H
#define IBDEVSIM_MAD_H

#include "pkt.h"

void ibds_mad_send(struct ibds_port *from, struct ibds_pkt *pkt);
void ibds_mad_out(u8 out, struct ibds_pkt *pkt);
void ibds_mad_unicast(struct ibds_pkt *pkt);
void ibds_switch_originate(struct ibds_pkt *pkt);

#endif /* IBDEVSIM_MAD_H */
