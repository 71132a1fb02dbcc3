// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: HCA ports: events, arriving packets, settings of SM and debugfs
 */
#include <linux/sched.h>

#include "addr.h"
#include "port.h"
#include "switch.h"

/* ---- events ------------------------------------------------------------- */

static void ibds_dev_event(struct ibds_dev *dev, u32 num, enum ib_event_type type)
{
	struct ib_event event = {
		.device = &dev->ib,
		.element.port_num = num,
		.event = type,
	};
	unsigned long flags;

	spin_lock_irqsave(&dev->live_lock, flags);
	if (dev->live)
		ib_dispatch_event(&event);
	spin_unlock_irqrestore(&dev->live_lock, flags);
}

/**
 * ibds_port_event - raise an event of a port, if its HCA is registered
 * @port: HCA port
 * @type: event
 *
 * Context: any.
 */
void ibds_port_event(struct ibds_port *port, enum ib_event_type type)
{
	ibds_dev_event(port->dev, port->num, type);
}

/**
 * ibds_port_event_raise - raise an event although nothing has happened
 * @dev: HCA
 * @num: port that it says it is of; there may be none of that number
 * @type: event
 * @times: how often
 *
 * The core looks that up in its tables without a check only for
 * %IB_EVENT_SM_CHANGE.
 *
 * Context: process.
 * Return: 0, or -EOPNOTSUPP if that would be beyond the tables.
 */
int ibds_port_event_raise(struct ibds_dev *dev, u32 num, enum ib_event_type type,
			  u32 times)
{
	bool there = num >= 1 && num <= dev->caps.ports;

	if (type == IB_EVENT_SM_CHANGE && !there)
		return -EOPNOTSUPP;
	for (; times; times--) {
		ibds_dev_event(dev, num, type);
		cond_resched();
	}
	return 0;
}

/* ---- changes by the SM or a test ---------------------------------------- */

/**
 * ibds_port_set_lid - change the base LID and notify the consumers
 * @port: HCA port
 * @lid: new base LID
 */
void ibds_port_set_lid(struct ibds_port *port, u16 lid)
{
	unsigned long flags;
	u16 old;

	spin_lock_irqsave(&port->lock, flags);
	old = port->lid;
	WRITE_ONCE(port->lid, lid);
	spin_unlock_irqrestore(&port->lock, flags);
	ibds_switch_relearn(port, old, lid);
	if (old != lid)
		ibds_port_event(port, IB_EVENT_LID_CHANGE);
}

/**
 * ibds_port_set_prefix - change the subnet prefix and notify the consumers
 * @port: HCA port
 * @prefix: upper half of the port's GIDs
 */
void ibds_port_set_prefix(struct ibds_port *port, __be64 prefix)
{
	unsigned long flags;
	__be64 old;

	spin_lock_irqsave(&port->lock, flags);
	old = port->gid_prefix;
	WRITE_ONCE(port->gid_prefix, prefix);
	spin_unlock_irqrestore(&port->lock, flags);
	if (old != prefix)
		ibds_port_event(port, IB_EVENT_GID_CHANGE);
}

/**
 * ibds_port_set_guid - change an alias GUID and notify the consumers
 * @port: HCA port
 * @index: entry of the GUID table; 0 is the port GUID and read-only
 * @guid: new value, 0 removes it
 *
 * Return: 0 or -EINVAL.
 */
int ibds_port_set_guid(struct ibds_port *port, u32 index, __be64 guid)
{
	unsigned long flags;
	__be64 old;

	if (!index || index >= port->dev->caps.gids)
		return -EINVAL;
	spin_lock_irqsave(&port->lock, flags);
	old = port->guids[index];
	WRITE_ONCE(port->guids[index], guid);
	spin_unlock_irqrestore(&port->lock, flags);
	if (old != guid)
		ibds_port_event(port, IB_EVENT_GID_CHANGE);
	return 0;
}

/**
 * ibds_port_set_pkey - change a P_Key and notify the consumers
 * @port: HCA port
 * @index: entry of the P_Key table
 * @pkey: new value, 0 removes it
 *
 * Return: 0 or -EINVAL.
 */
int ibds_port_set_pkey(struct ibds_port *port, u32 index, u16 pkey)
{
	unsigned long flags;
	u16 old;

	if (index >= port->dev->caps.pkeys)
		return -EINVAL;
	spin_lock_irqsave(&port->lock, flags);
	old = port->pkeys[index];
	WRITE_ONCE(port->pkeys[index], pkey);
	spin_unlock_irqrestore(&port->lock, flags);
	if (old != pkey)
		ibds_port_event(port, IB_EVENT_PKEY_CHANGE);
	return 0;
}

/* ---- the receiving end of a link ---------------------------------------- */

/* True if a packet with this DLID is for the port.  IBA vol 1, 7.8.3. */
static bool ibds_dlid_ok(const struct ibds_port *port,
			 const struct ibds_pkt *pkt)
{
	if (pkt->dlid == IBDS_LID_PERMISSIVE)
		return !pkt->dqpn;
	return pkt->dlid >= IBDS_MFT_BASE ||
	       ibds_port_owns_lid(port, pkt->dlid);
}

/**
 * ibds_port_arrive - receive a packet from outside the fast path at a port
 * @port: HCA port
 * @pkt: packet, still owned by the caller afterwards
 *
 * Before Armed only SMPs pass (IBA vol 1, 7.2.7).
 *
 * Context: RCU read side.
 */
void ibds_port_arrive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	u8 need = pkt->dqpn ? IB_PORT_ARMED : IB_PORT_INIT;

	if (READ_ONCE(port->state) < need) {
		ibds_count(port, drop_port_down);
		return;
	}
	if (!ibds_dlid_ok(port, pkt)) {
		ibds_count(port, drop_no_route);
		return;
	}
	if (pkt->dqpn <= 1)
		ibds_count(port, mad_rx);
	port->dev->receive(port, pkt);
}
