// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the switch: forwarding, links, management packets on their way
 *
 * One switch holds the fabric together.  It forwards by the linear and the
 * multicast forwarding table as the SM programs them (IBA vol 1, 18.2.4) and
 * knows nothing about routes otherwise: a LID the SM did not enter goes
 * nowhere.  P_Keys are not enforced here, and SwitchInfo says so.
 *
 * A link has two ends, the switch port (struct ibds_sw_port) and the HCA port
 * (struct ibds_port), each with a state of its own that only the SM advances
 * (7.2.7).  They train and fall together; ibds_switch.lock serialises that.
 *
 * Data is forwarded without locks under RCU.  Management packets come through
 * the delay line, one at a time, see fabric.h.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "fabric.h"

#define IBDS_SWITCH_GUID	0x021bd5ff00000000ULL

static unsigned int switch_ports = 36;
module_param(switch_ports, uint, 0444);
MODULE_PARM_DESC(switch_ports,
		 "Ports of the switch, 1 to 254; the SM asks after each one");

struct ibds_switch ibds_sw;

/* ---- forwarding --------------------------------------------------------- */

/**
 * ibds_switch_peer - HCA port at the other end of a switch port
 * @out_port: switch port
 *
 * Context: RCU read side.
 * Return: the port or NULL.
 */
struct ibds_port *ibds_switch_peer(u8 out_port)
{
	if (!out_port || out_port > ibds_sw.ports)
		return NULL;
	return rcu_dereference(ibds_sw.port[out_port].peer);
}

static u8 ibds_lft_lookup(u16 dlid)
{
	if (dlid >= IBDS_LFT_SIZE || dlid > READ_ONCE(ibds_sw.lin_top))
		return IBDS_LFT_NONE;
	return READ_ONCE(ibds_sw.lft[dlid]);
}

/* May data leave the switch by @out?  Both ends of the link must agree. */
static struct ibds_port *ibds_data_peer(u32 out)
{
	struct ibds_port *to = ibds_switch_peer(out);

	if (!to || READ_ONCE(ibds_sw.port[out].state) != IB_PORT_ACTIVE ||
	    READ_ONCE(to->state) < IB_PORT_ARMED)
		return NULL;
	return to;
}

/* May data enter the switch from @from? */
static bool ibds_data_enters(struct ibds_port *from)
{
	u32 in = from->sw_port;

	return READ_ONCE(from->state) == IB_PORT_ACTIVE && in &&
	       READ_ONCE(ibds_sw.port[in].state) >= IB_PORT_ARMED;
}

struct ibds_port *ibds_route(struct ibds_port *from, u16 dlid)
{
	struct ibds_port *to;

	if (!ibds_data_enters(from))
		return NULL;
	if (ibds_port_owns_lid(from, dlid))
		return from;
	to = ibds_data_peer(ibds_lft_lookup(dlid));
	/* An HCA drops what is not for one of its LIDs (7.8.3). */
	if (!to || !ibds_port_owns_lid(to, dlid))
		return NULL;
	return to;
}

/*
 * A hint is worth something while nothing has changed since: the epoch, and in
 * the lowest octet the switch port behind which the destination is.
 */
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint)
{
	/* Pairs with ibds_route_changed(): what follows is no older. */
	u64 epoch = atomic64_read_acquire(&ibds_sw.epoch);
	u64 known = READ_ONCE(*hint);
	struct ibds_port *to;

	if (likely(known >> 8 == epoch))
		return rcu_dereference(ibds_sw.port[known & 0xff].peer);
	to = ibds_route(from, dlid);
	if (to)
		WRITE_ONCE(*hint, epoch << 8 | to->sw_port);
	return to;
}

/**
 * ibds_route_changed - hints of where LIDs are become void
 *
 * To be called after any change that ibds_route() looks at: tables, LIDs, port
 * states, cables.
 */
void ibds_route_changed(void)
{
	/* Pairs with ibds_route_hint(): the change is there before the count. */
	smp_mb__before_atomic();
	atomic64_inc(&ibds_sw.epoch);
}

