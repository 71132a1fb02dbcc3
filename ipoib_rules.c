// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decisions that need no device: tables and rare cases, see ipoib_rules.h
 */
#include <linux/bits.h>
#include <linux/ethtool.h>
#include <linux/log2.h>
#include <linux/string.h>

#include "ipoib_proto.h"
#include "ipoib_rules.h"

#define IPOIB_PATH_DELAY_MIN	(HZ / 4)
#define IPOIB_MCAST_DELAY_MIN	HZ
#define IPOIB_LINK_DELAY_MIN	(HZ / 2)
#define IPOIB_HEARD_SECOND	5000	/* peers that retry per second */
#define IPOIB_HEARD_HOSTS	10000	/* beyond that they share slots */
#define IPOIB_DEV_DELAY_MIN	(HZ / 4)
#define IPOIB_UNSENT_DELAY_MIN	(HZ / 20UL)
#define IPOIB_UNSENT_DELAY_MAX	(HZ / 4UL)
#define IPOIB_DELAY_DOUBLINGS	8U
#define IPOIB_SRQ_GROWTH	3U

/* ---- events ------------------------------------------------------------- */

/**
 * ipoib_event_classify - what an HCA event requires of a port's interfaces
 * @event: event
 * @num: port it is about, meaningless if it is about the whole HCA
 * @own: port of the interfaces
 * Return: bits of enum ipoib_event
 */
unsigned long ipoib_event_classify(enum ib_event_type event, u32 num, u32 own)
{
	if (event != IB_EVENT_DEVICE_FATAL && num != own)
		return 0;
	switch (event) {
	case IB_EVENT_SM_CHANGE:
	case IB_EVENT_CLIENT_REREGISTER:
		return BIT(IPOIB_EV_REVALIDATE);
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_LID_CHANGE:
		return BIT(IPOIB_EV_PORT) | BIT(IPOIB_EV_REJOIN);
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_GID_CHANGE:
	case IB_EVENT_DEVICE_FATAL:
		return BIT(IPOIB_EV_PORT);
	case IB_EVENT_PKEY_CHANGE:
		return BIT(IPOIB_EV_PKEY);
	default:
		return 0;
	}
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_event_classify);

/* ---- states ------------------------------------------------------------- */

/* Name of a state, and the states that may follow: bits */
struct ipoib_state {
	const char *name;
	u8 moves;
};

static const struct ipoib_state ipoib_path_states[] = {
	[IPOIB_PATH_IDLE]	= { "idle", BIT(IPOIB_PATH_QUEUED) |
					    BIT(IPOIB_PATH_DEAD) },
	[IPOIB_PATH_QUEUED]	= { "queued", BIT(IPOIB_PATH_QUERY) |
					      BIT(IPOIB_PATH_DEAD) },
	[IPOIB_PATH_QUERY]	= { "query", BIT(IPOIB_PATH_VALID) |
					     BIT(IPOIB_PATH_BACKOFF) |
					     BIT(IPOIB_PATH_QUEUED) |
					     BIT(IPOIB_PATH_IDLE) },
	[IPOIB_PATH_VALID]	= { "valid", BIT(IPOIB_PATH_QUEUED) |
					     BIT(IPOIB_PATH_DEAD) },
	[IPOIB_PATH_BACKOFF]	= { "backoff", BIT(IPOIB_PATH_QUEUED) |
					       BIT(IPOIB_PATH_IDLE) |
					       BIT(IPOIB_PATH_DEAD) },
	[IPOIB_PATH_DEAD]	= { "dead", 0 },
};

/* IDLE may follow every state. */
static const struct ipoib_state ipoib_mcast_states[] = {
	[IPOIB_MCAST_IDLE]	= { "idle", BIT(IPOIB_MCAST_JOINING) |
					    BIT(IPOIB_MCAST_IDLE) },
	[IPOIB_MCAST_JOINING]	= { "joining", BIT(IPOIB_MCAST_JOINED) |
					       BIT(IPOIB_MCAST_IDLE) },
	[IPOIB_MCAST_JOINED]	= { "joined", BIT(IPOIB_MCAST_MEMBER) |
					      BIT(IPOIB_MCAST_IDLE) },
	[IPOIB_MCAST_MEMBER]	= { "member", BIT(IPOIB_MCAST_IDLE) },
};

