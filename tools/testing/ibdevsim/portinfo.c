// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: PortInfo, for HCA and switch ports alike
 */
#include "portinfo.h"

/**
 * ibds_pi_set_speed - fill in the link's width and speed
 * @pi: PortInfo
 * @width: widest supported, IB_WIDTH_*
 * @speed: fastest supported, IB_SPEED_*
 */
void ibds_pi_set_speed(struct ibds_portinfo *pi, u32 width, u32 speed)
{
	u8 ext = speed >> 4;	/* FDR, EDR, HDR, NDR as LinkSpeedExtActive */
	u8 base = min_t(u32, speed, IB_SPEED_QDR);

	pi->width_supported = IB_WIDTH_1X | width;
	if (width == IB_WIDTH_8X || width == IB_WIDTH_12X)
		pi->width_supported |= IB_WIDTH_4X;
	pi->width_enabled = pi->width_supported;
	pi->width_active = width;
	/* All speeds up to the fastest: a mask of lower bits. */
	pi->speedsup_state = (2 * base - 1) << 4;
	pi->speedact_enabled = base << 4 | (2 * base - 1);
	pi->extact_extsup = ext ? ext << 4 | (2 * ext - 1) : 0;
	pi->ext_enabled = ext ? 2 * ext - 1 : 0;
}

static bool ibds_subset(u8 want, u8 supported, u8 all)
{
	return want == all || !(want & ~supported);
}

static bool ibds_pi_fields_ok(const struct ibds_portinfo *cur,
			      const struct ibds_portinfo *want)
{
	u8 mtu = want->mtu_smsl >> 4;
	u8 vls = want->opvl_flags >> 4;

	return ibds_subset(want->width_enabled, cur->width_supported, 0xff) &&
	       ibds_subset(want->speedact_enabled & 0xf,
			   cur->speedsup_state >> 4, 0xf) &&
	       ibds_subset(want->ext_enabled & 0x1f, cur->extact_extsup & 0xf,
			   0x1f) &&
	       mtu && mtu <= (cur->initreply_mtucap & 0xf) &&
	       vls <= cur->vlcap_inittype >> 4;
}

static bool ibds_pi_link_cmd(const struct ibds_portinfo *want, u8 state,
			     enum ibds_link_cmd *cmd)
{
	switch (want->phys_downdef >> 4) {
	case 0:
		break;
	case IB_PORT_PHYS_STATE_POLLING:
		*cmd = IBDS_LINK_ENABLE;
		return true;
	case IB_PORT_PHYS_STATE_SLEEP:
	case IB_PORT_PHYS_STATE_DISABLED:
		*cmd = IBDS_LINK_DISABLE;
		return true;
	default:
		return false;
	}
	switch (want->speedsup_state & 0xf) {
	case IB_PORT_NOP:
		return true;
	case IB_PORT_DOWN:
		*cmd = IBDS_LINK_BOUNCE;
		return true;
	case IB_PORT_ARMED:
		*cmd = IBDS_LINK_ARM;
		return state == IB_PORT_INIT || state == IB_PORT_ARMED;
	case IB_PORT_ACTIVE:
		*cmd = IBDS_LINK_ACTIVATE;
		return state == IB_PORT_ARMED || state == IB_PORT_ACTIVE;
	default:
		return false;
	}
}

/**
 * ibds_pi_check - check whether a PortInfo may be set
 * @cur: current PortInfo of the port
 * @want: PortInfo sent by the SM
 * @state: state of the port
 * @cmd: result: command for the link
 *
 * Return: 0 or IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE.
 */
u16 ibds_pi_check(const struct ibds_portinfo *cur,
		  const struct ibds_portinfo *want, u8 state,
		  enum ibds_link_cmd *cmd)
{
	*cmd = IBDS_LINK_NOP;
	if (ibds_pi_fields_ok(cur, want) && ibds_pi_link_cmd(want, state, cmd))
		return 0;
	return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
}

/* Zero keeps the value, all ones enable all that is supported. */
static u8 ibds_enable(u8 cur, u8 want, u8 supported, u8 all)
{
	if (!want)
		return cur;
	return want == all ? supported : want;
}

/**
 * ibds_pi_merge - apply the link settings of a Set(PortInfo)
 * @cur: current PortInfo of the port
 * @want: PortInfo sent by the SM, checked by ibds_pi_check()
 */
void ibds_pi_merge(struct ibds_portinfo *cur, const struct ibds_portinfo *want)
{
	cur->width_enabled = ibds_enable(cur->width_enabled,
					 want->width_enabled,
					 cur->width_supported, 0xff);
	cur->speedact_enabled = (cur->speedact_enabled & 0xf0) |
		ibds_enable(cur->speedact_enabled & 0xf,
			    want->speedact_enabled & 0xf,
			    cur->speedsup_state >> 4, 0xf);
	cur->ext_enabled = ibds_enable(cur->ext_enabled,
				       want->ext_enabled & 0x1f,
				       cur->extact_extsup & 0xf, 0x1f);
	if (want->phys_downdef & 0xf)
		cur->phys_downdef = (cur->phys_downdef & 0xf0) |
				    (want->phys_downdef & 0xf);
	cur->mtu_smsl = (want->mtu_smsl & 0xf0) | (cur->mtu_smsl & 0x0f);
	cur->vl_high_limit = want->vl_high_limit;
	cur->vlstall_hoq = want->vlstall_hoq;
	cur->opvl_flags = (want->opvl_flags & 0x0f) |
			  ((want->opvl_flags & 0xf0) ?: cur->opvl_flags & 0xf0);
	cur->phyerr_overrun = want->phyerr_overrun;
}

/**
 * ibds_mkey_ok - check the M_Key of an SMP, IBA vol 1, 14.2.4
 * @pi: PortInfo with the port's M_Key; a violation is counted there
 * @smp: the SMP
 *
 * Return: false when it has to be dropped silently.
 */
bool ibds_mkey_ok(struct ibds_portinfo *pi, const struct ib_smp *smp)
{
	u8 protect = pi->mkeyprot_lmc >> 6;
	u16 seen = be16_to_cpu(pi->m_key_viol);

	if (!pi->m_key || pi->m_key == smp->mkey)
		return true;
	if (smp->method == IB_MGMT_METHOD_GET && protect < 2)
		return true;
	if (seen < U16_MAX)
		pi->m_key_viol = cpu_to_be16(seen + 1);
	return false;
}
