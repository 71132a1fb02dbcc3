/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_INJECT_H
#define IBDEVSIM_INJECT_H

#include "ibdevsim.h"

int ibds_inject(struct ibds_port *port, const u8 *wire, size_t len);

#endif /* IBDEVSIM_INJECT_H */