static const struct ipoib_state ipoib_link_states[] = {
	[IPOIB_LINK_IDLE]	= { "idle", BIT(IPOIB_LINK_WANTED) },
	[IPOIB_LINK_WANTED]	= { "wanted", BIT(IPOIB_LINK_CONNECTING) |
					      BIT(IPOIB_LINK_BACKOFF) },
	[IPOIB_LINK_CONNECTING]	= { "connecting", BIT(IPOIB_LINK_UP) |
						  BIT(IPOIB_LINK_WANTED) |
						  BIT(IPOIB_LINK_BACKOFF) },
	[IPOIB_LINK_UP]		= { "up", BIT(IPOIB_LINK_IDLE) |
					  BIT(IPOIB_LINK_WANTED) |
					  BIT(IPOIB_LINK_BACKOFF) },
	[IPOIB_LINK_BACKOFF]	= { "backoff", BIT(IPOIB_LINK_WANTED) },
};

static const struct ipoib_state ipoib_conn_states[] = {
	[IPOIB_CONN_NEW]	= { "new", BIT(IPOIB_CONN_ASKED) |
					   BIT(IPOIB_CONN_ANSWERED) |
					   BIT(IPOIB_CONN_CLOSING) },
	[IPOIB_CONN_ASKED]	= { "asked", BIT(IPOIB_CONN_UP) |
					     BIT(IPOIB_CONN_CLOSING) },
	[IPOIB_CONN_ANSWERED]	= { "answered", BIT(IPOIB_CONN_UP) |
						BIT(IPOIB_CONN_CLOSING) },
	[IPOIB_CONN_UP]		= { "up", BIT(IPOIB_CONN_CLOSING) },
	[IPOIB_CONN_CLOSING]	= { "closing", BIT(IPOIB_CONN_DEAD) },
	[IPOIB_CONN_DEAD]	= { "dead", 0 },
};

const char *ipoib_path_state_name(enum ipoib_path_state state)
{
	return ipoib_path_states[state].name;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_path_state_name);

bool ipoib_path_may_move(enum ipoib_path_state from, enum ipoib_path_state to)
{
	return ipoib_path_states[from].moves & BIT(to);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_path_may_move);

const char *ipoib_mcast_state_name(enum ipoib_mcast_state state)
{
	return ipoib_mcast_states[state].name;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_mcast_state_name);

bool ipoib_mcast_may_move(enum ipoib_mcast_state from,
			  enum ipoib_mcast_state to)
{
	return ipoib_mcast_states[from].moves & BIT(to);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_mcast_may_move);

const char *ipoib_link_state_name(enum ipoib_link_state state)
{
	return ipoib_link_states[state].name;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_state_name);

bool ipoib_link_may_move(enum ipoib_link_state from, enum ipoib_link_state to)
{
	return ipoib_link_states[from].moves & BIT(to);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_may_move);

const char *ipoib_conn_state_name(enum ipoib_conn_state state)
{
	return ipoib_conn_states[state].name;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_conn_state_name);

bool ipoib_conn_may_move(enum ipoib_conn_state from, enum ipoib_conn_state to)
{
	return ipoib_conn_states[from].moves & BIT(to);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_conn_may_move);

/* ---- what users are told ------------------------------------------------ */

/**
 * ipoib_path_status - a path's state as users see it
 * @state: state
 */
enum ipoib_path_status ipoib_path_status(enum ipoib_path_state state)
{
	switch (state) {
	case IPOIB_PATH_QUEUED:
	case IPOIB_PATH_QUERY:
		return IPOIB_PATH_STATUS_ASKING;
	case IPOIB_PATH_VALID:
		return IPOIB_PATH_STATUS_VALID;
	case IPOIB_PATH_BACKOFF:
		return IPOIB_PATH_STATUS_FAILED;
	default:
		return IPOIB_PATH_STATUS_UNKNOWN;
	}
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_path_status);

/**
 * ipoib_link_status - likewise for a link
 * @state: state
 */
enum ipoib_link_status ipoib_link_status(enum ipoib_link_state state)
{
	switch (state) {
	case IPOIB_LINK_WANTED:
	case IPOIB_LINK_CONNECTING:
		return IPOIB_LINK_STATUS_OPENING;
	case IPOIB_LINK_UP:
		return IPOIB_LINK_STATUS_UP;
	case IPOIB_LINK_BACKOFF:
		return IPOIB_LINK_STATUS_FAILED;
	default:
		return IPOIB_LINK_STATUS_NONE;
	}
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_status);

/**
 * ipoib_group_status - likewise for a group
 * @state: state
 */
