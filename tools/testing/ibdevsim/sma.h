/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SMA_H
#define IBDEVSIM_SMA_H

#include "fabric.h"
#include "pkt.h"

struct seq_file;

int ibds_port_init(struct ibds_port *port, struct ibds_dev *dev, u32 num);
void ibds_port_exit(struct ibds_port *port);
void ibds_port_bad_pkey(struct ibds_port *port, const struct ibds_pkt *pkt);
void ibds_port_bad_qkey(struct ibds_port *port, const struct ibds_pkt *pkt);
int ibds_process_mad(struct ib_device *ibdev, int flags, u32 port_num,
		     const struct ib_wc *wc, const struct ib_grh *grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);
int ibds_port_link_error(struct ibds_port *port, char *text);
void ibds_port_errors_show(struct seq_file *m, const struct ibds_port *port);
void ibds_set_sys_guid(struct ibds_dev *dev, __be64 guid);
int ibds_modify_port(struct ib_device *ibdev, u32 port_num, int mask,
		     struct ib_port_modify *props);
int ibds_modify_device(struct ib_device *ibdev, int mask,
		       struct ib_device_modify *props);

#endif /* IBDEVSIM_SMA_H */
