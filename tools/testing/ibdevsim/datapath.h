/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim, datapath half: the verbs objects, which verbs.c, cq.c, qp.c, sq.c,
 * rcv.c, srq.c, mcast.c, ud.c and rc.c share with each other and nobody else.
 *
 * A send runs in the caller of ib_post_send(), under its own sq.lock, and copies
 * from the sender's buffers to the receiver's.  What a sender needs to know of
 * the receiving QP is in struct ibds_rcv, which is looked up under RCU and
 * outlives the QP: ib_core frees an ib_qp as soon as destroy_qp() returns, and a
 * grace period there would make every teardown look slow.
 *
 * Locks, outermost first, interrupts disabled under all of them:
 *
 *   sq.lock    of the sending QP: send queue, state
 *   arrivals   of a port: the same for packets from outside the fast path
 *   rcv->lock  of the receiving QP: deliveries one at a time, so that receive
 *              completions are in posting order; state as the wire sees it
 *   rq->lock   producers of a receive queue; for an SRQ its consumers too
 *   cq->lock   completions; also what polling gives back to the queues
 *
 * Nothing outside the datapath is called under any of them but ibds_route(),
 * ibds_route_mc() and ibds_fault_lose(): packets that leave the fast path wait
 * on a list until sq.lock is dropped (ibds_later_run()).
 */
#ifndef IBDEVSIM_DATAPATH_H
#define IBDEVSIM_DATAPATH_H

#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/sizes.h>
#include "ibdevsim.h"

/* Octets of LSO header or inline data that a queued send can keep. */
#define IBDS_MAX_INLINE		256

#define IBDS_AH_MAGIC		0x61682121
#define IBDS_AH_POISON		0xdeadadd2

/* A completion in error has no defined opcode; make sure nobody relies on it. */
#define IBDS_WC_UNDEFINED	0x5a

/* Beyond enum ib_wc_status: the request stays first in the queue. */
#define IBDS_WAIT		((enum ib_wc_status)0x100)

#define IBDS_MAX_MTU		4096
/* The longest message: it is copied with interrupts off. */
#define IBDS_MAX_MSG		SZ_1M
#define IBDS_PKEY_BASE		0x7fff
#define IBDS_PKEY_FULL		0x8000
#define IBDS_PSN_MASK		0xffffff

/* QPNs 2 to 63 stay unused; 0xffffff is multicast. */
#define IBDS_QPN_FIRST		64
#define IBDS_QPN_LAST		(IBDS_QPN_MULTICAST - 1)

struct ibds_qp;

struct ibds_pd {
	struct ib_pd ib;
};

/**
 * struct ibds_path - address vector as the datapath uses it
 * @hint: where @dlid is, for ibds_route_hint()
 * @dlid: destination
 * @path_bits: added to the port's base LID
 * @sl: service level
 * @grh: a GRH is sent, the rest is valid
 * @hop_limit: GRH HopLmt
 * @sgid_index: of the port's GID table
 * @vtf: GRH IPVer, TClass and FlowLabel
 * @dgid: GRH DGID
 */
struct ibds_path {
	u64 hint;
	u16 dlid;
	u8 path_bits;
	u8 sl;
	bool grh;
	u8 hop_limit;
	u8 sgid_index;
	__be32 vtf;
	union ib_gid dgid;
};

/**
 * struct ibds_ah - address handle
 * @ib: the core's
 * @magic: %IBDS_AH_MAGIC, %IBDS_AH_POISON once destroyed
 * @port_num: port it is for
 * @path: what sends use
 * @attr: what the consumer gave
 */
struct ibds_ah {
	struct ib_ah ib;
	u32 magic;
	u32 port_num;
	struct ibds_path path;
	struct rdma_ah_attr attr;
};

/**
 * struct ibds_cqe - a completion and what its polling releases
 * @wc: as the consumer will see it; what follows dlid_path_bits and port_num
 *	is for Ethernet and neither filled nor copied
 * @sq_slots: send queue slots that become free when this entry is polled
 *	(unsignalled requests before it included); 0: one of the receive queue;
 *	%IBDS_CQE_STALE: none, the QP was reset since
 */
