/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: a simulated InfiniBand fabric
 *
 * HCAs (struct ibds_dev) with one or two ports (struct ibds_port) are connected
 * to switches (switch.c).  Verbs objects embed ib_core's and are allocated by
 * it.  The simulator models hardware only: nothing here knows which upper-layer
 * protocol is loaded.
 *
 * README.rst, "Source", lists the files, what they do and which may call which.
 *
 * Locks, outermost first: ibds_bus_mutex (create/remove), ibds_link_lock,
 * port->lock, then those of the datapath (datapath.h): qp->sq.lock or
 * port->arrivals, rcv->lock, (rq->lock or srq->lock), cq->lock.  A sender holds
 * its own sq.lock while it delivers, so nothing may take an sq.lock while it
 * holds receive or CQ locks.  All of them but the mutex are taken with interrupts
 * disabled.  Look-ups (QPN, LID, MGID) are RCU.
 */
#ifndef IBDEVSIM_H
#define IBDEVSIM_H

#include <linux/device.h>
#include <linux/list.h>
#include <linux/platform_device.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#define IBDS_MAX_PORTS		2
#define IBDS_MAX_SGE		32
#define IBDS_PKEYS		128
#define IBDS_MAX_GIDS		128
#define IBDS_MAX_VFS		16
#define IBDS_SWITCH_PORTS	254
#define IBDS_LFT_SIZE		0xc000
#define IBDS_MFT_BASE		0xc000
#define IBDS_MFT_SIZE		4096
#define IBDS_MAD_SIZE		256
#define IBDS_GRH_BYTES		40
#define IBDS_LID_PERMISSIVE	0xffff
#define IBDS_LL_PREFIX		0xfe80000000000000ULL
#define IBDS_QPN_MULTICAST	0xffffff
#define IBDS_CSUM_V4		1
#define IBDS_QP_BUCKETS_MAX	65536
#define IBDS_MAX_MR		262144
#define IBDS_MAX_SWITCH		255	/* largest number of a switch */
#define IBDS_NO_SWITCH		256	/* switch=none */
#define IBDS_MAX_RD_ATOM	16	/* in progress, of a QP */
#define IBDS_MAX_FAST_PAGES	1024	/* of a region that a request registers */

/**
 * enum ibds_comp_ctx - where completion handlers are called
 * @IBDS_COMP_IRQ: in hard interrupt context
 * @IBDS_COMP_SOFTIRQ: in a tasklet that the interrupt schedules
 * @IBDS_COMP_WORK: in a work item, bottom halves disabled and interrupts
 *	enabled, as for HCAs with completions made by software (rdmavt)
 */
enum ibds_comp_ctx {
	IBDS_COMP_IRQ,
	IBDS_COMP_WORK,
	IBDS_COMP_SOFTIRQ,
};

/* Kinds of verbs objects that are counted; IBDS_GROUP: attachments to groups. */
enum ibds_kind {
	IBDS_UCONTEXT,
	IBDS_PD,
	IBDS_AH,
	IBDS_MR,
	IBDS_CQ,
	IBDS_SRQ,
	IBDS_QP,
	IBDS_GROUP,
	IBDS_KINDS
};

/**
 * enum ibds_provider - rdma-core's provider that user space uses
 * @IBDS_PROVIDER_NONE: none, there are no verbs for user space
 * @IBDS_PROVIDER_HFI1: that of hfi1
 */
enum ibds_provider {
	IBDS_PROVIDER_NONE,
	IBDS_PROVIDER_HFI1,
};

/**
 * enum ibds_netdev - the accelerated interface for IPoIB that an HCA offers
 * @IBDS_NETDEV_NONE: none
 * @IBDS_NETDEV_OWN: with a QP and rings of the HCA's own, as mlx5's
 * @IBDS_NETDEV_UD: with rings for the UD QP that IPoIB creates, as hfi1's
 */
enum ibds_netdev {
	IBDS_NETDEV_NONE,
	IBDS_NETDEV_OWN,
	IBDS_NETDEV_UD,
};

