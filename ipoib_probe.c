// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probes: when does an SA that was silent answer again?
 *
 * Requests that are not answered are repeated after longer and longer times, up
 * to 20 s, so that a thousand hosts do not keep an SA from its work.  But an SM
 * that hung, or could not be reached, raises no event when it is back.  So while
 * requests of a port are not answered, the port asks for the path to itself,
 * every four seconds, whatever else waits.  Once that is answered, all of the
 * port's requests are repeated at once, see ipoib_port_event_work().  This is
 * the only place that decides that.
 *
 * Lock: struct ipoib_paths.lock.
 */
#include <linux/sched/mm.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_path_internal.h"
#include "ipoib_port.h"
#include "ipoib_probe.h"
#include "ipoib_rules.h"

/* Between probes, each of which takes a second if it is not answered */
#define IPOIB_PROBE_PAUSE	(HZ * 5 / 2)
#define IPOIB_PROBE_TIMEOUT_MS	1000

static void ipoib_probe_later(struct ipoib_paths *paths)
{
	lockdep_assert_held(&paths->lock);
	queue_delayed_work(ipoib_wq, &paths->probe,
			   ipoib_delay_spread(IPOIB_PROBE_PAUSE,
					      get_random_u32()));
}

static void ipoib_probe_end(struct ipoib_paths *paths)
{
	lockdep_assert_held(&paths->lock);
	WRITE_ONCE(paths->probing, false);
	paths->missed = 0;
}

/* A probe was answered, or not. */
static void ipoib_probe_over(struct ipoib_paths *paths, bool answered)
{
	struct ipoib_port *port = paths->port;
	unsigned long now = jiffies;

	lockdep_assert_held(&paths->lock);
	if (!answered)
		paths->missed++;
	switch (ipoib_probe_judge(now, answered, paths->missed,
				  paths->hurried)) {
	case IPOIB_PROBE_AGAIN:
		ipoib_probe_later(paths);
		break;
	case IPOIB_PROBE_HURRY:
		paths->hurried = now;
		set_mask_bits(&port->events, 0UL, BIT(IPOIB_EV_ANSWERED));
		queue_work(ipoib_wq, &port->event_work);
		fallthrough;
	case IPOIB_PROBE_END:
		ipoib_probe_end(paths);
	}
}

static void ipoib_probe_answer(int status, struct sa_path_rec *rec,
			       unsigned int num_prs, void *ctx)
{
	struct ipoib_paths *paths = ctx;

	spin_lock_bh(&paths->lock);
	paths->probe_sent = false;
	paths->probe_query = NULL;
	/* That there is no such path is an answer, too. */
	if (!paths->quiet)
		ipoib_probe_over(paths, !status || status == -EINVAL);
	spin_unlock_bh(&paths->lock);
	ipoib_paths_put(paths);
}

static void ipoib_probe_send(struct ipoib_paths *paths)
{
	struct sa_path_rec rec = {
		.rec_type = SA_PATH_REC_TYPE_IB,
		.numb_path = 1,
	};
	struct ib_sa_query *query;
	int id;

	if (rdma_cap_opa_ah(paths->ca, paths->num))
		rec.rec_type = SA_PATH_REC_TYPE_OPA;
	refcount_inc(&paths->ref);
	id = rdma_query_gid(paths->ca, paths->num, 0, &rec.sgid);
	rec.dgid = rec.sgid;
	if (!id)
		id = ib_sa_path_rec_get(&ipoib_sa, paths->ca, paths->num, &rec,
					IB_SA_PATH_REC_DGID |
					IB_SA_PATH_REC_SGID |
					IB_SA_PATH_REC_NUMB_PATH,
					IPOIB_PROBE_TIMEOUT_MS, GFP_KERNEL,
					ipoib_probe_answer, paths, &query);
	if (id < 0) {
		/* Not sent (no SM, no memory): treat as unanswered. */
		ipoib_probe_answer(-ETIMEDOUT, NULL, 0, paths);
		return;
	}
	spin_lock_bh(&paths->lock);
	/* If it is not answered yet, it can be cancelled. */
	if (paths->probe_sent) {
		paths->probe_query = query;
		paths->probe_id = id;
	}
	spin_unlock_bh(&paths->lock);
}

static void ipoib_probe_work(struct work_struct *work)
{
	struct ipoib_paths *paths =
		container_of(work, struct ipoib_paths, probe.work);
	unsigned int noio = memalloc_noio_save();
	bool send;

	spin_lock_bh(&paths->lock);
	/* Without interfaces nobody waits for the SA. */
	send = !paths->quiet && READ_ONCE(paths->port->open);
	if (send)
		paths->probe_sent = true;
	else
		ipoib_probe_end(paths);
	spin_unlock_bh(&paths->lock);
	if (send)
		ipoib_probe_send(paths);
	memalloc_noio_restore(noio);
}

/**
 * ipoib_probe_start - the SA did not answer a query: find out whether it does
 * @paths: paths of a port
 *
 * Context: the lock held.
 */
void ipoib_probe_start(struct ipoib_paths *paths)
{
	lockdep_assert_held(&paths->lock);
	if (paths->probing || paths->quiet)
		return;
	WRITE_ONCE(paths->probing, true);
	ipoib_probe_later(paths);
}

/**
 * ipoib_probe_unanswered - likewise, of another request
 * @port: port with interfaces
 *
 * Context: any; takes the lock of the port's paths.
 */
void ipoib_probe_unanswered(struct ipoib_port *port)
{
	struct ipoib_paths *paths = port->paths;

	if (READ_ONCE(paths->probing))
		return;
	spin_lock_bh(&paths->lock);
	ipoib_probe_start(paths);
	spin_unlock_bh(&paths->lock);
}

/**
 * ipoib_probe_stop - no more events of the port, nor probes
 * @port: port
 *
 * Does not wait for the SA: a probe that was sent is cancelled, and keeps the
 * memory of the paths until that has been reported.
 *
 * Context: process.
 */
void ipoib_probe_stop(struct ipoib_port *port)
{
	struct ipoib_paths *paths = port->paths;
	struct ib_sa_query *query;
	int id;

	spin_lock_bh(&paths->lock);
	paths->quiet = true;
	spin_unlock_bh(&paths->lock);
	cancel_delayed_work_sync(&paths->probe);

	spin_lock_bh(&paths->lock);
	query = paths->probe_query;
	id = paths->probe_id;
	paths->probe_query = NULL;
	spin_unlock_bh(&paths->lock);
	if (query)
		ib_sa_cancel_query(id, query);
}

/**
 * ipoib_probe_init - prepare the probes of a port
 * @paths: its paths, which nobody uses yet
 */
void ipoib_probe_init(struct ipoib_paths *paths)
{
	paths->hurried = jiffies - IPOIB_BACKOFF_MAX;
	INIT_DELAYED_WORK(&paths->probe, ipoib_probe_work);
}
