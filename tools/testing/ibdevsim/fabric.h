/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim, fabric half: what main.c, switch.c, sma.c, fault.c, debugfs.c and
 * pcap.c share with each other and with nobody else.
 *
 * Packets that are not on the fast path travel in the delay line (fault.c): a
 * time-ordered tree that one ordered work item empties.  A stage says what
 * comes next for a packet, see enum ibds_stage.  The work item is therefore
 * the only place where the switch's agents run and from where such packets are
 * delivered, always in process context under rcu_read_lock().
 */
#ifndef IBDEVSIM_FABRIC_H
#define IBDEVSIM_FABRIC_H

#include <rdma/ib_pma.h>

#include "ibdevsim.h"

/* Trap numbers that <rdma/ib_smi.h> lacks; IBA vol 1, 14.2.5.1. */
#define IBDS_TRAP_LINK_STATE	128

/* P_Key table length of each switch port: one block. */
#define IBDS_SWITCH_PKEYS	32

/* A multicast forwarding entry has 16 ports per position. */
#define IBDS_MFT_POSITIONS	DIV_ROUND_UP(IBDS_SWITCH_PORTS + 1, 16)
#define IBDS_LFT_BLOCK		64
#define IBDS_MFT_BLOCK		32
#define IBDS_LFT_NONE		0xff

/**
 * enum ibds_stage - what is next for a packet in the delay line
 * @IBDS_STAGE_DELIVER: reach the HCA behind out_port
 * @IBDS_STAGE_SWITCH: a MAD enters the switch by in_port
 */
enum ibds_stage {
	IBDS_STAGE_DELIVER,
	IBDS_STAGE_SWITCH,
};

/*
 * PortInfo on the wire, IBA vol 1, 14.2.5.6
 *
 * Two half-byte fields share an octet where the name joins two nouns; the first
 * is the more significant one.
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
 * enum ibds_link_cmd - what a Set(PortInfo) asks of the link, IBA vol 1, 7.2.7
 * @IBDS_LINK_NOP: nothing
 * @IBDS_LINK_ARM: Init to Armed
 * @IBDS_LINK_ACTIVATE: Armed to Active
 * @IBDS_LINK_BOUNCE: down, then train again
 * @IBDS_LINK_DISABLE: down until enabled
 * @IBDS_LINK_ENABLE: train, from the start if it is up
 */
enum ibds_link_cmd {
	IBDS_LINK_NOP,
	IBDS_LINK_ARM,
	IBDS_LINK_ACTIVATE,
	IBDS_LINK_BOUNCE,
	IBDS_LINK_DISABLE,
	IBDS_LINK_ENABLE,
};

/* ---- main.c ------------------------------------------------------------- */

void ibds_caps_show(struct seq_file *m, struct ibds_caps *caps);

/* ---- dma.c -------------------------------------------------------------- */

int ibds_dma_dev_new(struct ibds_dev *dev);

/* ---- trap.c: traps, IBA vol 1, 14.2.5.1 --------------------------------- */

#define IBDS_TRAP_SLOTS		3

/**
 * struct ibds_trap - one trap that waits for its TrapRepress
 * @notice: what it says
 * @tid: transaction it is sent with
 * @left: times it is still sent, 0 when the slot is free
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
 * @lock: protects @slot; a leaf that is taken in any context
 * @work: sends and repeats
 * @port: HCA port of the agent, NULL for the switch
 * @last_tid: transactions used so far
 * @slot: by kind of trap
 */
struct ibds_traps {
	spinlock_t lock;	/* slot, last_tid */
	struct delayed_work work;
	struct ibds_port *port;
	u32 last_tid;
	struct ibds_trap slot[IBDS_TRAP_SLOTS];
};

void ibds_traps_init(struct ibds_traps *traps, struct ibds_port *port);
void ibds_traps_exit(struct ibds_traps *traps);
void ibds_traps_raise(struct ibds_traps *traps,
		      const struct ib_mad_notice_attr *notice);
void ibds_traps_repress(struct ibds_traps *traps, const struct ib_smp *smp);

/* ---- pma.c: performance management, IBA vol 1, 16.1 --------------------- */

