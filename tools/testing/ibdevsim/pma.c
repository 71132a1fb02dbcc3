// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: performance management agent
 *
 * Answers ClassPortInfo, PortCounters and PortCountersExtended (IBA vol 1,
 * 16.1) for HCA ports and, from the counters of the HCA at the other end,
 * for switch ports.  Set moves a base that is subtracted from the simulator's
 * counters, which never decrease.
 */
#include <rdma/ib_pack.h>

#include "pma.h"

/* CounterSelect bits that <rdma/ib_pma.h> lacks. */
#define IBDS_SEL_RCV_CONSTRAINT		cpu_to_be16(0x0100)

/* Response time 4.096 us * 2^18, about one second, as usual. */
#define IBDS_PMA_RESP_TIME		18

#define IBDS_PMA_ALL_PORTS		0xff

static const __be16 ibds_pma_select[IBDS_PMA_COUNTERS] = {
	[IBDS_PMA_LINK_DOWNED] = IB_PMA_SEL_LINK_DOWNED,
	[IBDS_PMA_RCV_ERRORS] = IB_PMA_SEL_PORT_RCV_ERRORS,
	[IBDS_PMA_XMIT_DISCARDS] = IB_PMA_SEL_PORT_XMIT_DISCARDS,
	[IBDS_PMA_RCV_CONSTRAINT] = IBDS_SEL_RCV_CONSTRAINT,
	[IBDS_PMA_VL15_DROPPED] = IB_PMA_SEL_PORT_VL15_DROPPED,
	[IBDS_PMA_XMIT_DATA] = IB_PMA_SEL_PORT_XMIT_DATA,
	[IBDS_PMA_RCV_DATA] = IB_PMA_SEL_PORT_RCV_DATA,
	[IBDS_PMA_XMIT_PKTS] = IB_PMA_SEL_PORT_XMIT_PACKETS,
	[IBDS_PMA_RCV_PKTS] = IB_PMA_SEL_PORT_RCV_PACKETS,
};

