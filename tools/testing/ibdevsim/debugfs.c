// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: knobs and counters in /sys/kernel/debug/ibdevsim
 *
 *	switch/... switch<id>/...	per switch
 *	ibdevsim<id>/...		per HCA
 *	ibdevsim<id>/port<n>/...	per port
 *
 * Nearly every file is a line of text and has an entry in one of the tables
 * below; see README.rst for their meaning.  Files are removed before the HCA,
 * and debugfs waits for running handlers, so they need no reference.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "call.h"
#include "caps.h"
#include "count.h"
#include "cq.h"
#include "debugfs.h"
#include "fault.h"
#include "inject.h"
#include "link.h"
#include "object.h"
#include "pcap.h"
#include "port.h"
#include "qp.h"
#include "sma.h"
#include "swagent.h"
#include "switch.h"

#define IBDS_TEXT_MAX		127
#define IBDS_EVENTS_MAX		10000	/* raised at a time */
#define IBDS_INJECT_MAX		(80 * 1024)	/* a whole message */

struct ibds_knob;

/**
 * struct ibds_file - a text file
 * @name: of the file
 * @show: prints it, NULL: write-only
 * @store: takes a line, NULL: read-only; returns 0 or -errno
 * @offset: offset of a fault in struct ibds_faults
 */
struct ibds_file {
	const char *name;
	void (*show)(struct seq_file *m, const struct ibds_knob *knob);
	int (*store)(const struct ibds_knob *knob, char *text);
	size_t offset;
};

/**
 * struct ibds_knob - a file of a certain HCA, port or switch
 * @file: kind of file
 * @dev: HCA
 * @port: port, NULL for files of the HCA
 * @sw: switch, if it is none of an HCA
 */
struct ibds_knob {
	const struct ibds_file *file;
	struct ibds_dev *dev;
	struct ibds_port *port;
	struct ibds_switch *sw;
};

/**
 * struct ibds_knobs - files of an HCA, a port or a switch
 * @dir: directory they are in
 * @knob: one for each file
 */
struct ibds_knobs {
	struct dentry *dir;
	struct ibds_knob knob[];
};

static struct dentry *ibds_root;

/* ---- faults ------------------------------------------------------------- */

static void *fault_field(const struct ibds_knob *knob)
{
	return (void *)&knob->port->faults + knob->file->offset;
}

/* Run the work that was waiting for a fault to be lifted. */
static void fault_changed(struct ibds_port *port)
{
	ibds_faults_update(port);
	ibds_qps_kick(port);
	ibds_cqs_update(port->dev);
}

static void fault_u32_show(struct seq_file *m, const struct ibds_knob *knob)
{
	u32 *field = fault_field(knob);

	seq_printf(m, "%u\n", READ_ONCE(*field));
}

static int fault_u32_store(const struct ibds_knob *knob, char *text)
{
	u32 *field = fault_field(knob);
	u32 value;
	int err;

	err = kstrtou32(text, 0, &value);
	if (err)
		return err;
	WRITE_ONCE(*field, value);
	fault_changed(knob->port);
	return 0;
}

static void fault_bool_show(struct seq_file *m, const struct ibds_knob *knob)
{
	bool *field = fault_field(knob);

	seq_printf(m, "%d\n", READ_ONCE(*field));
}

static int fault_bool_store(const struct ibds_knob *knob, char *text)
{
	bool *field = fault_field(knob);
	bool value;
	int err;

	err = kstrtobool(text, &value);
	if (err)
		return err;
	WRITE_ONCE(*field, value);
	fault_changed(knob->port);
	return 0;
}

static void fault_atomic_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_printf(m, "%d\n", atomic_read(fault_field(knob)));
}

static int fault_atomic_store(const struct ibds_knob *knob, char *text)
{
	int value, err;

	err = kstrtoint(text, 0, &value);
	if (err)
		return err;
	if (value < 0)
		return -ERANGE;
	atomic_set(fault_field(knob), value);
	fault_changed(knob->port);
	return 0;
}

static void armed_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_printf(m, "%d\n", READ_ONCE(knob->port->faults.armed));
}

/* ---- a port's other files ----------------------------------------------- */

static void counters_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_counters_show(m, knob->port);
}

static void errors_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_port_errors_show(m, knob->port);
}

static int errors_store(const struct ibds_knob *knob, char *text)
{
	return ibds_port_link_error(knob->port, text);
}

static void port_link_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_puts(m, READ_ONCE(knob->port->link_up) ? "up\n" : "down\n");
}

