/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_RSS_H
#define IBDEVSIM_RSS_H

#include "dgram.h"

#define IBDS_RSS_TABLE		128
#define IBDS_RSS_KEY		40
/* Bytes that are hashed: two IPv6 addresses and two ports. */
#define IBDS_RSS_INPUT		36
#define IBDS_MAX_CHANNELS	64

/**
 * enum ibds_hashed - what a hash covers
 * @IBDS_HASHED_NONE: nothing, it is zero
 * @IBDS_HASHED_L3: addresses
 * @IBDS_HASHED_L4: addresses and ports
 */
enum ibds_hashed {
	IBDS_HASHED_NONE,
	IBDS_HASHED_L3,
	IBDS_HASHED_L4,
};

/**
 * struct ibds_rx_meta - what a channel is told of a packet beside its completion
 * @stamp: count of the clocks when it arrived
 * @hash: RSS hash
 * @qpn: QP that it was sent to
 * @hashed: enum ibds_hashed
 */
struct ibds_rx_meta {
	u64 stamp;
	u32 hash;
	u32 qpn;
	u8 hashed;
};

/**
 * struct ibds_rss - spreads the packets that QPs receive over channels
 * @rcu: frees it
 * @ring: the channels' receive sides; NULL: closed.  RCU
 * @table: numbers of channels, by the lower bits of the hash
 * @key: Toeplitz key
 * @part: the key made into hashes of each half byte of the input.  A packet that
 *	arrives while the key is changed may be hashed with parts of both
 * @stamp: packets are stamped
 * @any_qkey: their Q_Key is not checked
 */
struct ibds_rss {
	struct rcu_head rcu;
	struct ibds_rcv __rcu *ring[IBDS_MAX_CHANNELS];
	u8 table[IBDS_RSS_TABLE];
	u8 key[IBDS_RSS_KEY];
	u32 part[IBDS_RSS_INPUT * 2][16];
	bool stamp;
	bool any_qkey;
};

void ibds_rss_set_key(struct ibds_rss *rss, const u8 *key);
void ibds_rss_set_table(struct ibds_rss *rss, u32 channels);
u32 ibds_rss_hash(const struct ibds_rss *rss, const struct ibds_dgram *d,
		  u8 *hashed);

#endif /* IBDEVSIM_RSS_H */
