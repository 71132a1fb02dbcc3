/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What older kernels lack; force-included in builds outside a kernel tree
 */
#ifndef IPOIB_COMPAT_H
#define IPOIB_COMPAT_H

#include <linux/version.h>

#endif /* IPOIB_COMPAT_H */
