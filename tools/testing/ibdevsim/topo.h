/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_TOPO_H
#define IBDEVSIM_TOPO_H

#include "fabric.h"

int ibds_topo_init(void);
void ibds_topo_exit(void);
int ibds_topo_new_switch(char *text);
int ibds_topo_del_switch(char *text);
int ibds_topo_link(char *text);
int ibds_topo_unlink(char *text);

#endif /* IBDEVSIM_TOPO_H */
