// SPDX-License-Identifier: GPL-2.0-only
/*
 * Channels: a completion vector's share of a port
 *
 * A channel has CQs, NAPI, receive buffers and an SRQ, shared by the parent
 * interface and its children.  The parent receives in the first channel;
 * children and connections are spread over all.  Buffers of an SRQ stay posted
 * while all interfaces are down: only destroying it would return them.
 *
 * Lock: ipoib_port.lock covers what the QPs of a channel share.
 */
#include <linux/sizes.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cq.h"
#include "ipoib_poll.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_POOL_PAGE		SZ_32K	/* heads are fragments */
#define IPOIB_POOL_BYTES	SZ_8M	/* kept for other heads */
#define IPOIB_SMALL_BYTES	SZ_1M	/* for small packets */
#define IPOIB_PAGES_BYTES	SZ_1M	/* while memory is fragmented */
#define IPOIB_BARRIER_WARN	HZ
/* With fewer CQs or QPs per CPU than this, don't use a channel per CPU. */
#define IPOIB_SCARCE		16

/* ---- pausing the NAPI -------------------------------------------------- */

/**
 * ipoib_channel_kick - have the NAPI run
 * @ch: channel
 *
 * Context: process.
 */
void ipoib_channel_kick(struct ipoib_channel *ch)
{
	local_bh_disable();
	napi_schedule(&ch->napi);
	local_bh_enable();
}

/**
 * ipoib_channel_pause - keep the NAPI away from its receive queues for a while
 * @ch: channel, its NAPI running or not
 *
 * Context: process, the port's lock held until ipoib_channel_resume().
 */
void ipoib_channel_pause(struct ipoib_channel *ch)
{
	lockdep_assert_held(&ch->port->lock);
	if (ch->port->users)
		napi_disable(&ch->napi);
}

/**
 * ipoib_channel_resume - undo ipoib_channel_pause()
 * @ch: channel
 *
 * Context: process, the port's lock held.
 */
void ipoib_channel_resume(struct ipoib_channel *ch)
{
	lockdep_assert_held(&ch->port->lock);
	if (!ch->port->users)
		return;
	napi_enable(&ch->napi);
	ipoib_channel_kick(ch);
}

/**
 * ipoib_channel_barrier - wait for earlier completions to drain
 * @ch: channel whose NAPI runs
 * @since: ipoib_channel.barriers as the NAPI saw it when the completions to
 *	wait for were in the CQs; a barrier begun after that is enough
 *
 * When it returns, completions that were in the CQs have been handled, and GRO
 * has passed up what it held; those skbs have no reference on their device.  No
 * poll uses what is freed after the barrier.  Like napi_disable() it has no
 * time limit: it waits only for this host's softirq, which has a bounded number
 * of completions to handle.
 *
 * Context: process.
 */
void ipoib_channel_barrier(struct ipoib_channel *ch, u32 since)
{
	mutex_lock(&ch->port->lock);
	if (ch->barriers != since || WARN_ON_ONCE(!ch->port->users))
		goto unlock;
	WRITE_ONCE(ch->barriers, ch->barriers + 1);
	reinit_completion(&ch->flushed);
	/* Pairs with smp_load_acquire() in ipoib_poll_news() */
	smp_store_release(&ch->flush, IPOIB_FLUSH_ASKED);
	ipoib_channel_kick(ch);
	while (!wait_for_completion_timeout(&ch->flushed, IPOIB_BARRIER_WARN))
		netdev_warn(ch->port->parent, "channel %u: NAPI stalled\n",
			    ch->index);
unlock:
	mutex_unlock(&ch->port->lock);
}

/* ---- receive resources ------------------------------------------------- */

/**
 * ipoib_channel_pool - create a page pool for receives
 * @ch: channel whose NAPI takes from it
 * @result: the pool, unchanged on error
 * @page: least size of its pages in bytes
 * @keep: most bytes that it keeps for reuse
 * @dma: the HCA writes to the pages
 *
 * Context: process.
 * Return: 0 or -errno
 */
