// SPDX-License-Identifier: GPL-2.0-only
/*
 * The version of a package: DKMS takes a module without one for the kernel's own,
 * which has none either, and does not install it.
 */
#include <linux/module.h>

MODULE_VERSION(IPOIB_VERSION);
