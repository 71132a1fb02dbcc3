/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SWAGENT_H
#define IBDEVSIM_SWAGENT_H

#include "fabric.h"

void ibds_swagent_init(void);
void ibds_swagent_exit(void);
bool ibds_switch_sma(struct ib_smp *smp, u8 in_port);
int ibds_switch_link_error(char *text);
bool ibds_switch_pma(struct ib_pma_mad *mad);

#endif /* IBDEVSIM_SWAGENT_H */
