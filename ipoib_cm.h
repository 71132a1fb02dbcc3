/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connected mode (RFC 4755): what ipoib_cm.c, ipoib_cm_port.c and ipoib_rc.c
 * share
 */
#ifndef IPOIB_CM_H
#define IPOIB_CM_H

#include <linux/hashtable.h>
#include <linux/refcount.h>
#include <rdma/ib_cm.h>

#include "ipoib.h"

#define IPOIB_RC_RING		64	/* send queue of a connection */
#define IPOIB_LINK_WAIT_BYTES	(512 * 1024)

/*
 * After so much refusal in a row long packets are refused in turn, with a
 * smaller path MTU, see ipoib_link_refusal().  The route keeps that for
 * minutes, so a peer that is only down or busy must not cause it.
 */
#define IPOIB_LINK_REFUSED	6

/**
 * enum ipoib_conn_event - what a connection's work has yet to look at
 * @IPOIB_CONN_EV_OPEN: made: ask the peer, or answer it
 * @IPOIB_CONN_EV_REP: the peer agreed
 * @IPOIB_CONN_EV_RTU: the peer has heard that we agreed
 * @IPOIB_CONN_EV_REJ: the peer refused
 * @IPOIB_CONN_EV_TIMEOUT: the peer did not answer
 * @IPOIB_CONN_EV_DREQ: the peer closes it
 * @IPOIB_CONN_EV_BROKEN: a request failed, or the HCA says that the QP did
 * @IPOIB_CONN_EV_CLOSE: it is not needed any more
 * @IPOIB_CONN_EV_GIVE_UP: it is not needed any more if it is still half-open
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
 * struct ipoib_conn - a reliable connection: one QP, never used again
 *
 * The interface's work item (ipoib_cm_run()) makes it, moves its state and
 * takes it down; everybody else sets a bit of @events.  Its memory goes when
 * the CM has let go of its id.
 *
 * @qp: QP; its kind says who opened the connection
 * @cqs: room for its completions
 * @id: the CM's handle
 * @state: see there
 * @events: bits of enum ipoib_conn_event
 * @todo: in the list of those with events, then of those to be freed
 * @listed: bit 0: it is
 * @entry: in the interface's list
 * @peer: what the peer's private data said
 * @gid: the peer's port, if a peer opened it as that says
 * @lid: where our reply to it went; 0 if it was opened here
 * @from: connections of that LID, this one among them; NULL if it was opened
 *	here
 * @by_gid: in the interface's table of those that peers opened
 * @half_open: it counts as such (cm->lock)
 * @answered: in the interface's list of those of them that have our reply
 * @answered_lid: in the LID's
 * @reject: why the peer refused, enum ib_cm_rej_reason; 0 for another reason
 * @status: completion that broke it
 * @since: jiffies of the last change of state
 * @used: jiffies of the last packet
 * @link: neighbour it leads to, with a reference; NULL if a peer opened it
 * @broken: nothing may be posted any more (link's lock to write)
 * @ring: packets in flight; empty if a peer opened it
 * @head: sequence number of the next packet (link's lock)
 * @tail: sequence number of the oldest packet not completed (NAPI)
 * @seen_tail: @tail when it was last looked at
 * @seen_at: jiffies of the last look at which @tail had moved
 * @rx: where it receives if a peer opened it
 * @rxq: receive queue of its own on an HCA without SRQ, or NULL
 * @last_wqe: the HCA has done with the SRQ as far as this QP goes
 * @superseded: the peer has opened another one since, or seems to be dead
 * @rcu: frees it
 */
