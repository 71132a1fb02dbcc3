// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unit tests of the logic that needs no device
 *
 * KUnit's interface; tools/testing/unit runs the same cases in user space.
 * Input is passed in memory of exactly its size, so that KASAN and
 * AddressSanitizer detect overruns.  Random input has a fixed seed.
 */
#include <kunit/test.h>
#include <linux/ethtool.h>
#include <linux/module.h>

#include "ipoib_fit.h"
#include "ipoib_proto.h"
#include "ipoib_rules.h"

/* xorshift32 */
static u32 test_random(u32 *state)
{
	u32 x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

static void test_random_fill(u32 *state, u8 *data, u32 len)
{
	while (len--)
		*data++ = test_random(state) >> 24;
}

/* A copy in memory of exactly its size. */
static void *test_copy(struct kunit *test, const void *data, u32 len)
{
	void *copy = kunit_kzalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, copy);
	memcpy(copy, data, len);
	return copy;
}

/* ---- P_Keys ------------------------------------------------------------- */

static const struct pkey_text {
	const char *text;
	const char *desc;
	int ret;
	u16 number;
	u16 pkey;
} pkey_texts[] = {
	{ "2", "decimal", 0, 2, 0x8002 },
	{ "2\n", "decimal as echo writes it", 0, 2, 0x8002 },
	{ "0x8002", "hex with the membership bit", 0, 0x8002, 0x8002 },
	{ "0x8002\n", "hex as echo writes it", 0, 0x8002, 0x8002 },
	{ "0x0002", "hex without the membership bit", 0, 2, 0x8002 },
	{ "0X8AbC", "capitals", 0, 0x8abc, 0x8abc },
	{ " \t0x8002", "space in front", 0, 0x8002, 0x8002 },
	{ "32770", "decimal with the membership bit", 0, 0x8002, 0x8002 },
	{ "1", "least", 0, 1, 0x8001 },
	{ "0x7fff", "limited default key", 0, 0x7fff, 0xffff },
	{ "0xffff", "default key", 0, 0xffff, 0xffff },
	{ "65535", "default key in decimal", 0, 0xffff, 0xffff },
	{ "0", "zero", -EINVAL },
	{ "0x0", "zero in hex", -EINVAL },
	{ "0x8000", "membership bit alone", -EINVAL },
	{ "32768", "membership bit alone in decimal", -EINVAL },
	{ "-1", "negative", -EINVAL },
	{ "-32767", "negative that fits in 16 bits", -EINVAL },
	{ "0x12345", "17 bits", -EINVAL },
	{ "65536", "17 bits in decimal", -EINVAL },
	{ "0x18001", "17 bits, the lower 16 of them fine", -EINVAL },
	{ "0x10000000000008001", "more than 64 bits", -EINVAL },
	{ "", "nothing", -EINVAL },
	{ "\n", "newline alone", -EINVAL },
	{ " ", "space alone", -EINVAL },
	{ "0x", "prefix alone", -EINVAL },
	{ "8002h", "garbage behind", -EINVAL },
	{ "8001 8002", "two numbers", -EINVAL },
	{ "0x8001.1", "index behind", -EINVAL },
	{ "0x8001\n\n", "two newlines", -EINVAL },
	{ "abcd", "hex without its prefix", -EINVAL },
	{ "ib0.8001", "name of an interface", -EINVAL },
	{ "- 2", "sign apart", -EINVAL },
};

static void pkey_text_desc(const struct pkey_text *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(pkey_text, pkey_texts, pkey_text_desc);

static void test_pkey_text(struct kunit *test)
{
	const struct pkey_text *t = test->param_value;
	const char *text = test_copy(test, t->text, strlen(t->text) + 1);
	u16 number = 0x5a5a;

	KUNIT_EXPECT_EQ(test, ipoib_pkey_parse(text, &number), t->ret);
	if (t->ret) {
		KUNIT_EXPECT_EQ(test, number, 0x5a5a);
		return;
	}
	KUNIT_EXPECT_EQ(test, number, t->number);
	KUNIT_EXPECT_EQ(test, ipoib_pkey_full(number), t->pkey);
}

static void test_pkey_text_all(struct kunit *test)
{
	static const char * const formats[] = { "%u", "0x%04x\n", "0x%x" };
	u32 n, i;

	for (n = 0; n <= 0x10001; n++) {
		bool good = n <= U16_MAX && n != 0 && n != 0x8000;

		for (i = 0; i < ARRAY_SIZE(formats); i++) {
			u16 number = 0;
			char text[16];
			int ret;

			snprintf(text, sizeof(text), formats[i], n);
			ret = ipoib_pkey_parse(text, &number);
			KUNIT_EXPECT_EQ_MSG(test, ret, good ? 0 : -EINVAL,
					    "%s", text);
			KUNIT_EXPECT_EQ_MSG(test, number, good ? n : 0,
					    "%s", text);
		}
	}
}

static void test_pkey_all(struct kunit *test)
{
	u32 n;

	for (n = 0; n <= U16_MAX; n++) {
		u16 full = ipoib_pkey_full(n);

		KUNIT_EXPECT_EQ(test, full & 0x8000, 0x8000);
		KUNIT_EXPECT_EQ(test, full & 0x7fff, n & 0x7fff);
		KUNIT_EXPECT_EQ(test, ipoib_pkey_full(n ^ 0x8000), full);
		KUNIT_EXPECT_EQ(test, ipoib_pkey_valid(n),
				n != 0 && n != 0x8000);
	}
}

/* ---- encapsulation ------------------------------------------------------ */

static void test_encap_octets(struct kunit *test)
{
	static const u8 octets[IPOIB_HARD_LEN] = {
		0x80, 0x12, 0x34, 0x56,			/* flags, QPN */
		0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x02, 0xc9, 0x03, 0x00, 0x0a, 0xbc, 0xde,
		0x86, 0xdd, 0x00, 0x00,			/* IPv6 */
	};
	u8 *hdr = kunit_kzalloc(test, IPOIB_HARD_LEN, GFP_KERNEL);
	struct ipoib_encap encap;

	KUNIT_EXPECT_EQ(test, sizeof(encap), 4);
	KUNIT_ASSERT_NOT_NULL(test, hdr);
	memset(hdr, 0xa5, IPOIB_HARD_LEN);
	ipoib_header_fill(hdr, octets, htons(ETH_P_IPV6));
	KUNIT_EXPECT_MEMEQ(test, hdr, octets, IPOIB_HARD_LEN);

	ipoib_header_fill(hdr, octets, htons(ETH_P_IP));
	KUNIT_EXPECT_MEMEQ(test, hdr + 20, "\x08\x00\x00\x00", 4);
	ipoib_header_fill(hdr, octets, htons(ETH_P_ARP));
	KUNIT_EXPECT_MEMEQ(test, hdr + 20, "\x08\x06\x00\x00", 4);
}

static void test_encap_protocols(struct kunit *test)
{
	u32 n, count = 0;

	for (n = 0; n <= U16_MAX; n++)
		count += ipoib_proto_ok(cpu_to_be16(n));
	KUNIT_EXPECT_EQ(test, count, 5);
	KUNIT_EXPECT_TRUE(test, ipoib_proto_ok(cpu_to_be16(0x0800)));
	KUNIT_EXPECT_TRUE(test, ipoib_proto_ok(cpu_to_be16(0x86dd)));
	KUNIT_EXPECT_TRUE(test, ipoib_proto_ok(cpu_to_be16(0x0806)));
	KUNIT_EXPECT_TRUE(test, ipoib_proto_ok(cpu_to_be16(0x8035)));
	KUNIT_EXPECT_TRUE(test, ipoib_proto_ok(cpu_to_be16(0x88ca)));
	KUNIT_EXPECT_FALSE(test, ipoib_proto_ok(cpu_to_be16(0x0008)));
}

static void test_ud_mtu(struct kunit *test)
{
	static const int mtus[] = { -EINVAL, 252, 508, 1020, 2044, 4092 };
	u32 n;

	for (n = 0; n < 256; n++)
		KUNIT_EXPECT_EQ_MSG(test, ipoib_ud_mtu(n), n < 6 ? mtus[n] :
				    -EINVAL, "MTU code %u", n);
}

/* ---- link-layer addresses ----------------------------------------------- */

static const u8 test_addr[INFINIBAND_ALEN] = {
	0x00, 0x12, 0x34, 0x56,
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x02, 0xc9, 0x03, 0x00, 0x0a, 0xbc, 0xde,
};

static void test_addr_octets(struct kunit *test)
{
	u8 *addr = kunit_kzalloc(test, INFINIBAND_ALEN, GFP_KERNEL);
	union ib_gid gid;

	KUNIT_ASSERT_NOT_NULL(test, addr);
	memset(addr, 0xa5, INFINIBAND_ALEN);
	memcpy(gid.raw, test_addr + 4, sizeof(gid.raw));
	ipoib_addr_fill(addr, 0x123456, &gid, false);
	KUNIT_EXPECT_MEMEQ(test, addr, test_addr, INFINIBAND_ALEN);

	/* A QPN has 24 bits: the flags byte stays clear. */
	ipoib_addr_fill(addr, 0xff123456, &gid, false);
	KUNIT_EXPECT_MEMEQ(test, addr, test_addr, INFINIBAND_ALEN);
	KUNIT_EXPECT_FALSE(test, ipoib_addr_is_rc(addr));
	ipoib_addr_fill(addr, 0xff123456, &gid, true);
	KUNIT_EXPECT_EQ(test, addr[0], 0x80);
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(addr), 0x123456);
	KUNIT_EXPECT_TRUE(test, ipoib_addr_is_rc(addr));
	ipoib_addr_fill(addr, 0, &gid, false);
	KUNIT_EXPECT_MEMEQ(test, addr, "\0\0\0\0\xfe\x80", 6);
}

static void test_addr_parts(struct kunit *test)
{
	u8 *addr = test_copy(test, test_addr, INFINIBAND_ALEN);
	union ib_gid gid;
	u32 flags;

	ipoib_addr_gid(addr, &gid);
	KUNIT_EXPECT_MEMEQ(test, gid.raw, test_addr + 4, 16);
	/* RFC 4755 section 3.1 has flags in the first byte: 0x80 RC, 0x40 UC */
	for (flags = 0; flags < 256; flags++) {
		addr[0] = flags;
		KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(addr), 0x123456);
	}
	memset(addr, 0xff, 4);
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(addr), 0xffffff);
	memset(addr, 0, 4);
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(addr), 0);
}

static void test_addr_multicast(struct kunit *test)
{
	u8 *addr = test_copy(test, test_addr, INFINIBAND_ALEN);
	u32 n;

	for (n = 0; n < 256; n++) {
		addr[4] = n;
		KUNIT_EXPECT_EQ(test, ipoib_addr_is_multicast(addr), n == 0xff);
	}
	KUNIT_EXPECT_TRUE(test, ipoib_addr_is_multicast(ipoib_broadcast));
	/* The QPN does not matter. */
	memset(addr, 0xff, 4);
	addr[4] = 0xfe;
	KUNIT_EXPECT_FALSE(test, ipoib_addr_is_multicast(addr));
}

static void test_broadcast_octets(struct kunit *test)
{
	static const u8 octets[INFINIBAND_ALEN] = {
		0x00, 0xff, 0xff, 0xff,
		0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff,
	};
	u8 *addr = test_copy(test, ipoib_broadcast, INFINIBAND_ALEN);

	ipoib_addr_set_pkey(addr, 0x8001);
	KUNIT_EXPECT_MEMEQ(test, addr, octets, INFINIBAND_ALEN);
	ipoib_addr_set_pkey(addr, 0xffff);
	KUNIT_EXPECT_MEMEQ(test, addr + 6, "\x40\x1b\xff\xff\0\0", 6);
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(addr), 0xffffff);
}

static const struct mgid_case {
	const char *desc;
	u8 addr[INFINIBAND_ALEN];
	u8 scope;
	u16 pkey;
	u8 mgid[16];
	bool solicited;
} mgid_cases[] = {
	{
		"IPv4 239.255.1.1",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x0f, 0xff, 0x01, 0x01 },
		0x12, 0x8001,
		{ 0xff, 0x12, 0x40, 0x1b, 0x80, 0x01, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x0f, 0xff, 0x01, 0x01 },
	}, {
		"IPv6 ff02::1:ff0a:bcde",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
		0x12, 0xffff,
		{ 0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
		true,
	}, {
		"IPv6 ff02::1:fe0a:bcde, not solicited-node",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xfe, 0x0a, 0xbc, 0xde },
		0x12, 0xffff,
		{ 0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xfe, 0x0a, 0xbc, 0xde },
	}, {
		"IPv6 ff02:0:0:0:1:1:ff0a:bcde, not solicited-node",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x01, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
		0x12, 0xffff,
		{ 0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x01, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
	}, {
		"IPv4's signature with the bits of a solicited-node address",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
		0x12, 0xffff,
		{ 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x01, 0xff, 0x0a, 0xbc, 0xde },
	}, {
		"mapped before the P_Key changed",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01 },
		0x12, 0x8abc,
		{ 0xff, 0x12, 0x40, 0x1b, 0x8a, 0xbc, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01 },
	}, {
		"the link's scope, the address' own flags",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x72, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01 },
		0x15, 0xffff,
		{ 0xff, 0x75, 0x60, 0x1b, 0xff, 0xff, 0x00, 0x00,
		  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01 },
	}, {
		"80 bits of an IPv6 group",
		{ 0x00, 0xff, 0xff, 0xff,
		  0xff, 0x1e, 0x60, 0x1b, 0x12, 0x34, 0xff, 0xfe,
		  0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7, 0xf6 },
		0x1e, 0x8001,
		{ 0xff, 0x1e, 0x60, 0x1b, 0x80, 0x01, 0xff, 0xfe,
		  0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7, 0xf6 },
	},
};

static void mgid_case_desc(const struct mgid_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mgid_case, mgid_cases, mgid_case_desc);

static void test_mgid(struct kunit *test)
{
	const struct mgid_case *t = test->param_value;
	u8 *broadcast = test_copy(test, ipoib_broadcast, INFINIBAND_ALEN);
	u8 *addr = test_copy(test, t->addr, INFINIBAND_ALEN);
	union ib_gid mgid;

	broadcast[5] = t->scope;
	ipoib_addr_set_pkey(broadcast, t->pkey);
	ipoib_addr_mgid(addr, broadcast, t->pkey, &mgid);
	KUNIT_EXPECT_MEMEQ(test, mgid.raw, t->mgid, 16);
	KUNIT_EXPECT_MEMEQ(test, addr, t->addr, INFINIBAND_ALEN);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_is_solicited(&mgid), t->solicited);

	/* The broadcast address itself is its group. */
	ipoib_addr_mgid(broadcast, broadcast, t->pkey, &mgid);
	KUNIT_EXPECT_MEMEQ(test, mgid.raw, broadcast + 4, 16);
}

