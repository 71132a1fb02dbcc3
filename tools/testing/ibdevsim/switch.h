/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SWITCH_H
#define IBDEVSIM_SWITCH_H

#include "fabric.h"

/**
 * struct ibds_mc_walk - position of ibds_route_mc_next()
 * @entry: entry of the multicast forwarding table, by position
 * @from: switch port that the packet came in by
 * @pos: position
 * @last: last position
 * @mask: remaining ports at @pos
 */
struct ibds_mc_walk {
	const u16 *entry;
	u32 from;
	u32 pos;
	u32 last;
	unsigned long mask;
};

extern struct ibds_switch ibds_sw;

/* There is one writer; debugfs may read at any time. */
#define ibds_sw_count(type) \
	WRITE_ONCE(ibds_sw.count.type, ibds_sw.count.type + 1)

int ibds_switch_init(void);
void ibds_switch_exit(void);
struct dentry *ibds_switch_debugfs(struct dentry *root);
struct ibds_port *ibds_switch_peer(u8 out_port);
struct ibds_sw_port *ibds_switch_port_of(struct ibds_port *port);
u8 ibds_lft_lookup(u16 dlid);
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint);
void ibds_route_mc_begin(struct ibds_mc_walk *walk,
			 const struct ibds_port *from, u16 mlid);
struct ibds_port *ibds_route_mc_next(struct ibds_mc_walk *walk);
void ibds_route_changed(void);
void ibds_switch_relearn(struct ibds_port *port, u16 old_lid, u16 new_lid);

#endif /* IBDEVSIM_SWITCH_H */
