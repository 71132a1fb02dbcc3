/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decisions that need no device: states, events, delays, sizes
 *
 * The rooms of the driver ask here what is allowed, how long to wait and how
 * large to make things, and act on it themselves.  Like ipoib_proto.h this
 * also runs in the unit tests in user space.  No state, no locks.
 */
#ifndef IPOIB_RULES_H
#define IPOIB_RULES_H

#include <linux/bits.h>
#include <linux/ethtool.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

/* ---- events ------------------------------------------------------------- */

/**
 * enum ipoib_event - what an interface still has to do; bits are independent
 * @IPOIB_EV_REVALIDATE: the SM is new or asked for it: keep forwarding with
 *	what is known, join again and refresh paths in the background
 * @IPOIB_EV_REJOIN: LID, prefix or link changed: the same, and tell the peers
 * @IPOIB_EV_PORT: port state may have changed: carrier, address
 * @IPOIB_EV_PKEY: P_Key table changed: rebuild the QP if its index moved
 * @IPOIB_EV_SQ_ERROR: a send failed; the QP may be in SQE
 * @IPOIB_EV_RESTART: the QP is broken or stuck: rebuild it
 * @IPOIB_EV_START: what failed on the way up is to be tried again
 * @IPOIB_EV_LINK: the broadcast group was joined: MTU, address, carrier
 */
enum ipoib_event {
	IPOIB_EV_REVALIDATE,
	IPOIB_EV_REJOIN,
	IPOIB_EV_PORT,
	IPOIB_EV_PKEY,
	IPOIB_EV_SQ_ERROR,
	IPOIB_EV_RESTART,
	IPOIB_EV_START,
	IPOIB_EV_LINK,
};

unsigned long ipoib_event_classify(enum ib_event_type event, u32 num, u32 own);

/* ---- states ------------------------------------------------------------- */

/**
 * enum ipoib_path_state - life of a path
 * @IPOIB_PATH_IDLE: nothing known, nobody asks
 * @IPOIB_PATH_QUEUED: waits for a place among the queries
 * @IPOIB_PATH_QUERY: the SA was asked
 * @IPOIB_PATH_VALID: the record is known
 * @IPOIB_PATH_BACKOFF: the SA did not answer; asked again later
 * @IPOIB_PATH_DEAD: no neighbour points here; only RCU keeps the memory
 */
enum ipoib_path_state {
	IPOIB_PATH_IDLE,
	IPOIB_PATH_QUEUED,
	IPOIB_PATH_QUERY,
	IPOIB_PATH_VALID,
	IPOIB_PATH_BACKOFF,
	IPOIB_PATH_DEAD,
};

const char *ipoib_path_state_name(enum ipoib_path_state state);
bool ipoib_path_may_move(enum ipoib_path_state from, enum ipoib_path_state to);

/**
 * enum ipoib_mcast_state - membership of a group as the SA sees it
 * @IPOIB_MCAST_IDLE: not a member; to be joined when its time comes
 * @IPOIB_MCAST_JOINING: the SA was asked
 * @IPOIB_MCAST_JOINED: the SA said yes; the QP is not attached yet
 * @IPOIB_MCAST_MEMBER: attached, sending and receiving
 */
enum ipoib_mcast_state {
	IPOIB_MCAST_IDLE,
	IPOIB_MCAST_JOINING,
	IPOIB_MCAST_JOINED,
	IPOIB_MCAST_MEMBER,
};

const char *ipoib_mcast_state_name(enum ipoib_mcast_state state);
bool ipoib_mcast_may_move(enum ipoib_mcast_state from,
			  enum ipoib_mcast_state to);

/**
 * enum ipoib_link_state - a neighbour that takes connections
 * @IPOIB_LINK_IDLE: no connection, and no packet asked for one
 * @IPOIB_LINK_WANTED: a connection is to be opened
 * @IPOIB_LINK_CONNECTING: the peer was asked
 * @IPOIB_LINK_UP: packets go by the connection
 * @IPOIB_LINK_BACKOFF: the peer refused or did not answer; datagrams only,
 *	until it is time to ask again
 */
enum ipoib_link_state {
	IPOIB_LINK_IDLE,
	IPOIB_LINK_WANTED,
	IPOIB_LINK_CONNECTING,
	IPOIB_LINK_UP,
	IPOIB_LINK_BACKOFF,
};

const char *ipoib_link_state_name(enum ipoib_link_state state);
bool ipoib_link_may_move(enum ipoib_link_state from, enum ipoib_link_state to);

