// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inputs: their form, and how they are changed
 *
 * kind, variant, length in two bytes (big-endian), data; and again.  What does
 * not fit is cut, so that any bytes are an input.
 */
#include <linux/eipoib.h>
#include <linux/ethtool.h>
#include <linux/ipoib.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"

/* One of so many times two inputs are made one when libFuzzer wants it. */
#define CROSS_OVER	4

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
			       unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size,
				 const uint8_t *other, size_t other_size,
				 uint8_t *out, size_t max, unsigned int seed);

/**
 * input_parse - the calls of an input
 * @calls: CALLS_MAX of them
 * @data: the input
 * @size: its length
 *
 * Return: their number
 */
int input_parse(struct call *calls, const u8 *data, size_t size)
{
	int n = 0;

	while (size >= CALL_HEADER && n < CALLS_MAX) {
		struct call *call = &calls[n++];

		call->kind = data[0] % CALL_KINDS;
		call->variant = data[1];
		call->len = MIN((size_t)(data[2] << 8 | data[3]),
				MIN(size - CALL_HEADER, (size_t)CALL_DATA_MAX));
		call->data = data + CALL_HEADER;
		data += CALL_HEADER + call->len;
		size -= CALL_HEADER + call->len;
	}
	return n;
}

static size_t input_write(u8 *to, size_t max, const struct call *calls, int n)
{
	size_t size = 0;
	int i;

	for (i = 0; i < n; i++) {
		const struct call *call = &calls[i];

		if (size + CALL_HEADER + call->len > max)
			break;
		to[size] = call->kind;
		to[size + 1] = call->variant;
		to[size + 2] = call->len >> 8;
		to[size + 3] = call->len;
		memcpy(to + size + CALL_HEADER, call->data, call->len);
		size += CALL_HEADER + call->len;
	}
	return size;
}

/* ---- what calls take from their data ------------------------------------ */

struct reader reader_of(const struct call *call)
{
	return (struct reader){ .pos = call->data, .left = call->len };
}

/* Copy what is there; return how much that is. */
size_t take(struct reader *r, void *to, size_t len)
{
	len = MIN(len, r->left);
	if (len)
		memcpy(to, r->pos, len);
	r->pos += len;
	r->left -= len;
	return len;
}

u8 take8(struct reader *r)
{
	u8 value = 0;

	take(r, &value, sizeof(value));
	return value;
}

u16 take16(struct reader *r)
{
	u16 high = take8(r);

	return high << 8 | take8(r);
}

u32 take32(struct reader *r)
{
	u32 high = take16(r);

	return high << 16 | take16(r);
}

/* A number of places, and each place with what to change there */
void take_patches(struct reader *r, u8 *message, size_t len)
{
	int n = take8(r) % 8;

	while (n--) {
		u8 place = take8(r), change = take8(r);

		if (place < len)
			message[place] ^= change;
	}
}

/* ---- changes ------------------------------------------------------------ */

/* Not rand(), which libFuzzer's other parts may use. */
static u32 dice(u32 *state, u32 sides)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % sides;
}

#define RANGES	6

/**
 * struct range - variants of a kind
 * @first: the first one
 * @last: the last one
 * @weight: how often it is one of these, compared with other ranges
 */
struct range {
	u8 first;
	u8 last;
	u8 weight;
};

/**
 * struct kind - how often a call is made
 * @weight: compared with other kinds: by how much there is behind it
 * @variants: which of its variants; a kind has to say it, or none is made
 */
struct kind {
	u8 weight;
	struct range variants[RANGES];
};

#define ANY(n)	{ 0, 255, n }

/* Packets by what they carry; with a length, or indecent */
#define PAYLOADS	{ 0, 23, 8 }, { 0x40, 0x57, 2 }, { 0x80, 0x97, 2 }, ANY(1)
/* Generic netlink: see genl_call(); ethtool's commands are those of Linux 6.12. */
#define FAMILY(n)	((n) << 6)
#define ETHTOOL_COMMANDS	44

static const struct kind kinds[CALL_KINDS] = {
	[CALL_PACKET] = { 6, {
		PAYLOADS,
		{ 0x20, 0x37, 2 },	/* other headers */
	} },
	[CALL_CM] = { 4, {
		{ 0, 0, 3 },		/* without a REQ there is nothing else */
		{ 1, 6, 5 },
		{ 7, 10, 1 },
	} },
	[CALL_SA] = { 3, {
		{ 0, 0, 3 },
		{ 1, 1, 1 },
	} },
	[CALL_LINK] = { 4, {
		{ 0, 15, 3 },
		ANY(1),			/* links that are made with more */
	} },
	[CALL_GENL] = { 4, {
		{ FAMILY(0) + 1, FAMILY(0) + IPOIB_CMD_MAX, 4 },
		{ FAMILY(1) + 1, FAMILY(1) + EIPOIB_CMD_MAX, 4 },
		{ FAMILY(2) + 1, FAMILY(2) + ETHTOOL_COMMANDS, 4 },
		ANY(1),
	} },
	[CALL_ETHTOOL] = { 2, {
		{ ETHTOOL_GCOALESCE, ETHTOOL_SRINGPARAM, 4 },
		{ ETHTOOL_GPFLAGS, ETHTOOL_SPFLAGS, 2 },
		{ ETHTOOL_GCHANNELS, ETHTOOL_SCHANNELS, 3 },
		{ ETHTOOL_GSET, ETHTOOL_SFECPARAM, 4 },
		{ 0x80, 0x87, 2 },	/* other ioctls */
		ANY(1),
	} },
	[CALL_WRITE] = { 3, { ANY(1) } },
	[CALL_READ] = { 1, { ANY(1) } },
	[CALL_VERBS] = { 6, {
		{ VERBS_SCENE, VERBS_LAST, 8 },
		{ IB_USER_VERBS_CMD_CREATE_QP, IB_USER_VERBS_CMD_POST_RECV, 3 },
		{ 0, IB_USER_VERBS_CMD_POST_SRQ_RECV, 3 },
		{ VERBS_IOCTL, VERBS_IOCTL + UVERBS_OBJECT_ASYNC_EVENT, 1 },
		ANY(1),
	} },
	[CALL_SEND] = { 4, { PAYLOADS } },
	[CALL_WAIT] = { 1, { { 0, 15, 1 } } },
};

