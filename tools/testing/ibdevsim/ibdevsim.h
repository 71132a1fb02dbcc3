/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: a simulated InfiniBand fabric
 *
 * HCAs (struct ibds_dev) with one or two ports (struct ibds_port) hang on one
 * switch (switch.c).  Verbs objects embed what ib_core allocates for us.  The
 * simulator models hardware only: nothing here knows which upper-layer
 * protocol is loaded.
 *
 * Who owns what:
 *
 *   main.c     module, bus (new_device/del_device), device life cycle
 *   verbs.c    ib_device_ops, PD, AH, MR stubs, queries, fast registration
 *   cq.c       completion queues, interrupts on the vector's CPU
 *   qp.c       QP life cycle, state changes, events
 *   sq.c       send queues
 *   rcv.c      receive sides of QPs, as senders find them
 *   srq.c      receive queues, shared ones
 *   mcast.c    multicast attachments
 *   ud.c       datagrams: transmit, LSO, checksum, delivery
 *   rc.c       reliable connections: transmit, RNR, retries, delivery
 *   switch.c   LFT, MFT, switch ports, forwarding
 *   swagent.c  the switch's own agents
 *   sma.c      subnet management agent of an HCA port (process_mad)
 *   pma.c      performance management agent, HCA and switch
 *   trap.c     traps, HCA and switch
 *   fault.c    faults, MADs on their way, delayed and injected packets
 *   dma.c      the DMA device of an HCA
 *   debugfs.c  the knobs' files and the counters
 *   pcap.c     port mirror
 *
 * Locks, outermost first: ibds_bus_mutex (create/remove), ibds_switch.lock,
 * port->lock, then those of the datapath (datapath.h): qp->sq.lock or
 * port->arrivals, rcv->lock, (rq->lock or srq->lock), cq->lock.  A sender holds
 * its own sq.lock while it delivers, so nothing may take an sq.lock while it
 * holds receive or CQ locks.  All of them but the mutex are taken with interrupts
 * disabled.  Look-ups (QPN, LID, MGID) are RCU.
 */
#ifndef IBDEVSIM_H
#define IBDEVSIM_H

#include <linux/device.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/platform_device.h>
#include <linux/rbtree.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_smi.h>
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

/**
 * enum ibds_comp_ctx - where completion handlers are called
 * @IBDS_COMP_IRQ: in hard interrupt context
 * @IBDS_COMP_WORK: in a work item, bottom halves disabled and interrupts
 *	enabled, as HCAs do whose completions are made by software (rdmavt)
 */
enum ibds_comp_ctx {
	IBDS_COMP_IRQ,
	IBDS_COMP_WORK,
};

