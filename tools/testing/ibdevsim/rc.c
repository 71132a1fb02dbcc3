// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: requesters of reliable connections
 *
 * A message is copied from the sender's buffers to the receiver's, under the
 * sender's sq.lock and the receiver's rcv->lock, and completes at once on both
 * sides: no acknowledgment is ever outstanding.  A long one is copied segment by
 * segment; the locks are dropped in between, and the QP's work item goes on.  When
 * the receiver does not answer (no such QP, not ready, link down, packet lost) or
 * has no receive posted, the request becomes the first of the send queue and a
 * timer decides when it is tried again: ACK timeout and retry count, or RNR NAK
 * delay and RNR retry count, as in IBA vol 1, 9.7 and 9.9.
 *
 * What is lost is lost on its way to the responder, so nothing is executed twice.
 */
#include <linux/random.h>

#include "addr.h"
#include "fault.h"
#include "mr.h"
#include "rc.h"
#include "rcmsg.h"
#include "rcresp.h"
#include "rcv.h"
#include "switch.h"

/* Pauses of a user's request after RNR NAKs: the first one, and the longest. */
#define IBDS_RNR_FIRST_NS	(100 * NSEC_PER_USEC)
#define IBDS_RNR_LAST_NS	(500 * NSEC_PER_MSEC)

/* Timeout for a QP without one, so that it still retries. */
#define IBDS_RC_NO_TIMEOUT_NS	(500 * NSEC_PER_MSEC)

/* ---- timers ------------------------------------------------------------- */

/**
 * ibds_rc_timer - let the first request of a send queue be tried again
 * @timer: of the QP
 *
 * Return: %HRTIMER_NORESTART.
 */
enum hrtimer_restart ibds_rc_timer(struct hrtimer *timer)
{
	struct ibds_qp *qp = container_of(timer, struct ibds_qp, timer);

	WRITE_ONCE(qp->sq.waiting, false);
	ibds_qp_ask(qp, IBDS_TODO_RUN);
	return HRTIMER_NORESTART;
}

static enum ib_wc_status ibds_rc_wait(struct ibds_qp *qp, u64 ns)
{
	qp->sq.waiting = true;
	hrtimer_start(&qp->timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
	return IBDS_WAIT;
}

/* Encoded RNR NAK timer to nanoseconds; IBA vol 1, table 45. */
static u64 ibds_rnr_ns(u8 code)
{
	u32 n = code & 0x1f ?: 32;
	u32 units;

	if (n == 1)
		units = 1;
	else if (n & 1)
		units = 3 << ((n - 3) / 2);
	else
		units = 1 << (n / 2);
	return units * 10ULL * NSEC_PER_USEC;
}

/* Local ACK Timeout to nanoseconds; IBA vol 1, 9.7.6.1.3. */
static u64 ibds_ack_ns(u8 code)
{
	return code ? 4096ULL << code : IBDS_RC_NO_TIMEOUT_NS;
}

/* No answer: retry after the timeout, or give up. */
static enum ib_wc_status ibds_rc_timeout(struct ibds_qp *qp)
{
	struct ibds_sq *sq = &qp->sq;

	if (!qp->attr.timeout)
		;
	else if (!sq->retries)
		sq->give_up = true;
	else
		sq->retries--;
	if (!sq->give_up)
		ibds_count(qp->port, rc_retry);
	return ibds_rc_wait(qp, ibds_ack_ns(qp->attr.timeout));
}

/*
 * User space could have the timers of all its QPs fire all the time, for ever.
 * So each pause is longer than the one before, by an eighth: a request is late by
 * about an eighth of the time that its peer was not ready.
 */
static u64 ibds_rnr_patience(struct ibds_qp *qp, u64 ns)
{
	struct ibds_sq *sq = &qp->sq;
	u32 pause = sq->rnr_pause;

	if (!qp->user)
		return ns;
	pause += max_t(u32, pause / 8, IBDS_RNR_FIRST_NS);
	sq->rnr_pause = min_t(u32, pause, IBDS_RNR_LAST_NS);
	return max_t(u64, ns, sq->rnr_pause);
}

static enum ib_wc_status ibds_rc_not_ready(struct ibds_qp *qp, u8 timer)
{
	struct ibds_sq *sq = &qp->sq;

