// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teardown: QPs are drained and reset until the NAPI no longer uses them
 *
 * Stop, restart, new queues, the end of connections and unload all take QPs
 * down here, in four steps.
 *
 *	1. Move the QP to ERR and post a marker behind all requests.  Everything
 *	   that the QP owes is reported before the marker.
 *	2. Wait for the markers, then pass the channels' barrier: the reset may
 *	   purge completions, and with them the buffers of an SRQ.
 *	3. Reset the QP.  If that fails, destroying it returns its buffers.
 *	4. If a QP was late, pass the barrier again: the HCA may have continued
 *	   after the first one.  After the second one neither HCA nor NAPI uses
 *	   the QP any more, and its packets can be retired.
 *
 * Time limit: A QP has one second from the posting of its marker, not from the
 * start of the wait: code that closes many interfaces starts draining all QPs,
 * then waits, for one second in all.  Besides, after an HCA has missed a
 * deadline, no drain of the port waits during the next second.  So closing
 * interfaces one after the other also costs only one wait.  Without any wait
 * the steps are as safe, but completions that the HCA would still have reported
 * are lost.
 *
 * Interrupts: A CQ that several QPs share may be armed for many markers, but
 * raises one interrupt, for the first marker that completes; a poll does not
 * arm it again.  So the waiter schedules the NAPI periodically.
 *
 * The barrier has no time limit, as napi_disable() has none: it waits for this
 * host's own softirq, never for the HCA, and for a bounded number of
 * completions.
 *
 * Locks: the caller excludes others from the QP, by ipoib_ud.lock or
 * ipoib_cm.run.
 */
#include "ipoib_channel.h"
#include "ipoib_drain.h"
#include "ipoib_port.h"
#include "ipoib_qp.h"
#include "ipoib_tx.h"

#define IPOIB_DRAIN_TIMEOUT	HZ
/* Interval at which the NAPI polls the CQs while a drain waits */
#define IPOIB_DRAIN_LOOK	DIV_ROUND_UP(HZ, 50)

/**
 * ipoib_drain_port_init - initialise a port: no deadline was missed yet
 * @port: new port
 */
void ipoib_drain_port_init(struct ipoib_port *port)
{
	port->drain_missed = jiffies - IPOIB_DRAIN_TIMEOUT - 1;
}

/**
 * ipoib_drain_init - initialise a teardown, without QPs
 * @drain: teardown
 */
void ipoib_drain_init(struct ipoib_drain *drain)
{
	INIT_LIST_HEAD(&drain->qps);
	drain->late = false;
}

/* Post the marker and have its completion raise an interrupt. */
static int ipoib_drain_mark(struct ipoib_qp *qp)
{
	struct ipoib_port *port = qp->dev->port;
	struct ib_ud_wr marker = {
		.wr.wr_id = qp->marker,
		.wr.opcode = IB_WR_SEND,
		.wr.send_flags = IB_SEND_SIGNALED,
		.ah = port->marker_ah,
		.remote_qpn = 1,
		.port_num = port->num,
	};
	const struct ib_send_wr *bad;
	int ret;

	ret = ib_post_send(qp->ib, &marker.wr, &bad);
	if (ret)
		return ret;
	if (ib_req_notify_cq(qp->ib->send_cq, IB_CQ_NEXT_COMP |
			     IB_CQ_REPORT_MISSED_EVENTS) > 0)
		ipoib_channel_kick(qp->ch);
	return 0;
}

/**
 * ipoib_drain_begin - start to drain a QP, without waiting
 * @qp: QP whose channel has users; nothing is posted to it any more.  Ignored
 *	if it is draining already, or owes no completions
 *
 * Context: process.
 */
void ipoib_drain_begin(struct ipoib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (qp->draining || !qp->live)
		return;
	qp->draining = true;
	qp->drain_begun = jiffies;
	/* Before it is waited for: a marker that is late must not end this. */
	WRITE_ONCE(qp->marker, (qp->marker + 1) | IPOIB_WR_MARKER);
	reinit_completion(&qp->drained);
	qp->late = ib_modify_qp(qp->ib, &attr, IB_QP_STATE) ||
		   ipoib_drain_mark(qp);
}

