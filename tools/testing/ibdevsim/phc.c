// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the hardware clock of an HCA (PHC)
 *
 * All clocks count CLOCK_MONOTONIC_RAW, which nothing disciplines, and each makes
 * its time of it with an offset and a drift of its own.  Packets are stamped with
 * the count; the clock of the HCA that reads the stamp turns it into its time.
 */
#include <linux/math64.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/slab.h>

#include "phc.h"

/* Nanoseconds per count, as a fixed-point number with this many binary places. */
#define IBDS_PHC_SHIFT		40
#define IBDS_PHC_MAX_PPB	500000

/**
 * struct ibds_phc - the clock of an HCA
 * @info: operations
 * @clock: what is registered
 * @lock: protects all below
 * @count: where @time was right
 * @time: nanoseconds since 1970
 * @nominal: nanoseconds per count, without adjustment
 * @rate: the same, as it is adjusted
 */
struct ibds_phc {
	struct ptp_clock_info info;
	struct ptp_clock *clock;
	spinlock_t lock;	/* count, time, rate */
	u64 count;
	u64 time;
	u64 nominal;
	u64 rate;
};

/* @count may be a little before phc->count; phc->lock is held. */
static u64 ibds_phc_convert(const struct ibds_phc *phc, u64 count)
{
	s64 past = count - phc->count;

	if (past < 0)
		return phc->time - mul_u64_u64_shr(-past, phc->rate,
						   IBDS_PHC_SHIFT);
	return phc->time + mul_u64_u64_shr(past, phc->rate, IBDS_PHC_SHIFT);
}

/* Continue from now on, so that the rate or the time can be changed. */
static void ibds_phc_rebase(struct ibds_phc *phc)
{
	u64 now = ibds_phc_count();

	phc->time = ibds_phc_convert(phc, now);
	phc->count = now;
}

/**
 * ibds_phc_time - convert a count into the time of a clock
 * @phc: clock
 * @count: of ibds_phc_count(), not long ago
 *
 * Context: any but NMI.
 * Return: nanoseconds since 1970, as this clock sees it.
 */
ktime_t ibds_phc_time(struct ibds_phc *phc, u64 count)
{
	unsigned long flags;
	u64 ns;

	spin_lock_irqsave(&phc->lock, flags);
	ns = ibds_phc_convert(phc, count);
	spin_unlock_irqrestore(&phc->lock, flags);
	return ns_to_ktime(ns);
}

static int ibds_phc_adjfine(struct ptp_clock_info *info, long scaled_ppm)
{
	struct ibds_phc *phc = container_of(info, struct ibds_phc, info);
	unsigned long flags;

	spin_lock_irqsave(&phc->lock, flags);
	ibds_phc_rebase(phc);
	phc->rate = adjust_by_scaled_ppm(phc->nominal, scaled_ppm);
	spin_unlock_irqrestore(&phc->lock, flags);
	return 0;
}

static int ibds_phc_adjtime(struct ptp_clock_info *info, s64 delta)
{
	struct ibds_phc *phc = container_of(info, struct ibds_phc, info);
	unsigned long flags;

	spin_lock_irqsave(&phc->lock, flags);
	phc->time += delta;
	spin_unlock_irqrestore(&phc->lock, flags);
	return 0;
}

static int ibds_phc_gettime(struct ptp_clock_info *info, struct timespec64 *ts,
			    struct ptp_system_timestamp *sts)
{
	struct ibds_phc *phc = container_of(info, struct ibds_phc, info);
	u64 count;

	ptp_read_system_prets(sts);
	count = ibds_phc_count();
	ptp_read_system_postts(sts);
	*ts = ktime_to_timespec64(ibds_phc_time(phc, count));
	return 0;
}

static int ibds_phc_settime(struct ptp_clock_info *info,
			    const struct timespec64 *ts)
{
	struct ibds_phc *phc = container_of(info, struct ibds_phc, info);
	unsigned long flags;

	if (ts->tv_sec < 0)
		return -EINVAL;
	spin_lock_irqsave(&phc->lock, flags);
	phc->count = ibds_phc_count();
	phc->time = timespec64_to_ns(ts);
	spin_unlock_irqrestore(&phc->lock, flags);
	return 0;
}

/* It has no pins and no pulses. */
static int ibds_phc_enable(struct ptp_clock_info *info,
			   struct ptp_clock_request *request, int on)
{
	return -EOPNOTSUPP;
}

static const struct ptp_clock_info ibds_phc_info = {
	.owner = THIS_MODULE,
	.max_adj = IBDS_PHC_MAX_PPB,
	.adjfine = ibds_phc_adjfine,
	.adjtime = ibds_phc_adjtime,
	.gettimex64 = ibds_phc_gettime,
	.settime64 = ibds_phc_settime,
	.enable = ibds_phc_enable,
};

/**
 * ibds_phc_new - register the clock of an HCA
 * @parent: device of the HCA
 * @id: number of the HCA
 * @offset_ms: how far it is ahead of the system's clock, in milliseconds
 * @drift_ppb: by how much it is too fast, in billionths
 *
 * Return: the clock, or an error pointer.
 */
struct ibds_phc *ibds_phc_new(struct device *parent, u32 id, u32 offset_ms,
			      u32 drift_ppb)
{
	struct ibds_phc *phc;

	phc = kzalloc_obj(*phc);
	if (!phc)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&phc->lock);
	phc->info = ibds_phc_info;
	snprintf(phc->info.name, sizeof(phc->info.name), "ibdevsim%u", id);
	phc->nominal = BIT_ULL(IBDS_PHC_SHIFT) +
		       mul_u64_u32_div(BIT_ULL(IBDS_PHC_SHIFT), drift_ppb,
				       NSEC_PER_SEC);
	phc->rate = phc->nominal;
	phc->count = ibds_phc_count();
	phc->time = ktime_get_real_ns() + offset_ms * (u64)NSEC_PER_MSEC;
	phc->clock = ptp_clock_register(&phc->info, parent);
	/* NULL: the kernel has no such clocks. */
	if (IS_ERR_OR_NULL(phc->clock)) {
		int err = phc->clock ? PTR_ERR(phc->clock) : -EOPNOTSUPP;

		kfree(phc);
		return ERR_PTR(err);
	}
	return phc;
}

/**
 * ibds_phc_free - undo ibds_phc_new()
 * @phc: clock or NULL
 */
void ibds_phc_free(struct ibds_phc *phc)
{
	if (!phc)
		return;
	ptp_clock_unregister(phc->clock);
	kfree(phc);
}

/**
 * ibds_phc_index - get the number of a clock
 * @phc: clock or NULL
 *
 * Return: N of /dev/ptpN, -1 without a clock.
 */
int ibds_phc_index(const struct ibds_phc *phc)
{
	return phc ? ptp_clock_index(phc->clock) : -1;
}
