/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ip(8) has for its plug-ins
 *
 * iproute2 installs no headers for them.  What is declared here has been as it is
 * since 4.15.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdio.h>

/* A kind of links */
struct link_util {
	struct link_util *next;
	const char *id;
	int maxattr;
	int (*parse_opt)(struct link_util *lu, int argc, char **argv,
			 struct nlmsghdr *n);
	void (*print_opt)(struct link_util *lu, FILE *f, struct rtattr *tb[]);
	void (*print_xstats)(struct link_util *lu, FILE *f,
			     struct rtattr *xstats);
	void (*print_help)(struct link_util *lu, int argc, char **argv,
			   FILE *f);
	int (*parse_ifla_xstats)(struct link_util *lu, int argc, char **argv);
	int (*print_ifla_xstats)(struct nlmsghdr *n, void *arg);
};

#define PRINT_JSON	2	/* of enum output_type */
#define REQUEST_SIZE	1024	/* that a message may have at least */

int addattr8(struct nlmsghdr *n, int maxlen, int type, __u8 data);
int addattr32(struct nlmsghdr *n, int maxlen, int type, __u32 data);
bool is_json_context(void);
int print_color_bool(int type, int color, const char *key, const char *fmt,
		     bool value);
int print_color_uint(int type, int color, const char *key, const char *fmt,
		     unsigned int value);
_Noreturn void missarg(const char *key);
_Noreturn void invarg(const char *msg, const char *arg);
_Noreturn void duparg(const char *key, const char *arg);

#endif
