// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: scatter/gather lists
 */
#include "sge.h"

/**
 * ibds_gather_pieces - ibds_gather() across entries of the list
 * @dst: destination
 * @pos: source, is advanced
 * @len: bytes
 */
void ibds_gather_pieces(void *dst, struct ibds_pos *pos, u32 len)
{
	u32 n;

	for (; len; len -= n, dst += n) {
		n = min(ibds_pos_span(pos), len);
		ibds_copy(dst, ibds_pos_va(pos), n);
		ibds_pos_advance(pos, n);
	}
}
