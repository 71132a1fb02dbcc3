// SPDX-License-Identifier: GPL-2.0-only
/*
 * Why an interface has no carrier: found in one place, for all who are told
 *
 * Whatever may change the answer calls ipoib_why_update().  Programs get a
 * message at each change.  The log gets a line for each cause: at once, unless
 * the cause passes by itself where nothing is wrong, as a port without a subnet
 * manager does at boot; then only if it has lasted for a while.
 *
 * Lock: ipoib_dev.lock.
 */
#include <linux/netdevice.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_engine.h"
#include "ipoib_msg.h"
#include "ipoib_multicast.h"
#include "ipoib_port.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"
#include "ipoib_tx.h"
#include "ipoib_why.h"

#define IPOIB_WHY_SETTLED	(5 * HZ)
#define IPOIB_WHY_LOOK		(5 * HZ)	/* at a port that is not active */

/**
 * struct ipoib_why - why an interface has no carrier
 * @dev: interface
 * @port_state: enum ib_port_state as last read, or -errno
 * @phys_state: enum ib_port_phys_state as last read, 0: not known
 * @sm_lid: LID of the SM as last read
 * @failed: the error that ended the last attempt to start the interface
 * @answer_lock: spinlock, innermost, for those who read the next three
 *	without ipoib_dev.lock
 * @cause: why
 * @error: the error that is part of @cause, or 0
 * @since: jiffies at which @cause was found
 * @failures: how often starting the interface has failed
 * @told: the last cause in the log, until that is over
 * @work: writes a line if @cause has lasted, looks at the port again
 */
struct ipoib_why {
	struct ipoib_dev *dev;
	int port_state;
	u8 phys_state;
	u16 sm_lid;
	int failed;
	spinlock_t answer_lock;	/* the next three */
	enum ipoib_cause cause;
	int error;
	unsigned long since;
	u32 failures;
	enum ipoib_cause told;
	struct delayed_work work;
};

/* ---- the log ------------------------------------------------------------ */

static const char *ipoib_phys_state_name(u8 state)
{
	switch (state) {
	case IB_PORT_PHYS_STATE_SLEEP:
		return "sleeping";
	case IB_PORT_PHYS_STATE_POLLING:
		return "no partner detected";
	case IB_PORT_PHYS_STATE_DISABLED:
		return "disabled";
	case IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING:
		return "training";
	case IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY:
		return "recovering from errors";
	case IB_PORT_PHYS_STATE_PHY_TEST:
		return "testing";
	default:
		return "down";
	}
}

static void ipoib_why_log_port(const struct ipoib_dev *dev)
{
	const struct ipoib_why *why = dev->why;
	const char *ca = dev_name(&dev->port->ca->dev);
	u32 num = dev->port->num;

	switch (why->cause) {
	case IPOIB_CAUSE_PORT_UNKNOWN:
		netdev_warn(dev->ndev, "%s does not tell the state of port %u: %pe\n",
			    ca, num, ERR_PTR(why->error));
		break;
	case IPOIB_CAUSE_PORT_DOWN:
		netdev_warn(dev->ndev, "port %u of %s has no link: %s\n", num,
			    ca, ipoib_phys_state_name(why->phys_state));
		break;
	case IPOIB_CAUSE_PORT_INIT:
		netdev_warn(dev->ndev, "no subnet manager has configured port %u of %s\n",
			    num, ca);
		break;
	case IPOIB_CAUSE_PORT_ARMED:
		netdev_warn(dev->ndev, "the subnet manager has not activated port %u of %s\n",
			    num, ca);
		break;
	case IPOIB_CAUSE_SA_UNREACHABLE:
		netdev_warn(dev->ndev, "no request can be sent to the SA: %pe\n",
			    ERR_PTR(why->error));
		break;
	case IPOIB_CAUSE_SA_SILENT:
		netdev_warn(dev->ndev, "the SA at LID %u does not answer\n",
			    why->sm_lid);
		break;
	default:
		break;
	}
}

