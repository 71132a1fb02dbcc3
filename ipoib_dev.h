/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface: its state, and what happens to it
 */
#ifndef IPOIB_DEV_H
#define IPOIB_DEV_H

#include <linux/types.h>

#include "ipoib_rules.h"

struct ipoib_dev;
struct seq_file;
struct work_struct;

/**
 * enum ipoib_dev_state - life of an interface
 * @IPOIB_DEV_CLOSED: before ndo_open and after ndo_stop
 * @IPOIB_DEV_NO_PKEY: open; the port's table lacks the P_Key
 * @IPOIB_DEV_STARTING: being brought up, or down to be brought up again
 * @IPOIB_DEV_UP: QPs in RTS, groups are joined, connections taken
 * @IPOIB_DEV_BROKEN: open; bringing it up failed, all is down, and it is tried
 *	again after a delay
 * @IPOIB_DEV_STOPPING: its ndo_stop is running or about to be called
 */
enum ipoib_dev_state {
	IPOIB_DEV_CLOSED,
	IPOIB_DEV_NO_PKEY,
	IPOIB_DEV_STARTING,
	IPOIB_DEV_UP,
	IPOIB_DEV_BROKEN,
	IPOIB_DEV_STOPPING,
};

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
void ipoib_dev_event(struct ipoib_dev *dev, enum ipoib_event ev);
void ipoib_dev_refresh(struct ipoib_dev *dev);
void ipoib_dev_sync_link(struct ipoib_dev *dev);
void ipoib_dev_fill_addr(const struct ipoib_dev *dev, u8 *addr);
u32 ipoib_dev_mtu(const struct ipoib_dev *dev);
void ipoib_dev_show(struct seq_file *m, struct ipoib_dev *dev);

#endif /* IPOIB_DEV_H */