/**
 * struct ibds_caps - what an HCA can do, fixed when it is created
 * @ports: number of ports, 1 or 2
 * @mtu: largest MTU of a port in octets, 256 to 4096 (PortInfo MTUCap)
 * @csum: UD IP checksum offload (IB_DEVICE_UD_IP_CSUM)
 * @lso: UD large send offload (IBK_UD_TSO)
 * @srq: shared receive queues exist
 * @ud_srq: a UD QP may use one
 * @moderation: CQ moderation is offered
 * @block_loopback: IBK_BLOCK_MULTICAST_LOOPBACK is offered
 * @dma: use a real dma_device instead of virtual DMA
 * @comp_ctx: enum ibds_comp_ctx
 * @reset_purge: RESET takes a QP's completions out of its CQs
 * @vectors: completion vectors; vector n interrupts CPU n modulo online CPUs
 * @max_sge: scatter/gather entries of a send or receive request
 * @max_srq_sge: the same for an SRQ
 * @max_qp_wr: longest send or receive queue
 * @max_qp: QPs per HCA
 * @netif_qps: QPs that take part in flow steering, 0: the HCA has none
 * @max_cq: CQs per HCA
 * @max_cqe: longest CQ
 * @gids: GUIDs a port can hold (GID table length)
 * @pkeys: P_Key table length
 * @width: link width as IB_WIDTH_*
 * @speed: link speed as IB_SPEED_*
 * @vfs: virtual functions that the HCA seems to have
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
	u32 vectors;
	u32 max_sge;
	u32 max_srq_sge;
	u32 max_qp_wr;
	u32 max_qp;
	u32 netif_qps;
	u32 max_cq;
	u32 max_cqe;
	u32 gids;
	u32 pkeys;
	u32 width;
	u32 speed;
	u32 vfs;
};

/**
 * struct ibds_vf - what can be set of a virtual function at a port, and read
 * @node_guid: node GUID, 0 until one was set
 * @port_guid: port GUID, the same
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
 * @tx_bytes: octets of payload in them
 * @rx_packets: packets received by some QP
 * @rx_bytes: octets of payload in them
 * @tx_rc_packets: packets sent on reliable connections
 * @rx_rc_packets: those received
 * @tx_grh: packets sent with a GRH
 * @rx_grh: those received
 * @tx_doorbells: ib_post_send() calls
 * @tx_wrs: requests in them
 * @rx_doorbells: ib_post_recv() and ib_post_srq_recv() calls
 * @rx_wrs: requests in them
 * @cq_events: completion interrupts
 * @cqe: completions
 * @cq_overflow: completions lost to a full CQ
 * @drop_port_down: port, or the link's other end, not in a state for it
 * @drop_no_route: no port has that LID
 * @drop_no_qp: no such QP, or not in a state to receive
 * @drop_pkey: P_Key mismatch
 * @drop_qkey: Q_Key mismatch
 * @drop_gid: GRH for a GID that the port does not have
 * @drop_mtu: longer than the MTU
 * @drop_no_recv: no receive posted
 * @drop_recv_short: receive too short
 * @drop_mc_no_group: multicast nobody here attached to
 * @drop_mc_bad: multicast without GRH or with a wrong QPN or LID
 * @drop_fault: a fault wanted it
 * @drop_wedged: a wedged HCA
 * @drop_malformed: headers make no sense
 * @rc_rnr_nak: RNR NAKs sent
 * @rc_retry: RC requests sent again
 * @rc_retry_exceeded: RC requests given up
 * @bad_lkey: requests with a wrong L_Key
 * @bad_modify: illegal ib_modify_qp() calls
 * @sq_full: sends refused, queue full
 * @rq_full: receives refused, queue full
 * @mad_rx: MADs that reached QP0 or QP1
 * @mad_tx: MADs that left them
 * @mad_dropped: MADs lost to a full delay line
 * @trap_tx: traps sent, repetitions included
 * @injected: packets from user space
 * @delayed: packets a fault delayed
 * @reordered: of these, those that overtook another
 *
 * Every packet that is not delivered is in one of drop_*.
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
};

#define ibds_count(port, type) this_cpu_inc((port)->counters->type)
#define ibds_count_add(port, type, n) this_cpu_add((port)->counters->type, n)

/**
 * struct ibds_faults - faults of a port, set through debugfs, read locklessly
 * @armed: true when any fault below is set that the fast path cannot cope with:
 *	all but those of objects (@create_error to @reset_delay_ms), the MAD
 *	faults, the cost model and @lose_events
 * @loss_ppm: data packets lost per million
 * @delay_us: data packets delivered this late
 * @jitter_us: random addition to @delay_us, which reorders
 * @truncate: data packets cut by this many octets
 * @send_error: number of sends still to complete with IB_WC_GENERAL_ERR
 *	(UD: QP to SQE)
 * @recv_post_error: number of ib_post_recv/ib_post_srq_recv calls that still
 *	fail with -ENOMEM
 * @send_post_error: number of ib_post_send calls that still fail with -ENOMEM
 * @create_error: number of verbs object creations that still fail with -ENOMEM
 * @create_skip: number of those that still succeed before @create_error counts
 * @modify_error: number of ib_modify_qp calls on data QPs that still fail with
 *	-EIO
 * @modify_skip: number of those that still succeed before @modify_error counts
 * @map_error: number of DMA mappings that still fail; needs caps.dma
 * @map_skip: number of those that still succeed before @map_error counts
 * @attach_error: number of ib_attach_mcast calls that still fail with -ENOMEM
 * @ah_delay_us: time that making an AH takes where it may sleep
 * @create_delay_ms: time that making a CQ or QP takes
 * @destroy_delay_ms: time that destroying one takes
 * @reset_delay_ms: time that ib_modify_qp() of a data QP to RESET takes; until
 *	then the QP goes on as it was
 * @wedged: data QPs neither send, receive nor complete; flushes do not come
 * @wedged_special: the same for QP0 and QP1
 * @defer_tx: sends run from a work item instead of in ib_post_send()
 * @mad_delay_ms: MADs (QP0, QP1) delivered this late
 * @mad_drop: MADs lost: 0 none, 1 all, n one in n
 * @sa_drop: MADs of class SubnAdm lost, both ways, all if nonzero
 * @doorbell_ns: busy time added per doorbell
 * @irq_ns: busy time added per completion interrupt
 * @lose_events: no interrupt tells of the completions of data QPs; a CQ that
 *	was armed is not any more
 */
