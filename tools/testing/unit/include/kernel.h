/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel as the driver's pure logic uses, in user space
 *
 * Included before everything else.  Structures of packets come from the
 * kernel's headers for user space; headers that have no such counterpart are
 * empty files, made by the Makefile.
 */
#ifndef UNIT_KERNEL_H
#define UNIT_KERNEL_H

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define U8_MAX		UINT8_MAX
#define U16_MAX		UINT16_MAX
#define U32_MAX		UINT32_MAX

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __noreturn	__attribute__((__noreturn__))
#define __packed	__attribute__((__packed__))
#define __printf(a, b)	__attribute__((__format__(printf, a, b)))

#define IS_MODULE(option)	0
#define EXPORT_SYMBOL_GPL(symbol)	_Static_assert(1, #symbol)
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_LICENSE(text)		_Static_assert(1, text)

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIT(n)		(1UL << (n))

/* linux/minmax.h */
#define min_t(type, a, b) ({ type __a = (a), __b = (b); __a < __b ? __a : __b; })
#define max_t(type, a, b) ({ type __a = (a), __b = (b); __a > __b ? __a : __b; })
#define min(a, b)	min_t(typeof((a) + (b)), a, b)
#define max(a, b)	max_t(typeof((a) + (b)), a, b)
#define min3(a, b, c)	min(min(a, b), c)
#define clamp(v, lo, hi) min(max(v, lo), hi)

/* byte order */
#define htons(x)	((__be16)htobe16(x))
#define cpu_to_be16(x)	((__be16)htobe16(x))
#define cpu_to_be32(x)	((__be32)htobe32(x))
#define be16_to_cpu(x)	be16toh(x)
#define be32_to_cpu(x)	be32toh(x)

/* linux/unaligned.h */
#define get_unaligned(p) ({						\
	const struct { typeof(*(p)) x; } __packed *__p =		\
		(const void *)(p);					\
	__p->x;								\
})

static inline u16 get_unaligned_be16(const void *p)
{
	return be16toh(get_unaligned((const u16 *)p));
}

static inline u32 get_unaligned_be32(const void *p)
{
	return be32toh(get_unaligned((const u32 *)p));
}

static inline void put_unaligned_be16(u16 x, void *p)
{
	x = htobe16(x);
	memcpy(p, &x, sizeof(x));
}

static inline void put_unaligned_be32(u32 x, void *p)
{
	x = htobe32(x);
	memcpy(p, &x, sizeof(x));
}

#define __read_mostly

/* linux/math64.h */
static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
#ifdef __SIZEOF_INT128__
	return (unsigned __int128)a * b >> shift;
#else
	/* The parts of the product that begin at bits 0, 32 and 64; @shift is 64 or more. */
	u64 low = (u64)(u32)a * (u32)b, high = (a >> 32) * (b >> 32);
	u64 middle = (a >> 32) * (u32)b + (low >> 32);

	high += middle >> 32;
	middle = (u32)middle + (u64)(u32)a * (b >> 32);
	return (high + (middle >> 32)) >> (shift - 64);
#endif
}

/* linux/math.h */
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

static inline u32 reciprocal_scale(u32 value, u32 end)
{
	return (u64)value * end >> 32;
}

/* linux/log2.h */
static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1UL << (8 * sizeof(n) - 1 - __builtin_clzl(n));
}

static inline int ilog2(unsigned long n)
{
	return 8 * sizeof(n) - 1 - __builtin_clzl(n);
}

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return n == 1 ? 1 : rounddown_pow_of_two(n - 1) << 1;
}

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

/* linux/jiffies.h */
#define HZ			250
#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)

/* linux/string.h, linux/kstrtox.h */
static inline const char *skip_spaces(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

static inline ssize_t strscpy(char *to, const char *from, size_t size)
{
	return snprintf(to, size, "%s", from);
}

int kstrtou16(const char *s, unsigned int base, u16 *res);

#endif /* UNIT_KERNEL_H */