void ibds_route_mc(struct ibds_port *from, u16 mlid,
		   void (*fn)(struct ibds_port *to, void *arg), void *arg)
{
	u32 index = mlid - IBDS_MFT_BASE;
	u16 top = READ_ONCE(ibds_sw.mc_top);
	struct ibds_port *to;
	unsigned long mask;
	u32 pos, bit;

	if (mlid < IBDS_MFT_BASE || index >= IBDS_MFT_SIZE ||
	    (top && mlid > top) || !ibds_data_enters(from))
		return;
	for (pos = 0; pos <= ibds_sw.ports / 16; pos++) {
		mask = READ_ONCE(ibds_sw.mft[index][pos]);
		for_each_set_bit(bit, &mask, 16) {
			if (pos * 16 + bit == from->sw_port)
				continue;
			to = ibds_data_peer(pos * 16 + bit);
			if (to)
				fn(to, arg);
		}
	}
}

/* ---- links -------------------------------------------------------------- */

/**
 * ibds_switch_port_of - the switch port an HCA port is cabled to
 * @port: HCA port that was attached
 *
 * Return: the switch port.
 */
struct ibds_sw_port *ibds_switch_port_of(struct ibds_port *port)
{
	return &ibds_sw.port[port->sw_port];
}

static void ibds_link_end(struct ibds_port *port, u8 state, u8 phys)
{
	spin_lock(&port->lock);
	WRITE_ONCE(port->state, state);
	WRITE_ONCE(port->phys_state, phys);
	if (state == IB_PORT_DOWN)
		port->sma->pma.link_downed++;
	spin_unlock(&port->lock);
}

static u8 ibds_phys_down(bool disabled)
{
	return disabled ? IB_PORT_PHYS_STATE_DISABLED :
			  IB_PORT_PHYS_STATE_POLLING;
}

static void ibds_link_down(struct ibds_sw_port *sp, struct ibds_port *port)
{
	lockdep_assert_held(&ibds_sw.lock);
	WRITE_ONCE(sp->state, IB_PORT_DOWN);
	sp->phys = ibds_phys_down(sp->disabled);
	sp->pma.link_downed++;
	if (port)
		ibds_link_end(port, IB_PORT_DOWN,
			      ibds_phys_down(port->sma->disabled));
}

static void ibds_link_train(struct ibds_sw_port *sp, struct ibds_port *port)
{
	lockdep_assert_held(&ibds_sw.lock);
	WRITE_ONCE(sp->state, IB_PORT_INIT);
	sp->phys = IB_PORT_PHYS_STATE_LINK_UP;
	sp->pi.width_active = port->sma->pi.width_active;
	sp->pi.speedact_enabled = (port->sma->pi.speedact_enabled & 0xf0) |
				  (sp->pi.speedact_enabled & 0x0f);
	sp->pi.extact_extsup = (port->sma->pi.extact_extsup & 0xf0) |
			       (sp->pi.extact_extsup & 0x0f);
	ibds_link_end(port, IB_PORT_INIT, IB_PORT_PHYS_STATE_LINK_UP);
}

/* Bits of what ibds_link_settle() found changed. */
#define IBDS_LINK_CHANGED	BIT(0)
#define IBDS_LINK_WAS_ACTIVE	BIT(1)

static u32 ibds_link_settle(struct ibds_sw_port *sp, struct ibds_port *port,
			    bool bounce)
{
	bool want = port && port->link_up && !sp->disabled &&
		    !port->sma->disabled;
	bool up = sp->state != IB_PORT_DOWN;
	u32 changed = 0;

	lockdep_assert_held(&ibds_sw.lock);
	if (up && (!want || bounce)) {
		changed = IBDS_LINK_CHANGED;
		if (port && port->state == IB_PORT_ACTIVE)
			changed |= IBDS_LINK_WAS_ACTIVE;
		ibds_link_down(sp, port);
		up = false;
	}
	if (want && !up) {
		changed |= IBDS_LINK_CHANGED;
		ibds_link_train(sp, port);
	}
	if (!want && !changed) {
		/* Only polling or disabled, nobody is told. */
		sp->phys = ibds_phys_down(sp->disabled);
		if (port)
			WRITE_ONCE(port->phys_state,
				   ibds_phys_down(port->sma->disabled));
	}
	if (changed)
		ibds_sw.state_change = true;
	return changed;
}

/* Trap 128, IBA vol 1, 14.2.5.1: some port went down or came up. */
static void ibds_link_trap(void)
{
	__be16 lid = ibds_sw.port[0].pi.lid;
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_URGENT,
		.prod_type_lsb = IB_NOTICE_PROD_SWITCH,
		.trap_num = cpu_to_be16(IBDS_TRAP_LINK_STATE),
		.issuer_lid = lid,
	};

	memcpy(notice.details.raw_data.details, &lid, sizeof(lid));
	ibds_traps_raise(&ibds_sw.traps, &notice);
}

