// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: fault injection for data packets
 */
#include <linux/random.h>

#include "fabric.h"
#include "fault.h"
#include "line.h"

/**
 * ibds_fault_lose - decide whether a packet is lost
 * @port: HCA port that it leaves or arrives at
 *
 * Return: true if it is.
 */
bool ibds_fault_lose(struct ibds_port *port)
{
	u32 ppm = READ_ONCE(port->faults.loss_ppm);

	return ppm && get_random_u32_below(1000000) < ppm;
}

static u64 ibds_fault_delay(const struct ibds_faults *faults)
{
	u32 jitter = READ_ONCE(faults->jitter_us);
	u64 us = READ_ONCE(faults->delay_us);

	if (jitter)
		us += get_random_u32_below(jitter);
	return us * NSEC_PER_USEC;
}

static void ibds_fault_cut(const struct ibds_faults *faults,
			   struct ibds_pkt *pkt)
{
	u32 cut = READ_ONCE(faults->truncate);

	if (!cut)
		return;
	pkt->len -= min(cut, pkt->len);
	pkt->cut = true;
}

/* Count a packet that overtakes the latest one delayed on its way to @to. */
static void ibds_fault_note_order(struct ibds_port *to, u64 delay)
{
	u64 due = ktime_get_ns() + delay;

	if (due < READ_ONCE(to->sma->last_due))
		ibds_count(to, reordered);
	else
		WRITE_ONCE(to->sma->last_due, due);
}

/**
 * ibds_fault_send - send a data packet through a port that has a fault
 * @from: HCA port that sends it
 * @to: HCA port that receives it
 * @pkt: packet; consumed: lost, delayed, cut short or delivered
 *
 * Context: RCU read side.
 */
void ibds_fault_send(struct ibds_port *from, struct ibds_port *to,
		     struct ibds_pkt *pkt)
{
	u64 delay = ibds_fault_delay(&from->faults);
	bool lost = ibds_fault_lose(from);

	ibds_fault_cut(&from->faults, pkt);
	if (to != from) {
		delay += ibds_fault_delay(&to->faults);
		lost |= ibds_fault_lose(to);
		ibds_fault_cut(&to->faults, pkt);
	}
	if (lost) {
		ibds_count(from, drop_fault);
	} else if (!delay) {
		to->dev->receive(to, pkt);
	} else {
		ibds_count(to, delayed);
		ibds_fault_note_order(to, delay);
		pkt->out = rcu_dereference(to->cable);
		/* The sender may have been removed by then. */
		pkt->from = to == from ? from : NULL;
		if (pkt->out && !ibds_line_add(pkt, IBDS_STAGE_DELIVER, delay))
			return;
		ibds_count(to, drop_fault);
	}
	ibds_pkt_free(pkt);
}

/**
 * ibds_faults_update - handle that a fault of a port was set or lifted
 * @port: HCA port
 *
 * The caller must run ibds_qps_kick() next: QPs may have work to do.
 *
 * Context: process.
 */
void ibds_faults_update(struct ibds_port *port)
{
	struct ibds_faults *f = &port->faults;

	WRITE_ONCE(f->armed,
		   f->loss_ppm || f->delay_us || f->jitter_us || f->truncate ||
		   atomic_read(&f->send_error) ||
		   atomic_read(&f->rc_send_error) ||
		   atomic_read(&f->recv_post_error) ||
		   atomic_read(&f->send_post_error) ||
		   f->wedged || f->wedged_special || f->wedged_rings ||
		   f->defer_tx);
}

/**
 * ibds_faults_lift - lift the faults that users of a port could wait for
 * @port: HCA port, which is being removed: its files are gone
 *
 * The caller must run ibds_qps_kick() and ibds_qps_rouse() next, and end the
 * waiting of commands.
 *
 * Context: process.
 */
void ibds_faults_lift(struct ibds_port *port)
{
	struct ibds_faults *f = &port->faults;

	WRITE_ONCE(f->wedged, false);
	WRITE_ONCE(f->wedged_special, false);
	WRITE_ONCE(f->wedged_rings, 0);
	WRITE_ONCE(f->lose_events, false);
	WRITE_ONCE(f->create_delay_ms, 0);
	WRITE_ONCE(f->destroy_delay_ms, 0);
	WRITE_ONCE(f->reset_delay_ms, 0);
	WRITE_ONCE(f->ah_delay_us, 0);
	WRITE_ONCE(f->delay_us, 0);
	WRITE_ONCE(f->jitter_us, 0);
	WRITE_ONCE(f->loss_ppm, 0);
	WRITE_ONCE(f->mad_delay_ms, 0);
	WRITE_ONCE(f->mad_drop, 0);
	WRITE_ONCE(f->sa_drop, false);
	ibds_faults_update(port);
}
