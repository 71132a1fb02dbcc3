/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * IP over InfiniBand (RFC 4391, 4392): what the rooms of the driver share
 *
 * A file is one room; the structures below are grouped by the room that owns
 * them, and only that room looks inside.  Lock order is stated at the top of
 * ipoib_main.c.
 */
#ifndef IPOIB_H
#define IPOIB_H

#include <linux/completion.h>
#include <linux/dim.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/if_infiniband.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/rhashtable-types.h>
#include <linux/skbuff.h>
#include <linux/timer.h>
#include <linux/u64_stats_sync.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "ipoib_dev.h"
#include "ipoib_fit.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"

struct ipoib_cm;
struct ipoib_cm_port;
struct ipoib_link;
struct ipoib_rc_chain;
struct page_pool;
struct rtnl_link_ops;
struct seq_file;

/*
 * The interoperation build lives beside the distribution's module in one
 * kernel, so everything that is registered by name carries another one.
 */
#ifdef IPOIB_INTEROP
#define IPOIB_NAME		"ib_ipoib_interop"
#define IPOIB_KIND		"ipoib_interop"
#else
#define IPOIB_NAME		"ib_ipoib"
#define IPOIB_KIND		"ipoib"
#endif

#define IPOIB_QUEUE_MIN		2
#define IPOIB_QUEUE_MAX		8192

#define IPOIB_GRH_LEN		((u32)sizeof(struct ib_grh))
#define IPOIB_MTU_MIN		(ETH_MIN_MTU + IPOIB_ENCAP_LEN)

/* Octets to allocate for @len octets that become the linear part of an skb. */
static inline u32 ipoib_rx_head_size(u32 len)
{
	return SKB_DATA_ALIGN(len) +
	       SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
}

/* Note that something was used; the cache line is written once a tick. */
static inline void ipoib_stamp(unsigned long *stamp)
{
	unsigned long now = jiffies;

	if (READ_ONCE(*stamp) ^ now)
		WRITE_ONCE(*stamp, now);
}

/* ---- channels and receive queues: ipoib_port.c, ipoib_ib.c -------------- */

#define IPOIB_WC_BATCH		16	/* completions taken in one poll */
#define IPOIB_POST_BATCH	16U	/* work requests posted in one chain */

/* Room before @len bytes, so that what follows them stands on a cache line. */
#define IPOIB_PAD(len)		(NET_SKB_PAD - (len) % NET_SKB_PAD)
/* Room before a datagram, so that the IP header does. */
#define IPOIB_RX_PAD		IPOIB_PAD(IPOIB_GRH_LEN + IPOIB_ENCAP_LEN)
#define IPOIB_RX_BUFS		4	/* most that a receive is made of */
#define IPOIB_RX_PAGES		DIV_ROUND_UP(65536, PAGE_SIZE)

/**
 * struct ipoib_rx_format - what the receives of a queue are made of
 *
 * The first buffer becomes the linear part of an skb, the others pages of it;
 * what a packet does not reach stays in its slot.
 *
 * @num: most buffers
 * @pad: bytes left free before the first
 * @total: bytes the HCA may write, in as many buffers as that takes
 * @pool: where each comes from
 * @size: bytes to allocate
 * @len: bytes the HCA may write
 * @cut: those behind the first are whole pages, and what a packet leaves of one
 *	is used again
 * @pages: single pages that can stand in for them, 0 if the HCA does not take
 *	so many pieces
 * @less: format of smaller buffers for want of these, or NULL
 */
struct ipoib_rx_format {
	u32 num;
	u32 pad;
	u32 total;
	struct page_pool *pool[IPOIB_RX_BUFS];
	u32 size[IPOIB_RX_BUFS];
	u32 len[IPOIB_RX_BUFS];
	bool cut;
	u32 pages;
	const struct ipoib_rx_format *less;
};

/**
 * struct ipoib_rx_pages - single pages behind the head of a slot
 * @va: pages
 * @sge: head and pages as the HCA is given them
 */
struct ipoib_rx_pages {
	void *va[IPOIB_RX_PAGES];
	struct ib_sge sge[IPOIB_RX_PAGES + 1];
};

/**
 * struct ipoib_rx_slot - the buffers of a receive
 * @buf: where the HCA writes; NULL while there is no buffer.  Where pages are
 *	cut, the second alone may be the rest of one
 * @pages: in the place of all but the first, while no large ones can be had
 * @format: what they are like; NULL while there are none
 * @posted: the HCA may write into them
 */
struct ipoib_rx_slot {
	void *buf[IPOIB_RX_BUFS];
	struct ipoib_rx_pages *pages;
	const struct ipoib_rx_format *format;
	bool posted;
};

/**
 * struct ipoib_rxq - receive buffers of an SRQ, or of one QP without SRQ
 *
 * Only the channel's NAPI, or the owner while that NAPI is disabled, touches
 * it: no lock.
 *
 * @srq: shared receive queue the buffers are posted to, or NULL
 * @qp: the QP they are posted to when there is no SRQ
 * @ch: channel whose NAPI serves it
 * @format: what its next receives are made of, written by anybody
 * @slots: @size receives; the work request id is the index
 * @free: stack of slots that are not posted
 * @nfree: entries on @free
 * @size: number of slots
 * @used: slots in use, the first ones; an SRQ grows with its users
 * @want: slots that shall be posted, written by anybody.  If that is less than
 *	@used, the others stay free
 * @taken: receives completed since the last poll ended
 * @backlog: and before, since the CQs were last empty
 * @emptied: ipoib_channel.emptied at that time
 * @elastic: grows when much of it is taken before the CQs are empty
 * @dirty: entry in the channel's list of queues to refill before the poll ends
 * @wr: chain of requests, linked once
 * @sge: their buffers
 */
struct ipoib_rxq {
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct ipoib_channel *ch;
	const struct ipoib_rx_format *format;
	struct ipoib_rx_slot *slots;
	u16 *free;
	u32 nfree;
	u32 size;
	u32 used;
	u32 want;
	u32 taken;
	u32 backlog;
	u32 emptied;
	bool elastic;
	struct list_head dirty;
	struct ib_recv_wr wr[IPOIB_POST_BATCH];
	struct ib_sge sge[IPOIB_POST_BATCH][IPOIB_RX_BUFS];
};

/**
 * struct ipoib_cq - a CQ of a channel, shared by QPs
 * @ib: the verbs object
 * @entry: in the channel's list, RCU
 * @room: completions not promised to any QP (port lock)
 * @users: QPs that use it (port lock)
 * @behind: completions that may still precede the barrier (NAPI)
 * @armed: an interrupt was asked for and has not been seen; of send CQs
 * @moderated: it was told how to hold interrupts back; of receive CQs
 */
struct ipoib_cq {
	struct ib_cq *ib;
	struct list_head entry;
	u32 room;
	u32 users;
	s32 behind;
	bool armed;
	bool moderated;
};

/* Packets in flight beyond which a completion interrupt is asked for. */
#define IPOIB_TX_ARM		16

static inline bool ipoib_tx_should_arm(const struct ipoib_cq *cq, u32 flying,
				       bool urgent)
{
	return (flying >= IPOIB_TX_ARM || urgent) && !READ_ONCE(cq->armed);
}