struct ibds_cqe {
	struct ib_wc wc;
	s32 sq_slots;
};

#define IBDS_CQE_STALE		(-1)

/**
 * struct ibds_cq - completion queue
 * @ib: the core's
 * @lock: all but @irq_pending, @irq_running, @comp and @todo
 * @ring: entries, a power of two
 * @spare: stands in for a slot when the CQ is full
 * @mask: entries of @ring less one
 * @limit: entries the consumer asked for
 * @head: next to poll
 * @tail: next to fill
 * @notify: armed: %IB_CQ_NEXT_COMP or %IB_CQ_SOLICITED, 0 when not
 * @overrun: it happened; IB_EVENT_CQ_ERR is raised once
 * @cpu: of the completion vector
 * @port: counts the interrupts and has the cost model
 * @mod_count: moderation: completions per event
 * @mod_period: moderation: microseconds until an event all the same
 * @mod_pending: completions since the last event
 * @mod_timer: runs for @mod_period
 * @irq_pending: @csd is on its way
 * @irq_running: handlers running that @csd brought
 * @irq_work: interrupts this CPU
 * @csd: interrupts another one
 * @in_work: @comp calls the handler, not an interrupt
 * @comp: calls it
 * @todo: raises IB_EVENT_CQ_ERR
 */
struct ibds_cq {
	struct ib_cq ib;
	spinlock_t lock;	/* ring, arming, moderation */
	struct ibds_cqe *ring;
	struct ibds_cqe *spare;
	u32 mask;
	u32 limit;
	u32 head;
	u32 tail;
	u8 notify;
	bool overrun;
	int cpu;
	struct ibds_port *port;
	u32 mod_count;
	u32 mod_period;
	u32 mod_pending;
	struct hrtimer mod_timer;
	atomic_t irq_pending;
	atomic_t irq_running;
	struct irq_work irq_work;
	call_single_data_t csd;
	bool in_work;
	struct work_struct comp;
	struct work_struct todo;
};

/**
 * struct ibds_rwqe - a posted receive
 * @wr_id: the consumer's
 * @length: octets it has room for
 * @num_sge: entries of @sge
 * @bad: has an L_Key that is not the PD's
 * @sge: where to
 */
struct ibds_rwqe {
	u64 wr_id;
	u32 length;
	u16 num_sge;
	u16 bad;
	struct ib_sge sge[];
};

/**
 * struct ibds_rq - a receive queue: of a QP or of an SRQ
 * @lock: producers: @tail
 * @ring: struct ibds_rwqe, @stride octets apart, a power of two
 * @mask: entries of @ring less one
 * @stride: octets per entry
 * @limit: entries the consumer asked for
 * @max_sge: of an entry
 * @tail: next to post
 * @head: next to consume; under rcv->lock (QP) or @lock (SRQ)
 */
struct ibds_rq {
	spinlock_t lock;	/* producers; SRQ: consumers too */
	void *ring;
	u32 mask;
	u32 stride;
	u32 limit;
	u32 max_sge;
	u32 tail;
	u32 head;
};

/**
 * struct ibds_srq - shared receive queue
 * @ib: the core's
 * @rq: entries are free as soon as a QP takes them
 * @watermark: IB_EVENT_SRQ_LIMIT_REACHED when fewer entries are left, 0: never
 * @todo: raises it
 */
struct ibds_srq {
	struct ib_srq ib;
	struct ibds_rq rq;
	u32 watermark;
	struct work_struct todo;
};

/**
 * struct ibds_rcv - receive side of a QP, as senders see it
 * @node: in dev->qp_hash; special QPs are not in there
 * @qpn: of the QP
 * @lock: everything here, and the right to use @qp
 * @qp: NULL once the QP is destroyed
 * @ud_on: port from which it takes datagrams, NULL while it does not
 * @rc_on: the same for RC
 * @pkey_index: of the port's P_Key table
 * @qkey: of the QP
 * @remote_qpn: RC: the QP it is connected to
 * @remote_lid: RC: and the LID that is at
 * @rnr_timer: RC: encoded delay the peer is told to wait
 * @rtr: QP is in RTR: an arriving message raises IB_EVENT_COMM_EST
 * @broken: a receive failed in a way that takes the QP to ERR
 * @csum: HCA verifies checksums
 * @block_loopback: multicasts of this QP do not come back to it
 * @phys: SGE addresses are DMA addresses
 * @cq: receive CQ
 * @srq: or NULL
 * @rq: own receive queue
 * @wqe: copy of the entry taken from @srq
 * @bounce: one MTU, for datagrams that meet buffers of several pieces
 * @rcu: frees it
 */
