// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: management agents of switches
 *
 * Attributes that the SM reads and sets on a switch (IBA vol 1, 14.2.5 and
 * 18.2.4): identity, SwitchInfo, PortInfo of port 0 (a base port) and of every
 * external port, forwarding tables and the tables of ports; and performance
 * management, from the counters of the HCA at the other end, with directions
 * swapped.
 *
 * All of this runs on ibds_wq, see struct ibds_switch.
 */
#include "link.h"
#include "pma.h"
#include "swagent.h"
#include "switch.h"
#include "trap.h"

#define IBDS_SWITCH_DEVICE_ID	0x1bd6
#define IBDS_SWITCH_NAME	"ibdevsim switch"

#define BAD_VALUE		IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE

/* SwitchInfo LifeTimeValue etc. share a byte. */
#define IBDS_STATE_CHANGE	0x04
#define IBDS_LIFETIME_MASK	0xf8

/* SwitchInfo on the wire, IBA vol 1, 14.2.5.4 */
struct ibds_switchinfo {
	__be16 lin_cap;
	__be16 rand_cap;
	__be16 mc_cap;
	__be16 lin_top;
	u8 def_port;
	u8 def_mc_primary;
	u8 def_mc_other;
	u8 life_change;
	__be16 lids_per_port;
	__be16 enforce_cap;
	u8 flags;
	u8 reserved;
	__be16 mc_top;
} __packed;

static u16 node_desc_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	memset(smp->data, 0, sizeof(smp->data));
	if (sw->id)
		snprintf(smp->data, sizeof(smp->data), IBDS_SWITCH_NAME " %u",
			 sw->id);
	else
		strscpy(smp->data, IBDS_SWITCH_NAME, sizeof(smp->data));
	return 0;
}

static u16 node_info_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	struct ib_node_info ni = {
		.base_version = 1,
		.class_version = 1,
		.node_type = RDMA_NODE_IB_SWITCH,
		.num_ports = sw->ports,
		.sys_guid = sw->guid,
		.node_guid = sw->guid,
		.port_guid = sw->guid,
		.partition_cap = cpu_to_be16(IBDS_SWITCH_PKEYS),
		.device_id = cpu_to_be16(IBDS_SWITCH_DEVICE_ID),
		.revision = cpu_to_be32(1),
		.local_port_num = in_port,
		.vendor_id = { 0x02, 0x1b, 0xd5 },
	};

	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, &ni, sizeof(ni));
	return 0;
}

static u16 switch_info_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	struct ibds_switchinfo si = {
		.lin_cap = cpu_to_be16(IBDS_LFT_SIZE),
		.mc_cap = cpu_to_be16(IBDS_MFT_SIZE),
		.lin_top = cpu_to_be16(sw->lin_top),
		.def_port = sw->def_port[0],
		.def_mc_primary = sw->def_port[1],
		.def_mc_other = sw->def_port[2],
		.life_change = sw->lifetime,
		.mc_top = cpu_to_be16(sw->mc_top),
	};

	if (READ_ONCE(sw->state_change))
		si.life_change |= IBDS_STATE_CHANGE;
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, &si, sizeof(si));
	return 0;
}

static u16 switch_info_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const struct ibds_switchinfo *si = (const void *)smp->data;
	unsigned long flags;

	if (be16_to_cpu(si->lin_top) >= IBDS_LFT_SIZE)
		return BAD_VALUE;
	WRITE_ONCE(sw->lin_top, be16_to_cpu(si->lin_top));
	WRITE_ONCE(sw->mc_top, be16_to_cpu(si->mc_top));
	ibds_route_changed();
	sw->def_port[0] = si->def_port;
	sw->def_port[1] = si->def_mc_primary;
	sw->def_port[2] = si->def_mc_other;
	sw->lifetime = si->life_change & IBDS_LIFETIME_MASK;
	if (si->life_change & IBDS_STATE_CHANGE) {
		spin_lock_irqsave(&ibds_link_lock, flags);
		sw->state_change = false;
		spin_unlock_irqrestore(&ibds_link_lock, flags);
	}
	return switch_info_get(sw, smp, in_port);
}

/* The port an AttributeModifier names, NULL when there is no such port. */
static struct ibds_sw_port *mod_port(struct ibds_switch *sw, u32 n)
{
	return n <= sw->ports ? &sw->port[n] : NULL;
}

