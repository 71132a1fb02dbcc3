/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * QPs that can't be destroyed
 */
#ifndef IPOIB_LOST_H
#define IPOIB_LOST_H

#include <linux/types.h>

struct ib_wc;
struct ipoib_attached;
struct ipoib_channel;
struct ipoib_port;
struct ipoib_qp;
struct ipoib_qp_ops;
struct ipoib_rx_batch;
struct ipoib_rx_slot;
struct ipoib_rxq;
struct ipoib_tx_batch;
struct ipoib_txq;
struct list_head;

void ipoib_lost_init(struct ipoib_port *port);
void ipoib_lost_rx(struct ipoib_channel *ch, struct ipoib_qp *qp,
		   struct ipoib_rx_slot *slot, const struct ib_wc *wc,
		   struct ipoib_rx_batch *batch);
void ipoib_lost_tx(struct ipoib_qp *qp, const struct ib_wc *wc,
		   struct ipoib_tx_batch *batch, int budget);
void ipoib_lost_add(struct ipoib_port *port, struct list_head *qps,
		    const struct ipoib_qp_ops *ops);
void ipoib_lost_add_txq(struct ipoib_txq *txq, struct ipoib_attached *a,
			struct ipoib_rxq *rxq);
bool ipoib_lost_many(const struct ipoib_port *port);
bool ipoib_lost_exit(struct ipoib_port *port);

#endif /* IPOIB_LOST_H */
