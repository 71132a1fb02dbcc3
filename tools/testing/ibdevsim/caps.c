// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: capabilities of an HCA: the keys of new_device, shown in debugfs
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "caps.h"

#define IBDS_MAX_ID		9999

/* Clocks of HCAs with successive numbers are this far apart. */
#define IBDS_PHC_APART_MS	3000
#define IBDS_PHC_APART_PPB	50000
/* Of a key whose default depends on others: not given */
#define IBDS_DEFAULT		U32_MAX

/* A value that may be written as a name. */
struct ibds_word {
	const char *word;
	u32 value;
};

static const struct ibds_word ibds_width_words[] = {
	{ "1x", IB_WIDTH_1X }, { "2x", IB_WIDTH_2X }, { "4x", IB_WIDTH_4X },
	{ "8x", IB_WIDTH_8X }, { "12x", IB_WIDTH_12X }, { }
};

static const struct ibds_word ibds_speed_words[] = {
	{ "sdr", IB_SPEED_SDR }, { "ddr", IB_SPEED_DDR },
	{ "qdr", IB_SPEED_QDR }, { "fdr", IB_SPEED_FDR },
	{ "edr", IB_SPEED_EDR }, { "hdr", IB_SPEED_HDR },
	{ "ndr", IB_SPEED_NDR }, { }
};

static const struct ibds_word ibds_mtu_words[] = {
	{ "256", 256 }, { "512", 512 }, { "1024", 1024 }, { "2048", 2048 },
	{ "4096", 4096 }, { }
};

static const struct ibds_word ibds_comp_ctx_words[] = {
	{ "irq", IBDS_COMP_IRQ }, { "softirq", IBDS_COMP_SOFTIRQ },
	{ "work", IBDS_COMP_WORK }, { }
};

static const struct ibds_word ibds_provider_words[] = {
	{ "none", IBDS_PROVIDER_NONE }, { "hfi1", IBDS_PROVIDER_HFI1 }, { }
};

static const struct ibds_word ibds_rdma_netdev_words[] = {
	{ "none", IBDS_NETDEV_NONE }, { "own", IBDS_NETDEV_OWN },
	{ "ud", IBDS_NETDEV_UD }, { }
};

static const struct ibds_word ibds_profile_words[] = {
	{ "none", IBDS_PROFILE_NONE }, { "mlx4", IBDS_PROFILE_MLX4 },
	{ "mlx5", IBDS_PROFILE_MLX5 }, { "mthca", IBDS_PROFILE_MTHCA },
	{ "qib", IBDS_PROFILE_QIB }, { "hfi1", IBDS_PROFILE_HFI1 },
	{ "worst", IBDS_PROFILE_WORST }, { }
};

/*
 * The keys of each profile, from the drivers in Linux 6.12 and what the HCAs
 * report to them, as far as the simulator goes: max_cqe, max_sge and the MTU
 * of Omni-Path are larger there.
 */
static const char * const ibds_profiles[][4] = {
	[IBDS_PROFILE_MLX4] = {
		"max_qp_wr=16351,max_srq_sge=31,max_cqe=1048576",
		"max_fast_pages=511,group_qps=248,gids=128,speed=fdr",
	},
	[IBDS_PROFILE_MLX5] = {
		"max_sge=30,max_srq_sge=31,max_qp_wr=32768,max_qp=131072",
		"max_cq=131072,max_cqe=1048576,group_qps=240,gids=8",
	},
	/* Firmware that checks checksums exists, but is rare. */
	[IBDS_PROFILE_MTHCA] = {
		"mtu=2048,csum=0,lso=0,moderation=0,block_loopback=0,vectors=1",
		"max_sge=30,max_srq_sge=27,max_qp=65000,max_cq=65000",
		"max_cqe=131071,max_rd_atom=4,group_qps=56,gids=32,pkeys=64",
		"speed=ddr",
	},
	[IBDS_PROFILE_QIB] = {
		"csum=0,lso=0,moderation=0,block_loopback=0,comp_ctx=work",
		"reset_purge=0,vectors=1,max_srq_sge=32,max_qp_wr=16383",
		"max_qp=16384,max_cq=131071,max_cqe=196607,group_qps=16",
		"gids=5,pkeys=4,speed=qdr",
	},
	[IBDS_PROFILE_HFI1] = {
		"csum=0,lso=0,moderation=0,block_loopback=0,comp_ctx=work",
		"reset_purge=0,max_srq_sge=32,max_qp_wr=16383,max_qp=32768",
		"max_cq=131071,max_cqe=1048576,group_qps=16,gids=5,pkeys=16",
	},
	[IBDS_PROFILE_WORST] = {
		"csum=0,lso=0,ud_srq=0,moderation=0,block_loopback=0",
		"comp_ctx=work,reset_purge=0,last_wqe=0,vectors=1",
	},
};

