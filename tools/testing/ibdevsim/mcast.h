/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_MCAST_H
#define IBDEVSIM_MCAST_H

#include "datapath.h"

void ibds_mcast_init(void);
int ibds_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int ibds_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
void ibds_detach_all(struct ibds_qp *qp);
bool ibds_mcast_find(struct ibds_qp *qp, bool any, union ib_gid *mgid, u16 *mlid);
struct hlist_head *ibds_mcast_bucket(struct ibds_port *port,
				     const union ib_gid *mgid, u16 mlid);

#endif /* IBDEVSIM_MCAST_H */
