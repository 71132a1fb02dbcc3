// SPDX-License-Identifier: GPL-2.0-only
/*
 * NAPI of a channel: completions of sends and receives, the barrier, DIM
 *
 * Lock: none; one poll runs at a time.
 */
#include <net/gro.h>

#include "ipoib_channel.h"
#include "ipoib_cq.h"
#include "ipoib_drain.h"
#include "ipoib_poll.h"
#include "ipoib_port.h"
#include "ipoib_qp.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_ADAPT_PACKETS	64	/* received between two checks */
/* Most batches of send completions that a poll takes from a CQ */
#define IPOIB_REAP_BATCHES	8
#define IPOIB_POLL_AGAIN	NSEC_PER_MSEC	/* if a CQ can't be armed */

/* ---- receives ----------------------------------------------------------- */

static void ipoib_rx_complete(struct ipoib_channel *ch, const struct ib_wc *wc,
			      struct ipoib_rx_batch *batch)
{
	struct ipoib_qp *qp = wc->qp->qp_context;
	u32 idx = wc->wr_id & IPOIB_RX_INDEX_MASK;
	struct ipoib_rxq *rxq = qp->rxq;
	struct ipoib_rx_slot *slot;

	/*
	 * Anything that is not outstanding is left over from a rebuilt QP, or
	 * was reported before: the slot may have other buffers by now.
	 */
	if (unlikely(!rxq || idx >= rxq->size))
		return;
	slot = &rxq->slots[idx];
	if (unlikely(!slot->posted ||
		     slot->turn != wc->wr_id >> IPOIB_RX_INDEX_BITS))
		return;
	slot->posted = false;
	rxq->taken++;

	qp->ops->rx(ch, qp, slot, wc, batch);
	rxq->free[rxq->nfree++] = idx;
	if (list_empty(&rxq->dirty))
		list_add_tail(&rxq->dirty, &ch->dirty);
	if (ipoib_rxq_due(rxq))
		ipoib_rxq_refill(rxq);
}

/* @n completions were taken from a CQ; @emptied: there were no more. */
static void ipoib_cq_count(struct ipoib_cq *cq, int n, bool emptied)
{
	if (unlikely(cq->behind > 0))
		cq->behind = emptied ? 0 : cq->behind - n;
}

/* The budget was used up before a CQ's turn: the next poll starts with it. */
static noinline void ipoib_rx_poll_from(struct ipoib_channel *ch,
					const struct ipoib_cq *next)
{
	struct ipoib_cq *cq;
	u32 turn = 0;

	list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry) {
		if (cq == next)
			break;
		turn++;
	}
	ch->rx_turn = turn;
}

/* Receive up to @budget packets, a share from each CQ in turn. */
static int ipoib_rx_poll(struct ipoib_channel *ch, int budget)
{
	int share = READ_ONCE(ch->rx_share);
	struct ipoib_rx_batch batch = { .list = LIST_HEAD_INIT(batch.list) };
	int i, n, want, done = 0;
	u32 skip = ch->rx_turn;
	struct ipoib_cq *cq;
	bool empty = false;

	ch->rx_turn = 0;
	for (; done < budget && !empty; skip = 0) {
		/* CQs that are skipped have not been polled. */
		empty = !skip;
		list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry) {
			if (unlikely(skip)) {
				skip--;
				continue;
			}
			want = min(budget - done, share);
			if (unlikely(!want)) {
				empty = false;
				ipoib_rx_poll_from(ch, cq);
				break;
			}
			n = ib_poll_cq(cq->ib, want, ch->wc);
			empty &= n < want;
			ipoib_cq_count(cq, n, n < want);
			batch.lone = n == 1 && want > 1;
			for (i = 0; i < n; i++)
				ipoib_rx_complete(ch, &ch->wc[i], &batch);
			done += max(n, 0);
		}
	}
	ipoib_rx_batch_end(ch, &batch);
	return done;
}

