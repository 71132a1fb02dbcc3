// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: interrupts of completion queues, and their moderation
 *
 * When an armed CQ gets an entry, its handler runs in hard interrupt context on
 * the CPU of the CQ's vector, never from within ib_post_send(): by an irq_work
 * on the same CPU, by an inter-processor interrupt to another one.  With
 * comp_ctx=softirq these schedule a tasklet, in which it runs; with comp_ctx=work
 * it runs in a work item on that CPU.  The events of user space wake a process
 * up, and can be raised on any CPU.  Arming does not fire for entries that are
 * already there (IBA vol 1, 11.4.2.2).
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/interrupt.h>

#include "cqirq.h"
#include "object.h"

/* The CPU that a completion vector interrupts. */
static int ibds_vector_cpu(u32 vector)
{
	u32 skip = vector % num_online_cpus();
	int cpu;

	for_each_online_cpu(cpu)
		if (!skip--)
			return cpu;
	return cpumask_first(cpu_online_mask);
}

static void ibds_cq_interrupt(struct ibds_cq *cq)
{
	u32 ns = READ_ONCE(cq->port->faults.irq_ns);

	ibds_count(cq->port, cq_events);
	if (unlikely(ns))
		ndelay(ns);
	cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

static void ibds_cq_soft(struct tasklet_struct *soft)
{
	ibds_cq_interrupt(container_of(soft, struct ibds_cq, soft));
}

/* In hard interrupt context */
static void ibds_cq_irq(struct ibds_cq *cq)
{
	if (unlikely(cq->comp_ctx == IBDS_COMP_SOFTIRQ))
		tasklet_schedule(&cq->soft);
	else
		ibds_cq_interrupt(cq);
}

static void ibds_cq_irq_work(struct irq_work *work)
{
	ibds_cq_irq(container_of(work, struct ibds_cq, irq_work));
}

static void ibds_cq_ipi(void *info)
{
	struct ibds_cq *cq = info;

	atomic_inc(&cq->irq_running);
	/* From here on a new completion needs a new interrupt. */
	atomic_set_release(&cq->irq_pending, 0);
	/* An idle CPU may run its queue before the interrupt arrives. */
	if (likely(in_hardirq()))
		ibds_cq_irq(cq);
	else
		irq_work_queue(&cq->irq_work);
	/* The last access; ibds_cq_sync() waits for it. */
	atomic_dec_return_release(&cq->irq_running);
}

/* Users expect bottom halves to be disabled here, too. */
static void ibds_cq_comp_work(struct work_struct *work)
{
	local_bh_disable();
	ibds_cq_interrupt(container_of(work, struct ibds_cq, comp));
	local_bh_enable();
}

/* Interrupts are disabled. */
static void ibds_cq_raise(struct ibds_cq *cq)
{
	if (unlikely(cq->comp_ctx == IBDS_COMP_WORK)) {
		queue_work_on(cq->cpu, ibds_datapath_wq, &cq->comp);
		return;
	}
	if (cq->cpu != smp_processor_id() && !cq->user) {
		if (atomic_xchg(&cq->irq_pending, 1))
			return;
		if (!smp_call_function_single_async(cq->cpu, &cq->csd))
			return;
		/* That CPU went offline. */
		atomic_set(&cq->irq_pending, 0);
	}
	irq_work_queue(&cq->irq_work);
}

/* True if a fault suppresses the event of the last entry. */
static bool ibds_cq_loses(const struct ibds_cq *cq)
{
	const struct ib_qp *qp;

	if (likely(!READ_ONCE(cq->port->faults.lose_events)))
		return false;
	qp = cq->ring[(cq->tail - 1) & cq->mask].wc.qp;
	return qp->qp_type != IB_QPT_SMI && qp->qp_type != IB_QPT_GSI;
}

/**
 * ibds_cq_event - raise the event for an entry added to an armed CQ
 * @cq: completion queue, locked
 * @solicited: the entry counts for %IB_CQ_SOLICITED
 */
void ibds_cq_event(struct ibds_cq *cq, bool solicited)
{
	lockdep_assert_held(&cq->lock);
	if (cq->notify == IB_CQ_SOLICITED && !solicited)
		return;
	if (cq->mod_period && ++cq->mod_pending < cq->mod_count) {
		if (!hrtimer_is_queued(&cq->mod_timer))
			hrtimer_start(&cq->mod_timer,
				      ns_to_ktime(cq->mod_period * 1000ULL),
				      HRTIMER_MODE_REL_SOFT);
		return;
	}
	cq->mod_pending = 0;
	cq->notify = 0;
	if (likely(!ibds_cq_loses(cq)))
		ibds_cq_raise(cq);
	else
		cq->lost = true;
}

/**
 * ibds_cq_rouse - raise the event that a fault suppressed, if there is one
 * @cq: completion queue; interrupts are disabled
 */
void ibds_cq_rouse(struct ibds_cq *cq)
{
	spin_lock(&cq->lock);
	if (cq->lost)
		ibds_cq_raise(cq);
	cq->lost = false;
	spin_unlock(&cq->lock);
}

/* Raise the event held back by moderation, if any. */
static void ibds_cq_mod_flush(struct ibds_cq *cq)
{
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->notify && cq->mod_pending) {
		cq->mod_pending = 0;
		cq->notify = 0;
		ibds_cq_raise(cq);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

static enum hrtimer_restart ibds_cq_mod_timer(struct hrtimer *timer)
{
	ibds_cq_mod_flush(container_of(timer, struct ibds_cq, mod_timer));
	return HRTIMER_NORESTART;
}

/**
 * ibds_cq_irq_init - set up the interrupts of a CQ
 * @cq: completion queue that nobody uses yet; @user is set
 * @vector: completion vector
 * @ctx: where its handler runs
 */
void ibds_cq_irq_init(struct ibds_cq *cq, u32 vector, enum ibds_comp_ctx ctx)
{
	cq->cpu = ibds_vector_cpu(vector);
	hrtimer_setup(&cq->mod_timer, ibds_cq_mod_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	/* uverbs takes locks that hard interrupts must not take on PREEMPT_RT. */
	if (cq->user)
		cq->irq_work = IRQ_WORK_INIT(ibds_cq_irq_work);
	else
		cq->irq_work = IRQ_WORK_INIT_HARD(ibds_cq_irq_work);
	INIT_CSD(&cq->csd, ibds_cq_ipi, cq);
	tasklet_setup(&cq->soft, ibds_cq_soft);
	INIT_WORK(&cq->comp, ibds_cq_comp_work);
	cq->comp_ctx = ctx;
}

/**
 * ibds_cq_sync - wait for interrupts that were raised or are about to be
 * @cq: completion queue
 *
 * None may be left when a QP is destroyed: ib_free_cq() cancels the CQ's work
 * before it destroys the CQ, and nothing may queue that work in between.  This
 * includes the event held back by moderation: it is raised now, which is
 * harmless to other QPs of the CQ.
 *
 * Context: process.
 */
void ibds_cq_sync(struct ibds_cq *cq)
{
	if (hrtimer_cancel(&cq->mod_timer))
		ibds_cq_mod_flush(cq);
	while (atomic_read_acquire(&cq->irq_pending) ||
	       atomic_read_acquire(&cq->irq_running))
		cpu_relax();
	irq_work_sync(&cq->irq_work);
	/* tasklet_kill() would drop what others schedule meanwhile. */
	while (test_bit(TASKLET_STATE_SCHED, &cq->soft.state))
		usleep_range(10, 20);
	tasklet_unlock_wait(&cq->soft);
	flush_work(&cq->comp);
}
