/* SPDX-License-Identifier: GPL-2.0-only */
/* Cutting packets before 6.5 */
#include <linux/netdevice.h>
