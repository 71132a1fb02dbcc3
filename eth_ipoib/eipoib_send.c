// SPDX-License-Identifier: GPL-2.0-only
/*
 * Send packets to the fabric, to the guests, to this host
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>

#include "eipoib_send.h"

/* What an eipoib interface sends through a lower interface on this CPU */
static DEFINE_PER_CPU(const struct sk_buff *, eipoib_cpu_sends);

/* Where IPoIB has zeros before a packet that it receives; of INFINIBAND_ALEN */
static const u8 eipoib_mark[INFINIBAND_ALEN + 1] = "eth_ipoib to its host";

/**
 * eipoib_sends - does an eipoib interface send this packet?
 * @skb: what a lower interface is to send
 * Return: false if it is the host's.  With BHs disabled.
 */
bool eipoib_sends(const struct sk_buff *skb)
{
	return __this_cpu_read(eipoib_cpu_sends) == skb;
}

/* Does this host have the address on the lower interface? */
bool eipoib_host_has(struct eipoib_dev *dev, const struct in6_addr *ip)
{
	struct net_device *lower = dev->lower;
	struct in_device *in_dev;
	struct in_ifaddr *ifa;
	bool found = false;

	if (!eipoib_is_v4(ip))
		return ipv6_mod_enabled() &&
		       ipv6_chk_addr(dev_net(lower), ip, lower, 1);
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(lower);
	if (in_dev)
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			found |= ifa->ifa_local == eipoib_to_v4(ip);
	rcu_read_unlock();
	return found;
}

/**
 * eipoib_host_from - an address of this host to ask the fabric from
 * @dev: interface
 * @ip: address that is asked for
 * @from: result, of the same family; unspecified if there is none
 *
 * In IPv4 one of the lower interface that is in the same subnet; in IPv6 the
 * link-local one that it has by default (RFC 4391 section 8).
 */
void eipoib_host_from(struct eipoib_dev *dev, const struct in6_addr *ip,
		      struct in6_addr *from)
{
	struct in_device *in_dev;
	u8 own[INFINIBAND_ALEN];
	struct in_ifaddr *ifa;

	if (!eipoib_is_v4(ip)) {
		eipoib_lladdr_own(dev, own);
		ipv6_addr_set(from, htonl(0xfe800000), 0, 0, 0);
		memcpy(from->s6_addr + 8, own + 12, 8);
		from->s6_addr[8] |= 2;
		return;
	}
	*from = eipoib_v4(0);
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(dev->lower);
	if (in_dev)
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			if (inet_ifa_match(eipoib_to_v4(ip), ifa))
				*from = eipoib_v4(ifa->ifa_local);
	rcu_read_unlock();
}

/* The interface of this host that has an address, NULL if none has.  Under RCU. */
const struct net_device *eipoib_host_dev(struct eipoib_dev *dev,
					 const struct in6_addr *ip)
{
	struct net *net = dev_net(dev->lower);

	if (eipoib_is_v4(ip))
		return __ip_dev_find(net, eipoib_to_v4(ip), false);
	if (ipv6_mod_enabled() && ipv6_chk_addr(net, ip, NULL, 0))
		return ipv6_dev_find(net, ip, NULL);
	return NULL;
}

/* Is an interface of this host that station of the Ethernet? */
static bool eipoib_is_station(const struct net_device *ndev, const u8 *mac)
{
	if (ndev->type != ARPHRD_ETHER)
		return false;
	/* While its MAC changes it may be no station. */
	return data_race(ether_addr_equal(ndev->dev_addr, mac));
}

/*
 * Has the interface that is the station a link-local address?  Others may have the
 * same: a bridge by default has that of one of its ports.
 */
static bool eipoib_station_has(struct net *net, const struct in6_addr *ip,
			       const u8 *mac)
{
	struct net_device *ndev;

	for_each_netdev_rcu(net, ndev)
		if (eipoib_is_station(ndev, mac) &&
		    ipv6_chk_addr(net, ip, ndev, 1))
			return true;
	return false;
}

/* Is a station this host, of which @has is an interface with the address? */
static bool eipoib_host_is_station(struct eipoib_dev *dev,
				   const struct net_device *has,
				   const struct in6_addr *ip, const u8 *mac)
{
	if (has == dev->lower)
		return false;
	return eipoib_is_station(has, mac) ||
	       (ipv6_addr_type(ip) & IPV6_ADDR_LINKLOCAL &&
		eipoib_station_has(dev_net(dev->lower), ip, mac));
}

/**
 * eipoib_host_is - is a station this host, which has that address?
 * @dev: interface
 * @ip: address
 * @mac: station
 */
