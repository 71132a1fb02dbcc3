// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: performance management agent
 *
 * Answers ClassPortInfo, PortCounters, PortCountersExtended, PortRcvErrorDetails
 * and PortXmitDiscardDetails (IBA vol 1, 16.1) for HCA ports and, from the
 * counters of the HCA at the other end, for switch ports.  Set moves a base that
 * is subtracted from the simulator's counters, which never decrease.  Errors
 * that the simulator cannot have are added by users.
 */
#include <linux/seq_file.h>
#include <linux/string.h>
#include <rdma/ib_pack.h>

#include "pma.h"

#define IBDS_PMA_RCV_ERROR_DETAILS	cpu_to_be16(0x0015)
#define IBDS_PMA_XMIT_DISCARD_DETAILS	cpu_to_be16(0x0016)

/* Response time 4.096 us * 2^18, about one second, as usual. */
#define IBDS_PMA_RESP_TIME		18

#define IBDS_PMA_ALL_PORTS		0xff

static const char * const ibds_pma_names[IBDS_PMA_COUNTERS] = {
	[IBDS_PMA_SYMBOL_ERROR] = "symbol_error",
	[IBDS_PMA_LINK_RECOVERY] = "link_error_recovery",
	[IBDS_PMA_LINK_DOWNED] = "link_downed",
	[IBDS_PMA_RCV_ERRORS] = "port_rcv_errors",
	[IBDS_PMA_RCV_REMPHYS] = "port_rcv_remote_physical_errors",
	[IBDS_PMA_RCV_RELAY] = "port_rcv_switch_relay_errors",
	[IBDS_PMA_XMIT_DISCARDS] = "port_xmit_discards",
	[IBDS_PMA_XMIT_CONSTRAINT] = "port_xmit_constraint_errors",
	[IBDS_PMA_RCV_CONSTRAINT] = "port_rcv_constraint_errors",
	[IBDS_PMA_INTEGRITY] = "local_link_integrity_errors",
	[IBDS_PMA_OVERRUN] = "excessive_buffer_overrun_errors",
	[IBDS_PMA_VL15_DROPPED] = "VL15_dropped",
	[IBDS_PMA_XMIT_DATA] = "port_xmit_data",
	[IBDS_PMA_RCV_DATA] = "port_rcv_data",
	[IBDS_PMA_XMIT_PKTS] = "port_xmit_packets",
	[IBDS_PMA_RCV_PKTS] = "port_rcv_packets",
	[IBDS_PMA_XMIT_WAIT] = "port_xmit_wait",
	[IBDS_PMA_LOCAL_PHYSICAL] = "port_local_physical_errors",
	[IBDS_PMA_MALFORMED] = "port_malformed_packet_errors",
	[IBDS_PMA_BUFFER_OVERRUN] = "port_buffer_overrun_errors",
	[IBDS_PMA_DLID_MAPPING] = "port_dlid_mapping_errors",
	[IBDS_PMA_VL_MAPPING] = "port_vl_mapping_errors",
	[IBDS_PMA_LOOPING] = "port_looping_errors",
	[IBDS_PMA_INACTIVE] = "port_inactive_discards",
	[IBDS_PMA_NEIGHBOR_MTU] = "port_neighbor_mtu_discards",
	[IBDS_PMA_SW_LIFETIME] = "port_sw_lifetime_limit_discards",
	[IBDS_PMA_SW_HOQ] = "port_sw_hoq_lifetime_limit_discards",
};

/**
 * struct ibds_pma_field - a counter in an attribute
 * @counter: enum ibds_pma_counter
 * @select: its bit in CounterSelect; from 16 on, in CounterSelect2
 * @offset: in bits
 * @bits: 4, or a multiple of 8; it sticks at its largest value (16.1.3.5)
 */
struct ibds_pma_field {
	u8 counter;
	u8 select;
	u16 offset;
	u8 bits;
};

/* An attribute that starts with PortSelect and CounterSelect. */
struct ibds_pma_attr {
	__be16 id;
	const struct ibds_pma_field *field;
	u32 num_fields;
	bool select2;
};