static const __be16 ibds_pma_select_ext[IBDS_PMA_COUNTERS] = {
	[IBDS_PMA_XMIT_DATA] = IB_PMA_SELX_PORT_XMIT_DATA,
	[IBDS_PMA_RCV_DATA] = IB_PMA_SELX_PORT_RCV_DATA,
	[IBDS_PMA_XMIT_PKTS] = IB_PMA_SELX_PORT_XMIT_PACKETS,
	[IBDS_PMA_RCV_PKTS] = IB_PMA_SELX_PORT_RCV_PACKETS,
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
	raw[IBDS_PMA_RCV_ERRORS] += READ_ONCE(c->drop_malformed);
	raw[IBDS_PMA_XMIT_DISCARDS] += READ_ONCE(c->drop_port_down) +
				       READ_ONCE(c->drop_no_route);
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

/* PortCounters stick at their largest value (16.1.3.5). */
#define IBDS_CLAMP8(v)		((u8)min_t(u64, v, U8_MAX))
#define IBDS_CLAMP16(v)		cpu_to_be16(min_t(u64, v, U16_MAX))
#define IBDS_CLAMP32(v)		cpu_to_be32(min_t(u64, v, U32_MAX))

static void ibds_pma_pack(struct ib_pma_portcounters *pc,
			  const struct ibds_pma_query *query)
{
	const u64 *v = query->sum;

	memset(pc, 0, sizeof(*pc));
	pc->port_select = query->select;
	pc->counter_select = query->counters;
	pc->link_downed_counter = IBDS_CLAMP8(v[IBDS_PMA_LINK_DOWNED]);
	pc->port_rcv_errors = IBDS_CLAMP16(v[IBDS_PMA_RCV_ERRORS]);
	pc->port_xmit_discards = IBDS_CLAMP16(v[IBDS_PMA_XMIT_DISCARDS]);
	pc->port_rcv_constraint_errors =
		IBDS_CLAMP8(v[IBDS_PMA_RCV_CONSTRAINT]);
	pc->vl15_dropped = IBDS_CLAMP16(v[IBDS_PMA_VL15_DROPPED]);
	pc->port_xmit_data = IBDS_CLAMP32(v[IBDS_PMA_XMIT_DATA]);
	pc->port_rcv_data = IBDS_CLAMP32(v[IBDS_PMA_RCV_DATA]);
	pc->port_xmit_packets = IBDS_CLAMP32(v[IBDS_PMA_XMIT_PKTS]);
	pc->port_rcv_packets = IBDS_CLAMP32(v[IBDS_PMA_RCV_PKTS]);
}

static void ibds_pma_unpack(const struct ib_pma_portcounters *pc, u64 *v)
{
	v[IBDS_PMA_LINK_DOWNED] = pc->link_downed_counter;
	v[IBDS_PMA_RCV_ERRORS] = be16_to_cpu(pc->port_rcv_errors);
	v[IBDS_PMA_XMIT_DISCARDS] = be16_to_cpu(pc->port_xmit_discards);
	v[IBDS_PMA_RCV_CONSTRAINT] = pc->port_rcv_constraint_errors;
	v[IBDS_PMA_VL15_DROPPED] = be16_to_cpu(pc->vl15_dropped);
	v[IBDS_PMA_XMIT_DATA] = be32_to_cpu(pc->port_xmit_data);
	v[IBDS_PMA_RCV_DATA] = be32_to_cpu(pc->port_rcv_data);
	v[IBDS_PMA_XMIT_PKTS] = be32_to_cpu(pc->port_xmit_packets);
	v[IBDS_PMA_RCV_PKTS] = be32_to_cpu(pc->port_rcv_packets);
}

static void ibds_pma_pack_ext(struct ib_pma_portcounters_ext *pc,
			      const struct ibds_pma_query *query)
{
	const u64 *v = query->sum;

	memset(pc, 0, sizeof(*pc));
	pc->port_select = query->select;
	pc->counter_select = query->counters;
	pc->port_xmit_data = cpu_to_be64(v[IBDS_PMA_XMIT_DATA]);
	pc->port_rcv_data = cpu_to_be64(v[IBDS_PMA_RCV_DATA]);
	pc->port_xmit_packets = cpu_to_be64(v[IBDS_PMA_XMIT_PKTS]);
	pc->port_rcv_packets = cpu_to_be64(v[IBDS_PMA_RCV_PKTS]);
}

static void ibds_pma_unpack_ext(const struct ib_pma_portcounters_ext *pc,
				u64 *v)
{
	v[IBDS_PMA_XMIT_DATA] = be64_to_cpu(pc->port_xmit_data);
	v[IBDS_PMA_RCV_DATA] = be64_to_cpu(pc->port_rcv_data);
	v[IBDS_PMA_XMIT_PKTS] = be64_to_cpu(pc->port_xmit_packets);
	v[IBDS_PMA_RCV_PKTS] = be64_to_cpu(pc->port_rcv_packets);
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
	const struct ib_pma_portcounters *pc = (void *)query->mad->data;

	query->select = pc->port_select;
	query->counters = pc->counter_select;
	if (query->set)
		ibds_pma_unpack(pc, query->value);
	return ibds_pma_select_ports(query, first, last);
}

static u16 ibds_pma_counters_ext(struct ibds_pma_query *query, u8 first,
				 u8 last)
{
	const struct ib_pma_portcounters_ext *pc = (void *)query->mad->data;

	query->ext = true;
	query->select = pc->port_select;
	query->counters = pc->counter_select;
	if (query->set)
		ibds_pma_unpack_ext(pc, query->value);
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
			       IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
	ib_set_cpi_resp_time(cpi, IBDS_PMA_RESP_TIME);
	return 0;
}

static u16 ibds_pma_attribute(struct ibds_pma_query *query, u8 first, u8 last)
{
	const struct ib_mad_hdr *hdr = &query->mad->mad_hdr;

	if (hdr->base_version != 1 || hdr->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	switch (hdr->attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		return ibds_pma_class_info(query);
	case IB_PMA_PORT_COUNTERS:
		return ibds_pma_counters(query, first, last);
	case IB_PMA_PORT_COUNTERS_EXT:
		return ibds_pma_counters_ext(query, first, last);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
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
	const __be16 *select = query->ext ? ibds_pma_select_ext :
					    ibds_pma_select;
	u32 i;

	for (i = 0; i < IBDS_PMA_COUNTERS; i++) {
		if (query->set && (select[i] & query->counters))
			WRITE_ONCE(pma->base[i], raw[i] - query->value[i]);
		query->sum[i] += raw[i] - READ_ONCE(pma->base[i]);
	}
}

/**
 * ibds_pma_end - write the counters into the response
 * @query: query, with all ports added
 */
void ibds_pma_end(struct ibds_pma_query *query)
{
	void *data = query->mad->data;

	if (query->lo > query->hi)
		return;
	if (query->ext)
		ibds_pma_pack_ext(data, query);
	else
		ibds_pma_pack(data, query);
}
