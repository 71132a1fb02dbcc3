// SPDX-License-Identifier: GPL-2.0-only
/*
 * ip(8): links of the kind "eipoib"
 *
 * A plug-in, which ip(8) looks for in its directory for libraries, or in
 * $IP_LIB_DIR.
 */
#include <linux/eth_ipoib.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* ---- settings ------------------------------------------------------------ */

static void eipoib_help(struct link_util *lu, int argc, char **argv, FILE *f)
{
	(void)lu;
	(void)argc;
	(void)argv;
	fprintf(f,
		"Usage: ... eipoib [ guard { on | off } ] [ max_guests NUMBER ]\n"
		"\n"
		"guard        guests can't take addresses of others (default: on)\n"
		"max_guests   most addresses of guests (default: 1024)\n");
}

static __u8 eipoib_on_off(const char *word)
{
	if (!strcmp(word, "on"))
		return 1;
	if (strcmp(word, "off"))
		invarg("is neither \"on\" nor \"off\"", word);
	return 0;
}

static __u32 eipoib_number(const char *word)
{
	unsigned long value;
	char *end;

	value = strtoul(word, &end, 0);
	if (!*word || *word == '-' || *end || value > 0xffffffff)
		invarg("is not a number for \"max_guests\"", word);
	return value;
}

static int eipoib_parse(struct link_util *lu, int argc, char **argv,
			struct nlmsghdr *n)
{
	const char *key, *word;
	bool seen[IFLA_EIPOIB_MAX + 1] = {};
	int attr;

	while (argc > 0) {
		key = argv[0];
		if (!strcmp(key, "guard")) {
			attr = IFLA_EIPOIB_GUARD;
		} else if (!strcmp(key, "max_guests")) {
			attr = IFLA_EIPOIB_MAX_GUESTS;
		} else {
			if (strcmp(key, "help"))
				fprintf(stderr, "%s: unknown option \"%s\"?\n",
					lu->id, key);
			eipoib_help(lu, argc, argv, stderr);
			return -1;
		}
		if (argc < 2)
			missarg(key);
		word = argv[1];
		if (seen[attr])
			duparg(key, word);
		seen[attr] = true;
		if (attr == IFLA_EIPOIB_GUARD)
			addattr8(n, REQUEST_SIZE, attr, eipoib_on_off(word));
		else
			addattr32(n, REQUEST_SIZE, attr, eipoib_number(word));
		argc -= 2;
		argv += 2;
	}
	return 0;
}

static void eipoib_print(struct link_util *lu, FILE *f, struct rtattr *tb[])
{
	bool json = is_json_context();
	__u32 value;
	bool guard;

	(void)lu;
	if (!tb)
		return;
	if (tb[IFLA_EIPOIB_GUARD] &&
	    RTA_PAYLOAD(tb[IFLA_EIPOIB_GUARD]) >= sizeof(__u8)) {
		guard = *(__u8 *)RTA_DATA(tb[IFLA_EIPOIB_GUARD]);
		if (json)
			print_color_bool(PRINT_JSON, 0, "guard", NULL, guard);
		else
			fprintf(f, "guard %s ", guard ? "on" : "off");
	}
	if (tb[IFLA_EIPOIB_MAX_GUESTS] &&
	    RTA_PAYLOAD(tb[IFLA_EIPOIB_MAX_GUESTS]) >= sizeof(__u32)) {
		value = *(__u32 *)RTA_DATA(tb[IFLA_EIPOIB_MAX_GUESTS]);
		if (json)
			print_color_uint(PRINT_JSON, 0, "max_guests", NULL,
					 value);
		else
			fprintf(f, "max_guests %u ", value);
	}
}

/* ip(8) looks for this name. */
struct link_util eipoib_link_util = {
	.id		= "eipoib",
	.maxattr	= IFLA_EIPOIB_MAX,
	.parse_opt	= eipoib_parse,
	.print_opt	= eipoib_print,
	.print_help	= eipoib_help,
};
