// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of sysfs and debugfs: written and read
 *
 * The variant of a call chooses a file by a hash of its path, so that an input means
 * the same file when others come or go.
 */
#include <err.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"

#define FILES_MAX	512
#define TEXT_MAX	256

/**
 * struct file - a file that calls write or read
 * @path: its path
 * @before: what is in it; empty if that cannot be read
 * @hash: of the path
 * @written: by this input
 * @setting: others than this file set it, too
 */
struct file {
	char *path;
	char before[TEXT_MAX];
	u8 hash;
	bool written;
	bool setting;
};

/**
 * struct files - those of a kind, in the order of their hashes
 * @n: their number
 * @list: they themselves
 */
struct files {
	int n;
	struct file list[FILES_MAX];
};

static struct files writable, readable;

static const char * const roots[] = {
	"/sys/class/net/ib0/", "/sys/class/net/ib0.8001/", "/sys/class/net/eib0/",
	"/sys/module/ib_ipoib/parameters", "/sys/module/eth_ipoib/parameters",
	"/sys/module/ibdevsim/parameters", "/sys/kernel/debug/ibdevsim",
	"/sys/bus/ibdevsim", "/sys/kernel/debug/ipoib",
};

/*
 * What takes the scene itself away, which would have to be built again: HCAs,
 * switches and cables are made and removed by other tests.
 */
static const char * const left_alone[] = {
	"*/ibdevsim?/fatal", "*/set_prefix", "/sys/bus/*/unlink", "/sys/bus/*/link",
	"*/set_sys_guid", "*/drivers_autoprobe", "*/drivers_probe", "*/uevent",
	"*/new_switch", "*/del_switch", "*/del_device", "*/guids", "*/set_lid",
	"*/power/*", "*/bind", "*/unbind", "*/pcap", "*/mirror", "*/rx-*", "*/tx-*",
	"*/threaded", "*/calls", "*/ibdevsim2/*", "*/wedged*", "*/ifalias",
};

/* What netlink and ioctls change as well */
static const char * const set_elsewhere[] = {
	"*/net/*/mode", "*/net/*/mtu", "*/net/*/umcast", "*/net/*/tx_queue_len",
};

static bool matches(const char *path, const char * const *patterns, size_t n)
{
	while (n--)
		if (!fnmatch(patterns[n], path, 0))
			return true;
	return false;
}

static u8 hash_of(const char *path)
{
	u32 hash = 2166136261;

	while (*path)
		hash = (hash ^ (u8)*path++) * 16777619;
	return hash >> 24 ^ hash >> 16 ^ hash >> 8 ^ hash;
}

/* Up to TEXT_MAX - 1 bytes; none if that fails */
static void read_text(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t len;

	*text = 0;
	if (fd < 0)
		return;
	len = read(fd, text, TEXT_MAX - 1);
	close(fd);
	text[len > 0 ? len : 0] = 0;
}

static void add_file(struct files *files, const char *path)
{
	struct file *file = &files->list[files->n];

	if (files->n == FILES_MAX)
		errx(2, "more than %d files", FILES_MAX);
	file->path = strdup(path);
	file->hash = hash_of(path);
	file->setting = matches(path, set_elsewhere, ARRAY_SIZE(set_elsewhere));
	files->n++;
	read_text(path, file->before);
}

static int found(const char *path, const struct stat *st, int type,
		 struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || !S_ISREG(st->st_mode) ||
	    matches(path, left_alone, ARRAY_SIZE(left_alone)))
		return 0;
	if (st->st_mode & 0222)
		add_file(&writable, path);
	if (st->st_mode & 0444)
		add_file(&readable, path);
	return 0;
}

static int by_hash(const void *a, const void *b)
{
	const struct file *one = a, *other = b;
	int diff = one->hash - other->hash;

	return diff ? diff : strcmp(one->path, other->path);
}

void files_open(void)
{
	char path[4096];
	size_t n;

	for (n = 0; n < ARRAY_SIZE(roots); n++)
		if (realpath(roots[n], path))
			nftw(path, found, 16, FTW_PHYS);
	qsort(writable.list, writable.n, sizeof(*writable.list), by_hash);
	qsort(readable.list, readable.n, sizeof(*readable.list), by_hash);
	printf("%d files to write, %d to read\n", writable.n, readable.n);
}

/* The first one whose hash is not smaller; then, of several, by @which. */
static struct file *choose(struct files *files, u8 variant, u8 which)
{
	int first = 0, same = 1;

	if (!files->n)
		return NULL;
	while (first < files->n && files->list[first].hash < variant)
		first++;
	first %= files->n;
	while (first + same < files->n &&
	       files->list[first + same].hash == files->list[first].hash)
		same++;
	return &files->list[first + which % same];
}

/* Words that files know, in place of a byte from 0x80 on */
static const char * const words[] = {
	"datagram", "connected", "0x8001", "0x8002", "0xffff", "0", "1", "2",
	"up", "down", "port_active", "port_err", "lid_change", "pkey_change",
	"sm_change", "client_reregister", "gid_change", "off", "verbs", "any",
	"4294967295", "5 ports=1", "mtu=", "rdma_netdev=", "own", "ud",
	"symbol_errors", "0 0x7fff", "1 0x8001", "-1", "sqe ", "1 0",
};

/**
 * write_call - write to a file
 * @call: the variant chooses it; data: which of several with one hash, text,
 *	in which bytes from 0x80 on stand for words
 */
void write_call(const struct call *call)
{
	struct reader r = reader_of(call);
	struct file *file = choose(&writable, call->variant, take8(&r));
	char text[4096];
	size_t len = 0;

	if (!file)
		return;
	while (r.left && len + 32 < sizeof(text)) {
		u8 byte = take8(&r);

		if (byte < 0x80)
			text[len++] = byte;
		else
			len += sprintf(text + len, "%s",
				       words[byte % ARRAY_SIZE(words)]);
	}
	file->written = scene_write(file->path, text, len);
}

void read_call(const struct call *call)
{
	struct reader r = reader_of(call);
	struct file *file = choose(&readable, call->variant, take8(&r));
	char text[16384];
	int fd, n = 0;

	if (!file)
		return;
	fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	while (read(fd, text, sizeof(text)) > 0 && n++ < 16)
		;
	close(fd);
}

/* Settings are what they were; the fabric's faults end. */
void files_undo(void)
{
	int n;

	for (n = 0; n < writable.n; n++) {
		struct file *file = &writable.list[n];

		if (!file->written)
			continue;
		file->written = false;
		if (*file->before)
			scene_text(file->path, file->before);
	}
	/* HCAs that an input may have made */
	for (n = 3; n < 10; n++) {
		char path[64];

		snprintf(path, sizeof(path), "/sys/class/infiniband/ibdevsim%d", n);
		if (access(path, F_OK))
			continue;
		snprintf(path, sizeof(path), "%d", n);
		scene_text("/sys/bus/ibdevsim/del_device", path);
	}
}

/* One setting may change another: the mode does so to the MTU. */
void files_settle(void)
{
	char text[TEXT_MAX];
	bool changed = true;
	int n, times;

	for (times = 0; changed && times < 2; times++) {
		changed = false;
		for (n = 0; n < writable.n; n++) {
			struct file *file = &writable.list[n];

			if (!file->setting)
				continue;
			read_text(file->path, text);
			if (!*text || !strcmp(text, file->before))
				continue;
			changed = true;
			scene_text(file->path, file->before);
		}
	}
}
