/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address handles
 */
#ifndef IPOIB_AH_H
#define IPOIB_AH_H

#include <rdma/ib_verbs.h>

struct ipoib_port;
struct rdma_ah_attr;

/**
 * struct ipoib_ah - an address handle that senders use under RCU
 * @ib: the verbs object
 * @entry: in the port's list of dead handles
 */
struct ipoib_ah {
	struct ib_ah *ib;
	struct list_head entry;
};

struct ipoib_ah *ipoib_ah_create(struct ipoib_port *port,
				 struct rdma_ah_attr *attr);
void ipoib_ah_retire(struct ipoib_port *port, struct ipoib_ah *ah);
int ipoib_ah_port_init(struct ipoib_port *port);
void ipoib_ah_port_exit(struct ipoib_port *port);

#endif /* IPOIB_AH_H */
