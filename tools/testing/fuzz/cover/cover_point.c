// SPDX-License-Identifier: GPL-2.0-only
/*
 * In each module that is recorded: what the compiler's calls end in
 *
 * The names are the compiler's.  As they are not exported, they do not clash
 * with those of a kernel that has CONFIG_KCOV.  Nothing is called here: code that
 * reads the memory of programs must not call anything.
 */
#include <linux/hash.h>
#include <linux/instruction_pointer.h>
#include <linux/types.h>

#include "cover.h"

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_switch(u64 value, const u64 *cases);

static __always_inline void cover_compared(u64 a, u64 b)
{
	struct cover_compare *compare;
	u32 head;

	if (a == b)
		return;
	head = READ_ONCE(cover_area->head);
	WRITE_ONCE(cover_area->head, head + 1);
	compare = &cover_area->compares[head % COVER_COMPARES];
	WRITE_ONCE(compare->a, a);
	WRITE_ONCE(compare->b, b);
}

notrace void __sanitizer_cov_trace_pc(void)
{
	u8 *cell = &cover_area->cells[hash_64(_RET_IP_, COVER_BITS)];

	if (!READ_ONCE(*cell))
		WRITE_ONCE(*cell, 1);
	WRITE_ONCE(cover_area->hits, READ_ONCE(cover_area->hits) + 1);
}

#define COVER_COMPARE(name, type)					\
void name(type a, type b);						\
notrace void name(type a, type b)					\
{									\
	cover_compared(a, b);						\
}

COVER_COMPARE(__sanitizer_cov_trace_cmp1, u8)
COVER_COMPARE(__sanitizer_cov_trace_cmp2, u16)
COVER_COMPARE(__sanitizer_cov_trace_cmp4, u32)
COVER_COMPARE(__sanitizer_cov_trace_cmp8, u64)
COVER_COMPARE(__sanitizer_cov_trace_const_cmp1, u8)
COVER_COMPARE(__sanitizer_cov_trace_const_cmp2, u16)
COVER_COMPARE(__sanitizer_cov_trace_const_cmp4, u32)
COVER_COMPARE(__sanitizer_cov_trace_const_cmp8, u64)

/* @cases: their number, their size in bits, and they themselves. */
notrace void __sanitizer_cov_trace_switch(u64 value, const u64 *cases)
{
	u64 n;

	for (n = 0; n < cases[0]; n++)
		cover_compared(value, cases[2 + n]);
}