/* Counters a PMA shows, named as in PortCounters. */
enum ibds_pma_counter {
	IBDS_PMA_LINK_DOWNED,
	IBDS_PMA_RCV_ERRORS,
	IBDS_PMA_XMIT_DISCARDS,
	IBDS_PMA_RCV_CONSTRAINT,
	IBDS_PMA_VL15_DROPPED,
	IBDS_PMA_XMIT_DATA,
	IBDS_PMA_RCV_DATA,
	IBDS_PMA_XMIT_PKTS,
	IBDS_PMA_RCV_PKTS,
	IBDS_PMA_COUNTERS,
};

/**
 * struct ibds_pma - the PMA's view of one port's counters
 * @base: subtracted from what the port counted; Set(PortCounters) moves it
 * @link_downed: times the link went down
 */
struct ibds_pma {
	u64 base[IBDS_PMA_COUNTERS];
	u64 link_downed;
};

/**
 * struct ibds_pma_ops - where the PMA finds a node's ports
 * @first: lowest port number
 * @last: highest port number
 * @pma: the state of port @n
 * @raw: what port @n counted since it was made
 */
struct ibds_pma_ops {
	u8 first, last;
	struct ibds_pma *(*pma)(void *node, u8 n);
	void (*raw)(void *node, u8 n, u64 *raw);
};

void ibds_pma_port_raw(struct ibds_port *port, u64 *raw);
void ibds_pma_process(const struct ibds_pma_ops *ops, void *node,
		      struct ib_pma_mad *mad);

/* ---- sma.c: subnet management ------------------------------------------- */

/**
 * struct ibds_sma - what only the agents of an HCA port need
 * @pi: PortInfo as it was set; fields that struct ibds_port has are filled in
 *	when it is read.  port->lock
 * @disabled: the SM disabled the port. ibds_switch.lock
 * @sl2vl: SLtoVLMappingTable, port->lock
 * @vlarb: VLArbitrationTable, low and high priority, port->lock
 * @pma: see there, port->lock
 * @traps: see there
 * @mads: MADs seen by the mad_drop fault
 * @last_due: when the latest delayed packet arrives here
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
};

void ibds_pi_set_speed(struct ibds_portinfo *pi, u32 width, u32 speed);
u16 ibds_pi_check(const struct ibds_portinfo *cur,
		  const struct ibds_portinfo *want, u8 state,
		  enum ibds_link_cmd *cmd);
void ibds_pi_merge(struct ibds_portinfo *cur, const struct ibds_portinfo *want);
bool ibds_mkey_ok(struct ibds_portinfo *pi, const struct ib_smp *smp);
void ibds_port_set_lid(struct ibds_port *port, u16 lid);
void ibds_port_set_prefix(struct ibds_port *port, __be64 prefix);
int ibds_port_set_guid(struct ibds_port *port, u32 index, __be64 guid);
int ibds_port_set_pkey(struct ibds_port *port, u32 index, u16 pkey);

/* VLArbitrationTable block (1 to 4) to our table; NULL when there is none. */
static inline u8 *ibds_vlarb_block(u8 (*vlarb)[IB_SMP_DATA_SIZE], u32 block)
{
	if (block == 1)
		return vlarb[0];
	return block == 3 ? vlarb[1] : NULL;
}

static inline bool ibds_port_owns_lid(const struct ibds_port *port, u16 dlid)
{
	u16 lid = READ_ONCE(port->lid);

	return lid && (dlid & (0xffff << READ_ONCE(port->lmc))) == lid;
}

/* ---- switch.c ----------------------------------------------------------- */

/**
 * struct ibds_sw_counters - counters of the switch, each a line of debugfs
 * @smp: SMPs for the switch or on a directed route through it
 * @smp_direct: of these, those with a directed route
 * @gmp: MADs for its QP1
 * @unicast: MADs forwarded by LID
 * @traps: traps sent, repetitions included
 * @drop_port_down: MADs lost: link not in a state for it
 * @drop_no_route: MADs lost: no port, or nothing behind it
 * @drop_bad_route: MADs lost: directed route makes no sense
 * @drop_malformed: MADs lost: not 256 octets
 * @drop_mkey: MADs lost: M_Key violation
 * @drop_class: MADs lost: nothing here handles that class or method
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
};

/**
 * struct ibds_sw_port - a port of the switch; port 0 is its management port
 *
 * @peer: HCA port at the other end of the cable. Written under
 *	ibds_bus_mutex, read under RCU
 * @state: enum ib_port_state. ibds_switch.lock; read without
 * @phys: enum ib_port_phys_state. ibds_switch.lock
 * @disabled: the SM disabled the port. ibds_switch.lock
 * @pi: PortInfo as it was set. ibds_switch.lock
 * @pkeys: P_Key table as it was set; not enforced (SwitchInfo says so)
 * @vlarb: VLArbitrationTable, low and high priority
 * @pma: see there
 */
