/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PKT_H
#define IBDEVSIM_PKT_H

#include <linux/ktime.h>
#include <linux/rbtree.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>

#include "ibdevsim.h"

struct ibds_sw_port;

/* The longest extended header between BTH and immediate data: AtomicETH. */
#define IBDS_MAX_EXT		28

/**
 * struct ibds_pkt - a packet outside the fast path: management, injected,
 *	delayed or mirrored
 *
 * Fields of LRH, GRH, BTH and DETH in host order, then the payload.  @node to
 * @out belong to the delay line and the switch: position in the line,
 * next step, switch port where it entered and switch port of the destination
 * HCA.  @list, @from, @to and @todo belong to the datapath until it hands the
 * packet over: what to do once the sender's lock is dropped.
 *
 * @list: datapath
 * @from: HCA port that sent it, NULL when it may have been removed
 * @to: datapath
 * @todo: datapath
 * @node: delay line
 * @due: when it leaves the delay line
 * @stage: enum ibds_stage
 * @hops: switches that it has passed
 * @in: switch port where it enters
 * @out: switch port of the destination HCA
 * @slid: LRH SLID
 * @dlid: LRH DLID
 * @sl: LRH SL
 * @grh_valid: there is a GRH
 * @grh: GRH
 * @opcode: BTH OpCode, IB_OPCODE_*
 * @solicited: BTH SE
 * @pkey: BTH P_Key
 * @dqpn: BTH DestQP
 * @sqpn: DETH SrcQP
 * @qkey: DETH Q_Key
 * @psn: BTH PSN
 * @ext: RETH, AETH, AtomicETH, AtomicAckETH or IETH
 * @ext_len: bytes of that
 * @imm_valid: there is immediate data
 * @imm: immediate data
 * @csum_ok: the sending HCA computed the checksum
 * @cut: truncated on the wire
 * @len: bytes of payload
 * @data: payload
 */
struct ibds_pkt {
	struct list_head list;
	struct ibds_port *from, *to;
	u8 todo;
	struct rb_node node;
	ktime_t due;
	u8 stage;
	u8 hops;
	struct ibds_sw_port *in, *out;
	u16 slid, dlid;
	u8 sl;
	bool grh_valid;
	struct ib_grh grh;
	u8 opcode;
	bool solicited;
	u16 pkey;
	u32 dqpn, sqpn, qkey, psn;
	u8 ext[IBDS_MAX_EXT];
	u8 ext_len;
	bool imm_valid;
	__be32 imm;
	bool csum_ok;
	bool cut;
	u32 len;
	u8 data[] __aligned(8);
};

/**
 * enum ibds_later - what to do with a packet once sq.lock is dropped
 * @IBDS_LATER_DATA: send it from pkt->from to pkt->to, which have faults or a
 *	mirror
 * @IBDS_LATER_MIRROR: record it in the mirror of pkt->from
 * @IBDS_LATER_MIRROR_RX: record it in the mirror of pkt->to
 * @IBDS_LATER_MAD: send it as a MAD from QP0 or QP1 of pkt->from
 * @IBDS_LATER_BAD_PKEY: report its P_Key, which pkt->to does not accept
 * @IBDS_LATER_BAD_QKEY: report its wrong Q_Key
 */
enum ibds_later {
	IBDS_LATER_DATA,
	IBDS_LATER_MIRROR,
	IBDS_LATER_MIRROR_RX,
	IBDS_LATER_MAD,
	IBDS_LATER_BAD_PKEY,
	IBDS_LATER_BAD_QKEY,
};

struct ibds_pkt *ibds_pkt_alloc(u32 len, gfp_t gfp);
struct ibds_pkt *ibds_pkt_copy(const struct ibds_pkt *pkt, gfp_t gfp);
void ibds_pkt_free(struct ibds_pkt *pkt);

#endif /* IBDEVSIM_PKT_H */
