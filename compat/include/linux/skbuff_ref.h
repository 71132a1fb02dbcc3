/* SPDX-License-Identifier: GPL-2.0-only */
/* References on fragments before 6.10 */
#include <linux/skbuff.h>
