// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: packets that leave the fast path, and packets from outside it
 *
 * MADs, and packets of ports with a fault or a mirror, wait on a list until the
 * sender's lock is dropped.  Packets from the delay line and from user
 * space are delivered to QPs here.
 */
#include "datapath.h"
#include "fault.h"
#include "mad.h"
#include "pcap.h"
#include "rcresp.h"
#include "slow.h"
#include "sma.h"
#include "ud.h"

static void ibds_later_one(struct ibds_pkt *pkt)
{
	switch (pkt->todo) {
	case IBDS_LATER_MAD:
		ibds_mad_send(pkt->from, pkt);
		return;
	case IBDS_LATER_DATA:
		if (READ_ONCE(pkt->from->faults.armed) ||
		    READ_ONCE(pkt->to->faults.armed)) {
			ibds_fault_send(pkt->from, pkt->to, pkt);
			return;
		}
		ibds_port_receive(pkt->to, pkt);
		break;
	case IBDS_LATER_MIRROR:
		ibds_mirror(pkt->from, pkt, true);
		break;
	case IBDS_LATER_MIRROR_RX:
		ibds_mirror(pkt->to, pkt, false);
		break;
	case IBDS_LATER_BAD_PKEY:
		ibds_port_bad_pkey(pkt->to, pkt);
		break;
	case IBDS_LATER_BAD_QKEY:
		ibds_port_bad_qkey(pkt->to, pkt);
		break;
	}
	ibds_pkt_free(pkt);
}

/**
 * ibds_later_run - handle packets that waited until sq.lock was dropped
 * @later: packets, in order; RCU read side since they were queued
 */
void ibds_later_run(struct list_head *later)
{
	struct ibds_pkt *pkt, *next;

	list_for_each_entry_safe(pkt, next, later, list) {
		list_del(&pkt->list);
		ibds_later_one(pkt);
	}
}

/* Return: 0, or the violation to report to the port. */
static int ibds_pkt_arrive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	bool rc = pkt->opcode == IB_OPCODE_RC_SEND_ONLY ||
		  pkt->opcode == IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE;

	if (!rc && pkt->opcode != IB_OPCODE_UD_SEND_ONLY &&
	    pkt->opcode != IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE) {
		ibds_count(port, drop_malformed);
		return 0;
	}
	if (ibds_wedged(port, pkt->dqpn <= 1)) {
		ibds_count(port, drop_wedged);
		return 0;
	}
	if (pkt->dqpn <= 1)
		return ibds_mad_receive(port, pkt);
	if (READ_ONCE(port->state) != IB_PORT_ACTIVE) {
		ibds_count(port, drop_port_down);
		return 0;
	}
	if (rc) {
		ibds_rc_arrive(port, pkt);
		return 0;
	}
	if (pkt->dqpn == IBDS_QPN_MULTICAST && !pkt->grh_valid) {
		ibds_count(port, drop_mc_bad);
		return 0;
	}
	return ibds_ud_receive(port, pkt);
}

/**
 * ibds_port_receive - handle a packet from outside the fast path at its port
 * @port: HCA port
 * @pkt: packet, not kept
 *
 * Context: any, RCU read side or not.
 */
void ibds_port_receive(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	unsigned long flags;
	int bad;

	if (READ_ONCE(port->mirror))
		ibds_mirror(port, pkt, false);

	rcu_read_lock();
	/* The locks inside it are taken with plain spin_lock(). */
	spin_lock_irqsave(&port->arrivals, flags);
	bad = ibds_pkt_arrive(port, pkt);
	spin_unlock_irqrestore(&port->arrivals, flags);
	rcu_read_unlock();

	if (bad == IBDS_LATER_BAD_PKEY)
		ibds_port_bad_pkey(port, pkt);
	else if (bad == IBDS_LATER_BAD_QKEY)
		ibds_port_bad_qkey(port, pkt);
}
