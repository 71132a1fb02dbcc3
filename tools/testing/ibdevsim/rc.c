// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: reliable connections
 *
 * A message is copied from the sender's buffers to the receiver's in one step,
 * under the sender's sq.lock and the receiver's rcv->lock, and completes at
 * once on both sides: no acknowledgment is ever outstanding.  When the receiver
 * does not answer (no such QP, not ready, link down, packet lost) or has no
 * receive posted, the request becomes the first of the send queue and a timer
 * decides when it is tried again: ACK timeout and retry count, or RNR NAK delay
 * and RNR retry count, as in IBA vol 1, 9.7 and 9.9.
 *
 * The operations supported are SEND and SEND with immediate, not RDMA and
 * atomics.
 */
#include <linux/random.h>

#include "addr.h"
#include "cq.h"
#include "fault.h"
#include "pkt.h"
#include "rc.h"
#include "rcv.h"
#include "sge.h"
#include "switch.h"

/* Timeout for a QP without one, so that it still retries. */
#define IBDS_RC_NO_TIMEOUT_NS	(500 * NSEC_PER_MSEC)

/**
 * enum ibds_rc_answer - answer of the responder to a message
 * @IBDS_RC_ACK: received
 * @IBDS_RC_NONE: no answer, the message is lost
 * @IBDS_RC_RNR: receiver not ready
 * @IBDS_RC_INVALID: NAK, invalid request: longer than the receive
 * @IBDS_RC_OP_ERROR: NAK, remote operational error: invalid receive request
 */
enum ibds_rc_answer {
	IBDS_RC_ACK,
	IBDS_RC_NONE,
	IBDS_RC_RNR,
	IBDS_RC_INVALID,
	IBDS_RC_OP_ERROR,
};

/**
 * struct ibds_msg - a message in flight
 * @qp: sending QP
 * @wr: request
 * @later: list for packets for mirrors and reports
 * @src: payload
 * @len: bytes
 * @packets: number of packets on the wire
 * @slid: source LID
 * @pkey: P_Key
 */
struct ibds_msg {
	struct ibds_qp *qp;
	const struct ib_send_wr *wr;
	struct list_head *later;
	struct ibds_pos src;
	u32 len;
	u32 packets;
	u16 slid;
	u16 pkey;
};

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

static enum ib_wc_status ibds_rc_not_ready(struct ibds_qp *qp, u8 timer)
{
	struct ibds_sq *sq = &qp->sq;

	/* 7: no limit. */
	if (qp->attr.rnr_retry != 7 && !sq->rnr_retries--) {
		ibds_count(qp->port, rc_retry_exceeded);
		return IB_WC_RNR_RETRY_EXC_ERR;
	}
	return ibds_rc_wait(qp, ibds_rnr_ns(timer));
}

/* The first request is done: reset the retry counters. */
static void ibds_rc_fresh(struct ibds_qp *qp)
{
	qp->sq.retries = qp->attr.retry_cnt;
	qp->sq.rnr_retries = qp->attr.rnr_retry;
	qp->sq.late = false;
	qp->sq.give_up = false;
}

/* ---- packets for mirrors and reports ------------------------------------ */

static u8 ibds_rc_opcode(const struct ibds_msg *msg, u32 index, bool last)
{
	bool imm = msg->wr->opcode == IB_WR_SEND_WITH_IMM;

	if (msg->packets == 1)
		return imm ? IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE :
			     IB_OPCODE_RC_SEND_ONLY;
	if (last)
		return imm ? IB_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE :
			     IB_OPCODE_RC_SEND_LAST;
	return index ? IB_OPCODE_RC_SEND_MIDDLE : IB_OPCODE_RC_SEND_FIRST;
}

static void ibds_rc_packet(struct ibds_port *to, const struct ibds_msg *msg,
			   struct ibds_pos *pos, u32 index, u32 len,
			   enum ibds_later todo)
{
	bool last = index == msg->packets - 1;
	const struct ibds_qp *qp = msg->qp;
	struct ibds_pkt *pkt;

	pkt = ibds_pkt_alloc(len, GFP_ATOMIC);
	if (!pkt) {
		ibds_skip(pos, len);
		return;
	}
	ibds_gather(pkt->data, pos, len);
	pkt->len = len;
	pkt->slid = msg->slid;
	pkt->dlid = qp->av.dlid;
	pkt->sl = qp->av.sl;
	pkt->grh_valid = qp->av.grh;
	if (qp->av.grh)
		ibds_grh_build(&pkt->grh, &qp->av, qp->port);
	pkt->opcode = ibds_rc_opcode(msg, index, last);
	pkt->imm_valid = last && msg->wr->opcode == IB_WR_SEND_WITH_IMM;
	pkt->imm = pkt->imm_valid ? msg->wr->ex.imm_data : 0;
	pkt->solicited = last && (msg->wr->send_flags & IB_SEND_SOLICITED);
	pkt->pkey = msg->pkey;
	pkt->dqpn = qp->remote_qpn;
	pkt->sqpn = qp->ib.qp_num;
	pkt->psn = (qp->sq.psn + index) & IBDS_PSN_MASK;
	pkt->from = qp->port;
	pkt->to = to;
	pkt->todo = todo;
	list_add_tail(&pkt->list, msg->later);
}

