/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * 6.3: rates of clocks
 */
#ifndef IBDEVSIM_PTP_COMPAT_H
#define IBDEVSIM_PTP_COMPAT_H

#include <linux/math64.h>

static inline u64 adjust_by_scaled_ppm(u64 base, long scaled_ppm)
{
	/* 2^16 parts per million */
	u64 diff = mul_u64_u64_div_u64(base, abs(scaled_ppm), 1000000ULL << 16);

	return scaled_ppm < 0 ? base - diff : base + diff;
}

#endif /* IBDEVSIM_PTP_COMPAT_H */
