// SPDX-License-Identifier: GPL-2.0-only
/*
 * rtnetlink, generic netlink, and the ioctls of ethtool
 */
#include <err.h>
#include <linux/eipoib.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/net_tstamp.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent.h"

#define MESSAGE_MAX	4096
#define ATTRS_DEPTH	3
/* In the type of an attribute: its data are attributes. */
#define ATTR_NEST	0x80
/* Of all links that inputs make */
#define LINK_GROUP	77

static int route_fd, genl_fd, ioctl_fd;
static unsigned int links_cleaned;
static u16 families[4];
static const char * const family_names[] = {
	"ipoib", "eipoib", "ethtool", "nlctrl"
};

/**
 * struct message - a request being made
 * @head: its header
 * @bytes: all of it
 */
struct message {
	union {
		struct nlmsghdr head;
		u8 bytes[MESSAGE_MAX];
	};
};

static void *add(struct message *m, const void *data, size_t len)
{
	size_t at = NLMSG_ALIGN(m->head.nlmsg_len);

	if (at + NLMSG_ALIGN(len) > sizeof(m->bytes))
		return NULL;
	memset(m->bytes + at, 0, NLMSG_ALIGN(len));
	if (data)
		memcpy(m->bytes + at, data, len);
	m->head.nlmsg_len = at + len;
	return m->bytes + at;
}

static struct nlattr *add_attr(struct message *m, u16 type, const void *data,
			       size_t len)
{
	struct nlattr attr = { .nla_len = NLA_HDRLEN + len, .nla_type = type };
	struct nlattr *there = add(m, &attr, sizeof(attr));

	if (there && len && !add(m, data, len))
		there->nla_len = NLA_HDRLEN;
	return there;
}

static void end_nest(struct message *m, struct nlattr *nest)
{
	if (nest)
		nest->nla_len = m->bytes + NLMSG_ALIGN(m->head.nlmsg_len) -
				(u8 *)nest;
}

static void add_text(struct message *m, u16 type, const char *text)
{
	add_attr(m, type, text, strlen(text) + 1);
}

/* type, length, data; and again.  What @r has left is theirs. */
static void add_attrs(struct message *m, struct reader *r, int depth)
{
	while (r->left >= 2) {
		u8 type = take8(r), data[256];
		size_t len = take(r, data, take8(r));
		struct reader inner = { .pos = data, .left = len };
		struct nlattr *nest;

		if (!(type & ATTR_NEST) || depth == ATTRS_DEPTH) {
			add_attr(m, type, data, len);
			continue;
		}
		nest = add_attr(m, (type & ~ATTR_NEST) | NLA_F_NESTED, NULL, 0);
		add_attrs(m, &inner, depth + 1);
		end_nest(m, nest);
	}
}

static void begin(struct message *m, u16 type, u16 flags)
{
	memset(&m->head, 0, sizeof(m->head));
	m->head.nlmsg_len = NLMSG_HDRLEN;
	m->head.nlmsg_type = type;
	m->head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
}

static void drain(int fd)
{
	char buffer[16384];

	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		;
}

static void ask(int fd, const struct message *m)
{
	if (send(fd, m, m->head.nlmsg_len, 0) < 0)
		return;
	drain(fd);
}

/* ---- what is taken back ------------------------------------------------- */

/**
 * struct undo - a request that takes back what an input has done
 * @fd: whom to send it to
 * @m: the request
 */
struct undo {
	int fd;
	struct message m;
};

static struct undo undos[CALLS_MAX];
static unsigned int undos_n;

/* @m, with another type, when the input is over */
static void undo_later(int fd, const struct message *m, u16 type)
{
	struct undo *undo = &undos[undos_n];

	if (undos_n == ARRAY_SIZE(undos))
		return;
	undos_n++;
	undo->fd = fd;
	memcpy(&undo->m, m, m->head.nlmsg_len);
	undo->m.head.nlmsg_type = type;
	undo->m.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
}

