// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: addresses: LIDs, GIDs and P_Keys of a port, address vectors
 */
#include "addr.h"

/**
 * ibds_path_init - set up the path of an address vector
 * @path: result
 * @port: HCA port
 * @attr: attributes given by the consumer
 *
 * Of the source path bits as many count as the LMC says; programs also give those
 * of a whole LID.
 */
void ibds_path_init(struct ibds_path *path, const struct ibds_port *port,
		    const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	path->hint = 0;
	path->dlid = rdma_ah_get_dlid(attr);
	path->path_bits = ibds_path_bits(port, rdma_ah_get_path_bits(attr));
	path->sl = rdma_ah_get_sl(attr);
	path->grh = rdma_ah_get_ah_flags(attr) & IB_AH_GRH;
	if (!path->grh)
		return;
	path->hop_limit = grh->hop_limit;
	path->sgid_index = grh->sgid_index;
	path->vtf = cpu_to_be32(6 << 28 | grh->traffic_class << 20 |
				(grh->flow_label & 0xfffff));
	path->dgid = grh->dgid;
}

/**
 * ibds_port_has_gid - check whether a GRH with this DGID is for the port
 * @port: HCA port
 * @gid: DGID
 *
 * The default subnet prefix is accepted with any GUID of the port; IBA
 * vol 1, 4.1.1.
 *
 * Return: true if it is.
 */
bool ibds_port_has_gid(const struct ibds_port *port, const union ib_gid *gid)
{
	__be64 prefix = gid->global.subnet_prefix;
	union ib_gid own;
	u32 i;

	if (prefix != READ_ONCE(port->gid_prefix) &&
	    prefix != cpu_to_be64(IBDS_LL_PREFIX))
		return false;
	for (i = 0; i < port->dev->caps.gids; i++) {
		ibds_port_gid(port, i, &own);
		if (own.global.interface_id &&
		    own.global.interface_id == gid->global.interface_id)
			return true;
	}
	return false;
}
