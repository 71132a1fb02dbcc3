// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interface: state and events
 *
 * An interface is open from ndo_open to ndo_stop, and up while open when HCA
 * and fabric allow it.  The steps in between are states (enum ipoib_dev_state);
 * one function changes them, following a table.  A failure on the way up leads
 * to BROKEN: everything is down, so that each command works as on an interface
 * that waits for its P_Key, and bringing it up is retried, with growing delays,
 * as long as the interface is open.
 *
 * Events from elsewhere (the HCA, a join that succeeded, a QP that failed) come
 * as bits of enum ipoib_event and are handled by a work item of the interface.
 * If that fails for now, it is retried later (ipoib_dev.again).  Where the engine
 * needs rtnl to be brought up and down, link_work does that (ipoib_dev.deferred).
 *
 * Locks: ipoib_dev.lock for all of it; link_work takes rtnl first.
 */
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <net/netdev_lock.h>
#include <net/sch_generic.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_cm.h"
#include "ipoib_dev.h"
#include "ipoib_engine.h"
#include "ipoib_multicast.h"
#include "ipoib_neigh.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_trace.h"
#include "ipoib_tx.h"
#include "ipoib_why.h"

/* Least time between two restarts: a QP may fail again at once. */
#define IPOIB_RESTART_PAUSE	HZ
#define IPOIB_EVS_PACED		(BIT(IPOIB_EV_LINK) | BIT(IPOIB_EV_RESTART) | \
				 BIT(IPOIB_EV_SQ_ERROR))
/* Until the fabric carries groups just joined; between looks at inactive queues */
#define IPOIB_ANNOUNCE_DELAY	(HZ / 10)
#define IPOIB_ANNOUNCE_PAUSE	(5 * HZ)

/* ---- states ------------------------------------------------------------- */

/* Names of the states, and bits of those that may follow */
static const struct {
	const char *name;
	u8 moves;
} ipoib_dev_states[] = {
	[IPOIB_DEV_CLOSED]	= { "closed", BIT(IPOIB_DEV_STARTING) },
	[IPOIB_DEV_NO_PKEY]	= { "no-pkey", BIT(IPOIB_DEV_STARTING) |
					       BIT(IPOIB_DEV_STOPPING) },
	[IPOIB_DEV_STARTING]	= { "starting", BIT(IPOIB_DEV_UP) |
						BIT(IPOIB_DEV_NO_PKEY) |
						BIT(IPOIB_DEV_BROKEN) |
						BIT(IPOIB_DEV_CLOSED) },
	[IPOIB_DEV_UP]		= { "up", BIT(IPOIB_DEV_STARTING) |
					  BIT(IPOIB_DEV_STOPPING) },
	[IPOIB_DEV_BROKEN]	= { "broken", BIT(IPOIB_DEV_STARTING) |
					      BIT(IPOIB_DEV_STOPPING) },
	[IPOIB_DEV_STOPPING]	= { "stopping", BIT(IPOIB_DEV_CLOSED) },
};

const char *ipoib_dev_state_name(enum ipoib_dev_state state)
{
	return ipoib_dev_states[state].name;
}

/* The only place that changes the state and the hot path's copy of it. */
static void ipoib_dev_move(struct ipoib_dev *dev, enum ipoib_dev_state to)
{
	lockdep_assert_held(&dev->lock);
	WARN_ON_ONCE(!(ipoib_dev_states[dev->state].moves & BIT(to)));
	trace_ipoib_dev_state(dev, dev->state, to);
	WRITE_ONCE(dev->state, to);
	WRITE_ONCE(dev->running, to == IPOIB_DEV_UP);
}

/**
 * ipoib_dev_is_up - is the interface in state UP?
 * @dev: interface
 *
 * Context: process, @dev->lock held.
 */
bool ipoib_dev_is_up(const struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	return dev->state == IPOIB_DEV_UP;
}

/* True if the administrator has opened it and not closed it again. */
static bool ipoib_dev_is_open(const struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	return dev->state != IPOIB_DEV_CLOSED &&
	       dev->state != IPOIB_DEV_STOPPING;
}

/* ---- retries ------------------------------------------------------------ */

