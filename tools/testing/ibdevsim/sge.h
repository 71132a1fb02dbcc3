/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_SGE_H
#define IBDEVSIM_SGE_H

#include <linux/io.h>
#include <rdma/ib_verbs.h>

/**
 * struct ibds_pos - a place in a scatter/gather list
 * @sge: entry
 * @off: bytes of @sge already processed
 * @phys: addresses are DMA addresses; there is no IOMMU for this device
 */
struct ibds_pos {
	const struct ib_sge *sge;
	u32 off;
	u32 phys;
};

static inline void *ibds_va(u64 addr, bool phys)
{
	return phys ? phys_to_virt(addr) : (void *)(uintptr_t)addr;
}

/* Address of a position; bytes must be left there. */
static inline void *ibds_pos_va(const struct ibds_pos *pos)
{
	return ibds_va(pos->sge->addr, pos->phys) + pos->off;
}

/* Contiguous bytes from here. */
static inline u32 ibds_pos_span(const struct ibds_pos *pos)
{
	return pos->sge->length - pos->off;
}

/* Advance within the entry. */
static inline void ibds_pos_advance(struct ibds_pos *pos, u32 len)
{
	pos->off += len;
	if (pos->off == pos->sge->length) {
		pos->sge++;
		pos->off = 0;
	}
}

/*
 * Copy as an HCA does by DMA.  The benchmark counts instructions, and this
 * copies eight bytes with each: on CPUs without fast string instructions, which
 * emulators lack, memcpy() copies through a register.  With KASAN use memcpy(),
 * which detects that the HCA writes to a buffer that has been freed.
 */
static __always_inline void ibds_copy(void *dst, const void *src, size_t len)
{
#if IS_ENABLED(CONFIG_X86_64) && !IS_ENABLED(CONFIG_KASAN)
	size_t words = len / 8;

	asm volatile("rep movsq" : "+D" (dst), "+S" (src), "+c" (words)
		     : : "memory");
	len &= 7;
	asm volatile("rep movsb" : "+D" (dst), "+S" (src), "+c" (len)
		     : : "memory");
#else
	memcpy(dst, src, len);
#endif
}

void ibds_gather_pieces(void *dst, struct ibds_pos *pos, u32 len);

/* Copy @len bytes to @dst and advance @pos; the list must hold them. */
static __always_inline void ibds_gather(void *dst, struct ibds_pos *pos,
					u32 len)
{
	/* Nearly always in one piece.  Without data there may be no list. */
	if (likely(len && len <= ibds_pos_span(pos))) {
		ibds_copy(dst, ibds_pos_va(pos), len);
		ibds_pos_advance(pos, len);
	} else {
		ibds_gather_pieces(dst, pos, len);
	}
}

/* Copy @len bytes from @src to @pos and advance it. */
static inline void ibds_scatter(struct ibds_pos *pos, const void *src, u32 len)
{
	u32 n;

	for (; len; len -= n, src += n) {
		n = min(ibds_pos_span(pos), len);
		ibds_copy(ibds_pos_va(pos), src, n);
		ibds_pos_advance(pos, n);
	}
}

/* Advance without copying. */
static inline void ibds_skip(struct ibds_pos *pos, u32 len)
{
	u32 n;

	for (; len; len -= n) {
		n = min(ibds_pos_span(pos), len);
		ibds_pos_advance(pos, n);
	}
}

#endif /* IBDEVSIM_SGE_H */
