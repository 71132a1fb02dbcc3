// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: management agents of an HCA port
 *
 * ib_mad passes every MAD that reaches QP0 or QP1 to ibds_process_mad() first;
 * it answers Get and Set of the subnet management attributes (IBA vol 1,
 * 14.2.5) and leaves SMInfo and Traps to the SM.  Settings by the SM take
 * effect under port->lock; events for the consumers are collected meanwhile and
 * raised when no lock is held, and only for real changes.
 *
 * PortInfo is kept as the SM wrote it (struct ibds_portinfo); fields that the
 * datapath reads are in struct ibds_port, which takes precedence.
 */
#include <linux/slab.h>

#include "call.h"
#include "link.h"
#include "pcap.h"
#include "pma.h"
#include "port.h"
#include "sma.h"
#include "switch.h"
#include "trap.h"

#define IBDS_VENDOR_ID		{ 0x02, 0x1b, 0xd5 }
#define IBDS_DEVICE_ID		0x1bd5

#define IBDS_SUBNET_TIMEOUT	18
#define IBDS_RESP_TIME		8
#define IBDS_VL_CAP		4	/* VL0 to VL7 */

#define IBDS_CLIENT_REREGISTER	0x80
#define IBDS_SUBNET_TIMEOUT_MASK 0x1f

#define IBDS_PKEY_BLOCK		32
#define IBDS_GUID_BLOCK		8

/* ---- events ------------------------------------------------------------- */

static void ibds_port_events(struct ibds_port *port, unsigned long mask)
{
	u32 type;

	for_each_set_bit(type, &mask, BITS_PER_LONG)
		ibds_port_event(port, type);
}

static void ibds_viol_inc(u32 *counter)
{
	u32 seen = READ_ONCE(*counter);

	/* Saturates at 16 bits; a lost race loses one count. */
	if (seen < U16_MAX)
		cmpxchg(counter, seen, seen + 1);
}

static void ibds_port_violation(struct ibds_port *port, __be16 trap, u32 key,
				const struct ibds_pkt *pkt)
{
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_SECURITY,
		.prod_type_lsb = IB_NOTICE_PROD_CA,
		.trap_num = trap,
		.issuer_lid = cpu_to_be16(READ_ONCE(port->lid)),
	};

	notice.details.ntc_257_258.lid1 = cpu_to_be16(pkt->slid);
	notice.details.ntc_257_258.lid2 = cpu_to_be16(pkt->dlid);
	notice.details.ntc_257_258.key = cpu_to_be32(key);
	notice.details.ntc_257_258.sl_qp1 =
		cpu_to_be32(pkt->sl << 28 | pkt->sqpn);
	notice.details.ntc_257_258.qp2 = cpu_to_be32(pkt->dqpn);
	if (pkt->grh_valid) {
		notice.details.ntc_257_258.gid1 = pkt->grh.sgid;
		notice.details.ntc_257_258.gid2 = pkt->grh.dgid;
	}
	ibds_traps_raise(&port->sma->traps, &notice);
}

/**
 * ibds_port_bad_pkey - count and report a packet with a bad P_Key
 * @port: HCA port
 * @pkt: packet
 *
 * port->lock is not taken, so callers may hold locks of queues.
 *
 * Context: any.
 */
void ibds_port_bad_pkey(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	ibds_viol_inc(&port->pkey_viol);
	ibds_port_violation(port, IB_NOTICE_TRAP_BAD_PKEY, pkt->pkey, pkt);
}

/**
 * ibds_port_bad_qkey - count and report a packet with a bad Q_Key
 * @port: HCA port
 * @pkt: packet
 *
 * Context: any.
 */
void ibds_port_bad_qkey(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	ibds_viol_inc(&port->qkey_viol);
	ibds_port_violation(port, IB_NOTICE_TRAP_BAD_QKEY, pkt->qkey, pkt);
}

/**
 * ibds_set_sys_guid - change an HCA's SystemImageGUID; trap 145
 * @dev: HCA
 * @guid: new value
 */
