// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: switches: tables and forwarding
 *
 * A switch forwards by the linear and the multicast forwarding table as
 * programmed by the SM (IBA vol 1, 18.2.4) and has no other routes: packets to a
 * LID that the SM did not enter are dropped.  P_Keys are not enforced here, as
 * SwitchInfo says.  Packets pass from switch to switch until an HCA port has
 * them, or until they have passed too many.
 *
 * Data is forwarded without locks under RCU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/rculist.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "addr.h"
#include "line.h"
#include "switch.h"

#define IBDS_SWITCH_GUID	0x021bd5ff00000000ULL

/* HCA ports that can be attached, and so have hints that lead to them. */
#define IBDS_SLOTS		32768

static unsigned int switch_ports = 36;
module_param(switch_ports, uint, 0444);
MODULE_PARM_DESC(switch_ports,
		 "Ports of a switch, 1 to 254; the SM asks after each one");

LIST_HEAD(ibds_switches);
DEFINE_SPINLOCK(ibds_link_lock);

/* Counts changes of routes, see ibds_route_hint(). */
static atomic64_t ibds_epoch = ATOMIC64_INIT(1);

/* The attached HCA ports. Written under ibds_bus_mutex, read under RCU. */
static struct ibds_port __rcu **ibds_slots;

/* ---- forwarding --------------------------------------------------------- */

/**
 * ibds_switch_port - a port of a switch by its number
 * @sw: switch
 * @n: number
 *
 * Return: the port, or NULL for port 0 and for numbers of no port.
 */
struct ibds_sw_port *ibds_switch_port(struct ibds_switch *sw, u32 n)
{
	return n && n <= sw->ports ? &sw->port[n] : NULL;
}

/**
 * ibds_cable_free - whether a switch port has no cable
 * @sp: switch port
 *
 * Context: ibds_bus_mutex is held, or the answer may be an old one.
 */
bool ibds_cable_free(const struct ibds_sw_port *sp)
{
	return !rcu_access_pointer(sp->peer) && !rcu_access_pointer(sp->far);
}

/**
 * ibds_lft_lookup - look up a LID in a linear forwarding table
 * @sw: switch
 * @dlid: LID
 *
 * Return: the switch port, %IBDS_LFT_NONE when the SM has not entered the LID.
 */
u8 ibds_lft_lookup(const struct ibds_switch *sw, u16 dlid)
{
	if (dlid >= IBDS_LFT_SIZE || dlid > READ_ONCE(sw->lin_top))
		return IBDS_LFT_NONE;
	return READ_ONCE(sw->lft[dlid]);
}

/* True if data may enter a switch from @from, at @in. */
static bool ibds_data_enters(const struct ibds_port *from,
			     const struct ibds_sw_port *in)
{
	return READ_ONCE(from->state) == IB_PORT_ACTIVE &&
	       READ_ONCE(in->state) >= IB_PORT_ARMED;
}

/**
 * enum ibds_end - where a route ends
 * @IBDS_END_HCA: at an HCA port
 * @IBDS_END_NOWHERE: a black hole: no entry, a switch, or a link that is down
 * @IBDS_END_LOOP: it does not end
 */
enum ibds_end {
	IBDS_END_HCA,
	IBDS_END_NOWHERE,
	IBDS_END_LOOP,
};

/* Follow the tables from @in on; data passes links whose ends agree. */
static enum ibds_end ibds_route_walk(const struct ibds_sw_port *in, u16 dlid,
				     struct ibds_port **to, u32 *hops)
{
	const struct ibds_sw_port *out;

	for (*hops = 1; *hops <= IBDS_MAX_HOPS; ++*hops) {
		out = ibds_switch_port(in->sw, ibds_lft_lookup(in->sw, dlid));
		if (!out || READ_ONCE(out->state) != IB_PORT_ACTIVE)
			return IBDS_END_NOWHERE;
		*to = rcu_dereference(out->peer);
		if (*to)
			return READ_ONCE((*to)->state) < IB_PORT_ARMED ?
				IBDS_END_NOWHERE : IBDS_END_HCA;
		in = rcu_dereference(out->far);
		if (!in || READ_ONCE(in->state) < IB_PORT_ARMED)
			return IBDS_END_NOWHERE;
	}
	return IBDS_END_LOOP;
}