struct ipoib_conn {
	struct ipoib_qp qp;
	struct ipoib_cqs cqs;
	struct ib_cm_id *id;
	enum ipoib_conn_state state;
	unsigned long events;
	struct llist_node todo;
	unsigned long listed;
	struct list_head entry;
	struct ipoib_cm_peer peer;
	union ib_gid gid;
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
	struct ipoib_tx_ring ring;
	u32 head;
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
 * struct ipoib_link - a neighbour that takes connections
 * @lock: spinlock, taken with BHs disabled, inside the port's path_lock and
 *	the netdev TX lock: all of this, and the sending side of @conn
 * @ref: the neighbour, the connection and the list of links to be handled
 * @dev: interface
 * @neigh: its neighbour (path_lock), NULL once that is gone
 * @addr: the link-layer address
 * @state: see there
 * @conn: connection being opened or in use
 * @caps: IPOIB_CM_CAP_* of @conn while it is up
 * @max_msg: longest message it takes while it is up
 * @dead: the neighbour is gone
 * @waiting: packets for want of a connection or of room in its ring
 * @waiting_bytes: their octets
 * @failures: in a row to open a connection
 * @refused: how much the peer has refused since the last connection, see
 *	ipoib_link_refusal()
 * @breaks: in a row of connections that did not last
 * @failed: when that happened last, in jiffies
 * @retry: jiffies before which the peer is not asked again
 * @todo: in the list of links to be handled
 * @listed: bit 0: it is
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
 * struct ipoib_rc_wr - a request under construction
 * @wr: request
 * @sge: its pieces
 */
struct ipoib_rc_wr {
	struct ib_send_wr wr;
	struct ib_sge sge[IPOIB_MAX_SGE];
};

/**
 * struct ipoib_rc_chain - requests of a transmit queue not yet posted
 * @conn: connection they are for, NULL if there are none.  Between two packets
 *	of a burst RCU keeps it
 * @num: how many
 * @w: requests
 */
struct ipoib_rc_chain {
	struct ipoib_conn *conn;
	u32 num;
	struct ipoib_rc_wr w[IPOIB_POST_BATCH];
};

/**
 * struct ipoib_cm_stats - counters of an interface
 * @opened: connections opened from here
 * @accepted: connections that peers opened
 * @open_failures: not answered, refused, or not possible here
 * @rejected: refused by peers
 * @refused: requests of peers that were refused
 * @malformed: of these, for what was in them
 * @closed_by_peer: connections that peers closed
 * @closed_idle: connections closed because nobody used them
 * @broken: connections lost by an error
 * @stalled: of these, because nothing was sent for long
 * @requeued: packets of a lost connection sent once more
 * @waiting_dropped: packets that found no room to wait
 * @pmtu: packets too long for their neighbour
 * @bad: packets from peers that make no sense
 * @half_open_dropped: peers' connections given up before they were proven
 * @limited: of @refused, because the peer has enough
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
	atomic64_t pmtu;
	u64 bad;
	u64 half_open_dropped;
	u64 limited;
	u64 half_open_refused;
};

/**
 * struct ipoib_cm_lid - what peers at a LID have opened; all by ipoib_cm.lock
 * @by_lid: in the interface's table
 * @lid: LID
 * @num: connections; with the last it goes
 * @half_open: of these, those that are
 * @answered: of those, the ones that have our reply, the first of them first
 */
struct ipoib_cm_lid {
	struct hlist_node by_lid;
	u32 lid;
	u32 num;
	u32 half_open;
	struct list_head answered;
};

/**
 * struct ipoib_cm_peers - how the connections that peers opened are found
 * @by_gid: struct ipoib_conn.by_gid, of those with a GID the newest first
 * @by_lid: struct ipoib_cm_lid.by_lid
 * @seed: of @by_gid, since peers choose what they say their GIDs are
 */
struct ipoib_cm_peers {
	DECLARE_HASHTABLE(by_gid, 10);
	DECLARE_HASHTABLE(by_lid, 9);
	u32 seed;
};

/**
 * struct ipoib_cm - connections of an interface
 * @dev: interface
 * @users: the interface, and connections that have not been freed
 * @unused: completed when there are none
 * @run: mutex inside ipoib_dev.lock: making, moving and taking down
 *	connections; their states
 * @lock: spinlock, taken with BHs disabled; nothing nests inside it: @conns,
 *	counts, @running, @peers
 * @running: the interface is up in connected mode
 * @offload: offer peers to leave checksums and segmentation out
 * @renew: bit 0: all connections are to be closed; those needed open again
 * @qpn: UD QP that peers know us by
 * @listen: where requests come in
 * @conns: struct ipoib_conn.entry; none leaves without @run
 * @active: connections opened from here
 * @passive: connections that peers opened
 * @num_half_open: of these, not proven yet
 * @answered: of these, those that were answered, the first of them first
 * @peers: finds those that peers opened; NULL in datagram mode
 * @checked: jiffies of the last look at all connections (@run)
 * @todo: connections with events
 * @links: links to be handled
 * @work: makes, moves and takes down connections
 * @reap: connections whose CM id is to be destroyed
 * @reap_work: does it, since that may take long
 * @pmtu: packets whose senders are to be told a smaller MTU
 * @pmtu_work: tells them
 * @stats: counters
 */
struct ipoib_cm {
	struct ipoib_dev *dev;
	refcount_t users;
	struct completion unused;
	struct mutex run;	/* life of connections */
	spinlock_t lock;	/* list and counts of connections */
	bool running;
	bool offload;
	unsigned long renew;
	u32 qpn;
	struct ib_cm_id *listen;
	struct list_head conns;
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
	struct sk_buff_head pmtu;
	struct work_struct pmtu_work;
	struct ipoib_cm_stats stats;
};

/**
 * struct ipoib_cm_rx - receives of connections in a channel
 * @ch: channel
 * @conns: connections that receive there (port lock)
 * @pool: pages of received messages
 * @format: their receives
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
 * struct ipoib_cm_port - what the connections of a port share
 * @users: interfaces in connected mode
 * @max_sge: pieces that a receive may have
 * @max_msg: longest message that a connection takes
 * @srq: receives come from SRQs
 * @rx: by channel; the first is always there, others once they are needed
 */
struct ipoib_cm_port {
	u32 users;
	u32 max_sge;
	u32 max_msg;
	bool srq;
	struct ipoib_cm_rx *rx[IPOIB_MAX_CHANNELS];
};

/* The MTU that the sender of a packet in ipoib_cm.pmtu is to be told. */
static inline u32 *ipoib_pmtu_cb(struct sk_buff *skb)
{
	return (u32 *)skb->cb;
}

/* The queue that packets for a neighbour take. */
static inline struct ipoib_txq *ipoib_link_txq(const struct ipoib_link *link)
{
	const struct ipoib_ud *ud = &link->dev->ud;

	return ud->txqs[ipoib_addr_queue(link->addr, ud->num_txqs)];
}

static inline bool ipoib_conn_is_active(const struct ipoib_conn *conn)
{
	return conn->qp.kind == IPOIB_QP_TX;
}

/* ipoib_cm.c */
void ipoib_conn_notify(struct ipoib_conn *conn, enum ipoib_conn_event ev);
void ipoib_link_notify(struct ipoib_link *link);
void ipoib_link_move(struct ipoib_link *link, enum ipoib_link_state to);

/* ipoib_cm_port.c */
int ipoib_cm_port_get(struct ipoib_port *port);
void ipoib_cm_port_put(struct ipoib_port *port);
int ipoib_conn_create_rxq(struct ipoib_conn *conn);
int ipoib_conn_fill_rxq(struct ipoib_conn *conn);
void ipoib_conn_detach_rxq(struct ipoib_conn *conn);
void ipoib_conn_free_rxq(struct ipoib_conn *conn);

/* ipoib_rc.c */
void ipoib_rc_purge(struct ipoib_conn *conn, struct sk_buff_head *left);
void ipoib_rc_resend(struct sk_buff_head *list);

#endif /* IPOIB_CM_H */