struct ibds_rcv {
	struct hlist_node node;
	u32 qpn;
	spinlock_t lock;	/* all below */
	u16 pkey_index;
	u8 rnr_timer;
	bool rtr;
	bool broken;
	bool csum;
	bool phys;
	bool block_loopback;
	u32 qkey;
	u32 remote_qpn;
	u16 remote_lid;
	struct ibds_qp *qp;
	struct ibds_port *ud_on;
	struct ibds_port *rc_on;
	struct ibds_cq *cq;
	struct ibds_srq *srq;
	struct ibds_rwqe *wqe;
	u8 *bounce;
	struct ibds_rq rq;
	struct rcu_head rcu;
};

/**
 * struct ibds_swqe - a send that could not run when it was posted
 * @ud: copy of the request; the head of it is all there is for RC
 * @sge: copy of its list, then room for header or inline data
 */
struct ibds_swqe {
	struct ib_ud_wr ud;
	struct ib_sge sge[];
};

/**
 * struct ibds_sq - send queue
 * @lock: everything here but @retired, and the QP's state
 * @limit: requests the consumer asked for
 * @posted: requests ever posted
 * @retired: of these, how many a polled completion retired; under the CQ's lock
 * @unsignalled: requests executed since the last completion
 * @psn: of the next packet
 * @max_sge: of a request
 * @head: next in @ring to execute
 * @tail: where the next request goes that has to wait
 * @mask: entries of @slot less one
 * @stride: octets per entry
 * @slot: the entries; of a UD QP, whose requests rarely wait, those only that
 *	were needed
 * @ring: of the others: room for all entries in one piece
 * @max_inline: octets of inline data or LSO header
 * @sig_all: every request is signalled
 * @lso: LSO is allowed
 * @waiting: RC: nothing runs until the timer has fired
 * @retries: RC: left for the first request
 * @rnr_retries: RC: the same after RNR NAKs
 * @late: RC: the first request has had its artificial delay
 * @give_up: RC: it has no retries left
 */
struct ibds_sq {
	spinlock_t lock;	/* the queue and the state of its QP */
	u32 limit;
	u32 posted;
	u32 retired;
	u32 unsignalled;
	u32 psn;
	u32 max_sge;
	u32 head;
	u32 tail;
	u32 mask;
	u32 stride;
	struct ibds_swqe **slot;
	void *ring;
	u32 max_inline;
	bool sig_all;
	bool lso;
	bool waiting;
	bool late;
	bool give_up;
	u8 retries;
	u8 rnr_retries;
};

/**
 * enum ibds_todo - what a QP's work item has been asked to do
 * @IBDS_TODO_RUN: execute or flush what waits
 * @IBDS_TODO_ERR: go to ERR
 * @IBDS_TODO_SQE: go to SQE
 * @IBDS_TODO_FATAL: raise IB_EVENT_QP_FATAL
 * @IBDS_TODO_LAST_WQE: raise IB_EVENT_QP_LAST_WQE_REACHED
 * @IBDS_TODO_COMM_EST: raise IB_EVENT_COMM_EST
 * @IBDS_TODO_DRAINED: raise IB_EVENT_SQ_DRAINED
 */
enum ibds_todo {
	IBDS_TODO_RUN,
	IBDS_TODO_ERR,
	IBDS_TODO_SQE,
	IBDS_TODO_FATAL,
	IBDS_TODO_LAST_WQE,
	IBDS_TODO_COMM_EST,
	IBDS_TODO_DRAINED,
};

