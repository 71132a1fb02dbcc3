/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_CHANNEL_H
#define IBDEVSIM_CHANNEL_H

#include "nif.h"

int ibds_nif_start_qp(const struct ibds_nif *nif, struct ib_qp *qp);
int ibds_channels_open(struct ibds_nif *nif);
void ibds_channels_close(struct ibds_nif *nif);
int ibds_channels_reopen(struct ibds_nif *nif);
void ibds_channels_moderate(struct ibds_nif *nif);
void ibds_channels_set_id(struct ibds_nif *nif);

#endif /* IBDEVSIM_CHANNEL_H */
