// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: traps
 *
 * An agent notifies its SM of a change with a Trap, an SMP from QP0 to the SM's
 * LID, and repeats it until a TrapRepress with the same transaction ID arrives
 * (IBA vol 1, 13.4.9).  PortInfo SubnetTimeOut sets the interval; there are
 * only a few repetitions, in case the SM does not answer.  A violation (P_Key,
 * Q_Key) is not reported again within that interval.
 *
 * Each kind of trap has one slot: changes in quick succession are sent as one.
 */
#include <linux/jiffies.h>

#include "line.h"
#include "mad.h"
#include "pma.h"
#include "switch.h"
#include "trap.h"

#define IBDS_TRAP_REPEAT	5

/* A link that goes down and up at once raises one trap. */
#define IBDS_TRAP_SETTLE_MS	10

static_assert(sizeof(struct ib_mad_notice_attr) == IB_SMP_DATA_SIZE);

static unsigned long ibds_trap_interval(struct ibds_traps *traps)
{
	u8 timeout = traps->port ? READ_ONCE(traps->port->subnet_timeout) :
				   traps->sw->port[0].pi.rereg_timeout & 0x1f;

	/* 4.096 us * 2^timeout, 17 s at most. */
	return nsecs_to_jiffies(4096ULL << min_t(u8, timeout, 22)) + 1;
}

/* Traps with a slot of their own, by its number; the first is for all others. */
static const __be16 ibds_trap_slots[IBDS_TRAP_SLOTS] = {
	[1] = IB_NOTICE_TRAP_BAD_PKEY,
	[2] = IB_NOTICE_TRAP_BAD_QKEY,
	[3] = IB_NOTICE_TRAP_SYS_GUID_CHG,
	[4] = IB_NOTICE_TRAP_LLI_THRESH,
	[5] = IB_NOTICE_TRAP_EBO_THRESH,
	[6] = IB_NOTICE_TRAP_FLOW_UPDATE,
};

static struct ibds_trap *ibds_trap_slot(struct ibds_traps *traps, __be16 num)
{
	int i;

	for (i = 1; i < IBDS_TRAP_SLOTS; i++)
		if (ibds_trap_slots[i] == num)
			return &traps->slot[i];
	return &traps->slot[0];
}

/**
 * ibds_traps_raise - send a trap to the SM
 * @traps: agent
 * @notice: Notice to send
 *
 * Context: any.
 */
void ibds_traps_raise(struct ibds_traps *traps,
		      const struct ib_mad_notice_attr *notice)
{
	bool violation = be16_to_cpu(notice->trap_num) >= 256;
	unsigned long interval = ibds_trap_interval(traps);
	struct ibds_trap *trap;
	unsigned long flags;

	spin_lock_irqsave(&traps->lock, flags);
	trap = ibds_trap_slot(traps, notice->trap_num);
	if (violation && time_before(jiffies, trap->quiet_until)) {
		spin_unlock_irqrestore(&traps->lock, flags);
		return;
	}
	trap->notice = *notice;
	trap->tid = cpu_to_be64(++traps->last_tid);
	trap->left = IBDS_TRAP_REPEAT;
	trap->quiet_until = jiffies + interval;
	spin_unlock_irqrestore(&traps->lock, flags);
	mod_delayed_work(ibds_wq, &traps->work,
			 msecs_to_jiffies(IBDS_TRAP_SETTLE_MS));
}

/**
 * ibds_traps_link_error - count errors of a link, and report those that have a trap
 * @traps: agent
 * @pma: of the port at this end of the link
 * @num: the port's number
 * @text: for ibds_pma_add(); or "watchdog": no flow control updates came.
 *	Modified
 *
 * Traps 129 to 131 of IBA vol 1, 14.2.5.1.
 *
 * Return: 0 or -errno.
 */
int ibds_traps_link_error(struct ibds_traps *traps, struct ibds_pma *pma,
			  u32 num, char *text)
{
	struct ib_mad_notice_attr notice = {
		.generic_type = IB_NOTICE_TYPE_URGENT,
		.prod_type_lsb = traps->port ? IB_NOTICE_PROD_CA :
					       IB_NOTICE_PROD_SWITCH,
		.issuer_lid = traps->port ?
			cpu_to_be16(READ_ONCE(traps->port->lid)) :
			traps->sw->port[0].pi.lid,
	};
	int counter;

	if (!strcmp(text, "watchdog")) {
		notice.trap_num = IB_NOTICE_TRAP_FLOW_UPDATE;
	} else {
		counter = ibds_pma_add(pma, text);
		if (counter < 0)
			return counter;
		if (counter == IBDS_PMA_INTEGRITY)
			notice.trap_num = IB_NOTICE_TRAP_LLI_THRESH;
		if (counter == IBDS_PMA_OVERRUN)
			notice.trap_num = IB_NOTICE_TRAP_EBO_THRESH;
	}
	if (!notice.trap_num)
		return 0;
	notice.details.ntc_129_131.lid = notice.issuer_lid;
	notice.details.ntc_129_131.port_num = num;
	ibds_traps_raise(traps, &notice);
	return 0;
}