/**
 * enum ibds_profile - an HCA whose limits and habits are taken over
 * @IBDS_PROFILE_NONE: none
 * @IBDS_PROFILE_MLX4: ConnectX-2 and ConnectX-3
 * @IBDS_PROFILE_MLX5: ConnectX-4 and later, without its rdma_netdev
 * @IBDS_PROFILE_MTHCA: InfiniHost III
 * @IBDS_PROFILE_QIB: QLogic's QDR HCAs
 * @IBDS_PROFILE_HFI1: Omni-Path, without its rdma_netdev
 * @IBDS_PROFILE_WORST: no offload, and each habit as it is hardest on drivers
 */
enum ibds_profile {
	IBDS_PROFILE_NONE,
	IBDS_PROFILE_MLX4,
	IBDS_PROFILE_MLX5,
	IBDS_PROFILE_MTHCA,
	IBDS_PROFILE_QIB,
	IBDS_PROFILE_HFI1,
	IBDS_PROFILE_WORST,
};

/**
 * struct ibds_caps - what an HCA can do, fixed when it is created
 * @ports: number of ports, 1 or 2
 * @mtu: largest MTU of a port in bytes, 256 to 4096 (PortInfo MTUCap)
 * @csum: UD IP checksum offload (IB_DEVICE_UD_IP_CSUM)
 * @lso: UD large send offload (IBK_UD_TSO)
 * @srq: shared receive queues are supported
 * @ud_srq: a UD QP may use one
 * @moderation: CQ moderation is supported
 * @block_loopback: IBK_BLOCK_MULTICAST_LOOPBACK is supported
 * @dma: use a real dma_device instead of virtual DMA
 * @comp_ctx: enum ibds_comp_ctx
 * @reset_purge: RESET removes a QP's completions from its CQs
 * @last_wqe: IB_EVENT_QP_LAST_WQE_REACHED is raised
 * @vectors: completion vectors; vector n interrupts CPU n modulo online CPUs
 * @max_sge: scatter/gather entries of a send or receive request
 * @max_srq_sge: the same for an SRQ
 * @max_qp_wr: longest send or receive queue
 * @max_qp: QPs per HCA
 * @netif_qps: QPs that can take part in flow steering, 0: not supported
 * @max_cq: CQs per HCA
 * @max_cqe: longest CQ
 * @max_rd_atom: RDMA READs and atomics in flight that a QP may ask for
 * @max_fast_pages: pages of a region that is registered by a request
 * @group_qps: QPs that a port can attach to one group
 * @gids: GUIDs a port can hold (GID table length)
 * @pkeys: P_Key table length
 * @width: link width as IB_WIDTH_*
 * @speed: link speed as IB_SPEED_*
 * @vfs: virtual functions that can be configured
 * @sw: number of the switch to which the ports are connected at first
 * @profile: enum ibds_profile
 * @provider: enum ibds_provider
 * @user_mem: MiB that queues and page lists of user space may take
 * @rdma_netdev: enum ibds_netdev
 * @channels: channels of its accelerated interface, at most one per vector
 * @phc_ms: how far its clock is ahead of the system's at first, in milliseconds
 * @phc_ppb: by how much its clock is too fast, in billionths
 * @netdev_refuse: the fault of that name, from the start
 * @netdev_init_error: likewise
 */
struct ibds_caps {
	u32 ports;
	u32 mtu;
	u32 csum;
	u32 lso;
	u32 srq;
	u32 ud_srq;
	u32 moderation;
	u32 block_loopback;
	u32 dma;
	u32 comp_ctx;
	u32 reset_purge;
	u32 last_wqe;
	u32 vectors;
	u32 max_sge;
	u32 max_srq_sge;
	u32 max_qp_wr;
	u32 max_qp;
	u32 netif_qps;
	u32 max_cq;
	u32 max_cqe;
	u32 max_rd_atom;
	u32 max_fast_pages;
	u32 group_qps;
	u32 gids;
	u32 pkeys;
	u32 width;
	u32 speed;
	u32 vfs;
	u32 sw;
	u32 profile;
	u32 provider;
	u32 user_mem;
	u32 rdma_netdev;
	u32 channels;
	u32 phc_ms;
	u32 phc_ppb;
	u32 netdev_refuse;
	u32 netdev_init_error;
};

