/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_LINK_H
#define IBDEVSIM_LINK_H

#include "fabric.h"

void ibds_link_update(struct ibds_sw_port *sp, bool bounce);
bool ibds_link_advance(u8 *state, u8 from, u8 to);
void ibds_link_disable(struct ibds_sw_port *sp, bool disabled);
void ibds_port_disable(struct ibds_port *port, bool disabled);
void ibds_port_bounce(struct ibds_port *port);
void ibds_port_set_link(struct ibds_port *port, bool up);
void ibds_cable_hca(struct ibds_port *port, struct ibds_sw_port *sp);
void ibds_cable_switches(struct ibds_sw_port *a, struct ibds_sw_port *b);
void ibds_cable_remove(struct ibds_sw_port *sp);
int ibds_switch_attach(struct ibds_port *port, struct ibds_switch *sw);
struct ibds_sw_port *ibds_switch_detach(struct ibds_port *port);

#endif /* IBDEVSIM_LINK_H */
