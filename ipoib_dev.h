/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface: state and events
 */
#ifndef IPOIB_DEV_H
#define IPOIB_DEV_H

#include <linux/types.h>

#include "ipoib_rules.h"

struct ipoib_dev;
struct seq_file;

const char *ipoib_dev_state_name(enum ipoib_dev_state state);
void ipoib_dev_init(struct ipoib_dev *dev);
void ipoib_dev_attach(struct ipoib_dev *dev);
void ipoib_dev_registered(struct ipoib_dev *dev);
bool ipoib_dev_is_up(const struct ipoib_dev *dev);
int ipoib_dev_open(struct ipoib_dev *dev);
void ipoib_dev_close(struct ipoib_dev *dev);
void ipoib_dev_stop_begin(struct ipoib_dev *dev);
bool ipoib_dev_take_down(struct ipoib_dev *dev);
int ipoib_dev_start(struct ipoib_dev *dev);
void ipoib_dev_listen(struct ipoib_dev *dev);
void ipoib_dev_refresh(struct ipoib_dev *dev);
void ipoib_dev_sync_addr(struct ipoib_dev *dev);
void ipoib_dev_open_later(struct ipoib_dev *dev);
void ipoib_dev_open_done(struct ipoib_dev *dev);
void ipoib_dev_changed(struct ipoib_dev *dev);
void ipoib_dev_sync_link(struct ipoib_dev *dev);
void ipoib_dev_fill_addr(const struct ipoib_dev *dev, u8 *addr);
u32 ipoib_dev_mtu(const struct ipoib_dev *dev);
void ipoib_dev_show(struct seq_file *m, struct ipoib_dev *dev);

#endif /* IPOIB_DEV_H */