int ipoib_channel_pool(struct ipoib_channel *ch, struct page_pool **result,
		       u32 page, u32 keep, bool dma)
{
	struct ib_device *ca = ch->port->ca;
	u32 order = get_order(page);
	struct page_pool_params params = {
		.order = order,
		.pool_size = max(keep >> (PAGE_SHIFT + order), 1U),
		.nid = NUMA_NO_NODE,
		.napi = &ch->napi,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE << order,
		.netdev = ch->port->parent,
		.queue_idx = ch->index,
	};
	struct page_pool *pool;

	if (dma && !ib_uses_virt_dma(ca)) {
		params.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV;
		params.dev = ca->dma_device;
	}
	pool = page_pool_create(&params);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	*result = pool;
	return 0;
}

static void ipoib_channel_drop_pools(struct ipoib_channel *ch)
{
	page_pool_destroy(ch->pages);
	page_pool_destroy(ch->small);
	page_pool_destroy(ch->pool);
	ch->pages = NULL;
	ch->small = NULL;
	ch->pool = NULL;
}

static int ipoib_channel_make_pools(struct ipoib_channel *ch)
{
	int ret;

	ret = ipoib_channel_pool(ch, &ch->pool, IPOIB_POOL_PAGE,
				 IPOIB_POOL_BYTES, true);
	ret = ret ?: ipoib_channel_pool(ch, &ch->small, PAGE_SIZE,
					IPOIB_SMALL_BYTES, false);
	if (get_order(IPOIB_POOL_PAGE))
		ret = ret ?: ipoib_channel_pool(ch, &ch->pages, PAGE_SIZE,
						IPOIB_PAGES_BYTES, true);
	if (ret)
		ipoib_channel_drop_pools(ch);
	return ret;
}

/* A head of @head bytes, and a tail for what a datagram has beyond it. */
static void ipoib_channel_set_format(struct ipoib_channel *ch,
				     struct ipoib_rx_format *format, u32 head)
{
	/* A link-layer address is put in front of the packet. */
	BUILD_BUG_ON(IPOIB_RX_PAD >= NET_SKB_PAD);
	BUILD_BUG_ON(IPOIB_RX_PAD + IPOIB_GRH_LEN < INFINIBAND_ALEN);
	format->pad = IPOIB_RX_PAD;
	format->len[0] = IPOIB_GRH_LEN + head;
	format->size[0] = ipoib_rx_head_size(format->pad + format->len[0]);
	format->len[1] = ch->port->mtu - head;
	format->size[1] = format->len[1];
	format->num = format->len[1] ? 2 : 1;
	format->total = format->len[0] + format->len[1];
	format->pool[0] = ch->pool;
	format->pool[1] = ch->pool;
}

/**
 * ipoib_channel_format - format of a channel's receives for datagrams
 * @ch: channel that is able to receive
 *
 * Context: process, the port's lock held.
 */
const struct ipoib_rx_format *
ipoib_channel_format(const struct ipoib_channel *ch)
{
	lockdep_assert_held(&ch->port->lock);
	return ch->port->rx_whole ? &ch->whole : &ch->split;
}

/**
 * ipoib_port_use_len - receive datagrams of a link's length
 * @port: port
 * @len: most bytes, with the encapsulation
 *
 * Most ports support an MTU of 4096, most links have 2048.  So receives have
 * two buffers, of which the second is rarely touched, until there is a link
 * that needs it; then they have one.  Those already posted stay as they are.
 *
 * Context: process; takes the port's lock.
 */
