// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: links between the switch and HCA ports
 *
 * A link has two ends, the switch port (struct ibds_sw_port) and the HCA port
 * (struct ibds_port), each with a state of its own that only the SM advances
 * (7.2.7).  They train and go down together; ibds_switch.lock serialises that.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "link.h"
#include "port.h"
#include "switch.h"
#include "trap.h"

static void ibds_link_end(struct ibds_port *port, u8 state, u8 phys)
{
	spin_lock(&port->lock);
	WRITE_ONCE(port->state, state);
	WRITE_ONCE(port->phys_state, phys);
	if (state == IB_PORT_DOWN)
		port->sma->pma.link_downed++;
	spin_unlock(&port->lock);
}

static u8 ibds_phys_down(bool disabled)
{
	return disabled ? IB_PORT_PHYS_STATE_DISABLED :
			  IB_PORT_PHYS_STATE_POLLING;
}

static void ibds_link_down(struct ibds_sw_port *sp, struct ibds_port *port)
{
	lockdep_assert_held(&ibds_sw.lock);
	WRITE_ONCE(sp->state, IB_PORT_DOWN);
	sp->phys = ibds_phys_down(sp->disabled);
	sp->pma.link_downed++;
	if (port)
		ibds_link_end(port, IB_PORT_DOWN,
			      ibds_phys_down(port->sma->disabled));
}

static void ibds_link_train(struct ibds_sw_port *sp, struct ibds_port *port)
{
	lockdep_assert_held(&ibds_sw.lock);
	WRITE_ONCE(sp->state, IB_PORT_INIT);
	sp->phys = IB_PORT_PHYS_STATE_LINK_UP;
	sp->pi.width_active = port->sma->pi.width_active;
	sp->pi.speedact_enabled = (port->sma->pi.speedact_enabled & 0xf0) |
				  (sp->pi.speedact_enabled & 0x0f);
	sp->pi.extact_extsup = (port->sma->pi.extact_extsup & 0xf0) |
			       (sp->pi.extact_extsup & 0x0f);
	ibds_link_end(port, IB_PORT_INIT, IB_PORT_PHYS_STATE_LINK_UP);
}

/* Flags returned by ibds_link_settle(). */
#define IBDS_LINK_CHANGED	BIT(0)
#define IBDS_LINK_WAS_ACTIVE	BIT(1)

static u32 ibds_link_settle(struct ibds_sw_port *sp, struct ibds_port *port,
			    bool bounce)
{
	bool want = port && port->link_up && !sp->disabled &&
		    !port->sma->disabled;
	bool up = sp->state != IB_PORT_DOWN;
	u32 changed = 0;

	lockdep_assert_held(&ibds_sw.lock);
	if (up && (!want || bounce)) {
		changed = IBDS_LINK_CHANGED;
		if (port && port->state == IB_PORT_ACTIVE)
			changed |= IBDS_LINK_WAS_ACTIVE;
		ibds_link_down(sp, port);
		up = false;
	}
	if (want && !up) {
		changed |= IBDS_LINK_CHANGED;
		ibds_link_train(sp, port);
	}
	if (!want && !changed) {
		/* Only polling or disabled changed: no event, no trap. */
		sp->phys = ibds_phys_down(sp->disabled);
		if (port)
			WRITE_ONCE(port->phys_state,
				   ibds_phys_down(port->sma->disabled));
	}
	if (changed)
		ibds_sw.state_change = true;
	return changed;
}

/* Trap 128, IBA vol 1, 14.2.5.1: a port went down or came up. */
static void ibds_link_trap(void)
{
	__be16 lid = ibds_sw.port[0].pi.lid;
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_URGENT,
		.prod_type_lsb = IB_NOTICE_PROD_SWITCH,
		.trap_num = cpu_to_be16(IBDS_TRAP_LINK_STATE),
		.issuer_lid = lid,
	};

	memcpy(notice.details.raw_data.details, &lid, sizeof(lid));
	ibds_traps_raise(&ibds_sw.traps, &notice);
}

/**
 * ibds_link_update - bring a link up or down as cable and ports require
 * @sp: switch port
 * @bounce: take it down first
 *
 * Context: the HCA port must not go away: RCU read side or its owner.
 */
void ibds_link_update(struct ibds_sw_port *sp, bool bounce)
{
	struct ibds_port *port;
	unsigned long flags;
	u32 changed;

	rcu_read_lock();
	port = rcu_dereference(sp->peer);
	spin_lock_irqsave(&ibds_sw.lock, flags);
	changed = ibds_link_settle(sp, port, bounce);
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_route_changed();
	if (changed & IBDS_LINK_WAS_ACTIVE)
		ibds_port_event(port, IB_EVENT_PORT_ERR);
	if (changed)
		ibds_link_trap();
	rcu_read_unlock();
}

/**
 * ibds_link_advance - move one end of a link to the next state
 * @state: of the end, an HCA port or a switch port
 * @from: state in which it has to be
 * @to: new state
 *
 * Return: true if the state was @from and has changed.
 */
bool ibds_link_advance(u8 *state, u8 from, u8 to)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&ibds_sw.lock, flags);
	done = *state == from;
	if (done)
		WRITE_ONCE(*state, to);
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_route_changed();
	return done;
}

/**
 * ibds_link_disable - disable or enable one end of a link, for the SM
 * @sp: switch port
 * @end: flag of the end, of the HCA port or of the switch port
 * @disabled: its new value
 */
void ibds_link_disable(struct ibds_sw_port *sp, bool *end, bool disabled)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_sw.lock, flags);
	*end = disabled;
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_link_update(sp, true);
}

/**
 * ibds_port_set_link - plug in or pull out a port's cable
 * @port: HCA port
 * @up: plug it in, unless the HCA is dead
 */
void ibds_port_set_link(struct ibds_port *port, bool up)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_sw.lock, flags);
	port->link_up = up && !port->dev->fatal;
	spin_unlock_irqrestore(&ibds_sw.lock, flags);
	ibds_link_update(ibds_switch_port_of(port), false);
}

/**
 * ibds_switch_attach - assign a switch port to an HCA port
 * @port: HCA port; its cable is not plugged in yet
 *
 * Context: ibds_bus_mutex is held.
 * Return: 0 or -ENOSPC.
 */
int ibds_switch_attach(struct ibds_port *port)
{
	u32 n;

	for (n = 1; n <= ibds_sw.ports; n++) {
		struct ibds_sw_port *sp = &ibds_sw.port[n];

		if (rcu_access_pointer(sp->peer))
			continue;
		port->sw_port = n;
		memset(&sp->pma, 0, sizeof(sp->pma));
		rcu_assign_pointer(sp->peer, port);
		ibds_route_changed();
		return 0;
	}
	pr_err("all %u switch ports are taken, see parameter switch_ports\n",
	       ibds_sw.ports);
	return -ENOSPC;
}

/**
 * ibds_switch_detach - release the switch port of an HCA port
 * @port: HCA port; after a grace period and ibds_line_purge() nothing is
 *	delivered to it
 *
 * Context: ibds_bus_mutex is held.
 */
void ibds_switch_detach(struct ibds_port *port)
{
	struct ibds_sw_port *sp = ibds_switch_port_of(port);

	ibds_port_set_link(port, false);
	RCU_INIT_POINTER(sp->peer, NULL);
	ibds_route_changed();
}