enum ipoib_group_status ipoib_group_status(enum ipoib_mcast_state state)
{
	switch (state) {
	case IPOIB_MCAST_JOINING:
	case IPOIB_MCAST_JOINED:
		return IPOIB_GROUP_STATUS_JOINING;
	case IPOIB_MCAST_MEMBER:
		return IPOIB_GROUP_STATUS_MEMBER;
	default:
		return IPOIB_GROUP_STATUS_WAITING;
	}
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_group_status);

/**
 * ipoib_conn_status - likewise for a connection
 * @state: state
 */
enum ipoib_conn_status ipoib_conn_status(enum ipoib_conn_state state)
{
	switch (state) {
	case IPOIB_CONN_NEW:
	case IPOIB_CONN_ASKED:
		return IPOIB_CONN_STATUS_OPENING;
	case IPOIB_CONN_ANSWERED:
		return IPOIB_CONN_STATUS_HALF_OPEN;
	case IPOIB_CONN_UP:
		return IPOIB_CONN_STATUS_UP;
	default:
		return IPOIB_CONN_STATUS_CLOSING;
	}
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_conn_status);

static enum ipoib_cause ipoib_join_cause(const struct ipoib_facts *facts)
{
	if (facts->unusable)
		return IPOIB_CAUSE_GROUP_UNUSABLE;
	switch (facts->join_error) {
	case 0:
		return IPOIB_CAUSE_JOINING;
	case -EINVAL:	/* the SA's answer is an error */
		return facts->limited ? IPOIB_CAUSE_LIMITED_PKEY :
					IPOIB_CAUSE_JOIN_REFUSED;
	case -ETIMEDOUT:
		return IPOIB_CAUSE_SA_SILENT;
	default:
		return IPOIB_CAUSE_SA_UNREACHABLE;
	}
}

/**
 * ipoib_find_cause - why an interface can't carry packets
 * @facts: what is known
 *
 * The first obstacle on the way up: whoever removes it learns of the next.
 *
 * Return: the cause, or IPOIB_CAUSE_NONE
 */
enum ipoib_cause ipoib_find_cause(const struct ipoib_facts *facts)
{
	switch (facts->state) {
	case IPOIB_DEV_CLOSED:
	case IPOIB_DEV_STOPPING:
		return IPOIB_CAUSE_ADMIN_DOWN;
	case IPOIB_DEV_BROKEN:
		return IPOIB_CAUSE_START_FAILED;
	default:
		break;
	}
	if (facts->port < 0)
		return IPOIB_CAUSE_PORT_UNKNOWN;
	if (facts->port == IB_PORT_INIT)
		return IPOIB_CAUSE_PORT_INIT;
	if (facts->port == IB_PORT_ARMED)
		return IPOIB_CAUSE_PORT_ARMED;
	if (facts->port != IB_PORT_ACTIVE)
		return IPOIB_CAUSE_PORT_DOWN;
	if (facts->state == IPOIB_DEV_NO_PKEY)
		return IPOIB_CAUSE_NO_PKEY;
	if (facts->state == IPOIB_DEV_STARTING)
		return IPOIB_CAUSE_STARTING;
	return facts->joined ? IPOIB_CAUSE_NONE : ipoib_join_cause(facts);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_find_cause);

/* ---- delays ------------------------------------------------------------- */

static unsigned long ipoib_delay_doubled(unsigned long first, u32 failures)
{
	return min(first << min(failures, IPOIB_DELAY_DOUBLINGS),
		   (unsigned long)IPOIB_BACKOFF_MAX);
}

/**
 * ipoib_path_delay - delay before a path is queried again
 * @failures: in a row before this one
 */
unsigned long ipoib_path_delay(u32 failures)
{
	return ipoib_delay_doubled(IPOIB_PATH_DELAY_MIN, failures);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_path_delay);

/**
 * ipoib_path_deny_delay - delay before a query for a LID seen in a packet
 * @denials: times that the SA denied such a LID
 * @same: it is the LID that the SA denied last
 *
 * Anybody can send a packet that claims to be a peer's.  A real change to
 * another LID is still found after 16 s at most.
 */
unsigned long ipoib_path_deny_delay(u32 denials, bool same)
{
	unsigned long most = same ? IPOIB_PATH_DENY_MAX : IPOIB_BACKOFF_MAX;

	return min((unsigned long)IPOIB_PATH_FRESH << min(denials, 9U), most);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_path_deny_delay);

