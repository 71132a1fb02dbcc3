// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: responders of reliable connections
 *
 * SEND fills the next receive; RDMA WRITE, RDMA READ and atomics access a region
 * by its R_Key (IBA vol 1, 9.4 and 9.7).  All under the lock of the receive side.
 * References to regions are dropped before a region is invalidated.
 *
 * An error of the request takes the QP to ERR (9.9.3); the requester's own
 * errors, which its HCA finds before it sends, do not concern the responder.
 */
#include <linux/atomic.h>

#include "addr.h"
#include "cq.h"
#include "mr.h"
#include "rcresp.h"
#include "rcv.h"
#include "sge.h"

/* ---- errors ------------------------------------------------------------- */

/*
 * A request failed: move the QP to ERR.  The work item flushes its send queue
 * and raises the event that @todo asks for, if it is not IBDS_TODO_ERR.
 */
static void ibds_resp_break(struct ibds_rcv *rcv, enum ibds_todo todo)
{
	rcv->broken = true;
	rcv->rc_on = NULL;
	set_bit(todo, &rcv->qp->todo);
	ibds_qp_ask(rcv->qp, IBDS_TODO_ERR);
}

/* A receive failed, and with it the QP. */
static void ibds_resp_fail(struct ibds_rcv *rcv, const struct ibds_rwqe *wqe,
			   enum ib_wc_status status)
{
	rcv->partial = NULL;
	ibds_rcv_fail(rcv, wqe, status);
	ibds_resp_break(rcv, IBDS_TODO_ERR);
}

static enum ibds_rc_answer ibds_resp_refuse(struct ibds_port *to,
					    struct ibds_rcv *rcv)
{
	ibds_count(to, bad_rkey);
	ibds_resp_break(rcv, IBDS_TODO_ACCESS);
	return IBDS_RC_ACCESS;
}

static enum ibds_rc_answer ibds_resp_invalid(struct ibds_rcv *rcv)
{
	ibds_resp_break(rcv, IBDS_TODO_INVALID);
	return IBDS_RC_INVALID;
}

/* ---- SEND --------------------------------------------------------------- */

static __always_inline void ibds_resp_copy(struct ibds_pos dst,
					   struct ibds_pos src, u32 len)
{
	u32 n;

	for (; len; len -= n) {
		n = min(ibds_pos_span(&dst), len);
		ibds_gather(ibds_pos_va(&dst), &src, n);
		ibds_pos_advance(&dst, n);
	}
}

static int ibds_resp_wc_flags(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_WITH_IMM;
	case IB_WR_SEND_WITH_INV:
		return IB_WC_WITH_INVALIDATE;
	default:
		return 0;
	}
}

static __always_inline void ibds_resp_complete(struct ibds_port *to,
					       struct ibds_rcv *rcv,
					       const struct ibds_rwqe *wqe,
					       const struct ibds_msg *msg,
					       enum ib_wc_opcode opcode)
{
	int wc_flags = ibds_resp_wc_flags(msg->wr);
	struct ibds_cqe *cqe;

	cqe = ibds_cq_begin(rcv->cq);
	cqe->wc.wr_id = wqe->wr_id;
	cqe->wc.status = IB_WC_SUCCESS;
	cqe->wc.opcode = opcode;
	cqe->wc.vendor_err = 0;
	cqe->wc.byte_len = msg->total;
	cqe->wc.qp = &rcv->qp->ib;
	/* The key to invalidate is in the same place. */
	cqe->wc.ex.imm_data = wc_flags ? msg->wr->ex.imm_data : 0;
	cqe->wc.src_qp = rcv->remote_qpn;
	cqe->wc.slid = msg->slid;
	cqe->wc.wc_flags = wc_flags;
	cqe->wc.pkey_index = rcv->pkey_index;
	cqe->wc.sl = msg->qp->av.sl;
	cqe->wc.dlid_path_bits = ibds_path_bits(to, msg->qp->av.dlid);
	cqe->wc.port_num = to->num;
	cqe->sq_slots = 0;
	ibds_cq_end(rcv->cq, cqe, msg->wr->send_flags & IB_SEND_SOLICITED);
}

/* A buffer in regions, or a later segment. */
static noinline enum ibds_rc_answer
ibds_resp_fill_mapped(struct ibds_port *to, struct ibds_rcv *rcv,
		      const struct ibds_rwqe *wqe, const struct ibds_msg *msg,
		      struct ibds_pos src)
{
	struct ibds_space space = ibds_rcv_space(rcv);
	struct ibds_map *map = ibds_map_remote();
	struct ibds_pos dst = { .sge = map->sge, .phys = rcv->phys };