static noinline void ibds_rc_mirror(struct ibds_port *to,
				    const struct ibds_msg *msg,
				    enum ibds_later todo)
{
	u32 mtu = 1 << msg->qp->mtu_shift;
	struct ibds_pos pos = msg->src;
	u32 left = msg->len;
	u32 i, n;

	for (i = 0; i < msg->packets; i++, left -= n) {
		n = min(left, mtu);
		ibds_rc_packet(to, msg, &pos, i, n, todo);
	}
}

/* ---- receiving ---------------------------------------------------------- */

static void ibds_rc_copy(struct ibds_pos dst, struct ibds_pos src, u32 len)
{
	u32 n;

	for (; len; len -= n) {
		n = min(ibds_pos_span(&dst), len);
		ibds_gather(ibds_pos_va(&dst), &src, n);
		ibds_pos_advance(&dst, n);
	}
}

/*
 * A receive failed: move the QP to ERR.  The work item flushes its send queue.
 */
static void ibds_rc_break(struct ibds_rcv *rcv)
{
	rcv->broken = true;
	rcv->rc_on = NULL;
	ibds_qp_ask(rcv->qp, IBDS_TODO_ERR);
}

static void ibds_rc_complete(struct ibds_port *to, struct ibds_rcv *rcv,
			     const struct ibds_rwqe *wqe,
			     const struct ibds_msg *msg)
{
	bool imm = msg->wr->opcode == IB_WR_SEND_WITH_IMM;
	struct ibds_cqe *cqe;

	cqe = ibds_cq_begin(rcv->cq);
	cqe->wc.wr_id = wqe->wr_id;
	cqe->wc.status = IB_WC_SUCCESS;
	cqe->wc.opcode = IB_WC_RECV;
	cqe->wc.vendor_err = 0;
	cqe->wc.byte_len = msg->len;
	cqe->wc.qp = &rcv->qp->ib;
	cqe->wc.ex.imm_data = imm ? msg->wr->ex.imm_data : 0;
	cqe->wc.src_qp = rcv->remote_qpn;
	cqe->wc.slid = msg->slid;
	cqe->wc.wc_flags = imm ? IB_WC_WITH_IMM : 0;
	cqe->wc.pkey_index = rcv->pkey_index;
	cqe->wc.sl = msg->qp->av.sl;
	cqe->wc.dlid_path_bits = ibds_path_bits(to, msg->qp->av.dlid);
	cqe->wc.port_num = to->num;
	cqe->sq_slots = 0;
	ibds_cq_end(rcv->cq, cqe, msg->wr->send_flags & IB_SEND_SOLICITED);
	ibds_count_add(to, rx_packets, msg->packets);
	ibds_count_add(to, rx_rc_packets, msg->packets);
	ibds_count_add(to, rx_bytes, msg->len);
	if (unlikely(msg->qp->av.grh))
		ibds_count_add(to, rx_grh, msg->packets);
}

/* rcv->lock is held, the packet is for this QP. */
static enum ibds_rc_answer ibds_rc_accept(struct ibds_port *to,
					  struct ibds_rcv *rcv,
					  const struct ibds_msg *msg)
{
	const struct ibds_rwqe *wqe;
	struct ibds_pos dst;

	if (unlikely(rcv->rtr)) {
		rcv->rtr = false;
		ibds_qp_ask(rcv->qp, IBDS_TODO_COMM_EST);
	}
	wqe = ibds_rcv_take(rcv);
	if (unlikely(!wqe)) {
		ibds_count(to, rc_rnr_nak);
		return IBDS_RC_RNR;
	}
	if (unlikely(wqe->bad)) {
		ibds_count(to, bad_lkey);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_PROT_ERR);
		ibds_rc_break(rcv);
		return IBDS_RC_OP_ERROR;
	}
	if (unlikely(wqe->length < msg->len)) {
		ibds_count(to, drop_recv_short);
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_LEN_ERR);
		ibds_rc_break(rcv);
		return IBDS_RC_INVALID;
	}
	dst = (struct ibds_pos){ .sge = wqe->sge, .phys = rcv->phys };
	ibds_rc_copy(dst, msg->src, msg->len);
	ibds_rc_complete(to, rcv, wqe, msg);
	return IBDS_RC_ACK;
}

