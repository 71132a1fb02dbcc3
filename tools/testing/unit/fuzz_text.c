// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fuzzer: text written by users, private data in connection requests of peers
 */
#include <stdint.h>

#include "ipoib_proto.h"

const char *__asan_default_options(void);

/* Leak detection needs ptrace. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

#define FUZZ_CHECK(x)	do { if (!(x)) __builtin_trap(); } while (0)

static void fuzz_pkey(const void *data, size_t size)
{
	char *text = malloc(size + 1);
	u16 number;

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = 0;
	if (!ipoib_pkey_parse(text, &number))
		FUZZ_CHECK(number & 0x7fff);
	free(text);
}

static void fuzz_private(const void *data, size_t size)
{
	struct ipoib_cm_peer peer;
	u8 *copy = malloc(size);

	FUZZ_CHECK(copy || !size);
	memcpy(copy, data, size);
#ifdef FUZZ_DEFECT
	FUZZ_CHECK(size < 8 || copy[3] != 0x5a || copy[5] != 0xa5);
#endif
	if (!ipoib_cm_private_parse(&peer, copy, size))
		FUZZ_CHECK(peer.qpn > 1 && peer.qpn < IPOIB_QPN_MASK &&
			   peer.max_msg >= 72 &&
			   peer.max_msg <= IPOIB_CM_MSG_MAX &&
			   !(peer.caps & ~(u32)IPOIB_CM_CAPS));
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_pkey(data, size);
	fuzz_private(data, size);
	return 0;
}
