/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: what becomes of guests and peers
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM eipoib

#if !defined(EIPOIB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define EIPOIB_TRACE_H

#include <linux/eipoib.h>
#include <linux/tracepoint.h>

#include "eipoib.h"

/* No state: an entry is made, or removed */
#define EIPOIB_TRACE_NONE	0xff

#define eipoib_show_guest(state)					      \
	__print_symbolic(state,						      \
			 { EIPOIB_GUEST_STATUS_SEEN, "seen" },		      \
			 { EIPOIB_GUEST_STATUS_CLAIMED, "claimed" },	      \
			 { EIPOIB_GUEST_STATUS_HELD, "held" },		      \
			 { EIPOIB_GUEST_STATUS_ASKED, "asked" },	      \
			 { EIPOIB_GUEST_STATUS_REFUSED, "refused" },	      \
			 { EIPOIB_GUEST_STATUS_FIXED, "fixed" },	      \
			 { EIPOIB_TRACE_NONE, "none" })

TRACE_EVENT(eipoib_guest,
	TP_PROTO(const struct eipoib_dev *dev, const struct in6_addr *ip,
		 u64 station, int from, int to),
	TP_ARGS(dev, ip, station, from, to),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__array(u8, ip, 16)
		__array(u8, mac, ETH_ALEN)
		__field(int, from)
		__field(int, to)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		memcpy(__entry->ip, ip, 16);
		u64_to_ether_addr(station, __entry->mac);
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("%s: %pI6c of %pM: %s -> %s", __entry->name, __entry->ip,
		  __entry->mac, eipoib_show_guest(__entry->from),
		  eipoib_show_guest(__entry->to))
);

#define eipoib_show_peer(status)					      \
	__print_symbolic(status,					      \
			 { EIPOIB_PEER_STATUS_ASKED, "asked" },		      \
			 { EIPOIB_PEER_STATUS_KNOWN, "known" },		      \
			 { EIPOIB_TRACE_NONE, "none" })

TRACE_EVENT(eipoib_peer,
	TP_PROTO(const struct eipoib_dev *dev, const struct in6_addr *ip,
		 const u8 *lladdr, int to),
	TP_ARGS(dev, ip, lladdr, to),
	TP_STRUCT__entry(
		__array(char, name, IFNAMSIZ)
		__array(u8, ip, 16)
		__array(u8, lladdr, INFINIBAND_ALEN)
		__field(int, to)
	),
	TP_fast_assign(
		strscpy(__entry->name, dev->ndev->name, IFNAMSIZ);
		memcpy(__entry->ip, ip, 16);
		memcpy(__entry->lladdr, lladdr, INFINIBAND_ALEN);
		__entry->to = to;
	),
	TP_printk("%s: %pI6c at %20phC: %s", __entry->name, __entry->ip,
		  __entry->lladdr, eipoib_show_peer(__entry->to))
);

#endif /* EIPOIB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE eipoib_trace
#include <trace/define_trace.h>