static int port_link_store(const struct ibds_knob *knob, char *text)
{
	static const char * const words[] = { "down", "up" };
	int up = match_string(words, ARRAY_SIZE(words), text);

	if (up < 0)
		return up;
	ibds_port_set_link(knob->port, up);
	return 0;
}

static void state_show(struct seq_file *m, const struct ibds_knob *knob)
{
	static const char * const names[] = {
		[IB_PORT_DOWN] = "down", [IB_PORT_INIT] = "init",
		[IB_PORT_ARMED] = "armed", [IB_PORT_ACTIVE] = "active",
	};

	seq_printf(m, "%s\n", names[READ_ONCE(knob->port->state)]);
}

static void lid_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_printf(m, "%u\n", READ_ONCE(knob->port->lid));
}

static int set_lid_store(const struct ibds_knob *knob, char *text)
{
	u16 lid;
	int err;

	err = kstrtou16(text, 0, &lid);
	if (err)
		return err;
	if (!lid || lid >= IBDS_MFT_BASE)
		return -ERANGE;
	ibds_port_set_lid(knob->port, lid);
	return 0;
}

static int set_prefix_store(const struct ibds_knob *knob, char *text)
{
	u64 prefix;
	int err;

	err = kstrtou64(text, 16, &prefix);
	if (err)
		return err;
	ibds_port_set_prefix(knob->port, cpu_to_be64(prefix));
	return 0;
}

static void pkeys_show(struct seq_file *m, const struct ibds_knob *knob)
{
	u32 i;

	for (i = 0; i < knob->dev->caps.pkeys; i++) {
		u16 pkey = READ_ONCE(knob->port->pkeys[i]);

		if (pkey)
			seq_printf(m, "%u 0x%04x\n", i, pkey);
	}
}

static int set_pkey_store(const struct ibds_knob *knob, char *text)
{
	u32 index, pkey;

	if (sscanf(text, "%u %i", &index, &pkey) != 2 || pkey > U16_MAX)
		return -EINVAL;
	return ibds_port_set_pkey(knob->port, index, pkey);
}

static void guids_show(struct seq_file *m, const struct ibds_knob *knob)
{
	u32 i;

	for (i = 0; i < knob->dev->caps.gids; i++) {
		u64 guid = be64_to_cpu(READ_ONCE(knob->port->guids[i]));

		if (guid)
			seq_printf(m, "%u 0x%016llx\n", i, guid);
	}
}

/* "index" generates an alias GUID, "index guid" sets one, 0 removes it. */
static int guids_store(const struct ibds_knob *knob, char *text)
{
	u64 guid = be64_to_cpu(knob->port->guid);
	u32 index;
	int n;

	n = sscanf(text, "%u %llx", &index, &guid);
	if (n < 1)
		return -EINVAL;
	if (n == 1)
		guid |= (u64)index << 32;
	return ibds_port_set_guid(knob->port, index, cpu_to_be64(guid));
}

static void mirror_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_printf(m, "%d\n", READ_ONCE(knob->port->mirror));
}

static int mirror_store(const struct ibds_knob *knob, char *text)
{
	bool on;
	int err;

	err = kstrtobool(text, &on);
	if (!err)
		ibds_pcap_set(knob->port, on);
	return err;
}

static void sa_patch_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_sa_patch_show(m, knob->port);
}

static int sa_patch_store(const struct ibds_knob *knob, char *text)
{
	return ibds_sa_patch_store(knob->port, text);
}

static int event_type(const char *name)
{
	static const struct {
		const char *name;
		enum ib_event_type type;
	} events[] = {
		{ "port_active", IB_EVENT_PORT_ACTIVE },
		{ "port_err", IB_EVENT_PORT_ERR },
		{ "lid_change", IB_EVENT_LID_CHANGE },
		{ "pkey_change", IB_EVENT_PKEY_CHANGE },
		{ "sm_change", IB_EVENT_SM_CHANGE },
		{ "client_reregister", IB_EVENT_CLIENT_REREGISTER },
		{ "gid_change", IB_EVENT_GID_CHANGE },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(events); i++)
		if (!strcmp(name, events[i].name))
			return events[i].type;
	return -EINVAL;
}

