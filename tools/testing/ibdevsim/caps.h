/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_CAPS_H
#define IBDEVSIM_CAPS_H

#include "ibdevsim.h"

struct seq_file;

int ibds_caps_parse(char *line, u32 *id, struct ibds_caps *caps);
void ibds_caps_show(struct seq_file *m, struct ibds_caps *caps);

#endif /* IBDEVSIM_CAPS_H */