	if (!ibds_map_list(map, &space, wqe->sge, wqe->num_sge, msg->off,
			   msg->len, IB_ACCESS_LOCAL_WRITE)) {
		ibds_count(to, bad_lkey);
		ibds_resp_fail(rcv, wqe, IB_WC_LOC_PROT_ERR);
		return IBDS_RC_OP_ERROR;
	}
	ibds_resp_copy(dst, src, msg->len);
	ibds_map_put(map);
	return IBDS_RC_ACK;
}

/* Copy a segment to a receive. */
static __always_inline enum ibds_rc_answer
ibds_resp_fill(struct ibds_port *to, struct ibds_rcv *rcv,
	       const struct ibds_rwqe *wqe, const struct ibds_msg *msg,
	       struct ibds_pos src)
{
	struct ibds_pos dst = { .sge = wqe->sge, .phys = rcv->phys };

	if (unlikely(wqe->length < msg->total)) {
		ibds_count(to, drop_recv_short);
		ibds_resp_fail(rcv, wqe, IB_WC_LOC_LEN_ERR);
		return IBDS_RC_INVALID;
	}
	if (unlikely(wqe->mapped || msg->off))
		return ibds_resp_fill_mapped(to, rcv, wqe, msg, src);
	ibds_resp_copy(dst, src, msg->len);
	return IBDS_RC_ACK;
}

/* A segment that does not continue the message which is being received. */
static noinline enum ibds_rc_answer ibds_resp_stray(struct ibds_rcv *rcv)
{
	if (!rcv->partial)
		return IBDS_RC_NONE;
	ibds_resp_fail(rcv, rcv->partial, IB_WC_LOC_QP_OP_ERR);
	return IBDS_RC_INVALID;
}

/* The last segment of a SEND has been stored. */
static __always_inline enum ibds_rc_answer
ibds_resp_sent(struct ibds_port *to, struct ibds_rcv *rcv,
	       const struct ibds_rwqe *wqe, const struct ibds_msg *msg)
{
	rcv->partial = NULL;
	if (unlikely(msg->wr->opcode == IB_WR_SEND_WITH_INV) &&
	    !ibds_mr_invalidate(to->dev, rcv->qp->ib.pd,
				msg->wr->ex.invalidate_rkey)) {
		ibds_rcv_fail(rcv, wqe, IB_WC_LOC_QP_OP_ERR);
		return ibds_resp_refuse(to, rcv);
	}
	ibds_resp_complete(to, rcv, wqe, msg, IB_WC_RECV);
	return IBDS_RC_ACK;
}

static __always_inline enum ibds_rc_answer
ibds_resp_send(struct ibds_port *to, struct ibds_rcv *rcv,
	       const struct ibds_msg *msg)
{
	enum ibds_rc_answer answer = IBDS_RC_RNR;
	const struct ibds_rwqe *wqe;
	struct ibds_pos src;

	if (unlikely(!msg->off != !rcv->partial))
		return ibds_resp_stray(rcv);
	if (unlikely(!ibds_msg_get(msg, &src, 0)))
		return IBDS_RC_LOCAL;
	wqe = unlikely(rcv->partial) ? rcv->partial : ibds_rcv_take(rcv);
	if (likely(wqe))
		answer = ibds_resp_fill(to, rcv, wqe, msg, src);
	ibds_msg_unget(msg);
	if (unlikely(answer != IBDS_RC_ACK))
		return answer;
	if (likely(ibds_msg_last(msg)))
		return ibds_resp_sent(to, rcv, wqe, msg);
	rcv->partial = wqe;
	return IBDS_RC_ACK;
}

/* ---- RDMA and atomics --------------------------------------------------- */

/*
 * The responder's memory.  Return: true if the QP and the R_Key allow the access;
 * ibds_map_put() of ibds_map_remote() has to follow then.
 */
static bool ibds_resp_range(struct ibds_rcv *rcv, const struct ibds_msg *msg,
			    u32 rkey, u64 addr, int access,
			    struct ibds_pos *pos)
{
	const struct ibds_qp *qp = rcv->qp;
	struct ibds_map *map = ibds_map_remote();
	struct ibds_space space = {
		.dev = to_ibds_dev(qp->ib.device),
		.pd = qp->ib.pd,
		.lkey = IBDS_NO_LKEY,
		.phys = rcv->phys,
	};

