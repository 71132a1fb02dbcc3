// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: which instructions of a module call verbs, and calls that fail
 *
 * Tests want to know from where a driver calls the HCA and the allocator, and
 * to let the calls from one such place fail.  A place is the first return
 * address on the stack that lies in the range of the driver's code: ib_core
 * may be between the driver and the verb.
 *
 * Verbs ask ibds_call().  Unless somebody records or lets calls fail, that is
 * a branch that is not taken.  Allocations are seen by kprobes on the functions
 * that the kernel has for its own fault injection; kernels without them, and
 * other architectures than amd64, record verbs only.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/gfp.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "call.h"

#define IBDS_CALL_DEPTH		48	/* return addresses that are looked at */
#define IBDS_SITES		2048
#define IBDS_SITE_BUCKETS	512
#define IBDS_CALL_ANY		IBDS_CALLS	/* any verb */
#define IBDS_HCA_ANY		U32_MAX

/**
 * struct ibds_site - a place in the code that calls something
 * @address: return address
 * @count: calls
 * @verb: what it calls
 * @next: 1 + index of the next one in its bucket, 0: none
 */
struct ibds_site {
	unsigned long address;
	u64 count;
	u16 verb;
	u16 next;
};

/* Serializes writers of the files, which may sleep. */
static DEFINE_MUTEX(ibds_call_mutex);
/*
 * Of ibds_calls and ibds_fail; a leaf.  Kprobes take it, too, which to lockdep is as
 * if NMIs did.  They may: nothing allocates with the lock held.
 */
static arch_spinlock_t ibds_call_lock = __ARCH_SPIN_LOCK_UNLOCKED;

DEFINE_STATIC_KEY_FALSE(ibds_calls_watched);

/*
 * The range and what was recorded; @verbs: nothing but verbs; @memory: allocations
 * were recorded, too.
 * The range stays when recording ends: calls that fail have to lie in it.
 */
static struct {
	unsigned long start;
	unsigned long end;
	bool on;
	bool verbs;
	bool memory;
	u32 num;
	u64 lost;
	u16 bucket[IBDS_SITE_BUCKETS];
	struct ibds_site site[IBDS_SITES];
} ibds_calls;

/**
 * struct ibds_call_fail - the calls that fail
 * @on: there are some
 * @endless: all calls fail, rather than @left
 * @verb: what is called, %IBDS_CALL_ANY: any verb
 * @address: return address, 0: any in the range
 * @hca: number of the HCA, %IBDS_HCA_ANY: any
 * @left: calls yet to fail
 * @failed: calls that failed
 * @err: errno
 */
struct ibds_call_fail {
	bool on;
	bool endless;
	u32 verb;
	unsigned long address;
	u32 hca;
	u32 left;
	u32 failed;
	u32 err;
};

static struct ibds_call_fail ibds_fail;

/*
 * Names, and whether a call may fail.  The core warns when objects of the
 * kernel cannot be destroyed, except for QPs; ib_dealloc_pd() does so for the
 * region of a PD.  Other verbs that may not fail have no way to say so.
 */
