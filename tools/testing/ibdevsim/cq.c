// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: completion queues
 *
 * A CQ is a ring that senders fill and the consumer polls, both under cq->lock.
 * Polling also frees the queue slots that an entry retires; until then they
 * count as in use, as on hardware (IBA vol 1, 10.8.5).
 */
#include <linux/slab.h>

#include "call.h"
#include "cq.h"
#include "object.h"

/* Of completions, in user space; uverbs does not translate them. */
#define IBDS_USER_WC_CSUM_OK	BIT(2)
#define IBDS_USER_WC_WITH_INV	BIT(3)

/* The part of struct ib_wc that an InfiniBand HCA fills, copied in one go. */
struct ibds_wc_head {
	u64 word[offsetof(struct ib_wc, smac) / sizeof(u64)];
};

static_assert(sizeof(struct ibds_wc_head) == offsetof(struct ib_wc, smac));

static void ibds_cq_error_work(struct work_struct *work)
{
	struct ibds_cq *cq = container_of(work, struct ibds_cq, todo);
	struct ib_event event = {
		.device = cq->ib.device,
		.element.cq = &cq->ib,
		.event = IB_EVENT_CQ_ERR,
	};

	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

/*
 * Entries in use.  What is held back is only for user space, which could let it
 * grow without limit: receives from an SRQ can be posted again at once.
 */
static u32 ibds_cq_used(const struct ibds_cq *cq)
{
	return cq->tail - cq->head + (cq->user ? cq->helds : 0);
}

static bool ibds_cq_has_room(const struct ibds_cq *cq)
{
	return ibds_cq_used(cq) < cq->room;
}

/*
 * A CQ error (IBA vol 1, 11.6.3): the completion is lost, the slots it would
 * have retired stay in use, earlier completions can still be polled.
 */
static void ibds_cq_overrun(struct ibds_cq *cq)
{
	ibds_count(cq->port, cq_overflow);
	if (!cq->overrun) {
		cq->overrun = true;
		/* Users could fill the log. */
		if (!cq->user)
			dev_warn(&cq->ib.device->dev,
				 "CQ overrun: %u entries, vector %d\n",
				 cq->room, cq->cpu);
		queue_work(ibds_wq_of(cq->user), &cq->todo);
	}
}

static void ibds_held_free(struct ibds_cq *cq, struct ibds_held *held)
{
	list_del(&held->entry);
	cq->helds--;
	kfree(held);
}

/* An entry is of the QP; without one: it is there because of a fault only. */
static bool ibds_cqe_of(const struct ibds_cqe *cqe, const struct ib_qp *qp)
{
	return qp ? cqe->wc.qp == qp : cqe->sq_slots == IBDS_CQE_EXTRA;
}

/* Drop such entries. */
static void ibds_cq_drop(struct ibds_cq *cq, const struct ib_qp *qp)
{
	u32 from, to = cq->head;

	for (from = cq->head; from != cq->tail; from++) {
		const struct ibds_cqe *cqe = &cq->ring[from & cq->mask];

		if (ibds_cqe_of(cqe, qp))
			continue;
		if (to != from)
			cq->ring[to & cq->mask] = *cqe;
		to++;
	}
	WRITE_ONCE(cq->tail, to);
}

/* Drop such entries of one of the lists. */
static void ibds_cq_drop_held(struct ibds_cq *cq, struct list_head *list,
			      const struct ib_qp *qp)
{
	struct ibds_held *held, *next;

	list_for_each_entry_safe(held, next, list, entry)
		if (ibds_cqe_of(&held->cqe, qp))
			ibds_held_free(cq, held);
}

/*
 * Find room for a completion, or have the CQ overrun.  Nobody reserved any for
 * entries that only faults add: those make way for the others.
 */
static bool ibds_cq_find_room(struct ibds_cq *cq, const struct ibds_cqe *cqe)
{
	if (likely(ibds_cq_has_room(cq)))
		return true;
	if (cqe->sq_slots == IBDS_CQE_EXTRA)
		return false;
	ibds_cq_drop(cq, NULL);
	if (cq->user)
		ibds_cq_drop_held(cq, &cq->held, NULL);
	if (ibds_cq_has_room(cq))
		return true;
	ibds_cq_overrun(cq);
	return false;
}

/* ---- faults ------------------------------------------------------------- */

static bool ibds_cqe_faults(const struct ibds_dev *dev)
{
	u32 n;

	for (n = 0; n < dev->caps.ports; n++) {
		const struct ibds_faults *f = &dev->port[n].faults;

		if (atomic_read(&f->cqe_send_error) ||
		    atomic_read(&f->cqe_recv_error) ||
		    atomic_read(&f->cqe_lose) || atomic_read(&f->cqe_twice) ||
		    READ_ONCE(f->cqe_delay_ms))
			return true;
	}
	return false;
}

/* Have senders take the slow way, or not.  cq->lock is held. */
static void ibds_cq_set_limit(struct ibds_cq *cq)
{
	bool odd = !list_empty(&cq->held) ||
		   ibds_cqe_faults(to_ibds_dev(cq->ib.device));

	cq->limit = odd ? 0 : cq->room;
}

/**
 * ibds_cqs_update - handle that a fault of completions was set or lifted
 * @dev: HCA
 *
 * Context: process.
 */
void ibds_cqs_update(struct ibds_dev *dev)
{
	struct ibds_cq *cq;

	spin_lock_irq(&dev->cq_lock);
	list_for_each_entry(cq, &dev->cqs, entry) {
		spin_lock(&cq->lock);
		ibds_cq_set_limit(cq);
		spin_unlock(&cq->lock);
	}
	spin_unlock_irq(&dev->cq_lock);
}

/* Add a completion to the ring, whatever faults there are; false: it is lost. */
static bool ibds_cq_publish(struct ibds_cq *cq, const struct ibds_cqe *cqe,
			    bool solicited)
{
	lockdep_assert_held(&cq->lock);
	if (!ibds_cq_find_room(cq, cqe))
		return false;
	cq->ring[cq->tail & cq->mask] = *cqe;
	/* Pairs with the check for an empty CQ in ibds_poll_cq(). */
	WRITE_ONCE(cq->tail, cq->tail + 1);
	ibds_count(cq->port, cqe);
	if (cq->notify)
		ibds_cq_event(cq, solicited);
	return true;
}

static void ibds_cq_release(struct ibds_cq *cq, struct ibds_held *held)
{
	const struct ibds_held was = *held;

	/* First, so that its own room is there. */
	ibds_held_free(cq, held);
	if (ibds_cq_publish(cq, &was.cqe, was.solicited) && was.reset)
		ibds_count(to_ibds_qp(was.cqe.wc.qp)->port, cqe_reset);
}

/* Report what was lost; nobody reserved room for it, but somebody may wait. */
static void ibds_cq_find_missing(struct ibds_cq *cq)
{
	struct ibds_held *held, *next;

	list_for_each_entry_safe(held, next, &cq->missing, entry) {
		if (!ibds_cq_has_room(cq)) {
			queue_delayed_work(ibds_datapath_wq, &cq->held_work, 1);
			return;
		}
		ibds_cq_release(cq, held);
	}
}

static void ibds_cq_held_work(struct work_struct *work)
{
	struct ibds_cq *cq = container_of(work, struct ibds_cq, held_work.work);
	bool lifted = READ_ONCE(to_ibds_dev(cq->ib.device)->lifted);
	struct ibds_held *held;
	unsigned long now = jiffies;

	spin_lock_irq(&cq->lock);
	if (lifted)
		ibds_cq_find_missing(cq);
	while ((held = list_first_entry_or_null(&cq->held, struct ibds_held,
						entry))) {
		if (!lifted && time_before(now, held->due)) {
			queue_delayed_work(ibds_datapath_wq, &cq->held_work,
					   held->due - now);
			break;
		}
		ibds_cq_release(cq, held);
	}
	ibds_cq_set_limit(cq);
	spin_unlock_irq(&cq->lock);
}

/**
 * ibds_cqs_release - report all completions that faults hold back, and lost ones
 * @dev: HCA, whose faults are lifted, and which says so
 *
 * The core waits for them before it destroys a QP, for as long as it takes.
 * Those of user space stay lost.
 *
 * Context: process.
 */
void ibds_cqs_release(struct ibds_dev *dev)
{
	struct ibds_cq *cq;

	spin_lock_irq(&dev->cq_lock);
	list_for_each_entry(cq, &dev->cqs, entry)
		mod_delayed_work(ibds_datapath_wq, &cq->held_work, 0);
	spin_unlock_irq(&dev->cq_lock);
}

/* True if a completion of the same QP is held back: order is kept. */
static bool ibds_cq_holds(const struct ibds_cq *cq, const struct ibds_cqe *cqe)
{
	const struct ibds_held *held;

	list_for_each_entry(held, &cq->held, entry)
		if (held->cqe.wc.qp == cqe->wc.qp)
			return true;
	return false;
}

/* Keep a completion in one of the lists; false if there is no memory for it. */
static bool ibds_cq_keep(struct ibds_cq *cq, struct list_head *list,
			 const struct ibds_cqe *cqe, bool solicited,
			 unsigned long due)
{
	struct ibds_held *held = kzalloc_obj(*held, GFP_ATOMIC | __GFP_NOWARN);

	if (!held)
		return false;
	held->due = due;
	held->solicited = solicited;
	held->cqe = *cqe;
	list_add_tail(&held->entry, list);
	cq->helds++;
	return true;
}

/* Hold a completion back; false if there is no memory for it. */
static bool ibds_cq_hold(struct ibds_cq *cq, const struct ibds_cqe *cqe,
			 bool solicited, u32 ms)
{
	unsigned long due = jiffies + msecs_to_jiffies(ms);
	const struct ibds_held *last;

	if (!list_empty(&cq->held)) {
		last = list_last_entry(&cq->held, struct ibds_held, entry);
		if (time_before(due, last->due))
			due = last->due;
	}
	if (!ibds_cq_keep(cq, &cq->held, cqe, solicited, due))
		return false;
	/* If it is for another one already, the work item looks again. */
	queue_delayed_work(ibds_datapath_wq, &cq->held_work, due - jiffies);
	return true;
}

/*
 * Report a completion after @ms, or if others of its QP are held back, after
 * those.  False if it is lost, since there is no room.
 */
static bool ibds_cq_report(struct ibds_cq *cq, const struct ibds_cqe *cqe,
			   bool solicited, u32 ms)
{
	if (ms || ibds_cq_holds(cq, cqe)) {
		if (cq->user && !ibds_cq_find_room(cq, cqe))
			return false;
		if (ibds_cq_hold(cq, cqe, solicited, ms))
			return true;
	}
	return ibds_cq_publish(cq, cqe, solicited);
}

/*
 * The completion in cq->spare is lost.  Of a send, whoever finds the next one
 * knows that this one is done, too; the sender's sq.lock is held.
 */
static void ibds_cqe_lose(struct ibds_cq *cq, struct ibds_qp *qp,
			  bool solicited)
{
	struct ibds_cqe *cqe = cq->spare;

	if (!cqe->sq_slots)
		WRITE_ONCE(qp->rq_retired, qp->rq_retired + 1);
	else if (cqe->sq_slots > 0)
		qp->sq.unsignalled += cqe->sq_slots;
	cqe->sq_slots = IBDS_CQE_STALE;
	/* Until the HCA goes; without memory it never comes. */
	if (!cq->user)
		ibds_cq_keep(cq, &cq->missing, cqe, solicited, 0);
}

/*
 * A request was executed, and is reported to have failed.  What that does to a
 * QP is what it does when it is true; a flush does nothing.
 */
static void ibds_cqe_fail(struct ibds_cqe *cqe, struct ibds_qp *qp, bool send)
{
	u32 status = READ_ONCE(qp->port->faults.cqe_status);

	cqe->wc.status = status ?: IB_WC_GENERAL_ERR;
	cqe->wc.opcode = IBDS_WC_UNDEFINED;
	cqe->wc.vendor_err = cqe->wc.status;
	cqe->wc.wc_flags = 0;
	if (cqe->wc.status == IB_WC_WR_FLUSH_ERR)
		return;
	if (qp->ib.qp_type == IB_QPT_RC)
		set_bit(IBDS_TODO_ERR, &qp->todo);
	else if (send)
		set_bit(IBDS_TODO_SQE, &qp->todo);
	else
		return;
	queue_work(ibds_wq_of(qp->user), &qp->work);
}

/*
 * MADs are the core's, and the rings of accelerated interfaces are ours: both
 * trust the HCA.
 */
static bool ibds_cqe_concerned(const struct ibds_qp *qp)
{
	u32 only = READ_ONCE(qp->port->faults.cqe_qp);

	return !ibds_qp_special(qp) && !qp->meta &&
	       (!only || only == qp->ib.qp_num);
}

/* Change the completion, if it is to be; true if it was. */
static bool ibds_cqe_change(struct ibds_cqe *cqe, struct ibds_qp *qp)
{
	struct ibds_faults *f = &qp->port->faults;
	bool send = cqe->sq_slots;

	if (cqe->wc.status != IB_WC_SUCCESS ||
	    atomic_dec_if_positive(send ? &f->cqe_send_error :
					  &f->cqe_recv_error) < 0)
		return false;
	ibds_cqe_fail(cqe, qp, send);
	return true;
}

/* Report the completion in cq->spare once more, if it is to be. */
static bool ibds_cqe_repeat(struct ibds_cq *cq, struct ibds_faults *f,
			    bool solicited, u32 ms)
{
	if (atomic_dec_if_positive(&f->cqe_twice) < 0)
		return false;
	cq->spare->sq_slots = IBDS_CQE_EXTRA;
	if (ibds_cq_report(cq, cq->spare, solicited, ms))
		return true;
	/* There is no room: another one. */
	atomic_inc(&f->cqe_twice);
	return false;
}

/* Apply the faults to the completion in cq->spare. */
static void ibds_cqe_faulty(struct ibds_cq *cq, struct ibds_qp *qp,
			    bool solicited)
{
	struct ibds_faults *f = &qp->port->faults;
	u32 ms = READ_ONCE(f->cqe_delay_ms);
	bool odd = ms;

	if (atomic_dec_if_positive(&f->cqe_lose) >= 0) {
		ibds_count(qp->port, cqe_fault);
		ibds_cqe_lose(cq, qp, solicited);
		return;
	}
	if (ibds_cqe_change(cq->spare, qp)) {
		odd = true;
		solicited = true;
	}
	ibds_cq_report(cq, cq->spare, solicited, ms);
	odd |= ibds_cqe_repeat(cq, f, solicited, ms);
	if (odd)
		ibds_count(qp->port, cqe_fault);
}

/**
 * ibds_cq_odd - publish the entry in cq->spare
 * @cq: completion queue, locked
 * @solicited: as for ibds_cq_end()
 *
 * The CQ overruns if there is no room for it.
 */
void ibds_cq_odd(struct ibds_cq *cq, bool solicited)
{
	struct ibds_qp *qp = to_ibds_qp(cq->spare->wc.qp);

	lockdep_assert_held(&cq->lock);
	if (ibds_cqe_concerned(qp))
		ibds_cqe_faulty(cq, qp, solicited);
	else
		ibds_cq_report(cq, cq->spare, solicited, 0);
	ibds_cq_set_limit(cq);
}

/*
 * Completions of a QP that is reset are as late as before, but retire nothing,
 * and nobody reserves room for them.  Those that were lost remain so.
 */
static void ibds_cq_disown_held(struct ibds_cq *cq, const struct ibds_qp *qp)
{
	struct ibds_held *held;

	list_for_each_entry(held, &cq->held, entry) {
		if (held->cqe.wc.qp != &qp->ib)
			continue;
		held->cqe.sq_slots = IBDS_CQE_EXTRA;
		held->reset = true;
	}
	ibds_cq_drop_held(cq, &cq->missing, &qp->ib);
}

/**
 * ibds_cq_forget - drop what a fault holds back of a QP that is destroyed
 * @cq: completion queue
 * @qp: QP that no longer adds completions; interrupts are disabled
 */
void ibds_cq_forget(struct ibds_cq *cq, const struct ibds_qp *qp)
{
	spin_lock(&cq->lock);
	ibds_cq_drop_held(cq, &cq->held, &qp->ib);
	spin_unlock(&cq->lock);
}

/* ---- polling and arming ------------------------------------------------- */

/* <infiniband/verbs.h> has two of the flags the other way round. */
static void ibds_wc_for_user(struct ib_wc *wc, const struct ibds_qp *qp)
{
	int flags = wc->wc_flags & (IB_WC_GRH | IB_WC_WITH_IMM);

	if (wc->wc_flags & IB_WC_IP_CSUM_OK)
		flags |= IBDS_USER_WC_CSUM_OK;
	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		flags |= IBDS_USER_WC_WITH_INV;
	wc->wc_flags = flags;
	wc->qp = &qp->face->qp;
}

int ibds_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct ibds_cq *cq = to_ibds_cq(ibcq);
	unsigned long flags;
	bool user = cq->user;
	u32 head, tail;
	int n = 0;

	ibds_call(ibcq->device, IBDS_CALL_POLL_CQ);
	/* An entry added now raises the event that the consumer armed. */
	if (READ_ONCE(cq->tail) == READ_ONCE(cq->head))
		return 0;

	spin_lock_irqsave(&cq->lock, flags);
	head = cq->head;
	tail = cq->tail;
	for (; n < num && head != tail; n++, head++, wc++) {
		struct ibds_cqe *cqe = &cq->ring[head & cq->mask];
		struct ibds_qp *qp = to_ibds_qp(cqe->wc.qp);

		*(struct ibds_wc_head *)wc = *(struct ibds_wc_head *)&cqe->wc;
		/*
		 * Destroying a QP purges its entries: @qp is alive.  Each of
		 * the counters belongs to one CQ of the QP, whose lock is held.
		 */
		if (unlikely(user))
			ibds_wc_for_user(wc, qp);
		if (!cqe->sq_slots)
			WRITE_ONCE(qp->rq_retired, qp->rq_retired + 1);
		else if (likely(cqe->sq_slots > 0))
			WRITE_ONCE(qp->sq.retired,
				   qp->sq.retired + cqe->sq_slots);
	}
	WRITE_ONCE(cq->head, head);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

int ibds_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct ibds_cq *cq = to_ibds_cq(ibcq);
	unsigned long irqflags;
	int missed, err;

	err = ibds_call(ibcq->device, IBDS_CALL_REQ_NOTIFY_CQ);
	if (err)
		return err;
	spin_lock_irqsave(&cq->lock, irqflags);
	/* The wider request wins; IBA vol 1, 11.4.2.2. */
	if (cq->notify != IB_CQ_NEXT_COMP)
		cq->notify = flags & IB_CQ_SOLICITED_MASK;
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && cq->head != cq->tail;
	spin_unlock_irqrestore(&cq->lock, irqflags);
	return missed;
}

