// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: messages of reliable connections: the requester's memory, and their
 * packets for mirrors and reports
 *
 * No packet is built unless a port is mirrored: data are copied from memory to
 * memory.
 */
#include <linux/unaligned.h>

#include "addr.h"
#include "mr.h"
#include "rcmsg.h"

/* Bytes of extended headers; IBA vol 1, 9.3. */
#define IBDS_AETH_BYTES		4

/**
 * ibds_msg_map - translate the requester's list
 * @msg: message whose list has to be translated
 * @pos: set to its first byte
 * @access: IB_ACCESS_LOCAL_WRITE to write to it, 0 to read it
 *
 * Context: interrupts are disabled; RCU read side.
 * Return: true if the keys allow it; ibds_msg_put() has to follow then.
 */
bool ibds_msg_map(const struct ibds_msg *msg, struct ibds_pos *pos, int access)
{
	const struct ibds_qp *qp = msg->qp;
	struct ibds_map *map = ibds_map_local();
	struct ibds_space space = {
		.dev = to_ibds_dev(qp->ib.device),
		.pd = qp->ib.pd,
		.lkey = qp->lkey,
		.phys = qp->phys,
	};

	*pos = (struct ibds_pos){ .sge = map->sge, .phys = qp->phys };
	return ibds_map_list(map, &space, msg->wr->sg_list, msg->wr->num_sge,
			     msg->off, msg->len, access);
}

/**
 * ibds_msg_put - undo ibds_msg_map()
 */
void ibds_msg_put(void)
{
	ibds_map_put(ibds_map_local());
}

/* ---- opcodes and headers ------------------------------------------------ */

/**
 * struct ibds_opcodes - opcodes of the packets of a message
 * @first: first of several
 * @middle: neither first nor last
 * @last: last of several
 * @only: the only one
 */
struct ibds_opcodes {
	u8 first, middle, last, only;
};

#define IBDS_OPCODES(kind, end, whole) { \
	.first = IB_OPCODE_RC_##kind##_FIRST, \
	.middle = IB_OPCODE_RC_##kind##_MIDDLE, \
	.last = IB_OPCODE_RC_##kind##_##end, \
	.only = IB_OPCODE_RC_##kind##_##whole, \
}

static const struct ibds_opcodes ibds_opcodes[] = {
	[IB_WR_SEND] = IBDS_OPCODES(SEND, LAST, ONLY),
	[IB_WR_SEND_WITH_IMM] = IBDS_OPCODES(SEND, LAST_WITH_IMMEDIATE,
					     ONLY_WITH_IMMEDIATE),
	[IB_WR_SEND_WITH_INV] = IBDS_OPCODES(SEND, LAST_WITH_INVALIDATE,
					     ONLY_WITH_INVALIDATE),
	[IB_WR_RDMA_WRITE] = IBDS_OPCODES(RDMA_WRITE, LAST, ONLY),
	[IB_WR_RDMA_WRITE_WITH_IMM] = IBDS_OPCODES(RDMA_WRITE, LAST_WITH_IMMEDIATE,
						   ONLY_WITH_IMMEDIATE),
	[IB_WR_RDMA_READ] = { .only = IB_OPCODE_RC_RDMA_READ_REQUEST },
	[IB_WR_ATOMIC_CMP_AND_SWP] = { .only = IB_OPCODE_RC_COMPARE_SWAP },
	[IB_WR_ATOMIC_FETCH_AND_ADD] = { .only = IB_OPCODE_RC_FETCH_ADD },
};

static const struct ibds_opcodes ibds_read_reply =
	IBDS_OPCODES(RDMA_READ_RESPONSE, LAST, ONLY);
static const struct ibds_opcodes ibds_atomic_reply = {
	.only = IB_OPCODE_RC_ATOMIC_ACKNOWLEDGE
};

static u8 ibds_opcode(const struct ibds_opcodes *ops, bool first, bool last)
{
	if (first)
		return last ? ops->only : ops->first;
	return last ? ops->last : ops->middle;
}

static bool ibds_wr_imm(const struct ib_send_wr *wr)
{
	return wr->opcode == IB_WR_SEND_WITH_IMM ||
	       wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM;
}