static void ipoib_why_log(const struct ipoib_dev *dev)
{
	const u8 *mgid = dev->ndev->broadcast + 4;

	switch (dev->why->cause) {
	case IPOIB_CAUSE_NO_PKEY:
		netdev_warn(dev->ndev, "P_Key %#06x is not in the port's table\n",
			    dev->pkey);
		break;
	case IPOIB_CAUSE_START_FAILED:
		netdev_warn(dev->ndev, "can't be brought up: %pe\n",
			    ERR_PTR(dev->why->error));
		break;
	case IPOIB_CAUSE_JOINING:
		netdev_warn(dev->ndev, "broadcast group %pI6 not joined yet\n",
			    mgid);
		break;
	case IPOIB_CAUSE_JOIN_REFUSED:
		netdev_warn(dev->ndev, "broadcast group %pI6 not joined: refused by the SA\n",
			    mgid);
		break;
	case IPOIB_CAUSE_LIMITED_PKEY:
		netdev_warn(dev->ndev, "broadcast group %pI6 not joined: refused by the SA; the port is a limited member of partition %#06x\n",
			    mgid, dev->pkey);
		break;
	case IPOIB_CAUSE_GROUP_UNUSABLE:
		netdev_warn(dev->ndev, "broadcast group %pI6 can't be used: %pe\n",
			    mgid, ERR_PTR(dev->why->error));
		break;
	default:
		ipoib_why_log_port(dev);
	}
}

/* What concerns the whole port is said once, by the first it concerns. */
static bool ipoib_why_is_ours(const struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	enum ipoib_cause cause = dev->why->cause;
	const struct ipoib_dev *other, *first = NULL;

	if (!ipoib_cause_of_port(cause))
		return true;
	mutex_lock(&port->lock);
	list_for_each_entry(other, &port->devs, port_entry) {
		if (READ_ONCE(other->why->cause) == cause) {
			first = other;
			break;
		}
	}
	mutex_unlock(&port->lock);
	return first == dev;
}

static void ipoib_why_tell(struct ipoib_dev *dev)
{
	struct ipoib_why *why = dev->why;

	lockdep_assert_held(&dev->lock);
	if (why->cause == why->told || why->cause == IPOIB_CAUSE_NONE ||
	    why->cause == IPOIB_CAUSE_ADMIN_DOWN || !ipoib_why_is_ours(dev))
		return;
	if (!net_ratelimit()) {
		mod_delayed_work(ipoib_wq, &why->work, IPOIB_WHY_SETTLED);
		return;
	}
	why->told = why->cause;
	ipoib_why_log(dev);
}

/* What was told is over. */
static void ipoib_why_over(struct ipoib_dev *dev)
{
	struct ipoib_why *why = dev->why;

	if (why->told != IPOIB_CAUSE_NONE &&
	    why->told != IPOIB_CAUSE_ADMIN_DOWN)
		net_ratelimited_function(netdev_info, dev->ndev,
					 "has a carrier again\n");
	why->told = IPOIB_CAUSE_NONE;
}

/* ---- looking at the port again ------------------------------------------ */

/*
 * HCAs report that a port becomes active, and that it no longer is, but no other
 * change, such as that a link is there and waits for the subnet manager.
 */
static bool ipoib_why_has_to_look(const struct ipoib_dev *dev)
{
	enum ipoib_cause cause = dev->why->cause;

	return cause == IPOIB_CAUSE_PORT_DOWN ||
	       cause == IPOIB_CAUSE_PORT_INIT ||
	       cause == IPOIB_CAUSE_PORT_ARMED;
}

/* Have all interfaces of the port read its state if that has changed. */
static void ipoib_why_look(const struct ipoib_dev *dev)
{
	const struct ipoib_why *why = dev->why;
	struct ib_port_attr attr;

	if (ipoib_port_active(dev->port, &attr) >= 0 &&
	    (attr.state != READ_ONCE(why->port_state) ||
	     attr.phys_state != READ_ONCE(why->phys_state)))
		ipoib_port_raise(dev->port, BIT(IPOIB_EV_PORT));
}

static void ipoib_why_work(struct work_struct *work)
{
	struct ipoib_why *why = container_of(work, struct ipoib_why, work.work);
	unsigned int noio = memalloc_noio_save();
	struct ipoib_dev *dev = why->dev;
	bool look = false;

	mutex_lock(&dev->lock);
	if (!ipoib_cause_may_pass(why->cause) ||
	    time_after_eq(jiffies, why->since + IPOIB_WHY_SETTLED))
		ipoib_why_tell(dev);
	if (ipoib_why_has_to_look(dev)) {
		/* Whoever is not the first now may be, next time. */
		look = ipoib_why_is_ours(dev);
		mod_delayed_work(ipoib_wq, &why->work, IPOIB_WHY_LOOK);
	}
	mutex_unlock(&dev->lock);
	/* The HCA may take its time, which commands are not to wait for. */
	if (look)
		ipoib_why_look(dev);
	memalloc_noio_restore(noio);
}

/* ---- what is known ------------------------------------------------------ */

/* True if the port is a limited member of the interface's partition. */
static bool ipoib_why_limited(const struct ipoib_dev *dev)
{
	struct ipoib_port *port = dev->port;
	u16 pkey;

	return !ib_get_cached_pkey(port->ca, port->num, dev->pkey_index,
				   &pkey) && !(pkey & IPOIB_PKEY_FULL);
}