/**
 * ibds_cq_disown - keep the completions of a QP that is being reset
 * @cq: completion queue
 * @qp: QP that no longer adds completions; interrupts are disabled
 *
 * They can be polled, but retire no slots: the queues of the QP are empty.
 */
void ibds_cq_disown(struct ibds_cq *cq, const struct ibds_qp *qp)
{
	u32 i;

	spin_lock(&cq->lock);
	for (i = cq->head; i != cq->tail; i++) {
		struct ibds_cqe *cqe = &cq->ring[i & cq->mask];

		if (cqe->wc.qp == &qp->ib && cqe->sq_slots >= 0)
			cqe->sq_slots = IBDS_CQE_STALE;
	}
	ibds_cq_disown_held(cq, qp);
	spin_unlock(&cq->lock);
}

/**
 * ibds_cq_purge - drop the completions of a QP being destroyed or reset
 * @cq: completion queue
 * @qp: QP that no longer adds completions; interrupts are disabled
 */
void ibds_cq_purge(struct ibds_cq *cq, const struct ibds_qp *qp)
{
	spin_lock(&cq->lock);
	ibds_cq_drop(cq, &qp->ib);
	ibds_cq_disown_held(cq, qp);
	spin_unlock(&cq->lock);
}

/**
 * ibds_cq_flush - wait for the handler of completions that have been polled
 * @cq: completion queue that ib_core polls in a work item; others are left alone
 *
 * ib_mad destroys QP0 and QP1 while it may be handling a MAD that they received,
 * and then posts to a QP that has been freed.  It waits for its work item only
 * after that, in ib_free_cq().  Completions that come later are not waited for.
 *
 * Context: process.
 */