/**
 * ibds_link_update - make a link what cable and ports say
 * @sp: switch port
 * @bounce: take it down first
 *
 * Context: the HCA port must not go away: RCU read side or its owner.
 */
void ibds_link_update(struct ibds_sw_port *sp, bool bounce)
{
	struct ibds_port *port;
	unsigned long flags;
	u32 changed;

	rcu_read_lock();
	port = rcu_dereference(sp->peer);
	spin_lock_irqsave(&ibds_sw.lock, flags);
	changed = ibds_link_settle(sp, port, bounce);
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_route_changed();
	if (changed & IBDS_LINK_WAS_ACTIVE)
		ibds_port_event(port, IB_EVENT_PORT_ERR);
	if (changed)
		ibds_link_trap();
	rcu_read_unlock();
}

void ibds_port_set_link(struct ibds_port *port, bool up)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_sw.lock, flags);
	port->link_up = up && !port->dev->fatal;
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_link_update(ibds_switch_port_of(port), false);
}

int ibds_switch_attach(struct ibds_port *port)
{
	u32 n;

	for (n = 1; n <= ibds_sw.ports; n++) {
		struct ibds_sw_port *sp = &ibds_sw.port[n];

		if (rcu_access_pointer(sp->peer))
			continue;
		port->sw_port = n;
		memset(&sp->pma, 0, sizeof(sp->pma));
		rcu_assign_pointer(sp->peer, port);
		ibds_route_changed();
		return 0;
	}
	pr_err("all %u switch ports are taken, see parameter switch_ports\n",
	       ibds_sw.ports);
	return -ENOSPC;
}

/*
 * Nobody finds @port any more; after a grace period and ibds_line_purge() nobody
 * delivers to it.
 */
void ibds_switch_detach(struct ibds_port *port)
{
	struct ibds_sw_port *sp = ibds_switch_port_of(port);

	ibds_port_set_link(port, false);
	RCU_INIT_POINTER(sp->peer, NULL);
	ibds_route_changed();
}

/**
 * ibds_switch_relearn - enter a new LID of an HCA port as an SM would
 * @port: HCA port
 * @old_lid: no longer its, 0: none
 * @new_lid: now its
 */
void ibds_switch_relearn(struct ibds_port *port, u16 old_lid, u16 new_lid)
{
	if (old_lid && old_lid < IBDS_LFT_SIZE &&
	    ibds_sw.lft[old_lid] == port->sw_port)
		WRITE_ONCE(ibds_sw.lft[old_lid], IBDS_LFT_NONE);
	WRITE_ONCE(ibds_sw.lft[new_lid], port->sw_port);
	if (new_lid > ibds_sw.lin_top)
		WRITE_ONCE(ibds_sw.lin_top, new_lid);
	ibds_route_changed();
}

/* ---- management packets ------------------------------------------------- */

/*
 * Out of a port.  Only SMPs, on VL15, pass a link that is not yet Active
 * (7.2.7, 7.6.4).  Consumes @pkt.
 */
static void ibds_mad_out(u8 out, struct ibds_pkt *pkt)
{
	struct ibds_port *to = ibds_switch_peer(out);
	u8 need = pkt->dqpn ? IB_PORT_ACTIVE : IB_PORT_INIT;

	if (!to) {
		ibds_sw_count(drop_no_route);
		ibds_pkt_free(pkt);
	} else if (READ_ONCE(ibds_sw.port[out].state) < need) {
		ibds_sw_count(drop_port_down);
		ibds_pkt_free(pkt);
	} else {
		pkt->out_port = out;
		ibds_mad_deliver(to, pkt);
	}
}

static void ibds_mad_unicast(struct ibds_pkt *pkt)
{
	ibds_sw_count(unicast);
	ibds_mad_out(ibds_lft_lookup(pkt->dlid), pkt);
}

/**
 * ibds_switch_originate - send a MAD that the switch itself made
 * @pkt: LID routed; consumed
 *
 * Context: work item on ibds_wq, RCU read side.
 */
void ibds_switch_originate(struct ibds_pkt *pkt)
{
	pkt->slid = be16_to_cpu(ibds_sw.port[0].pi.lid);
	ibds_mad_unicast(pkt);
}

static void ibds_mad_drop_bad(struct ibds_pkt *pkt)
{
	ibds_sw_count(drop_bad_route);
	ibds_pkt_free(pkt);
}