/**
 * ibds_traps_repress - handle a received TrapRepress
 * @traps: agent
 * @smp: the TrapRepress
 */
void ibds_traps_repress(struct ibds_traps *traps, const struct ib_smp *smp)
{
	unsigned long flags;
	int i;

	spin_lock_irqsave(&traps->lock, flags);
	for (i = 0; i < IBDS_TRAP_SLOTS; i++)
		if (traps->slot[i].tid == smp->tid)
			traps->slot[i].left = 0;
	spin_unlock_irqrestore(&traps->lock, flags);
}

static void ibds_trap_fill(struct ibds_pkt *pkt, const struct ibds_trap *trap)
{
	struct ib_smp *smp = (struct ib_smp *)pkt->data;

	memset(smp, 0, sizeof(*smp));
	ib_init_query_mad(smp);
	smp->method = IB_MGMT_METHOD_TRAP;
	smp->tid = trap->tid;
	smp->attr_id = IB_SMP_ATTR_NOTICE;
	memcpy(smp->data, &trap->notice, sizeof(trap->notice));
	pkt->opcode = IB_OPCODE_UD_SEND_ONLY;
	pkt->pkey = IB_DEFAULT_PKEY_FULL;
}

static void ibds_trap_send(struct ibds_traps *traps,
			   const struct ibds_trap *trap)
{
	struct ibds_port *port = traps->port;
	struct ibds_switch *sw = traps->sw;
	struct ibds_pkt *pkt;

	pkt = ibds_pkt_alloc(IBDS_MAD_SIZE, GFP_KERNEL);
	if (!pkt)
		return;
	ibds_trap_fill(pkt, trap);
	rcu_read_lock();
	if (port) {
		pkt->slid = READ_ONCE(port->lid);
		pkt->dlid = READ_ONCE(port->sm_lid);
		pkt->sl = READ_ONCE(port->sm_sl);
		ibds_count(port, trap_tx);
		ibds_mad_send(port, pkt);
	} else {
		pkt->dlid = be16_to_cpu(sw->port[0].pi.sm_lid);
		pkt->sl = sw->port[0].pi.mtu_smsl & 0xf;
		ibds_sw_count(sw, traps);
		ibds_switch_originate(sw, pkt);
	}
	rcu_read_unlock();
}

static bool ibds_trap_take(struct ibds_traps *traps, int i,
			   struct ibds_trap *trap)
{
	unsigned long flags;
	bool take;

	spin_lock_irqsave(&traps->lock, flags);
	take = traps->slot[i].left;
	if (take) {
		traps->slot[i].left--;
		*trap = traps->slot[i];
	}
	spin_unlock_irqrestore(&traps->lock, flags);
	return take;
}

static bool ibds_traps_have_sm(struct ibds_traps *traps)
{
	return traps->port ? READ_ONCE(traps->port->sm_lid) :
			     traps->sw->port[0].pi.sm_lid != 0;
}

static void ibds_traps_work(struct work_struct *work)
{
	struct ibds_traps *traps = container_of(work, struct ibds_traps,
						work.work);
	bool more = false;
	int i;

	for (i = 0; i < IBDS_TRAP_SLOTS; i++) {
		struct ibds_trap trap;

		if (!ibds_trap_take(traps, i, &trap))
			continue;
		if (ibds_traps_have_sm(traps))
			ibds_trap_send(traps, &trap);
		more |= trap.left;
	}
	if (more)
		queue_delayed_work(ibds_wq, &traps->work,
				   ibds_trap_interval(traps));
}

/**
 * ibds_traps_init - prepare an agent's traps
 * @traps: agent
 * @port: its HCA port, NULL for a switch
 * @sw: its switch, NULL for an HCA port
 */
void ibds_traps_init(struct ibds_traps *traps, struct ibds_port *port,
		     struct ibds_switch *sw)
{
	int i;

	spin_lock_init(&traps->lock);
	INIT_DELAYED_WORK(&traps->work, ibds_traps_work);
	traps->port = port;
	traps->sw = sw;
	for (i = 0; i < IBDS_TRAP_SLOTS; i++)
		traps->slot[i].quiet_until = jiffies;
}

/**
 * ibds_traps_exit - stop an agent's traps
 * @traps: agent; nothing may raise one any more
 *
 * Context: sleeps.
 */
void ibds_traps_exit(struct ibds_traps *traps)
{
	cancel_delayed_work_sync(&traps->work);
}