/**
 * enum ipoib_conn_state - life of a connection: of one QP
 * @IPOIB_CONN_NEW: to ask the peer, or to answer its request
 * @IPOIB_CONN_ASKED: REQ sent
 * @IPOIB_CONN_ANSWERED: REP sent; the peer may send already
 * @IPOIB_CONN_UP: established
 * @IPOIB_CONN_CLOSING: nothing is sent any more; the QP is taken down
 * @IPOIB_CONN_DEAD: the QP is gone; the CM still has to be told
 */
enum ipoib_conn_state {
	IPOIB_CONN_NEW,
	IPOIB_CONN_ASKED,
	IPOIB_CONN_ANSWERED,
	IPOIB_CONN_UP,
	IPOIB_CONN_CLOSING,
	IPOIB_CONN_DEAD,
};

const char *ipoib_conn_state_name(enum ipoib_conn_state state);
bool ipoib_conn_may_move(enum ipoib_conn_state from, enum ipoib_conn_state to);

/* ---- delays, all in jiffies --------------------------------------------- */

#define IPOIB_BACKOFF_MAX	(16 * HZ)
#define IPOIB_PATH_FRESH	HZ	/* no second query within this time */
#define IPOIB_PATH_PROBES	(5 * HZ)	/* probes that belong together */

unsigned long ipoib_path_delay(u32 failures);
unsigned long ipoib_mcast_delay(u32 failures, bool broadcast);
unsigned long ipoib_link_delay(u32 failures);
unsigned long ipoib_link_heard_delay(unsigned long now, unsigned long failed,
				     u16 lid, bool moved);
unsigned long ipoib_dev_delay(u32 failures);
unsigned long ipoib_delay_spread(unsigned long delay, u32 random);

/*
 * Requests that ib_sa did not send, since it has no address of the SM just now:
 * as many in a row are no failures, some four seconds of them.
 */
#define IPOIB_UNSENT_MAX	20

unsigned long ipoib_unsent_delay(u32 unsent);

/* When a path was asked for at @asked, may the SA be asked again @now? */
static inline bool ipoib_path_may_ask(unsigned long now, unsigned long asked)
{
	return time_after(now, asked + IPOIB_PATH_FRESH);
}

/* Longest that a peer heard from a LID that the SA denied is not believed. */
#define IPOIB_PATH_DENY_MAX	(300 * HZ)

unsigned long ipoib_path_deny_delay(u32 denials, bool same);

/**
 * ipoib_path_doubtful - does a probe @now mean that the last was not answered?
 * @now: jiffies
 * @probed: jiffies of the last probe that nothing answered yet, 0: none
 * @asked: jiffies of the last query
 */
static inline bool ipoib_path_doubtful(unsigned long now, unsigned long probed,
				       unsigned long asked)
{
	return probed && time_before(now, probed + IPOIB_PATH_PROBES) &&
	       ipoib_path_may_ask(now, asked);
}

/* ---- connections that peers open ---------------------------------------- */

/*
 * What peers may open.  Half-open is a connection until the peer has shown
 * that it got our reply; see "Requests that nobody meant" in design.rst.
 *
 * Ten thousand hosts need one connection each, and one more for each of their
 * containers that has an interface of its own in the partition.  With an SRQ
 * one is estimated at 8 KiB: a page for the ring of a QP with one send, what
 * the HCA's driver and the CM keep of it, and our own.  So all of them take
 * 256 MiB, those of a LID 32 MiB, those of a peer 2 MiB, and only as long as the
 * peer keeps them up; the half-open ones take 8 MiB, whoever asks for them.
 * Never more than a share of the HCA's QPs, since others need some, too.
 */
#define IPOIB_CM_MAX_PASSIVE	32768
#define IPOIB_CM_QP_SHARE	4	/* of the HCA's QPs, for each interface */
#define IPOIB_CM_MAX_HALF_OPEN	1024
#define IPOIB_CM_LID_SHARE	8	/* of both, for each LID */
#define IPOIB_CM_LID_LEAST	16
#define IPOIB_CM_PEER_OPEN	256	/* for each GID at a LID */
#define IPOIB_CM_PEER_HALF_OPEN	16

/**
 * struct ipoib_cm_usage - connections that peers have opened
 * @all: all of them
 * @lid: of these, those from the LID of the peer in question
 * @lid_half_open: of these, those that are half-open
 * @peer: of @lid, those with the peer's GID
 * @peer_half_open: of these, those that are half-open
 */
