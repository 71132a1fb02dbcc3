/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PHC_H
#define IBDEVSIM_PHC_H

#include <linux/ktime.h>
#include <linux/timekeeping.h>

struct device;
struct ibds_phc;

struct ibds_phc *ibds_phc_new(struct device *parent, u32 id, u32 offset_ms,
			      u32 drift_ppb);
void ibds_phc_free(struct ibds_phc *phc);
ktime_t ibds_phc_time(struct ibds_phc *phc, u64 count);
int ibds_phc_index(const struct ibds_phc *phc);

/* What the counters of all clocks of the fabric read now, in nanoseconds. */
static inline u64 ibds_phc_count(void)
{
	return ktime_get_raw_fast_ns();
}

#endif /* IBDEVSIM_PHC_H */
