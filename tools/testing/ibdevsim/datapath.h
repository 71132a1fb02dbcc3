/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: structures of the datapath, that is, of the verbs objects.  All of
 * its files may access them since packets pass through them; functions are
 * declared in the header of their file.
 *
 * A send runs in the caller of ib_post_send(), under its own sq.lock, and
 * copies from the sender's buffers to the receiver's.  Struct ibds_rcv holds
 * the part of the receiving QP that a sender needs.  It is looked up under RCU
 * and outlives the QP: ib_core frees an ib_qp as soon as destroy_qp() returns,
 * and a grace period there would slow every teardown.
 *
 * Locks, outermost first, interrupts disabled under all of them:
 *
 *   sq.lock    of the sending QP: send queue, state
 *   arrivals   of a port: in place of sq.lock, for packets not on the fast path
 *   rcv->lock  of the receiving QP: serializes deliveries, so that receive
 *              completions are in posting order; receive state
 *   rq->lock   producers of a receive queue; for an SRQ its consumers too
 *   cq->lock   completions; also the slots that polling frees
 *
 * Nothing outside the datapath that takes a lock is called under them: packets
 * that leave the fast path wait on a list until sq.lock is dropped
 * (ibds_later_run()).
 */
#ifndef IBDEVSIM_DATAPATH_H
#define IBDEVSIM_DATAPATH_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/smp.h>

#include "addr.h"
#include "ibdevsim.h"

/* Bytes of LSO header or inline data that a queued send can hold. */
#define IBDS_MAX_INLINE		256

#define IBDS_AH_MAGIC		0x61682121
#define IBDS_AH_POISON		0xdeadadd2

/* Opcode of an error completion, which has no defined one: an invalid value. */
#define IBDS_WC_UNDEFINED	0x5a

/* Not in enum ib_wc_status: the request stays first in the queue. */
#define IBDS_WAIT		((enum ib_wc_status)0x100)

#define IBDS_MAX_MTU		4096
/* The longest message, and what is copied of it at a time, interrupts off. */
#define IBDS_MAX_MSG		SZ_1G
#define IBDS_SEGMENT		SZ_64K
#define IBDS_PSN_MASK		0xffffff

/* QPNs 2 to 63 stay unused; 0xffffff is multicast. */
#define IBDS_QPN_FIRST		64
#define IBDS_QPN_LAST		(IBDS_QPN_MULTICAST - 1)

/* Requests of a user's QP that are executed before its lock is dropped. */
#define IBDS_BURST		16

/*
 * Flags of send requests of accelerated interfaces: checksums of IPv6, too, and
 * a stamp when the packet leaves.
 */
#define IBDS_SEND_CSUM_V6	IB_SEND_RESERVED_START
#define IBDS_SEND_STAMP		(IB_SEND_RESERVED_START << 1)

/* L_Key of QPs that may only use regions: no key has this value. */
#define IBDS_NO_LKEY		U64_MAX

/* Groups that a QP of user space can be attached to. */
#define IBDS_USER_GROUPS	256
/* QPs of user space that can be attached to a group, at a port. */
#define IBDS_USER_MEMBERS	256

struct ibds_qp;
struct ibds_rss;
struct ibds_rx_meta;

/**
 * struct ibds_pd - protection domain
 * @ib: ib_core's part
 * @user: it is user space's
 */
struct ibds_pd {
	struct ib_pd ib;
	bool user;
};

/**
 * struct ibds_ah - address handle
 * @ib: ib_core's part
 * @magic: %IBDS_AH_MAGIC, %IBDS_AH_POISON once destroyed
 * @port_num: port it belongs to
 * @path: used by sends
 * @attr: attributes given by the consumer
 * @user: it is user space's
 */
struct ibds_ah {
	struct ib_ah ib;
	u32 magic;
	u32 port_num;
	struct ibds_path path;
	struct rdma_ah_attr attr;
	bool user;
};