void ibds_set_sys_guid(struct ibds_dev *dev, __be64 guid)
{
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_INFO,
		.prod_type_lsb = IB_NOTICE_PROD_CA,
		.trap_num = IB_NOTICE_TRAP_SYS_GUID_CHG,
		.details.ntc_145.new_sys_guid = guid,
	};
	u32 n;

	WRITE_ONCE(dev->sys_guid, guid);
	for (n = 0; n < dev->caps.ports; n++) {
		const struct ibds_port *port = &dev->port[n];

		if (READ_ONCE(port->state) != IB_PORT_ACTIVE)
			continue;
		notice.issuer_lid = cpu_to_be16(READ_ONCE(port->lid));
		notice.details.ntc_145.lid = notice.issuer_lid;
		ibds_traps_raise(&port->sma->traps, &notice);
	}
}

/* Trap 144: capability mask or node description changed. */
static void ibds_port_changed(struct ibds_port *port, u8 what)
{
	__be16 lid = cpu_to_be16(READ_ONCE(port->lid));
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_INFO,
		.prod_type_lsb = IB_NOTICE_PROD_CA,
		.trap_num = IB_NOTICE_TRAP_CAP_MASK_CHG,
		.issuer_lid = lid,
	};

	if (READ_ONCE(port->state) != IB_PORT_ACTIVE)
		return;
	notice.details.ntc_144.lid = lid;
	notice.details.ntc_144.local_changes = !!what;
	notice.details.ntc_144.new_cap_mask =
		cpu_to_be32(READ_ONCE(port->cap_mask));
	notice.details.ntc_144.change_flags = what;
	ibds_traps_raise(&port->sma->traps, &notice);
}

/* ---- changes through verbs ---------------------------------------------- */

int ibds_modify_port(struct ib_device *ibdev, u32 port_num, int mask,
		     struct ib_port_modify *props)
{
	struct ibds_port *port = &to_ibds_dev(ibdev)->port[port_num - 1];
	unsigned long flags;
	u32 old, new;
	int err;

	err = ibds_call(ibdev, IBDS_CALL_MODIFY_PORT);
	if (err)
		return err;
	spin_lock_irqsave(&port->lock, flags);
	old = port->cap_mask;
	new = (old | props->set_port_cap_mask) & ~props->clr_port_cap_mask;
	WRITE_ONCE(port->cap_mask, new);
	if (mask & IB_PORT_RESET_QKEY_CNTR)
		WRITE_ONCE(port->qkey_viol, 0);
	spin_unlock_irqrestore(&port->lock, flags);
	if (mask & IB_PORT_SHUTDOWN)
		ibds_port_set_link(port, false);
	if (old != new)
		ibds_port_changed(port, 0);
	return 0;
}

int ibds_modify_device(struct ib_device *ibdev, int mask,
		       struct ib_device_modify *props)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	int err;
	u32 n;

	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	err = ibds_call(ibdev, IBDS_CALL_MODIFY_DEVICE);
	if (err)
		return err;
	memcpy(ibdev->node_desc, props->node_desc, sizeof(ibdev->node_desc));
	for (n = 0; n < dev->caps.ports; n++)
		ibds_port_changed(&dev->port[n], IB_NOTICE_TRAP_NODE_DESC_CHG);
	return 0;
}

/* ---- attributes --------------------------------------------------------- */

/* Attribute handlers fill smp->data and return a MAD status. */

static u16 node_desc_get(struct ibds_port *port, struct ib_smp *smp)
{
	memcpy(smp->data, port->dev->ib.node_desc, sizeof(smp->data));
	return 0;
}

static u16 node_info_get(struct ibds_port *port, struct ib_smp *smp)
{
	struct ib_node_info ni = {
		.base_version = 1,
		.class_version = 1,
		.node_type = RDMA_NODE_IB_CA,
		.num_ports = port->dev->caps.ports,
		.sys_guid = READ_ONCE(port->dev->sys_guid),
		.node_guid = port->dev->node_guid,
		.port_guid = port->guid,
		.partition_cap = cpu_to_be16(port->dev->caps.pkeys),
		.device_id = cpu_to_be16(IBDS_DEVICE_ID),
		.revision = cpu_to_be32(1),
		.local_port_num = port->num,
		.vendor_id = IBDS_VENDOR_ID,
	};

	memcpy(smp->data, &ni, sizeof(ni));
	return 0;
}