enum ibds_dr_step {
	IBDS_DR_DROP,		/* the hop pointer makes no sense here */
	IBDS_DR_FORWARD,	/* next hop of the directed route */
	IBDS_DR_LOCAL,		/* for this node */
	IBDS_DR_LID,		/* the directed part is over, LID routed on */
};

/* A request on its way out: C14-9. */
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

/* A response on its way back: C14-13.  No SM lives on the switch. */
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

/* Send a response of our own along its directed route.  Consumes @pkt. */
static void ibds_dr_answer(struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;
	u8 out = 0;

	switch (ibds_dr_response(smp, &out)) {
	case IBDS_DR_FORWARD:
		pkt->slid = IBDS_LID_PERMISSIVE;
		pkt->dlid = IBDS_LID_PERMISSIVE;
		ibds_mad_out(out, pkt);
		break;
	case IBDS_DR_LID:
		pkt->dlid = be16_to_cpu(smp->dr_slid);
		ibds_switch_originate(pkt);
		break;
	default:
		ibds_mad_drop_bad(pkt);
	}
}

/* Turn a request into a packet back to its sender. */
static void ibds_pkt_turn(struct ibds_pkt *pkt)
{
	pkt->dlid = pkt->slid;
	pkt->dqpn = pkt->sqpn;
	pkt->sqpn = pkt->dqpn ? 1 : 0;
	pkt->grh_valid = false;
	pkt->imm_valid = false;
	pkt->solicited = false;
}

static void ibds_smp_local(struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;

	if (!ibds_switch_sma(smp, pkt->in_port)) {
		ibds_pkt_free(pkt);
		return;
	}
	ibds_pkt_turn(pkt);
	pkt->sqpn = 0;
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE &&
	    smp->dr_dlid == IB_LID_PERMISSIVE)
		ibds_dr_answer(pkt);
	else
		ibds_switch_originate(pkt);
}

static void ibds_smp_directed(struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;
	enum ibds_dr_step step;
	u8 out = 0;

	ibds_sw_count(smp_direct);
	if (smp->hop_cnt >= IB_SMP_MAX_PATH_HOPS) {
		ibds_mad_drop_bad(pkt);
		return;
	}
	step = ib_get_smp_direction(smp) ? ibds_dr_response(smp, &out) :
		ibds_dr_request(smp, pkt->in_port, &out);
	switch (step) {
	case IBDS_DR_FORWARD:
		pkt->slid = IBDS_LID_PERMISSIVE;
		pkt->dlid = IBDS_LID_PERMISSIVE;
		ibds_mad_out(out, pkt);
		break;
	case IBDS_DR_LID:
		pkt->dlid = be16_to_cpu(ib_get_smp_direction(smp) ?
					smp->dr_slid : smp->dr_dlid);
		ibds_switch_originate(pkt);
		break;
	case IBDS_DR_LOCAL:
		ibds_smp_local(pkt);
		break;
	default:
		ibds_mad_drop_bad(pkt);
	}
}

static void ibds_switch_smp(struct ibds_pkt *pkt)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;

	ibds_sw_count(smp);
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		ibds_smp_directed(pkt);
	else if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_LID_ROUTED &&
		 pkt->dlid != IBDS_LID_PERMISSIVE)
		ibds_smp_local(pkt);
	else
		ibds_mad_drop_bad(pkt);
}

/* A class that nobody here has; IBA vol 1, 13.4.7: what asks gets an answer. */
static bool ibds_gmp_refuse(struct ib_mad_hdr *hdr)
{
	if (hdr->method != IB_MGMT_METHOD_GET &&
	    hdr->method != IB_MGMT_METHOD_SET)
		return false;
	hdr->method = IB_MGMT_METHOD_GET_RESP;
	hdr->status = cpu_to_be16(IB_MGMT_MAD_STATUS_BAD_VERSION);
	return true;
}

/* Of the general services only performance management lives on the switch. */
static bool ibds_gmp_answer(struct ib_pma_mad *mad)
{
	if (mad->mad_hdr.mgmt_class == IB_MGMT_CLASS_PERF_MGMT)
		return ibds_switch_pma(mad);
	return ibds_gmp_refuse(&mad->mad_hdr);
}

static void ibds_switch_gmp(struct ibds_pkt *pkt)
{
	ibds_sw_count(gmp);
	if (pkt->dqpn != 1 || pkt->dlid == IBDS_LID_PERMISSIVE ||
	    !ibds_gmp_answer((struct ib_pma_mad *)pkt->data)) {
		ibds_sw_count(drop_class);
		ibds_pkt_free(pkt);
		return;
	}
	ibds_pkt_turn(pkt);
	pkt->qkey = IB_QP1_QKEY;
	ibds_switch_originate(pkt);
}

