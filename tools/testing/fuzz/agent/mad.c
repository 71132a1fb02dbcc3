// SPDX-License-Identifier: GPL-2.0-only
/*
 * MADs: of connection management, and answers of the SA
 *
 * What the ports ask and answer is seen by the fabric's mirrors: a thread reads
 * them, and keeps the numbers that answers need.
 */
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"

#define DEBUGFS		"/sys/kernel/debug/ibdevsim"
#define GSI_QKEY	0x80010000
#define MAD_LEN		256
#define MAD_DATA	24
#define SA_DATA		56
#define CLASS_SA	0x03
#define CLASS_CM	0x07
#define METHOD_SEND	0x03
#define METHOD_ANSWER	0x80

enum {
	CM_REQ = 0x10, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP,
	CM_SIDR_REQ, CM_SIDR_REP, CM_LAP, CM_APR,
};

enum {
	SA_PATH = 0x35,
	SA_MEMBER = 0x38,
};

/* Records of the mirror: pcap, ERF, packet */
#define PCAP_FILE	24
#define PCAP_RECORD	16
#define ERF_HEADER	16

#define REMEMBERED	8

/**
 * struct seen - what a port sent
 * @sa: requests to the SA that were not answered here, the latest of them
 * @sa_n: their number
 * @asked: it asked for a connection
 * @asked_id: its communication id in the latest such request
 * @accepted: it accepted a connection
 * @conn: the latest one
 */
struct seen {
	u8 sa[REMEMBERED][MAD_LEN];
	unsigned int sa_n;
	bool asked;
	u32 asked_id;
	bool accepted;
	struct conn_seen conn;
};

