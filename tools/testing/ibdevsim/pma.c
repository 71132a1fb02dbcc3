// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: performance management agent
 *
 * Answers ClassPortInfo, PortCounters and PortCountersExtended (IBA vol 1,
 * 16.1) for HCA ports and, from what the HCA at the other end counted, for
 * switch ports.  Set moves a base that is subtracted from the simulator's
 * counters, which never go back.
 */
#include "fabric.h"

/* CounterSelect bits that <rdma/ib_pma.h> lacks. */
#define IBDS_SEL_RCV_CONSTRAINT		cpu_to_be16(0x0100)

/* Response time 4.096 us * 2^18, the usual second. */
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

/* What every packet has beside its payload: LRH, BTH and ICRC */
#define IBDS_PACKET_BYTES	(IB_LRH_BYTES + IB_BTH_BYTES + 4)

/*
 * Octets on the wire, all between the start of a packet and its VCRC (IBA vol 1,
 * 16.1.3.5).  The datapath counts payload; headers follow from the packets.
 * Padding and immediate data are left out: to count them is a matter of a few
 * instructions for every packet.
 */
static u64 ibds_wire_octets(u64 payload, u64 packets, u64 rc, u64 grh)
{
	return payload + packets * (IBDS_PACKET_BYTES + IB_DETH_BYTES) -
	       rc * IB_DETH_BYTES + grh * IB_GRH_BYTES;
}