/**
 * struct ibds_cqe - a completion and the slots that polling it frees
 * @wc: as the consumer will see it; the fields after dlid_path_bits and
 *	port_num are for Ethernet and neither filled nor copied
 * @sq_slots: send queue slots that become free when this entry is polled
 *	(unsignalled requests before it included); 0: one receive queue slot;
 *	%IBDS_CQE_STALE: none, the QP has been reset, or they were retired before;
 *	%IBDS_CQE_EXTRA: none, and nobody expects it but for a fault
 */
struct ibds_cqe {
	struct ib_wc wc;
	s32 sq_slots;
};

#define IBDS_CQE_STALE		(-1)
#define IBDS_CQE_EXTRA		(-2)

/**
 * struct ibds_held - a completion that a fault holds back, or lost
 * @entry: in ibds_cq.held or ibds_cq.missing
 * @due: jiffies when it is reported, if it is held back
 * @solicited: as for ibds_cq_end()
 * @reset: its QP has been reset meanwhile
 * @cqe: the completion
 */
struct ibds_held {
	struct list_head entry;
	unsigned long due;
	bool solicited;
	bool reset;
	struct ibds_cqe cqe;
};

/**
 * struct ibds_cq - completion queue
 * @ib: ib_core's part
 * @entry: in dev->cqs
 * @lock: protects all but @entry, @irq_pending, @irq_running, @comp and @todo
 * @ring: entries, a power of two
 * @spare: entry to fill from @limit entries on, for ibds_cq_odd()
 * @mask: entries of @ring less one
 * @limit: entries from which on senders fill @spare: @room, but 0 while a fault may
 *	concern completions
 * @room: entries the consumer asked for
 * @head: next to poll
 * @tail: next to fill
 * @notify: armed: %IB_CQ_NEXT_COMP or %IB_CQ_SOLICITED, 0 when not
 * @overrun: the CQ has overrun; IB_EVENT_CQ_ERR is raised once
 * @lost: a fault suppressed an event
 * @held: completions that a fault holds back, struct ibds_held, the first due first
 * @missing: those of the kernel's QPs that a fault lost, until its HCA goes
 * @helds: entries of both
 * @held_work: reports them
 * @cpu: CPU of the completion vector
 * @port: port that counts the interrupts and has the cost model
 * @mod_count: moderation: completions per event
 * @mod_period: moderation: microseconds until an event is raised anyway
 * @mod_pending: completions since the last event
 * @mod_timer: runs for @mod_period
 * @irq_pending: @csd is in flight
 * @irq_running: handlers running because of @csd
 * @irq_work: interrupts this CPU
 * @csd: interrupts another CPU
 * @soft: calls the handler if a softirq has to
 * @comp_ctx: where the handler is called
 * @user: it is user space's
 * @charged: memory taken from the limit for user space
 * @comp: calls the handler
 * @todo: raises IB_EVENT_CQ_ERR
 */
struct ibds_cq {
	struct ib_cq ib;
	struct list_head entry;
	spinlock_t lock;	/* ring, arming, moderation */
	struct ibds_cqe *ring;
	struct ibds_cqe *spare;
	u32 mask;
	u32 limit;
	u32 room;
	u32 head;
	u32 tail;
	u8 notify;
	bool overrun;
	bool lost;
	struct list_head held;
	struct list_head missing;
	u32 helds;
	struct delayed_work held_work;
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
	struct tasklet_struct soft;
	enum ibds_comp_ctx comp_ctx;
	bool user;
	u64 charged;
	struct work_struct comp;
	struct work_struct todo;
};

/**
 * struct ibds_rwqe - a posted receive
 * @wr_id: of the request
 * @length: bytes it has room for
 * @num_sge: entries of @sge
 * @mapped: has an L_Key that is not the queue's, which is looked up at use
 * @sge: buffers
 */
struct ibds_rwqe {
	u64 wr_id;
	u32 length;
	u16 num_sge;
	u16 mapped;
	struct ib_sge sge[];
};

