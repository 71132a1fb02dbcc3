// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: packets outside the fast path
 */
#include <linux/slab.h>

#include "pkt.h"

/**
 * ibds_pkt_alloc - allocate a packet, zeroed except for the payload
 * @len: bytes of payload
 * @gfp: allocation flags
 *
 * Return: the packet or NULL.
 */
struct ibds_pkt *ibds_pkt_alloc(u32 len, gfp_t gfp)
{
	struct ibds_pkt *pkt;

	pkt = kmalloc_flex(*pkt, data, len, gfp | __GFP_NOWARN);
	if (!pkt)
		return NULL;
	memset(pkt, 0, sizeof(*pkt));
	pkt->len = len;
	return pkt;
}

/**
 * ibds_pkt_copy - make another packet of one
 * @pkt: packet
 * @gfp: allocation flags
 *
 * Return: a packet with the same contents and the same way before it, or NULL.
 */
struct ibds_pkt *ibds_pkt_copy(const struct ibds_pkt *pkt, gfp_t gfp)
{
	return kmemdup(pkt, struct_size(pkt, data, pkt->len),
		       gfp | __GFP_NOWARN);
}

/**
 * ibds_pkt_free - free a packet
 * @pkt: packet
 */
void ibds_pkt_free(struct ibds_pkt *pkt)
{
	kfree(pkt);
}