/*
 * Is half of the sending socket's buffer in use?  Then its owner may soon wait
 * until a packet completes, which must raise an interrupt.
 */
static inline bool ipoib_tx_owner_short(const struct sk_buff *skb)
{
	return skb->sk && sk_fullsock(skb->sk) && !sock_writeable(skb->sk);
}

/**
 * struct ipoib_cq_list - CQs of a channel that report the same
 * @list: struct ipoib_cq.entry; changed under the port's lock, RCU
 * @num: how many (port lock)
 */
struct ipoib_cq_list {
	struct list_head list;
	u32 num;
};

/**
 * struct ipoib_cqs - a QP's share of its channel's CQs, see ipoib_cq_get()
 * @tx: reports its sends
 * @rx: reports its receives; NULL if it has none
 * @sends: completions reserved in @tx
 * @receives: completions reserved in @rx
 */
struct ipoib_cqs {
	struct ipoib_cq *tx;
	struct ipoib_cq *rx;
	u32 sends;
	u32 receives;
};

/**
 * enum ipoib_flush - how far a channel's barrier has come
 * @IPOIB_FLUSH_NONE: nobody asked
 * @IPOIB_FLUSH_ASKED: the next poll begins with it
 * @IPOIB_FLUSH_BEGUN: the poll function empties the CQs past what they held
 * @IPOIB_FLUSH_DONE: GRO was flushed; the next poll says so
 */
enum ipoib_flush {
	IPOIB_FLUSH_NONE,
	IPOIB_FLUSH_ASKED,
	IPOIB_FLUSH_BEGUN,
	IPOIB_FLUSH_DONE,
};

/**
 * struct ipoib_count - packets and their bytes, with one writer at a time
 * @packets: packets
 * @bytes: their bytes
 * @sync: keeps readers from halves, where a word has 32 bits
 */
struct ipoib_count {
	u64_stats_t packets;
	u64_stats_t bytes;
	struct u64_stats_sync sync;
};

static inline void ipoib_count_add(struct ipoib_count *count, u64 packets,
				   u64 bytes)
{
	u64_stats_update_begin(&count->sync);
	u64_stats_add(&count->packets, packets);
	u64_stats_add(&count->bytes, bytes);
	u64_stats_update_end(&count->sync);
}

static inline void ipoib_count_get(const struct ipoib_count *count,
				   u64 *packets, u64 *bytes)
{
	unsigned int start;

	do {
		start = u64_stats_fetch_begin(&count->sync);
		*packets = u64_stats_read(&count->packets);
		*bytes = u64_stats_read(&count->bytes);
	} while (u64_stats_fetch_retry(&count->sync, start));
}

#define IPOIB_MAX_CHANNELS	16

/**
 * struct ipoib_adapt - what a channel had done when DIM was last asked
 * @received: packets
 * @sent: packets, of all channels of the port
 * @irqs: interrupts for receives
 */
struct ipoib_adapt {
	u32 received;
	u32 sent;
	u16 irqs;
};

/**
 * struct ipoib_channel - a completion vector's share of a port
 *
 * CQs, NAPI, receive buffers and the SRQ, shared by the QPs of the port that
 * were given this channel.  The NAPI context belongs to the parent's
 * net_device.  What receiving takes is made when the first QP needs it.
 *
 * @port: its port
 * @index: which of the port's
 * @rx_cqs: completions of receives
 * @tx_cqs: completions of sends; armed only when a queue needs it, see
 *	ipoib_txq_watch()
 * @rx_share: receives taken from a CQ before the next one's turn
 * @rx_turn: CQs that the next poll passes over at first, as the last one did
 *	not get beyond them (NAPI)
 * @vector: completion vector
 * @cq_work: destroys CQs that no QP uses any more
 * @napi: serves all CQs
 * @rxq: buffers of the SRQ; rxq.srq is NULL if the HCA has none for UD
 * @dirty: receive queues with slots to refill
 * @emptied: polls that left no receive in the CQs (NAPI)
 * @pool: receive pages, NULL before the first QP that receives
 * @small: pages for copies of small packets, likewise
 * @pages: single pages for when no others can be had, likewise; NULL where a
 *	page is as large as those of the other pools
 * @split: receives for datagrams that mostly fit a head
 * @whole: in one piece, on links whose datagrams may be longer
 * @bql: transmit queues that handed packets to connections, see
 *	ipoib_txq_handed()
 * @refill_timer: tries again when no buffer could be had or posted
 * @barriers: how many were begun
 * @flush: progress of ipoib_channel_barrier(), enum ipoib_flush
 * @flushed: the barrier was passed
 * @qps: datagram QPs that receive here (port lock)
 * @users: of these, those of interfaces that are open (port lock)
 * @irqs: interrupts for receives
 * @rx: what was received, of all interfaces (NAPI)
 * @sent: packets that were sent, a hint for DIM
 * @adapt: as things were when it was last asked (NAPI)
 * @dim: adapts how interrupts are held back
 * @hold_usecs: how long to wait for packets after a poll, if the HCA has no
 *	moderation
 * @hold_timer: ends that
 * @held: it is going to
 * @gro_used: GRO may hold packets (NAPI)
 * @wc: scratch of the poll function
 */
struct ipoib_channel {
	struct ipoib_port *port;
	u32 index;
	struct ipoib_cq_list rx_cqs;
	struct ipoib_cq_list tx_cqs;
	u32 rx_share;
	u32 rx_turn;
	u32 vector;
	struct delayed_work cq_work;
	struct napi_struct napi;
	struct ipoib_rxq rxq;
	struct list_head dirty;
	u32 emptied;
	struct page_pool *pool;
	struct page_pool *small;
	struct page_pool *pages;
	struct ipoib_rx_format split;
	struct ipoib_rx_format whole;
	struct llist_head bql;
	struct timer_list refill_timer;
	u32 barriers;
	u8 flush;
	struct completion flushed;
	u32 qps;
	u32 users;
	u16 irqs;
	struct ipoib_count rx;
	u32 sent;
	struct ipoib_adapt adapt;
	struct dim dim;
	u32 hold_usecs;
	struct hrtimer hold_timer;
	bool held;
	bool gro_used;
	struct ib_wc wc[IPOIB_WC_BATCH];
};

/* ---- port: ipoib_port.c ------------------------------------------------- */

#define IPOIB_PATH_SOURCES	1024	/* buckets of sources by LID */
#define IPOIB_PATH_HEARD	8192

#define IPOIB_PATH_RANKS	20	/* of sources by the number of paths */

/**
 * struct ipoib_path_source - paths that take turns with those of other sources
 *
 * A LID is the source of the paths to addresses that a packet from it told and
 * that the SA has not answered for yet.  A host cannot choose the LID it sends
 * from, so whoever forges addresses gets one share of all there is.  Likewise
 * an interface is the source of those that only local senders asked for, so
 * that a container gets one share, too.
 *
 * @node: in the port's table
 * @lid: LID; 0 for an interface's source and the port's own two
 * @num: paths
 * @rank: in ipoib_port.path_ranks, if its paths have no handle
 * @inflight: queries under way
 * @share: most of them that it may have now; each refusal makes it smaller
 * @bytes: memory of the packets that wait
 * @paths: struct ipoib_path.member; oldest first, but those that were asked for
 *	behind the others
 * @ready: paths in QUEUED, struct ipoib_path.wait
 * @turn: in ipoib_port.path_turns while it may ask for one of @ready
 */
