// SPDX-License-Identifier: GPL-2.0-only
/*
 * QEMU plugin: counts the instructions that a guest runs between two marks
 *
 * Counts how often each translation block runs.  A program in the guest turns
 * that on and off with no-ops that occur nowhere else (see mark() in load.c).
 * Each time it is turned off, a file OUT.N is written, with a line "ADDRESS
 * INSTRUCTIONS TIMES" for each block that ran.
 *
 * For guests with one CPU.  Debian has QEMU's plugin interface, but not its
 * header: the parts used (QEMU's docs/devel/tcg-plugins.rst) are declared here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION	4
#define NO_REGISTERS	0
#define USER_END	(1ULL << 47)

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;
typedef void (*exec_cb)(unsigned int cpu, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
					   void (*cb)(plugin_id id,
						      struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb,
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    exec_cb cb, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t n);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to,
			     size_t len);

/* A translated block; translating it again makes a new one. */
struct block {
	uint64_t address;
	uint64_t insns;
	uint64_t times;
	struct block *next;
};

/* nopl 0x?1345678(%rax,%rax): on and off */
static const unsigned char mark[] = { 0x0f, 0x1f, 0x84, 0x00, 0x78, 0x56, 0x34 };

#define MARK_SIZE	(sizeof(mark) + 1)
#define MARK_ON		0x11
#define MARK_OFF	0x12

int qemu_plugin_version = API_VERSION;

static struct block *blocks;
static const char *out;
static bool counting;

static void count(unsigned int cpu, void *data)
{
	struct block *block = data;

	block->times += counting;
}

static void start(unsigned int cpu, void *data)
{
	for (struct block *block = blocks; block; block = block->next)
		block->times = 0;
	counting = true;
}

static void stop(unsigned int cpu, void *data)
{
	static unsigned int number;
	char name[4096];
	FILE *file;

	if (!counting)
		return;
	counting = false;
	snprintf(name, sizeof(name), "%s.%u", out, number++);
	file = fopen(name, "w");
	if (!file) {
		perror(name);
		return;
	}
	for (struct block *block = blocks; block; block = block->next)
		if (block->times)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n",
				block->address, block->insns, block->times);
	fclose(file);
}

static void look_for_marks(struct qemu_plugin_tb *tb, size_t insns)
{
	for (size_t n = 0; n < insns; n++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, n);
		unsigned char octets[MARK_SIZE];

		if (qemu_plugin_insn_data(insn, octets, MARK_SIZE) != MARK_SIZE ||
		    memcmp(octets, mark, sizeof(mark)))
			continue;
		if (octets[sizeof(mark)] == MARK_ON)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, start,
							       NO_REGISTERS, NULL);
		if (octets[sizeof(mark)] == MARK_OFF)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, stop,
							       NO_REGISTERS, NULL);
	}
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->insns = qemu_plugin_tb_n_insns(tb);
	block->next = blocks;
	blocks = block;
	if (block->address < USER_END)
		look_for_marks(tb, block->insns);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count, NO_REGISTERS, block);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "insns: the one argument is out=FILE\n");
		return -1;
	}
	out = strdup(argv[0] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