bool eipoib_host_is(struct eipoib_dev *dev, const struct in6_addr *ip,
		    const u8 *mac)
{
	const struct net_device *has;
	bool is;

	rcu_read_lock();
	has = eipoib_host_dev(dev, ip);
	is = has && eipoib_host_is_station(dev, has, ip, mac);
	rcu_read_unlock();
	return is;
}

/**
 * eipoib_host_allows - may a station have an address, as far as this host goes?
 * @dev: interface
 * @ip: address
 * @mac: station
 * Return: false if it is this host's, but for the station that the host is on the
 *	Ethernet
 */
bool eipoib_host_allows(struct eipoib_dev *dev, const struct in6_addr *ip,
			const u8 *mac)
{
	const struct net_device *has;
	bool allows;

	rcu_read_lock();
	has = eipoib_host_dev(dev, ip);
	allows = !has || eipoib_host_is_station(dev, has, ip, mac);
	rcu_read_unlock();
	return allows;
}

/**
 * eipoib_scrub - remove what ties a packet to the way it has come
 * @skb: packet of this host or of a guest that turns to the other side
 *
 * As if it had come from another machine: it has no socket, route or connection
 * here.
 */
void eipoib_scrub(struct sk_buff *skb)
{
	u8 type = skb->pkt_type;

	skb_orphan(skb);
	skb_scrub_packet(skb, true);
	skb->pkt_type = type;
}

/**
 * eipoib_header - put the header of IPoIB before a packet
 * @dev: interface
 * @skb: packet; its data begins with the network header
 * @proto: Ethertype
 * @lladdr: link-layer address of the destination
 * Return: false if there is no memory; the packet is freed and counted then
 */
bool eipoib_header(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		   const u8 *lladdr)
{
	struct net_device *lower = dev->lower;

	if (skb_cow_head(skb, LL_RESERVED_SPACE(lower)))
		goto drop;
	skb_reset_network_header(skb);
	skb->dev = lower;
	skb->protocol = proto;
	if (dev_hard_header(skb, lower, ntohs(proto), lladdr, NULL,
			    skb->len) < 0)
		goto drop;
	return true;

drop:
	eipoib_drop(dev, skb, EIPOIB_C_NOMEM);
	return false;
}

/**
 * eipoib_xmit_lower - send a packet with its header through the lower interface
 * @dev: interface
 * @skb: packet
 *
 * With BHs disabled.
 */
void eipoib_xmit_lower(struct eipoib_dev *dev, struct sk_buff *skb)
{
	lockdep_assert_in_softirq();
	__this_cpu_write(eipoib_cpu_sends, skb);
	dev_queue_xmit(skb);
	__this_cpu_write(eipoib_cpu_sends, NULL);
}

/* Send a packet, whose data begins with the network header, to the fabric. */
void eipoib_to_fabric(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		      const u8 *lladdr)
{
	if (eipoib_header(dev, skb, proto, lladdr))
		eipoib_xmit_lower(dev, skb);
}

/**
 * eipoib_frame - make a packet a received frame of the Ethernet interface
 * @dev: interface
 * @skb: packet; its data begins with the network header, and does so afterwards
 * @proto: Ethertype
 * @dst: MAC
 * @src: MAC
 * Return: false if there is no memory; the packet is freed and counted then
 */
bool eipoib_frame(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		  const u8 *dst, const u8 *src)
{
	struct ethhdr *eth;

	if (skb_cow_head(skb, ETH_HLEN)) {
		eipoib_drop(dev, skb, EIPOIB_C_NOMEM);
		return false;
	}
	skb_reset_network_header(skb);
	eth = skb_push(skb, ETH_HLEN);
	ether_addr_copy(eth->h_dest, dst);
	ether_addr_copy(eth->h_source, src);
	eth->h_proto = proto;
	skb->protocol = eth_type_trans(skb, dev->ndev);
	skb_reset_mac_len(skb);
	return true;
}

/**
 * eipoib_to_guests - give a frame to whoever is above the Ethernet interface
 * @dev: interface
 * @skb: what eipoib_frame() made
 *
 * With BHs disabled.
 */
void eipoib_to_guests(struct eipoib_dev *dev, struct sk_buff *skb)
{
	if (!netif_running(dev->ndev)) {
		kfree_skb(skb);
		return;
	}
	dev_sw_netstats_rx_add(dev->ndev, skb->len + ETH_HLEN);
	netif_rx(skb);
}

/*
 * The host gets a packet of a guest as if the lower interface had received it,
 * with a mark where IPoIB has the header of a received packet.
 */
