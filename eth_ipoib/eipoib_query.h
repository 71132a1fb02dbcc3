/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ask guests which groups they are members of
 */
#ifndef EIPOIB_QUERY_H
#define EIPOIB_QUERY_H

#include "eipoib.h"
#include "eipoib_send.h"

void eipoib_query_open(struct eipoib_dev *dev);
void eipoib_query_tick(struct eipoib_dev *dev, struct eipoib_batch *batch);

#endif
