/* SPDX-License-Identifier: GPL-2.0-only */
/* References of fragments before 6.10 */
#include <linux/skbuff.h>