/**
 * struct ibds_vf - settings of a virtual function at a port
 * @node_guid: node GUID, 0 until set
 * @port_guid: port GUID, 0 until set
 * @state: link state, IFLA_VF_LINK_STATE_*
 */
struct ibds_vf {
	u64 node_guid;
	u64 port_guid;
	u32 state;
};

/**
 * struct ibds_counters - counters of a port, each also a line of its debugfs file
 * @tx_packets: packets sent
 * @tx_bytes: bytes of payload in them
 * @rx_packets: packets received by a QP
 * @rx_bytes: bytes of payload in them
 * @tx_rc_packets: packets sent on reliable connections
 * @rx_rc_packets: packets received on them
 * @tx_grh: packets sent with a GRH
 * @rx_grh: packets received with a GRH
 * @tx_doorbells: ib_post_send() calls
 * @tx_wrs: requests in them
 * @rx_doorbells: ib_post_recv() and ib_post_srq_recv() calls
 * @rx_wrs: requests in them
 * @cq_events: completion interrupts
 * @cqe: completions
 * @cq_overflow: completions lost to a full CQ
 * @drop_port_down: port, or the link's other end, not in the required state
 * @drop_no_route: no port has that LID
 * @drop_no_qp: no such QP, or not in a state to receive
 * @drop_pkey: P_Key mismatch
 * @drop_qkey: Q_Key mismatch
 * @drop_gid: GRH for a GID that the port does not have
 * @drop_mtu: longer than the MTU
 * @drop_no_recv: no receive posted
 * @drop_recv_short: receive too short
 * @drop_mc_no_group: multicast without an attached QP
 * @drop_mc_bad: multicast without GRH or with a wrong QPN or LID
 * @drop_fault: dropped by a fault
 * @drop_wedged: HCA is wedged
 * @drop_malformed: invalid headers
 * @rc_rnr_nak: RNR NAKs sent
 * @rc_retry: retries of RC requests
 * @rc_retry_exceeded: RC requests that ran out of retries
 * @bad_lkey: requests with a wrong L_Key
 * @bad_rkey: requests of peers with a wrong R_Key, or without the right
 * @bad_modify: illegal ib_modify_qp() calls
 * @sq_full: sends refused, queue full
 * @rq_full: receives refused, queue full
 * @mad_rx: MADs that reached QP0 or QP1
 * @mad_tx: MADs that left them
 * @mad_dropped: MADs lost to a full delay line
 * @trap_tx: traps sent, repetitions included
 * @injected: packets from user space
 * @delayed: packets a fault delayed
 * @reordered: delayed packets that overtook another one, and those that a fault
 *	let be overtaken
 * @duplicated: packets that a fault sent twice
 * @cqe_fault: completions that a fault lost, repeated, changed or held back
 * @cqe_reset: late completions that were reported when their QP had been reset
 *
 * Every packet lost at a port is counted in one of drop_* or in mad_dropped.
 */
struct ibds_counters {
	u64 tx_packets;
	u64 tx_bytes;
	u64 rx_packets;
	u64 rx_bytes;
	u64 tx_rc_packets;
	u64 rx_rc_packets;
	u64 tx_grh;
	u64 rx_grh;
	u64 tx_doorbells;
	u64 tx_wrs;
	u64 rx_doorbells;
	u64 rx_wrs;
	u64 cq_events;
	u64 cqe;
	u64 cq_overflow;
	u64 drop_port_down;
	u64 drop_no_route;
	u64 drop_no_qp;
	u64 drop_pkey;
	u64 drop_qkey;
	u64 drop_gid;
	u64 drop_mtu;
	u64 drop_no_recv;
	u64 drop_recv_short;
	u64 drop_mc_no_group;
	u64 drop_mc_bad;
	u64 drop_fault;
	u64 drop_wedged;
	u64 drop_malformed;
	u64 rc_rnr_nak;
	u64 rc_retry;
	u64 rc_retry_exceeded;
	u64 bad_lkey;
	u64 bad_rkey;
	u64 bad_modify;
	u64 sq_full;
	u64 rq_full;
	u64 mad_rx;
	u64 mad_tx;
	u64 mad_dropped;
	u64 trap_tx;
	u64 injected;
	u64 delayed;
	u64 reordered;
	u64 duplicated;
	u64 cqe_fault;
	u64 cqe_reset;
};

