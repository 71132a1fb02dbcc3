/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: structures of the fabric: switches, and the agents' state at an
 * HCA port.  Functions are declared in the header of their file.
 */
#ifndef IBDEVSIM_FABRIC_H
#define IBDEVSIM_FABRIC_H

#include <rdma/ib_mad.h>

#include "ibdevsim.h"
#include "pma.h"
#include "portinfo.h"

/* Trap numbers that <rdma/ib_smi.h> lacks; IBA vol 1, 14.2.5.1. */
#define IBDS_TRAP_LINK_STATE	128

/* P_Key table length of each switch port: one block. */
#define IBDS_SWITCH_PKEYS	32

/* A multicast forwarding entry has 16 ports per position. */
#define IBDS_MFT_POSITIONS	DIV_ROUND_UP(IBDS_SWITCH_PORTS + 1, 16)
#define IBDS_LFT_BLOCK		64
#define IBDS_MFT_BLOCK		32
#define IBDS_LFT_NONE		0xff

#define IBDS_TRAP_SLOTS		7

/**
 * struct ibds_trap - one trap that waits for its TrapRepress
 * @notice: its Notice attribute
 * @tid: its transaction ID
 * @left: number of transmissions left, 0 when the slot is free
 * @quiet_until: jiffies before which a violation is not reported again
 */
struct ibds_trap {
	struct ib_mad_notice_attr notice;
	__be64 tid;
	u8 left;
	unsigned long quiet_until;
};

/**
 * struct ibds_traps - the traps of one agent
 * @lock: protects @slot and @last_tid; a leaf, taken in any context
 * @work: sends and repeats traps
 * @port: HCA port of the agent, NULL for a switch
 * @sw: switch of the agent, NULL for an HCA port
 * @last_tid: last transaction ID used
 * @slot: by kind of trap
 */
struct ibds_traps {
	spinlock_t lock;	/* slot, last_tid */
	struct delayed_work work;
	struct ibds_port *port;
	struct ibds_switch *sw;
	u32 last_tid;
	struct ibds_trap slot[IBDS_TRAP_SLOTS];
};

#define IBDS_SA_PATCHES		8
#define IBDS_SA_PATCH_BYTES	16

/**
 * struct ibds_sa_patch - bytes of answers of the SA that a fault replaces
 * @attr: attribute ID, 0: none
 * @offset: of the bytes, from the beginning of the MAD
 * @len: number of bytes
 * @bytes: what is put there
 */
struct ibds_sa_patch {
	u16 attr;
	u8 offset;
	u8 len;
	u8 bytes[IBDS_SA_PATCH_BYTES];
};

/**
 * struct ibds_sma - state of the agents of an HCA port
 * @pi: PortInfo as it was set; fields that struct ibds_port has are filled in
 *	when it is read.  port->lock
 * @disabled: the SM disabled the port. ibds_link_lock
 * @sl2vl: SLtoVLMappingTable, port->lock
 * @vlarb: VLArbitrationTable, low and high priority, port->lock
 * @pma: its performance management, port->lock
 * @traps: its traps
 * @mads: MADs seen by the mad_drop fault
 * @last_due: due time of the latest delayed packet to this port
 * @patch: what a fault changes in answers of the SA, port->lock
 */
struct ibds_sma {
	struct ibds_portinfo pi;
	bool disabled;
	u8 sl2vl[8];
	u8 vlarb[2][IB_SMP_DATA_SIZE];
	struct ibds_pma pma;
	struct ibds_traps traps;
	atomic_t mads;
	u64 last_due;
	struct ibds_sa_patch patch[IBDS_SA_PATCHES];
};

/**
 * struct ibds_sw_counters - counters of the switch, each a line of debugfs
 * @smp: SMPs for the switch or on a directed route through it
 * @smp_direct: of these, those with a directed route
 * @gmp: MADs for its QP1
 * @unicast: MADs forwarded by LID
 * @traps: traps sent, repetitions included
 * @drop_port_down: MADs lost: link not in the required state
 * @drop_no_route: MADs lost: no port, or nothing connected to it
 * @drop_bad_route: MADs lost: invalid directed route
 * @drop_malformed: MADs lost: not 256 bytes
 * @drop_mkey: MADs lost: M_Key violation
 * @drop_class: MADs lost: class or method not supported
 * @drop_loop: MADs lost: passed too many switches
 * @drop_full: MADs lost: the delay line is full
 */
struct ibds_sw_counters {
	u64 smp;
	u64 smp_direct;
	u64 gmp;
	u64 unicast;
	u64 traps;
	u64 drop_port_down;
	u64 drop_no_route;
	u64 drop_bad_route;
	u64 drop_malformed;
	u64 drop_mkey;
	u64 drop_class;
	u64 drop_loop;
	u64 drop_full;
};

/**
 * struct ibds_sw_port - a port of a switch; port 0 is its management port
 *
 * @sw: its switch
 * @num: its number there
 * @peer: HCA port at the other end of the cable. Written under
 *	ibds_bus_mutex, read under RCU
 * @far: switch port at the other end, which has this one; the same rules
 * @state: enum ib_port_state. ibds_link_lock; read locklessly
 * @phys: enum ib_port_phys_state. ibds_link_lock
 * @disabled: the SM disabled the port. ibds_link_lock
 * @pi: PortInfo as it was set. ibds_link_lock
 * @pkeys: P_Key table as it was set; not enforced (SwitchInfo says so)
 * @vlarb: VLArbitrationTable, low and high priority
 * @pma: its performance management
 */
struct ibds_sw_port {
	struct ibds_switch *sw;
	u8 num;
	struct ibds_port __rcu *peer;
	struct ibds_sw_port __rcu *far;
	u8 state;
	u8 phys;
	bool disabled;
	struct ibds_portinfo pi;
	u16 pkeys[IBDS_SWITCH_PKEYS];
	u8 vlarb[2][IB_SMP_DATA_SIZE];
	struct ibds_pma pma;
};

/**
 * struct ibds_switch - a switch
 *
 * The agents run only on ibds_wq, which is ordered, so state that only they
 * use needs no lock.  The forwarding tables consist of bytes and 16-bit words
 * that the datapath reads with READ_ONCE().
 *
 * @list: of all switches. Written under ibds_bus_mutex, read under RCU
 * @id: number; 0 is the one that is always there
 * @knobs: its files in debugfs
 * @ports: number of external ports
 * @guid: node, port and system image GUID
 * @lin_top: LinearFDBTop
 * @mc_top: MulticastFDBTop, 0 when the SM does not use it
 * @lifetime: LifeTimeValue and OptimizedSLtoVLMappingProgramming
 * @state_change: PortStateChange bit. ibds_link_lock
 * @def_port: default ports, stored only
 * @lft: unicast LID to port, 0xff: none
 * @mft: multicast LID and position to port mask
 * @sl2vl: by input and output port, both from 0
 * @port: by number
 * @traps: its traps
 * @count: written only from ibds_wq
 */
struct ibds_switch {
	struct list_head list;
	u32 id;
	struct ibds_knobs *knobs;
	u32 ports;
	__be64 guid;
	u16 lin_top;
	u16 mc_top;
	u8 lifetime;
	bool state_change;
	u8 def_port[3];
	u8 *lft;
	u16 (*mft)[IBDS_MFT_POSITIONS];
	u8 (*sl2vl)[8];
	struct ibds_sw_port *port;
	struct ibds_traps traps;
	struct ibds_sw_counters count;
};

#endif /* IBDEVSIM_FABRIC_H */
