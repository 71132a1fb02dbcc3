/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ports of HCAs
 */
#ifndef IPOIB_PORT_H
#define IPOIB_PORT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "ipoib.h"

/* Bounds of the parameters for queue sizes */
#define IPOIB_QUEUE_MIN		2
#define IPOIB_QUEUE_MAX		8192

struct ipoib_ahs;
struct ipoib_channel;
struct ipoib_cm_port;
struct ipoib_paths;

/**
 * struct ipoib_port - what all interfaces of one HCA port share
 * @ca: HCA
 * @num: port number, from 1
 * @pd: protection domain of everything on this port
 * @marker_ah: address handle of drain markers
 * @parent: the port's parent interface, owner of the NAPI contexts
 * @enhanced: its interfaces are the HCA's own, with ours on top
 * @sendq_size: packets a transmit queue holds, a power of two
 * @recvq_size: buffers of a receive queue
 * @mtu: largest MTU that the port supports, bytes
 * @active_mtu: enum ib_mtu of its link as a broadcast group was joined, 0 before
 * @srq_size: most buffers that a datagram SRQ may have
 * @rx_pending: buffers that it has while it has few users (rtnl)
 * @srq_room: completions that all SRQs of a channel together may owe one CQ
 * @no_srq: the HCA has no SRQ for UD
 * @rx_whole: there is a link whose datagrams are longer than a head (@lock)
 * @channels: @num_channels of them, each with a completion vector
 * @num_channels: number of channels
 * @rx_frames: most receives for which an interrupt is held back (@lock)
 * @rx_usecs: most microseconds for which it is (@lock)
 * @no_moderation: the HCA turned out not to moderate CQs (@lock to write)
 * @rx_adaptive: DIM chooses both for each channel (@lock to write)
 * @used_channels: number of channels that QPs are assigned to, from the first
 *	(@lock)
 * @cm: state that connections share, NULL while no interface takes them (@lock)
 * @paths: paths of all interfaces
 * @ahs: address handles waiting to be destroyed
 * @opening: the parent was opened, and opens the children (rtnl)
 * @open: interfaces that are open (@lock to write)
 * @users: of these, those that use the channels; NAPI runs while it is not zero
 *	(@lock)
 * @drain_missed: jiffies when a QP last missed its deadline, see ipoib_drain.c
 * @lost: struct ipoib_qp that can't be destroyed, see ipoib_lost.c (@lock)
 * @num_lost: how many (@lock to write)
 * @lost_stop: the port goes: @lost_work is to end soon
 * @lost_work: tries again
 * @lock: mutex; @devs, users and what the channels' QPs share
 * @devs: interfaces of this port, struct ipoib_dev.port_entry
 * @handler: asynchronous events of the HCA
 * @events: bits of enum ipoib_event not yet handed to the interfaces
 * @event_work: hands them on
 */
struct ipoib_port {
	struct ib_device *ca;
	u32 num;
	struct ib_pd *pd;
	struct ib_ah *marker_ah;
	struct net_device *parent;
	bool enhanced;
	bool opening;
	u32 sendq_size;
	u32 recvq_size;
	u32 mtu;
	u8 active_mtu;
	u32 srq_size;
	u32 rx_pending;
	u32 srq_room;
	bool no_srq;
	bool no_moderation;
	bool rx_whole;
	struct ipoib_channel *channels[IPOIB_MAX_CHANNELS];
	u32 num_channels;
	u16 rx_frames;
	u16 rx_usecs;
	bool rx_adaptive;
	u32 used_channels;
	struct ipoib_cm_port *cm;
	struct ipoib_paths *paths;
	struct ipoib_ahs *ahs;
	unsigned long drain_missed;
	struct list_head lost;
	u32 num_lost;
	bool lost_stop;
	struct delayed_work lost_work;

	struct mutex lock;	/* devs, users, what QPs of a channel share */
	u32 open;
	u32 users;
	struct list_head devs;

	struct ib_event_handler handler;
	unsigned long events;
	struct work_struct event_work;
};

/* True for a child interface, false for the port's own. */
static inline bool ipoib_is_child(const struct ipoib_dev *dev)
{
	return dev->ndev != dev->port->parent;
}

struct ipoib_port *ipoib_port_create(struct ib_device *ca, u32 num);
void ipoib_port_silence(struct ipoib_port *port);
void ipoib_port_destroy(struct ipoib_port *port);
void ipoib_port_attach(struct ipoib_port *port, struct ipoib_dev *dev);
void ipoib_port_detach(struct ipoib_port *port, struct ipoib_dev *dev);
void ipoib_port_opened(struct ipoib_port *port, int by);
void ipoib_port_set_channels(struct ipoib_port *port, u32 num);
void ipoib_port_raise(struct ipoib_port *port, unsigned long bits);
int ipoib_port_active(struct ipoib_port *port, struct ib_port_attr *attr);
bool ipoib_port_has_guid(struct ipoib_port *port, __be64 guid);
__be64 ipoib_port_guid(struct ipoib_port *port, __be64 guid);

#endif /* IPOIB_PORT_H */