static void ipoib_dev_schedule(struct ipoib_dev *dev)
{
	unsigned long now = jiffies;

	if (!dev->again)
		return;
	mod_delayed_work(ipoib_wq, &dev->work,
			 time_after(dev->again_at, now) ?
			 dev->again_at - now : 0);
	/* An event sets its bit, then queues the work: don't delay it. */
	if (READ_ONCE(dev->events))
		mod_delayed_work(ipoib_wq, &dev->work, 0);
}

/* Schedule an event for a given time; others that wait come then, too. */
static void ipoib_dev_put_off(struct ipoib_dev *dev, enum ipoib_event ev,
			      unsigned long at)
{
	lockdep_assert_held(&dev->lock);
	if (!dev->again || time_before(at, dev->again_at))
		dev->again_at = at;
	dev->again |= BIT(ev);
	ipoib_dev_schedule(dev);
}

/*
 * Schedule an event that could not be handled for a retry.  Those with a pace of
 * their own do not count.
 */
static void ipoib_dev_try_again(struct ipoib_dev *dev, enum ipoib_event ev)
{
	unsigned long delay = ipoib_dev_delay(dev->failures);

	lockdep_assert_held(&dev->lock);
	if (!(dev->again & ~IPOIB_EVS_PACED))
		dev->failures++;
	ipoib_dev_put_off(dev, ev, jiffies +
			  ipoib_delay_spread(delay, get_random_u32()));
}

static void ipoib_dev_link_later(struct ipoib_dev *dev, unsigned long delay)
{
	mutex_lock(&dev->lock);
	ipoib_dev_put_off(dev, IPOIB_EV_LINK, jiffies + delay);
	mutex_unlock(&dev->lock);
}

/* Have link_work try again what failed @failures times before this. */
static void ipoib_dev_link_again(struct ipoib_dev *dev, u32 failures)
{
	ipoib_dev_link_later(dev, ipoib_delay_spread(ipoib_dev_delay(failures),
						     get_random_u32()));
}

/* Events whose retry is due; they are taken off the list. */
static unsigned long ipoib_dev_take_again(struct ipoib_dev *dev)
{
	unsigned long bits = dev->again;

	lockdep_assert_held(&dev->lock);
	if (!bits || time_before(jiffies, dev->again_at))
		return 0;
	dev->again = 0;
	return bits;
}

/* ---- port state, address, link ------------------------------------------ */

/* Read port state and GID; true if the GID has changed. */
static bool ipoib_dev_read_port(struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	struct ib_port_attr attr;
	union ib_gid gid;
	int active, ret;

	lockdep_assert_held(&dev->lock);
	active = ipoib_port_active(port, &attr);
	ipoib_why_port(dev, min(active, 0), &attr);
	if (active < 0) {
		/* Unknown is not down: keep the state until it can be read. */
		ipoib_dev_try_again(dev, IPOIB_EV_PORT);
		return false;
	}
	dev->port_up = active;
	/* Not every event comes while the port can be read. */
	if (dev->lid && dev->lid != attr.lid)
		WRITE_ONCE(dev->announce, true);
	WRITE_ONCE(dev->lid, attr.lid);
	ret = rdma_query_gid(port->ca, port->num, 0, &gid);
	if (ret) {
		net_ratelimited_function(netdev_warn, dev->ndev,
					 "the GID can't be read: %pe\n",
					 ERR_PTR(ret));
		ipoib_dev_try_again(dev, IPOIB_EV_PORT);
		return false;
	}
	if (dev->guid)
		gid.global.interface_id = dev->guid;
	return ipoib_neigh_set_gid(dev, &gid);
}

/**
 * ipoib_dev_fill_addr - the link-layer address that an interface should have
 * @dev: interface
 * @addr: result, INFINIBAND_ALEN bytes
 */
void ipoib_dev_fill_addr(const struct ipoib_dev *dev, u8 *addr)
{
	ipoib_addr_fill(addr, ipoib_dev_qpn(dev), &dev->local_gid,
			dev->connected);
}

/*
 * Before the net_device is registered, which may fail, nothing would wait for
 * the reference on it.
 */
