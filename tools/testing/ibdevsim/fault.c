// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the delay line, faults, and packets from user space
 *
 * Whatever does not go straight from a sender to a receiver waits in the delay
 * line: MADs, so that no agent runs in the stack of its peer, and data packets
 * that a fault delays.  Packets leave it in the order of their due times, those
 * with equal times in the order they came.  They refer to ports by switch port
 * number, so an HCA that goes away leaves nothing behind (ibds_line_purge()).
 *
 * line.lock is a leaf, taken in any context.
 */
#include <linux/hrtimer.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "fabric.h"

/* Packets that may wait at a time; more are dropped, as by a full buffer. */
#define IBDS_LINE_MAX		65536

struct workqueue_struct *ibds_wq;

static struct {
	spinlock_t lock;		/* tree, len, timer's start */
	struct rb_root_cached tree;	/* struct ibds_pkt by due */
	u32 len;
	struct hrtimer timer;
	struct work_struct work;
} line;

struct ibds_pkt *ibds_pkt_alloc(u32 len, gfp_t gfp)
{
	struct ibds_pkt *pkt;

	pkt = kmalloc_flex(*pkt, data, len, gfp);
	if (!pkt)
		return NULL;
	memset(pkt, 0, sizeof(*pkt));
	pkt->len = len;
	return pkt;
}

void ibds_pkt_free(struct ibds_pkt *pkt)
{
	kfree(pkt);
}

/* ---- delay line --------------------------------------------------------- */

static bool ibds_line_less(struct rb_node *a, const struct rb_node *b)
{
	return ktime_before(rb_entry(a, struct ibds_pkt, node)->due,
			    rb_entry(b, struct ibds_pkt, node)->due);
}

/**
 * ibds_line_add - put a packet into the delay line
 * @pkt: packet with in_port or out_port set, as @stage needs
 * @stage: what is next for it
 * @delay_ns: how late
 *
 * Context: any.
 * Return: 0, or -ENOBUFS when the line is full; the packet is still the
 * caller's then.
 */
int ibds_line_add(struct ibds_pkt *pkt, enum ibds_stage stage, u64 delay_ns)
{
	unsigned long flags;
	bool first;

	pkt->stage = stage;
	pkt->due = ktime_add_ns(ktime_get(), delay_ns);
	spin_lock_irqsave(&line.lock, flags);
	if (line.len >= IBDS_LINE_MAX) {
		spin_unlock_irqrestore(&line.lock, flags);
		return -ENOBUFS;
	}
	line.len++;
	first = rb_add_cached(&pkt->node, &line.tree, ibds_line_less);
	if (first && delay_ns)
		hrtimer_start(&line.timer, pkt->due, HRTIMER_MODE_ABS);
	spin_unlock_irqrestore(&line.lock, flags);
	if (!delay_ns)
		queue_work(ibds_wq, &line.work);
	return 0;
}

static void ibds_line_unlink(struct ibds_pkt *pkt)
{
	lockdep_assert_held(&line.lock);
	rb_erase_cached(&pkt->node, &line.tree);
	line.len--;
}

/* The first packet that is due; else the timer is set for the next. */
static struct ibds_pkt *ibds_line_take(void)
{
	struct ibds_pkt *pkt = NULL;
	struct rb_node *node;

	spin_lock_irq(&line.lock);
	node = rb_first_cached(&line.tree);
	if (node) {
		pkt = rb_entry(node, struct ibds_pkt, node);
		if (ktime_after(pkt->due, ktime_get())) {
			hrtimer_start(&line.timer, pkt->due, HRTIMER_MODE_ABS);
			pkt = NULL;
		} else {
			ibds_line_unlink(pkt);
		}
	}
	spin_unlock_irq(&line.lock);
	return pkt;
}

static void ibds_line_deliver(struct ibds_pkt *pkt)
{
	struct ibds_port *to = ibds_switch_peer(pkt->out_port);

	if (to)
		ibds_port_arrive(to, pkt);
	ibds_pkt_free(pkt);
}