/**
 * struct ibds_qp - queue pair
 * @ib: the core's
 * @port: valid from INIT on, port 1 before
 * @rcv: receive side
 * @send_cq: where sends complete
 * @state: changes under sq.lock and rcv->lock
 * @lkey: the only one that is accepted
 * @pkey_index: of the port's P_Key table
 * @phys: SGE addresses are DMA addresses
 * @csum: HCA computes checksums
 * @block_loopback: its multicasts do not come back to itself
 * @last_wqe: IB_EVENT_QP_LAST_WQE_REACHED was raised since RESET
 * @qkey: of the QP
 * @rq_retired: own receives whose completion was polled; under the CQ's lock
 * @sq: see there
 * @av: RC: where to
 * @remote_qpn: RC: to whom
 * @mtu_shift: RC: binary logarithm of the path MTU
 * @attr: what was set and only ib_query_qp() wants
 * @create_flags: for ib_query_qp()
 * @timer: RC: RNR, retry and artificial delay
 * @todo: bits of enum ibds_todo
 * @work: does them
 * @mcast: attachments, under the lock of the HCA's first port
 */
struct ibds_qp {
	struct ib_qp ib;
	struct ibds_port *port;
	struct ibds_rcv *rcv;
	struct ibds_cq *send_cq;
	enum ib_qp_state state;
	u32 lkey;
	u16 pkey_index;
	bool phys;
	bool csum;
	bool block_loopback;
	bool last_wqe;
	u32 qkey;
	u32 rq_retired;
	struct ibds_sq sq;
	struct ibds_path av;
	u32 remote_qpn;
	u8 mtu_shift;
	struct ib_qp_attr attr;
	u32 create_flags;
	struct hrtimer timer;
	unsigned long todo;
	struct work_struct work;
	struct list_head mcast;
};

/**
 * struct ibds_attach - a QP that takes packets of a multicast group
 * @node: in port->mcast
 * @in_qp: in qp->mcast
 * @mgid: group
 * @mlid: and the LID it must come with
 * @count: times attached
 * @rcv: who
 * @rcu: frees it
 */
struct ibds_attach {
	struct hlist_node node;
	struct list_head in_qp;
	union ib_gid mgid;
	u16 mlid;
	u32 count;
	struct ibds_rcv *rcv;
	struct rcu_head rcu;
};