struct ipoib_path_source {
	struct hlist_node node;
	u16 lid;
	u32 num;
	struct list_head rank;
	u32 inflight;
	u32 share;
	u32 bytes;
	struct list_head paths;
	struct list_head ready;
	struct list_head turn;
};

/**
 * struct ipoib_port - what all interfaces of one HCA port share
 * @ca: HCA
 * @num: port number, from 1
 * @ref: references: the port itself and each SA query in flight
 * @pd: protection domain of everything on this port
 * @marker_ah: address of the request that marks the end of a draining queue
 * @parent: the port's parent interface, owner of the NAPI contexts
 * @sendq_size: packets a transmit queue holds, a power of two
 * @recvq_size: buffers of a receive queue
 * @mtu: largest that the port could ever have, octets
 * @srq_size: most buffers that a datagram SRQ may have
 * @rx_pending: buffers that it has while it has few users (rtnl)
 * @srq_room: completions that all SRQs of a channel together may owe one CQ
 * @no_srq: the HCA has no SRQ for UD
 * @rx_whole: there is a link whose datagrams are longer than a head (@lock)
 * @channels: a completion vector each, @num_channels of them
 * @num_channels: those there are
 * @rx_frames: interrupts are held back for so many receives at most (@lock)
 * @rx_usecs: or for so many microseconds (@lock)
 * @rx_adaptive: each channel finds its own (@lock to write)
 * @used_channels: those that QPs are given, the first ones (@lock)
 * @cm: what connections share, NULL while no interface takes them (@lock)
 * @users: interfaces that are open; NAPI runs while it is not zero (@lock)
 * @drain_missed: jiffies when a QP last missed its deadline, see ipoib_drain.c
 * @lock: mutex; @devs, users and what the channels' QPs share
 * @devs: interfaces of this port, struct ipoib_dev.port_entry
 * @handler: asynchronous events of the HCA
 * @events: bits of enum ipoib_event not yet handed to the interfaces
 * @event_work: hands them on
 * @path_lock: spinlock, taken with BHs disabled, inside the netdev TX lock:
 *	everything of struct ipoib_path that is not RCU, and the fields below
 * @path_gen: counts the events that make all records doubtful
 * @paths: struct ipoib_path.entry
 * @path_table: by struct ipoib_path_key, RCU
 * @path_known: paths with a handle
 * @path_left: paths without one that nobody uses any more, in QUERY
 * @path_sources: those that a LID told, struct ipoib_path_source by LID
 * @path_ranks: sources of paths without a handle, those of 2^n paths and more at
 *	n, struct ipoib_path_source.rank
 * @path_turns: sources with paths to ask for, struct ipoib_path_source.turn
 * @path_open: paths without a handle
 * @path_bytes: memory of the packets that wait for paths that no LID told
 * @path_asked: paths in QUERY, struct ipoib_path.wait
 * @path_inflight: how many of them
 * @path_retry: paths in BACKOFF by struct ipoib_path.retry
 * @path_retries: how many of them
 * @path_unsent: queries in a row that ib_sa had no address of the SM for
 * @path_pause: until when there are no more after one, jiffies
 * @path_heard: LIDs that addresses were told from, see ipoib_path_hear()
 * @path_work: starts queries
 * @path_stat: see struct ipoib_path_stats
 * @answer_lock: mutex; the SA's answers are handled one at a time
 * @dying: the port goes away: no new queries, no new address handles
 *	(@answer_lock and @path_lock)
 * @ah_dead: handles replaced, their users not yet gone
 * @ah_waiting: handles that only sends of before the mark may still use
 * @ah_reap: destroys them
 */
struct ipoib_port {
	struct ib_device *ca;
	u32 num;
	refcount_t ref;
	struct ib_pd *pd;
	struct ib_ah *marker_ah;
	struct net_device *parent;
	u32 sendq_size;
	u32 recvq_size;
	u32 mtu;
	u32 srq_size;
	u32 rx_pending;
	u32 srq_room;
	bool no_srq;
	bool rx_whole;
	struct ipoib_channel *channels[IPOIB_MAX_CHANNELS];
	u32 num_channels;
	u16 rx_frames;
	u16 rx_usecs;
	bool rx_adaptive;
	u32 used_channels;
	struct ipoib_cm_port *cm;
	unsigned long drain_missed;

	struct mutex lock;	/* devs, users, what QPs of a channel share */
	u32 users;
	struct list_head devs;

	struct ib_event_handler handler;
	unsigned long events;
	struct work_struct event_work;

	u32 path_gen;		/* read for each packet */
	spinlock_t path_lock;	/* paths and what follows */
	struct list_head paths;
	struct rhashtable path_table;
	struct ipoib_path_source path_known;
	struct ipoib_path_source path_left;
	struct hlist_head path_sources[IPOIB_PATH_SOURCES];
	struct list_head path_ranks[IPOIB_PATH_RANKS];
	struct list_head path_turns;
	u32 path_open;
	u32 path_bytes;
	struct list_head path_asked;
	u32 path_inflight;
	struct rb_root_cached path_retry;
	u32 path_retries;
	u32 path_unsent;
	unsigned long path_pause;
	u32 path_heard[IPOIB_PATH_HEARD];
	struct delayed_work path_work;
	struct ipoib_path_stats {
		u64 queries;
		u64 failures;
		u64 dropped;
		u64 evicted;
	} path_stat;
	struct mutex answer_lock;	/* dying, making of handles */
	bool dying;

	struct list_head ah_dead;
	struct list_head ah_waiting;
	struct delayed_work ah_reap;
};

/* ---- datagram engine: ipoib_ib.c ---------------------------------------- */

/**
 * enum ipoib_qp_kind - what a QP's context points to
 * @IPOIB_QP_UD: an interface's datagram QP
 * @IPOIB_QP_TX: a connection that was opened here, struct ipoib_conn.qp
 * @IPOIB_QP_RX: a connection that a peer opened, the same
 */
enum ipoib_qp_kind {
	IPOIB_QP_UD,
	IPOIB_QP_TX,
	IPOIB_QP_RX,
};

/**
 * struct ipoib_qp - the context of every QP of this driver
 *
 * A completion says by wc->qp->qp_context whose it is, so the type comes
 * first: other kinds follow.
 *
 * @kind: tells the kinds apart
 * @ib: the verbs object
 * @dev: interface
 * @ch: channel that reports its completions
 * @txq: queue that posts its sends
 * @rxq: queue its receives come from
 * @drained: completed by the marker request behind the QP's last completion
 * @drained_at: ipoib_channel.barriers at that time
 * @last_wqe: completed when the HCA has done with the SRQ as far as this QP
 *	goes; NULL: not to be waited for
 * @drain_entry: in ipoib_drain.qps
 * @drain_begun: jiffies when the marker was posted
 * @live: it may have something to report: left INIT, and not been reset since
 * @draining: between ipoib_drain_begin() and ipoib_drain_reset()
 * @late: it did not drain, or not in time
 * @stuck: it can't be reset
 */
