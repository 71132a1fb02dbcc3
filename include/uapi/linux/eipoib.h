/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/eipoib.yaml */
/* YNL-GEN uapi header */

#ifndef _UAPI_LINUX_EIPOIB_H
#define _UAPI_LINUX_EIPOIB_H

#define EIPOIB_FAMILY_NAME	"eipoib"
#define EIPOIB_FAMILY_VERSION	1

/**
 * enum eipoib_guest_status - What is known of an address of a guest.
 * @EIPOIB_GUEST_STATUS_SEEN: Its station sends data from it, and is asked
 *   whether it answers for it.
 * @EIPOIB_GUEST_STATUS_CLAIMED: Its station answers for it; the fabric is
 *   asked.
 * @EIPOIB_GUEST_STATUS_HELD: It is the guest's.
 * @EIPOIB_GUEST_STATUS_ASKED: It is the guest's, which is asked whether it
 *   still has it.
 * @EIPOIB_GUEST_STATUS_REFUSED: It is somebody else's.
 * @EIPOIB_GUEST_STATUS_FIXED: It was given to the guest.
 */
enum eipoib_guest_status {
	EIPOIB_GUEST_STATUS_SEEN,
	EIPOIB_GUEST_STATUS_CLAIMED,
	EIPOIB_GUEST_STATUS_HELD,
	EIPOIB_GUEST_STATUS_ASKED,
	EIPOIB_GUEST_STATUS_REFUSED,
	EIPOIB_GUEST_STATUS_FIXED,
};

/**
 * enum eipoib_peer_status
 * @EIPOIB_PEER_STATUS_ASKED: The fabric is asked for its link-layer address.
 * @EIPOIB_PEER_STATUS_KNOWN: Its link-layer address is known.
 */
enum eipoib_peer_status {
	EIPOIB_PEER_STATUS_ASKED,
	EIPOIB_PEER_STATUS_KNOWN,
};

enum {
	EIPOIB_A_GUEST_IFINDEX = 1,
	EIPOIB_A_GUEST_ADDRESS,
	EIPOIB_A_GUEST_PREFIX_LEN,
	EIPOIB_A_GUEST_MAC,
	EIPOIB_A_GUEST_STATUS,
	EIPOIB_A_GUEST_IDLE,
	EIPOIB_A_GUEST_ROUTER,
	EIPOIB_A_GUEST_RIVAL,
	EIPOIB_A_GUEST_CONTENDER,
	EIPOIB_A_GUEST_WAITING_PACKETS,

	__EIPOIB_A_GUEST_MAX,
	EIPOIB_A_GUEST_MAX = (__EIPOIB_A_GUEST_MAX - 1)
};

enum {
	EIPOIB_A_PEER_IFINDEX = 1,
	EIPOIB_A_PEER_ADDRESS,
	EIPOIB_A_PEER_LLADDR,
	EIPOIB_A_PEER_MAC,
	EIPOIB_A_PEER_STATUS,
	EIPOIB_A_PEER_IDLE,
	EIPOIB_A_PEER_WAITING_PACKETS,

	__EIPOIB_A_PEER_MAX,
	EIPOIB_A_PEER_MAX = (__EIPOIB_A_PEER_MAX - 1)
};

enum {
	EIPOIB_A_GROUP_IFINDEX = 1,
	EIPOIB_A_GROUP_ADDRESS,
	EIPOIB_A_GROUP_MAC,
	EIPOIB_A_GROUP_USERS,
	EIPOIB_A_GROUP_EXPIRES,
	EIPOIB_A_GROUP_JOINED,

	__EIPOIB_A_GROUP_MAX,
	EIPOIB_A_GROUP_MAX = (__EIPOIB_A_GROUP_MAX - 1)
};

enum {
	EIPOIB_CMD_GUEST_GET = 1,
	EIPOIB_CMD_GUEST_NEW,
	EIPOIB_CMD_GUEST_DEL,
	EIPOIB_CMD_PEER_GET,
	EIPOIB_CMD_GROUP_GET,

	__EIPOIB_CMD_MAX,
	EIPOIB_CMD_MAX = (__EIPOIB_CMD_MAX - 1)
};

#endif /* _UAPI_LINUX_EIPOIB_H */
