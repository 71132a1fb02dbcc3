// SPDX-License-Identifier: GPL-2.0-only
/*
 * Teardown: QPs are drained, reset and left alone by the NAPI
 *
 * Stop, restart, other queues, the end of connections and unload all take QPs
 * down here, in four steps.
 *
 *	1. To ERR, and a marker behind all requests.  Everything that the QP owes
 *	   is reported before the marker is.
 *	2. Wait for the markers, then pass the channels' barrier: an HCA may
 *	   purge completions with the reset, and the buffers of an SRQ with them.
 *	3. To RESET.  If that fails, destroying the QP returns its buffers.
 *	4. If a QP was late, pass the barrier again.  The HCA may have gone on
 *	   after the first one; behind the second one neither HCA nor NAPI knows
 *	   anything of the QP, and its packets can be retired.
 *
 * The time limit.  A QP has a second from its marker on, not from when somebody
 * waits for it: who closes many interfaces begins with all QPs, then waits, and
 * has waited a second in all.  Besides, when an HCA has missed a deadline, no
 * drain of the port waits for the next second.  So closing interfaces one after
 * the other costs one wait, too, although nobody knows of the others.  Without
 * any wait the steps are as safe; but completions that the HCA would still have
 * made are lost.
 *
 * Interrupts.  A CQ that several QPs share may be armed for many markers, and
 * raises one interrupt: for the first of them that completes.  A poll does not
 * arm it again.  So who waits has the NAPI look again and again.
 *
 * The barrier has no time limit, as napi_disable() has none: it waits for this
 * host's own softirq, never for the HCA, and for a bounded number of
 * completions.
 *
 * Locks: the caller excludes others from the QP, by ipoib_ud.lock or
 * ipoib_cm.run.
 */
#include "ipoib.h"
#include "ipoib_drain.h"

#define IPOIB_DRAIN_TIMEOUT	HZ
/* While somebody waits, the NAPI looks at the CQs so often. */
#define IPOIB_DRAIN_LOOK	DIV_ROUND_UP(HZ, 50)

/**
 * ipoib_drain_port_init - no deadline has been missed yet
 * @port: new port
 */
void ipoib_drain_port_init(struct ipoib_port *port)
{
	port->drain_missed = jiffies - IPOIB_DRAIN_TIMEOUT - 1;
}

/**
 * ipoib_drain_init - nothing to be taken down yet
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
		.wr.wr_id = IPOIB_WR_MARKER,
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
 * ipoib_drain_begin - have a QP come to its end, and don't wait for it
 * @qp: QP whose channel has users; nothing is posted to it any more.  Nothing
 *	is done if it was begun before, or has nothing to report
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
	reinit_completion(&qp->drained);
	qp->late = ib_modify_qp(qp->ib, &attr, IB_QP_STATE) ||
		   ipoib_drain_mark(qp);
}

/**
 * ipoib_drain_add - a QP is one of those that are taken down together
 * @drain: teardown
 * @qp: QP; ignored unless ipoib_drain_begin() has begun with it
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

/* How long one may wait for what was @begun then, in jiffies. */
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

/* The same for what a completion tells, whose interrupt need not come. */
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
 * ipoib_drain_wait_for - wait for the HCA, as long as it has time
 * @ch: channel that reports it
 * @what: completed by the NAPI when the HCA has done what it should
 * @begun: jiffies when it should have begun with it
 *
 * Context: process.
 * Return: false if it has not done it; then nobody waits for the next second
 */
bool ipoib_drain_wait_for(struct ipoib_channel *ch, struct completion *what,
			  unsigned long begun)
{
	unsigned long left = ipoib_drain_left(ch->port, begun);

	if (ipoib_drain_await_poll(ch, what, left))
		return true;
	/* Who had no time to wait has learned nothing of the HCA. */
	if (left)
		WRITE_ONCE(ch->port->drain_missed, jiffies);
	return false;
}

/* Wait until the HCA has reported everything that the QP owes; bounded. */
static void ipoib_drain_wait_qp(struct ipoib_qp *qp)
{
	struct ipoib_port *port = qp->dev->port;

	if (qp->late)
		return;
	if (!ipoib_drain_wait_for(qp->ch, &qp->drained, qp->drain_begun)) {
		qp->late = true;
		/* Of one that was given no time there is nothing to say. */
		if (!time_before(jiffies, ipoib_drain_end(qp->drain_begun)))
			dev_warn_ratelimited(&port->ca->dev,
					     "port %u: QP %#x did not drain\n",
					     port->num, qp->ib->qp_num);
		return;
	}
	if (!qp->last_wqe) {
		/* Nothing tells the end of a receive queue of its own. */
		qp->late = qp->kind == IPOIB_QP_RX;
		return;
	}
	/* Some HCAs never tell, and are as quick as others. */
	qp->late = !ipoib_drain_await(qp->last_wqe,
				      ipoib_drain_left(port, qp->drain_begun));
	/* What came between the two is in the CQ now. */
	WRITE_ONCE(qp->drained_at, READ_ONCE(qp->ch->barriers));
}

/*
 * Have the NAPI handle whatever the CQs hold of the QPs.  When it is known
 * since when that is all there, a barrier begun after that will do; of the late
 * ones it is known now.
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
 * ipoib_drain_wait - wait for the QPs' end; bounded, see above
 * @drain: teardown
 *
 * When it returns, the completions that the HCA has reported have been handled,
 * and GRO has passed on what they brought.
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
 * ipoib_drain_reset - reset QPs; none of them is known to the NAPI any more
 * @drain: teardown that was waited for; it is over
 * @all: also those that have drained, since they will be used again
 *
 * What can't be reset is marked ipoib_qp.stuck and has to be destroyed by
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
 * ipoib_drain_destroy_qp - destroy a QP, and with it what it may still report
 * @qp: QP that has never been live, or was taken down; or none
 *
 * A provider takes the completions of a destroyed QP out of its CQ, but not
 * those that a poll has in hand.  After a reset and the barrier behind it there
 * are none; of a QP that can't be reset there may be, so the NAPI has to stand
 * still while it goes.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_drain_destroy_qp(struct ipoib_qp *qp)
{
	struct mutex *lock = &qp->dev->port->lock;

	if (!qp->ib)
		return;
	if (qp->stuck) {
		mutex_lock(lock);
		ipoib_channel_pause(qp->ch);
	}
	ib_destroy_qp(qp->ib);
	qp->ib = NULL;
	if (qp->stuck) {
		ipoib_channel_resume(qp->ch);
		mutex_unlock(lock);
	}
	qp->stuck = false;
}
