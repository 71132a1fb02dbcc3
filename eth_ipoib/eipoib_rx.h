/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets of peers, and of this host
 */
#ifndef EIPOIB_RX_H
#define EIPOIB_RX_H

#include "eipoib.h"

/**
 * enum eipoib_side - where a packet comes from
 * @EIPOIB_PEER: the lower interface has received it
 * @EIPOIB_HOST: this host sends it through the lower interface
 */
enum eipoib_side {
	EIPOIB_PEER,
	EIPOIB_HOST,
};

/**
 * enum eipoib_way - where a packet goes
 * @EIPOIB_ON: where it was going
 * @EIPOIB_FRAME: to guests: it is a frame of the Ethernet interface now
 * @EIPOIB_GONE: nowhere: it is freed
 */
enum eipoib_way {
	EIPOIB_ON,
	EIPOIB_FRAME,
	EIPOIB_GONE,
};

enum eipoib_way eipoib_rx(struct eipoib_dev *dev, struct sk_buff *skb,
			  bool group, enum eipoib_side side);

#endif