#define ibds_count(port, type) this_cpu_inc((port)->counters->type)
#define ibds_count_add(port, type, n) this_cpu_add((port)->counters->type, n)

/**
 * struct ibds_faults - faults of a port, set through debugfs, read locklessly
 * @armed: true when any fault below is set that the fast path has to check:
 *	all but those of objects (@create_error to @query_delay_ms), the MAD
 *	faults, the cost model, @lose_events and those of completions (@cqe_qp to
 *	@cqe_delay_ms), for which see struct ibds_cq.limit
 * @loss_ppm: data packets lost per million
 * @delay_us: delay of data packets
 * @jitter_us: random addition to @delay_us, which reorders
 * @dup_ppm: datagrams sent twice per million
 * @reorder_ppm: datagrams per million that others overtake
 * @truncate: data packets cut by this many bytes
 * @send_error: number of sends yet to complete with IB_WC_GENERAL_ERR
 *	(UD: QP to SQE)
 * @rc_send_error: the same, for RC QPs only
 * @recv_post_error: number of ib_post_recv/ib_post_srq_recv calls yet to fail
 *	with -ENOMEM
 * @send_post_error: number of ib_post_send calls yet to fail with -ENOMEM
 * @create_error: number of verbs object creations yet to fail with -ENOMEM
 * @create_skip: number of those to succeed before @create_error applies
 * @modify_error: number of ib_modify_qp calls on data QPs yet to fail with
 *	-EIO
 * @modify_skip: number of those to succeed before @modify_error applies
 * @map_error: number of DMA mappings yet to fail; needs caps.dma
 * @map_skip: number of those to succeed before @map_error applies
 * @attach_error: number of ib_attach_mcast calls yet to fail with -ENOMEM
 * @detach_error: number of ib_detach_mcast calls yet to fail with -ENOMEM
 * @pkey_error: number of ib_query_pkey calls yet to fail with -EIO
 * @netdev_refuse: errno with which accelerated interfaces are refused, 0: not
 * @netdev_init_error: number of accelerated interfaces yet to fail with -ENOMEM
 *	when they are set up
 * @ah_delay_us: time it takes to create an AH where that may sleep
 * @create_delay_ms: time it takes to create a CQ or QP
 * @destroy_delay_ms: time it takes to destroy one
 * @reset_delay_ms: time that ib_modify_qp() of a data QP to RESET takes; until
 *	then the QP stays as it was
 * @modify_delay_ms: time that any ib_modify_qp() of a data QP takes
 * @attach_delay_ms: time it takes to attach a QP to a group, or to detach it
 * @query_delay_ms: time it takes to read the port's attributes, a GID or a P_Key
 * @wedged: data QPs neither send, receive, complete nor flush
 * @wedged_special: the same for QP0 and QP1
 * @wedged_rings: the same for rings of accelerated interfaces, a bit for each of
 *	the first 32
 * @defer_tx: sends run from a work item instead of in ib_post_send()
 * @mad_delay_ms: delay of MADs (QP0, QP1)
 * @mad_drop: MADs lost: 0 none, 1 all, n one in n
 * @sa_drop: all MADs of class SubnAdm are lost, in both directions
 * @sa_delay_ms: delay of MADs of class SubnAdm, in both directions
 * @doorbell_ns: busy time added per doorbell
 * @irq_ns: busy time added per completion interrupt
 * @lose_events: completions of data QPs raise no interrupt; the CQ is no
 *	longer armed
 * @cqe_qp: QPN of the only data QP whose completions the faults below concern,
 *	0: all
 * @cqe_send_error: number of sends that succeed, yet to complete with @cqe_status
 * @cqe_recv_error: the same for receives
 * @cqe_status: enum ib_wc_status, 0: IB_WC_GENERAL_ERR
 * @cqe_lose: number of completions yet to be lost
 * @cqe_twice: number of completions yet to be reported twice
 * @cqe_delay_ms: time by which completions are late
 */