/* ---- sends -------------------------------------------------------------- */

static void ipoib_tx_batch_end(struct ipoib_tx_batch *batch, int budget)
{
	if (batch->txq)
		ipoib_txq_retire(batch->txq, batch->end, budget);
	batch->txq = NULL;
}

static void ipoib_tx_complete(const struct ib_wc *wc,
			      struct ipoib_tx_batch *batch, int budget)
{
	struct ipoib_qp *qp = wc->qp->qp_context;
	struct ipoib_txq *txq = qp->txq;

	if (batch->txq != txq || unlikely(wc->wr_id & IPOIB_WR_MARKER))
		ipoib_tx_batch_end(batch, budget);
	if (unlikely(wc->wr_id & IPOIB_WR_MARKER)) {
		/* That of an earlier teardown comes too late, or again. */
		if (wc->wr_id != READ_ONCE(qp->marker))
			return;
		WRITE_ONCE(qp->drained_at, READ_ONCE(qp->ch->barriers));
		complete(&qp->drained);
		return;
	}
	qp->ops->tx(qp, wc, batch, budget);
}

/* Reap send completions of a CQ; *@more is set if there may be others. */
static void ipoib_tx_reap_cq(struct ipoib_channel *ch, struct ipoib_cq *cq,
			     int budget, bool *more)
{
	struct ipoib_tx_batch batch = { };
	int i, n, batches = 0;

	/*
	 * Cleared before the CQ is polled: a sender that posts after this and
	 * still reads it set will get an interrupt, or the timer.
	 */
	WRITE_ONCE(cq->armed, false);
	do {
		n = ib_poll_cq(cq->ib, IPOIB_WC_BATCH, ch->wc);
		for (i = 0; i < n; i++)
			ipoib_tx_complete(&ch->wc[i], &batch, budget);
		/* Before the poll goes on: senders may be waiting for room. */
		ipoib_tx_batch_end(&batch, budget);
		ipoib_cq_count(cq, n, n < IPOIB_WC_BATCH);
		if (n < IPOIB_WC_BATCH)
			return;
	} while (++batches < IPOIB_REAP_BATCHES);
	*more = true;
}

static void ipoib_tx_reap(struct ipoib_channel *ch, int budget, bool *more)
{
	struct ipoib_txq *txq, *next;
	struct llist_node *handed;
	struct ipoib_cq *cq;

	list_for_each_entry_rcu(cq, &ch->tx_cqs.list, entry)
		ipoib_tx_reap_cq(ch, cq, budget, more);
	if (!llist_empty(&ch->bql)) {
		handed = llist_del_all(&ch->bql);
		llist_for_each_entry_safe(txq, next, handed, bql)
			ipoib_txq_complete_handed(txq);
	}
}

/* ---- the end of a poll -------------------------------------------------- */

/*
 * Before the CQs are polled: complete a barrier, or begin one if requested.
 * Completions that were polled earlier do not count for it.
 */
static noinline void ipoib_poll_news(struct ipoib_channel *ch)
{
	struct ipoib_cq *cq;

	/* Pairs with smp_store_release() in ipoib_channel_barrier() */
	switch (smp_load_acquire(&ch->flush)) {
	case IPOIB_FLUSH_DONE:
		/* The core passed up what GRO held when the last poll ended. */
		WRITE_ONCE(ch->flush, IPOIB_FLUSH_NONE);
		complete(&ch->flushed);
		break;
	case IPOIB_FLUSH_ASKED:
		list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry)
			cq->behind = cq->ib->cqe;
		list_for_each_entry_rcu(cq, &ch->tx_cqs.list, entry)
			cq->behind = cq->ib->cqe;
		WRITE_ONCE(ch->flush, IPOIB_FLUSH_BEGUN);
		break;
	}
}

static bool ipoib_cqs_behind(const struct ipoib_cq_list *cqs)
{
	struct ipoib_cq *cq;

	list_for_each_entry_rcu(cq, &cqs->list, entry)
		if (cq->behind > 0)
			return true;
	return false;
}