static const struct {
	const char *name;
	bool fails;
} ibds_verbs[IBDS_CALLS] = {
	[IBDS_CALL_QUERY_DEVICE] = { "query_device", true },
	[IBDS_CALL_MODIFY_DEVICE] = { "modify_device", true },
	[IBDS_CALL_QUERY_PORT] = { "query_port", true },
	[IBDS_CALL_MODIFY_PORT] = { "modify_port", true },
	[IBDS_CALL_QUERY_GID] = { "query_gid", true },
	[IBDS_CALL_QUERY_PKEY] = { "query_pkey", true },
	[IBDS_CALL_LINK_LAYER] = { "get_link_layer", false },
	[IBDS_CALL_FW_STR] = { "get_dev_fw_str", false },
	[IBDS_CALL_PROCESS_MAD] = { "process_mad", false },
	[IBDS_CALL_ALLOC_PD] = { "alloc_pd", true },
	[IBDS_CALL_DEALLOC_PD] = { "dealloc_pd", false },
	[IBDS_CALL_GET_DMA_MR] = { "get_dma_mr", true },
	[IBDS_CALL_ALLOC_MR] = { "alloc_mr", true },
	[IBDS_CALL_MAP_MR_SG] = { "map_mr_sg", true },
	[IBDS_CALL_DEREG_MR] = { "dereg_mr", false },
	[IBDS_CALL_CREATE_AH] = { "create_ah", true },
	[IBDS_CALL_QUERY_AH] = { "query_ah", true },
	[IBDS_CALL_DESTROY_AH] = { "destroy_ah", false },
	[IBDS_CALL_CREATE_CQ] = { "create_cq", true },
	[IBDS_CALL_MODIFY_CQ] = { "modify_cq", true },
	[IBDS_CALL_DESTROY_CQ] = { "destroy_cq", false },
	[IBDS_CALL_POLL_CQ] = { "poll_cq", false },
	[IBDS_CALL_REQ_NOTIFY_CQ] = { "req_notify_cq", true },
	[IBDS_CALL_CREATE_SRQ] = { "create_srq", true },
	[IBDS_CALL_MODIFY_SRQ] = { "modify_srq", true },
	[IBDS_CALL_QUERY_SRQ] = { "query_srq", true },
	[IBDS_CALL_DESTROY_SRQ] = { "destroy_srq", false },
	[IBDS_CALL_POST_SRQ_RECV] = { "post_srq_recv", true },
	[IBDS_CALL_CREATE_QP] = { "create_qp", true },
	[IBDS_CALL_MODIFY_QP] = { "modify_qp", true },
	[IBDS_CALL_QUERY_QP] = { "query_qp", true },
	[IBDS_CALL_DESTROY_QP] = { "destroy_qp", true },
	[IBDS_CALL_POST_SEND] = { "post_send", true },
	[IBDS_CALL_POST_RECV] = { "post_recv", true },
	[IBDS_CALL_ATTACH_MCAST] = { "attach_mcast", true },
	[IBDS_CALL_DETACH_MCAST] = { "detach_mcast", true },
	[IBDS_CALL_SET_VF_LINK_STATE] = { "set_vf_link_state", true },
	[IBDS_CALL_GET_VF_CONFIG] = { "get_vf_config", true },
	[IBDS_CALL_GET_VF_STATS] = { "get_vf_stats", true },
	[IBDS_CALL_GET_VF_GUID] = { "get_vf_guid", true },
	[IBDS_CALL_SET_VF_GUID] = { "set_vf_guid", true },
	[IBDS_CALL_NETDEV_PARAMS] = { "rdma_netdev_get_params", true },
	[IBDS_CALL_NETDEV_INIT] = { "initialize_rdma_netdev", true },
	[IBDS_CALL_MEMORY] = { "memory", true },
};

static unsigned long ibds_call_enter(void)
{
	unsigned long flags;

	raw_local_irq_save(flags);
	arch_spin_lock(&ibds_call_lock);
	return flags;
}

static void ibds_call_leave(unsigned long flags)
{
	arch_spin_unlock(&ibds_call_lock);
	raw_local_irq_restore(flags);
}

/* ---- calls -------------------------------------------------------------- */

static u16 *ibds_site_bucket(enum ibds_verb verb, unsigned long address)
{
	/* Return addresses are rarely closer than the length of a call. */
	return &ibds_calls.bucket[((address >> 2) + verb * 31) %
				  IBDS_SITE_BUCKETS];
}

static void ibds_site_count(enum ibds_verb verb, unsigned long address)
{
	u16 *bucket = ibds_site_bucket(verb, address);
	struct ibds_site *site;
	u16 i;

	for (i = *bucket; i; i = site->next) {
		site = &ibds_calls.site[i - 1];
		if (site->address == address && site->verb == verb) {
			site->count++;
			return;
		}
	}
	if (ibds_calls.num == IBDS_SITES) {
		ibds_calls.lost++;
		return;
	}
	site = &ibds_calls.site[ibds_calls.num++];
	site->address = address;
	site->count = 1;
	site->verb = verb;
	site->next = *bucket;
	*bucket = ibds_calls.num;
}

/* The first return address that lies in the range, 0: none. */
static unsigned long ibds_site_find(const unsigned long *trace, u32 num)
{
	unsigned long start = ibds_calls.start;
	unsigned long end = ibds_calls.end;
	u32 i;

	/* An address can be asked for before there is a range. */
	if (!end && ibds_fail.on) {
		start = ibds_fail.address;
		end = start + 1;
	}
	for (i = 0; i < num; i++)
		if (trace[i] >= start && trace[i] < end)
			return trace[i];
	return 0;
}

