/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_CLIENT_H
#define IBDEVSIM_CLIENT_H

int ibds_client_init(void);
void ibds_client_exit(void);

#endif /* IBDEVSIM_CLIENT_H */
