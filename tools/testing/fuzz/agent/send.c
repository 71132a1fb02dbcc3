// SPDX-License-Identifier: GPL-2.0-only
/*
 * What programs and guests send on interfaces: raw packets with offloads asked for,
 * datagrams and streams
 */
#include <arpa/inet.h>
#include <err.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent.h"

#define PAYLOAD_MAX	65000
#define FRAME_MAX	(sizeof(struct virtio_net_hdr) + 65536)

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif

static int raw_fd, offload_fd, cooked_fd;
static u8 frame[FRAME_MAX];

/* g0's, and what guests take for that of 10.0.0.2 */
static const u8 guest_mac[ETH_ALEN] = { 0x02, 0, 0, 0, 0, 0x05 };
static const u8 peer_mac_2[ETH_ALEN] = { 0xee, 0x1b, 10, 0, 0, 2 };

void send_open(void)
{
	int one = 1;

	raw_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	offload_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	cooked_fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (raw_fd < 0 || offload_fd < 0 || cooked_fd < 0)
		err(2, "packet socket");
	if (setsockopt(offload_fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)))
		err(2, "PACKET_VNET_HDR");
}

/*
 * The MAC that eth_ipoib has for a peer: of an IPv4 address, of the hash of an IPv6
 * address, fd00::1 or fd00::2; see eth_ipoib/eipoib_addr.c
 */
static void peer_mac(u8 *mac, u8 second, u32 value)
{
	mac[0] = 0xee;
	mac[1] = second;
	mac[2] = value >> 24;
	mac[3] = value >> 16;
	mac[4] = value >> 8;
	mac[5] = value;
}

static void peer_mac6(u8 *mac, const u8 *ip)
{
	peer_mac(mac, 0x6b, ip[15] == 1 ? 0xb6f97fa7 : 0xab13d07e);
}

static void group_mac(u8 *mac, u8 first, u8 second, const u8 *last)
{
	mac[0] = first;
	mac[1] = second;
	memcpy(mac + 2, last, 4);
}

/* Where a guest sends a packet to, which begins with its Ethertype */
static void guest_dest(u8 *mac, const u8 *payload, size_t len)
{
	static const u8 first[4] = { 10, 0, 0, 2 };
	u16 proto = payload[0] << 8 | payload[1];
	const u8 *ip = payload + 4, *dst = first;

	if (proto == ETH_P_IPV6 && len >= 4 + 40) {
		if (ip[24] == 0xff)
			group_mac(mac, 0x33, 0x33, ip + 36);
		else
			peer_mac6(mac, ip + 24);
		return;
	}
	memset(mac, 0xff, ETH_ALEN);
	if (proto == ETH_P_ARP && len >= 4 + 28)
		dst = ip + 24;
	else if (proto == ETH_P_IP && len >= 4 + 20)
		dst = ip + 16;
	if (proto == ETH_P_RARP || (proto == ETH_P_ARP && ip[7] == 1) ||
	    !memcmp(dst, mac, 4))
		return;
	if ((dst[0] & 0xf0) == 0xe0) {
		group_mac(mac, 0x01, 0x00, dst);
		mac[2] = 0x5e;
		mac[3] &= 0x7f;
		return;
	}
	peer_mac(mac, 0x1b, (u32)dst[0] << 24 | dst[1] << 16 | dst[2] << 8 | dst[3]);
}

/* Flags of a raw packet; those without a comment see put_header() */
enum {
	RAW_VNET	= 1 << 0,	/* ten bytes for PACKET_VNET_HDR follow */
	RAW_GHOST	= 1 << 1,
	RAW_TO_ALL	= 1 << 2,
	RAW_AS_GHOST	= 1 << 3,	/* from the address of nobody */
	RAW_ANSWER	= 1 << 4,
	RAW_TO_HOST	= 1 << 5,	/* a guest's, to this host */
	RAW_MORE	= 1 << 6,	/* two bytes follow, of how much more */
	RAW_OFFLOAD	= 1 << 7,	/* PACKET_VNET_HDR as it should be */
};