static void ibds_counters_add(u64 *raw, const struct ibds_counters *c)
{
	raw[IBDS_PMA_XMIT_DATA] += ibds_wire_octets(READ_ONCE(c->tx_bytes),
						    READ_ONCE(c->tx_packets),
						    READ_ONCE(c->tx_rc_packets),
						    READ_ONCE(c->tx_grh));
	raw[IBDS_PMA_RCV_DATA] += ibds_wire_octets(READ_ONCE(c->rx_bytes),
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
 * ibds_pma_port_raw - what an HCA port counted since it was made
 * @port: HCA port
 * @raw: IBDS_PMA_COUNTERS values; data in words of 4 octets
 */
void ibds_pma_port_raw(struct ibds_port *port, u64 *raw)
{
	int cpu;

	memset(raw, 0, IBDS_PMA_COUNTERS * sizeof(*raw));
	for_each_possible_cpu(cpu)
		ibds_counters_add(raw, per_cpu_ptr(port->counters, cpu));
	raw[IBDS_PMA_XMIT_DATA] /= 4;
	raw[IBDS_PMA_RCV_DATA] /= 4;
	raw[IBDS_PMA_LINK_DOWNED] = READ_ONCE(port->sma->pma.link_downed);
}

/* Sum over the ports @lo to @hi of what is shown. */
static void ibds_pma_read(const struct ibds_pma_ops *ops, void *node, u8 lo,
			  u8 hi, u64 *sum)
{
	u64 raw[IBDS_PMA_COUNTERS];
	struct ibds_pma *pma;
	u32 n, i;

	memset(sum, 0, sizeof(raw));
	for (n = lo; n <= hi; n++) {
		ops->raw(node, n, raw);
		pma = ops->pma(node, n);
		for (i = 0; i < IBDS_PMA_COUNTERS; i++)
			sum[i] += raw[i] - READ_ONCE(pma->base[i]);
	}
}

static void ibds_pma_write(const struct ibds_pma_ops *ops, void *node, u8 lo,
			   u8 hi, const __be16 *select, __be16 selected,
			   const u64 *value)
{
	u64 raw[IBDS_PMA_COUNTERS];
	struct ibds_pma *pma;
	u32 n, i;

	for (n = lo; n <= hi; n++) {
		ops->raw(node, n, raw);
		pma = ops->pma(node, n);
		for (i = 0; i < IBDS_PMA_COUNTERS; i++)
			if (select[i] & selected)
				WRITE_ONCE(pma->base[i], raw[i] - value[i]);
	}
}

/* PortCounters stick at their largest value (16.1.3.5). */
#define IBDS_CLAMP8(v)		((u8)min_t(u64, v, U8_MAX))
#define IBDS_CLAMP16(v)		cpu_to_be16(min_t(u64, v, U16_MAX))
#define IBDS_CLAMP32(v)		cpu_to_be32(min_t(u64, v, U32_MAX))

static void ibds_pma_pack(struct ib_pma_portcounters *pc, const u64 *v)
{
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

static bool ibds_pma_range(const struct ibds_pma_ops *ops, u8 select, u8 *lo,
			   u8 *hi)
{
	*lo = select;
	*hi = select;
	if (select == IBDS_PMA_ALL_PORTS) {
		*lo = ops->first;
		*hi = ops->last;
	}
	return *lo >= ops->first && *hi <= ops->last;
}

static u16 ibds_pma_counters(const struct ibds_pma_ops *ops, void *node,
			     struct ib_pma_mad *mad, bool set)
{
	struct ib_pma_portcounters *pc = (void *)mad->data;
	__be16 selected = pc->counter_select;
	u64 v[IBDS_PMA_COUNTERS] = { };
	u8 port = pc->port_select;
	u8 lo, hi;

	if (!ibds_pma_range(ops, port, &lo, &hi))
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (set) {
		ibds_pma_unpack(pc, v);
		ibds_pma_write(ops, node, lo, hi, ibds_pma_select, selected,
			       v);
	}
	ibds_pma_read(ops, node, lo, hi, v);
	memset(pc, 0, sizeof(*pc));
	pc->port_select = port;
	pc->counter_select = selected;
	ibds_pma_pack(pc, v);
	return 0;
}

static u16 ibds_pma_counters_ext(const struct ibds_pma_ops *ops, void *node,
				 struct ib_pma_mad *mad, bool set)
{
	struct ib_pma_portcounters_ext *pc = (void *)mad->data;
	__be16 selected = pc->counter_select;
	u64 v[IBDS_PMA_COUNTERS] = { };
	u8 port = pc->port_select;
	u8 lo, hi;

	if (!ibds_pma_range(ops, port, &lo, &hi))
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (set) {
		v[IBDS_PMA_XMIT_DATA] = be64_to_cpu(pc->port_xmit_data);
		v[IBDS_PMA_RCV_DATA] = be64_to_cpu(pc->port_rcv_data);
		v[IBDS_PMA_XMIT_PKTS] = be64_to_cpu(pc->port_xmit_packets);
		v[IBDS_PMA_RCV_PKTS] = be64_to_cpu(pc->port_rcv_packets);
		ibds_pma_write(ops, node, lo, hi, ibds_pma_select_ext,
			       selected, v);
	}
	ibds_pma_read(ops, node, lo, hi, v);
	memset(pc, 0, sizeof(*pc));
	pc->port_select = port;
	pc->counter_select = selected;
	pc->port_xmit_data = cpu_to_be64(v[IBDS_PMA_XMIT_DATA]);
	pc->port_rcv_data = cpu_to_be64(v[IBDS_PMA_RCV_DATA]);
	pc->port_xmit_packets = cpu_to_be64(v[IBDS_PMA_XMIT_PKTS]);
	pc->port_rcv_packets = cpu_to_be64(v[IBDS_PMA_RCV_PKTS]);
	return 0;
}

static u16 ibds_pma_class_info(struct ib_pma_mad *mad, bool set)
{
	struct ib_class_port_info *cpi = (void *)mad->data;

	if (set)
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

static u16 ibds_pma_attribute(const struct ibds_pma_ops *ops, void *node,
			      struct ib_pma_mad *mad, bool set)
{
	switch (mad->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		return ibds_pma_class_info(mad, set);
	case IB_PMA_PORT_COUNTERS:
		return ibds_pma_counters(ops, node, mad, set);
	case IB_PMA_PORT_COUNTERS_EXT:
		return ibds_pma_counters_ext(ops, node, mad, set);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

/**
 * ibds_pma_process - answer a Get or Set of class PerfMgt
 * @ops: where the node's ports are
 * @node: passed to @ops
 * @mad: the request, becomes the response
 */
void ibds_pma_process(const struct ibds_pma_ops *ops, void *node,
		      struct ib_pma_mad *mad)
{
	bool set = mad->mad_hdr.method == IB_MGMT_METHOD_SET;
	u16 status = IB_MGMT_MAD_STATUS_BAD_VERSION;

	if (mad->mad_hdr.base_version == 1 && mad->mad_hdr.class_version == 1)
		status = ibds_pma_attribute(ops, node, mad, set);
	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	mad->mad_hdr.status = cpu_to_be16(status);
}