/* "name", "name times" or "name times port" */
static int event_store(const struct ibds_knob *knob, char *text)
{
	u32 number[] = { 1, knob->port->num };	/* times, port */
	const char *name = strsep(&text, " ");
	int type = event_type(name), i, err;

	if (type < 0)
		return type;
	for (i = 0; text && i < ARRAY_SIZE(number); i++) {
		err = kstrtou32(strsep(&text, " "), 10, &number[i]);
		if (err)
			return err;
	}
	if (text)
		return -EINVAL;
	if (number[0] > IBDS_EVENTS_MAX)
		return -ERANGE;
	return ibds_port_event_raise(knob->dev, number[1], type, number[0]);
}

#define IBDS_FAULT(field, kind) { \
	.name = #field, .offset = offsetof(struct ibds_faults, field), \
	.show = fault_##kind##_show, .store = fault_##kind##_store }

static const struct ibds_file port_files[] = {
	IBDS_FAULT(loss_ppm, u32),
	IBDS_FAULT(delay_us, u32),
	IBDS_FAULT(jitter_us, u32),
	IBDS_FAULT(dup_ppm, u32),
	IBDS_FAULT(reorder_ppm, u32),
	IBDS_FAULT(truncate, u32),
	IBDS_FAULT(send_error, atomic),
	IBDS_FAULT(rc_send_error, atomic),
	IBDS_FAULT(recv_post_error, atomic),
	IBDS_FAULT(send_post_error, atomic),
	IBDS_FAULT(create_error, atomic),
	IBDS_FAULT(create_skip, atomic),
	IBDS_FAULT(modify_error, atomic),
	IBDS_FAULT(modify_skip, atomic),
	IBDS_FAULT(map_error, atomic),
	IBDS_FAULT(map_skip, atomic),
	IBDS_FAULT(attach_error, atomic),
	IBDS_FAULT(detach_error, atomic),
	IBDS_FAULT(pkey_error, atomic),
	IBDS_FAULT(netdev_refuse, u32),
	IBDS_FAULT(netdev_init_error, atomic),
	IBDS_FAULT(ah_delay_us, u32),
	IBDS_FAULT(create_delay_ms, u32),
	IBDS_FAULT(destroy_delay_ms, u32),
	IBDS_FAULT(reset_delay_ms, u32),
	IBDS_FAULT(modify_delay_ms, u32),
	IBDS_FAULT(attach_delay_ms, u32),
	IBDS_FAULT(query_delay_ms, u32),
	IBDS_FAULT(wedged, bool),
	IBDS_FAULT(wedged_special, bool),
	IBDS_FAULT(wedged_rings, u32),
	IBDS_FAULT(defer_tx, bool),
	IBDS_FAULT(mad_delay_ms, u32),
	IBDS_FAULT(mad_drop, u32),
	IBDS_FAULT(sa_drop, bool),
	IBDS_FAULT(sa_delay_ms, u32),
	IBDS_FAULT(doorbell_ns, u32),
	IBDS_FAULT(irq_ns, u32),
	IBDS_FAULT(lose_events, bool),
	IBDS_FAULT(cqe_qp, u32),
	IBDS_FAULT(cqe_send_error, atomic),
	IBDS_FAULT(cqe_recv_error, atomic),
	IBDS_FAULT(cqe_status, u32),
	IBDS_FAULT(cqe_lose, atomic),
	IBDS_FAULT(cqe_twice, atomic),
	IBDS_FAULT(cqe_delay_ms, u32),
	{ .name = "armed", .show = armed_show },
	{ .name = "counters", .show = counters_show },
	{ .name = "errors", .show = errors_show, .store = errors_store },
	{ .name = "link", .show = port_link_show, .store = port_link_store },
	{ .name = "state", .show = state_show },
	{ .name = "lid", .show = lid_show },
	{ .name = "set_lid", .store = set_lid_store },
	{ .name = "set_prefix", .store = set_prefix_store },
	{ .name = "pkeys", .show = pkeys_show },
	{ .name = "set_pkey", .store = set_pkey_store },
	{ .name = "guids", .show = guids_show, .store = guids_store },
	{ .name = "mirror", .show = mirror_show, .store = mirror_store },
	{ .name = "event", .store = event_store },
	{ .name = "sa_patch", .show = sa_patch_show, .store = sa_patch_store },
};

/* ---- an HCA's files ----------------------------------------------------- */

static void caps_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_caps_show(m, &knob->dev->caps);
}

static void qps_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_qps_show(m, knob->dev);
}

static void objects_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_objects_show(m, knob->dev);
}

/* "qpn": to ERR with IB_EVENT_QP_FATAL; "sqe qpn": to SQE. */
static int qp_error_store(const struct ibds_knob *knob, char *text)
{
	bool sqe = !strncmp(text, "sqe ", 4);
	u32 qpn;
	int err;

	err = kstrtou32(text + (sqe ? 4 : 0), 0, &qpn);
	return err ?: ibds_qp_break(knob->dev, qpn, sqe);
}