void eipoib_to_host(struct eipoib_dev *dev, struct sk_buff *skb, __be16 proto,
		    u8 pkt_type)
{
	struct net_device *lower = dev->lower;
	__be16 *encap;
	u8 *header;

	/* The stack drops what comes in while the interface is set down. */
	if (!(data_race(lower->flags) & IFF_UP)) {
		kfree_skb(skb);
		return;
	}
	/* First: of a socket's packet, a head that grows is not accounted for. */
	eipoib_scrub(skb);
	if (skb_cow_head(skb, EIPOIB_HARD_LEN)) {
		eipoib_drop(dev, skb, EIPOIB_C_NOMEM);
		return;
	}
	eipoib_count(dev, EIPOIB_C_TX_HOST);
	skb_reset_network_header(skb);
	header = skb_push(skb, EIPOIB_HARD_LEN);
	memcpy(header, eipoib_mark, INFINIBAND_ALEN);
	encap = (__be16 *)(header + INFINIBAND_ALEN);
	encap[0] = proto;
	encap[1] = 0;
	skb_reset_mac_header(skb);
	skb_pull(skb, EIPOIB_HARD_LEN);
	skb_reset_mac_len(skb);
	skb->dev = lower;
	skb->protocol = proto;
	skb->pkt_type = pkt_type;
	netif_rx(skb);
}

/**
 * eipoib_from_here - did eipoib_to_host() make this packet?
 * @skb: what its lower interface receives
 * Return: false for packets of the fabric, before which IPoIB has zeros
 */
bool eipoib_from_here(const struct sk_buff *skb)
{
	return skb_mac_header_was_set(skb) &&
	       skb->data - skb_mac_header(skb) == EIPOIB_HARD_LEN &&
	       !memcmp(skb_mac_header(skb), eipoib_mark, INFINIBAND_ALEN);
}

/**
 * eipoib_wait_add - keep a packet until something is known
 * @dev: interface, locked
 * @queue: where
 * @skb: packet
 * @which: what is counted if it, or the oldest one in its favour, is dropped
 */
void eipoib_wait_add(struct eipoib_dev *dev, struct sk_buff_head *queue,
		     struct sk_buff *skb, enum eipoib_count which)
{
	struct sk_buff *old;

	lockdep_assert_held(&dev->lock);
	if (skb_queue_len(queue) >= EIPOIB_WAITING) {
		old = __skb_dequeue(queue);
		dev->waiting -= old->truesize;
		eipoib_drop(dev, old, which);
	}
	if (dev->waiting + skb->truesize > EIPOIB_WAITING_BYTES) {
		eipoib_drop(dev, skb, which);
		return;
	}
	dev->waiting += skb->truesize;
	__skb_queue_tail(queue, skb);
}

/* Move what waits to another list, which is nobody's but the caller's. */
void eipoib_wait_take(struct eipoib_dev *dev, struct sk_buff_head *queue,
		      struct sk_buff_head *list)
{
	struct sk_buff *skb;

	lockdep_assert_held(&dev->lock);
	while ((skb = __skb_dequeue(queue))) {
		dev->waiting -= skb->truesize;
		__skb_queue_tail(list, skb);
	}
}

/* Drop and count what waits. */
void eipoib_wait_drop(struct eipoib_dev *dev, struct sk_buff_head *queue,
		      enum eipoib_count which)
{
	struct sk_buff *skb;

	lockdep_assert_held(&dev->lock);
	while ((skb = __skb_dequeue(queue))) {
		dev->waiting -= skb->truesize;
		eipoib_drop(dev, skb, which);
	}
}

void eipoib_batch_init(struct eipoib_batch *batch)
{
	__skb_queue_head_init(&batch->fabric);
	__skb_queue_head_init(&batch->guests);
	__skb_queue_head_init(&batch->host);
}

/**
 * eipoib_batch_host_too - the host gets a packet for the fabric, too
 * @batch: packets, the last one of those for the fabric
 * @count: what eipoib_batch_count() was before that; if it is the same there was
 *	no memory
 */
void eipoib_batch_host_too(struct eipoib_batch *batch, unsigned int count)
{
	struct sk_buff *copy = NULL;

	if (eipoib_batch_count(batch) != count)
		copy = skb_clone(skb_peek_tail(&batch->fabric), GFP_ATOMIC);
	if (!copy)
		return;
	skb_pull(copy, EIPOIB_HARD_LEN);
	__skb_queue_tail(&batch->host, copy);
}

/* Send what has been collected, and make the batch empty. */
void eipoib_batch_send(struct eipoib_dev *dev, struct eipoib_batch *batch)
{
	struct sk_buff *skb;

	local_bh_disable();
	while ((skb = __skb_dequeue(&batch->fabric)))
		eipoib_xmit_lower(dev, skb);
	while ((skb = __skb_dequeue(&batch->guests)))
		eipoib_to_guests(dev, skb);
	while ((skb = __skb_dequeue(&batch->host)))
		eipoib_to_host(dev, skb, skb->protocol, PACKET_BROADCAST);
	local_bh_enable();
}
