/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_ADDR_H
#define IBDEVSIM_ADDR_H

#include "ibdevsim.h"

#define IBDS_PKEY_BASE		0x7fff
#define IBDS_PKEY_FULL		0x8000

/* GRH NxtHdr: a BTH follows; IBA vol 1, 8.3. */
#define IBDS_GRH_NEXT_BTH	0x1b

/**
 * struct ibds_path - address vector as the datapath uses it
 * @hint: cached location of @dlid, for ibds_route_hint()
 * @dlid: destination
 * @path_bits: added to the port's base LID
 * @sl: service level
 * @grh: a GRH is sent, the fields below are valid
 * @hop_limit: GRH HopLmt
 * @sgid_index: index into the port's GID table
 * @vtf: GRH IPVer, TClass and FlowLabel
 * @dgid: GRH DGID
 */
struct ibds_path {
	u64 hint;
	u16 dlid;
	u8 path_bits;
	u8 sl;
	bool grh;
	u8 hop_limit;
	u8 sgid_index;
	__be32 vtf;
	union ib_gid dgid;
};

/* Entry of the port's GID table. */
static inline void ibds_port_gid(const struct ibds_port *port, u32 index,
				 union ib_gid *gid)
{
	gid->global.subnet_prefix = READ_ONCE(port->gid_prefix);
	gid->global.interface_id = index ? READ_ONCE(port->guids[index]) :
					   port->guid;
}

/* Path bits of @dlid: which of the port's 2^LMC LIDs it is. */
static inline u8 ibds_path_bits(const struct ibds_port *port, u16 dlid)
{
	return dlid & ((1 << READ_ONCE(port->lmc)) - 1);
}

/*
 * Membership rules for P_Keys, IBA vol 1, 10.9.3: same base, and at least
 * one of the two is a full member.  Base 0 is invalid.
 */
static inline bool ibds_pkey_match(u16 a, u16 b)
{
	return !((a ^ b) & IBDS_PKEY_BASE) && (a & IBDS_PKEY_BASE) &&
	       ((a | b) & IBDS_PKEY_FULL);
}

static inline bool ibds_port_owns_lid(const struct ibds_port *port, u16 dlid)
{
	u16 lid = READ_ONCE(port->lid);

	return lid && (dlid & (0xffff << READ_ONCE(port->lmc))) == lid;
}

/**
 * ibds_grh_build - build the GRH of a packet, except for PayLen
 * @grh: result
 * @path: address vector
 * @port: sending port
 */
static inline void ibds_grh_build(struct ib_grh *grh,
				  const struct ibds_path *path,
				  const struct ibds_port *port)
{
	grh->version_tclass_flow = path->vtf;
	grh->next_hdr = IBDS_GRH_NEXT_BTH;
	grh->hop_limit = path->hop_limit;
	ibds_port_gid(port, path->sgid_index, &grh->sgid);
	grh->dgid = path->dgid;
}

void ibds_path_init(struct ibds_path *path, const struct ibds_port *port,
		    const struct rdma_ah_attr *attr);
bool ibds_port_has_gid(const struct ibds_port *port, const union ib_gid *gid);

#endif /* IBDEVSIM_ADDR_H */