/* AttributeModifier of PortInfo: a port, 0 is the one that got the SMP. */
static struct ibds_port *ibds_smp_port(struct ibds_port *port,
				       const struct ib_smp *smp)
{
	u32 n = be32_to_cpu(smp->attr_mod) & 0xff;

	if (!n)
		return port;
	return n <= port->dev->caps.ports ? &port->dev->port[n - 1] : NULL;
}

static void ibds_pi_fill(struct ibds_port *port, struct ibds_portinfo *pi)
{
	lockdep_assert_held(&port->lock);
	*pi = port->sma->pi;
	pi->gid_prefix = port->gid_prefix;
	pi->lid = cpu_to_be16(port->lid);
	pi->sm_lid = cpu_to_be16(port->sm_lid);
	pi->cap_mask = cpu_to_be32(port->cap_mask);
	pi->speedsup_state = (pi->speedsup_state & 0xf0) | port->state;
	pi->phys_downdef = port->phys_state << 4 | (pi->phys_downdef & 0xf);
	pi->mkeyprot_lmc = (pi->mkeyprot_lmc & 0xf8) | port->lmc;
	pi->mtu_smsl = ib_mtu_int_to_enum(port->mtu_active) << 4 | port->sm_sl;
	pi->vlcap_inittype = port->vl_cap << 4;
	pi->p_key_viol = cpu_to_be16(port->pkey_viol);
	pi->q_key_viol = cpu_to_be16(port->qkey_viol);
	pi->rereg_timeout = port->subnet_timeout;
}

static u16 port_info_get(struct ibds_port *asked, struct ib_smp *smp)
{
	struct ibds_port *port = ibds_smp_port(asked, smp);
	struct ibds_portinfo pi;
	unsigned long flags;

	if (!port)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	spin_lock_irqsave(&port->lock, flags);
	ibds_pi_fill(port, &pi);
	spin_unlock_irqrestore(&port->lock, flags);
	pi.local_port = asked->num;
	if ((pi.mkeyprot_lmc >> 6) == 1 && smp->mkey != pi.m_key)
		pi.m_key = 0;
	memcpy(smp->data, &pi, sizeof(pi));
	return 0;
}

static bool ibds_unicast_lid(__be16 lid)
{
	return lid && be16_to_cpu(lid) < IBDS_MFT_BASE;
}

static bool ibds_port_addresses_ok(const struct ibds_portinfo *cur,
				   const struct ibds_portinfo *want)
{
	return (want->lid == cur->lid || ibds_unicast_lid(want->lid)) &&
	       (want->sm_lid == cur->sm_lid || ibds_unicast_lid(want->sm_lid));
}

/* Apply all but the link state.  Return: a mask of events to raise. */
static unsigned long ibds_port_apply(struct ibds_port *port,
				     const struct ibds_portinfo *cur,
				     const struct ibds_portinfo *want)
{
	struct ibds_portinfo *pi = &port->sma->pi;
	unsigned long events = 0;

	lockdep_assert_held(&port->lock);
	if (want->lid != cur->lid ||
	    (want->mkeyprot_lmc & 7) != (cur->mkeyprot_lmc & 7))
		events |= BIT(IB_EVENT_LID_CHANGE);
	if (want->sm_lid != cur->sm_lid ||
	    (want->mtu_smsl & 0xf) != (cur->mtu_smsl & 0xf))
		events |= BIT(IB_EVENT_SM_CHANGE);
	if (want->gid_prefix != cur->gid_prefix)
		events |= BIT(IB_EVENT_GID_CHANGE);
	if (want->rereg_timeout & IBDS_CLIENT_REREGISTER)
		events |= BIT(IB_EVENT_CLIENT_REREGISTER);

	ibds_pi_merge(pi, want);
	pi->m_key = want->m_key;
	pi->m_key_lease = want->m_key_lease;
	pi->m_key_viol = want->m_key_viol;
	pi->mkeyprot_lmc = want->mkeyprot_lmc & 0xc0;
	WRITE_ONCE(port->gid_prefix, want->gid_prefix);
	WRITE_ONCE(port->lmc, want->mkeyprot_lmc & 7);
	WRITE_ONCE(port->lid, be16_to_cpu(want->lid));
	ibds_route_changed();
	WRITE_ONCE(port->sm_lid, be16_to_cpu(want->sm_lid));
	WRITE_ONCE(port->sm_sl, want->mtu_smsl & 0xf);
	WRITE_ONCE(port->mtu_active, ib_mtu_enum_to_int(want->mtu_smsl >> 4));
	WRITE_ONCE(port->pkey_viol, be16_to_cpu(want->p_key_viol));
	WRITE_ONCE(port->qkey_viol, be16_to_cpu(want->q_key_viol));
	WRITE_ONCE(port->subnet_timeout,
		   want->rereg_timeout & IBDS_SUBNET_TIMEOUT_MASK);
	return events;
}

