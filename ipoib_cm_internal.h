/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connected mode (RFC 4755): shared by its source files
 */
#ifndef IPOIB_CM_INTERNAL_H
#define IPOIB_CM_INTERNAL_H

#include <linux/hashtable.h>
#include <linux/refcount.h>
#include <rdma/ib_cm.h>

#include "ipoib.h"
#include "ipoib_cq.h"
#include "ipoib_proto.h"
#include "ipoib_qp.h"
#include "ipoib_rules.h"
#include "ipoib_rx.h"
#include "ipoib_tx.h"

#define IPOIB_RC_RING		64	/* send queue of a connection */

/*
 * After this many refusals in a row, weighted by ipoib_link_refusal(), long
 * packets are rejected with a smaller path MTU.  The route keeps that for
 * minutes, so a peer that is only down or busy must not cause it.
 */
#define IPOIB_LINK_REFUSED	6

/**
 * enum ipoib_conn_event - pending events of a connection
 * @IPOIB_CONN_EV_OPEN: new: send a REQ, or answer one
 * @IPOIB_CONN_EV_REP: REP received
 * @IPOIB_CONN_EV_RTU: RTU received
 * @IPOIB_CONN_EV_REJ: REJ received
 * @IPOIB_CONN_EV_TIMEOUT: the peer did not answer
 * @IPOIB_CONN_EV_DREQ: DREQ received
 * @IPOIB_CONN_EV_BROKEN: a work request failed, or the HCA reported a QP error
 * @IPOIB_CONN_EV_CLOSE: no longer needed
 * @IPOIB_CONN_EV_GIVE_UP: no longer needed if it is still half-open
 */
enum ipoib_conn_event {
	IPOIB_CONN_EV_OPEN,
	IPOIB_CONN_EV_REP,
	IPOIB_CONN_EV_RTU,
	IPOIB_CONN_EV_REJ,
	IPOIB_CONN_EV_TIMEOUT,
	IPOIB_CONN_EV_DREQ,
	IPOIB_CONN_EV_BROKEN,
	IPOIB_CONN_EV_CLOSE,
	IPOIB_CONN_EV_GIVE_UP,
};

/**
 * struct ipoib_conn - a reliable connection: one QP, never reused
 *
 * The interface's work item (ipoib_cm_run()) creates it, changes its state and
 * takes it down; everybody else sets bits in @events.  It is freed after its CM
 * id and its QP have been destroyed.
 *
 * @qp: QP
 * @ref: held until the CM id is destroyed, and by a lost QP
 * @active: opened by this host
 * @cqs: room for its completions
 * @id: CM id
 * @state: see enum ipoib_conn_state
 * @events: bits of enum ipoib_conn_event
 * @todo: in ipoib_cm.todo while it has events, later in ipoib_cm.reap
 * @listed: bit 0: @todo is in a list
 * @entry: in ipoib_cm.conns
 * @peer: parameters from the peer's private data
 * @gid: the peer's port; as claimed in the REQ if a peer opened it
 * @qpn: number of @qp
 * @lid: LID that our REP was sent to; 0 if this host opened it
 * @from: connections from that LID, including this one; NULL if this host
 *	opened it
 * @by_gid: in ipoib_cm_peers.by_gid if a peer opened it
 * @half_open: counted as half-open (cm->lock)
 * @answered: in ipoib_cm.answered while half-open and answered
 * @answered_lid: likewise in ipoib_cm_lid.answered
 * @reject: reason of the REJ received, enum ib_cm_rej_reason; 0: none
 * @status: status of the completion that broke it
 * @since: jiffies of the last change of state
 * @used: jiffies of the last packet
 * @link: link of the neighbour, with a reference; NULL if a peer opened it
 * @broken: nothing may be posted any more (link's lock to write)
 * @ring: packets in flight; empty if a peer opened it
 * @kept: they stay until the lost QP is destroyed, which may go on to send them
 * @head: sequence number of the next packet (link's lock)
 * @posted: @head when a request was last posted: from there on to @head are the
 *	packets of a chain that is still to be posted (link's lock)
 * @tail: sequence number of the oldest packet not completed (NAPI)
 * @seen_tail: @tail at the last check
 * @seen_at: jiffies of the last check that found progress or nothing in flight
 * @rx: receiving side of its channel, if a peer opened it
 * @rxq: receive queue of its own on an HCA without SRQ, or NULL
 * @last_wqe: completed when the QP takes no more receives from the SRQ
 * @superseded: the peer has since opened another one, or seems to be dead
 * @rcu: frees it
 */