static enum ipoib_cause ipoib_why_find(const struct ipoib_dev *dev, int *error)
{
	const struct ipoib_why *why = dev->why;
	struct ipoib_facts facts = {
		.state = dev->state,
		.port = why->port_state,
	};
	enum ipoib_cause cause;

	lockdep_assert_held(&dev->lock);
	/* It was set up, with its parent, but could not be opened. */
	if (facts.state == IPOIB_DEV_CLOSED && READ_ONCE(dev->open_due))
		facts.state = IPOIB_DEV_BROKEN;
	facts.joined = ipoib_mcast_get_facts(dev, &facts) ||
		       netif_carrier_ok(dev->ndev);
	facts.limited = facts.join_error && ipoib_why_limited(dev);
	cause = ipoib_find_cause(&facts);
	/* link_work has not turned the carrier on yet. */
	if (cause == IPOIB_CAUSE_NONE && !netif_carrier_ok(dev->ndev))
		cause = IPOIB_CAUSE_STARTING;
	*error = 0;
	if (cause == IPOIB_CAUSE_START_FAILED)
		*error = why->failed;
	else if (cause == IPOIB_CAUSE_PORT_UNKNOWN)
		*error = facts.port;
	else if (cause == IPOIB_CAUSE_SA_UNREACHABLE ||
		 cause == IPOIB_CAUSE_GROUP_UNUSABLE)
		*error = facts.join_error;
	return cause;
}

/**
 * ipoib_why_update - find out again why an interface has no carrier
 * @dev: interface
 *
 * Tells the log and programs that listen if that has changed.
 *
 * Context: process, @dev->lock held.
 */
void ipoib_why_update(struct ipoib_dev *dev)
{
	struct ipoib_why *why = dev->why;
	enum ipoib_cause cause;
	bool same;
	int error;

	cause = ipoib_why_find(dev, &error);
	spin_lock(&why->answer_lock);
	same = cause == why->cause;
	if (!same)
		why->since = jiffies;
	WRITE_ONCE(why->cause, cause);
	why->error = error;
	spin_unlock(&why->answer_lock);
	if (same)
		return;
	ipoib_msg_notify(dev, IPOIB_CMD_DEV_NTF, ipoib_why_fill, dev);
	if (cause == IPOIB_CAUSE_NONE)
		ipoib_why_over(dev);
	else if (cause == IPOIB_CAUSE_ADMIN_DOWN)
		why->told = cause;
	else if (ipoib_cause_may_pass(cause))
		mod_delayed_work(ipoib_wq, &why->work, IPOIB_WHY_SETTLED);
	else
		ipoib_why_tell(dev);
}

/**
 * ipoib_why_port - note what is known of the port
 * @dev: interface
 * @error: error of the HCA's answer, or 0
 * @attr: answer, if there was no error
 *
 * Context: process, @dev->lock held.
 */
void ipoib_why_port(struct ipoib_dev *dev, int error,
		    const struct ib_port_attr *attr)
{
	struct ipoib_why *why = dev->why;

	lockdep_assert_held(&dev->lock);
	/* Unknown is not down: it works as before. */
	if (error && netif_carrier_ok(dev->ndev))
		return;
	WRITE_ONCE(why->port_state, error ?: attr->state);
	if (error)
		return;
	WRITE_ONCE(why->phys_state, attr->phys_state);
	WRITE_ONCE(why->sm_lid, attr->sm_lid);
}

/**
 * ipoib_why_failed - note why an attempt to start an interface failed
 * @dev: interface
 * @error: -errno
 *
 * Context: process, @dev->lock held.
 */
void ipoib_why_failed(struct ipoib_dev *dev, int error)
{
	lockdep_assert_held(&dev->lock);
	dev->why->failed = error;
	WRITE_ONCE(dev->why->failures, dev->why->failures + 1);
}

/**
 * ipoib_why_no_link - physical state of a port that is down
 * @dev: interface
 * Return: enum ib_port_phys_state; 0 if it is not known, or the port not down
 */
u8 ipoib_why_no_link(const struct ipoib_dev *dev)
{
	const struct ipoib_why *why = dev->why;

	return READ_ONCE(why->cause) == IPOIB_CAUSE_PORT_DOWN ?
	       READ_ONCE(why->phys_state) : 0;
}

/* ---- for programs ------------------------------------------------------- */