static const struct ibds_pma_field ibds_port_counters[] = {
	{ IBDS_PMA_SYMBOL_ERROR, 0, 32, 16 },
	{ IBDS_PMA_LINK_RECOVERY, 1, 48, 8 },
	{ IBDS_PMA_LINK_DOWNED, 2, 56, 8 },
	{ IBDS_PMA_RCV_ERRORS, 3, 64, 16 },
	{ IBDS_PMA_RCV_REMPHYS, 4, 80, 16 },
	{ IBDS_PMA_RCV_RELAY, 5, 96, 16 },
	{ IBDS_PMA_XMIT_DISCARDS, 6, 112, 16 },
	{ IBDS_PMA_XMIT_CONSTRAINT, 7, 128, 8 },
	{ IBDS_PMA_RCV_CONSTRAINT, 8, 136, 8 },
	{ IBDS_PMA_INTEGRITY, 9, 152, 4 },
	{ IBDS_PMA_OVERRUN, 10, 156, 4 },
	{ IBDS_PMA_VL15_DROPPED, 11, 176, 16 },
	{ IBDS_PMA_XMIT_DATA, 12, 192, 32 },
	{ IBDS_PMA_RCV_DATA, 13, 224, 32 },
	{ IBDS_PMA_XMIT_PKTS, 14, 256, 32 },
	{ IBDS_PMA_RCV_PKTS, 15, 288, 32 },
	{ IBDS_PMA_XMIT_WAIT, 16, 320, 32 },
};

static const struct ibds_pma_field ibds_port_counters_ext[] = {
	{ IBDS_PMA_XMIT_DATA, 0, 64, 64 },
	{ IBDS_PMA_RCV_DATA, 1, 128, 64 },
	{ IBDS_PMA_XMIT_PKTS, 2, 192, 64 },
	{ IBDS_PMA_RCV_PKTS, 3, 256, 64 },
};

static const struct ibds_pma_field ibds_rcv_error_details[] = {
	{ IBDS_PMA_LOCAL_PHYSICAL, 0, 32, 16 },
	{ IBDS_PMA_MALFORMED, 1, 48, 16 },
	{ IBDS_PMA_BUFFER_OVERRUN, 2, 64, 16 },
	{ IBDS_PMA_DLID_MAPPING, 3, 80, 16 },
	{ IBDS_PMA_VL_MAPPING, 4, 96, 16 },
	{ IBDS_PMA_LOOPING, 5, 112, 16 },
};

static const struct ibds_pma_field ibds_xmit_discard_details[] = {
	{ IBDS_PMA_INACTIVE, 0, 32, 16 },
	{ IBDS_PMA_NEIGHBOR_MTU, 1, 48, 16 },
	{ IBDS_PMA_SW_LIFETIME, 2, 64, 16 },
	{ IBDS_PMA_SW_HOQ, 3, 80, 16 },
};

static const struct ibds_pma_attr ibds_pma_attrs[] = {
	{ IB_PMA_PORT_COUNTERS, ibds_port_counters,
	  ARRAY_SIZE(ibds_port_counters), .select2 = true },
	{ IB_PMA_PORT_COUNTERS_EXT, ibds_port_counters_ext,
	  ARRAY_SIZE(ibds_port_counters_ext) },
	{ IBDS_PMA_RCV_ERROR_DETAILS, ibds_rcv_error_details,
	  ARRAY_SIZE(ibds_rcv_error_details) },
	{ IBDS_PMA_XMIT_DISCARD_DETAILS, ibds_xmit_discard_details,
	  ARRAY_SIZE(ibds_xmit_discard_details) },
};

/* Bytes of every packet in addition to its payload: LRH, BTH and ICRC */
#define IBDS_PACKET_BYTES	(IB_LRH_BYTES + IB_BTH_BYTES + 4)

/*
 * Bytes on the wire, all between the start of a packet and its VCRC (IBA vol 1,
 * 16.1.3.5).  The datapath counts payload; headers follow from the packets.
 * Padding and immediate data are left out: counting them would cost a few
 * instructions for every packet.
 */