struct ibds_faults {
	bool armed;
	u32 loss_ppm;
	u32 delay_us;
	u32 jitter_us;
	u32 truncate;
	atomic_t send_error;
	atomic_t recv_post_error;
	atomic_t send_post_error;
	atomic_t create_error;
	atomic_t create_skip;
	atomic_t modify_error;
	atomic_t modify_skip;
	atomic_t map_error;
	atomic_t map_skip;
	atomic_t attach_error;
	u32 ah_delay_us;
	u32 create_delay_ms;
	u32 destroy_delay_ms;
	u32 reset_delay_ms;
	bool wedged;
	bool wedged_special;
	bool defer_tx;
	u32 mad_delay_ms;
	u32 mad_drop;
	bool sa_drop;
	u32 doorbell_ns;
	u32 irq_ns;
	bool lose_events;
};

/**
 * struct ibds_port - one HCA port
 *
 * What the SM sets is written by sma.c under @lock and read by the datapath
 * with READ_ONCE().
 *
 * @dev: its HCA
 * @num: 1 or 2
 * @sw_port: port number at the switch, 0 while not attached
 * @lock: PortInfo, tables, multicast attachments
 * @arrivals: packets from outside the fast path reach the port one at a time,
 *	with interrupts disabled as the datapath's locks want it
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
 * @link_up: the cable is in and the peer port is not disabled
 * @mtu_active: octets; NeighborMTU, from the SM
 * @subnet_timeout: PortInfo SubnetTimeOut, from the SM
 * @vl_cap: PortInfo VLCap
 * @cap_mask: PortInfo CapabilityMask
 * @qkey_viol: Q_Key violations counter (PortInfo)
 * @pkey_viol: P_Key violations counter
 * @mcast: attachments by MGID, see struct ibds_attach; RCU, changed under @lock
 * @special: receive sides of QP0 and QP1
 * @counters: per CPU
 * @faults: see there
 * @mirror: pcap capture is on
 * @sma: what only the management agents use (fabric.h)
 * @pcap: mirror buffer (pcap.c)
 * @knobs: files of this port (debugfs.c)
 */
struct ibds_port {
	struct ibds_dev *dev;
	u32 num;
	u32 sw_port;
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
	struct hlist_head mcast[64];
	struct ibds_rcv __rcu *special[2];
	struct ibds_counters __percpu *counters;
	struct ibds_faults faults;
	bool mirror;
	struct ibds_sma *sma;
	struct ibds_pcap *pcap;
	struct ibds_knobs *knobs;
};

/**
 * struct ibds_dev - one HCA
 * @ib: what ib_core knows; first member
 * @dev: device on the ibdevsim bus
 * @pdev: DMA device when caps.dma is set
 * @id: number; name "ibdevsim<id>"
 * @caps: fixed at creation
 * @node_guid: node and system image GUID
 * @vf_lock: protects @vf; a leaf
 * @vf: virtual functions, of which there are caps.vfs, by port and number
 * @port: port n is at index n - 1
 * @qps: QPN to struct ibds_rcv, RCU
 * @qp_hash: the same for the datapath; changed under the first port's lock
 * @qp_mask: entries of @qp_hash less one
 * @next_qpn: where the search for a free QPN starts
 * @num_qp: QPs there are
 * @num_cq: CQs
 * @num_srq: SRQs
 * @num_pd: protection domains
 * @num_ah: address handles
 * @num_mr: memory regions
 * @fatal: IB_EVENT_DEVICE_FATAL was raised; nothing works any more
 * @leaving: its agents answer nothing any more; see ibds_dev_silence()
 * @live_lock: protects @live
 * @live: registered: port events may be raised
 * @list: all HCAs; ibds_bus_mutex
 * @knobs: files of this HCA (debugfs.c)
 */
