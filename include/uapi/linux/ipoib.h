/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	Documentation/netlink/specs/ipoib.yaml */
/* YNL-GEN uapi header */

#ifndef _UAPI_LINUX_IPOIB_H
#define _UAPI_LINUX_IPOIB_H

#define IPOIB_FAMILY_NAME	"ipoib"
#define IPOIB_FAMILY_VERSION	1

/**
 * enum ipoib_cause - Why an interface cannot carry packets.
 * @IPOIB_CAUSE_NONE: It can.
 * @IPOIB_CAUSE_ADMIN_DOWN: The interface has not been set up.
 * @IPOIB_CAUSE_PORT_UNKNOWN: The HCA does not tell the state of the port.
 * @IPOIB_CAUSE_PORT_DOWN: The port has no link; phys-state says more.
 * @IPOIB_CAUSE_PORT_INIT: No subnet manager has configured the port.
 * @IPOIB_CAUSE_PORT_ARMED: The subnet manager has not activated the port yet.
 * @IPOIB_CAUSE_NO_PKEY: The P_Key is not in the port's table.
 * @IPOIB_CAUSE_START_FAILED: The HCA or memory failed; the attribute error
 *   says how.
 * @IPOIB_CAUSE_JOINING: The SA has not answered yet to the join of the
 *   broadcast group.
 * @IPOIB_CAUSE_SA_UNREACHABLE: No request can be sent to the SA.
 * @IPOIB_CAUSE_SA_SILENT: The SA does not answer.
 * @IPOIB_CAUSE_JOIN_REFUSED: The SA refuses to let the port join the broadcast
 *   group.
 * @IPOIB_CAUSE_LIMITED_PKEY: As join-refused, and the port is only a limited
 *   member of the partition.
 * @IPOIB_CAUSE_GROUP_UNUSABLE: The broadcast group was joined but cannot be
 *   used; the attribute error says why.
 * @IPOIB_CAUSE_STARTING: It is being brought up.
 */
enum ipoib_cause {
	IPOIB_CAUSE_NONE,
	IPOIB_CAUSE_ADMIN_DOWN,
	IPOIB_CAUSE_PORT_UNKNOWN,
	IPOIB_CAUSE_PORT_DOWN,
	IPOIB_CAUSE_PORT_INIT,
	IPOIB_CAUSE_PORT_ARMED,
	IPOIB_CAUSE_NO_PKEY,
	IPOIB_CAUSE_START_FAILED,
	IPOIB_CAUSE_JOINING,
	IPOIB_CAUSE_SA_UNREACHABLE,
	IPOIB_CAUSE_SA_SILENT,
	IPOIB_CAUSE_JOIN_REFUSED,
	IPOIB_CAUSE_LIMITED_PKEY,
	IPOIB_CAUSE_GROUP_UNUSABLE,
	IPOIB_CAUSE_STARTING,
};

/**
 * enum ipoib_dev_mode
 * @IPOIB_DEV_MODE_DATAGRAM: Unreliable datagrams only.
 * @IPOIB_DEV_MODE_CONNECTED: Reliable connections to neighbours that accept
 *   them, too.
 */
enum ipoib_dev_mode {
	IPOIB_DEV_MODE_DATAGRAM,
	IPOIB_DEV_MODE_CONNECTED,
};

/**
 * enum ipoib_dev_engine - What carries the datagrams of an interface.
 * @IPOIB_DEV_ENGINE_VERBS: Queue pairs of the driver's own.
 * @IPOIB_DEV_ENGINE_ENHANCED: An interface that the HCA has for this.
 */
enum ipoib_dev_engine {
	IPOIB_DEV_ENGINE_VERBS,
	IPOIB_DEV_ENGINE_ENHANCED,
};

/**
 * enum ipoib_path_status
 * @IPOIB_PATH_STATUS_UNKNOWN: Nothing is known, and nothing asked for it.
 * @IPOIB_PATH_STATUS_ASKING: The SA is asked, or will be soon.
 * @IPOIB_PATH_STATUS_VALID: The SA's answer is in use.
 * @IPOIB_PATH_STATUS_FAILED: The SA did not answer, or refused; it is asked
 *   again later.
 */
enum ipoib_path_status {
	IPOIB_PATH_STATUS_UNKNOWN,
	IPOIB_PATH_STATUS_ASKING,
	IPOIB_PATH_STATUS_VALID,
	IPOIB_PATH_STATUS_FAILED,
};

/**
 * enum ipoib_link_status - The connection to a neighbour.
 * @IPOIB_LINK_STATUS_NONE: No packet needs one.
 * @IPOIB_LINK_STATUS_OPENING: It is being opened.
 * @IPOIB_LINK_STATUS_UP: It carries packets.
 * @IPOIB_LINK_STATUS_FAILED: It could not be opened; the next attempt follows
 *   later.
 */
enum ipoib_link_status {
	IPOIB_LINK_STATUS_NONE,
	IPOIB_LINK_STATUS_OPENING,
	IPOIB_LINK_STATUS_UP,
	IPOIB_LINK_STATUS_FAILED,
};

/**
 * enum ipoib_group_status
 * @IPOIB_GROUP_STATUS_WAITING: To be joined, possibly after a delay.
 * @IPOIB_GROUP_STATUS_JOINING: The SA has been asked.
 * @IPOIB_GROUP_STATUS_MEMBER: Joined; packets are sent and received.
 * @IPOIB_GROUP_STATUS_LEFT: No longer wanted; only in notifications.
 */