static void undo_all(void)
{
	while (undos_n) {
		undos_n--;
		ask(undos[undos_n].fd, &undos[undos_n].m);
	}
}

/* ---- links -------------------------------------------------------------- */

static void add_info(struct message *m, const char *kind, struct reader *r)
{
	struct nlattr *info = add_attr(m, IFLA_LINKINFO, NULL, 0), *data;

	add_text(m, IFLA_INFO_KIND, kind);
	data = add_attr(m, IFLA_INFO_DATA, NULL, 0);
	add_attrs(m, r, 0);
	end_nest(m, data);
	end_nest(m, info);
}

static void add_ifinfo(struct message *m, const char *name, bool up, bool change)
{
	struct ifinfomsg info = {
		.ifi_index = name ? scene_index(name) : 0,
		.ifi_flags = up ? IFF_UP : 0,
		.ifi_change = change ? IFF_UP : 0,
	};

	add(m, &info, sizeof(info));
}

/* What a new link may be given, by bits of the variant */
enum {
	NEW_ADDRESS	= 1 << 4,
	NEW_MTU		= 1 << 5,
	NEW_TXQS	= 1 << 6,
	NEW_MASTER	= 1 << 7,
};

/* All of it is valid until the data change it. */
static void add_new(struct message *m, u8 which, bool ether, struct reader *r)
{
	static const u8 mac[ETHER_LEN] = { 0x02, 0, 0, 0, 0, 0x06 };
	size_t len = ether ? sizeof(mac) : LLADDR_LEN;
	u8 lladdr[LLADDR_LEN];
	u32 value;

	if (which & NEW_ADDRESS) {
		memcpy(lladdr, ether ? mac : scene_ports[0].lladdr, len);
		take_patches(r, lladdr, len);
		add_attr(m, IFLA_ADDRESS, lladdr, len);
	}
	if (which & NEW_MTU) {
		value = 1500 ^ take16(r);
		add_attr(m, IFLA_MTU, &value, sizeof(value));
	}
	if (which & NEW_TXQS) {
		value = 2 ^ take8(r);
		add_attr(m, IFLA_NUM_TX_QUEUES, &value, sizeof(value));
	}
	if (which & NEW_MASTER) {
		value = scene_index(scene_name(SCENE_BRIDGE + take8(r)));
		add_attr(m, IFLA_MASTER, &value, sizeof(value));
	}
}

static void make_link(bool ether, u8 variant, struct reader *r)
{
	/* There is a link of the kind "eipoib" on ib0, and more there can't be. */
	u8 below = take8(r) + (ether ? SCENE_CHILD : 0), name = take8(r);
	u32 index = scene_index(scene_name(below)), group = LINK_GROUP;
	char text[IFNAMSIZ];
	struct message m;

	snprintf(text, sizeof(text), "fz%u", name % 4);
	begin(&m, RTM_NEWLINK, NLM_F_CREATE | (name & 0x80 ? 0 : NLM_F_EXCL));
	add_ifinfo(&m, NULL, name & 0x40, name & 0x40);
	if (!(name & 0x20))
		add_attr(&m, IFLA_LINK, &index, sizeof(index));
	add_text(&m, IFLA_IFNAME, text);
	if (name & 0x10)
		group = take8(r);
	add_attr(&m, IFLA_GROUP, &group, sizeof(group));
	add_new(&m, variant, ether, r);
	add_info(&m, ether ? "eipoib" : "ipoib", r);
	ask(route_fd, &m);
}

static void change_link(struct reader *r)
{
	u8 name = take8(r);
	struct message m;

	begin(&m, RTM_NEWLINK, 0);
	add_ifinfo(&m, scene_name(name), false, false);
	add_info(&m, name & 0x80 ? "eipoib" : "ipoib", r);
	ask(route_fd, &m);
}

static void set_link(struct reader *r)
{
	u8 name = take8(r);
	struct message m;

	begin(&m, RTM_SETLINK, 0);
	add_ifinfo(&m, scene_name(name), name & 0x40, name & 0x80);
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
}