/* Parameters of the module: the defaults of the keys of the same names. */
static char *profile = "none";
module_param(profile, charp, 0444);
MODULE_PARM_DESC(profile,
		 "HCA to be like: none, mlx4, mlx5, mthca, qib, hfi1, worst");

static char *provider = "none";
module_param(provider, charp, 0444);
MODULE_PARM_DESC(provider, "provider of rdma-core for user space: none, hfi1");

static char *hca = "";
module_param(hca, charp, 0444);
MODULE_PARM_DESC(hca, "keys of each HCA, which new_device may override");

/**
 * struct ibds_key - one key of new_device
 * @name: as written
 * @offset: of its field in struct ibds_caps
 * @min: smallest value
 * @max: largest value
 * @init: default; 0 for vectors, whose default is one per online CPU
 * @none: if set, the value of the word "none"
 * @words: if set, the only legal values, by name or by number
 */
struct ibds_key {
	const char *name;
	size_t offset;
	u32 min, max, init;
	u32 none;
	const struct ibds_word *words;
};

#define IBDS_KEY(field, lo, hi, def) { \
	.name = #field, .offset = offsetof(struct ibds_caps, field), \
	.min = lo, .max = hi, .init = def }
#define IBDS_KEY_WORDS(field, def) { \
	.name = #field, .offset = offsetof(struct ibds_caps, field), \
	.init = def, .words = ibds_##field##_words }

static const struct ibds_key ibds_keys[] = {
	IBDS_KEY(ports, 1, IBDS_MAX_PORTS, 1),
	IBDS_KEY_WORDS(mtu, 4096),
	IBDS_KEY(csum, 0, 1, 1),
	IBDS_KEY(lso, 0, 1, 1),
	IBDS_KEY(srq, 0, 1, 1),
	IBDS_KEY(ud_srq, 0, 1, 1),
	IBDS_KEY(moderation, 0, 1, 1),
	IBDS_KEY(block_loopback, 0, 1, 1),
	IBDS_KEY(dma, 0, 1, 0),
	IBDS_KEY_WORDS(comp_ctx, IBDS_COMP_IRQ),
	IBDS_KEY(reset_purge, 0, 1, 1),
	IBDS_KEY(last_wqe, 0, 1, 1),
	IBDS_KEY(vectors, 1, 256, 0),
	IBDS_KEY(max_sge, 1, IBDS_MAX_SGE, 32),
	IBDS_KEY(max_srq_sge, 1, IBDS_MAX_SGE, 31),
	IBDS_KEY(max_qp_wr, 16, 32768, 16384),
	IBDS_KEY(max_qp, 2, 1 << 20, 8192),
	IBDS_KEY(netif_qps, 0, 1 << 20, 0),
	IBDS_KEY(max_cq, 1, 1 << 20, 8192),
	IBDS_KEY(max_cqe, 16, 1 << 20, 65536),
	IBDS_KEY(max_rd_atom, 0, IBDS_MAX_RD_ATOM, IBDS_MAX_RD_ATOM),
	IBDS_KEY(max_fast_pages, 1, IBDS_MAX_FAST_PAGES, IBDS_MAX_FAST_PAGES),
	IBDS_KEY(group_qps, 1, 1 << 20, 1 << 20),
	IBDS_KEY(gids, 1, IBDS_MAX_GIDS, 16),
	IBDS_KEY(pkeys, 1, IBDS_PKEYS, IBDS_PKEYS),
	IBDS_KEY_WORDS(width, IB_WIDTH_4X),
	IBDS_KEY_WORDS(speed, IB_SPEED_EDR),
	IBDS_KEY(vfs, 0, IBDS_MAX_VFS, 0),
	{ .name = "switch", .offset = offsetof(struct ibds_caps, sw),
	  .max = IBDS_MAX_SWITCH, .none = IBDS_NO_SWITCH },
	IBDS_KEY_WORDS(profile, IBDS_PROFILE_NONE),
	IBDS_KEY_WORDS(provider, IBDS_PROVIDER_NONE),
	IBDS_KEY(user_mem, 1, 65536, 256),
	IBDS_KEY_WORDS(rdma_netdev, IBDS_NETDEV_NONE),
	IBDS_KEY(channels, 1, 64, IBDS_DEFAULT),
	IBDS_KEY(phc_ms, 0, 1000000000, IBDS_DEFAULT),
	IBDS_KEY(phc_ppb, 0, 400000, IBDS_DEFAULT),
	IBDS_KEY(netdev_refuse, 0, MAX_ERRNO, 0),
	IBDS_KEY(netdev_init_error, 0, 1000, 0),
};