/**
 * ipoib_drain_add - add a QP to those that are taken down together
 * @drain: teardown
 * @qp: QP; ignored unless ipoib_drain_begin() has started to drain it
 */
void ipoib_drain_add(struct ipoib_drain *drain, struct ipoib_qp *qp)
{
	if (qp->draining)
		list_add_tail(&qp->drain_entry, &drain->qps);
}

static unsigned long ipoib_drain_end(unsigned long begun)
{
	return begun + IPOIB_DRAIN_TIMEOUT;
}

/* Jiffies left to wait for what was started at @begun. */
static unsigned long ipoib_drain_left(const struct ipoib_port *port,
				      unsigned long begun)
{
	unsigned long now = jiffies, end = ipoib_drain_end(begun);
	unsigned long missed = READ_ONCE(port->drain_missed);

	if (time_in_range(now, missed, missed + IPOIB_DRAIN_TIMEOUT))
		return 0;
	return time_before(now, end) ? end - now : 0;
}

static bool ipoib_drain_await(struct completion *what, unsigned long left)
{
	/* Not even a tick: there may be hundreds to be closed. */
	return left ? wait_for_completion_timeout(what, left) :
		      try_wait_for_completion(what);
}

/* The same for a work completion, which may raise no interrupt. */
static bool ipoib_drain_await_poll(struct ipoib_channel *ch,
				   struct completion *what, unsigned long left)
{
	unsigned long end = jiffies + left;

	while (left) {
		left = min_t(unsigned long, left, IPOIB_DRAIN_LOOK);
		if (wait_for_completion_timeout(what, left))
			return true;
		ipoib_channel_kick(ch);
		left = time_before(jiffies, end) ? end - jiffies : 0;
	}
	return try_wait_for_completion(what);
}

/**
 * ipoib_drain_wait_for - wait for the HCA, until its deadline
 * @ch: channel that reports it
 * @what: completed by the NAPI when the HCA is done
 * @begun: jiffies when it was started
 *
 * Context: process.
 * Return: false if the HCA was late; no drain waits during the next second then
 */
bool ipoib_drain_wait_for(struct ipoib_channel *ch, struct completion *what,
			  unsigned long begun)
{
	unsigned long left = ipoib_drain_left(ch->port, begun);

	if (ipoib_drain_await_poll(ch, what, left))
		return true;
	/* Without time to wait, nothing was learned about the HCA. */
	if (left)
		WRITE_ONCE(ch->port->drain_missed, jiffies);
	return false;
}

/**
 * ipoib_drain_pause - wait a moment before the HCA is asked for something again
 * @port: port
 * @begun: jiffies when it was asked first
 *
 * Context: process.
 * Return: false if it has had as much time as to drain; likewise no drain waits
 *	during the next second
 */
bool ipoib_drain_pause(struct ipoib_port *port, unsigned long begun)
{
	unsigned long left = ipoib_drain_left(port, begun);

	if (!left)
		return false;
	schedule_timeout_uninterruptible(min_t(unsigned long, left,
					       IPOIB_DRAIN_LOOK));
	if (!time_before(jiffies, ipoib_drain_end(begun)))
		WRITE_ONCE(port->drain_missed, jiffies);
	return true;
}

/* Wait until the HCA has reported everything that the QP owes; bounded. */
static void ipoib_drain_wait_qp(struct ipoib_qp *qp)
{
	struct ipoib_port *port = qp->dev->port;

	if (qp->late)
		return;
	if (!ipoib_drain_wait_for(qp->ch, &qp->drained, qp->drain_begun)) {
		qp->late = true;
		/* Don't warn about one that was given no time. */
		if (!time_before(jiffies, ipoib_drain_end(qp->drain_begun)))
			dev_warn_ratelimited(&port->ca->dev,
					     "port %u: QP %#x did not drain\n",
					     port->num, qp->ib->qp_num);
		return;
	}
	if (!qp->last_wqe) {
		qp->late = qp->rx_silent;
		return;
	}
	/* Some HCAs never report this, and are as quick as others. */
	qp->late = !ipoib_drain_await(qp->last_wqe,
				      ipoib_drain_left(port, qp->drain_begun));
	/* Completions between the two are in the CQ now. */
	WRITE_ONCE(qp->drained_at, READ_ONCE(qp->ch->barriers));
}

