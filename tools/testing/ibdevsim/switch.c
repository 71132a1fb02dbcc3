// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the switch: tables and forwarding
 *
 * The fabric has one switch.  It forwards by the linear and the multicast
 * forwarding table as programmed by the SM (IBA vol 1, 18.2.4) and has no other
 * routes: packets to a LID that the SM did not enter are dropped.  P_Keys are
 * not enforced here, as SwitchInfo says.
 *
 * Data is forwarded without locks under RCU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "addr.h"
#include "line.h"
#include "switch.h"

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

/**
 * ibds_lft_lookup - look up a LID in the linear forwarding table
 * @dlid: LID
 *
 * Return: the switch port, %IBDS_LFT_NONE when the SM has not entered the LID.
 */
u8 ibds_lft_lookup(u16 dlid)
{
	if (dlid >= IBDS_LFT_SIZE || dlid > READ_ONCE(ibds_sw.lin_top))
		return IBDS_LFT_NONE;
	return READ_ONCE(ibds_sw.lft[dlid]);
}

/* HCA port at @out if data may leave there: both ends of the link agree. */
static struct ibds_port *ibds_data_peer(u32 out)
{
	struct ibds_port *to = ibds_switch_peer(out);

	if (!to || READ_ONCE(ibds_sw.port[out].state) != IB_PORT_ACTIVE ||
	    READ_ONCE(to->state) < IB_PORT_ARMED)
		return NULL;
	return to;
}

/* True if data may enter the switch from @from. */
static bool ibds_data_enters(const struct ibds_port *from)
{
	u32 in = from->sw_port;

	return READ_ONCE(from->state) == IB_PORT_ACTIVE && in &&
	       READ_ONCE(ibds_sw.port[in].state) >= IB_PORT_ARMED;
}

static noinline struct ibds_port *ibds_route(struct ibds_port *from,
					     u16 dlid)
{
	struct ibds_port *to;

	if (!ibds_data_enters(from))
		return NULL;
	if (ibds_port_owns_lid(from, dlid))
		return from;
	to = ibds_data_peer(ibds_lft_lookup(dlid));
	/* An HCA drops packets that are not for its LIDs (7.8.3). */
	if (!to || !ibds_port_owns_lid(to, dlid))
		return NULL;
	return to;
}

/**
 * ibds_route_hint - find the HCA port that receives a packet
 * @from: HCA port that sends it; receives it itself if it owns @dlid
 * @dlid: destination LID, unicast
 * @hint: kept by the caller for this pair, initially 0: the epoch in which it
 *	is valid and, in the lowest byte, the switch port to which the
 *	destination is connected
 *
 * Context: RCU read side.
 * Return: the port, or NULL for the switch itself, no port, or one that is not
 * in the required state; the caller counts that.
 */
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint)
{
	/* Pairs with ibds_route_changed(): later reads are at least as new. */
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
	atomic64_inc(&ibds_sw.epoch);
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
	u32 index = mlid - IBDS_MFT_BASE;
	u16 top = READ_ONCE(ibds_sw.mc_top);

	walk->from = from->sw_port;
	walk->pos = 0;
	walk->mask = 0;
	walk->last = 0;
	if (mlid < IBDS_MFT_BASE || index >= IBDS_MFT_SIZE ||
	    (top && mlid > top) || !ibds_data_enters(from))
		return;
	walk->entry = ibds_sw.mft[index];
	walk->last = ibds_sw.ports / 16;
	walk->mask = READ_ONCE(walk->entry[0]);
}

/**
 * ibds_route_mc_next - find the next port that receives a multicast packet
 * @walk: from ibds_route_mc_begin()
 *
 * Return: the port, NULL when there are no more.
 */
struct ibds_port *ibds_route_mc_next(struct ibds_mc_walk *walk)
{
	struct ibds_port *to;
	u32 out;

	for (;;) {
		while (!walk->mask) {
			if (walk->pos >= walk->last)
				return NULL;
			walk->mask = READ_ONCE(walk->entry[++walk->pos]);
		}
		out = walk->pos * 16 + __ffs(walk->mask);
		walk->mask &= walk->mask - 1;
		to = out == walk->from ? NULL : ibds_data_peer(out);
		if (to)
			return to;
	}
}

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

/**
 * ibds_switch_relearn - enter a new LID of an HCA port as an SM would
 * @port: HCA port
 * @old_lid: its previous LID, 0: none
 * @new_lid: its new LID
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

/* ---- setup and teardown ------------------------------------------------- */

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
 * ibds_switch_init - create the switch
 *
 * Return: 0, -EINVAL for a bad module parameter, -ENOMEM.
 */
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
	return 0;
}

/**
 * ibds_switch_exit - release the switch
 *
 * Call after ibds_line_exit(): packets in the delay line need the tables.
 */
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
 * ibds_switch_debugfs - create the switch's files
 * @root: the module's directory; removed with it
 *
 * Return: their directory.
 */
struct dentry *ibds_switch_debugfs(struct dentry *root)
{
	struct dentry *dir = debugfs_create_dir("switch", root);

	debugfs_create_file("ports", 0444, dir, NULL, &ports_fops);
	debugfs_create_file("lft", 0444, dir, NULL, &lft_fops);
	debugfs_create_file("mft", 0444, dir, NULL, &mft_fops);
	debugfs_create_file("counters", 0444, dir, NULL, &counters_fops);
	return dir;
}