static u64 ibds_wire_bytes(u64 payload, u64 packets, u64 rc, u64 grh)
{
	return payload + packets * (IBDS_PACKET_BYTES + IB_DETH_BYTES) -
	       rc * IB_DETH_BYTES + grh * IB_GRH_BYTES;
}

static void ibds_counters_add(u64 *raw, const struct ibds_counters *c)
{
	raw[IBDS_PMA_XMIT_DATA] += ibds_wire_bytes(READ_ONCE(c->tx_bytes),
						   READ_ONCE(c->tx_packets),
						   READ_ONCE(c->tx_rc_packets),
						   READ_ONCE(c->tx_grh));
	raw[IBDS_PMA_RCV_DATA] += ibds_wire_bytes(READ_ONCE(c->rx_bytes),
						  READ_ONCE(c->rx_packets),
						  READ_ONCE(c->rx_rc_packets),
						  READ_ONCE(c->rx_grh));
	raw[IBDS_PMA_XMIT_PKTS] += READ_ONCE(c->tx_packets);
	raw[IBDS_PMA_RCV_PKTS] += READ_ONCE(c->rx_packets);
	raw[IBDS_PMA_MALFORMED] += READ_ONCE(c->drop_malformed);
	raw[IBDS_PMA_INACTIVE] += READ_ONCE(c->drop_port_down);
	raw[IBDS_PMA_RCV_CONSTRAINT] += READ_ONCE(c->drop_pkey);
	raw[IBDS_PMA_VL15_DROPPED] += READ_ONCE(c->mad_dropped);
}

/**
 * ibds_pma_raw - read what an HCA port has counted since its creation
 * @port: HCA port
 * @raw: IBDS_PMA_COUNTERS values, data in words of 4 bytes;
 *	%IBDS_PMA_LINK_DOWNED is left to the caller
 */
void ibds_pma_raw(const struct ibds_port *port, u64 *raw)
{
	int cpu;

	memset(raw, 0, IBDS_PMA_COUNTERS * sizeof(*raw));
	for_each_possible_cpu(cpu)
		ibds_counters_add(raw, per_cpu_ptr(port->counters, cpu));
	raw[IBDS_PMA_XMIT_DATA] /= 4;
	raw[IBDS_PMA_RCV_DATA] /= 4;
}

/* Packets of an HCA port that switches have not forwarded. */
static u64 ibds_pma_no_route(const struct ibds_port *port)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(port->counters, cpu)->drop_no_route);
	return sum;
}

/* A port's counter, with what was added to it and to its details. */
static u64 ibds_pma_total(const struct ibds_pma *pma, const u64 *raw, u32 i)
{
	u32 first = 1, last = 0;
	u64 sum;

	if (i == IBDS_PMA_RCV_ERRORS) {
		first = IBDS_PMA_LOCAL_PHYSICAL;
		last = IBDS_PMA_BUFFER_OVERRUN;
	} else if (i == IBDS_PMA_RCV_RELAY) {
		first = IBDS_PMA_DLID_MAPPING;
		last = IBDS_PMA_LOOPING;
	} else if (i == IBDS_PMA_XMIT_DISCARDS) {
		first = IBDS_PMA_INACTIVE;
		last = IBDS_PMA_SW_HOQ;
	}
	sum = raw[i] + atomic64_read(&pma->added[i]);
	for (; first <= last; first++)
		sum += raw[first] + atomic64_read(&pma->added[first]);
	return sum;
}

/**
 * ibds_pma_switch_raw - what a switch port has counted, by its HCA port
 * @peer: HCA port at the other end, NULL: none
 * @raw: IBDS_PMA_COUNTERS values, as in ibds_pma_raw()
 */