static void ipoib_dev_queue_link_work(struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	if (!dev->registered) {
		dev->link_due = true;
		return;
	}
	dev_hold(dev->ndev);
	if (!queue_work(ipoib_wq, &dev->link_work))
		dev_put(dev->ndev);
}

/**
 * ipoib_dev_mtu - the MTU that the stack should use
 * @dev: interface
 */
u32 ipoib_dev_mtu(const struct ipoib_dev *dev)
{
	/* In connected mode the limit is per neighbour. */
	if (dev->connected)
		return dev->admin_mtu;
	return ipoib_mtu(READ_ONCE(dev->mcast_mtu), dev->admin_mtu);
}

/*
 * The carrier is turned on only here, and off under the same lock, so that a
 * port that goes down meanwhile is not missed.
 */
static bool ipoib_dev_carrier_on(struct ipoib_dev *dev)
{
	bool on;

	mutex_lock(&dev->lock);
	on = ipoib_dev_is_up(dev) && dev->port_up && ipoib_mcast_is_up(dev);
	if (on)
		netif_carrier_on(dev->ndev);
	else if (!dev->port_up)
		netif_carrier_off(dev->ndev);
	ipoib_why_update(dev);
	mutex_unlock(&dev->lock);
	return on;
}

static void ipoib_dev_carrier_off(struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	netif_carrier_off(dev->ndev);
}

/*
 * The stack has copied the P_Key of the broadcast address into its multicast
 * addresses, and finds them only while that P_Key stays the same.  So have it
 * remove them before the change, and add them back, mapped anew, afterwards.
 */
static void ipoib_dev_sync_broadcast(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	u8 addr[INFINIBAND_ALEN];

	ASSERT_RTNL();
	memcpy(addr, ndev->broadcast, sizeof(addr));
	ipoib_addr_set_pkey(addr, READ_ONCE(dev->pkey));
	if (!memcmp(addr, ndev->broadcast, sizeof(addr)))
		return;
	call_netdevice_notifiers(NETDEV_PRE_TYPE_CHANGE, ndev);
	memcpy(ndev->broadcast, addr, sizeof(addr));
	call_netdevice_notifiers(NETDEV_POST_TYPE_CHANGE, ndev);
	/*
	 * This is another link: neighbours have to be learned anew.  Notified
	 * here, since linkwatch may run only after the carrier is back.
	 */
	if (!netif_carrier_ok(ndev))
		netdev_state_change(ndev);
}

/**
 * ipoib_dev_sync_addr - bring an interface's address in line with its GID and QP
 * @dev: interface that is registered
 *
 * Peers are told of a new one once the carrier is on, whatever has changed it:
 * a QP that could not be reset, for instance, was replaced.
 *
 * Context: rtnl.
 */
void ipoib_dev_sync_addr(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	u8 addr[INFINIBAND_ALEN];

	ASSERT_RTNL();
	ipoib_dev_fill_addr(dev, addr);
	if (!memcmp(addr, ndev->dev_addr, INFINIBAND_ALEN))
		return;
	dev_addr_mod(ndev, 0, addr, INFINIBAND_ALEN);
	WRITE_ONCE(dev->announce, true);
	call_netdevice_notifiers(NETDEV_CHANGEADDR, ndev);
}

/* The stack's MTU; an HCA's own interface may want memory for another one. */
static void ipoib_dev_sync_mtu(struct ipoib_dev *dev, u32 mtu)
{
	int ret;

	dev->setting_mtu = true;
	ret = dev_set_mtu(dev->ndev, mtu);
	dev->setting_mtu = false;
	if (!ret) {
		dev->mtu_failures = 0;
		return;
	}
	net_ratelimited_function(netdev_warn, dev->ndev,
				 "can't set the MTU to %u: %pe\n", mtu,
				 ERR_PTR(ret));
	ipoib_dev_link_again(dev, dev->mtu_failures++);
}

/*
 * Tell peers our address, with the carrier on.  The stack drops what is sent until
 * it activates the queues (ipoib_dev_changed()), and without a qdisc, of whose return
 * nobody tells.
 */
