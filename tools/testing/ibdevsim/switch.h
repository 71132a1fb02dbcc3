/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SWITCH_H
#define IBDEVSIM_SWITCH_H

#include "fabric.h"

struct seq_file;

/* A packet that has passed so many switches goes round in circles. */
#define IBDS_MAX_HOPS		64

/* Switches that a multicast packet can pass, and ports that it can leave by. */
#define IBDS_MC_DEPTH		IBDS_MAX_HOPS
#define IBDS_MC_COPIES		4096

/**
 * struct ibds_mc_frame - a switch that a multicast packet passes
 * @sw: switch
 * @in: its port that the packet came in by
 * @pos: position in the entry of its multicast forwarding table
 * @mask: remaining ports there
 */
struct ibds_mc_frame {
	const struct ibds_switch *sw;
	u8 in;
	u8 pos;
	u16 mask;
};

/**
 * struct ibds_mc_walk - position of ibds_route_mc_next()
 * @index: entry of the multicast forwarding tables
 * @depth: frames in use
 * @left: ports that it may still leave by
 * @frame: from the sender's switch on
 */
struct ibds_mc_walk {
	u32 index;
	u32 depth;
	u32 left;
	struct ibds_mc_frame frame[IBDS_MC_DEPTH];
};

extern struct list_head ibds_switches;
extern spinlock_t ibds_link_lock;	/* link states; inside ibds_bus_mutex */

/* There is one writer; debugfs may read at any time. */
#define ibds_sw_count(sw, type) do {					\
	struct ibds_switch *__sw = (sw);				\
									\
	WRITE_ONCE(__sw->count.type, __sw->count.type + 1);		\
} while (0)

int ibds_switch_init(void);
void ibds_switch_exit(void);
struct ibds_switch *ibds_switch_alloc(u32 id, u32 ports);
void ibds_switch_free(struct ibds_switch *sw);
struct ibds_switch *ibds_switch_find(u32 id);
u32 ibds_switch_default_ports(void);
void ibds_switch_ports_show(struct seq_file *m, struct ibds_switch *sw);
void ibds_switch_lft_show(struct seq_file *m, const struct ibds_switch *sw);
void ibds_switch_sl2vl_show(struct seq_file *m, const struct ibds_switch *sw);
void ibds_switch_mft_show(struct seq_file *m, const struct ibds_switch *sw);
void ibds_switch_counters_show(struct seq_file *m,
			       const struct ibds_switch *sw);
struct ibds_sw_port *ibds_switch_port(struct ibds_switch *sw, u32 n);
bool ibds_cable_free(const struct ibds_sw_port *sp);
void ibds_sw_port_speed(struct ibds_sw_port *sp);
u8 ibds_lft_lookup(const struct ibds_switch *sw, u16 dlid);
int ibds_slot_take(struct ibds_port *port);
void ibds_slot_give(struct ibds_port *port);
struct ibds_port *ibds_slot_find(u32 id, u32 num);
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint);
void ibds_route_mc_begin(struct ibds_mc_walk *walk,
			 const struct ibds_port *from, u16 mlid);
struct ibds_port *ibds_route_mc_next(struct ibds_mc_walk *walk);
void ibds_route_changed(void);
void ibds_routes_show(struct seq_file *m);
void ibds_switch_relearn(struct ibds_port *port, u16 old_lid, u16 new_lid);

#endif /* IBDEVSIM_SWITCH_H */