static enum ibds_rc_answer ibds_rc_deliver(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_msg *msg,
					   u8 *rnr_timer)
{
	enum ibds_rc_answer answer = IBDS_RC_NONE;
	const struct ibds_qp *qp = msg->qp;
	bool bad_pkey = false;

	spin_lock(&rcv->lock);
	*rnr_timer = rcv->rnr_timer;
	if (unlikely(rcv->rc_on != to || rcv->remote_qpn != qp->ib.qp_num ||
		     rcv->remote_lid != msg->slid))
		ibds_count(to, drop_no_qp);
	else if (unlikely(!ibds_pkey_match(READ_ONCE(to->pkeys[rcv->pkey_index]),
					   msg->pkey)))
		bad_pkey = true;
	else
		answer = ibds_rc_accept(to, rcv, msg);
	spin_unlock(&rcv->lock);

	if (unlikely(bad_pkey)) {
		struct ibds_pos pos = msg->src;

		ibds_count(to, drop_pkey);
		ibds_rc_packet(to, msg, &pos, 0, 0, IBDS_LATER_BAD_PKEY);
	}
	return answer;
}

/**
 * ibds_rc_arrive - receive a message from outside the fast path
 * @to: the port
 * @pkt: RC SEND only, of any length: it stands for all packets of the message
 *
 * No answer is sent, so the packet need not come from the peer's QP.
 *
 * Context: interrupts are disabled; RCU read side.
 */
void ibds_rc_arrive(struct ibds_port *to, const struct ibds_pkt *pkt)
{
	bool imm = pkt->opcode == IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE;
	struct ib_sge sge = {
		.addr = (uintptr_t)pkt->data,
		.length = pkt->len,
	};
	struct ib_send_wr wr = {
		.opcode = imm ? IB_WR_SEND_WITH_IMM : IB_WR_SEND,
		.ex.imm_data = pkt->imm,
		.send_flags = pkt->solicited ? IB_SEND_SOLICITED : 0,
	};
	struct ibds_msg msg = {
		.wr = &wr,
		.src.sge = &sge,
		.len = pkt->len,
		.packets = 1,
		.slid = pkt->slid,
	};
	struct ibds_rcv *rcv = ibds_rcv_find(to->dev, pkt->dqpn);

	if (!rcv) {
		ibds_count(to, drop_no_qp);
		return;
	}
	spin_lock(&rcv->lock);
	if (rcv->rc_on != to || rcv->remote_lid != pkt->slid) {
		ibds_count(to, drop_no_qp);
	} else {
		/* As if sent by the peer: with the path back to it. */
		msg.qp = rcv->qp;
		ibds_rc_accept(to, rcv, &msg);
	}
	spin_unlock(&rcv->lock);
}

/* ---- sending ------------------------------------------------------------ */

/* True if a fault loses one of the message's packets. */
static bool ibds_rc_lost(const struct ibds_msg *msg, struct ibds_port *to)
{
	struct ibds_port *from = msg->qp->port;
	bool lost = false;
	u32 i;

	for (i = 0; i < msg->packets; i++) {
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
		if (msg->packets < 2 || !sq->retries)
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
	return ibds_rc_deliver(to, rcv, msg, rnr_timer);
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
	case IBDS_RC_OP_ERROR:
		return IB_WC_REM_OP_ERR;
	default:
		return IB_WC_SUCCESS;
	}
}

static enum ib_wc_status ibds_rc_message(const struct ibds_msg *msg)
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
	ibds_count_add(port, tx_bytes, msg->len);
	if (unlikely(qp->av.grh))
		ibds_count_add(port, tx_grh, msg->packets);
	if (unlikely(READ_ONCE(port->mirror)))
		ibds_rc_mirror(to, msg, IBDS_LATER_MIRROR);
	answer = ibds_rc_transmit(msg, to, &rnr_timer);
	if (unlikely(answer != IBDS_RC_ACK))
		return ibds_rc_outcome(qp, answer, rnr_timer);
	if (unlikely(READ_ONCE(to->mirror)))
		ibds_rc_mirror(to, msg, IBDS_LATER_MIRROR_RX);
	return IB_WC_SUCCESS;
}

/**
 * ibds_rc_send - execute a send of an RC QP
 * @qp: QP in RTS, sq.lock is held; RCU read side
 * @wr: request
 * @later: list for packets for mirrors and reports
 *
 * Return: completion status, or %IBDS_WAIT when it has to be tried again.
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
		.len = len,
		.packets = (len + mtu - 1) >> qp->mtu_shift ?: 1,
		.slid = READ_ONCE(port->lid) + qp->av.path_bits,
		.pkey = READ_ONCE(port->pkeys[qp->pkey_index]),
	};

	if (unlikely(len < 0)) {
		ibds_count(port, bad_lkey);
		return IB_WC_LOC_PROT_ERR;
	}
	if (unlikely(len > IBDS_MAX_MSG))
		return IB_WC_LOC_LEN_ERR;
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