static noinline struct ibds_port *ibds_route(struct ibds_port *from,
					     u16 dlid)
{
	const struct ibds_sw_port *in = rcu_dereference(from->cable);
	struct ibds_port *to;
	u32 hops;

	if (!in || !ibds_data_enters(from, in))
		return NULL;
	if (ibds_port_owns_lid(from, dlid))
		return from;
	/* An HCA drops packets that are not for its LIDs (7.8.3). */
	if (ibds_route_walk(in, dlid, &to, &hops) != IBDS_END_HCA ||
	    !ibds_port_owns_lid(to, dlid))
		return NULL;
	return to;
}

/**
 * ibds_route_hint - find the HCA port that receives a packet
 * @from: HCA port that sends it; receives it itself if it owns @dlid
 * @dlid: destination LID, unicast
 * @hint: kept by the caller for this pair, initially 0: the epoch in which it
 *	is valid and, in the lowest 16 bits, the slot of the destination
 *
 * Context: RCU read side.
 * Return: the port, or NULL for a switch, no port, or one that is not in the
 * required state; the caller counts that.
 */
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint)
{
	/* Pairs with ibds_route_changed(): later reads are at least as new. */
	u64 epoch = atomic64_read_acquire(&ibds_epoch);
	u64 known = READ_ONCE(*hint);
	struct ibds_port *to;

	if (likely(known >> 16 == epoch))
		return rcu_dereference(ibds_slots[known & 0xffff]);
	to = ibds_route(from, dlid);
	if (to)
		WRITE_ONCE(*hint, epoch << 16 | to->slot);
	return to;
}

/**
 * ibds_route_changed - invalidate the hints of senders
 *
 * To be called after any change to what ibds_route() reads: tables, LIDs, port
 * states, cables.
 */
void ibds_route_changed(void)
{
	/*
	 * Pairs with ibds_route_hint(): the change is visible before the count.
	 */
	smp_mb__before_atomic();
	atomic64_inc(&ibds_epoch);
}

/* ---- multicast ---------------------------------------------------------- */

static void ibds_mc_enter(struct ibds_mc_walk *walk,
			  const struct ibds_sw_port *in)
{
	struct ibds_mc_frame *f;
	u16 top = READ_ONCE(in->sw->mc_top);

	if (top && IBDS_MFT_BASE + walk->index > top)
		return;
	if (walk->depth == IBDS_MC_DEPTH) {
		ibds_sw_count(in->sw, drop_loop);
		return;
	}
	f = &walk->frame[walk->depth++];
	f->sw = in->sw;
	f->in = in->num;
	f->pos = 0;
	f->mask = READ_ONCE(in->sw->mft[walk->index][0]);
}

/**
 * ibds_route_mc_begin - find the ports that receive a multicast packet
 * @walk: for ibds_route_mc_next()
 * @from: HCA port that sends it; not among them
 * @mlid: destination LID, multicast
 *
 * Context: RCU read side, until the last ibds_route_mc_next().
 */
void ibds_route_mc_begin(struct ibds_mc_walk *walk,
			 const struct ibds_port *from, u16 mlid)
{
	const struct ibds_sw_port *in = rcu_dereference(from->cable);

	walk->index = mlid - IBDS_MFT_BASE;
	walk->depth = 0;
	walk->left = IBDS_MC_COPIES;
	if (mlid < IBDS_MFT_BASE || walk->index >= IBDS_MFT_SIZE || !in ||
	    !ibds_data_enters(from, in))
		return;
	ibds_mc_enter(walk, in);
}

/* The next port by which the packet leaves the last switch it has entered. */
static struct ibds_sw_port *ibds_mc_out(struct ibds_mc_walk *walk)
{
	struct ibds_mc_frame *f = &walk->frame[walk->depth - 1];
	u32 n;