static int set_sys_guid_store(const struct ibds_knob *knob, char *text)
{
	u64 guid;
	int err;

	err = kstrtou64(text, 16, &guid);
	if (!err)
		ibds_set_sys_guid(knob->dev, cpu_to_be64(guid));
	return err;
}

static void fatal_show(struct seq_file *m, const struct ibds_knob *knob)
{
	seq_printf(m, "%d\n", READ_ONCE(knob->dev->fatal));
}

static int fatal_store(const struct ibds_knob *knob, char *text)
{
	struct ibds_dev *dev = knob->dev;
	bool on;
	int err;
	u32 n;

	err = kstrtobool(text, &on);
	if (err)
		return err;
	/* Only del_device ends this state. */
	if (!on)
		return -EINVAL;
	WRITE_ONCE(dev->fatal, true);
	ibds_port_event(&dev->port[0], IB_EVENT_DEVICE_FATAL);
	ibds_qps_error(dev);
	for (n = 0; n < dev->caps.ports; n++)
		ibds_port_set_link(&dev->port[n], false);
	return 0;
}

static const struct ibds_file dev_files[] = {
	{ .name = "caps", .show = caps_show },
	{ .name = "qps", .show = qps_show },
	{ .name = "objects", .show = objects_show },
	{ .name = "qp_error", .store = qp_error_store },
	{ .name = "set_sys_guid", .store = set_sys_guid_store },
	{ .name = "fatal", .show = fatal_show, .store = fatal_store },
};

/* ---- a switch's files ---------------------------------------------------- */

static void ports_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_switch_ports_show(m, knob->sw);
}

static void lft_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_switch_lft_show(m, knob->sw);
}

static void sl2vl_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_switch_sl2vl_show(m, knob->sw);
}

static void mft_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_switch_mft_show(m, knob->sw);
}

static void switch_counters_show(struct seq_file *m,
				 const struct ibds_knob *knob)
{
	ibds_switch_counters_show(m, knob->sw);
}

static int switch_errors_store(const struct ibds_knob *knob, char *text)
{
	return ibds_switch_link_error(knob->sw, text);
}

static const struct ibds_file switch_files[] = {
	{ .name = "ports", .show = ports_show },
	{ .name = "lft", .show = lft_show },
	{ .name = "sl2vl", .show = sl2vl_show },
	{ .name = "mft", .show = mft_show },
	{ .name = "counters", .show = switch_counters_show },
	{ .name = "errors", .store = switch_errors_store },
};

