/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PCAP_H
#define IBDEVSIM_PCAP_H

#include "ibdevsim.h"
#include "pkt.h"

extern const struct file_operations ibds_pcap_fops;

int ibds_pcap_alloc(struct ibds_port *port);
void ibds_pcap_set(struct ibds_port *port, bool on);
void ibds_pcap_close(struct ibds_port *port);
void ibds_pcap_free(struct ibds_port *port);
void ibds_mirror(struct ibds_port *port, const struct ibds_pkt *pkt, bool tx);

#endif /* IBDEVSIM_PCAP_H */