/* Those that inputs make; seldom what the scene has, which has to be made again */
static void delete_link(struct reader *r)
{
	static const char * const of_scene[] = {
		"ib0", "eib0", "ib0.8001", "g0", "br0"
	};
	u8 name = take8(r);
	char text[IFNAMSIZ];
	struct message m;

	snprintf(text, sizeof(text), "fz%u", name % 4);
	begin(&m, RTM_DELLINK, 0);
	add_ifinfo(&m, name < 0xe0 ? text : of_scene[name % ARRAY_SIZE(of_scene)],
		   false, false);
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
}

static void get_link(struct reader *r)
{
	u8 name = take8(r);
	struct message m;

	begin(&m, RTM_GETLINK, name & 0x80 ? NLM_F_DUMP : 0);
	add_ifinfo(&m, name & 0x80 ? NULL : scene_name(name), false, false);
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
}

/* A neighbour, of which the stack is told without asking */
static void new_neigh(struct reader *r)
{
	u8 name = take8(r), host = take8(r), lladdr[32];
	u32 address = __builtin_bswap32(0x0a000000 | host);
	struct ndmsg nd = {
		.ndm_family = AF_INET,
		.ndm_ifindex = scene_index(scene_name(name)),
		.ndm_state = NUD_REACHABLE,
	};
	struct message m;

	memcpy(lladdr, ghost_lladdr, LLADDR_LEN);
	take_patches(r, lladdr, LLADDR_LEN);
	begin(&m, name & 0x80 ? RTM_DELNEIGH : RTM_NEWNEIGH,
	      NLM_F_CREATE | NLM_F_REPLACE);
	add(&m, &nd, sizeof(nd));
	add_attr(&m, NDA_DST, &address, sizeof(address));
	add_attr(&m, NDA_LLADDR, lladdr, name & 0x40 ? 6 : LLADDR_LEN);
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
	undo_later(route_fd, &m, RTM_DELNEIGH);
}

static void new_addr(struct reader *r)
{
	u8 name = take8(r);
	u32 address = __builtin_bswap32(0x0a050000 | take8(r));
	struct ifaddrmsg addr = {
		.ifa_family = AF_INET,
		.ifa_prefixlen = 16,
		.ifa_index = scene_index(scene_name(name)),
	};
	struct message m;

	begin(&m, name & 0x80 ? RTM_DELADDR : RTM_NEWADDR, NLM_F_CREATE);
	add(&m, &addr, sizeof(addr));
	add_attr(&m, IFA_LOCAL, &address, sizeof(address));
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
	undo_later(route_fd, &m, RTM_DELADDR);
}

/* A forwarding entry, or groups of a bridge's port */
static void new_fdb(struct reader *r)
{
	u8 name = take8(r), lladdr[LLADDR_LEN];
	struct ndmsg nd = {
		.ndm_family = AF_BRIDGE,
		.ndm_ifindex = scene_index(scene_name(name)),
		.ndm_state = NUD_PERMANENT,
		.ndm_flags = NTF_SELF,
	};
	struct message m;

	memcpy(lladdr, ghost_lladdr, LLADDR_LEN);
	take_patches(r, lladdr, LLADDR_LEN);
	begin(&m, name & 0x80 ? RTM_DELNEIGH : RTM_NEWNEIGH, NLM_F_CREATE);
	add(&m, &nd, sizeof(nd));
	add_attr(&m, NDA_LLADDR, lladdr, name & 0x40 ? LLADDR_LEN : 6);
	add_attrs(&m, r, 0);
	ask(route_fd, &m);
	undo_later(route_fd, &m, RTM_DELNEIGH);
}