/* RETH; IBA vol 1, 9.3.1. */
static void ibds_put_reth(struct ibds_pkt *pkt, const struct ib_rdma_wr *wr,
			  u32 total)
{
	put_unaligned_be64(wr->remote_addr, pkt->ext);
	put_unaligned_be32(wr->rkey, pkt->ext + 8);
	put_unaligned_be32(total, pkt->ext + 12);
	pkt->ext_len = 16;
}

/* AtomicETH; IBA vol 1, 9.3.2. */
static void ibds_put_atomic(struct ibds_pkt *pkt,
			    const struct ib_atomic_wr *wr)
{
	bool swap = wr->wr.opcode == IB_WR_ATOMIC_CMP_AND_SWP;

	put_unaligned_be64(wr->remote_addr, pkt->ext);
	put_unaligned_be32(wr->rkey, pkt->ext + 8);
	put_unaligned_be64(swap ? wr->swap : wr->compare_add, pkt->ext + 12);
	put_unaligned_be64(swap ? wr->compare_add : 0, pkt->ext + 20);
	pkt->ext_len = 28;
}

static void ibds_put_header(struct ibds_pkt *pkt, const struct ibds_msg *msg,
			    bool first, bool last)
{
	switch (msg->wr->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		if (first)
			ibds_put_reth(pkt, rdma_wr(msg->wr), msg->total);
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		ibds_put_atomic(pkt, atomic_wr(msg->wr));
		break;
	case IB_WR_SEND_WITH_INV:
		if (last) {
			put_unaligned_be32(msg->wr->ex.invalidate_rkey,
					   pkt->ext);
			pkt->ext_len = 4;
		}
		break;
	default:
		break;
	}
}

/* ---- packets ------------------------------------------------------------ */

/*
 * A packet between the two QPs of a connection, @index of the segment's, with @len
 * bytes from @pos, which is advanced in any case.
 */
static struct ibds_pkt *ibds_msg_packet(const struct ibds_msg *msg, u32 index,
					struct ibds_pos *pos, u32 len,
					enum ibds_later todo)
{
	const struct ibds_qp *qp = msg->qp;
	struct ibds_pkt *pkt;

	pkt = ibds_pkt_alloc(len, GFP_ATOMIC);
	if (!pkt) {
		ibds_skip(pos, len);
		return NULL;
	}
	if (len)
		ibds_gather(pkt->data, pos, len);
	pkt->todo = todo;
	pkt->slid = msg->slid;
	pkt->dlid = qp->av.dlid;
	pkt->sl = qp->av.sl;
	pkt->pkey = msg->pkey;
	pkt->dqpn = qp->remote_qpn;
	pkt->sqpn = qp->ib.qp_num;
	pkt->psn = (qp->sq.psn + index) & IBDS_PSN_MASK;
	return pkt;
}

static void ibds_msg_request(struct ibds_port *to, const struct ibds_msg *msg,
			     struct ibds_pos *pos, u32 index, u32 len,
			     enum ibds_later todo)
{
	const struct ibds_qp *qp = msg->qp;
	bool last = ibds_msg_last(msg) && index + 1 == msg->packets;
	bool first = !msg->off && !index;
	struct ibds_pkt *pkt;

	pkt = ibds_msg_packet(msg, index, pos, len, todo);
	if (!pkt)
		return;
	pkt->grh_valid = qp->av.grh;
	if (qp->av.grh)
		ibds_grh_build(&pkt->grh, &qp->av, qp->port);
	pkt->opcode = ibds_opcode(&ibds_opcodes[msg->wr->opcode], first,
				  last || msg->replies);
	ibds_put_header(pkt, msg, first, last);
	pkt->imm_valid = last && ibds_wr_imm(msg->wr);
	pkt->imm = pkt->imm_valid ? msg->wr->ex.imm_data : 0;
	pkt->solicited = last && (msg->wr->send_flags & IB_SEND_SOLICITED);
	pkt->from = qp->port;
	pkt->to = to;
	list_add_tail(&pkt->list, msg->later);
}