void ibds_pma_switch_raw(const struct ibds_port *peer, u64 *raw)
{
	u64 hca[IBDS_PMA_COUNTERS];

	memset(raw, 0, sizeof(hca));
	if (!peer)
		return;
	ibds_pma_raw(peer, hca);
	raw[IBDS_PMA_XMIT_DATA] = hca[IBDS_PMA_RCV_DATA];
	raw[IBDS_PMA_RCV_DATA] = hca[IBDS_PMA_XMIT_DATA];
	raw[IBDS_PMA_XMIT_PKTS] = hca[IBDS_PMA_RCV_PKTS];
	raw[IBDS_PMA_RCV_PKTS] = hca[IBDS_PMA_XMIT_PKTS];
	/* Counted by the HCA; as well where the way on is down. */
	raw[IBDS_PMA_DLID_MAPPING] = ibds_pma_no_route(peer);
}

/**
 * ibds_pma_rebase - have a port's counters begin at zero, LinkDowned aside
 * @pma: PMA state of the port
 * @raw: what it has counted so far
 */
void ibds_pma_rebase(struct ibds_pma *pma, const u64 *raw)
{
	u32 i;

	for (i = 0; i < IBDS_PMA_COUNTERS; i++)
		if (i != IBDS_PMA_LINK_DOWNED)
			WRITE_ONCE(pma->base[i], ibds_pma_total(pma, raw, i));
}

/**
 * ibds_pma_restart - have all counters of a port begin at zero
 * @pma: PMA state of the port
 * @raw: what it has counted so far
 */
void ibds_pma_restart(struct ibds_pma *pma, const u64 *raw)
{
	memset(pma, 0, sizeof(*pma));
	ibds_pma_rebase(pma, raw);
}

/**
 * ibds_pma_add - count errors that the simulator does not have of itself
 * @pma: of the port
 * @text: "<counter> <how many>"; modified
 *
 * Return: enum ibds_pma_counter, or -EINVAL or -ERANGE.
 */
int ibds_pma_add(struct ibds_pma *pma, char *text)
{
	char *name = strsep(&text, " ");
	int counter = match_string(ibds_pma_names, IBDS_PMA_COUNTERS, name);
	u32 count;
	int err;

	if (counter < 0)
		return counter;
	err = kstrtou32(text ?: "", 0, &count);
	if (err)
		return err;
	atomic64_add(count, &pma->added[counter]);
	return counter;
}

/**
 * ibds_pma_show - print a port's counters as its PMA shows them
 * @m: file to print to
 * @pma: PMA state of the port
 * @raw: what the port has counted since its creation
 */
void ibds_pma_show(struct seq_file *m, const struct ibds_pma *pma,
		   const u64 *raw)
{
	u32 i;

	for (i = 0; i < IBDS_PMA_COUNTERS; i++)
		seq_printf(m, "%s %llu\n", ibds_pma_names[i],
			   ibds_pma_total(pma, raw, i) -
			   READ_ONCE(pma->base[i]));
}

static u64 ibds_field_get(const u8 *data, const struct ibds_pma_field *field)
{
	u64 value = 0;
	u32 i;

	data += field->offset / 8;
	if (field->bits < 8)
		return field->offset % 8 ? *data & 0xf : *data >> 4;
	for (i = 0; i < field->bits / 8; i++)
		value = value << 8 | data[i];
	return value;
}

static void ibds_field_put(u8 *data, const struct ibds_pma_field *field,
			   u64 value)
{
	int i;

	value = min(value, U64_MAX >> (64 - field->bits));
	data += field->offset / 8;
	if (field->bits < 8)
		*data |= field->offset % 8 ? value : value << 4;
	else
		for (i = field->bits / 8 - 1; i >= 0; i--, value >>= 8)
			data[i] = value;
}

/* Determine the ports that the query selects. */
static u16 ibds_pma_select_ports(struct ibds_pma_query *query, u8 first,
				 u8 last)
{
	u8 lo = query->select, hi = query->select;

	if (query->select == IBDS_PMA_ALL_PORTS) {
		lo = first;
		hi = last;
	}
	if (lo < first || hi > last)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	query->lo = lo;
	query->hi = hi;
	return 0;
}