/**
 * struct ibds_rq - a receive queue: of a QP or of an SRQ
 * @lock: of producers; protects @tail
 * @ring: struct ibds_rwqe, @stride bytes apart, a power of two
 * @mask: entries of @ring less one
 * @stride: bytes per entry
 * @limit: entries the consumer asked for
 * @max_sge: scatter/gather entries per request
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
 * @ib: ib_core's part
 * @rq: receive queue; entries are free as soon as a QP takes them
 * @watermark: fewer entries raise IB_EVENT_SRQ_LIMIT_REACHED, 0: never
 * @lkey: L_Key that needs no look-up
 * @user: it is user space's
 * @charged: memory taken from the limit for user space
 * @todo: raises that event
 */
struct ibds_srq {
	struct ib_srq ib;
	struct ibds_rq rq;
	u32 watermark;
	u64 lkey;
	bool user;
	u64 charged;
	struct work_struct todo;
};

/**
 * struct ibds_rcv - receive side of a QP, which senders look up
 * @node: in dev->qp_hash; special QPs are not in there
 * @qpn: QPN
 * @lock: protects everything here, and the use of @qp
 * @qp: NULL once the QP is destroyed
 * @ud_on: port to take datagrams from, NULL while closed
 * @rc_on: the same for RC
 * @pkey_index: index into the port's P_Key table
 * @qkey: Q_Key
 * @remote_qpn: RC: the QP it is connected to
 * @remote_lid: RC: LID of that QP
 * @rnr_timer: RC: encoded delay sent in RNR NAKs
 * @access: RC: IB_ACCESS_REMOTE_* that peers have
 * @rd_atom: RC: peers may send RDMA READs and atomics
 * @partial: RC: the receive that is filled by a message of several segments
 * @rtr: QP is in RTR: the next message raises IB_EVENT_COMM_EST
 * @broken: a receive error takes the QP to ERR
 * @csum: HCA verifies checksums
 * @block_loopback: multicasts of this QP are not looped back to it
 * @phys: SGE addresses are DMA addresses
 * @cq: receive CQ
 * @srq: SRQ or NULL
 * @rq: own receive queue
 * @wqe: copy of the entry taken from @srq
 * @bounce: one MTU, for datagrams received into several SGEs
 * @rss: datagrams are received by the channels of an accelerated interface
 * @rss_on: port to take such datagrams from, NULL while closed
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
	u16 access;
	bool rd_atom;
	const struct ibds_rwqe *partial;
	struct ibds_qp *qp;
	struct ibds_port *ud_on;
	struct ibds_port *rc_on;
	struct ibds_cq *cq;
	struct ibds_srq *srq;
	struct ibds_rwqe *wqe;
	u8 *bounce;
	struct ibds_rq rq;
	struct ibds_rss *rss;
	struct ibds_port *rss_on;
	struct rcu_head rcu;
};

/**
 * struct ibds_swqe - a send that could not be executed when it was posted
 * @wr: copy of the request
 * @ud: for UD
 * @rdma: RC: RDMA WRITE and READ
 * @atomic: RC: atomic operations
 * @reg: RC: registration of a region
 * @sge: copy of its list, then room for header or inline data
 */
struct ibds_swqe {
	union {
		struct ib_send_wr wr;
		struct ib_ud_wr ud;
		struct ib_rdma_wr rdma;
		struct ib_atomic_wr atomic;
		struct ib_reg_wr reg;
	};
	struct ib_sge sge[];
};