static void ibds_port_link_cmd(struct ibds_port *port, enum ibds_link_cmd cmd)
{
	switch (cmd) {
	case IBDS_LINK_NOP:
		break;
	case IBDS_LINK_ARM:
		ibds_link_advance(&port->state, IB_PORT_INIT, IB_PORT_ARMED);
		break;
	case IBDS_LINK_ACTIVATE:
		if (ibds_link_advance(&port->state, IB_PORT_ARMED,
				      IB_PORT_ACTIVE))
			ibds_port_event(port, IB_EVENT_PORT_ACTIVE);
		break;
	case IBDS_LINK_BOUNCE:
		ibds_port_bounce(port);
		break;
	case IBDS_LINK_DISABLE:
		ibds_port_disable(port, true);
		break;
	case IBDS_LINK_ENABLE:
		ibds_port_disable(port, false);
		break;
	}
}

static u16 port_info_set(struct ibds_port *asked, struct ib_smp *smp)
{
	const struct ibds_portinfo *want = (const void *)smp->data;
	struct ibds_port *port = ibds_smp_port(asked, smp);
	bool rereg = want->rereg_timeout & IBDS_CLIENT_REREGISTER;
	unsigned long flags, events = 0;
	struct ibds_portinfo cur;
	enum ibds_link_cmd cmd;
	u16 status;

	if (!port)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	spin_lock_irqsave(&port->lock, flags);
	ibds_pi_fill(port, &cur);
	status = ibds_pi_check(&cur, want, port->state, &cmd);
	if (!ibds_port_addresses_ok(&cur, want))
		status = IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (!status)
		events = ibds_port_apply(port, &cur, want);
	spin_unlock_irqrestore(&port->lock, flags);
	if (!status) {
		ibds_port_events(port, events);
		ibds_port_link_cmd(port, cmd);
	}
	port_info_get(asked, smp);
	/* o14-12.2.1: the response shows the bit that was set. */
	if (rereg)
		smp->data[offsetof(struct ibds_portinfo, rereg_timeout)] |=
			IBDS_CLIENT_REREGISTER;
	return status;
}

static u16 guid_info_get(struct ibds_port *port, struct ib_smp *smp)
{
	u32 first = be32_to_cpu(smp->attr_mod) * IBDS_GUID_BLOCK;
	u32 gids = port->dev->caps.gids;

	if (be32_to_cpu(smp->attr_mod) > 0xff || first >= gids)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, &port->guids[first],
	       min_t(u32, gids - first, IBDS_GUID_BLOCK) * sizeof(__be64));
	return 0;
}

static u16 guid_info_set(struct ibds_port *port, struct ib_smp *smp)
{
	u32 first = be32_to_cpu(smp->attr_mod) * IBDS_GUID_BLOCK;
	const __be64 *guids = (const __be64 *)smp->data;
	u32 i;

	if (be32_to_cpu(smp->attr_mod) > 0xff || first >= port->dev->caps.gids)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	/*
	 * Entry 0 and entries after the end of the table cannot be set; they
	 * are ignored.
	 */
	for (i = 0; i < IBDS_GUID_BLOCK; i++)
		ibds_port_set_guid(port, first + i, guids[i]);
	return guid_info_get(port, smp);
}

static u16 pkey_table_get(struct ibds_port *port, struct ib_smp *smp)
{
	u32 block = be32_to_cpu(smp->attr_mod) & 0xffff;
	u32 first = block * IBDS_PKEY_BLOCK;
	__be16 *pkeys = (__be16 *)smp->data;
	u32 i;

	if (first >= port->dev->caps.pkeys)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	/* Entries after the end of a short table are 0. */
	for (i = 0; i < IBDS_PKEY_BLOCK; i++)
		pkeys[i] = cpu_to_be16(READ_ONCE(port->pkeys[first + i]));
	return 0;
}