struct ibds_sw_port {
	struct ibds_port __rcu *peer;
	u8 state;
	u8 phys;
	bool disabled;
	struct ibds_portinfo pi;
	u16 pkeys[IBDS_SWITCH_PKEYS];
	u8 vlarb[2][IB_SMP_DATA_SIZE];
	struct ibds_pma pma;
};

/**
 * struct ibds_switch - the fabric's only switch
 *
 * The agents run on ibds_wq alone, which is ordered, so what only they touch
 * needs no lock.  The forwarding tables are single octets and 16-bit words that
 * the datapath reads with READ_ONCE().
 *
 * @lock: link states of all ports and of the HCA ports behind them; taken
 *	with interrupts disabled
 * @ports: number of external ports
 * @guid: node, port and system image GUID
 * @lin_top: LinearFDBTop
 * @mc_top: MulticastFDBTop, 0 when the SM does not use it
 * @lifetime: LifeTimeValue and OptimizedSLtoVLMappingProgramming
 * @state_change: PortStateChange bit. @lock
 * @def_port: default ports, stored only
 * @lft: unicast LID to port, 0xff: none
 * @mft: multicast LID and position to port mask
 * @sl2vl: by input and output port, both from 0
 * @port: by number
 * @traps: see there
 * @count: written from ibds_wq alone
 * @epoch: counts changes of where LIDs are, see ibds_route_hint()
 */
struct ibds_switch {
	spinlock_t lock;	/* link states; inside ibds_bus_mutex */
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
	atomic64_t epoch;
};

extern struct ibds_switch ibds_sw;

/* One writer; debugfs reads along. */
#define ibds_sw_count(type) \
	WRITE_ONCE(ibds_sw.count.type, ibds_sw.count.type + 1)

void ibds_switch_mad(struct ibds_pkt *pkt);
void ibds_switch_originate(struct ibds_pkt *pkt);
struct ibds_port *ibds_switch_peer(u8 out_port);
void ibds_route_changed(void);
void ibds_switch_relearn(struct ibds_port *port, u16 old_lid, u16 new_lid);
void ibds_link_update(struct ibds_sw_port *sp, bool bounce);
struct ibds_sw_port *ibds_switch_port_of(struct ibds_port *port);
void ibds_switch_debugfs(struct dentry *root);

/* ---- swagent.c ---------------------------------------------------------- */

bool ibds_switch_sma(struct ib_smp *smp, u8 in_port);
bool ibds_switch_pma(struct ib_pma_mad *mad);

/* ---- fault.c ------------------------------------------------------------ */

extern struct workqueue_struct *ibds_wq;

int ibds_line_init(void);
void ibds_line_exit(void);
int ibds_line_add(struct ibds_pkt *pkt, enum ibds_stage stage, u64 delay_ns);
void ibds_line_purge(u8 out_port);
void ibds_mad_deliver(struct ibds_port *to, struct ibds_pkt *pkt);
void ibds_port_arrive(struct ibds_port *port, const struct ibds_pkt *pkt);
void ibds_faults_update(struct ibds_port *port);
int ibds_inject(struct ibds_port *port, const u8 *wire, size_t len);

/* ---- pcap.c ------------------------------------------------------------- */

extern const struct file_operations ibds_pcap_fops;

int ibds_pcap_alloc(struct ibds_port *port);
void ibds_pcap_set(struct ibds_port *port, bool on);
void ibds_pcap_close(struct ibds_port *port);
void ibds_pcap_free(struct ibds_port *port);

#endif /* IBDEVSIM_FABRIC_H */
