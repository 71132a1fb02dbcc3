/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decisions that need no device: states, events, delays, sizes
 *
 * The rest of the driver looks up here what is allowed, how long to wait and
 * how large to make things, and acts on it.  Like ipoib_proto.h this also runs
 * in the unit tests in user space.  No state, no locks.
 */
#ifndef IPOIB_RULES_H
#define IPOIB_RULES_H

#include <linux/ipoib.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

/* ---- events ------------------------------------------------------------- */

/**
 * enum ipoib_event - pending work of an interface; bits are independent
 * @IPOIB_EV_REVALIDATE: SM changed or asked for reregistration: keep forwarding
 *	with known records, join again and refresh paths in the background
 * @IPOIB_EV_REJOIN: LID, prefix or link changed: the same, and tell the peers
 * @IPOIB_EV_PORT: port state may have changed: carrier, address
 * @IPOIB_EV_PKEY: P_Key table changed: rebuild the QP if its index moved
 * @IPOIB_EV_SQ_ERROR: a send failed; the QP may be in SQE
 * @IPOIB_EV_RESTART: the QP is broken or stuck: rebuild it
 * @IPOIB_EV_START: retry what failed while bringing the interface up
 * @IPOIB_EV_LINK: the broadcast group was joined: MTU, address, carrier
 * @IPOIB_EV_CAUSE: the interface may be down for another reason than before
 * @IPOIB_EV_ANSWERED: of a port: its SA answers again: repeat what was not answered
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
	IPOIB_EV_CAUSE,
	IPOIB_EV_ANSWERED,
};

unsigned long ipoib_event_classify(enum ib_event_type event, u32 num, u32 own);

/* ---- states ------------------------------------------------------------- */

/**
 * enum ipoib_dev_state - state of an interface
 * @IPOIB_DEV_CLOSED: before ndo_open and after ndo_stop
 * @IPOIB_DEV_NO_PKEY: open; the port's table lacks the P_Key
 * @IPOIB_DEV_STARTING: being brought up, or taken down to be brought up again
 * @IPOIB_DEV_UP: QPs in RTS, groups are joined, connections accepted
 * @IPOIB_DEV_BROKEN: open, but bringing it up failed; everything is down until
 *	the next attempt after a delay
 * @IPOIB_DEV_STOPPING: its ndo_stop is running or about to be called
 */
enum ipoib_dev_state {
	IPOIB_DEV_CLOSED,
	IPOIB_DEV_NO_PKEY,
	IPOIB_DEV_STARTING,
	IPOIB_DEV_UP,
	IPOIB_DEV_BROKEN,
	IPOIB_DEV_STOPPING,
};

/**
 * enum ipoib_path_state - state of a path
 * @IPOIB_PATH_IDLE: not known, no query needed
 * @IPOIB_PATH_QUEUED: waits for its turn to be queried
 * @IPOIB_PATH_QUERY: query in flight
 * @IPOIB_PATH_VALID: the record is known
 * @IPOIB_PATH_BACKOFF: the query failed; repeated later
 * @IPOIB_PATH_DEAD: no neighbour points here; freed after an RCU grace period
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
 * @IPOIB_MCAST_IDLE: not a member; to be joined, possibly after a back-off
 * @IPOIB_MCAST_JOINING: join in flight
 * @IPOIB_MCAST_JOINED: join succeeded; the QP is not attached yet
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
 * enum ipoib_link_state - state of a neighbour that accepts connections
 * @IPOIB_LINK_IDLE: no connection, and no packet asked for one
 * @IPOIB_LINK_WANTED: a connection is to be opened
 * @IPOIB_LINK_CONNECTING: a connection is being opened
 * @IPOIB_LINK_UP: packets are sent on the connection
 * @IPOIB_LINK_BACKOFF: REJ received or no answer; datagrams only, until the
 *	next attempt
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
 * enum ipoib_conn_state - state of a connection, that is of one QP
 * @IPOIB_CONN_NEW: REQ or REP to be sent
 * @IPOIB_CONN_ASKED: REQ sent
 * @IPOIB_CONN_ANSWERED: REP sent; the peer may send already
 * @IPOIB_CONN_UP: established
 * @IPOIB_CONN_CLOSING: nothing is sent any more; the QP is taken down
 * @IPOIB_CONN_DEAD: the QP is gone; the CM id is to be destroyed
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

#define IPOIB_CM_WAIT_BYTES	(32 * 1024 * 1024)	/* of an interface */
#define IPOIB_LINK_WAIT_BYTES	(1024 * 1024)	/* of these, for a neighbour */
#define IPOIB_LINK_WAIT_LEAST	(16 * 1024)	/* for each neighbour, always */