static int ipoib_why_fill_port(struct sk_buff *skb, const struct ipoib_dev *dev)
{
	const struct ipoib_why *why = dev->why;
	int state = READ_ONCE(why->port_state);

	if (nla_put_u32(skb, IPOIB_A_DEV_HCA_INDEX, dev->port->ca->index) ||
	    nla_put_u32(skb, IPOIB_A_DEV_PORT, dev->port->num) ||
	    nla_put_u32(skb, IPOIB_A_DEV_LID, READ_ONCE(dev->lid)) ||
	    nla_put_u32(skb, IPOIB_A_DEV_SM_LID, READ_ONCE(why->sm_lid)) ||
	    nla_put_u32(skb, IPOIB_A_DEV_PHYS_STATE,
			READ_ONCE(why->phys_state)))
		return -EMSGSIZE;
	return state < 0 ? 0 :
	       nla_put_u32(skb, IPOIB_A_DEV_PORT_STATE, state);
}

/* How often in a row what is tried again has failed. */
static u32 ipoib_why_retries(const struct ipoib_dev *dev)
{
	return READ_ONCE(dev->open_due) ? READ_ONCE(dev->open_failures) :
					  READ_ONCE(dev->failures);
}

/**
 * ipoib_why_fill - write an interface's attributes to a message
 * @skb: message
 * @object: interface
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE
 */
int ipoib_why_fill(struct sk_buff *skb, const void *object)
{
	const struct ipoib_dev *dev = object;
	struct ipoib_why *why = dev->why;
	struct ipoib_facts facts;
	enum ipoib_cause cause;
	unsigned long since;
	int error;

	ipoib_mcast_get_facts(dev, &facts);
	spin_lock(&why->answer_lock);
	cause = why->cause;
	error = why->error;
	since = why->since;
	spin_unlock(&why->answer_lock);
	if (nla_put_string(skb, IPOIB_A_DEV_IFNAME, dev->ndev->name) ||
	    nla_put_u32(skb, IPOIB_A_DEV_CAUSE, cause) ||
	    (error && nla_put_s32(skb, IPOIB_A_DEV_ERROR, error)) ||
	    ipoib_msg_put_ms(skb, IPOIB_A_DEV_CAUSE_AGE, since) ||
	    nla_put_u32(skb, IPOIB_A_DEV_MODE, READ_ONCE(dev->connected) ?
			IPOIB_DEV_MODE_CONNECTED : IPOIB_DEV_MODE_DATAGRAM) ||
	    nla_put_u32(skb, IPOIB_A_DEV_ENGINE, dev->engine->id) ||
	    nla_put_u32(skb, IPOIB_A_DEV_PKEY, READ_ONCE(dev->pkey)) ||
	    nla_put(skb, IPOIB_A_DEV_GID, sizeof(dev->local_gid),
		    &dev->local_gid) ||
	    nla_put_u32(skb, IPOIB_A_DEV_QPN, ipoib_dev_qpn(dev)) ||
	    (facts.join_error &&
	     nla_put_s32(skb, IPOIB_A_DEV_JOIN_ERROR, facts.join_error)) ||
	    nla_put_u32(skb, IPOIB_A_DEV_START_FAILURES,
			READ_ONCE(why->failures)) ||
	    nla_put_u32(skb, IPOIB_A_DEV_RETRIES, ipoib_why_retries(dev)))
		return -EMSGSIZE;
	return ipoib_why_fill_port(skb, dev);
}

/* ---- setup -------------------------------------------------------------- */

/**
 * ipoib_why_init - set up what is known of a new interface
 * @dev: interface
 * Return: 0 or -ENOMEM
 */
int ipoib_why_init(struct ipoib_dev *dev)
{
	struct ipoib_why *why = kzalloc_obj(*why);

	if (!why)
		return -ENOMEM;
	why->dev = dev;
	spin_lock_init(&why->answer_lock);
	why->cause = IPOIB_CAUSE_ADMIN_DOWN;
	why->told = IPOIB_CAUSE_ADMIN_DOWN;
	why->since = jiffies;
	INIT_DELAYED_WORK(&why->work, ipoib_why_work);
	dev->why = why;
	return 0;
}

/**
 * ipoib_why_stop - write nothing to the log any more, look at the port no more
 * @dev: interface that is closed for good
 *
 * Context: process, @dev->lock not held.
 */
void ipoib_why_stop(struct ipoib_dev *dev)
{
	cancel_delayed_work_sync(&dev->why->work);
}

/**
 * ipoib_why_exit - undo ipoib_why_init()
 * @dev: interface, after ipoib_why_stop(); possibly not initialised
 */
void ipoib_why_exit(struct ipoib_dev *dev)
{
	kfree(dev->why);
	dev->why = NULL;
}