#define IBDS_TO(type) \
static inline struct ibds_##type *to_ibds_##type(struct ib_##type *x) \
{ \
	return container_of(x, struct ibds_##type, ib); \
}

IBDS_TO(pd)
IBDS_TO(ah)
IBDS_TO(cq)
IBDS_TO(qp)
IBDS_TO(srq)
#undef IBDS_TO

/* ---- buffers ------------------------------------------------------------ */

/**
 * struct ibds_pos - a place in a scatter/gather list
 * @sge: entry
 * @off: octets of it already done
 * @phys: addresses are DMA addresses; there is no IOMMU before this device
 */
struct ibds_pos {
	const struct ib_sge *sge;
	u32 off;
	u32 phys;
};

static inline void *ibds_va(u64 addr, bool phys)
{
	return phys ? phys_to_virt(addr) : (void *)(uintptr_t)addr;
}

/* Where it is; there must be something left. */
static inline void *ibds_pos_va(const struct ibds_pos *pos)
{
	return ibds_va(pos->sge->addr, pos->phys) + pos->off;
}

/* Octets in one piece from here. */
static inline u32 ibds_pos_span(const struct ibds_pos *pos)
{
	return pos->sge->length - pos->off;
}

/* Move on within the piece. */
static inline void ibds_pos_advance(struct ibds_pos *pos, u32 len)
{
	pos->off += len;
	if (pos->off == pos->sge->length) {
		pos->sge++;
		pos->off = 0;
	}
}

/*
 * What an HCA does by DMA.  Eight octets an instruction are as good as it gets
 * where figures are instructions: kernels for CPUs without fast string
 * instructions (and emulators have none) copy by way of a register.  KASAN is to
 * see who has a buffer freed that the HCA still writes to: it knows memcpy().
 */
static __always_inline void ibds_copy(void *dst, const void *src, size_t len)
{
#if IS_ENABLED(CONFIG_X86_64) && !IS_ENABLED(CONFIG_KASAN)
	size_t words = len / 8;

	asm volatile("rep movsq" : "+D" (dst), "+S" (src), "+c" (words)
		     : : "memory");
	len &= 7;
	asm volatile("rep movsb" : "+D" (dst), "+S" (src), "+c" (len)
		     : : "memory");
#else
	memcpy(dst, src, len);
#endif
}

void ibds_gather_pieces(void *dst, struct ibds_pos *pos, u32 len);

/* Copy @len octets to @dst and move @pos on; the list must hold them. */
static __always_inline void ibds_gather(void *dst, struct ibds_pos *pos,
					u32 len)
{
	/* In one piece, as nearly always; there is no list without data. */
	if (likely(len && len <= ibds_pos_span(pos))) {
		ibds_copy(dst, ibds_pos_va(pos), len);
		ibds_pos_advance(pos, len);
	} else {
		ibds_gather_pieces(dst, pos, len);
	}
}

/* The other way round. */
static inline void ibds_scatter(struct ibds_pos *pos, const void *src, u32 len)
{
	u32 n;

	for (; len; len -= n, src += n) {
		n = min(ibds_pos_span(pos), len);
		ibds_copy(ibds_pos_va(pos), src, n);
		ibds_pos_advance(pos, n);
	}
}

/* Move on without copying. */
static inline void ibds_skip(struct ibds_pos *pos, u32 len)
{
	u32 n;

	for (; len; len -= n) {
		n = min(ibds_pos_span(pos), len);
		ibds_pos_advance(pos, n);
	}
}

/* ---- verbs.c ------------------------------------------------------------ */

extern struct workqueue_struct *ibds_datapath_wq;

void ibds_command_wait(u32 ms);
int ibds_object_get(struct ibds_dev *dev, atomic_t *num, u32 max);

/* ---- cq.c --------------------------------------------------------------- */

int ibds_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int ibds_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int ibds_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int ibds_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int ibds_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void ibds_cq_sync(struct ibds_cq *cq);
void ibds_cq_purge(struct ibds_cq *cq, const struct ibds_qp *qp);
void ibds_cq_disown(struct ibds_cq *cq, const struct ibds_qp *qp);
void ibds_cq_event(struct ibds_cq *cq, bool solicited);
struct ibds_cqe *ibds_cq_overrun(struct ibds_cq *cq);
int ibds_vector_cpu(u32 vector);

/**
 * ibds_cq_begin - take the next entry of a CQ
 * @cq: completion queue
 *
 * The caller fills all fields that the opcode defines, then calls ibds_cq_end().
 * Interrupts are disabled.  When the CQ is full it gets an entry nobody reads.
 */
static inline struct ibds_cqe *ibds_cq_begin(struct ibds_cq *cq)
	__acquires(&cq->lock)
{
	spin_lock(&cq->lock);
	if (unlikely(cq->tail - cq->head >= cq->limit))
		return ibds_cq_overrun(cq);
	return &cq->ring[cq->tail & cq->mask];
}

/**
 * ibds_cq_end - make an entry visible, and the event when the CQ is armed
 * @cq: completion queue
 * @cqe: what ibds_cq_begin() gave
 * @solicited: the sender asked for an event, or it completes in error
 */
static inline void ibds_cq_end(struct ibds_cq *cq, const struct ibds_cqe *cqe,
			       bool solicited)
	__releases(&cq->lock)
{
	if (likely(cqe != cq->spare)) {
		/* Pairs with the look at an empty CQ in ibds_poll_cq(). */
		WRITE_ONCE(cq->tail, cq->tail + 1);
		ibds_count(cq->port, cqe);
		if (cq->notify)
			ibds_cq_event(cq, solicited);
	}
	spin_unlock(&cq->lock);
}

/* ---- srq.c -------------------------------------------------------------- */

int ibds_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		    struct ib_udata *udata);
int ibds_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int ibds_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int ibds_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int ibds_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad);
const struct ibds_rwqe *ibds_srq_take(struct ibds_srq *srq,
				      struct ibds_rwqe *copy);

