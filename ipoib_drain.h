/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Taking QPs down together
 */
#ifndef IPOIB_DRAIN_H
#define IPOIB_DRAIN_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/types.h>

struct completion;
struct ipoib_channel;
struct ipoib_port;
struct ipoib_qp;
struct ipoib_txq;

/* In the wr_id of a drain marker, the last request of a send queue */
#define IPOIB_WR_MARKER		BIT_ULL(63)

/**
 * struct ipoib_drain - QPs of a port that are taken down together
 *
 * On the stack of the caller::
 *
 *	ipoib_drain_begin()	each QP to ERR, its marker posted; may have been
 *				done before, for more QPs than these
 *	ipoib_drain_add()	each QP
 *	ipoib_drain_wait()	until they have drained, then the barrier
 *	ipoib_drain_reset()	the late ones, or all, then the second barrier
 *
 * @qps: struct ipoib_qp.drain_entry
 * @late: a second barrier is needed behind the reset
 */
struct ipoib_drain {
	struct list_head qps;
	bool late;
};

void ipoib_drain_port_init(struct ipoib_port *port);
void ipoib_drain_init(struct ipoib_drain *drain);
void ipoib_drain_begin(struct ipoib_qp *qp);
void ipoib_drain_add(struct ipoib_drain *drain, struct ipoib_qp *qp);
void ipoib_drain_wait(struct ipoib_drain *drain);
void ipoib_drain_reset(struct ipoib_drain *drain, bool all);
void ipoib_drain_purge(struct ipoib_txq *txq);
int ipoib_drain_destroy_qp(struct ipoib_qp *qp);
bool ipoib_drain_pause(struct ipoib_port *port, unsigned long begun);
bool ipoib_drain_wait_for(struct ipoib_channel *ch, struct completion *what,
			  unsigned long begun);

#endif /* IPOIB_DRAIN_H */
