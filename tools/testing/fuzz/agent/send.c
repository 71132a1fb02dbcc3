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

#define FRAME_MAX	(sizeof(struct virtio_net_hdr) + 65536)

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif

static int raw_fd, offload_fd, cooked_fd;
static u8 frame[FRAME_MAX];

static const u8 guest_mac[ETH_ALEN] = { 0x02, 0, 0, 0, 0, 0x05 };

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

/* A frame's header: of Ethernet for a guest or a bridge, else IPoIB's. */
static size_t put_header(u8 *to, const char *name, u8 flags)
{
	if (strncmp(name, "ib", 2) && strncmp(name, "fz", 2)) {
		if (flags & 4)
			memset(to, 0xff, ETH_ALEN);
		else
			memcpy(to, "\x02\x00\x00\x00\x00\x01", ETH_ALEN);
		memcpy(to + ETH_ALEN, guest_mac, ETH_ALEN);
		return 2 * ETH_ALEN;
	}
	memcpy(to, flags & 2 ? ghost_lladdr : scene_ports[1].lladdr, LLADDR_LEN);
	return LLADDR_LEN;
}

static void send_raw(const char *name, u8 variant, struct reader *r)
{
	u8 flags = take8(r), *pos = frame;
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_ifindex = scene_index(name),
		.sll_halen = LLADDR_LEN,
	};
	u8 header_patches[17];
	struct reader patches = { .pos = header_patches };
	struct virtio_net_hdr vnet;
	size_t header, len;

	header_patches[0] = take8(r) % 4;
	patches.left = 1 + take(r, header_patches + 1, 2 * header_patches[0]);
	if (flags & 1) {
		memset(&vnet, 0, sizeof(vnet));
		take(r, &vnet, sizeof(vnet));
		memcpy(pos, &vnet, sizeof(vnet));
		pos += sizeof(vnet);
	}
	header = put_header(pos, name, flags);
	/* Ethernet's type is not followed by two bytes of nothing. */
	len = payload_make(pos + header, 4096, variant, guest_mac,
			   scene_ports[1].lladdr, flags & 8 ? 9 : 5, r);
	if (header == 2 * ETH_ALEN) {
		memmove(pos + header + 2, pos + header + 4, len - 4);
		len -= 2;
	}
	take_patches(&patches, pos, header + len);
	if (flags & 0x40) {
		size_t more = take16(r);

		if (pos + header + len + more > frame + sizeof(frame))
			more = frame + sizeof(frame) - pos - header - len;
		memset(pos + header + len, 0x5a, more);
		len += more;
	}
	to.sll_protocol = *(u16 *)(pos + header);
	sendto(flags & 1 ? offload_fd : raw_fd, frame, pos - frame + header + len,
	       MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

/* Without a header: the stack makes it from the address. */
static void send_cooked(const char *name, u8 variant, struct reader *r)
{
	u8 flags = take8(r);
	struct sockaddr_storage storage = { };
	struct sockaddr_ll *to = (struct sockaddr_ll *)&storage;
	size_t len;

	to->sll_family = AF_PACKET;
	to->sll_ifindex = scene_index(name);
	to->sll_halen = flags & 16 ? take8(r) % 33 : LLADDR_LEN;
	memcpy(to->sll_addr, flags & 2 ? ghost_lladdr : scene_ports[1].lladdr,
	       LLADDR_LEN);
	take_patches(r, to->sll_addr, LLADDR_LEN);
	len = payload_make(frame, 4096, variant, scene_ports[0].lladdr,
			   scene_ports[1].lladdr, 1, r);
	to->sll_protocol = *(u16 *)frame;
	sendto(cooked_fd, frame + 4, len - 4, MSG_DONTWAIT, (struct sockaddr *)to,
	       offsetof(struct sockaddr_ll, sll_addr) + LLADDR_LEN);
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
	int fd = socket(flags & 1 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
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
