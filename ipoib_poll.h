/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * NAPI of a channel
 */
#ifndef IPOIB_POLL_H
#define IPOIB_POLL_H

struct ipoib_channel;

void ipoib_poll_init(struct ipoib_channel *ch);

#endif /* IPOIB_POLL_H */