static u32 *ibds_key_field(struct ibds_caps *caps, const struct ibds_key *key)
{
	return (void *)caps + key->offset;
}

static int ibds_key_word(const struct ibds_key *key, const char *text, u32 *out)
{
	const struct ibds_word *w;
	u32 number = 0;
	bool numeric;

	numeric = !kstrtou32(text, 0, &number);
	for (w = key->words; w->word; w++) {
		if ((numeric && number == w->value) ||
		    !strcasecmp(text, w->word)) {
			*out = w->value;
			return 0;
		}
	}
	pr_err("%s=%s: no such value\n", key->name, text);
	return -EINVAL;
}

/* The keys' defaults.  Return: 0, or -EINVAL for a wrong parameter. */
static int ibds_caps_default(struct ibds_caps *caps)
{
	const struct ibds_key user = { "provider", .words = ibds_provider_words };
	const struct ibds_key like = { "profile", .words = ibds_profile_words };
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_keys); i++)
		*ibds_key_field(caps, &ibds_keys[i]) = ibds_keys[i].init;
	caps->vectors = num_online_cpus();
	return ibds_key_word(&user, provider, &caps->provider) ?:
	       ibds_key_word(&like, profile, &caps->profile);
}

/**
 * ibds_caps_show - print capabilities, one per line
 * @m: file to print to
 * @caps: capabilities
 */
void ibds_caps_show(struct seq_file *m, struct ibds_caps *caps)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_keys); i++)
		if (ibds_keys[i].words == ibds_profile_words)
			seq_printf(m, "profile %s\n",
				   ibds_profile_words[caps->profile].word);
		else
			seq_printf(m, "%s %u\n", ibds_keys[i].name,
				   *ibds_key_field(caps, &ibds_keys[i]));
}

static int ibds_key_number(const struct ibds_key *key, const char *text,
			   u32 *out)
{
	u32 number;
	int err;

	if (key->none && !strcmp(text, "none")) {
		*out = key->none;
		return 0;
	}
	err = kstrtou32(text, 0, &number);
	if (err) {
		pr_err("%s=%s: not a number\n", key->name, text);
		return err;
	}
	if (number < key->min || number > key->max) {
		pr_err("%s=%s: not in %u..%u\n", key->name, text, key->min,
		       key->max);
		return -ERANGE;
	}
	*out = number;
	return 0;
}

static int ibds_caps_set(struct ibds_caps *caps, char *pair)
{
	char *value = strchr(pair, '=');
	int i;

	if (!value) {
		pr_err("\"%s\" is not key=value\n", pair);
		return -EINVAL;
	}
	*value++ = '\0';
	for (i = 0; i < ARRAY_SIZE(ibds_keys); i++) {
		const struct ibds_key *key = &ibds_keys[i];
		u32 *field = ibds_key_field(caps, key);

		if (strcmp(key->name, pair))
			continue;
		return key->words ? ibds_key_word(key, value, field) :
				    ibds_key_number(key, value, field);
	}
	pr_err("no key \"%s\"\n", pair);
	return -EINVAL;
}

