// SPDX-License-Identifier: GPL-2.0-only
/*
 * A port: what its interfaces share, and the HCA's events
 *
 * A port owns the protection domain and the channels: CQs, NAPI, receive
 * buffers and SRQs, a set for each completion vector, shared by the parent
 * interface and its children.  The parent receives in the first channel;
 * children and connections are spread over all.  Buffers of an SRQ stay posted
 * while all interfaces are down: only destroying it would give them back.
 *
 * Events of the HCA are classified here and handed to the interfaces' own
 * work items, so that one that is stuck holds up no other.
 *
 * Locks: ipoib_port.lock (mutex) covers the list of interfaces and what the
 * QPs of a channel share; it nests inside ipoib_dev.lock.
 */
#include <linux/rhashtable.h>
#include <linux/sizes.h>
#include <net/page_pool/helpers.h>

#include "ipoib.h"
#include "ipoib_drain.h"
#include "ipoib_trace.h"

#define IPOIB_POOL_PAGE		SZ_32K	/* heads are fragments of such */
#define IPOIB_POOL_BYTES	SZ_8M	/* kept for other heads */
#define IPOIB_SMALL_BYTES	SZ_1M	/* for small packets */
#define IPOIB_PAGES_BYTES	SZ_1M	/* while memory is in pieces */
#define IPOIB_BARRIER_WARN	HZ
/* An HCA of less CQs or QPs than these for each CPU is not spread over all. */
#define IPOIB_SCARCE		16
/* As many as DIM knows; its own name for it came to headers late. */
#define IPOIB_DIM_PROFILES	5
/* CQs are kept so long without a QP, in case there will be another one. */
#define IPOIB_CQ_LINGER		HZ

/* ---- CQs ---------------------------------------------------------------- */

static void ipoib_cq_handler(struct ib_cq *cq, void *ctx)
{
	struct ipoib_channel *ch = ctx;

	WRITE_ONCE(ch->irqs, ch->irqs + 1);
	napi_schedule(&ch->napi);
}

static void ipoib_cq_event(struct ib_event *event, void *ctx)
{
	struct ipoib_channel *ch = ctx;

	dev_warn(&ch->port->ca->dev, "port %u: CQ: %s\n", ch->port->num,
		 ib_event_msg(event->event));
}

/* How many receives a CQ gives before the next one has its turn. */
static void ipoib_channel_set_share(struct ipoib_channel *ch)
{
	u32 share = NAPI_POLL_WEIGHT / max(ch->rx_cqs.num, 1U);

	WRITE_ONCE(ch->rx_share, clamp(share, 1U, IPOIB_WC_BATCH));
}

static struct ipoib_cq *ipoib_cq_create(struct ipoib_channel *ch, u32 cqe,
					u32 base)
{
	struct ib_cq_init_attr attr = {
		.cqe = cqe,
		.comp_vector = ch->vector,
	};
	struct ipoib_cq *cq;
	int ret;

	cq = kzalloc_obj(*cq);
	if (!cq)
		return ERR_PTR(-ENOMEM);
	cq->ib = ib_create_cq(ch->port->ca, ipoib_cq_handler, ipoib_cq_event,
			      ch, &attr);
	if (IS_ERR(cq->ib)) {
		ret = PTR_ERR(cq->ib);
		kfree(cq);
		return ERR_PTR(ret);
	}
	cq->room = cq->ib->cqe - base;
	return cq;
}

static void ipoib_cq_destroy(struct ipoib_cq *cq)
{
	ib_destroy_cq(cq->ib);
	kfree(cq);
}

/*
 * What DIM chooses from, by its profile_ix.  The first is no moderation, so
 * that a lone request is never held back; the kernel's own profiles all do.
 */
static const struct {
	u16 frames;
	u16 usecs;
} ipoib_moderation[IPOIB_DIM_PROFILES] = {
	{ }, { 8, 8 }, { 16, 32 }, { 32, 64 }, { 64, 128 },
};

static bool ipoib_ca_moderates(const struct ib_device *ca)
{
	return ca->ops.modify_cq;
}