struct ibds_dev {
	struct ib_device ib;
	struct device *dev;
	struct platform_device *pdev;
	u32 id;
	struct ibds_caps caps;
	__be64 node_guid;
	spinlock_t vf_lock;	/* vf; a leaf */
	struct ibds_vf vf[IBDS_MAX_PORTS][IBDS_MAX_VFS];
	struct ibds_port port[IBDS_MAX_PORTS];
	struct xarray qps;
	struct hlist_head *qp_hash;
	u32 qp_mask;
	u32 next_qpn;
	atomic_t num_qp, num_netif_qp, num_cq, num_srq, num_pd, num_ah, num_mr;
	bool fatal;
	bool leaving;
	spinlock_t live_lock;	/* live; a leaf */
	bool live;
	struct list_head list;
	struct ibds_knobs *knobs;
};

/**
 * struct ibds_pkt - a packet outside the fast path: management, injected,
 *	delayed or mirrored
 *
 * Fields of LRH, GRH, BTH and DETH in host order, then the payload.  @node to
 * @out_port belong to the fabric (fault.c, switch.c): place in the delay line,
 * what happens next, switch port it came in by and HCA's switch port it goes
 * to.  @list, @from, @to and @todo belong to the datapath until it hands the
 * packet over: what is to be done once the sender's lock is dropped.
 *
 * @list: datapath
 * @from: HCA port that sent it, NULL when that may be gone
 * @to: datapath
 * @todo: datapath
 * @node: delay line
 * @due: when it leaves the delay line
 * @stage: enum ibds_stage
 * @in_port: switch port it comes in by
 * @out_port: switch port of the HCA it goes to
 * @slid: LRH SLID
 * @dlid: LRH DLID
 * @sl: LRH SL
 * @grh_valid: there is a GRH
 * @grh: GRH
 * @opcode: BTH OpCode, IB_OPCODE_*
 * @solicited: BTH SE
 * @pkey: BTH P_Key
 * @dqpn: BTH DestQP
 * @sqpn: DETH SrcQP
 * @qkey: DETH Q_Key
 * @psn: BTH PSN
 * @imm_valid: there is immediate data
 * @imm: immediate data
 * @csum_ok: the sending HCA computed the checksum
 * @cut: truncated on the wire
 * @len: octets of payload
 * @data: payload
 */
struct ibds_pkt {
	struct list_head list;
	struct ibds_port *from, *to;
	u8 todo;
	struct rb_node node;
	ktime_t due;
	u8 stage;
	u8 in_port, out_port;
	u16 slid, dlid;
	u8 sl;
	bool grh_valid;
	struct ib_grh grh;
	u8 opcode;
	bool solicited;
	u16 pkey;
	u32 dqpn, sqpn, qkey, psn;
	bool imm_valid;
	__be32 imm;
	bool csum_ok;
	bool cut;
	u32 len;
	u8 data[] __aligned(8);
};

static inline struct ibds_dev *to_ibds_dev(struct ib_device *d)
{
	return container_of(d, struct ibds_dev, ib);
}

/* ---- datapath half: datapath.h ------------------------------------------- */

int ibds_datapath_init(void);
void ibds_datapath_exit(void);
/* Fill ib_device_ops and attributes from dev->caps; before registration. */
int ibds_verbs_setup(struct ibds_dev *dev);
void ibds_verbs_release(struct ibds_dev *dev);
/*
 * Deliver @pkt to the QPs of @port it is for (special, UD by QPN, multicast
 * by MGID and MLID), applying P_Key, Q_Key and length rules.  RCU read side
 * or any context; does not keep @pkt.
 */
