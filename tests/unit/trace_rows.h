/* SPDX-License-Identifier: Apache-2.0
 *
 * Random rows of every record kind, made from the column tables, so that a new kind or column is
 * covered the day it is added. For tests of the trace; one thread. Include once per program.
 */
#ifndef TESTS_TRACE_ROWS_H
#define TESTS_TRACE_ROWS_H

#include <stdlib.h>
#include <string.h>

#include "trace/codec.h"
#include "trace/encoder.h"
#include "trace/records.h"

#define ROW_LIST_MAX 40 /* values of one list of a random row */

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15u;
	uint64_t z = rng->state;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return rng_next(rng) % n;
}

union any_row {
#define KIND(id, NAME, name) struct row_##name name;
	RECORD_KINDS(KIND)
#undef KIND
};

struct random_row {
	union any_row row;
	uint64_t lists[2][ROW_LIST_MAX]; /* room for the widest type */
};

/* Small, large and extreme values alike, cut to the column's type. */
static inline uint64_t random_value(struct rng *rng)
{
	uint64_t v = rng_next(rng);

	switch (rng_below(rng, 8)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return UINT64_C(1) << 63;
	case 3:
		return v;
	default:
		return v >> (8 + rng_below(rng, 56));
	}
}

/* Times stay in a range where sums make sense; references lie in 1..n_ids. No step is the session's
 * first, which would change the rows before it. */
static inline void random_row(struct rng *rng, unsigned int kind, uint32_t n_ids,
			      struct random_row *ret)
{
	const struct kind_desc *desc = kind_desc(kind);
	char *row = (char *)&ret->row;
	int list = 0;

	memset(ret, 0, sizeof(*ret));
	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		uint64_t v = random_value(rng);

		if (column->count_column >= 0)
			continue;
		if (column->refers)
			v = 1 + rng_below(rng, n_ids);
		if (column->type == COLUMN_I64) /* readers take more for damage */
			v = (uint64_t)((int64_t)v >> 2);
		if (column->coding == CODING_DUR)
			v = rng_below(rng, 1u << 30);
		if (c == desc->time_column)
			v = rng_below(rng, UINT64_C(1) << 50);
		if (kind == RECORD_STEP && !strcmp(column->name, "first"))
			v = 0;
		column_narrow(column->type, &v, 1, row + column->row_offset);
	}
	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		uint64_t n, values[ROW_LIST_MAX];
		const void *at;

		if (column->count_column < 0)
			continue;
		n = rng_below(rng, 4) ? rng_below(rng, ROW_LIST_MAX) : 0;
		column_narrow(desc->columns[column->count_column].type, &n, 1,
			      row + desc->columns[column->count_column].row_offset);
		for (size_t i = 0; i < n; i++)
			values[i] = random_value(rng);
		column_narrow(column->type, values, n, ret->lists[list]);
		at = ret->lists[list++];
		memcpy(row + column->row_offset, &at, sizeof(at));
	}
}

/* The dictionaries that the references of random_row need: n strings and sites and launches. */
static inline int append_dictionaries(struct encoder *encoder, uint32_t n)
{
	for (uint32_t i = 1; i <= n; i++) {
		char text[16];
		struct row_string string = { .id = i, .text = text };
		struct row_site site = {
			.name = i, .layer = (int32_t)i - 2, .expert = -1, .phase = (uint8_t)(i % 4)
		};
		struct row_launch launch = { .name = i, .grid_x = i, .block_x = 32 };
		int r;

		for (uint32_t l = string.length = i % 11; l > 0; l--)
			text[l - 1] = (char)('a' + (i + l) % 26);
		r = encoder_append(encoder, RECORD_STRING, &string);
		if (r < 0)
			return r;
		if (encoder_site(encoder, &site) != i || encoder_launch(encoder, &launch) != i)
			return -1;
	}
	return 0;
}

#endif