/* An HCA that can't do it has the channel wait before it asks for interrupts. */
static int ipoib_cq_moderate(struct ipoib_channel *ch, struct ipoib_cq *cq)
{
	const struct ipoib_port *port = ch->port;
	u16 frames = port->rx_frames;
	u16 usecs = port->rx_usecs;

	if (port->rx_adaptive) {
		u8 ix = READ_ONCE(ch->dim.profile_ix);

		frames = ipoib_moderation[ix].frames;
		usecs = ipoib_moderation[ix].usecs;
	}
	if (!ipoib_ca_moderates(port->ca)) {
		WRITE_ONCE(ch->hold_usecs, usecs);
		return 0;
	}
	if (!frames && !usecs && !cq->moderated)
		return 0;
	cq->moderated = true;
	return rdma_set_cq_moderation(cq->ib, frames, usecs);
}

/* Find or make a CQ with room for @need beyond the @base of each. */
static struct ipoib_cq *ipoib_cq_reserve(struct ipoib_channel *ch,
					 struct ipoib_cq_list *cqs, u32 need,
					 u32 base)
{
	u32 max_cqe = ch->port->ca->attrs.max_cqe;
	struct ipoib_cq *cq;
	u32 cqe;

	lockdep_assert_held(&ch->port->lock);
	list_for_each_entry(cq, &cqs->list, entry)
		if (cq->room >= need)
			goto found;

	if (max_cqe < base || max_cqe - base < need)
		return ERR_PTR(-ENOSPC);
	cqe = base + ipoib_cq_size(need, cqs->num, max_cqe - base);
	cq = ipoib_cq_create(ch, cqe, base);
	if (IS_ERR(cq) && cqe > base + need)
		cq = ipoib_cq_create(ch, base + need, base);
	if (IS_ERR(cq))
		return cq;
	if (cqs == &ch->rx_cqs) {
		ipoib_cq_moderate(ch, cq);
		/* Later the poll does it. */
		ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP);
	}
	list_add_tail_rcu(&cq->entry, &cqs->list);
	cqs->num++;
	ipoib_channel_set_share(ch);
found:
	cq->room -= need;
	cq->users++;
	return cq;
}

static void ipoib_cq_release(struct ipoib_channel *ch, struct ipoib_cq *cq,
			     u32 need)
{
	lockdep_assert_held(&ch->port->lock);
	cq->room += need;
	if (!--cq->users)
		queue_delayed_work(ipoib_wq, &ch->cq_work, IPOIB_CQ_LINGER);
}

/**
 * ipoib_cq_get - reserve room for all completions that a QP can owe
 * @ch: channel
 * @cqs: result, to be given back by ipoib_cq_put()
 * @attr: what the QP is made with; gets its CQs.  The send queue's length
 *	includes the marker of a drain
 *
 * Every CQ for receives has room for what the channel's SRQs may owe: the
 * datagrams' and one more of ipoib_port.recvq_size buffers.
 *
 * A CQ never overruns, and can't be resized: when those of the channel are
 * promised, another one is made.
 *
 * Context: process; takes the port's lock.
 * Return: 0, -ENOSPC if no CQ of this HCA is long enough, or what the HCA says
 *	when it has no more of them
 */
int ipoib_cq_get(struct ipoib_channel *ch, struct ipoib_cqs *cqs,
		 struct ib_qp_init_attr *attr)
{
	u32 sends = attr->cap.max_send_wr, receives = attr->cap.max_recv_wr;
	struct ipoib_cq *tx, *rx = NULL;
	int ret = 0;

	mutex_lock(&ch->port->lock);
	tx = ipoib_cq_reserve(ch, &ch->tx_cqs, sends, 0);
	if (IS_ERR(tx)) {
		ret = PTR_ERR(tx);
		goto unlock;
	}
	if (receives || attr->srq)
		rx = ipoib_cq_reserve(ch, &ch->rx_cqs, receives,
				      ch->port->srq_room);
	if (IS_ERR(rx)) {
		ret = PTR_ERR(rx);
		ipoib_cq_release(ch, tx, sends);
		goto unlock;
	}
	cqs->tx = tx;
	cqs->rx = rx;
	cqs->sends = sends;
	cqs->receives = receives;
	attr->send_cq = tx->ib;
	attr->recv_cq = rx ? rx->ib : tx->ib;
unlock:
	mutex_unlock(&ch->port->lock);
	return ret;
}