static void ipoib_dev_tell_peers(struct ipoib_dev *dev)
{
	ASSERT_RTNL();
	if (READ_ONCE(dev->announce) && qdisc_tx_is_noop(dev->ndev))
		ipoib_dev_link_later(dev, IPOIB_ANNOUNCE_PAUSE);
	else if (xchg(&dev->announce, false))
		__netdev_notify_peers(dev->ndev);
}

/**
 * ipoib_dev_changed - the stack has followed the carrier
 * @dev: interface
 *
 * Context: rtnl, maybe the lock of the net_device's operations.
 */
void ipoib_dev_changed(struct ipoib_dev *dev)
{
	if (netif_carrier_ok(dev->ndev) && READ_ONCE(dev->announce))
		ipoib_dev_link_later(dev, IPOIB_ANNOUNCE_DELAY);
}

/**
 * ipoib_dev_sync_link - bring what the stack sees in line with the fabric
 * @dev: interface that is registered
 *
 * Context: rtnl; takes the lock of the net_device's operations, if it has one.
 */
void ipoib_dev_sync_link(struct ipoib_dev *dev)
{
	struct net_device *ndev = dev->ndev;
	bool on;
	u32 mtu;

	ASSERT_RTNL();
	ipoib_dev_sync_broadcast(dev);
	ipoib_dev_sync_addr(dev);
	mtu = ipoib_dev_mtu(dev);
	if (mtu != ndev->mtu)
		ipoib_dev_sync_mtu(dev, mtu);
	else
		dev->mtu_failures = 0;
	/* HCAs turn the carrier off and on again with that lock held. */
	netdev_lock_ops(ndev);
	on = ipoib_dev_carrier_on(dev);
	netdev_unlock_ops(ndev);
	if (on)
		ipoib_dev_tell_peers(dev);
}

/**
 * ipoib_dev_open_later - a child could not be opened with its parent
 * @dev: child.  For the stack it is up, so that an administrator can set it down;
 *	until then it is tried again
 *
 * Context: rtnl.
 */
void ipoib_dev_open_later(struct ipoib_dev *dev)
{
	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	WRITE_ONCE(dev->open_due, true);
	ipoib_why_update(dev);
	WRITE_ONCE(dev->open_failures, dev->open_failures + 1);
	mutex_unlock(&dev->lock);
	ipoib_dev_link_again(dev, dev->open_failures - 1);
}

/**
 * ipoib_dev_open_done - an interface was opened, or is not to be any more
 * @dev: interface
 *
 * Context: rtnl.
 */
void ipoib_dev_open_done(struct ipoib_dev *dev)
{
	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	WRITE_ONCE(dev->open_due, false);
	WRITE_ONCE(dev->open_failures, 0);
	ipoib_why_update(dev);
	mutex_unlock(&dev->lock);
}

/* Try again to open a child that could not be opened with its parent. */
static void ipoib_dev_open_again(struct ipoib_dev *dev)
{
	int ret;

	ASSERT_RTNL();
	if (!dev->open_due)
		return;
	netdev_lock_ops(dev->ndev);
	ret = ipoib_dev_open(dev);
	netdev_unlock_ops(dev->ndev);
	if (ret)
		ipoib_dev_open_later(dev);
	else
		ipoib_dev_open_done(dev);
}

/* ---- up and down -------------------------------------------------------- */

/**
 * ipoib_dev_listen - let peers open connections
 * @dev: interface in connected mode that is up
 *
 * Retried later if it fails.
 *
 * Context: process, @dev->lock held.
 */
void ipoib_dev_listen(struct ipoib_dev *dev)
{
	int ret = ipoib_cm_start(dev);

	if (!ret)
		return;
	if (net_ratelimit())
		netdev_warn(dev->ndev, "peers can't connect yet: %pe\n",
			    ERR_PTR(ret));
	ipoib_dev_try_again(dev, IPOIB_EV_START);
}

/* Start draining all QPs together, so that their waits overlap. */
static void ipoib_dev_down_begin(struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	dev->engine->stop_begin(dev);
	if (dev->connected)
		ipoib_cm_stop_begin(dev);
}

/* Take everything down that is up; the state has been changed before. */
static void ipoib_dev_down(struct ipoib_dev *dev)
{
	lockdep_assert_held(&dev->lock);
	WARN_ON_ONCE(ipoib_dev_is_up(dev));
	ipoib_dev_carrier_off(dev);
	ipoib_dev_down_begin(dev);
	ipoib_mcast_stop(dev);
	ipoib_neigh_stop(dev);
	if (dev->connected)
		ipoib_cm_stop(dev);
	dev->engine->stop(dev);
}