/* A frame's header: of Ethernet for a guest or a bridge, else IPoIB's */
static size_t put_header(u8 *to, bool ether, u8 flags, const u8 *payload, size_t len)
{
	if (!ether) {
		memcpy(to, flags & RAW_TO_ALL ? broadcast_lladdr :
		       flags & RAW_GHOST ? ghost_lladdr : scene_ports[1].lladdr,
		       LLADDR_LEN);
		return LLADDR_LEN;
	}
	if (flags & RAW_TO_ALL)
		memset(to, 0xff, ETH_ALEN);
	else if (flags & RAW_ANSWER)	/* to who asks guests for eth_ipoib */
		peer_mac(to, 0xab, 0);
	else if (flags & RAW_GHOST)
		peer_mac(to, 0x0b, 0);
	else
		guest_dest(to, payload, len);
	memcpy(to + ETH_ALEN, guest_mac, ETH_ALEN);
	return 2 * ETH_ALEN;
}

static struct stations stations_of(bool ether, bool ghost, bool to_host)
{
	return (struct stations){
		.ether = ether,
		.src = ether ? guest_mac : scene_ports[0].lladdr,
		.dst = ether ? peer_mac_2 : scene_ports[1].lladdr,
		.host = ghost ? 9 : ether ? 5 : 1,
		.target = ether && to_host ? 1 : 2,
	};
}

static void send_raw(const char *name, u8 variant, struct reader *r)
{
	u8 flags = take8(r), asked[sizeof(struct virtio_net_hdr)] = { }, *pos = frame;
	bool ether = scene_is_ether(name);
	struct stations s = stations_of(ether, flags & RAW_AS_GHOST,
					flags & RAW_TO_HOST);
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_ifindex = scene_index(name),
	};
	bool offload = flags & (RAW_VNET | RAW_OFFLOAD);
	u8 header_patches[17];
	struct reader patches = { .pos = header_patches };
	size_t header = ether ? 2 * ETH_ALEN : LLADDR_LEN, len, more = 0, n;
	struct virtio_net_hdr vnet = { };

	header_patches[0] = take8(r) % 4;
	patches.left = 1 + take(r, header_patches + 1, 2 * header_patches[0]);
	if (flags & RAW_VNET)
		take(r, asked, sizeof(asked));
	if (flags & RAW_MORE)
		more = take16(r);
	if (offload)
		pos += sizeof(vnet);
	len = payload_make(pos + header, PAYLOAD_MAX, variant, &s, r);
	put_header(pos, ether, flags, pos + header, len);
	if (flags & RAW_OFFLOAD)
		payload_offload(pos + header, len, header + (ether ? 2 : 4), &vnet);
	/* Ethernet's type is not followed by two bytes of nothing. */
	if (ether) {
		memmove(pos + header + 2, pos + header + 4, len - 4);
		len -= 2;
	}
	take_patches(&patches, pos, header + len);
	more = MIN(more, (size_t)(frame + sizeof(frame) - (pos + header + len)));
	memset(pos + header + len, 0x5a, more);
	len += more;
	if (offload) {
		memcpy(frame, &vnet, sizeof(vnet));
		for (n = 0; n < sizeof(asked); n++)
			frame[n] ^= asked[n];
	}
	to.sll_protocol = *(u16 *)(pos + header);
	sendto(offload ? offload_fd : raw_fd, frame, pos - frame + header + len,
	       MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

/* Without a header: the stack makes it from the address. */
static void send_cooked(const char *name, u8 variant, struct reader *r)
{
	u8 flags = take8(r);
	struct sockaddr_storage storage = { };
	struct sockaddr_ll *to = (struct sockaddr_ll *)&storage;
	bool ether = scene_is_ether(name);
	struct stations s = stations_of(ether, false, false);
	u8 halen = ether ? ETH_ALEN : LLADDR_LEN;
	size_t len;

	to->sll_family = AF_PACKET;
	to->sll_ifindex = scene_index(name);
	to->sll_halen = flags & 16 ? take8(r) % 33 : halen;
	memcpy(to->sll_addr, ether ? s.dst : flags & 2 ? ghost_lladdr : s.dst, halen);
	take_patches(r, to->sll_addr, LLADDR_LEN);
	len = payload_make(frame, PAYLOAD_MAX, variant, &s, r);
	to->sll_protocol = *(u16 *)frame;
	sendto(cooked_fd, frame + 4, len - 4, MSG_DONTWAIT, (struct sockaddr *)to,
	       offsetof(struct sockaddr_ll, sll_addr) + LLADDR_LEN);
}

/* There is no default route: groups are on ib0. */
static void to_groups(int fd, bool ipv6)
{
	struct ip_mreqn on = { .imr_ifindex = scene_index("ib0") };

	if (ipv6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &on.imr_ifindex,
			   sizeof(on.imr_ifindex));
	else
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &on, sizeof(on));
}