/**
 * ipoib_cq_put - give the room back; the QP was destroyed
 * @ch: channel
 * @cqs: from ipoib_cq_get(), or zeroed
 *
 * Context: process; takes the port's lock.
 */
void ipoib_cq_put(struct ipoib_channel *ch, struct ipoib_cqs *cqs)
{
	if (!cqs->tx)
		return;
	mutex_lock(&ch->port->lock);
	ipoib_cq_release(ch, cqs->tx, cqs->sends);
	if (cqs->rx)
		ipoib_cq_release(ch, cqs->rx, cqs->receives);
	mutex_unlock(&ch->port->lock);
	cqs->tx = NULL;
	cqs->rx = NULL;
}

static bool ipoib_cq_destroy_idle(struct ipoib_channel *ch,
				  struct ipoib_cq_list *cqs)
{
	struct ipoib_cq *cq, *idle = NULL;

	mutex_lock(&ch->port->lock);
	list_for_each_entry(cq, &cqs->list, entry) {
		if (!cq->users) {
			list_del_rcu(&cq->entry);
			cqs->num--;
			ipoib_channel_set_share(ch);
			idle = cq;
			break;
		}
	}
	mutex_unlock(&ch->port->lock);
	if (!idle)
		return false;
	synchronize_rcu();
	ipoib_cq_destroy(idle);
	return true;
}

static void ipoib_cq_work(struct work_struct *work)
{
	struct ipoib_channel *ch =
		container_of(work, struct ipoib_channel, cq_work.work);

	while (ipoib_cq_destroy_idle(ch, &ch->rx_cqs) ||
	       ipoib_cq_destroy_idle(ch, &ch->tx_cqs))
		;
}

static void ipoib_cq_destroy_all(struct ipoib_cq_list *cqs)
{
	struct ipoib_cq *cq, *next;

	list_for_each_entry_safe(cq, next, &cqs->list, entry) {
		WARN_ON_ONCE(cq->users);
		ipoib_cq_destroy(cq);
	}
}

/* ---- channel ------------------------------------------------------------ */

/*
 * An SRQ for datagrams.  If the HCA has none for the first channel, all go on
 * without.
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

	if (ch->port->no_srq || ca->attrs.max_srq_sge < num_sge)
		return 0;
	srq = ib_create_srq(ch->port->pd, &attr);
	if (IS_ERR(srq))
		return ch->port->channels[0]->rxq.srq ? PTR_ERR(srq) : 0;
	ch->rxq.srq = srq;
	return 0;
}

/**
 * ipoib_channel_pool - make a page pool for receives
 * @ch: channel whose NAPI takes from it
 * @result: the pool, not touched if there is none
 * @page: bytes of its pages, at least
 * @keep: bytes that it keeps for another use, at most
 * @dma: the HCA writes to them
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

/* A head that takes so much, and a tail for what a datagram has beyond it. */
static void ipoib_channel_set_format(struct ipoib_channel *ch,
				     struct ipoib_rx_format *format, u32 head)
{
	/* In front of the packet stands a link-layer address. */
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
 * ipoib_channel_format - what a channel's receives for datagrams are made of
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
 * ipoib_port_use_len - a link has told how long its datagrams are
 * @port: port
 * @len: octets with the encapsulation
 *
 * Most ports could have 4096, most links have 2048.  So receives come in two
 * pieces, of which the second is rarely touched, until there is a link that
 * needs it; then in one.  Those that are posted stay as they are.
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
	list_for_each_entry(dev, &port->devs, port_entry)
		if (dev->ud.rxq)
			WRITE_ONCE(dev->ud.rxq->format,
				   &ipoib_dev_channel(dev)->whole);
	mutex_unlock(&port->lock);
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

/**
 * ipoib_channel_receive - have a channel able to receive
 * @ch: channel
 *
 * Buffers for datagrams come when an interface opens.
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
	/* A page pool is destroyed, if it must be, while its NAPI pauses. */
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
 * ipoib_channel_attach - choose the channel that a datagram QP receives in
 * @port: port
 * @first: it is the parent's: the first channel
 *
 * The one with the fewest, or the first if that has not what it takes.
 *
 * Context: process; takes the port's lock.
 * Return: channel, to be given back by ipoib_channel_detach(), or ERR_PTR()
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

/* DIM has found something better. */
static void ipoib_channel_dim_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct ipoib_channel *ch = container_of(dim, struct ipoib_channel, dim);
	struct ipoib_port *port = ch->port;
	struct ipoib_cq *cq;