static void ibds_line_work(struct work_struct *work)
{
	struct ibds_pkt *pkt;

	while ((pkt = ibds_line_take())) {
		rcu_read_lock();
		if (pkt->stage == IBDS_STAGE_SWITCH)
			ibds_switch_mad(pkt);
		else
			ibds_line_deliver(pkt);
		rcu_read_unlock();
		cond_resched();
	}
}

static enum hrtimer_restart ibds_line_timer(struct hrtimer *timer)
{
	queue_work(ibds_wq, &line.work);
	return HRTIMER_NORESTART;
}

/**
 * ibds_line_purge - drop what waits for an HCA port that goes away
 * @out_port: its switch port; nobody can look it up any more
 */
void ibds_line_purge(u8 out_port)
{
	struct rb_node *node, *next;
	struct ibds_pkt *pkt;

	spin_lock_irq(&line.lock);
	for (node = rb_first_cached(&line.tree); node; node = next) {
		next = rb_next(node);
		pkt = rb_entry(node, struct ibds_pkt, node);
		if (pkt->stage == IBDS_STAGE_SWITCH ||
		    pkt->out_port != out_port)
			continue;
		ibds_line_unlink(pkt);
		ibds_pkt_free(pkt);
	}
	spin_unlock_irq(&line.lock);
}

/**
 * ibds_line_init - make the delay line and the work queue of the agents
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_line_init(void)
{
	spin_lock_init(&line.lock);
	line.tree = RB_ROOT_CACHED;
	INIT_WORK(&line.work, ibds_line_work);
	hrtimer_setup(&line.timer, ibds_line_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS);
	ibds_wq = alloc_ordered_workqueue("ibdevsim", WQ_HIGHPRI);
	return ibds_wq ? 0 : -ENOMEM;
}

/**
 * ibds_line_exit - the opposite; no port is left, and nobody sends any more
 */
void ibds_line_exit(void)
{
	struct ibds_pkt *pkt, *next;
	struct rb_root left;

	/* Where nothing waits, the work item does not set the timer. */
	spin_lock_irq(&line.lock);
	left = line.tree.rb_root;
	line.tree = RB_ROOT_CACHED;
	line.len = 0;
	spin_unlock_irq(&line.lock);
	hrtimer_cancel(&line.timer);
	destroy_workqueue(ibds_wq);
	ibds_wq = NULL;
	rbtree_postorder_for_each_entry_safe(pkt, next, &left, node)
		ibds_pkt_free(pkt);
}

/* ---- the receiving end of a link ---------------------------------------- */

/* Is a packet with this DLID for the port?  IBA vol 1, 7.8.3. */
static bool ibds_dlid_ok(const struct ibds_port *port,
			 const struct ibds_pkt *pkt)
{
	if (pkt->dlid == IBDS_LID_PERMISSIVE)
		return !pkt->dqpn;
	return pkt->dlid >= IBDS_MFT_BASE ||
	       ibds_port_owns_lid(port, pkt->dlid);
}

/**
 * ibds_port_arrive - a packet that was in the delay line reaches an HCA port
 * @port: HCA port
 * @pkt: still the caller's afterwards
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
	ibds_port_receive(port, pkt);
}

/* ---- management packets ------------------------------------------------- */

static bool ibds_mad_lost(struct ibds_port *port, const struct ibds_pkt *pkt)
{
	const struct ibds_faults *faults = &port->faults;
	u32 one_in = READ_ONCE(faults->mad_drop);

	if (READ_ONCE(faults->wedged_special)) {
		ibds_count(port, drop_wedged);
		return true;
	}
	if ((READ_ONCE(faults->sa_drop) && pkt->dqpn == 1 && pkt->len > 1 &&
	     pkt->data[1] == IB_MGMT_CLASS_SUBN_ADM) ||
	    (one_in && !(atomic_inc_return(&port->sma->mads) % one_in))) {
		ibds_count(port, drop_fault);
		return true;
	}
	return false;
}

static u64 ibds_mad_delay(const struct ibds_port *port)
{
	return (u64)READ_ONCE(port->faults.mad_delay_ms) * NSEC_PER_MSEC;
}