void ibds_cq_flush(struct ibds_cq *cq)
{
	if (cq->ib.poll_ctx == IB_POLL_WORKQUEUE ||
	    cq->ib.poll_ctx == IB_POLL_UNBOUND_WORKQUEUE)
		flush_work(&cq->ib.work);
}

int ibds_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct ibds_cq *cq = to_ibds_cq(ibcq);
	unsigned long flags;
	int err;

	err = ibds_call(ibcq->device, IBDS_CALL_MODIFY_CQ);
	if (err)
		return err;
	spin_lock_irqsave(&cq->lock, flags);
	cq->mod_count = count;
	/* Without a time limit a lone completion never raises an event. */
	cq->mod_period = count > 1 ? period : 0;
	spin_unlock_irqrestore(&cq->lock, flags);
	return 0;
}

/* A ring with room for @cqe entries, and one that is never polled. */
static struct ibds_cqe *ibds_cq_ring(struct ibds_cq *cq, u32 cqe, bool user,
				     u64 *bytes)
{
	struct ibds_dev *dev = to_ibds_dev(cq->ib.device);
	u32 size = roundup_pow_of_two(cqe);
	struct ibds_cqe *ring;

	*bytes = user ? (size + 1ULL) * sizeof(*ring) : 0;
	if (ibds_user_charge(dev, *bytes))
		return NULL;
	ring = kvzalloc_objs(*ring, size + 1, ibds_gfp(user));
	if (!ring)
		ibds_user_uncharge(dev, *bytes);
	return ring;
}

