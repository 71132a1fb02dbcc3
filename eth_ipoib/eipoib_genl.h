/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generic netlink family
 */
#ifndef EIPOIB_GENL_H
#define EIPOIB_GENL_H

int eipoib_genl_init(void);
void eipoib_genl_exit(void);

#endif