struct ibds_faults {
	bool armed;
	u32 loss_ppm;
	u32 delay_us;
	u32 jitter_us;
	u32 dup_ppm;
	u32 reorder_ppm;
	u32 truncate;
	atomic_t send_error;
	atomic_t rc_send_error;
	atomic_t recv_post_error;
	atomic_t send_post_error;
	atomic_t create_error;
	atomic_t create_skip;
	atomic_t modify_error;
	atomic_t modify_skip;
	atomic_t map_error;
	atomic_t map_skip;
	atomic_t attach_error;
	atomic_t detach_error;
	atomic_t pkey_error;
	u32 netdev_refuse;
	atomic_t netdev_init_error;
	u32 ah_delay_us;
	u32 create_delay_ms;
	u32 destroy_delay_ms;
	u32 reset_delay_ms;
	u32 modify_delay_ms;
	u32 attach_delay_ms;
	u32 query_delay_ms;
	bool wedged;
	bool wedged_special;
	u32 wedged_rings;
	bool defer_tx;
	u32 mad_delay_ms;
	u32 mad_drop;
	bool sa_drop;
	u32 sa_delay_ms;
	u32 doorbell_ns;
	u32 irq_ns;
	bool lose_events;
	u32 cqe_qp;
	atomic_t cqe_send_error;
	atomic_t cqe_recv_error;
	u32 cqe_status;
	atomic_t cqe_lose;
	atomic_t cqe_twice;
	u32 cqe_delay_ms;
};

struct ibds_nif;
struct ibds_phc;
struct ibds_pkt;

/**
 * struct ibds_port - one HCA port
 *
 * Fields set by the SM are written by sma.c, port.c and link.c under @lock and
 * read by the datapath with READ_ONCE().
 *
 * @dev: its HCA
 * @num: 1 or 2
 * @cable: switch port at the other end. Written under ibds_bus_mutex, read
 *	under RCU; NULL without cable
 * @slot: place in the table of all HCA ports, see ibds_route_hint()
 * @lock: protects PortInfo, tables, multicast attachments
 * @arrivals: serializes packets from outside the fast path; taken with
 *	interrupts disabled, as the datapath's locks require
 * @guid: port GUID (GUIDInfo entry 0, read-only)
 * @gid_prefix: subnet prefix, from the SM
 * @guids: GUID table; entries 1.. are written by the SM or by debugfs
 * @pkeys: P_Key table, host order, written by the SM
 * @lid: base LID, 0 until the SM assigns one
 * @lmc: LID mask control
 * @sm_lid: LID of the master SM
 * @sm_sl: SL to reach it
 * @state: enum ib_port_state
 * @phys_state: enum ib_port_phys_state
 * @link_up: the cable is plugged in
 * @mtu_active: bytes; NeighborMTU, from the SM
 * @subnet_timeout: PortInfo SubnetTimeOut, from the SM
 * @vl_cap: PortInfo VLCap
 * @cap_mask: PortInfo CapabilityMask
 * @qkey_viol: Q_Key violations counter (PortInfo)
 * @pkey_viol: P_Key violations counter
 * @mcast: attachments by MGID, see struct ibds_attach; RCU, changed under @lock
 * @special: receive sides of QP0 and QP1
 * @counters: per CPU
 * @faults: faults of the port
 * @mirror: pcap capture is on
 * @sma: state of the management agents (fabric.h)
 * @pcap: mirror buffer (pcap.c)
 * @nif: accelerated interface of the port, children apart (netdev.c)
 * @knobs: files of this port (debugfs.c)
 */
