/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * IP over InfiniBand (RFC 4391, 4392): definitions shared by the driver's files
 *
 * What belongs to a single file is in that file's header.  The lock order is at
 * the top of ipoib_main.c.
 */
#ifndef IPOIB_H
#define IPOIB_H

#include <linux/bitops.h>
#include <linux/if_infiniband.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "ipoib_count.h"
#include "ipoib_rules.h"

struct dentry;
struct ib_sa_client;
struct ipoib_cm;
struct ipoib_engine;
struct ipoib_enhanced;
struct ipoib_mcasts;
struct ipoib_neighs;
struct ipoib_pmtu;
struct ipoib_port;
struct ipoib_txq;
struct ipoib_ud;
struct ipoib_why;

/*
 * The interoperation build is loaded together with the distribution's module,
 * so everything that is registered by name has a different name.
 */
#ifdef IPOIB_INTEROP
#define IPOIB_NAME		"ib_ipoib_interop"
#define IPOIB_KIND		"ipoib_interop"
#else
#define IPOIB_NAME		"ib_ipoib"
#define IPOIB_KIND		"ipoib"
#endif

extern struct workqueue_struct *ipoib_wq;
extern struct workqueue_struct *ipoib_delete_wq;
extern struct ib_sa_client ipoib_sa;
extern unsigned int ipoib_sendq_size;
extern unsigned int ipoib_recvq_size;

#define IPOIB_MAX_CHANNELS	16
#define IPOIB_MAX_TXQS		16

/**
 * struct ipoib_dev - an interface, found by ipoib_priv()
 * @ndev: net_device
 * @port: HCA port
 * @port_entry: entry in ipoib_port.devs
 * @pkey: P_Key, full membership bit set
 * @by_sysfs: created by create_child, so delete_child may delete it
 * @engine: what carries its datagrams
 * @enhanced: the HCA's own interface below it, or NULL
 * @txqs: transmit queues, @num_txqs of them, each with a QP; that of the first
 *	also receives
 * @num_txqs: at least one with the verbs engine (port lock to write)
 * @max_txqs: most of them
 * @running: the interface is up and the stack's queues may be woken; copy of
 *	@state for the hot path, set by ipoib_dev_move()
 * @max_sge: most gather entries that a packet may take
 * @qpn: number of the first QP; while there is none, that of the previous one
 * @lid: own LID, to recognise own multicast that is looped back
 * @qkey: Q_Key of the link, from the broadcast group
 * @pkey_index: index of @pkey in the port's table
 * @ud: state of the datagram QPs, NULL if there are none
 * @neigh: neighbours
 * @mcast: multicast groups
 * @lock: mutex; serializes open, stop, commands and events
 * @state: see enum ipoib_dev_state (@lock)
 * @port_up: the port is active
 * @events: bits of enum ipoib_event, to be handled by @work
 * @work: handles events
 * @deferred: events that @link_work is to handle, as they need rtnl (@lock)
 * @again: events that could not be handled and are to be retried (@lock)
 * @again_at: when to retry them, in jiffies (@lock)
 * @failures: retries scheduled in a row (@lock)
 * @restarted: when the QPs were last restarted, in jiffies (@lock)
 * @link_work: does what needs rtnl: MTU, address, carrier on
 * @registered: @link_work may hold a reference on @ndev (@lock)
 * @link_due: @link_work is to be queued once @registered is set (@lock)
 * @announce: tell peers our address once the carrier is on
 * @setting_mtu: the driver changes the MTU, not the administrator (rtnl)
 * @mtu_failures: times in a row that it could not be changed (rtnl)
 * @open_due: a child, to be opened with its parent (rtnl to write)
 * @open_failures: times in a row that this failed (rtnl to write)
 * @guid: the port's GUID that the administrator chose; 0: the first one
 * @local_gid: GID in use, as last read from the port (paths' lock to write)
 * @mcast_mtu: IP MTU of the broadcast group
 * @tclass: traffic class of the broadcast group and of the link's paths
 * @admin_mtu: MTU the administrator asked for
 * @ud_mtu: largest datagram-mode MTU of this port
 * @rx: receive counters, one per channel, each written by that channel's NAPI
 * @umcast: don't join groups that user space has joined
 * @connected: connected mode (rtnl and paths' lock to write)
 * @cm: connections, NULL if the driver is built or the engine is without them
 * @pmtu: packets that were too long for their neighbours, NULL likewise
 * @why: why it has no carrier
 * @debugfs: files of this interface
 */
struct ipoib_dev {
	struct net_device *ndev;
	struct ipoib_port *port;
	struct list_head port_entry;
	u16 pkey;
	bool by_sysfs;

	const struct ipoib_engine *engine;
	struct ipoib_enhanced *enhanced;
	struct ipoib_txq *txqs[IPOIB_MAX_TXQS];
	u32 num_txqs;
	u32 max_txqs;
	bool running;
	u32 max_sge;
	u32 qpn;
	u16 lid;
	u16 pkey_index;
	u32 qkey;

	struct ipoib_ud *ud;
	struct ipoib_neighs *neigh;
	struct ipoib_mcasts *mcast;

	struct mutex lock;	/* state, serializes up and down */
	enum ipoib_dev_state state;
	bool port_up;
	unsigned long events;
	struct delayed_work work;
	unsigned long deferred;
	unsigned long again;
	unsigned long again_at;
	u32 failures;
	unsigned long restarted;
	struct work_struct link_work;
	bool registered;
	bool link_due;
	bool announce;
	bool setting_mtu;
	u32 mtu_failures;
	bool open_due;
	u32 open_failures;
	__be64 guid;
	union ib_gid local_gid;
	u32 mcast_mtu;
	u8 tclass;
	u32 admin_mtu;
	u32 ud_mtu;
	struct ipoib_count rx[IPOIB_MAX_CHANNELS];
	bool umcast;
	bool connected;
	struct ipoib_cm *cm;
	struct ipoib_pmtu *pmtu;
	struct ipoib_why *why;
	struct dentry *debugfs[4];
};

/* An HCA's own interface has private data of its own, which begin so. */
static inline struct ipoib_dev *ipoib_priv(const struct net_device *ndev)
{
	const struct rdma_netdev *rn = netdev_priv(ndev);

	return rn->clnt_priv;
}

/**
 * ipoib_dev_event - have the interface's work item handle an event
 * @dev: interface
 * @ev: event
 *
 * Lets lower layers notify ipoib_dev.c.
 *
 * Context: any.
 */
static inline void ipoib_dev_event(struct ipoib_dev *dev, enum ipoib_event ev)
{
	set_bit(ev, &dev->events);
	mod_delayed_work(ipoib_wq, &dev->work, 0);
}

#endif /* IPOIB_H */