static u16 port_info_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	struct ibds_portinfo *pi = (struct ibds_portinfo *)smp->data;
	u32 n = be32_to_cpu(smp->attr_mod) & 0xff;
	struct ibds_sw_port *sp = mod_port(sw, n);
	unsigned long flags;

	if (!sp)
		return BAD_VALUE;
	spin_lock_irqsave(&ibds_link_lock, flags);
	*pi = sp->pi;
	pi->speedsup_state = (pi->speedsup_state & 0xf0) | sp->state;
	pi->phys_downdef = sp->phys << 4 | (pi->phys_downdef & 0xf);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	pi->local_port = in_port;
	if (!n && (pi->mkeyprot_lmc >> 6) == 1 && smp->mkey != pi->m_key)
		pi->m_key = 0;
	return 0;
}

/* Port 0 has the node's addresses, and no link. */
static u16 port0_set(struct ibds_switch *sw, const struct ibds_portinfo *want)
{
	struct ibds_portinfo *pi = &sw->port[0].pi;
	u16 lid = be16_to_cpu(want->lid);

	if (lid >= IBDS_MFT_BASE || (want->mkeyprot_lmc & 7) ||
	    (!lid && pi->lid))
		return BAD_VALUE;
	pi->m_key = want->m_key;
	pi->m_key_lease = want->m_key_lease;
	pi->m_key_viol = want->m_key_viol;
	pi->mkeyprot_lmc = want->mkeyprot_lmc & 0xc0;
	pi->gid_prefix = want->gid_prefix;
	pi->lid = want->lid;
	pi->sm_lid = want->sm_lid;
	pi->mtu_smsl = (pi->mtu_smsl & 0xf0) | (want->mtu_smsl & 0x0f);
	pi->rereg_timeout = want->rereg_timeout & 0x1f;
	return 0;
}

static void port_link_cmd(struct ibds_sw_port *sp, enum ibds_link_cmd cmd)
{
	switch (cmd) {
	case IBDS_LINK_NOP:
		break;
	case IBDS_LINK_ARM:
		ibds_link_advance(&sp->state, IB_PORT_INIT, IB_PORT_ARMED);
		break;
	case IBDS_LINK_ACTIVATE:
		ibds_link_advance(&sp->state, IB_PORT_ARMED, IB_PORT_ACTIVE);
		break;
	case IBDS_LINK_BOUNCE:
		ibds_link_update(sp, true);
		break;
	case IBDS_LINK_DISABLE:
		ibds_link_disable(sp, true);
		break;
	case IBDS_LINK_ENABLE:
		ibds_link_disable(sp, false);
		break;
	}
}

static u16 port_n_set(struct ibds_sw_port *sp, const struct ibds_portinfo *want)
{
	enum ibds_link_cmd cmd;
	unsigned long flags;
	u16 status;

	spin_lock_irqsave(&ibds_link_lock, flags);
	status = ibds_pi_check(&sp->pi, want, sp->state, &cmd);
	if (!status)
		ibds_pi_merge(&sp->pi, want);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	if (!status)
		port_link_cmd(sp, cmd);
	return status;
}

static u16 port_info_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const struct ibds_portinfo *want = (const void *)smp->data;
	u32 n = be32_to_cpu(smp->attr_mod) & 0xff;
	struct ibds_sw_port *sp = mod_port(sw, n);
	u16 status;

	if (!sp)
		return BAD_VALUE;
	status = n ? port_n_set(sp, want) : port0_set(sw, want);
	port_info_get(sw, smp, in_port);
	return status;
}

static u16 guid_info_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	if (smp->attr_mod)
		return BAD_VALUE;
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, &sw->guid, sizeof(sw->guid));
	return 0;
}

/* P_KeyTable: the port is in the upper half; one block of keys per port. */
static u16 pkey_table_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u32 mod = be32_to_cpu(smp->attr_mod);
	struct ibds_sw_port *sp = mod_port(sw, mod >> 16);
	__be16 *pkeys = (__be16 *)smp->data;
	u32 i;

	if (!sp || (mod & 0xffff))
		return BAD_VALUE;
	for (i = 0; i < IBDS_SWITCH_PKEYS; i++)
		pkeys[i] = cpu_to_be16(sp->pkeys[i]);
	return 0;
}

static u16 pkey_table_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u32 mod = be32_to_cpu(smp->attr_mod);
	struct ibds_sw_port *sp = mod_port(sw, mod >> 16);
	const __be16 *pkeys = (const __be16 *)smp->data;
	u32 i;

	if (!sp || (mod & 0xffff))
		return BAD_VALUE;
	for (i = 0; i < IBDS_SWITCH_PKEYS; i++)
		sp->pkeys[i] = be16_to_cpu(pkeys[i]);
	return 0;
}

/* SLtoVLMappingTable: input port, output port in the lower two bytes. */
static u8 *sl2vl_entry(struct ibds_switch *sw, const struct ib_smp *smp)
{
	u32 mod = be32_to_cpu(smp->attr_mod);
	u32 in = (mod >> 8) & 0xff, out = mod & 0xff;

	if (in > sw->ports || out > sw->ports)
		return NULL;
	return sw->sl2vl[in * (sw->ports + 1) + out];
}