struct ipoib_conn {
	struct ipoib_qp qp;
	refcount_t ref;
	bool active;
	struct ipoib_cqs cqs;
	struct ib_cm_id *id;
	enum ipoib_conn_state state;
	unsigned long events;
	struct llist_node todo;
	unsigned long listed;
	struct list_head entry;
	struct ipoib_cm_peer peer;
	union ib_gid gid;
	u32 qpn;
	u32 lid;
	struct ipoib_cm_lid *from;
	struct hlist_node by_gid;
	bool half_open;
	struct list_head answered;
	struct list_head answered_lid;
	int reject;
	enum ib_wc_status status;
	unsigned long since;
	unsigned long used;

	struct ipoib_link *link;
	bool broken;
	bool kept;
	struct ipoib_tx_ring ring;
	u32 head;
	u32 posted;
	u32 tail;
	u32 seen_tail;
	unsigned long seen_at;

	struct ipoib_cm_rx *rx;
	struct ipoib_rxq *rxq;
	struct completion last_wqe;
	bool superseded;
	struct rcu_head rcu;
};

/**
 * struct ipoib_link - a neighbour that accepts connections
 * @lock: spinlock, taken with BHs disabled, inside ipoib_paths.lock and the
 *	netdev TX lock; protects this struct and the sending side of @conn
 * @ref: held by the neighbour, the connection and the list of links to handle
 * @dev: interface
 * @neigh: its neighbour (ipoib_paths.lock), NULL once that is gone
 * @addr: the link-layer address
 * @state: see enum ipoib_link_state
 * @conn: connection being opened or in use
 * @caps: IPOIB_CM_CAP_* of @conn while it is up
 * @max_msg: longest message that the peer receives while @conn is up
 * @dead: the neighbour is gone
 * @waiting: packets waiting for a connection or for room in its ring
 * @waiting_bytes: their memory (truesize)
 * @failures: failures in a row, to open a connection or to keep it
 * @refused: refusals since the last connection was opened, weighted by
 *	ipoib_link_refusal()
 * @breaks: connections in a row that did not last
 * @failed: jiffies of the last of @failures
 * @retry: jiffies before which no connection is tried
 * @todo: in ipoib_cm.links
 * @listed: bit 0: @todo is in that list
 * @rcu: frees it
 */
struct ipoib_link {
	spinlock_t lock;	/* all below, sending side of the connection */
	refcount_t ref;
	struct ipoib_dev *dev;
	struct ipoib_neigh *neigh;
	u8 addr[INFINIBAND_ALEN] __aligned(4);
	enum ipoib_link_state state;
	struct ipoib_conn *conn;
	u32 caps;
	u32 max_msg;
	bool dead;
	struct sk_buff_head waiting;
	u32 waiting_bytes;
	u32 failures;
	u32 refused;
	u32 breaks;
	unsigned long failed;
	unsigned long retry;
	struct llist_node todo;
	unsigned long listed;
	struct rcu_head rcu;
};

/**
 * struct ipoib_cm_stats - counters of an interface
 * @opened: connections opened by this host
 * @accepted: connections that peers opened
 * @open_failures: not answered, refused, or failed locally
 * @rejected: connections that peers rejected
 * @refused: requests of peers that were refused
 * @malformed: REQs and REPs with invalid contents
 * @closed_by_peer: connections that peers closed
 * @closed_idle: connections closed because they were idle
 * @broken: connections lost by an error
 * @stalled: of these, because sends made no progress
 * @requeued: unsent packets of ended connections, queued again
 * @waiting_dropped: packets dropped instead of waiting for a connection
 * @bad: malformed packets from peers
 * @half_open_dropped: peers' connections dropped while half-open
 * @limited: of @refused, because the peer or its LID had its share
 * @half_open_refused: of @refused, because too many were half-open
 */
struct ipoib_cm_stats {
	u64 opened;
	u64 accepted;
	u64 open_failures;
	u64 rejected;
	u64 refused;
	u64 malformed;
	u64 closed_by_peer;
	u64 closed_idle;
	u64 broken;
	u64 stalled;
	u64 requeued;
	atomic64_t waiting_dropped;
	u64 bad;
	u64 half_open_dropped;
	u64 limited;
	u64 half_open_refused;
};

