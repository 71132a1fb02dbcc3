// SPDX-License-Identifier: GPL-2.0-only
/*
 * What there is in the guest: ports, interfaces, their numbers
 *
 * The script "scene" beside this directory made it, and mends it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent.h"

#define DEBUGFS		"/sys/kernel/debug/ibdevsim"

struct scene_port scene_ports[PORTS];
static int ioctl_fd;

const u8 ghost_gid[16] = {
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x1b, 0xd5, 0, 0, 0x0f, 0x0f, 0x01
};

const u8 ghost_lladdr[LLADDR_LEN] = {
	0x80, 0x00, 0x12, 0x34,
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x1b, 0xd5, 0, 0, 0x0f, 0x0f, 0x01
};

const u8 broadcast_lladdr[LLADDR_LEN] = {
	0x00, 0xff, 0xff, 0xff,
	0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff
};

/*
 * Interfaces that there are, and names of those that calls make; see "scene".
 * ib1 is the peer's, in another network namespace.
 */
static const char * const scene_names[] = {
	"ib0", [SCENE_CHILD] = "ib0.8001", [SCENE_ETHER] = "eib0", "g0",
	"fz0", "fz1", "fz2", "fz3", [SCENE_BRIDGE] = "br0"
};

static const char * const scene_ifaces[PORTS] = {
	"/sys/class/net/ib0", "/run/fuzz/peer/class/net/ib1"
};

const char *scene_name(u8 n)
{
	return scene_names[n % ARRAY_SIZE(scene_names)];
}

unsigned int scene_index(const char *name)
{
	return if_nametoindex(name);
}

/* Is there such an interface, on Ethernet? */
bool scene_is_ether(const char *name)
{
	struct ifreq ifr = { };

	strcpy(ifr.ifr_name, name);
	return !ioctl(ioctl_fd, SIOCGIFHWADDR, &ifr) &&
	       ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER;
}

u32 lladdr_qpn(const u8 *lladdr)
{
	return lladdr[1] << 16 | lladdr[2] << 8 | lladdr[3];
}

/* Write to a file, with an error or without; false if it can't be opened. */
bool scene_write(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	if (write(fd, data, len) < 0)
		errno = 0;
	close(fd);
	return true;
}

void scene_text(const char *path, const char *text)
{
	scene_write(path, text, strlen(text));
}

/* The first line of a file */
bool scene_read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return false;
	len = read(fd, text, size - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	return true;
}

/* Hexadecimal digits with colons anywhere */
static bool parse_hex(const char *text, u8 *to, size_t len)
{
	size_t n = 0;

	while (*text && n < 2 * len) {
		char digit[2] = { *text++, 0 };

		if (digit[0] == ':')
			continue;
		to[n / 2] = to[n / 2] << 4 | strtoul(digit, NULL, 16);
		n++;
	}
	return n == 2 * len;
}

static bool read_port(unsigned int n)
{
	struct scene_port *port = &scene_ports[n];
	char path[128], text[128];
	u8 gid[16], lladdr[LLADDR_LEN];
	u16 lid;

	snprintf(path, sizeof(path), "/sys/class/infiniband/ibdevsim%u/ports/1/lid", n);
	if (!scene_read_text(path, text, sizeof(text)))
		return false;
	lid = strtoul(text, NULL, 16);
	snprintf(path, sizeof(path), "/sys/class/infiniband/ibdevsim%u/ports/1/sm_lid", n);
	if (!scene_read_text(path, text, sizeof(text)))
		return false;
	port->sm_lid = strtoul(text, NULL, 16);
	snprintf(path, sizeof(path), "/sys/class/infiniband/ibdevsim%u/ports/1/gids/0", n);
	if (!scene_read_text(path, text, sizeof(text)) ||
	    !parse_hex(text, gid, sizeof(gid)))
		return false;
	snprintf(path, sizeof(path), "%s/address", scene_ifaces[n]);
	if (!scene_read_text(path, text, sizeof(text)) ||
	    !parse_hex(text, lladdr, sizeof(lladdr)))
		return false;
	port->lid = lid;
	memcpy(port->gid, gid, sizeof(gid));
	memcpy(port->lladdr, lladdr, sizeof(lladdr));
	memcpy(port->child, lladdr, sizeof(lladdr));
	snprintf(path, sizeof(path), "%s.8001/address", scene_ifaces[n]);
	if (scene_read_text(path, text, sizeof(text)) &&
	    parse_hex(text, lladdr, sizeof(lladdr)))
		memcpy(port->child, lladdr, sizeof(lladdr));
	return true;
}

/* What may change: LIDs, addresses */
void scene_read(void)
{
	unsigned int n;

	for (n = 0; n < PORTS; n++)
		read_port(n);
}

/* Interfaces can carry packets. */
bool scene_healthy(void)
{
	static const char * const ifaces[] = {
		"/sys/class/net/ib0", "/sys/class/net/ib0.8001", "/sys/class/net/eib0",
		"/sys/class/net/g0", "/sys/class/net/br0",
		"/run/fuzz/peer/class/net/ib1",
	};
	static const char * const bridged[] = {
		"/sys/class/net/br0/brif/eib0", "/sys/class/net/br0/brif/g0b",
	};
	char path[128], text[32];
	size_t n;

	for (n = 0; n < ARRAY_SIZE(ifaces); n++) {
		snprintf(path, sizeof(path), "%s/carrier", ifaces[n]);
		if (!scene_read_text(path, text, sizeof(text)) || strcmp(text, "1"))
			return false;
	}
	for (n = 0; n < ARRAY_SIZE(bridged); n++)
		if (access(bridged[n], F_OK))
			return false;
	return true;
}

void scene_open(void)
{
	char path[128];
	unsigned int n;

	ioctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ioctl_fd < 0)
		err(2, "socket");
	for (n = 0; n < PORTS; n++) {
		snprintf(path, sizeof(path), DEBUGFS "/ibdevsim%u/port1/inject", n);
		scene_ports[n].inject = open(path, O_WRONLY | O_CLOEXEC);
		if (scene_ports[n].inject < 0)
			err(2, "%s", path);
		if (!read_port(n))
			errx(2, "port %u and its interface cannot be read", n);
	}
}
