/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_PORTINFO_H
#define IBDEVSIM_PORTINFO_H

#include <rdma/ib_smi.h>

#include "ibdevsim.h"

/*
 * PortInfo on the wire, IBA vol 1, 14.2.5.6
 *
 * A name that joins two nouns stands for two half-byte fields in one byte; the
 * first is the more significant one.
 */
struct ibds_portinfo {
	__be64 m_key;
	__be64 gid_prefix;
	__be16 lid;
	__be16 sm_lid;
	__be32 cap_mask;
	__be16 diag_code;
	__be16 m_key_lease;
	u8 local_port;
	u8 width_enabled;
	u8 width_supported;
	u8 width_active;
	u8 speedsup_state;
	u8 phys_downdef;
	u8 mkeyprot_lmc;
	u8 speedact_enabled;
	u8 mtu_smsl;
	u8 vlcap_inittype;
	u8 vl_high_limit;
	u8 vlarb_high_cap;
	u8 vlarb_low_cap;
	u8 initreply_mtucap;
	u8 vlstall_hoq;
	u8 opvl_flags;
	__be16 m_key_viol;
	__be16 p_key_viol;
	__be16 q_key_viol;
	u8 guid_cap;
	u8 rereg_timeout;
	u8 resp_time;
	u8 phyerr_overrun;
	__be16 max_credit_hint;
	u8 reserved;
	u8 latency[3];
	__be16 cap_mask2;
	u8 extact_extsup;
	u8 ext_enabled;
} __packed;

static_assert(sizeof(struct ibds_portinfo) == IB_SMP_DATA_SIZE);

/**
 * enum ibds_link_cmd - link command in a Set(PortInfo), IBA vol 1, 7.2.7
 * @IBDS_LINK_NOP: nothing
 * @IBDS_LINK_ARM: Init to Armed
 * @IBDS_LINK_ACTIVATE: Armed to Active
 * @IBDS_LINK_BOUNCE: down, then train again
 * @IBDS_LINK_DISABLE: down until enabled
 * @IBDS_LINK_ENABLE: train; if it is up, take it down first
 */
enum ibds_link_cmd {
	IBDS_LINK_NOP,
	IBDS_LINK_ARM,
	IBDS_LINK_ACTIVATE,
	IBDS_LINK_BOUNCE,
	IBDS_LINK_DISABLE,
	IBDS_LINK_ENABLE,
};

/* The table of a VLArbitrationTable block (1 to 4); NULL if there is none. */
static inline u8 *ibds_vlarb_block(u8 (*vlarb)[IB_SMP_DATA_SIZE], u32 block)
{
	if (block == 1)
		return vlarb[0];
	return block == 3 ? vlarb[1] : NULL;
}

void ibds_pi_set_speed(struct ibds_portinfo *pi, u32 width, u32 speed);
u16 ibds_pi_check(const struct ibds_portinfo *cur,
		  const struct ibds_portinfo *want, u8 state,
		  enum ibds_link_cmd *cmd);
void ibds_pi_merge(struct ibds_portinfo *cur, const struct ibds_portinfo *want);
bool ibds_mkey_ok(struct ibds_portinfo *pi, const struct ib_smp *smp);

#endif /* IBDEVSIM_PORTINFO_H */
