// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: cables and links between switches and HCA ports
 *
 * A link has two ends, a switch port (struct ibds_sw_port) and an HCA port
 * (struct ibds_port) or another switch port, each with a state of its own that
 * only the SM advances (7.2.7).  They train and go down together;
 * ibds_link_lock serialises that.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "link.h"
#include "pma.h"
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

/**
 * struct ibds_link - both ends of a link while ibds_link_lock is held
 * @sp: switch port
 * @port: HCA port at the other end, or NULL
 * @far: or the switch port there, or NULL
 */
struct ibds_link {
	struct ibds_sw_port *sp;
	struct ibds_port *port;
	struct ibds_sw_port *far;
};

/* The ends of the link at a switch port, as the cable is now. */
static void ibds_link_look(struct ibds_link *link, struct ibds_sw_port *sp)
{
	link->sp = sp;
	link->port = rcu_dereference_protected(sp->peer,
					       lockdep_is_held(&ibds_link_lock));
	link->far = rcu_dereference_protected(sp->far,
					      lockdep_is_held(&ibds_link_lock));
}

static void ibds_sw_end_down(struct ibds_sw_port *sp)
{
	WRITE_ONCE(sp->state, IB_PORT_DOWN);
	sp->phys = ibds_phys_down(sp->disabled);
	sp->pma.link_downed++;
}

static void ibds_link_down(const struct ibds_link *link)
{
	lockdep_assert_held(&ibds_link_lock);
	ibds_sw_end_down(link->sp);
	if (link->port)
		ibds_link_end(link->port, IB_PORT_DOWN,
			      ibds_phys_down(link->port->sma->disabled));
	if (link->far)
		ibds_sw_end_down(link->far);
}

/* The end of a switch takes over what the other one can. */
static void ibds_sw_end_up(struct ibds_sw_port *sp,
			   const struct ibds_portinfo *other)
{
	WRITE_ONCE(sp->state, IB_PORT_INIT);
	sp->phys = IB_PORT_PHYS_STATE_LINK_UP;
	sp->pi.width_active = other->width_active;
	sp->pi.speedact_enabled = (other->speedact_enabled & 0xf0) |
				  (sp->pi.speedact_enabled & 0x0f);
	sp->pi.extact_extsup = (other->extact_extsup & 0xf0) |
			       (sp->pi.extact_extsup & 0x0f);
}

static void ibds_link_train(const struct ibds_link *link)
{
	struct ibds_sw_port *sp = link->sp;

	lockdep_assert_held(&ibds_link_lock);
	if (link->port) {
		ibds_sw_end_up(sp, &link->port->sma->pi);
		ibds_link_end(link->port, IB_PORT_INIT,
			      IB_PORT_PHYS_STATE_LINK_UP);
	} else {
		/* Between switches, links are like port 0. */
		ibds_sw_end_up(sp, &sp->sw->port[0].pi);
		ibds_sw_end_up(link->far, &sp->sw->port[0].pi);
	}
}

/* What has become of a link: flags. */
#define IBDS_LINK_CHANGED	BIT(0)
#define IBDS_LINK_WAS_ACTIVE	BIT(1)

static void ibds_link_note(const struct ibds_link *link)
{
	link->sp->sw->state_change = true;
	if (link->far)
		link->far->sw->state_change = true;
}

static u32 ibds_link_drop(const struct ibds_link *link)
{
	u32 changed = IBDS_LINK_CHANGED;

	if (link->port && link->port->state == IB_PORT_ACTIVE)
		changed |= IBDS_LINK_WAS_ACTIVE;
	ibds_link_down(link);
	return changed;
}

static bool ibds_link_wanted(const struct ibds_link *link)
{
	if (link->sp->disabled)
		return false;
	if (link->far)
		return !link->far->disabled;
	return link->port && link->port->link_up && !link->port->sma->disabled;
}

static u32 ibds_link_settle(const struct ibds_link *link, bool bounce)
{
	struct ibds_sw_port *sp = link->sp;
	bool want = ibds_link_wanted(link);
	bool up = sp->state != IB_PORT_DOWN;
	u32 changed = 0;

	lockdep_assert_held(&ibds_link_lock);
	if (up && (!want || bounce)) {
		changed = ibds_link_drop(link);
		up = false;
	}
	if (want && !up) {
		changed |= IBDS_LINK_CHANGED;
		ibds_link_train(link);
	}
	if (!want && !changed) {
		/* Only polling or disabled changed: no event, no trap. */
		sp->phys = ibds_phys_down(sp->disabled);
		if (link->port)
			WRITE_ONCE(link->port->phys_state,
				   ibds_phys_down(link->port->sma->disabled));
	}
	if (changed)
		ibds_link_note(link);
	return changed;
}

