/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_UD_H
#define IBDEVSIM_UD_H

#include "datapath.h"
#include "pkt.h"

u32 ibds_lso_l4(const u8 *hdr, u32 hlen);
enum ib_wc_status ibds_ud_send(struct ibds_qp *qp, const struct ib_ud_wr *wr,
			       struct list_head *later);
enum ib_wc_status ibds_mad_post(struct ibds_qp *qp, const struct ib_ud_wr *wr,
				struct list_head *later);
int ibds_ud_receive(struct ibds_port *port, const struct ibds_pkt *pkt);
int ibds_mad_receive(struct ibds_port *port, const struct ibds_pkt *pkt);

#endif /* IBDEVSIM_UD_H */