/* cq->lock is held, or nobody uses the CQ yet. */
static void ibds_cq_set_ring(struct ibds_cq *cq, struct ibds_cqe *ring, u32 cqe,
			     u64 bytes)
{
	u32 size = roundup_pow_of_two(cqe);

	cq->ring = ring;
	cq->spare = &ring[size];
	cq->mask = size - 1;
	cq->room = cqe;
	ibds_cq_set_limit(cq);
	cq->charged = bytes;
	cq->ib.cqe = cqe;
}

/*
 * Move the entries to a ring.  @ring and @bytes are then what is left over: the
 * old one, or the new one if it is too short.
 */
static int ibds_cq_move(struct ibds_cq *cq, struct ibds_cqe **ring, u32 cqe,
			u64 *bytes)
{
	u32 mask = roundup_pow_of_two(cqe) - 1;
	struct ibds_cqe *old = cq->ring;
	u64 charged = cq->charged;
	u32 i;

	lockdep_assert_held(&cq->lock);
	if (ibds_cq_used(cq) > cqe)
		return -EINVAL;
	for (i = cq->head; i != cq->tail; i++)
		(*ring)[i & mask] = old[i & cq->mask];
	ibds_cq_set_ring(cq, *ring, cqe, *bytes);
	*ring = old;
	*bytes = charged;
	return 0;
}

