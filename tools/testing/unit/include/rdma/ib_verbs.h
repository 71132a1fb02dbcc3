/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * InfiniBand's numbers for the unit tests in user space
 *
 * Those on the wire or in an HCA's registers are the standard's (IBA volume 1
 * sections 4.1.1, 14.2.5.6 and 15.2.5.16).  Those of events are the kernel's
 * own business: any will do.
 */
#ifndef UNIT_RDMA_IB_VERBS_H
#define UNIT_RDMA_IB_VERBS_H

union ib_gid {
	__u8 raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

enum ib_event_type {
	IB_EVENT_CQ_ERR,
	IB_EVENT_QP_FATAL,
	IB_EVENT_QP_REQ_ERR,
	IB_EVENT_QP_ACCESS_ERR,
	IB_EVENT_COMM_EST,
	IB_EVENT_SQ_DRAINED,
	IB_EVENT_PATH_MIG,
	IB_EVENT_PATH_MIG_ERR,
	IB_EVENT_DEVICE_FATAL,
	IB_EVENT_PORT_ACTIVE,
	IB_EVENT_PORT_ERR,
	IB_EVENT_LID_CHANGE,
	IB_EVENT_PKEY_CHANGE,
	IB_EVENT_SM_CHANGE,
	IB_EVENT_SRQ_ERR,
	IB_EVENT_SRQ_LIMIT_REACHED,
	IB_EVENT_QP_LAST_WQE_REACHED,
	IB_EVENT_CLIENT_REREGISTER,
	IB_EVENT_GID_CHANGE,
	IB_EVENT_WQ_FATAL,
};

enum ib_port_state {
	IB_PORT_NOP,
	IB_PORT_DOWN,
	IB_PORT_INIT,
	IB_PORT_ARMED,
	IB_PORT_ACTIVE,
	IB_PORT_ACTIVE_DEFER,
};

enum {
	IB_SPEED_SDR = 1,
	IB_SPEED_DDR = 2,
	IB_SPEED_QDR = 4,
	IB_SPEED_FDR10 = 8,
	IB_SPEED_FDR = 16,
	IB_SPEED_EDR = 32,
	IB_SPEED_HDR = 64,
	IB_SPEED_NDR = 128,
	IB_SPEED_XDR = 256,
};

enum ib_mtu {
	IB_MTU_256 = 1,
	IB_MTU_512,
	IB_MTU_1024,
	IB_MTU_2048,
	IB_MTU_4096,
};

static inline int ib_mtu_enum_to_int(int mtu)
{
	return mtu >= 1 && mtu <= 5 ? 128 << mtu : -1;
}

#endif /* UNIT_RDMA_IB_VERBS_H */