static u8 random_kind(u32 *state)
{
	u32 sum = 0, at;
	u8 kind;

	for (kind = 0; kind < CALL_KINDS; kind++)
		sum += kinds[kind].weight;
	at = dice(state, sum);
	for (kind = 0; at >= kinds[kind].weight; kind++)
		at -= kinds[kind].weight;
	return kind;
}

static u8 random_variant(u8 kind, u32 *state)
{
	const struct range *range = kinds[kind].variants;
	u32 sum = 0, at;
	int n;

	for (n = 0; n < RANGES; n++)
		sum += range[n].weight;
	at = dice(state, sum);
	for (; at >= range->weight; range++)
		at -= range->weight;
	return range->first + dice(state, range->last - range->first + 1);
}

static int insert_call(struct call *calls, int n, u8 *data, u32 *state)
{
	int at = dice(state, n + 1);
	u8 kind = random_kind(state);

	if (n == CALLS_MAX)
		return n;
	memmove(&calls[at + 1], &calls[at], (n - at) * sizeof(*calls));
	memset(data, 0, 16);
	calls[at] = (struct call){
		.kind = kind,
		.variant = random_variant(kind, state),
		.data = data,
	};
	if (dice(state, 3))
		calls[at].len = LLVMFuzzerMutate(data, dice(state, 16), 64);
	return n + 1;
}

static int remove_call(struct call *calls, int n, u32 *state)
{
	int at = dice(state, n);

	memmove(&calls[at], &calls[at + 1], (n - at - 1) * sizeof(*calls));
	return n - 1;
}

static int repeat_call(struct call *calls, int n, u32 *state)
{
	int from = dice(state, n), to = dice(state, n + 1);
	struct call call = calls[from];

	if (n == CALLS_MAX)
		return n;
	memmove(&calls[to + 1], &calls[to], (n - to) * sizeof(*calls));
	calls[to] = call;
	return n + 1;
}

static void change_data(struct call *call, u8 *data)
{
	memcpy(data, call->data, call->len);
	call->len = LLVMFuzzerMutate(data, call->len, CALL_DATA_MAX);
	call->data = data;
}

static int change_calls(struct call *calls, int n, u8 *data, u32 *state)
{
	struct call *call, other;

	if (!n)
		return insert_call(calls, n, data, state);
	call = &calls[dice(state, n)];
	switch (dice(state, 16)) {
	case 0 ... 7:
		change_data(call, data);
		return n;
	case 8 ... 10:
		return insert_call(calls, n, data, state);
	case 11:
		return n > 1 ? remove_call(calls, n, state) : n;
	case 12:
		return repeat_call(calls, n, state);
	case 13:
		call->variant = random_variant(call->kind, state);
		return n;
	case 14:
		call->variant ^= 1 << dice(state, 8);
		return n;
	default:
		other = calls[0];
		calls[0] = *call;
		*call = other;
		return n;
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
			       unsigned int seed)
{
	static u8 before[INPUT_MAX], scratch[4][CALL_DATA_MAX];
	struct call calls[CALLS_MAX];
	u32 state = seed;
	u32 i, times;
	int n;

	size = MIN(size, sizeof(before));
	memcpy(before, data, size);
	n = input_parse(calls, before, size);
	times = 1 + dice(&state, ARRAY_SIZE(scratch));
	for (i = 0; i < times; i++)
		n = change_calls(calls, n, scratch[i], &state);
	return input_write(data, max, calls, n);
}

/*
 * The beginning of one and the end of the other.  libFuzzer would do this as often
 * as all else together; it takes 0 for "something else, please".
 */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size,
				 const uint8_t *other, size_t other_size,
				 uint8_t *out, size_t max, unsigned int seed)
{
	struct call first[CALLS_MAX], second[CALLS_MAX];
	int n = input_parse(first, one, one_size);
	int m = input_parse(second, other, other_size);
	u32 state = seed;
	int from;

	if (dice(&state, CROSS_OVER))
		return 0;
	n = dice(&state, n + 1);
	from = dice(&state, m + 1);
	m = MIN(m - from, CALLS_MAX - n);
	memcpy(&first[n], &second[from], m * sizeof(*first));
	return input_write(out, max, first, n + m);
}