/* Flush GRO once each CQ is emptied past what it held as the barrier began. */
static void ipoib_poll_flush(struct ipoib_channel *ch)
{
	if (ipoib_cqs_behind(&ch->rx_cqs) || ipoib_cqs_behind(&ch->tx_cqs))
		return;
	napi_gro_flush(&ch->napi, false);
	WRITE_ONCE(ch->flush, IPOIB_FLUSH_DONE);
}

/* The HCA refuses to raise an interrupt, without which nobody would poll. */
static noinline void ipoib_poll_later(struct ipoib_channel *ch)
{
	WRITE_ONCE(ch->held, true);
	hrtimer_start(&ch->hold_timer, ns_to_ktime(IPOIB_POLL_AGAIN),
		      HRTIMER_MODE_REL_PINNED);
}

/* Request the next interrupt; true if completions came before. */
static bool ipoib_rx_arm(struct ipoib_channel *ch)
{
	struct ipoib_cq *cq;
	bool missed = false;
	int ret;

	list_for_each_entry_rcu(cq, &ch->rx_cqs.list, entry) {
		ret = ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP |
				       IB_CQ_REPORT_MISSED_EVENTS);
		if (unlikely(ret < 0))
			ipoib_poll_later(ch);
		missed |= ret > 0;
	}
	return missed;
}

/*
 * For HCAs without moderation: while packets come in, poll again after the time
 * for which interrupts should be held back, instead of arming the CQs.  Empty
 * polls that sends cause meanwhile do not end that.
 */
static bool ipoib_rx_hold(struct ipoib_channel *ch, int done)
{
	u32 usecs = READ_ONCE(ch->hold_usecs);

	if (likely(!usecs) || unlikely(READ_ONCE(ch->flush)))
		return false;
	if (!done)
		return READ_ONCE(ch->held);
	WRITE_ONCE(ch->held, true);
	hrtimer_start(&ch->hold_timer, ns_to_ktime(usecs * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_PINNED);
	return true;
}

/* End the poll, unless there is more to do; GRO passes up what it holds. */
static bool ipoib_poll_complete(struct ipoib_channel *ch, int done)
{
	bool used = ch->gro_used;

	/* Before another CPU may poll */
	if (!READ_ONCE(ch->napi.gro_flush_timeout))
		ch->gro_used = false;
	if (likely(napi_complete_done(&ch->napi, done)))
		return true;
	/* Another CPU may poll already: never clear what it has set. */
	if (used)
		ch->gro_used = true;
	return false;
}

static u32 ipoib_port_sent(const struct ipoib_port *port)
{
	u32 i, sent = 0;

	for (i = 0; i < port->num_channels; i++)
		sent += READ_ONCE(port->channels[i]->sent);
	return sent;
}

/*
 * True if interrupts should be held back: only if packets come in one by one
 * and are not answered, since peers would have to wait longer for answers.
 */
static bool ipoib_channel_flooded(struct ipoib_channel *ch)
{
	struct ipoib_adapt *was = &ch->adapt;
	struct ipoib_adapt now = {
		.received = u64_stats_read(&ch->rx.packets),
		.sent = ipoib_port_sent(ch->port),
		.irqs = READ_ONCE(ch->irqs),
	};
	u32 received = now.received - was->received;
	bool lone = (u16)(now.irqs - was->irqs) > received / 4;
	bool answered = now.sent - was->sent > received / 8;

	*was = now;
	return !answered && (lone || ch->dim.profile_ix);
}

/* Hold interrupts back as DIM finds best, or not at all. */
static noinline void ipoib_channel_adapt(struct ipoib_channel *ch)
{
	struct dim_sample sample = { };

	if (ipoib_channel_flooded(ch)) {
		dim_update_sample(READ_ONCE(ch->irqs),
				  u64_stats_read(&ch->rx.packets),
				  u64_stats_read(&ch->rx.bytes), &sample);
		net_dim(&ch->dim, &sample);
	} else if (ch->dim.profile_ix) {
		ch->dim.profile_ix = 0;
		ch->dim.tune_state = DIM_PARKING_ON_TOP;
		ch->dim.state = DIM_APPLY_NEW_PROFILE;
		schedule_work(&ch->dim.work);
	}
}

static bool ipoib_channel_may_adapt(const struct ipoib_channel *ch)
{
	u32 received = u64_stats_read(&ch->rx.packets);

	return READ_ONCE(ch->port->rx_adaptive) &&
	       received - ch->adapt.received >= IPOIB_ADAPT_PACKETS;
}

/* DIM has chosen another profile. */
static void ipoib_channel_dim_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct ipoib_channel *ch = container_of(dim, struct ipoib_channel, dim);
	struct ipoib_port *port = ch->port;
	struct ipoib_cq *cq;

	mutex_lock(&port->lock);
	if (port->rx_adaptive)
		list_for_each_entry(cq, &ch->rx_cqs.list, entry)
			ipoib_cq_moderate(ch, cq);
	mutex_unlock(&port->lock);
	dim->state = DIM_START_MEASURE;
}

