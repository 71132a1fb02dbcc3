// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: fault injection for data packets, and for answers of the SA
 */
#include <linux/ctype.h>
#include <linux/random.h>
#include <linux/string.h>

#include "fabric.h"
#include "fault.h"
#include "line.h"

/* Time for which a packet that others are to overtake is held */
#define IBDS_REORDER_NS		NSEC_PER_MSEC

static bool ibds_fault_chance(u32 ppm)
{
	return ppm && get_random_u32_below(1000000) < ppm;
}

/**
 * ibds_fault_lose - decide whether a packet is lost
 * @port: HCA port that it leaves or arrives at
 *
 * Return: true if it is.
 */
bool ibds_fault_lose(struct ibds_port *port)
{
	return ibds_fault_chance(READ_ONCE(port->faults.loss_ppm));
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

/* A packet that others are to overtake: how long it is held. */
static u64 ibds_fault_hold(struct ibds_port *port)
{
	if (!ibds_fault_chance(READ_ONCE(port->faults.reorder_ppm)))
		return 0;
	ibds_count(port, reordered);
	return IBDS_REORDER_NS;
}

/* Deliver a packet at once or later; consumed. */
static void ibds_fault_pass(struct ibds_port *from, struct ibds_port *to,
			    struct ibds_pkt *pkt, u64 delay)
{
	if (!delay) {
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

/* Another one of a packet, if the port is to send or receive it twice. */
static struct ibds_pkt *ibds_fault_double(struct ibds_port *port,
					  const struct ibds_pkt *pkt)
{
	struct ibds_pkt *copy = NULL;

	if (ibds_fault_chance(READ_ONCE(port->faults.dup_ppm)))
		copy = ibds_pkt_copy(pkt, GFP_ATOMIC);
	if (copy)
		ibds_count(port, duplicated);
	return copy;
}

/**
 * ibds_fault_send - send a data packet through a port that has a fault
 * @from: HCA port that sends it
 * @to: HCA port that receives it
 * @pkt: packet; consumed: lost, delayed, cut short or delivered, also twice
 *
 * Context: RCU read side.
 */
void ibds_fault_send(struct ibds_port *from, struct ibds_port *to,
		     struct ibds_pkt *pkt)
{
	u64 delay = ibds_fault_delay(&from->faults);
	bool lost = ibds_fault_lose(from);
	struct ibds_pkt *copy;

	ibds_fault_cut(&from->faults, pkt);
	if (to != from) {
		delay += ibds_fault_delay(&to->faults);
		lost |= ibds_fault_lose(to);
		ibds_fault_cut(&to->faults, pkt);
	}
	if (lost) {
		ibds_count(from, drop_fault);
		ibds_pkt_free(pkt);
		return;
	}
	copy = ibds_fault_double(from, pkt);
	delay += ibds_fault_hold(from);
	if (to != from) {
		if (!copy)
			copy = ibds_fault_double(to, pkt);
		delay += ibds_fault_hold(to);
	}
	ibds_fault_pass(from, to, pkt, delay);
	if (copy)
		ibds_fault_pass(from, to, copy, delay);
}

/* ---- answers of the SA -------------------------------------------------- */

/**
 * ibds_fault_patch - change an answer of the SA as a fault wants it
 * @port: HCA port where it arrives
 * @pkt: a MAD; left alone if it is none of these
 *
 * Context: any.
 */
void ibds_fault_patch(struct ibds_port *port, struct ibds_pkt *pkt)
{
	const struct ib_mad_hdr *mad = (const void *)pkt->data;
	const struct ibds_sa_patch *patch;
	unsigned long flags;
	int i;

	if (pkt->dqpn != 1 || pkt->len != IBDS_MAD_SIZE ||
	    mad->mgmt_class != IB_MGMT_CLASS_SUBN_ADM ||
	    !(mad->method & IB_MGMT_METHOD_RESP))
		return;
	spin_lock_irqsave(&port->lock, flags);
	for (i = 0; i < IBDS_SA_PATCHES; i++) {
		patch = &port->sma->patch[i];
		if (patch->attr && patch->attr == be16_to_cpu(mad->attr_id))
			memcpy(pkt->data + patch->offset, patch->bytes,
			       patch->len);
	}
	spin_unlock_irqrestore(&port->lock, flags);
}

/**
 * ibds_sa_patch_show - print what is changed in answers of the SA
 * @m: file to print to
 * @port: HCA port
 */
void ibds_sa_patch_show(struct seq_file *m, struct ibds_port *port)
{
	struct ibds_sa_patch patch[IBDS_SA_PATCHES];
	unsigned long flags;
	int i;

	spin_lock_irqsave(&port->lock, flags);
	memcpy(patch, port->sma->patch, sizeof(patch));
	spin_unlock_irqrestore(&port->lock, flags);
	for (i = 0; i < IBDS_SA_PATCHES; i++)
		if (patch[i].attr)
			seq_printf(m, "%#x %u %*phN\n", patch[i].attr,
				   patch[i].offset, patch[i].len,
				   patch[i].bytes);
}

static int ibds_sa_patch_parse(struct ibds_sa_patch *patch, const char *text)
{
	char hex[2 * IBDS_SA_PATCH_BYTES + 1], rest;
	u32 attr, offset, i, len;

	if (sscanf(text, "%i %u %32s %c", &attr, &offset, hex, &rest) != 3)
		return -EINVAL;
	len = strlen(hex) / 2;
	if (!attr || attr > U16_MAX || !len || strlen(hex) % 2 ||
	    offset > IBDS_MAD_SIZE - len)
		return -EINVAL;
	for (i = 0; i < len; i++) {
		if (!isxdigit(hex[2 * i]) || !isxdigit(hex[2 * i + 1]) ||
		    sscanf(hex + 2 * i, "%2hhx", &patch->bytes[i]) != 1)
			return -EINVAL;
	}
	patch->attr = attr;
	patch->offset = offset;
	patch->len = len;
	return 0;
}

/**
 * ibds_sa_patch_store - change answers of the SA that arrive at a port from now on
 * @port: HCA port
 * @text: "<attribute> <offset> <bytes>", in addition to others; "off": none
 *
 * Return: 0, -EINVAL, or -ENOSPC if there are too many.
 */
int ibds_sa_patch_store(struct ibds_port *port, const char *text)
{
	struct ibds_sa_patch patch = { };
	unsigned long flags;
	int i, err;

	if (!strcmp(text, "off")) {
		spin_lock_irqsave(&port->lock, flags);
		memset(port->sma->patch, 0, sizeof(port->sma->patch));
		spin_unlock_irqrestore(&port->lock, flags);
		return 0;
	}
	err = ibds_sa_patch_parse(&patch, text);
	if (err)
		return err;
	err = -ENOSPC;
	spin_lock_irqsave(&port->lock, flags);
	for (i = 0; i < IBDS_SA_PATCHES && err; i++) {
		if (port->sma->patch[i].attr)
			continue;
		port->sma->patch[i] = patch;
		err = 0;
	}
	spin_unlock_irqrestore(&port->lock, flags);
	return err;
}

/* ---- setting and lifting ------------------------------------------------ */

/**
 * ibds_faults_update - handle that a fault of a port was set or lifted
 * @port: HCA port
 *
 * The caller must run ibds_qps_kick() next: QPs may have work to do; and
 * ibds_cqs_update().
 *
 * Context: process.
 */
void ibds_faults_update(struct ibds_port *port)
{
	struct ibds_faults *f = &port->faults;

	WRITE_ONCE(f->armed,
		   f->loss_ppm || f->delay_us || f->jitter_us || f->truncate ||
		   f->dup_ppm || f->reorder_ppm ||
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
 * The caller must run ibds_qps_kick(), ibds_qps_rouse() and ibds_cqs_update()
 * next, and end the waiting of commands and for completions.
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
	WRITE_ONCE(f->modify_delay_ms, 0);
	WRITE_ONCE(f->attach_delay_ms, 0);
	WRITE_ONCE(f->query_delay_ms, 0);
	WRITE_ONCE(f->cqe_delay_ms, 0);
	atomic_set(&f->cqe_lose, 0);
	WRITE_ONCE(f->ah_delay_us, 0);
	WRITE_ONCE(f->delay_us, 0);
	WRITE_ONCE(f->jitter_us, 0);
	WRITE_ONCE(f->loss_ppm, 0);
	WRITE_ONCE(f->dup_ppm, 0);
	WRITE_ONCE(f->reorder_ppm, 0);
	WRITE_ONCE(f->mad_delay_ms, 0);
	WRITE_ONCE(f->mad_drop, 0);
	WRITE_ONCE(f->sa_drop, false);
	WRITE_ONCE(f->sa_delay_ms, 0);
	ibds_faults_update(port);
}
