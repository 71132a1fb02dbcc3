/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PORT_H
#define IBDEVSIM_PORT_H

#include "ibdevsim.h"
#include "pkt.h"

void ibds_port_event(struct ibds_port *port, enum ib_event_type type);
int ibds_port_event_raise(struct ibds_dev *dev, u32 num,
			  enum ib_event_type type, u32 times);
void ibds_port_arrive(struct ibds_port *port, const struct ibds_pkt *pkt);
void ibds_port_set_lid(struct ibds_port *port, u16 lid);
void ibds_port_set_prefix(struct ibds_port *port, __be64 prefix);
int ibds_port_set_guid(struct ibds_port *port, u32 index, __be64 guid);
int ibds_port_set_pkey(struct ibds_port *port, u32 index, u16 pkey);

#endif /* IBDEVSIM_PORT_H */
