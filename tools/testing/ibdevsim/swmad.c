// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: management packets that a switch forwards or answers
 *
 * They come from the delay line, one at a time.  MADs for a switch itself
 * are passed to its agents (swagent.c); directed routes are those of IBA vol 1,
 * 14.2.2.
 */
#include "line.h"
#include "mad.h"
#include "port.h"
#include "swagent.h"
#include "switch.h"
#include "swmad.h"

static void ibds_mad_drop_bad(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	ibds_sw_count(sw, drop_bad_route);
	ibds_pkt_free(pkt);
}

enum ibds_dr_step {
	IBDS_DR_DROP,		/* the hop pointer makes no sense here */
	IBDS_DR_FORWARD,	/* next hop of the directed route */
	IBDS_DR_LOCAL,		/* for this node */
	IBDS_DR_LID,		/* the directed part is over, continue by LID */
};

/* Handle a request on the outgoing path: C14-9. */
static enum ibds_dr_step ibds_dr_request(struct ib_smp *smp, u8 in, u8 *out)
{
	if (smp->hop_ptr > smp->hop_cnt)
		return smp->hop_ptr == smp->hop_cnt + 1 ? IBDS_DR_LOCAL :
							  IBDS_DR_DROP;
	if (smp->hop_ptr)
		smp->return_path[smp->hop_ptr] = in;
	if (smp->hop_ptr++ < smp->hop_cnt) {
		*out = smp->initial_path[smp->hop_ptr];
		return IBDS_DR_FORWARD;
	}
	return smp->dr_dlid == IB_LID_PERMISSIVE ? IBDS_DR_LOCAL : IBDS_DR_LID;
}

/* Handle a response on the return path: C14-13.  The switch has no SM. */
static enum ibds_dr_step ibds_dr_response(struct ib_smp *smp, u8 *out)
{
	if (!smp->hop_ptr || smp->hop_ptr > smp->hop_cnt + 1)
		return IBDS_DR_DROP;
	if (--smp->hop_ptr) {
		*out = smp->return_path[smp->hop_ptr];
		return IBDS_DR_FORWARD;
	}
	return smp->dr_slid == IB_LID_PERMISSIVE ? IBDS_DR_DROP : IBDS_DR_LID;
}

/* Send the switch's own response along its directed route.  Consumes @pkt. */
static void ibds_dr_answer(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;
	u8 out = 0;

	switch (ibds_dr_response(smp, &out)) {
	case IBDS_DR_FORWARD:
		pkt->slid = IBDS_LID_PERMISSIVE;
		pkt->dlid = IBDS_LID_PERMISSIVE;
		ibds_mad_out(sw, out, pkt);
		break;
	case IBDS_DR_LID:
		pkt->dlid = be16_to_cpu(smp->dr_slid);
		ibds_switch_originate(sw, pkt);
		break;
	default:
		ibds_mad_drop_bad(sw, pkt);
	}
}

/* Address a packet back to its sender, for the response. */
static void ibds_pkt_turn(struct ibds_pkt *pkt)
{
	pkt->dlid = pkt->slid;
	pkt->dqpn = pkt->sqpn;
	pkt->sqpn = pkt->dqpn ? 1 : 0;
	pkt->grh_valid = false;
	pkt->imm_valid = false;
	pkt->solicited = false;
	pkt->hops = 0;
}

static void ibds_smp_local(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;

	if (!ibds_switch_sma(sw, smp, pkt->in->num)) {
		ibds_pkt_free(pkt);
		return;
	}
	ibds_pkt_turn(pkt);
	pkt->sqpn = 0;
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE &&
	    smp->dr_dlid == IB_LID_PERMISSIVE)
		ibds_dr_answer(sw, pkt);
	else
		ibds_switch_originate(sw, pkt);
}