static u16 sl2vl_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const u8 *entry = sl2vl_entry(sw, smp);

	if (!entry)
		return BAD_VALUE;
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, entry, sizeof(*sw->sl2vl));
	return 0;
}

static u16 sl2vl_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u8 *entry = sl2vl_entry(sw, smp);

	if (!entry)
		return BAD_VALUE;
	memcpy(entry, smp->data, sizeof(*sw->sl2vl));
	return 0;
}

static u8 *vlarb_entry(struct ibds_switch *sw, const struct ib_smp *smp)
{
	u32 mod = be32_to_cpu(smp->attr_mod);
	struct ibds_sw_port *sp = mod_port(sw, mod & 0xff);

	return sp ? ibds_vlarb_block(sp->vlarb, mod >> 16) : NULL;
}

static u16 vlarb_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const u8 *table = vlarb_entry(sw, smp);

	if (!table)
		return BAD_VALUE;
	memcpy(smp->data, table, sizeof(smp->data));
	return 0;
}

static u16 vlarb_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u8 *table = vlarb_entry(sw, smp);

	if (!table)
		return BAD_VALUE;
	memcpy(table, smp->data, sizeof(smp->data));
	return 0;
}

static u8 *lft_block(struct ibds_switch *sw, const struct ib_smp *smp)
{
	u32 block = be32_to_cpu(smp->attr_mod);

	if (block >= IBDS_LFT_SIZE / IBDS_LFT_BLOCK)
		return NULL;
	return &sw->lft[block * IBDS_LFT_BLOCK];
}

static u16 lft_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const u8 *block = lft_block(sw, smp);

	if (!block)
		return BAD_VALUE;
	memcpy(smp->data, block, IBDS_LFT_BLOCK);
	return 0;
}

/* Concurrent reads by the datapath get either the old or the new entry. */
static u16 lft_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u8 *block = lft_block(sw, smp);
	u32 i;

	if (!block)
		return BAD_VALUE;
	for (i = 0; i < IBDS_LFT_BLOCK; i++)
		WRITE_ONCE(block[i], smp->data[i]);
	ibds_route_changed();
	return 0;
}

/* MulticastForwardingTable: position in the upper 4 bits, block below. */
static u16 (*mft_block(struct ibds_switch *sw, const struct ib_smp *smp,
		       u32 *pos))[IBDS_MFT_POSITIONS]
{
	u32 mod = be32_to_cpu(smp->attr_mod);
	u32 block = mod & 0x1ff;

	*pos = mod >> 28;
	if (block >= IBDS_MFT_SIZE / IBDS_MFT_BLOCK ||
	    *pos > sw->ports / 16)
		return NULL;
	return &sw->mft[block * IBDS_MFT_BLOCK];
}

static u16 mft_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	__be16 *masks = (__be16 *)smp->data;
	u32 pos, i;
	u16 (*block)[IBDS_MFT_POSITIONS] = mft_block(sw, smp, &pos);

	if (!block)
		return BAD_VALUE;
	for (i = 0; i < IBDS_MFT_BLOCK; i++)
		masks[i] = cpu_to_be16(block[i][pos]);
	return 0;
}

static u16 mft_set(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	const __be16 *masks = (const __be16 *)smp->data;
	u32 pos, i;
	u16 (*block)[IBDS_MFT_POSITIONS] = mft_block(sw, smp, &pos);

	if (!block)
		return BAD_VALUE;
	for (i = 0; i < IBDS_MFT_BLOCK; i++)
		WRITE_ONCE(block[i][pos], be16_to_cpu(masks[i]));
	return 0;
}

static u16 vendor_diag_get(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	if (!mod_port(sw, be32_to_cpu(smp->attr_mod) & 0xff))
		return BAD_VALUE;
	memset(smp->data, 0, sizeof(smp->data));
	return 0;
}

/**
 * struct ibds_sw_attr - a subnet management attribute of the switch
 * @id: AttributeID
 * @get: fills smp->data, returns a MAD status
 * @set: applies smp->data and fills in the result; NULL: read-only
 */
struct ibds_sw_attr {
	__be16 id;
	u16 (*get)(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port);
	u16 (*set)(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port);
};