	mutex_lock(&port->lock);
	if (port->rx_adaptive)
		list_for_each_entry(cq, &ch->rx_cqs.list, entry)
			ipoib_cq_moderate(ch, cq);
	mutex_unlock(&port->lock);
	dim->state = DIM_START_MEASURE;
}

/* Packets that came meanwhile are as good as an interrupt. */
static enum hrtimer_restart ipoib_channel_held(struct hrtimer *timer)
{
	struct ipoib_channel *ch =
		container_of(timer, struct ipoib_channel, hold_timer);

	WRITE_ONCE(ch->irqs, ch->irqs + 1);
	/* Before the poll that is to ask for interrupts if nothing came */
	WRITE_ONCE(ch->held, false);
	napi_schedule(&ch->napi);
	return HRTIMER_NORESTART;
}

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
	INIT_WORK(&ch->dim.work, ipoib_channel_dim_work);
	ch->dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
	INIT_LIST_HEAD(&ch->dirty);
	init_llist_head(&ch->bql);
	init_completion(&ch->flushed);
	u64_stats_init(&ch->rx.sync);
	timer_setup(&ch->refill_timer, ipoib_channel_refill_timer, 0);
	hrtimer_setup(&ch->hold_timer, ipoib_channel_held, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED);
	netif_napi_add(port->parent, &ch->napi, ipoib_poll);
	return ch;
}

static void ipoib_channel_destroy(struct ipoib_channel *ch)
{
	/* A poll that was given up may have started it as the last it did. */
	hrtimer_cancel(&ch->hold_timer);
	if (ch->rxq.srq)
		ib_destroy_srq(ch->rxq.srq);
	cancel_delayed_work_sync(&ch->cq_work);
	cancel_work_sync(&ch->dim.work);
	ipoib_cq_destroy_all(&ch->tx_cqs);
	ipoib_cq_destroy_all(&ch->rx_cqs);
	ipoib_rxq_free(&ch->rxq);
	ipoib_channel_drop_pools(ch);
	kfree(ch);
}

static void ipoib_channels_destroy(struct ipoib_port *port)
{
	u32 i;

	for (i = 0; i < port->num_channels; i++)
		__netif_napi_del(&port->channels[i]->napi);
	synchronize_net();
	while (port->num_channels)
		ipoib_channel_destroy(port->channels[--port->num_channels]);
}

/* Something for each CPU, unless the HCA has so little that it runs short. */
static u32 ipoib_port_spread(const struct ipoib_port *port, int most)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	int left = min(attrs->max_cq, attrs->max_qp) / IPOIB_SCARCE;

	return clamp(left, 1, min_t(int, num_online_cpus(), most));
}

/* One for each CPU that can have a vector of its own. */
static u32 ipoib_channels_fit(const struct ipoib_port *port)
{
	return ipoib_port_spread(port, min(port->ca->num_comp_vectors,
					   IPOIB_MAX_CHANNELS));
}

