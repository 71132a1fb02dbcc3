// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the shape of the fabric: which switches there are, and the cables
 *
 * Switch 0 is always there.  Each HCA port begins at a switch (key "switch") and
 * can be moved; what is written is <id> [ports=<n>] for a switch, and
 * ibdevsim<id>/<port> or switch<id>/<port> for the end of a cable.
 *
 * Context of all of it: process, ibds_bus_mutex is held.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ctype.h>
#include <linux/rculist.h>
#include <linux/string.h>

#include "debugfs.h"
#include "line.h"
#include "link.h"
#include "swagent.h"
#include "switch.h"
#include "topo.h"

/**
 * struct ibds_cable_end - an end of a cable, as written
 * @port: HCA port, or NULL
 * @sp: or the switch port
 */
struct ibds_cable_end {
	struct ibds_port *port;
	struct ibds_sw_port *sp;
};

/* ---- switches ------------------------------------------------------------- */

static int ibds_topo_add(u32 id, u32 ports)
{
	struct ibds_switch *sw = ibds_switch_alloc(id, ports);

	if (!sw)
		return -ENOMEM;
	ibds_swagent_init(sw);
	list_add_tail_rcu(&sw->list, &ibds_switches);
	ibds_debugfs_add_switch(sw);
	return 0;
}

static void ibds_topo_del(struct ibds_switch *sw)
{
	u32 n;

	ibds_debugfs_del_switch(sw);
	for (n = 1; n <= sw->ports; n++)
		ibds_cable_remove(&sw->port[n]);
	list_del_rcu(&sw->list);
	ibds_route_changed();
	synchronize_rcu_expedited();
	/* What is on its way to the switch, and then what its agents may do. */
	ibds_line_purge(sw, NULL);
	flush_workqueue(ibds_wq);
	ibds_swagent_exit(sw);
	ibds_switch_free(sw);
}

/**
 * ibds_topo_new_switch - create a switch
 * @text: "<id> [ports=<n>]"; modified
 *
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_topo_new_switch(char *text)
{
	u32 id, ports = ibds_switch_default_ports();
	char *word;
	int err;

	text = strim(text);
	word = strsep(&text, " ");
	if (kstrtou32(word, 0, &id) || id > IBDS_MAX_SWITCH) {
		pr_err("\"%.40s\" is not a number from 0 to %u\n", word,
		       IBDS_MAX_SWITCH);
		return -EINVAL;
	}
	if (text && (!str_has_prefix(text, "ports=") ||
		     kstrtou32(text + strlen("ports="), 0, &ports) || !ports ||
		     ports > IBDS_SWITCH_PORTS)) {
		pr_err("\"%.40s\" is not ports=<n> with n in 1..%u\n", text,
		       IBDS_SWITCH_PORTS);
		return -EINVAL;
	}
	if (ibds_switch_find(id)) {
		pr_err("switch%u exists\n", id);
		return -EEXIST;
	}
	err = ibds_topo_add(id, ports);
	if (err)
		pr_err("switch%u: cannot create, error %d\n", id, err);
	return err;
}

static bool ibds_switch_has_hca(const struct ibds_switch *sw)
{
	u32 n;

	for (n = 1; n <= sw->ports; n++)
		if (rcu_access_pointer(sw->port[n].peer))
			return true;
	return false;
}

/**
 * ibds_topo_del_switch - remove a switch and the cables to others
 * @text: "<id>"
 *
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_topo_del_switch(char *text)
{
	struct ibds_switch *sw;
	u32 id;

	text = strim(text);
	if (kstrtou32(text, 0, &id)) {
		pr_err("\"%.40s\" is not the number of a switch\n", text);
		return -EINVAL;
	}
	sw = ibds_switch_find(id);
	if (!sw) {
		pr_err("no switch%u\n", id);
		return -ENODEV;
	}
	if (!id) {
		pr_err("switch0 is always there\n");
		return -EBUSY;
	}
	if (ibds_switch_has_hca(sw)) {
		pr_err("switch%u has HCAs\n", id);
		return -EBUSY;
	}
	ibds_topo_del(sw);
	return 0;
}

/* ---- cables --------------------------------------------------------------- */