static void test_addr_equal(struct kunit *test)
{
	u32 bit, shift;
	u8 *a, *b;

	/* At odd addresses, ending where the memory ends. */
	for (shift = 0; shift < 8; shift++) {
		a = kunit_kzalloc(test, shift + INFINIBAND_ALEN, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, a);
		a += shift;
		memcpy(a, test_addr, INFINIBAND_ALEN);
		b = test_copy(test, test_addr, INFINIBAND_ALEN);
		KUNIT_EXPECT_TRUE(test, ipoib_addr_equal(a, b));
		KUNIT_EXPECT_EQ(test, ipoib_addr_hash(a, 7),
				ipoib_addr_hash(b, 7));
		for (bit = 0; bit < 8 * INFINIBAND_ALEN; bit++) {
			b[bit / 8] ^= 1 << (bit % 8);
			KUNIT_EXPECT_FALSE_MSG(test, ipoib_addr_equal(a, b),
					       "bit %u", bit);
			b[bit / 8] ^= 1 << (bit % 8);
		}
	}
}

/* Differences between the hosts of a fabric: steps of GUID and QPN */
static const struct hash_case {
	const char *desc;
	u64 guid;
	u32 qpn;
	u32 prefix;
} hash_cases[] = {
	{ "consecutive GUIDs, one QPN", 1, 0 },
	{ "consecutive GUIDs and QPNs", 1, 1 },
	{ "two ports each, one QPN", 2, 0 },
	{ "GUIDs 8 apart, QPNs 4 apart", 8, 4 },
	{ "GUIDs 16 apart, one QPN", 16, 0 },
	{ "GUIDs 256 apart", 0x100, 0 },
	{ "GUIDs 65536 apart", 0x10000, 1 },
	{ "GUIDs 2^32 apart", 0x100000000ULL, 0 },
	{ "one GUID, consecutive QPNs", 0, 1 },
	{ "one GUID, QPNs 256 apart", 0, 0x100 },
	{ "consecutive prefixes", 0, 0, 1 },
	{ "prefixes 2^16 apart", 0, 0, 0x10000 },
	{ "prefixes and GUIDs that add up", 1, 0, 1 },
};

static void hash_case_desc(const struct hash_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(hash_case, hash_cases, hash_case_desc);

static void test_addr_hash(struct kunit *test)
{
	static const u32 seeds[] = { 0, 1, 0x12345678, U32_MAX };
	const struct hash_case *t = test->param_value;
	u8 *addr = test_copy(test, test_addr, INFINIBAND_ALEN);
	u32 i, n, most, place;
	u16 *count;

	for (i = 0; i < ARRAY_SIZE(seeds); i++) {
		count = kunit_kzalloc(test, 8192 * sizeof(*count), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, count);
		most = 0;
		for (n = 0; n < 4096; n++) {
			u64 guid = 0x0002c903000a0000ULL + n * t->guid;

			put_unaligned_be32(0x48 + n * t->qpn, addr);
			put_unaligned_be32(guid >> 32, addr + 12);
			put_unaligned_be32(guid, addr + 16);
			put_unaligned_be32(n * t->prefix, addr + 8);
			place = ipoib_addr_hash(addr, seeds[i]) % 8192;
			count[place]++;
			most = max_t(u32, most, count[place]);
		}
		/* Random hashes have 6; rhashtable refuses more than 16. */
		KUNIT_EXPECT_LE_MSG(test, most, 10, "seed %#x", seeds[i]);
	}
	KUNIT_EXPECT_NE(test, ipoib_addr_hash(addr, 1),
			ipoib_addr_hash(addr, 2));
}

/* Neighbours are spread evenly, whatever their addresses have in common. */
static void test_addr_queue(struct kunit *test)
{
	static const u32 nums[] = { 1, 2, 3, 4, 8, 16 };
	const struct hash_case *t = test->param_value;
	u8 *addr = test_copy(test, test_addr, INFINIBAND_ALEN);
	u32 i, n, queue, count[16];

	for (i = 0; i < ARRAY_SIZE(nums); i++) {
		memset(count, 0, sizeof(count));
		for (n = 0; n < 4096; n++) {
			u64 guid = 0x0002c903000a0000ULL + n * t->guid;

			put_unaligned_be32(0x48 + n * t->qpn, addr);
			put_unaligned_be32(guid >> 32, addr + 12);
			put_unaligned_be32(guid, addr + 16);
			put_unaligned_be32(n * t->prefix, addr + 8);
			queue = ipoib_addr_queue(addr, nums[i]);
			KUNIT_EXPECT_LT(test, queue, nums[i]);
			count[queue % ARRAY_SIZE(count)]++;
		}
		for (n = 0; n < nums[i]; n++) {
			KUNIT_EXPECT_GT(test, count[n], 4096 / nums[i] / 2);
			KUNIT_EXPECT_LT(test, count[n], 4096 / nums[i] * 2);
		}
	}
}

/* ---- ARP and neighbour discovery ---------------------------------------- */

/* Who has 10.0.0.2?  Tell 10.0.0.1 at test_addr, RFC 4391 section 9.1.2. */
static const u8 arp_request[] = {
	0x00, 0x20, 0x08, 0x00, 0x14, 0x04, 0x00, 0x01,
	0x00, 0x12, 0x34, 0x56,
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x02, 0xc9, 0x03, 0x00, 0x0a, 0xbc, 0xde,
	0x0a, 0x00, 0x00, 0x01,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x0a, 0x00, 0x00, 0x02,
};

/* Neighbour solicitation for fe80::2 with the option of section 9.3. */
static const u8 nd_solicit[] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x30, 0x3a, 0xff,
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x02, 0x02, 0xc9, 0x03, 0x00, 0x0a, 0xbc, 0xde,
	0xff, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x01, 0xff, 0x00, 0x00, 0x02,
	0x87, 0x00, 0x12, 0x34, 0x00, 0x00, 0x00, 0x00,
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
	0x01, 0x03, 0x00, 0x00,
	0x00, 0x12, 0x34, 0x56,
	0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x02, 0xc9, 0x03, 0x00, 0x0a, 0xbc, 0xde,
};

#define ND_TYPE		40	/* of the ICMPv6 message */
#define ND_OPTION	64
#define ND_ADDR		68

static void test_arp_address(struct kunit *test)
{
	u8 *pkt = test_copy(test, arp_request, sizeof(arp_request));
	const __be16 arp = htons(ETH_P_ARP);
	const u8 *addr;

	KUNIT_EXPECT_EQ(test, sizeof(arp_request), 56);
	addr = ipoib_pkt_lladdr(arp, pkt, sizeof(arp_request));
	KUNIT_EXPECT_PTR_EQ(test, addr, pkt + 8);
	KUNIT_EXPECT_MEMEQ(test, addr, test_addr, INFINIBAND_ALEN);
	pkt[7] = 2;	/* a reply has it, too */
	KUNIT_EXPECT_PTR_EQ(test, ipoib_pkt_lladdr(arp, pkt, 56), pkt + 8);

	pkt[1] = 1;	/* Ethernet */
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(arp, pkt, 56));
	pkt[1] = 0x20;
	pkt[4] = 6;
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(arp, pkt, 56));
	pkt[4] = 0xff;
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(arp, pkt, 56));
}

static void test_arp_cut(struct kunit *test)
{
	u32 len;

	for (len = 1; len <= sizeof(arp_request); len++) {
		u8 *pkt = test_copy(test, arp_request, len);
		const u8 *addr = ipoib_pkt_lladdr(htons(ETH_P_ARP), pkt, len);

		KUNIT_EXPECT_PTR_EQ(test, addr, len < 28 ? NULL : pkt + 8);
	}
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_ARP),
						 arp_request, 0));
}

static void test_nd_address(struct kunit *test)
{
	u8 *pkt = test_copy(test, nd_solicit, sizeof(nd_solicit));
	const __be16 ipv6 = htons(ETH_P_IPV6);
	const u32 len = sizeof(nd_solicit);
	u32 n;

	KUNIT_EXPECT_EQ(test, len, 88);
	KUNIT_EXPECT_PTR_EQ(test, ipoib_pkt_lladdr(ipv6, pkt, len),
			    pkt + ND_ADDR);
	KUNIT_EXPECT_MEMEQ(test, ipoib_pkt_lladdr(ipv6, pkt, len), test_addr,
			   INFINIBAND_ALEN);

	for (n = 0; n < 256; n++) {
		pkt[ND_TYPE] = n;	/* solicitation, advertisement */
		KUNIT_EXPECT_EQ(test, !!ipoib_pkt_lladdr(ipv6, pkt, len),
				n == 135 || n == 136);
	}
	pkt[ND_TYPE] = 136;
	for (n = 0; n < 256; n++) {
		pkt[ND_OPTION] = n;	/* source, target */
		KUNIT_EXPECT_EQ(test, !!ipoib_pkt_lladdr(ipv6, pkt, len),
				n == 1 || n == 2);
	}
	pkt[ND_OPTION] = 2;
	for (n = 0; n < 256; n++) {
		pkt[ND_OPTION + 1] = n;	/* units of 8 bytes; Ethernet has 1 */
		KUNIT_EXPECT_EQ(test, !!ipoib_pkt_lladdr(ipv6, pkt, len),
				n == 3);
	}
	pkt[ND_OPTION + 1] = 3;
	for (n = 0; n < 256; n++) {
		pkt[6] = n;		/* next header */
		KUNIT_EXPECT_EQ(test, !!ipoib_pkt_lladdr(ipv6, pkt, len),
				n == 58);
	}
}

static void test_nd_cut(struct kunit *test)
{
	u32 len;

	for (len = 1; len <= sizeof(nd_solicit); len++) {
		u8 *pkt = test_copy(test, nd_solicit, len);
		const u8 *addr = ipoib_pkt_lladdr(htons(ETH_P_IPV6), pkt, len);

		KUNIT_EXPECT_PTR_EQ(test, addr, len < sizeof(nd_solicit) ?
				    NULL : pkt + ND_ADDR);
	}
}

/* The Ethertype decides what a packet is, not its contents. */
static void test_told_others(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_IP), arp_request,
						 sizeof(arp_request)));
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_RARP), arp_request,
						 sizeof(arp_request)));
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_IPV6), arp_request,
						 sizeof(arp_request)));
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_ARP), nd_solicit,
						 sizeof(nd_solicit)));
	KUNIT_EXPECT_NULL(test, ipoib_pkt_lladdr(htons(ETH_P_IP), nd_solicit,
						 sizeof(nd_solicit)));
}

/* With any input, nothing beyond the packet is read or returned. */
static void test_told_random(struct kunit *test)
{
	static const u16 protos[] = { ETH_P_ARP, ETH_P_IPV6, ETH_P_IP };
	u32 state = 4391, round, told = 0;

	for (round = 0; round < 3000; round++) {
		bool arp = round % 3 == 0;
		__be16 proto = cpu_to_be16(protos[round % 3]);
		u32 full = arp ? sizeof(arp_request) : sizeof(nd_solicit);
		u32 len = 1 + test_random(&state) % full;
		u8 *pkt = test_copy(test, arp ? arp_request : nd_solicit, len);
		const u8 *addr;

		if (round % 2)
			len = full;
		pkt = test_copy(test, arp ? arp_request : nd_solicit, len);
		pkt[test_random(&state) % len] = test_random(&state) >> 24;
		if (round % 5 == 0)
			test_random_fill(&state, pkt, len);
		addr = ipoib_pkt_lladdr(proto, pkt, len);
		ipoib_is_probe(proto, pkt, len);
		if (!addr)
			continue;
		told++;
		KUNIT_EXPECT_TRUE(test, addr >= pkt &&
				  addr + INFINIBAND_ALEN <= pkt + len);
	}
	KUNIT_EXPECT_GT(test, told, 500);
}

static void test_probe_arp(struct kunit *test)
{
	u8 *pkt = test_copy(test, arp_request, sizeof(arp_request));
	const __be16 arp = htons(ETH_P_ARP);
	u32 n;

	for (n = 0; n < 256; n++) {
		pkt[7] = n;
		KUNIT_EXPECT_EQ(test, ipoib_is_probe(arp, pkt, 56), n == 1);
	}
	pkt[7] = 1;
	for (n = 0; n < 56; n++) {
		u32 target = ipoib_probe_target(arp, pkt, 56);

		pkt[n] ^= 0x11;
		KUNIT_EXPECT_EQ(test, target !=
				ipoib_probe_target(arp, pkt, 56), n >= 52);
		pkt[n] ^= 0x11;
	}
	for (n = 1; n <= 56; n++) {
		pkt = test_copy(test, arp_request, n);
		if (n >= 8)
			KUNIT_EXPECT_EQ(test,
					!ipoib_probe_target(arp, pkt, n),
					n < 56);
		KUNIT_EXPECT_EQ(test, ipoib_is_probe(arp, pkt, n), n >= 8);
		KUNIT_EXPECT_FALSE(test, ipoib_is_probe(htons(ETH_P_IP), pkt,
							n));
	}
}

/* What asks and what answers differ, whatever the octet is that says so. */
static void test_answers(struct kunit *test)
{
	u8 *pkt = test_copy(test, arp_request, sizeof(arp_request));
	const __be16 arp = htons(ETH_P_ARP), ipv6 = htons(ETH_P_IPV6);
	u32 n;

	for (n = 0; n < 256; n++) {
		pkt[7] = n;
		KUNIT_EXPECT_EQ(test, ipoib_is_answer(arp, pkt, 56), n == 2);
	}
	pkt[7] = 2;
	KUNIT_EXPECT_TRUE(test, ipoib_is_answer(arp, pkt, 8));
	KUNIT_EXPECT_FALSE(test, ipoib_is_answer(arp, pkt, 7));
	KUNIT_EXPECT_FALSE(test, ipoib_is_answer(htons(ETH_P_IP), pkt, 56));

	pkt = test_copy(test, nd_solicit, sizeof(nd_solicit));
	for (n = 0; n < 256; n++) {
		pkt[ND_TYPE] = n;
		KUNIT_EXPECT_EQ(test, ipoib_is_answer(ipv6, pkt, 88), n == 136);
	}
	pkt[ND_TYPE] = 136;
	KUNIT_EXPECT_TRUE(test, ipoib_is_answer(ipv6, pkt, 64));
	KUNIT_EXPECT_FALSE(test, ipoib_is_answer(ipv6, pkt, 63));
	pkt[6] = 6;	/* TCP */
	KUNIT_EXPECT_FALSE(test, ipoib_is_answer(ipv6, pkt, 88));
}

static void test_probe_nd(struct kunit *test)
{
	u8 *pkt = test_copy(test, nd_solicit, sizeof(nd_solicit));
	const __be16 ipv6 = htons(ETH_P_IPV6);
	u32 n;

	for (n = 0; n < 256; n++) {
		pkt[ND_TYPE] = n;
		KUNIT_EXPECT_EQ(test, ipoib_is_probe(ipv6, pkt, 88), n == 135);
	}
	pkt[ND_TYPE] = 135;
	for (n = 0; n < 88; n++) {
		u32 target = ipoib_probe_target(ipv6, pkt, 88);

		pkt[n] ^= 0x11;
		KUNIT_EXPECT_EQ(test, target !=
				ipoib_probe_target(ipv6, pkt, 88),
				n >= 48 && n < 64);
		pkt[n] ^= 0x11;
	}
	pkt[6] = 6;	/* TCP */
	KUNIT_EXPECT_FALSE(test, ipoib_is_probe(ipv6, pkt, 88));
	for (n = 1; n <= 88; n++) {
		pkt = test_copy(test, nd_solicit, n);
		KUNIT_EXPECT_EQ(test, ipoib_is_probe(ipv6, pkt, n), n >= 64);
		KUNIT_EXPECT_FALSE(test, ipoib_is_probe(htons(ETH_P_IP), pkt,
							n));
	}
}

