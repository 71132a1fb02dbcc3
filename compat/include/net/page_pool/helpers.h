/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page pools before 6.6, when they had another header, and before 6.4, when
 * they had no NAPI and fragments of pages had to be enabled
 */
#ifndef IPOIB_COMPAT_PAGE_POOL_HELPERS_H
#define IPOIB_COMPAT_PAGE_POOL_HELPERS_H

#include <linux/version.h>
#include <net/page_pool.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)

struct ipoib_page_pool_params {
	unsigned int flags;
	unsigned int order;
	unsigned int pool_size;
	int nid;
	struct device *dev;
	struct napi_struct *napi;
	enum dma_data_direction dma_dir;
	unsigned int max_len;
	unsigned int offset;
	struct net_device *netdev;
	unsigned int queue_idx;
};

static inline struct page_pool *
ipoib_page_pool_create(const struct ipoib_page_pool_params *params)
{
	struct page_pool_params old = {
		.flags = params->flags | PP_FLAG_PAGE_FRAG,
		.order = params->order,
		.pool_size = params->pool_size,
		.nid = params->nid,
		.dev = params->dev,
		.dma_dir = params->dma_dir,
		.max_len = params->max_len,
		.offset = params->offset,
	};

	return page_pool_create(&old);
}

#define page_pool_params ipoib_page_pool_params
#define page_pool_create ipoib_page_pool_create

#endif /* before 6.4 */

/*
 * 6.8: a page from a pool has references beside those of fragments.  Before, the
 * count of a page that fragments are taken from was LONG_MAX, and the pool
 * remembered how many there were.  Called by the NAPI that takes them.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
static inline void page_pool_ref_page(struct page *page)
{
	struct page_pool *pool = page->pp;

	if (pool->frag_page == page)
		pool->frag_users++;
	else
		atomic_long_inc(&page->pp_frag_count);
}
#endif

#endif /* IPOIB_COMPAT_PAGE_POOL_HELPERS_H */