int ibds_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibcq->device);
	struct ibds_cq *cq = to_ibds_cq(ibcq);
	struct ibds_cqe *ring;
	unsigned long flags;
	u64 bytes;
	int err;

	if (!cqe || cqe > dev->caps.max_cqe)
		return -EINVAL;
	ring = ibds_cq_ring(cq, cqe, cq->user, &bytes);
	if (!ring)
		return -ENOMEM;
	spin_lock_irqsave(&cq->lock, flags);
	err = ibds_cq_move(cq, &ring, cqe, &bytes);
	spin_unlock_irqrestore(&cq->lock, flags);
	kvfree(ring);
	ibds_user_uncharge(dev, bytes);
	return err;
}

/* A fault may have been set since the ring was made. */
static void ibds_cq_list(struct ibds_cq *cq)
{
	struct ibds_dev *dev = to_ibds_dev(cq->ib.device);

	spin_lock_irq(&dev->cq_lock);
	list_add_tail(&cq->entry, &dev->cqs);
	ibds_cq_set_limit(cq);
	spin_unlock_irq(&dev->cq_lock);
}

static void ibds_cq_unlist(struct ibds_cq *cq)
{
	struct ibds_dev *dev = to_ibds_dev(cq->ib.device);

	spin_lock_irq(&dev->cq_lock);
	list_del(&cq->entry);
	spin_unlock_irq(&dev->cq_lock);
}