struct ipoib_qp {
	enum ipoib_qp_kind kind;
	struct ib_qp *ib;
	struct ipoib_dev *dev;
	struct ipoib_channel *ch;
	struct ipoib_txq *txq;
	struct ipoib_rxq *rxq;
	struct completion drained;
	u32 drained_at;
	struct completion *last_wqe;
	struct list_head drain_entry;
	unsigned long drain_begun;
	bool live;
	bool draining;
	bool late;
	bool stuck;
};

/**
 * struct ipoib_tx_slot - a packet that was posted
 * @skb: freed when the request, or a later signalled one, completes
 * @bytes: what BQL was told
 * @nmap: pieces to unmap, 0 with virtual DMA
 */
struct ipoib_tx_slot {
	struct sk_buff *skb;
	u32 bytes;
	u32 nmap;
};

#define IPOIB_MAX_SGE		(MAX_SKB_FRAGS + 1)

/* A piece of a packet as the HCA sees it, kept to be unmapped. */
struct ipoib_tx_map {
	u64 addr;
	u32 len;
};

/**
 * struct ipoib_tx_ring - packets of a send queue
 * @ca: HCA
 * @slots: @size packets
 * @map: pieces of slot n at n * IPOIB_MAX_SGE; NULL with virtual DMA
 * @hdrs: pages with headers of segments, see ipoib_tso.c
 * @size: a power of two
 */
struct ipoib_tx_ring {
	struct ib_device *ca;
	struct ipoib_tx_slot *slots;
	struct ipoib_tx_map *map;
	void **hdrs;
	u32 size;
};

struct ipoib_tx_wr {
	struct ib_ud_wr ud;
	struct ib_sge sge[IPOIB_MAX_SGE];
};

/**
 * struct ipoib_txq - a transmit queue
 *
 * The first part is written by whoever holds the netdev queue's TX lock, the
 * second by the channel's NAPI; @tail and what BQL was told also by the owner
 * once the QP is down.
 *
 * @qp: where it posts.  That of the first queue is the interface's: it has the
 *	QPN that peers know and receives; the others only send
 * @cqs: room for its completions
 * @index: which of the interface's
 * @qpn: number of its QP
 * @nq: the stack's queue
 * @ring: packets
 * @chain: requests not yet posted, linked when the queue is made
 * @chained: how many
 * @urgent: a packet was handed over since the last post whose socket runs out
 *	of buffer space, see ipoib_tx_owner_short()
 * @rc: requests not yet posted on a connection, NULL before connected mode
 * @rc_flying: packets that connections have not sent yet
 * @rc_packets: those counted for BQL
 * @rc_bytes: their octets
 * @bql: in the channel's list while not all of them have been completed
 * @bql_listed: whether it is
 * @last: neighbour of the last packet, see ipoib_neigh_find()
 * @head: sequence number of the next packet
 * @tail: sequence number of the oldest packet not completed
 * @reap_mark: @head as the address handle reaper saw it (port lock)
 * @stat: counters written under the TX lock
 * @timer: reaps completions that raised no interrupt, see ipoib_txq_post()
 * @idle: jiffies the timer waits; grows while nothing completes
 * @timer_tail: @tail and @rc_done when the timer last ran
 * @rc_done: packets that connections have sent
 * @emptied: to be completed when nothing is in flight, or NULL
 * @bql_packets: @rc_packets completed to BQL
 * @bql_bytes: their octets
 * @done: counters written at completion
 * @rcu: frees it
 */
struct ipoib_txq {
	struct ipoib_qp qp;
	struct ipoib_cqs cqs;
	u32 index;
	u32 qpn;
	struct netdev_queue *nq;
	struct ipoib_tx_ring ring;
	struct ipoib_tx_wr *chain;
	u32 chained;
	bool urgent;
	struct ipoib_rc_chain *rc;
	atomic_t rc_flying;
	u32 rc_packets;
	u32 rc_bytes;
	struct llist_node bql;
	unsigned long bql_listed;
	struct {
		struct ipoib_neigh *neigh;
		u32 removals;
	} last;
	u32 head;
	u32 reap_mark;
	struct timer_list timer;
	unsigned long idle;
	u32 timer_tail;
	struct {
		u64 posts;
		u64 stops;
		u64 too_long;
		u64 map_errors;
		u64 post_errors;
		u64 arms;
	} stat;

	u32 tail ____cacheline_aligned_in_smp;
	u32 rc_done;
	struct completion *emptied;
	u32 bql_packets;
	u32 bql_bytes;
	struct {
		struct ipoib_count sent;
		u64 reaps;
		u64 errors;
	} done;
	struct rcu_head rcu;
};

#define IPOIB_MAX_TXQS		16

/**
 * struct ipoib_ud - datagram engine of an interface
 * @lock: mutex inside ipoib_dev.lock; the QPs' state and attachments
 * @rxq: private receive queue of an HCA that has no SRQ for UD, or NULL
 * @txqs: transmit queues, @num_txqs of them, each with a QP
 * @num_txqs: one at least (port lock to write)
 * @max_len: longest packet with its encapsulation, from the broadcast group
 * @qkey: Q_Key of the link, from the broadcast group
 * @pkey_index: where the port's table holds the interface's P_Key
 * @running: the interface is up and the stack's queues may be woken; for the hot
 *	path, copied from ipoib_dev.state by ipoib_dev_move()
 * @qps: state of all QPs: RTS, ERR while they drain, else RESET or none
 * @qpn: number of the first QP; that of the last one while there is none
 * @lid: own LID, to recognise own multicast that comes back
 * @check_loop: the HCA does not suppress own multicast
 * @max_sge: pieces a packet may have
 * @csum: the HCA makes checksums of TCP and UDP over IPv4
 * @lso: the HCA cuts TCP over IPv4
 * @restarts: times the QPs were rebuilt
 * @gone: what queues that are no more have sent (rtnl)
 * @gone_stops: and how often they were full (rtnl)
 */
struct ipoib_ud {
	struct mutex lock;	/* state of the QPs, attachments */
	struct ipoib_rxq *rxq;
	struct ipoib_txq *txqs[IPOIB_MAX_TXQS];
	u32 num_txqs;
	u32 max_len;
	u32 qkey;
	u16 pkey_index;
	bool running;
	enum ib_qp_state qps;
	u32 qpn;
	u16 lid;
	bool check_loop;
	u32 max_sge;
	bool csum;
	bool lso;
	u64 restarts;
	struct ipoib_count gone;
	u64 gone_stops;
};

/* ---- paths and neighbours: ipoib_path.c --------------------------------- */

/**
 * struct ipoib_ah - an address handle that senders use under RCU
 * @ib: the verbs object
 * @entry: in the port's list of dead handles
 */
struct ipoib_ah {
	struct ib_ah *ib;
	struct list_head entry;
};

struct ipoib_path_key {
	union ib_gid dgid;
	union ib_gid sgid;
	__be16 pkey;
	u8 tclass;
	u8 zero;
};