static int ipoib_channels_create(struct ipoib_port *port)
{
	static atomic_t next_vector = ATOMIC_INIT(-1);
	u32 vector = atomic_inc_return(&next_vector);
	u32 i, num = port->parent->num_rx_queues;
	struct ipoib_channel *ch;

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

/**
 * ipoib_channel_drop_srq - the first QP could not be made with the SRQ
 * @ch: channel
 *
 * Then no other will, and its buffers need not be there.  Later QPs fail for
 * other reasons.
 *
 * Return: true if there is no SRQ, now or anyway
 */
bool ipoib_channel_drop_srq(struct ipoib_channel *ch)
{
	if (ch->rxq.srq && list_empty(&ch->port->devs)) {
		ib_destroy_srq(ch->rxq.srq);
		ch->rxq.srq = NULL;
		ch->port->no_srq = true;
	}
	return !ch->rxq.srq;
}

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

/* More users, more buffers, so that they don't take them from each other. */
static void ipoib_channel_grow(struct ipoib_channel *ch, u32 users)
{
	u32 want = ipoib_srq_want(ch->port->rx_pending, users);

	lockdep_assert_held(&ch->port->lock);
	want = min(want, ch->rxq.size);
	/* They stay when the users have gone: no verb gives them back. */
	if (ch->rxq.srq && want > ch->rxq.want)
		WRITE_ONCE(ch->rxq.want, want);
}

/**
 * ipoib_port_set_recvq - set how many receives of datagrams are posted
 * @port: port whose HCA has SRQs
 * @size: at most ipoib_port.srq_size, for each channel that has few users
 *
 * More are posted at once; fewer as packets come in.  Nothing can fail: a
 * buffer that can't be had is tried again.
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

static int ipoib_port_moderate(struct ipoib_port *port)
{
	struct ipoib_cq *cq;
	int ret;
	u32 i;

	for (i = 0; i < port->num_channels; i++) {
		list_for_each_entry(cq, &port->channels[i]->rx_cqs.list,
				    entry) {
			ret = ipoib_cq_moderate(port->channels[i], cq);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/**
 * ipoib_port_set_moderation - set how interrupts for receives are held back
 * @port: port
 * @frames: until there are so many; only HCAs can do this
 * @usecs: or so much time has gone by
 * @adaptive: as DIM finds out to be good, instead
 *
 * Context: process; takes the port's lock.
 * Return: 0, -EOPNOTSUPP if the HCA can't, or what it says; then all is as
 *	before
 */
int ipoib_port_set_moderation(struct ipoib_port *port, u16 frames, u16 usecs,
			      bool adaptive)
{
	int ret;

	if (frames && !ipoib_ca_moderates(port->ca))
		return -EOPNOTSUPP;
	mutex_lock(&port->lock);
	swap(port->rx_frames, frames);
	swap(port->rx_usecs, usecs);
	swap(port->rx_adaptive, adaptive);
	ret = ipoib_port_moderate(port);
	if (ret) {
		swap(port->rx_frames, frames);
		swap(port->rx_usecs, usecs);
		swap(port->rx_adaptive, adaptive);
		ipoib_port_moderate(port);
	}
	mutex_unlock(&port->lock);
	return ret;
}

/**
 * ipoib_port_set_channels - set over how many channels receivers are spread
 * @port: port
 * @num: how many
 *
 * A datagram QP stays where it is, since its number is its address; new ones
 * and new connections use the channels there are then.
 *
 * Context: rtnl.
 */
void ipoib_port_set_channels(struct ipoib_port *port, u32 num)
{
	struct ipoib_dev *dev;

	ASSERT_RTNL();
	mutex_lock(&port->lock);
	port->used_channels = num;
	mutex_unlock(&port->lock);
	list_for_each_entry(dev, &port->devs, port_entry)
		ipoib_dev_reconnect(dev);
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

/* The first interface in a channel needs buffers, more need more of them. */
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

/**
 * ipoib_channel_barrier - wait until nothing of the past is in the channel
 * @ch: channel whose NAPI runs
 *
 * When it returns, completions that were in the CQs have been handled and
 * GRO has passed on what it held, which has no reference on its device.  What is
 * freed behind it is known to no poll.  Like napi_disable() it has no time limit:
 * it waits for this host's softirq only, which has a bounded number of
 * completions to handle.
 *
 * @since: ipoib_channel.barriers as the NAPI saw it when what is waited for was
 *	in the CQs; a barrier begun after that will do
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
		netdev_warn(ch->port->parent, "NAPI of channel %u is held up\n",
			    ch->index);
unlock:
	mutex_unlock(&ch->port->lock);
}

/* ---- events ------------------------------------------------------------- */

static void ipoib_port_event(struct ib_event_handler *handler,
			     struct ib_event *event)
{
	struct ipoib_port *port =
		container_of(handler, struct ipoib_port, handler);
	unsigned long bits = ipoib_event_classify(event->event,
						  event->element.port_num,
						  port->num);

	if (!bits)
		return;
	trace_ipoib_event(port, event->event);
	set_mask_bits(&port->events, 0UL, bits);
	queue_work(ipoib_wq, &port->event_work);
}

static void ipoib_port_event_work(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, event_work);
	unsigned long bits = xchg(&port->events, 0);
	struct ipoib_dev *dev;
	unsigned long bit;

	if (bits & (BIT(IPOIB_EV_REVALIDATE) | BIT(IPOIB_EV_REJOIN)))
		ipoib_path_revalidate(port);
	mutex_lock(&port->lock);
	list_for_each_entry(dev, &port->devs, port_entry)
		for_each_set_bit(bit, &bits, BITS_PER_LONG)
			ipoib_dev_event(dev, bit);
	mutex_unlock(&port->lock);
}

/**
 * ipoib_port_active - is the port in a state that carries data?
 * @port: port
 * @attr: its attributes, may be NULL
 *
 * Context: process.
 * Return: 1 or 0, or -errno if the HCA does not say
 */
int ipoib_port_active(struct ipoib_port *port, struct ib_port_attr *attr)
{
	struct ib_port_attr own;
	int ret;

	if (!attr)
		attr = &own;
	ret = ib_query_port(port->ca, port->num, attr);
	return ret ?: attr->state == IB_PORT_ACTIVE;
}

/* ---- life cycle --------------------------------------------------------- */

void ipoib_port_attach(struct ipoib_port *port, struct ipoib_dev *dev)
{
	mutex_lock(&port->lock);
	list_add_tail(&dev->port_entry, &port->devs);
	mutex_unlock(&port->lock);
}

void ipoib_port_detach(struct ipoib_port *port, struct ipoib_dev *dev)
{
	mutex_lock(&port->lock);
	list_del_init(&dev->port_entry);
	mutex_unlock(&port->lock);
}

/**
 * ipoib_port_put - drop a reference; the last one frees the memory
 * @port: port
 *
 * Context: process.
 */
void ipoib_port_put(struct ipoib_port *port)
{
	if (!refcount_dec_and_test(&port->ref))
		return;
	rhashtable_destroy(&port->path_table);
	kfree(port);
}

static int ipoib_port_marker(struct ipoib_port *port)
{
	struct rdma_ah_attr attr = {
		.type = rdma_ah_find_type(port->ca, port->num),
	};
	struct ib_ah *ah;

	/* Never sent to: the request it stands in is flushed. */
	rdma_ah_set_port_num(&attr, port->num);
	rdma_ah_set_dlid(&attr, 1);
	ah = rdma_create_ah(port->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ah))
		return PTR_ERR(ah);
	port->marker_ah = ah;
	return 0;
}