/* A request of the link family that is not made by any rule */
static void raw_link(struct reader *r)
{
	u8 name = take8(r), type = take8(r), body[64];
	struct message m;
	size_t len;

	len = take(r, body, 16);
	begin(&m, RTM_NEWLINK + type % 4, name & 0x80 ? NLM_F_CREATE : 0);
	add_ifinfo(&m, scene_name(name), false, false);
	add(&m, body, len);
	add_attrs(&m, r, 0);
	/* The end of the world is not far: delete_link() does it, seldom. */
	if (m.head.nlmsg_type == RTM_DELLINK)
		return;
	ask(route_fd, &m);
}

/**
 * link_call - a request to rtnetlink
 * @call: the variant chooses it, and with its upper bits what a new link is given;
 *	data: choices of a byte each, attributes
 */
void link_call(const struct call *call)
{
	struct reader r = reader_of(call);

	switch (call->variant % 16) {
	/* Links are seldom made: that takes far longer than all else. */
	case 0:
		return make_link(false, call->variant, &r);
	case 1:
		return make_link(true, call->variant, &r);
	case 2 ... 5:
		return change_link(&r);
	case 6 ... 8:
		return set_link(&r);
	case 9:
		return delete_link(&r);
	case 10:
		return get_link(&r);
	case 11 ... 12:
		return new_neigh(&r);
	case 13:
		return new_addr(&r);
	case 14:
		return new_fdb(&r);
	default:
		return raw_link(&r);
	}
}

/* ---- generic netlink ---------------------------------------------------- */

static u16 family_id(const char *name)
{
	struct genlmsghdr head = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	struct message m;
	struct nlattr *attr;
	ssize_t len;
	u8 *pos;

	begin(&m, GENL_ID_CTRL, 0);
	m.head.nlmsg_flags &= ~NLM_F_ACK;
	add(&m, &head, sizeof(head));
	add_text(&m, CTRL_ATTR_FAMILY_NAME, name);
	if (send(genl_fd, &m, m.head.nlmsg_len, 0) < 0)
		return 0;
	len = recv(genl_fd, &m, sizeof(m), 0);
	pos = m.bytes + NLMSG_HDRLEN + GENL_HDRLEN;
	if (len < (ssize_t)(NLMSG_HDRLEN + GENL_HDRLEN) ||
	    m.head.nlmsg_type != GENL_ID_CTRL)
		return 0;
	while (pos + sizeof(*attr) <= m.bytes + len) {
		attr = (struct nlattr *)pos;
		if (attr->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(u16 *)(attr + 1);
		pos += NLA_ALIGN(attr->nla_len);
	}
	return 0;
}

/* Their numbers are others when the modules have been loaded again. */
void families_read(void)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(families); n++)
		families[n] = family_id(family_names[n]);
}

/* A guest's address, and the guest */
static void add_guest(struct message *m)
{
	static const u8 address[4] = { 10, 0, 0, 5 };
	static const u8 mac[ETHER_LEN] = { 0x02, 0, 0, 0, 0, 0x05 };

	add_attr(m, EIPOIB_A_GUEST_ADDRESS, address, sizeof(address));
	add_attr(m, EIPOIB_A_GUEST_MAC, mac, sizeof(mac));
}

/**
 * genl_call - a request to a family
 * @call: variant: the family in the upper two bits, and the command; data:
 *	flags (1: dump, 2: no device, 4: no guest), a name, attributes
 */
void genl_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u8 flags = take8(&r), name = take8(&r);
	unsigned int family = call->variant >> 6;
	struct genlmsghdr head = { .cmd = call->variant & 63, .version = 1 };
	/* Without a name each family has an interface of its own kind. */
	u32 index = scene_index(scene_name(name + (family == 1 ? SCENE_ETHER : 0)));
	bool guest = family == 1 && (head.cmd == EIPOIB_CMD_GUEST_NEW ||
				     head.cmd == EIPOIB_CMD_GUEST_DEL);
	struct nlattr *nest;
	struct message m;

	begin(&m, families[family], flags & 1 ? NLM_F_DUMP : 0);
	add(&m, &head, sizeof(head));
	if (family == 2) {
		nest = add_attr(&m, 1 | NLA_F_NESTED, NULL, 0);
		if (!(flags & 2))
			add_attr(&m, 1, &index, sizeof(index));
		end_nest(&m, nest);
	} else if (!(flags & 2)) {
		add_attr(&m, 1, &index, sizeof(index));
	}
	/* Of two of a type the last one counts. */
	if (guest && !(flags & 4))
		add_guest(&m);
	add_attrs(&m, &r, 0);
	ask(genl_fd, &m);
	if (!guest)
		return;
	((struct genlmsghdr *)(m.bytes + NLMSG_HDRLEN))->cmd = EIPOIB_CMD_GUEST_DEL;
	undo_later(genl_fd, &m, families[family]);
}