/**
 * ipoib_mcast_delay - delay before a group is joined again
 * @failures: in a row before this one
 * @broadcast: it is the broadcast group, without which nothing works: quick at
 *	first
 */
unsigned long ipoib_mcast_delay(u32 failures, bool broadcast)
{
	if (broadcast && failures < IPOIB_DELAY_DOUBLINGS)
		return HZ / 4;
	return ipoib_delay_doubled(IPOIB_MCAST_DELAY_MIN, failures);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_mcast_delay);

/**
 * ipoib_link_may_wait - may a packet wait for a connection, or for room on it?
 * @waiting: bytes that wait for its neighbour
 * @all: bytes that wait for all neighbours of the interface
 * @more: size of the packet
 *
 * A neighbour gets up to a 16th of what is left, but always some, so that those
 * that stand still leave something to the others however many they are.  One
 * packet may always wait, however long it is.  All bytes are truesize.
 *
 * Source: dynamic thresholds of shared-memory switches (Choudhury and Hahne,
 * IEEE/ACM Transactions on Networking, 1998).
 */
bool ipoib_link_may_wait(u32 waiting, long all, u32 more)
{
	long most = clamp((IPOIB_CM_WAIT_BYTES - all) / 16,
			  (long)IPOIB_LINK_WAIT_LEAST,
			  (long)IPOIB_LINK_WAIT_BYTES);

	return !waiting || (s64)waiting + more <= most;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_may_wait);

/**
 * ipoib_link_delay - delay before a connection is tried again
 * @failures: in a row before this one
 */
unsigned long ipoib_link_delay(u32 failures)
{
	return ipoib_delay_doubled(IPOIB_LINK_DELAY_MIN, failures);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_delay);

/**
 * ipoib_heard_slot - how long to wait when a peer was heard from
 * @lid: of our port
 *
 * All peers of a server hear from it at the same time.  Most LIDs are assigned
 * one after the other from 1, so each host has a slot of its own, and with few
 * hosts nobody waits.
 *
 * Return: jiffies, two seconds at most
 */
unsigned long ipoib_heard_slot(u16 lid)
{
	return lid % IPOIB_HEARD_HOSTS * HZ / IPOIB_HEARD_SECOND;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_heard_slot);

/**
 * ipoib_link_heard_delay - when to try again a peer that was heard from
 * @now: jiffies
 * @failed: jiffies of the last failure
 * @lid: of our port
 * @moved: it was heard from another LID than the path's
 *
 * In a slot of this host.  If the peer has moved, the SA is queried meanwhile.
 *
 * Return: jiffies
 */
unsigned long ipoib_link_heard_delay(unsigned long now, unsigned long failed,
				     u16 lid, bool moved)
{
	unsigned long first = (moved ? now : failed) + ipoib_link_delay(0);

	return (time_after(first, now) ? first : now) + ipoib_heard_slot(lid);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_heard_delay);

/**
 * ipoib_dev_delay - delay before bringing an interface up is tried again
 * @failures: in a row before this one
 */
unsigned long ipoib_dev_delay(u32 failures)
{
	return ipoib_delay_doubled(IPOIB_DEV_DELAY_MIN, failures);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_dev_delay);

/**
 * ipoib_unsent_delay - delay before a request that ib_sa could not send
 * @unsent: attempts in a row before this one
 */
unsigned long ipoib_unsent_delay(u32 unsent)
{
	return min(IPOIB_UNSENT_DELAY_MIN << min(unsent, IPOIB_DELAY_DOUBLINGS),
		   IPOIB_UNSENT_DELAY_MAX);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_unsent_delay);

/**
 * ipoib_probe_judge - what follows a probe of the SA
 * @now: jiffies
 * @answered: it was answered
 * @missed: probes in a row that were not
 * @hurried: jiffies when everything was last repeated for a probe
 *
 * Without a probe that was not answered back-offs are short.  An SA that has
 * more to do than it can, and answers now and then, is not to get much more: what
 * failed is repeated no more often for probes than it is without them.
 */
enum ipoib_probe_next ipoib_probe_judge(unsigned long now, bool answered,
					u32 missed, unsigned long hurried)
{
	bool soon = !time_before(now, hurried) &&
		    time_before(now, hurried + IPOIB_BACKOFF_MAX);

	if (answered && !missed)
		return IPOIB_PROBE_END;
	return answered && !soon ? IPOIB_PROBE_HURRY : IPOIB_PROBE_AGAIN;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_probe_judge);