static u16 pkey_table_set(struct ibds_port *port, struct ib_smp *smp)
{
	u32 block = be32_to_cpu(smp->attr_mod) & 0xffff;
	const __be16 *pkeys = (const __be16 *)smp->data;
	u32 first = block * IBDS_PKEY_BLOCK;
	u32 table = port->dev->caps.pkeys;
	bool changed = false;
	unsigned long flags;
	u32 i;

	if (first >= table)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	spin_lock_irqsave(&port->lock, flags);
	for (i = 0; i < IBDS_PKEY_BLOCK && first + i < table; i++) {
		u16 pkey = be16_to_cpu(pkeys[i]);

		changed |= port->pkeys[first + i] != pkey;
		WRITE_ONCE(port->pkeys[first + i], pkey);
	}
	spin_unlock_irqrestore(&port->lock, flags);
	if (changed)
		ibds_port_event(port, IB_EVENT_PKEY_CHANGE);
	return pkey_table_get(port, smp);
}

static u16 sl2vl_get(struct ibds_port *port, struct ib_smp *smp)
{
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, port->sma->sl2vl, sizeof(port->sma->sl2vl));
	return 0;
}

static u16 sl2vl_set(struct ibds_port *port, struct ib_smp *smp)
{
	unsigned long flags;

	spin_lock_irqsave(&port->lock, flags);
	memcpy(port->sma->sl2vl, smp->data, sizeof(port->sma->sl2vl));
	spin_unlock_irqrestore(&port->lock, flags);
	return sl2vl_get(port, smp);
}

static u16 vlarb_get(struct ibds_port *port, struct ib_smp *smp)
{
	u8 *table = ibds_vlarb_block(port->sma->vlarb,
				     be32_to_cpu(smp->attr_mod) >> 16);

	if (!table)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	memcpy(smp->data, table, sizeof(smp->data));
	return 0;
}

static u16 vlarb_set(struct ibds_port *port, struct ib_smp *smp)
{
	u8 *table = ibds_vlarb_block(port->sma->vlarb,
				     be32_to_cpu(smp->attr_mod) >> 16);
	unsigned long flags;

	if (!table)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	spin_lock_irqsave(&port->lock, flags);
	memcpy(table, smp->data, sizeof(smp->data));
	spin_unlock_irqrestore(&port->lock, flags);
	return 0;
}

static u16 vendor_diag_get(struct ibds_port *port, struct ib_smp *smp)
{
	memset(smp->data, 0, sizeof(smp->data));
	return 0;
}

/**
 * struct ibds_attr - a subnet management attribute of an HCA port
 * @id: AttributeID
 * @get: fills smp->data, returns a MAD status
 * @set: applies smp->data and fills in the result; NULL: read-only
 */
struct ibds_attr {
	__be16 id;
	u16 (*get)(struct ibds_port *port, struct ib_smp *smp);
	u16 (*set)(struct ibds_port *port, struct ib_smp *smp);
};

static const struct ibds_attr ibds_attrs[] = {
	{ IB_SMP_ATTR_NODE_DESC, node_desc_get },
	{ IB_SMP_ATTR_NODE_INFO, node_info_get },
	{ IB_SMP_ATTR_GUID_INFO, guid_info_get, guid_info_set },
	{ IB_SMP_ATTR_PORT_INFO, port_info_get, port_info_set },
	{ IB_SMP_ATTR_PKEY_TABLE, pkey_table_get, pkey_table_set },
	{ IB_SMP_ATTR_SL_TO_VL_TABLE, sl2vl_get, sl2vl_set },
	{ IB_SMP_ATTR_VL_ARB_TABLE, vlarb_get, vlarb_set },
	{ IB_SMP_ATTR_VENDOR_DIAG, vendor_diag_get },
};