	while (!f->mask) {
		if (f->pos >= f->sw->ports / 16) {
			walk->depth--;
			return NULL;
		}
		f->mask = READ_ONCE(f->sw->mft[walk->index][++f->pos]);
	}
	n = f->pos * 16 + __ffs(f->mask);
	f->mask &= f->mask - 1;
	if (!n || n > f->sw->ports || n == f->in)
		return NULL;
	return &f->sw->port[n];
}

/**
 * ibds_route_mc_next - find the next port that receives a multicast packet
 * @walk: from ibds_route_mc_begin()
 *
 * Return: the port, NULL when there are no more.
 */
struct ibds_port *ibds_route_mc_next(struct ibds_mc_walk *walk)
{
	const struct ibds_sw_port *out, *far;
	struct ibds_port *to;

	while (walk->depth && walk->left) {
		out = ibds_mc_out(walk);
		if (!out || READ_ONCE(out->state) != IB_PORT_ACTIVE)
			continue;
		if (!--walk->left)
			ibds_sw_count(out->sw, drop_loop);
		to = rcu_dereference(out->peer);
		if (to) {
			if (READ_ONCE(to->state) >= IB_PORT_ARMED)
				return to;
			continue;
		}
		far = rcu_dereference(out->far);
		if (far && READ_ONCE(far->state) >= IB_PORT_ARMED)
			ibds_mc_enter(walk, far);
	}
	return NULL;
}

/* ---- changes by a test --------------------------------------------------- */

/* The tables of @sw and those behind it lead to an HCA port, links aside. */
static bool ibds_leads_to(struct ibds_switch *sw, u16 dlid,
			  const struct ibds_port *port)
{
	const struct ibds_sw_port *out;
	u32 hops;

	for (hops = 0; hops < IBDS_MAX_HOPS; hops++) {
		out = ibds_switch_port(sw, ibds_lft_lookup(sw, dlid));
		if (!out)
			return false;
		if (rcu_access_pointer(out->peer) == port)
			return true;
		out = rcu_dereference(out->far);
		if (!out)
			return false;
		sw = out->sw;
	}
	return false;
}

static void ibds_lft_enter(struct ibds_switch *sw, u16 lid, u8 out)
{
	WRITE_ONCE(sw->lft[lid], out);
	if (lid > READ_ONCE(sw->lin_top))
		WRITE_ONCE(sw->lin_top, lid);
}

static void ibds_lft_clear(struct ibds_switch *sw, u16 lid, u8 out)
{
	if (lid && lid < IBDS_LFT_SIZE && sw->lft[lid] == out)
		WRITE_ONCE(sw->lft[lid], IBDS_LFT_NONE);
}

/**
 * ibds_switch_relearn - enter a new LID of an HCA port as an SM would
 * @port: HCA port
 * @old_lid: its previous LID, 0: none, and then only its own switch learns
 * @new_lid: its new LID
 */
void ibds_switch_relearn(struct ibds_port *port, u16 old_lid, u16 new_lid)
{
	const struct ibds_sw_port *cable;
	struct ibds_switch *sw;

	rcu_read_lock();
	cable = rcu_dereference(port->cable);
	list_for_each_entry_rcu(sw, &ibds_switches, list)
		if (old_lid && ibds_leads_to(sw, old_lid, port))
			ibds_lft_enter(sw, new_lid, sw->lft[old_lid]);
	if (cable)
		ibds_lft_enter(cable->sw, new_lid, cable->num);
	list_for_each_entry_rcu(sw, &ibds_switches, list)
		if (old_lid != new_lid && ibds_leads_to(sw, new_lid, port))
			ibds_lft_clear(sw, old_lid, sw->lft[new_lid]);
	rcu_read_unlock();
	ibds_route_changed();
}

/* ---- slots ---------------------------------------------------------------- */

/**
 * ibds_slot_take - give an HCA port a place in the table of all
 * @port: HCA port
 *
 * Context: ibds_bus_mutex is held.
 * Return: 0 or -ENOSPC.
 */
int ibds_slot_take(struct ibds_port *port)
{
	u32 i;

	for (i = 0; i < IBDS_SLOTS; i++) {
		if (rcu_access_pointer(ibds_slots[i]))
			continue;
		port->slot = i;
		rcu_assign_pointer(ibds_slots[i], port);
		return 0;
	}
	return -ENOSPC;
}