/**
 * struct ipoib_cm_lid - connections opened from one LID (ipoib_cm.lock)
 * @by_lid: in ipoib_cm_peers.by_lid
 * @lid: LID
 * @num: connections; freed with the last one
 * @half_open: of these, half-open
 * @answered: struct ipoib_conn.answered_lid, oldest first
 */
struct ipoib_cm_lid {
	struct hlist_node by_lid;
	u32 lid;
	u32 num;
	u32 half_open;
	struct list_head answered;
};

/**
 * struct ipoib_cm_peers - look-up tables of connections that peers opened
 * @by_gid: struct ipoib_conn.by_gid, newest first
 * @by_lid: struct ipoib_cm_lid.by_lid
 * @seed: hash seed of @by_gid, since peers may claim any GID
 */
struct ipoib_cm_peers {
	DECLARE_HASHTABLE(by_gid, 10);
	DECLARE_HASHTABLE(by_lid, 9);
	u32 seed;
};

/**
 * struct ipoib_cm - connections of an interface
 * @dev: interface
 * @users: references: the interface, and connections that have not been freed
 * @unused: completed when there are none
 * @run: mutex inside ipoib_dev.lock: creation, state and teardown of
 *	connections
 * @lock: spinlock, taken with BHs disabled; nothing nests inside it: @conns,
 *	counts, @running, @peers
 * @running: the interface is up in connected mode
 * @offload: offer peers to omit checksums and segmentation
 * @renew: bit 0: close all connections; those needed are opened again
 * @qpn: UD QPN that peers know us by
 * @listen: CM id that receives REQs
 * @conns: struct ipoib_conn.entry; entries leave only under @run
 * @changes: of @conns
 * @active: connections opened by this host
 * @passive: connections that peers opened
 * @num_half_open: of these, half-open
 * @answered: struct ipoib_conn.answered, oldest first
 * @peers: look-up tables of those that peers opened; NULL in datagram mode
 * @checked: jiffies of the last check of all connections (@run)
 * @todo: connections with events
 * @links: links to handle
 * @work: opens, accepts and closes connections
 * @reap: connections whose CM id is to be destroyed
 * @reap_work: destroys them, since that may take long
 * @stats: counters
 * @waiting_bytes: sum of struct ipoib_link.waiting_bytes
 */
struct ipoib_cm {
	struct ipoib_dev *dev;
	refcount_t users;
	struct completion unused;
	struct mutex run;	/* creation, state, teardown */
	spinlock_t lock;	/* list and counts of connections */
	bool running;
	bool offload;
	unsigned long renew;
	u32 qpn;
	struct ib_cm_id *listen;
	struct list_head conns;
	u32 changes;
	u32 active;
	u32 passive;
	u32 num_half_open;
	struct list_head answered;
	struct ipoib_cm_peers *peers;
	unsigned long checked;
	struct llist_head todo;
	struct llist_head links;
	struct delayed_work work;
	struct llist_head reap;
	struct work_struct reap_work;
	struct ipoib_cm_stats stats;
	atomic_long_t waiting_bytes;
};

/**
 * struct ipoib_cm_rx - receiving side of the connections in a channel
 * @ch: channel
 * @conns: connections that receive there (port lock)
 * @pool: pages for received messages
 * @format: format of their receives
 * @rxq: receive queue shared by all; its srq is NULL if the HCA has none
 */
struct ipoib_cm_rx {
	struct ipoib_channel *ch;
	u32 conns;
	struct page_pool *pool;
	struct ipoib_rx_format format;
	struct ipoib_rxq rxq;
};

/**
 * struct ipoib_cm_port - state shared by the connections of a port
 * @users: interfaces in connected mode, and lost QPs of connections
 * @max_sge: SGEs that a receive may have
 * @max_msg: longest message that a connection receives
 * @srq: receives come from SRQs
 * @rx: by channel; the first always exists, others once they are needed
 */
struct ipoib_cm_port {
	u32 users;
	u32 max_sge;
	u32 max_msg;
	bool srq;
	struct ipoib_cm_rx *rx[IPOIB_MAX_CHANNELS];
};

/* Transmit queue for packets to a neighbour. */
static inline struct ipoib_txq *ipoib_link_txq(const struct ipoib_link *link)
{
	const struct ipoib_dev *dev = link->dev;

	return dev->txqs[ipoib_addr_queue(link->addr, dev->num_txqs)];
}

