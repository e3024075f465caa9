/* SPDX-License-Identifier: Apache-2.0
 *
 * The column codec: every coding gives back what it was given, and damaged planes are refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trace_rows.h"

static const enum column_coding codings[] = { CODING_PLAIN, CODING_DELTA, CODING_START, CODING_DUR,
					      CODING_FLOAT, CODING_LIST,  CODING_BYTES };
#define N_CODINGS (sizeof(codings) / sizeof(codings[0]))

static const size_t lengths[] = { 0, 1, 2, 47, 48, 49, 511, 512, 513, 8192 };
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

struct coded {
	struct codec codec;
	struct buf entries, data;
	struct column_view view;
};

static void coded_release(struct coded *coded)
{
	codec_release(&coded->codec);
	buf_release(&coded->entries);
	buf_release(&coded->data);
}

static void encode(struct coded *coded, enum column_coding coding, const uint64_t *values,
		   const uint64_t *duration, size_t n)
{
	struct column_desc column = { .id = 9, .coding = (uint8_t)coding, .count_column = -1 };
	uint64_t *copy = malloc((n + 1) * sizeof(*copy));

	assert_non_null(copy);
	if (n)
		memcpy(copy, values, n * sizeof(*copy));
	coded->entries.size = coded->data.size = 0;
	assert_int_equal(codec_encode(&coded->codec, &column, copy, duration, n, &coded->entries,
				      &coded->data),
			 0);
	free(copy);
	memcpy(&coded->view.entry, coded->entries.data, sizeof(coded->view.entry));
	assert_int_equal(coded->entries.size,
			 sizeof(struct column_entry) + 4 * coded->view.entry.width);
	assert_int_equal(coded->view.entry.n_values, n);
	coded->view.planes = (uint8_t *)coded->entries.data + sizeof(struct column_entry);
	coded->view.data = (uint8_t *)coded->data.data;
	coded->view.stored_bytes = coded->data.size;
}

static void round_trip(struct coded *coded, enum column_coding coding, const uint64_t *values,
		       const uint64_t *duration, size_t n)
{
	uint64_t *back = malloc((n + 1) * sizeof(*back));

	assert_non_null(back);
	/* Anything but the answer, so that what is not written is seen. */
	for (size_t i = 0; i < n; i++)
		back[i] = ~values[i];
	encode(coded, coding, values, duration, n);
	assert_int_equal(codec_decode(&coded->codec, &coded->view, duration, back), 0);
	if (n)
		assert_memory_equal(back, values, n * sizeof(*back));
	free(back);
}

static uint64_t pattern(int which, size_t i)
{
	static const uint64_t edges[] = {
		0,   1,	  UINT64_MAX,	     (uint64_t)INT64_MAX, (uint64_t)INT64_MIN,
		255, 256, UINT64_C(1) << 32, 0 - UINT64_C(256),	  0x7ff8000000000000u
	};
	const size_t n = sizeof(edges) / sizeof(edges[0]);

	switch (which) {
	case 0:
		return i % 2 ? UINT64_MAX : 0;
	case 1:
		return i % 2 ? (uint64_t)INT64_MIN : (uint64_t)INT64_MAX;
	case 2:
		return edges[i % n];
	case 3:
		return edges[(i * 7 + 3) % n] + i;
	case 4:
		return i;
	case 5:
		return 0 - (uint64_t)i;
	default:
		return edges[(size_t)which % n]; /* constant */
	}
}

static void test_edges(void **state)
{
	static uint64_t values[8192], duration[8192];
	struct coded coded = { 0 };

	(void)state;
	for (size_t c = 0; c < N_CODINGS; c++) {
		for (size_t l = 0; l < N_LENGTHS; l++) {
			for (int which = 0; which < 16; which++) {
				for (size_t i = 0; i < lengths[l]; i++) {
					values[i] = pattern(which, i);
					duration[i] = pattern(15 - which, i);
				}
				round_trip(&coded, codings[c], values, duration, lengths[l]);
			}
		}
	}
	coded_release(&coded);
}

static void test_constant_column_has_no_planes(void **state)
{
	uint64_t values[100];
	struct coded coded = { 0 };

	(void)state;
	for (size_t i = 0; i < 100; i++)
		values[i] = UINT64_C(0xfedcba9876543210);
	for (size_t c = 0; c < N_CODINGS; c++) {
		if (codings[c] == CODING_START)
			continue;
		round_trip(&coded, codings[c], values, values, 100);
		assert_int_equal(coded.view.entry.width, 0);
		assert_int_equal(coded.data.size, 0);
	}
	coded_release(&coded);
}

static void test_back_to_back_starts_are_free(void **state)
{
	uint64_t start[500], duration[500], at = UINT64_C(1) << 40;
	struct coded coded = { 0 };
	struct rng rng = { 5 };

	(void)state;
	for (size_t i = 0; i < 500; i++) {
		start[i] = at;
		duration[i] = rng_below(&rng, 1u << 20);
		at += duration[i];
	}
	round_trip(&coded, CODING_START, start, duration, 500);
	assert_int_equal(coded.view.entry.width, 0);
	coded_release(&coded);
}

