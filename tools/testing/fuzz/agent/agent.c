// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fuzzer: libFuzzer, on the code of the modules that are recorded
 *
 * After the calls of an input the modules are left to come to rest.  What they
 * ran is told to libFuzzer as if it were this program; numbers that they
 * compared are told, too, and it puts them into inputs.  Each input is written
 * to memory that the host sees before: the kernel may not survive it.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "../cover/cover.h"

/* Memory that the host sees: the latest inputs, and how far it is */
#define SHARED_DEVICES	"/sys/bus/pci/devices/*"
#define SHARED_VENDOR	"0x1af4"
#define SHARED_DEVICE	"0x1110"
#define SHARED_SIZE	(1 << 20)
#define LAST_SLOTS	64
#define LAST_SIZE	8192
#define STATE_AT	(LAST_SLOTS * LAST_SIZE)
#define STATE_SIZE	128
#define TAINTED		"/proc/sys/kernel/tainted"
#define LOG		"/dev/kmsg"
/* Of the taint flags: died, bad page, warning, soft lockup */
#define TAINT_MASK	(1 << 7 | 1 << 5 | 1 << 9 | 1 << 14)
/* At rest: no block ran for so many looks at it, or time is up */
#define REST_LOOKS	3
#define REST_PAUSE_NS	150000
#define REST_MOST_NS	30000000
/* It is never, if so many inputs did not and then there is none for 20 seconds. */
#define RESTLESS_INPUTS	8
#define RESTLESS_NS	20000000000ULL
/* Blocks that run now and then although nothing is asked belong to no input. */
#define IDLE_SECONDS	4
#define CHECK_EVERY	32
#define HEAL_SECONDS	60
#define COMPARES_TOLD	512

/*
 * What complaints in the kernel's log have, also those that taint nothing: the most
 * common of tools/testing/vm/klog.py, which looks for all of them at the end
 */
static const char * const complaints[] = {
	"BUG: ", "WARNING: ", "[ cut here ]", "KASAN: ", "UBSAN: ", "KFENCE: ",
	"possible circular locking", "possible recursive locking",
	"possible irq lock inversion", "lock order detected", "inconsistent lock state",
	"bad unlock balance", "suspicious RCU usage", "self-detected stall",
	"stalls on CPUs", "blocked for more than", "refcount_t: ",
	"unregister_netdevice: waiting for ", "NETDEV WATCHDOG: ", "ODEBUG: ",
	"detected buffer overflow", "hw csum failure", "page allocation failure: order:",
	"already registered", "cannot create duplicate filename",
};

#define READ_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b);

/* What libFuzzer takes for counters of this program's blocks; only it reads them. */
__attribute__((section("__libfuzzer_extra_counters"), used))
static volatile u8 counters[COVER_CELLS];

static struct cover_area *cover;
static u8 idle[COVER_CELLS], ever[COVER_CELLS];
static u32 blocks_ever, heals;
static u64 inputs;
static unsigned int restless;
static int taint_fd, log_fd;
static u8 *shared;
static unsigned long taint;
static time_t begin;

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void pause_ns(long ns)
{
	struct timespec pause = { .tv_nsec = ns };

	nanosleep(&pause, NULL);
}

/* ---- what ran ----------------------------------------------------------- */

static void cells_clear(void)
{
	memset(cover->cells, 0, sizeof(cover->cells));
}

static void cells_tell(void)
{
	u32 i, j;

	for (i = 0; i < COVER_CELLS; i += sizeof(u64)) {
		if (!READ_ONCE(*(u64 *)&cover->cells[i]))
			continue;
		for (j = i; j < i + sizeof(u64); j++) {
			if (!cover->cells[j] || idle[j])
				continue;
			counters[j] = 1;
			if (!ever[j]) {
				ever[j] = 1;
				blocks_ever++;
			}
		}
	}
}

static void compares_tell(u32 from)
{
	u32 to = READ_ONCE(cover->head);

	if (to - from > COMPARES_TOLD)
		from = to - COMPARES_TOLD;
	for (; from != to; from++) {
		struct cover_compare *c = &cover->compares[from % COVER_COMPARES];

		__sanitizer_cov_trace_cmp8(c->a, c->b);
	}
}