static u16 ibds_pma_counters(struct ibds_pma_query *query, u8 first, u8 last)
{
	/* All these attributes begin like PortCounters. */
	const struct ib_pma_portcounters *pc = (void *)query->mad->data;
	const struct ibds_pma_attr *attr = query->attr;
	u32 i;

	query->select = pc->port_select;
	query->counters = be16_to_cpu(pc->counter_select);
	if (attr->select2)
		query->counters |= pc->reserved1 << 16;
	for (i = 0; query->set && i < attr->num_fields; i++)
		query->value[attr->field[i].counter] =
			ibds_field_get(query->mad->data, &attr->field[i]);
	return ibds_pma_select_ports(query, first, last);
}

static u16 ibds_pma_class_info(struct ibds_pma_query *query)
{
	struct ib_pma_mad *mad = query->mad;
	struct ib_class_port_info *cpi = (void *)mad->data;

	if (query->set)
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	memset(mad->data, 0, sizeof(mad->data));
	cpi->base_version = 1;
	cpi->class_version = 1;
	/* Extended counters, but not the unicast and multicast ones. */
	cpi->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT |
			       IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF |
			       IB_PMA_CLASS_CAP_XMIT_WAIT;
	ib_set_cpi_resp_time(cpi, IBDS_PMA_RESP_TIME);
	return 0;
}

static u16 ibds_pma_attribute(struct ibds_pma_query *query, u8 first, u8 last)
{
	const struct ib_mad_hdr *hdr = &query->mad->mad_hdr;
	int i;

	if (hdr->base_version != 1 || hdr->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	if (hdr->attr_id == IB_PMA_CLASS_PORT_INFO)
		return ibds_pma_class_info(query);
	for (i = 0; i < ARRAY_SIZE(ibds_pma_attrs); i++) {
		if (ibds_pma_attrs[i].id != hdr->attr_id)
			continue;
		query->attr = &ibds_pma_attrs[i];
		return ibds_pma_counters(query, first, last);
	}
	return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
}

/**
 * ibds_pma_begin - begin to answer a Get or Set of class PerfMgt
 * @query: query to initialize
 * @mad: the request, becomes the response
 * @first: lowest port number of the node
 * @last: highest port number of the node
 *
 * The caller passes the counters of the ports @query->lo to @query->hi, which
 * may be none, to ibds_pma_port() and then calls ibds_pma_end().
 */
void ibds_pma_begin(struct ibds_pma_query *query, struct ib_pma_mad *mad,
		    u8 first, u8 last)
{
	u16 status;

	memset(query, 0, sizeof(*query));
	query->mad = mad;
	query->set = mad->mad_hdr.method == IB_MGMT_METHOD_SET;
	query->lo = 1;
	status = ibds_pma_attribute(query, first, last);
	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	mad->mad_hdr.status = cpu_to_be16(status);
}

/**
 * ibds_pma_port - add a port's counters to the response
 * @query: query, after ibds_pma_begin()
 * @pma: PMA state of the port; Set moves its base
 * @raw: what the port has counted since its creation
 */
void ibds_pma_port(struct ibds_pma_query *query, struct ibds_pma *pma,
		   const u64 *raw)
{
	const struct ibds_pma_attr *attr = query->attr;
	u32 i, n;
	u64 total;

	for (n = 0; n < attr->num_fields; n++) {
		i = attr->field[n].counter;
		total = ibds_pma_total(pma, raw, i);
		if (query->set && query->counters & BIT(attr->field[n].select))
			WRITE_ONCE(pma->base[i], total - query->value[i]);
		query->sum[i] += total - READ_ONCE(pma->base[i]);
	}
}

/**
 * ibds_pma_end - write the counters into the response
 * @query: query, with all ports added
 */
void ibds_pma_end(struct ibds_pma_query *query)
{
	const struct ibds_pma_attr *attr = query->attr;
	struct ib_pma_portcounters *pc = (void *)query->mad->data;
	u32 n;

	if (query->lo > query->hi)
		return;
	memset(pc, 0, sizeof(query->mad->data));
	pc->port_select = query->select;
	pc->counter_select = cpu_to_be16(query->counters);
	if (attr->select2)
		pc->reserved1 = query->counters >> 16;
	for (n = 0; n < attr->num_fields; n++)
		ibds_field_put(query->mad->data, &attr->field[n],
			       query->sum[attr->field[n].counter]);
}