static bool ibds_fail_applies(const struct ibds_dev *dev, enum ibds_verb verb,
			      unsigned long address)
{
	const struct ibds_call_fail *fail = &ibds_fail;

	if (!fail->on || (!fail->left && !fail->endless))
		return false;
	if (fail->verb == IBDS_CALL_ANY) {
		if (verb == IBDS_CALL_MEMORY || !ibds_verbs[verb].fails)
			return false;
	} else if (fail->verb != verb) {
		return false;
	}
	if (fail->address && fail->address != address)
		return false;
	return fail->hca == IBDS_HCA_ANY || (dev && dev->id == fail->hca);
}

/*
 * A call with these return addresses on the stack; @dev: NULL for allocations;
 * @may_fail: it is not one that has to work.
 *
 * Return: 0, or the error with which it has to fail.
 */
static int ibds_call_at(const struct ibds_dev *dev, enum ibds_verb verb,
			const unsigned long *trace, u32 num, bool may_fail)
{
	unsigned long address, flags;
	int err = 0;

	flags = ibds_call_enter();
	address = ibds_site_find(trace, num);
	if (address) {
		if (ibds_calls.on)
			ibds_site_count(verb, address);
		if (may_fail && ibds_fail_applies(dev, verb, address)) {
			ibds_fail.failed++;
			if (!ibds_fail.endless)
				ibds_fail.left--;
			err = -(int)ibds_fail.err;
		}
	}
	ibds_call_leave(flags);
	return err;
}

#ifdef CONFIG_STACKTRACE

static u32 ibds_call_trace(unsigned long *trace)
{
	return stack_trace_save(trace, IBDS_CALL_DEPTH, 1);
}

/* What an interrupt interrupted calls nothing. */
static u32 ibds_call_uninterrupted(unsigned long *trace, u32 num)
{
	return filter_irq_stacks(trace, num);
}

#else

static u32 ibds_call_trace(unsigned long *trace)
{
	return 0;
}

static u32 ibds_call_uninterrupted(unsigned long *trace, u32 num)
{
	return num;
}

#endif

/**
 * ibds_call_watched - record a call of a verb, or have it fail
 * @ibdev: HCA
 * @verb: which
 *
 * Context: any.
 * Return: 0, or the error that the verb has to return.
 */
int ibds_call_watched(struct ib_device *ibdev, enum ibds_verb verb)
{
	unsigned long trace[IBDS_CALL_DEPTH];
	u32 num;

	num = ibds_call_uninterrupted(trace, ibds_call_trace(trace));
	return ibds_call_at(to_ibds_dev(ibdev), verb, trace, num,
			    ibds_verbs[verb].fails);
}

/* ---- allocations -------------------------------------------------------- */

/* Both are set, and work; ibds_call_mutex. */
static bool ibds_probes_on;

#if IS_ENABLED(CONFIG_KPROBES) && IS_ENABLED(CONFIG_STACKTRACE) && \
	IS_ENABLED(CONFIG_X86_64)

enum {
	IBDS_PROBE_SLAB,
	IBDS_PROBE_PAGE,
	IBDS_PROBES
};

static struct kprobe ibds_probe[IBDS_PROBES];
static struct kprobe *ibds_probe_list[IBDS_PROBES] = {
	&ibds_probe[IBDS_PROBE_SLAB], &ibds_probe[IBDS_PROBE_PAGE],
};

static bool ibds_probe_hit[IBDS_PROBES];
/* Allocations may still be on their way out of the functions below. */
static bool ibds_probes_used;

/* What runs instead of should_failslab() when the allocation is to fail */
static noinline notrace int ibds_slab_fails(void)
{
	return -ENOMEM;
}

/* and instead of should_fail_alloc_page(). */
static noinline notrace bool ibds_page_fails(void)
{
	return true;
}

/*
 * The trace begins in the handler, maybe with an exception that looks like an
 * interrupt: what counts starts at the caller of the probed function.
 */
static u32 ibds_probe_trace(const struct pt_regs *regs, unsigned long *trace,
			    u32 *skip)
{
	unsigned long caller = *(unsigned long *)regs->sp;
	u32 i, num = ibds_call_trace(trace);

	*skip = 0;
	for (i = 0; i < num; i++) {
		if (trace[i] != caller)
			continue;
		*skip = i;
		return ibds_call_uninterrupted(trace + i, num - i);
	}
	return num;
}

