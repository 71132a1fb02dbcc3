// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: module, bus and the life of an HCA
 *
 * HCAs come and go by two files of the bus, as with netdevsim:
 *
 *	/sys/bus/ibdevsim/new_device	<id> [key=value[,key=value...]]
 *	/sys/bus/ibdevsim/del_device	<id>
 *
 * The keys are the fields of struct ibds_caps.  An HCA is first made known to
 * ib_core and then cabled to the switch, so that QP0 exists before the SM can
 * ask anything.  del_device is a hot unplug: what runs on the HCA is told by
 * ib_core and has to let go.
 *
 * ibds_bus_mutex serialises creation and removal and protects the list and
 * ibds_bus_open.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/device/bus.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "fabric.h"

#define IBDS_MAX_ID		9999

/*
 * Locally administered EUI-64s (IBA vol 1, 4.1): the octets after the company
 * part hold the HCA's number, the last one the port's.
 */
#define IBDS_GUID_BASE		0x021bd50000000000ULL

static LIST_HEAD(ibds_devs);
static DEFINE_MUTEX(ibds_bus_mutex);
static bool ibds_bus_open = true;

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
	{ "irq", IBDS_COMP_IRQ }, { "work", IBDS_COMP_WORK }, { }
};

/**
 * struct ibds_key - one key of new_device
 * @name: as written
 * @offset: of its field in struct ibds_caps
 * @min: smallest value
 * @max: largest value
 * @init: value when the key is not given, 0 for vectors: one per online CPU
 * @words: when set, the only legal values, by name or by number
 */
struct ibds_key {
	const char *name;
	size_t offset;
	u32 min, max, init;
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
	IBDS_KEY(vectors, 1, 256, 0),
	IBDS_KEY(max_sge, 1, IBDS_MAX_SGE, 32),
	IBDS_KEY(max_srq_sge, 1, IBDS_MAX_SGE, 31),
	IBDS_KEY(max_qp_wr, 16, 32768, 16384),
	IBDS_KEY(max_qp, 2, 1 << 20, 8192),
	IBDS_KEY(netif_qps, 0, 1 << 20, 0),
	IBDS_KEY(max_cq, 1, 1 << 20, 8192),
	IBDS_KEY(max_cqe, 16, 1 << 20, 65536),
	IBDS_KEY(gids, 1, IBDS_MAX_GIDS, 16),
	IBDS_KEY(pkeys, 1, IBDS_PKEYS, IBDS_PKEYS),
	IBDS_KEY_WORDS(width, IB_WIDTH_4X),
	IBDS_KEY_WORDS(speed, IB_SPEED_EDR),
	IBDS_KEY(vfs, 0, IBDS_MAX_VFS, 0),
};

static u32 *ibds_key_field(struct ibds_caps *caps, const struct ibds_key *key)
{
	return (void *)caps + key->offset;
}

static void ibds_caps_default(struct ibds_caps *caps)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_keys); i++)
		*ibds_key_field(caps, &ibds_keys[i]) = ibds_keys[i].init;
	caps->vectors = num_online_cpus();
}

/**
 * ibds_caps_show - print capabilities, a line each
 * @m: where to
 * @caps: what
 */
void ibds_caps_show(struct seq_file *m, struct ibds_caps *caps)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ibds_keys); i++)
		seq_printf(m, "%s %u\n", ibds_keys[i].name,
			   *ibds_key_field(caps, &ibds_keys[i]));
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

