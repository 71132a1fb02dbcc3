// SPDX-License-Identifier: GPL-2.0-only
/*
 * A port: what its interfaces share, and the HCA's events
 *
 * A port owns the protection domain and the channels: CQs, NAPI, receive
 * buffers and SRQs, a set for each completion vector, shared by the parent
 * interface and its children.  The parent receives in the first channel;
 * children and connections are spread over all.  Buffers of an SRQ stay posted
 * while all interfaces are down: only destroying it would return them.
 *
 * Events of the HCA are classified here and handed to the interfaces' own
 * work items, so that a stuck interface does not hold up others.
 *
 * Locks: ipoib_port.lock (mutex) covers the list of interfaces and what the
 * QPs of a channel share; it nests inside ipoib_dev.lock.
 */
#include <linux/rhashtable.h>
#include <rdma/ib_cache.h>

#include "ipoib.h"
#include "ipoib_ah.h"
#include "ipoib_channel.h"
#include "ipoib_drain.h"
#include "ipoib_lost.h"
#include "ipoib_path.h"
#include "ipoib_port.h"
#include "ipoib_probe.h"
#include "ipoib_rules.h"
#include "ipoib_trace.h"

/**
 * ipoib_port_set_channels - set the number of channels that receive
 * @port: port
 * @num: number of channels
 *
 * A datagram QP keeps its channel, since its QPN is part of the address; new
 * QPs and new connections are spread over @num channels.
 *
 * Context: process.
 */