void ibds_port_receive(struct ibds_port *port, const struct ibds_pkt *pkt);
/* Force a QP into ERR (or SQE) and raise IB_EVENT_QP_FATAL. */
int ibds_qp_break(struct ibds_dev *dev, u32 qpn, bool sqe);
/* Does a countdown fault, less those that are to be skipped, hit this call? */
bool ibds_object_fails(atomic_t *error, atomic_t *skip);
/* Run what waits after a fault (wedged, defer) was lifted. */
void ibds_qps_kick(struct ibds_port *port);
/* All data QPs to ERR; used for device fatal and link removal of the HCA. */
void ibds_qps_error(struct ibds_dev *dev);
/* Has ib_mad handled all that the HCA's QP0 and QP1 received so far? */
bool ibds_mads_done(struct ibds_dev *dev);
/* How many entries wait unread in all CQs etc. for debugfs. */
void ibds_qps_show(struct seq_file *m, struct ibds_dev *dev);
/* Does the port's table hold a key matching @pkey (membership rules)? */
bool ibds_pkey_ok(struct ibds_port *port, u16 a, u16 b);

/* ---- fabric half: main.c switch.c sma.c fault.c debugfs.c pcap.c -------- */

/*
 * Forward: which HCA port gets a packet that @from sends to @dlid?  NULL: the
 * switch itself, nobody, or a port that is not usable; the caller counts.
 * Loopback (own LID) answers @from.  RCU read side.
 */
struct ibds_port *ibds_route(struct ibds_port *from, u16 dlid);
/* The same, with a hint that the caller keeps for this pair; 0 at first. */
struct ibds_port *ibds_route_hint(struct ibds_port *from, u16 dlid, u64 *hint);
/* The same for a multicast LID: call @fn for each port but the sender's. */
void ibds_route_mc(struct ibds_port *from, u16 mlid,
		   void (*fn)(struct ibds_port *to, void *arg), void *arg);
/* A MAD left QP0 or QP1 of @from; takes directed route and LID routing, the
 * switch's own agents, MAD faults.  Consumes @pkt.
 */
void ibds_mad_send(struct ibds_port *from, struct ibds_pkt *pkt);
/*
 * Slow path of a data packet when from->faults.armed or the destination's: loses,
 * delays, truncates or delivers with ibds_port_receive().  Consumes @pkt.
 */
void ibds_fault_send(struct ibds_port *from, struct ibds_port *to,
		     struct ibds_pkt *pkt);
/* Should this send (RC included) be lost?  For paths that have no packet. */
bool ibds_fault_lose(struct ibds_port *port);
/* Record on the mirror of @port if one is on; @tx direction. */
void ibds_mirror(struct ibds_port *port, const struct ibds_pkt *pkt, bool tx);
struct ibds_pkt *ibds_pkt_alloc(u32 len, gfp_t gfp);
void ibds_pkt_free(struct ibds_pkt *pkt);

int ibds_process_mad(struct ib_device *ibdev, int flags, u32 port_num,
		     const struct ib_wc *wc, const struct ib_grh *grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *out_pkey_index);
int ibds_modify_port(struct ib_device *ibdev, u32 port, int mask,
		     struct ib_port_modify *props);
/*
 * Bad P_Key or Q_Key seen on receive: count in PortInfo, maybe trap.  Any
 * context; @pkt may be NULL where there is none.
 */
void ibds_port_bad_pkey(struct ibds_port *port, const struct ibds_pkt *pkt);
void ibds_port_bad_qkey(struct ibds_port *port, const struct ibds_pkt *pkt);
/* ib_device_ops.modify_device: node description, tells the SM (trap 144). */
int ibds_modify_device(struct ib_device *ibdev, int mask,
		       struct ib_device_modify *props);
int ibds_port_init(struct ibds_port *port, struct ibds_dev *dev, u32 num);
void ibds_port_exit(struct ibds_port *port);
void ibds_port_event(struct ibds_port *port, enum ib_event_type type);
void ibds_port_set_link(struct ibds_port *port, bool up);
int ibds_switch_attach(struct ibds_port *port);
void ibds_switch_detach(struct ibds_port *port);
int ibds_switch_init(void);
void ibds_switch_stop(void);
void ibds_switch_exit(void);
void ibds_debugfs_init(void);
void ibds_debugfs_exit(void);
void ibds_debugfs_add(struct ibds_dev *dev);
void ibds_debugfs_del(struct ibds_dev *dev);

#endif /* IBDEVSIM_H */