static int ipoib_dev_start_qps(struct ipoib_dev *dev)
{
	int ret = dev->engine->start(dev);

	return ret ?: ipoib_mcast_start(dev);
}

static void ipoib_dev_move_up(struct ipoib_dev *dev)
{
	ipoib_dev_move(dev, IPOIB_DEV_UP);
	/* Whatever QPs these are about, they work now. */
	dev->again &= ~(BIT(IPOIB_EV_RESTART) | BIT(IPOIB_EV_SQ_ERROR));
	netif_tx_wake_all_queues(dev->ndev);
}

/* Something failed on the way up: take everything down and retry later. */
static void ipoib_dev_move_broken(struct ipoib_dev *dev, int error)
{
	ipoib_dev_down(dev);
	ipoib_dev_move(dev, IPOIB_DEV_BROKEN);
	WRITE_ONCE(dev->announce, true);
	ipoib_dev_try_again(dev, IPOIB_EV_START);
	ipoib_why_failed(dev, error);
}

/**
 * ipoib_dev_start - bring an interface up that is open and down
 * @dev: interface: new, after ipoib_dev_take_down(), without P_Key or broken
 *
 * The resulting state is up, waiting for the P_Key, or broken with a retry
 * scheduled.
 *
 * Context: process, @dev->lock held.
 * Return: 0 or the error that broke it
 */
int ipoib_dev_start(struct ipoib_dev *dev)
{
	int ret;

	lockdep_assert_held(&dev->lock);
	if (dev->state != IPOIB_DEV_STARTING)
		ipoib_dev_move(dev, IPOIB_DEV_STARTING);
	if (ipoib_dev_read_port(dev))
		WRITE_ONCE(dev->announce, true);
	ret = ipoib_dev_start_qps(dev);
	if (ret == -ENOENT) {
		ipoib_dev_move(dev, IPOIB_DEV_NO_PKEY);
		return 0;
	}
	if (ret) {
		ipoib_dev_move_broken(dev, ret);
		return ret;
	}
	ipoib_dev_move_up(dev);
	if (dev->connected)
		ipoib_dev_listen(dev);
	ipoib_neigh_open(dev);
	return 0;
}

/**
 * ipoib_dev_take_down - take down an interface that will be started again
 * @dev: interface in any state
 *
 * Context: process, @dev->lock held until ipoib_dev_start().
 * Return: true if it was up, and has to be started
 */
bool ipoib_dev_take_down(struct ipoib_dev *dev)
{
	if (!ipoib_dev_is_up(dev))
		return false;
	ipoib_dev_move(dev, IPOIB_DEV_STARTING);
	ipoib_dev_down(dev);
	return true;
}

/**
 * ipoib_dev_open - ndo_open
 * @dev: interface
 *
 * A lack of memory or of HCA objects is an error.  Any other failure is retried
 * later.
 *
 * Context: rtnl.
 * Return: 0, or -errno and the interface stays closed
 */
int ipoib_dev_open(struct ipoib_dev *dev)
{
	int ret;

	mutex_lock(&dev->lock);
	ret = dev->engine->open(dev);
	if (ret) {
		ipoib_why_failed(dev, ret);
		goto update;
	}
	ipoib_port_opened(dev->port, 1);
	dev->failures = 0;
	dev->again &= ~BIT(IPOIB_EV_START);
	netif_tx_start_all_queues(dev->ndev);
	ret = ipoib_dev_start(dev);
	if (ret == -ENOMEM) {
		ipoib_dev_move(dev, IPOIB_DEV_STOPPING);
		ipoib_dev_move(dev, IPOIB_DEV_CLOSED);
		dev->again &= ~BIT(IPOIB_EV_START);
		dev->engine->close(dev);
		ipoib_port_opened(dev->port, -1);
		if (net_ratelimit())
			netdev_warn(dev->ndev, "can't be opened: %pe\n",
				    ERR_PTR(ret));
	} else {
		ret = 0;
	}
update:
	ipoib_why_update(dev);
	mutex_unlock(&dev->lock);
	return ret;
}