/* Trap 128, IBA vol 1, 14.2.5.1: a port went down or came up. */
static void ibds_link_trap(struct ibds_switch *sw)
{
	__be16 lid = sw->port[0].pi.lid;
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_URGENT,
		.prod_type_lsb = IB_NOTICE_PROD_SWITCH,
		.trap_num = cpu_to_be16(IBDS_TRAP_LINK_STATE),
		.issuer_lid = lid,
	};

	memcpy(notice.details.raw_data.details, &lid, sizeof(lid));
	ibds_traps_raise(&sw->traps, &notice);
}

/* Tell of a change, once ibds_link_lock is dropped. RCU read side. */
static void ibds_link_tell(const struct ibds_link *link, u32 changed)
{
	ibds_route_changed();
	if (changed & IBDS_LINK_WAS_ACTIVE)
		ibds_port_event(link->port, IB_EVENT_PORT_ERR);
	if (!changed)
		return;
	ibds_link_trap(link->sp->sw);
	if (link->far && link->far->sw != link->sp->sw)
		ibds_link_trap(link->far->sw);
}

/**
 * ibds_link_update - bring a link up or down as cable and ports require
 * @sp: switch port
 * @bounce: take it down first
 *
 * Context: any; @sp must not go away.
 */
void ibds_link_update(struct ibds_sw_port *sp, bool bounce)
{
	struct ibds_link link;
	unsigned long flags;
	u32 changed;

	rcu_read_lock();
	spin_lock_irqsave(&ibds_link_lock, flags);
	ibds_link_look(&link, sp);
	changed = ibds_link_settle(&link, bounce);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_link_tell(&link, changed);
	rcu_read_unlock();
}

/* The same for an HCA port, which may have no cable. */
static void ibds_port_update(struct ibds_port *port, bool bounce)
{
	struct ibds_sw_port *sp;

	rcu_read_lock();
	sp = rcu_dereference(port->cable);
	if (sp)
		ibds_link_update(sp, bounce);
	rcu_read_unlock();
}

/**
 * ibds_port_bounce - take the link of an HCA port down; it trains again
 * @port: HCA port
 */
void ibds_port_bounce(struct ibds_port *port)
{
	ibds_port_update(port, true);
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

	spin_lock_irqsave(&ibds_link_lock, flags);
	done = *state == from;
	if (done)
		WRITE_ONCE(*state, to);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_route_changed();
	return done;
}

static void ibds_link_flag(bool *flag, bool value)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_link_lock, flags);
	*flag = value;
	spin_unlock_irqrestore(&ibds_link_lock, flags);
}

/**
 * ibds_link_disable - disable or enable the end of a link at a switch, for the SM
 * @sp: switch port
 * @disabled: which of both
 */
void ibds_link_disable(struct ibds_sw_port *sp, bool disabled)
{
	ibds_link_flag(&sp->disabled, disabled);
	ibds_link_update(sp, true);
}

/**
 * ibds_port_disable - the same for the end at an HCA port
 * @port: HCA port
 * @disabled: which of both
 */
void ibds_port_disable(struct ibds_port *port, bool disabled)
{
	ibds_link_flag(&port->sma->disabled, disabled);
	ibds_port_update(port, true);
}

/**
 * ibds_port_set_link - plug in or pull out a port's cable
 * @port: HCA port
 * @up: plug it in, unless the HCA is dead
 */
void ibds_port_set_link(struct ibds_port *port, bool up)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_link_lock, flags);
	port->link_up = up && !READ_ONCE(port->dev->fatal);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_port_update(port, false);
}

/* ---- cables --------------------------------------------------------------- */

/* A switch port counts from the moment that it gets its cable. */
static void ibds_cable_count(struct ibds_sw_port *sp,
			     const struct ibds_port *peer)
{
	u64 raw[IBDS_PMA_COUNTERS];

	ibds_pma_switch_raw(peer, raw);
	ibds_pma_restart(&sp->pma, raw);
}