static bool await_rest(u64 most)
{
	u64 end = now_ns() + most;
	u32 hits = READ_ONCE(cover->hits);
	int looks = 0;

	while (looks < REST_LOOKS && now_ns() < end) {
		pause_ns(REST_PAUSE_NS);
		if (READ_ONCE(cover->hits) == hits)
			looks++;
		else
			looks = 0;
		hits = READ_ONCE(cover->hits);
	}
	return looks == REST_LOOKS;
}

/*
 * A CPU that never leaves the modules is not told by the kernel before the latest
 * inputs are others than those that made it so.
 */
static void watch_rest(bool rested)
{
	if (rested) {
		restless = 0;
		return;
	}
	if (++restless < RESTLESS_INPUTS)
		return;
	if (await_rest(RESTLESS_NS)) {
		restless = 0;
		return;
	}
	printf("the modules have not come to rest since input %llu\n",
	       (unsigned long long)inputs - RESTLESS_INPUTS + 1);
	fflush(stdout);
	/* To the kernel's log: what the CPUs run */
	scene_text("/proc/sysrq-trigger", "l");
	sleep(1);
	abort();
}

static void learn_idle(void)
{
	u32 i, n = 0;

	cells_clear();
	sleep(IDLE_SECONDS);
	for (i = 0; i < COVER_CELLS; i++)
		if (cover->cells[i]) {
			idle[i] = 1;
			n++;
		}
	printf("%u blocks run while nothing is asked\n", n);
}

/* ---- inputs ------------------------------------------------------------- */

static void call(const struct call *one)
{
	switch (one->kind) {
	case CALL_PACKET:
		return packet_call(one);
	case CALL_CM:
		return cm_call(one);
	case CALL_SA:
		return sa_call(one);
	case CALL_LINK:
		return link_call(one);
	case CALL_GENL:
		return genl_call(one);
	case CALL_ETHTOOL:
		return ethtool_call(one);
	case CALL_WRITE:
		return write_call(one);
	case CALL_READ:
		return read_call(one);
	case CALL_VERBS:
		return verbs_call(one);
	case CALL_SEND:
		return send_call(one);
	default:
		pause_ns((1 + one->variant % 16) * 1000000L);
	}
}

/* The host finds the latest inputs there. */
static void keep(const u8 *data, size_t size)
{
	u8 *slot = shared + inputs % LAST_SLOTS * LAST_SIZE;
	u32 head[2] = { inputs, size };

	memcpy(slot + sizeof(head), data, size);
	memcpy(slot, head, sizeof(head));
}

static unsigned long taint_read(void)
{
	char text[32] = "";

	if (pread(taint_fd, text, sizeof(text) - 1, 0) < 0)
		err(2, TAINTED);
	return strtoul(text, NULL, 10) & TAINT_MASK;
}

static bool is_complaint(const char *record)
{
	size_t n;

	for (n = 0; n < ARRAY_SIZE(complaints); n++)
		if (strstr(record, complaints[n]))
			return true;
	return false;
}

/* Is there a new one in the kernel's log? */
static bool log_complains(void)
{
	char record[8192];
	bool found = false;
	ssize_t len;

	for (;;) {
		len = read(log_fd, record, sizeof(record) - 1);
		/* Some were overwritten before they were read. */
		if (len < 0 && errno == EPIPE)
			continue;
		if (len <= 0)
			return found;
		record[len] = 0;
		found |= is_complaint(record);
	}
}

static void state_tell(void)
{
	snprintf((char *)shared + STATE_AT, STATE_SIZE,
		 "%llu inputs %u blocks %u heals %ld seconds\n",
		 (unsigned long long)inputs, blocks_ever, heals,
		 (long)(time(NULL) - begin));
}

static bool pci_is(const char *path, const char *file, const char *value)
{
	char name[512], text[16];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	return scene_read_text(name, text, sizeof(text)) && !strcmp(text, value);
}