/* ---- connected mode's private data -------------------------------------- */

static const u8 cm_rfc[8] = {
	0x00, 0x12, 0x34, 0x56,		/* QPN */
	0x00, 0x00, 0xff, 0xf4,		/* 65524 = 65520 + 4 */
};

static const u8 cm_extended[20] = {
	0x00, 0x12, 0x34, 0x56,
	0x00, 0x00, 0xff, 0xf4,
	0x49, 0x50, 0x6f, 0x2b,		/* magic */
	0x01, 0x00, 0x00, 0x00,		/* version, reserved */
	0x00, 0x00, 0x00, 0x01,		/* no checksums */
};

static void test_cm_octets(struct kunit *test)
{
	struct ipoib_cm_private *p;

	p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_EXPECT_EQ(test, sizeof(*p), 20);
	KUNIT_EXPECT_EQ(test, IPOIB_CM_MSG_MAX, 65524);

	memset(p, 0xa5, sizeof(*p));
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_fill(p, 0x123456, 65524, 0), 8);
	KUNIT_EXPECT_MEMEQ(test, p, cm_rfc, 8);

	memset(p, 0xa5, sizeof(*p));
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_fill(p, 0xff123456, 65524,
						    IPOIB_CM_CAP_NO_CSUM), 20);
	KUNIT_EXPECT_MEMEQ(test, p, cm_extended, 20);
}

/* The CM passes 92 bytes of a REQ, 196 of a REP, padded with zeroes. */
static void test_cm_rfc_peer(struct kunit *test)
{
	static const u32 lens[] = { 8, 92, 196 };
	struct ipoib_cm_peer peer;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		u8 *data = kunit_kzalloc(test, lens[i], GFP_KERNEL);

		KUNIT_ASSERT_NOT_NULL(test, data);
		memcpy(data, cm_rfc, sizeof(cm_rfc));
		memset(&peer, 0xa5, sizeof(peer));
		KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data,
							     lens[i]), 0);
		KUNIT_EXPECT_EQ(test, peer.qpn, 0x123456);
		KUNIT_EXPECT_EQ(test, peer.max_msg, 65524);
		KUNIT_EXPECT_EQ(test, peer.caps, 0);
	}
}

static void test_cm_own_peer(struct kunit *test)
{
	struct ipoib_cm_peer peer = { };
	u8 *data = kunit_kzalloc(test, 92, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	memcpy(data, cm_extended, sizeof(cm_extended));
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data, 92), 0);
	KUNIT_EXPECT_EQ(test, peer.qpn, 0x123456);
	KUNIT_EXPECT_EQ(test, peer.max_msg, 65524);
	KUNIT_EXPECT_EQ(test, peer.caps, IPOIB_CM_CAP_NO_CSUM);
}

/* Truncated parts are ignored; without the RFC's part there is no peer. */
static void test_cm_cut(struct kunit *test)
{
	u32 len;

	for (len = 1; len <= 20; len++) {
		struct ipoib_cm_peer peer = { .qpn = 1, .caps = 0xa5 };
		u8 *data = test_copy(test, cm_extended, len);
		int ret = ipoib_cm_private_parse(&peer, data, len);

		KUNIT_EXPECT_EQ_MSG(test, ret, len < 8 ? -EINVAL : 0,
				    "%u octets", len);
		KUNIT_EXPECT_EQ_MSG(test, peer.qpn, len < 8 ? 1 : 0x123456,
				    "%u octets", len);
		KUNIT_EXPECT_EQ_MSG(test, peer.caps, len < 8 ? 0xa5 :
				    len < 20 ? 0 : IPOIB_CM_CAP_NO_CSUM,
				    "%u octets", len);
	}
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(NULL, NULL, 0), -EINVAL);
}

static void test_cm_versions(struct kunit *test)
{
	u8 *data = test_copy(test, cm_extended, sizeof(cm_extended));
	u32 n;

	for (n = 0; n < 256; n++) {
		struct ipoib_cm_peer peer = { };

		data[12] = n;
		KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data, 20),
				0);
		KUNIT_EXPECT_EQ(test, peer.caps,
				n ? IPOIB_CM_CAP_NO_CSUM : 0);
	}
}

/* Data of later versions, or of other drivers, does no harm. */
static void test_cm_unknown(struct kunit *test)
{
	u8 *data = test_copy(test, cm_extended, sizeof(cm_extended));
	struct ipoib_cm_peer peer = { };
	u32 bit;

	data[0] = 0xff;			/* flags of the QPN field */
	memset(data + 13, 0xff, 3);	/* reserved */
	memset(data + 16, 0xff, 4);	/* all possible capabilities */
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data, 20), 0);
	KUNIT_EXPECT_EQ(test, peer.qpn, 0x123456);
	KUNIT_EXPECT_EQ(test, peer.caps, IPOIB_CM_CAPS);

	/* Not our magic, but one bit away from it. */
	for (bit = 0; bit < 32; bit++) {
		data[8 + bit / 8] ^= 1 << (bit % 8);
		KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data, 20),
				0);
		KUNIT_EXPECT_EQ(test, peer.caps, 0);
		data[8 + bit / 8] ^= 1 << (bit % 8);
	}
}

static const struct cm_value {
	const char *desc;
	u32 qpn;
	u32 max_msg;
	int ret;
	u32 result;
} cm_values[] = {
	{ "deployed peers", 0x48, 65524, 0, 65524 },
	{ "IPv6's least MTU", 0x48, 1284, 0, 1284 },
	{ "IPv4's least MTU", 0x48, 72, 0, 72 },
	{ "one less", 0x48, 71, -EINVAL },
	{ "no more than a header", 0x48, 4, -EINVAL },
	{ "less than a header", 0x48, 3, -EINVAL },
	{ "no message", 0x48, 0, -EINVAL },
	{ "more than an IP packet", 0x48, 65525, 0, 65524 },
	{ "2 GiB", 0x48, 0x80000000, 0, 65524 },
	{ "4 GiB less one", 0x48, 0xffffffff, 0, 65524 },
	{ "4 GiB less a header", 0x48, 0xfffffffc, 0, 65524 },
	{ "least QPN", 2, 65524, 0, 65524 },
	{ "greatest QPN", 0xfffffe, 65524, 0, 65524 },
	{ "QP0", 0, 65524, -EINVAL },
	{ "QP1", 1, 65524, -EINVAL },
	{ "multicast QPN", 0xffffff, 65524, -EINVAL },
};

static void cm_value_desc(const struct cm_value *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(cm_value, cm_values, cm_value_desc);

static void test_cm_values(struct kunit *test)
{
	const struct cm_value *t = test->param_value;
	struct ipoib_cm_peer peer = { 1, 2, 3 };
	u8 *data = test_copy(test, cm_extended, sizeof(cm_extended));

	put_unaligned_be32(t->qpn, data);
	put_unaligned_be32(t->max_msg, data + 4);
	KUNIT_EXPECT_EQ(test, ipoib_cm_private_parse(&peer, data, 20), t->ret);
	KUNIT_EXPECT_EQ(test, peer.qpn, t->ret ? 1 : t->qpn);
	KUNIT_EXPECT_EQ(test, peer.max_msg, t->ret ? 2 : t->result);
	KUNIT_EXPECT_EQ(test, peer.caps, t->ret ? 3 : IPOIB_CM_CAP_NO_CSUM);
}

/* With any input, values that are accepted are usable. */
static void test_cm_random(struct kunit *test)
{
	u32 state = 4755, round, good = 0;

	for (round = 0; round < 3000; round++) {
		u32 len = 1 + test_random(&state) % 32;
		struct ipoib_cm_peer peer = { };
		u8 *data = kunit_kzalloc(test, len + 1, GFP_KERNEL);

		/* At odd addresses, too: the CM does not promise alignment. */
		KUNIT_ASSERT_NOT_NULL(test, data);
		test_random_fill(&state, data + 1, len);
		if (ipoib_cm_private_parse(&peer, data + 1, len))
			continue;
		good++;
		KUNIT_EXPECT_GE(test, len, 8);
		KUNIT_EXPECT_TRUE(test, peer.qpn > 1 && peer.qpn < 0xffffff);
		KUNIT_EXPECT_TRUE(test, peer.max_msg >= 72 &&
				  peer.max_msg <= 65524);
		KUNIT_EXPECT_EQ(test, peer.caps & ~IPOIB_CM_CAPS, 0);
	}
	KUNIT_EXPECT_GT(test, good, 1000);
}

static void test_cm_service_id(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ipoib_cm_service_id(0x123456),
			0x1000000000123456ULL);
	KUNIT_EXPECT_EQ(test, ipoib_cm_service_id(0x80123456),
			0x1000000000123456ULL);
}

/* ---- packets without checksum or to be cut ------------------------------ */

static const u8 tcp4_packet[60] = {
	0x46, 0x00, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00,
	0x40, 0x06, 0x00, 0x00, 10, 0, 0, 1, 10, 0, 0, 2,
	0x01, 0x01, 0x01, 0x00,			/* IP options */
	0x12, 0x34, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 0,
	0x60, 0x10, 0x20, 0x00, 0, 0, 0, 0,	/* 24 bytes of header */
	0x01, 0x01, 0x01, 0x00,
};

static const u8 udp6_packet[56] = {
	0x60, 0x00, 0x00, 0x00, 0x00, 0x10, 0x11, 0x40,
	[40] = 0x12, 0x34, 0x00, 0x35, 0x00, 0x10, 0x00, 0x00,
};

static void test_transport(struct kunit *test)
{
	struct ipoib_transport t;

	KUNIT_EXPECT_EQ(test, ipoib_transport_parse(&t, htons(ETH_P_IP),
						    tcp4_packet, 60), 0);
	KUNIT_EXPECT_EQ(test, t.proto, IPPROTO_TCP);
	KUNIT_EXPECT_EQ(test, t.start, 24);
	KUNIT_EXPECT_EQ(test, t.end, 48);
	KUNIT_EXPECT_EQ(test, t.csum, 40);

	KUNIT_EXPECT_EQ(test, ipoib_transport_parse(&t, htons(ETH_P_IPV6),
						    udp6_packet, 56), 0);
	KUNIT_EXPECT_EQ(test, t.proto, IPPROTO_UDP);
	KUNIT_EXPECT_EQ(test, t.start, 40);
	KUNIT_EXPECT_EQ(test, t.end, 48);
	KUNIT_EXPECT_EQ(test, t.csum, 46);

	KUNIT_EXPECT_EQ(test, ipoib_transport_parse(&t, htons(ETH_P_IPV6),
						    tcp4_packet, 60), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_transport_parse(&t, htons(ETH_P_IP),
						    udp6_packet, 56), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_transport_parse(&t, htons(ETH_P_ARP),
						    tcp4_packet, 60), -EINVAL);
}

/* A truncated header is ignored; nothing behind the end is read. */
static void test_transport_cut(struct kunit *test)
{
	struct ipoib_transport t;
	u32 len;

	for (len = 1; len <= sizeof(tcp4_packet); len++) {
		u8 *pkt = test_copy(test, tcp4_packet, len);

		KUNIT_EXPECT_EQ_MSG(test, ipoib_transport_parse(&t,
					htons(ETH_P_IP), pkt, len),
				    len < 48 ? -EINVAL : 0, "%u octets", len);
	}
	for (len = 1; len <= sizeof(udp6_packet); len++) {
		u8 *pkt = test_copy(test, udp6_packet, len);

		KUNIT_EXPECT_EQ_MSG(test, ipoib_transport_parse(&t,
					htons(ETH_P_IPV6), pkt, len),
				    len < 48 ? -EINVAL : 0, "%u octets", len);
	}
}

/* Single bytes that make a packet something else. */
static void test_transport_refused(struct kunit *test)
{
	static const struct {
		u8 at, value;
	} bad[] = {
		{ 0, 0x66 }, { 0, 0x44 }, { 0, 0x4f }, { 6, 0x20 }, { 7, 1 },
		{ 9, IPPROTO_ICMP }, { 36, 0x40 }, { 36, 0xf0 },
	};
	struct ipoib_transport t;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		u8 *pkt = test_copy(test, tcp4_packet, sizeof(tcp4_packet));

		pkt[bad[i].at] = bad[i].value;
		KUNIT_EXPECT_EQ_MSG(test, ipoib_transport_parse(&t,
					htons(ETH_P_IP), pkt, 60), -EINVAL,
				    "octet %u", bad[i].at);
	}
}

static void test_transport_random(struct kunit *test)
{
	u32 state = 793, round;

	for (round = 0; round < 3000; round++) {
		u32 len = 1 + test_random(&state) % 80;
		u8 *pkt = kunit_kzalloc(test, len, GFP_KERNEL);
		struct ipoib_transport t;
		bool six = round & 1;

		KUNIT_ASSERT_NOT_NULL(test, pkt);
		test_random_fill(&state, pkt, len);
		pkt[0] = six ? 0x60 : 0x40 | (pkt[0] & 0xf);
		if (ipoib_transport_parse(&t, six ? htons(ETH_P_IPV6) :
					  htons(ETH_P_IP), pkt, len))
			continue;
		KUNIT_EXPECT_LE(test, t.end, len);
		KUNIT_EXPECT_LE(test, t.csum + 2, t.end);
		KUNIT_EXPECT_GE(test, t.csum, t.start);
	}
}

static void test_imm_check(struct kunit *test)
{
	const struct ipoib_transport t = { IPPROTO_TCP, 20, 40, 36 };
	const u32 csum = IPOIB_IMM_CSUM, gso = csum | IPOIB_IMM_GSO;

	/* Refused if not agreed on, or for packets without a checksum. */
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(csum, 0, &t, 100), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(csum, 3, NULL, 100), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(0, 3, &t, 100), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(csum, 1, &t, 100), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(csum, 3, &t, 39), -EINVAL);
	/* To be cut: into at least two segments, with a valid size. */
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 90, 1, &t, 999), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 90, 3, &t, 999), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 958, 3, &t, 999), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 959, 3, &t, 999), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 960, 3, &t, 999), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso, 3, &t, 999), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 90, 3, &t, 40), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 90, 3, &t, 39), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 90 | IPOIB_IMM_ECN, 3, &t,
					      999), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(IPOIB_IMM_GSO | 90, 3, &t, 999),
			-EINVAL);
}

/* Limits how many packets a peer can have made of one message. */
static void test_imm_check_segs(struct kunit *test)
{
	const struct ipoib_transport tcp = { IPPROTO_TCP, 20, 40, 36 };
	const struct ipoib_transport udp = { IPPROTO_UDP, 20, 28, 26 };
	const u32 gso = IPOIB_IMM_CSUM | IPOIB_IMM_GSO;

	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 1, 3, &tcp, 65520),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 87, 3, &tcp, 65520),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 88, 3, &tcp, 65520), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 87, 3, &udp, 300),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 100, 3, &udp, 12828), 0);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 100, 3, &udp, 12829),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_imm_check(gso | 1000 | IPOIB_IMM_ECN, 3,
					      &udp, 20000), -EINVAL);
}