/**
 * ibds_cable_hca - connect an HCA port and a switch port
 * @port: HCA port without cable
 * @sp: switch port without cable
 *
 * Context: ibds_bus_mutex is held.
 */
void ibds_cable_hca(struct ibds_port *port, struct ibds_sw_port *sp)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_link_lock, flags);
	ibds_cable_count(sp, port);
	rcu_assign_pointer(port->cable, sp);
	rcu_assign_pointer(sp->peer, port);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_link_update(sp, false);
}

/**
 * ibds_cable_switches - connect two switch ports
 * @a: switch port without cable
 * @b: another one, of the same or another switch
 *
 * Context: ibds_bus_mutex is held.
 */
void ibds_cable_switches(struct ibds_sw_port *a, struct ibds_sw_port *b)
{
	unsigned long flags;

	spin_lock_irqsave(&ibds_link_lock, flags);
	ibds_cable_count(a, NULL);
	ibds_cable_count(b, NULL);
	/* What the link will have is all that both ends can, as tools see it. */
	ibds_pi_set_speed(&a->pi, IB_WIDTH_4X, IB_SPEED_EDR);
	ibds_pi_set_speed(&b->pi, IB_WIDTH_4X, IB_SPEED_EDR);
	rcu_assign_pointer(a->far, b);
	rcu_assign_pointer(b->far, a);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_link_update(a, false);
}

/**
 * ibds_cable_remove - remove the cable of a switch port, if it has one
 * @sp: switch port
 *
 * After a grace period, and ibds_line_purge(), nothing is delivered that way.
 *
 * Context: ibds_bus_mutex is held.
 */
void ibds_cable_remove(struct ibds_sw_port *sp)
{
	u64 none[IBDS_PMA_COUNTERS] = {};
	struct ibds_link link;
	unsigned long flags;
	u32 changed = 0;

	rcu_read_lock();
	spin_lock_irqsave(&ibds_link_lock, flags);
	ibds_link_look(&link, sp);
	/* With the cable still there, and never again without it */
	if (sp->state != IB_PORT_DOWN) {
		changed = ibds_link_drop(&link);
		ibds_link_note(&link);
	}
	if (link.port) {
		RCU_INIT_POINTER(link.port->cable, NULL);
		ibds_pma_rebase(&sp->pma, none);
	}
	if (link.far) {
		RCU_INIT_POINTER(link.far->far, NULL);
		ibds_sw_port_speed(sp);
		ibds_sw_port_speed(link.far);
	}
	RCU_INIT_POINTER(sp->peer, NULL);
	RCU_INIT_POINTER(sp->far, NULL);
	spin_unlock_irqrestore(&ibds_link_lock, flags);
	ibds_link_tell(&link, changed);
	rcu_read_unlock();
}

/**
 * ibds_switch_attach - give a new HCA port a place, and a cable to a switch
 * @port: HCA port; not yet plugged in
 * @sw: switch, NULL: no cable
 *
 * Context: ibds_bus_mutex is held.
 * Return: 0 or -ENOSPC.
 */
int ibds_switch_attach(struct ibds_port *port, struct ibds_switch *sw)
{
	u32 n;

	if (!sw)
		return ibds_slot_take(port);
	for (n = 1; n <= sw->ports; n++)
		if (ibds_cable_free(&sw->port[n]))
			break;
	if (n > sw->ports) {
		pr_err("switch%u: all %u switch ports are taken\n", sw->id,
		       sw->ports);
		return -ENOSPC;
	}
	if (ibds_slot_take(port))
		return -ENOSPC;
	ibds_cable_hca(port, &sw->port[n]);
	return 0;
}

/**
 * ibds_switch_detach - take the place and the cable of an HCA port away
 * @port: HCA port; after a grace period and ibds_line_purge() nothing is
 *	delivered to it
 *
 * Context: ibds_bus_mutex is held.
 * Return: the switch port where it was, or NULL.
 */
struct ibds_sw_port *ibds_switch_detach(struct ibds_port *port)
{
	struct ibds_sw_port *sp = rcu_dereference_protected(port->cable, true);

	ibds_port_set_link(port, false);
	if (sp)
		ibds_cable_remove(sp);
	ibds_slot_give(port);
	return sp;
}