bool ipoib_link_may_wait(u32 waiting, long all, u32 more);

/* ---- what users are told ------------------------------------------------ */

enum ipoib_path_status ipoib_path_status(enum ipoib_path_state state);
enum ipoib_link_status ipoib_link_status(enum ipoib_link_state state);
enum ipoib_group_status ipoib_group_status(enum ipoib_mcast_state state);
enum ipoib_conn_status ipoib_conn_status(enum ipoib_conn_state state);

/**
 * struct ipoib_facts - what decides whether an interface can carry packets
 * @state: of the interface
 * @port: enum ib_port_state, or -errno if the HCA did not tell
 * @joined: the broadcast group has been joined
 * @join_error: how the last join failed; 0: it did not
 * @unusable: it was joined, and @join_error is why it can't be used
 * @limited: the port is a limited member of the partition
 */
struct ipoib_facts {
	enum ipoib_dev_state state;
	int port;
	bool joined;
	int join_error;
	bool unusable;
	bool limited;
};

enum ipoib_cause ipoib_find_cause(const struct ipoib_facts *facts);

/* True if the cause is the port's, the same for all of its interfaces. */
static inline bool ipoib_cause_of_port(enum ipoib_cause cause)
{
	return cause == IPOIB_CAUSE_PORT_UNKNOWN ||
	       cause == IPOIB_CAUSE_PORT_DOWN ||
	       cause == IPOIB_CAUSE_PORT_INIT ||
	       cause == IPOIB_CAUSE_PORT_ARMED ||
	       cause == IPOIB_CAUSE_SA_UNREACHABLE ||
	       cause == IPOIB_CAUSE_SA_SILENT;
}

/* True if it passes soon where nothing is wrong. */
static inline bool ipoib_cause_may_pass(enum ipoib_cause cause)
{
	return ipoib_cause_of_port(cause) || cause == IPOIB_CAUSE_JOINING ||
	       cause == IPOIB_CAUSE_JOIN_REFUSED ||
	       cause == IPOIB_CAUSE_LIMITED_PKEY ||
	       cause == IPOIB_CAUSE_STARTING;
}

/* ---- delays, all in jiffies --------------------------------------------- */

#define IPOIB_BACKOFF_MAX	(16 * HZ)
#define IPOIB_PATH_FRESH	HZ	/* no second query within this time */
#define IPOIB_PATH_PROBES	(5 * HZ)	/* for consecutive probes */

unsigned long ipoib_path_delay(u32 failures);
unsigned long ipoib_mcast_delay(u32 failures, bool broadcast);
unsigned long ipoib_link_delay(u32 failures);
unsigned long ipoib_heard_slot(u16 lid);
unsigned long ipoib_link_heard_delay(unsigned long now, unsigned long failed,
				     u16 lid, bool moved);
unsigned long ipoib_dev_delay(u32 failures);
unsigned long ipoib_delay_spread(unsigned long delay, u32 random);

/*
 * Requests that ib_sa did not send, because it has no address of the SM yet: up
 * to this many in a row are no failures, some four seconds.
 */
#define IPOIB_UNSENT_MAX	20

unsigned long ipoib_unsent_delay(u32 unsent);

/**
 * enum ipoib_probe_next - what follows a probe of the SA
 * @IPOIB_PROBE_END: nothing, the SA answers
 * @IPOIB_PROBE_HURRY: it answers again: everything that failed is repeated
 * @IPOIB_PROBE_AGAIN: another probe
 */
enum ipoib_probe_next {
	IPOIB_PROBE_END,
	IPOIB_PROBE_HURRY,
	IPOIB_PROBE_AGAIN,
};

enum ipoib_probe_next ipoib_probe_judge(unsigned long now, bool answered,
					u32 missed, unsigned long hurried);

/* True if the SA may be queried again @now, after a query at @asked. */
static inline bool ipoib_path_may_ask(unsigned long now, unsigned long asked)
{
	return time_after(now, asked + IPOIB_PATH_FRESH);
}

/* Longest time that a LID that the SA denied causes no query. */
#define IPOIB_PATH_DENY_MAX	(300 * HZ)

unsigned long ipoib_path_deny_delay(u32 denials, bool same);

/* Was the last probe, if it is unanswered, a short time before @now? */
static inline bool ipoib_path_probing(unsigned long now, unsigned long probed)
{
	return probed && time_before(now, probed + IPOIB_PATH_PROBES);
}

/**
 * ipoib_path_doubtful - does a probe @now mean that the last was not answered?
 * @now: jiffies
 * @probed: jiffies of the last probe if it is unanswered, 0: none
 * @asked: jiffies of the last query
 */