static void ibds_msg_requests(struct ibds_port *to, const struct ibds_msg *msg,
			      struct ibds_pos pos, enum ibds_later todo)
{
	u32 left = msg->replies ? 0 : msg->len;
	u32 mtu = 1 << msg->qp->mtu_shift;
	u32 i, n;

	for (i = 0; i < msg->packets; i++, left -= n) {
		n = min(left, mtu);
		ibds_msg_request(to, msg, &pos, i, n, todo);
	}
}

/**
 * ibds_msg_mirror - build the requester's packets
 * @to: port of the responder
 * @msg: segment
 * @todo: what to do with them
 */
void ibds_msg_mirror(struct ibds_port *to, const struct ibds_msg *msg,
		     enum ibds_later todo)
{
	struct ibds_pos pos = msg->src;

	if (msg->replies) {
		ibds_msg_requests(to, msg, pos, todo);
	} else if (ibds_msg_get(msg, &pos, 0)) {
		ibds_msg_requests(to, msg, pos, todo);
		ibds_msg_unget(msg);
	}
}

/**
 * ibds_msg_report - build an empty packet for a report
 * @to: port of the responder
 * @msg: segment
 * @todo: the report
 */
void ibds_msg_report(struct ibds_port *to, const struct ibds_msg *msg,
		     enum ibds_later todo)
{
	struct ibds_pos pos = msg->src;

	ibds_msg_request(to, msg, &pos, 0, 0, todo);
}

/* AETH of an ACK without credits; what an atomic found follows. */
static void ibds_put_ack(struct ibds_pkt *pkt, bool atomic)
{
	put_unaligned_be32(0x1f << 24, pkt->ext);
	pkt->ext_len = IBDS_AETH_BYTES;
	if (!atomic)
		return;
	put_unaligned_be64(get_unaligned((u64 *)pkt->data),
			   pkt->ext + IBDS_AETH_BYTES);
	pkt->ext_len += sizeof(u64);
	pkt->len = 0;
}

static void ibds_msg_reply(struct ibds_port *to, const struct ibds_msg *msg,
			   struct ibds_pos *pos, u32 index, u32 len,
			   enum ibds_later todo)
{
	bool atomic = msg->wr->opcode != IB_WR_RDMA_READ;
	bool last = ibds_msg_last(msg) && index + 1 == msg->replies;
	bool first = !msg->off && !index;
	struct ibds_pkt *pkt;

	pkt = ibds_msg_packet(msg, index, pos, len, todo);
	if (!pkt)
		return;
	swap(pkt->slid, pkt->dlid);
	swap(pkt->sqpn, pkt->dqpn);
	pkt->opcode = ibds_opcode(atomic ? &ibds_atomic_reply : &ibds_read_reply,
				  first, last);
	if (first || last)
		ibds_put_ack(pkt, atomic);
	pkt->from = to;
	pkt->to = msg->qp->port;
	list_add_tail(&pkt->list, msg->later);
}

static void ibds_msg_replies(struct ibds_port *to, const struct ibds_msg *msg,
			     struct ibds_pos pos, enum ibds_later todo)
{
	u32 mtu = 1 << msg->qp->mtu_shift;
	u32 left = msg->len;
	u32 i, n;

	for (i = 0; i < msg->replies; i++, left -= n) {
		n = min(left, mtu);
		ibds_msg_reply(to, msg, &pos, i, n, todo);
	}
}

/**
 * ibds_msg_mirror_reply - build what mirrors of both ports see of a request with
 *	replies at the responder
 * @to: port of the responder
 * @msg: segment
 * @pos: data in the replies
 */
void ibds_msg_mirror_reply(struct ibds_port *to, const struct ibds_msg *msg,
			   struct ibds_pos pos)
{
	if (READ_ONCE(to->mirror)) {
		ibds_msg_requests(to, msg, pos, IBDS_LATER_MIRROR_RX);
		ibds_msg_replies(to, msg, pos, IBDS_LATER_MIRROR);
	}
	if (READ_ONCE(msg->qp->port->mirror))
		ibds_msg_replies(to, msg, pos, IBDS_LATER_MIRROR_RX);
}