	*pos = (struct ibds_pos){ .sge = map->sge, .phys = rcv->phys };
	return (rcv->access & access) &&
	       ibds_map_range(map, &space, rkey, addr, msg->len, access);
}

static bool ibds_resp_rdma(struct ibds_rcv *rcv, const struct ibds_msg *msg,
			   int access, struct ibds_pos *pos)
{
	const struct ib_rdma_wr *wr = rdma_wr(msg->wr);

	return ibds_resp_range(rcv, msg, wr->rkey, wr->remote_addr + msg->off,
			       access, pos);
}

static enum ibds_rc_answer ibds_resp_write(struct ibds_port *to,
					   struct ibds_rcv *rcv,
					   const struct ibds_msg *msg)
{
	bool imm = msg->wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM &&
		   ibds_msg_last(msg);
	enum ibds_rc_answer answer = IBDS_RC_ACK;
	const struct ibds_rwqe *wqe = NULL;
	struct ibds_pos src, dst;

	if (!ibds_msg_get(msg, &src, 0))
		return IBDS_RC_LOCAL;
	if (!ibds_resp_rdma(rcv, msg, IB_ACCESS_REMOTE_WRITE, &dst)) {
		ibds_msg_unget(msg);
		return ibds_resp_refuse(to, rcv);
	}
	if (imm) {
		wqe = ibds_rcv_take(rcv);
		if (!wqe)
			answer = IBDS_RC_RNR;
	}
	if (answer == IBDS_RC_ACK)
		ibds_resp_copy(dst, src, msg->len);
	ibds_map_put(ibds_map_remote());
	ibds_msg_unget(msg);
	if (wqe)
		ibds_resp_complete(to, rcv, wqe, msg, IB_WC_RECV_RDMA_WITH_IMM);
	return answer;
}

/* The responder's counters of what it sends, and the requester's. */
static void ibds_resp_replied(struct ibds_port *to, const struct ibds_msg *msg)
{
	struct ibds_port *from = msg->qp->port;

	ibds_count_add(to, tx_packets, msg->replies);
	ibds_count_add(to, tx_rc_packets, msg->replies);
	ibds_count_add(to, tx_bytes, msg->len);
	ibds_count_add(from, rx_packets, msg->replies);
	ibds_count_add(from, rx_rc_packets, msg->replies);
	ibds_count_add(from, rx_bytes, msg->len);
}

static void ibds_resp_reply(struct ibds_port *to, const struct ibds_msg *msg,
			    struct ibds_pos pos)
{
	ibds_resp_replied(to, msg);
	if (unlikely(READ_ONCE(to->mirror) || READ_ONCE(msg->qp->port->mirror)))
		ibds_msg_mirror_reply(to, msg, pos);
}

static enum ibds_rc_answer ibds_resp_read(struct ibds_port *to,
					  struct ibds_rcv *rcv,
					  const struct ibds_msg *msg)
{
	struct ibds_pos src, dst;

	if (!rcv->rd_atom)
		return ibds_resp_invalid(rcv);
	if (!ibds_msg_get(msg, &dst, IB_ACCESS_LOCAL_WRITE))
		return IBDS_RC_LOCAL;
	if (!ibds_resp_rdma(rcv, msg, IB_ACCESS_REMOTE_READ, &src)) {
		ibds_msg_unget(msg);
		return ibds_resp_refuse(to, rcv);
	}
	ibds_resp_copy(dst, src, msg->len);
	ibds_resp_reply(to, msg, src);
	ibds_map_put(ibds_map_remote());
	ibds_msg_unget(msg);
	return IBDS_RC_ACK;
}

/* The operand is in the byte order of both hosts, which is the same. */
static u64 ibds_resp_operate(u64 *operand, const struct ib_atomic_wr *wr)
{
	if (wr->wr.opcode == IB_WR_ATOMIC_CMP_AND_SWP)
		return cmpxchg64(operand, wr->compare_add, wr->swap);
	return atomic64_fetch_add(wr->compare_add, (atomic64_t *)operand);
}