/**
 * ipoib_delay_spread - keep a thousand hosts from retrying in step
 * @delay: delay
 * @random: any number
 * Return: @delay and up to a quarter of it
 */
unsigned long ipoib_delay_spread(unsigned long delay, u32 random)
{
	return delay + ((random * (u64)(delay / 4 + 1)) >> 32);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_delay_spread);

/* ---- connections that peers open ---------------------------------------- */

/**
 * ipoib_cm_get_limits - how many connections peers may open
 * @all: limit of all
 * @limits: result
 *
 * Half-open ones, which make room for others, never use up the limit of a LID,
 * or of all.
 */
void ipoib_cm_get_limits(u32 all, struct ipoib_cm_limits *limits)
{
	limits->all = all;
	limits->lid = max_t(u32, all / IPOIB_CM_LID_SHARE, IPOIB_CM_LID_LEAST);
	limits->half_open = clamp(all / 2, 1U, (u32)IPOIB_CM_MAX_HALF_OPEN);
	limits->lid_half_open = min_t(u32, limits->lid / 2,
				      IPOIB_CM_MAX_HALF_OPEN /
				      IPOIB_CM_LID_SHARE);
	limits->peer_half_open = min_t(u32, limits->lid / 4,
				       IPOIB_CM_PEER_HALF_OPEN);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_cm_get_limits);

/**
 * ipoib_cm_admit - may a peer have another connection?
 * @use: connections that there are
 * @limits: how many there may be
 *
 * Return: 0; -ENOSPC if there are too many, -EBUSY if the peer or its LID has
 *	its share, -EAGAIN if just too many of them are half-open
 */
int ipoib_cm_admit(const struct ipoib_cm_usage *use,
		   const struct ipoib_cm_limits *limits)
{
	if (use->all >= limits->all)
		return -ENOSPC;
	if (use->lid >= limits->lid || use->peer >= IPOIB_CM_PEER_OPEN)
		return -EBUSY;
	if (use->lid_half_open >= limits->lid_half_open ||
	    use->peer_half_open >= limits->peer_half_open)
		return -EAGAIN;
	return 0;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_cm_admit);

/**
 * ipoib_half_open_judge - what to do with a half-open connection
 * @now: jiffies
 * @answered: jiffies of our reply
 * @used: jiffies of the last packet on it, or of its creation
 * @noted: an event is pending
 */
enum ipoib_half_open ipoib_half_open_judge(unsigned long now,
					   unsigned long answered,
					   unsigned long used, bool noted)
{
	if (noted)
		return IPOIB_HALF_OPEN_WAIT;
	/* The peer knows our QPN from our reply only. */
	if (time_after(used, answered))
		return IPOIB_HALF_OPEN_PROVEN;
	if (time_after(now, answered + IPOIB_HALF_OPEN_MOST))
		return IPOIB_HALF_OPEN_OVER;
	if (time_after(now, answered + IPOIB_HALF_OPEN_LEAST))
		return IPOIB_HALF_OPEN_SPARE;
	return IPOIB_HALF_OPEN_WAIT;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_half_open_judge);

/* ---- sizes -------------------------------------------------------------- */

/**
 * ipoib_queue_size - length of a queue from a parameter
 * @size: value of the parameter
 * @least: power of two
 * @most: power of two
 * Return: a power of two from @least to @most
 */
u32 ipoib_queue_size(u32 size, u32 least, u32 most)
{
	return roundup_pow_of_two(clamp(size, least, most));
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_queue_size);

static u32 ipoib_queue_room(int max_wr, int max_cqe)
{
	return min(max(max_wr, 2), max(max_cqe, 2));
}

/**
 * ipoib_sendq_fit - length of a send queue, clamped to the HCA's limits
 * @size: requested length, a power of two
 * @max_wr: requests the HCA allows a queue
 * @max_cqe: completions it allows a CQ
 * Return: a power of two, as the ring needs it, two at least: one slot is for
 *	the drain marker
 */
u32 ipoib_sendq_fit(u32 size, int max_wr, int max_cqe)
{
	return min_t(u32, size,
		     rounddown_pow_of_two(ipoib_queue_room(max_wr, max_cqe)));
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_sendq_fit);

/**
 * ipoib_recvq_fit - length of a receive queue, clamped to the HCA's limits
 * @size: requested length
 * @max_wr: requests the HCA allows a queue
 * @max_cqe: completions it allows a CQ
 * @max_srq_wr: requests it allows an SRQ
 */
