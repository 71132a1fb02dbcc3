/* SPDX-License-Identifier: GPL-2.0-only */
/* Neighbour discovery, RFC 4861, for the unit tests in user space */
#ifndef UNIT_NET_NDISC_H
#define UNIT_NET_NDISC_H

#include <linux/icmpv6.h>
#include <linux/in6.h>

#define NDISC_ROUTER_SOLICITATION	133
#define NDISC_ROUTER_ADVERTISEMENT	134
#define NDISC_NEIGHBOUR_SOLICITATION	135
#define NDISC_NEIGHBOUR_ADVERTISEMENT	136
#define NDISC_REDIRECT			137
#define ND_OPT_SOURCE_LL_ADDR		1
#define ND_OPT_TARGET_LL_ADDR		2

struct nd_msg {
	struct icmp6hdr icmph;
	struct in6_addr target;
	__u8 opt[];
};

struct rs_msg {
	struct icmp6hdr icmph;
	__u8 opt[];
};

struct ra_msg {
	struct icmp6hdr icmph;
	__be32 reachable_time;
	__be32 retrans_timer;
};

struct rd_msg {
	struct icmp6hdr icmph;
	struct in6_addr target;
	struct in6_addr dest;
	__u8 opt[];
};

#endif /* UNIT_NET_NDISC_H */