static const struct ibds_sw_attr sw_attrs[] = {
	{ IB_SMP_ATTR_NODE_DESC, node_desc_get },
	{ IB_SMP_ATTR_NODE_INFO, node_info_get },
	{ IB_SMP_ATTR_SWITCH_INFO, switch_info_get, switch_info_set },
	{ IB_SMP_ATTR_GUID_INFO, guid_info_get },
	{ IB_SMP_ATTR_PORT_INFO, port_info_get, port_info_set },
	{ IB_SMP_ATTR_PKEY_TABLE, pkey_table_get, pkey_table_set },
	{ IB_SMP_ATTR_SL_TO_VL_TABLE, sl2vl_get, sl2vl_set },
	{ IB_SMP_ATTR_VL_ARB_TABLE, vlarb_get, vlarb_set },
	{ IB_SMP_ATTR_LINEAR_FORWARD_TABLE, lft_get, lft_set },
	{ IB_SMP_ATTR_MCAST_FORWARD_TABLE, mft_get, mft_set },
	{ IB_SMP_ATTR_VENDOR_DIAG, vendor_diag_get },
};

static u16 attr_run(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	bool set = smp->method == IB_MGMT_METHOD_SET;
	int i;

	if (smp->base_version != 1 || smp->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	for (i = 0; i < ARRAY_SIZE(sw_attrs); i++) {
		const struct ibds_sw_attr *attr = &sw_attrs[i];

		if (attr->id != smp->attr_id)
			continue;
		if (set && !attr->set)
			break;
		return set ? attr->set(sw, smp, in_port) :
			     attr->get(sw, smp, in_port);
	}
	return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
}

/**
 * ibds_switch_sma - process an SMP for a switch
 * @sw: switch
 * @smp: the request, becomes the response
 * @in_port: port it came in by
 *
 * Return: true when there is a response to send.
 */
bool ibds_switch_sma(struct ibds_switch *sw, struct ib_smp *smp, u8 in_port)
{
	u16 status;

	if (smp->method == IB_MGMT_METHOD_TRAP_REPRESS) {
		ibds_traps_repress(&sw->traps, smp);
		return false;
	}
	if (smp->method != IB_MGMT_METHOD_GET &&
	    smp->method != IB_MGMT_METHOD_SET) {
		ibds_sw_count(sw, drop_class);
		return false;
	}
	if (!ibds_mkey_ok(&sw->port[0].pi, smp)) {
		ibds_sw_count(sw, drop_mkey);
		return false;
	}
	status = attr_run(sw, smp, in_port);
	smp->method = IB_MGMT_METHOD_GET_RESP;
	smp->status = cpu_to_be16(status);
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		smp->status |= IB_SMP_DIRECTION;
	return true;
}

/* ---- performance management --------------------------------------------- */

static void switch_raw(const struct ibds_sw_port *sp, u64 *raw)
{
	ibds_pma_switch_raw(rcu_dereference(sp->peer), raw);
	raw[IBDS_PMA_LINK_DOWNED] = sp->pma.link_downed;
}

/**
 * ibds_switch_link_error - count errors at a switch port
 * @sw: switch
 * @text: its number, then as in ibds_traps_link_error(); modified
 *
 * Return: 0 or -errno.
 */
int ibds_switch_link_error(struct ibds_switch *sw, char *text)
{
	char *word = strsep(&text, " ");
	u32 n;
	int err;

	err = kstrtou32(word, 0, &n);
	if (err)
		return err;
	if (n > sw->ports)
		return -ERANGE;
	if (!text)
		return -EINVAL;
	return ibds_traps_link_error(&sw->traps, &sw->port[n].pma, n,
				     text);
}

/**
 * ibds_switch_pma - process a MAD of class PerfMgt for a switch
 * @sw: switch
 * @mad: the request, becomes the response
 *
 * Return: true when there is a response to send.
 */
bool ibds_switch_pma(struct ibds_switch *sw, struct ib_pma_mad *mad)
{
	u64 raw[IBDS_PMA_COUNTERS];
	struct ibds_pma_query query;
	unsigned long flags;
	u32 n;

	if (mad->mad_hdr.method != IB_MGMT_METHOD_GET &&
	    mad->mad_hdr.method != IB_MGMT_METHOD_SET)
		return false;
	ibds_pma_begin(&query, mad, 0, sw->ports);
	for (n = query.lo; n <= query.hi; n++) {
		/* A cable that is removed moves what is counted from. */
		spin_lock_irqsave(&ibds_link_lock, flags);
		switch_raw(&sw->port[n], raw);
		ibds_pma_port(&query, &sw->port[n].pma, raw);
		spin_unlock_irqrestore(&ibds_link_lock, flags);
	}
	ibds_pma_end(&query);
	return true;
}

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ibds_swagent_init - prepare the agents of a switch
 * @sw: new switch
 */
void ibds_swagent_init(struct ibds_switch *sw)
{
	ibds_traps_init(&sw->traps, NULL, sw);
}

/**
 * ibds_swagent_exit - stop the agents of a switch
 * @sw: switch without cables
 *
 * Call before ibds_line_exit().
 */
void ibds_swagent_exit(struct ibds_switch *sw)
{
	ibds_traps_exit(&sw->traps);
}