/* An allocation; interrupts or preemption are disabled. */
static int ibds_probe_pre(struct kprobe *probe, struct pt_regs *regs)
{
	bool slab = probe == &ibds_probe[IBDS_PROBE_SLAB];
	gfp_t gfp = (__force gfp_t)(slab ? regs->si : regs->di);
	unsigned long trace[IBDS_CALL_DEPTH];
	u32 num, skip;

	WRITE_ONCE(ibds_probe_hit[probe - ibds_probe], true);
	num = ibds_probe_trace(regs, trace, &skip);
	if (!ibds_call_at(NULL, IBDS_CALL_MEMORY, trace + skip, num,
			  !(gfp & __GFP_NOFAIL)))
		return 0;
	/* At its first instruction, a function can be exchanged for another. */
	regs->ip = (unsigned long)(slab ? (void *)ibds_slab_fails :
					  (void *)ibds_page_fails);
	return 1;
}

NOKPROBE_SYMBOL(ibds_probe_pre);

/* Without it the other handler could not change where execution goes on. */
static void ibds_probe_post(struct kprobe *probe, struct pt_regs *regs,
			    unsigned long flags)
{
}

NOKPROBE_SYMBOL(ibds_probe_post);

/* The compiler may have left out calls of a function that does nothing. */
static bool ibds_probes_work(void)
{
	memset(ibds_probe_hit, 0, sizeof(ibds_probe_hit));
	kfree(kmalloc(sizeof(long), GFP_KERNEL));
	free_page(__get_free_page(GFP_KERNEL));
	return READ_ONCE(ibds_probe_hit[IBDS_PROBE_SLAB]) &&
	       READ_ONCE(ibds_probe_hit[IBDS_PROBE_PAGE]);
}

static bool ibds_probes_add(void)
{
	static const char * const names[IBDS_PROBES] = {
		[IBDS_PROBE_SLAB] = "should_failslab",
		[IBDS_PROBE_PAGE] = "should_fail_alloc_page",
	};
	int i;

	for (i = 0; i < IBDS_PROBES; i++)
		ibds_probe[i] = (struct kprobe){
			.symbol_name = names[i],
			.pre_handler = ibds_probe_pre,
			.post_handler = ibds_probe_post,
		};
	if (register_kprobes(ibds_probe_list, IBDS_PROBES))
		return false;
	ibds_probes_used = true;
	if (ibds_probes_work())
		return true;
	unregister_kprobes(ibds_probe_list, IBDS_PROBES);
	return false;
}

static void ibds_probes_del(void)
{
	unregister_kprobes(ibds_probe_list, IBDS_PROBES);
}

static void ibds_probes_exit(void)
{
	if (ibds_probes_used)
		synchronize_rcu_tasks();
}

#else

static bool ibds_probes_add(void)
{
	return false;
}

static void ibds_probes_del(void)
{
}

static void ibds_probes_exit(void)
{
}

#endif

/* ---- files -------------------------------------------------------------- */

/* Watch what has to be watched now. */
static void ibds_call_update(void)
{
	bool verbs = ibds_calls.on ||
		     (ibds_fail.on && ibds_fail.verb != IBDS_CALL_MEMORY);
	bool memory = (ibds_calls.on && !ibds_calls.verbs) ||
		      (ibds_fail.on && ibds_fail.verb == IBDS_CALL_MEMORY);

	lockdep_assert_held(&ibds_call_mutex);
	if (verbs)
		static_branch_enable(&ibds_calls_watched);
	else
		static_branch_disable(&ibds_calls_watched);
	if (memory && !ibds_probes_on) {
		ibds_probes_on = ibds_probes_add();
	} else if (!memory && ibds_probes_on) {
		ibds_probes_del();
		ibds_probes_on = false;
	}
}

/* Forget what was recorded, and record what lies in another range. */
static void ibds_calls_start(unsigned long start, unsigned long end, bool verbs)
{
	unsigned long flags;

	flags = ibds_call_enter();
	memset(ibds_calls.bucket, 0, sizeof(ibds_calls.bucket));
	ibds_calls.num = 0;
	ibds_calls.lost = 0;
	ibds_calls.start = start;
	ibds_calls.end = end;
	ibds_calls.on = true;
	ibds_calls.verbs = verbs;
	ibds_call_leave(flags);
	ibds_call_update();
	WRITE_ONCE(ibds_calls.memory, ibds_probes_on);
}