int ibds_rq_alloc(struct ibds_rq *rq, u32 limit, u32 max_sge);
void ibds_rq_free(struct ibds_rq *rq);

static inline struct ibds_rwqe *ibds_rq_slot(const struct ibds_rq *rq, u32 pos)
{
	return rq->ring + (pos & rq->mask) * rq->stride;
}

/**
 * ibds_rq_fill - write an entry of a receive queue
 * @rq: receive queue, locked
 * @pos: where; free
 * @wr: what to receive into
 * @lkey: the only L_Key that is accepted
 */
static inline void ibds_rq_fill(struct ibds_rq *rq, u32 pos,
				const struct ib_recv_wr *wr, u32 lkey)
{
	struct ibds_rwqe *wqe = ibds_rq_slot(rq, pos);
	u64 length = 0;
	u16 bad = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		wqe->sge[i] = *sge;
		length += sge->length;
		bad |= sge->lkey != lkey;
	}
	wqe->wr_id = wr->wr_id;
	wqe->length = min_t(u64, length, U32_MAX);
	wqe->num_sge = wr->num_sge;
	wqe->bad = bad;
}

/* ---- qp.c --------------------------------------------------------------- */

int ibds_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		   struct ib_udata *udata);
int ibds_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int ibds_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init);
int ibds_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void ibds_qp_ask(struct ibds_qp *qp, enum ibds_todo what);
void ibds_qp_set_state(struct ibds_qp *qp, enum ib_qp_state state);
void ibds_path_init(struct ibds_path *path, const struct rdma_ah_attr *attr);
spinlock_t *ibds_lookup_lock(const struct ibds_qp *qp);

static inline bool ibds_qp_special(const struct ibds_qp *qp)
{
	return qp->ib.qp_num <= 1;
}

/* Entry of the port's GID table. */
static inline void ibds_port_gid(const struct ibds_port *port, u32 index,
				 union ib_gid *gid)
{
	gid->global.subnet_prefix = READ_ONCE(port->gid_prefix);
	gid->global.interface_id = index ? READ_ONCE(port->guids[index]) :
					   port->guid;
}

/* Which of the port's 2^LMC LIDs a packet came to. */
static inline u8 ibds_path_bits(const struct ibds_port *port, u16 dlid)
{
	return dlid & ((1 << READ_ONCE(port->lmc)) - 1);
}

/* Does a countdown fault hit this call? */
static inline bool ibds_post_fails(struct ibds_port *port, atomic_t *countdown)
{
	return unlikely(READ_ONCE(port->faults.armed)) &&
	       atomic_dec_if_positive(countdown) >= 0;
}

/* Neither sends nor receives nor completes: the "wedged" faults. */
static inline bool ibds_wedged(const struct ibds_port *port, bool special)
{
	return unlikely(READ_ONCE(port->faults.armed)) &&
	       (special ? READ_ONCE(port->faults.wedged_special) :
			  READ_ONCE(port->faults.wedged));
}

/* Octets of a send, or -1 when an L_Key is wrong. */
static inline s64 ibds_send_length(const struct ibds_qp *qp,
				   const struct ib_send_wr *wr)
{
	const struct ib_sge *sge = wr->sg_list;
	s64 len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++, sge++) {
		if (unlikely(sge->lkey != qp->lkey) &&
		    !(wr->send_flags & IB_SEND_INLINE))
			return -1;
		len += sge->length;
	}
	return len;
}

/* Who has a QPN?  RCU read side.  The numbers of an HCA are consecutive. */
static inline struct ibds_rcv *ibds_rcv_find(const struct ibds_dev *dev, u32 qpn)
{
	struct ibds_rcv *rcv;

	hlist_for_each_entry_rcu(rcv, &dev->qp_hash[qpn & dev->qp_mask], node)
		if (rcv->qpn == qpn)
			return rcv;
	return NULL;
}

static inline bool ibds_qp_wedged(const struct ibds_qp *qp)
{
	return ibds_wedged(qp->port, ibds_qp_special(qp));
}

