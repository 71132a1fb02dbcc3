/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fuzzer's agent in the guest: what its files share
 *
 * An input is a sequence of calls.  Each is a kind, a variant, and data; what the
 * data lacks is valid: addresses, numbers and handles of the moment are put in
 * when the call is made.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)	((a) < (b) ? (a) : (b))

/* ---- inputs (input.c) --------------------------------------------------- */

/**
 * enum call_kind - who is called
 * @CALL_PACKET: a packet arrives at a port; the variant is what it carries
 * @CALL_CM: a MAD of connection management arrives, the variant its attribute
 * @CALL_SA: an answer of the SA to a request of the driver
 * @CALL_LINK: rtnetlink; the variant is the kind of request
 * @CALL_GENL: generic netlink; the variant has family and command
 * @CALL_ETHTOOL: the ioctl; the variant is the command
 * @CALL_WRITE: text is written to a file; the variant chooses it
 * @CALL_READ: a file is read
 * @CALL_VERBS: a command of user verbs
 * @CALL_SEND: a packet socket, or others, send on an interface
 * @CALL_WAIT: nothing, for up to 16 ms
 * @CALL_KINDS: their number
 */
enum call_kind {
	CALL_PACKET,
	CALL_CM,
	CALL_SA,
	CALL_LINK,
	CALL_GENL,
	CALL_ETHTOOL,
	CALL_WRITE,
	CALL_READ,
	CALL_VERBS,
	CALL_SEND,
	CALL_WAIT,
	CALL_KINDS,
};

/**
 * struct call - one call of an input
 * @kind: enum call_kind
 * @variant: its meaning depends on the kind
 * @len: bytes of @data
 * @data: points into the input
 */
struct call {
	u8 kind;
	u8 variant;
	u16 len;
	const u8 *data;
};

#define CALLS_MAX	24
#define CALL_DATA_MAX	512
#define CALL_HEADER	4
#define INPUT_MAX	8000

int input_parse(struct call *calls, const u8 *data, size_t size);

/**
 * struct reader - data of a call that is used up from its beginning
 * @pos: next byte
 * @left: bytes from there; after them all are 0
 */
struct reader {
	const u8 *pos;
	size_t left;
};

struct reader reader_of(const struct call *call);
u8 take8(struct reader *r);
u16 take16(struct reader *r);
u32 take32(struct reader *r);
size_t take(struct reader *r, void *to, size_t len);
void take_patches(struct reader *r, u8 *message, size_t len);

/* ---- the scene (scene.c) ------------------------------------------------ */

#define PORTS		2
#define LLADDR_LEN	20

/**
 * struct scene_port - an HCA's port, and the interface on it
 * @lid: its LID
 * @sm_lid: the subnet manager's
 * @gid: its GID
 * @lladdr: link-layer address of the interface; the QPN is in bytes 1 to 3
 * @child: of the child, or the same if there is none
 * @inject: file that takes packets
 */
struct scene_port {
	u16 lid;
	u16 sm_lid;
	u8 gid[16];
	u8 lladdr[LLADDR_LEN];
	u8 child[LLADDR_LEN];
	int inject;
};

extern struct scene_port scene_ports[PORTS];

/* A host that there is not, at a LID that no port has */
#define GHOST_LID	0x70
extern const u8 ghost_gid[16];
extern const u8 ghost_lladdr[LLADDR_LEN];
extern const u8 broadcast_lladdr[LLADDR_LEN];

void scene_open(void);
void scene_read(void);
bool scene_healthy(void);
/* Numbers of scene_name() */
enum {
	SCENE_CHILD	= 1,
	SCENE_ETHER	= 2,
	SCENE_BRIDGE	= 8,
};

const char *scene_name(u8 n);
unsigned int scene_index(const char *name);
bool scene_is_ether(const char *name);
bool scene_write(const char *path, const void *data, size_t len);
void scene_text(const char *path, const char *text);
bool scene_read_text(const char *path, char *text, size_t size);
u32 lladdr_qpn(const u8 *lladdr);

/* ---- calls -------------------------------------------------------------- */

/**
 * struct stations - the sender of a packet, and who it is for
 * @ether: they are on Ethernet: link-layer addresses have 6 bytes, not 20
 * @src: link-layer address of the sender
 * @dst: of the receiver
 * @host: number of the sender's IP address
 * @target: of the receiver's
 */
struct stations {
	bool ether;
	const u8 *src;
	const u8 *dst;
	u8 host;
	u8 target;
};

#define ETHER_LEN	6

void packet_call(const struct call *call);
size_t payload_make(u8 *to, size_t room, u8 variant, const struct stations *s,
		    struct reader *r);
struct virtio_net_hdr;
void payload_offload(u8 *payload, size_t len, size_t before,
		     struct virtio_net_hdr *vnet);

void mirror_start(void);
void mirror_forget(void);
void cm_call(const struct call *call);
void sa_call(const struct call *call);

/**
 * struct conn_seen - a connection that a port wants or accepts
 * @local: the port's communication id
 * @remote: the peer's, which is ours
 * @qpn: the port's QP
 * @psn: of the next packet for it
 */
struct conn_seen {
	u32 local;
	u32 remote;
	u32 qpn;
	u32 psn;
};

bool mirror_conn(unsigned int port, struct conn_seen *conn);
void mirror_sent(unsigned int port);

void netlink_open(void);
void families_read(void);
void link_call(const struct call *call);
void genl_call(const struct call *call);
void ethtool_call(const struct call *call);
void links_clean(void);

void files_open(void);
void write_call(const struct call *call);
void read_call(const struct call *call);
void files_undo(void);
void files_settle(void);

/**
 * enum verbs_variant - variants of user verbs that are not a command's number
 * @VERBS_SCENE: PD, region, CQ, QP
 * @VERBS_PAIR: two connected QPs
 * @VERBS_UD: a UD QP that can send
 * @VERBS_TRAFFIC: a receive and a send of the latest QPs
 * @VERBS_READ_WRITE: RDMA of the latest QPs
 * @VERBS_LAST: the last one of these
 * @VERBS_IOCTL: from here on the ioctl, about an object
 */
enum verbs_variant {
	VERBS_SCENE = 64,
	VERBS_PAIR,
	VERBS_UD,
	VERBS_TRAFFIC,
	VERBS_READ_WRITE,
	VERBS_LAST = VERBS_READ_WRITE,
	VERBS_IOCTL = 128,
};

void verbs_open(void);
void verbs_call(const struct call *call);
void verbs_close(void);

void send_open(void);
void send_call(const struct call *call);

#endif