struct ipoib_cm_usage {
	u32 all;
	u32 lid;
	u32 lid_half_open;
	u32 peer;
	u32 peer_half_open;
};

/**
 * struct ipoib_cm_limits - how many connections peers may open
 * @all: all
 * @lid: from one LID
 * @half_open: half-open ones
 * @lid_half_open: of these, from one LID
 * @peer_half_open: of these, from one GID at a LID
 */
struct ipoib_cm_limits {
	u32 all;
	u32 lid;
	u32 half_open;
	u32 lid_half_open;
	u32 peer_half_open;
};

void ipoib_cm_get_limits(u32 all, struct ipoib_cm_limits *limits);
int ipoib_cm_admit(const struct ipoib_cm_usage *use,
		   const struct ipoib_cm_limits *limits);

/*
 * A peer that is there proves within milliseconds that it got our reply, and
 * in a second however busy it is.  One that does not is kept as long as its
 * place is not needed.
 */
#define IPOIB_HALF_OPEN_LEAST	HZ
#define IPOIB_HALF_OPEN_MOST	(30 * HZ)

/**
 * enum ipoib_half_open - what is known of a connection that was answered
 * @IPOIB_HALF_OPEN_WAIT: not long ago; or something has just been noted of it
 * @IPOIB_HALF_OPEN_SPARE: it may be given up if its place is needed
 * @IPOIB_HALF_OPEN_OVER: it is to be given up
 * @IPOIB_HALF_OPEN_PROVEN: the peer sends, so it got our reply
 */
enum ipoib_half_open {
	IPOIB_HALF_OPEN_WAIT,
	IPOIB_HALF_OPEN_SPARE,
	IPOIB_HALF_OPEN_OVER,
	IPOIB_HALF_OPEN_PROVEN,
};

enum ipoib_half_open ipoib_half_open_judge(unsigned long now,
					   unsigned long answered,
					   unsigned long used, bool noted);

/* ---- transmit queues ---------------------------------------------------- */

/* How long the timer of a transmit queue waits after @idle. */
static inline unsigned long ipoib_tx_idle(unsigned long idle, bool progress)
{
	return progress ? 1 : min(2 * idle, HZ / 10UL);
}

/* ---- sequence numbers of a ring, modulo 2^32 ---------------------------- */

/* Free places among @size when @tail is the oldest, @head the next to come. */
static inline u32 ipoib_ring_free(u32 size, u32 head, u32 tail)
{
	return size - (head - tail);
}

/* Is @seq one of those from @tail to before @head? */
static inline bool ipoib_ring_holds(u32 head, u32 tail, u32 seq)
{
	return seq - tail < head - tail;
}

/* Has @tail come as far as @mark, no more than half a circle away? */
static inline bool ipoib_ring_passed(u32 tail, u32 mark)
{
	return (s32)(tail - mark) >= 0;
}

/* ---- sizes -------------------------------------------------------------- */

#define IPOIB_SENDQ_MIN		64	/* packets */

/* Segments of a packet that is cut in the driver, in a queue of @size. */
static inline u32 ipoib_tso_segs(u32 size)
{
	return size / 3;
}

#define IPOIB_RX_HEAD		2048	/* octets after the GRH in the head */

u32 ipoib_queue_size(u32 size, u32 least, u32 most);
u32 ipoib_sendq_fit(u32 size, int max_wr, int max_cqe);
u32 ipoib_recvq_fit(u32 size, int max_wr, int max_cqe, int max_srq_wr);
u32 ipoib_child_sendq(u32 size);
u32 ipoib_srq_fit(u32 size, int max_srq_wr, int max_cqe);
u32 ipoib_srq_want(u32 size, u32 users);
u32 ipoib_cq_size(u32 need, u32 num, u32 most);

/* The part of a datagram of @len octets that goes to the head of a buffer. */
static inline u32 ipoib_rx_head_len(u32 len)
{
	return min_t(u32, len, IPOIB_RX_HEAD);
}

u32 ipoib_rc_bufs(u32 max_sge, u32 *large);

/* The MTU in use; @link: the broadcast group's, 0 while it is not known. */
static inline u32 ipoib_mtu(u32 link, u32 admin)
{
	return link ? min(link, admin) : admin;
}

int ipoib_link_speed(u16 speed, int width);

/* ---- parameters --------------------------------------------------------- */

bool ipoib_name_listed(const char *list, const char *name);

#endif /* IPOIB_RULES_H */