/**
 * struct ibds_sq - send queue
 * @lock: protects everything here but @retired, and the QP's state
 * @limit: requests the consumer asked for
 * @posted: requests ever posted
 * @retired: how many of these polled completions retired; under the CQ's lock
 * @unsignalled: requests executed since the last completion
 * @psn: of the next packet
 * @max_sge: scatter/gather entries per request
 * @head: next in @slot to execute
 * @tail: where to put the next request that has to wait
 * @mask: entries of @slot less one
 * @stride: bytes per entry
 * @slot: the entries; for a UD QP, whose requests rarely wait, allocated on
 *	first use
 * @ring: for other QPs: all entries in one allocation
 * @max_inline: bytes of inline data or LSO header
 * @sig_all: every request is signalled
 * @lso: LSO is allowed
 * @keep_ah: UD: entries have room for their address handle, which user space may
 *	destroy before they are executed
 * @waiting: RC: nothing runs until the timer has fired
 * @retries: RC: retries left for the first request
 * @rnr_retries: RC: the same after RNR NAKs
 * @late: RC: the delay fault has been applied to the first request
 * @give_up: RC: the first request has no retries left
 * @rnr_pause: RC: nanoseconds that a user's first request waited for after the
 *	last RNR NAK, 0: there was none
 * @done: RC: bytes of the first request that have been transferred
 * @bounce: UD: one MTU, for datagrams that come from regions
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
	bool keep_ah;
	bool waiting;
	bool late;
	bool give_up;
	u8 retries;
	u8 rnr_retries;
	u32 rnr_pause;
	u32 done;
	u8 *bounce;
};

/**
 * enum ibds_todo - requests to the work item of a QP
 * @IBDS_TODO_RUN: execute or flush queued sends
 * @IBDS_TODO_ERR: go to ERR
 * @IBDS_TODO_SQE: go to SQE
 * @IBDS_TODO_FATAL: raise IB_EVENT_QP_FATAL
 * @IBDS_TODO_LAST_WQE: raise IB_EVENT_QP_LAST_WQE_REACHED
 * @IBDS_TODO_COMM_EST: raise IB_EVENT_COMM_EST
 * @IBDS_TODO_DRAINED: raise IB_EVENT_SQ_DRAINED
 * @IBDS_TODO_ACCESS: raise IB_EVENT_QP_ACCESS_ERR
 * @IBDS_TODO_INVALID: raise IB_EVENT_QP_REQ_ERR
 */
enum ibds_todo {
	IBDS_TODO_RUN,
	IBDS_TODO_ERR,
	IBDS_TODO_SQE,
	IBDS_TODO_FATAL,
	IBDS_TODO_LAST_WQE,
	IBDS_TODO_COMM_EST,
	IBDS_TODO_DRAINED,
	IBDS_TODO_ACCESS,
	IBDS_TODO_INVALID,
};

/**
 * struct ibds_face - what completions of a user's QP point to
 * @list: free ones of the process
 * @qp: only its number is valid
 *
 * ib_uverbs_poll_cq() reads the number after the CQ is unlocked, when the QP may
 * have been destroyed by another thread.  So this lives as long as the process
 * has the device open.
 */
struct ibds_face {
	struct list_head list;
	struct ib_qp qp;
};

/**
 * struct ibds_ucontext - a process that has the device open
 * @ib: ib_core's part
 * @lock: protects @faces
 * @faces: those of destroyed QPs, the oldest first
 */
struct ibds_ucontext {
	struct ib_ucontext ib;
	struct mutex lock;	/* faces */
	struct list_head faces;
};

