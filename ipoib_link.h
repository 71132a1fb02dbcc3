/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Links: interface to code that does not deal with connections
 */
#ifndef IPOIB_LINK_H
#define IPOIB_LINK_H

#include <linux/types.h>

struct ipoib_dev;
struct ipoib_link;
struct ipoib_neigh;
struct sk_buff;

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_CM)
struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
				     struct ipoib_neigh *neigh, const u8 *addr);
void ipoib_link_destroy(struct ipoib_link *link);
struct ipoib_neigh *ipoib_link_neigh(const struct ipoib_link *link);
void ipoib_link_heard(struct ipoib_link *link, bool moved);
bool ipoib_link_is_up(const struct ipoib_link *link);
int ipoib_link_report(struct sk_buff *skb, struct ipoib_link *link);
#else
static inline struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
						   struct ipoib_neigh *neigh,
						   const u8 *addr)
{
	return NULL;
}

static inline void ipoib_link_destroy(struct ipoib_link *link) { }
static inline struct ipoib_neigh *
ipoib_link_neigh(const struct ipoib_link *link)
{
	return NULL;
}

static inline void ipoib_link_heard(struct ipoib_link *link, bool moved) { }
static inline bool ipoib_link_is_up(const struct ipoib_link *link)
{
	return false;
}

static inline int ipoib_link_report(struct sk_buff *skb,
				    struct ipoib_link *link)
{
	return 0;
}
#endif

#endif /* IPOIB_LINK_H */