void ipoib_port_set_channels(struct ipoib_port *port, u32 num)
{
	mutex_lock(&port->lock);
	port->used_channels = num;
	mutex_unlock(&port->lock);
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

/**
 * ipoib_port_raise - have all interfaces of a port handle events
 * @port: port
 * @bits: bits of enum ipoib_event
 *
 * Context: process.
 */
void ipoib_port_raise(struct ipoib_port *port, unsigned long bits)
{
	struct ipoib_dev *dev;
	unsigned long bit;

	mutex_lock(&port->lock);
	list_for_each_entry(dev, &port->devs, port_entry)
		for_each_set_bit(bit, &bits, BITS_PER_LONG)
			ipoib_dev_event(dev, bit);
	mutex_unlock(&port->lock);
}

static void ipoib_port_event_work(struct work_struct *work)
{
	struct ipoib_port *port =
		container_of(work, struct ipoib_port, event_work);
	unsigned long bits = xchg(&port->events, 0);

	if (bits & (BIT(IPOIB_EV_REVALIDATE) | BIT(IPOIB_EV_REJOIN)))
		ipoib_paths_revalidate(port);
	else if (bits & BIT(IPOIB_EV_ANSWERED))
		ipoib_paths_hurry(port);
	/* Interfaces join what they have not joined, in either case. */
	if (__test_and_clear_bit(IPOIB_EV_ANSWERED, &bits))
		bits |= BIT(IPOIB_EV_REVALIDATE);
	ipoib_port_raise(port, bits);
}

/**
 * ipoib_port_active - is the port in a state that carries data?
 * @port: port
 * @attr: its attributes, may be NULL
 *
 * Context: process.
 * Return: 1 or 0, or -errno if the query fails
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

/**
 * ipoib_port_has_guid - is a GUID one of the port's?
 * @port: port
 * @guid: GUID, looked up with the port's subnet prefix among its GIDs
 *
 * Context: process.
 */
bool ipoib_port_has_guid(struct ipoib_port *port, __be64 guid)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;

	if (rdma_query_gid(port->ca, port->num, 0, &gid))
		return false;
	gid.global.interface_id = guid;
	attr = rdma_find_gid_by_port(port->ca, &gid, IB_GID_TYPE_IB, port->num,
				     NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/**
 * ipoib_port_guid - convert a GUID to a value for ipoib_dev.guid
 * @port: port
 * @guid: one of the port's
 *
 * Context: process.
 * Return: @guid, or 0 if it is the first, to follow changes of that
 */
__be64 ipoib_port_guid(struct ipoib_port *port, __be64 guid)
{
	union ib_gid gid;

	if (rdma_query_gid(port->ca, port->num, 0, &gid))
		return guid;
	return guid == gid.global.interface_id ? 0 : guid;
}

/* ---- setup and teardown ------------------------------------------------- */

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
 * ipoib_port_opened - count interfaces that are open
 * @port: port
 * @by: 1: one more, -1: one less
 *
 * Context: process; takes the port's lock.
 */
void ipoib_port_opened(struct ipoib_port *port, int by)
{
	mutex_lock(&port->lock);
	WRITE_ONCE(port->open, port->open + by);
	mutex_unlock(&port->lock);
}

static int ipoib_port_marker(struct ipoib_port *port)
{
	struct rdma_ah_attr attr = {
		.type = rdma_ah_find_type(port->ca, port->num),
	};
	struct ib_ah *ah;

	/* Never sent to: the marker is flushed. */
	rdma_ah_set_port_num(&attr, port->num);
	rdma_ah_set_dlid(&attr, 1);
	ah = rdma_create_ah(port->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(ah))
		return PTR_ERR(ah);
	port->marker_ah = ah;
	return 0;
}

/* Queue sizes: the parameters, clamped to the HCA's limits. */
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
 * ipoib_port_create - create a port, without interfaces
 * @ca: HCA
 * @num: port number
 *
 * Context: process.
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
	mutex_init(&port->lock);
	ipoib_drain_port_init(port);
	ipoib_lost_init(port);
	INIT_LIST_HEAD(&port->devs);
	INIT_WORK(&port->event_work, ipoib_port_event_work);
	ret = ipoib_port_sizes(port);
	if (ret)
		goto err_free;
	ret = ipoib_ah_port_init(port);
	if (ret)
		goto err_free;
	ret = ipoib_paths_create(port);
	if (ret)
		goto err_ahs;
	port->pd = ib_alloc_pd(ca, 0);
	if (IS_ERR(port->pd)) {
		ret = PTR_ERR(port->pd);
		goto err_paths;
	}
	ret = ipoib_port_marker(port);
	if (ret)
		goto err_pd;
	/* Before anything is read whose change an event could report. */
	INIT_IB_EVENT_HANDLER(&port->handler, ca, ipoib_port_event);
	ib_register_event_handler(&port->handler);
	return port;

err_pd:
	ib_dealloc_pd(port->pd);
err_paths:
	ipoib_paths_destroy(port);
err_ahs:
	ipoib_ah_port_exit(port);
err_free:
	kfree(port);
	return ERR_PTR(ret);
}

/**
 * ipoib_port_silence - stop passing events of the HCA to the interfaces
 * @port: port
 *
 * Context: process.
 */
void ipoib_port_silence(struct ipoib_port *port)
{
	ib_unregister_event_handler(&port->handler);
	ipoib_probe_stop(port);
	cancel_work_sync(&port->event_work);
}

/**
 * ipoib_port_destroy - undo ipoib_port_create()
 * @port: port after ipoib_port_silence(), without interfaces; the parent's
 *	memory may still exist
 *
 * Does not wait for responses of the fabric.
 *
 * Context: process.
 */
void ipoib_port_destroy(struct ipoib_port *port)
{
	bool lost = !ipoib_lost_exit(port);

	ipoib_paths_destroy(port);
	ipoib_ah_port_exit(port);
	if (lost)
		ipoib_channels_silence(port);
	else
		ipoib_channels_destroy(port);
	if (port->parent)
		free_netdev(port->parent);
	rdma_destroy_ah(port->marker_ah, RDMA_DESTROY_AH_SLEEPABLE);
	/* Lost QPs use the PD, and the channels refer to the port. */
	if (lost)
		return;
	ib_dealloc_pd(port->pd);
	kfree(port);
}
