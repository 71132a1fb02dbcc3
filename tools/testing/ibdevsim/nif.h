/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_NIF_H
#define IBDEVSIM_NIF_H

#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/u64_stats_sync.h>
#include <linux/xarray.h>

#include "rss.h"

/* Q_Key that packets for an interface of its own must have, as mlx5's. */
#define IBDS_NIF_QKEY		0xb1b

/* Of IPoIB: the destination's address before the encapsulation header. */
#define IBDS_NIF_PSEUDO_HLEN	20

#define IBDS_NIF_RING_MIN	64
#define IBDS_NIF_RING_MAX	8192
#define IBDS_NIF_RING_DEFAULT	512

struct ibds_channel;

/**
 * struct ibds_nif_stats - statistics of a channel, which its reopening keeps
 * @rx_sync: for what the poll function that receives counts
 * @rx_packets: packets received
 * @rx_bytes: bytes of them, without GRH and encapsulation header
 * @rx_csum: packets that the HCA has summed
 * @rx_errors: receives that failed
 * @tx_sync: for what the poll function that completes sends counts
 * @tx_packets: packets sent; those that the HCA cuts count as often as it does
 * @tx_bytes: bytes of them
 * @tx_tso: packets that the HCA cut
 * @tx_errors: sends that failed
 * @tx_dropped: packets that were not sent
 */
struct ibds_nif_stats {
	struct u64_stats_sync rx_sync;
	u64_stats_t rx_packets;
	u64_stats_t rx_bytes;
	u64_stats_t rx_csum;
	u64_stats_t rx_errors;
	struct u64_stats_sync tx_sync;
	u64_stats_t tx_packets;
	u64_stats_t tx_bytes;
	u64_stats_t tx_tso;
	u64_stats_t tx_errors;
	atomic64_t tx_dropped;
};

/**
 * struct ibds_nif - an accelerated interface
 * @dev: HCA
 * @port: port
 * @netdev: the interface; IPoIB owns it
 * @main: the port's own interface, itself or the one that a child belongs to
 * @children: of a port's own interface: how many are registered; rtnl
 * @below: with %IBDS_NETDEV_UD: operations that IPoIB had set, which are called
 * @pd: for the QPs of the channels
 * @cq: of @under, stays empty
 * @under: with %IBDS_NETDEV_OWN: the QP whose number is the interface's
 * @qpn: number of the QP that packets are sent to
 * @qkey: Q_Key of packets that are sent
 * @pkey_index: for the next open
 * @rss: of a port's own interface, children use it too
 * @by_qpn: of a port's own interface: it and its children, RCU
 * @lock: protects all below but @stats
 * @open: between open and stop
 * @channels: open ones, @num entries; NULL while closed.  Senders read it
 * @num: number of them
 * @num_rx: how many of them receive
 * @wanted: number of them at the next open, each for a transmit queue
 * @wanted_rx: how many of them receive then
 * @rx_size: receive buffers of a channel
 * @tx_size: packets that a channel can have on their way
 * @rx_usecs: moderation of receives, 0: none
 * @rx_frames: the same
 * @tstamp: stamps that were asked for
 * @restart: reopens the channels after an error
 * @stats: by channel
 */
struct ibds_nif {
	struct ibds_dev *dev;
	struct ibds_port *port;
	struct net_device *netdev;
	struct ibds_nif *main;
	u32 children;
	const struct net_device_ops *below;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *under;
	u32 qpn;
	u32 qkey;
	u16 pkey_index;
	struct ibds_rss *rss;
	struct xarray by_qpn;
	struct mutex lock;	/* up and down, channels, settings */
	bool open;
	struct ibds_channel *channels;
	u32 num;
	u32 num_rx;
	u32 wanted;
	u32 wanted_rx;
	u32 rx_size;
	u32 tx_size;
	u32 rx_usecs;
	u32 rx_frames;
	struct hwtstamp_config tstamp;
	struct delayed_work restart;
	struct ibds_nif_stats stats[IBDS_MAX_CHANNELS];
};

/**
 * struct ibds_nif_priv - start of the interface's private data
 * @rn: for IPoIB; first member
 * @nif: ours
 */
struct ibds_nif_priv {
	struct rdma_netdev rn;
	struct ibds_nif *nif;
};

static inline struct ibds_nif *ibds_nif(const struct net_device *netdev)
{
	const struct ibds_nif_priv *priv = netdev_priv(netdev);

	return priv->nif;
}

static inline bool ibds_nif_own(const struct ibds_nif *nif)
{
	return nif->dev->caps.rdma_netdev == IBDS_NETDEV_OWN;
}

/* The longest ring that an HCA can have. */
static inline u32 ibds_nif_ring_max(const struct ibds_caps *caps)
{
	u32 most = min(caps->max_qp_wr, caps->max_cqe);

	return min_t(u32, IBDS_NIF_RING_MAX, rounddown_pow_of_two(most));
}

/*
 * Bytes of a receive buffer: one of two sizes, so that all that is sent fits.  An
 * interface that is not told of its MTU has the larger ones.
 */
static inline u32 ibds_nif_room(const struct ibds_nif *nif)
{
	u32 mtu = nif->netdev->mtu + IBDS_IPOIB_HLEN;

	return IBDS_GRH_BYTES +
	       (ibds_nif_own(nif) && mtu <= 2048 ? 2048 : IBDS_MAX_MTU);
}

#endif /* IBDEVSIM_NIF_H */