static u16 ibds_attr_run(struct ibds_port *port, struct ib_smp *smp)
{
	bool set = smp->method == IB_MGMT_METHOD_SET;
	int i;

	if (smp->base_version != 1 || smp->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	for (i = 0; i < ARRAY_SIZE(ibds_attrs); i++) {
		const struct ibds_attr *attr = &ibds_attrs[i];

		if (attr->id != smp->attr_id)
			continue;
		if (set && !attr->set)
			break;
		return set ? attr->set(port, smp) : attr->get(port, smp);
	}
	return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
}

static bool ibds_smp_allowed(struct ibds_port *port, const struct ib_smp *smp)
{
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&port->lock, flags);
	ok = ibds_mkey_ok(&port->sma->pi, smp);
	spin_unlock_irqrestore(&port->lock, flags);
	return ok;
}

static int ibds_sma_process(struct ibds_port *port, int flags,
			    const struct ib_smp *in, struct ib_smp *out)
{
	u16 status;

	switch (in->method) {
	case IB_MGMT_METHOD_GET:
	case IB_MGMT_METHOD_SET:
		break;
	case IB_MGMT_METHOD_TRAP_REPRESS:
		ibds_traps_repress(&port->sma->traps, in);
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
	/* An SM on this port answers that itself. */
	if (in->attr_id == IB_SMP_ATTR_SM_INFO)
		return IB_MAD_RESULT_SUCCESS;
	if (!(flags & IB_MAD_IGNORE_MKEY) && !ibds_smp_allowed(port, in))
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;

	memcpy(out, in, sizeof(*out));
	status = ibds_attr_run(port, out);
	out->method = IB_MGMT_METHOD_GET_RESP;
	out->status = cpu_to_be16(status);
	if (out->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		out->status |= IB_SMP_DIRECTION;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

/* ---- performance management --------------------------------------------- */

static void ibds_port_raw(const struct ibds_port *port, u64 *raw)
{
	ibds_pma_raw(port, raw);
	raw[IBDS_PMA_LINK_DOWNED] = READ_ONCE(port->sma->pma.link_downed);
}

static int ibds_hca_pma_process(const struct ibds_dev *dev,
				const struct ib_mad *in, struct ib_mad *out)
{
	u64 raw[IBDS_PMA_COUNTERS];
	struct ibds_pma_query query;
	u32 n;

	if (in->mad_hdr.method != IB_MGMT_METHOD_GET &&
	    in->mad_hdr.method != IB_MGMT_METHOD_SET)
		return IB_MAD_RESULT_SUCCESS;
	memcpy(out, in, sizeof(*out));
	ibds_pma_begin(&query, (struct ib_pma_mad *)out, 1, dev->caps.ports);
	for (n = query.lo; n <= query.hi; n++) {
		const struct ibds_port *port = &dev->port[n - 1];

		ibds_port_raw(port, raw);
		ibds_pma_port(&query, &port->sma->pma, raw);
	}
	ibds_pma_end(&query);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

/**
 * ibds_port_link_error - count errors at a port, see ibds_traps_link_error()
 * @port: HCA port
 * @text: which and how many; modified
 *
 * Return: 0 or -errno.
 */
int ibds_port_link_error(struct ibds_port *port, char *text)
{
	return ibds_traps_link_error(&port->sma->traps, &port->sma->pma,
				     port->num, text);
}

/**
 * ibds_port_errors_show - print a port's counters as its PMA shows them
 * @m: file to print to
 * @port: HCA port
 */
void ibds_port_errors_show(struct seq_file *m, const struct ibds_port *port)
{
	u64 raw[IBDS_PMA_COUNTERS];

	ibds_port_raw(port, raw);
	ibds_pma_show(m, &port->sma->pma, raw);
}

int ibds_process_mad(struct ib_device *ibdev, int flags, u32 port_num,
		     const struct ib_wc *wc, const struct ib_grh *grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index)
{
	struct ibds_port *port = &to_ibds_dev(ibdev)->port[port_num - 1];

	ibds_call(ibdev, IBDS_CALL_PROCESS_MAD);
	/*
	 * ib_mad must not answer either, which it does for requests that are
	 * not consumed.
	 */
	if (!READ_ONCE(port->dev->answering) &&
	    (in->mad_hdr.method == IB_MGMT_METHOD_GET ||
	     in->mad_hdr.method == IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;

	switch (in->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		return ibds_sma_process(port, flags, (const struct ib_smp *)in,
					(struct ib_smp *)out);
	case IB_MGMT_CLASS_PERF_MGMT:
		return ibds_hca_pma_process(port->dev, in, out);
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
}

/* ---- setup and teardown ------------------------------------------------- */

static u16 ibds_port_cap_mask2(const struct ibds_caps *caps)
{
	u16 mask = 0;

	if (caps->width == IB_WIDTH_2X)
		mask |= IB_PORT_LINK_WIDTH_2X_SUP;
	if (caps->speed >= IB_SPEED_HDR)
		mask |= IB_PORT_LINK_SPEED_HDR_SUP;
	if (caps->speed >= IB_SPEED_NDR)
		mask |= IB_PORT_LINK_SPEED_NDR_SUP;
	return mask;
}

static u32 ibds_port_cap_mask(const struct ibds_caps *caps)
{
	u32 mask = IB_PORT_TRAP_SUP | IB_PORT_SL_MAP_SUP |
		   IB_PORT_SYS_IMAGE_GUID_SUP | IB_PORT_CLIENT_REG_SUP |
		   IB_PORT_CAP_MASK_NOTICE_SUP |
		   IB_PORT_OTHER_LOCAL_CHANGES_SUP;

	if (caps->speed > IB_SPEED_QDR)
		mask |= IB_PORT_EXTENDED_SPEEDS_SUP;
	if (ibds_port_cap_mask2(caps))
		mask |= IB_PORT_CAP_MASK2_SUP;
	return mask;
}

static void ibds_sma_init(struct ibds_port *port)
{
	const struct ibds_caps *caps = &port->dev->caps;
	struct ibds_sma *sma = port->sma;
	u32 i;

	ibds_pi_set_speed(&sma->pi, caps->width, caps->speed);
	sma->pi.phys_downdef = IB_PORT_PHYS_STATE_POLLING;
	sma->pi.initreply_mtucap = ib_mtu_int_to_enum(caps->mtu);
	sma->pi.opvl_flags = IBDS_VL_CAP << 4;
	sma->pi.vlarb_high_cap = 32;
	sma->pi.vlarb_low_cap = 32;
	sma->pi.guid_cap = caps->gids;
	sma->pi.resp_time = IBDS_RESP_TIME;
	sma->pi.cap_mask2 = cpu_to_be16(ibds_port_cap_mask2(caps));
	/* SL n to VL n modulo the number of VLs, two per byte. */
	for (i = 0; i < ARRAY_SIZE(sma->sl2vl); i++)
		sma->sl2vl[i] = (2 * i % 8) << 4 | ((2 * i + 1) % 8);
	ibds_traps_init(&sma->traps, port, NULL);
}

/**
 * ibds_port_init - set up a port as it is after power on
 * @port: zeroed port
 * @dev: its HCA, with caps and node GUID set
 * @num: 1 or 2
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_port_init(struct ibds_port *port, struct ibds_dev *dev, u32 num)
{
	port->dev = dev;
	port->num = num;
	spin_lock_init(&port->lock);
	spin_lock_init(&port->arrivals);
	port->sma = kzalloc_obj(*port->sma);
	port->counters = alloc_percpu(struct ibds_counters);
	if (!port->sma || !port->counters || ibds_pcap_alloc(port)) {
		free_percpu(port->counters);
		kfree(port->sma);
		return -ENOMEM;
	}
	port->guid = cpu_to_be64(be64_to_cpu(dev->node_guid) + num);
	port->guids[0] = port->guid;
	port->gid_prefix = cpu_to_be64(IBDS_LL_PREFIX);
	port->pkeys[0] = IB_DEFAULT_PKEY_FULL;
	port->state = IB_PORT_DOWN;
	port->phys_state = IB_PORT_PHYS_STATE_POLLING;
	port->mtu_active = dev->caps.mtu;
	port->cap_mask = ibds_port_cap_mask(&dev->caps);
	port->subnet_timeout = IBDS_SUBNET_TIMEOUT;
	port->vl_cap = IBDS_VL_CAP;
	ibds_sma_init(port);
	return 0;
}

/**
 * ibds_port_exit - undo ibds_port_init()
 * @port: port that is not attached to the switch any more
 */
void ibds_port_exit(struct ibds_port *port)
{
	ibds_traps_exit(&port->sma->traps);
	ibds_pcap_free(port);
	free_percpu(port->counters);
	kfree(port->sma);
}