/**
 * struct ibds_qp - queue pair
 * @ib: ib_core's part
 * @port: valid from INIT on, port 1 before
 * @rcv: receive side
 * @send_cq: where sends complete
 * @state: changes under sq.lock and rcv->lock
 * @lkey: L_Key that needs no look-up, %IBDS_NO_LKEY for user space
 * @user: it is user space's
 * @charged: memory taken from the limit for user space
 * @ucontext: user space's
 * @face: for user space
 * @pkey_index: index into the port's P_Key table
 * @phys: SGE addresses are DMA addresses
 * @csum: HCA computes checksums
 * @block_loopback: its multicasts are not looped back to it
 * @last_wqe: IB_EVENT_QP_LAST_WQE_REACHED was raised since RESET
 * @qkey: Q_Key
 * @sqpn: QP that its packets come from, as they say
 * @meta: of a channel of an accelerated interface: what is told of packets beside
 *	their completions, by wr_id; NULL for other QPs
 * @stamps: of a channel: when packets left, by wr_id
 * @ring: of a channel: its bit of faults.wedged_rings; 0 for other QPs, and
 *	for rings beyond the first 32
 * @rq_retired: own receives whose completion was polled; under the CQ's lock
 * @sq: send queue
 * @av: RC: address vector
 * @remote_qpn: RC: QPN of the peer
 * @mtu_shift: RC: binary logarithm of the path MTU
 * @attr: attributes for ib_query_qp(), retries and the SQD event
 * @create_flags: for ib_query_qp()
 * @timer: RC: RNR, retry and artificial delay
 * @todo: bits of enum ibds_todo
 * @work: work item that handles @todo
 * @mcast: attachments, under the lock of the HCA's first port
 * @groups: entries of @mcast
 */
struct ibds_qp {
	struct ib_qp ib;
	struct ibds_port *port;
	struct ibds_rcv *rcv;
	struct ibds_cq *send_cq;
	enum ib_qp_state state;
	u64 lkey;
	u16 pkey_index;
	bool phys;
	bool csum;
	bool block_loopback;
	bool last_wqe;
	bool user;
	u64 charged;
	struct ibds_ucontext *ucontext;
	struct ibds_face *face;
	u32 qkey;
	u32 sqpn;
	struct ibds_rx_meta *meta;
	u64 *stamps;
	u32 ring;
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
	u32 groups;
};

/**
 * struct ibds_attach - attachment of a QP to a multicast group
 * @node: in port->mcast
 * @in_qp: in qp->mcast
 * @mgid: group
 * @mlid: multicast LID that its packets must have
 * @user: the QP is user space's
 * @count: times attached
 * @rcv: receive side of the QP
 * @rcu: frees it
 */
struct ibds_attach {
	struct hlist_node node;
	struct list_head in_qp;
	union ib_gid mgid;
	u16 mlid;
	bool user;
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
IBDS_TO(ucontext)
IBDS_TO(ah)
IBDS_TO(cq)
IBDS_TO(qp)
IBDS_TO(srq)
#undef IBDS_TO

/**
 * ibds_lookup_lock - the lock for changes to what senders look up
 * @qp: a QP of the HCA
 *
 * Return: the lock of the HCA's first port.
 */
static inline spinlock_t *ibds_lookup_lock(const struct ibds_qp *qp)
{
	return &to_ibds_dev(qp->ib.device)->port[0].lock;
}

static inline bool ibds_qp_special(const struct ibds_qp *qp)
{
	return qp->ib.qp_num <= 1;
}

/* True if a countdown fault hits this call. */
static inline bool ibds_post_fails(struct ibds_port *port, atomic_t *countdown)
{
	return unlikely(READ_ONCE(port->faults.armed)) &&
	       atomic_dec_if_positive(countdown) >= 0;
}

/* True if the port is wedged: it neither sends, receives nor completes. */
static inline bool ibds_wedged(const struct ibds_port *port, bool special)
{
	return unlikely(READ_ONCE(port->faults.armed)) &&
	       (special ? READ_ONCE(port->faults.wedged_special) :
			  READ_ONCE(port->faults.wedged));
}

/* Bytes of a send, or -1 when an L_Key has to be looked up. */
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

/* Bytes of a send. */
static inline u64 ibds_wr_length(const struct ib_send_wr *wr)
{
	u64 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

/* Look up a QPN.  RCU read side.  The QPNs of an HCA are consecutive. */
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
	const struct ibds_faults *faults = &qp->port->faults;

	return unlikely(READ_ONCE(faults->armed)) &&
	       (ibds_wedged(qp->port, ibds_qp_special(qp)) ||
		(READ_ONCE(faults->wedged_rings) & qp->ring));
}

#endif /* IBDEVSIM_DATAPATH_H */
