/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of fuzz_ethernet share
 */
#ifndef FUZZ_ETHERNET_H
#define FUZZ_ETHERNET_H

#include "eipoib.h"

struct fuzz_input {
	u8 kind;
	u8 flags;
	u16 headlen;	/* bytes that are linear, modulo the length */
	u8 fail;	/* the allocation that fails, 0: none */
	u8 at;		/* byte that FUZZ_BAD makes another one */
	u8 value;
	u8 type;	/* of message */
	u8 num;		/* of records in a report, of earlier transactions */
	u8 summed;	/* CHECKSUM_*, and bytes of padding */
	u8 later;	/* seconds until an answer; groups that there are */
} __packed;

enum {
	FUZZ_ND,
	FUZZ_IP6,
	FUZZ_DHCP,
	FUZZ_IGMP,
	FUZZ_ARP,
	FUZZ_KINDS,
};

enum {
	FUZZ_FABRIC	= BIT(0),	/* it comes from there */
	FUZZ_GUARD	= BIT(1),
	FUZZ_DECENT	= BIT(2),	/* plausible headers */
	FUZZ_NONE	= BIT(3),	/* no link-layer address; no station */
	FUZZ_OTHER	= BIT(4),	/* somebody else's address */
	FUZZ_BAD	= BIT(5),	/* a byte of the headers is wrong */
	FUZZ_GSO	= BIT(6),
	FUZZ_BAD_SUM	= BIT(7),
};

#define FUZZ_BOOTP	240	/* BOOTP's header and the cookie */
#define FUZZ_UDP	8
#define FUZZ_ID		9	/* a client identifier with a MAC */

/* A packet as it was, in one piece. */
struct fuzz_flat {
	u32 len;
	u8 data[1024];
};

extern struct eipoib_dev fuzz_dev;
extern const u8 fuzz_station[ETH_ALEN], fuzz_other[ETH_ALEN];

bool fuzz_failed(const struct fuzz_input *in);
void fuzz_flatten(struct fuzz_flat *flat, const struct sk_buff *skb);
bool fuzz_same(const struct fuzz_flat *flat, const struct sk_buff *skb);
struct sk_buff *fuzz_skb(const struct fuzz_flat *flat, u32 headlen);
struct sk_buff *fuzz_dhcp(const struct fuzz_input *in, struct sk_buff *skb);

#endif