/**
 * ipoib_dev_stop_begin - start draining the QPs of an interface to be closed
 * @dev: interface, open or closed
 *
 * Nothing is sent or received any more.  Must be followed, under the same rtnl,
 * by ndo_stop, which then has less to wait for.
 *
 * Context: rtnl.
 */
void ipoib_dev_stop_begin(struct ipoib_dev *dev)
{
	ASSERT_RTNL();
	mutex_lock(&dev->lock);
	if (ipoib_dev_is_open(dev)) {
		ipoib_dev_move(dev, IPOIB_DEV_STOPPING);
		ipoib_dev_down_begin(dev);
	}
	mutex_unlock(&dev->lock);
}

/**
 * ipoib_dev_close - ndo_stop
 * @dev: interface
 *
 * Context: rtnl; waits for the HCA for a second at most.
 */
void ipoib_dev_close(struct ipoib_dev *dev)
{
	ipoib_dev_stop_begin(dev);
	mutex_lock(&dev->lock);
	ipoib_dev_down(dev);
	/* A restart keeps it: until the group is joined again the MTU stays. */
	WRITE_ONCE(dev->mcast_mtu, 0);
	ipoib_dev_move(dev, IPOIB_DEV_CLOSED);
	dev->engine->close(dev);
	ipoib_port_opened(dev->port, -1);
	ipoib_why_update(dev);
	mutex_unlock(&dev->lock);
}

/* ---- events ------------------------------------------------------------- */

/* A parent's P_Key is the one at index 0; true if that has changed. */
static bool ipoib_dev_pkey_replaced(struct ipoib_dev *dev, u16 *pkey)
{
	if (ipoib_is_child(dev))
		return false;
	if (ib_query_pkey(dev->port->ca, dev->port->num, 0, pkey)) {
		ipoib_dev_try_again(dev, IPOIB_EV_PKEY);
		return false;
	}
	*pkey = ipoib_pkey_full(*pkey);
	return ipoib_pkey_valid(*pkey) && *pkey != dev->pkey;
}

/*
 * The index of its P_Key in the port's table, -ENOENT if it is not there, or
 * another error: nothing is known then, and it is read again later.
 */
static int ipoib_dev_pkey_index(struct ipoib_dev *dev)
{
	u16 index;
	int ret;

	ret = ib_find_pkey(dev->port->ca, dev->port->num, dev->pkey, &index);
	if (!ret)
		return index;
	if (ret != -ENOENT)
		ipoib_dev_try_again(dev, IPOIB_EV_PKEY);
	return ret;
}

/* Is its P_Key gone, or at another index of the port's table? */
static bool ipoib_dev_pkey_moved(struct ipoib_dev *dev)
{
	int index = ipoib_dev_pkey_index(dev);

	return index == -ENOENT || (index >= 0 && index != dev->pkey_index);
}

/* The P_Key table changed. */
static void ipoib_dev_pkey_changed(struct ipoib_dev *dev)
{
	bool replaced;
	u16 pkey;

	replaced = ipoib_dev_pkey_replaced(dev, &pkey);
	if (replaced || ipoib_dev_pkey_moved(dev))
		ipoib_dev_take_down(dev);
	if (replaced) {
		netdev_info(dev->ndev, "P_Key is %#06x now, was %#06x\n",
			    pkey, dev->pkey);
		WRITE_ONCE(dev->pkey, pkey);
		ipoib_dev_queue_link_work(dev);
	}
	/* The kind of membership may be another one. */
	if (ipoib_dev_is_up(dev) && dev->port_up && !ipoib_mcast_is_up(dev))
		ipoib_mcast_rejoin(dev, false);
	/* A broken one is restarted by its own retry. */
	if (dev->state == IPOIB_DEV_STARTING ||
	    (dev->state == IPOIB_DEV_NO_PKEY && ipoib_dev_pkey_index(dev) >= 0))
		ipoib_dev_start(dev);
}

/**
 * ipoib_dev_attach - let a new interface receive the port's events
 * @dev: interface that is being registered
 *
 * Earlier events did not reach it, so read the port's state and P_Key now.
 *
 * Context: rtnl.
 */
