// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address handles: used by senders under RCU, destroyed after their last send
 */
#include <linux/sched/mm.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_port.h"
#include "ipoib_rules.h"
#include "ipoib_tx.h"

#define IPOIB_AH_REAP		(HZ / 10)

/**
 * struct ipoib_ahs - a port's retired address handles
 * @port: port
 * @lock: spinlock, taken with BHs disabled, inside all others: @dead
 * @dead: retired handles that readers may still have found
 * @waiting: those that only sends from before the mark may still use (@work)
 * @work: destroys them
 */
struct ipoib_ahs {
	struct ipoib_port *port;
	spinlock_t lock;	/* dead */
	struct list_head dead;
	struct list_head waiting;
	struct delayed_work work;
};

/**
 * ipoib_ah_create - create an address handle for senders
 * @port: port
 * @attr: destination
 *
 * Context: process.
 * Return: handle or ERR_PTR()
 */
struct ipoib_ah *ipoib_ah_create(struct ipoib_port *port,
				 struct rdma_ah_attr *attr)
{
	unsigned int noio = memalloc_noio_save();
	struct ipoib_ah *ah;
	struct ib_ah *ib;

	ib = ERR_PTR(-ENOMEM);
	ah = kzalloc_obj(*ah);
	if (ah)
		ib = rdma_create_ah(port->pd, attr, RDMA_CREATE_AH_SLEEPABLE);
	memalloc_noio_restore(noio);
	if (IS_ERR(ib)) {
		kfree(ah);
		return ERR_CAST(ib);
	}
	ah->ib = ib;
	return ah;
}

/**
 * ipoib_ah_retire - destroy a handle once nobody uses it
 * @port: port
 * @ah: handle that new readers cannot find, or NULL
 *
 * Senders hold no references; the reaper waits for an RCU grace period, and
 * then until everything that was sent before has completed.
 *
 * Context: any but hard interrupts.
 */
void ipoib_ah_retire(struct ipoib_port *port, struct ipoib_ah *ah)
{
	struct ipoib_ahs *ahs = port->ahs;

	if (!ah)
		return;
	spin_lock_bh(&ahs->lock);
	list_add_tail(&ah->entry, &ahs->dead);
	spin_unlock_bh(&ahs->lock);
	queue_delayed_work(ipoib_wq, &ahs->work, 0);
}

static void ipoib_ah_free_list(struct list_head *list)
{
	struct ipoib_ah *ah, *next;

	list_for_each_entry_safe(ah, next, list, entry) {
		rdma_destroy_ah(ah->ib, RDMA_DESTROY_AH_SLEEPABLE);
		kfree(ah);
	}
}

/* True if all queues have completed what they had posted at the mark. */
static bool ipoib_ah_marks_passed(struct ipoib_port *port)
{
	struct ipoib_txq *txq;
	struct ipoib_dev *dev;
	u32 i;

	list_for_each_entry(dev, &port->devs, port_entry) {
		for (i = 0; i < dev->num_txqs; i++) {
			txq = dev->txqs[i];
			if (!ipoib_ring_passed(READ_ONCE(txq->tail),
					       txq->reap_mark))
				return false;
		}
	}
	return true;
}

static void ipoib_ah_set_marks(struct ipoib_port *port)
{
	struct ipoib_txq *txq;
	struct ipoib_dev *dev;
	u32 i;

	list_for_each_entry(dev, &port->devs, port_entry) {
		for (i = 0; i < dev->num_txqs; i++) {
			txq = dev->txqs[i];
			txq->reap_mark = READ_ONCE(txq->head);
		}
	}
}

static void ipoib_ah_reap(struct work_struct *work)
{
	struct ipoib_ahs *ahs = container_of(work, struct ipoib_ahs, work.work);
	struct ipoib_port *port = ahs->port;
	LIST_HEAD(free);
	bool more;

	mutex_lock(&port->lock);
	if (ipoib_ah_marks_passed(port))
		list_splice_init(&ahs->waiting, &free);
	if (list_empty(&ahs->waiting)) {
		spin_lock_bh(&ahs->lock);
		list_splice_init(&ahs->dead, &ahs->waiting);
		spin_unlock_bh(&ahs->lock);
		if (!list_empty(&ahs->waiting)) {
			synchronize_rcu();
			ipoib_ah_set_marks(port);
		}
	}
	more = !list_empty(&ahs->waiting);
	mutex_unlock(&port->lock);

	ipoib_ah_free_list(&free);
	if (more)
		queue_delayed_work(ipoib_wq, &ahs->work, IPOIB_AH_REAP);
}

/**
 * ipoib_ah_port_init - prepare a port's address handles
 * @port: port
 * Return: 0 or -ENOMEM
 */
int ipoib_ah_port_init(struct ipoib_port *port)
{
	struct ipoib_ahs *ahs;

	ahs = kzalloc_obj(*ahs);
	if (!ahs)
		return -ENOMEM;
	ahs->port = port;
	spin_lock_init(&ahs->lock);
	INIT_LIST_HEAD(&ahs->dead);
	INIT_LIST_HEAD(&ahs->waiting);
	INIT_DELAYED_WORK(&ahs->work, ipoib_ah_reap);
	port->ahs = ahs;
	return 0;
}

/**
 * ipoib_ah_port_exit - undo ipoib_ah_port_init(); no handle is used or retired
 * @port: port
 *
 * Context: process.
 */
void ipoib_ah_port_exit(struct ipoib_port *port)
{
	struct ipoib_ahs *ahs = port->ahs;

	cancel_delayed_work_sync(&ahs->work);
	synchronize_rcu();
	ipoib_ah_free_list(&ahs->dead);
	ipoib_ah_free_list(&ahs->waiting);
	kfree(ahs);
}