void ipoib_port_use_len(struct ipoib_port *port, u32 len)
{
	struct ipoib_channel *ch;
	struct ipoib_dev *dev;
	u32 i;

	if (len <= ipoib_rx_head_len(port->mtu))
		return;
	mutex_lock(&port->lock);
	port->rx_whole = true;
	for (i = 0; i < port->num_channels; i++) {
		ch = port->channels[i];
		if (ch->pool)
			WRITE_ONCE(ch->rxq.format, &ch->whole);
	}
	/* Without SRQ each interface has its own queue. */
	list_for_each_entry(dev, &port->devs, port_entry)
		if (dev->num_txqs)
			WRITE_ONCE(dev->txqs[0]->qp.rxq->format,
				   &dev->txqs[0]->qp.ch->whole);
	mutex_unlock(&port->lock);
}

/**
 * ipoib_port_create_srq - create an SRQ, whose lack would last
 * @port: port
 * @attr: attributes
 *
 * Going without is decided once, for as long as the port is used in this way: so
 * a shortage that passes must not decide it.
 *
 * Context: process.
 * Return: SRQ, or ERR_PTR() if the HCA refuses twice
 */
struct ib_srq *ipoib_port_create_srq(struct ipoib_port *port,
				     struct ib_srq_init_attr *attr)
{
	struct ib_srq *srq = ib_create_srq(port->pd, attr);

	return IS_ERR(srq) ? ib_create_srq(port->pd, attr) : srq;
}

/* Interfaces have queues of their own, which can't be resized. */
static void ipoib_port_without_srq(struct ipoib_port *port, int error)
{
	dev_info(&port->ca->dev,
		 "port %u: no shared receive queue for datagrams: %pe\n",
		 port->num, ERR_PTR(error));
	port->no_srq = true;
	port->rx_pending = port->recvq_size;
	port->srq_size = port->recvq_size;
}

/*
 * Create an SRQ for datagrams.  If the first channel, which is the first to be
 * used, gets none, the port goes without; for others a failure is an error.
 */
static int ipoib_channel_srq(struct ipoib_channel *ch)
{
	struct ib_device *ca = ch->port->ca;
	u32 num_sge = ch->split.num;
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_BASIC,
		.attr.max_wr = ch->port->srq_size,
		.attr.max_sge = num_sge,
	};
	struct ib_srq *srq;

	if (ch->port->no_srq)
		return 0;
	if (ca->attrs.max_srq_sge < num_sge)
		srq = ERR_PTR(-EOPNOTSUPP);
	else
		srq = ipoib_port_create_srq(ch->port, &attr);
	if (IS_ERR(srq) && ch->index)
		return PTR_ERR(srq);
	if (IS_ERR(srq))
		ipoib_port_without_srq(ch->port, PTR_ERR(srq));
	else
		ch->rxq.srq = srq;
	return 0;
}

/**
 * ipoib_channel_receive - allocate what a channel needs to receive
 * @ch: channel
 *
 * Buffers for datagrams are posted when an interface opens.
 *
 * Context: process, the port's lock held.
 * Return: 0 or -errno
 */
int ipoib_channel_receive(struct ipoib_channel *ch)
{
	struct ipoib_port *port = ch->port;
	int ret;

	lockdep_assert_held(&port->lock);
	if (ch->pool)
		return 0;
	/* Page pools, destroyed on error, need their NAPI to be paused. */
	ipoib_channel_pause(ch);
	ret = ipoib_channel_make_pools(ch);
	if (ret)
		goto resume;
	ipoib_channel_set_format(ch, &ch->split, ipoib_rx_head_len(port->mtu));
	ipoib_channel_set_format(ch, &ch->whole, port->mtu);
	ch->whole.less = &ch->split;
	ret = ipoib_rxq_alloc(&ch->rxq, ch, ipoib_channel_format(ch),
			      port->srq_size, port->rx_pending);
	if (ret)
		goto err_pools;
	ret = ipoib_channel_srq(ch);
	if (ret)
		goto err_rxq;
resume:
	ipoib_channel_resume(ch);
	return ret;

err_rxq:
	ipoib_rxq_free(&ch->rxq);
	memset(&ch->rxq, 0, sizeof(ch->rxq));
err_pools:
	ipoib_channel_drop_pools(ch);
	goto resume;
}