/**
 * struct ipoib_path - the way to a GID
 * @node: in the port's table
 * @key: what the SA is asked
 * @ah: how to get there, RCU; kept in use while a new answer is awaited
 * @gen: ipoib_port.path_gen that was last acted upon; differs: ask again
 * @dlid: where packets are sent
 * @port: owner
 * @entry: in ipoib_port.paths
 * @neighs: neighbours that point here, struct ipoib_neigh.path_entry
 * @users: how many, and the query that is being sent
 * @source: whose turns it takes
 * @local: senders of an interface asked for it, not only a LID that told it
 * @member: in @source
 * @state: see there
 * @wait: in @source while QUEUED, in ipoib_port.path_asked while QUERY
 * @node_retry: in ipoib_port.path_retry while BACKOFF
 * @rec: the SA's last answer
 * @waiting: packets, each holding a reference on its device; only while there
 *	are neighbours
 * @waiting_bytes: their memory
 * @again: in QUERY: the answer may be out of date, ask once more
 * @query: the query in flight
 * @query_id: its id
 * @retry: jiffies before which the SA is not asked
 * @asked: jiffies of the last query
 * @probed: jiffies of the last probe of the stack that nothing answered yet,
 *	0 if there is none
 * @heard: LID that the peer was heard from and the SA is asked about, 0: none
 * @denied: the last such LID that the SA denied
 * @denials: how often, since its answer last changed
 * @failures: since the last answer
 * @rcu: frees it
 */
struct ipoib_path {
	struct rhash_head node;
	struct ipoib_path_key key;
	struct ipoib_ah __rcu *ah;
	u32 gen;
	u32 dlid;
	struct ipoib_port *port;
	struct list_head entry;
	struct list_head neighs;
	u32 users;
	struct ipoib_path_source *source;
	bool local;
	struct list_head member;
	enum ipoib_path_state state;
	struct list_head wait;
	struct rb_node node_retry;
	struct sa_path_rec rec;
	struct sk_buff_head waiting;
	u32 waiting_bytes;
	bool again;
	struct ib_sa_query *query;
	int query_id;
	unsigned long retry;
	unsigned long asked;
	unsigned long probed;
	u16 heard;
	u16 denied;
	u32 denials;
	u32 failures;
	struct rcu_head rcu;
};

/**
 * struct ipoib_neigh - a link-layer address and the path to it
 * @node: in the interface's table
 * @addr: the address, key of the table
 * @path: constant for the life of the neighbour
 * @link: its connection, NULL if it takes none; constant too
 * @used: jiffies of the last packet
 * @dev: interface
 * @entry: in the interface's list
 * @path_entry: in that of @path
 * @rcu: frees it
 */
struct ipoib_neigh {
	struct rhash_head node;
	u8 addr[INFINIBAND_ALEN] __aligned(4);
	struct ipoib_path *path;
	struct ipoib_link *link;
	unsigned long used;
	struct ipoib_dev *dev;
	struct list_head entry;
	struct list_head path_entry;
	struct rcu_head rcu;
};

/**
 * struct ipoib_neighs - neighbours of an interface
 *
 * All but the table's readers hold the port's path_lock.
 *
 * @table: by address, RCU
 * @list: all of them
 * @num: how many
 * @gc: drops those not used for a while; runs only while there are some
 * @open: the interface is up; no neighbour is made otherwise
 * @removals: how many have been removed; read by senders
 * @source: paths without a handle that local senders asked for
 * @evicted: dropped to make room for others
 * @refused: not made, because all others were in use
 */
struct ipoib_neighs {
	struct rhashtable table;
	struct list_head list;
	u32 num;
	struct delayed_work gc;
	bool open;
	u32 removals;
	struct ipoib_path_source source;
	u64 evicted;
	u64 refused;
};

/* ---- multicast: ipoib_multicast.c --------------------------------------- */

/**
 * struct ipoib_mcast - a multicast group
 * @node: in the table by MGID
 * @mgid: key
 * @ah: how to send to it, RCU; stays while the membership is renewed
 * @fallback: the SA refused a send-only join: use the broadcast group
 * @dev: owner
 * @entry: in the interface's list
 * @todo: in one of the interface's lists of what the work item is to do
 * @state: see there
 * @gone: off the interface's list: about to be freed, and on no list of work
 * @sendonly: made by a packet, not by the stack's list
 * @attached: the QP receives it
 * @seen: generation of the last look at the stack's list
 * @sa: ib_sa's handle; whoever sets it to NULL under the lock frees it
 * @rec: the SA's answer
 * @mlid: of @ah and the attachment
 * @waiting: packets until joined
 * @used: jiffies of the last packet of a send-only group
 * @created: jiffies
 * @retry: jiffies before which no join is tried
 * @failures: in a row
 * @unsent: joins in a row that ib_sa had no address of the SM for
 * @rcu: frees it
 */
struct ipoib_mcast {
	struct rhash_head node;
	union ib_gid mgid;
	struct ipoib_ah __rcu *ah;
	bool fallback;
	struct ipoib_dev *dev;
	struct list_head entry;
	struct list_head todo;
	enum ipoib_mcast_state state;
	bool gone;
	bool sendonly;
	bool attached;
	u32 seen;
	struct ib_sa_multicast *sa;
	struct ib_sa_mcmember_rec rec;
	__be16 mlid;
	struct sk_buff_head waiting;
	unsigned long used;
	unsigned long created;
	unsigned long retry;
	u32 failures;
	u32 unsent;
	struct rcu_head rcu;
};

/**
 * struct ipoib_mcasts - groups of an interface
 * @lock: spinlock, taken with BHs disabled, inside the netdev TX lock: list,
 *	states, waiting packets
 * @table: by MGID, RCU
 * @list: all groups; entries leave only by @work or after it was cancelled
 * @broadcast: the broadcast group, NULL while the interface is down
 * @work: the only place that joins, attaches, detaches and leaves
 * @join: groups for @work to join when there is room in the window
 * @answered: groups that the SA has answered for
 * @upgrade: send-only groups that the stack's list has now
 * @leaving: groups whose membership @work gives up and renews
 * @running: the interface is up
 * @resync: the stack's list changed
 * @looked: when @work last looked at it, in jiffies
 * @leave: the port's GID changed: leave under the old one before joining
 * @fall_back: packets wait for groups that were refused
 * @survey: @work is to look at all groups
 * @survey_due: so it is at @survey_at
 * @survey_at: in jiffies
 * @unknown: times in a row that the port's state could not be read (@work)
 * @generation: of the last look at the stack's list
 * @joining: joins in flight
 * @num_sendonly: groups that packets made
 * @joins: joins that the SA was asked for, and answered or not
 * @join_failures: joins refused or not answered
 * @dropped: packets dropped while a group was joined
 * @limited: packets that went to the broadcast group, because there were too
 *	many groups that packets made
 */
struct ipoib_mcasts {
	spinlock_t lock;	/* list, states, waiting packets */
	struct rhashtable table;
	struct list_head list;
	struct ipoib_mcast __rcu *broadcast;
	struct delayed_work work;
	struct list_head join;
	struct list_head answered;
	struct list_head upgrade;
	struct list_head leaving;
	bool running;
	bool resync;
	unsigned long looked;
	bool leave;
	bool fall_back;
	bool survey;
	bool survey_due;
	unsigned long survey_at;
	u32 unknown;
	u32 generation;
	u32 joining;
	u32 num_sendonly;
	u64 joins;
	u64 join_failures;
	u64 dropped;
	u64 limited;
};

