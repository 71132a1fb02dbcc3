// SPDX-License-Identifier: GPL-2.0-only
/*
 * CQs of a channel: reserved and created for QPs, never overrun, moderated
 *
 * Lock: ipoib_port.lock.  The NAPI walks the lists under RCU.
 */
#include <linux/rculist.h>
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_channel.h"
#include "ipoib_cq.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"

/* Profiles of DIM; headers of older kernels don't have its own name for it. */
#define IPOIB_DIM_PROFILES	5
/* Time that a CQ is kept without a QP, in case another one needs it */
#define IPOIB_CQ_LINGER		HZ

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

/* Set how many receives are taken from a CQ before the next one's turn. */
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
 * Profiles that DIM chooses from, by its profile_ix.  The first is no
 * moderation, so that a lone request is not delayed; all of the kernel's do.
 */
static const struct {
	u16 frames;
	u16 usecs;
} ipoib_moderation[IPOIB_DIM_PROFILES] = {
	{ }, { 8, 8 }, { 16, 32 }, { 32, 64 }, { 64, 128 },
};

bool ipoib_port_moderates(const struct ipoib_port *port)
{
	return port->ca->ops.modify_cq && !port->no_moderation;
}

/* What it was told last holds until it takes something: try again later. */
static int ipoib_cq_refused(struct ipoib_channel *ch, struct ipoib_cq *cq,
			    int error)
{
	if (!cq->refused)
		dev_warn_ratelimited(&ch->port->ca->dev,
				     "port %u: CQ can't be moderated: %pe\n",
				     ch->port->num, ERR_PTR(error));
	/* Idle CQs are destroyed by the same work item, and in time. */
	queue_delayed_work(ipoib_wq, &ch->cq_work,
			   min_t(unsigned long, IPOIB_CQ_LINGER,
				 ipoib_dev_delay(cq->refused++)));
	return error;
}

/* If the HCA can't do it, the channel waits before it requests interrupts. */
int ipoib_cq_moderate(struct ipoib_channel *ch, struct ipoib_cq *cq)
{
	struct ipoib_port *port = ch->port;
	u16 frames = port->rx_frames;
	u16 usecs = port->rx_usecs;
	int ret;

	if (port->rx_adaptive) {
		u8 ix = READ_ONCE(ch->dim.profile_ix);

		frames = ipoib_moderation[ix].frames;
		usecs = ipoib_moderation[ix].usecs;
	}
	if (!ipoib_port_moderates(port))
		goto hold;
	if (!frames && !usecs && !cq->moderated)
		return 0;
	cq->moderated = true;
	ret = rdma_set_cq_moderation(cq->ib, frames, usecs);
	/* Some HCAs of a driver can do it, others can't. */
	if (ret == -EOPNOTSUPP) {
		port->no_moderation = true;
		port->rx_frames = 0;
		goto hold;
	}
	if (ret)
		return ipoib_cq_refused(ch, cq, ret);
	cq->refused = 0;
	return 0;

hold:
	cq->refused = 0;
	WRITE_ONCE(ch->hold_usecs, usecs);
	return 0;
}

/* Find or create a CQ with room for @need completions beyond @base. */
static struct ipoib_cq *ipoib_cq_reserve(struct ipoib_channel *ch,
					 struct ipoib_cq_list *cqs, u32 need,
					 u32 base)
{
	u32 max_cqe = ch->port->ca->attrs.max_cqe;
	struct ipoib_cq *cq;
	int armed = 0;
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
		armed = ib_req_notify_cq(cq->ib, IB_CQ_NEXT_COMP);
	}
	list_add_tail_rcu(&cq->entry, &cqs->list);
	/* From now on the poll does it; if it was refused, soon. */
	if (armed < 0) {
		local_bh_disable();
		napi_schedule(&ch->napi);
		local_bh_enable();
	}
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
 * @cqs: result, to be released by ipoib_cq_put()
 * @attr: attributes to create the QP with; its CQs are filled in.  The send
 *	queue's length includes the drain marker
 *
 * Every CQ for receives has room for what the channel's SRQs may owe: that of
 * datagrams, and another one of ipoib_port.recvq_size buffers.
 *
 * A CQ must not overrun and can't be resized: when the room in those of the
 * channel is reserved, another one is created.
 *
 * Context: process; takes the port's lock.
 * Return: 0, -ENOSPC if no CQ of this HCA is long enough, or the HCA's error
 *	if it has no more CQs
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
 * ipoib_cq_put - release the room after the QP was destroyed
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

/* Moderate those again that the HCA refused to. */
static void ipoib_cq_moderate_again(struct ipoib_channel *ch)
{
	struct ipoib_cq *cq;

	mutex_lock(&ch->port->lock);
	list_for_each_entry(cq, &ch->rx_cqs.list, entry)
		if (cq->refused)
			ipoib_cq_moderate(ch, cq);
	mutex_unlock(&ch->port->lock);
}

void ipoib_cq_work(struct work_struct *work)
{
	struct ipoib_channel *ch =
		container_of(work, struct ipoib_channel, cq_work.work);
	unsigned int noio = memalloc_noio_save();

	ipoib_cq_moderate_again(ch);
	while (ipoib_cq_destroy_idle(ch, &ch->rx_cqs) ||
	       ipoib_cq_destroy_idle(ch, &ch->tx_cqs))
		;
	memalloc_noio_restore(noio);
}

void ipoib_cq_destroy_all(struct ipoib_cq_list *cqs)
{
	struct ipoib_cq *cq, *next;

	list_for_each_entry_safe(cq, next, &cqs->list, entry) {
		WARN_ON_ONCE(cq->users);
		ipoib_cq_destroy(cq);
	}
}
