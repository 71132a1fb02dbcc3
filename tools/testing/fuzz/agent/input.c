// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inputs: their form, and how they are changed
 *
 * kind, variant, length in two bytes (big-endian), data; and again.  What does
 * not fit is cut, so that any bytes are an input.
 */
#include <stdlib.h>
#include <string.h>

#include "agent.h"

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

/* Kinds by how much there is behind them */
static const u8 kind_weights[CALL_KINDS] = {
	[CALL_PACKET] = 6, [CALL_CM] = 4, [CALL_SA] = 3, [CALL_LINK] = 4,
	[CALL_GENL] = 4, [CALL_ETHTOOL] = 2, [CALL_WRITE] = 3, [CALL_READ] = 1,
	[CALL_VERBS] = 6, [CALL_SEND] = 4, [CALL_WAIT] = 1,
};

static u8 random_kind(u32 *state)
{
	u32 sum = 0, at;
	u8 kind;

	for (kind = 0; kind < CALL_KINDS; kind++)
		sum += kind_weights[kind];
	at = dice(state, sum);
	for (kind = 0; at >= kind_weights[kind]; kind++)
		at -= kind_weights[kind];
	return kind;
}

static u8 random_variant(u32 *state)
{
	/* Those of most kinds are small numbers. */
	return dice(state, 2) ? dice(state, 16) : dice(state, 256);
}

static int insert_call(struct call *calls, int n, u8 *data, u32 *state)
{
	int at = dice(state, n + 1);

	if (n == CALLS_MAX)
		return n;
	memmove(&calls[at + 1], &calls[at], (n - at) * sizeof(*calls));
	memset(data, 0, 16);
	calls[at] = (struct call){
		.kind = random_kind(state),
		.variant = random_variant(state),
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
		call->variant = random_variant(state);
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

/* The beginning of one and the end of the other */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t one_size,
				 const uint8_t *other, size_t other_size,
				 uint8_t *out, size_t max, unsigned int seed)
{
	struct call first[CALLS_MAX], second[CALLS_MAX];
	int n = input_parse(first, one, one_size);
	int m = input_parse(second, other, other_size);
	u32 state = seed;
	int from;

	n = dice(&state, n + 1);
	from = dice(&state, m + 1);
	m = MIN(m - from, CALLS_MAX - n);
	memcpy(&first[n], &second[from], m * sizeof(*first));
	return input_write(out, max, first, n + m);
}