enum ipoib_group_status {
	IPOIB_GROUP_STATUS_WAITING,
	IPOIB_GROUP_STATUS_JOINING,
	IPOIB_GROUP_STATUS_MEMBER,
	IPOIB_GROUP_STATUS_LEFT,
};

/**
 * enum ipoib_conn_status
 * @IPOIB_CONN_STATUS_OPENING: A request or a reply is to be sent, or an answer
 *   is awaited.
 * @IPOIB_CONN_STATUS_HALF_OPEN: A peer's request was answered; the peer may
 *   send already.
 * @IPOIB_CONN_STATUS_UP: Established.
 * @IPOIB_CONN_STATUS_CLOSING: Being taken down.
 */
enum ipoib_conn_status {
	IPOIB_CONN_STATUS_OPENING,
	IPOIB_CONN_STATUS_HALF_OPEN,
	IPOIB_CONN_STATUS_UP,
	IPOIB_CONN_STATUS_CLOSING,
};

enum {
	IPOIB_A_DEV_IFINDEX = 1,
	IPOIB_A_DEV_IFNAME,
	IPOIB_A_DEV_CAUSE,
	IPOIB_A_DEV_ERROR,
	IPOIB_A_DEV_CAUSE_AGE,
	IPOIB_A_DEV_MODE,
	IPOIB_A_DEV_PKEY,
	IPOIB_A_DEV_GID,
	IPOIB_A_DEV_QPN,
	IPOIB_A_DEV_HCA_INDEX,
	IPOIB_A_DEV_PORT,
	IPOIB_A_DEV_PORT_STATE,
	IPOIB_A_DEV_PHYS_STATE,
	IPOIB_A_DEV_LID,
	IPOIB_A_DEV_SM_LID,
	IPOIB_A_DEV_JOIN_ERROR,
	IPOIB_A_DEV_START_FAILURES,
	IPOIB_A_DEV_RETRIES,
	IPOIB_A_DEV_ENGINE,

	__IPOIB_A_DEV_MAX,
	IPOIB_A_DEV_MAX = (__IPOIB_A_DEV_MAX - 1)
};

enum {
	IPOIB_A_NEIGH_IFINDEX = 1,
	IPOIB_A_NEIGH_LLADDR,
	IPOIB_A_NEIGH_GID,
	IPOIB_A_NEIGH_IDLE,
	IPOIB_A_NEIGH_PATH_STATUS,
	IPOIB_A_NEIGH_DLID,
	IPOIB_A_NEIGH_SL,
	IPOIB_A_NEIGH_PATH_MTU,
	IPOIB_A_NEIGH_RATE,
	IPOIB_A_NEIGH_HOP_LIMIT,
	IPOIB_A_NEIGH_PATH_FAILURES,
	IPOIB_A_NEIGH_PATH_WAITING_PACKETS,
	IPOIB_A_NEIGH_LINK_STATUS,
	IPOIB_A_NEIGH_LINK_FAILURES,
	IPOIB_A_NEIGH_LINK_WAITING_BYTES,
	IPOIB_A_NEIGH_MAX_MSG,

	__IPOIB_A_NEIGH_MAX,
	IPOIB_A_NEIGH_MAX = (__IPOIB_A_NEIGH_MAX - 1)
};

enum {
	IPOIB_A_GROUP_IFINDEX = 1,
	IPOIB_A_GROUP_MGID,
	IPOIB_A_GROUP_STATUS,
	IPOIB_A_GROUP_SEND_ONLY,
	IPOIB_A_GROUP_BROADCAST,
	IPOIB_A_GROUP_MLID,
	IPOIB_A_GROUP_MTU,
	IPOIB_A_GROUP_RATE,
	IPOIB_A_GROUP_SL,
	IPOIB_A_GROUP_FAILURES,
	IPOIB_A_GROUP_ERROR,
	IPOIB_A_GROUP_WAITING_PACKETS,

	__IPOIB_A_GROUP_MAX,
	IPOIB_A_GROUP_MAX = (__IPOIB_A_GROUP_MAX - 1)
};

enum {
	IPOIB_A_CONN_IFINDEX = 1,
	IPOIB_A_CONN_GID,
	IPOIB_A_CONN_STATUS,
	IPOIB_A_CONN_BY_PEER,
	IPOIB_A_CONN_QPN,
	IPOIB_A_CONN_LID,
	IPOIB_A_CONN_MAX_MSG,
	IPOIB_A_CONN_AGE,
	IPOIB_A_CONN_IDLE,
	IPOIB_A_CONN_IN_FLIGHT,

	__IPOIB_A_CONN_MAX,
	IPOIB_A_CONN_MAX = (__IPOIB_A_CONN_MAX - 1)
};

enum {
	IPOIB_CMD_DEV_GET = 1,
	IPOIB_CMD_DEV_NTF,
	IPOIB_CMD_NEIGH_GET,
	IPOIB_CMD_PATH_NTF,
	IPOIB_CMD_LINK_NTF,
	IPOIB_CMD_GROUP_GET,
	IPOIB_CMD_GROUP_NTF,
	IPOIB_CMD_CONN_GET,
	IPOIB_CMD_CONN_NTF,

	__IPOIB_CMD_MAX,
	IPOIB_CMD_MAX = (__IPOIB_CMD_MAX - 1)
};

#define IPOIB_MCGRP_EVENTS	"events"
#define IPOIB_MCGRP_OBJECTS	"objects"

#endif /* _UAPI_LINUX_IPOIB_H */