	/* 7: no limit. */
	if (qp->attr.rnr_retry != 7 && !sq->rnr_retries--) {
		ibds_count(qp->port, rc_retry_exceeded);
		return IB_WC_RNR_RETRY_EXC_ERR;
	}
	return ibds_rc_wait(qp, ibds_rnr_patience(qp, ibds_rnr_ns(timer)));
}

/* The first request is done: reset the retry counters. */
static void ibds_rc_fresh(struct ibds_qp *qp)
{
	qp->sq.retries = qp->attr.retry_cnt;
	qp->sq.rnr_retries = qp->attr.rnr_retry;
	qp->sq.late = false;
	qp->sq.give_up = false;
	qp->sq.rnr_pause = 0;
}

/* ---- sending ------------------------------------------------------------ */

/* True if a fault loses one of the message's packets. */
static bool ibds_rc_lost(const struct ibds_msg *msg, struct ibds_port *to)
{
	struct ibds_port *from = msg->qp->port;
	bool lost = false;
	u32 i;

	for (i = 0; i < max(msg->packets, msg->replies); i++) {
		lost |= ibds_fault_lose(from);
		if (to != from)
			lost |= ibds_fault_lose(to);
	}
	if (lost)
		ibds_count(from, drop_fault);
	return lost;
}

/* Microseconds of delay by the faults of one end of the path. */
static u64 ibds_rc_delay(const struct ibds_port *port)
{
	u32 jitter = READ_ONCE(port->faults.jitter_us);
	u64 us = READ_ONCE(port->faults.delay_us);

	return us + (jitter ? get_random_u32_below(jitter) : 0);
}

/*
 * Apply the faults of both ends.  Delay is per message.  When packets of a long
 * message are lost, later ones make the responder ask for them at once, so that
 * there is no timeout; each time costs a retry.
 *
 * Return: IB_WC_SUCCESS when the message can be sent now.
 */
static noinline enum ib_wc_status ibds_rc_fault(const struct ibds_msg *msg,
						struct ibds_port *to)
{
	struct ibds_qp *qp = msg->qp;
	struct ibds_port *from = qp->port;
	struct ibds_sq *sq = &qp->sq;
	u64 us;

	if (ibds_post_fails(from, &from->faults.send_error) ||
	    ibds_post_fails(from, &from->faults.rc_send_error))
		return IB_WC_GENERAL_ERR;
	us = ibds_rc_delay(from) + (to != from ? ibds_rc_delay(to) : 0);
	if (us && !sq->late) {
		sq->late = true;
		ibds_count(to, delayed);
		return ibds_rc_wait(qp, us * NSEC_PER_USEC);
	}
	while (ibds_rc_lost(msg, to)) {
		if (max(msg->packets, msg->replies) < 2 || !sq->retries)
			return ibds_rc_timeout(qp);
		sq->retries--;
		ibds_count(from, rc_retry);
	}
	return IB_WC_SUCCESS;
}

/* Destination port of a message; NULL if it is lost on the way, and counted. */
static struct ibds_port *ibds_rc_route(const struct ibds_msg *msg)
{
	struct ibds_qp *qp = msg->qp;
	struct ibds_port *port = qp->port;
	struct ibds_port *to;

	if (unlikely(!(msg->pkey & IBDS_PKEY_BASE))) {
		ibds_count(port, drop_pkey);
		return NULL;
	}
	to = ibds_route_hint(port, qp->av.dlid, &qp->av.hint);
	if (unlikely(!to)) {
		if (READ_ONCE(port->state) != IB_PORT_ACTIVE)
			ibds_count(port, drop_port_down);
		else
			ibds_count(port, drop_no_route);
		return NULL;
	}
	if (unlikely(min(msg->len, 1U << qp->mtu_shift) >
		     READ_ONCE(to->mtu_active))) {
		ibds_count(to, drop_mtu);
		return NULL;
	}
	if (unlikely(qp->av.grh) && !ibds_port_has_gid(to, &qp->av.dgid)) {
		ibds_count(to, drop_gid);
		return NULL;
	}
	return to;
}

static enum ibds_rc_answer ibds_rc_transmit(const struct ibds_msg *msg,
					    struct ibds_port *to, u8 *rnr_timer)
{
	struct ibds_rcv *rcv;