/* ---- what has to be done to a packet ------------------------------------ */

static const u32 fit_types[] = {
	SKB_GSO_TCPV4, SKB_GSO_TCPV6, SKB_GSO_UDP_L4,
	SKB_GSO_TCPV4 | SKB_GSO_DODGY, SKB_GSO_TCPV6 | SKB_GSO_DODGY,
	SKB_GSO_UDP_L4 | SKB_GSO_DODGY,
	SKB_GSO_TCPV4 | SKB_GSO_TCP_ECN, SKB_GSO_TCPV6 | SKB_GSO_TCP_ECN,
	SKB_GSO_UDP_L4 | SKB_GSO_TCP_ECN,
	SKB_GSO_TCPV4 | SKB_GSO_TCPV6, SKB_GSO_TCPV4 | SKB_GSO_UDP_L4,
	SKB_GSO_TCPV4 | SKB_GSO_TCP_FIXEDID,
	SKB_GSO_TCPV4 | SKB_GSO_GRE, SKB_GSO_TCPV6 | SKB_GSO_GRE_CSUM,
	SKB_GSO_TCPV4 | SKB_GSO_UDP_TUNNEL,
	SKB_GSO_UDP_L4 | SKB_GSO_UDP_TUNNEL_CSUM,
	SKB_GSO_TCPV4 | SKB_GSO_IPXIP4, SKB_GSO_TCPV6 | SKB_GSO_IPXIP6,
	SKB_GSO_TCPV4 | SKB_GSO_PARTIAL, SKB_GSO_TCPV4 | SKB_GSO_ESP,
	SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST, SKB_GSO_TCPV4 | SKB_GSO_FRAGLIST,
	SKB_GSO_UDP, SKB_GSO_SCTP, SKB_GSO_FCOE, SKB_GSO_DODGY, 0,
	/* Accurate ECN of newer kernels, and one to come */
	SKB_GSO_TCPV4 | 1 << 19, SKB_GSO_TCPV6 | 1 << 25,
};

/* Transport headers, @end behind the IP header; the first is none. */
static const struct fit_header {
	struct ipoib_transport t;
	bool ipv6;
} fit_headers[] = {
	{ { 0, 0, 0, 0 }, false },
	{ { 0, 0, 0, 0 }, true },
	{ { IPPROTO_TCP, 20, 40, 36 }, false },
	{ { IPPROTO_TCP, 60, 120, 76 }, false },
	{ { IPPROTO_TCP, 60, 124, 76 }, false },
	{ { IPPROTO_TCP, 40, 72, 56 }, true },
	{ { IPPROTO_UDP, 20, 28, 26 }, false },
	{ { IPPROTO_UDP, 40, 48, 46 }, true },
};

static const struct {
	u32 len, gso_size;
} fit_lengths[] = {
	{ 4, 0 }, { 64, 0 }, { 2048, 0 }, { 2049, 0 }, { 4096, 0 },
	{ 65524, 0 }, { 65525, 0 }, { 0xffffffff, 0 },
	{ 300, 1 }, { 900, 87 }, { 900, 88 }, { 2000, 1448 }, { 1400, 1448 },
	{ 20000, 1000 }, { 20000, 2004 }, { 20000, 2005 }, { 20000, 4020 },
	{ 65524, 400 }, { 65524, 88 }, { 65524, 1448 }, { 65524, 60000 },
	{ 65524, 65535 }, { 65525, 1448 }, { 200000, 1448 },
};

static const struct ipoib_fit_dest fit_dests[] = {
	{ false, 2048, 17, false, false, false, 42, 0 },
	{ false, 2048, 17, false, true, false, 42, 0 },
	{ false, 2048, 17, false, true, true, 42, 0 },
	{ false, 4096, 17, false, true, true, 21, 0 },
	{ false, 4096, 3, false, true, true, 42, 0 },
	{ false, 4096, 2, false, false, false, 42, 0 },
	{ false, 0, 1, false, false, false, 0, 0 },
	{ true, 65524, 17, true, true, true, 42, 0 },
	{ true, 65524, 17, true, false, false, 42, 1 },
	{ true, 65524, 17, true, true, true, 42, 3 },
	{ true, 65524, 3, true, true, true, 42, 3 },
	{ true, 65524, 2, false, true, true, 42, 3 },
	{ true, 2048, 17, true, true, true, 42, 3 },
	{ true, 2048, 17, true, true, true, 42, 2 },
	{ true, 100, 17, true, true, true, 0, 3 },
};

static const u32 fit_pieces[] = { 0, 1, 2, 15, 16, 17, U8_MAX };

static bool fit_one_bit(u32 bits)
{
	return bits && !(bits & (bits - 1));
}

/* Is the type, apart from being untrusted, one of these? */
static bool fit_is(const struct ipoib_fit_packet *p, u32 a, u32 b)
{
	u32 type = p->gso_type & ~(u32)SKB_GSO_DODGY;

	return type == a || type == b;
}

/* Is a packet that is to be cut, as its headers say, what its type says? */
static bool fit_is_true(const struct ipoib_fit_packet *p)
{
	u32 plain = p->gso_type & ~(u32)(SKB_GSO_DODGY | SKB_GSO_TCP_ECN);

	if (!p->partial)
		return false;
	if (p->t.proto == IPPROTO_UDP)
		return fit_is(p, SKB_GSO_UDP_L4, SKB_GSO_UDP_L4);
	return p->t.proto == IPPROTO_TCP &&
	       plain == (p->ipv6 ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4);
}

/* What must be true for a packet that is not to be cut. */
static const char *fit_wrong_whole(const struct ipoib_fit_packet *p,
				   const struct ipoib_fit_dest *d, u32 fit)
{
	u32 csum = fit & (IPOIB_FIT_CSUM_HCA | IPOIB_FIT_PEER |
			  IPOIB_FIT_CSUM);

	if (fit & (IPOIB_FIT_LSO | IPOIB_FIT_TSO | IPOIB_FIT_SEGMENT))
		return "cut";
	if (p->len > d->max_len)
		return fit == IPOIB_FIT_TOO_LONG ? NULL : "length";
	if (fit & IPOIB_FIT_TOO_LONG)
		return "not long";
	if (p->partial ? !fit_one_bit(csum) : csum)
		return "checksum";
	if (csum == IPOIB_FIT_CSUM_HCA && !(d->csum && p->hca_csum))
		return "checksum of the HCA";
	if (csum == IPOIB_FIT_PEER &&
	    !(d->caps & IPOIB_CM_CAP_NO_CSUM && p->t.proto))
		return "checksum of the peer";
	if (!!(fit & IPOIB_FIT_REPACK) != (p->pieces + 1 > d->max_sge))
		return "pieces";
	return NULL;
}

static const char *fit_wrong_tso(const struct ipoib_fit_packet *p,
				 const struct ipoib_fit_dest *d)
{
	if (p->t.proto != IPPROTO_TCP ||
	    !fit_is(p, SKB_GSO_TCPV4, SKB_GSO_TCPV6))
		return "no TCP to cut here";
	if (4 + p->t.end > 128 || p->pieces + 2 > d->max_sge)
		return "no room for headers or pieces";
	if (p->len - 4 - p->t.end > d->segs * p->gso_size)
		return "segments";
	if (p->shared && !(d->csum && !p->ipv6))
		return "checksum of what may change";
	return NULL;
}

static const char *fit_wrong_peer(const struct ipoib_fit_packet *p,
				  const struct ipoib_fit_dest *d, u32 fit)
{
	u32 payload = p->len - 4 - p->t.end;

	if (d->caps != IPOIB_CM_CAPS || p->len > d->max_len)
		return "more than the peer takes";
	if (p->gso_size < 88 || (p->t.proto == IPPROTO_UDP &&
				 payload > 128 * p->gso_size))
		return "too many segments";
	if (p->pieces + 1 > d->max_sge ? !(fit & IPOIB_FIT_REPACK) :
					 !!(fit & IPOIB_FIT_REPACK))
		return "pieces";
	return fit & IPOIB_FIT_REPACK && !d->repack ? "can't repack" : NULL;
}

/* What must be true for a packet that is to be cut. */
static const char *fit_wrong_gso(const struct ipoib_fit_packet *p,
				 const struct ipoib_fit_dest *d, u32 fit)
{
	bool known = fit_is_true(p) &&
		     p->len > 4 + p->t.end + p->gso_size;
	bool longer = 4 + p->t.end + p->gso_size > d->max_len;

	if (!known)
		return fit == IPOIB_FIT_SEGMENT ? NULL : "not what it says";
	if (longer)
		return fit == IPOIB_FIT_TOO_LONG ? NULL : "long segments";
	switch (fit & ~(u32)IPOIB_FIT_REPACK) {
	case IPOIB_FIT_LSO:
		if (!d->lso || !fit_is(p, SKB_GSO_TCPV4, SKB_GSO_TCPV4) ||
		    p->gso_size < 88 || p->pieces + 1 > d->max_sge ||
		    fit & IPOIB_FIT_REPACK)
			return "LSO";
		return NULL;
	case IPOIB_FIT_TSO:
		return fit & IPOIB_FIT_REPACK ? "repack" : fit_wrong_tso(p, d);
	case IPOIB_FIT_PEER:
		return fit_wrong_peer(p, d, fit);
	case IPOIB_FIT_SEGMENT:
		return NULL;
	default:
		return "neither cut nor refused";
	}
}

static const char *fit_wrong(const struct ipoib_fit_packet *p,
			     const struct ipoib_fit_dest *d, u32 fit)
{
	if (fit & ~(u32)0xff)
		return "unknown bits";
	if (d->rc ? fit & (IPOIB_FIT_CSUM_HCA | IPOIB_FIT_LSO |
			   IPOIB_FIT_TSO) : fit & IPOIB_FIT_PEER)
		return "another engine's";
	if (fit & (IPOIB_FIT_SEGMENT | IPOIB_FIT_TOO_LONG) &&
	    !fit_one_bit(fit))
		return "more than one end";
	if (p->gso_size)
		return fit_wrong_gso(p, d, fit);
	return fit_wrong_whole(p, d, fit);
}

/* No step is asked for twice: each makes progress. */
static const char *fit_stuck(struct ipoib_fit_packet p,
			     const struct ipoib_fit_dest *d, u32 fit)
{
	u32 next;

	if (!(fit & (IPOIB_FIT_CSUM | IPOIB_FIT_REPACK)))
		return NULL;
	if (fit & IPOIB_FIT_CSUM)
		p.partial = false;
	if (fit & IPOIB_FIT_REPACK)
		p.pieces = 0;
	next = ipoib_fit(&p, d);
	return next & IPOIB_FIT_NOT_YET ? "asks again" : NULL;
}

static void fit_check(struct kunit *test, const struct ipoib_fit_packet *p,
		      const struct ipoib_fit_dest *d)
{
	u32 fit = ipoib_fit(p, d);
	const char *wrong = fit_wrong(p, d, fit) ?: fit_stuck(*p, d, fit);

	if (wrong)
		KUNIT_FAIL(test,
			   "%s: fit %#x, %s %u, len %u, size %u, type %#x, l4 %u, ipv6 %d, partial %d, pieces %u",
			   wrong, fit, d->rc ? "rc" : "ud", d->max_len, p->len,
			   p->gso_size, p->gso_type, p->t.proto, p->ipv6,
			   p->partial, p->pieces);
	if (ipoib_fit_is_plain(p->len, p->pieces, p->gso_size, d->max_len,
			       d->max_sge))
		KUNIT_EXPECT_EQ(test, fit & ~(u32)(IPOIB_FIT_CSUM_HCA |
						   IPOIB_FIT_PEER |
						   IPOIB_FIT_CSUM), 0);
}

/* All pieces and checksums of a packet, to all destinations. */
static void fit_check_all(struct kunit *test, struct ipoib_fit_packet p)
{
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(fit_pieces) * 4; i++) {
		p.pieces = fit_pieces[i / 4];
		p.partial = i & 1;
		p.shared = i & 2;
		p.hca_csum = p.partial && p.t.proto && !p.ipv6;
		for (j = 0; j < ARRAY_SIZE(fit_dests); j++)
			fit_check(test, &p, &fit_dests[j]);
	}
}

static void test_fit_product(struct kunit *test)
{
	u32 type, header, length;

	for (length = 0; length < ARRAY_SIZE(fit_lengths); length++)
		for (header = 0; header < ARRAY_SIZE(fit_headers); header++)
			for (type = 0; type < ARRAY_SIZE(fit_types); type++)
				fit_check_all(test, (struct ipoib_fit_packet){
					.len = fit_lengths[length].len,
					.gso_size = fit_lengths[length].gso_size,
					.gso_type = fit_types[type],
					.ipv6 = fit_headers[header].ipv6,
					.t = fit_headers[header].t,
				});
}

/* With any unknown bit in its type, a packet is still cut by the stack. */
static void test_fit_unknown_types(struct kunit *test)
{
	const u32 known = SKB_GSO_TCPV4 | SKB_GSO_DODGY | SKB_GSO_TCP_ECN;
	struct ipoib_fit_packet p = {
		.len = 20000, .gso_size = 1000, .partial = true,
		.t = { IPPROTO_TCP, 20, 40, 36 },
	};
	u32 bit, i;

	for (bit = 0; bit < 32; bit++) {
		if (known & BIT(bit))
			continue;
		p.gso_type = SKB_GSO_TCPV4 | BIT(bit);
		for (i = 0; i < ARRAY_SIZE(fit_dests); i++)
			KUNIT_EXPECT_EQ_MSG(test, ipoib_fit(&p, &fit_dests[i]),
					    IPOIB_FIT_SEGMENT, "bit %u", bit);
	}
}

enum { FIT_NONE, FIT_CSUM, FIT_LSO, FIT_RFC, FIT_OURS, FIT_DESTS };

static const struct ipoib_fit_dest fit_usual[] = {
	[FIT_NONE] = { false, 2048, 17, false, false, false, 42, 0 },
	[FIT_CSUM] = { false, 2048, 17, false, true, false, 42, 0 },
	[FIT_LSO] = { false, 2048, 17, false, true, true, 42, 0 },
	[FIT_RFC] = { true, 65524, 17, true, true, true, 42, 0 },
	[FIT_OURS] = { true, 65524, 17, true, true, true, 42, 3 },
};