/**
 * ibds_switch_mad - a MAD enters the switch
 * @pkt: with in_port set; consumed
 *
 * Context: work item of the delay line, RCU read side.
 */
void ibds_switch_mad(struct ibds_pkt *pkt)
{
	u8 need = pkt->dqpn ? IB_PORT_ARMED : IB_PORT_INIT;
	u16 own = be16_to_cpu(ibds_sw.port[0].pi.lid);

	if (READ_ONCE(ibds_sw.port[pkt->in_port].state) < need) {
		ibds_sw_count(drop_port_down);
		ibds_pkt_free(pkt);
	} else if (pkt->dlid != IBDS_LID_PERMISSIVE &&
		   (!own || pkt->dlid != own)) {
		ibds_mad_unicast(pkt);
	} else if (pkt->len != IBDS_MAD_SIZE) {
		ibds_sw_count(drop_malformed);
		ibds_pkt_free(pkt);
	} else if (pkt->dqpn) {
		ibds_switch_gmp(pkt);
	} else {
		ibds_switch_smp(pkt);
	}
}

/* ---- life --------------------------------------------------------------- */

static void ibds_switch_free(void)
{
	kvfree(ibds_sw.lft);
	kvfree(ibds_sw.mft);
	kvfree(ibds_sw.sl2vl);
	kvfree(ibds_sw.port);
}

static int ibds_switch_alloc(void)
{
	u32 n = ibds_sw.ports + 1;

	ibds_sw.lft = kvmalloc(IBDS_LFT_SIZE, GFP_KERNEL);
	ibds_sw.mft = kvzalloc_objs(*ibds_sw.mft, IBDS_MFT_SIZE);
	ibds_sw.sl2vl = kvcalloc(n, n * sizeof(*ibds_sw.sl2vl), GFP_KERNEL);
	ibds_sw.port = kvzalloc_objs(*ibds_sw.port, n);
	if (ibds_sw.lft && ibds_sw.mft && ibds_sw.sl2vl && ibds_sw.port)
		return 0;
	ibds_switch_free();
	return -ENOMEM;
}

static void ibds_sw_port_init(u32 n)
{
	struct ibds_sw_port *sp = &ibds_sw.port[n];
	struct ibds_portinfo *pi = &sp->pi;

	ibds_pi_set_speed(pi, IB_WIDTH_12X, IB_SPEED_NDR);
	pi->width_active = IB_WIDTH_4X;
	pi->mtu_smsl = IB_MTU_4096 << 4;
	pi->initreply_mtucap = IB_MTU_4096;
	pi->vlcap_inittype = 4 << 4;
	pi->opvl_flags = pi->vlcap_inittype;
	pi->vlarb_high_cap = 32;
	pi->vlarb_low_cap = 32;
	pi->phys_downdef = IB_PORT_PHYS_STATE_POLLING;
	sp->pkeys[0] = IB_DEFAULT_PKEY_FULL;
	sp->state = IB_PORT_DOWN;
	sp->phys = IB_PORT_PHYS_STATE_POLLING;
	if (n)
		return;
	/*
	 * Base port 0 has no link (18.2.3.1); it counts as always up.  Its speed
	 * limits the paths to it, so it has one that every SM knows.
	 */
	ibds_pi_set_speed(pi, IB_WIDTH_4X, IB_SPEED_EDR);
	sp->state = IB_PORT_ACTIVE;
	sp->phys = IB_PORT_PHYS_STATE_LINK_UP;
	pi->gid_prefix = cpu_to_be64(0xfe80000000000000ULL);
	pi->guid_cap = 1;
	pi->cap_mask = cpu_to_be32(IB_PORT_TRAP_SUP | IB_PORT_SL_MAP_SUP |
				   IB_PORT_SYS_IMAGE_GUID_SUP |
				   IB_PORT_EXTENDED_SPEEDS_SUP);
	pi->rereg_timeout = 18;
	pi->resp_time = 8;
}