/* ---- ioctl -------------------------------------------------------------- */

/**
 * union ethtool_data - what ethtool's ioctl reads and writes
 * @cmd: the command
 * @bytes: of the longest answer, which is as long as the driver wants
 */
union ethtool_data {
	u32 cmd;
	u8 bytes[65536];
};

/**
 * struct setting - a command that sets something, and what it is
 * @get: the command that reads it
 * @set: that sets it, from the same structure
 * @len: its length
 */
struct setting {
	u32 get;
	u32 set;
	size_t len;
};

static const struct setting settings[] = {
	{ ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS, sizeof(struct ethtool_channels) },
	{ ETHTOOL_GRINGPARAM, ETHTOOL_SRINGPARAM, sizeof(struct ethtool_ringparam) },
	{ ETHTOOL_GCOALESCE, ETHTOOL_SCOALESCE, sizeof(struct ethtool_coalesce) },
	{ ETHTOOL_GPFLAGS, ETHTOOL_SPFLAGS, sizeof(struct ethtool_value) },
};

#define SETTING_MAX	128

/* Interfaces whose settings are what they were when an input is over */
static const char * const set_names[] = { "ib0", "ib0.8001" };
static u8 settings_before[ARRAY_SIZE(set_names)][ARRAY_SIZE(settings)][SETTING_MAX];

static bool ethtool(const char *name, union ethtool_data *data)
{
	struct ifreq ifr = { .ifr_data = (char *)data };

	strcpy(ifr.ifr_name, name);
	return !ioctl(ioctl_fd, SIOCETHTOOL, &ifr);
}

/* Length of what is read; 0 if there is no such setting */
static size_t setting_read(const char *name, const struct setting *s,
			   union ethtool_data *data)
{
	memset(data, 0, s->len);
	data->cmd = s->get;
	if (!ethtool(name, data))
		return 0;
	data->cmd = s->set;
	return s->len;
}

static void settings_read(void)
{
	static union ethtool_data data;
	size_t i, n, len;

	for (i = 0; i < ARRAY_SIZE(set_names); i++)
		for (n = 0; n < ARRAY_SIZE(settings); n++) {
			len = setting_read(set_names[i], &settings[n], &data);
			memcpy(settings_before[i][n], &data, MIN(len, SETTING_MAX));
		}
}

static void settings_undo(void)
{
	static union ethtool_data data;
	size_t i, n, len;
	u8 *before;

	for (i = 0; i < ARRAY_SIZE(set_names); i++)
		for (n = 0; n < ARRAY_SIZE(settings); n++) {
			before = settings_before[i][n];
			len = setting_read(set_names[i], &settings[n], &data);
			if (!len || !memcmp(before, &data, len))
				continue;
			memcpy(&data, before, len);
			ethtool(set_names[i], &data);
		}
}

/* Groups that an input has joined */
static struct ifreq joined[CALLS_MAX];
static unsigned int joined_n;

static void groups_leave(void)
{
	while (joined_n)
		ioctl(ioctl_fd, SIOCDELMULTI, &joined[--joined_n]);
}

/* What is taken changes what is there. */
static void take_changes(struct reader *r, u8 *to, size_t len)
{
	while (r->left && len--)
		*to++ ^= take8(r);
}