/* Expected results for each kind of packet, so that none is cut needlessly. */
static const struct fit_case {
	const char *desc;
	u32 type, size, len;
	u32 header;
	u32 want[FIT_DESTS];
} fit_cases[] = {
	{ "UDP over IPv4", 0, 0, 1000, 6,
	  { IPOIB_FIT_CSUM, IPOIB_FIT_CSUM_HCA, IPOIB_FIT_CSUM_HCA,
	    IPOIB_FIT_CSUM, IPOIB_FIT_PEER } },
	{ "UDP over IPv6", 0, 0, 1000, 7,
	  { IPOIB_FIT_CSUM, IPOIB_FIT_CSUM, IPOIB_FIT_CSUM,
	    IPOIB_FIT_CSUM, IPOIB_FIT_PEER } },
	{ "extension headers", 0, 0, 1000, 1,
	  { IPOIB_FIT_CSUM, IPOIB_FIT_CSUM, IPOIB_FIT_CSUM,
	    IPOIB_FIT_CSUM, IPOIB_FIT_CSUM } },
	{ "TCP over IPv4", SKB_GSO_TCPV4, 1448, 40000, 2,
	  { IPOIB_FIT_TSO, IPOIB_FIT_TSO, IPOIB_FIT_LSO,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "the same, untrusted", SKB_GSO_TCPV4 | SKB_GSO_DODGY, 1448, 40000, 2,
	  { IPOIB_FIT_TSO, IPOIB_FIT_TSO, IPOIB_FIT_LSO,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "small segments, untrusted", SKB_GSO_TCPV4 | SKB_GSO_DODGY, 500,
	  40000, 2, { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_LSO,
		      IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "least segments", SKB_GSO_TCPV4, 88, 3000, 2,
	  { IPOIB_FIT_TSO, IPOIB_FIT_TSO, IPOIB_FIT_LSO,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "too small segments", SKB_GSO_TCPV4, 87, 3000, 2,
	  { IPOIB_FIT_TSO, IPOIB_FIT_TSO, IPOIB_FIT_TSO,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT } },
	{ "many too small segments", SKB_GSO_TCPV4 | SKB_GSO_DODGY, 8, 40000,
	  2, { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
	       IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT } },
	{ "TCP with CWR", SKB_GSO_TCPV4 | SKB_GSO_TCP_ECN, 1448, 40000, 2,
	  { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "TCP over IPv6", SKB_GSO_TCPV6, 1448, 40000, 5,
	  { IPOIB_FIT_TSO, IPOIB_FIT_TSO, IPOIB_FIT_TSO,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "TCP behind extension headers", SKB_GSO_TCPV6, 1448, 40000, 1,
	  { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT } },
	{ "UDP segments", SKB_GSO_UDP_L4, 1000, 20000, 6,
	  { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "TCP of long segments", SKB_GSO_TCPV4, 9000, 40000, 2,
	  { IPOIB_FIT_TOO_LONG, IPOIB_FIT_TOO_LONG, IPOIB_FIT_TOO_LONG,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	{ "a tunnel", SKB_GSO_TCPV4 | SKB_GSO_UDP_TUNNEL, 1400, 40000, 6,
	  { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
	    IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT } },
};

static void fit_case_desc(const struct fit_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(fit_case, fit_cases, fit_case_desc);

static void test_fit(struct kunit *test)
{
	const struct fit_case *t = test->param_value;
	const struct fit_header *header = &fit_headers[t->header];
	struct ipoib_fit_packet p = {
		.len = t->len, .pieces = 15, .gso_type = t->type,
		.gso_size = t->size, .partial = true,
		.hca_csum = header->t.proto && !header->ipv6,
		.ipv6 = header->ipv6, .t = header->t,
	};
	u32 i;

	for (i = 0; i < FIT_DESTS; i++)
		KUNIT_EXPECT_EQ_MSG(test, ipoib_fit(&p, &fit_usual[i]),
				    t->want[i], "destination %u", i);
}

/* The CPU does not checksum data that may change unless it copies the data. */
static void test_fit_shared(struct kunit *test)
{
	static const struct {
		u32 header, type, want[FIT_DESTS];
	} cases[] = {
		{ 2, SKB_GSO_TCPV4,
		  { IPOIB_FIT_SEGMENT, IPOIB_FIT_TSO, IPOIB_FIT_LSO,
		    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
		{ 5, SKB_GSO_TCPV6,
		  { IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT, IPOIB_FIT_SEGMENT,
		    IPOIB_FIT_SEGMENT, IPOIB_FIT_PEER } },
	};
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fit_header *header = &fit_headers[cases[i].header];
		struct ipoib_fit_packet p = {
			.len = 40000, .pieces = 15, .gso_type = cases[i].type,
			.gso_size = 1448, .partial = true, .shared = true,
			.hca_csum = !header->ipv6, .ipv6 = header->ipv6,
			.t = header->t,
		};

		for (j = 0; j < FIT_DESTS; j++)
			KUNIT_EXPECT_EQ_MSG(test, ipoib_fit(&p, &fit_usual[j]),
					    cases[i].want[j],
					    "case %u, destination %u", i, j);
	}
}

static void test_fit_imm(struct kunit *test)
{
	struct ipoib_fit_packet p = { .len = 1000, .partial = true };

	KUNIT_EXPECT_EQ(test, ipoib_fit_imm(&p), 0x80000000);
	p.gso_size = 1448;
	p.gso_type = SKB_GSO_TCPV6 | SKB_GSO_DODGY;
	KUNIT_EXPECT_EQ(test, ipoib_fit_imm(&p), 0xc00005a8);
	p.gso_type |= SKB_GSO_TCP_ECN;
	KUNIT_EXPECT_EQ(test, ipoib_fit_imm(&p), 0xe00005a8);
}

static void test_fit_hca_csum(struct kunit *test)
{
	u8 *pkt = test_copy(test, tcp4_packet, sizeof(struct iphdr));

	KUNIT_EXPECT_TRUE(test, ipoib_fit_hca_csum(htons(ETH_P_IP), pkt, 24));
	KUNIT_EXPECT_FALSE(test, ipoib_fit_hca_csum(htons(ETH_P_IP), pkt, 20));
	KUNIT_EXPECT_FALSE(test,
			   ipoib_fit_hca_csum(htons(ETH_P_IPV6), pkt, 24));
	pkt[9] = IPPROTO_SCTP;
	KUNIT_EXPECT_FALSE(test, ipoib_fit_hca_csum(htons(ETH_P_IP), pkt, 24));
}

/* ---- events ------------------------------------------------------------- */

static const struct event_case {
	enum ib_event_type event;
	const char *desc;
	unsigned long bits;
} event_cases[] = {
	{ IB_EVENT_SM_CHANGE, "SM change", BIT(IPOIB_EV_REVALIDATE) },
	{ IB_EVENT_CLIENT_REREGISTER, "client reregister",
	  BIT(IPOIB_EV_REVALIDATE) },
	{ IB_EVENT_PORT_ACTIVE, "port active",
	  BIT(IPOIB_EV_PORT) | BIT(IPOIB_EV_REJOIN) },
	{ IB_EVENT_LID_CHANGE, "LID change",
	  BIT(IPOIB_EV_PORT) | BIT(IPOIB_EV_REJOIN) },
	{ IB_EVENT_PORT_ERR, "port error", BIT(IPOIB_EV_PORT) },
	{ IB_EVENT_GID_CHANGE, "GID change", BIT(IPOIB_EV_PORT) },
	{ IB_EVENT_PKEY_CHANGE, "P_Key change", BIT(IPOIB_EV_PKEY) },
	{ IB_EVENT_CQ_ERR, "CQ error", 0 },
	{ IB_EVENT_QP_FATAL, "QP fatal", 0 },
	{ IB_EVENT_QP_REQ_ERR, "QP request error", 0 },
	{ IB_EVENT_QP_ACCESS_ERR, "QP access error", 0 },
	{ IB_EVENT_COMM_EST, "communication established", 0 },
	{ IB_EVENT_SQ_DRAINED, "send queue drained", 0 },
	{ IB_EVENT_PATH_MIG, "path migrated", 0 },
	{ IB_EVENT_PATH_MIG_ERR, "path migration error", 0 },
	{ IB_EVENT_SRQ_ERR, "SRQ error", 0 },
	{ IB_EVENT_SRQ_LIMIT_REACHED, "SRQ limit reached", 0 },
	{ IB_EVENT_QP_LAST_WQE_REACHED, "last WQE reached", 0 },
	{ IB_EVENT_WQ_FATAL, "WQ fatal", 0 },
	{ 12345, "one nobody knows", 0 },
};

static void event_case_desc(const struct event_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(event_case, event_cases, event_case_desc);

static void test_event(struct kunit *test)
{
	const struct event_case *t = test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_event_classify(t->event, 1, 1), t->bits);
	KUNIT_EXPECT_EQ(test, ipoib_event_classify(t->event, 255, 255),
			t->bits);
	/* For another port, or none. */
	KUNIT_EXPECT_EQ(test, ipoib_event_classify(t->event, 2, 1), 0);
	KUNIT_EXPECT_EQ(test, ipoib_event_classify(t->event, 1, 2), 0);
	KUNIT_EXPECT_EQ(test, ipoib_event_classify(t->event, 0, 1), 0);
}

static void test_event_fatal(struct kunit *test)
{
	u32 num;

	for (num = 0; num < 4; num++)
		KUNIT_EXPECT_EQ(test, ipoib_event_classify(
					IB_EVENT_DEVICE_FATAL, num, 1),
				BIT(IPOIB_EV_PORT));
	KUNIT_EXPECT_EQ(test, ipoib_event_classify(IB_EVENT_DEVICE_FATAL,
						   U32_MAX, 1),
			BIT(IPOIB_EV_PORT));
}

/* ---- what users are told ------------------------------------------------ */

static void test_statuses(struct kunit *test)
{
	static const u8 paths[] = {
		[IPOIB_PATH_IDLE]	= IPOIB_PATH_STATUS_UNKNOWN,
		[IPOIB_PATH_QUEUED]	= IPOIB_PATH_STATUS_ASKING,
		[IPOIB_PATH_QUERY]	= IPOIB_PATH_STATUS_ASKING,
		[IPOIB_PATH_VALID]	= IPOIB_PATH_STATUS_VALID,
		[IPOIB_PATH_BACKOFF]	= IPOIB_PATH_STATUS_FAILED,
		[IPOIB_PATH_DEAD]	= IPOIB_PATH_STATUS_UNKNOWN,
	};
	static const u8 links[] = {
		[IPOIB_LINK_IDLE]	= IPOIB_LINK_STATUS_NONE,
		[IPOIB_LINK_WANTED]	= IPOIB_LINK_STATUS_OPENING,
		[IPOIB_LINK_CONNECTING]	= IPOIB_LINK_STATUS_OPENING,
		[IPOIB_LINK_UP]		= IPOIB_LINK_STATUS_UP,
		[IPOIB_LINK_BACKOFF]	= IPOIB_LINK_STATUS_FAILED,
	};
	static const u8 groups[] = {
		[IPOIB_MCAST_IDLE]	= IPOIB_GROUP_STATUS_WAITING,
		[IPOIB_MCAST_JOINING]	= IPOIB_GROUP_STATUS_JOINING,
		[IPOIB_MCAST_JOINED]	= IPOIB_GROUP_STATUS_JOINING,
		[IPOIB_MCAST_MEMBER]	= IPOIB_GROUP_STATUS_MEMBER,
	};
	static const u8 conns[] = {
		[IPOIB_CONN_NEW]	= IPOIB_CONN_STATUS_OPENING,
		[IPOIB_CONN_ASKED]	= IPOIB_CONN_STATUS_OPENING,
		[IPOIB_CONN_ANSWERED]	= IPOIB_CONN_STATUS_HALF_OPEN,
		[IPOIB_CONN_UP]		= IPOIB_CONN_STATUS_UP,
		[IPOIB_CONN_CLOSING]	= IPOIB_CONN_STATUS_CLOSING,
		[IPOIB_CONN_DEAD]	= IPOIB_CONN_STATUS_CLOSING,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(paths); i++)
		KUNIT_EXPECT_EQ(test, (u32)ipoib_path_status(i), paths[i]);
	for (i = 0; i < ARRAY_SIZE(links); i++)
		KUNIT_EXPECT_EQ(test, (u32)ipoib_link_status(i), links[i]);
	for (i = 0; i < ARRAY_SIZE(groups); i++)
		KUNIT_EXPECT_EQ(test, (u32)ipoib_group_status(i), groups[i]);
	for (i = 0; i < ARRAY_SIZE(conns); i++)
		KUNIT_EXPECT_EQ(test, (u32)ipoib_conn_status(i), conns[i]);
}

#define CAUSE(name)	IPOIB_CAUSE_##name
#define UP_AND(...)	{ IPOIB_DEV_UP, IB_PORT_ACTIVE, __VA_ARGS__ }

static const struct cause_case {
	const char *desc;
	struct ipoib_facts facts;
	enum ipoib_cause cause;
} cause_cases[] = {
	{ "all well", UP_AND(.joined = true), CAUSE(NONE) },
	{ "joined after failures", UP_AND(.joined = true, .join_error = -EINVAL),
	  CAUSE(NONE) },
	{ "closed", { IPOIB_DEV_CLOSED, IB_PORT_DOWN }, CAUSE(ADMIN_DOWN) },
	{ "closing", { IPOIB_DEV_STOPPING, IB_PORT_ACTIVE }, CAUSE(ADMIN_DOWN) },
	{ "no HCA objects, nor a link", { IPOIB_DEV_BROKEN, IB_PORT_DOWN },
	  CAUSE(START_FAILED) },
	{ "the HCA says nothing", { IPOIB_DEV_UP, -EIO, true },
	  CAUSE(PORT_UNKNOWN) },
	{ "no link", { IPOIB_DEV_UP, IB_PORT_DOWN }, CAUSE(PORT_DOWN) },
	{ "no link, though joined before", { IPOIB_DEV_UP, IB_PORT_DOWN, true },
	  CAUSE(PORT_DOWN) },
	{ "a state that nobody uses", { IPOIB_DEV_UP, IB_PORT_NOP },
	  CAUSE(PORT_DOWN) },
	{ "link lost for the moment", { IPOIB_DEV_UP, IB_PORT_ACTIVE_DEFER, true },
	  CAUSE(PORT_DOWN) },
	{ "no SM", { IPOIB_DEV_UP, IB_PORT_INIT }, CAUSE(PORT_INIT) },
	{ "no SM, so no P_Key either", { IPOIB_DEV_NO_PKEY, IB_PORT_INIT },
	  CAUSE(PORT_INIT) },
	{ "SM not done", { IPOIB_DEV_STARTING, IB_PORT_ARMED },
	  CAUSE(PORT_ARMED) },
	{ "no P_Key", { IPOIB_DEV_NO_PKEY, IB_PORT_ACTIVE }, CAUSE(NO_PKEY) },
	{ "on its way", { IPOIB_DEV_STARTING, IB_PORT_ACTIVE, true },
	  CAUSE(STARTING) },
	{ "not asked yet", UP_AND(), CAUSE(JOINING) },
	{ "no answer", UP_AND(.join_error = -ETIMEDOUT), CAUSE(SA_SILENT) },
	{ "not sent", UP_AND(.join_error = -EAGAIN), CAUSE(SA_UNREACHABLE) },
	{ "no memory to send", UP_AND(.join_error = -ENOMEM),
	  CAUSE(SA_UNREACHABLE) },
	{ "refused", UP_AND(.join_error = -EINVAL), CAUSE(JOIN_REFUSED) },
	{ "refused, a limited member",
	  UP_AND(.join_error = -EINVAL, .limited = true), CAUSE(LIMITED_PKEY) },
	{ "no answer, a limited member",
	  UP_AND(.join_error = -ETIMEDOUT, .limited = true), CAUSE(SA_SILENT) },
	{ "the HCA refuses to attach",
	  UP_AND(.join_error = -EINVAL, .unusable = true), CAUSE(GROUP_UNUSABLE) },
};

static void cause_desc(const struct cause_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(cause, cause_cases, cause_desc);

static void test_cause(struct kunit *test)
{
	const struct cause_case *t = test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_find_cause(&t->facts), t->cause);
}

/* NONE only if all is well; and what may pass is never the user's to mend. */
static void test_cause_all(struct kunit *test)
{
	static const int errors[] = { 0, -EINVAL, -ETIMEDOUT, -EAGAIN };
	struct ipoib_facts f;
	enum ipoib_cause c;
	u32 i;

	for (i = 0; i < 6 * 7 * 4 * 8; i++) {
		f.state = i % 6;
		f.port = (int)(i / 6 % 7) - 1;
		f.join_error = errors[i / 42 % 4];
		f.joined = i / 168 & 1;
		f.unusable = i / 168 & 2;
		f.limited = i / 168 & 4;
		c = ipoib_find_cause(&f);
		KUNIT_EXPECT_EQ(test, c == IPOIB_CAUSE_NONE,
				f.state == IPOIB_DEV_UP && f.joined &&
				f.port == IB_PORT_ACTIVE);
		KUNIT_EXPECT_FALSE(test, ipoib_cause_may_pass(c) &&
				   (f.state == IPOIB_DEV_CLOSED ||
				    f.state == IPOIB_DEV_BROKEN ||
				    c == IPOIB_CAUSE_NO_PKEY));
	}
}

/* ---- states ------------------------------------------------------------- */

static void test_path_moves(struct kunit *test)
{
	/* To: idle, queued, query, valid, backoff, dead */
	static const bool moves[6][6] = {
		[IPOIB_PATH_IDLE]	= { 0, 1, 0, 0, 0, 1 },
		[IPOIB_PATH_QUEUED]	= { 0, 0, 1, 0, 0, 1 },
		[IPOIB_PATH_QUERY]	= { 1, 1, 0, 1, 1, 0 },
		[IPOIB_PATH_VALID]	= { 0, 1, 0, 0, 0, 1 },
		[IPOIB_PATH_BACKOFF]	= { 1, 1, 0, 0, 0, 1 },
		[IPOIB_PATH_DEAD]	= { 0, 0, 0, 0, 0, 0 },
	};
	u32 from, to;

	for (from = 0; from < 6; from++)
		for (to = 0; to < 6; to++)
			KUNIT_EXPECT_EQ_MSG(test, ipoib_path_may_move(from, to),
					    moves[from][to], "%s to %s",
					    ipoib_path_state_name(from),
					    ipoib_path_state_name(to));
}

static void test_mcast_moves(struct kunit *test)
{
	/* To: idle, joining, joined, member */
	static const bool moves[4][4] = {
		[IPOIB_MCAST_IDLE]	= { 1, 1, 0, 0 },
		[IPOIB_MCAST_JOINING]	= { 1, 0, 1, 0 },
		[IPOIB_MCAST_JOINED]	= { 1, 0, 0, 1 },
		[IPOIB_MCAST_MEMBER]	= { 1, 0, 0, 0 },
	};
	u32 from, to;

	for (from = 0; from < 4; from++)
		for (to = 0; to < 4; to++)
			KUNIT_EXPECT_EQ_MSG(test,
					    ipoib_mcast_may_move(from, to),
					    moves[from][to], "%s to %s",
					    ipoib_mcast_state_name(from),
					    ipoib_mcast_state_name(to));
}

static void test_link_moves(struct kunit *test)
{
	/* To: idle, wanted, connecting, up, backoff */
	static const bool moves[5][5] = {
		[IPOIB_LINK_IDLE]	= { 0, 1, 0, 0, 0 },
		[IPOIB_LINK_WANTED]	= { 0, 0, 1, 0, 1 },
		[IPOIB_LINK_CONNECTING]	= { 0, 1, 0, 1, 1 },
		[IPOIB_LINK_UP]		= { 1, 1, 0, 0, 1 },
		[IPOIB_LINK_BACKOFF]	= { 0, 1, 0, 0, 0 },
	};
	u32 from, to;

	for (from = 0; from < 5; from++)
		for (to = 0; to < 5; to++)
			KUNIT_EXPECT_EQ_MSG(test, ipoib_link_may_move(from, to),
					    moves[from][to], "%s to %s",
					    ipoib_link_state_name(from),
					    ipoib_link_state_name(to));
}

static void test_conn_moves(struct kunit *test)
{
	/* To: new, asked, answered, up, closing, dead */
	static const bool moves[6][6] = {
		[IPOIB_CONN_NEW]	= { 0, 1, 1, 0, 1, 0 },
		[IPOIB_CONN_ASKED]	= { 0, 0, 0, 1, 1, 0 },
		[IPOIB_CONN_ANSWERED]	= { 0, 0, 0, 1, 1, 0 },
		[IPOIB_CONN_UP]		= { 0, 0, 0, 0, 1, 0 },
		[IPOIB_CONN_CLOSING]	= { 0, 0, 0, 0, 0, 1 },
		[IPOIB_CONN_DEAD]	= { 0, 0, 0, 0, 0, 0 },
	};
	u32 from, to;

	for (from = 0; from < 6; from++)
		for (to = 0; to < 6; to++)
			KUNIT_EXPECT_EQ_MSG(test, ipoib_conn_may_move(from, to),
					    moves[from][to], "%s to %s",
					    ipoib_conn_state_name(from),
					    ipoib_conn_state_name(to));
}

/* Scripts rely on the names in debugfs, users on those in traces. */
static void test_state_names(struct kunit *test)
{
	KUNIT_EXPECT_STREQ(test, ipoib_path_state_name(IPOIB_PATH_IDLE),
			   "idle");
	KUNIT_EXPECT_STREQ(test, ipoib_path_state_name(IPOIB_PATH_QUEUED),
			   "queued");
	KUNIT_EXPECT_STREQ(test, ipoib_path_state_name(IPOIB_PATH_QUERY),
			   "query");
	KUNIT_EXPECT_STREQ(test, ipoib_path_state_name(IPOIB_PATH_VALID),
			   "valid");
	KUNIT_EXPECT_STREQ(test, ipoib_path_state_name(IPOIB_PATH_BACKOFF),
			   "backoff");
	KUNIT_EXPECT_STREQ(test, ipoib_mcast_state_name(IPOIB_MCAST_IDLE),
			   "idle");
	KUNIT_EXPECT_STREQ(test, ipoib_mcast_state_name(IPOIB_MCAST_JOINING),
			   "joining");
	KUNIT_EXPECT_STREQ(test, ipoib_mcast_state_name(IPOIB_MCAST_JOINED),
			   "joined");
	KUNIT_EXPECT_STREQ(test, ipoib_mcast_state_name(IPOIB_MCAST_MEMBER),
			   "member");
}

/* ---- delays ------------------------------------------------------------- */

static void test_path_delay(struct kunit *test)
{
	unsigned long delay, last = 0;
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_path_delay(0), HZ / 4);
	KUNIT_EXPECT_EQ(test, ipoib_path_delay(1), HZ / 4 * 2);
	KUNIT_EXPECT_EQ(test, ipoib_path_delay(5), HZ / 4 * 32);
	KUNIT_EXPECT_EQ(test, ipoib_path_delay(7), 16 * HZ);
	for (n = 0; n < 100; n++) {
		delay = ipoib_path_delay(n);
		KUNIT_EXPECT_GE(test, delay, last);
		KUNIT_EXPECT_LE(test, delay, 16 * HZ);
		last = delay;
	}
	KUNIT_EXPECT_EQ(test, ipoib_path_delay(U32_MAX), 16 * HZ);
}

static void test_mcast_delay(struct kunit *test)
{
	unsigned long delay, last = 0;
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(0, false), HZ);
	KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(3, false), 8 * HZ);
	KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(4, false), 16 * HZ);
	for (n = 0; n < 100; n++) {
		delay = ipoib_mcast_delay(n, false);
		KUNIT_EXPECT_GE(test, delay, last);
		KUNIT_EXPECT_LE(test, delay, 16 * HZ);
		last = delay;
	}
	KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(U32_MAX, false), 16 * HZ);
}

/* Eight quick attempts to join the broadcast group, then as for others. */
static void test_mcast_delay_broadcast(struct kunit *test)
{
	u32 n;

	for (n = 0; n < 100; n++)
		KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(n, true),
				n < 8 ? HZ / 4 : 16 * HZ);
	KUNIT_EXPECT_EQ(test, ipoib_mcast_delay(U32_MAX, true), 16 * HZ);
}

static void test_probe(struct kunit *test)
{
	const unsigned long at = ULONG_MAX - HZ;
	u32 n;

	for (n = 1; n < 5; n++) {
		KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, false, n, at),
				IPOIB_PROBE_AGAIN);
		KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, false, n, at - 20 * HZ),
				IPOIB_PROBE_AGAIN);
		KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, true, n, at - 20 * HZ),
				IPOIB_PROBE_HURRY);
		/* Not yet, over the end of jiffies */
		KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, true, n, at),
				IPOIB_PROBE_AGAIN);
		KUNIT_EXPECT_EQ(test,
				ipoib_probe_judge(at + 16 * HZ - 1, true, n, at),
				IPOIB_PROBE_AGAIN);
		KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at + 16 * HZ, true, n, at),
				IPOIB_PROBE_HURRY);
	}
	KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, true, 0, at), IPOIB_PROBE_END);
	KUNIT_EXPECT_EQ(test, ipoib_probe_judge(at, true, 0, at - 20 * HZ),
			IPOIB_PROBE_END);
}

