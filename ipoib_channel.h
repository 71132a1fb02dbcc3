/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels of a port
 */
#ifndef IPOIB_CHANNEL_H
#define IPOIB_CHANNEL_H

#include <linux/dim.h>
#include <linux/hrtimer.h>
#include <linux/netdevice.h>

#include "ipoib_count.h"
#include "ipoib_cq.h"
#include "ipoib_rx.h"

struct ipoib_port;

#define IPOIB_WC_BATCH		16	/* completions taken in one poll */

/**
 * enum ipoib_flush - how far a channel's barrier has come
 * @IPOIB_FLUSH_NONE: none was requested
 * @IPOIB_FLUSH_ASKED: requested; the next poll begins it
 * @IPOIB_FLUSH_BEGUN: the poll function empties the CQs past what they held
 * @IPOIB_FLUSH_DONE: GRO was flushed; the next poll reports that
 */
enum ipoib_flush {
	IPOIB_FLUSH_NONE,
	IPOIB_FLUSH_ASKED,
	IPOIB_FLUSH_BEGUN,
	IPOIB_FLUSH_DONE,
};

/**
 * struct ipoib_adapt - counters of a channel at the last check for moderation
 * @received: packets
 * @sent: packets, of all channels of the port
 * @irqs: interrupts for receives
 */
struct ipoib_adapt {
	u32 received;
	u32 sent;
	u16 irqs;
};

/**
 * struct ipoib_channel - a completion vector's share of a port
 *
 * CQs, NAPI, receive buffers and the SRQ, shared by the QPs of the port that
 * were assigned to this channel.  The NAPI context belongs to the parent's
 * net_device.  Receive resources are created when the first QP needs them.
 *
 * @port: its port
 * @index: index in ipoib_port.channels
 * @rx_cqs: completions of receives
 * @tx_cqs: completions of sends; armed only when a queue needs it, see
 *	ipoib_txq_watch()
 * @rx_share: receives taken from a CQ before the next one's turn
 * @rx_turn: number of CQs that the next poll skips at first, since the last one
 *	used up its budget on them (NAPI)
 * @vector: completion vector
 * @cq_work: destroys CQs that no QP uses any more, and moderates those again
 *	that the HCA refused to
 * @napi: serves all CQs
 * @rxq: buffers of the SRQ; rxq.srq is NULL if the HCA has none for UD
 * @dirty: receive queues with slots to refill
 * @emptied: polls that left no receive in the CQs (NAPI)
 * @pool: receive pages, NULL before the first QP that receives
 * @small: pages for copies of small packets, likewise
 * @pages: single pages for when no others are available, likewise; NULL where
 *	a page is as large as those of the other pools
 * @split: format for datagrams that mostly fit a head
 * @whole: format in one piece, for links whose datagrams may be longer
 * @bql: transmit queues that handed packets to connections, see
 *	ipoib_txq_handed()
 * @refill_timer: retries when a buffer could not be allocated or posted
 * @barriers: number of barriers begun
 * @flush: progress of ipoib_channel_barrier(), enum ipoib_flush
 * @flushed: the barrier was passed
 * @qps: datagram QPs that receive here (port lock)
 * @users: of these, those of interfaces that are open (port lock)
 * @irqs: interrupts for receives
 * @rx: receive counters, of all interfaces (NAPI)
 * @sent: packets that were sent, a hint for DIM
 * @adapt: counters at the last check for moderation (NAPI)
 * @dim: adapts how interrupts are held back
 * @hold_usecs: how long to wait for packets after a poll, if the HCA has no
 *	moderation
 * @hold_timer: ends that wait
 * @held: @hold_timer is running
 * @gro_used: GRO may hold packets (NAPI)
 * @wc: scratch of the poll function
 */
struct ipoib_channel {
	struct ipoib_port *port;
	u32 index;
	struct ipoib_cq_list rx_cqs;
	struct ipoib_cq_list tx_cqs;
	u32 rx_share;
	u32 rx_turn;
	u32 vector;
	struct delayed_work cq_work;
	struct napi_struct napi;
	struct ipoib_rxq rxq;
	struct list_head dirty;
	u32 emptied;
	struct page_pool *pool;
	struct page_pool *small;
	struct page_pool *pages;
	struct ipoib_rx_format split;
	struct ipoib_rx_format whole;
	struct llist_head bql;
	struct timer_list refill_timer;
	u32 barriers;
	u8 flush;
	struct completion flushed;
	u32 qps;
	u32 users;
	u16 irqs;
	struct ipoib_count rx;
	u32 sent;
	struct ipoib_adapt adapt;
	struct dim dim;
	u32 hold_usecs;
	struct hrtimer hold_timer;
	bool held;
	bool gro_used;
	struct ib_wc wc[IPOIB_WC_BATCH];
};

void ipoib_channel_kick(struct ipoib_channel *ch);
void ipoib_channel_pause(struct ipoib_channel *ch);
void ipoib_channel_resume(struct ipoib_channel *ch);
void ipoib_channel_barrier(struct ipoib_channel *ch, u32 since);
int ipoib_channel_pool(struct ipoib_channel *ch, struct page_pool **result,
		       u32 page, u32 keep, bool dma);
const struct ipoib_rx_format *
ipoib_channel_format(const struct ipoib_channel *ch);
void ipoib_port_use_len(struct ipoib_port *port, u32 len);
int ipoib_channel_receive(struct ipoib_channel *ch);
struct ib_srq *ipoib_port_create_srq(struct ipoib_port *port,
				     struct ib_srq_init_attr *attr);
bool ipoib_channel_drop_srq(struct ipoib_channel *ch, int error);
struct ipoib_channel *ipoib_channel_attach(struct ipoib_port *port, bool first);
void ipoib_channel_detach(struct ipoib_channel *ch);
int ipoib_channel_fill_rxq(struct ipoib_rxq *rxq);
int ipoib_channel_get(struct ipoib_channel *ch);
void ipoib_channel_put(struct ipoib_channel *ch);
void ipoib_port_set_recvq(struct ipoib_port *port, u32 size);
int ipoib_port_set_moderation(struct ipoib_port *port, u16 frames, u16 usecs,
			      bool adaptive);
void ipoib_channels_silence(struct ipoib_port *port);
void ipoib_channels_destroy(struct ipoib_port *port);
u32 ipoib_port_spread(const struct ipoib_port *port, int most);
u32 ipoib_channels_fit(const struct ipoib_port *port);
int ipoib_channels_create(struct ipoib_port *port, u32 num);

#endif /* IPOIB_CHANNEL_H */