static inline bool ipoib_path_doubtful(unsigned long now, unsigned long probed,
				       unsigned long asked)
{
	return ipoib_path_probing(now, probed) &&
	       ipoib_path_may_ask(now, asked);
}

/* ---- connections that peers open ---------------------------------------- */

/*
 * What peers may open.  A connection is half-open until the peer has shown that
 * it got our reply; see "Requests that nobody meant" in dev/design.rst.
 *
 * Ten thousand hosts need one connection each, and one more for each of their
 * containers that has an interface of its own in the partition.  With an SRQ a
 * connection is estimated at 8 KiB: a page for the ring of a QP with one send,
 * the state of the HCA's driver and the CM, and our own.  So all of them take
 * 256 MiB, those of a LID 32 MiB, those of a peer 2 MiB, and only while peers
 * keep them up; half-open ones take 8 MiB, regardless of who opens them.
 * Never more than a share of the HCA's QPs, which others need, too.
 */
#define IPOIB_CM_MAX_PASSIVE	32768
#define IPOIB_CM_QP_SHARE	4	/* of the HCA's QPs, per interface */
#define IPOIB_CM_MAX_HALF_OPEN	1024
#define IPOIB_CM_LID_SHARE	8	/* of both limits, per LID */
#define IPOIB_CM_LID_LEAST	16
#define IPOIB_CM_PEER_OPEN	256	/* per GID at a LID */
#define IPOIB_CM_PEER_HALF_OPEN	16

/**
 * struct ipoib_cm_usage - connections that peers have opened
 * @all: all of them
 * @lid: of these, those from the LID of the peer in question
 * @lid_half_open: of these, half-open ones
 * @peer: of @lid, those with the peer's GID
 * @peer_half_open: of these, half-open ones
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
 * A live peer proves within milliseconds that it got our reply, and within a
 * second even when it is busy.  A connection of one that does not is kept while
 * its place is not needed.
 */
#define IPOIB_HALF_OPEN_LEAST	HZ
#define IPOIB_HALF_OPEN_MOST	(30 * HZ)

/**
 * enum ipoib_half_open - what is known of a connection that was answered
 * @IPOIB_HALF_OPEN_WAIT: answered recently, or an event is pending
 * @IPOIB_HALF_OPEN_SPARE: it may be dropped if its place is needed
 * @IPOIB_HALF_OPEN_OVER: it is to be dropped
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

/* Next interval of a transmit queue's timer, after @idle. */
static inline unsigned long ipoib_tx_idle(unsigned long idle, bool progress)
{
	return progress ? 1 : min(2 * idle, HZ / 10UL);
}

/* ---- sequence numbers of a ring, modulo 2^32 ---------------------------- */

/* Free slots of @size; @tail is the oldest packet, @head the next one. */
static inline u32 ipoib_ring_free(u32 size, u32 head, u32 tail)
{
	return size - (head - tail);
}

/* Is @seq in flight, that is from @tail to before @head? */
static inline bool ipoib_ring_holds(u32 head, u32 tail, u32 seq)
{
	return seq - tail < head - tail;
}

/* Has @tail reached @mark, at most 2^31 away? */
static inline bool ipoib_ring_passed(u32 tail, u32 mark)
{
	return (s32)(tail - mark) >= 0;
}

/* ---- sizes -------------------------------------------------------------- */

#define IPOIB_SENDQ_MIN		64	/* packets */

/* Most segments of a packet segmented by the driver, in a queue of @size. */
static inline u32 ipoib_tso_segs(u32 size)
{
	return size / 3;
}

#define IPOIB_RX_HEAD		2048	/* without GRH, in the first buffer */

u32 ipoib_queue_size(u32 size, u32 least, u32 most);
u32 ipoib_sendq_fit(u32 size, int max_wr, int max_cqe);
u32 ipoib_recvq_fit(u32 size, int max_wr, int max_cqe, int max_srq_wr);
u32 ipoib_child_sendq(u32 size);
u32 ipoib_srq_fit(u32 size, int max_srq_wr, int max_cqe);
u32 ipoib_srq_want(u32 size, u32 users);
u32 ipoib_cq_size(u32 need, u32 num, u32 most);

/* Bytes in the first buffer of a datagram of @len bytes. */
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

/**
 * ipoib_path_mtu - the MTU of a connection, as enum ib_mtu
 * @path: that of the path, as the SA says
 * @port: that of the port, 0 while it is not known
 */
static inline u8 ipoib_path_mtu(u8 path, u8 port)
{
	if (!port || (path >= IB_MTU_256 && path <= port))
		return path;
	return port;
}

int ipoib_link_speed(u16 speed, int width);

/* ---- parameters --------------------------------------------------------- */

bool ipoib_name_listed(const char *list, const char *name);

#endif /* IPOIB_RULES_H */
