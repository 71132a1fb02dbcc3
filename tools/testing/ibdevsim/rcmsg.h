/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RCMSG_H
#define IBDEVSIM_RCMSG_H

#include "datapath.h"
#include "pkt.h"
#include "sge.h"

/**
 * enum ibds_rc_answer - answer of the responder to a segment
 * @IBDS_RC_ACK: executed
 * @IBDS_RC_NONE: no answer, the message is lost
 * @IBDS_RC_RNR: receiver not ready
 * @IBDS_RC_INVALID: NAK, invalid request: longer than the receive, or not
 *	supported by the QP
 * @IBDS_RC_ACCESS: NAK, remote access error: R_Key, bounds or rights
 * @IBDS_RC_OP_ERROR: NAK, remote operational error: invalid receive request
 * @IBDS_RC_LOCAL: nothing was sent: the requester's own list is wrong
 */
enum ibds_rc_answer {
	IBDS_RC_ACK,
	IBDS_RC_NONE,
	IBDS_RC_RNR,
	IBDS_RC_INVALID,
	IBDS_RC_ACCESS,
	IBDS_RC_OP_ERROR,
	IBDS_RC_LOCAL,
};

/**
 * struct ibds_msg - a segment of a message in flight: %IBDS_SEGMENT bytes of it,
 *	or the rest
 * @qp: sending QP
 * @wr: request
 * @later: list for packets for mirrors and reports
 * @src: the requester's memory, unless @mapped
 * @mapped: the requester's list has to be translated
 * @total: bytes of the message
 * @off: bytes before this segment
 * @len: bytes of this segment
 * @packets: packets that the requester sends
 * @replies: packets with data that the responder sends
 * @slid: source LID
 * @pkey: P_Key
 */
struct ibds_msg {
	struct ibds_qp *qp;
	const struct ib_send_wr *wr;
	struct list_head *later;
	struct ibds_pos src;
	bool mapped;
	u32 total;
	u32 off;
	u32 len;
	u32 packets;
	u32 replies;
	u16 slid;
	u16 pkey;
};

bool ibds_msg_map(const struct ibds_msg *msg, struct ibds_pos *pos, int access);
void ibds_msg_put(void);
void ibds_msg_mirror(struct ibds_port *to, const struct ibds_msg *msg,
		     enum ibds_later todo);
void ibds_msg_mirror_reply(struct ibds_port *to, const struct ibds_msg *msg,
			   struct ibds_pos pos);
void ibds_msg_report(struct ibds_port *to, const struct ibds_msg *msg,
		     enum ibds_later todo);

static inline bool ibds_msg_last(const struct ibds_msg *msg)
{
	return msg->off + msg->len == msg->total;
}

/*
 * The requester's memory, to be written if @access says so.  Return: true if its
 * keys allow it; ibds_msg_unget() has to follow then.
 */
static inline bool ibds_msg_get(const struct ibds_msg *msg,
				struct ibds_pos *pos, int access)
{
	if (unlikely(msg->mapped))
		return ibds_msg_map(msg, pos, access);
	*pos = msg->src;
	return true;
}

static inline void ibds_msg_unget(const struct ibds_msg *msg)
{
	if (unlikely(msg->mapped))
		ibds_msg_put();
}

#endif /* IBDEVSIM_RCMSG_H */