static int ipoib_port_parent(struct ipoib_port *port)
{
	struct net_device *ndev;
	u16 pkey;
	int ret;

	ret = ib_query_pkey(port->ca, port->num, 0, &pkey);
	if (ret)
		return ret;
	ndev = alloc_netdev_mqs(sizeof(struct ipoib_dev), "ib%d", NET_NAME_ENUM,
				ipoib_setup,
				ipoib_port_spread(port, IPOIB_MAX_TXQS),
				ipoib_channels_fit(port));
	if (!ndev)
		return -ENOMEM;
	port->parent = ndev;
	/* Children are virtual, as far as the stack is concerned. */
	SET_NETDEV_DEV(ndev, port->ca->dev.parent);
	ndev->rtnl_link_ops = &ipoib_link_ops;
	ret = ipoib_dev_prepare(ipoib_priv(ndev), port, ipoib_pkey_full(pkey));
	if (ret)
		goto err_free;
	ret = ipoib_channels_create(port);
	if (ret)
		goto err_free;
	ret = register_netdev(ndev);
	if (ret)
		goto err_channels;
	return 0;

err_channels:
	ipoib_channels_destroy(port);
err_free:
	free_netdev(ndev);
	return ret;
}

/* Queue sizes: what the parameters say, as far as the HCA goes along. */
static int ipoib_port_sizes(struct ipoib_port *port)
{
	const struct ib_device_attr *attrs = &port->ca->attrs;
	struct ib_port_attr attr;
	int ret, mtu;

	ret = ib_query_port(port->ca, port->num, &attr);
	if (ret)
		return ret;
	mtu = ib_mtu_enum_to_int(attr.max_mtu);
	if (mtu < 0)
		return -EINVAL;
	port->mtu = mtu;
	port->no_srq = !attrs->max_srq;
	port->sendq_size = ipoib_sendq_fit(ipoib_sendq_size, attrs->max_qp_wr,
					   attrs->max_cqe);
	/* With SRQs each CQ has room for two of them. */
	port->recvq_size = ipoib_recvq_fit(ipoib_recvq_size, attrs->max_qp_wr,
					   port->no_srq ? attrs->max_cqe :
							  attrs->max_cqe / 2,
					   port->no_srq ? INT_MAX :
							  attrs->max_srq_wr);
	port->srq_size = port->recvq_size;
	port->rx_pending = port->recvq_size;
	port->rx_adaptive = true;
	if (port->no_srq)
		return 0;
	port->srq_size = ipoib_srq_fit(port->recvq_size, attrs->max_srq_wr,
				       attrs->max_cqe);
	port->srq_room = port->srq_size + port->recvq_size;
	return 0;
}