/* Another ioctl of an interface, with what it has until the data change it */
static void other_ioctl(const char *name, u8 which, struct reader *r)
{
	static const struct {
		unsigned long set;
		unsigned long get;
	} others[] = {
		{ SIOCSHWTSTAMP, 0 }, { SIOCGHWTSTAMP, 0 },
		{ SIOCSIFMTU, SIOCGIFMTU }, { SIOCSIFHWADDR, SIOCGIFHWADDR },
		{ SIOCSIFTXQLEN, SIOCGIFTXQLEN },
		{ SIOCADDMULTI, 0 }, { SIOCDELMULTI, 0 }, { SIOCDEVPRIVATE, 0 },
	};
	static union ethtool_data data;
	struct ifreq ifr = { };

	strcpy(ifr.ifr_name, name);
	which %= ARRAY_SIZE(others);
	if (which < 2 || others[which].set == SIOCDEVPRIVATE) {
		memset(&data, 0, sizeof(data));
		take(r, &data, sizeof(data));
		ifr.ifr_data = (char *)&data;
	} else {
		if (others[which].get)
			ioctl(ioctl_fd, others[which].get, &ifr);
		take_changes(r, (u8 *)&ifr.ifr_ifru, sizeof(ifr.ifr_ifru));
	}
	if (!ioctl(ioctl_fd, others[which].set, &ifr) &&
	    others[which].set == SIOCADDMULTI && joined_n < ARRAY_SIZE(joined))
		joined[joined_n++] = ifr;
}

/**
 * ethtool_call - ethtool's ioctl
 * @call: the variant is the command, from 0x80 on another ioctl; data: a name,
 *	and changes of the structure behind the command, which is 0 or what is set
 */
void ethtool_call(const struct call *call)
{
	static union ethtool_data data;
	struct reader r = reader_of(call);
	const char *name = scene_name(take8(&r));
	size_t n;

	if (call->variant & 0x80)
		return other_ioctl(name, call->variant, &r);
	memset(&data, 0, sizeof(data));
	for (n = 0; n < ARRAY_SIZE(settings); n++)
		if (settings[n].set == call->variant)
			setting_read(name, &settings[n], &data);
	data.cmd = call->variant;
	take_changes(&r, data.bytes + sizeof(data.cmd), CALL_DATA_MAX);
	ethtool(name, &data);
}

/* ---- afterwards --------------------------------------------------------- */

/* Of the links that inputs make: are any there?  Those that are may be deleted. */
static bool links_there(bool delete)
{
	char name[IFNAMSIZ];
	bool there = false;
	struct message m;
	int n;

	for (n = 0; n < 4; n++) {
		snprintf(name, sizeof(name), "fz%d", n);
		if (!scene_index(name))
			continue;
		there = true;
		if (!delete)
			continue;
		begin(&m, RTM_DELLINK, 0);
		add_ifinfo(&m, name, false, false);
		ask(route_fd, &m);
	}
	return there;
}

/*
 * What inputs made goes with them: all at once, since the kernel waits for RCU
 * each time; but those that are in another group.
 */
void links_clean(void)
{
	u32 group = LINK_GROUP;
	struct message m;
	bool there;

	undo_all();
	groups_leave();
	settings_undo();
	there = links_there(false);
	/* Those that were renamed go later. */
	if (!there && links_cleaned++ % 32)
		return;
	begin(&m, RTM_DELLINK, 0);
	add_ifinfo(&m, NULL, false, false);
	add_attr(&m, IFLA_GROUP, &group, sizeof(group));
	ask(route_fd, &m);
	if (there)
		links_there(true);
}

void netlink_open(void)
{
	unsigned int n;

	route_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	genl_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	ioctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (route_fd < 0 || genl_fd < 0 || ioctl_fd < 0)
		err(2, "socket");
	families_read();
	for (n = 0; n < ARRAY_SIZE(families); n++)
		if (!families[n])
			errx(2, "no family %s", family_names[n]);
	settings_read();
}