int ibds_switch_init(void)
{
	u32 n;
	int err;

	if (!switch_ports || switch_ports > IBDS_SWITCH_PORTS) {
		pr_err("switch_ports=%u is not in 1..%u\n", switch_ports,
		       IBDS_SWITCH_PORTS);
		return -EINVAL;
	}
	spin_lock_init(&ibds_sw.lock);
	atomic64_set(&ibds_sw.epoch, 1);
	ibds_sw.ports = switch_ports;
	ibds_sw.guid = cpu_to_be64(IBDS_SWITCH_GUID);
	err = ibds_switch_alloc();
	if (err)
		return err;
	memset(ibds_sw.lft, IBDS_LFT_NONE, IBDS_LFT_SIZE);
	for (n = 0; n <= ibds_sw.ports; n++)
		ibds_sw_port_init(n);
	ibds_traps_init(&ibds_sw.traps, NULL);
	return 0;
}

/* The switch sends nothing of its own any more; before ibds_line_exit(). */
void ibds_switch_stop(void)
{
	ibds_traps_exit(&ibds_sw.traps);
}

/* After ibds_line_exit(): packets in the delay line need the tables. */
void ibds_switch_exit(void)
{
	WARN_ON_ONCE(ibds_wq);
	ibds_switch_free();
}

/* ---- debugfs: switch/ --------------------------------------------------- */

static int ports_show(struct seq_file *m, void *unused)
{
	struct ibds_port *peer;
	u32 n;

	rcu_read_lock();
	for (n = 0; n <= ibds_sw.ports; n++) {
		struct ibds_sw_port *sp = &ibds_sw.port[n];

		peer = rcu_dereference(sp->peer);
		if (n && !peer && !sp->disabled)
			continue;
		seq_printf(m, "%u state %u phys %u", n, READ_ONCE(sp->state),
			   READ_ONCE(sp->phys));
		if (peer)
			seq_printf(m, " ibdevsim%u/%u lid %u", peer->dev->id,
				   peer->num, READ_ONCE(peer->lid));
		else if (!n)
			seq_printf(m, " lid %u", be16_to_cpu(sp->pi.lid));
		seq_putc(m, '\n');
	}
	rcu_read_unlock();
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(ports);

static int lft_show(struct seq_file *m, void *unused)
{
	u32 lid;

	for (lid = 0; lid < IBDS_LFT_SIZE; lid++)
		if (ibds_lft_lookup(lid) != IBDS_LFT_NONE)
			seq_printf(m, "%u %u\n", lid, ibds_lft_lookup(lid));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lft);

static void mft_show_ports(struct seq_file *m, const u16 *entry)
{
	u32 port;

	for (port = 0; port <= ibds_sw.ports; port++)
		if (READ_ONCE(entry[port / 16]) & BIT(port % 16))
			seq_printf(m, " %u", port);
}

static int mft_show(struct seq_file *m, void *unused)
{
	u32 i;

	for (i = 0; i < IBDS_MFT_SIZE; i++) {
		if (!memchr_inv(ibds_sw.mft[i], 0, sizeof(*ibds_sw.mft)))
			continue;
		seq_printf(m, "0x%04x", IBDS_MFT_BASE + i);
		mft_show_ports(m, ibds_sw.mft[i]);
		seq_putc(m, '\n');
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mft);

#define COUNTER(type) { #type, offsetof(struct ibds_sw_counters, type) }

static const struct {
	const char *name;
	size_t offset;
} ibds_sw_counter_names[] = {
	COUNTER(smp), COUNTER(smp_direct), COUNTER(gmp), COUNTER(unicast),
	COUNTER(traps), COUNTER(drop_port_down), COUNTER(drop_no_route),
	COUNTER(drop_bad_route), COUNTER(drop_malformed), COUNTER(drop_mkey),
	COUNTER(drop_class),
};

static_assert(sizeof(struct ibds_sw_counters) ==
	      ARRAY_SIZE(ibds_sw_counter_names) * sizeof(u64));

static int counters_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_sw_counter_names); i++) {
		const u64 *count = (void *)&ibds_sw.count +
				   ibds_sw_counter_names[i].offset;

		seq_printf(m, "%s %llu\n", ibds_sw_counter_names[i].name,
			   READ_ONCE(*count));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

/**
 * ibds_switch_debugfs - make the switch's files
 * @root: the module's directory; removed with it
 */
void ibds_switch_debugfs(struct dentry *root)
{
	struct dentry *dir = debugfs_create_dir("switch", root);

	debugfs_create_file("ports", 0444, dir, NULL, &ports_fops);
	debugfs_create_file("lft", 0444, dir, NULL, &lft_fops);
	debugfs_create_file("mft", 0444, dir, NULL, &mft_fops);
	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
}