int ibds_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct ibds_dev *dev = to_ibds_dev(ibcq->device);
	struct ibds_cq *cq = to_ibds_cq(ibcq);
	struct ibds_cqe *ring;
	u64 bytes;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > dev->caps.max_cqe ||
	    attr->comp_vector >= dev->caps.vectors)
		return -EINVAL;
	cq->user = attrs;
	err = ibds_call(ibcq->device, IBDS_CALL_CREATE_CQ) ?:
	      ibds_object_get(dev, IBDS_CQ, cq->user);
	if (err)
		return err;

	ibds_command_wait(dev, READ_ONCE(dev->port[0].faults.create_delay_ms));
	ring = ibds_cq_ring(cq, attr->cqe, cq->user, &bytes);
	if (!ring) {
		ibds_object_put(dev, IBDS_CQ, cq->user);
		return -ENOMEM;
	}
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->held);
	INIT_LIST_HEAD(&cq->missing);
	INIT_DELAYED_WORK(&cq->held_work, ibds_cq_held_work);
	ibds_cq_set_ring(cq, ring, attr->cqe, bytes);
	cq->port = &dev->port[0];
	ibds_cq_irq_init(cq, attr->comp_vector, dev->caps.comp_ctx);
	INIT_WORK(&cq->todo, ibds_cq_error_work);
	ibds_cq_list(cq);
	return 0;
}

/* No QP uses the CQ any more: wait for work that may still run. */
static void ibds_cq_quiesce(struct ibds_cq *cq)
{
	cancel_delayed_work_sync(&cq->held_work);
	ibds_cq_sync(cq);
	cancel_work_sync(&cq->todo);
}

int ibds_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibcq->device);
	struct ibds_cq *cq = to_ibds_cq(ibcq);

	ibds_call(ibcq->device, IBDS_CALL_DESTROY_CQ);
	ibds_command_wait(dev, READ_ONCE(cq->port->faults.destroy_delay_ms));
	ibds_cq_unlist(cq);
	ibds_cq_quiesce(cq);
	kvfree(cq->ring);
	ibds_user_uncharge(dev, cq->charged);
	ibds_object_put(dev, IBDS_CQ, cq->user);
	return 0;
}
