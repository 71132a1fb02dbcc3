/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: events and state changes
 */
#undef TRACE_SYSTEM
#ifdef IPOIB_INTEROP
#define TRACE_SYSTEM ipoib_interop
#else
#define TRACE_SYSTEM ipoib
#endif

#if !defined(IPOIB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define IPOIB_TRACE_H

#include <linux/tracepoint.h>

#include "ipoib.h"
#include "ipoib_dev.h"
#include "ipoib_port.h"

#define IPOIB_TRACE_EVENT_LEN	32

TRACE_EVENT(ipoib_event,
	TP_PROTO(const struct ipoib_port *port, enum ib_event_type event),
	TP_ARGS(port, event),
	TP_STRUCT__entry(
		__array(char, ca, IB_DEVICE_NAME_MAX)
		__field(u32, num)
		__array(char, event, IPOIB_TRACE_EVENT_LEN)
	),
	TP_fast_assign(
		strscpy(__entry->ca, dev_name(&port->ca->dev),
			IB_DEVICE_NAME_MAX);
		__entry->num = port->num;
		/* Up to 6.12, %s is not safe for another module's string. */
		strscpy(__entry->event, ib_event_msg(event),
			IPOIB_TRACE_EVENT_LEN);
	),
	TP_printk("%s port %u: %s", __entry->ca, __entry->num,
		  __entry->event)
);

TRACE_EVENT(ipoib_dev_state,
	TP_PROTO(const struct ipoib_dev *dev, int from, int to),
	TP_ARGS(dev, from, to),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__field(int, from)
		__field(int, to)
		__field(u32, failures)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		__entry->from = from;
		__entry->to = to;
		__entry->failures = dev->failures;
	),
	TP_printk("%s: %s -> %s failures %u", __entry->name,
		  ipoib_dev_state_name(__entry->from),
		  ipoib_dev_state_name(__entry->to), __entry->failures)
);

TRACE_EVENT(ipoib_mcast_state,
	TP_PROTO(const struct ipoib_dev *dev, const union ib_gid *mgid,
		 bool sendonly, int from, int to, int status),
	TP_ARGS(dev, mgid, sendonly, from, to, status),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__array(u8, mgid, 16)
		__field(int, from)
		__field(int, to)
		__field(int, status)
		__field(bool, sendonly)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		memcpy(__entry->mgid, mgid->raw, 16);
		__entry->from = from;
		__entry->to = to;
		__entry->status = status;
		__entry->sendonly = sendonly;
	),
	TP_printk("%s: %pI6%s %s -> %s status %d", __entry->name,
		  __entry->mgid, __entry->sendonly ? " (send-only)" : "",
		  ipoib_mcast_state_name(__entry->from),
		  ipoib_mcast_state_name(__entry->to), __entry->status)
);

TRACE_EVENT(ipoib_path_state,
	TP_PROTO(const struct ib_device *hca, u32 num,
		 const union ib_gid *dgid, int from, int to, int status),
	TP_ARGS(hca, num, dgid, from, to, status),
	TP_STRUCT__entry(
		__array(char, ca, IB_DEVICE_NAME_MAX)
		__field(u32, num)
		__array(u8, dgid, 16)
		__field(int, from)
		__field(int, to)
		__field(int, status)
	),
	TP_fast_assign(
		strscpy(__entry->ca, dev_name(&hca->dev),
			IB_DEVICE_NAME_MAX);
		__entry->num = num;
		memcpy(__entry->dgid, dgid->raw, 16);
		__entry->from = from;
		__entry->to = to;
		__entry->status = status;
	),
	TP_printk("%s port %u: %pI6 %s -> %s status %d", __entry->ca,
		  __entry->num, __entry->dgid,
		  ipoib_path_state_name(__entry->from),
		  ipoib_path_state_name(__entry->to), __entry->status)
);

TRACE_EVENT(ipoib_link_state,
	TP_PROTO(const struct ipoib_dev *dev, const u8 *addr, u32 failures,
		 int from, int to),
	TP_ARGS(dev, addr, failures, from, to),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__array(u8, addr, INFINIBAND_ALEN)
		__field(int, from)
		__field(int, to)
		__field(u32, failures)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		memcpy(__entry->addr, addr, INFINIBAND_ALEN);
		__entry->from = from;
		__entry->to = to;
		__entry->failures = failures;
	),
	TP_printk("%s: %*phC %s -> %s failures %u", __entry->name,
		  INFINIBAND_ALEN, __entry->addr,
		  ipoib_link_state_name(__entry->from),
		  ipoib_link_state_name(__entry->to), __entry->failures)
);

TRACE_EVENT(ipoib_conn_state,
	TP_PROTO(const struct ipoib_dev *dev, const union ib_gid *gid,
		 bool active, u32 qpn, int reject, int status, int from,
		 int to),
	TP_ARGS(dev, gid, active, qpn, reject, status, from, to),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__array(u8, gid, 16)
		__field(bool, active)
		__field(int, from)
		__field(int, to)
		__field(u32, qpn)
		__field(int, reject)
		__field(int, status)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		memcpy(__entry->gid, gid->raw, 16);
		__entry->active = active;
		__entry->from = from;
		__entry->to = to;
		__entry->qpn = qpn;
		__entry->reject = reject;
		__entry->status = status;
	),
	TP_printk("%s: %s %pI6 QP %#x %s -> %s reject %d status %d",
		  __entry->name, __entry->active ? "to" : "from",
		  __entry->gid, __entry->qpn,
		  ipoib_conn_state_name(__entry->from),
		  ipoib_conn_state_name(__entry->to), __entry->reject,
		  __entry->status)
);

#endif /* IPOIB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ipoib_trace
#include <trace/define_trace.h>