static void ibds_calls_stop(void)
{
	unsigned long flags;

	flags = ibds_call_enter();
	ibds_calls.on = false;
	ibds_call_leave(flags);
	ibds_call_update();
}

static void ibds_fail_set(const struct ibds_call_fail *fail)
{
	unsigned long flags;

	flags = ibds_call_enter();
	ibds_fail = *fail;
	ibds_call_leave(flags);
	ibds_call_update();
}

/* Return: the number of words, or @max + 1 if there are more than that. */
static int ibds_call_words(char *text, char **word, int max)
{
	int num = 0;
	char *next;

	while ((next = strsep(&text, " \t")) && num <= max) {
		if (!*next)
			continue;
		if (num < max)
			word[num] = next;
		num++;
	}
	return num;
}

/**
 * ibds_calls_store - record calls from a range of code, or stop it
 * @text: "START END [verbs]" in hexadecimal, or "off"; modified
 *
 * Context: process.
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_calls_store(char *text)
{
	unsigned long start, end;
	char *word[3];
	int num;

	if (!IS_ENABLED(CONFIG_STACKTRACE))
		return -EOPNOTSUPP;
	num = ibds_call_words(text, word, ARRAY_SIZE(word));
	if (num == 1 && !strcmp(word[0], "off")) {
		mutex_lock(&ibds_call_mutex);
		ibds_calls_stop();
		mutex_unlock(&ibds_call_mutex);
		return 0;
	}
	if (num < 2 || num > 3 || kstrtoul(word[0], 16, &start) ||
	    kstrtoul(word[1], 16, &end) || start >= end ||
	    (num == 3 && strcmp(word[2], "verbs"))) {
		pr_info("calls wants two addresses, maybe verbs, or off\n");
		return -EINVAL;
	}
	mutex_lock(&ibds_call_mutex);
	ibds_calls_start(start, end, num == 3);
	mutex_unlock(&ibds_call_mutex);
	return 0;
}

static void ibds_site_show(struct seq_file *m, const struct ibds_site *site)
{
	char symbol[KSYM_SYMBOL_LEN];

	snprintf(symbol, sizeof(symbol), "%pS", (void *)site->address);
	/* Without the module */
	symbol[strcspn(symbol, " ")] = '\0';
	seq_printf(m, "%s 0x%lx %llu %s\n", ibds_verbs[site->verb].name,
		   site->address, site->count, symbol);
}

/**
 * ibds_calls_show - print the calls that were recorded
 * @m: file to print to
 */
void ibds_calls_show(struct seq_file *m)
{
	struct ibds_site site;
	unsigned long flags;
	u64 lost = 0;
	bool more;
	u32 i;

	for (i = 0, more = true; more; i++) {
		flags = ibds_call_enter();
		more = i < ibds_calls.num;
		if (more)
			site = ibds_calls.site[i];
		lost = ibds_calls.lost;
		ibds_call_leave(flags);
		if (more)
			ibds_site_show(m, &site);
	}
	seq_printf(m, "lost %llu\n", lost);
	seq_printf(m, "memory %s\n",
		   READ_ONCE(ibds_calls.memory) ? "seen" : "not");
}

static int ibds_fail_parse_verb(const char *word, struct ibds_call_fail *fail)
{
	u32 verb;

	if (!strcmp(word, "any")) {
		fail->verb = IBDS_CALL_ANY;
		return 0;
	}
	for (verb = 0; verb < IBDS_CALLS; verb++)
		if (!strcmp(word, ibds_verbs[verb].name))
			break;
	if (verb == IBDS_CALLS) {
		pr_info("no call \"%.40s\"\n", word);
		return -EINVAL;
	}
	if (!ibds_verbs[verb].fails) {
		pr_info("%s has to work\n", word);
		return -EINVAL;
	}
	fail->verb = verb;
	return 0;
}

