/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SWAGENT_H
#define IBDEVSIM_SWAGENT_H

#include "fabric.h"

void ibds_swagent_init(struct ibds_switch *sw);
void ibds_swagent_exit(struct ibds_switch *sw);
bool ibds_switch_sma(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port);
int ibds_switch_link_error(struct ibds_switch *sw, char *text);
bool ibds_switch_pma(struct ibds_switch *sw, struct ib_pma_mad *mad);

#endif /* IBDEVSIM_SWAGENT_H */