/* QEMU's ivshmem device, which is a file of the host */
static void shared_open(void)
{
	char name[512];
	glob_t found;
	size_t n;
	int fd;

	if (glob(SHARED_DEVICES, 0, NULL, &found))
		errx(2, "no PCI devices");
	for (n = 0; n < found.gl_pathc; n++) {
		const char *path = found.gl_pathv[n];

		if (!pci_is(path, "vendor", SHARED_VENDOR) ||
		    !pci_is(path, "device", SHARED_DEVICE))
			continue;
		snprintf(name, sizeof(name), "%s/enable", path);
		scene_text(name, "1");
		snprintf(name, sizeof(name), "%s/resource2", path);
		fd = open(name, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			err(2, "%s", name);
		shared = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE,
			      MAP_SHARED, fd, 0);
		if (shared == MAP_FAILED)
			err(2, "%s", name);
		close(fd);
		globfree(&found);
		return;
	}
	errx(2, "no memory shared with the host");
}

/* Whatever an input did, a healthy interface comes back. */
static void heal(void)
{
	time_t end = time(NULL) + HEAL_SECONDS;

	heals++;
	if (system("tools/testing/fuzz/scene heal"))
		warnx("\"scene heal\" failed");
	while (!scene_healthy()) {
		if (time(NULL) > end) {
			printf("after input %llu nothing carries packets again\n",
			       (unsigned long long)inputs);
			system("tools/testing/fuzz/scene show");
			fflush(stdout);
			abort();
		}
		pause_ns(100000000);
	}
	families_read();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char * const sa_drop[] = { "0", "1" };
	static const char sa_knob[] =
		"/sys/kernel/debug/ibdevsim/ibdevsim2/port1/sa_drop";
	struct call calls[CALLS_MAX];
	bool linked = false, wrote = false, sa = false, rested, check;
	u32 head;
	int n, i;

	if (size > LAST_SIZE - 8)
		return -1;
	keep(data, size);
	n = input_parse(calls, data, size);
	for (i = 0; i < n; i++) {
		linked |= calls[i].kind == CALL_LINK || calls[i].kind == CALL_GENL ||
			  calls[i].kind == CALL_ETHTOOL;
		wrote |= calls[i].kind == CALL_WRITE;
		sa |= calls[i].kind == CALL_SA;
	}
	/* The real SA would be first. */
	if (sa)
		scene_text(sa_knob, sa_drop[1]);
	mirror_forget();
	cells_clear();
	head = READ_ONCE(cover->head);
	for (i = 0; i < n; i++)
		call(&calls[i]);
	rested = await_rest(REST_MOST_NS);
	cells_tell();
	compares_tell(head);
	watch_rest(rested);

	verbs_close();
	if (wrote)
		files_undo();
	if (linked || wrote) {
		links_clean();
		files_settle();
	}
	if (sa)
		scene_text(sa_knob, sa_drop[0]);
	inputs++;
	check = linked || wrote || !(inputs % CHECK_EVERY);
	if (check && !scene_healthy())
		heal();
	/* What is restored runs code that is not the next input's. */
	if (linked || wrote)
		await_rest(REST_MOST_NS);
	if (check)
		scene_read();
	if (!(inputs % CHECK_EVERY))
		state_tell();
	if (log_complains() || taint_read() != taint) {
		printf("the kernel complained after input %llu\n",
		       (unsigned long long)inputs - 1);
		fflush(stdout);
		abort();
	}
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int fd = open("/dev/ipoib_cover", O_RDWR | O_CLOEXEC);

	(void)argc;
	(void)argv;
	if (fd < 0)
		err(2, "/dev/ipoib_cover");
	cover = mmap(NULL, sizeof(*cover), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (cover == MAP_FAILED)
		err(2, "mmap");
	close(fd);
	shared_open();
	taint_fd = open(TAINTED, O_RDONLY | O_CLOEXEC);
	if (taint_fd < 0)
		err(2, TAINTED);
	log_fd = open(LOG, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (log_fd < 0 || lseek(log_fd, 0, SEEK_END) < 0)
		err(2, LOG);
	begin = time(NULL);
	scene_open();
	netlink_open();
	files_open();
	send_open();
	verbs_open();
	mirror_start();
	learn_idle();
	taint = taint_read();
	return 0;
}