/**
 * ibds_slot_give - take it back
 * @port: HCA port; after a grace period no hint leads to it
 *
 * Context: ibds_bus_mutex is held.
 */
void ibds_slot_give(struct ibds_port *port)
{
	RCU_INIT_POINTER(ibds_slots[port->slot], NULL);
	ibds_route_changed();
}

/**
 * ibds_slot_find - look an HCA port up
 * @id: number of the HCA
 * @num: number of the port
 *
 * Context: ibds_bus_mutex is held.
 * Return: the port or NULL.
 */
struct ibds_port *ibds_slot_find(u32 id, u32 num)
{
	struct ibds_port *port;
	u32 i;

	for (i = 0; i < IBDS_SLOTS; i++) {
		port = rcu_dereference_protected(ibds_slots[i], true);
		if (port && port->dev->id == id && port->num == num)
			return port;
	}
	return NULL;
}

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ibds_sw_port_speed - let a port that has no link have any width and speed
 * @sp: switch port
 *
 * Context: ibds_link_lock is held, or the switch is a new one.
 */
void ibds_sw_port_speed(struct ibds_sw_port *sp)
{
	ibds_pi_set_speed(&sp->pi, IB_WIDTH_12X, IB_SPEED_NDR);
	sp->pi.width_active = IB_WIDTH_4X;
}