	if (ibds_wedged(to, false)) {
		ibds_count(to, drop_wedged);
		return IBDS_RC_NONE;
	}
	rcv = ibds_rcv_find(to->dev, msg->qp->remote_qpn);
	if (unlikely(!rcv)) {
		ibds_count(to, drop_no_qp);
		return IBDS_RC_NONE;
	}
	return ibds_resp_deliver(to, rcv, msg, rnr_timer);
}

static enum ib_wc_status ibds_rc_outcome(struct ibds_qp *qp,
					 enum ibds_rc_answer answer,
					 u8 rnr_timer)
{
	switch (answer) {
	case IBDS_RC_NONE:
		return ibds_rc_timeout(qp);
	case IBDS_RC_RNR:
		return ibds_rc_not_ready(qp, rnr_timer);
	case IBDS_RC_INVALID:
		return IB_WC_REM_INV_REQ_ERR;
	case IBDS_RC_ACCESS:
		return IB_WC_REM_ACCESS_ERR;
	case IBDS_RC_OP_ERROR:
		return IB_WC_REM_OP_ERR;
	case IBDS_RC_LOCAL:
		ibds_count(qp->port, bad_lkey);
		return IB_WC_LOC_PROT_ERR;
	default:
		return IB_WC_SUCCESS;
	}
}

static __always_inline enum ib_wc_status
ibds_rc_message(const struct ibds_msg *msg)
{
	struct ibds_qp *qp = msg->qp;
	struct ibds_port *port = qp->port;
	enum ibds_rc_answer answer;
	enum ib_wc_status status;
	struct ibds_port *to;
	u8 rnr_timer = 0;

	to = ibds_rc_route(msg);
	if (unlikely(!to))
		return ibds_rc_timeout(qp);
	if (unlikely(READ_ONCE(port->faults.armed) ||
		     READ_ONCE(to->faults.armed))) {
		status = ibds_rc_fault(msg, to);
		if (status != IB_WC_SUCCESS)
			return status;
	}
	ibds_count_add(port, tx_packets, msg->packets);
	ibds_count_add(port, tx_rc_packets, msg->packets);
	if (likely(!msg->replies))
		ibds_count_add(port, tx_bytes, msg->len);
	if (unlikely(qp->av.grh))
		ibds_count_add(port, tx_grh, msg->packets);
	if (unlikely(READ_ONCE(port->mirror)))
		ibds_msg_mirror(to, msg, IBDS_LATER_MIRROR);
	answer = ibds_rc_transmit(msg, to, &rnr_timer);
	if (unlikely(answer != IBDS_RC_ACK))
		return ibds_rc_outcome(qp, answer, rnr_timer);
	if (unlikely(READ_ONCE(to->mirror)) && !msg->replies)
		ibds_msg_mirror(to, msg, IBDS_LATER_MIRROR_RX);
	return IB_WC_SUCCESS;
}

/* ---- requests ----------------------------------------------------------- */

/* Describe what the request's segment needs beside @off and @len. */
static void ibds_rc_describe(struct ibds_msg *msg)
{
	const struct ib_send_wr *wr = msg->wr;
	struct ibds_qp *qp = msg->qp;
	u32 packets = DIV_ROUND_UP(msg->len, 1U << qp->mtu_shift);

	msg->packets = max(packets, 1U);
	msg->slid = READ_ONCE(qp->port->lid) + qp->av.path_bits;
	msg->pkey = READ_ONCE(qp->port->pkeys[qp->pkey_index]);
	msg->mapped = !(wr->send_flags & IB_SEND_INLINE);
	msg->src.sge = wr->sg_list;
	if (wr->opcode == IB_WR_RDMA_READ ||
	    wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD) {
		/* One request asks for all of it. */
		msg->replies = msg->packets;
		msg->packets = !msg->off;
	}
}

static u64 ibds_rc_total(const struct ib_send_wr *wr)
{
	if (wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IB_WR_ATOMIC_FETCH_AND_ADD)
		return sizeof(u64);
	return ibds_wr_length(wr);
}

/* Execute the next segment of a request. */
static enum ib_wc_status ibds_rc_segment(struct ibds_qp *qp,
					 const struct ib_send_wr *wr,
					 struct list_head *later)
{
	u64 total = ibds_rc_total(wr);
	struct ibds_sq *sq = &qp->sq;
	enum ib_wc_status status;
	struct ibds_pos pos;
	struct ibds_msg msg = {
		.qp = qp,
		.wr = wr,
		.later = later,
		.total = total,
		.off = sq->done,
		.len = min_t(u64, total - sq->done, IBDS_SEGMENT),
	};

