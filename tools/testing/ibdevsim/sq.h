/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SQ_H
#define IBDEVSIM_SQ_H

#include "datapath.h"

u64 ibds_sq_bytes(const struct ib_qp_cap *cap);
int ibds_sq_alloc(struct ibds_sq *sq, const struct ib_qp_cap *cap, bool lazy,
		  gfp_t gfp);
void ibds_sq_keep_ah(struct ibds_sq *sq);
void ibds_sq_free(struct ibds_sq *sq);
void ibds_sq_run(struct ibds_qp *qp, struct list_head *later, bool deferred);
int ibds_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad);

#endif /* IBDEVSIM_SQ_H */