static void ibds_mad_line(struct ibds_port *port, struct ibds_pkt *pkt,
			  enum ibds_stage stage, u64 delay)
{
	if (!ibds_line_add(pkt, stage, delay))
		return;
	ibds_count(port, mad_dropped);
	ibds_pkt_free(pkt);
}

void ibds_mad_send(struct ibds_port *from, struct ibds_pkt *pkt)
{
	u8 need = pkt->dqpn ? IB_PORT_ACTIVE : IB_PORT_INIT;
	u64 delay = ibds_mad_delay(from);

	ibds_count(from, mad_tx);
	ibds_count(from, tx_packets);
	ibds_count_add(from, tx_bytes, pkt->len);
	ibds_mirror(from, pkt, true);
	/* The sender may be gone when the packet arrives. */
	pkt->from = NULL;
	if (ibds_mad_lost(from, pkt)) {
		ibds_pkt_free(pkt);
	} else if (READ_ONCE(from->state) < need) {
		ibds_count(from, drop_port_down);
		ibds_pkt_free(pkt);
	} else if (ibds_port_owns_lid(from, pkt->dlid)) {
		pkt->out_port = from->sw_port;
		ibds_mad_line(from, pkt, IBDS_STAGE_DELIVER, delay);
	} else {
		pkt->in_port = from->sw_port;
		ibds_mad_line(from, pkt, IBDS_STAGE_SWITCH, delay);
	}
}

/**
 * ibds_mad_deliver - a MAD leaves the switch towards an HCA port
 * @to: HCA port
 * @pkt: with out_port set; consumed
 *
 * Context: ibds_wq, RCU read side.
 */
void ibds_mad_deliver(struct ibds_port *to, struct ibds_pkt *pkt)
{
	u64 delay = ibds_mad_delay(to);

	if (!ibds_mad_lost(to, pkt)) {
		if (delay) {
			ibds_mad_line(to, pkt, IBDS_STAGE_DELIVER, delay);
			return;
		}
		ibds_port_arrive(to, pkt);
	}
	ibds_pkt_free(pkt);
}

/* ---- data packets ------------------------------------------------------- */

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

/* Did @pkt overtake the latest one that is on its way to @to? */
static void ibds_fault_note_order(struct ibds_port *to, u64 delay)
{
	u64 due = ktime_get_ns() + delay;

	if (due < READ_ONCE(to->sma->last_due))
		ibds_count(to, reordered);
	else
		WRITE_ONCE(to->sma->last_due, due);
}

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
		ibds_port_receive(to, pkt);
	} else {
		ibds_count(to, delayed);
		ibds_fault_note_order(to, delay);
		pkt->out_port = to->sw_port;
		/* The sender may be gone by then. */
		pkt->from = to == from ? from : NULL;
		if (!ibds_line_add(pkt, IBDS_STAGE_DELIVER, delay))
			return;
		ibds_count(to, drop_fault);
	}
	ibds_pkt_free(pkt);
}

/**
 * ibds_faults_update - a fault of a port was set or lifted
 * @port: HCA port
 *
 * Context: process.
 */
void ibds_faults_update(struct ibds_port *port)
{
	struct ibds_faults *f = &port->faults;

	WRITE_ONCE(f->armed,
		   f->loss_ppm || f->delay_us || f->jitter_us || f->truncate ||
		   atomic_read(&f->send_error) ||
		   atomic_read(&f->recv_post_error) ||
		   atomic_read(&f->send_post_error) ||
		   f->wedged || f->wedged_special || f->defer_tx);
	ibds_qps_kick(port);
}

/* ---- raw packets -------------------------------------------------------- */

/* Octets of payload; RC SEND only may be a message of many packets. */
#define IBDS_INJECT_PACKET	8192

/* Where the parser of a raw packet is. */
struct ibds_wire {
	const u8 *pos;
	size_t left;
};

static const u8 *ibds_wire_take(struct ibds_wire *wire, size_t n)
{
	const u8 *pos = wire->pos;

	if (wire->left < n)
		return NULL;
	wire->pos += n;
	wire->left -= n;
	return pos;
}

