/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_CQIRQ_H
#define IBDEVSIM_CQIRQ_H

#include "datapath.h"

void ibds_cq_irq_init(struct ibds_cq *cq, u32 vector, enum ibds_comp_ctx ctx);
void ibds_cq_event(struct ibds_cq *cq, bool solicited);
void ibds_cq_rouse(struct ibds_cq *cq);
void ibds_cq_sync(struct ibds_cq *cq);

#endif /* IBDEVSIM_CQIRQ_H */