static inline bool ipoib_conn_is_active(const struct ipoib_conn *conn)
{
	return conn->active;
}

/* ipoib_link.c */
void ipoib_cm_kick(struct ipoib_cm *cm);
void ipoib_conn_notify(struct ipoib_conn *conn, enum ipoib_conn_event ev);
void ipoib_link_notify(struct ipoib_link *link);
void ipoib_link_move(struct ipoib_link *link, enum ipoib_link_state to);
void ipoib_link_failed(struct ipoib_link *link);
void ipoib_link_drop(struct ipoib_link *link, struct sk_buff *skb,
		     enum skb_drop_reason reason);
void ipoib_link_count_waiting(struct ipoib_link *link, int bytes);
void ipoib_link_wait(struct ipoib_link *link, struct sk_buff *skb);
void ipoib_link_take_waiting(struct ipoib_link *link,
			     struct sk_buff_head *list);
void ipoib_link_return(struct ipoib_link *link,
		       struct sk_buff_head *list);
void ipoib_link_put(struct ipoib_link *link);

/* ipoib_rc.c */
extern const struct ipoib_qp_ops ipoib_rc_qp_ops;
void ipoib_rc_purge(struct ipoib_conn *conn, struct sk_buff_head *left);
void ipoib_rc_disown(struct ipoib_conn *conn);
void ipoib_rc_drop(struct ipoib_conn *conn);
void ipoib_rc_resend(struct sk_buff_head *list);

/* ipoib_cm_port.c */
int ipoib_cm_port_get(struct ipoib_port *port);
void ipoib_cm_port_keep(struct ipoib_port *port);
void ipoib_cm_port_put(struct ipoib_port *port);
int ipoib_conn_create_rxq(struct ipoib_conn *conn);
void ipoib_conn_detach_rxq(struct ipoib_conn *conn);
void ipoib_conn_free_rxq(struct ipoib_conn *conn);
int ipoib_conn_fill_rxq(struct ipoib_conn *conn);

/* ipoib_cm_peers.c */
void ipoib_conn_leave(struct ipoib_conn *conn);
void ipoib_conn_settle(struct ipoib_conn *conn);
enum ipoib_half_open ipoib_conn_judge(const struct ipoib_conn *conn,
				      bool noted);
u32 ipoib_cm_limit(struct ipoib_dev *dev);
int ipoib_conn_add_passive(struct ipoib_conn *conn);
void ipoib_conn_proven(struct ipoib_conn *conn);
void ipoib_conn_peer_died(struct ipoib_conn *conn);
int ipoib_cm_make_peers(struct ipoib_cm *cm);
void ipoib_cm_free_peers(struct ipoib_cm *cm);

/* ipoib_conn.c */
void ipoib_conn_move(struct ipoib_conn *conn, enum ipoib_conn_state to);
struct ipoib_conn *ipoib_conn_alloc(struct ipoib_dev *dev,
				    bool active);
void ipoib_cm_put(struct ipoib_cm *cm);
void ipoib_conn_free(struct ipoib_conn *conn);
int ipoib_conn_add(struct ipoib_conn *conn);
int ipoib_conn_create_qp(struct ipoib_conn *conn);
int ipoib_conn_to_init(struct ipoib_conn *conn);
int ipoib_conn_to_rts(struct ipoib_conn *conn);
bool ipoib_conn_stalled(struct ipoib_conn *conn);
bool ipoib_conn_idle(const struct ipoib_conn *conn);
void ipoib_conn_lose_link(struct ipoib_conn *conn, bool failed, bool again);
void ipoib_conn_requeue(struct ipoib_conn *conn);
void ipoib_conn_stop_begin(struct ipoib_conn *conn);
void ipoib_conns_close(struct list_head *list);
void ipoib_conn_reap(struct ipoib_conn *conn);
void ipoib_conn_retire(struct ipoib_conn *conn);
void ipoib_conn_note_refusal(struct ipoib_conn *conn);
void ipoib_conn_close(struct ipoib_conn *conn, struct list_head *closing);
void ipoib_conn_fail(struct ipoib_conn *conn, bool again,
		     struct list_head *closing);
void ipoib_cm_reap_work(struct work_struct *work);

#endif /* IPOIB_CM_INTERNAL_H */