struct ibds_port {
	struct ibds_dev *dev;
	u32 num;
	struct ibds_sw_port __rcu *cable;
	u32 slot;
	spinlock_t lock;	/* what the SM sets, tables, attachments */
	spinlock_t arrivals;	/* ibds_port_receive(); outside rcv->lock */
	__be64 guid;
	__be64 gid_prefix;
	__be64 guids[IBDS_MAX_GIDS];
	u16 pkeys[IBDS_PKEYS];
	u16 lid;
	u8 lmc;
	u16 sm_lid;
	u8 sm_sl;
	u8 state;
	u8 phys_state;
	bool link_up;
	u32 mtu_active;
	u32 cap_mask;
	u32 qkey_viol;
	u32 pkey_viol;
	u8 subnet_timeout;
	u8 vl_cap;
	struct hlist_head mcast[256];
	struct ibds_rcv __rcu *special[2];
	struct ibds_counters __percpu *counters;
	struct ibds_faults faults;
	bool mirror;
	struct ibds_sma *sma;
	struct ibds_pcap *pcap;
	struct ibds_nif *nif;
	struct ibds_knobs *knobs;
};

/**
 * struct ibds_dev - one HCA
 * @ib: ib_core's part; first member
 * @dev: device on the ibdevsim bus
 * @pdev: DMA device when caps.dma is set
 * @phc: its clock, NULL without one
 * @id: number; name "ibdevsim<id>"
 * @caps: fixed at creation
 * @node_guid: node GUID
 * @sys_guid: SystemImageGUID, as NodeInfo has it; the node GUID at first
 * @vf_lock: protects @vf; a leaf
 * @vf: caps.vfs virtual functions, by port and number
 * @port: port n is at index n - 1
 * @qps: QPN to struct ibds_rcv, RCU
 * @qp_hash: the same for the datapath; changed under the first port's lock
 * @qp_mask: entries of @qp_hash less one
 * @next_qpn: where the search for a free QPN starts
 * @mrs: memory regions by the index in their key; RCU
 * @next_mr: where the search for a free index starts
 * @objects: number of verbs objects by kind
 * @user_objects: those of user space
 * @user_bytes: memory that they take
 * @num_netif_qp: number of QPs for flow steering
 * @cq_lock: protects @cqs; outside cq->lock
 * @cqs: all CQs
 * @fatal: IB_EVENT_DEVICE_FATAL was raised; the HCA is dead
 * @answering: its agents answer requests; see client.c
 * @live_lock: protects @live
 * @live: registered: port events may be raised
 * @list: all HCAs; ibds_bus_mutex
 * @lift: lifts the faults some time after del_device was asked for
 * @lifted: that was done
 * @hurry: commands that a fault delays; woken up then
 * @receive: event: a packet from outside the fast path reached its port.  Set
 *	by ibds_verbs_setup(), before the HCA can be looked up
 * @knobs: files of this HCA (debugfs.c)
 */
struct ibds_dev {
	struct ib_device ib;
	struct device *dev;
	struct platform_device *pdev;
	struct ibds_phc *phc;
	u32 id;
	struct ibds_caps caps;
	__be64 node_guid;
	__be64 sys_guid;
	spinlock_t vf_lock;	/* vf; a leaf */
	struct ibds_vf vf[IBDS_MAX_PORTS][IBDS_MAX_VFS];
	struct ibds_port port[IBDS_MAX_PORTS];
	struct xarray qps;
	struct hlist_head *qp_hash;
	u32 qp_mask;
	u32 next_qpn;
	struct xarray mrs;
	u32 next_mr;
	atomic_t objects[IBDS_KINDS];
	atomic_t user_objects[IBDS_KINDS];
	atomic64_t user_bytes;
	atomic_t num_netif_qp;
	spinlock_t cq_lock;	/* cqs; outside cq->lock */
	struct list_head cqs;
	bool fatal;
	bool answering;
	spinlock_t live_lock;	/* live; a leaf */
	bool live;
	struct list_head list;
	struct delayed_work lift;
	bool lifted;
	wait_queue_head_t hurry;
	void (*receive)(struct ibds_port *port, const struct ibds_pkt *pkt);
	struct ibds_knobs *knobs;
};

static inline struct ibds_dev *to_ibds_dev(struct ib_device *d)
{
	return container_of(d, struct ibds_dev, ib);
}

#endif /* IBDEVSIM_H */
