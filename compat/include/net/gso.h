/* SPDX-License-Identifier: GPL-2.0-only */
/* GSO before 6.5 */
#include <linux/netdevice.h>