/**
 * ibds_rcv_take - consume a receive
 * @rcv: receive side, locked
 *
 * Return: the entry, valid until @rcv->lock is dropped, or NULL when there is
 * none.
 */
static inline const struct ibds_rwqe *ibds_rcv_take(struct ibds_rcv *rcv)
{
	struct ibds_rq *rq = &rcv->rq;

	if (rcv->srq)
		return ibds_srq_take(rcv->srq, rcv->wqe);
	/* Pairs with smp_store_release() in ibds_post_recv(). */
	if (rq->head == smp_load_acquire(&rq->tail))
		return NULL;
	return ibds_rq_slot(rq, rq->head++);
}

/*
 * Membership rules for P_Keys, IBA vol 1, 10.9.3: same base, and one of the two
 * at least is a full member.  Base 0 is invalid.
 */
static inline bool ibds_pkey_match(u16 a, u16 b)
{
	return !((a ^ b) & IBDS_PKEY_BASE) && (a & IBDS_PKEY_BASE) &&
	       ((a | b) & IBDS_PKEY_FULL);
}

/* ---- sq.c --------------------------------------------------------------- */

int ibds_sq_alloc(struct ibds_sq *sq, const struct ib_qp_cap *cap, bool lazy);
void ibds_sq_free(struct ibds_sq *sq);
void ibds_sq_run(struct ibds_qp *qp, struct list_head *later, bool deferred);
int ibds_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad);

/* ---- rcv.c -------------------------------------------------------------- */

struct ibds_rcv *ibds_rcv_alloc(struct ibds_qp *qp,
				const struct ib_qp_init_attr *init);
void ibds_rcv_free(struct ibds_rcv *rcv);
void ibds_rcv_open(struct ibds_qp *qp);
void ibds_rcv_flush(struct ibds_qp *qp);
void ibds_rcv_fail(struct ibds_rcv *rcv, const struct ibds_rwqe *wqe,
		   enum ib_wc_status status);
int ibds_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad);

/* ---- mcast.c ------------------------------------------------------------ */

int ibds_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int ibds_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
void ibds_detach_all(struct ibds_qp *qp);
struct hlist_head *ibds_mcast_bucket(struct ibds_port *port,
				     const union ib_gid *mgid);

/* ---- ud.c --------------------------------------------------------------- */

/**
 * enum ibds_later - what becomes of a packet once sq.lock is dropped
 * @IBDS_LATER_DATA: goes from pkt->from to pkt->to, which have faults or a
 *	mirror
 * @IBDS_LATER_MIRROR: shown to the mirror of pkt->from
 * @IBDS_LATER_MIRROR_RX: shown to the mirror of pkt->to
 * @IBDS_LATER_MAD: sent by QP0 or QP1 of pkt->from
 * @IBDS_LATER_BAD_PKEY: had a P_Key that pkt->to does not accept
 * @IBDS_LATER_BAD_QKEY: had a wrong Q_Key
 */
enum ibds_later {
	IBDS_LATER_DATA,
	IBDS_LATER_MIRROR,
	IBDS_LATER_MIRROR_RX,
	IBDS_LATER_MAD,
	IBDS_LATER_BAD_PKEY,
	IBDS_LATER_BAD_QKEY,
};

void ibds_later_run(struct list_head *later);
bool ibds_port_has_gid(const struct ibds_port *port, const union ib_gid *gid);
enum ib_wc_status ibds_ud_send(struct ibds_qp *qp, const struct ib_ud_wr *wr,
			       struct list_head *later);
enum ib_wc_status ibds_mad_post(struct ibds_qp *qp, const struct ib_ud_wr *wr,
				struct list_head *later);
void ibds_grh_build(struct ib_grh *grh, const struct ibds_path *path,
		    const struct ibds_port *port);

/* ---- rc.c --------------------------------------------------------------- */

void ibds_rc_arrive(struct ibds_port *to, const struct ibds_pkt *pkt);
enum ib_wc_status ibds_rc_send(struct ibds_qp *qp, const struct ib_send_wr *wr,
			       struct list_head *later);
enum hrtimer_restart ibds_rc_timer(struct hrtimer *timer);

#endif /* IBDEVSIM_DATAPATH_H */