static void test_link_delay(struct kunit *test)
{
	const unsigned long at = ULONG_MAX - HZ / 4;
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_link_delay(0), HZ / 2);
	KUNIT_EXPECT_EQ(test, ipoib_link_delay(1), 2 * (HZ / 2));
	for (n = 1; n < 100; n++) {
		KUNIT_EXPECT_GE(test, ipoib_link_delay(n),
				ipoib_link_delay(n - 1));
		KUNIT_EXPECT_LE(test, ipoib_link_delay(n), IPOIB_BACKOFF_MAX);
	}
	KUNIT_EXPECT_EQ(test, ipoib_link_delay(U32_MAX), IPOIB_BACKOFF_MAX);

	KUNIT_EXPECT_EQ(test, ipoib_heard_slot(0), 0);
	KUNIT_EXPECT_EQ(test, ipoib_heard_slot(5000), HZ);
	KUNIT_EXPECT_EQ(test, ipoib_heard_slot(15000), HZ);
	/* A peer that was heard: at once if there are few, else in turn. */
	KUNIT_EXPECT_EQ(test, ipoib_link_heard_delay(at, at - HZ, 1, false),
			at);
	KUNIT_EXPECT_EQ(test, ipoib_link_heard_delay(at, at, 1, false),
			at + HZ / 2);
	KUNIT_EXPECT_EQ(test, ipoib_link_heard_delay(at, at - HZ, 1, true),
			at + HZ / 2);
	for (n = 1; n <= U16_MAX; n <<= 1)
		KUNIT_EXPECT_EQ(test, ipoib_link_heard_delay(at, at - HZ, n,
							     false),
				at + n % 10000 * HZ / 5000);
}

static void test_link_may_wait(struct kunit *test)
{
	const u32 packet = 2304, links = 1000;
	u32 i, held = 0;
	long all = 0;

	/* Alone: up to the limit, and one packet of any length. */
	KUNIT_EXPECT_TRUE(test, ipoib_link_may_wait(0, 0, packet));
	KUNIT_EXPECT_TRUE(test, ipoib_link_may_wait(IPOIB_LINK_WAIT_BYTES - 1,
						    IPOIB_LINK_WAIT_BYTES, 1));
	KUNIT_EXPECT_FALSE(test, ipoib_link_may_wait(IPOIB_LINK_WAIT_BYTES,
						     IPOIB_LINK_WAIT_BYTES, 1));
	KUNIT_EXPECT_TRUE(test, ipoib_link_may_wait(0, 0, U32_MAX));
	KUNIT_EXPECT_FALSE(test, ipoib_link_may_wait(1, 1, U32_MAX));
	KUNIT_EXPECT_TRUE(test, ipoib_link_may_wait(0, LONG_MAX, packet));
	KUNIT_EXPECT_FALSE(test, ipoib_link_may_wait(IPOIB_LINK_WAIT_LEAST,
						     LONG_MAX, packet));

	/* Sixteen do not disturb each other. */
	KUNIT_EXPECT_TRUE(test, ipoib_link_may_wait(IPOIB_LINK_WAIT_BYTES -
						    packet,
						    15L * IPOIB_LINK_WAIT_BYTES,
						    packet));

	/* However many take all they get, the last one gets some. */
	for (i = 0; i < links; i++) {
		for (held = 0; ipoib_link_may_wait(held, all, packet);
		     all += packet)
			held += packet;
		KUNIT_EXPECT_LE(test, held, IPOIB_LINK_WAIT_BYTES);
	}
	KUNIT_EXPECT_GT(test, held, IPOIB_LINK_WAIT_LEAST - packet);
	KUNIT_EXPECT_LE(test, all, (long)IPOIB_CM_WAIT_BYTES +
			links * IPOIB_LINK_WAIT_LEAST);
}

static void test_dev_delay(struct kunit *test)
{
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_dev_delay(0), HZ / 4);
	for (n = 1; n < 100; n++)
		KUNIT_EXPECT_EQ(test, ipoib_dev_delay(n),
				min(2 * ipoib_dev_delay(n - 1),
				    (unsigned long)IPOIB_BACKOFF_MAX));
	KUNIT_EXPECT_EQ(test, ipoib_dev_delay(U32_MAX), IPOIB_BACKOFF_MAX);
}

static void test_rc_bufs(struct kunit *test)
{
	u32 large, n;

	/* With two or more pieces, any IP packet fits. */
	for (n = 2; n < 40; n++) {
		u32 bufs = ipoib_rc_bufs(n, &large);

		KUNIT_EXPECT_LE(test, bufs, n);
		KUNIT_EXPECT_LE(test, bufs, 4);
		KUNIT_EXPECT_GE(test, (bufs - 1) * large, 65536);
		/* With four, also next to the rest of a buffer. */
		if (bufs == 4)
			KUNIT_EXPECT_GE(test, (bufs - 2) * large, 65536);
	}
	KUNIT_EXPECT_EQ(test, ipoib_rc_bufs(1, &large), 1);
	KUNIT_EXPECT_EQ(test, large, 32768);
}

static void test_unsent_delay(struct kunit *test)
{
	unsigned long delay, last = 0, sum = 0;
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_unsent_delay(0), HZ / 20);
	KUNIT_EXPECT_EQ(test, ipoib_unsent_delay(1), HZ / 20 * 2);
	for (n = 0; n < IPOIB_UNSENT_MAX; n++) {
		delay = ipoib_unsent_delay(n);
		KUNIT_EXPECT_GE(test, delay, last);
		KUNIT_EXPECT_LE(test, delay, HZ / 4);
		last = delay;
		sum += delay;
	}
	KUNIT_EXPECT_GE(test, sum, 4 * HZ);
	KUNIT_EXPECT_LE(test, sum, 5 * HZ);
	KUNIT_EXPECT_EQ(test, ipoib_unsent_delay(U32_MAX), HZ / 4);
}