static int ibds_caps_set_all(struct ibds_caps *caps, char *pairs)
{
	char *pair;
	int err;

	while ((pair = strsep(&pairs, " \t,"))) {
		if (!*pair)
			continue;
		err = ibds_caps_set(caps, pair);
		if (err)
			return err;
	}
	return 0;
}

/* The same for what must not be changed. */
static int ibds_caps_set_copy(struct ibds_caps *caps, const char *pairs,
			      int (*set)(struct ibds_caps *, char *))
{
	char *copy = kstrdup(pairs, GFP_KERNEL);
	int err;

	if (!copy)
		return -ENOMEM;
	err = set(caps, copy);
	kfree(copy);
	return err;
}

static int ibds_caps_find_profile(struct ibds_caps *caps, char *pairs)
{
	char *pair;
	int err;

	while ((pair = strsep(&pairs, " \t,"))) {
		if (!str_has_prefix(pair, "profile="))
			continue;
		err = ibds_caps_set(caps, pair);
		if (err)
			return err;
	}
	return 0;
}

/* Set what the profile says; @pairs, in which it may be named, have the last word. */
static int ibds_caps_set_profile(struct ibds_caps *caps, const char *pairs)
{
	const char * const *part;
	int i, err;

	err = ibds_caps_set_copy(caps, hca, ibds_caps_find_profile);
	if (!err && pairs)
		err = ibds_caps_set_copy(caps, pairs, ibds_caps_find_profile);
	if (err)
		return err;
	part = ibds_profiles[caps->profile];
	for (i = 0; !err && i < ARRAY_SIZE(ibds_profiles[0]) && part[i]; i++)
		err = ibds_caps_set_copy(caps, part[i], ibds_caps_set_all);
	return err;
}

/* The defaults that depend on other keys. */
static void ibds_caps_complete(struct ibds_caps *caps, u32 id)
{
	if (caps->channels == IBDS_DEFAULT)
		caps->channels = clamp(caps->vectors, 2U, 64U);
	/* What has rings for IPoIB's QP has no offloads. */
	if (caps->rdma_netdev == IBDS_NETDEV_UD) {
		caps->csum = 0;
		caps->lso = 0;
	}
	/* The drift of the last of many HCAs has to be in bounds. */
	if (caps->phc_ms == IBDS_DEFAULT)
		caps->phc_ms = id * IBDS_PHC_APART_MS;
	if (caps->phc_ppb == IBDS_DEFAULT)
		caps->phc_ppb = id % 8 * IBDS_PHC_APART_PPB;
}

/* ib_mad takes two QPs and a CQ per port; leave some CQs for others. */
static int ibds_caps_check(const struct ibds_caps *caps)
{
	if (caps->max_cqe < caps->max_qp_wr)
		pr_warn("max_cqe=%u cannot hold a full queue of max_qp_wr=%u\n",
			caps->max_cqe, caps->max_qp_wr);
	if (caps->max_cq < 4 || caps->max_qp < 2 * caps->ports) {
		pr_err("too few QPs or CQs for the management agents\n");
		return -EINVAL;
	}
	return 0;
}

/**
 * ibds_caps_parse - parse a line written to new_device
 * @line: number of the HCA, then key=value pairs; modified
 * @id: the number
 * @caps: capabilities, defaults for keys that are not given
 *
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_caps_parse(char *line, u32 *id, struct ibds_caps *caps)
{
	char *word;
	int err;

	err = ibds_caps_default(caps);
	if (err)
		return err;
	line = strim(line);
	word = strsep(&line, " \t,");
	err = kstrtou32(word, 0, id);
	if (err || *id > IBDS_MAX_ID) {
		pr_err("\"%s\" is not a number from 0 to %u\n", word,
		       IBDS_MAX_ID);
		return err ?: -ERANGE;
	}
	err = ibds_caps_set_profile(caps, line) ?:
	      ibds_caps_set_copy(caps, hca, ibds_caps_set_all) ?:
	      ibds_caps_set_all(caps, line);
	if (err)
		return err;
	if (!caps->srq)
		caps->ud_srq = 0;
	ibds_caps_complete(caps, *id);
	return ibds_caps_check(caps);
}