static int ibds_parse_lrh(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *lrh = ibds_wire_take(wire, IB_LRH_BYTES);

	if (!lrh)
		return -EINVAL;
	pkt->sl = lrh[1] >> 4;
	pkt->dlid = get_unaligned_be16(lrh + 2);
	pkt->slid = get_unaligned_be16(lrh + 6);
	switch (lrh[1] & 3) {
	case IB_LNH_IBA_LOCAL:
		return 0;
	case IB_LNH_IBA_GLOBAL:
		pkt->grh_valid = true;
		return 0;
	default:
		return -EPROTONOSUPPORT;
	}
}

static int ibds_parse_grh(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *grh;

	if (!pkt->grh_valid)
		return 0;
	grh = ibds_wire_take(wire, IB_GRH_BYTES);
	if (!grh)
		return -EINVAL;
	memcpy(&pkt->grh, grh, sizeof(pkt->grh));
	return 0;
}

static int ibds_parse_bth(struct ibds_wire *wire, struct ibds_pkt *pkt, u8 *pad)
{
	const u8 *bth = ibds_wire_take(wire, IB_BTH_BYTES);

	if (!bth)
		return -EINVAL;
	pkt->opcode = bth[0];
	pkt->solicited = bth[1] & 0x80;
	*pad = (bth[1] >> 4) & 3;
	pkt->pkey = get_unaligned_be16(bth + 2);
	pkt->dqpn = get_unaligned_be24(bth + 5);
	pkt->psn = get_unaligned_be24(bth + 9);
	return 0;
}

static bool ibds_opcode_imm(u8 opcode)
{
	return opcode == IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE ||
	       opcode == IB_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE ||
	       opcode == IB_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE;
}

static int ibds_parse_ext(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	const u8 *pos;

	if ((pkt->opcode & 0xe0) == IB_OPCODE_UD) {
		pos = ibds_wire_take(wire, IB_DETH_BYTES);
		if (!pos)
			return -EINVAL;
		pkt->qkey = get_unaligned_be32(pos);
		pkt->sqpn = get_unaligned_be24(pos + 5);
	}
	if (ibds_opcode_imm(pkt->opcode)) {
		pos = ibds_wire_take(wire, sizeof(pkt->imm));
		if (!pos)
			return -EINVAL;
		memcpy(&pkt->imm, pos, sizeof(pkt->imm));
		pkt->imm_valid = true;
	}
	return 0;
}

static int ibds_parse(struct ibds_wire *wire, struct ibds_pkt *pkt)
{
	u8 pad = 0;
	int err;

	err = ibds_parse_lrh(wire, pkt) ?: ibds_parse_grh(wire, pkt) ?:
	      ibds_parse_bth(wire, pkt, &pad) ?: ibds_parse_ext(wire, pkt);
	if (err)
		return err;
	if (pad > wire->left)
		return -EINVAL;
	pkt->len = wire->left - pad;
	if (pkt->len > IBDS_INJECT_PACKET && (pkt->opcode & 0xe0) != IB_OPCODE_RC)
		return -E2BIG;
	memcpy(pkt->data, wire->pos, pkt->len);
	return 0;
}

/**
 * ibds_inject - a packet from user space arrives at a port
 * @port: HCA port
 * @wire: packet from LRH to the padding, without CRCs
 * @len: octets of it
 *
 * The lengths in LRH and GRH are not looked at.
 *
 * Context: process.
 * Return: 0, -EINVAL for headers cut short, -EPROTONOSUPPORT for raw packets,
 * -E2BIG, -ENOMEM.
 */
int ibds_inject(struct ibds_port *port, const u8 *wire, size_t len)
{
	struct ibds_wire parser = { .pos = wire, .left = len };
	struct ibds_pkt *pkt;
	int err;

	pkt = ibds_pkt_alloc(len, GFP_KERNEL);
	if (!pkt)
		return -ENOMEM;
	err = ibds_parse(&parser, pkt);
	if (!err) {
		ibds_count(port, injected);
		rcu_read_lock();
		ibds_port_arrive(port, pkt);
		rcu_read_unlock();
	}
	ibds_pkt_free(pkt);
	return err;
}
