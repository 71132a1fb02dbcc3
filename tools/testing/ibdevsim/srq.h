/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SRQ_H
#define IBDEVSIM_SRQ_H

#include "datapath.h"

int ibds_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata);
int ibds_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int ibds_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int ibds_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int ibds_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad);
const struct ibds_rwqe *ibds_srq_take(struct ibds_srq *srq,
				      struct ibds_rwqe *copy);
u64 ibds_rq_bytes(u32 limit, u32 max_sge);
int ibds_rq_alloc(struct ibds_rq *rq, u32 limit, u32 max_sge, gfp_t gfp);
void ibds_rq_free(struct ibds_rq *rq);

static inline struct ibds_rwqe *ibds_rq_slot(const struct ibds_rq *rq, u32 pos)
{
	return rq->ring + (pos & rq->mask) * rq->stride;
}

/**
 * ibds_rq_fill - write an entry of a receive queue
 * @rq: receive queue, locked
 * @pos: position of a free entry
 * @wr: receive request
 * @lkey: L_Key that needs no look-up
 */
static inline void ibds_rq_fill(struct ibds_rq *rq, u32 pos,
				const struct ib_recv_wr *wr, u64 lkey)
{
	struct ibds_rwqe *wqe = ibds_rq_slot(rq, pos);
	u64 length = 0;
	u16 mapped = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		wqe->sge[i] = *sge;
		length += sge->length;
		mapped |= sge->lkey != lkey;
	}
	wqe->wr_id = wr->wr_id;
	wqe->length = min_t(u64, length, U32_MAX);
	wqe->num_sge = wr->num_sge;
	wqe->mapped = mapped;
}

#endif /* IBDEVSIM_SRQ_H */