void ipoib_dev_attach(struct ipoib_dev *dev)
{
	ipoib_port_attach(dev->port, dev);
	mutex_lock(&dev->lock);
	ipoib_dev_read_port(dev);
	ipoib_dev_pkey_changed(dev);
	mutex_unlock(&dev->lock);
}

/**
 * ipoib_dev_registered - the net_device is registered, link_work may hold it
 * @dev: interface
 *
 * Context: rtnl; also called when it moves to another namespace.
 */
void ipoib_dev_registered(struct ipoib_dev *dev)
{
	mutex_lock(&dev->lock);
	dev->registered = true;
	if (dev->link_due)
		ipoib_dev_queue_link_work(dev);
	dev->link_due = false;
	mutex_unlock(&dev->lock);
}

/* The port's GID has changed, and with it our address and the paths from it. */
static void ipoib_dev_gid_changed(struct ipoib_dev *dev)
{
	WRITE_ONCE(dev->announce, true);
	ipoib_dev_queue_link_work(dev);
	if (!ipoib_dev_is_up(dev))
		return;
	ipoib_neigh_stop(dev);
	ipoib_neigh_open(dev);
	ipoib_mcast_rejoin(dev, true);
}

/**
 * ipoib_dev_refresh - read the port's state and GID again, and act on changes
 * @dev: interface
 *
 * Context: process, @dev->lock held.
 */
void ipoib_dev_refresh(struct ipoib_dev *dev)
{
	if (ipoib_dev_read_port(dev))
		ipoib_dev_gid_changed(dev);
}

static void ipoib_dev_port_changed(struct ipoib_dev *dev, bool rejoin)
{
	/* Kept until it can be done, with the port or the interface up. */
	if (rejoin && ipoib_dev_is_open(dev))
		WRITE_ONCE(dev->announce, true);
	ipoib_dev_refresh(dev);
	if (!dev->port_up) {
		ipoib_dev_carrier_off(dev);
		/* Engines may turn it off and on again, with locks of the stack. */
		if (dev->engine->rtnl)
			ipoib_dev_queue_link_work(dev);
	}
	if (!dev->port_up || !ipoib_dev_is_up(dev))
		return;
	ipoib_mcast_rejoin(dev, false);
	ipoib_dev_queue_link_work(dev);
}

static void ipoib_dev_restart(struct ipoib_dev *dev)
{
	int ret;

	if (!dev->engine->restart) {
		ipoib_dev_take_down(dev);
		ipoib_dev_start(dev);
		return;
	}
	ipoib_dev_move(dev, IPOIB_DEV_STARTING);
	ret = dev->engine->restart(dev);
	if (ret)
		ipoib_dev_move_broken(dev, ret);
	else
		ipoib_dev_move_up(dev);
}

/*
 * A QP failed: move it back to RTS if that is enough, else restart all QPs, but
 * not without a pause.
 */
static void ipoib_dev_repair(struct ipoib_dev *dev, bool restart)
{
	unsigned long next = dev->restarted + IPOIB_RESTART_PAUSE;

	if (!ipoib_dev_is_up(dev))
		return;
	if (!restart && !dev->engine->repair(dev))
		return;
	if (time_in_range(jiffies, dev->restarted, next - 1)) {
		ipoib_dev_put_off(dev, restart ? IPOIB_EV_RESTART :
						 IPOIB_EV_SQ_ERROR, next);
		return;
	}
	ipoib_dev_restart(dev);
	/* It may have taken as long as the pause. */
	dev->restarted = jiffies;
}

/* Retry what failed before. */
static void ipoib_dev_start_again(struct ipoib_dev *dev)
{
	if (dev->state == IPOIB_DEV_BROKEN)
		ipoib_dev_start(dev);
	else if (ipoib_dev_is_up(dev) && dev->connected)
		ipoib_dev_listen(dev);
}