/**
 * ipoib_port_create - make a port and its parent interface
 * @ca: HCA
 * @num: port number
 * Return: port or ERR_PTR()
 */
struct ipoib_port *ipoib_port_create(struct ib_device *ca, u32 num)
{
	struct ipoib_port *port;
	int ret;

	port = kzalloc_obj(*port);
	if (!port)
		return ERR_PTR(-ENOMEM);
	port->ca = ca;
	port->num = num;
	refcount_set(&port->ref, 1);
	mutex_init(&port->lock);
	ipoib_drain_port_init(port);
	INIT_LIST_HEAD(&port->devs);
	INIT_WORK(&port->event_work, ipoib_port_event_work);
	ret = ipoib_port_sizes(port);
	ret = ret ?: ipoib_path_port_init(port);
	if (ret) {
		kfree(port);
		return ERR_PTR(ret);
	}
	port->pd = ib_alloc_pd(ca, 0);
	if (IS_ERR(port->pd)) {
		ret = PTR_ERR(port->pd);
		goto err_put;
	}
	ret = ipoib_port_marker(port);
	if (ret)
		goto err_pd;
	/* Before anything is read that an event could tell to be another. */
	INIT_IB_EVENT_HANDLER(&port->handler, ca, ipoib_port_event);
	ib_register_event_handler(&port->handler);
	ret = ipoib_port_parent(port);
	if (ret)
		goto err_handler;
	return port;

err_handler:
	ib_unregister_event_handler(&port->handler);
	cancel_work_sync(&port->event_work);
	ipoib_path_port_exit(port);
	rdma_destroy_ah(port->marker_ah, RDMA_DESTROY_AH_SLEEPABLE);
err_pd:
	ib_dealloc_pd(port->pd);
err_put:
	ipoib_port_put(port);
	return ERR_PTR(ret);
}

/**
 * ipoib_port_destroy - remove a port and its interfaces
 * @port: port
 *
 * Waits for no answer of the fabric.
 */
void ipoib_port_destroy(struct ipoib_port *port)
{
	ib_unregister_event_handler(&port->handler);
	cancel_work_sync(&port->event_work);
	ipoib_port_unregister(port);
	ipoib_path_port_exit(port);
	ipoib_channels_destroy(port);
	free_netdev(port->parent);
	rdma_destroy_ah(port->marker_ah, RDMA_DESTROY_AH_SLEEPABLE);
	ib_dealloc_pd(port->pd);
	ipoib_port_put(port);
}