/**
 * ipoib_channel_drop_srq - the first QP could not be created with the SRQ
 * @ch: channel
 * @error: why, if there is an SRQ
 *
 * Then no other can be, and the SRQ is not needed.  Later QPs fail for other
 * reasons.
 *
 * Return: true if there is no SRQ, dropped just now or not there before
 */
bool ipoib_channel_drop_srq(struct ipoib_channel *ch, int error)
{
	if (ch->rxq.srq && list_empty(&ch->port->devs)) {
		ib_destroy_srq(ch->rxq.srq);
		ch->rxq.srq = NULL;
		ipoib_port_without_srq(ch->port, error);
	}
	return !ch->rxq.srq;
}

/**
 * ipoib_channel_attach - choose the channel that a datagram QP receives in
 * @port: port
 * @first: use the first channel, for the parent
 *
 * The channel with the fewest, or the first if that lacks resources.
 *
 * Context: process; takes the port's lock.
 * Return: channel, to be released by ipoib_channel_detach(), or ERR_PTR()
 */
struct ipoib_channel *ipoib_channel_attach(struct ipoib_port *port, bool first)
{
	struct ipoib_channel *ch = port->channels[0];
	u32 i;
	int ret;

	mutex_lock(&port->lock);
	for (i = 1; !first && i < port->used_channels; i++)
		if (port->channels[i]->qps < ch->qps)
			ch = port->channels[i];
	ret = ipoib_channel_receive(ch);
	if (ret && ch->index) {
		ch = port->channels[0];
		ret = ipoib_channel_receive(ch);
	}
	if (!ret)
		ch->qps++;
	mutex_unlock(&port->lock);
	return ret ? ERR_PTR(ret) : ch;
}

/**
 * ipoib_channel_detach - undo ipoib_channel_attach(); the QP is gone
 * @ch: channel
 */
void ipoib_channel_detach(struct ipoib_channel *ch)
{
	mutex_lock(&ch->port->lock);
	ch->qps--;
	mutex_unlock(&ch->port->lock);
}

/* ---- users ------------------------------------------------------------- */

/* More users get more buffers, so that they don't starve each other. */
static void ipoib_channel_grow(struct ipoib_channel *ch, u32 users)
{
	u32 want = ipoib_srq_want(ch->port->rx_pending, users);

	lockdep_assert_held(&ch->port->lock);
	want = min(want, ch->rxq.size);
	/* They stay after the users have gone: no verb returns them. */
	if (ch->rxq.srq && want > ch->rxq.want)
		WRITE_ONCE(ch->rxq.want, want);
}

/* Post buffers for the first interface in a channel, more for others. */
static int ipoib_channel_fill(struct ipoib_channel *ch)
{
	bool empty;

	if (ch->users) {
		ipoib_channel_grow(ch, ch->users + 1);
		return 0;
	}
	if (!ch->rxq.srq)
		return 0;
	ipoib_channel_pause(ch);
	ipoib_rxq_refill(&ch->rxq);
	empty = ch->rxq.nfree == ch->rxq.used;
	ipoib_channel_resume(ch);
	return empty ? -ENOMEM : 0;
}

/**
 * ipoib_channel_fill_rxq - give a new receive queue its buffers
 * @rxq: receive queue whose channel has users
 *
 * Only the NAPI may touch it, so it has to be paused.
 *
 * Context: process.
 * Return: 0, or -ENOMEM if it has not got a single one
 */
int ipoib_channel_fill_rxq(struct ipoib_rxq *rxq)
{
	struct ipoib_channel *ch = rxq->ch;
	bool empty;

	mutex_lock(&ch->port->lock);
	ipoib_channel_pause(ch);
	ipoib_rxq_refill(rxq);
	empty = rxq->nfree == rxq->used;
	ipoib_channel_resume(ch);
	mutex_unlock(&ch->port->lock);
	return empty ? -ENOMEM : 0;
}

static void ipoib_port_napi_on(struct ipoib_port *port)
{
	u32 i;

	port->users = 1;
	for (i = 0; i < port->num_channels; i++)
		ipoib_channel_resume(port->channels[i]);	/* arms the CQs */
}