static void test_random(void **state)
{
	static uint64_t values[8192], duration[8192];
	struct coded coded = { 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct rng rng = { seed };
		size_t n = rng_below(&rng, seed % 10 ? 200 : 8193);
		unsigned int shift = (unsigned int)rng_below(&rng, 64);

		for (size_t i = 0; i < n; i++) {
			values[i] = rng_below(&rng, 16) ? rng_next(&rng) >> shift
							: random_value(&rng);
			duration[i] = rng_next(&rng) >> rng_below(&rng, 64);
		}
		round_trip(&coded, codings[seed % N_CODINGS], values, duration, n);
	}
	coded_release(&coded);
}

/* Damage of one kind: 0 or -EBADMSG, never anything else, and where `refused` it must be seen. */
static void decode_damaged(struct coded *coded, const struct column_view *view, bool refused)
{
	uint64_t back[4096], duration[4096] = { 0 };
	int r;

	assert_true(view->entry.n_values <= 4096);
	r = codec_decode(&coded->codec, view, duration, back);
	assert_true(r == 0 || r == -EBADMSG);
	if (refused)
		assert_int_equal(r, -EBADMSG);
}

static void test_damaged_planes(void **state)
{
	uint64_t values[2000], duration[2000];
	struct coded coded = { 0 };
	struct rng rng = { 77 };

	(void)state;
	for (size_t i = 0; i < 2000; i++) {
		values[i] = rng_below(&rng, 1000); /* low plane noise, next one compressible */
		duration[i] = 1;
	}
	encode(&coded, CODING_DELTA, values, duration, 2000);
	assert_true(coded.view.entry.width > 0);
	for (unsigned int p = 0; p < coded.view.entry.width; p++) {
		uint8_t planes[32];
		struct column_view view = coded.view;
		uint32_t stored;

		memcpy(planes, coded.view.planes, view.entry.width * sizeof(stored));
		view.planes = planes;
		memcpy(&stored, planes + p * sizeof(stored), sizeof(stored));
		/* Every mode but its own, and lengths that do not fit. */
		for (uint32_t mode = 0; mode < 4; mode++) {
			uint32_t other = PLANE_ENTRY(mode, PLANE_BYTES(stored));

			memcpy(planes + p * sizeof(stored), &other, sizeof(other));
			decode_damaged(&coded, &view, mode != PLANE_MODE(stored));
		}
		for (uint32_t less = 1; less < PLANE_BYTES(stored); less += 7) {
			uint32_t other = PLANE_ENTRY(PLANE_MODE(stored), less);

			memcpy(planes + p * sizeof(stored), &other, sizeof(other));
			decode_damaged(&coded, &view, true);
		}
	}
	/* More values than the planes hold. */
	coded.view.entry.n_values = 2001;
	decode_damaged(&coded, &coded.view, true);
	coded_release(&coded);
}

static void test_flipped_bytes(void **state)
{
	uint64_t values[600], duration[600];
	struct coded coded = { 0 };
	struct rng rng = { 78 };

	(void)state;
	for (size_t i = 0; i < 600; i++)
		values[i] = duration[i] = i / 7 + rng_below(&rng, 4) * 1000;
	encode(&coded, CODING_PLAIN, values, duration, 600);
	for (size_t at = 0; at < coded.data.size; at++) {
		char before = coded.data.data[at];

		coded.data.data[at] = (char)~before;
		decode_damaged(&coded, &coded.view, false);
		coded.data.data[at] = before;
	}
	coded_release(&coded);
}

static void test_unknown_coding(void **state)
{
	uint64_t values[10] = { 1, 2, 3 }, duration[10] = { 0 };
	struct coded coded = { 0 };

	(void)state;
	encode(&coded, CODING_PLAIN, values, duration, 10);
	for (unsigned int coding = CODING_BYTES + 1; coding < 256; coding++) {
		coded.view.entry.coding = (uint8_t)coding;
		decode_damaged(&coded, &coded.view, true);
	}
	/* A start time without its durations. */
	coded.view.entry.coding = CODING_START;
	assert_int_equal(codec_decode(&coded.codec, &coded.view, NULL, values), -EBADMSG);
	coded_release(&coded);
}

static void test_narrow_and_gather(void **state)
{
	static const enum column_type types[] = { COLUMN_U8,  COLUMN_U16, COLUMN_U32, COLUMN_U64,
						  COLUMN_I32, COLUMN_I64, COLUMN_F64 };
	struct rng rng = { 4 };

	(void)state;
	for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		uint64_t values[64], back[64], narrow[64];
		size_t size = column_type_size(types[t]);
		uint64_t mask = size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;

		for (size_t i = 0; i < 64; i++)
			values[i] = random_value(&rng);
		column_narrow(types[t], values, 64, narrow);
		column_gather(types[t], (char *)narrow, size, 64, back);
		for (size_t i = 0; i < 64; i++) {
			uint64_t want = values[i] & mask;

			if (types[t] == COLUMN_I32)
				want = (uint64_t)(int64_t)(int32_t)want;
			assert_int_equal(back[i], want);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_constant_column_has_no_planes),
		cmocka_unit_test(test_back_to_back_starts_are_free),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_damaged_planes),
		cmocka_unit_test(test_flipped_bytes),
		cmocka_unit_test(test_unknown_coding),
		cmocka_unit_test(test_narrow_and_gather),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