static void send_udp(struct reader *r)
{
	u8 flags = take8(r), host = take8(r);
	u16 len = take16(r), segment = take16(r);
	union {
		char bytes[CMSG_SPACE(sizeof(u16))];
		struct cmsghdr align;
	} control = { };
	struct iovec iov = { .iov_base = frame, .iov_len = len };
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(flags & 4 ? 0xe1000000 | host :
					 0x0a000000 | (flags & 8 ? host : 2)),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(9),
		.sin6_addr.s6_addr = { 0xfd, [15] = flags & 8 ? host : 2 },
	};
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	static const u8 group6[15] = { 0xff, 0x15 };
	int fd = socket(flags & 1 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	/* What calls before have left there is none of this one's. */
	memset(frame, 0x5a, len);
	if (flags & 4) {
		to_groups(fd, flags & 1);
		memcpy(&v6.sin6_addr, group6, sizeof(group6));
		v6.sin6_addr.s6_addr[15] = host;
	}
	if (flags & 1) {
		msg.msg_name = &v6;
		msg.msg_namelen = sizeof(v6);
	} else {
		msg.msg_name = &v4;
		msg.msg_namelen = sizeof(v4);
	}
	if (flags & 2) {
		struct cmsghdr *cmsg = &control.align;

		cmsg->cmsg_level = SOL_UDP;
		cmsg->cmsg_type = UDP_SEGMENT;
		cmsg->cmsg_len = CMSG_LEN(sizeof(u16));
		memcpy(CMSG_DATA(cmsg), &segment, sizeof(segment));
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
	}
	sendmsg(fd, &msg, MSG_DONTWAIT);
	close(fd);
}

/* The peer listens at port 5 and reads what comes. */
static void send_tcp(struct reader *r)
{
	u8 flags = take8(r);
	u16 len = take16(r);
	struct timeval limit = { .tv_usec = 20000 };
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(5),
		.sin_addr.s_addr = htonl(0x0a000002),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(5),
		.sin6_addr.s6_addr = { 0xfd, [15] = 2 },
	};
	bool ipv6 = flags & 1;
	int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	memset(frame, 0x5a, len);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, ipv6 ? (void *)&v6 : (void *)&v4,
		     ipv6 ? sizeof(v6) : sizeof(v4)))
		send(fd, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/**
 * send_call - a program sends
 * @call: the variant: the packet, see payload_make(); data: an interface (1: no
 *	header, 2: UDP, 3: TCP, in the upper two bits), flags, contents
 */
void send_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u8 name = take8(&r);

	switch (name >> 6) {
	case 0:
		return send_raw(scene_name(name & 63), call->variant, &r);
	case 1:
		return send_cooked(scene_name(name & 63), call->variant, &r);
	case 2:
		return send_udp(&r);
	default:
		return send_tcp(&r);
	}
}