static void ibds_smp_directed(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;
	enum ibds_dr_step step;
	u8 out = 0;

	ibds_sw_count(sw, smp_direct);
	if (smp->hop_cnt >= IB_SMP_MAX_PATH_HOPS) {
		ibds_mad_drop_bad(sw, pkt);
		return;
	}
	step = ib_get_smp_direction(smp) ? ibds_dr_response(smp, &out) :
		ibds_dr_request(smp, pkt->in->num, &out);
	switch (step) {
	case IBDS_DR_FORWARD:
		pkt->slid = IBDS_LID_PERMISSIVE;
		pkt->dlid = IBDS_LID_PERMISSIVE;
		ibds_mad_out(sw, out, pkt);
		break;
	case IBDS_DR_LID:
		pkt->dlid = be16_to_cpu(ib_get_smp_direction(smp) ?
					smp->dr_slid : smp->dr_dlid);
		ibds_switch_originate(sw, pkt);
		break;
	case IBDS_DR_LOCAL:
		ibds_smp_local(sw, pkt);
		break;
	default:
		ibds_mad_drop_bad(sw, pkt);
	}
}

static void ibds_switch_smp(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;

	ibds_sw_count(sw, smp);
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		ibds_smp_directed(sw, pkt);
	else if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_LID_ROUTED &&
		 pkt->dlid != IBDS_LID_PERMISSIVE)
		ibds_smp_local(sw, pkt);
	else
		ibds_mad_drop_bad(sw, pkt);
}

/* Refuse requests of a class without an agent here; IBA vol 1, 13.4.7. */
static bool ibds_gmp_refuse(struct ib_mad_hdr *hdr)
{
	if (hdr->method != IB_MGMT_METHOD_GET &&
	    hdr->method != IB_MGMT_METHOD_SET)
		return false;
	hdr->method = IB_MGMT_METHOD_GET_RESP;
	hdr->status = cpu_to_be16(IB_MGMT_MAD_STATUS_BAD_VERSION);
	return true;
}

/* The only general service of the switch is performance management. */
static bool ibds_gmp_answer(struct ibds_switch *sw, struct ib_pma_mad *mad)
{
	if (mad->mad_hdr.mgmt_class == IB_MGMT_CLASS_PERF_MGMT)
		return ibds_switch_pma(sw, mad);
	return ibds_gmp_refuse(&mad->mad_hdr);
}

static void ibds_switch_gmp(struct ibds_switch *sw, struct ibds_pkt *pkt)
{
	ibds_sw_count(sw, gmp);
	if (pkt->dqpn != 1 || pkt->dlid == IBDS_LID_PERMISSIVE ||
	    !ibds_gmp_answer(sw, (struct ib_pma_mad *)pkt->data)) {
		ibds_sw_count(sw, drop_class);
		ibds_pkt_free(pkt);
		return;
	}
	ibds_pkt_turn(pkt);
	pkt->qkey = IB_QP1_QKEY;
	ibds_switch_originate(sw, pkt);
}

/**
 * ibds_switch_mad - handle a MAD that enters a switch
 * @pkt: MAD with pkt->in set; consumed
 *
 * Context: work item of the delay line, RCU read side.
 */
static void ibds_switch_mad(struct ibds_pkt *pkt)
{
	u8 need = pkt->dqpn ? IB_PORT_ARMED : IB_PORT_INIT;
	struct ibds_switch *sw = pkt->in->sw;
	u16 own = be16_to_cpu(sw->port[0].pi.lid);

	if (READ_ONCE(pkt->in->state) < need) {
		ibds_sw_count(sw, drop_port_down);
		ibds_pkt_free(pkt);
	} else if (pkt->dlid != IBDS_LID_PERMISSIVE &&
		   (!own || pkt->dlid != own)) {
		ibds_mad_unicast(sw, pkt);
	} else if (pkt->len != IBDS_MAD_SIZE) {
		ibds_sw_count(sw, drop_malformed);
		ibds_pkt_free(pkt);
	} else if (pkt->dqpn) {
		ibds_switch_gmp(sw, pkt);
	} else {
		ibds_switch_smp(sw, pkt);
	}
}

/**
 * ibds_pkt_due - handle a packet that leaves the delay line
 * @pkt: packet with its next step in pkt->stage; consumed
 *
 * Context: work item of the delay line, RCU read side.
 */
void ibds_pkt_due(struct ibds_pkt *pkt)
{
	struct ibds_port *to;

	if (pkt->stage == IBDS_STAGE_SWITCH) {
		ibds_switch_mad(pkt);
		return;
	}
	to = rcu_dereference(pkt->out->peer);
	if (to)
		ibds_port_arrive(to, pkt);
	ibds_pkt_free(pkt);
}
