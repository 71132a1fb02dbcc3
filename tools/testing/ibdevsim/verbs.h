/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_VERBS_H
#define IBDEVSIM_VERBS_H

#include "ibdevsim.h"

int ibds_verbs_setup(struct ibds_dev *dev);
void ibds_verbs_release(struct ibds_dev *dev);

#endif /* IBDEVSIM_VERBS_H */
