/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the recorder of executed code shares with the fuzzer, by mmap() of
 * /dev/ipoib_cover
 */
#ifndef COVER_H
#define COVER_H

#include <linux/types.h>

#define COVER_BITS	17
#define COVER_CELLS	(1 << COVER_BITS)
#define COVER_COMPARES	4096

/**
 * struct cover_compare - two different numbers that code compared
 * @a: one of them
 * @b: the other
 */
struct cover_compare {
	__u64 a;
	__u64 b;
};

/**
 * struct cover_area - what the modules did, on any CPU and in any context
 * @cells: 1 where a basic block's address, hashed, says that it ran.  Whoever
 *	reads it sets it to 0 again
 * @hits: basic blocks that ran.  CPUs race for it: it grows while code runs,
 *	and does not count it
 * @head: comparisons recorded so far, likewise; the next one's place, modulo
 *	COVER_COMPARES
 * @compares: the latest comparisons
 */
struct cover_area {
	__u8 cells[COVER_CELLS];
	__u32 hits;
	__u32 head;
	__u64 reserved[511];
	struct cover_compare compares[COVER_COMPARES];
};

#ifdef __KERNEL__
extern struct cover_area *cover_area;
#endif

#endif
