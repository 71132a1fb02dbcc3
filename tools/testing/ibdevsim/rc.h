/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RC_H
#define IBDEVSIM_RC_H

#include "datapath.h"

enum ib_wc_status ibds_rc_send(struct ibds_qp *qp, const struct ib_send_wr *wr,
			       struct list_head *later);
enum hrtimer_restart ibds_rc_timer(struct hrtimer *timer);

#endif /* IBDEVSIM_RC_H */
