/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SLOW_H
#define IBDEVSIM_SLOW_H

#include "ibdevsim.h"
#include "pkt.h"

void ibds_later_run(struct list_head *later);
void ibds_port_receive(struct ibds_port *port, const struct ibds_pkt *pkt);

#endif /* IBDEVSIM_SLOW_H */
