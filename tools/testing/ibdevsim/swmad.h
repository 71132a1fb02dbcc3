/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SWMAD_H
#define IBDEVSIM_SWMAD_H

#include "pkt.h"

void ibds_pkt_due(struct ibds_pkt *pkt);

#endif /* IBDEVSIM_SWMAD_H */