static void ibds_sw_port_init(struct ibds_switch *sw, u32 n)
{
	struct ibds_sw_port *sp = &sw->port[n];
	struct ibds_portinfo *pi = &sp->pi;

	sp->sw = sw;
	sp->num = n;
	ibds_sw_port_speed(sp);
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
	 * limits the paths to it, so it is one that every SM knows.
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

/**
 * ibds_switch_free - free a switch
 * @sw: switch that nothing refers to any more, or one that is incomplete
 */
void ibds_switch_free(struct ibds_switch *sw)
{
	kvfree(sw->lft);
	kvfree(sw->mft);
	kvfree(sw->sl2vl);
	kvfree(sw->port);
	kfree(sw);
}

/**
 * ibds_switch_alloc - allocate a switch
 * @id: its number
 * @ports: external ports, 1 to %IBDS_SWITCH_PORTS
 *
 * Return: the switch, not yet among ibds_switches, or NULL.
 */
struct ibds_switch *ibds_switch_alloc(u32 id, u32 ports)
{
	struct ibds_switch *sw = kzalloc_obj(*sw);
	u32 n = ports + 1;

	if (!sw)
		return NULL;
	sw->id = id;
	sw->ports = ports;
	sw->guid = cpu_to_be64(IBDS_SWITCH_GUID + ((u64)id << 8));
	sw->lft = kvmalloc(IBDS_LFT_SIZE, GFP_KERNEL);
	sw->mft = kvzalloc_objs(*sw->mft, IBDS_MFT_SIZE);
	sw->sl2vl = kvcalloc(n, n * sizeof(*sw->sl2vl), GFP_KERNEL);
	sw->port = kvzalloc_objs(*sw->port, n);
	if (!sw->lft || !sw->mft || !sw->sl2vl || !sw->port) {
		ibds_switch_free(sw);
		return NULL;
	}
	memset(sw->lft, IBDS_LFT_NONE, IBDS_LFT_SIZE);
	while (n--)
		ibds_sw_port_init(sw, n);
	return sw;
}

/**
 * ibds_switch_find - look a switch up
 * @id: its number
 *
 * Context: ibds_bus_mutex is held.
 * Return: the switch or NULL.
 */
struct ibds_switch *ibds_switch_find(u32 id)
{
	struct ibds_switch *sw;

	list_for_each_entry(sw, &ibds_switches, list)
		if (sw->id == id)
			return sw;
	return NULL;
}

/**
 * ibds_switch_default_ports - ports of a switch if nobody says how many
 *
 * Return: the module's parameter.
 */
u32 ibds_switch_default_ports(void)
{
	return switch_ports;
}

/**
 * ibds_switch_init - create what all switches share
 *
 * Return: 0, -EINVAL for a bad module parameter, -ENOMEM.
 */
int ibds_switch_init(void)
{
	if (!switch_ports || switch_ports > IBDS_SWITCH_PORTS) {
		pr_err("switch_ports=%u is not in 1..%u\n", switch_ports,
		       IBDS_SWITCH_PORTS);
		return -EINVAL;
	}
	ibds_slots = kvzalloc_objs(*ibds_slots, IBDS_SLOTS);
	return ibds_slots ? 0 : -ENOMEM;
}

/**
 * ibds_switch_exit - undo ibds_switch_init(); no switch is left
 */
void ibds_switch_exit(void)
{
	WARN_ON_ONCE(!list_empty(&ibds_switches));
	kvfree(ibds_slots);
}

/* ---- what debugfs shows ---------------------------------------------------- */

/**
 * ibds_switch_ports_show - print the ports of a switch that have a cable
 * @m: file to print to
 * @sw: switch
 */
void ibds_switch_ports_show(struct seq_file *m, struct ibds_switch *sw)
{
	const struct ibds_sw_port *far;
	const struct ibds_port *peer;
	u32 n;

	rcu_read_lock();
	for (n = 0; n <= sw->ports; n++) {
		struct ibds_sw_port *sp = &sw->port[n];

		peer = rcu_dereference(sp->peer);
		far = rcu_dereference(sp->far);
		if (n && !peer && !far && !sp->disabled)
			continue;
		seq_printf(m, "%u state %u phys %u", n, READ_ONCE(sp->state),
			   READ_ONCE(sp->phys));
		if (peer)
			seq_printf(m, " ibdevsim%u/%u lid %u", peer->dev->id,
				   peer->num, READ_ONCE(peer->lid));
		else if (far)
			seq_printf(m, " switch%u/%u", far->sw->id, far->num);
		else if (!n)
			seq_printf(m, " lid %u", be16_to_cpu(sp->pi.lid));
		seq_putc(m, '\n');
	}
	rcu_read_unlock();
}

/**
 * ibds_switch_lft_show - print the linear forwarding table
 * @m: file to print to
 * @sw: switch
 */
void ibds_switch_lft_show(struct seq_file *m, const struct ibds_switch *sw)
{
	u32 lid;

	for (lid = 0; lid < IBDS_LFT_SIZE; lid++)
		if (ibds_lft_lookup(sw, lid) != IBDS_LFT_NONE)
			seq_printf(m, "%u %u\n", lid, ibds_lft_lookup(sw, lid));
}

/**
 * ibds_switch_sl2vl_show - print the SL to VL tables of ports that have a cable
 * @m: file to print to: input port (0: the switch itself), output port, and the
 *	virtual lane of each of 16 service levels
 * @sw: switch
 */
void ibds_switch_sl2vl_show(struct seq_file *m, const struct ibds_switch *sw)
{
	u32 in, out, i;

	for (in = 0; in <= sw->ports; in++) {
		if (in && ibds_cable_free(&sw->port[in]))
			continue;
		for (out = 1; out <= sw->ports; out++) {
			const u8 *vl = sw->sl2vl[in * (sw->ports + 1) + out];

			if (ibds_cable_free(&sw->port[out]))
				continue;
			seq_printf(m, "%u %u", in, out);
			for (i = 0; i < sizeof(*sw->sl2vl); i++)
				seq_printf(m, " %u %u", vl[i] >> 4, vl[i] & 15);
			seq_putc(m, '\n');
		}
	}
}

/**
 * ibds_switch_mft_show - print the multicast forwarding table
 * @m: file to print to
 * @sw: switch
 */
void ibds_switch_mft_show(struct seq_file *m, const struct ibds_switch *sw)
{
	u32 i, n;

	for (i = 0; i < IBDS_MFT_SIZE; i++) {
		if (!memchr_inv(sw->mft[i], 0, sizeof(*sw->mft)))
			continue;
		seq_printf(m, "0x%04x", IBDS_MFT_BASE + i);
		for (n = 0; n <= sw->ports; n++)
			if (READ_ONCE(sw->mft[i][n / 16]) & BIT(n % 16))
				seq_printf(m, " %u", n);
		seq_putc(m, '\n');
	}
}

/**
 * struct ibds_routes - what ibds_routes_show() has found
 * @pairs: of a port and a LID of another one
 * @bad: those whose route does not lead there
 * @longest: switches on the longest way
 */
struct ibds_routes {
	u32 pairs;
	u32 bad;
	u32 longest;
};

static bool ibds_pair_active(const struct ibds_port *from,
			     const struct ibds_port *to)
{
	return to && from != to && READ_ONCE(from->state) == IB_PORT_ACTIVE &&
		READ_ONCE(to->state) == IB_PORT_ACTIVE;
}

/* Check the route to one LID of a port; print it if it is a bad one. */
static void ibds_pair_show(struct seq_file *m, struct ibds_routes *all,
			   const struct ibds_port *from,
			   const struct ibds_port *to, u16 dlid)
{
	const struct ibds_sw_port *in = rcu_dereference(from->cable);
	enum ibds_end end = IBDS_END_NOWHERE;
	struct ibds_port *found = NULL;
	const char *what;
	u32 hops = 0;

	if (in && READ_ONCE(in->state) >= IB_PORT_ARMED)
		end = ibds_route_walk(in, dlid, &found, &hops);
	all->pairs++;
	if (end == IBDS_END_HCA && found == to) {
		all->longest = max(all->longest, hops);
		return;
	}
	all->bad++;
	what = end == IBDS_END_LOOP ? "loop" :
	       end == IBDS_END_HCA ? "wrong port" : "black hole";
	seq_printf(m, "%u %u %s\n", READ_ONCE(from->lid), dlid, what);
}

/**
 * ibds_routes_show - check the routes between all HCA ports that are active
 * @m: file to print to: a line for each pair of LIDs whose route does not lead
 *	there, and one with numbers
 *
 * Context: process.
 */
void ibds_routes_show(struct seq_file *m)
{
	struct ibds_routes all = {};
	struct ibds_port *from, *to;
	u32 i, j, k;

	for (i = 0; i < IBDS_SLOTS; i++) {
		rcu_read_lock();
		from = rcu_dereference(ibds_slots[i]);
		for (j = 0; from && j < IBDS_SLOTS; j++) {
			to = rcu_dereference(ibds_slots[j]);
			if (!ibds_pair_active(from, to))
				continue;
			for (k = 0; k < 1 << READ_ONCE(to->lmc); k++)
				ibds_pair_show(m, &all, from, to,
					       READ_ONCE(to->lid) + k);
		}
		rcu_read_unlock();
		cond_resched();
	}
	seq_printf(m, "pairs %u bad %u hops %u\n", all.pairs, all.bad,
		   all.longest);
}

#define COUNTER(type) { #type, offsetof(struct ibds_sw_counters, type) }

static const struct {
	const char *name;
	size_t offset;
} ibds_sw_counter_names[] = {
	COUNTER(smp), COUNTER(smp_direct), COUNTER(gmp), COUNTER(unicast),
	COUNTER(traps), COUNTER(drop_port_down), COUNTER(drop_no_route),
	COUNTER(drop_bad_route), COUNTER(drop_malformed), COUNTER(drop_mkey),
	COUNTER(drop_class), COUNTER(drop_loop), COUNTER(drop_full),
};

static_assert(sizeof(struct ibds_sw_counters) ==
	      ARRAY_SIZE(ibds_sw_counter_names) * sizeof(u64));

/**
 * ibds_switch_counters_show - print the counters of a switch
 * @m: file to print to
 * @sw: switch
 */
void ibds_switch_counters_show(struct seq_file *m,
			       const struct ibds_switch *sw)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_sw_counter_names); i++) {
		const u64 *count = (void *)&sw->count +
				   ibds_sw_counter_names[i].offset;

		seq_printf(m, "%s %llu\n", ibds_sw_counter_names[i].name,
			   READ_ONCE(*count));
	}
}
