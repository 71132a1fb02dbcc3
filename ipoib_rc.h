/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packets on connections
 */
#ifndef IPOIB_RC_H
#define IPOIB_RC_H

#include "ipoib_tx.h"

struct ipoib_link;
struct sk_buff;

/*
 * A packet with more fragments than the HCA can gather is copied to a few large
 * ones, if the HCA can gather those and the linear part.
 */
#define IPOIB_REPACK_SIZE	(PAGE_SIZE > 32768 ? PAGE_SIZE : 32768)
#define IPOIB_REPACK_PAGES	DIV_ROUND_UP(65536, IPOIB_REPACK_SIZE)
#define IPOIB_REPACK_SGE	(IPOIB_REPACK_PAGES + 1)

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_CM)
enum ipoib_sent ipoib_rc_send(struct ipoib_txq *txq, struct sk_buff *skb,
			      struct ipoib_link *link);
void ipoib_rc_flush(struct ipoib_txq *txq);
u32 ipoib_link_fit(const struct ipoib_link *link, const struct sk_buff *skb);
#else
static inline enum ipoib_sent ipoib_rc_send(struct ipoib_txq *txq,
					    struct sk_buff *skb,
					    struct ipoib_link *link)
{
	return IPOIB_SENT_NOT;
}

static inline void ipoib_rc_flush(struct ipoib_txq *txq) { }
static inline u32 ipoib_link_fit(const struct ipoib_link *link,
				 const struct sk_buff *skb)
{
	return 0;
}
#endif

#endif /* IPOIB_RC_H */
