/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generic netlink family
 */
#ifndef IPOIB_GENL_H
#define IPOIB_GENL_H

int ipoib_genl_init(void);
void ipoib_genl_exit(void);

#endif /* IPOIB_GENL_H */