static struct seen seen[PORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static u32 next_id = 0x10000;

static u16 get16(const u8 *from)
{
	return from[0] << 8 | from[1];
}

static u32 get32(const u8 *from)
{
	return (u32)get16(from) << 16 | get16(from + 2);
}

static void set16(u8 *to, u16 value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static void set32(u8 *to, u32 value)
{
	set16(to, value >> 16);
	set16(to + 2, value);
}

static void set24(u8 *to, u32 value)
{
	to[0] = value >> 16;
	set16(to + 1, value);
}

/* ---- what ports send ---------------------------------------------------- */

static void see_sa(struct seen *s, const u8 *mad)
{
	if (mad[3] & METHOD_ANSWER)
		return;
	if (s->sa_n == REMEMBERED) {
		memmove(s->sa[0], s->sa[1], sizeof(s->sa) - MAD_LEN);
		s->sa_n--;
	}
	memcpy(s->sa[s->sa_n++], mad, MAD_LEN);
}

static void see_cm(struct seen *s, const u8 *mad)
{
	const u8 *data = mad + MAD_DATA;

	switch (get16(mad + 16)) {
	case CM_REQ:
		s->asked = true;
		s->asked_id = get32(data);
		break;
	case CM_REP:
		s->accepted = true;
		/* The PSN is that of our REQ. */
		s->conn = (struct conn_seen){
			.local = get32(data),
			.remote = get32(data + 4),
			.qpn = get32(data + 12) >> 8,
		};
		break;
	}
}

static void see_packet(unsigned int port, const u8 *pos, size_t len)
{
	size_t grh = (len > 8 && (pos[1] & 3) == 3) ? 40 : 0;

	/* LRH, BTH, DETH; for QP1 */
	if (len < 8 + grh + 20 + MAD_LEN)
		return;
	pos += 8 + grh;
	if ((pos[0] & 0xfe) != 0x64 || (get32(pos + 4) & 0xffffff) != 1)
		return;
	pos += 20;
	pthread_mutex_lock(&lock);
	if (pos[1] == CLASS_SA)
		see_sa(&seen[port], pos);
	else if (pos[1] == CLASS_CM)
		see_cm(&seen[port], pos);
	pthread_mutex_unlock(&lock);
}

static bool read_all(int fd, void *to, size_t len)
{
	u8 *pos = to;

	while (len) {
		ssize_t n = read(fd, pos, len);

		if (n <= 0)
			return false;
		pos += n;
		len -= n;
	}
	return true;
}

static void *mirror_run(void *arg)
{
	unsigned int port = (uintptr_t)arg;
	u8 header[PCAP_RECORD], *packet = NULL;
	static u8 buffers[PORTS][16384];
	char path[128];
	u32 len;
	int fd;

	packet = buffers[port];
	snprintf(path, sizeof(path), DEBUGFS "/ibdevsim%u/port1/mirror", port);
	for (;;) {
		scene_text(path, "1");
		snprintf(path, sizeof(path), DEBUGFS "/ibdevsim%u/port1/pcap", port);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err(2, "%s", path);
		if (read_all(fd, packet, PCAP_FILE))
			while (read_all(fd, header, sizeof(header))) {
				memcpy(&len, header + 8, sizeof(len));
				if (len > sizeof(buffers[0]) ||
				    !read_all(fd, packet, len))
					break;
				/* Interface 1: what the port sends */
				if (len > ERF_HEADER && (packet[9] & 3) == 1)
					see_packet(port, packet + ERF_HEADER,
						   len - ERF_HEADER);
			}
		close(fd);
		/* A call has switched the mirror off. */
		usleep(1000);
		snprintf(path, sizeof(path), DEBUGFS "/ibdevsim%u/port1/mirror", port);
	}
	return NULL;
}

void mirror_start(void)
{
	pthread_t thread;
	uintptr_t n;

	for (n = 0; n < PORTS; n++)
		if (pthread_create(&thread, NULL, mirror_run, (void *)n))
			errx(2, "no thread");
}

/* Each input begins anew. */
void mirror_forget(void)
{
	pthread_mutex_lock(&lock);
	memset(seen, 0, sizeof(seen));
	pthread_mutex_unlock(&lock);
}

void mirror_sent(unsigned int port)
{
	pthread_mutex_lock(&lock);
	seen[port].conn.psn++;
	pthread_mutex_unlock(&lock);
}

/* Answers take a moment. */
static bool await(unsigned int port, bool (*there)(const struct seen *s))
{
	struct timespec pause = { .tv_nsec = 400000 };
	bool found = false;
	int i;

	for (i = 0; i < 8 && !found; i++) {
		if (i)
			nanosleep(&pause, NULL);
		pthread_mutex_lock(&lock);
		found = there(&seen[port]);
		pthread_mutex_unlock(&lock);
	}
	return found;
}

static bool has_conn(const struct seen *s)
{
	return s->accepted;
}

/* The latest connection of a port; false if there is none in a moment. */
bool mirror_conn(unsigned int port, struct conn_seen *conn)
{
	bool found = await(port, has_conn);

	pthread_mutex_lock(&lock);
	*conn = seen[port].conn;
	pthread_mutex_unlock(&lock);
	return found;
}

/* ---- MADs arrive -------------------------------------------------------- */

static void mad_arrives(unsigned int to, u16 slid, const u8 *mad)
{
	struct scene_port *port = &scene_ports[to];
	u8 packet[8 + 20 + MAD_LEN] = { 0 };

	packet[1] = 2;
	set16(packet + 2, port->lid);
	set16(packet + 6, slid);
	packet[8] = 0x64;
	set16(packet + 10, 0xffff);
	set32(packet + 12, 1);
	set32(packet + 20, GSI_QKEY);
	set32(packet + 24, 1);
	memcpy(packet + 28, mad, MAD_LEN);
	if (write(port->inject, packet, sizeof(packet)) < 0)
		return;
}

/* ---- connection management ---------------------------------------------- */

enum {
	CM_TO_PEER	= 1 << 0,
	CM_FROM_GHOST	= 1 << 1,
	CM_SAME_ID	= 1 << 2,	/* as the request before */
	CM_AS_OURS	= 1 << 3,	/* private data with our extension */
};

static bool has_req(const struct seen *s)
{
	return s->asked;
}

static u32 asked_id(unsigned int port)
{
	u32 id;

	pthread_mutex_lock(&lock);
	id = seen[port].asked_id;
	pthread_mutex_unlock(&lock);
	return id;
}

static void fill_private(u8 *to, u8 flags, const u8 *lladdr)
{
	set32(to, lladdr_qpn(lladdr));
	set32(to + 4, 65524);
	if (!(flags & CM_AS_OURS))
		return;
	set32(to + 8, 0x49506f2b);
	to[12] = 1;
	set32(to + 16, 3);
}

static u8 *fill_req(u8 *data, unsigned int to, u8 flags)
{
	struct scene_port *port = &scene_ports[to], *peer = &scene_ports[!to];
	bool ghost = flags & CM_FROM_GHOST;

	if (!(flags & CM_SAME_ID))
		next_id++;
	set32(data, next_id);
	data[8] = 0x10;
	set24(data + 8 + 5, lladdr_qpn(port->lladdr));
	set32(data + 20, next_id);
	set24(data + 32, 0x4000 + next_id % 0x1000);
	data[43] = 0x50;		/* timeouts; RC */
	data[47] = 0x50;
	set16(data + 48, 0xffff);
	data[50] = 4 << 4 | 7;		/* MTU, RNR retries */
	data[51] = 0xf0;
	set16(data + 52, ghost ? GHOST_LID : peer->lid);
	set16(data + 54, port->lid);
	memcpy(data + 56, ghost ? ghost_gid : peer->gid, 16);
	memcpy(data + 72, port->gid, 16);
	data[91] = 3;			/* rate */
	data[93] = 64;
	data[94] = 0x08;		/* subnet local */
	data[95] = 14 << 3;
	fill_private(data + 140, flags, ghost ? ghost_lladdr : peer->lladdr);
	return data + 140;
}

static u8 *fill_rep(u8 *data, unsigned int to, u8 flags)
{
	if (!await(to, has_req))
		return NULL;
	set32(data + 4, asked_id(to));
	set32(data, ++next_id);
	set24(data + 12, 0x4000 + next_id % 0x1000);
	data[26] = 0x78;
	data[27] = 7 << 5;
	set32(data + 28 + 4, next_id);
	fill_private(data + 36, flags, flags & CM_FROM_GHOST ? ghost_lladdr :
		     scene_ports[!to].lladdr);
	return data + 36;
}

/* Messages about a connection that there is, or is asked for */
static u8 *fill_other(u8 *data, unsigned int to, u16 attr, u8 flags)
{
	struct conn_seen conn = { };

	if (flags & CM_SAME_ID && await(to, has_req)) {
		conn.local = asked_id(to);
		conn.remote = next_id;
	} else if (!mirror_conn(to, &conn)) {
		return NULL;
	}
	set32(data, conn.remote);
	set32(data + 4, conn.local);
	switch (attr) {
	case CM_DREQ:
		set24(data + 8, conn.qpn);
		return data + 12;
	case CM_REJ:
		data[8] = flags & CM_SAME_ID ? 0 : 0x40;
		set16(data + 10, 28);	/* the consumer's reason */
		return data + 84;
	case CM_MRA:
		data[9] = 5 << 3;
		return data + 10;
	default:
		return data + 8;
	}
}

/**
 * cm_call - a message of connection management arrives
 * @call: the variant is the attribute, from CM_REQ on; data: flags, patches of
 *	the message, private data
 */
void cm_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u16 attr = CM_REQ + call->variant % (CM_APR - CM_REQ + 1);
	u8 mad[MAD_LEN] = { 1, CLASS_CM, 2, METHOD_SEND };
	u8 flags = take8(&r), *private;
	unsigned int to = flags & CM_TO_PEER ? 1 : 0;

	if (attr == CM_REQ || attr == CM_SIDR_REQ)
		private = fill_req(mad + MAD_DATA, to, flags);
	else if (attr == CM_REP)
		private = fill_rep(mad + MAD_DATA, to, flags);
	else
		private = fill_other(mad + MAD_DATA, to, attr, flags);
	if (!private)
		return;
	set32(mad + 12, next_id);
	set16(mad + 16, attr);
	take_patches(&r, mad + MAD_DATA, sizeof(mad) - MAD_DATA);
	take(&r, private, mad + sizeof(mad) - private);
	mad_arrives(to, flags & CM_FROM_GHOST ? GHOST_LID : scene_ports[!to].lid, mad);
}

/* ---- the SA ------------------------------------------------------------- */

enum {
	SA_TO_PEER	= 1 << 0,
	SA_GHOST	= 1 << 1,	/* the path leads nowhere */
	SA_KEEP		= 1 << 2,	/* the request may be answered again */
	SA_REFUSE	= 1 << 3,	/* with the status in two bytes */
	SA_OLDEST	= 1 << 4,
};

static bool has_sa(const struct seen *s)
{
	return s->sa_n;
}

static void fill_path(u8 *record, unsigned int to, u8 flags)
{
	struct scene_port *port = &scene_ports[to], *peer = &scene_ports[!to];

	set16(record + 40, flags & SA_GHOST ? GHOST_LID : peer->lid);
	set16(record + 42, port->lid);
	record[49] = 0x80;		/* reversible */
	set16(record + 50, 0xffff);
	record[54] = 0x80 | 5;
	record[55] = 0x80 | 3;
	record[56] = 0x80 | 14;
}

static void fill_member(u8 *record)
{
	set32(record + 32, 0x0b1b);
	set16(record + 36, 0xc000 + record[15] % 64);
	record[38] = 0x80 | 5;
	if (!get16(record + 40))
		set16(record + 40, 0xffff);
	record[42] = 0x80 | 3;
	record[43] = 0x80 | 14;
}

/**
 * sa_call - the SA answers a request of a port
 * @call: data: flags; a status; patches of the header and record; what follows
 *	replaces the record's beginning
 *
 * Nothing happens if there is none within some milliseconds.
 */
void sa_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u8 flags = take8(&r), mad[MAD_LEN];
	unsigned int to = flags & SA_TO_PEER ? 1 : 0, at;
	struct seen *s = &seen[to];

	if (!await(to, has_sa))
		return;
	pthread_mutex_lock(&lock);
	if (!s->sa_n) {
		pthread_mutex_unlock(&lock);
		return;
	}
	at = flags & SA_OLDEST ? 0 : s->sa_n - 1;
	memcpy(mad, s->sa[at], sizeof(mad));
	if (!(flags & SA_KEEP)) {
		s->sa_n--;
		memmove(s->sa[at], s->sa[at + 1], (s->sa_n - at) * MAD_LEN);
	}
	pthread_mutex_unlock(&lock);
	/* Get, Set and GetTable are answered by GetResp and GetTableResp. */
	mad[3] = mad[3] == 0x12 ? 0x92 : mad[3] == 0x15 ? 0x95 : 0x81;
	set16(mad + 4, flags & SA_REFUSE ? take16(&r) : 0);
	if (get16(mad + 16) == SA_PATH)
		fill_path(mad + SA_DATA, to, flags);
	else if (get16(mad + 16) == SA_MEMBER && mad[3] == 0x81)
		fill_member(mad + SA_DATA);
	take_patches(&r, mad + SA_DATA, sizeof(mad) - SA_DATA);
	if (call->variant & 1)
		take_patches(&r, mad, SA_DATA);
	take(&r, mad + SA_DATA, sizeof(mad) - SA_DATA);
	mad_arrives(to, scene_ports[to].sm_lid, mad);
}
