// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: packets from user space
 */
#include <linux/unaligned.h>

#include "inject.h"
#include "pkt.h"
#include "port.h"

/* Longest payload, except for RC SEND Only, which may be a whole message. */
#define IBDS_INJECT_PACKET	8192

/* Parser state of a raw packet. */
struct ibds_wire {
	const u8 *pos;
	size_t left;
};

static const u8 *ibds_wire_take(struct ibds_wire *wire, size_t n)
{
	const u8 *pos = wire->pos;

	if (wire->left < n)
		return NULL;
	wire->pos += n;
	wire->left -= n;
	return pos;
}

static int ibds_parse_lrh(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *lrh = ibds_wire_take(wire, IB_LRH_BYTES);

	if (!lrh)
		return -EINVAL;
	pkt->sl = lrh[1] >> 4;
	pkt->dlid = get_unaligned_be16(lrh + 2);
	pkt->slid = get_unaligned_be16(lrh + 6);
	switch (lrh[1] & 3) {
	case IB_LNH_IBA_LOCAL:
		return 0;
	case IB_LNH_IBA_GLOBAL:
		pkt->grh_valid = true;
		return 0;
	default:
		return -EPROTONOSUPPORT;
	}
}

static int ibds_parse_grh(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *grh;

	if (!pkt->grh_valid)
		return 0;
	grh = ibds_wire_take(wire, IB_GRH_BYTES);
	if (!grh)
		return -EINVAL;
	memcpy(&pkt->grh, grh, sizeof(pkt->grh));
	return 0;
}

static int ibds_parse_bth(struct ibds_wire *wire, struct ibds_pkt *pkt, u8 *pad)
{
	const u8 *bth = ibds_wire_take(wire, IB_BTH_BYTES);

	if (!bth)
		return -EINVAL;
	pkt->opcode = bth[0];
	pkt->solicited = bth[1] & 0x80;
	*pad = (bth[1] >> 4) & 3;
	pkt->pkey = get_unaligned_be16(bth + 2);
	pkt->dqpn = get_unaligned_be24(bth + 5);
	pkt->psn = get_unaligned_be24(bth + 9);
	return 0;
}

static bool ibds_opcode_imm(u8 opcode)
{
	return opcode == IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE ||
	       opcode == IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE ||
	       opcode == IB_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE;
}

static int ibds_parse_ext(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *pos;

	if ((pkt->opcode & 0xe0) == IB_OPCODE_UD) {
		pos = ibds_wire_take(wire, IB_DETH_BYTES);
		if (!pos)
			return -EINVAL;
		pkt->qkey = get_unaligned_be32(pos);
		pkt->sqpn = get_unaligned_be24(pos + 5);
	}
	if (ibds_opcode_imm(pkt->opcode)) {
		pos = ibds_wire_take(wire, sizeof(pkt->imm));
		if (!pos)
			return -EINVAL;
		memcpy(&pkt->imm, pos, sizeof(pkt->imm));
		pkt->imm_valid = true;
	}
	return 0;
}

static int ibds_parse(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	u8 pad = 0;
	int err;

	err = ibds_parse_lrh(wire, pkt) ?: ibds_parse_grh(wire, pkt) ?:
	      ibds_parse_bth(wire, pkt, &pad) ?: ibds_parse_ext(wire, pkt);
	if (err)
		return err;
	if (pad > wire->left)
		return -EINVAL;
	pkt->len = wire->left - pad;
	if (pkt->len > IBDS_INJECT_PACKET && (pkt->opcode & 0xe0) != IB_OPCODE_RC)
		return -E2BIG;
	memcpy(pkt->data, wire->pos, pkt->len);
	return 0;
}

/**
 * ibds_inject - deliver a packet from user space to a port
 * @port: HCA port
 * @wire: packet from LRH to the padding, without CRCs
 * @len: bytes in @wire
 *
 * The lengths in LRH and GRH are ignored.
 *
 * Context: process.
 * Return: 0, -EINVAL for headers cut short, -EPROTONOSUPPORT for raw packets,
 * -E2BIG, -ENOMEM.
 */
int ibds_inject(struct ibds_port *port, const u8 *wire, size_t len)
{
	struct ibds_wire parser = { .pos = wire, .left = len };
	struct ibds_pkt *pkt;
	int err;

	pkt = ibds_pkt_alloc(len, GFP_KERNEL);
	if (!pkt)
		return -ENOMEM;
	err = ibds_parse(&parser, pkt);
	if (!err) {
		ibds_count(port, injected);
		rcu_read_lock();
		ibds_port_arrive(port, pkt);
		rcu_read_unlock();
	}
	ibds_pkt_free(pkt);
	return err;
}
