/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hrtimer_setup() of 6.13, for older kernels
 */
#ifndef _HRTIMER_COMPAT_H
#define _HRTIMER_COMPAT_H

#define hrtimer_setup(timer, fn, clock, mode)				\
	do {								\
		struct hrtimer *_timer = (timer);			\
									\
		hrtimer_init(_timer, clock, mode);			\
		_timer->function = (fn);				\
	} while (0)

#endif /* _HRTIMER_COMPAT_H */