u32 ipoib_recvq_fit(u32 size, int max_wr, int max_cqe, int max_srq_wr)
{
	return min3(size, ipoib_queue_room(max_wr, max_cqe) - 1,
		    (u32)max(max_srq_wr, 1));
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_recvq_fit);

/**
 * ipoib_child_sendq - length of a child's send queue
 * @size: the parent's, from ipoib_sendq_fit()
 *
 * There may be a thousand children, and the queue is most of a child's memory.
 */
u32 ipoib_child_sendq(u32 size)
{
	return size > IPOIB_SENDQ_MIN ? size / 2 : size;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_child_sendq);

/**
 * ipoib_rc_bufs - buffers of a receive for the longest message of a connection
 * @max_sge: SGEs the HCA allows a receive, at least one
 * @large: result: bytes of each buffer after the first
 *
 * The first is small and becomes the linear part of a packet, so that short
 * packets do not hold 64 KiB.  With four buffers the second may be what another
 * packet left of one.
 *
 * Return: most buffers; a single one is too small for the longest IP packet,
 *	and peers learn that
 */
u32 ipoib_rc_bufs(u32 max_sge, u32 *large)
{
	*large = max_sge == 2 ? 65536 : 32768;
	return min(max_sge, 4U);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_rc_bufs);

/**
 * ipoib_srq_fit - length that an SRQ may grow to
 * @size: length of a receive queue, from ipoib_recvq_fit()
 * @max_srq_wr: requests the HCA allows an SRQ
 * @max_cqe: completions it allows a CQ, which has room for @size more
 * Return: @size or more
 */
u32 ipoib_srq_fit(u32 size, int max_srq_wr, int max_cqe)
{
	s64 most = min((s64)max_srq_wr, (s64)max_cqe - size);

	return clamp(most, (s64)size, (s64)size * IPOIB_SRQ_GROWTH);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_srq_fit);

/**
 * ipoib_srq_want - buffers that an SRQ should have
 * @size: length of a receive queue, from ipoib_recvq_fit()
 * @users: QPs that take from it, at least one
 */
u32 ipoib_srq_want(u32 size, u32 users)
{
	u32 growth = ilog2(users) / 3;

	return size * clamp(growth, 1U, IPOIB_SRQ_GROWTH);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_srq_want);

/**
 * ipoib_cq_size - size of a new CQ
 * @need: completions of the QP that needs it, at most @most
 * @num: CQs that are full
 * @most: completions the HCA allows
 * Return: room for several QPs, for more of them if there are more CQs
 */
u32 ipoib_cq_size(u32 need, u32 num, u32 most)
{
	u64 size = (u64)need << min(num + 2, 16U);

	return min_t(u64, size, most);
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_cq_size);

/* Mbit/s of one lane by LinkSpeedActive, IBA volume 1 section 14.2.5.6. */
static const struct {
	u16 speed;
	u32 mbps;
} ipoib_lane_speeds[] = {
	{ IB_SPEED_SDR,		2500 },
	{ IB_SPEED_DDR,		5000 },
	{ IB_SPEED_QDR,		10000 },
	{ IB_SPEED_FDR10,	10000 },
	{ IB_SPEED_FDR,		14000 },
	{ IB_SPEED_EDR,		25000 },
	{ IB_SPEED_HDR,		50000 },
	{ IB_SPEED_NDR,		100000 },
	{ IB_SPEED_XDR,		200000 },
};

/**
 * ipoib_link_speed - rate of a link
 * @speed: LinkSpeedActive of the port
 * @width: lanes, negative if not known
 * Return: Mbit/s or SPEED_UNKNOWN
 */
int ipoib_link_speed(u16 speed, int width)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ipoib_lane_speeds); i++)
		if (ipoib_lane_speeds[i].speed == speed && width > 0)
			return ipoib_lane_speeds[i].mbps * width;
	return SPEED_UNKNOWN;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_link_speed);

/* ---- parameters --------------------------------------------------------- */

/**
 * ipoib_name_listed - is a name in a list?
 * @list: names separated by commas, or NULL
 * @name: name
 */
bool ipoib_name_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	while (list && *list) {
		if (!strncmp(list, name, len) &&
		    (list[len] == ',' || !list[len]))
			return true;
		list = strchr(list, ',');
		if (list)
			list++;
	}
	return false;
}
EXPORT_SYMBOL_FOR_IPOIB_TEST(ipoib_name_listed);