static void ipoib_port_napi_off(struct ipoib_port *port)
{
	u32 i;

	for (i = 0; i < port->num_channels; i++) {
		napi_disable(&port->channels[i]->napi);
		hrtimer_cancel(&port->channels[i]->hold_timer);
		WRITE_ONCE(port->channels[i]->held, false);
		timer_delete_sync(&port->channels[i]->refill_timer);
	}
}

/**
 * ipoib_channel_get - an interface comes up
 * @ch: channel it receives in
 *
 * Context: process.
 * Return: 0 or -ENOMEM
 */
int ipoib_channel_get(struct ipoib_channel *ch)
{
	struct ipoib_port *port = ch->port;
	int ret;

	mutex_lock(&port->lock);
	ret = ipoib_channel_fill(ch);
	if (!ret) {
		ch->users++;
		if (port->users)
			port->users++;
		else
			ipoib_port_napi_on(port);
	} else if (!port->users) {
		timer_delete_sync(&ch->refill_timer);
	}
	mutex_unlock(&port->lock);
	return ret;
}

/**
 * ipoib_channel_put - an interface is down
 * @ch: channel it received in
 */
void ipoib_channel_put(struct ipoib_channel *ch)
{
	struct ipoib_port *port = ch->port;

	mutex_lock(&port->lock);
	ch->users--;
	if (!--port->users)
		ipoib_port_napi_off(port);
	mutex_unlock(&port->lock);
}

/* ---- settings ---------------------------------------------------------- */

/**
 * ipoib_port_set_recvq - set how many receives of datagrams are posted
 * @port: port whose HCA has SRQs
 * @size: at most ipoib_port.srq_size, for each channel that has few users
 *
 * A larger number takes effect at once, a smaller one as packets come in.  This
 * can't fail: a buffer that is not available is retried.
 *
 * Context: rtnl.
 */
void ipoib_port_set_recvq(struct ipoib_port *port, u32 size)
{
	struct ipoib_channel *ch;
	u32 i;

	mutex_lock(&port->lock);
	port->rx_pending = size;
	for (i = 0; i < port->num_channels; i++) {
		ch = port->channels[i];
		if (!ch->rxq.srq)
			continue;
		WRITE_ONCE(ch->rxq.want, size);
		ipoib_channel_grow(ch, max(ch->users, 1U));
		ipoib_channel_kick(ch);
	}
	mutex_unlock(&port->lock);
}

/* All of them, even if the HCA refuses one; its first error. */
static int ipoib_port_moderate(struct ipoib_port *port)
{
	struct ipoib_cq *cq;
	int ret, first = 0;
	u32 i;

	for (i = 0; i < port->num_channels; i++) {
		list_for_each_entry(cq, &port->channels[i]->rx_cqs.list,
				    entry) {
			ret = ipoib_cq_moderate(port->channels[i], cq);
			first = first ?: ret;
		}
	}
	return first;
}

/**
 * ipoib_port_set_moderation - set how interrupts for receives are held back
 * @port: port
 * @frames: most receives; needs moderation by the HCA
 * @usecs: longest time
 * @adaptive: let DIM choose instead
 *
 * Context: process; takes the port's lock.
 * Return: 0, -EOPNOTSUPP if the HCA can't count @frames, or its error; nothing
 *	has changed then
 */
int ipoib_port_set_moderation(struct ipoib_port *port, u16 frames, u16 usecs,
			      bool adaptive)
{
	u16 want = frames;
	int ret;

	if (frames && !ipoib_port_moderates(port))
		return -EOPNOTSUPP;
	mutex_lock(&port->lock);
	swap(port->rx_frames, frames);
	swap(port->rx_usecs, usecs);
	swap(port->rx_adaptive, adaptive);
	ret = ipoib_port_moderate(port);
	/* The HCA may have turned out just now not to moderate at all. */
	if (!ret && want && !ipoib_port_moderates(port))
		ret = -EOPNOTSUPP;
	if (ret) {
		port->rx_frames = ipoib_port_moderates(port) ? frames : 0;
		swap(port->rx_usecs, usecs);
		swap(port->rx_adaptive, adaptive);
		ipoib_port_moderate(port);
	}
	mutex_unlock(&port->lock);
	return ret;
}