static int ibds_key_number(const struct ibds_key *key, const char *text,
			   u32 *out)
{
	u32 number;
	int err;

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

/* ib_mad takes two QPs and a CQ per port and leaves something for others. */
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

static int ibds_parse(char *line, u32 *id, struct ibds_caps *caps)
{
	char *word;
	int err;

	ibds_caps_default(caps);
	line = strim(line);
	word = strsep(&line, " \t,");
	err = kstrtou32(word, 0, id);
	if (err || *id > IBDS_MAX_ID) {
		pr_err("\"%s\" is not a number from 0 to %u\n", word,
		       IBDS_MAX_ID);
		return err ?: -ERANGE;
	}
	while ((word = strsep(&line, " \t,"))) {
		if (!*word)
			continue;
		err = ibds_caps_set(caps, word);
		if (err)
			return err;
	}
	if (!caps->srq)
		caps->ud_srq = 0;
	return ibds_caps_check(caps);
}

static void ibds_bus_release(struct device *dev)
{
	kfree(dev);
}

static ssize_t new_device_store(const struct bus_type *bus, const char *buf,
				size_t count);
static ssize_t del_device_store(const struct bus_type *bus, const char *buf,
				size_t count);
static BUS_ATTR_WO(new_device);
static BUS_ATTR_WO(del_device);

static struct attribute *ibds_bus_attrs[] = {
	&bus_attr_new_device.attr,
	&bus_attr_del_device.attr,
	NULL
};
ATTRIBUTE_GROUPS(ibds_bus);

static int ibds_bus_num_vf(struct device *bus_dev)
{
	struct ibds_dev *dev = dev_get_drvdata(bus_dev);

	return dev->caps.vfs;
}

static struct bus_type ibds_bus = {
	.name = "ibdevsim",
	.dev_name = "ibdevsim",
	.num_vf = ibds_bus_num_vf,
	.bus_groups = ibds_bus_groups,
};

static struct device *ibds_bus_dev_new(u32 id)
{
	struct device *dev;
	int err;

	dev = kzalloc_obj(*dev);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->id = id;
	dev->bus = &ibds_bus;
	dev->release = ibds_bus_release;
	err = device_register(dev);
	if (err) {
		put_device(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static void ibds_ports_exit(struct ibds_dev *dev, u32 ports)
{
	u32 n;

	for (n = 0; n < ports; n++)
		ibds_switch_detach(&dev->port[n]);
	/* Expedited: hot unplug should take the time its users take. */
	synchronize_rcu_expedited();
	for (n = 0; n < ports; n++) {
		ibds_line_purge(dev->port[n].sw_port);
		ibds_port_exit(&dev->port[n]);
	}
}

static int ibds_ports_init(struct ibds_dev *dev)
{
	u32 n;
	int err;

	for (n = 0; n < dev->caps.ports; n++) {
		err = ibds_port_init(&dev->port[n], dev, n + 1);
		if (err)
			goto err_ports;
		err = ibds_switch_attach(&dev->port[n]);
		if (err) {
			ibds_port_exit(&dev->port[n]);
			goto err_ports;
		}
	}
	return 0;

err_ports:
	ibds_ports_exit(dev, n);
	return err;
}

static void ibds_dev_identify(struct ibds_dev *dev, u32 id)
{
	dev->id = id;
	dev->node_guid = cpu_to_be64(IBDS_GUID_BASE + ((u64)(id + 1) << 8));
	dev->ib.node_guid = dev->node_guid;
	snprintf(dev->ib.node_desc, sizeof(dev->ib.node_desc),
		 "ibdevsim%u HCA", id);
}

static struct ibds_dev *ibds_dev_alloc(u32 id, const struct ibds_caps *caps)
{
	struct ibds_dev *dev;
	int err;

	dev = ib_alloc_device(ibds_dev, ib);
	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->caps = *caps;
	spin_lock_init(&dev->live_lock);
	spin_lock_init(&dev->vf_lock);
	ibds_dev_identify(dev, id);
	dev->dev = ibds_bus_dev_new(id);
	if (IS_ERR(dev->dev)) {
		err = PTR_ERR(dev->dev);
		goto err_dealloc;
	}
	dev_set_drvdata(dev->dev, dev);
	dev->ib.dev.parent = dev->dev;
	err = dev->caps.dma ? ibds_dma_dev_new(dev) : 0;
	if (err)
		goto err_bus_dev;
	err = ibds_verbs_setup(dev);
	if (err)
		goto err_dma_dev;
	err = ibds_ports_init(dev);
	if (err)
		goto err_verbs;
	return dev;

err_verbs:
	ibds_verbs_release(dev);
err_dma_dev:
	platform_device_unregister(dev->pdev);
err_bus_dev:
	device_unregister(dev->dev);
err_dealloc:
	ib_dealloc_device(&dev->ib);
	return ERR_PTR(err);
}

static void ibds_dev_free(struct ibds_dev *dev)
{
	struct device *bus_dev = dev->dev;
	struct platform_device *pdev = dev->pdev;

	ibds_ports_exit(dev, dev->caps.ports);
	ibds_verbs_release(dev);
	ib_dealloc_device(&dev->ib);
	platform_device_unregister(pdev);
	device_unregister(bus_dev);
}

static void ibds_dev_cable(struct ibds_dev *dev, bool in)
{
	u32 n;

	for (n = 0; n < dev->caps.ports; n++)
		ibds_port_set_link(&dev->port[n], in);
}

/* From when to when may ibds_port_event() raise events? */
static void ibds_dev_set_live(struct ibds_dev *dev, bool live)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->live_lock, flags);
	dev->live = live;
	spin_unlock_irqrestore(&dev->live_lock, flags);
}

static int ibds_dev_add(u32 id, const struct ibds_caps *caps)
{
	struct ibds_dev *dev;
	char name[IB_DEVICE_NAME_MAX];
	int err;

	dev = ibds_dev_alloc(id, caps);
	if (IS_ERR(dev)) {
		pr_err("ibdevsim%u: cannot create, error %pe\n", id, dev);
		return PTR_ERR(dev);
	}
	snprintf(name, sizeof(name), "ibdevsim%u", id);
	err = ib_register_device(&dev->ib, name,
				 dev->pdev ? &dev->pdev->dev : NULL);
	if (err) {
		pr_err("%s: cannot register, error %d\n", name, err);
		ibds_dev_free(dev);
		return err;
	}
	list_add_tail(&dev->list, &ibds_devs);
	ibds_debugfs_add(dev);
	ibds_dev_set_live(dev, true);
	ibds_dev_cable(dev, true);
	return 0;
}

/*
 * Have an HCA that goes away answer no MAD any more.  ib_mad takes down what
 * sends the answers of process_mad() with no regard to one that is on its way
 * (agent_send_response() keeps no reference), so none may be then.
 */
static void ibds_dev_silence(struct ibds_dev *dev)
{
	int tries = 1000;

	WRITE_ONCE(dev->leaving, true);
	while (!ibds_mads_done(dev) && tries--)
		usleep_range(100, 1000);
}

static void ibds_dev_del(struct ibds_dev *dev)
{
	list_del(&dev->list);
	ibds_debugfs_del(dev);
	ibds_dev_set_live(dev, false);
	ibds_dev_silence(dev);
	ib_unregister_device(&dev->ib);
	ibds_dev_cable(dev, false);
	ibds_dev_free(dev);
}

static struct ibds_dev *ibds_dev_find(u32 id)
{
	struct ibds_dev *dev;

	list_for_each_entry(dev, &ibds_devs, list)
		if (dev->id == id)
			return dev;
	return NULL;
}

static ssize_t new_device_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	struct ibds_caps caps;
	char *line;
	u32 id;
	int err;

	line = kstrndup(buf, count, GFP_KERNEL);
	if (!line)
		return -ENOMEM;
	err = ibds_parse(line, &id, &caps);
	kfree(line);
	if (err)
		return err;

	mutex_lock(&ibds_bus_mutex);
	if (!ibds_bus_open) {
		err = -ENODEV;
	} else if (ibds_dev_find(id)) {
		pr_err("ibdevsim%u exists\n", id);
		err = -EEXIST;
	} else {
		err = ibds_dev_add(id, &caps);
	}
	mutex_unlock(&ibds_bus_mutex);
	return err ?: count;
}

static ssize_t del_device_store(const struct bus_type *bus, const char *buf,
				size_t count)
{
	struct ibds_dev *dev;
	u32 id;
	int err;

	err = kstrtou32(buf, 0, &id);
	if (err) {
		pr_err("del_device wants the number of an HCA\n");
		return err;
	}
	mutex_lock(&ibds_bus_mutex);
	dev = ibds_dev_find(id);
	if (dev) {
		ibds_dev_del(dev);
	} else {
		pr_err("no ibdevsim%u\n", id);
		err = -ENODEV;
	}
	mutex_unlock(&ibds_bus_mutex);
	return err ?: count;
}

/* No HCA is left: senders stop, then packets, then what packets need goes. */
static void ibds_fabric_exit(void)
{
	ibds_debugfs_exit();
	ibds_switch_stop();
	ibds_line_exit();
	ibds_switch_exit();
}

static int __init ibds_init(void)
{
	int err;

	err = ibds_datapath_init();
	if (err)
		return err;
	err = ibds_line_init();
	if (err)
		goto err_datapath;
	err = ibds_switch_init();
	if (err) {
		ibds_line_exit();
		goto err_datapath;
	}
	ibds_debugfs_init();
	err = bus_register(&ibds_bus);
	if (err)
		goto err_debugfs;
	return 0;

err_debugfs:
	ibds_fabric_exit();
err_datapath:
	ibds_datapath_exit();
	return err;
}

static void __exit ibds_exit(void)
{
	struct ibds_dev *dev, *next;

	mutex_lock(&ibds_bus_mutex);
	ibds_bus_open = false;
	list_for_each_entry_safe(dev, next, &ibds_devs, list)
		ibds_dev_del(dev);
	mutex_unlock(&ibds_bus_mutex);
	bus_unregister(&ibds_bus);
	ibds_fabric_exit();
	ibds_datapath_exit();
	/* What call_rcu() has in flight points into this module. */
	rcu_barrier();
}

module_init(ibds_init);
module_exit(ibds_exit);
MODULE_DESCRIPTION("Simulated InfiniBand fabric");
MODULE_LICENSE("GPL");