static void test_delay_spread(struct kunit *test)
{
	unsigned long delay, got, least = 2000, most = 0;
	u32 state = 1, n;

	for (delay = 0; delay < 20000; delay += 37) {
		KUNIT_EXPECT_EQ(test, ipoib_delay_spread(delay, 0), delay);
		KUNIT_EXPECT_EQ(test, ipoib_delay_spread(delay, U32_MAX),
				delay + delay / 4);
	}
	for (n = 0; n < 5000; n++) {
		got = ipoib_delay_spread(1000, test_random(&state));
		least = min(least, got);
		most = max(most, got);
	}
	KUNIT_EXPECT_EQ(test, least, 1000);
	KUNIT_EXPECT_EQ(test, most, 1250);
}

/* Jiffies start five minutes before they wrap at 32 bits, and do wrap. */
static const unsigned long test_times[] = {
	1, 1000000, 0x7fffffff, 0xfffffff0, ULONG_MAX / 2, ULONG_MAX - 3,
};

static void test_path_may_ask(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(test_times); i++) {
		unsigned long asked = test_times[i];

		KUNIT_EXPECT_FALSE(test, ipoib_path_may_ask(asked, asked));
		KUNIT_EXPECT_FALSE(test, ipoib_path_may_ask(asked + HZ, asked));
		KUNIT_EXPECT_TRUE(test, ipoib_path_may_ask(asked + HZ + 1,
							   asked));
		KUNIT_EXPECT_TRUE(test, ipoib_path_may_ask(asked + 86400 * HZ,
							   asked));
	}
}

static void test_path_deny_delay(struct kunit *test)
{
	unsigned long other, same, last = 0;
	u32 n;

	KUNIT_EXPECT_EQ(test, ipoib_path_deny_delay(0, false), HZ);
	KUNIT_EXPECT_EQ(test, ipoib_path_deny_delay(0, true), HZ);
	KUNIT_EXPECT_EQ(test, ipoib_path_deny_delay(3, true), 8 * HZ);
	for (n = 0; n < 100; n++) {
		other = ipoib_path_deny_delay(n, false);
		same = ipoib_path_deny_delay(n, true);
		KUNIT_EXPECT_GE(test, same, last);
		KUNIT_EXPECT_GE(test, same, other);
		KUNIT_EXPECT_LE(test, other, 16 * HZ);
		KUNIT_EXPECT_LE(test, same, 300 * HZ);
		last = same;
	}
	KUNIT_EXPECT_EQ(test, ipoib_path_deny_delay(U32_MAX, true), 300 * HZ);
}

static void test_path_doubtful(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(test_times); i++) {
		unsigned long now = test_times[i], long_ago = now - 60 * HZ;
		unsigned long probed = (now - HZ) | 1;

		KUNIT_EXPECT_TRUE(test, ipoib_path_doubtful(now, probed,
							    long_ago));
		/* No probe before. */
		KUNIT_EXPECT_FALSE(test, ipoib_path_doubtful(now, 0, long_ago));
		/* Probes 5 s apart are unrelated. */
		KUNIT_EXPECT_TRUE(test, ipoib_path_doubtful(now,
							    now - 5 * HZ + 1,
							    long_ago));
		KUNIT_EXPECT_FALSE(test, ipoib_path_doubtful(now, now - 5 * HZ,
							     long_ago));
		KUNIT_EXPECT_FALSE(test, ipoib_path_doubtful(now, now - 9 * HZ,
							     long_ago));
		/* The SA was asked just now. */
		KUNIT_EXPECT_FALSE(test, ipoib_path_doubtful(now, probed,
							     now - HZ));
		KUNIT_EXPECT_TRUE(test, ipoib_path_doubtful(now, probed,
							    now - HZ - 1));
	}
}

/* ---- connections that peers open ---------------------------------------- */

struct admit_case {
	const char *name;
	struct ipoib_cm_usage use;
	u32 limit;
	int result;
};

#define MANY		IPOIB_CM_MAX_PASSIVE
#define LID_MANY	(IPOIB_CM_MAX_PASSIVE / IPOIB_CM_LID_SHARE)
#define LID_HALF	(IPOIB_CM_MAX_HALF_OPEN / IPOIB_CM_LID_SHARE)
#define PEER_MANY	IPOIB_CM_PEER_OPEN
#define PEER_HALF	IPOIB_CM_PEER_HALF_OPEN

static const struct admit_case admit_cases[] = {
	{ "the first", { 0 }, MANY, 0 },
	{ "the last", { .all = MANY - 1 }, MANY, 0 },
	{ "one too many", { .all = MANY }, MANY, -ENOSPC },
	{ "far too many", { .all = U32_MAX }, MANY, -ENOSPC },
	{ "none at all", { 0 }, 0, -ENOSPC },
	{ "the last of a LID", { LID_MANY - 1, LID_MANY - 1 }, MANY, 0 },
	{ "one more of a LID", { LID_MANY, LID_MANY }, MANY, -EBUSY },
	{ "the last of a LID, of few", { 15, 15 }, 128, 0 },
	{ "one more of a LID, of few", { 16, 16 }, 128, -EBUSY },
	{ "a LID has 16 of however few", { 15, 15 }, 16, 0 },
	{ "but not more than there are", { 3, 3 }, 3, -ENOSPC },
	{ "the last of a peer",
	  { MANY - 1, PEER_MANY - 1, 0, PEER_MANY - 1 }, MANY, 0 },
	{ "one more of a peer",
	  { MANY - 1, PEER_MANY, 0, PEER_MANY }, MANY, -EBUSY },
	{ "another at its LID", { MANY - 1, PEER_MANY, 0, 0 }, MANY, 0 },
	{ "half-open, the last of a LID",
	  { 1000, LID_HALF - 1, LID_HALF - 1 }, MANY, 0 },
	{ "half-open, one more of a LID",
	  { 1000, LID_HALF, LID_HALF }, MANY, -EAGAIN },
	{ "half-open, the last of a peer",
	  { 99, 99, PEER_HALF - 1, PEER_HALF, PEER_HALF - 1 }, MANY, 0 },
	{ "half-open, one more of a peer",
	  { 99, 99, PEER_HALF, PEER_HALF, PEER_HALF }, MANY, -EAGAIN },
	{ "half-open, another at its LID",
	  { 99, 99, PEER_HALF, 0, 0 }, MANY, 0 },
};

static void admit_case_desc(const struct admit_case *t, char *desc)
{
	strscpy(desc, t->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(admit_case, admit_cases, admit_case_desc);

static void test_cm_admit(struct kunit *test)
{
	const struct admit_case *t = test->param_value;

	struct ipoib_cm_limits limits;

	ipoib_cm_get_limits(t->limit, &limits);
	KUNIT_EXPECT_EQ(test, ipoib_cm_admit(&t->use, &limits), t->result);
}

/* How many a LID gets if it keeps asking, with made-up GIDs. */
static void test_cm_admit_shares(struct kunit *test)
{
	static const u32 limits[] = { 1, 15, 16, 128, 129, 1024, MANY };
	u32 i, others;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		u32 share = max(limits[i] / 8, 16U);
		struct ipoib_cm_limits most;

		ipoib_cm_get_limits(limits[i], &most);
		KUNIT_EXPECT_EQ(test, most.lid, share);
		/* Half-open ones leave room. */
		KUNIT_EXPECT_LE(test, most.half_open, max(limits[i] / 2, 1U));
		KUNIT_EXPECT_LT(test, most.lid_half_open, most.lid);
		KUNIT_EXPECT_LT(test, most.peer_half_open, most.lid_half_open);
		KUNIT_EXPECT_GE(test, most.half_open, 1);
		KUNIT_EXPECT_GE(test, most.peer_half_open, 4);
		for (others = 0; others < limits[i]; others += 1 + others / 7) {
			struct ipoib_cm_usage use = { .all = others };
			u32 got = 0;

			while (!ipoib_cm_admit(&use, &most)) {
				use.all++;
				use.lid++;
				use.peer = ++got % PEER_MANY;
			}
			KUNIT_EXPECT_EQ(test, got,
					min(share, limits[i] - others));
		}
	}
	/* A LID may hold no fewer than a peer, and no two LIDs hold all. */
	KUNIT_EXPECT_GE(test, LID_MANY, PEER_MANY);
	KUNIT_EXPECT_GE(test, LID_HALF, PEER_HALF);
	KUNIT_EXPECT_LT(test, 2 * LID_MANY, MANY);
	KUNIT_EXPECT_LT(test, 2 * LID_HALF, IPOIB_CM_MAX_HALF_OPEN);
}

static void test_half_open(struct kunit *test)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(test_times); i++) {
		unsigned long at = test_times[i], made = at - HZ;

		/* Only time passes. */
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at, at, made, false),
				IPOIB_HALF_OPEN_WAIT);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + HZ, at, made,
							    false),
				IPOIB_HALF_OPEN_WAIT);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + HZ + 1, at, at,
							    false),
				IPOIB_HALF_OPEN_SPARE);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 30 * HZ, at,
							    made, false),
				IPOIB_HALF_OPEN_SPARE);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 30 * HZ + 1,
							    at, made, false),
				IPOIB_HALF_OPEN_OVER);
		/* Data came, no matter how late it is checked. */
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 1, at, at + 1,
							    false),
				IPOIB_HALF_OPEN_PROVEN);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 60 * HZ, at,
							    at + 1, false),
				IPOIB_HALF_OPEN_PROVEN);
		/* What was noted before takes precedence. */
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 60 * HZ, at,
							    at + 1, true),
				IPOIB_HALF_OPEN_WAIT);
		KUNIT_EXPECT_EQ(test, ipoib_half_open_judge(at + 60 * HZ, at,
							    made, true),
				IPOIB_HALF_OPEN_WAIT);
	}
}

static void test_tx_idle(struct kunit *test)
{
	unsigned long idle = 1;
	u32 n;

	for (n = 0; n < 100; n++) {
		unsigned long next = ipoib_tx_idle(idle, false);

		KUNIT_EXPECT_EQ(test, next, min(2 * idle, HZ / 10UL));
		KUNIT_EXPECT_GE(test, next, idle);
		KUNIT_EXPECT_EQ(test, ipoib_tx_idle(next, true), 1);
		idle = next;
	}
	KUNIT_EXPECT_EQ(test, idle, HZ / 10);
}

/* ---- sequence numbers --------------------------------------------------- */

/* Fill and empty a ring of 64 across the wrap; compare with a plain count. */
static void test_ring_free(struct kunit *test)
{
	u32 head = U32_MAX - 1000, tail = head, state = 9, n;
	s64 used = 0;

	for (n = 0; n < 20000; n++) {
		if (test_random(&state) % 2 && used < 64) {
			head++;
			used++;
		} else if (used) {
			tail++;
			used--;
		}
		KUNIT_EXPECT_EQ(test, ipoib_ring_free(64, head, tail),
				64 - used);
	}
	KUNIT_EXPECT_LT(test, head, U32_MAX / 2);
	KUNIT_EXPECT_EQ(test, ipoib_ring_free(64, 63, U32_MAX), 0);
	KUNIT_EXPECT_EQ(test, ipoib_ring_free(8192, 0, 0), 8192);
}

static void test_ring_holds(struct kunit *test)
{
	static const u32 tails[] = { 0, 100, U32_MAX - 5, U32_MAX, 0x7ffffffd };
	u32 i, used;
	s64 off;

	for (i = 0; i < ARRAY_SIZE(tails); i++) {
		for (used = 0; used <= 16; used++) {
			for (off = -20; off < 40; off++)
				KUNIT_EXPECT_EQ(test, ipoib_ring_holds(
							tails[i] + used,
							tails[i],
							(u32)(tails[i] + off)),
						off >= 0 && off < used);
		}
	}
}

static void test_ring_passed(struct kunit *test)
{
	static const u32 marks[] = { 0, 1, 100, U32_MAX, 0x7fffffff,
				     0x80000000 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(marks); i++) {
		u32 mark = marks[i];

		KUNIT_EXPECT_TRUE(test, ipoib_ring_passed(mark, mark));
		KUNIT_EXPECT_TRUE(test, ipoib_ring_passed(mark + 1, mark));
		KUNIT_EXPECT_TRUE(test, ipoib_ring_passed(mark + 0x7fffffff,
							  mark));
		KUNIT_EXPECT_FALSE(test, ipoib_ring_passed(mark - 1, mark));
		KUNIT_EXPECT_FALSE(test, ipoib_ring_passed(mark - 8192, mark));
	}
}

/* ---- sizes -------------------------------------------------------------- */

static const struct queue_case {
	const char *desc;
	u32 size;
	u32 result;
} queue_cases[] = {
	{ "nothing", 0, 64 },
	{ "one", 1, 64 },
	{ "less than the least", 63, 64 },
	{ "the least", 64, 64 },
	{ "no power of two", 65, 128 },
	{ "default", 128, 128 },
	{ "just below", 4095, 4096 },
	{ "just above", 4097, 8192 },
	{ "the most", 8192, 8192 },
	{ "more than the most", 8193, 8192 },
	{ "half of 32 bits", 0x80000000, 8192 },
	{ "-1", U32_MAX, 8192 },
};

static void queue_case_desc(const struct queue_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(queue_case, queue_cases, queue_case_desc);

static void test_queue_size(struct kunit *test)
{
	const struct queue_case *t = test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_queue_size(t->size, 64, 8192), t->result);
}

static void test_queue_size_all(struct kunit *test)
{
	u32 n;

	for (n = 0; n < 10000; n++) {
		u32 size = ipoib_queue_size(n, 2, 8192);

		KUNIT_EXPECT_TRUE(test, is_power_of_2(size));
		KUNIT_EXPECT_TRUE(test, size >= 2 && size <= 8192);
		KUNIT_EXPECT_TRUE(test, size >= min(n, 8192U));
		KUNIT_EXPECT_TRUE(test, size == 2 || size / 2 < n);
	}
}

static const int test_limits[] = {
	INT_MIN, -1, 0, 1, 2, 3, 4, 63, 64, 65, 128, 129, 1000, 8192, 8193,
	16384, 65535, INT_MAX,
};

static void test_sendq_fit(struct kunit *test)
{
	u32 i, j, size;

	KUNIT_EXPECT_EQ(test, ipoib_sendq_fit(128, 16384, 65535), 128);
	KUNIT_EXPECT_EQ(test, ipoib_sendq_fit(128, 128, 65535), 128);
	KUNIT_EXPECT_EQ(test, ipoib_sendq_fit(128, 127, 65535), 64);
	KUNIT_EXPECT_EQ(test, ipoib_sendq_fit(128, 65535, 127), 64);
	KUNIT_EXPECT_EQ(test, ipoib_sendq_fit(128, 0, 65535), 2);
	for (i = 0; i < ARRAY_SIZE(test_limits); i++)
		for (j = 0; j < ARRAY_SIZE(test_limits); j++) {
			size = ipoib_sendq_fit(8192, test_limits[i],
					       test_limits[j]);
			KUNIT_EXPECT_TRUE(test, is_power_of_2(size));
			KUNIT_EXPECT_LE(test, size, 8192);
			/* There is room for a packet and the marker. */
			KUNIT_EXPECT_GE(test, size, 2);
			KUNIT_EXPECT_LE(test, size,
					max((s64)test_limits[i], 2));
			KUNIT_EXPECT_LE(test, size,
					max((s64)test_limits[j], 2));
		}
}

