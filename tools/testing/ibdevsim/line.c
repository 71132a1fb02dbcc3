// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the delay line
 *
 * Packets that are not passed directly from sender to receiver wait here: MADs,
 * so that no agent runs on its peer's stack, and data packets delayed by a
 * fault.  Packets leave in the order of their due times, those with equal times
 * in the order they came.  They refer to switch ports, never to HCAs; those to
 * what is removed are dropped (ibds_line_purge()).
 *
 * line.lock is a leaf, taken in any context.
 */
#include <linux/hrtimer.h>
#include <linux/rbtree.h>

#include "fabric.h"
#include "line.h"

/* Packets that may wait at a time; more are dropped, as if a buffer is full. */
#define IBDS_LINE_MAX		65536
/* Places that only MADs get: a program may send more than is delivered. */
#define IBDS_LINE_MADS		4096

struct workqueue_struct *ibds_wq;

static struct ibds_line {
	spinlock_t lock;		/* tree, len, timer's start */
	struct rb_root_cached tree;	/* struct ibds_pkt by due */
	u32 len;
	struct hrtimer timer;
	struct work_struct work;
	void (*due)(struct ibds_pkt *pkt);	/* event: a packet leaves */
} line;

static bool ibds_line_less(struct rb_node *a, const struct rb_node *b)
{
	return ktime_before(rb_entry(a, struct ibds_pkt, node)->due,
			    rb_entry(b, struct ibds_pkt, node)->due);
}

/**
 * ibds_line_add - put a packet into the delay line
 * @pkt: packet with in or out set, as @stage needs
 * @stage: its next step
 * @delay_ns: delay before that
 *
 * Context: any.
 * Return: 0, or -ENOBUFS when the line is full; the caller still owns
 * the packet then.
 */
int ibds_line_add(struct ibds_pkt *pkt, enum ibds_stage stage, u64 delay_ns)
{
	u32 room = IBDS_LINE_MAX - (pkt->dqpn > 1 ? IBDS_LINE_MADS : 0);
	unsigned long flags;
	bool first;

	pkt->stage = stage;
	pkt->due = ktime_add_ns(ktime_get(), delay_ns);
	spin_lock_irqsave(&line.lock, flags);
	if (line.len >= room) {
		spin_unlock_irqrestore(&line.lock, flags);
		return -ENOBUFS;
	}
	line.len++;
	first = rb_add_cached(&pkt->node, &line.tree, ibds_line_less);
	if (first && delay_ns)
		hrtimer_start(&line.timer, pkt->due, HRTIMER_MODE_ABS);
	spin_unlock_irqrestore(&line.lock, flags);
	if (!delay_ns)
		queue_work(ibds_wq, &line.work);
	return 0;
}

static void ibds_line_unlink(struct ibds_pkt *pkt)
{
	lockdep_assert_held(&line.lock);
	rb_erase_cached(&pkt->node, &line.tree);
	line.len--;
}

/* Take the first packet if it is due; otherwise set the timer for it. */
static struct ibds_pkt *ibds_line_take(void)
{
	struct ibds_pkt *pkt = NULL;
	struct rb_node *node;

	spin_lock_irq(&line.lock);
	node = rb_first_cached(&line.tree);
	if (node) {
		pkt = rb_entry(node, struct ibds_pkt, node);
		if (ktime_after(pkt->due, ktime_get())) {
			hrtimer_start(&line.timer, pkt->due, HRTIMER_MODE_ABS);
			pkt = NULL;
		} else {
			ibds_line_unlink(pkt);
		}
	}
	spin_unlock_irq(&line.lock);
	return pkt;
}

static void ibds_line_work(struct work_struct *work)
{
	struct ibds_pkt *pkt;

	do {
		/* A grace period begins after it is taken, too. */
		rcu_read_lock();
		pkt = ibds_line_take();
		if (pkt)
			line.due(pkt);
		rcu_read_unlock();
		cond_resched();
	} while (pkt);
}

static enum hrtimer_restart ibds_line_timer(struct hrtimer *timer)
{
	queue_work(ibds_wq, &line.work);
	return HRTIMER_NORESTART;
}

static bool ibds_line_leads_to(const struct ibds_pkt *pkt,
			       const struct ibds_switch *sw,
			       const struct ibds_sw_port *at)
{
	const struct ibds_sw_port *next =
		pkt->stage == IBDS_STAGE_SWITCH ? pkt->in : pkt->out;

	return sw ? next->sw == sw : next == at;
}

/**
 * ibds_line_purge - drop packets to what is being removed
 * @sw: a switch, or NULL
 * @at: if NULL, a switch port without cable: packets that come in or go out
 *
 * Nothing is sent there any more.
 */
void ibds_line_purge(const struct ibds_switch *sw,
		     const struct ibds_sw_port *at)
{
	struct rb_node *node, *next;
	struct ibds_pkt *pkt;

	spin_lock_irq(&line.lock);
	for (node = rb_first_cached(&line.tree); node; node = next) {
		next = rb_next(node);
		pkt = rb_entry(node, struct ibds_pkt, node);
		if (!ibds_line_leads_to(pkt, sw, at))
			continue;
		ibds_line_unlink(pkt);
		ibds_pkt_free(pkt);
	}
	spin_unlock_irq(&line.lock);
}

/**
 * ibds_line_init - create the delay line and the work queue of the agents
 * @due: called for each packet that leaves the line, which it consumes; on
 *	ibds_wq, RCU read side
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_line_init(void (*due)(struct ibds_pkt *pkt))
{
	line.due = due;
	spin_lock_init(&line.lock);
	line.tree = RB_ROOT_CACHED;
	INIT_WORK(&line.work, ibds_line_work);
	hrtimer_setup(&line.timer, ibds_line_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
	ibds_wq = alloc_ordered_workqueue("ibdevsim", WQ_HIGHPRI);
	return ibds_wq ? 0 : -ENOMEM;
}

/**
 * ibds_line_exit - release the delay line
 *
 * No port is left, and nothing sends any more.
 */
void ibds_line_exit(void)
{
	struct ibds_pkt *pkt, *next;
	struct rb_root left;

	/* The work item does not start the timer when the tree is empty. */
	spin_lock_irq(&line.lock);
	left = line.tree.rb_root;
	line.tree = RB_ROOT_CACHED;
	line.len = 0;
	spin_unlock_irq(&line.lock);
	hrtimer_cancel(&line.timer);
	destroy_workqueue(ibds_wq);
	ibds_wq = NULL;
	rbtree_postorder_for_each_entry_safe(pkt, next, &left, node)
		ibds_pkt_free(pkt);
}