/* ibds_call_mutex is held: the range does not change. */
static int ibds_fail_parse_address(const char *word,
				   struct ibds_call_fail *fail)
{
	if (!strcmp(word, "any")) {
		if (ibds_calls.end)
			return 0;
		pr_info("any address: write a range to calls first\n");
		return -EINVAL;
	}
	if (kstrtoul(word, 16, &fail->address) || !fail->address) {
		pr_info("\"%.40s\" is not an address\n", word);
		return -EINVAL;
	}
	if (ibds_calls.end && (fail->address < ibds_calls.start ||
			       fail->address >= ibds_calls.end)) {
		pr_info("0x%lx is not in the range of calls\n", fail->address);
		return -EINVAL;
	}
	return 0;
}

static int ibds_fail_parse_numbers(char **word, int num,
				   struct ibds_call_fail *fail)
{
	char rest;

	if (kstrtou32(word[2], 10, &fail->left)) {
		pr_info("\"%.40s\" is not a number of calls\n", word[2]);
		return -EINVAL;
	}
	fail->endless = !fail->left;
	if (num > 3 && (kstrtou32(word[3], 10, &fail->err) || !fail->err ||
			fail->err > MAX_ERRNO)) {
		pr_info("\"%.40s\" is not an errno\n", word[3]);
		return -EINVAL;
	}
	if (num > 4 && (fail->verb == IBDS_CALL_MEMORY ||
			sscanf(word[4], "ibdevsim%u%c", &fail->hca,
			       &rest) != 1)) {
		pr_info("\"%.40s\" is not an HCA that is called\n", word[4]);
		return -EINVAL;
	}
	return 0;
}

/* ibds_call_mutex is held. */
static int ibds_fail_parse(char *text, struct ibds_call_fail *fail)
{
	char *word[5];
	int num, err;

	num = ibds_call_words(text, word, ARRAY_SIZE(word));
	if (num == 1 && !strcmp(word[0], "off"))
		return 0;
	if (num < 3 || num > ARRAY_SIZE(word)) {
		pr_info("fail_call wants a name, an address and a number\n");
		return -EINVAL;
	}
	fail->on = true;
	fail->err = ENOMEM;
	fail->hca = IBDS_HCA_ANY;
	err = ibds_fail_parse_verb(word[0], fail);
	if (!err)
		err = ibds_fail_parse_address(word[1], fail);
	return err ?: ibds_fail_parse_numbers(word, num, fail);
}

/**
 * ibds_fail_call_store - let calls fail, or no longer
 * @text: "NAME ADDRESS|any TIMES [ERRNO [HCA]]", or "off"; modified
 *
 * Context: process.
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_fail_call_store(char *text)
{
	struct ibds_call_fail fail = {};
	int err;

	if (!IS_ENABLED(CONFIG_STACKTRACE))
		return -EOPNOTSUPP;
	mutex_lock(&ibds_call_mutex);
	err = ibds_fail_parse(text, &fail);
	if (!err)
		ibds_fail_set(&fail);
	if (!err && fail.on && fail.verb == IBDS_CALL_MEMORY &&
	    !ibds_probes_on) {
		pr_info("this kernel does not tell of allocations\n");
		fail.on = false;
		ibds_fail_set(&fail);
		err = -EOPNOTSUPP;
	}
	mutex_unlock(&ibds_call_mutex);
	return err;
}

/**
 * ibds_fail_call_show - print which calls fail, and how many did
 * @m: file to print to
 */
void ibds_fail_call_show(struct seq_file *m)
{
	struct ibds_call_fail fail;
	unsigned long flags;

	flags = ibds_call_enter();
	fail = ibds_fail;
	ibds_call_leave(flags);
	if (!fail.on) {
		seq_puts(m, "off\n");
		return;
	}
	seq_printf(m, "%s ", fail.verb == IBDS_CALL_ANY ? "any" :
			     ibds_verbs[fail.verb].name);
	if (fail.address)
		seq_printf(m, "0x%lx", fail.address);
	else
		seq_puts(m, "any");
	seq_printf(m, " left %u failed %u errno %u\n", fail.left, fail.failed,
		   fail.err);
}

/**
 * ibds_call_exit - stop it all; the files are gone
 */
void ibds_call_exit(void)
{
	const struct ibds_call_fail none = {};

	mutex_lock(&ibds_call_mutex);
	ibds_fail_set(&none);
	ibds_calls_stop();
	mutex_unlock(&ibds_call_mutex);
	ibds_probes_exit();
}
