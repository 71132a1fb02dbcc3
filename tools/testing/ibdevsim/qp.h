/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_QP_H
#define IBDEVSIM_QP_H

#include "ibdevsim.h"

struct seq_file;

int ibds_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata);
int ibds_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int ibds_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
int ibds_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int ibds_qp_break(struct ibds_dev *dev, u32 qpn, bool sqe);
void ibds_qps_kick(struct ibds_port *port);
void ibds_qps_rouse(struct ibds_dev *dev);
void ibds_qps_error(struct ibds_dev *dev);
void ibds_mads_flush(struct ibds_dev *dev);
void ibds_qps_show(struct seq_file *m, struct ibds_dev *dev);

#endif /* IBDEVSIM_QP_H */