/* ---- interface: ipoib_dev.c, ipoib_main.c -------------------------------------------- */

/**
 * struct ipoib_dev - an interface; netdev_priv() of its net_device
 * @ndev: net_device
 * @port: HCA port
 * @port_entry: in the port's list
 * @pkey: P_Key, full membership bit set
 * @by_sysfs: made by create_child, so delete_child may find it
 * @lock: mutex; order of open, stop, commands and events
 * @state: see there (@lock)
 * @port_up: the port is active
 * @events: bits of enum ipoib_event
 * @work: handles them
 * @again: bits that it could not handle, for another time (@lock)
 * @again_at: that time, in jiffies (@lock)
 * @failures: in a row of what it tries again (@lock)
 * @link_work: what needs rtnl: MTU, address, carrier on
 * @registered: @link_work may hold a reference on @ndev (@lock)
 * @link_due: it is to be queued as soon as it may (@lock)
 * @announce: link_work shall tell the peers where we are
 * @setting_mtu: link_work changes the MTU, not the administrator (rtnl)
 * @guid: the administrator's choice among the port's GUIDs, 0: the first
 * @local_gid: GID in use, as last read from the port (path_lock to write)
 * @mcast_mtu: IP MTU of the broadcast group
 * @tclass: its traffic class, which the link's paths have, too
 * @admin_mtu: MTU the administrator asked for
 * @ud_mtu: largest MTU of datagrams on this port
 * @rx: what was received, by channel, each written by that one's NAPI
 * @umcast: leave groups alone that user space joined
 * @connected: connected mode (rtnl and path_lock to write)
 * @cm: connections, NULL if the driver is built without them
 * @debugfs: files of this interface
 */
struct ipoib_dev {
	struct net_device *ndev;
	struct ipoib_port *port;
	struct list_head port_entry;
	u16 pkey;
	bool by_sysfs;

	struct ipoib_ud ud;
	struct ipoib_neighs neigh;
	struct ipoib_mcasts mcast;

	struct mutex lock;	/* state, order of up and down */
	enum ipoib_dev_state state;
	bool port_up;
	unsigned long events;
	struct delayed_work work;
	unsigned long again;
	unsigned long again_at;
	u32 failures;
	struct work_struct link_work;
	bool registered;
	bool link_due;
	bool announce;
	bool setting_mtu;
	__be64 guid;
	union ib_gid local_gid;
	u32 mcast_mtu;
	u8 tclass;
	u32 admin_mtu;
	u32 ud_mtu;
	struct ipoib_count rx[IPOIB_MAX_CHANNELS];
	bool umcast;
	bool connected;
	struct ipoib_cm *cm;
	struct dentry *debugfs[4];
};

static inline struct ipoib_dev *ipoib_priv(const struct net_device *ndev)
{
	return netdev_priv(ndev);
}

/* The QP whose QPN is the interface's. */
static inline struct ipoib_qp *ipoib_dev_qp(const struct ipoib_dev *dev)
{
	return &dev->ud.txqs[0]->qp;
}

/* Its QPN, as its address has it. */
static inline u32 ipoib_dev_qpn(const struct ipoib_dev *dev)
{
	return READ_ONCE(dev->ud.qpn);
}

/* The channel in which the interface receives datagrams. */
static inline struct ipoib_channel *ipoib_dev_channel(const struct ipoib_dev *dev)
{
	return ipoib_dev_qp(dev)->ch;
}

/* Is it a partition's interface, made from the port's own? */
static inline bool ipoib_is_child(const struct ipoib_dev *dev)
{
	return dev->ndev != dev->port->parent;
}

/* ---- ipoib_main.c ------------------------------------------------------- */

extern struct workqueue_struct *ipoib_wq;
extern struct workqueue_struct *ipoib_delete_wq;
extern struct ib_sa_client ipoib_sa;
extern unsigned int ipoib_sendq_size;
extern unsigned int ipoib_recvq_size;

void ipoib_setup(struct net_device *ndev);
int ipoib_dev_prepare(struct ipoib_dev *dev, struct ipoib_port *port, u16 pkey);
bool ipoib_port_has_guid(struct ipoib_port *port, __be64 guid);
__be64 ipoib_port_guid(struct ipoib_port *port, __be64 guid);
int ipoib_dev_set_umcast(struct ipoib_dev *dev, bool on);
int ipoib_dev_set_mode(struct ipoib_dev *dev, bool connected,
		       struct netlink_ext_ack *extack);
int ipoib_dev_set_txqs(struct ipoib_dev *dev, u32 num);
int ipoib_dev_set_sendq(struct ipoib_dev *dev, u32 size);
void ipoib_dev_reconnect(struct ipoib_dev *dev);
void ipoib_dev_update_features(struct ipoib_dev *dev);
void ipoib_drop(struct net_device *ndev, struct sk_buff *skb,
		enum skb_drop_reason reason);

/* ---- ipoib_port.c ------------------------------------------------------- */

struct ipoib_port *ipoib_port_create(struct ib_device *ca, u32 num);
void ipoib_port_destroy(struct ipoib_port *port);
void ipoib_port_put(struct ipoib_port *port);
void ipoib_port_attach(struct ipoib_port *port, struct ipoib_dev *dev);
void ipoib_port_detach(struct ipoib_port *port, struct ipoib_dev *dev);
int ipoib_channel_pool(struct ipoib_channel *ch, struct page_pool **result,
		       u32 page, u32 keep, bool dma);
const struct ipoib_rx_format *
ipoib_channel_format(const struct ipoib_channel *ch);
void ipoib_port_use_len(struct ipoib_port *port, u32 len);
int ipoib_channel_receive(struct ipoib_channel *ch);
struct ipoib_channel *ipoib_channel_attach(struct ipoib_port *port, bool first);
void ipoib_channel_detach(struct ipoib_channel *ch);
bool ipoib_channel_drop_srq(struct ipoib_channel *ch);
int ipoib_cq_get(struct ipoib_channel *ch, struct ipoib_cqs *cqs,
		 struct ib_qp_init_attr *attr);
void ipoib_cq_put(struct ipoib_channel *ch, struct ipoib_cqs *cqs);
void ipoib_channel_kick(struct ipoib_channel *ch);
int ipoib_channel_get(struct ipoib_channel *ch);
void ipoib_channel_put(struct ipoib_channel *ch);
void ipoib_port_set_recvq(struct ipoib_port *port, u32 size);
int ipoib_port_set_moderation(struct ipoib_port *port, u16 frames, u16 usecs,
			      bool adaptive);
void ipoib_port_set_channels(struct ipoib_port *port, u32 num);
void ipoib_channel_pause(struct ipoib_channel *ch);
void ipoib_channel_resume(struct ipoib_channel *ch);
void ipoib_channel_barrier(struct ipoib_channel *ch, u32 since);
int ipoib_port_active(struct ipoib_port *port, struct ib_port_attr *attr);

/* ---- ipoib_ib.c --------------------------------------------------------- */

/**
 * struct ipoib_rx_batch - packets that a poll received
 * @ndev: interface of those counted here; they are added to its counters when
 *	another one's turn comes
 * @packets: how many
 * @bytes: their octets
 * @lone: the CQ had no other completion
 * @list: packets on their way around GRO
 */