	if (total > IBDS_MAX_MSG || WARN_ON_ONCE(sq->done > total))
		return IB_WC_LOC_LEN_ERR;
	ibds_rc_describe(&msg);
	if (msg.replies && !qp->attr.max_rd_atomic)
		return IB_WC_LOC_QP_OP_ERR;
	if (sq->give_up) {
		ibds_count(qp->port, rc_retry_exceeded);
		return IB_WC_RETRY_EXC_ERR;
	}
	/* An HCA finds its own errors before it sends. */
	if (!ibds_msg_get(&msg, &pos, msg.replies ? IB_ACCESS_LOCAL_WRITE : 0))
		return ibds_rc_outcome(qp, IBDS_RC_LOCAL, 0);
	ibds_msg_unget(&msg);
	status = ibds_rc_message(&msg);
	if (status != IB_WC_SUCCESS)
		return status;
	sq->psn += msg.replies ?: msg.packets;
	ibds_rc_fresh(qp);
	if (ibds_msg_last(&msg))
		return IB_WC_SUCCESS;
	/* Delay is per message. */
	sq->late = true;
	sq->done += msg.len;
	ibds_qp_ask(qp, IBDS_TODO_RUN);
	return IBDS_WAIT;
}

/* Requests that are not one segment of the kernel's memory to be sent. */
static noinline enum ib_wc_status ibds_rc_other(struct ibds_qp *qp,
						const struct ib_send_wr *wr,
						struct list_head *later)
{
	struct ibds_dev *dev = to_ibds_dev(qp->ib.device);
	enum ib_wc_status status;
	bool ok;

	switch (wr->opcode) {
	case IB_WR_LOCAL_INV:
		ok = ibds_mr_invalidate(dev, qp->ib.pd, wr->ex.invalidate_rkey);
		return ok ? IB_WC_SUCCESS : IB_WC_MW_BIND_ERR;
	case IB_WR_REG_MR:
		ok = ibds_mr_register(dev, qp->ib.pd, reg_wr(wr));
		return ok ? IB_WC_SUCCESS : IB_WC_MW_BIND_ERR;
	default:
		status = ibds_rc_segment(qp, wr, later);
		if (status != IBDS_WAIT)
			qp->sq.done = 0;
		return status;
	}
}

/**
 * ibds_rc_send - execute a request of an RC QP, or its next segment
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: list for packets for mirrors and reports
 *
 * Return: completion status, or %IBDS_WAIT when there is more to do, later.
 */
enum ib_wc_status ibds_rc_send(struct ibds_qp *qp, const struct ib_send_wr *wr,
			       struct list_head *later)
{
	struct ibds_port *port = qp->port;
	s64 len = ibds_send_length(qp, wr);
	u64 mtu = 1ULL << qp->mtu_shift;
	enum ib_wc_status status;
	struct ibds_msg msg = {
		.qp = qp,
		.wr = wr,
		.later = later,
		.src.sge = wr->sg_list,
		.src.phys = qp->phys && !(wr->send_flags & IB_SEND_INLINE),
		.total = len,
		.len = len,
		.packets = (len + mtu - 1) >> qp->mtu_shift ?: 1,
		.slid = READ_ONCE(port->lid) + qp->av.path_bits,
		.pkey = READ_ONCE(port->pkeys[qp->pkey_index]),
	};

	if (unlikely((u64)len > IBDS_SEGMENT ||
		     (wr->opcode | 1) != IB_WR_SEND_WITH_IMM))
		return ibds_rc_other(qp, wr, later);
	if (unlikely(qp->sq.give_up)) {
		ibds_count(port, rc_retry_exceeded);
		return IB_WC_RETRY_EXC_ERR;
	}
	status = ibds_rc_message(&msg);
	if (likely(status == IB_WC_SUCCESS)) {
		qp->sq.psn += msg.packets;
		ibds_rc_fresh(qp);
	}
	return status;
}