/*
 * Have the NAPI handle all completions of the QPs in the CQs.  A barrier begun
 * after drained_at is enough, since they were all there; if a QP was late, only
 * one that begins now is.
 */
static void ipoib_drain_barrier(struct ipoib_drain *drain)
{
	struct ipoib_qp *qp;

	list_for_each_entry(qp, &drain->qps, drain_entry)
		if (drain->late)
			WRITE_ONCE(qp->drained_at,
				   READ_ONCE(qp->ch->barriers));
	list_for_each_entry(qp, &drain->qps, drain_entry)
		ipoib_channel_barrier(qp->ch, READ_ONCE(qp->drained_at));
}

/**
 * ipoib_drain_wait - wait until the QPs have drained; bounded, see above
 * @drain: teardown
 *
 * When it returns, the completions that the HCA has reported have been handled,
 * and GRO has passed up their packets.
 *
 * Context: process.
 */
void ipoib_drain_wait(struct ipoib_drain *drain)
{
	struct ipoib_qp *qp;

	list_for_each_entry(qp, &drain->qps, drain_entry) {
		ipoib_drain_wait_qp(qp);
		drain->late |= qp->late;
	}
	ipoib_drain_barrier(drain);
}

/**
 * ipoib_drain_reset - reset QPs; the NAPI no longer uses any of them afterwards
 * @drain: teardown after ipoib_drain_wait(); finished by this
 * @all: also reset those that have drained, since they will be used again
 *
 * A QP that can't be reset is marked ipoib_qp.stuck and has to be destroyed by
 * ipoib_drain_destroy_qp() before its memory is touched.
 *
 * Context: process.
 */
void ipoib_drain_reset(struct ipoib_drain *drain, bool all)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ipoib_qp *qp, *next;

	list_for_each_entry(qp, &drain->qps, drain_entry)
		if (all || qp->late)
			qp->stuck = ib_modify_qp(qp->ib, &attr, IB_QP_STATE);
	if (drain->late)
		ipoib_drain_barrier(drain);
	list_for_each_entry_safe(qp, next, &drain->qps, drain_entry) {
		list_del(&qp->drain_entry);
		qp->draining = false;
		qp->live = false;
	}
}

/**
 * ipoib_drain_purge - take back all packets of a transmit queue
 * @txq: queue whose QP was taken down
 *
 * The NAPI may still find completions of a QP that did not drain, or can't be reset:
 * it is paused meanwhile, and ignores those that it finds afterwards.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_drain_purge(struct ipoib_txq *txq)
{
	struct ipoib_channel *ch = txq->qp.ch;

	if (!txq->qp.late && !txq->qp.stuck) {
		ipoib_txq_purge(txq);
		return;
	}
	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	ipoib_txq_purge(txq);
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
}

/**
 * ipoib_drain_destroy_qp - destroy a QP and the completions it may still report
 * @qp: QP that has never been live, or was taken down; or without verbs object
 *
 * A provider removes the completions of a destroyed QP from its CQ, but not
 * those that a poll has already taken.  After a reset and the barrier behind it
 * there are none; a QP that can't be reset may have some, so the NAPI is paused
 * while it is destroyed.
 *
 * Context: process; takes the port's lock.
 * Return: 0, or -errno and the QP is as before
 */
int ipoib_drain_destroy_qp(struct ipoib_qp *qp)
{
	struct ipoib_port *port;
	int ret;

	if (!qp->ib)
		return 0;
	port = qp->ch->port;
	if (qp->stuck) {
		mutex_lock(&port->lock);
		ipoib_channel_pause(qp->ch);
	}
	ret = ib_destroy_qp(qp->ib);
	if (!ret)
		qp->ib = NULL;
	if (qp->stuck) {
		ipoib_channel_resume(qp->ch);
		mutex_unlock(&port->lock);
	}
	if (!ret)
		qp->stuck = false;
	return ret;
}