static void test_child_sendq(struct kunit *test)
{
	u32 size;

	KUNIT_EXPECT_EQ(test, ipoib_child_sendq(8192), 4096);
	KUNIT_EXPECT_EQ(test, ipoib_child_sendq(128), 64);
	KUNIT_EXPECT_EQ(test, ipoib_child_sendq(64), 64);
	for (size = 2; size <= 8192; size *= 2) {
		KUNIT_EXPECT_TRUE(test, is_power_of_2(ipoib_child_sendq(size)));
		KUNIT_EXPECT_LE(test, ipoib_child_sendq(size), size);
		KUNIT_EXPECT_GE(test, ipoib_child_sendq(size), min(size, 64U));
	}
}

static void test_recvq_fit(struct kunit *test)
{
	u32 i, size;

	KUNIT_EXPECT_EQ(test, ipoib_recvq_fit(256, 16384, 65535, INT_MAX),
			256);
	KUNIT_EXPECT_EQ(test, ipoib_recvq_fit(256, 256, 65535, INT_MAX), 255);
	KUNIT_EXPECT_EQ(test, ipoib_recvq_fit(256, 65535, 256, INT_MAX), 255);
	KUNIT_EXPECT_EQ(test, ipoib_recvq_fit(256, 65535, 65535, 256), 256);
	KUNIT_EXPECT_EQ(test, ipoib_recvq_fit(256, 65535, 65535, 100), 100);
	for (i = 0; i < ARRAY_SIZE(test_limits); i++) {
		size = ipoib_recvq_fit(8192, test_limits[i], INT_MAX, INT_MAX);
		KUNIT_EXPECT_TRUE(test, size >= 1 && size <= 8192);
		size = ipoib_recvq_fit(8192, INT_MAX, test_limits[i], INT_MAX);
		KUNIT_EXPECT_TRUE(test, size >= 1 && size <= 8192);
		size = ipoib_recvq_fit(8192, INT_MAX, INT_MAX, test_limits[i]);
		KUNIT_EXPECT_TRUE(test, size >= 1 && size <= 8192);
	}
}

static void test_srq_fit(struct kunit *test)
{
	u32 i, size;

	KUNIT_EXPECT_EQ(test, ipoib_srq_fit(256, 16384, 65535), 768);
	KUNIT_EXPECT_EQ(test, ipoib_srq_fit(256, 700, 65535), 700);
	KUNIT_EXPECT_EQ(test, ipoib_srq_fit(256, 16384, 1000), 744);
	KUNIT_EXPECT_EQ(test, ipoib_srq_fit(256, 256, 512), 256);
	for (i = 0; i < ARRAY_SIZE(test_limits); i++) {
		size = ipoib_srq_fit(8192, test_limits[i], INT_MAX);
		KUNIT_EXPECT_TRUE(test, size >= 8192 && size <= 3 * 8192);
		size = ipoib_srq_fit(8192, INT_MAX, test_limits[i]);
		KUNIT_EXPECT_TRUE(test, size >= 8192 && size <= 3 * 8192);
	}
}

static void test_srq_want(struct kunit *test)
{
	u32 users;

	KUNIT_EXPECT_EQ(test, ipoib_srq_want(256, 1), 256);
	KUNIT_EXPECT_EQ(test, ipoib_srq_want(256, 63), 256);
	KUNIT_EXPECT_EQ(test, ipoib_srq_want(256, 64), 512);
	KUNIT_EXPECT_EQ(test, ipoib_srq_want(256, 512), 768);
	KUNIT_EXPECT_EQ(test, ipoib_srq_want(256, U32_MAX), 768);
	for (users = 2; users < 10000; users++)
		KUNIT_EXPECT_GE(test, ipoib_srq_want(100, users),
				ipoib_srq_want(100, users - 1));
}

static void test_cq_size(struct kunit *test)
{
	u32 num;

	KUNIT_EXPECT_EQ(test, ipoib_cq_size(129, 0, 65535), 516);
	KUNIT_EXPECT_EQ(test, ipoib_cq_size(129, 1, 65535), 1032);
	KUNIT_EXPECT_EQ(test, ipoib_cq_size(129, 20, 65535), 65535);
	KUNIT_EXPECT_EQ(test, ipoib_cq_size(129, 0, 129), 129);
	KUNIT_EXPECT_EQ(test, ipoib_cq_size(8193, U32_MAX - 2, INT_MAX),
			8193U << 16);
	KUNIT_EXPECT_EQ(test, ipoib_cq_size(0, 3, 65535), 0);
	for (num = 0; num < 100; num++) {
		KUNIT_EXPECT_GE(test, ipoib_cq_size(129, num, 1000), 129);
		KUNIT_EXPECT_LE(test, ipoib_cq_size(129, num, 1000), 1000);
	}
}

static void test_rx_head(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ipoib_rx_head_len(256), 256);
	KUNIT_EXPECT_EQ(test, ipoib_rx_head_len(2048), 2048);
	KUNIT_EXPECT_EQ(test, ipoib_rx_head_len(4096), 2048);
	KUNIT_EXPECT_EQ(test, ipoib_rx_head_len(0), 0);
	KUNIT_EXPECT_EQ(test, ipoib_rx_head_len(U32_MAX), 2048);
}

static void test_mtu(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, ipoib_mtu(2044, 4092), 2044);
	KUNIT_EXPECT_EQ(test, ipoib_mtu(2044, 1500), 1500);
	KUNIT_EXPECT_EQ(test, ipoib_mtu(2044, 2044), 2044);
	KUNIT_EXPECT_EQ(test, ipoib_mtu(0, 4092), 4092);
	KUNIT_EXPECT_EQ(test, ipoib_mtu(4092, 65520), 4092);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(IB_MTU_4096, 0), IB_MTU_4096);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(0, 0), 0);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(IB_MTU_256, IB_MTU_2048), IB_MTU_256);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(IB_MTU_2048, IB_MTU_2048), IB_MTU_2048);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(IB_MTU_4096, IB_MTU_2048), IB_MTU_2048);
	/* Reserved codes */
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(0, IB_MTU_2048), IB_MTU_2048);
	KUNIT_EXPECT_EQ(test, ipoib_path_mtu(63, IB_MTU_2048), IB_MTU_2048);
}

static const struct speed_case {
	const char *desc;
	u16 speed;
	int width;
	int mbps;
} speed_cases[] = {
	{ "SDR 1x", 1, 1, 2500 },
	{ "SDR 4x", 1, 4, 10000 },
	{ "DDR 4x", 2, 4, 20000 },
	{ "QDR 4x", 4, 4, 40000 },
	{ "FDR10 4x", 8, 4, 40000 },
	{ "FDR 4x", 16, 4, 56000 },
	{ "EDR 4x", 32, 4, 100000 },
	{ "EDR 2x", 32, 2, 50000 },
	{ "HDR 4x", 64, 4, 200000 },
	{ "NDR 4x", 128, 4, 400000 },
	{ "XDR 4x", 256, 4, 800000 },
	{ "XDR 12x", 256, 12, 2400000 },
	{ "no speed", 0, 4, SPEED_UNKNOWN },
	{ "two speeds", 3, 4, SPEED_UNKNOWN },
	{ "unknown speed", 512, 4, SPEED_UNKNOWN },
	{ "no width", 32, 0, SPEED_UNKNOWN },
	{ "unknown width", 32, -1, SPEED_UNKNOWN },
};

static void speed_case_desc(const struct speed_case *t, char *desc)
{
	strscpy(desc, t->desc, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(speed_case, speed_cases, speed_case_desc);

static void test_link_speed(struct kunit *test)
{
	const struct speed_case *t = test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_link_speed(t->speed, t->width), t->mbps);
}

/* ---- parameters --------------------------------------------------------- */

static const struct list_case {
	const char *list;
	const char *name;
	bool listed;
} list_cases[] = {
	{ "mlx5_0", "mlx5_0", true },
	{ "mlx5_0,mlx5_1", "mlx5_0", true },
	{ "mlx5_0,mlx5_1", "mlx5_1", true },
	{ "mlx5_0,mlx5_1,mlx5_2", "mlx5_1", true },
	{ "mlx5_0,,mlx5_1,", "mlx5_1", true },
	{ "mlx5_10", "mlx5_1", false },
	{ "mlx5_1", "mlx5_10", false },
	{ "amlx5_1", "mlx5_1", false },
	{ "mlx5_0,mlx5_10", "mlx5_1", false },
	{ "mlx5_0", "mlx5_1", false },
	{ ",", "mlx5_1", false },
	{ "", "mlx5_1", false },
	{ NULL, "mlx5_1", false },
};

static void list_case_desc(const struct list_case *t, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s in %s", t->name,
		 t->list ? t->list : "no list");
}

KUNIT_ARRAY_PARAM(list_case, list_cases, list_case_desc);

static void test_name_listed(struct kunit *test)
{
	const struct list_case *t = test->param_value;
	const char *list = NULL;

	if (t->list)
		list = test_copy(test, t->list, strlen(t->list) + 1);
	KUNIT_EXPECT_EQ(test, ipoib_name_listed(list, t->name), t->listed);
}

/* ------------------------------------------------------------------------- */

static struct kunit_case ipoib_proto_cases[] = {
	KUNIT_CASE_PARAM(test_pkey_text, pkey_text_gen_params),
	KUNIT_CASE(test_pkey_text_all),
	KUNIT_CASE(test_pkey_all),
	KUNIT_CASE(test_encap_octets),
	KUNIT_CASE(test_encap_protocols),
	KUNIT_CASE(test_ud_mtu),
	KUNIT_CASE(test_addr_octets),
	KUNIT_CASE(test_addr_parts),
	KUNIT_CASE(test_addr_multicast),
	KUNIT_CASE(test_broadcast_octets),
	KUNIT_CASE_PARAM(test_mgid, mgid_case_gen_params),
	KUNIT_CASE(test_addr_equal),
	KUNIT_CASE_PARAM(test_addr_hash, hash_case_gen_params),
	KUNIT_CASE_PARAM(test_addr_queue, hash_case_gen_params),
	KUNIT_CASE(test_arp_address),
	KUNIT_CASE(test_arp_cut),
	KUNIT_CASE(test_nd_address),
	KUNIT_CASE(test_nd_cut),
	KUNIT_CASE(test_told_others),
	KUNIT_CASE(test_told_random),
	KUNIT_CASE(test_probe_arp),
	KUNIT_CASE(test_answers),
	KUNIT_CASE(test_probe_nd),
	KUNIT_CASE(test_cm_octets),
	KUNIT_CASE(test_cm_rfc_peer),
	KUNIT_CASE(test_cm_own_peer),
	KUNIT_CASE(test_cm_cut),
	KUNIT_CASE(test_cm_versions),
	KUNIT_CASE(test_cm_unknown),
	KUNIT_CASE_PARAM(test_cm_values, cm_value_gen_params),
	KUNIT_CASE(test_cm_random),
	KUNIT_CASE(test_cm_service_id),
	KUNIT_CASE(test_transport),
	KUNIT_CASE(test_transport_cut),
	KUNIT_CASE(test_transport_refused),
	KUNIT_CASE(test_transport_random),
	KUNIT_CASE(test_imm_check),
	KUNIT_CASE(test_imm_check_segs),
	{ }
};

static struct kunit_suite ipoib_proto_suite = {
	.name = "ipoib_proto",
	.test_cases = ipoib_proto_cases,
};

static struct kunit_case ipoib_rules_cases[] = {
	KUNIT_CASE_PARAM(test_event, event_case_gen_params),
	KUNIT_CASE(test_event_fatal),
	KUNIT_CASE(test_statuses),
	KUNIT_CASE_PARAM(test_cause, cause_gen_params),
	KUNIT_CASE(test_cause_all),
	KUNIT_CASE(test_path_moves),
	KUNIT_CASE(test_mcast_moves),
	KUNIT_CASE(test_link_moves),
	KUNIT_CASE(test_conn_moves),
	KUNIT_CASE(test_state_names),
	KUNIT_CASE(test_path_delay),
	KUNIT_CASE(test_mcast_delay),
	KUNIT_CASE(test_mcast_delay_broadcast),
	KUNIT_CASE(test_probe),
	KUNIT_CASE(test_link_delay),
	KUNIT_CASE(test_link_may_wait),
	KUNIT_CASE(test_dev_delay),
	KUNIT_CASE(test_unsent_delay),
	KUNIT_CASE(test_delay_spread),
	KUNIT_CASE(test_rc_bufs),
	KUNIT_CASE(test_path_may_ask),
	KUNIT_CASE(test_path_deny_delay),
	KUNIT_CASE(test_path_doubtful),
	KUNIT_CASE_PARAM(test_cm_admit, admit_case_gen_params),
	KUNIT_CASE(test_cm_admit_shares),
	KUNIT_CASE(test_half_open),
	KUNIT_CASE(test_tx_idle),
	KUNIT_CASE(test_ring_free),
	KUNIT_CASE(test_ring_holds),
	KUNIT_CASE(test_ring_passed),
	KUNIT_CASE_PARAM(test_queue_size, queue_case_gen_params),
	KUNIT_CASE(test_queue_size_all),
	KUNIT_CASE(test_sendq_fit),
	KUNIT_CASE(test_recvq_fit),
	KUNIT_CASE(test_child_sendq),
	KUNIT_CASE(test_srq_fit),
	KUNIT_CASE(test_srq_want),
	KUNIT_CASE(test_cq_size),
	KUNIT_CASE(test_rx_head),
	KUNIT_CASE(test_mtu),
	KUNIT_CASE_PARAM(test_link_speed, speed_case_gen_params),
	KUNIT_CASE_PARAM(test_name_listed, list_case_gen_params),
	{ }
};

static struct kunit_suite ipoib_rules_suite = {
	.name = "ipoib_rules",
	.test_cases = ipoib_rules_cases,
};

static struct kunit_case ipoib_fit_cases[] = {
	KUNIT_CASE(test_fit_product),
	KUNIT_CASE(test_fit_unknown_types),
	KUNIT_CASE_PARAM(test_fit, fit_case_gen_params),
	KUNIT_CASE(test_fit_shared),
	KUNIT_CASE(test_fit_imm),
	KUNIT_CASE(test_fit_hca_csum),
	{ }
};

static struct kunit_suite ipoib_fit_suite = {
	.name = "ipoib_fit",
	.test_cases = ipoib_fit_cases,
};

kunit_test_suites(&ipoib_proto_suite, &ipoib_rules_suite, &ipoib_fit_suite);

MODULE_DESCRIPTION("Unit tests of IP over InfiniBand");
MODULE_LICENSE("GPL");
