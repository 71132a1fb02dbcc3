/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_TRAP_H
#define IBDEVSIM_TRAP_H

#include "fabric.h"

void ibds_traps_init(struct ibds_traps *traps, struct ibds_port *port,
		     struct ibds_switch *sw);
void ibds_traps_exit(struct ibds_traps *traps);
void ibds_traps_raise(struct ibds_traps *traps,
		      const struct ib_mad_notice_attr *notice);
int ibds_traps_link_error(struct ibds_traps *traps, struct ibds_pma *pma,
			  u32 num, char *text);
void ibds_traps_repress(struct ibds_traps *traps, const struct ib_smp *smp);

#endif /* IBDEVSIM_TRAP_H */
