/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * rtnetlink attributes of links of the kind "eipoib"
 */
#ifndef _UAPI_LINUX_ETH_IPOIB_H
#define _UAPI_LINUX_ETH_IPOIB_H

/**
 * enum - IFLA_INFO_DATA of a link of the kind "eipoib"
 * @IFLA_EIPOIB_UNSPEC: not used
 * @IFLA_EIPOIB_GUARD: u8, 0 or 1: guests can't take addresses of others
 * @IFLA_EIPOIB_MAX_GUESTS: u32: most addresses of guests
 */
enum {
	IFLA_EIPOIB_UNSPEC,
	IFLA_EIPOIB_GUARD,
	IFLA_EIPOIB_MAX_GUESTS,
	__IFLA_EIPOIB_MAX
};

#define IFLA_EIPOIB_MAX (__IFLA_EIPOIB_MAX - 1)

#endif