struct ipoib_rx_batch {
	struct net_device *ndev;
	u32 packets;
	u32 bytes;
	bool lone;
	struct list_head list;
};

int ipoib_poll(struct napi_struct *napi, int budget);
int ipoib_rxq_alloc(struct ipoib_rxq *rxq, struct ipoib_channel *ch,
		    const struct ipoib_rx_format *format, u32 size, u32 used);
void ipoib_rxq_free(struct ipoib_rxq *rxq);
void ipoib_rxq_refill(struct ipoib_rxq *rxq);
void ipoib_rxq_grow(struct ipoib_rxq *rxq);
void ipoib_rxq_fill(struct ipoib_rxq *rxq);
void ipoib_rx_sync(struct ipoib_channel *ch, void *va, u32 len);
struct sk_buff *ipoib_rx_skb(struct ipoib_rxq *rxq, struct ipoib_rx_slot *slot,
			     u32 skip, u32 len);
void ipoib_rx_deliver(struct ipoib_channel *ch, struct net_device *ndev,
		      struct sk_buff *skb, __be16 proto,
		      struct ipoib_rx_batch *batch);
void ipoib_rx_error(struct ipoib_dev *dev, const struct ib_wc *wc);
int ipoib_tx_ring_alloc(struct ipoib_tx_ring *ring, struct ib_device *ca,
			u32 size);
void ipoib_tx_ring_free(struct ipoib_tx_ring *ring);
int ipoib_tx_map(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		 struct ib_sge *sge, struct sk_buff *skb, u32 hlen);
void ipoib_tx_unmap(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot);
void ipoib_tx_count(struct ipoib_txq *txq, u32 packets, u32 bytes);
void ipoib_txq_handed(struct ipoib_txq *txq);
void ipoib_txq_watch(struct ipoib_txq *txq, struct ipoib_cq *cq, bool arm);
void ipoib_channel_refill_timer(struct timer_list *t);
int ipoib_ud_create(struct ipoib_dev *dev);
void ipoib_ud_destroy(struct ipoib_dev *dev);
int ipoib_ud_start(struct ipoib_dev *dev);
int ipoib_ud_spare(struct ipoib_dev *dev, u32 size, struct ipoib_txq **spare);
void ipoib_ud_swap(struct ipoib_dev *dev, struct ipoib_txq **spare);
int ipoib_ud_add_txqs(struct ipoib_dev *dev, u32 num);
void ipoib_ud_drop_txqs(struct ipoib_dev *dev, u32 num);
void ipoib_ud_stop_begin(struct ipoib_dev *dev);
void ipoib_ud_stop(struct ipoib_dev *dev);
int ipoib_ud_restart(struct ipoib_dev *dev);
int ipoib_ud_repair(struct ipoib_dev *dev);
int ipoib_ud_set_qkey(struct ipoib_dev *dev, u32 qkey);
bool ipoib_ud_pkey_moved(struct ipoib_dev *dev);
netdev_tx_t ipoib_ud_send(struct ipoib_txq *txq, struct sk_buff *skb,
			  struct ipoib_ah *ah, u32 qpn);
bool ipoib_tx_sge(struct ipoib_tx_ring *ring, struct ipoib_tx_slot *slot,
		  struct ib_sge *sge, u64 addr, u32 len);
u32 ipoib_txq_free(const struct ipoib_txq *txq);
void ipoib_txq_post(struct ipoib_txq *txq);
void ipoib_txq_sent(struct ipoib_txq *txq, u32 bytes);
void ipoib_ud_address(struct ipoib_txq *txq, struct ipoib_tx_wr *w,
		      struct ipoib_ah *ah, u32 qpn);
void ipoib_txq_flush(struct ipoib_txq *txq);
void ipoib_txq_kick(struct ipoib_txq *txq);

/* The next place in the ring. */
static inline struct ipoib_tx_slot *ipoib_txq_slot(struct ipoib_txq *txq)
{
	return &txq->ring.slots[txq->head & (txq->ring.size - 1)];
}

/* ---- ipoib_tso.c -------------------------------------------------------- */

u32 ipoib_tso_pages(u32 size);
void ipoib_tso_send(struct ipoib_txq *txq, struct sk_buff *skb,
		    struct ipoib_ah *ah, u32 qpn);

/* ---- ipoib_offload.c ---------------------------------------------------- */

int ipoib_skb_transport(const struct sk_buff *skb, struct ipoib_transport *t);
void ipoib_skb_describe(const struct sk_buff *skb, struct ipoib_fit_packet *p);
u32 ipoib_ud_fit(const struct ipoib_dev *dev, const struct sk_buff *skb);
netdev_features_t ipoib_offload_features(struct ipoib_dev *dev,
					 struct sk_buff *skb,
					 netdev_features_t features);
void ipoib_xmit_segments(struct ipoib_txq *txq, struct sk_buff *skb);
void ipoib_too_long(struct ipoib_dev *dev, struct sk_buff *skb, u32 max_len);

/* Ethertype of a packet with its link-layer address in front. */
static inline __be16 ipoib_skb_proto(const struct sk_buff *skb)
{
	const struct ipoib_encap *encap =
		(const void *)(skb->data + INFINIBAND_ALEN);

	return encap->proto;
}

/* ---- ipoib_path.c ------------------------------------------------------- */

int ipoib_path_port_init(struct ipoib_port *port);
void ipoib_path_port_exit(struct ipoib_port *port);
void ipoib_path_revalidate(struct ipoib_port *port);
struct ipoib_ah *ipoib_ah_create(struct ipoib_port *port,
				 struct rdma_ah_attr *attr);
void ipoib_ah_retire(struct ipoib_port *port, struct ipoib_ah *ah);
int ipoib_neigh_init(struct ipoib_dev *dev);
void ipoib_neigh_exit(struct ipoib_dev *dev);
void ipoib_neigh_open(struct ipoib_dev *dev);
void ipoib_neigh_stop(struct ipoib_dev *dev);
netdev_tx_t ipoib_neigh_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
			     const u8 *addr, __be16 proto);
u32 ipoib_neigh_fit(struct ipoib_dev *dev, const struct sk_buff *skb);
int ipoib_neigh_record(struct ipoib_link *link, struct sa_path_rec *rec,
		       bool doubt);
void ipoib_path_learn(struct ipoib_dev *dev, const u8 *addr, u16 slid);

/* ---- ipoib_multicast.c -------------------------------------------------- */

int ipoib_mcast_init(struct ipoib_dev *dev);
void ipoib_mcast_exit(struct ipoib_dev *dev);
int ipoib_mcast_start(struct ipoib_dev *dev);
void ipoib_mcast_stop(struct ipoib_dev *dev);
void ipoib_mcast_resync(struct ipoib_dev *dev);
void ipoib_mcast_rejoin(struct ipoib_dev *dev, bool leave);
void ipoib_mcast_detach_all(struct ipoib_dev *dev);
bool ipoib_mcast_is_up(struct ipoib_dev *dev);
netdev_tx_t ipoib_mcast_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
			     const u8 *addr);

/* ---- ipoib_vlan.c ------------------------------------------------------- */

