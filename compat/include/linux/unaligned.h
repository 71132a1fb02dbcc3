/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 6.12 */
#include <asm/unaligned.h>
