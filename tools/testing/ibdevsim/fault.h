/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_FAULT_H
#define IBDEVSIM_FAULT_H

#include <linux/seq_file.h>

#include "ibdevsim.h"
#include "pkt.h"

bool ibds_fault_lose(struct ibds_port *port);
void ibds_fault_send(struct ibds_port *from, struct ibds_port *to,
		     struct ibds_pkt *pkt);
void ibds_fault_patch(struct ibds_port *port, struct ibds_pkt *pkt);
void ibds_sa_patch_show(struct seq_file *m, struct ibds_port *port);
int ibds_sa_patch_store(struct ibds_port *port, const char *text);
void ibds_faults_update(struct ibds_port *port);
void ibds_faults_lift(struct ibds_port *port);

#endif /* IBDEVSIM_FAULT_H */
