/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_DMA_H
#define IBDEVSIM_DMA_H

#include "ibdevsim.h"

int ibds_dma_dev_new(struct ibds_dev *dev);

#endif /* IBDEVSIM_DMA_H */
