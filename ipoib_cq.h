/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CQs of a channel
 */
#ifndef IPOIB_CQ_H
#define IPOIB_CQ_H

#include <linux/list.h>
#include <rdma/ib_verbs.h>

struct ipoib_channel;
struct ipoib_port;
struct work_struct;

/**
 * struct ipoib_cq - a CQ of a channel, shared by QPs
 * @ib: the verbs object
 * @entry: in the channel's list, RCU
 * @room: completions not reserved by any QP (port lock)
 * @users: QPs that use it (port lock)
 * @behind: completions that may still precede the barrier (NAPI)
 * @armed: an interrupt was requested since the last poll; send CQs only
 * @moderated: moderation was set; receive CQs only
 * @refused: times in a row that the HCA refused to moderate it (port lock)
 */
struct ipoib_cq {
	struct ib_cq *ib;
	struct list_head entry;
	u32 room;
	u32 users;
	s32 behind;
	bool armed;
	bool moderated;
	u32 refused;
};

/* Packets in flight at which a completion interrupt is requested */
#define IPOIB_TX_ARM		16

static inline bool ipoib_tx_should_arm(const struct ipoib_cq *cq, u32 inflight,
				       bool urgent)
{
	return (inflight >= IPOIB_TX_ARM || urgent) && !READ_ONCE(cq->armed);
}

/**
 * struct ipoib_cq_list - CQs of a channel, all for sends or all for receives
 * @list: struct ipoib_cq.entry; changed under the port's lock, RCU
 * @num: number of CQs (port lock)
 */
struct ipoib_cq_list {
	struct list_head list;
	u32 num;
};

/**
 * struct ipoib_cqs - a QP's share of its channel's CQs, see ipoib_cq_get()
 * @tx: reports its sends
 * @rx: reports its receives; NULL if it has none
 * @sends: completions reserved in @tx
 * @receives: completions reserved in @rx
 */
struct ipoib_cqs {
	struct ipoib_cq *tx;
	struct ipoib_cq *rx;
	u32 sends;
	u32 receives;
};

bool ipoib_port_moderates(const struct ipoib_port *port);
int ipoib_cq_moderate(struct ipoib_channel *ch, struct ipoib_cq *cq);
int ipoib_cq_get(struct ipoib_channel *ch, struct ipoib_cqs *cqs,
		 struct ib_qp_init_attr *attr);
void ipoib_cq_put(struct ipoib_channel *ch, struct ipoib_cqs *cqs);
void ipoib_cq_work(struct work_struct *work);
void ipoib_cq_destroy_all(struct ipoib_cq_list *cqs);

#endif /* IPOIB_CQ_H */