/* ---- setup and teardown ------------------------------------------------ */

static struct ipoib_channel *ipoib_channel_create(struct ipoib_port *port,
						  u32 index, u32 vector)
{
	struct ipoib_channel *ch;

	ch = kzalloc_obj(*ch);
	if (!ch)
		return NULL;
	ch->port = port;
	ch->index = index;
	ch->vector = vector % port->ca->num_comp_vectors;
	INIT_LIST_HEAD(&ch->rx_cqs.list);
	INIT_LIST_HEAD(&ch->tx_cqs.list);
	INIT_DELAYED_WORK(&ch->cq_work, ipoib_cq_work);
	INIT_LIST_HEAD(&ch->dirty);
	init_llist_head(&ch->bql);
	init_completion(&ch->flushed);
	u64_stats_init(&ch->rx.sync);
	timer_setup(&ch->refill_timer, ipoib_rxq_refill_timer, 0);
	ipoib_poll_init(ch);
	return ch;
}

static void ipoib_channel_silence(struct ipoib_channel *ch)
{
	/* The last poll may have started it after napi_disable() returned. */
	hrtimer_cancel(&ch->hold_timer);
	/* This one may queue the other. */
	cancel_work_sync(&ch->dim.work);
	cancel_delayed_work_sync(&ch->cq_work);
}

static void ipoib_channel_destroy(struct ipoib_channel *ch)
{
	if (ch->rxq.srq)
		ib_destroy_srq(ch->rxq.srq);
	ipoib_cq_destroy_all(&ch->tx_cqs);
	ipoib_cq_destroy_all(&ch->rx_cqs);
	ipoib_rxq_free(&ch->rxq);
	ipoib_channel_drop_pools(ch);
	kfree(ch);
}

/**
 * ipoib_channels_silence - end all that runs by itself, but free nothing
 * @port: port whose NAPI is disabled
 *
 * Context: process.
 */
void ipoib_channels_silence(struct ipoib_port *port)
{
	u32 i;

	for (i = 0; i < port->num_channels; i++)
		__netif_napi_del(&port->channels[i]->napi);
	synchronize_net();
	for (i = 0; i < port->num_channels; i++)
		ipoib_channel_silence(port->channels[i]);
}

void ipoib_channels_destroy(struct ipoib_port *port)
{
	ipoib_channels_silence(port);
	while (port->num_channels)
		ipoib_channel_destroy(port->channels[--port->num_channels]);
}

/* One for each CPU, unless the HCA has too few CQs or QPs for that. */
u32 ipoib_port_spread(const struct ipoib_port *port, int most)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	int left = min(attrs->max_cq, attrs->max_qp) / IPOIB_SCARCE;

	return clamp(left, 1, min_t(int, num_online_cpus(), most));
}

/* One channel for each CPU that can have its own vector. */
u32 ipoib_channels_fit(const struct ipoib_port *port)
{
	return ipoib_port_spread(port, min(port->ca->num_comp_vectors,
					   IPOIB_MAX_CHANNELS));
}

int ipoib_channels_create(struct ipoib_port *port, u32 num)
{
	static atomic_t next_vector = ATOMIC_INIT(-1);
	u32 vector = atomic_inc_return(&next_vector);
	struct ipoib_channel *ch;
	u32 i;

	for (i = 0; i < num; i++) {
		ch = ipoib_channel_create(port, i, vector + i);
		if (!ch) {
			ipoib_channels_destroy(port);
			return -ENOMEM;
		}
		port->channels[port->num_channels++] = ch;
	}
	port->used_channels = num;
	return 0;
}