static int routes_show(struct seq_file *m, void *unused)
{
	ibds_routes_show(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(routes);

/* ---- files of the whole fabric ------------------------------------------- */

static void calls_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_calls_show(m);
}

static int calls_store(const struct ibds_knob *knob, char *text)
{
	return ibds_calls_store(text);
}

static void fail_call_show(struct seq_file *m, const struct ibds_knob *knob)
{
	ibds_fail_call_show(m);
}

static int fail_call_store(const struct ibds_knob *knob, char *text)
{
	return ibds_fail_call_store(text);
}

static const struct ibds_file root_files[] = {
	{ .name = "calls", .show = calls_show, .store = calls_store },
	{ .name = "fail_call", .show = fail_call_show,
	  .store = fail_call_store },
};

static struct ibds_knob root_knob[ARRAY_SIZE(root_files)];

/* ---- file operations ---------------------------------------------------- */

static int knob_show(struct seq_file *m, void *unused)
{
	const struct ibds_knob *knob = m->private;

	knob->file->show(m, knob);
	return 0;
}

/* The mode of a file does not stop root from opening it. */
static int knob_open(struct inode *inode, struct file *file)
{
	const struct ibds_knob *knob = inode->i_private;

	if (((file->f_mode & FMODE_READ) && !knob->file->show) ||
	    ((file->f_mode & FMODE_WRITE) && !knob->file->store))
		return -EACCES;
	return single_open(file, knob_show, inode->i_private);
}

static ssize_t knob_write(struct file *file, const char __user *buf,
			  size_t count, loff_t *ppos)
{
	const struct ibds_knob *knob = file_inode(file)->i_private;
	char text[IBDS_TEXT_MAX + 1];
	int err;

	if (count > IBDS_TEXT_MAX)
		return -E2BIG;
	if (copy_from_user(text, buf, count))
		return -EFAULT;
	text[count] = '\0';
	err = knob->file->store(knob, strim(text));
	return err ?: count;
}

static const struct file_operations knob_fops = {
	.owner = THIS_MODULE,
	.open = knob_open,
	.read = seq_read,
	.write = knob_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static ssize_t inject_write(struct file *file, const char __user *buf,
			    size_t count, loff_t *ppos)
{
	struct ibds_port *port = file->private_data;
	u8 *wire;
	int err;

	if (count > IBDS_INJECT_MAX)
		return -E2BIG;
	wire = memdup_user(buf, count);
	if (IS_ERR(wire))
		return PTR_ERR(wire);
	err = ibds_inject(port, wire, count);
	kfree(wire);
	return err ?: count;
}

static const struct file_operations inject_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = inject_write,
};

/* ---- setup and teardown ------------------------------------------------- */

static struct ibds_knobs *ibds_knobs_make(const char *name,
					  struct dentry *parent,
					  const struct ibds_file *files, int n,
					  const struct ibds_knob *of)
{
	struct ibds_knobs *knobs;
	umode_t mode;
	int i;

	knobs = kzalloc_flex(*knobs, knob, n);
	if (!knobs)
		return NULL;
	knobs->dir = debugfs_create_dir(name, parent);
	for (i = 0; i < n; i++) {
		knobs->knob[i] = *of;
		knobs->knob[i].file = &files[i];
		mode = (files[i].show ? 0444 : 0) | (files[i].store ? 0200 : 0);
		debugfs_create_file(files[i].name, mode, knobs->dir,
				    &knobs->knob[i], &knob_fops);
	}
	return knobs;
}

static void ibds_debugfs_add_port(struct ibds_dev *dev, struct ibds_port *port)
{
	const struct ibds_knob of = { .dev = dev, .port = port };
	char name[8];

	snprintf(name, sizeof(name), "port%u", port->num);
	port->knobs = ibds_knobs_make(name, dev->knobs->dir, port_files,
				      ARRAY_SIZE(port_files), &of);
	if (!port->knobs)
		return;
	debugfs_create_file("inject", 0200, port->knobs->dir, port,
			    &inject_fops);
	debugfs_create_file("pcap", 0400, port->knobs->dir, port,
			    &ibds_pcap_fops);
}

/* As usual with debugfs, failing to create files is not an error. */
void ibds_debugfs_add(struct ibds_dev *dev)
{
	const struct ibds_knob of = { .dev = dev };
	u32 n;

	dev->knobs = ibds_knobs_make(dev_name(dev->dev), ibds_root, dev_files,
				     ARRAY_SIZE(dev_files), &of);
	if (!dev->knobs)
		return;
	for (n = 0; n < dev->caps.ports; n++)
		ibds_debugfs_add_port(dev, &dev->port[n]);
}

void ibds_debugfs_del(struct ibds_dev *dev)
{
	u32 n;

	if (!dev->knobs)
		return;
	for (n = 0; n < dev->caps.ports; n++)
		ibds_pcap_close(&dev->port[n]);
	debugfs_remove_recursive(dev->knobs->dir);
	for (n = 0; n < dev->caps.ports; n++)
		kfree(dev->port[n].knobs);
	kfree(dev->knobs);
	dev->knobs = NULL;
}

void ibds_debugfs_add_switch(struct ibds_switch *sw)
{
	const struct ibds_knob of = { .sw = sw };
	char name[sizeof("switch4294967295")] = "switch";

	if (sw->id)
		snprintf(name, sizeof(name), "switch%u", sw->id);
	sw->knobs = ibds_knobs_make(name, ibds_root, switch_files,
				    ARRAY_SIZE(switch_files), &of);
}

void ibds_debugfs_del_switch(struct ibds_switch *sw)
{
	if (!sw->knobs)
		return;
	debugfs_remove_recursive(sw->knobs->dir);
	kfree(sw->knobs);
	sw->knobs = NULL;
}

void ibds_debugfs_init(void)
{
	int i;

	ibds_root = debugfs_create_dir("ibdevsim", NULL);
	debugfs_create_file("routes", 0400, ibds_root, NULL, &routes_fops);
	for (i = 0; i < ARRAY_SIZE(root_files); i++) {
		root_knob[i].file = &root_files[i];
		debugfs_create_file(root_files[i].name, 0600, ibds_root,
				    &root_knob[i], &knob_fops);
	}
}

void ibds_debugfs_exit(void)
{
	debugfs_remove_recursive(ibds_root);
}