static enum ibds_rc_answer ibds_resp_atomic(struct ibds_port *to,
					    struct ibds_rcv *rcv,
					    const struct ibds_msg *msg)
{
	const struct ib_atomic_wr *wr = atomic_wr(msg->wr);
	struct ibds_pos operand, dst, reply;
	struct ib_sge sge;
	u64 was;

	if (!rcv->rd_atom || wr->remote_addr & (sizeof(u64) - 1))
		return ibds_resp_invalid(rcv);
	if (!ibds_msg_get(msg, &dst, IB_ACCESS_LOCAL_WRITE))
		return IBDS_RC_LOCAL;
	if (!ibds_resp_range(rcv, msg, wr->rkey, wr->remote_addr,
			     IB_ACCESS_REMOTE_ATOMIC, &operand)) {
		ibds_msg_unget(msg);
		return ibds_resp_refuse(to, rcv);
	}
	was = ibds_resp_operate(ibds_pos_va(&operand), wr);
	ibds_scatter(&dst, &was, sizeof(was));
	sge = (struct ib_sge){ .addr = (uintptr_t)&was, .length = sizeof(was) };
	reply = (struct ibds_pos){ .sge = &sge };
	ibds_resp_reply(to, msg, reply);
	ibds_map_put(ibds_map_remote());
	ibds_msg_unget(msg);
	return IBDS_RC_ACK;
}

/* ---- any request -------------------------------------------------------- */

static noinline enum ibds_rc_answer ibds_resp_other(struct ibds_port *to,
						    struct ibds_rcv *rcv,
						    const struct ibds_msg *msg)
{
	if (rcv->partial && msg->wr->opcode != IB_WR_SEND_WITH_INV)
		return ibds_resp_stray(rcv);
	switch (msg->wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return ibds_resp_write(to, rcv, msg);
	case IB_WR_RDMA_READ:
		return ibds_resp_read(to, rcv, msg);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return ibds_resp_atomic(to, rcv, msg);
	default:
		return ibds_resp_send(to, rcv, msg);
	}
}

/* rcv->lock is held, the segment is for this QP. */
static enum ibds_rc_answer ibds_resp_accept(struct ibds_port *to,
					    struct ibds_rcv *rcv,
					    const struct ibds_msg *msg)
{
	enum ibds_rc_answer answer;

	if (unlikely(rcv->rtr)) {
		rcv->rtr = false;
		ibds_qp_ask(rcv->qp, IBDS_TODO_COMM_EST);
	}
	if (likely(msg->wr->opcode == IB_WR_SEND ||
		   msg->wr->opcode == IB_WR_SEND_WITH_IMM))
		answer = ibds_resp_send(to, rcv, msg);
	else
		answer = ibds_resp_other(to, rcv, msg);
	if (unlikely(answer != IBDS_RC_ACK)) {
		if (answer == IBDS_RC_RNR)
			ibds_count(to, rc_rnr_nak);
		return answer;
	}
	ibds_count_add(to, rx_packets, msg->packets);
	ibds_count_add(to, rx_rc_packets, msg->packets);
	if (likely(!msg->replies))
		ibds_count_add(to, rx_bytes, msg->len);
	if (unlikely(msg->qp->av.grh))
		ibds_count_add(to, rx_grh, msg->packets);
	return IBDS_RC_ACK;
}

/**
 * ibds_resp_deliver - deliver a segment to a QP
 * @to: port where it arrives
 * @rcv: receive side with the number that the sender addresses
 * @msg: segment
 * @rnr_timer: set to the delay that an RNR NAK asks for
 *
 * Context: interrupts are disabled; RCU read side; the sender's sq.lock is held.
 * Return: the answer.
 */
enum ibds_rc_answer ibds_resp_deliver(struct ibds_port *to,
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
		answer = ibds_resp_accept(to, rcv, msg);
	spin_unlock(&rcv->lock);

	if (unlikely(bad_pkey)) {
		ibds_count(to, drop_pkey);
		ibds_msg_report(to, msg, IBDS_LATER_BAD_PKEY);
	}
	return answer;
}

/* Receive a message segment by segment. */
static void ibds_resp_injected(struct ibds_port *to, struct ibds_rcv *rcv,
			       struct ibds_msg *msg)
{
	enum ibds_rc_answer answer;

	do {
		msg->len = min_t(u32, msg->total - msg->off, IBDS_SEGMENT);
		msg->src.off = msg->off;
		answer = ibds_resp_accept(to, rcv, msg);
		msg->off += msg->len;
		msg->packets = 0;
	} while (answer == IBDS_RC_ACK && msg->off < msg->total);
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
		.total = pkt->len,
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
		ibds_resp_injected(to, rcv, &msg);
	}
	spin_unlock(&rcv->lock);
}