/*
 * The NAPI of a channel.  @budget limits receives.  Send completions are
 * limited for each CQ; if some are left, the poll is repeated.
 */
static int ipoib_poll(struct napi_struct *napi, int budget)
{
	struct ipoib_channel *ch =
		container_of(napi, struct ipoib_channel, napi);
	bool more = false;
	int done;

	if (unlikely(READ_ONCE(ch->flush)))
		ipoib_poll_news(ch);

	ipoib_tx_reap(ch, budget, &more);
	if (unlikely(!budget))
		return 0;
	done = ipoib_rx_poll(ch, budget);
	if (unlikely(ch->rxq.used < READ_ONCE(ch->rxq.want)))
		ipoib_rxq_grow(&ch->rxq);
	if (!list_empty(&ch->dirty))
		ipoib_rx_refill_dirty(ch);
	ch->emptied += done < budget;
	if (unlikely(READ_ONCE(ch->flush) == IPOIB_FLUSH_BEGUN))
		ipoib_poll_flush(ch);

	if (unlikely(more))
		return budget;
	if (done < budget && ipoib_poll_complete(ch, done)) {
		if (unlikely(ipoib_channel_may_adapt(ch)))
			ipoib_channel_adapt(ch);
		if (!ipoib_rx_hold(ch, done) &&
		    (ipoib_rx_arm(ch) || unlikely(READ_ONCE(ch->flush))))
			napi_schedule(napi);
	} else if (done < budget && unlikely(READ_ONCE(ch->flush))) {
		/* The stack polls again after gro_flush_timeout: too late. */
		napi_schedule(napi);
	}
	return done;
}

/* ---- setup -------------------------------------------------------------- */

/* Poll for packets that came meanwhile, as an interrupt would. */
static enum hrtimer_restart ipoib_channel_held(struct hrtimer *timer)
{
	struct ipoib_channel *ch =
		container_of(timer, struct ipoib_channel, hold_timer);

	WRITE_ONCE(ch->irqs, ch->irqs + 1);
	/* Before the poll, which arms the CQs if nothing came */
	WRITE_ONCE(ch->held, false);
	napi_schedule(&ch->napi);
	return HRTIMER_NORESTART;
}

/**
 * ipoib_poll_init - prepare the NAPI of a new channel
 * @ch: channel, zeroed but for its port
 */
void ipoib_poll_init(struct ipoib_channel *ch)
{
	INIT_WORK(&ch->dim.work, ipoib_channel_dim_work);
	ch->dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
	hrtimer_setup(&ch->hold_timer, ipoib_channel_held, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED);
	netif_napi_add(ch->port->parent, &ch->napi, ipoib_poll);
}