static void ipoib_dev_handle(struct ipoib_dev *dev, unsigned long bits)
{
	const unsigned long port_bits = BIT(IPOIB_EV_PORT) |
					BIT(IPOIB_EV_REJOIN) |
					BIT(IPOIB_EV_REVALIDATE);

	if (bits & BIT(IPOIB_EV_PKEY))
		ipoib_dev_pkey_changed(dev);
	if (bits & (BIT(IPOIB_EV_RESTART) | BIT(IPOIB_EV_SQ_ERROR)))
		ipoib_dev_repair(dev, bits & BIT(IPOIB_EV_RESTART));
	if (bits & BIT(IPOIB_EV_START))
		ipoib_dev_start_again(dev);
	if (bits & port_bits)
		ipoib_dev_port_changed(dev, bits & BIT(IPOIB_EV_REJOIN));
	if (bits & BIT(IPOIB_EV_LINK))
		ipoib_dev_queue_link_work(dev);
}

/* Leave to link_work what needs rtnl; the events that don't. */
static unsigned long ipoib_dev_defer(struct ipoib_dev *dev, unsigned long bits)
{
	const unsigned long up_down = BIT(IPOIB_EV_PKEY) |
				      BIT(IPOIB_EV_SQ_ERROR) |
				      BIT(IPOIB_EV_RESTART) |
				      BIT(IPOIB_EV_START);

	lockdep_assert_held(&dev->lock);
	if (!dev->engine->rtnl || !(bits & up_down))
		return bits;
	dev->deferred |= bits & up_down;
	ipoib_dev_queue_link_work(dev);
	return bits & ~up_down;
}

static void ipoib_dev_handle_all(struct ipoib_dev *dev, unsigned long bits)
{
	lockdep_assert_held(&dev->lock);
	ipoib_dev_handle(dev, bits);
	ipoib_why_update(dev);
	if (dev->again)
		ipoib_dev_schedule(dev);
	else if (!dev->deferred)
		dev->failures = 0;
}

static void ipoib_dev_work(struct work_struct *work)
{
	struct ipoib_dev *dev = container_of(work, struct ipoib_dev, work.work);
	unsigned int noio = memalloc_noio_save();
	unsigned long bits = xchg(&dev->events, 0);

	mutex_lock(&dev->lock);
	bits |= ipoib_dev_take_again(dev);
	ipoib_dev_handle_all(dev, ipoib_dev_defer(dev, bits));
	mutex_unlock(&dev->lock);
	memalloc_noio_restore(noio);
}

static void ipoib_dev_handle_deferred(struct ipoib_dev *dev)
{
	unsigned long bits;

	ASSERT_RTNL();
	netdev_lock_ops(dev->ndev);
	mutex_lock(&dev->lock);
	bits = dev->deferred;
	dev->deferred = 0;
	if (bits)
		ipoib_dev_handle_all(dev, bits);
	mutex_unlock(&dev->lock);
	netdev_unlock_ops(dev->ndev);
}

static void ipoib_dev_link_work(struct work_struct *work)
{
	struct ipoib_dev *dev =
		container_of(work, struct ipoib_dev, link_work);
	unsigned int noio = memalloc_noio_save();
	struct net_device *ndev = dev->ndev;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED) {
		ipoib_dev_open_again(dev);
		ipoib_dev_handle_deferred(dev);
		ipoib_dev_sync_link(dev);
	}
	rtnl_unlock();
	dev_put(ndev);
	memalloc_noio_restore(noio);
}

/**
 * ipoib_dev_show - write the state of an interface
 * @m: file
 * @dev: interface
 */
void ipoib_dev_show(struct seq_file *m, struct ipoib_dev *dev)
{
	seq_printf(m, "state: %s\nport: %s\nfailures: %u\nengine: %s\n",
		   ipoib_dev_state_name(READ_ONCE(dev->state)),
		   READ_ONCE(dev->port_up) ? "up" : "down",
		   READ_ONCE(dev->failures), dev->engine->name);
}

/**
 * ipoib_dev_init - initialise the state of a new interface: closed
 * @dev: zeroed, except for @ndev
 */
void ipoib_dev_init(struct ipoib_dev *dev)
{
	mutex_init(&dev->lock);
	dev->restarted = jiffies - IPOIB_RESTART_PAUSE;
	INIT_DELAYED_WORK(&dev->work, ipoib_dev_work);
	INIT_WORK(&dev->link_work, ipoib_dev_link_work);
}