/* "<kind><id>/<port>" */
static bool ibds_end_numbers(const char *word, const char *kind, u32 *id,
			     u32 *num)
{
	size_t skip = str_has_prefix(word, kind);
	char text[24], *port = text;

	if (!skip || strscpy(text, word + skip, sizeof(text)) < 0)
		return false;
	strsep(&port, "/");
	return port && isdigit(*text) && isdigit(*port) &&
		!kstrtou32(text, 10, id) && !kstrtou32(port, 10, num);
}

static int ibds_end_parse(const char *word, struct ibds_cable_end *end)
{
	struct ibds_switch *sw;
	u32 id, num;

	memset(end, 0, sizeof(*end));
	if (ibds_end_numbers(word, "ibdevsim", &id, &num)) {
		end->port = ibds_slot_find(id, num);
	} else if (ibds_end_numbers(word, "switch", &id, &num)) {
		sw = ibds_switch_find(id);
		end->sp = sw ? ibds_switch_port(sw, num) : NULL;
	} else {
		pr_err("\"%.40s\" is neither ibdevsim<id>/<port> nor switch<id>/<port>\n",
		       word);
		return -EINVAL;
	}
	if (end->port || end->sp)
		return 0;
	pr_err("no %.40s\n", word);
	return -ENODEV;
}

/* Remove a cable, and what is on its way through it. */
static void ibds_topo_remove(struct ibds_sw_port *sp)
{
	struct ibds_sw_port *far = rcu_dereference_protected(sp->far, true);

	ibds_cable_remove(sp);
	synchronize_rcu_expedited();
	ibds_line_purge(NULL, sp);
	if (far)
		ibds_line_purge(NULL, far);
}

/* An HCA port has one cable, which is moved. */
static void ibds_topo_move(struct ibds_port *port, struct ibds_sw_port *sp)
{
	struct ibds_sw_port *old = rcu_dereference_protected(port->cable, true);

	if (old)
		ibds_topo_remove(old);
	ibds_cable_hca(port, sp);
}

/**
 * ibds_topo_link - connect two ports
 * @text: both ends; modified.  At least one is a switch's; ports of switches have
 *	to be free, an HCA port is moved
 *
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_topo_link(char *text)
{
	struct ibds_cable_end end[2];
	char *word[2];
	int i, err;

	text = strim(text);
	for (i = 0; i < 2; i++) {
		word[i] = strsep(&text, " ") ?: "";
		err = ibds_end_parse(word[i], &end[i]);
		if (err)
			return err;
		if (end[i].sp && !ibds_cable_free(end[i].sp)) {
			pr_err("%.40s has a cable\n", word[i]);
			return -EBUSY;
		}
	}
	if (text || (end[0].port && end[1].port) ||
	    (end[0].sp && end[0].sp == end[1].sp)) {
		pr_err("a cable has two ends, and one at least is a switch's\n");
		return -EINVAL;
	}
	if (end[0].port)
		ibds_topo_move(end[0].port, end[1].sp);
	else if (end[1].port)
		ibds_topo_move(end[1].port, end[0].sp);
	else
		ibds_cable_switches(end[0].sp, end[1].sp);
	return 0;
}

/**
 * ibds_topo_unlink - remove a cable
 * @text: one of its ends
 *
 * Return: 0 or -errno; the reason is logged.
 */
int ibds_topo_unlink(char *text)
{
	struct ibds_cable_end end;
	int err;

	text = strim(text);
	err = ibds_end_parse(text, &end);
	if (err)
		return err;
	if (end.port)
		end.sp = rcu_dereference_protected(end.port->cable, true);
	if (!end.sp || ibds_cable_free(end.sp)) {
		pr_err("%.40s has no cable\n", text);
		return -ENOTCONN;
	}
	ibds_topo_remove(end.sp);
	return 0;
}

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ibds_topo_init - create switch 0
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_topo_init(void)
{
	return ibds_topo_add(0, ibds_switch_default_ports());
}

/**
 * ibds_topo_exit - remove all switches; no HCA is left
 */
void ibds_topo_exit(void)
{
	struct ibds_switch *sw, *next;

	list_for_each_entry_safe(sw, next, &ibds_switches, list)
		ibds_topo_del(sw);
}