int ipoib_child_register(struct ipoib_dev *parent, struct net_device *ndev,
			 u16 pkey, __be64 guid, struct netlink_ext_ack *extack);
int ipoib_child_create(struct ipoib_dev *parent, u16 number);
int ipoib_child_delete(struct ipoib_dev *parent, u16 number);
void ipoib_children_open(struct ipoib_port *port);
void ipoib_children_close(struct ipoib_port *port);
void ipoib_port_unregister(struct ipoib_port *port);
/* ---- ipoib_cm.c, ipoib_rc.c: see ipoib_cm.h ----------------------------- */

/*
 * A packet of more pieces than the HCA gathers is copied to a few large ones,
 * if it takes at least the linear part and those.
 */
#define IPOIB_REPACK_SIZE	(PAGE_SIZE > 32768 ? PAGE_SIZE : 32768)
#define IPOIB_REPACK_PAGES	DIV_ROUND_UP(65536, IPOIB_REPACK_SIZE)
#define IPOIB_REPACK_SGE	(IPOIB_REPACK_PAGES + 1)

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_CM)
extern unsigned int ipoib_max_nonsrq_conn_qp;
int ipoib_cm_init(struct ipoib_dev *dev);
void ipoib_cm_exit(struct ipoib_dev *dev);
bool ipoib_txq_connect(struct ipoib_txq *txq);
int ipoib_cm_enable(struct ipoib_dev *dev);
void ipoib_cm_disable(struct ipoib_dev *dev);
int ipoib_cm_start(struct ipoib_dev *dev);
void ipoib_cm_stop_begin(struct ipoib_dev *dev);
void ipoib_cm_stop(struct ipoib_dev *dev);
bool ipoib_cm_offload(struct ipoib_dev *dev);
void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on);
struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
				     struct ipoib_neigh *neigh);
void ipoib_link_destroy(struct ipoib_link *link);
void ipoib_link_heard(struct ipoib_link *link, bool moved);
bool ipoib_link_is_up(const struct ipoib_link *link);
bool ipoib_rc_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
		   struct ipoib_link *link);
void ipoib_rc_flush(struct ipoib_txq *txq);
void ipoib_rc_tx_complete(const struct ib_wc *wc, int budget);
void ipoib_rc_rx_complete(struct ipoib_channel *ch, struct ipoib_qp *qp,
			  struct ipoib_rx_slot *slot, const struct ib_wc *wc,
			  struct ipoib_rx_batch *batch);
u32 ipoib_link_fit(const struct ipoib_link *link, const struct sk_buff *skb);
void ipoib_pmtu_signal(struct ipoib_dev *dev, struct sk_buff *skb, u32 mtu);
#define IPOIB_CM_STATS		20
void ipoib_cm_get_stat_names(u8 *data);
void ipoib_cm_get_stats(struct ipoib_dev *dev, u64 *data);
int ipoib_cm_show(struct seq_file *m, struct ipoib_dev *dev);
#else
static inline int ipoib_cm_init(struct ipoib_dev *dev) { return 0; }
static inline void ipoib_cm_exit(struct ipoib_dev *dev) { }
static inline bool ipoib_txq_connect(struct ipoib_txq *txq) { return true; }
static inline int ipoib_cm_enable(struct ipoib_dev *dev)
{
	return -EOPNOTSUPP;
}

static inline void ipoib_cm_disable(struct ipoib_dev *dev) { }
static inline int ipoib_cm_start(struct ipoib_dev *dev) { return 0; }
static inline void ipoib_cm_stop_begin(struct ipoib_dev *dev) { }
static inline void ipoib_cm_stop(struct ipoib_dev *dev) { }
static inline bool ipoib_cm_offload(struct ipoib_dev *dev) { return false; }
static inline void ipoib_cm_set_offload(struct ipoib_dev *dev, bool on) { }
static inline struct ipoib_link *ipoib_link_create(struct ipoib_dev *dev,
						   struct ipoib_neigh *neigh)
{
	return NULL;
}

static inline void ipoib_link_destroy(struct ipoib_link *link) { }
static inline void ipoib_link_heard(struct ipoib_link *link, bool moved) { }
static inline bool ipoib_link_is_up(const struct ipoib_link *link)
{
	return false;
}

static inline bool ipoib_rc_xmit(struct ipoib_txq *txq, struct sk_buff *skb,
				 struct ipoib_link *link)
{
	return false;
}

static inline void ipoib_rc_flush(struct ipoib_txq *txq) { }
static inline void ipoib_rc_tx_complete(const struct ib_wc *wc, int budget) { }
static inline void ipoib_rc_rx_complete(struct ipoib_channel *ch,
					struct ipoib_qp *qp,
					struct ipoib_rx_slot *slot,
					const struct ib_wc *wc,
					struct ipoib_rx_batch *batch) { }
static inline u32 ipoib_link_fit(const struct ipoib_link *link,
				 const struct sk_buff *skb)
{
	return 0;
}

static inline void ipoib_pmtu_signal(struct ipoib_dev *dev,
				     struct sk_buff *skb, u32 mtu)
{
	ipoib_drop(dev->ndev, skb, SKB_DROP_REASON_PKT_TOO_BIG);
}

#define IPOIB_CM_STATS		0
static inline void ipoib_cm_get_stat_names(u8 *data) { }
static inline void ipoib_cm_get_stats(struct ipoib_dev *dev, u64 *data) { }
static inline int ipoib_cm_show(struct seq_file *m, struct ipoib_dev *dev)
{
	return 0;
}

#endif

/* ---- ipoib_netlink.c, ipoib_sysfs.c, ipoib_ethtool.c, ipoib_fs.c -------- */

extern struct rtnl_link_ops ipoib_link_ops;
extern const struct attribute_group ipoib_sysfs_group;
extern const struct ethtool_ops ipoib_ethtool_ops;
extern const struct netdev_stat_ops ipoib_stat_ops;

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG)
void ipoib_fs_init(void);
void ipoib_fs_exit(void);
void ipoib_fs_add(struct ipoib_dev *dev);
void ipoib_fs_del(struct ipoib_dev *dev);
extern int ipoib_debug_level;
extern int ipoib_mcast_debug_level;
#else
static inline void ipoib_fs_init(void) { }
static inline void ipoib_fs_exit(void) { }
static inline void ipoib_fs_add(struct ipoib_dev *dev) { }
static inline void ipoib_fs_del(struct ipoib_dev *dev) { }
#define ipoib_debug_level 0
#define ipoib_mcast_debug_level 0
#endif

#if IS_ENABLED(CONFIG_INFINIBAND_IPOIB_DEBUG_DATA)
extern int ipoib_data_debug_level;
#else
#define ipoib_data_debug_level 0
#endif

/* Documented parameters turn these on; dynamic debug is not involved. */
#define ipoib_dbg(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_debug_level > 0))				\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#define ipoib_dbg_mcast(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_mcast_debug_level > 0))			\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#define ipoib_dbg_data(dev, fmt, ...)					\
do {									\
	if (unlikely(ipoib_data_debug_level > 0))			\
		netdev_printk(KERN_DEBUG, (dev)->ndev, fmt, ##__VA_ARGS__); \
} while (0)

#endif /* IPOIB_H */
